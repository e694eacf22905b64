#![doc = include_str!("../README.md")]
//! # Modules
//!
//! `scratch` makes, fills, mounts and removes a file system on a device of its own. `layout` says what kind
//! of page lies at an address: data, journal, inodes, bitmaps. `extents` asks the kernel where a file lies
//! and what each page of a file system is used for. `layout` uses both others, `scratch` uses `extents`.
//! `file_handle` opens files by their inodes, `mounts` reads what is mounted, `limited` asks about processes that may keep an answer back.

pub mod extents;
pub mod file_handle;
pub mod layout;
pub mod limited;
pub mod mounts;
pub mod scratch;
