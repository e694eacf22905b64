//! sequential: patterns detected inside the device (Kang et al., HotStorage'14, section 4).
//!
//! Idea: follow at most four concurrent sequential patterns, each with a stream. A write that
//! starts where a pattern ends belongs to it. A write that starts where an earlier, unclaimed
//! write ended begins a new pattern, which takes the stream of the least recently used one. All
//! other writes go to S0. Addresses only.
//!
//! The paper gives the four patterns and the replacement; how a pattern is first noticed it leaves
//! open. Here the ends of the last `candidates` unclaimed writes are kept.
//!
//! Known weaknesses: a file system gives even a large file scattered addresses, so tiers of an LSM
//! tree mix across streams; the paper itself finds little gain.

use pcstream_trace::{Event, Tables};

use crate::error::{SchemeError, check};
use crate::parameter;
use crate::parameter::{Environment, Parameter, Parameters};
use crate::scheme::{Placement, Scheme, SchemeFact, Stream};

/// Parameters of `sequential`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequentialParams {
    /// Most patterns at once; 4 in the paper. Never more than the streams besides S0.
    pub patterns: u8,
    /// Ends of unclaimed writes that are kept; 32. Searched one by one.
    pub candidates: usize,
}

impl Default for SequentialParams {
    fn default() -> Self {
        SequentialParams { patterns: 4, candidates: 32 }
    }
}

#[rustfmt::skip]
impl Parameters for SequentialParams {
    const LIST: &'static [Parameter<SequentialParams>] = &[
        parameter!(SequentialParams, patterns, "patterns", "most sequential patterns at once; never more than the streams besides S0", "HotStorage'14, section 4"),
        parameter!(SequentialParams, candidates, "writes", "ends of unclaimed writes that are kept, from 1 to 4096", "this project; the paper leaves it open"),
    ];

    fn reads_addresses(&self, _: u32) -> bool {
        true
    }

    fn build(
        &self,
        scheme: &'static str,
        environment: &Environment,
    ) -> Result<Box<dyn Scheme>, SchemeError> {
        Ok(Box::new(Sequential::new(scheme, environment, *self)?))
    }
}

/// A run of writes, each starting where the one before ended.
#[derive(Clone, Copy)]
struct Pattern {
    next: u64,
    used: u64,
}

/// The sequential-detection scheme.
pub struct Sequential {
    params: SequentialParams,
    most_patterns: usize,
    /// Pattern i writes to stream i + 1.
    patterns: Vec<Pattern>,
    candidates: Vec<u64>,
    oldest_candidate: usize,
    writes: u64,
    sequential_pages: u64,
    patterns_begun: u64,
}

impl Sequential {
    /// Makes the scheme. Errors call it `scheme`.
    pub fn new(
        scheme: &'static str,
        environment: &Environment,
        params: SequentialParams,
    ) -> Result<Sequential, SchemeError> {
        let valid = (1..=4096).contains(&params.candidates);
        check(valid, scheme, "candidates", params.candidates, "between 1 and 4096")?;
        Ok(Sequential {
            most_patterns: usize::from(params.patterns.min(environment.streams() - 1)),
            params,
            patterns: Vec::new(),
            candidates: Vec::with_capacity(params.candidates),
            oldest_candidate: 0,
            writes: 0,
            sequential_pages: 0,
            patterns_begun: 0,
        })
    }

    /// The pattern that a write from `first` up to `end` belongs to, if any.
    fn classify(&mut self, first: u64, end: u64) -> Option<usize> {
        self.writes += 1;
        if let Some(at) = self.patterns.iter().position(|p| p.next == first) {
            self.patterns[at] = Pattern { next: end, used: self.writes };
            return Some(at);
        }
        if self.most_patterns > 0
            && let Some(at) = self.candidates.iter().position(|&c| c == first)
        {
            // The slot is kept, with an end that no write starts at, until it is the oldest.
            self.candidates[at] = u64::MAX;
            self.patterns_begun += 1;
            let pattern = Pattern { next: end, used: self.writes };
            if self.patterns.len() < self.most_patterns {
                self.patterns.push(pattern);
                return Some(self.patterns.len() - 1);
            }
            let oldest = (0..self.patterns.len()).min_by_key(|&i| self.patterns[i].used)?;
            self.patterns[oldest] = pattern;
            return Some(oldest);
        }
        if self.candidates.len() < self.params.candidates {
            self.candidates.push(end);
        } else {
            self.candidates[self.oldest_candidate] = end;
            self.oldest_candidate = (self.oldest_candidate + 1) % self.params.candidates;
        }
        None
    }
}

impl Scheme for Sequential {
    fn place(&mut self, event: &Event, _: u64, _: &Tables, out: &mut Vec<Placement>) {
        let end = event.lba.0.saturating_add(u64::from(event.pages));
        let stream = match self.classify(event.lba.0, end) {
            Some(pattern) => {
                self.sequential_pages += u64::from(event.pages);
                Stream(pattern as u8 + 1)
            }
            None => Stream::DEFAULT,
        };
        out.push(Placement { pages: event.pages, stream });
    }

    fn facts(&self) -> Vec<SchemeFact> {
        vec![("sequential_pages", self.sequential_pages), ("patterns_begun", self.patterns_begun)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{device, placements, write};

    fn streams(scheme: &mut Sequential, writes: &[(u64, u32)]) -> Vec<u8> {
        writes.iter().map(|&(l, p)| placements(scheme, &write(l, p))[0].stream.0).collect()
    }

    #[test]
    fn interleaved_patterns_by_hand() {
        let mut scheme =
            Sequential::new("sequential", &device(9), SequentialParams::default()).expect("valid");
        // Two writers take turns; each is known from its second write on. 500 belongs to nobody.
        let writes = [(0, 4), (100, 4), (4, 4), (104, 4), (8, 4), (500, 1), (108, 4), (12, 4)];
        assert_eq!(streams(&mut scheme, &writes), [0, 0, 1, 2, 1, 0, 2, 1]);
        assert_eq!(scheme.facts(), [("sequential_pages", 20), ("patterns_begun", 2)]);
    }

    #[test]
    fn a_fifth_pattern_takes_the_least_recently_used_stream() {
        let mut scheme =
            Sequential::new("sequential", &device(9), SequentialParams::default()).expect("valid");
        let mut writes = Vec::new();
        for p in 0..4 {
            writes.extend([(1000 * p, 1), (1000 * p + 1, 1)]);
        }
        assert_eq!(streams(&mut scheme, &writes), [0, 1, 0, 2, 0, 3, 0, 4]);
        // Pattern 0 is used again, so pattern 1 is the oldest: its stream goes to the newcomer, and
        // its next write is unclaimed.
        assert_eq!(streams(&mut scheme, &[(2, 1), (9000, 1), (9001, 1), (1002, 1)]), [1, 0, 2, 0]);
    }

    #[test]
    fn a_candidate_is_forgotten_after_as_many_others() {
        let two = SequentialParams { candidates: 2, ..SequentialParams::default() };
        let mut scheme = Sequential::new("sequential", &device(9), two).expect("valid");
        assert_eq!(streams(&mut scheme, &[(0, 1), (100, 1), (200, 1), (1, 1), (101, 1)]), [0; 5]);
        let three = SequentialParams { candidates: 3, ..SequentialParams::default() };
        let mut scheme = Sequential::new("sequential", &device(9), three).expect("valid");
        assert_eq!(streams(&mut scheme, &[(0, 1), (100, 1), (200, 1), (1, 1)]), [0, 0, 0, 1]);
    }

    #[test]
    fn as_many_patterns_as_streams() {
        let mut one = Sequential::new("sequential", &device(2), SequentialParams::default()).expect("valid");
        assert_eq!(streams(&mut one, &[(0, 1), (1, 1), (100, 1), (101, 1), (2, 1)]), [0, 1, 0, 1, 0]);
        let mut none = Sequential::new("sequential", &device(1), SequentialParams::default()).expect("valid");
        assert_eq!(streams(&mut none, &[(0, 1), (1, 1), (2, 1)]), [0; 3]);
    }
}
