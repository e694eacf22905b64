//! The registry: one line per scheme. A new scheme is one file and one line here.

use std::sync::Arc;

use crate::autostream_mq::{AutoStreamMq, MqParams};
use crate::autostream_sfr::{AutoStreamSfr, SfrParams};
use crate::baseline::Baseline;
use crate::error::SchemeError;
use crate::fstream::{FStream, FStreamParams};
use crate::future::Future;
use crate::manual::{Manual, ManualParams};
use crate::oracle::{Oracle, OracleForm, OracleParams};
use crate::pcstream::key::KeySource;
use crate::pcstream::{PcStream, PcStreamParams};
use crate::plus::{PcStreamPlus, PlusParams};
use crate::scheme::Scheme;
use crate::sequential::{Sequential, SequentialParams};

/// Everything a scheme may be told when it is made. Plain data; the defaults are the papers'.
#[derive(Clone, Debug, Default)]
pub struct SchemeParams {
    /// Streams the device has, S0 included (`--streams`). The same for every scheme of a comparison.
    pub streams: u8,
    /// Rules of `manual`.
    pub manual: ManualParams,
    /// Parameters of `autostream-mq`.
    pub autostream_mq: MqParams,
    /// Parameters of `autostream-sfr`.
    pub autostream_sfr: SfrParams,
    /// Parameters of `sequential`.
    pub sequential: SequentialParams,
    /// Parameters of `fstream`.
    pub fstream: FStreamParams,
    /// Parameters of `pcstream`, and of its variants but for what their names change.
    pub pcstream: PcStreamParams,
    /// Parameters of `pcstream-plus`.
    pub plus: PlusParams,
    /// Parameters of the oracles.
    pub oracle: OracleParams,
    /// What the oracles know; the other schemes are not shown it.
    pub future: Option<Arc<Future>>,
}

impl SchemeParams {
    /// Default parameters for a device with `streams` streams, S0 included.
    pub fn new(streams: u8) -> SchemeParams {
        SchemeParams { streams, ..SchemeParams::default() }
    }
}

type Build = fn(&'static str, &SchemeParams) -> Result<Box<dyn Scheme>, SchemeError>;

/// A registered scheme.
#[derive(Clone, Copy)]
pub struct SchemeInfo {
    /// The name on the command line and in results.
    pub name: &'static str,
    /// One line for help.
    pub summary: &'static str,
    needs_future: bool,
    build: Build,
}

impl SchemeInfo {
    /// Whether `SchemeParams::future` must be given.
    pub fn needs_future(&self) -> bool {
        self.needs_future
    }

    /// Makes the scheme.
    pub fn build(&self, params: &SchemeParams) -> Result<Box<dyn Scheme>, SchemeError> {
        if params.streams == 0 {
            return Err(SchemeError::NoStreams);
        }
        (self.build)(self.name, params)
    }
}

const fn online(name: &'static str, summary: &'static str, build: Build) -> SchemeInfo {
    SchemeInfo { name, summary, needs_future: false, build }
}

const fn foreseeing(name: &'static str, summary: &'static str, build: Build) -> SchemeInfo {
    SchemeInfo { name, summary, needs_future: true, build }
}

/// Every scheme, in the order in which reports show them.
#[rustfmt::skip]
static REGISTRY: &[SchemeInfo] = &[
    online("baseline", "everything to the default stream S0", |_, p| Baseline::boxed(p)),
    online("manual", "rules chosen by a person: path, name, kind, program -> stream", Manual::boxed),
    online("autostream-mq", "AutoStream multi-queue (SYSTOR'17): access counts of 1 MiB chunks", AutoStreamMq::boxed),
    online("autostream-sfr", "AutoStream SFR (SYSTOR'17): sequentiality, frequency, recency of chunks", AutoStreamSfr::boxed),
    online("sequential", "sequential patterns found in the device (HotStorage'14)", Sequential::boxed),
    online("fstream", "file-system kinds: journal, inodes, directories, bitmaps (FAST'18)", FStream::boxed),
    online("pcstream", "program contexts grouped by lifetime (FAST'19)", |n, p| PcStream::boxed(n, p, |_| {})),
    online("pcstream-paper", "pcstream by the letter: lifetimes per chunk, once a request; new contexts wait in S0 (FAST'19)", |n, p| PcStream::boxed(n, p, PcStreamParams::by_the_letter)),
    online("pcstream-kinds", "pcstream, with file-system metadata learned by its kind instead of left in S0", |n, p| PcStream::boxed(n, p, |q| q.kinds = true)),
    online("pcstream-tree", "pcstream; a call path too little is known of goes by its inner frames, or its program", |n, p| PcStream::boxed(n, p, |q| q.key = KeySource::ContextTree)),
    online("pcstream-forget", "pcstream; its table is emptied when a build's linker ends (FAST'19: no table)", |n, p| PcStream::boxed(n, p, PcStreamParams::forget_builds)),
    online("pcstream-plus", "ours: contexts, names and each page's own history; streams by what they tell of lifetimes", |n, p| Ok(Box::new(PcStreamPlus::new(n, p.streams, p.plus)?))),
    online("vstream-extension", "pcstream's mapper over file extensions (after vStream, HotStorage'18)", |n, p| PcStream::boxed(n, p, |q| q.key = KeySource::Extension)),
    online("vstream-file", "pcstream's mapper over files", |n, p| PcStream::boxed(n, p, |q| q.key = KeySource::File)),
    online("vstream-executable", "pcstream's mapper over executables", |n, p| PcStream::boxed(n, p, |q| q.key = KeySource::Executable)),
    foreseeing("oracle", "knows the future: the default form, oracle-quantile", |n, p| Oracle::boxed(n, p, p.oracle.form)),
    foreseeing("oracle-fk", "knows the future: remaining lifetime in superblocks (FK of SepBIT, FAST'22)", |n, p| Oracle::boxed(n, p, OracleForm::Fk)),
    foreseeing("oracle-quantile", "knows the future: equal-mass quantiles of the remaining lifetime", |n, p| Oracle::boxed(n, p, OracleForm::Quantile)),
    foreseeing("oracle-log", "knows the future: clusters of the logarithm of the remaining lifetime", |n, p| Oracle::boxed(n, p, OracleForm::Log)),
    foreseeing("oracle-window", "knows the future: windows of absolute death time (after NoDaP, FAST'26)", |n, p| Oracle::boxed(n, p, OracleForm::Window)),
];

/// Every scheme, in report order.
pub fn schemes() -> &'static [SchemeInfo] {
    REGISTRY
}

/// The names of every scheme, in report order.
pub fn names() -> impl Iterator<Item = &'static str> {
    REGISTRY.iter().map(|s| s.name)
}

/// The scheme of this name; an unknown name comes back with those that resemble it.
pub fn find(name: &str) -> Result<&'static SchemeInfo, SchemeError> {
    REGISTRY
        .iter()
        .find(|s| s.name == name)
        .ok_or_else(|| SchemeError::Unknown { name: name.to_owned(), nearest: nearest(name, names()) })
}

/// Makes the scheme of this name.
pub fn build(name: &str, params: &SchemeParams) -> Result<Box<dyn Scheme>, SchemeError> {
    find(name)?.build(params)
}

/// Up to three candidates that `name` may have been meant for: those it is a part of, or within a
/// few edits (one, and one more per five characters); best first.
pub(crate) fn nearest(name: &str, candidates: impl Iterator<Item = &'static str>) -> Vec<&'static str> {
    // Longer than any name can be; the edit distance is quadratic.
    if name.len() > 64 {
        return Vec::new();
    }
    let name = name.to_ascii_lowercase();
    let close = 1 + name.chars().count() / 5;
    let mut scored: Vec<(usize, &'static str)> = candidates
        .filter_map(|c| {
            let edits = edit_distance(&name, c);
            let part = name.len() >= 2 && c.contains(name.as_str());
            (edits <= close || part).then_some((if part { 0 } else { edits }, c))
        })
        .collect();
    scored.sort_by_key(|&(edits, _)| edits);
    scored.into_iter().take(3).map(|(_, c)| c).collect()
}

/// Levenshtein distance in characters.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &cb) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(ca != cb);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_lower_case() {
        let mut seen: Vec<&str> = names().collect();
        assert!(seen.iter().all(|n| n.bytes().all(|b| b.is_ascii_lowercase() || b == b'-')));
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), REGISTRY.len());
    }

    #[test]
    fn edit_distances_by_hand() {
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("flaw", "lawn"), 2);
        assert_eq!(edit_distance("same", "same"), 0);
    }

    #[test]
    fn an_unknown_name_gets_its_neighbours() {
        let message = |name| build(name, &SchemeParams::new(9)).err().expect("unknown").to_string();
        assert_eq!(message("pcstrem"), "no scheme is called 'pcstrem'; did you mean pcstream?");
        assert_eq!(
            message("autostream"),
            "no scheme is called 'autostream'; did you mean autostream-mq or autostream-sfr?"
        );
        assert!(
            message("zzzzzzzz")
                .starts_with("no scheme is called 'zzzzzzzz'; the schemes are baseline, manual,")
        );
        assert!(message(&"x".repeat(1 << 20)).contains("the schemes are"));
    }

    #[test]
    fn zero_streams_are_refused() {
        for name in names() {
            assert_eq!(build(name, &SchemeParams::new(0)).err(), Some(SchemeError::NoStreams));
        }
    }

    #[test]
    fn an_oracle_without_a_future_says_so() {
        for info in schemes().iter().filter(|s| s.needs_future()) {
            assert_eq!(
                info.build(&SchemeParams::new(9)).err(),
                Some(SchemeError::NeedsFuture { scheme: info.name })
            );
        }
        assert_eq!(schemes().iter().filter(|s| s.needs_future()).count(), 5);
    }
}
