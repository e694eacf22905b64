//! A lane's numbers depend on the events and its own specification, and on nothing else: not on the
//! lanes beside it, the cut into batches, when table entries arrive, or the number of threads.

use std::collections::BTreeMap;
use std::sync::Arc;

use pcstream_placement::{Placement, Scheme, SchemeError, Stream, factory, find};
use pcstream_replay::{
    LaneResult, LaneSpec, Lifetimes, Quartiles, Replay, ReplayError, StreamResult, future_of,
};
use pcstream_ssd::analytic::{self, Class};
use pcstream_ssd::{DeviceSettings, GcDestination, OwnVictims, Select, Spare, Superblocks};
use pcstream_trace::generators::{Common, generate};
use pcstream_trace::{
    Batch, Context, ContextId, Event, Extent, File, FileId, Kind, Lba, Op, Signature, Tables,
};
use proptest::prelude::*;

const PAGES: u64 = 2048;

fn device(gc_destination: GcDestination) -> DeviceSettings {
    DeviceSettings {
        logical_pages: PAGES,
        spare: Spare::SpareFactor(0.4),
        superblock_pages: 32,
        streams: 9,
        gc_destination,
        ..DeviceSettings::default()
    }
}

fn every_lane(batches: &[Batch]) -> Vec<LaneSpec> {
    let future = Arc::new(future_of(batches).unwrap());
    let lane = |scheme: &str, destination| LaneSpec {
        future: Some(future.clone()),
        ..lane(scheme, device(destination))
    };
    pcstream_placement::names().flat_map(|s| GcDestination::ALL.map(|d| lane(s, d))).collect()
}

fn run(lanes: &[LaneSpec], prefill: &[Extent], batches: &[Batch]) -> Replay {
    let mut replay = Replay::new(lanes, prefill).unwrap();
    batches.iter().for_each(|batch| replay.feed(batch).unwrap());
    replay
}

/// Everything a lane measured but its speed.
fn numbers(lane: &LaneResult) -> String {
    let streams: Vec<(u8, u64, u64, u64, Option<Quartiles>)> = lane
        .streams
        .iter()
        .map(|s| {
            let lifetimes = s.lifetimes.as_ref().expect("kept");
            (s.stream.0, s.host_pages, s.gc_pages, lifetimes.ended_pages(), lifetimes.quartiles())
        })
        .collect();
    format!(
        "{} {} {:?} {:?} {:?} {} {:?} {:?} {:?} {:?} {:?}",
        lane.scheme,
        lane.settings.gc_destination,
        lane.geometry,
        lane.counters,
        lane.steady_start,
        lane.free_superblocks,
        lane.waf().map(f64::to_bits),
        lane.steady_waf().map(f64::to_bits),
        lane.facts,
        lane.stream_of_context,
        streams,
    )
}

fn all_numbers(replay: &Replay) -> Vec<String> {
    replay.results().iter().map(numbers).collect()
}

/// What is not asked for is not there, and nothing else differs.
#[test]
fn a_lane_without_lifetimes_has_none() {
    let seeds: Vec<(u8, u16, u8, u8)> =
        (0..400u16).map(|i| (i as u8, i.wrapping_mul(7919), i as u8, (i / 3) as u8)).collect();
    let batches = tables_first(&traffic(&seeds), &tables());
    let with = every_lane(&batches);
    let without: Vec<_> = with.iter().map(|lane| LaneSpec { lifetimes: false, ..lane.clone() }).collect();
    let (with, without) = (run(&with, &[], &batches).results(), run(&without, &[], &batches).results());
    let of = |stream: &StreamResult| {
        let internal = stream.internal.as_ref().map(|i| (i.pages, i.copied_again));
        (stream.host_pages, stream.gc_pages, internal)
    };
    for (with, without) in with.iter().zip(&without) {
        assert_eq!(with.counters, without.counters, "{}", with.scheme);
        assert_eq!((&with.facts, &with.stream_of_context), (&without.facts, &without.stream_of_context));
        assert!(with.streams.iter().map(of).eq(without.streams.iter().map(of)));
        let kept = |stream: &StreamResult| {
            stream.lifetimes.is_some() || stream.internal.as_ref().is_some_and(|i| i.lifetimes.is_some())
        };
        assert!(with.streams.iter().all(kept) && !without.streams.iter().any(kept));
    }
}

/// The same events in batches of the given lengths, over and over; each table entry comes with the
/// first batch that needs it.
fn cut(events: &[Event], lengths: &[usize], tables: &Tables) -> Vec<Batch> {
    let (mut contexts, mut files, mut rest) = (0, 0, events);
    let mut batches = Vec::new();
    let mut lengths = lengths.iter().cycle();
    while !rest.is_empty() {
        let length = (*lengths.next().expect("a cycle does not end")).min(rest.len());
        let (now, later) = rest.split_at(length);
        let contexts_end = now.iter().map(|e| e.context.0 as usize).fold(contexts, usize::max);
        let files_end = now.iter().map(|e| e.file.0 as usize).fold(files, usize::max);
        batches.push(Batch {
            contexts: tables.contexts()[contexts..contexts_end].to_vec(),
            files: tables.files()[files..files_end].to_vec(),
            events: now.to_vec(),
        });
        (contexts, files, rest) = (contexts_end, files_end, later);
    }
    batches
}

/// As a trace on disk is read: all entries first.
fn tables_first(events: &[Event], tables: &Tables) -> Vec<Batch> {
    vec![Batch {
        contexts: tables.contexts().to_vec(),
        files: tables.files().to_vec(),
        events: events.to_vec(),
    }]
}

fn tables() -> Tables {
    let mut tables = Tables::default();
    for id in 1..=7u32 {
        let executable = format!("/usr/bin/program{}", id % 3);
        let signature = Signature(u64::from(id) * 0x9e37_79b9);
        tables.push_context(Context { id: ContextId(id), signature, executable, ..Context::default() });
    }
    for id in 1..=9u32 {
        let path = format!("/dir/{id}.{}", ["log", "sst", "db"][id as usize % 3]);
        tables.push_file(File { id: FileId(id), inode: u64::from(id), generation: 0, path });
    }
    tables
}

/// Traffic with every operation and kind, long and short requests, some of it sequential.
fn traffic(seeds: &[(u8, u16, u8, u8)]) -> Vec<Event> {
    let mut end = 0;
    let event = |(time_ns, &(choice, place, length, who)): (u64, &(u8, u16, u8, u8))| {
        let op = match choice % 10 {
            0 => Op::Discard,
            1 => Op::WriteZeroes,
            2 => Op::Read,
            3 => Op::Flush,
            _ => Op::Write,
        };
        let pages = u32::from(length % 60) + 1;
        let wanted = if choice % 3 == 0 { end } else { u64::from(place) };
        let lba = wanted % (PAGES - u64::from(pages));
        end = lba + u64::from(pages);
        Event {
            time_ns,
            lba: Lba(lba),
            pages: if op == Op::Flush { 0 } else { pages },
            context: ContextId(u32::from(who % 8)),
            file: FileId(u32::from(who / 8 % 10)),
            file_page: lba,
            op,
            kind: Kind::ALL[usize::from(choice / 10 % 6)],
            hint: Default::default(),
        }
    };
    (0..).zip(seeds).map(event).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn results_depend_on_the_events_alone(
        seeds in prop::collection::vec(any::<(u8, u16, u8, u8)>(), 1..500),
        lengths in prop::collection::vec(1usize..90, 1..6),
        prefilled in 0..PAGES,
        threads in 1usize..9,
    ) {
        let (tables, events) = (tables(), traffic(&seeds));
        let whole = tables_first(&events, &tables);
        let lanes = every_lane(&whole);
        let prefill = if prefilled > 0 { vec![Extent { lba: Lba(0), pages: prefilled }] } else { Vec::new() };
        let first = run(&lanes, &prefill, &whole);
        let together = all_numbers(&first);
        prop_assert_eq!(&together, &all_numbers(&run(&lanes, &prefill, &whole)), "a second run");
        let live = run(&lanes, &prefill, &cut(&events, &lengths, &tables));
        prop_assert_eq!(&together, &all_numbers(&live), "cut into batches");
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let other = pool.install(|| all_numbers(&run(&lanes, &prefill, &whole)));
        prop_assert_eq!(&together, &other, "with {} threads", threads);
        prop_assert_eq!(first.writers().heaviest().len(), live.writers().heaviest().len());
        for (index, lane) in lanes.iter().enumerate().step_by(7) {
            let alone = run(std::slice::from_ref(lane), &prefill, &whole);
            prop_assert_eq!(&together[index..=index], &all_numbers(&alone)[..], "alone");
        }
    }

    /// Streams and contexts share out the same pages and the same ended lifetimes.
    #[test]
    fn the_parts_sum_to_the_whole(seeds in prop::collection::vec(any::<(u8, u16, u8, u8)>(), 1..400)) {
        let (tables, events) = (tables(), traffic(&seeds));
        let whole = tables_first(&events, &tables);
        let replay = run(&every_lane(&whole), &[], &whole);
        let totals = replay.writers().totals();
        let writers = replay.writers().heaviest();
        prop_assert_eq!(totals.host_pages, writers.iter().map(|(_, w)| w.pages()).sum::<u64>());
        let ended: u64 = writers.iter().map(|(_, w)| w.lifetimes.ended_pages()).sum();
        for lane in replay.results() {
            prop_assert_eq!(lane.host_pages(), totals.host_pages);
            prop_assert_eq!(lane.host_pages(), lane.streams.iter().map(|s| s.host_pages).sum::<u64>());
            let ended_of = |lifetimes: &Option<Lifetimes>| lifetimes.as_ref().expect("kept").ended_pages();
            let internal = |s: &StreamResult| s.internal.as_ref().map_or(0, |i| ended_of(&i.lifetimes));
            let in_streams = lane.streams.iter().map(|s| ended_of(&s.lifetimes) + internal(s));
            prop_assert_eq!(ended, in_streams.sum::<u64>());
            for stream in lane.streams.iter().filter_map(|s| s.internal.as_ref()) {
                prop_assert!(ended_of(&stream.lifetimes) <= stream.pages - stream.copied_again);
            }
            let copies: u64 = lane.streams.iter().map(|s| s.gc_pages).sum();
            prop_assert_eq!(lane.counters.gc_pages, copies + lane.counters.shared_gc_pages);
        }
    }
}

fn lane(scheme: &str, device: DeviceSettings) -> LaneSpec {
    LaneSpec::new(Arc::new(find(scheme).unwrap().configure()), device)
}

/// The oldest superblock, written without the crate's help.
#[derive(Default)]
struct Oldest(std::collections::VecDeque<u32>);

impl Select for Oldest {
    fn closed(&mut self, _: &mut Superblocks, superblock: u32, _: u16, _: u64) {
        self.0.push_back(superblock);
    }

    fn choose(&mut self, _: &Superblocks, _: u64) -> u32 {
        self.0.front().copied().unwrap_or(0)
    }

    fn removed(&mut self, _: &mut Superblocks, superblock: u32) {
        assert_eq!(self.0.pop_front(), Some(superblock));
    }
}

/// A victim policy from outside runs in a lane, beside a lane with the registered policy that does the same.
#[test]
fn a_lane_takes_a_victim_policy_of_ones_own() {
    let trace =
        generate("hotcold", Common { pages: PAGES, writes: 20 * PAGES, seed: 2 }, &BTreeMap::new()).unwrap();
    let prefill = trace.meta().prefilled.clone();
    let with =
        |victim: &str| DeviceSettings { victim: victim.parse().unwrap(), ..device(GcDestination::Internal) };
    let own = LaneSpec {
        victims: Some(OwnVictims::new("oldest", |_| Box::new(Oldest::default()))),
        // Its own policy stands in for one that would refuse these pools.
        ..lane("pcstream", DeviceSettings { pools: vec![1.0], ..with("pool-greedy") })
    };
    let lanes = [own, lane("pcstream", with("fifo")), lane("pcstream", with("greedy"))];
    let results = run(&lanes, &prefill, &trace.collect::<Vec<_>>()).results();
    assert_eq!(results[0].counters, results[1].counters);
    assert_ne!(results[0].counters, results[2].counters);
    let names: Vec<&str> = results.iter().map(|lane| lane.victims.as_str()).collect();
    assert_eq!(names, ["oldest", "fifo", "greedy"]);
}

/// Places every write as `place` says of its pages.
struct Wrong(fn(u32) -> Placement);

impl Scheme for Wrong {
    fn place(&mut self, event: &Event, _: u64, _: &Tables, out: &mut Vec<Placement>) {
        out.push((self.0)(event.pages));
    }
}

fn run_wrong(place: fn(u32) -> Placement) {
    let scheme = factory("mine", move |_| Ok(Box::new(Wrong(place))));
    let trace = generate("uniform", Common { pages: PAGES, writes: 1, seed: 2 }, &BTreeMap::new()).unwrap();
    run(&[LaneSpec::new(scheme, device(GcDestination::Own))], &[], &trace.collect::<Vec<_>>());
}

#[test]
#[should_panic(expected = "scheme mine placed 2 pages of the write of 1 pages at page ")]
fn a_scheme_that_places_too_much_is_named() {
    run_wrong(|pages| Placement { pages: pages + 1, stream: Stream::DEFAULT });
}

#[test]
#[should_panic(expected = ", but the device has streams 0 to 8: ")]
fn a_scheme_that_names_a_stream_too_many_is_refused_with_their_number() {
    run_wrong(|pages| Placement { pages, stream: Stream(9) });
}

/// Uniform random traffic, greedy victims, b = 64, Sf = 0.2: WAF 2.5993 (mean-field limit of
/// Van Houdt's d-choices; T leaves out the open superblock).
#[test]
fn uniform_traffic_meets_the_closed_form() {
    let data_superblocks = 1000u64;
    let pages = data_superblocks * 64;
    // One superblock is open and one is kept for GC: T counts neither.
    let superblocks = (data_superblocks as f64 / 0.8) as u32 + 2;
    let device = DeviceSettings {
        logical_pages: pages,
        spare: Spare::Superblocks(superblocks),
        superblock_pages: 64,
        streams: 1,
        gc_destination: GcDestination::Own,
        ..DeviceSettings::default()
    };
    let generated =
        generate("uniform", Common { pages, writes: 20 * pages, seed: 11 }, &BTreeMap::new()).unwrap();
    let prefill = generated.meta().prefilled.clone();
    let mut replay = Replay::new(&[lane("baseline", device)], &prefill).unwrap();
    generated.for_each(|batch| replay.feed(&batch).unwrap());
    let result = &replay.results()[0];
    let waf = result.steady_waf().unwrap();
    assert!((waf / 2.5993 - 1.0).abs() < 0.007, "{waf}");
    assert!(waf > result.waf().unwrap(), "a fresh device copies less");
    // Lifetimes are exponential with mean U, but those that the end of the trace (20 U) cuts off are
    // not among the ended: of lifetime l x U, a share of 1 - l/20 ends in time. The median m solves
    // e^-m (1 - (1 + m)/20) = 0.95/2.
    let median = result.streams[0].lifetimes.as_ref().unwrap().quartiles().unwrap().p50 as f64 / pages as f64;
    let above = (-median).exp() * (1.0 - (1.0 + median) / 20.0);
    assert!((above / 0.475 - 1.0).abs() < 0.005, "{median}");
}

/// Hot and cold pages that the scheme `manual` keeps apart by their contexts' labels, in pools that size
/// themselves: the optimum of separated greedy pools (field tables after Desnoyers, Hu and others).
#[test]
fn manual_on_hot_and_cold_traffic_meets_the_closed_form() {
    let superblock_pages = 64;
    for (hot_writes, hot_pages, spare_factor) in [(0.9, 0.1, 0.2), (0.8, 0.2, 0.125)] {
        let closed = 1000u32;
        let pages = ((1.0 - spare_factor) * f64::from(closed * superblock_pages)).round() as u64;
        let device = DeviceSettings {
            logical_pages: pages,
            // One superblock for GC, and one open for each of the three streams but that which closes.
            spare: Spare::Superblocks(closed + 1 + 2),
            superblock_pages,
            streams: 3,
            gc_destination: GcDestination::Own,
            victim: "pool-greedy".parse().unwrap(),
            ..DeviceSettings::default()
        };
        let options = [("hot-pages".to_owned(), hot_pages), ("hot-writes".to_owned(), hot_writes)]
            .into_iter()
            .collect();
        let generated = generate("hotcold", Common { pages, writes: 30 * pages, seed: 5 }, &options).unwrap();
        let prefill = generated.meta().prefilled.clone();
        let mut replay = Replay::new(&[lane("manual", device)], &prefill).unwrap();
        generated.for_each(|batch| replay.feed(&batch).unwrap());
        let waf = replay.results()[0].steady_waf().unwrap();
        let alpha = analytic::alpha_of_spare_factor(spare_factor);
        let classes = Class::hot_cold(hot_writes, hot_pages);
        let expected = analytic::greedy_separated(classes, alpha, superblock_pages).waf;
        assert!(
            (waf / expected - 1.0).abs() < 0.02,
            "{hot_writes}/{hot_pages}: {waf}, closed form {expected}"
        );
    }
}

/// An error leaves the replay where it was before the batch.
#[test]
fn a_bad_batch_is_refused_whole() {
    let mut replay = Replay::new(&[lane("baseline", device(GcDestination::Own))], &[]).unwrap();
    let batch = |events: Vec<Event>| Batch { events, ..Batch::default() };
    replay.feed(&batch(vec![Event::write(0, 5)])).unwrap();
    let refused = |replay: &mut Replay, bad: Event| {
        let error = replay.feed(&batch(vec![Event::write(7, 1), bad])).unwrap_err();
        assert_eq!(replay.results()[0].host_pages(), 5, "{error}");
        error
    };
    let beyond = refused(&mut replay, Event::write(PAGES - 1, 2));
    assert!(matches!(beyond, ReplayError::BeyondDevice { event: 2, lba: 2047, pages: 2, .. }), "{beyond}");
    let overflow = refused(&mut replay, Event::write(u64::MAX, 2));
    assert!(matches!(overflow, ReplayError::BeyondDevice { .. }), "{overflow}");
    let discard = refused(&mut replay, Event { op: Op::Discard, ..Event::write(PAGES, 1) });
    assert!(matches!(discard, ReplayError::BeyondDevice { op: "discard", .. }), "{discard}");
    assert!(matches!(refused(&mut replay, Event::write(3, 0)), ReplayError::NoPages { .. }));
    let context = refused(&mut replay, Event { context: ContextId(1), ..Event::write(3, 1) });
    assert!(matches!(context, ReplayError::UnknownContext { known: 0, .. }), "{context}");
    let file = refused(&mut replay, Event { file: FileId(4), ..Event::write(3, 1) });
    assert!(matches!(file, ReplayError::UnknownFile { file: 4, .. }), "{file}");
    let late = refused(&mut replay, Event { time_ns: u64::MAX, ..Event::write(3, 1) });
    assert!(matches!(late, ReplayError::TooLarge { event: 2, .. }), "{late}");
    let table = Batch { files: vec![File { id: FileId(2), ..File::default() }], ..Batch::default() };
    let order = replay.feed(&table).unwrap_err();
    assert!(matches!(order, ReplayError::TableOrder { found: 2, expected: 1, .. }), "{order}");
    replay.feed(&batch(vec![Event::write(PAGES - 1, 1)])).unwrap();
}

#[test]
fn what_cannot_be_set_up_is_refused() {
    let error = |lanes: &[LaneSpec], prefill: &[Extent]| Replay::new(lanes, prefill).err().expect("refused");
    let good = || lane("baseline", device(GcDestination::Own));
    assert!(matches!(error(&[], &[]), ReplayError::NoLanes));
    let mut sequential = find("sequential").unwrap().configure();
    sequential.set("candidates", "0").unwrap();
    let range = error(&[LaneSpec::new(Arc::new(sequential), device(GcDestination::Own))], &[]);
    assert!(range.to_string().contains("candidates is 0, but must be between 1 and 4096"), "{range}");
    let own = factory("mine", |environment| {
        let problem = format!("{} streams, expected at least 16", environment.streams());
        Err(SchemeError::Own { scheme: "mine".to_owned(), problem })
    });
    let own = error(&[LaneSpec::new(own, device(GcDestination::Own))], &[]);
    assert_eq!(own.to_string(), "scheme 'mine': 9 streams, expected at least 16");
    let oracle = error(&[lane("oracle", device(GcDestination::Own))], &[]);
    assert!(oracle.to_string().contains("future"), "{oracle}");
    let crowded = DeviceSettings { spare: Spare::SpareFactor(0.0), ..device(GcDestination::Own) };
    assert!(matches!(error(&[lane("baseline", crowded)], &[]), ReplayError::Device(_)));
    let empty = lane("baseline", DeviceSettings { logical_pages: 0, ..device(GcDestination::Own) });
    assert!(matches!(Replay::without_devices(&empty), Err(ReplayError::Device(_))));
    let larger = DeviceSettings { logical_pages: 2 * PAGES, ..device(GcDestination::Own) };
    let sizes = error(&[good(), lane("baseline", larger)], &[]);
    assert!(matches!(sizes, ReplayError::LogicalPages { first: 2048, other: 4096 }), "{sizes}");
    let extent = |lba, pages| Extent { lba: Lba(lba), pages };
    for prefill in [
        vec![extent(0, PAGES + 1)],
        vec![extent(u64::MAX, 2)],
        vec![extent(5, 0)],
        vec![extent(10, 10), extent(0, 11)],
    ] {
        assert!(matches!(error(&[good()], &prefill), ReplayError::Prefill { .. }), "{prefill:?}");
    }
    assert!(Replay::new(&[good()], &[extent(11, 10), extent(0, 11)]).is_ok());
}

/// A trace without writes has no WAF, and says so instead of dividing by zero.
#[test]
fn nothing_written_means_no_waf() {
    let mut replay = Replay::new(&[lane("baseline", device(GcDestination::Own))], &[]).unwrap();
    replay.feed(&Batch::default()).unwrap();
    let result = &replay.results()[0];
    assert_eq!((result.waf(), result.steady_waf(), result.default_stream_share()), (None, None, None));
}
