//! Rounds of a run, for the detector of the steady state: a round is as many host writes as the device has
//! logical pages.
//!
//! A run of fewer than five rounds is too short to be called steady, whatever it does; the steady part then
//! begins after a third of it (`checkpoints`).

use pcstream_ssd::steady_state::{Steady, detect, rounds_missing};

use crate::checkpoints::Progress;

/// The counters at the end of each round.
#[derive(Clone, Debug)]
pub(crate) struct Rounds {
    pages: u64,
    ends: Vec<Progress>,
}

impl Rounds {
    /// Rounds of `pages` host pages, at least 1.
    pub fn new(pages: u64) -> Rounds {
        assert!(pages > 0, "a device has pages");
        Rounds { pages, ends: Vec::new() }
    }

    /// How many more host pages until [`Rounds::end`] must be called; at least 1.
    #[inline(always)]
    pub fn pages_to_next(&self, host_pages: u64) -> u64 {
        self.pages * (self.ends.len() as u64 + 1) - host_pages
    }

    /// Ends a round with these counters.
    pub fn end(&mut self, progress: Progress) {
        assert_eq!(progress.host_pages, self.pages * (self.ends.len() as u64 + 1), "rounds are equal");
        self.ends.push(progress);
    }

    /// The steady state and where it began; none while none was found.
    pub fn steady(&self) -> Option<(Progress, Steady)> {
        let steady = detect(&self.wafs())?;
        Some((self.begins().nth(steady.first_round)?, steady))
    }

    /// Host pages until one is found, if the WAF stays as in the last round; 0 if one was.
    pub fn pages_to_steady(&self, host_pages: u64) -> u64 {
        match rounds_missing(&self.wafs()) {
            0 => 0,
            missing => self.pages * (self.ends.len() + missing) as u64 - host_pages,
        }
    }

    fn begins(&self) -> impl Iterator<Item = Progress> {
        std::iter::once(Progress::default()).chain(self.ends.iter().copied())
    }

    fn wafs(&self) -> Vec<f64> {
        let waf = |(begin, end): (Progress, &Progress)| {
            let copied = end.flash_pages - begin.flash_pages - self.pages;
            1.0 + copied as f64 / self.pages as f64
        };
        self.begins().zip(&self.ends).map(waf).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steady_part_begins_where_its_first_round_does() {
        let mut rounds = Rounds::new(100);
        let mut progress = Progress::default();
        for flash in [100, 150, 250, 300, 300, 300, 300, 300, 300] {
            assert_eq!(rounds.pages_to_next(progress.host_pages), 100);
            assert_eq!(rounds.pages_to_next(progress.host_pages + 99), 1);
            assert_eq!(rounds.steady().is_some(), progress.host_pages >= 800, "{progress:?}");
            progress.host_pages += 100;
            progress.flash_pages += flash;
            rounds.end(progress);
        }
        let (start, steady) = rounds.steady().expect("five equal rounds are steady");
        assert_eq!((start.host_pages, steady.first_round), (300, 3));
        assert_eq!(start.flash_pages, 500);
    }

    /// At the end of a round in which WAF rose, four more must be like it.
    #[test]
    fn a_rise_is_steady_only_rounds_later() {
        let mut rounds = Rounds::new(100);
        assert_eq!(rounds.pages_to_steady(30), 470, "five rounds");
        for (round, flash_pages) in [(1, 100), (2, 200), (3, 300), (4, 400), (5, 600)] {
            rounds.end(Progress { host_pages: 100 * round, flash_pages });
        }
        assert!(rounds.steady().is_none());
        assert_eq!(rounds.pages_to_steady(590), 310);
        for round in 6..=9 {
            rounds.end(Progress { host_pages: 100 * round, flash_pages: 200 * (round - 2) });
        }
        assert!(rounds.steady().is_some());
        assert_eq!(rounds.pages_to_steady(900), 0);
    }
}
