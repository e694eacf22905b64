#![doc = include_str!("../README.md")]

pub mod memory;
pub mod trusted_file;
