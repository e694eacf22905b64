//! What servers leave that were killed.

use crate::abi::{self, DeviceInfo};
use crate::control::Control;
use crate::link;

/// Removes devices whose servers were killed; says which.
pub fn remove_stale(control: &mut Control) -> Vec<String> {
    let (_, stale) = link::all();
    stale.into_iter().filter(|device| remove(control, device)).collect()
}

pub(crate) fn remove(control: &mut Control, device: &str) -> bool {
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
    use super::*;

    #[test]
    fn devices_of_other_programs_and_running_ones_are_not_stale() {
        let stale = DeviceInfo { server_flags: abi::OF_PCSTREAM, ..DeviceInfo::default() };
        assert!(is_stale(&stale));
        assert!(!is_stale(&DeviceInfo { server_flags: 0, ..stale }), "another program makes it");
        assert!(!is_stale(&DeviceInfo { state: 1, ..stale }), "it is served");
    }
}
