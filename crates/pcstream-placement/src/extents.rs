//! What is known of every page that holds data, kept by extents in bounded memory.
//!
//! Idea: most data is written and dies in runs, so that pages next to each other share one value. The
//! address space is cut into groups of 64 pages, found by a hash table. A group has two words of bits,
//! which pages live and at which of them an extent begins, and one value for each extent. A write or a
//! discard touches the values of its own pages only and cuts an extent that it meets half.
//!
//! Units: pages; logical time.
//!
//! Memory: [`Extents::bytes`] counts a group with its place in the index, and the room of its values. A
//! page of sequential data costs 1.2 bytes (values of 8 bytes), a page that was written alone 9 to 20, the
//! more the fewer pages around it live (docs/schemes.md has a table). At
//! `max_bytes` the least recently referenced eighth of the groups goes and its pages are counted; a
//! reference is a write to the group, or a discard of a part of it. Room that is free for further groups
//! and values comes on top.
//!
//! Invariants: every maximal run of live pages begins with the beginning of an extent; an extent begins
//! at a live page; a group has as many values as beginnings; a group without live pages is not there.
//!
//! Cost: one look-up per group touched, then work by the number of extents touched. A discard of more
//! groups than there are looks at those there are. On large devices what costs is cache misses, three for a
//! page alone: the place of its group, the group, the value. Whoever knows what will be written asks for
//! them ahead ([`Extents::prefetch`]).

use crate::blocks::{Blocks, Slot, Values};
use crate::places::Places;
use crate::prefetch::{Ahead, prefetch};

/// Pages of a group.
const GROUP: u64 = 64;
/// Bytes for a page that was written alone, with free room; values have 12 bytes at most.
const ALONE_BYTES: u64 = 16;
/// A cache line, that a look at it is one miss.
#[repr(align(64))]
struct Group {
    /// Its pages are `number * GROUP ..`.
    number: u64,
    live: u64,
    /// Where extents begin.
    starts: u64,
    /// Logical time of the last reference.
    referenced: u64,
    /// One of each extent, in order of address.
    values: Slot,
}

/// Bytes for so many pages that hold data, at most; `max_bytes` is the bound.
pub(crate) fn bytes_for(pages: u64, max_bytes: u64) -> u64 {
    pages.saturating_mul(ALONE_BYTES).min(max_bytes)
}

/// Values of pages. Of pages without data, none.
pub(crate) struct Extents<T> {
    groups: Blocks<Group>,
    values: Values<T>,
    index: Places,
    /// Places in `groups` that are not in use.
    free: Vec<u32>,
    value_bytes: usize,
    max_bytes: u64,
    evicted_pages: u64,
    /// New extents of one group, while they are made, and their values.
    pieces: Vec<(u32, T)>,
    scratch: Vec<T>,
}

/// Bits below `page`, which is at most 64.
#[inline]
fn below(page: u32) -> u64 {
    if page == 64 { u64::MAX } else { (1 << page) - 1 }
}

impl Group {
    /// Which value is that of the extent that begins at or before a live page.
    #[inline]
    fn rank(&self, page: u32) -> usize {
        (self.starts & below(page + 1)).count_ones() as usize - 1
    }

    /// Where the run of equal pages ends that goes on at `page`, at most `to`.
    #[inline]
    fn run_end(&self, page: u32, to: u32) -> u32 {
        let boundaries = if self.live >> page & 1 == 1 { self.starts | !self.live } else { self.live };
        (boundaries & !below(page + 1)).trailing_zeros().min(to)
    }

    /// Replaces what is in pages `from..to` by `pieces` (first page, value), which begin at `from` unless there are none.
    fn replace<T: Copy>(
        &mut self,
        (from, to): (u32, u32),
        pieces: &mut Vec<(u32, T)>,
        values: &mut Values<T>,
        scratch: &mut Vec<T>,
    ) {
        let mask = below(to) & !below(from);
        let (a, b) = ((self.starts & below(from)).count_ones(), (self.starts & below(to)).count_ones());
        let (a, b, len) = (a as usize, b as usize, self.starts.count_ones() as usize);
        let goes_on = to < 64 && self.live >> to & 1 == 1 && self.starts >> to & 1 == 0;
        self.live = if pieces.is_empty() { self.live & !mask } else { self.live | mask };
        // The part beyond `to` of an extent that is cut begins there.
        if goes_on {
            pieces.push((to, values.get(self.values)[b - 1]));
        }
        self.starts &= !mask;
        self.starts |= pieces.iter().fold(0, |bits, &(page, _)| bits | 1 << page);
        scratch.clear();
        scratch.extend(pieces.iter().map(|&(_, value)| value));
        self.values = values.splice(self.values, len, (a, b), scratch);
    }

    fn value_bytes<T>(&self) -> usize {
        self.values.room() * size_of::<T>()
    }
}

impl<T: Copy + PartialEq> Extents<T> {
    /// Nothing holds data yet.
    pub(crate) fn new(max_bytes: u64) -> Extents<T> {
        Extents {
            groups: Blocks::new(),
            values: Values::new(),
            index: Places::default(),
            free: Vec::new(),
            value_bytes: 0,
            max_bytes,
            evicted_pages: 0,
            pieces: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Bytes in use, as counted against the bound.
    pub(crate) fn bytes(&self) -> u64 {
        self.index.len() * size_of::<Group>() as u64 + self.index.bytes() + self.value_bytes as u64
    }

    /// Pages that hold data and are known.
    pub(crate) fn live_pages(&self) -> u64 {
        self.groups.iter().map(|g| u64::from(g.live.count_ones())).sum()
    }

    /// Pages whose value was dropped to stay within memory.
    pub(crate) fn evicted_pages(&self) -> u64 {
        self.evicted_pages
    }

    /// Pages from `first` on are written at time `now`. `new` is called for each run of pages that had
    /// the same value or none (the value, first page, number of pages), in order of address, and
    /// returns their new one.
    #[inline]
    pub(crate) fn write(
        &mut self,
        first: u64,
        pages: u32,
        now: u64,
        mut new: impl FnMut(Option<T>, u64, u32) -> T,
    ) {
        let (mut page, end) = (first, first.saturating_add(u64::from(pages)));
        while page < end {
            let number = page / GROUP;
            let (from, base) = ((page % GROUP) as u32, number * GROUP);
            let to = from + (end - page).min(GROUP - u64::from(from)) as u32;
            self.write_group(number, (from, to), now, |old, at, run| new(old, base + u64::from(at), run));
            page += u64::from(to - from);
        }
        if self.bytes() > self.max_bytes {
            self.evict();
        }
    }

    /// Pages from `first` on hold nothing from `now` on. `ended` gets the value and number of pages of each run that did.
    pub(crate) fn discard(&mut self, first: u64, pages: u32, now: u64, mut ended: impl FnMut(T, u32)) {
        let end = first.saturating_add(u64::from(pages));
        if first == end {
            return;
        }
        let (first_group, last_group) = (first / GROUP, (end - 1) / GROUP);
        if last_group - first_group < self.index.len() {
            for number in first_group..=last_group {
                if let Some(at) = self.index.get(number) {
                    self.discard_group(at, first, end, now, &mut ended);
                }
            }
        } else {
            for at in 0..self.groups.len() as u32 {
                let group = &self.groups[at as usize];
                if group.live != 0 && (first_group..=last_group).contains(&group.number) {
                    self.discard_group(at, first, end, now, &mut ended);
                }
            }
        }
        // An extent that is cut in two takes more.
        if self.bytes() > self.max_bytes {
            self.evict();
        }
    }

    /// Asks the processor for what a write or discard at `page` will look at: for its group when it is far ahead, for its
    /// value when it is near and the group has arrived.
    #[inline]
    pub(crate) fn prefetch(&self, page: u64, ahead: Ahead) {
        let Some(at) = self.index.get(page / GROUP) else { return };
        let group = &self.groups[at as usize];
        match ahead {
            Ahead::Far => prefetch(group),
            Ahead::Near => {
                let rank = (group.starts & below((page % GROUP) as u32)).count_ones() as usize;
                if let Some(value) = self.values.get(group.values).get(rank) {
                    prefetch(value);
                }
            }
        }
    }

    /// Every extent: its value and number of pages, in an order that depends on nothing but what was written.
    pub(crate) fn each(&self, mut f: impl FnMut(T, u32)) {
        for group in self.groups.iter().filter(|group| group.live != 0) {
            let mut page = 0;
            while page < GROUP as u32 {
                let end = group.run_end(page, GROUP as u32);
                if group.live >> page & 1 == 1 {
                    f(self.values.get(group.values)[group.rank(page)], end - page);
                }
                page = end;
            }
        }
    }

    #[inline]
    fn write_group(
        &mut self,
        number: u64,
        (from, to): (u32, u32),
        now: u64,
        mut new: impl FnMut(Option<T>, u32, u32) -> T,
    ) {
        let at = self.place(number);
        let group = &mut self.groups[at as usize];
        group.referenced = now;
        // An extent that is overwritten whole, as single pages are, keeps its place.
        if group.starts >> from & 1 == 1 && group.run_end(from, 64) == to {
            let rank = (group.starts & below(from)).count_ones() as usize;
            let value = &mut self.values.get_mut(group.values)[rank];
            *value = new(Some(*value), from, to - from);
            return;
        }
        let pieces = &mut self.pieces;
        pieces.clear();
        let mut page = from;
        while page < to {
            let end = group.run_end(page, to);
            let old = (group.live >> page & 1 == 1).then(|| self.values.get(group.values)[group.rank(page)]);
            let value = new(old, page, end - page);
            if pieces.last().is_none_or(|&(_, last)| last != value) {
                pieces.push((page, value));
            }
            page = end;
        }
        let before = group.value_bytes::<T>();
        group.replace((from, to), pieces, &mut self.values, &mut self.scratch);
        self.value_bytes = self.value_bytes - before + group.value_bytes::<T>();
    }

    fn discard_group(&mut self, at: u32, first: u64, end: u64, now: u64, ended: &mut impl FnMut(T, u32)) {
        let group = &mut self.groups[at as usize];
        let base = group.number * GROUP;
        let from = first.saturating_sub(base) as u32;
        let to = (end - base).min(GROUP) as u32;
        let mut page = from;
        while page < to {
            let end = group.run_end(page, to);
            if group.live >> page & 1 == 1 {
                ended(self.values.get(group.values)[group.rank(page)], end - page);
            }
            page = end;
        }
        group.referenced = now;
        let before = group.value_bytes::<T>();
        self.pieces.clear();
        group.replace((from, to), &mut self.pieces, &mut self.values, &mut self.scratch);
        self.value_bytes = self.value_bytes - before + group.value_bytes::<T>();
        if group.live == 0 {
            self.remove(at);
        }
    }

    /// The place of a group, made if it is not there.
    #[inline]
    fn place(&mut self, number: u64) -> u32 {
        if let Some(at) = self.index.get(number) {
            return at;
        }
        let group = Group { number, live: 0, starts: 0, referenced: 0, values: Slot::NONE };
        let at = match self.free.pop() {
            Some(at) => {
                self.groups[at as usize] = group;
                at
            }
            None => {
                self.groups.push(group);
                self.groups.len() as u32 - 1
            }
        };
        self.index.insert(number, at);
        at
    }

    fn remove(&mut self, at: u32) {
        let group = &mut self.groups[at as usize];
        self.value_bytes -= group.value_bytes::<T>();
        self.values.release(group.values);
        (group.live, group.starts, group.values) = (0, 0, Slot::NONE);
        self.index.remove(group.number);
        self.free.push(at);
    }

    /// Drops the least recently referenced groups: an eighth of them, at least one; again if that is not enough.
    #[cold]
    fn evict(&mut self) {
        while self.bytes() > self.max_bytes && self.index.len() > 0 {
            let live = (0..).zip(self.groups.iter()).filter(|(_, group)| group.live != 0);
            let mut oldest: Vec<(u64, u64, u32)> =
                live.map(|(at, group)| (group.referenced, group.number, at)).collect();
            let doomed = oldest.len().div_ceil(8);
            oldest.select_nth_unstable(doomed - 1);
            for &(_, _, at) in &oldest[..doomed] {
                self.evicted_pages += u64::from(self.groups[at as usize].live.count_ones());
                self.remove(at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    impl<T: Copy + PartialEq> Extents<T> {
        /// Every extent: first page, pages, value; in order of address.
        fn all(&self) -> Vec<(u64, u32, T)> {
            let mut out = Vec::new();
            for group in self.groups.iter().filter(|g| g.live != 0) {
                let mut page = 0;
                while page < 64 {
                    let end = group.run_end(page, 64);
                    if group.live >> page & 1 == 1 {
                        let first = group.number * GROUP + u64::from(page);
                        out.push((first, end - page, self.values.get(group.values)[group.rank(page)]));
                    }
                    page = end;
                }
            }
            out.sort_unstable_by_key(|e| e.0);
            out
        }

        fn check(&self) {
            let mut bytes = 0;
            let live = (0..).zip(self.groups.iter()).filter(|(_, group)| group.live != 0);
            assert_eq!(live.clone().count() as u64, self.index.len());
            for (at, group) in live {
                assert_eq!(self.index.get(group.number), Some(at));
                assert_eq!(group.starts & !group.live, 0, "an extent begins at a live page");
                let run_begins = group.live & !(group.live << 1);
                assert_eq!(run_begins & !group.starts, 0, "a run begins with an extent");
                assert!(group.values.room() >= group.starts.count_ones() as usize);
                bytes += group.value_bytes::<T>();
            }
            assert_eq!(self.value_bytes, bytes);
            assert_eq!(self.groups.len() as u64, self.index.len() + self.free.len() as u64);
        }
    }

    fn write(e: &mut Extents<u8>, first: u64, pages: u32, value: u8) -> Vec<(Option<u8>, u64, u32)> {
        let mut seen = Vec::new();
        e.write(first, pages, 0, |old, at, run| {
            seen.push((old, at, run));
            value
        });
        seen
    }

    fn discard(e: &mut Extents<u8>, first: u64, pages: u32) -> Vec<(u8, u32)> {
        let mut seen = Vec::new();
        e.discard(first, pages, 0, |value, run| seen.push((value, run)));
        // Groups come in any order where all of them are looked at.
        seen.sort_unstable();
        seen
    }

    #[test]
    fn a_write_in_the_middle_cuts_an_extent_in_three() {
        let mut e = Extents::new(1 << 20);
        assert_eq!(write(&mut e, 0, 64, 1), [(None, 0, 64)]);
        assert_eq!(write(&mut e, 20, 10, 2), [(Some(1), 20, 10)]);
        assert_eq!(e.all(), [(0, 20, 1), (20, 10, 2), (30, 34, 1)]);
        assert_eq!(discard(&mut e, 10, 15), [(1, 10), (2, 5)]);
        assert_eq!(e.all(), [(0, 10, 1), (25, 5, 2), (30, 34, 1)]);
        assert_eq!(
            write(&mut e, 5, 30, 3),
            [(Some(1), 5, 5), (None, 10, 15), (Some(2), 25, 5), (Some(1), 30, 5)]
        );
        assert_eq!(e.all(), [(0, 5, 1), (5, 30, 3), (35, 29, 1)]);
        assert_eq!(discard(&mut e, 0, u32::MAX), [(1, 5), (1, 29), (3, 30)]);
        assert_eq!((e.bytes(), e.live_pages()), (0, 0));
    }

    #[test]
    fn an_extent_goes_on_in_the_next_group() {
        let mut e = Extents::new(1 << 20);
        write(&mut e, 60, 200, 1);
        assert_eq!(e.all(), [(60, 4, 1), (64, 64, 1), (128, 64, 1), (192, 64, 1), (256, 4, 1)]);
        assert_eq!(discard(&mut e, 63, 2), [(1, 1), (1, 1)]);
        assert_eq!(e.live_pages(), 198);
        assert_eq!(
            write(&mut e, u64::MAX - 1, 9, 1),
            [(None, u64::MAX - 1, 1)],
            "the address space has an end"
        );
    }

    #[test]
    fn the_least_recently_referenced_go_at_the_bound_and_are_counted() {
        let mut e: Extents<u64> = Extents::new(u64::MAX);
        for number in 0..16 {
            e.write(number * GROUP, 10, number, |_, _, _| 0);
        }
        e.write(0, 1, 16, |_, _, _| 0);
        e.max_bytes = e.bytes() - 1;
        e.write(GROUP, 1, 17, |_, _, _| 0);
        assert_eq!(e.evicted_pages(), 20, "an eighth: groups 2 and 3");
        assert_eq!(e.live_pages(), 140);
        assert!(e.index.get(2).is_none() && e.index.get(3).is_none());
        e.check();
    }

    #[test]
    fn bytes_a_page_as_documented() {
        let mut e: Extents<u64> = Extents::new(u64::MAX);
        e.write(0, 64 * 1000, 0, |_, _, _| 7);
        let sequential = e.bytes() as f64 / e.live_pages() as f64;
        assert!((1.0..2.1).contains(&sequential), "{sequential}");
        (0..64 * 1000).rev().for_each(|page| e.write(page, 1, 0, |_, at, _| at));
        let alone = e.bytes() as f64 / e.live_pages() as f64;
        assert!((8.0..10.0).contains(&alone), "{alone}");
    }

    proptest! {
        /// Against one value per page.
        #[test]
        fn equals_a_map_of_pages(
            steps in prop::collection::vec((0u8..4, 0u64..300, prop_oneof![1u32..4, 1u32..200]), 1..120),
        ) {
            let mut e = Extents::new(u64::MAX);
            let mut pages = BTreeMap::<u64, u8>::new();
            for (value, first, count) in steps {
                let range = first..first + u64::from(count);
                let mut expected: Vec<u8> = range.clone().map(|p| pages.get(&p).copied().unwrap_or(9)).collect();
                let mut seen = Vec::new();
                if value == 0 {
                    expected.retain(|&v| v != 9);
                    expected.sort_unstable();
                    for (v, run) in discard(&mut e, first, count) { seen.extend(vec![v; run as usize]); }
                    range.for_each(|p| { pages.remove(&p); });
                } else {
                    for (v, _, run) in write(&mut e, first, count, value) {
                        seen.extend(vec![v.unwrap_or(9); run as usize]);
                    }
                    range.for_each(|p| { pages.insert(p, value); });
                }
                prop_assert_eq!(seen, expected);
                e.check();
                let ours: Vec<(u64, u8)> = e.all().into_iter()
                    .flat_map(|(first, count, v)| (first..first + u64::from(count)).map(move |p| (p, v))).collect();
                prop_assert_eq!(ours, pages.clone().into_iter().collect::<Vec<_>>());
            }
        }

        #[test]
        fn stays_within_memory(steps in prop::collection::vec((any::<bool>(), 0u64..3000, 1u32..300), 1..120)) {
            let mut e = Extents::new(1500);
            for (now, (discards, first, count)) in steps.into_iter().enumerate() {
                if discards {
                    e.discard(first, count, now as u64, |_: u64, _| {});
                } else {
                    e.write(first, count, now as u64, |_, at, _| at / 2);
                }
                e.check();
                prop_assert!(e.bytes() <= 1500);
            }
        }
    }
}
