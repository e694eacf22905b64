//! The predictor of `pcstream-plus`: how long will the data of a write live?
//!
//! Idea: a lifetime is what pages lived by the number that died: page time over deaths. Pages that still live count
//! with their age. Without them data would seem short-lived at first, because short lifetimes end first. (This is the
//! maximum likelihood estimate of a rate from censored samples. It takes lifetimes for exponential; see [`GAP`].)
//!
//! Three keys describe a write, from the narrowest to the widest: context with history and name,
//! context with history, context alone. The narrow ones predict better, but only once they have seen enough. So the
//! widest is the start, and each narrower one moves the prediction by as much as it knows (a shrinkage
//! estimator: n observations against [`PRIOR`] of the wider key). History is the logarithm of how long
//! this page's earlier data lived, in whole octaves.
//!
//! A distinct triple of keys is a [`Set`]; a page keeps its set, and when it dies, all three learn.
//!
//! Units: predictions are logarithms, in octaves of pages of logical time. [`log2`] is linear between
//! powers of two: within 0.09 octaves, and the same on every machine. Page time is pages times pages of logical time.
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
/// Octaves by which the logarithm of a mean lifetime exceeds the mean logarithm, for exponential lifetimes: 0.83, and at most
/// 0.09 more by [`log2`]. Lifetimes that scatter more are of pages that differ. A few that live long then raise the mean far
/// above what most pages live, so what exceeds this gap is left out.
const GAP: f32 = 1.0;
/// Mean deviation of the logarithms of exponential lifetimes from their mean, in octaves.
const EXPONENTIAL_DEVIATION: f32 = 1.4;
/// A key's scatter moves by this share of a new lifetime's, once it has seen its inverse.
const KEY_RATE: f32 = 0.005;

/// log2 of a lifetime, 0 and 1 pages being 0; linear between powers of two.
#[inline]
pub(crate) fn log2(pages: u64) -> f32 {
    let pages = pages.max(1);
    let whole = 63 - pages.leading_zeros();
    // 23 bits behind the leading one, as a float has them.
    let fraction = (pages << (63 - whole) << 1) >> 41;
    whole as f32 + fraction as f32 / (1u32 << 23) as f32
}

/// Pages of a logarithm, rounded: the inverse of [`log2`], and the same on every machine.
pub(crate) fn pages(octaves: f32) -> u64 {
    let (whole, fraction) = (octaves.max(0.0).floor().min(63.0), octaves.max(0.0).fract());
    ((1.0 + f64::from(fraction)) * (1u64 << whole as u32) as f64).round() as u64
}

/// What is known of the lifetimes of some pages.
#[derive(Clone, Copy, Default)]
struct Key {
    /// Pages that live, until `seen`.
    alive: f64,
    /// Page time and deaths until `seen`, and page time of the pages that died; older ones less.
    lived: f64,
    deaths: f64,
    ended: f64,
    seen: u64,
    /// Scatter of the lifetimes that ended: their mean in octaves, and the mean deviation from it, with exponential
    /// forgetting.
    mean: f32,
    deviation: f32,
    /// How many ended, counted once a request.
    n: u32,
}

impl Key {
    fn pass(&mut self, now: u64) {
        self.lived += self.alive * (now - self.seen) as f64;
        self.seen = now;
    }

    fn learn(&mut self, lifetime: f32) {
        self.n = self.n.saturating_add(1);
        let rate = (1.0 / self.n as f32).max(KEY_RATE);
        let error = lifetime - self.mean;
        self.mean += rate * error;
        self.deviation += rate * (error.abs() - self.deviation);
    }

    /// Takes for known that data lives so many octaves, as `n` requests said. It counts as [`ENOUGH`] pages at most, so
    /// that what dies from now on soon speaks for itself.
    fn restore(&mut self, lifetime: f32, n: u32) {
        self.deaths = f64::from(n.min(ENOUGH));
        self.lived = self.deaths * pages(lifetime) as f64;
        self.ended = self.lived;
        (self.mean, self.deviation, self.n) = (lifetime - GAP, EXPONENTIAL_DEVIATION, n);
    }

    /// Expected lifetime in octaves, if anything ever died.
    fn lifetime(&self) -> f32 {
        if self.deaths <= 0.0 {
            // Nothing is left of either after thousands of half-lives without a death.
            return self.mean;
        }
        let of = |page_time: f64| log2((page_time / self.deaths) as u64);
        let gap = of(self.ended) - self.mean;
        of(self.lived) - (gap - GAP).max(0.0)
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

    /// The set of a context by itself, if it was ever written to.
    pub(crate) fn set_of_context(&self, context: u32) -> Option<SetId> {
        self.set_index.get(&(context, 0, 0)).copied()
    }

    /// Requests that ended lifetimes of a set's context.
    pub(crate) fn samples(&self, set: SetId) -> u32 {
        self.contexts[usize::from(self.sets[usize::from(set.0)].context)].n
    }

    /// Takes up what an earlier run learned of a context in place of what is known of it.
    pub(crate) fn restore(&mut self, set: SetId, lifetime: f32, samples: u32) {
        self.each_key(set, |key| key.restore(lifetime, samples));
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

    /// Pages of a set were written.
    #[inline]
    pub(crate) fn born(&mut self, set: SetId, pages: u32, now: u64) {
        self.each_key(set, |key| {
            key.pass(now);
            key.alive += f64::from(pages);
        });
    }

    /// Pages of a set died at this age.
    #[inline]
    pub(crate) fn died(&mut self, set: SetId, pages: u32, age: u64, now: u64) {
        self.each_key(set, |key| {
            key.pass(now);
            key.alive -= f64::from(pages);
            key.deaths += f64::from(pages);
            key.ended += f64::from(pages) * age as f64;
        });
    }

    /// One request ended lifetimes of a set, of so many octaves on average.
    pub(crate) fn learn(&mut self, set: SetId, lifetime: f32) {
        self.each_key(set, |key| key.learn(lifetime));
    }

    /// Weighs what was until now by `share`.
    pub(crate) fn fade(&mut self, share: f64, now: u64) {
        for key in self.contexts.iter_mut().chain(&mut self.keys) {
            key.pass(now);
            key.lived *= share;
            key.deaths *= share;
            key.ended *= share;
        }
    }

    /// Takes no page to live any more; the caller counts those that do with [`Predictor::born`].
    pub(crate) fn nothing_lives(&mut self, now: u64) {
        for key in self.contexts.iter_mut().chain(&mut self.keys) {
            key.pass(now);
            key.alive = 0.0;
        }
    }

    /// Pages of all sets that live.
    #[cfg(test)]
    pub(crate) fn alive(&self) -> f64 {
        self.contexts.iter().map(|key| key.alive).sum()
    }

    #[inline]
    fn each_key(&mut self, set: SetId, mut f: impl FnMut(&mut Key)) {
        let Set { context, keys } = self.sets[usize::from(set.0)];
        f(&mut self.contexts[usize::from(context)]);
        keys.into_iter().flatten().for_each(|key| f(&mut self.keys[usize::from(key)]));
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
        let (lifetime, deviation) =
            of_keys.fold((wide.lifetime(), wide.deviation), |(lifetime, deviation), key| {
                let seen = key.n.min(ENOUGH) as f32;
                let share = seen / (seen + PRIOR);
                (
                    lifetime + share * (key.lifetime() - lifetime),
                    deviation + share * (key.deviation - deviation),
                )
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

    /// Pages of a set die, each as a request of its own; a set has as many of them alive at a time as it takes.
    fn live(p: &mut Predictor, sets: &[SetId], lifetimes: &[u64], rounds: u64) {
        for at in 0..rounds {
            for (&set, &lifetime) in sets.iter().zip(lifetimes) {
                if at >= lifetime {
                    p.died(set, 1, lifetime, at);
                    p.learn(set, log2(lifetime));
                }
                p.born(set, 1, at);
            }
        }
        p.fade(1.0, rounds);
    }

    #[test]
    fn what_still_lives_counts_with_its_age() {
        let mut p = Predictor::default();
        let set = p.set(origin(1, 0, 0)).expect("room");
        p.born(set, 100, 0);
        p.died(set, 10, 8, 8);
        p.learn(set, 3.0);
        // 100 pages for 8, and 90 for 56 more; 10 deaths.
        p.fade(1.0, 64);
        assert_eq!(p.predict(set).map(|p| p.lifetime), Some(log2((800 + 90 * 56) / 10)));
        // What was is forgotten as a whole; what lives goes on.
        p.fade(0.5, 64);
        assert_eq!(p.predict(set).map(|p| p.lifetime), Some(log2(584)));
        p.fade(1.0, 128);
        assert_eq!(p.predict(set).map(|p| p.lifetime), Some(log2((2920 + 90 * 64) / 5)));
        p.nothing_lives(128);
        p.fade(1.0, 1000);
        assert_eq!(p.predict(set).map(|p| p.lifetime), Some(log2((2920 + 90 * 64) / 5)));
    }

    /// Every page is equally likely to be written next. At first only short lifetimes have ended.
    #[test]
    fn a_lifetime_is_expected_alike_early_and_late() {
        let mut p = Predictor::default();
        let set = p.set(origin(1, 0, 0)).expect("room");
        let (mut random, pages) = (1u64, 4096u64);
        let mut written = vec![None; pages as usize];
        for at in 0..16 * pages {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let page = &mut written[(random >> 33) as usize % pages as usize];
            if let Some(birth) = page.replace(at) {
                p.died(set, 1, at - birth, at);
                p.learn(set, log2(at - birth));
            }
            p.born(set, 1, at);
            if at >= pages / 2 && at % 512 == 0 {
                let lifetime = p.predict(set).expect("known").lifetime;
                assert!((lifetime - 12.0).abs() < 0.25, "{at}: {lifetime}");
            }
        }
    }

    /// Of 16 pages at a time, 15 die after 16 pages, and one after 65,536.
    #[test]
    fn a_few_long_lifetimes_do_not_speak_for_the_others() {
        let mut p = Predictor::default();
        let set = p.set(origin(1, 0, 0)).expect("room");
        live(
            &mut p,
            &[[set; 15].as_slice(), &[set]].concat(),
            &[[16; 15].as_slice(), &[1 << 16]].concat(),
            200_000,
        );
        // The mean is 12 octaves.
        let lifetime = p.predict(set).expect("known").lifetime;
        assert!((4.0..6.5).contains(&lifetime), "{lifetime}");
    }

    #[test]
    fn logarithms_by_hand() {
        assert_eq!([0, 1, 2, 3, 4, 6, 1 << 40].map(log2), [0.0, 0.0, 1.0, 1.5, 2.0, 2.5, 40.0]);
        assert_eq!(log2(u64::MAX), 64.0);
        assert_eq!([-1.0, 0.0, 1.0, 1.5, 2.5, 40.0].map(pages), [1, 1, 2, 3, 6, 1 << 40]);
        assert_eq!([0.9, 63.9, 64.0, 1e9].map(|octaves| pages(octaves) > 1), [true; 4], "no overflow");
        for known in [5u64, 11, 1000, 123_456] {
            assert_eq!(pages(log2(known)), known);
        }
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
        live(&mut p, &[known], &[16], 2000);
        let new = p.set(origin(1, 7, 3)).expect("room");
        assert_eq!(p.predict(new), p.predict(known));
        assert!((p.predict(new).expect("known").lifetime - 4.0).abs() < 0.1);
        let other = p.set(origin(2, 7, 3)).expect("room");
        assert_eq!(p.predict(other), None, "another context says nothing");
        assert_eq!((p.sets(), p.contexts()), (4, 2));
    }

    #[test]
    fn history_moves_the_prediction_by_what_it_has_seen() {
        let mut p = Predictor::default();
        let sets = [origin(1, 5, 0), origin(1, 12, 0)].map(|o| p.set(o).expect("room"));
        live(&mut p, &sets, &[16, 4096], 100_000);
        let lifetimes = sets.map(|s| p.predict(s).expect("known").lifetime);
        // 50 observations of 4 and 12 octaves against 16 of the context, where both die as often: 11 octaves on average,
        // which is 3 more than the mean logarithm.
        let expected = [4.0, 12.0].map(|own| (50.0 * own + 16.0 * (11.0 - (3.0 - GAP))) / 66.0);
        assert!(
            (lifetimes[0] - expected[0]).abs() < 0.1 && (lifetimes[1] - expected[1]).abs() < 0.1,
            "{lifetimes:?}"
        );
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
