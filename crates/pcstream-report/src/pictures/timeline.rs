//! What was written, copied and discarded per second of the traced time.

use pcstream_replay::survey::{Rate, TIME_BINS};

use super::chart::{Chart, Line};
use super::look::{Key, Look};
use super::{Figure, Material, Window};
use crate::csv;
use crate::human::time;

/// Lines of rates; x is in seconds.
pub fn figure(material: &Material) -> Figure {
    let rates = material.survey().rates();
    let seconds = material.simulation.traced_ns().max(1) as f64 / 1e9;
    let bin = seconds / TIME_BINS as f64;
    let line = |name: &str, look: Look, of: fn(&Rate) -> u64| {
        let point = |(index, rate)| ((index as f64 + 0.5) * bin, of(rate) as f64 / bin);
        Line { name: name.to_owned(), look, points: rates.iter().enumerate().map(point).collect() }
    };
    let lines = vec![
        line("written by the host", Look::NEUTRAL, |rate| rate.host_pages),
        // Copies are those of baseline.
        line("copied by GC without streams", Look::of_scheme("baseline").thin(), |rate| rate.gc_pages),
    ];
    let keys = lines.iter().map(|line| Key { look: line.look, text: line.name.clone() }).collect();
    let chart = Chart::of_rates("rates over the traced time", "since the trace began", lines, keys);
    let draw = |window| {
        if rates.iter().any(|rate| rate.host_pages > 0) { chart.draw(window) } else { String::new() }
    };
    let places = places(bin);
    let rows = rates.iter().enumerate().map(|(index, rate)| {
        let start = format!("{:.places$}", index as f64 * bin);
        [start, rate.host_pages.to_string(), rate.gc_pages.to_string(), rate.discarded_pages.to_string()]
    });
    let real =
        if material.simulation.about.trace.real_time { "" } else { " The times are those of a generator." };
    Figure {
        title: "Writes and garbage collection over time",
        note: format!(
            "At the times of the trace, each point the mean of {}; the model copies at once, in no time.{real}",
            time(bin)
        ),
        svg: draw(Window::Wide),
        narrow: draw(Window::Narrow),
        csv: csv::table(&["second", "host_pages", "gc_pages", "discarded_pages"], rows),
    }
}

/// Decimal places of seconds that tell apart bins of so many: six, if these are enough.
fn places(bin: f64) -> usize {
    (-bin.log10()).ceil().max(6.0) as usize
}
