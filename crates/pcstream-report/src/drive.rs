//! What kinds of SSD the GC destinations stand for, in words, and which result others are compared with.

use pcstream_replay::LaneResult;
use pcstream_ssd::GcDestination;

/// The least share of the flash whose saving is worth an effort, or a word.
pub const LEAST_GAIN: f64 = 0.01;

/// Whether streams of the host are worth an effort on a drive: what they save there against a drive without streams, and
/// what of it the drive does not save by itself. The second is none where the drive is the reference itself.
pub fn is_worth(saved: Option<f64>, saved_on_same_drive: Option<f64>) -> bool {
    let is_enough = |saved: f64| saved >= LEAST_GAIN;
    saved.is_some_and(is_enough) && saved_on_same_drive.is_none_or(is_enough)
}

/// The kind of drive, as a sentence names it.
pub fn in_words(destination: GcDestination) -> &'static str {
    match destination {
        GcDestination::Own => "a legacy multi-stream SSD",
        GcDestination::Internal => "an SSD with internal streams or FDP persistently isolated handles",
        GcDestination::Shared => "an FDP SSD with initially isolated handles",
    }
}

/// The kind of drive above a column: lines of at most 17 characters.
pub(crate) fn column_head(destination: GcDestination) -> [&'static str; 2] {
    match destination {
        GcDestination::Own => ["legacy", "multi-stream SSD"],
        GcDestination::Internal => ["internal streams,", "FDP persistent"],
        GcDestination::Shared => ["FDP initially", "isolated"],
    }
}

/// A result in words: `baseline on a legacy multi-stream SSD, which is a drive without streams`.
pub fn result_in_words(lane: &LaneResult) -> String {
    let destination = lane.settings.gc_destination;
    match lane.scheme.as_str() {
        "baseline" if destination == GcDestination::Own => "baseline on a drive without streams".to_owned(),
        scheme => format!("{scheme} on {}", in_words(destination)),
    }
}

/// What results are compared with: `baseline` on a drive without streams (GC destination `own`), or else the
/// first `baseline` there is.
pub fn reference(lanes: &[LaneResult]) -> Option<&LaneResult> {
    let baselines = || lanes.iter().filter(|lane| lane.scheme == "baseline");
    baselines().find(|lane| lane.settings.gc_destination == GcDestination::Own).or_else(|| baselines().next())
}

/// The result of `baseline` with this GC destination.
pub(crate) fn baseline_of(lanes: &[LaneResult], destination: GcDestination) -> Option<&LaneResult> {
    lanes.iter().find(|lane| lane.scheme == "baseline" && lane.settings.gc_destination == destination)
}

/// How much less flash `lane` programs than `reference`, as a share; negative if it programs more. `None`
/// when the reference programmed nothing.
pub fn saved(lane: &LaneResult, reference: &LaneResult) -> Option<f64> {
    let of = reference.flash_pages();
    (of > 0).then(|| 1.0 - lane.flash_pages() as f64 / of as f64)
}
