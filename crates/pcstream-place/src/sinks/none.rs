//! `none`: a dry run. The summary says what would be done; nothing is.
//!
//! On a device without a file system and without streams, programs that ask (`pcstream_stream`) are given the streams that they
//! would have: no request can carry them. On one with streams they are given none, or something would be done.

use std::io;

use super::stream_table::StreamTableSink;
use crate::device::Device;
use crate::sink::{ByRequest, Sink, SinkInfo, SinkInputs};

/// Its entry in the registry. The streams are those where no other sink works, the default included.
pub const INFO: SinkInfo = SinkInfo {
    name: NAME,
    summary: "A dry run: says per context and file what would be done",
    usable: |_| Ok("a dry run".to_owned()),
    streams: |_| STREAMS,
    by_request: ByRequest::No,
    answers,
    make,
};
const NAME: &str = "none";
const STREAMS: u8 = 8;

/// Does nothing.
#[derive(Debug, Default)]
pub struct Nothing;

impl Sink for Nothing {
    fn name(&self) -> &'static str {
        NAME
    }
}

/// Whether programs that ask are given streams.
fn answers(device: &Device) -> bool {
    device.is_raw() && device.write_streams < 2
}

/// Makes it.
fn make(inputs: SinkInputs) -> io::Result<Box<dyn Sink>> {
    if answers(&inputs.device) { Ok(Box::new(StreamTableSink::named(NAME))) } else { Ok(Box::new(Nothing)) }
}
