//! Who wrote what, by what a person can name: program, thread, and the pattern of the file's name. A name of numbers alone
//! says nothing, so the directories above it are part of the pattern.
//!
//! A call path that writes several kinds of files counts for each with the pages of those files alone. Which kinds are heavy
//! is known when a trace has been replayed once ([`Sources::of`]). How long their data lives takes another pass, in which
//! [`Sources::class_of`] says whose a write is.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use pcstream_replay::Class;
use pcstream_trace::paths::file_name;
use pcstream_trace::{Context, ContextId, Event, FileId, Life};
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::call_paths::call_paths;
use crate::symbols::{Names, own_frames};
use crate::{ContextRow, Simulation};

/// Smallest share of the writes for a rule of its own.
const SMALLEST_SHARE: f64 = 0.002;
/// Share of a source's pages with which a hint is its own.
const HINTED_SHARE: f64 = 0.9;

/// A writer that a rule can name.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Source {
    /// Path of the executable, or the label of a generated class.
    pub executable: String,
    /// Thread name; empty if it is not known.
    pub thread: String,
    /// Pattern of the names of its files, or of the ends of their paths if it has a slash; empty if they have none.
    pub file: String,
    /// Call path of its heaviest context, shortened.
    pub function: String,
    /// Module that the innermost function of its own lies in: whose code it is.
    pub module: String,
    /// Source line of that function, `file:line`, if it is known.
    pub line: Option<String>,
    /// Pages written.
    pub pages: u64,
    /// Median lifetime in pages; the whole trace where less than half has died.
    pub lifetime: u64,
    /// The lifetime that the program asks for already (`F_SET_RW_HINT`), as traces name it; null if it asks for none.
    pub hint: Option<&'static str>,
}

/// What a rule can name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a> {
    executable: &'a str,
    thread: &'a str,
    file: String,
}

/// The writes of a key.
#[derive(Default)]
struct Found {
    pages: u64,
    by_context: BTreeMap<ContextId, u64>,
    writes: Vec<(ContextId, FileId)>,
}

/// The heavy writers of a trace, heaviest first, and which writes are theirs.
pub struct Sources {
    sources: Vec<Source>,
    /// Number of the source, from 1.
    class_of: FxHashMap<(ContextId, FileId), usize>,
    host_pages: u64,
}

impl Sources {
    /// Those of a replayed trace. `rows` are all of its contexts.
    pub fn of(simulation: &Simulation, rows: &[ContextRow]) -> Sources {
        let host_pages = simulation.writers.totals().host_pages;
        let mut found: BTreeMap<Key, Found> = BTreeMap::new();
        for (context, file, pages) in written(simulation, rows) {
            let path = simulation.tables.file(file).map_or("", |file| &file.path);
            let (executable, thread) = (context.executable.as_str(), context.comm.as_str());
            let key = Key { executable, thread, file: pattern(path) };
            let found = found.entry(key).or_default();
            found.pages += pages;
            *found.by_context.entry(context.id).or_default() += pages;
            found.writes.push((context.id, file));
        }
        let least = ((host_pages as f64 * SMALLEST_SHARE) as u64).max(1);
        found.retain(|key, found| found.pages >= least && key.can_be_named());
        let mut found: Vec<(Key, Found)> = found.into_iter().collect();
        found.sort_by_key(|(_, found)| Reverse(found.pages));
        let functions = functions(rows);
        let (mut sources, mut class_of) = (Vec::new(), FxHashMap::default());
        for (key, found) in found {
            let heaviest = found.by_context.iter().max_by_key(|(id, pages)| (**pages, Reverse(**id)));
            let function = heaviest.and_then(|(id, _)| functions.get(id)).cloned().unwrap_or_default();
            sources.push(Source {
                executable: key.executable.to_owned(),
                thread: key.thread.to_owned(),
                file: key.file,
                pages: found.pages,
                ..function
            });
            class_of.extend(found.writes.into_iter().map(|write| (write, sources.len())));
        }
        Sources { sources, class_of, host_pages }
    }

    /// Number of classes of writes: one for each source, and one for all other writes.
    pub fn classes(&self) -> usize {
        self.sources.len() + 1
    }

    /// The class of a write: 0 stands for all that no source wrote.
    pub fn class_of(&self, event: &Event) -> usize {
        self.class_of.get(&(event.context, event.file)).copied().unwrap_or(0)
    }

    /// The sources, with what another pass found out of each class.
    pub fn finish(self, classes: &[Class]) -> Vec<Source> {
        let finish = |(source, class): (Source, &Class)| Source {
            lifetime: class.lifetimes.median_of(class.pages).unwrap_or(self.host_pages).max(1),
            hint: own_hint(class).map(Life::name),
            ..source
        };
        self.sources.into_iter().zip(&classes[1..]).map(finish).collect()
    }
}

impl Key<'_> {
    /// Rules quote with double quotes, and are lines.
    fn can_be_named(&self) -> bool {
        let legal = |text: &str| !text.contains(|c: char| c == '"' || c == '\\' || c.is_control());
        legal(self.executable) && legal(self.thread) && legal(&self.file)
    }
}

/// Pages by context and file; `FileId::NONE` stands for pages of a context that belong to no file.
fn written<'a>(simulation: &Simulation<'a>, rows: &[ContextRow<'a>]) -> Vec<(&'a Context, FileId, u64)> {
    let mut without: BTreeMap<ContextId, (&Context, u64)> = BTreeMap::new();
    for row in rows {
        without.extend(row.context.map(|context| (context.id, (context, row.writer.pages()))));
    }
    let mut out = Vec::new();
    for (id, file, pages) in simulation.writers.files() {
        if let Some((context, left)) = without.get_mut(&id) {
            *left -= pages;
            out.push((*context, file, pages));
        }
    }
    let left = without.into_values().filter(|(_, pages)| *pages > 0);
    out.extend(left.map(|(context, pages)| (context, FileId::NONE, pages)));
    out
}

/// Of each context, what names its code.
fn functions(rows: &[ContextRow]) -> HashMap<ContextId, Source> {
    let known: Vec<(&ContextRow, &Context)> =
        rows.iter().filter_map(|row| Some((row, row.context?))).collect();
    let contexts: Vec<&Context> = known.iter().map(|(_, context)| *context).collect();
    let named = |((row, context), function): (&(&ContextRow, &Context), String)| {
        let own = own_frames(context).iter().position(|own| *own);
        let source = Source {
            function,
            module: own.map_or(context.executable.clone(), |own| context.frames[own].module.clone()),
            line: own.and_then(|own| row.line(own)).map(ToString::to_string),
            ..Source::default()
        };
        (context.id, source)
    };
    known.iter().zip(call_paths(&contexts, Names::Short)).map(named).collect()
}

/// The hint that next to all pages of a class carry.
fn own_hint(class: &Class) -> Option<Life> {
    let enough = (class.pages as f64 * HINTED_SHARE) as u64;
    let asked = Life::ALL.into_iter().filter(|life| *life > Life::None);
    asked.max_by_key(|life| class.pages_by_life[*life as usize]).filter(|life| {
        let pages = class.pages_by_life[*life as usize];
        pages > 0 && pages >= enough
    })
}

/// `/db/000123.sst` is `*.sst`, `MANIFEST-000004` is `MANIFEST-*`, PostgreSQL's `base/16384/16397` is `base/*/*`.
fn pattern(path: &str) -> String {
    let says_something = |pattern: &str| pattern.contains(char::is_alphabetic);
    let name = pattern_of_name(file_name(path));
    let mut whole = name.clone();
    for directory in path.split('/').rev().skip(1).filter(|directory| !directory.is_empty()) {
        if says_something(&whole) || name.is_empty() {
            break;
        }
        let directory = if is_number(directory) { "*".to_owned() } else { without_numbers(directory) };
        whole = format!("{directory}/{whole}");
    }
    if says_something(&whole) { whole } else { name }
}

/// Of the name alone.
fn pattern_of_name(name: &str) -> String {
    let extension =
        name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty()).map(|(_, extension)| extension);
    match extension {
        Some(extension) if !extension.is_empty() && !extension.starts_with(|c: char| c.is_ascii_digit()) => {
            format!("*.{}", without_numbers(extension))
        }
        _ if is_number(name) => "*".to_owned(),
        _ => without_numbers(name),
    }
}

/// Whether this is a number, decimal or of many hexadecimal digits: `16397`, `00000001000000000000003A`; or a name that
/// `--redact` hid, which has 16 of them.
fn is_number(name: &str) -> bool {
    let (digits, letters): (Vec<char>, Vec<char>) = name.chars().partition(char::is_ascii_digit);
    let is_long = name.len() == 16 || digits.len() >= 8 && digits.len() > letters.len();
    letters.iter().all(char::is_ascii_hexdigit) && (is_long || letters.is_empty() && !digits.is_empty())
}

/// Runs of digits become `*`; what is special in a glob is put in brackets.
fn without_numbers(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        match c {
            '0'..='9' if out.ends_with('*') => {}
            '0'..='9' => out.push('*'),
            c => out += &literal(c),
        }
    }
    out
}

/// A character as a glob that matches it alone.
pub(super) fn literal(c: char) -> String {
    if ['*', '?', '[', ']', '{', '}', '!', '\\'].contains(&c) { format!("[{c}]") } else { c.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_patterns() {
        let cases = [
            ("000123.sst", "*.sst"),
            ("MANIFEST-000004", "MANIFEST-*"),
            ("LOG.old.1700", "LOG.old.*"),
            ("test.db-journal", "*.db-journal"),
            (".hidden", ".hidden"),
            ("a[1]", "a[[]*[]]"),
            ("/db/000123.sst", "*.sst"),
            ("/pg/15/main/base/16384/16397", "base/*/*"),
            ("/pg/15/main/base/16384/16397.1", "base/*/*.*"),
            ("/pg/15/main/base/16384/16397_fsm", "*_fsm"),
            ("/pg/15/main/pg_wal/00000001000000000000003A", "pg_wal/*"),
            ("/pg/15/main/pg_wal/00000001000000000000003B", "pg_wal/*"),
            ("/1/2", "*"),
            ("deadbeef", "deadbeef"),
            ("/deadbeefcafebabe/0123456789abcdef.sst", "*.sst"),
            ("/deadbeefcafebabe/0123456789abcdef", "*"),
            ("/pg/00000001000000000000003A/16397", "pg/*/*"),
            ("", ""),
        ];
        cases.iter().for_each(|(name, expected)| assert_eq!(pattern(name), *expected, "{name}"));
    }
}
