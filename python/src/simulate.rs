//! `simulate`: a trace through schemes, as `pcstream simulate` does it.

use std::path::Path;
use std::sync::Arc;

use pcstream_placement::SchemeFactory;
use pcstream_replay::{Fit, FitError, Fitted, FrontEnd, LaneResult, Pass, Plan, plan};
use pcstream_report::human::percent;
use pcstream_report::space::discards_matter;
use pcstream_report::{About, ChangedSpace, FILES_PER_CONTEXT, Simulation, TraceInfo, json};
use pcstream_ssd::Devices;
use pcstream_system::memory;
use pcstream_trace::{Batch, Event, Meta, Op, TraceError, TraceReader};
use pyo3::prelude::*;

use crate::errors;
use crate::forked;
use crate::options::{DeviceArg, OptionsArg};
use crate::scheme::{self, SchemeArg};
use crate::stop::Stop;
use crate::trace::Trace;

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

/// Bytes that a simulation may take now, unless it has a limit of its own.
#[pyfunction]
pub fn memory_allowed() -> u64 {
    memory::allowed(None)
}

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
    let known = reader.meta().device_pages();
    known.map_err(|unknown| errors::argument(format_args!("{path}: {unknown}")))?;
    let run = Run { reader: &reader, stop: &stop, options: &options };
    let work = || {
        let mut fit = Fit::new(run, options.space(), device.logical_pages)?;
        let (plan, devices) = run.plan(factories, &device, &fit)?;
        let groups = fit.groups(&plan, memory::allowed(options.memory))?;
        let fitted = fit.run(&plan, &groups)?;
        stop.check()?;
        let space = fit.space().map(ChangedSpace::of);
        let trace = trace_info(path, &reader, fitted.damage.clone());
        let remarks = run.remarks(&fitted.results, &devices);
        let seed = devices.profile.device.seed;
        texts(
            About { seed, trace, device: device.origin(), settings: options.settings(), space },
            fitted,
            remarks,
        )
    };
    py.detach(|| forked::run(work, stop.watch()))
}

/// A simulation that Python asks for.
#[derive(Clone, Copy)]
struct Run<'a> {
    reader: &'a TraceReader,
    stop: &'a Stop,
    options: &'a OptionsArg,
}

impl FrontEnd for Run<'_> {
    type ReadError = TraceError;
    type Failure = PyErr;

    fn meta(&self) -> &Meta {
        self.reader.meta()
    }

    /// Cut into pieces.
    fn batches(&self) -> impl Iterator<Item = Result<Batch, TraceError>> + Send {
        let stop = self.stop.clone();
        let batches = self.reader.batches();
        let pieces = batches.flat_map(|batch| batch.map_or_else(|error| vec![Err(error)], pieces));
        pieces.take_while(move |_| !stop.asked())
    }

    fn progress(&self) -> impl FnMut(Pass, usize) {
        let mut watch = self.stop.watch();
        move |_, _| watch()
    }

    fn check(&self) -> PyResult<()> {
        self.stop.check()
    }

    fn failure(&self, error: FitError<TraceError>) -> PyErr {
        match error {
            FitError::Recorded(error) => errors::recorded(&error),
            FitError::Space(error) => errors::space(&error),
            FitError::Memory { not_enough, smaller } => errors::memory(not_enough, smaller),
        }
    }
}

impl Run<'_> {
    /// The plan on the space that the trace was moved to, if it was, and its devices.
    fn plan(
        &self,
        schemes: Vec<Arc<dyn SchemeFactory>>,
        device: &DeviceArg,
        fit: &Fit<Run<'_>>,
    ) -> PyResult<(Plan, Devices)> {
        let (meta, space) = (self.reader.meta(), fit.space());
        let pages = space.map_or(meta.device.pages, |space| space.logical_pages);
        let devices = device.devices(Some(pages), fit.packs())?;
        let clock = self.options.clock(&devices.profile);
        let lanes = plan::lanes(&schemes, &devices.settings, clock.as_ref(), space);
        let logical_pages = devices.profile.device.logical_pages;
        let prefill = plan::prefill(self.options.prefill, space, &meta.prefilled, logical_pages);
        Ok((Plan { lanes, prefill, ..Plan::default() }, devices))
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
        let others = of_device.chain(pcstream_report::schemes::remarks(results, &rules));
        remarks.extend(others.map(|text| ("PcstreamWarning", text)));
        remarks
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
