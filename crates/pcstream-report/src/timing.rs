//! What a clock showed, as text: one row per scheme and GC destination.

use pcstream_replay::LaneResult;
use pcstream_ssd::latency::LatencyHistogram;
use pcstream_ssd::timing::{Arrivals, TimingResults};

use crate::human::{count, page_bytes, percent, scaled};
use crate::layout::Layout;
use crate::table::Side::{Left, Right};
use crate::table::{Column, within};

/// Quantiles in the table.
const QUANTILES: [(f64, &str); 4] = [(0.5, "p50"), (0.99, "p99"), (0.999, "p99.9"), (0.9999, "p99.99")];

/// The table and the clock below it; empty without a clock.
pub(crate) fn lines(lanes: &[LaneResult], layout: Layout) -> Vec<String> {
    let timed: Vec<(&LaneResult, &TimingResults)> =
        lanes.iter().filter_map(|lane| Some((lane, lane.timing.as_ref()?))).collect();
    let Some((_, first)) = timed.first() else { return Vec::new() };
    let mut lines = table(&timed, layout, "write", |t| &t.write);
    if timed.iter().any(|(_, t)| t.read.count() > 0) {
        lines.push(String::new());
        lines.extend(table(&timed, layout, "read", |t| &t.read));
    }
    lines.push(String::new());
    lines.extend(layout.wrap(&clock(first), 9));
    lines
}

/// Said where superblocks are too small for the clock: of the first lane with one that has so small ones.
pub fn too_few_dies(lanes: &[LaneResult]) -> Option<String> {
    lanes.iter().find_map(|lane| {
        let timing = lane.timing.as_ref()?;
        small_superblock(lane.geometry.superblock_pages(), timing.settings.pages_per_program, timing.dies)
    })
}

/// From two stripes over all dies on, what the last stripe lacks costs 5 % of the throughput at most (measured).
fn small_superblock(superblock_pages: u32, pages_per_program: u32, dies: u32) -> Option<String> {
    let (dies, stripe) = (u64::from(dies), u64::from(dies) * u64::from(pages_per_program));
    let units = u64::from(superblock_pages / pages_per_program);
    if units < dies {
        return Some(format!(
            "superblocks are so small that each lies on {units} of the {dies} dies: times are too long; take a larger \
             --superblock-pages. WAF holds"
        ));
    }
    (units > dies && units < 2 * dies).then(|| {
        format!(
            "superblocks are so small that the last stripe of each lies on {} of the {dies} dies: times are up to a \
             sixth too long; take whole stripes, --superblock-pages {stripe} or {}. WAF holds",
            units - dies,
            2 * stripe
        )
    })
}

fn table(
    timed: &[(&LaneResult, &TimingResults)],
    layout: Layout,
    what: &str,
    of: impl Fn(&TimingResults) -> &LatencyHistogram,
) -> Vec<String> {
    let lanes = || timed.iter().map(|(lane, _)| *lane);
    let times = || timed.iter().map(|(_, timing)| *timing);
    let shown = |number: Option<f64>, text: fn(u64) -> String| {
        number.map_or("-".to_owned(), |number| text(number as u64))
    };
    let rate = |(lane, timing): &(&LaneResult, &TimingResults)| {
        let rate = lane.host_pages() as f64 * 1e9 / timing.elapsed_ns as f64;
        shown((timing.elapsed_ns > 0 && lane.host_pages() > 0).then_some(rate), page_bytes)
    };
    let latency = |timing: &TimingResults, ns: u64| match of(timing).count() {
        0 => "-".to_owned(),
        _ => duration(ns),
    };
    let mut columns = vec![
        Column::new(Left, "scheme", lanes().map(|lane| lane.scheme.clone())),
        Column::new(Left, "gc", lanes().map(|lane| lane.settings.gc_destination.to_string())),
        Column::new(Right, "IOPS", times().map(|timing| shown(timing.iops(), count))),
        Column::new(Right, "written/s", timed.iter().map(rate)),
        Column::new(Right, "GC time", times().map(|timing| percent(timing.gc_share()))),
    ];
    columns.extend(QUANTILES.map(|(quantile, name)| {
        let cells = times().map(|timing| latency(timing, of(timing).quantile_ns(quantile)));
        Column::new(Right, format!("{what} {name}"), cells)
    }));
    columns.push(Column::new(Right, "max", times().map(|timing| latency(timing, of(timing).max_ns()))));
    within(&columns, 2, layout)
}

fn clock(timing: &TimingResults) -> String {
    let settings = &timing.settings;
    let arrivals = match timing.arrivals {
        Arrivals::ClosedLoop { queue_depth } => format!("closed loop, {queue_depth} requests outstanding"),
        Arrivals::OpenLoop => "open loop, at the times of the trace".to_owned(),
    };
    format!(
        "clock    {} channels x {} dies, programs of {} in {}, reads {}, erases {}; write buffer {}; {arrivals}",
        settings.channels,
        settings.dies_per_channel,
        page_bytes(u64::from(settings.pages_per_program)),
        duration(settings.program_ns),
        duration(settings.read_ns),
        duration(settings.erase_ns),
        page_bytes(u64::from(settings.buffer_pages)),
    )
}

/// A duration with three digits: `950 ns`, `1.25 ms`.
pub(crate) fn duration(ns: u64) -> String {
    scaled(ns as f64, 1000.0, &[" ns", " us", " ms", " s"])
}

#[cfg(test)]
mod tests {
    use super::{duration, small_superblock};

    #[test]
    fn a_superblock_of_less_than_two_stripes_that_is_not_one_is_remarked_on() {
        let said = |pages| small_superblock(pages, 8, 32).unwrap_or_default();
        assert!(said(248).contains("each lies on 31 of the 32 dies"), "{}", said(248));
        assert!(said(264).contains("last stripe of each lies on 1 of the 32 dies"), "{}", said(264));
        assert!(said(504).contains("on 31 of") && said(504).contains("--superblock-pages 256 or 512"));
        assert_eq!([256, 512, 520].map(said), ["", "", ""]);
    }

    #[test]
    fn durations() {
        let cases = [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.00 us"),
            (12_340_000, "12.3 ms"),
            (2_500_000_000, "2.50 s"),
        ];
        cases.iter().for_each(|&(ns, text)| assert_eq!(duration(ns), text));
    }
}
