//! Where decisions go: the trait that every sink implements, and the plain data that it gets.
//!
//! A sink never keeps a program's write from happening: what it cannot do it counts, and the write takes the default.

use pcstream_trace::{ContextId, File};

use crate::contexts::{Changes, Decisions};
use crate::hint::Hint;

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

/// A sink.
pub trait Sink: Send {
    /// The name in the registry.
    fn name(&self) -> &'static str;

    /// Keys by which the kernel side knows contexts. A context may have several.
    fn keys(&mut self, keys: &[(u64, ContextId)], decisions: &Decisions) {
        let _ = (keys, decisions);
    }

    /// Streams or hints of contexts changed.
    fn contexts(&mut self, changes: &Changes, decisions: &Decisions) {
        let _ = (changes, decisions);
    }

    /// The hint of a file is decided, or changed. `given` is what this sink gave it before.
    fn file(&mut self, file: &File, hint: Hint, given: Option<Hint>) -> Outcome {
        let _ = (file, hint, given);
        Outcome::NotSaid
    }

    /// The end: a file shall not keep the hint that this sink gave it.
    fn take_back(&mut self, file: &File, given: Hint) {
        let _ = (file, given);
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
