//! `simulate` and `contexts`: a trace from disk through schemes.
//!
//! What runs is `pcstream-replay`'s; here are arguments, progress, exit codes and what is printed.

use std::io::ErrorKind::PermissionDenied;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::anyhow;
use pcstream_placement::SchemeFactory;
use pcstream_replay::budget::Footprint;
use pcstream_replay::recorded::{self, Recorded};
use pcstream_replay::space::Space;
use pcstream_replay::{Fitted, LaneResult, LaneSpec, Plan, plan};
use pcstream_report::settings::Settings;
use pcstream_report::space::ChangedSpace;
use pcstream_report::{About, ContextRow, FILES_PER_CONTEXT, Layout, Simulation, TraceInfo, geometry, human};
use pcstream_ssd::{Density, Devices};
use pcstream_system::shell;
use pcstream_trace::{Meta, TraceError, TraceReader};

use crate::args::{ContextsArgs, FitArgs, SchemeOptions, SimulateArgs, SimulationArgs};
use crate::asked;
use crate::contexts_view::View;
use crate::device::{self, Template};
use crate::failure::{Failure, Status};
use crate::fitted::Fitting;
use crate::interrupt::Interrupt;
use crate::learned_table::TableFile;
use crate::passes::{self, refused};
use crate::schemes;
use crate::ui::{self, JsonSink, Ui};
use crate::values::Schemes;
use crate::whole_file::all_different;

/// Contexts in the table that follows the schemes in `run`.
#[cfg(feature = "capture")]
pub const TOP_CONTEXTS: usize = 10;

/// What flags and a trace make of a simulation, and what the report says of it.
pub struct Planned {
    /// What is run.
    pub plan: Plan,
    /// Seed of the devices.
    pub seed: u64,
    /// The profile and file that the device comes from.
    pub device: Option<String>,
    /// What was asked for.
    pub settings: Settings,
    /// What was done to the trace's addresses, if they were changed.
    pub space: Option<ChangedSpace>,
    /// Pages of the default superblock, if there is no room for that.
    pub shrunk_from: Option<u32>,
}

impl Planned {
    /// Every scheme on every device of `args`; `template` is that of its flags.
    #[cfg(feature = "capture")]
    pub fn new(args: &SimulationArgs, template: &Template, meta: &Meta) -> Result<Planned, Failure> {
        let schemes = schemes::factories(&args.scheme, &args.scheme_options)?;
        Planned::of(args, &schemes, template, meta, None)
    }

    /// As `new`, of schemes made before, on the space that a trace was moved to, if it was.
    pub fn of(
        args: &SimulationArgs,
        schemes: &[Arc<dyn SchemeFactory>],
        template: &Template,
        meta: &Meta,
        space: Option<&Space>,
    ) -> Result<Planned, Failure> {
        let pages = space.map_or_else(|| device_pages(meta), |space| Ok(space.logical_pages))?;
        let Devices { settings, profile, shrunk_from } = template.devices(Some(pages))?;
        let clock = device::clock(&args.measure, &profile);
        let lanes = plan::lanes(schemes, &settings, clock.as_ref(), space);
        let logical_pages = profile.device.logical_pages;
        let prefill = plan::prefill(args.measure.prefill.share(), space, &meta.prefilled, logical_pages);
        let density = density(&lanes)?;
        let plan = Plan { lanes, prefill, density, without_devices: false };
        let (seed, device) = (profile.device.seed, template.origin());
        let settings = asked::settings(&args.scheme_options, &args.measure, &FitArgs::default())?;
        Ok(Planned { plan, seed, device, settings, space: None, shrunk_from })
    }
}

/// Tables that do not fit into memory are made for little to be touched: a recording's future is not known.
fn density(lanes: &[LaneSpec]) -> Result<Density, Failure> {
    let whole = Footprint::new(lanes, 0, None).map_err(refused)?;
    Ok(if whole.total() > pcstream_system::memory::allowed(None) { Density::Sparse } else { Density::Dense })
}

/// `pcstream simulate`.
pub fn simulate(args: &SimulateArgs, ui: Ui) -> Result<Status, Failure> {
    let outputs =
        [("--json", args.simulation.output.json.as_deref()), ("--save-table", args.save_table.as_deref())];
    all_different(&outputs)?;
    let json = JsonSink::asked(&args.simulation.output)?;
    let table =
        args.save_table.as_deref().map(|path| TableFile::open(path, &args.simulation.scheme)).transpose()?;
    let reader = open(&args.trace, ui)?;
    let (mut fitting, planned) = fit(&args.simulation, &args.fit, &reader, ui)?;
    ui.remark(&format!("seed {}", planned.seed));
    let Fitted { results, replay, learned, damage } = fitting.run(&planned.plan)?;
    remark_schemes(&args.simulation, &results, ui);
    if let Some(table) = table {
        table.write(|scheme| learned.get(scheme).cloned(), ui)?;
    }
    let about = about(&args.trace, &reader, damage, &planned);
    let results = schemes::keep_best(results);
    let simulation = Simulation { results, ..Simulation::new(about, &replay) };
    present(&simulation, json, 0, ui.layout(args.simulation.details))
}

/// What flags make of a recorded trace: its address space, and the plan for it.
pub fn fit<'a>(
    args: &SimulationArgs,
    fit: &FitArgs,
    reader: &'a TraceReader,
    ui: Ui,
) -> Result<(Fitting<'a>, Planned), Failure> {
    fit_on(&Template::load(&args.device)?, args, fit, reader, ui)
}

/// The same with a device file that was read before, because it may be a pipe.
pub fn fit_on<'a>(
    template: &Template<'_>,
    args: &SimulationArgs,
    fit: &FitArgs,
    reader: &'a TraceReader,
    ui: Ui,
) -> Result<(Fitting<'a>, Planned), Failure> {
    device_pages(reader.meta())?;
    // Before signals are caught: a rules file may be a pipe that nobody writes to.
    let schemes = schemes::factories(&args.scheme, &args.scheme_options)?;
    fit_schemes(template, args, &schemes, fit, reader, Interrupt::watch()?, ui)
}

/// The same with schemes made before. A signal that `interrupt` notes ends the work.
pub fn fit_schemes<'a>(
    template: &Template<'_>,
    args: &SimulationArgs,
    schemes: &[Arc<dyn SchemeFactory>],
    fit: &FitArgs,
    reader: &'a TraceReader,
    interrupt: Interrupt,
    ui: Ui,
) -> Result<(Fitting<'a>, Planned), Failure> {
    let fitting = Fitting::new(reader, fit, template.capacity_pages(), interrupt, ui)?;
    let planned = Planned::of(args, schemes, template, reader.meta(), fitting.fit.space());
    let mut planned = planned.map_err(|failure| fitting.refused(failure))?;
    let device = &planned.plan.lanes[0].device;
    if let Some(first) = planned.shrunk_from {
        ui.remark(&geometry::smaller_superblocks(first, device.superblock_pages));
    }
    fitting.remark_size(device, &planned.plan.prefill);
    fitting.remark_addresses(planned.plan.lanes.iter());
    planned.settings = asked::settings(&args.scheme_options, &args.measure, fit)?;
    planned.space = fitting.fit.space().map(ChangedSpace::of);
    Ok((fitting, planned))
}

/// Says which flags do nothing because no scheme goes by them.
pub fn remark_idle(options: &SchemeOptions, Schemes(schemes): &Schemes, ui: Ui) {
    if let Some(rules) = options.rules.as_ref().filter(|_| !schemes.iter().any(|scheme| scheme == "manual")) {
        ui.remark(&format!("--rules {} has no effect: the scheme manual is not simulated", rules.display()));
    }
    let has_table = |scheme: &String| schemes::has_table(scheme);
    if let Some(bytes) = options.table_bytes.filter(|_| !schemes.iter().any(has_table)) {
        ui.remark(&format!(
            "--table-bytes {bytes} has no effect: no scheme with a table of contexts is simulated"
        ));
    }
}

/// Says which flags do nothing, and what schemes remark.
pub fn remark_schemes(args: &SimulationArgs, results: &[LaneResult], ui: Ui) {
    remark_idle(&args.scheme_options, &args.scheme, ui);
    pcstream_report::too_few_dies(results).iter().for_each(|remark| ui.remark(remark));
    lane_remarks(&args.scheme_options, results).iter().for_each(|remark| ui.remark(remark));
}

/// What schemes remark, once for all drives, such as rules that did nothing.
pub fn lane_remarks(options: &SchemeOptions, results: &[LaneResult]) -> Vec<String> {
    let flag = options.rules.as_ref().map_or(String::new(), |path| format!("--rules {}: ", path.display()));
    pcstream_report::schemes::remarks(results, &flag)
}

/// `pcstream contexts`.
pub fn contexts(args: &ContextsArgs, ui: Ui) -> Result<Status, Failure> {
    let view = View::new(args)?;
    let reader = open(&args.trace, ui)?;
    remark_idle(&args.scheme_options, &args.scheme, ui);
    let seed = 1;
    let schemes = schemes::factories(&args.scheme, &args.scheme_options)?;
    let device = device::roomy(device_pages(reader.meta())?, args.streams, seed);
    let lanes = schemes.iter().map(|scheme| LaneSpec::new(scheme.clone(), device.clone())).collect();
    // Which stream a context gets depends on the scheme alone.
    let (prefill, density) = (Vec::new(), Density::Sparse);
    let plan = Plan { lanes, prefill, density, without_devices: true };
    let settings = Settings::default();
    let planned = Planned { plan, seed, device: None, settings, space: None, shrunk_from: None };
    let Recorded { replay, damage, .. } = replay_trace(&planned.plan, &reader, ui)?;
    let simulation = Simulation::new(about(&args.trace, &reader, damage, &planned), &replay);
    lane_remarks(&args.scheme_options, &simulation.results).iter().for_each(|remark| ui.remark(remark));
    view.show(&simulation, ui)?;
    Ok(Status::with_losses(simulation.has_losses()))
}

/// Prints a simulation as tables, JSON or both; with its `top` heaviest contexts if that is not 0.
pub fn present(
    simulation: &Simulation,
    json: Option<JsonSink>,
    top: usize,
    layout: Layout,
) -> Result<Status, Failure> {
    let rows = if top > 0 { rows(simulation) } else { Vec::new() };
    ui::show(json, &pcstream_report::json::simulation(simulation, &rows), || {
        let mut text = pcstream_report::schemes::text(simulation, layout);
        if layout.details {
            text.push('\n');
            text += &pcstream_report::details::text(&simulation.results, layout);
        }
        if top > 0 {
            text.push('\n');
            text += &pcstream_report::contexts::table(simulation, &rows, top, layout);
        }
        text
    })?;
    Ok(Status::with_losses(simulation.has_losses()))
}

/// The contexts of a simulation.
pub fn rows<'a>(simulation: &Simulation<'a>) -> Vec<ContextRow<'a>> {
    simulation.context_rows(simulation.recommended(), FILES_PER_CONTEXT)
}

/// Runs a trace through a plan, and says if the trace is damaged.
pub fn replay_trace(plan: &Plan, reader: &TraceReader, ui: Ui) -> Result<Recorded, Failure> {
    let recorded = recorded::replay(plan, || reader.batches(), passes::progress(reader, ui))
        .map_err(|error| passes::failure(error, reader))?;
    passes::remark_damage(recorded.damage.as_deref(), ui);
    Ok(recorded)
}

/// All contexts and files of a trace.
#[cfg(feature = "capture")]
pub fn tables_of(reader: &TraceReader) -> pcstream_trace::Tables {
    let mut tables = pcstream_trace::Tables::default();
    reader.contexts().iter().cloned().for_each(|context| tables.push_context(context));
    reader.files().iter().cloned().for_each(|file| tables.push_file(file));
    tables
}

/// Opens a trace. What `sudo pcstream` recorded is root's, so the error says what its user can do.
pub fn read(path: &Path) -> anyhow::Result<TraceReader> {
    TraceReader::open(path).map_err(|error| {
        let is_denied = matches!(&error, TraceError::Io { source, .. } if source.kind() == PermissionDenied);
        let user = rustix::process::geteuid().as_raw();
        let is_of_another = std::fs::metadata(path).is_ok_and(|about| about.uid() != user);
        let remedy = match is_denied && is_of_another {
            true => format!(
                ", which is another user's (`sudo chown -R \"$(id -u)\" {}` makes it yours)",
                shell::word(path)
            ),
            false => String::new(),
        };
        anyhow::Error::new(error).context(format!("cannot read the trace{remedy}"))
    })
}

/// Opens a trace. Says at once what is missing, before the work begins.
pub fn open(path: &Path, ui: Ui) -> Result<TraceReader, Failure> {
    let reader = read(path)?;
    if let Some(damage) = reader.damage() {
        ui.remark(&format!("{}: {damage}", reader.path().display()));
    }
    if reader.meta().has_losses() {
        let lost = human::losses(&reader.meta().losses);
        let path = reader.path().display();
        ui.remark(&format!("{path}: something was lost when it was recorded or imported: {lost}"));
    }
    Ok(reader)
}

/// The size of the traced device.
pub fn device_pages(meta: &Meta) -> Result<u64, Failure> {
    meta.device_pages().map_err(|unknown| anyhow!(unknown).into())
}

/// Where a simulation's events came from.
pub fn about(path: &Path, reader: &TraceReader, damage: Option<String>, planned: &Planned) -> About {
    let trace = TraceInfo::of(&path.display().to_string(), reader, damage);
    let Planned { seed, device, settings, space, .. } = planned;
    About { seed: *seed, trace, device: device.clone(), settings: settings.clone(), space: space.clone() }
}
