//! The same device seen through NVMe Flexible Data Placement: a superblock is a reclaim unit, a stream a
//! reclaim unit handle, a shared GC destination makes handles initially isolated, internal streams make them
//! persistently isolated. One reclaim group.

use crate::ftl::Ssd;
use crate::ids::{PAGE_BYTES, StreamId, SuperblockId};
use crate::settings::GcDestination;

/// The FDP statistics log page (log 0x22): bytes since the device was made, prefills included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct FdpStatistics {
    /// HBMW: bytes that the host wrote.
    pub host_bytes_written: u64,
    /// MBMW: bytes programmed in flash, for the host and for GC.
    pub media_bytes_written: u64,
    /// MBE: bytes erased.
    pub media_bytes_erased: u64,
}

/// Isolation of a reclaim unit handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Isolation {
    /// Type 1: survivors of GC may share reclaim units with those of other handles.
    Initial,
    /// Type 2: survivors stay apart from other handles' data.
    Persistent,
}

/// A reclaim unit handle and the reclaim unit it refers to (I/O management receive).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandleStatus {
    /// The handle.
    pub handle: StreamId,
    /// Its isolation; `None` with `GcDestination::Own`, which FDP does not have: survivors go to the
    /// handle's own reclaim unit.
    pub isolation: Option<Isolation>,
    /// The reclaim unit; `None` until the next write opens one.
    pub reclaim_unit: Option<SuperblockId>,
    /// RUAMW: pages that can still be written to it; 0 if there is none.
    pub available_pages: u32,
}

impl Isolation {
    /// The GC destination that gives handles this isolation.
    pub fn gc_destination(self) -> GcDestination {
        match self {
            Isolation::Initial => GcDestination::Shared,
            Isolation::Persistent => GcDestination::Internal,
        }
    }
}

impl Ssd {
    /// HBMW, MBMW and MBE.
    pub fn fdp_statistics(&self) -> FdpStatistics {
        let pages_erased =
            (self.counters.erases + self.uncounted.erases) * u64::from(self.geometry.superblock_pages());
        FdpStatistics {
            host_bytes_written: (self.counters.host_pages + self.uncounted.host_pages) * PAGE_BYTES,
            media_bytes_written: (self.counters.flash_pages() + self.uncounted.flash_pages()) * PAGE_BYTES,
            media_bytes_erased: pages_erased * PAGE_BYTES,
        }
    }

    /// Every reclaim unit handle, in order.
    pub fn handles(&self) -> impl ExactSizeIterator<Item = HandleStatus> + '_ {
        let isolation = match self.geometry.gc_destination() {
            GcDestination::Own => None,
            GcDestination::Internal => Some(Isolation::Persistent),
            GcDestination::Shared => Some(Isolation::Initial),
        };
        (0..self.geometry.streams()).map(move |handle| {
            let frontier = self.frontiers[usize::from(handle)];
            let reclaim_unit = frontier.superblock.checked_sub(1).map(SuperblockId);
            let available_pages =
                reclaim_unit.map_or(0, |_| self.geometry.superblock_pages() - frontier.offset);
            HandleStatus { handle: StreamId(handle), isolation, reclaim_unit, available_pages }
        })
    }
}
