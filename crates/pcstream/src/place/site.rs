//! Where is placed: a mounted file system, or a device without one.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use pcstream_capture::buffers::Probe;
use pcstream_capture::wire::BufferKind;
use pcstream_fs::extents::DeviceNumber;
use pcstream_fs::scratch::{ExistingFs, ScratchError, is_there, is_working, raw_device};
use pcstream_place::device::Device;
use pcstream_place::sink::ByRequest;
use pcstream_place::sinks::Choice;
use pcstream_system::shell;

use crate::failure::Failure;
use crate::ui::Ui;

/// Where is placed.
pub struct Site {
    /// The one that was named, or the device.
    pub directory: PathBuf,
    /// Where the file system is mounted; without one the device. Whoever may rename the directory cannot rename this.
    pub mount_point: PathBuf,
    pub device: Device,
}

impl Site {
    pub fn find(on: &Path) -> Result<Site, Failure> {
        let (directory, mount_point, number, file_system) = match raw_device(on).map_err(Failure::failed)? {
            Some(found) => (found.path.clone(), found.path, found.number, None),
            None => {
                let found = ExistingFs::of(on).map_err(Failure::failed)?;
                (found.directory, found.mount_point, found.device.number, Some(found.fs))
            }
        };
        let device = Device::find(number, file_system)
            .with_context(|| format!("{}: cannot look at its device", on.display()))?;
        Ok(Site { directory, mount_point, device })
    }

    /// Whether what is captured, by the path of its device, is what was found. Errors: it is not, which must not be placed.
    pub fn check(&self, captured: &Path) -> Result<(), String> {
        let on = self.directory.display();
        let there = rustix::fs::stat(captured)
            .map_err(|error| format!("--on {on}: {}: {error}", captured.display()))?;
        if DeviceNumber::from_stat(there.st_rdev) == self.device.number {
            return Ok(());
        }
        let (on, before, now) = (self.directory.clone(), (&self.device.name).into(), captured.to_owned());
        Err(ScratchError::Meanwhile { on, before, now }.to_string())
    }

    /// Whether the file system is still mounted somewhere, and works; without one, whether the device is there.
    pub fn is_there(&self) -> bool {
        let device = self.device.number;
        if self.device.is_raw() {
            return is_there(device);
        }
        is_working(device, &self.mount_point)
    }

    /// What one whose end was seen may have come to.
    pub fn what_is_gone(&self) -> String {
        let unmounted = match self.device.is_raw() {
            false => format!("{} was unmounted, or ", self.mount_point.display()),
            true => String::new(),
        };
        format!("{unmounted}{} failed or is gone", self.device.name)
    }

    /// Whether programs that ask for streams are answered. Says why none will ask, where that is all that the sink can do.
    pub fn answers(&self, probes: &[Probe], choice: &Choice, ui: Ui) -> bool {
        let asked = probes.iter().any(|probe| probe.rule.kind == BufferKind::BUFFER_STREAM.0);
        if !asked && choice.sink.by_request == ByRequest::Programs {
            ui.remark(
                "no program will ask for streams: name one that calls pcstream_stream, or its libpcstream.so, by \
                 --write-buffers",
            );
        }
        if asked
            && self.device.is_raw()
            && let Some(why) = self.device.takes_none_of_programs()
        {
            ui.remark(&format!("programs that ask for streams are given none: {why}"));
        }
        asked && (choice.sink.answers)(&self.device)
    }
}

/// What the user should know of a file system whose placer was killed, and left hints there.
pub fn hints_left(mount_point: &Path) -> String {
    format!(
        "files of {} may have hints of a placer that was killed; take them back: pcstream place --on {} --sink hints -- true",
        mount_point.display(),
        shell::word(mount_point)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcstream_fs::scratch::FsKind;

    #[test]
    fn the_command_that_takes_hints_back_can_be_copied() {
        let said = hints_left(Path::new("/mnt/m f"));
        assert!(
            said.starts_with("files of /mnt/m f may") && said.contains(" --on '/mnt/m f' --sink hints"),
            "{said}"
        );
    }

    #[test]
    fn another_device_than_was_found_is_refused() {
        let place = |minor| Site {
            directory: "/mnt".into(),
            mount_point: "/mnt".into(),
            device: Device {
                number: DeviceNumber { major: 1, minor },
                name: "first".into(),
                file_system: Some(FsKind::Ext4),
                ..Device::default()
            },
        };
        // Its number is 1:3 everywhere.
        let null = Path::new("/dev/null");
        assert_eq!(place(3).check(null), Ok(()));
        let error = place(5).check(null).expect_err("another device");
        assert!(error.contains("/mnt") && error.contains("first") && error.contains("/dev/null"), "{error}");
    }
}
