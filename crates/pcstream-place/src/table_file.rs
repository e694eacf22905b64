//! The file in which what was learned outlives the placer.
//!
//! Invariants: the file is whole at any time, also after a power cut: a new one is written beside it, synced and renamed.
//! A table of another scheme or of other keys, a damaged one, or one that somebody else put there meanwhile is not overwritten unread,
//! unless it comes in the instant between the last look and the renaming.
//! One placer has it: what another learned on its device would be mixed in. The lock (`lock.rs`) lies in a directory that all
//! placers share. It is named by the device and inode of the table's directory and by the table's name, so that every path to
//! a table leads to the same lock. Somebody who puts a table there needs none.
//! Nothing is kept open where the table lies: its file system can be unmounted. No table is written to what is there then.
//! Directories that were made for a table go again if no file comes into them.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use pcstream_placement::parameter::Value as _;
use pcstream_placement::pcstream::key::KeySource;
use pcstream_placement::pcstream::table::ENTRY_BYTES;
use pcstream_placement::saved_table::{MAX_BYTES, TableError};
use pcstream_placement::{SavedTable, fnv1a};
use pcstream_system::trusted_file::{Untrusted, open_regular};
use thiserror::Error;

use crate::lock::{Lock, NotLocked};
use crate::replacement;

/// Where tables of daemons lie.
pub const TABLES: &str = "/var/lib/pcstream";

/// Why a table cannot be used.
#[derive(Debug, Error)]
pub enum TableFileError {
    /// It cannot be read or written.
    #[error("the table {path}: cannot {step}: {source}", path = path.display())]
    Io {
        /// Where it lies.
        path: PathBuf,
        /// What was tried.
        step: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// It is no table, or a damaged one.
    #[error("the table {path}: {source}. Give another file with --table, or move this one away", path = path.display())]
    Damaged {
        /// Where it lies.
        path: PathBuf,
        /// What is wrong with it.
        source: TableError,
    },
    /// It is longer than a table can be.
    #[error("the table {path} has more than {} MiB. Give another file with --table, or move this one away", MAX_BYTES >> 20, path = path.display())]
    TooLong {
        /// Where it lies.
        path: PathBuf,
    },
    /// A directory, pipe, socket or device.
    #[error("the table {path} is not a regular file. Give another file with --table, or move this one away", path = path.display())]
    NotAFile {
        /// Where it lies.
        path: PathBuf,
    },
    /// Somebody put another one there while it was written.
    #[error("the table {path}: another one was put there meanwhile; the next save takes it up", path = path.display())]
    Replaced {
        /// Where it lies.
        path: PathBuf,
    },
    /// Its file system is not there any more, but another one, or the directory that it was mounted on.
    #[error(
        "the table {path}: its file system was unmounted, or another one was mounted over it; what was saved before lies \
         there",
        path = path.display()
    )]
    Unmounted {
        /// Where it lies.
        path: PathBuf,
    },
    /// Its directory was replaced.
    #[error("the table {path}: its directory is another one than at the start; restart `place`", path = path.display())]
    Moved {
        /// Where it lies.
        path: PathBuf,
    },
    /// Another placer has it.
    #[error(
        "the table {path} is in use by another placer (process {holder}): give each a table of its own with --table",
        path = path.display()
    )]
    Taken {
        /// Where it lies.
        path: PathBuf,
        /// Its process id, as it said.
        holder: String,
    },
    /// Another scheme learned it.
    #[error(
        "the table {path} is one of the scheme '{found}', but '{expected}' runs: give another file with --table, or \
         run --scheme {found}", path = path.display()
    )]
    OtherScheme {
        /// Where it lies.
        path: PathBuf,
        /// The scheme that learned it.
        found: String,
        /// The one that runs.
        expected: String,
    },
    /// It was learned of other keys.
    #[error(
        "the table {path} has keys of the kind '{}', but the scheme's are of the kind '{}': give another file with --table, \
         or run --set {scheme}.key={}",
        found.show(),
        expected.show(),
        found.show(),
        path = path.display()
    )]
    OtherKeys {
        /// Where it lies.
        path: PathBuf,
        /// What it was learned of.
        found: KeySource,
        /// What the one that runs learns of.
        expected: KeySource,
        /// Its name.
        scheme: String,
    },
    /// It has more contexts than the scheme keeps.
    #[error(
        "the table {path} has {found} contexts, but {scheme} has room for {}, and the others would be lost: {}give another \
         file with --table",
        room.contexts(),
        room.remedy(scheme, *found),
        path = path.display()
    )]
    TooMany {
        /// Where it lies.
        path: PathBuf,
        /// Its contexts.
        found: usize,
        /// Those that the scheme keeps.
        room: Room,
        /// Its name.
        scheme: String,
    },
}

/// Contexts that a scheme keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// As many as fit into its parameter `table_bytes`.
    TableBytes(usize),
    /// So many, whatever its parameters.
    Fixed(usize),
}

impl Room {
    fn contexts(self) -> usize {
        let (Room::TableBytes(contexts) | Room::Fixed(contexts)) = self;
        contexts
    }

    /// What makes room for so many.
    fn remedy(self, scheme: &str, contexts: usize) -> String {
        match self {
            Room::TableBytes(_) => {
                format!("run --set {scheme}.table_bytes={}, or ", contexts as u64 * ENTRY_BYTES)
            }
            Room::Fixed(_) => String::new(),
        }
    }
}

/// What tells one file from another at the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Stamp {
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        Stamp { inode: metadata.ino(), bytes: metadata.len(), modified }
    }
}

/// A table's file.
#[derive(Debug)]
pub struct TableFile {
    path: PathBuf,
    scheme: String,
    key: KeySource,
    room: Room,
    /// Of the file as it was last read or written here; `None`: there was none.
    stamp: Option<Stamp>,
    written: Vec<u8>,
    /// Contexts in it when it was last read.
    contexts: u64,
    /// Device and inode of its directory.
    directory: (u64, u64),
    /// Directories that were made for it, the innermost first.
    made: Vec<PathBuf>,
    /// Keeps other placers out.
    lock: Option<Lock>,
}

impl Drop for TableFile {
    fn drop(&mut self) {
        self.lock = None;
        // One with something in it stays, and so do those above.
        _ = self.made.iter().try_for_each(std::fs::remove_dir);
    }
}

impl TableFile {
    /// A file at `path` for what `scheme` learns of keys of this kind. Makes its directory if that is missing, and checks that
    /// a file can be made there. Errors also where another placer has it, as locks in the directory `locks` tell, which is
    /// there.
    pub fn new(path: &Path, locks: &Path, scheme: &str, key: KeySource) -> Result<TableFile, TableFileError> {
        let mut file = TableFile {
            path: path.to_owned(),
            scheme: scheme.to_owned(),
            key,
            room: Room::Fixed(usize::MAX),
            stamp: None,
            written: Vec::new(),
            contexts: 0,
            directory: (0, 0),
            made: Vec::new(),
            lock: None,
        };
        file.make_directory()?;
        drop(file.temporary_in(file.directory())?);
        let directory = file.directory().metadata().map_err(|e| file.error("look at its directory", e))?;
        file.directory = (directory.dev(), directory.ino());
        file.lock = Some(file.locked(locks, &directory)?);
        replacement::remove_left(&file.held_directory()?.1, file.name());
        Ok(file)
    }

    /// The same for a scheme that keeps so many contexts: a table with more is refused, for it would be cut when it is saved.
    #[must_use]
    pub fn with_room(mut self, room: Room) -> TableFile {
        self.room = room;
        self
    }

    fn name(&self) -> &OsStr {
        self.path.file_name().unwrap_or_default()
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Contexts in it when it was last read.
    pub fn contexts(&self) -> u64 {
        self.contexts
    }

    /// Whether anything lies there.
    pub fn is_there(&self) -> bool {
        self.path.symlink_metadata().is_ok()
    }

    /// What the file holds, if there is one that was not read or written here before. It is checked.
    pub fn read_new(&mut self) -> Result<Option<Vec<u8>>, TableFileError> {
        self.is_mounted()?;
        let file = match open_regular(&self.path) {
            Ok(file) => file,
            Err(Untrusted::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                self.stamp = None;
                return Ok(None);
            }
            Err(Untrusted::Io(error)) => return Err(self.error("open it", error)),
            Err(_) => return Err(TableFileError::NotAFile { path: self.path.clone() }),
        };
        let stamp = Stamp::of(&file.metadata().map_err(|e| self.error("look at it", e))?);
        if self.stamp == Some(stamp) {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        let read = (&file).take(MAX_BYTES + 1).read_to_end(&mut bytes);
        read.map_err(|e| self.error("read it", e))?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(TableFileError::TooLong { path: self.path.clone() });
        }
        let damaged = |source| TableFileError::Damaged { path: self.path.clone(), source };
        let table = SavedTable::parse(&bytes).map_err(damaged)?;
        if let Some(found) = table.scheme().filter(|found| *found != self.scheme) {
            let (path, expected) = (self.path.clone(), self.scheme.clone());
            return Err(TableFileError::OtherScheme { path, found: found.to_owned(), expected });
        }
        if table.key() != self.key {
            let (path, scheme) = (self.path.clone(), self.scheme.clone());
            return Err(TableFileError::OtherKeys { path, found: table.key(), expected: self.key, scheme });
        }
        let found = table.entries().len();
        if found > self.room.contexts() {
            let (path, scheme) = (self.path.clone(), self.scheme.clone());
            return Err(TableFileError::TooMany { path, found, room: self.room, scheme });
        }
        self.stamp = Some(stamp);
        self.contexts = found as u64;
        Ok(Some(bytes))
    }

    /// Puts a table in the file's place. What has not changed since is not written again. Errors also if another file is there
    /// than was read or written here before.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), TableFileError> {
        if self.stamp.is_some() && self.written == bytes {
            return Ok(());
        }
        self.is_mounted()?;
        if !self.directory().exists() {
            // Another placer had made it, and has removed it.
            self.make_directory()?;
            let made = self.directory().symlink_metadata();
            let made = made.map_err(|e| self.error("look at its directory", e))?;
            self.directory = (made.dev(), made.ino());
        }
        let (_held, directory) = self.held_directory()?;
        let place = directory.join(self.name());
        let mut temporary = self.temporary_in(&directory)?;
        let file = temporary.as_file_mut();
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        written.map_err(|e| self.error("write it", e))?;
        // Writing may have taken long.
        let there = place.metadata().ok().map(|metadata| Stamp::of(&metadata));
        if there.is_some() && there != self.stamp {
            return Err(TableFileError::Replaced { path: self.path.clone() });
        }
        let file = temporary.persist(&place).map_err(|e| self.error("replace it", e.error))?;
        let synced = File::open(&directory).and_then(|directory| directory.sync_all());
        synced.map_err(|e| self.error("sync its directory", e))?;
        self.stamp = Some(Stamp::of(&file.metadata().map_err(|e| self.error("look at it", e))?));
        self.written = bytes.to_vec();
        Ok(())
    }

    /// Makes its directory if that is missing.
    fn make_directory(&mut self) -> Result<(), TableFileError> {
        let is_missing = |directory: &&Path| !directory.as_os_str().is_empty() && !directory.exists();
        let missing: Vec<PathBuf> =
            self.directory().ancestors().take_while(is_missing).map(Path::to_owned).collect();
        let mut builder = std::fs::DirBuilder::new();
        let made = builder.recursive(true).mode(0o755).create(self.directory());
        self.made.extend(missing.into_iter().filter(|directory| directory.exists()));
        made.map_err(|e| self.error("make its directory", e))
    }

    /// The directory, which nobody unmounts as long as it is held, and a path that leads there. Errors: it is another one than at first, which whoever
    /// may rename it could have made of any other.
    fn held_directory(&self) -> Result<(File, PathBuf), TableFileError> {
        let held = std::fs::OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECTORY | libc::O_PATH | libc::O_CLOEXEC)
            .open(self.directory())
            .map_err(|e| self.error("open its directory", e))?;
        let about = held.metadata().map_err(|e| self.error("look at its directory", e))?;
        if (about.dev(), about.ino()) != self.directory {
            return Err(TableFileError::Moved { path: self.path.clone() });
        }
        let path = Path::new("/proc/self/fd").join(held.as_raw_fd().to_string());
        let path = if path.exists() { path } else { self.directory().to_owned() };
        Ok((held, path))
    }

    /// A file in its directory, which will take its place.
    fn temporary_in(&self, directory: &Path) -> Result<tempfile::NamedTempFile, TableFileError> {
        replacement::make(directory, self.name(), 0o644).map_err(|e| {
            // Without the path of the temporary file, which is another one each time.
            let why = e.to_string();
            let why = why.split(" at path ").next().unwrap_or(&why).to_owned();
            self.error("make a file beside it", io::Error::new(e.kind(), why))
        })
    }

    /// Errors: its directory, or what is there instead, is on another device than before.
    fn is_mounted(&self) -> Result<(), TableFileError> {
        let there = self.directory().ancestors().find_map(|directory| directory.metadata().ok());
        match there {
            Some(there) if there.dev() != self.directory.0 => {
                Err(TableFileError::Unmounted { path: self.path.clone() })
            }
            _ => Ok(()),
        }
    }

    /// The lock of its name in this directory. A name may be as long as that of any file, so its hash stands for it.
    fn locked(&self, locks: &Path, directory: &Metadata) -> Result<Lock, TableFileError> {
        let name = fnv1a(self.name().as_bytes());
        let name = format!("table-{:x}-{}-{name:016x}.lock", directory.dev(), directory.ino());
        Lock::take(&locks.join(name)).map_err(|error| match error {
            NotLocked::Held(holder) => TableFileError::Taken { path: self.path.clone(), holder },
            NotLocked::Io(source) => self.error("lock it", source),
        })
    }

    fn directory(&self) -> &Path {
        self.path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."))
    }

    fn error(&self, step: &'static str, source: io::Error) -> TableFileError {
        TableFileError::Io { path: self.path.clone(), step, source }
    }
}

/// Where the table of a daemon for this directory lies: `/var/lib/mysql` becomes `place-var-lib-mysql.table`. It is that of the
/// unit `pcstream-place@.service`.
pub fn default_path(directory: &Path) -> PathBuf {
    Path::new(TABLES).join(format!("place-{}.table", escaped(directory)))
}

/// A path as `systemd-escape --path` prints it, so that no two have the same name: `/mnt/a-b` is `mnt-a\x2db`.
fn escaped(path: &Path) -> String {
    let names = path.as_os_str().as_bytes().split(|&byte| byte == b'/').filter(|name| !name.is_empty());
    let path = names.collect::<Vec<_>>().join(&b'/');
    if path.is_empty() {
        return "-".to_owned();
    }
    let escape = |(at, &byte): (usize, &u8)| match byte {
        b'/' => "-".to_owned(),
        b'.' if at == 0 => "\\x2e".to_owned(),
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b':' | b'_' | b'.' => char::from(byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    };
    path.iter().enumerate().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{locks, scheme};
    use pcstream_placement::{Environment, SchemeFactory as _, configure};

    fn learned(name: &str) -> Vec<u8> {
        scheme(name).learned().expect("it learns")
    }

    fn learned_of(name: &str, key: KeySource) -> Vec<u8> {
        let mut scheme = configure(name).expect("it is registered");
        scheme.set("key", &key.show()).expect("there are such keys");
        let built = scheme.build(&Environment::new(8).expect("8 streams")).expect("it can be made");
        built.learned().expect("it learns")
    }

    fn at(path: &Path, key: KeySource) -> Result<TableFile, TableFileError> {
        TableFile::new(path, &locks(), "pcstream", key)
    }

    #[test]
    fn a_table_comes_back_and_is_read_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("below/t.table");
        let mut file = at(&path, KeySource::Context).expect("it can be made");
        assert_eq!(file.read_new().expect("there is none"), None);
        let table = learned("pcstream");
        file.write(&table).expect("it can be written");
        assert_eq!(file.read_new().expect("nothing new"), None);
        let refused = at(&path, KeySource::Context).expect_err("another one has it").to_string();
        let me = format!("process {}", std::process::id());
        assert!(refused.contains("below/t.table") && refused.contains(&me), "{refused}");
        drop(file);
        let mut file = at(&path, KeySource::Context).expect("it is free again");
        assert_eq!(file.read_new().expect("it is whole"), Some(table.clone()));
        // Somebody else replaces it.
        let beside = dir.path().join("other");
        std::fs::write(&beside, &table).expect("written");
        std::fs::rename(&beside, &path).expect("renamed");
        assert_eq!(file.read_new().expect("it is whole"), Some(table));
        // The same, after the last look.
        std::fs::write(&beside, learned("pcstream-tree")).expect("written");
        std::fs::rename(&beside, &path).expect("renamed");
        let refused = file.write(&learned("pcstream-paper")).expect_err("it is not read yet").to_string();
        assert!(refused.contains("t.table: another one was put there meanwhile"), "{refused}");
        assert_eq!(std::fs::read(&path).expect("it is there"), learned("pcstream-tree"));
        drop(file);
        let left: Vec<_> = std::fs::read_dir(dir.path().join("below")).expect("it is there").collect();
        assert_eq!(left.len(), 1, "nothing is left beside the table");
    }

    #[test]
    fn a_table_is_not_saved_where_its_directory_was_replaced() {
        let dir = tempfile::tempdir().expect("a directory");
        let [real, moved, other] = ["real", "moved", "other"].map(|name| dir.path().join(name));
        std::fs::create_dir(&real).expect("made");
        std::fs::create_dir(&other).expect("made");
        let new = TableFile::new(&real.join("t"), dir.path(), "pcstream", KeySource::Context);
        let mut file = new.expect("a file can be made there");
        std::fs::rename(&real, &moved).expect("renamed");
        std::os::unix::fs::symlink(&other, &real).expect("linked");
        let error = file.write(b"anything").expect_err("it is another directory").to_string();
        assert!(error.contains("its directory is another one"), "{error}");
        assert_eq!(std::fs::read_dir(&other).expect("it is there").count(), 0);
        std::fs::remove_file(&real).expect("removed");
        std::fs::rename(&moved, &real).expect("renamed");
        file.write(b"anything").expect("it is back");
        assert_eq!(std::fs::read(real.join("t")).expect("saved"), b"anything");
    }

    #[test]
    fn a_table_that_is_not_written_leaves_no_directory() {
        let dir = tempfile::tempdir().expect("a directory");
        let below = |path: &str| at(&dir.path().join(path), KeySource::Context).expect("it can be made");
        drop(below("a/b/t.table"));
        assert_eq!(std::fs::read_dir(dir.path()).expect("it is there").count(), 0);
        // Another one that is still to be written finds or makes its directory.
        let (first, mut second) = (below("a/b/t.table"), below("a/u.table"));
        drop(first);
        second.write(&learned("pcstream")).expect("it can be written");
        drop(second);
        assert!(dir.path().join("a/u.table").exists() && !dir.path().join("a/b").exists());
    }

    #[test]
    fn tables_of_others_and_damaged_ones_are_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("t.table");
        let mut file = at(&path, KeySource::Context).expect("it can be made");
        std::fs::write(&path, learned("pcstream-tree")).expect("written");
        let error = file.read_new().expect_err("of another scheme").to_string();
        assert!(
            error.contains("t.table") && error.contains("'pcstream-tree', but 'pcstream' runs"),
            "{error}"
        );
        let by_program = learned_of("pcstream", KeySource::Executable);
        std::fs::write(&path, &by_program).expect("written");
        for _ in 0..2 {
            let error = file.read_new().expect_err("of other keys, which is not overwritten").to_string();
            assert!(
                error.contains(
                    "t.table has keys of the kind 'executable', but the scheme's are of the kind 'context'"
                ) && error.contains("--set pcstream.key=executable"),
                "{error}"
            );
        }
        drop(file);
        let mut file = at(&path, KeySource::Executable).expect("it is free");
        assert_eq!(file.read_new().expect("of its keys"), Some(by_program));
        std::fs::write(&path, learned("pcstream")).expect("written");
        assert!(
            file.read_new().expect_err("the other way round").to_string().contains("pcstream.key=context")
        );
        drop(file);
        let mut file = at(&path, KeySource::Context).expect("it is free");
        std::fs::write(&path, "no table").expect("written");
        let error = file.read_new().expect_err("damaged").to_string();
        assert!(error.contains("no saved table") && error.contains("--table"), "{error}");
        let long = std::fs::File::create(&path).and_then(|file| file.set_len(MAX_BYTES + 1));
        long.expect("a file without data");
        let error = file.read_new().expect_err("too long").to_string();
        assert!(error.contains("more than 64 MiB") && error.contains("--table"), "{error}");
        std::fs::remove_file(&path).expect("it was there");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .expect("a pipe");
        let error = file.read_new().expect_err("a pipe, which is not waited for").to_string();
        assert!(error.contains("t.table is not a regular file") && error.contains("--table"), "{error}");
        let error = at(Path::new("/proc/no/t.table"), KeySource::Context).expect_err("no place").to_string();
        assert!(error.contains("/proc/no/t.table"), "{error}");
    }

    #[test]
    fn every_path_to_a_table_leads_to_one_lock_elsewhere() {
        let dir = tempfile::tempdir().expect("a directory");
        let [tables, link] = ["tables", "link"].map(|name| dir.path().join(name));
        std::fs::create_dir(&tables).expect("a directory");
        std::os::unix::fs::symlink(&tables, &link).expect("linked");
        let long = "n".repeat(255);
        let first = at(&tables.join(&long), KeySource::Context).expect("nobody has it");
        for path in [link.join(&long), tables.join("../link/.").join(&long)] {
            let refused = at(&path, KeySource::Context).expect_err("another one has it");
            assert!(matches!(refused, TableFileError::Taken { .. }), "{refused}");
        }
        drop(at(&tables.join("another"), KeySource::Context).expect("another table"));
        let open = std::fs::read_dir("/proc/self/fd").expect("it is there").flatten();
        let open: Vec<_> = open.filter_map(|file| std::fs::read_link(file.path()).ok()).collect();
        assert!(open.iter().all(|path| !path.starts_with(&tables)), "{open:?}");
        drop(first);
        drop(at(&link.join(&long), KeySource::Context).expect("it is free again"));
    }

    #[test]
    fn the_default_path_names_the_directory() {
        let path = |directory: &str| default_path(Path::new(directory)).display().to_string();
        assert_eq!(path("/var/lib/mysql"), "/var/lib/pcstream/place-var-lib-mysql.table");
        assert_eq!(path("/mnt/q/b"), "/var/lib/pcstream/place-mnt-q-b.table");
        // As systemd-escape --path prints these.
        assert_eq!(path("/mnt/q-b"), "/var/lib/pcstream/place-mnt-q\\x2db.table");
        assert_eq!(path("/.a//\u{e4} :_."), "/var/lib/pcstream/place-\\x2ea-\\xc3\\xa4\\x20:_..table");
        assert_eq!(path("/"), "/var/lib/pcstream/place--.table");
    }
}
