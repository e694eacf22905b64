//! Candidates in the order in which they were closed, for policies that look at many of them per choice.
//!
//! An array with gaps: removal leaves a 0, and when more than half of the entries are gaps they are
//! squeezed out, so that a scan reads at most twice the candidates, in order.

use super::Superblocks;

/// One candidate.
#[derive(Clone, Copy)]
pub(crate) struct Closed {
    /// 0 in a gap.
    pub(crate) superblock: u32,
    /// Logical time of closing, in pages.
    pub(crate) at: u64,
}

pub(crate) struct ClosingOrder {
    entries: Vec<Closed>,
    /// Index of each superblock in `entries`, if it is a candidate.
    positions: Vec<u32>,
    candidates: usize,
}

impl ClosingOrder {
    pub(crate) fn new(table: &Superblocks) -> Self {
        ClosingOrder { entries: Vec::new(), positions: vec![0; table.len() as usize + 1], candidates: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.candidates
    }

    pub(crate) fn push(&mut self, superblock: u32, at: u64) {
        self.positions[superblock as usize] = self.entries.len() as u32;
        self.entries.push(Closed { superblock, at });
        self.candidates += 1;
    }

    pub(crate) fn remove(&mut self, superblock: u32) {
        self.entries[self.positions[superblock as usize] as usize].superblock = 0;
        self.candidates -= 1;
        if self.entries.len() > 2 * self.candidates + 64 {
            self.entries.retain(|entry| entry.superblock != 0);
            for (position, entry) in self.entries.iter().enumerate() {
                self.positions[entry.superblock as usize] = position as u32;
            }
        }
    }

    /// Oldest first.
    #[inline(always)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = Closed> + '_ {
        self.entries.iter().copied().filter(|entry| entry.superblock != 0)
    }
}
