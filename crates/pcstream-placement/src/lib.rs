#![doc = include_str!("../README.md")]
//! # Modules
//!
//! One file per scheme, one line per scheme in [`registry`]. A scheme is plain state behind the trait
//! [`Scheme`]: it sees the events of a trace in order and answers each write with streams. What it
//! answers depends on the events so far, the table entries they refer to, and its parameters; never on
//! how events were cut into batches, on wall time or on hash order.

pub mod autostream_mq;
pub mod autostream_sfr;
pub mod baseline;
mod blocks;
mod chunks;
pub mod error;
mod extents;
mod fnv;
pub mod fstream;
pub mod future;
pub mod hints;
mod inherit;
mod level;
mod lru;
pub mod manual;
mod names;
pub mod oracle;
pub mod parameter;
pub mod pcstream;
mod places;
pub mod plus;
mod prefetch;
pub mod registry;
pub mod rules;
pub mod saved_table;
pub mod scheme;
pub mod sequential;
mod size;
#[cfg(test)]
mod testing;

pub use chunks::{Chunk, Span};
pub use error::SchemeError;
pub use fnv::fnv1a;
pub use future::Future;
pub use level::{LevelRule, LogBase};
pub use names::nearest;
pub use parameter::{Environment, ParameterInfo, Parameters, Room, SchemeFactory, factory};
pub use prefetch::Ahead;
pub use registry::{Configured, SchemeInfo, build, configure, find, names, schemes};
pub use rules::{RocksdbLog, Rules, RulesError};
pub use saved_table::SavedTable;
pub use scheme::{ByContext, ContextStream, Placement, Scheme, SchemeFact, Stream};
pub use size::size;
