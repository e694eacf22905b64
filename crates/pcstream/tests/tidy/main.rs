//! What keeps this repository readable: lengths, widths, words, imports, documented flags, links, outputs.
//!
//! Idea: each rule yields faults with a place and a size. `exceptions.txt` lists those that were there when the rule came;
//! it may only shrink. A new fault fails the test, and so does an exception that is larger than its fault: then
//! `PCSTREAM_TIDY=shrink cargo test -p pcstream --test tidy` writes the smaller list, which never gains an entry.
//!
//! Known weakness: functions and imports are found by the layout that the formatters make, not by a parser.

mod flags;
mod imports;
mod lengths;
mod links;
mod outputs;
mod words;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Rule and place of a fault, and how bad it is.
pub type Faults = BTreeMap<(String, String), usize>;

/// A text file of the repository.
pub struct Source {
    /// Relative to the root, with `/`.
    pub path: String,
    /// All of it.
    pub text: String,
}

impl Source {
    /// Without the dot; empty if there is none.
    pub fn extension(&self) -> &str {
        Path::new(&self.path).extension().and_then(|e| e.to_str()).unwrap_or("")
    }
}

/// Made by programs, or not ours.
const SKIPPED: [&str; 5] = ["target", "corpus", "data", "proptest-regressions", ".git"];
/// The same, below the root.
const SKIPPED_PATHS: [&str; 2] = ["bench/results", "experiments/out"];
const TEXT: [&str; 12] = ["rs", "c", "h", "java", "md", "py", "toml", "rules", "service", "css", "js", "sh"];

/// All sources below a directory, and scripts without an extension.
fn sources(root: &Path) -> Vec<Source> {
    let mut found = Vec::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).expect("a directory").flatten() {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            let skipped = SKIPPED_PATHS.iter().any(|skipped| path == root.join(skipped));
            if path.is_symlink() || skipped || SKIPPED.contains(&name.as_str()) {
                continue;
            }
            if path.is_dir() {
                open.push(path);
            } else if let Some(source) = source(root, path) {
                found.push(source);
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn source(root: &Path, path: PathBuf) -> Option<Source> {
    let relative = path.strip_prefix(root).expect("below the root").to_str()?.to_owned();
    let known = path.extension().and_then(|e| e.to_str()).is_some_and(|e| TEXT.contains(&e));
    if !known && !relative.starts_with("scripts/") && !relative.starts_with(".ci/") {
        return None;
    }
    Some(Source { path: relative, text: fs::read_to_string(path).ok()? })
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn parse(exceptions: &str) -> Faults {
    let line = |line: &str| {
        let mut words = line.rsplitn(2, ' ');
        let size = words.next()?.parse().ok()?;
        let (rule, place) = words.next()?.split_once(' ')?;
        Some(((rule.to_owned(), place.to_owned()), size))
    };
    exceptions.lines().filter(|l| !l.starts_with('#') && !l.is_empty()).map(|l| line(l).expect(l)).collect()
}

/// Faults beyond their exceptions.
fn judge(faults: &Faults, exceptions: &Faults) -> Vec<String> {
    let mut wrong = Vec::new();
    for ((rule, place), size) in faults {
        match exceptions.get(&(rule.clone(), place.clone())) {
            Some(allowed) if size <= allowed => {}
            Some(allowed) => {
                wrong.push(format!("{rule}: {place}: {size}, of which {allowed} are an exception"))
            }
            None => wrong.push(format!("{rule}: {place}: {size}")),
        }
    }
    wrong
}

/// Exceptions beyond their faults.
fn too_generous(faults: &Faults, exceptions: &Faults) -> Vec<String> {
    let size = |key| faults.get(key).copied().unwrap_or(0);
    let slack = exceptions.iter().filter(|(key, allowed)| size(key) < **allowed);
    slack
        .map(|(key, n)| format!("shrink the list: {} {}: {} now, {n} listed", key.0, key.1, size(key)))
        .collect()
}

/// The exceptions that are still needed, none larger than before.
fn shrunk(faults: &Faults, exceptions: &Faults) -> Faults {
    let still = |(key, allowed): (&(String, String), &usize)| {
        faults.get(key).map(|size| (key.clone(), *size.min(allowed)))
    };
    exceptions.iter().filter_map(still).collect()
}

const HEAD: &str =
    "# Faults that were there before their rule: rule, place, size. This list may only shrink.\n";

#[test]
fn the_repository_is_tidy() {
    let root = root();
    let sources = sources(&root);
    assert!(sources.len() > 100, "the sources are found");
    let mut faults = Faults::new();
    lengths::check(&sources, &mut faults);
    words::check(&sources, &mut faults);
    imports::check(&sources, &mut faults);
    links::check(&root, &sources, &mut faults);
    flags::check(&root, &mut faults);
    outputs::check(&sources, &mut faults);
    let file = root.join("crates/pcstream/tests/tidy/exceptions.txt");
    let exceptions = parse(&fs::read_to_string(&file).unwrap_or_default());
    let wish = std::env::var("PCSTREAM_TIDY").unwrap_or_default();
    if wish == "shrink" {
        let lines = shrunk(&faults, &exceptions);
        let lines: String = lines.iter().map(|((rule, place), n)| format!("{rule} {place} {n}\n")).collect();
        fs::write(&file, HEAD.to_owned() + &lines).expect("the list can be written");
        return;
    }
    let (mut wrong, generous) = (judge(&faults, &exceptions), too_generous(&faults, &exceptions));
    if wish == "strict" {
        wrong.extend(generous);
    } else {
        generous.iter().for_each(|line| println!("{line}"));
    }
    assert!(wrong.is_empty(), "{} faults:\n{}", wrong.len(), wrong.join("\n"));
}

/// The test of the test: a new fault, a larger one and a stale exception are each found.
#[test]
fn exceptions_only_shrink() {
    let list = |text: &str| parse(text);
    let today = list("words a.rs 2\nfile b.rs 700\n");
    assert!(judge(&today, &today).is_empty());
    assert_eq!(judge(&today, &list("words a.rs 2\n")), ["file: b.rs: 700"]);
    assert_eq!(
        judge(&today, &list("words a.rs 1\nfile b.rs 700\n")),
        ["words: a.rs: 2, of which 1 are an exception"]
    );
    let stale = list("words a.rs 3\nfile b.rs 700\nfile gone.rs 900\n");
    assert_eq!(too_generous(&today, &stale).len(), 2);
    assert!(judge(&today, &stale).is_empty() && too_generous(&today, &today).is_empty());
    assert_eq!(shrunk(&today, &stale), today);
    assert!(shrunk(&today, &Faults::new()).is_empty(), "nothing is added");
}
