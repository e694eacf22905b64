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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MqRead {
    /// After the chunk's promotion (SepBIT).
    #[default]
    AfterPromotion,
    /// Before it (BlueDBM): the write that fills a count still goes to the old queue.
    BeforePromotion,
}

/// Which queues lose their expired head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MqDemotion {
    /// Every queue; in the lowest, the head goes to the tail (SepBIT).
    #[default]
    EveryQueue,
    /// All but the lowest (BlueDBM).
    AboveLowest,
}

/// What happens to the count of a chunk that is demoted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MqCount {
    /// Nothing (SepBIT, BlueDBM, the original multi-queue).
    Keep,
    /// It is halved, so that the level stays lost until it is earned again: chunks cool down.
    #[default]
    Halve,
}

/// When an accessed chunk goes to its queue's tail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MqRequeue {
    /// On every access: queues are in order of last access (SepBIT).
    #[default]
    EveryAccess,
    /// Only when its level changes (BlueDBM).
    LevelChange,
}

/// Who sets the expiry after the hottest chunk itself was demoted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MqHottest {
    /// The next chunk of the same queue, if there is one (SepBIT).
    #[default]
    NextInQueue,
    /// The chunk with the highest count in the highest queue that has another chunk, the later
    /// one of equals, the lowest queue excepted (BlueDBM). Scans that queue.
    SearchFromTop,
}

/// What the multi-queue's clock counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MqClock {
    /// Accesses to chunks (SepBIT, BlueDBM).
    #[default]
    Accesses,
    /// Pages written by the host, this write excluded.
    Pages,
}

/// Parameters of `autostream-mq`. The default is SepBIT's reading with log2.
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
            level: LevelRule::Floor(LogBase::Two),
            read: MqRead::default(),
            span: Span::default(),
            demotion: MqDemotion::default(),
            count: MqCount::default(),
            requeue: MqRequeue::default(),
            hottest: MqHottest::default(),
            clock: MqClock::default(),
        }
    }
}

impl MqParams {
    /// Named readings to sweep over, the default first.
    pub fn readings() -> Vec<(&'static str, MqParams)> {
        let default = MqParams::default;
        vec![
            ("default", default()),
            ("sepbit", MqParams { level: LevelRule::Floor(LogBase::E), count: MqCount::Keep, ..default() }),
            (
                "bluedbm",
                MqParams {
                    level: LevelRule::Floor(LogBase::Ten),
                    read: MqRead::BeforePromotion,
                    span: Span::FirstChunk,
                    demotion: MqDemotion::AboveLowest,
                    count: MqCount::Keep,
                    requeue: MqRequeue::LevelChange,
                    hottest: MqHottest::SearchFromTop,
                    ..default()
                },
            ),
            (
                "before-promotion",
                MqParams { read: MqRead::BeforePromotion, count: MqCount::Keep, ..default() },
            ),
            ("keeping", MqParams { count: MqCount::Keep, ..default() }),
            ("halving-pages", MqParams { count: MqCount::Halve, clock: MqClock::Pages, ..default() }),
            ("chunk-256k", MqParams { chunk_pages: Chunk::Pages(64), count: MqCount::Halve, ..default() }),
            ("chunk-4m", MqParams { chunk_pages: Chunk::Pages(1024), count: MqCount::Halve, ..default() }),
            ("scaled", MqParams { chunk_pages: Chunk::Scaled, ..default() }),
            ("keeping-scaled", MqParams { chunk_pages: Chunk::Scaled, count: MqCount::Keep, ..default() }),
        ]
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
        parameter!(MqParams, level, "floor-BASE, ceil-2", "from an access count to a queue", "this project; SepBIT: floor-e, BlueDBM: floor-10"),
        parameter!(MqParams, read, MqRead::CHOICES, "when the stream of a write is read", "SepBIT; BlueDBM: before-promotion"),
        parameter!(MqParams, span, Span::CHOICES, "which chunks of a write count", "SepBIT; BlueDBM: first-chunk"),
        parameter!(MqParams, demotion, MqDemotion::CHOICES, "which queues lose their expired head", "SepBIT; BlueDBM: above-lowest"),
        parameter!(MqParams, count, MqCount::CHOICES, "what a demotion does to the count of a chunk", "this project: chunks cool down; SepBIT and BlueDBM: keep"),
        parameter!(MqParams, requeue, MqRequeue::CHOICES, "when an access moves a chunk to its queue's tail", "SepBIT; BlueDBM: level-change"),
        parameter!(MqParams, hottest, MqHottest::CHOICES, "who sets the expiry after the hottest chunk was demoted", "SepBIT; BlueDBM: search-from-top"),
        parameter!(MqParams, clock, MqClock::CHOICES, "what the clock counts", "SepBIT and BlueDBM"),
    ];

    fn readings() -> Vec<(&'static str, MqParams)> {
        MqParams::readings()
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
