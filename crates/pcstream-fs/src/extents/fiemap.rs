//! FIEMAP: where a file lies (linux/fiemap.h).

use std::os::fd::AsFd;

use pcstream_trace::ids::PAGE_BYTES;

use super::buffer::{Buffer, read_u32, read_u64};
use super::{BATCH_RECORDS, ExtentError, MAX_RECORDS};

const FS_IOC_FIEMAP: u64 = 0xC020_660B;
const FIEMAP_HEAD_BYTES: usize = 32;
const FIEMAP_EXTENT_BYTES: usize = 56;
const FIEMAP_FLAG_SYNC: u32 = 0x1;
const FE_LAST: u32 = 0x1;
const FE_UNKNOWN: u32 = 0x2;
const FE_DELALLOC: u32 = 0x4;
const FE_ENCODED: u32 = 0x8;
const FE_ENCRYPTED: u32 = 0x80;
const FE_NOT_ALIGNED: u32 = 0x100;
const FE_INLINE: u32 = 0x200;
const FE_TAIL: u32 = 0x400;
const FE_UNWRITTEN: u32 = 0x800;
const FE_SHARED: u32 = 0x2000;

/// A run of pages of a file that lie together on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Index of the first page within the file.
    pub logical_page: u64,
    /// Index of the first page on the device.
    pub physical_page: u64,
    /// Length in pages.
    pub pages: u64,
    /// Allocated but never written: reads as zeroes.
    pub unwritten: bool,
    /// Shared with another file (reflink).
    pub shared: bool,
}

/// Why a part of a file has no pages of its own on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// Dirty in memory only; no place is chosen yet.
    Delayed,
    /// The contents lie within a metadata block (inline data, packed tails).
    Inline,
    /// Compressed or encrypted: addresses do not correspond.
    Encoded,
    /// The kernel does not know the place.
    Unknown,
    /// Not in whole 4 KiB pages.
    Unaligned,
}

/// A part of a file that FIEMAP reports without usable pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// First byte within the file.
    pub logical_byte: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Why.
    pub reason: SkipReason,
}

/// A file's place on the device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileMap {
    /// Runs of pages, by place in the file.
    pub extents: Vec<Extent>,
    /// Parts without pages of their own.
    pub skipped: Vec<Skipped>,
}

impl FileMap {
    /// Pages on the device, over all extents.
    pub fn pages(&self) -> u64 {
        self.extents.iter().map(|e| e.pages).sum()
    }
}

/// The pages of a file, after writing it back.
///
/// Errors: the ioctl's own (a file system without FIEMAP), or a map that does not end.
pub fn fiemap(file: &impl AsFd) -> Result<FileMap, ExtentError> {
    const IOCTL: &str = "FIEMAP";
    let mut map = FileMap::default();
    let mut start = 0u64;
    loop {
        let mut buffer = Buffer::new(FIEMAP_HEAD_BYTES + BATCH_RECORDS * FIEMAP_EXTENT_BYTES);
        buffer.put_u64(0, start);
        buffer.put_u64(8, u64::MAX - start);
        buffer.put_u32(16, FIEMAP_FLAG_SYNC);
        buffer.put_u32(24, BATCH_RECORDS as u32);
        buffer.ioctl(file, FS_IOC_FIEMAP).map_err(|source| ExtentError::Ioctl { ioctl: IOCTL, source })?;
        let mapped = (read_u32(buffer.bytes(), 20) as usize).min(BATCH_RECORDS);
        let end = mapped * FIEMAP_EXTENT_BYTES + FIEMAP_HEAD_BYTES;
        let batch = decode_fiemap(&buffer.bytes()[FIEMAP_HEAD_BYTES..end]);
        map.extents.extend(batch.extents);
        map.skipped.extend(batch.skipped);
        if batch.last || mapped == 0 {
            return Ok(map);
        }
        if batch.next_byte <= start {
            return Err(ExtentError::Stuck { ioctl: IOCTL, at: start });
        }
        if map.extents.len() + map.skipped.len() > MAX_RECORDS {
            return Err(ExtentError::TooMany { ioctl: IOCTL });
        }
        start = batch.next_byte;
    }
}

struct FiemapBatch {
    extents: Vec<Extent>,
    skipped: Vec<Skipped>,
    last: bool,
    next_byte: u64,
}

/// Decodes whole `fiemap_extent` records.
fn decode_fiemap(bytes: &[u8]) -> FiemapBatch {
    let mut batch = FiemapBatch { extents: Vec::new(), skipped: Vec::new(), last: false, next_byte: 0 };
    for record in bytes.chunks_exact(FIEMAP_EXTENT_BYTES) {
        let logical = read_u64(record, 0);
        let physical = read_u64(record, 8);
        let length = read_u64(record, 16);
        let flags = read_u32(record, 40);
        batch.next_byte = logical.saturating_add(length);
        batch.last |= flags & FE_LAST != 0;
        match skip_reason(logical, physical, length, flags) {
            Some(reason) => batch.skipped.push(Skipped { logical_byte: logical, bytes: length, reason }),
            None => batch.extents.push(Extent {
                logical_page: logical / PAGE_BYTES,
                physical_page: physical / PAGE_BYTES,
                pages: length / PAGE_BYTES,
                unwritten: flags & FE_UNWRITTEN != 0,
                shared: flags & FE_SHARED != 0,
            }),
        }
    }
    batch
}

fn skip_reason(logical: u64, physical: u64, length: u64, flags: u32) -> Option<SkipReason> {
    // DELALLOC and INLINE come together with UNKNOWN or NOT_ALIGNED: the telling flag goes first.
    if flags & FE_DELALLOC != 0 {
        Some(SkipReason::Delayed)
    } else if flags & (FE_INLINE | FE_TAIL) != 0 {
        Some(SkipReason::Inline)
    } else if flags & (FE_ENCODED | FE_ENCRYPTED) != 0 {
        Some(SkipReason::Encoded)
    } else if flags & FE_UNKNOWN != 0 {
        Some(SkipReason::Unknown)
    } else if flags & FE_NOT_ALIGNED != 0
        || !(logical | physical | length).is_multiple_of(PAGE_BYTES)
        || length == 0
    {
        Some(SkipReason::Unaligned)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn fiemap_record(logical: u64, physical: u64, length: u64, flags: u32) -> Vec<u8> {
        let mut record = vec![0; FIEMAP_EXTENT_BYTES];
        record[0..8].copy_from_slice(&logical.to_ne_bytes());
        record[8..16].copy_from_slice(&physical.to_ne_bytes());
        record[16..24].copy_from_slice(&length.to_ne_bytes());
        record[40..44].copy_from_slice(&flags.to_ne_bytes());
        record
    }

    #[test]
    fn fiemap_records_become_pages_and_the_rest_is_skipped_with_its_reason() {
        let mut bytes = vec![0xAA]; // Odd start: records are decoded at any alignment.
        bytes.extend(fiemap_record(0, 8 << 20, 16384, 0));
        bytes.extend(fiemap_record(16384, 4096, 4096, FE_UNWRITTEN | FE_SHARED));
        bytes.extend(fiemap_record(20480, 0, 8192, FE_UNKNOWN | FE_DELALLOC));
        bytes.extend(fiemap_record(28672, 100, 60, FE_NOT_ALIGNED | FE_INLINE));
        bytes.extend(fiemap_record(32768, 1024, 1024, FE_LAST));
        let batch = decode_fiemap(&bytes[1..]);
        let plain =
            Extent { logical_page: 0, physical_page: 2048, pages: 4, unwritten: false, shared: false };
        let unwritten = Extent { logical_page: 4, physical_page: 1, pages: 1, unwritten: true, shared: true };
        assert_eq!(batch.extents, [plain, unwritten]);
        let reasons: Vec<_> = batch.skipped.iter().map(|s| s.reason).collect();
        assert_eq!(reasons, [SkipReason::Delayed, SkipReason::Inline, SkipReason::Unaligned]);
        assert!(batch.last);
        assert_eq!(batch.next_byte, 32768 + 1024);
    }

    #[test]
    fn fiemap_of_a_pipe_says_that_it_is_not_offered() {
        let (reader, _writer) = io::pipe().unwrap();
        let error = fiemap(&reader).unwrap_err();
        assert!(error.to_string().contains("FIEMAP failed"), "{error}");
        assert!(error.to_string().contains("ext4 and XFS"), "{error}");
    }
}
