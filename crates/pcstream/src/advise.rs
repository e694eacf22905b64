//! `advise`: what to change, in order of gain, each with the simulated gain of exactly that change.

use anyhow::Context as _;
use pcstream_capture::lines::Lack;
use pcstream_placement::Rules;
use pcstream_replay::recorded::Recorded;
use pcstream_replay::{LaneResult, LaneSpec, Plan};
use pcstream_report::advice::{self, HINTS, Source};
use pcstream_report::drive::{in_words, saved};
use pcstream_report::escape::visible;
use pcstream_report::{Simulation, human};
use pcstream_ssd::{DeviceSettings, GcDestination, Geometry};
use serde::Serialize;

use crate::args::{AdviseArgs, SchemeOptions, SimulationArgs};
use crate::device::Template;
use crate::failure::{Failure, Status};
use crate::schemes;
use crate::simulate::{self, Planned};
use crate::source_lines;
use crate::ui::{self, JsonSink, Ui};
use crate::values::Schemes;
use crate::whole_file::WholeFile;

/// Files looked at per context.
const FILES_PER_CONTEXT: usize = 10;
/// Gains below this are not worth a change.
const LEAST_GAIN: f64 = 0.01;
/// Rules for the file system's own writes, which have no context.
const METADATA_RULES: &str = "kind=journal -> 1\nkind=inode,directory,bitmap,other -> 2\n";

/// Something to change, before its gain is known.
struct Change {
    title: String,
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
    pcstream: String,
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
    steps: Vec<String>,
}

/// `pcstream advise`.
pub fn advise(args: AdviseArgs, ui: Ui) -> Result<Status, Failure> {
    let json = args.output.json.as_deref().map(JsonSink::open).transpose()?;
    let rules_out =
        args.rules_out.as_deref().map(|path| WholeFile::create("--rules-out", path)).transpose()?;
    let reader = simulate::open(&args.trace)?;
    simulate::remark_state(&reader, ui);
    let AdviseArgs { trace, device, measure, scheme_options: options, output, .. } = args;
    let scheme = Schemes(vec!["baseline".to_owned()]);
    let scheme_options = SchemeOptions { set: Vec::new(), ..options.clone() };
    let simulation = SimulationArgs { scheme, scheme_options, device, measure, details: false, output };
    let template = Template::load(&simulation.device)?;
    let mut planned = Planned::new(&simulation, &template, reader.meta())?;
    let plan = &mut planned.plan;
    plan.lanes.truncate(1);
    plan.lanes[0].device.gc_destination = GcDestination::Own;
    let Recorded { replay, damage } = simulate::replay_trace(plan, &reader, ui)?;
    let result = Simulation::new(simulate::about(&trace, &reader, damage, &planned), &replay);
    let plan = &planned.plan;
    let mut rows = result.context_rows(0, FILES_PER_CONTEXT);
    // What else modules lack is no news: most are built without debug information.
    if let Some(changed) = source_lines::add(&mut rows).get(&Lack::Changed) {
        ui.remark(&source_lines::in_words(Lack::Changed, changed));
    }
    let sources = advice::sources(&rows, result.writers.totals().host_pages);
    let streams = usize::from(plan.lanes[0].device.streams);
    let classes = advice::classes(&sources, streams.saturating_sub(1).max(1));
    let rules = advice::rules(&sources, &classes, 1);
    if let Some(file) = rules_out {
        let head = format!("# Made by `pcstream advise` from trace {}.\n", result.about.trace.id);
        file.write(format!("{head}{rules}").as_bytes())?;
    }
    let changes = changes(&sources, &classes, rules, streams);
    let (changes, lanes) = lanes(changes, plan, &options)?;
    let gains: Vec<LaneResult> = match lanes.is_empty() {
        true => Vec::new(),
        false => {
            let mut plan = Plan { lanes, ..plan.clone() };
            simulate::replay_trace(&mut plan, &reader, ui)?.replay.results()
        }
    };
    let advice = judged(changes, &gains, &result, sources);
    match json {
        Some(JsonSink::Stdout) => JsonSink::Stdout.write(&advice)?,
        other => {
            if let Some(sink) = other {
                sink.write(&advice)?;
            }
            ui::print(&text(&advice, ui))?;
        }
    }
    Ok(Status::with_losses(result.has_losses()))
}

/// Everything that could be changed.
fn changes(sources: &[Source], classes: &[usize], rules: String, streams: usize) -> Vec<Change> {
    let stream = |(source, class): (&Source, &usize)| format!("S{}: {}", class + 1, named(source));
    let by_stream: Vec<String> = sources.iter().zip(classes).map(stream).collect();
    let hint_classes = advice::classes(sources, HINTS.len());
    let hint = |(source, class): (&Source, &usize)| format!("{}: {}", HINTS[*class], named(source));
    let hints: Vec<String> = sources.iter().zip(&hint_classes).map(hint).collect();
    let change = |title: &str, whose, scheme, rules, gc_destination, steps| Change {
        title: title.to_owned(),
        whose,
        scheme,
        rules,
        gc_destination,
        steps,
    };
    let mut out = vec![change(
        "place writes by program context, without changing any program",
        "nobody's: the host's kernel and drive",
        "pcstream",
        None,
        GcDestination::Internal,
        Vec::new(),
    )];
    if !sources.is_empty() && streams > 1 {
        let theirs = "the programs' (streams or placement handles where they open files)";
        for gc in GcDestination::ALL {
            let title = match gc {
                GcDestination::Own => "a stream for each class of lifetimes",
                _ => "a placement handle for each class of lifetimes",
            };
            out.push(change(title, theirs, "manual", Some(rules.clone()), gc, by_stream.clone()));
        }
        if streams > HINTS.len() {
            let rules = advice::rules(sources, &hint_classes, 1);
            let title = "fcntl(F_SET_RW_HINT) after opening files, by class of lifetimes";
            out.push(change(title, "the programs'", "manual", Some(rules), GcDestination::Own, hints));
        }
    }
    if streams > 2 {
        let rules = Some(METADATA_RULES.to_owned());
        let steps = vec!["S1: the journal; S2: inodes, directories, bitmaps, other metadata".to_owned()];
        let title = "the file system's journal and metadata apart from data";
        out.push(change(
            title,
            "the file system's (or an external journal)",
            "manual",
            rules,
            GcDestination::Own,
            steps,
        ));
    }
    out
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
    format!(
        "{program}{thread} writing {file}: {} [{module}]{line}, {}",
        source.function,
        human::page_bytes(source.pages)
    )
}

/// Lanes for the changes that the device has room for.
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
    Ok((kept, lanes))
}

fn judged(
    changes: Vec<Change>,
    gains: &[LaneResult],
    result: &Simulation,
    sources: Vec<Source>,
) -> AdviceJson {
    let baseline = &result.results[0];
    let judge = |(change, lane): (Change, &LaneResult)| ChangeJson {
        change: change.title,
        whose_code: change.whose.to_owned(),
        drive: in_words(change.gc_destination).to_owned(),
        scheme: change.scheme.to_owned(),
        rules: change.rules,
        waf: lane.waf(),
        flash_saved: saved(lane, baseline),
        steps: change.steps,
    };
    let mut changes: Vec<ChangeJson> = changes.into_iter().zip(gains).map(judge).collect();
    changes.sort_by(|a, b| b.flash_saved.unwrap_or(0.0).total_cmp(&a.flash_saved.unwrap_or(0.0)));
    let totals = result.writers.totals();
    let mut remarks = Vec::new();
    if totals.discarded_pages + totals.zeroed_pages == 0 && result.about.trace.real_time {
        remarks.push(
            "The trace has no discards: mount with -o discard, or run fstrim, so that the drive learns what is deleted. \
             What that gains cannot be simulated from this trace."
                .to_owned(),
        );
    }
    if baseline.counters.erases == 0 {
        remarks.push("The drive never had to collect garbage, so no change can gain anything: write more, or --prefill more.".to_owned());
    }
    AdviceJson {
        pcstream: result.about.version.clone(),
        trace: result.about.trace.path.clone(),
        baseline_waf: baseline.waf(),
        changes,
        remarks,
        sources,
    }
}

fn text(advice: &AdviceJson, ui: Ui) -> String {
    let layout = ui.layout(false);
    let mut lines = vec![
        format!("WAF now: {} (baseline on a drive without streams)", human::ratio(advice.baseline_waf)),
        String::new(),
    ];
    let (worth, rest): (Vec<&ChangeJson>, Vec<&ChangeJson>) =
        advice.changes.iter().partition(|change| change.flash_saved.is_some_and(|saved| saved >= LEAST_GAIN));
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
        lines.extend(layout.wrap(&format!("   whose code: {}", change.whose_code), 3));
        if shown == Some(&change.steps) && !change.steps.is_empty() {
            lines.push("   the same classes as above".to_owned());
        } else {
            lines.extend(change.steps.iter().map(|step| layout.cut(&format!("   {}", visible(step)))));
            shown = if change.steps.is_empty() { shown } else { Some(&change.steps) };
        }
        lines.push(String::new());
    }
    if worth.is_empty() {
        lines.push("No change gains 1 % of the flash.".to_owned());
    }
    for change in rest {
        let gain = human::ratio(change.waf);
        lines.extend(
            layout.wrap(&format!("Gains little: {}, on {} (WAF {gain})", change.change, change.drive), 3),
        );
    }
    lines.extend(advice.remarks.iter().flat_map(|remark| layout.wrap(remark, 0)));
    lines.join("\n") + "\n"
}
