//! Pages written and copied over simulated time, in lists of bounded length.

/// Pages written in each interval of simulated time, from the first arrival to the last completion. The interval doubles
/// whenever a run outgrows `Throughput::INTERVALS` of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Throughput {
    /// Length of an interval, a power of two; 2^20 ns (about a millisecond) at first.
    pub interval_ns: u64,
    /// Pages that the host wrote, by the completion of their requests; the last interval may not be over.
    pub pages: Vec<u64>,
    /// Pages that garbage collection copied, by the time at which they were read. Those that were decided and are not
    /// read by the last completion are in the last interval.
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

    /// Counts what was done `since_first_ns` after the first arrival.
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

    /// Of a run that took `elapsed_ns`, in which `gc_pages` copies were decided: no interval begins later, and the last
    /// one has what is missing.
    pub(super) fn until(&self, elapsed_ns: u64, gc_pages: u64) -> Throughput {
        let mut run = self.clone();
        if gc_pages == 0 && run.pages.is_empty() {
            return run;
        }
        run.add(elapsed_ns, 0, 0);
        let last = (elapsed_ns / run.interval_ns) as usize;
        run.pages.truncate(last + 1);
        run.gc_pages.truncate(last + 1);
        run.gc_pages[last] += gc_pages - run.gc_pages.iter().sum::<u64>();
        run
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
