//! The join: records of the BPF program become events, contexts and files of a trace.
//!
//! The BPF program names things by keys (hashes, inode numbers); a trace names them by dense ids. A
//! record that introduces a key precedes the records that use it, unless it did not fit the ring
//! buffer: then the use is counted (`Unresolved`), and nothing is invented.
//!
//! Units: sectors (512 bytes) come in, pages (4 KiB) go out. A write that covers a page partly counts
//! as a write of the page, for the device has to program it; a discard of part of a page does nothing.
//!
//! Invariants: whoever is traced cannot make it keep contexts without end: those beyond `MAX_CONTEXTS` or `MAX_CONTEXT_BYTES` are counted, and so are names of files beyond `MAX_NAME_BYTES`. Ids are dense and in order of first use; times never decrease.

mod contexts;
mod files;
mod names;
mod requests;

use files::{FileIds, FileKey};
use pcstream_trace::{Batch, Context, ContextId, Event, File, FileId, Op, Signature};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::modules::{Lack, Modules};
use crate::programs::Programs;
use crate::runtime::RuntimeFrame;
use crate::signature::Order;
use crate::unwind::{Limits, Unwinder};
use crate::wire::{self, ModuleOffset, PathRecord, ProcessRecord, Record, UnwindRule};
use pcstream_fs::layout::Layout;

/// Contexts that are kept, as many as the BPF program names itself. Of stacks that it ships it keeps no list, and whoever is traced
/// chooses them.
const MAX_CONTEXTS: usize = 65_536;
/// What their call paths take in memory, without the names of functions that are looked up: a path may have long names. With those
/// it is what a reader takes (docs/trace-format.md).
const MAX_CONTEXT_BYTES: usize = 255 << 20;
/// Keys of the BPF program for contexts: one has several if its path was first seen as a stack, or in a program of two places.
const MAX_KEYS: usize = 4 * MAX_CONTEXTS;
/// Files that are kept at least, if any are forgotten: more than those whose names the BPF program keeps (`known_names`), which it does
/// not send again. Twice as many take 26 MiB.
const FILES: usize = 400_000;

/// Bytes of names of files that are kept, without the first [`SHORT_NAME_BYTES`] of each: for those a reader has memory by the length
/// of the trace's file, of which a row takes 3 bytes and more (docs/trace-format.md).
const MAX_NAME_BYTES: usize = 256 << 20;
const SHORT_NAME_BYTES: usize = 320;

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
    /// … of memory that was swapped out to a file.
    pub swap_pages: u64,
    /// Bytes of written pages that no request covered: it wrote a part of the page.
    pub uncovered_bytes: u64,
    /// Pages discarded.
    pub discarded_pages: u64,
    /// Events made.
    pub events: u64,
    /// Records of contexts beyond those that are kept.
    pub contexts_over_limit: u64,
    /// Uses of a context whose record was lost.
    pub unresolved_contexts: u64,
    /// Uses of a file whose record was lost, and names for which there is no room.
    pub unresolved_files: u64,
    /// Reports of programs and libraries beyond those that are distinguished.
    pub modules_over_limit: u64,
    /// Call-frame rules that were not made, because making them took too long.
    pub rules_given_up: u64,
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
    most_contexts: usize,
    /// What contexts may still take in memory.
    context_bytes_left: usize,
    /// Of each context, the modules of its frames; none if they are of a language runtime.
    modules_of: Vec<Vec<u64>>,
    files: FileIds,
    /// What long names of files may still take in the trace.
    name_bytes_left: usize,
    batch: Batch,
    keys: Vec<(u64, ContextId)>,
    /// If they are asked for.
    first_writers: Option<Vec<(FileId, ContextId)>>,
    counts: JoinCounts,
    /// Other paths that share a signature: rarely any.
    collided: FxHashSet<u64>,
    /// Of paths of language runtimes.
    runtime: FxHashMap<u64, Vec<RuntimeFrame>>,
    programs: Programs,
}

impl Joiner {
    /// A joiner whose event times count from `start_ns` (CLOCK_MONOTONIC). `limits` are those of the BPF program.
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
            most_contexts: MAX_CONTEXTS,
            context_bytes_left: MAX_CONTEXT_BYTES,
            modules_of: Vec::new(),
            files: FileIds::default(),
            name_bytes_left: MAX_NAME_BYTES,
            batch: Batch::default(),
            keys: Vec::new(),
            first_writers: None,
            counts: JoinCounts::default(),
            collided: FxHashSet::default(),
            runtime: FxHashMap::default(),
            programs: Programs::default(),
        }
    }

    /// Forgets files that were not written for long. One that is written again then has another id.
    pub fn forget_files(&mut self) {
        self.files.bound(FILES);
        // Names are forgotten, too.
        self.name_bytes_left = usize::MAX;
    }

    /// Tells who makes a new file dirty, before its first request ([`Joiner::take_first_writers`]).
    pub fn tell_first_writers(&mut self) {
        self.first_writers = Some(Vec::new());
    }

    /// Makes events of what is taken from now on; the file system has this layout.
    pub fn begin(&mut self, layout: Layout) {
        self.layout = Some(layout);
    }

    /// What is captured is written to this device (kernel encoding) itself: it is the one file.
    pub fn device(&mut self, number: u32, path: String) {
        self.file_id((number.into(), 0), path);
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

    /// Looks at no process any more to find a module's file: whoever waits for this capture is impatient.
    pub fn stop_looking(&mut self) {
        self.modules.stop_looking();
        self.unwinder.give_up();
    }

    /// Call-frame rules for the BPF program, made since the last call.
    pub fn take_rules(&mut self) -> Vec<(ModuleOffset, UnwindRule)> {
        self.unwinder.take_rules()
    }

    /// Events made since the last call, with the contexts and files they introduce.
    pub fn drain(&mut self) -> Batch {
        std::mem::take(&mut self.batch)
    }

    /// What waits to be drained but for events: contexts and files.
    pub fn drain_names(&mut self) -> Batch {
        let events = std::mem::take(&mut self.batch.events);
        let names = self.drain();
        self.batch.events = events;
        names
    }

    /// Files that are new since the last call, and the contexts that made them dirty.
    pub fn take_first_writers(&mut self) -> Vec<(FileId, ContextId)> {
        self.first_writers.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Keys by which the BPF program knows contexts, since the last call. A context may have several. Others' is not among them.
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
        JoinCounts {
            modules_over_limit: self.modules.over_limit(),
            rules_given_up: self.unwinder.rules_given_up(),
            ..self.counts
        }
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
        self.batch.events.push(Event { time_ns: self.last_ns, context, op: Op::Exit, ..Event::write(0, 0) });
    }

    fn file(&mut self, record: &PathRecord) {
        let path = String::from_utf8_lossy(&wire::path(record)).into_owned();
        let file = self.file_id((record.inode, record.generation), path);
        if let (Some(first), Some(&context)) = (&mut self.first_writers, self.context_ids.get(&record.key)) {
            first.push((file, context));
        }
    }

    /// The id of a file of this path, which is entered if it is new; without the path if there is no room for it.
    fn file_id(&mut self, key: FileKey, mut path: String) -> FileId {
        if let Some(id) = self.files.named(key, &path) {
            return id;
        }
        match self.name_bytes_left.checked_sub(path.len().saturating_sub(SHORT_NAME_BYTES)) {
            Some(left) => self.name_bytes_left = left,
            None => {
                self.counts.unresolved_files += 1;
                path.clear();
            }
        }
        // Under its old name, if it was renamed to one that has no room.
        if let Some(id) = self.files.named(key, &path) {
            return id;
        }
        let id = self.files.enter(key, &path);
        self.batch.files.push(File { id, inode: key.0, generation: key.1, path });
        id
    }
}

#[cfg(test)]
mod tests;
