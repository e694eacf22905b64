//! The policies that weigh free space against age: the three formulas that are called cost-benefit, and
//! cost-age-times. The highest score wins; among equals, the oldest. Age is logical time since closing.
//!
//! - `cb-lfs`: (1-u) age / (1+u). Reading a segment costs 1, writing back u (Rosenblum and Ousterhout 1992;
//!   there age is that of the youngest block).
//! - `cb-kaw`: (1-u) age / (2u). Flash reads only valid pages (Kawaguchi 1995, FEMU).
//! - `cb-sqrt`: (1-u)/u sqrt(age), as SepBIT's simulator has it.
//! - `cost-age-times`: (1-u)/u age/(erases+1), the inverse of Chiang's cost; erases count from 1 so that a
//!   new superblock has a cost at all.
//!
//! An empty superblock has an infinite score; a full one 0, so it is never chosen while another has
//! garbage and an age.
//!
//! Known weakness: a choice looks at every candidate, so its cost grows with the device.

use super::closing_order::ClosingOrder;
use super::{New, Select, Superblocks, VictimInfo};

pub(super) const LFS: VictimInfo = VictimInfo {
    name: "cb-lfs",
    about: "the highest (1-u) age / (1+u), u: share of valid pages (Rosenblum and Ousterhout 1992)",
    parameter: None,
    sizes_pools: false,
    heads: |_, _| 0,
    make: |new| make(new, lfs),
};

pub(super) const KAWAGUCHI: VictimInfo = VictimInfo {
    name: "cb-kaw",
    about: "the highest (1-u) age / (2u) (Kawaguchi et al., USENIX 1995; FEMU)",
    parameter: None,
    sizes_pools: false,
    heads: |_, _| 0,
    make: |new| make(new, kawaguchi),
};

pub(super) const SQRT: VictimInfo = VictimInfo {
    name: "cb-sqrt",
    about: "the highest (1-u)/u sqrt(age): what SepBIT's simulator calls cost-benefit",
    parameter: None,
    sizes_pools: false,
    heads: |_, _| 0,
    make: |new| make(new, sqrt),
};

pub(super) const COST_AGE_TIMES: VictimInfo = VictimInfo {
    name: "cost-age-times",
    about: "the lowest u/(1-u) (erases+1)/age (Chiang)",
    parameter: None,
    sizes_pools: false,
    heads: |_, _| 0,
    make: |new| make(new, cost_age_times),
};

/// What a score is made of.
#[derive(Clone, Copy)]
pub(crate) struct Candidate {
    /// Valid pages, at least 1.
    pub(super) valid: f64,
    /// Pages that are not valid.
    pub(super) garbage: f64,
    /// Logical time since closing, in pages.
    pub(super) age: f64,
    /// Erases so far.
    pub(super) erases: f64,
}

#[inline(always)]
pub(crate) fn lfs(Candidate { valid, garbage, age, .. }: Candidate) -> f64 {
    let pages = garbage + valid;
    garbage * age / (pages + valid)
}

#[inline(always)]
pub(crate) fn kawaguchi(Candidate { valid, garbage, age, .. }: Candidate) -> f64 {
    garbage * age / (2.0 * valid)
}

#[inline(always)]
pub(crate) fn sqrt(Candidate { valid, garbage, age, .. }: Candidate) -> f64 {
    garbage / valid * age.sqrt()
}

#[inline(always)]
pub(crate) fn cost_age_times(Candidate { valid, garbage, age, erases }: Candidate) -> f64 {
    garbage / valid * age / (erases + 1.0)
}

/// How much the policy of `formula` wants a superblock with `valid` of `pages` pages valid.
#[inline(always)]
pub(crate) fn score(
    formula: impl Fn(Candidate) -> f64,
    valid: u32,
    pages: u32,
    age_pages: u64,
    erases: u32,
) -> f64 {
    if valid == 0 {
        return f64::INFINITY;
    }
    let (erases, age) = (f64::from(erases), age_pages as f64);
    let (valid, garbage) = (f64::from(valid), f64::from(pages - valid));
    formula(Candidate { valid, garbage, age, erases })
}

/// The formula is a type, so that each policy has a loop of its own over the candidates.
pub(super) struct CostBenefit<F> {
    order: ClosingOrder,
    formula: F,
}

/// The policy of a formula.
pub(super) fn make<F>(new: New, formula: F) -> Box<dyn Select + Send>
where
    F: Fn(Candidate) -> f64 + Send + 'static,
{
    Box::new(CostBenefit { order: ClosingOrder::new(new.table), formula })
}

impl<F: Fn(Candidate) -> f64> Select for CostBenefit<F> {
    fn closed(&mut self, _table: &mut Superblocks, superblock: u32, _frontier: u16, now: u64) {
        self.order.push(superblock, now);
    }

    fn choose(&mut self, table: &Superblocks, now: u64) -> u32 {
        let (mut best, mut highest) = (0, -1.0);
        for entry in self.order.iter() {
            let (valid, erases) = (table.valid(entry.superblock), table.erases(entry.superblock));
            let score = score(&self.formula, valid, table.pages(), now - entry.at, erases);
            if score > highest {
                (best, highest) = (entry.superblock, score);
            }
        }
        best
    }

    fn removed(&mut self, _table: &mut Superblocks, superblock: u32) {
        self.order.remove(superblock);
    }
}
