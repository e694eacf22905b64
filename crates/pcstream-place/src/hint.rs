//! Write hints: how long the data of a file is expected to live, in the four classes of `fcntl(2)`.
//!
//! Idea: the kernel's classes have no unit. So they are the quartiles of the lifetimes that were learned: a quarter of
//! the contexts is SHORT, and so on. Fewer than four lifetimes leave classes empty.

use std::fmt;

/// A class of lifetimes, as `F_SET_RW_HINT` numbers them. The order is that of lifetimes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Hint {
    /// `RWH_WRITE_LIFE_SHORT`
    Short = 2,
    /// `RWH_WRITE_LIFE_MEDIUM`
    Medium = 3,
    /// `RWH_WRITE_LIFE_LONG`
    Long = 4,
    /// `RWH_WRITE_LIFE_EXTREME`
    Extreme = 5,
}

impl Hint {
    /// All, the shortest lifetime first.
    pub const ALL: [Hint; 4] = [Hint::Short, Hint::Medium, Hint::Long, Hint::Extreme];

    /// The kernel's number.
    pub fn number(self) -> u64 {
        self as u64
    }

    /// The kernel's name without its prefix.
    pub fn name(self) -> &'static str {
        match self {
            Hint::Short => "SHORT",
            Hint::Medium => "MEDIUM",
            Hint::Long => "LONG",
            Hint::Extreme => "EXTREME",
        }
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where one class ends and the next begins, in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quartiles([u64; 3]);

impl Quartiles {
    /// Of these lifetimes, by nearest rank; `None` if there are none.
    pub fn of(mut lifetimes: Vec<u64>) -> Option<Quartiles> {
        lifetimes.sort_unstable();
        let last = lifetimes.len().checked_sub(1)?;
        // The smallest value that a quarter, half, three quarters of all do not exceed.
        let rank = |quarters: usize| ((quarters * (last + 1)).div_ceil(4)).max(1) - 1;
        Some(Quartiles([1, 2, 3].map(|quarters| lifetimes[rank(quarters)])))
    }

    /// The class of a lifetime.
    pub fn class(self, lifetime_pages: u64) -> Hint {
        let above = self.0.iter().filter(|&&end| lifetime_pages > end).count();
        Hint::ALL[above]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_the_lifetimes_is_in_each_class() {
        let all: Vec<u64> = (1..=100).map(|n| n * 10).collect();
        let quartiles = Quartiles::of(all.clone()).expect("there are some");
        for (class, range) in Hint::ALL.into_iter().zip([0..25, 25..50, 50..75, 75..100]) {
            assert!(all[range].iter().all(|&lifetime| quartiles.class(lifetime) == class), "{class}");
        }
        assert_eq!((quartiles.class(0), quartiles.class(u64::MAX)), (Hint::Short, Hint::Extreme));
    }

    #[test]
    fn few_lifetimes_differ_by_order() {
        let classes = |lifetimes: &[u64]| -> Vec<Hint> {
            let quartiles = Quartiles::of(lifetimes.to_vec()).expect("there are some");
            lifetimes.iter().map(|&lifetime| quartiles.class(lifetime)).collect()
        };
        assert_eq!(classes(&[7]), [Hint::Short]);
        assert_eq!(classes(&[9, 5]), [Hint::Long, Hint::Short]);
        assert_eq!(classes(&[1, 2, 3]), [Hint::Short, Hint::Medium, Hint::Long]);
        assert_eq!(classes(&[4, 3, 2, 1]), [Hint::Extreme, Hint::Long, Hint::Medium, Hint::Short]);
        assert_eq!(Quartiles::of(Vec::new()), None);
    }

    #[test]
    fn the_numbers_are_those_of_fcntl() {
        assert_eq!(Hint::ALL.map(Hint::number), [2, 3, 4, 5]);
    }
}
