//! A snapshot for programs: one object per interval, one line each.
//!
//! Units: bytes, bytes per second, seconds, shares from 0 to 1, lifetimes in bytes that the host wrote. What does not
//! exist is null. From the first release on, fields are added, never renamed or removed.

use std::collections::BTreeMap;

use pcstream_report::VERSION;
use pcstream_report::symbols::{Names, frame_name};
use pcstream_trace::{Kind, PAGE_BYTES};
use serde::Serialize;

use crate::snapshot::{ContextNow, Flow, Snapshot, StreamNow, Who};

/// An interval.
#[derive(Clone, Debug, Serialize)]
pub struct IntervalJson {
    /// Version of pcstream.
    pub pcstream: &'static str,
    /// When the interval ended, in seconds since 1970 UTC.
    pub unix_s: f64,
    /// Since the watch began.
    pub elapsed_s: f64,
    /// Length of the interval.
    pub interval_s: f64,
    /// Time that rates are means over.
    pub window_s: f64,
    /// Everything written.
    pub written: FlowJson,
    /// Everything discarded.
    pub discarded: FlowJson,
    /// Bytes written since the watch began, by kind.
    pub bytes_by_kind: BTreeMap<&'static str, u64>,
    /// Who wrote lately, the fastest first: contexts, or programs.
    pub contexts: Vec<ContextJson>,
    /// Streams from S0 on.
    pub streams: Vec<StreamJson>,
    /// What was lost, by cause.
    pub losses: BTreeMap<String, u64>,
    /// One of so many pages is followed for its lifetime.
    pub one_page_of: u64,
}

/// How much.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct FlowJson {
    /// In the interval.
    pub bytes: u64,
    /// Since the watch began.
    pub total_bytes: u64,
    /// Over the window.
    pub bytes_per_s: f64,
}

/// Who writes.
#[derive(Clone, Debug, Serialize)]
pub struct ContextJson {
    /// `program`, `unknown`, `given-up`, or the kind of the file system's own data.
    pub who: &'static str,
    /// Identity of the context, 16 hexadecimal digits.
    pub context: Option<String>,
    /// Path of the executable.
    pub program: Option<String>,
    /// Thread.
    pub thread: Option<String>,
    /// Entry into the kernel.
    pub entry: Option<String>,
    /// How the call path was read.
    pub unwind: Option<&'static str>,
    /// Functions, or modules and offsets, innermost first.
    pub call_path: Vec<String>,
    /// What it wrote.
    #[serde(flatten)]
    pub written: FlowJson,
    /// Of all bytes in the window.
    pub share: f64,
    /// Quarter, half, and three quarters of the pages that died lately were dead by then.
    pub lifetime_bytes: Option<[u64; 3]>,
    /// How many pages that is of.
    pub lifetimes: u32,
    /// What the scheme expects.
    pub expected_lifetime_bytes: Option<u64>,
    /// The stream of its last write.
    pub stream: Option<u8>,
    /// Files, the most written first.
    pub files: Vec<String>,
}

/// A stream.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct StreamJson {
    /// Which.
    pub stream: u8,
    /// What was written to it.
    #[serde(flatten)]
    pub written: FlowJson,
    /// Contexts whose last write went to it.
    pub contexts: usize,
}

impl IntervalJson {
    /// A snapshot that was taken at `unix_s`.
    pub fn new(snapshot: &Snapshot, unix_s: f64) -> IntervalJson {
        let by_kind = Kind::ALL.iter().zip(&snapshot.pages_by_kind);
        IntervalJson {
            pcstream: VERSION,
            unix_s,
            elapsed_s: snapshot.elapsed.as_secs_f64(),
            interval_s: snapshot.interval.as_secs_f64(),
            window_s: snapshot.window.as_secs_f64(),
            written: flow(&snapshot.written),
            discarded: flow(&snapshot.discarded),
            bytes_by_kind: by_kind.map(|(kind, pages)| (kind.name(), pages * PAGE_BYTES)).collect(),
            contexts: snapshot.contexts.iter().map(context).collect(),
            streams: snapshot.streams.iter().map(stream).collect(),
            losses: snapshot.losses.clone(),
            one_page_of: snapshot.one_page_of,
        }
    }
}

fn flow(flow: &Flow) -> FlowJson {
    FlowJson {
        bytes: flow.pages * PAGE_BYTES,
        total_bytes: flow.total_pages * PAGE_BYTES,
        bytes_per_s: flow.rate,
    }
}

fn context(row: &ContextNow) -> ContextJson {
    let program = row.context.as_ref();
    let known = program.filter(|_| !matches!(row.who, Who::Program(_)));
    ContextJson {
        who: row.who.name(),
        context: known.map(|context| context.signature.to_string()),
        program: program.map(|context| context.executable.clone()),
        thread: known.map(|context| context.comm.clone()),
        entry: known.map(|context| context.entry.clone()),
        unwind: known.map(|context| context.unwind.name()),
        call_path: known.map_or(Vec::new(), |context| {
            context.frames.iter().map(|frame| frame_name(frame, Names::Short)).collect()
        }),
        written: flow(&row.written),
        share: row.share,
        lifetime_bytes: row.lifetimes.map(|q| [q.p25, q.p50, q.p75].map(|pages| pages * PAGE_BYTES)),
        lifetimes: row.ended,
        expected_lifetime_bytes: row.expected.map(|expected| expected.lifetime * PAGE_BYTES),
        stream: row.stream.map(|stream| stream.0),
        files: row.files.iter().map(|path| path.to_string()).collect(),
    }
}

fn stream(stream: &StreamNow) -> StreamJson {
    StreamJson { stream: stream.stream.0, written: flow(&stream.written), contexts: stream.contexts }
}
