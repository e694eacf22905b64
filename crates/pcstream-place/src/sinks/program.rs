//! `program`: programs that own a device ask for the stream of a write, and put it into the request themselves.
//!
//! Idea: the kernel side's table of streams is filled as for `kfunc` (`stream_table`), and the numbers are the same. A
//! program that calls `pcstream_stream` (libpcstream/pcstream.h) is given the entry of its call path. No module is needed,
//! and nothing is done to requests; what programs put into them is counted.

use super::Usable;
use super::stream_table::several;
use crate::device::Device;

/// Whether programs can ask for streams of the device.
pub fn usable(device: &Device) -> Usable {
    let name = &device.name;
    if !device.raw {
        return Err(format!(
            "{name} has a file system, which takes no streams from programs: name a device without one"
        ));
    }
    let streams = several(device)?;
    Ok(format!("{name} has {streams} write streams, which its owner asks for by pcstream_stream"))
}
