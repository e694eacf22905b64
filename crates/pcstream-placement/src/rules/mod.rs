//! Rules of `manual`: which writes a person sends to which stream.
//!
//! One rule per line, the first that matches a write decides, what none matches goes to S0:
//!
//! ```text
//! # conditions, all of which must hold      stream
//! kind=journal                              -> 1
//! name=*.log                                -> 2
//! name=*.sst comm=rocksdb:high              -> 3
//! path=/db/** kind=data                     -> 4
//! *                                         -> 5
//! ```
//!
//! Fields: `path` and `name` of the file, `kind` (names of `Kind`, several joined by commas),
//! `executable` and `comm` (thread name) of the context, `label` of a generated or imported class, `size` of the file.
//! Values are globs (`*`, `**`, `?`, `[..]`, `{a,b}`); in `path`, `name` and `executable`, `*` does
//! not cross a slash. A value with blanks, `#` or `->` stands in double quotes; a double quote cannot
//! be in one, but `?` matches it. A condition on something unknown (a write without file, or without context)
//! does not hold.
//!
//! A size is the one that the file has grown to by then, this write included, as far as the trace shows: `16M..64M` is from
//! 16 MiB to less than 64 MiB, and either end may be left out.
//!
//! Parsing is a pure function; every error names the line, what was found, and what to write.

mod error;
mod rocksdb;
mod sizes;
/// What stands in a line, as errors show it: the beginning of what is long.
fn shown(text: &str) -> String {
    const MOST: usize = 80;
    match text.char_indices().nth(MOST) {
        None => text.to_owned(),
        Some((end, _)) => format!("{} ... ({} characters in all)", &text[..end], text.chars().count()),
    }
}

#[cfg(test)]
mod tests;

use globset::{GlobBuilder, GlobMatcher};
use pcstream_trace::paths::file_name;
use pcstream_trace::{Context, File, Kind, Unwind};

pub use error::RulesError;
pub use rocksdb::RocksdbLog;
use sizes::Sizes;

use crate::names::nearest;

/// Length of a pattern. Compiled, much longer ones take more memory than the matcher allows.
const MAX_PATTERN_BYTES: usize = 4096;

/// Fields a condition can name.
const FIELDS: [&str; 7] = ["path", "name", "kind", "executable", "comm", "label", "size"];

/// Presets: name, what it is for, and its rules.
const PRESETS: &[(&str, &str, &str)] = &[
    (
        "common",
        "most rules of the others in one: logs, temporary files, tables, databases, generated classes",
        include_str!("../presets/common.rules"),
    ),
    (
        "classes",
        "labels of generated traces: hot -> S1, cold -> S2; files of lifetime class 1 -> S1, ...",
        include_str!("../presets/classes.rules"),
    ),
    ("rocksdb", "WAL, flushed tables, compacted tables, manifest", include_str!("../presets/rocksdb.rules")),
    ("sqlite", "journal or WAL, database, temporary files", include_str!("../presets/sqlite.rules")),
    (
        "gcc",
        "assembler files, objects, libraries and executables, others",
        include_str!("../presets/gcc.rules"),
    ),
    (
        "cassandra-normal",
        "HotStorage'14 Normal: everything to S0",
        include_str!("../presets/cassandra-normal.rules"),
    ),
    (
        "cassandra-single",
        "HotStorage'14 Single: all data of Cassandra to S1",
        include_str!("../presets/cassandra-single.rules"),
    ),
    (
        "cassandra-multi-log",
        "HotStorage'14 Multi-Log: CommitLog apart from the rest",
        include_str!("../presets/cassandra-multi-log.rules"),
    ),
    (
        "cassandra-multi-data",
        "HotStorage'14 Multi-Data: CommitLog and three size tiers of SSTables apart",
        include_str!("../presets/cassandra-multi-data.rules"),
    ),
];

/// One line: conditions, and the stream of the writes that meet them all.
#[derive(Clone, Debug, Default)]
pub struct Rule {
    path: Option<GlobMatcher>,
    name: Option<GlobMatcher>,
    executable: Option<GlobMatcher>,
    comm: Option<GlobMatcher>,
    label: Option<GlobMatcher>,
    /// One bit per kind; none set: any kind.
    kinds: u8,
    size: Option<Sizes>,
    /// Stream as written; more than the device has is folded by the scheme.
    pub stream: u8,
    /// Line that it stands in, from 1.
    pub line: usize,
    /// Its conditions as written, without quotes.
    pub conditions: String,
}

/// Rules in order; the first that matches decides.
#[derive(Clone, Debug)]
pub struct Rules {
    rules: Vec<Rule>,
    is_preset: bool,
}

/// What is known of a write, as far as rules care.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Kind of the pages.
    pub kind: Kind,
    /// The file, if known.
    pub file: Option<&'a File>,
    /// The context, if known.
    pub context: Option<&'a Context>,
    /// Bytes that the file has grown to, this write included, if known.
    pub size: Option<u64>,
}

impl Rules {
    /// Parses a rules file; a byte order mark, as editors on Windows write it, does not count.
    pub fn parse(text: &str) -> Result<Rules, RulesError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let lines = text.lines().enumerate().map(|(i, l)| (i + 1, l));
        let rules =
            lines.filter_map(|(line, l)| parse_line(line, l).transpose()).collect::<Result<_, _>>()?;
        Ok(Rules { rules, is_preset: false })
    }

    /// The rules of a named preset.
    pub fn preset(name: &str) -> Result<Rules, RulesError> {
        Ok(Rules { is_preset: true, ..Rules::parse(Rules::preset_text(name)?)? })
    }

    /// Whether they are a preset, which is for many programs: no single one needs all of its rules.
    pub fn is_preset(&self) -> bool {
        self.is_preset
    }

    /// A preset as it is written, to read or to change.
    pub fn preset_text(name: &str) -> Result<&'static str, RulesError> {
        PRESETS.iter().find(|(n, ..)| *n == name).map(|&(_, _, text)| text).ok_or_else(|| {
            let nearest = nearest(name, PRESETS.iter().map(|&(n, ..)| n));
            RulesError::Preset { name: name.to_owned(), nearest }
        })
    }

    /// Names and summaries of the presets.
    pub fn presets() -> impl Iterator<Item = (&'static str, &'static str)> {
        PRESETS.iter().map(|&(name, summary, _)| (name, summary))
    }

    /// The rules, in order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Index of the first rule that matches; `None` if none does.
    pub fn first_match(&self, subject: Subject<'_>) -> Option<usize> {
        self.rules.iter().position(|r| r.matches(subject))
    }

    /// The stream of the first rule that matches; `None` if none does.
    pub fn stream_of(&self, subject: Subject<'_>) -> Option<u8> {
        self.first_match(subject).map(|index| self.rules[index].stream)
    }

    /// Whether any rule looks at the file.
    pub(crate) fn look_at_file(&self) -> bool {
        self.rules.iter().any(|r| r.path.is_some() || r.name.is_some() || r.size.is_some())
    }

    /// The sizes in bytes at which what a rule says of a file changes, ascending.
    pub(crate) fn size_steps(&self) -> Vec<u64> {
        let mut steps: Vec<u64> =
            self.rules.iter().filter_map(|rule| rule.size).flat_map(Sizes::steps).collect();
        steps.sort_unstable();
        steps.dedup();
        steps
    }

    /// Whether any rule looks at the context.
    pub(crate) fn look_at_context(&self) -> bool {
        self.rules.iter().any(|r| r.executable.is_some() || r.comm.is_some() || r.label.is_some())
    }
}

impl Default for Rules {
    fn default() -> Self {
        Rules::preset("common").expect("the presets parse; a test parses them all")
    }
}

impl Rule {
    fn matches(&self, subject: Subject<'_>) -> bool {
        let holds = |glob: &Option<GlobMatcher>, value: Option<&str>| match glob {
            None => true,
            // An empty name is an unknown one.
            Some(glob) => value.is_some_and(|v| !v.is_empty() && glob.is_match(v)),
        };
        let path = subject.file.map(|f| f.path.as_str());
        let label = subject.context.filter(|c| c.unwind == Unwind::Label);
        (self.kinds == 0 || self.kinds & (1 << subject.kind as u8) != 0)
            && self.size.is_none_or(|sizes| subject.size.is_some_and(|size| sizes.hold(size)))
            && holds(&self.path, path)
            && holds(&self.name, path.map(file_name))
            && holds(&self.executable, subject.context.map(|c| c.executable.as_str()))
            && holds(&self.comm, subject.context.map(|c| c.comm.as_str()))
            && holds(&self.label, label.map(|c| c.executable.as_str()))
    }

    fn add(&mut self, line: usize, field: &'static str, value: &str) -> Result<(), RulesError> {
        if field == "kind" {
            if self.kinds != 0 {
                return Err(RulesError::Twice { line, field });
            }
            for name in value.split(',') {
                let kind =
                    Kind::from_name(name).ok_or_else(|| RulesError::Kind { line, found: shown(name) })?;
                self.kinds |= 1 << kind as u8;
            }
            return Ok(());
        }
        if field == "size" {
            if self.size.is_some() {
                return Err(RulesError::Twice { line, field });
            }
            let sizes = Sizes::parse(value);
            self.size = Some(sizes.ok_or_else(|| RulesError::Size { line, found: shown(value) })?);
            return Ok(());
        }
        let (slot, of_paths) = match field {
            "path" => (&mut self.path, true),
            "name" => (&mut self.name, true),
            "executable" => (&mut self.executable, true),
            "comm" => (&mut self.comm, false),
            _ => (&mut self.label, false),
        };
        if slot.is_some() {
            return Err(RulesError::Twice { line, field });
        }
        if value.len() > MAX_PATTERN_BYTES {
            return Err(RulesError::Long { line, field, bytes: value.len() });
        }
        let glob = GlobBuilder::new(value).literal_separator(of_paths).build();
        let glob =
            glob.map_err(|e| RulesError::Glob { line, found: shown(value), problem: e.kind().to_string() })?;
        *slot = Some(glob.compile_matcher());
        Ok(())
    }
}

/// `None` for a line without a rule.
fn parse_line(line: usize, text: &str) -> Result<Option<Rule>, RulesError> {
    let words = split_words(line, text)?;
    if words.is_empty() {
        return Ok(None);
    }
    let Some(arrow) = words.iter().position(|w| w == "->") else {
        return Err(RulesError::NoArrow { line, found: shown(text.trim()) });
    };
    let (conditions, target) = (&words[..arrow], &words[arrow + 1..]);
    let stream = match target {
        [one] => one.parse::<u8>().ok(),
        _ => None,
    };
    let stream = stream.ok_or_else(|| RulesError::Stream { line, found: shown(&target.join(" ")) })?;
    let mut rule = Rule { stream, line, conditions: conditions.join(" "), ..Rule::default() };
    if conditions.is_empty() {
        return Err(RulesError::NoCondition { line });
    }
    if conditions == ["*"] {
        return Ok(Some(rule));
    }
    for word in conditions {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let field = FIELDS.into_iter().find(|f| *f == name && !value.is_empty());
        let field = field.ok_or_else(|| RulesError::Condition {
            line,
            found: shown(word),
            nearest: nearest(name, FIELDS.into_iter().filter(|f| *f != name)),
        })?;
        rule.add(line, field, value)?;
    }
    Ok(Some(rule))
}

/// Words of a line: blanks separate, double quotes protect (and are removed), an unprotected `#`
/// ends the line, an unprotected `->` is a word of its own.
fn split_words(line: usize, text: &str) -> Result<Vec<String>, RulesError> {
    let (mut words, mut word, mut quoted, mut started) = (Vec::new(), String::new(), false, false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' => (quoted, started) = (!quoted, true),
            _ if quoted => word.push(c),
            '#' => break,
            '-' if chars.peek() == Some(&'>') => {
                chars.next();
                if std::mem::take(&mut started) {
                    words.push(std::mem::take(&mut word));
                }
                words.push("->".to_owned());
            }
            _ if c.is_whitespace() => {
                if std::mem::take(&mut started) {
                    words.push(std::mem::take(&mut word));
                }
            }
            _ => {
                word.push(c);
                started = true;
            }
        }
    }
    if quoted {
        return Err(RulesError::Quote { line });
    }
    if started {
        words.push(word);
    }
    Ok(words)
}
