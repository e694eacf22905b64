//! Saved PC attribute tables as values: read, compared and merged without a scheme.
//!
//! Idea: a signature is the same on every machine that runs the same build, so what many hosts learned
//! can be put together, and a new host starts with it. Each host's expected lifetime counts by the
//! number of lifetimes that went into it.
//!
//! Units: lifetimes in pages that were written to the host's device in the meantime. They compare
//! between devices that get the same mix of writes; a context that shares its device with more
//! other writers has a longer lifetime there.
//!
//! Invariants: one entry per signature; lifetimes and samples are at least 1. A merged table does not
//! depend on the order of its sources.
//!
//! A host that began with a merged table has its samples in its own. [`SavedTable::since`] takes them out again, or each round
//! of merging would count them once more for each host.
//!
//! Known weakness: samples count all lifetimes since the table began, also those that a running
//! average has long forgotten, so an old host weighs more than its lifetime deserves.

pub(crate) mod format;
mod key;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use pcstream_trace::Signature;

pub use format::TableError;
pub use key::KeySource;

/// Longest table that is read: four million contexts.
pub const MAX_BYTES: u64 = 64 << 20;

/// An expected lifetime in pages written by the host; at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lifetime(NonZeroU32);

impl Lifetime {
    /// From pages: 0 becomes 1, what does not fit saturates.
    pub fn from_pages(pages: u64) -> Lifetime {
        let pages = u32::try_from(pages).unwrap_or(u32::MAX);
        Lifetime(NonZeroU32::new(pages).unwrap_or(NonZeroU32::MIN))
    }

    /// In pages.
    pub fn pages(self) -> u64 {
        u64::from(self.0.get())
    }
}

/// What a table says of one context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedEntry {
    /// Identity of the context.
    pub signature: Signature,
    /// Expected lifetime.
    pub lifetime: Lifetime,
    /// How many lifetimes went into it.
    pub samples: u32,
}

/// The entries of a saved table, the least recently referenced first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedTable {
    scheme: Option<String>,
    key: KeySource,
    entries: Vec<SavedEntry>,
}

/// Several tables as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// The result. Contexts with the most samples come last: a scheme whose table is smaller keeps them.
    pub table: SavedTable,
    /// Contexts that more than one source knew.
    pub shared: usize,
    /// Contexts whose samples do not fit into 32 bits and count as 2^32 - 1.
    pub saturated: usize,
}

/// One context in two tables; at least one of them knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Identity of the context.
    pub signature: Signature,
    /// What the first table says.
    pub before: Option<SavedEntry>,
    /// What the second says.
    pub after: Option<SavedEntry>,
}

impl SavedTable {
    /// The table that `AttributeTable::save` wrote.
    pub fn parse(bytes: &[u8]) -> Result<SavedTable, TableError> {
        format::parse(bytes)
    }

    /// As bytes, for `AttributeTable::load`.
    pub fn to_bytes(&self) -> Vec<u8> {
        format::encode(self.scheme.as_deref(), self.key, self.entries.iter().copied())
    }

    /// The table without a context, and whether it had that.
    pub fn without(mut self, signature: Signature) -> (SavedTable, bool) {
        let before = self.entries.len();
        self.entries.retain(|entry| entry.signature != signature);
        let had = self.entries.len() < before;
        (self, had)
    }

    /// What was learned since a table that its owner began with: samples are less those of `base`, and a context without new
    /// ones is left out. One that has fewer samples than in the base was forgotten and learned again: it counts in full.
    /// Returns how many did, too.
    pub fn since(&self, base: &SavedTable) -> (SavedTable, usize) {
        let before: BTreeMap<Signature, u32> =
            base.entries.iter().map(|e| (e.signature, e.samples)).collect();
        let of_base = |entry: &SavedEntry| before.get(&entry.signature).copied().unwrap_or(0);
        let again = self.entries.iter().filter(|entry| entry.samples < of_base(entry)).count();
        let new = |entry: &SavedEntry| {
            let samples = entry.samples.checked_sub(of_base(entry)).unwrap_or(entry.samples);
            (samples > 0).then_some(SavedEntry { samples, ..*entry })
        };
        (SavedTable { entries: self.entries.iter().filter_map(new).collect(), ..self.clone() }, again)
    }

    /// The scheme that learned it; `None` if it is not known, or there were several.
    pub fn scheme(&self) -> Option<&str> {
        self.scheme.as_deref()
    }

    /// What its keys are. An older file does not say: then those that its scheme has by default.
    pub fn key(&self) -> KeySource {
        self.key
    }

    /// Its entries, the least recently referenced first.
    pub fn entries(&self) -> &[SavedEntry] {
        &self.entries
    }

    /// The mean of tables, weighted by samples and rounded to the nearest page. Their keys must be of one kind, which is for
    /// the caller to check: the result counts as of that of the first.
    pub fn merge<'a>(tables: impl IntoIterator<Item = &'a SavedTable>) -> Merged {
        #[derive(Default)]
        struct Sum {
            /// At most 2^32 tables of 2^32 samples of 2^32 pages fit.
            weighted: u128,
            samples: u128,
            sources: usize,
        }
        let mut sums: BTreeMap<Signature, Sum> = BTreeMap::new();
        let mut schemes = BTreeSet::new();
        let mut key = None;
        for table in tables {
            key.get_or_insert(table.key);
            schemes.insert(table.scheme());
            for entry in table.entries() {
                let sum = sums.entry(entry.signature).or_default();
                sum.weighted += u128::from(entry.lifetime.pages()) * u128::from(entry.samples);
                sum.samples += u128::from(entry.samples);
                sum.sources += 1;
            }
        }
        let scheme = schemes.first().filter(|_| schemes.len() == 1).copied().flatten().map(str::to_owned);
        let shared = sums.values().filter(|sum| sum.sources > 1).count();
        let saturated = sums.values().filter(|sum| sum.samples > u128::from(u32::MAX)).count();
        let entry = |(&signature, sum): (&Signature, &Sum)| SavedEntry {
            signature,
            lifetime: Lifetime::from_pages(((sum.weighted + sum.samples / 2) / sum.samples) as u64),
            samples: u32::try_from(sum.samples).unwrap_or(u32::MAX),
        };
        let mut entries: Vec<SavedEntry> = sums.iter().map(entry).collect();
        // Stable: equal samples stay in the order of signatures.
        entries.sort_by_key(|entry| entry.samples);
        Merged { table: SavedTable { scheme, key: key.unwrap_or_default(), entries }, shared, saturated }
    }

    /// Every context of either table, in the order of signatures.
    pub fn diff(before: &SavedTable, after: &SavedTable) -> Vec<Difference> {
        let mut all: BTreeMap<Signature, Difference> = BTreeMap::new();
        let missing = |signature| Difference { signature, before: None, after: None };
        for entry in before.entries() {
            all.entry(entry.signature).or_insert_with(|| missing(entry.signature)).before = Some(*entry);
        }
        for entry in after.entries() {
            all.entry(entry.signature).or_insert_with(|| missing(entry.signature)).after = Some(*entry);
        }
        all.into_values().collect()
    }
}

impl Difference {
    /// The second lifetime over the first; `None` where one table does not know the context.
    pub fn ratio(&self) -> Option<f64> {
        Some(self.after?.lifetime.pages() as f64 / self.before?.lifetime.pages() as f64)
    }

    /// Whether one table does not know the context, or lifetimes differ by more than `factor`.
    pub fn is_change(&self, factor: f64) -> bool {
        self.ratio().is_none_or(|ratio| ratio > factor || ratio * factor < 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(signature: u64, pages: u64, samples: u32) -> SavedEntry {
        SavedEntry { signature: Signature(signature), lifetime: Lifetime::from_pages(pages), samples }
    }

    fn table(entries: &[(u64, u64, u32)]) -> SavedTable {
        let entries = entries.iter().map(|&(s, l, n)| entry(s, l, n)).collect();
        SavedTable { entries, ..SavedTable::default() }
    }

    #[test]
    fn a_context_can_be_left_out() {
        let both = table(&[(1, 100, 3), (2, 7, 1)]);
        assert_eq!(both.clone().without(Signature(2)), (table(&[(1, 100, 3)]), true));
        assert_eq!(both.clone().without(Signature(3)), (both, false));
    }

    #[test]
    fn lifetimes_are_weighted_by_samples() {
        let merged = SavedTable::merge([
            &table(&[(1, 100, 3), (2, 7, 1)]),
            &table(&[(3, 50, 9), (1, 200, 1)]),
            &table(&[(1, 1000, u32::MAX)]),
        ]);
        // (300 + 200 + 1000 (2^32 - 1)) / (2^32 + 3)
        assert_eq!(merged.table, table(&[(2, 7, 1), (3, 50, 9), (1, 1000, u32::MAX)]));
        assert_eq!((merged.shared, merged.saturated), (1, 1));
        let two = SavedTable::merge([&table(&[(1, 100, 3)]), &table(&[(1, 202, 1)])]);
        assert_eq!(two.table, table(&[(1, 126, 4)]), "125.5 is rounded up");
    }

    #[test]
    fn what_a_table_began_with_is_taken_out() {
        let base = table(&[(1, 100, 10), (2, 50, 4), (3, 9, 7)]);
        // Went on, did not, was learned again, and is new.
        let host = table(&[(1, 200, 15), (2, 50, 4), (3, 30, 2), (4, 5, 1)]);
        assert_eq!(host.since(&base), (table(&[(1, 200, 5), (3, 30, 2), (4, 5, 1)]), 1));
        assert_eq!(host.since(&SavedTable::default()), (host.clone(), 0));
    }

    /// Two hosts begin with what was merged and learn as much again in each round: samples grow by that, and not by powers.
    #[test]
    fn rounds_of_a_fleet_count_each_sample_once() {
        let mut fleet = table(&[(1, 100, 10)]);
        for round in 1..=10u32 {
            let hosts = [
                table(&[(1, 100, 10 * (2 * round - 1) + 10)]),
                table(&[(1, 400, 10 * (2 * round - 1) + 10)]),
            ];
            let new = hosts.map(|host| host.since(&fleet).0);
            fleet = SavedTable::merge([&fleet].into_iter().chain(&new)).table;
            assert_eq!(fleet.entries()[0].samples, 10 * (2 * round + 1));
        }
    }

    #[test]
    fn a_merged_table_is_of_a_scheme_only_if_all_were() {
        let of = |scheme: &str| SavedTable { scheme: Some(scheme.to_owned()), ..table(&[(1, 2, 3)]) };
        let merged = |tables: &[SavedTable]| SavedTable::merge(tables).table.scheme().map(str::to_owned);
        assert_eq!(merged(&[of("a"), of("a")]).as_deref(), Some("a"));
        assert_eq!(merged(&[of("a"), of("b")]), None);
        assert_eq!(merged(&[of("a"), table(&[])]), None);
    }

    #[test]
    fn nothing_merges_to_nothing() {
        let merged = SavedTable::merge([]);
        assert_eq!(merged.table, SavedTable::default());
        assert_eq!(SavedTable::parse(&merged.table.to_bytes()), Ok(SavedTable::default()));
    }

    #[test]
    fn differences_by_hand() {
        let (a, b) =
            (table(&[(1, 100, 1), (2, 100, 1), (3, 100, 1)]), table(&[(4, 9, 1), (3, 50, 1), (2, 201, 1)]));
        let differences = SavedTable::diff(&a, &b);
        let ratios: Vec<_> = differences.iter().map(|d| (d.signature.0, d.ratio())).collect();
        assert_eq!(ratios, [(1, None), (2, Some(2.01)), (3, Some(0.5)), (4, None)]);
        let changed: Vec<_> =
            differences.iter().filter(|d| d.is_change(2.0)).map(|d| d.signature.0).collect();
        assert_eq!(changed, [1, 2, 4], "exactly the factor is no change");
    }

    fn tables() -> impl Strategy<Value = Vec<SavedTable>> {
        let entries = prop::collection::btree_map(0u64..8, (1u64..1 << 33, 1u32..), 0..8);
        let table = entries.prop_map(|entries| SavedTable {
            scheme: Some("pcstream".to_owned()),
            key: KeySource::ContextTree,
            entries: entries.into_iter().map(|(s, (l, n))| entry(s, l, n)).collect(),
        });
        prop::collection::vec(table, 1..5)
    }

    proptest! {
        #[test]
        fn bytes_come_back(tables in tables()) {
            for table in tables {
                prop_assert_eq!(SavedTable::parse(&table.to_bytes()), Ok(table));
            }
        }

        /// The mean lies between the sources', whatever their order.
        #[test]
        fn merging_is_a_mean_in_any_order(tables in tables()) {
            let merged = SavedTable::merge(&tables);
            prop_assert_eq!(&SavedTable::merge(tables.iter().rev()), &merged);
            for entry in merged.table.entries() {
                let of = tables.iter().flat_map(SavedTable::entries).filter(|e| e.signature == entry.signature);
                let (least, most) = (of.clone().map(|e| e.lifetime).min(), of.map(|e| e.lifetime).max());
                prop_assert!(least <= Some(entry.lifetime) && Some(entry.lifetime) <= most);
            }
            prop_assert_eq!(SavedTable::merge([&merged.table]).table, merged.table);
        }
    }
}
