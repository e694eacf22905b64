//! A scratch file system on a device of its own: made, filled, mounted, and removed whatever happens.
//!
//! Idea: a capture wants a device on which every write belongs to the traced program, with room like a used SSD's.
//! `Scratch::create` makes one (zram, or a loop device over a file), formats and fills it and mounts it with
//! online discard on `/run/pcstream/PID-N/mnt`. Everything made is recorded on disk first (`state`), and
//! one function removes it (`cleanup`): called by `remove`, by `Drop`, or, after a kill, by `clean_stale`.
//!
//! Units: bytes, except where a name says pages.
//!
//! Invariants: only devices, mounts and files made here are touched; the traced command's user owns the
//! root directory of the file system and nothing else.
//!
//! Known weaknesses: a mount that is still used after the grace period is detached lazily and its memory freed
//! only later; zram and tmpfs are memory, so a size is refused if its free part could exceed what is available.

mod cleanup;
mod device;
mod error;
mod fill;
mod format;
mod image;
mod mounts;
mod raw;
mod resource;
mod state;

use std::fmt;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pcstream_system::memory;
use pcstream_system::run_dir::RUN;
use pcstream_trace::ids::PAGE_BYTES;

pub use cleanup::{CleanReport, Found, Problem, Removal, StaleRun, clean_stale, find_stale};
pub use error::ScratchError;
pub use fill::{FILL_DIR, Filled};
pub use format::{F2FS_MAGIC, FsCheck, Journal, check_fs, find_mkfs};
pub use mounts::{
    BlockDevice, ExistingFs, FsKind, directory_on, is_mounted_with, is_released, is_working, users_of,
};
pub use raw::{hidden_writers, is_there, mounted_meanwhile, raw_device};
pub use resource::{Left, MountUser, Resource};

use error::Context;
use state::{BACKING_DIR, MOUNT_DIR, RunDir, State};

/// How long processes may take to leave the mount before it is detached under them.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(10);

/// What the device is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Image {
    /// Compressed memory.
    Zram,
    /// A file in a tmpfs of its own, behind a loop device.
    Tmpfs,
    /// A file of the user's choice, behind a loop device. A file that is made here is removed afterwards;
    /// one that was there (an earlier image) is overwritten and stays.
    File(PathBuf),
}

impl From<&str> for Image {
    /// As on the command line: `zram`, `tmpfs`, or a path.
    fn from(text: &str) -> Image {
        match text {
            "zram" => Image::Zram,
            "tmpfs" => Image::Tmpfs,
            path => Image::File(path.into()),
        }
    }
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Image::Zram => f.write_str("zram"),
            Image::Tmpfs => f.write_str("tmpfs"),
            Image::File(path) => path.display().fmt(f),
        }
    }
}

/// What to make.
#[derive(Clone, Debug, PartialEq)]
pub struct ScratchOptions {
    /// The file system.
    pub fs: FsKind,
    /// What goes through its journal; only ext4 has a choice.
    pub journal: Journal,
    /// Size of the device in bytes, a multiple of 4096.
    pub size_bytes: u64,
    /// Share of the device that is in use before the run, 0 or more, below 1.
    pub fill: f64,
    /// What the device is made of.
    pub image: Image,
    /// The image holds a scratch file system already, which is mounted as it is: not made, not filled.
    pub keep: bool,
    /// User and group that own the root directory: those of the traced command.
    pub owner: (u32, u32),
    /// Where run directories lie; `/run/pcstream` but for tests.
    pub run_root: PathBuf,
    /// How long processes may take to leave the mount at the end.
    pub grace: Duration,
}

impl Default for ScratchOptions {
    /// 8 GiB of ext4 on zram, filled to 90 % (FAST'19, section 6.1), for root.
    fn default() -> ScratchOptions {
        ScratchOptions {
            fs: FsKind::Ext4,
            journal: Journal::default(),
            size_bytes: 8 << 30,
            fill: 0.9,
            image: Image::Zram,
            keep: false,
            owner: (0, 0),
            run_root: RUN.into(),
            grace: DEFAULT_GRACE,
        }
    }
}

impl ScratchOptions {
    /// Checks everything that can be checked without making anything.
    fn check(&self) -> Result<(), ScratchError> {
        let refuse =
            |option, value: String, expected: String| Err(ScratchError::Option { option, value, expected });
        if !(0.0..1.0).contains(&self.fill) {
            return refuse("--fill", self.fill.to_string(), "a fraction from 0 to below 1".into());
        }
        let least = format::min_bytes(self.fs);
        if !self.size_bytes.is_multiple_of(PAGE_BYTES) || self.size_bytes < least {
            let expected = format!("a multiple of {PAGE_BYTES}, at least {least} for {}", self.fs);
            return refuse("--size", self.size_bytes.to_string(), expected);
        }
        if self.fs != FsKind::Ext4 && self.journal != Journal::default() {
            return refuse("journal", format!("{:?}", self.journal), format!("the default for {}", self.fs));
        }
        if self.keep && !matches!(self.image, Image::File(_)) {
            return refuse("--image", self.image.to_string(), "a file, if a file system is kept".into());
        }
        let uid = rustix::process::geteuid().as_raw();
        if uid != 0 {
            return Err(ScratchError::NeedsRoot { uid });
        }
        format::find_mkfs(self.fs)?;
        self.check_memory()
    }

    /// The most that the device can come to occupy: its free part, and the metadata that mkfs writes into the
    /// filled one (inode tables 1.6 % and the journal or log; 3 % together, or 128 MiB on small devices).
    fn occupied_max(&self) -> u64 {
        // F2FS is filled with written zeros, for which only zram needs no room.
        let is_written = self.fs == FsKind::F2fs && !matches!(self.image, Image::Zram);
        let fill = if is_written { 0.0 } else { self.fill };
        let free = ((1.0 - fill) * self.size_bytes as f64) as u64;
        let metadata = (self.size_bytes / 32).max(128 << 20);
        free.saturating_add(metadata).min(self.size_bytes)
    }

    fn check_memory(&self) -> Result<(), ScratchError> {
        // zram keeps 16 bytes for every page, used or not.
        let (backing, table, free) = match self.image {
            Image::Zram => ("zram", self.size_bytes / PAGE_BYTES * 16, memory::free_on_machine()),
            Image::Tmpfs => ("tmpfs", 0, memory::free_for_process()),
            Image::File(_) => return Ok(()),
        };
        let needed = self.occupied_max().saturating_add(table);
        // A tenth stays for the traced command.
        let unknown = || std::io::Error::other("no MemAvailable");
        let available = free.ok_or_else(unknown).doing(|| "read /proc/meminfo".into())? / 10 * 9;
        if needed > available {
            return Err(ScratchError::Memory { backing, size: self.size_bytes, needed, available });
        }
        Ok(())
    }
}

/// A mounted scratch file system. Dropping it removes it; `remove` does the same and tells what came of it.
#[derive(Debug)]
pub struct Scratch {
    run: RunDir,
    state: State,
    device: Option<BlockDevice>,
    mount_point: PathBuf,
    filled: Filled,
    grace: Duration,
    /// The user's image, open and locked for as long as it is ours.
    image_lock: Option<fs::File>,
    removed: bool,
}

impl Scratch {
    /// Makes, formats, mounts and fills a scratch file system. On error nothing is left.
    pub fn create(options: &ScratchOptions) -> Result<Scratch, ScratchError> {
        Scratch::create_unless(options, &|| false)
    }

    /// The same, but filled no further once it is stopped.
    pub fn create_unless(
        options: &ScratchOptions,
        stopped: &dyn Fn() -> bool,
    ) -> Result<Scratch, ScratchError> {
        options.check()?;
        let state = State::begin(options.fs, options.size_bytes)?;
        let run = RunDir::create(&options.run_root)?;
        let mut scratch = Scratch {
            mount_point: run.mount_dir(),
            run,
            state,
            device: None,
            filled: Filled::default(),
            grace: options.grace,
            image_lock: None,
            removed: false,
        };
        scratch.build(options, stopped)?;
        Ok(scratch)
    }

    /// On an error the caller drops the half-made scratch, which removes what there is.
    fn build(&mut self, options: &ScratchOptions, stopped: &dyn Fn() -> bool) -> Result<(), ScratchError> {
        self.save()?;
        self.run.make_dir(MOUNT_DIR, 0o755)?;
        // Held until the mount holds the device: a loop device detaches itself when nobody has it open.
        let (node, _attached) = self.make_device(options)?;
        let number = device::node_number(&node)?;
        self.record(|state| state.device = Some(number))?;
        if options.keep {
            let uuid = device::kept_uuid(&node, options.fs)?;
            self.record(|state| (state.uuid, state.formatted) = (uuid, true))?;
        } else {
            format::make_fs(options.fs, options.journal, &node, &self.state.uuid)?;
            self.record(|state| state.formatted = true)?;
        }
        format::mount_fs(options.fs, options.journal, &node, &self.mount_point)?;
        let device = BlockDevice::by_number(number)?;
        if options.keep {
            self.device = Some(device);
            return Ok(());
        }
        self.filled = fill::fill(options.fs, &self.mount_point, &device, options.fill, stopped)?;
        self.device = Some(device);
        let (uid, gid) = options.owner;
        std::os::unix::fs::chown(&self.mount_point, Some(uid), Some(gid))
            .doing(|| format!("give {} to user {uid}", self.mount_point.display()))
    }

    fn make_device(
        &mut self,
        options: &ScratchOptions,
    ) -> Result<(PathBuf, Option<device::LoopDevice>), ScratchError> {
        match &options.image {
            Image::Zram => {
                let disk = device::zram_add()?;
                self.record(|state| state.zram = Some(disk))?;
                device::zram_configure(disk.number, options.size_bytes)?;
                Ok((device::zram_node(disk.number), None))
            }
            Image::Tmpfs => {
                self.run.make_dir(BACKING_DIR, 0o700)?;
                self.record(|state| state.tmpfs = true)?;
                let dir = self.run.backing_dir();
                device::mount_tmpfs(&dir, options.size_bytes)?;
                let (file, mut image) = image::create_image(&dir.join("image"))?;
                // It goes with its tmpfs.
                image.created = false;
                self.attach(&file, image, Some(options.size_bytes))
            }
            Image::File(path) => {
                let (file, image) = image::open_image(path, options.occupied_max())?;
                let attached = self.attach(&file, image, (!options.keep).then_some(options.size_bytes))?;
                self.image_lock = Some(file);
                Ok(attached)
            }
        }
    }

    /// Makes a loop device of an image, which is emptied if it gets a size.
    fn attach(
        &mut self,
        file: &fs::File,
        image: state::ImageState,
        bytes: Option<u64>,
    ) -> Result<(PathBuf, Option<device::LoopDevice>), ScratchError> {
        let path = image.path.clone();
        self.record(|state| state.image = Some(image))?;
        if let Some(bytes) = bytes {
            image::size_image(file, &path, bytes)?;
        }
        let attached = device::loop_attach(file)?;
        self.record(|state| state.loop_device = Some(attached.disk))?;
        Ok((device::loop_node(attached.disk.number), Some(attached)))
    }

    fn record(&mut self, change: impl FnOnce(&mut State)) -> Result<(), ScratchError> {
        change(&mut self.state);
        self.save()
    }

    fn save(&self) -> Result<(), ScratchError> {
        self.run.write_state(&self.state)
    }

    /// The root directory of the file system.
    pub fn mount_point(&self) -> &Path {
        &self.mount_point
    }

    /// The device it is on. Not to be used after `unmount`: a loop device detaches itself then, and its
    /// number may be given to somebody else.
    pub fn device(&self) -> &BlockDevice {
        self.device.as_ref().expect("a scratch that was handed out has its device")
    }

    /// Which file system it is.
    pub fn fs(&self) -> FsKind {
        self.state.fs
    }

    /// What the fill came to.
    pub fn filled(&self) -> Filled {
        self.filled
    }

    /// The processes that use it now.
    pub fn users(&self) -> Vec<MountUser> {
        users_of(self.device().number)
    }

    /// Unmounts, so that everything is written to the device and no more writes come. Waits up to the
    /// grace period for processes to leave; returns those that had not when the mount was detached under them
    /// (they may go on writing). `remove` afterwards frees the rest.
    pub fn unmount(&mut self) -> Result<Vec<MountUser>, ScratchError> {
        let users = cleanup::unmount(&self.run, &self.state, self.grace)
            .map_err(std::io::Error::other)
            .doing(|| format!("unmount {}", self.mount_point.display()))?;
        Ok(users.unwrap_or_default())
    }

    /// Removes everything. Errors: `NotRemoved` with what is left and who uses it; a later `clean_stale`
    /// finds it.
    pub fn remove(mut self) -> Result<Removal, ScratchError> {
        let removal = self.release();
        if removal.left.is_empty() {
            return Ok(removal);
        }
        Err(ScratchError::NotRemoved { left: removal.left, users: removal.users })
    }

    fn release(&mut self) -> Removal {
        self.removed = true;
        let removal = cleanup::release(&self.run, &self.state, self.grace, self.image_lock.as_ref());
        if !removal.left.is_empty() {
            self.state.abandoned = true;
            // If the record cannot be written, the old one still finds everything once this process ends.
            let _ = self.save();
        }
        removal
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.removed {
            return;
        }
        let removal = self.release();
        if !removal.left.is_empty() {
            let error = ScratchError::NotRemoved { left: removal.left, users: removal.users };
            // Its terminal may be gone, and `eprintln` would panic.
            let _ = writeln!(std::io::stderr(), "pcstream: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_out_of_range_are_refused_with_name_value_and_range() {
        let cases = [
            (ScratchOptions { fill: 1.0, ..Default::default() }, "--fill is 1"),
            (ScratchOptions { fill: -0.1, ..Default::default() }, "--fill is -0.1"),
            (ScratchOptions { fill: f64::NAN, ..Default::default() }, "--fill is NaN"),
            (ScratchOptions { size_bytes: 5000, ..Default::default() }, "--size is 5000"),
            (
                ScratchOptions { size_bytes: 64 << 20, fs: FsKind::Xfs, ..Default::default() },
                "at least 314572800 for xfs",
            ),
            (
                ScratchOptions { journal: Journal::Off, fs: FsKind::Xfs, ..Default::default() },
                "journal is Off",
            ),
        ];
        for (options, words) in cases {
            let error = options.check().unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn a_device_that_could_fill_memory_is_refused() {
        let options = ScratchOptions { size_bytes: 1 << 50, ..Default::default() };
        let error = options.check_memory().unwrap_err().to_string();
        assert!(error.contains("--image PATH"), "{error}");
        let options = ScratchOptions { image: Image::File("x".into()), ..options };
        options.check_memory().unwrap();
    }

    #[test]
    fn images_are_named_as_on_the_command_line() {
        assert_eq!(Image::from("zram"), Image::Zram);
        assert_eq!(Image::from("tmpfs"), Image::Tmpfs);
        assert_eq!(Image::from("./zram"), Image::File("./zram".into()));
    }
}
