//! autostream-mq: AutoStream's multi-queue (Yang et al., SYSTOR'17), addresses only.
//!
//! Idea: chunks that are written often die soon. Every chunk sits in one queue; its access count
//! decides which; a chunk not written for as long as the hottest chunk's last interval loses a
//! level. Stream = 1 + queue.
//!
//! Units: chunks in pages; the clock counts chunk accesses, as both public implementations
//! do, or pages written.
//!
//! The paper's body leaves details open, and public implementations differ. Each difference is a
//! field of [`MqParams`]; its readings are whole sets of them, to sweep over, so that the best can
//! stand beside the default.
//!
//! Invariants: a chunk is in exactly one queue; queues are ordered by the time of joining.
//!
//! Known weaknesses: blind to append-only and write-once data, whose addresses say nothing. If the stream
//! is read after promotion and demotion keeps the count (`sepbit`, `keeping`), the next access undoes a
//! demotion before it can be seen, and a chunk that was hot once stays hot. So it does behind a hot head, if
//! accesses do not move chunks to the tail (`bluedbm`). One node of 32 bytes per chunk touched, never evicted.

mod params;

use pcstream_trace::{Event, Tables};

use crate::chunks::{ChunkIndex, Span, for_each_chunk};
use crate::error::{SchemeError, check};
use crate::level::Levels;
use crate::parameter::Environment;
use crate::scheme::{Placement, Scheme, SchemeFact, Stream, push_run};
pub use params::{MqClock, MqCount, MqDemotion, MqHottest, MqParams, MqRead, MqRequeue};

const NIL: u32 = u32::MAX;

struct Counted {
    last: u64,
    count: u32,
    expires: u64,
    before: u32,
    after: u32,
    queue: u8,
}

#[derive(Clone, Copy)]
struct Queue {
    head: u32,
    tail: u32,
}

/// The multi-queue scheme.
pub struct AutoStreamMq {
    params: MqParams,
    chunk_pages: u64,
    levels: Levels,
    streams: u8,
    index: ChunkIndex,
    chunks: Vec<Counted>,
    queues: Vec<Queue>,
    /// The chunk whose access interval is everyone's time to live; NIL before the first access.
    hottest: u32,
    hottest_count: u32,
    /// Last access interval of the hottest chunk, in clock units.
    expiry: u64,
    accesses: u64,
    demotions: u64,
}

impl AutoStreamMq {
    /// Makes the scheme. Errors call it `scheme`.
    pub fn new(
        scheme: &'static str,
        environment: &Environment,
        params: MqParams,
    ) -> Result<AutoStreamMq, SchemeError> {
        let streams = environment.streams();
        let chunk_pages = u64::from(params.chunk_pages.pages(environment.superblock_pages));
        check(chunk_pages > 0, scheme, "chunk_pages", chunk_pages, "at least 1")?;
        let queues = streams.saturating_sub(1).max(1);
        Ok(AutoStreamMq {
            levels: Levels::new(params.level, queues, scheme, "level")?,
            params,
            chunk_pages,
            streams,
            index: ChunkIndex::default(),
            chunks: Vec::new(),
            queues: vec![Queue { head: NIL, tail: NIL }; usize::from(queues)],
            hottest: NIL,
            hottest_count: 0,
            expiry: 0,
            accesses: 0,
            demotions: 0,
        })
    }

    /// Counts one access to a chunk at page clock `now` and returns the queue that names its stream.
    fn access(&mut self, chunk: u64, now: u64) -> u8 {
        self.accesses += 1;
        let clock = match self.params.clock {
            MqClock::Accesses => self.accesses,
            MqClock::Pages => now,
        };
        let slot = self.index.place(chunk) as u32;
        let known = (slot as usize) < self.chunks.len();
        if !known {
            self.chunks.push(Counted { count: 0, last: 0, expires: 0, before: NIL, after: NIL, queue: 0 });
        }
        let old_queue = self.chunks[slot as usize].queue;

        let c = &mut self.chunks[slot as usize];
        c.count = c.count.saturating_add(1);
        let count = c.count;
        if count > self.hottest_count {
            self.hottest = slot;
            self.hottest_count = count;
            self.expiry = clock - c.last;
        }
        c.last = clock;
        c.expires = clock.saturating_add(self.expiry);
        let level = self.levels.of(f64::from(count));
        if !known {
            self.append(slot, level);
        } else if level != old_queue || self.params.requeue == MqRequeue::EveryAccess {
            self.unlink(slot);
            self.append(slot, level);
        }
        self.demote(clock);

        match self.params.read {
            MqRead::AfterPromotion => self.chunks[slot as usize].queue,
            MqRead::BeforePromotion => old_queue,
        }
    }

    /// Moves the expired head of each queue one level down.
    fn demote(&mut self, clock: u64) {
        let lowest = match self.params.demotion {
            MqDemotion::EveryQueue => 0,
            MqDemotion::AboveLowest => 1,
        };
        for queue in lowest..self.queues.len() {
            let head = self.queues[queue].head;
            if head == NIL || self.chunks[head as usize].expires >= clock {
                continue;
            }
            if head == self.hottest {
                self.replace_hottest(head);
            }
            self.unlink(head);
            let c = &mut self.chunks[head as usize];
            c.expires = clock.saturating_add(self.expiry);
            if queue > 0 {
                self.demotions += 1;
                if self.params.count == MqCount::Halve {
                    c.count /= 2;
                    // It still is where nobody took its place. Others must be able to become hotter than it is now.
                    if head == self.hottest {
                        self.hottest_count = c.count;
                    }
                }
            }
            self.append(head, queue.saturating_sub(1) as u8);
        }
    }

    fn replace_hottest(&mut self, old: u32) {
        let heir = match self.params.hottest {
            MqHottest::NextInQueue => self.chunks[old as usize].after,
            MqHottest::SearchFromTop => self.search_hottest(old),
        };
        if heir != NIL {
            self.hottest = heir;
            self.hottest_count = self.chunks[heir as usize].count;
        }
    }

    fn search_hottest(&self, except: u32) -> u32 {
        for queue in self.queues[1..].iter().rev() {
            let (mut best, mut best_count, mut at) = (NIL, 0, queue.head);
            while at != NIL {
                let c = &self.chunks[at as usize];
                if at != except && c.count >= best_count {
                    (best, best_count) = (at, c.count);
                }
                at = c.after;
            }
            if best != NIL {
                return best;
            }
        }
        NIL
    }

    fn unlink(&mut self, slot: u32) {
        let Counted { before, after, queue, .. } = self.chunks[slot as usize];
        let queue = &mut self.queues[usize::from(queue)];
        match before {
            NIL => queue.head = after,
            b => self.chunks[b as usize].after = after,
        }
        match after {
            NIL => queue.tail = before,
            a => self.chunks[a as usize].before = before,
        }
    }

    fn append(&mut self, slot: u32, level: u8) {
        let queue = &mut self.queues[usize::from(level)];
        let last = std::mem::replace(&mut queue.tail, slot);
        match last {
            NIL => queue.head = slot,
            l => self.chunks[l as usize].after = slot,
        }
        let c = &mut self.chunks[slot as usize];
        (c.before, c.after, c.queue) = (last, NIL, level);
    }

    fn stream(&self, queue: u8) -> Stream {
        Stream((queue + 1).min(self.streams - 1))
    }
}

impl Scheme for AutoStreamMq {
    fn place(&mut self, event: &Event, now: u64, _: &Tables, out: &mut Vec<Placement>) {
        let chunk_pages = self.chunk_pages;
        if self.params.span == Span::FirstChunk {
            let queue = self.access(event.lba.0 / chunk_pages, now);
            out.push(Placement { pages: event.pages, stream: self.stream(queue) });
            return;
        }
        let start = out.len();
        for_each_chunk(event, chunk_pages, |chunk, pages| {
            let queue = self.access(chunk, now);
            push_run(out, start, pages, self.stream(queue));
        });
    }

    fn facts(&self) -> Vec<SchemeFact> {
        vec![
            ("chunks", self.chunks.len() as u64),
            ("demotions", self.demotions),
            ("expiry", self.expiry),
            ("hottest_count", u64::from(self.hottest_count)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunks::Chunk;
    use crate::level::{LevelRule, LogBase};
    use crate::testing::{device, placements, write};

    /// Chunks of one page, so that addresses are chunks.
    fn params() -> MqParams {
        MqParams { chunk_pages: Chunk::Page, ..MqParams::of_sepbit() }
    }

    /// Streams of single-page writes to these addresses, on a device with S0 and four others.
    fn streams(params: MqParams, lbas: &[u64]) -> Vec<u8> {
        let mut scheme = AutoStreamMq::new("autostream-mq", &device(5), params).expect("valid");
        lbas.iter().flat_map(|&l| placements(&mut scheme, &write(l, 1))).map(|p| p.stream.0).collect()
    }

    /// Expected columns: the access's count, level floor(log2 count) and stream, stepped by hand.
    #[test]
    fn promotion_by_hand() {
        // address  7  7  7  7  3  7  7  7  7  7*8
        // count    1  2  3  4  1  5  6  7  8  9..16
        let lbas = [7, 7, 7, 7, 3, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7];
        assert_eq!(streams(params(), &lbas), [1, 2, 2, 3, 1, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4, 4]);
        let before = MqParams { read: MqRead::BeforePromotion, ..params() };
        assert_eq!(streams(before, &lbas), [1, 1, 2, 2, 1, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4]);
        let natural = MqParams { level: LevelRule::Floor(LogBase::E), ..params() };
        assert_eq!(streams(natural, &lbas), [1, 1, 2, 2, 1, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3]);
        let ten = MqParams { level: LevelRule::Floor(LogBase::Ten), ..params() };
        assert_eq!(streams(ten, &lbas), [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2]);
        let ceil = MqParams { level: LevelRule::CeilTwo, ..params() };
        assert_eq!(streams(ceil, &lbas), [1, 1, 2, 2, 1, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4]);
    }

    /// Hand-stepped, accesses as clock. A is address 1, written four times; then others.
    /// access 1..4: A count 1..4, interval 1, hottest A, expiry 1; A in Q2, expires 5.
    /// access 5: B (Q0, expires 6); heads: Q2's A expires 5, not before 5.
    /// access 6: C (Q0, expires 7); A's 5 < 6: A to Q1, expires 7. Hottest stays A (alone in Q2).
    /// access 7: D; Q0's head B expires 6 < 7: to Q0's tail. A's 7 is not before 7.
    /// access 8: A again: count 5, its interval is 8 - 4 = 4.
    #[test]
    fn demotion_by_hand() {
        let lbas = [1, 1, 1, 1, 2, 3, 4, 1];
        assert_eq!(streams(params(), &lbas), [1, 2, 2, 3, 1, 1, 1, 3], "undone before it is seen");
        let before = MqParams { read: MqRead::BeforePromotion, ..params() };
        assert_eq!(streams(before, &lbas), [1, 1, 2, 2, 1, 1, 1, 2], "A was found in Q1");
        // Halving: count 4 becomes 2 at access 6, so that access 8 makes it 3: level 1.
        let halving = MqParams { count: MqCount::Halve, ..params() };
        assert_eq!(streams(halving.clone(), &lbas), [1, 2, 2, 3, 1, 1, 1, 2]);

        let mut scheme = AutoStreamMq::new("autostream-mq", &device(5), params()).expect("valid");
        for &l in &lbas {
            placements(&mut scheme, &write(l, 1));
        }
        assert_eq!((scheme.demotions, scheme.expiry, scheme.hottest_count), (1, 4, 5));

        // The hottest is demoted alone in its queue. Its count of 3 is above the halved one, so its interval counts.
        let mut scheme = AutoStreamMq::new("autostream-mq", &device(5), halving).expect("valid");
        for &l in &lbas {
            placements(&mut scheme, &write(l, 1));
        }
        assert_eq!((scheme.demotions, scheme.expiry, scheme.hottest_count), (1, 4, 3));
    }

    /// Ten chunks are hot, then the first is written once for every 5,000 writes of the others, which stay hot.
    #[test]
    fn a_chunk_cools_down_beside_hot_ones() {
        let default = || MqParams { chunk_pages: Chunk::Page, ..MqParams::default() };
        let last = |params: MqParams| {
            let hot = (0..20_000u64).map(|i| i % 10);
            let cooled = (0..200_000u64).map(|i| if i % 5_000 == 0 { 0 } else { 1 + i % 9 });
            let lbas: Vec<u64> = hot.chain(cooled).chain([1, 0]).collect();
            streams(params, &lbas)[lbas.len() - 2..].to_vec()
        };
        let [hot, cooled] = last(default())[..] else { unreachable!("two were asked for") };
        assert_eq!((hot, cooled), (4, 1));
        let bluedbm = MqParams { requeue: MqRequeue::LevelChange, ..default() };
        assert_eq!(last(bluedbm), [4, 4], "it stays behind a head that is hot");
    }

    /// With pages as clock, writes of 8 pages to the same chunks are 8 units apart.
    #[test]
    fn page_clock_measures_intervals_in_pages() {
        let clock = MqParams { chunk_pages: Chunk::Pages(8), clock: MqClock::Pages, ..MqParams::of_sepbit() };
        let mut scheme = AutoStreamMq::new("autostream-mq", &device(5), clock).expect("valid");
        let mut now = 0;
        for _ in 0..3 {
            scheme.place(&write(0, 8), now, &Tables::default(), &mut Vec::new());
            now += 8;
        }
        assert_eq!((scheme.expiry, scheme.accesses), (8, 3));
    }

    /// Two chunks reach Q1; the hottest (1, count 3) is at its head and expires.
    /// accesses: 1 1 1 2 2 then filler. expiry after access 3: 1; 1 expires at 4, 2 (access 5) at 6.
    /// access 5: head of Q1 is 1 (expires 4 < 5): demoted; it was the hottest.
    ///   NextInQueue: 2, with count 2, becomes the hottest; so access 6 to 2 (count 3 > 2) sets
    ///   expiry = 6 - 5 = 1 and the hottest count to 3.
    #[test]
    fn the_hottest_is_replaced() {
        for hottest in [MqHottest::NextInQueue, MqHottest::SearchFromTop] {
            let mut scheme = AutoStreamMq::new("autostream-mq", &device(5), MqParams { hottest, ..params() })
                .expect("valid");
            for l in [1, 1, 1, 2, 2] {
                placements(&mut scheme, &write(l, 1));
            }
            assert_eq!((scheme.hottest, scheme.hottest_count, scheme.demotions), (1, 2, 1), "{hottest:?}");
            placements(&mut scheme, &write(2, 1));
            assert_eq!((scheme.hottest_count, scheme.expiry), (3, 1));
        }
    }

    /// Requeueing on level changes only leaves an older chunk behind a younger one: 1 joins Q1
    /// first, 2 second; 1 is accessed again. EveryAccess: head is 2. LevelChange: head is still 1.
    #[test]
    fn requeue_rules_order_the_queue() {
        for (requeue, head) in [(MqRequeue::EveryAccess, 2), (MqRequeue::LevelChange, 1)] {
            let mut scheme = AutoStreamMq::new("autostream-mq", &device(5), MqParams { requeue, ..params() })
                .expect("valid");
            // The far address makes the expiry long enough that nothing is demoted.
            scheme.expiry = 100;
            scheme.hottest_count = 100;
            for l in [1, 1, 2, 2, 1] {
                placements(&mut scheme, &write(l, 1));
            }
            let slot = scheme.queues[1].head;
            assert_eq!(scheme.index.place(head), slot as usize, "{requeue:?}");
        }
    }

    #[test]
    fn a_write_across_chunks_is_cut_or_not() {
        let mut each = AutoStreamMq::new(
            "autostream-mq",
            &device(5),
            MqParams { chunk_pages: Chunk::Pages(4), ..params() },
        )
        .expect("valid");
        placements(&mut each, &write(0, 4));
        // Chunk 0 now counts 2 (Q1), chunk 1 counts 1 (Q0).
        let parts = placements(&mut each, &write(2, 4));
        assert_eq!(
            parts,
            [Placement { pages: 2, stream: Stream(2) }, Placement { pages: 2, stream: Stream(1) }]
        );
        let first = MqParams { chunk_pages: Chunk::Pages(4), span: Span::FirstChunk, ..params() };
        let mut first = AutoStreamMq::new("autostream-mq", &device(5), first).expect("valid");
        placements(&mut first, &write(0, 4));
        assert_eq!(placements(&mut first, &write(2, 4)), [Placement { pages: 4, stream: Stream(2) }]);
        assert_eq!(first.chunks.len(), 1);
    }

    #[test]
    fn a_chunk_of_no_pages_is_refused() {
        let error = AutoStreamMq::new(
            "autostream-mq",
            &device(5),
            MqParams { chunk_pages: Chunk::Pages(0), ..params() },
        )
        .err()
        .expect("refused");
        assert_eq!(error.to_string(), "autostream-mq.chunk_pages is 0, but must be at least 1");
    }
}
