//! What the paper leaves open in the multi-queue: each choice is a field of [`MqParams`], with the answers of public
//! implementations (SepBIT, BlueDBM).

use super::AutoStreamMq;
use crate::chunks::{Chunk, Span};
use crate::error::SchemeError;
use crate::level::{LevelRule, LogBase};
use crate::parameter::{Environment, Parameter, Parameters};
use crate::scheme::Scheme;
use crate::{choices, parameter};

/// When the stream of a write is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MqRead {
    /// After the chunk's promotion (SepBIT).
    AfterPromotion,
    /// Before it (BlueDBM): the write that fills a count still goes to the old queue.
    BeforePromotion,
}

/// Which queues lose their expired head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MqDemotion {
    /// Every queue; in the lowest, the head goes to the tail (SepBIT).
    EveryQueue,
    /// All but the lowest (BlueDBM).
    AboveLowest,
}

/// What happens to the count of a chunk that is demoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MqCount {
    /// Nothing (SepBIT, BlueDBM, the original multi-queue).
    Keep,
    /// It is halved, so that the level stays lost until it is earned again: chunks cool down.
    Halve,
}

/// When an accessed chunk goes to its queue's tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MqRequeue {
    /// On every access: queues are in order of last access (SepBIT).
    EveryAccess,
    /// Only when its level changes (BlueDBM).
    LevelChange,
}

/// Who sets the expiry after the hottest chunk itself was demoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MqHottest {
    /// The next chunk of the same queue, if there is one (SepBIT).
    NextInQueue,
    /// The chunk with the highest count in the highest queue that has another chunk, the later
    /// one of equals, the lowest queue excepted (BlueDBM). Scans that queue.
    SearchFromTop,
}

/// What the multi-queue's clock counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MqClock {
    /// Accesses to chunks (SepBIT, BlueDBM).
    Accesses,
    /// Pages written by the host, this write excluded.
    Pages,
}

/// Parameters of `autostream-mq`. The default is BlueDBM's reading, where a demotion takes effect, but for `requeue`: only the head
/// of a queue is looked at, so a queue has to be in order of last access for every chunk to cool down.
#[derive(Clone, Debug, PartialEq)]
pub struct MqParams {
    /// Pages of a chunk; 256 (1 MiB), as in SepBIT and BlueDBM, whatever the device's superblock.
    pub chunk_pages: Chunk,
    /// From count to queue.
    pub level: LevelRule,
    /// When the stream is read.
    pub read: MqRead,
    /// Which chunks of a write count.
    pub span: Span,
    /// Which queues are demoted from.
    pub demotion: MqDemotion,
    /// What a demotion does to the count.
    pub count: MqCount,
    /// When an access moves a chunk to the tail.
    pub requeue: MqRequeue,
    /// Who follows the hottest chunk.
    pub hottest: MqHottest,
    /// What the clock counts.
    pub clock: MqClock,
}

impl Default for MqParams {
    fn default() -> Self {
        MqParams {
            chunk_pages: Chunk::Pages(256),
            level: LevelRule::Floor(LogBase::Ten),
            read: MqRead::BeforePromotion,
            span: Span::FirstChunk,
            demotion: MqDemotion::AboveLowest,
            count: MqCount::Keep,
            requeue: MqRequeue::EveryAccess,
            hottest: MqHottest::SearchFromTop,
            clock: MqClock::Accesses,
        }
    }
}

impl MqParams {
    /// SepBIT's reading with log2.
    pub fn of_sepbit() -> MqParams {
        MqParams {
            level: LevelRule::Floor(LogBase::Two),
            read: MqRead::AfterPromotion,
            span: Span::EachChunk,
            demotion: MqDemotion::EveryQueue,
            hottest: MqHottest::NextInQueue,
            ..MqParams::default()
        }
    }
}

choices!(MqRead: AfterPromotion = "after-promotion", BeforePromotion = "before-promotion");
choices!(MqDemotion: EveryQueue = "every-queue", AboveLowest = "above-lowest");
choices!(MqCount: Keep = "keep", Halve = "halve");
choices!(MqRequeue: EveryAccess = "every-access", LevelChange = "level-change");
choices!(MqHottest: NextInQueue = "next-in-queue", SearchFromTop = "search-from-top");
choices!(MqClock: Accesses = "accesses", Pages = "pages");

#[rustfmt::skip]
impl Parameters for MqParams {
    const LIST: &'static [Parameter<MqParams>] = &[
        parameter!(MqParams, chunk_pages, "pages, page, or scaled", "size of a chunk; scaled is 1/1049 superblock", "1 MiB, as SepBIT and BlueDBM"),
        parameter!(MqParams, level, "floor-BASE, ceil-2", "from an access count to a queue", "BlueDBM; SepBIT: floor-e"),
        parameter!(MqParams, read, MqRead::CHOICES, "when the stream of a write is read", "BlueDBM; SepBIT: after-promotion"),
        parameter!(MqParams, span, Span::CHOICES, "which chunks of a write count", "BlueDBM; SepBIT: each-chunk"),
        parameter!(MqParams, demotion, MqDemotion::CHOICES, "which queues lose their expired head", "BlueDBM; SepBIT: every-queue"),
        parameter!(MqParams, count, MqCount::CHOICES, "what a demotion does to the count of a chunk", "SepBIT and BlueDBM; halve is this project's"),
        parameter!(MqParams, requeue, MqRequeue::CHOICES, "when an access moves a chunk to its queue's tail", "SepBIT; BlueDBM: level-change"),
        parameter!(MqParams, hottest, MqHottest::CHOICES, "who sets the expiry after the hottest chunk was demoted", "BlueDBM; SepBIT: next-in-queue"),
        parameter!(MqParams, clock, MqClock::CHOICES, "what the clock counts", "SepBIT and BlueDBM"),
    ];

    fn readings() -> Vec<(&'static str, MqParams)> {
        let default = MqParams::default;
        let sepbit = MqParams::of_sepbit;
        let halving = || MqParams { count: MqCount::Halve, ..sepbit() };
        vec![
            ("default", default()),
            ("bluedbm", MqParams { requeue: MqRequeue::LevelChange, ..default() }),
            ("chunk-256k", MqParams { chunk_pages: Chunk::Pages(64), ..default() }),
            ("chunk-4m", MqParams { chunk_pages: Chunk::Pages(1024), ..default() }),
            ("scaled", MqParams { chunk_pages: Chunk::Scaled, ..default() }),
            ("sepbit", MqParams { level: LevelRule::Floor(LogBase::E), ..sepbit() }),
            ("keeping", sepbit()),
            ("keeping-scaled", MqParams { chunk_pages: Chunk::Scaled, ..sepbit() }),
            ("before-promotion", MqParams { read: MqRead::BeforePromotion, ..sepbit() }),
            ("halving", halving()),
            ("halving-pages", MqParams { clock: MqClock::Pages, ..halving() }),
            ("halving-scaled", MqParams { chunk_pages: Chunk::Scaled, ..halving() }),
        ]
    }

    fn reads_addresses(&self, superblock_pages: u32) -> bool {
        self.chunk_pages.pages(superblock_pages) > 1
    }

    fn build(
        &self,
        scheme: &'static str,
        environment: &Environment,
    ) -> Result<Box<dyn Scheme>, SchemeError> {
        Ok(Box::new(AutoStreamMq::new(scheme, environment, self.clone())?))
    }
}
