//! From flags to runs: every scheme with every combination of parameters, on every device of the grid.
//!
//! Order of the rows: scheme, then its parameters, then the axes of [`GridArgs::points`], then the GC destination.
//! A run is identified by its key, a text that says everything that decides its result.
//!
//! Devices that cannot be (no room for garbage collection, say) are left out and named; the caller says so.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::File;
use std::hash::Hasher as _;
use std::io::{BufRead as _, BufReader};
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use pcstream_placement::{Configured, Environment, SchemeFactory};
use pcstream_replay::space::SpaceSettings;
use pcstream_replay::{LaneSpec, ReplayError, plan};
use pcstream_ssd::{DeviceSettings, Devices};
use pcstream_trace::{Extent, Meta, TraceReader};
use twox_hash::XxHash3_64;

use crate::args::{DeviceArgs, GridArgs, Point, SweepArgs};
use crate::asked;
use crate::device::{self, Template};
use crate::failure::Failure;
use crate::fitted::Fitting;
use crate::lists::List;
use crate::passes::refused;
use crate::schemes::Variant;
use crate::values::Prefill;

/// What runs that share a pass over the trace have alike: how large the device is, and what is on it beforehand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ground {
    /// The address space: how full the device is, if it was asked for.
    pub space: SpaceSettings,
    /// Logical pages, if a flag or the device file says how many.
    pub capacity: Option<u64>,
    /// What is written before counting.
    pub prefill: Prefill,
}

/// What a point asks for that its device does not tell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct At {
    /// What it shares with others.
    pub ground: Ground,
    /// Named device, if it was asked for.
    pub profile: Option<&'static str>,
    /// Bytes of `--capacity`.
    pub capacity: Option<u64>,
    /// `--queue-depth`.
    pub queue_depth: Option<u32>,
}

/// One run, and where it stands on the grid.
pub struct Run {
    /// What is run.
    pub lane: LaneSpec,
    /// Parameters of the scheme that flags set: `SCHEME.PARAMETER`, value.
    pub settings: Vec<(String, String)>,
    /// What was asked for.
    pub at: At,
    /// What decides the result.
    pub key: String,
}

/// Runs that share what is on the device beforehand, so that they can share a pass over the trace.
pub struct Space {
    /// What was asked for.
    pub ground: Ground,
    /// Written before counting.
    pub prefill: Vec<Extent>,
}

impl Space {
    /// Pages written before counting.
    pub fn pages(&self) -> u64 {
        self.prefill.iter().map(|extent| extent.pages).sum()
    }
}

/// All runs.
#[derive(Default)]
pub struct Grid {
    /// In the order of the rows.
    pub runs: Vec<Run>,
    /// By how large and how full the device is, in the order of the flags.
    pub spaces: Vec<Space>,
    /// Points that cannot be, and why.
    pub left_out: Vec<String>,
    /// Default sizes of superblocks without room, and the smaller ones taken instead.
    pub shrunk: BTreeSet<(u32, u32)>,
}

/// A device of the grid.
struct GridCell {
    at: At,
    settings: DeviceSettings,
    clock: Option<pcstream_replay::Clock>,
}

impl Grid {
    /// The grid of `args` and the `variants` of its schemes over the trace that `fitting` reads.
    pub fn new(
        args: &SweepArgs,
        variants: Vec<Variant>,
        reader: &TraceReader,
        fitting: &mut Fitting,
    ) -> Result<Grid, Failure> {
        let meta = reader.meta();
        let mut grid = Grid::default();
        let mut refusal = None;
        let mut places = Vec::new();
        for point in args.grid.points() {
            match grid.places(args, meta, &point, fitting) {
                Ok(more) => places.extend(more),
                Err(Failure::WrongArguments(error)) => {
                    grid.left_out.push(format!("{}: {error:#}", in_words(&point)));
                    refusal = refusal.or(Some(error));
                }
                Err(other) => return Err(other),
            }
        }
        if places.is_empty() {
            let error = refusal.unwrap_or_else(|| anyhow!("the grid has no point"));
            return Err(Failure::WrongArguments(error));
        }
        let common = common_key(args, reader)?;
        for Variant { scheme, settings } in variants {
            check(&scheme, &places[0].settings)?;
            let parameters = parameters(&scheme);
            let scheme: Arc<dyn SchemeFactory> = Arc::new(scheme);
            for place in &places {
                let lane = LaneSpec {
                    clock: place.clock.clone(),
                    // No column of a sweep is about them.
                    lifetimes: false,
                    ..LaneSpec::new(scheme.clone(), place.settings.clone())
                };
                let key = format!(
                    "{common} {} {parameters} {:?} {:?} {:?}",
                    lane.scheme.name(),
                    place.at.ground,
                    lane.device,
                    lane.clock
                );
                grid.runs.push(Run { lane, settings: settings.clone(), at: place.at, key });
            }
        }
        Ok(grid)
    }

    /// The devices at a point: one for each GC destination.
    fn places(
        &mut self,
        args: &SweepArgs,
        meta: &Meta,
        point: &Point,
        fitting: &mut Fitting,
    ) -> Result<Vec<GridCell>, Failure> {
        let capacity = Template::load(&point.device)?.capacity_pages();
        fitting.fit.change_device(point.space, capacity)?;
        let pages = fitting.fit.space().map_or(meta.device.pages, |space| space.logical_pages);
        let Made { devices, refused } =
            devices(&args.grid, point, pages).map_err(|failure| fitting.refused(failure))?;
        self.left_out.extend(refused.into_iter().map(|why| format!("{}, {why}", in_words(point))));
        let ground = Ground { space: point.space, capacity, prefill: point.measure.prefill };
        if !self.spaces.iter().any(|space| space.ground == ground) {
            let logical_pages = devices[0].profile.device.logical_pages;
            let share = ground.prefill.share();
            let prefill = plan::prefill(share, fitting.fit.space(), &meta.prefilled, logical_pages);
            self.spaces.push(Space { ground, prefill });
        }
        let at = At {
            ground,
            profile: point.device.profile,
            capacity: point.device.capacity,
            queue_depth: point.measure.queue_depth,
        };
        self.shrunk.extend(
            devices.iter().filter_map(|made| {
                made.shrunk_from.map(|first| (first, made.profile.device.superblock_pages))
            }),
        );
        let place = |profile: &pcstream_ssd::Profile, settings: DeviceSettings| GridCell {
            at,
            settings: fitting.fit.space().map_or(settings.clone(), |space| space.on(&settings)),
            clock: device::clock(&point.measure, profile),
        };
        let all = devices.into_iter().flat_map(|Devices { settings, profile, .. }| {
            settings.into_iter().map(|settings| place(&profile, settings)).collect::<Vec<_>>()
        });
        Ok(all.collect())
    }
}

/// The devices at a point.
struct Made {
    devices: Vec<Devices>,
    /// Destinations that cannot be there, and why.
    refused: Vec<String>,
}

/// Where the destinations cannot all be, those that can, each for itself.
fn devices(grid: &GridArgs, point: &Point, pages: u64) -> Result<Made, Failure> {
    let flags = |gc| DeviceArgs { gc, ..point.device.clone() };
    let all = flags(grid.gc.clone());
    let template = Template::load(&all)?;
    let error = match template.devices(Some(pages)) {
        Err(Failure::WrongArguments(error)) => error,
        made => return Ok(Made { devices: vec![made?], refused: Vec::new() }),
    };
    let mut made = Made { devices: Vec::new(), refused: Vec::new() };
    for gc in template.destinations(Some(pages))? {
        match Template::load(&flags(Some(List(vec![gc]))))?.devices(Some(pages)) {
            Ok(devices) => made.devices.push(devices),
            Err(Failure::WrongArguments(why)) => made.refused.push(format!("--gc {gc}: {why:#}")),
            Err(other) => return Err(other),
        }
    }
    if made.devices.is_empty() { Err(Failure::WrongArguments(error)) } else { Ok(made) }
}

/// Parameters out of range are found before hours of work.
fn check(scheme: &Configured, device: &DeviceSettings) -> Result<(), Failure> {
    if scheme.needs_future() {
        return Ok(());
    }
    let build = |mut environment: Environment| {
        environment.superblock_pages = device.superblock_pages;
        scheme.build(&environment).map(drop)
    };
    Environment::new(device.streams).and_then(build).map_err(|error| refused(ReplayError::Scheme(error)))
}

fn parameters(scheme: &Configured) -> String {
    let parameters = scheme.parameters();
    let pairs = parameters.iter().map(|p| format!("{}={:?}", p.name, p.value));
    pairs.collect::<Vec<_>>().join(" ")
}

/// What decides the results of all runs alike: the trace, this program, files that flags name.
fn common_key(args: &SweepArgs, reader: &TraceReader) -> Result<String, Failure> {
    let mut key = format!("pcstream {:016x} trace {}", program()?, trace(reader)?);
    let options = &args.scheme_options;
    let rules = options.rules.as_deref().map(asked::rules).transpose()?.flatten();
    let table = options.load_table.as_deref().map(asked::contents).transpose()?.flatten();
    for (flag, bytes) in [("rules", rules), ("table", table)] {
        if let Some(bytes) = bytes {
            _ = write!(key, " {flag} {:016x}", XxHash3_64::oneshot(&bytes));
        }
    }
    _ = write!(key, " table {:?}", options.table_bytes);
    Ok(key)
}

/// A digest of a trace. Its own is that of its events; what was on the device, contexts and files decide, too. `meta.json` has
/// the checksums of all tables, unless somebody left them out.
fn trace(reader: &TraceReader) -> anyhow::Result<String> {
    let meta = reader.meta();
    let text = serde_json::to_vec(meta).context("meta.json")?;
    let mut digests = vec![XxHash3_64::oneshot(&text)];
    for table in ["events", "contexts", "files"].map(|table| format!("{table}.parquet")) {
        let path = reader.path().join(&table);
        if !meta.checksums.contains_key(&table) && path.exists() {
            let file = File::open(&path).with_context(|| path.display().to_string())?;
            digests.push(digest(file).with_context(|| path.display().to_string())?);
        }
    }
    Ok(digests.iter().map(|digest| format!("{digest:016x}")).collect::<Vec<_>>().join("+"))
}

/// A digest of this program: another build may come to other results.
fn program() -> anyhow::Result<u64> {
    let file =
        File::open("/proc/self/exe").context("cannot read this program, which tells its builds apart")?;
    digest(file)
}

fn digest(file: File) -> anyhow::Result<u64> {
    let (mut file, mut hash) = (BufReader::with_capacity(1 << 20, file), XxHash3_64::new());
    loop {
        let bytes = file.fill_buf()?;
        if bytes.is_empty() {
            return Ok(hash.finish());
        }
        hash.write(bytes);
        let read = bytes.len();
        file.consume(read);
    }
}

fn in_words(point: &Point) -> String {
    let mut parts = Vec::new();
    let mut part =
        |flag: &str, value: Option<String>| parts.extend(value.map(|value| format!("{flag} {value}")));
    part("--profile", point.device.profile.map(str::to_owned));
    part("--capacity", point.device.capacity.map(|v| v.to_string()));
    part("--victim", point.device.victim.map(|v| v.to_string()));
    part("--superblock-pages", point.device.superblock_pages.map(|v| v.to_string()));
    part("--spare-factor", point.device.spare_factor.map(|v| v.to_string()));
    part("--overprovision", point.device.overprovision.map(|v| v.to_string()));
    part("--pack", point.space.addresses().map(|v| v.to_string()));
    part("--pack-live", point.space.live().map(|v| v.to_string()));
    part("--prefill", point.measure.prefill.share().map(|v| v.to_string()));
    part("--utilisation", point.space.fill.map(|v| v.to_string()));
    part("--streams", point.device.streams.map(|v| v.to_string()));
    part("--background-gc", point.device.background_gc.map(|v| format!("{}:{}", v.low, v.high)));
    part("--seed", point.device.seed.map(|v| v.to_string()));
    part("--queue-depth", point.measure.queue_depth.map(|v| v.to_string()));
    if point.space.no_discard {
        parts.push("--no-discard".to_owned());
    }
    if parts.is_empty() { "the device".to_owned() } else { parts.join(" ") }
}
