//! The same device seen through NVMe Flexible Data Placement: a superblock is a reclaim unit, a stream a
//! reclaim unit handle, a shared GC destination makes handles initially isolated, internal streams make them
//! persistently isolated. One reclaim group.

use crate::ftl::Ssd;
use crate::ids::PAGE_BYTES;

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
}
