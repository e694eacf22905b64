//! Draws a view. The same view on the same area gives the same picture.
//!
//! Columns that do not fit are left out, those of the call path last: a narrow terminal shows who writes how fast.

use pcstream_report::escape::{visible, visible_part};
use pcstream_report::human::{count, counted, losses, page_bytes, percent};
use pcstream_report::layout::columns_of;
use pcstream_trace::Kind;
use pcstream_trace::paths::file_name;
use pcstream_watch::text::{self, Column, per_second};
use pcstream_watch::{ContextNow, RowsBy, Snapshot, Who};
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Sparkline, Table, TableState, Wrap};

use super::view::View;

const KEYS: &[(&str, &str)] = &[
    ("q", "ends"),
    ("Up, Down", "select a row, or scroll"),
    ("Enter", "shows the call path of a row; Esc goes back"),
    ("/", "shows rows with a text in program, functions or files; Esc ends that"),
    ("s", "sorts by the next column"),
    ("r", "reverses the order"),
    ("b", "shows a row for each program, which Enter opens, or for each call path"),
    ("Space", "pauses, and goes on"),
    ("?", "shows or hides this"),
];

/// A column's most width, and the width of a terminal from which on it is shown. Those of words are as wide as what they
/// hold, twice as wide at most on a wide terminal. A column without a most width takes what is left.
const COLUMNS: [(Column, u16, u16); 8] = [
    (Column::Rate, 10, 0),
    (Column::Share, 6, 50),
    (Column::Total, 8, 100),
    (Column::Lifetime, 8, 70),
    (Column::Stream, 6, 60),
    (Column::Program, 16, 0),
    (Column::File, 14, 78),
    (Column::Path, 0, 40),
];

/// From this width on a terminal is wide.
const WIDE: u16 = 140;
/// What the first line keeps for the rate: `1023 MiB/s written, ..`.
const RATE_WIDTH: usize = 23;
/// Files of a context that are shown above its call path; the others come below it.
const FILES: usize = 3;

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, view: &mut View) {
    let area = frame.area();
    let spark = if area.height >= 12 { 2 } else { 0 };
    let path = if area.height >= 16 && view.shows_table() { 2 } else { 0 };
    let parts = [2, spark].map(Constraint::Length).into_iter();
    let parts = parts.chain([Constraint::Min(1), Constraint::Length(path), Constraint::Length(1)]);
    let [head, history, body, chosen, foot] = Layout::vertical(parts).areas(area);
    frame.render_widget(Paragraph::new(heading(view, usize::from(area.width))), head);
    let rates = match (&view.detail, &view.snapshot) {
        (Some(row), _) => row.written.history.clone(),
        (None, Some(snapshot)) => snapshot.written.history.clone(),
        (None, None) => Vec::new(),
    };
    frame.render_widget(sparkline(&rates, history.width, tint(view, Color::Green)), history);
    view.page = usize::from(body.height.saturating_sub(1));
    if view.help {
        frame.render_widget(Paragraph::new(help()).wrap(Wrap { trim: false }), body);
    } else if let Some(row) = view.detail.clone() {
        detail(frame, view, &row, body);
    } else if view.order().is_empty() {
        let text = match &view.snapshot {
            None => "Watching ...",
            Some(snapshot) if snapshot.contexts.is_empty() => match view.program {
                None => "Nothing was written.",
                Some(_) => "This program wrote nothing for a while. Esc shows all.",
            },
            Some(_) => "No row has this text in program, functions or files. Esc shows all.",
        };
        frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: false }), body);
    } else {
        table(frame, view, body);
        frame.render_widget(Paragraph::new(chosen_path(view)).wrap(Wrap { trim: false }), chosen);
    }
    let keys = foot_line(view, usize::from(area.width));
    frame.render_widget(Paragraph::new(keys).style(tint(view, Color::DarkGray)), foot);
}

fn tint(view: &View, color: Color) -> Style {
    if view.colors { Style::new().fg(color) } else { Style::new() }
}

fn heading(view: &View, width: usize) -> Vec<Line<'_>> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let paused = if view.paused { "PAUSED " } else { "" };
    // The title gives way to the rate.
    let title = visible_part(&view.title, width.saturating_sub(paused.len() + RATE_WIDTH).max(8));
    let mut first = vec![Span::styled(format!("{title} "), bold)];
    let Some(snapshot) = &view.snapshot else { return vec![Line::from(first)] };
    first.push(Span::styled(paused, bold.patch(tint(view, Color::Yellow))));
    let parts = [
        format!("{} written", per_second(snapshot.written.rate)),
        format!("{} discarded", per_second(snapshot.discarded.rate)),
        counted(snapshot.context_count as u64, "context"),
        text::time(snapshot.elapsed),
    ];
    let room = width.saturating_sub(first.iter().map(Span::width).sum());
    first.push(Span::raw(text::parts_within(&parts, ", ", room)));
    let second = match snapshot.lost() {
        0 => Line::raw(text::streams_within(snapshot, width)),
        _ => {
            let lost: Vec<String> = losses(&snapshot.losses).split(", ").map(str::to_owned).collect();
            let lost = text::parts_within(&lost, ", ", width.saturating_sub("lost: ".len()));
            Line::styled(format!("lost: {lost}"), bold.patch(tint(view, Color::Red)))
        }
    };
    vec![Line::from(first), second]
}

/// The last intervals that fit, the last one at the right.
fn sparkline(rates: &[f64], width: u16, style: Style) -> Sparkline<'static> {
    let skipped = rates.len().saturating_sub(usize::from(width));
    let data: Vec<u64> = rates[skipped..].iter().map(|rate| *rate as u64).collect();
    Sparkline::default().data(data).style(style)
}

fn columns(width: u16, rows: &[ContextNow]) -> Vec<(Column, Constraint)> {
    let times = if width >= WIDE { 2 } else { 1 };
    let shown = COLUMNS.iter().filter(|(_, _, from)| width >= *from);
    shown
        .map(|(column, most, _)| {
            let constraint = match (most, column.is_number()) {
                (0, _) => Constraint::Min(10),
                (most, true) => Constraint::Length(*most),
                (most, false) => Constraint::Length(widest(*column, rows).min(times * most)),
            };
            (*column, constraint)
        })
        .collect()
}

/// Of a column with its heading.
fn widest(column: Column, rows: &[ContextNow]) -> u16 {
    let cells = rows.iter().map(|row| columns_of(&column.cell(row)));
    let widest = cells.chain([column.heading().len()]).max().unwrap_or(0);
    u16::try_from(widest).unwrap_or(u16::MAX)
}

fn table(frame: &mut Frame<'_>, view: &View, area: Rect) {
    let Some(snapshot) = &view.snapshot else { return };
    let columns = columns(area.width, &snapshot.contexts);
    let order = view.order();
    let heading = columns.iter().map(|(column, _)| {
        let sorted = column.sort() == Some(view.sort);
        let name = if *column == Column::Path { "call path" } else { column.heading() };
        let style = if sorted { Modifier::BOLD | Modifier::UNDERLINED } else { Modifier::BOLD };
        cell(*column, name.to_owned()).style(Style::new().add_modifier(style))
    });
    let lines = order.iter().map(|at| line(snapshot, *at, &columns));
    let widths = columns.iter().map(|(_, constraint)| *constraint);
    let table = Table::new(lines, widths)
        .header(Row::new(heading))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::new().with_selected(view.selected(&order));
    frame.render_stateful_widget(table, area, &mut state);
}

fn line(snapshot: &Snapshot, at: usize, columns: &[(Column, Constraint)]) -> Row<'static> {
    let row = &snapshot.contexts[at];
    Row::new(columns.iter().map(|(column, _)| cell(*column, column.cell(row))))
}

fn cell(column: Column, text: String) -> Cell<'static> {
    let side = if column.is_number() { Alignment::Right } else { Alignment::Left };
    Cell::from(Line::raw(text).alignment(side))
}

/// The call path of the selected row, or of the first, as far as two lines hold it.
fn chosen_path(view: &View) -> String {
    let order = view.order();
    let at = view.selected(&order).unwrap_or(0);
    let row = view.snapshot.as_ref().zip(order.get(at)).map(|(snapshot, at)| &snapshot.contexts[*at]);
    row.map_or(String::new(), |row| Column::Path.cell(row))
}

fn help() -> Vec<Line<'static>> {
    let mut lines: Vec<Line<'_>> =
        KEYS.iter().map(|(key, does)| Line::raw(format!("{key:<10} {does}"))).collect();
    lines.extend([
        Line::raw(""),
        Line::raw("rate: bytes that reached the device per second, mean of the last five intervals"),
        Line::raw("life p50: what the host wrote until half of the pages that died were dead"),
        Line::raw("stream: where the scheme pcstream, which learns as it goes, put the last write"),
    ]);
    lines
}

fn foot_line(view: &View, width: usize) -> String {
    let sort = format!("s sort: {}", view.sort.name());
    let opens = view.by == RowsBy::Program && view.program.is_none();
    let enter = if opens { "Enter call paths" } else { "Enter call path" };
    let text = visible(&view.filter);
    let (filter, typed) = (format!("Esc ends filter: {text}"), format!("/{text}_"));
    let keys: &[&str] = match (view.help, view.detail.is_some(), view.filter.as_str()) {
        _ if view.typing => &[&typed, "Enter keep", "Esc show all"],
        (true, ..) => &["q end", "Esc back"],
        (_, true, _) => &["q end", "Esc back", "Up Down scroll", "Space pause"],
        (.., "") if view.program.is_some() => &["q end", "? help", enter, "Esc programs", "/ filter", &sort],
        (.., "") => &["q end", "? help", enter, "/ filter", "Space pause", &sort, "r reverse"],
        _ => &[&filter, "q end", "? help", enter, "Space pause", &sort, "r reverse"],
    };
    text::parts_within(&keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>(), "  ", width)
}

/// One call path, whole.
fn detail(frame: &mut Frame<'_>, view: &View, row: &ContextNow, area: Rect) {
    let mut above = facts(view, row);
    above.extend(files(row).take(FILES));
    let lines = above.into_iter().chain(frames(row)).chain(files(row).skip(FILES));
    let text = Paragraph::new(lines.collect::<Vec<_>>()).wrap(Wrap { trim: false });
    frame.render_widget(text.scroll((view.scroll, 0)), area);
}

fn fact(name: &'static str, value: String) -> Line<'static> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    Line::from(vec![Span::styled(format!("{name:<10} "), bold), Span::raw(visible(&value).into_owned())])
}

/// What writes without a context.
fn nobody(who: Who) -> String {
    match who {
        Who::FileSystem(kind) => format!("the file system ({})", kind.name()),
        _ => "(unknown): data whose context was lost, or dirty before the watch began".to_owned(),
    }
}

fn facts(view: &View, row: &ContextNow) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    match &row.context {
        Some(context) => {
            lines.push(fact("program", context.executable.clone()));
            lines.push(fact("thread", context.comm.clone()));
            lines.push(fact(
                "context",
                format!("{} ({}, {})", context.signature, context.entry, context.unwind.name()),
            ));
        }
        None => lines.push(fact("written by", nobody(row.who))),
    }
    let written = &row.written;
    let (rate, share) = (per_second(written.rate), percent(row.share));
    lines.push(fact("rate", format!("{rate}, {share}; {} in all", page_bytes(written.total_pages))));
    let after = |pages: u64| {
        let seconds = view.snapshot.as_ref().and_then(|snapshot| snapshot.seconds_of(pages));
        let at_this_rate = seconds.and_then(|seconds| std::time::Duration::try_from_secs_f64(seconds).ok());
        let time = at_this_rate.map_or(String::new(), |time| format!(" (now {})", text::time(time)));
        format!("{}{time}", page_bytes(pages))
    };
    lines.push(match row.lifetimes {
        Some(q) => {
            fact("lifetime", format!("p25 {}, p50 {}, p75 {}", after(q.p25), after(q.p50), after(q.p75)))
        }
        None => fact("lifetime", "no page that was followed has died yet".to_owned()),
    });
    let stream = row.stream.map_or("-".to_owned(), |stream| format!("S{}", stream.0));
    let expected = row.expected.map_or("no lifetime is known yet".to_owned(), |expected| {
        let (life, samples) = (page_bytes(expected.lifetime), count(expected.samples.into()));
        format!("expected lifetime {life}, of {samples} samples")
    });
    lines.push(fact("stream", format!("{stream}; {expected}")));
    let kinds = Kind::ALL.iter().zip(&row.pages_by_kind).filter(|(_, pages)| **pages > 0);
    let kinds: Vec<_> =
        kinds.map(|(kind, pages)| format!("{} {}", kind.name(), page_bytes(*pages))).collect();
    lines.push(fact("kinds", kinds.join(", ")));
    lines.push(fact(
        "seen",
        format!("first {} ago, last {} ago", text::time(row.first), text::time(row.last)),
    ));
    lines
}

/// The most written first.
fn files(row: &ContextNow) -> impl Iterator<Item = Line<'static>> {
    let named = row.files.iter().map(|path| if path.is_empty() { "(no name)" } else { path });
    named.map(|path| fact("file", path.to_owned()))
}

fn frames(row: &ContextNow) -> Vec<Line<'static>> {
    let Some(context) = &row.context else { return Vec::new() };
    let mut lines = vec![Line::raw("")];
    for (number, frame) in context.frames.iter().enumerate() {
        let symbol = if frame.symbol.is_empty() { "(no symbol)" } else { &frame.symbol };
        let place = format!("{}+{:#x}", file_name(&frame.module), frame.offset);
        lines.push(Line::raw(format!("#{number:<3} {}  [{}]", visible(symbol), visible(&place))));
    }
    lines.push(Line::raw(""));
    lines
}
