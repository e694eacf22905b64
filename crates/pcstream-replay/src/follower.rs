//! Who gets the decisions of a scheme as they are made: a device that carries data, and takes the same.

use pcstream_ssd::{LogicalPage, StreamId};

/// A run of pages that a scheme placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// First page.
    pub first: LogicalPage,
    /// Number of pages.
    pub pages: u32,
    /// Their stream.
    pub stream: StreamId,
}

/// Gets what a lane places.
pub trait Follower: std::fmt::Debug + Send + Sync {
    /// What a batch placed, in the order of its writes.
    fn follow(&self, placed: &[Placed]);
}
