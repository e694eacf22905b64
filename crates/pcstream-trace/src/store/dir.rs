//! Directories of traces, held open.
//!
//! Idea: others may write to the directory that a trace is made in, and a traced program may be theirs. By the time a path
//! is used, it leads wherever they want. A directory that is held open remains the same one. So everything is
//! done by names within it: what is written is a new file, no link is followed, and a directory is renamed or
//! removed only while it is the one that stands at its name.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags, flock};
use rustix::io::Errno;

use super::META_FILE;
use super::error::TraceError;
use super::files::is_trace_file;

/// A directory of a trace. Its lock, if it has one, is given up when it is dropped or when the process dies.
#[derive(Debug)]
pub(super) struct Dir {
    file: fs::File,
    /// Where it was opened or renamed to.
    path: PathBuf,
}

impl Dir {
    /// Opens a directory for reading, wherever its path leads.
    pub fn open(path: &Path) -> Result<Dir, TraceError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(file) => Ok(Dir { file: file.into(), path: path.to_owned() }),
            Err(e) => Err(TraceError::io("open", path, e.into())),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Locks it: exclusively for a recorder, shared for readers of a partial trace.
    pub fn lock(&self, exclusive: bool) -> Result<(), TraceError> {
        let operation = if exclusive {
            FlockOperation::NonBlockingLockExclusive
        } else {
            FlockOperation::NonBlockingLockShared
        };
        match flock(&self.file, operation) {
            Ok(()) => Ok(()),
            // File systems without locks (some network ones) cannot tell; a trace there is worth having.
            Err(Errno::NOLCK | Errno::NOTSUP | Errno::NOSYS) => Ok(()),
            Err(Errno::WOULDBLOCK) => Err(TraceError::InUse(self.path.clone())),
            Err(e) => Err(TraceError::io("lock", &self.path, e.into())),
        }
    }

    /// Makes a file that only its owner may read: a trace holds command lines and file names.
    pub fn create_file(&self, name: &str) -> Result<fs::File, TraceError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.file, name, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => Ok(file.into()),
            Err(e) => Err(TraceError::io("create", &self.path.join(name), e.into())),
        }
    }

    /// Writes a small file so that a reader sees the old content or the new, never a part.
    pub fn replace_file(&self, name: &str, content: &[u8]) -> Result<(), TraceError> {
        let temporary = format!("{name}.tmp");
        let mut file = self.create_file(&temporary)?;
        let written =
            file.write_all(content).map_err(|e| TraceError::io("write", &self.path.join(&temporary), e));
        let replaced = written.and_then(|()| {
            rustix::fs::renameat(&self.file, &temporary, &self.file, name)
                .map_err(|e| TraceError::io("rename its temporary file to", &self.path.join(name), e.into()))
        });
        // What went wrong first is the error; the next try makes the file again.
        replaced.inspect_err(|_| _ = self.remove_file(&temporary))
    }

    /// The content of a file.
    pub fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.file, name, flags, Mode::empty())?;
        let mut bytes = Vec::new();
        fs::File::from(file).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    pub fn remove_file(&self, name: &str) -> Result<(), TraceError> {
        rustix::fs::unlinkat(&self.file, name, AtFlags::empty())
            .map_err(|e| TraceError::io("remove", &self.path.join(name), e.into()))
    }

    /// Names of the files in it. Refuses a directory that holds anything but a trace. An empty one passes: it is
    /// what a recorder leaves that was killed at once.
    pub fn trace_files(&self) -> Result<Vec<String>, TraceError> {
        let error = |e: Errno| TraceError::io("list", &self.path, e.into());
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.file).map_err(error)? {
            let entry = entry.map_err(error)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name == "." || name == ".." {
                continue;
            }
            let found = rustix::fs::statat(&self.file, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW);
            let is_file = found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode).is_file());
            if !is_file || !is_trace_file(&name) {
                return Err(not_a_trace(&self.path, format!("it holds {name:?}")));
            }
            names.push(name);
        }
        let has_meta = names.iter().any(|name| name.trim_end_matches(".tmp") == META_FILE);
        if !names.is_empty() && !has_meta {
            return Err(not_a_trace(&self.path, "it has no meta.json".to_owned()));
        }
        Ok(names)
    }

    /// Whether its meta says that it is a complete trace.
    pub fn is_complete(&self) -> bool {
        #[derive(serde::Deserialize)]
        struct Completeness {
            complete: bool,
        }
        let meta = self.read(META_FILE).unwrap_or_default();
        serde_json::from_slice::<Completeness>(&meta).is_ok_and(|meta| meta.complete)
    }

    /// Fails if a file that was made here belongs to somebody else than the directory: that one is not ours.
    pub fn check_owner(&self, name: &str) -> Result<(), TraceError> {
        let file = rustix::fs::statat(&self.file, name, AtFlags::SYMLINK_NOFOLLOW);
        let directory = rustix::fs::fstat(&self.file);
        match (file, directory) {
            (Ok(file), Ok(directory)) if file.st_uid == directory.st_uid => Ok(()),
            _ => Err(TraceError::Moved(self.path.clone())),
        }
    }
}

/// The directory that a trace is made in, with the partial one beside it.
#[derive(Debug)]
pub(super) struct Parent(OwnedFd);

impl Parent {
    /// Opens the directory of a trace to be.
    pub fn of(target: &Path) -> Result<Parent, TraceError> {
        let path = target.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
        let error = |e| TraceError::io("make a trace there", path, e);
        if target.file_name().is_none() {
            let problem = format!("{} does not end in a name", target.display());
            return Err(error(io::Error::new(io::ErrorKind::InvalidInput, problem)));
        }
        // To make and rename entries, nobody needs the right to list them.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(path, flags, Mode::empty()).map(Parent).map_err(|e| error(e.into()))
    }

    /// Whether there is anything at this path.
    pub fn has(&self, path: &Path) -> bool {
        rustix::fs::statat(&self.0, name(path), AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Opens a directory. A link is none.
    pub fn open(&self, path: &Path) -> Result<Dir, TraceError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.0, name(path), flags, Mode::empty()) {
            Ok(file) => Ok(Dir { file: file.into(), path: path.to_owned() }),
            Err(Errno::NOTDIR | Errno::LOOP) => Err(not_a_trace(path, "it is not a directory".to_owned())),
            Err(e) => Err(TraceError::io("open", path, e.into())),
        }
    }

    /// Makes a directory that only its owner may look into, and locks it.
    pub fn make(&self, path: &Path) -> Result<Dir, TraceError> {
        rustix::fs::mkdirat(&self.0, name(path), Mode::RWXU).map_err(|e| match e {
            // Whoever looked before found nothing.
            Errno::EXIST => TraceError::InUse(path.to_owned()),
            e => TraceError::io("create the directory", path, e.into()),
        })?;
        let dir = self.open(path)?;
        dir.lock(true)?;
        // What was made is empty; what was put in its place may be another trace.
        if dir.trace_files()?.is_empty() { Ok(dir) } else { Err(TraceError::Moved(path.to_owned())) }
    }

    /// Fails unless a directory is what stands at its path.
    pub fn check(&self, dir: &Dir) -> Result<(), TraceError> {
        let there = rustix::fs::statat(&self.0, name(&dir.path), AtFlags::SYMLINK_NOFOLLOW);
        match (there, rustix::fs::fstat(&dir.file)) {
            (Ok(there), Ok(held)) if (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino) => Ok(()),
            _ => Err(TraceError::Moved(dir.path.clone())),
        }
    }

    /// Gives a directory another name here.
    pub fn rename(&self, dir: &mut Dir, to: &Path) -> Result<(), TraceError> {
        self.check(dir)?;
        rustix::fs::renameat(&self.0, name(&dir.path), &self.0, name(to))
            .map_err(|e| TraceError::io("rename the finished trace to", to, e.into()))?;
        dir.path = to.to_owned();
        Ok(())
    }

    /// Gives a directory the name of another trace that is here, and removes that one.
    pub fn replace(&self, dir: &mut Dir, mut old: Dir) -> Result<(), TraceError> {
        self.check(dir)?;
        self.check(&old)?;
        let names = (name(&dir.path), name(&old.path));
        match rustix::fs::renameat_with(&self.0, names.0, &self.0, names.1, RenameFlags::EXCHANGE) {
            Ok(()) => std::mem::swap(&mut dir.path, &mut old.path),
            // Not every file system can, such as NFS and some FUSE. What lacks a name meanwhile is complete.
            Err(Errno::INVAL | Errno::NOSYS) => {
                self.remove(&old)?;
                return self.rename(dir, &old.path);
            }
            Err(e) => return Err(TraceError::io("rename the finished trace to", &old.path, e.into())),
        }
        // If this is killed before the old one is gone, it is not taken for a new one that only lacks its name.
        old.replace_file(META_FILE, b"{}\n")?;
        self.remove(&old)
    }

    /// Removes a trace, whole or partial, after checking that it is nothing else.
    pub fn remove(&self, dir: &Dir) -> Result<(), TraceError> {
        dir.trace_files()?.iter().try_for_each(|name| dir.remove_file(name))?;
        self.check(dir)?;
        rustix::fs::unlinkat(&self.0, name(&dir.path), AtFlags::REMOVEDIR)
            .map_err(|e| TraceError::io("remove", &dir.path, e.into()))
    }
}

/// The name of an entry; that of the target is known to be there.
fn name(path: &Path) -> &OsStr {
    path.file_name().unwrap_or_default()
}

fn not_a_trace(path: &Path, found: String) -> TraceError {
    let remedy = "; it was left untouched, choose another name";
    TraceError::NotATrace { path: path.to_owned(), found, remedy }
}
