//! Opens the file of a module as the process that mapped it sees it: a container's paths mean nothing elsewhere.
//!
//! Idea: the kernel side names a mapped file by path, device, inode and generation. The path is tried here first. If
//! it does not lead to that file, the file is asked for by its inode (which also works after the process has ended),
//! then by the process's own root, and at last by the process's mappings.
//!
//! Invariants: what is opened is a regular file, never a device or a pipe to hang on; and it is the file
//! that the kernel named. Its device and inode must agree. Overlay file systems, btrfs and bcachefs show other device
//! numbers than the kernel uses inside: there the inode decides, or the process's own mapping of that name.
//!
//! Known weaknesses: a file that was removed, or lies on a file system that is mounted nowhere here, cannot be opened
//! once its process has ended. Files on FUSE mounts of other users than root are refused: their owner decides
//! whether reading ever returns.

use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use pcstream_fs::extents::DeviceNumber;
use pcstream_fs::mounts::{self, Mount};

use crate::wire::{self, PathRecord};

const OVERLAYFS: i64 = 0x794c_7630;
const BTRFS: i64 = 0x9123_683e;
const BCACHEFS: i64 = 0xca45_1a4e;
const FUSE: i64 = 0x6573_5546;

/// Mappings of a process that are looked at.
const MAX_MAPPINGS: usize = 65536;

/// Opens a module's file.
pub fn open(record: &PathRecord) -> Option<File> {
    let path = wire::path(record);
    let path = Path::new(OsStr::from_bytes(&path));
    let wanted = Wanted { record, path };
    let of_process = format!("/proc/{}", record.pid);
    let in_root = [of_process.as_bytes(), b"/root", path.as_os_str().as_bytes()].concat();
    wanted
        .at(path)
        .or_else(|| wanted.by_inode())
        .or_else(|| wanted.at(Path::new(OsStr::from_bytes(&in_root))))
        .or_else(|| wanted.mapped(&Path::new(&of_process).join("exe")))
        .or_else(|| wanted.among_mappings(Path::new(&of_process)))
}

/// Whether the module never had a file with a name: memory that a program wrote its code to.
pub fn is_memory(path: &str) -> bool {
    path.starts_with("/memfd:") || path == "/dev/zero" || path.starts_with("/SYSV")
}

/// Opens a regular file. What is found is looked at before it is opened: opening a device may do something, opening a
/// pipe may wait for ever. `more_flags`: of the look at the path, such as `O_NOFOLLOW`.
pub fn open_regular(path: &Path, more_flags: i32) -> Option<File> {
    let flags = libc::O_PATH | libc::O_CLOEXEC | more_flags;
    let found = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let metadata = found.metadata().ok()?;
    if !metadata.is_file() || is_on_foreign_fuse(&found, &metadata) {
        return None;
    }
    let flags = libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY;
    let same = format!("/proc/self/fd/{}", found.as_raw_fd());
    OpenOptions::new().read(true).custom_flags(flags).open(same).ok()
}

fn magic(file: &File) -> Option<i64> {
    rustix::fs::fstatfs(file).ok().map(|found| found.f_type)
}

/// Whether a user's process serves this file. Mounts that cannot be looked up are taken for such.
fn is_on_foreign_fuse(file: &File, metadata: &Metadata) -> bool {
    if magic(file) != Some(FUSE) {
        return false;
    }
    let device = DeviceNumber::from_stat(metadata.dev());
    let of_root = |mount: &Mount| mount.device == device && mount.has_option("user_id=0");
    !mounts::own().unwrap_or_default().iter().any(of_root)
}

struct Wanted<'a> {
    record: &'a PathRecord,
    path: &'a Path,
}

impl Wanted<'_> {
    fn at(&self, path: &Path) -> Option<File> {
        open_regular(path, 0).filter(|file| self.is(file))
    }

    fn is(&self, file: &File) -> bool {
        let Ok(metadata) = file.metadata() else { return false };
        let device = DeviceNumber::from_stat(metadata.dev()).kernel_dev_t();
        let own_numbers = || matches!(magic(file), Some(OVERLAYFS | BTRFS | BCACHEFS));
        metadata.ino() == self.record.inode && (device == self.record.dev || own_numbers())
    }

    /// A file that the kernel says the process has mapped. On an overlay its numbers may be others than those of the
    /// file beneath, so there its name decides.
    fn mapped(&self, link: &Path) -> Option<File> {
        let file = open_regular(link, 0)?;
        let same_name = || {
            let target = std::fs::read_link(link).unwrap_or_default();
            target.file_name() == self.path.file_name() && magic(&file) == Some(OVERLAYFS)
        };
        (self.is(&file) || same_name()).then_some(file)
    }

    fn among_mappings(&self, process: &Path) -> Option<File> {
        let name = self.path.file_name()?;
        let entries = std::fs::read_dir(process.join("map_files")).ok()?.take(MAX_MAPPINGS);
        let named = |entry: &PathBuf| {
            let target = std::fs::read_link(entry).unwrap_or_default();
            // A file that was removed is marked behind its name.
            target.file_name().is_some_and(|found| found.as_bytes().starts_with(name.as_bytes()))
        };
        entries.flatten().map(|entry| entry.path()).filter(named).find_map(|entry| self.mapped(&entry))
    }

    /// By its inode and generation on a mount of its file system.
    fn by_inode(&self) -> Option<File> {
        let mount = self.mount()?;
        let handle = Handle::new(self.record.inode, self.record.generation);
        let flags = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY;
        // SAFETY: the handle is laid out as `struct file_handle`, says its size, and outlives the call.
        let fd = unsafe { open_by_handle_at(mount.as_raw_fd(), &raw const handle, flags) };
        // SAFETY: it is open and nobody else's.
        let file = (fd >= 0).then(|| unsafe { File::from_raw_fd(fd) })?;
        (file.metadata().ok()?.is_file() && self.is(&file)).then_some(file)
    }

    /// A mount of its file system.
    fn mount(&self) -> Option<File> {
        let flags = libc::O_DIRECTORY | libc::O_NONBLOCK | libc::O_CLOEXEC;
        let open =
            |mount: Mount| OpenOptions::new().read(true).custom_flags(flags).open(mount.mount_point).ok();
        let mounts = mounts::own().ok()?.into_iter();
        mounts.filter(|mount| mount.device.kernel_dev_t() == self.record.dev).find_map(open)
    }
}

/// `struct file_handle` with the handle that ext4, XFS and others give a file: its inode and generation.
#[repr(C)]
struct Handle {
    bytes: u32,
    kind: i32,
    words: [u32; 3],
}

/// Inode and generation.
const FILEID_INO32_GEN: i32 = 1;
/// The same of XFS, whose inode numbers may have two words.
const XFS_FILEID_INO64_GEN: i32 = 0x81;

impl Handle {
    fn new(inode: u64, generation: u32) -> Handle {
        let (low, high) = (inode as u32, (inode >> 32) as u32);
        match high {
            0 => Handle { bytes: 8, kind: FILEID_INO32_GEN, words: [low, generation, 0] },
            _ => Handle { bytes: 12, kind: XFS_FILEID_INO64_GEN, words: [low, high, generation] },
        }
    }
}

unsafe extern "C" {
    fn open_by_handle_at(mount: i32, handle: *const Handle, flags: i32) -> i32;
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;

    use super::*;

    fn record_of(path: &Path, file: &File) -> PathRecord {
        let metadata = file.metadata().unwrap();
        let mut record = PathRecord {
            pid: std::process::id(),
            inode: metadata.ino(),
            dev: DeviceNumber::from_stat(metadata.dev()).kernel_dev_t(),
            ..Default::default()
        };
        let mut at = 0;
        for (n, part) in path.components().rev().filter(|part| part.as_os_str() != "/").enumerate() {
            let name = part.as_os_str().as_bytes();
            record.length[n] = name.len() as u8;
            record.text[at..at + name.len()].copy_from_slice(name);
            at += name.len();
            record.components = n as u32 + 1;
        }
        record
    }

    #[test]
    fn only_the_file_that_was_mapped_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("module");
        std::fs::write(&path, "code").unwrap();
        let file = File::open(&path).unwrap();
        let record = record_of(&path, &file);
        assert!(open(&record).is_some());
        std::fs::write(dir.path().join("other"), "other").unwrap();
        std::fs::rename(dir.path().join("other"), &path).unwrap();
        // By its inode, where the file system can.
        let is_it = |found: &File| found.metadata().unwrap().ino() == record.inode;
        assert!(open(&record).as_ref().is_none_or(is_it), "replaced");
        std::fs::remove_file(&path).unwrap();
        let name = CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: a path that ends with a zero.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        assert!(open(&record).as_ref().is_none_or(is_it));
        assert!(open_regular(&path, 0).is_none(), "a pipe is not waited for");
        assert!(open_regular(Path::new("/dev/null"), 0).is_none(), "nor is a device opened");
    }

    #[test]
    fn the_program_that_runs_is_found_whatever_its_path_says() {
        let link = Path::new("/proc/self/exe");
        let real = std::fs::read_link(link).unwrap();
        let file = File::open(link).unwrap();
        let elsewhere = Path::new("/nowhere").join(real.file_name().unwrap());
        assert!(open(&record_of(&elsewhere, &file)).is_some());
        assert!(open(&PathRecord { inode: 1, ..record_of(&elsewhere, &file) }).is_none());
    }
}
