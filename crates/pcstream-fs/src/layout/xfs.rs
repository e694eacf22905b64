//! XFS: fixed places from the superblock, and kinds from verifier names or magic numbers.
//!
//! Fixed: the log (`sb_logstart`, `sb_logblocks`) and, at the start of every allocation group, four sectors:
//! superblock copy, AGF, AGI, AGFL. With 4 KiB sectors each has a page of its own; with smaller ones they
//! share the group's first page, which then counts as `Bitmap`, because AGF and AGI are why it is written.
//!
//! A realtime section on the same device (zoned XFS, `mkfs.xfs -r zoned=1`) holds nothing but data of files.
//!
//! Moving: each metadata buffer has a verifier (`xfs_buf_ops`) whose name tells what it is; the same
//! follow from the magic number at byte 0 (or, for blocks of directory and attribute trees, byte 8).
//! Names and magics: fs/xfs/libxfs (xfs_format.h, xfs_da_format.h and the `*_buf_ops` of each part).
//!
//! `Bitmap` covers the AG headers (what a group descriptor is in ext4) and the bitmaps of the realtime device. B-trees,
//! also those that account for space and inodes, are `OtherMetadata`: they grow and move, as bitmaps do not.
//!
//! Known weakness: inner nodes (`xfs_da3_node`) serve directories and extended attributes alike and count as
//! directory; attribute trees that large are rare. Inode buffers are whole clusters, so an `Inode` page
//! may hold free inodes.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;

use pcstream_trace::event::Kind;
use pcstream_trace::ids::{Lba, PAGE_BYTES};

use super::{PageRange, StaticRange, SuperblockError};

/// Bytes of the superblock sector that are needed, and the smallest sector there is.
pub const SUPERBLOCK_BYTES: usize = 512;
/// Groups are 16 MiB or more and at most 1 TiB each; a superblock with more than this is damaged.
const AG_COUNT_MAX: u32 = 1 << 20;
const SB_MAGIC: &[u8; 4] = b"XFSB";
/// `XFS_IOC_FSGEOMETRY_V1`, and the words of its answer (`struct xfs_fsop_geom_v1`).
const FS_GEOMETRY: u64 = 0x8070_5864;
const GEOMETRY_WORDS: usize = 14;

/// The geometry that places XFS's fixed metadata. Block counts are in blocks of `block_bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Bytes in a file-system block.
    pub block_bytes: u32,
    /// Bytes in a sector.
    pub sector_bytes: u16,
    /// Blocks on the data device.
    pub data_blocks: u64,
    /// Blocks of the realtime section; 0 without one.
    pub realtime_blocks: u64,
    /// First block of the realtime section; 0 if it is on a device of its own.
    pub realtime_start: u64,
    /// Blocks in an allocation group (the last may have fewer).
    pub ag_blocks: u32,
    /// Allocation groups.
    pub ag_count: u32,
    /// Binary logarithm of `ag_blocks`, rounded up: where a block address is cut into group and block.
    pub ag_block_log: u8,
    /// Address of the log, in the file system's split form; 0 when the log is on a device of its own.
    pub log_start: u64,
    /// Blocks of the log.
    pub log_blocks: u32,
}

/// How large a mounted file system is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Blocks on the data device.
    pub data_blocks: u64,
    /// Blocks of the realtime section.
    pub realtime_blocks: u64,
    /// Allocation groups.
    pub ag_count: u32,
}

impl Size {
    /// Asks the file system that a file or directory is on.
    pub fn of_mounted(file: &File) -> io::Result<Size> {
        let mut words = [0u64; GEOMETRY_WORDS];
        // SAFETY: the answer is as long as the number of the request says: 112 bytes.
        let result = unsafe { libc::ioctl(file.as_raw_fd(), FS_GEOMETRY as _, words.as_mut_ptr()) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        // Eight numbers of 32 bits, of which the fourth is that of the groups; then numbers of 64 bits.
        let groups = words[1].to_ne_bytes();
        let ag_count = u32::from_ne_bytes([groups[4], groups[5], groups[6], groups[7]]);
        Ok(Size { data_blocks: words[4], realtime_blocks: words[5], ag_count })
    }
}

impl Superblock {
    /// Reads the fields and checks them against each other.
    pub fn parse(sector: &[u8; SUPERBLOCK_BYTES]) -> Result<Superblock, SuperblockError> {
        let magic: [u8; 4] = sector[..4].try_into().expect("four bytes");
        if &magic != SB_MAGIC {
            return Err(SuperblockError::Magic { found: magic.to_vec(), expected: "\"XFSB\"" });
        }
        let u16_at = |at: usize| u16::from_be_bytes([sector[at], sector[at + 1]]);
        let u32_at = |at: usize| u32::from_be_bytes(sector[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at: usize| u64::from_be_bytes(sector[at..at + 8].try_into().expect("eight bytes"));
        let superblock = Superblock {
            block_bytes: u32_at(4),
            data_blocks: u64_at(8),
            realtime_blocks: u64_at(16),
            realtime_start: u64_at(288),
            log_start: u64_at(48),
            ag_blocks: u32_at(84),
            ag_count: u32_at(88),
            log_blocks: u32_at(96),
            sector_bytes: u16_at(102),
            ag_block_log: sector[124],
        };
        superblock.check()?;
        Ok(superblock)
    }

    /// With the size that a mounted file system has now. After it has grown, the superblock on the device, and what the kernel keeps of
    /// it for readers of the device, may still say the old one.
    pub fn sized(self, size: Size) -> Result<Superblock, SuperblockError> {
        let Size { data_blocks, realtime_blocks, ag_count } = size;
        let superblock = Superblock { data_blocks, realtime_blocks, ag_count, ..self };
        superblock.check()?;
        Ok(superblock)
    }

    fn check(&self) -> Result<(), SuperblockError> {
        let field = |field, value, expected| Err(SuperblockError::Field { field, value, expected });
        let block = u64::from(self.block_bytes);
        if !block.is_power_of_two() || !(PAGE_BYTES..=65536).contains(&block) {
            return field("sb_blocksize", block, "a power of two from 4096 to 65536");
        }
        let sector = self.sector_bytes;
        if !sector.is_power_of_two() || !(512..=32768).contains(&sector) || u64::from(sector) > block {
            return field("sb_sectsize", sector.into(), "a power of two from 512 to the block size");
        }
        let ag_blocks = u64::from(self.ag_blocks);
        if ag_blocks == 0 || self.ag_block_log > 31 || ag_blocks > 1 << self.ag_block_log {
            return field("sb_agblocks", ag_blocks, "1 to 2^sb_agblklog, sb_agblklog at most 31");
        }
        if self.ag_count > AG_COUNT_MAX {
            return field("sb_agcount", self.ag_count.into(), "at most 2^20");
        }
        let full_groups = u64::from(self.ag_count).saturating_sub(1) * ag_blocks;
        if self.ag_count == 0 || self.data_blocks <= full_groups || self.data_blocks > full_groups + ag_blocks
        {
            return field("sb_dblocks", self.data_blocks, "what sb_agcount groups of sb_agblocks hold");
        }
        if self.realtime_blocks != 0 && self.realtime_start == 0 {
            let expected = "0: a realtime device, whose writes are not seen, may hold any file's data";
            return field("sb_rblocks", self.realtime_blocks, expected);
        }
        if self.realtime_start != 0 && self.realtime_start < self.data_blocks {
            return field("sb_rtstart", self.realtime_start, "a section behind the data section");
        }
        let end = self.realtime_start.checked_add(self.realtime_blocks);
        if end.is_none_or(|end| end.max(self.data_blocks).checked_mul(block).is_none()) {
            return field("sb_dblocks", self.data_blocks, "a device below 2^64 bytes");
        }
        let log_end = self.log_block().checked_add(self.log_blocks.into());
        if self.log_start != 0 && log_end.is_none_or(|end| end > self.data_blocks) {
            return field("sb_logstart", self.log_start, "a log within the device");
        }
        Ok(())
    }

    /// The log's first block, counted from the start of the device.
    fn log_block(&self) -> u64 {
        let group = self.log_start >> self.ag_block_log;
        let block = self.log_start & ((1 << self.ag_block_log) - 1);
        group.saturating_mul(self.ag_blocks.into()).saturating_add(block)
    }

    /// Pages of the file system.
    pub fn pages(&self) -> u64 {
        let blocks = self.data_blocks.max(self.realtime_start + self.realtime_blocks);
        blocks * (u64::from(self.block_bytes) / PAGE_BYTES)
    }

    /// The realtime section, if it is on the same device.
    pub fn realtime(&self) -> Option<PageRange> {
        let unit = u64::from(self.block_bytes) / PAGE_BYTES;
        let (start, pages) = (Lba(self.realtime_start * unit), self.realtime_blocks * unit);
        (pages > 0).then_some(PageRange { start, pages })
    }

    /// The log and the headers of every allocation group.
    pub fn static_ranges(&self) -> Vec<StaticRange> {
        let pages_per_block = u64::from(self.block_bytes) / PAGE_BYTES;
        let mut ranges = Vec::new();
        for group in 0..u64::from(self.ag_count) {
            let start = group * u64::from(self.ag_blocks) * pages_per_block;
            ranges.extend(self.header_ranges(start));
        }
        if self.log_start != 0 {
            ranges.push(StaticRange {
                start: Lba(self.log_block() * pages_per_block),
                pages: u64::from(self.log_blocks) * pages_per_block,
                kind: Kind::Journal,
            });
        }
        ranges
    }

    /// Four sectors from page `start` on: superblock, AGF, AGI, AGFL.
    fn header_ranges(&self, start: u64) -> Vec<StaticRange> {
        let sector = u64::from(self.sector_bytes);
        let range =
            |from: u64, to: u64, kind| StaticRange { start: Lba(start + from), pages: to - from, kind };
        let end = (4 * sector).div_ceil(PAGE_BYTES);
        if sector < PAGE_BYTES {
            return vec![range(0, end, Kind::Bitmap)];
        }
        let first = sector / PAGE_BYTES;
        vec![range(0, first, Kind::OtherMetadata), range(first, end, Kind::Bitmap)]
    }
}

/// Verifier names with the kind they stand for.
const VERIFIERS: &[(&str, Kind)] = &[
    ("xfs_agf", Kind::Bitmap),
    ("xfs_agfl", Kind::Bitmap),
    ("xfs_agi", Kind::Bitmap),
    ("xfs_rtbitmap", Kind::Bitmap),
    ("xfs_rtsummary", Kind::Bitmap),
    ("xfs_rtbuf", Kind::Bitmap),
    ("xfs_inode", Kind::Inode),
    ("xfs_inode_ra", Kind::Inode),
    ("xfs_dir3_block", Kind::Directory),
    ("xfs_dir3_data", Kind::Directory),
    ("xfs_dir3_data_reada", Kind::Directory),
    ("xfs_dir3_free", Kind::Directory),
    ("xfs_dir3_leaf1", Kind::Directory),
    ("xfs_dir3_leafn", Kind::Directory),
    ("xfs_da3_node", Kind::Directory),
];
/// Names may have been cut to this many bytes (a 16-byte buffer with its NUL).
const VERIFIER_CUT_BYTES: usize = 15;

/// The kind of a buffer, from its verifier's name (up to a NUL; cut to 15 bytes or more).
/// Trees of free space, inodes, owners and references are no bitmaps: they,
/// `xfs_sb`, `xfs_bmbt`, `xfs_attr3_*`, `xfs_symlink`, `xfs_dquot` and unknown names are `OtherMetadata`.
pub fn kind_of_verifier(name: &[u8]) -> Kind {
    let name = name.split(|&b| b == 0).next().unwrap_or_default();
    let matches = |known: &str| {
        let known = known.as_bytes();
        known == name || (name.len() >= VERIFIER_CUT_BYTES && known.starts_with(name))
    };
    VERIFIERS.iter().find(|(known, _)| matches(known)).map_or(Kind::OtherMetadata, |&(_, kind)| kind)
}

/// The kind of a block, from its first 16 bytes.
pub fn kind_of_block(head: &[u8; 16]) -> Kind {
    match &head[..4] {
        b"XAGF" | b"XAGI" | b"XAFL" => return Kind::Bitmap,
        b"ABTB" | b"AB3B" | b"ABTC" | b"AB3C" => return Kind::OtherMetadata,
        b"IABT" | b"IAB3" | b"FIBT" | b"FIB3" | b"RMB3" | b"R3FC" => return Kind::OtherMetadata,
        b"XD2B" | b"XDB3" | b"XD2D" | b"XDD3" | b"XD2F" | b"XDF3" => return Kind::Directory,
        b"XFSB" | b"BMAP" | b"BMA3" | b"XSLM" | b"XARM" => return Kind::OtherMetadata,
        _ => {}
    }
    if &head[..2] == b"IN" {
        return Kind::Inode;
    }
    // Blocks of directory and attribute trees begin with two sibling pointers.
    match u16::from_be_bytes([head[8], head[9]]) {
        0x3DF1 | 0x3DFF | 0x3EBE | 0xD2F1 | 0xD2FF | 0xFEBE => Kind::Directory,
        _ => Kind::OtherMetadata,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The superblock that mkfs.xfs 6.1 writes for a 1 GiB device with 4 KiB sectors.
    fn one_gib() -> [u8; SUPERBLOCK_BYTES] {
        let mut sector = [0; SUPERBLOCK_BYTES];
        sector[..4].copy_from_slice(SB_MAGIC);
        sector[4..8].copy_from_slice(&4096u32.to_be_bytes());
        sector[8..16].copy_from_slice(&262_144u64.to_be_bytes());
        sector[48..56].copy_from_slice(&131_082u64.to_be_bytes());
        sector[84..88].copy_from_slice(&65_536u32.to_be_bytes());
        sector[88..92].copy_from_slice(&4u32.to_be_bytes());
        sector[96..100].copy_from_slice(&16_384u32.to_be_bytes());
        sector[102..104].copy_from_slice(&4096u16.to_be_bytes());
        sector[124] = 16;
        sector
    }

    fn range(start: u64, pages: u64, kind: Kind) -> StaticRange {
        StaticRange { start: Lba(start), pages, kind }
    }

    #[test]
    fn log_and_headers_of_a_one_gib_file_system() {
        let ranges = Superblock::parse(&one_gib()).unwrap().static_ranges();
        assert_eq!(ranges.len(), 9);
        assert_eq!(ranges[0], range(0, 1, Kind::OtherMetadata));
        assert_eq!(ranges[1], range(1, 3, Kind::Bitmap));
        assert_eq!(ranges[7], range(3 * 65_536 + 1, 3, Kind::Bitmap));
        // As GETFSMAP reports it on a file system with reverse mapping: 512-byte sector 1048656.
        assert_eq!(ranges[8], range(1_048_656 / 8, 131_072 / 8, Kind::Journal));
    }

    #[test]
    fn a_realtime_device_is_refused() {
        let mut sector = one_gib();
        sector[23] = 9;
        let error = Superblock::parse(&sector).unwrap_err().to_string();
        assert!(error.contains("sb_rblocks is 9") && error.contains("realtime device"), "{error}");
    }

    #[test]
    fn a_realtime_section_lies_behind_the_data_section() {
        let mut sector = one_gib();
        sector[16..24].copy_from_slice(&65_536u64.to_be_bytes());
        sector[288..296].copy_from_slice(&262_144u64.to_be_bytes());
        let superblock = Superblock::parse(&sector).unwrap();
        assert_eq!(superblock.realtime(), Some(PageRange { start: Lba(262_144), pages: 65_536 }));
        assert_eq!(superblock.pages(), 262_144 + 65_536);
        assert_eq!(Superblock::parse(&one_gib()).unwrap().realtime(), None);
        sector[288..296].copy_from_slice(&262_143u64.to_be_bytes());
        let error = Superblock::parse(&sector).unwrap_err().to_string();
        assert!(error.contains("sb_rtstart is 262143"), "{error}");
        sector[288..296].copy_from_slice(&u64::MAX.to_be_bytes());
        assert!(Superblock::parse(&sector).is_err());
    }

    #[test]
    fn a_group_size_that_is_no_power_of_two_splits_the_log_address() {
        let mut sector = one_gib();
        sector[84..88].copy_from_slice(&65_530u32.to_be_bytes());
        sector[8..16].copy_from_slice(&262_120u64.to_be_bytes());
        let ranges = Superblock::parse(&sector).unwrap().static_ranges();
        assert_eq!(ranges.last(), Some(&range(2 * 65_530 + 10, 16_384, Kind::Journal)));
    }

    #[test]
    fn small_sectors_share_a_page_and_an_external_log_has_no_range() {
        let mut sector = one_gib();
        sector[102..104].copy_from_slice(&512u16.to_be_bytes());
        sector[48..56].copy_from_slice(&0u64.to_be_bytes());
        let ranges = Superblock::parse(&sector).unwrap().static_ranges();
        assert_eq!(ranges.len(), 4);
        assert!(ranges.iter().all(|r| r.pages == 1 && r.kind == Kind::Bitmap));
    }

    #[test]
    fn nonsense_is_refused_by_field() {
        assert!(matches!(Superblock::parse(&[0; 512]), Err(SuperblockError::Magic { .. })));
        let cases: [(usize, &[u8], &str); 6] = [
            (4, &1024u32.to_be_bytes(), "sb_blocksize"),
            (102, &8192u16.to_be_bytes(), "sb_sectsize"),
            (84, &0u32.to_be_bytes(), "sb_agblocks"),
            (124, &[200], "sb_agblocks"),
            (8, &1u64.to_be_bytes(), "sb_dblocks"),
            (48, &u64::MAX.to_be_bytes(), "sb_logstart"),
        ];
        for (at, bytes, name) in cases {
            let mut sector = one_gib();
            sector[at..at + bytes.len()].copy_from_slice(bytes);
            let error = Superblock::parse(&sector).unwrap_err();
            assert!(
                matches!(error, SuperblockError::Field { field, .. } if field == name),
                "{name}: {error}"
            );
        }
    }

    #[test]
    fn verifier_names_whole_padded_and_cut() {
        let cases: [(&[u8], Kind); 12] = [
            (b"xfs_agf", Kind::Bitmap),
            (b"xfs_agfl\0\0\0\0", Kind::Bitmap),
            (b"xfs_cntbt", Kind::OtherMetadata),
            (b"xfs_finobt", Kind::OtherMetadata),
            (b"xfs_inode", Kind::Inode),
            (b"xfs_dir3_block", Kind::Directory),
            (b"xfs_dir3_data_r", Kind::Directory),
            (b"xfs_da3_node", Kind::Directory),
            (b"xfs_bmbt", Kind::OtherMetadata),
            (b"xfs_attr3_leaf", Kind::OtherMetadata),
            (b"xfs_sb", Kind::OtherMetadata),
            (b"", Kind::OtherMetadata),
        ];
        for (name, kind) in cases {
            assert_eq!(kind_of_verifier(name), kind, "{}", String::from_utf8_lossy(name));
        }
    }

    #[test]
    fn magic_numbers() {
        let at = |offset: usize, magic: &[u8]| {
            let mut head = [0; 16];
            head[offset..offset + magic.len()].copy_from_slice(magic);
            head
        };
        let cases: [(usize, &[u8], Kind); 9] = [
            (0, b"XAGI", Kind::Bitmap),
            (0, b"AB3C", Kind::OtherMetadata),
            (0, b"XDB3", Kind::Directory),
            (0, b"BMA3", Kind::OtherMetadata),
            (0, b"IN\x81\xA4", Kind::Inode),
            (8, &[0x3D, 0xF1], Kind::Directory),
            (8, &[0x3E, 0xBE], Kind::Directory),
            (8, &[0x3B, 0xEE], Kind::OtherMetadata),
            (0, &[0; 4], Kind::OtherMetadata),
        ];
        for (offset, magic, kind) in cases {
            assert_eq!(kind_of_block(&at(offset, magic)), kind, "{magic:02x?}");
        }
    }
}
