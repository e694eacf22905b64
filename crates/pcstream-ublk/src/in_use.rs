//! Whether anybody uses a device, as its server must know before it takes the device away.
//!
//! Idea: the kernel lets nobody open a node exclusively that is mounted, or a part of something. So what can be opened is not in use,
//! and is nobody else's as long as it stays open.
//!
//! Invariant: what is not known counts as in use.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{major, minor};

/// What is known of it.
#[derive(Debug)]
pub(crate) enum InUse {
    /// Nobody uses it, nor can as long as this is kept.
    No(File),
    /// It is mounted, or a part of something.
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
                if found.file_type().is_block_device() && found_number == own.trim() {
                    return InUse::No(file);
                }
                InUse::Unknown(format!("{} is not the device {}", node.display(), own.trim()))
            }
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => InUse::Yes,
            Err(error) => unknown(node, error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
