//! A view of the FTL's decisions as they are made, for layers that must not change them (timing,
//! logs, tests). An observer is called after the fact and returns nothing; the default one costs
//! nothing, because it is a type parameter whose methods are empty.

use crate::ids::{StreamId, SuperblockId};

/// Called for every flash operation, in order.
pub trait Observer {
    /// Host data were programmed: `pages` pages from `offset` of `superblock` on.
    fn host_program(&mut self, superblock: SuperblockId, offset: u32, pages: u32, stream: StreamId) {
        let _ = (superblock, offset, pages, stream);
    }

    /// GC copied pages: read at the offsets `sources` of `victim`, in this order, and programmed one after the
    /// other from `to_offset` of `to` on.
    fn gc_copies(&mut self, victim: SuperblockId, sources: &[u32], to: SuperblockId, to_offset: u32) {
        let _ = (victim, sources, to, to_offset);
    }

    /// `superblock` was erased; `valid_pages` had been copied out of it.
    fn erase(&mut self, superblock: SuperblockId, valid_pages: u32) {
        let _ = (superblock, valid_pages);
    }

    /// Whether `gc_copies` is wanted: if not, the FTL does not compute its arguments.
    const WANTS_COPIES: bool = true;
}

/// Sees nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    const WANTS_COPIES: bool = false;
}
