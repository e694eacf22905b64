//! Whether anybody uses a device, as its server must know before it takes the device away.
//!
//! Idea: the kernel lets nobody open a node exclusively that is mounted, or a part of something. So what can be opened so is neither,
//! and nobody can mount it as long as it stays open. A program that reads and writes the node itself need not open it exclusively,
//! so it is looked for among the open files of all processes.
//!
//! Invariant: what is not known of the node counts as in use.
//!
//! Known weaknesses: open files are seen of processes that this one may look at: it needs CAP_SYS_PTRACE and
//! CAP_DAC_READ_SEARCH. Not found is a program that has a partition of the device open, or the device in a ring (io_uring) or a thread
//! with files of its own, and one that opens it after it was looked for: its requests fail. Nor is a loop device on it.

use std::fs::{DirEntry, File, OpenOptions};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use pcstream_system::process;
use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, major, minor, statx};

/// What is known of it.
#[derive(Debug)]
pub(crate) enum InUse {
    /// It is not mounted, nor can it be as long as this is kept. No process had it open.
    No(File),
    /// It is mounted, a part of something, or open.
    Yes,
    /// Why it is not known.
    Unknown(String),
}

impl InUse {
    /// Of the device with this node, whose number the file `number` has. A node of another device says nothing.
    pub fn of(node: &Path, number: &Path) -> InUse {
        let unknown = |path: &Path, error| InUse::Unknown(format!("{}: {error}", path.display()));
        let own = match std::fs::read_to_string(number) {
            Ok(own) => own,
            Err(error) => return unknown(number, error),
        };
        let flags = libc::O_EXCL | libc::O_NONBLOCK | libc::O_CLOEXEC;
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(node);
        match opened.and_then(|file| Ok((file.metadata()?, file))) {
            Ok((found, file)) => {
                let found_number = format!("{}:{}", major(found.rdev()), minor(found.rdev()));
                if !found.file_type().is_block_device() || found_number != own.trim() {
                    return InUse::Unknown(format!("{} is not the device {}", node.display(), own.trim()));
                }
                // The file that was opened here is this process's own.
                let mut others = process::all().into_iter().filter(|pid| *pid != std::process::id());
                match others.any(|pid| has_open(pid, FileType::BlockDevice, found.rdev())) {
                    true => InUse::Yes,
                    false => InUse::No(file),
                }
            }
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => InUse::Yes,
            Err(error) => unknown(node, error),
        }
    }
}

/// Whether a process has a device node of this kind and number open. No file system is contacted, so one that hangs does not
/// hang this.
fn has_open(pid: u32, kind: FileType, number: u64) -> bool {
    let mut open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let is_it = |entry: DirEntry| {
        let found = statx(CWD, entry.path(), AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE);
        found.is_ok_and(|found| {
            FileType::from_raw_mode(found.stx_mode.into()) == kind
                && (found.stx_rdev_major, found.stx_rdev_minor) == (major(number), minor(number))
        })
    };
    open.any(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_a_process_has_open_is_found() {
        let zero = File::open("/dev/zero").expect("it is there");
        let number = zero.metadata().expect("it can be looked at").rdev();
        let own = std::process::id();
        assert!(has_open(own, FileType::CharacterDevice, number));
        assert!(!has_open(own, FileType::BlockDevice, number), "it is another device");
        assert!(!has_open(own, FileType::CharacterDevice, rustix::fs::makedev(250, 250)));
        assert!(!has_open(0, FileType::CharacterDevice, number), "there is no such process");
    }

    #[test]
    fn a_device_whose_node_is_gone_or_another_is_not_known_to_be_free() {
        let dir = tempfile::tempdir().expect("a directory");
        let (node, number) = (dir.path().join("ublkb0"), dir.path().join("dev"));
        let why = |node: &Path| match InUse::of(node, &number) {
            InUse::Unknown(why) => why,
            known => panic!("{known:?}"),
        };
        assert!(why(&node).contains("dev: No such file"), "{}", why(&node));
        std::fs::write(&number, "259:7\n").expect("written");
        assert!(why(&node).contains("ublkb0: No such file"), "{}", why(&node));
        std::fs::write(&node, "").expect("written");
        assert!(why(&node).ends_with("ublkb0 is not the device 259:7"), "{}", why(&node));
        // A character device of the same number.
        let null = Path::new("/dev/null");
        std::fs::write(&number, "1:3\n").expect("written");
        assert_eq!(why(null), "/dev/null is not the device 1:3");
    }
}
