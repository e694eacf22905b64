//! What a replay takes in memory, before it takes it; and which lanes can run at once within a limit.
//!
//! Bytes. The tables of a lane have an entry per page: 4 in the device's map, 1 for the page's stream if lifetimes are
//! kept, and 4 per physical page; all lanes share 8 per page for what lives. Lists of victims take 16 for each page of a
//! superblock, with some policies as much for each stream. Nothing is taken for what is never touched, in units of the
//! system's pages (4 KiB): an estimate knows which chunks of addresses a trace writes, and takes the whole tables where it
//! does not.
//!
//! Weakness: GC is assumed to use all of the flash as soon as writes alone could.

use pcstream_ssd::{Density, DeviceSettings, Geometry};
use pcstream_trace::Extent;

use crate::addresses::AddressSet;
use crate::error::ReplayError;
use crate::lane::LaneSpec;
use crate::survey::Surveyor;

/// Bytes of what a scheme and a lane's counters take beside what they keep of pages.
const LANE_BYTES: u64 = 24 << 20;
/// Bytes of batches, tables of contexts and files, and the program itself.
const SHARED_BYTES: u64 = 96 << 20;
/// Pages of the system.
const OS_PAGE: u64 = 4096;
/// Entries of 4 bytes in a page of the system: what one page of the map covers.
const CHUNK: u64 = OS_PAGE / 4;

/// What is known of a trace's writes.
#[derive(Clone, Debug)]
pub struct Touched {
    /// Chunks of 1024 logical pages that hold a written or prefilled page.
    chunks: u64,
    /// Pages programmed at least: prefill and host writes.
    programmed: u64,
}

impl Touched {
    /// By a trace that writes the pages `written`, `host_pages` in all, to a device with `prefill`.
    pub fn new(written: &AddressSet, prefill: &[Extent], host_pages: u64) -> Touched {
        let mut all = written.clone();
        prefill.iter().for_each(|extent| all.add(extent.lba.0, extent.pages));
        let programmed = prefill.iter().map(|e| e.pages).sum::<u64>() + host_pages;
        Touched { chunks: all.chunks(CHUNK), programmed }
    }
}

/// Bytes of a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// Of what all lanes share.
    pub shared: u64,
    /// Of each lane.
    pub lanes: Vec<u64>,
    /// How the tables are best made.
    pub density: Density,
}

/// There is not enough memory for a single lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a lane alone takes {needed} bytes of memory, {available} are allowed")]
pub struct NotEnough {
    /// Bytes that the largest lane takes alone.
    pub needed: u64,
    /// Bytes that may be taken.
    pub available: u64,
}

/// Tables with an entry per logical page.
#[derive(Clone, Copy)]
struct Tables<'a> {
    logical_pages: u64,
    touched: Option<&'a Touched>,
}

impl Tables<'_> {
    fn bytes(self, bytes_per_page: u64) -> u64 {
        let whole = self.logical_pages * bytes_per_page;
        // A chunk of 1024 pages takes as many pages of a table as it has bytes in 4, and 1 where that is less.
        self.touched.map_or(whole, |t| whole.min(t.chunks * OS_PAGE * bytes_per_page.div_ceil(4)))
    }

    /// Pages that may be written.
    fn pages(self) -> u64 {
        self.touched.map_or(self.logical_pages, |touched| self.logical_pages.min(touched.chunks * CHUNK))
    }

    fn density(self) -> Density {
        match self.touched {
            Some(t) if t.chunks * CHUNK < self.logical_pages / 4 => Density::Sparse,
            _ => Density::Dense,
        }
    }

    /// Of what all lanes share, without the future.
    fn shared(self) -> u64 {
        SHARED_BYTES + self.bytes(8)
    }
}

impl Footprint {
    /// Of `lanes`, if all of their devices is written, or what is `touched`. `host_pages` are the pages that the trace writes.
    pub fn new(
        lanes: &[LaneSpec],
        host_pages: u64,
        touched: Option<&Touched>,
    ) -> Result<Footprint, ReplayError> {
        let logical_pages = lanes.first().ok_or(ReplayError::NoLanes)?.device.address_pages();
        let tables = Tables { logical_pages, touched };
        let mut sizes = Vec::new();
        for lane in lanes {
            let geometry = lane.geometry()?;
            let flash = flash_pages(&geometry, touched);
            let streams = if lane.lifetimes { tables.bytes(1) } else { 0 };
            let scheme = lane.scheme.bytes_for(tables.pages());
            sizes.push(
                LANE_BYTES
                    + scheme
                    + tables.bytes(4)
                    + streams
                    + flash.bytes()
                    + lane.device.list_bytes(geometry.open_superblocks()),
            );
        }
        // Four bytes for the death of every page written, where schemes look ahead.
        let future = if lanes.iter().any(LaneSpec::looks_ahead) { 4 * host_pages } else { 0 };
        Ok(Footprint { shared: tables.shared() + future, lanes: sizes, density: tables.density() })
    }

    /// Of a survey of a drive like `device`, beside what a replay leaves: the drive's tables, and four bytes for the
    /// context of each page of flash.
    pub fn of_survey(device: &DeviceSettings, touched: Option<&Touched>) -> Result<Footprint, ReplayError> {
        let tables = Tables { logical_pages: device.address_pages(), touched };
        let drive = Surveyor::device(device);
        let geometry = Geometry::new(&drive)?;
        let flash = flash_pages(&geometry, touched);
        let survey = LANE_BYTES
            + tables.bytes(4)
            + flash.bytes()
            + 4 * flash.programmed
            + drive.list_bytes(geometry.open_superblocks());
        Ok(Footprint { shared: tables.shared(), lanes: vec![survey], density: tables.density() })
    }

    /// Of all lanes at once.
    pub fn total(&self) -> u64 {
        self.shared + self.lanes.iter().sum::<u64>()
    }

    /// Runs of lanes, in order, each of which fits into `available` bytes.
    pub fn groups(&self, available: u64) -> Result<Vec<std::ops::Range<usize>>, NotEnough> {
        let largest = self.lanes.iter().max().copied().unwrap_or(0);
        if self.shared + largest > available {
            return Err(NotEnough { needed: self.shared + largest, available });
        }
        let mut groups = Vec::new();
        let (mut begin, mut used) = (0, self.shared);
        for (index, bytes) in self.lanes.iter().enumerate() {
            if used + bytes > available {
                groups.push(begin..index);
                (begin, used) = (index, self.shared);
            }
            used += bytes;
        }
        groups.push(begin..self.lanes.len());
        Ok(groups)
    }
}

/// What is touched of flash.
struct TouchedFlash {
    programmed: u64,
    superblocks: u64,
}

impl TouchedFlash {
    /// Of the device's tables.
    fn bytes(&self) -> u64 {
        4 * self.programmed + 22 * self.superblocks
    }
}

fn flash_pages(geometry: &Geometry, touched: Option<&Touched>) -> TouchedFlash {
    let open = u64::from(geometry.open_superblocks() + 1) * u64::from(geometry.superblock_pages());
    let pages = geometry.physical_pages();
    let programmed = touched.map_or(pages, |t| t.programmed.saturating_add(open).min(pages));
    TouchedFlash { programmed, superblocks: u64::from(geometry.superblocks()) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pcstream_placement::configure;

    use super::*;

    fn lane(logical_pages: u64) -> LaneSpec {
        let device = DeviceSettings { logical_pages, superblock_pages: 1 << 18, ..DeviceSettings::default() };
        LaneSpec::new(Arc::new(configure("baseline").unwrap()), device)
    }

    #[test]
    fn a_large_device_of_which_little_is_touched_is_small() {
        let four_tb = 1 << 30;
        let lanes = [lane(four_tb), lane(four_tb)];
        let whole = Footprint::new(&lanes, 1000, None).unwrap();
        assert!(whole.lanes[0] > 9 << 30 && whole.shared > 8 << 30, "{whole:?}");
        assert_eq!(whole.density, Density::Dense);
        let mut written = AddressSet::default();
        (0..1000).for_each(|i| written.add(i << 20, 1));
        let touched = Touched::new(&written, &[], 1000);
        let part = Footprint::new(&lanes, 1000, Some(&touched)).unwrap();
        assert_eq!(part.density, Density::Sparse);
        // Open superblocks of 1 GiB take 4 MiB each.
        assert!(part.total() < 512 << 20, "{part:?}");
        let whole = Footprint::of_survey(&lanes[0].device, None).unwrap();
        let survey = Footprint::of_survey(&lanes[0].device, Some(&touched)).unwrap();
        assert!(whole.total() > 20 << 30 && survey.total() < 512 << 20, "{survey:?}");
        assert_eq!(survey.density, Density::Sparse);
    }

    /// 256 MiB for each of 9 external and 9 internal streams, and as much in all.
    #[test]
    fn lists_of_victims_count_with_large_superblocks() {
        let with = |victim: &str| {
            let mut lane = lane(1 << 30);
            lane.device.superblock_pages = 1 << 24;
            lane.device.spare = pcstream_ssd::Spare::SpareFactor(0.5);
            lane.device.victim = victim.parse().unwrap();
            Footprint::new(&[lane], 1000, None).unwrap().lanes[0]
        };
        assert_eq!((with("pool-greedy") - with("fifo")) >> 20, 18 * 256);
        assert_eq!((with("greedy") - with("fifo")) >> 20, 256);
    }

    #[test]
    fn lanes_run_in_groups_that_fit() {
        let footprint = Footprint { shared: 10, lanes: vec![5, 5, 5, 20, 1], density: Density::Dense };
        assert_eq!(footprint.groups(100), Ok(std::iter::once(0..5).collect()));
        assert_eq!(footprint.groups(31), Ok(vec![0..3, 3..5]));
        assert_eq!(footprint.groups(30), Ok(vec![0..3, 3..4, 4..5]));
        assert_eq!(footprint.groups(29), Err(NotEnough { needed: 30, available: 29 }));
    }
}
