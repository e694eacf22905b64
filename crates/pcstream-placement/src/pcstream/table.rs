//! The PC attribute table (FAST'19, section 5.1): what is known of each program context.
//!
//! Idea: a bounded hash table from signature to expected lifetime and stream. It is not tied to
//! processes: a compiler that lives for 20 ms starts with the history of its predecessors. It can
//! be saved and loaded, so that a run starts with the history of an earlier run.
//!
//! An entry is made when the first lifetime of a context is known; before that there is nothing to
//! keep, and the context goes to S0 either way.
//!
//! Size: an entry counts 13 bytes, the paper's 12 (64-bit signature, 32-bit lifetime) and one for
//! the stream; the table holds `max_bytes / 13` entries (307 in 4 KB, 27,692 in 360 KB). That is
//! the size of the modelled table; with links and statistics, ours takes about 100 bytes an entry.
//! When it is full, the least recently referenced entry goes, a reference being a write by the
//! context or a new lifetime. The paper does not name its eviction policy.
//!
//! Units: lifetimes in pages of logical time, saturating at 2^32 - 1 (16 TiB written).
//!
//! Invariants: at most `capacity` entries, one per signature; `changed` counts the entries that are
//! marked so, `unclustered` those of them that never were clustered; every lifetime is at least 1.

use pcstream_trace::Signature;
use rustc_hash::FxHashMap;

use crate::lru::Lru;
use crate::pcstream::averaging::{Averaging, Evidence};
use crate::pcstream::lifetime::Died;
use crate::saved_table::SavedEntry;
use crate::scheme::Stream;

pub use crate::saved_table::Lifetime;

/// Bytes an entry counts against the table's size.
pub const ENTRY_BYTES: u64 = 13;

/// An entry, as readers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Identity of the context (or of another key).
    pub signature: Signature,
    /// Expected lifetime.
    pub lifetime: Lifetime,
    /// Requests whose lifetimes went into it.
    pub samples: u32,
    /// Pages whose lifetimes went into it.
    pub died_pages: u64,
    /// Stream of its data; S0 until it was first clustered.
    pub stream: Stream,
    /// Pages that the context has written since the entry was made.
    pub written_pages: u64,
}

#[derive(Clone, Copy)]
struct Slot {
    entry: Entry,
    /// The mean of what died, before it was rounded: small steps add up.
    mean: f64,
    /// What the data that still lives adds to that.
    alive: f64,
    /// Lifetime when it was last clustered, if it was.
    clustered: Option<Lifetime>,
    changed: bool,
}

/// The table.
pub struct AttributeTable {
    slots: Lru<Slot>,
    index: FxHashMap<Signature, u32>,
    capacity: usize,
    averaging: Averaging,
    /// A lifetime has changed if it is more than this many times longer or shorter.
    change_factor: f64,
    changed: usize,
    unclustered: usize,
    evictions: u64,
}

/// A place in the table, to find an entry again quickly. It may be stale: the entry there may
/// since belong to another context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryIndex(u32);

impl EntryIndex {
    /// No place.
    pub const NOWHERE: EntryIndex = EntryIndex(u32::MAX);
}

impl AttributeTable {
    /// An empty table of at most `max_bytes`, but at least one entry.
    pub fn new(max_bytes: u64, averaging: Averaging, change_factor: f64) -> AttributeTable {
        AttributeTable {
            slots: Lru::new(),
            index: FxHashMap::default(),
            capacity: AttributeTable::room(max_bytes),
            averaging,
            change_factor,
            changed: 0,
            unclustered: 0,
            evictions: 0,
        }
    }

    /// Entries for which a table of so many bytes has room.
    pub fn room(max_bytes: u64) -> usize {
        (max_bytes / ENTRY_BYTES).clamp(1, u64::from(u32::MAX) - 1) as usize
    }

    /// Entries now.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether no context is known.
    pub fn is_empty(&self) -> bool {
        self.slots.len() == 0
    }

    /// Modelled size in bytes.
    pub fn bytes(&self) -> u64 {
        self.slots.len() as u64 * ENTRY_BYTES
    }

    /// Entries that made room for others.
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Entries whose lifetime changed since it was last clustered.
    pub fn changed(&self) -> usize {
        self.changed
    }

    /// Entries that were never clustered; they count as changed too.
    pub fn unclustered(&self) -> usize {
        self.unclustered
    }

    /// The entry of a context.
    pub fn get(&self, signature: Signature) -> Option<&Entry> {
        self.index.get(&signature).map(|&at| &self.slots[at].entry)
    }

    /// Every entry, the least recently referenced first.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.slots.iter().map(|slot| &slot.entry)
    }

    /// The stream of a context that writes `pages`, S0 if it is not known. Updates `place`.
    #[inline]
    pub fn stream_for_write(&mut self, signature: Signature, pages: u32, place: &mut EntryIndex) -> Stream {
        let Some(at) = self.locate(signature, place) else { return Stream::DEFAULT };
        self.slots.reference(at);
        let entry = &mut self.slots[at].entry;
        entry.written_pages += u64::from(pages);
        entry.stream
    }

    /// Takes lifetimes of a context into account. Returns its entry if it has not been clustered yet.
    /// Updates `place`.
    pub fn learn(&mut self, signature: Signature, died: Died, place: &mut EntryIndex) -> Option<&Entry> {
        let at = match self.locate(signature, place) {
            Some(at) => {
                self.average(at, died);
                self.slots.reference(at);
                at
            }
            None => {
                let entry = Entry {
                    signature,
                    lifetime: Lifetime::from_pages(died.lifetime),
                    samples: 1,
                    died_pages: died.pages,
                    stream: Stream::DEFAULT,
                    written_pages: 0,
                };
                let at = self.insert(entry);
                *place = EntryIndex(at);
                at
            }
        };
        self.mark(at);
        let slot = &self.slots[at];
        slot.clustered.is_none().then_some(&slot.entry)
    }

    /// Puts back what an earlier run knew of a context, as if just learned; it counts for as much as can be.
    pub(crate) fn restore(&mut self, saved: SavedEntry) {
        let SavedEntry { signature, lifetime, samples } = saved;
        if let Some(&at) = self.index.get(&signature) {
            self.remove(at);
        }
        let at = self.insert(Entry {
            signature,
            lifetime,
            samples,
            died_pages: u64::from(u32::MAX),
            stream: Stream::DEFAULT,
            written_pages: 0,
        });
        self.mark(at);
    }

    /// Data of a context still lives: `pages` pages, whose ages sum to `ages`. Their lifetimes are censored samples. If
    /// lifetimes are exponential, their mean is most likely all time lived, by the dead and the living, over the number of
    /// the dead; of a context without any dead, no more than the mean age is known.
    pub fn count_alive(&mut self, signature: Signature, ages: u128, pages: u64) {
        let at = if let Some(&at) = self.index.get(&signature) {
            let Slot { entry, mean, alive, .. } = &mut self.slots[at];
            if entry.died_pages > 0 {
                *alive = ages as f64 / entry.died_pages as f64;
            } else {
                *mean = ages as f64 / pages as f64;
            }
            entry.lifetime = Lifetime::from_pages((*mean + *alive).round() as u64);
            at
        } else {
            self.insert(Entry {
                signature,
                lifetime: Lifetime::from_pages((ages / u128::from(pages)) as u64),
                samples: 0,
                died_pages: 0,
                stream: Stream::DEFAULT,
                written_pages: 0,
            })
        };
        self.mark(at);
    }

    /// Gives a context a stream before it is clustered, if `stream` knows one.
    pub fn settle(&mut self, signature: Signature, stream: impl FnOnce(&Entry) -> Option<Stream>) {
        if let Some(&at) = self.index.get(&signature) {
            let entry = &mut self.slots[at].entry;
            entry.stream = stream(entry).unwrap_or(entry.stream);
        }
    }

    /// The same for every context that was not clustered yet.
    pub fn settle_all(&mut self, stream: impl Fn(&Entry) -> Option<Stream>) {
        for slot in self.slots.values_mut().filter(|slot| slot.clustered.is_none()) {
            slot.entry.stream = stream(&slot.entry).unwrap_or(slot.entry.stream);
        }
    }

    /// Forgets every context.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.index.clear();
        (self.changed, self.unclustered) = (0, 0);
    }

    /// Gives every entry the stream that `assign` returns, and takes its lifetime for clustered.
    pub fn assign(&mut self, mut assign: impl FnMut(&Entry) -> Stream) {
        for slot in self.slots.values_mut() {
            slot.entry.stream = assign(&slot.entry);
            slot.clustered = Some(slot.entry.lifetime);
            slot.changed = false;
        }
        (self.changed, self.unclustered) = (0, 0);
    }

    fn locate(&self, signature: Signature, place: &mut EntryIndex) -> Option<u32> {
        let hinted = self.slots.get(place.0).is_some_and(|s| s.entry.signature == signature);
        if !hinted {
            *place = EntryIndex(*self.index.get(&signature)?);
        }
        Some(place.0)
    }

    fn average(&mut self, at: u32, died: Died) {
        let Slot { entry, mean, alive, .. } = &mut self.slots[at];
        let seen = Evidence { requests: entry.samples, pages: entry.died_pages };
        *mean = self.averaging.average(*mean, seen, died.lifetime as f64, died.pages);
        entry.lifetime = Lifetime::from_pages((*mean + *alive).round() as u64);
        entry.samples = entry.samples.saturating_add(1);
        entry.died_pages = entry.died_pages.saturating_add(died.pages);
    }

    fn insert(&mut self, entry: Entry) -> u32 {
        if self.slots.len() >= self.capacity {
            self.evictions += 1;
            self.slots.oldest().into_iter().for_each(|oldest| self.remove(oldest));
        }
        let mean = entry.lifetime.pages() as f64;
        let at = self.slots.push(Slot { entry, mean, alive: 0.0, clustered: None, changed: false });
        let before = self.index.insert(entry.signature, at);
        assert!(before.is_none(), "one entry per signature");
        self.unclustered += 1;
        at
    }

    /// Removes an entry; another one may move into its place.
    fn remove(&mut self, at: u32) {
        let gone = self.slots.remove(at);
        self.index.remove(&gone.entry.signature);
        self.changed -= usize::from(gone.changed);
        self.unclustered -= usize::from(gone.clustered.is_none());
        if let Some(moved) = self.slots.get(at) {
            self.index.insert(moved.entry.signature, at);
        }
    }

    /// Marks an entry as changed, or not, by its lifetime now and when it was last clustered.
    fn mark(&mut self, at: u32) {
        let slot = &mut self.slots[at];
        let now = slot.entry.lifetime.pages() as f64;
        let changed = slot.clustered.is_none_or(|then| {
            let then = then.pages() as f64;
            now > then * self.change_factor || now * self.change_factor < then
        });
        self.changed += usize::from(changed);
        self.changed -= usize::from(std::mem::replace(&mut slot.changed, changed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table(entries: u64) -> AttributeTable {
        AttributeTable::new(entries * ENTRY_BYTES, Averaging::Half, 2.0)
    }

    fn died(lifetime: u64) -> Died {
        Died { lifetime, pages: 1 }
    }

    fn learn(table: &mut AttributeTable, signature: u64, pages: u64) {
        table.learn(Signature(signature), died(pages), &mut { EntryIndex::NOWHERE });
    }

    fn lifetime(table: &AttributeTable, signature: u64) -> Option<u64> {
        table.get(Signature(signature)).map(|e| e.lifetime.pages())
    }

    #[test]
    fn sizes_of_the_papers_tables() {
        let capacity = |bytes| AttributeTable::new(bytes, Averaging::Half, 2.0).capacity;
        assert_eq!([4096, 12 * 1024, 360_000].map(capacity), [315, 945, 27_692]);
        assert_eq!(capacity(0), 1, "never none");
    }

    #[test]
    fn lifetimes_are_averaged_and_stay_in_range() {
        let run = |averaging, lifetimes: &[(u64, u64)]| {
            let mut t = AttributeTable::new(1000, averaging, 2.0);
            for &(lifetime, pages) in lifetimes {
                t.learn(Signature(1), Died { lifetime, pages }, &mut { EntryIndex::NOWHERE });
            }
            lifetime(&t, 1).expect("known")
        };
        assert_eq!(run(Averaging::Half, &[(100, 1), (200, 9), (51, 1)]), 100);
        assert_eq!(run(Averaging::Half, &[(u64::MAX, 1), (u64::MAX, 1)]), u64::from(u32::MAX), "saturates");
        assert_eq!(run(Averaging::Half, &[(1, 1), (0, 1)]), 1, "never 0");
        let slowly = Averaging::Pages { window: 1000 };
        let steps = [&[(1000, 1000)][..], &[(2000, 1); 693]].concat();
        assert_eq!(run(slowly, &steps), 1500, "steps of less than a page add up");
    }

    #[test]
    fn the_least_recently_referenced_goes() {
        let mut t = table(3);
        [1, 2, 3].iter().for_each(|&s| learn(&mut t, s, 10));
        // A write references 1, a lifetime references 2: 3 is the oldest.
        t.stream_for_write(Signature(1), 5, &mut { EntryIndex::NOWHERE });
        learn(&mut t, 2, 10);
        learn(&mut t, 4, 10);
        assert_eq!(t.entries().map(|e| e.signature.0).collect::<Vec<_>>(), [1, 2, 4]);
        assert_eq!((t.evictions(), t.len(), t.bytes()), (1, 3, 39));
        assert_eq!(t.get(Signature(1)).expect("kept").written_pages, 5);
    }

    #[test]
    fn changed_counts_entries_that_left_their_clustered_lifetime_by_the_factor() {
        let mut t = table(10);
        learn(&mut t, 1, 100);
        learn(&mut t, 2, 100);
        assert_eq!((t.changed(), t.unclustered()), (2, 2), "a first lifetime is a change");
        t.assign(|_| Stream(1));
        assert_eq!((t.changed(), t.unclustered()), (0, 0));
        learn(&mut t, 1, 300);
        assert_eq!((lifetime(&t, 1), t.changed()), (Some(200), 0), "exactly the factor is none");
        learn(&mut t, 1, 202);
        assert_eq!((lifetime(&t, 1), t.changed()), (Some(201), 1));
        learn(&mut t, 1, 1);
        assert_eq!((lifetime(&t, 1), t.changed()), (Some(101), 0), "it came back");
        learn(&mut t, 1, 1);
        learn(&mut t, 1, 1);
        assert_eq!((lifetime(&t, 1), t.changed()), (Some(26), 1), "shorter counts too");
        t.clear();
        assert_eq!((t.len(), t.changed(), t.unclustered()), (0, 0, 0));
    }

    #[test]
    fn a_stale_place_is_noticed() {
        let mut t = table(2);
        let mut place = EntryIndex::NOWHERE;
        t.learn(Signature(1), died(10), &mut place);
        t.assign(|_| Stream(3));
        learn(&mut t, 2, 10);
        learn(&mut t, 4, 10);
        assert_eq!(t.stream_for_write(Signature(1), 1, &mut place), Stream::DEFAULT, "evicted");
        let mut other = place;
        assert_eq!(t.stream_for_write(Signature(2), 1, &mut other), Stream::DEFAULT);
        t.assign(|e| Stream(e.signature.0 as u8));
        assert_eq!(t.stream_for_write(Signature(4), 1, &mut other), Stream(4));
    }

    proptest! {
        /// Against an obvious table: a vector in order of reference.
        #[test]
        fn behaves_like_a_plain_list(
            operations in prop::collection::vec((0u8..4, 0u64..12, 1u64..1000), 1..200),
            capacity in 1u64..8,
        ) {
            let mut t = table(capacity);
            let mut plain: Vec<(u64, u64)> = Vec::new();
            let mut places = [EntryIndex::NOWHERE; 12];
            for (operation, signature, pages) in operations {
                let place = &mut places[signature as usize];
                let known = plain.iter().position(|e| e.0 == signature);
                match operation {
                    0 => {
                        t.stream_for_write(Signature(signature), 1, place);
                        if let Some(i) = known {
                            let e = plain.remove(i);
                            plain.push(e);
                        }
                    }
                    1 if signature == 0 => {
                        t.clear();
                        plain.clear();
                    }
                    _ => {
                        t.learn(Signature(signature), died(pages), place);
                        let old = known.map(|i| plain.remove(i).1);
                        if old.is_none() && plain.len() as u64 == capacity {
                            plain.remove(0);
                        }
                        plain.push((signature, old.map_or(pages, |o| ((o + pages) / 2).max(1))));
                    }
                }
                let ours: Vec<_> = t.entries().map(|e| (e.signature.0, e.lifetime.pages())).collect();
                prop_assert_eq!(&ours, &plain);
                prop_assert_eq!(t.changed(), plain.len(), "nothing was clustered");
                prop_assert_eq!(t.unclustered(), plain.len());
            }
        }
    }
}
