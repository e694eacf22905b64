//! The verdict: what a run means, in a few sentences that an engineer can act on.
//!
//! Idea: compare `baseline` on a drive without streams with PCStream on a drive with internal streams (FAST'19,
//! Fig. 10), or with the best scheme there is that does not know the future; say what that is in flash and in
//! drive life, whether it matters, and how far the run is from a steady answer. Internal streams keep copies apart
//! whatever the host does (FAST'19, 6.5), so `baseline` on that drive says what of it the host's streams are worth.
//! A legacy multi-stream SSD has no such help, so the host's streams may be worth having on one of the two alone. Then
//! both are said.
//!
//! Units: flash in bytes; WAF over the whole run, the prefill excluded. Life is the inverse ratio of the pages
//! programmed: a drive wears with every program.
//!
//! A trace whose writes have no contexts (most imported ones) says nothing about schemes that go by context: then the
//! verdict is about the best scheme that used streams at all.
//!
//! Weakness: flash per day is that of the traced time, at its rate; a benchmark writes faster than a service.

use pcstream_replay::LaneResult;
use pcstream_ssd::GcDestination;
use pcstream_trace::PAGE_BYTES;
use serde::Serialize;

use crate::Simulation;
use crate::drive::{LEAST_GAIN, baseline_of, in_words, is_worth, reference, result_in_words, saved};
use crate::human::{bytes, percent, ratio};

/// The schemes that reports recommend: of those that ran, the one with the least flash.
const RECOMMENDED: [&str; 2] = ["pcstream-plus", "pcstream"];

/// What is said of traces without contexts.
const NO_CONTEXTS: &str = "No write of this trace has a program context, so it cannot show what streams by call path (pcstream) would save.";

/// Savings from which streams are said to be worth it; from `LEAST_GAIN` on they help a little.
const WORTH_IT: f64 = 0.05;
/// Less than this is 0 as it is shown.
const SHOWN: f64 = 0.00005;

/// Rounds of as many writes as the device has pages that a steady state takes at least (`steady_state`).
const STEADY_ROUNDS: u64 = 5;

/// Shortest traced time that a day is made of.
const SHORTEST_NS: u64 = 1_000_000_000;

/// Whether streams would help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Matters {
    /// They save 5 % of the flash or more, on the drive of `with_streams` or on a legacy multi-stream SSD.
    Yes,
    /// They save 1 to 5 %.
    Little,
    /// They save less than 1 %.
    No,
    /// Nothing can be said: nothing was written, GC never ran, or there is nothing to compare.
    Unknown,
}

/// One side of the comparison.
#[derive(Clone, Debug, Serialize)]
pub struct SideJson {
    /// Name of the scheme.
    pub scheme: String,
    /// `own`, `internal` or `shared`.
    pub gc_destination: String,
    /// The kind of drive in words.
    pub drive: String,
    /// Flash pages / host pages.
    pub waf: Option<f64>,
    /// The same in the steady part.
    pub steady_waf: Option<f64>,
    /// Programmed in this run.
    pub flash_bytes: u64,
    /// Programmed in a day at the rate of this run; null if its times say nothing.
    pub flash_bytes_per_day: Option<u64>,
}

/// What a run means.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// The verdict as sentences.
    pub sentences: Vec<String>,
    /// Whether streams would help.
    pub matters: Matters,
    /// The drive as it is: `baseline` without streams; null if it was not simulated.
    pub now: Option<SideJson>,
    /// What is recommended; null if no scheme but `baseline` was simulated.
    pub with_streams: Option<SideJson>,
    /// `baseline` on the drive of `with_streams`, which may keep copies apart by itself; null if it was not simulated, or
    /// is `now`.
    pub same_drive: Option<SideJson>,
    /// What is recommended on a legacy multi-stream SSD; null if `with_streams` is on one, or none was simulated.
    pub on_legacy_drive: Option<SideJson>,
    /// The same of the recommended schemes that place by program context alone: what `pcstream place` can do for real
    /// writes; null if none was simulated.
    pub real_writes: Option<SideJson>,
    /// The least flash of all schemes that know the future; null if none was simulated. No proof says that it cannot be less.
    pub best_foreseeing: Option<SideJson>,
    /// Flash that streams save, as a share of today's.
    pub flash_saved: Option<f64>,
    /// Flash that they save, as a share of that of `same_drive`: what the host's streams alone are worth.
    pub flash_saved_on_same_drive: Option<f64>,
    /// Flash that `on_legacy_drive` saves, as a share of today's.
    pub flash_saved_on_legacy_drive: Option<f64>,
    /// How many times as long the drive lives with streams.
    pub life_ratio: Option<f64>,
    /// Whether both sides reached a steady state.
    pub steady: bool,
    /// Bytes that the host has to write at least until they can; 0 if they have.
    pub bytes_to_steady: u64,
}

impl Verdict {
    /// Judges a simulation.
    pub fn of(simulation: &Simulation) -> Verdict {
        let lanes = &simulation.results;
        let unknown = simulation.writers.are_unknown();
        let compared = Compared::of(lanes, unknown);
        let flash_saved = compared.now.zip(compared.with).and_then(|(now, with)| saved(with, now));
        let bytes_to_steady = compared.both().map(pages_to_steady).max().unwrap_or(0) * PAGE_BYTES;
        let day = seconds(simulation);
        let side = |lane: Option<&LaneResult>| lane.map(|lane| side(lane, day));
        let mut verdict = Verdict {
            sentences: Vec::new(),
            matters: compared.matters(flash_saved),
            now: side(compared.now),
            with_streams: side(compared.with),
            same_drive: side(compared.same_drive),
            on_legacy_drive: side(compared.legacy),
            real_writes: side(compared.real),
            best_foreseeing: side(compared.best_foreseeing),
            flash_saved,
            flash_saved_on_same_drive: compared.saved_on_same_drive(),
            flash_saved_on_legacy_drive: compared.saved_on_legacy_drive(),
            life_ratio: flash_saved.map(|saved| 1.0 / (1.0 - saved)),
            steady: bytes_to_steady == 0,
            bytes_to_steady,
        };
        verdict.sentences = sentences(&verdict, lanes, &compared, unknown);
        verdict
    }
}

/// The results that a verdict is about.
struct Compared<'a> {
    now: Option<&'a LaneResult>,
    with: Option<&'a LaneResult>,
    same_drive: Option<&'a LaneResult>,
    legacy: Option<&'a LaneResult>,
    real: Option<&'a LaneResult>,
    best_foreseeing: Option<&'a LaneResult>,
}

impl<'a> Compared<'a> {
    fn of(lanes: &'a [LaneResult], unknown: bool) -> Compared<'a> {
        let (now, with) = (reference(lanes), with_streams(lanes, unknown));
        let same_drive = with.and_then(|with| baseline_of(lanes, with.settings.gc_destination));
        let foreseeing = lanes.iter().filter(|lane| lane.knows_future);
        Compared {
            now,
            with,
            same_drive: same_drive.filter(|same| now.is_some_and(|now| !std::ptr::eq(*same, now))),
            legacy: with.filter(|with| !is_legacy(with)).and_then(|_| best_of(lanes, unknown, is_legacy)),
            real: if unknown { None } else { recommended(lanes, |lane| lane.by_context) },
            best_foreseeing: foreseeing.min_by_key(|lane| lane.flash_pages()),
        }
    }

    /// The two sides of the comparison.
    fn both(&self) -> impl Iterator<Item = &'a LaneResult> {
        self.now.into_iter().chain(self.with)
    }

    fn matters(&self, saved: Option<f64>) -> Matters {
        let most = saved.map(|saved| self.saved_on_legacy_drive().map_or(saved, |legacy| legacy.max(saved)));
        match most {
            Some(_) if self.both().all(says_nothing) => Matters::Unknown,
            Some(saved) if saved >= WORTH_IT => Matters::Yes,
            Some(saved) if saved >= LEAST_GAIN => Matters::Little,
            Some(_) => Matters::No,
            None => Matters::Unknown,
        }
    }

    fn saved_on_same_drive(&self) -> Option<f64> {
        saved(self.with?, self.same_drive?)
    }

    fn saved_on_legacy_drive(&self) -> Option<f64> {
        saved(self.legacy?, self.now.filter(|now| is_legacy(now))?)
    }
}

/// Whether too little was written to say anything: nothing was copied, and until the flash has been written once,
/// victims may be what was there before.
pub(crate) fn says_nothing(lane: &LaneResult) -> bool {
    lane.counters.gc_pages == 0
        && (lane.counters.erases == 0 || lane.host_pages() < lane.geometry.physical_pages())
}

/// The recommended scheme with internal streams; else on any drive; else the best that does not know the future. Where
/// the writers are unknown, the best that used a stream.
pub(crate) fn with_streams(lanes: &[LaneResult], unknown: bool) -> Option<&LaneResult> {
    best_of(lanes, unknown, |_| true)
}

/// The same among the lanes that are `eligible`.
fn best_of(lanes: &[LaneResult], unknown: bool, eligible: fn(&LaneResult) -> bool) -> Option<&LaneResult> {
    let online = || online(lanes).filter(|lane| eligible(lane));
    if unknown {
        let used_streams = |lane: &&LaneResult| lane.default_stream_share().is_some_and(|share| share < 1.0);
        return online().filter(used_streams).min_by_key(|lane| lane.flash_pages());
    }
    recommended(lanes, eligible).or_else(|| online().min_by_key(|lane| lane.flash_pages()))
}

/// Whether a drive copies into the streams of the host, as a legacy multi-stream SSD does.
fn is_legacy(lane: &LaneResult) -> bool {
    lane.settings.gc_destination == GcDestination::Own
}

/// Of the recommended schemes among the lanes that are `eligible`, the one with the least flash: with internal streams, or
/// else on any drive.
fn recommended(lanes: &[LaneResult], eligible: impl Fn(&LaneResult) -> bool) -> Option<&LaneResult> {
    let of = |internal: bool| {
        let is_internal = |lane: &LaneResult| lane.settings.gc_destination == GcDestination::Internal;
        let lanes = lanes.iter().filter(|lane| RECOMMENDED.contains(&lane.scheme.as_str()) && eligible(lane));
        lanes.filter(|lane| is_internal(lane) == internal).min_by_key(|lane| lane.flash_pages())
    };
    of(true).or_else(|| of(false))
}

/// The least flash without knowing the future.
fn best_online(lanes: &[LaneResult]) -> Option<&LaneResult> {
    online(lanes).min_by_key(|lane| lane.flash_pages())
}

/// All but `baseline` that do not know the future.
fn online(lanes: &[LaneResult]) -> impl Iterator<Item = &LaneResult> {
    lanes.iter().filter(|lane| lane.scheme != "baseline" && !lane.knows_future)
}

/// Host pages until a steady state can be detected at the earliest.
fn pages_to_steady(lane: &LaneResult) -> u64 {
    let round = lane.geometry.logical_pages();
    match lane.host_pages() {
        _ if lane.steady.is_some() => 0,
        written if written < STEADY_ROUNDS * round => STEADY_ROUNDS * round - written,
        written => round - written % round,
    }
}

/// Traced seconds, where they are those of a real program.
fn seconds(simulation: &Simulation) -> Option<f64> {
    let duration = simulation.writers.totals().duration_ns;
    (simulation.about.trace.real_time && duration >= SHORTEST_NS).then_some(duration as f64 / 1e9)
}

fn side(lane: &LaneResult, seconds: Option<f64>) -> SideJson {
    let flash_bytes = lane.flash_pages() * PAGE_BYTES;
    SideJson {
        scheme: lane.scheme.to_owned(),
        gc_destination: lane.settings.gc_destination.to_string(),
        drive: in_words(lane.settings.gc_destination).to_owned(),
        waf: lane.waf(),
        steady_waf: lane.steady_waf(),
        flash_bytes,
        flash_bytes_per_day: seconds.map(|seconds| (flash_bytes as f64 * 86_400.0 / seconds) as u64),
    }
}

fn sentences(verdict: &Verdict, lanes: &[LaneResult], compared: &Compared<'_>, unknown: bool) -> Vec<String> {
    if lanes.iter().all(|lane| lane.host_pages() == 0) {
        return vec!["The host wrote nothing: there is no WAF.".to_owned()];
    }
    let Some(now) = compared.now else {
        return vec!["Nothing to compare with: add baseline to --scheme for a verdict.".to_owned()];
    };
    let mut out = vec![format!("WAF now: {} ({}).", ratio(now.waf()), result_in_words(now))];
    out.extend(unknown.then(|| NO_CONTEXTS.to_owned()));
    let Some(with) = compared.with else {
        let (scheme, what) =
            if unknown { ("autostream-sfr", "streams by address") } else { ("pcstream", "streams") };
        out.push(format!("Add {scheme} to --scheme to see what {what} would save."));
        return out;
    };
    out.push(comparison(with, now));
    out.extend(of_the_host(verdict, compared));
    out.extend(on_legacy_drive(verdict, compared));
    out.extend(flash(verdict));
    out.push(on_one_drive(verdict, compared).unwrap_or_else(|| whether(verdict, now, with)));
    let helps = |lane: &&LaneResult| saved(lane, now).is_some_and(|saved| saved >= LEAST_GAIN);
    let real = compared.real.filter(|real| helps(real) && !std::ptr::eq(*real, with));
    if let Some(real) = real {
        let (waf, what) = (ratio(real.waf()), result_in_words(real));
        out.push(format!("For real writes (pcstream place): {waf} ({what})."));
    }
    out.extend(best(lanes, with, real));
    out.extend(compared.best_foreseeing.map(|oracle| {
        format!("Best of the schemes that know the future: {} ({}).", ratio(oracle.waf()), oracle.scheme)
    }));
    out.extend(steadiness(verdict, now, with));
    out
}

/// What is due to the drive, which keeps copies apart, and what to streams of the host.
fn of_the_host(verdict: &Verdict, compared: &Compared<'_>) -> Option<String> {
    let (same, saved) = (compared.same_drive?, verdict.flash_saved_on_same_drive?);
    if verdict.matters == Matters::Unknown {
        return None;
    }
    let worth = match saved {
        saved if saved >= LEAST_GAIN => format!("the host's streams save another {}", percent(saved)),
        saved if saved >= SHOWN => format!("the host's streams save only another {}", percent(saved)),
        saved if saved <= -SHOWN => format!("the host's streams cost {} more", percent(-saved)),
        _ => "the host's streams add nothing to that".to_owned(),
    };
    Some(format!("Of this, the drive alone gives {} (baseline there); {worth}.", ratio(same.waf())))
}

/// What the host's streams do to a drive without internal streams, where another decision follows from it.
fn on_legacy_drive(verdict: &Verdict, compared: &Compared<'_>) -> Option<String> {
    let (legacy, now) = (compared.legacy?, compared.now?);
    worth_on_one_drive(verdict)?;
    let (waf, scheme) = (ratio(legacy.waf()), &legacy.scheme);
    Some(format!("WAF with streams on a legacy multi-stream SSD: {waf} ({scheme}): {}.", less(legacy, now)))
}

/// The one kind of drive on which the host's streams are worth an effort.
#[derive(Clone, Copy)]
enum Only {
    Legacy,
    /// That of `with_streams`.
    Other,
}

/// `None`: they are worth it on both, or on neither, or one of them is not known.
fn worth_on_one_drive(verdict: &Verdict) -> Option<Only> {
    if verdict.matters == Matters::Unknown {
        return None;
    }
    let on_same_drive = Some(verdict.flash_saved_on_same_drive?);
    let on_legacy_drive = Some(verdict.flash_saved_on_legacy_drive?);
    match (is_worth(on_legacy_drive, None), is_worth(verdict.flash_saved, on_same_drive)) {
        (true, false) => Some(Only::Legacy),
        (false, true) => Some(Only::Other),
        _ => None,
    }
}

fn on_one_drive(verdict: &Verdict, compared: &Compared<'_>) -> Option<String> {
    let drive = in_words(compared.with?.settings.gc_destination);
    let alone = compared.same_drive.zip(compared.now).and_then(|(same, now)| saved(same, now));
    Some(match worth_on_one_drive(verdict)? {
        Only::Legacy if alone.is_some_and(|saved| saved >= LEAST_GAIN) => format!(
            "Either of two helps here: streams of the host on a legacy multi-stream SSD, or {drive} without streams of \
             the host."
        ),
        Only::Legacy => {
            format!("Streams of the host help here on a legacy multi-stream SSD, but not on {drive}.")
        }
        Only::Other => {
            format!("Streams of the host help here on {drive}, but not on a legacy multi-stream SSD.")
        }
    })
}

fn comparison(with: &LaneResult, now: &LaneResult) -> String {
    format!("WAF with streams: {} ({}): {}.", ratio(with.waf()), result_in_words(with), less(with, now))
}

/// How much less flash than now.
fn less(lane: &LaneResult, now: &LaneResult) -> String {
    match saved(lane, now).unwrap_or(0.0) {
        s if s >= SHOWN => format!("{} less flash, drive life x {:.2}", percent(s), 1.0 / (1.0 - s)),
        s if s <= -SHOWN => format!("{} more flash, drive life x {:.2}", percent(-s), 1.0 / (1.0 - s)),
        _ => "no less flash".to_owned(),
    }
}

fn flash(verdict: &Verdict) -> Option<String> {
    let (now, with) = (verdict.now.as_ref()?, verdict.with_streams.as_ref()?);
    let run = format!("This run: {} of flash instead of {}", bytes(with.flash_bytes), bytes(now.flash_bytes));
    Some(match (now.flash_bytes_per_day, with.flash_bytes_per_day) {
        (Some(now), Some(with)) => {
            format!("{run}; at its rate {} a day instead of {}.", bytes(with), bytes(now))
        }
        _ => format!("{run}."),
    })
}

fn whether(verdict: &Verdict, now: &LaneResult, with: &LaneResult) -> String {
    let full = percent(now.live_pages as f64 / now.geometry.physical_pages() as f64);
    let by_host = verdict.flash_saved_on_same_drive.is_none_or(|saved| saved >= LEAST_GAIN);
    match verdict.matters {
        Matters::Yes | Matters::Little if !by_host => {
            "A drive that keeps copies apart helps here; streams of the host do not.".to_owned()
        }
        Matters::Yes => "Streams are worth it here.".to_owned(),
        Matters::Little => "Streams would help a little here.".to_owned(),
        Matters::Unknown => {
            let left = u64::from(now.free_superblocks) * u64::from(now.geometry.superblock_pages());
            let why = match now.counters.erases {
                0 => "the drive never had to collect garbage",
                _ => "the flash was not written once, so what was there before may be all that was erased",
            };
            let left = left.max(now.geometry.physical_pages().saturating_sub(now.host_pages()));
            format!(
                "Nothing can be said yet: {why}. Write {} more, or fill the drive more (--prefill), or give it less \
                 --spare-factor.",
                bytes(left * PAGE_BYTES)
            )
        }
        Matters::No if with.flash_pages() > now.flash_pages() => {
            "Streams as this scheme chooses them do not help here.".to_owned()
        }
        Matters::No if now.waf().is_some_and(|waf| waf < 1.05) => format!(
            "Streams would save next to nothing: live data fill only {full} of the flash, so there is little to copy."
        ),
        Matters::No => {
            format!("Streams would save next to nothing here ({full} of the flash holds live data).")
        }
    }
}

/// What does better than the recommendation by more than a percent, if it was not said yet.
fn best(lanes: &[LaneResult], with: &LaneResult, said: Option<&LaneResult>) -> Option<String> {
    let better = |lane: &&LaneResult| saved(lane, with).is_some_and(|saved| saved >= LEAST_GAIN);
    let best = best_online(lanes).filter(|best| !said.is_some_and(|said| std::ptr::eq(*best, said)));
    best.filter(better)
        .map(|best| format!("Better still: {} ({}).", ratio(best.waf()), result_in_words(best)))
}

fn steadiness(verdict: &Verdict, now: &LaneResult, with: &LaneResult) -> Option<String> {
    if verdict.steady || verdict.matters == Matters::Unknown {
        return None;
    }
    Some(format!(
        "Not steady yet (in the last part of the run {} now, {} with streams): write at least {} more for a steady answer.",
        ratio(now.steady_waf()),
        ratio(with.steady_waf()),
        bytes(verdict.bytes_to_steady),
    ))
}
