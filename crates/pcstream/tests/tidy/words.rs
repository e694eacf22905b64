//! The field's terms instead of inventions of this project.

use crate::{Faults, Source};

/// Whole words, also as parts of names.
const WORDS: [&str; 10] =
    ["trail", "trails", "met", "heard", "told", "deaf", "lazy", "anew", "disbelieved", "moments"];
/// The same in all their forms.
const VERBS: [&str; 4] = ["recognise", "remember", "announce", "hear"];
const ENDINGS: [&str; 6] = ["", "e", "es", "s", "ed", "ing"];
/// Names of others: options of mkfs.ext4, a flag of dlopen, types of Rust.
const NOT_OURS: [&str; 5] = ["lazy_itable_init", "lazy_journal_init", "RTLD_LAZY", "LazyCell", "LazyLock"];
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
    let text = split_names(&NOT_OURS.iter().fold(text.to_owned(), |text, name| text.replace(name, "")));
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| is_banned(word)).count();
    words + PHRASES.iter().map(|phrase| text.matches(phrase).count()).sum::<usize>()
}

fn is_banned(word: &str) -> bool {
    let is_form = |verb: &str| {
        word.strip_prefix(verb.trim_end_matches('e')).is_some_and(|ending| ENDINGS.contains(&ending))
    };
    WORDS.contains(&word) || VERBS.into_iter().any(is_form)
}

/// In lower case, with the words of `camelCase` apart.
fn split_names(text: &str) -> String {
    let mut split = String::with_capacity(text.len());
    let mut before = ' ';
    for c in text.chars() {
        if before.is_lowercase() && c.is_uppercase() {
            split.push(' ');
        }
        split.extend(c.to_lowercase());
        before = c;
    }
    split
}

#[test]
fn words_are_found() {
    assert_eq!(count("A trail that was met; Recognised at sight. paths_told_by_runtime"), 5);
    assert_eq!(count("trailing metadata, hearth, announcement"), 0);
    assert_eq!(count("announceMap, mappingsAreTold, Heard, hears, remembering a_recognising_one"), 6);
    assert_eq!(count("RTLD_LAZY, lazy_itable_init=0; lazy_init, LAZY"), 2);
}
