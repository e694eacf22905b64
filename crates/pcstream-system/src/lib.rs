#![doc = include_str!("../README.md")]

pub mod memory;
pub mod process;
pub mod run_dir;
pub mod shell;
pub mod trusted_file;
