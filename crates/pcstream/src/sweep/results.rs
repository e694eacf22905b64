//! What a row of a sweep says: first where the run stands on the grid, then its results.
//!
//! Nothing here depends on the machine or on its speed, so that a row is the same however often it is made.

use pcstream_replay::LaneResult;
use pcstream_ssd::latency::LatencyHistogram;
use pcstream_ssd::timing::TimingResults;
use pcstream_ssd::{Geometry, Spare};

use super::grid::Run;
use super::sheet::{Cell, Type};

/// Columns of [`of`].
#[rustfmt::skip]
pub const COLUMNS: [(&str, Type); 27] = [
    ("waf", Type::Real), ("steady_waf", Type::Real), ("steady_from_host_pages", Type::Whole),
    ("host_pages", Type::Whole), ("flash_pages", Type::Whole), ("gc_pages", Type::Whole),
    ("shared_gc_pages", Type::Whole), ("erases", Type::Whole), ("background_erases", Type::Whole),
    ("wear_most", Type::Whole), ("wear_mean", Type::Real), ("default_stream_share", Type::Real),
    ("reclusterings", Type::Whole), ("contexts_known", Type::Whole), ("remapped_contexts", Type::Whole),
    ("live_dropped", Type::Whole), ("streams_used", Type::Whole), ("prefill_pages", Type::Whole), ("live_pages", Type::Whole),
    ("free_superblocks", Type::Whole), ("iops", Type::Real), ("simulated_seconds", Type::Real),
    ("gc_time_share", Type::Real), ("write_p50_us", Type::Real), ("write_p99_us", Type::Real),
    ("write_p999_us", Type::Real), ("read_p99_us", Type::Real),
];

/// The results of a lane, in the order of [`COLUMNS`].
pub fn of(lane: &LaneResult) -> Vec<Cell> {
    let fact = |name| lane.fact(name).map_or(Cell::Null, Cell::Whole);
    let timing = lane.timing.as_ref();
    let us = |histogram: Option<&LatencyHistogram>, quantile| {
        let some = histogram.filter(|histogram| histogram.count() > 0);
        Cell::real(some.map(|histogram| histogram.quantile_ns(quantile) as f64 / 1e3))
    };
    let latency = |quantile| us(timing.map(|t| &t.write), quantile);
    let counters = &lane.counters;
    vec![
        Cell::real(lane.waf()),
        Cell::real(lane.steady_waf()),
        Cell::Whole(lane.steady_start.host_pages),
        Cell::Whole(lane.host_pages()),
        Cell::Whole(lane.flash_pages()),
        Cell::Whole(counters.gc_pages),
        Cell::Whole(counters.shared_gc_pages),
        Cell::Whole(counters.erases),
        Cell::Whole(counters.background_erases),
        Cell::Whole(lane.wear.most.into()),
        Cell::real(Some(lane.wear.mean)),
        Cell::real(lane.default_stream_share()),
        fact("reclusterings"),
        fact("contexts_known"),
        fact("remapped_contexts"),
        lane.fact("live_chunks_dropped")
            .or_else(|| lane.fact("live_pages_dropped"))
            .map_or(Cell::Null, Cell::Whole),
        fact("streams_used"),
        Cell::Whole(lane.prefill_pages),
        Cell::Whole(lane.live_pages),
        Cell::Whole(lane.free_superblocks.into()),
        Cell::real(timing.map(TimingResults::iops)),
        Cell::real(timing.map(|t| t.elapsed_ns as f64 / 1e9)),
        Cell::real(timing.map(TimingResults::gc_share)),
        latency(0.5),
        latency(0.99),
        latency(0.999),
        us(timing.map(|t| &t.read), 0.99),
    ]
}

/// Columns of [`place`], without those of parameters.
#[rustfmt::skip]
const PLACE: [(&str, Type); 13] = [
    ("gc_destination", Type::Text), ("victim", Type::Text), ("superblock_pages", Type::Whole),
    ("spare_factor", Type::Real), ("overprovisioning", Type::Real), ("utilisation", Type::Real),
    ("streams", Type::Whole), ("seed", Type::Whole), ("logical_pages", Type::Whole),
    ("physical_pages", Type::Whole), ("superblocks", Type::Whole), ("open_superblocks", Type::Whole),
    ("worst_case_spare_factor", Type::Real),
];

/// The columns that say which run a row is of. `parameters` are those that flags set.
pub fn place_columns(parameters: &[String]) -> Vec<(String, Type)> {
    let fixed = PLACE.iter().map(|(name, kind)| ((*name).to_owned(), *kind));
    let first = [("trace", Type::Text), ("scheme", Type::Text)].map(|(name, kind)| (name.to_owned(), kind));
    let parameters = parameters.iter().map(|name| (name.clone(), Type::Text));
    first.into_iter().chain(parameters).chain(fixed).collect()
}

/// Which run a row is of. The spare factor is the one asked for where it was; else that of the device.
pub fn place(run: &Run, trace: &str, parameters: &[String], geometry: &Geometry) -> Vec<Cell> {
    let device = &run.lane.device;
    let value = |name: &String| {
        let set = run.settings.iter().find(|(known, _)| known == name);
        set.map_or(Cell::Null, |(_, value)| Cell::Text(value.clone()))
    };
    let (spare_factor, overprovisioning) = match device.spare {
        Spare::SpareFactor(asked) => (asked, geometry.overprovisioning()),
        Spare::Overprovisioning(asked) => (geometry.spare_factor(), asked),
        Spare::Superblocks(_) => (geometry.spare_factor(), geometry.overprovisioning()),
    };
    let mut cells = vec![Cell::Text(trace.to_owned()), Cell::Text(run.lane.scheme.name().to_owned())];
    cells.extend(parameters.iter().map(value));
    cells.extend([
        Cell::Text(device.gc_destination.name().to_owned()),
        Cell::Text(device.victim.to_string()),
        Cell::Whole(geometry.superblock_pages().into()),
        Cell::real(Some(spare_factor)),
        Cell::real(Some(overprovisioning)),
        Cell::real(run.utilisation),
        Cell::Whole(device.streams.into()),
        Cell::Whole(device.seed),
        Cell::Whole(geometry.logical_pages()),
        Cell::Whole(geometry.physical_pages()),
        Cell::Whole(geometry.superblocks().into()),
        Cell::Whole(geometry.open_superblocks().into()),
        Cell::real(Some(geometry.worst_case_spare_factor())),
    ]);
    cells
}
