//! What to change: rules made from what a trace teaches, and what each change would gain.
//!
//! Idea: writers are distinguished by what a person can name: program, thread, and the pattern of the file's name. Their
//! median lifetimes, on a logarithmic scale, are divided into as many classes as there are streams (or hints) by
//! exact k-means in one dimension, weighted by pages. Each change is a set of rules on a kind of drive, so its gain can be
//! simulated exactly.
//!
//! Units: pages; lifetimes in pages written by the host.
//!
//! Weakness: where less than half of the data died within the trace, its lifetime counts as long as the whole trace, unless
//! it was written too late to tell.

mod changes;
mod gains;
mod patterns;
mod sources;
mod text;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use pcstream_placement::pcstream::cluster::{distinct, k_means, log2_fixed};
use pcstream_trace::Life;
use pcstream_trace::paths::file_name;

pub use changes::{Change, Possible};
pub use gains::Advice;
use patterns::{kind, literal};
pub use sources::{Source, Sources};

impl Source {
    /// What the program asks for already.
    pub fn own_hint(&self) -> Option<Life> {
        Life::TIMED.into_iter().find(|life| Some(life.name()) == self.hint)
    }
}

/// Divides sources into at most `classes` classes of like lifetimes; 0 is the shortest. One class per source, by
/// index.
pub fn classes(sources: &[Source], classes: usize) -> Vec<usize> {
    let life = |source: &Source| log2_fixed(source.lifetime);
    let mut lives: Vec<(u64, u64)> = sources.iter().map(|source| (life(source), source.pages)).collect();
    let mut points = Vec::new();
    distinct(&mut lives, &mut points);
    let begins: Vec<u64> =
        k_means(&points, classes.max(1)).into_iter().map(|begin| points[begin].value).collect();
    // The first class begins with the shortest of them.
    sources.iter().map(|source| begins.partition_point(|begin| *begin <= life(source)) - 1).collect()
}

/// Rules of the scheme `manual`: a line per source, with `first` as the stream of the shortest class. Nothing can be said of
/// the sources in `young`: they go to S0.
///
/// A program is known by its name, so that rules fit the next build in another directory. A context has the thread name of
/// its first write alone, so a rule asks for a thread only where the program and the file do not tell classes apart. Whole
/// names of files are named by their pattern where all of them are in one class. What says more comes first: the first rule
/// that matches decides.
pub fn rules(sources: &[Source], classes: &[usize], young: &[Source], first: usize) -> String {
    let known = sources.iter().zip(classes.iter().map(|class| class + first));
    let all = generalized(known.chain(young.iter().map(|source| (source, 0))).collect());
    let mut of: Vec<(&Source, usize)> = all.iter().map(|(source, stream)| (source, *stream)).collect();
    of.retain(|(source, _)| !source.executable.is_empty());
    of.sort_by_key(|(source, _)| {
        let literals = |pattern: &str| Reverse(pattern.chars().filter(|c| !['*', '?'].contains(c)).count());
        let (name, whole) = (literals(file_name(&source.file)), literals(&source.file));
        (source.file.is_empty(), name, whole, source.thread.is_empty())
    });
    let mut made = BTreeSet::new();
    let lines = of
        .iter()
        .map(|&(source, stream)| format!("{} -> {stream}\n", conditions(source, stream, &of).join(" ")));
    lines.filter(|line| made.insert(line.clone())).collect()
}

/// The sources with their streams, by the patterns of their names where all that a program has of a pattern are in one stream.
fn generalized(sources: Vec<(&Source, usize)>) -> Vec<(Source, usize)> {
    let mut of_kind: BTreeMap<(&str, String), BTreeSet<usize>> = BTreeMap::new();
    for (source, stream) in &sources {
        of_kind.entry((&source.executable, kind(&source.file))).or_default().insert(*stream);
    }
    let general = |(source, stream): &(&Source, usize)| {
        let kind = kind(&source.file);
        let alike = of_kind[&(source.executable.as_str(), kind.clone())].len() == 1;
        (Source { file: if alike { kind } else { source.file.clone() }, ..(*source).clone() }, *stream)
    };
    sources.iter().map(general).collect()
}

/// What tells the writes of a source from those of all others in other streams.
fn conditions(source: &Source, stream: usize, all: &[(&Source, usize)]) -> Vec<String> {
    let quoted = |text: &str| text.chars().map(literal).collect::<String>();
    let others = || all.iter().filter(|(_, of_other)| *of_other != stream).map(|(other, _)| other);
    let name = file_name(&source.executable);
    let is_path = source.executable.contains('/') && !name.is_empty();
    let same_name =
        |other: &&Source| other.executable != source.executable && file_name(&other.executable) == name;
    let executable = if is_path && !others().any(same_name) {
        format!("**/{}", quoted(name))
    } else {
        quoted(&source.executable)
    };
    let same_file = |other: &&Source| other.executable == source.executable && other.file == source.file;
    let file_tells = !source.file.is_empty() && !others().any(same_file);
    let mut out = vec![format!("\"executable={executable}\"")];
    if !source.thread.is_empty() && !file_tells {
        out.push(format!("\"comm={}\"", quoted(&source.thread)));
    }
    if source.file.contains('/') {
        out.push(format!("\"path=**/{}\"", source.file));
    } else if !source.file.is_empty() {
        out.push(format!("\"name={}\"", source.file));
    }
    out
}

#[cfg(test)]
mod tests {
    use pcstream_placement::rules::Subject;
    use pcstream_trace::{Context, File, Kind};

    use super::*;

    fn rules(sources: &[Source], classes: &[usize], first: usize) -> String {
        super::rules(sources, classes, &[], first)
    }

    fn source(lifetime: u64, pages: u64) -> Source {
        Source {
            executable: "/bin/db".into(),
            thread: "a b".into(),
            file: "*.log".into(),
            pages,
            lifetime,
            ..Source::default()
        }
    }

    #[test]
    fn classes_are_apart_on_a_logarithmic_scale() {
        let sources =
            [source(100, 5), source(130, 5), source(9_000, 5), source(1_000_000, 1), source(8_000, 9)];
        assert_eq!(classes(&sources, 3), [0, 0, 1, 2, 1]);
        assert_eq!(classes(&sources, 1), [0; 5]);
        assert_eq!(classes(&sources[..1], 8), [0]);
        assert!(classes(&[], 4).is_empty());
    }

    /// Where iterations that begin in the midst of many like lifetimes would stop too early.
    #[test]
    fn little_that_lives_long_has_classes_of_its_own() {
        let many = [100, 110, 120, 130].map(|lifetime| source(lifetime, 100));
        let sources: Vec<Source> =
            many.into_iter().chain([source(10_000, 1), source(1_000_000, 1)]).collect();
        assert_eq!(classes(&sources, 3), [0, 0, 0, 0, 1, 2]);
    }

    #[test]
    fn rules_can_be_read_back() {
        let other = Source { thread: "c".into(), ..source(1, 1) };
        let text = rules(&[source(1, 1), other.clone()], &[2, 2], 1);
        assert_eq!(text, "\"executable=**/db\" \"name=*.log\" -> 3\n", "the file alone tells");
        let text = rules(&[source(1, 1), other], &[2, 1], 1);
        assert_eq!(
            text,
            "\"executable=**/db\" \"comm=a b\" \"name=*.log\" -> 3\n\
             \"executable=**/db\" \"comm=c\" \"name=*.log\" -> 2\n"
        );
        assert_eq!(pcstream_placement::Rules::parse(&text).unwrap().rules().len(), 2);
    }

    #[test]
    fn programs_are_known_by_their_names_where_these_tell_them_apart() {
        let executable = |path: &str| Source { executable: path.into(), ..source(1, 1) };
        let two = [executable("/a/db"), executable("/b/db"), executable("hot")];
        let text = rules(&two, &[0, 0, 1], 1);
        assert_eq!(
            text,
            "\"executable=**/db\" \"name=*.log\" -> 1\n\"executable=hot\" \"name=*.log\" -> 2\n"
        );
        let text = rules(&two[..2], &[0, 1], 1);
        assert_eq!(
            text,
            "\"executable=/a/db\" \"name=*.log\" -> 1\n\"executable=/b/db\" \"name=*.log\" -> 2\n"
        );
    }

    #[test]
    fn files_of_one_kind_have_a_rule_each_where_classes_differ() {
        let file = |file: &str| Source { file: file.into(), ..source(1, 1) };
        let dat = [file("index.dat"), file("rows.dat")];
        let whose = "\"executable=**/db\"";
        let each = format!("{whose} \"name=index.dat\" -> 1\n{whose} \"name=rows.dat\" -> 2\n");
        assert_eq!(rules(&dat, &[0, 1], 1), each);
        assert_eq!(rules(&dat, &[1, 1], 1), format!("{whose} \"name=*.dat\" -> 2\n"));
        let young = super::rules(&dat[..1], &[0], &dat[1..], 1);
        assert_eq!(young, format!("{whose} \"name=index.dat\" -> 1\n{whose} \"name=rows.dat\" -> 0\n"));
        let data = [file("wal/data"), file("sst/data")];
        let text = rules(&data, &[0, 1], 1);
        assert!(
            text.contains("\"path=**/wal/data\" -> 1") && text.contains("\"path=**/sst/data\" -> 2"),
            "{text}"
        );
        assert_eq!(rules(&data, &[0, 0], 1), format!("{whose} \"name=data\" -> 1\n"));
    }

    /// A pattern of digits alone matches every name, and a rule without one every file.
    #[test]
    fn what_says_more_comes_first() {
        let file = |file: &str| Source { file: file.into(), ..source(1, 1) };
        let text = rules(&[file(""), file("*"), file("spill*"), file("spill*-*")], &[0, 1, 2, 3], 0);
        let streams: Vec<&str> = text.lines().map(|line| &line[line.len() - 1..]).collect();
        assert_eq!(streams, ["3", "2", "1", "0"], "{text}");
    }

    /// As of PostgreSQL, whose log and tables have numbers for names.
    #[test]
    fn directories_tell_files_that_are_numbers() {
        let file = |file: &str| Source { file: file.into(), ..source(1, 1) };
        let text = rules(&[file("base/*/*"), file("pg_wal/*"), file("*_fsm")], &[1, 0, 2], 1);
        let whose = |condition: &str| format!("\"executable=**/db\" \"{condition}\"");
        let expected = [("name=*_fsm", 3), ("path=**/pg_wal/*", 1), ("path=**/base/*/*", 2)];
        let lines = expected.map(|(condition, stream)| format!("{} -> {stream}\n", whose(condition)));
        assert_eq!(text, lines.concat());
        let rules = pcstream_placement::Rules::parse(&text).unwrap();
        let context = Context { executable: "/bin/db".into(), ..Context::default() };
        let stream = |path: &str| {
            let file = File { path: path.to_owned(), ..File::default() };
            rules.stream_of(Subject {
                kind: Kind::Data,
                file: Some(&file),
                context: Some(&context),
                size: None,
            })
        };
        let data =
            ["/pg_wal/000000010000000000000001", "/base/5/16397", "/pg/base/5/16397_fsm", "/pg/base/5/a/1"];
        assert_eq!(data.map(stream), [Some(1), Some(2), Some(3), None]);
    }

    /// Whatever names hold, a rule matches what it was made of.
    #[test]
    fn special_characters_of_names_match_themselves() {
        let special = "a!b*c?d[e]f{g,h}i^j-k #l->m\"n\\o\tp\n\u{85}q";
        let path = format!("/db/{special}");
        let source = |thread: &str| Source {
            executable: format!("/bin/{special}"),
            thread: thread.to_owned(),
            file: patterns::pattern(&path),
            ..source(1, 1)
        };
        let text = rules(&[source(special), source("other")], &[0, 1], 1);
        let rules = pcstream_placement::Rules::parse(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let stream = |path: &str, comm: &str| {
            let context = Context {
                executable: format!("/bin/{special}"),
                comm: comm.to_owned(),
                ..Context::default()
            };
            let file = File { path: path.to_owned(), ..File::default() };
            let (file, context) = (Some(&file), Some(&context));
            rules.stream_of(Subject { kind: Kind::Data, file, context, size: None })
        };
        assert_eq!((stream(&path, special), stream(&path, "other")), (Some(1), Some(2)), "{text}");
        for changed in ['!', '*', '?', '[', ']', '{', '^', '\\'] {
            assert_eq!(stream(&path.replace(changed, "x"), special), None, "{changed}: {text}");
        }
    }

    /// A rule cannot hold a quote; what stands for it stands for other characters, too.
    #[test]
    fn a_name_with_quotes_comes_after_those_without() {
        let file = |path: &str| Source { file: patterns::pattern(path), ..source(1, 1) };
        let text = rules(&[file("/db/a\"b"), file("/db/axb")], &[0, 1], 1);
        let whose = "\"executable=**/db\"";
        assert_eq!(text, format!("{whose} \"name=axb\" -> 2\n{whose} \"name=a?b\" -> 1\n"));
    }

    #[test]
    fn a_hint_without_a_lifetime_is_none() {
        let hinted = |hint| Source { hint, ..source(1, 1) }.own_hint();
        assert_eq!(hinted(Some("extreme")), Some(Life::Extreme));
        assert_eq!([hinted(Some("not_set")), hinted(None)], [None, None]);
    }
}
