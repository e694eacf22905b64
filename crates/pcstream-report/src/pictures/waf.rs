//! WAF by scheme, with the oracle's line; WAF over the run.

use pcstream_replay::LaneResult;
use pcstream_trace::PAGE_BYTES;

use super::chart::{Chart, WIDTH};
use super::svg::Svg;
use super::{Curve, Figure, Material};
use crate::csv;
use crate::drive::{in_words, reference};
use crate::human::{bytes, ratio};
use crate::schemes::destinations;

const MIB: f64 = (1 << 20) as f64;
const ROW: f64 = 18.0;
const LEFT: f64 = 150.0;
const RIGHT: f64 = 60.0;

/// Bars from 1 on, one per scheme and kind of drive.
pub fn by_scheme(material: &Material) -> Figure {
    let lanes = material.lanes();
    let drives = destinations(lanes);
    let wafs = lanes.iter().filter_map(LaneResult::waf);
    let most = wafs.fold(1.001, f64::max);
    let x_at = |waf: f64| LEFT + (waf - 1.0) / (most - 1.0) * (WIDTH - LEFT - RIGHT);
    let mut schemes: Vec<&str> = lanes.iter().map(|lane| lane.scheme.as_str()).collect();
    schemes.dedup();
    let block = ROW * drives.len() as f64 + 6.0;
    let height = 12.0 + block * schemes.len() as f64 + 22.0 + 18.0 * drives.len() as f64;
    let mut svg = Svg::new(WIDTH, height, "WAF by scheme");
    for (index, scheme) in schemes.iter().enumerate() {
        let top = 12.0 + block * index as f64;
        svg.text("end", LEFT - 8.0, top + block / 2.0, scheme);
        for lane in lanes.iter().filter(|lane| lane.scheme == *scheme) {
            let drive = drives.iter().position(|d| *d == lane.settings.gc_destination).unwrap_or(0);
            let (y, waf) = (top + ROW * drive as f64, lane.waf().unwrap_or(1.0));
            let tip = format!("{scheme} on {}: WAF {waf:.4}", in_words(lane.settings.gc_destination));
            svg.rect(&format!("f{drive}"), [LEFT, y, (x_at(waf) - LEFT).max(1.5), ROW - 3.0], &tip);
            svg.text("dim", x_at(waf) + 6.0, y + 12.0, &ratio(lane.waf()));
        }
    }
    let bottom = 12.0 + block * schemes.len() as f64;
    let oracle =
        lanes.iter().filter(|lane| lane.knows_future).filter_map(LaneResult::waf).min_by(f64::total_cmp);
    if let Some(waf) = oracle {
        svg.line("mark", &[(x_at(waf), 6.0), (x_at(waf), bottom)]);
        svg.text("dim mid", x_at(waf).max(LEFT + 60.0), bottom + 12.0, "knowing the future");
    }
    for (index, drive) in drives.iter().enumerate() {
        let y = bottom + 22.0 + 18.0 * index as f64;
        svg.key(&format!("f{index}"), LEFT, y, in_words(*drive));
    }
    let rows = lanes.iter().map(|lane| {
        let (waf, steady) = (csv::option(lane.waf()), csv::option(lane.steady_waf()));
        let flash = lane.flash_pages().to_string();
        [lane.scheme.to_owned(), lane.settings.gc_destination.to_string(), waf, steady, flash]
    });
    Figure {
        title: "Write amplification by scheme",
        note: "Flash pages programmed for each page that the host wrote; bars begin at 1, the least there can be. \
               The dashed line is the least that a scheme reaches which knows when every page dies."
            .to_owned(),
        svg: svg.finish(),
        csv: csv::table(&["scheme", "gc_destination", "waf", "steady_waf", "flash_pages"], rows),
    }
}

/// WAF of parts of the run: a line per scheme, on the drive that the scheme is recommended with.
pub fn over_run(material: &Material) -> Figure {
    let lanes = material.lanes();
    let mut shown: Vec<&LaneResult> = reference(lanes).into_iter().collect();
    for lane in lanes.iter().filter(|lane| lane.scheme != "baseline").rev() {
        if shown.iter().all(|other| other.scheme != lane.scheme) {
            shown.push(lane);
        }
    }
    let lines: Vec<Curve> = shown
        .iter()
        .take(super::COLOURS)
        .map(|lane| Curve {
            name: format!("{}, gc {}", lane.scheme, lane.settings.gc_destination),
            points: windows(lane),
        })
        .collect();
    let rows = lines
        .iter()
        .flat_map(|line| line.points.iter().map(|(x, y)| [line.name.clone(), x.to_string(), y.to_string()]));
    let csv = csv::table(&["line", "written_mib", "waf"], rows);
    let chart = Chart {
        title: "WAF over the run",
        x_label: "written by the host",
        x_text: |mib| bytes((mib * MIB) as u64),
        y_text: |waf| ratio(Some(waf)),
        y_from: 1.0,
        y_least: 0.01,
        dots: false,
        lines,
    };
    Figure {
        title: "Write amplification over the run",
        note: "WAF of each fortieth of the run. A line that still rises or falls at the end has no steady answer yet."
            .to_owned(),
        svg: chart.draw(),
        csv,
    }
}

/// WAF between points of the progress, about 40 of them.
fn windows(lane: &LaneResult) -> Vec<(f64, f64)> {
    let step = (lane.progress.len() / 40).max(1);
    let points: Vec<_> = lane.progress.iter().step_by(step).collect();
    let window = |pair: &[&pcstream_replay::Progress]| {
        let host = (pair[1].host_pages - pair[0].host_pages) as f64;
        (
            pair[1].host_pages as f64 * PAGE_BYTES as f64 / MIB,
            (pair[1].flash_pages - pair[0].flash_pages) as f64 / host,
        )
    };
    points.windows(2).map(window).collect()
}
