//! pcstream-report
