//! Pages written and copied over simulated time, in lists of bounded length.

/// Pages that the host wrote in each interval of simulated time since the first arrival, by the arrival of
/// their requests. The interval doubles whenever a run outgrows `Throughput::INTERVALS` of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Throughput {
    /// Length of an interval, a power of two; 2^20 ns (about a millisecond) at first.
    pub interval_ns: u64,
    /// Pages by interval; the last one may not be over.
    pub pages: Vec<u64>,
    /// Pages that garbage collection copied for these requests, by the same intervals.
    pub gc_pages: Vec<u64>,
}

impl Default for Throughput {
    fn default() -> Self {
        Throughput { interval_ns: 1 << 20, pages: Vec::new(), gc_pages: Vec::new() }
    }
}

impl Throughput {
    /// Most intervals kept.
    pub const INTERVALS: usize = 512;

    /// Counts pages of a request that arrived `since_first_ns` after the first one, and the copies made for it.
    #[inline(always)]
    pub(super) fn add(&mut self, since_first_ns: u64, pages: u64, gc_pages: u64) {
        let interval = (since_first_ns >> self.interval_ns.trailing_zeros()) as usize;
        if interval >= self.pages.len() {
            self.lengthen(since_first_ns);
        }
        let interval = (since_first_ns >> self.interval_ns.trailing_zeros()) as usize;
        self.pages[interval] += pages;
        self.gc_pages[interval] += gc_pages;
    }

    #[cold]
    fn lengthen(&mut self, since_first_ns: u64) {
        while since_first_ns / self.interval_ns >= Self::INTERVALS as u64 {
            for sums in [&mut self.pages, &mut self.gc_pages] {
                *sums = sums.chunks(2).map(|pair| pair.iter().sum()).collect();
            }
            self.interval_ns *= 2;
        }
        let intervals = self.pages.len().max((since_first_ns / self.interval_ns) as usize + 1);
        self.pages.resize(intervals, 0);
        self.gc_pages.resize(intervals, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::Throughput;

    #[test]
    fn intervals_double_and_sums_stay() {
        let mut throughput = Throughput::default();
        for millisecond in 0..2000u64 {
            throughput.add(millisecond << 20, 1, 2);
        }
        assert_eq!(throughput.interval_ns, 4 << 20);
        assert_eq!(
            (throughput.pages.as_slice(), throughput.gc_pages.as_slice()),
            (&[4; 500][..], &[8; 500][..])
        );
        throughput.add(u64::MAX, 1, 0);
        assert!(throughput.pages.len() <= Throughput::INTERVALS);
        assert_eq!(throughput.pages.len(), throughput.gc_pages.len());
        assert_eq!(throughput.pages.iter().sum::<u64>(), 2001);
        assert_eq!(throughput.gc_pages.iter().sum::<u64>(), 4000);
    }
}
