//! `none`: a dry run. The summary says what would be done; nothing is.
//!
//! On a device without a file system and without streams, programs that ask (`pcstream_stream`) are given the streams that they
//! would have: no request can carry them. On one with streams they are given none, or something would be done.

use std::io;

use super::SinkInputs;
use super::stream_table::StreamTableSink;
use crate::device::Device;
use crate::sink::Sink;

/// The name in the registry.
const NAME: &str = "none";

/// Does nothing.
#[derive(Debug, Default)]
pub struct Nothing;

impl Sink for Nothing {
    fn name(&self) -> &'static str {
        NAME
    }
}

/// Whether programs that ask are given streams.
pub fn answers(device: &Device) -> bool {
    device.raw && device.write_streams < 2
}

/// Makes it.
pub fn make(inputs: SinkInputs) -> io::Result<Box<dyn Sink>> {
    if answers(&inputs.device) { Ok(Box::new(StreamTableSink::named(NAME))) } else { Ok(Box::new(Nothing)) }
}
