//! Throughput of the host and copies of garbage collection over simulated time, side by side (HotStorage'14, Fig. 3b).
//!
//! Two lines per lane: baseline on the drive that all are compared with, and the recommended scheme. Time is that of the
//! clock's model, so there is nothing to show without one. Requests count where they complete, copies where they are read.

use pcstream_replay::LaneResult;

use super::chart::{Chart, Line};
use super::look::{Key, Look, keys};
use super::{Figure, Material, Window};
use crate::csv;
use crate::drive::{reference, result_in_words};
use crate::verdict::with_streams;

/// Points of a line at most: more than that is noise.
const POINTS: usize = 100;

/// Lines of rates; x is in seconds.
pub fn figure(material: &Material) -> Figure {
    let lanes = material.lanes();
    let mut shown: Vec<&LaneResult> = reference(lanes).into_iter().collect();
    let with = with_streams(lanes, material.simulation.writers.are_unknown());
    shown.extend(with.filter(|lane| shown.iter().all(|other| !std::ptr::eq(*other, *lane))));
    let lines = shown.iter().flat_map(|lane| pair(lane)).collect();
    let mut keys = keys(shown.iter().map(|lane| (lane.scheme.as_str(), lane.settings.gc_destination)));
    keys.push(Key { look: Look::NEUTRAL, text: "written".to_owned() });
    keys.push(Key { look: Look::NEUTRAL.thin(), text: "copied".to_owned() });
    let chart = Chart::of_rates("throughput and copies over simulated time", "simulated time", lines, keys);
    Figure {
        title: "Throughput and garbage collection over simulated time",
        note: "Requests by their completion, copies when they are read. With --timing; what the clock models is in docs/ssd-model.md."
            .to_owned(),
        svg: chart.draw(Window::Wide),
        narrow: chart.draw(Window::Narrow),
        csv: table(lanes),
    }
}

/// What the host wrote and what was copied for it, per second; nothing without a clock.
fn pair(lane: &LaneResult) -> Vec<Line> {
    let Some(timing) = &lane.timing else { return Vec::new() };
    let throughput = &timing.throughput;
    let together = throughput.pages.len().div_ceil(POINTS).max(1);
    let seconds = throughput.interval_ns as f64 * together as f64 / 1e9;
    let who = result_in_words(lane);
    let look = Look::of(&lane.scheme, lane.settings.gc_destination);
    let line = |what: &str, look: Look, pages: &[u64]| {
        let point = |(index, part): (usize, &[u64])| {
            ((index as f64 + 0.5) * seconds, part.iter().sum::<u64>() as f64 / seconds)
        };
        // The last part may not be over.
        let whole = pages.chunks_exact(together).enumerate().map(point);
        Line { name: format!("{who}: {what}"), look, points: whole.collect() }
    };
    vec![line("written", look, &throughput.pages), line("copied", look.thin(), &throughput.gc_pages)]
}

/// Every lane with a clock, every interval.
fn table(lanes: &[LaneResult]) -> String {
    let rows =
        lanes.iter().filter_map(|lane| Some((lane, lane.timing.as_ref()?))).flat_map(|(lane, timing)| {
            let throughput = &timing.throughput;
            let seconds = throughput.interval_ns as f64 / 1e9;
            throughput.pages.iter().zip(&throughput.gc_pages).enumerate().map(
                move |(index, (host, copied))| {
                    [
                        lane.scheme.clone(),
                        lane.settings.gc_destination.to_string(),
                        format!("{:.6}", index as f64 * seconds),
                        host.to_string(),
                        copied.to_string(),
                    ]
                },
            )
        });
    csv::table(&["scheme", "gc_destination", "second", "host_pages", "gc_pages"], rows)
}
