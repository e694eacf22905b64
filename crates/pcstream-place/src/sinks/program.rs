//! `program`: programs that own a device ask for the stream of a write, and put it into the request themselves.
//!
//! Idea: the BPF program's table of streams is filled as for `kfunc` (`stream_table`), and the numbers are the same. A
//! program that calls `pcstream_stream` (libpcstream/pcstream.h) is given the entry of its call path. No module is needed,
//! and nothing is done to requests; what programs put into them is counted.

use super::stream_table::{self, StreamTableSink, several};
use crate::device::Device;
use crate::sink::{ByRequest, SinkInfo, Usable};

/// Its entry in the registry.
pub const INFO: SinkInfo = SinkInfo {
    name: "program",
    summary: "The write stream that a program which owns the device asks for (pcstream_stream), on an SSD with streams",
    usable,
    streams: stream_table::streams,
    by_request: ByRequest::Programs,
    answers: |_| true,
    make: |_| Ok(Box::new(StreamTableSink::named("program"))),
};

/// Whether programs can ask for streams of the device.
fn usable(device: &Device) -> Usable {
    let name = &device.name;
    if !device.is_raw() {
        return Err(format!(
            "{name} has a file system, which takes no streams from programs: name a device without one"
        ));
    }
    if let Some(why) = device.takes_none_of_programs() {
        return Err(why);
    }
    let streams = several(device)?;
    Ok(format!("{name} has {streams} write streams, which its owner asks for by pcstream_stream"))
}
