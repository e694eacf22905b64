//! Block devices without a file system: their owner writes to them directly.
//!
//! Known weaknesses: what is mounted in another mount namespace only, or used by the kernel (swap, a volume of device-mapper),
//! looks the same.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use super::error::ScratchError;
use super::mounts::{BlockDevice, mount_of_device, read_mounts};
use crate::extents::DeviceNumber;

/// The block device that `path` names, if it is one and nothing on it is mounted.
///
/// What is not there is none: who opens it says why. Errors: the device cannot be looked at.
pub fn raw_device(path: &Path) -> Result<Option<BlockDevice>, ScratchError> {
    let about = fs::metadata(path).ok().filter(|about| about.file_type().is_block_device());
    let Some(about) = about else { return Ok(None) };
    let number = DeviceNumber::from_stat(about.rdev());
    if mount_of_device(&read_mounts()?, number).is_some() {
        return Ok(None);
    }
    BlockDevice::by_number(number).map(Some)
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
        assert!(!is_there(DeviceNumber { major: 4095, minor: 1_048_575 }));
    }
}
