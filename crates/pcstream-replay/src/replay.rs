//! Drives events through schemes into devices: all lanes see each batch, in parallel.
//!
//! A live capture and a trace on disk come through the same door, [`Replay::feed`]. A batch is
//! checked whole before any lane sees it, so after an error every lane stands at the end of the
//! batch before.
//!
//! Logical time before an event is the number of host pages written by the events before it.
//!
//! Determinism: a lane depends on the events, its own specification and nothing else. Results are
//! bit-identical alone or beside others, in any cut into batches, with any number of threads.

use std::error::Error;

use pcstream_placement::future::FutureTooLong;
use pcstream_placement::{Environment, Future, Room, Scheme};
use pcstream_ssd::{Density, DeviceSettings, GcDestination, LogicalPage, Spare, Ssd, Table};
use pcstream_trace::event::MAX_TIME_NS;
use pcstream_trace::{Batch, ContextId, Event, Extent, Op, Tables};
use rayon::prelude::*;

use crate::device::Device;
use crate::error::ReplayError;
use crate::lane::{Lane, LaneResult, LaneSpec, PREFETCH_EVENTS, Prepared};
use crate::liveness::{Liveness, MAX_CONTEXT, MAX_TIME};
use crate::occupied::Occupied;
use crate::writers::Writers;

/// What a scheme that looks ahead needs: when every page of a trace dies. A trace that does
/// not fit into memory is pushed batch by batch into a `FutureBuilder` instead.
pub fn future_of<'a>(batches: impl IntoIterator<Item = &'a Batch>) -> Result<Future, FutureTooLong> {
    Future::from_events(batches.into_iter().flat_map(|batch| &batch.events))
}

/// A running comparison of schemes on one trace.
pub struct Replay {
    lanes: Vec<Lane>,
    tables: Tables,
    liveness: Liveness,
    writers: Writers,
    address_pages: u64,
    /// On devices that cannot hold data at all addresses at once, and how many pages they can hold.
    occupied: Option<(Occupied, u64)>,
}

impl Replay {
    /// Makes every lane's device, prefills it with `prefill` (written once, sequentially, to S0, not
    /// counted) and starts counting.
    pub fn new(lanes: &[LaneSpec], prefill: &[Extent]) -> Result<Replay, ReplayError> {
        Replay::with_density(lanes, prefill, Density::Dense)
    }

    /// As `new`; `density` says how much of the devices will be written. It decides nothing but the memory taken.
    pub fn with_density(
        lanes: &[LaneSpec],
        prefill: &[Extent],
        density: Density,
    ) -> Result<Replay, ReplayError> {
        let device = &lanes.first().ok_or(ReplayError::NoLanes)?.device;
        for size in [|device: &DeviceSettings| device.logical_pages, DeviceSettings::address_pages] {
            if let Some(other) = lanes.iter().map(|l| size(&l.device)).find(|&pages| pages != size(device)) {
                return Err(ReplayError::LogicalPages { first: size(device), other });
            }
        }
        start_threads()?;
        let mut occupied = Occupied::of_thin(device).map_err(pcstream_ssd::GeometryError::from)?;
        check_prefill(prefill, device, occupied.as_mut())?;
        let lanes: Result<Vec<Lane>, ReplayError> =
            lanes.par_iter().map(|spec| make_lane(spec, prefill, density)).collect();
        let replay = Replay::of(lanes?, device.address_pages(), density)?;
        Ok(Replay { occupied: occupied.map(|occupied| (occupied, device.logical_pages)), ..replay })
    }

    /// A replay that asks one scheme where it would write, and models no device: for questions about contexts. The
    /// device may be of any size, and results say nothing of it. Of `spec.device` the sizes and streams are used.
    pub fn without_devices(spec: &LaneSpec) -> Result<Replay, ReplayError> {
        let logical_pages = spec.device.logical_pages;
        if logical_pages == 0 {
            return Err(pcstream_ssd::GeometryError::NoLogicalPages.into());
        }
        let smallest = DeviceSettings {
            logical_pages: 1,
            superblock_pages: 1,
            spare: Spare::Superblocks(u32::from(spec.device.streams) + 2),
            gc_destination: GcDestination::Own,
            ..DeviceSettings::default()
        };
        start_threads()?;
        let ssd = Ssd::new(&DeviceSettings { streams: spec.device.streams, ..smallest })?;
        let scheme = scheme_of(spec)?;
        let streams = stream_of_page(spec, logical_pages, Density::Sparse)?;
        let device = Device::Unmodelled(Box::new(ssd));
        let lane = Lane::new(spec, scheme, device, 0, streams);
        Replay::of(vec![lane], logical_pages, Density::Sparse)
    }

    fn of(lanes: Vec<Lane>, address_pages: u64, density: Density) -> Result<Replay, ReplayError> {
        let liveness = Liveness::new(address_pages, density).map_err(pcstream_ssd::GeometryError::from)?;
        let (tables, writers) = (Tables::default(), Writers::default());
        Ok(Replay { lanes, tables, liveness, writers, address_pages, occupied: None })
    }

    /// Runs the next piece of the trace through all lanes.
    pub fn feed(&mut self, batch: &Batch) -> Result<(), ReplayError> {
        self.check(batch)?;
        self.check_capacity(batch)?;
        self.tables.absorb(batch);
        self.writers.count_tables(batch);
        let prepared = self.prepare(&batch.events);
        let tables = &self.tables;
        self.lanes.par_iter_mut().for_each(|lane| lane.run(&prepared, tables));
        Ok(())
    }

    /// What the trace contained so far, by context and in total.
    pub fn writers(&self) -> &Writers {
        &self.writers
    }

    /// Frees the memory of the lanes, which have no results then. What was written stays known.
    pub fn drop_lanes(&mut self) {
        self.lanes = Vec::new();
    }

    /// Contexts and files seen so far.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// What the first lane of a scheme learned, for the next replay's `saved_table`; `None` if none runs it, or it
    /// learns nothing that can be saved.
    pub fn learned(&self, scheme: &str) -> Option<Vec<u8>> {
        self.lanes.iter().find_map(|lane| lane.learned(scheme))
    }

    /// Results so far, in the order of the lanes given.
    pub fn results(&self) -> Vec<LaneResult> {
        self.lanes.iter().map(Lane::result).collect()
    }

    /// Ends the lifetimes that the events end, and counts what is the same for every lane.
    fn prepare<'a>(&mut self, events: &'a [Event]) -> Prepared<'a> {
        let begin = self.writers.totals().host_pages;
        let (mut ended, mut ended_until) = (Vec::new(), Vec::with_capacity(events.len()));
        for (index, event) in events.iter().enumerate() {
            if let Some(later) = events.get(index + PREFETCH_EVENTS) {
                self.liveness.prefetch(later.lba.0);
            }
            let (from, now) = (ended.len(), self.writers.totals().host_pages);
            match event.op {
                Op::Write => self.liveness.write(event.lba.0, event.pages, event.context, now, &mut ended),
                Op::Discard | Op::WriteZeroes => {
                    self.liveness.discard(event.lba.0, event.pages, now, &mut ended)
                }
                Op::Read | Op::Flush | Op::Exit => {}
            }
            self.writers.count(event, &ended[from..]);
            ended_until.push(ended.len());
        }
        Prepared { events, ended, ended_until, now: begin }
    }

    fn check(&self, batch: &Batch) -> Result<(), ReplayError> {
        let contexts = self.tables.contexts().len();
        for (expected, context) in (contexts + 1..).zip(&batch.contexts) {
            check_id("contexts", context.id.0, expected)?;
        }
        let files = self.tables.files().len();
        for (expected, file) in (files + 1..).zip(&batch.files) {
            check_id("files", file.id.0, expected)?;
        }
        let known = (contexts + batch.contexts.len(), files + batch.files.len());
        let mut written = self.writers.totals().host_pages;
        for (number, event) in (self.writers.totals().events..).zip(&batch.events) {
            check_event(number, event, self.address_pages, known)?;
            written += if event.op == Op::Write { u64::from(event.pages) } else { 0 };
            if written > MAX_TIME {
                return Err(ReplayError::TooLarge {
                    event: number,
                    what: "pages of host writes",
                    limit: MAX_TIME,
                });
            }
        }
        Ok(())
    }

    /// Whether the devices can hold what the batch leaves. A batch that is refused leaves nothing behind.
    fn check_capacity(&mut self, batch: &Batch) -> Result<(), ReplayError> {
        let Some((occupied, logical_pages)) = &mut self.occupied else { return Ok(()) };
        let mut before = Vec::new();
        for (event, number) in batch.events.iter().zip(self.writers.totals().events..) {
            if event.op.has_pages() {
                let (first, pages) = (event.lba.0, u64::from(event.pages));
                before.push((first, pages, occupied.runs(first, pages)));
            }
            occupied.see(event);
            if occupied.live() > *logical_pages {
                let (live, logical_pages) = (occupied.live(), *logical_pages);
                before.iter().rev().for_each(|(first, pages, runs)| occupied.restore(*first, *pages, runs));
                return Err(ReplayError::Full { event: number, live, logical_pages });
            }
        }
        Ok(())
    }
}

fn check_id(table: &'static str, found: u32, expected: usize) -> Result<(), ReplayError> {
    if found as usize == expected { Ok(()) } else { Err(ReplayError::TableOrder { table, found, expected }) }
}

fn check_event(
    number: u64,
    event: &Event,
    logical_pages: u64,
    (contexts, files): (usize, usize),
) -> Result<(), ReplayError> {
    let (op, lba, pages) = (event.op.name(), event.lba.0, event.pages);
    if event.time_ns > MAX_TIME_NS {
        let what = "nanoseconds since its beginning";
        return Err(ReplayError::TooLarge { event: number, what, limit: MAX_TIME_NS });
    }
    if event.op.has_pages() {
        if pages == 0 {
            return Err(ReplayError::NoPages { event: number, op, lba });
        }
        if lba.checked_add(u64::from(pages)).is_none_or(|end| end > logical_pages) {
            return Err(ReplayError::BeyondDevice { event: number, op, lba, pages, logical_pages });
        }
    }
    let ContextId(context) = event.context;
    if context as usize > contexts {
        return Err(ReplayError::UnknownContext { event: number, context: event.context, known: contexts });
    }
    if context > MAX_CONTEXT {
        return Err(ReplayError::TooLarge { event: number, what: "contexts", limit: u64::from(MAX_CONTEXT) });
    }
    if event.file.0 as usize > files {
        return Err(ReplayError::UnknownFile { event: number, file: event.file.0, known: files });
    }
    Ok(())
}

/// Extents inside the device, none empty, none twice, and no more than it can hold; they are noted as `occupied`.
fn check_prefill(
    prefill: &[Extent],
    device: &DeviceSettings,
    occupied: Option<&mut Occupied>,
) -> Result<(), ReplayError> {
    let logical_pages = device.address_pages();
    let mut sorted: Vec<(u64, u64)> = prefill.iter().map(|e| (e.lba.0, e.pages)).collect();
    sorted.sort_unstable();
    let mut end = 0;
    for (first, pages) in sorted {
        let fault = |problem: String| Err(ReplayError::Prefill { first, pages, problem });
        match first.checked_add(pages) {
            _ if pages == 0 => return fault("it is empty".into()),
            Some(until) if until <= logical_pages => {
                if first < end {
                    return fault(format!("it overlaps the extent that ends at page {end}"));
                }
                end = until;
            }
            _ => return fault(format!("the device has {logical_pages} logical pages")),
        }
    }
    if let Some(occupied) = occupied {
        prefill.iter().for_each(|extent| occupied.fill(extent.lba.0, extent.pages));
        if occupied.live() > device.logical_pages {
            let (pages, problem) =
                (occupied.live(), format!("the device holds {} pages", device.logical_pages));
            return Err(ReplayError::Prefill { first: 0, pages, problem });
        }
    }
    Ok(())
}

/// What open superblocks cost the device of a lane; `None` if it cannot be.
fn room(spec: &LaneSpec) -> Option<Room> {
    let geometry = spec.geometry().ok()?;
    let full = geometry.logical_pages().div_ceil(geometry.superblock_pages().into());
    let (open_per_stream, open_shared) = match geometry.gc_destination() {
        GcDestination::Own => (1, 0),
        GcDestination::Internal => (2, 0),
        GcDestination::Shared => (1, 1),
    };
    let spare_superblocks = geometry.superblocks().saturating_sub(u32::try_from(full).ok()?);
    Some(Room { spare_superblocks, open_per_stream, open_shared })
}

/// Makes the scheme of a lane.
fn scheme_of(spec: &LaneSpec) -> Result<Box<dyn Scheme>, ReplayError> {
    let mut environment = Environment::new(spec.device.streams)?;
    environment.superblock_pages = spec.device.superblock_pages;
    environment.room = room(spec);
    environment.future = spec.future.clone().filter(|_| spec.looks_ahead());
    Ok(spec.scheme.build(&environment)?)
}

/// A table for the stream of each page, if the lane needs it.
fn stream_of_page(spec: &LaneSpec, pages: u64, density: Density) -> Result<Option<Table<u8>>, ReplayError> {
    let table = spec.lifetimes.then(|| Table::zeroed(pages, density)).transpose();
    Ok(table.map_err(pcstream_ssd::GeometryError::from)?)
}

/// Starts the threads on which lanes run, unless they are there already.
fn start_threads() -> Result<(), ReplayError> {
    let started = rayon::ThreadPoolBuilder::new().build_global();
    match started.as_ref().map_err(Error::source) {
        Err(Some(reason)) => Err(ReplayError::Threads(reason.to_string())),
        Ok(()) | Err(None) => Ok(()),
    }
}

fn make_lane(spec: &LaneSpec, prefill: &[Extent], density: Density) -> Result<Lane, ReplayError> {
    let scheme = scheme_of(spec)?;
    let mut ssd = match &spec.victims {
        Some(own) => Ssd::with_own_victims(&spec.device, density, own)?,
        None => Ssd::with_density(&spec.device, density)?,
    };
    for extent in prefill {
        ssd.prefill(LogicalPage(extent.lba.0), extent.pages).expect("extents have been checked");
    }
    ssd.start_counting();
    let prefill_pages = prefill.iter().map(|e| e.pages).sum();
    let device = Device::new(ssd, spec.clock.as_ref())?;
    let streams = stream_of_page(spec, spec.device.address_pages(), density)?;
    Ok(Lane::new(spec, scheme, device, prefill_pages, streams))
}
