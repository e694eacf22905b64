//! What a row of a sweep says: first where the run stands on the grid, then its results.
//!
//! Nothing here depends on the machine or on its speed, so that a row is the same however often it is made.

use pcstream_replay::LaneResult;
use pcstream_report::VERSION;
use pcstream_report::settings::GivenFile;
use pcstream_ssd::latency::LatencyHistogram;
use pcstream_ssd::timing::TimingResults;
use pcstream_ssd::{Geometry, Spare, Watermarks};

use super::grid::Run;
use super::sheet::{Cell, Type};
use crate::args::SweepArgs;
use crate::asked;
use crate::failure::Failure;
use crate::values::Pools;

/// Columns of [`of`].
#[rustfmt::skip]
pub const COLUMNS: [(&str, Type); 29] = [
    ("waf", Type::Real), ("steady_waf", Type::Real), ("steady_from_host_pages", Type::Whole),
    ("host_pages", Type::Whole), ("flash_pages", Type::Whole), ("gc_pages", Type::Whole),
    ("shared_gc_pages", Type::Whole), ("erases", Type::Whole), ("background_erases", Type::Whole),
    ("wear_most", Type::Whole), ("wear_mean", Type::Real), ("default_stream_share", Type::Real),
    ("reclusterings", Type::Whole), ("contexts_known", Type::Whole), ("remapped_contexts", Type::Whole),
    ("live_dropped", Type::Whole), ("streams_used", Type::Whole), ("prefill_pages", Type::Whole), ("live_pages", Type::Whole),
    ("free_superblocks", Type::Whole), ("iops", Type::Real), ("simulated_seconds", Type::Real),
    ("gc_time_share", Type::Real), ("write_p50_us", Type::Real), ("write_p99_us", Type::Real),
    ("write_p999_us", Type::Real), ("read_p50_us", Type::Real), ("read_p99_us", Type::Real),
    ("read_p999_us", Type::Real),
];

/// The results of a lane, in the order of [`COLUMNS`].
pub fn of(lane: &LaneResult) -> Vec<Cell> {
    let fact = |name| lane.fact(name).map_or(Cell::Null, Cell::Whole);
    let timing = lane.timing.as_ref();
    let us = |histogram: Option<&LatencyHistogram>, quantile| {
        let some = histogram.filter(|histogram| histogram.count() > 0);
        Cell::real(some.map(|histogram| histogram.quantile_ns(quantile) as f64 / 1e3))
    };
    let write = |quantile| us(timing.map(|t| &t.write), quantile);
    let read = |quantile| us(timing.map(|t| &t.read), quantile);
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
        write(0.5),
        write(0.99),
        write(0.999),
        read(0.5),
        read(0.99),
        read(0.999),
    ]
}

/// Columns of [`place`], without those of parameters.
#[rustfmt::skip]
const PLACE: [(&str, Type); 18] = [
    ("profile", Type::Text), ("background_gc_low", Type::Whole), ("background_gc_high", Type::Whole),
    ("gc_destination", Type::Text), ("victim", Type::Text), ("superblock_pages", Type::Whole),
    ("spare_factor", Type::Real), ("overprovisioning", Type::Real), ("utilisation", Type::Real),
    ("streams", Type::Whole), ("seed", Type::Whole), ("logical_pages", Type::Whole),
    ("physical_pages", Type::Whole), ("superblocks", Type::Whole), ("open_superblocks", Type::Whole),
    ("actual_spare_factor", Type::Real), ("actual_overprovisioning", Type::Real),
    ("worst_case_spare_factor", Type::Real),
];

/// Columns of [`asked`]; the last, so that those before keep their places.
#[rustfmt::skip]
pub const ASKED: [(&str, Type); 13] = [
    ("prefill", Type::Real), ("pack", Type::Real), ("pack_live", Type::Real), ("discard", Type::Flag),
    ("rules", Type::Text), ("rules_xxh3", Type::Text), ("table_bytes", Type::Whole), ("load_table", Type::Text),
    ("load_table_xxh3", Type::Text), ("pools", Type::Text), ("timing", Type::Flag), ("queue_depth", Type::Whole),
    ("open_loop", Type::Flag),
];

/// What flags ask of all runs alike.
pub fn asked(args: &SweepArgs) -> Result<Vec<Cell>, Failure> {
    let settings = asked::settings_of(&args.scheme_options, &args.measure, &args.fit())?;
    let text = |text: Option<String>| text.map_or(Cell::Null, Cell::Text);
    let whole = |number: Option<u64>| number.map_or(Cell::Null, Cell::Whole);
    let name = |file: &Option<GivenFile>| text(file.as_ref().map(|file| file.name.clone()));
    let xxh3 = |file: &Option<GivenFile>| text(file.as_ref().and_then(|file| file.xxh3.clone()));
    let sizes = |pools: &Pools| pools.0.iter().map(f64::to_string).collect::<Vec<_>>().join(",");
    Ok(vec![
        Cell::real(settings.prefill),
        Cell::real(settings.pack),
        Cell::real(settings.pack_live),
        Cell::Flag(!settings.no_discard),
        name(&settings.rules),
        xxh3(&settings.rules),
        whole(settings.table_bytes),
        name(&settings.load_table),
        xxh3(&settings.load_table),
        text(args.grid.pools.as_ref().map(sizes)),
        Cell::Flag(args.measure.timing),
        whole(args.measure.queue_depth.map(u64::from)),
        Cell::Flag(args.measure.open_loop),
    ])
}

/// The columns that say which run a row is of. `parameters` are those that flags set.
pub fn place_columns(parameters: &[String]) -> Vec<(String, Type)> {
    let fixed = PLACE.iter().map(|(name, kind)| ((*name).to_owned(), *kind));
    let first = ["pcstream", "trace", "trace_id", "scheme"].map(|name| (name.to_owned(), Type::Text));
    let parameters = parameters.iter().map(|name| (name.clone(), Type::Text));
    first.into_iter().chain(parameters).chain(fixed).collect()
}

/// Which run a row is of: of the trace at this path with this digest. Spare factor and overprovisioning are what was asked
/// for, one of them at most; superblocks are whole, so that the actual values are a little above.
pub fn place(run: &Run, trace: (&str, &str), parameters: &[String], geometry: &Geometry) -> Vec<Cell> {
    let device = &run.lane.device;
    let value = |name: &String| {
        let set = run.settings.iter().find(|(known, _)| known == name);
        set.map_or(Cell::Null, |(_, value)| Cell::Text(value.clone()))
    };
    let (spare_factor, overprovisioning) = match device.spare {
        Spare::SpareFactor(asked) => (Some(asked), None),
        Spare::Overprovisioning(asked) => (None, Some(asked)),
        Spare::Superblocks(_) => (None, None),
    };
    let first = [VERSION, trace.0, trace.1, run.lane.scheme.name()];
    let mut cells = first.map(|text| Cell::Text(text.to_owned())).to_vec();
    cells.extend(parameters.iter().map(value));
    let watermark = |of: fn(&Watermarks) -> u32| {
        device.background_gc.as_ref().map_or(Cell::Null, |between| Cell::Whole(of(between).into()))
    };
    cells.extend([
        run.profile.map_or(Cell::Null, |name| Cell::Text(name.to_owned())),
        watermark(|between| between.low),
        watermark(|between| between.high),
        Cell::Text(device.gc_destination.name().to_owned()),
        Cell::Text(device.victim.to_string()),
        Cell::Whole(geometry.superblock_pages().into()),
        Cell::real(spare_factor),
        Cell::real(overprovisioning),
        Cell::real(run.utilisation),
        Cell::Whole(device.streams.into()),
        Cell::Whole(device.seed),
        Cell::Whole(geometry.logical_pages()),
        Cell::Whole(geometry.physical_pages()),
        Cell::Whole(geometry.superblocks().into()),
        Cell::Whole(geometry.open_superblocks().into()),
        Cell::real(Some(geometry.spare_factor())),
        Cell::real(Some(geometry.overprovisioning())),
        Cell::real(Some(geometry.worst_case_spare_factor())),
    ]);
    cells
}
