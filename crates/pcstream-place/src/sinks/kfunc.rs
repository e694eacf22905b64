//! `kfunc`: the BPF program gives each request the stream of most of its pages, through a function of the kernel. The module
//! `pcstream_bio` adds it, or the patch in `kmod/upstream`.
//!
//! It looks streams up in the table that [`stream_table`] fills.

use super::stream_table::{self, StreamTableSink, several};
use crate::device::{Device, LOAD_MODULE, MODULE};
use crate::sink::{ByRequest, SinkInfo, Usable};

/// Its entry in the registry.
pub const INFO: SinkInfo = SinkInfo {
    name: "kfunc",
    summary: "The write stream of each request, by the kernel module pcstream_bio, on an SSD with streams (FDP)",
    usable,
    streams: stream_table::streams,
    by_request: ByRequest::Module,
    answers: |device| device.is_raw() && device.takes_none_of_programs().is_none(),
    make: |_| Ok(Box::new(StreamTableSink::named("kfunc"))),
};

/// Whether the kernel can choose among streams of the device.
fn usable(device: &Device) -> Usable {
    let (name, streams) = (&device.name, several(device)?);
    // A stream that a file system chose stays.
    if device.has_streams_of_its_file_system() {
        return Err(format!("F2FS gives the requests to {name} streams itself, by the hints of their files"));
    }
    if !device.kernel_can_choose {
        return Err(format!(
            "{name} has {streams} write streams, but the module {MODULE} is not loaded: {LOAD_MODULE}"
        ));
    }
    Ok(format!("{name} has {streams} write streams, and BPF can choose among them"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcstream_fs::extents::DeviceNumber;
    use pcstream_fs::scratch::FsKind;

    #[test]
    fn it_takes_streams_and_the_module() {
        let device = |write_streams, kernel_can_choose| Device {
            number: DeviceNumber { major: 259, minor: 0 },
            name: "nvme0n1".into(),
            write_streams,
            kernel_can_choose,
            file_system: Some(FsKind::Ext4),
            ..Device::default()
        };
        assert_eq!(
            usable(&device(8, true)),
            Ok("nvme0n1 has 8 write streams, and BPF can choose among them".into())
        );
        assert!(usable(&device(8, false)).is_err_and(|why| why.contains("modprobe pcstream_bio")));
        assert!(usable(&device(1, true)).is_err_and(|why| why.contains("1 write stream;")));
        let f2fs = |linux, disk: &str| {
            let file_system = Some(FsKind::F2fs);
            usable(&Device { file_system, linux, disk: Some(disk.into()), ..device(8, true) })
        };
        assert!(f2fs((7, 2), "nvme0n1").is_err_and(|why| why.contains("F2FS gives the requests")));
        // Before Linux 7.2, and on a part of a disk, F2FS gives none.
        assert!(f2fs((7, 1), "nvme0n1").is_ok() && f2fs((7, 2), "nvme0").is_ok());
    }
}
