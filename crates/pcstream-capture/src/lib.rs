//! pcstream-capture
