//! A plan whose lanes do not fit into memory at once, in several passes over the trace.
//!
//! Invariant: results are those of one pass. The future, if a scheme looks ahead, is found out once.

use std::collections::BTreeMap;
use std::ops::Range;

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

/// Runs groups of the plan's lanes one after another, at least one; `pass` runs a part of the plan over the whole trace. `density` is that of
/// the devices.
pub fn run<E>(
    plan: &Plan,
    density: Density,
    groups: Vec<Range<usize>>,
    mut pass: impl FnMut(&Plan) -> Result<Recorded, E>,
) -> Result<Fitted, E> {
    let (mut results, mut learned, mut last) = (Vec::new(), BTreeMap::new(), None);
    let mut future = None;
    for group in groups {
        drop(last.take());
        let lanes = plan.lanes[group].to_vec();
        let mut part = Plan { lanes, density, ..plan.clone() };
        if let Some(future) = &future {
            part.share_future(future);
        }
        let run = pass(&part)?;
        let group_results = run.replay.results();
        for result in &group_results {
            if let Some(table) = run.replay.learned(&result.scheme) {
                learned.entry(result.scheme.clone()).or_insert(table);
            }
        }
        results.extend(group_results);
        future = future.or_else(|| run.future.clone());
        last = Some(run);
    }
    let Recorded { replay, damage, .. } = last.expect("there is at least one group");
    Ok(Fitted { results, replay, learned, damage })
}
