//! Greedy: the candidate with the fewest valid pages; among equals, the one that has had that number
//! for longest. Optimal online when nothing is known about the future of pages.
//!
//! One list per number of valid pages, oldest first; an invalidation moves a superblock to the end of
//! a lower list. `lowest` is at most the number of the lowest non-empty list. A choice walks up from
//! it, and it comes down again only with closes and invalidations, so the walk costs amortised less
//! than the copying of a victim.
//!
//! Weakness: with skewed traffic it keeps collecting superblocks of hot pages that would soon have
//! become empty by themselves; with separated streams it gives all of them the same WAF
//! (`analytic::greedy_on_streams`).

use super::{Select, Superblocks, VictimInfo};

pub(super) const INFO: VictimInfo = VictimInfo {
    name: "greedy",
    about: "the fewest valid pages; among equals, the superblock that has had that number for longest",
    parameter: None,
    sizes_pools: false,
    heads: |pages, _| u64::from(pages) + 1,
    make: |new| Box::new(Greedy::new(new.table)),
};

pub(crate) struct Greedy {
    /// Head of the list for 0 valid pages; the others follow.
    heads: u32,
    lowest: u32,
}

impl Greedy {
    pub(crate) fn new(table: &mut Superblocks) -> Self {
        let lists = table.pages() + 1;
        Greedy { heads: table.add_heads(lists), lowest: lists }
    }

    /// Head of the lowest list that is not empty; `None` if all are.
    pub(crate) fn lowest_list(&mut self, table: &Superblocks) -> Option<u32> {
        while self.lowest <= table.pages() {
            let head = self.heads + self.lowest;
            if table.next(head) != head {
                return Some(head);
            }
            self.lowest += 1;
        }
        None
    }
}

impl Select for Greedy {
    #[inline(always)]
    fn closed(&mut self, table: &mut Superblocks, superblock: u32, _frontier: u16, _now: u64) {
        let valid = table.valid(superblock);
        table.link_last(self.heads + valid, superblock);
        self.lowest = self.lowest.min(valid);
    }

    #[inline(always)]
    fn invalidated(&mut self, table: &mut Superblocks, superblock: u32, valid: u32, _lost: u32) {
        table.unlink(superblock);
        table.link_last(self.heads + valid, superblock);
        self.lowest = self.lowest.min(valid);
    }

    fn choose(&mut self, table: &Superblocks, _now: u64) -> u32 {
        self.lowest_list(table).map_or(0, |head| table.next(head))
    }

    #[inline(always)]
    fn removed(&mut self, table: &mut Superblocks, superblock: u32) {
        table.unlink(superblock);
    }
}
