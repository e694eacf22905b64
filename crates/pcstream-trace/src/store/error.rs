//! What can be wrong with a trace on disk. Every message names the place, what was found, what was
//! expected, and what to do.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::event::{Kind, Life, MAX_TIME_NS, Op};
use crate::ids::Lba;
use crate::meta::FormatVersion;

/// A trace cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The system refused an operation on a file.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// What was tried, for "cannot ...".
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Nothing is there.
    #[error("{}: no such trace; expected a directory written by `pcstream record`, `generate` or `import`", .0.display())]
    Missing(PathBuf),
    /// Something else is there.
    #[error("{}: not a trace: {found}; expected a directory with meta.json, events.parquet, contexts.parquet and files.parquet{remedy}", path.display())]
    NotATrace {
        /// The path.
        path: PathBuf,
        /// What makes it something else.
        found: String,
        /// `; ...`, or empty.
        remedy: &'static str,
    },
    /// A file of the trace is a FIFO, a device, a directory.
    #[error("{}: not a regular file; restore it, or record the trace again", .0.display())]
    NotAFile(PathBuf),
    /// Reading the file would take more memory than a trace needs.
    #[error("{}: {place}: {problem}", path.display())]
    Excessive {
        /// The file.
        path: PathBuf,
        /// Where: a row group and a column, or a row.
        place: String,
        /// What it would take, what is allowed, and what to do.
        problem: String,
    },
    /// The writer's target is taken.
    #[error("{}: exists already; choose another name, or replace it with --force", .0.display())]
    Exists(PathBuf),
    /// A finished trace that is still where it was written.
    #[error("{}: holds a complete trace, whose recorder ended while it gave the trace its name; rename it to keep it, or remove it", .0.display())]
    Unnamed(PathBuf),
    /// A recorder is at work on it.
    #[error("{}: is being written by another process; wait until it ends, or stop it", .0.display())]
    InUse(PathBuf),
    /// Another directory, or none, is where the writer made its own.
    #[error("{}: somebody moved the directory of the unfinished trace, or put something else in its place, which was left untouched; write the trace to a directory that only you can change", .0.display())]
    Moved(PathBuf),
    /// The format is newer than this program.
    #[error("{}: trace format {found}, but this version reads 1.0 to {}.x; read it with a newer pcstream", path.display(), FormatVersion::CURRENT.major)]
    Version {
        /// `meta.json`.
        path: PathBuf,
        /// Its format version.
        found: FormatVersion,
    },
    /// `meta.json` does not say what it must, or contradicts the events.
    #[error("{}: {problem}; restore the file, or record the trace again", path.display())]
    Meta {
        /// `meta.json`.
        path: PathBuf,
        /// What is wrong, and where.
        problem: String,
    },
    /// A table lacks a column or has it with another type.
    #[error("{}: column {column}: found {found}, expected {expected}; see docs/trace-format.md", path.display())]
    Schema {
        /// The table's file.
        path: PathBuf,
        /// The column.
        column: &'static str,
        /// Its type, or `nothing`.
        found: String,
        /// The type it must have.
        expected: String,
    },
    /// The bytes of a file are damaged.
    #[error("{}: {place}: {problem}; restore the file from a copy, or record the trace again", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where: a byte offset, a row group, a row.
        place: String,
        /// What was found and what was expected.
        problem: String,
    },
    /// An event contradicts the rules for events. Rows count from 0 over the whole trace.
    #[error("{}: event {row}: {fault}; the trace is damaged or was written by a faulty program", path.display())]
    Event {
        /// The events file, or the trace that is being written.
        path: PathBuf,
        /// The event's number.
        row: u64,
        /// The rule.
        fault: EventFault,
    },
    /// A row of the contexts or files table contradicts the rules for tables. Rows count from 0.
    #[error("{}: row {row}: {problem}; the trace is damaged or was written by a faulty program", path.display())]
    Table {
        /// The table's file, or the trace that is being written.
        path: PathBuf,
        /// The row.
        row: u64,
        /// What was found and what was expected.
        problem: String,
    },
}

impl TraceError {
    pub(super) fn io(action: &'static str, path: &Path, source: std::io::Error) -> TraceError {
        TraceError::Io { action, path: path.to_owned(), source }
    }

    pub(super) fn corrupt(path: &Path, place: impl fmt::Display, problem: impl fmt::Display) -> TraceError {
        TraceError::Corrupt { path: path.to_owned(), place: place.to_string(), problem: problem.to_string() }
    }
}

/// The rule that an event breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventFault {
    /// Time runs backwards.
    #[error("time_ns {found}, expected at least {previous}, the time of the event before it")]
    Time {
        /// Time of the event before.
        previous: u64,
        /// Time of this event.
        found: u64,
    },
    /// A time from which no clock can go on.
    #[error("time_ns {0}, expected at most {MAX_TIME_NS}")]
    TooLate(u64),
    /// Only barriers have no pages.
    #[error("0 pages, expected at least 1 for {0}")]
    NoPages(&'static str),
    /// Barriers and ends of processes have no pages.
    #[error("{pages} pages, expected 0 for {op}")]
    Pages {
        /// Its operation.
        op: &'static str,
        /// What it claims.
        pages: u32,
    },
    /// The event ends behind the end of the device.
    #[error("lba {lba} + {pages} pages, expected to end within the device's {device_pages} pages")]
    BeyondDevice {
        /// First page.
        lba: Lba,
        /// Number of pages.
        pages: u32,
        /// Size of the device.
        device_pages: u64,
    },
    /// The context is not in the table.
    #[error("context {found}, expected 0 (unknown) to {known}, the entries of the contexts table")]
    Context {
        /// The context's id.
        found: u32,
        /// Number of known contexts.
        known: u64,
    },
    /// The file is not in the table.
    #[error("file {found}, expected 0 (unknown) to {known}, the entries of the files table")]
    File {
        /// The file's id.
        found: u32,
        /// Number of known files.
        known: u64,
    },
    /// The range within the file does not fit into 64 bits.
    #[error("file_page {file_page} + {pages} pages, expected to fit into 64 bits")]
    FilePage {
        /// First page within the file.
        file_page: u64,
        /// Number of pages.
        pages: u32,
    },
    /// A stored name of an operation is unknown.
    #[error("op {0:?}, expected one of {names}", names = Op::ALL.map(Op::name).join(", "))]
    Op(String),
    /// A stored name of a kind is unknown.
    #[error("kind {0:?}, expected one of {names}", names = Kind::ALL.map(Kind::name).join(", "))]
    Kind(String),
    /// An unknown hint.
    #[error("hint {0:?}, expected one of {names}", names = Life::ALL.map(Life::name).join(", "))]
    Hint(String),
    /// A write stream beyond what a request can name.
    #[error("write_stream {0}, expected 0 to 255")]
    WriteStream(u32),
}
