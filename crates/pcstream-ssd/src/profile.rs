//! Named devices: a size, streams and speeds that belong together, to start from.
//!
//! With the `serde` feature a `Profile` is what a device file holds: tables `[device]`, `[timing]` and
//! `[resources]`, each with defaults, and unknown keys refused.

use crate::names::UnknownName;
use crate::resources::Resources;
use crate::settings::{DeviceSettings, GcDestination, Spare};
use crate::timing::TimingSettings;

/// A device and its speeds.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields, default)
)]
pub struct Profile {
    /// Geometry, streams and policies.
    pub device: DeviceSettings,
    /// Parallelism and speeds.
    pub timing: TimingSettings,
    /// What limits streams.
    pub resources: Resources,
}

/// A line of the registry.
pub struct NamedProfile {
    /// The name used on the command line.
    pub name: &'static str,
    /// One sentence: what it is, and which of its numbers are assumptions.
    pub about: &'static str,
    /// Makes it.
    pub make: fn() -> Profile,
}

/// Every named profile.
pub const KNOWN: &[NamedProfile] = &[
    NamedProfile {
        name: "pm963-480g",
        about: "Samsung PM963 480 GB as in FAST'18 and FAST'19: 8 streams + default, superblocks of 1.1 GB; 512 GiB of flash, \
                dies and times are assumptions",
        make: pm963_480g,
    },
    NamedProfile {
        name: "fdp-3.84t",
        about: "an FDP TLC drive of 3.84 TB: 8 initially isolated handles, reclaim units of 6 GiB, 7 % spare; times \
                are assumptions",
        make: fdp_3840g,
    },
    NamedProfile {
        name: "mqsim",
        about: "the device of MQSim's ssdconfig.xml: 512 GiB of flash, 7 % spare, MLC times",
        make: mqsim,
    },
    NamedProfile {
        name: "femu",
        about: "the device of FEMU's black-box script: 12 GiB on 16 GiB of flash, lines of 64 MiB",
        make: femu,
    },
];

impl Profile {
    /// The profile of this name.
    pub fn named(name: &str) -> Result<Profile, UnknownName> {
        let known = KNOWN.iter().find(|profile| profile.name == name);
        known.map(|profile| (profile.make)()).ok_or_else(|| UnknownName {
            what: "profile",
            found: name.to_owned(),
            expected: KNOWN.iter().map(|profile| profile.name).collect::<Vec<_>>().join(", "),
        })
    }

    /// The same device with another number of logical pages, and superblocks that are the same share of
    /// it: what makes WAF are ratios. The spare becomes a spare factor; a superblock stays a whole
    /// number of units of the timing model. Very small sizes end with superblocks of one unit, sizes beyond what the
    /// model addresses with superblocks that [`Geometry`](crate::Geometry) refuses.
    ///
    /// Dies and the times of pages stay. The write buffer shrinks down to two stripes over all dies, and an erase
    /// gets shorter with the superblock, so that erasing takes the same share of the time. What does not scale:
    /// the wait of a single read behind an erase is too short, and times are too long where superblocks are smaller
    /// than two stripes over all dies and not one.
    pub fn scaled_to(&self, logical_pages: u64) -> Profile {
        let mut scaled = self.clone();
        let ratio = logical_pages as f64 / self.device.logical_pages.max(1) as f64;
        let unit = self.timing.pages_per_program;
        let units = f64::from(self.device.superblock_pages) * ratio / f64::from(unit);
        scaled.device.logical_pages = logical_pages;
        scaled.device.superblock_pages = (units.round() as u32).max(1).saturating_mul(unit);
        let superblock_ratio =
            f64::from(scaled.device.superblock_pages) / f64::from(self.device.superblock_pages);
        scaled.timing.erase_ns = (self.timing.erase_ns as f64 * superblock_ratio).round() as u64;
        scaled.timing.buffer_pages = self.shrunk_buffer(ratio);
        if let Spare::Superblocks(n) = self.device.spare {
            let physical = f64::from(n) * f64::from(self.device.superblock_pages);
            scaled.device.spare = Spare::SpareFactor(1.0 - self.device.logical_pages as f64 / physical);
        }
        scaled
    }

    /// Pages of the write buffer of a device `ratio` times as large: not so few that dies have to wait for each other.
    pub(crate) fn shrunk_buffer(&self, ratio: f64) -> u32 {
        let TimingSettings { channels, dies_per_channel, pages_per_program, buffer_pages, .. } = self.timing;
        let begun = u32::from(self.device.streams).saturating_mul(pages_per_program);
        let stripes =
            2u32.saturating_mul(channels).saturating_mul(dies_per_channel).saturating_mul(pages_per_program);
        let shrunk = (f64::from(buffer_pages) * ratio) as u32;
        shrunk.max(begun.max(stripes).min(buffer_pages))
    }
}

fn pm963_480g() -> Profile {
    Profile {
        device: DeviceSettings {
            logical_pages: 480_000_000_000 / 4096,
            // 512 GiB in superblocks of 268,544 pages, 1.09996 GB: 499 of them.
            spare: Spare::Superblocks(499),
            superblock_pages: 268_544,
            streams: 9,
            // A legacy multi-stream SSD: only the PCStream prototype has internal streams.
            gc_destination: GcDestination::Own,
            ..DeviceSettings::default()
        },
        // 8 channels of 4 dies, 2 planes with pages of 16 KiB.
        timing: TimingSettings { pages_per_program: 8, buffer_pages: 16_384, ..TimingSettings::default() },
        resources: Resources::default(),
    }
}

fn fdp_3840g() -> Profile {
    Profile {
        device: DeviceSettings {
            logical_pages: 3_840_000_000_000 / 4096,
            spare: Spare::SpareFactor(0.07),
            superblock_pages: 6 << 18,
            streams: 8,
            gc_destination: GcDestination::Shared,
            ..DeviceSettings::default()
        },
        // 16 channels of 8 dies, 4 planes with pages of 16 KiB; 4 KiB at 1.6 GB/s.
        timing: TimingSettings {
            channels: 16,
            dies_per_channel: 8,
            pages_per_program: 16,
            transfer_ns: 2_560,
            buffer_pages: 65_536,
            ..TimingSettings::default()
        },
        resources: Resources::default(),
    }
}

fn mqsim() -> Profile {
    Profile {
        device: DeviceSettings {
            // 8 channels x 4 chips x 2 dies x 2 planes x 256 pages of 8 KiB; 2048 blocks per plane.
            superblock_pages: 8 * 4 * 2 * 2 * 256 * 2,
            spare: Spare::Superblocks(2048),
            logical_pages: (2048.0 * 65_536.0 * 0.93) as u64,
            streams: 1,
            gc_destination: GcDestination::Own,
            ..DeviceSettings::default()
        },
        timing: TimingSettings {
            channels: 8,
            dies_per_channel: 8,
            pages_per_program: 4,
            read_ns: 75_000,
            program_ns: 750_000,
            erase_ns: 3_800_000,
            // 4 KiB at 333 MB/s.
            transfer_ns: 12_300,
            // Its cache of 256 MiB.
            buffer_pages: 65_536,
            ..TimingSettings::default()
        },
        resources: Resources::default(),
    }
}

fn femu() -> Profile {
    Profile {
        device: DeviceSettings {
            // A line: 8 channels x 8 dies x 256 pages; 256 lines, 12 of 16 GiB addressable.
            superblock_pages: 8 * 8 * 256,
            spare: Spare::Superblocks(256),
            logical_pages: 12 << 18,
            streams: 1,
            gc_destination: GcDestination::Own,
            ..DeviceSettings::default()
        },
        timing: TimingSettings {
            channels: 8,
            dies_per_channel: 8,
            pages_per_program: 1,
            read_ns: 40_000,
            program_ns: 200_000,
            erase_ns: 2_000_000,
            transfer_ns: 0,
            command_ns: 0,
            // It has no buffer: a write waits for its program. One page per die comes closest.
            buffer_pages: 64,
        },
        resources: Resources::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Geometry;

    #[test]
    fn every_profile_is_a_device_whole_and_scaled() {
        for named in KNOWN {
            let profile = Profile::named(named.name).unwrap();
            let whole = Geometry::new(&profile.device).unwrap_or_else(|e| panic!("{}: {e}", named.name));
            assert_eq!(whole.superblock_pages() % profile.timing.pages_per_program, 0, "{}", named.name);
            let scaled = profile.scaled_to(1 << 18);
            let small =
                Geometry::new(&scaled.device).unwrap_or_else(|e| panic!("{} scaled: {e}", named.name));
            let share = |g: &Geometry| f64::from(g.superblock_pages()) / g.logical_pages() as f64;
            let ratio = share(&small) / share(&whole);
            assert!((0.98..1.02).contains(&ratio), "{}: superblock share changed by {ratio}", named.name);
            assert!((small.spare_factor() - whole.spare_factor()).abs() < 0.003, "{}", named.name);
        }
        let error = Profile::named("pm963").unwrap_err().to_string();
        assert!(error.contains("pm963-480g, fdp-3.84t"), "{error}");
    }

    #[test]
    fn sizes_that_make_no_device_are_scaled_and_refused() {
        let mut empty = Profile::default();
        empty.device.logical_pages = 0;
        assert_eq!(empty.scaled_to(1).device.superblock_pages, 256);
        for named in KNOWN {
            for scaled in
                [(named.make)().scaled_to(u64::MAX), (named.make)().scaled_to(0), empty.scaled_to(0)]
            {
                assert!(Geometry::new(&scaled.device).is_err(), "{}", named.name);
            }
        }
    }

    #[test]
    fn mqsim_has_the_times_of_its_configuration() {
        let timing = Profile::named("mqsim").unwrap().timing;
        assert_eq!((timing.read_ns, timing.program_ns, timing.erase_ns), (75_000, 750_000, 3_800_000));
    }

    #[test]
    fn the_pm963_has_the_papers_sizes() {
        let device = Geometry::new(&Profile::named("pm963-480g").unwrap().device).unwrap();
        let superblock_bytes = f64::from(device.superblock_pages()) * 4096.0;
        assert!((superblock_bytes / 1.1e9 - 1.0).abs() < 0.001);
        assert!((device.physical_pages() as f64 / (512u64 << 18) as f64 - 1.0).abs() < 0.002);
        assert_eq!(device.streams(), 9);
    }

    #[cfg(feature = "serde")]
    #[test]
    fn a_device_file_gives_the_same_profile_and_refuses_unknown_keys() {
        for named in KNOWN {
            let profile = (named.make)();
            let text = toml::to_string(&profile).unwrap();
            assert_eq!(toml::from_str::<Profile>(&text).unwrap(), profile, "{text}");
        }
        let text = "[device]\nstreams = 4\nvictim = \"d-choices:3\"\nspare = { overprovisioning = 0.3 }\n";
        let read: Profile = toml::from_str(text).unwrap();
        assert_eq!(read.device.streams, 4);
        assert_eq!(read.device.victim.to_string(), "d-choices:3");
        assert_eq!(read.device.spare, Spare::Overprovisioning(0.3));
        assert_eq!(read.timing, TimingSettings::default());
        for wrong in ["[device]\nstream = 4\n", "[device]\nvictim = \"gredy\"\n", "[timings]\n"] {
            let error = toml::from_str::<Profile>(wrong).unwrap_err().to_string();
            assert!(error.contains("expected"), "{error}");
        }
    }
}
