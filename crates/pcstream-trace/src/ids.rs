//! Newtypes of the trace: what a number counts is part of its type.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Bytes in a page, the unit of mapping and of every address in a trace.
pub const PAGE_BYTES: u64 = 4096;

/// A logical page address: index of a 4 KiB page on the traced device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Lba(pub u64);

/// Index into the trace's contexts table. `ContextId::NONE` (0) means that no context is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContextId(pub u32);

/// Index into the trace's files table. `FileId::NONE` (0) means that no file is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u32);

/// 64-bit identity of a program context: equal for one call path of one binary across runs,
/// address-space randomisation and machines (FAST'19, section 3.2, made module-relative).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signature(pub u64);

impl ContextId {
    /// No context is known for the pages of this event.
    pub const NONE: ContextId = ContextId(0);

    /// Whether a context is known.
    pub fn is_some(self) -> bool {
        self != Self::NONE
    }
}

impl FileId {
    /// No file is known for the pages of this event.
    pub const NONE: FileId = FileId(0);

    /// Whether a file is known.
    pub fn is_some(self) -> bool {
        self != Self::NONE
    }
}

impl fmt::Display for Lba {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
