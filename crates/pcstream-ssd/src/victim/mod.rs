//! Victim selection: which closed superblock GC empties next. Selection is global over all streams.
//!
//! One file per policy. A policy keeps whatever order it needs over the closed superblocks and
//! returns a choice; moving pages and counting them happens in `ftl`. To add one: write its file with
//! the four functions of `Select`, add a variant to `VictimPolicy` and to `Selector`, a line to
//! `VictimPolicy::KNOWN`, and the slow version to `reference`; the tests run over every known policy.

mod greedy;
pub(crate) mod superblocks;

use std::fmt;
use std::str::FromStr;

use crate::settings::UnknownName;
pub(crate) use greedy::Greedy;
pub(crate) use superblocks::Superblocks;

/// A rule that chooses victims.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum VictimPolicy {
    /// The fewest valid pages; among equals, the superblock that has had that number for longest.
    #[default]
    Greedy,
}

impl VictimPolicy {
    /// Every policy with its default parameters, by name: the registry.
    pub const KNOWN: &'static [(&'static str, VictimPolicy)] = &[("greedy", VictimPolicy::Greedy)];

    /// The names of all policies, for help and error messages.
    pub fn names() -> Vec<&'static str> {
        Self::KNOWN.iter().map(|&(name, _)| name).collect()
    }

    /// The name used on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            VictimPolicy::Greedy => "greedy",
        }
    }
}

impl fmt::Display for VictimPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for VictimPolicy {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let known = Self::KNOWN.iter().find(|(name, _)| *name == text);
        known.map(|&(_, policy)| policy).ok_or_else(|| UnknownName {
            what: "victim policy",
            found: text.to_owned(),
            expected: Self::names().join(", "),
        })
    }
}

/// What every policy does. Superblocks are numbered from 1 here; 0 is "none".
pub(crate) trait Select {
    /// `superblock` was filled and is now a candidate. `now` is logical time in pages.
    fn closed(&mut self, table: &mut Superblocks, superblock: u32, now: u64);

    /// A candidate lost pages; `valid` is what it has left.
    fn invalidated(&mut self, table: &mut Superblocks, superblock: u32, valid: u32);

    /// The candidate to empty next; 0 if there is none. It stays a candidate until `removed`.
    fn choose(&mut self, table: &Superblocks, now: u64) -> u32;

    /// `superblock` is about to be emptied and is no candidate any more.
    fn removed(&mut self, table: &mut Superblocks, superblock: u32);
}

/// The policy in use. A match on a value that never changes is predicted; it does not cost a call.
pub(crate) enum Selector {
    Greedy(Greedy),
}

impl Selector {
    /// Makes the state of `policy` and whatever it needs in `table`.
    pub(crate) fn new(policy: VictimPolicy, table: &mut Superblocks, seed: u64) -> Selector {
        let _ = seed;
        match policy {
            VictimPolicy::Greedy => Selector::Greedy(Greedy::new(table)),
        }
    }
}

impl Select for Selector {
    #[inline(always)]
    fn closed(&mut self, table: &mut Superblocks, superblock: u32, now: u64) {
        match self {
            Selector::Greedy(policy) => policy.closed(table, superblock, now),
        }
    }

    #[inline(always)]
    fn invalidated(&mut self, table: &mut Superblocks, superblock: u32, valid: u32) {
        match self {
            Selector::Greedy(policy) => policy.invalidated(table, superblock, valid),
        }
    }

    #[inline(always)]
    fn choose(&mut self, table: &Superblocks, now: u64) -> u32 {
        match self {
            Selector::Greedy(policy) => policy.choose(table, now),
        }
    }

    #[inline(always)]
    fn removed(&mut self, table: &mut Superblocks, superblock: u32) {
        match self {
            Selector::Greedy(policy) => policy.removed(table, superblock),
        }
    }
}
