//! `top`: what writes now.
//!
//! The capture runs in a thread of its own and hands over a snapshot at the end of each interval, and when it ends. The main
//! thread shows it: on a terminal, as tables, or as JSON. What is not shown in time is left out and counted; records never wait.

mod output;
mod screen;
mod terminal;
#[cfg(test)]
mod tests;
mod view;

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::{IsTerminal as _, stdin, stdout};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use pcstream_capture::capture::{
    self, CaptureError, CaptureOptions, ENDED_AS_ASKED, Finished, Observer, Progress, Started, Target,
};
use pcstream_capture::session::SessionOptions;
use pcstream_fs::scratch::hidden_writers;
use pcstream_place::instance;
use pcstream_placement::pcstream::key::KeySource;
use pcstream_report::human;
use pcstream_trace::paths::file_name;
use pcstream_trace::{Batch, Context};
use pcstream_watch::{About, Learner, Limits, Metrics, Snapshot, Watch};

use crate::args::TopArgs;
use crate::attached::{self, device_of};
use crate::failure::{Failure, Status};
use crate::learned_table;
use crate::metrics_server::serve;
use crate::schemes;
use crate::stop::{Shown, StopSignals, failure_of};
use crate::ui::Ui;
use output::Lines;

/// The loss of snapshots that nobody took in time.
const NOT_SHOWN: &str = "intervals_not_shown";

/// Snapshots that may wait to be shown.
const WAITING: usize = 8;

/// What is said beside a placer.
const PLACED: &str = "a placer runs for this device, and its --metrics have its streams; those here are chosen by `top` itself, \
                      which knows what the placer has learned if --load-table names its table";

/// What the learner, which is `pcstream`, begins with.
fn load_table(path: &Path) -> Result<Arc<[u8]>, Failure> {
    let (table, bytes) = schemes::load_table(path)?;
    let place = format!("--load-table {}", path.display());
    learned_table::refuse_foreign(&table, &place, std::iter::once(("pcstream", KeySource::Context)))?;
    Ok(bytes)
}

/// `pcstream top`.
pub fn top(args: TopArgs, ui: Ui) -> Result<Status, Failure> {
    let saved = args.load_table.as_deref().map(load_table).transpose()?;
    let learner = Learner::new(args.streams, saved).map_err(Failure::wrong_arguments)?;
    let metrics = Arc::new(Mutex::new(Metrics::new(args.metrics.metrics_contexts)));
    let server = args.metrics.metrics.map(|address| serve(address, &metrics, ui)).transpose()?;
    capture::check_machine().map_err(Failure::failed)?;
    std::fs::metadata(&args.on).with_context(|| format!("--on {}", args.on.display()))?;
    let options = options(&args)?;
    // Opened before signals are caught: it may be a pipe that nobody reads.
    let output = Arc::new(Shown::default());
    let lines = args.json.as_deref().map(|path| Lines::open(path, &output)).transpose()?;
    let to_be_emptied = lines.as_ref().map_or(Ok(None), Lines::to_be_emptied)?;
    let stop = StopSignals::catch()?;
    let (sender, snapshots) = sync_channel(WAITING);
    let mut watcher = Watcher {
        watch: Watch::new(Limits::default(), learner.streams()),
        learner,
        interval: args.interval,
        next: args.interval,
        reported: None,
        left_out: 0,
        losses: BTreeMap::new(),
        to_be_emptied,
        sender,
        on: args.on.canonicalize().unwrap_or_else(|_| args.on.clone()).display().to_string(),
        metrics: server.is_some().then(|| metrics.clone()),
        ui: (!on_screen(&args, lines.as_ref())).then_some(ui),
        unsaid: Vec::new(),
    };
    hidden_writers(&args.on).iter().for_each(|hidden| ui.remark(hidden));
    if !args.dir_only {
        attached::takes_all(&args.on, &options.subject, "shown").iter().for_each(|taken| ui.remark(taken));
    }
    if device_of(&args.on).is_ok_and(|(device, _)| instance::is_claimed(device)) {
        ui.remark(PLACED);
    }
    let (shown, (finished, losses, unsaid)) = std::thread::scope(|scope| -> anyhow::Result<_> {
        let _end = StopOnDrop(&stop.count);
        let capture = std::thread::Builder::new().spawn_scoped(scope, || {
            let result = capture::capture(&options, &*stop.count, &mut watcher);
            result.iter().for_each(|finished| watcher.end(finished));
            let (losses, unsaid) = (watcher.lost(), std::mem::take(&mut watcher.unsaid));
            // Whoever waits for snapshots learns that there will be none.
            drop(watcher);
            stop.end_without_readers(output.clone(), ui);
            (result, losses, unsaid)
        });
        let capture = capture.context("cannot start a thread that captures")?;
        let end = || {
            stop.count.fetch_add(1, Ordering::Relaxed);
        };
        let shown = show(&args, lines, snapshots, ui, end);
        output.all();
        end();
        let finished = capture.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((shown, finished))
    })?;
    let signal = stop.first();
    drop(stop);
    drop(server);
    unsaid.iter().for_each(|text| ui.remark(text));
    match finished {
        // The user ended it before it began.
        Err(CaptureError::Interrupted) if signal.is_none() => shown.map(|()| Status::Done),
        Err(error) => Err(failure_of(error, signal)),
        Ok(finished) => shown.map(|()| ending(&finished, losses, ui)),
    }
}

fn options(args: &TopArgs) -> Result<CaptureOptions, Failure> {
    Ok(CaptureOptions {
        session: SessionOptions {
            only_below: attached::only_below(Some(&args.on), args.dir_only)?,
            ..SessionOptions::default()
        },
        watch: true,
        forget_files: true,
        live_names: true,
        duration: args.duration,
        ..CaptureOptions::new(attached::running(&args.attach), Target::Existing(args.on.clone()))
    })
}

/// Whether the terminal shows them, and keys work.
fn on_screen(args: &TopArgs, lines: Option<&Lines>) -> bool {
    let quiet = lines.is_some_and(Lines::is_stdout);
    let has_screen = terminal::has_screen(std::env::var_os("TERM").as_deref());
    !args.once && !quiet && has_screen && stdout().is_terminal() && stdin().is_terminal()
}

/// Shows snapshots until the user or the capture ends. What comes later nobody waits for.
fn show(
    args: &TopArgs,
    mut lines: Option<Lines>,
    snapshots: Receiver<Arc<Snapshot>>,
    ui: Ui,
    end: impl FnOnce(),
) -> Result<(), Failure> {
    if on_screen(args, lines.as_ref()) {
        return terminal::show(args, lines, &snapshots, end);
    }
    let quiet = lines.as_ref().is_some_and(Lines::is_stdout);
    let mut first = true;
    while let Ok(snapshot) = snapshots.recv() {
        lines.as_mut().map_or(Ok(()), |lines| lines.write(&snapshot.by(args.by)))?;
        if !quiet {
            output::table(&snapshot, args, ui.layout(false), first)?;
        }
        first = false;
        if args.once {
            break;
        }
    }
    Ok(())
}

/// Says what was lost, and what exit code that makes. The capture knows more of `losses`, those of the watch, by now.
fn ending(finished: &Finished, mut losses: BTreeMap<String, u64>, ui: Ui) -> Status {
    finished.notes.iter().filter(|note| *note != ENDED_AS_ASKED).for_each(|note| ui.remark(note));
    losses.extend(finished.losses.clone());
    let lost = human::losses(&losses);
    if !lost.is_empty() {
        ui.remark(&format!("part of what was written is missing or without its context: {lost}"));
    }
    Status::with_losses(!lost.is_empty())
}

/// Ends the capture, whatever ends the part of the program that shows it.
struct StopOnDrop<'a>(&'a AtomicUsize);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Receives the capture.
struct Watcher {
    watch: Watch,
    learner: Learner,
    interval: Duration,
    /// When the running interval ends.
    next: Duration,
    /// When the capture reported last, and how long it had run then.
    reported: Option<(Instant, Duration)>,
    /// Snapshots that nobody took.
    left_out: u64,
    /// Those of the last snapshot, whether anybody took it or not.
    losses: BTreeMap<String, u64>,
    /// What the lines of JSON go to, before the capture begins.
    to_be_emptied: Option<File>,
    sender: SyncSender<Arc<Snapshot>>,
    /// What was named, for the metrics.
    on: String,
    metrics: Option<Arc<Mutex<Metrics>>>,
    /// `None` where the terminal shows it.
    ui: Option<Ui>,
    /// Remarks that wait for the end of the screen.
    unsaid: Vec<String>,
}

impl Watcher {
    /// The last interval, however short: without it the sums would lack what was written in it.
    fn end(&mut self, finished: &Finished) {
        if let Some((at, elapsed)) = self.reported {
            self.tick(elapsed + at.elapsed(), &finished.losses);
        }
    }

    /// What was lost so far. A snapshot that nobody took tells nobody of itself.
    fn lost(&mut self) -> BTreeMap<String, u64> {
        let mut losses = std::mem::take(&mut self.losses);
        losses.insert(NOT_SHOWN.into(), self.left_out);
        losses
    }

    fn tick(&mut self, now: Duration, losses: &BTreeMap<String, u64>) {
        let mut losses = losses.clone();
        losses.insert(NOT_SHOWN.into(), self.left_out);
        losses.insert("live_chunks_dropped".into(), self.learner.dropped());
        let learner = &self.learner;
        let snapshot = self.watch.tick(now, &losses, |signature| learner.expected(signature));
        if let Some(metrics) = &self.metrics {
            metrics.lock().unwrap_or_else(PoisonError::into_inner).update(&snapshot);
        }
        self.losses.clone_from(&snapshot.losses);
        if let Err(TrySendError::Full(_)) = self.sender.try_send(Arc::new(snapshot)) {
            self.left_out += 1;
        }
    }
}

impl Observer for Watcher {
    fn started(&mut self, started: &Started) -> Result<(), Box<dyn Error + Send + Sync>> {
        // Only now: what is refused takes nothing.
        if let Some(file) = self.to_be_emptied.take() {
            file.set_len(0).map_err(|error| format!("--json: cannot empty the file: {error}"))?;
        }
        if let Some(metrics) = &self.metrics {
            let about = About {
                on: self.on.clone(),
                device: file_name(&started.device.to_string_lossy()).to_owned(),
                fs: started.fs.map_or("", |fs| fs.name()).to_owned(),
                sink: String::new(),
            };
            metrics.lock().unwrap_or_else(PoisonError::into_inner).describe(about);
        }
        if let Some(ui) = self.ui {
            ui.remark(&format!("watching writes to {} on {}", self.on, started.device.display()));
        }
        Ok(())
    }

    fn batch(&mut self, batch: Batch) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.watch.absorb(&batch);
        self.learner.absorb(&batch);
        for event in &batch.events {
            let stream = self.learner.take(event);
            self.watch.take(event, stream);
        }
        Ok(())
    }

    fn named(&mut self, contexts: &[Context]) {
        self.watch.named(contexts);
    }

    fn remark(&mut self, text: &str) {
        let text = format!("{}: {text}", self.on);
        match self.ui {
            Some(ui) => ui.remark(&text),
            None => self.unsaid.push(text),
        }
    }

    fn progress(&mut self, progress: &Progress) {
        self.reported = Some((Instant::now(), progress.elapsed));
        if progress.elapsed >= self.next {
            self.next = progress.elapsed + self.interval;
            self.tick(progress.elapsed, &progress.losses);
        }
    }
}
