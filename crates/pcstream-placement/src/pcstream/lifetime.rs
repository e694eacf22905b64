//! The lifetime manager (FAST'19, section 5.1): who wrote what is there, and when.
//!
//! Idea: a live table, indexed by chunks of addresses, holds (context, time) pairs. A write ends
//! the lifetimes found in its chunks and starts its own; a discard only ends. A lifetime is the
//! logical time between the two. If one request ends several lifetimes of one context, in one chunk
//! or in many, their arithmetic mean is reported once (the dissertation: "if the same PC has
//! different lifetimes, we take the arithmetic mean").
//!
//! Two rules say when a write ends what is there ([`Overwrite`]):
//!
//! - `AnyWrite` is the paper's: a chunk is one address. A chunk then never holds more than the pair
//!   of its last writer. Known bias: the second of two writes into one MiB ends the first, so that
//!   sequential writers look short-lived.
//! - `LivePages` also keeps a bitmap of the pages that hold data. A write to pages that hold none
//!   adds its pair to the chunk's; only a write or discard that touches a live page ends the
//!   chunk's lifetimes, all of them. The bias of sequential writers disappears; a page written
//!   over still ends its neighbours.
//!
//! With `chunk_pages` = 1 both are exact.
//!
//! Units: pages and logical time (pages written by the host, the current write excluded).
//!
//! Memory: `max_bytes` bounds nodes, pairs and hash buckets together; at the bound the least
//! recently referenced chunk goes, unseen, and is counted. 44 bytes a chunk (76 with a bitmap): 64 MB
//! follow 1.4 TiB in chunks of 1 MiB, or 5.8 GiB page by page.
//!
//! Everything is O(1) per chunk touched, a chunk's pairs being at most [`MAX_PAIRS`]. A discard of
//! more chunks than are live visits the live ones instead. The order of reference is the order of
//! the chunks' times (one write touches chunks in order of address), so it is sorted out once, when
//! memory first runs out, and kept as a list only from then on: most runs never pay for it.

use pcstream_trace::Event;

use crate::error::{SchemeError, check};

/// Most pairs of one chunk; a further writer replaces the pair of the least recent one.
pub const MAX_PAIRS: usize = 8;

const NIL: u32 = u32::MAX;

/// The writer of a node that is not in use.
const FREE: Writer = Writer(u32::MAX);

/// When a write ends the lifetimes in a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overwrite {
    /// Always (FAST'19).
    #[default]
    AnyWrite,
    /// When it touches a page that holds data. Chunks of at most 256 pages.
    LivePages,
}

/// Parameters of the lifetime manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LifetimeParams {
    /// Pages of a chunk: 256 (1 MiB) in the paper; 1 is exact.
    pub chunk_pages: u32,
    /// When a write ends what is there.
    pub overwrite: Overwrite,
    /// Memory of the live table; 64 MiB in the dissertation.
    pub max_bytes: u64,
}

impl Default for LifetimeParams {
    fn default() -> Self {
        LifetimeParams { chunk_pages: 256, overwrite: Overwrite::default(), max_bytes: 64 << 20 }
    }
}

impl LifetimeParams {
    pub(crate) fn check(&self, scheme: &'static str) -> Result<(), SchemeError> {
        let pages = self.chunk_pages;
        check(pages > 0, scheme, "pcstream.lifetime.chunk_pages", pages, "at least 1")?;
        let fits = self.overwrite == Overwrite::AnyWrite || pages <= 256;
        check(
            fits,
            scheme,
            "pcstream.lifetime.chunk_pages",
            pages,
            "at most 256 with a bitmap of live pages",
        )?;
        let bytes = self.max_bytes;
        check(bytes >= 4096, scheme, "pcstream.lifetime.max_bytes", bytes, "at least 4096")
    }
}

/// A writer's number, given by whoever uses the live table. Dense from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writer(pub u32);

#[derive(Clone, Copy)]
struct Pair {
    writer: Writer,
    time: u64,
    /// The next older pair of the chunk, or free pair.
    next: u32,
}

#[derive(Clone, Copy)]
struct Node {
    chunk: u64,
    time: u64,
    /// The most recent writer; its older pairs follow in `more`.
    writer: Writer,
    more: u32,
    /// Next node in the hash bucket, or free node.
    chained: u32,
    older: u32,
    newer: u32,
}

/// Lifetimes that one request ended: sums per writer.
#[derive(Default)]
pub struct Ended {
    /// Sum and number of the lifetimes of a writer, by writer number; both 0 outside a request.
    sums: Vec<(u64, u32)>,
    touched: Vec<Writer>,
}

impl Ended {
    #[inline]
    fn add(&mut self, writer: Writer, lifetime: u64) {
        let at = writer.0 as usize;
        if self.sums.len() <= at {
            self.sums.resize(at + 1, (0, 0));
        }
        let (sum, count) = &mut self.sums[at];
        if *count == 0 {
            self.touched.push(writer);
        }
        *sum = sum.saturating_add(lifetime);
        *count += 1;
    }

    /// Hands out the mean lifetime of each writer, in the order in which they were met, rounded to
    /// the nearest page, and is empty again.
    pub fn drain(&mut self, mut each: impl FnMut(Writer, u64)) {
        for writer in self.touched.drain(..) {
            let (sum, count) = std::mem::take(&mut self.sums[writer.0 as usize]);
            let count = u64::from(count);
            each(writer, sum.saturating_add(count / 2) / count);
        }
    }
}

/// The live table.
pub struct LiveTable {
    chunk_pages: u64,
    nodes: Vec<Node>,
    /// Live pages of each node, if the rule needs them.
    bitmaps: Vec<[u64; 4]>,
    with_bitmaps: bool,
    free_node: u32,
    pairs: Vec<Pair>,
    free_pair: u32,
    /// First node of each hash bucket; a power of two.
    buckets: Vec<u32>,
    live: usize,
    live_pairs: usize,
    /// Whether `older` and `newer` are kept.
    ordered: bool,
    oldest: u32,
    newest: u32,
    max_bytes: u64,
    evictions: u64,
    dropped_pairs: u64,
}

impl LiveTable {
    /// An empty table. The parameters have been checked.
    pub fn new(params: LifetimeParams) -> LiveTable {
        LiveTable {
            chunk_pages: u64::from(params.chunk_pages),
            nodes: Vec::new(),
            bitmaps: Vec::new(),
            with_bitmaps: params.overwrite == Overwrite::LivePages && params.chunk_pages > 1,
            free_node: NIL,
            pairs: Vec::new(),
            free_pair: NIL,
            buckets: vec![NIL; 64],
            live: 0,
            live_pairs: 0,
            ordered: false,
            oldest: NIL,
            newest: NIL,
            max_bytes: params.max_bytes,
            evictions: 0,
            dropped_pairs: 0,
        }
    }

    /// Chunks that hold data of known origin.
    pub fn chunks(&self) -> usize {
        self.live
    }

    /// Chunks that were dropped to stay within memory.
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Pairs that were dropped because a chunk had [`MAX_PAIRS`].
    pub fn dropped_pairs(&self) -> u64 {
        self.dropped_pairs
    }

    /// Bytes in use, as counted against the bound.
    pub fn bytes(&self) -> u64 {
        (self.live * self.node_bytes() + self.live_pairs * size_of::<Pair>()) as u64
    }

    fn node_bytes(&self) -> usize {
        size_of::<Node>() + size_of::<u32>() + if self.with_bitmaps { size_of::<[u64; 4]>() } else { 0 }
    }

    /// A write at logical time `now` by `writer`; `None` if nothing identifies it, in which case it
    /// only ends what it overwrites.
    pub fn write(&mut self, event: &Event, writer: Option<Writer>, now: u64, ended: &mut Ended) {
        self.for_each_chunk(event, |table, chunk, first, pages| {
            let Some(at) = table.find(chunk) else {
                if let Some(writer) = writer {
                    table.insert(chunk, writer, now, first, pages);
                }
                return;
            };
            if table.overwrites(at, first, pages) {
                table.end(at, now, ended);
                table.clear(at);
                match writer {
                    Some(writer) => table.restart(at, writer, now, first, pages),
                    None => table.remove(at),
                }
            } else if let Some(writer) = writer {
                table.add(at, writer, now, first, pages);
            }
        });
    }

    /// The pages of `event` hold nothing from logical time `now` on.
    pub fn discard(&mut self, event: &Event, now: u64, ended: &mut Ended) {
        let end = event.lba.0.saturating_add(u64::from(event.pages));
        let chunks = (end - event.lba.0).div_ceil(self.chunk_pages);
        if chunks > self.live as u64 {
            let doomed: Vec<u32> = self
                .live_nodes()
                .filter(|&at| {
                    let begin = self.nodes[at as usize].chunk.saturating_mul(self.chunk_pages);
                    begin < end && event.lba.0 < begin.saturating_add(self.chunk_pages)
                })
                .collect();
            for at in doomed {
                let begin = self.nodes[at as usize].chunk * self.chunk_pages;
                let first = event.lba.0.max(begin) - begin;
                let pages = end.min(begin.saturating_add(self.chunk_pages)) - begin - first;
                self.discard_chunk(at, first, pages, now, ended);
            }
            return;
        }
        self.for_each_chunk(event, |table, chunk, first, pages| {
            if let Some(at) = table.find(chunk) {
                table.discard_chunk(at, first, pages, now, ended);
            }
        });
    }

    fn discard_chunk(&mut self, at: u32, first: u64, pages: u64, now: u64, ended: &mut Ended) {
        if self.overwrites(at, first, pages) {
            self.end(at, now, ended);
            self.clear(at);
            self.remove(at);
        }
    }

    /// Calls `f` with each chunk of an event, the first page in it, and the number of pages.
    #[inline]
    fn for_each_chunk(&mut self, event: &Event, mut f: impl FnMut(&mut LiveTable, u64, u64, u64)) {
        let mut lba = event.lba.0;
        let end = lba.saturating_add(u64::from(event.pages));
        while lba < end {
            let (chunk, first) = (lba / self.chunk_pages, lba % self.chunk_pages);
            let pages = (self.chunk_pages - first).min(end - lba);
            f(self, chunk, first, pages);
            lba += pages;
        }
    }

    /// Whether a request for these pages of a chunk ends what is in it.
    #[inline]
    fn overwrites(&self, at: u32, first: u64, pages: u64) -> bool {
        if !self.with_bitmaps {
            return true;
        }
        let live = &self.bitmaps[at as usize];
        mask(first, pages).iter().zip(live).any(|(m, l)| m & l != 0)
    }

    /// Reports the lifetime of every pair of a chunk.
    fn end(&self, at: u32, now: u64, ended: &mut Ended) {
        let node = &self.nodes[at as usize];
        ended.add(node.writer, now - node.time);
        let mut more = node.more;
        while more != NIL {
            let pair = self.pairs[more as usize];
            ended.add(pair.writer, now - pair.time);
            more = pair.next;
        }
    }

    /// Drops the older pairs of a chunk.
    fn clear(&mut self, at: u32) {
        let mut more = std::mem::replace(&mut self.nodes[at as usize].more, NIL);
        while more != NIL {
            let next = self.pairs[more as usize].next;
            self.free(more);
            more = next;
        }
    }

    /// Every node in use, in order of place.
    fn live_nodes(&self) -> impl Iterator<Item = u32> {
        let nodes = self.nodes.iter().enumerate();
        nodes.filter(|(_, n)| n.writer != FREE).map(|(at, _)| at as u32)
    }

    fn free(&mut self, pair: u32) {
        self.pairs[pair as usize].next = std::mem::replace(&mut self.free_pair, pair);
        self.live_pairs -= 1;
    }

    /// The chunk now holds `writer`'s data alone.
    fn restart(&mut self, at: u32, writer: Writer, now: u64, first: u64, pages: u64) {
        let node = &mut self.nodes[at as usize];
        (node.writer, node.time) = (writer, now);
        if self.with_bitmaps {
            self.bitmaps[at as usize] = mask(first, pages);
        }
        self.reference(at);
    }

    /// The chunk now holds `writer`'s data too.
    fn add(&mut self, at: u32, writer: Writer, now: u64, first: u64, pages: u64) {
        for (l, m) in self.bitmaps[at as usize].iter_mut().zip(mask(first, pages)) {
            *l |= m;
        }
        let node = self.nodes[at as usize];
        let pair = Pair { writer: node.writer, time: node.time, next: node.more };
        let slot = self.free_pair;
        let slot = if slot == NIL {
            self.pairs.push(pair);
            self.pairs.len() as u32 - 1
        } else {
            self.free_pair = std::mem::replace(&mut self.pairs[slot as usize], pair).next;
            slot
        };
        self.live_pairs += 1;
        let node = &mut self.nodes[at as usize];
        (node.writer, node.time, node.more) = (writer, now, slot);
        self.bound_pairs(slot);
        self.reference(at);
        self.make_room(0);
    }

    /// Drops what a chunk's list of older pairs has beyond MAX_PAIRS - 1.
    fn bound_pairs(&mut self, first: u32) {
        let mut last = first;
        for _ in 0..MAX_PAIRS - 2 {
            match self.pairs[last as usize].next {
                NIL => return,
                next => last = next,
            }
        }
        let beyond = std::mem::replace(&mut self.pairs[last as usize].next, NIL);
        if beyond != NIL {
            self.free(beyond);
            self.dropped_pairs += 1;
        }
    }

    #[inline]
    fn bucket(&self, chunk: u64) -> usize {
        // Fibonacci hashing: the high bits of the product depend on all bits of the chunk.
        let shift = 64 - self.buckets.len().trailing_zeros();
        (chunk.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> shift) as usize
    }

    #[inline]
    fn find(&self, chunk: u64) -> Option<u32> {
        let mut at = self.buckets[self.bucket(chunk)];
        while at != NIL {
            let node = &self.nodes[at as usize];
            if node.chunk == chunk {
                return Some(at);
            }
            at = node.chained;
        }
        None
    }

    fn insert(&mut self, chunk: u64, writer: Writer, now: u64, first: u64, pages: u64) {
        self.make_room(self.node_bytes() as u64);
        if self.live == self.buckets.len() {
            self.grow();
        }
        let bucket = self.bucket(chunk);
        let chained = self.buckets[bucket];
        let node = Node { chunk, time: now, writer, more: NIL, chained, older: NIL, newer: NIL };
        let at = match self.free_node {
            NIL => {
                let at = self.nodes.len() as u32;
                assert!(at != NIL, "fewer than 2^32 chunks");
                self.nodes.push(node);
                if self.with_bitmaps {
                    self.bitmaps.push([0; 4]);
                }
                at
            }
            at => {
                self.free_node = std::mem::replace(&mut self.nodes[at as usize], node).chained;
                at
            }
        };
        if self.with_bitmaps {
            self.bitmaps[at as usize] = mask(first, pages);
        }
        self.buckets[bucket] = at;
        self.live += 1;
        if self.ordered {
            self.link_newest(at);
        }
    }

    /// Evicts until `bytes` more fit.
    fn make_room(&mut self, bytes: u64) {
        while self.live > 0 && self.bytes() + bytes > self.max_bytes {
            if !self.ordered {
                self.order();
            }
            let oldest = self.oldest;
            self.evictions += 1;
            self.clear(oldest);
            self.remove(oldest);
        }
    }

    /// Links all nodes in the order in which they were last referenced.
    #[cold]
    fn order(&mut self) {
        let mut nodes: Vec<u32> = self.live_nodes().collect();
        nodes.sort_unstable_by_key(|&at| (self.nodes[at as usize].time, self.nodes[at as usize].chunk));
        self.ordered = true;
        nodes.into_iter().for_each(|at| self.link_newest(at));
    }

    /// Removes a chunk whose older pairs are gone.
    fn remove(&mut self, at: u32) {
        let bucket = self.bucket(self.nodes[at as usize].chunk);
        let chained = self.nodes[at as usize].chained;
        if self.buckets[bucket] == at {
            self.buckets[bucket] = chained;
        } else {
            let mut before = self.buckets[bucket];
            while self.nodes[before as usize].chained != at {
                before = self.nodes[before as usize].chained;
            }
            self.nodes[before as usize].chained = chained;
        }
        if self.ordered {
            self.unlink(at);
        }
        let node = &mut self.nodes[at as usize];
        node.chained = std::mem::replace(&mut self.free_node, at);
        node.writer = FREE;
        self.live -= 1;
    }

    fn grow(&mut self) {
        self.buckets = vec![NIL; self.buckets.len() * 2];
        for at in self.live_nodes().collect::<Vec<_>>() {
            let bucket = self.bucket(self.nodes[at as usize].chunk);
            self.nodes[at as usize].chained = std::mem::replace(&mut self.buckets[bucket], at);
        }
    }

    #[inline]
    fn reference(&mut self, at: u32) {
        if self.ordered && at != self.newest {
            self.unlink(at);
            self.link_newest(at);
        }
    }

    fn unlink(&mut self, at: u32) {
        let Node { older, newer, .. } = self.nodes[at as usize];
        match older {
            NIL => self.oldest = newer,
            o => self.nodes[o as usize].newer = newer,
        }
        match newer {
            NIL => self.newest = older,
            n => self.nodes[n as usize].older = older,
        }
    }

    fn link_newest(&mut self, at: u32) {
        let older = std::mem::replace(&mut self.newest, at);
        match older {
            NIL => self.oldest = at,
            o => self.nodes[o as usize].newer = at,
        }
        let node = &mut self.nodes[at as usize];
        (node.older, node.newer) = (older, NIL);
    }
}

/// Bits `first .. first + pages` of a chunk of at most 256 pages.
#[inline]
fn mask(first: u64, pages: u64) -> [u64; 4] {
    let end = first + pages;
    std::array::from_fn(|word| {
        let base = word as u64 * 64;
        let (from, to) = (first.clamp(base, base + 64) - base, end.clamp(base, base + 64) - base);
        let below = |bit: u64| if bit == 64 { u64::MAX } else { (1 << bit) - 1 };
        below(to) & !below(from)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::write;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const A: Option<Writer> = Some(Writer(0));
    const B: Option<Writer> = Some(Writer(1));

    /// A live table with its own clock, reporting what each step ended.
    struct Bench {
        table: LiveTable,
        ended: Ended,
        now: u64,
    }

    impl Bench {
        fn new(chunk_pages: u32, overwrite: Overwrite, max_bytes: u64) -> Bench {
            let params = LifetimeParams { chunk_pages, overwrite, max_bytes };
            params.check("test").expect("valid");
            Bench { table: LiveTable::new(params), ended: Ended::default(), now: 0 }
        }

        fn take(&mut self) -> Vec<(u32, u64)> {
            let mut out = Vec::new();
            self.ended.drain(|w, l| out.push((w.0, l)));
            out
        }

        fn write(&mut self, lba: u64, pages: u32, writer: Option<Writer>) -> Vec<(u32, u64)> {
            self.table.write(&write(lba, pages), writer, self.now, &mut self.ended);
            self.now += u64::from(pages);
            self.take()
        }

        fn discard(&mut self, lba: u64, pages: u32) -> Vec<(u32, u64)> {
            self.table.discard(&write(lba, pages), self.now, &mut self.ended);
            self.take()
        }
    }

    fn chunks() -> Bench {
        Bench::new(256, Overwrite::AnyWrite, 1 << 20)
    }

    #[test]
    fn an_overwrite_restarts_and_a_discard_removes() {
        let mut t = chunks();
        assert_eq!(t.write(0, 256, A), []);
        assert_eq!(t.write(256, 256, B), []);
        assert_eq!(t.write(0, 256, B), [(0, 512)], "A lived while 512 pages were written");
        assert_eq!(t.discard(0, 256), [(1, 256)]);
        assert_eq!(t.discard(0, 256), [], "it is gone");
        assert_eq!(t.write(0, 256, A), [], "and so is its time");
        assert_eq!(t.discard(0, 512), [(0, 256), (1, 768)]);
        assert_eq!(t.table.chunks(), 0);
    }

    #[test]
    fn one_request_reports_the_mean_per_context_once() {
        let mut t = chunks();
        t.write(0, 256, A); // at 0
        t.write(256, 256, A); // at 256
        t.write(512, 256, B); // at 512
        t.write(768, 256, A); // at 768
        // now = 1024: A lived 1024, 768 and 256, mean 682.67; B 512.
        assert_eq!(t.discard(0, 1024), [(0, 683), (1, 512)]);
    }

    /// The paper's bias: four sequential writes of one context into one MiB, then a discard.
    #[test]
    fn sequential_writes_into_a_chunk_look_like_overwrites() {
        let mut t = chunks();
        assert_eq!(t.write(0, 64, A), []);
        assert_eq!(t.write(64, 64, A), [(0, 64)]);
        assert_eq!(t.write(128, 64, A), [(0, 64)]);
        assert_eq!(t.write(192, 64, A), [(0, 64)]);
        t.write(10_000, 100, B);
        assert_eq!(t.discard(0, 256), [(0, 164)], "only the last writer's pair is left");

        let mut t = Bench::new(256, Overwrite::LivePages, 1 << 20);
        for lba in [0, 64, 128, 192] {
            assert_eq!(t.write(lba, 64, A), [], "no page was written twice");
        }
        t.write(10_000, 100, B);
        // 356, 292, 228, 164: mean 260
        assert_eq!(t.discard(0, 256), [(0, 260)]);

        let mut t = Bench::new(1, Overwrite::AnyWrite, 1 << 20);
        for lba in [0, 64, 128, 192] {
            assert_eq!(t.write(lba, 64, A), []);
        }
        t.write(10_000, 100, B);
        assert_eq!(t.discard(0, 256), [(0, 260)], "page by page the same");
    }

    #[test]
    fn live_pages_tell_first_writes_from_overwrites() {
        let mut t = Bench::new(256, Overwrite::LivePages, 1 << 20);
        t.write(0, 10, A); // at 0
        assert_eq!(t.write(10, 10, B), [], "next to it, at 10");
        assert_eq!(t.discard(100, 50), [], "nothing is there");
        assert_eq!(t.write(5, 10, A), [(1, 10), (0, 20)], "touches both");
        // The chunk now holds A's ten pages from 5 on, written at 20.
        assert_eq!(t.write(0, 5, B), [], "page 0 is free again");
        assert_eq!(t.discard(14, 1), [(1, 5), (0, 15)], "now 35; B wrote at 30, A at 20");
        assert_eq!((t.table.chunks(), t.table.live_pairs), (0, 0));
    }

    #[test]
    fn an_unknown_writer_ends_but_does_not_begin() {
        let mut t = chunks();
        t.write(0, 10, A);
        assert_eq!(t.write(0, 10, None), [(0, 10)]);
        assert_eq!(t.write(0, 10, A), []);
        assert_eq!(t.write(5000, 10, None), []);
        assert_eq!(t.table.chunks(), 1);
    }

    #[test]
    fn a_write_across_chunks_touches_each() {
        let mut t = chunks();
        t.write(200, 1000, A); // chunks 0..=4
        assert_eq!(t.table.chunks(), 5);
        assert_eq!(t.write(1199, 1, B), [(0, 1000)]);
        assert_eq!(t.discard(0, u32::MAX), [(0, 1001), (1, 1)], "more chunks than are live");
    }

    #[test]
    fn the_least_recently_referenced_chunk_is_evicted_at_the_bound() {
        let mut t = chunks();
        t.table.max_bytes = 3 * t.table.node_bytes() as u64;
        for chunk in [0, 1, 2] {
            t.write(chunk * 256, 1, A);
        }
        t.write(0, 1, A);
        t.write(3 * 256, 1, A);
        assert_eq!((t.table.chunks(), t.table.evictions()), (3, 1));
        assert_eq!(t.discard(256, 1), [], "chunk 1 was the oldest");
        assert_eq!(t.discard(0, 1), [(0, 2)]);
        assert_eq!(t.discard(512, 1), [(0, 3)]);
    }

    #[test]
    fn a_chunk_keeps_its_most_recent_pairs() {
        let mut t = Bench::new(256, Overwrite::LivePages, 1 << 20);
        for i in 0..20u32 {
            t.write(u64::from(i), 1, Some(Writer(i)));
        }
        let mut ended = t.discard(0, 1);
        ended.sort_unstable();
        let expected: Vec<(u32, u64)> = (12..20).map(|i| (i, 20 - u64::from(i))).collect();
        assert_eq!(ended, expected);
        assert_eq!((t.table.dropped_pairs(), t.table.live_pairs), (12, 0));
    }

    #[test]
    fn masks_by_hand() {
        assert_eq!(mask(0, 1), [1, 0, 0, 0]);
        assert_eq!(mask(63, 2), [1 << 63, 1, 0, 0]);
        assert_eq!(mask(0, 256), [u64::MAX; 4]);
        assert_eq!(mask(128, 64), [0, 0, u64::MAX, 0]);
        assert_eq!(mask(255, 1), [0, 0, 0, 1 << 63]);
    }

    #[test]
    fn sizes_in_the_documentation() {
        let bytes = |overwrite| {
            LiveTable::new(LifetimeParams { overwrite, ..LifetimeParams::default() }).node_bytes()
        };
        assert_eq!((bytes(Overwrite::AnyWrite), bytes(Overwrite::LivePages)), (44, 76));
        for bad in [
            LifetimeParams { chunk_pages: 0, ..LifetimeParams::default() },
            LifetimeParams { chunk_pages: 257, overwrite: Overwrite::LivePages, ..LifetimeParams::default() },
            LifetimeParams { max_bytes: 4095, ..LifetimeParams::default() },
        ] {
            assert!(bad.check("test").is_err(), "{bad:?}");
        }
    }

    #[derive(Clone, Debug)]
    struct Step {
        discard: bool,
        lba: u64,
        pages: u32,
        writer: Option<u32>,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = (any::<bool>(), 0u64..600, 1u32..300, prop::option::weighted(0.9, 0u32..4))
            .prop_map(|(discard, lba, pages, writer)| Step { discard, lba, pages, writer });
        prop::collection::vec(step, 1..80)
    }

    /// The paper's rule over an ordered map: (writer, time) of the last writer of each chunk.
    fn plain(steps: &[Step], chunk_pages: u64) -> Vec<Vec<(u32, u64)>> {
        let (mut live, mut now) = (BTreeMap::<u64, (u32, u64)>::new(), 0);
        let mut out = Vec::new();
        for s in steps {
            let (first, last) = (s.lba / chunk_pages, (s.lba + u64::from(s.pages) - 1) / chunk_pages);
            let mut lives = BTreeMap::<u32, Vec<u64>>::new();
            for chunk in first..=last {
                if let Some((writer, time)) = live.remove(&chunk) {
                    lives.entry(writer).or_default().push(now - time);
                }
                if let (false, Some(writer)) = (s.discard, s.writer) {
                    live.insert(chunk, (writer, now));
                }
            }
            let mean = |l: &[u64]| (l.iter().sum::<u64>() + l.len() as u64 / 2) / l.len() as u64;
            out.push(lives.iter().map(|(&w, l)| (w, mean(l))).collect());
            now += if s.discard { 0 } else { u64::from(s.pages) };
        }
        out
    }

    proptest! {
        #[test]
        fn follows_the_plain_rule(steps in steps(), chunk_pages in prop_oneof![Just(1u32), Just(7), Just(256)]) {
            let mut t = Bench::new(chunk_pages, Overwrite::AnyWrite, 1 << 20);
            let expected = plain(&steps, u64::from(chunk_pages));
            for (s, expected) in steps.iter().zip(expected) {
                let mut ours = if s.discard { t.discard(s.lba, s.pages) } else { t.write(s.lba, s.pages, s.writer.map(Writer)) };
                ours.sort_unstable();
                prop_assert_eq!(ours, expected);
            }
        }

        /// Memory stays within the bound whatever happens, and every node is accounted for.
        #[test]
        fn stays_within_memory(steps in steps(), live_pages in any::<bool>()) {
            let overwrite = if live_pages { Overwrite::LivePages } else { Overwrite::AnyWrite };
            let mut t = Bench::new(16, overwrite, 4096);
            t.table.max_bytes = 600;
            for s in &steps {
                if s.discard { t.discard(s.lba, s.pages); } else { t.write(s.lba, s.pages, s.writer.map(Writer)); }
                prop_assert!(t.table.bytes() <= 600);
                let (mut live, mut pairs) = (0, 0);
                for at in t.table.live_nodes() {
                    let node = t.table.nodes[at as usize];
                    prop_assert_eq!(t.table.find(node.chunk), Some(at));
                    let mut more = node.more;
                    while more != NIL {
                        pairs += 1;
                        more = t.table.pairs[more as usize].next;
                    }
                    live += 1;
                }
                prop_assert_eq!((live, pairs), (t.table.live, t.table.live_pairs));
                if t.table.ordered {
                    let mut listed = Vec::new();
                    let mut at = t.table.oldest;
                    while at != NIL {
                        listed.push((t.table.nodes[at as usize].time, t.table.nodes[at as usize].chunk));
                        at = t.table.nodes[at as usize].newer;
                    }
                    prop_assert_eq!(listed.len(), live);
                    prop_assert!(listed.windows(2).all(|w| w[0] < w[1]), "the order of reference is that of time");
                }
            }
        }
    }
}
