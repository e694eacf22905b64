//! Program contexts with what they wrote.

use std::collections::BTreeMap;

use pcstream_replay::Quartiles;
use pcstream_trace::{Context, Frame, Kind};
use serde::Serialize;

use crate::{ContextRow, SourceLine};

/// One program context.
#[derive(Clone, Debug, Serialize)]
pub struct ContextJson {
    /// Index in the trace's table; 0 for writes whose context is not known.
    pub id: u32,
    /// Identity across runs, 16 hexadecimal digits; null for writes without a context.
    pub signature: Option<String>,
    /// Path of the executable.
    pub executable: String,
    /// Thread name when first seen.
    pub comm: String,
    /// Entry into the kernel.
    pub entry: String,
    /// How the call path was obtained.
    pub unwind: &'static str,
    /// Pages written.
    pub pages: u64,
    /// Share of all pages written.
    pub share: f64,
    /// Pages by kind, kinds that occurred.
    pub kinds: BTreeMap<&'static str, u64>,
    /// Lifetimes that ended.
    pub lifetime_pages: Option<Quartiles>,
    /// Pages neither overwritten nor discarded at the end; null where the row counts a part of the context.
    pub alive_pages: Option<u64>,
    /// The stream that got most of its pages.
    pub stream: Option<u8>,
    /// The files it wrote most, heaviest first.
    pub files: Vec<FileJson>,
    /// The call path, innermost first.
    pub frames: Vec<FrameJson>,
}

/// A file that a context wrote.
#[derive(Clone, Debug, Serialize)]
pub struct FileJson {
    /// Path below the mount point; empty when it had no name.
    pub path: String,
    /// Pages that the context wrote to it.
    pub pages: u64,
}

/// One return address.
#[derive(Clone, Debug, Serialize)]
pub struct FrameJson {
    /// Path of the mapped file.
    pub module: String,
    /// Its build id, empty when it has none.
    pub build_id: String,
    /// Offset in the file.
    pub offset: u64,
    /// Function name, empty when stripped.
    pub symbol: String,
    /// Source file, if lines were asked for and it is known.
    pub file: Option<String>,
    /// Line in it, from 1.
    pub line: Option<u32>,
    /// Functions that the compiler inlined there, innermost first, if lines were asked for.
    pub inlined: Vec<InlinedJson>,
}

/// A function whose call was inlined.
#[derive(Clone, Debug, Serialize)]
pub struct InlinedJson {
    /// Its name.
    pub function: String,
    /// Source file.
    pub file: String,
    /// Line in it, from 1.
    pub line: u32,
}

pub(super) fn context(row: &ContextRow) -> ContextJson {
    let unknown = Context::default();
    let context = row.context.unwrap_or(&unknown);
    let kinds = Kind::ALL.iter().zip(&row.writer.pages_by_kind).filter(|(_, pages)| **pages > 0);
    ContextJson {
        id: context.id.0,
        signature: row.context.map(|c| c.signature.to_string()),
        executable: context.executable.clone(),
        comm: context.comm.clone(),
        entry: context.entry.clone(),
        unwind: context.unwind.name(),
        pages: row.writer.pages(),
        share: row.share,
        kinds: kinds.map(|(kind, pages)| (kind.name(), *pages)).collect(),
        lifetime_pages: row.writer.lifetimes.quartiles(),
        alive_pages: row.alive_pages(),
        stream: row.stream.map(|s| s.0),
        files: row.files.iter().map(|(path, pages)| FileJson { path: path.clone(), pages: *pages }).collect(),
        frames: context.frames.iter().enumerate().map(|(at, of)| frame(of, row.line(at))).collect(),
    }
}

fn frame(frame: &Frame, line: Option<&SourceLine>) -> FrameJson {
    let Frame { module, build_id, offset, symbol } = frame.clone();
    let inlined =
        line.iter().flat_map(|line| &line.inlined).map(|(function, SourceLine { file, line, .. })| {
            InlinedJson { function: function.clone(), file: file.clone(), line: *line }
        });
    let inlined = inlined.collect();
    let (file, line) = line.map(|line| (line.file.clone(), line.line)).unzip();
    FrameJson { module, build_id, offset, symbol, file, line, inlined }
}
