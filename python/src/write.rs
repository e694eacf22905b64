//! Traces from columns of events: workloads that are made in Python.

use std::path::PathBuf;

use pcstream_trace::{
    Batch, Context, ContextId, Event, Extent, File, FileId, Kind, Lba, Life, Meta, Op, TraceError,
    TraceWriter, WriteHint,
};
use pyo3::prelude::*;

use crate::errors;
use crate::stop::Stop;

/// Events of a batch.
const BATCH_EVENTS: usize = 8192;

/// Bytes of the machine's order.
type Bytes<'a> = &'a [u8];

/// Columns of equal length: op, kind, hint and write_stream as u8, time_ns and lba as u64, pages, context and file as u32,
/// file_page as u64.
#[rustfmt::skip]
type Columns<'a> = (
    Bytes<'a>, Bytes<'a>, Bytes<'a>, Bytes<'a>, Bytes<'a>, Bytes<'a>, Bytes<'a>, Bytes<'a>, Bytes<'a>, Bytes<'a>,
);

/// Writes a trace of a device with `sizes.0` pages, the first `sizes.1` of which held data before. `names` are the labels of
/// contexts 1, 2, ... and the paths of files 1, 2, ...; `made_times` says that the caller had no times.
#[pyfunction]
pub fn write(
    py: Python<'_>,
    output: PathBuf,
    columns: Columns<'_>,
    sizes: (u64, u64),
    names: (Vec<String>, Vec<String>),
    made_times: bool,
    overwrite: bool,
) -> PyResult<()> {
    let (device_pages, prefilled) = sizes;
    let mut meta = Meta::new("made in Python", device_pages);
    if made_times {
        meta.settings.insert("generator".to_owned(), "python".into());
    }
    meta.losses.insert("events".to_owned(), 0);
    if prefilled > 0 {
        meta.prefilled = vec![Extent { lba: Lba(0), pages: prefilled }];
    }
    let (labels, paths) = names;
    let contexts = (1..).zip(&labels).map(|(id, label)| Context::label(ContextId(id), label)).collect();
    let files = (1..).zip(&paths).map(|(id, path)| file(id, path)).collect();
    let events = events(columns)?;
    let stop = Stop::default();
    py.detach(|| {
        let mut watch = stop.watch();
        let mut writer = TraceWriter::create(&output, meta, overwrite)?;
        let mut written = writer.write_batch(&Batch { contexts, files, ..Batch::default() });
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

fn file(id: u32, path: &str) -> File {
    let root = if path.starts_with('/') { "" } else { "/" };
    File { id: FileId(id), inode: id.into(), generation: 0, path: format!("{root}{path}") }
}

fn events(columns: Columns<'_>) -> PyResult<Vec<Event>> {
    let (op, kind, life, stream, time_ns, lba, pages, context, file, file_page) = columns;
    let (time_ns, lba, file_page) = (u64s(time_ns), u64s(lba), u64s(file_page));
    let (pages, context, file) = (u32s(pages), u32s(context), u32s(file));
    let event = |row: usize| {
        let (op, kind) = (usize::from(op[row]), usize::from(kind[row]));
        let life = Life::ALL.get(usize::from(life[row])).copied();
        Some(Event {
            time_ns: time_ns[row],
            lba: Lba(lba[row]),
            pages: pages[row],
            context: ContextId(context[row]),
            file: FileId(file[row]),
            file_page: file_page[row],
            op: Op::ALL.get(op).copied()?,
            kind: Kind::ALL.get(kind).copied()?,
            hint: WriteHint { life: life?, stream: stream[row] },
        })
    };
    let event = |row| event(row).ok_or_else(|| errors::argument("op, kind or hint: no such number"));
    (0..op.len()).map(event).collect()
}

fn u64s(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks().0.iter().map(|&bytes| u64::from_ne_bytes(bytes)).collect()
}

fn u32s(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks().0.iter().map(|&bytes| u32::from_ne_bytes(bytes)).collect()
}
