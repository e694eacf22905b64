//! The predictor of `pcstream-plus`: how long will the data of a write live?
//!
//! Idea: three keys describe a write, from the narrowest to the widest: context with history and name,
//! context with history, context alone. The narrow ones predict better, but only once they have seen enough. So the
//! widest is the start, and each narrower one moves the prediction by as much as it knows (a shrinkage
//! estimator: n observations against [`PRIOR`] of the wider key). History is the logarithm of how long
//! this page's earlier data lived, in whole octaves.
//!
//! A distinct triple of keys is a [`Set`]; a page keeps its set, and when it dies, all three learn.
//!
//! Units: lifetimes are logarithms, in octaves of pages of logical time. [`log2`] is linear between
//! powers of two: within 0.09 octaves, and the same on every machine.
//!
//! Memory: at most [`MAX_SETS`] sets and as many keys; a write that would need one more goes by its
//! context alone, or, with too many contexts, by no prediction. Both are counted.

use rustc_hash::FxHashMap;

/// Most sets, keys and contexts, each.
pub(crate) const MAX_SETS: usize = 1 << 14;
/// Observations of the wider key that one of a narrower key is weighed against.
const PRIOR: f32 = 16.0;
/// Observations from which on a key counts no more than it does.
const ENOUGH: u32 = 50;
/// A key forgets with this weight, once it has seen its inverse.
const KEY_RATE: f32 = 0.02;

/// log2 of a lifetime, 0 and 1 pages being 0; linear between powers of two.
#[inline]
pub(crate) fn log2(pages: u64) -> f32 {
    let pages = pages.max(1);
    let whole = 63 - pages.leading_zeros();
    // 23 bits behind the leading one, as a float has them.
    let fraction = (pages << (63 - whole) << 1) >> 41;
    whole as f32 + fraction as f32 / (1u32 << 23) as f32
}

/// Mean and mean deviation of the lifetimes that were observed, with exponential forgetting.
#[derive(Clone, Copy, Default)]
struct Key {
    mean: f32,
    deviation: f32,
    n: u32,
}

impl Key {
    fn learn(&mut self, lifetime: f32) {
        self.n = self.n.saturating_add(1);
        let rate = (1.0 / self.n as f32).max(KEY_RATE);
        let error = lifetime - self.mean;
        self.mean += rate * error;
        self.deviation += rate * (error.abs() - self.deviation);
    }
}

/// What tells writes apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Number of the context, or of the kind of a write without one.
    pub context: u32,
    /// Octave of the page's earlier lifetimes, from 1; 0 without a history.
    pub history: u8,
    /// Number of the file's class of names; 0 without one.
    pub name: u16,
}

/// A triple of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SetId(pub u16);

#[derive(Clone, Copy)]
struct Set {
    context: u16,
    /// Narrower keys, the narrowest last; none twice.
    keys: [Option<u16>; 2],
}

/// An expectation of a lifetime.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Prediction {
    /// Octaves.
    pub lifetime: f32,
    /// Standard deviation, at least half an octave.
    pub spread: f32,
}

/// All that was learned.
#[derive(Default)]
pub(crate) struct Predictor {
    contexts: Vec<Key>,
    keys: Vec<Key>,
    sets: Vec<Set>,
    context_index: FxHashMap<u32, u16>,
    key_index: FxHashMap<(u32, u8, u16), u16>,
    set_index: FxHashMap<(u32, u8, u16), SetId>,
    refused: u64,
}

impl Predictor {
    /// The set of a write; `None` if there are too many contexts.
    #[inline]
    pub(crate) fn set(&mut self, origin: Origin) -> Option<SetId> {
        let Origin { context, history, name } = origin;
        match self.set_index.get(&(context, history, name)) {
            Some(&set) => Some(set),
            None => self.new_set(origin),
        }
    }

    #[cold]
    fn new_set(&mut self, origin: Origin) -> Option<SetId> {
        let Origin { context, history, name } = origin;
        if self.sets.len() + 2 > MAX_SETS || self.keys.len() + 3 > MAX_SETS {
            self.refused += 1;
            // Its context alone, if that has a set.
            return self.set_index.get(&(context, 0, 0)).copied();
        }
        // Every context has the set without history and name, to fall back upon.
        if (history, name) != (0, 0) && !self.set_index.contains_key(&(context, 0, 0)) {
            self.new_set(Origin { context, history: 0, name: 0 });
        }
        let next = self.contexts.len() as u16;
        let number = *self.context_index.entry(context).or_insert(next);
        if number == next {
            self.contexts.push(Key::default());
        }
        let with_history = self.key((context, history, 0));
        let with_name = (name != 0).then(|| self.key((context, history, name)));
        let set = SetId(self.sets.len() as u16);
        self.sets.push(Set { context: number, keys: [Some(with_history), with_name] });
        self.set_index.insert((context, history, name), set);
        Some(set)
    }

    fn key(&mut self, of: (u32, u8, u16)) -> u16 {
        let next = self.keys.len() as u16;
        let key = *self.key_index.entry(of).or_insert(next);
        if key == next {
            self.keys.push(Key::default());
        }
        key
    }

    /// Sets so far, numbered from 0.
    pub(crate) fn sets(&self) -> usize {
        self.sets.len()
    }

    /// Contexts so far.
    pub(crate) fn contexts(&self) -> usize {
        self.contexts.len()
    }

    /// Writes that needed a set too many.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    /// Data of a set lived for so many octaves.
    pub(crate) fn learn(&mut self, set: SetId, lifetime: f32) {
        let Set { context, keys } = self.sets[usize::from(set.0)];
        self.contexts[usize::from(context)].learn(lifetime);
        keys.into_iter().flatten().for_each(|key| self.keys[usize::from(key)].learn(lifetime));
    }

    /// How long data of a set will live: each narrower key weighs what it has seen. `None` if nothing of the context died yet.
    #[inline]
    pub(crate) fn predict(&self, set: SetId) -> Option<Prediction> {
        let Set { context, keys } = self.sets[usize::from(set.0)];
        let wide = self.contexts[usize::from(context)];
        if wide.n == 0 {
            return None;
        }
        let of_keys = keys.into_iter().flatten().map(|key| self.keys[usize::from(key)]);
        let (lifetime, deviation) = of_keys.fold((wide.mean, wide.deviation), |(mean, deviation), key| {
            let seen = key.n.min(ENOUGH) as f32;
            let share = seen / (seen + PRIOR);
            (mean + share * (key.mean - mean), deviation + share * (key.deviation - deviation))
        });
        // Of a normal distribution, the standard deviation is 1.25 mean deviations.
        Some(Prediction { lifetime, spread: (1.25 * deviation).max(0.5) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(context: u32, history: u8, name: u16) -> Origin {
        Origin { context, history, name }
    }

    #[test]
    fn logarithms_by_hand() {
        assert_eq!([0, 1, 2, 3, 4, 6, 1 << 40].map(log2), [0.0, 0.0, 1.0, 1.5, 2.0, 2.5, 40.0]);
        assert_eq!(log2(u64::MAX), 64.0);
        for pages in [5u64, 11, 1000, 123_456_789] {
            let error = (pages as f32).log2() - log2(pages);
            assert!((0.0..0.0861).contains(&error), "{pages}: {error}");
        }
    }

    #[test]
    fn a_context_speaks_for_what_is_new() {
        let mut p = Predictor::default();
        let known = p.set(origin(1, 0, 0)).expect("room");
        assert_eq!(p.predict(known), None);
        (0..20).for_each(|_| p.learn(known, 10.0));
        let new = p.set(origin(1, 7, 3)).expect("room");
        assert_eq!(
            p.predict(new),
            Some(Prediction { lifetime: 10.0, spread: p.predict(known).unwrap().spread })
        );
        let other = p.set(origin(2, 7, 3)).expect("room");
        assert_eq!(p.predict(other), None, "another context says nothing");
        assert_eq!((p.sets(), p.contexts()), (4, 2));
    }

    #[test]
    fn history_moves_the_prediction_by_what_it_has_seen() {
        let mut p = Predictor::default();
        let sets = [origin(1, 5, 0), origin(1, 12, 0)].map(|o| p.set(o).expect("room"));
        for round in 0..200 {
            p.learn(sets[round % 2], [4.0, 12.0][round % 2]);
        }
        let lifetimes = sets.map(|s| p.predict(s).expect("known").lifetime);
        // 50 observations against 16 of the context, whose mean is near 8.
        assert!((lifetimes[0] - 5.0).abs() < 0.1 && (lifetimes[1] - 11.0).abs() < 0.1, "{lifetimes:?}");
    }

    #[test]
    fn sets_are_bounded_and_what_is_refused_is_counted() {
        let mut p = Predictor::default();
        let first = p.set(origin(0, 0, 0)).expect("room");
        for context in 1..40_000u32 {
            p.set(origin(context, 0, (context % 7) as u16));
        }
        assert!(p.sets() <= MAX_SETS && p.keys.len() <= MAX_SETS && p.refused() > 0);
        assert_eq!(p.set(origin(0, 9, 9)), Some(first), "a known context goes by itself");
        assert_eq!(p.set(origin(100_000, 0, 0)), None);
    }
}
