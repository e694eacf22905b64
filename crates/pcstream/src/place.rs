//! `place`: streams and hints for real writes, for one command or as a service.
//!
//! A capture feeds a worker of `pcstream-place`, which learns and places. Here are arguments, signals and exit codes.

mod kernel_streams;
mod metrics;
mod result;
pub mod site;

use std::error::Error;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use pcstream_capture::capture::{
    self, CaptureError, CaptureOptions, Finished, Observer, Progress, Started, Target,
};
use pcstream_capture::session::{Followed, PlacedBy, SessionOptions};
use pcstream_capture::streams::StreamMaps;
use pcstream_fs::extents::DeviceNumber;
use pcstream_fs::scratch::hidden_file_system;
use pcstream_place::answers::Answers;
use pcstream_place::instance::Instance;
use pcstream_place::notify::Notifier;
use pcstream_place::sinks::{self, ByRequest, Choice, Means};
use pcstream_place::table_file::{self, TableFile, TableFileError};
use pcstream_place::{Learner, Placer, Summary, Worker};
use pcstream_placement::pcstream::PcStreamParams;
use pcstream_placement::{Environment, SchemeError, SchemeFactory as _, configure};
use pcstream_report::human;
use pcstream_trace::{Batch, Context, ContextId, FileId};
use pcstream_ublk::Link;
use pcstream_watch::About;
use signal_hook::consts::SIGINT;

use crate::args::PlaceArgs;
use crate::attached;
use crate::command_files;
use crate::failure::{Failure, Status};
use crate::stop::StopSignals;
use crate::ui::{self, JsonSink, Ui};
use crate::whole_file;
use crate::write_buffers;
use kernel_streams::KernelStreams;
use metrics::{Mailbox, Parts, Served};
use result::PlacingJson;
use site::Place;

/// Time between two looks at whether the file system is still there.
const LOOK: Duration = Duration::from_secs(1);
/// How long what is queued is still learned from after a stop. A unit of systemd has half a minute for all of the end.
const LEARNING_AFTER_STOP: Duration = Duration::from_secs(3);
/// Losses of a capture that mean nothing to a service that is stopped: what is dirty then is placed by nobody.
const OF_THE_END: [&str; 2] = ["sync_abandoned", "names_abandoned"];

/// `pcstream place`.
pub fn place(args: &PlaceArgs, ui: Ui) -> Result<Status, Failure> {
    let json = JsonSink::asked(&args.output)?;
    let mut options = capture_options(args, ui)?;
    let place = Place::find(&args.on)?;
    let instance = Instance::claim(place.device.number).map_err(Failure::failed)?;
    let choice = sinks::choose(&args.sink, &place.device).map_err(Failure::wrong_arguments)?;
    options.session.placed_by = match choice.sink.by_request {
        ByRequest::No => PlacedBy::Nobody,
        ByRequest::Module => PlacedBy::Module,
        ByRequest::Server => PlacedBy::Server,
        ByRequest::Programs => PlacedBy::Programs,
    };
    // A hint of a file comes too late for requests that are made before.
    options.first_writers = choice.sink.by_request == ByRequest::No;
    options.session.answering = place.answers(&options.session.buffers, &choice, ui);
    options.session.stream_device = place.device.streams_below.map_or(0, DeviceNumber::kernel_dev_t);
    let streams = streams(args, &place, &choice)?;
    let placer = placer(args, streams, &place, &choice, instance.given(), ui)?;
    let metrics = metrics::start(&args.metrics, about(&place, &choice), streams, ui)?;
    let (spectator, mailbox, served) = match metrics {
        Some(Parts { spectator, mailbox, served }) => (Some(spectator), Some(mailbox), served),
        None => (None, None, Served::default()),
    };
    let reload = Arc::new(AtomicBool::new(false));
    // A signal that asks to stop ends the metrics at once: the end of a capture may take longer.
    let server = served.clone();
    let signals = StopSignals::catch_with(reloads().then(|| reload.clone()), move || metrics::stop(&server))?;
    let mut placing = Placing {
        place: &place,
        choice: &choice,
        offer: options.session.answering.then(|| instance.answers()),
        answers: None,
        worker: Some(Worker::start(placer, args.save_every, spectator)),
        notifier: Notifier::to(std::env::var_os("NOTIFY_SOCKET").as_deref()),
        stops: &signals.count,
        reload: &reload,
        mailbox,
        began: Instant::now(),
        looked: Instant::now(),
        reloads: 0,
        reloading: false,
        server: None,
        gone: false,
        ui,
    };
    let captured = capture::capture(&options, &*signals.count, &mut placing);
    placing.notifier.stopping();
    // Whichever of the two looks, this one's or the capture's, saw it.
    let (seconds, gone) = (placing.began.elapsed().as_secs_f64(), placing.gone || placing.is_gone());
    // What was learned is saved, whatever became of the capture.
    let summary = placing.finish();
    metrics::stop(&served);
    if is_regular_end(&captured, args) {
        ui.remark("ended as you asked, before anything was placed");
        return Ok(Status::Done);
    }
    let finished = captured.map_err(|error| failure(error, signals.first()))?;
    let summary = complete(summary, &finished, args.words.is_empty());
    let result = PlacingJson {
        pcstream: pcstream_report::VERSION.to_owned(),
        on: args.on.display().to_string(),
        device: place.device.name.clone(),
        sink_because: choice.in_full(),
        seconds,
        summary,
    };
    let shown = Arc::new(AtomicBool::new(false));
    signals.end_without_readers(shown.clone(), ui);
    let put_out = ui::show(json, &result, || result::text(&result, args.top, ui.layout(false)));
    shown.store(true, Ordering::Relaxed);
    let ended = outcome(&result.summary, &finished, &options, gone.then_some(&place), signals.first(), ui);
    put_out.and(ended)
}

fn about(place: &Place, choice: &Choice) -> About {
    About {
        on: place.directory.display().to_string(),
        device: place.device.name.clone(),
        fs: place.file_system.map_or("", |fs| fs.name()).to_owned(),
        sink: choice.sink.name.to_owned(),
    }
}

/// Whether SIGHUP asks for a reload. On a terminal it says that this closed, unless systemd started a service there.
fn reloads() -> bool {
    let terminal = std::io::stdin().is_terminal() || std::io::stderr().is_terminal();
    !terminal || std::env::var_os("NOTIFY_SOCKET").is_some()
}

fn capture_options(args: &PlaceArgs, ui: Ui) -> Result<CaptureOptions, Failure> {
    // Before anything of root's is looked at: of that another user learned only that others can change it.
    capture::check_machine().map_err(Failure::failed)?;
    hidden_file_system(&args.on).iter().for_each(|hidden| ui.remark(hidden));
    let subject = attached::subject(&args.words, &args.attach, args.duration);
    // With a command, what others write is not placed.
    if !args.dir_only && args.words.is_empty() {
        attached::takes_all(&args.on, &subject, "placed").iter().for_each(|taken| ui.remark(taken));
    }
    let session = SessionOptions {
        // Of a command. What is attached to says itself whom it follows.
        followed: if args.words.is_empty() { Followed::All } else { Followed::Processes },
        buffers: write_buffers::probes(&args.write_buffers, &subject, ui)?,
        unwind: args.unwind.0,
        depth: args.depth.map(u32::from),
        only_below: attached::only_below(Some(&args.on), args.dir_only)?,
        ..SessionOptions::default()
    };
    let target = Target::Existing(args.on.clone());
    // Labels of metrics have the names of functions; without them only the end needs names.
    let live_names = args.metrics.metrics.is_some();
    Ok(CaptureOptions { session, forget_files: true, live_names, ..CaptureOptions::new(subject, target) })
}

/// Streams that the scheme has, the default included.
fn streams(args: &PlaceArgs, place: &Place, choice: &Choice) -> Result<u8, Failure> {
    let streams = args.streams.unwrap_or_else(|| (choice.sink.streams)(&place.device));
    let most = (choice.sink.streams_max)(&place.device);
    if streams <= most {
        return Ok(streams);
    }
    let (sink, device) = (choice.sink.name, &place.device.name);
    let error = anyhow!("--streams {streams}: with the sink {sink} {device} has {most}");
    Err(Failure::wrong_arguments(error))
}

fn placer(
    args: &PlaceArgs,
    streams: u8,
    place: &Place,
    choice: &Choice,
    given: &Path,
    ui: Ui,
) -> Result<Placer, Failure> {
    let mut scheme = configure(&args.scheme).map_err(|error| refused("--scheme", &args.scheme, error))?;
    // What is placed badly in the beginning stays on the drive.
    if let Some(params) = scheme.params_mut::<PcStreamParams>() {
        params.mapper.early = true;
    }
    for setting in &args.set {
        if setting.scheme != scheme.scheme() {
            let error = anyhow!("--set {}: the scheme is {}", setting.text, scheme.scheme());
            return Err(Failure::wrong_arguments(error));
        }
        scheme
            .set(&setting.parameter, &setting.value)
            .map_err(|error| refused("--set", &setting.text, error))?;
    }
    let built = match Environment::new(streams).and_then(|device| scheme.build(&device)) {
        Err(SchemeError::NeedsFuture { .. }) => None,
        built => Some(built.map_err(|error| refused("--scheme", &args.scheme, error))?),
    };
    let learner = built.and_then(Learner::new).ok_or_else(|| {
        Failure::wrong_arguments(anyhow!(
            "--scheme {}: it does not place by program context alone, so there is nothing to decide before a write is \
             made; take pcstream, pcstream-tree or pcstream-paper",
            args.scheme
        ))
    })?;
    let default = args.words.is_empty().then(|| table_file::default_path(&place.directory));
    let name = scheme.scheme();
    let table = args.table.as_deref().or(default.as_deref());
    args.table.as_deref().map_or(Ok(()), has_directory)?;
    let table = table.map(|path| table_file(path, name, ui)).transpose()?;
    let (directory, device) = (place.mount_point.clone(), place.device.clone());
    let given = given.to_owned();
    let sink = (choice.sink.make)(Means {
        directory,
        device,
        override_hints: args.override_hints,
        given: given.clone(),
    })
    .with_context(|| format!("cannot use {}", given.display()))?;
    if !sink.gives_hints() && !place.device.raw && given.exists() {
        ui.remark(&site::hints_left(&place.mount_point));
    }
    Placer::new(name, learner, sink, table).map_err(unusable)
}

/// Whether the directory of a table that was named is there. That of the default is made; a mistyped one is not.
fn has_directory(table: &Path) -> Result<(), Failure> {
    match table.parent() {
        Some(directory) if directory != Path::new("") && !directory.is_dir() => {
            let (table, directory) = (table.display(), directory.display());
            Err(Failure::wrong_arguments(anyhow!("--table {table}: there is no directory {directory}")))
        }
        _ => Ok(()),
    }
}

/// The table at `path`, or where symbolic links from there lead: it is replaced as a whole, which the links outlive.
fn table_file(path: &Path, scheme: &str, ui: Ui) -> Result<TableFile, Failure> {
    let real = whole_file::resolve(path)
        .with_context(|| format!("--table {}", path.display()))
        .map_err(Failure::wrong_arguments)?;
    let table = TableFile::new(&real, scheme).map_err(Failure::failed)?;
    if !table.is_there() {
        ui.remark(&format!("the table {} is new", real.display()));
    }
    Ok(table)
}

/// A table that is none stays none: a service need not try again.
fn unusable(error: TableFileError) -> Failure {
    match error {
        TableFileError::Io { .. } => Failure::failed(error),
        _ => Failure::wrong_arguments(error),
    }
}

fn refused(flag: &str, value: &str, error: SchemeError) -> Failure {
    Failure::wrong_arguments(anyhow::Error::from(error).context(format!("{flag} {value}")))
}

/// Receives a capture, and passes it on.
struct Placing<'a> {
    place: &'a Place,
    choice: &'a Choice,
    /// Where programs get the table of answers to them, if they do.
    offer: Option<PathBuf>,
    answers: Option<Answers>,
    worker: Option<Worker>,
    notifier: Notifier,
    stops: &'a AtomicUsize,
    reload: &'a AtomicBool,
    /// Of the metrics, if they are served.
    mailbox: Option<Mailbox>,
    began: Instant,
    looked: Instant,
    /// Reloads that were asked for.
    reloads: u64,
    /// The last of them is not done yet.
    reloading: bool,
    /// Of the sink `fdp-server`.
    server: Option<Arc<Link>>,
    /// The file system was unmounted, or its device vanished.
    gone: bool,
    ui: Ui,
}

impl Placing<'_> {
    fn is_gone(&self) -> bool {
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
        self.worker.as_mut().expect("it runs").reload();
        self.reloads += 1;
        self.reloading = true;
    }

    fn finish(mut self) -> Summary {
        if self.server_ended() {
            self.ui.remark(&format!("{}: its server (pcstream serve) ended", self.place.device.name));
        }
        let worker = self.worker.take().expect("finished once");
        if self.stops.load(Ordering::Relaxed) > 0 {
            worker.hurry(LEARNING_AFTER_STOP);
        }
        let (summary, notes) = worker.finish();
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
        if let (ByRequest::Server, Some(server)) = (self.choice.sink.by_request, &self.place.device.server) {
            let link = Link::attach(&server.device, streams.pages()).map_err(|error| {
                format!("--sink fdp-server: the server of /dev/{}: {error}", server.device)
            })?;
            self.server = Some(Arc::new(link));
        }
        let table = KernelStreams { maps: streams, server: self.server.clone() };
        self.worker.as_mut().expect("it runs").connect(Box::new(table));
        Ok(())
    }

    fn keys(&mut self, keys: Vec<(u64, ContextId)>) {
        self.worker.as_mut().expect("it runs").feed(Batch::default(), keys);
    }

    fn batch(&mut self, batch: Batch) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.worker.as_mut().expect("it runs").feed(batch, Vec::new());
        Ok(())
    }

    fn named(&mut self, contexts: &[Context]) {
        self.mailbox.iter().for_each(|mailbox| mailbox.named(contexts));
    }

    fn first_writers(&mut self, files: Vec<(FileId, ContextId)>) {
        self.worker.as_mut().expect("it runs").first_writers(files);
    }

    fn progress(&mut self, progress: &Progress) {
        self.mailbox.iter().for_each(|mailbox| mailbox.losses(&progress.losses));
        if self.reload.swap(false, Ordering::Relaxed) {
            self.reload();
        }
        let worker = self.worker.as_ref().expect("it runs");
        worker.notes().iter().for_each(|note| self.ui.remark(note));
        if self.reloading && worker.reloads() == self.reloads {
            self.reloading = false;
            self.notifier.ready(&self.status());
        }
        if self.looked.elapsed() >= LOOK && !self.gone {
            self.looked = Instant::now();
            self.gone = self.is_gone();
            if self.gone {
                self.stops.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// A summary with the names and losses of the capture. `service`: nobody waits for what is dirty at the end.
fn complete(mut summary: Summary, finished: &Finished, service: bool) -> Summary {
    result::name(&mut summary, &finished.contexts);
    let counts = |(name, _): &(&String, &u64)| !(service && OF_THE_END.contains(&name.as_str()));
    let losses = finished.losses.iter().filter(counts).map(|(name, value)| (name.clone(), *value));
    summary.losses.extend(losses);
    summary
}

/// Whether a signal ended the capture before it began, which is as good as one later unless a command never ran.
fn is_regular_end(captured: &Result<Finished, CaptureError>, args: &PlaceArgs) -> bool {
    matches!(captured, Err(CaptureError::Interrupted)) && args.words.is_empty()
}

fn failure(error: CaptureError, signal: Option<i32>) -> Failure {
    match (&error, signal) {
        (CaptureError::Interrupted, Some(signal)) => Failure::Interrupted { error: error.into(), signal },
        _ => Failure::failed(error),
    }
}

/// Says what the user should know, and what exit code that makes. `gone`: the file system that went away.
fn outcome(
    summary: &Summary,
    finished: &Finished,
    options: &CaptureOptions,
    gone: Option<&Place>,
    signal: Option<i32>,
    ui: Ui,
) -> Result<Status, Failure> {
    match gone {
        Some(place) => ui.remark(&format!(
            "ended: {}{} failed or is gone; what was learned until then is kept",
            match place.device.raw {
                false => format!("{} was unmounted, or ", place.mount_point.display()),
                true => String::new(),
            },
            place.device.name
        )),
        None => finished.notes.iter().for_each(|note| ui.remark(note)),
    }
    let lost = human::losses(&summary.losses);
    if !lost.is_empty() {
        ui.remark(&format!("not all writes were learned from or placed: {lost}"));
    }
    if finished.interrupted {
        let error = anyhow!("interrupted; what was learned until then is reported");
        return Err(Failure::Interrupted { error, signal: signal.unwrap_or(SIGINT) });
    }
    if let Some(status) = finished.status.filter(|status| !status.success()) {
        command_files::misplaced(options).iter().for_each(|misplaced| ui.remark(misplaced));
        return Err(anyhow!("the command failed: {status}").into());
    }
    Ok(Status::with_losses(!lost.is_empty()))
}
