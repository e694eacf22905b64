//! FIFO (also called LRU or cyclic): the oldest candidate, whatever it holds.
//!
//! Simple and wear-even. Weakness: copies cold data again and again, and gains nothing from internal streams.

use super::{Select, Superblocks, VictimInfo};

pub(super) const INFO: VictimInfo = VictimInfo {
    name: "fifo",
    about: "the oldest superblock",
    parameter: None,
    sizes_pools: false,
    heads: |_, _| 1,
    make: |new| Box::new(Fifo::new(new.table)),
};

pub(crate) struct Fifo {
    head: u32,
}

impl Fifo {
    pub(crate) fn new(table: &mut Superblocks) -> Self {
        Fifo { head: table.add_heads(1) }
    }
}

impl Select for Fifo {
    fn closed(&mut self, table: &mut Superblocks, superblock: u32, _frontier: u16, _now: u64) {
        table.link_last(self.head, superblock);
    }

    fn choose(&mut self, table: &Superblocks, _now: u64) -> u32 {
        let first = table.next(self.head);
        if first == self.head { 0 } else { first }
    }

    fn removed(&mut self, table: &mut Superblocks, superblock: u32) {
        table.unlink(superblock);
    }
}
