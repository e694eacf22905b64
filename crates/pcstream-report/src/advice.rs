//! What to change: rules made from what a trace teaches, and what each change would gain.
//!
//! Idea: writers are distinguished by what a person can name: program, thread, and the pattern of the file's name. Their
//! median lifetimes, on a logarithmic scale, are divided into as many classes as there are streams (or hints) by
//! k-means in one dimension, weighted by pages. Each change is a set of rules on a kind of drive, so its gain can be
//! simulated exactly.
//!
//! Units: pages; lifetimes in pages written by the host.
//!
//! Weakness: a context counts for the file that it wrote most. Lifetimes that did not end within the trace count as
//! long as the whole trace.

use std::collections::{BTreeMap, BTreeSet};

use pcstream_replay::Lifetimes;
use pcstream_trace::paths::file_name;
use serde::Serialize;

use crate::ContextRow;
use crate::call_paths::call_paths;
use crate::symbols::Names;

/// Smallest share of the writes for a rule of its own.
const SMALLEST_SHARE: f64 = 0.002;
/// Values of `F_SET_RW_HINT` that name a lifetime, shortest first.
pub const HINTS: [&str; 4] =
    ["RWH_WRITE_LIFE_SHORT", "RWH_WRITE_LIFE_MEDIUM", "RWH_WRITE_LIFE_LONG", "RWH_WRITE_LIFE_EXTREME"];

/// A writer that a rule can name.
#[derive(Clone, Debug, Serialize)]
pub struct Source {
    /// Path of the executable.
    pub executable: String,
    /// Thread name; empty if it is not known.
    pub thread: String,
    /// Pattern of the names of its files; empty if they have none.
    pub file: String,
    /// Call path of its heaviest context, shortened.
    pub function: String,
    /// Module that the innermost function of its own lies in: whose code it is.
    pub module: String,
    /// Source line of that function, `file:line`, if it is known.
    pub line: Option<String>,
    /// Pages written.
    pub pages: u64,
    /// Median lifetime in pages; the whole trace where nothing ended.
    pub lifetime: u64,
}

/// The writers of a trace, heaviest first.
pub fn sources(rows: &[ContextRow], host_pages: u64) -> Vec<Source> {
    let known: Vec<_> = rows.iter().filter_map(|row| row.context).collect();
    let mut paths = call_paths(&known, Names::Short).into_iter();
    let mut found: BTreeMap<(String, String, String), (Source, Option<Lifetimes>)> = BTreeMap::new();
    for row in rows {
        let Some(context) = row.context else { continue };
        let path = paths.next().unwrap_or_default();
        let file = row.files.first().map_or(String::new(), |(path, _)| pattern(file_name(path)));
        let key = (context.executable.clone(), context.comm.clone(), file.clone());
        // The heaviest context comes first, and gives the function.
        let (source, lifetimes) = found.entry(key).or_insert_with(|| {
            let own = context.frames.iter().position(|frame| !crate::symbols::is_wrapper(frame));
            let source = Source {
                executable: context.executable.clone(),
                thread: context.comm.clone(),
                file,
                function: path,
                module: own.map_or(context.executable.clone(), |own| context.frames[own].module.clone()),
                line: own.and_then(|own| row.line(own)).map(ToString::to_string),
                pages: 0,
                lifetime: host_pages,
            };
            (source, None)
        });
        source.pages += row.writer.pages();
        match lifetimes {
            Some(lifetimes) => lifetimes.add(&row.writer.lifetimes),
            None => *lifetimes = Some(row.writer.lifetimes.clone()),
        }
    }
    let median = |(mut source, lifetimes): (Source, Option<Lifetimes>)| {
        // Where less than half has died, the median is not known yet, and is long.
        let lifetimes = lifetimes.filter(|lifetimes| lifetimes.ended_pages() * 2 >= source.pages);
        if let Some(quartiles) = lifetimes.and_then(|lifetimes| lifetimes.quartiles()) {
            source.lifetime = quartiles.p50.max(1);
        }
        source
    };
    let mut sources: Vec<Source> = found.into_values().map(median).collect();
    let least = (host_pages as f64 * SMALLEST_SHARE) as u64;
    sources.retain(|source| source.pages >= least.max(1) && can_be_named(source));
    sources.sort_by(|a, b| b.pages.cmp(&a.pages).then_with(|| a.executable.cmp(&b.executable)));
    sources
}

/// `000123.sst` is `*.sst`, `MANIFEST-000004` is `MANIFEST-*`.
fn pattern(name: &str) -> String {
    let extension =
        name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty()).map(|(_, extension)| extension);
    match extension {
        Some(extension) if !extension.is_empty() && !extension.starts_with(|c: char| c.is_ascii_digit()) => {
            format!("*.{}", without_numbers(extension))
        }
        _ => without_numbers(name),
    }
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

fn literal(c: char) -> String {
    if ['*', '?', '[', ']', '{', '}', '!', '\\'].contains(&c) { format!("[{c}]") } else { c.to_string() }
}

/// Rules quote with double quotes, and are lines.
fn can_be_named(source: &Source) -> bool {
    let legal = |text: &str| !text.contains(|c: char| c == '"' || c == '\\' || c.is_control());
    legal(&source.executable) && legal(&source.thread) && legal(&source.file)
}

/// Divides sources into at most `classes` classes of like lifetimes; 0 is the shortest. One class per source, by
/// index.
pub fn classes(sources: &[Source], classes: usize) -> Vec<usize> {
    let values: Vec<(f64, f64)> =
        sources.iter().map(|s| ((s.lifetime as f64).log2(), s.pages as f64)).collect();
    let mut distinct: Vec<f64> = values.iter().map(|(life, _)| *life).collect();
    distinct.sort_by(f64::total_cmp);
    distinct.dedup();
    let count = classes.min(distinct.len()).max(1);
    let mut centres: Vec<f64> = (0..count)
        .map(|i| distinct.get((i * 2 + 1) * distinct.len() / (2 * count)).copied().unwrap_or(0.0))
        .collect();
    let nearest = |centres: &[f64], life: f64| {
        let distance = |i: &usize| (centres[*i] - life).abs();
        (0..centres.len()).min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or(0)
    };
    // Lloyd's iterations end: each lowers a sum that has finitely many values; 100 are plenty.
    for _ in 0..100 {
        let mut sums = vec![(0.0, 0.0); centres.len()];
        for &(life, weight) in &values {
            let sum = &mut sums[nearest(&centres, life)];
            *sum = (sum.0 + life * weight, sum.1 + weight);
        }
        let moved: Vec<f64> = sums
            .iter()
            .zip(&centres)
            .map(|(sum, old)| if sum.1 > 0.0 { sum.0 / sum.1 } else { *old })
            .collect();
        if moved == centres {
            break;
        }
        centres = moved;
    }
    values.iter().map(|(life, _)| nearest(&centres, *life)).collect()
}

/// Rules of the scheme `manual`: a line per source, with `first` as the stream of the shortest class.
///
/// A context has the thread name of its first write alone, so a rule asks for a thread only where the program and the
/// file do not tell classes apart.
pub fn rules(sources: &[Source], classes: &[usize], first: usize) -> String {
    let mut out = String::new();
    let mut made = BTreeSet::new();
    for (source, class) in sources.iter().zip(classes) {
        let is_apart = |(other, of_other): (&Source, &usize)| {
            of_other == class || other.executable != source.executable || other.file != source.file
        };
        let file_tells = !source.file.is_empty() && sources.iter().zip(classes).all(is_apart);
        let executable: String = source.executable.chars().map(literal).collect();
        let thread: String = source.thread.chars().map(literal).collect();
        let mut conditions = Vec::new();
        if executable.is_empty() {
            continue;
        }
        conditions.push(format!("\"executable={executable}\""));
        conditions.extend((!thread.is_empty() && !file_tells).then(|| format!("\"comm={thread}\"")));
        conditions.extend((!source.file.is_empty()).then(|| format!("\"name={}\"", source.file)));
        let line = format!("{} -> {}\n", conditions.join(" "), class + first);
        if made.insert(line.clone()) {
            out += &line;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(lifetime: u64, pages: u64) -> Source {
        Source {
            executable: "/bin/db".into(),
            thread: "a b".into(),
            file: "*.log".into(),
            function: String::new(),
            module: String::new(),
            line: None,
            pages,
            lifetime,
        }
    }

    #[test]
    fn names_become_patterns() {
        let cases = [
            ("000123.sst", "*.sst"),
            ("MANIFEST-000004", "MANIFEST-*"),
            ("LOG.old.1700", "LOG.old.*"),
            ("test.db-journal", "*.db-journal"),
            (".hidden", ".hidden"),
            ("a[1]", "a[[]*[]]"),
        ];
        cases.iter().for_each(|(name, expected)| assert_eq!(pattern(name), *expected, "{name}"));
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

    #[test]
    fn rules_can_be_read_back() {
        let other = Source { thread: "c".into(), ..source(1, 1) };
        let text = rules(&[source(1, 1), other.clone()], &[2, 2], 1);
        assert_eq!(text, "\"executable=/bin/db\" \"name=*.log\" -> 3\n", "the file alone tells");
        let text = rules(&[source(1, 1), other], &[2, 1], 1);
        assert_eq!(
            text,
            "\"executable=/bin/db\" \"comm=a b\" \"name=*.log\" -> 3\n\
             \"executable=/bin/db\" \"comm=c\" \"name=*.log\" -> 2\n"
        );
        assert_eq!(pcstream_placement::Rules::parse(&text).unwrap().rules().len(), 2);
    }
}
