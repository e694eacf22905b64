//! `simulate` and `contexts`: a trace from disk through schemes.
//!
//! A trace is read once for every scheme that does not look ahead, and once before, for the future,
//! if one does. Reading and decoding run in a thread beside the simulation.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use anyhow::{Context as _, anyhow};
use indicatif::ProgressBar;
use pcstream_placement::future::FutureBuilder;
use pcstream_placement::{Future, Rules, SchemeParams};
use pcstream_replay::{LaneSpec, Replay, ReplayError};
use pcstream_report::{About, Simulation, TraceInfo};
use pcstream_ssd::DeviceSettings;
use pcstream_trace::{Batch, Extent, Meta, TraceReader};

use crate::args::{ContextsArgs, SchemeOptions, SimulateArgs, SimulationArgs};
use crate::device::{self, Devices, Template};
use crate::failure::{Failure, Status};
use crate::learned_table::{self, TableFile};
use crate::small_file;
use crate::ui::{self, JsonSink, Ui};

/// Batches read ahead of the simulation.
const READ_AHEAD: usize = 8;

/// Contexts in the table that follows the schemes in `run`.
#[cfg(feature = "capture")]
pub const TOP_CONTEXTS: usize = 10;

/// Files listed per context in JSON.
const FILES_PER_CONTEXT: usize = 10;

/// What is to be run, before any event is seen: all that flags and the size of the device decide.
pub struct Plan {
    /// The lanes; those that look ahead have no future yet.
    pub lanes: Vec<LaneSpec>,
    /// Written before counting.
    pub prefill: Vec<Extent>,
    /// For the report.
    pub seed: u64,
    /// Where the device comes from, for the report.
    pub device: Option<String>,
}

impl Plan {
    /// Every scheme on every device of `args`; `template` is that of its flags.
    pub fn new(args: &SimulationArgs, template: &Template, meta: &Meta) -> Result<Plan, Failure> {
        let Devices { settings, profile } = template.devices(Some(device_pages(meta)?))?;
        let clock = device::clock(&args.measure, &profile);
        let params = scheme_params(&args.scheme_options)?;
        let lane = |scheme: &&'static str, device: &DeviceSettings| LaneSpec {
            scheme: (*scheme).to_owned(),
            params: params.clone(),
            device: device.clone(),
            clock: clock.clone(),
        };
        let lanes =
            args.scheme.0.iter().flat_map(|scheme| settings.iter().map(move |device| lane(scheme, device)));
        let prefill = device::prefill(args.measure.prefill, meta, profile.device.logical_pages);
        Ok(Plan { lanes: lanes.collect(), prefill, seed: profile.device.seed, device: template.origin() })
    }

    /// Whether the scheme of a lane has to be told the future.
    pub fn looks_ahead(lane: &LaneSpec) -> bool {
        pcstream_placement::find(&lane.scheme).is_ok_and(|s| s.needs_future())
    }

    /// Whether the trace has to be seen once before it is replayed.
    pub fn needs_future(&self) -> bool {
        self.lanes.iter().any(Plan::looks_ahead)
    }

    /// The lanes that can run while the trace is recorded; `None` if there are none.
    #[cfg(feature = "capture")]
    pub fn online(&self) -> Option<Plan> {
        self.only(|lane| !Plan::looks_ahead(lane))
    }

    /// The lanes that need the whole trace first; `None` if there are none.
    #[cfg(feature = "capture")]
    pub fn lookahead(&self) -> Option<Plan> {
        self.only(Plan::looks_ahead)
    }

    #[cfg(feature = "capture")]
    fn only(&self, wanted: impl Fn(&LaneSpec) -> bool) -> Option<Plan> {
        let lanes: Vec<_> = self.lanes.iter().filter(|lane| wanted(lane)).cloned().collect();
        (!lanes.is_empty()).then(|| Plan {
            lanes,
            prefill: self.prefill.clone(),
            seed: self.seed,
            device: self.device.clone(),
        })
    }

    /// Tells every lane the future; schemes that do not look ahead are not shown it.
    pub fn set_future(&mut self, future: Future) {
        let future = Arc::new(future);
        self.lanes.iter_mut().for_each(|lane| lane.params.future = Some(future.clone()));
    }

    /// The replay, its devices made and prefilled.
    pub fn start(&self) -> Result<Replay, Failure> {
        Replay::new(&self.lanes, &self.prefill).map_err(|error| match error {
            ReplayError::Device(_) | ReplayError::Timing(_) | ReplayError::Scheme(_) => {
                Failure::wrong_arguments(error)
            }
            other => Failure::failed(other),
        })
    }
}

/// `pcstream simulate`.
pub fn simulate(args: &SimulateArgs, ui: Ui) -> Result<Status, Failure> {
    let json = args.simulation.output.json.as_deref().map(JsonSink::open).transpose()?;
    let table = args
        .save_table
        .as_deref()
        .map(|path| TableFile::open(path, &args.simulation.scheme.0))
        .transpose()?;
    let reader = open(&args.trace)?;
    remark_state(&reader, ui);
    let template = Template::load(&args.simulation.device)?;
    let mut plan = Plan::new(&args.simulation, &template, reader.meta())?;
    ui.remark(&format!("seed {}", plan.seed));
    let (replay, damage) = replay_trace(&mut plan, &reader, ui)?;
    if let Some(table) = table {
        table.write(|scheme| replay.learned(scheme))?;
    }
    let simulation = Simulation::new(about(&args.trace, &reader, damage, &plan), &replay);
    present(&simulation, json, 0, args.simulation.details)
}

/// `pcstream contexts`.
pub fn contexts(args: &ContextsArgs, ui: Ui) -> Result<Status, Failure> {
    let json = args.output.json.as_deref().map(JsonSink::open).transpose()?;
    let reader = open(&args.trace)?;
    remark_state(&reader, ui);
    let seed = 1;
    let lane = LaneSpec {
        scheme: args.scheme.to_owned(),
        params: scheme_params(&args.scheme_options)?,
        device: device::roomy(device_pages(reader.meta())?, args.streams, seed),
        clock: None,
    };
    let mut plan = Plan { lanes: vec![lane], prefill: Vec::new(), seed, device: None };
    let (replay, damage) = replay_trace(&mut plan, &reader, ui)?;
    let simulation = Simulation::new(about(&args.trace, &reader, damage, &plan), &replay);
    let rows = simulation.context_rows(0, FILES_PER_CONTEXT);
    match json {
        Some(JsonSink::Stdout) => {
            JsonSink::Stdout.write(&pcstream_report::json::contexts(&simulation, &rows))?;
        }
        other => {
            if let Some(sink) = other {
                sink.write(&pcstream_report::json::contexts(&simulation, &rows))?;
            }
            ui::print(&pcstream_report::contexts::text(&simulation, &rows, args.top))?;
        }
    }
    Ok(Status::with_losses(simulation.about.trace.has_losses()))
}

/// Prints a simulation as tables, JSON or both; with its `top` heaviest contexts if that is not 0, and with
/// the details of every result if wanted.
pub fn present(
    simulation: &Simulation,
    json: Option<JsonSink>,
    top: usize,
    details: bool,
) -> Result<Status, Failure> {
    // The streams shown are those of pcstream, where it was among the schemes.
    let lane = simulation.results.iter().position(|r| r.scheme == "pcstream").unwrap_or(0);
    let rows = if top > 0 { simulation.context_rows(lane, FILES_PER_CONTEXT) } else { Vec::new() };
    let stdout_is_json = json.as_ref().is_some_and(JsonSink::is_stdout);
    if let Some(sink) = json {
        sink.write(&pcstream_report::json::simulation(simulation, &rows))?;
    }
    if !stdout_is_json {
        let mut text = pcstream_report::schemes::text(simulation);
        if details {
            text.push('\n');
            text += &pcstream_report::details::text(&simulation.results);
        }
        if top > 0 {
            text.push('\n');
            text += &pcstream_report::contexts::table(simulation, &rows, top);
        }
        if let Some(verdict) = pcstream_report::verdict::text(simulation) {
            text += &format!("\nVerdict: {verdict}\n");
        }
        ui::print(&text)?;
    }
    Ok(Status::with_losses(simulation.about.trace.has_losses()))
}

/// Runs a trace through a plan; the second value says why reading ended early, if it did.
pub fn replay_trace(
    plan: &mut Plan,
    reader: &TraceReader,
    ui: Ui,
) -> Result<(Replay, Option<String>), Failure> {
    let events = reader.meta().totals.events;
    if plan.needs_future() {
        let bar = ui.progress("looking ahead", "events", events);
        let mut future = FutureBuilder::default();
        for_each_batch(reader, &bar, |batch| {
            Ok(batch.events.iter().try_for_each(|event| future.push(event))?)
        })?;
        plan.set_future(future.finish());
    }
    let mut replay = plan.start()?;
    let bar = ui.progress("simulating", "events", events);
    let damage = for_each_batch(reader, &bar, |batch| replay.feed(batch).map_err(anyhow::Error::from))?;
    if let Some(damage) = &damage {
        ui.remark(&format!("the trace is damaged; results are for what comes before: {damage}"));
    }
    Ok((replay, damage))
}

/// Feeds a trace's batches, read in a thread of their own, to `feed`. Damage behind the first events
/// ends the trace and is returned; without any event before it, there is no result and it is an error.
fn for_each_batch(
    reader: &TraceReader,
    bar: &ProgressBar,
    mut feed: impl FnMut(&Batch) -> anyhow::Result<()>,
) -> Result<Option<String>, Failure> {
    let mut damage = None;
    let mut events = 0;
    std::thread::scope(|scope| -> Result<(), Failure> {
        let (sender, receiver) = sync_channel(READ_AHEAD);
        scope.spawn(move || {
            for batch in reader.batches() {
                // The receiver is gone when feeding failed, which is reported there.
                if sender.send(batch).is_err() {
                    return;
                }
            }
        });
        for batch in receiver {
            match batch {
                Ok(batch) => {
                    feed(&batch).with_context(|| format!("trace {}", reader.path().display()))?;
                    events += batch.events.len();
                    bar.inc(batch.events.len() as u64);
                }
                Err(error) if events == 0 => return Err(Failure::failed(error)),
                Err(error) => damage = Some(format!("after {events} events: {error}")),
            }
        }
        Ok(())
    })?;
    bar.finish_and_clear();
    Ok(damage)
}

/// All contexts and files of a trace.
#[cfg(feature = "capture")]
pub fn tables_of(reader: &TraceReader) -> pcstream_trace::Tables {
    let mut tables = pcstream_trace::Tables::default();
    reader.contexts().iter().cloned().for_each(|context| tables.push_context(context));
    reader.files().iter().cloned().for_each(|file| tables.push_file(file));
    tables
}

fn open(path: &Path) -> Result<TraceReader, Failure> {
    Ok(TraceReader::open(path).context("cannot read the trace")?)
}

/// Says at once what is missing, before the work begins.
fn remark_state(reader: &TraceReader, ui: Ui) {
    if let Some(damage) = reader.damage() {
        ui.remark(&format!("{}: {damage}", reader.path().display()));
    }
    if reader.meta().has_losses() {
        ui.remark("something was lost when this trace was recorded or imported; the report says how much");
    }
}

fn device_pages(meta: &Meta) -> Result<u64, Failure> {
    match meta.device.pages {
        0 => Err(anyhow!(
            "the trace does not say how large its device is (device.pages in meta.json is 0): \
             its recorder ended before it knew; record again"
        )
        .into()),
        pages => Ok(pages),
    }
}

/// Where a simulation's events came from.
pub fn about(path: &Path, reader: &TraceReader, damage: Option<String>, plan: &Plan) -> About {
    let mut trace = TraceInfo::from_meta(&path.display().to_string(), reader.meta());
    trace.damage = damage.or_else(|| reader.damage().map(str::to_owned));
    About {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        seed: plan.seed,
        trace,
        device: plan.device.clone(),
    }
}

fn scheme_params(options: &SchemeOptions) -> Result<SchemeParams, Failure> {
    let mut params = SchemeParams::default();
    if let Some(rules) = &options.rules {
        params.manual.rules = load_rules(rules)?;
    }
    if let Some(bytes) = options.table_bytes {
        params.pcstream.table_bytes = bytes;
    }
    if let Some(path) = &options.load_table {
        let saved = learned_table::read(path).map_err(|error| {
            Failure::wrong_arguments(error.context(format!("--load-table {}", path.display())))
        })?;
        params.pcstream.saved_table = Some(saved.into());
    }
    Ok(params)
}

/// A preset by name, else a file.
fn load_rules(rules: &Path) -> Result<Rules, Failure> {
    let unknown = match rules.to_str().map(Rules::preset) {
        Some(Ok(preset)) => return Ok(preset),
        Some(Err(unknown)) => unknown.to_string(),
        None => String::new(),
    };
    if !rules.exists() {
        let error = anyhow!("--rules {}: there is no such file, and {unknown}", rules.display());
        return Err(Failure::wrong_arguments(error));
    }
    let place = || format!("--rules {}", rules.display());
    let text = small_file::read_text(rules).with_context(place)?;
    Ok(Rules::parse(&text).with_context(place)?)
}
