//! When things happen: a timing model over the FTL's decisions. It watches the FTL as an `Observer` and
//! cannot change what it decides, so WAF is the same with and without it.
//!
//! The device. A superblock is one block of every plane of every die. Consecutive pages that one program
//! operation of a die writes are a *unit*; consecutive units lie on consecutive dies, which are numbered
//! across channels first, so that neighbours are on different channels. Where a superblock is more
//! than one unit on every die and no whole number of them, as on a small device, the next superblock begins on the
//! die after its last one. Times are in nanoseconds of simulated time.
//!
//! - Program of a unit: the channel carries its pages (`transfer_ns` each), then the die is busy for
//!   `program_ns`. The die is occupied from the start of the transfer (no cache programming).
//! - Read of pages of a unit: the die senses for `read_ns` (all planes together), then waits for the channel and
//!   sends the pages that are wanted; it is occupied until they are out.
//! - Erase of a superblock: `erase_ns` on every die that it lies on.
//! - A die serves operations in the order in which they are issued. A read therefore waits for the
//!   programs, copies and erases issued to its die before it. It takes the first time for which its channel is free then.
//!
//! Host writes are complete when their last page is in the write buffer. A page holds its slot from
//! then until its unit is programmed; a write that finds the buffer full waits for a program to end.
//! Reads of pages that are still in the buffer cost no flash time.
//!
//! GC. The FTL decides to empty a victim at once; a device spreads the work. Copies and erases go into a
//! backlog. A victim with v of b pages valid gains b-v pages, so each page that the host programs issues
//! its share of the backlog: (copies and erases left) / (gained pages left). If a superblock is needed
//! whose erase is still in the backlog, the backlog up to that erase is issued first. In an open loop, the time
//! until the next request is used for what of the backlog can begin before it. A copy's read is issued at
//! once; its program goes through a short pipeline, so that a die does not stand idle for a page that
//! another die has still to read.
//!
//! Not modelled: suspension of programs and erases for reads, priorities between queues, cache
//! programming and reading, ECC retries, the difference between fast and slow pages of a cell, host
//! interface limits other than `command_ns`. Reads overtake nothing here, so their tail is that of a
//! device without suspension; sums of work, and with them throughput, do not depend on it.

mod backlog;
mod channel;
mod check;
mod model;
mod throughput;
mod units;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::ftl::{IoError, Ssd};
use crate::ids::{LogicalPage, StreamId};
use crate::latency::LatencyHistogram;
use model::Model;
pub use throughput::Throughput;

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
    /// Sensing the pages of a unit, as many as are wanted.
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

/// Latest arrival: 146 years, so that what operations add to it stays far from overflow.
const MAX_ARRIVAL_NS: u64 = 1 << 62;

/// Longest time of an operation: 10 s.
const MAX_OPERATION_NS: u64 = 10_000_000_000;

/// Timing settings that make no device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimingError {
    /// A count that must be at least 1.
    #[error("{what} is 0: expected at least 1")]
    Zero {
        /// Which.
        what: &'static str,
    },
    /// A time that no device takes, and that sums of would not fit into 64 bits.
    #[error("{what} = {found}: expected at most {MAX_OPERATION_NS} ns")]
    TooLong {
        /// Which.
        what: &'static str,
        /// As given.
        found: u64,
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
        "a superblock of {superblock_pages} pages is not a multiple of pages_per_program = {pages_per_program}: choose a \
         multiple, or another pages_per_program in the device's table [timing]"
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
    /// The clock.
    pub settings: TimingSettings,
    /// When requests arrived.
    pub arrivals: Arrivals,
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
    /// Pages written over simulated time.
    pub throughput: Throughput,
}

impl TimingResults {
    /// Requests per second of simulated time; none where no time went by.
    pub fn iops(&self) -> Option<f64> {
        (self.elapsed_ns > 0).then(|| self.requests as f64 * 1e9 / self.elapsed_ns as f64)
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
    settings: TimingSettings,
    arrivals: Arrivals,
    /// When the requests of a closed loop complete, without the one being served.
    outstanding: BinaryHeap<Reverse<u64>>,
    begun_write: Option<BegunWrite>,
    last_completion: u64,
    requests: u64,
    read: LatencyHistogram,
    write: LatencyHistogram,
    /// Copies before the clock.
    gc_before: u64,
}

/// A write that is being given in parts.
#[derive(Clone, Copy, Debug)]
struct BegunWrite {
    arrival: u64,
    /// Of the parts so far.
    pages: u64,
}

impl TimedSsd {
    /// Puts a clock on a device. What `ssd` did before took no time.
    pub fn new(ssd: Ssd, settings: &TimingSettings, arrivals: Arrivals) -> Result<TimedSsd, TimingError> {
        if arrivals == (Arrivals::ClosedLoop { queue_depth: 0 }) {
            return Err(TimingError::Zero { what: "queue depth" });
        }
        let mut model = Model::new(ssd.geometry(), settings)?;
        for (superblock, pages) in ssd.frontiers() {
            model.begin_unit(superblock, pages);
        }
        let gc_before = ssd.counters().gc_pages;
        Ok(TimedSsd {
            ssd,
            gc_before,
            model,
            settings: settings.clone(),
            arrivals,
            outstanding: BinaryHeap::new(),
            begun_write: None,
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

    /// Writes pages; returns the latency in ns. `time_ns` is the arrival in an open loop, and ignored in a
    /// closed one; arrivals before the latest one count as simultaneous with it, and none is later than 2^62 ns.
    /// Panics while another write is being given in parts.
    pub fn write(
        &mut self,
        time_ns: u64,
        first: LogicalPage,
        pages: u32,
        stream: StreamId,
    ) -> Result<u64, IoError> {
        // Before the request arrives: one that makes no sense takes no time. A device may still be full.
        self.ssd.check_range(first, u64::from(pages))?;
        self.ssd.check_stream(stream)?;
        self.begin_write(time_ns);
        let written = self.write_part(first, pages, stream);
        let latency_ns = self.end_write();
        written.map(|()| latency_ns)
    }

    /// Begins a write whose pages are given in parts, because they go to several streams. It arrives as in
    /// `write`, and is one request however many parts it has. Panics if the write before it was not ended.
    pub fn begin_write(&mut self, time_ns: u64) {
        assert!(self.begun_write.is_none(), "one write at a time is given in parts");
        let arrival = self.arrival(time_ns);
        self.model.begin(arrival);
        self.begun_write = Some(BegunWrite { arrival, pages: 0 });
    }

    /// A part of the write begun. A part that is refused leaves the others as they are. Panics if none was begun.
    pub fn write_part(&mut self, first: LogicalPage, pages: u32, stream: StreamId) -> Result<(), IoError> {
        let begun = self.begun_write.as_mut().expect("`begin_write` comes first");
        self.ssd.write_observed(first, pages, stream, &mut self.model)?;
        begun.pages += u64::from(pages);
        Ok(())
    }

    /// Ends the write begun; returns its latency in ns. Panics if none was begun.
    pub fn end_write(&mut self) -> u64 {
        let BegunWrite { arrival, pages } = self.begun_write.take().expect("`begin_write` comes first");
        let done = self.model.clock();
        self.model.count(done, pages, 0);
        self.write.record(done - arrival);
        self.complete(arrival, done);
        done - arrival
    }

    /// Reads pages; returns the latency in ns. Pages that hold no data, and pages in the write buffer,
    /// need no flash.
    pub fn read(&mut self, time_ns: u64, first: LogicalPage, pages: u32) -> Result<u64, IoError> {
        self.ssd.check_range(first, u64::from(pages))?;
        let arrival = self.arrival(time_ns);
        let start = arrival + self.model.command_ns();
        let mut done = start;
        let mut page = first.0;
        let end = first.0 + u64::from(pages);
        while page < end {
            let Some((superblock, offset)) = self.ssd.locate(LogicalPage(page)) else {
                page += 1;
                continue;
            };
            let mut together = 1;
            while page + u64::from(together) < end
                && self.model.continues_unit(offset + together)
                && self.ssd.locate(LogicalPage(page + u64::from(together)))
                    == Some((superblock, offset + together))
            {
                together += 1;
            }
            done = done.max(self.model.host_read(superblock, offset, together, start));
            page += u64::from(together);
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
        // Nothing is complete while the first write is being given.
        let elapsed_ns = self.last_completion.saturating_sub(self.model.first_arrival().unwrap_or(0));
        let gc_pages = self.ssd.counters().gc_pages - self.gc_before;
        TimingResults {
            settings: self.settings.clone(),
            arrivals: self.arrivals,
            elapsed_ns,
            requests: self.requests,
            read: self.read.clone(),
            write: self.write.clone(),
            host_busy_ns: self.model.host_busy_ns(),
            gc_busy_ns: self.model.gc_busy_ns(),
            dies: self.model.dies(),
            throughput: self.model.throughput().until(elapsed_ns, gc_pages),
        }
    }

    fn arrival(&mut self, time_ns: u64) -> u64 {
        let latest = self.model.latest_arrival();
        let arrival = match self.arrivals {
            Arrivals::OpenLoop => {
                let arrival = time_ns.min(MAX_ARRIVAL_NS).max(latest);
                self.model.use_idle_time(arrival);
                arrival
            }
            Arrivals::ClosedLoop { queue_depth } if self.outstanding.len() < queue_depth as usize => latest,
            Arrivals::ClosedLoop { .. } => self.outstanding.pop().map_or(latest, |Reverse(done)| done),
        };
        self.model.set_latest_arrival(arrival);
        arrival
    }

    #[inline(always)]
    fn complete(&mut self, arrival: u64, done: u64) {
        assert!(done >= arrival, "no request completes before it arrives");
        if let Arrivals::ClosedLoop { .. } = self.arrivals {
            self.outstanding.push(Reverse(done));
        }
        self.requests += 1;
        self.last_completion = self.last_completion.max(done);
    }
}
