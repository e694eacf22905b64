//! Why a session did not come up, with what libbpf printed.

use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use libbpf_rs::PrintLevel;
use pcstream_trace::Unwind;
use thiserror::Error;

use super::options::MAX_DEPTH;
use crate::wire::UnknownRecord;

/// Descriptors that a session takes, and some for its caller.
pub(super) const LEAST_FILES: usize = 60;

/// Why a session did not come up or broke down.
#[derive(Debug, Error)]
pub enum SessionError {
    /// The depth is out of range.
    #[error("depth {0} is not between 1 and {MAX_DEPTH}")]
    Depth(u32),
    /// Call paths cannot be read in that way.
    #[error("call paths cannot be read by '{}': expected exact, fp or scan", .0.name())]
    Unwind(Unwind),
    /// The BPF program alone takes more.
    #[error(
        "this process may open {0} files (ulimit -n), and a capture takes {LEAST_FILES} at least: raise the limit"
    )]
    Files(usize),
    /// The kernel refused the program.
    #[error("cannot {step} the BPF program: {source}.{log} `pcstream doctor` says what this machine lacks")]
    Bpf {
        /// open, load, run or attach
        step: &'static str,
        /// What libbpf said.
        source: libbpf_rs::Error,
        /// What libbpf printed, the verifier's log included.
        log: String,
    },
    /// A write buffer cannot be watched.
    #[error("cannot probe {name} of {}: {source}", binary.display())]
    Probe {
        /// The function or probe.
        name: String,
        /// The program or library.
        binary: PathBuf,
        /// What libbpf said.
        source: libbpf_rs::Error,
    },
    /// The size of the machine's memory could not be found out.
    #[error("cannot read the memory map from {path}: {reason}")]
    Memory {
        /// Where it was looked for.
        path: &'static str,
        /// What was wrong.
        reason: String,
    },
    /// What the kernel says of the programs could not be read.
    #[error("cannot read what the kernel counted of the BPF program: {0}")]
    Facts(io::Error),
    /// The ring buffer could not be read.
    #[error("cannot read the ring buffer: {0}")]
    Ring(libbpf_rs::Error),
    /// A record made no sense.
    #[error(transparent)]
    Record(#[from] UnknownRecord),
}

/// What libbpf printed since the last look; it has no other way to hand it over.
static LIBBPF_LOG: Mutex<String> = Mutex::new(String::new());
/// More of a log helps nobody.
const MAX_LOG: usize = 16 << 10;

pub(super) fn keep_log(_: PrintLevel, text: String) {
    if let Ok(mut log) = LIBBPF_LOG.lock()
        && log.len() < MAX_LOG
    {
        log.push_str(&text);
    }
}

pub(super) fn take_log() -> String {
    std::mem::take(&mut *LIBBPF_LOG.lock().unwrap_or_else(PoisonError::into_inner))
}

pub(super) fn bpf_error(step: &'static str, source: libbpf_rs::Error) -> SessionError {
    let log = take_log();
    let log = if log.is_empty() { log } else { format!(" libbpf says:\n{}\n", log.trim_end()) };
    SessionError::Bpf { step, source, log }
}
