//! Write hints: how long the data of a file is expected to live, in the classes of `fcntl(2)`.
//!
//! Idea: the kernel's classes have no unit. So they are the order of the scheme's streams by lifetime: a stream for each class
//! in the default. Fewer streams leave classes empty, more share them.
//!
//! Most file systems pass a hint on as it is. F2FS has three classes (hot, warm, cold), which is what its requests carry:
//! SHORT, none or EXTREME (`f2fs_io_type_to_rw_hint`).

use pcstream_fs::scratch::FsKind;
use pcstream_trace::Life;
use serde::Serialize;

/// The hints that a file system tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HintClasses {
    /// By expected lifetime, the shortest first.
    hints: &'static [Life],
    /// What the requests of each carry.
    carried: &'static [Life],
}

impl Default for HintClasses {
    fn default() -> HintClasses {
        HintClasses { hints: &Life::TIMED, carried: &Life::TIMED }
    }
}

impl HintClasses {
    const F2FS: HintClasses = HintClasses {
        hints: &[Life::Short, Life::Medium, Life::Extreme],
        carried: &[Life::Short, Life::NotSet, Life::Extreme],
    };

    /// Those of a file system.
    pub fn of(fs: Option<FsKind>) -> HintClasses {
        if fs == Some(FsKind::F2fs) { HintClasses::F2FS } else { HintClasses::default() }
    }

    /// How many there are.
    pub fn count(self) -> u8 {
        self.hints.len() as u8
    }

    /// The hint of a stream that is at this place, counted from 0, among so many in the order of lifetimes.
    pub fn of_place(self, place: usize, streams: usize) -> Life {
        self.hints[place * self.hints.len() / streams]
    }

    /// What the requests of a file with this hint carry.
    pub fn carried(self, hint: Life) -> Life {
        self.hints.iter().position(|&class| class == hint).map_or(hint, |at| self.carried[at])
    }
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
    /// Pages were written by requests with this hint; those of their context carry another or the same.
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
        let of = |fs, streams| {
            (0..streams).map(|place| HintClasses::of(fs).of_place(place, streams)).collect::<Vec<_>>()
        };
        let classes = |streams: usize| of(Some(FsKind::Xfs), streams);
        assert_eq!(classes(1), [Short]);
        assert_eq!(classes(2), [Short, Long]);
        assert_eq!(classes(3), [Short, Medium, Long]);
        assert_eq!(classes(4), Life::TIMED);
        assert_eq!(classes(7), [Short, Short, Medium, Medium, Long, Long, Extreme]);
        assert_eq!(of(Some(FsKind::F2fs), 2), [Short, Medium]);
        assert_eq!(of(Some(FsKind::F2fs), 3), [Short, Medium, Extreme]);
    }

    #[test]
    fn requests_of_f2fs_carry_its_classes() {
        let carried = |fs| Life::TIMED.map(|hint| HintClasses::of(Some(fs)).carried(hint));
        assert_eq!(carried(FsKind::Ext4), Life::TIMED);
        assert_eq!(carried(FsKind::F2fs)[..2], [Life::Short, Life::NotSet]);
        assert_eq!(carried(FsKind::F2fs)[3], Life::Extreme);
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
