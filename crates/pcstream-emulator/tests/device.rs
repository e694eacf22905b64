//! The device without I/O: against a plain map, against the plain model, across power cuts, as an image.

use std::collections::{HashMap, VecDeque};

use pcstream_emulator::{DeviceError, DeviceOptions, EmulatedDevice, Loss, PAGE, PowerCut, image};
use pcstream_ssd::{DeviceSettings, GcDestination, LogicalPage, Spare, Ssd, StreamId};
use proptest::prelude::*;

const PAGES: u64 = 640;

fn settings() -> DeviceSettings {
    DeviceSettings {
        logical_pages: PAGES,
        spare: Spare::Superblocks(56),
        superblock_pages: 16,
        streams: 3,
        gc_destination: GcDestination::Internal,
        ..DeviceSettings::default()
    }
}

fn device(buffer_pages: usize, expects_streams: bool) -> EmulatedDevice {
    EmulatedDevice::new(&DeviceOptions { settings: settings(), buffer_pages, expects_streams })
        .expect("legal")
}

/// Contents that say which write of which page they are.
fn contents(first: u64, pages: u64, version: u64) -> Vec<u8> {
    let page = |page: u64| [page.to_le_bytes(), version.to_le_bytes()].concat().repeat(PAGE / 16);
    (first..first + pages).flat_map(page).collect()
}

fn read(device: &mut EmulatedDevice, page: u64) -> Vec<u8> {
    let mut out = vec![1; PAGE];
    device.read(LogicalPage(page), &mut out).expect("in range");
    out
}

#[derive(Clone, Debug)]
enum Step {
    Write { first: u64, pages: u64, stream: u8, assigned: Assigned },
    Discard { first: u64, pages: u64 },
    Flush,
    AssignAll,
}

#[derive(Clone, Copy, Debug)]
enum Assigned {
    Before,
    After,
    Later,
    Never,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let assigned = prop_oneof![
        Just(Assigned::Before),
        Just(Assigned::After),
        Just(Assigned::Later),
        Just(Assigned::Never)
    ];
    let range = (0..PAGES, 1u64..24).prop_map(|(first, pages)| (first, pages.min(PAGES - first)));
    let step = prop_oneof![
        8 => (range.clone(), 0u8..3, assigned)
            .prop_map(|((first, pages), stream, assigned)| Step::Write { first, pages, stream, assigned }),
        1 => range.prop_map(|(first, pages)| Step::Discard { first, pages }),
        1 => Just(Step::Flush),
        1 => Just(Step::AssignAll),
    ];
    prop::collection::vec(step, 1..400)
}

fn zeros() -> Vec<u8> {
    vec![0; PAGE]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Whatever the buffer, the streams and garbage collection do, a read returns what was written last.
    #[test]
    fn reads_return_what_was_written_last(steps in steps(), buffer in 1usize..64, expects in any::<bool>()) {
        let mut device = device(buffer, expects);
        let mut plain: HashMap<u64, Vec<u8>> = HashMap::new();
        let mut later = Vec::new();
        for (version, step) in (1..).zip(&steps) {
            match *step {
                Step::Write { first, pages, stream, assigned } => {
                    let (at, count, stream) = (LogicalPage(first), pages as u32, StreamId(stream));
                    if matches!(assigned, Assigned::Before) {
                        device.assign(at, count, stream).expect("in range");
                    }
                    let data = contents(first, pages, version);
                    device.write(at, &data).expect("in range");
                    plain.extend((first..).zip(data.chunks(PAGE).map(<[u8]>::to_vec)));
                    match assigned {
                        Assigned::After => drop(device.assign(at, count, stream).expect("in range")),
                        Assigned::Later => later.push((at, count, stream)),
                        _ => {}
                    }
                }
                Step::Discard { first, pages } => {
                    device.discard(LogicalPage(first), pages).expect("in range");
                    (first..first + pages).for_each(|page| drop(plain.remove(&page)));
                }
                Step::Flush => device.flush().expect("it has power"),
                Step::AssignAll => for (at, count, stream) in later.drain(..) {
                    device.assign(at, count, stream).expect("in range");
                },
            }
        }
        let empty = zeros();
        for settled in [false, true] {
            if settled {
                device.settle();
                prop_assert_eq!(device.status().buffered_pages, 0);
            }
            for page in 0..PAGES {
                prop_assert_eq!(&read(&mut device, page), plain.get(&page).unwrap_or(&empty), "page {}", page);
            }
        }
        device.ssd().verify().expect("sound");
    }

    /// Streams that come beside the data place as streams that come with it.
    #[test]
    fn counters_are_those_of_the_plain_model(
        writes in prop::collection::vec((0..PAGES, 1u64..24, 0u8..3), 1..600),
        lag in 1usize..40,
    ) {
        let mut device = device(2000, true);
        let mut plain = Ssd::new(&settings()).expect("legal");
        device.prefill(&[(LogicalPage(0), 600)]).expect("in range");
        plain.prefill(LogicalPage(0), 600).expect("in range");
        plain.start_counting();
        let mut assigned = 0;
        for (n, &(first, pages, stream)) in writes.iter().enumerate() {
            let (first, pages) = (LogicalPage(first), pages.min(PAGES - first));
            device.write(first, &contents(first.0, pages, n as u64)).expect("in range");
            plain.write(first, pages as u32, StreamId(stream)).expect("in range");
            while n + 1 - assigned > lag || (n + 1 == writes.len() && assigned <= n) {
                let (first, pages, stream) = writes[assigned];
                device.assign(LogicalPage(first), pages.min(PAGES - first) as u32, StreamId(stream)).expect("in range");
                assigned += 1;
            }
        }
        let status = device.status();
        prop_assert_eq!((status.buffered_pages, status.unassigned_pages), (0, 0));
        prop_assert_eq!(status.counters.host_pages, plain.counters().host_pages);
        // Runs of the buffer are cut and joined otherwise than requests: garbage is collected at the same pages.
        prop_assert_eq!(&status.counters.streams, &plain.counters().streams);
    }

    /// A page that is discarded while it waits for its stream counts once, whatever the flash and the buffer hold of it.
    #[test]
    fn discards_count_as_in_the_plain_model(
        steps in prop::collection::vec((prop::bool::weighted(0.3), 0..80u64, 1u64..24), 1..100),
        lag in 1usize..20,
    ) {
        let mut device = device(2000, true);
        let mut plain = Ssd::new(&settings()).expect("legal");
        let mut waiting = VecDeque::new();
        for (n, &(discards, first, pages)) in steps.iter().enumerate() {
            let at = LogicalPage(first);
            if discards {
                device.discard(at, pages).expect("in range");
                plain.discard(at, pages).expect("in range");
            } else {
                device.write(at, &contents(first, pages, n as u64)).expect("in range");
                plain.write(at, pages as u32, StreamId(1)).expect("in range");
                waiting.push_back((at, pages as u32));
            }
            while waiting.len() > lag || (n + 1 == steps.len() && !waiting.is_empty()) {
                let (at, pages) = waiting.pop_front().expect("not empty");
                device.assign(at, pages, StreamId(1)).expect("in range");
            }
        }
        let counters = device.status().counters;
        prop_assert_eq!(counters.discarded_pages, plain.counters().discarded_pages);
        for page in (0..PAGES).map(LogicalPage) {
            prop_assert_eq!(device.ssd().locate(page).is_some(), plain.locate(page).is_some(), "page {}", page);
        }
    }

    /// After a power cut every page has a content that it may have: that of the last flush or a later one.
    #[test]
    fn a_power_cut_loses_nothing_that_was_flushed(
        steps in prop::collection::vec((0..PAGES, 1u64..24, prop::bool::weighted(0.1)), 1..200),
        after_pages in 0u64..1500,
        seed in any::<u64>(),
        loss in prop_oneof![Just(None), Just(Some(false)), Just(Some(true))],
        expects in any::<bool>(),
    ) {
        let loss = match loss {
            None => Loss::Nothing,
            Some(false) => Loss::All,
            Some(true) => Loss::Half(seed),
        };
        let mut device = device(32, expects);
        device.prefill(&[(LogicalPage(0), 300)]).expect("in range");
        device.plan_power_cut(PowerCut { after_pages, loss });
        let mut may: HashMap<u64, Vec<Vec<u8>>> = (0..PAGES).map(|page| (page, vec![zeros()])).collect();
        let mut written = 0;
        for (version, &(first, pages, flush)) in (1..).zip(&steps) {
            let pages = pages.min(PAGES - first);
            let data = contents(first, pages, version);
            let result = device.write(LogicalPage(first), &data);
            for (page, data) in (first..).zip(data.chunks(PAGE)).take((after_pages - written) as usize) {
                may.get_mut(&page).expect("all pages").push(data.to_vec());
            }
            if let Err(error) = result {
                prop_assert_eq!(error, DeviceError::PowerOff);
                prop_assert_eq!(device.flush(), Err(DeviceError::PowerOff));
                break;
            }
            written += pages;
            if flush {
                device.flush().expect("it has power");
                may.values_mut().for_each(|versions| drop(versions.drain(..versions.len() - 1)));
            }
        }
        prop_assert_eq!(device.has_power(), written <= after_pages && device.status().power_cuts == 0);
        device.power_on();
        for page in 0..PAGES {
            let found = read(&mut device, page);
            let versions = &may[&page];
            prop_assert!(versions.contains(&found), "page {} is none of its {} versions", page, versions.len());
            if loss == Loss::Nothing {
                prop_assert_eq!(Some(&found), versions.last(), "page {}", page);
            }
        }
        device.ssd().verify().expect("sound");
    }
}

/// A prefill keeps what its pages hold, drops the others, and leaves the flash as the plain model's.
#[test]
fn a_prefill_leaves_the_flash_as_a_simulation_does() {
    let mut device = device(8, false);
    for version in 0..9 {
        device.write(LogicalPage(40 * version), &contents(40 * version, 60, version)).expect("in range");
    }
    let held: Vec<_> = (0..PAGES).map(|page| read(&mut device, page)).collect();
    let extents = [(LogicalPage(300), 200), (LogicalPage(0), 250), (LogicalPage(600), 3)];
    device.prefill(&extents).expect("in range");
    let mut plain = Ssd::new(&settings()).expect("legal");
    extents.iter().for_each(|&(first, pages)| plain.prefill(first, pages).expect("in range"));
    plain.start_counting();
    for page in (0..PAGES).map(LogicalPage) {
        assert_eq!(device.ssd().locate(page), plain.locate(page), "page {page}");
        let kept = extents.iter().any(|&(first, pages)| (first.0..first.0 + pages).contains(&page.0));
        let expected = if kept { held[page.0 as usize].clone() } else { zeros() };
        assert_eq!(read(&mut device, page.0), expected, "page {page}");
    }
    assert_eq!(&device.status().counters, plain.counters());
    assert!(device.prefill(&[(LogicalPage(PAGES), 1)]).is_err());
    device.ssd().verify().expect("sound");
}

#[test]
fn requests_that_cannot_be_are_refused_unchanged() {
    let mut device = device(8, true);
    let before = device.status();
    assert!(matches!(device.write(LogicalPage(PAGES), &[0; PAGE]), Err(DeviceError::OutOfRange { .. })));
    assert!(matches!(device.write(LogicalPage(0), &[0; 100]), Err(DeviceError::OutOfRange { .. })));
    assert!(matches!(device.discard(LogicalPage(1), u64::MAX), Err(DeviceError::OutOfRange { .. })));
    assert!(matches!(device.assign(LogicalPage(1), 1, StreamId(3)), Err(DeviceError::NoSuchStream { .. })));
    assert_eq!(device.status(), before);
}

#[test]
fn an_image_brings_everything_back_or_is_refused() {
    let mut first = device(8, false);
    first.write(LogicalPage(3), &contents(3, 20, 1)).expect("in range");
    first.write(LogicalPage(600), &contents(600, 2, 2)).expect("in range");
    let mut bytes = Vec::new();
    image::save(&first, &mut bytes).expect("memory takes it");
    let load = |bytes: &[u8]| {
        let mut second = device(8, false);
        image::load(&mut second, &mut &bytes[..]).map(|()| second)
    };
    let mut second = load(&bytes).expect("just saved");
    assert_eq!(second.status().counters.host_pages, 0, "loading is not counted");
    for page in 0..PAGES {
        assert_eq!(read(&mut first, page), read(&mut second, page), "page {page}");
    }
    for at in [0, 9, 16, 24, 40, 4000, bytes.len() - 20, bytes.len() - 1] {
        let mut bad = bytes.clone();
        bad[at] ^= 0x10;
        assert!(load(&bad).is_err(), "byte {at}");
        let said = load(&bytes[..at]).err().expect("it is cut").to_string();
        assert!(said.contains(if at < 8 { "does not begin with" } else { "cut off" }), "{at}: {said}");
    }
    let said = load(&[&bytes[..], &bytes].concat()).err().expect("two images").to_string();
    assert!(said.contains("goes on after its end"), "{said}");
    let of_another_size = |pages: u64| {
        let mut other = bytes.clone();
        other[8..16].copy_from_slice(&pages.to_le_bytes());
        load(&other).err().expect("of another size").to_string()
    };
    assert!(of_another_size(PAGES + 1).contains(&format!("use --size {}", (PAGES + 1) * 4096)));
    for pages in [0, u64::MAX, u64::MAX / 4096] {
        let said = of_another_size(pages);
        assert!(said.contains("damaged") && !said.contains("--size"), "{said}");
    }
}
