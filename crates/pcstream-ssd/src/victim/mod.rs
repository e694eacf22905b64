//! Victim selection: which closed superblock GC empties next. Selection is global over all streams, unless
//! pools have given sizes (`pools`).
//!
//! One file per policy. A policy keeps whatever order it needs over the closed superblocks
//! ("candidates") and returns a choice; moving pages and counting them happens in `ftl`. To add one:
//! write its file with the four functions of `Select`, name it in `VictimPolicy`, and give it an entry in
//! `REGISTRY`. The compiler then asks for its slow form in `reference`; the tests run over every entry.
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
mod pool_greedy;
mod pools;
pub(crate) mod superblocks;
mod windowed_greedy;

use std::fmt;
use std::mem::discriminant;
use std::str::FromStr;

use crate::names::UnknownName;
use greedy::Greedy;
pub use own::OwnVictims;
pub(crate) use pools::Pools;
pub use superblocks::Superblocks;
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
    /// Every policy with its default parameter.
    pub const KNOWN: &'static [VictimPolicy] = &{
        let mut known = [VictimPolicy::Greedy; REGISTRY.len()];
        let mut i = 0;
        while i < known.len() {
            known[i] = REGISTRY[i].0;
            i += 1;
        }
        known
    };

    /// The names of all policies, for help and error messages.
    pub fn names() -> Vec<&'static str> {
        REGISTRY.iter().map(|&(_, name, _)| name).collect()
    }

    /// The name without the parameter.
    pub fn name(self) -> &'static str {
        self.entry().1
    }

    /// Its entry in the registry. A policy that has none panics.
    fn entry(self) -> &'static Entry {
        let entry = REGISTRY.iter().find(|(policy, ..)| discriminant(policy) == discriminant(&self));
        entry.expect("every policy is in the registry")
    }

    /// Its parameter, if it has one.
    fn parameter(self) -> Option<u32> {
        match self {
            VictimPolicy::DChoices { d } => Some(d),
            VictimPolicy::WindowedGreedy { percent } => Some(percent),
            _ => None,
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
        self.parameter().map_or(Ok(()), |value| write!(f, ":{value}"))
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
/// `examples/custom_victim.rs`. As [`OwnVictims`] it is given to many devices, such as those of a replay's lanes. A
/// device that is given something else than a candidate panics.
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

/// What a policy is made with.
struct New<'a> {
    /// It may add list heads.
    table: &'a mut Superblocks,
    policy: VictimPolicy,
    /// That of the policy; 0 if it has none.
    parameter: u32,
    /// The number of frontiers.
    pools: u32,
    seed: u64,
}

/// A policy with its default parameter, its name without, and what makes its state.
type Entry = (VictimPolicy, &'static str, fn(New) -> Box<dyn Select + Send>);

/// The registry: all policies, in the order in which users see them.
const REGISTRY: &[Entry] = &[
    (VictimPolicy::Greedy, "greedy", |new| Box::new(Greedy::new(new.table))),
    (VictimPolicy::GreedyWear, "greedy-wear", |new| Box::new(greedy_wear::GreedyWear::new(new.table))),
    (VictimPolicy::Fifo, "fifo", |new| Box::new(fifo::Fifo::new(new.table))),
    (VictimPolicy::Random, "random", |new| Box::new(d_choices::DChoices::new(new.table, 1, new.seed))),
    (VictimPolicy::DChoices { d: 10 }, "d-choices", |new| {
        Box::new(d_choices::DChoices::new(new.table, new.parameter, new.seed))
    }),
    (VictimPolicy::WindowedGreedy { percent: 90 }, "windowed-greedy", |new| {
        Box::new(windowed_greedy::WindowedGreedy::new(new.table, new.parameter))
    }),
    (VictimPolicy::CostBenefitLfs, "cb-lfs", cost_benefit::make),
    (VictimPolicy::CostBenefitKawaguchi, "cb-kaw", cost_benefit::make),
    (VictimPolicy::CostBenefitSqrt, "cb-sqrt", cost_benefit::make),
    (VictimPolicy::CostAgeTimes, "cost-age-times", cost_benefit::make),
    (VictimPolicy::PoolGreedy, "pool-greedy", |new| {
        Box::new(pool_greedy::PoolGreedy::new(new.table, new.pools))
    }),
];

/// Makes the state of `policy`, and whatever it needs in `table`. `pools` is the number of frontiers.
pub(crate) fn make(
    policy: VictimPolicy,
    table: &mut Superblocks,
    pools: u32,
    seed: u64,
) -> Box<dyn Select + Send> {
    let (.., make) = policy.entry();
    make(New { table, policy, parameter: policy.parameter().unwrap_or(0), pools, seed })
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
