//! Greedy with wear-aware tie-breaking: among the superblocks with the fewest valid pages, the one
//! erased least often; then the one that has had that number for longest.
//!
//! Only the first `TIE_BREAK_SUPERBLOCKS` of the equals are compared: after large discards there can be
//! many thousand empty superblocks, and looking at all of them for each victim would not end.

use super::{Greedy, Select, Superblocks, VictimInfo};

pub(super) const INFO: VictimInfo = VictimInfo {
    name: "greedy-wear",
    about: "as greedy, but among equals the fewest erases",
    parameter: None,
    sizes_pools: false,
    heads: |pages, _| u64::from(pages) + 1,
    make: |new| Box::new(GreedyWear::new(new.table)),
};

/// Equals that are compared.
pub(crate) const TIE_BREAK_SUPERBLOCKS: usize = 64;

pub(crate) struct GreedyWear(Greedy);

impl GreedyWear {
    pub(crate) fn new(table: &mut Superblocks) -> Self {
        GreedyWear(Greedy::new(table))
    }
}

impl Select for GreedyWear {
    fn closed(&mut self, table: &mut Superblocks, superblock: u32, frontier: u16, now: u64) {
        self.0.closed(table, superblock, frontier, now);
    }

    fn invalidated(&mut self, table: &mut Superblocks, superblock: u32, valid: u32, lost: u32) {
        self.0.invalidated(table, superblock, valid, lost);
    }

    fn choose(&mut self, table: &Superblocks, _now: u64) -> u32 {
        let Some(head) = self.0.lowest_list(table) else { return 0 };
        let next = |&superblock: &u32| Some(table.next(superblock)).filter(|&next| next != head);
        let equals = std::iter::successors(Some(table.next(head)), next).take(TIE_BREAK_SUPERBLOCKS);
        equals.min_by_key(|&superblock| table.erases(superblock)).unwrap_or(0)
    }

    fn removed(&mut self, table: &mut Superblocks, superblock: u32) {
        self.0.removed(table, superblock);
    }
}
