//! Pools of given sizes, held to a least gain: sizes that do not fit the data cost a bounded WAF.
//!
//! The pool furthest above its target may hold hardly anything but valid pages, as a prefilled S0 does. Its victims would
//! be copied back into it for ever. So what victims gain is watched. Victims should gain, on average, what a
//! superblock chosen blindly would: the average of the pages that are not valid in all closed superblocks, when GC must
//! choose and every logical page holds data. What they gain less adds up to a shortfall; what they gain more lowers it, to
//! no less than 0. While it is more than one superblock, the pools are passed over: the candidate with the fewest valid
//! pages of all is emptied, which gains at least that average. With watermarks, fewer superblocks are closed and the
//! average is lower.
//!
//! WAF is therefore at most about alpha / (alpha - 1), with alpha as in `analytic`: twice that of uniform traffic. Pools
//! of sizes that fit the traffic gain about twice the average, so the rule leaves them alone. It judges sums and not
//! single victims, because FIFO in a pool has to empty full superblocks now and then to get past them.
//!
//! Weakness: greedy over all candidates takes 16 bytes per superblock, and a second list to keep.

use crate::geometry::Geometry;
use crate::memory::OutOfMemory;
use crate::victim::{Pools, Select, Superblocks, VictimPolicy};

/// Pages that victims should have gained and did not, in units of 1/(N - F) page: whole numbers, so nothing is rounded.
#[derive(Clone, Copy, Debug)]
struct Shortfall {
    /// N - F: superblocks that are closed when GC must choose.
    closed: i64,
    /// Pages in them that hold no valid data when all logical pages do: what a victim should gain, in these units.
    spare_pages: i64,
    /// More than this is too much: one superblock.
    most: i64,
    now: i64,
}

impl Shortfall {
    fn new(geometry: &Geometry) -> Shortfall {
        let closed = i64::from(geometry.superblocks() - geometry.open_superblocks());
        let pages = closed * i64::from(geometry.superblock_pages());
        Shortfall { closed, spare_pages: pages - geometry.logical_pages() as i64, most: pages, now: 0 }
    }

    /// Whether the next victim is the emptiest of all.
    fn is_too_much(&self) -> bool {
        self.now > self.most
    }

    /// A victim gained `pages`.
    fn gained(&mut self, pages: u32) {
        self.now = (self.now + self.spare_pages - i64::from(pages) * self.closed).max(0);
    }
}

/// Pools of given sizes, and the emptiest superblock of all where theirs gain too little.
pub(super) struct LeastGain {
    shortfall: Shortfall,
    pools: Pools,
    /// Greedy over the candidates of all pools.
    emptiest: Box<dyn Select + Send>,
    /// Its lists: those of the device's table are the pools'.
    lists: Superblocks,
}

impl LeastGain {
    pub(super) fn new(pools: Pools, geometry: &Geometry) -> Result<LeastGain, OutOfMemory> {
        let (policy, pages) = (VictimPolicy::default(), geometry.superblock_pages());
        let mut lists = Superblocks::new(geometry.superblocks(), pages, policy.heads(pages, 1))?;
        let emptiest = policy.make(&mut lists, 1, 0);
        Ok(LeastGain { shortfall: Shortfall::new(geometry), pools, emptiest, lists })
    }
}

impl Select for LeastGain {
    fn closed(&mut self, table: &mut Superblocks, superblock: u32, frontier: u16, now: u64) {
        self.pools.closed(table, superblock, frontier, now);
        self.lists.programmed(superblock, table.valid(superblock));
        self.lists.close(superblock);
        self.emptiest.closed(&mut self.lists, superblock, frontier, now);
    }

    fn invalidated(&mut self, table: &mut Superblocks, superblock: u32, valid: u32, lost: u32) {
        self.pools.invalidated(table, superblock, valid, lost);
        self.lists.invalidate(superblock, lost);
        self.emptiest.invalidated(&mut self.lists, superblock, valid, lost);
    }

    fn choose(&mut self, table: &Superblocks, now: u64) -> u32 {
        if self.shortfall.is_too_much() {
            self.emptiest.choose(&self.lists, now)
        } else {
            self.pools.choose(table, now)
        }
    }

    fn removed(&mut self, table: &mut Superblocks, superblock: u32) {
        self.shortfall.gained(table.pages() - table.valid(superblock));
        self.pools.removed(table, superblock);
        self.emptiest.removed(&mut self.lists, superblock);
        self.lists.erase(superblock);
    }
}
