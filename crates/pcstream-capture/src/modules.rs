//! Modules: the files whose code is on call paths.
//!
//! The kernel side knows a module by a key that holds for this boot; here it gets an identity that
//! holds anywhere: a hash of its build id or, without one, of its name and contents. The file is opened
//! when the module is first seen, because a compiler's temporary program may be gone soon after,
//! and stays open until symbols are resolved. `module_file` says how, `module_data` with which limits it is read.
//!
//! Invariants: a module that is on a call path and could not be opened, or not be kept open, is counted: its paths have
//! no names and no rules.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use object::Object;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::allowance::Allowance;
use crate::module_data::ModuleData;
use crate::module_file;
use crate::signature;
use crate::wire::{self, ModuleKey, PathRecord};

/// Contents hashed of a module without a build id. Larger files are identified by what comes first.
const MAX_HASHED_BYTES: u64 = 256 << 20;
/// Modules kept open for symbols, if the process may have so many files.
const MAX_OPEN: usize = 4096;
/// Files that a process may have open beside them.
const OTHER_FILES: usize = 256;

/// Key of executable memory without a file.
const ANON_KEY: u64 = ModuleKey::MODULE_ANON.0 as u64;

/// What is known of a module.
#[derive(Debug)]
pub struct Module {
    /// Where it was mapped from.
    pub path: String,
    /// In hexadecimal; empty without one.
    pub build_id: String,
    /// Stable across machines.
    pub identity: u64,
    /// The file itself, unless it could not be opened.
    pub file: Option<File>,
    /// Why there is none, from the beginning.
    pub lack: Option<Lack>,
}

/// All modules seen, by the kernel side's key.
#[derive(Debug)]
pub struct Modules {
    by_key: FxHashMap<u64, Module>,
    /// Those on call paths.
    used: FxHashSet<u64>,
    open: usize,
    most_open: usize,
}

impl Default for Modules {
    fn default() -> Modules {
        Modules {
            by_key: FxHashMap::default(),
            used: FxHashSet::default(),
            open: 0,
            most_open: files_allowed().saturating_sub(OTHER_FILES).clamp(64, MAX_OPEN),
        }
    }
}

/// Files that this process may have open, after asking for as many as there may be.
fn files_allowed() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Whoever may not raise it keeps the limit there is.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    getrlimit(Resource::Nofile).current.map_or(usize::MAX, |files| files as usize)
}

/// Why a module's call paths have no names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// Its file could not be opened.
    NotOpened,
    /// Too many others are open.
    NotKept,
}

impl Modules {
    /// Takes note of a module.
    pub fn add(&mut self, record: &PathRecord) {
        if self.by_key.contains_key(&record.key) {
            return;
        }
        let module = identify(record, self.open < self.most_open);
        self.open += usize::from(module.file.is_some());
        self.by_key.insert(record.key, module);
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

    /// The file and the path of an open module.
    pub fn open_file(&self, key: u64) -> Option<(&File, &str)> {
        self.get(key).and_then(|module| Some((module.file.as_ref()?, module.path.as_str())))
    }

    /// Closes all files, so that their file system can be unmounted.
    pub fn close(&mut self) {
        self.by_key.values_mut().for_each(|module| module.file = None);
    }
}

fn identify(record: &PathRecord, keep_open: bool) -> Module {
    let bytes = wire::path(record);
    let path = Path::new(OsStr::from_bytes(&bytes));
    let shown = String::from_utf8_lossy(&bytes).into_owned();
    let file = module_file::open(record);
    let build_id = file.as_ref().and_then(build_id).unwrap_or_default();
    let identity = if build_id.is_empty() {
        content_identity(path, file.as_ref())
    } else {
        signature::of_bytes(&build_id)
    };
    let lack = match &file {
        // Code that a program made while it ran has no names to be found.
        None if module_file::is_memory(&shown) => None,
        None => Some(Lack::NotOpened),
        Some(_) => (!keep_open).then_some(Lack::NotKept),
    };
    Module {
        path: shown,
        build_id: build_id.iter().map(|byte| format!("{byte:02x}")).collect(),
        identity,
        file: file.filter(|_| keep_open),
        lack,
    }
}

/// The build id of an ELF file, if it has one.
pub(crate) fn build_id(file: &File) -> Option<Vec<u8>> {
    let allowance = Allowance::default();
    let data = ModuleData::of(file, &allowance);
    let parsed = object::File::parse(&data).ok()?;
    parsed.build_id().ok().flatten().map(<[u8]>::to_vec)
}

fn content_identity(path: &Path, file: Option<&File>) -> u64 {
    let name = signature::of_bytes(path.file_name().unwrap_or(path.as_os_str()).as_bytes());
    let mut piece = vec![0; 1 << 20];
    let mut hash = name;
    let Some(file) = file else { return name };
    let mut left = file.take(MAX_HASHED_BYTES);
    loop {
        match left.read(&mut piece) {
            Ok(0) | Err(_) => return hash,
            Ok(length) => hash = signature::mix(hash, signature::of_bytes(&piece[..length])),
        }
    }
}
