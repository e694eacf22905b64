//! What a session does: settings that the kernel must know before it verifies the program.

use pcstream_trace::Unwind;

use crate::buffers::Probe;
use crate::unwind::Limits;
use crate::wire::{Limit, followed, placed_by};

/// Default number of return address candidates of the stack scan (FAST'19, section 3.2).
pub const SCAN_DEPTH: u32 = Limit::SCAN_DEPTH.0;
/// Default number of return addresses along call-frame rules or frame pointers. RocksDB's flush and compaction part
/// at the ninth.
pub const FP_DEPTH: u32 = Limit::FP_DEPTH.0;
/// The deepest call path kept.
pub const MAX_DEPTH: u32 = Limit::MAX_DEPTH.0;
/// Default size of the ring buffer between kernel and user space.
pub const RING_BYTES: u32 = 64 << 20;

/// Whose writes get contexts. Those of all others have the context `others`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Followed {
    /// Everybody's.
    All = followed::FOLLOWED_ALL.0 as isize,
    /// Of processes named by [`super::Session::follow_process`], and of what they start.
    Processes = followed::FOLLOWED_PROCESSES.0 as isize,
    /// Of the cgroup named by [`super::Session::follow_cgroup`], and of those below it.
    Cgroup = followed::FOLLOWED_CGROUP.0 as isize,
}

/// Who gives requests the streams that [`super::Session::streams`] holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlacedBy {
    /// Nobody: requests are looked at, and that is all.
    Nobody = placed_by::PLACED_BY_NOBODY.0 as isize,
    /// The module `pcstream_bio`; where it is not loaded, every stream counts as refused.
    Module = placed_by::PLACED_BY_MODULE.0 as isize,
    /// The server of a ublk device, which takes them from [`crate::streams::StreamMaps::pages`].
    Server = placed_by::PLACED_BY_SERVER.0 as isize,
    /// Programs themselves, which ask ([`SessionOptions::answering`]); what they gave is counted.
    Programs = placed_by::PLACED_BY_PROGRAMS.0 as isize,
}

/// What a session does.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// How call paths are read: by [`Unwind::Exact`], [`Unwind::FramePointer`] or [`Unwind::Scan`] always, or,
    /// with `None`, by the first of them that each program allows.
    pub unwind: Option<Unwind>,
    /// Return addresses per context; `None`: [`SCAN_DEPTH`] and [`FP_DEPTH`].
    pub depth: Option<u32>,
    /// Size of the ring buffer, a power of two.
    pub ring_bytes: u32,
    /// Look mappings of processes up one by one, as kernels before 6.7 have to.
    pub per_address_lookup: bool,
    /// For tests: one path in so many is sent with its whole stack, as [`crate::wire::Record::Check`]. 0: none.
    pub check_every: u32,
    /// For measurements: no path cache, so that each call path is captured in full.
    pub no_cache: bool,
    /// Where programs make pages of their write buffers dirty.
    pub buffers: Vec<Probe>,
    /// For tests: take registrations of language runtimes as on kernels without a tracepoint for them.
    pub prctl_by_function: bool,
    /// Whose writes get contexts. A capture that attaches replaces it. With a command, [`Followed::Processes`] is the command
    /// and what it starts.
    pub followed: Followed,
    /// Inode of the only directory of which the files are followed, with what is below it. What is written to others has the
    /// context of others.
    pub only_below: Option<u64>,
    /// Whether requests are given streams, and by whom.
    pub placed_by: PlacedBy,
    /// Where that is done, in the kernel's encoding, if not on the file system's own device: below a device-mapper target.
    pub stream_device: u32,
    /// Programs that ask by `pcstream_stream` get the streams that [`super::Session::streams`] holds.
    pub answering: bool,
    /// The target is a device without a file system.
    pub raw: bool,
    /// Every record wakes the reader, for somebody who waits for it. Otherwise most are found by its next look, which costs
    /// writers less.
    pub prompt: bool,
}

impl Default for SessionOptions {
    fn default() -> Self {
        SessionOptions {
            unwind: None,
            depth: None,
            ring_bytes: RING_BYTES,
            per_address_lookup: false,
            check_every: 0,
            no_cache: false,
            buffers: Vec::new(),
            prctl_by_function: false,
            followed: Followed::All,
            only_below: None,
            answering: false,
            raw: false,
            prompt: false,
            placed_by: PlacedBy::Nobody,
            stream_device: 0,
        }
    }
}

impl SessionOptions {
    /// How far stacks are unwound in user space: as far as in the kernel.
    pub fn limits(&self) -> Limits {
        Limits {
            depth: self.depth.unwrap_or(FP_DEPTH) as usize,
            scan_depth: self.depth.unwrap_or(SCAN_DEPTH) as usize,
            fall_back: self.unwind.is_none(),
        }
    }
}
