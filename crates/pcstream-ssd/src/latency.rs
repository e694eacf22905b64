//! Latencies in a histogram of fixed size: log-linear buckets, 1/64 wide relative to their value, so
//! that a percentile is at most 1.6 % too high; the largest value is kept exactly.

/// Buckets per power of two.
const PER_OCTAVE_BITS: u32 = 6;
const PER_OCTAVE: u64 = 1 << PER_OCTAVE_BITS;

/// Counts of latencies in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyHistogram {
    buckets: Vec<u64>,
    count: u64,
    sum_ns: u128,
    max_ns: u64,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl LatencyHistogram {
    /// Empty.
    pub fn new() -> Self {
        let octaves = u64::from(u64::BITS - PER_OCTAVE_BITS) + 1;
        LatencyHistogram { buckets: vec![0; (octaves * PER_OCTAVE) as usize], count: 0, sum_ns: 0, max_ns: 0 }
    }

    /// Values below 64 have a bucket each; above, every power of two is divided into 64.
    fn bucket(ns: u64) -> usize {
        if ns < PER_OCTAVE {
            return ns as usize;
        }
        let octave = ns.ilog2() - PER_OCTAVE_BITS;
        ((u64::from(octave) + 1) * PER_OCTAVE + ((ns >> octave) - PER_OCTAVE)) as usize
    }

    /// The largest value that falls into a bucket.
    fn upper(bucket: usize) -> u64 {
        let (octave, within) = (bucket as u64 / PER_OCTAVE, bucket as u64 % PER_OCTAVE);
        if octave == 0 { within } else { ((PER_OCTAVE + within + 1) << (octave - 1)).wrapping_sub(1) }
    }

    /// Counts one latency.
    pub fn record(&mut self, ns: u64) {
        self.buckets[Self::bucket(ns)] += 1;
        self.count += 1;
        self.sum_ns += u128::from(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Latencies counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean in ns; 0 if there are none.
    pub fn mean_ns(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum_ns as f64 / self.count as f64 }
    }

    /// The largest, exactly; 0 if there are none.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The least latency, to within a bucket, that a share `quantile` (0 to 1) of all does not exceed; 0 if
    /// there are none.
    pub fn quantile_ns(&self, quantile: f64) -> u64 {
        let wanted = ((quantile.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, &count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return Self::upper(bucket).min(self.max_ns);
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::LatencyHistogram;

    #[test]
    fn every_value_lies_in_its_bucket() {
        let values = (0..5000).chain((13..64).map(|b| 1u64 << b)).chain([u64::MAX]);
        let mut previous = 0;
        for ns in values {
            let bucket = LatencyHistogram::bucket(ns);
            assert!(LatencyHistogram::upper(bucket) >= ns, "{ns}");
            assert!(bucket == 0 || LatencyHistogram::upper(bucket - 1) < ns, "{ns}");
            assert!(bucket >= previous, "{ns}");
            previous = bucket;
        }
    }

    #[test]
    fn quantiles_are_close_to_those_of_the_sorted_values() {
        let mut histogram = LatencyHistogram::new();
        assert_eq!((histogram.quantile_ns(0.5), histogram.max_ns(), histogram.mean_ns()), (0, 0, 0.0));
        for ns in 1..=100_000u64 {
            histogram.record(ns * 10);
        }
        for (quantile, exact) in [(0.5, 500_000), (0.99, 990_000), (0.9999, 999_900), (1.0, 1_000_000)] {
            let found = histogram.quantile_ns(quantile);
            assert!(found >= exact && found as f64 <= exact as f64 * 1.016, "{quantile}: {found}");
        }
        assert_eq!(histogram.max_ns(), 1_000_000);
        assert_eq!(histogram.mean_ns(), 500_005.0);
    }
}
