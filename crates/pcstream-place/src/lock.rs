//! A lock on a file, which the kernel gives back when its holder ends, however it ends. The file that a killed holder leaves is
//! empty of meaning; the next one takes it over.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

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

impl Lock {
    /// Locks a file, which it makes, and writes this process's id into it.
    pub fn take(path: &Path) -> Result<Lock, NotLocked> {
        loop {
            let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC;
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(flags);
            let mut file = options.open(path)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => {
                    let mut holder = String::new();
                    let _ = (&file).take(32).read_to_string(&mut holder);
                    let holder = if holder.trim().is_empty() { "unknown" } else { holder.trim() }.to_owned();
                    return Err(NotLocked::Held(holder));
                }
                Err(errno) => return Err(io::Error::from(errno).into()),
            }
            // Whoever held it before may have removed it between the two steps.
            let locked = file.metadata()?.ino();
            if std::fs::symlink_metadata(path).is_ok_and(|now| now.ino() == locked) {
                file.set_len(0)?;
                writeln!(file, "{}", std::process::id())?;
                return Ok(Lock { path: path.to_owned(), file });
            }
        }
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }
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
