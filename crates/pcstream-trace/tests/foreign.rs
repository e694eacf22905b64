//! Tables that other programs wrote, or that were made to do harm: every compression is read, and what would wait for ever
//! or take gigabytes is refused.
#![cfg(feature = "store")]

mod common;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt32Array, UInt64Array};
use common::{edit_meta, fixed, open_and_read, small};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
use parquet::file::properties::WriterProperties;
use pcstream_trace::*;
use serde_json::{Value, json};

const TABLES: [&str; 3] = ["events.parquet", "contexts.parquet", "files.parquet"];

fn write_table(file: &Path, batches: &[RecordBatch], compression: Compression) {
    let properties = WriterProperties::builder().set_compression(compression).build();
    let file = fs::File::create(file).unwrap();
    let mut writer = ArrowWriter::try_new(file, batches[0].schema(), Some(properties)).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.close().unwrap();
}

#[test]
fn every_compression_is_read() {
    let compressions = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::LZ4,
        Compression::LZ4_RAW,
        Compression::ZSTD(ZstdLevel::default()),
        Compression::GZIP(GzipLevel::default()),
        Compression::BROTLI(BrotliLevel::default()),
    ];
    for compression in compressions {
        let dir = tempfile::tempdir().unwrap();
        let path = fixed(dir.path());
        for table in TABLES.map(|table| path.join(table)) {
            let reader = ParquetRecordBatchReaderBuilder::try_new(fs::File::open(&table).unwrap()).unwrap();
            let batches: Vec<RecordBatch> = reader.build().unwrap().collect::<Result<_, _>>().unwrap();
            write_table(&table, &batches, compression);
        }
        edit_meta(&path, |meta| meta["checksums"] = Value::Null);
        assert_eq!(open_and_read(&path).unwrap_or_else(|e| panic!("{compression}: {e}")), small());
    }
}

/// A trace as it was before write hints were recorded.
#[test]
fn a_trace_without_hints_is_read_as_one_where_nobody_gave_any() {
    let dir = tempfile::tempdir().unwrap();
    let path = fixed(dir.path());
    let table = path.join("events.parquet");
    let reader = ParquetRecordBatchReaderBuilder::try_new(fs::File::open(&table).unwrap()).unwrap();
    let batches: Vec<RecordBatch> = reader
        .build()
        .unwrap()
        .map(|batch| {
            let mut batch = batch.unwrap();
            for column in ["hint", "write_stream"] {
                batch.remove_column(batch.schema().index_of(column).unwrap());
            }
            batch
        })
        .collect();
    write_table(&table, &batches, Compression::UNCOMPRESSED);
    edit_meta(&path, |meta| {
        meta["checksums"] = Value::Null;
        meta["format_version"] = json!("1.0");
    });
    assert_eq!(open_and_read(&path).unwrap(), small());
    // Programs that work on columns get them all.
    let trace = TraceReader::open(&path).unwrap();
    let columns: Vec<RecordBatch> = store::arrow::events(&trace).map(Result::unwrap).collect();
    let hints = names_in(&columns[0], "hint");
    assert_eq!((columns[0].num_rows(), hints.first().map(String::as_str)), (200, Some("not_set")));
}

fn names_in(batch: &RecordBatch, column: &str) -> Vec<String> {
    use arrow_array::cast::AsArray;
    let names = batch.column_by_name(column).unwrap().as_dictionary::<arrow_array::types::Int32Type>();
    let names = names.downcast_dict::<StringArray>().unwrap();
    names.into_iter().map(|name| name.unwrap().to_owned()).collect()
}

/// Rewrites the table of events with one column changed.
fn with_column(path: &Path, name: &str, column: ArrayRef) {
    let table = path.join("events.parquet");
    let reader = ParquetRecordBatchReaderBuilder::try_new(fs::File::open(&table).unwrap()).unwrap();
    let batch = reader.build().unwrap().next().unwrap().unwrap();
    let schema = batch.schema();
    let columns = schema.fields().iter().zip(batch.columns()).map(|(field, kept)| {
        (field.name().clone(), if field.name() == name { column.clone() } else { kept.clone() })
    });
    let changed = RecordBatch::try_from_iter(columns.collect::<Vec<_>>()).unwrap();
    write_table(&table, &[changed], Compression::UNCOMPRESSED);
    edit_meta(path, |meta| meta["checksums"] = Value::Null);
}

#[test]
fn a_hint_or_write_stream_that_is_none_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = fixed(dir.path());
    with_column(&path, "hint", Arc::new(StringArray::from_iter_values((0..200).map(|_| "brief"))));
    let message = open_and_read(&path).unwrap_err().to_string();
    assert!(message.contains("hint \"brief\", expected one of not_set, none, short"), "{message}");
    let path = dir.path().join("second");
    fs::create_dir(&path).unwrap();
    let path = fixed(&path);
    with_column(&path, "write_stream", Arc::new(UInt32Array::from_iter_values((0..200).map(|_| 256))));
    let message = open_and_read(&path).unwrap_err().to_string();
    assert!(message.contains("write_stream 256, expected 0 to 255"), "{message}");
}

#[test]
fn checksums_may_be_null_or_absent() {
    type Edit = fn(&mut Value);
    let edits: [Edit; 2] =
        [|m| m["checksums"] = Value::Null, |m| drop(m.as_object_mut().unwrap().remove("checksums"))];
    for edit in edits {
        let dir = tempfile::tempdir().unwrap();
        let path = fixed(dir.path());
        edit_meta(&path, edit);
        assert_eq!(open_and_read(&path).unwrap(), small());
    }
}

#[test]
fn a_fifo_or_directory_in_place_of_a_file_is_refused_at_once() {
    for name in TABLES.into_iter().chain(["meta.json"]) {
        for make in [make_fifo as fn(&Path), |path| fs::create_dir(path).unwrap()] {
            let dir = tempfile::tempdir().unwrap();
            let path = fixed(dir.path());
            fs::remove_file(path.join(name)).unwrap();
            make(&path.join(name));
            let message = open_and_read(&path).unwrap_err().to_string();
            assert!(message.contains(&format!("{name}: not a regular file")), "{message}");
        }
    }
}

fn make_fifo(path: &Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).unwrap();
}

/// A files table of `rows` rows, all with the same path.
fn files_table(path: &Path, rows: u32, name: &str) {
    let columns: [(&str, ArrayRef); 4] = [
        ("file", Arc::new(UInt32Array::from_iter_values(1..=rows))),
        ("inode", Arc::new(UInt64Array::from_iter_values((0..rows).map(|_| 1)))),
        ("generation", Arc::new(UInt32Array::from_iter_values((0..rows).map(|_| 1)))),
        ("path", Arc::new(StringArray::from_iter_values((0..rows).map(|_| name)))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    write_table(&path.join("files.parquet"), &[batch], Compression::ZSTD(ZstdLevel::default()));
    edit_meta(path, |meta| {
        meta["checksums"] = Value::Null;
        meta["totals"]["files"] = json!(rows);
    });
}

#[test]
fn one_long_string_for_many_rows_is_refused() {
    // 4 GiB of paths in a few kilobytes.
    let dir = tempfile::tempdir().unwrap();
    let path = fixed(dir.path());
    files_table(&path, 2_000, &"x".repeat(100_000));
    let bytes = fs::metadata(path.join("files.parquet")).unwrap().len();
    assert!(bytes < 20_000, "{bytes}");
    let message = open_and_read(&path).unwrap_err().to_string();
    assert!(message.contains("column path: a string of 100000 bytes"), "{message}");
    // Within the limit of a string, the whole table counts.
    files_table(&path, 8_960, &"x".repeat(60_000));
    let message = open_and_read(&path).unwrap_err().to_string();
    assert!(message.contains("the table takes more than 512 MiB of memory"), "{message}");
    // And what a recorder may meet is read.
    files_table(&path, 8_000, &"x".repeat(4_096));
    assert_eq!(TraceReader::open(&path).unwrap().files().len(), 8_000);
}

#[test]
fn a_page_that_grows_a_thousandfold_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = fixed(dir.path());
    // One value is one page, however long.
    files_table(&path, 1, &"x".repeat(40 << 20));
    let message = open_and_read(&path).unwrap_err().to_string();
    assert!(message.contains("column path: a page of 40 MiB, expected at most 32 MiB"), "{message}");
}
