//! The file behind a loop device: made or taken, and removed.
//!
//! Invariant: an image that holds anything but an old scratch file system is never written to; block devices are never taken, nor
//! files that other users may have open. A file is removed only if it is the one that was made, holds nothing else by now, and is not in use.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use pcstream_system::trusted_file::check_alone;
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags};

use super::device::loop_over;
use super::error::{Context, ScratchError};
use super::format::{FS_LABEL, Identity};
use super::state::{FileId, ImageState, State};

/// Makes an image in a directory of our own.
pub(super) fn create_image(path: &Path) -> Result<(File, ImageState), ScratchError> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
        .doing(|| format!("make {}", path.display()))?;
    let metadata = file.metadata().doing(|| format!("inspect {}", path.display()))?;
    Ok((file, ImageState { path: path.into(), id: FileId::of(&metadata), created: true }))
}

/// Opens the image a user named, or makes it if there is none, and locks it. Contents are checked, not
/// changed. `needed` is how much the image may come to occupy.
pub(super) fn open_image(path: &Path, needed: u64) -> Result<(File, ImageState), ScratchError> {
    let name = path.file_name().ok_or(ScratchError::ImageKind { path: path.into(), what: "a directory" })?;
    let parent = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let parent = fs::canonicalize(parent).doing(|| format!("open {}", parent.display()))?;
    let path = parent.join(name);
    let (file, image) = match fs::symlink_metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            check_space(&parent, &path, needed)?;
            create_image(&path)?
        }
        Err(error) => return Err(error).doing(|| format!("inspect {}", path.display())),
        Ok(metadata) => {
            check_kind(&path, &metadata)?;
            let (file, image) = open_existing(&path)?;
            let user = rustix::process::geteuid().as_raw();
            check_alone(&file, &path, user).map_err(|why| ScratchError::ImageOfOthers { why })?;
            (file, image)
        }
    };
    if let Some(by) = lock_unused(&file, &image)? {
        return Err(ScratchError::ImageInUse { path, by });
    }
    if !image.created {
        check_ours(&file, &path)?;
        check_space(&parent, &path, needed.saturating_sub(occupied(&file)))?;
    }
    Ok((file, image))
}

fn check_kind(path: &Path, metadata: &fs::Metadata) -> Result<(), ScratchError> {
    let kind = metadata.file_type();
    let what = match () {
        _ if kind.is_file() => return Ok(()),
        _ if kind.is_block_device() => "a block device",
        _ if kind.is_char_device() => "a character device",
        _ if kind.is_dir() => "a directory",
        _ if kind.is_symlink() => "a symbolic link",
        _ => "not a regular file",
    };
    Err(ScratchError::ImageKind { path: path.into(), what })
}

fn open_existing(path: &Path) -> Result<(File, ImageState), ScratchError> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
        .doing(|| format!("open {}", path.display()))?;
    let metadata = file.metadata().doing(|| format!("inspect {}", path.display()))?;
    check_kind(path, &metadata)?;
    Ok((file, ImageState { path: path.into(), id: FileId::of(&metadata), created: false }))
}

/// Locks the image against other runs, and looks for loop devices over it. Returns who uses it, if anybody does.
fn lock_unused(file: &File, image: &ImageState) -> Result<Option<String>, ScratchError> {
    let over = loop_over(image.id);
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(over.map(|number| format!("/dev/loop{number} (see `losetup -l`)"))),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(Some(match over {
            Some(number) => format!("another pcstream run (/dev/loop{number})"),
            None => "a process that has locked it, probably another pcstream run".into(),
        })),
        Err(error) => Err(error).doing(|| format!("lock {}", image.path.display())),
    }
}

/// An image may be used again if it is a scratch file system, by its label, or holds no data at all.
fn check_ours(file: &File, path: &Path) -> Result<(), ScratchError> {
    let doing = || format!("read {}", path.display());
    let foreign = Err(ScratchError::ImageForeign { path: path.into() });
    // lseek(SEEK_DATA) fails with ENXIO in a file that is one hole.
    // SAFETY: plain call with integers.
    let first_data = unsafe { libc::lseek(file.as_raw_fd(), 0, libc::SEEK_DATA) };
    if first_data < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ENXIO) {
        return Ok(());
    }
    match identity(file).doing(doing)? {
        Identity::FileSystem { label, .. } if label == FS_LABEL => Ok(()),
        _ => foreign,
    }
}

fn identity(mut file: &File) -> io::Result<Identity> {
    let mut head = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(Identity::HEAD_BYTES as u64).read_to_end(&mut head)?;
    Ok(Identity::of_head(&head))
}

/// Removes the image of a state that made one. `held`: its file, if the caller has it open and locked. `Ok(false)`: the name belongs
/// to another file by now, or the file holds what somebody else put into it.
pub(super) fn remove_image(
    image: &ImageState,
    state: &State,
    held: Option<&File>,
) -> Result<bool, ScratchError> {
    let doing = || format!("look at {}", image.path.display());
    let (Some(parent), Some(name)) = (image.path.parent(), image.path.file_name()) else { return Ok(false) };
    // What is removed lies in this directory, wherever its path leads meanwhile.
    let directory = match handle(CWD, parent.as_os_str(), OFlags::DIRECTORY) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        other => other.doing(doing)?,
    };
    let found = handle(&directory, name, OFlags::NOFOLLOW).and_then(|file| file.metadata());
    match found {
        Ok(metadata) if FileId::of(&metadata) == image.id => {}
        Ok(_) => return Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error).doing(doing),
    }
    let opened;
    let file = match held {
        Some(file) => file,
        None => {
            let (file, found) = open_existing(&image.path)?;
            if found.id != image.id {
                return Ok(false);
            }
            opened = file;
            &opened
        }
    };
    if let Some(by) = lock_unused(file, image)? {
        return Err(ScratchError::ImageInUse { path: image.path.clone(), by });
    }
    if !identity(file).doing(doing)?.may_be_of(state) {
        return Ok(false);
    }
    let removed = rustix::fs::unlinkat(&directory, name, AtFlags::empty()).map_err(io::Error::from);
    removed.map(|()| true).doing(|| format!("remove {}", image.path.display()))
}

/// A file or directory, without a right to read it.
fn handle(at: impl AsFd, name: &OsStr, more: OFlags) -> io::Result<File> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | more;
    Ok(rustix::fs::openat(at, name, flags, Mode::empty())?.into())
}

/// Empties the image and gives it its size, without occupying space.
pub(super) fn size_image(file: &File, path: &Path, bytes: u64) -> Result<(), ScratchError> {
    file.set_len(0)
        .and_then(|()| file.set_len(bytes))
        .doing(|| format!("give {} a size of {bytes} bytes", path.display()))
}

fn occupied(file: &File) -> u64 {
    file.metadata().map_or(0, |m| m.blocks() * 512)
}

fn check_space(parent: &Path, path: &Path, needed: u64) -> Result<(), ScratchError> {
    let stat = rustix::fs::statvfs(parent).doing(|| format!("inspect {}", parent.display()))?;
    let available = stat.f_bavail.saturating_mul(stat.f_frsize);
    if needed > available {
        return Err(ScratchError::Space { path: path.into(), needed, available });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn refused(path: &Path) -> ScratchError {
        open_image(path, 0).unwrap_err()
    }

    #[test]
    fn a_missing_image_is_made_and_an_empty_one_taken() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        let (file, image) = open_image(&path, 1).unwrap();
        assert!(image.created);
        size_image(&file, &path, 1 << 20).unwrap();
        drop(file);
        let (_file, image) = open_image(&path, 1).unwrap();
        assert!(!image.created, "one hole, nothing to lose");
    }

    #[test]
    fn a_scratch_image_is_taken_again_and_foreign_data_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        drop(create_image(&path).unwrap());
        fs::write(&path, b"precious").unwrap();
        assert!(matches!(refused(&path), ScratchError::ImageForeign { .. }));
        let mut head = vec![0; 8192];
        head[1024 + 0x38..1024 + 0x3A].copy_from_slice(&[0x53, 0xEF]);
        head[1024 + 0x78..1024 + 0x80].copy_from_slice(b"precious");
        fs::write(&path, &head).unwrap();
        assert!(matches!(refused(&path), ScratchError::ImageForeign { .. }));
        head[1024 + 0x78..1024 + 0x80].copy_from_slice(FS_LABEL.as_bytes());
        fs::write(&path, &head).unwrap();
        assert!(!open_image(&path, 0).unwrap().1.created);
        assert_eq!(fs::read(&path).unwrap(), head, "opening changes nothing");
    }

    #[test]
    fn an_image_that_others_may_have_open_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        let (file, _) = open_image(&path, 0).unwrap();
        assert_eq!(file.metadata().unwrap().mode() & 0o7777, 0o600, "made for its owner alone");
        drop(file);
        let other = dir.path().join("other");
        fs::hard_link(&path, &other).unwrap();
        let error = refused(&path).to_string();
        assert!(error.contains("2 hard links") && error.contains("name another file"), "{error}");
        fs::remove_file(&other).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(matches!(refused(&path), ScratchError::ImageOfOthers { .. }));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        open_image(&path, 0).unwrap();
    }

    #[test]
    fn a_locked_image_is_in_use() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        let (_held, _image) = open_image(&path, 0).unwrap();
        let error = refused(&path);
        assert!(matches!(error, ScratchError::ImageInUse { .. }), "{error}");
    }

    #[test]
    fn only_regular_files_are_images() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/etc/hostname", &link).unwrap();
        for (path, what) in [
            (dir.path(), "a directory"),
            (&link, "a symbolic link"),
            (Path::new("/dev/null"), "a character device"),
        ] {
            let error = refused(path).to_string();
            assert!(error.contains(what) && error.contains("devices are never used"), "{error}");
        }
    }

    #[test]
    fn an_image_that_cannot_fit_is_refused_before_it_is_made() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        assert!(matches!(open_image(&path, u64::MAX), Err(ScratchError::Space { .. })));
        assert!(!path.exists());
    }
}
