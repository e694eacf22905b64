//! More of every result: how sure the WAF is, how worn the device, and what victims held.

use pcstream_replay::{LaneResult, Lifetimes, Quartiles};

use crate::drive::{reference, result_in_words, saved};
use crate::human::{count, page_bytes, ratio};
use crate::layout::Layout;
use crate::table::Side::{Left, Right};
use crate::table::{columns_of, within};

/// Bars of a histogram, from nothing to most.
const BARS: [char; 9] =
    [' ', '\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}', '\u{2587}', '\u{2588}'];

/// One row per result.
pub fn text(lanes: &[LaneResult], layout: Layout) -> String {
    let steady = |lane: &LaneResult| {
        let waf = ratio(lane.steady_waf());
        lane.steady.map_or_else(
            || format!("{waf}, not steady"),
            |s| format!("{waf} +- {:.3} ({} rounds)", s.half_width, s.rounds),
        )
    };
    let erases = |lane: &LaneResult| match lane.counters.background_erases {
        0 => count(lane.counters.erases),
        background => format!("{} ({} in background)", count(lane.counters.erases), count(background)),
    };
    let reference = reference(lanes);
    let life = |lane: &LaneResult| {
        let saved = reference.and_then(|reference| saved(lane, reference));
        saved.map_or("-".to_owned(), |saved| format!("x {:.2}", 1.0 / (1.0 - saved)))
    };
    let wear =
        |lane: &LaneResult| format!("{} / {:.1} / {}", lane.wear.least, lane.wear.mean, lane.wear.most);
    let columns = columns_of(
        lanes,
        &[
            (Left, "scheme", &|lane| lane.scheme.clone()),
            (Left, "gc", &|lane| lane.settings.gc_destination.to_string()),
            (Left, "steady WAF +- 95 %", &steady),
            (Right, "erases", &erases),
            (Right, "per superblock", &wear),
            (Right, "life", &life),
            (Left, "victims by valid share", &|lane| histogram(&lane.counters.victim_validity)),
        ],
    );
    let life = reference.map_or_else(String::new, |reference| {
        format!(" life: how many times as long as with {}, by flash programmed;", result_in_words(reference))
    });
    let notes = format!(
        "steady: from the first steady round on, else the last two thirds; a round is as many writes as the device has \
         pages; per superblock: least, mean and most erases, prefill included;{life} victims: empty, then shares of \
         5 % up to full, as bars"
    );
    let mut lines = within(&columns, 2, layout);
    lines.push(String::new());
    lines.extend(layout.wrap(&notes, 0));
    lines.extend(stream_table(lanes, layout));
    lines.join("\n") + "\n"
}

/// Streams of `pcstream` (else of the last scheme), and their internal streams: pages, and quartiles of the
/// lifetimes that ended there (FAST'19, Fig. 11).
fn stream_table(lanes: &[LaneResult], layout: Layout) -> Vec<String> {
    let Some(last) = lanes.iter().find(|l| l.scheme == "pcstream").or(lanes.last()) else {
        return Vec::new();
    };
    let mut rows = Vec::new();
    for lane in lanes.iter().filter(|lane| lane.scheme == last.scheme) {
        for stream in lane.streams.iter().filter(|stream| stream.host_pages + stream.gc_pages > 0) {
            let (name, internal) = (format!("S{}", stream.stream.0), stream.internal.as_ref());
            let copies = stream.gc_pages - internal.map_or(0, |internal| internal.copied_again);
            rows.push((lane, name.clone(), stream.host_pages, copies, stream.lifetimes.as_ref()));
            rows.extend(internal.map(|internal| {
                (lane, format!("{name}'"), internal.pages, internal.copied_again, internal.lifetimes.as_ref())
            }));
        }
    }
    let life = |lifetimes: &Option<&Lifetimes>, of: fn(Quartiles) -> u64| {
        lifetimes.and_then(Lifetimes::quartiles).map_or("-".to_owned(), |quartiles| page_bytes(of(quartiles)))
    };
    let columns = columns_of(
        &rows,
        &[
            (Left, "scheme", &|(lane, ..)| lane.scheme.clone()),
            (Left, "gc", &|(lane, ..)| lane.settings.gc_destination.to_string()),
            (Left, "stream", &|(_, name, ..)| name.clone()),
            (Right, "pages", &|(_, _, pages, ..)| count(*pages)),
            (Right, "GC copies", &|(.., copies, _)| count(*copies)),
            (Right, "life p25", &|(.., lifetimes)| life(lifetimes, |q| q.p25)),
            (Right, "p50", &|(.., lifetimes)| life(lifetimes, |q| q.p50)),
            (Right, "p75", &|(.., lifetimes)| life(lifetimes, |q| q.p75)),
        ],
    );
    let notes = "pages: written by the host, or moved to an internal stream (S1') by GC; life: what the host wrote until then";
    let mut lines = vec![String::new()];
    lines.extend(within(&columns, 3, layout));
    lines.extend(layout.wrap(notes, 0));
    lines
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
