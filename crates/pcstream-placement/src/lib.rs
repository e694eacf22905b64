//! Placement schemes: one file per scheme, one line per scheme in the registry.
//!
//! No I/O here, and no knowledge of the device but its number of streams.

pub mod scheme;

pub use scheme::{Placement, Scheme, SchemeFact, Stream};
