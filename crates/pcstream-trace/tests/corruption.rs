//! Damaged, foreign and future traces: an error with its place, never a panic and never other data.
#![cfg(feature = "store")]

mod common;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt32Array, UInt64Array};
use common::{edit_meta, fixed, open_and_read, small};
use parquet::arrow::ArrowWriter;
use pcstream_trace::store::EventFault;
use pcstream_trace::*;
use proptest::prelude::*;
use serde_json::{Value, json};

const FILES: [&str; 4] = ["meta.json", "events.parquet", "contexts.parquet", "files.parquet"];

#[test]
fn every_truncation_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let path = fixed(dir.path());
    for name in FILES {
        let file = path.join(name);
        let whole = fs::read(&file).unwrap();
        // The last byte of meta.json is a newline, which nobody misses.
        let longest = whole.len() - usize::from(name == "meta.json") - 1;
        for length in (0..longest).step_by(97).chain([longest]) {
            fs::write(&file, &whole[..length]).unwrap();
            let error = open_and_read(&path).expect_err(&format!("{name} cut to {length} bytes"));
            let message = error.to_string();
            assert!(message.contains(name), "{message}");
            assert!(message.contains("; restore the file"), "{message}");
        }
        fs::write(&file, whole).unwrap();
    }
    assert_eq!(open_and_read(&path).unwrap(), small());
}

#[test]
fn every_missing_file_is_named() {
    for name in FILES {
        let dir = tempfile::tempdir().unwrap();
        let path = fixed(dir.path());
        fs::remove_file(path.join(name)).unwrap();
        let message = open_and_read(&path).unwrap_err().to_string();
        assert!(message.contains(name), "{message}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// A flipped bit of a table is always found. One in meta.json is found or changes nothing of
    /// the rows.
    #[test]
    fn flipped_bits_never_change_rows(file in 0..4usize, at in any::<prop::sample::Index>(), bit in 0..8u8) {
        let dir = tempfile::tempdir().unwrap();
        let path = fixed(dir.path());
        let name = FILES[file];
        flip(&path.join(name), at, bit);
        match open_and_read(&path) {
            Err(error) => {
                let message = error.to_string();
                prop_assert!(name == "meta.json" || message.contains(name), "{}", message);
            }
            Ok(found) => {
                prop_assert_eq!(name, "meta.json");
                prop_assert_eq!(found, small());
            }
        }
    }

    /// Without checksums the decoder meets damaged bytes itself: an error or rows within the rules,
    /// never a panic.
    #[test]
    fn flipped_bits_never_panic_unchecked(
        file in 1..4usize, at in any::<prop::sample::Index>(), bit in 0..8u8, cut in any::<bool>()
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = fixed(dir.path());
        edit_meta(&path, |meta| meta["checksums"] = json!({}));
        let victim = path.join(FILES[file]);
        flip(&victim, at, bit);
        if cut {
            let bytes = fs::read(&victim).unwrap();
            fs::write(&victim, &bytes[..at.index(bytes.len())]).unwrap();
        }
        if let Ok(found) = open_and_read(&path) {
            prop_assert_eq!(found.events.len(), 200);
        }
    }
}

fn flip(file: &Path, at: prop::sample::Index, bit: u8) {
    let mut bytes = fs::read(file).unwrap();
    let at = at.index(bytes.len());
    bytes[at] ^= 1 << bit;
    fs::write(file, bytes).unwrap();
}

#[test]
fn what_is_no_trace_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing.pctrace");
    assert!(matches!(TraceReader::open(&missing), Err(TraceError::Missing(_))));
    let message = TraceReader::open(dir.path()).unwrap_err().to_string();
    assert!(message.contains("not a trace: a directory without meta.json"), "{message}");
    // What cannot be looked at, such as another user's, may be there.
    let hidden = dir.path().join("hidden");
    fs::create_dir(&hidden).unwrap();
    std::os::unix::fs::symlink("meta.json", hidden.join("meta.json")).unwrap();
    let message = TraceReader::open(&hidden).unwrap_err().to_string();
    assert!(message.contains("hidden/meta.json") && !message.contains("not a trace"), "{message}");
    let file = dir.path().join("trace.csv");
    fs::write(&file, "1,2,3").unwrap();
    let message = TraceReader::open(&file).unwrap_err().to_string();
    assert!(message.contains("not a trace: a file") && message.contains("pcstream import"), "{message}");
    // The meta.json of something else.
    fs::write(dir.path().join("meta.json"), r#"{"name": "package"}"#).unwrap();
    let message = TraceReader::open(dir.path()).unwrap_err().to_string();
    assert!(message.contains("missing field `format_version`"), "{message}");
}

#[test]
fn future_majors_are_refused_and_future_minors_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = fixed(dir.path());
    for version in ["2.0", "0.9"] {
        edit_meta(&path, |meta| meta["format_version"] = json!(version));
        let error = open_and_read(&path).unwrap_err();
        assert!(matches!(error, TraceError::Version { .. }), "{error}");
        assert!(error.to_string().contains(&format!("format {version}")), "{error}");
    }
    for version in ["1", "1.x", "", "1.0.0"] {
        edit_meta(&path, |meta| meta["format_version"] = json!(version));
        let message = open_and_read(&path).unwrap_err().to_string();
        assert!(message.contains("expected MAJOR.MINOR"), "{message}");
    }
    edit_meta(&path, |meta| {
        meta["format_version"] = json!("1.99");
        meta["new_in_1_99"] = json!({"any": [1, 2]});
        meta["device"]["zones"] = json!(4);
        meta["totals"]["appended_pages"] = json!(4);
    });
    assert_eq!(open_and_read(&path).unwrap(), small());
}

#[test]
fn meta_that_contradicts_itself_or_the_events_is_refused() {
    type Edit = fn(&mut Value);
    let cases: [(Edit, &str); 12] = [
        (|m| drop(m.as_object_mut().unwrap().remove("prefilled")), "missing field `prefilled`"),
        (|m| drop(m["totals"].as_object_mut().unwrap().remove("events")), "missing field `events`"),
        (|m| m["device"]["pages"] = json!(-1), "invalid value: integer `-1`"),
        (|m| m["device"]["pages"] = json!(0), "device.pages is 0"),
        (|m| m["device"]["pages"] = json!(100), "expected to end within the device's 100 pages"),
        (|m| m["prefilled"] = json!([{"lba": 990, "pages": 20}]), "prefilled extent 0"),
        (|m| m["totals"]["host_pages"] = json!(7), "totals.host_pages is 7, found "),
        (|m| m["totals"]["contexts"] = json!(7), "2 rows: expected 7 (totals.contexts in meta.json)"),
        (|m| m["checksums"]["events.parquet"]["xxh3"] = json!([]), "do not cover"),
        (
            |m| m["trace_id"] = json!("x\nname=* -> 0"),
            "trace_id \"x\\nname=* -> 0\", expected letters, digits",
        ),
        (|m| m["losses"] = json!({"\u{1b}[2J": 3}), "losses: \"\\u{1b}[2J\", expected letters"),
        (|m| m["checksums"]["events.parquet"]["block_bytes"] = json!(0), "do not cover"),
    ];
    for (edit, expected) in cases {
        let dir = tempfile::tempdir().unwrap();
        let path = fixed(dir.path());
        edit_meta(&path, edit);
        let message = open_and_read(&path).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
}

/// The last of two values would hide the first.
#[test]
fn a_loss_that_is_there_twice_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = fixed(dir.path());
    edit_meta(&path, |meta| meta["losses"] = json!({"missed_events": 7}));
    let file = path.join("meta.json");
    let text = fs::read_to_string(&file).unwrap();
    let twice = text.replacen("\"missed_events\"", "\"missed_events\": 7, \"missed_events\"", 1);
    fs::write(&file, twice).unwrap();
    let message = open_and_read(&path).unwrap_err().to_string();
    assert!(message.contains("\"missed_events\" is there twice"), "{message}");
}

/// Columns of a foreign events table: one good row, one that `spoil` may change.
struct Columns {
    time_ns: Vec<u64>,
    op: Vec<Option<&'static str>>,
    lba: Vec<u64>,
    pages: Vec<u32>,
    context: Vec<u32>,
    file: Vec<u32>,
    file_page: Vec<u64>,
    kind: Vec<Option<&'static str>>,
}

/// Replaces events.parquet by two rows, one of them spoiled, without checksums.
fn two_events(path: &Path, spoil: impl FnOnce(&mut Columns)) {
    let mut c = Columns {
        time_ns: vec![10, 20],
        op: vec![Some("write"); 2],
        lba: vec![0; 2],
        pages: vec![1; 2],
        context: vec![0; 2],
        file: vec![0; 2],
        file_page: vec![0; 2],
        kind: vec![Some("data"); 2],
    };
    spoil(&mut c);
    let columns: [(&str, ArrayRef); 8] = [
        ("time_ns", Arc::new(UInt64Array::from(c.time_ns))),
        ("op", Arc::new(StringArray::from(c.op))),
        ("lba", Arc::new(UInt64Array::from(c.lba))),
        ("pages", Arc::new(UInt32Array::from(c.pages))),
        ("context", Arc::new(UInt32Array::from(c.context))),
        ("file", Arc::new(UInt32Array::from(c.file))),
        ("file_page", Arc::new(UInt64Array::from(c.file_page))),
        ("kind", Arc::new(StringArray::from(c.kind))),
    ];
    replace_events(path, columns.to_vec());
}

fn replace_events(path: &Path, columns: Vec<(&str, ArrayRef)>) {
    let rows = columns[0].1.len();
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let file = fs::File::create(path.join("events.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    edit_meta(path, |meta| {
        meta["checksums"].as_object_mut().unwrap().remove("events.parquet");
        meta["totals"]["events"] = json!(rows);
    });
}

#[test]
fn rows_of_other_programs_are_judged_by_the_same_rules() {
    type Spoil = fn(&mut Columns);
    let cases: [(Spoil, EventFault); 10] = [
        (|c| c.time_ns[1] = 9, EventFault::Time { previous: 10, found: 9 }),
        (|c| c.time_ns[1] = 1 << 63, EventFault::TooLate(1 << 63)),
        (|c| c.op[1] = Some("trim"), EventFault::Op("trim".into())),
        (|c| c.kind[1] = Some(""), EventFault::Kind("".into())),
        (|c| c.pages[1] = 0, EventFault::NoPages("write")),
        (|c| c.op[1] = Some("flush"), EventFault::Pages { op: "flush", pages: 1 }),
        (
            |c| c.lba[1] = u64::MAX,
            EventFault::BeyondDevice { lba: Lba(u64::MAX), pages: 1, device_pages: 1000 },
        ),
        (|c| c.context[1] = 3, EventFault::Context { found: 3, known: 2 }),
        (|c| c.file[1] = 4, EventFault::File { found: 4, known: 3 }),
        (|c| c.file_page[1] = u64::MAX, EventFault::FilePage { file_page: u64::MAX, pages: 1 }),
    ];
    for (spoil, expected) in cases {
        let dir = tempfile::tempdir().unwrap();
        let path = fixed(dir.path());
        two_events(&path, spoil);
        match open_and_read(&path).unwrap_err() {
            TraceError::Event { path: file, row, fault } => {
                assert_eq!((row, &fault), (1, &expected));
                assert!(file.ends_with("events.parquet"));
            }
            other => panic!("{other}"),
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let path = fixed(dir.path());
    two_events(&path, |c| c.op[1] = None);
    let message = open_and_read(&path).unwrap_err().to_string();
    assert!(message.contains("column op has 1 nulls"), "{message}");
}

/// Another column order, other columns in between and no dictionary are fine.
#[test]
fn tables_of_other_programs_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = fixed(dir.path());
    let one = |v: u64| Arc::new(UInt64Array::from(vec![v])) as ArrayRef;
    let one32 = |v: u32| Arc::new(UInt32Array::from(vec![v])) as ArrayRef;
    let text = |v: &str| Arc::new(StringArray::from(vec![v])) as ArrayRef;
    let columns = vec![
        ("kind", text("journal")),
        ("extra", text("?")),
        ("file_page", one(8)),
        ("file", one32(3)),
        ("context", one32(2)),
        ("pages", one32(5)),
        ("op", text("discard")),
        ("lba", one(4)),
        ("time_ns", one(1)),
    ];
    replace_events(&path, columns);
    edit_meta(&path, |meta| {
        let totals = json!({"events": 1, "host_pages": 0, "covered_pages": 0, "data_pages": 0,
            "covered_data_pages": 0, "discarded_pages": 5, "zeroed_pages": 0, "read_pages": 0, "flushes": 0,
            "contexts": 2, "files": 3, "duration_ns": 1});
        meta["totals"] = totals;
    });
    let event = Event {
        time_ns: 1,
        lba: Lba(4),
        pages: 5,
        context: ContextId(2),
        file: FileId(3),
        file_page: 8,
        op: Op::Discard,
        kind: Kind::Journal,
        hint: Default::default(),
    };
    assert_eq!(open_and_read(&path).unwrap().events, [event]);
}

#[test]
fn missing_and_mistyped_columns_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = fixed(dir.path());
    replace_events(&path, vec![("time_ns", Arc::new(UInt64Array::from(vec![1])) as ArrayRef)]);
    let message = open_and_read(&path).unwrap_err().to_string();
    assert!(message.contains("column op: found nothing, expected string"), "{message}");
    replace_events(&path, vec![("time_ns", Arc::new(UInt32Array::from(vec![1])) as ArrayRef)]);
    let message = open_and_read(&path).unwrap_err().to_string();
    assert!(message.contains("column time_ns: found UInt32, expected u64"), "{message}");
}
