//! Reading a trace.
//!
//! `open` checks the directory, reads `meta.json` and both tables, and compares lengths with the
//! checksums; `batches` then streams the events a row group at a time, each checked against its
//! checksums before it is decoded and against the rules for events after.
//!
//! A partial trace (its recorder was killed, or still runs) has `meta().complete == false`. Its
//! events end where the first segment is missing or torn; `open` reads them once to know their sums.

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use serde::Deserialize;

use super::META_FILE;
use super::check::EventCheck;
use super::dir::Dir;
use super::error::TraceError;
use super::files::{CheckedFile, Window, parse_segment_name, partial_path, read_meta_text};
use super::limits::{TableBudget, check_row_group};
use super::rows::{Layout, decode_contexts, decode_events, decode_files, decoded_type};
use super::schema::{CONTEXTS, EVENTS, FILES, TableSpec};
use crate::meta::{FormatVersion, Meta, Totals};
use crate::tables::{Batch, Context, File};

/// Events in a batch: small enough to stay in a core's cache on the way from decoder to consumer.
const BATCH_EVENTS: usize = 8 * 1024;

/// Rows of the other tables decoded at once: their strings may be long.
const BATCH_TABLE_ROWS: usize = 1024;

/// An opened trace.
#[derive(Debug)]
pub struct TraceReader {
    path: PathBuf,
    meta: Meta,
    damage: Option<String>,
    contexts: Vec<Context>,
    files: Vec<File>,
    events: Vec<Arc<Table>>,
    /// Events that can be read; the rest of a partial trace contradicts the rules for events.
    readable: u64,
    _lock: Option<Dir>,
}

impl TraceReader {
    /// Opens the trace at `path`; if only `path.partial` exists, that is opened.
    pub fn open(path: impl AsRef<Path>) -> Result<TraceReader, TraceError> {
        let path = find(path.as_ref())?;
        let mut meta = read_meta(&path)?;
        if meta.complete {
            return TraceReader::open_complete(path, meta);
        }
        let dir = Dir::open(&path)?;
        dir.lock(false)?;
        let mut reader = TraceReader::open_partial(path, &mut meta)?;
        reader.meta = meta;
        reader._lock = Some(dir);
        reader.sum_up()?;
        Ok(reader)
    }

    fn open_complete(path: PathBuf, meta: Meta) -> Result<TraceReader, TraceError> {
        let table = |spec: &'static TableSpec| {
            let name = format!("{}.parquet", spec.name);
            let sums = meta.checksums.get(&name).cloned();
            CheckedFile::open(path.join(name), sums).and_then(|file| Table::open(spec, file))
        };
        let (contexts, files, events) = (table(&CONTEXTS)?, table(&FILES)?, table(&EVENTS)?);
        let contexts = read_contexts(&[Arc::new(contexts)])?;
        let files = read_files(&[Arc::new(files)])?;
        let found = [contexts.len() as u64, files.len() as u64, events.rows()];
        let expected = [meta.totals.contexts, meta.totals.files, meta.totals.events];
        for ((what, found), expected) in ["contexts", "files", "events"].iter().zip(found).zip(expected) {
            if found != expected {
                let file = path.join(format!("{what}.parquet"));
                let problem = format!("expected {expected} (totals.{what} in meta.json)");
                return Err(TraceError::corrupt(&file, format_args!("{found} rows"), problem));
            }
        }
        let (readable, events) = (events.rows(), vec![Arc::new(events)]);
        Ok(TraceReader { path, meta, damage: None, contexts, files, events, readable, _lock: None })
    }

    fn open_partial(path: PathBuf, meta: &mut Meta) -> Result<TraceReader, TraceError> {
        let mut damage = vec!["the recording was not finished".to_owned()];
        let chains = list_segments(&path)?;
        let mut open = |spec: &'static TableSpec| {
            let chain = chains.get(spec.name).into_iter().flatten();
            let mut tables = Vec::new();
            for (expected, (&index, (file, sum))) in chain.enumerate() {
                let missing = format!("{}: segment {expected} is missing", spec.name);
                let table = CheckedFile::open_segment(file.clone(), sum).and_then(|f| Table::open(spec, f));
                match table {
                    _ if index != expected => damage.push(missing),
                    Err(e) => damage.push(e.to_string()),
                    Ok(table) => {
                        tables.push(Arc::new(table));
                        continue;
                    }
                }
                break;
            }
            tables
        };
        let (contexts, files, events) = (open(&CONTEXTS), open(&FILES), open(&EVENTS));
        let contexts = read_contexts(&contexts)?;
        let files = read_files(&files)?;
        meta.totals = Totals::default();
        let (damage, readable) = (Some(damage.join("; ")), u64::MAX);
        Ok(TraceReader { path, meta: meta.clone(), damage, contexts, files, events, readable, _lock: None })
    }

    /// Computes the totals of a partial trace, whose meta may be older than its last segment.
    fn sum_up(&mut self) -> Result<(), TraceError> {
        let mut totals = Totals::default();
        let mut fault = None;
        for batch in self.batches() {
            match batch {
                Ok(batch) => totals.add_batch(&batch),
                Err(error @ TraceError::Event { row, .. }) if fault.is_none() => fault = Some((row, error)),
                Err(error) => return Err(error),
            }
        }
        self.meta.totals = totals;
        let Some((row, error)) = fault else { return Ok(()) };
        // Everything before the event is good, for instance when a power failure tore the contexts.
        self.readable = row;
        let damage = self.damage.get_or_insert_default();
        damage.push_str(&format!("; {error}"));
        self.sum_up()
    }

    /// Where the trace was found.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the trace says about itself.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// What is missing from the trace, in words; `None` for a finished trace. Lost events are not
    /// damage, they are in `meta().losses`.
    pub fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    /// All contexts, by id.
    pub fn contexts(&self) -> &[Context] {
        &self.contexts
    }

    /// All files, by id.
    pub fn files(&self) -> &[File] {
        &self.files
    }

    /// Streams the trace from its beginning. The first batch carries all contexts and files; there
    /// is always a first batch. After an error the iterator ends.
    pub fn batches(&self) -> Batches {
        let check = EventCheck {
            device_pages: match self.meta.device.pages {
                0 => u64::MAX,
                pages => pages,
            },
            contexts: self.contexts.len() as u64,
            files: self.files.len() as u64,
            last_ns: 0,
            highest_end: 0,
        };
        Batches {
            tables: Some((self.contexts.clone(), self.files.clone())),
            rows: TableRows::new(self.events.clone()),
            check,
            found: Totals::default(),
            expected: self.meta.complete.then(|| (self.path.join(META_FILE), self.meta.totals)),
            readable: self.readable,
            done: false,
        }
    }
}

/// Columns of some rows, and which is which.
pub(super) type Columns = (Layout, RecordBatch);

/// The batches of a trace, in order.
pub struct Batches {
    tables: Option<(Vec<Context>, Vec<File>)>,
    rows: TableRows,
    check: EventCheck,
    found: Totals,
    /// What the sums must be at the end, and where that is written.
    expected: Option<(PathBuf, Totals)>,
    readable: u64,
    done: bool,
}

impl Iterator for Batches {
    type Item = Result<Batch, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let item = self.next_batch().transpose();
        self.done = !matches!(item, Some(Ok(_)));
        item
    }
}

impl Batches {
    fn next_batch(&mut self) -> Result<Option<Batch>, TraceError> {
        Ok(self.next_checked()?.map(|(batch, _)| batch))
    }

    /// The next piece, checked, and the columns that its events were decoded from; none where there are no events.
    pub(super) fn next_checked(&mut self) -> Result<Option<(Batch, Option<Columns>)>, TraceError> {
        let mut batch = Batch::default();
        let first = self.tables.take();
        let is_first = first.is_some();
        if let Some((contexts, files)) = first {
            (batch.contexts, batch.files) = (contexts, files);
        }
        let first_row = self.rows.row;
        let next = if first_row < self.readable { self.rows.next()? } else { None };
        let columns = match next {
            Some((layout, columns)) => {
                let rows =
                    columns.num_rows().min(usize::try_from(self.readable - first_row).unwrap_or(usize::MAX));
                let columns = columns.slice(0, rows);
                decode_events(&layout, &columns, first_row, &mut self.check, &mut batch.events)?;
                Some((layout, columns))
            }
            None if is_first => None,
            None => return self.check_totals().map(|()| None),
        };
        self.found.add_batch(&batch);
        Ok(Some((batch, columns)))
    }

    /// A finished trace must sum to what it says.
    fn check_totals(&self) -> Result<(), TraceError> {
        match &self.expected {
            Some((path, expected)) if self.found != *expected => Err(TraceError::Meta {
                path: path.clone(),
                problem: format!("{}, which is not what the events sum to", expected.against(&self.found)),
            }),
            _ => Ok(()),
        }
    }
}

/// Finds the directory of a trace.
fn find(path: &Path) -> Result<PathBuf, TraceError> {
    let not_a_trace = |found: &str, remedy| TraceError::NotATrace {
        path: path.to_owned(),
        found: found.to_owned(),
        remedy,
    };
    match fs::metadata(path) {
        Ok(kind) if kind.is_dir() => {
            let meta = path.join(META_FILE);
            match meta.try_exists() {
                Ok(true) => Ok(path.to_owned()),
                Ok(false) => Err(not_a_trace("a directory without meta.json", "")),
                // Such as one of root, which others may not look into.
                Err(error) => Err(TraceError::io("look at", &meta, error)),
            }
        }
        Ok(_) => Err(not_a_trace("a file", "; `pcstream import` converts other formats")),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            let partial = partial_path(path);
            if partial.join(META_FILE).exists() {
                Ok(partial)
            } else {
                Err(TraceError::Missing(path.to_owned()))
            }
        }
        Err(e) => Err(TraceError::io("look at", path, e)),
    }
}

/// Reads and checks `meta.json`.
fn read_meta(dir: &Path) -> Result<Meta, TraceError> {
    /// The part that every format version has.
    #[derive(Deserialize)]
    struct Versioned {
        format_version: FormatVersion,
    }
    let path = dir.join(META_FILE);
    let text = read_meta_text(&path)?;
    let problem = |e: serde_json::Error| TraceError::Meta { path: path.clone(), problem: e.to_string() };
    let version = serde_json::from_slice::<Versioned>(&text).map_err(problem)?.format_version;
    if version.major != FormatVersion::CURRENT.major {
        return Err(TraceError::Version { path, found: version });
    }
    let meta: Meta = serde_json::from_slice(&text).map_err(problem)?;
    meta.check().map_err(|problem| TraceError::Meta { path: path.clone(), problem })?;
    if meta.complete && meta.device.pages == 0 {
        return Err(TraceError::Meta { path, problem: "device.pages is 0, expected at least 1".to_owned() });
    }
    Ok(meta)
}

/// Path and checksum of each segment, by index, by table.
type Segments = BTreeMap<&'static str, BTreeMap<usize, (PathBuf, String)>>;

fn list_segments(dir: &Path) -> Result<Segments, TraceError> {
    let mut segments = Segments::new();
    for entry in fs::read_dir(dir).map_err(|e| TraceError::io("list", dir, e))? {
        let entry = entry.map_err(|e| TraceError::io("list", dir, e))?;
        let name = entry.file_name();
        let Some((table, index, sum)) = name.to_str().and_then(parse_segment_name) else { continue };
        let found = (entry.path(), sum.to_owned());
        let length = |path: &Path| fs::metadata(path).map_or(0, |m| m.len());
        // A recorder killed between writing a longer version of a segment and removing the shorter
        // one leaves both; the longer holds all rows of the shorter.
        let slot = segments.entry(table).or_default().entry(index).or_insert_with(|| found.clone());
        if length(&found.0) > length(&slot.0) {
            *slot = found;
        }
    }
    Ok(segments)
}

/// One Parquet file with its footer.
#[derive(Debug)]
struct Table {
    file: CheckedFile,
    metadata: ArrowReaderMetadata,
    mask: ProjectionMask,
    layout: Layout,
    /// Rows decoded at once.
    batch_rows: usize,
}

impl Table {
    fn open(spec: &'static TableSpec, file: CheckedFile) -> Result<Table, TraceError> {
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

    fn rows(&self) -> u64 {
        let groups = self.metadata.metadata().row_groups();
        groups.iter().fold(0, |rows, group| rows.saturating_add(group.num_rows().max(0) as u64))
    }

    fn row_groups(&self) -> usize {
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
struct TableRows {
    tables: Vec<Arc<Table>>,
    table: usize,
    group: usize,
    decoder: Option<ParquetRecordBatchReader>,
    /// Rows handed out so far.
    row: u64,
}

impl TableRows {
    fn new(tables: Vec<Arc<Table>>) -> TableRows {
        TableRows { tables, table: 0, group: 0, decoder: None, row: 0 }
    }

    fn next(&mut self) -> Result<Option<(Layout, RecordBatch)>, TraceError> {
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

fn read_contexts(tables: &[Arc<Table>]) -> Result<Vec<Context>, TraceError> {
    let (mut rows, mut contexts) = (TableRows::new(tables.to_vec()), Vec::new());
    let mut budget = TableBudget::new(bytes_of(tables));
    while let Some((layout, batch)) = rows.next()? {
        decode_contexts(&layout, &batch, &mut budget, &mut contexts)?;
    }
    Ok(contexts)
}

fn read_files(tables: &[Arc<Table>]) -> Result<Vec<File>, TraceError> {
    let (mut rows, mut files) = (TableRows::new(tables.to_vec()), Vec::new());
    let mut budget = TableBudget::new(bytes_of(tables));
    while let Some((layout, batch)) = rows.next()? {
        decode_files(&layout, &batch, &mut budget, &mut files)?;
    }
    Ok(files)
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
