//! Results for programs: one documented schema (docs/command-line.md). Fields are added, never
//! renamed or removed.
//!
//! Units: pages of 4 KiB; lifetimes in pages written by the host; shares from 0 to 1. A number that
//! does not exist (the WAF of a trace without writes, the lifetime of a stream where nothing ended)
//! is null, never 0.

use std::collections::BTreeMap;

use pcstream_replay::{LaneResult, Quartiles, StreamResult};
use pcstream_ssd::Watermarks;
use pcstream_ssd::endurance::{Wear, relative_lifetime};
use pcstream_ssd::fdp::FdpStatistics;
use pcstream_ssd::steady_state::Steady;
use pcstream_ssd::timing::TimingResults;
use pcstream_trace::{Context, Frame, Kind};
use serde::Serialize;

use crate::drive::{baseline_of, reference, result_in_words};
use crate::grouped::Group;
use crate::json_timing::{ClockJson, LatencyJson, ThroughputJson, clock, latencies, throughput};
use crate::{
    About, ChangedSpace, ContextRow, PathShares, Settings, Simulation, SourceLine, VERSION, Verdict,
};

/// The result of `simulate` and `run`.
#[derive(Clone, Debug, Serialize)]
pub struct SimulationJson {
    /// Version of pcstream.
    pub pcstream: &'static str,
    /// Seed of everything that draws random numbers.
    pub seed: u64,
    /// What it means.
    pub verdict: Verdict,
    /// What was replayed.
    pub trace: TraceJson,
    /// What was asked for, beyond the device.
    pub settings: Settings,
    /// What was done to the trace's addresses; null if they stay.
    pub space: Option<ChangedSpace>,
    /// The device, the same for every result but for its GC destination.
    pub device: DeviceJson,
    /// By scheme and GC destination.
    pub results: Vec<ResultJson>,
    /// Every result against `baseline`, first on the same kind of drive, then on a drive without streams;
    /// empty without a baseline.
    pub comparisons: Vec<ComparisonJson>,
    /// The contexts, heaviest first; filled by `run`, empty in `simulate`.
    pub contexts: Vec<ContextJson>,
}

/// The result of `contexts`.
#[derive(Clone, Debug, Serialize)]
pub struct ContextsJson {
    /// Version of pcstream.
    pub pcstream: &'static str,
    /// Seed of everything that draws random numbers.
    pub seed: u64,
    /// What was replayed.
    pub trace: TraceJson,
    /// The scheme whose streams are shown.
    pub scheme: String,
    /// Streams of the device, S0 included.
    pub streams: u8,
    /// The part of the writes that was asked for; null for all.
    pub selection: Option<SelectionJson>,
    /// What they are grouped by, in the order asked for; empty if they are not.
    pub groups: Vec<Group>,
    /// The contexts in the order asked for, else heaviest first.
    pub contexts: Vec<ContextJson>,
}

/// The part of the writes that `contexts` shows.
#[derive(Clone, Debug, Serialize)]
pub struct SelectionJson {
    /// Pattern of the files written; null for any.
    pub file: Option<String>,
    /// Pattern of the executables; null for any.
    pub program: Option<String>,
    /// Pages that others wrote, or to other files.
    pub left_out_pages: u64,
    /// Contexts that wrote nothing of the rest.
    pub left_out_contexts: u64,
}

/// A trace.
#[derive(Clone, Debug, Serialize)]
pub struct TraceJson {
    /// Where it was read from; empty when nothing was kept.
    pub path: String,
    /// Digest of its events.
    pub id: String,
    /// The traced command, word by word.
    pub command: Vec<String>,
    /// Events of every operation that were replayed.
    pub events: u64,
    /// Pages written.
    pub host_pages: u64,
    /// Pages discarded.
    pub discarded_pages: u64,
    /// Pages set to zero; the model treats them as discarded.
    pub zeroed_pages: u64,
    /// Pages read.
    pub read_pages: u64,
    /// Program contexts in its table.
    pub contexts: u64,
    /// Files in its table.
    pub files: u64,
    /// Share of the written file data whose context is known; 1 when there was none.
    pub context_coverage: f64,
    /// How the call paths of that data were read.
    pub call_paths: PathShares,
    /// Requests that the capture dropped.
    pub lost_events: u64,
    /// Every loss counter of the capture, by cause.
    pub losses: BTreeMap<String, u64>,
    /// False when the recorder did not finish the trace.
    pub complete: bool,
    /// What made reading it end early; null for a whole trace.
    pub damage: Option<String>,
}

/// A device.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceJson {
    /// U.
    pub logical_pages: u64,
    /// Pages that can be addressed: U, or more.
    pub address_pages: u64,
    /// T.
    pub physical_pages: u64,
    /// Pages of a superblock.
    pub superblock_pages: u32,
    /// Number of superblocks.
    pub superblocks: u32,
    /// Sf = (T-U)/T.
    pub spare_factor: f64,
    /// OP = (T-U)/U.
    pub overprovisioning: f64,
    /// Streams, S0 included.
    pub streams: u8,
    /// Victim policy.
    pub victim: String,
    /// Pages written before counting.
    pub prefill_pages: u64,
    /// Relative sizes of pools; empty without.
    pub pools: Vec<f64>,
    /// Free superblocks between which GC works in the background; null without.
    pub background_gc: Option<Watermarks>,
    /// The profile and file that it comes from; null for none.
    pub origin: Option<String>,
    /// Its clock; null without `--timing`.
    pub timing: Option<ClockJson>,
}

/// A result against another.
#[derive(Clone, Debug, Serialize)]
pub struct ComparisonJson {
    /// Name of the scheme.
    pub scheme: String,
    /// Its GC destination.
    pub gc_destination: String,
    /// What it is compared with, in words.
    pub reference: String,
    /// Scheme of the reference.
    pub reference_scheme: String,
    /// GC destination of the reference.
    pub reference_gc_destination: String,
    /// Flash pages over those of the other.
    pub flash_pages_ratio: f64,
    /// How many times as long the device lives; null where either erased nothing.
    pub lifetime_ratio: Option<f64>,
}

/// One scheme on one device.
#[derive(Clone, Debug, Serialize)]
pub struct ResultJson {
    /// Name of the scheme.
    pub scheme: String,
    /// `own`, `internal` or `shared`.
    pub gc_destination: String,
    /// Its parameters with other values than the scheme's defaults, by name.
    pub parameters: BTreeMap<&'static str, String>,
    /// Whether the scheme was given the future.
    pub knows_future: bool,
    /// Whether it matters to the scheme which pages lie beside each other.
    pub reads_addresses: bool,
    /// Pages the host wrote.
    pub host_pages: u64,
    /// Pages programmed.
    pub flash_pages: u64,
    /// Pages copied by garbage collection.
    pub gc_pages: u64,
    /// Superblocks erased.
    pub erases: u64,
    /// Flash pages / host pages.
    pub waf: Option<f64>,
    /// The same in the steady part: from the steady state on if one was detected, else after a third of the host
    /// writes.
    pub steady_waf: Option<f64>,
    /// Host pages written before the steady part began.
    pub steady_from_host_pages: u64,
    /// Share of the host pages on S0.
    pub default_stream_share: Option<f64>,
    /// Times that the scheme regrouped its contexts; 0 for schemes that have none.
    pub reclusterings: u64,
    /// The steady state; null if none was detected.
    pub steady: Option<Steady>,
    /// Erases by GC in the background.
    pub background_erases: u64,
    /// How erases are spread.
    pub wear: Wear,
    /// FDP counters.
    pub fdp: FdpStatistics,
    /// Requests per second of simulated time; null without `--timing`.
    pub iops: Option<f64>,
    /// Latencies in microseconds of simulated time; null without `--timing`.
    pub latency_us: Option<LatencyJson>,
    /// Simulated time from the first arrival to the last completion; null without `--timing`.
    pub simulated_seconds: Option<f64>,
    /// Share of the dies' busy time that GC took; null without `--timing`.
    pub gc_time_share: Option<f64>,
    /// Pages written over simulated time; null without `--timing`.
    pub throughput: Option<ThroughputJson>,
    /// Superblocks that are free (erased and not open) at the end.
    pub free_superblocks: u32,
    /// Superblocks that can be open at once.
    pub open_superblocks: u32,
    /// What is left of the spare factor when all streams and internal streams are open.
    pub worst_case_spare_factor: f64,
    /// GC copies that belong to no stream any more (GC destination `shared`).
    pub shared_gc_pages: u64,
    /// Victims by share of valid pages: none, then in steps of 5 %.
    pub victim_validity: Vec<u64>,
    /// What the scheme says about itself.
    pub facts: BTreeMap<&'static str, u64>,
    /// By stream, from S0 on.
    pub streams: Vec<StreamJson>,
}

/// One external stream.
#[derive(Clone, Debug, Serialize)]
pub struct StreamJson {
    /// Its number.
    pub stream: u8,
    /// Pages the host wrote to it.
    pub host_pages: u64,
    /// Copies of its pages.
    pub gc_pages: u64,
    /// Lifetimes that ended in its own superblocks, those of its internal stream excluded.
    pub lifetime_pages: Option<Quartiles>,
    /// How many pages have ended in it.
    pub ended_pages: u64,
    /// Its internal stream; null with other GC destinations.
    pub internal: Option<InternalStreamJson>,
}

/// The internal stream of an external one.
#[derive(Clone, Debug, Serialize)]
pub struct InternalStreamJson {
    /// Pages that garbage collection moved into it.
    pub pages: u64,
    /// Of these, pages that it moved again, out of the internal stream itself.
    pub copied_again: u64,
    /// Lifetimes that ended in it, from the host's write on.
    pub lifetime_pages: Option<Quartiles>,
    /// How many pages have ended in it.
    pub ended_pages: u64,
}

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
}

/// The result of `simulate` or `run` for programs. `contexts` may be empty.
pub fn simulation(simulation: &Simulation, contexts: &[ContextRow]) -> SimulationJson {
    SimulationJson {
        pcstream: VERSION,
        seed: simulation.about.seed,
        verdict: Verdict::of(simulation),
        trace: trace(simulation),
        settings: simulation.about.settings.clone(),
        space: simulation.about.space.clone(),
        device: device(&simulation.results[0], simulation.about.device.as_deref()),
        results: simulation.results.iter().map(result).collect(),
        comparisons: comparisons(&simulation.results),
        contexts: contexts.iter().map(context).collect(),
    }
}

/// The result of `contexts` for programs; the streams are those of the first lane.
pub fn contexts(simulation: &Simulation, rows: &[ContextRow]) -> ContextsJson {
    let lane = &simulation.results[0];
    ContextsJson {
        pcstream: VERSION,
        seed: simulation.about.seed,
        trace: trace(simulation),
        scheme: lane.scheme.to_owned(),
        streams: lane.settings.streams,
        selection: None,
        groups: Vec::new(),
        contexts: rows.iter().map(context).collect(),
    }
}

fn trace(simulation: &Simulation) -> TraceJson {
    let About { trace, .. } = &simulation.about;
    let totals = simulation.writers.totals();
    TraceJson {
        path: trace.path.clone(),
        id: trace.id.clone(),
        command: trace.command.clone(),
        events: totals.events,
        host_pages: totals.host_pages,
        discarded_pages: totals.discarded_pages,
        zeroed_pages: totals.zeroed_pages,
        read_pages: totals.read_pages,
        contexts: totals.contexts,
        files: totals.files,
        context_coverage: simulation.writers.context_coverage(),
        call_paths: simulation.path_shares(),
        lost_events: trace.losses.values().sum(),
        losses: trace.losses.clone(),
        complete: trace.complete,
        damage: trace.damage.clone(),
    }
}

/// The device of a result, and the profile or file that it comes from.
pub fn device(lane: &LaneResult, origin: Option<&str>) -> DeviceJson {
    let geometry = &lane.geometry;
    DeviceJson {
        logical_pages: geometry.logical_pages(),
        address_pages: geometry.address_pages(),
        physical_pages: geometry.physical_pages(),
        superblock_pages: geometry.superblock_pages(),
        superblocks: geometry.superblocks(),
        spare_factor: geometry.spare_factor(),
        overprovisioning: geometry.overprovisioning(),
        streams: geometry.streams(),
        victim: lane.victims.clone(),
        prefill_pages: lane.prefill_pages,
        pools: lane.settings.pools.clone(),
        background_gc: lane.settings.background_gc,
        origin: origin.map(str::to_owned),
        timing: lane.timing.as_ref().map(clock),
    }
}

/// Against `baseline` with the same GC destination, then, where that is another, on a drive without streams.
fn comparisons(lanes: &[LaneResult]) -> Vec<ComparisonJson> {
    let same = lanes.iter().filter_map(|lane| {
        let baseline = baseline_of(lanes, lane.settings.gc_destination)?;
        comparison(lane, baseline)
    });
    let across = reference(lanes).into_iter().flat_map(|reference| {
        let other = |lane: &&LaneResult| lane.settings.gc_destination != reference.settings.gc_destination;
        lanes.iter().filter(other).filter_map(|lane| comparison(lane, reference))
    });
    same.chain(across).collect()
}

fn comparison(lane: &LaneResult, reference: &LaneResult) -> Option<ComparisonJson> {
    (reference.flash_pages() > 0).then(|| ComparisonJson {
        scheme: lane.scheme.to_owned(),
        gc_destination: lane.settings.gc_destination.name().to_owned(),
        reference: result_in_words(reference),
        reference_scheme: reference.scheme.to_owned(),
        reference_gc_destination: reference.settings.gc_destination.name().to_owned(),
        flash_pages_ratio: lane.flash_pages() as f64 / reference.flash_pages() as f64,
        lifetime_ratio: relative_lifetime(&lane.counters, &reference.counters),
    })
}

fn result(lane: &LaneResult) -> ResultJson {
    let timing = lane.timing.as_ref();
    ResultJson {
        scheme: lane.scheme.to_owned(),
        gc_destination: lane.settings.gc_destination.name().to_owned(),
        parameters: lane.parameters.iter().cloned().collect(),
        knows_future: lane.knows_future,
        reads_addresses: lane.reads_addresses,
        host_pages: lane.host_pages(),
        flash_pages: lane.flash_pages(),
        gc_pages: lane.counters.gc_pages,
        erases: lane.counters.erases,
        waf: lane.waf(),
        steady_waf: lane.steady_waf(),
        steady_from_host_pages: lane.steady_start.host_pages,
        default_stream_share: lane.default_stream_share(),
        reclusterings: lane.fact("reclusterings").unwrap_or(0),
        steady: lane.steady,
        background_erases: lane.counters.background_erases,
        wear: lane.wear,
        fdp: lane.fdp,
        iops: timing.map(TimingResults::iops),
        latency_us: timing.map(|t| LatencyJson { read: latencies(&t.read), write: latencies(&t.write) }),
        simulated_seconds: timing.map(|t| t.elapsed_ns as f64 / 1e9),
        gc_time_share: timing.map(TimingResults::gc_share),
        throughput: timing.map(throughput),
        free_superblocks: lane.free_superblocks,
        open_superblocks: lane.geometry.open_superblocks(),
        worst_case_spare_factor: lane.geometry.worst_case_spare_factor(),
        shared_gc_pages: lane.counters.shared_gc_pages,
        victim_validity: lane.counters.victim_validity.to_vec(),
        facts: lane.facts.iter().copied().collect(),
        streams: lane.streams.iter().map(stream).collect(),
    }
}

fn stream(stream: &StreamResult) -> StreamJson {
    StreamJson {
        stream: stream.stream.0,
        host_pages: stream.host_pages,
        gc_pages: stream.gc_pages,
        lifetime_pages: stream.lifetimes.quartiles(),
        ended_pages: stream.lifetimes.ended_pages(),
        internal: stream.internal.as_ref().map(|internal| InternalStreamJson {
            pages: internal.pages,
            copied_again: internal.copied_again,
            lifetime_pages: internal.lifetimes.quartiles(),
            ended_pages: internal.lifetimes.ended_pages(),
        }),
    }
}

fn context(row: &ContextRow) -> ContextJson {
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
    let (file, line) = line.map(|line| (line.file.clone(), line.line)).unzip();
    FrameJson { module, build_id, offset, symbol, file, line }
}
