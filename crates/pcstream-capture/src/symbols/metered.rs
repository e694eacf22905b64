//! Debug information that is read within an [`Allowance`].
//!
//! Idea: what `addr2line` keeps in memory, such as a row of a line table, takes at least one read. So what is kept is limited
//! by counting reads, however often the same bytes are read, and whatever sizes they claim.

use std::borrow::Cow;

use gimli::{EndianSlice, Error, LittleEndian, Reader, ReaderOffsetId, Result};

use crate::modules::reading_limits::Allowance;

/// Of one read: what is kept of it takes up to 100 bytes.
const STEPS_OF_A_READ: u64 = 2;

/// A section, or a part of one.
#[derive(Clone, Copy, Debug)]
pub struct Metered<'d> {
    slice: EndianSlice<'d, LittleEndian>,
    allowance: &'d Allowance,
}

impl<'d> Metered<'d> {
    /// All of a section.
    pub fn new(section: &'d [u8], allowance: &'d Allowance) -> Metered<'d> {
        Metered { slice: EndianSlice::new(section, LittleEndian), allowance }
    }

    /// Pays for a read.
    fn pay(&self) -> Result<()> {
        if self.allowance.spend(STEPS_OF_A_READ) {
            Ok(())
        } else {
            Err(Error::UnexpectedEof(Reader::offset_id(&self.slice)))
        }
    }
}

impl Reader for Metered<'_> {
    type Endian = LittleEndian;
    type Offset = usize;

    fn endian(&self) -> LittleEndian {
        self.slice.endian()
    }

    fn len(&self) -> usize {
        self.slice.len()
    }

    fn empty(&mut self) {
        self.slice.empty();
    }

    fn truncate(&mut self, len: usize) -> Result<()> {
        self.slice.truncate(len)
    }

    fn offset_from(&self, base: &Self) -> usize {
        self.slice.offset_from(base.slice)
    }

    fn offset_id(&self) -> ReaderOffsetId {
        Reader::offset_id(&self.slice)
    }

    fn lookup_offset_id(&self, id: ReaderOffsetId) -> Option<usize> {
        self.slice.lookup_offset_id(id)
    }

    fn find(&self, byte: u8) -> Result<usize> {
        self.pay()?;
        let found = Reader::find(&self.slice, byte)?;
        if self.allowance.read(found as u64) {
            Ok(found)
        } else {
            Err(Error::UnexpectedEof(Reader::offset_id(&self.slice)))
        }
    }

    fn skip(&mut self, len: usize) -> Result<()> {
        self.pay()?;
        self.slice.skip(len)
    }

    fn split(&mut self, len: usize) -> Result<Self> {
        self.pay()?;
        Ok(Metered { slice: self.slice.split(len)?, allowance: self.allowance })
    }

    fn to_slice(&self) -> Result<Cow<'_, [u8]>> {
        self.slice.to_slice()
    }

    fn to_string(&self) -> Result<Cow<'_, str>> {
        Reader::to_string(&self.slice)
    }

    fn to_string_lossy(&self) -> Result<Cow<'_, str>> {
        Reader::to_string_lossy(&self.slice)
    }

    fn read_slice(&mut self, buf: &mut [u8]) -> Result<()> {
        self.pay()?;
        Reader::read_slice(&mut self.slice, buf)
    }
}
