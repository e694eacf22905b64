//! How a lifetime that ended changes the expected one of its context.
//!
//! FAST'19 takes "the average of the existing lifetime and l_new" when a request ends data of a
//! context, the dissertation (docs/fidelity.md) a "weighted average" without the weight, and the arithmetic mean where a
//! request ends several lifetimes of one context. Both count requests: a discard of a whole file weighs
//! as much as an overwrite of one page. What a device copies are pages, so the default is a mean over
//! the pages that died, each of which counts once.

/// How a new lifetime changes the expected one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Averaging {
    /// The mean over pages that died, the last `window` of them by exponential forgetting: a request
    /// that ended p pages weighs p / (pages before it, at most the window, + p).
    Pages {
        /// In pages, at least 1.
        window: u32,
    },
    /// (l_old + l_new) / 2 once a request, rounded down (FAST'19).
    Half,
    /// (1 - w) l_old + w l_new once a request. 0 < w <= 1.
    Weighted(f64),
    /// The arithmetic mean over all requests.
    Mean,
}

impl Default for Averaging {
    fn default() -> Self {
        Averaging::Pages { window: 65_536 }
    }
}

/// How much is known of a lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// Requests that ended lifetimes.
    pub requests: u32,
    /// Pages that died.
    pub pages: u64,
}

impl Averaging {
    /// The expected lifetime after a request that ended `pages` pages which lived `new` on the mean;
    /// `seen` went into `old` before. All in pages.
    #[inline]
    pub(crate) fn average(self, old: f64, seen: Evidence, new: f64, pages: u64) -> f64 {
        if seen.requests == 0 {
            return new;
        }
        let weight = match self {
            Averaging::Half => return ((old + new) / 2.0).floor(),
            Averaging::Weighted(weight) => weight,
            Averaging::Mean => 1.0 / (f64::from(seen.requests) + 1.0),
            Averaging::Pages { window } => {
                let before = seen.pages.min(u64::from(window)) as f64;
                pages as f64 / (before + pages as f64)
            }
        };
        old + weight * (new - old)
    }

    pub(crate) fn is_valid(self) -> bool {
        match self {
            Averaging::Weighted(weight) => weight > 0.0 && weight <= 1.0,
            Averaging::Pages { window } => window > 0,
            Averaging::Half | Averaging::Mean => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(averaging: Averaging, lifetimes: &[(f64, u64)]) -> f64 {
        let mut seen = Evidence { requests: 1, pages: lifetimes[0].1 };
        lifetimes[1..].iter().fold(lifetimes[0].0, |old, &(new, pages)| {
            let mean = averaging.average(old, seen, new, pages);
            seen = Evidence { requests: seen.requests + 1, pages: seen.pages + pages };
            mean
        })
    }

    #[test]
    fn averages_by_hand() {
        let each = [(100.0, 1), (200.0, 3), (51.0, 4)];
        assert_eq!(run(Averaging::Half, &each), 100.0, "150, then 201 / 2 rounded down");
        assert_eq!(run(Averaging::Mean, &each), 117.0);
        assert_eq!(run(Averaging::Weighted(1.0), &each), 51.0);
        let quarter = [(100.0, 1), (200.0, 9), (200.0, 1)];
        assert_eq!(run(Averaging::Weighted(0.25), &quarter), 143.75);
        assert_eq!(run(Averaging::Pages { window: 1000 }, &each), (100.0 + 600.0 + 204.0) / 8.0);
        assert_eq!(run(Averaging::Pages { window: 1 }, &[(100.0, 64), (200.0, 1), (100.0, 3)]), 112.5);
    }

    #[test]
    fn impossible_parameters_are_refused() {
        for bad in [0.0, -1.0, 1.1, f64::NAN] {
            assert!(!Averaging::Weighted(bad).is_valid());
        }
        assert!(!Averaging::Pages { window: 0 }.is_valid() && Averaging::default().is_valid());
    }
}
