//! A part of a trace: the writes that are wanted, as if they alone had gone to the device.
//!
//! Why: several programs share a drive. What one of them would do to a drive of its own is in the same recording.
//!
//! Addresses and times stay. Discards, zeroed pages and reads shrink to pages that hold wanted data, or vanish. Barriers stay.
//! When a write that is not wanted overwrites wanted data, the file system had given that address to another file. On a drive
//! of its own the address would be free, so the data counts as discarded there and then; how much is counted. What was on the
//! device before belongs to nobody that a trace knows, and is left out.
//!
//! Contexts and files get new numbers, in the order of their first wanted write: those of others are not in the part, and
//! discards and reads of others have none. The end of a program stays if the program wrote something of the part. Memory is a
//! bit for each page of the device, and is taken where wanted pages are.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use pcstream_ssd::OutOfMemory;
use pcstream_trace::{Batch, Context, ContextId, Event, File, FileId, Kind, Lba, Op};

use crate::occupied::Occupied;

/// What is not in the part, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Written contents of files.
    pub data: u64,
    /// Written metadata and journal.
    pub metadata: u64,
    /// Wanted data that counts as discarded when something else overwrote it.
    pub overwritten: u64,
}

/// Takes a part of the events of a trace.
pub struct Part<'a> {
    contexts: &'a [Context],
    files: &'a [File],
    wanted: Box<dyn Fn(&Event) -> bool + 'a>,
    held: Occupied,
    new_contexts: HashMap<ContextId, ContextId>,
    /// Executables that wrote.
    programs: HashSet<&'a str>,
    new_files: HashMap<FileId, FileId>,
    left_out: LeftOut,
}

impl<'a> Part<'a> {
    /// Of a trace of a device with `pages` pages, whose tables are `contexts` and `files`: the writes that are `wanted`.
    pub fn new(
        pages: u64,
        contexts: &'a [Context],
        files: &'a [File],
        wanted: impl Fn(&Event) -> bool + 'a,
    ) -> Result<Part<'a>, OutOfMemory> {
        Ok(Part {
            contexts,
            files,
            wanted: Box::new(wanted),
            held: Occupied::new(pages)?,
            new_contexts: HashMap::new(),
            programs: HashSet::new(),
            new_files: HashMap::new(),
            left_out: LeftOut::default(),
        })
    }

    /// What was left out so far.
    pub fn left_out(&self) -> LeftOut {
        self.left_out
    }

    /// What is wanted of the next `events` of the trace, with the contexts and files that are new by them.
    pub fn take(&mut self, events: &[Event]) -> Batch {
        let mut batch = Batch::default();
        events.iter().for_each(|event| self.take_one(event, &mut batch));
        batch
    }

    fn take_one(&mut self, event: &Event, batch: &mut Batch) {
        let (first, pages) = (event.lba.0, u64::from(event.pages));
        match event.op {
            Op::Write if (self.wanted)(event) => {
                self.held.fill(first, pages);
                self.programs.extend(self.context(event.context).map(|context| context.executable.as_str()));
                self.keep(*event, batch);
            }
            Op::Write => {
                let left_out = &mut self.left_out;
                *(if event.kind == Kind::Data { &mut left_out.data } else { &mut left_out.metadata }) +=
                    pages;
                let discard = Event {
                    op: Op::Discard,
                    time_ns: event.time_ns,
                    ..Event::write(event.lba.0, event.pages)
                };
                self.left_out.overwritten += self.clip(&discard, batch);
                self.held.free(first, pages);
            }
            Op::Discard | Op::WriteZeroes => {
                self.clip(event, batch);
                self.held.free(first, pages);
            }
            Op::Read => _ = self.clip(event, batch),
            Op::Flush => self.keep(*event, batch),
            Op::Exit => {
                let program = self.context(event.context).map(|context| context.executable.as_str());
                if program.is_some_and(|program| self.programs.contains(program)) {
                    self.keep(*event, batch);
                }
            }
        }
    }

    fn context(&self, id: ContextId) -> Option<&'a Context> {
        self.contexts.get((id.0 as usize).wrapping_sub(1))
    }

    /// Keeps an event where wanted data is. Returns the pages there.
    fn clip(&mut self, event: &Event, batch: &mut Batch) -> u64 {
        let mut pages = 0;
        let mut event = *event;
        if !self.new_contexts.contains_key(&event.context) {
            event.context = ContextId::NONE;
        }
        if !self.new_files.contains_key(&event.file) {
            (event.file, event.file_page) = (FileId::NONE, 0);
        }
        for (first, end) in self.held.runs(event.lba.0, event.pages.into()) {
            pages += end - first;
            let skipped = if event.file.is_some() { first - event.lba.0 } else { 0 };
            let file_page = event.file_page.saturating_add(skipped);
            // No more than the event had.
            self.keep(Event { lba: Lba(first), pages: (end - first) as u32, file_page, ..event }, batch);
        }
        pages
    }

    fn keep(&mut self, mut event: Event, batch: &mut Batch) {
        if let Some(old) = self.context(event.context) {
            let add = |id| batch.contexts.push(Context { id, ..old.clone() });
            event.context = renumbered(&mut self.new_contexts, event.context, ContextId, add);
        }
        if event.file.is_some() {
            let old = &self.files[event.file.0 as usize - 1];
            let add = |id| batch.files.push(File { id, ..old.clone() });
            event.file = renumbered(&mut self.new_files, event.file, FileId, add);
        }
        batch.events.push(event);
    }
}

/// The new id of `old`: the next one, which `add` is called with, if it has none yet.
fn renumbered<I: Copy + Eq + Hash>(
    ids: &mut HashMap<I, I>,
    old: I,
    id: fn(u32) -> I,
    add: impl FnOnce(I),
) -> I {
    let next = id(ids.len() as u32 + 1);
    *ids.entry(old).or_insert_with(|| {
        add(next);
        next
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(op: Op, lba: u64, pages: u32, context: u32, file: u32) -> Event {
        Event { time_ns: 7, context: ContextId(context), file: FileId(file), op, ..Event::write(lba, pages) }
    }

    #[test]
    fn what_others_write_is_left_out_and_frees_what_it_overwrites() {
        let contexts = [1, 2].map(|id| Context::label(ContextId(id), if id == 1 { "other" } else { "mine" }));
        let files = [1, 2].map(|id| File { id: FileId(id), path: format!("/{id}"), ..File::default() });
        let mut part = Part::new(1000, &contexts, &files, |event| event.context == ContextId(2)).unwrap();
        let batch = part.take(&[
            event(Op::Write, 0, 10, 1, 1),
            event(Op::Write, 100, 10, 2, 2),
            Event { kind: Kind::Journal, ..event(Op::Write, 300, 3, 0, 0) },
            event(Op::Write, 95, 7, 1, 1),
            event(Op::Discard, 0, 104, 0, 0),
            event(Op::Read, 100, 60, 1, 1),
            event(Op::Flush, 0, 0, 0, 0),
            event(Op::Exit, 0, 0, 1, 0),
            event(Op::Exit, 0, 0, 2, 0),
        ]);
        let expected = [
            event(Op::Write, 100, 10, 1, 1),
            event(Op::Discard, 100, 2, 0, 0),
            event(Op::Discard, 102, 2, 0, 0),
            event(Op::Read, 104, 6, 0, 0),
            event(Op::Flush, 0, 0, 0, 0),
            event(Op::Exit, 0, 0, 1, 0),
        ];
        assert_eq!(batch.events, expected);
        assert_eq!(batch.contexts, [Context::label(ContextId(1), "mine")]);
        assert_eq!(batch.files, [File { id: FileId(1), ..files[1].clone() }]);
        assert_eq!(part.left_out(), LeftOut { data: 17, metadata: 3, overwritten: 2 });
    }
}
