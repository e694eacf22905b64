//! What public implementations do differently: each choice is a field of [`SfrParams`], with the answers of SepBIT, BlueDBM
//! and the ftrace-based AutoStream.

use super::AutoStreamSfr;
use crate::chunks::{Chunk, Span};
use crate::error::SchemeError;
use crate::level::{LevelRule, LogBase};
use crate::parameter::{Environment, Parameter, Parameters, Value};
use crate::scheme::Scheme;
use crate::{choices, parameter};

/// How fast a count halves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SfrDecay {
    /// Per this many pages written; SepBIT: 16384 (64 MiB).
    Pages(u64),
    /// Per this many nanoseconds of trace time; BlueDBM: 30 s, the ftrace version: 10 s.
    Nanoseconds(u64),
}

/// In which order a count decays and grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SfrOrder {
    /// Decay, then + 1 (SepBIT).
    #[default]
    DecayThenCount,
    /// + 1, then decay (BlueDBM, ftrace).
    CountThenDecay,
}

/// When the stream of a write is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SfrRead {
    /// After the write was counted (SepBIT).
    #[default]
    AfterUpdate,
    /// Before (BlueDBM); a chunk never seen is level 0.
    BeforeUpdate,
}

/// How exactly decay is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SfrArithmetic {
    /// Real numbers: a count decays a little with every page. This project's choice.
    #[default]
    Real,
    /// Whole decay periods, and counts cut to integers (SepBIT, BlueDBM): a chunk written more
    /// than once per period never cools.
    Whole,
}

/// Parameters of `autostream-sfr`. The default is SepBIT's order and decay, in real numbers, which are this project's.
#[derive(Clone, Debug, PartialEq)]
pub struct SfrParams {
    /// Pages of a chunk; 256 (1 MiB), as in `autostream-mq`. SepBIT and BlueDBM: 512.
    pub chunk_pages: Chunk,
    /// How fast counts halve.
    pub decay: SfrDecay,
    /// From count to level.
    pub level: LevelRule,
    /// Decay before or after counting.
    pub order: SfrOrder,
    /// Stream before or after counting.
    pub read: SfrRead,
    /// Real or whole numbers.
    pub arithmetic: SfrArithmetic,
    /// Which chunks of a write count.
    pub span: Span,
    /// Whether a write that starts where the previous one ended keeps its stream. Without it, this
    /// is frequency and recency alone.
    pub sequential: bool,
}

impl Default for SfrParams {
    fn default() -> Self {
        SfrParams {
            chunk_pages: Chunk::Pages(256),
            decay: SfrDecay::Pages(16384),
            level: LevelRule::Floor(LogBase::Two),
            order: SfrOrder::default(),
            read: SfrRead::default(),
            arithmetic: SfrArithmetic::default(),
            span: Span::default(),
            sequential: true,
        }
    }
}

choices!(SfrOrder: DecayThenCount = "decay-then-count", CountThenDecay = "count-then-decay");
choices!(SfrRead: AfterUpdate = "after-update", BeforeUpdate = "before-update");
choices!(SfrArithmetic: Real = "real", Whole = "whole");

/// `16384` pages, or `30000000000ns`.
impl Value for SfrDecay {
    fn read(text: &str) -> Result<Self, String> {
        let (number, make): (&str, fn(u64) -> SfrDecay) = match text.strip_suffix("ns") {
            Some(number) => (number, SfrDecay::Nanoseconds),
            None => (text, SfrDecay::Pages),
        };
        number.parse().map(make).map_err(|_| "a number of pages, or nanoseconds such as 30000000000ns".into())
    }

    fn show(&self) -> String {
        match self {
            SfrDecay::Pages(pages) => pages.to_string(),
            SfrDecay::Nanoseconds(time) => format!("{time}ns"),
        }
    }
}

#[rustfmt::skip]
impl Parameters for SfrParams {
    const LIST: &'static [Parameter<SfrParams>] = &[
        parameter!(SfrParams, chunk_pages, "pages, page, or scaled", "size of a chunk; scaled is 1/1049 superblock", "as autostream-mq; SepBIT and BlueDBM: 512"),
        parameter!(SfrParams, decay, "pages, or ns", "what halves a count", "SepBIT: 64 MiB; BlueDBM: 30 s"),
        parameter!(SfrParams, level, "floor-BASE, ceil-2", "from a count to a stream", "this project; SepBIT: floor-e, BlueDBM: floor-10"),
        parameter!(SfrParams, order, SfrOrder::CHOICES, "in which order a count decays and grows", "SepBIT; BlueDBM: count-then-decay"),
        parameter!(SfrParams, read, SfrRead::CHOICES, "when the stream of a write is read", "SepBIT; BlueDBM: before-update"),
        parameter!(SfrParams, arithmetic, SfrArithmetic::CHOICES, "how exactly decay is computed", "this project; SepBIT and BlueDBM: whole"),
        parameter!(SfrParams, span, Span::CHOICES, "which chunks of a write count", "SepBIT; BlueDBM: first-chunk"),
        parameter!(SfrParams, sequential, "true, false", "whether a write that follows the previous one keeps its stream", "SYSTOR'17"),
    ];

    fn readings() -> Vec<(&'static str, SfrParams)> {
        let default = SfrParams::default;
        let seconds = |s: u64| SfrDecay::Nanoseconds(s * 1_000_000_000);
        vec![
            ("default", default()),
            (
                "sepbit",
                SfrParams {
                    chunk_pages: Chunk::Pages(512),
                    level: LevelRule::Floor(LogBase::E),
                    arithmetic: SfrArithmetic::Whole,
                    ..default()
                },
            ),
            (
                "bluedbm",
                SfrParams {
                    chunk_pages: Chunk::Pages(512),
                    decay: seconds(30),
                    level: LevelRule::Floor(LogBase::Ten),
                    order: SfrOrder::CountThenDecay,
                    read: SfrRead::BeforeUpdate,
                    arithmetic: SfrArithmetic::Whole,
                    span: Span::FirstChunk,
                    ..default()
                },
            ),
            (
                "ftrace",
                SfrParams {
                    chunk_pages: Chunk::Pages(512),
                    decay: seconds(10),
                    level: LevelRule::CeilTwo,
                    order: SfrOrder::CountThenDecay,
                    sequential: false,
                    ..default()
                },
            ),
            ("decay-1m", SfrParams { decay: SfrDecay::Pages(1 << 20), ..default() }),
            ("decay-16m", SfrParams { decay: SfrDecay::Pages(1 << 24), ..default() }),
            (
                "chunk-256k",
                SfrParams { chunk_pages: Chunk::Pages(64), decay: SfrDecay::Pages(1 << 20), ..default() },
            ),
            (
                "chunk-4m",
                SfrParams { chunk_pages: Chunk::Pages(1024), decay: SfrDecay::Pages(1 << 20), ..default() },
            ),
            ("scaled", SfrParams { chunk_pages: Chunk::Scaled, ..default() }),
        ]
    }

    fn reads_addresses(&self, superblock_pages: u32) -> bool {
        self.sequential || self.chunk_pages.pages(superblock_pages) > 1
    }

    fn build(
        &self,
        scheme: &'static str,
        environment: &Environment,
    ) -> Result<Box<dyn Scheme>, SchemeError> {
        Ok(Box::new(AutoStreamSfr::new(scheme, environment, self.clone())?))
    }
}
