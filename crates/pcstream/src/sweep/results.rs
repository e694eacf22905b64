//! What a row of a sweep says: first where the run stands on the grid, then its results.
//!
//! A column is one line of a list: its name, and how its value is read. Nothing here depends on the machine or on its speed, so that
//! a row is the same however often it is made.

use pcstream_replay::LaneResult;
use pcstream_report::VERSION;
use pcstream_report::settings::{GivenFile, Settings};
use pcstream_ssd::latency::LatencyHistogram;
use pcstream_ssd::timing::TimingResults;
use pcstream_ssd::{DeviceSettings, Geometry, Spare, Watermarks};

use super::grid::Run;
use super::sheet::{Cell, Type};
use crate::args::{FitArgs, SweepArgs};
use crate::asked;
use crate::failure::Failure;
use crate::values::Pools;
use Of::{Flag, Real, Text, Whole};

/// A column of rows about a `T`.
pub struct Column<T> {
    pub name: &'static str,
    of: Of<T>,
}

/// How the value of a column is read.
enum Of<T> {
    Text(fn(&T) -> Option<String>),
    Whole(fn(&T) -> Option<u64>),
    Real(fn(&T) -> Option<f64>),
    Flag(fn(&T) -> bool),
}

impl<T> Column<T> {
    /// What it holds.
    pub fn kind(&self) -> Type {
        match self.of {
            Text(_) => Type::Text,
            Whole(_) => Type::Whole,
            Real(_) => Type::Real,
            Flag(_) => Type::Flag,
        }
    }

    fn cell(&self, about: &T) -> Cell {
        match self.of {
            Text(of) => of(about).map_or(Cell::Null, Cell::Text),
            Whole(of) => of(about).map_or(Cell::Null, Cell::Whole),
            Real(of) => Cell::real(of(about)),
            Flag(of) => Cell::Flag(of(about)),
        }
    }

    fn named(&self) -> (String, Type) {
        (self.name.to_owned(), self.kind())
    }
}

const fn column<T>(name: &'static str, of: Of<T>) -> Column<T> {
    Column { name, of }
}

fn cells<T>(columns: &[Column<T>], about: &T) -> Vec<Cell> {
    columns.iter().map(|column| column.cell(about)).collect()
}

/// What a run came to.
pub static RESULTS: &[Column<LaneResult>] = &[
    column("waf", Real(|lane| lane.waf())),
    column("steady_waf", Real(|lane| lane.steady_waf())),
    column("steady_from_host_pages", Whole(|lane| Some(lane.steady_start.host_pages))),
    column("host_pages", Whole(|lane| Some(lane.host_pages()))),
    column("flash_pages", Whole(|lane| Some(lane.flash_pages()))),
    column("gc_pages", Whole(|lane| Some(lane.counters.gc_pages))),
    column("shared_gc_pages", Whole(|lane| Some(lane.counters.shared_gc_pages))),
    column("erases", Whole(|lane| Some(lane.counters.erases))),
    column("background_erases", Whole(|lane| Some(lane.counters.background_erases))),
    column("wear_most", Whole(|lane| Some(lane.wear.most.into()))),
    column("wear_mean", Real(|lane| Some(lane.wear.mean))),
    column("default_stream_share", Real(|lane| lane.default_stream_share())),
    column("reclusterings", Whole(|lane| lane.fact("reclusterings"))),
    column("contexts_known", Whole(|lane| lane.fact("contexts_known"))),
    column("remapped_contexts", Whole(|lane| lane.fact("remapped_contexts"))),
    column(
        "live_dropped",
        Whole(|lane| lane.fact("live_chunks_dropped").or_else(|| lane.fact("live_pages_dropped"))),
    ),
    column("streams_used", Whole(|lane| lane.fact("streams_used"))),
    column("prefill_pages", Whole(|lane| Some(lane.prefill_pages))),
    column("live_pages", Whole(|lane| Some(lane.live_pages))),
    column("free_superblocks", Whole(|lane| Some(lane.free_superblocks.into()))),
    column("iops", Real(|lane| lane.timing.as_ref().and_then(TimingResults::iops))),
    column("simulated_seconds", Real(|lane| lane.timing.as_ref().map(|t| t.elapsed_ns as f64 / 1e9))),
    column("gc_time_share", Real(|lane| lane.timing.as_ref().map(TimingResults::gc_share))),
    column("write_p50_us", Real(|lane| quantile_us(lane, |t| &t.write, 0.5))),
    column("write_p99_us", Real(|lane| quantile_us(lane, |t| &t.write, 0.99))),
    column("write_p999_us", Real(|lane| quantile_us(lane, |t| &t.write, 0.999))),
    column("read_p50_us", Real(|lane| quantile_us(lane, |t| &t.read, 0.5))),
    column("read_p99_us", Real(|lane| quantile_us(lane, |t| &t.read, 0.99))),
    column("read_p999_us", Real(|lane| quantile_us(lane, |t| &t.read, 0.999))),
];

fn quantile_us(lane: &LaneResult, of: fn(&TimingResults) -> &LatencyHistogram, at: f64) -> Option<f64> {
    let histogram = lane.timing.as_ref().map(of).filter(|histogram| histogram.count() > 0);
    histogram.map(|histogram| histogram.quantile_ns(at) as f64 / 1e3)
}

/// The cells of [`RESULTS`].
pub fn of(lane: &LaneResult) -> Vec<Cell> {
    cells(RESULTS, lane)
}

/// A run and its device.
struct Placed<'a> {
    run: &'a Run,
    geometry: &'a Geometry,
}

impl Placed<'_> {
    fn device(&self) -> &DeviceSettings {
        &self.run.lane.device
    }

    fn watermark(&self, of: fn(&Watermarks) -> u32) -> Option<u64> {
        self.device().background_gc.as_ref().map(|between| of(between).into())
    }
}

/// Where a run stands on the grid. Spare factor and overprovisioning are what was asked for, one of them at most; superblocks are
/// whole, so that the actual values are a little above.
fn place_list<'a>() -> [Column<Placed<'a>>; 18] {
    [
        column("profile", Text(|at| at.run.at.profile.map(str::to_owned))),
        column("background_gc_low", Whole(|at| at.watermark(|between| between.low))),
        column("background_gc_high", Whole(|at| at.watermark(|between| between.high))),
        column("gc_destination", Text(|at| Some(at.device().gc_destination.name().to_owned()))),
        column("victim", Text(|at| Some(at.device().victim.to_string()))),
        column("superblock_pages", Whole(|at| Some(at.geometry.superblock_pages().into()))),
        column(
            "spare_factor",
            Real(|at| if let Spare::SpareFactor(asked) = at.device().spare { Some(asked) } else { None }),
        ),
        column(
            "overprovisioning",
            Real(
                |at| if let Spare::Overprovisioning(asked) = at.device().spare { Some(asked) } else { None },
            ),
        ),
        column("utilisation", Real(|at| at.run.at.ground.space.fill)),
        column("streams", Whole(|at| Some(at.device().streams.into()))),
        column("seed", Whole(|at| Some(at.device().seed))),
        column("logical_pages", Whole(|at| Some(at.geometry.logical_pages()))),
        column("physical_pages", Whole(|at| Some(at.geometry.physical_pages()))),
        column("superblocks", Whole(|at| Some(at.geometry.superblocks().into()))),
        column("open_superblocks", Whole(|at| Some(at.geometry.open_superblocks().into()))),
        column("actual_spare_factor", Real(|at| Some(at.geometry.spare_factor()))),
        column("actual_overprovisioning", Real(|at| Some(at.geometry.overprovisioning()))),
        column("worst_case_spare_factor", Real(|at| Some(at.geometry.worst_case_spare_factor()))),
    ]
}

/// The flags of all runs, and what they say of the simulation.
pub struct Asked<'a> {
    args: &'a SweepArgs,
    settings: Settings,
}

impl<'a> Asked<'a> {
    /// Errors: a file that a flag names cannot be read.
    pub fn new(args: &'a SweepArgs) -> Result<Asked<'a>, Failure> {
        let settings = asked::settings(&args.scheme_options, &args.grid.measure(), &FitArgs::default())?;
        Ok(Asked { args, settings })
    }

    /// The cells of `asked_list`.
    pub fn of(&self, run: &Run) -> Vec<Cell> {
        cells(&asked_list(), &(self, run))
    }
}

/// What flags ask; the last columns, so that those before keep their places.
fn asked_list<'a>() -> [Column<(&'a Asked<'a>, &'a Run)>; 14] {
    [
        column("prefill", Real(|(_, run)| run.at.ground.prefill.share())),
        column("pack", Real(|(_, run)| run.at.ground.space.addresses())),
        column("pack_live", Real(|(_, run)| run.at.ground.space.live())),
        column("discard", Flag(|(_, run)| !run.at.ground.space.no_discard)),
        column("rules", Text(|(asked, _)| name(asked.settings.rules.as_ref()))),
        column("rules_xxh3", Text(|(asked, _)| xxh3(asked.settings.rules.as_ref()))),
        column("table_bytes", Whole(|(asked, _)| asked.settings.table_bytes)),
        column("load_table", Text(|(asked, _)| name(asked.settings.load_table.as_ref()))),
        column("load_table_xxh3", Text(|(asked, _)| xxh3(asked.settings.load_table.as_ref()))),
        column("pools", Text(|(asked, _)| asked.args.grid.pools.as_ref().map(shares))),
        column("timing", Flag(|(asked, _)| asked.args.grid.timing)),
        column("queue_depth", Whole(|(_, run)| run.at.queue_depth.map(u64::from))),
        column("open_loop", Flag(|(asked, _)| asked.args.grid.open_loop)),
        column("capacity", Whole(|(_, run)| run.at.capacity)),
    ]
}

fn name(file: Option<&GivenFile>) -> Option<String> {
    file.map(|file| file.name.clone())
}

fn xxh3(file: Option<&GivenFile>) -> Option<String> {
    file.and_then(|file| file.xxh3.clone())
}

fn shares(pools: &Pools) -> String {
    pools.0.iter().map(f64::to_string).collect::<Vec<_>>().join(",")
}

/// All columns of a row but `damage`: of [`place`], [`of`] and [`Asked::of`]. `parameters` are those that flags set.
pub fn columns(parameters: &[String]) -> Vec<(String, Type)> {
    let first = ["pcstream", "trace", "trace_id", "scheme"].map(|name| (name.to_owned(), Type::Text));
    let parameters = parameters.iter().map(|name| (name.clone(), Type::Text));
    let place = place_list().into_iter().map(|column| column.named());
    let results = RESULTS.iter().map(Column::named);
    let asked = asked_list().into_iter().map(|column| column.named());
    first.into_iter().chain(parameters).chain(place).chain(results).chain(asked).collect()
}

/// Which run a row is of: of the trace at this path with this digest.
pub fn place(run: &Run, trace: (&str, &str), parameters: &[String], geometry: &Geometry) -> Vec<Cell> {
    let value = |name: &String| {
        let set = run.settings.iter().find(|(known, _)| known == name);
        set.map_or(Cell::Null, |(_, value)| Cell::Text(value.clone()))
    };
    let first = [VERSION, trace.0, trace.1, run.lane.scheme.name()];
    let mut row = first.map(|text| Cell::Text(text.to_owned())).to_vec();
    row.extend(parameters.iter().map(value));
    row.extend(cells(&place_list(), &Placed { run, geometry }));
    row
}
