//! What is to be run, before any event is seen.
//!
//! A plan splits in two: the lanes that can run while a trace is recorded, and those that look ahead and
//! need the whole trace first.

use std::sync::Arc;

use pcstream_placement::Future;
use pcstream_ssd::Density;
use pcstream_trace::{Extent, Lba};

use crate::error::ReplayError;
use crate::lane::LaneSpec;
use crate::replay::Replay;

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

/// The first pages of an address space, as a share of it, for a prefill; nothing where they are less than a page.
pub fn first_pages(logical_pages: u64, share: f64) -> Vec<Extent> {
    let pages = (logical_pages as f64 * share) as u64;
    let extent = Extent { lba: Lba(0), pages };
    if pages == 0 { Vec::new() } else { vec![extent] }
}
