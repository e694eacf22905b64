//! A lock on a file, which the kernel gives back when its holder ends, however it ends. The file that a killed holder leaves is
//! empty of meaning; the next one takes it over.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// A lock, until it is dropped: then its file goes, too.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    file: File,
}

/// Why there is none.
#[derive(Debug)]
pub enum NotLocked {
    /// Somebody else has it: its process id, as it said.
    Held(String),
    /// The file cannot be made or locked.
    Io(io::Error),
}

/// The lock of a whole file, for `fcntl`: of the open file (F_OFD_SETLK), so that threads and other descriptors share none.
fn whole_file(kind: libc::c_int) -> libc::flock {
    // SAFETY: plain numbers, for which zero is a value; a length of zero is the whole file.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock
}

fn set_lock(file: &File, kind: libc::c_int) -> io::Result<()> {
    let lock = whole_file(kind);
    // SAFETY: the lock outlives the call, which only reads it.
    let set = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether somebody has the lock of this file, which is not taken to find out. What cannot be opened counts as held; what is not there
/// is not.
pub fn is_held(path: &Path) -> bool {
    let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => {
            let mut lock = whole_file(libc::F_WRLCK);
            // SAFETY: the lock outlives the call, which writes the one that stands in its way.
            let asked = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) };
            asked != 0 || lock.l_type != libc::F_UNLCK as libc::c_short
        }
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

impl Lock {
    /// Locks a file, which it makes, and writes this process's id into it, if the disk has room: that is for messages only.
    pub fn take(path: &Path) -> Result<Lock, NotLocked> {
        loop {
            let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(flags);
            let mut file = options.open(path)?;
            let opened = file.metadata()?;
            if !is_own(&opened) {
                let why = format!(
                    "{} is no lock file of pcstream (a regular file of this user without hard links): remove it",
                    path.display()
                );
                return Err(io::Error::other(why).into());
            }
            match set_lock(&file, libc::F_WRLCK) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let mut holder = String::new();
                    let _ = (&file).take(32).read_to_string(&mut holder);
                    let holder = if holder.trim().is_empty() { "unknown" } else { holder.trim() }.to_owned();
                    return Err(NotLocked::Held(holder));
                }
                Err(error) => return Err(error.into()),
            }
            // Whoever held it before may have removed it between the two steps.
            let is_same = |now: Metadata| (now.dev(), now.ino()) == (opened.dev(), opened.ino());
            if std::fs::symlink_metadata(path).is_ok_and(is_same) {
                file.set_len(0)?;
                match writeln!(file, "{}", std::process::id()) {
                    Err(error) if !is_full(&error) => return Err(error.into()),
                    _ => {}
                }
                return Ok(Lock { path: path.to_owned(), file });
            }
        }
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Whether it is a file as this module makes them: what others put there may be a link to a precious file, or be held by them.
/// One that was removed meanwhile has no name.
fn is_own(file: &Metadata) -> bool {
    file.is_file() && file.nlink() <= 1 && file.uid() == rustix::process::geteuid().as_raw()
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Still locked: nobody else's.
        let _ = std::fs::remove_file(&self.path);
        let _ = set_lock(&self.file, libc::F_UNLCK);
    }
}

impl From<io::Error> for NotLocked {
    fn from(error: io::Error) -> NotLocked {
        NotLocked::Io(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn to_ask_whether_a_lock_is_held_takes_it_from_nobody() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("lock");
        assert!(!is_held(&path), "there is no file");
        let held = Lock::take(&path).expect("nobody has it");
        assert!(is_held(&path) && is_held(&path));
        drop(held);
        std::fs::write(&path, "left by a killed holder").expect("written");
        assert!(!is_held(&path), "nobody has it");
        assert!(Lock::take(&path).is_ok_and(|_| true), "nor has who asked");
    }

    #[test]
    fn what_others_may_have_put_there_is_refused_and_stays() {
        let dir = tempfile::tempdir().expect("a directory");
        let [pipe, link, symbolic] = ["pipe", "link", "symbolic"].map(|name| dir.path().join(name));
        let refused = |path: &Path| match Lock::take(path) {
            Err(NotLocked::Io(error)) => error.to_string(),
            other => panic!("{other:?}"),
        };
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .expect("a pipe");
        let holder = OpenOptions::new().read(true).write(true).open(&pipe).expect("it can be opened");
        rustix::fs::flock(&holder, rustix::fs::FlockOperation::LockExclusive).expect("nobody has it");
        let precious = dir.path().join("precious");
        std::fs::write(&precious, "data").expect("written");
        std::fs::hard_link(&precious, &link).expect("linked");
        std::os::unix::fs::symlink(&precious, &symbolic).expect("linked");
        for path in [&pipe, &link] {
            let error = refused(path);
            assert!(error.contains(&path.display().to_string()) && error.contains("remove it"), "{error}");
        }
        refused(&symbolic);
        assert_eq!(std::fs::read_to_string(&precious).expect("it is there"), "data");
    }
}
