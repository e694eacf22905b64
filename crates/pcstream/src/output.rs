//! The trace that a command writes: it is whole in the end, or not there.

use std::path::Path;

use anyhow::Context as _;
use pcstream_trace::store::remove_partial;
use pcstream_trace::{Batch, Meta, Summary, TraceWriter};

use crate::failure::Failure;

/// What goes before errors, which name the place themselves.
pub const WHAT: &str = "cannot write the trace (-o)";

/// A trace on its way to the place that `-o` names.
pub struct Output<'a> {
    path: &'a Path,
    writer: TraceWriter,
}

impl<'a> Output<'a> {
    /// Begins a trace; `force` replaces one that is there.
    pub fn create(path: &'a Path, meta: Meta, force: bool) -> anyhow::Result<Output<'a>> {
        let writer = TraceWriter::create(path, meta, force).context(WHAT)?;
        Ok(Output { path, writer })
    }

    /// Appends events.
    pub fn write(&mut self, batch: &Batch) -> anyhow::Result<()> {
        self.writer.write_batch(batch).context(WHAT)
    }

    /// What will be said about the trace.
    pub fn meta_mut(&mut self) -> &mut Meta {
        self.writer.meta_mut()
    }

    /// Completes the trace, or removes it if not all of it was `written`.
    pub fn finish<T>(self, written: Result<T, Failure>) -> Result<(Summary, T), Failure> {
        match written {
            Ok(value) => {
                let finished = self.writer.finish(None).context(WHAT);
                let summary = finished.inspect_err(|_| _ = remove_partial(self.path))?;
                Ok((summary, value))
            }
            Err(failure) => {
                // What went wrong first is what the user has to know.
                _ = self.writer.abandon();
                Err(failure)
            }
        }
    }
}
