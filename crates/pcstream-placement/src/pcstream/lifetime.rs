//! The lifetime manager (FAST'19, section 5.1): who wrote what is there, and when.
//!
//! Idea: the live table holds (context, time) of every page that holds data, by extents
//! (`crate::extents`). A write ends the lifetimes of the pages that it overwrites and begins its own;
//! a discard only ends. A lifetime is the logical time between the two. What one request ends is
//! reported per context: the mean, and over how many pages.
//!
//! Exact or by chunks ([`Chunk`]): the paper indexes the table by 1 MiB, so that a request for one page
//! ends what the whole chunk held, and only the last writer of a chunk is known. Here a chunk is one
//! page unless asked otherwise. A table by chunks is the same table with chunks for addresses.
//!
//! Known bias of chunks larger than a page: the second of two writes into a chunk ends the first, so
//! that sequential writers look short-lived, and whoever shares a chunk gets another's lifetimes.
//!
//! Units: pages and logical time (pages written by the host, the current write excluded).
//!
//! Known weakness: of a lifetime of 2^40 pages (4 PiB) or more the rest of a division by that is seen.
//!
//! Memory: bounded, see `crate::extents`. In 64 MiB go 54 million pages of sequential data (200 GiB),
//! or 7 million pages that were written one by one (28 GiB).

use pcstream_trace::{ById, Event};

pub use crate::chunks::Chunk;
use crate::error::{SchemeError, check};
use crate::extents::Extents;
use crate::prefetch::Ahead;

/// Bits of a live-table entry for the time: 2^40 pages are 4 PiB of host writes, all that a replay takes. A daemon may see more,
/// so time goes round.
const TIME_BITS: u32 = 40;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;

/// Parameters of the lifetime manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LifetimeParams {
    /// Unit of address; 1 MiB in the paper.
    pub chunk: Chunk,
    /// Memory of the live table; 64 MiB in the dissertation that docs/fidelity.md cites.
    pub max_bytes: u64,
}

impl Default for LifetimeParams {
    fn default() -> Self {
        LifetimeParams { chunk: Chunk::default(), max_bytes: 64 << 20 }
    }
}

impl LifetimeParams {
    pub(crate) fn check(&self, scheme: &'static str) -> Result<(), SchemeError> {
        let valid = self.chunk != Chunk::Pages(0);
        check(valid, scheme, "lifetime.chunk", 0, "at least 1 page")?;
        let bytes = self.max_bytes;
        check(bytes >= 4096, scheme, "lifetime.max_bytes", bytes, "at least 4096")
    }
}

/// A writer's number, given by whoever uses the live table. Dense from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writer(pub u32);

impl Writer {
    /// How many writers a live table can tell apart.
    pub const LIMIT: u32 = 1 << (64 - TIME_BITS);
}

/// Writer and time of a page, the time modulo 2^40, packed into 8 bytes: most of the table's memory.
#[derive(Clone, Copy, PartialEq)]
struct Written(u64);

impl Written {
    fn new(writer: Writer, time: u64) -> Written {
        debug_assert!(writer.0 < Writer::LIMIT);
        Written(u64::from(writer.0) << TIME_BITS | time & TIME_MASK)
    }

    fn writer(self) -> Writer {
        Writer((self.0 >> TIME_BITS) as u32)
    }

    /// Pages written since then.
    fn age(self, now: u64) -> u64 {
        now.wrapping_sub(self.0) & TIME_MASK
    }
}

/// Lifetimes of one writer that a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Died {
    /// Their mean, rounded to the nearest page.
    pub lifetime: u64,
    /// Of how many pages (of chunks, if lifetimes are kept by them).
    pub pages: u64,
}

/// Lifetimes that one request ended: sums per writer.
#[derive(Default)]
pub struct Ended {
    /// Sum and number of the lifetimes of a writer, by writer number; both 0 outside a request.
    sums: ById<(u128, u64)>,
    touched: Vec<Writer>,
    /// What was written before this time is not counted.
    since: u64,
}

impl Ended {
    /// From now on only data counts that is written at `time` or later.
    pub fn only_since(&mut self, time: u64) {
        self.since = time;
    }

    /// The age of what was written then, if it counts.
    #[inline]
    fn age(&self, written: Written, now: u64) -> Option<u64> {
        Some(written.age(now)).filter(|&age| age <= now - self.since)
    }

    #[inline]
    fn add(&mut self, written: Written, now: u64, pages: u32) {
        let Some(age) = self.age(written, now) else { return };
        let (sum, count) = self.sums.at(written.writer().0 as usize);
        if *count == 0 {
            self.touched.push(written.writer());
        }
        *sum += u128::from(age) * u128::from(pages);
        *count += u64::from(pages);
    }

    /// Hands out what each writer lost, in the order of their first page, and is empty again.
    #[inline]
    pub fn drain(&mut self, mut each: impl FnMut(Writer, Died)) {
        for writer in self.touched.drain(..) {
            let (sum, pages) = std::mem::take(&mut self.sums[writer.0 as usize]);
            let lifetime = match u64::try_from(sum) {
                Ok(sum) if pages == 1 => sum,
                Ok(sum) => sum.saturating_add(pages / 2) / pages,
                Err(_) => (sum / u128::from(pages)) as u64,
            };
            each(writer, Died { lifetime, pages });
        }
    }
}

/// The live table.
pub struct LiveTable {
    chunk_pages: u64,
    extents: Extents<Written>,
}

impl LiveTable {
    /// An empty table for a device with such superblocks. The parameters have been checked.
    pub fn new(params: LifetimeParams, superblock_pages: u32) -> LiveTable {
        let chunk_pages = u64::from(params.chunk.pages(superblock_pages));
        LiveTable { chunk_pages, extents: Extents::new(params.max_bytes) }
    }

    /// Pages (or chunks) that hold data of known origin.
    pub fn live(&self) -> u64 {
        self.extents.live_pages()
    }

    /// Pages (or chunks) that were forgotten to stay within memory.
    pub fn evicted(&self) -> u64 {
        self.extents.evicted_pages()
    }

    /// Bytes in use, as counted against the bound.
    pub fn bytes(&self) -> u64 {
        self.extents.bytes()
    }

    /// A write at logical time `now` by `writer`; `None` if nothing identifies it, in which case it
    /// only ends what it overwrites.
    #[inline]
    pub fn write(&mut self, event: &Event, writer: Option<Writer>, now: u64, ended: &mut Ended) {
        let Some(writer) = writer else { return self.discard(event, now, ended) };
        let (first, chunks) = self.chunks(event);
        let new = Written::new(writer, now);
        self.extents.write(first, chunks, now, |old, _, run| {
            if let Some(old) = old {
                ended.add(old, now, run);
            }
            new
        });
    }

    /// The pages of `event` hold nothing from logical time `now` on.
    pub fn discard(&mut self, event: &Event, now: u64, ended: &mut Ended) {
        let (first, chunks) = self.chunks(event);
        self.extents.discard(first, chunks, now, |old, run| ended.add(old, now, run));
    }

    /// Asks the processor for what a write or discard will look at first.
    #[inline]
    pub(crate) fn prefetch(&self, event: &Event, ahead: Ahead) {
        self.extents.prefetch(event.lba.0 / self.chunk_pages, ahead);
    }

    /// What still lives at `now` and counts for `ended`, by writer number: sum of the ages and number of pages. Looks at
    /// every extent.
    pub fn ages(&self, now: u64, ended: &Ended) -> ById<(u128, u64)> {
        let mut ages = ById::default();
        self.extents.each(|written, pages| {
            let Some(age) = ended.age(written, now) else { return };
            let (sum, count): &mut (u128, u64) = ages.at(written.writer().0 as usize);
            *sum += u128::from(age) * u128::from(pages);
            *count += u64::from(pages);
        });
        ages
    }

    /// The chunks that an event touches: the first, and how many.
    #[inline]
    fn chunks(&self, event: &Event) -> (u64, u32) {
        if self.chunk_pages == 1 || event.pages == 0 {
            return (event.lba.0, event.pages);
        }
        let first = event.lba.0 / self.chunk_pages;
        let last = event.lba.0.saturating_add(u64::from(event.pages) - 1) / self.chunk_pages;
        (first, (last - first + 1) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::write;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const A: Option<Writer> = Some(Writer(0));
    const B: Option<Writer> = Some(Writer(1));
    /// Time goes round a few pages after the second, and did twice before the third.
    const STARTS: [u64; 3] = [0, (1 << TIME_BITS) - 15, (3 << TIME_BITS) - 5];

    /// A live table with its own clock, reporting what each step ended: (writer, mean, pages).
    struct Bench {
        table: LiveTable,
        ended: Ended,
        now: u64,
    }

    impl Bench {
        fn new(chunk: Chunk) -> Bench {
            let params = LifetimeParams { chunk, max_bytes: 1 << 20 };
            params.check("test").expect("valid");
            Bench { table: LiveTable::new(params, 4096), ended: Ended::default(), now: 0 }
        }

        fn take(&mut self) -> Vec<(u32, u64, u64)> {
            let mut out = Vec::new();
            self.ended.drain(|w, died| out.push((w.0, died.lifetime, died.pages)));
            out
        }

        fn write(&mut self, lba: u64, pages: u32, writer: Option<Writer>) -> Vec<(u32, u64, u64)> {
            self.table.write(&write(lba, pages), writer, self.now, &mut self.ended);
            self.now += u64::from(pages);
            self.take()
        }

        fn discard(&mut self, lba: u64, pages: u32) -> Vec<(u32, u64, u64)> {
            self.table.discard(&write(lba, pages), self.now, &mut self.ended);
            self.take()
        }
    }

    #[test]
    fn an_overwrite_restarts_and_a_discard_removes() {
        for chunk in [Chunk::Page, Chunk::Pages(256)] {
            let n = if chunk == Chunk::Page { 256 } else { 1 };
            let mut t = Bench::new(chunk);
            assert_eq!(t.write(0, 256, A), []);
            assert_eq!(t.write(256, 256, B), []);
            assert_eq!(t.write(0, 256, B), [(0, 512, n)], "A lived while 512 pages were written");
            assert_eq!(t.discard(0, 256), [(1, 256, n)]);
            assert_eq!(t.discard(0, 256), [], "it is gone");
            assert_eq!(t.write(0, 256, A), [], "and so is its time");
            assert_eq!(t.discard(0, 512), [(0, 256, n), (1, 768, n)]);
            assert_eq!(t.table.live(), 0);
        }
    }

    #[test]
    fn a_request_reports_each_context_once_with_its_mean_and_pages() {
        let mut t = Bench::new(Chunk::Page);
        t.write(0, 256, A); // at 0
        t.write(256, 128, A); // at 256
        t.write(512, 256, B); // at 384
        t.write(768, 256, A); // at 640
        // now = 896. A: 256 pages lived 896, 128 lived 640, 256 lived 256: mean 588.8. B: 512.
        assert_eq!(t.discard(0, 1024), [(0, 589, 640), (1, 512, 256)]);
    }

    /// What shares a chunk with a page that is discarded stays.
    #[test]
    fn a_discard_ends_only_what_it_touches() {
        let mut t = Bench::new(Chunk::Page);
        t.write(0, 100, A);
        t.write(100, 100, B);
        assert_eq!(t.discard(150, 1), [(1, 100, 1)]);
        assert_eq!(t.write(0, 10, B), [(0, 200, 10)]);
        assert_eq!(t.discard(0, 256), [(1, 101, 109), (0, 210, 90)], "99 lived 110, 10 lived 10");
        let mut paper = Bench::new(Chunk::Pages(256));
        paper.write(0, 100, A);
        assert_eq!(paper.write(100, 100, B), [(0, 100, 1)], "the paper's bias");
        assert_eq!(paper.discard(150, 1), [(1, 100, 1)]);
        assert_eq!(paper.discard(0, 256), []);
    }

    /// The paper's other bias: sequential writes of one context into one MiB.
    #[test]
    fn sequential_writes_into_a_chunk_look_like_overwrites() {
        let mut t = Bench::new(Chunk::Pages(256));
        assert_eq!(t.write(0, 64, A), []);
        for lba in [64, 128, 192] {
            assert_eq!(t.write(lba, 64, A), [(0, 64, 1)]);
        }
        t.write(10_000, 100, B);
        assert_eq!(t.discard(0, 256), [(0, 164, 1)], "only the last write is known");
        let mut t = Bench::new(Chunk::Page);
        for lba in [0, 64, 128, 192] {
            assert_eq!(t.write(lba, 64, A), []);
        }
        t.write(10_000, 100, B);
        assert_eq!(t.discard(0, 256), [(0, 260, 256)], "356, 292, 228, 164");
    }

    #[test]
    fn an_unknown_writer_ends_but_does_not_begin() {
        let mut t = Bench::new(Chunk::Page);
        t.write(0, 10, A);
        assert_eq!(t.write(0, 10, None), [(0, 10, 10)]);
        assert_eq!(t.write(0, 10, A), []);
        assert_eq!(t.write(5000, 10, None), []);
        assert_eq!(t.table.live(), 10);
    }

    #[test]
    fn what_was_written_before_a_time_can_be_left_out() {
        for start in STARTS {
            let mut t = Bench { now: start, ..Bench::new(Chunk::Page) };
            t.write(0, 10, A);
            t.ended.only_since(t.now);
            t.write(10, 10, B);
            let alive = t.table.ages(t.now, &t.ended).iter().copied().collect::<Vec<_>>();
            assert_eq!(alive, [(0, 0), (100, 10)], "nor does it count while it lives");
            assert_eq!(t.discard(0, 20), [(1, 10, 10)]);
        }
    }

    #[test]
    fn ages_are_right_where_time_goes_round() {
        for start in STARTS {
            let mut t = Bench { now: start, ..Bench::new(Chunk::Page) };
            t.write(0, 10, A);
            t.write(10, 20, B);
            assert_eq!(
                t.table.ages(t.now, &t.ended).iter().copied().collect::<Vec<_>>(),
                [(300, 10), (400, 20)]
            );
        }
    }

    #[test]
    fn the_longest_lifetime_of_the_most_pages_fits() {
        let mut ended = Ended::default();
        let oldest = Written::new(Writer(Writer::LIMIT - 1), 0);
        (0..100).for_each(|_| ended.add(oldest, TIME_MASK, u32::MAX));
        let pages = 100 * u64::from(u32::MAX);
        ended.drain(|writer, died| {
            assert_eq!((writer.0, died), (Writer::LIMIT - 1, Died { lifetime: TIME_MASK, pages }));
        });
    }

    #[test]
    fn impossible_parameters_are_refused() {
        for bad in [
            LifetimeParams { chunk: Chunk::Pages(0), ..LifetimeParams::default() },
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
    fn plain(steps: &[Step], chunk_pages: u64) -> Vec<Vec<(u32, u64, u64)>> {
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
            out.push(lives.iter().map(|(&w, l)| (w, mean(l), l.len() as u64)).collect());
            now += if s.discard { 0 } else { u64::from(s.pages) };
        }
        out
    }

    proptest! {
        #[test]
        fn follows_the_plain_rule(
            steps in steps(),
            chunk_pages in prop_oneof![Just(1u32), Just(7), Just(256)],
            now in prop::sample::select(&STARTS[..]),
        ) {
            let mut t = Bench { now, ..Bench::new(Chunk::Pages(chunk_pages)) };
            let expected = plain(&steps, u64::from(chunk_pages));
            for (s, expected) in steps.iter().zip(expected) {
                let mut ours = if s.discard { t.discard(s.lba, s.pages) } else { t.write(s.lba, s.pages, s.writer.map(Writer)) };
                ours.sort_unstable();
                prop_assert_eq!(ours, expected);
            }
        }
    }
}
