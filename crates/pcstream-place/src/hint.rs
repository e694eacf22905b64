//! Write hints: how long the data of a file is expected to live, in the four classes of `fcntl(2)`.
//!
//! Idea: the kernel's classes have no unit. So they are the order of the scheme's streams by lifetime: a stream for each class
//! in the default. Fewer streams leave classes empty, more share them.

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

    /// Of a stream that is at this place, counted from 0, among so many in the order of lifetimes.
    pub fn of_place(place: usize, streams: usize) -> Hint {
        Hint::ALL[place * Hint::ALL.len() / streams]
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_the_order_of_streams() {
        use Hint::{Extreme, Long, Medium, Short};
        let classes =
            |streams: usize| (0..streams).map(|place| Hint::of_place(place, streams)).collect::<Vec<_>>();
        assert_eq!(classes(1), [Short]);
        assert_eq!(classes(2), [Short, Long]);
        assert_eq!(classes(3), [Short, Medium, Long]);
        assert_eq!(classes(4), Hint::ALL);
        assert_eq!(classes(7), [Short, Short, Medium, Medium, Long, Long, Extreme]);
    }

    #[test]
    fn the_numbers_are_those_of_fcntl() {
        assert_eq!(Hint::ALL.map(Hint::number), [2, 3, 4, 5]);
    }
}
