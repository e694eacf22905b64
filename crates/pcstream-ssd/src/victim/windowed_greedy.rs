//! Windowed greedy: the candidate with the fewest valid pages among the oldest; among equals, the oldest.
//! Between FIFO (a window of one) and greedy (all).
//!
//! Known weakness: a choice looks at the whole window, so its cost grows with the device.

use super::closing_order::ClosingOrder;
use super::{Select, Superblocks, VictimInfo, VictimParameter};

pub(super) const INFO: VictimInfo = VictimInfo {
    name: "windowed-greedy",
    about: "the fewest valid pages among the oldest superblocks (Hu et al., SYSTOR 2009)",
    parameter: Some(VictimParameter {
        name: "PERCENT",
        unit: "% of the closed superblocks",
        // The default of SepBIT's simulator.
        default: 90,
        range: 1..=100,
    }),
    sizes_pools: false,
    heads: |_, _| 0,
    make: |new| Box::new(WindowedGreedy::new(new.table, new.parameter)),
};

/// Candidates in the window: a share of all, rounded up.
pub(crate) fn window(candidates: usize, percent: u32) -> usize {
    (candidates * percent as usize).div_ceil(100)
}

pub(crate) struct WindowedGreedy {
    order: ClosingOrder,
    percent: u32,
}

impl WindowedGreedy {
    pub(crate) fn new(table: &Superblocks, percent: u32) -> Self {
        WindowedGreedy { order: ClosingOrder::new(table), percent }
    }
}

impl Select for WindowedGreedy {
    fn closed(&mut self, _table: &mut Superblocks, superblock: u32, _frontier: u16, now: u64) {
        self.order.push(superblock, now);
    }

    fn choose(&mut self, table: &Superblocks, _now: u64) -> u32 {
        let oldest = self.order.iter().take(window(self.order.len(), self.percent));
        oldest.min_by_key(|entry| table.valid(entry.superblock)).map_or(0, |entry| entry.superblock)
    }

    fn removed(&mut self, _table: &mut Superblocks, superblock: u32) {
        self.order.remove(superblock);
    }
}
