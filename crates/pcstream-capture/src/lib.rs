#![doc = include_str!("../README.md")]
//! # Modules
//!
//! `capture` runs a command on a scratch (or existing) file system and yields the events of a trace.
//! Beneath it: `session` (the BPF program in `bpf/`), `wire` (its records), `join` (records to events),
//! `unwind` with `call_frames` and `go_table` (exact call paths), `buffers` (programs that write what others made dirty),
//! `runtime` (paths of the Java agent), `modules` (files of programs and libraries), `signature` and `symbols` (who
//! wrote, in which source lines). `attach` follows what runs already, `target` is where. `doctor` says what this machine
//! can do.

#[cfg(feature = "bpf")]
pub mod attach;
pub mod buffers;
pub mod call_frames;
#[cfg(feature = "bpf")]
pub mod capture;
pub mod command;
#[cfg(feature = "bpf")]
mod counts;
#[cfg(feature = "bpf")]
pub mod doctor;
mod go_table;
pub mod join;
#[cfg(feature = "bpf")]
mod live_names;
pub mod modules;
#[cfg(feature = "bpf")]
mod notes;
pub mod patience;
mod programs;
#[cfg(feature = "bpf")]
pub mod running_programs;
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
