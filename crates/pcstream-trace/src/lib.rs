//! The trace: events, the tables they refer to, the trace on disk, and generators.
//!
//! This crate knows neither schemes nor devices.

pub mod event;
pub mod ids;
pub mod tables;

pub use event::{Event, Kind, Op};
pub use ids::{ContextId, FileId, Lba, PAGE_BYTES, Signature};
pub use tables::{Batch, Context, File, Frame, Tables, Unwind};
