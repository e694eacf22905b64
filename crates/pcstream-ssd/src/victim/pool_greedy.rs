//! Pool greedy: streams whose pools size themselves. A pool is the superblocks filled by one frontier
//! (a stream, an internal stream, the shared GC destination). The victim is the emptiest superblock of
//! the pool that loses least by giving one up.
//!
//! Idea. If pool k alone had FIFO victims and uniform deaths, its WAF A and its space alpha would obey
//! A = 1/(1-e^-x), alpha = x/(1-e^-x), where q = e^-x is the valid share of its victims. Hence
//! -dA/dalpha = q/(1 - q + q ln q). One superblock less for a pool with r_k of the deaths and f_k of the
//! valid pages costs in proportion to
//!     m_k = (r_k/f_k) q_k/(1 - q_k + q_k ln q_k),
//! and the total WAF is least when all m_k are equal. So GC takes its victim where m_k is lowest: an empty
//! superblock costs nothing, and hot pools get the room that plain greedy takes away from them. (MultiLog,
//! Stoica and Ailamaki, VLDB 2013, chooses among its logs by such a derivative, too.)
//!
//! q_k is that of the pool's emptiest superblock. Deaths are counted per pool with a half-life of as
//! many pages as the device has. A pool in which nothing dies keeps a small rate, so that its garbage is
//! collected in the end.
//!
//! Weakness: pools of survivors (internal streams) are treated as if they were fed by the host; and a
//! choice costs a look at each pool.

use super::{Greedy, Select, Superblocks, VictimInfo};

pub(super) const INFO: VictimInfo = VictimInfo {
    name: "pool-greedy",
    about: "the fewest valid pages in the pool (a stream or an internal stream) that loses least by giving one up",
    parameter: None,
    sizes_pools: true,
    heads: |pages, frontiers| u64::from(frontiers) * (u64::from(pages) + 1),
    make: |new| Box::new(PoolGreedy::new(new.table, new.frontiers)),
};

/// What is known of one pool.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pool {
    /// Deaths since the last choice.
    pub(crate) fresh_deaths: u64,
    /// Deaths, decayed.
    pub(crate) deaths: f64,
    /// Valid pages in candidates.
    pub(crate) valid_pages: u64,
}

/// A pool's least number of deaths: lets its garbage count.
const LEAST_DEATHS: f64 = 1e-3;

impl Pool {
    /// Takes the fresh deaths into the decayed number, `elapsed` pages after the last choice.
    pub(crate) fn decay(&mut self, elapsed: u64, half_life_pages: u64) {
        if elapsed > 0 {
            self.deaths *= (-(elapsed as f64) / half_life_pages as f64).exp2();
        }
        self.deaths += self.fresh_deaths as f64;
        self.fresh_deaths = 0;
    }

    /// m_k, up to a factor common to all pools, for an emptiest superblock with `valid` of `pages` valid.
    pub(crate) fn marginal_cost(&self, valid: u32, pages: u32) -> f64 {
        if valid == 0 {
            return 0.0;
        }
        let q = f64::from(valid) / f64::from(pages);
        if valid == pages {
            return f64::INFINITY;
        }
        (self.deaths + LEAST_DEATHS) / self.valid_pages as f64 * q / (1.0 - q + q * q.ln())
    }
}

pub(crate) struct PoolGreedy {
    lists: Vec<Greedy>,
    pools: Vec<Pool>,
    /// Pool of each superblock, if it is a candidate.
    pool_of: Vec<u16>,
    half_life_pages: u64,
    last_choice: u64,
}

impl PoolGreedy {
    pub(crate) fn new(table: &mut Superblocks, frontiers: u32) -> Self {
        PoolGreedy {
            lists: (0..frontiers).map(|_| Greedy::new(table)).collect(),
            pools: vec![Pool::default(); frontiers as usize],
            pool_of: vec![0; table.len() as usize + 1],
            half_life_pages: u64::from(table.len()) * u64::from(table.pages()),
            last_choice: 0,
        }
    }
}

impl Select for PoolGreedy {
    fn closed(&mut self, table: &mut Superblocks, superblock: u32, frontier: u16, now: u64) {
        self.pool_of[superblock as usize] = frontier;
        self.pools[usize::from(frontier)].valid_pages += u64::from(table.valid(superblock));
        self.lists[usize::from(frontier)].closed(table, superblock, frontier, now);
    }

    fn invalidated(&mut self, table: &mut Superblocks, superblock: u32, valid: u32, lost: u32) {
        let pool = usize::from(self.pool_of[superblock as usize]);
        self.pools[pool].valid_pages -= u64::from(lost);
        self.pools[pool].fresh_deaths += u64::from(lost);
        self.lists[pool].invalidated(table, superblock, valid, lost);
    }

    fn choose(&mut self, table: &Superblocks, now: u64) -> u32 {
        let elapsed = now - self.last_choice;
        self.last_choice = now;
        let (mut best, mut least) = (0, f64::INFINITY);
        for (pool, lists) in self.pools.iter_mut().zip(&mut self.lists) {
            pool.decay(elapsed, self.half_life_pages);
            let emptiest = lists.choose(table, now);
            if emptiest == 0 {
                continue;
            }
            let cost = pool.marginal_cost(table.valid(emptiest), table.pages());
            if best == 0 || cost < least {
                (best, least) = (emptiest, cost);
            }
        }
        best
    }

    fn removed(&mut self, table: &mut Superblocks, superblock: u32) {
        let pool = usize::from(self.pool_of[superblock as usize]);
        self.pools[pool].valid_pages -= u64::from(table.valid(superblock));
        self.lists[pool].removed(table, superblock);
    }
}
