//! Random devices and operations under a seed, applied to the fast FTL and to the reference. Shared by
//! the tests and by the `fuzz_ftl` example.

use pcstream_ssd::reference::ReferenceSsd;
use pcstream_ssd::{
    DeviceSettings, GcDestination, LogicalPage, NoObserver, Observer, Spare, Ssd, StreamId, SuperblockId,
    VictimPolicy, Watermarks,
};

mod random;

pub use random::Random;

impl Random {
    /// A number from `low` to `high`.
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.within(0, of.len() as u64 - 1) as usize]
    }
}

/// Any policy. A parameter is at most twice its default: larger ones differ little on small devices.
fn victim(random: &mut Random) -> VictimPolicy {
    let known: Vec<VictimPolicy> = VictimPolicy::known().collect();
    let victim = random.pick(&known);
    let Some(parameter) = &victim.info().parameter else { return victim };
    let (&least, &most) = (parameter.range.start(), parameter.range.end());
    let value = random.within(u64::from(least), u64::from(most.min(2 * parameter.default)));
    victim.with_parameter(value as u32).expect("in range")
}

/// A small device: from the smallest legal one of its kind to six superblocks more.
pub fn device(random: &mut Random) -> DeviceSettings {
    let logical_pages = random.within(1, 300);
    let superblock_pages = random.within(1, 20) as u32;
    let streams = random.within(1, 5) as u8;
    let gc_destination = random.pick(&GcDestination::ALL);
    let frontiers = match gc_destination {
        GcDestination::Own => u64::from(streams),
        GcDestination::Internal => 2 * u64::from(streams),
        GcDestination::Shared => u64::from(streams) + 1,
    };
    let least = logical_pages.div_ceil(u64::from(superblock_pages)) + frontiers + 1;
    let victim = victim(random);
    let spare = random.within(0, 6);
    // Each on every fourth device; pools that size themselves have no sizes.
    let pools = match random.within(0, 3) {
        0 if !victim.info().sizes_pools => (0..frontiers).map(|_| random.within(1, 100) as f64).collect(),
        _ => Vec::new(),
    };
    let background_gc = match random.within(0, 3) {
        0 if spare > 0 => {
            let high = random.within(2, spare + 1) as u32;
            Some(Watermarks { low: random.within(2, u64::from(high)) as u32, high })
        }
        _ => None,
    };
    DeviceSettings {
        namespace_pages: None,
        logical_pages,
        spare: Spare::Superblocks((least + spare) as u32),
        superblock_pages,
        streams,
        gc_destination,
        victim,
        pools,
        background_gc,
        seed: random.below(u64::MAX),
    }
}

/// Sees erases.
#[derive(Default)]
struct Erases(u64);

impl Observer for Erases {
    fn erase(&mut self, _superblock: SuperblockId, _valid_pages: u32) {
        self.0 += 1;
    }
}

/// One random operation on both. Half of them hit a tenth of the pages. Returns the erases it caused.
pub fn step(random: &mut Random, settings: &DeviceSettings, fast: &mut Ssd, slow: &mut ReferenceSsd) -> u64 {
    let u = settings.logical_pages;
    let span = if random.within(0, 1) == 0 { u } else { u.div_ceil(10) };
    let first = random.within(0, span - 1);
    let longest = if random.within(0, 7) == 0 { 3 * u64::from(settings.superblock_pages) } else { 4 };
    let pages = random.within(0, longest).min(u - first);
    let first = LogicalPage(first);
    let mut erases = Erases::default();
    if random.within(0, 15) == 0 {
        fast.discard(first, pages).expect("in range");
        slow.discard(first, pages);
    } else {
        let stream = StreamId(random.within(0, u64::from(settings.streams) - 1) as u8);
        let before = fast.counters().erases;
        // The observer selects another instance of the code: both must agree.
        if random.within(0, 1) == 0 {
            fast.write_observed(first, pages as u32, stream, &mut erases).expect("in range");
            assert_eq!(erases.0, fast.counters().erases - before, "every erase is reported");
        } else {
            fast.write_observed(first, pages as u32, stream, &mut NoObserver).expect("in range");
            erases.0 = fast.counters().erases - before;
        }
        slow.write(first, pages as u32, stream);
    }
    assert_eq!(fast.counters(), slow.counters(), "counters differ from the reference's");
    erases.0
}

/// Every page, free superblock and erase count.
pub fn assert_equal(fast: &Ssd, slow: &ReferenceSsd) {
    assert_eq!(fast.counters(), slow.counters());
    assert_eq!(fast.free_superblocks(), slow.free_superblocks());
    for page in (0..fast.geometry().logical_pages()).map(LogicalPage) {
        assert_eq!(fast.locate(page), slow.locate(page), "page {page} lies elsewhere");
    }
    assert!(fast.erase_counts().eq(slow.erase_counts()), "erase counts differ");
}

/// What a run of the differential fuzzer did.
#[derive(Debug, Default)]
pub struct Summary {
    /// Devices tried.
    pub devices: u64,
    /// Operations applied.
    pub operations: u64,
    /// Pages written by the host.
    pub host_pages: u64,
    /// Pages copied by GC.
    pub gc_pages: u64,
    /// Victims.
    pub erases: u64,
    /// Victims of GC in the background.
    pub background_erases: u64,
}

/// Runs `operations` operations, `per_device` on each of as many devices as that takes. All
/// invariants are checked after every GC, all pages now and then. Panics, naming the device's seed, at
/// the first difference.
pub fn fuzz(seed: u64, operations: u64, per_device: u64) -> Summary {
    let mut summary = Summary::default();
    while summary.operations < operations {
        let device_seed = seed.wrapping_add(summary.devices);
        let run = std::panic::catch_unwind(|| fuzz_device(device_seed, per_device, &mut Summary::default()));
        let Ok(of_device) = run else {
            panic!("differs with device seed {device_seed}, {per_device} operations")
        };
        summary.devices += 1;
        summary.operations += of_device.operations;
        summary.host_pages += of_device.host_pages;
        summary.gc_pages += of_device.gc_pages;
        summary.erases += of_device.erases;
        summary.background_erases += of_device.background_erases;
    }
    summary
}

fn fuzz_device(seed: u64, operations: u64, summary: &mut Summary) -> Summary {
    let mut random = Random(seed);
    let settings = device(&mut random);
    let mut fast = Ssd::new(&settings).expect("legal");
    let mut slow = ReferenceSsd::new(&settings).expect("legal");
    for at in 0..operations {
        if step(&mut random, &settings, &mut fast, &mut slow) > 0 {
            fast.verify().expect("all invariants hold after GC");
        }
        if at % 64 == 0 {
            assert_equal(&fast, &slow);
        }
    }
    assert_equal(&fast, &slow);
    fast.verify().expect("all invariants hold");
    summary.operations = operations;
    summary.host_pages = fast.counters().host_pages;
    summary.gc_pages = fast.counters().gc_pages;
    summary.erases = fast.counters().erases;
    summary.background_erases = fast.counters().background_erases;
    std::mem::take(summary)
}
