//! What a block device can do with streams.

use std::io;
use std::path::{Path, PathBuf};

/// Where the kernel describes its devices and modules.
const SYS: &str = "/sys";
/// The module that lets a BPF program choose the write stream of a request.
pub const MODULE: &str = "pcstream_bio";

/// A block device, by the kernel's number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// Its name, such as `nvme0n1p1`.
    pub name: String,
    /// Write streams of the whole disk, the first of which is that of writes without one; 0: none.
    pub write_streams: u32,
    /// Whether the kernel side can choose the stream of a request.
    pub kernel_can_choose: bool,
}

impl Device {
    /// Reads what the kernel says of a device.
    pub fn find(major: u32, minor: u32) -> io::Result<Device> {
        Device::find_below(Path::new(SYS), major, minor)
    }

    fn find_below(sys: &Path, major: u32, minor: u32) -> io::Result<Device> {
        let own = std::fs::canonicalize(sys.join(format!("dev/block/{major}:{minor}")))?;
        // A partition has no queue of its own: the disk's is one directory up.
        let disk = if own.join("partition").exists() { own.parent().unwrap_or(&own) } else { &own };
        let name = own.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        Ok(Device {
            major,
            minor,
            name,
            write_streams: number(&disk.join("queue/max_write_streams")),
            kernel_can_choose: can_choose_below(sys),
        })
    }
}

/// Whether the kernel side can choose the stream of a request.
pub fn kernel_can_choose() -> bool {
    can_choose_below(Path::new(SYS))
}

fn can_choose_below(sys: &Path) -> bool {
    sys.join("kernel/btf").join(MODULE).exists()
}

/// Disks with several write streams, by name, and how many; in order of names.
pub fn disks_with_streams() -> Vec<(String, u32)> {
    disks_below(Path::new(SYS))
}

fn disks_below(sys: &Path) -> Vec<(String, u32)> {
    let disks = std::fs::read_dir(sys.join("block")).into_iter().flatten().flatten();
    let streams = |disk: std::fs::DirEntry| {
        let streams = number(&disk.path().join("queue/max_write_streams"));
        (streams > 1).then(|| (disk.file_name().to_string_lossy().into_owned(), streams))
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
        assert_eq!(disks_below(sys.path()), [("nvme0n1".to_owned(), 8)]);
        symlink("../../devices/nvme0n1", sys.path().join("dev/block/259:0")).expect("linked");
        symlink("../../devices/nvme0n1/nvme0n1p1", sys.path().join("dev/block/259:1")).expect("linked");
        for (minor, name) in [(0, "nvme0n1"), (1, "nvme0n1p1")] {
            let device = Device::find_below(sys.path(), 259, minor).expect("it is there");
            assert_eq!(
                (device.name.as_str(), device.write_streams, device.kernel_can_choose),
                (name, 8, false)
            );
        }
        fs::create_dir_all(sys.path().join("kernel/btf")).expect("a directory");
        fs::write(sys.path().join("kernel/btf/pcstream_bio"), "").expect("written");
        fs::remove_file(disk.join("queue/max_write_streams")).expect("removed");
        let device = Device::find_below(sys.path(), 259, 1).expect("it is there");
        assert_eq!((device.write_streams, device.kernel_can_choose), (0, true));
        assert!(disks_below(sys.path()).is_empty());
        assert!(Device::find_below(sys.path(), 8, 0).is_err(), "no such device");
    }
}
