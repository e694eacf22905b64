//! Garbage collection. The pages of a victim are scanned in order, those still valid are programmed into the open
//! superblock of its GC destination, then it is erased and goes to the end of the free queue.

use super::{Frontier, GC_LOOKAHEAD_PAGES, Ssd};
use crate::counters::Counters;
use crate::ids::SuperblockId;
use crate::memory;
use crate::observer::Observer;
use crate::settings::GcDestination;

/// Pages that GC gathers before it moves them: their map entries stay in the first-level cache.
const GC_BATCH_PAGES: usize = 256;

impl Ssd {
    /// Empties one victim between host writes, or finds that enough superblocks are free.
    #[cold]
    pub(super) fn collect_in_background<O: Observer>(&mut self, observer: &mut O) {
        if !self.background.is_done(self.free.len() as u32) {
            let gained = self.collect(observer);
            self.background.gained(gained);
            self.counters.background_erases += 1;
        }
    }

    /// Empties one victim. Returns the pages gained.
    pub(super) fn collect<O: Observer>(&mut self, observer: &mut O) -> u32 {
        let victim = self.choose_victim();
        self.selector.removed(&mut self.table, victim);
        let valid = self.table.valid(victim);
        if valid > 0 {
            self.copy_valid_pages(victim, valid, observer);
        }
        self.table.erase(victim);
        self.free.push_back(victim);
        observer.erase(SuperblockId(victim - 1), valid);
        self.count_victim(victim, valid);
        self.geometry.superblock_pages() - valid
    }

    /// Asks the policy. A policy that keeps picking victims without any invalid page would keep GC
    /// going for ever; after as many in a row as there are superblocks, greedy chooses instead.
    fn choose_victim(&mut self) -> u32 {
        let mut victim = self.selector.choose(&self.table, self.now_pages);
        let superblocks = self.table.len();
        assert!(
            (1..=superblocks).contains(&victim) && self.table.is_closed(victim),
            "the victim policy chose superblock {victim} of {superblocks}, counted from 1: expected a closed one",
        );
        if self.table.valid(victim) < self.geometry.superblock_pages() {
            self.fruitless_victims = 0;
            return victim;
        }
        self.fruitless_victims += 1;
        if self.fruitless_victims > self.table.len() {
            let closed = (1..=self.table.len()).filter(|&s| self.table.is_closed(s));
            victim = closed.min_by_key(|&s| self.table.valid(s)).expect("the policy found one");
            self.counters.rescues += 1;
            self.fruitless_victims = 0;
        }
        victim
    }

    /// Moves what is valid in `victim`, in the order of its pages.
    fn copy_valid_pages<O: Observer>(&mut self, victim: u32, valid: u32, observer: &mut O) {
        let destination = self.gc_frontier(self.owners[victim as usize]);
        let b = self.geometry.superblock_pages() as usize;
        let mut logical = [0u32; GC_BATCH_PAGES];
        let mut offsets = [0u32; GC_BATCH_PAGES];
        let (mut scanned, mut copied) = (0, 0);
        while scanned < b && copied < valid {
            let batch = GC_BATCH_PAGES.min(b - scanned);
            let found = self.gather::<O>(victim, scanned, batch, &mut logical, &mut offsets);
            self.move_pages(destination, victim, &logical[..found], &offsets[..found], observer);
            scanned += batch;
            copied += found as u32;
        }
        assert_eq!(copied, valid, "valid pages of a victim differ from their count");
    }

    /// Finds the valid pages among `pages` pages of `victim` from `start` on. Returns how many.
    #[inline(always)]
    fn gather<O: Observer>(
        &self,
        victim: u32,
        start: usize,
        pages: usize,
        logical: &mut [u32; GC_BATCH_PAGES],
        offsets: &mut [u32; GC_BATCH_PAGES],
    ) -> usize {
        let slot = self.slot(victim, start as u32);
        let slots = &self.logical_of[slot..slot + pages + GC_LOOKAHEAD_PAGES];
        let physical = victim << self.offset_bits | start as u32;
        let mut found = 0;
        for i in 0..pages {
            memory::prefetch(&self.map, slots[i + GC_LOOKAHEAD_PAGES] as usize);
            let page = slots[i];
            // Written without a branch: whether a page is valid is as good as random.
            logical[found % GC_BATCH_PAGES] = page;
            if O::WANTS_COPIES {
                offsets[found % GC_BATCH_PAGES] = (start + i) as u32;
            }
            found += usize::from(self.map[page as usize] == physical + i as u32);
        }
        found
    }

    /// Programs pages of `victim` at a GC frontier, opening superblocks as needed.
    #[inline(always)]
    fn move_pages<O: Observer>(
        &mut self,
        destination: usize,
        victim: u32,
        logical: &[u32],
        offsets: &[u32],
        observer: &mut O,
    ) {
        let mut moved = 0;
        while moved < logical.len() {
            if self.frontiers[destination].superblock == 0 {
                self.open(destination);
            }
            let Frontier { superblock, offset } = self.frontiers[destination];
            let run = (logical.len() - moved).min((self.geometry.superblock_pages() - offset) as usize);
            let pages = &logical[moved..moved + run];
            let physical = superblock << self.offset_bits | offset;
            for (i, &page) in pages.iter().enumerate() {
                self.map[page as usize] = physical + i as u32;
            }
            let slot = self.slot(superblock, offset);
            self.logical_of[slot..slot + run].copy_from_slice(pages);
            if O::WANTS_COPIES {
                let (from, to) = (SuperblockId(victim - 1), SuperblockId(superblock - 1));
                observer.gc_copies(from, &offsets[moved..moved + run], to, offset);
            }
            self.advance(destination, run as u32);
            moved += run;
        }
    }

    /// Frontier that takes the copies out of a superblock that `owner` filled. Host streams are
    /// frontiers 0..m; behind them come the internal streams, or the shared GC frontier.
    fn gc_frontier(&self, owner: u16) -> usize {
        let (owner, streams) = (usize::from(owner), usize::from(self.geometry.streams()));
        match self.geometry.gc_destination() {
            GcDestination::Own => owner,
            GcDestination::Internal if owner < streams => streams + owner,
            GcDestination::Internal => owner,
            GcDestination::Shared => streams,
        }
    }

    fn count_victim(&mut self, victim: u32, valid: u32) {
        let owner = usize::from(self.owners[victim as usize]);
        let streams = usize::from(self.geometry.streams());
        let counters = &mut self.counters;
        counters.gc_pages += u64::from(valid);
        counters.erases += 1;
        counters.victim_validity[Counters::validity_bucket(valid, self.geometry.superblock_pages())] += 1;
        match self.geometry.gc_destination() {
            GcDestination::Shared if owner == streams => counters.shared_gc_pages += u64::from(valid),
            _ => {
                let stream = &mut counters.streams[owner % streams];
                stream.gc_pages += u64::from(valid);
                stream.internal_gc_pages += if owner < streams { 0 } else { u64::from(valid) };
            }
        }
    }
}
