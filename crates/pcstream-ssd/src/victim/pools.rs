//! Pools of given sizes: the superblocks that one frontier filled (a stream, an internal stream, the
//! shared GC destination) are a pool, and each pool has a target size. The victim comes from the pool that
//! is furthest above its target; within a pool, another policy chooses.
//!
//! Units: sizes in closed superblocks. Targets share out the superblocks that are closed when GC must
//! choose (N - F: see `geometry`), so all of them can be reached at once.
//!
//! Targets are soft. A pool that holds more valid pages than its target has room for stays above it, and
//! the others shrink: no distribution of data gets stuck. With FIFO in each pool this is the device of the
//! closed forms for separated classes and for host and GC pools (`analytic`).
//!
//! Weakness: a pool above its target is collected even when its victims are full and another pool has
//! empty ones; sizes that do not fit the traffic cost more than none. `ftl::least_gain` bounds that.

use super::{Select, Superblocks, VictimPolicy};

pub(crate) struct Pools {
    /// The policy of each pool.
    selectors: Vec<Box<dyn Select + Send>>,
    /// Target sizes.
    targets: Vec<f64>,
    /// Candidates of each pool.
    sizes: Vec<u32>,
    /// Pool of each superblock, if it is a candidate.
    pool_of: Vec<u16>,
}

/// Target sizes of pools of these relative sizes that share out `closed` superblocks.
pub(crate) fn targets(weights: &[f64], closed: u32) -> Vec<f64> {
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / sum * f64::from(closed)).collect()
}

/// The pool furthest above its target among those that have candidates; the first among equals.
pub(crate) fn furthest_above(sizes: &[u32], targets: &[f64]) -> Option<usize> {
    let mut best: Option<(usize, f64)> = None;
    for (pool, (&size, target)) in sizes.iter().zip(targets).enumerate().filter(|(_, (s, _))| **s > 0) {
        let above = f64::from(size) - target;
        if best.is_none_or(|(_, most)| above > most) {
            best = Some((pool, above));
        }
    }
    best.map(|(pool, _)| pool)
}

impl Pools {
    /// One pool per weight; `closed` is N - F.
    pub(crate) fn new(
        policy: VictimPolicy,
        table: &mut Superblocks,
        weights: &[f64],
        closed: u32,
        seed: u64,
    ) -> Pools {
        let selector = |pool: usize, table: &mut Superblocks| {
            policy.make(table, weights.len() as u32, seed.wrapping_add(pool as u64))
        };
        Pools {
            selectors: (0..weights.len()).map(|pool| selector(pool, table)).collect(),
            targets: targets(weights, closed),
            sizes: vec![0; weights.len()],
            pool_of: vec![0; table.len() as usize + 1],
        }
    }
}

impl Select for Pools {
    fn closed(&mut self, table: &mut Superblocks, superblock: u32, frontier: u16, now: u64) {
        self.pool_of[superblock as usize] = frontier;
        self.sizes[usize::from(frontier)] += 1;
        self.selectors[usize::from(frontier)].closed(table, superblock, frontier, now);
    }

    fn invalidated(&mut self, table: &mut Superblocks, superblock: u32, valid: u32, lost: u32) {
        let pool = usize::from(self.pool_of[superblock as usize]);
        self.selectors[pool].invalidated(table, superblock, valid, lost);
    }

    fn choose(&mut self, table: &Superblocks, now: u64) -> u32 {
        furthest_above(&self.sizes, &self.targets).map_or(0, |pool| self.selectors[pool].choose(table, now))
    }

    fn removed(&mut self, table: &mut Superblocks, superblock: u32) {
        let pool = usize::from(self.pool_of[superblock as usize]);
        self.sizes[pool] -= 1;
        self.selectors[pool].removed(table, superblock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_share_out_what_is_closed() {
        assert_eq!(targets(&[1.0, 3.0], 100), [25.0, 75.0]);
    }

    #[test]
    fn the_pool_furthest_above_its_target_gives_the_victim() {
        let targets = [10.0, 20.0, 5.0];
        assert_eq!(furthest_above(&[11, 22, 5], &targets), Some(1));
        assert_eq!(furthest_above(&[11, 21, 6], &targets), Some(0), "the first among equals");
        assert_eq!(furthest_above(&[0, 3, 0], &targets), Some(1), "only pools with candidates");
        assert_eq!(furthest_above(&[0, 0, 0], &targets), None);
    }
}
