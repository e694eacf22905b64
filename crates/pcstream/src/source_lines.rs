//! Source lines of the contexts that are shown, looked up where the modules of their call paths still are as they were.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use pcstream_capture::modules::reading_limits::Allowance;
use pcstream_capture::symbols::lines::{Lack, Line, Source, lines_at};
use pcstream_capture::syscalls;
use pcstream_report::{ContextRow, SourceLine};
use pcstream_trace::Context;

/// Modules named in a remark.
const NAMED: usize = 3;

/// A module: path and build id.
type Module = (String, String);

/// Gives each frame of the rows its line, if it has one. Returns what modules lack, by reason.
pub fn add(rows: &mut [ContextRow]) -> BTreeMap<Lack, BTreeSet<String>> {
    let mut wanted: BTreeMap<Module, BTreeSet<u64>> = BTreeMap::new();
    for context in rows.iter().filter_map(|row| row.context) {
        // Memory without a file, and methods of a language runtime, have no lines here.
        for (module, offset) in places(context).filter(|((path, _), _)| path.starts_with('/')) {
            wanted.entry(module).or_default().insert(offset);
        }
    }
    let (mut lines, mut lacks) = (BTreeMap::new(), BTreeMap::new());
    let allowance = Allowance::default();
    for (module, offsets) in wanted {
        allowance.next_module();
        let offsets: Vec<u64> = offsets.into_iter().collect();
        match lines_at(Path::new(&module.0), &module.1, &offsets, &allowance) {
            Ok(found) => {
                let found = offsets.into_iter().zip(found);
                let found = found.filter_map(|(at, line)| Some(((module.clone(), at), line?)));
                lines.extend(found);
            }
            Err(lack) => drop(lacks.entry(lack).or_insert_with(BTreeSet::new).insert(module.0.clone())),
        }
        if allowance.fell_short() {
            lacks.entry(Lack::OverLimit).or_insert_with(BTreeSet::new).insert(module.0);
        }
    }
    for row in rows {
        let Some(context) = row.context else { continue };
        row.lines = places(context).map(|place| lines.get(&place).map(shown)).collect();
    }
    lacks
}

fn shown(Source { line, inlined }: &Source) -> SourceLine {
    let alone = |line: &Line| SourceLine { file: line.file.clone(), line: line.line, inlined: Vec::new() };
    let inlined = inlined.iter().map(|(name, line)| (name.clone(), alone(line))).collect();
    SourceLine { inlined, ..alone(line) }
}

/// Where each frame's instruction is: of a return address, the call before it.
fn places(context: &Context) -> impl Iterator<Item = (Module, u64)> {
    let interrupted = syscalls::is_interruption(&context.entry);
    context.frames.iter().enumerate().map(move |(index, frame)| {
        let before = u64::from(!(index == 0 && interrupted));
        ((frame.module.clone(), frame.build_id.clone()), frame.offset.saturating_sub(before))
    })
}

/// Whether methods of Java are on the call paths.
pub fn has_java(rows: &[ContextRow]) -> bool {
    let mut frames = rows.iter().filter_map(|row| row.context).flat_map(|context| &context.frames);
    frames.any(|frame| frame.module.starts_with("java:"))
}

/// Which modules have no lines, for a remark.
pub fn in_words(lack: Lack, modules: &BTreeSet<String>) -> String {
    let named: Vec<_> = modules.iter().take(NAMED).map(String::as_str).collect();
    let more = match modules.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("no source lines of {}{more}: {lack}", named.join(", "))
}
