//! A device packed by live data does what one does whose host uses freed addresses again.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use pcstream_placement::find;
use pcstream_replay::space::{Pack, Space, SpaceError, SpaceSettings, Used};
use pcstream_replay::{LaneResult, LaneSpec, Replay, ReplayError, recorded};
use pcstream_ssd::{DeviceSettings, GcDestination, Spare};
use pcstream_trace::{Batch, Context, ContextId, Event, Extent, Lba, Op, Signature};
use proptest::prelude::*;

/// Of the traced device.
const PAGES: u64 = 3 * 1024;

fn event(op: Op, lba: u64, context: u32) -> Event {
    Event { context: ContextId(context), op, ..Event::write(lba, 1) }
}

/// Hot and cold files, in places that move on: most addresses hold data for a short time.
fn trace(steps: &[(u8, u16)]) -> Batch {
    let context = |id: u32| {
        let executable = format!("/usr/bin/program{id}");
        Context { id: ContextId(id), signature: Signature(id.into()), executable, ..Context::default() }
    };
    let mut events = Vec::new();
    for (at, &(choice, place)) in steps.iter().enumerate() {
        let (cold, hot) = (u64::from(place) % 1000, 1000 + at as u64 * 7 % 2000);
        match choice % 4 {
            0 => events.extend((cold..cold + 8).map(|lba| event(Op::Write, lba, 1))),
            1 => events.extend((cold..cold + 16).map(|lba| event(Op::Discard, lba, 0))),
            2 => events.push(event(Op::WriteZeroes, cold, 0)),
            _ => {}
        }
        events.extend((hot..hot + 8).map(|lba| event(Op::Write, lba, 2)));
        events.extend((hot..hot + 8).filter(|_| at % 8 != 0).map(|lba| event(Op::Discard, lba, 0)));
    }
    Batch { events, contexts: vec![context(1), context(2)], ..Batch::default() }
}

fn batches(batch: &Batch) -> impl Iterator<Item = Result<Batch, Infallible>> + Send {
    std::iter::once(Ok(batch.clone()))
}

/// What the crate finds out of a trace beforehand.
fn used(batch: &Batch, prefilled: &[Extent]) -> Used {
    recorded::used(|| batches(batch), LIVE, prefilled, |_, _| {}).unwrap()
}

/// The trace on a host that gives a page the address that was freed last, or a new one; and how many it needs. No two
/// pages with data have one address.
fn reused(batch: &Batch, prefilled: &[Extent], written: &Used) -> (Batch, Vec<Extent>, u64) {
    let is_written = |page: u64| written.written.extents().any(|(first, end)| (first..end).contains(&page));
    let (mut at, mut free, mut next) = (BTreeMap::new(), Vec::new(), 0);
    for page in prefilled.iter().flat_map(|e| e.lba.0..e.lba.0 + e.pages).filter(|page| is_written(*page)) {
        at.insert(page, next);
        next += 1;
    }
    let prefill = if next > 0 { vec![Extent { lba: Lba(0), pages: next }] } else { Vec::new() };
    let mut events = Vec::new();
    for event in &batch.events {
        let place = match event.op {
            Op::Write => Some(*at.entry(event.lba.0).or_insert_with(|| {
                free.pop().unwrap_or_else(|| {
                    next += 1;
                    next - 1
                })
            })),
            _ => at.remove(&event.lba.0).inspect(|place| free.push(*place)),
        };
        events.extend(place.map(|place| Event { lba: Lba(place), ..*event }));
        assert_eq!(at.len() + free.len(), next as usize, "an address is taken once, or free");
    }
    (Batch { events, ..batch.clone() }, prefill, next)
}

fn device(logical_pages: u64, gc_destination: GcDestination) -> DeviceSettings {
    let (spare, superblock_pages) = (Spare::Superblocks((logical_pages / 16) as u32 + 12), 16);
    DeviceSettings {
        logical_pages,
        spare,
        superblock_pages,
        streams: 4,
        gc_destination,
        ..Default::default()
    }
}

/// What schemes make of a trace on a device: every one for which only the writer and the deaths of pages matter.
fn run(
    batch: &Batch,
    prefill: &[Extent],
    device: impl Fn(GcDestination) -> DeviceSettings,
) -> Vec<LaneResult> {
    let lane = |scheme, gc| LaneSpec::new(Arc::new(find(scheme).unwrap().configure()), device(gc));
    let schemes = ["baseline", "manual", "pcstream"];
    let lanes: Vec<_> = schemes.iter().flat_map(|s| GcDestination::ALL.map(|gc| lane(s, gc))).collect();
    let mut replay = Replay::new(&lanes, prefill).unwrap();
    replay.feed(batch).unwrap();
    replay.results()
}

const LIVE: SpaceSettings = SpaceSettings { pack: Some(Pack::Live(0.9)), fill: None, no_discard: false };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn copies_are_those_of_a_host_that_uses_freed_addresses_again(
        steps in prop::collection::vec((any::<u8>(), any::<u16>()), 200..500),
        filled in 0u64..1500,
    ) {
        let (batch, prefilled) = (trace(&steps), [Extent { lba: Lba(900), pages: filled }]);
        let prefilled = if filled > 0 { &prefilled[..] } else { &[] };
        let used = used(&batch, prefilled);
        let (dense, dense_prefill, addresses) = reused(&batch, prefilled, &used);
        prop_assert_eq!(used.peak_live, addresses, "the peak is what that host needs");
        let space = Space::new(LIVE, &used, prefilled, PAGES, None).unwrap();
        prop_assert_eq!(space.logical_pages, (addresses as f64 / 0.9).ceil() as u64);
        let pages = space.logical_pages;
        let thin = run(&space.change(batch), &space.prefill, |gc| space.on(&device(pages, gc)));
        let dense = run(&dense, &dense_prefill, |gc| device(pages, gc));
        for (thin, dense) in thin.iter().zip(&dense) {
            // Discards of pages without data do not reach the host that has no address for them.
            let counters = |lane: &LaneResult| {
                let mut counters = lane.counters.clone();
                counters.discarded_unmapped_pages = 0;
                counters
            };
            prop_assert_eq!(counters(thin), counters(dense), "{}", &thin.scheme);
            prop_assert_eq!(thin.live_pages, dense.live_pages);
        }
    }
}

#[test]
fn a_device_of_a_given_size_gets_static_data_behind_all_addresses() {
    let steps: Vec<(u8, u16)> = (0..400u16).map(|at| (at as u8, at.wrapping_mul(77))).collect();
    let batch = trace(&steps);
    let used = used(&batch, &[]);
    let addresses = used.written.pages();
    assert!(used.peak_live * 2 < addresses, "{} of {addresses}", used.peak_live);
    let space = Space::new(LIVE, &used, &[], PAGES, Some(2000)).unwrap();
    assert_eq!((space.logical_pages, space.static_pages), (2000, 1800 - used.peak_live));
    assert_eq!(space.prefill, [Extent { lba: Lba(addresses), pages: space.static_pages }]);
    assert_eq!(space.address_pages, (addresses + space.static_pages).max(2000));
    let results = run(&space.change(batch), &space.prefill, |gc| space.on(&device(2000, gc)));
    assert!(results[0].counters.gc_pages > 0);
    let small = Space::new(LIVE, &used, &[], PAGES, Some(used.peak_live)).unwrap_err();
    assert!(matches!(small, SpaceError::TooSmall { live: true, .. }), "{small}");
    assert!(small.to_string().contains("pages hold data at once"), "{small}");
}

/// As a trace is that is not the one that was surveyed.
#[test]
fn more_data_than_the_device_holds_is_refused() {
    let thin = DeviceSettings { namespace_pages: Some(4096), ..device(1024, GcDestination::Own) };
    let lanes = [LaneSpec::new(Arc::new(find("baseline").unwrap().configure()), thin)];
    let mut replay = Replay::new(&lanes, &[Extent { lba: Lba(2000), pages: 1020 }]).unwrap();
    let batch = |events| Batch { events, ..Batch::default() };
    let write = |lba| event(Op::Write, lba, 0);
    replay.feed(&batch((2000..2100).map(write).collect())).unwrap();
    replay.feed(&batch((4092..4096).map(write).collect())).unwrap();
    let full = replay.feed(&batch(vec![write(0)])).unwrap_err();
    assert!(matches!(full, ReplayError::Full { event: 104, live: 1025, logical_pages: 1024 }), "{full}");
    // Of a refused batch nothing is left: neither what it wrote nor what it discarded.
    let mixed = vec![event(Op::Discard, 2000, 0), write(0), write(1)];
    assert!(matches!(replay.feed(&batch(mixed)), Err(ReplayError::Full { event: 106, .. })));
    replay.feed(&batch(vec![event(Op::Discard, 2000, 0), write(0)])).unwrap();
    assert!(matches!(replay.feed(&batch(vec![write(2000)])), Err(ReplayError::Full { live: 1025, .. })));
    let prefill = [Extent { lba: Lba(0), pages: 1025 }];
    let full = Replay::new(&lanes, &prefill).err().expect("refused").to_string();
    assert!(full.contains("the device holds 1024 pages"), "{full}");
}
