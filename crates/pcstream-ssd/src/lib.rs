//! A multi-streamed SSD: geometry, page-mapped FTL, victim selection, streams and internal streams.
//!
//! ```
//! use pcstream_ssd::{DeviceSettings, LogicalPage, Ssd, StreamId};
//!
//! let settings = DeviceSettings { logical_pages: 1 << 16, streams: 4, ..DeviceSettings::default() };
//! let mut ssd = Ssd::new(&settings)?;
//! ssd.prefill(LogicalPage(0), 1 << 16)?;
//! ssd.start_counting();
//! ssd.write(LogicalPage(42), 8, StreamId(1))?;
//! assert_eq!(ssd.counters().host_pages, 8);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The crate does no I/O, reads no clock, and knows nothing of where stream numbers come from. The
//! same settings, seed and writes always give the same decisions. Pages are 4 KiB throughout.

pub mod analytic;
pub mod background;
pub mod counters;
pub mod endurance;
pub mod fdp;
pub mod ftl;
pub mod geometry;
pub mod ids;
pub mod latency;
pub mod memory;
pub mod observer;
pub mod profile;

mod names;
#[cfg(any(test, feature = "reference"))]
pub mod reference;
pub mod resources;
pub mod settings;
pub mod steady_state;
pub mod timing;
mod verify;
pub mod victim;

pub use background::Watermarks;
pub use counters::{Counters, StreamCounters};
pub use ftl::{IoError, Ssd};
pub use geometry::{Geometry, GeometryError};
pub use ids::{LogicalPage, StreamId, SuperblockId};
pub use memory::{Density, OutOfMemory, Table};
pub use names::UnknownName;
pub use observer::{NoObserver, Observer};
pub use profile::Profile;
pub use resources::{OverBudget, Resources};
pub use settings::{DeviceSettings, GcDestination, Spare};
pub use verify::Violation;
pub use victim::{Select, Superblocks, VictimPolicy};
