//! F2FS: fixed places from the superblock, and the use of the main area from the kernel's list of segments.
//!
//! Fixed, from the first block on: superblock (twice), checkpoint packs (two, written in turn), segment information
//! (SIT: which blocks of each segment are valid), node addresses (NAT), segment summaries (SSA). Behind them
//! lies the main area, a log of data and node blocks. Offsets: `struct f2fs_super_block`, include/linux/f2fs_fs.h.
//!
//! The kernel has no GETFSMAP for F2FS. It lists the valid blocks of every segment in
//! `/proc/fs/f2fs/DEVICE/segment_bits`.
//!
//! Checkpoints count as `Journal`: they make changes durable, and are the data that is overwritten soonest. Of the main area,
//! node blocks (inodes and the blocks that lead to data) count as `Inode`. The page cache that a block comes from
//! says what it is: of directories, or of the node inode.
//!
//! Known weaknesses: the kernel makes the whole list of segments at once, some 100 MiB for a drive of 1 TB. Encrypted data that is
//! moved to clean a segment comes from no file's page cache and is `OtherMetadata`. File systems on several devices are
//! refused.

use std::io::BufRead;

use pcstream_trace::event::Kind;
use pcstream_trace::ids::{Lba, PAGE_BYTES};

use super::{ReadAt, StaticRange, SuperblockError, read_bytes};
use crate::extents::{FsRange, Owner};
use crate::scratch::F2FS_MAGIC;

const SUPERBLOCK_AT: u64 = 1024;
const SUPERBLOCK_BYTES: usize = 2304;
/// The kernel takes segments of 2^9 blocks only.
const LOG_SEGMENT_BLOCKS: u32 = 9;
/// Bytes of a segment's map of valid blocks.
const MAP_BYTES: usize = 64;
/// Pieces of used and free blocks, as many as of other file systems; they take 384 MiB.
const MAX_RANGES: usize = 1 << 24;
/// First of eight names of devices, if there are several.
const DEVICES_AT: usize = 2201;
/// The inode whose page cache holds the node blocks; the kernel takes no other number.
const NODE_INODE: u64 = 1;

/// Where the areas are. Addresses are in blocks of `block_bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Bytes in a block, a multiple of a page.
    pub block_bytes: u64,
    /// Blocks of the file system.
    pub blocks: u64,
    /// First block of the checkpoint packs.
    pub checkpoints: u64,
    /// … of segment information.
    pub segment_information: u64,
    /// … of node addresses.
    pub node_addresses: u64,
    /// … of segment summaries.
    pub summaries: u64,
    /// … of the main area.
    pub main: u64,
    /// Segments of the main area.
    pub main_segments: u64,
}

impl Superblock {
    /// Reads the first copy and checks its fields against each other.
    pub fn read(read: ReadAt<'_>) -> Result<Superblock, SuperblockError> {
        let mut bytes = [0; SUPERBLOCK_BYTES];
        read_bytes(read, SUPERBLOCK_AT, &mut bytes)?;
        Superblock::parse(&bytes)
    }

    fn parse(bytes: &[u8; SUPERBLOCK_BYTES]) -> Result<Superblock, SuperblockError> {
        if bytes[..4] != F2FS_MAGIC {
            return Err(SuperblockError::Magic { found: bytes[..4].to_vec(), expected: "10 20 f5 f2" });
        }
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let address = |at: usize| u64::from(u32_at(at));
        let field = |field, value, expected| Err(SuperblockError::Field { field, value, expected });
        let log_block = u32_at(16);
        if !(12..=16).contains(&log_block) {
            return field("log_blocksize", log_block.into(), "12 to 16");
        }
        if u32_at(20) != LOG_SEGMENT_BLOCKS {
            return field("log_blocks_per_seg", address(20), "9");
        }
        if bytes[DEVICES_AT] != 0 {
            return field("devs", 2, "1: what is written to other devices is not seen");
        }
        let superblock = Superblock {
            block_bytes: 1 << log_block,
            blocks: u64::from_le_bytes(bytes[36..44].try_into().expect("eight bytes")),
            checkpoints: address(76),
            segment_information: address(80),
            node_addresses: address(84),
            summaries: address(88),
            main: address(92),
            main_segments: address(68),
        };
        superblock.check()?;
        Ok(superblock)
    }

    fn check(&self) -> Result<(), SuperblockError> {
        let areas =
            [self.checkpoints, self.segment_information, self.node_addresses, self.summaries, self.main];
        if let Some(pair) = areas.windows(2).find(|pair| pair[0] > pair[1]) {
            let expected = "areas in the order of checkpoints, SIT, NAT, SSA and main area";
            return Err(SuperblockError::Field { field: "main_blkaddr", value: pair[1], expected });
        }
        if self.main + (self.main_segments << LOG_SEGMENT_BLOCKS) > self.blocks {
            let (field, value) = ("segment_count_main", self.main_segments);
            return Err(SuperblockError::Field { field, value, expected: "segments within block_count" });
        }
        if self.blocks.checked_mul(self.block_bytes).is_none() {
            let (field, value) = ("block_count", self.blocks);
            return Err(SuperblockError::Field { field, value, expected: "a device below 2^64 bytes" });
        }
        Ok(())
    }

    /// Pages of the file system.
    pub fn pages(&self) -> u64 {
        self.blocks * self.block_pages()
    }

    fn block_pages(&self) -> u64 {
        self.block_bytes / PAGE_BYTES
    }

    /// Everything before the main area.
    pub fn static_ranges(&self) -> Vec<StaticRange> {
        let range = |from: u64, to: u64, kind| StaticRange {
            start: Lba(from * self.block_pages()),
            pages: (to - from) * self.block_pages(),
            kind,
        };
        vec![
            range(0, self.checkpoints, Kind::OtherMetadata),
            range(self.checkpoints, self.segment_information, Kind::Journal),
            range(self.segment_information, self.node_addresses, Kind::Bitmap),
            range(self.node_addresses, self.main, Kind::OtherMetadata),
        ]
    }

    /// The use of every page, from the kernel's list of segments (`segment_bits`).
    ///
    /// Errors: what is wrong with the list, with its line.
    pub fn usage(&self, segments: impl BufRead) -> Result<Vec<FsRange>, String> {
        let unit = self.block_pages();
        let mut ranges = vec![FsRange { start_page: 0, pages: self.main * unit, owner: Owner::StaticFs }];
        let mut seen = 0;
        for (at, line) in segments.lines().enumerate() {
            let line = line.map_err(|error| error.to_string())?;
            if !line.starts_with(|first: char| first.is_ascii_digit()) {
                continue;
            }
            if ranges.len() > MAX_RANGES {
                return Err(format!("it has more than {MAX_RANGES} pieces"));
            }
            let map = valid_blocks(&line, seen).ok_or_else(|| {
                format!("line {}: expected segment {seen} with {MAP_BYTES} bytes, found {line:.60}", at + 1)
            })?;
            let start = self.main + (seen << LOG_SEGMENT_BLOCKS);
            for block in 0..1 << LOG_SEGMENT_BLOCKS {
                let valid = map[block / 8] & 0x80 >> (block % 8) != 0;
                let owner = if valid { Owner::Unknown } else { Owner::Free };
                push(&mut ranges, FsRange { start_page: (start + block as u64) * unit, pages: unit, owner });
            }
            seen += 1;
        }
        if seen != self.main_segments {
            return Err(format!("it has {seen} segments, expected {}", self.main_segments));
        }
        Ok(ranges)
    }
}

/// The map of a line such as `0         3|12 | ff 01 …`, if it is that of this segment. Newer kernels add a time at its end.
fn valid_blocks(line: &str, segment: u64) -> Option<[u8; MAP_BYTES]> {
    let mut fields = line.split('|');
    let number = fields.next()?.split_ascii_whitespace().next()?;
    let mut bytes = fields.nth(1)?.split_ascii_whitespace();
    if number.parse() != Ok(segment) {
        return None;
    }
    let mut map = [0; MAP_BYTES];
    for byte in &mut map {
        *byte = u8::from_str_radix(bytes.next()?, 16).ok()?;
    }
    bytes.next().is_none().then_some(map)
}

/// Adds what follows, as a part of the last range if the use is the same.
fn push(ranges: &mut Vec<FsRange>, next: FsRange) {
    match ranges.last_mut() {
        Some(last) if last.owner == next.owner => last.pages += next.pages,
        _ => ranges.push(next),
    }
}

/// The kind of a block in the page cache of an inode that is no file's and no directory's.
pub fn kind_of_internal(inode: u64) -> Kind {
    if inode == NODE_INODE { Kind::Inode } else { Kind::OtherMetadata }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A superblock of `mkfs.f2fs` for a device of 64 MiB: areas at blocks 512, 1536, 2560, 3584 and 4096, 24 segments behind.
    fn superblock() -> [u8; SUPERBLOCK_BYTES] {
        let mut bytes = [0; SUPERBLOCK_BYTES];
        bytes[..4].copy_from_slice(&F2FS_MAGIC);
        let words = [(16, 12), (20, 9), (36, 16384), (68, 24), (76, 512), (80, 1536), (84, 2560), (88, 3584)];
        for (at, value) in words.into_iter().chain([(92, 4096)]) {
            bytes[at..at + 4].copy_from_slice(&u32::to_le_bytes(value));
        }
        bytes
    }

    fn segments(maps: &[[u8; MAP_BYTES]], time: &str) -> String {
        let mut text = "format: segment_type|valid_blocks|bitmaps\nsegment_type(0:HD, 1:WD)\n".to_owned();
        for (segment, map) in maps.iter().enumerate() {
            let hex: String = map.iter().map(|byte| format!(" {byte:02x}")).collect();
            text.push_str(&format!("{segment:<10}3|0  |{hex}{time}\n"));
        }
        text
    }

    #[test]
    fn areas_before_the_main_one_have_their_kinds() {
        let superblock = Superblock::parse(&superblock()).unwrap();
        assert_eq!(superblock.pages(), 16384);
        let ranges = superblock.static_ranges();
        let found: Vec<_> = ranges.iter().map(|range| (range.start.0, range.pages, range.kind)).collect();
        let other = Kind::OtherMetadata;
        let expected =
            [(0, 512, other), (512, 1024, Kind::Journal), (1536, 1024, Kind::Bitmap), (2560, 1536, other)];
        assert_eq!(found, expected);
        assert_eq!((kind_of_internal(1), kind_of_internal(2)), (Kind::Inode, other));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_field() {
        let damaged: [(usize, u32, &str); 6] = [
            (0, 0, "magic number"),
            (16, 9, "log_blocksize is 9, expected 12 to 16"),
            (20, 8, "log_blocks_per_seg is 8, expected 9"),
            (80, 100, "main_blkaddr is 100, expected areas in the order"),
            (68, 25, "segment_count_main is 25, expected segments within block_count"),
            (2200, 0x2f00, "devs is 2, expected 1"),
        ];
        for (at, value, said) in damaged {
            let mut bytes = superblock();
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
            let error = Superblock::parse(&bytes).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn valid_blocks_are_in_use_and_the_highest_bit_is_the_first() {
        let superblock = Superblock::parse(&superblock()).unwrap();
        let mut maps = [[0; MAP_BYTES]; 24];
        (maps[0][0], maps[0][1]) = (0x80, 0x01);
        maps[1] = [0xff; MAP_BYTES];
        let used = |time: &str| {
            let ranges = superblock.usage(segments(&maps, time).as_bytes()).unwrap();
            assert_eq!(ranges.iter().map(|range| range.pages).sum::<u64>(), 16384);
            let used = ranges.into_iter().filter(|range| range.owner != Owner::Free);
            used.map(|range| (range.start_page, range.pages)).collect::<Vec<_>>()
        };
        let expected = [(0, 4096), (4096, 1), (4096 + 15, 1), (4096 + 512, 512)];
        assert_eq!(used(""), expected);
        assert_eq!(used("| 5f3"), expected, "newer kernels add a time");
    }

    #[test]
    fn a_list_of_segments_that_is_not_whole_is_refused() {
        let superblock = Superblock::parse(&superblock()).unwrap();
        let whole = segments(&[[0; MAP_BYTES]; 24], "");
        let refused = |text: String| superblock.usage(text.as_bytes()).unwrap_err();
        assert_eq!(refused(String::new()), "it has 0 segments, expected 24");
        assert!(
            refused(whole.replacen("0         3|", "1         3|", 1)).contains("line 3: expected segment 0")
        );
        assert!(refused(whole.replacen(" 00\n", "\n", 1)).contains("line 3"));
        assert!(refused(whole.replacen(" 00", " zz", 1)).contains("line 3"));
    }
}
