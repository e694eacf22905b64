//! d choices: the emptiest of d candidates drawn at random with replacement; among equals, the one
//! drawn first. With d = 1 this is the random policy (one draw per victim).
//!
//! Candidates lie in an array without gaps: a closed superblock is appended, and the last one takes the
//! place of one that is removed.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::{Select, Superblocks, VictimInfo, VictimParameter};

pub(super) const INFO: VictimInfo = VictimInfo {
    name: "d-choices",
    about: "the fewest valid pages among D random superblocks (MQSim: RGA; FEMU: D = 4)",
    parameter: Some(VictimParameter { name: "D", unit: "superblocks", default: 10, range: 1..=1000 }),
    sizes_pools: false,
    heads: |_, _| 0,
    make: |new| Box::new(DChoices::new(new.table, new.parameter, new.seed)),
};

pub(super) const RANDOM: VictimInfo = VictimInfo {
    name: "random",
    about: "any superblock, evenly",
    parameter: None,
    sizes_pools: false,
    heads: |_, _| 0,
    make: |new| Box::new(DChoices::new(new.table, 1, new.seed)),
};

/// Random indices from a seed. The reference draws the same ones.
pub(crate) struct Draws(Xoshiro256PlusPlus);

impl Draws {
    pub(crate) fn new(seed: u64) -> Self {
        Draws(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// A number below `count`. Uneven by less than count / 2^64.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        ((u128::from(self.0.next_u64()) * count as u128) >> 64) as usize
    }
}

pub(crate) struct DChoices {
    candidates: Vec<u32>,
    /// Index of each superblock in `candidates`, if it is one.
    positions: Vec<u32>,
    d: u32,
    draws: Draws,
}

impl DChoices {
    pub(crate) fn new(table: &Superblocks, d: u32, seed: u64) -> Self {
        let positions = vec![0; table.len() as usize + 1];
        DChoices {
            candidates: Vec::with_capacity(table.len() as usize),
            positions,
            d,
            draws: Draws::new(seed),
        }
    }
}

impl Select for DChoices {
    fn closed(&mut self, _table: &mut Superblocks, superblock: u32, _frontier: u16, _now: u64) {
        self.positions[superblock as usize] = self.candidates.len() as u32;
        self.candidates.push(superblock);
    }

    fn choose(&mut self, table: &Superblocks, _now: u64) -> u32 {
        if self.candidates.is_empty() {
            return 0;
        }
        let drawn = (0..self.d).map(|_| self.candidates[self.draws.below(self.candidates.len())]);
        drawn.min_by_key(|&superblock| table.valid(superblock)).unwrap_or(0)
    }

    fn removed(&mut self, _table: &mut Superblocks, superblock: u32) {
        let at = self.positions[superblock as usize] as usize;
        self.candidates.swap_remove(at);
        if let Some(&moved) = self.candidates.get(at) {
            self.positions[moved as usize] = at as u32;
        }
    }
}
