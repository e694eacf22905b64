//! Where `run` keeps a recording that was not asked for: in a directory for temporary files, which is gone after the run.
//!
//! The run holds a lock on its directory. So what a killed run left is known from what is in use.
//!
//! Known weakness: what was left is looked for where `TMPDIR` points to now, or else in `/tmp`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pcstream_system::run_dir::RunDir;
use tempfile::TempDir;

/// What names of such directories begin with.
const PREFIX: &str = "pcstream-run-";
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
        let dir = tempfile::Builder::new().prefix(PREFIX).tempdir_in(root)?;
        let lock = RunDir::open(dir.path()).map_err(io::Error::other)?;
        lock.lock().map_err(io::Error::other)?;
        Ok(Temporary { dir, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Leaves it to the user, under another name if it can have one. Returns where it is.
    pub fn keep(self) -> PathBuf {
        let path = self.dir.keep();
        let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix(PREFIX));
        let kept = name.map(|rest| path.with_file_name(format!("{KEPT}{rest}")));
        match kept {
            Some(kept) if fs::rename(&path, &kept).is_ok() => kept,
            _ => path,
        }
    }
}

/// Directories of this user's runs that were killed, locked: no other process removes them meanwhile.
fn stale(root: &Path) -> io::Result<Vec<RunDir>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        // Those of other users are theirs.
        let Ok(run) = RunDir::open(&entry.path()) else { continue };
        if run.lock().map_err(io::Error::other)? {
            found.push(run);
        }
    }
    Ok(found)
}

/// What [`clean`] would remove.
pub fn find_stale() -> io::Result<usize> {
    Ok(stale(&std::env::temp_dir())?.len())
}

/// Removes what killed runs left. Returns what was removed.
pub fn clean() -> io::Result<Vec<PathBuf>> {
    stale(&std::env::temp_dir())?
        .into_iter()
        .map(|run| fs::remove_dir_all(&run.path).map(|()| run.path))
        .collect()
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
        fs::write(used.path().join("run.pctrace"), "x").unwrap();
        let kept = used.keep();
        assert!(kept.join("run.pctrace").exists());
        assert_eq!(left(), [killed.as_path()]);
        let path = Temporary::below(root.path()).unwrap().path().to_owned();
        assert!(!path.exists(), "it is removed with the run");
    }
}
