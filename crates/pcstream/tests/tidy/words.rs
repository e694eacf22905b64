//! The field's terms instead of inventions of this project.

use crate::{Faults, Source};

/// Whole words, also as parts of names.
const WORDS: [&str; 19] = [
    "recognise",
    "recognised",
    "recognises",
    "remember",
    "remembers",
    "remembered",
    "trail",
    "trails",
    "met",
    "announce",
    "announces",
    "announced",
    "hear",
    "told",
    "deaf",
    "lazy",
    "anew",
    "disbelieved",
    "moments",
];
/// Names of others: options of mkfs.ext4, a flag of dlopen.
const NOT_OURS: [&str; 3] = ["lazy_itable_init", "lazy_journal_init", "rtld_lazy"];
const PHRASES: [&str; 6] = ["at sight", "known_as", "by calls", "quiet hour", "busy hour", "busier hour"];

pub fn check(sources: &[Source], faults: &mut Faults) {
    for source in sources.iter().filter(|source| !source.path.contains("tests/tidy/")) {
        let found = count(&source.text);
        if found > 0 {
            *faults.entry(("words".into(), part(&source.path))).or_default() += found;
        }
    }
}

/// A crate, or another directory of the root: files come and go while words are replaced.
fn part(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').collect();
    let depth = if parts[0] == "crates" { 2 } else { 1 };
    parts[..depth.min(parts.len())].join("/")
}

fn count(text: &str) -> usize {
    let text = NOT_OURS.iter().fold(text.to_lowercase(), |text, name| text.replace(name, ""));
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| WORDS.contains(word)).count();
    words + PHRASES.iter().map(|phrase| text.matches(phrase).count()).sum::<usize>()
}

#[test]
fn words_are_found() {
    assert_eq!(count("A trail that was met; Recognised at sight. paths_told_by_runtime"), 5);
    assert_eq!(count("trailing metadata, heard"), 0);
    assert_eq!(count("RTLD_LAZY, lazy_itable_init=0; lazy_init, LAZY"), 2);
}
