//! A run that was repeated: how much its results vary.
//!
//! Idea: each run has the same seed, so what varies is what the program does. The summary has the mean of each measure, its
//! 95 % interval, and the least and greatest of the runs.

use std::collections::BTreeMap;

use pcstream_ssd::GcDestination;
use serde::Serialize;

use crate::drive::{in_words, is_worth};
use crate::escape::visible;
use crate::human::{ratio, saving};
use crate::json::SimulationJson;
use crate::measures::{Measures, written};
use crate::statistics::{Mean, mean};
use crate::table::Side::{Left, Right};
use crate::table::table;
use crate::verdict::{Matters, another};
use crate::{Layout, VERSION, Verdict};

/// What repetitions of a run came to, as its JSON has it.
#[derive(Debug, Serialize)]
pub struct Repeated {
    pcstream: &'static str,
    seed: u64,
    command: Vec<String>,
    /// Each run as `run --json` has it.
    runs: Vec<SimulationJson>,
    summary: Summary,
}

#[derive(Debug, Serialize)]
struct Summary {
    repetitions: usize,
    measures: BTreeMap<String, Mean>,
    verdict: Verdicts,
}

/// The verdicts of all runs.
#[derive(Debug, Default, Serialize)]
struct Verdicts {
    sentences: Vec<String>,
    /// Null where a run has no such number.
    waf_now: Option<Mean>,
    waf_with_streams: Option<Mean>,
    /// What the drive gives alone, and what streams of the host save of that.
    waf_same_drive: Option<Mean>,
    flash_saved: Option<Mean>,
    flash_saved_on_same_drive: Option<Mean>,
    flash_saved_on_legacy_drive: Option<Mean>,
    life_ratio: Option<Mean>,
    /// Runs in which streams of the host are worth it on the drive of `waf_with_streams`.
    worth_it: usize,
    /// Runs by what `verdict.matters` is.
    matters: BTreeMap<&'static str, usize>,
    steady_runs: usize,
}

impl Repeated {
    /// Of runs (one at least) and what they measured.
    pub fn of(runs: &[SimulationJson], measures: &Measures) -> Repeated {
        let first = &runs[0];
        Repeated {
            pcstream: VERSION,
            seed: first.seed,
            command: first.trace.command.clone(),
            runs: runs.to_vec(),
            summary: Summary {
                repetitions: runs.len(),
                measures: measures.means(),
                verdict: verdict(&runs.iter().map(|run| &run.verdict).collect::<Vec<_>>()),
            },
        }
    }

    /// As a table for people.
    pub fn text(&self, layout: Layout) -> String {
        text(self, layout)
    }
}

fn verdict(runs: &[&Verdict]) -> Verdicts {
    // Of all runs, or of none.
    let of = |number: fn(&Verdict) -> Option<f64>| {
        let values: Option<Vec<f64>> = runs.iter().map(|run| number(run)).collect();
        values.map(|values| mean(&values))
    };
    let mut matters = BTreeMap::new();
    for run in runs {
        *matters.entry(run.matters.name()).or_insert(0) += 1;
    }
    let mut verdict = Verdicts {
        sentences: Vec::new(),
        waf_now: of(|verdict| verdict.now.as_ref()?.waf),
        waf_with_streams: of(|verdict| verdict.with_streams.as_ref()?.waf),
        waf_same_drive: of(|verdict| verdict.same_drive.as_ref()?.waf),
        flash_saved: of(|verdict| verdict.flash_saved),
        flash_saved_on_same_drive: of(|verdict| verdict.flash_saved_on_same_drive),
        flash_saved_on_legacy_drive: of(|verdict| verdict.flash_saved_on_legacy_drive),
        life_ratio: of(|verdict| verdict.life_ratio),
        worth_it: runs.iter().filter(|run| is_worth_it(run)).count(),
        matters,
        steady_runs: runs.iter().filter(|run| run.steady).count(),
    };
    let drive = runs[0].with_streams.as_ref().map_or(String::new(), |side| format!(" on {}", side.drive));
    verdict.sentences = sentences(&verdict, runs.len(), &drive);
    verdict
}

/// Whether a run by itself calls streams of the host worth it on the drive whose numbers it gives.
fn is_worth_it(verdict: &Verdict) -> bool {
    verdict.matters == Matters::Yes && is_worth(verdict.flash_saved, verdict.flash_saved_on_same_drive)
}

/// `drive`: that of the streams, as ` on a drive`.
fn sentences(verdict: &Verdicts, runs: usize, drive: &str) -> Vec<String> {
    let between = |mean: &Mean, of: fn(f64) -> String| {
        format!("{} ({} to {})", of(mean.mean), of(mean.least), of(mean.greatest))
    };
    let waf = |mean: &Mean| between(mean, |waf| ratio(Some(waf)));
    let numbers = [
        verdict.waf_now.as_ref().map(|mean| format!("WAF {} now", waf(mean))),
        verdict.waf_with_streams.as_ref().map(|mean| format!("{} with streams", waf(mean))),
        verdict.flash_saved.as_ref().map(|mean| format!("flash saved {}", between(mean, saving))),
    ];
    let numbers = numbers.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let worth = verdict.worth_it;
    let unknown = verdict.matters.get("unknown").copied().unwrap_or(0);
    let mut out = Vec::new();
    match (unknown < runs, numbers.as_str()) {
        (true, "") => out.push(format!("Streams are worth it in {worth} of {runs} runs{drive}.")),
        (true, numbers) => {
            out.push(format!("Streams are worth it in {worth} of {runs} runs{drive}: {numbers}."))
        }
        (false, "") => {}
        (false, numbers) => out.push(format!("{numbers}.")),
    }
    let on_same = (&verdict.waf_same_drive, &verdict.flash_saved_on_same_drive);
    if unknown < runs
        && let (Some(alone), Some(saved)) = on_same
    {
        out.push(format!(
            "Of this, the drive alone gives {}; the host's streams {} ({} to {}).",
            waf(alone),
            another(saved.mean),
            saving(saved.least),
            saving(saved.greatest),
        ));
    }
    if unknown < runs
        && let Some(saved) = &verdict.flash_saved_on_legacy_drive
    {
        out.push(format!("On {}, flash saved {}.", in_words(GcDestination::Own), between(saved, saving)));
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

fn text(result: &Repeated, layout: Layout) -> String {
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
    use crate::verdict::SideJson;

    #[test]
    fn runs_without_an_answer_are_not_counted_as_a_no() {
        let said = |matters: &[(&'static str, usize)]| {
            let matters: BTreeMap<_, _> = matters.iter().copied().collect();
            let worth_it = matters.get("yes").copied().unwrap_or(0);
            let verdict = Verdicts { worth_it, matters, steady_runs: 3, ..Verdicts::default() };
            sentences(&verdict, 3, "").join(" ")
        };
        assert_eq!(said(&[("yes", 2), ("no", 1)]), "Streams are worth it in 2 of 3 runs.");
        let none = "Nothing can be said of 3 of the runs: garbage collection never ran, or there is nothing to compare.";
        assert_eq!(said(&[("unknown", 3)]), none);
        assert!(
            said(&[("yes", 1), ("unknown", 2)]).starts_with("Streams are worth it in 1 of 3 runs. Nothing")
        );
    }

    /// As a single run does, which says that either of two helps.
    #[test]
    fn what_the_drive_gives_alone_is_no_merit_of_the_hosts_streams() {
        let side = |waf| SideJson {
            scheme: "pcstream".to_owned(),
            gc_destination: "internal".to_owned(),
            drive: "an SSD".to_owned(),
            waf: Some(waf),
            steady_waf: None,
            flash_bytes: 0,
            flash_bytes_per_day: None,
        };
        let single = Verdict {
            sentences: Vec::new(),
            matters: Matters::Yes,
            now: Some(side(1.5)),
            with_streams: Some(side(1.194)),
            same_drive: Some(side(1.2)),
            on_legacy_drive: None,
            real_writes: None,
            best_foreseeing: None,
            flash_saved: Some(0.204),
            flash_saved_on_same_drive: Some(0.005),
            flash_saved_on_legacy_drive: Some(0.19),
            life_ratio: None,
            steady: true,
            bytes_to_steady: 0,
        };
        let said = verdict(&[&single, &single]).sentences.join(" ");
        assert!(
            said.starts_with("Streams are worth it in 0 of 2 runs on an SSD: WAF 1.500 (1.500 to"),
            "{said}"
        );
        let alone = "Of this, the drive alone gives 1.200 (1.200 to 1.200); the host's streams save only another 0.50 % (";
        assert!(
            said.contains(alone) && said.contains("a legacy multi-stream SSD, flash saved 19.0 %"),
            "{said}"
        );
    }
}
