//! What can go wrong, and what to do.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why a disk cannot be served.
#[derive(Debug, Error)]
pub enum UblkError {
    /// No driver.
    #[error(
        "this kernel has no ublk (CONFIG_BLK_DEV_UBLK), or its module is not loaded: modprobe ublk_drv; without it take \
         the module pcstream_bio, or hints"
    )]
    NoUblk,
    /// A driver that lacks something.
    #[error(
        "the ublk of this kernel does not give requests to io_uring without a copy: take Linux 6.16 or newer"
    )]
    OldUblk,
    /// A file.
    #[error("cannot open {path}: {source}", path = path.display())]
    Open {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The disk is in use.
    #[error(
        "{0} is in use (mounted, or a part of something): unmount it first; served, it must be nobody else's"
    )]
    Busy(PathBuf),
    /// It cannot be served.
    #[error("{path}: {why}", path = path.display())]
    Unfit {
        /// Which.
        path: PathBuf,
        /// Why not, and what to do.
        why: String,
    },
    /// io_uring.
    #[error("cannot make an io_uring: {0} (kernel.io_uring_disabled must be 0)")]
    Ring(io::Error),
    /// A command to the driver.
    #[error("ublk: cannot {what}: {source}")]
    Command {
        /// Which.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The number that was asked for is somebody else's.
    #[error("--id {id}: /dev/ublkb{id} belongs to {by}: take another number, or end that first")]
    Taken {
        /// Which.
        id: u32,
        /// Whose it is.
        by: String,
    },
    /// Somebody asked to stop before the device was there.
    #[error("ended as asked, before there was a device")]
    Stopped,
    /// The directory of the socket.
    #[error(transparent)]
    RunDir(#[from] pcstream_system::run_dir::RunDirError),
    /// The socket.
    #[error("cannot use {path}: {source}", path = path.display())]
    Socket {
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A queue ended.
    #[error("queue {queue} failed: {source}; its requests got errors, the disk itself can be mounted")]
    Queue {
        /// Which.
        queue: u16,
        /// What the system said.
        source: io::Error,
    },
}

impl UblkError {
    pub(crate) fn command(what: &'static str, source: io::Error) -> UblkError {
        UblkError::Command { what, source }
    }
}
