//! Modules: the files whose code is on call paths.
//!
//! The BPF program knows a module by a key that holds for this boot; here it gets an identity that
//! holds anywhere: a hash of its build id or, without one, of its name and contents. The file is opened
//! when the module is first seen, because a compiler's temporary program may be gone soon after,
//! and stays open until symbols are resolved. `module_file` says how, `module_data` with which limits it is read.
//!
//! Invariants: a module that is on a call path and could not be opened, or not be kept open, is counted: its paths have
//! no names and no rules. So is one beyond `MAX_MODULES`, of which nothing is kept. What a module costs to identify does not
//! grow with its size.

pub(crate) mod file_handles;
pub mod looks;
pub mod module_data;
pub mod module_file;
pub(crate) mod open_files;
pub mod reading_limits;
pub(crate) mod segments;
pub mod unwaited;

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;

use object::Endianness;
use object::elf::{ELF_NOTE_GNU, FileHeader32, FileHeader64, NT_GNU_BUILD_ID};
use object::read::elf::{FileHeader, NoteIterator, ProgramHeader, SectionHeader};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::signature;
use crate::wire::{self, ModuleKey, PathRecord};
use looks::Looks;
use module_data::ModuleData;
use reading_limits::Allowance;

/// Of a module without a build id, so much of the beginning and of the end is hashed.
const HASHED_BYTES: u64 = 128 << 10;
/// A longer build id is none: those of compilers have 8 to 32 bytes.
const MAX_BUILD_ID_BYTES: usize = 64;
/// Modules that are distinguished, with their paths up to [`MAX_PATH_BYTES`]: at most 40 MB.
const MAX_MODULES: usize = 65_536;
/// A longer path keeps its end.
const MAX_PATH_BYTES: usize = 512;
/// Modules kept open for symbols, if the process may have so many files.
const MAX_OPEN: usize = 4096;
/// Files that a process may have open beside them.
const OTHER_FILES: usize = 256;

/// Key of executable memory without a file.
const ANON_KEY: u64 = ModuleKey::MODULE_ANON.0 as u64;

/// What is known of a module.
#[derive(Debug)]
pub struct Module {
    /// Where it was mapped from; `.../` stands for what is left out of a long path.
    pub path: String,
    /// In hexadecimal; empty without one.
    pub build_id: String,
    /// Stable across machines.
    pub identity: u64,
    /// Of its file's name.
    name: u64,
    /// The file itself, unless it could not be opened. Whoever looks names up shares it.
    pub file: Option<Arc<File>>,
    /// Why there is none, from the beginning.
    pub lack: Option<Lack>,
}

/// All modules seen, by the BPF program's key.
#[derive(Debug)]
pub struct Modules {
    by_key: FxHashMap<u64, Module>,
    /// Those on call paths.
    used: FxHashSet<u64>,
    open: usize,
    most_open: usize,
    most: usize,
    /// Reports of modules beyond that.
    over_limit: u64,
    looks: Looks,
}

impl Default for Modules {
    fn default() -> Modules {
        Modules {
            by_key: FxHashMap::default(),
            used: FxHashSet::default(),
            open: 0,
            most_open: open_files::allowed().saturating_sub(OTHER_FILES).clamp(64, MAX_OPEN),
            most: MAX_MODULES,
            over_limit: 0,
            looks: Looks::default(),
        }
    }
}

/// Why a module's call paths have no names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// Its file could not be opened.
    NotOpened,
    /// Too many others are open.
    NotKept,
    /// Its file was overwritten before names were looked up.
    Changed,
}

/// An open module, for whoever looks names up.
#[derive(Clone, Debug)]
pub struct OpenModule {
    /// The file.
    pub file: Arc<File>,
    /// Where it was mapped from.
    pub path: String,
    name: u64,
    identity: u64,
}

impl OpenModule {
    /// Whether the file holds something else than when it was identified.
    pub fn has_changed(&self) -> bool {
        identity_of(self.name, &build_id(&self.file).unwrap_or_default(), Some(&self.file)) != self.identity
    }
}

impl Modules {
    /// Takes note of a module.
    pub fn add(&mut self, record: &PathRecord) {
        if self.by_key.contains_key(&record.key) {
            return;
        }
        if self.by_key.len() >= self.most {
            self.over_limit += 1;
            return;
        }
        let module = identify(record, self.open < self.most_open, &mut self.looks);
        self.open += usize::from(module.file.is_some());
        self.by_key.insert(record.key, module);
    }

    /// Processes are not looked at any more: nobody waits for names. Modules that are not found without that count as not opened.
    pub fn stop_looking(&mut self) {
        self.looks.give_up();
    }

    /// Reports of modules that nothing is kept of, because there are too many. One may be reported more than once.
    pub fn over_limit(&self) -> u64 {
        self.over_limit
    }

    /// Takes note that a module is on a call path.
    pub fn mark_used(&mut self, key: u64) {
        self.used.insert(key);
    }

    /// Modules on call paths that lack their file, by path.
    pub fn lacking(&self) -> Vec<(&str, Lack)> {
        let lack = |key| self.by_key.get(key).and_then(|module| Some((module.path.as_str(), module.lack?)));
        let mut found: Vec<_> = self.used.iter().filter_map(lack).collect();
        found.sort_unstable_by_key(|(path, _)| *path);
        found
    }

    /// The module with this key.
    pub fn get(&self, key: u64) -> Option<&Module> {
        self.by_key.get(&key)
    }

    /// Its stable identity. A module that was never reported (its record was lost) keeps its key: it
    /// differs from others, but does not hold across runs.
    pub fn identity(&self, key: u64) -> u64 {
        match key {
            ANON_KEY => signature::ANONYMOUS,
            key => self.get(key).map_or(key, |module| module.identity),
        }
    }

    /// Its path; `[anon]` for code without a file, `[unknown]` for a module never reported.
    pub fn path(&self, key: u64) -> &str {
        match key {
            ANON_KEY => "[anon]",
            key => self.get(key).map_or("[unknown]", |module| &module.path),
        }
    }

    /// The file of an open module, and what it was.
    pub fn open_file(&self, key: u64) -> Option<OpenModule> {
        let Module { path, identity, name, file, .. } = self.get(key)?;
        Some(OpenModule { file: file.clone()?, path: path.clone(), name: *name, identity: *identity })
    }

    /// Takes note of modules that have changed since they were identified.
    pub fn mark_changed(&mut self, keys: &[u64]) {
        for key in keys {
            if let Some(module) = self.by_key.get_mut(key) {
                module.lack.get_or_insert(Lack::Changed);
            }
        }
    }

    /// Closes the file of a module if it was removed, would keep its room on the disk, and does not run by what `runs` says. What comes
    /// upon the module later counts it as not opened. Returns whether no file is open any more.
    pub fn close_removed(&mut self, key: u64, runs: impl Fn(&File) -> bool) -> bool {
        let Some(module) = self.by_key.get_mut(&key) else { return true };
        let is_removed =
            |file: &mut Arc<File>| file.metadata().is_ok_and(|about| about.nlink() == 0) && !runs(file);
        if module.file.take_if(is_removed).is_some() {
            module.lack.get_or_insert(Lack::NotOpened);
            self.used.remove(&key);
            self.open -= 1;
        }
        module.file.is_none()
    }

    /// Closes all files that nobody else holds, so that their file system can be unmounted.
    pub fn close(&mut self) {
        self.by_key.values_mut().for_each(|module| module.file = None);
    }
}

fn identify(record: &PathRecord, keep_open: bool, looks: &mut Looks) -> Module {
    let path = wire::path(record);
    let file = module_file::open(record, looks);
    let build_id = file.as_ref().and_then(build_id).unwrap_or_default();
    let name = signature::of_bytes(path.rsplit(|&byte| byte == b'/').next().unwrap_or(&path));
    let identity = identity_of(name, &build_id, file.as_ref());
    let lack = match &file {
        // Code that a program made while it ran has no names to be found.
        None if module_file::is_memory(&path) => None,
        None => Some(Lack::NotOpened),
        Some(_) => (!keep_open).then_some(Lack::NotKept),
    };
    Module {
        path: shown(&path),
        build_id: build_id.iter().map(|byte| format!("{byte:02x}")).collect(),
        identity,
        name,
        file: file.filter(|_| keep_open).map(Arc::new),
        lack,
    }
}

/// A path, without its beginning if it is long.
fn shown(path: &[u8]) -> String {
    let cut = path.len().saturating_sub(MAX_PATH_BYTES);
    if cut == 0 {
        return String::from_utf8_lossy(path).into_owned();
    }
    let end = &path[cut..];
    let whole = end.iter().position(|&byte| byte == b'/').unwrap_or(0);
    format!("...{}", String::from_utf8_lossy(&end[whole..]))
}

/// The build id of an ELF file, if it has one.
pub(crate) fn build_id(file: &File) -> Option<Vec<u8>> {
    let allowance = Allowance::default();
    let data = ModuleData::notes_of(file, &allowance);
    id_in_notes::<FileHeader64<Endianness>>(&data)
        .or_else(|| id_in_notes::<FileHeader32<Endianness>>(&data))
        .filter(|id| id.len() <= MAX_BUILD_ID_BYTES)
}

/// Notes are found by sections or, in a file without them, by segments. Nothing else of the file is read.
fn id_in_notes<Elf: FileHeader<Endian = Endianness>>(data: &ModuleData<'_>) -> Option<Vec<u8>> {
    let header = Elf::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let id_in = |mut notes: NoteIterator<'_, Elf>| {
        while let Ok(Some(note)) = notes.next() {
            if note.name() == ELF_NOTE_GNU && note.n_type(endian) == NT_GNU_BUILD_ID {
                return Some(note.desc().to_vec());
            }
        }
        None
    };
    let sections = header.section_headers(endian, data).ok()?;
    if sections.is_empty() {
        let segments = header.program_headers(endian, data).ok()?;
        return segments.iter().filter_map(|segment| segment.notes(endian, data).ok()?).find_map(id_in);
    }
    sections.iter().filter_map(|section| section.notes(endian, data).ok()?).find_map(id_in)
}

/// Of the build id; without one, of the name, the size, and both ends of the contents.
fn identity_of(name: u64, build_id: &[u8], file: Option<&File>) -> u64 {
    if !build_id.is_empty() {
        return signature::of_bytes(build_id);
    }
    let Some(file) = file else { return name };
    let bytes = file.metadata().map_or(0, |metadata| metadata.len());
    let tail = bytes.saturating_sub(HASHED_BYTES).max(HASHED_BYTES);
    let pieces = [0, tail].map(|at| signature::of_bytes(&piece(file, at)));
    pieces.into_iter().fold(signature::mix(name, bytes), signature::mix)
}

/// At most [`HASHED_BYTES`] from there on.
fn piece(file: &File, at: u64) -> Vec<u8> {
    let mut bytes = vec![0; HASHED_BYTES as usize];
    let mut filled = 0;
    while let Ok(read @ 1..) = unwaited::read_at(file, &mut bytes[filled..], at + filled as u64) {
        filled += read;
    }
    bytes.truncate(filled);
    bytes
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    /// A module of this path that nobody can open.
    fn record(key: u64, components: &[&str]) -> PathRecord {
        let mut record = PathRecord { key, components: components.len() as u32, ..Default::default() };
        let mut at = 0;
        for (n, name) in components.iter().rev().enumerate() {
            record.length[n] = name.len() as u8;
            record.text[at..at + name.len()].copy_from_slice(name.as_bytes());
            at += name.len();
        }
        record
    }

    #[test]
    fn of_modules_beyond_the_limit_only_the_key_is_known() {
        let mut modules = Modules { most: 2, ..Modules::default() };
        for key in [10, 11, 12, 10, 13] {
            modules.add(&record(key, &["nowhere", "module"]));
        }
        assert_eq!(modules.over_limit(), 2);
        assert_eq!((modules.path(11), modules.path(12)), ("/nowhere/module", "[unknown]"));
        assert_eq!(modules.identity(10), modules.identity(11));
        assert_eq!(modules.identity(13), 13);
    }

    #[test]
    fn a_removed_file_is_closed_and_counts_only_if_it_is_wanted_again() {
        let module = |file| Module {
            path: "/module".into(),
            build_id: String::new(),
            identity: 1,
            name: 1,
            file: Some(Arc::new(file)),
            lack: None,
        };
        let there = tempfile::NamedTempFile::new().unwrap();
        let mut modules = Modules { open: 2, ..Modules::default() };
        modules.by_key.insert(10, module(tempfile::tempfile().unwrap()));
        modules.by_key.insert(11, module(there.reopen().unwrap()));
        assert!(!modules.close_removed(10, |_| true), "a server may still start it");
        modules.mark_used(10);
        modules.mark_used(11);
        assert_eq!([10, 11, 12].map(|key| modules.close_removed(key, |_| false)), [true, false, true]);
        assert_eq!((modules.open, modules.lacking()), (1, vec![]));
        modules.mark_used(10);
        assert_eq!(modules.lacking(), [("/module", Lack::NotOpened)]);
    }

    #[test]
    fn long_paths_keep_their_end() {
        let long = "d".repeat(200);
        let mut modules = Modules::default();
        modules.add(&record(10, &[&long, &long, &long, &long, "module"]));
        assert_eq!(modules.path(10), format!(".../{long}/{long}/module"));
    }

    #[test]
    fn what_a_file_costs_to_identify_does_not_grow_with_its_size() {
        let file = tempfile::tempfile().unwrap();
        let name = signature::of_bytes;
        let identity = || identity_of(name(b"module"), &[], Some(&file));
        let large = 1 << 50;
        let (mut known, middle) = (vec![identity()], 1 << 20);
        file.set_len(large).or_else(|_| file.set_len(1 << 40)).unwrap();
        let end = file.metadata().unwrap().len() - 1;
        known.push(identity());
        file.write_at(b"x", middle).unwrap();
        assert_eq!(identity(), known[1], "of the middle nothing is read");
        for at in [0, end, HASHED_BYTES - 1, end + 1] {
            file.write_at(b"x", at).unwrap();
            assert!(!known.contains(&identity()), "{at}");
            known.push(identity());
        }
        assert_ne!(identity_of(name(b"other"), &[], Some(&file)), identity());
        assert_eq!(identity_of(name(b"other"), b"id", Some(&file)), signature::of_bytes(b"id"));
    }

    #[test]
    fn a_build_id_is_found_without_reading_much() {
        use object::Object;
        let program = File::open("/proc/self/exe").unwrap();
        let bytes = std::fs::read("/proc/self/exe").unwrap();
        let expected = object::File::parse(&*bytes).unwrap().build_id().unwrap().map(<[u8]>::to_vec);
        assert!(expected.is_some(), "test programs have build ids");
        assert_eq!(build_id(&program), expected);
        // Its section headers are said to be elsewhere, and so many that they are not read.
        let hostile = tempfile::tempfile().unwrap();
        let mut bytes = bytes;
        bytes.truncate(4096);
        bytes[0x28..0x30].copy_from_slice(&4096_u64.to_ne_bytes());
        bytes[0x3c..0x3e].copy_from_slice(&u16::MAX.to_ne_bytes());
        hostile.write_all_at(&bytes, 0).unwrap();
        hostile.set_len(1 << 40).unwrap();
        let allowance = Allowance::default();
        let data = ModuleData::notes_of(&hostile, &allowance);
        assert_eq!(id_in_notes::<FileHeader64<Endianness>>(&data), None);
        assert!(allowance.fell_short(), "the headers are not read");
    }
}
