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
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use serde::Deserialize;

use super::META_FILE;
use super::check::EventCheck;
use super::decode::{Layout, decode_contexts, decode_events, decode_files};
use super::dir::Dir;
use super::error::TraceError;
use super::files::{CheckedFile, parse_segment_name, partial_path, read_meta_text};
use super::schema::{CONTEXTS, EVENTS, FILES, TableSpec};
use super::table::{Table, TableRows, read_rows};
use crate::meta::{FormatVersion, Meta, Totals};
use crate::tables::{Batch, Context, File};

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
        let meta = read_meta(&path)?;
        if meta.complete {
            return TraceReader::open_complete(path, meta);
        }
        let dir = Dir::open(&path)?;
        dir.lock(false)?;
        let mut reader = TraceReader::open_partial(path, meta)?;
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
        let contexts = read_rows(&[Arc::new(contexts)], decode_contexts)?;
        let files = read_rows(&[Arc::new(files)], decode_files)?;
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

    fn open_partial(path: PathBuf, meta: Meta) -> Result<TraceReader, TraceError> {
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
        let contexts = read_rows(&contexts, decode_contexts)?;
        let files = read_rows(&files, decode_files)?;
        let (damage, readable) = (Some(damage.join("; ")), u64::MAX);
        Ok(TraceReader { path, meta, damage, contexts, files, events, readable, _lock: None })
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
        let (contexts, files) = (self.contexts.len() as u64, self.files.len() as u64);
        let check = EventCheck::new(self.meta.device.pages, contexts, files);
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
