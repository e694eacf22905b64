//! `compare`: recorded runs side by side, what changed, and whether that is more than noise.
//!
//! A run is one trace, or several repetitions of it. Contexts are matched by name, so that another build is compared, too.

mod matching;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, anyhow};
use pcstream_replay::Fitted;
use pcstream_report::escape::visible;
use pcstream_report::functions::Functions;
use pcstream_report::human::{bytes, change, counted, page_bytes, percent};
use pcstream_report::json::{self, DeviceJson};
use pcstream_report::schemes::missing;
use pcstream_report::statistics::{Mean, differ, mean};
use pcstream_report::table::Side::{Left, Right};
use pcstream_report::table::{Column, within};
use pcstream_report::verdict::says_nothing;
use pcstream_report::{Layout, Simulation, VERSION, Verdict};
use pcstream_trace::{PAGE_BYTES, TraceReader};
use serde::Serialize;

use crate::args::{CompareArgs, FitArgs};
use crate::device::Template;
use crate::failure::{Failure, Status};
use crate::fitted::Fitting;
use crate::measures::{self, Measures};
use crate::simulate;
use crate::ui::{self, JsonSink, Ui};
use matching::{Contexts, Name, Written};

/// Less of a drive does not count as a difference of what was on it before.
const LEAST_PREFILL: f64 = 0.01;

#[derive(Debug, Serialize)]
struct CompareJson {
    pcstream: &'static str,
    runs: Vec<RunJson>,
    /// Everything measured, against the first run.
    changes: Vec<ChangeJson>,
    /// Pages by context and run, most changed first.
    contexts: Vec<ContextJson>,
    /// What makes runs hard to compare; programs that count as one, and those that the other run lacks.
    remarks: Vec<String>,
}

#[derive(Debug, Serialize)]
struct RunJson {
    name: String,
    repetitions: usize,
    /// By repetition.
    devices: Vec<DeviceJson>,
    measures: BTreeMap<String, Mean>,
}

#[derive(Debug, Serialize)]
struct ChangeJson {
    measure: String,
    run: String,
    first: f64,
    other: f64,
    ratio: Option<f64>,
    /// Null where a run has no repetitions: noise is not known.
    more_than_noise: Option<bool>,
}

#[derive(Debug, Serialize)]
struct ContextJson {
    /// As folded stacks have it, with whole names of functions.
    name: String,
    /// As the table has it.
    #[serde(skip)]
    line: String,
    pages: Vec<Mean>,
    more_than_noise: Option<bool>,
}

impl ContextJson {
    /// The largest difference from the first run, in pages.
    fn change(&self) -> f64 {
        let first = self.pages[0].mean;
        self.pages[1..].iter().map(|pages| (pages.mean - first).abs()).fold(0.0, f64::max)
    }
}

/// What one run measured, by repetition.
struct Run {
    name: String,
    repetitions: usize,
    devices: Vec<DeviceJson>,
    /// Repetitions of which nothing can be said.
    silent: usize,
    /// What a repetition must write more, at most, for a steady answer.
    bytes_to_steady: u64,
    missing: Vec<String>,
    measures: Measures,
    contexts: Contexts,
}

/// `pcstream compare`.
pub fn compare(mut args: CompareArgs, ui: Ui) -> Result<Status, Failure> {
    let json = JsonSink::asked(&args.simulation.output)?;
    let mut named = Vec::new();
    for run in &args.runs {
        named.push(traces(run)?);
    }
    args.fit.least_pages = largest(&args, &named, ui)?;
    let mut losses = false;
    let mut runs = Vec::new();
    for paths in &named {
        let (run, lost) = measure(paths, &args, ui)?;
        losses |= lost;
        runs.push(run);
    }
    let mut remarks = doubts(&runs, &args.fit);
    remarks.extend(matched(&mut runs));
    let result = compared(&runs, remarks);
    ui::show(json, &result, || text(&result, args.top, ui.layout(args.simulation.details)))?;
    Ok(Status::with_losses(losses))
}

/// The repetitions of a run.
fn traces(run: &str) -> Result<Vec<String>, Failure> {
    let paths: Vec<String> = run.split(',').map(str::to_owned).collect();
    match paths.iter().any(String::is_empty) {
        true => Err(Failure::wrong_arguments(anyhow!("'{run}': a name of a trace is empty"))),
        false => Ok(paths),
    }
}

/// Logical pages that the largest of all packed traces needs; 0 if none is packed, or the size is given.
fn largest(args: &CompareArgs, runs: &[Vec<String>], ui: Ui) -> Result<u64, Failure> {
    let mut largest = 0;
    if args.fit.pack().is_some() && Template::load(&args.simulation.device)?.capacity_pages().is_none() {
        for path in runs.iter().flatten() {
            let reader = TraceReader::open(Path::new(path)).context("cannot read the trace")?;
            let fitting = Fitting::new(&reader, &args.fit, None, ui)?;
            largest = largest.max(fitting.space().map_or(0, |space| space.logical_pages));
        }
    }
    Ok(largest)
}

/// Simulates every repetition.
fn measure(paths: &[String], args: &CompareArgs, ui: Ui) -> Result<(Run, bool), Failure> {
    let mut out = Run {
        name: paths[0].trim_end_matches('/').to_owned(),
        repetitions: paths.len(),
        devices: Vec::new(),
        silent: 0,
        bytes_to_steady: 0,
        missing: Vec::new(),
        measures: Measures::default(),
        contexts: Contexts::new(),
    };
    let mut losses = false;
    for (repetition, path) in paths.iter().enumerate() {
        let reader = simulate::open(Path::new(path), ui)?;
        let (mut fitting, planned) = simulate::fit(&args.simulation, &args.fit, &reader, ui)?;
        let Fitted { results, replay, damage, .. } = fitting.run(&planned.plan)?;
        let about = simulate::about(Path::new(path), &reader, damage, &planned);
        let simulation = Simulation { results, ..Simulation::new(about, &replay) };
        losses |= simulation.has_losses();
        note(&mut out, &simulation, repetition);
    }
    Ok((out, losses))
}

/// Takes in one repetition; what did not occur in the others is 0 there.
fn note(run: &mut Run, simulation: &Simulation, repetition: usize) {
    run.measures.note(simulation);
    run.devices.push(json::device(&simulation.results[0], simulation.about.device.as_deref()));
    run.silent += usize::from(simulation.results.iter().all(says_nothing));
    run.bytes_to_steady = run.bytes_to_steady.max(Verdict::of(simulation).bytes_to_steady);
    let path = &simulation.about.trace.path;
    run.missing.extend(missing(simulation).iter().map(|what| format!("{path}: {what}.")));
    let repetitions = run.repetitions;
    let functions = Functions::whole();
    for row in simulation.context_rows(0, 0) {
        let new = || Written { context: row.context.cloned(), pages: vec![0.0; repetitions] };
        let written = run.contexts.entry(Name::of(&row, &functions)).or_insert_with(new);
        written.pages[repetition] += row.writer.pages() as f64;
    }
}

/// What makes it doubtful that numbers differ because of what the runs wrote.
fn doubts(runs: &[Run], fit: &FitArgs) -> Vec<String> {
    let mut remarks: Vec<String> = runs.iter().flat_map(|run| run.missing.clone()).collect();
    if have_other_drives(runs, fit) {
        remarks.push(
            "The drives differ, or what was on them before. That alone makes WAF differ: --capacity with --fill simulates all \
             runs on one."
                .to_owned(),
        );
    }
    for (index, run) in runs.iter().enumerate() {
        let letter = letter(index);
        if run.silent > 0 {
            let which = match run.repetitions {
                1 => String::new(),
                all => format!(" in {} of {all} repetitions", run.silent),
            };
            let instead =
                if fit.pack().is_none() { ", or --pack 0.9 simulates a drive that they fill" } else { "" };
            remarks.push(format!(
                "Nothing can be said of {letter} yet{which}: no garbage was collected, or the flash was not written once. \
                 Longer recordings help{instead}."
            ));
        } else if run.bytes_to_steady > 0 {
            let more = bytes(run.bytes_to_steady);
            remarks
                .push(format!("{letter} is not steady yet: write at least {more} more for a steady answer."));
        }
    }
    remarks
}

/// Whether the drives differ, or what was on them before. Filled up to a share, they are alike in that.
fn have_other_drives(runs: &[Run], fit: &FitArgs) -> bool {
    let first = &runs[0].devices[0];
    let size = |device: &DeviceJson| (device.logical_pages, device.physical_pages);
    let is_filled = fit.pack().is_some() || fit.fill.is_some();
    let differs = |device: &DeviceJson| {
        let by = (prefilled(device) - prefilled(first)).abs();
        size(device) != size(first) || (!is_filled && by >= LEAST_PREFILL)
    };
    runs.iter().flat_map(|run| &run.devices).any(differs)
}

/// Share of a drive that held data before counting began.
fn prefilled(device: &DeviceJson) -> f64 {
    device.prefill_pages as f64 / device.logical_pages as f64
}

/// Gives programs of other builds the name that they have in the first run. Says which, and what has no counterpart.
fn matched(runs: &mut [Run]) -> Vec<String> {
    let mut remarks = Vec::new();
    let Some((first, others)) = runs.split_first_mut() else { return remarks };
    for (index, other) in others.iter_mut().enumerate() {
        let letter = letter(index + 1);
        for (old, new) in matching::rename(&first.contexts, &mut other.contexts) {
            remarks.push(format!("{new} of {letter} counts as {old} of A: most of their call paths agree."));
        }
        let mut alone = matching::without_counterpart(&first.contexts, &other.contexts, "A");
        alone.extend(matching::without_counterpart(&other.contexts, &first.contexts, &letter));
        remarks.extend(matching::in_words(&alone));
    }
    remarks
}

/// What a run is called.
fn letter(index: usize) -> String {
    char::from(b'A' + (index % 26) as u8).to_string()
}

fn compared(runs: &[Run], remarks: Vec<String>) -> CompareJson {
    let first = &runs[0];
    let mut changes = Vec::new();
    for run in &runs[1..] {
        for (name, values) in run.measures.values() {
            let Some(reference) = first.measures.get(name) else { continue };
            let (from, to) = (mean(reference).mean, mean(values).mean);
            changes.push(ChangeJson {
                measure: name.clone(),
                run: run.name.clone(),
                first: from,
                other: to,
                ratio: (from > 0.0).then(|| to / from),
                more_than_noise: differ(reference, values),
            });
        }
    }
    let all = runs.iter().flat_map(|run| &run.contexts);
    let all: BTreeMap<&Name, _> = all.map(|(name, written)| (name, written.context.as_ref())).collect();
    let of = |run: &Run, name: &Name| {
        run.contexts.get(name).map_or_else(|| vec![0.0; run.repetitions], |written| written.pages.clone())
    };
    let context = |(name, line): (&&Name, String)| ContextJson {
        name: name.joined(),
        line,
        pages: runs.iter().map(|run| mean(&of(run, name))).collect(),
        more_than_noise: any_differs(&of(first, name), runs[1..].iter().map(|run| of(run, name))),
    };
    let mut contexts: Vec<ContextJson> = all.keys().zip(matching::lines(&all)).map(context).collect();
    contexts.sort_by(|a, b| b.change().total_cmp(&a.change()).then_with(|| a.name.cmp(&b.name)));
    let summary = |run: &Run| RunJson {
        name: run.name.clone(),
        repetitions: run.repetitions,
        devices: run.devices.clone(),
        measures: run.measures.means(),
    };
    CompareJson { pcstream: VERSION, runs: runs.iter().map(summary).collect(), changes, contexts, remarks }
}

/// Whether one of the others differs beyond noise; not known if none does, and one cannot be judged.
fn any_differs(first: &[f64], others: impl Iterator<Item = Vec<f64>>) -> Option<bool> {
    let each: Vec<_> = others.map(|other| differ(first, &other)).collect();
    if each.contains(&Some(true)) {
        Some(true)
    } else {
        each.into_iter().collect::<Option<Vec<_>>>().map(|_| false)
    }
}

fn text(result: &CompareJson, top: usize, layout: Layout) -> String {
    let mut lines = Vec::new();
    for (index, run) in result.runs.iter().enumerate() {
        let times =
            if run.repetitions == 1 { "once".to_owned() } else { format!("{} times", run.repetitions) };
        lines.push(layout.cut(&format!("{}  {} ({times})", letter(index), run.name)));
        lines.push(layout.cut(&format!("   on {}", drive(&run.devices[0]))));
    }
    lines.push(String::new());
    lines.extend(result.remarks.iter().flat_map(|remark| layout.wrap(remark, 0)));
    lines.extend((!result.remarks.is_empty()).then(String::new));
    lines.extend(measured(result, layout));
    lines.push(String::new());
    lines.extend(contexts(result, top, layout));
    if result.changes.iter().any(|change| change.more_than_noise.is_none()) {
        lines.push(String::new());
        let note = "A run without repetitions does not show how large noise is: record each several times, and name \
                    the traces with commas between them.";
        lines.extend(layout.wrap(note, 0));
    }
    lines.join("\n") + "\n"
}

fn drive(device: &DeviceJson) -> String {
    format!(
        "{} logical with spare factor {}, prefilled {}",
        page_bytes(device.logical_pages),
        percent(device.spare_factor),
        percent(prefilled(device)),
    )
}

fn written(name: &str, value: &Mean) -> String {
    let of = |number: f64| measures::written(name, number);
    match value.half_width_95 {
        Some(half) => format!("{} +- {}", of(value.mean), of(half)),
        None => of(value.mean),
    }
}

/// What was measured, a line each. Without `--details`, only what changed, and flash of the drive as it is today.
fn measured(result: &CompareJson, layout: Layout) -> Vec<String> {
    let of = |name: &str| -> Vec<&ChangeJson> {
        result.changes.iter().filter(|change| change.measure == name).collect()
    };
    let is_same = |name: &str| of(name).iter().all(|change| change.first == change.other);
    let names = result.runs[0].measures.keys().filter(|name| layout.details || !measures::is_detail(name));
    let (shown, same): (Vec<&String>, Vec<&String>) =
        names.partition(|name| layout.details || !is_same(name));
    let runs = || result.runs.iter().enumerate();
    let mut columns = vec![Column::new(Left, "measure", shown.iter().map(|name| (*name).clone()))];
    // The answer comes first: in a narrow terminal the last columns stand below.
    columns.extend(runs().skip(1).map(|(index, run)| {
        let changed = |name: &&String| {
            // Runs that lack a measure have no change of it.
            let before = result.runs[1..index].iter().filter(|run| run.measures.contains_key(*name)).count();
            let change = of(name).get(before).copied().filter(|_| run.measures.contains_key(*name));
            change.map_or("-".to_owned(), verdict)
        };
        Column::new(Left, format!("{} to A", letter(index)), shown.iter().map(changed))
    }));
    columns.extend(runs().map(|(index, run)| {
        let value =
            |name: &&String| run.measures.get(*name).map_or("-".to_owned(), |value| written(name, value));
        Column::new(Right, letter(index), shown.iter().map(value))
    }));
    let mut lines = if shown.is_empty() { Vec::new() } else { within(&columns, 1, layout) };
    if !same.is_empty() {
        let numbers = counted(same.len() as u64, "other number");
        lines.push(format!("{numbers} stayed the same: --details lists them"));
    }
    lines
}

/// Those that changed.
fn contexts(result: &CompareJson, top: usize, layout: Layout) -> Vec<String> {
    let changed = result.contexts.iter().take_while(|context| context.change() > 0.0).count();
    let mut lines = layout.wrap("contexts, most changed first (by name; pages as written by the host)", 0);
    let shown = &result.contexts[..top.min(changed)];
    for context in shown {
        let pages: Vec<String> =
            context.pages.iter().map(|pages| format!("{:>10}", mean_bytes(pages.mean))).collect();
        let noise = match context.more_than_noise {
            Some(true) => "changed",
            Some(false) => "noise  ",
            None => "       ",
        };
        let line = format!("{} {noise} {}", pages.join(" "), visible(&context.line));
        lines.push(layout.cut(line.trim_end()));
    }
    let same = (result.contexts.len() - changed) as u64;
    if same > 0 {
        lines.push(format!("{} wrote as much in every run", counted(same, "context")));
    }
    lines
}

/// Of repetitions: a mean need not be whole pages, and one that is less than a page is not nothing.
fn mean_bytes(pages: f64) -> String {
    bytes((pages * PAGE_BYTES as f64).round() as u64)
}

fn verdict(measured: &ChangeJson) -> String {
    let Some(ratio) = measured.ratio else { return "-".to_owned() };
    let by = change(ratio - 1.0);
    match measured.more_than_noise {
        Some(true) => format!("{by} changed"),
        Some(false) => format!("{by} noise"),
        None => by,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_than_a_page_is_not_nothing() {
        assert_eq!(mean_bytes(1.0 / 3.0), "1.33 KiB");
        assert_eq!(mean_bytes(0.0), "0 B");
        assert_eq!(mean_bytes(256.0), "1.00 MiB");
    }

    #[test]
    fn a_run_in_the_middle_may_be_what_changed() {
        let of = |others: &[&[f64]]| any_differs(&[1.0, 2.0, 3.0], others.iter().map(|run| run.to_vec()));
        assert_eq!(of(&[&[11.0, 12.0, 13.0], &[1.0, 2.0, 3.0]]), Some(true));
        assert_eq!(of(&[&[1.0, 3.0, 2.0], &[1.0, 2.0, 3.0]]), Some(false));
        assert_eq!(of(&[&[11.0], &[1.0, 2.0, 3.0]]), None);
        assert_eq!(of(&[&[11.0], &[11.0, 12.0, 13.0]]), Some(true));
    }
}
