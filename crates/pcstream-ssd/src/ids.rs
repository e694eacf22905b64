//! Newtypes of the device: what a number counts is part of its type.

use std::fmt;

/// Bytes of a page, the unit of mapping.
pub const PAGE_BYTES: u64 = 4096;

/// Index of a 4 KiB page in the logical address space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LogicalPage(pub u64);

/// An external stream: S0 (the default) ... S(n-1). FDP: a placement handle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StreamId(pub u8);

/// A superblock (FDP: reclaim unit), counted from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SuperblockId(pub u32);

impl StreamId {
    /// S0, where writes go that name no stream.
    pub const DEFAULT: StreamId = StreamId(0);
}

impl fmt::Display for LogicalPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "S{}", self.0)
    }
}

impl fmt::Display for SuperblockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
