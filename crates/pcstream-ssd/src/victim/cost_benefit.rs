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
use super::{New, Select, Superblocks, VictimPolicy};

/// How much `policy` wants a superblock with `valid` of `pages` pages valid.
#[inline(always)]
pub(crate) fn score(policy: VictimPolicy, valid: u32, pages: u32, age_pages: u64, erases: u32) -> f64 {
    if valid == 0 {
        return f64::INFINITY;
    }
    let (valid, pages, age) = (f64::from(valid), f64::from(pages), age_pages as f64);
    let garbage = pages - valid;
    match policy {
        VictimPolicy::CostBenefitLfs => garbage * age / (pages + valid),
        VictimPolicy::CostBenefitKawaguchi => garbage * age / (2.0 * valid),
        VictimPolicy::CostBenefitSqrt => garbage / valid * age.sqrt(),
        VictimPolicy::CostAgeTimes => garbage / valid * age / (f64::from(erases) + 1.0),
        _ => unreachable!("{policy} has no score"),
    }
}

pub(crate) struct CostBenefit {
    order: ClosingOrder,
    policy: VictimPolicy,
}

/// For each of the four policies.
pub(super) fn make(new: New) -> Box<dyn Select + Send> {
    Box::new(CostBenefit { order: ClosingOrder::new(new.table), policy: new.policy })
}

impl Select for CostBenefit {
    fn closed(&mut self, _table: &mut Superblocks, superblock: u32, _pool: u16, now: u64) {
        self.order.push(superblock, now);
    }

    fn invalidated(&mut self, _table: &mut Superblocks, _superblock: u32, _valid: u32, _lost: u32) {}

    fn choose(&mut self, table: &Superblocks, now: u64) -> u32 {
        let (mut best, mut highest) = (0, -1.0);
        for entry in self.order.iter() {
            let (valid, erases) = (table.valid(entry.superblock), table.erases(entry.superblock));
            let score = score(self.policy, valid, table.pages(), now - entry.at, erases);
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
