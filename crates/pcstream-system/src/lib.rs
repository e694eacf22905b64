#![doc = include_str!("../README.md")]

pub mod memory;
pub mod run_dir;
pub mod trusted_file;
