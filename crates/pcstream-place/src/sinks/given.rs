//! The hints that were given to files, in memory and in a file that outlives a killed placer.
//!
//! Idea: a hint stays with the kernel's inode when a placer is killed. The next one must know it for its own: it may change
//! it, and takes it back at the end. So each hint is also a line of a file in `/run`, which the system empties at a start,
//! as it forgets the hints.
//!
//! A line: inode, generation, the hint before, the hint given; numbers, with a blank between them. The last line of an inode counts.
//! What is no such line is left out: a line whose writer was killed.
//!
//! Memory: at most [`MAX_GIVEN`] files, 64 MiB; the file is rewritten when it has twice as many lines. The new one is written
//! beside it and takes its place, so that one for which there is no room costs no line.
//!
//! Whether a file is gone is asked only where there is no room for another one, and not for every new one: to ask of all may take a
//! minute, in which nothing is learned.
//!
//! Known weaknesses: a placer that is killed between two calls, after a line and before its hint, takes the file's earlier
//! hint for the program's own.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::{File as Opened, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

use crate::files::Identity;
use crate::replacement;

/// Files whose hints are known.
pub const MAX_GIVEN: usize = 1 << 20;
/// Longest file that is read: a line has at most 64 bytes.
const MAX_BYTES: u64 = 2 * 64 * MAX_GIVEN as u64;

/// A hint that was given, as the kernel numbers hints; 0: none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// What the file had before, or what its program set since.
    pub before: u64,
    /// What it was given last.
    pub given: u64,
}

/// All hints that were given.
#[derive(Debug)]
pub struct Given {
    path: PathBuf,
    file: Opened,
    changes: FxHashMap<Identity, Change>,
    lines: usize,
    /// Whether the last line may be cut off.
    cut: bool,
    /// Files that there is room for.
    room: usize,
    /// New files since it was last time to ask which are gone.
    new_files: usize,
}

impl Given {
    /// What the file holds, and more to come. The file is made if it is not there.
    pub fn open(path: &Path) -> io::Result<Given> {
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).mode(0o600);
        let file = options.custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC).open(path)?;
        let mut text = Vec::new();
        (&file).take(MAX_BYTES).read_to_end(&mut text)?;
        let text = String::from_utf8_lossy(&text);
        let mut given = Given {
            path: path.to_owned(),
            file,
            changes: FxHashMap::default(),
            lines: 0,
            cut: false,
            room: MAX_GIVEN,
            new_files: 0,
        };
        for line in text.split_inclusive('\n') {
            if let Some((identity, change)) = parse(line) {
                given.changes.insert(identity, change);
            }
        }
        // A line that was cut off stays none.
        if !text.is_empty() && !text.ends_with('\n') {
            given.file.write_all(b" cut\n")?;
        }
        given.lines = text.lines().count();
        given.new_files = given.changes.len();
        replacement::remove_left(given.directory(), given.name());
        Ok(given)
    }

    fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    fn name(&self) -> &OsStr {
        self.path.file_name().unwrap_or_default()
    }

    /// The hint that a file was given.
    pub fn of(&self, identity: Identity) -> Option<Change> {
        self.changes.get(&identity).copied()
    }

    /// All files whose hints are known.
    pub fn identities(&self) -> impl Iterator<Item = Identity> + '_ {
        self.changes.keys().copied()
    }

    /// Whether no other file's hint can be kept.
    pub fn is_full(&self) -> bool {
        self.changes.len() >= self.room
    }

    /// A new file is to have a hint. Whether it is time to ask which files are gone: there is no room, and enough new ones came since
    /// the last time.
    pub fn is_time_to_ask(&mut self) -> bool {
        self.new_files += 1;
        let is_time = self.is_full() && self.new_files > self.room / 8;
        if is_time {
            self.new_files = 0;
        }
        is_time
    }

    /// Keeps a hint that is about to be given. Errors: it is known here, but not written down.
    pub fn add(&mut self, identity: Identity, change: Change) -> io::Result<()> {
        self.changes.insert(identity, change);
        let begin = if self.cut { "\n" } else { "" };
        let written = self.file.write_all(format!("{begin}{}", line(identity, change)).as_bytes());
        self.cut = written.is_err();
        self.lines += 1;
        if self.lines > 2 * MAX_GIVEN && self.rewrite().is_err() {
            // The long file holds all. The next try comes after as many lines again.
            self.lines = MAX_GIVEN;
        }
        written
    }

    /// Leaves out files that `keep` does not want. Errors: the file still holds them.
    pub fn retain(&mut self, mut keep: impl FnMut(Identity, Change) -> bool) -> io::Result<()> {
        self.changes.retain(|&identity, &mut change| keep(identity, change));
        self.rewrite()
    }

    /// All hints that were given, by file.
    pub fn all(&self) -> Vec<(Identity, Change)> {
        let mut all: Vec<_> = self.changes.iter().map(|(&identity, &change)| (identity, change)).collect();
        all.sort_unstable_by_key(|(identity, _)| (identity.inode, identity.generation));
        all
    }

    /// Forgets all, here and in the file: they were taken back.
    pub fn clear(&mut self) {
        // A file that is not removed names hints that the files no longer have, which harms nobody.
        let _ = std::fs::remove_file(&self.path);
        self.changes.clear();
    }

    fn rewrite(&mut self) -> io::Result<()> {
        let text = self.changes.iter().fold(String::new(), |mut text, (&identity, &change)| {
            let _ = write!(text, "{}", line(identity, change));
            text
        });
        let mut new = replacement::make(self.directory(), self.name(), 0o600)?;
        new.write_all(text.as_bytes())?;
        self.file = new.persist(&self.path)?;
        (self.lines, self.cut) = (self.changes.len(), false);
        Ok(())
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        // One that never held anything tells the next placer nothing.
        if self.lines == 0 && self.changes.is_empty() {
            self.clear();
        }
    }
}

fn line(identity: Identity, change: Change) -> String {
    format!("{} {} {} {}\n", identity.inode, identity.generation, change.before, change.given)
}

fn parse(line: &str) -> Option<(Identity, Change)> {
    let mut numbers = line.strip_suffix('\n')?.split(' ').map(|number| number.parse::<u64>().ok());
    let mut next = || numbers.next().flatten();
    let identity = Identity { inode: next()?, generation: u32::try_from(next()?).ok()? };
    let change = Change { before: next()?, given: next()? };
    numbers.next().is_none().then_some((identity, change))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(inode: u64) -> Identity {
        Identity { inode, generation: 7 }
    }

    #[test]
    fn what_was_given_is_known_after_a_kill_and_gone_after_an_end() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("given");
        let mut first = Given::open(&path).expect("made");
        first.add(identity(1), Change { before: 0, given: 2 }).expect("written");
        first.add(identity(2), Change { before: 5, given: 3 }).expect("written");
        first.add(identity(1), Change { before: 3, given: 4 }).expect("written");
        drop(first);
        let mut second = Given::open(&path).expect("read");
        let all =
            [(identity(1), Change { before: 3, given: 4 }), (identity(2), Change { before: 5, given: 3 })];
        assert_eq!(all.map(|(identity, _)| second.of(identity)), all.map(|(_, change)| Some(change)));
        second.retain(|identity, _| identity.inode == 1).expect("rewritten");
        let mut third = Given::open(&path).expect("read");
        assert_eq!((third.of(identity(2)), third.lines), (None, 1));
        assert_eq!(third.all(), all[..1]);
        assert!(path.exists(), "until they are taken back");
        third.clear();
        assert!(!path.exists() && third.all().is_empty());
        drop(Given::open(&path).expect("made"));
        assert!(!path.exists(), "nothing was given");
    }

    #[test]
    fn a_full_table_does_not_ask_of_all_files_for_every_new_one() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut given = Given::open(&dir.path().join("given")).expect("made");
        given.room = 32;
        // While these files are new: how often all are asked for, of which `gone` are each time.
        let mut asked = |files: std::ops::Range<u64>, gone: usize| {
            let mut times = 0;
            for inode in files {
                if given.is_time_to_ask() {
                    times += 1;
                    let mut order = 0..given.changes.len();
                    let keep = |_, _| order.next().is_some_and(|number| number >= gone);
                    given.retain(keep).expect("rewritten");
                }
                if !given.is_full() {
                    given.add(identity(inode), Change { before: 0, given: 2 }).expect("written");
                }
            }
            times
        };
        assert_eq!(asked(0..32, 0), 0, "there is room");
        assert_eq!(asked(100..200, 0), 20, "every fifth time");
        assert_eq!(asked(200..300, 1), 20, "one that is gone makes room for one");
        assert_eq!(asked(300..400, 32), 4, "all are gone each time");
    }

    #[test]
    fn a_file_that_cannot_be_rewritten_stays_whole() {
        let dir = tempfile::tempdir().expect("a directory");
        let (run, away) = (dir.path().join("run"), dir.path().join("away"));
        std::fs::create_dir(&run).expect("made");
        let mut given = Given::open(&run.join("given")).expect("made");
        (1..4).for_each(|inode| given.add(identity(inode), Change { before: 0, given: 2 }).expect("written"));
        // Nothing can be made where the file was.
        std::fs::rename(&run, &away).expect("renamed");
        given.retain(|identity, _| identity.inode == 1).expect_err("there is no place for a new one");
        assert_eq!(Given::open(&away.join("given")).expect("read").all().len(), 3);
        std::fs::rename(&away, &run).expect("renamed");
        given.retain(|_, _| true).expect("there is again");
        given.add(identity(5), Change { before: 0, given: 2 }).expect("written");
        let kept: Vec<_> = Given::open(&run.join("given")).expect("read").all();
        assert_eq!(kept.iter().map(|(identity, _)| identity.inode).collect::<Vec<_>>(), [1, 5]);
        assert_eq!(std::fs::read_dir(&run).expect("it is there").count(), 1, "nothing is left beside it");
    }

    /// What was full has room for a part of a line, and then for the next.
    #[test]
    fn a_line_that_was_cut_off_does_not_spoil_the_next() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("given");
        let mut given = Given::open(&path).expect("made");
        let file = std::mem::replace(
            &mut given.file,
            OpenOptions::new().write(true).open("/dev/full").expect("opened"),
        );
        given.add(identity(12), Change { before: 0, given: 2 }).expect_err("there is no room");
        given.file = file;
        given.file.write_all(b"1").expect("written");
        given.add(identity(3), Change { before: 0, given: 2 }).expect("written");
        given.add(identity(4), Change { before: 0, given: 2 }).expect("written");
        let inodes: Vec<_> =
            Given::open(&path).expect("read").all().iter().map(|(identity, _)| identity.inode).collect();
        assert_eq!(inodes, [3, 4]);
    }

    #[test]
    fn lines_that_were_cut_off_or_are_none_are_left_out() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("given");
        std::fs::write(&path, "1 7 0 2\nx\n\n3 7 0\n3 7 0 2 9\n4 99999999999 0 2\n-1 7 0 2\n2 7 0 3")
            .expect("written");
        let mut given = Given::open(&path).expect("read");
        assert_eq!(given.changes.len(), 1);
        given.add(identity(5), Change { before: 0, given: 3 }).expect("written");
        let again = Given::open(&path).expect("read");
        assert_eq!((again.changes.len(), again.of(identity(2))), (2, None));
        std::os::unix::fs::symlink(&path, dir.path().join("link")).expect("linked");
        assert!(Given::open(&dir.path().join("link")).is_err());
    }
}
