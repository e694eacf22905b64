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
        /// Pages that can be addressed.
        logical_pages: u64,
    },
    /// More pages would hold data than the device has logical pages.
    #[error(
        "the write of pages {first} to {first}+{pages} needs {live} pages with data at once, and the device has {logical_pages}"
    )]
    Full {
        /// First page of the request.
        first: LogicalPage,
        /// Its length in pages.
        pages: u64,
        /// Pages that would hold data.
        live: u64,
        /// Pages that can.
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
