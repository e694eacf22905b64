#![doc = include_str!("../README.md")]
//! # Modules
//!
//! [`settings`] are checked by [`geometry`]; [`ftl`] is the device, [`victim`] what its garbage collection
//! empties next, [`timing`] how long all of it takes. With the feature `reference`, `reference` and
//! `analytic` have what tests compare with: a slow FTL, and closed forms.

#[cfg(any(test, feature = "reference"))]
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
pub mod request;
pub mod resources;
pub mod settings;
pub mod steady_state;
pub mod timing;
mod verify;
pub mod victim;

pub use background::Watermarks;
pub use counters::{Counters, StreamCounters};
pub use ftl::{IoError, Ssd};
pub use geometry::{Geometry, GeometryError, MAX_OVERPROVISIONING};
pub use ids::{LogicalPage, StreamId, SuperblockId};
pub use memory::{Density, OutOfMemory, Table};
pub use names::UnknownName;
pub use observer::{NoObserver, Observer};
pub use profile::Profile;
pub use request::{Base, DeviceRequest, Devices, RequestError};
pub use resources::{OverBudget, Resources};
pub use settings::{DeviceSettings, GcDestination, Spare};
pub use verify::Violation;
pub use victim::{OwnVictims, Select, Superblocks, VictimInfo, VictimParameter, VictimPolicy};
