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
//! the stream; the table holds `max_bytes / 13` entries (315 in 4 KB, 27,692 in 360 KB). That is
//! the size of the modelled table; with links and statistics, ours takes about 60 bytes an entry.
//! When it is full, the least recently referenced entry goes, a reference being a write by the
//! context or a new lifetime. The paper does not name its eviction policy.
//!
//! Units: lifetimes in pages of logical time, saturating at 2^32 - 1 (16 TiB written).
//!
//! Invariants: at most `capacity` entries, one per signature; `changed` counts the entries that are
//! marked so, `unclustered` those of them that never were clustered; every lifetime is at least 1.

use pcstream_trace::Signature;
use rustc_hash::FxHashMap;

use crate::scheme::Stream;

/// Bytes an entry counts against the table's size.
pub const ENTRY_BYTES: u64 = 13;

const NIL: u32 = u32::MAX;

/// An expected lifetime in pages written by the host; at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lifetime(u32);

impl Lifetime {
    /// From pages: 0 becomes 1, what does not fit saturates.
    pub fn from_pages(pages: u64) -> Lifetime {
        Lifetime(pages.clamp(1, u64::from(u32::MAX)) as u32)
    }

    /// In pages.
    pub fn pages(self) -> u64 {
        u64::from(self.0)
    }
}

/// How a new lifetime changes the expected one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Averaging {
    /// (l_old + l_new) / 2, rounded down (FAST'19).
    #[default]
    Half,
    /// (1 - w) l_old + w l_new, rounded to the nearest page (the dissertation says "weighted
    /// average" without the weight). 0 < w <= 1.
    Weighted(f64),
    /// The arithmetic mean of all lifetimes seen.
    Mean,
}

impl Averaging {
    fn average(self, old: Lifetime, samples: u32, new: Lifetime) -> Lifetime {
        let (a, b) = (old.pages(), new.pages());
        Lifetime::from_pages(match self {
            Averaging::Half => (a + b) / 2,
            // Both terms are below 2^33, where f64 is exact to 2^-19.
            Averaging::Weighted(w) => (a as f64 * (1.0 - w) + b as f64 * w).round() as u64,
            Averaging::Mean => {
                let n = u64::from(samples);
                let total = u128::from(a) * u128::from(n) + u128::from(b);
                ((total + u128::from(n.div_ceil(2))) / u128::from(n + 1)) as u64
            }
        })
    }
}

/// A saved table that cannot be used. Offsets are in bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// Too short or too long for what it says.
    #[error("{found} bytes, expected {expected}; the file is cut off or damaged, save it again")]
    Length {
        /// Its length.
        found: usize,
        /// The length that its header implies.
        expected: u64,
    },
    /// Not a saved table.
    #[error("it does not begin with '{}' but with {found:02x?}; this is not a saved PC attribute table", MAGIC.escape_ascii())]
    Magic {
        /// The first bytes.
        found: Vec<u8>,
    },
    /// Of a later version.
    #[error(
        "offset 8: format version {found}, this program reads version {VERSION}; use the program that saved it"
    )]
    Version {
        /// The version.
        found: u32,
    },
    /// The checksum does not match.
    #[error("checksum {found:016x}, computed {computed:016x}; the file is damaged, save it again")]
    Checksum {
        /// As stored.
        found: u64,
        /// Of the bytes.
        computed: u64,
    },
    /// An entry that no table holds.
    #[error("offset {offset}: signature {signature} {problem}")]
    Entry {
        /// Where the entry begins.
        offset: usize,
        /// Its signature.
        signature: Signature,
        /// What is wrong with it.
        problem: &'static str,
    },
}

const MAGIC: [u8; 8] = *b"pcstable";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 16;
const SAVED_BYTES: usize = 16;
const CHECKSUM_BYTES: usize = 8;

/// An entry, as readers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Identity of the context (or of another key).
    pub signature: Signature,
    /// Expected lifetime.
    pub lifetime: Lifetime,
    /// How many lifetimes went into it.
    pub samples: u32,
    /// Stream of its data; S0 until it was first clustered.
    pub stream: Stream,
    /// Pages that the context has written since the entry was made.
    pub written_pages: u64,
}

#[derive(Clone, Copy)]
struct Slot {
    entry: Entry,
    /// Lifetime when it was last clustered, 0 if never.
    clustered: u32,
    changed: bool,
    older: u32,
    newer: u32,
}

/// The table.
pub struct AttributeTable {
    slots: Vec<Slot>,
    index: FxHashMap<Signature, u32>,
    capacity: usize,
    averaging: Averaging,
    /// A lifetime has changed if it is more than this many times longer or shorter.
    change_factor: f64,
    oldest: u32,
    newest: u32,
    changed: usize,
    unclustered: usize,
    evictions: u64,
}

/// A place in the table, to find an entry again quickly. It may be stale: the entry there may
/// since belong to another context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u32);

impl Place {
    /// No place.
    pub const NOWHERE: Place = Place(NIL);
}

impl AttributeTable {
    /// An empty table of at most `max_bytes`, but at least one entry.
    pub fn new(max_bytes: u64, averaging: Averaging, change_factor: f64) -> AttributeTable {
        let capacity = (max_bytes / ENTRY_BYTES).clamp(1, u64::from(NIL) - 1) as usize;
        AttributeTable {
            slots: Vec::new(),
            index: FxHashMap::default(),
            capacity,
            averaging,
            change_factor,
            oldest: NIL,
            newest: NIL,
            changed: 0,
            unclustered: 0,
            evictions: 0,
        }
    }

    /// Entries now.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether no context is known.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
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
        self.index.get(&signature).map(|&s| &self.slots[s as usize].entry)
    }

    /// Every entry, the least recently referenced first.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        let mut at = self.oldest;
        std::iter::from_fn(move || {
            let slot = self.slots.get(at as usize)?;
            at = slot.newer;
            Some(&slot.entry)
        })
    }

    /// The stream of a context that writes `pages`, S0 if it is not known. Updates `place`.
    #[inline]
    pub fn stream_for_write(&mut self, signature: Signature, pages: u32, place: &mut Place) -> Stream {
        let Some(at) = self.locate(signature, place) else { return Stream::DEFAULT };
        self.reference(at);
        let entry = &mut self.slots[at as usize].entry;
        entry.written_pages += u64::from(pages);
        entry.stream
    }

    /// Takes a new lifetime of a context into account, and says whether it is the first. Updates
    /// `place`.
    pub fn learn(&mut self, signature: Signature, new: Lifetime, place: &mut Place) -> bool {
        let known = self.locate(signature, place);
        let at = match known {
            Some(at) => {
                let entry = &mut self.slots[at as usize].entry;
                entry.lifetime = self.averaging.average(entry.lifetime, entry.samples, new);
                entry.samples = entry.samples.saturating_add(1);
                self.reference(at);
                at
            }
            None => {
                let at = self.insert(signature, new, 1);
                *place = Place(at);
                at
            }
        };
        self.mark(at);
        known.is_none()
    }

    /// Gives a known context a stream before it is clustered.
    pub fn set_stream(&mut self, signature: Signature, stream: Stream) {
        if let Some(&at) = self.index.get(&signature) {
            self.slots[at as usize].entry.stream = stream;
        }
    }

    /// Forgets a context, as when its process exits in the paper's comparison without a table.
    pub fn forget(&mut self, signature: Signature) {
        if let Some(&at) = self.index.get(&signature) {
            self.remove(at);
        }
    }

    /// Gives every entry the stream that `assign` returns, and takes its lifetime for clustered.
    pub fn assign(&mut self, mut assign: impl FnMut(&Entry) -> Stream) {
        for slot in &mut self.slots {
            slot.entry.stream = assign(&slot.entry);
            slot.clustered = slot.entry.lifetime.0;
            slot.changed = false;
        }
        (self.changed, self.unclustered) = (0, 0);
    }

    /// The table as bytes: lifetimes and their samples, least recently referenced first. Streams
    /// are not saved: they depend on the device. Little-endian:
    ///
    /// | offset | bytes | |
    /// |---|---|---|
    /// | 0 | 8 | `pcstable` |
    /// | 8 | 4 | format version, 1 |
    /// | 12 | 4 | number of entries n |
    /// | 16 + 16 i | 8 | signature |
    /// | 24 + 16 i | 4 | lifetime in pages, at least 1 |
    /// | 28 + 16 i | 4 | samples, at least 1 |
    /// | 16 + 16 n | 8 | FNV-1a 64 of all bytes before |
    pub fn save(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES + SAVED_BYTES * self.len() + CHECKSUM_BYTES);
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend((self.len() as u32).to_le_bytes());
        for entry in self.entries() {
            out.extend(entry.signature.0.to_le_bytes());
            out.extend(entry.lifetime.0.to_le_bytes());
            out.extend(entry.samples.to_le_bytes());
        }
        let checksum = fnv1a(&out);
        out.extend(checksum.to_le_bytes());
        out
    }

    /// Adds the entries of a saved table, as if just learned. If there are more than fit, the most
    /// recently referenced stay.
    pub fn load(&mut self, bytes: &[u8]) -> Result<(), TableError> {
        let entries = parse(bytes)?;
        for (signature, lifetime, samples) in entries {
            self.forget(signature);
            let at = self.insert(signature, lifetime, samples);
            self.mark(at);
        }
        Ok(())
    }

    fn locate(&self, signature: Signature, place: &mut Place) -> Option<u32> {
        let hinted = self.slots.get(place.0 as usize).is_some_and(|s| s.entry.signature == signature);
        if !hinted {
            *place = Place(*self.index.get(&signature)?);
        }
        Some(place.0)
    }

    fn insert(&mut self, signature: Signature, lifetime: Lifetime, samples: u32) -> u32 {
        if self.slots.len() >= self.capacity {
            self.evictions += 1;
            self.remove(self.oldest);
        }
        let at = self.slots.len() as u32;
        let entry = Entry { signature, lifetime, samples, stream: Stream::DEFAULT, written_pages: 0 };
        self.slots.push(Slot { entry, clustered: 0, changed: false, older: NIL, newer: NIL });
        let before = self.index.insert(signature, at);
        assert!(before.is_none(), "one entry per signature");
        self.unclustered += 1;
        self.link_newest(at);
        at
    }

    /// Removes an entry; the last slot moves into its place.
    fn remove(&mut self, at: u32) {
        self.unlink(at);
        let gone = self.slots.swap_remove(at as usize);
        self.index.remove(&gone.entry.signature);
        self.changed -= usize::from(gone.changed);
        self.unclustered -= usize::from(gone.clustered == 0);
        let Some(&moved) = self.slots.get(at as usize) else { return };
        self.index.insert(moved.entry.signature, at);
        match moved.older {
            NIL => self.oldest = at,
            o => self.slots[o as usize].newer = at,
        }
        match moved.newer {
            NIL => self.newest = at,
            n => self.slots[n as usize].older = at,
        }
    }

    /// Marks an entry as changed, or not, by its lifetime now and when it was last clustered.
    fn mark(&mut self, at: u32) {
        let slot = &mut self.slots[at as usize];
        let (now, then) = (f64::from(slot.entry.lifetime.0), f64::from(slot.clustered));
        let changed =
            slot.clustered == 0 || now > then * self.change_factor || now * self.change_factor < then;
        self.changed += usize::from(changed);
        self.changed -= usize::from(std::mem::replace(&mut slot.changed, changed));
    }

    #[inline]
    fn reference(&mut self, at: u32) {
        if at != self.newest {
            self.unlink(at);
            self.link_newest(at);
        }
    }

    fn unlink(&mut self, at: u32) {
        let Slot { older, newer, .. } = self.slots[at as usize];
        match older {
            NIL => self.oldest = newer,
            o => self.slots[o as usize].newer = newer,
        }
        match newer {
            NIL => self.newest = older,
            n => self.slots[n as usize].older = older,
        }
    }

    fn link_newest(&mut self, at: u32) {
        let older = std::mem::replace(&mut self.newest, at);
        match older {
            NIL => self.oldest = at,
            o => self.slots[o as usize].newer = at,
        }
        let slot = &mut self.slots[at as usize];
        (slot.older, slot.newer) = (older, NIL);
    }
}

type Saved = (Signature, Lifetime, u32);

/// Checks everything before anything is used.
fn parse(bytes: &[u8]) -> Result<Vec<Saved>, TableError> {
    let smallest = HEADER_BYTES + CHECKSUM_BYTES;
    if !bytes.starts_with(&MAGIC) {
        return Err(TableError::Magic { found: bytes[..bytes.len().min(MAGIC.len())].to_vec() });
    }
    if bytes.len() < smallest {
        return Err(TableError::Length { found: bytes.len(), expected: smallest as u64 });
    }
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    if word(8) != VERSION {
        return Err(TableError::Version { found: word(8) });
    }
    let expected = smallest as u64 + SAVED_BYTES as u64 * u64::from(word(12));
    if bytes.len() as u64 != expected {
        return Err(TableError::Length { found: bytes.len(), expected });
    }
    let end = bytes.len() - CHECKSUM_BYTES;
    let (found, computed) = (long(end), fnv1a(&bytes[..end]));
    if found != computed {
        return Err(TableError::Checksum { found, computed });
    }
    let mut seen = rustc_hash::FxHashSet::default();
    (HEADER_BYTES..end)
        .step_by(SAVED_BYTES)
        .map(|offset| {
            let (signature, lifetime, samples) =
                (Signature(long(offset)), word(offset + 8), word(offset + 12));
            let wrong = |problem| Err(TableError::Entry { offset, signature, problem });
            if lifetime == 0 || samples == 0 {
                return wrong("has a lifetime or samples of 0, at least 1 is expected");
            }
            if !seen.insert(signature) {
                return wrong("occurs twice");
            }
            Ok((signature, Lifetime(lifetime), samples))
        })
        .collect()
}

/// FNV-1a, 64 bits.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table(entries: u64) -> AttributeTable {
        AttributeTable::new(entries * ENTRY_BYTES, Averaging::Half, 2.0)
    }

    fn learn(table: &mut AttributeTable, signature: u64, pages: u64) {
        table.learn(Signature(signature), Lifetime::from_pages(pages), &mut { Place::NOWHERE });
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
    fn averages_by_hand() {
        let run = |averaging, lifetimes: &[u64]| {
            let mut t = AttributeTable::new(1000, averaging, 2.0);
            lifetimes.iter().for_each(|&l| learn(&mut t, 1, l));
            lifetime(&t, 1).expect("known")
        };
        assert_eq!(run(Averaging::Half, &[100]), 100);
        assert_eq!(run(Averaging::Half, &[100, 200, 51]), 100, "150, then 201 / 2 rounded down");
        assert_eq!(run(Averaging::Weighted(0.25), &[100, 200, 200]), 144, "125, 143.75");
        assert_eq!(run(Averaging::Weighted(1.0), &[100, 7]), 7);
        assert_eq!(run(Averaging::Mean, &[100, 200, 51]), 117);
        assert_eq!(run(Averaging::Half, &[u64::MAX, u64::MAX]), u64::from(u32::MAX), "saturates");
        assert_eq!(run(Averaging::Half, &[1, 1]), 1, "never 0");
    }

    #[test]
    fn the_least_recently_referenced_goes() {
        let mut t = table(3);
        [1, 2, 3].iter().for_each(|&s| learn(&mut t, s, 10));
        // A write references 1, a lifetime references 2: 3 is the oldest.
        t.stream_for_write(Signature(1), 5, &mut { Place::NOWHERE });
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
        t.forget(Signature(1));
        assert_eq!((t.len(), t.changed()), (1, 0));
    }

    #[test]
    fn a_stale_place_is_noticed() {
        let mut t = table(2);
        let mut place = Place::NOWHERE;
        t.learn(Signature(1), Lifetime::from_pages(10), &mut place);
        t.assign(|_| Stream(3));
        learn(&mut t, 2, 10);
        learn(&mut t, 4, 10);
        assert_eq!(t.stream_for_write(Signature(1), 1, &mut place), Stream::DEFAULT, "evicted");
        let mut other = place;
        assert_eq!(t.stream_for_write(Signature(2), 1, &mut other), Stream::DEFAULT);
        t.assign(|e| Stream(e.signature.0 as u8));
        assert_eq!(t.stream_for_write(Signature(4), 1, &mut other), Stream(4));
    }

    #[test]
    fn saving_and_loading_keeps_lifetimes_and_order() {
        let mut t = table(4);
        [(1, 10), (2, 20), (3, 30), (1, 20)].iter().for_each(|&(s, l)| learn(&mut t, s, l));
        let bytes = t.save();
        assert_eq!(bytes.len(), 16 + 3 * 16 + 8);
        let mut back = table(4);
        back.load(&bytes).expect("just saved");
        let all = |t: &AttributeTable| {
            t.entries().map(|e| (e.signature.0, e.lifetime.pages(), e.samples)).collect::<Vec<_>>()
        };
        assert_eq!(all(&back), [(2, 20, 1), (3, 30, 1), (1, 15, 2)]);
        assert_eq!(all(&back), all(&t));
        assert_eq!(back.changed(), 3, "all are to be clustered");
        let mut small = table(2);
        small.load(&bytes).expect("the newest fit");
        assert_eq!(all(&small), [(3, 30, 1), (1, 15, 2)]);
        back.load(&bytes).expect("again");
        assert_eq!(all(&back), all(&t), "loading replaces");
    }

    #[test]
    fn a_foreign_cut_or_damaged_table_is_refused() {
        let mut t = table(4);
        [1, 2].iter().for_each(|&s| learn(&mut t, s, 10));
        let good = t.save();
        let load = |bytes: &[u8]| table(4).load(bytes).expect_err("refused");
        assert_eq!(load(b""), TableError::Magic { found: vec![] });
        assert_eq!(load(b"PAR1"), TableError::Magic { found: b"PAR1".to_vec() });
        assert_eq!(load(b"pcstable"), TableError::Length { found: 8, expected: 24 });
        assert_eq!(load(&good[..good.len() - 1]), TableError::Length { found: 55, expected: 56 });
        for at in 16..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 4;
            assert!(matches!(load(&bad), TableError::Checksum { .. }), "byte {at}");
        }
        let with = |at: usize, value: u32| {
            let mut bytes = good.clone();
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
            let end = bytes.len() - 8;
            let sum = fnv1a(&bytes[..end]).to_le_bytes();
            bytes[end..].copy_from_slice(&sum);
            load(&bytes)
        };
        assert_eq!(with(8, 2), TableError::Version { found: 2 });
        assert_eq!(
            with(12, u32::MAX),
            TableError::Length { found: 56, expected: 24 + 16 * u64::from(u32::MAX) }
        );
        assert!(matches!(with(24, 0), TableError::Entry { offset: 16, .. }));
        assert!(matches!(with(28, 0), TableError::Entry { offset: 16, .. }));
        assert!(matches!(with(32, 1), TableError::Entry { offset: 32, .. }), "signature 1 twice");
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
            let mut places = [Place::NOWHERE; 12];
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
                    1 => {
                        t.forget(Signature(signature));
                        known.map(|i| plain.remove(i));
                    }
                    _ => {
                        t.learn(Signature(signature), Lifetime::from_pages(pages), place);
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
