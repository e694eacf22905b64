//! Fills a scratch file system, as the papers filled their devices before each run (FAST'19, section 6.1: 90 %).
//!
//! Idea: files of 64 MiB are allocated with fallocate until the wanted share of the *device* is not free. No data
//! is written: the simulated device is prefilled from the allocated extents, and a RAM-backed device stays
//! small. The share includes the file system's own metadata and is measured in its own map of free space
//! (GETFSMAP), the map that the prefill is read from; `statfs` hides reserves (XFS: 32 MiB, ext4: up to
//! 16 MiB), so `df` shows that much less available.
//!
//! F2FS gives a block its place only when it is written, and has no GETFSMAP. So its files are written, with zeros, and the share
//! is that of `statfs`, in which the segments that it keeps for cleaning are not free.
//!
//! Deterministic: the same size, file system and mkfs give the same files.
//!
//! Known weakness: the free space that remains is contiguous, that of an aged file system is not. A page-mapped
//! FTL does not care, and the run itself scatters it; address-keyed schemes see long runs at first.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use pcstream_trace::ids::PAGE_BYTES;
use rustix::fs::FallocateFlags;

use super::error::{Context, ScratchError};
use super::mounts::{BlockDevice, FsKind};
use crate::extents::{self, Owner};

/// Where the files are, below the mount point; for root only.
pub const FILL_DIR: &str = ".pcstream-fill";
/// The size of a large table file; small enough to be one extent.
const FILE_BYTES: u64 = 64 << 20;

/// What a fill came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Filled {
    /// Files made.
    pub files: u64,
    /// Bytes allocated to them.
    pub bytes: u64,
    /// Bytes of the device that are free now.
    pub free_bytes: u64,
    /// Share of the device that is not free now, from 0 to 1. More than asked for if the
    /// file system's own metadata take more.
    pub fraction: f64,
}

/// Allocates files below `mount_point` until `fraction` of the device is in use, or it is stopped.
pub(super) fn fill(
    fs: FsKind,
    mount_point: &Path,
    device: &BlockDevice,
    fraction: f64,
    stopped: &dyn Fn() -> bool,
) -> Result<Filled, ScratchError> {
    let root = File::open(mount_point).doing(|| format!("open {}", mount_point.display()))?;
    let free_wanted = ((1.0 - fraction) * device.bytes as f64) as u64 / PAGE_BYTES * PAGE_BYTES;
    let wanted = free_bytes(fs, &root, device)?.saturating_sub(free_wanted);
    let mut filled = Filled::default();
    if wanted > 0 {
        let dir = mount_point.join(FILL_DIR);
        DirBuilder::new().mode(0o700).create(&dir).doing(|| format!("make {}", dir.display()))?;
        while filled.bytes < wanted && !stopped() {
            let bytes = FILE_BYTES.min(wanted - filled.bytes);
            allocate(fs, &dir.join(format!("{:06}", filled.files)), bytes).map_err(|error| {
                match error.raw_os_error() {
                    Some(libc::ENOSPC) => ScratchError::FillFull {
                        fill: fraction,
                        filled_bytes: filled.bytes,
                        wanted_bytes: wanted,
                    },
                    _ => ScratchError::Io {
                        doing: format!("allocate files in {}", dir.display()),
                        source: error,
                    },
                }
            })?;
            filled.files += 1;
            filled.bytes += bytes;
        }
    }
    filled.free_bytes = free_bytes(fs, &root, device)?;
    filled.fraction = 1.0 - filled.free_bytes as f64 / device.bytes as f64;
    Ok(filled)
}

fn allocate(fs: FsKind, path: &Path, bytes: u64) -> io::Result<()> {
    let file = File::create_new(path)?;
    let allocated = match fs {
        FsKind::Ext4 | FsKind::Xfs => {
            rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes).map_err(io::Error::from)
        }
        FsKind::F2fs => write_zeros(&file, bytes),
    };
    if let Err(error) = allocated {
        // What was allocated before the error must not count as filled.
        fs::remove_file(path)?;
        return Err(error);
    }
    Ok(())
}

fn write_zeros(mut file: &File, bytes: u64) -> io::Result<()> {
    let zeros = vec![0; 1 << 20];
    let mut left = bytes;
    while left > 0 {
        let part = left.min(zeros.len() as u64);
        file.write_all(&zeros[..part as usize])?;
        left -= part;
    }
    file.sync_all()
}

/// Free bytes in the file system's own map, everything on disk.
fn free_bytes(fs: FsKind, root: &File, device: &BlockDevice) -> Result<u64, ScratchError> {
    let doing = || format!("read the free space of {}", device.path.display());
    rustix::fs::syncfs(root).doing(doing)?;
    if fs == FsKind::F2fs {
        let space = rustix::fs::fstatvfs(root).doing(doing)?;
        return Ok(space.f_bfree * space.f_frsize);
    }
    let map = extents::getfsmap(root, device.number, device.bytes / PAGE_BYTES)
        .map_err(io::Error::other)
        .doing(doing)?;
    let free: u64 = map.iter().filter(|r| r.owner == Owner::Free).map(|r| r.pages).sum();
    Ok(free * PAGE_BYTES)
}
