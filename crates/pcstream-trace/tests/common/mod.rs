//! Traces for tests.
#![allow(dead_code)] // every test file uses another part

use std::fs;
use std::path::{Path, PathBuf};

use pcstream_trace::*;
use proptest::prelude::*;
use serde_json::Value;

/// Size of the device of test traces, in pages.
pub const DEVICE_PAGES: u64 = 1 << 40;

/// Batches of a valid trace: up to six, each with up to 40 events and some table entries.
pub fn batches() -> impl Strategy<Value = Vec<Batch>> {
    let batch = (
        prop::collection::vec(context(), 0..5),
        prop::collection::vec((any::<u64>(), any::<u32>(), text()), 0..5),
        prop::collection::vec(event(), 0..40),
    );
    prop::collection::vec(batch, 0..6).prop_map(|raw| {
        let (mut contexts, mut files, mut time) = (0u32, 0u32, 0u64);
        let mut batches = Vec::new();
        for (raw_contexts, raw_files, raw_events) in raw {
            let mut batch = Batch::default();
            for context in raw_contexts {
                contexts += 1;
                batch.contexts.push(Context { id: ContextId(contexts), ..context });
            }
            for (inode, generation, path) in raw_files {
                files += 1;
                batch.files.push(File { id: FileId(files), inode, generation, path });
            }
            for mut event in raw_events {
                time = time.saturating_add(event.time_ns);
                event.time_ns = time;
                event.context.0 %= contexts + 1;
                event.file.0 %= files + 1;
                batch.events.push(event);
            }
            batches.push(batch);
        }
        batches
    })
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[a-z/.]{1,12}", "\\PC{0,8}"]
}

fn context() -> impl Strategy<Value = Context> {
    let frame = (text(), "[0-9a-f]{0,40}", any::<u64>(), text())
        .prop_map(|(module, build_id, offset, symbol)| Frame { module, build_id, offset, symbol });
    let frames = prop::collection::vec(frame, 0..6);
    (any::<u64>(), text(), text(), text(), prop::sample::select(&Unwind::ALL[..]), frames).prop_map(
        |(signature, executable, comm, entry, unwind, frames)| Context {
            id: ContextId::NONE,
            signature: Signature(signature),
            executable,
            comm,
            entry,
            unwind,
            frames,
        },
    )
}

fn event() -> impl Strategy<Value = Event> {
    let time = prop_oneof![0..3u64, any::<u64>().prop_map(|t| t >> 16)];
    let pages = prop_oneof![1..64u32, 1..u32::MAX];
    let file_page = prop_oneof![0..100u64, any::<u64>().prop_map(|p| p >> 1)];
    let op = prop::sample::select(&Op::ALL[..]);
    let kind = prop::sample::select(&Kind::ALL[..]);
    let life = prop::sample::select(&Life::ALL[..]);
    let hint = (life, any::<u8>()).prop_map(|(life, stream)| WriteHint { life, stream });
    let ids = (any::<u32>(), any::<u32>());
    (time, 0..DEVICE_PAGES - u64::from(u32::MAX), pages, ids, file_page, op, kind, hint).prop_map(
        |(time_ns, lba, pages, (context, file), file_page, op, kind, hint)| Event {
            time_ns,
            lba: Lba(lba),
            pages: if op.has_pages() { pages } else { 0 },
            context: ContextId(context >> 1),
            file: FileId(file >> 1),
            file_page,
            op,
            kind,
            hint,
        },
    )
}

/// A small fixed trace with every kind of entry.
pub fn small() -> Batch {
    let frame = |offset| Frame {
        module: "/usr/bin/db".into(),
        build_id: "c0ffee".into(),
        offset,
        symbol: "db::flush".into(),
    };
    let context = |id, unwind, frames| Context {
        id: ContextId(id),
        signature: Signature(u64::from(id).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        executable: "/usr/bin/db".into(),
        comm: "db".into(),
        entry: "pwrite64".into(),
        unwind,
        frames,
    };
    let file =
        |id, path: &str| File { id: FileId(id), inode: u64::from(id) + 10, generation: 7, path: path.into() };
    let events = (0..200u32).map(|i| {
        // The digest of these events is a golden value: no newer operation is among them.
        let op = Op::ALL[i as usize % 5];
        Event {
            time_ns: u64::from(i) * 1000,
            lba: Lba(u64::from(i) * 37 % 900),
            pages: if op.has_pages() { 1 + i % 9 } else { 0 },
            context: ContextId(i % 3),
            file: FileId(i % 4),
            file_page: u64::from(i),
            op,
            kind: Kind::ALL[i as usize % 6],
            hint: Default::default(),
        }
    });
    Batch {
        contexts: vec![
            context(1, Unwind::Scan, (0..5).map(frame).collect()),
            context(2, Unwind::None, Vec::new()),
        ],
        files: vec![file(1, "/a.log"), file(2, "/b.sst"), file(3, "")],
        events: events.collect(),
    }
}

/// Everything that batches carry, joined.
pub fn join(batches: impl IntoIterator<Item = Batch>) -> Batch {
    batches.into_iter().fold(Batch::default(), |mut all, batch| {
        all.contexts.extend(batch.contexts);
        all.files.extend(batch.files);
        all.events.extend(batch.events);
        all
    })
}

/// All batches of a trace, joined.
pub fn read(reader: &TraceReader) -> Result<Batch, TraceError> {
    Ok(join(reader.batches().collect::<Result<Vec<_>, _>>()?))
}

/// A finished trace of `small()` in several row groups.
pub fn fixed(dir: &Path) -> PathBuf {
    let path = dir.join("t.pctrace");
    let mut writer = TraceWriter::create(&path, Meta::new("d", 1000), false).unwrap();
    writer.set_row_group_rows(60);
    writer.write_batch(&small()).unwrap();
    writer.finish(None).unwrap().path
}

pub fn open_and_read(path: &Path) -> Result<Batch, TraceError> {
    TraceReader::open(path).and_then(|reader| read(&reader))
}

pub fn edit_meta(path: &Path, edit: impl FnOnce(&mut Value)) {
    let file = path.join("meta.json");
    let mut meta: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    edit(&mut meta);
    fs::write(file, serde_json::to_vec(&meta).unwrap()).unwrap();
}
