//! `fdp-server`: `pcstream serve` is between the file system and the disk, and writes each page with its stream.
//!
//! Idea: the BPF program chooses streams as for `kfunc`, by the same table (`stream_table`), and notes them by page for
//! the server. Nothing is added to the kernel: io_uring carries a stream to a raw disk.

use super::stream_table::{StreamTableSink, of_scheme};
use crate::device::Device;
use crate::sink::{ByRequest, SinkInfo, Usable};

/// Its entry in the registry.
pub const INFO: SinkInfo = SinkInfo {
    name: "fdp-server",
    summary: "The same without a module, by `pcstream serve` between the file system and the SSD",
    usable,
    streams,
    by_request: ByRequest::Server,
    answers: |_| false,
    make: |_| Ok(Box::new(StreamTableSink::named("fdp-server"))),
};

/// Whether a server is in front of the device's disk.
fn usable(device: &Device) -> Usable {
    match &device.server {
        Some(Ok(server)) => Ok(format!(
            "/dev/{} is served by pcstream serve, in front of {} with {} write streams",
            server.device, server.disk, server.streams
        )),
        Some(Err(why)) => {
            Err(format!("the server of {} cannot be used: {why}; start pcstream serve again", device.name))
        }
        None if device.write_streams > 1 => {
            let disk = device.disk.as_ref().unwrap_or(&device.name);
            Err(format!(
                "{} is not served: unmount it, run pcstream serve /dev/{disk}, and mount the device that it makes",
                device.name
            ))
        }
        None => Err(format!("{} is no device of pcstream serve", device.name)),
    }
}

/// Streams that a scheme has: S0 takes the disk's first, where writes without a stream go.
fn streams(device: &Device) -> u8 {
    let served = device.server.as_ref().and_then(|answer| answer.as_ref().ok());
    of_scheme(served.map_or(0, |server| server.streams))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcstream_fs::extents::DeviceNumber;
    use pcstream_fs::scratch::FsKind;
    use pcstream_ublk::Served;

    #[test]
    fn a_device_of_a_server_has_the_streams_of_its_disk() {
        let served = |streams| Ok(Served { device: "ublkb0".into(), disk: "nvme0n1".into(), streams });
        let device = |write_streams, server| Device {
            number: DeviceNumber { major: 259, minor: 4 },
            name: "ublkb0p1".into(),
            disk: Some("ublkb0".into()),
            write_streams,
            file_system: Some(FsKind::Ext4),
            server,
            ..Device::default()
        };
        let why = usable(&device(0, Some(served(8)))).expect("it is served");
        assert!(why.contains("/dev/ublkb0") && why.contains("nvme0n1 with 8"), "{why}");
        assert_eq!([2, 8, 128].map(|count| streams(&device(0, Some(served(count))))), [2, 8, 16]);
        assert!(usable(&device(0, None)).expect_err("not served").contains("no device of pcstream serve"));
        let remedy = usable(&device(8, None)).expect_err("not served");
        assert!(remedy.contains("pcstream serve /dev/ublkb0"), "{remedy}");
        let why = usable(&device(8, Some(Err("another version".into())))).expect_err("it is served, but");
        assert!(why.contains("server of ublkb0p1") && why.contains("another version"), "{why}");
    }
}
