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
//! `executable` and `comm` (thread name) of the context, `label` of a generated or imported class.
//! Values are globs (`*`, `**`, `?`, `[..]`, `{a,b}`); in `path`, `name` and `executable`, `*` does
//! not cross a slash. A value with blanks, `#` or `->` stands in double quotes. A condition on
//! something unknown (a write without file, or without context) does not hold.
//!
//! Parsing is a pure function; every error names the line, what was found, and what to write.

use globset::{GlobBuilder, GlobMatcher};
use pcstream_trace::{Context, File, Kind, Unwind};

use crate::names::nearest;

/// Fields a condition can name.
const FIELDS: [&str; 6] = ["path", "name", "kind", "executable", "comm", "label"];

/// Presets: name, what it is for, and its rules.
const PRESETS: [(&str, &str, &str); 9] = [
    (
        "common",
        "the other presets in one: logs, temporary files, tables, databases, generated classes",
        include_str!("presets/common.rules"),
    ),
    (
        "classes",
        "labels of generated traces: class0 -> S1, class1 -> S2, ...",
        include_str!("presets/classes.rules"),
    ),
    ("rocksdb", "WAL, flushed tables, compacted tables, manifest", include_str!("presets/rocksdb.rules")),
    ("sqlite", "journal or WAL, database, temporary files", include_str!("presets/sqlite.rules")),
    ("gcc", "assembler files, objects, libraries and executables, others", include_str!("presets/gcc.rules")),
    (
        "cassandra-normal",
        "HotStorage'14 Normal: everything to S0",
        include_str!("presets/cassandra-normal.rules"),
    ),
    (
        "cassandra-single",
        "HotStorage'14 Single: all data of Cassandra to S1",
        include_str!("presets/cassandra-single.rules"),
    ),
    (
        "cassandra-multi-log",
        "HotStorage'14 Multi-Log: CommitLog apart from the rest",
        include_str!("presets/cassandra-multi-log.rules"),
    ),
    (
        "cassandra-multi-data",
        "HotStorage'14 Multi-Data: CommitLog, flushed and compacted SSTables apart",
        include_str!("presets/cassandra-multi-data.rules"),
    ),
];

/// Rules that cannot be used. Lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RulesError {
    /// A line without `->`.
    #[error("line {line}: '{found}' has no '->'; write CONDITIONS -> STREAM, as in 'name=*.log -> 2'")]
    NoArrow {
        /// The line.
        line: usize,
        /// Its text.
        found: String,
    },
    /// Nothing before `->`.
    #[error(
        "line {line}: no condition before '->'; write one such as 'kind=journal', or '*' for every write"
    )]
    NoCondition {
        /// The line.
        line: usize,
    },
    /// Not a stream number.
    #[error("line {line}: '{found}' is not a stream; write a number from 0 to 255 after '->'")]
    Stream {
        /// The line.
        line: usize,
        /// What stands there.
        found: String,
    },
    /// A word that is no condition.
    #[error("line {line}: '{found}' is not a condition; write FIELD=VALUE with a field of {}{}", FIELDS.join(", "), suggestion(nearest))]
    Condition {
        /// The line.
        line: usize,
        /// The word.
        found: String,
        /// Fields that resemble it.
        nearest: Vec<&'static str>,
    },
    /// A field named twice.
    #[error(
        "line {line}: '{field}' is given twice; all conditions of a line must hold, so write two lines, or one glob such as {{a,b}}"
    )]
    Twice {
        /// The line.
        line: usize,
        /// The field.
        field: &'static str,
    },
    /// An unknown kind.
    #[error("line {line}: '{found}' is not a kind; the kinds are {}", kind_names())]
    Kind {
        /// The line.
        line: usize,
        /// What stands there.
        found: String,
    },
    /// A glob that is none.
    #[error("line {line}: '{found}' is not a glob ({problem}); escape special characters as in [*]")]
    Glob {
        /// The line.
        line: usize,
        /// The glob.
        found: String,
        /// What is wrong.
        problem: String,
    },
    /// A quote that is not closed.
    #[error("line {line}: a double quote is not closed; close it on the same line")]
    Quote {
        /// The line.
        line: usize,
    },
    /// No preset has this name.
    #[error("no preset is called '{name}'{}; the presets are {}", suggestion(nearest), preset_names())]
    Preset {
        /// The name.
        name: String,
        /// Presets that resemble it.
        nearest: Vec<&'static str>,
    },
}

fn suggestion(nearest: &[&'static str]) -> String {
    if nearest.is_empty() { String::new() } else { format!(" (did you mean {}?)", nearest.join(" or ")) }
}

fn kind_names() -> String {
    Kind::ALL.map(Kind::name).join(", ")
}

fn preset_names() -> String {
    PRESETS.map(|(name, ..)| name).join(", ")
}

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
    /// Stream as written; more than the device has is folded by the scheme.
    pub stream: u8,
}

/// Rules in order; the first that matches decides.
#[derive(Clone, Debug)]
pub struct Rules {
    rules: Vec<Rule>,
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
}

impl Rules {
    /// Parses a rules file.
    pub fn parse(text: &str) -> Result<Rules, RulesError> {
        let lines = text.lines().enumerate().map(|(i, l)| (i + 1, l));
        let rules =
            lines.filter_map(|(line, l)| parse_line(line, l).transpose()).collect::<Result<_, _>>()?;
        Ok(Rules { rules })
    }

    /// The rules of a named preset.
    pub fn preset(name: &str) -> Result<Rules, RulesError> {
        let Some((_, _, text)) = PRESETS.iter().find(|(n, ..)| *n == name) else {
            let nearest = nearest(name, PRESETS.iter().map(|&(n, ..)| n));
            return Err(RulesError::Preset { name: name.to_owned(), nearest });
        };
        Rules::parse(text)
    }

    /// Names and summaries of the presets.
    pub fn presets() -> impl Iterator<Item = (&'static str, &'static str)> {
        PRESETS.iter().map(|&(name, summary, _)| (name, summary))
    }

    /// The rules, in order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The stream of the first rule that matches; `None` if none does.
    pub fn stream_of(&self, subject: Subject<'_>) -> Option<u8> {
        self.rules.iter().find(|r| r.matches(subject)).map(|r| r.stream)
    }

    /// Whether any rule looks at the file.
    pub(crate) fn look_at_file(&self) -> bool {
        self.rules.iter().any(|r| r.path.is_some() || r.name.is_some())
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
            Some(glob) => value.is_some_and(|v| glob.is_match(v)),
        };
        let path = subject.file.map(|f| f.path.as_str()).filter(|p| !p.is_empty());
        let label = subject.context.filter(|c| c.unwind == Unwind::Label);
        (self.kinds == 0 || self.kinds & (1 << subject.kind as u8) != 0)
            && holds(&self.path, path)
            && holds(&self.name, path.map(name_of))
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
                let kind = Kind::ALL.into_iter().find(|k| k.name() == name);
                let kind = kind.ok_or_else(|| RulesError::Kind { line, found: name.to_owned() })?;
                self.kinds |= 1 << kind as u8;
            }
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
        let glob = GlobBuilder::new(value).literal_separator(of_paths).build();
        let glob = glob.map_err(|e| RulesError::Glob {
            line,
            found: value.to_owned(),
            problem: e.kind().to_string(),
        })?;
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
        return Err(RulesError::NoArrow { line, found: text.trim().to_owned() });
    };
    let (conditions, target) = (&words[..arrow], &words[arrow + 1..]);
    let stream = match target {
        [one] => one.parse::<u8>().ok(),
        _ => None,
    };
    let stream = stream.ok_or_else(|| RulesError::Stream { line, found: target.join(" ") })?;
    let mut rule = Rule { stream, ..Rule::default() };
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
            found: word.clone(),
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

/// The last component of a path.
pub(crate) fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// What follows the last dot of the name; `None` without a dot, or if only the dot precedes it.
pub(crate) fn extension_of(path: &str) -> Option<&str> {
    let (stem, extension) = name_of(path).rsplit_once('.')?;
    (!stem.is_empty() && !extension.is_empty()).then_some(extension)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Rules::parse(text).expect_err("refused").to_string()
    }

    fn file(path: &str) -> File {
        File { path: path.to_owned(), ..File::default() }
    }

    fn stream(rules: &Rules, path: &str, kind: Kind, context: Option<(&str, &str, Unwind)>) -> Option<u8> {
        let context = context.map(|(executable, comm, unwind)| Context {
            executable: executable.to_owned(),
            comm: comm.to_owned(),
            unwind,
            ..Context::default()
        });
        let file = file(path);
        rules.stream_of(Subject { kind, file: Some(&file), context: context.as_ref() })
    }

    #[test]
    fn the_first_match_decides() {
        let rules = Rules::parse(
            "# head\n\n  kind=journal,inode -> 1   # tail\nname=*.log->2\npath=/db/*.sst comm=flush? -> 3\n\
             path=\"/db/with blank/**\" -> 4\nexecutable=**/cc1 -> 5\nlabel=hot -> 6\nkind=data -> 7\n",
        )
        .expect("valid");
        assert_eq!(rules.rules().len(), 7);
        let of = |path, kind, context| stream(&rules, path, kind, context);
        let data = Kind::Data;
        assert_eq!(of("/x.log", Kind::Journal, None), Some(1));
        assert_eq!(of("/x.log", Kind::Inode, None), Some(1));
        assert_eq!(of("/deep/down/x.log", data, None), Some(2), "a name is the last component");
        assert_eq!(of("/db/1.sst", data, Some(("x", "flush1", Unwind::Scan))), Some(3));
        assert_eq!(of("/db/1.sst", data, Some(("x", "flush12", Unwind::Scan))), Some(7));
        assert_eq!(of("/db/sub/1.sst", data, Some(("x", "flush1", Unwind::Scan))), Some(7), "* stops at /");
        assert_eq!(of("/db/with blank/a/b", data, None), Some(4));
        assert_eq!(of("/a", data, Some(("/usr/lib/gcc/cc1", "", Unwind::Scan))), Some(5));
        assert_eq!(of("/a", data, Some(("hot", "", Unwind::Label))), Some(6));
        assert_eq!(of("/a", data, Some(("hot", "", Unwind::Scan))), Some(7), "not a label");
        assert_eq!(of("", data, None), Some(7));
        assert_eq!(of("/a", Kind::Bitmap, None), None);
    }

    #[test]
    fn unknown_things_match_no_condition() {
        let rules = Rules::parse("name=** -> 1\ncomm=* -> 2\n* -> 3").expect("valid");
        let nothing = Subject { kind: Kind::Data, file: None, context: None };
        assert_eq!(rules.stream_of(nothing), Some(3));
        assert_eq!(stream(&rules, "", Kind::Data, None), Some(3), "a file without a name");
        assert_eq!(Rules::parse("").expect("valid").stream_of(nothing), None);
    }

    #[test]
    fn errors_name_line_value_and_remedy() {
        assert_eq!(
            error("kind=data -> 1\nname=*.log 2"),
            "line 2: 'name=*.log 2' has no '->'; write CONDITIONS -> STREAM, as in 'name=*.log -> 2'"
        );
        assert_eq!(
            error("-> 3"),
            "line 1: no condition before '->'; write one such as 'kind=journal', or '*' for every write"
        );
        for (text, found) in
            [("* -> x", "x"), ("* -> 256", "256"), ("* ->", ""), ("* -> 1 2", "1 2"), ("* -> -1", "-1")]
        {
            let expected =
                format!("line 1: '{found}' is not a stream; write a number from 0 to 255 after '->'");
            assert_eq!(error(text), expected);
        }
        assert_eq!(
            error("\n\npth=/a -> 1"),
            "line 3: 'pth=/a' is not a condition; write FIELD=VALUE with a field of path, name, kind, \
             executable, comm, label (did you mean path?)"
        );
        assert!(error("path -> 1").starts_with("line 1: 'path' is not a condition"));
        assert!(error("path= -> 1").starts_with("line 1: 'path=' is not a condition"));
        assert_eq!(
            error("kind=log -> 1"),
            "line 1: 'log' is not a kind; the kinds are data, journal, inode, directory, bitmap, other"
        );
        assert!(error("name=a name=b -> 1").starts_with("line 1: 'name' is given twice"));
        assert!(error("kind=data kind=data -> 1").starts_with("line 1: 'kind' is given twice"));
        assert!(error("name=a[ -> 1").starts_with("line 1: 'a[' is not a glob ("));
        assert_eq!(error("name=\"a -> 1"), "line 1: a double quote is not closed; close it on the same line");
    }

    #[test]
    fn every_preset_parses_and_an_unknown_one_gets_its_neighbours() {
        for (name, _) in Rules::presets() {
            let rules = Rules::preset(name).expect(name);
            assert_eq!(rules.rules().is_empty(), name == "cassandra-normal", "{name}");
        }
        let error = Rules::preset("rockdb").expect_err("unknown").to_string();
        assert!(error.starts_with("no preset is called 'rockdb' (did you mean rocksdb?)"), "{error}");
    }

    #[test]
    fn presets_separate_what_the_path_and_the_thread_tell() {
        let of = |preset, path, comm| {
            let rules = Rules::preset(preset).expect(preset);
            stream(&rules, path, Kind::Data, Some(("/usr/bin/x", comm, Unwind::Scan)))
        };
        for preset in ["rocksdb", "common"] {
            let streams = [
                of(preset, "/db/000012.log", "db_bench"),
                of(preset, "/db/000013.sst", "rocksdb:high"),
                of(preset, "/db/000013.sst", "rocksdb:low"),
                of(preset, "/db/MANIFEST-000004", "db_bench"),
                of(preset, "/db/LOG", "db_bench"),
            ];
            assert_eq!(streams[3], streams[4]);
            let mut distinct: Vec<_> = streams[..4].iter().map(|s| s.expect("matched")).collect();
            distinct.sort_unstable();
            distinct.dedup();
            assert_eq!(distinct.len(), 4, "{preset}: {streams:?}");
        }
        assert_ne!(of("sqlite", "/a.db-journal", ""), of("sqlite", "/a.db", ""));
        assert_ne!(of("gcc", "/tmp/ccX.s", "cc1"), of("gcc", "/b/x.o", "as"));
        assert_ne!(of("gcc", "/b/x.o", "as"), of("gcc", "/b/vmlinux", "ld"));
        let cassandra = |path, comm| of("cassandra-multi-data", path, comm);
        assert_ne!(
            cassandra("/c/commitlog/CommitLog-7-1.log", ""),
            cassandra("/c/nb-1-big-Data.db", "MemtableFlushWr")
        );
        assert_ne!(
            cassandra("/c/nb-1-big-Data.db", "CompactionExecu"),
            cassandra("/c/nb-1-big-Data.db", "MemtableFlushWr")
        );
    }

    #[test]
    fn names_and_extensions() {
        assert_eq!(name_of("/a/b.c"), "b.c");
        assert_eq!(name_of(""), "");
        assert_eq!(extension_of("/a.b/c"), None);
        assert_eq!(extension_of("/a/c.tar.gz"), Some("gz"));
        assert_eq!(extension_of("/a/.profile"), None);
        assert_eq!(extension_of("/a/b."), None);
    }
}
