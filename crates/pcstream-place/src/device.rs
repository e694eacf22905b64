//! What a block device can do with streams.

use std::io;
use std::path::{Path, PathBuf};

use pcstream_fs::extents::DeviceNumber;
use pcstream_fs::scratch::FsKind;
use pcstream_ublk::{Served, link};

/// Where the kernel describes its devices and modules.
const SYS: &str = "/sys";
/// The module that lets a BPF program choose the write stream of a request.
pub const MODULE: &str = "pcstream_bio";
/// What it adds, for BPF programs.
const FUNCTION: &str = "bpf_bio_set_write_stream";
/// How to load it.
pub const LOAD_MODULE: &str = "install it (`dkms install pcstream-bio/1.0` with the Debian package, kmod/pcstream_bio in \
                               a clone), then modprobe pcstream_bio";

/// A block device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// Its number.
    pub number: DeviceNumber,
    /// Its name, such as `nvme0n1p1`.
    pub name: String,
    /// The whole disk that all its requests go to, if it is one.
    pub disk: Option<String>,
    /// Write streams of the whole disk, the first of which is that of writes without one; 0: none.
    pub write_streams: u32,
    /// Whether the whole disk keeps data of different write hints apart: SCSI and UFS disks with permanent streams.
    pub takes_hints: bool,
    /// The disk or partition that has the streams, below a device-mapper target or an md array; `None`: it is this device, or no
    /// single one.
    pub streams_below: Option<DeviceNumber>,
    /// Whether the BPF program can choose the stream of a request.
    pub kernel_can_choose: bool,
    /// Version of the kernel.
    pub linux: (u32, u32),
    /// The file system on it that is mounted; `None`: it has none, and a program that owns it writes to it directly.
    pub file_system: Option<FsKind>,
    /// The server of the disk, if it is one that `pcstream serve` made; or why it does not say what it is.
    pub server: Option<Result<Served, String>>,
}

impl Device {
    /// Reads what the kernel says of a device that holds this file system.
    pub fn find(number: DeviceNumber, file_system: Option<FsKind>) -> io::Result<Device> {
        let mut device = Device::find_below(Path::new(SYS), number)?;
        device.file_system = file_system;
        let server = device.disk.as_deref().and_then(link::ask);
        device.server = server.map(|answer| answer.map_err(|error| error.to_string()));
        Ok(device)
    }

    /// Whether programs write to it directly.
    pub fn is_raw(&self) -> bool {
        self.file_system.is_none()
    }

    /// Whether its file system gives requests streams itself, as F2FS does since Linux 7.2 on a whole disk.
    pub fn has_streams_of_its_file_system(&self) -> bool {
        self.file_system == Some(FsKind::F2fs)
            && self.disk.as_ref() == Some(&self.name)
            && self.linux >= (7, 2)
    }

    /// Why a program that writes to the device itself gets no streams, though its disk has some: the kernel takes them from programs
    /// on a whole disk only. `None`: it takes them, or there are none.
    pub fn takes_none_of_programs(&self) -> Option<String> {
        let disk = self.disk.as_ref().filter(|disk| self.write_streams > 1 && **disk != self.name)?;
        Some(format!(
            "{} is no whole disk, and on anything else the kernel refuses a program's write that names a stream (EINVAL): name \
             /dev/{disk}",
            self.name
        ))
    }

    fn find_below(sys: &Path, number: DeviceNumber) -> io::Result<Device> {
        let own = std::fs::canonicalize(sys.join(format!("dev/block/{number}")))?;
        let name = own.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let below = disk_below(&own);
        let streams = below.as_deref().map_or(0, write_streams);
        Ok(Device {
            number,
            name,
            write_streams: streams,
            takes_hints: below.as_deref().is_some_and(takes_hints),
            disk: below
                .as_deref()
                .and_then(|below| Some(whole(below).file_name()?.to_string_lossy().into_owned())),
            server: None,
            streams_below: below.filter(|below| *below != own).and_then(|below| number_of(&below)),
            kernel_can_choose: streams > 1 && can_choose_below(sys),
            linux: version(&rustix::system::uname().release().to_string_lossy()),
            file_system: None,
        })
    }
}

/// The first two numbers of a release such as `7.2.12+deb14-amd64`; 0 for what is none.
fn version(release: &str) -> (u32, u32) {
    let mut numbers = release.split(['.', '-', '+']).map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// Layers of device-mapper targets and md arrays that are followed.
const LAYERS_MAX: usize = 16;

/// The disk or partition that all requests to a device go to with the same pages: itself, unless it is a device-mapper target or
/// an md array (RAID).
/// `None`: there are several, or pages are encrypted on the way.
fn disk_below(device: &Path) -> Option<PathBuf> {
    let mut at = device.to_owned();
    for _ in 0..LAYERS_MAX {
        // An array may have partitions.
        let layer = whole(&at);
        if !["dm", "md"].iter().any(|kind| layer.join(kind).exists()) {
            return Some(at);
        }
        if std::fs::read_to_string(layer.join("dm/uuid")).is_ok_and(|uuid| uuid.starts_with("CRYPT-")) {
            return None;
        }
        let mut below = std::fs::read_dir(layer.join("slaves")).ok()?;
        let (only, more) = (below.next()?.ok()?, below.next());
        if more.is_some() {
            return None;
        }
        at = std::fs::canonicalize(only.path()).ok()?;
    }
    None
}

/// Write streams of a disk, or of a partition's disk.
fn write_streams(device: &Path) -> u32 {
    number(&whole(device).join("queue/max_write_streams"))
}

/// Whether a SCSI disk has reduced stream control: bit 0 of byte 5 of its Block Limits Extension (SBC-5, page B7h). The kernel
/// turns hints into the disk's permanent streams only then.
fn takes_hints(device: &Path) -> bool {
    let page = std::fs::read(whole(device).join("device/vpd_pgb7")).unwrap_or_default();
    page.get(5).is_some_and(|byte| byte & 1 != 0)
}

/// A disk, or a partition's disk: a partition has no queue of its own, the disk's is one directory up.
fn whole(device: &Path) -> &Path {
    if device.join("partition").exists() { device.parent().unwrap_or(device) } else { device }
}

/// The number of a device's directory.
fn number_of(device: &Path) -> Option<DeviceNumber> {
    std::fs::read_to_string(device.join("dev")).ok()?.trim().parse().ok()
}

/// Whether the BPF program can choose the stream of a request.
pub fn kernel_can_choose() -> bool {
    can_choose_below(Path::new(SYS))
}

/// By the module, or by a kernel that has the function itself (`kmod/upstream`).
fn can_choose_below(sys: &Path) -> bool {
    let types = sys.join("kernel/btf");
    let names = || std::fs::read(types.join("vmlinux")).unwrap_or_default();
    types.join(MODULE).exists() || names().split(|&byte| byte == 0).any(|name| name == FUNCTION.as_bytes())
}

/// Disks with several write streams, by name, and how many; in order of names.
pub fn disks_with_streams() -> Vec<(String, u32)> {
    disks_below(Path::new(SYS))
}

fn disks_below(sys: &Path) -> Vec<(String, u32)> {
    let disks = std::fs::read_dir(sys.join("block")).into_iter().flatten().flatten();
    let streams = |disk: std::fs::DirEntry| {
        let streams = write_streams(&disk.path());
        // A path of a multipath drive, which nobody can mount.
        let hidden = number(&disk.path().join("hidden")) == 1;
        (streams > 1 && !hidden).then(|| (disk.file_name().to_string_lossy().into_owned(), streams))
    };
    let mut found: Vec<_> = disks.filter_map(streams).collect();
    found.sort();
    found
}

/// The number in a file; 0 if there is none.
fn number(path: &PathBuf) -> u32 {
    std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn the_version_of_a_kernel_is_its_first_two_numbers() {
        let found = ["7.2.12+deb14-amd64", "6.1.0-50-cloud-amd64", "6.18-rc1", "7.3+", ""].map(version);
        assert_eq!(found, [(7, 2), (6, 1), (6, 18), (7, 3), (0, 0)]);
    }

    #[test]
    fn a_partition_has_the_streams_of_its_disk() {
        let sys = tempfile::tempdir().expect("a directory");
        let disk = sys.path().join("devices/nvme0n1");
        fs::create_dir_all(disk.join("queue")).expect("a directory");
        fs::create_dir_all(disk.join("nvme0n1p1")).expect("a directory");
        fs::create_dir_all(sys.path().join("dev/block")).expect("a directory");
        fs::write(disk.join("queue/max_write_streams"), "8\n").expect("written");
        fs::write(disk.join("nvme0n1p1/partition"), "1\n").expect("written");
        fs::create_dir_all(sys.path().join("block")).expect("a directory");
        symlink("../devices/nvme0n1", sys.path().join("block/nvme0n1")).expect("linked");
        let path = sys.path().join("block/nvme0c0n1");
        fs::create_dir_all(path.join("queue")).expect("a directory");
        fs::write(path.join("queue/max_write_streams"), "8\n").expect("written");
        fs::write(path.join("hidden"), "1\n").expect("written");
        assert_eq!(disks_below(sys.path()), [("nvme0n1".to_owned(), 8)]);
        symlink("../../devices/nvme0n1", sys.path().join("dev/block/259:0")).expect("linked");
        symlink("../../devices/nvme0n1/nvme0n1p1", sys.path().join("dev/block/259:1")).expect("linked");
        for (minor, name) in [(0, "nvme0n1"), (1, "nvme0n1p1")] {
            let device = find(sys.path(), 259, minor).expect("it is there");
            assert_eq!(
                (device.name.as_str(), device.write_streams, device.kernel_can_choose),
                (name, 8, false)
            );
            assert_eq!((device.disk.as_deref(), device.server), (Some("nvme0n1"), None));
            assert!(!device.takes_hints);
        }
        let refuses = |minor| find(sys.path(), 259, minor).expect("it is there").takes_none_of_programs();
        assert_eq!(refuses(0), None);
        assert!(refuses(1).is_some_and(|why| why.contains("nvme0n1p1") && why.contains("name /dev/nvme0n1")));
        volumes(sys.path(), &disk);
        arrays(sys.path(), &disk);
        fs::create_dir_all(disk.join("device")).expect("a directory");
        for (page, expected) in
            [(&[0, 0xB7, 0, 60, 0, 1][..], true), (&[0, 0xB7, 0, 60, 0, 2], false), (&[0, 0xB7], false)]
        {
            fs::write(disk.join("device/vpd_pgb7"), page).expect("written");
            assert_eq!(find(sys.path(), 259, 1).expect("it is there").takes_hints, expected, "{page:?}");
        }
        fs::create_dir_all(sys.path().join("kernel/btf")).expect("a directory");
        fs::write(sys.path().join("kernel/btf/pcstream_bio"), "").expect("written");
        assert!(can_choose_below(sys.path()));
        fs::remove_file(sys.path().join("kernel/btf/pcstream_bio")).expect("removed");
        for (names, expected) in
            [("\0bio\0bpf_bio_set_write_stream\0u8\0", true), ("\0bpf_bio_set_write_stream2\0", false)]
        {
            fs::write(sys.path().join("kernel/btf/vmlinux"), names).expect("written");
            assert_eq!(can_choose_below(sys.path()), expected, "{names:?}");
        }
        fs::write(sys.path().join("kernel/btf/pcstream_bio"), "").expect("written");
        fs::remove_file(disk.join("queue/max_write_streams")).expect("removed");
        let device = find(sys.path(), 259, 1).expect("it is there");
        assert_eq!((device.write_streams, device.kernel_can_choose), (0, false));
        assert_eq!(device.takes_none_of_programs(), None, "there are none");
        assert!(disks_below(sys.path()).is_empty());
        assert!(find(sys.path(), 8, 0).is_err(), "no such device");
    }

    fn find(sys: &Path, major: u32, minor: u32) -> io::Result<Device> {
        Device::find_below(sys, DeviceNumber { major, minor })
    }

    /// A volume on a volume on the partition has its streams; one that is encrypted, or on two disks, has none.
    fn volumes(sys: &Path, disk: &Path) {
        fs::write(disk.join("nvme0n1p1/dev"), "259:1\n").expect("written");
        for (minor, uuid, below) in [
            (0, "LVM-x", &[disk.join("nvme0n1p1")][..]),
            (1, "LVM-y", &[sys.join("devices/dm-0")]),
            (2, "CRYPT-LUKS2-z", &[disk.join("nvme0n1p1")]),
            (3, "LVM-s", &[disk.join("nvme0n1p1"), disk.to_owned()]),
            (4, "LVM-t", &[sys.join("devices/dm-2")]),
        ] {
            let volume = sys.join(format!("devices/dm-{minor}"));
            fs::create_dir_all(volume.join("slaves")).expect("a directory");
            fs::create_dir_all(volume.join("dm")).expect("a directory");
            fs::write(volume.join("dm/uuid"), uuid).expect("written");
            for below in below {
                let name = below.file_name().expect("it has a name");
                symlink(below, volume.join("slaves").join(name)).expect("linked");
            }
            symlink(&volume, sys.join(format!("dev/block/253:{minor}"))).expect("linked");
            let device = find(sys, 253, minor).expect("it is there");
            let expected =
                if minor < 2 { (8, Some(DeviceNumber { major: 259, minor: 1 })) } else { (0, None) };
            assert_eq!((device.write_streams, device.streams_below), expected, "dm-{minor}");
            assert_eq!(device.takes_none_of_programs().is_some(), minor < 2, "dm-{minor}");
        }
    }

    /// An array (md) of several disks has no streams, nor has a partition of it; one of a single disk has those of the disk.
    fn arrays(sys: &Path, disk: &Path) {
        let partition = disk.join("nvme0n1p1");
        let one = Some(DeviceNumber { major: 259, minor: 1 });
        for (minor, below, expected) in
            [(0, &[partition.clone(), disk.to_owned()][..], (0, None)), (1, &[partition][..], (8, one))]
        {
            let array = sys.join(format!("devices/md{minor}"));
            let part = array.join(format!("md{minor}p1"));
            for made in [&array.join("md"), &array.join("slaves"), &array.join("queue"), &part] {
                fs::create_dir_all(made).expect("a directory");
            }
            fs::write(part.join("partition"), "1\n").expect("written");
            fs::write(array.join("queue/max_write_streams"), "0\n").expect("written");
            for below in below {
                symlink(below, array.join("slaves").join(below.file_name().expect("a name")))
                    .expect("linked");
            }
            for (major, device) in [(9, &array), (10, &part)] {
                symlink(device, sys.join(format!("dev/block/{major}:{minor}"))).expect("linked");
                let device = find(sys, major, minor).expect("it is there");
                assert_eq!((device.write_streams, device.streams_below), expected, "{device:?}");
                assert_eq!(device.disk.is_some(), expected.0 > 0, "{device:?}");
            }
        }
    }
}
