//! The verdict: what a run means, first in one or two sentences that an engineer can act on.
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

use crate::drive::{LEAST_GAIN, baseline_of, in_words, reference, saved};
use crate::{About, Simulation};

mod words;

pub use words::{ONE_STREAM, another};

/// The schemes that reports recommend: of those that ran, the one with the least flash.
const RECOMMENDED: [&str; 3] = ["pcstream-plus", "pcstream", "pcstream-plus-context"];

/// Savings from which streams are said to be worth it; from `LEAST_GAIN` on they help a little.
const WORTH_IT: f64 = 0.05;

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

pcstream_trace::named!(Matters: Yes = "yes", Little = "little", No = "no", Unknown = "unknown");

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
    /// The conclusion, which is one or two sentences, and then one more sentence each.
    pub sentences: Vec<String>,
    /// Whether streams would help.
    pub matters: Matters,
    /// The drive as it is: `baseline` without streams; null if it was not simulated.
    pub now: Option<SideJson>,
    /// What is recommended; null if no scheme but `baseline` was simulated, or the device has one stream.
    pub with_streams: Option<SideJson>,
    /// `baseline` on the drive of `with_streams`, which may keep copies apart by itself; null if it was not simulated, or
    /// is `now`.
    pub same_drive: Option<SideJson>,
    /// What is recommended on a legacy multi-stream SSD; null if `with_streams` is on one, or none was simulated.
    pub on_legacy_drive: Option<SideJson>,
    /// The same of the recommended schemes that place by program context alone: what `pcstream place` can do for real
    /// writes; null if none was simulated, or the device has one stream.
    pub real_writes: Option<SideJson>,
    /// The least flash of all schemes that know the future; null if none was simulated. No proof says that it cannot be less.
    pub best_foreseeing: Option<SideJson>,
    /// Flash that streams save, as a share of today's.
    pub flash_saved: Option<f64>,
    /// Flash that they save, as a share of that of `same_drive`: what the host's streams alone are worth.
    pub flash_saved_on_same_drive: Option<f64>,
    /// Flash that `on_legacy_drive` saves, as a share of today's.
    pub flash_saved_on_legacy_drive: Option<f64>,
    /// How many times as long the drive lives with streams, if programs wear it: 1 / (1 - `flash_saved`).
    pub life_ratio: Option<f64>,
    /// Whether `now`, `with_streams` and `on_legacy_drive` reached a steady state.
    pub steady: bool,
    /// Bytes that the host has to write until they do, if their WAF stays as at the end; 0 if they did.
    pub bytes_to_steady: u64,
}

impl Verdict {
    /// Judges a simulation.
    pub fn of(simulation: &Simulation) -> Verdict {
        let lanes = &simulation.results;
        let unknown = simulation.writers.are_unknown();
        let compared = Compared::of(lanes, unknown);
        let flash_saved = compared.now.zip(compared.with).and_then(|(now, with)| saved(with, now));
        let sides = compared.both().chain(compared.legacy);
        let bytes_to_steady = sides.map(|lane| lane.pages_to_steady).max().unwrap_or(0) * PAGE_BYTES;
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
        let About { trace, settings, .. } = &simulation.about;
        let trace = match (settings.pack.or(settings.pack_live), trace.path.as_str()) {
            (Some(_), _) => words::Trace::Packed,
            (None, "") => words::Trace::NotKept,
            (None, _) => words::Trace::Kept,
        };
        verdict.sentences = words::sentences(&verdict, lanes, &compared, (unknown, trace));
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
        // With one stream all schemes do the same, so it shows nothing of streams.
        let with = with_streams(lanes, unknown).filter(|with| with.geometry.streams() > 1);
        let now = reference(lanes);
        let same_drive = with.and_then(|with| baseline_of(lanes, with.settings.gc_destination));
        let foreseeing = lanes.iter().filter(|lane| lane.knows_future);
        Compared {
            now,
            with,
            same_drive: same_drive.filter(|same| now.is_some_and(|now| !std::ptr::eq(*same, now))),
            legacy: with.filter(|with| !is_legacy(with)).and_then(|_| best_of(lanes, unknown, is_legacy)),
            real: with.filter(|_| !unknown).and_then(|_| recommended(lanes, |lane| lane.by_context)),
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
pub fn says_nothing(lane: &LaneResult) -> bool {
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
        return least_flash(online().filter(used_streams));
    }
    recommended(lanes, eligible).or_else(|| least_flash(online()))
}

/// Of the recommended schemes among the lanes that are `eligible`.
fn recommended(lanes: &[LaneResult], eligible: fn(&LaneResult) -> bool) -> Option<&LaneResult> {
    let is_recommended = |lane: &&LaneResult| RECOMMENDED.contains(&lane.scheme.as_str()) && eligible(lane);
    least_flash(lanes.iter().filter(is_recommended))
}

/// The one with the least flash: with internal streams, or else on any drive.
fn least_flash<'a>(lanes: impl Iterator<Item = &'a LaneResult> + Clone) -> Option<&'a LaneResult> {
    let internal = lanes.clone().filter(|lane| lane.settings.gc_destination == GcDestination::Internal);
    internal.min_by_key(|lane| lane.flash_pages()).or_else(|| lanes.min_by_key(|lane| lane.flash_pages()))
}

/// Whether a drive copies into the streams of the host, as a legacy multi-stream SSD does.
fn is_legacy(lane: &LaneResult) -> bool {
    lane.settings.gc_destination == GcDestination::Own
}

/// All but `baseline` that do not know the future.
fn online(lanes: &[LaneResult]) -> impl Iterator<Item = &LaneResult> + Clone {
    lanes.iter().filter(|lane| lane.scheme != "baseline" && !lane.knows_future)
}

/// Traced seconds, where they are those of a real program.
pub(crate) fn seconds(simulation: &Simulation) -> Option<f64> {
    let duration = simulation.traced_ns();
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
