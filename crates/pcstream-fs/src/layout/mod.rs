//! Where a file system keeps its metadata, and so what kind of page a metadata write is.
//!
//! Idea: three sources, in this order.
//! 1. *Place.* What never moves is a table of ranges: ext4's inode tables, bitmaps, descriptors (GETFSMAP
//!    names them) and journal (an inode whose extents are read from the device: GETFSMAP names it only when it
//!    is on a device of its own); XFS's log and allocation-group headers (computed from the
//!    superblock: without reverse mapping, mkfs's default before xfsprogs 6.5, GETFSMAP calls
//!    everything in use "unknown", and asking for reverse mapping would add B-tree writes that the
//!    user's own file systems may not have).
//!    F2FS keeps all that never moves before its main area.
//! 2. *Contents.* What moves (directories, B-trees, XFS inode chunks) is known by a few bytes of the block
//!    as it is written, or by the name of XFS's buffer verifier: see `ext4` and `xfs`. F2FS keeps its
//!    directories and inodes in page caches, which say what they are: see `f2fs`.
//! 3. Otherwise `OtherMetadata`.
//!
//! Units: 4 KiB pages of the device that holds the file system.
//!
//! Invariants: static ranges are sorted and do not overlap; `allocated` is sorted, merged, and covers
//! every static range.
//!
//! Known weaknesses: the table is a snapshot; growing a file system during a capture moves group
//! descriptors and adds inode tables, which are then `OtherMetadata`. File systems with blocks smaller
//! than 4 KiB are refused.

pub mod ext4;
pub mod f2fs;
pub mod xfs;

use std::fs::File;
use std::io::{self, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use pcstream_trace::event::Kind;
use pcstream_trace::ids::{Lba, PAGE_BYTES};
use thiserror::Error;

use crate::extents::{self, ExtentError, FsRange, Owner};
use crate::scratch::{BlockDevice, ExistingFs, FsKind, ScratchError};

/// How often the map of a file system is read again, at most, and after which pause.
const SETTLE_ATTEMPTS: u32 = 10;
const SETTLE_PAUSE: Duration = Duration::from_millis(50);

/// Why a layout is not known.
#[derive(Debug, Error)]
pub enum LayoutError {
    /// The directory is not on a file system that can be traced.
    #[error(transparent)]
    FileSystem(#[from] ScratchError),
    /// The file system is not the expected one.
    #[error("{dir} is on {found}, not on {expected}")]
    OtherFileSystem {
        /// The directory asked for.
        dir: PathBuf,
        /// What it is on.
        found: FsKind,
        /// What the caller said.
        expected: FsKind,
    },
    /// A file or device could not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// What was read.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// Root may not open the device: the rules of a container (device cgroup) forbid it.
    #[error(
        "cannot read {device}: {source}; in a container, allow it that device (docker run --device={device}, or \
         --privileged)",
        device = device.display()
    )]
    Forbidden {
        /// Of the file system.
        device: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The map of used space could not be had.
    #[error("{dir}: {source}")]
    Extents {
        /// The directory asked for.
        dir: PathBuf,
        /// What went wrong.
        source: ExtentError,
    },
    /// The kernel's list of segments is not that of this file system.
    #[error("{}: {message}", path.display())]
    Segments {
        /// The list.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// The superblock makes no sense.
    #[error("{device}: {source}")]
    Superblock {
        /// The device read.
        device: PathBuf,
        /// What is wrong with it.
        source: SuperblockError,
    },
    /// So do the places of its metadata.
    #[error("{device}: {source}")]
    Overlap {
        /// The device read.
        device: PathBuf,
        /// Which ones.
        source: Overlap,
    },
}

/// Two fixed places are in one: what the file system says of itself is wrong.
#[derive(Debug, Error)]
#[error(
    "{} pages from {} on are {:?}, and {} pages from {} on are {:?}: they overlap; check the file system (fsck)",
    .0.pages, .0.start, .0.kind, .1.pages, .1.start, .1.kind
)]
pub struct Overlap(StaticRange, StaticRange);

/// What is wrong with a superblock, or with metadata reached from it.
#[derive(Debug, Error)]
pub enum SuperblockError {
    /// Another magic number.
    #[error("the superblock has the magic number {found:02x?}, expected {expected}")]
    Magic {
        /// What was read.
        found: Vec<u8>,
        /// What would be right.
        expected: &'static str,
    },
    /// A field is out of its range.
    #[error("{field} is {value}, expected {expected}")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// What was read.
        value: u64,
        /// What would be right.
        expected: &'static str,
    },
    /// The file system does not say its size.
    #[error("XFS_IOC_FSGEOMETRY failed: {0}")]
    Size(io::Error),
    /// A block could not be read.
    #[error("cannot read {bytes} bytes at byte {at}: {source}")]
    Read {
        /// Where.
        at: u64,
        /// How much.
        bytes: usize,
        /// What the kernel said.
        source: io::Error,
    },
}

/// Reads exactly the given bytes from a place (in bytes) on the device.
pub type ReadAt<'a> = &'a dyn Fn(u64, &mut [u8]) -> io::Result<()>;

/// A range of pages that always holds one kind of metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaticRange {
    /// First page.
    pub start: Lba,
    /// Length in pages.
    pub pages: u64,
    /// What it holds.
    pub kind: Kind,
}

/// A run of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRange {
    /// First page.
    pub start: Lba,
    /// Length in pages.
    pub pages: u64,
}

/// What the BPF program could see of a metadata block that is about to be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MetadataHint<'a> {
    /// Nothing.
    #[default]
    None,
    /// The first 16 and the last 12 bytes of the block.
    Block {
        /// Bytes 0..16.
        head: [u8; 16],
        /// The last 12 bytes of the file-system block.
        tail: [u8; 12],
    },
    /// Name of the XFS buffer's verifier (`xfs_buf_ops.name`), up to a NUL; 15 bytes are enough.
    Verifier(&'a [u8]),
    /// It comes from the page cache of a directory.
    Directory,
    /// It comes from the page cache of this inode, which is no file's and no directory's.
    Internal(u64),
}

/// Where one mounted file system keeps its metadata, and what it has allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// `None`: of a device without a file system.
    fs: Option<FsKind>,
    /// Of the file system's blocks; a page or more.
    block_bytes: u32,
    ranges: Vec<StaticRange>,
    allocated: Vec<PageRange>,
    journal_elsewhere: bool,
    /// Pages that hold nothing but data.
    data: Option<PageRange>,
}

impl Layout {
    /// Reads the layout of the mounted file system that holds `dir`, after syncing it, so that delayed
    /// allocations have their place.
    ///
    /// Errors: not ext4, XFS or F2FS, another file system than `fs`, no access, blocks below 4 KiB.
    pub fn of_mounted(dir: &Path, fs: FsKind) -> Result<Layout, LayoutError> {
        let existing = ExistingFs::of(dir)?;
        if existing.fs != fs {
            return Err(LayoutError::OtherFileSystem { dir: dir.into(), found: existing.fs, expected: fs });
        }
        let root = File::open(dir).map_err(|source| LayoutError::Read { path: dir.into(), source })?;
        rustix::fs::syncfs(&root)
            .map_err(|error| LayoutError::Read { path: dir.into(), source: error.into() })?;
        let device = &existing.device;
        let node = open(&device.path)?;
        let map = match fs {
            FsKind::Ext4 | FsKind::Xfs => settled_map(&root, device)
                .map_err(|source| LayoutError::Extents { dir: dir.into(), source })?,
            FsKind::F2fs => f2fs_map(device, &node)?,
        };
        let fixed = fixed_places(fs, &root, &map, &|at, bytes| node.read_exact_at(bytes, at))
            .map_err(|source| LayoutError::Superblock { device: device.path.clone(), source })?;
        let layout = Layout::new(fs, fixed.ranges, allocated_of(&map, fixed.pages))
            .map_err(|source| LayoutError::Overlap { device: device.path.clone(), source })?;
        Ok(Layout {
            block_bytes: fixed.block_bytes,
            journal_elsewhere: fixed.journal_elsewhere,
            data: fixed.data,
            ..layout
        })
    }

    /// A layout from its parts, of blocks that are pages, in any order; adjacent ranges of a kind are joined.
    ///
    /// Errors: static ranges overlap.
    pub fn new(
        fs: FsKind,
        mut ranges: Vec<StaticRange>,
        mut allocated: Vec<PageRange>,
    ) -> Result<Layout, Overlap> {
        ranges.retain(|r| r.pages > 0);
        ranges.sort_by_key(|r| r.start);
        let end = |r: &StaticRange| r.start.0 + r.pages;
        if let Some(pair) = ranges.windows(2).find(|pair| end(&pair[0]) > pair[1].start.0) {
            return Err(Overlap(pair[0], pair[1]));
        }
        ranges.dedup_by(|next, previous| {
            let joined = end(previous) == next.start.0 && previous.kind == next.kind;
            if joined {
                previous.pages += next.pages;
            }
            joined
        });
        allocated.sort_by_key(|r| r.start);
        merge(&mut allocated);
        Ok(Layout { fs: Some(fs), ranges, allocated, ..Layout::of_device() })
    }

    /// Of a device without a file system: it has no metadata, and what it holds is not known.
    pub fn of_device() -> Layout {
        Layout {
            fs: None,
            block_bytes: PAGE_BYTES as u32,
            ranges: Vec::new(),
            allocated: Vec::new(),
            journal_elsewhere: false,
            data: None,
        }
    }

    /// The file system; `None`: there is none.
    pub fn fs(&self) -> Option<FsKind> {
        self.fs
    }

    /// Bytes of a block of the file system.
    pub fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    /// Whether the journal or log is on a device of its own, whose writes are not among those of this device.
    pub fn journal_is_elsewhere(&self) -> bool {
        self.journal_elsewhere
    }

    /// Ranges that always hold one kind of metadata, by address.
    pub fn static_ranges(&self) -> &[StaticRange] {
        &self.ranges
    }

    /// Every page that was not free when the layout was read, by address: what a simulated device
    /// holds before the run.
    pub fn allocated(&self) -> &[PageRange] {
        &self.allocated
    }

    /// The kind that the address alone gives away.
    pub fn static_kind(&self, lba: Lba) -> Option<Kind> {
        let after = self.ranges.partition_point(|r| r.start <= lba);
        let range = self.ranges[..after].last()?;
        (lba.0 - range.start.0 < range.pages).then_some(range.kind)
    }

    /// The kind of a page that is being written and that belongs to no file, as its owner says: the caller asks that first.
    /// `Data` on a file system only where nothing else can be.
    pub fn classify(&self, lba: Lba, hint: MetadataHint<'_>) -> Kind {
        if let Some(kind) = self.static_kind(lba) {
            return kind;
        }
        let Some(fs) = self.fs else { return Kind::Data };
        if self.data.is_some_and(|data| data.start <= lba && lba.0 - data.start.0 < data.pages) {
            return Kind::Data;
        }
        match (fs, hint) {
            (_, MetadataHint::None) => Kind::OtherMetadata,
            (_, MetadataHint::Directory) => Kind::Directory,
            (_, MetadataHint::Internal(inode)) => f2fs::kind_of_internal(inode),
            (FsKind::Ext4, MetadataHint::Block { head, tail }) => {
                ext4::kind_of_block(&head, &tail, self.block_bytes)
            }
            (FsKind::Xfs, MetadataHint::Block { head, .. }) => xfs::kind_of_block(&head),
            (FsKind::Xfs, MetadataHint::Verifier(name)) => xfs::kind_of_verifier(name),
            (FsKind::Ext4, MetadataHint::Verifier(_)) | (FsKind::F2fs, _) => Kind::OtherMetadata,
        }
    }
}

/// The use of every page, read again until two answers agree. ext4 returns freed blocks to its map in a
/// callback of the journal's commit, which a sync does not wait for, and XFS frees the blocks of deleted files
/// in the background. On a file system that others write to it never settles; the last answer is then as good
/// as any.
fn settled_map(root: &File, device: &BlockDevice) -> Result<Vec<FsRange>, ExtentError> {
    let read = || extents::getfsmap(root, device.number, device.bytes / PAGE_BYTES);
    let mut map = read()?;
    for _ in 0..SETTLE_ATTEMPTS {
        thread::sleep(SETTLE_PAUSE);
        let next = read()?;
        if next == map {
            break;
        }
        map = next;
    }
    Ok(map)
}

/// The use of every page of a mounted F2FS, from the kernel's list of its segments.
fn f2fs_map(device: &BlockDevice, node: &File) -> Result<Vec<FsRange>, LayoutError> {
    let superblock = f2fs::Superblock::read(&|at, bytes| node.read_exact_at(bytes, at))
        .map_err(|source| LayoutError::Superblock { device: device.path.clone(), source })?;
    let name = device.path.file_name().unwrap_or_default();
    let path = Path::new("/proc/fs/f2fs").join(name).join("segment_bits");
    let segments = File::open(&path).map_err(|source| LayoutError::Read { path: path.clone(), source })?;
    superblock.usage(BufReader::new(segments)).map_err(|message| LayoutError::Segments { path, message })
}

/// What a superblock says.
struct Fixed {
    block_bytes: u32,
    /// What never moves.
    ranges: Vec<StaticRange>,
    /// Of the file system.
    pages: u64,
    journal_elsewhere: bool,
    data: Option<PageRange>,
}

fn fixed_places(
    fs: FsKind,
    root: &File,
    map: &[FsRange],
    read: ReadAt<'_>,
) -> Result<Fixed, SuperblockError> {
    match fs {
        FsKind::Ext4 => {
            let superblock = ext4::Superblock::read(read)?;
            let mut ranges = ext4::static_ranges(map);
            ranges.extend(superblock.journal(read)?);
            let pages = superblock.blocks * (superblock.block_bytes / PAGE_BYTES);
            Ok(Fixed {
                block_bytes: superblock.block_bytes as u32,
                ranges,
                pages,
                journal_elsewhere: superblock.journal_device != 0,
                data: None,
            })
        }
        FsKind::F2fs => {
            let superblock = f2fs::Superblock::read(read)?;
            Ok(Fixed {
                block_bytes: superblock.block_bytes as u32,
                ranges: superblock.static_ranges(),
                pages: superblock.pages(),
                journal_elsewhere: false,
                data: None,
            })
        }
        FsKind::Xfs => {
            let mut sector = [0; xfs::SUPERBLOCK_BYTES];
            read_bytes(read, 0, &mut sector)?;
            let size = xfs::Size::of_mounted(root).map_err(SuperblockError::Size)?;
            let superblock = xfs::Superblock::parse(&sector)?.sized(size)?;
            Ok(Fixed {
                block_bytes: superblock.block_bytes,
                ranges: superblock.static_ranges(),
                pages: superblock.pages(),
                journal_elsewhere: superblock.log_start == 0,
                data: superblock.realtime(),
            })
        }
    }
}

fn read_bytes(read: ReadAt<'_>, at: u64, bytes: &mut [u8]) -> Result<(), SuperblockError> {
    read(at, bytes).map_err(|source| SuperblockError::Read { at, bytes: bytes.len(), source })
}

/// Everything that is not free, up to the end of the file system (the device may be larger).
fn allocated_of(map: &[FsRange], pages: u64) -> Vec<PageRange> {
    let used = map.iter().filter(|r| r.owner != Owner::Free && r.start_page < pages);
    used.map(|r| PageRange { start: Lba(r.start_page), pages: r.pages.min(pages - r.start_page) }).collect()
}

/// Joins sorted ranges that touch or overlap (XFS reports an extent once per file that shares it).
fn merge(ranges: &mut Vec<PageRange>) {
    ranges.retain(|r| r.pages > 0);
    ranges.dedup_by(|next, previous| {
        let end = previous.start.0 + previous.pages;
        let joined = next.start.0 <= end;
        if joined {
            previous.pages = previous.pages.max(next.start.0 + next.pages - previous.start.0);
        }
        joined
    });
}

/// Whether the device of a file system can be read, without which nothing on it can be captured.
pub fn check_readable(device: &Path) -> Result<(), LayoutError> {
    open(device).map(drop)
}

fn open(device: &Path) -> Result<File, LayoutError> {
    File::open(device).map_err(|source| unreadable(device, source))
}

/// Why a device cannot be opened. Its permissions never keep root out, so what does is said.
fn unreadable(device: &Path, source: io::Error) -> LayoutError {
    match source.raw_os_error() == Some(rustix::io::Errno::PERM.raw_os_error()) {
        true => LayoutError::Forbidden { device: device.into(), source },
        false => LayoutError::Read { path: device.into(), source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fs_range(start_page: u64, pages: u64, owner: Owner) -> FsRange {
        FsRange { start_page, pages, owner }
    }

    fn static_range(start: u64, pages: u64, kind: Kind) -> StaticRange {
        StaticRange { start: Lba(start), pages, kind }
    }

    #[test]
    fn a_device_that_is_forbidden_says_what_allows_it() {
        let of =
            |errno: i32| unreadable(Path::new("/dev/x"), io::Error::from_raw_os_error(errno)).to_string();
        assert!(of(1).contains("--device=/dev/x"), "{}", of(1));
        assert!(of(2).ends_with("cannot read /dev/x: No such file or directory (os error 2)"), "{}", of(2));
    }

    #[test]
    fn allocated_is_everything_but_free_space_merged() {
        let map = [
            fs_range(0, 4, Owner::StaticFs),
            fs_range(4, 2, Owner::Other(0x58_0000_0002)),
            fs_range(6, 10, Owner::Free),
            fs_range(16, 8, Owner::Inode(131)),
            fs_range(18, 2, Owner::Inode(132)), // shared with inode 131
            fs_range(30, 1, Owner::Unknown),
        ];
        let range = |start, pages| PageRange { start: Lba(start), pages };
        let allocated =
            |pages| Layout::new(FsKind::Xfs, Vec::new(), allocated_of(&map, pages)).unwrap().allocated;
        assert_eq!(allocated(100), [range(0, 6), range(16, 8), range(30, 1)]);
        assert_eq!(allocated(20), [range(0, 6), range(16, 4)]);
    }

    #[test]
    fn a_place_has_its_kind_from_the_first_to_the_last_page() {
        let ranges = vec![
            static_range(100, 50, Kind::Journal),
            static_range(0, 1, Kind::OtherMetadata),
            static_range(1, 3, Kind::Bitmap),
            static_range(4, 6, Kind::Bitmap),
        ];
        let layout = Layout::new(FsKind::Ext4, ranges, Vec::new()).unwrap();
        assert_eq!(layout.static_ranges().len(), 3, "adjacent ranges of a kind are joined");
        let expected = [
            (0, Some(Kind::OtherMetadata)),
            (1, Some(Kind::Bitmap)),
            (9, Some(Kind::Bitmap)),
            (10, None),
            (99, None),
            (100, Some(Kind::Journal)),
            (149, Some(Kind::Journal)),
            (150, None),
            (u64::MAX, None),
        ];
        for (lba, kind) in expected {
            assert_eq!(layout.static_kind(Lba(lba)), kind, "page {lba}");
        }
    }

    #[test]
    fn the_place_goes_before_the_contents() {
        // A directory block, logged: in the journal it is journal.
        let layout =
            Layout::new(FsKind::Ext4, vec![static_range(100, 50, Kind::Journal)], Vec::new()).unwrap();
        let mut tail = [0; 12];
        (tail[4], tail[7]) = (12, 0xDE);
        let hint = MetadataHint::Block { head: [0; 16], tail };
        assert_eq!(layout.classify(Lba(120), hint), Kind::Journal);
        assert_eq!(layout.classify(Lba(20), hint), Kind::Directory);
        assert_eq!(layout.classify(Lba(20), MetadataHint::None), Kind::OtherMetadata);
    }

    #[test]
    fn a_section_of_data_holds_nothing_else() {
        let data = Some(PageRange { start: Lba(100), pages: 50 });
        let layout = Layout { data, ..Layout::new(FsKind::Xfs, Vec::new(), Vec::new()).unwrap() };
        let kinds = [99, 100, 149, 150].map(|lba| layout.classify(Lba(lba), MetadataHint::None));
        assert_eq!(kinds, [Kind::OtherMetadata, Kind::Data, Kind::Data, Kind::OtherMetadata]);
    }

    #[test]
    fn overlapping_static_ranges_are_refused() {
        let ranges = vec![static_range(0, 5, Kind::Journal), static_range(4, 2, Kind::Inode)];
        let error = Layout::new(FsKind::Ext4, ranges, Vec::new()).unwrap_err().to_string();
        assert!(
            error.starts_with("5 pages from 0 on are Journal, and 2 pages from 4 on are Inode"),
            "{error}"
        );
    }
}
