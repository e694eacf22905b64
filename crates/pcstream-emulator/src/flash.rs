//! Flash pages behind the model: the model decides, this copies.
//!
//! Idea: the model tells an observer of every program and copy in order, with their physical places. Doing each of
//! them on memory makes a device whose data is right only if the model's map is.
//!
//! Invariants: memory is taken once, when the device is made: every physical page has its place. A logical page
//! that the model does not map reads as zeros.

use pcstream_ssd::{
    DeviceSettings, GeometryError, IoError, LogicalPage, Observer, Ssd, StreamId, SuperblockId,
};

use crate::PAGE;

/// The model and its cells.
pub(crate) struct Flash {
    settings: DeviceSettings,
    ssd: Ssd,
    cells: Vec<u8>,
}

/// Does on the cells what the model decides.
struct Programmer<'a> {
    cells: &'a mut [u8],
    superblock_pages: u32,
    /// What the host writes, from here on.
    data: &'a [u8],
    gc_pages: u64,
}

impl Programmer<'_> {
    fn place(&self, superblock: SuperblockId, offset: u32) -> usize {
        (superblock.0 as usize * self.superblock_pages as usize + offset as usize) * PAGE
    }
}

impl Observer for Programmer<'_> {
    fn host_program(&mut self, superblock: SuperblockId, offset: u32, pages: u32, _: StreamId) {
        let (at, bytes) = (self.place(superblock, offset), pages as usize * PAGE);
        let (now, rest) = self.data.split_at(bytes);
        self.cells[at..at + bytes].copy_from_slice(now);
        self.data = rest;
    }

    fn gc_copies(&mut self, victim: SuperblockId, sources: &[u32], to: SuperblockId, to_offset: u32) {
        for (to_offset, &source) in (to_offset..).zip(sources) {
            let (from, to) = (self.place(victim, source), self.place(to, to_offset));
            self.cells.copy_within(from..from + PAGE, to);
        }
        self.gc_pages += sources.len() as u64;
    }
}

impl Flash {
    pub fn new(settings: &DeviceSettings) -> Result<Flash, GeometryError> {
        let ssd = Ssd::new(settings)?;
        let cells = vec![0; ssd.geometry().physical_pages() as usize * PAGE];
        Ok(Flash { settings: settings.clone(), ssd, cells })
    }

    /// Erases everything: a device as it was made.
    pub fn renew(&mut self) {
        self.ssd = Ssd::new(&self.settings).expect("a device was made of the same settings");
    }

    pub fn ssd(&self) -> &Ssd {
        &self.ssd
    }

    /// Programs whole pages. Returns the pages that garbage collection copied for it.
    pub fn write(&mut self, first: LogicalPage, data: &[u8], stream: StreamId) -> Result<u64, IoError> {
        debug_assert!(data.len().is_multiple_of(PAGE), "whole pages");
        let superblock_pages = self.ssd.geometry().superblock_pages();
        let mut programmer = Programmer { cells: &mut self.cells, superblock_pages, data, gc_pages: 0 };
        self.ssd.write_observed(first, (data.len() / PAGE) as u32, stream, &mut programmer)?;
        assert!(programmer.data.is_empty(), "the model programs every page");
        Ok(programmer.gc_pages)
    }

    /// The contents of a page; `None` if it holds no data.
    pub fn page(&self, page: LogicalPage) -> Option<&[u8]> {
        let (superblock, offset) = self.ssd.locate(page)?;
        let at = (superblock.0 as usize * self.ssd.geometry().superblock_pages() as usize + offset as usize)
            * PAGE;
        Some(&self.cells[at..at + PAGE])
    }

    pub fn discard(&mut self, first: LogicalPage, pages: u64) -> Result<(), IoError> {
        self.ssd.discard(first, pages)
    }

    pub fn start_counting(&mut self) {
        self.ssd.start_counting();
    }
}
