//! Records of the ring buffer, as the BPF program writes them (`bpf/wire.h`).
//!
//! The types are generated from that header and checked in (`wire/generated.rs`), so that whoever has no clang can build what
//! reads records; `tests/wire_types.rs` renews them and fails if they differ from the header. This module copies records
//! out of the buffer and checks what it can: a record of unknown type or wrong size is an error, never a guess.

#[allow(missing_docs, clippy::all, clippy::pedantic, dead_code, non_camel_case_types)]
mod generated;

use std::mem::offset_of;

use generated::record_type as RecordType;
pub use generated::{
    buffer_kind as BufferKind, buffer_rule as BufferRule, context_record as ContextRecord,
    counter as Counter, entry as Entry, io_record as IoRecord, io_source as IoSource, limit as Limit,
    module_key as ModuleKey, module_offset as ModuleOffset, owner as Owner, path_record as PathRecord,
    process_record as ProcessRecord, range as StackRange, rule_kind as RuleKind,
    runtime_record as RuntimeRecord, stack_record as StackRecord, stream_count as StreamCount,
    unwind_mode as UnwindMode, unwind_rule as UnwindRule,
};

use pcstream_trace::{Life, WriteHint};
use thiserror::Error;

#[cfg(feature = "bpf")]
pub(crate) use generated::{followed, placed_by};

/// The context of pages that others than the followed tasks made dirty.
pub const CONTEXT_OF_OTHERS: u64 = generated::fixed_context::CONTEXT_OF_OTHERS.0 as u64;

/// Marks the offset of an interrupted instruction in a `ModuleOffset`, as in `bpf/wire.h`.
pub const RULE_AT_IP: u64 = 1 << 63;

/// One record.
#[derive(Debug)]
pub enum Record {
    /// Part of a request.
    Io(IoRecord),
    /// A context seen for the first time.
    Context(Box<ContextRecord>),
    /// A module seen for the first time.
    Module(Box<PathRecord>),
    /// A file seen for the first time.
    File(Box<PathRecord>),
    /// A stack that a call-frame rule was missing for.
    Stack(Box<StackRecord>),
    /// A whole stack, and the context that it was given (`SessionOptions::check_every`).
    Check(Box<StackRecord>),
    /// A process that makes pages dirty, or its end.
    Process(ProcessRecord),
    /// What a language runtime calls a path.
    Runtime(Box<RuntimeRecord>),
}

/// A record that is none.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("record of type {found} with {bytes} bytes in the ring buffer: program and loader differ")]
pub struct UnknownRecord {
    found: u32,
    bytes: usize,
}

impl Record {
    /// Copies a record out of the ring buffer, or out of anything that holds one.
    pub fn parse(bytes: &[u8]) -> Result<Record, UnknownRecord> {
        let found = bytes.first_chunk().map_or(0, |b| u32::from_ne_bytes(*b));
        let unknown = UnknownRecord { found, bytes: bytes.len() };
        Ok(match RecordType(found) {
            RecordType::RECORD_IO => Record::Io(copy(bytes).ok_or(unknown)?),
            RecordType::RECORD_CONTEXT => Record::Context(Box::new(copy(bytes).ok_or(unknown)?)),
            RecordType::RECORD_MODULE => Record::Module(Box::new(copy_path(bytes).ok_or(unknown)?)),
            RecordType::RECORD_FILE => Record::File(Box::new(copy_path(bytes).ok_or(unknown)?)),
            RecordType::RECORD_STACK => Record::Stack(Box::new(copy(bytes).ok_or(unknown)?)),
            RecordType::RECORD_RUNTIME => Record::Runtime(Box::new(copy(bytes).ok_or(unknown)?)),
            RecordType::RECORD_CHECK => Record::Check(Box::new(copy(bytes).ok_or(unknown)?)),
            RecordType::RECORD_PROCESS => Record::Process(copy(bytes).ok_or(unknown)?),
            _ => return Err(unknown),
        })
    }
}

/// Types that any bytes are a value of.
///
/// # Safety
/// Implementors are `repr(C)` structures of integers and arrays of integers.
pub(crate) unsafe trait Plain: Copy {}
// SAFETY: integers and arrays of integers only, see bpf/wire.h.
unsafe impl Plain for IoRecord {}
// SAFETY: as above.
unsafe impl Plain for ContextRecord {}
// SAFETY: as above.
unsafe impl Plain for PathRecord {}
// SAFETY: as above.
unsafe impl Plain for StackRecord {}
// SAFETY: as above.
unsafe impl Plain for RuntimeRecord {}
// SAFETY: as above.
unsafe impl Plain for ProcessRecord {}

// SAFETY: as above.
unsafe impl Plain for StreamCount {}

// SAFETY: as above.
unsafe impl Plain for BufferRule {}
// SAFETY: as above.
unsafe impl Plain for ModuleOffset {}
// SAFETY: as above.
unsafe impl Plain for UnwindRule {}

/// A rule as the BPF program has it.
pub fn rule_bytes(rule: &BufferRule) -> &[u8] {
    bytes_of(rule)
}

/// A CPU's count of a write stream.
pub fn stream_count(bytes: &[u8]) -> Option<StreamCount> {
    copy(bytes)
}

/// A value as the BPF program has it.
pub(crate) fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: `T` is plain and has no padding, as no type of bpf/wire.h has, and the slice lives as long as the value.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

fn copy<T: Plain>(bytes: &[u8]) -> Option<T> {
    (bytes.len() == size_of::<T>()).then(|| {
        // SAFETY: the length was checked, `T` is plain, and the read does not need alignment.
        unsafe { bytes.as_ptr().cast::<T>().read_unaligned() }
    })
}

impl ContextRecord {
    /// The frames that it has, innermost first.
    pub fn path(&self) -> &[ModuleOffset] {
        &self.frame[..(self.frames as usize).min(self.frame.len())]
    }
}

/// A path record, which ends with the text that is used.
fn copy_path(bytes: &[u8]) -> Option<PathRecord> {
    let mut whole = [0; size_of::<PathRecord>()];
    if bytes.len() < offset_of!(PathRecord, text) {
        return None;
    }
    whole.get_mut(..bytes.len())?.copy_from_slice(bytes);
    copy(&whole)
}

/// The components of a path record, innermost first.
pub fn components(record: &PathRecord) -> Vec<&[u8]> {
    let mut rest = &record.text[..];
    let lengths = &record.length[..(record.components as usize).min(record.length.len())];
    lengths
        .iter()
        .map_while(|&length| {
            let (name, after) = rest.split_at_checked(usize::from(length))?;
            rest = after;
            Some(name)
        })
        .collect()
}

/// The absolute path of a path record; `.../` stands for components that were cut.
pub fn path(record: &PathRecord) -> Vec<u8> {
    let mut path = if record.truncated != 0 { b"...".to_vec() } else { Vec::new() };
    for name in components(record).into_iter().rev() {
        path.push(b'/');
        path.extend_from_slice(name);
    }
    path
}

/// What a program asked for with a write; a number that no kernel defines yet is none.
pub(crate) fn hint(record: &IoRecord) -> WriteHint {
    let life = Life::ALL.get(usize::from(record.write_hint)).copied().unwrap_or_default();
    WriteHint { life, stream: record.write_stream }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_the_kernels_number() {
        let of = |write_hint, write_stream| {
            let hint = hint(&IoRecord { write_hint, write_stream, ..Default::default() });
            (hint.life, hint.stream)
        };
        assert_eq!(
            [of(2, 0), of(5, 7), of(200, 0)],
            [(Life::Short, 0), (Life::Extreme, 7), (Life::NotSet, 0)]
        );
    }

    #[test]
    fn a_path_is_its_components_outermost_first() {
        let mut record = PathRecord { components: 2, ..Default::default() };
        record.length[..2].copy_from_slice(&[5, 3]);
        record.text[..8].copy_from_slice(b"b.sstdir");
        assert_eq!(path(&record), b"/dir/b.sst");
        record.truncated = 1;
        assert_eq!(path(&record), b".../dir/b.sst");
    }

    #[test]
    fn a_path_record_ends_with_its_text() {
        let mut record = PathRecord { components: 2, ..Default::default() };
        record.r#type = RecordType::RECORD_FILE.0;
        record.length[..2].copy_from_slice(&[5, 3]);
        record.text[..8].copy_from_slice(b"b.sstdir");
        let (bytes, text) = (bytes_of(&record), offset_of!(PathRecord, text));
        for end in [text + 8, bytes.len()] {
            let Ok(Record::File(parsed)) = Record::parse(&bytes[..end]) else { panic!("{end} bytes") };
            assert_eq!(path(&parsed), b"/dir/b.sst");
        }
        assert!(Record::parse(&bytes[..text - 1]).is_err());
        assert!(Record::parse(&[bytes, &[0]].concat()).is_err());
    }

    #[test]
    fn lengths_beyond_the_text_are_cut() {
        let record = PathRecord { components: 99, length: [255; 24], ..Default::default() };
        assert_eq!(components(&record).len(), record.text.len() / 255);
    }

    #[test]
    fn foreign_bytes_are_refused() {
        assert!(Record::parse(&[]).is_err());
        assert!(Record::parse(&[9; 96]).is_err());
        let mut short = vec![0; 40];
        short[0] = 1;
        assert_eq!(Record::parse(&short).unwrap_err(), UnknownRecord { found: 1, bytes: 40 });
    }
}
