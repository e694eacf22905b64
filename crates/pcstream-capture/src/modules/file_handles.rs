//! Handles of files (`O_PATH`): which file a path leads to is known before it is opened, and nobody is waited for.
//!
//! Idea: whoever is traced chooses paths, and a path may lead through a file system whose owner never answers (FUSE, autofs). So
//! paths are walked only as far as the kernel has them cached (`RESOLVE_CACHED`). That is far enough for a file that is
//! mapped, because the kernel keeps the names that lead to it. What the kernel has cached of the inode says which file
//! it is (`AT_STATX_DONT_SYNC`), and mountinfo says where it lies: statfs would ask the file system.
//!
//! Known weaknesses: the kernel forgets names of files that nobody uses, and asks for access control lists that it has not
//! read. Then a path leads nowhere.

use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use pcstream_fs::extents::DeviceNumber;
use pcstream_fs::mounts::{self, Mount};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, StatxFlags, openat2, statx};
use rustix::io::Errno;

/// The kernel also gives up if something was renamed or mounted meanwhile.
const ATTEMPTS: usize = 3;

/// Of a list of mounts, read in one step of `Looks`.
const BYTES_OF_A_STEP: u64 = 1024;

/// What the kernel knows of a file without asking its file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// As stat shows it, in the kernel's encoding. Some file systems show others than mountinfo does.
    pub device: u32,
    /// Its number in the file system.
    pub inode: u64,
    /// The number of its mount.
    pub mount: u64,
    /// Neither a device nor a pipe to hang on.
    pub is_regular: bool,
}

impl Facts {
    /// Of an open file or a handle.
    pub fn of(file: impl AsFd) -> Option<Facts> {
        Facts::below(file, Path::new(""), AtFlags::EMPTY_PATH)
    }

    /// Of the program of each process. Threads of the kernel have none.
    pub fn of_programs() -> Vec<Facts> {
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        // This link is the file itself, so no path is walked.
        let program = |path: PathBuf| Facts::below(rustix::fs::CWD, &path.join("exe"), AtFlags::empty());
        processes.filter_map(|process| program(process.path())).collect()
    }

    fn below(directory: impl AsFd, path: &Path, flags: AtFlags) -> Option<Facts> {
        let flags = flags | AtFlags::STATX_DONT_SYNC;
        let found = statx(directory, path, flags, StatxFlags::BASIC_STATS | StatxFlags::MNT_ID).ok()?;
        let device = DeviceNumber { major: found.stx_dev_major, minor: found.stx_dev_minor };
        Some(Facts {
            device: device.kernel_dev_t(),
            inode: found.stx_ino,
            mount: found.stx_mnt_id,
            is_regular: FileType::from_raw_mode(found.stx_mode.into()) == FileType::RegularFile,
        })
    }

    /// Whether this is the same file, by whichever mount.
    pub fn is_same_file(&self, other: &Facts) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

/// A file that was found, and not opened.
#[derive(Debug)]
pub struct Handle {
    file: File,
    /// What is known of it.
    pub facts: Facts,
}

impl Handle {
    /// What `O_PATH` gave.
    pub fn new(file: File) -> Option<Handle> {
        let facts = Facts::of(&file)?;
        Some(Handle { file, facts })
    }

    /// Of a path that nobody else chose, or of a link in /proc. `more_flags`: such as `O_NOFOLLOW`.
    pub fn of_path(path: &Path, more_flags: i32) -> Option<Handle> {
        let flags = libc::O_PATH | libc::O_CLOEXEC | more_flags;
        Handle::new(OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?)
    }

    /// What lies at a path below this directory, without symbolic links.
    pub fn below(&self, path: &Path, how: ResolveFlags) -> Option<Handle> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let how = how | ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let attempt = || openat2(&self.file, path, flags, Mode::empty(), how);
        let found = (0..ATTEMPTS).map(|_| attempt()).find(|found| !matches!(found, Err(Errno::AGAIN)))?;
        Handle::new(found.ok()?.into())
    }

    /// Opens it for reading. `more_flags`: such as `O_DIRECTORY`.
    pub fn open(&self, more_flags: i32) -> Option<File> {
        let flags = libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY | more_flags;
        let same = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        OpenOptions::new().read(true).custom_flags(flags).open(same).ok()
    }
}

/// How a process sees files. It stays the same process: another one that gets its number is not taken for it.
#[derive(Debug)]
pub struct Process {
    _directory: Handle,
    in_proc: PathBuf,
    /// Steps that it may still cost to look at it (`Looks`).
    steps: Cell<u64>,
}

impl Process {
    /// The process with this number, which may cost so many steps to look at. None: it has ended.
    pub fn new(pid: u32, steps: u64) -> Option<Process> {
        let directory = Handle::of_path(Path::new(&format!("/proc/{pid}")), libc::O_DIRECTORY)?;
        let in_proc = format!("/proc/self/fd/{}", directory.file.as_raw_fd()).into();
        Some(Process { _directory: directory, in_proc, steps: Cell::new(steps) })
    }

    /// This one.
    pub fn own() -> Option<Process> {
        Process::new(std::process::id(), u64::MAX)
    }

    /// Takes steps; false if there are no more. Then none are left for less either.
    pub fn spend(&self, steps: u64) -> bool {
        let left = self.steps.get().checked_sub(steps);
        self.steps.set(left.unwrap_or(0));
        left.is_some()
    }

    /// Steps that it may still cost.
    pub fn left(&self) -> u64 {
        self.steps.get()
    }

    /// What /proc has of it.
    pub fn in_proc(&self, name: &str) -> PathBuf {
        self.in_proc.join(name)
    }

    /// Its root directory.
    fn root(&self) -> Option<Handle> {
        Handle::of_path(&self.in_proc("root"), 0)
    }

    /// What lies at an absolute path, if the kernel has the path cached.
    pub fn cached(&self, path: &Path) -> Option<Handle> {
        self.root()?.below(path.strip_prefix("/").ok()?, ResolveFlags::CACHED)
    }

    /// The mount with this number, if this process sees it.
    pub fn mount(&self, number: u64) -> Option<Mount> {
        let start = format!("{number} ");
        let list = self.in_proc("mountinfo");
        mounts::parse_line(&self.line_of(&list, |line| line.starts_with(start.as_bytes()))?)
    }

    /// A line of a list of mounts. What is read of the list counts as steps of this process: a user can make it longer than memory.
    fn line_of(&self, list: &Path, is_it: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
        let most = self.left().saturating_mul(BYTES_OF_A_STEP);
        let mut bytes = 0;
        let found = mounts::lines(File::open(list).ok()?, most).find(|line| {
            bytes += line.len() as u64;
            is_it(line)
        });
        self.spend(1 + bytes / BYTES_OF_A_STEP);
        found
    }

    /// Whether a mount that it was asked for just now is one that only a privileged user could make: it lies in
    /// our user namespace, or we see that file system, too. The process must be asked in this order: one that may enter another
    /// namespace cannot come back.
    pub fn vouches_for(&self, mount: &Mount) -> bool {
        let users = |in_proc: PathBuf| std::fs::read_link(in_proc.join("ns/user")).ok();
        let ours = users("/proc/self".into());
        let has_it = |line: &[u8]| mounts::parse_line(line).is_some_and(|own| own.device == mount.device);
        ours.is_some() && users(self.in_proc.clone()) == ours
            || self.line_of(Path::new("/proc/self/mountinfo"), has_it).is_some()
    }
}

/// Whether a user's process serves this file, which was found by our own mounts. One on an unknown mount is taken for such.
pub fn is_on_foreign_fuse(facts: &Facts) -> bool {
    let mount = Process::own().and_then(|own| own.mount(facts.mount));
    mount.is_none_or(|mount| mount.fs_type.starts_with("fuse") && !mount.has_option("user_id=0"))
}

/// The last part of what a link in /proc says. A file that was removed is marked behind its name.
pub fn name_in_link(link: &Path) -> Vec<u8> {
    let target = std::fs::read_link(link).unwrap_or_default();
    target.file_name().unwrap_or_default().as_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_is_a_program_of_a_process() {
        let programs = Facts::of_programs();
        let runs = |path: &str| {
            let file = Facts::of(File::open(path).unwrap()).unwrap();
            programs.iter().any(|program| program.is_same_file(&file))
        };
        assert_eq!(["/proc/self/exe", "/proc/self/maps"].map(runs), [true, false]);
    }

    #[test]
    fn lists_of_mounts_are_read_only_as_far_as_the_process_may_cost() {
        let list = tempfile::NamedTempFile::new().unwrap();
        let lines: String =
            (0..10_000).map(|number| format!("{number} 1 0:50 / /a rw - fuse a rw\n")).collect();
        std::fs::write(&list, &lines).unwrap();
        let process = Process::new(std::process::id(), 20).unwrap();
        let line = |start: &str| process.line_of(list.path(), |line| line.starts_with(start.as_bytes()));
        assert!(line("50 ").is_some());
        assert!((17..20).contains(&process.left()), "{}", process.left());
        assert_eq!(line("9999 "), None, "it is too far behind");
        assert!(process.left() <= 1);
        assert!(Process::own().unwrap().line_of(list.path(), |line| line.starts_with(b"9999 ")).is_some());
    }
}
