//! The fast FTL against the slow, obvious one: the same operations must put every page in the same
//! place, whatever the policy, the GC destination and the geometry, down to the smallest legal ones.
//!
//! A failure names the seed of its device; `cargo run --release --example fuzz_ftl --features
//! reference -- SEED OPERATIONS` runs longer.

mod common;

use common::{Random, assert_equal, device, fuzz, step};
use pcstream_ssd::reference::ReferenceSsd;
use pcstream_ssd::{DeviceSettings, Geometry, Spare, Ssd};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn agrees(seed: u64) {
    let summary = fuzz(seed, 1_500_000, 1000);
    println!("{summary:?}");
    assert!(summary.gc_pages > summary.host_pages / 10, "GC was hardly tested: {summary:?}");
    assert!(summary.background_erases > summary.erases / 50, "background GC was hardly tested: {summary:?}");
}

/// Three million operations, in two tests so that two processors share them.
#[test]
fn every_page_is_where_the_reference_puts_it() {
    agrees(1);
}

#[test]
fn every_page_is_where_the_reference_puts_it_second_half() {
    agrees(1_000_000_000);
}

/// The smallest legal devices do not get stuck: they are among those above.
#[test]
fn one_superblock_less_than_the_least_is_refused() {
    let mut random = Random(5);
    for _ in 0..2000 {
        let settings = device(&mut random);
        let Spare::Superblocks(given) = settings.spare else { unreachable!() };
        let legal =
            |n| Geometry::new(&DeviceSettings { spare: Spare::Superblocks(n), ..settings.clone() }).is_ok();
        let least = (1..=given).find(|&n| legal(n)).expect("the given number is legal");
        assert!(given - least <= 6 && !legal(least - 1));
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300, failure_persistence: None, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default()
    })]

    /// As above with few operations per device, so that proptest can shrink their number.
    #[test]
    fn a_short_history_gives_the_same_device(seed in any::<u64>(), operations in 0..400u32) {
        let mut random = Random(seed);
        let settings = device(&mut random);
        let mut fast = Ssd::new(&settings).expect("legal");
        let mut slow = ReferenceSsd::new(&settings).expect("legal");
        for _ in 0..operations {
            if step(&mut random, &settings, &mut fast, &mut slow) > 0 {
                fast.verify().expect("all invariants hold after GC");
            }
        }
        assert_equal(&fast, &slow);
    }
}
