//! Requests that the device refuses.

use crate::ids::{LogicalPage, StreamId};

/// A request that the device refuses. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IoError {
    /// The request goes beyond the logical pages.
    #[error(
        "pages {first} to {first}+{pages} are beyond the device's {logical_pages} logical pages: \
         the trace needs a larger device"
    )]
    OutOfRange {
        /// First page of the request.
        first: LogicalPage,
        /// Its length in pages.
        pages: u64,
        /// Size of the device.
        logical_pages: u64,
    },
    /// The stream number is not one of the device's.
    #[error("stream {stream} does not exist: the device has {streams} streams, S0 to S{}", streams - 1)]
    NoSuchStream {
        /// As given.
        stream: StreamId,
        /// Streams of the device, S0 included.
        streams: u8,
    },
    /// S0 is always open.
    #[error("S0 is the default stream and cannot be closed")]
    DefaultStream,
}
