//! Lifetimes of pages, from a sample of them.
//!
//! Idea: whether a page is followed depends on a hash of its address, so that all writes to it are seen or none. When
//! more pages would be followed than there is room for, every other one of them is given up, and only half as many
//! are followed from then on. Who writes a page tells nothing about the hash of its address: the sample is fair.
//!
//! Units: pages of logical time, as everywhere. A lifetime is at least 1.
//!
//! Known weaknesses: quantiles lie within a quarter of the exact ones. What lives longer than the watch has no lifetime
//! yet, so that the first quantiles are too short.

use pcstream_trace::ContextId;
use rustc_hash::FxHashMap;

/// Followed pages at most, by default: 8 MiB of memory.
pub const FOLLOWED_PAGES: usize = 1 << 18;

/// When pages were written, and by whom.
#[derive(Debug)]
pub struct PageSample {
    written: FxHashMap<u64, (u64, ContextId)>,
    most: usize,
    /// One page of two to this power is followed.
    shift: u32,
}

impl PageSample {
    /// Follows at most `most` pages, at least one.
    pub fn new(most: usize) -> PageSample {
        PageSample { written: FxHashMap::default(), most: most.max(1), shift: 0 }
    }

    /// One page of so many is followed: a power of two.
    pub fn one_of(&self) -> u64 {
        1 << self.shift
    }

    fn follows(&self, page: u64) -> bool {
        // The multiplier spreads neighbours; its high bits are the best.
        self.shift == 0 || page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - self.shift) == 0
    }

    /// Pages are written, beginning at `now`; `ended` gets the writer and lifetime of each page that is overwritten.
    pub fn write(
        &mut self,
        first: u64,
        pages: u32,
        context: ContextId,
        now: u64,
        mut ended: impl FnMut(ContextId, u64),
    ) {
        for index in 0..u64::from(pages) {
            let page = first.wrapping_add(index);
            if !self.follows(page) {
                continue;
            }
            if let Some((since, writer)) = self.written.insert(page, (now + index, context)) {
                ended(writer, (now + index).saturating_sub(since).max(1));
            }
            while self.written.len() > self.most && self.shift < 63 {
                self.shift += 1;
                let sparser = PageSample { written: FxHashMap::default(), ..*self };
                self.written.retain(|page, _| sparser.follows(*page));
            }
        }
    }

    /// Pages hold nothing any more.
    pub fn discard(&mut self, first: u64, pages: u32, now: u64, mut ended: impl FnMut(ContextId, u64)) {
        let mut end = |(since, writer): (u64, ContextId)| ended(writer, now.saturating_sub(since).max(1));
        if u64::from(pages) > self.written.len() as u64 {
            let range = first..first.saturating_add(u64::from(pages));
            self.written.retain(|page, cell| {
                let dies = range.contains(page);
                if dies {
                    end(*cell);
                }
                !dies
            });
            return;
        }
        for index in 0..u64::from(pages) {
            if let Some(cell) = self.written.remove(&first.wrapping_add(index)) {
                end(cell);
            }
        }
    }
}

/// Steps to a doubling.
const STEPS: usize = 4;
/// Up to 2^40 pages.
const BUCKETS: usize = 40 * STEPS;
/// Lifetimes until older ones begin to count less.
const MEMORY: u32 = 1 << 14;

/// Distribution of lifetimes that ended, the recent ones above all.
#[derive(Clone, Debug, Default)]
pub struct RecentLifetimes {
    /// Made with the first lifetime.
    counts: Vec<u32>,
    sum: u32,
}

impl RecentLifetimes {
    /// Adds a lifetime.
    pub fn record(&mut self, lifetime: u64) {
        if self.counts.is_empty() {
            self.counts = vec![0; BUCKETS];
        }
        self.counts[bucket(lifetime)] += 1;
        self.sum += 1;
        if self.sum >= MEMORY {
            self.counts.iter_mut().for_each(|count| *count /= 2);
            self.sum = self.counts.iter().sum();
        }
    }

    /// Lifetimes in the distribution.
    pub fn count(&self) -> u32 {
        self.sum
    }

    /// The lifetime below which a share of the ended pages died; `None` if none did.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let rank = (f64::from(self.sum) * share).ceil().max(1.0) as u32;
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        found.map(middle)
    }
}

/// The bucket of a lifetime. Up to 2 * STEPS each lifetime has its own.
fn bucket(lifetime: u64) -> usize {
    let lifetime = lifetime.max(1);
    let power = lifetime.ilog2() as usize;
    let step = ((lifetime << 2 >> power) & 3) as usize;
    (power * STEPS + step).min(BUCKETS - 1)
}

/// The middle of a bucket.
fn middle(bucket: usize) -> u64 {
    let (power, step) = (bucket / STEPS, (bucket % STEPS) as u64);
    let low = ((4 + step) << power).div_ceil(4);
    let high = ((5 + step) << power).div_ceil(4).max(low + 1) - 1;
    low + (high - low) / 2
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const A: ContextId = ContextId(1);
    const B: ContextId = ContextId(2);

    #[test]
    fn without_a_limit_every_page_is_followed() {
        let (mut sample, mut ended) = (PageSample::new(1000), Vec::new());
        sample.write(10, 4, A, 0, |_, _| panic!("nothing was there"));
        sample.write(12, 4, B, 4, |who, life| ended.push((who, life)));
        assert_eq!(ended, [(A, 2), (A, 2)], "page 12 was written at 2 and again at 4");
        ended.clear();
        sample.discard(0, 100, 8, |who, life| ended.push((who, life)));
        ended.sort_unstable();
        assert_eq!(ended, [(A, 7), (A, 8), (B, 1), (B, 2), (B, 3), (B, 4)]);
        sample.discard(0, 2, 8, |_, _| panic!("a page dies once"));
    }

    #[test]
    fn a_full_sample_becomes_sparser_and_stays_fair() {
        let mut sample = PageSample::new(1024);
        let mut lives = [RecentLifetimes::default(), RecentLifetimes::default()];
        let mut now = 0;
        // Even pages are A's and overwritten in each round, odd ones are B's and overwritten in every eighth.
        for round in 0..64 {
            for page in 0..20_000_u64 {
                let who = [A, B][(page % 2) as usize];
                if who == B && round % 8 != 0 {
                    continue;
                }
                sample.write(page, 1, who, now, |who, life| lives[who.0 as usize - 1].record(life));
                now += 1;
            }
        }
        assert!(sample.one_of() >= 16 && sample.written.len() <= 1024, "one of {}", sample.one_of());
        let [a, b] = lives.map(|lives| lives.quantile(0.5).expect("some ended"));
        // A round writes 10,000 pages, with B 20,000: A's pages live for one round, B's for eight.
        assert!((9_000..13_500).contains(&a), "{a}");
        assert!((68_000..115_000).contains(&b), "{b}");
    }

    #[test]
    fn recent_lifetimes_outweigh_old_ones() {
        let mut lives = RecentLifetimes::default();
        assert_eq!(lives.quantile(0.5), None);
        (0..3 * MEMORY).for_each(|_| lives.record(1000));
        (0..2 * MEMORY).for_each(|_| lives.record(5));
        assert_eq!(lives.quantile(0.5), Some(5));
        assert!(lives.count() < MEMORY);
    }

    proptest! {
        #[test]
        fn a_quantile_is_within_a_quarter(lifetime in 1_u64..(1 << 39)) {
            let mut lives = RecentLifetimes::default();
            lives.record(lifetime);
            let found = lives.quantile(0.5).unwrap();
            prop_assert!(found.abs_diff(lifetime) * 4 <= lifetime, "{lifetime}: {found}");
            prop_assert!(lifetime >= 8 || found == lifetime);
        }
    }
}
