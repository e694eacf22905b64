//! Merged traces: times in order, addresses side by side, call paths joined, losses kept.
#![cfg(feature = "store")]

mod common;

use std::path::Path;

use common::{read, small};
use pcstream_trace::store::Merged;
use pcstream_trace::*;

fn write(dir: &Path, name: &str, batch: &Batch, lost: u64) -> TraceReader {
    let mut meta = Meta::new("d", 1000);
    meta.prefilled = vec![Extent { lba: Lba(5), pages: 10 }];
    meta.losses.insert("missed_events".into(), lost);
    let mut writer = TraceWriter::create(dir.join(name), meta, false).unwrap();
    writer.write_batch(batch).unwrap();
    TraceReader::open(writer.finish(None).unwrap().path).unwrap()
}

#[test]
fn a_trace_may_begin_later() {
    let dir = tempfile::tempdir().unwrap();
    let readers = ["a", "b", "c"].map(|name| write(dir.path(), name, &small(), 0));
    let merged = Merged::new(&readers, &[0, 1_000_000]).unwrap();
    let origins = merged.meta().settings["merged"].clone();
    assert_eq!([0, 1, 2].map(|at| origins[at]["offset_ns"].as_u64()), [Some(0), Some(1_000_000), Some(0)]);
    let events: Vec<Event> = merged.flat_map(|batch| batch.unwrap().events).collect();
    assert!(events.is_sorted_by_key(|event| event.time_ns));
    let of = |device: u64| events.iter().filter(move |event| event.lba.0 / 1000 == device);
    let times = |device: u64| of(device).map(|event| event.time_ns).collect::<Vec<_>>();
    assert_eq!(times(0), small().events.iter().map(|event| event.time_ns).collect::<Vec<_>>());
    assert_eq!(times(1), times(0).iter().map(|time| time + 1_000_000).collect::<Vec<_>>());
    assert_eq!(times(2), times(0));
    let error = Merged::new(&readers, &[u64::MAX]).map(drop).unwrap_err().to_string();
    assert!(error.contains("a: ") || error.contains("a/"), "{error}");
    assert!(error.contains("duration_ns"), "{error}");
}

#[test]
fn losses_of_any_size_stay_losses() {
    let dir = tempfile::tempdir().unwrap();
    let readers = [("a", u64::MAX), ("b", 3)].map(|(name, lost)| write(dir.path(), name, &small(), lost));
    assert_eq!(Merged::new(&readers, &[]).unwrap().meta().losses["missed_events"], u64::MAX);
}

#[test]
fn two_traces_become_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut other = small();
    // One call path of its own; events half a step later; one more at the end.
    other.contexts[1].signature = Signature(77);
    other.events.iter_mut().for_each(|event| event.time_ns += 500);
    let (a, b) = (write(dir.path(), "a", &small(), 2), write(dir.path(), "b", &other, 3));
    let merged = Merged::new(&[a, b], &[]).unwrap();
    let mut writer = TraceWriter::create(dir.path().join("m"), merged.meta().clone(), false).unwrap();
    merged.for_each(|batch| writer.write_batch(&batch.unwrap()).unwrap());
    let reader = TraceReader::open(writer.finish(None).unwrap().path).unwrap();
    let (meta, all) = (reader.meta(), read(&reader).unwrap());

    assert_eq!(meta.device.pages, 2000);
    assert_eq!(meta.prefilled, [5, 1005].map(|lba| Extent { lba: Lba(lba), pages: 10 }));
    assert_eq!((meta.losses["missed_events"], meta.losses["unfinished_traces"]), (5, 0));
    assert_eq!(meta.settings["merged"][1]["first_page"], 1000);
    assert_eq!((all.contexts.len(), all.files.len(), all.events.len()), (3, 6, 400));
    assert_eq!(all.contexts[2].signature, Signature(77));
    assert!(all.events.windows(2).all(|pair| pair[0].time_ns <= pair[1].time_ns));
    // Undone, the second half is the second trace.
    let mut second: Vec<Event> = all.events.into_iter().filter(|e| e.time_ns % 1000 == 500).collect();
    for event in &mut second {
        event.lba.0 -= 1000;
        event.file.0 -= if event.file.is_some() { 3 } else { 0 };
        event.context.0 = [0, 1, 1, 2][event.context.0 as usize];
    }
    assert_eq!(second, other.events);
}
