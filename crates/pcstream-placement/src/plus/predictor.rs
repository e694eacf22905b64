//! The predictor of `pcstream-plus`: how long will the data of a write live?
//!
//! Idea: three keys describe a write, from the narrowest to the widest: context with history and name,
//! context with history, context alone. The narrow ones predict better, but only once they have seen enough. So the
//! widest is the start, and each narrower one moves the prediction by as much as it knows (a shrinkage
//! estimator: n observations against [`PRIOR`] of the wider key). History is the logarithm of how long
//! this page's earlier data lived, in whole octaves. Where a context's history predicts worse than the
//! context alone, as for copy-on-write files, a running comparison of both errors closes the gate and
//! the context alone decides.
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
/// The errors of both predictions are averaged more slowly, so that the gate does not flutter.
const GATE_RATE: f32 = 0.005;
/// Comparisons before the gate may open.
const GATE_AFTER: u32 = 64;
/// The gate opens where history leaves no more than this share of the squared error.
const GATE_SHARE: f32 = 0.85;
/// Observations of a context before it is compared.
const COMPARE_AFTER: u32 = 8;

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

/// A context: its key, and whether history predicts better than it.
#[derive(Clone, Copy, Default)]
struct Context {
    key: Key,
    compared: u32,
    error_of_context: f32,
    error_of_history: f32,
}

impl Context {
    fn gains_by_history(&self) -> bool {
        self.compared >= GATE_AFTER && self.error_of_history <= GATE_SHARE * self.error_of_context
    }

    fn compare(&mut self, lifetime: f32, with_history: f32) {
        self.compared = self.compared.saturating_add(1);
        let rate = (1.0 / self.compared as f32).max(GATE_RATE);
        let (context, history) = (lifetime - self.key.mean, lifetime - with_history);
        self.error_of_context += rate * (context * context - self.error_of_context);
        self.error_of_history += rate * (history * history - self.error_of_history);
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
    /// All keys of a write predict, however well its context does alone.
    ungated: bool,
    contexts: Vec<Context>,
    keys: Vec<Key>,
    sets: Vec<Set>,
    context_index: FxHashMap<u32, u16>,
    key_index: FxHashMap<(u32, u8, u16), u16>,
    set_index: FxHashMap<(u32, u8, u16), SetId>,
    refused: u64,
}

impl Predictor {
    /// Knows nothing. With a gate, a context predicts alone where narrower keys predict no better.
    pub(crate) fn new(gate: bool) -> Predictor {
        Predictor { ungated: !gate, ..Predictor::default() }
    }

    fn trusts_history(&self, context: &Context) -> bool {
        self.ungated || context.gains_by_history()
    }

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
            self.contexts.push(Context::default());
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

    /// Contexts whose pages' history predicts better than they do.
    pub(crate) fn trusting_history(&self) -> usize {
        self.contexts.iter().filter(|c| self.trusts_history(c)).count()
    }

    /// Writes that needed a set too many.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    /// Data of a set lived for so many octaves.
    pub(crate) fn learn(&mut self, set: SetId, lifetime: f32) {
        let Set { context, keys } = self.sets[usize::from(set.0)];
        let with_history = self.with_history(set).0;
        let context = &mut self.contexts[usize::from(context)];
        if context.key.n >= COMPARE_AFTER {
            context.compare(lifetime, with_history);
        }
        context.key.learn(lifetime);
        keys.into_iter().flatten().for_each(|key| self.keys[usize::from(key)].learn(lifetime));
    }

    /// How long data of a set will live; `None` if nothing of its context died yet.
    #[inline]
    pub(crate) fn predict(&self, set: SetId) -> Option<Prediction> {
        let context = &self.contexts[usize::from(self.sets[usize::from(set.0)].context)];
        if context.key.n == 0 {
            return None;
        }
        let (lifetime, deviation) = match self.trusts_history(context) {
            true => self.with_history(set),
            false => (context.key.mean, context.key.deviation),
        };
        // Of a normal distribution, the standard deviation is 1.25 mean deviations.
        Some(Prediction { lifetime, spread: (1.25 * deviation).max(0.5) })
    }

    /// Lifetime and mean deviation by all keys of a set: each narrower one weighs what it has seen.
    fn with_history(&self, set: SetId) -> (f32, f32) {
        let Set { context, keys } = self.sets[usize::from(set.0)];
        let wide = self.contexts[usize::from(context)].key;
        keys.into_iter().flatten().fold((wide.mean, wide.deviation), |(mean, deviation), key| {
            let key = self.keys[usize::from(key)];
            let seen = key.n.min(ENOUGH) as f32;
            let share = seen / (seen + PRIOR);
            (mean + share * (key.mean - mean), deviation + share * (key.deviation - deviation))
        })
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
        assert_eq!((p.sets(), p.contexts(), p.trusting_history()), (4, 2, 0));
    }

    #[test]
    fn history_is_trusted_where_it_predicts() {
        let mut p = Predictor::default();
        let sets = [origin(1, 5, 0), origin(1, 12, 0)].map(|o| p.set(o).expect("room"));
        for round in 0..200 {
            p.learn(sets[round % 2], [4.0, 12.0][round % 2]);
        }
        assert_eq!(p.trusting_history(), 1);
        let lifetimes = sets.map(|s| p.predict(s).expect("known").lifetime);
        // 50 observations against 16 of the context, whose mean is near 8.
        assert!((lifetimes[0] - 5.0).abs() < 0.1 && (lifetimes[1] - 11.0).abs() < 0.1, "{lifetimes:?}");
    }

    #[test]
    fn history_that_says_nothing_is_left_out() {
        let mut p = Predictor::default();
        let sets = [origin(1, 5, 0), origin(1, 12, 0)].map(|o| p.set(o).expect("room"));
        for round in 0..400 {
            p.learn(sets[round % 2], [4.0, 12.0][round / 2 % 2]);
        }
        assert_eq!(p.trusting_history(), 0);
        (0..9).for_each(|_| p.learn(sets[0], 4.0));
        assert_eq!(p.predict(sets[0]), p.predict(sets[1]));
        p.ungated = true;
        assert_ne!(p.predict(sets[0]), p.predict(sets[1]), "without the gate all keys count");
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
