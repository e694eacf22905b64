//! A recorder that dies leaves a readable trace; a writer never destroys what is not its own.
#![cfg(feature = "store")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{DEVICE_PAGES, batches, join, read, small};
use pcstream_trace::store::PARTIAL_SUFFIX;
use pcstream_trace::*;
use proptest::prelude::*;

fn partial(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(PARTIAL_SUFFIX);
    name.into()
}

/// Names of the segments of a table, in order.
fn segments(dir: &Path, table: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    found.retain(|p| p.file_name().unwrap().to_str().unwrap().starts_with(table));
    found.sort();
    found
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Dropping the writer is what a kill does to the files: everything flushed is there, and what
    /// follows it is a prefix of what was written.
    #[test]
    fn what_was_flushed_survives(batches in batches(), rows in 1..70usize, flushed in 0..6usize) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.pctrace");
        let mut writer = TraceWriter::create(&path, Meta::new("d", DEVICE_PAGES), false).unwrap();
        writer.set_row_group_rows(rows);
        writer.meta_mut().losses.insert("events".to_owned(), 3);
        for (i, batch) in batches.iter().enumerate() {
            writer.write_batch(batch).unwrap();
            if i + 1 == flushed {
                writer.flush().unwrap();
            }
        }
        drop(writer);
        let at_least = if flushed <= batches.len() { join(batches[..flushed].to_vec()) } else { Batch::default() };
        let written = join(batches.clone());
        for name in [path.clone(), partial(&path)] {
            let reader = TraceReader::open(&name).unwrap();
            prop_assert!(!reader.meta().complete);
            prop_assert!(reader.damage().is_some());
            let found = read(&reader).unwrap();
            prop_assert!(found.events.len() >= at_least.events.len());
            prop_assert!(found.contexts.len() >= at_least.contexts.len());
            prop_assert!(found.files.len() >= at_least.files.len());
            prop_assert!(written.events.starts_with(&found.events));
            prop_assert!(written.contexts.starts_with(&found.contexts));
            prop_assert!(written.files.starts_with(&found.files));
            let mut totals = Totals::default();
            totals.add_batch(&found);
            prop_assert_eq!(reader.meta().totals, totals);
            if 0 < flushed && flushed <= batches.len() {
                prop_assert_eq!(reader.meta().losses["events"], 3);
            }
        }
    }
}

/// Leaves a partial trace of 200 events in segments of `rows`.
fn killed(dir: &Path, rows: usize) -> PathBuf {
    let path = dir.join("t.pctrace");
    let mut writer = TraceWriter::create(&path, Meta::new("d", 1000), false).unwrap();
    writer.set_row_group_rows(rows);
    writer.write_batch(&small()).unwrap();
    writer.flush().unwrap();
    path
}

#[test]
fn a_torn_or_missing_segment_ends_the_trace() {
    for (victim, events) in [(0, 0), (1, 60), (3, 180)] {
        for torn in [true, false] {
            let dir = tempfile::tempdir().unwrap();
            let path = killed(dir.path(), 60);
            let segment = &segments(&partial(&path), "events")[victim];
            if torn {
                let bytes = fs::read(segment).unwrap();
                fs::write(segment, &bytes[..bytes.len() / 2]).unwrap();
            } else {
                fs::remove_file(segment).unwrap();
            }
            let reader = TraceReader::open(&path).unwrap();
            assert_eq!(read(&reader).unwrap().events, small().events[..events]);
            // The last segment's absence cannot be seen.
            let reported = reader.damage().unwrap().contains("events");
            assert_eq!(reported, torn || victim < 3, "{:?}", reader.damage());
        }
    }
}

/// Contexts are missing that later events refer to: the events before are good.
#[test]
fn events_without_their_context_end_the_trace() {
    let dir = tempfile::tempdir().unwrap();
    let path = killed(dir.path(), 1);
    fs::remove_file(&segments(&partial(&path), "contexts")[1]).unwrap();
    let reader = TraceReader::open(&path).unwrap();
    // Event 2 is the first with context 2.
    assert_eq!(read(&reader).unwrap().events, small().events[..2]);
    assert_eq!(reader.meta().totals.events, 2);
    assert!(reader.damage().unwrap().contains("event 2: context 2"), "{:?}", reader.damage());
}

/// Its size is stored before what lies beyond the old one.
#[test]
fn a_device_may_grow() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.pctrace");
    let end = |event: &Event| event.lba.0 + u64::from(event.pages);
    let highest = small().events.iter().map(end).max().unwrap();
    let mut writer = TraceWriter::create(&path, Meta::new("d", highest - 1), false).unwrap();
    let refused = writer.write_batch(&small()).unwrap_err().to_string();
    assert!(refused.contains("expected to end within the device"), "{refused}");
    writer.meta_mut().device.pages = highest;
    writer.flush().unwrap();
    writer.write_batch(&small()).unwrap();
    writer.flush().unwrap();
    drop(writer);
    let reader = TraceReader::open(&path).unwrap();
    assert_eq!(reader.meta().device.pages, highest);
    assert_eq!(read(&reader).unwrap().events, small().events);
}

/// A segment that changed on the disk gets no new checksum, by which it would look whole.
#[test]
fn a_damaged_segment_is_not_joined() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.pctrace");
    let mut writer = TraceWriter::create(&path, Meta::new("d", 1000), false).unwrap();
    writer.set_row_group_rows(60);
    writer.write_batch(&small()).unwrap();
    let segment = &segments(&partial(&path), "events")[1];
    let mut bytes = fs::read(segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(segment, bytes).unwrap();
    let refused = writer.finish(None).unwrap_err().to_string();
    assert!(refused.starts_with(&segment.display().to_string()), "{refused}");
    assert!(refused.contains("the bytes have changed since they were written"), "{refused}");
}

#[test]
fn a_longer_version_of_a_segment_wins() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.pctrace");
    let mut writer = TraceWriter::create(&path, Meta::new("d", 1000), false).unwrap();
    let mut batch = small();
    let rest = batch.events.split_off(50);
    writer.write_batch(&batch).unwrap();
    writer.flush().unwrap();
    let short = segments(&partial(&path), "events").remove(0);
    let bytes = fs::read(&short).unwrap();
    writer.write_batch(&Batch { events: rest, ..Batch::default() }).unwrap();
    writer.flush().unwrap();
    assert!(!short.exists());
    drop(writer);
    fs::write(&short, bytes).unwrap();
    assert_eq!(segments(&partial(&path), "events").len(), 2);
    assert_eq!(read(&TraceReader::open(&path).unwrap()).unwrap(), small());
}

/// A full segment that cannot be written stays, and the next row comes on top of it.
#[test]
fn a_writer_whose_segments_cannot_be_written_says_so_each_time() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.pctrace");
    let mut writer = TraceWriter::create(&path, Meta::new("d", 1000), false).unwrap();
    writer.set_row_group_rows(1);
    fs::remove_dir_all(partial(&path)).unwrap();
    for id in 1..=3 {
        let context = Context { id: ContextId(id), ..Context::default() };
        let refused = writer.write_batch(&Batch { contexts: vec![context], ..Batch::default() });
        assert!(matches!(refused.unwrap_err(), TraceError::Io { .. }));
    }
}

#[test]
fn flushing_without_news_writes_no_table() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.pctrace");
    let mut writer = TraceWriter::create(&path, Meta::new("d", 1000), false).unwrap();
    writer.write_batch(&small()).unwrap();
    writer.flush().unwrap();
    let before = segments(&partial(&path), "");
    let age = |p: &PathBuf| fs::metadata(p).unwrap().modified().unwrap();
    let ages: Vec<_> = before.iter().filter(|p| p.extension().unwrap() == "parquet").map(age).collect();
    writer.flush().unwrap();
    let after: Vec<_> = before.iter().filter(|p| p.extension().unwrap() == "parquet").map(age).collect();
    assert_eq!(ages, after);
    assert_eq!(ages.len(), 3);
}

#[test]
fn a_recording_in_progress_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.pctrace");
    let mut writer = TraceWriter::create(&path, Meta::new("d", 1000), false).unwrap();
    writer.write_batch(&small()).unwrap();
    writer.flush().unwrap();
    let error = TraceReader::open(&path).unwrap_err();
    assert!(matches!(error, TraceError::InUse(_)), "{error}");
    let error = TraceWriter::create(&path, Meta::new("d", 1000), true).unwrap_err();
    assert!(matches!(error, TraceError::InUse(_)), "{error}");
    writer.finish(None).unwrap();
    assert_eq!(read(&TraceReader::open(&path).unwrap()).unwrap(), small());
}

#[test]
fn existing_traces_are_replaced_only_on_request() {
    let dir = tempfile::tempdir().unwrap();
    let path = killed(dir.path(), 60);
    let create = |overwrite| TraceWriter::create(&path, Meta::new("new", 1000), overwrite);
    // A partial trace counts as an existing one.
    assert!(matches!(create(false).unwrap_err(), TraceError::Exists(p) if p == partial(&path)));
    create(true).unwrap().finish(None).unwrap();
    assert!(matches!(create(false).unwrap_err(), TraceError::Exists(p) if p == path));
    let mut writer = create(true).unwrap();
    writer.write_batch(&small()).unwrap();
    // Until the new trace is finished the old one stays.
    assert_eq!(TraceReader::open(&path).unwrap().meta().totals.events, 0);
    writer.finish(None).unwrap();
    assert_eq!(TraceReader::open(&path).unwrap().meta().totals.events, 200);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

/// A process may end before it gives a trace its name.
#[test]
fn a_complete_trace_that_lacks_its_name_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.pctrace");
    let create = || TraceWriter::create(&path, Meta::new("new", 1000), true);
    let mut writer = create().unwrap();
    writer.write_batch(&small()).unwrap();
    writer.finish(None).unwrap();
    fs::rename(&path, partial(&path)).unwrap();
    let refused = create().unwrap_err();
    assert!(matches!(&refused, TraceError::Unnamed(at) if *at == partial(&path)), "{refused}");
    assert_eq!(TraceReader::open(&path).unwrap().meta().totals.events, 200);
}

#[test]
fn what_is_not_a_trace_is_never_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.pctrace");
    let create = || TraceWriter::create(&path, Meta::new("d", 1000), true).unwrap_err();
    fs::write(&path, "precious").unwrap();
    assert!(matches!(create(), TraceError::NotATrace { .. }));
    assert_eq!(fs::read(&path).unwrap(), b"precious");
    fs::remove_file(&path).unwrap();

    for (meta, other) in [(true, "notes.txt"), (true, "events.parquet.bak"), (false, "events.parquet")] {
        fs::create_dir(&path).unwrap();
        fs::write(path.join(other), "precious").unwrap();
        if meta {
            fs::write(path.join("meta.json"), "{}").unwrap();
        }
        assert!(matches!(create(), TraceError::NotATrace { .. }), "{other}");
        assert_eq!(fs::read(path.join(other)).unwrap(), b"precious");
        fs::remove_dir_all(&path).unwrap();
    }
    // A symbolic link is not followed.
    let elsewhere = dir.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
    assert!(matches!(create(), TraceError::NotATrace { .. }));
    assert!(elsewhere.exists());
}

#[test]
fn an_abandoned_trace_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.pctrace");
    let mut writer = TraceWriter::create(&path, Meta::new("d", 1000), false).unwrap();
    writer.write_batch(&small()).unwrap();
    writer.flush().unwrap();
    writer.abandon().unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}
