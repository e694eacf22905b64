//! `/run/pcstream`: what runs of pcstream leave there for one another, such as locks, sockets and states.
//!
//! Invariants: a directory that was checked is a real one. It belongs to the user that the process runs as, and nobody
//! else can change it, nor replace it or a directory above it.
//!
//! [`RunDir`] is a directory of one run. Its owner holds a lock on it, which the kernel drops with the process: whoever can
//! lock it knows that the owner is gone.
//!
//! Known weakness: as [`trusted_file`](crate::trusted_file), it looks at the bits of the mode only.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

/// Where it is.
pub const RUN: &str = "/run/pcstream";
/// Others get to sockets and mounts in it.
const MODE: u32 = 0o755;

/// Why a directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RunDirError {
    /// It cannot be made or looked at.
    #[error("cannot {doing} {path}: {source}", path = path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Others could change what is in it.
    #[error("{path} {problem}; what pcstream keeps while it runs must lie where only its user can change it", path = path.display())]
    NotOwn {
        /// The directory, one above it, or a file in it.
        path: PathBuf,
        /// What is wrong, and what to do if there is one thing.
        problem: String,
    },
}

impl RunDirError {
    /// Whether there is no such directory.
    pub fn is_missing(&self) -> bool {
        matches!(self, RunDirError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// What became of directories that were to be removed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// They are gone.
    pub removed: Vec<PathBuf>,
    /// They are not, each with the reason.
    pub left: Vec<String>,
}

/// An open directory of one run. While it is locked, no other process removes what is in it.
#[derive(Debug)]
pub struct RunDir {
    /// Where it is.
    pub path: PathBuf,
    /// Open and, by [`RunDir::lock`], locked.
    pub dir: File,
}

impl RunDir {
    /// Makes and locks `ROOT/OWNER-N` for the first N that is free. `root` is made, if need be.
    pub fn create(root: &Path, owner: u32, mode: u32) -> Result<RunDir, RunDirError> {
        make(root)?;
        for n in 0u32.. {
            let path = root.join(format!("{owner}-{n}"));
            match DirBuilder::new().mode(mode).create(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(source) => return Err(RunDirError::Io { doing: "make", path, source }),
            }
            if let Some(run) = RunDir::claim(&path)? {
                run.set_mode(mode)?;
                return Ok(run);
            }
        }
        unreachable!("a process does not make 2^32 directories")
    }

    /// Opens and locks a directory that was just made. `None`: somebody who looks for directories of runs that are gone took it
    /// before.
    pub fn claim(path: &Path) -> Result<Option<RunDir>, RunDirError> {
        match RunDir::open(path) {
            Ok(run) if run.lock()? && run.is_there() => Ok(Some(run)),
            Err(error) if !error.is_missing() => Err(error),
            _ => Ok(None),
        }
    }

    /// Directories below `root` of runs that are gone, locked: no other process removes them meanwhile. Those that `wanted` does
    /// not want by their names, and those of other users, are left alone.
    pub fn stale(root: &Path, wanted: impl Fn(&OsStr) -> bool) -> io::Result<Vec<RunDir>> {
        let entries = match fs::read_dir(root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut stale = Vec::new();
        for entry in entries {
            let entry = entry?;
            if !wanted(&entry.file_name()) {
                continue;
            }
            // One that cannot be opened or locked is not known to be of a run that is gone.
            let Ok(run) = RunDir::open(&entry.path()) else { continue };
            if run.lock().unwrap_or(false) {
                stale.push(run);
            }
        }
        Ok(stale)
    }

    /// Removes directories of runs that are gone, each with `remove`. What somebody else has removed meanwhile does not count.
    pub fn remove_stale(stale: Vec<RunDir>, remove: impl Fn(&Path) -> io::Result<()>) -> Removed {
        let mut removed = Removed::default();
        for run in stale {
            match remove(&run.path) {
                Ok(()) => removed.removed.push(run.path),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => removed.left.push(format!("{}: {error}", run.path.display())),
            }
        }
        removed
    }

    /// Opens one without following a link, and checks whose it is.
    pub fn open(path: &Path) -> Result<RunDir, RunDirError> {
        let failed = |doing, source| RunDirError::Io { doing, path: path.into(), source };
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        let dir = rustix::fs::open(path, flags, Mode::empty()).map_err(|e| failed("open", e.into()))?;
        let run = RunDir { path: path.into(), dir: dir.into() };
        check_own(path, &run.dir.metadata().map_err(|error| failed("inspect", error))?)?;
        Ok(run)
    }

    /// Takes the owner's lock; false if somebody else holds it.
    pub fn lock(&self) -> Result<bool, RunDirError> {
        match rustix::fs::flock(&self.dir, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(errno) => {
                Err(RunDirError::Io { doing: "lock", path: self.path.clone(), source: errno.into() })
            }
        }
    }

    /// Whatever the umask took away as it was made.
    fn set_mode(&self, mode: u32) -> Result<(), RunDirError> {
        let set = self.dir.set_permissions(Permissions::from_mode(mode));
        set.map_err(|source| RunDirError::Io { doing: "set the mode of", path: self.path.clone(), source })
    }

    fn is_there(&self) -> bool {
        let same = |open: Metadata, there: Metadata| (open.dev(), open.ino()) == (there.dev(), there.ino());
        self.dir.metadata().is_ok_and(|open| inspect(&self.path).is_ok_and(|there| same(open, there)))
    }
}

/// Makes a directory, if need be, and checks it. The mode of one that is there already is its owner's affair.
pub fn make(directory: &Path) -> Result<(), RunDirError> {
    match DirBuilder::new().mode(MODE).create(directory) {
        Ok(()) => RunDir::open(directory)?.set_mode(MODE)?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(source) => return Err(RunDirError::Io { doing: "make", path: directory.into(), source }),
    }
    check(directory)
}

/// Checks a directory and everything above it. A directory above it that others may write to is fine if it is sticky,
/// like `/tmp`.
pub fn check(directory: &Path) -> Result<(), RunDirError> {
    if !directory.is_absolute() || directory.components().any(|part| part == Component::ParentDir) {
        return Err(not_own(directory, "is not an absolute path"));
    }
    let metadata = inspect(directory)?;
    check_own(directory, &metadata)?;
    if !metadata.is_dir() {
        return Err(not_own(directory, "is not a directory"));
    }
    for above in directory.ancestors().skip(1) {
        let metadata = inspect(above)?;
        if !metadata.is_dir() {
            return Err(not_own(above, "is not a directory (symbolic links are not followed)"));
        }
        let own = [0, user()].contains(&metadata.uid());
        let sticky = metadata.mode() & 0o1000 != 0;
        if !own || (metadata.mode() & 0o022 != 0 && !sticky) {
            return Err(not_own(above, "can be changed by other users"));
        }
    }
    Ok(())
}

/// Checks that a file or directory, of which `metadata` was read, is this user's, and that nobody else may write to it.
pub fn check_own(path: &Path, metadata: &Metadata) -> Result<(), RunDirError> {
    let user = user();
    let problem = if metadata.file_type().is_symlink() {
        "is a symbolic link: remove it".to_owned()
    } else if metadata.uid() != user {
        let run_as = if metadata.uid() == 0 { ": run as root" } else { "" };
        format!("belongs to user {}, not to {user}{run_as}", metadata.uid())
    } else if metadata.mode() & 0o022 != 0 {
        format!("can be written to by others (mode {:o})", metadata.mode() & 0o7777)
    } else {
        return Ok(());
    };
    Err(not_own(path, problem))
}

fn not_own(path: &Path, problem: impl Into<String>) -> RunDirError {
    RunDirError::NotOwn { path: path.into(), problem: problem.into() }
}

fn inspect(path: &Path) -> Result<Metadata, RunDirError> {
    let failed = |source| RunDirError::Io { doing: "inspect", path: path.into(), source };
    std::fs::symlink_metadata(path).map_err(failed)
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_lock_says_whether_the_owner_is_there() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().join("run");
        let first = RunDir::create(&root, 7, 0o700).unwrap();
        let second = RunDir::create(&root, 7, 0o711).unwrap();
        assert_eq!([&first.path, &second.path], [&root.join("7-0"), &root.join("7-1")]);
        assert_eq!(second.dir.metadata().unwrap().mode() & 0o777, 0o711);
        let other = RunDir::open(&first.path).unwrap();
        assert!(!other.lock().unwrap());
        drop(first);
        // A process that another test starts has its lock, too, until it runs its program.
        while !other.lock().unwrap() {
            std::thread::yield_now();
        }
        assert!(other.is_there());
        fs::remove_dir(&other.path).unwrap();
        assert!(!other.is_there());
        assert!(RunDir::open(&other.path).unwrap_err().is_missing());
    }

    /// Of a process of its own, as a umask is that of all threads.
    #[test]
    fn a_umask_hides_nothing_from_others() {
        const ROOT: &str = "PCSTREAM_TEST_RUN_DIR";
        if let Some(root) = std::env::var_os(ROOT) {
            rustix::process::umask(Mode::from_raw_mode(0o077));
            RunDir::create(Path::new(&root), 7, 0o711).unwrap();
            return;
        }
        let root = tempfile::tempdir().unwrap();
        let root = root.path().join("run");
        let mut test = Command::new(std::env::current_exe().unwrap());
        test.args(["--exact", "run_dir::tests::a_umask_hides_nothing_from_others"]).env(ROOT, &root);
        assert!(test.stdout(Stdio::null()).status().unwrap().success());
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!([mode(&root), mode(&root.join("7-0"))], [0o755, 0o711]);
    }

    #[test]
    fn links_and_what_others_can_change_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let real = root.path().join("real");
        make(&real).unwrap();
        make(&real).unwrap();
        assert_eq!(fs::metadata(&real).unwrap().mode() & 0o022, 0);
        let refused = |path: &Path, why: &str| {
            for error in [check(path).unwrap_err(), make(path).unwrap_err()] {
                assert!(error.to_string().contains(why) && !error.is_missing(), "{error}");
            }
        };
        let link = root.path().join("link");
        symlink(&real, &link).unwrap();
        refused(&link, "symbolic link");
        fs::create_dir(real.join("run")).unwrap();
        refused(&link.join("run"), "symbolic links are not followed");
        fs::write(real.join("file"), "").unwrap();
        refused(&real.join("file"), "not a directory");
        fs::set_permissions(&real, Permissions::from_mode(0o777)).unwrap();
        refused(&real, "mode 777");
        refused(&real.join("run"), "can be changed by other users");
        fs::set_permissions(&real, Permissions::from_mode(0o1777)).unwrap();
        check(&real.join("run")).unwrap();
        assert!(check(Path::new("relative")).unwrap_err().to_string().contains("absolute"));
        assert!(check(&root.path().join("none")).unwrap_err().is_missing());
    }

    #[test]
    fn a_directory_is_claimed_unless_somebody_has_it() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("run");
        assert!(RunDir::claim(&path).unwrap().is_none(), "it is gone");
        fs::create_dir(&path).unwrap();
        let first = RunDir::claim(&path).unwrap().unwrap();
        assert!(RunDir::claim(&path).unwrap().is_none(), "somebody has it");
        assert!(RunDir::stale(root.path(), |_| true).unwrap().is_empty());
        drop(first);
        assert_eq!(RunDir::stale(root.path(), |name| name == "run").unwrap().len(), 1);
        assert!(RunDir::stale(root.path(), |name| name == "other").unwrap().is_empty());
    }
}
