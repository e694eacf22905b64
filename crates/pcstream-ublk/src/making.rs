//! Who may make and remove devices, one process at a time; and the removal of those whose servers were killed.
//!
//! Until a device is started, and has its socket, it looks like that of a server that was killed. So whoever makes one holds a lock on
//! `/run/pcstream/serve.lock` until then, and whoever removes devices holds it, too. The kernel drops it with the process.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use pcstream_system::run_dir::{self, RUN};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::abi::{self, DeviceInfo};
use crate::control::Control;
use crate::error::UblkError;
use crate::link;

const FILE: &str = "serve.lock";

/// The lock, until it is dropped.
#[derive(Debug)]
pub(crate) struct Making {
    _locked: File,
}

impl Making {
    /// Takes the lock. `None`: somebody else has it just now.
    pub fn try_lock() -> Result<Option<Making>, UblkError> {
        Making::lock_in(Path::new(RUN), FlockOperation::NonBlockingLockExclusive)
    }

    /// Waits for the lock. A signal that is not caught ends the process, as always.
    pub fn lock() -> Result<Making, UblkError> {
        loop {
            if let Some(making) = Making::lock_in(Path::new(RUN), FlockOperation::LockExclusive)? {
                return Ok(making);
            }
        }
    }

    fn lock_in(run: &Path, how: FlockOperation) -> Result<Option<Making>, UblkError> {
        run_dir::make(run)?;
        let path = run.join(FILE);
        let failed = |source: io::Error| UblkError::Socket { path: path.clone(), source };
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = options.custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC).open(&path).map_err(failed)?;
        match flock(&file, how) {
            Ok(()) => Ok(Some(Making { _locked: file })),
            Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(None),
            Err(errno) => Err(failed(errno.into())),
        }
    }
}

/// Removes devices whose servers were killed; says which. Waits while somebody makes one. Errors: whether somebody does cannot be said.
pub fn remove_stale(control: &mut Control) -> Result<Vec<String>, UblkError> {
    Ok(remove_dead(control, &Making::lock()?))
}

/// The same for who has the lock.
pub(crate) fn remove_dead(control: &mut Control, making: &Making) -> Vec<String> {
    let (_, stale) = link::all();
    stale.into_iter().filter(|device| remove(control, device, making)).collect()
}

/// What another server makes looks the same: only who has the lock may remove.
pub(crate) fn remove(control: &mut Control, device: &str, _: &Making) -> bool {
    let Some(id) = device.strip_prefix("ublkb").and_then(|id| id.parse().ok()) else { return false };
    let (removed, over) = match control.info(id) {
        Ok(info) if is_stale(&info) => {
            let removed = control.delete(id).is_ok();
            (removed, removed)
        }
        // Its server was killed, and the kernel has not put the device away yet.
        Ok(info) if info.server_flags == abi::OF_PCSTREAM => (false, false),
        // The number is somebody else's by now.
        Ok(_) => (false, true),
        Err(error) => {
            let gone = error.raw_os_error() == Some(libc::ENODEV);
            (gone, gone)
        }
    };
    if over {
        link::forget(device);
    }
    removed
}

/// Whether a device is of a server of this program that is gone. Until a device is started, its state is the same.
fn is_stale(info: &DeviceInfo) -> bool {
    info.state == abi::STATE_DEAD && info.server_flags == abi::OF_PCSTREAM
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn one_at_a_time_makes_or_removes_devices() {
        let run = tempfile::tempdir().expect("a directory");
        std::fs::set_permissions(run.path(), std::fs::Permissions::from_mode(0o755)).expect("set");
        let take =
            || Making::lock_in(run.path(), FlockOperation::NonBlockingLockExclusive).expect("it can be");
        let first = take();
        assert!(first.is_some() && take().is_none());
        drop(first);
        assert!(take().is_some());
    }

    #[test]
    fn devices_of_other_programs_and_running_ones_are_not_stale() {
        let stale = DeviceInfo { server_flags: abi::OF_PCSTREAM, ..DeviceInfo::default() };
        assert!(is_stale(&stale));
        assert!(!is_stale(&DeviceInfo { server_flags: 0, ..stale }), "another program makes it");
        assert!(!is_stale(&DeviceInfo { state: 1, ..stale }), "it is served");
    }
}
