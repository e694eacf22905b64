//! More of every result: how sure the WAF is, how worn the device, and what victims held.

use pcstream_replay::{LaneResult, Lifetimes, Quartiles};
use pcstream_ssd::endurance::relative_lifetime;

use crate::drive::baseline_of;
use crate::human::{count, page_bytes};
use crate::table::{Side, columns};

/// Bars of a histogram, from nothing to most.
const BARS: [char; 9] =
    [' ', '\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}', '\u{2587}', '\u{2588}'];

/// One row per result.
pub fn text(lanes: &[LaneResult]) -> String {
    let head =
        ["scheme", "gc", "steady WAF +- 95 %", "erases", "per superblock", "life", "victims by valid share"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for lane in lanes {
        let steady = match lane.steady {
            Some(s) => format!("{:.3} +- {:.3} ({} rounds)", s.waf, s.half_width, s.rounds),
            None => "not steady".to_owned(),
        };
        let baseline = baseline_of(lanes, lane.settings.gc_destination);
        let life = baseline.and_then(|b| relative_lifetime(&lane.counters, &b.counters));
        let background = match lane.counters.background_erases {
            0 => String::new(),
            erases => format!(" ({} in background)", count(erases)),
        };
        rows.push(vec![
            lane.scheme.to_owned(),
            lane.settings.gc_destination.to_string(),
            steady,
            format!("{}{background}", count(lane.counters.erases)),
            format!("{} / {:.1} / {}", lane.wear.least, lane.wear.mean, lane.wear.most),
            life.map_or("-".to_owned(), |life| format!("x {life:.2}")),
            histogram(&lane.counters.victim_validity),
        ]);
    }
    use Side::{Left, Right};
    let mut out = String::new();
    for line in columns(&rows, &[Left, Left, Left, Right, Right, Right, Left]) {
        out += &line;
        out.push('\n');
    }
    out.push_str(
        "\nsteady: rounds of as many writes as the device has pages; per superblock: least, mean and most erases, prefill \
         included; life: against baseline; victims: empty, then shares of 5 % up to full, as bars\n",
    );
    for line in stream_table(lanes) {
        out += &line;
        out.push('\n');
    }
    out
}

/// Streams of `pcstream` (else of the last scheme), and their internal streams: pages, and quartiles of the
/// lifetimes that ended there (FAST'19, Fig. 11).
fn stream_table(lanes: &[LaneResult]) -> Vec<String> {
    let Some(last) = lanes.iter().find(|l| l.scheme == "pcstream").or(lanes.last()) else {
        return Vec::new();
    };
    let head = ["scheme", "gc", "stream", "pages", "GC copies", "life p25", "p50", "p75"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for lane in lanes.iter().filter(|lane| lane.scheme == last.scheme) {
        for stream in lane.streams.iter().filter(|stream| stream.host_pages > 0) {
            let name = format!("S{}", stream.stream.0);
            let copies =
                stream.internal.as_ref().map_or(stream.gc_pages, |i| stream.gc_pages - i.copied_again);
            rows.push(stream_row(lane, name.clone(), stream.host_pages, copies, &stream.lifetimes));
            if let Some(internal) = &stream.internal {
                let name = format!("{name}'");
                rows.push(stream_row(lane, name, internal.pages, internal.copied_again, &internal.lifetimes));
            }
        }
    }
    use Side::{Left, Right};
    let mut lines = vec![String::new()];
    lines.extend(columns(&rows, &[Left, Left, Left, Right, Right, Right, Right, Right]));
    lines.push(
        "pages: written by the host, or moved to an internal stream (S1') by GC; life: what the host wrote until then"
            .to_owned(),
    );
    lines
}

fn stream_row(
    lane: &LaneResult,
    name: String,
    pages: u64,
    copies: u64,
    lifetimes: &Lifetimes,
) -> Vec<String> {
    let quartiles = lifetimes.quartiles();
    let life = |of: fn(Quartiles) -> u64| quartiles.map_or("-".to_owned(), |q| page_bytes(of(q)));
    let destination = lane.settings.gc_destination.to_string();
    let lives = [life(|q| q.p25), life(|q| q.p50), life(|q| q.p75)];
    [lane.scheme.to_owned(), destination, name, count(pages), count(copies)]
        .into_iter()
        .chain(lives)
        .collect()
}

/// `|` bars `|`: the first stands for empty victims. A bucket that is not empty shows at least the lowest bar.
fn histogram(buckets: &[u64]) -> String {
    let most = buckets.iter().copied().max().unwrap_or(0).max(1) as f64;
    let bar = |&n: &u64| match n {
        0 => BARS[0],
        n => BARS[((n as f64 / most * 8.0).ceil() as usize).clamp(1, 8)],
    };
    format!("|{}|", buckets.iter().map(bar).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::histogram;

    #[test]
    fn bars_show_every_bucket_that_is_not_empty() {
        assert_eq!(histogram(&[0, 1, 1000, 500]), "| \u{2581}\u{2588}\u{2584}|");
        assert_eq!(histogram(&[0, 0]), "|  |");
    }
}
