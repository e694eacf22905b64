//! What is known at the end of an interval.
//!
//! Units: pages of 4 KiB, rates in bytes per second over the window, lifetimes in pages that the host wrote.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pcstream_placement::Stream;
use pcstream_replay::Quartiles;
use pcstream_trace::paths::file_name;
use pcstream_trace::{Context, ContextId, Kind};

use crate::placing::Placing;

/// Whose writes a row counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Who {
    /// A program context.
    Context(ContextId),
    /// All contexts of a program: a digest of the path of its executable.
    Program(u64),
    /// The file system, for itself: its journal, inodes, ...
    FileSystem(Kind),
    /// Data whose context is not known: it was dirty before the watch began, or its context was lost.
    Unknown,
    /// Of contexts that gave up their rows for want of memory.
    GivenUp,
}

impl Who {
    /// A name for rows that are not program contexts.
    pub fn name(self) -> &'static str {
        match self {
            Who::Context(_) | Who::Program(_) => "program",
            Who::FileSystem(kind) => kind.name(),
            Who::Unknown => "unknown",
            Who::GivenUp => "given-up",
        }
    }
}

/// How much was written, or discarded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flow {
    /// In the interval.
    pub pages: u64,
    /// Since the watch began.
    pub total_pages: u64,
    /// Bytes per second over the window.
    pub rate: f64,
    /// Bytes per second in each interval that is kept, the last one last.
    pub history: Vec<f64>,
}

/// What a learning scheme expects of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Lifetime in pages.
    pub lifetime: u64,
    /// Lifetimes that it comes from.
    pub samples: u32,
}

/// A row: one program context, or a part of the file system's own writes.
#[derive(Clone, Debug)]
pub struct ContextNow {
    /// Whose.
    pub who: Who,
    /// The context, with the names of functions found so far.
    pub context: Option<Arc<Context>>,
    /// Frames that tell its path from the others', innermost first; empty without a context.
    pub path: String,
    /// What it wrote.
    pub written: Flow,
    /// Share of all pages written in the window.
    pub share: f64,
    /// Pages by kind since the watch began.
    pub pages_by_kind: [u64; Kind::ALL.len()],
    /// Lifetimes that ended lately, of a sample of the pages.
    pub lifetimes: Option<Quartiles>,
    /// How many they are.
    pub ended: u32,
    /// What the scheme expects.
    pub expected: Option<Expected>,
    /// The stream of its last write.
    pub stream: Option<Stream>,
    /// Paths of the files it writes most, the most written first.
    pub files: Vec<Arc<str>>,
    /// Since its first write.
    pub first: Duration,
    /// Since its last write.
    pub last: Duration,
}

impl ContextNow {
    /// The executable's path, or what writes without one.
    pub fn program(&self) -> &str {
        match &self.context {
            Some(context) => &context.executable,
            None => self.who.name(),
        }
    }

    /// Whether a text is in the name of its program, of a function or module of its call path, or of a file. Capitals
    /// do not matter.
    pub fn mentions(&self, text: &str) -> bool {
        let has = |name: &str| {
            text.is_empty()
                || name.as_bytes().windows(text.len()).any(|part| part.eq_ignore_ascii_case(text.as_bytes()))
        };
        let of_context = |context: &Context| {
            let frames = &context.frames;
            has(&context.comm)
                || frames.iter().any(|frame| has(&frame.symbol) || has(file_name(&frame.module)))
        };
        has(self.program())
            || self.context.as_deref().is_some_and(of_context)
            || self.files.iter().any(|path| has(path))
    }

    /// The file written most; empty without one.
    pub fn file(&self) -> &str {
        self.files.first().map_or("", |path| path)
    }
}

/// A stream's share.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamNow {
    /// Which.
    pub stream: Stream,
    /// What was written to it.
    pub written: Flow,
    /// Contexts whose last write went to it, of those shown.
    pub contexts: usize,
}

/// The state at the end of an interval.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Since the watch began.
    pub elapsed: Duration,
    /// Length of the interval.
    pub interval: Duration,
    /// Time that rates are means over.
    pub window: Duration,
    /// Everything written.
    pub written: Flow,
    /// Everything discarded.
    pub discarded: Flow,
    /// Pages written by kind since the watch began.
    pub pages_by_kind: [u64; Kind::ALL.len()],
    /// Rows that wrote in an interval that is kept, the fastest first.
    pub contexts: Vec<ContextNow>,
    /// Streams from S0 on; none without a scheme.
    pub streams: Vec<StreamNow>,
    /// What was lost, by cause; of the watch too.
    pub losses: BTreeMap<String, u64>,
    /// Program contexts seen.
    pub context_count: usize,
    /// One of so many pages is followed for its lifetime.
    pub one_page_of: u64,
    /// What a placer did, if the watch is one's.
    pub placing: Option<Placing>,
}

impl Snapshot {
    /// Everything that was lost.
    pub fn lost(&self) -> u64 {
        self.losses.values().sum()
    }

    /// Seconds in which the host writes so many pages, at the rate of the window; `None` if nothing is written.
    pub fn seconds_of(&self, pages: u64) -> Option<f64> {
        (self.written.rate > 0.0)
            .then(|| (pages as f64 * pcstream_trace::PAGE_BYTES as f64) / self.written.rate)
    }

    /// Indices of the rows in an order.
    pub fn order(&self, by: SortBy, reversed: bool) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.contexts.len()).collect();
        order.sort_by(|&a, &b| {
            let (a, b) = (&self.contexts[a], &self.contexts[b]);
            let first = by.compare(a, b);
            let first = if reversed { first.reverse() } else { first };
            first.then(by_rate(a, b)).then(a.who.cmp(&b.who))
        });
        order
    }
}

/// What rows are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortBy {
    /// Bytes per second, the fastest first.
    #[default]
    Rate,
    /// Bytes since the watch began, the most first.
    Total,
    /// Median lifetime, the shortest first; those without one last.
    Lifetime,
    /// Stream.
    Stream,
    /// Name of the program; the file system's own writes last.
    Program,
    /// Path of the file; those without one last.
    File,
}

pcstream_trace::named!(SortBy:
    Rate = "rate", Total = "total", Lifetime = "lifetime", Stream = "stream",
    Program = "program", File = "file"
);

impl SortBy {
    fn compare(self, a: &ContextNow, b: &ContextNow) -> Ordering {
        let lifetime = |row: &ContextNow| row.lifetimes.map_or(u64::MAX, |q| q.p50);
        match self {
            SortBy::Rate => by_rate(a, b),
            SortBy::Total => b.written.total_pages.cmp(&a.written.total_pages),
            SortBy::Lifetime => lifetime(a).cmp(&lifetime(b)),
            SortBy::Stream => a.stream.cmp(&b.stream),
            SortBy::Program => program_key(a).cmp(&program_key(b)),
            SortBy::File => (a.file().is_empty(), a.file()).cmp(&(b.file().is_empty(), b.file())),
        }
    }
}

/// Programs by the name that is shown, then the file system.
fn program_key(row: &ContextNow) -> (bool, &str) {
    (row.context.is_none(), file_name(row.program()))
}

fn by_rate(a: &ContextNow, b: &ContextNow) -> Ordering {
    b.written.rate.total_cmp(&a.written.rate)
}
