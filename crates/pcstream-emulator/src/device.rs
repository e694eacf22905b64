//! The emulated device: read, write, discard, flush; streams that come beside the data; power cuts.
//!
//! A write goes into the buffer and leaves it for the flash as soon as its stream is known and all writes before it have
//! left. Reads see the buffer first. A device that expects no streams (`expects_streams` off) programs at once, to S0.
//!
//! Units: pages of 4 KiB. Requests are whole pages inside the device, anything else is refused unchanged.
//!
//! Invariants: a read returns what was written last, or zeros; with the power off every request fails. The flash's
//! counters are those of a plain `Ssd` that gets the same writes with the same streams in the same order.

use pcstream_ssd::{Counters, DeviceSettings, GeometryError, LogicalPage, Ssd, StreamId};

use crate::PAGE;
use crate::buffer::Buffer;
use crate::flash::Flash;
use crate::power::{PowerCut, Unflushed};

/// What a device is made of.
#[derive(Clone, Debug)]
pub struct DeviceOptions {
    /// The model.
    pub settings: DeviceSettings,
    /// Pages that wait for their streams at most.
    pub buffer_pages: usize,
    /// Whether streams are assigned. Can be changed later.
    pub expects_streams: bool,
}

/// What a request cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Pages that garbage collection copied.
    pub gc_pages: u64,
}

/// A request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// The power is off.
    #[error("the emulated device has no power since the power cut that was asked for")]
    PowerOff,
    /// Not whole pages, or beyond the device.
    #[error("{bytes} bytes from page {first} on: expected whole pages of the device's {pages}")]
    OutOfRange {
        /// First page.
        first: LogicalPage,
        /// Length.
        bytes: u64,
        /// Size of the device.
        pages: u64,
    },
    /// A stream that the device does not have.
    #[error("stream {stream} does not exist: the device has {streams}")]
    NoSuchStream {
        /// As assigned.
        stream: StreamId,
        /// Streams, S0 included.
        streams: u8,
    },
}

/// How a device stands.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "fuse", derive(serde::Serialize, serde::Deserialize))]
pub struct Status {
    /// What the flash counted since `start_counting`.
    pub counters: Counters,
    /// Superblocks that are erased and not open.
    pub free_superblocks: u32,
    /// Pages in the buffer.
    pub buffered_pages: u64,
    /// Pages that went to S0 because the buffer was full before their stream was assigned.
    pub unassigned_pages: u64,
    /// Flushes.
    pub flushes: u64,
    /// Pages read.
    pub read_pages: u64,
    /// Power cuts.
    pub power_cuts: u64,
    /// Pages that power cuts took; giving them their old contents back counts as writes to S0.
    pub lost_pages: u64,
}

/// The device.
pub struct EmulatedDevice {
    flash: Flash,
    buffer: Buffer,
    expects_streams: bool,
    unflushed: Option<Unflushed>,
    power: bool,
    unassigned_pages: u64,
    flushes: u64,
    read_pages: u64,
    power_cuts: u64,
    lost_pages: u64,
}

impl EmulatedDevice {
    /// An empty device. Takes all its memory.
    pub fn new(options: &DeviceOptions) -> Result<EmulatedDevice, GeometryError> {
        let flash = Flash::new(&options.settings)?;
        let buffer = Buffer::new(options.buffer_pages, options.settings.logical_pages);
        Ok(EmulatedDevice {
            flash,
            buffer,
            expects_streams: options.expects_streams,
            unflushed: None,
            power: true,
            unassigned_pages: 0,
            flushes: 0,
            read_pages: 0,
            power_cuts: 0,
            lost_pages: 0,
        })
    }

    /// The model.
    pub fn ssd(&self) -> &Ssd {
        self.flash.ssd()
    }

    /// Logical pages.
    pub fn pages(&self) -> u64 {
        self.ssd().geometry().logical_pages()
    }

    /// How it stands.
    pub fn status(&self) -> Status {
        Status {
            counters: self.ssd().counters().clone(),
            free_superblocks: self.ssd().free_superblocks(),
            buffered_pages: self.buffer.len() as u64,
            unassigned_pages: self.unassigned_pages,
            flushes: self.flushes,
            read_pages: self.read_pages,
            power_cuts: self.power_cuts,
            lost_pages: self.lost_pages,
        }
    }

    fn check(&self, first: LogicalPage, bytes: u64) -> Result<(), DeviceError> {
        if !self.power {
            return Err(DeviceError::PowerOff);
        }
        let end = first.0.checked_add(bytes / PAGE as u64);
        if bytes.is_multiple_of(PAGE as u64) && end.is_some_and(|end| end <= self.pages()) {
            return Ok(());
        }
        Err(DeviceError::OutOfRange { first, bytes, pages: self.pages() })
    }

    /// The contents of a page; `None` if it holds no data.
    pub fn page(&self, page: LogicalPage) -> Option<&[u8]> {
        self.buffer.get(page).unwrap_or_else(|| self.flash.page(page))
    }

    /// Reads whole pages; what was never written is zeros.
    pub fn read(&mut self, first: LogicalPage, out: &mut [u8]) -> Result<(), DeviceError> {
        self.check(first, out.len() as u64)?;
        self.read_pages += (out.len() / PAGE) as u64;
        for (page, out) in (first.0..).zip(out.chunks_exact_mut(PAGE)) {
            match self.page(LogicalPage(page)) {
                Some(data) => out.copy_from_slice(data),
                None => out.fill(0),
            }
        }
        Ok(())
    }

    /// Whether so many pages fit into the buffer. If that is never the case: whether it is empty.
    pub fn has_room(&self, pages: usize) -> bool {
        let capacity = self.buffer.capacity();
        capacity - self.buffer.len() >= pages.min(capacity)
    }

    /// Writes whole pages.
    pub fn write(&mut self, first: LogicalPage, data: &[u8]) -> Result<Work, DeviceError> {
        self.check(first, data.len() as u64)?;
        let pages = data.len() / PAGE;
        let admitted = self.unflushed.as_mut().map_or(pages, |unflushed| unflushed.admit(pages));
        let mut work = Work::default();
        if self.expects_streams {
            for (page, data) in (first.0..).zip(data.chunks_exact(PAGE)).take(admitted) {
                self.keep(LogicalPage(page), 1);
                if self.buffer.is_full() {
                    work += self.drain(true);
                }
                self.buffer.push(LogicalPage(page), data);
            }
            work += self.drain(false);
        } else {
            self.keep(first, admitted as u64);
            work.gc_pages += self.program(first, &data[..admitted * PAGE], StreamId::DEFAULT);
        }
        if admitted < pages {
            self.cut_power();
            return Err(DeviceError::PowerOff);
        }
        Ok(work)
    }

    /// Assigns the stream of pages that were written last, or are about to be.
    pub fn assign(&mut self, first: LogicalPage, pages: u32, stream: StreamId) -> Result<Work, DeviceError> {
        self.check(first, u64::from(pages) * PAGE as u64)?;
        let streams = self.ssd().geometry().streams();
        if stream.0 >= streams {
            return Err(DeviceError::NoSuchStream { stream, streams });
        }
        if !self.expects_streams {
            return Ok(Work::default());
        }
        for page in first.0..first.0 + u64::from(pages) {
            self.buffer.assign(LogicalPage(page), stream);
        }
        Ok(self.drain(false))
    }

    /// From now on pages wait for their streams, or no longer do. What is in the buffer is programmed.
    pub fn expect_streams(&mut self, expected: bool) -> Work {
        let work = self.settle();
        // Not a new one: this one's memory is there, and locked.
        self.buffer.clear();
        self.expects_streams = expected;
        work
    }

    /// The pages no longer hold data.
    pub fn discard(&mut self, first: LogicalPage, pages: u64) -> Result<(), DeviceError> {
        self.check(first, pages.saturating_mul(PAGE as u64))?;
        let others = self.buffer.discard(first, pages);
        if let Some(unflushed) = &mut self.unflushed {
            unflushed.discarded(first, pages);
        }
        for (first, pages) in others {
            self.flash.discard(first, pages).expect("the range was checked");
        }
        Ok(())
    }

    /// What was written is durable.
    pub fn flush(&mut self) -> Result<(), DeviceError> {
        self.check(LogicalPage(0), 0)?;
        self.flushes += 1;
        if let Some(unflushed) = &mut self.unflushed {
            unflushed.flushed();
        }
        Ok(())
    }

    /// Makes the flash new: it holds these pages only, with the contents that they have, each written once, in order,
    /// to S0. Counts from then on. This is what a simulation calls the prefill; for a file system, pages that it has not
    /// allocated are lost, as with fstrim. Pages beyond the device are refused before anything is changed.
    pub fn prefill(&mut self, extents: &[(LogicalPage, u64)]) -> Result<(), DeviceError> {
        for &(first, pages) in extents {
            self.check(first, pages.saturating_mul(PAGE as u64))?;
        }
        self.settle();
        let pages = || extents.iter().flat_map(|&(first, pages)| first.0..first.0 + pages).map(LogicalPage);
        let data = |page| self.flash.page(page).filter(|data| data.iter().any(|&byte| byte != 0));
        let kept: Vec<(LogicalPage, Box<[u8]>)> =
            pages().filter_map(|page| Some((page, data(page)?.into()))).collect();
        self.flash.renew();
        let mut kept = kept.into_iter().peekable();
        for page in pages() {
            let data = kept.next_if(|(kept, _)| *kept == page);
            self.program(page, data.as_ref().map_or(&[0; PAGE], |(_, data)| data), StreamId::DEFAULT);
        }
        self.start_counting();
        Ok(())
    }

    /// Counts from here on.
    pub fn start_counting(&mut self) {
        self.flash.start_counting();
        (self.unassigned_pages, self.flushes, self.read_pages) = (0, 0, 0);
    }

    /// Programs everything in the buffer; what has no stream goes to S0.
    pub fn settle(&mut self) -> Work {
        let mut work = Work::default();
        while !self.buffer.is_empty() {
            work += self.drain(true);
        }
        work
    }

    /// Programs what has its stream. With `force`, at least the first page.
    fn drain(&mut self, mut force: bool) -> Work {
        let mut work = Work::default();
        while let Some((head, data)) = self.buffer.run(force) {
            force = false;
            let pages = data.len() / PAGE;
            let stream = head.stream.expect("runs have a stream");
            work.gc_pages +=
                self.flash.write(head.page, data, stream).expect("pages and stream were checked");
            if head.discarded {
                self.flash.discard(head.page, pages as u64).expect("the range was checked");
            }
            self.unassigned_pages += self.buffer.pop(pages);
        }
        work
    }

    fn program(&mut self, first: LogicalPage, data: &[u8], stream: StreamId) -> u64 {
        self.flash.write(first, data, stream).expect("the range was checked")
    }

    fn keep(&mut self, first: LogicalPage, pages: u64) {
        if let Some(mut unflushed) = self.unflushed.take() {
            for page in (first.0..first.0 + pages).map(LogicalPage) {
                unflushed.keep(page, self.page(page));
            }
            self.unflushed = Some(unflushed);
        }
    }

    /// The power will be cut. What was written until now counts as flushed.
    pub fn plan_power_cut(&mut self, cut: PowerCut) {
        self.unflushed = Some(Unflushed::new(cut));
    }

    /// Whether it has power.
    pub fn has_power(&self) -> bool {
        self.power
    }

    fn cut_power(&mut self) {
        self.power = false;
        self.power_cuts += 1;
        self.settle();
        let lost = self.unflushed.take().map_or(Vec::new(), Unflushed::lost);
        self.lost_pages += lost.len() as u64;
        for (page, old) in lost {
            match old {
                Some(old) => drop(self.program(page, &old, StreamId::DEFAULT)),
                None => self.flash.discard(page, 1).expect("the range was checked"),
            }
        }
    }

    /// Gives it power again.
    pub fn power_on(&mut self) {
        self.power = true;
    }
}

impl std::ops::AddAssign for Work {
    fn add_assign(&mut self, other: Work) {
        self.gc_pages += other.gc_pages;
    }
}
