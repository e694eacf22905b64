//! Distribution of page lifetimes.
//!
//! Idea: a log-bucketed histogram, so that memory depends on the range of the lifetimes and not on
//! their number. Unit: pages of logical time. Only lifetimes that have ended are in it; what is
//! still alive is counted elsewhere, because it has no lifetime yet.
//!
//! Weakness: a quantile is that of the ended lifetimes. A stream whose pages mostly survive the
//! trace looks shorter-lived than it is; read it beside the number of pages still alive.

use hdrhistogram::Histogram;

use crate::liveness::Ended;

/// Decimal digits kept of a lifetime: how far a quantile may lie above the exact one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// Within 1 %: about 25 KB per histogram. Used per context, of which there may be thousands.
    Percent = 2,
    /// Within 0.1 %: about 200 KB per histogram. Used per stream.
    PerMille = 3,
}

/// Lifetimes that have ended, in pages of logical time.
#[derive(Clone, Debug)]
pub struct Lifetimes {
    precision: Precision,
    /// Made with the first lifetime: most contexts of a compiler run never see one.
    histogram: Option<Histogram<u64>>,
}

/// Quartiles of a lifetime distribution, in pages of logical time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Quartiles {
    /// A quarter of the ended pages lived no longer.
    pub p25: u64,
    /// The median.
    pub p50: u64,
    /// Three quarters of the ended pages lived no longer.
    pub p75: u64,
}

impl Lifetimes {
    /// An empty distribution.
    pub fn new(precision: Precision) -> Lifetimes {
        Lifetimes { precision, histogram: None }
    }

    /// Adds `pages` pages that lived `lifetime_pages`, which is at least 1: a page lives for its
    /// own write.
    pub fn record(&mut self, lifetime_pages: u64, pages: u64) {
        debug_assert!(lifetime_pages > 0, "a lifetime counts the write that began it");
        let digits = self.precision as u8;
        let histogram = self
            .histogram
            .get_or_insert_with(|| Histogram::new(digits).expect("2 and 3 digits are legal precisions"));
        histogram.record_n(lifetime_pages, pages).expect("the histogram grows with its values");
    }

    /// Adds pages whose lifetimes ended together.
    pub fn record_run(&mut self, run: &Ended) {
        if run.falling {
            (0..run.pages).for_each(|index| self.record(run.lifetime_at(index), 1));
        } else {
            self.record(run.lifetime, u64::from(run.pages));
        }
    }

    /// Pages by power of two: entry i counts the lifetimes of 2^i to 2^(i+1) - 1 pages.
    pub fn by_power_of_two(&self) -> Vec<u64> {
        let mut powers = Vec::new();
        for value in self.histogram.iter().flat_map(|histogram| histogram.iter_recorded()) {
            let power = value.value_iterated_to().max(1).ilog2() as usize;
            powers.resize(powers.len().max(power + 1), 0);
            powers[power] += value.count_since_last_iteration();
        }
        powers
    }

    /// Adds all of another distribution.
    pub fn add(&mut self, other: &Lifetimes) {
        match (&mut self.histogram, &other.histogram) {
            (Some(mine), Some(theirs)) => mine.add(theirs).expect("the histogram grows with its values"),
            (None, theirs) => self.histogram.clone_from(theirs),
            (Some(_), None) => {}
        }
    }

    /// Number of pages whose lifetime ended.
    pub fn ended_pages(&self) -> u64 {
        self.histogram.as_ref().map_or(0, |h| h.len())
    }

    /// Median of `pages` pages, of which those live longest that are not in here; `None` when half of them or more have not
    /// ended.
    pub fn median_of(&self, pages: u64) -> Option<u64> {
        let histogram = self.histogram.as_ref()?;
        let half = pages as f64 / 2.0 / histogram.len() as f64;
        (half < 1.0).then(|| histogram.value_at_quantile(half))
    }

    /// Quartiles of the ended lifetimes, each at most [`Precision`] above the exact value; `None`
    /// when nothing has ended.
    pub fn quartiles(&self) -> Option<Quartiles> {
        let histogram = self.histogram.as_ref()?;
        let at = |quantile| histogram.value_at_quantile(quantile);
        Some(Quartiles { p25: at(0.25), p50: at(0.5), p75: at(0.75) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ended_has_no_quartiles() {
        assert_eq!(Lifetimes::new(Precision::PerMille).quartiles(), None);
    }

    #[test]
    fn small_lifetimes_are_exact() {
        let mut lifetimes = Lifetimes::new(Precision::PerMille);
        (1..=400).for_each(|l| lifetimes.record(l, 1));
        assert_eq!(lifetimes.quartiles(), Some(Quartiles { p25: 100, p50: 200, p75: 300 }));
        assert_eq!(lifetimes.ended_pages(), 400);
    }

    #[test]
    fn what_is_alive_counts_for_the_median() {
        let mut lifetimes = Lifetimes::new(Precision::PerMille);
        (1..=400).for_each(|l| lifetimes.record(l, 1));
        assert_eq!(lifetimes.median_of(400), Some(200));
        assert_eq!(lifetimes.median_of(600), Some(300));
        assert_eq!(lifetimes.median_of(800), None, "half of them live");
        assert_eq!(Lifetimes::new(Precision::PerMille).median_of(1), None);
    }

    #[test]
    fn large_lifetimes_stay_within_the_stated_error() {
        for (precision, error) in [(Precision::Percent, 0.01), (Precision::PerMille, 0.001)] {
            for exact in [5_000u64, 123_457, 99_999_999, 7_777_777_777] {
                let mut lifetimes = Lifetimes::new(precision);
                lifetimes.record(exact, 3);
                let got = lifetimes.quartiles().unwrap().p50;
                assert!(got >= exact && (got - exact) as f64 <= error * exact as f64, "{exact}: {got}");
            }
        }
    }
}
