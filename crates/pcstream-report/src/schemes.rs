//! The comparison of schemes as text: one row per scheme, its GC destinations side by side, and
//! below it what a reader needs to trust or doubt the numbers.

use std::collections::BTreeMap;
use std::fmt::Write;

use anstyle::Style;
use pcstream_replay::LaneResult;
use pcstream_ssd::GcDestination;

use crate::escape::{visible, visible_start};
use crate::human::{count, page_bytes, percent, ratio};
use crate::table::{Side, columns};
use crate::{Simulation, TraceInfo, baseline_of, timing};

/// Longest command line printed, in characters; JSON has it whole.
const COMMAND_WIDTH: usize = 200;
const BOLD: Style = Style::new().bold();
const WARNING: Style = Style::new().bold().fg_color(Some(anstyle::Color::Ansi(anstyle::AnsiColor::Yellow)));

/// The whole result of `simulate` as text.
pub fn text(simulation: &Simulation) -> String {
    let mut out = String::new();
    let lanes = &simulation.results;
    for line in origin(simulation) {
        out += &line;
        out.push('\n');
    }
    out.push('\n');
    for line in scheme_table(lanes) {
        out += &line;
        out.push('\n');
    }
    out.push('\n');
    let timing = timing::lines(lanes);
    if !timing.is_empty() {
        for line in timing {
            out += &line;
            out.push('\n');
        }
        out.push('\n');
    }
    for line in headline(lanes).into_iter().chain(device_lines(simulation)).chain(why_one(lanes)) {
        out += &line;
        out.push('\n');
    }
    for line in loss_lines(&simulation.about.trace) {
        _ = writeln!(out, "{WARNING}{line}{WARNING:#}");
    }
    out
}

/// Version, seed and trace: what is needed to repeat the result.
pub(crate) fn origin(simulation: &Simulation) -> Vec<String> {
    let (about, totals) = (&simulation.about, simulation.writers.totals());
    let trace = &about.trace;
    let path = if trace.path.is_empty() { "(not kept)" } else { &trace.path };
    let mut lines = vec![
        format!("pcstream {}, seed {}", about.version, about.seed),
        format!("trace    {}, id {}", visible(path), trace.id),
    ];
    if !trace.command.is_empty() {
        lines.push(format!("command  {}", visible_start(&trace.command.join(" "), COMMAND_WIDTH)));
    }
    lines.push(format!(
        "         {} events: {} written, {} discarded; {} contexts, {} of the file data has one",
        count(totals.events),
        page_bytes(totals.host_pages),
        page_bytes(totals.discarded_pages + totals.zeroed_pages),
        totals.contexts,
        percent(simulation.writers.context_coverage()),
    ));
    lines
}

/// Lanes by scheme, in order; the GC destinations that occur, in order.
fn grid(lanes: &[LaneResult]) -> (Vec<(&'static str, Vec<&LaneResult>)>, Vec<GcDestination>) {
    let mut rows: Vec<(&'static str, Vec<&LaneResult>)> = Vec::new();
    for lane in lanes {
        match rows.iter_mut().find(|(name, _)| *name == lane.scheme) {
            Some((_, row)) => row.push(lane),
            None => rows.push((lane.scheme, vec![lane])),
        }
    }
    let occurs = |d: &GcDestination| lanes.iter().any(|lane| lane.settings.gc_destination == *d);
    (rows, GcDestination::ALL.into_iter().filter(occurs).collect())
}

fn scheme_table(lanes: &[LaneResult]) -> Vec<String> {
    let (rows, destinations) = grid(lanes);
    let mut cells = vec![vec!["scheme".to_owned(), "on S0".to_owned()]];
    let mut sides = vec![Side::Left, Side::Right];
    for destination in &destinations {
        cells[0].extend([format!("{destination}: WAF  "), "steady".to_owned(), "GC pages".to_owned()]);
        sides.extend([Side::Right; 3]);
    }
    let mut best_rows = Vec::new();
    for (name, row) in &rows {
        let share = row[0].default_stream_share().map_or("-".to_owned(), percent);
        let mut line = vec![(*name).to_owned(), share];
        let mut best = false;
        for destination in &destinations {
            let Some(lane) = row.iter().find(|l| l.settings.gc_destination == *destination) else {
                line.extend(std::iter::repeat_n(String::new(), 3));
                continue;
            };
            let is_best = best_waf(lanes, *destination)
                .is_some_and(|waf| !lane.knows_future && ratio(lane.waf()) == waf);
            best |= is_best;
            line.push(format!("{} {}", ratio(lane.waf()), if is_best { '*' } else { ' ' }));
            line.extend([ratio(lane.steady_waf()), count(lane.counters.gc_pages)]);
        }
        cells.push(line);
        best_rows.push(best);
    }
    // A trailing non-breaking width for the mark: right-aligned cells keep their spaces.
    let mut lines = columns(&cells, &sides);
    for (line, best) in lines.iter_mut().skip(1).zip(best_rows) {
        if best {
            *line = format!("{BOLD}{line}{BOLD:#}");
        }
    }
    lines
}

/// The lowest WAF, as printed, of the schemes that do not know the future; `None` when they are all
/// equal, so that none deserves a mark.
fn best_waf(lanes: &[LaneResult], destination: GcDestination) -> Option<String> {
    let wafs: Vec<f64> = lanes
        .iter()
        .filter(|l| l.settings.gc_destination == destination && !l.knows_future)
        .filter_map(LaneResult::waf)
        .collect();
    let lowest = wafs.iter().copied().min_by(f64::total_cmp)?;
    let printed = ratio(Some(lowest));
    wafs.iter().any(|w| ratio(Some(*w)) != printed).then_some(printed)
}

/// What the best scheme saves against `baseline` on the same kind of device.
fn headline(lanes: &[LaneResult]) -> Vec<String> {
    let online = || lanes.iter().filter(|l| !l.knows_future && l.waf().is_some());
    let Some(best) = online().min_by(|a, b| a.waf().partial_cmp(&b.waf()).expect("a WAF is a number")) else {
        return vec!["The host wrote nothing: there is no WAF.".to_owned()];
    };
    let destination = best.settings.gc_destination;
    let Some(baseline) = baseline_of(lanes, destination).filter(|b| b.flash_pages() > best.flash_pages())
    else {
        return Vec::new();
    };
    let saved = 1.0 - best.flash_pages() as f64 / baseline.flash_pages() as f64;
    vec![format!(
        "* lowest WAF without knowing the future: {} with gc {destination} programs {} less flash than baseline.",
        best.scheme,
        percent(saved),
    )]
}

fn device_lines(simulation: &Simulation) -> Vec<String> {
    let lane = &simulation.results[0];
    let geometry = &lane.geometry;
    let host_pages = simulation.writers.totals().host_pages;
    let share = |pages: u64, of: u64| percent(pages as f64 / of as f64);
    let (_, destinations) = grid(&simulation.results);
    let open = destinations.iter().map(|destination| {
        let lane = simulation.results.iter().find(|l| l.settings.gc_destination == *destination);
        let geometry = &lane.expect("it occurs").geometry;
        let left = percent(geometry.worst_case_spare_factor());
        format!("{destination} up to {} open, Sf {left} without them", geometry.open_superblocks())
    });
    let from = simulation.about.device.as_ref().map_or(String::new(), |origin| format!("; {origin}"));
    vec![
        format!(
            "device   {} logical, {} flash: spare factor Sf {} = overprovisioning OP {}; victims {}{from}",
            page_bytes(geometry.logical_pages()),
            page_bytes(geometry.physical_pages()),
            percent(geometry.spare_factor()),
            percent(geometry.overprovisioning()),
            lane.settings.victim,
        ),
        format!(
            "         {} superblocks of {} ({} of the flash); {} streams, S0 included; {}",
            geometry.superblocks(),
            page_bytes(u64::from(geometry.superblock_pages())),
            share(u64::from(geometry.superblock_pages()), geometry.physical_pages()),
            geometry.streams(),
            open.collect::<Vec<_>>().join("; "),
        ),
        format!(
            "ratios   prefilled {} of the logical pages, host wrote {:.2} x the logical pages; steady from {} of it on",
            share(lane.prefill_pages, geometry.logical_pages()),
            host_pages as f64 / geometry.logical_pages() as f64,
            if host_pages == 0 { "-".to_owned() } else { share(lane.steady_start.host_pages, host_pages) },
        ),
    ]
}

/// Why a WAF is 1, by reason: a 1 that means "the device was never full" is no success.
fn why_one(lanes: &[LaneResult]) -> Vec<String> {
    let mut by_reason: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for lane in lanes.iter().filter(|l| l.host_pages() > 0 && l.counters.gc_pages == 0) {
        let who = format!("{}/{}", lane.scheme, lane.settings.gc_destination);
        let reason = match lane.counters.erases {
            0 => {
                "GC never ran, because free superblocks never ran out; write more, prefill more (--prefill), \
                  or give the device less --spare-factor"
                    .to_owned()
            }
            // Until the flash has been written once, victims may be what was there before.
            _ if lane.host_pages() < lane.geometry.physical_pages() => format!(
                "too little was written to say anything: {} of {} of flash",
                page_bytes(lane.host_pages()),
                page_bytes(lane.geometry.physical_pages()),
            ),
            _ => "every victim was empty: what was written together died together".to_owned(),
        };
        by_reason.entry(reason).or_default().push(who);
    }
    let line = |(reason, who): (String, Vec<String>)| {
        let who = if who.len() == lanes.len() { "every result".to_owned() } else { who.join(", ") };
        format!("WAF 1    {who}: {reason}")
    };
    by_reason.into_iter().map(line).collect()
}

/// Plain sentences about what is missing from the trace.
pub(crate) fn loss_lines(trace: &TraceInfo) -> Vec<String> {
    let mut lines = Vec::new();
    let lost: Vec<String> =
        trace.losses.iter().filter(|(_, n)| **n > 0).map(|(cause, n)| format!("{cause} {n}")).collect();
    if !lost.is_empty() {
        lines.push(format!("losses   missing from the trace: {}", lost.join(", ")));
    }
    if !trace.complete {
        lines.push("losses   the recorder did not finish this trace: its end is missing".to_owned());
    }
    if let Some(damage) = &trace.damage {
        lines.push(format!("losses   the trace is damaged and was read up to there: {damage}"));
    }
    lines
}
