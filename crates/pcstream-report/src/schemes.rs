//! The comparison of schemes as text: the verdict, one row per scheme with the kinds of drive side by
//! side, and below it what a reader needs to trust or doubt the numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use anstyle::Style;
use pcstream_replay::{LaneResult, Writers};
use pcstream_ssd::GcDestination;

use crate::drive::{column_head, reference, result_in_words, saved};
use crate::escape::{visible, visible_start};
use crate::human::{count, counted, losses, page_bytes, percent, ratio, saving};
use crate::layout::Layout;
use crate::table::{Column, Side, groups_within, within};
use crate::verdict::{says_nothing, seconds};
use crate::{Simulation, VERSION, Verdict, timing};

/// Longest command line printed, in characters; JSON has it whole.
const COMMAND_WIDTH: usize = 200;
const BOLD: Style = Style::new().bold();
const WARNING: Style = Style::new().bold().fg_color(Some(anstyle::Color::Ansi(anstyle::AnsiColor::Yellow)));

/// What schemes remark, once for all drives, such as rules that did nothing; behind `prefix`.
pub fn remarks(lanes: &[LaneResult], prefix: &str) -> Vec<String> {
    let mut said = BTreeSet::new();
    let remarks = lanes.iter().flat_map(|lane| &lane.remarks);
    remarks.filter(|remark| said.insert(*remark)).map(|remark| format!("{prefix}{remark}")).collect()
}

/// The whole result of `simulate` as text: the verdict, one table, and what it rests on.
pub fn text(simulation: &Simulation, layout: Layout) -> String {
    let lanes = &simulation.results;
    let mut out = String::new();
    let mut lines = |group: Vec<String>| {
        for line in &group {
            out += line;
            out.push('\n');
        }
        if !group.is_empty() {
            out.push('\n');
        }
    };
    lines(origin(simulation, layout));
    lines(verdict_lines(&Verdict::of(simulation), layout));
    lines(scheme_table(lanes, layout));
    lines(timing::lines(lanes, layout));
    if layout.details {
        lines(details_table(lanes, layout));
    }
    let below = device_lines(simulation, layout.details).into_iter().chain(why_one(lanes));
    below.flat_map(|line| layout.wrap(&line, 9)).for_each(|line| _ = writeln!(out, "{line}"));
    for line in loss_lines(simulation).iter().flat_map(|line| layout.wrap(line, 9)) {
        _ = writeln!(out, "{WARNING}{line}{WARNING:#}");
    }
    out
}

/// The conclusion, which stands out, and a list of what else there is to say.
fn verdict_lines(verdict: &Verdict, layout: Layout) -> Vec<String> {
    let Some((conclusion, others)) = verdict.sentences.split_first() else { return Vec::new() };
    let first = layout.wrap(&format!("Verdict: {conclusion}"), 0).into_iter();
    let first = first.map(|line| format!("{BOLD}{line}{BOLD:#}"));
    first.chain(others.iter().flat_map(|sentence| layout.wrap(&format!("- {sentence}"), 2))).collect()
}

/// Version, seed and trace: what is needed to repeat the result.
pub(crate) fn origin(simulation: &Simulation, layout: Layout) -> Vec<String> {
    let (about, totals) = (&simulation.about, simulation.writers.totals());
    let trace = &about.trace;
    let path = if trace.path.is_empty() { "(not kept)" } else { &trace.path };
    let mut lines = vec![
        format!("pcstream {VERSION}, seed {}", about.seed),
        format!("trace    {}, id {}", visible(path), trace.id),
    ];
    if !trace.command.is_empty() {
        let command = visible_start(&trace.command.join(" "), COMMAND_WIDTH);
        lines.push(layout.cut(&format!("command  {command}")));
    }
    let (time, rate) = seconds(simulation).map_or_else(Default::default, |seconds| {
        let a_day = (totals.host_pages as f64 * 86_400.0 / seconds) as u64;
        (format!(" in {seconds:.1} s"), format!(" ({} a day)", page_bytes(a_day)))
    });
    let events = format!(
        "         {}{time}: {} written{rate}, {} discarded; {}, {}",
        counted(totals.events, "event"),
        page_bytes(totals.host_pages),
        page_bytes(totals.discarded_pages + totals.zeroed_pages),
        counted(contexts_that_wrote(simulation.writers), "context"),
        coverage(simulation),
    );
    lines.extend(layout.wrap(&events, 9));
    let paths = simulation.path_shares().text();
    lines.extend(paths.iter().flat_map(|paths| layout.wrap(&format!("         {paths}"), 9)));
    lines
}

/// Contexts that wrote pages; the file system's own writes have none.
pub(crate) fn contexts_that_wrote(writers: &Writers) -> u64 {
    writers.heaviest().iter().filter(|(context, _)| context.is_some()).count() as u64
}

/// How much of the file data has a context, and how much of it one by a call path that can be trusted.
pub(crate) fn coverage(simulation: &Simulation) -> String {
    let (writers, shares) = (simulation.writers, simulation.path_shares());
    if writers.totals().data_pages == 0 {
        return "no file data".to_owned();
    }
    let known = writers.context_coverage();
    let trusted = match shares.trusted() {
        trusted if shares.has_paths() && percent(trusted) != percent(known) => {
            format!(", {} by a call path that can be trusted", percent(trusted))
        }
        _ => String::new(),
    };
    format!("{} of the file data has a context{trusted}", percent(known))
}

/// The results of one scheme: one for each GC destination at most.
pub(crate) struct Row<'a> {
    pub scheme: &'a str,
    pub lanes: Vec<&'a LaneResult>,
}

impl<'a> Row<'a> {
    pub fn on(&self, destination: GcDestination) -> Option<&'a LaneResult> {
        self.lanes.iter().copied().find(|lane| lane.settings.gc_destination == destination)
    }
}

/// The GC destinations that occur, in order.
pub(crate) fn destinations(lanes: &[LaneResult]) -> Vec<GcDestination> {
    let occurs = |d: &GcDestination| lanes.iter().any(|lane| lane.settings.gc_destination == *d);
    GcDestination::ALL.into_iter().filter(occurs).collect()
}

/// Rows by scheme, in order. A second lane of the same scheme and destination
/// begins a row of its own.
pub(crate) fn grid(lanes: &[LaneResult]) -> Vec<Row<'_>> {
    let mut rows: Vec<Row> = Vec::new();
    for lane in lanes {
        let lacks = |row: &Row| row.scheme == lane.scheme && row.on(lane.settings.gc_destination).is_none();
        match rows.iter_mut().find(|row| lacks(row)) {
            Some(row) => row.lanes.push(lane),
            None => rows.push(Row { scheme: &lane.scheme, lanes: vec![lane] }),
        }
    }
    rows
}

/// A column of numbers: what `number` says of each row's result on `destination`, if there is one.
fn numbers(
    rows: &[Row],
    destination: GcDestination,
    head: impl Into<String>,
    number: impl Fn(&LaneResult) -> String,
) -> Column {
    let cell = |row: &Row| row.on(destination).map_or(String::new(), &number);
    Column::new(Side::Right, head, rows.iter().map(cell))
}

/// One row per scheme: WAF on every kind of drive, and flash saved against the reference.
fn scheme_table(lanes: &[LaneResult], layout: Layout) -> Vec<String> {
    let rows = grid(lanes);
    let reference = reference(lanes);
    let waf =
        |lane: &LaneResult| format!("{} {}", ratio(lane.waf()), if is_best(lanes, lane) { '*' } else { ' ' });
    let less = |lane: &LaneResult| reference.map_or("-".to_owned(), |reference| less(lane, reference));
    let names = rows.iter().map(|row| row.scheme.to_owned());
    let mut table = vec![Column::new(Side::Left, "\n\nscheme", names)];
    for destination in destinations(lanes) {
        let [first, second] = column_head(destination);
        // A trailing width for the mark: right-aligned cells keep their spaces.
        table.push(numbers(&rows, destination, format!("{first}  \n{second}  \nWAF  "), waf));
        table.push(numbers(&rows, destination, "\n\nless flash", less));
    }
    let mut lines = groups_within(&table, 1, 2, layout);
    for part in lines.split_mut(|line| line.is_empty()) {
        let heads = part.len() - rows.len();
        for (line, row) in part.iter_mut().skip(heads).zip(&rows) {
            if row.lanes.iter().any(|lane| is_best(lanes, lane)) {
                *line = format!("{BOLD}{line}{BOLD:#}");
            }
        }
    }
    if let Some(reference) = reference {
        let has_mark = lanes.iter().any(|lane| is_best(lanes, lane));
        let mark = if has_mark { "; *: lowest WAF without knowing the future" } else { "" };
        let note = format!("less flash: than {}{mark}", result_in_words(reference));
        lines.extend(layout.wrap(&note, 0));
    }
    lines
}

/// Flash saved, with a sign; `-` for the reference itself.
pub(crate) fn less(lane: &LaneResult, reference: &LaneResult) -> String {
    match saved(lane, reference) {
        _ if std::ptr::eq(lane, reference) => "-".to_owned(),
        Some(saved) => saving(saved),
        None => "-".to_owned(),
    }
}

/// More of every scheme: what stayed on S0, what GC copied.
fn details_table(lanes: &[LaneResult], layout: Layout) -> Vec<String> {
    let rows = grid(lanes);
    let on_s0 = |row: &Row| row.lanes[0].default_stream_share().map_or("-".to_owned(), percent);
    let mut table = vec![
        Column::new(Side::Left, "scheme", rows.iter().map(|row| row.scheme.to_owned())),
        Column::new(Side::Right, "on S0", rows.iter().map(on_s0)),
    ];
    for destination in destinations(lanes) {
        let head = format!("{destination}: GC pages");
        table.push(numbers(&rows, destination, head, |lane| count(lane.counters.gc_pages)));
    }
    within(&table, 1, layout)
}

/// Whether a result has the lowest WAF, as printed, of its kind of drive.
fn is_best(lanes: &[LaneResult], lane: &LaneResult) -> bool {
    let best = best_waf(lanes, lane.settings.gc_destination);
    !lane.knows_future && best.is_some_and(|waf| ratio(lane.waf()) == waf)
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

/// The victim policies of all results, each once: lanes may have one of their own.
pub(crate) fn victims(lanes: &[LaneResult]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for lane in lanes {
        if !names.contains(&lane.victims.as_str()) {
            names.push(&lane.victims);
        }
    }
    names.join(", ")
}

/// The device; its superblocks and what stays open as details.
fn device_lines(simulation: &Simulation, details: bool) -> Vec<String> {
    let lane = &simulation.results[0];
    let geometry = &lane.geometry;
    let host_pages = simulation.writers.totals().host_pages;
    let share = |pages: u64, of: u64| percent(pages as f64 / of as f64);
    let open = destinations(&simulation.results).into_iter().map(|destination| {
        let lane = simulation.results.iter().find(|l| l.settings.gc_destination == destination);
        let geometry = &lane.expect("it occurs").geometry;
        let left = percent(geometry.worst_case_spare_factor());
        format!(
            "{destination} up to {} open, Sf {left} without them and GC's own",
            geometry.open_superblocks()
        )
    });
    let steady = simulation.results.iter().filter(|lane| lane.steady.is_some()).count();
    let state = match steady {
        0 => "not steady: last part".to_owned(),
        all if all == simulation.results.len() => "steady".to_owned(),
        some => format!("steady: {some} of {} results; last part", simulation.results.len()),
    };
    let state = match host_pages {
        0 => String::new(),
        all => {
            format!("; {state} from {} of it on ({})", share(lane.steady_start.host_pages, all), lane.scheme)
        }
    };
    let from = simulation.about.origin().map_or(String::new(), |origin| format!("; {origin}"));
    let mut lines = vec![
        format!(
            "device   {} logical, {} flash: spare factor Sf {} = overprovisioning OP {}; victims {}{from}",
            page_bytes(geometry.logical_pages()),
            page_bytes(geometry.physical_pages()),
            percent(geometry.spare_factor()),
            percent(geometry.overprovisioning()),
            victims(&simulation.results),
        ),
        format!(
            "ratios   prefilled {} of the logical pages, host wrote {:.2} x the logical pages{state}",
            share(lane.prefill_pages, geometry.logical_pages()),
            host_pages as f64 / geometry.logical_pages() as f64,
        ),
    ];
    let mut superblocks = format!(
        "         {} superblocks of {} ({} of the flash); {}, S0 included",
        geometry.superblocks(),
        page_bytes(u64::from(geometry.superblock_pages())),
        share(u64::from(geometry.superblock_pages()), geometry.physical_pages()),
        counted(u64::from(geometry.streams()), "stream"),
    );
    if details {
        superblocks += &format!("; {}", open.collect::<Vec<_>>().join("; "));
    }
    lines.insert(1, superblocks);
    lines
}

/// Why a WAF is 1, by reason: a 1 that means "the device was never full" is no success.
fn why_one(lanes: &[LaneResult]) -> Vec<String> {
    let mut by_reason: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for lane in lanes.iter().filter(|l| l.host_pages() > 0 && l.counters.gc_pages == 0) {
        let who = format!("{}/{}", lane.scheme, lane.settings.gc_destination);
        let reason = match lane.counters.erases {
            0 => "GC never ran, because free superblocks never ran out".to_owned(),
            // Until the flash has been written once, victims may be what was there before.
            _ if says_nothing(lane) => format!(
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

/// What is missing from the trace, or from what schemes knew, as lines of a report.
pub fn loss_lines(simulation: &Simulation) -> Vec<String> {
    missing(simulation).iter().map(|what| format!("losses   {what}")).collect()
}

/// The same in words.
pub fn missing(simulation: &Simulation) -> Vec<String> {
    let trace = &simulation.about.trace;
    let mut lines = Vec::new();
    let lost = losses(&trace.losses);
    if !lost.is_empty() {
        lines.push(format!("missing from the trace: {lost}"));
    }
    if !trace.complete {
        lines.push("the recorder did not finish this trace: its end is missing".to_owned());
    }
    if let Some(damage) = &trace.damage {
        lines.push(format!("the trace is damaged and was read up to there: {damage}"));
    }
    lines.extend(simulation.dropped().iter().map(ToString::to_string));
    lines
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pcstream_placement::configure;
    use pcstream_replay::{LaneSpec, Replay};
    use pcstream_ssd::{DeviceSettings, OwnVictims, Select, Spare, Superblocks};
    use pcstream_trace::generators::{Common, generate};

    use super::*;
    use crate::{About, TraceInfo};

    /// The first candidate by number.
    struct First;

    impl Select for First {
        fn closed(&mut self, _: &mut Superblocks, _: u32, _: u16, _: u64) {}
        fn choose(&mut self, table: &Superblocks, _: u64) -> u32 {
            (1..=table.len()).find(|&superblock| table.is_closed(superblock)).unwrap_or(0)
        }
        fn removed(&mut self, _: &mut Superblocks, _: u32) {}
    }

    /// As of `run` without -o.
    #[test]
    fn a_run_is_packed_and_a_trace_that_is_kept_is_simulated_again() {
        let device =
            DeviceSettings { logical_pages: 4096, superblock_pages: 16, ..DeviceSettings::default() };
        let lane = LaneSpec::new(Arc::new(configure("baseline").unwrap()), device);
        let trace = generate("uniform", Common { pages: 64, writes: 64, seed: 1 }, &BTreeMap::new()).unwrap();
        let mut replay = Replay::new(&[lane], &[]).unwrap();
        trace.for_each(|batch| replay.feed(&batch).unwrap());
        let said = |path: &str| {
            let trace = TraceInfo { path: path.to_owned(), ..TraceInfo::default() };
            let about = About { trace, ..About::default() };
            Verdict::of(&Simulation::new(about, &replay)).sentences.join(" ")
        };
        assert!(said("").contains("or run it with --pack 0.9, as if"), "{}", said(""));
        let kept = said("t.pctrace");
        assert!(
            kept.contains("of a drive: `pcstream simulate TRACE --pack 0.9`.") && !kept.contains("-o"),
            "{kept}"
        );
    }

    #[test]
    fn kinds_of_drives_without_room_stand_below() {
        let lanes = GcDestination::ALL.map(|gc_destination| {
            let device = DeviceSettings {
                logical_pages: 1024,
                superblock_pages: 16,
                streams: 2,
                spare: Spare::SpareFactor(0.3),
                gc_destination,
                ..DeviceSettings::default()
            };
            LaneSpec::new(Arc::new(configure("vstream-executable").unwrap()), device)
        });
        let trace =
            generate("uniform", Common { pages: 1024, writes: 4096, seed: 1 }, &BTreeMap::new()).unwrap();
        let mut replay = Replay::new(&lanes, &trace.meta().prefilled.clone()).unwrap();
        trace.for_each(|batch| replay.feed(&batch).unwrap());
        let simulation = Simulation::new(About::default(), &replay);
        let of = |layout| {
            let lines = scheme_table(&simulation.results, layout);
            let plain =
                |line: &String| line.replace(&format!("{BOLD}"), "").replace(&format!("{BOLD:#}"), "");
            lines.iter().map(plain).collect::<Vec<_>>()
        };
        let named = |lines: &[String]| lines.iter().filter(|l| l.starts_with("vstream-executable ")).count();
        let (narrow, wide) = (of(Layout { width: Some(80), ..Layout::PLAIN }), of(Layout::PLAIN));
        assert!(narrow.iter().all(|line| line.len() <= 80), "{narrow:#?}");
        assert!(wide.iter().any(|line| line.len() > 80), "{wide:#?}");
        assert!(named(&narrow) > 1 && named(&wide) == 1, "{narrow:#?}");
        let flash =
            |lines: &[String]| lines.iter().map(|line| line.matches("less flash").count()).sum::<usize>();
        assert_eq!(flash(&narrow), flash(&wide), "no column is lost");
    }

    /// What a library's user has: a generated workload, and a report of two lanes that have the same name.
    #[test]
    fn lanes_of_one_name_have_a_row_each_and_nothing_is_said_to_be_lost() {
        let device = DeviceSettings {
            logical_pages: 1024,
            superblock_pages: 16,
            streams: 2,
            spare: Spare::SpareFactor(0.3),
            ..DeviceSettings::default()
        };
        let lane = |superblock_pages, victims: &str| LaneSpec {
            victims: Some(OwnVictims::new(victims, |_| Box::new(First))),
            ..LaneSpec::new(
                Arc::new(configure("baseline").unwrap()),
                DeviceSettings { superblock_pages, ..device.clone() },
            )
        };
        let trace =
            generate("uniform", Common { pages: 1024, writes: 4096, seed: 1 }, &BTreeMap::new()).unwrap();
        let about = About { trace: TraceInfo::from_meta("", trace.meta()), ..About::default() };
        let mut replay =
            Replay::new(&[lane(16, "first"), lane(32, "first-too")], &trace.meta().prefilled.clone())
                .unwrap();
        trace.for_each(|batch| replay.feed(&batch).unwrap());
        let simulation = Simulation::new(about, &replay);
        let text = text(&simulation, Layout::PLAIN);
        let wafs: Vec<String> = simulation.results.iter().map(|lane| ratio(lane.waf())).collect();
        assert_ne!(wafs[0], wafs[1]);
        for waf in wafs {
            assert!(
                text.lines().any(|line| line.contains("baseline ") && line.contains(&waf)),
                "{waf}: {text}"
            );
        }
        assert!(text.contains("victims first, first-too"), "{text}");
        assert!(
            !text.contains("losses") && !text.contains("pcstream ,") && text.contains("seed 1"),
            "{text}"
        );
    }
}
