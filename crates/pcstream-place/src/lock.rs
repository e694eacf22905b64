//! A lock on a file, which the kernel gives back when its holder ends, however it ends. The file that a killed holder leaves is
//! empty of meaning; the next one takes it over.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

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

/// Whether somebody has the lock of this file. What cannot be opened counts as held; what is not there is not. Many may ask at a
/// time.
pub fn is_held(path: &Path) -> bool {
    let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => flock(&file, FlockOperation::NonBlockingLockShared).is_err(),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

/// How often a lock is tried that somebody has, and the time between: it may be somebody who only asks whether it is held.
const TRIES: u32 = 20;
const BETWEEN: Duration = Duration::from_millis(5);

impl Lock {
    /// Locks a file, which it makes, and writes this process's id into it, if the disk has room: that is for messages only.
    pub fn take(path: &Path) -> Result<Lock, NotLocked> {
        let mut tries = 0;
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
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) if tries < TRIES => {
                    tries += 1;
                    thread::sleep(BETWEEN);
                    continue;
                }
                Err(Errno::WOULDBLOCK) => {
                    let mut holder = String::new();
                    let _ = (&file).take(32).read_to_string(&mut holder);
                    let holder = if holder.trim().is_empty() { "unknown" } else { holder.trim() }.to_owned();
                    return Err(NotLocked::Held(holder));
                }
                Err(errno) => return Err(io::Error::from(errno).into()),
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
        let _ = flock(&self.file, FlockOperation::Unlock);
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
        let asking = File::open(&path).expect("it is there");
        flock(&asking, FlockOperation::LockShared).expect("nobody has it");
        assert!(!is_held(&path), "others who ask do not hold it");
        let taking = thread::spawn(move || Lock::take(&path).is_ok());
        drop(asking);
        assert!(taking.join().expect("it ends"), "who asks is gone soon");
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
        flock(&holder, FlockOperation::LockExclusive).expect("nobody has it");
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
