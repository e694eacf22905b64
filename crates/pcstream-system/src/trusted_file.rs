//! Files that a process of root may believe: nobody but root could have put them there.
//!
//! Idea: the path is walked directory by directory with open handles, so that nothing can be exchanged between the check
//! and its use. Every directory and symbolic link on the way, and the file itself, must belong to the user that the process
//! runs as or to root. Nobody else may write to them; directories with the sticky bit (`/tmp`) are the exception, for
//! others cannot replace there what is not theirs.
//!
//! Known weakness: access control lists are not looked at beyond what they show in the mode's bits for the group, which
//! are their upper limit.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, Stat};

/// As many symbolic links as the kernel follows.
const MAX_LINKS: usize = 40;
/// Permissions to write, of the group and of others.
const WRITE_GROUP: u32 = 0o020;
const WRITE_OTHERS: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// Why a file is not believed.
#[derive(Debug, thiserror::Error)]
pub enum Untrusted {
    /// It cannot be opened.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Another user owns it, or something on the way to it.
    #[error("{} belongs to user {owner}, not to root", path.display())]
    Owner {
        /// What is another user's.
        path: PathBuf,
        /// The user's number.
        owner: u32,
    },
    /// Others may write to it, or to a directory on the way to it.
    #[error("others may write to {}", path.display())]
    Writable {
        /// What others may write to.
        path: PathBuf,
    },
    /// It has other names, which may lie in other users' directories.
    #[error("{} has {links} hard links", path.display())]
    Linked {
        /// The file.
        path: PathBuf,
        /// How many names it has.
        links: u64,
    },
    /// A directory, pipe, socket or device.
    #[error("is not a regular file")]
    NotAFile,
}

impl Untrusted {
    /// Whether there is no such file.
    pub fn is_missing(&self) -> bool {
        matches!(self, Untrusted::Io(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory))
    }

    /// Whether this process may not read it, or not even look for it.
    pub fn is_denied(&self) -> bool {
        matches!(self, Untrusted::Io(error) if error.kind() == io::ErrorKind::PermissionDenied)
    }
}

/// Opens a regular file, whoever owns it. Never waits for a writer of a pipe.
pub fn open_regular(path: &Path) -> Result<File, Untrusted> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(io::Error::from)?;
    let stat = rustix::fs::fstat(&file).map_err(io::Error::from)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Untrusted::NotAFile);
    }
    Ok(file.into())
}

/// Checks an open file that is going to hold data of `user`: it belongs to `user` or root, nobody else may change it, and
/// it has no other name. `path` is for the message.
pub fn check_alone(file: &File, path: &Path, user: u32) -> Result<(), Untrusted> {
    let stat = rustix::fs::fstat(file).map_err(io::Error::from)?;
    check(&stat, path, user)?;
    match stat.st_nlink {
        links @ 2.. => Err(Untrusted::Linked { path: path.to_owned(), links }),
        _ => Ok(()),
    }
}

/// Opens a regular file for data of `user`, which is there already. What another user may have put in its place is refused: a link, or
/// what does not pass [`check_alone`]. Never waits for a reader of a pipe.
pub fn open_alone(path: &Path, user: u32) -> Result<File, Untrusted> {
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Err(rustix::io::Errno::LOOP) => return Err(Untrusted::NotAFile),
        opened => File::from(opened.map_err(io::Error::from)?),
    };
    if !file.metadata()?.is_file() {
        return Err(Untrusted::NotAFile);
    }
    check_alone(&file, path, user).map(|()| file)
}

/// Opens a regular file that, with all directories above it, belongs to `user` or root, and that nobody else may change.
pub fn open_trusted(path: &Path, user: u32) -> Result<File, Untrusted> {
    let absolute = std::path::absolute(path)?;
    let mut waiting = components(&absolute);
    let mut at = PathBuf::from("/");
    let mut directory = open_root()?;
    check(&rustix::fs::fstat(&directory).map_err(io::Error::from)?, &at, user)?;
    let mut links = 0;
    while let Some(name) = waiting.pop_front() {
        let here = at.join(&name);
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let next = rustix::fs::openat(&directory, &name, flags, Mode::empty()).map_err(io::Error::from)?;
        let stat = rustix::fs::fstat(&next).map_err(io::Error::from)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => {
                check(&stat, &here, user)?;
                links += 1;
                if links > MAX_LINKS {
                    return Err(io::Error::from(rustix::io::Errno::LOOP).into());
                }
                let target = rustix::fs::readlinkat(&next, "", Vec::new()).map_err(io::Error::from)?;
                let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                if target.is_absolute() {
                    (at, directory) = (PathBuf::from("/"), open_root()?);
                }
                let rest = std::mem::take(&mut waiting);
                waiting = components(&target);
                waiting.extend(rest);
            }
            FileType::Directory => {
                check(&stat, &here, user)?;
                (at, directory) = (here, next);
            }
            _ if !waiting.is_empty() => return Err(io::Error::from(rustix::io::Errno::NOTDIR).into()),
            FileType::RegularFile => return open_last(&directory, &name, &here, user),
            _ => return Err(Untrusted::NotAFile),
        }
    }
    Err(Untrusted::NotAFile)
}

fn open_root() -> io::Result<rustix::fd::OwnedFd> {
    Ok(rustix::fs::openat(CWD, "/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

fn open_last(
    directory: &rustix::fd::OwnedFd,
    name: &OsStr,
    path: &Path,
    user: u32,
) -> Result<File, Untrusted> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = rustix::fs::openat(directory, name, flags, Mode::empty()).map_err(io::Error::from)?;
    // Of what was opened, which may be something else by now.
    let stat = rustix::fs::fstat(&file).map_err(io::Error::from)?;
    check(&stat, path, user)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Untrusted::NotAFile);
    }
    Ok(file.into())
}

/// Names below the root, `..` included.
fn components(path: &Path) -> VecDeque<OsString> {
    let names = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    });
    names.collect()
}

fn check(stat: &Stat, path: &Path, user: u32) -> Result<(), Untrusted> {
    if stat.st_uid != user && stat.st_uid != 0 {
        return Err(Untrusted::Owner { path: path.to_owned(), owner: stat.st_uid });
    }
    let kind = FileType::from_raw_mode(stat.st_mode);
    let shared = kind == FileType::Directory && stat.st_mode & STICKY != 0;
    // The mode of a symbolic link says nothing. The group of root is root's.
    let by_others = stat.st_mode & WRITE_OTHERS != 0 || stat.st_mode & WRITE_GROUP != 0 && stat.st_gid != 0;
    if by_others && !shared && kind != FileType::Symlink {
        return Err(Untrusted::Writable { path: path.to_owned() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::io::Read as _;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn own() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    /// A directory of this user's own, and a file in it.
    fn place() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "text").unwrap();
        mode(&file, 0o644);
        (dir, file)
    }

    #[test]
    fn own_files_are_believed() {
        let (dir, file) = place();
        fs::create_dir(dir.path().join("below")).unwrap();
        symlink("../file", dir.path().join("below/link")).unwrap();
        symlink(dir.path().join("below"), dir.path().join("absolute")).unwrap();
        for path in [file, dir.path().join("below/../file"), dir.path().join("absolute/link")] {
            let mut text = String::new();
            open_trusted(&path, own()).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "text", "{}", path.display());
        }
    }

    #[test]
    fn what_others_may_change_is_not() {
        let (dir, file) = place();
        let refused = |why: &str| {
            let error = open_trusted(&file, own()).unwrap_err();
            assert!(error.to_string().contains(why) && !error.is_missing(), "{error}");
        };
        mode(&file, 0o646);
        refused("others may write to");
        mode(&file, 0o644);
        mode(dir.path(), 0o777);
        refused("others may write to");
        mode(dir.path(), 0o1777);
        assert!(open_trusted(&file, own()).is_ok(), "nobody else can replace it there");
        // Only root and the user that is asked for are believed.
        if own() != 0 {
            assert!(matches!(open_trusted(&file, own() + 1), Err(Untrusted::Owner { .. })));
        }
    }

    #[test]
    fn a_file_for_data_is_nobody_elses_and_has_one_name() {
        let (dir, path) = place();
        let file = File::open(&path).unwrap();
        check_alone(&file, &path, own()).unwrap();
        mode(&path, 0o666);
        assert!(matches!(check_alone(&file, &path, own()), Err(Untrusted::Writable { .. })));
        mode(&path, 0o600);
        fs::hard_link(&path, dir.path().join("other")).unwrap();
        let error = check_alone(&file, &path, own()).unwrap_err();
        assert!(error.to_string().contains("2 hard links"), "{error}");
    }

    #[test]
    fn a_file_for_data_is_opened_itself_and_nothing_in_its_place() {
        let (dir, path) = place();
        let mut file = open_alone(&path, own()).unwrap();
        std::io::Write::write_all(&mut file, b"TE").unwrap();
        let link = dir.path().join("link");
        symlink(&path, &link).unwrap();
        assert!(matches!(open_alone(&link, own()), Err(Untrusted::NotAFile)));
        assert!(matches!(open_alone(Path::new("/dev/null"), own()), Err(Untrusted::NotAFile)));
        mode(&path, 0o666);
        assert!(matches!(open_alone(&path, own()), Err(Untrusted::Writable { .. })));
        mode(&path, 0o600);
        fs::hard_link(&path, dir.path().join("other")).unwrap();
        assert!(matches!(open_alone(&path, own()), Err(Untrusted::Linked { .. })));
        assert_eq!(fs::read(&path).unwrap(), b"TExt");
    }

    #[test]
    fn what_is_no_file() {
        let (dir, file) = place();
        let refused = |path: &Path| open_trusted(path, own()).unwrap_err();
        assert!(refused(&dir.path().join("none")).is_missing());
        assert!(refused(&file.join("below")).is_missing());
        assert!(matches!(refused(dir.path()), Untrusted::NotAFile));
        symlink("loop", dir.path().join("loop")).unwrap();
        assert!(matches!(refused(&dir.path().join("loop")), Untrusted::Io(_)));
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        // Neither waits for a writer.
        assert!(matches!(refused(&pipe), Untrusted::NotAFile));
        assert!(matches!(open_regular(&pipe), Err(Untrusted::NotAFile)));
        assert!(open_regular(&file).is_ok());
    }
}
