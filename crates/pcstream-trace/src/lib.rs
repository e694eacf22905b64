//! The trace: events, the tables they refer to, the trace on disk, generators, and importers of
//! public traces.
//!
//! This crate knows neither schemes nor devices. Everything outside `store` does no I/O; `store`
//! (the trace on disk, with arrow and parquet) is a default feature that pure consumers of events
//! leave out.

pub mod event;
pub mod generators;
pub mod ids;
pub mod import;
pub mod meta;
#[cfg(feature = "store")]
pub mod store;
pub mod tables;

pub use event::{Event, Kind, Op};
pub use ids::{ContextId, FileId, Lba, PAGE_BYTES, Signature};
pub use meta::{Device, Digest, Exit, Extent, FileSystem, FormatVersion, Meta, Totals};
#[cfg(feature = "store")]
pub use store::{Summary, TraceError, TraceReader, TraceWriter};
pub use tables::{Batch, Context, File, Frame, Tables, Unwind};
