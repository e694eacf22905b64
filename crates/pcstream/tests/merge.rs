//! `merge` as scripts see it: which trace begins later.

mod common;

use std::fs;
use std::path::Path;

use common::{Place, ends_with, json, refuses};
use pcstream_trace::*;

#[test]
fn a_trace_begins_later_by_its_offset() {
    let place = Place::new();
    let generated = |name: &str| {
        let path = place.path(name);
        ends_with(0, &["generate", "uniform", "--pages", "1K", "--writes", "1K", "-o", &path]);
        path
    };
    let (a, b, merged) = (generated("a.pctrace"), generated("b.pctrace"), place.path("m.pctrace"));
    let seconds = |traces: &[&str], offsets: &[&str]| {
        let flags = offsets.iter().flat_map(|offset| ["--offset", offset]);
        let words =
            ["merge", "--force", "-o", &merged].into_iter().chain(traces.iter().copied()).chain(flags);
        ends_with(0, &words.collect::<Vec<_>>());
        let meta = fs::read_to_string(format!("{merged}/meta.json")).unwrap();
        let meta: serde_json::Value = serde_json::from_str(&meta).unwrap();
        meta["totals"]["duration_ns"].as_f64().expect("a number") / 1e9
    };
    let together = seconds(&[&a, &b], &[]);
    for offset in ["b=10s", "b.pctrace=10000ms", "2=10", &format!("{b}=10s")] {
        let later = seconds(&[&a, &b], &[offset]);
        assert!((later - together - 10.0).abs() < 1e-6, "{offset}: {later} s, together {together} s");
    }
    // A trace beside itself is named by its number.
    assert!(seconds(&[&a, &a], &["2=1m"]) > 60.0);
    refuses(
        2,
        &["merge", &a, &b, "-o", &merged, "--force", "--by-start"],
        &["a.pctrace does not say when", "--offset"],
    );
    let output = place.path("r.pctrace");
    let too_late = ["merge", &a, &b, "--offset", "2=1500000h", "-o", &output];
    refuses(
        1,
        &too_late,
        &["b.pctrace", "with its offset it ends behind", "146 years; expected a smaller offset"],
    );
    assert!(!fs::exists(&output).unwrap(), "nothing is written");
    let refused = |traces: [&str; 2], offsets: &[&str], words: &[&str]| {
        let mut command = vec!["merge", traces[0], traces[1], "-o", &output];
        offsets.iter().for_each(|offset| command.extend(["--offset", offset]));
        refuses(2, &command, words);
    };
    refused([&a, &b], &["c=1s"], &["--offset c: no such trace", "b.pctrace", "number from 1 to 2"]);
    refused([&a, &a], &["a=1s"], &["--offset a: this is more than one of the traces"]);
    refused([&a, &b], &["a=1s", "1=2s"], &["--offset 1: this trace has an offset already"]);
    refused([&a, &b], &["10s"], &["--offset", "expected TRACE=TIME, such as b=10s"]);
    refused([&a, &b], &["b=soon"], &["--offset", "such as 60s"]);
}

/// Recordings of one time lie as they were made: this one began two minutes after the other.
#[test]
fn recordings_begin_as_they_were_started() {
    let place = Place::new();
    let recorded = |name: &str, start: u64, exact: Option<u64>| {
        let path = place.path(name);
        let meta = Meta { created_unix_s: Some(start), start_unix_ns: exact, ..Meta::new("", 16) };
        let mut writer = TraceWriter::create(Path::new(&path), meta, false).unwrap();
        let event = Event { time_ns: 5_000_000_000, ..Event::write(0, 1) };
        writer.write_batch(&Batch { events: vec![event], ..Batch::default() }).unwrap();
        writer.finish(None).unwrap();
        path
    };
    let late = recorded("late.pctrace", 1_700_000_120, None);
    let early = recorded("early.pctrace", 1_700_000_000, Some(1_700_000_000_900_000_000));
    let exact = recorded("exact.pctrace", 1_700_000_120, Some(1_700_000_120_100_000_000));
    let merged = place.path("m.pctrace");
    let times = |traces: [&str; 2]| -> Vec<u64> {
        ends_with(0, &["merge", traces[0], traces[1], "--by-start", "--force", "-o", &merged]);
        let reader = TraceReader::open(Path::new(&merged)).unwrap();
        let events = reader.batches().flat_map(|batch| batch.unwrap().events);
        events.map(|event| event.time_ns / 1_000_000).collect()
    };
    assert_eq!(times([&late, &early]), [5_000, 125_000], "in whole seconds, as one knows no more");
    assert_eq!(times([&exact, &early]), [5_000, 124_200]);
    refuses(2, &["merge", &late, &early, "--by-start", "--offset", "1=1s", "-o", &merged], &["--offset"]);
}

/// No program took the times of a generator, also beside another trace, so nothing is said of a day.
#[test]
fn what_generated_a_trace_is_kept() {
    let place = Place::new();
    let path = |name: &str| place.path(&format!("{name}.pctrace"));
    for (name, pattern) in [("u", "uniform"), ("z", "zipf"), ("v", "uniform")] {
        ends_with(0, &["generate", pattern, "--pages", "4K", "--writes", "16K", "-o", &path(name)]);
    }
    let merged = path("m");
    ends_with(0, &["merge", &path("u"), &path("z"), &path("v"), "--offset", "2=10s", "-o", &merged]);
    let meta = TraceReader::open(Path::new(&merged)).unwrap().meta().clone();
    assert_eq!(meta.settings["generator"], "uniform, zipf");
    assert!(meta.totals.duration_ns > 1_000_000_000);
    let result = json(&["simulate", &merged, "--scheme", "baseline", "--gc", "own", "--json", "-"]);
    assert!(result["verdict"]["now"]["flash_bytes_per_day"].is_null(), "{}", result["verdict"]);
}
