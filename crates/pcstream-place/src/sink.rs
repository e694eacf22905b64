//! Where decisions go: the trait that every sink implements, the plain data that it gets, and what the registry says of it.
//!
//! A sink never keeps a program's write from happening: what it cannot do it counts, and the write takes the default.

use std::io;
use std::path::PathBuf;

use pcstream_trace::{ContextId, File, Life};
use serde::Serialize;

use crate::contexts::{Changes, Decisions};
use crate::device::Device;

/// Streams that a scheme can have.
pub const STREAMS_MAX: u8 = 16;

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

/// What became of the requests of one write stream, as the BPF program counts. Pages are of 4 KiB.
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
    /// Pages that should have had it, and were written without: the kernel refused it, or another page took their entry.
    pub refused_pages: u64,
    /// Pages to which the program itself gave it.
    pub pages_of_programs: u64,
}

/// The BPF program's table of streams: by its keys of contexts, in two versions of which one counts.
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

    /// The BPF program's table is there.
    fn connect(&mut self, table: Box<dyn StreamTable>) {
        drop(table);
    }

    /// Keys by which the BPF program knows contexts. A context may have several.
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

/// What a sink is made of.
#[derive(Debug)]
pub struct SinkInputs {
    /// A directory of the file system that is placed on.
    pub directory: PathBuf,
    /// Its device.
    pub device: Device,
    /// Whether hints that programs set give way.
    pub override_hints: bool,
    /// Where hints that were given are written down. Nobody else uses the file.
    pub given: PathBuf,
}

/// Whether a sink can be used on a device: why, or why not and what to do.
pub type Usable = Result<String, String>;

/// Who gives each request a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByRequest {
    /// Nobody: streams are chosen for files, or not at all.
    No,
    /// The module `pcstream_bio`.
    Module,
    /// The server of the device.
    Server,
    /// Programs, which ask; what they gave is counted.
    Programs,
}

/// A registered sink.
#[derive(Clone, Copy, Debug)]
pub struct SinkInfo {
    /// The name on the command line.
    pub name: &'static str,
    /// One line for help.
    pub summary: &'static str,
    /// Whether it works on a device.
    pub usable: fn(&Device) -> Usable,
    /// Streams that a scheme has on a device, the default included.
    pub streams: fn(&Device) -> u8,
    /// Who gives each request a stream.
    pub by_request: ByRequest,
    /// Whether programs that ask (`pcstream_stream`) are given streams of the device.
    pub answers: fn(&Device) -> bool,
    /// Makes it.
    pub make: fn(SinkInputs) -> io::Result<Box<dyn Sink>>,
}
