//! Small helpers of this crate's tests.

use pcstream_trace::{Context, ContextId, Event, File, FileId, Op, Signature, Tables};

use crate::parameter::Environment;
use crate::scheme::{Placement, Scheme};

/// A device with so many streams.
pub(crate) fn device(streams: u8) -> Environment {
    Environment::new(streams).expect("there are streams")
}

/// A data write of unknown origin.
pub(crate) fn write(lba: u64, pages: u32) -> Event {
    Event::write(lba, pages)
}

/// Places one write at time 0 with empty tables.
pub(crate) fn placements(scheme: &mut impl Scheme, event: &Event) -> Vec<Placement> {
    let mut out = Vec::new();
    scheme.place(event, 0, &Tables::default(), &mut out);
    out
}

/// Tables with these contexts (executable, thread name; the signature is 1000 + id) and file paths.
pub(crate) fn tables(contexts: &[(&str, &str)], paths: &[&str]) -> Tables {
    let mut tables = Tables::default();
    for (i, (executable, comm)) in contexts.iter().enumerate() {
        let id = i as u32 + 1;
        tables.push_context(Context {
            id: ContextId(id),
            signature: Signature(1000 + u64::from(id)),
            executable: (*executable).to_owned(),
            comm: (*comm).to_owned(),
            ..Context::default()
        });
    }
    for (i, path) in paths.iter().enumerate() {
        tables.push_file(File { id: FileId(i as u32 + 1), path: (*path).to_owned(), ..File::default() });
    }
    tables
}

/// A discard.
pub(crate) fn discard(lba: u64, pages: u32) -> Event {
    Event { op: Op::Discard, ..write(lba, pages) }
}
