//! Patterns of file names, which say what kind of file it is: `/db/000123.sst` is `*.sst`, `/tmp/sortK3xPq1` is `sort*` among
//! others like it. Patterns are those of rules: `*` stands for any characters, and what is special is put in brackets.

use std::collections::BTreeSet;

use pcstream_trace::paths::file_name;

use crate::escape::is_hidden;

/// Letters that names must share for a pattern of their own.
const SHARED_LETTERS: usize = 3;
/// Most files of one pattern that are kept apart by their whole names.
const MOST_WHOLE: usize = 8;

/// `/db/000123.sst` is `*.sst`, `MANIFEST-000004` is `MANIFEST-*`, PostgreSQL's `base/16384/16397` is `base/*/*`.
pub(super) fn pattern(path: &str) -> String {
    let says_something = |pattern: &str| pattern.contains(char::is_alphabetic);
    let name = pattern_of_name(file_name(path));
    let mut whole = name.clone();
    for directory in path.split('/').rev().skip(1).filter(|directory| !directory.is_empty()) {
        if says_something(&whole) || name.is_empty() {
            break;
        }
        let numbered = is_number(directory) || is_fan_out(directory);
        let directory = if numbered { "*".to_owned() } else { without_numbers(directory) };
        whole = format!("{directory}/{whole}");
    }
    if says_something(&whole) { whole } else { name }
}

/// What tells a few files of one pattern apart: their names, or, where these are the same, with their directories. `None`:
/// they are one file, or many, or have names with numbers or such as are made at random, which the next run has not.
pub(super) fn whole_names(paths: &[&str]) -> Option<Vec<String>> {
    let ends = |parts: usize| -> Option<Vec<String>> {
        let end = |path: &&str| {
            let parts: Vec<&str> = path.rsplit('/').take(parts).collect();
            let lasting = |part: &&str| !part.is_empty() && part.chars().all(is_plain) && !is_mixed(part);
            parts.iter().all(lasting).then(|| parts.into_iter().rev().collect::<Vec<_>>().join("/"))
        };
        let ends: Vec<String> = paths.iter().map(end).collect::<Option<_>>()?;
        (ends.iter().collect::<BTreeSet<_>>().len() == paths.len()).then_some(ends)
    };
    if (2..=MOST_WHOLE).contains(&paths.len()) { ends(1).or_else(|| ends(2)) } else { None }
}

/// The pattern of a source's name, which may be a whole name: `index.dat` is `*.dat`.
pub(super) fn kind(name: &str) -> String {
    if name.chars().all(|c| is_plain(c) || c == '/') { pattern(name) } else { name.to_owned() }
}

/// Whether a capital follows a small letter, as in names that are made at random: `sortKxPqa`.
fn is_mixed(name: &str) -> bool {
    name.as_bytes().windows(2).any(|two| two[0].is_ascii_lowercase() && two[1].is_ascii_uppercase())
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

/// Whether this may be one of the directories over which a store spreads files by their digest: `0a`.
fn is_fan_out(name: &str) -> bool {
    name.len() == 2
        && name.contains(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_hexdigit())
}

/// What patterns that may be alike begin with; none for those that have nothing in common with others.
pub(super) fn beginning(pattern: &str) -> Option<&str> {
    // Rules look for a pattern without directories among names alone.
    if pattern.contains('/') {
        return None;
    }
    let (end, _) = pattern.char_indices().nth(SHARED_LETTERS)?;
    let begins = &pattern[..end];
    begins.chars().all(is_plain).then_some(begins)
}

/// The pattern of all names that two patterns stand for. Both have the same [`beginning`].
pub(super) fn both(one: &str, other: &str) -> String {
    let same = one.char_indices().zip(other.chars()).take_while(|((_, a), b)| a == b && is_plain(*a));
    let end = same.last().map_or(0, |((at, c), _)| at + c.len_utf8());
    format!("{}*", &one[..end])
}

/// Whether a pattern may be cut behind this.
fn is_plain(c: char) -> bool {
    c.is_alphabetic() || ['-', '_', '.'].contains(&c)
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

/// A character as a glob that matches it. Of `[!]` the second would negate a class, and alone it stands for itself. What no rule
/// can hold, because rules are lines and quote with double quotes, is any characters of as many bytes; and so is what is not seen.
pub(super) fn literal(c: char) -> String {
    match c {
        '*' | '?' | '[' | ']' | '{' | '}' | '\\' => format!("[{c}]"),
        c if c == '"' || is_hidden(c) => "?".repeat(c.len_utf8()),
        c => c.to_string(),
    }
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
            ("\u{202e}bidi\n", "???bidi?"),
            ("a!b", "a!b"),
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
            ("/0a/0123456789abcdef", "*"),
            ("/objects/0a/0123456789abcdef", "objects/*/*"),
            ("/db/16397", "db/*"),
            ("", ""),
        ];
        cases.iter().for_each(|(name, expected)| assert_eq!(pattern(name), *expected, "{name}"));
    }

    #[test]
    fn few_files_with_lasting_names_are_apart() {
        let cases: [(&[&str], &[&str]); 9] = [
            (&["/db/index.dat", "/db/rows.dat"], &["index.dat", "rows.dat"]),
            (&["/wal/data.bin", "/sst/data.bin"], &["wal/data.bin", "sst/data.bin"]),
            (&["/wal/data", "/db/sst/data"], &["wal/data", "sst/data"]),
            (&["/db/a/data", "/sst/a/data"], &[]),
            (&["/data", "/db/data"], &[]),
            (&["/db/index.dat"], &[]),
            (&["/db/000123.sst", "/db/rows.sst"], &[]),
            (&["/tmp/sortKxPqa.tmp", "/tmp/sortAbCde.tmp"], &[]),
            (&["a.t", "b.t", "c.t", "d.t", "e.t", "f.t", "g.t", "h.t", "i.t"], &[]),
        ];
        for (paths, expected) in cases {
            assert_eq!(whole_names(paths).unwrap_or_default(), expected, "{paths:?}");
        }
        let of = ["index.dat", "wal/data.bin", "*.dat", "sort*", "base/*/*", "a[[]*", "wal/data"];
        assert_eq!(of.map(kind), ["*.dat", "*.bin", "*.dat", "sort*", "base/*/*", "a[[]*", "data"]);
    }

    /// As of mkstemp: `sortXXXXXX`.
    #[test]
    fn random_names_share_their_beginning() {
        let names = ["sortaB*xY", "sortQ", "sort[{]z"];
        assert!(names.iter().all(|name| beginning(name) == Some("sor")));
        let all = names.iter().skip(1).fold(names[0].to_owned(), |all, name| both(&all, name));
        assert_eq!(all, "sort*");
        assert_eq!(both("sort*", "sorted"), "sort*");
        assert_eq!(both("été-a", "été-b"), "été-*");
        assert_eq!(["*.sst", "ab", "pg_wal/*", "base/*/*", "a[*]b"].map(beginning), [None; 5]);
    }
}
