//! `run --repeat`: a command several times, each time on a fresh scratch device, and how much its results vary.
//!
//! Idea: each run is a whole `run` with the same seed, so what varies is what the program does. The summary has the mean
//! of each measure, its 95 % interval, and the least and greatest of the runs.
//!
//! Invariant: a run that failed ends the series, and is not in the summary.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use pcstream_report::escape::visible;
use pcstream_report::human::{change, percent, ratio};
use pcstream_report::json::{self, SimulationJson};
use pcstream_report::statistics::{Mean, mean};
use pcstream_report::table::Side::{Left, Right};
use pcstream_report::table::table;
use pcstream_report::verdict::Matters;
use pcstream_report::{Simulation, VERSION, Verdict};
use serde::Serialize;

use crate::args::RunArgs;
use crate::device::Template;
use crate::failure::{Failure, Status};
use crate::live::outcome;
use crate::measures::{Measures, written};
use crate::run::{TracePlace, recorded};
use crate::simulate;
use crate::stop::StopSignals;
use crate::ui::{self, JsonSink, Ui};

#[derive(Debug, Serialize)]
struct RepeatedJson {
    pcstream: &'static str,
    seed: u64,
    command: Vec<String>,
    /// Each run as `run --json` has it.
    runs: Vec<SimulationJson>,
    summary: SummaryJson,
}

#[derive(Debug, Serialize)]
struct SummaryJson {
    repetitions: usize,
    measures: BTreeMap<String, Mean>,
    verdict: VerdictJson,
}

/// The verdicts of all runs.
#[derive(Debug, Serialize)]
struct VerdictJson {
    sentences: Vec<String>,
    /// Null where a run has no such number.
    waf_now: Option<Mean>,
    waf_with_streams: Option<Mean>,
    flash_saved: Option<Mean>,
    life_ratio: Option<Mean>,
    /// Runs by what `verdict.matters` is.
    matters: BTreeMap<&'static str, usize>,
    steady_runs: usize,
}

/// What the runs came to.
#[derive(Default)]
struct Runs {
    runs: Vec<SimulationJson>,
    measures: Measures,
    losses: bool,
}

/// `pcstream run --repeat`.
pub fn run(args: &RunArgs, times: u32, ui: Ui) -> Result<Status, Failure> {
    let traces = check(args, times)?;
    let json = JsonSink::asked(&args.simulation.output)?;
    let template = Template::load(&args.simulation.device)?;
    let stop = StopSignals::catch()?;
    let mut done = Runs::default();
    let mut ended = Ok(());
    for (number, trace) in (1..=times).zip(&traces) {
        ui.remark(&format!("run {number} of {times}"));
        ended = one(args, &template, trace.as_deref(), &stop, &mut done, ui);
        if ended.is_err() {
            let left = done.runs.len();
            ui.remark(&format!("run {number} failed: the results are those of the {left} before it"));
            break;
        }
    }
    drop(stop);
    if !done.runs.is_empty() {
        present(&done, json, ui)?;
    }
    ended.map(|()| Status::with_losses(done.losses))
}

/// Refuses what makes no sense together. The traces that are kept, by run.
fn check(args: &RunArgs, times: u32) -> Result<Vec<Option<PathBuf>>, Failure> {
    if args.simulation.details {
        let error = anyhow!("--details: with --repeat, keep the traces (-o) and simulate the one you mean");
        return Err(Failure::wrong_arguments(error));
    }
    let traces: Vec<_> = (1..=times).map(|n| args.output.as_deref().map(|path| numbered(path, n))).collect();
    if let Some(there) = traces.iter().flatten().find(|path| !args.force && path.exists()) {
        return Err(anyhow!("-o: {} exists; --force replaces it", there.display()).into());
    }
    Ok(traces)
}

/// `db.pctrace` becomes `db-2.pctrace`.
fn numbered(path: &Path, number: u32) -> PathBuf {
    let part = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_os_string();
    let mut name = part(path.file_stem());
    name.push(format!("-{number}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

fn one(
    args: &RunArgs,
    template: &Template,
    trace: Option<&Path>,
    stop: &StopSignals,
    done: &mut Runs,
    ui: Ui,
) -> Result<(), Failure> {
    let recorded = recorded(args, template, TracePlace::new(trace)?, None, stop, ui)?;
    let ran = recorded.simulated(ui)?;
    let simulation = ran.simulation();
    let status = outcome(&ran.captured, args.capture.forward_exit_code, ui)?;
    done.losses |= status == Status::Losses || simulation.has_losses();
    done.measures.note(&simulation);
    done.runs.push(json::simulation(&simulation, &simulate::rows(&simulation)));
    if let Some(path) = trace {
        ui.remark(&format!("kept: {}", path.display()));
    }
    ui.remark(&in_short(&simulation));
    Ok(())
}

fn in_short(simulation: &Simulation) -> String {
    Verdict::of(simulation).sentences.swap_remove(0)
}

fn present(done: &Runs, json: Option<JsonSink>, ui: Ui) -> Result<(), Failure> {
    let first = &done.runs[0];
    let result = RepeatedJson {
        pcstream: VERSION,
        seed: first.seed,
        command: first.trace.command.clone(),
        runs: done.runs.clone(),
        summary: SummaryJson {
            repetitions: done.runs.len(),
            measures: done.measures.means(),
            verdict: verdict(&done.runs),
        },
    };
    ui::show(json, &result, || text(&result, ui))
}

fn verdict(runs: &[SimulationJson]) -> VerdictJson {
    // Of all runs, or of none.
    let of = |number: fn(&Verdict) -> Option<f64>| {
        let values: Option<Vec<f64>> = runs.iter().map(|run| number(&run.verdict)).collect();
        values.map(|values| mean(&values))
    };
    let mut matters = BTreeMap::new();
    for run in runs {
        let name = match run.verdict.matters {
            Matters::Yes => "yes",
            Matters::Little => "little",
            Matters::No => "no",
            Matters::Unknown => "unknown",
        };
        *matters.entry(name).or_insert(0) += 1;
    }
    let mut verdict = VerdictJson {
        sentences: Vec::new(),
        waf_now: of(|verdict| verdict.now.as_ref()?.waf),
        waf_with_streams: of(|verdict| verdict.with_streams.as_ref()?.waf),
        flash_saved: of(|verdict| verdict.flash_saved),
        life_ratio: of(|verdict| verdict.life_ratio),
        matters,
        steady_runs: runs.iter().filter(|run| run.verdict.steady).count(),
    };
    verdict.sentences = sentences(&verdict, runs.len());
    verdict
}

fn sentences(verdict: &VerdictJson, runs: usize) -> Vec<String> {
    let between = |mean: &Mean, of: fn(f64) -> String| {
        format!("{} ({} to {})", of(mean.mean), of(mean.least), of(mean.greatest))
    };
    let waf = |mean: &Mean| between(mean, |waf| ratio(Some(waf)));
    let numbers = [
        verdict.waf_now.as_ref().map(|mean| format!("WAF {} now", waf(mean))),
        verdict.waf_with_streams.as_ref().map(|mean| format!("{} with streams", waf(mean))),
        verdict.flash_saved.as_ref().map(|mean| format!("flash saved {}", between(mean, signed))),
    ];
    let numbers = numbers.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let worth = verdict.matters.get("yes").copied().unwrap_or(0);
    let unknown = verdict.matters.get("unknown").copied().unwrap_or(0);
    let mut out = Vec::new();
    match (unknown < runs, numbers.as_str()) {
        (true, "") => out.push(format!("Streams are worth it in {worth} of {runs} runs.")),
        (true, numbers) => out.push(format!("Streams are worth it in {worth} of {runs} runs: {numbers}.")),
        (false, "") => {}
        (false, numbers) => out.push(format!("{numbers}.")),
    }
    if unknown > 0 {
        let why = "garbage collection never ran, or there is nothing to compare";
        out.push(format!("Nothing can be said of {unknown} of the runs: {why}."));
    }
    if verdict.steady_runs < runs {
        out.push(format!("Steady in {} of them.", verdict.steady_runs));
    }
    out
}

fn signed(share: f64) -> String {
    if share < 0.0 { change(share) } else { percent(share) }
}

fn text(result: &RepeatedJson, ui: Ui) -> String {
    let layout = ui.layout(false);
    let runs = result.summary.repetitions;
    let mut lines = vec![
        format!("pcstream {}, seed {}", result.pcstream, result.seed),
        layout.cut(&format!("command  {}", visible(&result.command.join(" ")))),
        format!("runs     {runs}, each on a fresh scratch device"),
        String::new(),
    ];
    let sentences = result.summary.verdict.sentences.join(" ");
    lines.extend(layout.wrap(&format!("Verdict of {runs} runs: {sentences}"), 0));
    lines.push(String::new());
    let measures: Vec<(&String, &Mean)> = result.summary.measures.iter().collect();
    let half = |(name, mean): &(&String, &Mean)| {
        mean.half_width_95.map_or("-".to_owned(), |half| written(name, half))
    };
    let table = table(
        &measures,
        &[
            (Left, "measure", &|(name, _)| (*name).clone()),
            (Right, "mean", &|(name, mean)| written(name, mean.mean)),
            (Right, "+- (95 %)", &half),
            (Right, "least", &|(name, mean)| written(name, mean.least)),
            (Right, "greatest", &|(name, mean)| written(name, mean.greatest)),
        ],
    );
    lines.extend(table.iter().map(|line| layout.cut(line)));
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_without_an_answer_are_not_counted_as_a_no() {
        let said = |matters: &[(&'static str, usize)]| {
            let verdict = VerdictJson {
                sentences: Vec::new(),
                waf_now: None,
                waf_with_streams: None,
                flash_saved: None,
                life_ratio: None,
                matters: matters.iter().copied().collect(),
                steady_runs: 3,
            };
            sentences(&verdict, 3).join(" ")
        };
        assert_eq!(said(&[("yes", 2), ("no", 1)]), "Streams are worth it in 2 of 3 runs.");
        let none = "Nothing can be said of 3 of the runs: garbage collection never ran, or there is nothing to compare.";
        assert_eq!(said(&[("unknown", 3)]), none);
        assert!(
            said(&[("yes", 1), ("unknown", 2)]).starts_with("Streams are worth it in 1 of 3 runs. Nothing")
        );
    }

    #[test]
    fn traces_are_numbered_before_their_extension() {
        let name = |path: &str| numbered(Path::new(path), 2).display().to_string();
        assert_eq!(name("dir.x/db.pctrace"), "dir.x/db-2.pctrace");
        assert_eq!(name("/tmp/trace"), "/tmp/trace-2");
    }
}
