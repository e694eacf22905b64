//! Where `run` keeps a recording that was not asked for: in a directory for temporary files, which is gone after the run.
//!
//! The run holds a lock on its directory. So what a killed run left is known from what is in use.
//!
//! Known weakness: what was left is looked for where `TMPDIR` points to now, or else in `/tmp`.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use pcstream_system::run_dir::{Removed, RunDir};
use tempfile::TempDir;

use crate::unkept::{PREFIX, RECORDING};

/// The same for one that is kept.
const KEPT: &str = "pcstream-kept-";

/// A directory of a run, which is removed with this.
pub struct Temporary {
    dir: TempDir,
    _lock: RunDir,
}

impl Temporary {
    /// Makes one.
    pub fn new() -> io::Result<Temporary> {
        Temporary::below(&std::env::temp_dir())
    }

    fn below(root: &Path) -> io::Result<Temporary> {
        loop {
            let dir = tempfile::Builder::new().prefix(PREFIX).tempdir_in(root)?;
            if let Some(lock) = RunDir::claim(dir.path()).map_err(io::Error::other)? {
                return Ok(Temporary { dir, _lock: lock });
            }
            // Who has it removes it.
            let _ = dir.keep();
        }
    }

    /// Where the recording goes.
    pub fn recording(&self) -> PathBuf {
        self.dir.path().join(RECORDING)
    }

    /// Leaves it to the user, under a name that [`clean`] does not know. Returns where it is; an error if it could not be moved,
    /// and is where it was.
    pub fn keep(self) -> Result<PathBuf, PathBuf> {
        let path = self.dir.keep();
        let empty = path.parent().map(|root| tempfile::Builder::new().prefix(KEPT).tempdir_in(root));
        match empty {
            Some(Ok(empty)) if fs::rename(&path, empty.path()).is_ok() => Ok(empty.keep()),
            _ => Err(path),
        }
    }
}

/// Those in which there is nothing but a recording: a user may give a directory such a name.
fn stale(root: &Path) -> io::Result<Vec<RunDir>> {
    let begins = |name: &OsStr, with: &str| name.as_bytes().starts_with(with.as_bytes());
    let mut found = RunDir::stale(root, |name| begins(name, PREFIX))?;
    found.retain(|run| {
        let is_of_recording =
            |entry: io::Result<fs::DirEntry>| entry.is_ok_and(|it| begins(&it.file_name(), RECORDING));
        fs::read_dir(&run.path).is_ok_and(|mut entries| entries.all(is_of_recording))
    });
    Ok(found)
}

/// How many [`clean`] would remove.
pub fn find_stale() -> io::Result<usize> {
    Ok(stale(&std::env::temp_dir())?.len())
}

/// Removes what killed runs of this user left.
pub fn clean() -> io::Result<Removed> {
    Ok(RunDir::remove_stale(stale(&std::env::temp_dir())?, |path| fs::remove_dir_all(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_run_left_is_known_from_what_is_in_use_or_kept() {
        let root = tempfile::tempdir().unwrap();
        let left = || stale(root.path()).unwrap().into_iter().map(|run| run.path).collect::<Vec<_>>();
        let used = Temporary::below(root.path()).unwrap();
        let killed = root.path().join("pcstream-run-1");
        fs::create_dir(&killed).unwrap();
        fs::create_dir(root.path().join("pcstream-x")).unwrap();
        std::os::unix::fs::symlink(root.path(), root.path().join("pcstream-run-2")).unwrap();
        assert_eq!(left(), [killed.as_path()]);
        fs::create_dir(root.path().join("pcstream-run-3")).unwrap();
        fs::write(root.path().join("pcstream-run-3/results"), "a user's").unwrap();
        fs::write(killed.join("run.pctrace.partial"), "x").unwrap();
        fs::write(used.recording(), "x").unwrap();
        let kept = used.keep().unwrap();
        assert!(kept.join(RECORDING).exists());
        assert_eq!(left(), [killed.as_path()]);
        let path = Temporary::below(root.path()).unwrap().recording();
        assert!(!path.parent().unwrap().exists(), "it is removed with the run");
    }
}
