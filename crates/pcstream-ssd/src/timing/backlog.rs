//! Work of GC that was decided and not yet issued, in order.

use std::collections::VecDeque;

use super::units::UnitRead;

/// Consecutive work of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Copies out of one victim; what to read is in `Backlog::reads`.
    Copies(Copies),
    /// One erase.
    Erase { superblock: u32 },
}

/// Copies to consecutive pages of one superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Copies {
    /// Where to: superblock, unit in it, page of the unit.
    pub(super) to: u32,
    pub(super) within: u32,
    pub(super) page: u32,
    /// Pages that are left.
    pub(super) left: u32,
    /// Whether all pages of the unit are copies of this work, and when those issued so far were read.
    pub(super) whole_unit: bool,
    pub(super) ready: u64,
}

/// Copies and erases in the order of the FTL's decisions.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    work: VecDeque<Work>,
    /// Of all copies.
    reads: VecDeque<UnitRead>,
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

    /// What the next copies read.
    pub(super) fn next_read(&self) -> Option<UnitRead> {
        self.reads.front().copied()
    }

    /// Appends `pages` copies to the pages from number `page` of unit `within` of `to` on.
    #[inline(always)]
    pub(super) fn push_copies(
        &mut self,
        reads: impl Iterator<Item = UnitRead>,
        pages: u32,
        (to, within, page): (u32, u32, u32),
    ) {
        self.reads.extend(reads);
        let copies = Copies { to, within, page, left: pages, whole_unit: false, ready: 0 };
        self.work.push_back(Work::Copies(copies));
        self.pieces += pages;
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

    /// Removes the next read of the copies at the front.
    #[inline(always)]
    pub(super) fn pop_read(&mut self) -> UnitRead {
        let read = self.reads.pop_front().expect("copies have reads");
        self.pieces -= read.pages;
        read
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
        let reads = [UnitRead { within: 1, pages: 2 }, UnitRead { within: 4, pages: 1 }];
        let mut backlog = Backlog::default();
        backlog.push_copies(reads.into_iter(), 3, (7, 50, 0));
        backlog.push_erase(1);
        assert_eq!((backlog.len(), backlog.next_read()), (4, Some(reads[0])));
        let Some(Work::Copies(copies)) = backlog.front() else { panic!("copies come first") };
        assert_eq!((backlog.pop_read(), backlog.len()), (reads[0], 2));
        backlog.put_copies(Copies { within: 51, left: 1, ..copies });
        assert_eq!(backlog.front(), Some(Work::Copies(Copies { within: 51, left: 1, ..copies })));
        assert_eq!(backlog.pop_read(), reads[1]);
        backlog.put_copies(Copies { left: 0, ..copies });
        assert_eq!(backlog.front(), Some(Work::Erase { superblock: 1 }));
        backlog.pop_erase();
        assert!(backlog.is_empty() && backlog.front().is_none() && backlog.next_read().is_none());
    }
}
