//! GETFSMAP: what every page of a file system is used for (linux/fsmap.h).

use std::os::fd::AsFd;

use pcstream_trace::ids::PAGE_BYTES;

use super::buffer::{Buffer, read_u32, read_u64};
use super::{BATCH_RECORDS, DeviceNumber, ExtentError, MAX_RECORDS};

const FS_IOC_GETFSMAP: u64 = 0xC0C0_583B;
const FSMAP_HEAD_BYTES: usize = 192;
const FSMAP_RECORD_BYTES: usize = 64;
const FSMAP_LOW_KEY: usize = 64;
const FSMAP_HIGH_KEY: usize = 128;
const FMH_OF_DEV_T: u32 = 0x1;
const FMR_OF_SPECIAL_OWNER: u32 = 0x10;
const FMR_OF_LAST: u32 = 0x20;

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
    /// Any other use, by its code: the log, B-trees, staging for copy on write, bad blocks.
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
        decode_fsmap(records, by_device.then_some(device), &mut ranges)?;
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

/// Devices of an XFS whose realtime section is on its data device: then records have these numbers in place of a device's, and
/// the realtime section begins with a record of all that lies before it (fs/xfs/xfs_fsmap.c).
const XFS_DATA_DEVICE: u32 = 1;
const XFS_REALTIME_DEVICE: u32 = 3;

/// Whether a record that begins at byte `start` is of the data device.
fn is_on(device: Option<DeviceNumber>, number: u32, start: u64) -> bool {
    match device {
        Some(device) => device.user_dev_t() == number,
        None => number == XFS_DATA_DEVICE || number == XFS_REALTIME_DEVICE && start > 0,
    }
}

/// Decodes whole `fsmap` records of one device; `None`: they have no numbers of devices.
fn decode_fsmap(
    bytes: &[u8],
    device: Option<DeviceNumber>,
    ranges: &mut Vec<FsRange>,
) -> Result<(), ExtentError> {
    for record in bytes.chunks_exact(FSMAP_RECORD_BYTES) {
        let flags = read_u32(record, 4);
        let start = read_u64(record, 8);
        if !is_on(device, read_u32(record, 0), start) {
            continue;
        }
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
        (X, 1) => Owner::StaticFs,
        (X, 5) => Owner::Inodes,
        (F, 1) => Owner::GroupDescriptors,
        (F, 2) => Owner::ReservedDescriptors,
        (F, 3) => Owner::BlockBitmap,
        (F, 4) => Owner::InodeBitmap,
        _ => Owner::Other(code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_realtime_section_on_the_same_device_counts_from_where_it_begins() {
        let record = |device, start, owner| fsmap_record(device, FMR_OF_SPECIAL_OWNER, start, owner, 4096);
        // Data section, log on a device of its own, what lies before the realtime section, and that.
        let records = [record(1, 0, 1), record(2, 4096, 2), record(3, 0, 2), record(3, 8192, 2)].concat();
        let mut ranges = Vec::new();
        decode_fsmap(&records, None, &mut ranges).unwrap();
        let found: Vec<_> = ranges.iter().map(|range| (range.start_page, range.owner)).collect();
        assert_eq!(found, [(0, Owner::Free), (2, Owner::Unknown)]);
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
        let bytes = fsmap_record(XFS_DATA_DEVICE, FMR_OF_SPECIAL_OWNER, 1024, 1, 1024);
        let error = decode_fsmap(&bytes, None, &mut Vec::new()).unwrap_err();
        assert!(matches!(error, ExtentError::Unaligned { start: 1024, bytes: 1024 }));
    }

    #[test]
    fn owner_codes_of_both_file_systems() {
        assert_eq!(decode_owner(2, true), Owner::Unknown);
        assert_eq!(decode_owner(2, false), Owner::Inode(2));
        assert_eq!(decode_owner(0x66_0000_0001, true), Owner::GroupDescriptors);
        assert_eq!(decode_owner(0x66_0000_0004, true), Owner::InodeBitmap);
        assert_eq!(decode_owner(0x58_0000_0002, true), Owner::Other(0x58_0000_0002));
        assert_eq!(decode_owner(0x58_0000_0005, true), Owner::Inodes);
    }
}
