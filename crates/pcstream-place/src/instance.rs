//! One placer per device: a second one would give the same files other hints.
//!
//! Idea: a lock (`lock.rs`) on a file in `/run/pcstream`.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use pcstream_fs::extents::DeviceNumber;
use pcstream_system::run_dir::{self, RUN, RunDirError};
use thiserror::Error;

use crate::lock::{self, Lock, NotLocked};

/// Why a device cannot be claimed.
#[derive(Debug, Error)]
pub enum InstanceError {
    /// Somebody else has it.
    #[error(
        "device {device} has a placer already (process {holder}): stop it first, or place on another device"
    )]
    Taken {
        /// The device.
        device: DeviceNumber,
        /// Its process id, as it said.
        holder: String,
    },
    /// The directory cannot be made, or is not only this user's.
    #[error(transparent)]
    RunDir(#[from] RunDirError),
    /// The file cannot be made or locked.
    #[error("cannot lock {path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Devices whose placer was killed and may have left hints. Other users than root learn of none.
pub fn left_with_hints() -> Vec<DeviceNumber> {
    left_in(Path::new(RUN))
}

fn left_in(directory: &Path) -> Vec<DeviceNumber> {
    let names = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let device = |name: OsString| {
        let (major, minor) =
            name.to_str()?.strip_prefix("place-")?.strip_suffix(".hints")?.split_once('-')?;
        Some(DeviceNumber { major: major.parse().ok()?, minor: minor.parse().ok()? })
    };
    // A placer that runs has them still.
    let left = |&device: &DeviceNumber| {
        let path = lock_path(directory, device);
        !lock::is_held(&path) && path.with_extension("hints").metadata().is_ok_and(|file| file.len() > 0)
    };
    let mut devices: Vec<_> = names.filter_map(device).filter(left).collect();
    devices.sort_unstable();
    devices
}

/// Whether a device has a placer.
pub fn is_claimed(device: DeviceNumber) -> bool {
    lock::is_held(&lock_path(Path::new(RUN), device))
}

fn lock_path(directory: &Path, device: DeviceNumber) -> PathBuf {
    let DeviceNumber { major, minor } = device;
    directory.join(format!("place-{major}-{minor}.lock"))
}

/// A claim to a device, until it is dropped.
#[derive(Debug)]
pub struct Instance {
    given: PathBuf,
    lock: Lock,
}

impl Instance {
    /// Claims a device.
    pub fn claim(device: DeviceNumber) -> Result<Instance, InstanceError> {
        Instance::claim_in(Path::new(RUN), device)
    }

    /// The directory of all claims.
    pub fn directory(&self) -> &Path {
        self.lock.path().parent().unwrap_or(Path::new(RUN))
    }

    /// Where the holder of the claim hands out its answers to programs.
    pub fn answers(&self) -> PathBuf {
        self.lock.path().with_extension("sock")
    }

    /// Where the holder of the claim writes down hints that were given: the next one finds the file.
    pub fn given(&self) -> &Path {
        &self.given
    }

    fn claim_in(directory: &Path, device: DeviceNumber) -> Result<Instance, InstanceError> {
        let path = lock_path(directory, device);
        let given = path.with_extension("hints");
        let error = |source| InstanceError::Io { path: path.clone(), source };
        run_dir::make(directory)?;
        match Lock::take(&path) {
            Ok(lock) => Ok(Instance { given, lock }),
            Err(NotLocked::Held(holder)) => Err(InstanceError::Taken { device, holder }),
            Err(NotLocked::Io(source)) => Err(error(source)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn number(major: u32, minor: u32) -> DeviceNumber {
        DeviceNumber { major, minor }
    }

    fn claim(directory: &Path, major: u32, minor: u32) -> Result<Instance, InstanceError> {
        Instance::claim_in(directory, number(major, minor))
    }

    #[test]
    fn a_device_is_claimed_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let run = dir.path().join("run");
        let first = claim(&run, 8, 1).expect("it is free");
        let error = claim(&run, 8, 1).expect_err("it is taken").to_string();
        assert!(error.contains("8:1") && error.contains(&std::process::id().to_string()), "{error}");
        let other = claim(&run, 8, 2).expect("another device");
        drop(first);
        assert!(!run.join("place-8-1.lock").exists());
        drop(claim(&run, 8, 1).expect("it is free again"));
        drop(other);
        assert_eq!(std::fs::read_dir(&run).expect("it is there").count(), 0);
    }

    #[test]
    fn a_file_without_a_lock_is_taken_over() {
        let dir = tempfile::tempdir().expect("a directory");
        let run = dir.path().join("run");
        run_dir::make(&run).expect("a directory");
        std::fs::write(run.join("place-8-1.lock"), "123456789\n").expect("written");
        let _claimed = claim(&run, 8, 1).expect("its holder is gone");
        let text = std::fs::read_to_string(run.join("place-8-1.lock")).expect("it is there");
        assert_eq!(text.trim(), std::process::id().to_string());
    }

    #[test]
    fn hints_are_left_where_no_placer_runs() {
        let dir = tempfile::tempdir().expect("a directory");
        let run = dir.path().join("run");
        let runs = claim(&run, 8, 1).expect("it is free");
        for name in ["place-8-1.hints", "place-259-0.hints", "place-8-2.lock", "place-x-1.hints"] {
            std::fs::write(run.join(name), "1 7 0 2\n").expect("written");
        }
        // A placer that failed before it gave any.
        std::fs::write(run.join("place-8-3.hints"), "").expect("written");
        assert_eq!(left_in(&run), [number(259, 0)]);
        assert!(!run.join("place-259-0.lock").exists());
        drop(runs);
        assert_eq!(left_in(&run), [number(8, 1), number(259, 0)]);
        assert_eq!(left_in(&dir.path().join("none")), []);
    }

    #[test]
    fn a_directory_that_others_can_change_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).expect("set");
        assert!(matches!(claim(dir.path(), 8, 1), Err(InstanceError::RunDir(_))));
    }
}
