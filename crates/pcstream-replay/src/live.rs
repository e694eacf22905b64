//! Schemes that run while a trace is recorded, in a thread of their own.
//!
//! Idea: what records must never wait for what simulates, or events would be lost. So batches queue, up to a
//! bound. Once a batch does not fit, no more are queued, and the lanes get the rest from the recorded trace
//! at the end. Schemes that look ahead get the whole recorded trace then.
//!
//! Invariant: results equal those of a replay of the recorded trace, whether the queue was full or not.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use pcstream_trace::Batch;

use crate::error::ReplayError;
use crate::lane::{LaneResult, LaneSpec};
use crate::plan::Plan;
use crate::recorded::{self, Pass, RecordedError, for_each_batch};
use crate::replay::Replay;

/// Events that may wait for the simulation: 48 MiB.
const QUEUED_EVENTS_MAX: usize = 1 << 20;

/// A plan whose lanes run while their trace is recorded, as far as they can.
pub struct LiveReplay {
    plan: Plan,
    /// What runs, if any lane does; or why it ended early.
    online: Result<Option<Online>, ReplayError>,
}

/// What came of a live replay.
pub struct LiveResults {
    /// A replay, which knows the contexts.
    pub replay: Replay,
    /// Results of all lanes, in the order of the plan.
    pub results: Vec<LaneResult>,
    /// Why the recorded trace could not be read to its end, if it could not.
    pub damage: Option<String>,
}

impl LiveReplay {
    /// Starts the lanes that do not look ahead.
    pub fn start(plan: Plan) -> Result<LiveReplay, ReplayError> {
        LiveReplay::with_queue(plan, QUEUED_EVENTS_MAX)
    }

    fn with_queue(plan: Plan, events_max: usize) -> Result<LiveReplay, ReplayError> {
        let online = plan.online().map(|online| Online::start(&online, events_max)).transpose()?;
        Ok(LiveReplay { plan, online: Ok(online) })
    }

    /// The next events. Never waits for the simulation. Errors: an earlier batch could not be replayed; every
    /// later call says so again.
    pub fn feed(&mut self, batch: Batch) -> Result<(), ReplayError> {
        let before = std::mem::replace(&mut self.online, Ok(None));
        self.online = before.and_then(|online| online.map(|online| online.feed(batch)).transpose());
        self.online.as_ref().map(|_| ()).map_err(Clone::clone)
    }

    /// Ends the live part and replays what is left of the recorded trace, which `open` begins to read;
    /// `progress` gets the number of events just done. Errors: also that of an earlier [`LiveReplay::feed`].
    pub fn finish<I, E>(
        mut self,
        open: impl Fn() -> I,
        mut progress: impl FnMut(Pass, usize),
    ) -> Result<LiveResults, RecordedError<E>>
    where
        I: Iterator<Item = Result<Batch, E>> + Send,
        E: Error + Send,
    {
        let mut damage = None;
        let mut live = None;
        if let Some(online) = std::mem::replace(&mut self.online, Ok(None))? {
            let behind = online.behind;
            let mut replay = online.finish()?;
            if behind {
                damage = catch_up(&mut replay, open(), |events| progress(Pass::Simulate, events))?;
            }
            live = Some(replay);
        }
        let late = match self.plan.lookahead() {
            None => None,
            Some(ahead) => {
                let recorded = recorded::replay(&ahead, &open, progress)?;
                damage = damage.or(recorded.damage);
                Some(recorded.replay)
            }
        };
        let results = self.in_order(live.as_ref(), late.as_ref());
        Ok(LiveResults { replay: live.or(late).ok_or(ReplayError::NoLanes)?, results, damage })
    }

    fn in_order(&self, live: Option<&Replay>, late: Option<&Replay>) -> Vec<LaneResult> {
        let results = |replay: Option<&Replay>| replay.map(Replay::results).unwrap_or_default().into_iter();
        let (mut live, mut late) = (results(live), results(late));
        let next = |lane: &LaneSpec| if lane.looks_ahead() { late.next() } else { live.next() };
        self.plan.lanes.iter().map(next).map(|result| result.expect("one result per lane")).collect()
    }
}

/// The lanes that do not look ahead, and the queue before them.
struct Online {
    /// Gone once the queue was full.
    sender: Option<Sender<Batch>>,
    /// Events in the queue.
    queued: Arc<AtomicUsize>,
    events_max: usize,
    thread: JoinHandle<Result<Replay, ReplayError>>,
    /// Whether a batch did not fit into the queue.
    behind: bool,
}

impl Online {
    fn start(plan: &Plan, events_max: usize) -> Result<Online, ReplayError> {
        let replay = plan.start()?;
        let (sender, receiver) = channel();
        let queued = Arc::new(AtomicUsize::new(0));
        let counter = queued.clone();
        let thread = std::thread::Builder::new()
            .spawn(move || run(replay, &receiver, &counter))
            .map_err(|error| ReplayError::Threads(error.to_string()))?;
        Ok(Online { sender: Some(sender), queued, events_max, thread, behind: false })
    }

    /// Takes a batch in, and goes on unless the thread has ended early.
    fn feed(mut self, batch: Batch) -> Result<Online, ReplayError> {
        let Some(sender) = &self.sender else { return Ok(self) };
        let events = batch.events.len();
        // Only this side adds, so what is there now does not grow before the batch is in.
        if self.queued.load(Ordering::Relaxed) + events > self.events_max {
            self.behind = true;
            self.sender = None;
            return Ok(self);
        }
        self.queued.fetch_add(events, Ordering::Relaxed);
        if sender.send(batch).is_ok() {
            return Ok(self);
        }
        // The thread knows why it ended.
        Err(self.finish().err().expect("while its sender is there, it ends by an error alone"))
    }

    fn finish(self) -> Result<Replay, ReplayError> {
        drop(self.sender);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn run(mut replay: Replay, batches: &Receiver<Batch>, queued: &AtomicUsize) -> Result<Replay, ReplayError> {
    for batch in batches {
        replay.feed(&batch)?;
        queued.fetch_sub(batch.events.len(), Ordering::Relaxed);
    }
    Ok(replay)
}

/// Feeds what a replay has not seen yet of a trace.
fn catch_up<E: Error + Send>(
    replay: &mut Replay,
    batches: impl Iterator<Item = Result<Batch, E>> + Send,
    mut progress: impl FnMut(usize),
) -> Result<Option<String>, RecordedError<E>> {
    let mut seen = replay.writers().totals().events;
    for_each_batch(batches, |mut batch| {
        let all = batch.events.len();
        let skip = all.min(usize::try_from(seen).unwrap_or(usize::MAX));
        seen -= skip as u64;
        batch.events.drain(..skip);
        let (contexts, files) = (replay.tables().contexts().len(), replay.tables().files().len());
        batch.contexts.retain(|context| context.id.0 as usize > contexts);
        batch.files.retain(|file| file.id.0 as usize > files);
        replay.feed(&batch)?;
        progress(all);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pcstream_placement::find;
    use pcstream_ssd::{DeviceSettings, Spare};
    use pcstream_trace::ContextId;
    use pcstream_trace::generators::{Common, generate};

    use super::*;

    const PAGES: u64 = 2048;
    const SCHEMES: [&str; 4] = ["oracle", "pcstream", "baseline", "oracle-fk"];

    fn plan() -> Plan {
        let device = DeviceSettings {
            logical_pages: PAGES,
            spare: Spare::SpareFactor(0.4),
            superblock_pages: 16,
            ..DeviceSettings::default()
        };
        let lane = |scheme: &str| LaneSpec::new(Arc::new(find(scheme).unwrap().configure()), device.clone());
        Plan { lanes: SCHEMES.map(lane).into(), ..Plan::default() }
    }

    /// Batches as a recorder makes them: a context comes with the first event that needs it.
    fn trace() -> Vec<Batch> {
        let common = Common { pages: PAGES, writes: 30_000, seed: 1 };
        let mut batches: Vec<Batch> = generate("hotcold", common, &BTreeMap::new()).unwrap().collect();
        let last = batches[0].contexts.pop().expect("one context per class");
        for event in &mut batches[0].events {
            event.context = event.context.min(ContextId(last.id.0 - 1));
        }
        batches[1].contexts.push(last);
        batches
    }

    /// The same batches as a reader makes them: all contexts first.
    fn recorded(batches: &[Batch]) -> impl Iterator<Item = Result<Batch, std::fmt::Error>> + Send {
        let contexts = batches.iter().flat_map(|batch| batch.contexts.clone()).collect();
        let first = Batch { contexts, ..Batch::default() };
        let events = batches.iter().map(|batch| Batch { events: batch.events.clone(), ..Batch::default() });
        std::iter::once(first).chain(events).map(Ok).collect::<Vec<_>>().into_iter()
    }

    fn numbers(results: &[LaneResult]) -> Vec<(&str, pcstream_ssd::Counters)> {
        results.iter().map(|result| (result.scheme.as_str(), result.counters.clone())).collect()
    }

    #[test]
    fn results_do_not_depend_on_the_queue() {
        let batches = trace();
        let whole = recorded::replay(&plan(), || recorded(&batches), |_, _| {}).unwrap().replay.results();
        let expected = numbers(&whole);
        assert_eq!(expected.iter().map(|(name, _)| *name).collect::<Vec<_>>(), SCHEMES);
        // Nothing fits, the first two batches fit (the third does if they are done by then), everything fits.
        for events_max in [0, 2 * batches[0].events.len(), usize::MAX] {
            let mut live = LiveReplay::with_queue(plan(), events_max).unwrap();
            batches.iter().for_each(|batch| live.feed(batch.clone()).unwrap());
            let results = live.finish(|| recorded(&batches), |_, _| {}).unwrap();
            assert_eq!(numbers(&results.results), expected, "{events_max} events");
            assert_eq!(results.damage, None);
        }
    }

    #[test]
    fn a_replay_catches_up_from_any_event() {
        let batches = trace();
        let mut whole = plan().online().unwrap().start().unwrap();
        batches.iter().for_each(|batch| whole.feed(batch).unwrap());
        let whole = whole.results();
        let expected = numbers(&whole);
        for (whole, part) in [(0, 0), (1, 1), (1, 4000), (3, 17)] {
            let mut replay = plan().online().unwrap().start().unwrap();
            batches[..whole].iter().for_each(|batch| replay.feed(batch).unwrap());
            let mut piece = batches[whole].clone();
            piece.events.truncate(part);
            replay.feed(&piece).unwrap();
            let mut seen = 0;
            assert_eq!(catch_up(&mut replay, recorded(&batches), |events| seen += events).unwrap(), None);
            assert_eq!(numbers(&replay.results()), expected, "{whole} batches and {part} events");
            assert_eq!(seen, 30_000);
        }
    }

    #[test]
    fn an_event_that_cannot_be_replayed_ends_the_live_part_with_its_reason() {
        let mut live = LiveReplay::start(plan()).unwrap();
        let mut batch = trace().swap_remove(0);
        batch.events[0].pages = 0;
        live.feed(batch).unwrap();
        let error = live.finish(|| recorded(&[]), |_, _| {}).err().expect("refused").to_string();
        assert!(error.starts_with("event 0: write of 0 pages at page "), "{error}");
    }

    #[test]
    fn every_call_after_an_error_gives_it_again() {
        let mut live = LiveReplay::start(plan()).unwrap();
        let mut batch = trace().swap_remove(0);
        batch.events[0].pages = 0;
        live.feed(batch).unwrap();
        // The thread ends when it comes to it.
        let error = loop {
            if let Err(error) = live.feed(Batch::default()) {
                break error.to_string();
            }
            std::thread::yield_now();
        };
        assert!(error.starts_with("event 0: write of 0 pages at page "), "{error}");
        assert_eq!(live.feed(Batch::default()).expect_err("it ended").to_string(), error);
        let finished = live.finish(|| recorded(&[]), |_, _| {});
        assert_eq!(finished.err().expect("it ended").to_string(), error);
    }

    #[test]
    fn damage_ends_a_trace_and_is_reported() {
        let batches = trace();
        let damaged = |good: usize| {
            let good: Vec<_> = recorded(&batches).take(good).collect();
            good.into_iter().chain([Err(std::fmt::Error)])
        };
        let recorded = recorded::replay(&plan(), || damaged(2), |_, _| {}).unwrap();
        let damage = recorded.damage.expect("the trace is damaged");
        assert!(damage.starts_with("after 8192 events: "), "{damage}");
        assert_eq!(recorded.replay.writers().totals().events, 8192);
        let error = recorded::replay(&plan(), || damaged(1), |_, _| {}).err().expect("nothing to replay");
        assert!(matches!(error, RecordedError::Trace(std::fmt::Error)));
    }
}
