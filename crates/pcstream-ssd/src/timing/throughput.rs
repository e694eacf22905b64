//! Pages written over simulated time, in a list of bounded length.

/// Pages that the host wrote in each interval of simulated time since the first arrival, by the arrival of
/// their requests. The interval doubles whenever a run outgrows `Throughput::INTERVALS` of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Throughput {
    /// Length of an interval, a power of two; 2^20 ns (about a millisecond) at first.
    pub interval_ns: u64,
    /// Pages by interval; the last one may not be over.
    pub pages: Vec<u64>,
}

impl Default for Throughput {
    fn default() -> Self {
        Throughput { interval_ns: 1 << 20, pages: Vec::new() }
    }
}

impl Throughput {
    /// Most intervals kept.
    pub const INTERVALS: usize = 512;

    /// Counts pages of a request that arrived `since_first_ns` after the first one.
    #[inline(always)]
    pub(super) fn add(&mut self, since_first_ns: u64, pages: u64) {
        let interval = (since_first_ns >> self.interval_ns.trailing_zeros()) as usize;
        match self.pages.get_mut(interval) {
            Some(sum) => *sum += pages,
            None => self.add_behind(since_first_ns, pages),
        }
    }

    #[cold]
    fn add_behind(&mut self, since_first_ns: u64, pages: u64) {
        while since_first_ns / self.interval_ns >= Self::INTERVALS as u64 {
            let halves = self.pages.chunks(2).map(|pair| pair.iter().sum()).collect();
            self.pages = halves;
            self.interval_ns *= 2;
        }
        let interval = (since_first_ns / self.interval_ns) as usize;
        self.pages.resize(self.pages.len().max(interval + 1), 0);
        self.pages[interval] += pages;
    }
}

#[cfg(test)]
mod tests {
    use super::Throughput;

    #[test]
    fn intervals_double_and_sums_stay() {
        let mut throughput = Throughput::default();
        for millisecond in 0..2000u64 {
            throughput.add(millisecond << 20, 1);
        }
        assert_eq!(throughput.interval_ns, 4 << 20);
        assert_eq!(throughput.pages, [4; 500]);
        throughput.add(u64::MAX, 1);
        assert!(throughput.pages.len() <= Throughput::INTERVALS);
        assert_eq!(throughput.pages.iter().sum::<u64>(), 2001);
    }
}
