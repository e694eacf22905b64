//! docs/trace-format.md is the specification: its tables are compared with the encoder's schema, and
//! with what meta.json holds.
#![cfg(feature = "store")]

mod common;

use std::collections::BTreeSet;

use common::small;
use pcstream_trace::store::{EVENTS_PER_ROW_GROUP, table_specs};
use pcstream_trace::*;

const DOCUMENT: &str = include_str!("../../../docs/trace-format.md");

/// First and second column of the table in the section with this heading, without back quotes.
fn table(heading: &str) -> Vec<(String, String)> {
    let section = DOCUMENT.split("\n## ").find(|s| s.starts_with(heading)).expect(heading);
    let rows = section.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    rows.take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            (cells[1].trim_matches('`').to_owned(), cells[2].to_owned())
        })
        .collect()
}

#[test]
fn columns_are_as_documented() {
    for spec in table_specs() {
        let columns: Vec<(String, String)> =
            spec.columns.iter().map(|c| (c.name.to_owned(), c.kind.to_owned())).collect();
        assert!(!columns.is_empty());
        assert_eq!(table(&format!("{}.parquet", spec.name)), columns, "{}", spec.name);
    }
}

#[test]
fn meta_fields_are_as_documented() {
    let mut meta = Meta::new("d", 1);
    meta.file_system = Some(FileSystem::default());
    meta.exit = Some(Exit::default());
    let value = serde_json::to_value(&meta).unwrap();
    let fields: BTreeSet<String> = value.as_object().unwrap().keys().cloned().collect();
    let documented: BTreeSet<String> = table("meta.json").into_iter().map(|row| row.0).collect();
    assert_eq!(documented, fields);
    for total in value["totals"].as_object().unwrap().keys() {
        assert!(DOCUMENT.contains(&format!("`{total}`")), "totals.{total} is not documented");
    }
    // A field that the document marks with `?` may be missing, any other may not.
    for (field, kind) in table("meta.json") {
        let mut without = value.clone();
        without.as_object_mut().unwrap().remove(&field);
        let optional = kind.ends_with('?') || field == "checksums";
        assert_eq!(serde_json::from_value::<Meta>(without).is_ok(), optional, "{field}");
    }
}

#[test]
fn names_and_sizes_are_as_documented() {
    let names =
        Op::ALL.map(Op::name).into_iter().chain(Kind::ALL.map(Kind::name)).chain(Life::ALL.map(Life::name));
    for name in names.chain(Unwind::ALL.map(Unwind::name)) {
        assert!(DOCUMENT.contains(&format!("`{name}`")), "{name} is not documented");
    }
    assert!(DOCUMENT.starts_with(&format!("# The trace format, version {}\n", FormatVersion::CURRENT)));
    assert_eq!(EVENTS_PER_ROW_GROUP, 131_072);
    for spec in table_specs() {
        let rows = spec.row_group.to_string();
        let (thousands, rest) = rows.split_at(rows.len() - 3);
        assert!(DOCUMENT.contains(&format!("{thousands},{rest}")), "{} row groups", spec.name);
    }
}

/// The trace id of the document, computed as the document says; also of events with hints and write streams.
#[test]
fn the_trace_id_is_as_documented() {
    let plain = small().events;
    assert!(plain.len() > Life::ALL.len() && plain.iter().all(|event| !event.hint.is_some()));
    let mut hinted = plain.clone();
    for (at, event) in hinted.iter_mut().enumerate() {
        // Each with and without a stream; the first of all has neither.
        let life = Life::ALL[at / 2 % Life::ALL.len()];
        event.hint = WriteHint { life, stream: if at % 2 == 0 { 0 } else { at as u8 } };
    }
    for events in [plain, hinted] {
        let mut digest = Digest::default();
        digest.update(&events);
        assert_eq!(
            digest.id(),
            format!("{:016x}", twox_hash::XxHash3_64::oneshot(&documented_bytes(&events)))
        );
    }
}

fn documented_bytes(events: &[Event]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for e in events {
        bytes.extend(e.time_ns.to_le_bytes());
        bytes.extend(e.lba.0.to_le_bytes());
        bytes.extend(e.file_page.to_le_bytes());
        bytes.extend(e.pages.to_le_bytes());
        bytes.extend(e.context.0.to_le_bytes());
        bytes.extend(e.file.0.to_le_bytes());
        let op = ["write", "discard", "read", "flush", "write_zeroes", "exit"]
            .iter()
            .position(|n| *n == e.op.name());
        let kinds = ["data", "journal", "inode", "directory", "bitmap", "other"];
        let kind = kinds.iter().position(|n| *n == e.kind.name());
        bytes.extend([op.unwrap() as u8, kind.unwrap() as u8]);
        let hints = ["not_set", "none", "short", "medium", "long", "extreme"];
        let hint = hints.iter().position(|n| *n == e.hint.life.name()).unwrap();
        if hint > 0 || e.hint.stream > 0 {
            bytes.extend([hint as u8, e.hint.stream]);
        }
    }
    bytes
}
