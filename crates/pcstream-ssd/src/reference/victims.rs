//! The slow form of every victim policy: it looks at all candidates, and counts what it needs to know of each.
//!
//! A slow form shares with the fast one at most formulas and random draws. A new policy gets a line in
//! `SLOW_FORMS`, by the name that it has in the registry of `victim`.

use super::ReferenceSsd;
use crate::victim::{Candidate, TIE_BREAK_SUPERBLOCKS, cost_age_times, kawaguchi, lfs, score, sqrt, window};

/// Chooses among the candidates of a pool, of which there is at least one.
pub(super) type Choose = fn(&mut ReferenceSsd, pool: usize) -> usize;

const SLOW_FORMS: &[(&str, Choose)] = &[
    ("greedy", |ssd, pool| ssd.candidates(pool).min_by_key(|&s| (ssd.valid(s), ssd.changed(s))).unwrap()),
    ("greedy-wear", |ssd, pool| {
        let fewest = ssd.candidates(pool).map(|s| ssd.valid(s)).min().unwrap();
        let mut equals: Vec<_> = ssd.candidates(pool).filter(|&s| ssd.valid(s) == fewest).collect();
        equals.sort_by_key(|&s| ssd.changed(s));
        equals.truncate(TIE_BREAK_SUPERBLOCKS);
        equals.into_iter().min_by_key(|&s| ssd.superblocks[s].erases).unwrap()
    }),
    ("fifo", |ssd, pool| ssd.oldest_first(pool)[0]),
    ("random", |ssd, pool| ssd.draw(pool, 1)),
    ("d-choices", |ssd, pool| ssd.draw(pool, ssd.parameter.unwrap())),
    ("windowed-greedy", |ssd, pool| {
        let mut oldest = ssd.oldest_first(pool);
        oldest.truncate(window(oldest.len(), ssd.parameter.unwrap()));
        oldest.into_iter().min_by_key(|&s| (ssd.valid(s), ssd.closed(s))).unwrap()
    }),
    ("cb-lfs", |ssd, pool| ssd.highest(pool, lfs)),
    ("cb-kaw", |ssd, pool| ssd.highest(pool, kawaguchi)),
    ("cb-sqrt", |ssd, pool| ssd.highest(pool, sqrt)),
    ("cost-age-times", |ssd, pool| ssd.highest(pool, cost_age_times)),
    ("pool-greedy", |ssd, _| ssd.cheapest_pool()),
];

/// The slow form of the policy `name`. Panics if it has none, and says what to write.
pub(super) fn slow_form(name: &str) -> Choose {
    let form = SLOW_FORMS.iter().find(|(of, _)| *of == name);
    form.unwrap_or_else(|| {
        panic!(
            "the victim policy {name} has no slow form to be compared with: write one that finds the victim by looking at \
             all candidates, and give it a line (\"{name}\", |ssd, pool| ...) in SLOW_FORMS of src/reference/victims.rs"
        )
    })
    .1
}

impl ReferenceSsd {
    fn candidates(&self, pool: usize) -> impl Iterator<Item = usize> + '_ {
        self.candidates[pool].iter().copied()
    }

    fn oldest_first(&self, pool: usize) -> Vec<usize> {
        let mut oldest: Vec<_> = self.candidates(pool).collect();
        oldest.sort_by_key(|&s| self.closed(s));
        oldest
    }

    /// The step in which a candidate was closed.
    fn closed(&self, superblock: usize) -> u64 {
        self.superblocks[superblock].closed_step
    }

    /// The step in which a candidate got its number of valid pages.
    fn changed(&self, superblock: usize) -> u64 {
        self.superblocks[superblock].changed_step
    }

    fn draw(&mut self, pool: usize, d: u32) -> usize {
        let (candidates, draws) = (&self.candidates[pool], &mut self.draws[pool]);
        let drawn: Vec<_> = (0..d).map(|_| candidates[draws.below(candidates.len())]).collect();
        drawn.into_iter().min_by_key(|&s| self.valid(s)).unwrap()
    }

    /// The oldest of those with the highest score.
    fn highest(&self, pool: usize, formula: impl Fn(Candidate) -> f64) -> usize {
        let oldest = self.oldest_first(pool);
        let (mut best, mut highest) = (oldest[0], -1.0);
        for s in oldest {
            let age = self.now_pages - self.superblocks[s].closed_at;
            let (b, erases) = (self.geometry.superblock_pages(), self.superblocks[s].erases);
            let score = score(&formula, self.valid(s), b, age, erases);
            if score > highest {
                (best, highest) = (s, score);
            }
        }
        best
    }

    /// The emptiest candidate of the pool that loses least by giving one up.
    fn cheapest_pool(&mut self) -> usize {
        let elapsed = self.now_pages - self.last_choice;
        self.last_choice = self.now_pages;
        let half_life = self.geometry.physical_pages();
        self.pools.values_mut().for_each(|pool| pool.decay(elapsed, half_life));
        let mut best: Option<(usize, f64)> = None;
        for (&owner, pool) in &self.pools {
            let of_pool = self.candidates(0).filter(|&s| self.superblocks[s].owner == owner);
            let Some(emptiest) = of_pool.min_by_key(|&s| (self.valid(s), self.changed(s))) else { continue };
            let cost = pool.marginal_cost(self.valid(emptiest), self.geometry.superblock_pages());
            if best.is_none_or(|(_, least)| cost < least) {
                best = Some((emptiest, cost));
            }
        }
        best.expect("there are candidates").0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::victim::VictimPolicy;

    /// Names the policy that has none, and says what to write.
    #[test]
    fn every_policy_has_a_slow_form() {
        let names = VictimPolicy::names();
        names.iter().for_each(|name| _ = slow_form(name));
        for (name, _) in SLOW_FORMS {
            assert!(
                names.contains(name),
                "{name} of SLOW_FORMS is in no REGISTRY: expected one of {names:?}"
            );
        }
    }
}
