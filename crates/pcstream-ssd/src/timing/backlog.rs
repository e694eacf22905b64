//! Work of GC that was decided and not yet issued, in order.

use std::collections::VecDeque;

use super::units::{UnitRead, Units};

/// Consecutive work of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Copies out of one victim; what to read is in `Backlog::sources`.
    Copies(Copies),
    /// One erase.
    Erase { superblock: u32 },
}

/// Copies out of one victim to consecutive pages of one superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Copies {
    pub(super) victim: u32,
    /// Where to: superblock, unit in it, page of the unit.
    pub(super) to: u32,
    pub(super) within: u32,
    pub(super) page: u32,
    /// Pages that are left.
    pub(super) left: u32,
    /// Whether all pages of the unit are copies of this work (asked when its first page comes), and when those of
    /// its pages that were issued so far were read.
    pub(super) whole_unit: bool,
    pub(super) ready: u64,
}

impl Copies {
    /// Goes on at the first page of a unit.
    #[inline(always)]
    pub(super) fn begin_unit(&mut self, within: u32, pages_per_program: u32) {
        self.within = within;
        self.page = 0;
        self.whole_unit = self.left >= pages_per_program;
        self.ready = 0;
    }
}

/// Copies and erases in the order of the FTL's decisions.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    work: VecDeque<Work>,
    /// Offsets of the pages that all copies read, in their victims. Not a queue: those before `read` are done,
    /// and go when they are most of them.
    sources: Vec<u32>,
    read: usize,
    /// Copies and erases in all.
    pieces: u32,
}

impl Backlog {
    /// Copies and erases left.
    #[inline(always)]
    pub(super) fn len(&self) -> u32 {
        self.pieces
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.pieces == 0
    }

    #[inline(always)]
    pub(super) fn front(&self) -> Option<Work> {
        self.work.front().copied()
    }

    /// What the next copies read; `copies` is the work at the front.
    #[inline(always)]
    pub(super) fn next_read(&self, copies: &Copies, units: &Units) -> UnitRead {
        units.first_read(&self.sources[self.read..self.read + copies.left as usize])
    }

    /// Appends copies of the pages at the offsets `sources` of a victim, ascending.
    #[inline(always)]
    pub(super) fn push_copies(&mut self, sources: &[u32], copies: Copies) {
        if 2 * self.read >= self.sources.len() {
            self.sources.drain(..self.read);
            self.read = 0;
        }
        self.sources.extend_from_slice(sources);
        self.work.push_back(Work::Copies(copies));
        self.pieces += copies.left;
    }

    pub(super) fn push_erase(&mut self, superblock: u32) {
        self.work.push_back(Work::Erase { superblock });
        self.pieces += 1;
    }

    /// Removes the erase at the front.
    pub(super) fn pop_erase(&mut self) {
        let erase = self.work.pop_front();
        debug_assert!(matches!(erase, Some(Work::Erase { .. })));
        self.pieces -= 1;
    }

    /// Removes what `next_read` returned.
    #[inline(always)]
    pub(super) fn pop_read(&mut self, read: UnitRead) {
        self.read += read.pages as usize;
        self.pieces -= read.pages;
    }

    /// The copies at the front, some of them issued.
    #[inline(always)]
    pub(super) fn put_copies(&mut self, copies: Copies) {
        debug_assert!(matches!(self.work.front(), Some(Work::Copies(_))));
        if copies.left == 0 {
            self.work.pop_front();
        } else if let Some(front) = self.work.front_mut() {
            *front = Work::Copies(copies);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_comes_out_in_order_and_in_parts() {
        let units = Units::new(2, 2, 2, 16, 1);
        let first = UnitRead { within: 1, pages: 2 };
        let second = UnitRead { within: 4, pages: 1 };
        let mut backlog = Backlog::default();
        let copies = |to, within, page, left| Copies {
            victim: 1,
            to,
            within,
            page,
            left,
            whole_unit: false,
            ready: 0,
        };
        backlog.push_copies(&[2, 3, 8], copies(7, 50, 0, 3));
        backlog.push_erase(1);
        backlog.push_copies(&[9], copies(7, 51, 1, 1));
        let Some(Work::Copies(begun)) = backlog.front() else { panic!("copies come first") };
        assert_eq!((backlog.len(), backlog.next_read(&begun, &units)), (5, first));
        backlog.pop_read(first);
        let begun = Copies { within: 51, left: 1, ..begun };
        backlog.put_copies(begun);
        assert_eq!((backlog.len(), backlog.front()), (3, Some(Work::Copies(begun))));
        // Page 9 is of the same unit, but of other copies.
        assert_eq!(backlog.next_read(&begun, &units), second);
        backlog.pop_read(second);
        backlog.put_copies(Copies { left: 0, ..begun });
        assert_eq!(backlog.front(), Some(Work::Erase { superblock: 1 }));
        backlog.pop_erase();
        let Some(Work::Copies(last)) = backlog.front() else { panic!("copies come last") };
        backlog.push_copies(&[0], copies(8, 0, 0, 1));
        assert_eq!(backlog.next_read(&last, &units), second);
        backlog.pop_read(second);
        backlog.put_copies(Copies { left: 0, ..last });
        assert_eq!(backlog.len(), 1);
    }
}
