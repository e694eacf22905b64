//! Write hints: how long the data of a file is expected to live, in the four classes of `fcntl(2)`.
//!
//! Idea: the kernel's classes have no unit. So they are the order of the scheme's streams by lifetime: a stream for each class
//! in the default. Fewer streams leave classes empty, more share them.

use pcstream_trace::Life;
use serde::Serialize;

/// Of a stream that is at this place, counted from 0, among so many in the order of lifetimes.
pub fn of_place(place: usize, streams: usize) -> Life {
    Life::TIMED[place * Life::TIMED.len() / streams]
}

/// File data whose requests carried one hint. Pages are of 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HintUse {
    /// The name of the hint; `None`: they carried none.
    pub hint: Option<&'static str>,
    /// Pages.
    pub pages: u64,
    /// Of these, pages of contexts with another hint.
    pub pages_of_others: u64,
}

/// File data by the hint that its requests carried.
#[derive(Clone, Debug, Default)]
pub struct HintUses([HintUse; Life::TIMED.len() + 1]);

impl HintUses {
    /// Pages were written by requests with this hint, by a context that is expected to have another or the same.
    pub fn count(&mut self, carried: Life, wanted: Option<Life>, pages: u64) {
        let class = carried.class();
        let used = &mut self.0[class.map_or(0, |class| class + 1)];
        used.hint = class.map(|_| carried.kernel_name());
        used.pages += pages;
        if wanted.is_some_and(|wanted| wanted != carried) {
            used.pages_of_others += pages;
        }
    }

    /// Those that were used, none before the shortest.
    pub fn used(&self) -> Vec<HintUse> {
        self.0.iter().filter(|used| used.pages > 0).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_the_order_of_streams() {
        use Life::{Extreme, Long, Medium, Short};
        let classes = |streams: usize| (0..streams).map(|place| of_place(place, streams)).collect::<Vec<_>>();
        assert_eq!(classes(1), [Short]);
        assert_eq!(classes(2), [Short, Long]);
        assert_eq!(classes(3), [Short, Medium, Long]);
        assert_eq!(classes(4), Life::TIMED);
        assert_eq!(classes(7), [Short, Short, Medium, Medium, Long, Long, Extreme]);
    }

    #[test]
    fn pages_count_by_the_hint_that_they_carried() {
        let mut uses = HintUses::default();
        uses.count(Life::NotSet, None, 1);
        uses.count(Life::NotSet, Some(Life::Short), 2);
        uses.count(Life::None, None, 4);
        uses.count(Life::Short, Some(Life::Short), 8);
        uses.count(Life::Extreme, Some(Life::Short), 16);
        uses.count(Life::Extreme, None, 32);
        let of = |hint, pages, pages_of_others| HintUse { hint, pages, pages_of_others };
        assert_eq!(uses.used(), [of(None, 7, 2), of(Some("SHORT"), 8, 0), of(Some("EXTREME"), 48, 16)]);
    }

    #[test]
    fn the_numbers_are_those_of_fcntl() {
        assert_eq!(Life::TIMED.map(|life| life as u64), [2, 3, 4, 5]);
    }
}
