//! The join: records of the kernel side become events, contexts and files of a trace.
//!
//! The kernel side names things by keys (hashes, inode numbers); a trace names them by dense ids. A
//! record that introduces a key precedes the records that use it, unless it did not fit the ring
//! buffer: then the use is counted (`Unresolved`), and nothing is invented.
//!
//! Units: sectors (512 bytes) come in, pages (4 KiB) go out. A write that covers a page partly counts
//! as a write of the page, for the device has to program it; a discard of part of a page does nothing.
//!
//! Invariants: ids are dense and in order of first use; times never decrease.

mod names;

use pcstream_trace::{
    Batch, Context, ContextId, Event, File, FileId, Frame, Kind, Lba, Op, Signature, Unwind, WriteHint,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::modules::{Lack, Modules};
use crate::programs::Programs;
use crate::runtime::{self, RuntimeFrame};
use crate::signature::{self, Order};
use crate::syscalls;
use crate::unwind::{Limits, Path, Unwinder};
use crate::wire::{
    self, ContextRecord, IoRecord, IoSource, PathRecord, ProcessRecord, Record, RuleKey, RuntimeRecord,
    StackRecord, UnwindMode, UnwindRule,
};
use pcstream_fs::layout::{Layout, MetadataHint};

const SECTORS_PER_PAGE: u64 = 8;
/// The label of others' context.
const OTHERS: &str = "others";

/// `REQ_OP_*` of the block layer; the numbers are part of its interface to tracers.
mod request {
    pub const READ: u32 = 0;
    pub const WRITE: u32 = 1;
    pub const FLUSH: u32 = 2;
    pub const DISCARD: u32 = 3;
    pub const SECURE_ERASE: u32 = 5;
    pub const WRITE_ZEROES: u32 = 9;
}

/// What was counted on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JoinCounts {
    /// Data pages written.
    pub data_pages: u64,
    /// … of which the context is known.
    pub covered_pages: u64,
    /// Pages written, metadata included.
    pub written_pages: u64,
    /// … by others than those whom an attached capture follows.
    pub others_pages: u64,
    /// Pages discarded.
    pub discarded_pages: u64,
    /// Events made.
    pub events: u64,
    /// Uses of a context whose record was lost.
    pub unresolved_contexts: u64,
    /// Uses of a file whose record was lost.
    pub unresolved_files: u64,
    /// Call paths whose signature belonged to another one already: they count as that one.
    pub collisions: u64,
    /// Names that a language runtime gave a path, which were not those of its signature.
    pub rejected: u64,
}

/// Turns records into batches.
pub struct Joiner {
    /// Once the capture has begun.
    layout: Option<Layout>,
    start_ns: u64,
    last_ns: u64,
    modules: Modules,
    unwinder: Unwinder,
    limits: Limits,
    context_ids: FxHashMap<u64, ContextId>,
    order: Order,
    /// With another hash of the path.
    by_signature: FxHashMap<Signature, (ContextId, u64)>,
    contexts: Vec<Context>,
    /// Of each context, the modules of its frames; none if they are of a language runtime.
    modules_of: Vec<Vec<u64>>,
    file_ids: FxHashMap<(u64, u32), FileId>,
    files: u32,
    batch: Batch,
    keys: Vec<(u64, ContextId)>,
    counts: JoinCounts,
    /// Other paths that share a signature: rarely any.
    collided: FxHashSet<u64>,
    /// Of paths of language runtimes.
    runtime: FxHashMap<u64, Vec<RuntimeFrame>>,
    programs: Programs,
}

impl Joiner {
    /// A joiner whose event times count from `start_ns` (CLOCK_MONOTONIC). `limits` are those of the kernel side.
    /// Until [`Joiner::begin`] it takes names and makes no events.
    pub fn new(start_ns: u64, limits: Limits, order: Order) -> Joiner {
        Joiner {
            layout: None,
            unwinder: Unwinder::default(),
            limits,
            order,
            start_ns,
            last_ns: 0,
            modules: Modules::default(),
            context_ids: FxHashMap::default(),
            by_signature: FxHashMap::default(),
            contexts: Vec::new(),
            modules_of: Vec::new(),
            file_ids: FxHashMap::default(),
            files: 0,
            batch: Batch::default(),
            keys: Vec::new(),
            counts: JoinCounts::default(),
            collided: FxHashSet::default(),
            runtime: FxHashMap::default(),
            programs: Programs::default(),
        }
    }

    /// Makes events of what is taken from now on; the file system has this layout.
    pub fn begin(&mut self, layout: Layout) {
        self.layout = Some(layout);
    }

    /// Takes one record.
    pub fn take(&mut self, record: Record) {
        match record {
            Record::Io(io) => self.io(&io),
            Record::Context(context) => self.context(&context),
            Record::Module(module) => self.modules.add(&module),
            Record::File(file) => self.file(&file),
            Record::Stack(stack) => self.stack(&stack),
            Record::Runtime(record) => self.runtime_path(&record),
            Record::Process(process) => self.process(&process),
            // Nothing of a trace.
            Record::Check(_) => {}
        }
    }

    /// Call-frame rules for the kernel side, made since the last call.
    pub fn take_rules(&mut self) -> Vec<(RuleKey, UnwindRule)> {
        self.unwinder.take_rules()
    }

    /// Events made since the last call, with the contexts and files they introduce.
    pub fn drain(&mut self) -> Batch {
        std::mem::take(&mut self.batch)
    }

    /// Keys by which the kernel side knows contexts, since the last call. A context may have several. Others' is not among them.
    pub fn take_keys(&mut self) -> Vec<(u64, ContextId)> {
        std::mem::take(&mut self.keys)
    }

    /// Whether [`Joiner::take_keys`] has any to give.
    pub fn has_keys(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Number of events waiting to be drained.
    pub fn waiting(&self) -> usize {
        self.batch.events.len()
    }

    /// Counts so far.
    pub fn counts(&self) -> JoinCounts {
        self.counts
    }

    /// Number of contexts so far.
    pub fn context_count(&self) -> usize {
        self.contexts.len()
    }

    /// Modules on call paths that lack their file.
    pub fn lacking_modules(&self) -> Vec<(&str, Lack)> {
        self.modules.lacking()
    }

    /// All contexts so far. Those that came after [`Joiner::give_names`] are without names.
    pub fn contexts(&self) -> &[Context] {
        &self.contexts
    }

    fn context(&mut self, record: &ContextRecord) {
        let raw = &record.frame[..(record.frames as usize).min(record.frame.len())];
        let path = Path {
            unwind: match UnwindMode(record.unwind) {
                UnwindMode::UNWIND_FP => Unwind::FramePointer,
                UnwindMode::UNWIND_SCAN => Unwind::Scan,
                UnwindMode::UNWIND_EXACT => Unwind::Exact,
                UnwindMode::UNWIND_RUNTIME => Unwind::Runtime,
                _ => Unwind::None,
            },
            frames: raw.iter().map(|frame| (frame.module, frame.offset)).collect(),
        };
        self.enter_context(record.key, record.executable, record.entry, &record.comm, &path);
    }

    /// A stack becomes the context that its record names; the kernel side will name the same path otherwise.
    fn stack(&mut self, record: &StackRecord) {
        let path = self.unwinder.path(record, &self.modules, &self.limits);
        self.enter_context(record.key, record.executable, record.entry, &record.comm, &path);
    }

    /// Names precede the context that they belong to.
    fn runtime_path(&mut self, record: &RuntimeRecord) {
        match runtime::frames(record) {
            Some(frames) => drop(self.runtime.entry(record.signature).or_insert(frames)),
            None => self.counts.rejected += 1,
        }
    }

    fn frames_of(&self, path: &Path) -> Vec<Frame> {
        if let (Unwind::Runtime, [(_, signature)]) = (path.unwind, &path.frames[..]) {
            return self.runtime.get(signature).into_iter().flatten().map(runtime_frame).collect();
        }
        let frame = |&(module, offset): &(u64, u64)| Frame {
            module: self.modules.path(module).to_string(),
            build_id: self.modules.get(module).map_or_else(String::new, |m| m.build_id.clone()),
            offset,
            symbol: String::new(),
        };
        path.frames.iter().map(frame).collect()
    }

    fn enter_context(&mut self, key: u64, executable: u64, entry: i32, comm: &[u8], path: &Path) {
        let identities =
            || path.frames.iter().map(|&(module, offset)| (self.modules.identity(module), offset));
        let program = self.modules.identity(executable);
        let signature = signature::of_context(self.order, program, entry, identities());
        let check = signature::check_of_context(program, entry, identities());
        let next = ContextId(self.contexts.len() as u32 + 1);
        // Several keys may have one signature: the same binary at two places, a path first seen as a stack.
        let (id, its_check) = *self.by_signature.entry(signature).or_insert((next, check));
        if check != its_check && self.collided.insert(check) {
            self.counts.collisions += 1;
        }
        if self.context_ids.insert(key, id) != Some(id) {
            self.keys.push((key, id));
        }
        self.programs.contexts.entry(executable).or_insert(id);
        if id != next {
            return;
        }
        let modules: Vec<u64> = match path.unwind {
            Unwind::Runtime => Vec::new(),
            _ => path.frames.iter().map(|frame| frame.0).collect(),
        };
        modules.iter().chain([&executable]).for_each(|&key| self.modules.mark_used(key));
        self.modules_of.push(modules);
        let context = Context {
            id,
            signature,
            executable: self.modules.path(executable).to_string(),
            comm: text_of(comm),
            entry: syscalls::entry_name(entry),
            unwind: path.unwind,
            frames: self.frames_of(path),
        };
        self.contexts.push(context.clone());
        self.batch.contexts.push(context);
    }

    fn process(&mut self, record: &ProcessRecord) {
        let ended = if record.ended != 0 {
            self.programs.end(record.pid)
        } else {
            self.programs.begin(record.pid, record.executable)
        };
        let Some(&context) = ended.and_then(|program| self.programs.contexts.get(&program)) else { return };
        if self.layout.is_none() {
            return;
        }
        self.last_ns = self.last_ns.max(record.time_ns.saturating_sub(self.start_ns));
        self.counts.events += 1;
        self.batch.events.push(Event {
            time_ns: self.last_ns,
            lba: Lba(0),
            pages: 0,
            context,
            file: FileId::NONE,
            file_page: 0,
            op: Op::Exit,
            kind: Kind::Data,
            hint: Default::default(),
        });
    }

    fn file(&mut self, record: &PathRecord) {
        let path = String::from_utf8_lossy(&wire::path(record)).into_owned();
        self.file_id((record.inode, record.generation), path);
    }

    /// The id of a file, which is entered if it is new.
    fn file_id(&mut self, key: (u64, u32), path: String) -> FileId {
        *self.file_ids.entry(key).or_insert_with(|| {
            self.files += 1;
            let id = FileId(self.files);
            self.batch.files.push(File { id, inode: key.0, generation: key.1, path });
            id
        })
    }

    fn io(&mut self, record: &IoRecord) {
        let Some(op) = operation(record).filter(|_| self.layout.is_some()) else { return };
        let (lba, pages) = match op {
            Op::Discard | Op::WriteZeroes => whole_pages(record),
            _ => touched_pages(record),
        };
        if pages == 0 && op != Op::Flush {
            return;
        }
        // A journal's block may be written from a file's own page (ext4 with data=journal).
        let journal =
            op == Op::Write && self.layout.as_ref().and_then(|l| l.static_kind(lba)) == Some(Kind::Journal);
        let owned =
            !journal && [IoSource::SOURCE_CACHE, IoSource::SOURCE_DIRECT].contains(&IoSource(record.source));
        let kind = if owned || !matches!(op, Op::Write | Op::Read) {
            Kind::Data
        } else {
            self.metadata_kind(record, lba)
        };
        let (context, file) = if owned { self.owner(record, op) } else { (ContextId::NONE, FileId::NONE) };
        self.count(op, kind, pages, context);
        // CPUs take times and places in the buffer independently.
        self.last_ns = self.last_ns.max(record.time_ns.saturating_sub(self.start_ns));
        let file_page = if file.is_some() { record.file_page } else { 0 };
        let hint = if op == Op::Write { wire::hint(record) } else { WriteHint::NONE };
        let event = Event { time_ns: self.last_ns, lba, pages, context, file, file_page, op, kind, hint };
        self.batch.events.push(event);
    }

    fn owner(&mut self, record: &IoRecord, op: Op) -> (ContextId, FileId) {
        let key = (record.inode, record.generation);
        let file = match self.file_ids.get(&key) {
            Some(&id) => id,
            // A file that is only read needs no entry.
            None if op != Op::Write => return (ContextId::NONE, FileId::NONE),
            None => {
                self.counts.unresolved_files += 1;
                self.file_id(key, String::new())
            }
        };
        if record.context == 0 {
            return (ContextId::NONE, file);
        }
        if record.context == wire::CONTEXT_OF_OTHERS {
            return (self.others(record), file);
        }
        let context = self.context_ids.get(&record.context).copied().unwrap_or_else(|| {
            self.counts.unresolved_contexts += 1;
            ContextId::NONE
        });
        (context, file)
    }

    /// The context of others than those whom the capture follows.
    fn others(&mut self, record: &IoRecord) -> ContextId {
        self.counts.others_pages += u64::from(touched_pages(record).1);
        if let Some(&known) = self.context_ids.get(&record.context) {
            return known;
        }
        let context = Context::label(ContextId(self.contexts.len() as u32 + 1), OTHERS);
        self.context_ids.insert(record.context, context.id);
        self.modules_of.push(Vec::new());
        self.contexts.push(context.clone());
        self.batch.contexts.push(context.clone());
        context.id
    }

    fn metadata_kind(&self, record: &IoRecord, lba: Lba) -> Kind {
        let hint = match IoSource(record.source) {
            IoSource::SOURCE_BUFFER => MetadataHint::Block {
                head: record.head,
                tail: *record.tail.last_chunk().expect("the tail has 16 bytes"),
            },
            IoSource::SOURCE_XFS_BUFFER => MetadataHint::Verifier(&record.head),
            _ => MetadataHint::None,
        };
        self.layout.as_ref().map_or(Kind::Data, |layout| layout.classify(lba, hint))
    }

    fn count(&mut self, op: Op, kind: Kind, pages: u32, context: ContextId) {
        let pages = u64::from(pages);
        self.counts.events += 1;
        match op {
            Op::Write => {
                self.counts.written_pages += pages;
                if kind == Kind::Data {
                    self.counts.data_pages += pages;
                    self.counts.covered_pages += if context.is_some() { pages } else { 0 };
                }
            }
            Op::Discard | Op::WriteZeroes => self.counts.discarded_pages += pages,
            Op::Read | Op::Flush | Op::Exit => {}
        }
    }
}

/// A frame of a language runtime: its module is the method, after `java:`, and its offset the bytecode index.
fn runtime_frame(frame: &RuntimeFrame) -> Frame {
    let name = format!("{}.{}", frame.class, frame.method);
    Frame {
        module: format!("java:{name}"),
        build_id: String::new(),
        offset: frame.bytecode_index.cast_unsigned(),
        symbol: name,
    }
}

fn operation(record: &IoRecord) -> Option<Op> {
    Some(match record.op {
        request::READ if record.bytes > 0 => Op::Read,
        request::WRITE if record.bytes > 0 => Op::Write,
        // An empty write is how the block layer asks for a flush.
        request::WRITE | request::FLUSH => Op::Flush,
        request::DISCARD | request::SECURE_ERASE => Op::Discard,
        request::WRITE_ZEROES => Op::WriteZeroes,
        _ => return None,
    })
}

fn sectors(record: &IoRecord) -> (u64, u64) {
    (record.sector, record.sector.saturating_add(u64::from(record.bytes).div_ceil(512)))
}

/// Pages that a request touches.
fn touched_pages(record: &IoRecord) -> (Lba, u32) {
    let (start, end) = sectors(record);
    let first = start / SECTORS_PER_PAGE;
    (Lba(first), (end.div_ceil(SECTORS_PER_PAGE) - first) as u32)
}

/// Pages that a request covers completely.
fn whole_pages(record: &IoRecord) -> (Lba, u32) {
    let (start, end) = sectors(record);
    let first = start.div_ceil(SECTORS_PER_PAGE);
    (Lba(first), (end / SECTORS_PER_PAGE).saturating_sub(first) as u32)
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.split(|&byte| byte == 0).next().unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcstream_fs::layout::{PageRange, StaticRange};
    use pcstream_fs::scratch::FsKind;

    const LIMITS: Limits = Limits { depth: 12, scan_depth: 5, fall_back: true };

    fn joiner() -> Joiner {
        let journal = StaticRange { start: Lba(100), pages: 50, kind: Kind::Journal };
        let used = PageRange { start: Lba(0), pages: 200 };
        let mut joiner = Joiner::new(1_000, LIMITS, Order::Hash);
        joiner.begin(Layout::new(FsKind::Ext4, vec![journal], vec![used]));
        joiner
    }

    fn write(sector: u64, bytes: u32) -> IoRecord {
        IoRecord { r#type: 1, op: request::WRITE, time_ns: 5_000, sector, bytes, ..Default::default() }
    }

    fn of_file(record: IoRecord, inode: u64, context: u64) -> IoRecord {
        IoRecord { source: IoSource::SOURCE_CACHE.0, inode, generation: 7, context, file_page: 3, ..record }
    }

    #[test]
    fn nothing_is_an_event_before_the_capture_begins() {
        let mut join = Joiner::new(1_000, LIMITS, Order::Hash);
        join.take(Record::Context(Box::new(ContextRecord { key: 9, entry: 1, ..Default::default() })));
        join.take(Record::Io(of_file(write(8 * 300, 4096), 12, 9)));
        assert_eq!((join.drain().events.len(), join.counts()), (0, JoinCounts::default()));
        join.begin(Layout::new(FsKind::Ext4, Vec::new(), Vec::new()));
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
}
