//! The clustering of `pcstream-plus`: which predicted lifetimes share a stream?
//!
//! Idea: a stream is worth having if it tells when its pages die. So a cluster costs the bits that it
//! takes to say when a page of it dies: its share of the pages written times half the logarithm of the
//! variance of their lifetimes, each taken for normal around its prediction (all in octaves). The
//! cheapest cut of the line of predictions into intervals is found exactly, by dynamic programming over
//! bins of a quarter octave. A further stream is opened only if it saves [`CUT`]: every open superblock
//! takes spare area. A single interval shares S0 with what is unknown.
//!
//! Data should stay with the data it was placed with. So the cuts in use are kept until others save
//! [`CUT`], and a new cluster takes over the stream with which it shares most.
//!
//! Units: octaves of pages; bits a page.

use crate::inherit::inherit;
use crate::plus::predictor::Prediction;
use crate::scheme::Stream;

/// Bins of an octave.
const FINE: f32 = 4.0;
/// What lives shorter is the same to us: octaves (64 pages).
const SHORTEST: f32 = 6.0;
/// Bits a page that a further stream must save, and other cuts than those in use.
const CUT: f64 = 0.015;
/// Up to here, a device has too few streams to leave S0 to what is unknown.
const FEW: u8 = 4;

/// Writes that are predicted alike.
#[derive(Clone, Copy)]
pub(crate) struct Member {
    /// Pages written lately.
    pub weight: f64,
    /// Of those pages.
    pub prediction: Prediction,
    /// Where they went; `None` if nowhere in particular.
    pub stream: Option<Stream>,
}

/// Lifetimes of some pages: sums of weight, lifetime, and lifetime squared.
#[derive(Clone, Copy, Default)]
struct Sums([f64; 3]);

impl Sums {
    fn plus(self, other: Sums) -> Sums {
        Sums(std::array::from_fn(|i| self.0[i] + other.0[i]))
    }

    fn minus(self, other: Sums) -> Sums {
        Sums(std::array::from_fn(|i| self.0[i] - other.0[i]))
    }

    /// Bits to say when these pages die, up to a constant for each page.
    fn bits(self) -> f64 {
        let Sums([weight, sum, squares]) = self;
        let mean = sum / weight;
        // A prediction's spread is at least half an octave; rounding must not go below that.
        0.5 * weight * (squares / weight - mean * mean).max(0.25).log2()
    }
}

/// Intervals of predicted lifetimes, and their streams.
pub(crate) struct Clustering {
    streams: u8,
    /// Bin with which each interval begins, in order, and its stream. The first goes on below.
    cuts: Vec<(u32, Stream)>,
    changes: u64,
}

impl Clustering {
    /// For a device with so many streams, S0 included.
    pub(crate) fn new(streams: u8) -> Clustering {
        Clustering { streams, cuts: Vec::new(), changes: 0 }
    }

    /// How often the cuts changed.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// The streams in use, the shortest lifetime first.
    pub(crate) fn by_lifetime(&self) -> Vec<Stream> {
        self.cuts.iter().map(|cut| cut.1).collect()
    }

    /// Where data of this lifetime goes; `None` before the first clustering.
    #[inline]
    pub(crate) fn stream(&self, prediction: Prediction) -> Option<Stream> {
        self.cuts.get(interval(&self.cuts, bin(prediction.lifetime))).map(|cut| cut.1)
    }

    /// Clusters. Lifetimes count up to `longest` octaves, but no less than the shortest that there is.
    pub(crate) fn update(&mut self, members: &[Member], longest: f32) {
        let longest = longest.max(SHORTEST);
        let points = points(members, longest);
        let total: f64 = points.iter().map(|point| point.1.0[0]).sum();
        if total <= 0.0 {
            return;
        }
        let kept = usize::from(self.streams > FEW);
        let begins = cheapest(&points, usize::from(self.streams) - kept, CUT * total);
        // A single interval can share what is open for the unknown: there is nothing to tell apart.
        let first = if begins.len() == 1 { 0 } else { kept };
        let new: Vec<u32> = begins.iter().map(|&point| points[point].0).collect();
        let old: Vec<u32> = self.cuts.iter().map(|cut| cut.0).collect();
        let price = |begins: &[u32]| price(&points, begins, CUT * total);
        if !old.is_empty() && price(&old) <= price(&new) + CUT * total {
            return;
        }
        self.changes += 1;
        let cuts: Vec<(u32, Stream)> = new.into_iter().map(|begin| (begin, Stream::DEFAULT)).collect();
        let streams = usize::from(self.streams);
        let mut shared = vec![0u64; cuts.len() * streams];
        for member in members {
            if let Some(stream) = member.stream {
                let cluster = interval(&cuts, bin(member.prediction.lifetime.min(longest)));
                shared[cluster * streams + usize::from(stream.0)] += member.weight.ceil() as u64;
            }
        }
        let given = inherit(&shared, cuts.len(), first, streams);
        self.cuts = cuts.into_iter().zip(given).map(|((begin, _), stream)| (begin, stream)).collect();
    }
}

/// The bin of a lifetime in octaves.
#[inline]
fn bin(lifetime: f32) -> u32 {
    (FINE * lifetime.max(SHORTEST)) as u32
}

/// The interval of a bin: the last that begins at or before it, or the first.
#[inline]
fn interval(cuts: &[(u32, Stream)], bin: u32) -> usize {
    cuts.partition_point(|&(begin, _)| begin <= bin).saturating_sub(1)
}

/// The bins in use, in order, and what they hold.
fn points(members: &[Member], longest: f32) -> Vec<(u32, Sums)> {
    let mut bins = Vec::new();
    for member in members {
        let lifetime = member.prediction.lifetime.clamp(SHORTEST, longest);
        let at = bin(lifetime) as usize;
        if bins.len() <= at {
            bins.resize(at + 1, Sums::default());
        }
        let (lifetime, spread) = (f64::from(lifetime), f64::from(member.prediction.spread));
        let squares = lifetime * lifetime + spread * spread;
        bins[at] = bins[at].plus(Sums([1.0, lifetime, squares].map(|moment| moment * member.weight)));
    }
    (0..).zip(bins).filter(|(_, sums)| sums.0[0] > 0.0).collect()
}

/// What a cut into intervals that begin with these bins costs: bits, and `open` for each interval in use.
fn price(points: &[(u32, Sums)], begins: &[u32], open: f64) -> f64 {
    let of = |point: u32| begins.partition_point(|&begin| begin <= point).saturating_sub(1);
    let same = |a: &(u32, Sums), b: &(u32, Sums)| of(a.0) == of(b.0);
    let sums = points.chunk_by(same).map(|c| c.iter().fold(Sums::default(), |sums, p| sums.plus(p.1)));
    sums.map(|sums| sums.bits() + open).sum()
}

/// The points with which the intervals of the cheapest cut begin, at most `most` of them; each but the first saves `open`.
fn cheapest(points: &[(u32, Sums)], most: usize, open: f64) -> Vec<usize> {
    let n = points.len();
    let mut until = vec![Sums::default(); n + 1];
    (0..n).for_each(|i| until[i + 1] = until[i].plus(points[i].1));
    let bits: Vec<f64> = (0..n)
        .flat_map(|from| (0..n).map(move |last| (from, last)))
        .map(
            |(from, last)| {
                if from <= last { until[last + 1].minus(until[from]).bits() } else { f64::INFINITY }
            },
        )
        .collect();
    // costs[last]: the cheapest cut of points 0..=last into as many intervals as there are layers.
    let mut costs: Vec<f64> = bits[..n].to_vec();
    let mut layers: Vec<Vec<usize>> = Vec::new();
    while layers.len() + 1 < most.min(n) {
        let (mut next, mut begins) = (vec![f64::INFINITY; n], vec![0; n]);
        for last in 1..n {
            for begin in 1..=last {
                let cost = costs[begin - 1] + bits[begin * n + last];
                if cost < next[last] {
                    (next[last], begins[last]) = (cost, begin);
                }
            }
        }
        if next[n - 1] + open >= costs[n - 1] {
            break;
        }
        costs = next;
        layers.push(begins);
    }
    let (mut cuts, mut last) = (vec![0; layers.len() + 1], n - 1);
    for (at, begins) in layers.iter().enumerate().rev() {
        cuts[at + 1] = begins[last];
        last = begins[last] - 1;
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn member(weight: f64, lifetime: f32, spread: f32) -> Member {
        Member { weight, prediction: Prediction { lifetime, spread }, stream: None }
    }

    fn stream(clustering: &Clustering, lifetime: f32) -> Option<u8> {
        clustering.stream(Prediction { lifetime, spread: 0.5 }).map(|s| s.0)
    }

    #[test]
    fn what_dies_apart_is_kept_apart() {
        let mut c = Clustering::new(9);
        assert_eq!(stream(&c, 8.0), None);
        c.update(&[], 20.0);
        assert_eq!(c.changes(), 0);
        c.update(&[member(10.0, 8.0, 0.5), member(10.0, 8.2, 0.5), member(5.0, 14.0, 1.0)], 20.0);
        assert_eq!([0.0, 8.0, 8.2, 12.0, 14.0, 40.0].map(|l| stream(&c, l)), [1, 1, 1, 1, 2, 2].map(Some));
        assert_eq!(c.changes(), 1);
    }

    #[test]
    fn what_cannot_be_distinguished_shares_a_stream() {
        let mut c = Clustering::new(9);
        let wide: Vec<Member> = (0..8).map(|i| member(1.0, 10.0 + i as f32 / 4.0, 8.0)).collect();
        c.update(&wide, 20.0);
        assert_eq!(c.cuts, [(40, Stream::DEFAULT)]);
    }

    #[test]
    fn cuts_stay_until_others_save_enough_and_streams_are_inherited() {
        let mut c = Clustering::new(9);
        let placed =
            |lifetime, stream| Member { stream: Some(Stream(stream)), ..member(10.0, lifetime, 0.5) };
        c.update(&[placed(8.0, 1), placed(14.0, 2)], 20.0);
        c.update(&[placed(9.0, 1), placed(14.0, 2)], 20.0);
        assert_eq!(c.changes(), 1, "the cuts still tell them apart");
        // A third below both opens a stream; the others keep theirs, though no longer in order.
        c.update(&[member(10.0, 6.0, 0.5), placed(10.0, 1), placed(14.0, 2)], 20.0);
        assert_eq!([6.0, 10.0, 14.0].map(|l| stream(&c, l)), [3, 1, 2].map(Some));
    }

    #[test]
    fn a_device_with_few_streams_uses_s0_too() {
        for (streams, expected) in [(1, [0, 0]), (2, [0, 1]), (4, [0, 1]), (5, [1, 2])] {
            let mut c = Clustering::new(streams);
            c.update(&[member(1.0, 8.0, 0.5), member(1.0, 14.0, 0.5)], 20.0);
            assert_eq!([8.0, 14.0].map(|l| stream(&c, l)), expected.map(Some), "{streams} streams");
        }
    }

    proptest! {
        /// The dynamic programme finds the cheapest of all cuts into as many intervals as it uses.
        #[test]
        fn no_cut_into_as_many_is_cheaper(
            lives in prop::collection::vec((1u32..100, 6f32..18.0, 0.5f32..3.0), 1..10), most in 1usize..6,
        ) {
            let members: Vec<Member> = lives.iter().map(|&(w, l, s)| member(f64::from(w), l, s)).collect();
            let points = points(&members, 20.0);
            let total: f64 = points.iter().map(|p| p.1.0[0]).sum();
            let begins = cheapest(&points, most, CUT * total);
            prop_assert!(begins.len() <= most && begins[0] == 0 && begins.windows(2).all(|w| w[0] < w[1]));
            let of = |begins: &[usize]| {
                let bins: Vec<u32> = begins.iter().map(|&p| points[p].0).collect();
                price(&points, &bins, CUT * total)
            };
            for cuts in 0u32..1 << (points.len() - 1) {
                let other: Vec<usize> =
                    (0..points.len()).filter(|&i| i == 0 || cuts >> (i - 1) & 1 == 1).collect();
                if other.len() == begins.len() {
                    prop_assert!(of(&begins) <= of(&other) + 1e-6 * total, "{:?} {:?}", begins, other);
                }
            }
        }
    }
}
