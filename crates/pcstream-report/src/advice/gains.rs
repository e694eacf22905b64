//! What each change saves, and what makes that doubtful.

use std::collections::BTreeSet;

use pcstream_replay::LaneResult;
use pcstream_trace::paths::file_name;
use serde::Serialize;

use super::Source;
use super::changes::{Change, OWN_HINTS, Possible, SET_HINTS, file_named};
use crate::drive::{LEAST_GAIN, in_words, saved};
use crate::human::{page_bytes, percent, ratio};
use crate::schemes::missing;
use crate::verdict::{ONE_STREAM, says_nothing};
use crate::{Settings, Simulation, VERSION, dropped};

/// What is said instead of streams by class.
const ONE_CLASS: &str =
    "All sources are in one class of lifetimes, so streams or hints by class keep nothing apart.";
/// What is said where a pattern matches every name.
const UNNAMED: &str = "Files of one program whose names are numbers or random, or were hidden by --redact, count as one \
    source, `*`: no pattern of names tells them apart.";
/// Share of a drive that live data fill, from which on it is not called too empty.
const FULL: f64 = 0.9;
/// A share of pages that was asked for may be this much less, as pages are whole.
const ROUNDED: f64 = 0.005;
/// Share of the pages of programs that no source has, from which on it is said.
const UNASSIGNED: f64 = 0.01;

/// What to change, by what it saves.
#[derive(Debug, Serialize)]
pub struct Advice {
    #[serde(skip)]
    pub(super) copies: bool,
    pcstream: &'static str,
    trace: String,
    pub(super) baseline_waf: Option<f64>,
    pub(super) changes: Vec<Gain>,
    /// Null: the trace has none, or the drive would be another one.
    discards: Option<Discards>,
    pub(super) remarks: Vec<String>,
    sources: Vec<Source>,
}

/// What the trace's discards save on the drive as it is.
#[derive(Debug, Serialize)]
struct Discards {
    waf_with: Option<f64>,
    waf_without: Option<f64>,
    /// Of what is programmed without them.
    flash_saved: Option<f64>,
}

impl Discards {
    /// Of a baseline, and of the same on the trace as if discards were left out, or as if they were not.
    fn of(baseline: &LaneResult, other: &LaneResult, left_out: bool) -> Discards {
        let (with, without) = if left_out { (other, baseline) } else { (baseline, other) };
        Discards { waf_with: with.waf(), waf_without: without.waf(), flash_saved: saved(with, without) }
    }

    /// How to send them is known of file systems.
    fn in_words(&self, left_out: bool, file_system: bool) -> Option<String> {
        let gain = self.flash_saved.filter(|gain| *gain >= LEAST_GAIN).map(percent)?;
        let (waf_with, waf_without) = (ratio(self.waf_with), ratio(self.waf_without));
        let (what, how) = match left_out {
            true => (
                format!("Discards would save {gain} of the flash (WAF {waf_with})"),
                ": mount with -o discard, or run fstrim.",
            ),
            false => (
                format!("Discards save {gain} of the flash (WAF {waf_without} without them)"),
                ": keep the mount option, or fstrim, that sends them.",
            ),
        };
        Some(what + if file_system { how } else { "." })
    }
}

/// A change with what it saves.
#[derive(Debug, Serialize)]
pub(super) struct Gain {
    pub(super) change: String,
    pub(super) whose_code: String,
    pub(super) drive: String,
    pub(super) scheme: String,
    pub(super) rules: Option<String>,
    pub(super) waf: Option<f64>,
    pub(super) flash_saved: Option<f64>,
    /// The same against a baseline on this drive: without what its own internal streams save.
    pub(super) flash_saved_on_same_drive: Option<f64>,
    pub(super) steps: Vec<String>,
}

impl Advice {
    /// Of a baseline on the drive as it is (`result`), and lanes for the changes that are possible. Behind these, `gains` has
    /// baselines on the other kinds of drives.
    /// `other_discards` is the baseline with the trace's discards left out, or with them if `result` has none of them.
    /// Nothing can be said of the sources in `young`.
    pub fn of(
        result: &Simulation,
        (sources, young): (Vec<Source>, &[Source]),
        possible: Possible,
        gains: &[LaneResult],
        other_discards: Option<&LaneResult>,
    ) -> Advice {
        let Possible { changes, one_class, unassigned, .. } = possible;
        let mut advice = judged(changes, gains, result, sources);
        let left_out = result.about.settings.no_discard;
        advice.discards = other_discards.map(|other| Discards::of(&result.results[0], other, left_out));
        let said = |discards: &Discards| discards.in_words(left_out, result.about.trace.file_system);
        advice.remarks.extend(advice.discards.as_ref().and_then(said));
        let unnamed = advice.sources.iter().any(|source| source.file == "*");
        if advice.copies && one_class {
            advice.remarks.push(if unnamed {
                format!("{ONE_CLASS} {UNNAMED}")
            } else {
                ONE_CLASS.to_owned()
            });
        } else if advice.copies && unnamed {
            advice.remarks.push(UNNAMED.to_owned());
        }
        let of_all = |pages: u64| pages as f64 / result.writers.totals().host_pages.max(1) as f64;
        advice.remarks.extend(too_young(young, of_all));
        let share = of_all(unassigned);
        if share >= UNASSIGNED {
            advice.remarks.push(format!(
                "{} of the writes are by programs, but no rule names them: too little for each program and kind of file.",
                percent(share)
            ));
        }
        advice
    }
}

/// Which sources have no stream, because the trace ends too soon after their writes.
fn too_young(young: &[Source], of_all: impl Fn(u64) -> f64) -> Option<String> {
    let name = |source: &Source| format!("{} writing {}", file_name(&source.executable), file_named(source));
    let names: BTreeSet<String> = young.iter().map(name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    (!young.is_empty()).then(|| {
        format!(
            "Too young to tell: {} ({} of the writes). Most of these pages still live at the end, and their mean age is below \
             the median lifetime of all pages. They stay in S0. A longer recording would show how long they live.",
            names.join(", "),
            percent(of_all(young.iter().map(|source| source.pages).sum()))
        )
    })
}

fn judged(changes: Vec<Change>, gains: &[LaneResult], result: &Simulation, sources: Vec<Source>) -> Advice {
    let (baseline, settings) = (&result.results[0], &result.about.settings);
    let on_other_drives = &gains[changes.len()..];
    let same_drive = |lane: &LaneResult| {
        let is_same = |other: &&LaneResult| other.settings.gc_destination == lane.settings.gc_destination;
        on_other_drives.iter().find(is_same).unwrap_or(baseline)
    };
    let judge = |(change, lane): (Change, &LaneResult)| Gain {
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
    let mut changes: Vec<Gain> = changes.into_iter().zip(gains).map(judge).collect();
    changes.sort_by(|a, b| b.flash_saved.unwrap_or(0.0).total_cmp(&a.flash_saved.unwrap_or(0.0)));
    // Two schemes may do the same for one drive: the better one counts.
    let mut seen = BTreeSet::new();
    changes.retain(|gain| seen.insert((gain.change.clone(), gain.drive.clone())));
    let totals = result.writers.totals();
    let path = &result.about.trace.path;
    let dropped = dropped(gains).into_iter().map(|dropped| dropped.to_string());
    let lacking = missing(result).into_iter().chain(dropped);
    let mut remarks: Vec<String> = lacking.map(|what| format!("{path}: {what}.")).collect();
    remarks.extend(doubt(baseline, best, settings));
    remarks.extend((copies(baseline) && baseline.geometry.streams() == 1).then(|| ONE_STREAM.to_owned()));
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
    // How a file system was mounted is known of recordings alone.
    if totals.discarded_pages + totals.zeroed_pages == 0
        && result.about.trace.file_system
        && !settings.no_discard
        && !result.about.trace.discards
    {
        remarks.push(
            "The trace has no discards: mount with -o discard, or run fstrim, so that the drive learns what is deleted. \
             What that gains cannot be simulated from this trace."
                .to_owned(),
        );
    }
    Advice {
        copies: copies(baseline),
        pcstream: VERSION,
        trace: result.about.trace.path.clone(),
        baseline_waf: baseline.waf(),
        changes,
        discards: None,
        remarks,
        sources,
    }
}

/// What makes gains doubtful: too little was written to see any, or to see them as they will be.
fn doubt(baseline: &LaneResult, best: Option<&LaneResult>, settings: &Settings) -> Option<String> {
    if baseline.host_pages() == 0 {
        return Some("The trace writes nothing, so there is nothing to gain.".to_owned());
    }
    let to_steady = baseline.pages_to_steady.max(best.map_or(0, |best| best.pages_to_steady));
    let helps = what_helps(baseline, settings);
    match copies(baseline) {
        false if says_nothing(baseline) => {
            Some(format!("Nothing can be said yet: nothing was copied. {helps}"))
        }
        false => Some(format!("Nothing was copied, so no change can gain anything. {helps}")),
        true if to_steady > 0 => {
            let more = page_bytes(to_steady);
            Some(format!("Not steady yet: write at least {more} more for a steady answer."))
        }
        true => None,
    }
}

/// Whether there is anything to save.
fn copies(baseline: &LaneResult) -> bool {
    baseline.counters.gc_pages > 0
}

/// What makes a drive copy that does not, or why nothing does.
fn what_helps(baseline: &LaneResult, settings: &Settings) -> String {
    let live = baseline.live_pages as f64 / baseline.geometry.logical_pages() as f64;
    let fullest = live.max(settings.pack_live.unwrap_or(0.0));
    let (share, is_full) = (percent(fullest), fullest >= FULL - ROUNDED);
    match says_nothing(baseline) {
        true if is_full || settings.fills_the_drive() => "Record for longer.".to_owned(),
        true => {
            "Too little was written to this drive: --pack 0.9 simulates it as if it filled 90 % of a smaller one."
                .to_owned()
        }
        false if is_full => format!(
            "Live data fill {share} of this drive. It copies nothing because data that lie together die together."
        ),
        false => format!(
            "Live data fill {share} of this drive: --pack-live {FULL} simulates one that they fill to {}.",
            percent(FULL)
        ),
    }
}

/// Leaves out hints that save no more than those that are set already; says whether there are such.
fn drop_needless_hints(changes: &mut Vec<Gain>) -> bool {
    let own = changes.iter().find(|change| change.scheme == OWN_HINTS);
    let Some(own) = own.and_then(|own| own.flash_saved) else { return false };
    let before = changes.len();
    changes.retain(|change| {
        let saves_more = change.flash_saved.is_some_and(|saved| saved >= own + LEAST_GAIN);
        change.change != SET_HINTS || (saves_more && !change.steps.is_empty())
    });
    changes.len() < before
}
