//! A program under capture, for `run` and `record`; and `record` itself.
//!
//! A capture feeds two consumers at once: the trace on disk and, for `run`, the simulation.

use std::error::Error;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, anyhow};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pcstream_capture::capture::{
    self, CaptureError, CaptureOptions, Finished, Observer, Progress, Started, Subject, Target,
};
use pcstream_capture::session::SessionOptions;
use pcstream_capture::signature::Order;
use pcstream_fs::scratch::{
    ExistingFs, FsKind, Image, Journal, ScratchError, ScratchOptions, hidden_file_system,
};
use pcstream_report::{PathShares, human};
use pcstream_trace::meta::{Exit, FileSystem};
use pcstream_trace::store::partial_path;
use pcstream_trace::{Batch, Event, Extent, Kind, Meta, Op, TraceReader, TraceWriter};
use signal_hook::consts::SIGINT;

use crate::args::{CaptureArgs, OrderArg, RecordArgs, RecordedArgs, ScratchFs};
use crate::attached;
use crate::command_files;
use crate::failure::{Failure, Status};
use crate::live_simulation::LiveSimulation;
use crate::output;
use crate::redact::Redaction;
use crate::stop::StopSignals;
use crate::ui::{Ui, with_causes};
use crate::write_buffers;

/// How often a trace is made safe against a kill.
const FLUSH: Duration = Duration::from_secs(2);

/// `pcstream record`.
pub fn record(args: RecordArgs, ui: Ui) -> Result<Status, Failure> {
    let RecordedArgs { words, attach, duration } = &args.recorded;
    if words.is_empty() && args.capture.on.is_none() {
        return Err(Failure::wrong_arguments(anyhow!(
            "record: give a command after --; or --on DIR to record everything that writes there, or with --pid P, \
             --cgroup C or --unit NAME a part of it"
        )));
    }
    let subject = attached::subject(words, attach, *duration);
    let recorder = Recorder::new(&args.output, args.force, &args.capture, &subject, ui);
    // No result goes to standard output: it is the command's.
    let options = CaptureOptions { keep_stdout: true, ..options(&args.capture, subject, ui)? };
    let (recorder, captured) = capture_into(recorder, &options, &StopSignals::catch()?, ui)?;
    let finished = &captured.finished;
    let (paths, contexts) = (recorder.path_shares(finished), recorder.contexts_that_wrote());
    let wrote = recorder.followed_wrote(finished);
    let meta = recorder.finish(finished)?;
    ui.remark(&format!(
        "{}: {} written by {} in {}",
        args.output.display(),
        human::page_bytes(meta.totals.host_pages),
        human::counted(contexts, "context"),
        human::counted(meta.totals.events, "event"),
    ));
    paths.text().iter().for_each(|paths| ui.remark(&format!("of the file data, {paths}")));
    if let Some(dir) = args.capture.on.as_ref().filter(|_| !wrote) {
        ui.remark(&format!(
            "what is followed wrote nothing to {}: check --on, or record for longer",
            if args.capture.dir_only {
                format!("files in {}", dir.display())
            } else {
                format!("the file system of {}", dir.display())
            }
        ));
    }
    outcome(&captured, args.capture.forward_exit_code, ui)
}

/// What a capture came to, and the signal that ended it.
pub struct Captured {
    /// What it came to.
    pub finished: Finished,
    signal: Option<i32>,
    /// Files that the command may have looked for in vain.
    misplaced: Option<String>,
}

/// Says what the user should know about a capture, and what exit code that makes.
pub fn outcome(captured: &Captured, forward: bool, ui: Ui) -> Result<Status, Failure> {
    let finished = &captured.finished;
    finished.notes.iter().for_each(|note| ui.remark(note));
    let lost = human::losses(&finished.losses);
    if !lost.is_empty() {
        ui.remark(&format!("the capture lost part of the writes' contexts or events: {lost}"));
    }
    if let Some(reason) = &finished.not_removed {
        ui.remark(reason);
    }
    if finished.interrupted {
        let error = anyhow!("interrupted; what was captured until then is reported");
        return Err(Failure::Interrupted { error, signal: captured.signal.unwrap_or(SIGINT) });
    }
    if let Some(status) = finished.status.filter(|status| !status.success()) {
        captured.misplaced.iter().for_each(|misplaced| ui.remark(misplaced));
        let error = anyhow!("the traced command failed: {status}");
        if forward {
            let code = code_of(status);
            ui.remark(&format!("exit code {code} is the command's"));
            return Err(Failure::Forwarded { error, code });
        }
        return Err(error.into());
    }
    if finished.not_removed.is_some() {
        return Err(anyhow!("the trace is whole, but the scratch file system is still there").into());
    }
    Ok(Status::with_losses(!lost.is_empty()))
}

/// An exit status as a shell tells it: 128 and the number for a signal.
fn code_of(status: ExitStatus) -> u8 {
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    let code = status.code().unwrap_or_else(|| 128 + signal.unwrap_or(0));
    u8::try_from(code).unwrap_or(u8::MAX)
}

/// What the flags say of a capture.
pub fn options(args: &CaptureArgs, subject: Subject, ui: Ui) -> Result<CaptureOptions, Failure> {
    let session = session(args, &subject, ui)?;
    let only_below = args.on.as_ref().filter(|_| args.dir_only).map(|on| only_below(on)).transpose()?;
    let all = args.on.as_ref().filter(|_| !args.dir_only);
    let taken = all.and_then(|on| attached::takes_all(on, &subject, "recorded"));
    let narrower = "--dir-only takes that directory alone";
    taken.iter().for_each(|taken| ui.remark(&format!("{taken}, and {narrower}")));
    args.on.iter().filter_map(|on| hidden_file_system(on)).for_each(|hidden| ui.remark(&hidden));
    let order = order(args.order);
    Ok(CaptureOptions { session, order, only_below, ..CaptureOptions::new(subject, target(args)?) })
}

/// The directory of --on from the root of its file system. Errors: it is none.
fn only_below(on: &Path) -> Result<PathBuf, Failure> {
    if !on.is_dir() {
        let error = anyhow!("--dir-only: --on {} is no directory: give one of its file system", on.display());
        return Err(Failure::wrong_arguments(error));
    }
    Ok(ExistingFs::of(on).map_err(Failure::failed)?.path_on_fs)
}

/// Captures into a recorder. If nothing came of it, the trace begun is removed again.
pub fn capture_into<'a>(
    mut recorder: Recorder<'a>,
    options: &CaptureOptions,
    stop: &StopSignals,
    ui: Ui,
) -> Result<(Recorder<'a>, Captured), Failure> {
    let result = capture::capture(options, &stop.count, &mut recorder);
    let signal = stop.first();
    recorder.bar.finish_and_clear();
    match result {
        Ok(finished) => {
            Ok((recorder, Captured { finished, signal, misplaced: command_files::misplaced(options) }))
        }
        Err(error) => {
            if let Some(refused) = recorder.refused.take() {
                return Err(refused);
            }
            if let Some(writer) = recorder.writer.take() {
                if matches!(error, CaptureError::Command { .. }) {
                    writer.abandon().context("cannot remove the trace begun")?;
                } else {
                    drop(writer);
                    recorder.say_what_is_left(&options.subject, ui);
                }
            }
            match (&error, signal) {
                (CaptureError::Interrupted, Some(signal)) => {
                    Err(Failure::Interrupted { error: error.into(), signal })
                }
                (CaptureError::Scratch(ScratchError::Option { option: "--size" | "--fill", .. }), _) => {
                    Err(Failure::wrong_arguments(error))
                }
                _ if is_full(&error) => {
                    Err(anyhow!("{error}; give the trace a place on another disk with -o").into())
                }
                _ => Err(Failure::failed(error)),
            }
        }
    }
}

/// Whether there was no room for the trace.
fn is_full(error: &CaptureError) -> bool {
    let CaptureError::Observer(inner) = error else { return false };
    let full =
        |cause: &std::io::Error| matches!(cause.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
    anyhow::Chain::new(inner.as_ref()).any(|cause| cause.downcast_ref().is_some_and(full))
}

fn target(args: &CaptureArgs) -> anyhow::Result<Target> {
    let there = |flag: &str, given: &Path, at: &Path| {
        std::fs::metadata(at).map(drop).with_context(|| format!("{flag} {}", given.display()))
    };
    if let Some(dir) = &args.on {
        there("--on", dir, dir)?;
    }
    if let Image::File(path) = &args.image
        && let Some(parent) = path.parent().filter(|parent| *parent != Path::new(""))
    {
        there("--image", path, parent)?;
    }
    Ok(match &args.on {
        Some(dir) => Target::Existing(dir.clone()),
        None => Target::Scratch(ScratchOptions {
            fs: fs_kind(args.fs),
            journal: fs_journal(args.fs),
            size_bytes: args.size,
            fill: args.fill,
            image: args.image.clone(),
            ..ScratchOptions::default()
        }),
    })
}

/// A file system by its flag.
pub fn fs_kind(fs: ScratchFs) -> FsKind {
    match fs {
        ScratchFs::Ext4 | ScratchFs::Ext4NoJournal | ScratchFs::Ext4DataJournal => FsKind::Ext4,
        ScratchFs::Xfs => FsKind::Xfs,
    }
}

/// What its journal holds.
pub fn fs_journal(fs: ScratchFs) -> Journal {
    match fs {
        ScratchFs::Ext4 | ScratchFs::Xfs => Journal::Metadata,
        ScratchFs::Ext4NoJournal => Journal::Off,
        ScratchFs::Ext4DataJournal => Journal::Data,
    }
}

fn session(args: &CaptureArgs, subject: &Subject, ui: Ui) -> Result<SessionOptions, Failure> {
    Ok(SessionOptions {
        buffers: write_buffers::probes(&args.write_buffers, subject, ui)?,
        unwind: args.unwind.0,
        depth: args.depth.map(u32::from),
        ..SessionOptions::default()
    })
}

fn order(order: OrderArg) -> Order {
    match order {
        OrderArg::Hash => Order::Hash,
        OrderArg::Sum => Order::Sum,
    }
}

/// Receives a capture: writes the trace, feeds the simulation, shows progress.
pub struct Recorder<'a> {
    path: PathBuf,
    overwrite: bool,
    args: &'a CaptureArgs,
    command: Vec<String>,
    /// What runs already.
    attached_to: Option<String>,
    writer: Option<TraceWriter>,
    flushed: Instant,
    /// Pages written by context: all, and those of file data.
    pages: Vec<[u64; 2]>,
    /// What simulates meanwhile, if anything does.
    pub simulation: Option<LiveSimulation<'a>>,
    /// The trace is removed in the end.
    pub temporary: bool,
    /// Hides names from the trace and from what is shown.
    redaction: Option<Redaction>,
    /// Why the simulation does not begin: it ends the capture, and keeps its exit code.
    refused: Option<Failure>,
    bar: ProgressBar,
}

impl<'a> Recorder<'a> {
    /// Nothing is written before the capture begins.
    pub fn new(
        path: &Path,
        overwrite: bool,
        args: &'a CaptureArgs,
        subject: &Subject,
        ui: Ui,
    ) -> Recorder<'a> {
        Recorder {
            path: path.to_owned(),
            overwrite,
            args,
            command: attached::command(subject),
            attached_to: attached::setting(subject, args.redact),
            writer: None,
            flushed: Instant::now(),
            pages: Vec::new(),
            simulation: None,
            temporary: false,
            redaction: args.redact.then(Redaction::default),
            refused: None,
            bar: capture_line(ui),
        }
    }

    fn meta(&self, started: &Started) -> Meta {
        let mut meta = Meta::new(&started.device.display().to_string(), started.device_pages);
        meta.pcstream_version = pcstream_report::VERSION.to_owned();
        meta.created_unix_s = SystemTime::now().duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs());
        meta.file_system = started.fs.map(|fs| FileSystem {
            kind: fs.name().to_owned(),
            block_bytes: 4096,
            options: self.args.on.as_ref().map_or(fs_journal(self.args.fs).name(), |_| "").to_owned(),
        });
        meta.kernel =
            std::fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|text| text.trim().to_owned());
        meta.command = match &self.redaction {
            Some(_) => Redaction::command(&self.command),
            None => self.command.clone(),
        };
        meta.prefilled = started.prefilled.iter().map(|r| Extent { lba: r.start, pages: r.pages }).collect();
        let args = self.args;
        let mut place = match &args.on {
            Some(_) if args.redact => vec![("on", "(redacted)".into())],
            Some(dir) => vec![("on", dir.display().to_string().into())],
            None => vec![
                ("size_bytes", args.size.into()),
                ("fill", args.fill.into()),
                ("image", args.image.to_string().into()),
            ],
        };
        if args.dir_only {
            place.push(("dir_only", true.into()));
        }
        let how = [
            ("unwind", args.unwind.name().into()),
            ("order", args.order.name().into()),
            ("depth", args.depth.map_or("default".into(), |depth| u32::from(depth).into())),
        ];
        let to = self.attached_to.iter().map(|to| ("attached_to", to.clone().into()));
        meta.settings =
            place.into_iter().chain(how).chain(to).map(|(key, value)| (key.to_owned(), value)).collect();
        meta
    }

    /// Says what a recording that failed leaves behind. Its writer is gone.
    fn say_what_is_left(&self, subject: &Subject, ui: Ui) {
        if matches!(subject, Subject::Command(_)) {
            ui.remark("the recording failed, and the command was ended with it if it still ran");
        }
        let partial = partial_path(&self.path);
        if !self.temporary && TraceReader::open(&partial).is_ok() {
            ui.remark(&format!("what was captured until then can be read: {}", partial.display()));
        }
    }

    fn count(&mut self, event: &Event) {
        if event.op == Op::Write {
            let at = event.context.0 as usize;
            if at >= self.pages.len() {
                self.pages.resize(at + 1, [0, 0]);
            }
            let pages = u64::from(event.pages);
            let data = if event.kind == Kind::Data { pages } else { 0 };
            self.pages[at] = [self.pages[at][0] + pages, self.pages[at][1] + data];
        }
    }

    /// How the call paths of what was recorded were read.
    fn path_shares(&self, finished: &Finished) -> PathShares {
        let context = |id: usize| id.checked_sub(1).and_then(|index| finished.contexts.get(index));
        PathShares::of(self.pages.iter().enumerate().map(|(id, &[_, data])| (context(id), data)))
    }

    /// Without those that were captured and wrote nothing: `contexts` does not list them.
    fn contexts_that_wrote(&self) -> u64 {
        self.pages.iter().skip(1).filter(|[all, _]| *all > 0).count() as u64
    }

    /// Whether anything that is followed wrote.
    fn followed_wrote(&self, finished: &Finished) -> bool {
        let mut pages = self.pages.iter().skip(1).zip(&finished.contexts);
        pages.any(|([all, _], context)| *all > 0 && !context.is_others())
    }

    /// Completes the trace. Returns what it says about itself.
    pub fn finish(mut self, finished: &Finished) -> Result<Meta, Failure> {
        let mut writer = self.writer.take().expect("the capture began");
        let meta = writer.meta_mut();
        meta.exit = finished.status.map(exit_of);
        meta.losses.clone_from(&finished.losses);
        let statistics = finished.statistics.iter().map(|(name, count)| (name.clone(), (*count).into()));
        meta.settings.insert("statistics".to_owned(), serde_json::Value::Object(statistics.collect()));
        let mut contexts = finished.contexts.clone();
        if self.redaction.is_some() {
            contexts.iter_mut().for_each(Redaction::context);
        }
        let summary =
            writer.finish(Some(&contexts)).with_context(|| format!("-o {}", self.path.display()))?;
        Ok(summary.meta)
    }
}

fn exit_of(status: ExitStatus) -> Exit {
    Exit { code: status.code(), signal: std::os::unix::process::ExitStatusExt::signal(&status) }
}

impl Observer for Recorder<'_> {
    fn started(&mut self, started: &Started) -> Result<(), Box<dyn Error + Send + Sync>> {
        let meta = self.meta(started);
        if let Some(simulation) = &mut self.simulation
            && let Err(refused) = simulation.start(&meta)
        {
            self.refused = Some(refused);
            return Err("the simulation cannot begin".into());
        }
        let writer = output::begin(&self.path, meta, self.overwrite);
        self.writer = Some(writer.map_err(|error| with_causes(&error))?);
        self.flushed = Instant::now();
        Ok(())
    }

    fn batch(&mut self, mut batch: Batch) -> Result<(), Box<dyn Error + Send + Sync>> {
        if let Some(redaction) = &self.redaction {
            redaction.batch(&mut batch);
        }
        batch.events.iter().for_each(|event| self.count(event));
        let writer = self.writer.as_mut().expect("the capture began");
        writer.write_batch(&batch)?;
        if self.flushed.elapsed() >= FLUSH {
            writer.flush()?;
            self.flushed = Instant::now();
        }
        if let Some(simulation) = &mut self.simulation {
            simulation.feed(batch)?;
        }
        Ok(())
    }

    fn progress(&mut self, progress: &Progress) {
        let lost = if progress.lost > 0 {
            format!(", {} lost", human::counted(progress.lost, "event"))
        } else {
            String::new()
        };
        self.bar.set_message(format!(
            "{} written, {}{lost}",
            human::bytes(progress.written_bytes),
            human::counted(progress.contexts as u64, "context")
        ));
        self.bar.tick();
    }
}

/// The live line: silent unless stderr is a terminal.
fn capture_line(ui: Ui) -> ProgressBar {
    if !ui.is_interactive() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(5));
    bar.set_style(
        ProgressStyle::with_template("capturing {elapsed_precise}  {msg}").expect("the template is legal"),
    );
    bar
}
