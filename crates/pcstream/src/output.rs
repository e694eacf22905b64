//! The trace that a command writes: it is whole in the end, or not there.

use std::path::Path;
#[cfg(feature = "capture")]
use std::path::PathBuf;

use anyhow::Context as _;
use pcstream_trace::{Batch, Meta, Summary, TraceWriter};

use crate::failure::Failure;
use crate::whole_file::{is_stdout, resolve_directory};

/// What goes before errors, which name the place themselves.
const WHAT: &str = "cannot write the trace (-o)";

/// Begins the trace that `-o` names; `force` replaces one that is there.
pub fn begin(path: &Path, meta: Meta, force: bool) -> anyhow::Result<TraceWriter> {
    anyhow::ensure!(
        !is_stdout(path),
        "{WHAT}: a trace is a directory, which cannot go to standard output; ./- names one that is called so"
    );
    let place = resolve_directory(path).with_context(|| format!("{WHAT}: {}", path.display()))?;
    TraceWriter::create(place, meta, force).context(WHAT)
}

/// The name of one trace of several: `db.pctrace` becomes `db-PART.pctrace`.
#[cfg(feature = "capture")]
pub fn one_of_several(path: &Path, part: &str) -> PathBuf {
    let text = |text: Option<&std::ffi::OsStr>| text.unwrap_or_default().to_os_string();
    let mut name = text(path.file_stem());
    name.push(format!("-{part}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

/// A trace on its way to its place.
pub struct Output {
    writer: TraceWriter,
}

impl Output {
    /// Begins it; `force` replaces one that is there.
    pub fn create(path: &Path, meta: Meta, force: bool) -> anyhow::Result<Output> {
        Ok(Output { writer: begin(path, meta, force)? })
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
                let summary = self.writer.finish_or_remove().context(WHAT)?;
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

#[cfg(all(test, feature = "capture"))]
mod tests {
    use super::*;

    #[test]
    fn traces_get_different_names_before_their_extension() {
        let name = |path: &str| one_of_several(Path::new(path), "2").display().to_string();
        assert_eq!(name("dir.x/db.pctrace"), "dir.x/db-2.pctrace");
        assert_eq!(name("/tmp/trace"), "/tmp/trace-2");
    }
}
