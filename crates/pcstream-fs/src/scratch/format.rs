//! Making, identifying and mounting the file systems.
//!
//! mkfs runs with the distribution's defaults, because those are what users have; only what a trace
//! needs is set: 4 KiB blocks and sectors, no reserved blocks (ext4), everything initialised at once, so that no
//! kernel thread goes on writing inode tables during a capture, no discard of a device that is empty anyway,
//! a label and a UUID to identify it by. XFS keeps its default about reverse mapping: see `layout`.

use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::mount::MountFlags;

use super::error::{Context, ScratchError};
use super::mounts::FsKind;

/// What the superblock of F2FS begins with.
pub const F2FS_MAGIC: [u8; 4] = [0x10, 0x20, 0xF5, 0xF2];
/// Label of every scratch file system, the mark of an image that may be used again.
pub(super) const FS_LABEL: &str = "pcstream";
/// Where programs are looked for: the caller's PATH is not to be trusted by root.
const TOOL_DIRS: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
const TOOL_PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
/// What a program said is cut to this many bytes in an error.
const STDERR_BYTES_MAX: usize = 2000;

/// What goes through the journal of an ext4. Others have no choice: the log of XFS holds metadata, F2FS is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Journal {
    /// Metadata; data reach their place before the metadata that names them (`data=ordered`, the default).
    #[default]
    Metadata,
    /// There is no journal.
    Off,
    /// Data as well (`data=journal`): they are written twice.
    Data,
}

impl Journal {
    /// In words of mke2fs and mount; nothing for the default.
    pub fn name(self) -> &'static str {
        match self {
            Journal::Metadata => "",
            Journal::Off => "^has_journal",
            Journal::Data => "data=journal",
        }
    }
}

/// The smallest device that mkfs takes. ext4 gets a journal and a few block groups; XFS refuses less than
/// 300 MiB (xfsprogs 5.19 and newer). F2FS keeps some segments of 2 MiB for itself.
pub(super) fn min_bytes(fs: FsKind) -> u64 {
    match fs {
        FsKind::Ext4 => 32 << 20,
        FsKind::F2fs => 64 << 20,
        FsKind::Xfs => 300 << 20,
    }
}

/// Program and Debian package that make a file system.
fn maker(fs: FsKind) -> (&'static str, &'static str) {
    match fs {
        FsKind::Ext4 => ("mkfs.ext4", "e2fsprogs"),
        FsKind::F2fs => ("mkfs.f2fs", "f2fs-tools"),
        FsKind::Xfs => ("mkfs.xfs", "xfsprogs"),
    }
}

/// Where the program that makes a file system is installed.
pub fn find_mkfs(fs: FsKind) -> Result<PathBuf, ScratchError> {
    let (tool, package) = maker(fs);
    find_tool(tool, package)
}

fn find_tool(tool: &'static str, package: &'static str) -> Result<PathBuf, ScratchError> {
    TOOL_DIRS
        .iter()
        .map(|dir| Path::new(dir).join(tool))
        .find(|path| path.is_file())
        .ok_or(ScratchError::ToolMissing { tool, package, searched: TOOL_PATH })
}

/// Makes the file system.
pub(super) fn make_fs(fs: FsKind, journal: Journal, device: &Path, uuid: &str) -> Result<(), ScratchError> {
    let (tool, package) = maker(fs);
    let features: &[&str] = if journal == Journal::Off { &["-O", journal.name()] } else { &[] };
    let device = device.to_string_lossy();
    let xfs_meta = format!("uuid={uuid}");
    let arguments: Vec<&str> = match fs {
        FsKind::Ext4 => vec![
            "-q",
            "-F",
            "-b",
            "4096",
            "-m",
            "0",
            "-L",
            FS_LABEL,
            "-U",
            uuid,
            "-E",
            "lazy_itable_init=0,lazy_journal_init=0,nodiscard",
            &device,
        ],
        FsKind::F2fs => vec!["-q", "-f", "-t", "0", "-l", FS_LABEL, "-U", uuid, &device],
        FsKind::Xfs => vec![
            "-q",
            "-f",
            "-K",
            "-b",
            "size=4096",
            "-s",
            "size=4096",
            "-m",
            &xfs_meta,
            "-L",
            FS_LABEL,
            &device,
        ],
    };
    run_tool(tool, package, &[features, &arguments].concat())
}

/// Runs a system program with a clean environment; what it says goes into the error.
pub(super) fn run_tool(
    tool: &'static str,
    package: &'static str,
    arguments: &[&str],
) -> Result<(), ScratchError> {
    let (path, output) = output_of(tool, package, arguments)?;
    if output.status.success() {
        return Ok(());
    }
    Err(ScratchError::ToolFailed {
        command: format!("{} {}", path.display(), arguments.join(" ")),
        status: output.status.to_string(),
        stderr: said(&output),
    })
}

fn output_of(
    tool: &'static str,
    package: &'static str,
    arguments: &[&str],
) -> Result<(PathBuf, Output), ScratchError> {
    let path = find_tool(tool, package)?;
    let output = Command::new(&path)
        .args(arguments)
        .env_clear()
        .env("PATH", TOOL_PATH)
        .env("LC_ALL", "C")
        .current_dir("/")
        .stdin(Stdio::null())
        .output()
        .doing(|| format!("run {}", path.display()))?;
    Ok((path, output))
}

/// The errors that a program wrote, or else its output.
fn said(output: &Output) -> String {
    let said = if output.stderr.trim_ascii().is_empty() { &output.stdout } else { &output.stderr };
    let said = said.trim_ascii();
    String::from_utf8_lossy(&said[..said.len().min(STDERR_BYTES_MAX)]).into_owned()
}

/// What a check of a file system came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FsCheck {
    /// The program and its flags.
    pub command: String,
    /// Whether it found nothing to repair.
    pub clean: bool,
    /// What it said.
    pub said: String,
}

/// Looks for faults of a file system that is not mounted, in a file; repairs nothing. Errors: the program is not there.
pub fn check_fs(fs: FsKind, file: &Path) -> Result<FsCheck, ScratchError> {
    let name = file.to_string_lossy();
    let (tool, package, flags) = match fs {
        FsKind::Ext4 => ("e2fsck", "e2fsprogs", &["-fn"][..]),
        FsKind::F2fs => ("fsck.f2fs", "f2fs-tools", &["--dry-run"][..]),
        FsKind::Xfs => ("xfs_repair", "xfsprogs", &["-n", "-f"][..]),
    };
    let (_, output) = output_of(tool, package, &[flags, &[&*name]].concat())?;
    let command = format!("{tool} {}", flags.join(" "));
    Ok(FsCheck { command, clean: output.status.success(), said: said(&output) })
}

/// Mounts with online discard: the device learns what was deleted, as an SSD would.
pub(super) fn mount_fs(
    fs: FsKind,
    journal: Journal,
    device: &Path,
    point: &Path,
) -> Result<(), ScratchError> {
    let options: &CStr = if journal == Journal::Data { c"discard,data=journal" } else { c"discard" };
    let flags = MountFlags::NOATIME | MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount(device, point, fs.name(), flags, options).doing(|| {
        format!("mount {} ({fs}) on {} (the kernel log has details)", device.display(), point.display())
    })
}

/// What the beginning of a device or image shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Identity {
    /// Zeroes only.
    Blank,
    /// One that pcstream knows.
    FileSystem { fs: FsKind, label: String, uuid: String },
    /// Something else.
    Other,
}

impl Identity {
    /// How much of the device has to be looked at: all superblocks lie within.
    pub(super) const HEAD_BYTES: usize = 4096;

    /// Identifies a superblock. Offsets: fs/ext4/ext4.h (`s_magic` 0x38, `s_uuid` 0x68, `s_volume_name` 0x78, from
    /// byte 1024 on), fs/xfs/libxfs/xfs_format.h (`sb_uuid` 32, `sb_fname` 108), include/linux/f2fs_fs.h (`uuid` 108,
    /// `volume_name` 124 in UTF-16, from byte 1024 on).
    pub(super) fn of_head(head: &[u8]) -> Identity {
        const EXT4: usize = 1024;
        const F2FS: usize = 1024;
        let text = |at: usize, length: usize| {
            let bytes = &head[at..at + length];
            let end = bytes.iter().position(|&b| b == 0).unwrap_or(length);
            String::from_utf8_lossy(&bytes[..end]).into_owned()
        };
        if head.len() < Self::HEAD_BYTES {
            return if head.iter().all(|&b| b == 0) { Identity::Blank } else { Identity::Other };
        }
        if &head[..4] == b"XFSB" {
            return Identity::FileSystem {
                fs: FsKind::Xfs,
                label: text(108, 12),
                uuid: uuid_text(&head[32..48]),
            };
        }
        if head[EXT4 + 0x38..EXT4 + 0x3A] == [0x53, 0xEF] {
            let uuid = uuid_text(&head[EXT4 + 0x68..EXT4 + 0x78]);
            return Identity::FileSystem { fs: FsKind::Ext4, label: text(EXT4 + 0x78, 16), uuid };
        }
        if head[F2FS..F2FS + 4] == F2FS_MAGIC {
            let name = head[F2FS + 124..].chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
            let name: Vec<u16> = name.take(512).take_while(|&letter| letter != 0).collect();
            let uuid = uuid_text(&head[F2FS + 108..F2FS + 124]);
            return Identity::FileSystem { fs: FsKind::F2fs, label: String::from_utf16_lossy(&name), uuid };
        }
        if head.iter().all(|&b| b == 0) { Identity::Blank } else { Identity::Other }
    }
}

/// A UUID in its usual form: hexadecimal in groups of 4, 2, 2, 2 and 6 bytes.
fn uuid_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(36);
    for (i, byte) in bytes.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn superblocks_are_identified() {
        let mut head = vec![0; Identity::HEAD_BYTES];
        assert_eq!(Identity::of_head(&head), Identity::Blank);
        head[5] = 1;
        assert_eq!(Identity::of_head(&head), Identity::Other);
        head[..4].copy_from_slice(b"XFSB");
        head[32..48].copy_from_slice(&[0xAB; 16]);
        head[108..116].copy_from_slice(b"pcstream");
        let xfs = Identity::FileSystem {
            fs: FsKind::Xfs,
            label: FS_LABEL.into(),
            uuid: "abababab-abab-abab-abab-abababababab".into(),
        };
        assert_eq!(Identity::of_head(&head), xfs);
        let mut head = vec![0; Identity::HEAD_BYTES];
        head[1024..1028].copy_from_slice(&[0x10, 0x20, 0xF5, 0xF2]);
        head[1024 + 108..1024 + 124].copy_from_slice(&[0xAB; 16]);
        for (at, letter) in b"pcstream".iter().enumerate() {
            head[1024 + 124 + 2 * at] = *letter;
        }
        let Identity::FileSystem { uuid, .. } = xfs else { unreachable!() };
        let f2fs = Identity::FileSystem { fs: FsKind::F2fs, label: FS_LABEL.into(), uuid };
        assert_eq!(Identity::of_head(&head), f2fs);
        assert_eq!(Identity::of_head(&[]), Identity::Blank);
        assert_eq!(Identity::of_head(b"XFSB"), Identity::Other);
    }

    #[test]
    fn a_failing_program_is_quoted_and_a_missing_one_named_with_its_package() {
        let error = run_tool("ls", "coreutils", &["/nonexistent"]).unwrap_err().to_string();
        assert!(error.contains("ls /nonexistent failed") && error.contains("No such file"), "{error}");
        let error = run_tool("mkfs.nonexistent", "some-package", &[]).unwrap_err().to_string();
        assert!(error.contains("install the package some-package"), "{error}");
    }
}
