#![doc = include_str!("../README.md")]
//! # Modules
//!
//! `capture` runs a command on a scratch (or existing) file system and yields the events of a trace.
//! Beneath it: `session` (the BPF program in `bpf/`), `wire` (its records), `join` (records to events),
//! `unwind` with `call_frames` (exact call paths), `buffers` (programs that write what others made dirty),
//! `runtime` (paths of the Java agent), `modules`, `signature` and `symbols` (who wrote), `lines` (in which
//! source lines). `attach` follows what runs
//! already, `target` is where. `doctor` says what this machine can do.

pub mod allowance;
#[cfg(feature = "bpf")]
pub mod attach;
pub mod buffers;
pub mod call_frames;
#[cfg(feature = "bpf")]
pub mod capture;
pub mod command;
#[cfg(feature = "bpf")]
mod counts;
mod debug_files;
mod demangle;
#[cfg(feature = "bpf")]
pub mod doctor;
pub mod function_names;
mod go_names;
mod handles;
pub mod join;
pub mod lines;
#[cfg(feature = "bpf")]
mod live_names;
pub mod module_data;
pub mod module_file;
pub mod modules;
#[cfg(feature = "bpf")]
mod notes;
pub mod patience;
mod places;
mod programs;
#[cfg(feature = "bpf")]
pub mod running;
pub mod runtime;
#[cfg(feature = "bpf")]
pub mod session;
pub mod signature;
#[cfg(feature = "bpf")]
pub mod streams;
pub mod symbols;
pub mod syscalls;
#[cfg(feature = "bpf")]
pub mod target;
pub mod unwind;
pub mod wire;
