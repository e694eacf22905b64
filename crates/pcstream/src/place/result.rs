//! What `place` did: contexts with their streams and hints, for people and programs.

use pcstream_place::Summary;
use pcstream_place::summary::ContextSummary;
use pcstream_trace::Context;
use pcstream_trace::paths::file_name;
use serde::Serialize;

use pcstream_report::call_paths::call_paths;
use pcstream_report::human::{count, counted, page_bytes, percent};
use pcstream_report::layout::{Layout, clipped};
use pcstream_report::symbols::Names;
use pcstream_report::table::Side::{Left, Right};
use pcstream_report::table::{columns_of, in_lines, table};

/// Longest call path printed, in characters.
const PATH_WIDTH: usize = 110;

/// Columns of a terminal that a call path has at least.
const LEAST_PATH_WIDTH: usize = 50;

/// The result of `place`.
#[derive(Clone, Debug, Serialize)]
pub struct PlacingJson {
    /// Version of pcstream.
    pub pcstream: String,
    /// The directory that was given.
    pub on: String,
    /// The device, by the kernel's name.
    pub device: String,
    /// Why this sink, and what each better one lacks. A remark at the beginning says it to people in short.
    pub sink_because: String,
    /// How long it placed.
    pub seconds: f64,
    /// Everything else; `losses` include those of the capture.
    #[serde(flatten)]
    pub summary: Summary,
}

/// Gives the contexts of a summary the names of their functions, from the capture's contexts.
pub fn name(summary: &mut Summary, contexts: &[Context]) {
    let known: Vec<&Context> = contexts.iter().collect();
    let paths = call_paths(&known, Names::Short);
    for row in &mut summary.contexts {
        let at = (row.id.0 as usize).wrapping_sub(1);
        row.call_path = paths.get(at).cloned().unwrap_or_default();
    }
}

/// The result for people: the `top` contexts that wrote the most.
pub fn text(json: &PlacingJson, top: usize, layout: Layout) -> String {
    let summary = &json.summary;
    let all = summary.written_pages;
    let with = all - summary.pages_without_context;
    let wrote: Vec<_> = summary.contexts.iter().filter(|context| context.pages > 0).collect();
    let head = format!(
        "{}: {} written in {:.1} s, {} by {}; scheme {}, {}; sink {}",
        json.device,
        page_bytes(all),
        json.seconds,
        percent(with as f64 / all.max(1) as f64),
        counted(wrote.len() as u64, "context"),
        summary.scheme,
        counted(summary.standing.clusterings, "clustering"),
        summary.sink,
    );
    let mut lines = layout.wrap(&head, 9);
    lines.push(String::new());
    if wrote.is_empty() {
        lines.push("No context wrote anything.".to_owned());
    } else {
        lines.extend(contexts(&wrote, top, layout));
    }
    lines.extend(streams(summary, layout));
    lines.extend(hints(summary, layout));
    let of_programs = summary.files.iter().filter(|file| file.outcome == "of-program").count();
    if of_programs > 0 {
        let files = counted(of_programs as u64, "file");
        lines.push(format!("{files} with a hint of its program, which stays"));
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// What became of requests, where the sink gives them streams.
fn streams(summary: &Summary, layout: Layout) -> Vec<String> {
    if summary.standing.streams.is_empty() {
        return Vec::new();
    }
    let table = table(
        &summary.standing.streams,
        &[
            (Right, "write stream", &|row| match row.write_stream {
                0 => "none".to_owned(),
                number => number.to_string(),
            }),
            (Right, "requests", &|row| count(row.requests)),
            (Right, "written", &|row| page_bytes(row.pages)),
            (Right, "of others", &|row| page_bytes(row.minority_pages)),
            (Right, "refused", &|row| page_bytes(row.refused_pages)),
            (Right, "of programs", &|row| page_bytes(row.pages_of_programs)),
        ],
    );
    let mut lines = vec![String::new()];
    lines.extend(table.iter().map(|line| layout.cut(line)));
    let note = "write stream: as the device numbers it, S1 is 2 and so on; none: where the device puts writes without one; \
                of others: written with it, but of contexts of another stream; of programs: not in the column written, as \
                the program gave the stream itself";
    lines.extend(layout.wrap(note, 0));
    lines
}

/// What file data was written with, where the sink gives files hints.
fn hints(summary: &Summary, layout: Layout) -> Vec<String> {
    if summary.standing.hints.is_empty() {
        return Vec::new();
    }
    let table = table(
        &summary.standing.hints,
        &[
            (Left, "hint", &|row| row.hint.unwrap_or("none").to_owned()),
            (Right, "file data", &|row| page_bytes(row.pages)),
            (Right, "of others", &|row| page_bytes(row.pages_of_others)),
        ],
    );
    let mut lines = vec![String::new()];
    lines.extend(table.iter().map(|line| layout.cut(line)));
    let note = "hint: that of the requests; of others: data of contexts with another hint; none: the file had no hint when it was \
                written, or it is MEDIUM on F2FS, or Linux is older than 6.9, whose requests carry none";
    lines.extend(layout.wrap(note, 0));
    lines
}

fn contexts(wrote: &[&ContextSummary], top: usize, layout: Layout) -> Vec<String> {
    let shown = &wrote[..wrote.len().min(top)];
    let path = |row: &&ContextSummary| match (row.entry.is_empty(), row.call_path.is_empty()) {
        (_, true) => clipped(&row.entry, PATH_WIDTH),
        (true, false) => clipped(&row.call_path, PATH_WIDTH),
        (false, false) => clipped(&format!("{} < {}", row.entry, row.call_path), PATH_WIDTH),
    };
    let file = |row: &&ContextSummary| match row.file.as_deref().map_or("", file_name) {
        "" => "-".to_owned(),
        name => clipped(name, 32),
    };
    let columns = columns_of(
        shown,
        &[
            (Left, "context", &|row| row.signature.to_string()),
            (Right, "written", &|row| page_bytes(row.pages)),
            (Right, "lifetime", &|row| row.lifetime_pages.map_or("-".to_owned(), page_bytes)),
            (Right, "stream", &|row| format!("S{}", row.stream)),
            (Left, "hint", &|row| row.hint.unwrap_or("-").to_owned()),
            (Right, "files", &|row| row.files.to_string()),
            (Right, "hinted", &|row| row.files_hinted.to_string()),
            (Left, "program", &|row| clipped(file_name(&row.executable), 32)),
            (Left, "most to", &file),
            (Left, "call path, innermost first", &path),
        ],
    );
    let table = in_lines(&columns, LEAST_PATH_WIDTH, layout);
    let mut lines: Vec<String> = table.iter().map(|line| layout.cut(line)).collect();
    if wrote.len() > top {
        lines.push(format!("{} more contexts: --top shows them", wrote.len() - top));
    }
    let note = "lifetime: what is written to the device until data of the context is dead; files: of which the context \
                wrote the most (0: others wrote more of each, or it is long ago); hinted: of these, files that the sink \
                gave a hint";
    lines.extend(layout.wrap(note, 0));
    lines
}

#[cfg(test)]
mod tests {
    use pcstream_trace::{ContextId, Signature};

    use super::*;

    /// The call path is what tells contexts apart, so a narrow terminal shows it below the numbers.
    #[test]
    fn a_narrow_terminal_has_the_call_path() {
        let context = ContextSummary {
            id: ContextId(1),
            signature: Signature(1),
            executable: "/usr/sbin/mariadbd".to_owned(),
            comm: "mariadbd".to_owned(),
            entry: "pwrite64".to_owned(),
            call_path: "Table::checkpoint < in_place::workload".to_owned(),
            pages: 1 << 20,
            lifetime_pages: Some(1 << 10),
            samples: 9,
            stream: 3,
            hint: Some("EXTREME"),
            file: Some("/db/ib_logfile0".to_owned()),
            files: 12,
            files_hinted: 3,
        };
        let lines = contexts(&[&context], 9, Layout { width: Some(80), ..Layout::PLAIN });
        assert!(lines.iter().all(|line| line.len() <= 80), "{lines:#?}");
        let text = lines.join("\n");
        assert!(text.contains("pwrite64 < Table::checkpoint < in_place::workload"), "{text}");
        assert!(text.contains("mariadbd") && text.contains("ib_logfile0"), "{text}");
    }
}
