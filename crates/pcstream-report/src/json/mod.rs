//! Results for programs: one documented schema (docs/json.md). Fields are added, never
//! renamed or removed.
//!
//! Units: pages of 4 KiB; lifetimes in pages written by the host; shares from 0 to 1. A number that
//! does not exist (the WAF of a trace without writes, the lifetime of a stream where nothing ended)
//! is null, never 0.

mod contexts;
mod results;
mod timing;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::grouped::Group;
use crate::{About, ChangedSpace, ContextRow, PathShares, Settings, Simulation, VERSION, Verdict};
use contexts::context;
pub use contexts::{ContextJson, FileJson, FrameJson, InlinedJson};
pub use results::{ComparisonJson, DeviceJson, InternalStreamJson, ResultJson, StreamJson, device};
use results::{comparisons, result};

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
        lost_events: trace.losses.values().copied().fold(0, u64::saturating_add),
        losses: trace.losses.clone(),
        complete: trace.complete,
        damage: trace.damage.clone(),
    }
}
