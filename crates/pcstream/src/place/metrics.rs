//! `place --metrics`: the metrics of `top`, and what the placer alone knows.
//!
//! The watch lives in the placer's thread and sees the same events. What the capture alone knows, its losses and the names
//! of functions, comes through a mailbox that nobody holds for long. The server has threads of its own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pcstream_place::Spectator;
use pcstream_place::contexts::Decisions;
use pcstream_place::summary::Standing;
use pcstream_trace::{Batch, Context, Event, FileId};
use pcstream_watch::{About, Expected, Hinted, Limits, Metrics, Placing, Server, Watch, Who, WriteStream};

use crate::args::MetricsArgs;
use crate::failure::Failure;
use crate::metrics_server;
use crate::ui::Ui;

/// Between two texts: `top` has the same.
const INTERVAL: Duration = Duration::from_secs(2);

/// What the capture's thread leaves for the watch.
#[derive(Default)]
struct Left {
    /// When the capture began.
    began: Option<Instant>,
    losses: BTreeMap<String, u64>,
    named: Vec<Context>,
}

/// Where the capture's thread leaves what it knows.
#[derive(Clone, Default)]
pub(super) struct Mailbox(Arc<Mutex<Left>>);

impl Mailbox {
    fn open(&self) -> MutexGuard<'_, Left> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn began(&self, at: Instant) {
        self.open().began = Some(at);
    }

    pub(super) fn losses(&self, losses: &BTreeMap<String, u64>) {
        self.open().losses.clone_from(losses);
    }

    pub(super) fn named(&self, contexts: &[Context]) {
        self.open().named.extend_from_slice(contexts);
    }
}

/// A server, until somebody takes it away.
pub(super) type Served = Arc<Mutex<Option<Server>>>;

/// Stops serving.
pub(super) fn stop(served: &Served) {
    let server = served.lock().unwrap_or_else(PoisonError::into_inner).take();
    drop(server);
}

/// The parts of a placer's metrics.
pub(super) struct Parts {
    pub(super) spectator: Box<dyn Spectator>,
    pub(super) mailbox: Mailbox,
    pub(super) served: Served,
}

/// Metrics of a placer with so many streams, if they are asked for.
pub(super) fn start(args: &MetricsArgs, about: About, streams: u8, ui: Ui) -> Result<Option<Parts>, Failure> {
    let Some(address) = args.metrics else { return Ok(None) };
    let mut metrics = Metrics::new(args.metrics_contexts);
    metrics.describe(about);
    let metrics = Arc::new(Mutex::new(metrics));
    let server = metrics_server::serve(address, &metrics, ui)?;
    let mailbox = Mailbox::default();
    let watch = Watch::new(Limits::default(), streams);
    let spectator = Watcher { watch, metrics, mailbox: mailbox.clone() };
    let served = Arc::new(Mutex::new(Some(server)));
    Ok(Some(Parts { spectator: Box::new(spectator), mailbox, served }))
}

/// Makes metrics of what a placer sees.
struct Watcher {
    watch: Watch,
    metrics: Arc<Mutex<Metrics>>,
    mailbox: Mailbox,
}

impl Spectator for Watcher {
    fn every(&self) -> Duration {
        INTERVAL
    }

    fn batch(&mut self, batch: &Batch, decisions: &Decisions) {
        if !batch.contexts.is_empty() {
            self.watch.absorb(&Batch { contexts: batch.contexts.clone(), ..Batch::default() });
        }
        for event in &batch.events {
            // No metric names a file.
            let nameless = Event { file: FileId::NONE, ..*event };
            self.watch.take(&nameless, Some(decisions.of(event.context).stream));
        }
    }

    fn look(&mut self, standing: &Standing, decisions: &Decisions) {
        let (began, mut losses, named) = {
            let mut left = self.mailbox.open();
            (left.began, left.losses.clone(), std::mem::take(&mut left.named))
        };
        losses.extend(standing.losses.clone());
        self.watch.named(&named);
        let mut snapshot =
            self.watch.tick(began.map_or(Duration::ZERO, |began| began.elapsed()), &losses, |_| None);
        for row in &mut snapshot.contexts {
            row.expected = expected(row.who, decisions);
        }
        snapshot.placing = Some(placing(standing));
        self.metrics.lock().unwrap_or_else(PoisonError::into_inner).update(&snapshot);
    }
}

/// The lifetime by which the placer goes; `None`: not known yet.
fn expected(who: Who, decisions: &Decisions) -> Option<Expected> {
    let Who::Context(context) = who else { return None };
    let decision = decisions.of(context);
    Some(Expected { lifetime: decision.lifetime_pages?, samples: decision.samples })
}

fn placing(standing: &Standing) -> Placing {
    let counted = standing.statistics.iter().chain(&standing.losses);
    // The sinks that give hints count them by outcome.
    let hints = counted.filter_map(|(name, count)| Some((name.strip_prefix("hints_")?.to_owned(), *count)));
    let stream = |stream: &pcstream_place::sink::StreamUse| WriteStream {
        write_stream: stream.write_stream,
        requests: stream.requests,
        pages: stream.pages,
    };
    let hinted = |used: &pcstream_place::hint::HintUse| Hinted {
        hint: used.hint.map_or_else(|| "none".to_owned(), str::to_lowercase),
        pages: used.pages,
        pages_of_others: used.pages_of_others,
    };
    Placing {
        contexts_known: standing.statistics.get("contexts_known").copied().unwrap_or(0),
        clusterings: standing.clusterings,
        hints: hints.collect(),
        hinted: standing.hints.iter().map(hinted).collect(),
        streams: standing.streams.iter().map(stream).collect(),
    }
}
