//! What a run has made, kept on disk so that another process can remove it after a crash.
//!
//! Idea: each scratch file system has a run directory, `ROOT/PID-N/`, with `state.json`, the mount point
//! `mnt`, and `backing` for a tmpfs. `state.json` names every resource; it is replaced atomically
//! before (where the name is known) or right after a resource is made.
//!
//! Who is alive: the owner holds an flock on the run directory, which the kernel drops with the process;
//! process id and start time are recorded beside it, because a lock says nothing to a reader of the file.
//! A run counts as dead only if both say so, or if it is of an earlier boot.
//!
//! Invariants: nothing below the root follows a symbolic link; the root and all above it can be changed by
//! root only; no name from a state file becomes a path below the run directory (those names are fixed).
//!
//! Known weakness: a kill between "the kernel made zram N" and the record of N, microseconds later, leaves an
//! empty zram device without size, which costs next to nothing.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::ops::Deref;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use pcstream_system::{process, run_dir};
use rustix::fs::{AtFlags, Mode, OFlags};
use serde::{Deserialize, Serialize};

use super::error::{Context, ScratchError};
use super::mounts::FsKind;
use crate::extents::DeviceNumber;

const STATE_FILE: &str = "state.json";
const STATE_FILE_NEW: &str = "state.json.new";
pub(super) const MOUNT_DIR: &str = "mnt";
pub(super) const BACKING_DIR: &str = "backing";
/// A state is a few hundred bytes; more is not one of ours.
const STATE_BYTES_MAX: u64 = 64 * 1024;
const STATE_VERSION: u32 = 2;
/// Others may pass through, to the mount point, but not open it: whoever can may hold its lock. A command may become any user, as
/// PostgreSQL does.
const RUN_DIR_MODE: u32 = 0o711;

/// A file, by identity rather than by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileId {
    pub device: u64,
    pub inode: u64,
    /// Inode numbers are used again; missing on file systems that do not keep it.
    pub born: Option<SystemTime>,
}

impl FileId {
    pub fn of(metadata: &fs::Metadata) -> FileId {
        FileId { device: metadata.dev(), inode: metadata.ino(), born: metadata.created().ok() }
    }
}

/// A block device by its number, and by one that no other device has while the system runs (`diskseq`). A loop device gets
/// another one with each file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Disk {
    pub number: u32,
    pub sequence: u64,
}

/// The file behind the loop device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ImageState {
    pub path: PathBuf,
    pub id: FileId,
    /// Whether the run made the file, and so removes it.
    pub created: bool,
}

/// Everything a run has made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct State {
    pub version: u32,
    pub pid: u32,
    /// Start of the process in clock ticks since boot (field 22 of /proc/PID/stat).
    pub start_ticks: u64,
    pub boot_id: String,
    /// The owner gave up removing it: the lock alone says whether somebody is at it.
    pub abandoned: bool,
    pub fs: FsKind,
    /// UUID given to the file system, by which its device is identified.
    pub uuid: String,
    pub size_bytes: u64,
    pub formatted: bool,
    /// A tmpfs is mounted on `backing`.
    pub tmpfs: bool,
    pub image: Option<ImageState>,
    pub loop_device: Option<Disk>,
    pub zram: Option<Disk>,
    /// The block device, once there is one.
    pub device: Option<DeviceNumber>,
}

/// What states of all versions have.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

impl State {
    /// The state of a run of this process that has made nothing yet.
    pub fn begin(fs: FsKind, size_bytes: u64) -> Result<State, ScratchError> {
        let pid = std::process::id();
        let own = process::stat(pid)
            .ok_or_else(|| io::Error::other("no start time"))
            .doing(|| format!("read /proc/{pid}/stat"))?;
        Ok(State {
            version: STATE_VERSION,
            pid,
            start_ticks: own.start_ticks,
            boot_id: boot_id()?,
            abandoned: false,
            fs,
            uuid: random_uuid()?,
            size_bytes,
            formatted: false,
            tmpfs: false,
            image: None,
            loop_device: None,
            zram: None,
            device: None,
        })
    }

    /// Whether the process that made it still runs, as far as process ids can tell.
    pub fn owner_runs(&self, boot_id: &str) -> bool {
        !self.abandoned
            && self.boot_id == boot_id
            && process::stat(self.pid).is_some_and(|p| !p.has_ended() && p.start_ticks == self.start_ticks)
    }
}

pub(super) fn boot_id() -> Result<String, ScratchError> {
    Ok(super::mounts::read_text(Path::new("/proc/sys/kernel/random/boot_id"))?.trim().to_string())
}

fn random_uuid() -> Result<String, ScratchError> {
    Ok(super::mounts::read_text(Path::new("/proc/sys/kernel/random/uuid"))?.trim().to_string())
}

/// An open run directory, and the state in it.
#[derive(Debug)]
pub(super) struct RunDir(run_dir::RunDir);

impl Deref for RunDir {
    type Target = run_dir::RunDir;

    fn deref(&self) -> &run_dir::RunDir {
        &self.0
    }
}

impl RunDir {
    /// Makes and locks a new run directory below `root`.
    pub fn create(root: &Path) -> Result<RunDir, ScratchError> {
        Ok(RunDir(run_dir::RunDir::create(root, std::process::id(), RUN_DIR_MODE)?))
    }

    /// Opens a run directory without following a link.
    pub fn open(path: &Path) -> Result<RunDir, ScratchError> {
        Ok(RunDir(run_dir::RunDir::open(path)?))
    }

    pub fn mount_dir(&self) -> PathBuf {
        self.path.join(MOUNT_DIR)
    }

    pub fn backing_dir(&self) -> PathBuf {
        self.path.join(BACKING_DIR)
    }

    /// Makes one of the two directories that things are mounted on.
    pub fn make_dir(&self, name: &str, mode: u32) -> Result<(), ScratchError> {
        rustix::fs::mkdirat(&self.dir, name, Mode::from_raw_mode(mode))
            .doing(|| format!("make {}/{name}", self.path.display()))
    }

    /// Replaces the recorded state; a reader sees the old or the new one.
    pub fn write_state(&self, state: &State) -> Result<(), ScratchError> {
        let doing = || format!("write {}/{STATE_FILE}", self.path.display());
        let json = serde_json::to_vec_pretty(state).map_err(io::Error::other).doing(doing)?;
        self.unlink(STATE_FILE_NEW, AtFlags::empty())?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file =
            rustix::fs::openat(&self.dir, STATE_FILE_NEW, flags, Mode::from_raw_mode(0o644)).doing(doing)?;
        File::from(file).write_all(&json).doing(doing)?;
        rustix::fs::renameat(&self.dir, STATE_FILE_NEW, &self.dir, STATE_FILE).doing(doing)
    }

    /// Reads the recorded state; `None` if there is none yet.
    pub fn read_state(&self) -> Result<Option<State>, ScratchError> {
        let doing = || format!("read {}/{STATE_FILE}", self.path.display());
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = match rustix::fs::openat(&self.dir, STATE_FILE, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error).doing(doing),
        };
        let metadata = file.metadata().doing(doing)?;
        if !metadata.is_file() {
            return Err(io::Error::other("not a regular file")).doing(doing);
        }
        run_dir::check_own(&self.path.join(STATE_FILE), &metadata)?;
        let mut json = Vec::new();
        file.take(STATE_BYTES_MAX).read_to_end(&mut json).doing(doing)?;
        let Versioned { version } = serde_json::from_slice(&json).map_err(io::Error::other).doing(doing)?;
        if version != STATE_VERSION {
            let text = format!(
                "state version {version}, expected {STATE_VERSION}: another version of pcstream made it, and can remove it"
            );
            return Err(io::Error::other(text)).doing(doing);
        }
        serde_json::from_slice(&json).map(Some).map_err(io::Error::other).doing(doing)
    }

    /// Removes the directory and the files pcstream puts into it; fails if there is anything else.
    /// The state goes last but one, so that an interrupted removal is found again.
    pub fn remove(&self) -> Result<(), ScratchError> {
        self.unlink(MOUNT_DIR, AtFlags::REMOVEDIR)?;
        self.unlink(BACKING_DIR, AtFlags::REMOVEDIR)?;
        self.unlink(STATE_FILE_NEW, AtFlags::empty())?;
        self.unlink(STATE_FILE, AtFlags::empty())?;
        fs::remove_dir(&self.path).doing(|| format!("remove {}", self.path.display()))
    }

    fn unlink(&self, name: &str, flags: AtFlags) -> Result<(), ScratchError> {
        match rustix::fs::unlinkat(&self.dir, name, flags) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
            Err(error) => Err(error).doing(|| format!("remove {}/{name}", self.path.display())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn state() -> State {
        State::begin(FsKind::Xfs, 1 << 30).unwrap()
    }

    #[test]
    fn a_state_is_read_as_it_was_written_and_replaced_as_a_whole() {
        let root = tempfile::tempdir().unwrap();
        let run = RunDir::create(&root.path().join("run")).unwrap();
        assert_eq!(run.read_state().unwrap(), None);
        let mut state = state();
        run.write_state(&state).unwrap();
        assert_eq!(run.read_state().unwrap(), Some(state.clone()));
        state.zram = Some(Disk { number: 7, sequence: 99 });
        let id = FileId { device: 1, inode: 2, born: Some(SystemTime::now()) };
        state.image = Some(ImageState { path: "/srv/image".into(), id, created: true });
        run.write_state(&state).unwrap();
        assert_eq!(run.read_state().unwrap(), Some(state));
        run.remove().unwrap();
        assert!(!run.path.exists());
    }

    #[test]
    fn the_lock_belongs_to_one_opener_who_is_no_other_user() {
        let root = tempfile::tempdir().unwrap();
        let run = RunDir::create(&root.path().join("run")).unwrap();
        assert_eq!(fs::metadata(&run.path).unwrap().mode() & 0o066, 0, "nobody else can open it");
        let other = RunDir::open(&run.path).unwrap();
        assert!(!other.lock().unwrap());
        drop(run);
        assert!(other.lock().unwrap());
    }

    #[test]
    fn the_owner_is_known_by_start_time_and_boot() {
        let mut state = state();
        let boot = boot_id().unwrap();
        assert!(state.owner_runs(&boot));
        assert!(!state.owner_runs("another boot"));
        state.abandoned = true;
        assert!(!state.owner_runs(&boot));
        state.abandoned = false;
        state.start_ticks += 1;
        assert!(!state.owner_runs(&boot), "the process id was used again");
    }

    #[test]
    fn links_and_directories_of_others_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let real = root.path().join("real");
        fs::create_dir(&real).unwrap();
        let link = root.path().join("link");
        symlink(&real, &link).unwrap();
        assert!(RunDir::create(&link).unwrap_err().to_string().contains("symbolic link"));
        assert!(RunDir::open(&link).is_err());
        fs::set_permissions(&real, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(RunDir::create(&real).unwrap_err().to_string().contains("mode 777"));
        assert!(RunDir::open(&real).unwrap_err().to_string().contains("mode 777"));
    }

    #[test]
    fn a_state_that_is_a_link_damaged_or_of_another_version_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        let run = RunDir::create(&root.path().join("run")).unwrap();
        let file = run.path.join(STATE_FILE);
        symlink("/etc/hostname", &file).unwrap();
        assert!(run.read_state().is_err());
        fs::remove_file(&file).unwrap();
        fs::write(&file, "{\"version\": 1").unwrap();
        assert!(run.read_state().unwrap_err().to_string().contains(STATE_FILE));
        fs::write(&file, "{\"version\": 99, \"other\": 1}").unwrap();
        assert!(run.read_state().unwrap_err().to_string().contains("version 99"));
    }
}
