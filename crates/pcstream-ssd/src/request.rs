//! From what a user asks for to devices: a base (a profile or the defaults), what replaces its values, and the sizes that
//! follow from the rest.
//!
//! Invariants: every device returned is legal, and they differ in the GC destination alone.

use crate::background::Watermarks;
use crate::geometry::{Geometry, GeometryError};
use crate::profile::Profile;
use crate::resources::OverBudget;
use crate::settings::{DeviceSettings, GcDestination, Spare};
use crate::timing::TimingError;
use crate::victim::VictimPolicy;

/// Spare factor unless something else says otherwise: 512 GiB of flash, which is our guess, behind the 480 GB of the PM963
/// (FAST'19, section 6.1) would be 12.7 %; a round value near it.
const DEFAULT_SPARE_FACTOR: f64 = 0.125;

/// Logical capacity where nothing gives one: 8 GiB.
pub const DEFAULT_LOGICAL_PAGES: u64 = 8 << 18;

/// Superblock over logical capacity: 1.1 GB of 480 GB (FAST'18, section 4).
const SUPERBLOCK_SHARE: f64 = 0.0023;

/// Pages of a superblock that takes `TimingSettings::default().erase_ns` to erase: the PM963's.
const TIMED_SUPERBLOCK_PAGES: u32 = 268_544;

/// Smallest device with the write buffer of `TimingSettings::default()`, which is 0.2 % of it: 8 GiB.
const BUFFERED_PAGES: u64 = 8 << 18;

/// What a request starts from.
#[derive(Clone, Debug, PartialEq)]
pub struct Base {
    /// Its values.
    pub profile: Profile,
    /// Whether the size of a superblock is the device's own, and not a default that may shrink.
    pub gives_superblock: bool,
    /// Whether the GC destination is the device's own.
    pub gives_gc_destination: bool,
    /// Whether the time of an erase is the device's own, and not a default that gets shorter with the superblock.
    pub gives_erase: bool,
    /// Whether the write buffer is the device's own, and not a default that shrinks with a small device.
    pub gives_buffer: bool,
}

impl Base {
    /// A device that is known.
    pub fn known(profile: Profile) -> Base {
        Base {
            profile,
            gives_superblock: true,
            gives_gc_destination: true,
            gives_erase: true,
            gives_buffer: true,
        }
    }

    /// The defaults for a device of this size.
    pub fn defaults(logical_pages: u64) -> Base {
        let spare = Spare::SpareFactor(DEFAULT_SPARE_FACTOR);
        let device = DeviceSettings { logical_pages, spare, ..DeviceSettings::default() };
        let profile = Profile { device, ..Profile::default() };
        Base {
            profile,
            gives_superblock: false,
            gives_gc_destination: false,
            gives_erase: false,
            gives_buffer: false,
        }
    }
}

/// What replaces the values of a base; nothing where `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceRequest {
    /// Flash beyond the logical pages.
    pub spare: Option<Spare>,
    /// Pages of a superblock.
    pub superblock_pages: Option<u32>,
    /// External streams, S0 included.
    pub streams: Option<u8>,
    /// Destinations to compare.
    pub gc_destinations: Option<Vec<GcDestination>>,
    /// Which superblock GC empties next.
    pub victim: Option<VictimPolicy>,
    /// Relative sizes of pools.
    pub pools: Option<Vec<f64>>,
    /// GC in the background.
    pub background_gc: Option<Watermarks>,
    /// Seed of the policies that draw random numbers.
    pub seed: Option<u64>,
}

/// Devices that differ in their GC destination alone; each is legal.
#[derive(Clone, Debug)]
pub struct Devices {
    /// One per GC destination.
    pub settings: Vec<DeviceSettings>,
    /// The first of them with its speeds and budgets.
    pub profile: Profile,
    /// Pages of the default superblock, if GC has no room with that: the devices have smaller ones.
    pub shrunk_from: Option<u32>,
}

/// No such device can be.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RequestError {
    /// Its sizes do not fit together.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// Each GC destination needs other pools than the next.
    #[error(
        "{refusal}. Each of the GC destinations {destinations} needs another number of sizes: choose one with --gc"
    )]
    PoolsOfSeveral {
        /// Of one of them.
        refusal: GeometryError,
        /// All of them.
        destinations: String,
    },
    /// Its channels, dies or times make no device.
    #[error(transparent)]
    Timing(#[from] TimingError),
    /// It cannot afford its streams.
    #[error(transparent)]
    Budget(#[from] OverBudget),
}

impl RequestError {
    /// Whether a smaller device could be made.
    pub fn is_too_large(&self) -> bool {
        matches!(self, RequestError::Geometry(GeometryError::TooLarge { .. }))
    }
}

impl DeviceRequest {
    /// The devices that are asked for.
    pub fn devices(&self, base: Base) -> Result<Devices, RequestError> {
        base.profile.timing.check()?;
        let destinations = self.destinations(&base);
        let mut profile = base.profile;
        self.replace(&mut profile.device);
        let legal = |superblock_pages: u32| {
            let with = |&gc_destination: &GcDestination| DeviceSettings {
                superblock_pages,
                gc_destination,
                ..profile.device.clone()
            };
            let devices: Vec<DeviceSettings> = destinations.iter().map(with).collect();
            let refusals = devices.iter().filter_map(|device| Geometry::new(device).err());
            // The remedy of the one that needs the most helps all.
            match refusals.max_by(|a, b| needed(a).total_cmp(&needed(b))) {
                Some(refusal) => Err(refusal),
                None => Ok(devices),
            }
        };
        // At least a program's pages where there is room, or the device could not be timed.
        let first =
            paper_superblock_pages(profile.device.logical_pages).max(profile.timing.pages_per_program);
        let is_default = self.superblock_pages.is_none() && !base.gives_superblock;
        let settings = match self.superblock_pages {
            Some(pages) => legal(pages),
            None if base.gives_superblock => legal(profile.device.superblock_pages),
            None => default_superblock(first, legal),
        };
        let settings = settings.map_err(|refusal| refused(refusal, &destinations))?;
        profile.device = settings[0].clone();
        if !base.gives_erase {
            let share = f64::from(profile.device.superblock_pages) / f64::from(TIMED_SUPERBLOCK_PAGES);
            profile.timing.erase_ns = (profile.timing.erase_ns as f64 * share.min(1.0)).round() as u64;
        }
        if !base.gives_buffer {
            let share = profile.device.logical_pages as f64 / BUFFERED_PAGES as f64;
            profile.timing.buffer_pages = profile.shrunk_buffer(share.min(1.0));
        }
        profile.resources.check(&profile.timing, profile.device.streams)?;
        let shrunk_from = (is_default && profile.device.superblock_pages < first).then_some(first);
        Ok(Devices { settings, profile, shrunk_from })
    }

    fn replace(&self, device: &mut DeviceSettings) {
        device.spare = self.spare.unwrap_or(device.spare);
        device.streams = self.streams.unwrap_or(device.streams);
        device.victim = self.victim.unwrap_or(device.victim);
        device.seed = self.seed.unwrap_or(device.seed);
        device.background_gc = self.background_gc.or(device.background_gc);
        if let Some(pools) = &self.pools {
            device.pools.clone_from(pools);
        }
    }

    /// Destinations to compare. A legacy multi-stream device is compared with the same one with internal
    /// streams (FAST'19, Fig. 10); any other device that says what it does is not compared.
    pub fn destinations(&self, base: &Base) -> Vec<GcDestination> {
        let mut device = base.profile.device.clone();
        self.replace(&mut device);
        match &self.gc_destinations {
            Some(destinations) => destinations.clone(),
            None if base.gives_gc_destination && !is_legacy_multi_stream(&device) => {
                vec![device.gc_destination]
            }
            None => vec![GcDestination::Own, GcDestination::Internal],
        }
    }
}

fn refused(refusal: GeometryError, destinations: &[GcDestination]) -> RequestError {
    if destinations.len() < 2 || !matches!(refusal, GeometryError::Pools { .. }) {
        return refusal.into();
    }
    let names: Vec<&str> = destinations.iter().map(|destination| destination.name()).collect();
    RequestError::PoolsOfSeveral { refusal, destinations: names.join(", ") }
}

/// Whether a device has streams, and its garbage collection puts copies back among the host's writes.
fn is_legacy_multi_stream(device: &DeviceSettings) -> bool {
    device.streams > 1 && device.gc_destination == GcDestination::Own
}

/// The spare factor that would be enough; infinite where another value is at fault.
fn needed(refusal: &GeometryError) -> f64 {
    match refusal {
        GeometryError::NoRoomForGc { least_spare_factor, .. } => *least_spare_factor,
        _ => f64::INFINITY,
    }
}

/// The `first` size, halved until the device has room for garbage collection; the first refusal if none has.
fn default_superblock<T>(
    first: u32,
    legal: impl Fn(u32) -> Result<T, GeometryError>,
) -> Result<T, GeometryError> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timing::TimingSettings;

    #[test]
    fn what_is_refused_for_one_destination_names_what_helps_all() {
        let request = DeviceRequest { superblock_pages: Some(1024), ..DeviceRequest::default() };
        let refused = request.devices(Base::defaults(1 << 15)).unwrap_err();
        let RequestError::Geometry(GeometryError::NoRoomForGc { least_spare_factor, .. }) = refused else {
            panic!("{refused}")
        };
        let spare = Some(Spare::SpareFactor(least_spare_factor + 0.0001));
        DeviceRequest { spare, ..request }.devices(Base::defaults(1 << 15)).expect("there is room now");
    }

    /// Else a device of small superblocks would spend most of its time on erasing.
    #[test]
    fn the_default_erase_takes_the_same_share_of_the_time_at_any_size() {
        let whole = TimingSettings::default();
        let share = |pages: u64| {
            let profile = DeviceRequest::default().devices(Base::defaults(pages)).unwrap().profile;
            profile.timing.erase_ns as f64 / f64::from(profile.device.superblock_pages)
        };
        let expected = whole.erase_ns as f64 / f64::from(TIMED_SUPERBLOCK_PAGES);
        for pages in [1 << 15, 1 << 20, 1 << 26] {
            assert!((share(pages) / expected - 1.0).abs() < 0.01, "{pages}: {}", share(pages));
        }
        let own = Base { gives_erase: true, gives_buffer: true, ..Base::defaults(1 << 20) };
        assert_eq!(DeviceRequest::default().devices(own).unwrap().profile.timing, whole);
    }

    /// Else the buffer of a small device would hold all that the host writes. Each stream has a unit begun, and each die work.
    #[test]
    fn the_default_buffer_is_no_larger_a_share_of_a_small_device() {
        let buffer = |pages: u64| {
            let profile = DeviceRequest::default().devices(Base::defaults(pages)).unwrap().profile;
            profile.timing.buffer_pages
        };
        let least = 2 * 32 * TimingSettings::default().pages_per_program;
        let whole = TimingSettings::default().buffer_pages;
        assert_eq!([1 << 12, 8 << 17, 8 << 18, 8 << 24].map(buffer), [least, whole / 2, whole, whole]);
    }

    #[test]
    fn a_request_replaces_what_it_gives_and_keeps_the_rest() {
        let base = Base::known(Profile::named("pm963-480g").unwrap().scaled_to(1 << 20));
        let request = DeviceRequest { streams: Some(4), ..DeviceRequest::default() };
        let devices = request.devices(base.clone()).unwrap();
        let legacy = DeviceSettings { streams: 4, ..base.profile.device.clone() };
        let internal = DeviceSettings { gc_destination: GcDestination::Internal, ..legacy.clone() };
        assert_eq!(devices.settings, [legacy, internal]);
        let one = DeviceRequest { gc_destinations: Some(vec![GcDestination::Shared]), ..request };
        assert_eq!(one.devices(base).unwrap().settings.len(), 1);
    }

    /// No number of sizes is right for both.
    #[test]
    fn pools_for_several_destinations_are_refused_with_the_way_out() {
        for count in [9, 18] {
            let request = DeviceRequest { pools: Some(vec![1.0; count]), ..DeviceRequest::default() };
            let refusal = request.devices(Base::defaults(1 << 20)).unwrap_err().to_string();
            assert!(
                refusal.ends_with("own, internal needs another number of sizes: choose one with --gc"),
                "{refusal}"
            );
        }
        let gc_destinations = Some(vec![GcDestination::Own]);
        let one = DeviceRequest { pools: Some(vec![1.0; 9]), gc_destinations, ..DeviceRequest::default() };
        one.devices(Base::defaults(1 << 20)).expect("as many sizes as streams");
        let refusal = DeviceRequest { pools: Some(vec![1.0; 8]), ..one }.devices(Base::defaults(1 << 20));
        assert!(!refusal.unwrap_err().to_string().contains("--gc"));
    }

    #[test]
    fn a_default_superblock_shrinks_until_there_is_room_and_a_given_one_does_not() {
        let crowded = DeviceRequest {
            streams: Some(33),
            spare: Some(Spare::SpareFactor(0.07)),
            ..DeviceRequest::default()
        };
        let devices = crowded.devices(Base::defaults(1 << 20)).unwrap();
        assert!(devices.settings[0].superblock_pages < paper_superblock_pages(1 << 20));
        assert_eq!(devices.shrunk_from, Some(paper_superblock_pages(1 << 20)));
        assert_eq!(DeviceRequest::default().devices(Base::defaults(1 << 20)).unwrap().shrunk_from, None);
        let asked = DeviceRequest { superblock_pages: Some(64), ..crowded.clone() };
        assert_eq!(asked.devices(Base::defaults(1 << 20)).unwrap().shrunk_from, None);
        let profile = Base::known(Profile::named("pm963-480g").unwrap().scaled_to(1 << 12));
        assert_eq!(DeviceRequest::default().devices(profile).unwrap().shrunk_from, None);
        let given = DeviceRequest { superblock_pages: Some(1 << 16), ..crowded };
        let refused = given.devices(Base::defaults(1 << 20)).unwrap_err();
        assert!(matches!(refused, RequestError::Geometry(GeometryError::NoRoomForGc { .. })), "{refused}");
    }
}
