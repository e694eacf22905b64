//! `doctor PATH`: what `place` can do for one file system or device, and what would make it better.

use std::path::Path;

use pcstream_capture::doctor::{Check, Verdict};
use pcstream_fs::layout::check_readable;
use pcstream_fs::scratch::hidden_writers;
use pcstream_place::device::Device;
use pcstream_place::sink::ByRequest;
use pcstream_place::sinks::{self, Choice, stream_table};

use crate::failure::Failure;
use crate::place::site::Site;
use crate::whole_file;

/// What is there. A file stands for its directory.
pub fn examine(path: &Path) -> Result<[Check; 2], Failure> {
    let place = Site::find(if path.is_file() { whole_file::parent(path) } else { path })?;
    let choice = sinks::choose("auto", &place.device).map_err(Failure::failed)?;
    let mut device = device(&place, hidden_writers(&place.directory));
    let mut placing = placing(&place.device, &choice);
    if let Err(error) = check_readable(&Path::new("/dev").join(&place.device.name)) {
        (device.verdict, device.remedy) = (Verdict::Missing, error.to_string());
        placing = Check {
            verdict: Verdict::Missing,
            found: "no sink while the device cannot be read".into(),
            ..placing
        };
    }
    Ok([device, placing])
}

/// What lies between the path and its disk, and the streams of that. `hidden`: what should be known of a file system on it that
/// is not mounted here.
fn device(place: &Site, hidden: Option<String>) -> Check {
    let Device { name, disk, write_streams, streams_below, .. } = &place.device;
    let layers = match (disk, streams_below) {
        (None, _) => "a volume that is encrypted or on several disks".to_owned(),
        (Some(disk), _) if disk == name => "a whole disk".to_owned(),
        (Some(disk), None) => format!("a partition of {disk}"),
        (Some(disk), Some(_)) => format!("a volume on {disk}"),
    };
    let streams = match write_streams {
        0..=1 => stream_table::too_few(*write_streams).to_owned(),
        several => format!("{several} write streams"),
    };
    let held = match place.device.file_system {
        Some(kind) => format!("{kind}, mounted at {}", place.mount_point.display()),
        None => "no mounted file system".to_owned(),
    };
    let found = format!("{name}, {layers}, has {streams}; {held}");
    let verdict = if hidden.is_some() { Verdict::Limited } else { Verdict::Good };
    Check { name: "device", verdict, found, remedy: hidden.unwrap_or_default() }
}

/// The sink that `place` takes, its streams, and what each better one lacks.
fn placing(device: &Device, choice: &Choice) -> Check {
    let last = (choice.sink.streams)(device) - 1;
    let by_request = choice.sink.by_request != ByRequest::No;
    Check {
        name: "place",
        verdict: if by_request { Verdict::Good } else { Verdict::Limited },
        found: format!("sink {}, streams S0 to S{last}: {}", choice.sink.name, choice.why),
        remedy: choice.against.join("\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcstream_fs::extents::DeviceNumber;
    use pcstream_fs::scratch::FsKind;

    fn said(name: &str, disk: Option<&str>, change: impl FnOnce(&mut Site)) -> [String; 3] {
        let device = Device {
            number: DeviceNumber { major: 259, minor: 1 },
            name: name.into(),
            disk: disk.map(Into::into),
            write_streams: 8,
            file_system: Some(FsKind::Xfs),
            kernel_can_choose: true,
            ..Device::default()
        };
        let mount_point = Path::new("/srv").to_owned();
        let directory = mount_point.clone();
        let mut place = Site { directory, mount_point, device };
        change(&mut place);
        let choice = sinks::choose("auto", &place.device).expect("there always is one");
        let placing = placing(&place.device, &choice);
        [super::device(&place, None).found, placing.found, placing.remedy]
    }

    #[test]
    fn what_lies_between_and_the_best_sink_are_said() {
        let [device, placing, remedy] = said("nvme0n1p1", Some("nvme0n1"), |_| ());
        assert_eq!(device, "nvme0n1p1, a partition of nvme0n1, has 8 write streams; xfs, mounted at /srv");
        assert!(placing.starts_with("sink kfunc, streams S0 to S7: "), "{placing}");
        assert_eq!(remedy, "");
        let volume =
            |place: &mut Site| place.device.streams_below = Some(DeviceNumber { major: 259, minor: 1 });
        assert!(said("dm-0", Some("nvme0n1"), volume)[0].starts_with("dm-0, a volume on nvme0n1, has 8"));
        let encrypted = |place: &mut Site| place.device.write_streams = 0;
        let [device, placing, remedy] = said("dm-0", None, encrypted);
        assert!(device.contains("a volume that is encrypted or on several disks, has no write"), "{device}");
        assert!(placing.starts_with("sink hints, streams S0 to S4: "), "{placing}");
        assert!(remedy.lines().all(|line| line.starts_with("not ")), "{remedy}");
        let raw = |place: &mut Site| {
            place.device.file_system = None;
            place.device.kernel_can_choose = false;
        };
        let [device, placing, remedy] = said("nvme0n1", Some("nvme0n1"), raw);
        assert_eq!(device, "nvme0n1, a whole disk, has 8 write streams; no mounted file system");
        assert!(placing.starts_with("sink program, streams S0 to S7: "), "{placing}");
        assert!(remedy.contains("modprobe pcstream_bio") && remedy.lines().count() == 2, "{remedy}");
    }
}
