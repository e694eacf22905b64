//! pcstream-ssd
