//! `advise`: what to change, in order of gain, each with the simulated gain of exactly that change.

use anyhow::Context as _;
use pcstream_capture::lines::Lack;
use pcstream_placement::Rules;
use pcstream_replay::{Fitted, LaneResult, LaneSpec, Plan};
use pcstream_report::advice::{self, HINTS, Source, Sources};
use pcstream_report::drive::{LEAST_GAIN, in_words, is_worth, saved};
use pcstream_report::escape::visible;
use pcstream_report::schemes::missing;
use pcstream_report::verdict::{pages_to_steady, says_nothing};
use pcstream_report::{Simulation, VERSION, human};
use pcstream_ssd::{DeviceSettings, GcDestination, Geometry};
use serde::Serialize;

use crate::args::{AdviseArgs, FitArgs, SchemeOptions, SimulationArgs};
use crate::failure::{Failure, Status};
use crate::schemes;
use crate::simulate;
use crate::source_lines;
use crate::ui::{self, JsonSink, Ui};
use crate::values::Schemes;
use crate::whole_file::WholeFile;

/// The title of hints to be set.
const SET_HINTS: &str = "fcntl(F_SET_RW_HINT) after opening files, by class of lifetimes";
/// What is said instead of streams by class.
const ONE_CLASS: &str =
    "All sources are in one class of lifetimes, so streams or hints by class keep nothing apart.";
/// The scheme of hints that are set.
const OWN_HINTS: &str = "hints";
/// The least share of the flash whose saving is listed, with what gains little.
const LEAST_LISTED: f64 = 0.001;
/// Rules for the file system's own writes, which have no context.
const METADATA_RULES: &str = "kind=journal -> 1\nkind=inode,directory,bitmap,other -> 2\n";

/// Something to change, before its gain is known.
struct Change {
    title: &'static str,
    whose: &'static str,
    scheme: &'static str,
    /// Of the scheme `manual`.
    rules: Option<String>,
    gc_destination: GcDestination,
    /// What to write where; one line per source.
    steps: Vec<String>,
}

#[derive(Debug, Serialize)]
struct AdviceJson {
    pcstream: &'static str,
    trace: String,
    baseline_waf: Option<f64>,
    changes: Vec<ChangeJson>,
    remarks: Vec<String>,
    sources: Vec<Source>,
}

#[derive(Debug, Serialize)]
struct ChangeJson {
    change: String,
    whose_code: String,
    drive: String,
    scheme: String,
    rules: Option<String>,
    waf: Option<f64>,
    flash_saved: Option<f64>,
    /// The same against a baseline on this drive: without what its own internal streams save.
    flash_saved_on_same_drive: Option<f64>,
    steps: Vec<String>,
}

/// `pcstream advise`.
pub fn advise(args: AdviseArgs, ui: Ui) -> Result<Status, Failure> {
    let json = JsonSink::asked(&args.output)?;
    let rules_out =
        args.rules_out.as_deref().map(|path| WholeFile::create("--rules-out", path)).transpose()?;
    let reader = simulate::open(&args.trace, ui)?;
    let AdviseArgs { trace, device, measure, fit, scheme_options: options, output, .. } = args;
    let scheme = Schemes(vec!["baseline".to_owned()]);
    let scheme_options = SchemeOptions { set: Vec::new(), ..options.clone() };
    let simulation = SimulationArgs { scheme, scheme_options, device, measure, details: false, output };
    let (mut fitting, mut planned) = simulate::fit(&simulation, &fit, &reader, ui)?;
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
    let sources = sources.finish(&written);
    let streams = usize::from(plan.lanes[0].device.streams);
    let classes = advice::classes(&sources, streams.saturating_sub(1).max(1));
    let rules = advice::rules(&sources, &classes, 1);
    if let Some(file) = rules_out {
        let head = format!("# Made by `pcstream advise` from trace {}.\n", result.about.trace.id);
        file.write(format!("{head}{rules}").as_bytes())?;
    }
    let hinted = written[1..].iter().any(|class| class.hinted_pages() > 0);
    let mut changes = changes(&sources, &classes, rules, (streams, hinted));
    // Without contexts there is nothing to place by.
    changes.retain(|change| change.scheme != "pcstream" || !result.writers.are_unknown());
    let (changes, lanes) = lanes(changes, plan, &options)?;
    let gains = match lanes.is_empty() {
        true => Vec::new(),
        false => fitting.run(&Plan { lanes, ..plan.clone() })?.results,
    };
    let copies = copies(&result.results[0]);
    let one_class = copies && streams > 2 && !sources.is_empty() && at_most_one_class(&classes);
    let mut advice = judged(changes, &gains, &result, sources, &fit);
    if one_class {
        advice.remarks.push(ONE_CLASS.to_owned());
    }
    ui::show(json, &advice, || text(&advice, copies, ui))?;
    Ok(Status::with_losses(result.has_losses()))
}

/// Everything that could be changed on a device of so many streams; and whether anything is hinted already.
fn changes(
    sources: &[Source],
    classes: &[usize],
    rules: String,
    (streams, hinted): (usize, bool),
) -> Vec<Change> {
    let stream = |(source, class): (&Source, &usize)| format!("S{}: {}", class + 1, named(source));
    let by_stream: Vec<String> = sources.iter().zip(classes).map(stream).collect();
    let mut out = vec![by_context(GcDestination::Own), by_context(GcDestination::Internal)];
    if !at_most_one_class(classes) && streams > 1 {
        out.extend(GcDestination::ALL.into_iter().map(|gc_destination| Change {
            title: match gc_destination {
                GcDestination::Own => "a stream for each class of lifetimes",
                _ => "a placement handle for each class of lifetimes",
            },
            whose: "the programs' (streams or placement handles where they open files)",
            scheme: "manual",
            rules: Some(rules.clone()),
            gc_destination,
            steps: by_stream.clone(),
        }));
        if streams > HINTS.len() {
            out.push(set_hints(sources));
        }
    }
    out.extend((hinted && streams > 1).then(|| own_hints(sources)));
    if streams > 2 {
        out.push(Change {
            title: "the file system's journal and metadata apart from data",
            whose: "the file system's (or an external journal)",
            scheme: "manual",
            rules: Some(METADATA_RULES.to_owned()),
            gc_destination: GcDestination::Own,
            steps: vec!["S1: the journal; S2: inodes, directories, bitmaps, other metadata".to_owned()],
        });
    }
    out
}

fn at_most_one_class(classes: &[usize]) -> bool {
    classes.iter().all(|class| *class == classes[0])
}

fn by_context(gc_destination: GcDestination) -> Change {
    Change {
        title: "place writes by program context, without changing any program",
        whose: "nobody's: the host's kernel and drive",
        scheme: "pcstream",
        rules: None,
        gc_destination,
        steps: Vec::new(),
    }
}

/// A hint for each source that has another one, or none.
fn set_hints(sources: &[Source]) -> Change {
    let classes = advice::classes(sources, HINTS.len());
    let step = |(source, class): (&Source, &usize)| {
        let instead = match source.own_hint() {
            Some(own) if own == *class => return None,
            Some(own) => format!(" instead of {}", HINTS[own]),
            None => String::new(),
        };
        Some(format!("{}{instead}: {}", HINTS[*class], named(source)))
    };
    Change {
        title: SET_HINTS,
        whose: "the programs'",
        scheme: "manual",
        rules: Some(advice::rules(sources, &classes, 1)),
        gc_destination: GcDestination::Own,
        steps: sources.iter().zip(&classes).filter_map(step).collect(),
    }
}

/// What programs ask for already.
fn own_hints(sources: &[Source]) -> Change {
    let step = |source: &Source| Some(format!("{}: {}", HINTS[source.own_hint()?], named(source)));
    Change {
        title: "the hints and write streams that are set already",
        whose: "nobody's: the host's kernel passes them on, and the drive uses them",
        scheme: OWN_HINTS,
        rules: None,
        gc_destination: GcDestination::Own,
        steps: sources.iter().filter_map(step).collect(),
    }
}

fn named(source: &Source) -> String {
    let file = if source.file.is_empty() { "(no file name)" } else { &source.file };
    let program = source.executable.rsplit('/').next().unwrap_or_default();
    let thread = if source.thread.is_empty() || source.thread == program {
        String::new()
    } else {
        format!(" ({})", source.thread)
    };
    let module = source.module.rsplit('/').next().unwrap_or_default();
    let line = source.line.as_ref().map_or(String::new(), |line| format!(" at {line}"));
    // Labels of generators and importers name no function.
    let space = if source.function.is_empty() { "" } else { " " };
    format!(
        "{program}{thread} writing {file}: {}{space}[{module}]{line}, {}",
        source.function,
        human::page_bytes(source.pages)
    )
}

/// Lanes for the changes that the device has room for; behind them, a baseline on each other drive among them.
fn lanes(
    changes: Vec<Change>,
    plan: &Plan,
    options: &SchemeOptions,
) -> Result<(Vec<Change>, Vec<LaneSpec>), Failure> {
    let (mut kept, mut lanes) = (Vec::new(), Vec::new());
    for change in changes {
        let base = &plan.lanes[0];
        let device = DeviceSettings { gc_destination: change.gc_destination, ..base.device.clone() };
        if Geometry::new(&device).is_err() {
            continue;
        }
        let rules = change.rules.as_deref().map(Rules::parse).transpose();
        let scheme = schemes::factory(change.scheme, options, rules.context("rules made from the trace")?)?;
        lanes.push(LaneSpec::new(scheme, device));
        kept.push(change);
    }
    // What the drives save by themselves.
    for gc_destination in [GcDestination::Internal, GcDestination::Shared] {
        if let Some(change) = lanes.iter().find(|lane| lane.device.gc_destination == gc_destination) {
            let device = change.device.clone();
            lanes.push(LaneSpec::new(schemes::factory("baseline", options, None)?, device));
        }
    }
    Ok((kept, lanes))
}

fn judged(
    changes: Vec<Change>,
    gains: &[LaneResult],
    result: &Simulation,
    sources: Vec<Source>,
    fit: &FitArgs,
) -> AdviceJson {
    let baseline = &result.results[0];
    let on_other_drives = &gains[changes.len()..];
    let same_drive = |lane: &LaneResult| {
        let is_same = |other: &&LaneResult| other.settings.gc_destination == lane.settings.gc_destination;
        on_other_drives.iter().find(is_same).unwrap_or(baseline)
    };
    let judge = |(change, lane): (Change, &LaneResult)| ChangeJson {
        change: change.title.to_owned(),
        whose_code: change.whose.to_owned(),
        drive: in_words(change.gc_destination).to_owned(),
        scheme: change.scheme.to_owned(),
        rules: change.rules,
        waf: lane.waf(),
        flash_saved: saved(lane, baseline),
        flash_saved_on_same_drive: saved(lane, same_drive(lane)),
        steps: change.steps,
    };
    let best = gains[..changes.len()].iter().min_by_key(|lane| lane.flash_pages());
    let mut changes: Vec<ChangeJson> = changes.into_iter().zip(gains).map(judge).collect();
    changes.sort_by(|a, b| b.flash_saved.unwrap_or(0.0).total_cmp(&a.flash_saved.unwrap_or(0.0)));
    let totals = result.writers.totals();
    let path = &result.about.trace.path;
    let mut remarks: Vec<String> = missing(result).iter().map(|what| format!("{path}: {what}.")).collect();
    remarks.extend(doubt(baseline, best, fit));
    if result.writers.are_unknown() {
        remarks.push(
            "No write of this trace has a program context, so nothing can be advised about programs or about placement \
             by context. `pcstream simulate` compares schemes that go by address."
                .to_owned(),
        );
    }
    if copies(baseline) && drop_needless_hints(&mut changes) {
        remarks.push("No other hints would save more than those that are set already.".to_owned());
    }
    if totals.discarded_pages + totals.zeroed_pages == 0 && result.about.trace.real_time && !fit.no_discard {
        remarks.push(
            "The trace has no discards: mount with -o discard, or run fstrim, so that the drive learns what is deleted. \
             What that gains cannot be simulated from this trace."
                .to_owned(),
        );
    }
    AdviceJson {
        pcstream: VERSION,
        trace: result.about.trace.path.clone(),
        baseline_waf: baseline.waf(),
        changes,
        remarks,
        sources,
    }
}

/// What makes gains doubtful: too little was written to see any, or to see them as they will be.
fn doubt(baseline: &LaneResult, best: Option<&LaneResult>, fit: &FitArgs) -> Option<String> {
    let to_steady = pages_to_steady(baseline).max(best.map_or(0, pages_to_steady));
    let helps = what_helps(baseline, fit);
    match copies(baseline) {
        false if says_nothing(baseline) => {
            Some(format!("Nothing can be said yet: nothing was copied. {helps}"))
        }
        false => Some(format!("Nothing was copied, so no change can gain anything. {helps}")),
        true if to_steady > 0 => {
            let more = human::page_bytes(to_steady);
            Some(format!("Not steady yet: write at least {more} more for a steady answer."))
        }
        true => None,
    }
}

/// Whether there is anything to save.
fn copies(baseline: &LaneResult) -> bool {
    baseline.counters.gc_pages > 0
}

/// What makes a drive copy that does not.
fn what_helps(baseline: &LaneResult, fit: &FitArgs) -> &'static str {
    let written = baseline.host_pages() + baseline.prefill_pages;
    match fit.pack.or(fit.pack_live).or(fit.fill) {
        Some(_) => "Record for longer, or simulate a fuller drive, or less --spare-factor.",
        None if written < baseline.geometry.physical_pages() => {
            "Too little was written to this drive: --pack 0.9 simulates it as if it filled 90 % of a smaller one."
        }
        None => "Live data leave too much of this drive free: --fill 0.9 simulates a fuller one.",
    }
}

/// Leaves out hints that save no more than those that are set already; says whether there are such.
fn drop_needless_hints(changes: &mut Vec<ChangeJson>) -> bool {
    let own = changes.iter().find(|change| change.scheme == OWN_HINTS);
    let Some(own) = own.and_then(|own| own.flash_saved) else { return false };
    let before = changes.len();
    changes.retain(|change| {
        let saves_more = change.flash_saved.is_some_and(|saved| saved >= own + LEAST_GAIN);
        change.change != SET_HINTS || (saves_more && !change.steps.is_empty())
    });
    changes.len() < before
}

/// `copies`: whether changes can gain anything.
fn text(advice: &AdviceJson, copies: bool, ui: Ui) -> String {
    let layout = ui.layout(false);
    let mut lines = vec![
        format!("WAF now: {} (baseline on a drive without streams)", human::ratio(advice.baseline_waf)),
        String::new(),
    ];
    let changes = advice.changes.iter().filter(|_| copies);
    let (worth, rest): (Vec<&ChangeJson>, Vec<&ChangeJson>) =
        changes.partition(|change| is_worth(change.flash_saved, change.flash_saved_on_same_drive));
    let mut shown: Option<&Vec<String>> = None;
    for (number, change) in worth.iter().enumerate() {
        let gain = human::percent(change.flash_saved.unwrap_or(0.0));
        let head = format!(
            "{}. {gain} less flash (WAF {}): {}, on {}",
            number + 1,
            human::ratio(change.waf),
            change.change,
            change.drive
        );
        lines.extend(layout.wrap(&head, 3));
        if change.flash_saved_on_same_drive != change.flash_saved {
            let on_same = human::percent(change.flash_saved_on_same_drive.unwrap_or(0.0));
            let split =
                format!("   {on_same} against that drive without this change; the rest is the drive's own");
            lines.extend(layout.wrap(&split, 3));
        }
        lines.extend(layout.wrap(&format!("   whose code: {}", change.whose_code), 3));
        if shown == Some(&change.steps) && !change.steps.is_empty() {
            lines.push("   the same classes as above".to_owned());
        } else {
            lines.extend(
                change.steps.iter().flat_map(|step| layout.wrap(&format!("   {}", visible(step)), 7)),
            );
            shown = if change.steps.is_empty() { shown } else { Some(&change.steps) };
        }
        lines.push(String::new());
    }
    if copies && worth.is_empty() {
        lines.push("No change gains 1 % of the flash.".to_owned());
    }
    for change in rest.iter().filter(|change| change.flash_saved >= Some(LEAST_LISTED)) {
        let gain = human::ratio(change.waf);
        let alone = if is_worth(change.flash_saved, None) { "; that drive alone does as much" } else { "" };
        let line = format!("Gains little: {}, on {} (WAF {gain}{alone})", change.change, change.drive);
        lines.extend(layout.wrap(&line, 3));
    }
    lines.extend(advice.remarks.iter().flat_map(|remark| layout.wrap(remark, 0)));
    lines.join("\n") + "\n"
}
