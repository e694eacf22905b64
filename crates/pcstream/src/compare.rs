//! `compare`: recorded runs side by side, what changed, and whether that is more than noise.
//!
//! A run is one trace, or several repetitions of it. Contexts are matched by name (program, thread, functions of the
//! call path), so that another build is compared, too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::anyhow;
use pcstream_replay::recorded::Recorded;
use pcstream_report::call_paths::distinguishing_frames;
use pcstream_report::escape::visible;
use pcstream_report::human::{change, counted, page_bytes};
use pcstream_report::statistics::{Mean, differ, mean};
use pcstream_report::symbols::Names;
use pcstream_report::{ContextRow, Layout, Simulation, folded};
use serde::Serialize;

use crate::args::{CompareArgs, SimulationArgs};
use crate::device::Template;
use crate::failure::{Failure, Status};
use crate::measures::{self, Measures};
use crate::simulate::{self, Planned};
use crate::ui::{self, JsonSink, Ui};

#[derive(Debug, Serialize)]
struct CompareJson {
    pcstream: String,
    runs: Vec<RunJson>,
    /// Everything measured, against the first run.
    changes: Vec<ChangeJson>,
    /// Pages by context and run, most changed first.
    contexts: Vec<ContextJson>,
}

#[derive(Debug, Serialize)]
struct RunJson {
    name: String,
    repetitions: usize,
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
    name: String,
    #[serde(skip)]
    parts: Name,
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
    measures: Measures,
    contexts: BTreeMap<Name, Vec<f64>>,
}

/// By which contexts of several traces are matched.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    program: String,
    thread: Option<String>,
    /// Functions from the outermost on, and the entry into the kernel.
    path: Vec<String>,
}

impl Name {
    fn of(row: &ContextRow) -> Name {
        let mut path = folded::stack(row.who(), Names::Short);
        let program = path.remove(0);
        let thread = row.context.and_then(folded::thread).map(|_| path.remove(0));
        Name { program, thread, path }
    }

    /// As folded stacks have it.
    fn joined(&self) -> String {
        let parts = [&self.program].into_iter().chain(&self.thread).chain(&self.path);
        parts.map(String::as_str).collect::<Vec<_>>().join(";")
    }
}

/// `pcstream compare`.
pub fn compare(args: &CompareArgs, ui: Ui) -> Result<Status, Failure> {
    let json = args.simulation.output.json.as_deref().map(JsonSink::open).transpose()?;
    let mut losses = false;
    let mut runs = Vec::new();
    for run in &args.runs {
        let (run, lost) = measure(run, &args.simulation, ui)?;
        losses |= lost;
        runs.push(run);
    }
    let result = compared(&runs);
    match json {
        Some(JsonSink::Stdout) => JsonSink::Stdout.write(&result)?,
        other => {
            if let Some(sink) = other {
                sink.write(&result)?;
            }
            ui::print(&text(&result, args.top, ui))?;
        }
    }
    Ok(Status::with_losses(losses))
}

/// Simulates every repetition.
fn measure(run: &str, args: &SimulationArgs, ui: Ui) -> Result<(Run, bool), Failure> {
    let paths: Vec<&str> = run.split(',').collect();
    if paths.iter().any(|path| path.is_empty()) {
        return Err(Failure::wrong_arguments(anyhow!("'{run}': a name of a trace is empty")));
    }
    let mut out = Run {
        name: paths[0].trim_end_matches('/').to_owned(),
        repetitions: paths.len(),
        measures: Measures::default(),
        contexts: BTreeMap::new(),
    };
    let mut losses = false;
    for (repetition, path) in paths.iter().enumerate() {
        let reader = simulate::open(Path::new(path))?;
        simulate::remark_state(&reader, ui);
        let template = Template::load(&args.device)?;
        let mut planned = Planned::new(args, &template, reader.meta())?;
        let Recorded { replay, damage } = simulate::replay_trace(&mut planned.plan, &reader, ui)?;
        let simulation =
            Simulation::new(simulate::about(Path::new(path), &reader, damage, &planned), &replay);
        losses |= simulation.has_losses();
        note(&mut out, &simulation, repetition);
    }
    Ok((out, losses))
}

/// Takes in one repetition; what did not occur in the others is 0 there.
fn note(run: &mut Run, simulation: &Simulation, repetition: usize) {
    run.measures.note(simulation);
    let repetitions = run.repetitions;
    for row in simulation.context_rows(0, 0) {
        let pages = run.contexts.entry(Name::of(&row)).or_insert_with(|| vec![0.0; repetitions]);
        pages[repetition] += row.writer.pages() as f64;
    }
}

fn compared(runs: &[Run]) -> CompareJson {
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
    let names: BTreeSet<&Name> = runs.iter().flat_map(|run| run.contexts.keys()).collect();
    let of = |run: &Run, name: &Name| {
        run.contexts.get(name).cloned().unwrap_or_else(|| vec![0.0; run.repetitions])
    };
    let context = |name: &&Name| ContextJson {
        name: name.joined(),
        parts: (*name).clone(),
        pages: runs.iter().map(|run| mean(&of(run, name))).collect(),
        more_than_noise: differ(&of(first, name), &of(&runs[runs.len() - 1], name)),
    };
    let mut contexts: Vec<ContextJson> = names.iter().map(context).collect();
    contexts.sort_by(|a, b| b.change().total_cmp(&a.change()).then_with(|| a.name.cmp(&b.name)));
    let summary = |run: &Run| RunJson {
        name: run.name.clone(),
        repetitions: run.repetitions,
        measures: run.measures.means(),
    };
    let version = env!("CARGO_PKG_VERSION").to_owned();
    CompareJson { pcstream: version, runs: runs.iter().map(summary).collect(), changes, contexts }
}

fn text(result: &CompareJson, top: usize, ui: Ui) -> String {
    let layout = ui.layout(false);
    let mut lines = Vec::new();
    for (index, run) in result.runs.iter().enumerate() {
        let letter = (b'A' + (index % 26) as u8) as char;
        let times =
            if run.repetitions == 1 { "once".to_owned() } else { format!("{} times", run.repetitions) };
        lines.push(layout.cut(&format!("{letter}  {} ({times})", run.name)));
    }
    lines.push(String::new());
    let width = result.changes.iter().map(|c| c.measure.len()).max().unwrap_or(0);
    for name in result.runs[0].measures.keys() {
        let values = result.runs.iter().filter_map(|run| run.measures.get(name));
        let values: Vec<String> = values.map(|value| format!("{:>18}", written(name, value))).collect();
        let changes = result.changes.iter().filter(|change| change.measure == *name);
        let verdicts: Vec<String> = changes.map(verdict).collect();
        let line = format!("{name:width$} {}  {}", values.join(" "), verdicts.join("; "));
        lines.push(layout.cut(line.trim_end()));
    }
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

fn written(name: &str, value: &Mean) -> String {
    let of = |number: f64| measures::written(name, number);
    match value.half_width_95 {
        Some(half) => format!("{} +- {}", of(value.mean), of(half)),
        None => of(value.mean),
    }
}

/// Those that changed.
fn contexts(result: &CompareJson, top: usize, layout: Layout) -> Vec<String> {
    let changed = result.contexts.iter().take_while(|context| context.change() > 0.0).count();
    let mut lines = layout.wrap("contexts, most changed first (by name; pages as written by the host)", 0);
    let shown = &result.contexts[..top.min(changed)];
    for (context, name) in shown.iter().zip(short_names(shown)) {
        let pages: Vec<String> =
            context.pages.iter().map(|pages| format!("{:>10}", page_bytes(pages.mean as u64))).collect();
        let noise = match context.more_than_noise {
            Some(true) => "changed",
            Some(false) => "noise  ",
            None => "       ",
        };
        lines.push(layout.cut(&format!("{} {noise} {}", pages.join(" "), visible(&name))));
    }
    let same = (result.contexts.len() - changed) as u64;
    if same > 0 {
        lines.push(format!("{} wrote as much in every run", counted(same, "context")));
    }
    lines
}

fn verdict(measured: &ChangeJson) -> String {
    let Some(ratio) = measured.ratio else { return "-".to_owned() };
    let by = change(ratio - 1.0);
    match measured.more_than_noise {
        Some(true) => format!("{by}, more than noise"),
        Some(false) => format!("{by}, within noise"),
        None => by,
    }
}

/// Programs with threads, and the frames that tell these contexts' call paths apart.
fn short_names(contexts: &[ContextJson]) -> Vec<String> {
    let inner_first = |context: &ContextJson| context.parts.path.iter().rev().cloned().collect();
    let paths: Vec<Vec<String>> = contexts.iter().map(inner_first).collect();
    let line = |(context, path): (&ContextJson, String)| {
        let Name { program, thread, .. } = &context.parts;
        let thread = thread.as_ref().map_or(String::new(), |thread| format!(" ({thread})"));
        format!("{program}{thread}  {path}")
    };
    contexts.iter().zip(distinguishing_frames(&paths)).map(line).collect()
}
