//! The file system under capture: made for it, or there already.
//!
//! A scratch file system is removed by `Place::remove`; if that is not reached, by [`Scratch`] itself.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pcstream_fs::extents::DeviceNumber;
use pcstream_fs::layout::{Layout, LayoutError, PageRange};
use pcstream_fs::scratch::{
    BlockDevice, ExistingFs, FsKind, Scratch, ScratchError, ScratchOptions, directory_on, is_mounted_with,
    is_released, is_there, is_working, raw_device,
};
use pcstream_trace::PAGE_BYTES;

use crate::command;
use crate::patience::Interrupts;

/// A file system with less room than this may refuse a write: the kernel allocates as much as one folio of the page
/// cache at once, up to 2 MiB, or nothing.
const REFUSED_BYTES: u64 = 2 << 20;

/// What an unmount may take at most that nobody else waits for.
const UNMOUNT: Duration = Duration::from_secs(60);

/// Where the command runs.
#[derive(Clone, Debug)]
pub enum Target {
    /// On a file system made for it.
    Scratch(ScratchOptions),
    /// In a directory of an existing ext4, XFS or F2FS, or where a block device is mounted. All writes to that file system are
    /// captured. Of a block device without a file system, what is written to it directly.
    Existing(PathBuf),
}

impl Target {
    /// Looks at it before a capture is set up, which takes its time.
    ///
    /// Errors: it cannot be captured.
    pub(crate) fn find(&self) -> Result<FoundTarget, ScratchError> {
        let Target::Existing(path) = self else { return Ok(FoundTarget { raw: false, device: None }) };
        let raw = raw_device(path)?;
        let device = match &raw {
            Some(device) => device.clone(),
            None => ExistingFs::of(path)?.device,
        };
        Ok(FoundTarget { raw: raw.is_some(), device: Some(device) })
    }
}

/// What a target is.
pub(crate) struct FoundTarget {
    /// Whether it is a device without a file system.
    pub(crate) raw: bool,
    /// The one that was there before.
    device: Option<BlockDevice>,
}

impl FoundTarget {
    /// Errors: `--on` leads to another device by now, which nobody asked for.
    fn check(&self, on: &Path, now: &BlockDevice) -> Result<(), ScratchError> {
        match &self.device {
            Some(before) if before.number != now.number => Err(ScratchError::Meanwhile {
                on: on.to_owned(),
                before: before.path.clone(),
                now: now.path.clone(),
            }),
            _ => Ok(()),
        }
    }
}

/// What is known when the command starts.
#[derive(Clone, Debug)]
pub struct Started {
    /// Its working directory; of a device without a file system the device.
    pub directory: PathBuf,
    /// The file system, if there is one.
    pub fs: Option<FsKind>,
    /// Bytes of its blocks.
    pub block_bytes: u32,
    /// The device.
    pub device: PathBuf,
    /// Its number.
    pub number: DeviceNumber,
    /// Size of the device in pages. It may grow.
    pub device_pages: u64,
    /// What is allocated on it already: metadata and the fill.
    pub prefilled: Vec<PageRange>,
    /// Whether the file system tells its device of all that is deleted.
    pub discards: bool,
    /// Time 0 of the events by the clock of the day, nanoseconds since 1970 UTC.
    pub start_unix_ns: u64,
}

/// The file system under capture.
pub(crate) struct Place {
    pub(crate) directory: PathBuf,
    /// `None`: the device has none.
    pub(crate) fs: Option<FsKind>,
    device: PathBuf,
    pub(crate) number: DeviceNumber,
    bytes: u64,
    scratch: Option<Scratch>,
    /// Of a scratch file system.
    room: Option<Room>,
}

/// Blocks that a scratch file system has free.
struct Room {
    /// When the capture began.
    at_first: u64,
    /// The least that was seen since then.
    least: Cell<u64>,
}

impl Room {
    fn of(directory: &Path) -> Option<Room> {
        let free = rustix::fs::statvfs(directory).ok()?.f_bavail;
        Some(Room { at_first: free, least: Cell::new(free) })
    }
}

impl Place {
    /// `before`: what [`Target::find`] said.
    pub(crate) fn make(
        target: &Target,
        before: &FoundTarget,
        interrupts: &Interrupts<'_>,
    ) -> Result<Place, ScratchError> {
        match target {
            Target::Scratch(options) => {
                let scratch = Scratch::create_unless(options, &|| interrupts.wishes() > 0)?;
                let device = scratch.device();
                Ok(Place {
                    room: Room::of(scratch.mount_point()),
                    directory: scratch.mount_point().to_path_buf(),
                    fs: Some(scratch.fs()),
                    device: device.path.clone(),
                    number: device.number,
                    bytes: device.bytes,
                    scratch: Some(scratch),
                })
            }
            Target::Existing(path) if before.raw => {
                let expected = "a device that nobody mounts meanwhile";
                let gone = || ScratchError::Place { path: path.clone(), expected };
                let device = raw_device(path)?.ok_or_else(gone)?;
                before.check(path, &device)?;
                Ok(Place {
                    room: None,
                    directory: device.path.clone(),
                    fs: None,
                    device: device.path,
                    number: device.number,
                    bytes: device.bytes,
                    scratch: None,
                })
            }
            Target::Existing(dir) => {
                let found = ExistingFs::of(dir)?;
                before.check(dir, &found.device)?;
                let as_given = dir.is_dir().then(|| std::path::absolute(dir).ok()).flatten();
                Ok(Place {
                    room: None,
                    directory: as_given.unwrap_or(found.directory),
                    fs: Some(found.fs),
                    device: found.device.path,
                    number: found.device.number,
                    bytes: found.device.bytes,
                    scratch: None,
                })
            }
        }
    }

    /// Whether it is an XFS that was mounted before, which nobody unmounts at the end.
    pub(crate) fn is_mounted_xfs(&self) -> bool {
        self.scratch.is_none() && self.fs == Some(FsKind::Xfs)
    }

    pub(crate) fn started(&self, layout: &Layout, start_unix_ns: u64) -> Started {
        Started {
            directory: self.directory.clone(),
            fs: self.fs,
            block_bytes: layout.block_bytes(),
            device: self.device.clone(),
            number: self.number,
            device_pages: self.bytes / PAGE_BYTES,
            prefilled: layout.allocated().to_vec(),
            discards: self.fs.is_some() && is_mounted_with(self.number, "discard"),
            start_unix_ns,
        }
    }

    /// Whether it is mounted still, and works: one that was there already belongs to others.
    pub(crate) fn is_working(&self) -> bool {
        if self.fs.is_some() { is_working(self.number, &self.directory) } else { is_there(self.number) }
    }

    /// What happened to one that does not work any more.
    pub(crate) fn gone(&self) -> &'static str {
        if self.fs.is_some() {
            "the file system was unmounted or failed"
        } else {
            "the device failed or is gone"
        }
    }

    /// What to sync; `None`: it is not mounted here any more.
    pub(crate) fn to_sync(&self) -> Option<PathBuf> {
        if self.fs.is_none() { Some(self.device.clone()) } else { directory_on(self.number, &self.directory) }
    }

    /// Whether somebody's unmount wrote everything to the device, as [`is_released`] says.
    pub(crate) fn release(&self) -> impl FnOnce() -> bool + Send + use<> {
        let (number, device) = (self.number, self.device.clone());
        move || is_released(number, &device, UNMOUNT)
    }

    /// Of a device without a file system, its number (kernel encoding) and name: it is the one file.
    pub(crate) fn raw_file(&self) -> Option<(u32, String)> {
        self.fs.is_none().then(|| (self.number.kernel_dev_t(), self.device.display().to_string()))
    }

    /// Where its file system keeps what.
    pub(crate) fn layout(&self) -> Result<Layout, LayoutError> {
        self.fs.map_or_else(|| Ok(Layout::of_device()), |fs| Layout::of_mounted(&self.directory, fs))
    }

    /// Notes how much room a scratch file system has left. A file that does not fit may be removed again at once.
    pub(crate) fn look_for_room(&self) {
        if let Some(room) = &self.room
            && let Ok(space) = rustix::fs::statvfs(&self.directory)
        {
            room.least.set(space.f_bavail.min(room.least.get()));
        }
    }

    /// Said if the scratch file system was full at a look, whether the command noticed or not.
    pub(crate) fn full_note(&self) -> Option<String> {
        let room = self.room.as_ref()?;
        self.look_for_room();
        let space = rustix::fs::statvfs(&self.directory).ok()?;
        let least = room.least.get();
        let left = least * space.f_frsize;
        let is_little = |free: u64| free * 100 < space.f_blocks || free * space.f_frsize < REFUSED_BYTES;
        // A small file system has little from the beginning.
        let full = is_little(least) && least * 2 < room.at_first;
        // A write that fails may give back some blocks that it had reserved.
        let when = if is_little(space.f_bavail) { "is full" } else { "was full for some time" };
        full.then(|| {
            format!(
                "the scratch file system {when} ({} KiB were left): give it more room with --size, or fill it less with --fill",
                left >> 10
            )
        })
    }

    /// Ends what the command left running on a scratch file system.
    pub(crate) fn end_users(&self, interrupts: &Interrupts<'_>) -> Vec<String> {
        let mut notes = Vec::new();
        let Some(scratch) = &self.scratch else { return notes };
        for gently in [true, false] {
            let ended = command::end_descendants(&scratch.users(), gently);
            if ended.is_empty() {
                break;
            }
            if gently {
                notes.extend(ended.iter().map(|user| {
                    format!(
                        "ended {user}, which the command left running; to record a daemon, keep it in the foreground, or \
                         attach to it (--on, with --pid)"
                    )
                }));
            }
            wait_until(Duration::from_secs(2), || command_left(scratch) || interrupts.are_urgent());
        }
        notes
    }

    /// Unmounts a scratch file system.
    pub(crate) fn unmount(&mut self) -> Result<Vec<String>, ScratchError> {
        let Some(scratch) = &mut self.scratch else { return Ok(Vec::new()) };
        let users = scratch.unmount()?;
        let still = |user| format!("{user} still uses the file system, which was detached under it");
        Ok(users.iter().map(still).collect())
    }

    pub(crate) fn remove(self) -> Result<(), ScratchError> {
        if let Some(scratch) = self.scratch {
            scratch.remove()?;
        }
        Ok(())
    }
}

fn command_left(scratch: &Scratch) -> bool {
    scratch.users().is_empty()
}

fn wait_until(limit: Duration, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() && began.elapsed() < limit {
        std::thread::sleep(Duration::from_millis(20));
    }
}
