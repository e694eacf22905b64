//! When things happen: a timing model over the FTL's decisions. It watches the FTL as an `Observer` and
//! cannot change what it decides, so WAF is the same with and without it.
//!
//! The device. A superblock is one block of every plane of every die. Consecutive pages that one program
//! operation of a die writes are a *unit*; consecutive units lie on consecutive dies, which are numbered
//! across channels first, so that neighbours are on different channels. Times are in nanoseconds of simulated time.
//!
//! - Program of a unit: the channel carries its pages (`transfer_ns` each), then the die is busy for
//!   `program_ns`. The die is occupied from the start of the transfer (no cache programming).
//! - Read of a page: the die senses for `read_ns`, then waits for the channel and sends the page; it is
//!   occupied until the page is out.
//! - Erase of a superblock: `erase_ns` on every die.
//! - A die serves operations in the order in which they are issued. A read therefore waits for the
//!   programs, copies and erases issued to its die before it. A channel serves who is ready first.
//!
//! Host writes are complete when their last page is in the write buffer. A page holds its slot from
//! then until its unit is programmed; a write that finds the buffer full waits for a program to end.
//! Reads of pages that are still in the buffer cost no flash time.
//!
//! GC. The FTL decides to empty a victim at once; a device spreads the work. Copies and erases go into a
//! backlog. A victim with v of b pages valid gains b-v pages, so each page that the host programs issues
//! its share of the backlog: (copies and erases left) / (gained pages left). If a superblock is needed
//! whose erase is still in the backlog, the backlog up to that erase is issued first. A copy's read is issued at
//! once; its program goes through a short pipeline, so that a die does not stand idle for a page that
//! another die has still to read.
//!
//! Not modelled: suspension of programs and erases for reads, priorities between queues, cache
//! programming and reading, ECC retries, the difference between fast and slow pages of a cell, host
//! interface limits other than `command_ns`. Reads overtake nothing here, so their tail is that of a
//! device without suspension; sums of work, and with them throughput, do not depend on it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::ftl::{IoError, Ssd};
use crate::geometry::Geometry;
use crate::ids::{LogicalPage, StreamId, SuperblockId};
use crate::latency::LatencyHistogram;
use crate::observer::Observer;

/// Parallelism and speeds of a device.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields, default)
)]
pub struct TimingSettings {
    /// Channels.
    pub channels: u32,
    /// Dies on each channel.
    pub dies_per_channel: u32,
    /// Pages of 4 KiB that a die programs at once: planes x flash page size / 4 KiB, times 3 where TLC is
    /// programmed in one shot.
    pub pages_per_program: u32,
    /// Sensing a page.
    pub read_ns: u64,
    /// Programming the pages of a unit.
    pub program_ns: u64,
    /// Erasing a block.
    pub erase_ns: u64,
    /// Moving one 4 KiB page over a channel.
    pub transfer_ns: u64,
    /// Time that every host command takes besides the flash.
    pub command_ns: u64,
    /// Pages that the write buffer holds.
    pub buffer_pages: u32,
}

impl Default for TimingSettings {
    /// An NVMe TLC device: 8 channels of 4 dies, 2 planes of 4 KiB. Times as in MQSim's and FEMU's order of
    /// magnitude (read 50 us, program 600 us, erase 3.5 ms; 4 KiB at 533 MB/s).
    fn default() -> Self {
        TimingSettings {
            channels: 8,
            dies_per_channel: 4,
            pages_per_program: 2,
            read_ns: 50_000,
            program_ns: 600_000,
            erase_ns: 3_500_000,
            transfer_ns: 7_700,
            command_ns: 5_000,
            buffer_pages: 4096,
        }
    }
}

impl TimingSettings {
    /// Bytes of write buffer that an open stream needs to use all dies: one unit for each.
    pub fn buffer_bytes_per_stream(&self) -> u64 {
        let dies = u64::from(self.channels) * u64::from(self.dies_per_channel);
        dies * u64::from(self.pages_per_program) * crate::ids::PAGE_BYTES
    }

    /// How many streams a device can afford whose capacitors save `budget_bytes` of write buffer at a power
    /// loss, with superblocks open at once as `frontiers_per_stream` says (2 with internal streams). FAST'19
    /// names this budget, and fast memory, as what limits streams.
    pub fn affordable_streams(&self, budget_bytes: u64, frontiers_per_stream: u64) -> u64 {
        let per_stream = self.buffer_bytes_per_stream().saturating_mul(frontiers_per_stream);
        budget_bytes.checked_div(per_stream).unwrap_or(0)
    }
}

/// Timing settings that make no device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimingError {
    /// A count that must be at least 1.
    #[error("{what} is 0: expected at least 1")]
    Zero {
        /// Which.
        what: &'static str,
    },
    /// More dies than the model numbers.
    #[error(
        "{channels} channels x {dies_per_channel} dies with {pages_per_program} pages a program are too many: at most \
         65536 dies, and 2^24 pages in all"
    )]
    TooManyDies {
        /// As given.
        channels: u32,
        /// As given.
        dies_per_channel: u32,
        /// As given.
        pages_per_program: u32,
    },
    /// Begun units could fill the buffer, and nothing would ever leave it.
    #[error(
        "buffer_pages = {found}: expected at least {needed}, since each of {frontiers} open superblocks can \
         hold {pages_per_program}-1 pages in the buffer until a unit is complete: a larger buffer, or fewer streams"
    )]
    BufferTooSmall {
        /// As given.
        found: u32,
        /// Least size.
        needed: u32,
        /// Open superblocks that the host writes.
        frontiers: u32,
        /// Pages of a unit.
        pages_per_program: u32,
    },
    /// A superblock that is not a whole number of units.
    #[error(
        "--superblock-pages {superblock_pages} is not a multiple of pages_per_program = {pages_per_program}"
    )]
    PartialUnit {
        /// b.
        superblock_pages: u32,
        /// Pages of a unit.
        pages_per_program: u32,
    },
}

/// When requests arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// `queue_depth` requests are always outstanding: the next one arrives when one completes.
    ClosedLoop {
        /// At least 1.
        queue_depth: u32,
    },
    /// At the times given with the requests.
    OpenLoop,
}

/// What a timed run showed.
#[derive(Clone, Debug)]
pub struct TimingResults {
    /// From the first arrival to the last completion.
    pub elapsed_ns: u64,
    /// Host reads and writes completed.
    pub requests: u64,
    /// Latencies of reads.
    pub read: LatencyHistogram,
    /// Latencies of writes.
    pub write: LatencyHistogram,
    /// Busy time of all dies together, for host reads and programs.
    pub host_busy_ns: u64,
    /// Busy time of all dies together, for GC reads, programs and erases.
    pub gc_busy_ns: u64,
    /// Dies.
    pub dies: u32,
}

impl TimingResults {
    /// Requests per second of simulated time.
    pub fn iops(&self) -> f64 {
        if self.elapsed_ns == 0 { 0.0 } else { self.requests as f64 * 1e9 / self.elapsed_ns as f64 }
    }

    /// Share of the dies' busy time that GC took.
    pub fn gc_share(&self) -> f64 {
        let busy = self.host_busy_ns + self.gc_busy_ns;
        if busy == 0 { 0.0 } else { self.gc_busy_ns as f64 / busy as f64 }
    }
}

/// An `Ssd` with a clock.
pub struct TimedSsd {
    ssd: Ssd,
    model: Model,
    arrivals: Arrivals,
    /// Completion times of the requests outstanding in a closed loop.
    outstanding: BinaryHeap<Reverse<u64>>,
    first_arrival: Option<u64>,
    last_completion: u64,
    requests: u64,
    read: LatencyHistogram,
    write: LatencyHistogram,
}

impl TimedSsd {
    /// Puts a clock on a device. What `ssd` did before took no time.
    pub fn new(ssd: Ssd, settings: &TimingSettings, arrivals: Arrivals) -> Result<TimedSsd, TimingError> {
        if arrivals == (Arrivals::ClosedLoop { queue_depth: 0 }) {
            return Err(TimingError::Zero { what: "queue depth" });
        }
        let model = Model::new(ssd.geometry(), settings)?;
        Ok(TimedSsd {
            ssd,
            model,
            arrivals,
            outstanding: BinaryHeap::new(),
            first_arrival: None,
            last_completion: 0,
            requests: 0,
            read: LatencyHistogram::new(),
            write: LatencyHistogram::new(),
        })
    }

    /// The device, for its counters and state.
    pub fn ssd(&self) -> &Ssd {
        &self.ssd
    }

    /// The device without its clock.
    pub fn into_ssd(self) -> Ssd {
        self.ssd
    }

    /// Writes pages; returns the latency in ns. `time_ns` is the arrival in an open loop, and ignored in a
    /// closed one; arrivals before the latest one count as simultaneous with it.
    pub fn write(
        &mut self,
        time_ns: u64,
        first: LogicalPage,
        pages: u32,
        stream: StreamId,
    ) -> Result<u64, IoError> {
        let arrival = self.arrival(time_ns);
        self.model.clock = arrival + self.model.settings.command_ns;
        self.ssd.write_observed(first, pages, stream, &mut self.model)?;
        let done = self.model.clock;
        self.write.record(done - arrival);
        self.complete(arrival, done);
        Ok(done - arrival)
    }

    /// Reads pages; returns the latency in ns. Pages that hold no data, and pages in the write buffer,
    /// need no flash.
    pub fn read(&mut self, time_ns: u64, first: LogicalPage, pages: u32) -> Result<u64, IoError> {
        self.ssd.check_range(first, u64::from(pages))?;
        let arrival = self.arrival(time_ns);
        let start = arrival + self.model.settings.command_ns;
        let mut done = start;
        for page in first.0..first.0 + u64::from(pages) {
            if let Some((superblock, offset)) = self.ssd.locate(LogicalPage(page)) {
                done = done.max(self.model.host_read(superblock, offset, start));
            }
        }
        self.read.record(done - arrival);
        self.complete(arrival, done);
        Ok(done - arrival)
    }

    /// Discards pages; takes no time on the flash.
    pub fn discard(&mut self, first: LogicalPage, pages: u64) -> Result<(), IoError> {
        self.ssd.discard(first, pages)
    }

    /// What happened so far.
    pub fn results(&self) -> TimingResults {
        TimingResults {
            elapsed_ns: self.last_completion - self.first_arrival.unwrap_or(0),
            requests: self.requests,
            read: self.read.clone(),
            write: self.write.clone(),
            host_busy_ns: self.model.host_busy_ns,
            gc_busy_ns: self.model.gc_busy_ns,
            dies: self.model.dies,
        }
    }

    fn arrival(&mut self, time_ns: u64) -> u64 {
        let latest = self.model.latest_arrival;
        let arrival = match self.arrivals {
            Arrivals::OpenLoop => time_ns.max(latest),
            Arrivals::ClosedLoop { queue_depth } if self.outstanding.len() < queue_depth as usize => latest,
            Arrivals::ClosedLoop { .. } => self.outstanding.pop().map_or(latest, |Reverse(t)| t),
        };
        self.model.latest_arrival = arrival;
        self.first_arrival.get_or_insert(arrival);
        arrival
    }

    fn complete(&mut self, arrival: u64, done: u64) {
        assert!(done >= arrival, "no request completes before it arrives");
        if let Arrivals::ClosedLoop { .. } = self.arrivals {
            self.outstanding.push(Reverse(done));
        }
        self.requests += 1;
        self.last_completion = self.last_completion.max(done);
    }
}

/// Work of GC that was decided and not yet issued.
#[derive(Clone, Copy, Debug)]
enum GcWork {
    Copy { victim: u32, from_offset: u32, to: u32, to_offset: u32 },
    Erase { superblock: u32 },
}

/// A complete unit of copies, or an erase, that waits in the pipeline.
#[derive(Clone, Copy, Debug)]
enum Piped {
    Program { unit: Unit, ready: u64 },
    Erase { superblock: u32, ready: u64 },
}

/// Index over all units of the device, and its die.
#[derive(Clone, Copy, Debug)]
struct Unit {
    index: usize,
    die: u32,
}

/// Pages of a unit that wait for the others.
#[derive(Clone, Copy, Debug, Default)]
struct Begun {
    pages: u32,
    host_pages: u32,
    ready: u64,
}

/// A channel: when it is busy from now on. Transfers are issued before the dies that they wait for are
/// idle, so a later one may well go first.
#[derive(Clone, Debug, Default)]
struct Channel {
    /// Disjoint, in order, and not touching.
    busy: VecDeque<(u64, u64)>,
}

impl Channel {
    /// Takes the first gap of `duration` from `ready` on; returns its start. Nothing will be asked for
    /// before `now` any more.
    fn reserve(&mut self, ready: u64, duration: u64, now: u64) -> u64 {
        if duration == 0 {
            return ready;
        }
        while self.busy.front().is_some_and(|&(_, end)| end < now) {
            self.busy.pop_front();
        }
        // Mostly near the end, since dies are about equally busy.
        let mut at = self.busy.len();
        while at > 0 && self.busy[at - 1].1 > ready {
            at -= 1;
            if self.busy.len() - at > 16 {
                at = self.busy.partition_point(|&(_, end)| end <= ready);
                break;
            }
        }
        let mut start = ready;
        while let Some(&(next, end)) = self.busy.get(at) {
            if start + duration <= next {
                break;
            }
            start = end;
            at += 1;
        }
        let end = start + duration;
        let touches_before = at > 0 && self.busy[at - 1].1 == start;
        let touches_after = self.busy.get(at).is_some_and(|&(next, _)| next == end);
        match (touches_before, touches_after) {
            (true, true) => {
                self.busy[at - 1].1 = self.busy[at].1;
                self.busy.remove(at);
            }
            (true, false) => self.busy[at - 1].1 = end,
            (false, true) => self.busy[at].0 = start,
            (false, false) => self.busy.insert(at, (start, end)),
        }
        start
    }
}

/// Resources and queues.
struct Model {
    settings: TimingSettings,
    dies: u32,
    units_per_superblock: u32,
    latest_arrival: u64,
    /// Time within the request being served: when its next page can enter the buffer.
    clock: u64,
    die_free: Vec<u64>,
    channels: Vec<Channel>,
    /// When each unit was or will be programmed.
    programmed_at: Vec<u64>,
    /// Begun units by index: about one per open superblock, the newest last.
    begun: Vec<(usize, Begun)>,
    free_slots: u32,
    last_slot_at: u64,
    /// Programs that will free slots: when, and how many.
    releases: BinaryHeap<Reverse<(u64, u32)>>,
    backlog: VecDeque<GcWork>,
    /// Erases decided and not issued, by superblock.
    erase_pending: Vec<bool>,
    /// Pages gained by the victims in the backlog that the host has not used yet.
    gained_pages: u64,
    /// Since the last erase was decided: copies of the current victim.
    copies_of_victim: u32,
    superblock_pages: u32,
    pipeline: VecDeque<Piped>,
    /// Latest end of a copy's read since the last erase was issued.
    copies_read_at: u64,
    host_busy_ns: u64,
    gc_busy_ns: u64,
}

impl Model {
    fn new(geometry: &Geometry, settings: &TimingSettings) -> Result<Model, TimingError> {
        let TimingSettings { channels, dies_per_channel, pages_per_program, buffer_pages, .. } = *settings;
        for (what, count) in [
            ("channels", channels),
            ("dies_per_channel", dies_per_channel),
            ("pages_per_program", pages_per_program),
        ] {
            if count == 0 {
                return Err(TimingError::Zero { what });
            }
        }
        let pages = u64::from(channels) * u64::from(dies_per_channel) * u64::from(pages_per_program);
        if u64::from(channels) * u64::from(dies_per_channel) > 65_536 || pages > 1 << 24 {
            return Err(TimingError::TooManyDies { channels, dies_per_channel, pages_per_program });
        }
        let superblock_pages = geometry.superblock_pages();
        if !superblock_pages.is_multiple_of(pages_per_program) {
            return Err(TimingError::PartialUnit { superblock_pages, pages_per_program });
        }
        let frontiers = u32::from(geometry.streams());
        let needed = frontiers * (pages_per_program - 1) + 1;
        if buffer_pages < needed {
            return Err(TimingError::BufferTooSmall {
                found: buffer_pages,
                needed,
                frontiers,
                pages_per_program,
            });
        }
        let units_per_superblock = superblock_pages / pages_per_program;
        let dies = channels * dies_per_channel;
        Ok(Model {
            settings: settings.clone(),
            dies,
            units_per_superblock,
            latest_arrival: 0,
            clock: 0,
            die_free: vec![0; dies as usize],
            channels: vec![Channel::default(); channels as usize],
            programmed_at: vec![0; geometry.superblocks() as usize * units_per_superblock as usize],
            begun: Vec::new(),
            free_slots: buffer_pages,
            last_slot_at: 0,
            releases: BinaryHeap::new(),
            backlog: VecDeque::new(),
            erase_pending: vec![false; geometry.superblocks() as usize],
            gained_pages: 0,
            copies_of_victim: 0,
            superblock_pages,
            pipeline: VecDeque::new(),
            copies_read_at: 0,
            host_busy_ns: 0,
            gc_busy_ns: 0,
        })
    }

    fn unit(&self, superblock: u32, offset: u32) -> Unit {
        let within = offset / self.settings.pages_per_program;
        let index = superblock as usize * self.units_per_superblock as usize + within as usize;
        Unit { index, die: within % self.dies }
    }

    fn channel(&self, die: u32) -> usize {
        (die % self.settings.channels) as usize
    }

    /// Issues the program of a complete unit. Returns its end and how long it occupied the die.
    fn program(&mut self, unit: Unit, ready: u64) -> (u64, u64) {
        let (die, channel) = (unit.die as usize, self.channel(unit.die));
        let transfer = self.settings.transfer_ns * u64::from(self.settings.pages_per_program);
        let idle = ready.max(self.die_free[die]);
        let start = self.channels[channel].reserve(idle, transfer, self.latest_arrival);
        let end = start + transfer + self.settings.program_ns;
        self.die_free[die] = end;
        self.programmed_at[unit.index] = end;
        (end, end - start)
    }

    /// Issues the read of one page. Returns its end and how long it occupied the die.
    fn read_page(&mut self, die: u32, ready: u64) -> (u64, u64) {
        let channel = self.channel(die);
        let start = ready.max(self.die_free[die as usize]);
        let (sensed, transfer) = (start + self.settings.read_ns, self.settings.transfer_ns);
        let end = self.channels[channel].reserve(sensed, transfer, self.latest_arrival) + transfer;
        self.die_free[die as usize] = end;
        (end, end - start)
    }

    fn host_read(&mut self, superblock: SuperblockId, offset: u32, ready: u64) -> u64 {
        let unit = self.unit(superblock.0, offset);
        if self.programmed_at[unit.index] > ready || self.begun.iter().any(|&(index, _)| index == unit.index)
        {
            return ready;
        }
        let (end, busy) = self.read_page(unit.die, ready);
        self.host_busy_ns += busy;
        end
    }

    /// Waits for a slot of the write buffer.
    ///
    /// Slots are given in the order of the requests: none is given earlier than the one before it.
    fn take_slot(&mut self) {
        self.clock = self.clock.max(self.last_slot_at);
        while self.free_slots == 0 && self.releases.is_empty() {
            // All slots are held by units that copies in the backlog complete (`GcDestination::Own`).
            assert!(
                !self.backlog.is_empty(),
                "units that the host began cannot fill the buffer: checked in `new`"
            );
            self.issue_one();
        }
        while let Some(&Reverse((at, pages))) = self.releases.peek() {
            if at > self.clock && self.free_slots > 0 {
                break;
            }
            self.releases.pop();
            self.free_slots += pages;
            self.clock = self.clock.max(at);
        }
        self.free_slots -= 1;
        self.last_slot_at = self.clock;
    }

    /// Adds a page to its unit. Returns the unit when it is complete: when it is ready, and how many
    /// slots of the buffer it holds.
    fn add_page(&mut self, unit: Unit, ready: u64, from_host: bool) -> Option<Begun> {
        let one = Begun { pages: 1, host_pages: u32::from(from_host), ready };
        if self.settings.pages_per_program == 1 {
            return Some(one);
        }
        let Some(at) = self.begun.iter().rposition(|&(index, _)| index == unit.index) else {
            self.begun.push((unit.index, one));
            return None;
        };
        let begun = &mut self.begun[at].1;
        begun.pages += 1;
        begun.host_pages += one.host_pages;
        begun.ready = begun.ready.max(ready);
        if begun.pages < self.settings.pages_per_program {
            return None;
        }
        Some(self.begun.swap_remove(at).1)
    }

    fn program_host_page(&mut self, superblock: u32, offset: u32) {
        self.take_slot();
        let unit = self.unit(superblock, offset);
        if let Some(complete) = self.add_page(unit, self.clock, true) {
            let (end, busy) = self.program(unit, complete.ready);
            self.host_busy_ns += busy;
            self.releases.push(Reverse((end, complete.host_pages)));
        }
    }

    /// Issues the share of the backlog that belongs to one page of the host.
    fn issue_share(&mut self) {
        if self.backlog.is_empty() {
            return;
        }
        let share = (self.backlog.len() as u64).div_ceil(self.gained_pages.max(1));
        self.gained_pages = self.gained_pages.saturating_sub(1);
        for _ in 0..share {
            self.issue_one();
        }
        if self.backlog.is_empty() {
            self.gained_pages = 0;
        }
    }

    fn issue_one(&mut self) {
        match self.backlog.pop_front() {
            Some(GcWork::Copy { victim, from_offset, to, to_offset }) => {
                let from = self.unit(victim, from_offset);
                let (read, busy) = self.read_page(from.die, self.clock);
                self.gc_busy_ns += busy;
                self.copies_read_at = self.copies_read_at.max(read);
                let unit = self.unit(to, to_offset);
                if let Some(complete) = self.add_page(unit, read, false) {
                    self.pipe(Piped::Program { unit, ready: complete.ready });
                    if complete.host_pages > 0 {
                        // A unit that the host began and GC completed leaves the buffer at once.
                        self.free_slots += complete.host_pages;
                    }
                }
            }
            Some(GcWork::Erase { superblock }) => {
                self.pipe(Piped::Erase { superblock, ready: self.copies_read_at });
                self.copies_read_at = 0;
            }
            None => {}
        }
    }

    /// Appends to the pipeline, and issues what leaves it at the other end.
    fn pipe(&mut self, piped: Piped) {
        self.pipeline.push_back(piped);
        while self.pipeline.len() > self.dies as usize {
            self.issue_piped();
        }
    }

    fn issue_piped(&mut self) {
        match self.pipeline.pop_front() {
            Some(Piped::Program { unit, ready }) => {
                let (_, busy) = self.program(unit, ready.max(self.clock));
                self.gc_busy_ns += busy;
            }
            Some(Piped::Erase { superblock, ready }) => {
                self.erase_pending[superblock as usize] = false;
                let dies = self.dies.min(self.units_per_superblock);
                for free in &mut self.die_free[..dies as usize] {
                    *free = ready.max(self.clock).max(*free) + self.settings.erase_ns;
                }
                self.gc_busy_ns += u64::from(dies) * self.settings.erase_ns;
            }
            None => {}
        }
    }

    /// Makes sure that the erase of a superblock that is about to be programmed was issued.
    fn issue_until_erased(&mut self, superblock: u32) {
        while self.erase_pending[superblock as usize] {
            if self.backlog.is_empty() {
                self.issue_piped();
            } else {
                self.issue_one();
            }
        }
    }
}

impl Observer for Model {
    fn host_program(&mut self, superblock: SuperblockId, offset: u32, pages: u32, _stream: StreamId) {
        self.issue_until_erased(superblock.0);
        for offset in offset..offset + pages {
            self.program_host_page(superblock.0, offset);
            self.issue_share();
        }
    }

    fn gc_copy(&mut self, victim: SuperblockId, from_offset: u32, to: SuperblockId, to_offset: u32) {
        self.copies_of_victim += 1;
        self.backlog.push_back(GcWork::Copy { victim: victim.0, from_offset, to: to.0, to_offset });
    }

    fn erase(&mut self, superblock: SuperblockId, valid_pages: u32) {
        assert_eq!(valid_pages, self.copies_of_victim, "every valid page of a victim was copied");
        self.copies_of_victim = 0;
        self.gained_pages += u64::from(self.superblock_pages - valid_pages);
        self.erase_pending[superblock.0 as usize] = true;
        self.backlog.push_back(GcWork::Erase { superblock: superblock.0 });
    }
}
