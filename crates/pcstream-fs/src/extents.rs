//! Where a file lies (FIEMAP) and what every page of a file system is used for (GETFSMAP).
//!
//! Idea: both ioctls fill a caller's buffer with fixed-size records and are called again from the
//! last record on. The system calls live in two small loops; the records are decoded by pure
//! functions over bytes, which need neither alignment nor root.
//!
//! Units: pages of 4 KiB, on the device that holds the file system (a partition counts from its own
//! first page).
//!
//! Invariants: results are in ascending order; each further call must make progress, or the loop
//! ends with an error; at most `MAX_RECORDS` records are accepted.
//!
//! Known weaknesses: a file system may change between two calls of one loop, so both are only exact
//! while nobody writes. FIEMAP asks the kernel to write the file back first, GETFSMAP does not: sync
//! before. File systems with blocks below 4 KiB do not fit a trace of 4 KiB pages: FIEMAP reports
//! their odd extents as skipped, GETFSMAP refuses.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use pcstream_trace::ids::PAGE_BYTES;
use thiserror::Error;

/// Upper bound on the records of one file or file system: 16 Mi extents are 384 MiB of results here;
/// a file system with more is damaged or not one to trace.
const MAX_RECORDS: usize = 1 << 24;
/// Records asked for at once: 64 KiB of GETFSMAP records, 56 KiB of FIEMAP records.
const BATCH_RECORDS: usize = 1024;

/// Why extents could not be read.
#[derive(Debug, Error)]
pub enum ExtentError {
    /// The ioctl failed.
    #[error("{ioctl} failed: {source}{}", unsupported_hint(.source))]
    Ioctl {
        /// Name of the request.
        ioctl: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel repeated itself.
    #[error(
        "{ioctl} made no progress at byte {at} (the file system is changing too fast, or its map is damaged): stop the writers and try again"
    )]
    Stuck {
        /// Name of the request.
        ioctl: &'static str,
        /// Where, in bytes.
        at: u64,
    },
    /// More records than a sane file system has.
    #[error("{ioctl} gave more than {MAX_RECORDS} records")]
    TooMany {
        /// Name of the request.
        ioctl: &'static str,
    },
    /// The file system allocates in units below the page of a trace.
    #[error(
        "the file system has a range at byte {start}, {bytes} bytes long, which is not in whole {PAGE_BYTES}-byte pages: make it with a block size of {PAGE_BYTES}"
    )]
    Unaligned {
        /// First byte of the range.
        start: u64,
        /// Its length.
        bytes: u64,
    },
}

fn unsupported_hint(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EOPNOTSUPP | libc::ENOTTY) => " (this file system does not offer it; ext4 and XFS do)",
        _ => "",
    }
}

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

/// What a range of a file system is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// Nothing.
    Free,
    /// In use, but the file system keeps no record for what (file data, directories, B-trees).
    Unknown,
    /// Contents or mapping of the file with this inode number (XFS with reverse mapping).
    Inode(u64),
    /// ext4: superblock. XFS: the headers of an allocation group.
    StaticFs,
    /// ext4's journal, XFS's log.
    Log,
    /// ext4: inode tables. XFS: inode chunks.
    Inodes,
    /// ext4: group descriptors.
    GroupDescriptors,
    /// ext4: room for the group descriptors of a grown file system.
    ReservedDescriptors,
    /// ext4: block bitmaps.
    BlockBitmap,
    /// ext4: inode bitmaps.
    InodeBitmap,
    /// XFS: free-space and reverse-mapping B-trees.
    AgMetadata,
    /// XFS: inode B-trees.
    InodeBtree,
    /// XFS: reference-count B-tree.
    RefcountBtree,
    /// XFS: staging for copy on write.
    CowStaging,
    /// Bad blocks.
    Defective,
    /// Metadata without a finer name.
    Metadata,
    /// A code this version does not know.
    Other(u64),
}

/// A range of a file system and its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FsRange {
    /// First page.
    pub start_page: u64,
    /// Length in pages.
    pub pages: u64,
    /// What it is used for.
    pub owner: Owner,
}

// --- FIEMAP: linux/fiemap.h ------------------------------------------------------------------

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

// --- GETFSMAP: linux/fsmap.h -----------------------------------------------------------------

const FS_IOC_GETFSMAP: u64 = 0xC0C0_583B;
const FSMAP_HEAD_BYTES: usize = 192;
const FSMAP_RECORD_BYTES: usize = 64;
const FSMAP_LOW_KEY: usize = 64;
const FSMAP_HIGH_KEY: usize = 128;
const FMH_OF_DEV_T: u32 = 0x1;
const FMR_OF_SPECIAL_OWNER: u32 = 0x10;
const FMR_OF_LAST: u32 = 0x20;

/// The use of every page of the mounted file system that holds `dir`, in ascending order, without gaps
/// from page 0 to `pages`.
///
/// `device` is the block device of the file system: XFS also reports its external log and real-time
/// devices, which are left out. What the kernel passes over counts as `Unknown`: ext4 (seen on 6.18) does not
/// report allocated blocks that directly follow a group's fixed metadata.
///
/// Errors: the ioctl's own, ranges not in whole pages, or a map that does not end.
pub fn getfsmap(dir: &impl AsFd, device: DeviceNumber, pages: u64) -> Result<Vec<FsRange>, ExtentError> {
    raw_getfsmap(dir, device).map(|ranges| fill_gaps(ranges, pages))
}

/// Puts `Unknown` where no range is.
fn fill_gaps(mut ranges: Vec<FsRange>, pages: u64) -> Vec<FsRange> {
    ranges.sort_by_key(|r| r.start_page);
    let mut filled = Vec::with_capacity(ranges.len());
    let mut reached = 0;
    let gap = |from: u64, to: u64| {
        (from < to).then(|| FsRange { start_page: from, pages: to - from, owner: Owner::Unknown })
    };
    for range in ranges {
        filled.extend(gap(reached, range.start_page));
        filled.push(range);
        reached = reached.max(range.start_page + range.pages);
    }
    filled.extend(gap(reached, pages));
    filled
}

fn raw_getfsmap(dir: &impl AsFd, device: DeviceNumber) -> Result<Vec<FsRange>, ExtentError> {
    const IOCTL: &str = "GETFSMAP";
    let mut ranges: Vec<FsRange> = Vec::new();
    let mut low_key = [0u8; FSMAP_RECORD_BYTES];
    let mut reached = None;
    loop {
        let mut buffer = Buffer::new(FSMAP_HEAD_BYTES + BATCH_RECORDS * FSMAP_RECORD_BYTES);
        buffer.put_u32(8, BATCH_RECORDS as u32);
        buffer.bytes_mut()[FSMAP_LOW_KEY..FSMAP_LOW_KEY + FSMAP_RECORD_BYTES].copy_from_slice(&low_key);
        put_highest_key(&mut buffer);
        buffer.ioctl(dir, FS_IOC_GETFSMAP).map_err(|source| ExtentError::Ioctl { ioctl: IOCTL, source })?;
        let by_device = read_u32(buffer.bytes(), 4) & FMH_OF_DEV_T != 0;
        let entries = (read_u32(buffer.bytes(), 12) as usize).min(BATCH_RECORDS);
        if entries == 0 {
            return Ok(ranges);
        }
        let records = &buffer.bytes()[FSMAP_HEAD_BYTES..FSMAP_HEAD_BYTES + entries * FSMAP_RECORD_BYTES];
        let wanted = by_device.then_some(device);
        decode_fsmap(records, wanted, &mut ranges)?;
        let last = &records[(entries - 1) * FSMAP_RECORD_BYTES..];
        if read_u32(last, 4) & FMR_OF_LAST != 0 {
            return Ok(ranges);
        }
        // The next call begins where the last record ends; device first, then address, then offset.
        let here = (read_u32(last, 0), read_u64(last, 8), read_u64(last, 24), read_u64(last, 32));
        if Some(here) == reached {
            return Err(ExtentError::Stuck { ioctl: IOCTL, at: here.1 });
        }
        if ranges.len() > MAX_RECORDS {
            return Err(ExtentError::TooMany { ioctl: IOCTL });
        }
        reached = Some(here);
        low_key.copy_from_slice(last);
    }
}

/// The greatest key there is: everything up to the end of the last device.
fn put_highest_key(buffer: &mut Buffer) {
    buffer.put_u32(FSMAP_HIGH_KEY, u32::MAX);
    buffer.put_u32(FSMAP_HIGH_KEY + 4, u32::MAX);
    for field in [8, 16, 24] {
        buffer.put_u64(FSMAP_HIGH_KEY + field, u64::MAX);
    }
}

/// Decodes whole `fsmap` records; `device`, if given, selects one device's.
fn decode_fsmap(
    bytes: &[u8],
    device: Option<DeviceNumber>,
    ranges: &mut Vec<FsRange>,
) -> Result<(), ExtentError> {
    for record in bytes.chunks_exact(FSMAP_RECORD_BYTES) {
        if device.is_some_and(|d| d.user_dev_t() != read_u32(record, 0)) {
            continue;
        }
        let flags = read_u32(record, 4);
        let start = read_u64(record, 8);
        let length = read_u64(record, 32);
        if length == 0 {
            continue;
        }
        if !(start | length).is_multiple_of(PAGE_BYTES) {
            return Err(ExtentError::Unaligned { start, bytes: length });
        }
        let owner = decode_owner(read_u64(record, 16), flags & FMR_OF_SPECIAL_OWNER != 0);
        ranges.push(FsRange { start_page: start / PAGE_BYTES, pages: length / PAGE_BYTES, owner });
    }
    Ok(())
}

/// Owner codes: type in the high half, code in the low one. Types 0 (all), 'X' (XFS, in part used by
/// ext4 too) and 'f' (ext4); from linux/fsmap.h, fs/xfs/libxfs/xfs_fs.h and fs/ext4/fsmap.h.
fn decode_owner(code: u64, special: bool) -> Owner {
    const X: u32 = b'X' as u32;
    const F: u32 = b'f' as u32;
    if !special {
        return Owner::Inode(code);
    }
    match ((code >> 32) as u32, code as u32) {
        (0, 1) => Owner::Free,
        (0, 2) => Owner::Unknown,
        (0, 3) => Owner::Metadata,
        (X, 1) => Owner::StaticFs,
        (X, 2) => Owner::Log,
        (X, 3) => Owner::AgMetadata,
        (X, 4) => Owner::InodeBtree,
        (X, 5) => Owner::Inodes,
        (X, 6) => Owner::RefcountBtree,
        (X, 7) => Owner::CowStaging,
        (X, 8) => Owner::Defective,
        (F, 1) => Owner::GroupDescriptors,
        (F, 2) => Owner::ReservedDescriptors,
        (F, 3) => Owner::BlockBitmap,
        (F, 4) => Owner::InodeBitmap,
        _ => Owner::Other(code),
    }
}

/// Major and minor number of a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct DeviceNumber {
    /// The driver's number.
    pub major: u32,
    /// The device's number within the driver.
    pub minor: u32,
}

impl DeviceNumber {
    /// From the `st_dev` or `st_rdev` of `stat(2)`.
    pub fn from_stat(dev: u64) -> DeviceNumber {
        DeviceNumber { major: libc::major(dev), minor: libc::minor(dev) }
    }

    /// `dev_t` inside the kernel (`MKDEV`), as BPF programs read it.
    pub fn kernel_dev_t(self) -> u32 {
        (self.major << 20) | (self.minor & 0xF_FFFF)
    }

    /// The 32-bit `dev_t` of system calls (`new_encode_dev`).
    pub fn user_dev_t(self) -> u32 {
        (self.minor & 0xFF) | (self.major << 8) | ((self.minor & !0xFF) << 12)
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

// --- Buffers ---------------------------------------------------------------------------------

/// An ioctl argument: bytes, aligned as the kernel's structures want them.
struct Buffer {
    words: Vec<u64>,
}

impl Buffer {
    fn new(bytes: usize) -> Buffer {
        Buffer { words: vec![0; bytes.div_ceil(8)] }
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the vector owns `len * 8` initialised bytes, and any byte is a valid u8.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), self.words.len() * 8) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; the borrow is exclusive, and any byte pattern is a valid u64.
        unsafe { std::slice::from_raw_parts_mut(self.words.as_mut_ptr().cast(), self.words.len() * 8) }
    }

    fn put_u32(&mut self, at: usize, value: u32) {
        self.bytes_mut()[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }

    fn put_u64(&mut self, at: usize, value: u64) {
        self.bytes_mut()[at..at + 8].copy_from_slice(&value.to_ne_bytes());
    }

    /// Both requests write no more records than the count field in the head allows, and every caller
    /// sizes the buffer by that count.
    fn ioctl(&mut self, fd: &impl AsFd, request: u64) -> io::Result<()> {
        // SAFETY: the buffer lives across the call and is as long as its own head declares.
        let result = unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), request as _, self.words.as_mut_ptr()) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

fn read_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("a slice of four bytes"))
}

fn read_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("a slice of eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fiemap_record(logical: u64, physical: u64, length: u64, flags: u32) -> Vec<u8> {
        let mut record = vec![0; FIEMAP_EXTENT_BYTES];
        record[0..8].copy_from_slice(&logical.to_ne_bytes());
        record[8..16].copy_from_slice(&physical.to_ne_bytes());
        record[16..24].copy_from_slice(&length.to_ne_bytes());
        record[40..44].copy_from_slice(&flags.to_ne_bytes());
        record
    }

    fn fsmap_record(device: u32, flags: u32, physical: u64, owner: u64, length: u64) -> Vec<u8> {
        let mut record = vec![0; FSMAP_RECORD_BYTES];
        record[0..4].copy_from_slice(&device.to_ne_bytes());
        record[4..8].copy_from_slice(&flags.to_ne_bytes());
        record[8..16].copy_from_slice(&physical.to_ne_bytes());
        record[16..24].copy_from_slice(&owner.to_ne_bytes());
        record[32..40].copy_from_slice(&length.to_ne_bytes());
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
    fn fsmap_records_are_decoded_and_other_devices_left_out() {
        let zram = DeviceNumber { major: 253, minor: 1 };
        let log = DeviceNumber { major: 7, minor: 300 };
        let x = |code: u64| (u64::from(b'X') << 32) | code;
        let f = |code: u64| (u64::from(b'f') << 32) | code;
        let mut bytes = Vec::new();
        bytes.extend(fsmap_record(zram.user_dev_t(), FMR_OF_SPECIAL_OWNER, 0, x(1), 4096));
        bytes.extend(fsmap_record(log.user_dev_t(), FMR_OF_SPECIAL_OWNER, 0, x(2), 4096));
        bytes.extend(fsmap_record(zram.user_dev_t(), FMR_OF_SPECIAL_OWNER, 4096, f(3), 8192));
        bytes.extend(fsmap_record(zram.user_dev_t(), 1, 12288, 131, 4096));
        bytes.extend(fsmap_record(zram.user_dev_t(), FMR_OF_SPECIAL_OWNER, 16384, 1, 4096));
        let mut ranges = Vec::new();
        decode_fsmap(&bytes, Some(zram), &mut ranges).unwrap();
        let owners: Vec<_> = ranges.iter().map(|r| (r.start_page, r.pages, r.owner)).collect();
        assert_eq!(
            owners,
            [
                (0, 1, Owner::StaticFs),
                (1, 2, Owner::BlockBitmap),
                (3, 1, Owner::Inode(131)),
                (4, 1, Owner::Free)
            ]
        );
    }

    #[test]
    fn what_the_kernel_passes_over_is_in_use() {
        let range = |start_page, pages, owner| FsRange { start_page, pages, owner };
        // A group's metadata, blocks of a file that are not reported, free space; then a shared extent.
        let reported = vec![
            range(2, 3, Owner::GroupDescriptors),
            range(10, 5, Owner::Free),
            range(15, 8, Owner::Inode(131)),
            range(16, 2, Owner::Inode(132)),
        ];
        let whole = fill_gaps(reported, 30);
        let unknown: Vec<_> =
            whole.iter().filter(|r| r.owner == Owner::Unknown).map(|r| (r.start_page, r.pages)).collect();
        assert_eq!(unknown, [(0, 2), (5, 5), (23, 7)]);
        assert_eq!(whole.len(), 7);
        assert_eq!(fill_gaps(Vec::new(), 0), []);
    }

    #[test]
    fn fsmap_ranges_below_a_page_are_refused_with_their_place() {
        let bytes = fsmap_record(0, FMR_OF_SPECIAL_OWNER, 1024, 1, 1024);
        let error = decode_fsmap(&bytes, None, &mut Vec::new()).unwrap_err();
        assert!(matches!(error, ExtentError::Unaligned { start: 1024, bytes: 1024 }));
    }

    #[test]
    fn owner_codes_of_both_file_systems() {
        assert_eq!(decode_owner(2, true), Owner::Unknown);
        assert_eq!(decode_owner(2, false), Owner::Inode(2));
        assert_eq!(decode_owner(0x66_0000_0001, true), Owner::GroupDescriptors);
        assert_eq!(decode_owner(0x66_0000_0004, true), Owner::InodeBitmap);
        assert_eq!(decode_owner(0x58_0000_0002, true), Owner::Log);
        assert_eq!(decode_owner(0x58_0000_0005, true), Owner::Inodes);
        assert_eq!(decode_owner(0x58_0000_0063, true), Owner::Other(0x58_0000_0063));
    }

    #[test]
    fn device_numbers_in_their_two_encodings() {
        let device = DeviceNumber { major: 259, minor: 0x1234 };
        assert_eq!(device.kernel_dev_t(), (259 << 20) | 0x1234);
        assert_eq!(device.user_dev_t(), 0x34 | (259 << 8) | (0x1200 << 12));
        assert_eq!(DeviceNumber::from_stat(libc::makedev(259, 0x1234)), device);
    }

    #[test]
    fn fiemap_of_a_pipe_says_that_it_is_not_offered() {
        let (reader, _writer) = io::pipe().unwrap();
        let error = fiemap(&reader).unwrap_err();
        assert!(error.to_string().contains("FIEMAP failed"), "{error}");
        assert!(error.to_string().contains("ext4 and XFS"), "{error}");
    }
}
