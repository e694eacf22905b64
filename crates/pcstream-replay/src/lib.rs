//! pcstream-replay
