//! The fast FTL against the slow, obvious one: the same operations must put every page in the same
//! place, whatever the policy, the GC destination and the geometry, down to the smallest legal ones.

use pcstream_ssd::reference::ReferenceSsd;
use pcstream_ssd::{
    DeviceSettings, GcDestination, Geometry, LogicalPage, NoObserver, Observer, Spare, Ssd, StreamId, SuperblockId,
    VictimPolicy,
};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Operation {
    Write { first: u64, pages: u32, stream: u8 },
    Discard { first: u64, pages: u64 },
}

fn policies() -> impl Strategy<Value = VictimPolicy> {
    prop_oneof![
        proptest::sample::select(VictimPolicy::KNOWN),
        (1u32..5).prop_map(|d| VictimPolicy::DChoices { d }),
        (1u32..=100).prop_map(|percent| VictimPolicy::WindowedGreedy { percent }),
    ]
}

/// Devices with 0 to 6 superblocks more than the least that is legal.
fn devices() -> impl Strategy<Value = DeviceSettings> {
    let destination = proptest::sample::select(GcDestination::ALL.to_vec());
    (1u64..300, 1u32..20, 1u8..5, destination, policies(), 0u32..7, any::<u64>()).prop_map(
        |(logical_pages, superblock_pages, streams, gc_destination, victim, more, seed)| {
            let frontiers = match gc_destination {
                GcDestination::Own => u32::from(streams),
                GcDestination::Internal => 2 * u32::from(streams),
                GcDestination::Shared => u32::from(streams) + 1,
            };
            let data = logical_pages.div_ceil(u64::from(superblock_pages)) as u32;
            let least = data + frontiers + 1;
            let too_few = DeviceSettings {
                logical_pages,
                spare: Spare::Superblocks(least - 1),
                superblock_pages,
                streams,
                gc_destination,
                victim,
                seed,
            };
            assert!(Geometry::new(&too_few).is_err(), "one superblock less is refused");
            DeviceSettings { spare: Spare::Superblocks(least + more), ..too_few }
        },
    )
}

/// Operations as numbers that fit any device; half of them hit a tenth of the pages.
fn operation(raw: (u16, u8, u8, u8), settings: &DeviceSettings) -> Operation {
    let (place, length, kind, stream) = raw;
    let u = settings.logical_pages;
    let span = if kind % 2 == 0 { u } else { u.div_ceil(10) };
    let first = u64::from(place) % span;
    let longest = if kind < 8 { 3 * u64::from(settings.superblock_pages) } else { 4 };
    let pages = (u64::from(length) % (longest + 1)).min(u - first);
    if kind % 16 == 5 {
        Operation::Discard { first, pages }
    } else {
        Operation::Write { first, pages: pages as u32, stream: stream % settings.streams }
    }
}

/// Counts erases, so that invariants can be checked whenever GC has run.
#[derive(Default)]
struct Erases(u64);

impl Observer for Erases {
    fn erase(&mut self, _superblock: SuperblockId, _valid_pages: u32) {
        self.0 += 1;
    }
}

fn apply(fast: &mut Ssd, slow: &mut ReferenceSsd, operation: &Operation, observed: bool) -> u64 {
    let mut erases = Erases::default();
    match *operation {
        Operation::Write { first, pages, stream } => {
            let (first, stream) = (LogicalPage(first), StreamId(stream));
            if observed {
                fast.write_observed(first, pages, stream, &mut erases).expect("in range");
            } else {
                fast.write_observed(first, pages, stream, &mut NoObserver).expect("in range");
            }
            slow.write(first, pages, stream);
        }
        Operation::Discard { first, pages } => {
            fast.discard(LogicalPage(first), pages).expect("in range");
            slow.discard(LogicalPage(first), pages);
        }
    }
    erases.0
}

fn assert_equal(fast: &Ssd, slow: &ReferenceSsd) {
    assert_eq!(fast.counters(), slow.counters());
    assert_eq!(fast.free_superblocks(), slow.free_superblocks());
    for page in (0..fast.geometry().logical_pages()).map(LogicalPage) {
        assert_eq!(fast.locate(page), slow.locate(page), "page {page}");
    }
    assert!(fast.erase_counts().eq(slow.erase_counts()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_page_is_where_the_reference_puts_it(
        settings in devices(),
        raw in proptest::collection::vec(any::<(u16, u8, u8, u8)>(), 0..300),
    ) {
        let mut fast = Ssd::new(&settings).expect("legal");
        let mut slow = ReferenceSsd::new(&settings).expect("legal");
        for (at, raw) in raw.into_iter().enumerate() {
            let operation = operation(raw, &settings);
            let erases = apply(&mut fast, &mut slow, &operation, at % 2 == 0);
            if erases > 0 {
                fast.verify().expect("all invariants after GC");
            }
            prop_assert_eq!(fast.counters(), slow.counters(), "after {:?}", operation);
        }
        assert_equal(&fast, &slow);
        fast.verify().expect("all invariants");
    }
}
