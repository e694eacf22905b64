//! Requests become events: pages, owner, kind.

use pcstream_fs::layout::MetadataHint;
use pcstream_trace::{Context, ContextId, Event, FileId, Kind, Lba, Op, PAGE_BYTES, WriteHint};

use super::Joiner;
use crate::wire::{self, IoRecord, IoSource};

const SECTORS_PER_PAGE: u64 = 8;

/// `REQ_OP_*` of the block layer; the numbers are part of its interface to tracers.
pub(super) mod request {
    pub const READ: u32 = 0;
    pub const WRITE: u32 = 1;
    pub const FLUSH: u32 = 2;
    pub const DISCARD: u32 = 3;
    pub const SECURE_ERASE: u32 = 5;
    pub const WRITE_ZEROES: u32 = 9;
}

impl Joiner {
    pub(super) fn io(&mut self, record: &IoRecord) {
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
        let owned = !journal
            && [IoSource::SOURCE_CACHE, IoSource::SOURCE_DIRECT].contains(&IoSource(record.owner.source));
        let kind = if owned || !matches!(op, Op::Write | Op::Read) {
            Kind::Data
        } else {
            self.metadata_kind(record, lba)
        };
        let (context, file) = if owned { self.owner(record, op) } else { (ContextId::NONE, FileId::NONE) };
        self.count(op, kind, pages, context);
        if op == Op::Write {
            self.counts.uncovered_bytes +=
                (u64::from(pages) * PAGE_BYTES).saturating_sub(record.bytes.into());
        }
        // Direct I/O to a realtime section comes from such memory, too.
        if op == Op::Write && kind != Kind::Data && IoSource(record.owner.source) == IoSource::SOURCE_SWAP {
            self.counts.swap_pages += u64::from(pages);
        }
        // CPUs take times and places in the buffer independently.
        self.last_ns = self.last_ns.max(record.time_ns.saturating_sub(self.start_ns));
        let file_page = if file.is_some() { record.file_page } else { 0 };
        let hint = if op == Op::Write { wire::hint(record) } else { WriteHint::NONE };
        let event = Event { time_ns: self.last_ns, lba, pages, context, file, file_page, op, kind, hint };
        self.batch.events.push(event);
    }

    fn owner(&mut self, record: &IoRecord, op: Op) -> (ContextId, FileId) {
        let owner = record.owner;
        let key = (owner.inode, owner.generation);
        let file = match self.files.get(key) {
            Some(id) => id,
            // A file that is only read needs no entry.
            None if op != Op::Write => return (ContextId::NONE, FileId::NONE),
            None => {
                self.counts.unresolved_files += 1;
                self.file_id(key, String::new())
            }
        };
        if owner.context == 0 {
            return (ContextId::NONE, file);
        }
        if owner.context == wire::CONTEXT_OF_OTHERS {
            return (self.others(record), file);
        }
        let context = self.context_ids.get(&owner.context).copied().unwrap_or_else(|| {
            self.counts.unresolved_contexts += 1;
            ContextId::NONE
        });
        (context, file)
    }

    /// The context of others than those whom the capture follows.
    fn others(&mut self, record: &IoRecord) -> ContextId {
        self.counts.others_pages += u64::from(touched_pages(record).1);
        if let Some(&known) = self.context_ids.get(&record.owner.context) {
            return known;
        }
        let context = Context::others(ContextId(self.contexts.len() as u32 + 1));
        self.context_ids.insert(record.owner.context, context.id);
        self.modules_of.push(Vec::new());
        self.contexts.push(context.clone());
        self.batch.contexts.push(context.clone());
        context.id
    }

    fn metadata_kind(&self, record: &IoRecord, lba: Lba) -> Kind {
        let hint = match IoSource(record.owner.source) {
            IoSource::SOURCE_BUFFER => MetadataHint::Block {
                head: record.head,
                tail: *record.tail.last_chunk().expect("the tail has 16 bytes"),
            },
            IoSource::SOURCE_XFS_BUFFER => MetadataHint::Verifier(&record.head),
            IoSource::SOURCE_DIRECTORY => MetadataHint::Directory,
            IoSource::SOURCE_INTERNAL => MetadataHint::Internal(record.owner.inode),
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
