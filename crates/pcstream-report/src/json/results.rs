//! Results of schemes on devices.

use std::collections::BTreeMap;

use pcstream_replay::{LaneResult, Lifetimes, Quartiles, StreamResult};
use pcstream_ssd::Watermarks;
use pcstream_ssd::endurance::{Wear, relative_lifetime};
use pcstream_ssd::fdp::FdpStatistics;
use pcstream_ssd::steady_state::Steady;
use pcstream_ssd::timing::TimingResults;
use serde::Serialize;

use super::timing::{ClockJson, LatencyJson, ThroughputJson, clock, latencies, throughput};
use crate::drive::{baseline_of, reference, result_in_words};

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
    /// How many times as long the device lives if erases wear it; null where either erased nothing. The verdict's
    /// `life_ratio` is from programs: a run that began on an empty device has erased less than it programmed.
    pub life_ratio_by_erases: Option<f64>,
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
    /// How many pages have ended in it; null if the lane kept no lifetimes.
    pub ended_pages: Option<u64>,
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
    /// How many pages have ended in it; null if the lane kept no lifetimes.
    pub ended_pages: Option<u64>,
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
pub(super) fn comparisons(lanes: &[LaneResult]) -> Vec<ComparisonJson> {
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
        life_ratio_by_erases: relative_lifetime(&lane.counters, &reference.counters),
    })
}

pub(super) fn result(lane: &LaneResult) -> ResultJson {
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
        steady: lane.steady,
        background_erases: lane.counters.background_erases,
        wear: lane.wear,
        fdp: lane.fdp,
        iops: timing.and_then(TimingResults::iops),
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
        lifetime_pages: stream.lifetimes.as_ref().and_then(Lifetimes::quartiles),
        ended_pages: stream.lifetimes.as_ref().map(Lifetimes::ended_pages),
        internal: stream.internal.as_ref().map(|internal| InternalStreamJson {
            pages: internal.pages,
            copied_again: internal.copied_again,
            lifetime_pages: internal.lifetimes.as_ref().and_then(Lifetimes::quartiles),
            ended_pages: internal.lifetimes.as_ref().map(Lifetimes::ended_pages),
        }),
    }
}
