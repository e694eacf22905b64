//! What is written is what is read; what is not a valid trace is not written.
#![cfg(feature = "store")]

mod common;

use common::{DEVICE_PAGES, batches, join, read, small};
use pcstream_trace::store::EventFault;
use pcstream_trace::*;
use proptest::prelude::*;

/// A trace holds command lines and file names.
#[test]
fn only_the_owner_may_read_a_trace() {
    let mode = |path: &std::path::Path| {
        std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(path).unwrap()) & 0o777
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.pctrace");
    let mut writer = TraceWriter::create(&path, Meta::new("d", DEVICE_PAGES), false).unwrap();
    writer.write_batch(&small()).unwrap();
    writer.flush().unwrap();
    let check = |at: &std::path::Path| {
        assert_eq!(mode(at), 0o700);
        let entries: Vec<_> = std::fs::read_dir(at).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(entries.len() >= 4, "{entries:?}");
        entries.iter().for_each(|entry| assert_eq!(mode(entry), 0o600, "{entry:?}"));
    };
    check(&dir.path().join("t.pctrace.partial"));
    writer.finish(None).unwrap();
    check(&path);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Whatever the batches, the row groups and the flushes, the trace holds the same rows.
    #[test]
    fn any_trace_comes_back(batches in batches(), rows in 1..70usize, flushes in any::<u8>()) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.pctrace");
        let mut writer = TraceWriter::create(&path, Meta::new("d", DEVICE_PAGES), false).unwrap();
        writer.set_row_group_rows(rows);
        for (i, batch) in batches.iter().enumerate() {
            writer.write_batch(batch).unwrap();
            if flushes >> i & 1 == 1 {
                writer.flush().unwrap();
            }
        }
        let expected = join(batches);
        let mut totals = Totals::default();
        totals.add_batch(&expected);
        let mut digest = Digest::default();
        digest.update(&expected.events);

        let summary = writer.finish(None).unwrap();
        prop_assert_eq!(summary.meta.totals, totals);
        prop_assert_eq!(&summary.meta.trace_id, &digest.id());
        let reader = TraceReader::open(&path).unwrap();
        prop_assert_eq!(reader.meta(), &summary.meta);
        prop_assert_eq!(reader.damage(), None);
        let found = read(&reader).unwrap();
        prop_assert_eq!(reader.contexts(), &expected.contexts[..]);
        prop_assert_eq!(reader.files(), &expected.files[..]);
        prop_assert_eq!(found, expected);
        let names: Vec<_> = std::fs::read_dir(&path).unwrap().map(|e| e.unwrap().file_name()).collect();
        prop_assert_eq!(names.len(), 4, "{:?}", names);
        prop_assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}

fn writer(dir: &tempfile::TempDir) -> TraceWriter {
    TraceWriter::create(dir.path().join("t.pctrace"), Meta::new("d", 1000), false).unwrap()
}

#[test]
fn the_first_batch_of_an_empty_trace_is_empty() {
    let dir = tempfile::tempdir().unwrap();
    let summary = writer(&dir).finish(None).unwrap();
    let reader = TraceReader::open(summary.path).unwrap();
    let batches: Vec<_> = reader.batches().collect::<Result<_, _>>().unwrap();
    assert_eq!(batches, [Batch::default()]);
}

#[test]
fn symbols_replace_contexts_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = writer(&dir);
    writer.set_row_group_rows(1);
    writer.write_batch(&small()).unwrap();
    writer.flush().unwrap();
    let mut resolved = small().contexts;
    resolved[0].frames[0].symbol = "rocksdb::FlushJob::Run()".into();
    let path = writer.finish(Some(&resolved)).unwrap().path;
    let found = read(&TraceReader::open(path).unwrap()).unwrap();
    assert_eq!(found, Batch { contexts: resolved, ..small() });
}

#[test]
fn symbols_of_other_contexts_are_refused() {
    for change in [0, 1, 2] {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = writer(&dir);
        writer.write_batch(&small()).unwrap();
        let mut other = small().contexts;
        match change {
            0 => drop(other.pop()),
            1 => other[1].signature.0 += 1,
            _ => other.swap(0, 1),
        }
        let error = writer.finish(Some(&other)).unwrap_err();
        assert!(matches!(error, TraceError::Table { .. }), "{error}");
    }
}

/// Each rule for events, broken once, by the writer's side.
#[test]
fn bad_events_are_refused_whole() {
    type Break = fn(&mut Event);
    let cases: [(Break, EventFault); 10] = [
        (|e| e.time_ns = 99, EventFault::Time { previous: 100, found: 99 }),
        (|e| e.time_ns = u64::MAX, EventFault::TooLate(u64::MAX)),
        (|e| e.pages = 0, EventFault::NoPages("write")),
        (|e| e.op = Op::Flush, EventFault::Pages { op: "flush", pages: 2 }),
        (|e| e.op = Op::Exit, EventFault::Pages { op: "exit", pages: 2 }),
        (|e| e.lba = Lba(999), EventFault::BeyondDevice { lba: Lba(999), pages: 2, device_pages: 1000 }),
        (
            |e| e.lba = Lba(u64::MAX),
            EventFault::BeyondDevice { lba: Lba(u64::MAX), pages: 2, device_pages: 1000 },
        ),
        (|e| e.context = ContextId(1), EventFault::Context { found: 1, known: 0 }),
        (|e| e.file = FileId(1), EventFault::File { found: 1, known: 0 }),
        (|e| e.file_page = u64::MAX - 1, EventFault::FilePage { file_page: u64::MAX - 1, pages: 2 }),
    ];
    let good = Event { time_ns: 100, ..Event::write(1, 2) };
    for (spoil, expected) in cases {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = writer(&dir);
        let mut bad = good;
        spoil(&mut bad);
        let error = writer.write_batch(&Batch { events: vec![good, bad], ..Batch::default() }).unwrap_err();
        let TraceError::Event { row, fault, .. } = error else { panic!("{error}") };
        assert_eq!((row, fault), (1, expected));
        // Nothing of the bad batch stays.
        let summary = writer.finish(None).unwrap();
        assert_eq!(summary.meta.totals, Totals::default());
        assert_eq!(read(&TraceReader::open(summary.path).unwrap()).unwrap(), Batch::default());
    }
}

#[test]
fn table_ids_are_dense() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = writer(&dir);
    let Batch { contexts, files, .. } = small();
    let skipped_context = Batch { contexts: contexts[1..].to_vec(), ..Batch::default() };
    let skipped_file = Batch { files: files[1..].to_vec(), ..Batch::default() };
    for bad in [skipped_context, skipped_file] {
        let error = writer.write_batch(&bad).unwrap_err();
        assert!(matches!(error, TraceError::Table { row: 0, .. }), "{error}");
    }
}

/// What the writer takes, the reader takes.
#[test]
fn entries_that_no_reader_takes_are_refused() {
    let named = |bytes: usize| Context::label(ContextId(1), &"x".repeat(bytes));
    let framed = |frames, symbol: usize| {
        let frame = Frame { symbol: "x".repeat(symbol), ..Frame::default() };
        Context { frames: vec![frame; frames], ..named(1) }
    };
    let at = |bytes: usize| File { id: FileId(1), path: "x".repeat(bytes), ..File::default() };
    let contexts = |context| Batch { contexts: vec![context], ..Batch::default() };
    let files = |file| Batch { files: vec![file], ..Batch::default() };
    let most = 64 << 10;
    for batch in
        [contexts(named(most)), contexts(framed(4096, 1)), contexts(framed(1, most)), files(at(most))]
    {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = writer(&dir);
        writer.write_batch(&batch).unwrap();
        let path = writer.finish(None).unwrap().path;
        assert_eq!(read(&TraceReader::open(path).unwrap()).unwrap(), batch);
    }
    let (long, many) =
        ("a string of 65537 bytes, expected at most 65536", "4097 frames, expected at most 4096");
    for (batch, problem) in [
        (contexts(named(most + 1)), long),
        (contexts(framed(4097, 1)), many),
        (contexts(framed(1, most + 1)), long),
        (files(at(most + 1)), long),
    ] {
        let mut writer = writer(&tempfile::tempdir().unwrap());
        let error = writer.write_batch(&batch).unwrap_err().to_string();
        assert!(error.contains("row 0: ") && error.contains(problem), "{error}");
    }
    let dir = tempfile::tempdir().unwrap();
    let mut writer = writer(&dir);
    writer.write_batch(&contexts(named(1))).unwrap();
    let error = writer.finish(Some(&[framed(1, most + 1)])).unwrap_err().to_string();
    assert!(error.contains(long), "{error}");
}

#[test]
fn what_the_writer_sets_in_meta_nobody_else_does() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = writer(&dir);
    writer.write_batch(&small()).unwrap();
    let mut other = Meta::new("other", 2000);
    other.format_version.major += 1;
    other.complete = true;
    other.totals.events = 7;
    other.trace_id = "mine".to_owned();
    *writer.meta_mut() = other;
    writer.flush().unwrap();
    let on_disk = std::fs::read(dir.path().join("t.pctrace.partial/meta.json")).unwrap();
    let flushed: Meta = serde_json::from_slice(&on_disk).unwrap();
    assert_eq!((flushed.complete, flushed.trace_id.as_str()), (false, ""));
    let events = small().events;
    writer.write_batch(&Batch { events: events[events.len() - 1..].to_vec(), ..Batch::default() }).unwrap();
    let summary = writer.finish(None).unwrap();
    let reader = TraceReader::open(summary.path).unwrap();
    assert_eq!((reader.meta(), &*reader.meta().device.name), (&summary.meta, "other"));
    assert_eq!(read(&reader).unwrap().events.len(), events.len() + 1);
}

/// An importer learns the size of the device at the end.
#[test]
fn the_device_size_may_come_last_but_must_come() {
    let dir = tempfile::tempdir().unwrap();
    for (pages, good) in [(0, false), (907, false), (908, true)] {
        let path = dir.path().join(format!("{pages}.pctrace"));
        let mut writer = TraceWriter::create(&path, Meta::new("d", 0), false).unwrap();
        let mut batch = small();
        batch.events[7] = Event { lba: Lba(900), pages: 8, op: Op::Read, ..batch.events[7] };
        writer.write_batch(&batch).unwrap();
        writer.meta_mut().device.pages = pages;
        let result = writer.finish(None);
        assert_eq!(result.is_ok(), good, "{pages}: {result:?}");
    }
}

#[test]
fn prefilled_extents_are_checked() {
    let extent = |lba, pages| meta::Extent { lba: Lba(lba), pages };
    let bad = [
        vec![extent(0, 0)],
        vec![extent(999, 2)],
        vec![extent(u64::MAX, 2)],
        vec![extent(0, 10), extent(9, 1)],
        vec![extent(10, 1), extent(0, 1)],
    ];
    let dir = tempfile::tempdir().unwrap();
    for prefilled in bad {
        let mut meta = Meta::new("d", 1000);
        meta.prefilled = prefilled;
        let error = TraceWriter::create(dir.path().join("t.pctrace"), meta, false).unwrap_err();
        assert!(matches!(error, TraceError::Meta { .. }), "{error}");
    }
    let mut meta = Meta::new("d", 1000);
    meta.prefilled = vec![extent(0, 10), extent(10, 1), extent(999, 1)];
    assert_eq!(meta.check(), Ok(()));
}

#[test]
fn the_digest_ignores_how_events_are_cut() {
    let events = small().events;
    let mut whole = Digest::default();
    whole.update(&events);
    let mut cut = Digest::default();
    events.chunks(7).for_each(|chunk| cut.update(chunk));
    assert_eq!(whole.id(), cut.id());
    let mut other = Digest::default();
    other.update(&events[1..]);
    assert_ne!(whole.id(), other.id());
    let mut hinted = events.clone();
    hinted[100].hint = WriteHint { life: Life::Short, stream: 0 };
    let mut with_a_hint = Digest::default();
    with_a_hint.update(&hinted);
    assert_ne!(whole.id(), with_a_hint.id());
    // Renewed only with a new major version: ids name traces in results.
    assert_eq!(whole.id(), "51c095510f27890d");
}
