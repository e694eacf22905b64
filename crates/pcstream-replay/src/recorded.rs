//! A recorded trace through a plan: one pass, and one before it for the future if a scheme looks ahead.
//!
//! Reading and decoding run in a thread beside the simulation, a bounded number of batches ahead. Where
//! batches come from is the caller's business: this crate reads no files.
//!
//! Damage: a trace that cannot be read to its end is replayed as far as it goes, and the result says so. A
//! trace without any readable event has no result.

use std::error::Error;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use pcstream_placement::Future;
use pcstream_placement::future::FutureBuilder;
use pcstream_trace::{Batch, Event, Extent, Op};

use crate::classes::{Class, Classes};
use crate::error::ReplayError;
use crate::occupied::Occupied;
use crate::plan::Plan;
use crate::replay::Replay;
use crate::space::{Pack, Space, SpaceSettings, Used};

/// Batches read ahead of the simulation.
const READ_AHEAD: usize = 8;

/// What a pass over a trace is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Finding out which pages are written.
    Survey,
    /// Finding out how many of them hold data at once.
    LiveData,
    /// Finding out when each page dies, for schemes that look ahead.
    LookAhead,
    /// The simulation.
    Simulate,
}

/// Why a recorded trace has no result.
#[derive(Debug, thiserror::Error)]
pub enum RecordedError<E: Error> {
    /// Nothing of the trace can be read.
    #[error(transparent)]
    Trace(E),
    /// The plan cannot begin, or an event cannot be replayed.
    #[error(transparent)]
    Replay(#[from] ReplayError),
}

/// A replay at the end of a trace.
pub struct Recorded {
    /// The replay.
    pub replay: Replay,
    /// Why reading ended early, if it did.
    pub damage: Option<String>,
    /// The future, if a lane looks ahead: other plans on the same trace can share it.
    pub future: Option<Arc<Future>>,
}

/// Runs a trace through a plan. `open` begins to read it; `progress` gets the number of events just done. A future that
/// the plan does not have yet is found out first, for this trace alone: the plan stays as it is.
pub fn replay<I, E>(
    plan: &Plan,
    open: impl Fn() -> I,
    mut progress: impl FnMut(Pass, usize),
) -> Result<Recorded, RecordedError<E>>
where
    I: Iterator<Item = Result<Batch, E>> + Send,
    E: Error + Send,
{
    let mut plan = plan.clone();
    if plan.needs_future() {
        let mut future = FutureBuilder::default();
        for_each_batch(open(), |batch| {
            batch.events.iter().try_for_each(|event| future.push(event)).map_err(ReplayError::Future)?;
            progress(Pass::LookAhead, batch.events.len());
            Ok(())
        })?;
        plan.set_future(future.finish());
    }
    let mut replay = plan.start()?;
    let damage = for_each_batch(open(), |batch| {
        replay.feed(&batch)?;
        progress(Pass::Simulate, batch.events.len());
        Ok(())
    })?;
    Ok(Recorded { replay, damage, future: plan.future() })
}

/// What a trace writes to; the peak of live data only if `settings` ask for it. `prefilled` had data in before. `open` and
/// `progress` are those of [`replay`]. Of a damaged trace, what can be read.
pub fn used<I, E>(
    open: impl Fn() -> I,
    settings: SpaceSettings,
    prefilled: &[Extent],
    mut progress: impl FnMut(Pass, usize),
) -> Result<Used, RecordedError<E>>
where
    I: Iterator<Item = Result<Batch, E>> + Send,
    E: Error + Send,
{
    let mut used = Used::default();
    for_each_batch(open(), |batch| {
        let writes = batch.events.iter().filter(|event| event.op == Op::Write);
        writes.for_each(|event| used.written.add(event.lba.0, u64::from(event.pages)));
        progress(Pass::Survey, batch.events.len());
        Ok(())
    })?;
    if matches!(settings.pack, Some(Pack::Live(_))) {
        let whole = SpaceSettings { pack: Some(Pack::Addresses(1.0)), fill: None, ..settings };
        // A trace that writes nothing has nothing to be packed.
        if let Ok(space) = Space::new(whole, &used, prefilled, 0, None) {
            used.peak_live = peak_live(open(), &space, |events| progress(Pass::LiveData, events))?;
        }
    }
    Ok(used)
}

/// The most pages that hold data at once in a space that has an address for each that is ever written.
fn peak_live<E: Error + Send>(
    batches: impl Iterator<Item = Result<Batch, E>> + Send,
    space: &Space,
    mut progress: impl FnMut(usize),
) -> Result<u64, RecordedError<E>> {
    let occupied = Occupied::new(space.address_pages).map_err(pcstream_ssd::GeometryError::from);
    let mut occupied = occupied.map_err(ReplayError::from)?;
    space.prefill.iter().for_each(|extent| occupied.fill(extent.lba.0, extent.pages));
    for_each_batch(batches, |batch| {
        progress(batch.events.len());
        space.change(batch).events.iter().for_each(|event| occupied.see(event));
        Ok(())
    })?;
    Ok(occupied.peak())
}

/// What each of `count` classes of writes comes to, on a device of `logical_pages`: `class_of` says which one an event
/// belongs to. Of a trace that has been replayed before, so that its events are legal.
pub fn by_class<E: Error + Send>(
    batches: impl Iterator<Item = Result<Batch, E>> + Send,
    (count, logical_pages): (usize, u64),
    class_of: impl Fn(&Event) -> usize,
    mut progress: impl FnMut(usize),
) -> Result<Vec<Class>, RecordedError<E>> {
    let classes = Classes::new(count, logical_pages);
    let mut classes = classes.map_err(|error| ReplayError::Device(error.into()))?;
    for_each_batch(batches, |batch| {
        batch.events.iter().for_each(|event| classes.count(event, class_of(event)));
        progress(batch.events.len());
        Ok(())
    })?;
    Ok(classes.finish())
}

/// Gives batches, read in a thread of their own, to `each`. Damage behind the first events ends the trace
/// and is returned; without any event before it, it is an error.
pub(crate) fn for_each_batch<E: Error + Send>(
    batches: impl Iterator<Item = Result<Batch, E>> + Send,
    mut each: impl FnMut(Batch) -> Result<(), ReplayError>,
) -> Result<Option<String>, RecordedError<E>> {
    std::thread::scope(|scope| {
        let (sender, receiver) = sync_channel(READ_AHEAD);
        let read = move || {
            for batch in batches {
                // The receiver is gone when `each` failed, which is reported there.
                if sender.send(batch).is_err() {
                    return;
                }
            }
        };
        let started = std::thread::Builder::new().spawn_scoped(scope, read);
        started.map_err(|error| ReplayError::Threads(error.to_string()))?;
        let mut events = 0;
        for batch in receiver {
            match batch {
                Ok(batch) => {
                    events += batch.events.len();
                    each(batch)?;
                }
                Err(error) if events == 0 => return Err(RecordedError::Trace(error)),
                Err(error) => return Ok(Some(format!("after {events} events: {error}"))),
            }
        }
        Ok(None)
    })
}

#[cfg(test)]
mod tests {
    use pcstream_placement::configure;
    use pcstream_ssd::{DeviceSettings, Spare};
    use pcstream_trace::generators::{Common, generate};

    use super::*;
    use crate::lane::LaneSpec;

    #[test]
    fn a_plan_learns_the_future_of_each_trace() {
        let device = DeviceSettings {
            logical_pages: 4096,
            superblock_pages: 16,
            streams: 4,
            spare: Spare::SpareFactor(0.3),
            ..DeviceSettings::default()
        };
        let oracle = LaneSpec::new(Arc::new(configure("oracle").unwrap()), device);
        let plan = Plan { lanes: vec![oracle], ..Plan::default() };
        let waf = |plan: &Plan, seed| {
            let common = Common { pages: 4096, writes: 65_536, seed };
            let trace = || generate("hotcold", common, &Default::default()).unwrap();
            let run = replay(plan, || trace().map(Ok::<_, std::fmt::Error>), |_, _| {}).unwrap();
            assert!(run.future.is_some());
            run.replay.results()[0].waf().unwrap()
        };
        let alone = waf(&plan.clone(), 2);
        waf(&plan, 1);
        assert_eq!(waf(&plan, 2), alone);
    }
}
