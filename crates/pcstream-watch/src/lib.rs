#![doc = include_str!("../README.md")]
//! # Modules
//!
//! [`watch`] counts, [`lifetimes`] follows a sample of the pages, [`learner`] runs the scheme. A [`Snapshot`] is what
//! they know at the end of an interval, and [`rows_by`] adds its rows up: [`text`] and [`json`] write it, [`metrics`] and
//! [`server`] serve it.

pub mod json;
pub mod learner;
pub mod lifetimes;
pub mod metrics;
pub mod placing;
mod rows;
pub mod rows_by;
pub mod server;
pub mod snapshot;
pub mod text;
mod top_files;
pub mod watch;

pub use learner::Learner;
pub use metrics::{About, Metrics};
pub use placing::{Hinted, Placing, WriteStream};
pub use rows_by::RowsBy;
pub use server::Server;
pub use snapshot::{ContextNow, Expected, Flow, Snapshot, SortBy, StreamNow, Who};
pub use watch::{Limits, Watch};
