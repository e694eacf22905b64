//! A snapshot as lines of text, and the cells that a terminal shows, too.

use std::fmt::Write as _;
use std::time::Duration;

use pcstream_report::Layout;
use pcstream_report::escape::visible;
use pcstream_report::human::{bytes, count, counted, page_bytes, percent};
use pcstream_report::layout::columns_of;
use pcstream_report::table::{self, Side, side_by_side};
use pcstream_trace::paths::file_name;

use crate::snapshot::{ContextNow, Snapshot, SortBy};

/// Longest call path in a table, in characters.
const PATH_WIDTH: usize = 110;

/// A column: its heading, and the rest of what a table needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Bytes per second.
    Rate,
    /// Share of what was written in the window.
    Share,
    /// Bytes since the watch began.
    Total,
    /// Median lifetime.
    Lifetime,
    /// Stream.
    Stream,
    /// Name of the program, and of its thread where that says more.
    Program,
    /// Name of the file written most.
    File,
    /// Frames that tell the call path from others.
    Path,
}

impl Column {
    /// From left to right.
    pub const ALL: [Column; 8] = [
        Column::Rate,
        Column::Share,
        Column::Total,
        Column::Lifetime,
        Column::Stream,
        Column::Program,
        Column::File,
        Column::Path,
    ];

    /// What stands above it.
    pub fn heading(self) -> &'static str {
        match self {
            Column::Rate => "rate",
            Column::Share => "share",
            Column::Total => "total",
            Column::Lifetime => "life p50",
            Column::Stream => "stream",
            Column::Program => "program",
            Column::File => "most to",
            Column::Path => "call path, innermost first",
        }
    }

    /// Whether it holds a number, which keeps to the right.
    pub fn is_number(self) -> bool {
        matches!(self, Column::Rate | Column::Share | Column::Total | Column::Lifetime | Column::Stream)
    }

    /// The order that rows are in by this column.
    pub fn sort(self) -> Option<SortBy> {
        Some(match self {
            Column::Rate => SortBy::Rate,
            Column::Total => SortBy::Total,
            Column::Lifetime => SortBy::Lifetime,
            Column::Stream => SortBy::Stream,
            Column::Program => SortBy::Program,
            Column::File => SortBy::File,
            Column::Share | Column::Path => return None,
        })
    }

    /// What a row shows there. Nothing in it moves the cursor.
    pub fn cell(self, row: &ContextNow) -> String {
        match self {
            Column::Rate => per_second(row.written.rate),
            Column::Share => share(row.share),
            Column::Total => page_bytes(row.written.total_pages),
            Column::Lifetime => row.lifetimes.map_or("-".to_owned(), |q| page_bytes(q.p50)),
            Column::Stream => row.stream.map_or("-".to_owned(), |stream| format!("S{}", stream.0)),
            Column::Program => program(row),
            Column::File => match file_name(row.file()) {
                "" => "-".to_owned(),
                name => visible(name).into_owned(),
            },
            Column::Path => path(row),
        }
    }
}

/// A share in at most six characters, as the screen's column has: `75.0 %`, `<0.01`, `>99.9`. A cut one would lose its sign.
fn share(share: f64) -> String {
    let text = percent(share);
    match text.starts_with(['<', '>']) {
        true => text.chars().filter(|c| !matches!(c, ' ' | '%')).collect(),
        false => text,
    }
}

/// A rate: `12.3 MiB/s`.
pub fn per_second(rate: f64) -> String {
    format!("{}/s", bytes(rate as u64))
}

fn program(row: &ContextNow) -> String {
    let Some(context) = &row.context else { return format!("({})", row.who.name()) };
    let executable = file_name(&context.executable);
    // The kernel keeps 15 characters of a thread's name.
    let same = context.comm.is_empty() || executable.starts_with(&context.comm);
    let text = if same { executable.to_owned() } else { format!("{executable} ({})", context.comm) };
    visible(&text).into_owned()
}

fn path(row: &ContextNow) -> String {
    let Some(context) = &row.context else { return String::new() };
    let parts = [context.entry.as_str(), row.path.as_str()];
    let text = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" < ");
    pcstream_report::escape::visible_part(&text, PATH_WIDTH)
}

/// One line on everything written, and one on each thing that is wrong.
pub fn summary(snapshot: &Snapshot) -> String {
    let mut line = format!(
        "{} written, {} discarded; {}; rates over {}, watched for {}",
        per_second(snapshot.written.rate),
        per_second(snapshot.discarded.rate),
        counted(snapshot.context_count as u64, "context"),
        time(snapshot.window),
        time(snapshot.elapsed),
    );
    if snapshot.lost() > 0 {
        line += &format!("; {} lost", count(snapshot.lost()));
    }
    line
}

/// Rates of the streams that were written to, in one line; empty without a scheme.
pub fn streams(snapshot: &Snapshot) -> String {
    let used = snapshot.streams.iter().filter(|stream| stream.written.total_pages > 0);
    used.map(|stream| format!("S{} {}", stream.stream.0, per_second(stream.written.rate)))
        .collect::<Vec<_>>()
        .join("  ")
}

/// Rates of the streams that are written to now, the fastest first; `..` stands for those that `width` has no room for.
pub fn streams_within(snapshot: &Snapshot, width: usize) -> String {
    let mut used: Vec<_> = snapshot.streams.iter().filter(|stream| stream.written.rate > 0.0).collect();
    used.sort_by(|a, b| b.written.rate.total_cmp(&a.written.rate));
    let parts = used.iter().map(|used| format!("S{} {}", used.stream.0, per_second(used.written.rate)));
    parts_within(&parts.collect::<Vec<_>>(), "  ", width)
}

/// Parts of a line with a gap between them; `..` stands for those at the end that `width` has no room for.
pub fn parts_within(parts: &[String], gap: &str, width: usize) -> String {
    let mut line = String::new();
    for (place, next) in parts.iter().enumerate() {
        let room = if place + 1 < parts.len() { gap.len() + "..".len() } else { 0 };
        let gap = if place == 0 { "" } else { gap };
        if columns_of(&line) + gap.len() + columns_of(next) + room > width {
            return line + gap + "..";
        }
        line += gap;
        line += next;
    }
    line
}

/// A time for people: `250 ms`, `2.0 s`, `3 min 20 s`, `5 h 2 min`.
pub fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 => format!("{} ms", time.as_millis()),
        1..=59 => format!("{:.1} s", time.as_secs_f64()),
        60..=3599 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// The snapshot as a table of at most `rows` rows.
pub fn table(snapshot: &Snapshot, by: SortBy, rows: usize, layout: Layout) -> String {
    let order = snapshot.order(by, false);
    let shown = &order[..order.len().min(rows)];
    let columns = Column::ALL.map(|column| {
        let side = if column.is_number() { Side::Right } else { Side::Left };
        let cells = shown.iter().map(|at| column.cell(&snapshot.contexts[*at]));
        table::Column::new(side, column.heading(), cells)
    });
    let mut out = String::new();
    layout.wrap(&summary(snapshot), 2).iter().for_each(|line| _ = writeln!(out, "{line}"));
    if !streams(snapshot).is_empty() {
        layout
            .wrap(&format!("streams: {}", streams(snapshot)), 2)
            .iter()
            .for_each(|line| _ = writeln!(out, "{line}"));
    }
    if shown.is_empty() {
        out += "Nothing was written.\n";
    } else {
        side_by_side(&columns).iter().for_each(|line| _ = writeln!(out, "{}", layout.cut(line)));
    }
    if order.len() > shown.len() {
        let rest = &order[shown.len()..];
        let rate: f64 = rest.iter().map(|at| snapshot.contexts[*at].written.rate).sum();
        _ = writeln!(out, "{} more rows with {} (--rows)", rest.len(), per_second(rate));
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use pcstream_placement::Stream;
    use pcstream_replay::Quartiles;
    use pcstream_report::human::losses;
    use pcstream_trace::{Context, ContextId};

    use super::*;
    use crate::snapshot::{Flow, StreamNow, Who};

    fn snapshot() -> Snapshot {
        let flow =
            |pages: u64| Flow { pages, total_pages: pages, rate: pages as f64 * 2048.0, history: vec![] };
        let row = |id: u32, pages: u64, file: &str| ContextNow {
            who: Who::Context(ContextId(id)),
            context: Some(Arc::new(Context {
                id: ContextId(id),
                executable: "/usr/bin/db".into(),
                comm: "db:flush\n".into(),
                entry: "pwrite64".into(),
                ..Context::default()
            })),
            path: "Log::append < main".into(),
            written: flow(pages),
            share: pages as f64 / 100.0,
            pages_by_kind: [pages, 0, 0, 0, 0, 0],
            lifetimes: (id == 1).then_some(Quartiles { p25: 1, p50: 256, p75: 300 }),
            ended: 9,
            expected: None,
            stream: Some(Stream(id as u8)),
            files: vec![file.into()],
            first: Duration::ZERO,
            last: Duration::ZERO,
        };
        Snapshot {
            elapsed: Duration::from_secs(200),
            interval: Duration::from_secs(2),
            window: Duration::from_secs(2),
            written: flow(100),
            contexts: vec![row(1, 75, "/data/wal\x1b[2J.log"), row(2, 25, "/data/table")],
            streams: vec![StreamNow { stream: Stream(1), written: flow(75), contexts: 1 }],
            losses: [("missed_events".to_owned(), 7)].into(),
            context_count: 2,
            ..Snapshot::default()
        }
    }

    #[test]
    fn a_table_says_what_writes() {
        let text = table(&snapshot(), SortBy::Rate, 1, Layout::PLAIN);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "200 KiB/s written, 0 B/s discarded; 2 contexts; rates over 2.0 s, watched for 3 min 20 s; 7 lost"
        );
        assert_eq!(lines[1], "streams: S1 150 KiB/s");
        assert_eq!(
            lines[3],
            "150 KiB/s  75.0 %  300 KiB  1.00 MiB      S1  db (db:flush\\n)  wal\\x1b[2J.log  \
             pwrite64 < Log::append < main"
        );
        assert_eq!(lines[4], "1 more rows with 50.0 KiB/s (--rows)");
        let narrow = Layout { width: Some(40), ..Layout::PLAIN };
        assert!(table(&snapshot(), SortBy::Rate, 9, narrow).lines().all(|line| line.chars().count() <= 40));
    }

    #[test]
    fn shares_fit_their_column() {
        let shares = [0.0, 0.000_000_1, 0.000_099, 0.0001, 0.75, 0.9994, 0.9999, 1.0].map(share);
        assert_eq!(shares, ["0 %", "<0.01", "<0.01", "0.01 %", "75.0 %", "99.9 %", ">99.9", "100 %"]);
        assert!(shares.iter().all(|text| text.len() <= 6), "{shares:?}");
    }

    #[test]
    fn streams_fit_a_line_the_fastest_first() {
        let mut snapshot = snapshot();
        let stream = |id, pages: u64| StreamNow {
            stream: Stream(id),
            written: Flow { rate: pages as f64 * 4096.0, ..Flow::default() },
            contexts: 1,
        };
        snapshot.streams = vec![stream(0, 1), stream(1, 256), stream(2, 0), stream(3, 512)];
        assert_eq!(streams_within(&snapshot, 80), "S3 2.00 MiB/s  S1 1.00 MiB/s  S0 4.00 KiB/s");
        assert_eq!(streams_within(&snapshot, 42), "S3 2.00 MiB/s  S1 1.00 MiB/s  ..");
        assert_eq!(streams_within(&snapshot, 20), "S3 2.00 MiB/s  ..");
        assert_eq!(streams_within(&snapshot, 3), "..");
    }

    #[test]
    fn times_are_short() {
        let of = |ms| time(Duration::from_millis(ms));
        assert_eq!([250, 2000, 200_000, 18_120_000].map(of), ["250 ms", "2.0 s", "3 min 20 s", "5 h 2 min"]);
    }

    #[test]
    fn nothing_is_said_of_no_losses() {
        assert_eq!(losses(&BTreeMap::new()), "");
        assert_eq!(losses(&snapshot().losses), "missed_events 7");
        assert!(table(&Snapshot::default(), SortBy::Rate, 9, Layout::PLAIN).contains("Nothing was written."));
    }
}
