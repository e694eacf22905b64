//! Which sources a build is of: a commit, or a digest.
//!
//! Idea: in a clone it is the commit, with a digest if the sources differ from it. A package of `cargo package` names the
//! commit in a file. What is left, such as an unpacked archive, has the digest alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is compiled: from the root of the sources on, and in a package.
const SOURCES: [&str; 5] = ["Cargo.lock", "Cargo.toml", "crates", "python/src", "src"];
/// Digits of a commit.
const DIGITS: usize = 12;

/// Of the package in this directory, two below the root of the sources. Letters, digits and dots.
pub fn of(package: &Path) -> String {
    let root = root(package);
    packed(package).or_else(|| committed(&root)).unwrap_or_else(|| format!("sources.{}", digest(&root)))
}

/// Files and directories that decide it.
pub fn watched(package: &Path) -> Vec<PathBuf> {
    let root = root(package);
    let history = git(&root, &["rev-parse", "--git-path", "logs/HEAD"]).map(|path| root.join(path));
    SOURCES.iter().map(|path| root.join(path)).chain(history).filter(|path| path.exists()).collect()
}

fn root(package: &Path) -> PathBuf {
    let root = package.join("../..");
    if root.join("crates").is_dir() { root } else { package.to_owned() }
}

/// The commit that `cargo package` packed.
fn packed(package: &Path) -> Option<String> {
    let text = fs::read_to_string(package.join(".cargo_vcs_info.json")).ok()?;
    let commit = text.split_once("\"sha1\": \"")?.1.get(..DIGITS)?;
    Some(if text.contains("\"dirty\": true") { format!("{commit}.modified") } else { commit.to_owned() })
}

/// The commit of a clone, with a digest if the sources are not those of the commit.
fn committed(root: &Path) -> Option<String> {
    // An archive may have been unpacked inside the clone of something else.
    let top = git(root, &["rev-parse", "--show-toplevel"])?;
    if fs::canonicalize(top).ok()? != fs::canonicalize(root).ok()? {
        return None;
    }
    let commit = git(root, &["rev-parse", &format!("--short={DIGITS}"), "HEAD"])?;
    let changes = git(root, &[&["status", "--porcelain", "--"][..], &SOURCES].concat())?;
    Some(if changes.is_empty() { commit } else { format!("{commit}.{}", digest(root)) })
}

fn git(directory: &Path, words: &[&str]) -> Option<String> {
    let mut git = Command::new("git");
    let output = git.arg("--no-optional-locks").args(words).current_dir(directory).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// FNV-1a of the names and contents of all sources.
fn digest(root: &Path) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        for &byte in bytes {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    };
    for path in files(SOURCES.iter().map(|path| root.join(path)).collect()) {
        add(path.strip_prefix(root).unwrap_or(&path).as_os_str().as_encoded_bytes());
        add(&fs::read(&path).unwrap_or_default());
    }
    format!("{hash:016x}")
}

/// All files among these and below them, in the order of their paths.
fn files(mut open: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut files = Vec::new();
    while let Some(path) = open.pop() {
        match fs::read_dir(&path) {
            Ok(entries) => open.extend(entries.flatten().map(|entry| entry.path())),
            Err(_) if path.is_file() => files.push(path),
            Err(_) => {}
        }
    }
    files.sort();
    files
}
