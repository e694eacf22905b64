//! Ids of files, by what the BPF program calls them: inode and generation.
//!
//! Idea: a trace keeps every file. What watches for weeks meets files without end, so it may forget those that were not
//! written for long. Ids in use are in `recent`; when that is full, it becomes `older`, and what was in `older` is
//! forgotten. A file that is found in `older` moves back.
//!
//! A file that is renamed gets another id, so that a trace says by which name data were written.
//!
//! Invariant: of a bounded table, the `bound` files that were used last are known, and at most twice as many.
//!
//! Known weakness: the BPF program keeps names by rules of its own. It may not send the name of a file that is forgotten here; then
//! the file has none, which is counted (`unresolved_files`). A file that gets back a name that it had is not sent again, and keeps the
//! one between.

use std::hash::BuildHasher;

use pcstream_trace::FileId;
use rustc_hash::{FxBuildHasher, FxHashMap};

/// Inode and generation.
pub(super) type FileKey = (u64, u32);

/// A file by its last name.
#[derive(Clone, Copy)]
struct Known {
    id: FileId,
    /// Hash of its path.
    path: u64,
}

/// Files that have an id.
#[derive(Default)]
pub(super) struct FileIds {
    recent: FxHashMap<FileKey, Known>,
    older: FxHashMap<FileKey, Known>,
    /// Files in `recent`, at most; `None`: all are kept.
    bound: Option<usize>,
    last: FileId,
}

impl FileIds {
    /// From now on, files that were not used for long may be forgotten.
    pub(super) fn bound(&mut self, files: usize) {
        self.bound = Some(files);
    }

    /// The id of a file, which was used now.
    pub(super) fn get(&mut self, key: FileKey) -> Option<FileId> {
        self.known(key).map(|known| known.id)
    }

    /// The same, if it has this path still. What has no path is no other file.
    pub(super) fn named(&mut self, key: FileKey, path: &str) -> Option<FileId> {
        let known = self.known(key)?;
        (path.is_empty() || known.path == hash(path)).then_some(known.id)
    }

    /// Gives a file that has none an id: the next one. After all of them they begin again, long after their files are forgotten.
    pub(super) fn enter(&mut self, key: FileKey, path: &str) -> FileId {
        self.last = FileId(self.last.0.checked_add(1).unwrap_or(1));
        self.keep(key, Known { id: self.last, path: hash(path) });
        self.last
    }

    fn known(&mut self, key: FileKey) -> Option<Known> {
        if let Some(&known) = self.recent.get(&key) {
            return Some(known);
        }
        let known = self.older.remove(&key)?;
        self.keep(key, known);
        Some(known)
    }

    fn keep(&mut self, key: FileKey, known: Known) {
        if self.bound.is_some_and(|bound| self.recent.len() >= bound) {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(key, known);
    }
}

fn hash(path: &str) -> u64 {
    FxBuildHasher.hash_one(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_are_kept_unless_they_are_bounded() {
        let mut ids = FileIds::default();
        for inode in 1..=1000 {
            assert_eq!(ids.enter((inode, 0), ""), FileId(inode as u32));
        }
        assert!((1..=1000).all(|inode| ids.get((inode, 0)) == Some(FileId(inode as u32))));
        assert_eq!(ids.get((1, 1)), None, "another generation is another file");
    }

    #[test]
    fn a_renamed_file_is_another_one() {
        let mut ids = FileIds::default();
        assert_eq!((ids.named((1, 0), "/a"), ids.enter((1, 0), "/a")), (None, FileId(1)));
        assert_eq!((ids.named((1, 0), "/a"), ids.named((1, 0), "")), (Some(FileId(1)), Some(FileId(1))));
        assert_eq!((ids.named((1, 0), "/b"), ids.enter((1, 0), "/b")), (None, FileId(2)));
        assert_eq!(ids.get((1, 0)), Some(FileId(2)));
    }

    #[test]
    fn of_a_bounded_table_those_used_last_are_kept() {
        let mut ids = FileIds::default();
        ids.bound(10);
        let used = ids.enter((1, 0), "");
        for inode in 2..=1000 {
            ids.enter((inode, 0), "");
            assert_eq!(ids.get((1, 0)), Some(used), "it is in use");
            assert!(ids.recent.len() <= 10 && ids.older.len() <= 10);
        }
        assert!((991..=1000).all(|inode| ids.get((inode, 0)) == Some(FileId(inode as u32))));
        assert_eq!(ids.get((900, 0)), None);
        assert_eq!(ids.enter((900, 0), ""), FileId(1001), "it is a new one");
    }

    #[test]
    fn an_id_of_no_file_is_never_given() {
        let mut ids = FileIds { last: FileId(u32::MAX), ..FileIds::default() };
        assert_eq!(ids.enter((1, 0), ""), FileId(1));
    }
}
