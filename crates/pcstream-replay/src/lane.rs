//! One lane: one scheme writing into one device, and what is counted about the two.
//!
//! A lane sees exactly what every other lane sees, keeps nothing between batches but its own state,
//! and reads no clock for anything but its own speed: its numbers do not depend on how many lanes
//! run beside it, nor on how the trace is cut into batches.

mod result;
mod spec;
mod stream_lifetimes;

use std::sync::Arc;

use pcstream_placement::{Ahead, Placement, Scheme, SchemeFactory, Stream};
use pcstream_ssd::{DeviceSettings, GcDestination, LogicalPage, StreamId, Table};
use pcstream_trace::{ContextId, Event, Op, Tables};

use crate::checkpoints::{Checkpoints, Progress};
use crate::device::Device;
use crate::follower::{Follower, Placed};
use crate::liveness::Ended;
use crate::rounds::Rounds;
pub use result::{InternalStreamResult, LaneResult, StreamResult};
pub use spec::LaneSpec;
use stream_lifetimes::StreamLifetimes;

/// How many events ahead the tables know where a write will go: random single pages then miss the
/// cache once per batch of misses and not once each.
pub(crate) const PREFETCH_EVENTS: usize = 12;

/// Points of a result's progress.
const PROGRESS_POINTS: usize = 200;

/// How many events ahead the superblock that a page will leave is asked for: its map entry, which says
/// which one that is, has arrived by then.
const PREFETCH_SUPERBLOCK_EVENTS: usize = 5;

/// A batch as every lane gets it: the events, and which lifetimes each of them ended.
pub(crate) struct Prepared<'a> {
    /// The events, in order.
    pub events: &'a [Event],
    /// Runs of ended lifetimes of all events, in order.
    pub ended: Vec<Ended>,
    /// For each event, the end of its runs in `ended`.
    pub ended_until: Vec<usize>,
    /// Logical time before the first event.
    pub now: u64,
}

impl Prepared<'_> {
    /// The lifetimes that event `index` ended.
    pub fn ended_by(&self, index: usize) -> &[Ended] {
        let from = if index == 0 { 0 } else { self.ended_until[index - 1] };
        &self.ended[from..self.ended_until[index]]
    }
}

/// One scheme writing into one device.
pub(crate) struct Lane {
    factory: Arc<dyn SchemeFactory>,
    scheme: Box<dyn Scheme>,
    by_context: bool,
    device: Device,
    settings: DeviceSettings,
    victims: String,
    prefill_pages: u64,
    host_pages: u64,
    checkpoints: Checkpoints,
    rounds: Rounds,
    stream_host_pages: Vec<u64>,
    /// None if nobody asks for them.
    lifetimes: Option<StreamLifetimes>,
    /// Pages by context, then stream.
    context_pages: Vec<u64>,
    placements: Vec<Placement>,
    follower: Option<Arc<dyn Follower>>,
    /// What the batch placed, for the follower.
    placed: Vec<Placed>,
}

impl Lane {
    /// A lane that has seen nothing; `device` is prefilled with `prefill_pages` and counts from here on.
    /// `stream_of_page` has an entry for each of its pages, if lifetimes are kept.
    pub fn new(
        spec: &LaneSpec,
        mut scheme: Box<dyn Scheme>,
        device: Device,
        prefill_pages: u64,
        stream_of_page: Option<Table<u8>>,
    ) -> Lane {
        let settings = spec.device.clone();
        let streams = usize::from(settings.streams);
        let internal = if settings.gc_destination == GcDestination::Internal { streams } else { 0 };
        Lane {
            factory: spec.scheme.clone(),
            by_context: scheme.by_context().is_some(),
            scheme,
            device,
            prefill_pages,
            host_pages: 0,
            checkpoints: Checkpoints::default(),
            rounds: Rounds::new(settings.logical_pages),
            stream_host_pages: vec![0; streams],
            lifetimes: stream_of_page.map(|of_page| StreamLifetimes::new(of_page, streams, internal)),
            context_pages: Vec::new(),
            placements: Vec::new(),
            follower: spec.follower.clone(),
            placed: Vec::new(),
            victims: spec
                .victims
                .as_ref()
                .map_or_else(|| settings.victim.to_string(), |own| own.name().to_owned()),
            settings,
        }
    }

    /// Runs a batch. Its events are legal: the replay has checked them.
    pub fn run(&mut self, batch: &Prepared, tables: &Tables) {
        debug_assert_eq!(self.host_pages, batch.now, "every lane sees every write");
        self.scheme.prepare(batch.events, batch.now, tables);
        for (index, event) in batch.events.iter().enumerate() {
            if let Some(later) = batch.events.get(index + PREFETCH_EVENTS) {
                self.device.ssd().prefetch(LogicalPage(later.lba.0));
                if let Some(lifetimes) = &self.lifetimes {
                    lifetimes.prefetch(later.lba.0);
                }
                self.scheme.prefetch(later, Ahead::Far);
            }
            if let Some(later) = batch.events.get(index + PREFETCH_SUPERBLOCK_EVENTS) {
                self.device.ssd().prefetch_superblock(LogicalPage(later.lba.0));
                self.scheme.prefetch(later, Ahead::Near);
            }
            match event.op {
                Op::Write => self.write(event, batch.ended_by(index), tables),
                Op::Discard | Op::WriteZeroes => {
                    self.scheme.discard(event, self.host_pages, tables);
                    self.end(batch.ended_by(index));
                    self.device
                        .discard(LogicalPage(event.lba.0), u64::from(event.pages))
                        .expect("the replay has checked the address");
                }
                Op::Read => self.device.read(event.time_ns, LogicalPage(event.lba.0), event.pages),
                Op::Flush => {}
                Op::Exit => self.scheme.exit(event, tables),
            }
        }
        if let Some(follower) = &self.follower {
            follower.follow(&self.placed);
            self.placed.clear();
        }
    }

    fn write(&mut self, event: &Event, ended: &[Ended], tables: &Tables) {
        self.end(ended);
        let mut placements = std::mem::take(&mut self.placements);
        placements.clear();
        self.scheme.place(event, self.host_pages, tables, &mut placements);
        let placed: u64 = placements.iter().map(|p| u64::from(p.pages)).sum();
        assert!(
            placed == u64::from(event.pages),
            "scheme {} placed {placed} pages of the write of {} pages at page {}: a write's placements sum to its pages",
            self.factory.name(),
            event.pages,
            event.lba.0,
        );
        let mut first = event.lba.0;
        self.device.begin_write(event.time_ns);
        for placement in &placements {
            self.write_run(first, placement, event.context);
            first += u64::from(placement.pages);
        }
        self.device.end_write();
        self.placements = placements;
    }

    fn write_run(&mut self, first: u64, placement: &Placement, context: ContextId) {
        let Placement { pages, stream } = *placement;
        let streams = self.stream_host_pages.len();
        assert!(
            usize::from(stream.0) < streams,
            "scheme {} chose stream {} for a write at page {first}, but the device has streams 0 to {}: \
             Environment::streams() is their number",
            self.factory.name(),
            stream.0,
            streams - 1,
        );
        if self.follower.is_some() {
            self.placed.push(Placed { first: LogicalPage(first), pages, stream: StreamId(stream.0) });
        }
        self.stream_host_pages[usize::from(stream.0)] += u64::from(pages);
        if let Some(lifetimes) = &mut self.lifetimes {
            lifetimes.write(first, pages, stream.0);
        }
        let slot = context.0 as usize * streams;
        if slot >= self.context_pages.len() {
            self.context_pages.resize(slot + streams, 0);
        }
        self.context_pages[slot + usize::from(stream.0)] += u64::from(pages);
        let (mut next, until) = (first, first + u64::from(pages));
        while next < until {
            let to_checkpoint = self.checkpoints.pages_to_next(self.host_pages);
            let to_round = self.rounds.pages_to_next(self.host_pages);
            let step = (until - next).min(to_checkpoint).min(to_round);
            self.device
                .write(LogicalPage(next), step as u32, StreamId(stream.0))
                .expect("the replay has checked the address, the assertion above the stream");
            next += step;
            self.host_pages += step;
            if step == to_checkpoint {
                self.checkpoints.reach(self.device.ssd().counters().flash_pages());
            }
            if step == to_round {
                let flash_pages = self.device.ssd().counters().flash_pages();
                self.rounds.end(Progress { host_pages: self.host_pages, flash_pages });
            }
        }
    }

    /// Counts ended lifetimes, if anybody asks for them.
    #[inline]
    fn end(&mut self, ended: &[Ended]) {
        if let Some(lifetimes) = &mut self.lifetimes {
            lifetimes.end(ended, &self.device);
        }
    }

    /// What the scheme learned, if it is named `scheme` and learns what can be saved.
    pub fn learned(&self, scheme: &str) -> Option<Vec<u8>> {
        (self.factory.name() == scheme).then(|| self.scheme.learned()).flatten()
    }

    pub fn result(&self) -> LaneResult {
        let ssd = self.device.ssd();
        let counters = ssd.counters();
        if self.device.is_modelled() {
            assert_eq!(counters.host_pages, self.host_pages, "the device counts what the lane wrote");
        }
        // A device that is not modelled programs nothing, so it has no WAF.
        let rounds = self.device.is_modelled().then_some(&self.rounds);
        let steady = rounds.and_then(Rounds::steady);
        let streams = self.stream_host_pages.len();
        let internal = self.settings.gc_destination == GcDestination::Internal;
        let stream = |index: usize| StreamResult {
            stream: Stream(index as u8),
            host_pages: self.stream_host_pages[index],
            gc_pages: counters.streams[index].gc_pages,
            lifetimes: self.lifetimes.as_ref().map(|lifetimes| lifetimes.streams[index].clone()),
            internal: internal.then(|| InternalStreamResult {
                pages: counters.streams[index].gc_pages,
                copied_again: counters.streams[index].internal_gc_pages,
                lifetimes: self.lifetimes.as_ref().map(|lifetimes| lifetimes.internal[index].clone()),
            }),
        };
        LaneResult {
            scheme: self.factory.name().to_owned(),
            parameters: self.factory.changed(),
            knows_future: self.factory.needs_future(),
            reads_addresses: self.factory.reads_addresses(self.settings.superblock_pages),
            by_context: self.by_context,
            settings: self.settings.clone(),
            victims: self.victims.clone(),
            geometry: *ssd.geometry(),
            prefill_pages: self.prefill_pages,
            counters: counters.clone(),
            free_superblocks: ssd.free_superblocks(),
            progress: self.checkpoints.progress(PROGRESS_POINTS),
            live_pages: ssd.live_pages(),
            steady_start: steady
                .map_or_else(|| self.checkpoints.steady_start(self.host_pages), |(start, _)| start),
            steady: steady.map(|(_, steady)| steady),
            pages_to_steady: rounds.map_or(0, |rounds| rounds.pages_to_steady(self.host_pages)),
            wear: ssd.wear(),
            fdp: ssd.fdp_statistics(),
            timing: self.device.timing(),
            streams: (0..streams).map(stream).collect(),
            facts: self.scheme.facts(),
            remarks: self.scheme.remarks(),
            stream_of_context: self.context_pages.chunks(streams).map(heaviest_stream).collect(),
        }
    }
}

/// The first stream with most pages; `None` when there are none.
fn heaviest_stream(pages: &[u64]) -> Option<Stream> {
    let most = *pages.iter().max()?;
    (most > 0).then(|| Stream(pages.iter().position(|&p| p == most).expect("it is the maximum") as u8))
}
