//! One context whole: everything that is known of it, without shortening.

use std::fmt::Write;

use pcstream_trace::paths::file_name;
use pcstream_trace::{Context, Kind};

use crate::ContextRow;
use crate::escape::visible;
use crate::human::{page_bytes, percent};

/// The rows that `wanted` may mean: a number in the trace's table, or the beginning of a signature. A number with needless
/// zeros is none.
pub fn find<'a, 'b>(rows: &'b [ContextRow<'a>], wanted: &str) -> Vec<&'b ContextRow<'a>> {
    let by_signature = |row: &ContextRow| {
        row.context.is_some_and(|c| wanted.len() >= 4 && c.signature.to_string().starts_with(wanted))
    };
    let by_number = |row: &ContextRow| row.context.map_or(0, |c| c.id.0).to_string() == wanted;
    rows.iter().filter(|row| by_number(row) || by_signature(row)).collect()
}

/// A context as text. The stream is that of a `scheme`.
pub fn text(row: &ContextRow, scheme: &str) -> String {
    let mut out = String::new();
    let mut line = |name: &str, value: &str| _ = writeln!(out, "{name:<10} {}", visible(value));
    match row.who() {
        Ok(context) => {
            line("context", &format!("{} (number {} of the trace)", context.signature, context.id.0));
            line("program", &context.executable);
            if !context.comm.is_empty() {
                line("thread", &context.comm);
            }
            let parts = [context.unwind.name(), &context.entry];
            line("path", &parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", "));
        }
        Err(name) => line("context", &format!("{name}: all writes without a context")),
    }
    let writer = &row.writer;
    line("written", &format!("{}, {} of all", page_bytes(writer.pages()), percent(row.share)));
    let none = if row.alive_pages().is_some() { "nothing has ended" } else { "not known of a part" };
    let life = writer.lifetimes.quartiles().map_or(none.to_owned(), |q| {
        format!("p25 {}, p50 {}, p75 {}", page_bytes(q.p25), page_bytes(q.p50), page_bytes(q.p75))
    });
    line("lifetime", &format!("{life} (what the host wrote until pages were dead)"));
    let alive = row.alive_pages().map(|alive| percent(alive as f64 / writer.pages().max(1) as f64));
    line("alive", &alive.map_or("-".to_owned(), |alive| format!("{alive} at the end")));
    line("stream", &row.stream.map_or("-".to_owned(), |stream| format!("S{} of {scheme}", stream.0)));
    for (kind, pages) in Kind::ALL.iter().zip(&writer.pages_by_kind).filter(|(_, pages)| **pages > 0) {
        line("kind", &format!("{} {}", kind.name(), page_bytes(*pages)));
    }
    for (path, pages) in &row.files {
        line("file", &format!("{} {}", page_bytes(*pages), if path.is_empty() { "(no name)" } else { path }));
    }
    row.context.into_iter().for_each(|context| out += &frames(row, context));
    out
}

/// The call path, innermost first, with whole names, and what was inlined into its functions.
fn frames(row: &ContextRow, context: &Context) -> String {
    let mut out = String::new();
    for (number, frame) in context.frames.iter().enumerate() {
        let symbol = if frame.symbol.is_empty() { "(no symbol)" } else { &frame.symbol };
        let place = format!("{}+{:#x}", file_name(&frame.module), frame.offset);
        for (function, line) in row.line(number).iter().flat_map(|line| &line.inlined) {
            _ = writeln!(out, "{:10} {}  [inlined]  {}", "", visible(function), visible(&line.to_string()));
        }
        let line = row.line(number).map_or(String::new(), |line| format!("  {}", visible(&line.to_string())));
        _ = writeln!(out, "#{number:<9} {}  [{}]{line}", visible(symbol), visible(&place));
    }
    out
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use pcstream_replay::Writer;
    use pcstream_trace::Frame;

    use super::*;
    use crate::SourceLine;

    #[test]
    fn functions_that_were_inlined_come_before_the_one_that_they_are_in() {
        let frame =
            Frame { module: "/bin/db".into(), symbol: "main".into(), offset: 0x12, ..Frame::default() };
        let context = Context { frames: vec![frame], ..Context::default() };
        let at = |line| SourceLine { file: "db.cpp".into(), line, ..SourceLine::default() };
        let inlined = vec![("Log::append()".into(), at(5)), ("flush".into(), at(8))];
        let row = ContextRow {
            context: Some(&context),
            writer: Cow::Owned(Writer::default()),
            share: 0.0,
            stream: None,
            files: Vec::new(),
            lines: vec![Some(SourceLine { inlined, ..at(10) })],
        };
        let expected = [
            "           Log::append()  [inlined]  db.cpp:5",
            "           flush  [inlined]  db.cpp:8",
            "#0         main  [db+0x12]  db.cpp:10",
        ];
        assert_eq!(frames(&row, &context).lines().collect::<Vec<_>>(), expected);
    }
}
