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

mod buffer;
mod device_number;
mod fiemap;
mod fsmap;

use std::io;

use pcstream_trace::ids::PAGE_BYTES;
use thiserror::Error;

pub use device_number::DeviceNumber;
pub use fiemap::{Extent, FileMap, SkipReason, Skipped, fiemap};
pub use fsmap::{FsRange, Owner, getfsmap};

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
