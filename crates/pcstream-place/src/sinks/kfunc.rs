//! `kfunc`: the kernel side gives each request the stream of most of its pages, through the module `pcstream_bio`.
//!
//! It looks streams up in the table that [`stream_table`](super::stream_table) fills.

use super::Usable;
use super::stream_table::several;
use crate::device::{Device, LOAD_MODULE, MODULE};

/// Whether the kernel can choose among streams of the device.
pub fn usable(device: &Device) -> Usable {
    let (name, streams) = (&device.name, several(device)?);
    if !device.kernel_can_choose {
        return Err(format!(
            "{name} has {streams} write streams, but the module {MODULE} is not loaded: {LOAD_MODULE}"
        ));
    }
    Ok(format!("{name} has {streams} write streams, and the module {MODULE} is loaded"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcstream_fs::extents::DeviceNumber;

    #[test]
    fn it_takes_streams_and_the_module() {
        let device = |write_streams, kernel_can_choose| Device {
            number: DeviceNumber { major: 259, minor: 0 },
            name: "nvme0n1".into(),
            write_streams,
            streams_below: None,
            kernel_can_choose,
            raw: false,
            server: None,
            disk: None,
        };
        assert_eq!(
            usable(&device(8, true)),
            Ok("nvme0n1 has 8 write streams, and the module pcstream_bio is loaded".into())
        );
        assert!(usable(&device(8, false)).is_err_and(|why| why.contains("modprobe pcstream_bio")));
        assert!(usable(&device(1, true)).is_err_and(|why| why.contains("1 write stream;")));
    }
}
