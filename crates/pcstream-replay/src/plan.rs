//! What is to be run, before any event is seen.
//!
//! A plan splits in two: the lanes that can run while a trace is recorded, and those that look ahead and
//! need the whole trace first.

use std::sync::Arc;

use pcstream_placement::{Future, SchemeFactory};
use pcstream_ssd::{Density, DeviceSettings};
use pcstream_trace::{Extent, Lba};

use crate::device::Clock;
use crate::error::ReplayError;
use crate::lane::LaneSpec;
use crate::replay::Replay;
use crate::space::Space;

/// Lanes, and what is on their devices before counting.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The lanes; those that look ahead have no future yet.
    pub lanes: Vec<LaneSpec>,
    /// Written before counting.
    pub prefill: Vec<Extent>,
    /// How much of the devices will be written.
    pub density: Density,
    /// Whether the first lane's scheme alone is of interest, and no device is modelled.
    pub without_devices: bool,
}

impl Plan {
    /// Whether the trace has to be seen once before it is replayed.
    pub fn needs_future(&self) -> bool {
        self.lanes.iter().any(|lane| lane.looks_ahead() && lane.future.is_none())
    }

    /// The lanes that can run while the trace is recorded; `None` if there are none.
    pub fn online(&self) -> Option<Plan> {
        self.only(|lane| !lane.looks_ahead())
    }

    /// The lanes that need the whole trace first; `None` if there are none.
    pub fn lookahead(&self) -> Option<Plan> {
        self.only(LaneSpec::looks_ahead)
    }

    fn only(&self, wanted: impl Fn(&LaneSpec) -> bool) -> Option<Plan> {
        let lanes: Vec<_> = self.lanes.iter().filter(|lane| wanted(lane)).cloned().collect();
        (!lanes.is_empty()).then(|| Plan { lanes, ..self.clone() })
    }

    /// Tells every lane the future; schemes that do not look ahead are not shown it.
    pub fn set_future(&mut self, future: Future) {
        self.share_future(&Arc::new(future));
    }

    /// As `set_future`, with one that others have, too.
    pub fn share_future(&mut self, future: &Arc<Future>) {
        self.lanes.iter_mut().for_each(|lane| lane.future = Some(future.clone()));
    }

    /// The future, if the lanes know it.
    pub fn future(&self) -> Option<Arc<Future>> {
        self.lanes.iter().find_map(|lane| lane.future.clone())
    }

    /// The replay, its devices made and prefilled.
    pub fn start(&self) -> Result<Replay, ReplayError> {
        match self.lanes.first() {
            Some(lane) if self.without_devices => Replay::without_devices(lane),
            _ => Replay::with_density(&self.lanes, &self.prefill, self.density),
        }
    }
}

/// Every scheme on each of the devices, in this order, with the addresses of the space that the trace was moved to, if it was.
pub fn lanes(
    schemes: &[Arc<dyn SchemeFactory>],
    devices: &[DeviceSettings],
    clock: Option<&Clock>,
    space: Option<&Space>,
) -> Vec<LaneSpec> {
    let on = |device: &DeviceSettings| space.map_or(device.clone(), |space| space.on(device));
    let lane = |scheme: &Arc<dyn SchemeFactory>, device| LaneSpec {
        clock: clock.cloned(),
        ..LaneSpec::new(scheme.clone(), on(device))
    };
    schemes.iter().flat_map(|scheme| devices.iter().map(move |device| lane(scheme, device))).collect()
}

/// What is on a device of `logical_pages` before counting: this share of it, from its first page on. Without a share,
/// what was on the recorded device, `prefilled`, or what is left of it in the space that the trace was moved to.
pub fn prefill(
    share: Option<f64>,
    space: Option<&Space>,
    prefilled: &[Extent],
    logical_pages: u64,
) -> Vec<Extent> {
    match (share, space) {
        (None, Some(space)) => space.prefill.clone(),
        (None, None) => prefilled.to_vec(),
        (Some(share), _) => match (logical_pages as f64 * share) as u64 {
            0 => Vec::new(),
            pages => vec![Extent { lba: Lba(0), pages }],
        },
    }
}
