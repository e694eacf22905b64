//! A victim policy from outside this crate, as a value: a name for results, and what makes its state on each device.

use std::fmt;
use std::sync::Arc;

use super::{Select, Superblocks};

type Make = dyn Fn(&mut Superblocks) -> Box<dyn Select + Send> + Send + Sync;

/// A victim policy of one's own for any number of devices, in place of their
/// [`DeviceSettings::victim`](crate::DeviceSettings::victim) and pools.
#[derive(Clone)]
pub struct OwnVictims {
    name: Arc<str>,
    make: Arc<Make>,
}

impl OwnVictims {
    /// `name` is what results call the policy. `make` gets the superblocks of a device, to which it may add list heads.
    pub fn new(
        name: &str,
        make: impl Fn(&mut Superblocks) -> Box<dyn Select + Send> + Send + Sync + 'static,
    ) -> OwnVictims {
        OwnVictims { name: name.into(), make: Arc::new(make) }
    }

    /// The name in results.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn make(&self, table: &mut Superblocks) -> Box<dyn Select + Send> {
        (self.make)(table)
    }
}

impl fmt::Debug for OwnVictims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnVictims").field("name", &self.name).finish_non_exhaustive()
    }
}
