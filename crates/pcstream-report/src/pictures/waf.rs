//! WAF by scheme, with the oracle's line; WAF over the run.

use pcstream_replay::{LaneResult, Progress};
use pcstream_trace::PAGE_BYTES;

use super::axis::Quantity;
use super::chart::Chart;
use super::look::{FIRST, Legend, Look, drive_keys, keys};
use super::svg::Svg;
use super::{Curve, Figure, Material, Window, curves};
use crate::csv;
use crate::drive::{in_words, reference};
use crate::human::{page_bytes, ratio};
use crate::layout::{clipped, columns_of};
use crate::schemes::{destinations, grid};
use crate::verdict::with_streams;

/// Characters of the name of a scheme in a narrow window.
const LABEL: usize = 24;
const ROW: f64 = 18.0;
const RIGHT: f64 = 60.0;
const TOP: f64 = 30.0;
/// Axes of WAF are at least as long, so that noise does not look like mountains.
const LEAST_SPAN: f64 = 0.05;

/// Bars from 1 on, one per scheme and kind of drive.
pub fn by_scheme(material: &Material) -> Figure {
    let lanes = material.lanes();
    let rows = lanes.iter().map(|lane| {
        let (waf, steady) = (csv::option(lane.waf()), csv::option(lane.steady_waf()));
        let flash = lane.flash_pages().to_string();
        [lane.scheme.to_owned(), lane.settings.gc_destination.to_string(), waf, steady, flash]
    });
    Figure {
        title: "Write amplification by scheme",
        note: "Flash pages programmed for each page that the host wrote; bars begin at 1, the least there can be. \
               The dashed line is the least that a scheme reaches which knows when every page dies. A legacy \
               multi-stream SSD with baseline is a drive without streams."
            .to_owned(),
        svg: bars(lanes, Window::Wide),
        narrow: bars(lanes, Window::Narrow),
        csv: csv::table(&["scheme", "gc_destination", "waf", "steady_waf", "flash_pages"], rows),
    }
}

/// The picture; empty without a WAF.
fn bars(lanes: &[LaneResult], window: Window) -> String {
    let drives = destinations(lanes);
    let wafs = || lanes.iter().filter_map(LaneResult::waf);
    let Some(most) = wafs().max_by(f64::total_cmp) else { return String::new() };
    let ticks = Quantity::Waf.ticks(1.0, most.max(1.0 + LEAST_SPAN), window.pick(5, 4));
    let span = ticks.last().map_or(most, |(tick, _)| *tick) - 1.0;
    let rows = grid(lanes);
    // A character has at most 7 units.
    let longest = rows.iter().map(|row| columns_of(row.scheme).min(LABEL)).max().unwrap_or(0);
    let (left, width) = (window.pick(150.0, 12.0 + 7.0 * longest as f64), window.width());
    let x_at = |waf: f64| left + (waf - 1.0) / span * (width - left - RIGHT);
    let block = ROW * drives.len() as f64 + 6.0;
    let bottom = TOP + block * rows.len() as f64;
    let drive_keys = drive_keys(drives.iter().copied());
    let legend = Legend::new(&drive_keys, window.legend_left(left), width);
    let mut svg = Svg::new(width, bottom + 42.0 + legend.height(), "WAF by scheme");
    for (tick, text) in ticks {
        svg.line("axis", &[(x_at(tick), TOP - 6.0), (x_at(tick), bottom)]);
        svg.text("dim mid", x_at(tick), bottom + 14.0, &text);
    }
    svg.text("dim mid", (left + width - RIGHT) / 2.0, bottom + 30.0, Quantity::Waf.name());
    for (index, row) in rows.iter().enumerate() {
        let (scheme, top) = (row.scheme, TOP + block * index as f64);
        let label = window.pick(scheme.to_owned(), clipped(scheme, LABEL));
        svg.text("end", left - 8.0, top + block / 2.0, &label);
        for lane in &row.lanes {
            let on = lane.settings.gc_destination;
            let drive = drives.iter().position(|d| *d == on).unwrap_or(0);
            let Some(waf) = lane.waf() else { continue };
            let (y, tip) = (top + ROW * drive as f64, format!("{scheme} on {}: WAF {waf:.4}", in_words(on)));
            let bar = [left, y, (x_at(waf) - left).max(1.5), ROW - 3.0];
            svg.rect(&Look::of(scheme, on).bar(), bar, &tip);
            svg.text("dim", x_at(waf) + 6.0, y + 12.0, &ratio(lane.waf()));
        }
    }
    let foreseeing = lanes.iter().filter(|lane| lane.knows_future);
    if let Some(waf) = foreseeing.filter_map(LaneResult::waf).min_by(f64::total_cmp) {
        svg.line("mark", &[(x_at(waf), TOP - 6.0), (x_at(waf), bottom)]);
        let middle = x_at(waf).clamp(60.0, width - 60.0);
        svg.text("dim mid", middle, TOP - 10.0, "knowing the future");
    }
    legend.draw(&mut svg, bottom + 38.0, true);
    svg.finish()
}

/// WAF of parts of the run: lines of the drive that the verdict is about, and `baseline` on the drive that all are
/// compared with.
pub fn over_run(material: &Material) -> Figure {
    let lanes = material.lanes();
    let curve = |lane: &LaneResult| Curve {
        scheme: lane.scheme.clone(),
        drive: lane.settings.gc_destination,
        points: windows(lane),
    };
    let shown: Vec<Curve> = shown(lanes, material.simulation.writers.are_unknown()).map(curve).collect();
    let chart = Chart {
        title: "WAF over the run",
        x_label: "written by the host",
        x: Quantity::Pages,
        y: Quantity::Waf,
        y_from: 1.0,
        y_least: 0.01,
        dots: false,
        lines: shown.iter().map(curves::line).collect(),
        keys: keys(shown.iter().map(|curve| (curve.scheme.as_str(), curve.drive))),
    };
    let left_out = match lanes.len() - shown.len() {
        0 => String::new(),
        more => {
            format!(" {more} of {} results are left out; the numbers (--csv) have them all.", lanes.len())
        }
    };
    let part = shown.first().and_then(|curve| curve.points.first()).map_or(0.0, |(pages, _)| *pages);
    Figure {
        title: "Write amplification over the run",
        note: format!(
            "Each point is the WAF of what was written since the point before: {}, for the last point all of the \
             rest. A line that still rises or falls at the end has no steady answer yet.{left_out}",
            page_bytes(part as u64)
        ),
        svg: chart.draw(Window::Wide),
        narrow: chart.draw(Window::Narrow),
        csv: over_run_numbers(lanes),
    }
}

/// Baseline on the drive that all are compared with, and the recommended result; then what else there is on its drive,
/// first what is simulated by default, as many as there are colours.
fn shown(lanes: &[LaneResult], unknown: bool) -> impl Iterator<Item = &LaneResult> {
    let first: Vec<&LaneResult> = reference(lanes).into_iter().chain(with_streams(lanes, unknown)).collect();
    let drive = first.last().map(|lane| lane.settings.gc_destination);
    let is_other = |lane: &&LaneResult| {
        Some(lane.settings.gc_destination) == drive && !first.iter().any(|other| std::ptr::eq(*other, *lane))
    };
    let mut others: Vec<&LaneResult> = lanes.iter().filter(is_other).collect();
    let place = |lane: &&LaneResult| FIRST.iter().position(|name| *name == lane.scheme);
    others.sort_by_key(|lane| place(lane).unwrap_or(FIRST.len()));
    first.into_iter().chain(others).take(super::COLOURS + 1)
}

/// Every result, every point.
fn over_run_numbers(lanes: &[LaneResult]) -> String {
    let rows = lanes.iter().flat_map(|lane| {
        windows(lane).into_iter().map(|(pages, waf)| {
            let written = (pages as u64 * PAGE_BYTES).to_string();
            [lane.scheme.clone(), lane.settings.gc_destination.to_string(), written, waf.to_string()]
        })
    });
    csv::table(&["scheme", "gc_destination", "written_bytes", "waf"], rows)
}

/// WAF of at most 40 parts of the run, over the pages that the host had written at their ends. The last part has the rest,
/// so it may be twice as long.
fn windows(lane: &LaneResult) -> Vec<(f64, f64)> {
    let step = (lane.progress.len() - 1).div_ceil(40).max(1);
    let mut points: Vec<Progress> = lane.progress.iter().copied().step_by(step).collect();
    if points.len() > 1 {
        points.pop();
    }
    points.push(Progress { host_pages: lane.host_pages(), flash_pages: lane.flash_pages() });
    let window = |pair: &[Progress]| {
        let host = pair[1].host_pages - pair[0].host_pages;
        let flash = pair[1].flash_pages - pair[0].flash_pages;
        (host > 0).then(|| (pair[1].host_pages as f64, flash as f64 / host as f64))
    };
    points.windows(2).filter_map(window).collect()
}
