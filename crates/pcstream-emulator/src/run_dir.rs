//! The directory of a served device: a lock, which is free when its process is gone, and a mount point.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pcstream_system::run_dir::{self, Removed};
use rustix::mount::UnmountFlags;

/// A run directory; it is locked.
#[derive(Debug)]
pub(crate) struct RunDir(run_dir::RunDir);

impl RunDir {
    /// Makes `ROOT/OWNER-N`, for the first N that is free.
    pub fn create(root: &Path, owner: u32) -> io::Result<RunDir> {
        let run = run_dir::RunDir::create(root, owner, 0o700).map_err(io::Error::other)?;
        fs::create_dir(run.path.join("mnt"))?;
        Ok(RunDir(run))
    }

    pub fn mount_point(&self) -> PathBuf {
        self.0.path.join("mnt")
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        // A mount that is still there keeps its directory; nothing else is in it.
        if fs::remove_dir(self.mount_point()).is_ok() {
            let _ = fs::remove_dir_all(&self.0.path);
        }
    }
}

/// What `clean_stale` would remove.
pub fn find_stale(root: &Path) -> io::Result<Vec<PathBuf>> {
    Ok(run_dir::RunDir::stale(root, |_| true)?.into_iter().map(|run| run.path).collect())
}

/// Unmounts and removes what servers that are gone left under `root`. What is mounted on such a device has to be unmounted first.
pub fn clean_stale(root: &Path) -> io::Result<Removed> {
    Ok(run_dir::RunDir::remove_stale(run_dir::RunDir::stale(root, |_| true)?, remove))
}

/// Removes the run directory of a server that is gone. `NotFound`: it was gone, too.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let mount_point = path.join("mnt");
    // Refused where nothing is mounted.
    let _ = rustix::mount::unmount(&mount_point, UnmountFlags::DETACH);
    // Nothing of what may still be mounted there is touched: this fails, then.
    match fs::remove_dir(&mount_point) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => fs::remove_dir_all(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_leaves_that_was_killed_early_is_found() {
        let root = tempfile::tempdir().unwrap();
        let alive = RunDir::create(root.path(), 7).unwrap();
        // Of one that was killed right after it made its directory.
        let bare = root.path().join("8-0");
        fs::create_dir(&bare).unwrap();
        // One that cannot be removed keeps no other from it.
        let busy = root.path().join("8-1");
        fs::create_dir_all(busy.join("mnt/used")).unwrap();
        assert_eq!(find_stale(root.path()).unwrap().len(), 2);
        let Removed { removed, left } = clean_stale(root.path()).unwrap();
        assert_eq!((removed.as_slice(), left.len()), ([bare.clone()].as_slice(), 1));
        assert!(left[0].starts_with(&format!("{}: ", busy.display())), "{left:?}");
        assert!(!bare.exists() && busy.exists() && alive.mount_point().exists());
        fs::remove_dir_all(busy).unwrap();
        let path = alive.0.path.clone();
        drop(alive);
        assert!(!path.exists() && find_stale(root.path()).unwrap().is_empty());
    }
}
