#![doc = include_str!("../README.md")]
//! # Modules
//!
//! [`event`] and [`tables`] are what a trace consists of, [`store`] is the trace on disk, [`generators`]
//! and [`import`] make the same batches from nothing and from public traces. Everything outside `store`
//! does no I/O.

pub mod by_id;
pub mod event;
pub mod generators;
pub mod ids;
pub mod import;
pub mod meta;
mod named;
pub mod paths;
#[cfg(feature = "store")]
pub mod store;
pub mod tables;

pub use by_id::ById;
pub use event::{Event, Kind, Life, Op, WriteHint};
pub use ids::{ContextId, FileId, Lba, PAGE_BYTES, Signature};
pub use meta::{Device, Digest, Exit, Extent, FileSystem, FormatVersion, Meta, Totals};
#[cfg(feature = "store")]
pub use store::{Summary, TraceError, TraceReader, TraceWriter, is_in_trace};
pub use tables::{Batch, Context, File, Frame, Tables, Unwind};
