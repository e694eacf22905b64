//! Derived sizes of a device: settings are checked here once, and everything else relies on them.
//!
//! How much room GC needs. Let b be the pages of a superblock, N their number, U the logical pages
//! and F the superblocks that can be open at once (one per external stream, plus one per stream with
//! internal streams, plus one with a shared GC destination). GC runs when a superblock must be opened
//! and fewer than two are free: one is opened, the other stays for GC to copy into. At that moment at
//! most one is free and at most F-1 are open, so at least N-F are closed; they hold at most U valid
//! pages. With N-F-1 >= ceil(U/b), closed superblocks have at least b invalid pages among them: GC
//! always finds a victim that gains something, needs at most one free superblock for its copies, and
//! gives one back. What it gains can hide in open GC superblocks, but those have room for fewer than
//! F*b pages, so that after finitely many victims a superblock is free. Fewer spare superblocks are
//! refused.

use crate::background::Watermarks;
use crate::settings::{DeviceSettings, GcDestination, Spare};

/// Pages of 4 KiB, as people say it.
fn in_tib(pages: u64) -> String {
    format!("{:.1} TiB", pages as f64 / (1u64 << 28) as f64)
}

/// What helps beside spare area; nothing where it is as small as it can be.
fn what_else(streams: u8, superblock_pages: u32) -> String {
    let streams = (streams > 1).then_some("fewer --streams, ");
    let superblock = (superblock_pages > 1).then_some("smaller --superblock-pages, ");
    let parts: String = streams.into_iter().chain(superblock).collect();
    if parts.is_empty() { parts } else { parts + "or " }
}

/// Sizes of a device, valid by construction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Geometry {
    logical_pages: u64,
    address_pages: u64,
    superblock_pages: u32,
    superblocks: u32,
    streams: u8,
    gc_destination: GcDestination,
}

/// Settings that make no device.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GeometryError {
    /// No logical pages.
    #[error("a device needs at least one logical page, found 0: give it a size")]
    NoLogicalPages,
    /// No streams.
    #[error("--streams 0: S0 counts, so a device has at least 1 stream")]
    NoStreams,
    /// A superblock size outside the limits.
    #[error("--superblock-pages {found}: expected 1 to {max} pages of 4 KiB")]
    SuperblockPages {
        /// As given.
        found: u32,
        /// Largest size supported.
        max: u32,
    },
    /// A spare factor outside [0, 1).
    #[error("--spare-factor {found}: Sf = (T-U)/T is at least 0 and below 1; 0.07 is common")]
    SpareFactor {
        /// As given.
        found: f64,
    },
    /// An overprovisioning outside [0, 2].
    #[error(
        "--overprovision {found}: OP = (T-U)/U is a fraction from 0 to 2, such as 0.14 for 14 %; 0.0753 equals a spare factor \
         of 0.07"
    )]
    Overprovisioning {
        /// As given.
        found: f64,
    },
    /// No memory for the tables.
    #[error(transparent)]
    OutOfMemory(#[from] crate::memory::OutOfMemory),
    /// More pages than 32-bit physical addresses reach.
    #[error(
        "{} of flash in superblocks of {superblock_pages} pages are more than the {} that the model addresses: use a smaller \
         device{}",
        in_tib(*physical_pages), in_tib(max_superblocks * u64::from(*superblock_pages)),
        if superblock_pages.is_power_of_two() { "" } else { ", or --superblock-pages with a power of two" }
    )]
    TooLarge {
        /// Pages asked for.
        physical_pages: u64,
        /// Superblock size.
        superblock_pages: u32,
        /// Most superblocks of that size.
        max_superblocks: u64,
    },
    /// More addresses than the model numbers.
    #[error("namespace_pages {found}: expected at most {max}, the pages that the model addresses")]
    TooManyAddresses {
        /// As given.
        found: u64,
        /// Most of them.
        max: u64,
    },
    /// Open superblocks and the GC reserve leave nothing for GC to gain.
    #[error(
        "no room for GC: {superblocks} superblocks of {superblock_pages} pages, less {data_superblocks} for the \
         {logical_pages} logical pages, leave {spare} spare, but {needed} are needed: {open} that can be open at once \
         ({streams} streams, GC destination {gc_destination}) and 1 for GC to copy into. Use {}a --spare-factor of at least \
         {least_spare_factor:.4}",
        what_else(*streams, *superblock_pages)
    )]
    NoRoomForGc {
        /// Superblocks of the device (N).
        superblocks: u64,
        /// Pages of each (b).
        superblock_pages: u32,
        /// Superblocks that the logical pages fill.
        data_superblocks: u64,
        /// Logical pages (U).
        logical_pages: u64,
        /// Superblocks beyond those.
        spare: u64,
        /// Superblocks that can be open at once (F).
        open: u64,
        /// Spare superblocks needed.
        needed: u64,
        /// External streams.
        streams: u8,
        /// Destination of GC copies.
        gc_destination: GcDestination,
        /// Smallest spare factor that these streams and superblocks allow.
        least_spare_factor: f64,
    },
    /// Another number of pools than of frontiers, or a size that is none.
    #[error(
        "pools {found:?}: expected {expected} positive relative sizes: one for each of {streams} streams from S0 on{behind}"
    )]
    Pools {
        /// As given.
        found: Vec<f64>,
        /// How many there must be.
        expected: u32,
        /// External streams.
        streams: u8,
        /// What else needs a size.
        behind: &'static str,
    },
    /// The victim policy sizes its pools by itself.
    #[error(
        "victim {victim} sizes its pools by itself: leave out the sizes of pools, or use another victim policy"
    )]
    PoolsTwice {
        /// The policy.
        victim: &'static str,
    },
    /// Watermarks that GC cannot hold.
    #[error(
        "background GC between {low} and {high} free superblocks: expected 2 <= low <= high <= {most}, the most that \
         can be kept free beside the data and {open} open superblocks"
    )]
    Watermarks {
        /// As given.
        low: u32,
        /// As given.
        high: u32,
        /// Largest high watermark.
        most: u64,
        /// Superblocks that can be open at once.
        open: u32,
    },
}

/// Most overprovisioning: more is a percentage, as no drive has three times the flash that it offers.
pub const MAX_OVERPROVISIONING: f64 = 2.0;

/// Largest superblock: 64 GiB.
const MAX_SUPERBLOCK_PAGES: u32 = 1 << 24;

/// Pages that the host can address at most: their numbers have 32 bits.
const MAX_ADDRESS_PAGES: u64 = u32::MAX as u64 - 1;

/// Superblocks that GC keeps for itself to copy into.
pub(crate) const GC_RESERVE_SUPERBLOCKS: u32 = 1;

/// A page count that is a whole number but for rounding in a spare factor counts as that number.
const ROUNDING: f64 = 1e-9;

impl Geometry {
    /// Checks the settings and derives the sizes.
    pub fn new(settings: &DeviceSettings) -> Result<Geometry, GeometryError> {
        let b = settings.superblock_pages;
        let u = settings.logical_pages;
        if u == 0 {
            return Err(GeometryError::NoLogicalPages);
        }
        if settings.streams == 0 {
            return Err(GeometryError::NoStreams);
        }
        if b == 0 || b > MAX_SUPERBLOCK_PAGES {
            return Err(GeometryError::SuperblockPages { found: b, max: MAX_SUPERBLOCK_PAGES });
        }
        let superblocks = superblocks(settings)?;
        // Physical pages are (superblock + 1) << shift | offset in 32 bits; 0 stands for "unmapped".
        let max_superblocks = (1u64 << (32 - offset_bits(b))) - 1;
        if superblocks > max_superblocks || u > MAX_ADDRESS_PAGES {
            let physical_pages = superblocks.saturating_mul(u64::from(b));
            return Err(GeometryError::TooLarge { physical_pages, superblock_pages: b, max_superblocks });
        }
        if settings.address_pages() > MAX_ADDRESS_PAGES {
            let (found, max) = (settings.address_pages(), MAX_ADDRESS_PAGES);
            return Err(GeometryError::TooManyAddresses { found, max });
        }
        let geometry = Geometry {
            logical_pages: u,
            address_pages: settings.address_pages(),
            superblock_pages: b,
            superblocks: superblocks as u32,
            streams: settings.streams,
            gc_destination: settings.gc_destination,
        };
        geometry.check_room_for_gc()?;
        geometry.check_pools(settings)?;
        geometry.check_watermarks(settings)?;
        Ok(geometry)
    }

    fn check_pools(&self, settings: &DeviceSettings) -> Result<(), GeometryError> {
        let pools = &settings.pools;
        if pools.is_empty() {
            return Ok(());
        }
        if settings.victim.info().sizes_pools {
            return Err(GeometryError::PoolsTwice { victim: settings.victim.name() });
        }
        let expected = self.open_superblocks();
        let positive = pools.iter().all(|size| *size > 0.0 && size.is_finite());
        if positive && pools.len() == expected as usize {
            return Ok(());
        }
        let behind = match self.gc_destination {
            GcDestination::Own => "",
            GcDestination::Internal => ", then one for the internal stream of each",
            GcDestination::Shared => ", then one for the superblocks of GC",
        };
        Err(GeometryError::Pools { found: pools.clone(), expected, streams: self.streams, behind })
    }

    /// As many free superblocks as `high` must leave garbage among the closed ones, or background GC would
    /// never be done.
    fn check_watermarks(&self, settings: &DeviceSettings) -> Result<(), GeometryError> {
        let Some(Watermarks { low, high }) = settings.background_gc else { return Ok(()) };
        let open = self.open_superblocks();
        let most = u64::from(self.superblocks) - self.data_superblocks() - u64::from(open);
        if 2 <= low && low <= high && u64::from(high) <= most {
            return Ok(());
        }
        Err(GeometryError::Watermarks { low, high, most, open })
    }

    fn check_room_for_gc(&self) -> Result<(), GeometryError> {
        let data = self.data_superblocks();
        let open = u64::from(self.open_superblocks());
        let needed = open + u64::from(GC_RESERVE_SUPERBLOCKS);
        if u64::from(self.superblocks) >= data + needed {
            return Ok(());
        }
        let physical = ((data + needed) * u64::from(self.superblock_pages)) as f64;
        // Rounded up in the last digit printed, so that the advice is enough.
        let least = ((physical - self.logical_pages as f64) / physical * 1e4).ceil() / 1e4;
        Err(GeometryError::NoRoomForGc {
            superblocks: u64::from(self.superblocks),
            superblock_pages: self.superblock_pages,
            data_superblocks: data,
            logical_pages: self.logical_pages,
            spare: u64::from(self.superblocks).saturating_sub(data),
            open,
            needed,
            streams: self.streams,
            gc_destination: self.gc_destination,
            least_spare_factor: least,
        })
    }

    /// Pages that can hold data at once (U).
    pub fn logical_pages(&self) -> u64 {
        self.logical_pages
    }

    /// Pages that the host can address: U, or more.
    pub fn address_pages(&self) -> u64 {
        self.address_pages
    }

    /// Pages of flash (T).
    pub fn physical_pages(&self) -> u64 {
        u64::from(self.superblocks) * u64::from(self.superblock_pages)
    }

    /// Pages of a superblock (b).
    pub fn superblock_pages(&self) -> u32 {
        self.superblock_pages
    }

    /// Number of superblocks (N).
    pub fn superblocks(&self) -> u32 {
        self.superblocks
    }

    /// External streams, S0 included.
    pub fn streams(&self) -> u8 {
        self.streams
    }

    /// Where GC copies go.
    pub fn gc_destination(&self) -> GcDestination {
        self.gc_destination
    }

    /// Sf = (T-U)/T.
    pub fn spare_factor(&self) -> f64 {
        (self.physical_pages() - self.logical_pages) as f64 / self.physical_pages() as f64
    }

    /// OP = (T-U)/U.
    pub fn overprovisioning(&self) -> f64 {
        (self.physical_pages() - self.logical_pages) as f64 / self.logical_pages as f64
    }

    /// Superblocks that can be open at once (F).
    pub fn open_superblocks(&self) -> u32 {
        let streams = u32::from(self.streams);
        match self.gc_destination {
            GcDestination::Own => streams,
            GcDestination::Internal => 2 * streams,
            GcDestination::Shared => streams + 1,
        }
    }

    /// Superblocks that the logical pages fill.
    pub fn data_superblocks(&self) -> u64 {
        self.logical_pages.div_ceil(u64::from(self.superblock_pages))
    }

    /// The part of the spare factor that open superblocks cannot take away: (T'-U)/T', where T' leaves
    /// out the superblocks that can be open and the one that GC keeps. With few large superblocks it is
    /// much smaller than `spare_factor`, and it is what the WAF depends on when all streams are in use.
    pub fn worst_case_spare_factor(&self) -> f64 {
        let out = self.open_superblocks() + GC_RESERVE_SUPERBLOCKS;
        let closed = u64::from(self.superblocks - out) * u64::from(self.superblock_pages);
        closed.saturating_sub(self.logical_pages) as f64 / closed as f64
    }

    /// Bits of the offset within a superblock in a packed physical page number.
    pub(crate) fn offset_bits(&self) -> u32 {
        offset_bits(self.superblock_pages)
    }
}

fn offset_bits(superblock_pages: u32) -> u32 {
    superblock_pages.next_power_of_two().trailing_zeros()
}

fn superblocks(settings: &DeviceSettings) -> Result<u64, GeometryError> {
    let u = settings.logical_pages as f64;
    let pages = match settings.spare {
        Spare::SpareFactor(sf) if (0.0..1.0).contains(&sf) => u / (1.0 - sf),
        Spare::SpareFactor(found) => return Err(GeometryError::SpareFactor { found }),
        Spare::Overprovisioning(op) if (0.0..=MAX_OVERPROVISIONING).contains(&op) => u * (1.0 + op),
        Spare::Overprovisioning(found) => return Err(GeometryError::Overprovisioning { found }),
        Spare::Superblocks(n) => return Ok(u64::from(n)),
    };
    // No number is so large that nothing is left of it in what follows.
    let exact = (pages / f64::from(settings.superblock_pages)).min(u64::MAX as f64);
    // Rounded up, so that a device never has less spare than asked for.
    Ok((exact - exact * ROUNDING).ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> DeviceSettings {
        DeviceSettings { logical_pages: 93 * 64, superblock_pages: 64, ..DeviceSettings::default() }
    }

    #[test]
    fn spare_factor_and_overprovisioning_say_the_same() {
        let own = DeviceSettings { gc_destination: GcDestination::Own, streams: 1, ..settings() };
        let by_sf = Geometry::new(&own).unwrap();
        assert_eq!(by_sf.superblocks(), 100);
        let op = by_sf.overprovisioning();
        let by_op =
            Geometry::new(&DeviceSettings { spare: Spare::Overprovisioning(op), ..own.clone() }).unwrap();
        assert_eq!(by_op.superblocks(), 100);
        assert!((by_op.spare_factor() - 0.07).abs() < 1e-12);
    }

    #[test]
    fn a_geometry_without_room_for_gc_is_refused_with_a_way_out() {
        let error = Geometry::new(&settings()).unwrap_err();
        let GeometryError::NoRoomForGc {
            superblocks: 100, data_superblocks: 93, open: 18, needed: 19, ..
        } = error
        else {
            panic!("{error}")
        };
        let text = error.to_string();
        for flag in ["--streams", "--superblock-pages", "--spare-factor", "leave 7 spare", "19 are needed"] {
            assert!(text.contains(flag), "{text}");
        }
    }

    #[test]
    fn the_advised_spare_factor_is_accepted() {
        for streams in [1, 2, 9, 40] {
            let refused = DeviceSettings { streams, spare: Spare::SpareFactor(0.0), ..settings() };
            let Err(GeometryError::NoRoomForGc { least_spare_factor, .. }) = Geometry::new(&refused) else {
                panic!("no spare at all must be refused")
            };
            let advised = DeviceSettings { spare: Spare::SpareFactor(least_spare_factor), ..refused };
            Geometry::new(&advised).unwrap();
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let refused = |s: DeviceSettings| Geometry::new(&s).unwrap_err();
        assert_eq!(refused(DeviceSettings { logical_pages: 0, ..settings() }), GeometryError::NoLogicalPages);
        assert_eq!(refused(DeviceSettings { streams: 0, ..settings() }), GeometryError::NoStreams);
        for b in [0, MAX_SUPERBLOCK_PAGES + 1] {
            let error = refused(DeviceSettings { superblock_pages: b, ..settings() });
            assert!(matches!(error, GeometryError::SuperblockPages { .. }));
        }
        for sf in [-0.1, 1.0, f64::NAN] {
            let error = refused(DeviceSettings { spare: Spare::SpareFactor(sf), ..settings() });
            assert!(matches!(error, GeometryError::SpareFactor { .. }));
        }
        for op in [-0.1, 2.01, 14.0, f64::MAX, f64::INFINITY, f64::NAN] {
            let error = refused(DeviceSettings { spare: Spare::Overprovisioning(op), ..settings() });
            assert!(matches!(error, GeometryError::Overprovisioning { .. }));
            assert!(error.to_string().contains("0.14 for 14 %"), "{error}");
        }
        for u in [1 << 32, u64::MAX] {
            let error = refused(DeviceSettings { logical_pages: u, ..settings() });
            assert!(matches!(error, GeometryError::TooLarge { .. }));
        }
        let error = refused(DeviceSettings { namespace_pages: Some(u64::MAX), streams: 1, ..settings() });
        assert!(matches!(error, GeometryError::TooManyAddresses { found: u64::MAX, .. }));
    }

    #[test]
    fn sixteen_terabytes_fit() {
        let logical_pages = 16_000_000_000_000 / 4096;
        Geometry::new(&DeviceSettings { logical_pages, ..DeviceSettings::default() }).unwrap();
    }
}
