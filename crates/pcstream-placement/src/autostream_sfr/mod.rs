//! autostream-sfr: AutoStream's sequentiality, frequency, recency (Yang et al., SYSTOR'17),
//! addresses only.
//!
//! Idea: a write that starts where the previous one ended keeps the previous stream. Any other
//! goes by its chunk's access count, which decays with time:
//! count = count / 2^((t - t_last) / decay) + 1, stream = 1 + min(floor(log2 count), m - 1).
//!
//! Units: chunks in pages, t in pages written by the host or in nanoseconds.
//!
//! Public implementations differ in every step; each difference is a field of [`SfrParams`], and
//! its readings are whole sets of them, to sweep over.
//!
//! Known weaknesses: blind to append-only and write-once data. "The previous write" is the
//! device's, so that two interleaved sequential writers hide each other. One entry of 16 bytes per
//! chunk touched, never evicted.

mod params;

use pcstream_trace::{Event, Tables};

use crate::chunks::{ChunkIndex, Span, for_each_chunk};
use crate::error::{SchemeError, check};
use crate::level::Levels;
use crate::parameter::Environment;
use crate::scheme::{Placement, Scheme, SchemeFact, Stream, push_run};
pub use params::{SfrArithmetic, SfrDecay, SfrOrder, SfrParams, SfrRead};

#[derive(Clone, Copy)]
struct Counted {
    count: f64,
    last: u64,
}

/// The SFR scheme.
pub struct AutoStreamSfr {
    params: SfrParams,
    chunk_pages: u64,
    levels: Levels,
    streams: u8,
    index: ChunkIndex,
    chunks: Vec<Counted>,
    /// Where the previous write ended; none before the first.
    previous_end: Option<u64>,
    previous_level: u8,
    sequential_pages: u64,
}

impl AutoStreamSfr {
    /// Makes the scheme. Errors call it `scheme`.
    pub fn new(
        scheme: &'static str,
        environment: &Environment,
        params: SfrParams,
    ) -> Result<AutoStreamSfr, SchemeError> {
        let streams = environment.streams();
        let chunk_pages = u64::from(params.chunk_pages.pages(environment.superblock_pages));
        check(chunk_pages > 0, scheme, "chunk_pages", chunk_pages, "at least 1")?;
        let (SfrDecay::Pages(period) | SfrDecay::Nanoseconds(period)) = params.decay;
        check(period > 0, scheme, "decay", period, "at least 1")?;
        let levels = Levels::new(params.level, streams.saturating_sub(1), scheme, "level")?;
        Ok(AutoStreamSfr {
            params,
            chunk_pages,
            levels,
            streams,
            index: ChunkIndex::default(),
            chunks: Vec::new(),
            previous_end: None,
            previous_level: 0,
            sequential_pages: 0,
        })
    }

    /// Counts one access and returns the chunk's level.
    fn access(&mut self, chunk: u64, clock: u64, period: u64) -> u8 {
        let SfrParams { order, arithmetic, read, .. } = self.params;
        let place = self.index.place(chunk);
        if place == self.chunks.len() {
            self.chunks.push(Counted { count: 0.0, last: clock });
        }
        let c = &mut self.chunks[place];
        let before = c.count;
        let elapsed = clock.saturating_sub(c.last);
        let decayed = |count: f64| match arithmetic {
            SfrArithmetic::Real => count * half_power(elapsed as f64 / period as f64),
            SfrArithmetic::Whole => (count * half_power((elapsed / period) as f64)).trunc(),
        };
        c.count = match order {
            SfrOrder::DecayThenCount => decayed(c.count) + 1.0,
            SfrOrder::CountThenDecay => decayed(c.count + 1.0),
        };
        c.last = clock;
        let count = match read {
            SfrRead::AfterUpdate => c.count,
            SfrRead::BeforeUpdate => before,
        };
        self.levels.of(count)
    }

    fn stream(&self, level: u8) -> Stream {
        Stream((level + 1).min(self.streams - 1))
    }
}

impl Scheme for AutoStreamSfr {
    fn place(&mut self, event: &Event, now: u64, _: &Tables, out: &mut Vec<Placement>) {
        let (clock, period) = match self.params.decay {
            SfrDecay::Pages(p) => (now, p),
            SfrDecay::Nanoseconds(p) => (event.time_ns, p),
        };
        let chunk_pages = self.chunk_pages;
        let follows = self.params.sequential && self.previous_end == Some(event.lba.0);
        self.previous_end = event.lba.0.checked_add(u64::from(event.pages));
        let start = out.len();
        if follows {
            self.sequential_pages += u64::from(event.pages);
            push_run(out, start, event.pages, self.stream(self.previous_level));
        }
        if self.params.span == Span::FirstChunk {
            let level = self.access(event.lba.0 / chunk_pages, clock, period);
            if !follows {
                self.previous_level = level;
                push_run(out, start, event.pages, self.stream(level));
            }
            return;
        }
        for_each_chunk(event, chunk_pages, |chunk, pages| {
            let level = self.access(chunk, clock, period);
            if !follows {
                self.previous_level = level;
                push_run(out, start, pages, self.stream(level));
            }
        });
    }

    fn facts(&self) -> Vec<SchemeFact> {
        vec![("chunks", self.chunks.len() as u64), ("sequential_pages", self.sequential_pages)]
    }
}

/// Steps of the table below per halving.
const STEPS: usize = 64;

/// 2^(-i / 64), by repeated multiplication with its 64th root.
const HALF_POWERS: [f64; STEPS] = {
    let root = 1.0 + series(-std::f64::consts::LN_2 / STEPS as f64);
    let (mut powers, mut i) = ([1.0; STEPS], 1);
    while i < STEPS {
        powers[i] = powers[i - 1] * root;
        i += 1;
    }
    powers
};

/// e^z - 1 for -ln 2 / 64 <= z <= 0; what is left out is below z^6 / 720 < 3e-15.
const fn series(z: f64) -> f64 {
    z * (1.0 + z * (1.0 / 2.0 + z * (1.0 / 6.0 + z * (1.0 / 24.0 + z * (1.0 / 120.0)))))
}

/// 2^-x for x >= 0, by IEEE additions and multiplications alone: the same on every machine, which
/// the maths library's exp2 is not. Relative error below 1e-12.
#[inline]
fn half_power(x: f64) -> f64 {
    // Below 2^-128 a count of at most 2^64 rounds to nothing.
    if x >= 128.0 {
        return 0.0;
    }
    let steps = (x * STEPS as f64) as usize;
    let rest = x - steps as f64 / STEPS as f64;
    let scale = f64::from_bits((1023 - (steps / STEPS) as u64) << 52);
    let power = HALF_POWERS[steps % STEPS];
    (power + power * series(-rest * std::f64::consts::LN_2)) * scale
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunks::Chunk;
    use crate::level::{LevelRule, LogBase};
    use crate::testing::{device, placements, write};

    fn params() -> SfrParams {
        SfrParams { chunk_pages: Chunk::Page, decay: SfrDecay::Pages(4), ..SfrParams::default() }
    }

    /// Streams of single-page writes on a device with S0 and four others; logical time counts them.
    fn streams(params: SfrParams, lbas: &[u64]) -> Vec<u8> {
        let mut scheme = AutoStreamSfr::new("autostream-sfr", &device(5), params).expect("valid");
        let mut out = Vec::new();
        for (now, &l) in lbas.iter().enumerate() {
            let mut event = write(l, 1);
            event.time_ns = now as u64;
            scheme.place(&event, now as u64, &Tables::default(), &mut out);
        }
        out.iter().map(|p| p.stream.0).collect()
    }

    /// Superblocks of 2098 pages make scaled chunks of 2 pages: pages 2 and 3 share one.
    #[test]
    fn a_scaled_chunk_goes_by_the_superblock() {
        for (chunk_pages, last) in [(Chunk::Scaled, 2), (Chunk::Page, 1), (Chunk::Pages(256), 2)] {
            let params = SfrParams { chunk_pages, sequential: false, ..SfrParams::default() };
            let mut device = device(5);
            device.superblock_pages = 2 * 1049;
            let mut scheme = AutoStreamSfr::new("autostream-sfr", &device, params).expect("valid");
            let of: Vec<_> = [2, 3].iter().flat_map(|&l| placements(&mut scheme, &write(l, 1))).collect();
            assert_eq!(of[1].stream, Stream(last), "{chunk_pages:?}");
        }
    }

    #[test]
    fn half_power_matches_the_maths_library() {
        for i in 0..12_800 {
            let x = f64::from(i) / 100.0;
            let exact = (-x).exp2();
            assert!((half_power(x) - exact).abs() <= exact * 1e-12, "{x}");
        }
        assert_eq!((half_power(0.0), half_power(1.0), half_power(7.0)), (1.0, 0.5, 1.0 / 128.0));
        assert_eq!((half_power(128.0), half_power(f64::INFINITY)), (0.0, 0.0));
    }

    /// One address, decay 4 pages, writes at t = 0, 1, 2, ...: each step multiplies by
    /// 2^-0.25 = 0.8409 and adds 1: 1, 1.841, 2.548, 3.143, 3.643, 4.063: streams 1 1 2 2 2 3.
    #[test]
    fn real_decay_by_hand() {
        assert_eq!(streams(params(), &[9; 6]), [1, 1, 2, 2, 2, 3]);
        // + 1, then decay: 1, 1.682, 2.255, 2.737, 3.142, 3.483, with the first not decayed.
        let order = SfrParams { order: SfrOrder::CountThenDecay, ..params() };
        assert_eq!(streams(order, &[9; 6]), [1, 1, 2, 2, 2, 2]);
        // Read before: nothing, 1, 1.841, 2.548, 3.143, 3.643.
        let before = SfrParams { read: SfrRead::BeforeUpdate, ..params() };
        assert_eq!(streams(before, &[9; 6]), [1, 1, 1, 2, 2, 2]);
    }

    /// Whole periods: no decay while writes are less than 4 pages apart: 1, 2, 3, 4. Then 9 pages
    /// pass, two whole periods: 4 / 4 + 1 = 2.
    #[test]
    fn whole_decay_by_hand() {
        let whole = SfrParams { arithmetic: SfrArithmetic::Whole, sequential: false, ..params() };
        let lbas = [9, 9, 9, 9, 20, 22, 24, 26, 28, 30, 32, 34, 9];
        assert_eq!(streams(whole, &lbas), [1, 2, 2, 3, 1, 1, 1, 1, 1, 1, 1, 1, 2]);
        // The count is cut after the division: 3 / 2 = 1.5 becomes 1, + 1 = 2.
        let whole = SfrParams { arithmetic: SfrArithmetic::Whole, sequential: false, ..params() };
        assert_eq!(streams(whole, &[9, 9, 9, 20, 22, 24, 9]), [1, 2, 2, 1, 1, 1, 2]);
    }

    /// Address 9 is hot (count 4.063, S3); 10 follows 9 and keeps S3 though it is new; 11 too; 50
    /// does not follow.
    #[test]
    fn a_sequential_write_keeps_the_stream() {
        let lbas = [9, 9, 9, 9, 9, 9, 10, 11, 50];
        assert_eq!(streams(params(), &lbas), [1, 1, 2, 2, 2, 3, 3, 3, 1]);
        let without = SfrParams { sequential: false, ..params() };
        assert_eq!(streams(without, &lbas), [1, 1, 2, 2, 2, 3, 1, 1, 1]);
    }

    #[test]
    fn decay_by_time() {
        let mut scheme = AutoStreamSfr::new(
            "autostream-sfr",
            &device(5),
            SfrParams { decay: SfrDecay::Nanoseconds(10), ..params() },
        )
        .expect("valid");
        for time_ns in [0, 0, 10] {
            let mut event = write(5, 1);
            event.time_ns = time_ns;
            placements(&mut scheme, &event);
        }
        // 1, 2, 2 / 2 + 1
        assert_eq!(scheme.chunks[0].count, 2.0);
    }

    #[test]
    fn a_write_across_chunks_is_cut_or_not() {
        let spans = |span| {
            let params = SfrParams { chunk_pages: Chunk::Pages(4), span, ..SfrParams::default() };
            let mut scheme = AutoStreamSfr::new("autostream-sfr", &device(5), params).expect("valid");
            placements(&mut scheme, &write(0, 4));
            placements(&mut scheme, &write(2, 4))
        };
        let part = |pages, stream| Placement { pages, stream: Stream(stream) };
        // Count of chunk 0: 1 decayed by 0 pages' worth (place() is called with now = 0) + 1 = 2.
        assert_eq!(spans(Span::EachChunk), [part(2, 2), part(2, 1)]);
        assert_eq!(spans(Span::FirstChunk), [part(4, 2)]);
    }

    #[test]
    fn impossible_parameters_are_refused() {
        for bad in [
            SfrParams { chunk_pages: Chunk::Pages(0), ..params() },
            SfrParams { decay: SfrDecay::Pages(0), ..params() },
            SfrParams { decay: SfrDecay::Nanoseconds(0), ..params() },
            SfrParams { level: LevelRule::Floor(LogBase::Other(1.0)), ..params() },
        ] {
            assert!(AutoStreamSfr::new("autostream-sfr", &device(5), bad.clone()).is_err(), "{bad:?}");
        }
    }
}
