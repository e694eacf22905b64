//! What a capture hands over goes on to the worker of `pcstream-place`; signals, reloads and the end of the device are seen here.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pcstream_capture::capture::{Observer, Progress, Started};
use pcstream_capture::streams::StreamMaps;
use pcstream_place::answers::Answers;
use pcstream_place::notify::Notifier;
use pcstream_place::sink::ByRequest;
use pcstream_place::sinks::Choice;
use pcstream_place::{Summary, Worker};
use pcstream_trace::{Batch, Context, ContextId, FileId};
use pcstream_ublk::Link;

use super::kernel_streams::KernelStreams;
use super::metrics::Mailbox;
use super::site::Site;
use crate::ui::Ui;

/// Time between two looks at whether the file system is still there.
const LOOK: Duration = Duration::from_secs(1);
/// How long what is queued is still learned from after a stop: whoever stops a service waits for its end.
const LEARNING_AFTER_STOP: Duration = Duration::from_secs(3);
/// Receives a capture, and passes it on.
pub(super) struct Placing<'a> {
    pub place: &'a Site,
    pub choice: &'a Choice,
    /// Where programs get the table of answers to them, if they do.
    pub offer: Option<PathBuf>,
    pub answers: Option<Answers>,
    pub worker: Worker,
    pub notifier: Notifier,
    pub stops: &'a AtomicUsize,
    pub reload: &'a AtomicBool,
    /// Of the metrics, if they are served.
    pub mailbox: Option<Mailbox>,
    pub began: Instant,
    pub looked: Instant,
    /// Reloads that were asked for.
    pub reloads: u64,
    /// The last of them is not done yet.
    pub reloading: bool,
    /// Of the sink `fdp-server`.
    pub server: Option<Arc<Link>>,
    /// A command is run, to whose end placing goes on.
    pub command: bool,
    /// The file system was unmounted, or its device vanished.
    pub gone: bool,
    pub ui: Ui,
}

impl Placing<'_> {
    /// Whether the file system is not there any more, or the server of its device.
    pub fn is_gone(&self) -> bool {
        self.server_ended() || !self.place.is_there()
    }

    /// Whether the device had a server, and it is there no more.
    fn server_ended(&self) -> bool {
        self.server.as_ref().is_some_and(|server| !server.is_up())
    }

    fn status(&self) -> String {
        let (sink, why) = (self.choice.sink.name, self.choice.in_short());
        format!(
            "placing writes to {} on {}: sink {sink} ({why})",
            self.place.directory.display(),
            self.place.device.name
        )
    }

    fn reload(&mut self) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        self.notifier.reloading(now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000);
        self.worker.reload();
        self.reloads += 1;
        self.reloading = true;
    }

    /// Ends the worker, and says what it had to say.
    pub fn finish(self) -> Summary {
        if self.server_ended() {
            self.ui.remark(&format!("{}: its server (pcstream serve) ended", self.place.device.name));
        }
        if self.stops.load(Ordering::Relaxed) > 0 {
            self.worker.hurry(LEARNING_AFTER_STOP);
        }
        let (summary, notes) = self.worker.finish();
        notes.iter().for_each(|note| self.ui.remark(note));
        summary
    }
}

impl Observer for Placing<'_> {
    fn started(&mut self, started: &Started) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.place.check(&started.device)?;
        self.began = Instant::now();
        self.mailbox.iter().for_each(|mailbox| mailbox.began(self.began));
        self.ui.remark(&self.status());
        self.notifier.ready(&self.status());
        Ok(())
    }

    fn streams(&mut self, streams: StreamMaps) -> Result<(), Box<dyn Error + Send + Sync>> {
        if let Some(path) = &self.offer {
            let offered = streams.answers().and_then(|table| Answers::offer(path, table));
            let refused = |error| format!("programs that ask for streams cannot be answered: {error}");
            self.answers = Some(offered.map_err(refused)?);
        }
        if let (ByRequest::Server, Some(Ok(server))) =
            (self.choice.sink.by_request, &self.place.device.server)
        {
            let link = Link::attach(&server.device, streams.pages()).map_err(|error| {
                format!("--sink fdp-server: the server of /dev/{}: {error}", server.device)
            })?;
            self.server = Some(Arc::new(link));
        }
        let table = KernelStreams { maps: streams, server: self.server.clone() };
        self.worker.connect(Box::new(table));
        Ok(())
    }

    fn keys(&mut self, keys: Vec<(u64, ContextId)>) {
        self.worker.feed(Batch::default(), keys);
    }

    fn batch(&mut self, batch: Batch) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.worker.feed(batch, Vec::new());
        Ok(())
    }

    fn named(&mut self, contexts: &[Context]) {
        self.mailbox.iter().for_each(|mailbox| mailbox.named(contexts));
    }

    fn first_writers(&mut self, files: Vec<(FileId, ContextId)>) {
        self.worker.first_writers(files);
    }

    fn remark(&mut self, text: &str) {
        self.ui.remark(&format!("{}: {text}", self.place.device.name));
    }

    fn progress(&mut self, progress: &Progress) {
        self.mailbox.iter().for_each(|mailbox| mailbox.losses(&progress.losses));
        if self.reload.swap(false, Ordering::Relaxed) {
            self.reload();
        }
        self.worker.notes().iter().for_each(|note| self.ui.remark(note));
        if self.reloading && self.worker.reloads() == self.reloads {
            self.reloading = false;
            self.notifier.ready(&self.status());
        }
        if self.looked.elapsed() >= LOOK && !self.gone {
            self.looked = Instant::now();
            self.gone = self.is_gone();
            // A command may go on elsewhere, or close in order what it has.
            if self.gone && self.command {
                self.ui.remark(&format!("{}; the command goes on", self.place.what_is_gone()));
            } else if self.gone {
                self.stops.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
