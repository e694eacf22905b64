//! Writing a trace.
//!
//! Rows of each table collect in memory until a row group is full or `flush` is called; either way
//! they become a segment file. A segment that was flushed early is written again, longer, until it
//! is full, so a partial trace has at most one file per row group and one more.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::META_FILE;
use super::chain::Chain;
use super::check::EventCheck;
use super::dir::{Dir, Parent};
use super::error::TraceError;
use super::files::partial_path;
use super::limits::{check_context, check_file};
use crate::event::Event;
use crate::ids::{ContextId, Signature};
use crate::meta::{Digest, FileSums, FormatVersion, Meta, Totals};
use crate::tables::{Batch, Context, File};

/// What a finished trace amounts to.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Where the trace is.
    pub path: PathBuf,
    /// Size of its files in bytes.
    pub bytes: u64,
    /// Its meta, as stored.
    pub meta: Meta,
}

/// Writes a trace. Dropped without `finish`, it leaves what was flushed as `PATH.partial`, which
/// `TraceReader` opens as a damaged trace.
#[derive(Debug)]
pub struct TraceWriter {
    target: PathBuf,
    parent: Parent,
    dir: Dir,
    overwrite: bool,
    meta: Meta,
    /// Those of `meta`, which others may change.
    totals: Totals,
    check: EventCheck,
    digest: Digest,
    signatures: Vec<Signature>,
    contexts: Chain<Context>,
    files: Chain<File>,
    events: Chain<Event>,
}

impl TraceWriter {
    /// Begins a trace that will be at `target` once finished. `meta` may still change until then
    /// (`meta_mut`); the writer itself sets its version, id, totals, checksums and `complete`.
    /// `overwrite` allows to replace an existing trace, whole or partial, and nothing else. A partial
    /// one that is complete, and lacks its name only, is never replaced.
    pub fn create(target: impl AsRef<Path>, meta: Meta, overwrite: bool) -> Result<TraceWriter, TraceError> {
        let target = target.as_ref().to_owned();
        meta.check().map_err(|problem| TraceError::Meta { path: target.clone(), problem })?;
        let parent = Parent::of(&target)?;
        if parent.has(&target) {
            if !overwrite {
                return Err(TraceError::Exists(target));
            }
            parent.open(&target)?.trace_files()?;
        }
        let partial = partial_path(&target);
        if parent.has(&partial) {
            let old = parent.open(&partial)?;
            old.lock(true)?;
            if !overwrite {
                return Err(TraceError::Exists(partial));
            }
            if old.is_complete() {
                return Err(TraceError::Unnamed(partial));
            }
            parent.remove(&old)?;
        }
        let dir = parent.make(&partial)?;
        let check = EventCheck::new(meta.device.pages, 0, 0);
        let mut writer = TraceWriter {
            target,
            parent,
            dir,
            overwrite,
            meta,
            totals: Totals::default(),
            check,
            digest: Digest::default(),
            signatures: Vec::new(),
            contexts: Chain::new(),
            files: Chain::new(),
            events: Chain::new(),
        };
        if let Err(error) = writer.write_meta(None).and_then(|_| writer.dir.check_owner(META_FILE)) {
            // Nothing has been written that could be missed; what went wrong first is the error.
            _ = writer.abandon();
            return Err(error);
        }
        Ok(writer)
    }

    /// Sets how many rows make a row group and a segment, in all tables; at least 1, before the first
    /// batch. The default suits traces of any size; tests use small ones to see many segments.
    pub fn set_row_group_rows(&mut self, rows: usize) {
        assert!(rows > 0, "a row group has at least one row");
        assert_eq!(self.totals, Totals::default(), "row groups are sized before the first batch");
        (self.contexts.limit, self.files.limit, self.events.limit) = (rows, rows, rows);
    }

    /// Where the trace will be.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// The meta so far, totals included.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The meta, to be completed while the trace is written: losses, exit status, device size.
    /// Changes reach the disk with the next `flush`; events may lie on the larger device at once. What
    /// the writer sets itself, it sets again.
    pub fn meta_mut(&mut self) -> &mut Meta {
        &mut self.meta
    }

    /// Appends a batch. Of a batch that breaks a rule nothing is taken. After an error of the disk a
    /// part of it may be. Either way the writer remains usable for `flush` and `abandon`.
    pub fn write_batch(&mut self, batch: &Batch) -> Result<(), TraceError> {
        self.check_batch(batch)?;
        self.totals.add_batch(batch);
        self.meta.totals = self.totals;
        self.digest.update(&batch.events);
        for context in &batch.contexts {
            self.signatures.push(context.signature);
            self.contexts.push(context.clone(), &self.dir)?;
        }
        for file in &batch.files {
            self.files.push(file.clone(), &self.dir)?;
        }
        let mut rest = batch.events.as_slice();
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(self.events.room()));
            self.events.rows.extend_from_slice(now);
            rest = later;
            if self.events.room() == 0 {
                // A segment of events never refers to table entries that are not on disk.
                self.contexts.flush(&self.dir)?;
                self.files.flush(&self.dir)?;
                self.events.seal(&self.dir)?;
            }
        }
        Ok(())
    }

    /// Checks a batch as a whole, so that a bad one leaves nothing behind.
    fn check_batch(&mut self, batch: &Batch) -> Result<(), TraceError> {
        let Totals { events, contexts, files, .. } = self.totals;
        let table = |row, problem| TraceError::Table { path: self.target.clone(), row, problem };
        for (row, context) in (contexts..).zip(&batch.contexts) {
            check_id("context", context.id.0, row)
                .and_then(|()| check_context(context))
                .map_err(|problem| table(row, problem))?;
        }
        for (row, file) in (files..).zip(&batch.files) {
            check_id("file", file.id.0, row)
                .and_then(|()| check_file(file))
                .map_err(|problem| table(row, problem))?;
        }
        let EventCheck { last_ns, highest_end, .. } = self.check;
        let (contexts, files) = (contexts + batch.contexts.len() as u64, files + batch.files.len() as u64);
        let mut check = EventCheck {
            last_ns,
            highest_end,
            // A device may grow meanwhile.
            ..EventCheck::new(self.meta.device.pages, contexts, files)
        };
        for (row, event) in (events..).zip(&batch.events) {
            check.check(event).map_err(|fault| TraceError::Event {
                path: self.target.clone(),
                row,
                fault,
            })?;
        }
        self.check = check;
        Ok(())
    }

    /// Makes everything written so far, and `meta`, survive the death of this process. A capture
    /// calls this every few seconds; an unchanged table costs nothing.
    pub fn flush(&mut self) -> Result<(), TraceError> {
        self.contexts.flush(&self.dir)?;
        self.files.flush(&self.dir)?;
        self.events.flush(&self.dir)?;
        self.write_meta(None).map(drop)
    }

    /// Finishes the trace and gives it its name. `symbols` may hold the contexts again, in the same
    /// order and with the same ids and signatures, now with symbol names: they replace the ones
    /// written so far.
    pub fn finish(mut self, symbols: Option<&[Context]>) -> Result<Summary, TraceError> {
        self.complete(symbols)
    }

    /// As `finish`, but leaves nothing of a trace that cannot be finished: for one that can be made again.
    pub fn finish_or_remove(mut self) -> Result<Summary, TraceError> {
        let finished = self.complete(None);
        if finished.is_err() && self.dir.path() != self.target {
            // What went wrong first is the error.
            _ = self.abandon();
        }
        finished
    }

    fn complete(&mut self, symbols: Option<&[Context]>) -> Result<Summary, TraceError> {
        self.check_finish()?;
        if let Some(contexts) = symbols {
            self.check_symbols(contexts)?;
            self.contexts.replace(contexts);
        }
        let mut sums = BTreeMap::new();
        sums.insert("contexts.parquet".to_owned(), self.contexts.finish(&self.dir)?);
        sums.insert("files.parquet".to_owned(), self.files.finish(&self.dir)?);
        sums.insert("events.parquet".to_owned(), self.events.finish(&self.dir)?);
        let bytes = sums.values().map(|s| s.bytes).sum::<u64>();
        let bytes = bytes + self.write_meta(Some(sums))?;
        self.contexts.remove_segments(&self.dir)?;
        self.files.remove_segments(&self.dir)?;
        self.events.remove_segments(&self.dir)?;
        self.publish()?;
        Ok(Summary { path: self.target.clone(), bytes, meta: self.meta.clone() })
    }

    /// Symbols may be added to contexts, but not contexts to the table.
    fn check_symbols(&self, contexts: &[Context]) -> Result<(), TraceError> {
        let error = |row, problem| Err(TraceError::Table { path: self.target.clone(), row, problem });
        if contexts.len() != self.signatures.len() {
            let problem =
                format!("{} contexts with symbols, expected {}", contexts.len(), self.signatures.len());
            return error(contexts.len() as u64, problem);
        }
        for (row, (context, &signature)) in (0..).zip(contexts.iter().zip(&self.signatures)) {
            let id = ContextId(row as u32 + 1);
            if (context.id, context.signature) != (id, signature) {
                let Context { id: found, signature: s, .. } = context;
                let problem =
                    format!("context {} ({s}), expected {} ({signature}) as written", found.0, id.0);
                return error(row, problem);
            }
            check_context(context).or_else(|problem| error(row, problem))?;
        }
        Ok(())
    }

    /// Checks the final meta against the events: it may have changed since the events were checked.
    fn check_finish(&self) -> Result<(), TraceError> {
        let error = |problem| Err(TraceError::Meta { path: self.target.clone(), problem });
        if let Err(problem) = self.meta.check() {
            return error(problem);
        }
        let pages = self.meta.device.pages;
        if pages == 0 || self.check.highest_end > pages {
            return error(format!(
                "device.pages is {pages}, expected at least {}, where the last event ends",
                self.check.highest_end.max(1)
            ));
        }
        Ok(())
    }

    /// Moves the finished directory to its name.
    fn publish(&mut self) -> Result<(), TraceError> {
        if !self.parent.has(&self.target) {
            return self.parent.rename(&mut self.dir, &self.target);
        }
        if !self.overwrite {
            return Err(TraceError::Exists(self.target.clone()));
        }
        let old = self.parent.open(&self.target)?;
        old.trace_files()?;
        self.parent.replace(&mut self.dir, old)
    }

    /// Gives the trace up and removes what was written of it.
    pub fn abandon(self) -> Result<(), TraceError> {
        self.parent.remove(&self.dir)
    }

    /// Writes `meta.json`, that of a complete trace if there are checksums, and returns its length.
    fn write_meta(&mut self, sums: Option<BTreeMap<String, FileSums>>) -> Result<u64, TraceError> {
        self.meta.format_version = FormatVersion::CURRENT;
        self.meta.complete = sums.is_some();
        self.meta.trace_id = sums.as_ref().map_or_else(String::new, |_| self.digest.id());
        self.meta.totals = self.totals;
        self.meta.checksums = sums.unwrap_or_default();
        let mut text = serde_json::to_vec_pretty(&self.meta)
            .map_err(|e| TraceError::io("encode", &self.dir.path().join(META_FILE), e.into()))?;
        text.push(b'\n');
        self.dir.replace_file(META_FILE, &text)?;
        Ok(text.len() as u64)
    }
}

/// A table's ids count its rows from 1.
fn check_id(what: &str, found: u32, row: u64) -> Result<(), String> {
    if u64::from(found) == row + 1 {
        return Ok(());
    }
    Err(format!("{what} {found}, expected {}: ids are dense", row + 1))
}
