//! Program contexts as text: who wrote what, how long it lived, and where the scheme put it.

use std::collections::BTreeSet;
use std::fmt::Write;

use pcstream_trace::paths::file_name;
use pcstream_trace::{Context, Frame, Kind, Unwind};

use crate::call_paths::call_paths;
use crate::drive::result_in_words;
use crate::escape::visible;
use crate::folded::thread;
use crate::functions::Functions;
use crate::human::{page_bytes, percent};
use crate::layout::{Layout, clipped, columns_of, padded};
use crate::schemes::{loss_lines, origin};
use crate::symbols::{Names, own_frames};
use crate::table;
use crate::table::Side::{Left, Right};
use crate::{ContextRow, Simulation};

/// Longest call path or label printed, in characters, unless names are wanted in full.
const PATH_WIDTH: usize = 110;
/// Least room for call paths beside other columns.
const LEAST_PATH_WIDTH: usize = 50;

/// The whole result of `contexts` as text: the first `limit`. `head` says what the rows are a part of.
pub fn text(
    simulation: &Simulation,
    rows: &[ContextRow],
    head: &str,
    limit: usize,
    layout: Layout,
) -> String {
    let mut out = format!("{}\n\n{head}", origin(simulation, layout).join("\n"));
    out += &table(simulation, rows, limit, layout);
    loss_lines(simulation).iter().for_each(|line| _ = writeln!(out, "{line}"));
    out
}

/// The table alone, as it follows the schemes in `run`. The streams are those of the lane that the
/// rows were made with.
pub fn table(simulation: &Simulation, rows: &[ContextRow], limit: usize, layout: Layout) -> String {
    let shown = &rows[..rows.len().min(limit)];
    let known: Vec<&Context> = shown.iter().filter_map(|row| row.context).collect();
    let mut paths = call_paths(&known, layout.names).into_iter();
    let mut path = |row: &ContextRow| {
        let called = |context| called(context, &paths.next().expect("one path per known context"));
        shown_path(row.context.map_or(String::new(), called), layout.names)
    };
    let shown_with_paths: Vec<_> = shown.iter().map(|row| (row, path(row))).collect();
    let mut out = String::new();
    for line in lines(&shown_with_paths, layout) {
        _ = writeln!(out, "{}", layout.cut(&line));
    }
    if rows.len() > shown.len() {
        let rest: u64 = rows[shown.len()..].iter().map(|r| r.writer.pages()).sum();
        _ = writeln!(
            out,
            "{} more wrote {} (contexts --top shows them)",
            rows.len() - shown.len(),
            page_bytes(rest)
        );
    }
    if rows.is_empty() {
        out = "No context wrote anything.\n".to_owned();
    } else {
        let total = page_bytes(simulation.writers.totals().host_pages);
        let mut note = format!(
            "life p50: what the host wrote (of {total} in all) until half of the pages that died were dead"
        );
        let chosen_by = match &simulation.results[..] {
            [] => None,
            [lane] => Some(lane.scheme.clone()),
            lanes => Some(result_in_words(&lanes[simulation.recommended()])),
        };
        if let Some(chosen_by) = chosen_by {
            _ = write!(note, "; stream: the one with most of its pages, of {chosen_by}");
        }
        layout.wrap(&note, 0).iter().for_each(|line| _ = writeln!(out, "{line}"));
        for note in nameless(&known).into_iter().chain(java(&known)) {
            layout.wrap(&note, 0).iter().for_each(|line| _ = writeln!(out, "{line}"));
        }
    }
    out
}

/// Programs and libraries of the contexts of which functions have no names, in words.
fn nameless(contexts: &[&Context]) -> Option<String> {
    let lacking = |context: &&Context| {
        let own = context.frames.iter().zip(own_frames(context));
        let of = |(frame, own): (&Frame, bool)| {
            (own && frame.symbol.is_empty() && frame.module.contains('/'))
                .then(|| file_name(&frame.module).to_owned())
        };
        own.filter_map(of).collect::<Vec<_>>()
    };
    let modules: BTreeSet<String> = contexts.iter().flat_map(lacking).collect();
    let named = modules.iter().map(|module| visible(module)).collect::<Vec<_>>().join(", ");
    (!modules.is_empty())
        .then(|| format!("some functions of {named} have no names: their debug symbols would give them"))
}

/// Java programs of which the call paths are those of the virtual machine, in words.
fn java(contexts: &[&Context]) -> Option<String> {
    let runs_java = |context: &&Context| file_name(&context.executable) == "java";
    let modules = || contexts.iter().copied().filter(runs_java).flat_map(|context| &context.frames);
    let has_agent = modules().any(|frame| frame.module.starts_with("java:"));
    let has_compiled_code = modules().any(|frame| frame.module == "[anon]");
    (has_compiled_code && !has_agent).then(|| {
        "Java methods have no names, so what one class writes looks alike: pcstream's agent for Java gives them".to_owned()
    })
}

/// The source lines of the contexts shown, innermost first; frames that are not the program's own or have no line are left out.
pub fn source_lines(rows: &[ContextRow], limit: usize, layout: Layout) -> String {
    let mut out = String::new();
    let functions = Functions::of(rows.iter().take(limit).filter_map(|row| row.context), layout.names);
    for row in rows.iter().take(limit) {
        let Some(context) = row.context else { continue };
        let frames = context.frames.iter().zip(own_frames(context)).enumerate();
        let known = frames.filter_map(|(at, (frame, own))| Some((frame, row.line(at).filter(|_| own)?)));
        let cells = known.map(|(frame, line)| [functions.name(frame), line.to_string()]);
        let cells: Vec<_> = cells.collect();
        if cells.is_empty() {
            continue;
        }
        _ = writeln!(out, "\n{}  {}", context.signature, visible(&program(context)));
        let cells = cells.iter().map(|cell| cell.each_ref().map(|text| visible(text)));
        let cells: Vec<_> = cells.collect();
        let width = cells.iter().map(|[function, _]| columns_of(function)).max().unwrap_or(0);
        for [function, line] in &cells {
            let line = format!("  {}  {line}", padded(function, width));
            _ = writeln!(out, "{}", layout.cut(&line));
        }
    }
    if out.is_empty() { "\nNo source lines are known.\n".to_owned() } else { out }
}

fn lines(rows: &[(&ContextRow, String)], layout: Layout) -> Vec<String> {
    let dash = || "-".to_owned();
    let columns = table::columns_of(
        rows,
        &[
            (Left, "context", &|(row, _)| row.who().map_or_else(str::to_owned, |c| c.signature.to_string())),
            (Right, "written", &|(row, _)| page_bytes(row.writer.pages())),
            (Right, "share", &|(row, _)| percent(row.share)),
            (Right, "life p50", &|(row, _)| {
                row.writer.lifetimes.quartiles().map_or_else(dash, |q| page_bytes(q.p50))
            }),
            (Right, "alive", &|(row, _)| {
                let share = |alive| percent(alive as f64 / row.writer.pages() as f64);
                row.alive_pages().map_or_else(dash, share)
            }),
            (Right, "stream", &|(row, _)| row.stream.map_or_else(dash, |s| format!("S{}", s.0))),
            (Left, "program", &|(row, _)| row.context.map_or_else(dash, program)),
            (Left, "kind", &|(row, _)| {
                let (kind, pages) = heaviest_kind(&row.writer.pages_by_kind);
                if pages == row.writer.pages() { kind.to_owned() } else { format!("{kind}+") }
            }),
            (Left, "most to", &|(row, _)| match row.files.first().map_or("", |(path, _)| file_name(path)) {
                "" => dash(),
                file => clipped(file, 32),
            }),
            (Left, "call path, innermost first", &|(_, path)| path.clone()),
        ],
    );
    table::in_lines(&columns, LEAST_PATH_WIDTH, layout)
}

fn shown_path(path: String, names: Names) -> String {
    match names {
        Names::Short => clipped(&path, PATH_WIDTH),
        Names::Full => path,
    }
}

/// The executable's name; the thread's name behind it where that says more.
fn program(context: &Context) -> String {
    let executable = context.program();
    let text = thread(context).map_or(executable.to_owned(), |thread| format!("{executable} ({thread})"));
    clipped(&text, 40)
}

/// A call path behind the entry into the kernel, unless it begins with the C library's function of the same name.
pub fn called(context: &Context, path: &str) -> String {
    match context.unwind {
        Unwind::Label => "(label)".to_owned(),
        _ if path.is_empty() => context.entry.clone(),
        _ if context.entry.is_empty() || begins_with(path, &context.entry) => path.to_owned(),
        _ => format!("{} < {path}", context.entry),
    }
}

fn begins_with(path: &str, entry: &str) -> bool {
    let rest = path.strip_prefix(entry);
    rest.is_some_and(|rest| rest.is_empty() || [" < ", " .. ", "@"].iter().any(|end| rest.starts_with(end)))
}

fn heaviest_kind(pages: &[u64; Kind::ALL.len()]) -> (&'static str, u64) {
    // The first of equals: `max_by_key` would give the last.
    let (kind, pages) =
        Kind::ALL.iter().zip(pages).rev().max_by_key(|(_, pages)| **pages).expect("there are kinds");
    (kind.name(), *pages)
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use pcstream_replay::Writer;

    use super::*;

    #[test]
    fn the_heaviest_kind_wins_and_the_first_of_equals() {
        assert_eq!(heaviest_kind(&[1, 5, 0, 0, 0, 5]), ("journal", 5));
    }

    #[test]
    fn the_entry_is_said_once() {
        let context = Context { entry: "write".into(), unwind: Unwind::Exact, ..Context::default() };
        let of = |path: &str| called(&context, path);
        for path in ["write", "write < main", "write@0x1f .. main"] {
            assert_eq!(of(path), path);
        }
        assert_eq!(["", "write", "writer < main"].map(of), ["write", "write", "write < writer < main"]);
    }

    /// Neither long names of programs nor wide characters take away what stands behind them.
    #[test]
    fn a_narrow_terminal_has_every_column() {
        let executable = "/bin/a-program-with-a-very-long-name".to_owned();
        let context = Context { executable, ..Context::default() };
        let row = |file: &str| ContextRow {
            context: Some(&context),
            writer: Cow::Owned(Writer::default()),
            share: 0.0,
            stream: None,
            files: vec![(file.to_owned(), 1)],
            lines: Vec::new(),
        };
        let names = ["/t.db", "/t.db-wal", "/\u{6587}\u{4ef6}\u{1f600}.db"];
        let of = names.map(row);
        let rows: Vec<_> = of.iter().map(|row| (row, "pwrite64 < f".to_owned())).collect();
        let lines = lines(&rows, Layout { width: Some(80), ..Layout::PLAIN });
        assert!(lines.iter().all(|line| columns_of(line) <= 80), "{lines:#?}");
        for name in names {
            let line = lines.iter().find(|line| line.contains(&format!(" {} ", &name[1..])));
            let line = line.unwrap_or_else(|| panic!("{name}: {lines:#?}"));
            assert!(line.contains(context.program()) && line.ends_with("  pwrite64 < f"), "{lines:#?}");
        }
    }

    #[test]
    fn modules_whose_functions_have_no_names_are_said_once() {
        let frame = |module: &str, symbol: &str| Frame {
            module: module.into(),
            symbol: symbol.into(),
            ..Frame::default()
        };
        let of = |frames: &[Frame]| Context { frames: frames.to_vec(), ..Context::default() };
        let named = of(&[frame("/lib/libc.so.6", ""), frame("/bin/db", "main")]);
        let stripped =
            of(&[frame("/lib/libc.so.6", "write"), frame("/bin/server", ""), frame("/bin/server", "")]);
        assert_eq!(nameless(&[&named]), None, "a system library is no part of a path");
        let said = nameless(&[&named, &stripped, &stripped]).expect("the server's");
        assert_eq!(said, "some functions of server have no names: their debug symbols would give them");
    }

    #[test]
    fn java_programs_without_the_agent_are_said() {
        let frame = |module: &str| Frame { module: module.into(), ..Frame::default() };
        let of = |executable: &str, module: &str| Context {
            executable: executable.into(),
            frames: vec![frame("/lib/libjava.so"), frame(module)],
            ..Context::default()
        };
        let compiled = of("/usr/lib/jvm/java-17/bin/java", "[anon]");
        assert!(java(&[&compiled]).expect("it is said").contains("pcstream's agent"));
        let by_agent = of("/usr/lib/jvm/java-17/bin/java", "java:org.A.f");
        assert_eq!(java(&[&by_agent]), None);
        assert_eq!(java(&[&compiled, &by_agent]), None, "native libraries, and files mapped before");
        assert_eq!(java(&[&of("/usr/bin/qemu", "[anon]")]), None, "not Java");
    }

    #[test]
    fn thread_names_are_shown_when_they_say_more() {
        let named = |executable: &str, comm: &str| {
            program(&Context { executable: executable.into(), comm: comm.into(), ..Context::default() })
        };
        assert_eq!(named("/usr/bin/db_bench", "db_bench"), "db_bench");
        assert_eq!(named("/usr/bin/db_bench", "rocksdb:low"), "db_bench (rocksdb:low)");
        assert_eq!(named("/usr/libexec/a-very-long-executable", "a-very-long-exe"), "a-very-long-executable");
        assert_eq!(named("hot", ""), "hot");
    }
}
