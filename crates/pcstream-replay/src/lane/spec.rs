//! What a lane is made of: a scheme, a device, and who else sees it.

use std::sync::Arc;

use pcstream_placement::{Future, SchemeFactory};
use pcstream_ssd::{DeviceSettings, Geometry, GeometryError, OwnVictims};

use crate::device::Clock;
use crate::follower::Follower;

/// What a lane is made of; see the module.
#[derive(Clone, Debug)]
pub struct LaneSpec {
    /// Makes the scheme: one of the registry of `pcstream-placement`, or any other.
    pub scheme: Arc<dyn SchemeFactory>,
    /// The future, if the scheme looks ahead.
    pub future: Option<Arc<Future>>,
    /// The device. All lanes of a replay have the same number of logical pages.
    pub device: DeviceSettings,
    /// A victim policy of one's own, in place of `device.victim` and `device.pools`. Reports know a lane by the names of
    /// its scheme and GC destination: beside a lane with another policy, give the scheme another name.
    pub victims: Option<OwnVictims>,
    /// Gives it a clock.
    pub clock: Option<Clock>,
    /// Gets what the lane places.
    pub follower: Option<Arc<dyn Follower>>,
    /// Whether it keeps the lifetimes of each stream's pages, as is usual: a byte a page, and up to a quarter of the time.
    pub lifetimes: bool,
}

impl LaneSpec {
    /// A scheme on a device without a clock; it does not know the future yet.
    pub fn new(scheme: Arc<dyn SchemeFactory>, device: DeviceSettings) -> LaneSpec {
        LaneSpec { scheme, future: None, device, victims: None, clock: None, follower: None, lifetimes: true }
    }

    /// Whether the scheme needs the future.
    pub fn looks_ahead(&self) -> bool {
        self.scheme.needs_future()
    }

    /// The sizes of the device.
    pub fn geometry(&self) -> Result<Geometry, GeometryError> {
        match &self.victims {
            Some(_) => Geometry::new(&self.device.for_own_victims()),
            None => Geometry::new(&self.device),
        }
    }
}
