//! The PC2Stream mapper (FAST'19, section 5.2): contexts with similar lifetimes share a stream.
//!
//! Idea: cluster the lifetimes in the PC attribute table into at most m groups, one for each of
//! S1..Sm, in the order of lifetime. S0 is for contexts that are unknown or not yet clustered.
//!
//! Re-clustering is due when enough entries changed: at least one, and at least `changed_fraction`
//! (10 % in the paper) of the table. An entry has changed when it was never clustered, or when its
//! lifetime is more than `change_factor` times longer or shorter than when it was last clustered.
//! The paper does not say what a change is; if any difference were, every lifetime would re-cluster
//! a table of ten. The default of 2 is what one lifetime of almost nothing can do to
//! (l_old + l_new) / 2, so that a single outlier never re-clusters.
//!
//! A context that was not clustered yet goes to the cluster with the nearest mean as soon as enough of
//! its pages have died (`newcomer_pages`), and follows its lifetime until it is clustered. The paper
//! leaves it in S0 until re-clustering is due; among more than nine settled contexts it stays there for
//! ever, one in eleven being less than 10 %.
//!
//! Where lifetimes of one context scatter widely, (l_old + l_new) / 2 scatters with them, and a
//! tenth of the table has always changed. So entries that were clustered before re-cluster only
//! `drift_pages` after the last time; contexts that never were, once they are a tenth, do so at
//! once. Long-lived data has not died in the beginning, so its contexts look short-lived. With `early` the first times wait no
//! longer than until twice as much has been written as at the last. It is for real drives, where what is placed wrongly stays.
//! A table that was loaded has lifetimes of another run: it waits as always.
//!
//! Stream numbers: what matters to the device is that data stays with the data it was placed with.
//! So a new cluster inherits the number of the old cluster with which it shares the most pages
//! written; numbers nobody inherits go to the other clusters in order of lifetime. The first
//! clustering is in the order of lifetime, and stays so while clusters only move.
//!
//! Every stream keeps a superblock open, which is spare area lost. Two neighbours that live for nearly as long, or of which one
//! holds few pages, gain less than that by being apart. What they gain is the variance of the logarithm of lifetimes between
//! them, by the pages that died (Ward's rule). The two that gain least become one cluster until all gain `least_gain`. What was
//! joined is looked at again when twice as much has been written.
//!
//! Known weakness: by difference of lifetimes (the paper's distance), one very long-lived context
//! takes a cluster for itself and many short-lived ones share; `Distance::Log` weighs ratios.

use crate::error::{SchemeError, check};
use crate::inherit::inherit;
use crate::pcstream::cluster::{Weighted, distinct, k_means, log2_fixed, merge_closest};
use crate::pcstream::table::{AttributeTable, Entry, Lifetime};
use crate::scheme::Stream;

/// How lifetimes are grouped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clusterer {
    /// Exact one-dimensional k-means (FAST'19 says k-means).
    #[default]
    KMeans,
    /// Merging the two closest until m are left (the authors' HotStorage'18 version).
    MergeClosest,
}

/// What is close.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Distance {
    /// The difference of lifetimes (FAST'19).
    #[default]
    Linear,
    /// The difference of their logarithms.
    Log,
}

/// Which stream a cluster gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbering {
    /// That of the old cluster with which it shares most.
    #[default]
    Keep,
    /// Always its rank by lifetime: S1 the shortest.
    ByLifetime,
}

/// How much a context counts when means are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weights {
    /// All the same (FAST'19).
    #[default]
    Equal,
    /// By the pages that it has written; of earlier runs a saved table has only lifetimes, each of a page at least.
    Written,
}

/// Parameters of the mapper.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MapperParams {
    /// How lifetimes are grouped.
    pub clusterer: Clusterer,
    /// What is close.
    pub distance: Distance,
    /// Which stream a cluster gets.
    pub numbering: Numbering,
    /// Share of the table that must have changed, 0..=1; 0.10 in the paper.
    pub changed_fraction: f64,
    /// How many times longer or shorter a lifetime must be to have changed, at least 1; 2.
    pub change_factor: f64,
    /// Pages written by the host between clusterings that no new context asks for; 65536 (256 MiB).
    /// FAST'19 has no such limit: 0.
    pub drift_pages: u64,
    /// Whether the first of these clusterings come sooner, unless a table was loaded: whenever twice as much has been written.
    /// Off.
    pub early: bool,
    /// How much a context counts.
    pub weights: Weights,
    /// Pages of a context that must have died before it goes to the nearest cluster without waiting for
    /// the next clustering; `None` waits in S0 (the paper).
    pub newcomer_pages: Option<u32>,
    /// What two neighbouring clusters must gain by being apart to have a stream each: variance of log2 of lifetimes, in octaves
    /// squared; 0.01. At 0 all have (the paper).
    pub least_gain: f64,
}

impl Default for MapperParams {
    fn default() -> Self {
        MapperParams {
            clusterer: Clusterer::default(),
            distance: Distance::default(),
            numbering: Numbering::default(),
            changed_fraction: 0.10,
            change_factor: 2.0,
            drift_pages: 65536,
            early: false,
            weights: Weights::default(),
            newcomer_pages: Some(1),
            least_gain: 0.01,
        }
    }
}

impl MapperParams {
    pub(crate) fn check(&self, scheme: &'static str) -> Result<(), SchemeError> {
        let fraction = self.changed_fraction;
        let valid = (0.0..=1.0).contains(&fraction);
        check(valid, scheme, "mapper.changed_fraction", fraction, "from 0 to 1")?;
        let factor = self.change_factor;
        let valid = factor >= 1.0 && factor.is_finite();
        check(valid, scheme, "mapper.change_factor", factor, "finite and at least 1")?;
        let gain = self.least_gain;
        check(gain >= 0.0 && gain.is_finite(), scheme, "mapper.least_gain", gain, "finite and at least 0")
    }
}

/// The mapper. It owns no lifetimes; the table does.
pub struct Mapper {
    params: MapperParams,
    streams: u8,
    /// Logical time of the last clustering.
    clustered_at: u64,
    /// Some clusters share a stream since then.
    joined: bool,
    clusterings: u64,
    remapped: u64,
    values: Vec<(u64, u64)>,
    points: Vec<Weighted>,
    /// Where each cluster begins, as a value, in order; and its stream.
    clusters: Vec<(u64, Stream)>,
    /// Mean of each cluster.
    means: Vec<f64>,
}

impl Mapper {
    /// Streams that it maps to, S0 included.
    pub fn streams(&self) -> u8 {
        self.streams
    }

    /// A mapper to `streams` streams, S0 included. The parameters have been checked.
    pub fn new(streams: u8, params: MapperParams) -> Mapper {
        Mapper {
            params,
            streams,
            clustered_at: 0,
            joined: false,
            clusterings: 0,
            remapped: 0,
            values: Vec::new(),
            points: Vec::new(),
            clusters: Vec::new(),
            means: Vec::new(),
        }
    }

    /// How often the table was clustered, the first time included.
    pub fn clusterings(&self) -> u64 {
        self.clusterings
    }

    /// How often a context moved from one of S1..Sm to another.
    pub fn remapped(&self) -> u64 {
        self.remapped
    }

    /// The streams of the clusters, the shortest lifetime first.
    pub fn by_lifetime(&self) -> Vec<Stream> {
        self.clusters.iter().map(|&(_, stream)| stream).collect()
    }

    /// Whether enough of the table changed by logical time `now`.
    #[inline]
    pub fn is_due(&self, table: &AttributeTable, now: u64) -> bool {
        let enough = |entries: usize| {
            entries > 0 && entries as f64 >= self.params.changed_fraction * table.len() as f64
        };
        let longest = if self.params.early { self.clustered_at } else { u64::MAX };
        let rested = now - self.clustered_at >= self.params.drift_pages.min(longest);
        // Of clusters that were joined early, one may have held few pages only because its context had just begun.
        let grown = self.joined && now / 2 > self.clustered_at;
        self.streams > 1 && (enough(table.unclustered()) || rested && (grown || enough(table.changed())))
    }

    /// Pages written between clusterings that no new context asks for.
    pub fn drift_pages(&self) -> u64 {
        self.params.drift_pages
    }

    /// Forgets every cluster.
    pub fn clear(&mut self) {
        self.clusters.clear();
        self.means.clear();
    }

    /// Clusters the table at logical time `now` and gives every entry its stream.
    pub fn cluster(&mut self, table: &mut AttributeTable, now: u64) {
        let m = usize::from(self.streams) - 1;
        assert!(m > 0, "streams besides S0");
        self.clusterings += 1;
        self.clustered_at = now;
        // Before anything is written there is only what was loaded.
        self.params.early &= now > 0;
        self.values.clear();
        let Self { params, values, .. } = self;
        values.extend(table.entries().map(|e| (value(params.distance, e.lifetime), params.weights.of(e))));
        distinct(&mut self.values, &mut self.points);
        let cuts = match self.params.clusterer {
            Clusterer::KMeans => k_means(&self.points, m),
            Clusterer::MergeClosest => merge_closest(&self.points, m),
        };
        self.clusters.clear();
        self.clusters.extend(cuts.iter().map(|&c| (self.points[c].value, Stream::DEFAULT)));
        self.average(&cuts);
        let apart = self.clusters.len();
        self.join(table);
        self.joined = self.clusters.len() < apart;
        self.number(table);

        let (clusters, distance, mut remapped) = (&self.clusters, self.params.distance, 0);
        table.assign(|entry| {
            let stream = clusters[cluster_of(clusters, value(distance, entry.lifetime))].1;
            remapped += u64::from(entry.stream != Stream::DEFAULT && entry.stream != stream);
            stream
        });
        self.remapped += remapped;
    }

    /// The stream of a context that was not clustered yet, if it gets one before that.
    pub fn newcomer(&self, entry: &Entry) -> Option<Stream> {
        if entry.died_pages < u64::from(self.params.newcomer_pages?) {
            return None;
        }
        let value = value(self.params.distance, entry.lifetime) as f64;
        let distance = |mean: &f64| (mean - value).abs();
        let nearest = self.means.iter().zip(&self.clusters);
        nearest.min_by(|a, b| distance(a.0).total_cmp(&distance(b.0))).map(|(_, &(_, stream))| stream)
    }

    fn average(&mut self, cuts: &[usize]) {
        self.means.clear();
        let ends = cuts.iter().skip(1).copied().chain([self.points.len()]);
        for (&from, to) in cuts.iter().zip(ends) {
            let (mut sum, mut count) = (0u128, 0u128);
            for p in &self.points[from..to] {
                sum += u128::from(p.value) * u128::from(p.count);
                count += u128::from(p.count);
            }
            self.means.push(sum as f64 / count as f64);
        }
    }

    /// Joins neighbours until all gain enough by being apart.
    fn join(&mut self, table: &AttributeTable) {
        let Mapper { params, clusters, means, .. } = self;
        let mut died = vec![0.0; clusters.len()];
        for entry in table.entries() {
            died[cluster_of(clusters, value(params.distance, entry.lifetime))] +=
                entry.died_pages.max(1) as f64;
        }
        let all: f64 = died.iter().sum();
        let gain = |means: &[f64], died: &[f64]| {
            let octaves = match params.distance {
                Distance::Linear => (means[1] / means[0]).log2(),
                Distance::Log => (means[1] - means[0]) / f64::from(1 << 16),
            };
            died[0] * died[1] / (died[0] + died[1]) / all * octaves * octaves
        };
        loop {
            let gains = means.windows(2).zip(died.windows(2)).map(|(means, died)| gain(means, died));
            let Some((at, least)) = gains.enumerate().min_by(|a, b| a.1.total_cmp(&b.1)) else { break };
            if least >= params.least_gain {
                break;
            }
            let (mean, pages) = (means.remove(at + 1), died.remove(at + 1));
            clusters.remove(at + 1);
            means[at] = (means[at] * died[at] + mean * pages) / (died[at] + pages);
            died[at] += pages;
        }
    }

    /// Gives each cluster its stream.
    fn number(&mut self, table: &AttributeTable) {
        let (clusters, streams) = (self.clusters.len(), usize::from(self.streams));
        let mut shared = vec![0u64; clusters * streams];
        if self.params.numbering == Numbering::Keep && self.clusterings > 1 {
            for entry in table.entries().filter(|e| e.stream != Stream::DEFAULT) {
                let cluster = cluster_of(&self.clusters, value(self.params.distance, entry.lifetime));
                // One more than written, so that a context that has not written yet counts.
                shared[cluster * streams + usize::from(entry.stream.0)] += entry.written_pages + 1;
            }
        }
        let given = inherit(&shared, clusters, 1, streams);
        self.clusters.iter_mut().zip(given).for_each(|(cluster, stream)| cluster.1 = stream);
    }
}

impl Weights {
    fn of(self, entry: &Entry) -> u64 {
        match self {
            Weights::Equal => 1,
            // At most 2^32 contexts' worth together; one that has not written yet counts, too.
            Weights::Written => {
                let written = entry.written_pages.max(entry.samples.into());
                1 + (written >> 8).min(1 << 20)
            }
        }
    }
}

fn value(distance: Distance, lifetime: Lifetime) -> u64 {
    match distance {
        Distance::Linear => lifetime.pages(),
        Distance::Log => log2_fixed(lifetime.pages()),
    }
}

/// The cluster of a value: the last that begins at or before it.
fn cluster_of(clusters: &[(u64, Stream)], value: u64) -> usize {
    clusters.partition_point(|&(begin, _)| begin <= value).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pcstream::averaging::Averaging;
    use crate::pcstream::lifetime::Died;
    use crate::pcstream::table::EntryIndex;
    use pcstream_trace::Signature;
    use proptest::prelude::*;

    fn set(table: &mut AttributeTable, signature: u64, pages: u64) {
        let died = Died { lifetime: pages, pages: 1 };
        table.learn(Signature(signature), died, &mut { EntryIndex::NOWHERE });
    }

    /// A table whose lifetimes are the last ones learned.
    fn table(lifetimes: &[(u64, u64)]) -> AttributeTable {
        let mut t = AttributeTable::new(4096, Averaging::Weighted(1.0), 2.0);
        lifetimes.iter().for_each(|&(s, l)| set(&mut t, s, l));
        t
    }

    fn streams(table: &AttributeTable) -> Vec<(u64, u8)> {
        let mut out: Vec<_> = table.entries().map(|e| (e.signature.0, e.stream.0)).collect();
        out.sort_unstable();
        out
    }

    fn mapper(streams: u8) -> Mapper {
        Mapper::new(streams, MapperParams { drift_pages: 0, ..MapperParams::default() })
    }

    #[test]
    fn clusters_are_numbered_by_lifetime_at_first() {
        let mut t = table(&[(1, 5000), (2, 10), (3, 12), (4, 900)]);
        let mut m = mapper(4);
        assert!(m.is_due(&t, 0));
        m.cluster(&mut t, 0);
        assert_eq!(streams(&t), [(1, 3), (2, 1), (3, 1), (4, 2)]);
        assert!(!m.is_due(&t, 0));
        assert_eq!((m.clusterings(), m.remapped()), (1, 0));
    }

    #[test]
    fn fewer_contexts_than_streams_get_one_each() {
        let mut t = table(&[(1, 50), (2, 10)]);
        mapper(9).cluster(&mut t, 0);
        assert_eq!(streams(&t), [(1, 2), (2, 1)]);
        let mut equal = table(&[(1, 50), (2, 50)]);
        mapper(9).cluster(&mut equal, 0);
        assert_eq!(streams(&equal), [(1, 1), (2, 1)], "equal lifetimes belong together");
    }

    #[test]
    fn due_at_a_tenth_of_the_table() {
        let mut t = table(&(1..=30).map(|s| (s, 100 * s)).collect::<Vec<_>>());
        let mut m = mapper(9);
        m.cluster(&mut t, 0);
        for (signature, due) in [(1, false), (2, false), (3, true)] {
            set(&mut t, signature, 100_000);
            assert_eq!(m.is_due(&t, 0), due, "{signature} of 30 changed");
        }
        assert!(!mapper(1).is_due(&t, 0), "there is nothing to map to");
    }

    #[test]
    fn drift_waits_and_new_contexts_do_not() {
        let mut t = table(&[(1, 10), (2, 1000)]);
        // The first times it waits for no longer than before, if asked.
        let cases = [(50, false, [149, 150]), (50, true, [99, 100]), (500, true, [599, 600])];
        let mut m = mapper(9);
        for (clustered, early, [before, after]) in cases {
            m = Mapper::new(9, MapperParams { drift_pages: 100, early, ..MapperParams::default() });
            assert!(m.is_due(&t, 0), "both are new");
            set(&mut t, 1, 10);
            m.cluster(&mut t, clustered);
            set(&mut t, 1, 100_000);
            assert_eq!([before, after].map(|now| m.is_due(&t, now)), [false, true]);
            t = table(&[(1, 10), (2, 1000)]);
        }
        // What was loaded is clustered before anything is written.
        m.cluster(&mut t, 0);
        set(&mut t, 1, 100_000);
        assert_eq!([99, 100].map(|now| m.is_due(&t, now)), [false, true]);
        m.cluster(&mut t, 50);
        set(&mut t, 3, 7);
        assert!(m.is_due(&t, 50), "one of three was never clustered");
    }

    #[test]
    fn joined_clusters_are_due_when_twice_as_much_was_written() {
        let mut t = table(&[(1, 10), (2, 11)]);
        for (least_gain, due) in [(0.0, false), (0.01, true)] {
            let params = MapperParams { drift_pages: 100, least_gain, ..MapperParams::default() };
            let mut m = Mapper::new(9, params);
            m.cluster(&mut t, 500);
            assert_eq!([1001, 1002].map(|now| m.is_due(&t, now)), [false, due]);
        }
    }

    #[test]
    fn a_cluster_that_moves_keeps_its_stream_and_an_order_that_turns_is_not_followed() {
        let mut t = table(&[(1, 10), (2, 100), (3, 1000)]);
        let mut m = mapper(4);
        m.cluster(&mut t, 0);
        assert_eq!(streams(&t), [(1, 1), (2, 2), (3, 3)]);
        // Lifetimes turn round: every context still has its own cluster, so nobody moves.
        [(1, 4000), (2, 100), (3, 10)].iter().for_each(|&(s, l)| set(&mut t, s, l));
        m.cluster(&mut t, 0);
        assert_eq!((streams(&t), m.remapped()), (vec![(1, 1), (2, 2), (3, 3)], 0));

        let by_lifetime = MapperParams { numbering: Numbering::ByLifetime, ..MapperParams::default() };
        let mut m = Mapper::new(4, by_lifetime);
        m.cluster(&mut t, 0);
        assert_eq!((streams(&t), m.remapped()), (vec![(1, 3), (2, 2), (3, 1)], 2));
    }

    #[test]
    fn the_heavier_writer_keeps_the_number_when_a_cluster_splits() {
        let mut t = table(&[(1, 10), (2, 11), (3, 1000), (4, 2000)]);
        let mut m = mapper(4);
        m.cluster(&mut t, 0);
        assert_eq!(streams(&t), [(1, 1), (2, 1), (3, 2), (4, 3)]);
        t.stream_for_write(Signature(2), 100, &mut { EntryIndex::NOWHERE });
        // 1 leaves for 1000: {2}, {1, 3}, {4}. Context 2 brought more pages to S1 than 1.
        set(&mut t, 1, 1000);
        m.cluster(&mut t, 0);
        assert_eq!(streams(&t), [(1, 2), (2, 1), (3, 2), (4, 3)]);
        assert_eq!(m.remapped(), 1);
    }

    #[test]
    fn options_change_the_grouping() {
        let lifetimes = [(1, 1), (2, 30), (3, 1000), (4, 30_000), (5, 100_000)];
        let with = |params| {
            let mut t = table(&lifetimes);
            Mapper::new(4, params).cluster(&mut t, 0);
            streams(&t).iter().map(|e| e.1).collect::<Vec<_>>()
        };
        let default = MapperParams::default;
        assert_eq!(with(default()), [1, 1, 1, 2, 3]);
        // log2: 0, 4.9, 10.0, 14.9, 16.6
        assert_eq!(with(MapperParams { distance: Distance::Log, ..default() }), [1, 1, 2, 3, 3]);
        assert_eq!(with(MapperParams { clusterer: Clusterer::MergeClosest, ..default() }), [1, 1, 1, 2, 3]);
    }

    /// Two octaves between halves of the pages are a variance of 1.
    #[test]
    fn clusters_that_gain_little_apart_share_a_stream() {
        for distance in [Distance::Linear, Distance::Log] {
            let with = |least_gain, pages: [u64; 3]| {
                let mut t = table(&[]);
                for (signature, (lifetime, pages)) in (1..).zip([1024, 4096, 4100].into_iter().zip(pages)) {
                    let died = Died { lifetime, pages };
                    t.learn(Signature(signature), died, &mut { EntryIndex::NOWHERE });
                }
                let params = MapperParams { least_gain, distance, ..MapperParams::default() };
                Mapper::new(9, params).cluster(&mut t, 0);
                streams(&t).iter().map(|e| e.1).collect::<Vec<_>>()
            };
            assert_eq!(with(0.0, [100; 3]), [1, 2, 3], "the paper");
            assert_eq!(with(0.01, [100; 3]), [1, 2, 2], "nearly equal lifetimes");
            // A fifth of the pages against the rest: 0.2 * 0.8 * 4 octaves squared.
            assert_eq!(with(0.6, [100, 200, 200]), [1, 2, 2]);
            assert_eq!(with(0.7, [100, 200, 200]), [1, 1, 1], "too few pages");
        }
    }

    #[test]
    fn a_newcomer_goes_to_the_nearest_cluster_once_enough_is_known() {
        let mut t = table(&[(1, 10), (2, 1000)]);
        let params = |newcomer_pages| MapperParams { newcomer_pages, ..MapperParams::default() };
        let mut m = Mapper::new(9, params(Some(3)));
        let newcomer = |m: &Mapper, lifetime, pages| {
            let mut t = table(&[]);
            let died = Died { lifetime, pages };
            m.newcomer(
                t.learn(Signature(9), died, &mut { EntryIndex::NOWHERE }).expect("it was not clustered"),
            )
        };
        assert_eq!(newcomer(&m, 10, 3), None, "nothing was clustered");
        m.cluster(&mut t, 0);
        assert_eq!(newcomer(&m, 500, 3), Some(Stream(1)));
        assert_eq!(newcomer(&m, 510, 9), Some(Stream(2)));
        assert_eq!(newcomer(&m, 510, 2), None);
        let mut paper = Mapper::new(9, params(None));
        paper.cluster(&mut t, 0);
        assert_eq!(newcomer(&paper, 10, 1000), None);
    }

    #[test]
    fn weights_draw_means_to_those_who_write() {
        let mut t = table(&[(1, 10), (2, 14), (3, 16), (4, 20)]);
        t.stream_for_write(Signature(3), 1 << 20, &mut { EntryIndex::NOWHERE });
        let mut with = |weights| {
            Mapper::new(3, MapperParams { weights, ..MapperParams::default() }).cluster(&mut t, 0);
            streams(&t).iter().map(|e| e.1).collect::<Vec<_>>()
        };
        assert_eq!(with(Weights::Equal), [1, 1, 2, 2]);
        // 3 weighs 4097: {10} {14, 16, 20} costs 4 + 16, {10, 14} {16, 20} 8 + 16, {10, 14, 16} {20} 36 + 4.
        assert_eq!(with(Weights::Written), [1, 2, 2, 2]);
    }

    #[test]
    fn impossible_parameters_are_refused() {
        for (fraction, factor) in [(-0.1, 2.0), (1.1, 2.0), (f64::NAN, 2.0), (0.1, 0.9), (0.1, f64::INFINITY)]
        {
            let bad =
                MapperParams { changed_fraction: fraction, change_factor: factor, ..MapperParams::default() };
            assert!(bad.check("test").is_err(), "{bad:?}");
        }
        for least_gain in [-0.1, f64::NAN, f64::INFINITY] {
            assert!(MapperParams { least_gain, ..MapperParams::default() }.check("test").is_err());
        }
    }

    proptest! {
        /// Lifetimes of one stream never enclose those of another, and no more streams are used
        /// than there are; clustering again without a change moves nobody.
        #[test]
        fn streams_are_intervals_and_stable(
            rounds in prop::collection::vec(prop::collection::vec((0u64..20, 1u64..5000), 1..30), 1..5),
            streams in 2u8..17,
            merge in any::<bool>(),
        ) {
            let clusterer = if merge { Clusterer::MergeClosest } else { Clusterer::KMeans };
            let mut m = Mapper::new(streams, MapperParams { clusterer, ..MapperParams::default() });
            let mut t = table(&[]);
            for round in rounds {
                round.iter().for_each(|&(s, l)| set(&mut t, s, l));
                m.cluster(&mut t, 0);
                let mut by_lifetime: Vec<_> = t.entries().map(|e| (e.lifetime.pages(), e.stream.0)).collect();
                by_lifetime.sort_unstable();
                let mut runs: Vec<u8> = by_lifetime.iter().map(|e| e.1).collect();
                runs.dedup();
                let mut unique = runs.clone();
                unique.sort_unstable();
                unique.dedup();
                prop_assert_eq!(unique.len(), runs.len(), "a stream is one interval");
                prop_assert!(unique.iter().all(|&s| s > 0 && s < streams));
                let before = (self::streams(&t), m.remapped());
                m.cluster(&mut t, 0);
                prop_assert_eq!((self::streams(&t), m.remapped()), before);
            }
        }
    }
}
