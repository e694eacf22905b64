//! Records become events: of whole pages, with contexts and files that were named before.

use super::requests::request;
use super::*;
use crate::wire::{ContextRecord, IoRecord, IoSource, Owner};
use pcstream_fs::layout::{PageRange, StaticRange};
use pcstream_fs::scratch::FsKind;
use pcstream_trace::{Kind, Lba};

const LIMITS: Limits = Limits { depth: 12, scan_depth: 5, fall_back: true };

fn joiner() -> Joiner {
    let journal = StaticRange { start: Lba(100), pages: 50, kind: Kind::Journal };
    let used = PageRange { start: Lba(0), pages: 200 };
    let mut joiner = Joiner::new(1_000, LIMITS, Order::Hash);
    joiner.begin(Layout::new(FsKind::Ext4, vec![journal], vec![used]).unwrap());
    joiner
}

fn write(sector: u64, bytes: u32) -> IoRecord {
    IoRecord { r#type: 1, op: request::WRITE, time_ns: 5_000, sector, bytes, ..Default::default() }
}

fn of_file(record: IoRecord, inode: u64, context: u64) -> IoRecord {
    let owner = Owner { inode, context, generation: 7, source: IoSource::SOURCE_CACHE.0 };
    IoRecord { owner, file_page: 3, ..record }
}

#[test]
fn nothing_is_an_event_before_the_capture_begins() {
    let mut join = Joiner::new(1_000, LIMITS, Order::Hash);
    join.take(Record::Context(Box::new(ContextRecord { key: 9, entry: 1, ..Default::default() })));
    join.take(Record::Io(of_file(write(8 * 300, 4096), 12, 9)));
    assert_eq!((join.drain().events.len(), join.counts()), (0, JoinCounts::default()));
    join.begin(Layout::new(FsKind::Ext4, Vec::new(), Vec::new()).unwrap());
    join.take(Record::Io(of_file(write(8 * 300, 4096), 12, 9)));
    assert_eq!(join.drain().events[0].context, ContextId(1), "but names are known from before");
}

#[test]
fn partial_pages_are_written_whole_and_not_discarded() {
    let mut join = joiner();
    join.take(Record::Io(write(804, 512)));
    join.take(Record::Io(IoRecord { op: request::DISCARD, ..write(1, 4096 * 2) }));
    join.take(Record::Io(IoRecord { op: request::DISCARD, ..write(1, 512) }));
    let events = join.drain().events;
    assert_eq!(events.len(), 2);
    assert_eq!((events[0].lba, events[0].pages, events[0].op), (Lba(100), 1, Op::Write));
    assert_eq!((events[1].lba, events[1].pages, events[1].op), (Lba(1), 1, Op::Discard));
    assert_eq!(events[0].kind, Kind::Journal);
    assert_eq!(events[0].time_ns, 4_000);
    assert_eq!(join.counts().uncovered_bytes, 7 * 512);
}

#[test]
fn who_makes_a_file_dirty_is_said_before_its_events_and_without_others() {
    let mut join = joiner();
    join.tell_first_writers();
    let file =
        |inode, key| Record::File(Box::new(PathRecord { inode, generation: 7, key, ..Default::default() }));
    join.take(Record::Context(Box::new(ContextRecord { key: 9, entry: 1, ..Default::default() })));
    join.take(Record::Io(of_file(write(8 * 300, 4096), 11, 9)));
    [file(12, 9), file(13, 0), file(14, wire::CONTEXT_OF_OTHERS)].into_iter().for_each(|f| join.take(f));
    let names = join.drain_names();
    assert_eq!((names.contexts.len(), names.files.len(), names.events.len()), (1, 4, 0));
    assert_eq!(join.take_first_writers(), [(names.files[1].id, ContextId(1))]);
    assert_eq!((join.take_first_writers().len(), join.drain().events.len()), (0, 1));
}

#[test]
fn contexts_beyond_the_limit_are_counted_and_not_kept() {
    let mut join = joiner();
    join.most_contexts = 2;
    let context = |key, entry| Record::Context(Box::new(ContextRecord { key, entry, ..Default::default() }));
    for (key, entry) in [(1, 1), (2, 2), (3, 3), (4, 2), (3, 3)] {
        join.take(context(key, entry));
    }
    assert_eq!((join.context_count(), join.counts().contexts_over_limit), (2, 2));
    assert_eq!(join.by_signature.len(), 2);
    let keys: Vec<_> = join.take_keys().iter().map(|(key, id)| (*key, id.0)).collect();
    assert_eq!(keys, [(1, 1), (2, 2), (4, 2)], "another key of a known path has room");
    join.take(Record::Io(of_file(write(8 * 300, 4096), 12, 3)));
    assert_eq!((join.counts().unresolved_contexts, join.counts().covered_pages), (1, 0));
}

/// The last one may take more than is left.
#[test]
fn contexts_beyond_the_memory_are_counted_and_not_kept() {
    let mut join = joiner();
    join.context_bytes_left = size_of::<Context>() + 1;
    let context = |key, entry| Record::Context(Box::new(ContextRecord { key, entry, ..Default::default() }));
    for (key, entry) in [(1, 1), (2, 2), (3, 3), (4, 2)] {
        join.take(context(key, entry));
    }
    assert_eq!((join.context_count(), join.counts().contexts_over_limit), (1, 3));
    join.take(context(5, 1));
    assert_eq!(join.counts().contexts_over_limit, 3, "another key of a known path has room");
}

#[test]
fn a_context_and_a_file_come_before_their_first_event() {
    let mut join = joiner();
    join.take(Record::Context(Box::new(ContextRecord { key: 9, entry: 1, ..Default::default() })));
    join.take(Record::File(Box::new(PathRecord { inode: 12, generation: 7, ..Default::default() })));
    join.take(Record::Io(of_file(write(8 * 300, 8192), 12, 9)));
    let batch = join.drain();
    assert_eq!(batch.contexts.len(), 1);
    assert_eq!(batch.files.len(), 1);
    let event = batch.events[0];
    assert_eq!((event.context, event.file, event.file_page), (ContextId(1), FileId(1), 3));
    assert_eq!((event.kind, event.pages), (Kind::Data, 2));
    assert_eq!((join.counts().data_pages, join.counts().covered_pages), (2, 2));
}

#[test]
fn data_go_by_the_name_that_a_file_has_then() {
    let mut join = joiner();
    let named = |path: &str| {
        let mut record = PathRecord { inode: 12, generation: 7, ..Default::default() };
        record.components = 1;
        record.length[0] = path.len() as u8;
        record.text[..path.len()].copy_from_slice(path.as_bytes());
        Record::File(Box::new(record))
    };
    for path in ["a", "a", "b"] {
        join.take(named(path));
        join.take(Record::Io(of_file(write(8 * 300, 4096), 12, 0)));
    }
    let batch = join.drain();
    let names: Vec<_> = batch.files.iter().map(|file| (file.inode, file.path.as_str())).collect();
    assert_eq!(names, [(12, "/a"), (12, "/b")]);
    assert_eq!(batch.events.iter().map(|event| event.file.0).collect::<Vec<_>>(), [1, 1, 2]);
}

/// Whoever renames a file again and again must not make a trace that is too large for its reader.
#[test]
fn long_names_of_files_without_room_are_counted() {
    let mut join = joiner();
    join.name_bytes_left = 300;
    let named = |inode, letter: u8| {
        let mut record = PathRecord { inode, generation: 7, components: 4, ..Default::default() };
        record.length[..4].fill(200);
        record.text[..800].fill(letter);
        Record::File(Box::new(record))
    };
    // 804 bytes each, of which 320 are free.
    for (inode, letter) in [(12, b'a'), (12, b'b'), (13, b'a')] {
        join.take(named(inode, letter));
    }
    let names =
        |join: &mut Joiner| join.drain().files.iter().map(|f| (f.inode, f.path.len())).collect::<Vec<_>>();
    assert_eq!((names(&mut join), join.counts().unresolved_files), (vec![(12, 0), (13, 0)], 3));
    join.name_bytes_left = 484;
    for letter in *b"cde" {
        join.take(named(12, letter));
    }
    assert_eq!((names(&mut join), join.counts().unresolved_files), (vec![(12, 804)], 5));
    join.forget_files();
    join.take(named(12, b'f'));
    assert_eq!(names(&mut join), [(12, 804)], "what is forgotten has room");
}

#[test]
fn a_page_of_a_file_in_the_journal_is_journal() {
    let mut join = joiner();
    join.take(Record::Context(Box::new(ContextRecord { key: 9, entry: 1, ..Default::default() })));
    join.take(Record::Io(of_file(write(8 * 120, 4096), 12, 9)));
    let event = join.drain().events[0];
    assert_eq!((event.kind, event.context, event.file), (Kind::Journal, ContextId::NONE, FileId::NONE));
    assert_eq!((join.counts().data_pages, join.counts().unresolved_files), (0, 0));
}

#[test]
fn uses_of_lost_records_are_counted_not_invented() {
    let mut join = joiner();
    join.take(Record::Io(of_file(write(8 * 300, 4096), 12, 9)));
    let batch = join.drain();
    assert_eq!(batch.events[0].context, ContextId::NONE);
    assert_eq!(batch.files[0].path, "");
    let counts = join.counts();
    assert_eq!((counts.unresolved_contexts, counts.unresolved_files), (1, 1));
    assert_eq!((counts.data_pages, counts.covered_pages), (1, 0));
}

#[test]
fn the_last_process_of_a_program_ends_it() {
    let mut join = joiner();
    let context = |key, executable| {
        Record::Context(Box::new(ContextRecord { key, executable, entry: 1, ..Default::default() }))
    };
    let process = |pid, executable, ended, time_ns| {
        Record::Process(ProcessRecord { r#type: 8, pid, time_ns, executable, ended, reserved: 0 })
    };
    join.take(context(1, 70));
    join.take(context(2, 80));
    for (pid, executable, ended) in [(5, 70, 0), (6, 70, 0), (5, 70, 1), (5, 70, 1), (9, 70, 1)] {
        join.take(process(pid, executable, ended, 2_000));
    }
    assert!(join.drain().events.is_empty(), "one is running still");
    // It becomes another program, and ends.
    join.take(process(6, 80, 0, 3_000));
    join.take(process(6, 80, 1, 4_000));
    join.take(process(7, 90, 0, 5_000));
    join.take(process(7, 90, 1, 5_000));
    let events = join.drain().events;
    let seen: Vec<_> = events.iter().map(|e| (e.op, e.context.0, e.time_ns, e.pages)).collect();
    assert_eq!(seen, [(Op::Exit, 1, 2_000, 0), (Op::Exit, 2, 3_000, 0)], "the third wrote nothing");
}

#[test]
fn equal_signatures_share_an_id_and_times_never_decrease() {
    let mut join = joiner();
    for key in [7, 8] {
        join.take(Record::Context(Box::new(ContextRecord { key, entry: 1, ..Default::default() })));
    }
    join.take(Record::Io(of_file(write(2400, 4096), 12, 8)));
    join.take(Record::Io(IoRecord { time_ns: 4_500, ..of_file(write(2400, 4096), 12, 7) }));
    let others = of_file(write(2400, 4096), 12, wire::CONTEXT_OF_OTHERS);
    join.take(Record::Io(others));
    assert_eq!(join.take_keys(), [(7, ContextId(1)), (8, ContextId(1))], "both, and not that of others");
    let batch = join.drain();
    assert_eq!(batch.contexts.len(), 2, "and others");
    assert_eq!(batch.events[0].context, batch.events[1].context);
    assert_eq!(batch.events[0].time_ns, batch.events[1].time_ns);
}
