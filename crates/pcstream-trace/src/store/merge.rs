//! Several traces as one: programs that were recorded apart, as if they had run at the same time on one device.
//!
//! Address spaces lie one behind the other, in the order of the traces. Times begin together, or later by an offset of
//! each trace. Contexts with the same signature are the same call path and become one. Files never do, since each trace
//! has its own file system. What was lost in any of them is lost in the whole, and a trace that was not finished counts
//! as a loss of its own.

use std::collections::HashMap;

use serde_json::Value;

use super::error::TraceError;
use super::reader::{Batches, TraceReader};
use crate::event::{Event, MAX_TIME_NS};
use crate::ids::{ContextId, FileId, Lba, Signature};
use crate::meta::{Extent, Meta};
use crate::tables::{Batch, Context, File};

/// Events in a batch.
const BATCH_EVENTS: usize = 8 * 1024;

/// The setting that names what generated a trace.
const GENERATOR: &str = "generator";

/// Loss counter of traces that were not finished, of which another trace is made.
pub const UNFINISHED: &str = "unfinished_traces";

/// Several traces on their way into one.
pub struct Merged {
    meta: Meta,
    /// All contexts and files, until the first batch has carried them.
    tables: Option<Batch>,
    inputs: Vec<Input>,
}

struct Input {
    batches: Batches,
    events: std::vec::IntoIter<Event>,
    next: Option<Event>,
    /// New id of each context, by its old one.
    contexts: Vec<ContextId>,
    /// What is added to ids of files.
    files: u32,
    /// What is added to addresses.
    pages: u64,
    /// What is added to times.
    offset_ns: u64,
}

impl Merged {
    /// Of traces whose devices' sizes are known, each later by the nanoseconds at its place; what has none begins at 0.
    pub fn new(readers: &[TraceReader], offsets_ns: &[u64]) -> Result<Merged, TraceError> {
        let mut meta = Meta::new("merged", 0);
        let (mut contexts, mut files) = (Vec::new(), Vec::new());
        let mut known: HashMap<Signature, ContextId> = HashMap::new();
        let mut inputs = Vec::new();
        for (at, reader) in readers.iter().enumerate() {
            let offset_ns = offsets_ns.get(at).copied().unwrap_or(0);
            let (pages, first_file) = (meta.device.pages, files.len() as u32);
            add_meta(&mut meta, reader, offset_ns)?;
            let mut new_ids = vec![ContextId::NONE];
            for context in reader.contexts() {
                let id = *known.entry(context.signature).or_insert_with(|| {
                    let id = ContextId(contexts.len() as u32 + 1);
                    contexts.push(Context { id, ..context.clone() });
                    id
                });
                new_ids.push(id);
            }
            for file in reader.files() {
                files.push(File { id: FileId(file.id.0 + first_file), ..file.clone() });
            }
            inputs.push(Input {
                batches: reader.batches(),
                events: Vec::new().into_iter(),
                next: None,
                contexts: new_ids,
                files: first_file,
                pages,
                offset_ns,
            });
        }
        inputs.iter_mut().try_for_each(Input::advance)?;
        Ok(Merged { meta, tables: Some(Batch { contexts, files, events: Vec::new() }), inputs })
    }

    /// What the merged trace says about itself.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    fn next_batch(&mut self) -> Result<Option<Batch>, TraceError> {
        let first = self.tables.take();
        let is_first = first.is_some();
        let mut batch = first.unwrap_or_default();
        while batch.events.len() < BATCH_EVENTS {
            // The earliest; of equals the first trace's.
            let waiting = self.inputs.iter_mut().filter(|input| input.next.is_some());
            let Some(input) = waiting.min_by_key(|input| input.next.map(|event| event.time_ns)) else {
                break;
            };
            batch.events.extend(input.next);
            input.advance()?;
        }
        Ok((is_first || !batch.events.is_empty()).then_some(batch))
    }
}

impl Iterator for Merged {
    type Item = Result<Batch, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().transpose()
    }
}

impl Input {
    /// Fetches the next event, in the words of the merged trace.
    fn advance(&mut self) -> Result<(), TraceError> {
        self.next = loop {
            if let Some(event) = self.events.next() {
                break Some(event);
            }
            match self.batches.next().transpose()? {
                None => break None,
                Some(batch) => self.events = batch.events.into_iter(),
            }
        };
        if let Some(event) = &mut self.next {
            event.time_ns = event.time_ns.saturating_add(self.offset_ns);
            event.lba = Lba(event.lba.0 + self.pages);
            event.context = self.contexts[event.context.0 as usize];
            event.file.0 += if event.file.is_some() { self.files } else { 0 };
        }
        Ok(())
    }
}

/// Adds a trace's device, losses and origin.
fn add_meta(meta: &mut Meta, reader: &TraceReader, offset_ns: u64) -> Result<(), TraceError> {
    let (from, path) = (reader.meta(), reader.path().display().to_string());
    let problem =
        |problem: &str| TraceError::Meta { path: reader.path().to_owned(), problem: problem.to_owned() };
    if from.device.pages == 0 {
        return Err(problem("device.pages is 0: the size of its device is not known"));
    }
    if from.totals.duration_ns.checked_add(offset_ns).is_none_or(|end| end > MAX_TIME_NS) {
        return Err(problem(
            "totals.duration_ns: with its offset it ends behind the last time that a trace can have, 146 years; expected a \
             smaller offset",
        ));
    }
    let behind = meta.device.pages;
    meta.device.pages =
        behind.checked_add(from.device.pages).ok_or_else(|| problem("the devices together are too large"))?;
    meta.prefilled
        .extend(from.prefilled.iter().map(|e| Extent { lba: Lba(e.lba.0 + behind), pages: e.pages }));
    for (cause, count) in &from.losses {
        let sum = meta.losses.entry(cause.clone()).or_default();
        *sum = sum.saturating_add(*count);
    }
    *meta.losses.entry(UNFINISHED.to_owned()).or_default() += u64::from(!from.complete);
    keep_generator(meta, from);
    let origin = serde_json::json!({
        "path": path, "trace_id": from.trace_id, "command": from.command, "first_page": behind,
        "pages": from.device.pages, "offset_ns": offset_ns,
    });
    let traces = meta.settings.entry("merged".to_owned()).or_insert_with(|| serde_json::json!([]));
    traces.as_array_mut().expect("it was made above").push(origin);
    Ok(())
}

/// Notes what generated a trace: its times, and so those of the whole, are not those of a program that ran.
fn keep_generator(meta: &mut Meta, from: &Meta) {
    let of = |meta: &Meta| meta.settings.get(GENERATOR).and_then(Value::as_str).map(str::to_owned);
    let (known, more) = (of(meta), of(from));
    let mut all: Vec<&str> = Vec::new();
    for name in known.iter().chain(&more).flat_map(|names| names.split(", ")) {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    if !all.is_empty() {
        meta.settings.insert(GENERATOR.to_owned(), all.join(", ").into());
    }
}
