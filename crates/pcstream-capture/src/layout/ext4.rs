//! ext4: what GETFSMAP's owners mean, and what a block's bytes give away.
//!
//! Directories are the metadata that moves. Their blocks are recognised by (fs/ext4/ext4.h):
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
use pcstream_trace::ids::Lba;

use super::StaticRange;
use crate::extents::{FsRange, Owner};

const EXTENT_MAGIC: u16 = 0xF30A;
const XATTR_MAGIC: u32 = 0xEA02_0000;
const DIR_TAIL_TYPE: u8 = 0xDE;
const DIR_TAIL_BYTES: u16 = 12;
const DIR_ENTRY_HEAD_BYTES: u16 = 8;
/// The highest file type of a directory entry (7 is a symbolic link).
const FILE_TYPE_MAX: u8 = 7;
const FILE_TYPE_DIRECTORY: u8 = 2;
const BLOCK_BYTES: u16 = 4096;

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
        Owner::Log => Some(Kind::Journal),
        Owner::Inodes => Some(Kind::Inode),
        Owner::GroupDescriptors | Owner::ReservedDescriptors | Owner::BlockBitmap | Owner::InodeBitmap => {
            Some(Kind::Bitmap)
        }
        _ => None,
    }
}

/// The kind of a block that is not at a fixed place, from its first 16 and last 12 bytes.
pub fn kind_of_block(head: &[u8; 16], tail: &[u8; 12]) -> Kind {
    let word = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
    let inode = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
    if word(0) == EXTENT_MAGIC && plausible_extent_head(word(2), word(4), word(6)) || inode == XATTR_MAGIC {
        return Kind::OtherMetadata;
    }
    if has_dir_tail(tail) || is_dir_head(inode, word(4), head[6], head[7], head[8]) {
        return Kind::Directory;
    }
    Kind::OtherMetadata
}

/// Entries in use, room for entries, depth: an inode number that ends in the magic is no extent block.
fn plausible_extent_head(entries: u16, max: u16, depth: u16) -> bool {
    entries <= max && max <= BLOCK_BYTES / 12 && depth <= 5
}

fn has_dir_tail(tail: &[u8; 12]) -> bool {
    tail[..4] == [0; 4]
        && u16::from_le_bytes([tail[4], tail[5]]) == DIR_TAIL_BYTES
        && tail[6] == 0
        && tail[7] == DIR_TAIL_TYPE
}

fn is_dir_head(inode: u32, record_bytes: u16, name_bytes: u8, file_type: u8, first: u8) -> bool {
    let dot = inode != 0
        && record_bytes == 12
        && name_bytes == 1
        && first == b'.'
        && matches!(file_type, 0 | FILE_TYPE_DIRECTORY);
    let tree_node = inode == 0 && record_bytes == BLOCK_BYTES && name_bytes == 0 && file_type == 0;
    let entry = inode != 0
        && record_bytes.is_multiple_of(4)
        && record_bytes <= BLOCK_BYTES
        && name_bytes > 0
        && u16::from(name_bytes) + DIR_ENTRY_HEAD_BYTES <= record_bytes
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

    #[test]
    fn directory_blocks() {
        // The root directory's first block: inode 2, ".", then the entry "..".
        let first = [2, 0, 0, 0, 12, 0, 1, 2, b'.', 0, 0, 0, 2, 0, 0, 0];
        assert_eq!(kind_of_block(&first, &DIR_TAIL), Kind::Directory);
        assert_eq!(kind_of_block(&first, &NO_TAIL), Kind::Directory, "root of a hash tree");
        // A leaf whose only entry was removed: inode 0, all of the block up to the tail.
        let empty = [0, 0, 0, 0, 0xF4, 0x0F, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(kind_of_block(&empty, &DIR_TAIL), Kind::Directory);
        // An inner node of a hash tree: fake entry, then limit and count.
        let node = [0, 0, 0, 0, 0x00, 0x10, 0, 0, 0xFC, 0x01, 0x07, 0x00, 0x01, 0, 0, 0];
        assert_eq!(kind_of_block(&node, &NO_TAIL), Kind::Directory);
        // A leaf without checksums: inode 0x30015, "000042.sst", a regular file.
        let leaf = [0x15, 0, 3, 0, 20, 0, 10, 1, b'0', b'0', b'0', b'0', b'4', b'2', b'.', b's'];
        assert_eq!(kind_of_block(&leaf, &NO_TAIL), Kind::Directory);
    }

    #[test]
    fn blocks_that_are_not_directories() {
        // Extent tree: magic, 3 entries of 340, depth 0.
        let extents = [0x0A, 0xF3, 3, 0, 0x54, 0x01, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(kind_of_block(&extents, &NO_TAIL), Kind::OtherMetadata);
        // Extended attributes: magic, one reference, one block.
        let xattr = [0, 0, 2, 0xEA, 1, 0, 0, 0, 1, 0, 0, 0, 0x5F, 0x2B, 0, 0];
        assert_eq!(kind_of_block(&xattr, &NO_TAIL), Kind::OtherMetadata);
        // Indirect block: block numbers 0x8400 and on.
        let indirect = [0x00, 0x84, 0, 0, 0x04, 0x84, 0, 0, 0x08, 0x84, 0, 0, 0x0C, 0x84, 0, 0];
        assert_eq!(kind_of_block(&indirect, &NO_TAIL), Kind::OtherMetadata);
        // A long symbolic link.
        let link = *b"/usr/share/doc/p";
        assert_eq!(kind_of_block(&link, &NO_TAIL), Kind::OtherMetadata);
        assert_eq!(kind_of_block(&[0; 16], &NO_TAIL), Kind::OtherMetadata);
        assert_eq!(kind_of_block(&[0xFF; 16], &[0xFF; 12]), Kind::OtherMetadata);
    }

    #[test]
    fn an_inode_number_that_looks_like_the_extent_magic_is_still_a_directory() {
        // Inode 0xF30A (62218): "." of a directory with that inode.
        let head = [0x0A, 0xF3, 0, 0, 12, 0, 1, 2, b'.', 0, 0, 0, 2, 0, 0, 0];
        assert_eq!(kind_of_block(&head, &NO_TAIL), Kind::Directory);
    }

    #[test]
    fn owners_that_stay_have_a_kind_and_others_none() {
        let map =
            [Owner::StaticFs, Owner::Log, Owner::Inodes, Owner::BlockBitmap, Owner::Unknown, Owner::Free]
                .iter()
                .zip(0..)
                .map(|(&owner, start_page)| FsRange { start_page, pages: 1, owner })
                .collect::<Vec<_>>();
        let kinds: Vec<_> = static_ranges(&map).iter().map(|r| (r.start.0, r.kind)).collect();
        assert_eq!(
            kinds,
            [(0, Kind::OtherMetadata), (1, Kind::Journal), (2, Kind::Inode), (3, Kind::Bitmap)]
        );
    }
}
