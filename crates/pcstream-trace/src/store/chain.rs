//! A table while it is written: a chain of segments, each a complete Parquet file, that become one file at the end.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use parquet::arrow::ArrowSchemaConverter;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaDataReader;
use parquet::file::writer::SerializedFileWriter;

use super::dir::Dir;
use super::encode::Row;
use super::error::TraceError;
use super::files::{SummedFile, check_segment, segment_name};
use super::limits::check_table;
use super::load::Load;
use crate::meta::FileSums;

/// One table while it is written: full segments on disk, the rows of the open one in memory.
#[derive(Debug)]
pub(super) struct Chain<R> {
    /// Rows in a full segment.
    pub(super) limit: usize,
    /// Names of the full segments, in order.
    sealed: Vec<String>,
    /// Rows of the open segment.
    pub(super) rows: Vec<R>,
    /// What they take of the limits of a row group.
    load: Load,
    /// What all rows take in a reader's memory.
    bytes_kept: u64,
    /// The open segment's file, if it was flushed, and how many of its rows that holds.
    open: Option<(String, usize)>,
    /// Segments that no longer count.
    stale: Vec<String>,
}

impl<R: Row> Chain<R> {
    pub(super) fn new() -> Chain<R> {
        Chain {
            limit: R::TABLE.row_group,
            sealed: Vec::new(),
            rows: Vec::new(),
            load: Load::default(),
            bytes_kept: 0,
            open: None,
            stale: Vec::new(),
        }
    }

    /// Rows until the open segment is full.
    pub(super) fn room(&self) -> usize {
        // A full segment that could not be written stays, and may get more rows.
        self.limit.saturating_sub(self.rows.len())
    }

    /// Adds a row. A segment is a row group, so it ends early where a longer one would be too much for a reader.
    pub(super) fn push(&mut self, row: R, dir: &Dir) -> Result<(), TraceError> {
        let load = row.load();
        if !self.rows.is_empty() && !self.load.and(load).fits() {
            self.seal(dir)?;
        }
        self.load = self.load.and(load);
        self.bytes_kept += row.bytes_kept();
        self.rows.push(row);
        if self.room() == 0 { self.seal(dir) } else { Ok(()) }
    }

    /// Brings the open segment's file up to date.
    pub(super) fn flush(&mut self, dir: &Dir) -> Result<(), TraceError> {
        let on_disk = self.open.as_ref().map_or(0, |(_, rows)| *rows);
        if on_disk == self.rows.len() {
            return Ok(());
        }
        let bytes = encode::<R>(&self.rows, dir)?;
        let name = segment_name(R::TABLE.name, self.sealed.len(), &bytes);
        dir.replace_file(&name, &bytes)?;
        if let Some((old, _)) = self.open.replace((name, self.rows.len())) {
            dir.remove_file(&old)?;
        }
        Ok(())
    }

    /// Ends the open segment, which must have rows.
    pub(super) fn seal(&mut self, dir: &Dir) -> Result<(), TraceError> {
        assert!(!self.rows.is_empty(), "an empty segment is never sealed");
        self.flush(dir)?;
        self.sealed.extend(self.open.take().map(|(name, _)| name));
        self.rows.clear();
        self.load = Load::default();
        Ok(())
    }

    /// Writes the table's final file: the full segments, then the open rows.
    pub(super) fn finish(&mut self, dir: &Dir) -> Result<FileSums, TraceError> {
        let name = format!("{}.parquet", R::TABLE.name);
        let mut file = SummedFile::new(dir.create_file(&name)?);
        let path = dir.path().join(name);
        concatenate(dir, &self.sealed, row_groups(&self.rows, self.limit), &mut file)
            .map_err(|e| parquet_error("write", &path, e))?;
        let sums = file.close(&path)?;
        let problem = |problem| TraceError::Excessive { path, place: "all rows".to_owned(), problem };
        check_table(self.bytes_kept, sums.bytes).map_err(problem)?;
        Ok(sums)
    }

    /// Replaces all rows by the same ones with more knowledge.
    pub(super) fn replace(&mut self, rows: &[R])
    where
        R: Clone,
    {
        self.stale.append(&mut self.sealed);
        self.stale.extend(self.open.take().map(|(name, _)| name));
        self.rows = rows.to_vec();
        self.bytes_kept = rows.iter().map(R::bytes_kept).sum();
    }

    pub(super) fn remove_segments(&mut self, dir: &Dir) -> Result<(), TraceError> {
        let open = self.open.take().map(|(name, _)| name);
        self.sealed
            .drain(..)
            .chain(self.stale.drain(..))
            .chain(open)
            .try_for_each(|name| dir.remove_file(&name))
    }
}

/// Cuts rows where segments would end.
fn row_groups<R: Row>(rows: &[R], limit: usize) -> impl Iterator<Item = &[R]> {
    let mut rest = rows;
    std::iter::from_fn(move || {
        let mut load = Load::default();
        let more = |row: &R| {
            load = load.and(row.load());
            load.fits()
        };
        let fitting = rest.iter().take(limit).map(more).take_while(|fits| *fits).count();
        let (group, behind) = rest.split_at(fitting.max(1).min(rest.len()));
        rest = behind;
        (!group.is_empty()).then_some(group)
    })
}

/// Rows as the bytes of a complete Parquet file.
fn encode<R: Row>(rows: &[R], dir: &Dir) -> Result<Bytes, TraceError> {
    let path = dir.path().join(format!("{}.parquet", R::TABLE.name));
    encode_file(rows).map_err(|e| parquet_error("encode", &path, e))
}

fn encode_file<R: Row>(rows: &[R]) -> Result<Bytes, ParquetError> {
    let batch = R::encode(rows);
    // Without the embedded Arrow schema, dictionary columns are plain strings to every reader.
    let options =
        ArrowWriterOptions::new().with_properties(R::TABLE.properties()).with_skip_arrow_metadata(true);
    let mut writer = ArrowWriter::try_new_with_options(Vec::new(), batch.schema(), options)?;
    writer.write(&batch)?;
    writer.into_inner().map(Bytes::from)
}

/// Copies the encoded row groups of the segments, and then `groups` of rows, into one file.
fn concatenate<'r, R: Row + 'r>(
    dir: &Dir,
    segments: &[String],
    groups: impl Iterator<Item = &'r [R]>,
    file: &mut SummedFile,
) -> Result<(), ParquetError> {
    let schema = ArrowSchemaConverter::new().convert(&R::TABLE.schema())?;
    let mut writer =
        SerializedFileWriter::new(file, schema.root_schema_ptr(), Arc::new(R::TABLE.properties()))?;
    for segment in segments {
        let bytes = dir.read(segment)?;
        // What changed on the disk since must not get a checksum as if it were good.
        check_segment(&dir.path().join(segment), &bytes).map_err(|e| ParquetError::External(Box::new(e)))?;
        append_row_groups(&mut writer, Bytes::from(bytes))?;
    }
    for rows in groups {
        append_row_groups(&mut writer, encode_file(rows)?)?;
    }
    writer.close().map(drop)
}

fn append_row_groups(
    writer: &mut SerializedFileWriter<&mut SummedFile>,
    segment: Bytes,
) -> Result<(), ParquetError> {
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&segment)?;
    for row_group in metadata.row_groups() {
        let mut copy = writer.next_row_group()?;
        for column in row_group.columns() {
            let encoded = ColumnCloseResult {
                bytes_written: column.compressed_size() as u64,
                rows_written: row_group.num_rows() as u64,
                metadata: column.clone(),
                bloom_filter: None,
                column_index: None,
                offset_index: None,
            };
            copy.append_column(&segment, encoded)?;
        }
        copy.close()?;
    }
    Ok(())
}

fn parquet_error(action: &'static str, path: &Path, error: ParquetError) -> TraceError {
    let io = |source| TraceError::io(action, path, source);
    match error {
        ParquetError::External(source) => match source.downcast::<TraceError>() {
            Ok(error) => *error,
            Err(source) => match source.downcast::<std::io::Error>() {
                Ok(source) => io(*source),
                Err(source) => io(std::io::Error::other(source)),
            },
        },
        other => io(std::io::Error::other(other)),
    }
}
