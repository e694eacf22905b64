//! Classes of file names: what a program calls files of one purpose, numbers and all.
//!
//! The last component of the path, each run of digits one `#`: `000123.sst` and `000124.sst` are `#.sst`. Names of more
//! than 24 characters are unlikely to repeat, so only their extension counts.
//!
//! Memory: 2 bytes a file, and at most [`MAX_CLASSES`] names; files beyond have no class.

use pcstream_trace::paths::{extension, file_name};
use pcstream_trace::{ById, FileId, Tables};
use rustc_hash::FxHashMap;

const MAX_CLASSES: usize = 2048;
const LONG: usize = 24;
const UNSEEN: u16 = u16::MAX;

pub(crate) struct NameClasses {
    /// By file id; UNSEEN or a class, 0 being none.
    of_file: ById<u16>,
    classes: FxHashMap<String, u16>,
    /// Files that found no room for theirs.
    refused: u64,
}

impl Default for NameClasses {
    fn default() -> NameClasses {
        NameClasses { of_file: ById::filled(UNSEEN), classes: FxHashMap::default(), refused: 0 }
    }
}

impl NameClasses {
    /// Files whose names had no room for a class of their own.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    /// The class of a file's name, from 1; 0 without one.
    #[inline]
    pub(crate) fn of(&mut self, file: FileId, tables: &Tables) -> u16 {
        match self.of_file.get(file.0 as usize) {
            Some(&class) if class != UNSEEN => class,
            _ => self.classify(file, tables),
        }
    }

    fn classify(&mut self, file: FileId, tables: &Tables) -> u16 {
        // An id that is not in the tables may come to be.
        let Some(entry) = tables.file(file) else { return 0 };
        let class = class_of(&entry.path);
        let next = self.classes.len() as u16 + 1;
        let number = match self.classes.get(&class) {
            _ if class.is_empty() => 0,
            Some(&number) => number,
            None if usize::from(next) > MAX_CLASSES => {
                self.refused += 1;
                0
            }
            None => {
                self.classes.insert(class, next);
                next
            }
        };
        *self.of_file.at(file.0 as usize) = number;
        number
    }
}

fn class_of(path: &str) -> String {
    let name = file_name(path);
    if name.chars().count() > LONG {
        return extension(path).map(|extension| format!("*.{extension}")).unwrap_or_default();
    }
    let mut class = String::new();
    for c in name.chars() {
        match c.is_ascii_digit() {
            true if class.ends_with('#') => {}
            true => class.push('#'),
            false => class.push(c),
        }
    }
    class
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tables;

    #[test]
    fn classes_by_hand() {
        let classes = ["/d/000123.sst", "/d/a12b3", "/x/", "/d/LOG", "/d/an-uncommonly-long-name-1.log"];
        assert_eq!(classes.map(class_of), ["#.sst", "a#b#", "", "LOG", "*.log"]);
        assert_eq!(class_of("/d/an-uncommonly-long-name-1"), "");
    }

    #[test]
    fn files_of_a_class_share_a_number() {
        let tables = tables(&[], &["/1.sst", "/22.sst", "/LOG", ""]);
        let mut names = NameClasses::default();
        let all = [0, 1, 2, 3, 4, 99].map(|id| names.of(FileId(id), &tables));
        assert_eq!(all, [0, 1, 1, 2, 0, 0]);
        assert_eq!(all, [0, 1, 2, 3, 4, 99].map(|id| names.of(FileId(id), &tables)));
    }
}
