//! `simulate`: a trace through schemes, as `pcstream simulate` does it.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use pcstream_placement::SchemeFactory;
use pcstream_replay::budget::{Footprint, Touched};
use pcstream_replay::recorded::{self, RecordedError};
use pcstream_replay::space::{Space, SpaceSettings, Used};
use pcstream_replay::{Fitted, LaneResult, Plan, groups, plan};
use pcstream_report::human::{bytes, percent};
use pcstream_report::space::discards_matter;
use pcstream_report::{About, ChangedSpace, Simulation, TraceInfo, json};
use pcstream_ssd::{Density, Devices};
use pcstream_system::memory;
use pcstream_trace::{Batch, Event, Op, TraceError, TraceReader};
use pyo3::prelude::*;

use crate::errors;
use crate::forked;
use crate::options::{DeviceArg, OptionsArg};
use crate::scheme::{self, SchemeArg};
use crate::stop::Stop;
use crate::trace::Trace;

/// Files listed per context.
const FILES_PER_CONTEXT: usize = 10;

/// Pages that a batch writes at most, unless its only event writes more. Some batches are read ahead, and the run ends
/// behind them: with large writes and many schemes, whole ones take seconds.
const BATCH_PAGES: u64 = 64 * 1024;

/// Host pages and flash pages at some points of a run.
type Curve = Vec<(u64, u64)>;

/// A scheme that dropped what it knew of live data, how often, and the parameter that bounds its memory.
type Dropped = (String, u64, &'static str);

/// The class of a warning, and what it says.
type Remark = (&'static str, String);

/// The results as `pcstream simulate --json` and `pcstream contexts --json` write them, the curve of every result, what
/// schemes dropped, and what else limits a result.
type Texts = (String, String, Vec<Curve>, Vec<Dropped>, Vec<Remark>);

/// Simulates.
#[pyfunction]
pub fn simulate(
    py: Python<'_>,
    trace: &Trace,
    path: &str,
    schemes: Vec<SchemeArg>,
    device: DeviceArg,
    options: OptionsArg,
) -> PyResult<Texts> {
    let stop = Stop::default();
    let factories = scheme::factories(py, schemes, &options, &stop)?;
    let reader = trace.reader.clone();
    if reader.meta().device.pages == 0 {
        return Err(errors::argument(format_args!(
            "{path}: the trace does not say how large its device is (device.pages in meta.json is 0): its recorder ended \
             before it knew; record again"
        )));
    }
    let run = Run { reader: &reader, stop: &stop, options: &options };
    let work = || {
        let (space, plan, devices) = run.plan(factories, &device)?;
        let fitted = run.run(&plan, space.as_ref())?;
        stop.check()?;
        let (settings, packed) = (options.settings(), options.space().pack.is_some());
        let space = space.as_ref().map(|space| ChangedSpace::of(space, packed));
        let trace = trace_info(path, &reader, fitted.damage.clone());
        let remarks = run.remarks(&fitted.results, &devices);
        let seed = devices.profile.device.seed;
        texts(About { seed, trace, device: device.origin(), settings, space }, fitted, remarks)
    };
    py.detach(|| forked::run(work, stop.watch()))
}

struct Run<'a> {
    reader: &'a TraceReader,
    stop: &'a Stop,
    options: &'a OptionsArg,
}

impl Run<'_> {
    /// The changed address space, the plan on it, and its devices.
    fn plan(
        &self,
        schemes: Vec<Arc<dyn SchemeFactory>>,
        device: &DeviceArg,
    ) -> PyResult<(Option<Space>, Plan, Devices)> {
        let meta = self.reader.meta();
        let space = self.space(device.logical_pages)?;
        let pages = space.as_ref().map_or(meta.device.pages, |space| space.logical_pages);
        let devices = device.devices(Some(pages))?;
        let clock = self.options.clock(&devices.profile);
        let lanes = plan::lanes(&schemes, &devices.settings, clock.as_ref(), space.as_ref());
        let logical_pages = devices.profile.device.logical_pages;
        let prefill = plan::prefill(self.options.prefill, space.as_ref(), &meta.prefilled, logical_pages);
        let plan = Plan { lanes, prefill, density: Density::Dense, without_devices: false };
        Ok((space, plan, devices))
    }

    fn space(&self, capacity: Option<u64>) -> PyResult<Option<Space>> {
        let settings = self.options.space();
        if settings == SpaceSettings::default() {
            return Ok(None);
        }
        let meta = self.reader.meta();
        let used = if settings.needs_survey() { self.survey()? } else { Used::default() };
        let space = Space::new(settings, &used, &meta.prefilled, meta.device.pages, capacity);
        space.map(Some).map_err(errors::argument)
    }

    fn survey(&self) -> PyResult<Used> {
        let mut watch = self.stop.watch();
        let (settings, prefilled) = (self.options.space(), &self.reader.meta().prefilled);
        let used = recorded::used(|| self.batches(None), settings, prefilled, |_, _| watch());
        let used = used.map_err(|error: RecordedError<TraceError>| errors::recorded(&error))?;
        self.stop.check()?;
        Ok(used)
    }

    /// The trace's batches, changed and cut, until something ends the run.
    fn batches(&self, space: Option<&Space>) -> impl Iterator<Item = Result<Batch, TraceError>> + Send {
        let stop = self.stop.clone();
        let batches = self.reader.batches().map(move |batch| match space {
            Some(space) => batch.map(|batch| space.change(batch)),
            None => batch,
        });
        let pieces = batches.flat_map(|batch| batch.map_or_else(|error| vec![Err(error)], pieces));
        pieces.take_while(move |_| !stop.asked())
    }

    /// What the program remarks beside losses and sizes.
    fn remarks(&self, results: &[LaneResult], devices: &Devices) -> Vec<Remark> {
        let mut remarks = Vec::new();
        let totals = &self.reader.meta().totals;
        if let Some(share) = self.options.pack.filter(|_| discards_matter(totals, !self.options.discard)) {
            let emptier = format!(
                "discards leave the device emptier than {}, its share of addresses: pack_live={share} goes by live data",
                percent(share)
            );
            remarks.push(("SizeWarning", emptier));
        }
        let smaller = devices.shrunk_from.map(|first| {
            pcstream_report::geometry::smaller_superblocks(first, devices.settings[0].superblock_pages)
        });
        let of_device = smaller.into_iter().chain(pcstream_report::too_few_dies(results));
        let of_device = of_device.map(|text| errors::for_python(&text));
        let rules = self.options.rules_name.as_ref().map_or(String::new(), |name| format!("rules {name}: "));
        let mut said = BTreeSet::new();
        let schemes = results.iter().flat_map(|lane| &lane.remarks).filter(|remark| said.insert(*remark));
        let others = of_device.chain(schemes.map(|remark| format!("{rules}{remark}")));
        remarks.extend(others.map(|text| ("PcstreamWarning", text)));
        remarks
    }

    /// In as many passes as memory asks for.
    fn run(&self, plan: &Plan, space: Option<&Space>) -> PyResult<Fitted> {
        let available = memory::allowed(self.options.memory);
        let host_pages = self.reader.meta().totals.host_pages;
        let mut footprint =
            Footprint::new(&plan.lanes, host_pages, None).map_err(|error| errors::replay(&error))?;
        // Packed addresses leave nothing untouched.
        if footprint.total() > available && self.options.space().pack.is_none() {
            let touched = Touched::new(&self.survey()?.written, &plan.prefill, host_pages);
            let touched = Footprint::new(&plan.lanes, host_pages, Some(&touched));
            footprint = touched.map_err(|error| errors::replay(&error))?;
        }
        let groups = footprint.groups(available).map_err(|not_enough| {
            errors::memory(format!(
                "the simulation needs at least {} of memory, for one scheme at a time, and {} are allowed (three quarters of \
                 what is free, unless memory says otherwise): free some, allow more with memory=, or pack=0.9 for a device \
                 that is no larger than what the trace writes",
                bytes(not_enough.needed),
                bytes(available),
            ))
        })?;
        groups::run(plan, footprint.density, groups, |part| {
            let mut watch = self.stop.watch();
            let run = recorded::replay(part, || self.batches(space), |_, _| watch());
            self.stop.check()?;
            run.map_err(|error| errors::recorded(&error))
        })
    }
}

/// A batch in pieces of `BATCH_PAGES`. Results do not depend on it.
fn pieces(batch: Batch) -> Vec<Result<Batch, TraceError>> {
    let written = |event: &Event| if event.op == Op::Write { u64::from(event.pages) } else { 0 };
    if batch.events.iter().map(written).sum::<u64>() <= BATCH_PAGES {
        return vec![Ok(batch)];
    }
    let mut pages = batch.events.first().map_or(0, written);
    let runs = batch.events.chunk_by(|_, event| {
        pages += written(event);
        let fits = pages <= BATCH_PAGES;
        pages = if fits { pages } else { written(event) };
        fits
    });
    let mut tables = Batch { contexts: batch.contexts, files: batch.files, events: Vec::new() };
    runs.map(|events| Ok(Batch { events: events.to_vec(), ..std::mem::take(&mut tables) })).collect()
}

fn trace_info(path: &str, reader: &TraceReader, damage: Option<String>) -> TraceInfo {
    let path = if path.is_empty() { reader.path() } else { Path::new(path) };
    TraceInfo::of(&path.display().to_string(), reader, damage)
}

fn texts(about: About, fitted: Fitted, remarks: Vec<Remark>) -> PyResult<Texts> {
    let Fitted { results, replay, .. } = fitted;
    let curve = |result: &LaneResult| {
        let mut curve: Curve = result.progress.iter().map(|p| (p.host_pages, p.flash_pages)).collect();
        let end = (result.host_pages(), result.flash_pages());
        if curve.last() != Some(&end) {
            curve.push(end);
        }
        curve
    };
    let curves = results.iter().map(curve).collect();
    let simulation = Simulation { results, ..Simulation::new(about, &replay) };
    // The last group of a run in several has the contexts.
    let rows = simulation.context_rows(simulation.recommended(), FILES_PER_CONTEXT);
    let text = serde_json::to_string(&json::simulation(&simulation, &[])).map_err(errors::argument)?;
    let contexts = serde_json::to_string(&json::contexts(&simulation, &rows)).map_err(errors::argument)?;
    let dropped = simulation.dropped().into_iter();
    let dropped = dropped.map(|it| (it.scheme, it.count, it.parameter)).collect();
    Ok((text, contexts, curves, dropped, remarks))
}
