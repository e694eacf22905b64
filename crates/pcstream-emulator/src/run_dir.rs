//! The directory of a served device: a lock, which is free when its process is gone, and a mount point.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use pcstream_system::run_dir;
use rustix::fs::FlockOperation;
use rustix::mount::UnmountFlags;

/// A run directory; its lock is held.
#[derive(Debug)]
pub(crate) struct RunDir {
    path: PathBuf,
    _lock: File,
}

impl RunDir {
    /// Makes `ROOT/OWNER-N`, for the first N that is free.
    pub fn create(root: &Path, owner: u32) -> io::Result<RunDir> {
        use std::os::unix::fs::DirBuilderExt as _;
        run_dir::make(root).map_err(io::Error::other)?;
        for n in 0u32.. {
            let path = root.join(format!("{owner}-{n}"));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {
                    if let Some(run) = RunDir::begin(path)? {
                        return Ok(run);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        unreachable!("some number is free")
    }

    /// Locks a new directory. `None`: who looks for those of servers that are gone took it, before it was locked.
    fn begin(path: PathBuf) -> io::Result<Option<RunDir>> {
        let lock = OpenOptions::new().write(true).create_new(true).open(path.join("lock"))?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        match fs::create_dir(path.join("mnt")) {
            Ok(()) => Ok(Some(RunDir { path, _lock: lock })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub fn mount_point(&self) -> PathBuf {
        self.path.join("mnt")
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        // A mount that is still there keeps its directory; nothing else is in it.
        if fs::remove_dir(self.mount_point()).is_ok() {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Run directories of servers that are gone, locked: no other process removes them meanwhile.
fn stale(root: &Path) -> io::Result<Vec<(PathBuf, File)>> {
    let entries = match fs::read_dir(root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut stale = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let Ok(lock) = OpenOptions::new().write(true).open(path.join("lock")) else { continue };
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => stale.push((path, lock)),
            Err(rustix::io::Errno::WOULDBLOCK) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(stale)
}

/// What `clean_stale` would remove.
pub fn find_stale(root: &Path) -> io::Result<Vec<PathBuf>> {
    Ok(stale(root)?.into_iter().map(|(path, _)| path).collect())
}

/// Unmounts and removes what servers that are gone left under `root`. Returns what was removed.
/// What is mounted on such a device has to be unmounted first.
pub fn clean_stale(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut removed = Vec::new();
    for (path, _lock) in stale(root)? {
        if remove(&path)? {
            removed.push(path);
        }
    }
    Ok(removed)
}

/// Removes the run directory of a server that is gone. False: it was gone, too.
pub(crate) fn remove(path: &Path) -> io::Result<bool> {
    let mount_point = path.join("mnt");
    // Refused where nothing is mounted.
    let _ = rustix::mount::unmount(&mount_point, UnmountFlags::DETACH);
    let gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    // Nothing of what may still be mounted there is touched: this fails, then.
    fs::remove_dir(&mount_point).or_else(|error| if gone(&error) { Ok(()) } else { Err(error) })?;
    match fs::remove_dir_all(path) {
        Ok(()) => Ok(true),
        Err(error) if gone(&error) => Ok(false),
        Err(error) => Err(error),
    }
}
