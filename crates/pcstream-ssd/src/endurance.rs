//! Wear: how often superblocks were erased, and what that means for the life of the device.

use crate::counters::Counters;
use crate::ftl::Ssd;

/// Erases of the superblocks since the device was made.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Wear {
    /// Of the least worn superblock.
    pub least: u32,
    /// On average.
    pub mean: f64,
    /// Of the most worn superblock.
    pub most: u32,
    /// Standard deviation over the superblocks.
    pub deviation: f64,
}

impl Wear {
    /// From the erases of each superblock; all zero for none.
    pub fn of(erases: impl Iterator<Item = u32> + Clone) -> Wear {
        let count = erases.clone().count();
        if count == 0 {
            return Wear { least: 0, mean: 0.0, most: 0, deviation: 0.0 };
        }
        let mean = erases.clone().map(f64::from).sum::<f64>() / count as f64;
        let squares: f64 = erases.clone().map(|e| (f64::from(e) - mean).powi(2)).sum();
        Wear {
            least: erases.clone().min().unwrap_or(0),
            mean,
            most: erases.max().unwrap_or(0),
            deviation: (squares / count as f64).sqrt(),
        }
    }
}

impl Ssd {
    /// How evenly the superblocks are worn.
    pub fn wear(&self) -> Wear {
        let erases: Vec<u32> = self.erase_counts().collect();
        Wear::of(erases.iter().copied())
    }
}

/// How much longer a device lives than one with the `baseline`'s counters, if both are given the same
/// host writes: the inverse ratio of erases per page written. `None` if either has not erased or written.
pub fn relative_lifetime(counters: &Counters, baseline: &Counters) -> Option<f64> {
    if counters.erases == 0 || baseline.erases == 0 || counters.host_pages == 0 || baseline.host_pages == 0 {
        return None;
    }
    let per_page = |c: &Counters| c.erases as f64 / c.host_pages as f64;
    Some(per_page(baseline) / per_page(counters))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wear_is_that_of_the_numbers() {
        let wear = Wear::of([2, 4, 4, 6].into_iter());
        assert_eq!((wear.least, wear.mean, wear.most), (2, 4.0, 6));
        assert!((wear.deviation - 2f64.sqrt()).abs() < 1e-12);
        assert_eq!(Wear::of(std::iter::empty()).most, 0);
    }

    #[test]
    fn half_the_erases_live_twice_as_long() {
        let of = |host_pages, erases| Counters { host_pages, erases, ..Counters::default() };
        assert_eq!(relative_lifetime(&of(1000, 5), &of(1000, 10)), Some(2.0));
        assert_eq!(relative_lifetime(&of(2000, 10), &of(1000, 10)), Some(2.0));
        assert_eq!(relative_lifetime(&of(1000, 0), &of(1000, 10)), None);
    }
}
