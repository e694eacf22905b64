//! What is to be run, before any event is seen.
//!
//! A plan splits in two: the lanes that can run while a trace is recorded, and those that look ahead and
//! need the whole trace first.

use std::sync::Arc;

use pcstream_placement::Future;
use pcstream_trace::Extent;

use crate::error::ReplayError;
use crate::replay::{LaneSpec, Replay};

/// Lanes, and what is on their devices before counting.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The lanes; those that look ahead have no future yet.
    pub lanes: Vec<LaneSpec>,
    /// Written before counting.
    pub prefill: Vec<Extent>,
}

impl Plan {
    /// Whether the trace has to be seen once before it is replayed.
    pub fn needs_future(&self) -> bool {
        self.lanes.iter().any(LaneSpec::looks_ahead)
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
        (!lanes.is_empty()).then(|| Plan { lanes, prefill: self.prefill.clone() })
    }

    /// Tells every lane the future; schemes that do not look ahead are not shown it.
    pub fn set_future(&mut self, future: Future) {
        let future = Arc::new(future);
        self.lanes.iter_mut().for_each(|lane| lane.params.future = Some(future.clone()));
    }

    /// The replay, its devices made and prefilled.
    pub fn start(&self) -> Result<Replay, ReplayError> {
        Replay::new(&self.lanes, &self.prefill)
    }
}
