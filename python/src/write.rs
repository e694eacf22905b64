//! Traces from columns of events: workloads that are made in Python.

use std::path::PathBuf;

use pcstream_trace::{
    Batch, Context, ContextId, Event, Extent, FileId, Kind, Lba, Meta, Op, TraceError, TraceWriter, WriteHint,
};
use pyo3::prelude::*;

use crate::errors;
use crate::stop::Stop;

/// Events of a batch.
const BATCH_EVENTS: usize = 8192;

/// Columns of equal length, as bytes of the machine's order: time_ns and lba as u64, pages and context as u32, op and kind as
/// u8.
type Columns<'a> = (&'a [u8], &'a [u8], &'a [u8], &'a [u8], &'a [u8], &'a [u8]);

/// Writes a trace of a device with `sizes.0` pages, the first `sizes.1` of which held data before. Contexts 1, 2, ... have
/// these labels.
#[pyfunction]
pub fn write(
    py: Python<'_>,
    output: PathBuf,
    columns: Columns<'_>,
    sizes: (u64, u64),
    labels: Vec<String>,
    overwrite: bool,
) -> PyResult<()> {
    let (device_pages, prefilled) = sizes;
    let mut meta = Meta::new("made in Python", device_pages);
    meta.settings.insert("generator".to_owned(), "python".into());
    meta.losses.insert("events".to_owned(), 0);
    if prefilled > 0 {
        meta.prefilled = vec![Extent { lba: Lba(0), pages: prefilled }];
    }
    let contexts = (1..).zip(&labels).map(|(id, label)| Context::label(ContextId(id), label)).collect();
    let events = events(columns)?;
    let stop = Stop::default();
    py.detach(|| {
        let mut watch = stop.watch();
        let mut writer = TraceWriter::create(&output, meta, overwrite)?;
        let mut written = writer.write_batch(&Batch { contexts, ..Batch::default() });
        for events in events.chunks(BATCH_EVENTS) {
            watch();
            if written.is_err() || stop.asked() {
                break;
            }
            written = writer.write_batch(&Batch { events: events.to_vec(), ..Batch::default() });
        }
        if written.is_err() || stop.asked() {
            writer.abandon()?;
            return written;
        }
        writer.finish_or_remove().map(drop)
    })
    .map_err(|error: TraceError| errors::trace(&error))?;
    stop.check()
}

fn events((time_ns, lba, pages, context, op, kind): Columns<'_>) -> PyResult<Vec<Event>> {
    let rows = op.iter().zip(kind).zip(numbers(time_ns, u64::from_ne_bytes));
    let rows = rows.zip(numbers(lba, u64::from_ne_bytes)).zip(numbers(pages, u32::from_ne_bytes));
    let rows = rows.zip(numbers(context, u32::from_ne_bytes));
    let event = |(((((&op, &kind), time_ns), lba), pages), context)| {
        let op = Op::ALL.get(usize::from(op)).copied();
        let kind = Kind::ALL.get(usize::from(kind)).copied();
        let (op, kind) = op.zip(kind).ok_or_else(|| errors::argument("op or kind: no such number"))?;
        let (context, file, hint) = (ContextId(context), FileId::NONE, WriteHint::NONE);
        Ok(Event { time_ns, lba: Lba(lba), pages, context, file, file_page: 0, op, kind, hint })
    };
    rows.map(event).collect()
}

/// The numbers of a column.
fn numbers<const N: usize, T>(bytes: &[u8], number: fn([u8; N]) -> T) -> impl Iterator<Item = T> {
    bytes.as_chunks().0.iter().map(move |&bytes| number(bytes))
}
