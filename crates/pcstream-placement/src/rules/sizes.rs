//! Sizes of files that a rule is about: `16M..64M`, from the first to less than the second, in bytes with an optional suffix
//! ([`crate::size`]). Either end may be left out.

use crate::size;

/// From a number of bytes to less than another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    from: u64,
    /// `None`: without end.
    below: Option<u64>,
}

impl Sizes {
    pub fn parse(text: &str) -> Option<Sizes> {
        let (from, below) = text.split_once("..")?;
        if from.is_empty() && below.is_empty() {
            return None;
        }
        let from = if from.is_empty() { 0 } else { size(from).ok()? };
        let below = if below.is_empty() { None } else { Some(size(below).ok()?) };
        below.is_none_or(|below| from < below).then_some(Sizes { from, below })
    }

    pub fn hold(self, size: u64) -> bool {
        self.from <= size && self.below.is_none_or(|below| size < below)
    }

    /// Its ends; never none, as a write whose file has no known size is in no range.
    pub fn steps(self) -> impl Iterator<Item = u64> {
        [Some(self.from), self.below].into_iter().flatten()
    }
}
