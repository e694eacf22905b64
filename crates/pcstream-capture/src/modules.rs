//! Modules: the files whose code is on call paths.
//!
//! The kernel side knows a module by a key that holds for this boot; here it gets an identity that
//! holds anywhere: a hash of its build id or, without one, of its name and contents. The file is opened
//! when the module is first seen, because a compiler's temporary program may be gone a moment later,
//! and stays open until symbols are resolved.
//!
//! Paths come from the kernel's directory entries, but a traced process chose them: what is opened must
//! be a regular file with the inode number that the kernel named, and is only read.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use object::Object;
use object::read::ReadCache;
use rustc_hash::FxHashMap;

use crate::signature;
use crate::wire::{self, ModuleKey, PathRecord};

/// Contents hashed of a module without a build id. Larger files are identified by what comes first.
const MAX_HASHED_BYTES: u64 = 256 << 20;
/// Modules kept open for symbols.
const MAX_OPEN: usize = 512;

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
}

/// All modules seen, by the kernel side's key.
#[derive(Debug, Default)]
pub struct Modules {
    by_key: FxHashMap<u64, Module>,
}

impl Modules {
    /// Takes note of a module.
    pub fn add(&mut self, record: &PathRecord) {
        let keep_open = self.by_key.len() < MAX_OPEN;
        self.by_key.entry(record.key).or_insert_with(|| identify(record, keep_open));
    }

    /// The module with this key.
    pub fn get(&self, key: u64) -> Option<&Module> {
        self.by_key.get(&key)
    }

    /// Its stable identity. A module that was never reported (its record was lost) keeps its key: it
    /// is told from others, but not across runs.
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

    /// A module with this path whose file is open.
    pub fn open_at(&self, path: &str) -> Option<&Module> {
        self.by_key.values().find(|module| module.path == path && module.file.is_some())
    }

    /// Closes all files, so that their file system can be unmounted.
    pub fn close(&mut self) {
        self.by_key.values_mut().for_each(|module| module.file = None);
    }
}

fn identify(record: &PathRecord, keep_open: bool) -> Module {
    let bytes = wire::path(record);
    let path = Path::new(OsStr::from_bytes(&bytes));
    let file = open_module(path, record.inode);
    let build_id = file.as_ref().and_then(build_id).unwrap_or_default();
    let identity = if build_id.is_empty() {
        content_identity(path, file.as_ref())
    } else {
        signature::of_bytes(&build_id)
    };
    Module {
        path: String::from_utf8_lossy(&bytes).into_owned(),
        build_id: build_id.iter().map(|byte| format!("{byte:02x}")).collect(),
        identity,
        file: file.filter(|_| keep_open),
    }
}

/// Opens what was mapped, and nothing else: no device, no pipe to hang on, no file put in its place.
fn open_module(path: &Path, inode: u64) -> Option<File> {
    let flags = libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let metadata = file.metadata().ok()?;
    (metadata.is_file() && metadata.ino() == inode).then_some(file)
}

/// The build id of an ELF file, if it has one.
pub(crate) fn build_id(file: &File) -> Option<Vec<u8>> {
    let cache = ReadCache::new(file);
    let parsed = object::File::parse(&cache).ok()?;
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
