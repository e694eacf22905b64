//! Tables of a trace: a Parquet file each, or the segments of one, decoded row group by row group.
//!
//! Invariant: bytes are checked against their checksums and limits before they are decoded, and a decoder that panics on damaged
//! bytes is an error of the file.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;

use super::decode::{Layout, decoded_type};
use super::error::TraceError;
use super::files::{CheckedFile, Window};
use super::limits::{TableBudget, check_row_group};
use super::schema::{EVENTS, TableSpec};

/// Events in a batch: small enough to stay in a core's cache on the way from decoder to consumer.
const BATCH_EVENTS: usize = 8 * 1024;

/// Rows of the other tables decoded at once: their strings may be long.
const BATCH_TABLE_ROWS: usize = 1024;

/// One Parquet file with its footer.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) file: CheckedFile,
    metadata: ArrowReaderMetadata,
    mask: ProjectionMask,
    layout: Layout,
    /// Rows decoded at once.
    batch_rows: usize,
}

impl Table {
    pub(super) fn open(spec: &'static TableSpec, file: CheckedFile) -> Result<Table, TraceError> {
        let path = file.path().to_owned();
        let batch_rows = if spec.name == EVENTS.name { BATCH_EVENTS } else { BATCH_TABLE_ROWS };
        guard(&path, "footer", || {
            let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
            let stored = ArrowReaderMetadata::load(&file, options)?;
            let layout = Layout::find(spec, stored.schema(), &path).map_err(boxed)?;
            let fields =
                stored.schema().fields().iter().map(|f| {
                    Field::new(f.name(), decoded_type(spec, f.name(), f.data_type()), f.is_nullable())
                });
            let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
            let options = ArrowReaderOptions::new().with_schema(schema);
            let metadata = ArrowReaderMetadata::try_new(stored.metadata().clone(), options)?;
            let mask = ProjectionMask::roots(metadata.parquet_schema(), layout.indexes());
            Ok((metadata, mask, layout.projected()))
        })
        .map(|(metadata, mask, layout)| Table { file, metadata, mask, layout, batch_rows })
    }

    pub(super) fn rows(&self) -> u64 {
        let groups = self.metadata.metadata().row_groups();
        groups.iter().fold(0, |rows, group| rows.saturating_add(group.num_rows().max(0) as u64))
    }

    pub(super) fn row_groups(&self) -> usize {
        self.metadata.metadata().num_row_groups()
    }

    /// Loads and checks the bytes of a row group, and prepares its decoding.
    fn decoder(&self, group: usize) -> Result<ParquetRecordBatchReader, TraceError> {
        let place = format!("row group {group}");
        let path = self.file.path();
        guard(path, &place, || {
            let columns = self.metadata.metadata().row_group(group);
            let (start, end) = byte_range(columns)?;
            let window = Window { start, bytes: self.file.read(start, end - start).map_err(boxed)? };
            let excessive = |column: String, problem| TraceError::Excessive {
                path: path.to_owned(),
                place: format!("{place}, {column}"),
                problem,
            };
            let is_read = |leaf| self.mask.leaf_included(leaf);
            check_row_group(&window, columns, is_read, self.batch_rows as u64, excessive)?;
            ParquetRecordBatchReaderBuilder::new_with_metadata(window, self.metadata.clone())
                .with_projection(self.mask.clone())
                .with_row_groups(vec![group])
                .with_batch_size(self.batch_rows)
                .build()
        })
    }
}

/// The bytes that the columns of a row group take in the file.
fn byte_range(group: &RowGroupMetaData) -> Result<(u64, u64), ParquetError> {
    let (mut start, mut end) = (u64::MAX, 0);
    for column in group.columns() {
        let offset = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
        let (offset, length) = (u64::try_from(offset), u64::try_from(column.compressed_size()));
        let (Ok(offset), Ok(length)) = (offset, length) else {
            return Err(ParquetError::General("a column has a negative offset or length".to_owned()));
        };
        let column_end = offset.checked_add(length);
        start = start.min(offset);
        end = end
            .max(column_end.ok_or_else(|| ParquetError::General("a column ends beyond 64 bits".to_owned()))?);
    }
    if start <= end {
        Ok((start, end))
    } else {
        Err(ParquetError::General("a row group has no columns".to_owned()))
    }
}

/// Record batches of a chain of files.
pub(super) struct TableRows {
    tables: Vec<Arc<Table>>,
    table: usize,
    group: usize,
    decoder: Option<ParquetRecordBatchReader>,
    /// Rows handed out so far.
    pub(super) row: u64,
}

impl TableRows {
    pub(super) fn new(tables: Vec<Arc<Table>>) -> TableRows {
        TableRows { tables, table: 0, group: 0, decoder: None, row: 0 }
    }

    pub(super) fn next(&mut self) -> Result<Option<(Layout, RecordBatch)>, TraceError> {
        while let Some(table) = self.tables.get(self.table) {
            let Some(decoder) = &mut self.decoder else {
                if self.group == table.row_groups() {
                    (self.table, self.group) = (self.table + 1, 0);
                } else {
                    self.decoder = Some(table.decoder(self.group)?);
                    self.group += 1;
                }
                continue;
            };
            let place = format!("row group {}, from row {}", self.group - 1, self.row);
            match guard(table.file.path(), &place, || decoder.next().transpose().map_err(ParquetError::from))?
            {
                None => self.decoder = None,
                Some(batch) => {
                    self.row += batch.num_rows() as u64;
                    return Ok(Some((table.layout.clone(), batch)));
                }
            }
        }
        Ok(None)
    }
}

/// The rows of all these tables, as `decode` makes them.
pub(super) fn read_rows<T>(
    tables: &[Arc<Table>],
    decode: fn(&Layout, &RecordBatch, &mut TableBudget, &mut Vec<T>) -> Result<(), TraceError>,
) -> Result<Vec<T>, TraceError> {
    let (mut rows, mut decoded) = (TableRows::new(tables.to_vec()), Vec::new());
    let mut budget = TableBudget::new(bytes_of(tables));
    while let Some((layout, batch)) = rows.next()? {
        decode(&layout, &batch, &mut budget, &mut decoded)?;
    }
    Ok(decoded)
}

fn bytes_of(tables: &[Arc<Table>]) -> u64 {
    tables.iter().map(|table| table.file.bytes()).sum()
}

/// Carries an error of ours through the decoder.
fn boxed(error: TraceError) -> ParquetError {
    ParquetError::External(Box::new(error))
}

/// Runs the decoder. It returns errors for most damaged input but asserts on some, so a panic in it
/// is an error of the file too; checksums keep damaged bytes from it, unless they were removed.
fn guard<T>(
    path: &Path,
    place: &str,
    decode: impl FnOnce() -> Result<T, ParquetError>,
) -> Result<T, TraceError> {
    match catch_unwind(AssertUnwindSafe(decode)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(ParquetError::External(source))) => match source.downcast::<TraceError>() {
            Ok(error) => Err(*error),
            Err(source) => Err(TraceError::corrupt(path, place, source)),
        },
        Ok(Err(error)) => Err(TraceError::corrupt(path, place, error)),
        Err(_) => Err(TraceError::corrupt(path, place, "the bytes are not what a Parquet decoder expects")),
    }
}
