//! Victim selection: which closed superblock GC empties next. Selection is global over all streams, unless
//! pools have given sizes (`pools`).
//!
//! One file per policy. A policy keeps whatever order it needs over the closed superblocks
//! ("candidates") and returns a choice; moving pages and counting them happens in `ftl`. Names, help,
//! error messages and tests follow from `REGISTRY`. docs/extending.md says how to add one.
//!
//! Ages are logical time (pages written by the host) since a superblock was closed. u is the share of
//! valid pages.

mod closing_order;
mod cost_benefit;
mod d_choices;
mod fifo;
mod greedy;
mod greedy_wear;
mod own;
mod policy;
mod pool_greedy;
mod pools;
pub(crate) mod superblocks;
mod windowed_greedy;

use std::ops::RangeInclusive;

use greedy::Greedy;
pub use own::OwnVictims;
pub use policy::VictimPolicy;
pub(crate) use pools::Pools;
pub use superblocks::Superblocks;
#[cfg(any(test, feature = "reference"))]
pub(crate) use {
    cost_benefit::{Candidate, cost_age_times, kawaguchi, lfs, score, sqrt},
    d_choices::Draws,
    greedy_wear::TIE_BREAK_SUPERBLOCKS,
    pool_greedy::Pool,
    pools::{furthest_above, targets},
    windowed_greedy::window,
};

/// What every policy does. Superblocks are numbered from 1 here; 0 is "none".
///
/// A policy of one's own is given to devices, such as those of a replay's lanes, as [`OwnVictims`]:
/// `examples/custom_victim.rs`. A device that is given something else than a candidate panics.
pub trait Select {
    /// `superblock` was filled and is now a candidate. `frontier` says who filled it: 0 is S0, then come the other
    /// streams, then where GC copies to. `now` is logical time in pages.
    fn closed(&mut self, table: &mut Superblocks, superblock: u32, frontier: u16, now: u64);

    /// A candidate lost `lost` pages; `valid` is what it has left. Only for policies that keep their candidates in an
    /// order by valid pages: `table` always knows how many a superblock has.
    fn invalidated(&mut self, table: &mut Superblocks, superblock: u32, valid: u32, lost: u32) {
        _ = (table, superblock, valid, lost);
    }

    /// The candidate to empty next; 0 if there is none. It stays a candidate until `removed`.
    fn choose(&mut self, table: &Superblocks, now: u64) -> u32;

    /// `superblock` is about to be emptied and is no candidate any more.
    fn removed(&mut self, table: &mut Superblocks, superblock: u32);
}

/// What a policy is made with.
struct New<'a> {
    /// It may add list heads.
    table: &'a mut Superblocks,
    /// That of the policy; 0 if it has none.
    parameter: u32,
    /// How many there are: superblocks that are open at once.
    frontiers: u32,
    seed: u64,
}

/// What is known of a policy.
#[derive(Debug)]
pub struct VictimInfo {
    /// The name that users give it. No other policy has it.
    pub name: &'static str,
    /// Which superblock it chooses, for help.
    pub about: &'static str,
    /// A number that users may give it as `NAME:NUMBER`.
    pub parameter: Option<VictimParameter>,
    /// Whether it sizes the pools of streams by itself: sizes given for them are refused.
    pub sizes_pools: bool,
    /// List heads that it adds to the table, for superblocks of so many pages and for so many frontiers.
    heads: fn(u32, u32) -> u64,
    /// Makes its state, and whatever it needs in the table.
    make: fn(New) -> Box<dyn Select + Send>,
}

/// The parameter of a policy.
#[derive(Debug)]
pub struct VictimParameter {
    /// What help calls it, such as `D`.
    pub name: &'static str,
    /// What it counts.
    pub unit: &'static str,
    /// Without one given.
    pub default: u32,
    /// What may be given.
    pub range: RangeInclusive<u32>,
}

/// The registry: all policies, in the order in which users see them.
const REGISTRY: &[VictimInfo] = &[
    greedy::INFO,
    greedy_wear::INFO,
    fifo::INFO,
    d_choices::RANDOM,
    d_choices::INFO,
    windowed_greedy::INFO,
    cost_benefit::LFS,
    cost_benefit::KAWAGUCHI,
    cost_benefit::SQRT,
    cost_benefit::COST_AGE_TIMES,
    pool_greedy::INFO,
];
