//! The result in one or two sentences that its reader can act on: what garbage collection costs now, what streams would
//! save, and whether either number deserves trust.
//!
//! Known weakness: it judges what was replayed; the drive of the reader may be larger, emptier or busier.

use pcstream_replay::LaneResult;

use crate::human::{page_bytes, percent, ratio};
use crate::{Simulation, baseline_of};

/// Below this baseline WAF there is next to nothing that streams could save.
const MATTERS: f64 = 1.05;
/// A device that was written less often than this, prefill included, has hardly collected garbage.
const FULL_TURNS: f64 = 1.5;

/// The verdict, a sentence or two; none without a `baseline` or another scheme that could run on a drive.
pub fn text(simulation: &Simulation) -> Option<String> {
    let best = best_online(&simulation.results)?;
    let baseline = baseline_of(&simulation.results, best.settings.gc_destination)?;
    let waf = baseline.waf()?;
    let written = simulation.writers.totals().host_pages;
    let turns = (written + baseline.prefill_pages) as f64 / baseline.geometry.logical_pages() as f64;
    let mut out = if baseline.counters.gc_pages == 0 || waf < MATTERS {
        format!(
            "Without streams the drive would copy next to nothing (WAF {}): streams save nothing worth having here. \
             They begin to matter on a fuller drive or one with less spare flash.",
            ratio(Some(waf))
        )
    } else {
        worth(baseline, best, waf) + &without_rules(simulation, baseline, best)
    };
    if turns < FULL_TURNS {
        out += &format!(
            " Only {} were written to {}: record more before you rely on this.",
            page_bytes(written),
            page_bytes(baseline.geometry.logical_pages()),
        );
    }
    Some(out)
}

/// What the best scheme would save.
fn worth(baseline: &LaneResult, best: &LaneResult, waf: f64) -> String {
    let flash = |lane: &LaneResult| lane.flash_pages() as f64;
    let saved = 1.0 - flash(best) / flash(baseline);
    if saved < 0.01 {
        return format!(
            "Without streams the drive writes {} times what the programs write (WAF), and no scheme saves 1 % of it.",
            ratio(Some(waf))
        );
    }
    format!(
        "Without streams the drive writes {} times what the programs write (WAF). With {} streams placed by {} it is \
         {}: {} less flash, so the drive lasts {:.2} times as long; {} fewer are copied per GiB that is written.",
        ratio(Some(waf)),
        best.geometry.streams(),
        best.scheme,
        ratio(best.waf()),
        percent(saved),
        flash(baseline) / flash(best),
        page_bytes(copies_per_gib(baseline).saturating_sub(copies_per_gib(best))),
    )
}

/// What PCStream would save, which needs neither rules nor changes, if another scheme is the best.
fn without_rules(simulation: &Simulation, baseline: &LaneResult, best: &LaneResult) -> String {
    let same_device = |lane: &&LaneResult| {
        lane.scheme == "pcstream" && lane.settings.gc_destination == best.settings.gc_destination
    };
    match simulation.results.iter().find(same_device) {
        Some(lane) if lane.scheme != best.scheme => format!(
            " By call path alone (pcstream), without rules or changes to programs, it is {}: {} less flash.",
            ratio(lane.waf()),
            percent((1.0 - lane.flash_pages() as f64 / baseline.flash_pages() as f64).max(0.0)),
        ),
        _ => String::new(),
    }
}

/// The scheme that needs no knowledge of the future and writes the least flash against `baseline` on the same device.
fn best_online(lanes: &[LaneResult]) -> Option<&LaneResult> {
    let rivals = lanes.iter().filter(|lane| !lane.knows_future && lane.scheme != "baseline");
    let share = |lane: &LaneResult| {
        let baseline = baseline_of(lanes, lane.settings.gc_destination)?;
        (baseline.flash_pages() > 0).then(|| lane.flash_pages() as f64 / baseline.flash_pages() as f64)
    };
    rivals
        .filter_map(|lane| Some((lane, share(lane)?)))
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(lane, _)| lane)
}

/// Pages that garbage collection copies for each GiB that the host writes.
fn copies_per_gib(lane: &LaneResult) -> u64 {
    let host_pages = lane.host_pages();
    if host_pages == 0 { 0 } else { (lane.counters.gc_pages as f64 / host_pages as f64 * 262_144.0) as u64 }
}
