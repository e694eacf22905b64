//! ext4: what GETFSMAP's owners mean, where the journal is, and what a block's bytes give away.
//!
//! The journal is an inode (number in the superblock, usually 8) without a name. Its extent tree, or block map on
//! file systems that were ext3, is read from the device; it never changes while mounted. Offsets: fs/ext4/ext4.h
//! and ext4_extents.h.
//!
//! Directories are the metadata that moves. Their blocks are known by (fs/ext4/ext4.h):
//! - a leaf on a file system with metadata checksums ends in `ext4_dir_entry_tail`: inode 0, record
//!   length 12, name length 0, file type 0xDE, checksum;
//! - the first block, linear or root of a hash tree, begins with the entry ".": record length 12, name
//!   length 1;
//! - an inner node of a hash tree begins with a fake entry: inode 0, a record as long as the block;
//! - without checksums a later leaf has no mark. A first entry that makes sense (inode, record length
//!   in steps of 4, a name that fits, a known file type) is taken as one.
//!
//! Everything else that is not at a fixed place is `OtherMetadata`: extent-tree blocks (magic 0xF30A),
//! extended attributes (magic 0xEA020000), indirect blocks, quota.
//!
//! Known weakness: the last directory rule can take an indirect block for a directory, but only beyond
//! 64 GiB (a block number's highest byte must look like a file type) and only without checksums.

use pcstream_trace::event::Kind;
use pcstream_trace::ids::{Lba, PAGE_BYTES};

use super::{ReadAt, StaticRange, SuperblockError, read_bytes};
use crate::extents::{FsRange, Owner};

const EXTENT_MAGIC: u16 = 0xF30A;
const XATTR_MAGIC: u32 = 0xEA02_0000;
const DIR_TAIL_TYPE: u8 = 0xDE;
const DIR_TAIL_BYTES: u16 = 12;
const DIR_ENTRY_HEAD_BYTES: u32 = 8;
/// The highest file type of a directory entry (7 is a symbolic link).
const FILE_TYPE_MAX: u8 = 7;
const FILE_TYPE_DIRECTORY: u8 = 2;

const SUPERBLOCK_AT: u64 = 1024;
const SUPERBLOCK_BYTES: usize = 1024;
const SUPERBLOCK_MAGIC: u16 = 0xEF53;
const COMPAT_HAS_JOURNAL: u32 = 0x4;
const INCOMPAT_64BIT: u32 = 0x80;
const INODE_FLAG_EXTENTS: u32 = 0x8_0000;
const INODE_BLOCK_AT: usize = 0x28;
const INODE_BLOCK_BYTES: usize = 60;
const DIRECT_BLOCKS: usize = 12;
/// Extents longer than this are unwritten, their length is 32768 less.
const EXTENT_PAGES_MAX: u64 = 32768;
const EXTENT_DEPTH_MAX: u16 = 5;
/// jbd2 takes at most 2^32 blocks; a journal of 64 GiB is already absurd (mke2fs allows 40 GB).
const JOURNAL_BLOCKS_MAX: u64 = 1 << 24;

/// Blocks of the tree or map that says where the journal is: even of one block an extent, 2^24 blocks have fewer.
const JOURNAL_NODES_MAX: u32 = 1 << 16;
/// Pieces of the journal; it is made in a few.
const JOURNAL_RUNS_MAX: usize = 1 << 16;

/// What was found of the journal, and what may still come: whoever made the file system chose its bytes.
struct Walk<'a> {
    read: ReadAt<'a>,
    /// Blocks of the journal that are still to come.
    left: u64,
    /// Blocks that may still be read to find them.
    nodes: u32,
    /// (block, blocks) in order.
    runs: Vec<(u64, u64)>,
}

impl Walk<'_> {
    /// Reads a block of the tree or map.
    fn node(&mut self, at: u64, block_bytes: u64) -> Result<Vec<u8>, SuperblockError> {
        let field = "blocks that say where the journal is";
        self.nodes = self.nodes.checked_sub(1).ok_or(SuperblockError::Field {
            field,
            value: u64::from(JOURNAL_NODES_MAX) + 1,
            expected: "at most 2^16",
        })?;
        let mut block = vec![0; block_bytes as usize];
        read_bytes(self.read, at, &mut block)?;
        Ok(block)
    }

    /// Takes blocks of the journal, as far as its size goes.
    fn take(&mut self, start: u64, blocks: u64) -> Result<(), SuperblockError> {
        let blocks = blocks.min(self.left);
        self.left -= blocks;
        let is_full = self.runs.len() == JOURNAL_RUNS_MAX;
        match self.runs.last_mut() {
            _ if blocks == 0 => {}
            Some((last, length)) if *last + *length == start => *length += blocks,
            _ if is_full => {
                let (field, value) = ("pieces of the journal", JOURNAL_RUNS_MAX as u64 + 1);
                return Err(SuperblockError::Field { field, value, expected: "at most 2^16" });
            }
            _ => self.runs.push((start, blocks)),
        }
        Ok(())
    }
}

/// What is needed to find the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Bytes in a file-system block, a multiple of a page.
    pub block_bytes: u64,
    /// Blocks of the file system.
    pub blocks: u64,
    /// Inode number of the journal; 0 if there is none, or on another device.
    pub journal_inode: u32,
    /// Number of the device that holds the journal; 0 if none does.
    pub journal_device: u32,
    inodes_per_group: u32,
    inode_bytes: u16,
    /// Byte at which the group descriptors begin, and bytes of one.
    descriptors_at: u64,
    descriptor_bytes: u16,
}

impl Superblock {
    /// Reads and checks the primary superblock.
    pub fn read(read: ReadAt<'_>) -> Result<Superblock, SuperblockError> {
        let mut bytes = [0; SUPERBLOCK_BYTES];
        read_bytes(read, SUPERBLOCK_AT, &mut bytes)?;
        let field = |field, value, expected| Err(SuperblockError::Field { field, value, expected });
        if le16(&bytes, 0x38) != SUPERBLOCK_MAGIC {
            let found = bytes[0x38..0x3A].to_vec();
            return Err(SuperblockError::Magic { found, expected: "53 ef at byte 1080 (ext4)" });
        }
        let log = le32(&bytes, 0x18);
        // 2 is 4 KiB, the page of a trace; 6 is 64 KiB, ext4's largest block.
        if !(2..=6).contains(&log) {
            return field("s_log_block_size", log.into(), "2 to 6 (blocks of 4 to 64 KiB)");
        }
        let wide = le32(&bytes, 0x60) & INCOMPAT_64BIT != 0;
        let blocks_high = if wide { u64::from(le32(&bytes, 0x150)) } else { 0 };
        let block_bytes = 1024u64 << log;
        let has_journal = le32(&bytes, 0x5C) & COMPAT_HAS_JOURNAL != 0;
        let superblock = Superblock {
            block_bytes,
            blocks: blocks_high << 32 | u64::from(le32(&bytes, 0x4)),
            journal_inode: if has_journal { le32(&bytes, 0xE0) } else { 0 },
            journal_device: if has_journal { le32(&bytes, 0xE4) } else { 0 },
            inodes_per_group: le32(&bytes, 0x28),
            inode_bytes: if le32(&bytes, 0x4C) == 0 { 128 } else { le16(&bytes, 0x58) },
            descriptors_at: (u64::from(le32(&bytes, 0x14)) + 1) * block_bytes,
            descriptor_bytes: if wide { le16(&bytes, 0xFE) } else { 32 },
        };
        if superblock.blocks == 0 || superblock.blocks.checked_mul(block_bytes).is_none() {
            return field("s_blocks_count", superblock.blocks, "1 or more, on a device below 2^64 bytes");
        }
        // The journal's number is a reserved one, so it is in the first group, whose descriptor comes first.
        if superblock.journal_inode > superblock.inodes_per_group {
            return field("s_journal_inum", superblock.journal_inode.into(), "an inode of the first group");
        }
        let inode_bytes = u64::from(superblock.inode_bytes);
        if !inode_bytes.is_power_of_two() || !(128..=block_bytes).contains(&inode_bytes) {
            return field("s_inode_size", inode_bytes, "a power of two from 128 to the block size");
        }
        if !matches!(superblock.descriptor_bytes, 32..=1024) {
            return field("s_desc_size", superblock.descriptor_bytes.into(), "32 to 1024");
        }
        Ok(superblock)
    }

    /// The pages of the journal; none if it is on another device.
    pub fn journal(&self, read: ReadAt<'_>) -> Result<Vec<StaticRange>, SuperblockError> {
        if self.journal_inode == 0 {
            return Ok(Vec::new());
        }
        let mut descriptor = [0; 64];
        let length = usize::from(self.descriptor_bytes).min(descriptor.len());
        read_bytes(read, self.descriptors_at, &mut descriptor[..length])?;
        let table = u64::from(le32(&descriptor, 0x28)) << 32 | u64::from(le32(&descriptor, 8));
        let at = self.byte_of(table, "bg_inode_table")?
            + u64::from(self.journal_inode - 1) * u64::from(self.inode_bytes);
        let mut inode = [0; 128];
        read_bytes(read, at, &mut inode)?;
        let root = &inode[INODE_BLOCK_AT..INODE_BLOCK_AT + INODE_BLOCK_BYTES];
        let bytes = u64::from(le32(&inode, 0x6C)) << 32 | u64::from(le32(&inode, 4));
        let blocks = bytes / self.block_bytes;
        if blocks > JOURNAL_BLOCKS_MAX {
            return Err(SuperblockError::Field {
                field: "size of the journal in blocks",
                value: blocks,
                expected: "at most 2^24",
            });
        }
        let mut walk = Walk { read, left: blocks, nodes: JOURNAL_NODES_MAX, runs: Vec::new() };
        if le32(&inode, 0x20) & INODE_FLAG_EXTENTS != 0 {
            self.walk_extents(root, EXTENT_DEPTH_MAX + 1, &mut walk)?;
        } else {
            for (i, pointer) in root.chunks_exact(4).enumerate() {
                let height = i.saturating_sub(DIRECT_BLOCKS - 1);
                self.walk_block_map(le32(pointer, 0), height, &mut walk)?;
            }
        }
        let pages_per_block = self.block_bytes / PAGE_BYTES;
        let range = |(block, blocks): (u64, u64)| StaticRange {
            start: Lba(block * pages_per_block),
            pages: blocks * pages_per_block,
            kind: Kind::Journal,
        };
        Ok(walk.runs.into_iter().map(range).collect())
    }

    /// Collects what is below a node of an extent tree. Each level must be one less deep.
    fn walk_extents(&self, node: &[u8], above: u16, walk: &mut Walk<'_>) -> Result<(), SuperblockError> {
        let field = |field, value, expected| Err(SuperblockError::Field { field, value, expected });
        let (magic, entries, depth) = (le16(node, 0), le16(node, 2), le16(node, 6));
        if magic != EXTENT_MAGIC {
            return field("eh_magic of the journal", magic.into(), "0xf30a");
        }
        if depth >= above {
            return field("eh_depth of the journal", depth.into(), "less than that of the node above");
        }
        if usize::from(entries) > node.len() / 12 - 1 {
            return field("eh_entries of the journal", entries.into(), "what the node has room for");
        }
        for entry in node[12..].chunks_exact(12).take(entries.into()) {
            if walk.left == 0 {
                break;
            }
            if depth > 0 {
                let child = u64::from(le16(entry, 8)) << 32 | u64::from(le32(entry, 4));
                let block = walk.node(self.byte_of(child, "ei_leaf of the journal")?, self.block_bytes)?;
                self.walk_extents(&block, depth, walk)?;
                continue;
            }
            let length = u64::from(le16(entry, 4));
            let blocks = if length > EXTENT_PAGES_MAX { length - EXTENT_PAGES_MAX } else { length };
            let start = u64::from(le16(entry, 6)) << 32 | u64::from(le32(entry, 8));
            if blocks > 0 {
                self.byte_of(start + blocks - 1, "ee_start of the journal")?;
                walk.take(start, blocks)?;
            }
        }
        Ok(())
    }

    /// Collects what is below a pointer of a block map; `height` 0 is a data block.
    fn walk_block_map(
        &self,
        pointer: u32,
        height: usize,
        walk: &mut Walk<'_>,
    ) -> Result<(), SuperblockError> {
        if pointer == 0 || walk.left == 0 {
            return Ok(());
        }
        let at = self.byte_of(pointer.into(), "block pointer of the journal")?;
        if height == 0 {
            return walk.take(pointer.into(), 1);
        }
        let block = walk.node(at, self.block_bytes)?;
        block.chunks_exact(4).try_for_each(|child| self.walk_block_map(le32(child, 0), height - 1, walk))
    }

    fn byte_of(&self, block: u64, field: &'static str) -> Result<u64, SuperblockError> {
        if block >= self.blocks {
            return Err(SuperblockError::Field {
                field,
                value: block,
                expected: "a block of the file system",
            });
        }
        Ok(block * self.block_bytes)
    }
}

fn le16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// The ranges of a GETFSMAP answer that never change their use.
pub fn static_ranges(map: &[FsRange]) -> Vec<StaticRange> {
    map.iter()
        .filter_map(|r| {
            let kind = kind_of_owner(r.owner)?;
            Some(StaticRange { start: Lba(r.start_page), pages: r.pages, kind })
        })
        .collect()
}

fn kind_of_owner(owner: Owner) -> Option<Kind> {
    match owner {
        Owner::StaticFs => Some(Kind::OtherMetadata),
        Owner::Inodes => Some(Kind::Inode),
        Owner::GroupDescriptors | Owner::ReservedDescriptors | Owner::BlockBitmap | Owner::InodeBitmap => {
            Some(Kind::Bitmap)
        }
        _ => None,
    }
}

/// The kind of a block that is not at a fixed place, from its first 16 and last 12 bytes.
pub fn kind_of_block(head: &[u8; 16], tail: &[u8; 12], block_bytes: u32) -> Kind {
    let word = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
    let inode = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
    if word(0) == EXTENT_MAGIC && plausible_extent_head(word(2), word(4), word(6), block_bytes)
        || inode == XATTR_MAGIC
    {
        return Kind::OtherMetadata;
    }
    if has_dir_tail(tail)
        || is_dir_head(inode, record_bytes(word(4)), head[6..9].try_into().expect("three bytes"), block_bytes)
    {
        return Kind::Directory;
    }
    Kind::OtherMetadata
}

/// Entries in use, room for entries, depth: an inode number that ends in the magic is no extent block.
fn plausible_extent_head(entries: u16, max: u16, depth: u16, block_bytes: u32) -> bool {
    entries <= max && u32::from(max) <= block_bytes / 12 && depth <= 5
}

/// The length of a directory entry: in blocks of 64 KiB those that do not fit into 16 bits have their highest two bits lowest.
fn record_bytes(on_disk: u16) -> u32 {
    let bytes = u32::from(on_disk);
    match on_disk {
        0 | u16::MAX => 1 << 16,
        _ => bytes & 0xFFFC | (bytes & 3) << 16,
    }
}

fn has_dir_tail(tail: &[u8; 12]) -> bool {
    tail[..4] == [0; 4]
        && u16::from_le_bytes([tail[4], tail[5]]) == DIR_TAIL_BYTES
        && tail[6] == 0
        && tail[7] == DIR_TAIL_TYPE
}

/// `name`: its length, the file's type, and the first letter.
fn is_dir_head(inode: u32, record_bytes: u32, name: [u8; 3], block_bytes: u32) -> bool {
    let [name_bytes, file_type, first] = name;
    let dot = inode != 0
        && record_bytes == 12
        && name_bytes == 1
        && first == b'.'
        && matches!(file_type, 0 | FILE_TYPE_DIRECTORY);
    let tree_node = inode == 0 && record_bytes == block_bytes && name_bytes == 0 && file_type == 0;
    let entry = inode != 0
        && record_bytes.is_multiple_of(4)
        && record_bytes <= block_bytes
        && name_bytes > 0
        && u32::from(name_bytes) + DIR_ENTRY_HEAD_BYTES <= record_bytes
        && (1..=FILE_TYPE_MAX).contains(&file_type)
        && first != 0
        && first != b'/';
    dot || tree_node || entry
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_TAIL: [u8; 12] = [0; 12];
    const DIR_TAIL: [u8; 12] = [0, 0, 0, 0, 12, 0, 0, 0xDE, 0x3A, 0x91, 0x0C, 0x77];

    fn kind(head: &[u8; 16], tail: &[u8; 12]) -> Kind {
        kind_of_block(head, tail, BLOCK as u32)
    }

    #[test]
    fn blocks_larger_than_a_page() {
        // A leaf that was emptied: of 64 KiB, all of it, and all up to the tail; the same of 16 KiB.
        for (record, block, expected) in [
            (0xFFFF_u16, 65536, Kind::Directory),
            (0x4000, 16384, Kind::Directory),
            (0x4000, 4096, Kind::OtherMetadata),
        ] {
            let [low, high] = record.to_le_bytes();
            let head = [0, 0, 0, 0, low, high, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            assert_eq!(kind_of_block(&head, &NO_TAIL, block), expected, "{record:x} of {block}");
        }
        // Extents: 1,364 fit into 16 KiB.
        let extents = [0x0A, 0xF3, 3, 0, 0x54, 0x05, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
        assert!(plausible_extent_head(3, 1364, 0, 16384) && !plausible_extent_head(3, 1364, 0, 4096));
        assert_eq!(kind_of_block(&extents, &NO_TAIL, 16384), Kind::OtherMetadata);
    }

    #[test]
    fn directory_blocks() {
        // The root directory's first block: inode 2, ".", then the entry "..".
        let first = [2, 0, 0, 0, 12, 0, 1, 2, b'.', 0, 0, 0, 2, 0, 0, 0];
        assert_eq!(kind(&first, &DIR_TAIL), Kind::Directory);
        assert_eq!(kind(&first, &NO_TAIL), Kind::Directory, "root of a hash tree");
        // A leaf whose only entry was removed: inode 0, all of the block up to the tail.
        let empty = [0, 0, 0, 0, 0xF4, 0x0F, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(kind(&empty, &DIR_TAIL), Kind::Directory);
        // An inner node of a hash tree: fake entry, then limit and count.
        let node = [0, 0, 0, 0, 0x00, 0x10, 0, 0, 0xFC, 0x01, 0x07, 0x00, 0x01, 0, 0, 0];
        assert_eq!(kind(&node, &NO_TAIL), Kind::Directory);
        // A leaf without checksums: inode 0x30015, "000042.sst", a regular file.
        let leaf = [0x15, 0, 3, 0, 20, 0, 10, 1, b'0', b'0', b'0', b'0', b'4', b'2', b'.', b's'];
        assert_eq!(kind(&leaf, &NO_TAIL), Kind::Directory);
    }

    #[test]
    fn blocks_that_are_not_directories() {
        // Extent tree: magic, 3 entries of 340, depth 0.
        let extents = [0x0A, 0xF3, 3, 0, 0x54, 0x01, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(kind(&extents, &NO_TAIL), Kind::OtherMetadata);
        // Extended attributes: magic, one reference, one block.
        let xattr = [0, 0, 2, 0xEA, 1, 0, 0, 0, 1, 0, 0, 0, 0x5F, 0x2B, 0, 0];
        assert_eq!(kind(&xattr, &NO_TAIL), Kind::OtherMetadata);
        // Indirect block: block numbers 0x8400 and on.
        let indirect = [0x00, 0x84, 0, 0, 0x04, 0x84, 0, 0, 0x08, 0x84, 0, 0, 0x0C, 0x84, 0, 0];
        assert_eq!(kind(&indirect, &NO_TAIL), Kind::OtherMetadata);
        // A long symbolic link.
        let link = *b"/usr/share/doc/p";
        assert_eq!(kind(&link, &NO_TAIL), Kind::OtherMetadata);
        assert_eq!(kind(&[0; 16], &NO_TAIL), Kind::OtherMetadata);
        assert_eq!(kind(&[0xFF; 16], &[0xFF; 12]), Kind::OtherMetadata);
    }

    #[test]
    fn an_inode_number_that_looks_like_the_extent_magic_is_still_a_directory() {
        // Inode 0xF30A (62218): "." of a directory with that inode.
        let head = [0x0A, 0xF3, 0, 0, 12, 0, 1, 2, b'.', 0, 0, 0, 2, 0, 0, 0];
        assert_eq!(kind(&head, &NO_TAIL), Kind::Directory);
    }

    const BLOCK: usize = 4096;

    /// An ext4 with its journal's inode as given: superblock, descriptors in block 1, inode table in block 5.
    fn image(extents: bool, root: &[u8], journal_blocks: u32, blocks: &[(usize, Vec<u8>)]) -> Vec<u8> {
        let mut image = vec![0; 64 * BLOCK];
        let mut put = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
        put(1024 + 0x4, &64u32.to_le_bytes());
        put(1024 + 0x18, &2u32.to_le_bytes());
        put(1024 + 0x28, &512u32.to_le_bytes());
        put(1024 + 0x38, &SUPERBLOCK_MAGIC.to_le_bytes());
        put(1024 + 0x4C, &1u32.to_le_bytes());
        put(1024 + 0x58, &256u16.to_le_bytes());
        put(1024 + 0x5C, &COMPAT_HAS_JOURNAL.to_le_bytes());
        put(1024 + 0x60, &INCOMPAT_64BIT.to_le_bytes());
        put(1024 + 0xE0, &8u32.to_le_bytes());
        put(1024 + 0xFE, &64u16.to_le_bytes());
        put(BLOCK + 8, &5u32.to_le_bytes());
        let inode = 5 * BLOCK + 7 * 256;
        put(inode + 4, &(journal_blocks * BLOCK as u32).to_le_bytes());
        put(inode + 0x20, &(if extents { INODE_FLAG_EXTENTS } else { 0 }).to_le_bytes());
        put(inode + INODE_BLOCK_AT, root);
        for (block, bytes) in blocks {
            put(block * BLOCK, bytes);
        }
        image
    }

    fn journal_of(image: &[u8]) -> Result<Vec<(u64, u64)>, SuperblockError> {
        let read = |at: u64, bytes: &mut [u8]| {
            let at = at as usize;
            let source = image.get(at..at + bytes.len()).ok_or(std::io::ErrorKind::UnexpectedEof)?;
            bytes.copy_from_slice(source);
            Ok(())
        };
        let ranges = Superblock::read(&read)?.journal(&read)?;
        assert!(ranges.iter().all(|r| r.kind == Kind::Journal));
        Ok(ranges.iter().map(|r| (r.start.0, r.pages)).collect())
    }

    fn extent_node(depth: u16, entries: &[[u8; 12]]) -> Vec<u8> {
        let mut node = Vec::new();
        for word in [EXTENT_MAGIC, entries.len() as u16, 4, depth, 0, 0] {
            node.extend(word.to_le_bytes());
        }
        entries.iter().for_each(|e| node.extend(e));
        node
    }

    fn leaf(logical: u8, length: u16, start: u8) -> [u8; 12] {
        let length = length.to_le_bytes();
        [logical, 0, 0, 0, length[0], length[1], 0, 0, start, 0, 0, 0]
    }

    fn index(logical: u8, child: u8) -> [u8; 12] {
        [logical, 0, 0, 0, child, 0, 0, 0, 0, 0, 0, 0]
    }

    #[test]
    fn the_journal_is_found_through_its_extent_tree() {
        let flat = extent_node(0, &[leaf(0, 8, 20), leaf(8, 32768 + 4, 40)]);
        assert_eq!(journal_of(&image(true, &flat, 12, &[])).unwrap(), [(20, 8), (40, 4)]);
        let deep = image(
            true,
            &extent_node(1, &[index(0, 10), index(8, 11)]),
            12,
            &[(10, extent_node(0, &[leaf(0, 8, 20)])), (11, extent_node(0, &[leaf(8, 4, 40)]))],
        );
        assert_eq!(journal_of(&deep).unwrap(), [(20, 8), (40, 4)]);
    }

    #[test]
    fn the_journal_is_found_through_a_block_map() {
        let pointers =
            |from: u32, count: u32| -> Vec<u8> { (from..from + count).flat_map(u32::to_le_bytes).collect() };
        // Twelve direct blocks, then an indirect block (9) with four more.
        let mut root = pointers(20, 12);
        root.extend(9u32.to_le_bytes());
        root.extend([0; 8]);
        let map = image(false, &root, 16, &[(9, pointers(32, 6))]);
        assert_eq!(journal_of(&map).unwrap(), [(20, 16)], "what lies beyond the size is not the journal");
    }

    /// Whoever made the file system must not make the reader read or keep without end.
    #[test]
    fn a_tree_is_not_followed_beyond_the_journal() {
        let flat = extent_node(0, &[leaf(0, 8, 20), leaf(8, 8, 40), leaf(16, 8, 20)]);
        assert_eq!(journal_of(&image(true, &flat, 12, &[])).unwrap(), [(20, 8), (40, 4)]);
        // Five levels, each node full of pointers to the next; the leaves have an extent of no length.
        let full = |depth, child: u8| {
            let mut node = extent_node(depth, &vec![index(0, child); 340]);
            node.resize(BLOCK, 0);
            node
        };
        let empty = extent_node(0, &[leaf(0, 0, 20)]);
        let blocks = [(10, full(3, 11)), (11, full(2, 12)), (12, full(1, 13)), (13, empty)];
        let root = extent_node(4, &[index(0, 10)]);
        let error = journal_of(&image(true, &root, 8, &blocks)).unwrap_err().to_string();
        assert!(error.contains("blocks that say where the journal is"), "{error}");
        // Single blocks, each far from the one before.
        let read = |_: u64, _: &mut [u8]| Ok(());
        let mut walk = Walk { read: &read, left: 1 << 24, nodes: 0, runs: Vec::new() };
        let taken = (0..1 << 24).try_for_each(|i| walk.take(i * 2, 1));
        assert!(taken.unwrap_err().to_string().contains("pieces of the journal"));
        assert_eq!(walk.runs.len(), JOURNAL_RUNS_MAX);
    }

    #[test]
    fn a_file_system_without_journal_has_none() {
        let mut bare = image(true, &[], 0, &[]);
        bare[1024 + 0x5C] = 0;
        assert_eq!(journal_of(&bare).unwrap(), []);
    }

    #[test]
    fn damaged_metadata_is_refused_by_field() {
        let good = extent_node(0, &[leaf(0, 8, 20)]);
        let cases: [(Vec<u8>, &str); 6] = [
            (vec![0; 4096 * 2], "magic number"),
            (image(true, &[0; 12], 8, &[]), "eh_magic"),
            (image(true, &extent_node(0, &[leaf(0, 8, 60)]), 8, &[]), "ee_start"),
            (
                image(true, &extent_node(1, &[index(0, 10)]), 8, &[(10, extent_node(1, &[index(0, 10)]))]),
                "eh_depth",
            ),
            (image(true, &extent_node(1, &[index(0, 200)]), 8, &[]), "ei_leaf"),
            (image(false, &200u32.to_le_bytes(), 8, &[]), "block pointer"),
        ];
        for (bytes, words) in cases {
            let error = journal_of(&bytes).unwrap_err().to_string();
            assert!(error.contains(words), "{words}: {error}");
        }
        for (at, bytes, words) in [
            (0x18, [0u8, 0], "s_log_block_size"),
            (0x58, [0, 3], "s_inode_size"),
            (0xFE, [1, 0], "s_desc_size"),
            (0xE1, [0xFF, 0], "s_journal_inum"),
        ] {
            let mut broken = image(true, &good, 8, &[]);
            broken[1024 + at..1024 + at + 2].copy_from_slice(&bytes);
            let error = journal_of(&broken).unwrap_err().to_string();
            assert!(error.contains(words), "{words}: {error}");
        }
    }

    #[test]
    fn owners_that_stay_have_a_kind_and_others_none() {
        let map = [
            Owner::StaticFs,
            Owner::Other(0x58_0000_0002),
            Owner::Inodes,
            Owner::BlockBitmap,
            Owner::Unknown,
            Owner::Free,
        ]
        .iter()
        .zip(0..)
        .map(|(&owner, start_page)| FsRange { start_page, pages: 1, owner })
        .collect::<Vec<_>>();
        let kinds: Vec<_> = static_ranges(&map).iter().map(|r| (r.start.0, r.kind)).collect();
        assert_eq!(kinds, [(0, Kind::OtherMetadata), (2, Kind::Inode), (3, Kind::Bitmap)]);
    }
}
