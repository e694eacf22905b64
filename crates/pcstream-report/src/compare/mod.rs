//! Recorded runs side by side: what changed, and whether that is more than noise.
//!
//! A run is one trace, or several repetitions of it. Contexts are matched by name, so that another build is compared, too.
//!
//! Units: pages as the host wrote them; means over repetitions with their 95 % interval.

mod doubts;
mod matching;
mod text;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::functions::Functions;
use crate::json::{self, DeviceJson};
use crate::measures::Measures;
use crate::schemes::missing;
use crate::statistics::{Mean, differ, mean};
use crate::verdict::says_nothing;
use crate::{Settings, Simulation, VERSION, Verdict};
use matching::{Contexts, Name, Written};

/// Runs side by side, as its JSON has them.
#[derive(Debug, Serialize)]
pub struct Comparison {
    pcstream: &'static str,
    runs: Vec<RunSummary>,
    /// Everything measured, against the first run.
    changes: Vec<Change>,
    /// Pages by context and run, most changed first.
    contexts: Vec<ContextChange>,
    /// What makes runs hard to compare; programs that count as one, and those that the other run lacks.
    remarks: Vec<String>,
}

#[derive(Debug, Serialize)]
struct RunSummary {
    name: String,
    repetitions: usize,
    /// By repetition.
    devices: Vec<DeviceJson>,
    measures: BTreeMap<String, Mean>,
}

#[derive(Debug, Serialize)]
struct Change {
    measure: String,
    run: String,
    first: f64,
    other: f64,
    ratio: Option<f64>,
    /// Null where a run has no repetitions: noise is not known.
    more_than_noise: Option<bool>,
}

#[derive(Debug, Serialize)]
struct ContextChange {
    /// As folded stacks have it, with whole names of functions.
    name: String,
    /// As the table has it.
    #[serde(skip)]
    line: String,
    pages: Vec<Mean>,
    more_than_noise: Option<bool>,
}

impl ContextChange {
    /// The largest difference from the first run, in pages.
    fn change(&self) -> f64 {
        let first = self.pages[0].mean;
        self.pages[1..].iter().map(|pages| (pages.mean - first).abs()).fold(0.0, f64::max)
    }
}

/// What one run measured, by repetition.
#[derive(Debug)]
pub struct Run {
    name: String,
    repetitions: usize,
    devices: Vec<DeviceJson>,
    /// Of the last repetition.
    settings: Settings,
    /// Repetitions of which nothing can be said.
    silent: usize,
    /// What a repetition must write more, at most, for a steady answer.
    bytes_to_steady: u64,
    missing: Vec<String>,
    measures: Measures,
    contexts: Contexts,
}

impl Run {
    /// A run of so many repetitions, none of them measured.
    pub fn new(name: &str, repetitions: usize) -> Run {
        Run {
            name: name.to_owned(),
            repetitions,
            devices: Vec::new(),
            settings: Settings::default(),
            silent: 0,
            bytes_to_steady: 0,
            missing: Vec::new(),
            measures: Measures::default(),
            contexts: Contexts::new(),
        }
    }

    /// Takes in one repetition; what did not occur in the others is 0 there.
    pub fn note(&mut self, simulation: &Simulation) {
        let repetition = self.devices.len();
        self.measures.note(simulation);
        self.devices.push(json::device(&simulation.results[0], simulation.about.device.as_deref()));
        self.settings = simulation.about.settings.clone();
        self.silent += usize::from(simulation.results.iter().all(says_nothing));
        self.bytes_to_steady = self.bytes_to_steady.max(Verdict::of(simulation).bytes_to_steady);
        let path = &simulation.about.trace.path;
        self.missing.extend(missing(simulation).iter().map(|what| format!("{path}: {what}.")));
        let functions = Functions::whole();
        for row in simulation.context_rows(0, 0) {
            let new = || Written { context: row.context.cloned(), pages: vec![0.0; self.repetitions] };
            let written = self.contexts.entry(Name::of(&row, &functions)).or_insert_with(new);
            written.pages[repetition] += row.writer.pages() as f64;
        }
    }
}

impl Comparison {
    /// Compares the others with the first run; there is one at least, and all were simulated alike.
    pub fn of(mut runs: Vec<Run>) -> Comparison {
        let mut remarks = doubts::of(&runs);
        remarks.extend(matched(&mut runs));
        compared(&runs, remarks)
    }
}

fn compared(runs: &[Run], remarks: Vec<String>) -> Comparison {
    let first = &runs[0];
    let mut changes = Vec::new();
    for run in &runs[1..] {
        for (name, values) in run.measures.values() {
            let Some(reference) = first.measures.get(name) else { continue };
            let (from, to) = (mean(reference).mean, mean(values).mean);
            changes.push(Change {
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
    let context = |(name, line): (&&Name, String)| ContextChange {
        name: name.joined(),
        line,
        pages: runs.iter().map(|run| mean(&of(run, name))).collect(),
        more_than_noise: any_differs(&of(first, name), runs[1..].iter().map(|run| of(run, name))),
    };
    let mut contexts: Vec<ContextChange> = all.keys().zip(matching::lines(&all)).map(context).collect();
    contexts.sort_by(|a, b| b.change().total_cmp(&a.change()).then_with(|| a.name.cmp(&b.name)));
    let summary = |run: &Run| RunSummary {
        name: run.name.clone(),
        repetitions: run.repetitions,
        devices: run.devices.clone(),
        measures: run.measures.means(),
    };
    Comparison { pcstream: VERSION, runs: runs.iter().map(summary).collect(), changes, contexts, remarks }
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
        let mut doubtful = matching::doubtful(&first.contexts, &other.contexts, "A");
        doubtful.extend(matching::doubtful(&other.contexts, &first.contexts, &letter));
        remarks.extend(matching::in_words(&doubtful));
    }
    remarks
}

/// What a run is called: A to Z, then AA.
fn letter(index: usize) -> String {
    let last = char::from(b'A' + (index % 26) as u8);
    if index < 26 { last.to_string() } else { format!("{}{last}", letter(index / 26 - 1)) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_runs_are_called_alike() {
        let named = [0, 25, 26, 27, 51, 52, 701, 702].map(letter);
        assert_eq!(named, ["A", "Z", "AA", "AB", "AZ", "BA", "ZZ", "AAA"]);
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
