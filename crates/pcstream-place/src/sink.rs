//! Where decisions go: the trait that every sink implements, and the plain data that it gets.
//!
//! A sink never keeps a program's write from happening: what it cannot do it counts, and the write takes the default.

use std::io;

use pcstream_trace::{ContextId, File, Life};
use serde::Serialize;

use crate::contexts::{Changes, Decisions};

/// What came of saying a file's hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// This sink says nothing about files.
    NotSaid,
    /// The file has the hint.
    Set,
    /// The program had given the file a hint of its own: it stays.
    OfProgram,
    /// The file is gone.
    Gone,
    /// The kernel refused, with this error number.
    Refused(i32),
}

/// A number that a sink reports about itself, by name.
pub type SinkFact = (&'static str, u64);

/// What became of the requests of one write stream, as the kernel side counts. Pages are of 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StreamUse {
    /// As the device numbers it, from 1; 0: none was given.
    pub write_stream: u8,
    /// Requests that were given it.
    pub requests: u64,
    /// Their pages.
    pub pages: u64,
    /// Of these, pages of contexts with another stream, which were fewer than half of their request.
    pub minority_pages: u64,
    /// Pages that should have had it, but the kernel refused.
    pub refused_pages: u64,
    /// Pages to which the program itself gave it.
    pub pages_of_programs: u64,
}

/// The kernel side's table of streams: by its keys of contexts, in two versions of which one counts.
pub trait StreamTable: Send {
    /// Sets both versions of a key's stream; 0: none.
    fn put(&mut self, key: u64, versions: [u8; 2]) -> io::Result<()>;

    /// Makes a version, 0 or 1, the one that counts.
    fn switch(&mut self, version: u32) -> io::Result<()>;

    /// What was done, by write stream, those that were used only.
    fn uses(&self) -> io::Result<Vec<StreamUse>>;
}

/// A sink.
pub trait Sink: Send {
    /// The name in the registry.
    fn name(&self) -> &'static str;

    /// The kernel side's table is there.
    fn connect(&mut self, table: Box<dyn StreamTable>) {
        drop(table);
    }

    /// Keys by which the kernel side knows contexts. A context may have several.
    fn keys(&mut self, keys: &[(u64, ContextId)], decisions: &Decisions) {
        let _ = (keys, decisions);
    }

    /// Streams or hints of contexts changed.
    fn contexts(&mut self, changes: &Changes, decisions: &Decisions) {
        let _ = (changes, decisions);
    }

    /// Whether it gives files hints, which their requests carry.
    fn gives_hints(&self) -> bool {
        false
    }

    /// The hint of a file is decided, or changed.
    fn file(&mut self, file: &File, hint: Life) -> Outcome {
        let _ = (file, hint);
        Outcome::NotSaid
    }

    /// The end: nothing shall stay of what this sink did.
    fn take_back(&mut self) {}

    /// What became of requests, by write stream; empty unless the sink gives them one.
    fn uses(&self) -> Vec<StreamUse> {
        Vec::new()
    }

    /// What it did, for reports.
    fn facts(&self) -> Vec<SinkFact> {
        Vec::new()
    }

    /// What it could not do, by cause; all 0 if it could do everything.
    fn losses(&self) -> Vec<SinkFact> {
        Vec::new()
    }
}
