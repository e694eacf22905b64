//! The page-mapped FTL: host writes, discards and garbage collection.
//!
//! State. `map` gives each logical page its physical page; `logical_of` gives each physical page the
//! logical page that was programmed there last. Overwrites and discards do not touch `logical_of`: a
//! physical page p is valid exactly when `map[logical_of[p]] == p`. That saves a random write per host
//! page, and costs GC a look into the map, which it needs anyway to move a page. Both are 4 bytes per
//! page; superblocks have 18 bytes each. A physical page is `superblock << offset_bits | offset`
//! with superblocks numbered from 1, so that 0 can mean "unmapped".
//!
//! A write of a run of pages:
//! 1. If the stream has no open superblock, one is opened. While fewer than two superblocks are free,
//!    GC empties victims first (`geometry` shows that this ends).
//! 2. As many pages as fit lose their old copies and are programmed in order. Old copies are taken
//!    off superblock by superblock, not page by page.
//! 3. A full superblock is closed: from now on it can be a victim.
//!
//! With watermarks set, victims are emptied between host pages, too (`background`).
//!
//! GC of a victim: see `gc`. Pools of given sizes are held to a least gain (`least_gain`).
//!
//! Invariants: see `verify`. Always asserted: no valid count goes below zero, a victim has as many
//! valid pages as its count says, an open superblock is never overfilled, GC always finds a free
//! superblock.
//!
//! Not modelled: wear levelling beyond the order of the free queue, bad blocks, metadata writes of the
//! FTL itself, padding at power loss.

mod gc;
mod io_error;
mod least_gain;

use std::collections::VecDeque;

use crate::background::Background;
use crate::counters::Counters;
use crate::geometry::{GC_RESERVE_SUPERBLOCKS, Geometry, GeometryError};
use crate::ids::{LogicalPage, StreamId, SuperblockId};
use crate::memory::{self, Density, OutOfMemory, Table, collected};
use crate::observer::{NoObserver, Observer};
use crate::settings::DeviceSettings;
use crate::victim::{OwnVictims, Pools, Select, Superblocks};

pub use io_error::IoError;
use least_gain::LeastGain;

/// `map` entry of a page that holds no data.
pub(crate) const UNMAPPED: u32 = 0;

/// Pages that GC looks ahead: enough for the map's cache misses to overlap.
const GC_LOOKAHEAD_PAGES: usize = 24;

/// A multi-streamed SSD.
pub struct Ssd {
    pub(crate) geometry: Geometry,
    pub(crate) offset_bits: u32,
    /// Physical page of each logical page, or `UNMAPPED`.
    pub(crate) map: Table<u32>,
    /// Logical page programmed last in each physical page; index `superblock * b + offset`. Has
    /// `GC_LOOKAHEAD_PAGES` entries too many, so that looking ahead needs no check.
    pub(crate) logical_of: Table<u32>,
    pub(crate) table: Superblocks,
    /// Frontier that filled each superblock last.
    pub(crate) owners: Table<u16>,
    pub(crate) frontiers: Vec<Frontier>,
    /// Which external streams are open.
    open_streams: Vec<bool>,
    /// In the order of their erasure.
    pub(crate) free: VecDeque<u32>,
    selector: Box<dyn Select + Send>,
    background: Background,
    /// Logical pages that hold data.
    mapped_pages: u64,
    /// Logical time: pages written by the host since the device was made.
    now_pages: u64,
    /// Victims in a row that had no invalid page.
    fruitless_victims: u32,
    pub(crate) counters: Counters,
    /// Counted before `start_counting`, and during prefills.
    pub(crate) uncounted: Counters,
}

/// Where the next page of a stream (or internal stream, or of all GC copies) is programmed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Frontier {
    /// Open superblock, or 0.
    pub(crate) superblock: u32,
    /// Its pages programmed so far.
    pub(crate) offset: u32,
}

impl Ssd {
    /// A device whose superblocks are all free, most of whose pages will be written.
    pub fn new(settings: &DeviceSettings) -> Result<Ssd, GeometryError> {
        Ssd::with_density(settings, Density::Dense)
    }

    /// A device whose superblocks are all free; `density` says how much of it will be written. It decides nothing but
    /// the memory taken.
    pub fn with_density(settings: &DeviceSettings, density: Density) -> Result<Ssd, GeometryError> {
        Ssd::build(settings, density, |table, geometry| selector(settings, geometry, table))
    }

    /// As `with_density`, with a victim policy of one's own in place of `settings.victim` and `settings.pools`.
    pub fn with_own_victims(
        settings: &DeviceSettings,
        density: Density,
        own: &OwnVictims,
    ) -> Result<Ssd, GeometryError> {
        Ssd::build(&settings.for_own_victims(), density, |table, _| Ok(own.make(table)))
    }

    fn build(
        settings: &DeviceSettings,
        density: Density,
        victims: impl FnOnce(&mut Superblocks, &Geometry) -> Result<Box<dyn Select + Send>, OutOfMemory>,
    ) -> Result<Ssd, GeometryError> {
        let geometry = Geometry::new(settings)?;
        let n = geometry.superblocks();
        let mut table = Superblocks::new(
            n,
            geometry.superblock_pages(),
            settings.list_heads(geometry.open_superblocks()),
        )?;
        let selector = victims(&mut table, &geometry)?;
        let physical_slots = (u64::from(n) + 1) * u64::from(geometry.superblock_pages());
        let streams = usize::from(geometry.streams());
        Ok(Ssd {
            geometry,
            offset_bits: geometry.offset_bits(),
            map: Table::zeroed(geometry.address_pages(), density)?,
            logical_of: Table::zeroed(physical_slots + GC_LOOKAHEAD_PAGES as u64, density)?,
            table,
            owners: Table::zeroed(u64::from(n) + 1, density)?,
            frontiers: vec![Frontier::default(); geometry.open_superblocks() as usize],
            open_streams: vec![true; streams],
            free: collected((0..n).map(|i| i + 1))?.into(),
            selector,
            background: Background::new(settings.background_gc),
            mapped_pages: 0,
            now_pages: 0,
            fruitless_victims: 0,
            counters: Counters::new(streams),
            uncounted: Counters::new(streams),
        })
    }

    /// The sizes of the device.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// What happened since `start_counting`.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Superblocks that are erased and not open.
    pub fn free_superblocks(&self) -> u32 {
        self.free.len() as u32
    }

    /// Erases of each superblock since the device was made.
    pub fn erase_counts(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        (0..self.table.len()).map(|i| self.table.erases(i + 1))
    }

    /// Where a logical page lies: superblock and offset in it; `None` if it holds no data or does not
    /// exist.
    pub fn locate(&self, page: LogicalPage) -> Option<(SuperblockId, u32)> {
        let entry = *self.map.get(usize::try_from(page.0).ok()?)?;
        (entry != UNMAPPED).then(|| self.unpack(entry))
    }

    /// Whether a logical page lies in a superblock that garbage collection alone fills: its internal
    /// stream's, or the one shared by all. `false` if it holds no data.
    #[inline]
    pub fn is_apart_from_host_writes(&self, page: LogicalPage) -> bool {
        let Some(&entry) = self.map.get(page.0 as usize) else { return false };
        self.owners[(entry >> self.offset_bits) as usize] >= u16::from(self.geometry.streams())
    }

    /// Logical pages that hold data.
    pub fn live_pages(&self) -> u64 {
        self.mapped_pages
    }

    /// Open superblocks, and how many of their pages are programmed.
    pub fn frontiers(&self) -> impl Iterator<Item = (SuperblockId, u32)> + '_ {
        let open = self.frontiers.iter().filter(|frontier| frontier.superblock != 0);
        open.map(|frontier| (SuperblockId(frontier.superblock - 1), frontier.offset))
    }

    pub(crate) fn unpack(&self, entry: u32) -> (SuperblockId, u32) {
        (SuperblockId((entry >> self.offset_bits) - 1), entry & ((1 << self.offset_bits) - 1))
    }

    /// Writes pages once, in order, to S0, without counting them (nor the GC they may cause).
    pub fn prefill(&mut self, first: LogicalPage, pages: u64) -> Result<(), IoError> {
        self.check_range(first, pages)?;
        self.check_capacity(first, pages)?;
        let streams = self.counters.streams.len();
        let counted = std::mem::replace(&mut self.counters, Counters::new(streams));
        self.program_host(first.0 as u32, pages as u32, StreamId::DEFAULT, &mut NoObserver);
        let prefill = std::mem::replace(&mut self.counters, counted);
        self.uncounted.add(&prefill);
        Ok(())
    }

    /// Sets all counters to zero: WAF is counted from here on.
    pub fn start_counting(&mut self) {
        let streams = self.counters.streams.len();
        let counted = std::mem::replace(&mut self.counters, Counters::new(streams));
        self.uncounted.add(&counted);
    }

    /// Writes `pages` pages from `first` on to `stream`.
    pub fn write(&mut self, first: LogicalPage, pages: u32, stream: StreamId) -> Result<(), IoError> {
        self.write_observed(first, pages, stream, &mut NoObserver)
    }

    /// As `write`, and tells `observer` of every flash operation. Decisions and counters are the same.
    pub fn write_observed<O: Observer>(
        &mut self,
        first: LogicalPage,
        pages: u32,
        stream: StreamId,
        observer: &mut O,
    ) -> Result<(), IoError> {
        self.check_range(first, u64::from(pages))?;
        self.check_stream(stream)?;
        self.check_capacity(first, u64::from(pages))?;
        let mut stream = stream;
        if !self.open_streams[usize::from(stream.0)] {
            stream = StreamId::DEFAULT;
            self.counters.unopened_stream_pages += u64::from(pages);
        }
        self.program_host(first.0 as u32, pages, stream, observer);
        Ok(())
    }

    /// Opens a stream; all are open at first. A stream that was closed goes on in the superblock that it
    /// had open.
    pub fn open_stream(&mut self, stream: StreamId) -> Result<(), IoError> {
        self.check_stream(stream)?;
        self.open_streams[usize::from(stream.0)] = true;
        Ok(())
    }

    /// Closes a stream: what names it from now on goes to S0, as data without a stream does, and is
    /// counted. (NVMe lets a controller open a stream by itself when it is named; this one does not.) Its
    /// superblock stays with it, and its data keep their GC destination.
    pub fn close_stream(&mut self, stream: StreamId) -> Result<(), IoError> {
        self.check_stream(stream)?;
        if stream == StreamId::DEFAULT {
            return Err(IoError::DefaultStream);
        }
        self.open_streams[usize::from(stream.0)] = false;
        Ok(())
    }

    /// The streams that are open, S0 first.
    pub fn open_streams(&self) -> impl Iterator<Item = StreamId> + '_ {
        (0..self.geometry.streams()).map(StreamId).filter(|s| self.open_streams[usize::from(s.0)])
    }

    pub(crate) fn check_stream(&self, stream: StreamId) -> Result<(), IoError> {
        let streams = self.geometry.streams();
        if stream.0 < streams { Ok(()) } else { Err(IoError::NoSuchStream { stream, streams }) }
    }

    /// Discards pages (TRIM, deallocate, write zeroes). Pages that hold no data are counted apart.
    pub fn discard(&mut self, first: LogicalPage, pages: u64) -> Result<(), IoError> {
        self.check_range(first, pages)?;
        let (mut page, end) = (first.0 as usize, (first.0 + pages) as usize);
        let mut unmapped = 0;
        while page < end {
            let superblock = self.map[page] >> self.offset_bits;
            let run = run_length(&self.map[page..end], self.offset_bits);
            if superblock == 0 {
                unmapped += run as u64;
            } else {
                self.map[page..page + run].fill(UNMAPPED);
                self.mapped_pages -= run as u64;
                invalidate(&mut self.table, &mut *self.selector, superblock, run as u32);
            }
            page += run;
        }
        self.counters.discarded_unmapped_pages += unmapped;
        self.counters.discarded_pages += pages - unmapped;
        Ok(())
    }

    /// Asks the processor for the map entry of a page that will be written soon. Callers that know
    /// their next writes call this about ten writes ahead; it changes nothing but the time they take.
    #[inline(always)]
    pub fn prefetch(&self, page: LogicalPage) {
        memory::prefetch(&self.map, page.0 as usize);
    }

    /// The second step of `prefetch`, for devices whose superblocks do not fit into the cache either (about
    /// 100,000 and more): asks for the state of the superblock that a page will leave. To be called for a
    /// page some writes after `prefetch`, when its map entry has arrived.
    #[inline(always)]
    pub fn prefetch_superblock(&self, page: LogicalPage) {
        if let Some(&entry) = self.map.get(page.0 as usize) {
            self.table.prefetch(entry >> self.offset_bits);
        }
    }

    pub(crate) fn check_range(&self, first: LogicalPage, pages: u64) -> Result<(), IoError> {
        let logical_pages = self.geometry.address_pages();
        match first.0.checked_add(pages) {
            Some(end) if end <= logical_pages => Ok(()),
            _ => Err(IoError::OutOfRange { first, pages, logical_pages }),
        }
    }

    /// Whether a write of a checked range leaves at most U pages with data. Where no more can be addressed, it does.
    fn check_capacity(&self, first: LogicalPage, pages: u64) -> Result<(), IoError> {
        let logical_pages = self.geometry.logical_pages();
        if self.geometry.address_pages() == logical_pages || self.mapped_pages + pages <= logical_pages {
            return Ok(());
        }
        let entries = &self.map[first.0 as usize..(first.0 + pages) as usize];
        let live = self.mapped_pages + entries.iter().filter(|&&entry| entry == UNMAPPED).count() as u64;
        if live <= logical_pages { Ok(()) } else { Err(IoError::Full { first, pages, live, logical_pages }) }
    }

    /// Writes a checked range.
    fn program_host<O: Observer>(&mut self, mut first: u32, pages: u32, stream: StreamId, observer: &mut O) {
        let index = usize::from(stream.0);
        let mut left = pages;
        while left > 0 {
            if self.frontiers[index].superblock == 0 {
                self.open_for_host(index, observer);
            }
            let frontier = self.frontiers[index];
            let room = self.geometry.superblock_pages() - frontier.offset;
            let run = left.min(room).min(self.background.pages_left());
            self.program_run(frontier, first as usize, run as usize);
            observer.host_program(SuperblockId(frontier.superblock - 1), frontier.offset, run, stream);
            self.now_pages += u64::from(run);
            self.advance(index, run);
            first += run;
            left -= run;
            if self.background.wrote(run) {
                self.collect_in_background(observer);
            }
        }
        self.counters.host_pages += u64::from(pages);
        self.counters.streams[index].host_pages += u64::from(pages);
    }

    /// Maps a run of logical pages to the pages that follow the frontier; their old copies die.
    #[inline(always)]
    fn program_run(&mut self, frontier: Frontier, first: usize, pages: usize) {
        let physical = frontier.superblock << self.offset_bits | frontier.offset;
        let slot = self.slot(frontier.superblock, frontier.offset);
        let entries = &mut self.map[first..first + pages];
        let logical_of = &mut self.logical_of[slot..slot + pages];
        let mut done = 0;
        while done < pages {
            let old = entries[done] >> self.offset_bits;
            let start = done;
            while done < pages && entries[done] >> self.offset_bits == old {
                entries[done] = physical + done as u32;
                logical_of[done] = (first + done) as u32;
                done += 1;
            }
            if old != 0 {
                invalidate(&mut self.table, &mut *self.selector, old, (done - start) as u32);
            } else {
                self.mapped_pages += (done - start) as u64;
            }
        }
    }

    /// Counts `pages` programmed at a frontier, and closes its superblock when full.
    #[inline(always)]
    fn advance(&mut self, index: usize, pages: u32) {
        let frontier = &mut self.frontiers[index];
        frontier.offset += pages;
        self.table.programmed(frontier.superblock, pages);
        if frontier.offset == self.geometry.superblock_pages() {
            let full = std::mem::take(frontier).superblock;
            self.table.close(full);
            let pool = index as u16;
            self.selector.closed(&mut self.table, full, pool, self.now_pages);
        }
    }

    /// Opens a superblock at a frontier of the host. Afterwards at least the GC reserve is free,
    /// unless GC itself opened one there (`GcDestination::Own`).
    #[cold]
    fn open_for_host<O: Observer>(&mut self, index: usize, observer: &mut O) {
        while self.frontiers[index].superblock == 0 {
            if self.free.len() > GC_RESERVE_SUPERBLOCKS as usize {
                self.open(index);
            } else {
                self.collect(observer);
            }
        }
    }

    fn open(&mut self, index: usize) {
        let superblock = self.free.pop_front().expect("the GC reserve is never used up: see geometry");
        self.frontiers[index] = Frontier { superblock, offset: 0 };
        self.owners[superblock as usize] = index as u16;
        self.background.opened(self.free.len() as u32);
    }

    /// Index into `logical_of`.
    #[inline(always)]
    pub(crate) fn slot(&self, superblock: u32, offset: u32) -> usize {
        superblock as usize * self.geometry.superblock_pages() as usize + offset as usize
    }
}

/// The policy that the settings ask for, in pools of given sizes if they have any.
fn selector(
    settings: &DeviceSettings,
    geometry: &Geometry,
    table: &mut Superblocks,
) -> Result<Box<dyn Select + Send>, OutOfMemory> {
    let (policy, seed, frontiers) = (settings.victim, settings.seed, geometry.open_superblocks());
    if settings.pools.is_empty() {
        return Ok(policy.make(table, frontiers, seed));
    }
    let closed = geometry.superblocks() - frontiers;
    let pools = Pools::new(policy, table, &settings.pools, closed, seed);
    Ok(Box::new(LeastGain::new(pools, geometry)?))
}

/// Length of the run at the start of `entries` that lies in one superblock (or is unmapped).
fn run_length(entries: &[u32], offset_bits: u32) -> usize {
    let superblock = entries[0] >> offset_bits;
    entries.iter().take_while(|&&entry| entry >> offset_bits == superblock).count()
}

/// Takes valid pages away from a superblock, and tells the policy if it is a candidate.
#[inline(always)]
fn invalidate(table: &mut Superblocks, selector: &mut dyn Select, superblock: u32, pages: u32) {
    if let Some(valid) = table.invalidate(superblock, pages) {
        selector.invalidated(table, superblock, valid, pages);
    }
}
