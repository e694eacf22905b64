//! What is mounted where, on which device, and who uses it: read from /proc and /sys.
//!
//! Known weaknesses: only this mount namespace is seen. Processes that end while being looked at, or that
//! the caller may not inspect, are passed over.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pcstream_system::process;
use pcstream_trace::ids::PAGE_BYTES;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::error::{Context, ScratchError};
use super::resource::MountUser;
use crate::extents::DeviceNumber;
use crate::limited;
use crate::mounts::{self, Mount};

/// Lists of mounts of all other namespaces: tens of thousands of usual lists.
const MOUNTINFO_BYTES: u64 = 64 << 20;
/// Of one namespace.
const MOUNTINFO_BYTES_OF_ONE: u64 = 8 << 20;

/// A file system that pcstream knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FsKind {
    /// ext4.
    Ext4,
    /// F2FS.
    F2fs,
    /// XFS.
    Xfs,
}

pcstream_trace::named!(FsKind: Ext4 = "ext4", Xfs = "xfs", F2fs = "f2fs");

impl fmt::Display for FsKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockDevice {
    /// Its node in /dev.
    pub path: PathBuf,
    /// Major and minor number.
    pub number: DeviceNumber,
    /// Size in bytes.
    pub bytes: u64,
    /// First 512-byte sector on the whole disk: requests of a partition are seen with this added.
    /// 0 for a whole disk.
    pub start_sector: u64,
}

impl BlockDevice {
    /// Looks a block device up in /sys.
    pub fn by_number(number: DeviceNumber) -> Result<BlockDevice, ScratchError> {
        let sys = PathBuf::from(format!("/sys/dev/block/{number}"));
        let uevent = read_text(&sys.join("uevent"))?;
        let name = uevent
            .lines()
            .find_map(|line| line.strip_prefix("DEVNAME="))
            .ok_or_else(|| io::Error::other("no DEVNAME in uevent"))
            .doing(|| format!("identify block device {number}"))?;
        let start_sector = match sys.join("start").exists() {
            true => read_number(&sys.join("start"))?,
            false => 0,
        };
        let bytes = read_number(&sys.join("size"))? * 512;
        Ok(BlockDevice { path: Path::new("/dev").join(name), number, bytes, start_sector })
    }

    /// The same, unless it has zones that are written in order.
    pub(super) fn without_zones(self) -> Result<BlockDevice, ScratchError> {
        let has = has_zones(Path::new(&format!("/sys/dev/block/{}", self.number)));
        if has { Err(ScratchError::Zones { device: self.path }) } else { Ok(self) }
    }
}

/// Whether a device has zones, by its directory in /sys. That of a partition is below that of its disk, which has the queue.
fn has_zones(sys: &Path) -> bool {
    let zoned = ["queue/zoned", "../queue/zoned"].map(|name| fs::read_to_string(sys.join(name)));
    let zoned = zoned.into_iter().flatten().next();
    zoned.is_some_and(|zoned| !matches!(zoned.trim(), "" | "none"))
}

/// The mounted ext4, XFS or F2FS that holds a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExistingFs {
    /// Which file system.
    pub fs: FsKind,
    /// The directory, without symbolic links; of a block device the place where it is mounted.
    pub directory: PathBuf,
    /// Where it is mounted (the mount that holds the directory).
    pub mount_point: PathBuf,
    /// The block device it is on.
    pub device: BlockDevice,
}

impl ExistingFs {
    /// Finds the file system of `dir`: a directory, or a block device that is mounted.
    ///
    /// Errors: no such directory, one of another mount namespace, a device that is not mounted or whose mounts are covered by
    /// others, or a file system other than ext4, XFS and F2FS with blocks of at least a page on a block device.
    pub fn of(dir: &Path) -> Result<ExistingFs, ScratchError> {
        let about = fs::metadata(dir).doing(|| format!("open {}", dir.display()))?;
        let mounts = read_mounts()?;
        let covered = || ScratchError::Covered { dir: dir.into() };
        let (path, number) = if about.file_type().is_block_device() {
            let number = DeviceNumber::from_stat(about.rdev());
            if mount_of_device(&mounts, number).is_none() {
                return Err(expected(dir, "a directory or a device that is mounted in this mount namespace"));
            }
            (visible_mount_of(&mounts, number).ok_or_else(covered)?, number)
        } else if !about.is_dir() {
            return Err(expected(dir, "a directory or a block device"));
        } else {
            (path_here(dir, &about)?, DeviceNumber::from_stat(about.dev()))
        };
        let mount = mount_of(&mounts, &path, number).ok_or_else(covered)?;
        let Some(kind) = FsKind::from_name(&mount.fs_type) else {
            return Err(ScratchError::Unsupported {
                dir: dir.into(),
                fs: mount.fs_type.clone(),
                mount_point: mount.mount_point.clone(),
                hint: unsupported_hint(&mount.fs_type),
            });
        };
        let block_bytes = rustix::fs::statvfs(&path).doing(|| format!("look at {}", dir.display()))?.f_bsize;
        if block_bytes < PAGE_BYTES {
            let option = match kind {
                FsKind::Ext4 | FsKind::F2fs => "-b 4096",
                FsKind::Xfs => "-b size=4096",
            };
            return Err(ScratchError::SmallBlocks { dir: dir.into(), fs: kind.name(), block_bytes, option });
        }
        let device = BlockDevice::by_number(mount.device)?.without_zones()?;
        Ok(ExistingFs { fs: kind, mount_point: mount.mount_point.clone(), device, directory: path })
    }
}

/// The path without symbolic links. Errors: in this mount namespace it leads to something else than `about`, or to nothing.
fn path_here(dir: &Path, about: &fs::Metadata) -> Result<PathBuf, ScratchError> {
    let same = |path: &PathBuf| {
        fs::metadata(path).is_ok_and(|here| (here.dev(), here.ino()) == (about.dev(), about.ino()))
    };
    fs::canonicalize(dir).ok().filter(same).ok_or_else(|| ScratchError::Elsewhere { dir: dir.into() })
}

fn expected(given: &Path, expected: &'static str) -> ScratchError {
    ScratchError::Place { path: given.into(), expected }
}

/// Where a device is mounted; the first place, if there are several.
pub(super) fn mount_of_device(mounts: &[Mount], number: DeviceNumber) -> Option<PathBuf> {
    mounts.iter().find(|mount| mount.device == number).map(|mount| mount.mount_point.clone())
}

fn unsupported_hint(fs_type: &str) -> &'static str {
    match fs_type {
        "tmpfs" | "ramfs" => "; it has no device: nothing is ever written to one",
        "overlay" => "; name a directory on the file system below it",
        "nfs" | "nfs4" | "cifs" | "9p" => "; its device belongs to another machine",
        "btrfs" => "; `record` and `run` without --on make a scratch file system",
        _ => "",
    }
}

pub(super) fn read_mounts() -> Result<Vec<Mount>, ScratchError> {
    mounts::own().doing(|| "read /proc/self/mountinfo".into())
}

/// The mount that a canonical path is seen through: the deepest mount point above it, and of several on
/// the same point the last, which hides the others. A mount further up may have come later and cover all of
/// them, and so only those of the path's own file system, which is on `device`, count. A type that is not known here may have
/// files on other devices than its mounts (btrfs): that of the deepest mount is then the answer.
fn mount_of<'a>(mounts: &'a [Mount], path: &Path, device: DeviceNumber) -> Option<&'a Mount> {
    let above = || mounts.iter().filter(|m| path.starts_with(&m.mount_point));
    let depth = |m: &&Mount| m.mount_point.components().count();
    let unknown = |m: &&Mount| FsKind::from_name(&m.fs_type).is_none();
    above()
        .filter(|m| m.device == device)
        .max_by_key(depth)
        .or_else(|| above().max_by_key(depth).filter(unknown))
}

/// A directory where a device is mounted, and where no other mount hides it.
fn visible_mount_of(mounts: &[Mount], number: DeviceNumber) -> Option<PathBuf> {
    let is_seen = |point: &Path| {
        fs::metadata(point).is_ok_and(|seen| seen.is_dir() && DeviceNumber::from_stat(seen.dev()) == number)
    };
    let mut points = mounts.iter().filter(|m| m.device == number).map(|m| &m.mount_point);
    points.find(|point| is_seen(point)).cloned()
}

/// What is mounted on exactly this point, the topmost first.
pub(super) fn mounted_at<'a>(mounts: &'a [Mount], point: &Path) -> Option<&'a Mount> {
    mounts.iter().rev().find(|m| m.mount_point == point)
}

/// Whether a file system on this device is mounted, as this process sees it, and works: neither has the device vanished nor
/// was the file system shut down after an error. ext4 says so from Linux 6.15 on; an XFS that was shut down answers nothing.
/// `directory` is one of it, such as where it was mounted.
pub fn is_working(device: DeviceNumber, directory: &Path) -> bool {
    let works = |mount: &Mount| mount.device == device && !mount.has_option("shutdown");
    Path::new(&format!("/sys/dev/block/{device}")).exists()
        && read_mounts().map_or(true, |mounts| mounts.iter().any(works))
        && directory_on(device, directory).is_some_and(|directory| rustix::fs::stat(&directory).is_ok())
}

/// Whether the file system on this device is mounted with an option, as this process sees it.
pub fn is_mounted_with(device: DeviceNumber, option: &str) -> bool {
    let has = |mount: &Mount| mount.device == device && mount.has_option(option);
    read_mounts().is_ok_and(|mounts| mounts.iter().any(has))
}

/// A directory of the file system on this device: this one, or else where it is mounted, as this process sees it.
pub fn directory_on(device: DeviceNumber, directory: &Path) -> Option<PathBuf> {
    let mounts = read_mounts().unwrap_or_default();
    let points =
        mounts.iter().filter(|mount| mount.device == device).map(|mount| mount.mount_point.as_path());
    let mut candidates = std::iter::once(directory).chain(points);
    let found = candidates.find(|candidate| device_behind(candidate) == Some(device)).map(Path::to_path_buf);
    // One that failed tells nothing of its directories.
    found.or_else(|| mount_of_device(&mounts, device))
}

/// Whether a file system that was unmounted is gone from its device, whose node is `node`. An unmount writes out what is dirty
/// after the mount is out of sight: that is waited for. False: somebody still uses it, or it takes longer than `limit`.
pub fn is_released(device: DeviceNumber, node: &Path, limit: Duration) -> bool {
    let began = Instant::now();
    loop {
        // The kernel refuses this as long as there is a file system on it.
        let exclusive = OFlags::RDONLY | OFlags::EXCL | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let busy = match rustix::fs::open(node, exclusive, Mode::empty()) {
            Ok(_) => return true,
            Err(errno) => errno == Errno::BUSY,
        };
        if is_in_use(device) {
            return false;
        }
        if !busy || began.elapsed() >= limit {
            return !busy;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn is_in_use(device: DeviceNumber) -> bool {
    let mounted = read_mounts().is_ok_and(|mounts| mount_of_device(&mounts, device).is_some());
    mounted || !namespaces_with(device).is_empty() || !users_of(device).is_empty()
}

/// The processes that hold files of the file system on `device`, by process id. A process is asked
/// for its links and maps only; no file system is contacted, so a hanging one elsewhere does not hang this. One that keeps
/// back its maps is judged by its links.
pub fn users_of(device: DeviceNumber) -> Vec<MountUser> {
    process::all().into_iter().filter_map(|pid| user_of(pid, device)).collect()
}

/// A process of each other mount namespace in which the file system on `device` is mounted: a namespace that was made
/// meanwhile keeps a mount of its own, which an unmount here may not reach. Of their lists of mounts at most
/// [`MOUNTINFO_BYTES`] are read: users can make namespaces with lists of any length.
pub(super) fn namespaces_with(device: DeviceNumber) -> Vec<MountUser> {
    let mut left = MOUNTINFO_BYTES;
    let own = fs::read_link("/proc/self/ns/mnt").ok();
    let mut seen = BTreeSet::new();
    let holds = |pid: &u32| {
        let namespace = fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
        if namespace.is_none() || namespace == own || seen.contains(&namespace) {
            return false;
        }
        // One that ends just now has no list any more; another one of its namespace has.
        let Ok(list) = fs::File::open(format!("/proc/{pid}/mountinfo")) else { return false };
        seen.insert(namespace);
        mounts::lines(list, left.min(MOUNTINFO_BYTES_OF_ONE)).any(|line| {
            left = left.saturating_sub(line.len() as u64);
            mounts::parse_line(&line).is_some_and(|mount| mount.device == device)
        })
    };
    let how = vec!["mounted in its namespace".to_string()];
    process::all()
        .into_iter()
        .filter(holds)
        .map(|pid| MountUser { pid, name: process::name(pid), how: how.clone() })
        .collect()
}

fn user_of(pid: u32, device: DeviceNumber) -> Option<MountUser> {
    let proc = PathBuf::from(format!("/proc/{pid}"));
    let mut how = BTreeSet::new();
    for link in ["cwd", "root", "exe"] {
        if device_behind(&proc.join(link)) == Some(device) {
            how.insert(link.to_string());
        }
    }
    for entry in fs::read_dir(proc.join("fd")).into_iter().flatten().flatten() {
        if device_behind(&entry.path()) == Some(device) {
            how.insert(format!("fd {}", entry.file_name().to_string_lossy()));
        }
    }
    if limited::ask(pid, move || maps(&proc, device)).unwrap_or(false) {
        how.insert("map".into());
    }
    if how.is_empty() {
        return None;
    }
    Some(MountUser { pid, name: process::name(pid), how: how.into_iter().collect() })
}

/// Whether a process has a file of this device mapped.
fn maps(proc: &Path, device: DeviceNumber) -> bool {
    let maps = fs::read(proc.join("maps")).unwrap_or_default();
    maps.split(|&b| b == b'\n').any(|line| maps_device(line) == Some(device))
}

fn device_behind(link: &Path) -> Option<DeviceNumber> {
    let stat = rustix::fs::statx(CWD, link, AtFlags::STATX_DONT_SYNC, StatxFlags::empty()).ok()?;
    Some(DeviceNumber { major: stat.stx_dev_major, minor: stat.stx_dev_minor })
}

/// The device of a line of /proc/PID/maps: `start-end perms offset major:minor inode path`, numbers in hex.
fn maps_device(line: &[u8]) -> Option<DeviceNumber> {
    let field = std::str::from_utf8(line.split(|&b| b == b' ').nth(3)?).ok()?;
    let (major, minor) = field.split_once(':')?;
    let hex = |digits| u32::from_str_radix(digits, 16).ok();
    Some(DeviceNumber { major: hex(major)?, minor: hex(minor)? })
}

pub(super) fn read_text(path: &Path) -> Result<String, ScratchError> {
    fs::read_to_string(path).doing(|| format!("read {}", path.display()))
}

pub(super) fn read_number(path: &Path) -> Result<u64, ScratchError> {
    let text = read_text(path)?;
    text.trim()
        .parse()
        .map_err(|_| io::Error::other(format!("{:?} is not a number", text.trim())))
        .doing(|| format!("read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTINFO: &[u8] = b"22 27 0:21 / /proc rw,relatime - proc proc rw\n\
        27 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw,discard,shutdown\n\
        90 27 253:3 / /mnt/my\\040disk\\134x rw,noatime - xfs /dev/zram3 rw\n\
        91 27 0:40 / /srv/data rw - tmpfs tmpfs rw\n\
        92 27 253:4 /sub /srv/data rw - xfs /dev/zram4 rw\n";

    #[test]
    fn a_disk_with_zones_is_known_by_its_queue_and_so_is_its_partition() {
        let sys = tempfile::tempdir().expect("a directory");
        fs::create_dir_all(sys.path().join("queue")).expect("made");
        fs::create_dir_all(sys.path().join("partition")).expect("made");
        for (zoned, has) in [("none", false), ("host-managed", true), ("host-aware", true), ("", false)] {
            fs::write(sys.path().join("queue/zoned"), format!("{zoned}\n")).expect("written");
            let found = [sys.path().to_owned(), sys.path().join("partition")].map(|at| has_zones(&at));
            assert_eq!(found, [has; 2], "{zoned}");
        }
        assert!(!has_zones(Path::new("/nowhere")));
    }

    #[test]
    fn a_path_belongs_to_the_deepest_and_topmost_mount() {
        let mounts = mounts::parse(MOUNTINFO);
        let on = |path: &str, major, minor| {
            mount_of(&mounts, Path::new(path), DeviceNumber { major, minor }).map(|m| m.device.minor)
        };
        assert_eq!(on("/mnt/my disk\\x/a/b", 253, 3), Some(3));
        assert_eq!(on("/srv/data", 253, 4), Some(4), "the later mount hides the tmpfs");
        assert_eq!(on("/srv/database", 254, 0), Some(0), "not below /srv/data");
        assert_eq!(mounted_at(&mounts, Path::new("/srv/data")).unwrap().fs_type, "xfs");
        assert_eq!(mounted_at(&mounts, Path::new("/srv")), None);
    }

    #[test]
    fn a_mount_that_another_one_covers_holds_no_path() {
        // /a/b was mounted, then another file system over /a, which has a directory b of its own.
        let text = b"1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 8:2 / /a/b rw - xfs /dev/b rw\n\
            3 1 8:3 / /a rw - ext4 /dev/c rw\n4 1 0:40 / /d rw - btrfs /dev/d rw";
        let mounts = mounts::parse(text);
        let on = |path: &str, major, minor| {
            mount_of(&mounts, Path::new(path), DeviceNumber { major, minor })
                .map(|m| m.mount_point.to_str().unwrap())
        };
        assert_eq!(on("/a/b/x", 8, 3), Some("/a"));
        assert_eq!(on("/a/b/x", 8, 2), Some("/a/b"));
        assert_eq!(on("/a/b/x", 8, 9), None, "none of the mounts is the path's");
        assert_eq!(on("/d/x", 0, 41), Some("/d"), "its type is named when it is refused");
        // A device is where it can be seen, not on a file or below another mount.
        let proc = fs::metadata("/proc").unwrap().dev();
        let number = DeviceNumber::from_stat(proc);
        let at = |point: &str| Mount { device: number, mount_point: point.into(), ..mounts[0].clone() };
        assert_eq!(visible_mount_of(&[at("/etc")], number), None);
        let several = [at("/etc"), at("/proc/self/status"), at("/proc")];
        assert_eq!(visible_mount_of(&several, number).as_deref(), Some(Path::new("/proc")));
    }

    #[test]
    fn devices_in_maps_are_hexadecimal() {
        let line = b"7f0e1c000000-7f0e1c021000 r-xp 00001000 fd:1f 1234  /x";
        assert_eq!(maps_device(line), Some(DeviceNumber { major: 253, minor: 31 }));
        assert_eq!(maps_device(b""), None);
    }

    #[test]
    fn file_systems_without_a_device_are_refused_by_name() {
        let error = ExistingFs::of(Path::new("/proc")).unwrap_err();
        assert!(error.to_string().contains("/proc is on proc"), "{error}");
        let error = ExistingFs::of(Path::new("/nonexistent/dir")).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/dir"), "{error}");
    }

    #[test]
    fn a_path_of_another_mount_namespace_is_refused() {
        let tmp = std::env::temp_dir();
        let inside = |dir: &Path| path_here(dir, &fs::metadata(&tmp).unwrap());
        assert_eq!(inside(&Path::new("/proc/self/root").join(tmp.strip_prefix("/").unwrap())).unwrap(), tmp);
        // What the path leads to here is not what it led to.
        for elsewhere in ["/etc", "/"] {
            let error = inside(Path::new(elsewhere)).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{elsewhere} is in another mount namespace")), "{error}");
        }
    }

    #[test]
    fn a_device_stands_for_the_place_where_it_is_mounted() {
        let text = b"22 1 259:2 / / rw - ext4 /dev/a rw\n23 22 259:3 / /srv rw - xfs /dev/b rw\n24 22 259:3 /x /y rw - xfs /dev/b rw";
        let mounts = mounts::parse(text);
        let of = |minor| mount_of_device(&mounts, DeviceNumber { major: 259, minor });
        assert_eq!(of(3).as_deref(), Some(Path::new("/srv")));
        assert_eq!(of(4), None);
        let error = ExistingFs::of(Path::new("/dev/null")).unwrap_err();
        assert_eq!(error.to_string(), "/dev/null: expected a directory or a block device");
    }

    #[test]
    fn this_process_uses_the_file_system_of_its_executable() {
        let exe = device_behind(Path::new("/proc/self/exe")).unwrap();
        let users = users_of(exe);
        let me = users.iter().find(|u| u.pid == std::process::id()).expect("this process is listed");
        assert!(me.how.contains(&"exe".to_string()), "{me}");
    }
}
