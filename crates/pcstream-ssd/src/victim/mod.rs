//! Victim selection: which closed superblock GC empties next. Selection is global over all streams, unless
//! pools have given sizes (`pools`).
//!
//! One file per policy. A policy keeps whatever order it needs over the closed superblocks
//! ("candidates") and returns a choice; moving pages and counting them happens in `ftl`. To add one:
//! write its file with the four functions of `Select`, add it to `VictimPolicy` and its `KNOWN` list,
//! to `Selector`, and, in its slow form, to `reference`. The tests run over every known policy.
//!
//! Ages are logical time (pages written by the host) since a superblock was closed. u is the share of
//! valid pages.

mod closing_order;
mod cost_benefit;
mod d_choices;
mod fifo;
mod greedy;
mod greedy_wear;
mod pool_greedy;
mod pools;
pub(crate) mod superblocks;
mod windowed_greedy;

use std::fmt;
use std::str::FromStr;

use crate::names::UnknownName;
use cost_benefit::CostBenefit;
use d_choices::DChoices;
use fifo::Fifo;
use greedy::Greedy;
use greedy_wear::GreedyWear;
use pool_greedy::PoolGreedy;
pub(crate) use pools::Pools;
pub use superblocks::Superblocks;
use windowed_greedy::WindowedGreedy;
#[cfg(any(test, feature = "reference"))]
pub(crate) use {
    cost_benefit::score,
    d_choices::Draws,
    greedy_wear::TIE_BREAK_SUPERBLOCKS,
    pool_greedy::Pool,
    pools::{furthest_above, targets},
    windowed_greedy::window,
};

/// A rule that chooses victims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "String", into = "String"))]
pub enum VictimPolicy {
    /// The fewest valid pages; among equals, the superblock that has had that number for longest.
    #[default]
    Greedy,
    /// As greedy, but among equals the fewest erases.
    GreedyWear,
    /// The oldest superblock.
    Fifo,
    /// Any superblock, evenly.
    Random,
    /// The fewest valid pages among `d` random superblocks (MQSim: RGA; FEMU: d = 4).
    DChoices {
        /// Superblocks drawn, with replacement.
        d: u32,
    },
    /// The fewest valid pages among the oldest superblocks (Hu et al., SYSTOR 2009; SepBIT's default window is 90 %).
    WindowedGreedy {
        /// Share of the closed superblocks that is considered.
        percent: u32,
    },
    /// The highest (1-u) age / (1+u): Rosenblum and Ousterhout's log-structured file system.
    CostBenefitLfs,
    /// The highest (1-u) age / (2u): Kawaguchi et al., USENIX 1995; FEMU.
    CostBenefitKawaguchi,
    /// The highest (1-u)/u sqrt(age): what SepBIT's simulator calls cost-benefit.
    CostBenefitSqrt,
    /// The lowest u/(1-u) erases/age: Chiang's cost-age-times.
    CostAgeTimes,
    /// Greedy in the pool (superblocks filled by one stream or internal stream) that loses least by
    /// giving one up: pools of streams find their best sizes by themselves.
    PoolGreedy,
}

impl VictimPolicy {
    /// Every policy with its default parameter: the registry.
    pub const KNOWN: &'static [VictimPolicy] = &[
        VictimPolicy::Greedy,
        VictimPolicy::GreedyWear,
        VictimPolicy::Fifo,
        VictimPolicy::Random,
        VictimPolicy::DChoices { d: 10 },
        VictimPolicy::WindowedGreedy { percent: 90 },
        VictimPolicy::CostBenefitLfs,
        VictimPolicy::CostBenefitKawaguchi,
        VictimPolicy::CostBenefitSqrt,
        VictimPolicy::CostAgeTimes,
        VictimPolicy::PoolGreedy,
    ];

    /// The names of all policies, for help and error messages.
    pub fn names() -> Vec<&'static str> {
        Self::KNOWN.iter().map(|policy| policy.name()).collect()
    }

    /// The name without the parameter.
    pub fn name(self) -> &'static str {
        match self {
            VictimPolicy::Greedy => "greedy",
            VictimPolicy::GreedyWear => "greedy-wear",
            VictimPolicy::Fifo => "fifo",
            VictimPolicy::Random => "random",
            VictimPolicy::DChoices { .. } => "d-choices",
            VictimPolicy::WindowedGreedy { .. } => "windowed-greedy",
            VictimPolicy::CostBenefitLfs => "cb-lfs",
            VictimPolicy::CostBenefitKawaguchi => "cb-kaw",
            VictimPolicy::CostBenefitSqrt => "cb-sqrt",
            VictimPolicy::CostAgeTimes => "cost-age-times",
            VictimPolicy::PoolGreedy => "pool-greedy",
        }
    }

    /// The same policy with another parameter; `None` if it has none or the value is out of range.
    fn with_parameter(self, value: u32) -> Option<VictimPolicy> {
        match self {
            VictimPolicy::DChoices { .. } if (1..=1000).contains(&value) => {
                Some(VictimPolicy::DChoices { d: value })
            }
            VictimPolicy::WindowedGreedy { .. } if (1..=100).contains(&value) => {
                Some(VictimPolicy::WindowedGreedy { percent: value })
            }
            _ => None,
        }
    }
}

impl fmt::Display for VictimPolicy {
    /// The name as `FromStr` reads it: `greedy`, `d-choices:10`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            VictimPolicy::DChoices { d } => write!(f, ":{d}"),
            VictimPolicy::WindowedGreedy { percent } => write!(f, ":{percent}"),
            _ => Ok(()),
        }
    }
}

impl FromStr for VictimPolicy {
    type Err = UnknownName;

    /// `NAME` or `NAME:PARAMETER`.
    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let (name, parameter) = match text.split_once(':') {
            Some((name, parameter)) => (name, Some(parameter)),
            None => (text, None),
        };
        let known = Self::KNOWN.iter().copied().find(|policy| policy.name() == name);
        let found = match parameter {
            None => known,
            Some(value) => {
                known.zip(value.parse().ok()).and_then(|(policy, value)| policy.with_parameter(value))
            }
        };
        found.ok_or_else(|| UnknownName {
            what: "victim policy",
            found: text.to_owned(),
            expected: format!(
                "{} (d-choices:D with D from 1 to 1000, windowed-greedy:PERCENT)",
                Self::names().join(", ")
            ),
        })
    }
}

#[cfg(feature = "serde")]
impl TryFrom<String> for VictimPolicy {
    type Error = UnknownName;

    fn try_from(text: String) -> Result<Self, UnknownName> {
        text.parse()
    }
}

#[cfg(feature = "serde")]
impl From<VictimPolicy> for String {
    fn from(policy: VictimPolicy) -> String {
        policy.to_string()
    }
}

/// What every policy does. Superblocks are numbered from 1 here; 0 is "none".
///
/// A policy of one's own is given to [`Ssd::with_victims`](crate::Ssd::with_victims):
/// `examples/custom_victim.rs`. A device that is given something else than a candidate panics.
pub trait Select {
    /// `superblock` was filled and is now a candidate. `pool` is the frontier that filled it, `now` is
    /// logical time in pages.
    fn closed(&mut self, table: &mut Superblocks, superblock: u32, pool: u16, now: u64);

    /// A candidate lost `lost` pages; `valid` is what it has left.
    fn invalidated(&mut self, table: &mut Superblocks, superblock: u32, valid: u32, lost: u32);

    /// The candidate to empty next; 0 if there is none. It stays a candidate until `removed`.
    fn choose(&mut self, table: &Superblocks, now: u64) -> u32;

    /// `superblock` is about to be emptied and is no candidate any more.
    fn removed(&mut self, table: &mut Superblocks, superblock: u32);
}

/// The policy in use. A match on a value that never changes is predicted; it does not cost a call.
pub(crate) enum Selector {
    Greedy(Greedy),
    GreedyWear(GreedyWear),
    Fifo(Fifo),
    DChoices(DChoices),
    WindowedGreedy(WindowedGreedy),
    CostBenefit(CostBenefit),
    PoolGreedy(PoolGreedy),
    /// One of the others in each pool.
    Pools(Pools),
    /// One that is not of this crate.
    Custom(Box<dyn Select + Send>),
}

impl Selector {
    /// Makes the state of `policy`, and whatever it needs in `table`. `pools` is the number of frontiers.
    pub(crate) fn new(policy: VictimPolicy, table: &mut Superblocks, pools: u32, seed: u64) -> Selector {
        match policy {
            VictimPolicy::Greedy => Selector::Greedy(Greedy::new(table)),
            VictimPolicy::GreedyWear => Selector::GreedyWear(GreedyWear::new(table)),
            VictimPolicy::Fifo => Selector::Fifo(Fifo::new(table)),
            VictimPolicy::Random => Selector::DChoices(DChoices::new(table, 1, seed)),
            VictimPolicy::DChoices { d } => Selector::DChoices(DChoices::new(table, d, seed)),
            VictimPolicy::WindowedGreedy { percent } => {
                Selector::WindowedGreedy(WindowedGreedy::new(table, percent))
            }
            VictimPolicy::CostBenefitLfs
            | VictimPolicy::CostBenefitKawaguchi
            | VictimPolicy::CostBenefitSqrt
            | VictimPolicy::CostAgeTimes => Selector::CostBenefit(CostBenefit::new(table, policy)),
            VictimPolicy::PoolGreedy => Selector::PoolGreedy(PoolGreedy::new(table, pools)),
        }
    }
}

/// Calls the same function of whichever policy is in use.
macro_rules! dispatch {
    ($self:ident, $policy:ident => $call:expr) => {
        match $self {
            Selector::Greedy($policy) => $call,
            Selector::GreedyWear($policy) => $call,
            Selector::Fifo($policy) => $call,
            Selector::DChoices($policy) => $call,
            Selector::WindowedGreedy($policy) => $call,
            Selector::CostBenefit($policy) => $call,
            Selector::PoolGreedy($policy) => $call,
            Selector::Pools($policy) => $call,
            Selector::Custom($policy) => $call,
        }
    };
}

impl Select for Selector {
    #[inline(always)]
    fn closed(&mut self, table: &mut Superblocks, superblock: u32, pool: u16, now: u64) {
        dispatch!(self, policy => policy.closed(table, superblock, pool, now));
    }

    #[inline(always)]
    fn invalidated(&mut self, table: &mut Superblocks, superblock: u32, valid: u32, lost: u32) {
        dispatch!(self, policy => policy.invalidated(table, superblock, valid, lost));
    }

    #[inline(always)]
    fn choose(&mut self, table: &Superblocks, now: u64) -> u32 {
        dispatch!(self, policy => policy.choose(table, now))
    }

    #[inline(always)]
    fn removed(&mut self, table: &mut Superblocks, superblock: u32) {
        dispatch!(self, policy => policy.removed(table, superblock));
    }
}

#[cfg(test)]
mod tests {
    use super::VictimPolicy;

    #[test]
    fn every_policy_is_found_by_what_it_prints() {
        for &policy in VictimPolicy::KNOWN {
            assert_eq!(policy.to_string().parse(), Ok(policy));
            assert_eq!(policy.name().parse(), Ok(policy));
        }
        assert_eq!("d-choices:3".parse(), Ok(VictimPolicy::DChoices { d: 3 }));
        for wrong in ["gredy", "greedy:1", "d-choices:0", "d-choices:x", "windowed-greedy:101", ""] {
            let error = wrong.parse::<VictimPolicy>().unwrap_err().to_string();
            assert!(error.contains("greedy, greedy-wear, fifo") && error.contains(wrong), "{error}");
        }
    }
}
