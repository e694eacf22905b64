#![doc = include_str!("../README.md")]
//! # Modules
//!
//! One module per result; [`pictures`] draws, [`human`] writes numbers for people, [`csv`] and [`json`] for
//! programs.

use std::borrow::Cow;
use std::collections::BTreeMap;

use pcstream_placement::Stream;
use pcstream_replay::{LaneResult, Replay, Writer, Writers};
use pcstream_ssd::DeviceSettings;
use pcstream_trace::{Context, FileId, Kind, Meta, Tables, TraceReader};

pub mod advice;
pub mod call_paths;
pub mod compare;
pub mod contexts;
pub mod csv;
pub mod details;
pub mod drive;
mod dropped;
pub mod emulated;
pub mod escape;
pub mod folded;
pub mod functions;
pub mod geometry;
pub mod grouped;
pub mod human;
pub mod json;
pub mod layout;
pub mod measures;
pub mod one_context;
pub mod paths;
pub mod pictures;
pub mod repeated;
pub mod saved_tables;
pub mod schemes;
pub mod settings;
pub mod space;
pub mod statistics;
pub mod symbols;
pub mod table;
mod timing;
pub mod verdict;

pub use dropped::{Dropped, dropped};
pub use layout::Layout;
pub use paths::PathShares;
pub use settings::Settings;
pub use space::ChangedSpace;
pub use timing::too_few_dies;
pub use verdict::Verdict;

/// The version of pcstream and, behind a `+`, which sources were compiled; every result tells it.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "+", env!("PCSTREAM_BUILD"));

/// Files listed per context, where not all are asked for.
pub const FILES_PER_CONTEXT: usize = 10;

/// What a result says about its origin, beyond what was measured.
#[derive(Clone, Debug)]
pub struct About {
    /// Seed of everything that draws random numbers.
    pub seed: u64,
    /// The trace.
    pub trace: TraceInfo,
    /// The profile and file that the device comes from; none if defaults and flags alone make it.
    pub device: Option<String>,
    /// What was asked for.
    pub settings: Settings,
    /// What was done to the trace's addresses; none if they stay.
    pub space: Option<ChangedSpace>,
}

impl Default for About {
    /// The seed of devices unless another is given, and a whole trace that nothing is known of.
    fn default() -> About {
        let (seed, trace) = (DeviceSettings::default().seed, TraceInfo::default());
        About { seed, trace, device: None, settings: Settings::default(), space: None }
    }
}

impl About {
    /// Where the device and what is on it come from, in words; none if defaults and flags alone make them.
    pub fn origin(&self) -> Option<String> {
        let mut parts: Vec<String> = self.device.iter().cloned().collect();
        parts.extend(self.space.iter().flat_map(ChangedSpace::in_words));
        parts.extend(self.settings.no_discard.then(|| "without discards".to_owned()));
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

/// Where the events came from.
#[derive(Clone, Debug)]
pub struct TraceInfo {
    /// Path of the trace; empty when nothing was kept.
    pub path: String,
    /// Digest of the events.
    pub id: String,
    /// The traced command.
    pub command: Vec<String>,
    /// Nanoseconds of its times, whatever of it is simulated; 0 where the simulation alone knows.
    pub duration_ns: u64,
    /// Whether its times are those of a program that ran; a generator's are not.
    pub real_time: bool,
    /// Whether a file system was recorded: imported and generated traces know of none.
    pub file_system: bool,
    /// Whether the recorded file system sent discards for all that was deleted, as scratch file systems do.
    pub discards: bool,
    /// Loss counters by cause.
    pub losses: BTreeMap<String, u64>,
    /// Whether the recorder finished the trace.
    pub complete: bool,
    /// What made reading it end early.
    pub damage: Option<String>,
}

impl Default for TraceInfo {
    /// A whole trace that nothing is known of.
    fn default() -> TraceInfo {
        TraceInfo {
            path: String::new(),
            id: String::new(),
            command: Vec::new(),
            duration_ns: 0,
            real_time: false,
            file_system: false,
            discards: false,
            losses: BTreeMap::new(),
            complete: true,
            damage: None,
        }
    }
}

impl TraceInfo {
    /// What a trace says that was read to its end, or until something was wrong with it. Then it is not known when what was read
    /// ended.
    pub fn of(path: &str, trace: &TraceReader, damage: Option<String>) -> TraceInfo {
        let mut info = TraceInfo::from_meta(path, trace.meta());
        if damage.is_some() {
            info.duration_ns = 0;
        }
        TraceInfo { damage: damage.or_else(|| trace.damage().map(str::to_owned)), ..info }
    }

    /// What a trace's meta says.
    pub fn from_meta(path: &str, meta: &Meta) -> TraceInfo {
        TraceInfo {
            path: path.to_owned(),
            id: meta.trace_id.clone(),
            command: meta.command.clone(),
            duration_ns: meta.totals.duration_ns,
            real_time: meta.created_unix_s.is_some() || !meta.settings.contains_key("generator"),
            file_system: meta.file_system.is_some(),
            discards: ["discards", "image"].iter().any(|setting| meta.settings.contains_key(*setting)),
            losses: meta.losses.clone(),
            complete: meta.complete,
            damage: None,
        }
    }

    /// Whether events are missing: dropped by the capture, or unreadable.
    pub fn has_losses(&self) -> bool {
        !self.complete || self.damage.is_some() || self.losses.values().any(|&count| count > 0)
    }
}

/// A finished comparison of schemes.
pub struct Simulation<'a> {
    /// Where it came from.
    pub about: About,
    /// At least one lane; all on devices that differ in the GC destination alone.
    pub results: Vec<LaneResult>,
    /// What the contexts wrote.
    pub writers: &'a Writers,
    /// Contexts and files.
    pub tables: &'a Tables,
}

impl<'a> Simulation<'a> {
    /// The results of a replay.
    pub fn new(about: About, replay: &'a Replay) -> Simulation<'a> {
        Simulation { about, results: replay.results(), writers: replay.writers(), tables: replay.tables() }
    }

    /// Nanoseconds of the traced time: those of the trace, also where events were left out, as packing does.
    pub fn traced_ns(&self) -> u64 {
        self.about.trace.duration_ns.max(self.writers.totals().duration_ns)
    }

    /// Whether anything is missing: from the trace, or from what schemes knew because their memory is bounded.
    pub fn has_losses(&self) -> bool {
        self.about.trace.has_losses() || !self.dropped().is_empty()
    }

    /// What schemes dropped of what they knew of live data.
    pub fn dropped(&self) -> Vec<Dropped> {
        dropped(&self.results)
    }

    /// How the call paths of the written file data were read.
    pub fn path_shares(&self) -> PathShares {
        let data = |writer: &Writer| writer.pages_by_kind[Kind::Data as usize];
        let writers = self.writers.heaviest();
        PathShares::of(writers.into_iter().map(|(id, writer)| (self.tables.context(id), data(writer))))
    }

    /// The result of which contexts have their streams: the one that the verdict recommends, or else the first.
    pub fn recommended(&self) -> usize {
        let with = verdict::with_streams(&self.results, self.writers.are_unknown());
        with.and_then(|with| self.results.iter().position(|lane| std::ptr::eq(lane, with))).unwrap_or(0)
    }

    /// Every context that wrote, heaviest first, with the streams of lane `lane` and at most `files`
    /// files each.
    pub fn context_rows(&self, lane: usize, files: usize) -> Vec<ContextRow<'a>> {
        let total = self.writers.totals().host_pages as f64;
        let top_files = self.writers.top_files(files);
        let named = |(id, pages): &(FileId, u64)| {
            (self.tables.file(*id).map_or(String::new(), |f| f.path.clone()), *pages)
        };
        let row = |(id, writer): (_, &'a Writer)| ContextRow {
            context: self.tables.context(id),
            writer: Cow::Borrowed(writer),
            share: writer.pages() as f64 / total,
            stream: self.results[lane].stream_of_context.get(id.0 as usize).copied().flatten(),
            files: top_files.get(&id).map_or(Vec::new(), |files| files.iter().map(named).collect()),
            lines: Vec::new(),
        };
        self.writers.heaviest().into_iter().map(row).collect()
    }
}

/// A line of a source file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceLine {
    /// Path of the file, as the compiler had it.
    pub file: String,
    /// From 1.
    pub line: u32,
    /// Functions whose calls were inlined there, each as name and line, innermost first.
    pub inlined: Vec<(String, SourceLine)>,
}

impl std::fmt::Display for SourceLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// What writes that have no context and no file data are called: the journal, inodes, and so on.
const FILE_SYSTEM: &str = "(file system)";
/// What writes without a context are called if file data is among them.
const UNKNOWN: &str = "(unknown)";

impl<'a> ContextRow<'a> {
    /// Its context, or what writes without one are called.
    pub fn who(&self) -> Result<&'a Context, &'static str> {
        let data = self.writer.pages_by_kind[Kind::Data as usize];
        self.context.ok_or(if data == 0 { FILE_SYSTEM } else { UNKNOWN })
    }

    /// Pages neither overwritten nor discarded at the end; `None` if the row is a part of a context.
    pub fn alive_pages(&self) -> Option<u64> {
        matches!(self.writer, Cow::Borrowed(_)).then(|| self.writer.alive_pages())
    }

    /// Leaves the files whose paths are wanted. The row must have all its files. What it wrote to others does not count
    /// any more; lifetimes are then unknown, because they are known of whole contexts only.
    pub fn keep_files(&mut self, wanted: impl Fn(&str) -> bool) {
        let whole = self.writer.pages();
        self.files.retain(|(path, _)| wanted(path));
        let pages: u64 = self.files.iter().map(|(_, pages)| pages).sum();
        if pages < whole {
            let mut part = Writer::default();
            part.pages_by_kind[Kind::Data as usize] = pages;
            self.share = self.share * pages as f64 / whole as f64;
            self.writer = Cow::Owned(part);
        }
    }

    /// The source line of a frame, if it is known.
    pub fn line(&self, frame: usize) -> Option<&SourceLine> {
        self.lines.get(frame)?.as_ref()
    }
}

/// A program context with what it wrote.
#[derive(Clone, Debug)]
pub struct ContextRow<'a> {
    /// `None` stands for all writes whose context is not known.
    pub context: Option<&'a Context>,
    /// What it wrote; owned where that is a part of what the context wrote.
    pub writer: Cow<'a, Writer>,
    /// Share of all pages written.
    pub share: f64,
    /// The stream that got most of its pages.
    pub stream: Option<Stream>,
    /// Paths and pages of the files it wrote most.
    pub files: Vec<(String, u64)>,
    /// By frame; empty unless somebody looked them up.
    pub lines: Vec<Option<SourceLine>>,
}
