//! What can go wrong with a scratch file system; each message says where, what, and what to do.

use std::io;
use std::path::PathBuf;

use pcstream_system::run_dir::RunDirError;
use pcstream_system::trusted_file::Untrusted;
use pcstream_trace::ids::PAGE_BYTES;
use thiserror::Error;

use super::resource::{Left, MountUser};

/// Why a scratch file system could not be made, found or removed.
#[derive(Debug, Error)]
pub enum ScratchError {
    /// Mounting needs root.
    #[error(
        "a scratch file system needs root (effective user id is {uid}): run with sudo, or capture on an existing file system with --on DIR"
    )]
    NeedsRoot {
        /// Effective user id.
        uid: u32,
    },
    /// An option is out of range.
    #[error("{option} is {value}, expected {expected}")]
    Option {
        /// The option's name on the command line.
        option: &'static str,
        /// What was given.
        value: String,
        /// What is allowed.
        expected: String,
    },
    /// A path leads to another device than it did before.
    #[error(
        "--on {}: it was on {}, and now is on {}: it was mounted or unmounted meanwhile; start again",
        on.display(), before.display(), now.display()
    )]
    Meanwhile {
        /// As given.
        on: PathBuf,
        /// The device that it was on.
        before: PathBuf,
        /// The device that it is on.
        now: PathBuf,
    },
    /// A device that is not attached to anything.
    #[error("{} has 0 bytes: there is no medium in it, or nothing is attached to it", device.display())]
    NoMedium {
        /// The device.
        device: PathBuf,
    },
    /// A disk with zones that are written in order. Its requests are of other kinds.
    #[error("{} has zones that are written in order: such disks cannot be captured", device.display())]
    Zones {
        /// The device.
        device: PathBuf,
    },
    /// The device could fill the machine's memory.
    #[error(
        "a {backing} device of {} could take {} of memory, {} are available: use a smaller --size, a higher --fill, or --image PATH",
        human(*size), human(*needed), human(*available)
    )]
    Memory {
        /// `zram` or `tmpfs`.
        backing: &'static str,
        /// Device size in bytes.
        size: u64,
        /// Worst case in bytes.
        needed: u64,
        /// Bytes that may be used.
        available: u64,
    },
    /// The device could fill the file system that holds the image.
    #[error(
        "{path}: the image could grow by {}, its file system has {} free: use a smaller --size, a higher --fill, or another place",
        human(*needed), human(*available)
    )]
    Space {
        /// The image.
        path: PathBuf,
        /// Worst case in bytes.
        needed: u64,
        /// Bytes free.
        available: u64,
    },
    /// The directory for run state is not safe to use.
    #[error(transparent)]
    RunDir(#[from] RunDirError),
    /// A program is not installed.
    #[error("{tool} not found in {searched}: install the package {package}")]
    ToolMissing {
        /// The program.
        tool: &'static str,
        /// Debian's package.
        package: &'static str,
        /// Where it was looked for.
        searched: &'static str,
    },
    /// A program failed.
    #[error("{command} failed ({status}): {stderr}")]
    ToolFailed {
        /// The whole command line.
        command: String,
        /// How it ended.
        status: String,
        /// What it said.
        stderr: String,
    },
    /// No zram here.
    #[error("zram is not available ({source}): use --image tmpfs or --image PATH")]
    NoZram {
        /// What the kernel said.
        source: io::Error,
    },
    /// The image path is something else than a regular file.
    #[error(
        "{path} is {what}: --image takes a file that does not exist yet or an image pcstream made; devices are never used"
    )]
    ImageKind {
        /// The path given.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// The image holds data that is not ours.
    #[error(
        "{path} exists and is not a pcstream image (no file system labelled \"pcstream\", and not empty): its contents would be lost; remove it or name another file"
    )]
    ImageForeign {
        /// The path given.
        path: PathBuf,
    },
    /// Others could read and change what is written to the image.
    #[error(
        "--image: {why}: others could read and change what is written to it; remove it, or name another file"
    )]
    ImageOfOthers {
        /// Who else has it.
        why: Untrusted,
    },
    /// The image is attached, mounted, or used by another run.
    #[error("{path} is in use by {by}: wait for it to end, or name another file")]
    ImageInUse {
        /// The path given.
        path: PathBuf,
        /// By what.
        by: String,
    },
    /// The image holds another file system than the one that was to be kept.
    #[error(
        "the image holds {found}, not an {expected} of pcstream's: give the --fs that it was made with, or another image"
    )]
    NotKept {
        /// What it holds.
        found: String,
        /// What was asked for.
        expected: &'static str,
    },
    /// The fill did not fit.
    #[error(
        "--fill {fill}: the file system was full after {filled_bytes} of {wanted_bytes} bytes: use a lower --fill or a larger --size"
    )]
    FillFull {
        /// Fraction asked for.
        fill: f64,
        /// Bytes allocated.
        filled_bytes: u64,
        /// Bytes wanted.
        wanted_bytes: u64,
    },
    /// An existing directory is not on a file system that can be traced.
    #[error(
        "{dir} is on {fs}, mounted at {mount_point}: only ext4, xfs and f2fs on a block device can be traced{hint}"
    )]
    Unsupported {
        /// The directory.
        dir: PathBuf,
        /// Type of its file system.
        fs: String,
        /// Where that is mounted.
        mount_point: PathBuf,
        /// More words, beginning with punctuation; may be empty.
        hint: &'static str,
    },
    /// A path that leads to something else than was wanted. Its flag is not named: `doctor` takes a path without one.
    #[error("{path}: expected {expected}")]
    Place {
        /// As given.
        path: PathBuf,
        /// What may be given.
        expected: &'static str,
    },
    /// A path that leads into another mount namespace.
    #[error(
        "{dir} is in another mount namespace: give a path of this one; if its device is not mounted here, mount it, too: \
         mount -o nosuid,nodev DEVICE DIR"
    )]
    Elsewhere {
        /// The directory.
        dir: PathBuf,
    },
    /// Nothing that is mounted here shows the file system: other mounts cover it.
    #[error(
        "{dir}: another mount covers the place where its file system is mounted: give a directory of it that can be seen, or \
         mount it at another place, too: mount -o nosuid,nodev DEVICE DIR"
    )]
    Covered {
        /// The directory or device.
        dir: PathBuf,
    },
    /// The file system has blocks that are smaller than the page of a trace.
    #[error("{dir}: {fs} has blocks of {block_bytes} bytes; {PAGE_BYTES} are needed: mkfs.{fs} {option}")]
    SmallBlocks {
        /// The directory.
        dir: PathBuf,
        /// The file system.
        fs: &'static str,
        /// Bytes of a block.
        block_bytes: u64,
        /// Of its `mkfs`, for blocks of a page.
        option: &'static str,
    },
    /// Something of the scratch file system could not be removed.
    #[error("{}", not_removed(.left, .users))]
    NotRemoved {
        /// What is left and why.
        left: Vec<Left>,
        /// Who still uses the file system.
        users: Vec<MountUser>,
    },
    /// A system call or file access failed.
    #[error("cannot {doing}: {source}")]
    Io {
        /// What was tried, with its place.
        doing: String,
        /// What the kernel said.
        source: io::Error,
    },
}

/// Bytes in a unit in which they are at least 1, if they are a MiB.
fn human(bytes: u64) -> String {
    let (unit, name) = if bytes < 1 << 30 { (1_u64 << 20, "MiB") } else { (1 << 30, "GiB") };
    format!("{:.2} {name}", bytes as f64 / unit as f64)
}

fn not_removed(left: &[Left], users: &[MountUser]) -> String {
    let mut text = String::from("the scratch file system is not removed completely: ");
    let items: Vec<String> = left.iter().map(|l| format!("{} ({})", l.resource, l.reason)).collect();
    text.push_str(&items.join("; "));
    if !users.is_empty() {
        let names: Vec<String> = users.iter().map(|u| u.to_string()).collect();
        text.push_str("; still used by ");
        text.push_str(&names.join(", "));
    }
    text.push_str("; once nothing uses it, run `pcstream doctor --clean`");
    text
}

/// Adds what was tried to an error of the operating system.
pub(super) trait Context<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, ScratchError>;
}

impl<T, E: Into<io::Error>> Context<T> for Result<T, E> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, ScratchError> {
        self.map_err(|source| ScratchError::Io { doing: what(), source: source.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_readable() {
        let error =
            ScratchError::Memory { backing: "zram", size: 10 << 40, needed: 3 << 29, available: 200 << 20 };
        let text = error.to_string();
        let expected =
            "a zram device of 10240.00 GiB could take 1.50 GiB of memory, 200.00 MiB are available: ";
        assert!(text.starts_with(expected), "{text}");
        let error = ScratchError::Space { path: "/i".into(), needed: 1 << 30, available: 1 << 19 };
        let text = error.to_string();
        assert!(
            text.starts_with("/i: the image could grow by 1.00 GiB, its file system has 0.50 MiB free: "),
            "{text}"
        );
    }
}
