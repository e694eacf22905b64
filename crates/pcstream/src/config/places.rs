//! Where configuration files lie, and which of them are believed.
//!
//! A process of root takes only files that nobody but root can change (`pcstream_system::trusted_file`), the one of
//! `--config` too. The environment names no file where it may be another user's: under sudo, doas or pkexec, and where the
//! kernel says that the program has more rights than its caller (`AT_SECURE`). Then only the machine's file is left.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use pcstream_system::shell;
use pcstream_system::trusted_file::{self, Untrusted};

/// The machine's.
const SYSTEM: &str = "/etc/pcstream.toml";
/// The user's, below `$XDG_CONFIG_HOME` or `~/.config`.
const USER: &str = "pcstream/pcstream.toml";
/// Longest text.
const MAX_BYTES: u64 = 1 << 20;
/// Numbers of the users that sudo, doas and pkexec act for.
const CALLERS: [&str; 3] = ["SUDO_UID", "PKEXEC_UID", "DOAS_USER"];

/// Configuration files, the strongest first.
#[derive(Debug, Default)]
pub struct Found {
    /// What they say.
    pub files: Vec<ConfigFile>,
    /// Those that are there and are not believed.
    pub remarks: Vec<String>,
}

/// A file that was read.
#[derive(Debug)]
pub struct ConfigFile {
    /// Where it lies.
    pub path: PathBuf,
    /// What it says.
    pub text: String,
}

/// The file that was asked for, or those at the usual places. There, a file that is not believed is left out with a remark:
/// whoever can put one there must not be able to keep root from working. So is one that may not be read: HOME is another
/// user's where a program was started with less rights.
pub fn files(asked: Option<&Path>) -> anyhow::Result<Found> {
    let root = rustix::process::geteuid().is_root();
    if let Some(path) = asked {
        let text =
            open(path, root).and_then(|file| Ok(read(file)?)).map_err(|error| not_believed(path, error));
        return Ok(Found {
            files: vec![ConfigFile { path: path.to_owned(), text: text.context("--config")? }],
            remarks: Vec::new(),
        });
    }
    let mut found = Found::default();
    for path in usual_places(|name| std::env::var_os(name), root, has_more_rights()) {
        match open(&path, root) {
            // Of a file that is believed, what cannot be read is a mistake in it.
            Ok(file) => {
                let text = read(file).map_err(|error| not_believed(&path, error.into()))?;
                found.files.push(ConfigFile { path, text });
            }
            Err(error) if error.is_missing() => {}
            // Whether there is one behind a directory that may not be searched, nobody knows.
            Err(error) if !root && error.is_denied() && path.symlink_metadata().is_err() => {}
            Err(error) if root || error.is_denied() => {
                found.remarks.push(not_believed(&path, error).to_string())
            }
            Err(error) => return Err(not_believed(&path, error)),
        }
    }
    Ok(found)
}

/// The user's file and the machine's.
fn usual_places(variable: impl Fn(&str) -> Option<OsString>, root: bool, more_rights: bool) -> Vec<PathBuf> {
    let for_another =
        CALLERS.iter().any(|name| variable(name).is_some_and(|caller| caller != "0" && caller != "root"));
    let environment_is_anothers = more_rights || (root && for_another);
    // As the XDG base directory specification wants it, a path that is not absolute does not count.
    let directory = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let user = directory("XDG_CONFIG_HOME").or_else(|| Some(directory("HOME")?.join(".config")));
    let user = user.filter(|_| !environment_is_anothers).map(|directory| directory.join(USER));
    user.into_iter().chain([PathBuf::from(SYSTEM)]).collect()
}

/// Whether the program runs with rights that its caller does not have.
fn has_more_rights() -> bool {
    // SAFETY: getauxval takes any number and touches no memory of ours.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

fn open(path: &Path, root: bool) -> Result<File, Untrusted> {
    if root { trusted_file::open_trusted(path, 0) } else { trusted_file::open_regular(path) }
}

fn read(file: File) -> io::Result<String> {
    let mut text = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(io::Error::other(format!("is longer than {MAX_BYTES} bytes")));
    }
    String::from_utf8(text).map_err(|_| io::Error::other("is not text in UTF-8"))
}

fn not_believed(path: &Path, error: Untrusted) -> anyhow::Error {
    let remedy = match error {
        Untrusted::Owner { .. } | Untrusted::Writable { .. } => {
            format!(
                "; root takes a configuration only where nobody else can change it: `install -m 644 {} {SYSTEM}`, or \
                 give --no-config",
                shell::word(path)
            )
        }
        _ => String::new(),
    };
    anyhow!("configuration {} is not taken: {error}{remedy}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(variables: &[(&str, &str)], root: bool, more_rights: bool) -> Vec<String> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        };
        let places = usual_places(variable, root, more_rights);
        places.iter().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn the_remedy_can_be_copied() {
        let error = not_believed(Path::new("/my x.toml"), Untrusted::Writable { path: "/my x.toml".into() });
        assert!(error.to_string().contains("`install -m 644 '/my x.toml' /etc/pcstream.toml`"), "{error}");
    }

    #[test]
    fn the_environment_is_believed_only_where_it_is_the_callers_own() {
        let home = ("HOME", "/home/a");
        let user = "/home/a/.config/pcstream/pcstream.toml";
        assert_eq!(places(&[home], false, false), [user, SYSTEM]);
        let xdg = ("XDG_CONFIG_HOME", "/x");
        assert_eq!(places(&[home, xdg], false, false)[0], "/x/pcstream/pcstream.toml");
        assert_eq!(places(&[home, ("XDG_CONFIG_HOME", "relative")], false, false), [user, SYSTEM]);
        assert_eq!(places(&[], false, false), [SYSTEM]);
        assert_eq!(places(&[("HOME", "/root")], true, false).len(), 2);
        assert_eq!(places(&[("HOME", "/root"), ("SUDO_UID", "0")], true, false).len(), 2);
        for caller in [("SUDO_UID", "1000"), ("PKEXEC_UID", "1000"), ("DOAS_USER", "a"), ("SUDO_UID", "x")] {
            assert_eq!(places(&[home, xdg, caller], true, false), [SYSTEM], "{caller:?}");
            assert_eq!(places(&[home, caller], false, false).len(), 2, "a user under sudo -u is no root");
        }
        assert_eq!(places(&[home, xdg], false, true), [SYSTEM]);
    }
}
