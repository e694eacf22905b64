//! From flags to device settings.

use pcstream_ssd::{DeviceSettings, GcDestination, Geometry, GeometryError, Spare};
use pcstream_trace::{Extent, Lba, Meta};

use crate::args::DeviceArgs;
use crate::values::Prefill;

/// Spare factor unless a flag says otherwise: 512 GiB of flash behind 480 GB, as in the PM963 of the
/// PCStream paper (FAST'19, section 5), is 12.7 %; a round value near it.
const DEFAULT_SPARE_FACTOR: f64 = 0.125;

/// Superblock over logical capacity: 1.1 GB of 480 GB (FAST'19, section 5).
const SUPERBLOCK_SHARE: f64 = 0.0023;

/// One device per GC destination, each checked.
pub fn settings(args: &DeviceArgs, logical_pages: u64) -> Result<Vec<DeviceSettings>, GeometryError> {
    let spare = match (args.spare_factor, args.overprovision) {
        (_, Some(op)) => Spare::Overprovisioning(op),
        (Some(sf), None) => Spare::SpareFactor(sf),
        (None, None) => Spare::SpareFactor(DEFAULT_SPARE_FACTOR),
    };
    let with = |superblock_pages: u32| -> Vec<DeviceSettings> {
        let one = |&gc_destination: &GcDestination| DeviceSettings {
            logical_pages,
            spare,
            superblock_pages,
            streams: args.streams,
            gc_destination,
            victim: args.victim,
            seed: args.seed,
        };
        args.gc.0.iter().map(one).collect()
    };
    let check = |devices: Vec<DeviceSettings>| -> Result<Vec<DeviceSettings>, GeometryError> {
        devices.iter().try_for_each(|d| Geometry::new(d).map(drop))?;
        Ok(devices)
    };
    match args.superblock_pages {
        Some(pages) => check(with(pages)),
        None => default_superblock(logical_pages, |pages| check(with(pages))),
    }
}

/// The largest power of two of pages that is no more than 0.23 % of the capacity, halved until the
/// device has room for garbage collection; the first refusal if none has.
fn default_superblock<T>(
    logical_pages: u64,
    legal: impl Fn(u32) -> Result<T, GeometryError>,
) -> Result<T, GeometryError> {
    let first = paper_superblock_pages(logical_pages);
    let first_refusal = match legal(first) {
        Err(refusal @ GeometryError::NoRoomForGc { .. }) => refusal,
        decided => return decided,
    };
    let smaller =
        std::iter::successors(Some(first / 2), |pages| Some(pages / 2)).take_while(|pages| *pages > 0);
    for pages in smaller {
        if let Ok(device) = legal(pages) {
            return Ok(device);
        }
    }
    Err(first_refusal)
}

/// The largest power of two that is no more than 0.23 % of `logical_pages`, within 1 and 2^20 (4 GiB).
pub fn paper_superblock_pages(logical_pages: u64) -> u32 {
    let exact = (logical_pages as f64 * SUPERBLOCK_SHARE) as u64;
    1 << exact.max(1).ilog2().min(20)
}

/// A device on which any number of streams fits and garbage collection costs little: for questions
/// that do not depend on the device.
pub fn roomy(logical_pages: u64, streams: u8, seed: u64) -> DeviceSettings {
    let superblock_pages = paper_superblock_pages(logical_pages);
    let data = logical_pages.div_ceil(u64::from(superblock_pages));
    let superblocks = data + data / 2 + u64::from(streams) + 2;
    DeviceSettings {
        logical_pages,
        spare: Spare::Superblocks(u32::try_from(superblocks).unwrap_or(u32::MAX)),
        superblock_pages,
        streams,
        gc_destination: GcDestination::Own,
        victim: Default::default(),
        seed,
    }
}

/// What is on the device before counting.
pub fn prefill(prefill: Prefill, meta: &Meta) -> Vec<Extent> {
    match prefill {
        Prefill::Trace => meta.prefilled.clone(),
        Prefill::Fraction(share) => {
            let pages = (meta.device.pages as f64 * share) as u64;
            let extent = Extent { lba: Lba(0), pages };
            if pages == 0 { Vec::new() } else { vec![extent] }
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command};

    fn device(flags: &[&str], logical_pages: u64) -> Result<Vec<DeviceSettings>, GeometryError> {
        let cli = Cli::try_parse_from([&["pcstream", "simulate", "x"], flags].concat()).unwrap();
        let Command::Simulate(args) = cli.command else { panic!("parsed as {:?}", cli.command) };
        settings(&args.simulation.device, logical_pages)
    }

    #[test]
    fn the_default_superblock_keeps_the_papers_ratio() {
        assert_eq!(paper_superblock_pages(1), 1);
        assert_eq!(paper_superblock_pages(1 << 21), 4096, "8 GiB: 16 MiB, 0.195 %");
        assert_eq!(paper_superblock_pages(480_000_000_000 / 4096), 262_144, "480 GB: 1.07 GB");
        assert_eq!(paper_superblock_pages(u64::MAX / 4096), 1 << 20);
    }

    #[test]
    fn every_device_of_some_size_gets_a_legal_default() {
        for pages in [1_000u64, 10_000, 65_536, 1 << 20, 1 << 31] {
            for streams in ["1", "9", "17"] {
                let devices = device(&["--streams", streams, "--gc", "own,internal,shared"], pages).unwrap();
                assert_eq!(devices.len(), 3);
                assert!(devices.iter().all(|d| d.superblock_pages == devices[0].superblock_pages));
            }
        }
        let crowded = device(&["--streams", "33", "--spare-factor", "0.07"], 1 << 20).unwrap();
        assert!(crowded[0].superblock_pages < paper_superblock_pages(1 << 20));
    }

    #[test]
    fn no_room_is_refused() {
        let refused =
            |flags: &[&str], pages| matches!(device(flags, pages), Err(GeometryError::NoRoomForGc { .. }));
        assert!(refused(&["--spare-factor", "0"], 1 << 20));
        assert!(refused(&["--superblock-pages", "64K"], 1 << 20));
        assert!(refused(&[], 8));
    }

    #[test]
    fn spare_is_given_once() {
        let sf = device(&["--spare-factor", "0.2"], 1 << 20).unwrap();
        let op = device(&["--overprovision", "0.25"], 1 << 20).unwrap();
        let geometry = |d: &[DeviceSettings]| Geometry::new(&d[0]).unwrap();
        assert_eq!(geometry(&sf), geometry(&op));
        let both = ["pcstream", "simulate", "x", "--spare-factor", "0.2", "--overprovision", "0.25"];
        assert!(Cli::try_parse_from(both).is_err());
    }

    #[test]
    fn roomy_devices_are_legal_for_any_number_of_streams() {
        for pages in [1, 10, 1000, 1 << 22, 1 << 31] {
            for streams in [1, 9, 255] {
                Geometry::new(&roomy(pages, streams, 1)).unwrap();
            }
        }
    }
}
