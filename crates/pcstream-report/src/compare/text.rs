//! A comparison as tables for people.

use pcstream_trace::PAGE_BYTES;

use super::doubts::prefilled;
use super::{Change, Comparison, letter};
use crate::Layout;
use crate::escape::visible;
use crate::human::{bytes, change, counted, page_bytes, percent};
use crate::json::DeviceJson;
use crate::measures;
use crate::statistics::Mean;
use crate::table::Side::{Left, Right};
use crate::table::{Column, within};

impl Comparison {
    /// As a table for people, with so many contexts.
    pub fn text(&self, top: usize, layout: Layout) -> String {
        text(self, top, layout)
    }
}

fn text(result: &Comparison, top: usize, layout: Layout) -> String {
    let mut lines = Vec::new();
    for (index, run) in result.runs.iter().enumerate() {
        let times =
            if run.repetitions == 1 { "once".to_owned() } else { format!("{} times", run.repetitions) };
        lines.push(layout.cut(&format!("{}  {} ({times})", letter(index), visible(&run.name))));
        lines.push(layout.cut(&format!("   on {}", drive(&run.devices[0]))));
    }
    lines.push(String::new());
    lines.extend(result.remarks.iter().flat_map(|remark| layout.wrap(remark, 0)));
    lines.extend((!result.remarks.is_empty()).then(String::new));
    lines.extend(measured(result, layout));
    lines.push(String::new());
    lines.extend(contexts(result, top, layout));
    if result.changes.iter().any(|change| change.more_than_noise.is_none()) {
        lines.push(String::new());
        let note = "A run without repetitions does not show how large noise is: record each several times, and name \
                    the traces with commas between them.";
        lines.extend(layout.wrap(note, 0));
    }
    lines.join("\n") + "\n"
}

fn drive(device: &DeviceJson) -> String {
    format!(
        "{} logical with spare factor {}, prefilled {}",
        page_bytes(device.logical_pages),
        percent(device.spare_factor),
        percent(prefilled(device)),
    )
}

fn written(name: &str, value: &Mean) -> String {
    let of = |number: f64| measures::written(name, number);
    match value.half_width_95 {
        Some(half) => format!("{} +- {}", of(value.mean), of(half)),
        None => of(value.mean),
    }
}

/// What was measured, a line each. Without `--details`, only what changed, and flash of the drive as it is today.
fn measured(result: &Comparison, layout: Layout) -> Vec<String> {
    let of = |name: &str| -> Vec<&Change> {
        result.changes.iter().filter(|change| change.measure == name).collect()
    };
    let is_same = |name: &str| of(name).iter().all(|change| change.first == change.other);
    let names = result.runs[0].measures.keys().filter(|name| layout.details || !measures::is_detail(name));
    let (shown, same): (Vec<&String>, Vec<&String>) =
        names.partition(|name| layout.details || !is_same(name));
    let runs = || result.runs.iter().enumerate();
    let mut columns = vec![Column::new(Left, "measure", shown.iter().map(|name| (*name).clone()))];
    // The answer comes first: in a narrow terminal the last columns stand below.
    columns.extend(runs().skip(1).map(|(index, run)| {
        let changed = |name: &&String| {
            // Runs that lack a measure have no change of it.
            let before = result.runs[1..index].iter().filter(|run| run.measures.contains_key(*name)).count();
            let change = of(name).get(before).copied().filter(|_| run.measures.contains_key(*name));
            change.map_or("-".to_owned(), verdict)
        };
        Column::new(Left, format!("{} vs A", letter(index)), shown.iter().map(changed))
    }));
    columns.extend(runs().map(|(index, run)| {
        let value =
            |name: &&String| run.measures.get(*name).map_or("-".to_owned(), |value| written(name, value));
        Column::new(Right, letter(index), shown.iter().map(value))
    }));
    let mut lines = if shown.is_empty() { Vec::new() } else { within(&columns, 1, layout) };
    if !same.is_empty() {
        let numbers = counted(same.len() as u64, "other number");
        lines.push(format!("{numbers} stayed the same: --details lists them"));
    }
    lines
}

/// Those that changed.
fn contexts(result: &Comparison, top: usize, layout: Layout) -> Vec<String> {
    let changed = result.contexts.iter().take_while(|context| context.change() > 0.0).count();
    let mut lines = layout.wrap("contexts, most changed first (by name; pages as written by the host)", 0);
    let shown = &result.contexts[..top.min(changed)];
    for context in shown {
        let pages: Vec<String> =
            context.pages.iter().map(|pages| format!("{:>10}", mean_bytes(pages.mean))).collect();
        let noise = match context.more_than_noise {
            Some(true) => "changed",
            Some(false) => "noise  ",
            None => "       ",
        };
        let line = format!("{} {noise} {}", pages.join(" "), visible(&context.line));
        lines.push(layout.cut(line.trim_end()));
    }
    let same = (result.contexts.len() - changed) as u64;
    if same > 0 {
        lines.push(format!("{} wrote as much in every run", counted(same, "context")));
    }
    lines
}

/// Of repetitions: a mean need not be whole pages, and one that is less than a page is not nothing.
fn mean_bytes(pages: f64) -> String {
    bytes((pages * PAGE_BYTES as f64).round() as u64)
}

fn verdict(measured: &Change) -> String {
    let Some(ratio) = measured.ratio else { return "-".to_owned() };
    let by = change(ratio - 1.0);
    match measured.more_than_noise {
        Some(true) => format!("{by} changed"),
        Some(false) => format!("{by} noise"),
        None => by,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_than_a_page_is_not_nothing() {
        assert_eq!(mean_bytes(1.0 / 3.0), "1.33 KiB");
        assert_eq!(mean_bytes(0.0), "0 B");
        assert_eq!(mean_bytes(256.0), "1.00 MiB");
    }
}
