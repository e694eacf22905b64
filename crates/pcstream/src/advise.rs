//! `advise`: simulates exactly the changes that a trace suggests, and lists them by what they save.

use std::collections::BTreeSet;

use anyhow::{Context as _, anyhow};
use pcstream_capture::symbols::lines::Lack;
use pcstream_placement::Rules;
use pcstream_replay::space::SpaceSettings;
use pcstream_replay::{Fitted, FrontEnd as _, LaneResult, LaneSpec, Plan};
use pcstream_report::advice::{Advice, Change, Possible, Sources};
use pcstream_report::drive::in_words;
use pcstream_report::{Simulation, dropped};
use pcstream_ssd::{DeviceSettings, GcDestination, Geometry};

use crate::args::{AdviseArgs, SchemeOptions, SimulationArgs};
use crate::device::Template;
use crate::failure::{Failure, Status};
use crate::fitted::Fitting;
use crate::schemes;
use crate::simulate;
use crate::source_lines;
use crate::ui::{self, JsonSink, Ui};
use crate::values::{Schemes, Setting};
use crate::whole_file::{WholeFile, all_different};

/// The only scheme of changes whose parameters can be set.
const WITH_PARAMETERS: &str = "pcstream";

/// Why pools of given sizes are refused.
const POOLS: &str = "each kind of drive that it simulates needs another number of sizes";

/// `pcstream advise`.
pub fn advise(args: AdviseArgs, ui: Ui) -> Result<Status, Failure> {
    refuse_idle(&args)?;
    schemes::check_files(&args.scheme_options, "advise")?;
    // What is wrong with its parameters is said before the work.
    schemes::factory(WITH_PARAMETERS, &args.scheme_options, None)?;
    all_different(&[("--json", args.output.json.as_deref()), ("--rules-out", args.rules_out.as_deref())])?;
    let json = JsonSink::asked(&args.output)?;
    let rules_out =
        args.rules_out.as_deref().map(|path| WholeFile::create("--rules-out", path)).transpose()?;
    let reader = simulate::open(&args.trace, ui)?;
    let AdviseArgs { trace, device, measure, fit, scheme_options: options, output, .. } = args;
    let scheme = Schemes(vec!["baseline".to_owned()]);
    let scheme_options = SchemeOptions { set: Vec::new(), load_table: None, ..options.clone() };
    let simulation = SimulationArgs { scheme, scheme_options, device, measure, details: false, output };
    let template = Template::load(&simulation.device)?;
    if template.has_pools()? {
        return Err(Failure::wrong_arguments(anyhow!(
            "--device: advise takes no pools, because {POOLS}; leave them out of the file"
        )));
    }
    let (mut fitting, mut planned) = simulate::fit_on(&template, &simulation, &fit, &reader, ui)?;
    planned.plan.lanes.truncate(1);
    planned.plan.lanes[0].device.gc_destination = GcDestination::Own;
    let plan = &planned.plan;
    let Fitted { replay, damage, .. } = fitting.run(plan)?;
    let result = Simulation::new(simulate::about(&trace, &reader, damage, &planned), &replay);
    let mut rows = result.context_rows(0, 0);
    // What else modules lack is no news: most are built without debug information.
    if let Some(changed) = source_lines::add(&mut rows).get(&Lack::Changed) {
        ui.remark(&source_lines::in_words(Lack::Changed, changed));
    }
    let sources = Sources::of(&result, &rows);
    let written = fitting.by_class(plan, sources.classes(), |event| sources.class_of(event))?;
    let unassigned = sources.unassigned();
    let (sources, young) = sources.finish(&written);
    let streams = usize::from(plan.lanes[0].device.streams);
    let hinted = written[1..].iter().any(|class| class.hinted_pages() > 0);
    let mut possible = Possible::of((&sources, &young), unassigned, streams, hinted);
    // Without contexts there is nothing to place by.
    possible.changes.retain(|change| !change.is_by_context() || !result.writers.are_unknown());
    let (lanes, left_out) = lanes(&mut possible.changes, plan, &options)?;
    left_out.iter().for_each(|drive| ui.remark(drive));
    let gains = match lanes.is_empty() {
        true => Vec::new(),
        false => fitting.run(&Plan { lanes, ..plan.clone() })?.results,
    };
    let other_discards = other_discards(&mut fitting, plan)?;
    let rules = possible.rules.clone();
    let advice = Advice::of(&result, (sources, &young), possible, &gains, other_discards.as_ref());
    if let Some(file) = rules_out {
        let head = format!("# Made by `pcstream advise` from trace {}.\n", result.about.trace.id);
        file.write(format!("{head}{rules}").as_bytes())?;
    }
    let dropped = dropped(&gains);
    dropped.iter().for_each(|dropped| ui.remark(&dropped.to_string()));
    ui::show(json, &advice, || advice.text(ui.layout(false)))?;
    Ok(Status::with_losses(result.has_losses() || !dropped.is_empty() || !left_out.is_empty()))
}

/// The baseline with the trace's discards if they were left out, and without them if not. None if there are none, and on a
/// drive whose size goes by live data, which would be another one.
fn other_discards(fitting: &mut Fitting, plan: &Plan) -> Result<Option<LaneResult>, Failure> {
    let settings = fitting.fit.settings();
    if fitting.fit.front.meta().totals.discarded_pages == 0 || settings.live().is_some() {
        return Ok(None);
    }
    fitting.fit.change(SpaceSettings { no_discard: !settings.no_discard, ..settings })?;
    let lanes = vec![LaneSpec { lifetimes: false, ..plan.lanes[0].clone() }];
    Ok(fitting.run(&Plan { lanes, ..plan.clone() })?.results.pop())
}

/// Errors: a flag of `simulate` that would do nothing.
fn refuse_idle(args: &AdviseArgs) -> Result<(), Failure> {
    let flags = [
        ("--gc", args.device.gc.is_some(), "each change is simulated on the kind of drive that it needs"),
        ("--pools", args.device.pools.is_some(), POOLS),
        ("--rules", args.scheme_options.rules.is_some(), "it makes rules from the trace"),
        ("--timing", args.measure.timing, "it compares what is written, not times"),
    ];
    if let Some((flag, _, why)) = flags.into_iter().find(|(_, is_given, _)| *is_given) {
        return Err(Failure::wrong_arguments(anyhow!("{flag}: advise does not take it, because {why}")));
    }
    let is_idle = |setting: &&Setting| setting.scheme != WITH_PARAMETERS;
    match args.scheme_options.set.iter().find(is_idle) {
        None => Ok(()),
        Some(setting) => Err(Failure::wrong_arguments(anyhow!(
            "--set {}: advise takes parameters of {WITH_PARAMETERS} alone; the other schemes that it simulates have their defaults",
            setting.text
        ))),
    }
}

/// Lanes for the changes that the device has room for, which stay; behind them, a baseline on each other drive among them.
/// And what has no room, with the reason.
fn lanes(
    changes: &mut Vec<Change>,
    plan: &Plan,
    options: &SchemeOptions,
) -> Result<(Vec<LaneSpec>, BTreeSet<String>), Failure> {
    let (mut lanes, mut left_out) = (Vec::new(), BTreeSet::new());
    for change in std::mem::take(changes) {
        let base = &plan.lanes[0];
        let device = DeviceSettings { gc_destination: change.gc_destination, ..base.device.clone() };
        if let Err(why) = Geometry::new(&device) {
            left_out.insert(format!("left out: changes for {}: {why}", in_words(change.gc_destination)));
            continue;
        }
        let rules = change.rules.as_deref().map(Rules::parse).transpose();
        let scheme = schemes::factory(change.scheme, options, rules.context("rules made from the trace")?)?;
        lanes.push(LaneSpec::new(scheme, device));
        changes.push(change);
    }
    // What the drives save by themselves.
    for gc_destination in [GcDestination::Internal, GcDestination::Shared] {
        if let Some(change) = lanes.iter().find(|lane| lane.device.gc_destination == gc_destination) {
            let device = change.device.clone();
            lanes.push(LaneSpec::new(schemes::factory("baseline", options, None)?, device));
        }
    }
    Ok((lanes, left_out))
}
