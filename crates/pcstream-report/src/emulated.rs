//! `run --live`: what a device that carried the data counted, beside the simulation of the same run.
//!
//! Units: pages of 4 KiB; shares from 0 to 1. The device counts pages in the order in which they arrived, the
//! simulation in the order in which they were captured, so the two agree nearly, not exactly.

use pcstream_replay::LaneResult;
use pcstream_ssd::Counters;
use serde::Serialize;

use crate::VERSION;
use crate::escape::visible;
use crate::human::{change, count, page_bytes, percent, ratio, saving};
use crate::layout::Layout;
use crate::table::{Column, Side, side_by_side};

/// Where the two count as agreeing: 2 % of the WAF.
pub const AGREEMENT: f64 = 0.02;

/// One run of the command on a device, under one scheme.
pub struct EmulatedRun {
    /// The simulation of its trace, on the same device.
    pub simulated: LaneResult,
    /// What the device counted.
    pub live: LiveCounts,
    /// Share of the written file data whose context is known.
    pub context_coverage: f64,
    /// Losses of the capture by cause, those that occurred.
    pub losses: Vec<(String, u64)>,
    /// The power cut, if there was one.
    pub power_cut: Option<PowerCutReport>,
}

/// What a device counted.
#[derive(Clone, Debug, Default)]
pub struct LiveCounts {
    /// Of the flash.
    pub counters: Counters,
    /// Superblocks erased and not open at the end.
    pub free_superblocks: u32,
    /// Pages whose stream came too late: they went to S0.
    pub unassigned_pages: u64,
    /// Flushes.
    pub flushes: u64,
    /// Pages read.
    pub read_pages: u64,
}

/// A power cut and what came after.
#[derive(Clone, Debug, Serialize)]
pub struct PowerCutReport {
    /// Pages that were written before.
    pub after_pages: u64,
    /// Which of the pages that were not flushed were to be lost: `all`, `half`, `none`.
    pub loss: &'static str,
    /// Pages that were lost.
    pub lost_pages: u64,
    /// Why the file system could not be mounted again, its journal replayed; null if it could.
    pub mount_error: Option<String>,
    /// The program that looked for faults afterwards, with its flags.
    pub check: String,
    /// Whether it found none.
    pub clean: bool,
    /// What it said.
    pub said: String,
}

/// All runs.
pub struct Emulated {
    /// Seed of the devices.
    pub seed: u64,
    /// The command.
    pub command: Vec<String>,
    /// The file system.
    pub fs: String,
    /// Where the device comes from: a profile, a file; none if defaults and flags alone make it.
    pub origin: Option<String>,
    /// At least one.
    pub runs: Vec<EmulatedRun>,
}

/// The result for programs.
#[derive(Debug, Serialize)]
pub struct EmulatedJson<'a> {
    pcstream: &'a str,
    seed: u64,
    command: &'a [String],
    fs: &'a str,
    device: DeviceJson<'a>,
    runs: Vec<RunJson<'a>>,
}

#[derive(Debug, Serialize)]
struct DeviceJson<'a> {
    logical_pages: u64,
    physical_pages: u64,
    superblock_pages: u32,
    streams: u8,
    victim: String,
    origin: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct RunJson<'a> {
    scheme: &'a str,
    gc_destination: &'static str,
    prefill_pages: u64,
    live: CountsJson,
    simulated: CountsJson,
    flushes: u64,
    read_pages: u64,
    unassigned_pages: u64,
    waf_difference: Option<f64>,
    context_coverage: f64,
    losses: std::collections::BTreeMap<&'a str, u64>,
    power_cut: Option<&'a PowerCutReport>,
}

#[derive(Debug, Serialize)]
struct CountsJson {
    host_pages: u64,
    flash_pages: u64,
    gc_pages: u64,
    erases: u64,
    discarded_pages: u64,
    waf: Option<f64>,
    free_superblocks: u32,
    streams: Vec<StreamJson>,
}

#[derive(Debug, Serialize)]
struct StreamJson {
    stream: usize,
    host_pages: u64,
    gc_pages: u64,
}

fn waf(counters: &Counters) -> Option<f64> {
    (counters.host_pages > 0).then(|| counters.waf())
}

impl EmulatedRun {
    /// How far the live WAF is above the simulated one, as a share of it; `None` where there is nothing to compare:
    /// nothing was written, or the power was cut.
    pub fn difference(&self) -> Option<f64> {
        if self.power_cut.is_some() {
            return None;
        }
        Some(waf(&self.live.counters)? / self.simulated.waf()? - 1.0)
    }

    fn agrees(&self) -> bool {
        self.difference().is_none_or(|difference| difference.abs() <= AGREEMENT)
    }

    /// The scheme, and where copies go if runs differ in it.
    fn name(&self, all: &[EmulatedRun]) -> String {
        let first = all[0].simulated.settings.gc_destination;
        let own = self.simulated.settings.gc_destination;
        if all.iter().all(|run| run.simulated.settings.gc_destination == first) {
            self.simulated.scheme.clone()
        } else {
            format!("{} ({own})", self.simulated.scheme)
        }
    }
}

/// The result as JSON.
pub fn json(emulated: &Emulated) -> EmulatedJson<'_> {
    let lane = &emulated.runs[0].simulated;
    EmulatedJson {
        pcstream: VERSION,
        seed: emulated.seed,
        command: &emulated.command,
        fs: &emulated.fs,
        device: DeviceJson {
            logical_pages: lane.geometry.logical_pages(),
            physical_pages: lane.geometry.physical_pages(),
            superblock_pages: lane.geometry.superblock_pages(),
            streams: lane.geometry.streams(),
            victim: lane.victims.clone(),
            origin: emulated.origin.as_deref(),
        },
        runs: emulated.runs.iter().map(run).collect(),
    }
}

fn run(run: &EmulatedRun) -> RunJson<'_> {
    RunJson {
        scheme: &run.simulated.scheme,
        gc_destination: run.simulated.settings.gc_destination.name(),
        prefill_pages: run.simulated.prefill_pages,
        live: counts(&run.live.counters, run.live.free_superblocks),
        simulated: counts(&run.simulated.counters, run.simulated.free_superblocks),
        flushes: run.live.flushes,
        read_pages: run.live.read_pages,
        unassigned_pages: run.live.unassigned_pages,
        waf_difference: run.difference(),
        context_coverage: run.context_coverage,
        losses: run.losses.iter().map(|(name, count)| (name.as_str(), *count)).collect(),
        power_cut: run.power_cut.as_ref(),
    }
}

fn counts(counters: &Counters, free_superblocks: u32) -> CountsJson {
    let stream = |(stream, counters): (usize, &pcstream_ssd::counters::StreamCounters)| StreamJson {
        stream,
        host_pages: counters.host_pages,
        gc_pages: counters.gc_pages,
    };
    CountsJson {
        host_pages: counters.host_pages,
        flash_pages: counters.flash_pages(),
        gc_pages: counters.gc_pages,
        erases: counters.erases,
        discarded_pages: counters.discarded_pages,
        waf: waf(counters),
        free_superblocks,
        streams: counters.streams.iter().enumerate().map(stream).collect(),
    }
}

/// The result as text.
pub fn text(emulated: &Emulated, layout: Layout) -> String {
    let mut lines = origin(emulated, layout);
    lines.push(String::new());
    lines.extend(table(&emulated.runs));
    lines.extend(saved(&emulated.runs).iter().flat_map(|line| layout.wrap(line, 0)));
    lines.push(String::new());
    lines.extend(streams(&emulated.runs));
    lines.push(String::new());
    lines.extend(emulated.runs.iter().flat_map(|run| power_cut(run, &emulated.runs, layout)));
    lines.extend(doubts(&emulated.runs).iter().flat_map(|line| layout.wrap(line, 9)));
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines.join("\n") + "\n"
}

fn origin(emulated: &Emulated, layout: Layout) -> Vec<String> {
    let lane = &emulated.runs[0].simulated;
    let geometry = &lane.geometry;
    let command = emulated.command.join(" ");
    let device = format!(
        "device   emulated, carries the data: {} logical, {} flash, superblocks of {}, {} streams, GC to {}; victims \
         {}{}; {}, {} in use before the run",
        page_bytes(geometry.logical_pages()),
        page_bytes(geometry.physical_pages()),
        page_bytes(geometry.superblock_pages().into()),
        geometry.streams(),
        lane.settings.gc_destination,
        lane.victims,
        emulated.origin.as_ref().map_or(String::new(), |origin| format!("; {origin}")),
        emulated.fs,
        percent(lane.prefill_pages as f64 / geometry.logical_pages() as f64),
    );
    let mut lines = vec![format!("pcstream {VERSION}, seed {}", emulated.seed)];
    lines.extend(layout.wrap(&format!("command  {}", visible(&command)), 9));
    lines.extend(layout.wrap(&device, 9));
    lines
}

/// A row for each run: what the device counted, and what the simulation makes of the same writes.
fn table(runs: &[EmulatedRun]) -> Vec<String> {
    let simulated = |run: &EmulatedRun, cell: fn(&LaneResult) -> String| match run.power_cut {
        None => cell(&run.simulated),
        Some(_) => "-".to_owned(),
    };
    side_by_side(&[
        names("\nscheme", runs),
        column("device:\nwritten", runs, |run| page_bytes(run.live.counters.host_pages)),
        column("\nWAF", runs, |run| ratio(waf(&run.live.counters))),
        column("\nerases", runs, |run| count(run.live.counters.erases)),
        column("\nGC copies", runs, |run| page_bytes(run.live.counters.gc_pages)),
        column("free\nsuperblocks", runs, |run| count(run.live.free_superblocks.into())),
        column("simulated:\nWAF", runs, |run| simulated(run, |lane| ratio(lane.waf()))),
        column("\nGC copies", runs, |run| simulated(run, |lane| page_bytes(lane.counters.gc_pages))),
        column("WAF\napart", runs, |run| run.difference().map_or("-".to_owned(), change)),
    ])
}

fn names(head: &str, runs: &[EmulatedRun]) -> Column {
    Column::new(Side::Left, head, runs.iter().map(|run| run.name(runs)))
}

fn column(head: &str, runs: &[EmulatedRun], cell: impl Fn(&EmulatedRun) -> String) -> Column {
    Column::new(Side::Right, head, runs.iter().map(cell))
}

/// What streams save against the run without them.
fn saved(runs: &[EmulatedRun]) -> Vec<String> {
    let without = runs.iter().find(|run| run.simulated.scheme == "baseline" && run.power_cut.is_none());
    let Some((without, base)) = without.and_then(|run| Some((run, waf(&run.live.counters)?))) else {
        return Vec::new();
    };
    let with = runs.iter().filter(|run| !std::ptr::eq(*run, without) && run.power_cut.is_none());
    let line = |run: &EmulatedRun| {
        let live = 1.0 - waf(&run.live.counters)? / base;
        let simulated = 1.0 - run.simulated.waf()? / without.simulated.waf()?;
        let name = run.name(runs);
        Some(format!(
            "less flash for each page written, with {name} than with baseline: {} on the device, {} simulated",
            saving(live),
            saving(simulated)
        ))
    };
    with.filter_map(line).collect()
}

/// Pages that each stream got on the device.
fn streams(runs: &[EmulatedRun]) -> Vec<String> {
    // The device is the same in every run.
    let streams = runs[0].live.counters.streams.len();
    let written = |stream: usize| {
        column(&format!("S{stream}"), runs, |run| page_bytes(run.live.counters.streams[stream].host_pages))
    };
    let mut table = vec![names("written to", runs)];
    table.extend((0..streams).map(written));
    table.push(column("unassigned", runs, |run| page_bytes(run.live.unassigned_pages)));
    side_by_side(&table)
}

fn power_cut(run: &EmulatedRun, runs: &[EmulatedRun], layout: Layout) -> Vec<String> {
    let Some(cut) = &run.power_cut else { return Vec::new() };
    let after = match &cut.mount_error {
        Some(error) => format!("the file system could not be mounted again: {error}"),
        None => "the file system was mounted again and its journal replayed".to_owned(),
    };
    let found =
        if cut.clean { "found nothing to repair".into() } else { format!("found faults: {}", cut.said) };
    let line = format!(
        "power    {}: cut after {} pages; {} pages that were not flushed were lost ({}); {after}; {} {found}",
        run.name(runs),
        cut.after_pages,
        cut.lost_pages,
        cut.loss,
        cut.check
    );
    layout.wrap(&visible(&line), 9)
}

/// What makes a number less than a measurement.
fn doubts(runs: &[EmulatedRun]) -> Vec<String> {
    let mut lines = Vec::new();
    for run in runs {
        let name = run.name(runs);
        if run.live.unassigned_pages > 0 {
            lines.push(format!(
                "warning  {name}: the streams of {} pages came too late, and the pages went to S0",
                run.live.unassigned_pages
            ));
        }
        if !run.agrees() {
            lines.push(format!(
                "warning  {name}: the device and its simulation are more than {} apart",
                percent(AGREEMENT)
            ));
        }
        let (live, captured) = (run.live.counters.host_pages, run.simulated.counters.host_pages);
        if run.power_cut.is_none() && live != captured {
            lines.push(format!(
                "remark   {name}: {live} pages arrived at the device, {captured} were captured"
            ));
        }
        for (loss, count) in &run.losses {
            lines.push(format!("warning  {name}: the capture lost {loss} {count}"));
        }
    }
    lines
}
