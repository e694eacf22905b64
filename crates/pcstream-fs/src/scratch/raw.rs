//! Block devices without a file system: their owner writes to them directly.
//!
//! Known weaknesses: what is mounted in another mount namespace only, or used by the kernel (swap, a volume of device-mapper),
//! looks the same. Of the former `hidden_writers` tells. So does a device of a mounted Btrfs, whose mount has a number of
//! its own, and a member of an array.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::Path;

use pcstream_system::shell;

use super::error::ScratchError;
use super::format::F2FS_MAGIC;
use super::mounts::{BlockDevice, mount_of_device, namespaces_with, read_mounts};
use super::resource::MountUser;
use crate::extents::DeviceNumber;

/// The block device that `path` names, if it is one and nothing on it is mounted.
///
/// What is not there is none: who opens it says why. Errors: the device cannot be looked at, or has nothing to write to.
pub fn raw_device(path: &Path) -> Result<Option<BlockDevice>, ScratchError> {
    let about = fs::metadata(path).ok().filter(|about| about.file_type().is_block_device());
    let Some(about) = about else { return Ok(None) };
    let number = DeviceNumber::from_stat(about.rdev());
    if mount_of_device(&read_mounts()?, number).is_some() {
        return Ok(None);
    }
    let device = BlockDevice::by_number(number)?.without_zones()?;
    if device.bytes == 0 { Err(ScratchError::NoMedium { device: device.path }) } else { Ok(Some(device)) }
}

/// File systems by their magic number: name, where it lies on the device in bytes, and the number.
const MAGIC: [(&str, u64, &[u8]); 4] = [
    ("XFS", 0, b"XFSB"),
    ("F2FS", 1024, &F2FS_MAGIC),
    ("ext4", 1080, &[0x53, 0xEF]),
    ("Btrfs", 0x1_0040, b"_BHRfS_M"),
];

/// What a user should know of a device that counts as one without a file system. If it has one all the same, its writers are
/// seen as if they wrote to the device itself. Those of its partitions are not seen: these are devices of their own.
pub fn hidden_writers(path: &Path) -> Option<String> {
    let device = raw_device(path).ok()??;
    let partitions = partitions_of(device.number);
    if let [first, ..] = &partitions[..] {
        return Some(format!(
            "{} has partitions ({}), and what is written to them is not seen: give one of them, such as --on /dev/{first}, or the \
             directory where it is mounted",
            path.display(),
            partitions.join(", ")
        ));
    }
    let name = file_system_on(&File::open(path).ok()?)?;
    let (word, path) = (shell::word(path), path.display());
    Some(match namespaces_with(device.number).first() {
        Some(MountUser { pid, name: process, .. }) => format!(
            "{path} holds {name}, mounted in another mount namespace (of {process}, pid {pid}): its files are not seen from here; \
             mount it here, too, and give that directory: mount -o nosuid,nodev {word} DIR"
        ),
        None => format!(
            "{path} holds {name}, which is not seen as mounted here: writes are seen as those to a device, without their files"
        ),
    })
}

/// What a user should know of a device that counted as one without a file system, and has one mounted now, as this process
/// sees it: it is seen as before, without files and without who dirtied them.
pub fn mounted_meanwhile(device: DeviceNumber) -> Option<String> {
    let at = mount_of_device(&read_mounts().ok()?, device)?;
    let at = at.display();
    Some(format!(
        "a file system of the device was mounted at {at} meanwhile: what is written to its files has no context; give that \
         directory, and start again: --on {at}"
    ))
}

/// The names of a disk's partitions, in order.
fn partitions_of(device: DeviceNumber) -> Vec<String> {
    let entries = fs::read_dir(format!("/sys/dev/block/{device}/")).into_iter().flatten().flatten();
    let partitions = entries.filter(|entry| entry.path().join("partition").exists());
    let mut names: Vec<String> =
        partitions.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort_by_key(|name| (name.len(), name.clone()));
    names
}

fn file_system_on(device: &File) -> Option<&'static str> {
    let has = |at: u64, magic: &[u8]| {
        let mut found = vec![0; magic.len()];
        device.read_exact_at(&mut found, at).is_ok() && found == magic
    };
    MAGIC.iter().find(|(_, at, magic)| has(*at, magic)).map(|(name, ..)| *name)
}

/// Whether there is still something behind a device: a loop device that lost its file has no size. True if that cannot be
/// found out.
pub fn is_there(device: DeviceNumber) -> bool {
    match fs::read_to_string(format!("/sys/dev/block/{device}/size")) {
        Ok(size) => size.trim() != "0",
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_directories_are_no_devices() {
        assert_eq!(raw_device(Path::new("/")).expect("it is there"), None);
        assert_eq!(raw_device(Path::new("/dev/null")).expect("it is there"), None);
        assert_eq!(raw_device(Path::new("/dev/no-such-device")).expect("it is not looked at"), None);
        assert_eq!(hidden_writers(Path::new("/dev/null")), None);
        assert!(!is_there(DeviceNumber { major: 4095, minor: 1_048_575 }));
    }

    #[test]
    fn a_mount_of_the_device_is_named() {
        // Whatever is mounted first here.
        let mounts = read_mounts().expect("this system has them");
        let mount = mounts.first().expect("at least the root");
        let said = mounted_meanwhile(mount.device).expect("it is mounted");
        assert!(said.contains(&format!("--on {}", mount.mount_point.display())), "{said}");
        assert_eq!(mounted_meanwhile(DeviceNumber { major: 4095, minor: 1_048_575 }), None);
    }

    #[test]
    fn file_systems_are_known_by_their_magic_numbers() {
        let device = tempfile::tempfile().expect("a file");
        assert_eq!(file_system_on(&device), None, "it is empty");
        device.set_len(1 << 20).expect("a sparse file");
        assert_eq!(file_system_on(&device), None);
        for (name, at, magic) in MAGIC {
            device.write_all_at(magic, at).expect("written");
            assert_eq!(file_system_on(&device), Some(name));
            device.write_all_at(&vec![0; magic.len()], at).expect("written");
        }
    }
}
