//! What every registered scheme promises, over random events: placements cover the write, streams
//! exist, the same events give the same answers, and a learned state can be carried over. A scheme
//! that joins the registry is tested here without further ado.

use std::sync::Arc;

use pcstream_placement::manual::ManualParams;
use pcstream_placement::pcstream::PcStreamParams;
use pcstream_placement::{
    Environment, Future, Placement, Rules, Scheme, SchemeFactory as _, Stream, build, configure, names,
    schemes,
};
use pcstream_trace::{Context, ContextId, Event, File, FileId, Kind, Lba, Op, Signature, Tables, Unwind};
use proptest::prelude::*;

const PATHS: [&str; 6] = ["/db/000001.log", "/db/000002.sst", "/db/MANIFEST-1", "/a.o", "", "/x/CommitLog-1"];

fn tables() -> Tables {
    let mut tables = Tables::default();
    for id in 1..=6u32 {
        tables.push_context(Context {
            id: ContextId(id),
            // Two contexts share a signature.
            signature: Signature(u64::from(id.min(5)) << 40),
            executable: format!("class{id}"),
            comm: "rocksdb:high".to_owned(),
            unwind: if id % 2 == 0 { Unwind::Label } else { Unwind::Scan },
            ..Context::default()
        });
    }
    for (i, path) in PATHS.iter().enumerate() {
        tables.push_file(File { id: FileId(i as u32 + 1), path: (*path).to_owned(), ..File::default() });
    }
    tables
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let lba = prop_oneof![4 => 0u64..2000, 1 => 0u64..1 << 30, 1 => u64::MAX - 5000..u64::MAX - 2000];
    let pages = prop_oneof![6 => Just(1u32), 3 => 1u32..300, 1 => 300u32..2000];
    let op = prop_oneof![6 => Just(Op::Write), 2 => Just(Op::Discard), 1 => Just(Op::WriteZeroes)];
    let kind = prop_oneof![4 => Just(Kind::Data), 1 => prop::sample::select(Kind::ALL.to_vec())];
    // Ids beyond the tables must not hurt, though a replay refuses them.
    let event = (lba, pages, 0u32..8, 0u32..8, op, kind, 0u64..1 << 34).prop_map(
        |(lba, pages, context, file, op, kind, time_ns)| Event {
            time_ns,
            lba: Lba(lba),
            pages,
            context: ContextId(context),
            file: FileId(file),
            file_page: 0,
            op,
            kind,
            hint: Default::default(),
        },
    );
    prop::collection::vec(event, 1..120).prop_map(|mut events| {
        events.sort_by_key(|e| e.time_ns);
        // Half of the writes go back to an earlier address, or nothing would ever die.
        for i in (1..events.len()).step_by(2) {
            events[i].lba = events[i / 2].lba;
        }
        events
    })
}

/// As many as a device may have, few of them more often.
fn some_streams() -> impl Strategy<Value = u8> {
    prop_oneof![3 => 1u8..=16, 1 => 17u8..=128, 1 => Just(255)]
}

fn params(streams: u8, events: &[Event]) -> Environment {
    let mut environment = Environment::new(streams).expect("at least one");
    environment.superblock_pages = 64;
    environment.future = Some(Arc::new(Future::from_events(events).expect("short")));
    environment
}

/// Drives events as a replay does; `out` is cleared only where `clear` says so.
fn drive(
    scheme: &mut dyn Scheme,
    events: &[Event],
    tables: &Tables,
    clear: impl Fn(usize) -> bool,
) -> Vec<Placement> {
    let (mut now, mut all, mut out) = (0, Vec::new(), Vec::new());
    for (i, event) in events.iter().enumerate() {
        match event.op {
            Op::Write => {
                if clear(i) {
                    out.clear();
                }
                let before = out.clone();
                scheme.place(event, now, tables, &mut out);
                assert_eq!(out[..before.len()], before, "earlier placements are not touched");
                let placed: u64 = out[before.len()..].iter().map(|p| u64::from(p.pages)).sum();
                assert_eq!(placed, u64::from(event.pages), "placements cover the write");
                assert!(out[before.len()..].iter().all(|p| p.pages > 0));
                all.extend(&out[before.len()..]);
                now += u64::from(event.pages);
            }
            _ => scheme.discard(event, now, tables),
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn placements_cover_writes_streams_exist_and_repeat(events in events(), streams in some_streams()) {
        let tables = tables();
        let params = params(streams, &events);
        for name in names() {
            let mut first = build(name, &params).expect(name);
            let mut second = build(name, &params).expect(name);
            let placed = drive(first.as_mut(), &events, &tables, |_| true);
            prop_assert!(placed.iter().all(|p| p.stream.0 < streams), "{}: {:?}", name, placed);
            // The caller's buffer is its own affair.
            let again = drive(second.as_mut(), &events, &tables, |i| i % 7 == 0);
            prop_assert_eq!(&placed, &again, "{}", name);
            prop_assert_eq!(first.facts(), second.facts(), "{}", name);
            prop_assert_eq!(first.learned(), second.learned(), "{}", name);
        }
    }

    /// Table entries arrive in batches; whether later ones are already there must not matter.
    #[test]
    fn tables_that_grow_give_the_same_answers(events in events(), streams in 2u8..=9) {
        let full = tables();
        let params = params(streams, &events);
        // Only ids that are in the tables: a trace refers to nothing else.
        let events: Vec<Event> = events.into_iter()
            .filter(|e| e.context.0 <= 6 && e.file.0 <= PATHS.len() as u32).collect();
        for name in names() {
            let mut whole = build(name, &params).expect(name);
            let expected = drive(whole.as_mut(), &events, &full, |_| true);
            let mut growing = build(name, &params).expect(name);
            let (mut now, mut all, mut known) = (0, Vec::new(), Tables::default());
            for event in &events {
                while known.contexts().len() < event.context.0 as usize {
                    known.push_context(full.contexts()[known.contexts().len()].clone());
                }
                while known.files().len() < event.file.0 as usize {
                    known.push_file(full.files()[known.files().len()].clone());
                }
                if event.op == Op::Write {
                    growing.place(event, now, &known, &mut all);
                    now += u64::from(event.pages);
                } else {
                    growing.discard(event, now, &known);
                }
            }
            prop_assert_eq!(expected, all, "{}", name);
        }
    }

    #[test]
    fn what_was_learned_can_be_carried_over(events in events()) {
        let tables = tables();
        let params = params(9, &events);
        let mut first = build("pcstream", &params).expect("valid");
        drive(first.as_mut(), &events, &tables, |_| true);
        let saved = first.learned().expect("a table");
        let mut again = configure("pcstream").expect("known");
        again.params_mut::<PcStreamParams>().expect("pcstream's").saved_table = Some(saved.clone().into());
        let second = again.build(&params).expect("valid");
        prop_assert_eq!(second.learned(), Some(saved));
    }
}

#[test]
fn a_scheme_that_needs_the_future_is_the_only_kind_that_uses_it() {
    let events: Vec<Event> = (0..400u64)
        .map(|i| Event {
            time_ns: i,
            context: ContextId(1 + (i % 5) as u32),
            file: FileId(1 + (i % 3) as u32),
            op: if i % 11 == 0 { Op::Discard } else { Op::Write },
            ..Event::write(i * i % 97 * 64, 1 + (i % 90) as u32)
        })
        .collect();
    let tables = tables();
    let with = params(9, &events);
    let mut without = with.clone();
    without.future = None;
    for info in schemes() {
        if info.needs_future() {
            assert!(info.build(&without).is_err(), "{}", info.name);
            continue;
        }
        let run = |p: &Environment| drive(info.build(p).expect("valid").as_mut(), &events, &tables, |_| true);
        assert_eq!(run(&with), run(&without), "{}", info.name);
    }
}

#[test]
fn one_stream_is_the_default_stream() {
    let events =
        [Event { context: ContextId(2), file: FileId(1), kind: Kind::Journal, ..Event::write(0, 1000) }; 50];
    let params = params(1, &events);
    for name in names() {
        let placed = drive(build(name, &params).expect(name).as_mut(), &events, &tables(), |_| true);
        assert_eq!(placed, [Placement { pages: 1000, stream: Stream(0) }; 50], "{name}");
    }
}

/// Two contexts with different lifetimes end up in different streams, the shorter one first, under
/// `pcstream`; and labelled classes do under `manual` without any rules given.
#[test]
fn contexts_are_distinguished() {
    let mut tables = Tables::default();
    for (id, label) in [(1, "class0"), (2, "class1")] {
        tables.push_context(Context {
            id: ContextId(id),
            signature: Signature(u64::from(id)),
            executable: label.to_owned(),
            unwind: Unwind::Label,
            ..Context::default()
        });
    }
    // Context 1 rewrites eight chunks in turn; context 2 eighty others, a tenth as often.
    let events: Vec<Event> = (0..4000u64)
        .map(|i| {
            let cold = i % 2 == 1;
            let chunk = if cold { 100 + i / 2 % 80 } else { i / 2 % 8 };
            Event { time_ns: i, context: ContextId(1 + u32::from(cold)), ..Event::write(chunk * 256, 256) }
        })
        .collect();
    for name in ["pcstream", "pcstream-paper", "vstream-executable", "manual"] {
        let placed = drive(
            build(name, &Environment::new(9).expect("9 streams")).expect(name).as_mut(),
            &events,
            &tables,
            |_| true,
        );
        let last: Vec<u8> = placed[3000..].iter().map(|p| p.stream.0).collect();
        assert!(last.chunks(2).all(|s| s == [1, 2]), "{name}: {:?}", &last[..8]);
    }
    let facts = |name: &str| {
        let mut scheme = build(name, &Environment::new(9).expect("9 streams")).expect(name);
        drive(scheme.as_mut(), &events, &tables, |_| true);
        scheme.facts()
    };
    let of = |facts: &[(&str, u64)], name| facts.iter().find(|f| f.0 == name).map(|f| f.1);
    let pcstream = facts("pcstream");
    assert_eq!(of(&pcstream, "contexts_known"), Some(2));
    assert_eq!(of(&pcstream, "remapped_contexts"), Some(0));
    assert_eq!(of(&pcstream, "table_bytes"), Some(26));
    assert_eq!(of(&pcstream, "live_chunks"), Some(88 * 256));
}

#[test]
fn rules_given_replace_the_preset() {
    let mut manual = configure("manual").expect("known");
    manual.params_mut::<ManualParams>().expect("manual's").rules = Rules::parse("* -> 7").expect("valid");
    let event = Event { kind: Kind::Journal, ..Event::write(0, 1) };
    let placed = drive(
        manual.build(&Environment::new(9).expect("9 streams")).expect("valid").as_mut(),
        &[event],
        &tables(),
        |_| true,
    );
    assert_eq!(placed, [Placement { pages: 1, stream: Stream(7) }]);
}
