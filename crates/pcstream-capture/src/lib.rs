//! Program contexts of every written page, from the kernel side.
//!
//! `capture` runs a command on a scratch (or existing) file system and yields the events of a trace.
//! Beneath it: `session` (the BPF program in `bpf/`), `wire` (its records), `join` (records to events),
//! `unwind` with `call_frames` (exact call paths), `buffers` (programs that write what others made dirty), `runtime` (paths of the Java agent), `modules`, `signature` and `symbols` (who wrote).
//! `pcstream-fs` says where. `doctor` says what this machine can do.
//!
//! Needs Linux 6.1 or newer with BTF, x86-64, and root.

pub mod buffers;
pub mod call_frames;
pub mod capture;
pub mod command;
pub mod doctor;
pub mod function_names;
pub mod go_names;
pub mod join;
pub mod module_data;
pub mod module_file;
pub mod modules;
pub mod patience;
pub mod runtime;
pub mod session;
pub mod signature;
pub mod symbols;
pub mod syscalls;
pub mod unwind;
pub mod wire;
