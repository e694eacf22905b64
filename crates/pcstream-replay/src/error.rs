//! What can go wrong in a replay, each with place, value and bound.

use pcstream_trace::ContextId;

/// A replay cannot be set up or go on.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// There is nothing to run.
    #[error("no scheme was given: a replay needs at least one lane")]
    NoLanes,
    /// The system starts no more threads.
    #[error(
        "no thread can be started ({0}): raise the limit of processes (ulimit -u, or pids.max of the control group)"
    )]
    Threads(String),
    /// The device cannot be made.
    #[error(transparent)]
    Device(#[from] pcstream_ssd::GeometryError),
    /// The device's clock cannot be made.
    #[error(transparent)]
    Timing(#[from] pcstream_ssd::timing::TimingError),
    /// The scheme cannot be made.
    #[error(transparent)]
    Scheme(#[from] pcstream_placement::SchemeError),
    /// The trace is too long for schemes that look ahead.
    #[error(transparent)]
    Future(#[from] pcstream_placement::future::FutureTooLong),
    /// Lanes of one replay must agree on the size of the device.
    #[error("lanes disagree on the device: {first} and {other} logical pages")]
    LogicalPages {
        /// Of the first lane.
        first: u64,
        /// Of another.
        other: u64,
    },
    /// A prefilled extent lies outside the device, or twice inside it.
    #[error("prefill extent of {pages} pages at page {first}: {problem}")]
    Prefill {
        /// First page of the extent.
        first: u64,
        /// Its pages.
        pages: u64,
        /// What is wrong.
        problem: String,
    },
    /// An event lies outside the device.
    #[error(
        "event {event}: {op} of {pages} pages at page {lba}, but the device has {logical_pages} logical pages"
    )]
    BeyondDevice {
        /// Number of the event in the trace, from 0.
        event: u64,
        /// Its operation.
        op: &'static str,
        /// Its first page.
        lba: u64,
        /// Its length.
        pages: u32,
        /// Size of the device.
        logical_pages: u64,
    },
    /// More pages would hold data than the device can hold.
    #[error(
        "event {event}: {live} pages would hold data at once, but the device has {logical_pages} logical pages"
    )]
    Full {
        /// Number of the event in the trace, from 0.
        event: u64,
        /// Pages that would hold data.
        live: u64,
        /// Pages that can.
        logical_pages: u64,
    },
    /// An event of no pages.
    #[error("event {event}: {op} of 0 pages at page {lba}")]
    NoPages {
        /// Number of the event in the trace, from 0.
        event: u64,
        /// Its operation.
        op: &'static str,
        /// Its first page.
        lba: u64,
    },
    /// An event refers to a context that is not in the tables.
    #[error("event {event}: context {} is unknown, the table ends at {known}", context.0)]
    UnknownContext {
        /// Number of the event in the trace, from 0.
        event: u64,
        /// What it refers to.
        context: ContextId,
        /// Contexts known when the event came.
        known: usize,
    },
    /// An event refers to a file that is not in the tables.
    #[error("event {event}: file {file} is unknown, the table ends at {known}")]
    UnknownFile {
        /// Number of the event in the trace, from 0.
        event: u64,
        /// What it refers to.
        file: u32,
        /// Files known when the event came.
        known: usize,
    },
    /// A table entry whose id is not the next one.
    #[error("the trace's {table} table continues with id {found}, expected {expected}")]
    TableOrder {
        /// `contexts` or `files`.
        table: &'static str,
        /// Id found.
        found: u32,
        /// Id expected.
        expected: usize,
    },
    /// More than the replay can number.
    #[error("event {event}: more than {limit} {what}; split the trace")]
    TooLarge {
        /// Number of the event in the trace, from 0.
        event: u64,
        /// `pages of host writes`, `contexts` or `nanoseconds since its beginning`.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
}
