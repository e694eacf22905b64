//! The event: the one type in which a live capture, a recorded trace, an imported trace and a
//! generator all speak. Whatever consumes events cannot tell these four apart.
//!
//! Units: addresses and lengths in 4 KiB pages, times in nanoseconds since the trace began.
//!
//! Invariants: `pages > 0` for every operation but `Flush` and `Exit`; `file_page` is meaningful only when
//! `file` is known; an event has exactly one context, file and kind (a block request that covers
//! several becomes several events, in address order).

use crate::ids::{ContextId, FileId, Lba};

/// Latest time of an event: 146 years after the first, so that what a clock adds to it stays far from overflow.
pub const MAX_TIME_NS: u64 = 1 << 62;

/// What a request asks of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Op {
    /// Data for `pages` pages from `lba` on.
    Write = 0,
    /// The pages hold nothing any more (TRIM, deallocate).
    Discard = 1,
    /// Pages read; placement ignores it, timing does not.
    Read = 2,
    /// A write barrier; `pages` is 0.
    Flush = 3,
    /// The pages read as zero from now on. The model treats it as `Discard`: an SSD deallocates.
    WriteZeroes = 4,
    /// Nothing for the device: the last running process of a program ended that made pages dirty. `context` is
    /// one of the program's; `pages` is 0.
    Exit = 5,
}

crate::named!(Op:
    Write = "write", Discard = "discard", Read = "read", Flush = "flush",
    WriteZeroes = "write_zeroes", Exit = "exit"
);

/// What the written pages are to the file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// Contents of a file.
    #[default]
    Data = 0,
    /// The journal (ext4) or log (XFS).
    Journal = 1,
    /// Inodes.
    Inode = 2,
    /// Directory blocks.
    Directory = 3,
    /// Space accounting: block and inode bitmaps, group descriptors, allocation-group headers.
    Bitmap = 4,
    /// Any other metadata: superblock, extent trees, quota, extended attributes.
    OtherMetadata = 5,
}

crate::named!(Kind:
    Data = "data", Journal = "journal", Inode = "inode", Directory = "directory",
    Bitmap = "bitmap", OtherMetadata = "other"
);

impl Op {
    /// Whether it is about pages.
    #[inline]
    pub fn has_pages(self) -> bool {
        !matches!(self, Op::Flush | Op::Exit)
    }
}

/// How long the program said that what it writes will live (`F_SET_RW_HINT`): the kernel's `enum rw_hint`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Life {
    /// It said nothing.
    #[default]
    NotSet = 0,
    /// It said that it does not know.
    None = 1,
    /// Short.
    Short = 2,
    /// Medium.
    Medium = 3,
    /// Long.
    Long = 4,
    /// As long as can be.
    Extreme = 5,
}

crate::named!(Life:
    NotSet = "not_set", None = "none", Short = "short", Medium = "medium", Long = "long",
    Extreme = "extreme"
);

/// What a program asked of the device for what it writes, as it stood in the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct WriteHint {
    /// The hint for the file (`F_SET_RW_HINT`), which reaches the device with its pages.
    pub life: Life,
    /// The write stream (io_uring's `write_stream`, or a file system's), from 1; 0: none.
    pub stream: u8,
}

impl WriteHint {
    /// Nothing was asked for.
    pub const NONE: WriteHint = WriteHint { life: Life::NotSet, stream: 0 };

    /// Whether anything was asked for.
    #[inline]
    pub fn is_some(self) -> bool {
        self != WriteHint::NONE
    }
}

impl Life {
    /// Those that name a lifetime, the shortest first.
    pub const TIMED: [Life; 4] = [Life::Short, Life::Medium, Life::Long, Life::Extreme];

    /// Its index in [`Life::TIMED`]; `None`: it names no lifetime.
    pub fn class(self) -> Option<usize> {
        (self as usize).checked_sub(Life::Short as usize)
    }

    /// The kernel's name of its number, without the prefix `RWH_WRITE_LIFE_`.
    pub fn kernel_name(self) -> &'static str {
        match self {
            Life::NotSet => "NOT_SET",
            Life::None => "NONE",
            Life::Short => "SHORT",
            Life::Medium => "MEDIUM",
            Life::Long => "LONG",
            Life::Extreme => "EXTREME",
        }
    }
}

/// One request, or the part of one that has a single context, file and kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds since the trace began; never decreases within a trace.
    pub time_ns: u64,
    /// First page on the device.
    pub lba: Lba,
    /// Number of pages.
    pub pages: u32,
    /// Who wrote the pages.
    pub context: ContextId,
    /// The file whose contents these are.
    pub file: FileId,
    /// Index, within the file, of the first page.
    pub file_page: u64,
    /// What is asked.
    pub op: Op,
    /// What the pages are to the file system.
    pub kind: Kind,
    /// What the program asked for; of writes.
    pub hint: WriteHint,
}

impl Event {
    /// A write of data at time 0, of unknown origin. For other events, the rest after `..`.
    pub fn write(lba: u64, pages: u32) -> Event {
        Event {
            time_ns: 0,
            lba: Lba(lba),
            pages,
            context: ContextId::NONE,
            file: FileId::NONE,
            file_page: 0,
            op: Op::Write,
            kind: Kind::Data,
            hint: WriteHint::NONE,
        }
    }
}
