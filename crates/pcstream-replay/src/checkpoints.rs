//! Where the steady part of a run begins, without knowing its length beforehand.
//!
//! Idea: keep the flash counter at every `interval` host pages. When the list is full, forget
//! every second entry and double the interval. At the end, the steady part begins at the first
//! kept point at or after a third of the host writes.
//!
//! The interval depends on the number of host pages alone, so a live run, a replay from disk and a
//! replay in other batches keep the same points, and `steady_waf` is bit-identical. The steady
//! part begins at most 1/4096 of the run later than the exact third (exactly there up to 8191 host
//! pages).
//!
//! Invariant: entry i holds the flash pages programmed when (i + 1) x `interval` host pages were.

/// Most entries kept; 64 KiB per lane.
const CAPACITY: usize = 8192;

/// Flash counters at regular numbers of host pages.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    interval: u64,
    flash_pages: Vec<u64>,
}

impl Default for Checkpoints {
    fn default() -> Self {
        Checkpoints { interval: 1, flash_pages: Vec::with_capacity(CAPACITY) }
    }
}

/// Host and flash pages at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Pages the host wrote.
    pub host_pages: u64,
    /// Pages programmed for the host and by garbage collection.
    pub flash_pages: u64,
}

impl Checkpoints {
    /// How many more host pages until [`Checkpoints::reach`] must be called; at least 1.
    pub fn pages_to_next(&self, host_pages: u64) -> u64 {
        let next = self.interval * (self.flash_pages.len() as u64 + 1);
        assert!(next > host_pages, "checkpoint {next} was passed over at {host_pages}");
        next - host_pages
    }

    /// Keeps the flash counter at the checkpoint that has just been reached.
    pub fn reach(&mut self, flash_pages: u64) {
        self.flash_pages.push(flash_pages);
        if self.flash_pages.len() == CAPACITY {
            let every_second: Vec<u64> = self.flash_pages.iter().copied().skip(1).step_by(2).collect();
            self.flash_pages.clear();
            self.flash_pages.extend(every_second);
            self.interval *= 2;
        }
    }

    /// At most `limit` + 1 of the kept counters, evenly spaced, from the beginning on.
    pub fn progress(&self, limit: usize) -> Vec<Progress> {
        let step = self.flash_pages.len().div_ceil(limit.max(1)).max(1);
        let at = |index: usize| Progress {
            host_pages: (index as u64 + 1) * self.interval,
            flash_pages: self.flash_pages[index],
        };
        let points = (step - 1..self.flash_pages.len()).step_by(step).map(at);
        std::iter::once(Progress::default()).chain(points).collect()
    }

    /// The counters where the steady part of a run of `total_host_pages` begins.
    pub fn steady_start(&self, total_host_pages: u64) -> Progress {
        let index = (total_host_pages / 3).div_ceil(self.interval);
        match index {
            0 => Progress::default(),
            _ => Progress {
                host_pages: index * self.interval,
                flash_pages: self.flash_pages[index as usize - 1],
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `total` host pages of which page p costs `cost(p)` flash pages, cut into steps.
    fn run(total: u64, cut: u64, cost: impl Fn(u64) -> u64) -> Checkpoints {
        let (mut checkpoints, mut now) = (Checkpoints::default(), Progress::default());
        while now.host_pages < total {
            let to_checkpoint = checkpoints.pages_to_next(now.host_pages);
            let step = cut.min(total - now.host_pages).min(to_checkpoint);
            for _ in 0..step {
                now.flash_pages += cost(now.host_pages);
                now.host_pages += 1;
            }
            if step == to_checkpoint {
                checkpoints.reach(now.flash_pages);
            }
        }
        checkpoints
    }

    #[test]
    fn the_start_is_exact_for_short_runs() {
        for total in [1u64, 2, 3, 4, 100, 8191] {
            let start = run(total, 7, |p| p + 1).steady_start(total);
            assert_eq!(start.host_pages, total / 3);
            assert_eq!(start.flash_pages, (1..=total / 3).sum::<u64>());
        }
    }

    #[test]
    fn the_start_is_close_to_a_third_and_independent_of_the_cut() {
        for total in [8192u64, 8193, 100_000, 1_234_567] {
            let start = run(total, 1, |p| 1 + p % 3).steady_start(total);
            assert!(start.host_pages >= total / 3);
            assert!(start.host_pages - total / 3 <= total / 4096 + 1, "{total}: {start:?}");
            assert_eq!(start.flash_pages, (0..start.host_pages).map(|p| 1 + p % 3).sum::<u64>());
            for cut in [3, 4096, u64::MAX] {
                assert_eq!(run(total, cut, |p| 1 + p % 3).steady_start(total), start);
            }
        }
    }

    #[test]
    fn an_empty_run_starts_at_zero() {
        assert_eq!(Checkpoints::default().steady_start(0), Progress::default());
    }
}
