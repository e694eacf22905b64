//! A plan whose lanes do not fit into memory at once, in several passes over the trace.
//!
//! Invariant: results are those of one pass. The future, if a scheme looks ahead, is found out once.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use pcstream_placement::Future;
use pcstream_ssd::Density;

use crate::lane::LaneResult;
use crate::plan::Plan;
use crate::recorded::Recorded;
use crate::replay::Replay;

/// What all lanes together came to.
pub struct Fitted {
    /// By lane, in the order of the plan.
    pub results: Vec<LaneResult>,
    /// The last pass: what is the same for every lane.
    pub replay: Replay,
    /// What schemes learned that can be saved, by scheme.
    pub learned: BTreeMap<String, Vec<u8>>,
    /// Why reading ended early, if it did.
    pub damage: Option<String>,
}

/// Lanes of a plan that run at once.
pub struct Groups {
    /// In the order of the plan; at least one group.
    pub lanes: Vec<Range<usize>>,
    /// How their tables are best made.
    pub density: Density,
    /// Bytes that all lanes at once would take.
    pub total: u64,
}

impl Groups {
    /// Of at most so many lanes each.
    pub fn at_most(self, count: usize) -> Groups {
        let cut = |group: Range<usize>| {
            let starts = group.clone().step_by(count);
            starts.map(move |start| start..group.end.min(start + count))
        };
        Groups { lanes: self.lanes.into_iter().flat_map(cut).collect(), ..self }
    }
}

/// Runs groups of the plan's lanes one after another; `pass` runs a part of the plan over the whole trace, and keeps what it
/// wants of it. The last pass is returned: the replays of others are gone by then. `future` is that of the trace as
/// its address space changes it, if it is known before, and afterwards, if a lane looks ahead.
pub fn run<E>(
    plan: &Plan,
    groups: &Groups,
    future: &mut Option<Arc<Future>>,
    mut pass: impl FnMut(&Plan) -> Result<Recorded, E>,
) -> Result<Recorded, E> {
    let mut last = None;
    for group in &groups.lanes {
        drop(last.take());
        let lanes = plan.lanes[group.clone()].to_vec();
        let mut part = Plan { lanes, density: groups.density, ..plan.clone() };
        if let Some(future) = future {
            part.share_future(future);
        }
        let run = pass(&part)?;
        *future = future.take().or_else(|| run.future.clone());
        last = Some(run);
    }
    Ok(last.expect("there is at least one group"))
}
