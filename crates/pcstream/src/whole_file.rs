//! Files that are replaced only by whole new ones: written beside their place, and renamed when they are complete.
//!
//! A place that cannot be written is known before the work begins. Nothing is left there if the work is ended.
//!
//! Devices and pipes (`/dev/null`, `/dev/stdout`) are written, never replaced. A symbolic link stays; what it names is
//! replaced. Root follows no link of another user, but for who called it by `sudo`: it could lead to any file of root's. Others follow
//! none that another user put into a shared directory such as `/tmp`, as with `fs.protected_symlinks`. A pipe or socket of another user
//! there is refused, as with `fs.protected_fifos`: whoever made it would read the results, or keep the command waiting.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use pcstream_trace::is_in_trace;
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use tempfile::NamedTempFile;

use crate::failure::Failure;

/// As many symbolic links as the kernel follows.
const MAX_LINKS: usize = 40;
/// The file system `/proc`.
const PROC: i64 = 0x9fa0;

/// A file on its way.
pub struct WholeFile {
    output: Output,
    path: PathBuf,
    flag: &'static str,
}

enum Output {
    /// A file, or what will be one.
    File(Entry),
    /// A pipe or device.
    Special(File),
}

impl WholeFile {
    /// Prepares to write to `path`, which `flag` named.
    pub fn create(flag: &'static str, path: &Path) -> anyhow::Result<WholeFile> {
        let problem = || cannot_write(flag, path);
        let real = place(flag, path)?;
        let output = match fs::metadata(&real) {
            Ok(there) if there.is_dir() => {
                bail!("{flag} {}: is a directory, expected a file", path.display())
            }
            Ok(there) if there.is_file() => file(fs::canonicalize(&real).with_context(problem)?),
            Ok(_) => open_there(&real).map(Output::Special),
            Err(error) if error.kind() == io::ErrorKind::NotFound => file(real),
            Err(error) => Err(error),
        };
        let output = output.map_err(|error| anyhow!("{}: {}", problem(), reason(&error)))?;
        Ok(WholeFile { output, path: path.to_owned(), flag })
    }

    /// Whether it is, or will be, a regular file.
    #[cfg(feature = "capture")]
    pub fn is_regular(&self) -> bool {
        matches!(self.output, Output::File(_))
    }

    /// Writes all of it, and puts it in its place.
    pub fn write(self, bytes: &[u8]) -> anyhow::Result<()> {
        let written = match self.output {
            Output::File(entry) => entry.temporary().and_then(|mut file| {
                file.write_all(bytes)?;
                file.persist(entry.path()).map(drop).map_err(|error| error.error)
            }),
            Output::Special(mut file) => file.write_all(bytes),
        };
        written.map_err(|error| anyhow!("{} {}: {}", self.flag, self.path.display(), reason(&error)))
    }
}

/// The path without its symbolic links of a file that is to be written, and that `flag` named. Errors: a link is not to be
/// followed; the file is part of a trace.
pub fn place(flag: &str, path: &Path) -> anyhow::Result<PathBuf> {
    let real = resolve(path).with_context(|| cannot_write(flag, path))?;
    anyhow::ensure!(
        !is_in_trace(&real),
        "{flag} {}: is part of a trace, expected another file",
        path.display()
    );
    Ok(real)
}

/// What is said in front of the reason.
pub fn cannot_write(flag: &str, path: &Path) -> String {
    format!("{flag} {}: cannot write there", path.display())
}

/// Whether a flag that names a file asks for stdout.
pub fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Refuses two results in one file, of these flags and what they name. Pipes and devices take several.
pub fn all_different(outputs: &[(&str, Option<&Path>)]) -> Result<(), Failure> {
    let mut taken: Vec<(&str, PathBuf)> = Vec::new();
    for &(flag, path) in outputs {
        let Some(path) = path.filter(|path| !is_stdout(path)) else { continue };
        // Whoever makes the file says what is wrong with its place.
        let Ok(real) = resolve(path) else { continue };
        let Ok(directory) = fs::canonicalize(parent(&real)) else { continue };
        let real = directory.join(real.file_name().unwrap_or_default());
        let is_special = fs::metadata(&real).is_ok_and(|there| !there.is_file() && !there.is_dir());
        match taken.iter().find(|(_, place)| *place == real) {
            Some((other, _)) if !is_special => {
                return Err(Failure::wrong_arguments(anyhow!(
                    "{other} and {flag} name the same file, {}: expected different ones",
                    path.display()
                )));
            }
            _ => taken.push((flag, real)),
        }
    }
    Ok(())
}

/// Without the path of the temporary file, which nobody gave.
fn reason(error: &io::Error) -> String {
    let error = error.to_string();
    error.split(" at path ").next().unwrap_or(&error).to_owned()
}

/// A path whose directory is without symbolic links. For what is made there and never followed: the path itself may be one.
/// Errors: a link is not to be followed.
pub fn resolve_directory(path: &Path) -> io::Result<PathBuf> {
    let directory = parent(path);
    let real = resolve(directory)?;
    // As it was given, for messages.
    let is_real = real == std::path::absolute(directory)?;
    Ok(if is_real { path.to_owned() } else { real.join(path.file_name().unwrap_or_default()) })
}

/// A path without its symbolic links, except for those of `/proc`, which lead to what has no path. Errors: a link is not to
/// be followed.
pub fn resolve(path: &Path) -> io::Result<PathBuf> {
    let mut waiting: VecDeque<OsString> = std::path::absolute(path)?.iter().map(OsString::from).collect();
    let (mut at, mut links) = (PathBuf::new(), 0);
    while let Some(name) = waiting.pop_front() {
        let here = at.join(&name);
        // Its own handle, so that owner and target are those of one link.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(found) = rustix::fs::open(&here, flags, Mode::empty()) else {
            // To join nothing would add a slash, and make a directory of it.
            return Ok(waiting.iter().fold(here, |path, name| path.join(name)));
        };
        let stat = rustix::fs::fstat(&found)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink || is_of_proc(&found) {
            at = here;
            continue;
        }
        if !is_followed(stat.st_uid, &rustix::fs::stat(&at)?) {
            return Err(io::Error::other(format!(
                "{} is a symbolic link of user {}, who could let it lead anywhere; expected another place",
                here.display(),
                stat.st_uid
            )));
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(Errno::LOOP.into());
        }
        let target = rustix::fs::readlinkat(&found, "", Vec::new())?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        let rest = std::mem::take(&mut waiting);
        waiting = target.iter().map(OsString::from).chain(rest).collect();
    }
    Ok(at)
}

/// The directory that a file is in.
pub fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."))
}

fn is_of_proc(held: &OwnedFd) -> bool {
    rustix::fs::fstatfs(held).is_ok_and(|system| system.f_type == PROC)
}

/// Whether a link of this user in this directory is followed. Root follows its own alone, and those of the user that it acts for:
/// to root another's link could lead to any file. Others are asked no more than `fs.protected_symlinks` does.
fn is_followed(owner: u32, directory: &Stat) -> bool {
    let caller = ["SUDO_UID", "PKEXEC_UID"].iter().find_map(|name| std::env::var(name).ok()?.parse().ok());
    match rustix::process::geteuid().is_root() {
        true => owner == 0 || caller == Some(owner),
        false => is_believed(owner, directory),
    }
}

/// Whether a link or file of this user in this directory may be used.
fn is_believed(owner: u32, directory: &Stat) -> bool {
    const SHARED: u32 = 0o1002;
    let own = rustix::process::geteuid().as_raw();
    directory.st_mode & SHARED != SHARED || owner == 0 || owner == own
}

/// Opens what is at a resolved path for writing, such as a pipe or device. Errors: there is nothing; a link was put there
/// meanwhile; another user put it into a directory that all may write to.
pub fn open_there(path: &Path) -> io::Result<File> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut held = rustix::fs::open(path, flags, Mode::empty())?;
    if is_of_proc(&held) {
        held = rustix::fs::open(path, flags - OFlags::NOFOLLOW, Mode::empty())?;
    }
    let stat = rustix::fs::fstat(&held)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
        return Err(io::Error::other("it changed meanwhile; try again"));
    }
    believe(&held, path)?;
    // What was looked at, whatever is at its path by now.
    OpenOptions::new().write(true).open(path_of(&held).unwrap_or_else(|| path.to_owned()))
}

/// Errors: another user put what is open into its directory, which all may write to.
pub fn believe(open: impl AsFd, path: &Path) -> io::Result<()> {
    let owner = rustix::fs::fstat(open)?.st_uid;
    if is_believed(owner, &rustix::fs::stat(parent(path))?) {
        return Ok(());
    }
    let why = format!("it is of user {owner} in a directory that all may write to; expected another place");
    Err(io::Error::other(why))
}

/// A path to what is held open, if there is `/proc`.
fn path_of(held: &OwnedFd) -> Option<PathBuf> {
    let path = Path::new("/proc/self/fd").join(held.as_raw_fd().to_string());
    path.exists().then_some(path)
}

/// A place that can be written: it is tried.
fn file(path: PathBuf) -> io::Result<Output> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(parent(&path), flags, Mode::empty())?;
    let entry = Entry { directory, path };
    entry.temporary()?;
    Ok(Output::File(entry))
}

/// A name in a directory that is held open: while a command runs, nobody can put another directory in its place.
struct Entry {
    directory: OwnedFd,
    path: PathBuf,
}

impl Entry {
    /// A path that leads there. Without `/proc`, it is the one that was given.
    fn path(&self) -> PathBuf {
        let held = path_of(&self.directory).zip(self.path.file_name());
        held.map_or_else(|| self.path.clone(), |(held, name)| held.join(name))
    }

    fn temporary(&self) -> io::Result<NamedTempFile> {
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        tempfile::Builder::new()
            .prefix(".pcstream-")
            .permissions(permissions)
            .tempfile_in(parent(&self.path()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn links_are_followed_as_far_as_they_lead() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        fs::create_dir(real.join("below")).unwrap();
        fs::write(real.join("file"), "").unwrap();
        symlink("../file", real.join("below/link")).unwrap();
        symlink("none/further", real.join("dangling")).unwrap();
        symlink("loop", real.join("loop")).unwrap();
        assert_eq!(resolve(&real.join("below/link")).unwrap(), real.join("below/../file"));
        assert_eq!(resolve(&real.join("dangling")).unwrap(), real.join("none/further"));
        assert_eq!(resolve(Path::new("/proc/self/fd/0")).unwrap(), Path::new("/proc/self/fd/0"));
        assert!(resolve(&real.join("loop")).is_err());
        symlink("below", real.join("to_below")).unwrap();
        let place = |path: &str| resolve_directory(&real.join(path)).unwrap();
        assert_eq!(place("to_below/link"), real.join("below/link"), "the path itself is not followed");
        assert_eq!(place("below/../link"), real.join("below/../link"));
        assert_eq!(resolve_directory(Path::new("t.pctrace")).unwrap(), Path::new("t.pctrace"));
        let new = real.join("new");
        assert_eq!(resolve(&new).unwrap().as_os_str(), new.as_os_str(), "without a slash at its end");
    }

    #[test]
    fn a_directory_that_is_moved_remains_the_place() {
        let dir = tempfile::tempdir().unwrap();
        let (place, moved, other) = (dir.path().join("a"), dir.path().join("b"), dir.path().join("c"));
        fs::create_dir(&place).unwrap();
        fs::create_dir(&other).unwrap();
        let file = WholeFile::create("--json", &place.join("out")).unwrap();
        fs::rename(&place, &moved).unwrap();
        symlink(&other, &place).unwrap();
        file.write(b"result").unwrap();
        assert_eq!(fs::read(moved.join("out")).unwrap(), b"result");
        assert_eq!(fs::read_dir(&moved).unwrap().count(), 1);
        assert_eq!(fs::read_dir(&other).unwrap().count(), 0, "the link is not followed");
    }

    #[test]
    fn what_a_link_names_is_made() {
        let dir = tempfile::tempdir().unwrap();
        symlink("target", dir.path().join("link")).unwrap();
        WholeFile::create("--json", &dir.path().join("link")).unwrap().write(b"result").unwrap();
        assert!(dir.path().join("link").is_symlink());
        assert_eq!(fs::read(dir.path().join("target")).unwrap(), b"result");
    }

    #[test]
    fn links_of_others_in_shared_directories_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let own = rustix::process::geteuid().as_raw();
        let follows = |mode: u32, owner: u32| {
            fs::set_permissions(dir.path(), Permissions::from_mode(mode)).unwrap();
            is_believed(owner, &rustix::fs::stat(dir.path()).unwrap())
        };
        assert!(follows(0o1777, own) && follows(0o1777, 0));
        assert!(!follows(0o1777, own + 1));
        assert!(follows(0o755, own + 1), "nobody else can put one there");
    }
}
