//! Files, and which contexts wrote how much of each.
//!
//! Idea: a hint names a whole file. It is that of most of the pages written, counted by the hint of their context. Pages
//! of contexts that are not known count too: if they are the most, the file has no hint. Before any page is written to the
//! device, the context counts that made the file dirty: a hint that comes with the first request comes too late for it.
//!
//! Units: pages.
//!
//! Memory: at most [`MAX_FILES`] files with [`MAX_CONTEXTS`] contexts each, about 90 MiB if every file has as many. The
//! file that was not written for the longest time goes first, files that only others write before all that are placed; its
//! hint stays as it is. Both limits are counted.

use std::collections::BTreeMap;

use pcstream_trace::{ContextId, File, FileId, Life};
use rustc_hash::FxHashMap;

use crate::contexts::Decisions;
use crate::sink::Outcome;

/// Files that are followed.
pub const MAX_FILES: usize = 65_536;
/// Contexts of a file that are kept apart.
pub const MAX_CONTEXTS: usize = 64;

/// What stays the same when a file is renamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Inode number.
    pub inode: u64,
    /// Of the inode number, which is used again.
    pub generation: u32,
}

impl Identity {
    /// That of a file.
    pub fn of(file: &File) -> Identity {
        Identity { inode: file.inode, generation: file.generation }
    }
}

/// A file that is followed.
#[derive(Clone, Debug, Default)]
pub struct Followed {
    /// Name and identity.
    pub file: File,
    /// What it is expected to be now.
    pub hint: Option<Life>,
    /// What came of saying so; `None`: nothing was said yet.
    pub outcome: Option<Outcome>,
    /// Who made it dirty first.
    first: ContextId,
    /// Pages by context, in order of first use.
    contexts: Vec<(ContextId, u64)>,
    /// When it was written last, in the order of all writes.
    written: u64,
    /// Nobody who is placed has written it.
    of_others: bool,
}

impl Followed {
    /// The context that wrote the most of it, and how many pages.
    pub fn main_writer(&self) -> (ContextId, u64) {
        let most = self.contexts.iter().rev().max_by_key(|(_, pages)| *pages);
        most.copied().unwrap_or((ContextId::NONE, 0))
    }

    /// Its place among those that make room for new files.
    fn place(&self) -> Place {
        (!self.of_others, self.written)
    }

    fn majority(&self, decisions: &Decisions) -> Option<Life> {
        if self.contexts.is_empty() {
            return decisions.of(self.first).hint;
        }
        let mut votes = [0u64; Life::TIMED.len() + 1];
        for &(context, pages) in &self.contexts {
            let hint = decisions.of(context).hint;
            votes[hint.and_then(Life::class).map_or(0, |class| class + 1)] += pages;
        }
        // The first of equals: no hint before any, the shorter lifetime before the longer.
        let (at, _) = votes.iter().enumerate().rev().max_by_key(|(_, votes)| **votes)?;
        at.checked_sub(1).map(|at| Life::TIMED[at])
    }
}

/// Whether a file is placed, and when it was written last.
type Place = (bool, u64);

/// All files that are followed.
#[derive(Debug)]
pub struct Files {
    followed: FxHashMap<FileId, Followed>,
    ids: FxHashMap<Identity, FileId>,
    /// In the order in which they make room.
    order: BTreeMap<Place, FileId>,
    /// The context of those whose writes nobody asked to place, once it has written.
    others: Option<ContextId>,
    writes: u64,
    max_files: usize,
    forgotten: u64,
    contexts_not_counted: u64,
}

impl Default for Files {
    fn default() -> Files {
        Files::with_limit(MAX_FILES)
    }
}

impl Files {
    fn with_limit(max_files: usize) -> Files {
        Files {
            followed: FxHashMap::default(),
            ids: FxHashMap::default(),
            order: BTreeMap::new(),
            others: None,
            writes: 0,
            max_files,
            forgotten: 0,
            contexts_not_counted: 0,
        }
    }

    /// The context of those whose writes nobody asked to place: files that only they write make room first.
    pub fn set_others(&mut self, context: ContextId) {
        self.others = Some(context);
    }

    /// A file that may be written soon. One that was renamed has another id: it keeps its hint and who wrote it.
    pub fn enter(&mut self, file: &File) {
        let before = self.ids.get(&Identity::of(file)).copied().and_then(|id| self.remove(id));
        // Ids begin again some day.
        self.remove(file.id);
        if self.followed.len() >= self.max_files
            && let Some((_, &oldest)) = self.order.first_key_value()
        {
            self.remove(oldest);
            self.forgotten += 1;
        }
        self.writes += 1;
        let followed = Followed { file: file.clone(), written: self.writes, ..before.unwrap_or_default() };
        self.order.insert(followed.place(), file.id);
        self.ids.insert(Identity::of(file), file.id);
        self.followed.insert(file.id, followed);
    }

    fn remove(&mut self, id: FileId) -> Option<Followed> {
        let followed = self.followed.remove(&id)?;
        self.order.remove(&followed.place());
        self.ids.remove(&Identity::of(&followed.file));
        Some(followed)
    }

    /// A context made a file dirty.
    pub fn begin(&mut self, file: FileId, context: ContextId) {
        let Some(followed) = self.followed.get_mut(&file) else { return };
        followed.first = context;
        if followed.contexts.is_empty() {
            self.order.remove(&followed.place());
            followed.of_others = self.others == Some(context);
            self.order.insert(followed.place(), file);
        }
    }

    /// A context wrote pages of a file. False: it is not followed any more, and its name is not known here.
    pub fn write(&mut self, file: FileId, context: ContextId, pages: u64) -> bool {
        let Some(followed) = self.followed.get_mut(&file) else { return false };
        self.writes += 1;
        self.order.remove(&followed.place());
        followed.of_others =
            self.others == Some(context) && (followed.of_others || followed.contexts.is_empty());
        followed.written = self.writes;
        self.order.insert(followed.place(), file);
        if let Some((_, sum)) = followed.contexts.iter_mut().find(|(known, _)| *known == context) {
            *sum += pages;
            return true;
        }
        if followed.contexts.len() == MAX_CONTEXTS {
            let least = followed.contexts.iter().enumerate().min_by_key(|(_, (_, pages))| *pages);
            let (least, _) = least.expect("it has contexts");
            followed.contexts.swap_remove(least);
            self.contexts_not_counted += 1;
        }
        followed.contexts.push((context, pages));
        true
    }

    /// Decides these files. Returns those whose hint changed.
    pub fn decide(&mut self, files: impl IntoIterator<Item = FileId>, decisions: &Decisions) -> Vec<FileId> {
        let mut changed = Vec::new();
        for id in files {
            let Some(followed) = self.followed.get_mut(&id) else { continue };
            let hint = followed.majority(decisions);
            // A majority that became unknown says nothing against what was said.
            if hint.is_some() && hint != followed.hint {
                followed.hint = hint;
                changed.push(id);
            }
        }
        changed.sort_unstable();
        changed
    }

    /// Ids of all files that are followed.
    pub fn ids(&self) -> Vec<FileId> {
        self.followed.keys().copied().collect()
    }

    /// A file that is followed.
    pub fn get(&self, id: FileId) -> Option<&Followed> {
        self.followed.get(&id)
    }

    /// Keeps what came of saying a file's hint.
    pub fn said(&mut self, id: FileId, outcome: Outcome) {
        if let Some(followed) = self.followed.get_mut(&id) {
            followed.outcome = Some(outcome);
        }
    }

    /// All files that are followed, in the order in which they were first written.
    pub fn all(&self) -> Vec<&Followed> {
        let mut all: Vec<&Followed> = self.followed.values().collect();
        all.sort_unstable_by_key(|followed| followed.file.id);
        all
    }

    /// Files that made room for others.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Contexts of files that made room for others.
    pub fn contexts_not_counted(&self) -> u64 {
        self.contexts_not_counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(id: u32) -> File {
        File { id: FileId(id), inode: 100 + u64::from(id), generation: 1, path: format!("/{id}") }
    }

    #[test]
    fn the_file_that_was_not_written_for_longest_makes_room() {
        let mut files = Files::with_limit(2);
        files.enter(&file(1));
        files.enter(&file(2));
        files.write(FileId(1), ContextId(1), 5);
        files.enter(&file(3));
        assert_eq!(files.all().iter().map(|f| f.file.id.0).collect::<Vec<_>>(), [1, 3]);
        assert!(!files.write(FileId(2), ContextId(1), 5) && files.write(FileId(1), ContextId(1), 5));
        assert_eq!(
            (files.forgotten(), files.order.len(), files.followed.len(), files.ids.len()),
            (1, 2, 2, 2)
        );
    }

    #[test]
    fn files_of_others_make_room_before_those_that_are_placed() {
        let (others, ours) = (ContextId(1), ContextId(2));
        let mut files = Files::with_limit(3);
        files.set_others(others);
        (1..=3).for_each(|id| files.enter(&file(id)));
        files.write(FileId(1), ours, 5);
        files.begin(FileId(2), others);
        files.write(FileId(3), others, 5);
        let mut kept = |id| {
            files.enter(&file(id));
            files.all().iter().map(|f| f.file.id.0).collect::<Vec<_>>()
        };
        assert_eq!(kept(4), [1, 3, 4], "nobody has said who writes the new one");
        assert_eq!(kept(5), [1, 4, 5]);
        assert_eq!(kept(6), [4, 5, 6], "none is of others: the longest ago");
        // Whoever is placed and writes it, too, has it placed.
        files.write(FileId(4), others, 5);
        files.write(FileId(4), ours, 1);
        files.write(FileId(4), others, 5);
        files.write(FileId(6), others, 5);
        files.enter(&file(7));
        assert_eq!(files.all().iter().map(|f| f.file.id.0).collect::<Vec<_>>(), [4, 5, 7]);
        assert_eq!((files.order.len(), files.followed.len(), files.ids.len()), (3, 3, 3));
    }

    #[test]
    fn a_renamed_file_is_the_same_one() {
        let mut files = Files::default();
        files.enter(&file(1));
        files.write(FileId(1), ContextId(1), 5);
        files.followed.get_mut(&FileId(1)).expect("it is followed").hint = Some(Life::Short);
        files.enter(&File { id: FileId(2), path: "/renamed".into(), ..file(1) });
        files.write(FileId(2), ContextId(2), 4);
        let all = files.all();
        assert_eq!(all.iter().map(|f| f.file.path.as_str()).collect::<Vec<_>>(), ["/renamed"]);
        assert_eq!((all[0].main_writer(), all[0].hint), ((ContextId(1), 5), Some(Life::Short)));
        assert_eq!((files.order.len(), files.ids.len()), (1, 1));
        // Another generation is another file.
        files.enter(&File { id: FileId(3), generation: 2, ..file(1) });
        assert_eq!(files.ids().len(), 2);
    }

    #[test]
    fn a_file_has_a_bounded_number_of_contexts() {
        let mut files = Files::default();
        files.enter(&file(1));
        for context in 1..=MAX_CONTEXTS as u32 + 3 {
            files.write(FileId(1), ContextId(context), u64::from(context) + 10);
        }
        assert_eq!(files.contexts_not_counted(), 3);
        let followed = files.get(FileId(1)).expect("it is followed");
        assert_eq!(followed.contexts.len(), MAX_CONTEXTS);
        assert_eq!(followed.main_writer().0, ContextId(MAX_CONTEXTS as u32 + 3));
    }
}
