//! How long the pages lived that each stream of a lane received.
//!
//! Idea: the stream of a page's last write is kept, and a lifetime that ends counts for that stream, or for its internal
//! stream if garbage collection moved the page there since. A lane whose lifetimes nobody asks for has none of this.
//!
//! Units: pages; a byte a logical page, and a histogram a stream.

use pcstream_ssd::memory::prefetch;
use pcstream_ssd::{LogicalPage, Table};

use crate::device::Device;
use crate::lifetimes::{Lifetimes, Precision};
use crate::liveness::Ended;

/// Lifetimes by stream.
pub(super) struct StreamLifetimes {
    /// Stream of each page's last write; says nothing about pages that are not alive.
    of_page: Table<u8>,
    pub streams: Vec<Lifetimes>,
    /// By stream, of its internal stream; empty with other GC destinations.
    pub internal: Vec<Lifetimes>,
}

impl StreamLifetimes {
    /// Nothing has ended; `of_page` has an entry for each page of the device.
    pub fn new(of_page: Table<u8>, streams: usize, internal: usize) -> StreamLifetimes {
        let none = || Lifetimes::new(Precision::PerMille);
        StreamLifetimes { of_page, streams: vec![none(); streams], internal: vec![none(); internal] }
    }

    /// Asks the processor for the entry of a page that will be written soon.
    #[inline(always)]
    pub fn prefetch(&self, page: u64) {
        prefetch(&self.of_page, page as usize);
    }

    /// Pages from `first` on are written to a stream. Comes after [`StreamLifetimes::end`].
    #[inline]
    pub fn write(&mut self, first: u64, pages: u32, stream: u8) {
        match pages {
            1 => self.of_page[first as usize] = stream,
            _ => self.of_page[first as usize..][..pages as usize].fill(stream),
        }
    }

    /// Counts ended lifetimes. Comes before the device forgets the pages.
    pub fn end(&mut self, ended: &[Ended], device: &Device) {
        for run in ended {
            let mut index = 0;
            while index < run.pages {
                let (stream, internal) = self.place_of(run.first + u64::from(index), device);
                let mut pages = 1;
                while !run.falling
                    && index + pages < run.pages
                    && self.place_of(run.first + u64::from(index + pages), device) == (stream, internal)
                {
                    pages += 1;
                }
                let lifetimes = if internal { &mut self.internal } else { &mut self.streams };
                lifetimes[usize::from(stream)].record(run.lifetime_at(index), u64::from(pages));
                index += pages;
            }
        }
    }

    /// The stream that a live page was written to, and whether it lies in its internal stream by now.
    #[inline(always)]
    fn place_of(&self, page: u64, device: &Device) -> (u8, bool) {
        let internal = !self.internal.is_empty() && device.ssd().is_apart_from_host_writes(LogicalPage(page));
        (self.of_page[page as usize], internal)
    }
}
