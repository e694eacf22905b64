//! What receives a capture: it writes the trace, feeds the simulation, and shows progress.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pcstream_capture::capture::{Finished, Observer, Progress, Stage, Started, Subject};
use pcstream_fs::extents::DeviceNumber;
use pcstream_fs::scratch::{BlockDevice, Image};
use pcstream_report::{PathShares, human};
use pcstream_trace::meta::{Exit, FileSystem};
use pcstream_trace::store::{TraceError, partial_path};
use pcstream_trace::{Batch, ById, Event, Extent, Kind, Meta, Op, PAGE_BYTES, TraceReader, TraceWriter};
use serde_json::Value;

use super::options::fs_journal;
use super::together::{Member, NotBegun};
use crate::args::CaptureArgs;
use crate::attached;
use crate::failure::Failure;
use crate::live_simulation::LiveSimulation;
use crate::output;
use crate::redact::Redaction;
use crate::ui::{Ui, with_causes};

/// How often a trace is made safe against a kill, if something came.
const FLUSH: Duration = Duration::from_secs(2);
/// How often the line of the start shows that time goes on.
const TICK: Duration = Duration::from_millis(200);

/// Receives a capture: writes the trace, feeds the simulation, shows progress.
pub struct Recorder<'a> {
    pub(super) path: PathBuf,
    overwrite: bool,
    args: &'a CaptureArgs,
    /// `None`: the process that is followed did not answer.
    pub(super) command: Option<Vec<String>>,
    /// What runs already.
    attached_to: Option<String>,
    pub(super) writer: Option<TraceWriter>,
    flushed: Instant,
    /// Whether something came since.
    unflushed: bool,
    /// Once the capture has begun.
    device: Option<DeviceNumber>,
    /// Pages written by context: all, and those of file data.
    pages: ById<[u64; 2]>,
    /// What simulates meanwhile, if anything does.
    pub simulation: Option<LiveSimulation<'a>>,
    /// The trace is removed in the end.
    pub temporary: bool,
    /// Hides names from the trace and from what is shown.
    redaction: Option<Redaction>,
    /// If other devices are recorded at the same time.
    pub(super) member: Option<Member>,
    /// Why the simulation or the command does not begin: it ends the capture, and keeps its exit code.
    pub(super) refused: Option<Failure>,
    pub(super) bar: ProgressBar,
    /// The bar stays while the capture goes on. A command writes to the terminal, too: the line would cover its prompts.
    shows_progress: bool,
    ui: Ui,
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
            unflushed: false,
            device: None,
            pages: ById::default(),
            simulation: None,
            temporary: false,
            redaction: args.redact.then(Redaction::default),
            member: None,
            refused: None,
            bar: starting_line(ui),
            shows_progress: !matches!(subject, Subject::Command(_)),
            ui,
        }
    }

    /// Records together with others.
    pub(super) fn join(&mut self, member: Member) {
        let bar = std::mem::replace(&mut self.bar, ProgressBar::hidden());
        if !bar.is_hidden() {
            self.bar = member.bars().add(bar);
            self.bar.set_prefix(format!("{}: ", member.device()));
        }
        self.member = Some(member);
    }

    fn meta(&self, started: &Started) -> Meta {
        let mut meta = Meta::new(&started.device.display().to_string(), started.device_pages);
        meta.pcstream_version = pcstream_report::VERSION.to_owned();
        meta.created_unix_s = SystemTime::now().duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs());
        meta.start_unix_ns = Some(started.start_unix_ns);
        meta.file_system = started.fs.map(|fs| FileSystem {
            kind: fs.name().to_owned(),
            block_bytes: started.block_bytes,
            options: self.args.on().map_or(fs_journal(self.args.fs).name(), |_| "").to_owned(),
        });
        meta.kernel =
            std::fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|text| text.trim().to_owned());
        let command = self.command.as_deref().unwrap_or_default();
        meta.command = match &self.redaction {
            Some(_) if self.attached_to.is_some() => Redaction::process(command),
            Some(_) => Redaction::command(command),
            None => command.to_vec(),
        };
        meta.prefilled = started.prefilled.iter().map(|r| Extent { lba: r.start, pages: r.pages }).collect();
        let args = self.args;
        let mut place = place(args);
        if started.discards {
            place.push(("discards", true.into()));
        }
        if args.dir_only {
            place.push(("dir_only", true.into()));
        }
        let how = [
            ("unwind", args.unwind.name().into()),
            ("order", args.order.name().into()),
            ("depth", args.depth.map_or("default".into(), |depth| u32::from(depth).into())),
        ];
        if let Some(member) = &self.member {
            place.push(("recorded_with", member.others().into()));
        }
        let to = self.attached_to.iter().map(|to| ("attached_to", to.clone().into()));
        meta.settings =
            place.into_iter().chain(how).chain(to).map(|(key, value)| (key.to_owned(), value)).collect();
        meta
    }

    /// Goes on with a device that was made larger: its size was asked for at the start.
    fn follow_growth(&mut self, batch: &Batch) -> Result<(), TraceError> {
        let writer = self.writer.as_mut().expect("the capture began");
        let end = |event: &Event| event.lba.0.saturating_add(event.pages.into());
        let end = batch.events.iter().map(end).max().unwrap_or(0);
        let before = writer.meta().device.pages;
        if end <= before {
            return Ok(());
        }
        let device = self.device.and_then(|number| BlockDevice::by_number(number).ok());
        // Meanwhile it may be smaller again, or gone.
        let now = end.max(device.map_or(0, |device| device.bytes / PAGE_BYTES));
        writer.meta_mut().device.pages = now;
        // What a kill leaves has no event beyond its device.
        writer.flush()?;
        let grew = format!(
            "{} grew from {} to {} while it was recorded",
            writer.meta().device.name,
            human::page_bytes(before),
            human::page_bytes(now)
        );
        let simulation = self.simulation.as_mut();
        let then = simulation.map_or("the trace has the new size", LiveSimulation::device_grew);
        self.bar.suspend(|| self.ui.remark(&format!("{grew}: {then}")));
        Ok(())
    }

    fn flush_if_due(&mut self) -> Result<(), TraceError> {
        let due = self.unflushed && self.flushed.elapsed() >= FLUSH;
        if let Some(writer) = self.writer.as_mut().filter(|_| due) {
            let done = writer.flush();
            // Also after an error, and not before: a slow disk must not take all the time.
            self.flushed = Instant::now();
            done?;
            self.unflushed = false;
        }
        Ok(())
    }

    /// Says what a recording that failed leaves behind. Its writer is gone.
    pub(super) fn say_what_is_left(&self, subject: &Subject, ui: Ui) {
        if matches!(subject, Subject::Command(_)) {
            ui.remark("the recording failed, and the command was ended with it if it still ran");
        }
        let partial = partial_path(&self.path);
        if self.temporary {
            return;
        }
        match TraceReader::open(&partial) {
            Ok(reader) if reader.meta().totals.events > 0 => {
                ui.remark(&format!("what was captured until then can be read: {}", partial.display()));
            }
            _ if partial.exists() => {
                ui.remark(&format!("no event was kept; {} can be removed", partial.display()));
            }
            _ => {}
        }
    }

    fn count(&mut self, event: &Event) {
        if event.op == Op::Write {
            let pages = u64::from(event.pages);
            let [all, data] = self.pages.at(event.context.0 as usize);
            *all += pages;
            *data += if event.kind == Kind::Data { pages } else { 0 };
        }
    }

    /// How the call paths of what was recorded were read.
    pub(super) fn path_shares(&self, finished: &Finished) -> PathShares {
        let context = |id: usize| id.checked_sub(1).and_then(|index| finished.contexts.get(index));
        PathShares::of(self.pages.iter().enumerate().map(|(id, &[_, data])| (context(id), data)))
    }

    /// Without those that were captured and wrote nothing: `contexts` does not list them.
    pub(super) fn contexts_that_wrote(&self) -> u64 {
        self.pages.iter().skip(1).filter(|[all, _]| *all > 0).count() as u64
    }

    /// Whether anything that is followed wrote.
    pub(super) fn followed_wrote(&self, finished: &Finished) -> bool {
        let mut pages = self.pages.iter().skip(1).zip(&finished.contexts);
        pages.any(|([all, _], context)| *all > 0 && !context.is_others())
    }

    /// Whether file names are hidden from what is shown.
    pub(super) fn hides_names(&self) -> bool {
        self.redaction.is_some()
    }

    /// Removes the trace begun, if any.
    pub(super) fn abandon(&mut self) -> Result<(), Failure> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        Ok(writer.abandon().context("cannot remove the trace begun")?)
    }

    /// Completes the trace. Returns what it says about itself.
    pub fn finish(mut self, finished: &Finished) -> Result<Meta, Failure> {
        let mut writer = self.writer.take().expect("the capture began");
        let meta = writer.meta_mut();
        meta.exit = finished.status.map(exit_of);
        meta.losses.clone_from(&finished.losses);
        let statistics = finished.statistics.iter().map(|(name, count)| (name.clone(), (*count).into()));
        meta.settings.insert("statistics".to_owned(), Value::Object(statistics.collect()));
        let mut contexts = finished.contexts.clone();
        if self.redaction.is_some() {
            contexts.iter_mut().for_each(Redaction::context);
        }
        let summary =
            writer.finish(Some(&contexts)).with_context(|| format!("-o {}", self.path.display()))?;
        Ok(summary.meta)
    }
}

/// What a trace says of the place where it was recorded.
fn place(args: &CaptureArgs) -> Vec<(&'static str, Value)> {
    let unless_redacted = |text: String| if args.redact { "(redacted)".into() } else { text.into() };
    if let Some(dir) = args.on() {
        return vec![("on", unless_redacted(dir.display().to_string()))];
    }
    let image = match &args.image {
        Image::File(path) => unless_redacted(path.display().to_string()),
        memory => memory.to_string().into(),
    };
    vec![("size_bytes", args.size.into()), ("fill", args.fill.into()), ("image", image)]
}

fn exit_of(status: ExitStatus) -> Exit {
    Exit { code: status.code(), signal: std::os::unix::process::ExitStatusExt::signal(&status) }
}

impl Recorder<'_> {
    /// Takes the line of the start away, or makes it that of the capture.
    fn end_start(&mut self) {
        self.bar.disable_steady_tick();
        if self.shows_progress {
            self.bar.reset_elapsed();
            self.bar.set_style(line("capturing"));
            self.bar.set_message("");
        } else {
            self.bar.finish_and_clear();
            self.bar = ProgressBar::hidden();
        }
    }

    /// Waits for captures of other devices, if there are any.
    fn wait(
        &mut self,
        until: fn(&Member) -> Result<(), NotBegun>,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        if let Some(Err(not_begun)) = self.member.as_ref().map(until) {
            self.refused = Some(not_begun.into());
            return Err(not_begun.into());
        }
        Ok(())
    }
}

impl Observer for Recorder<'_> {
    fn starting(&mut self, stage: Stage) {
        if self.bar.is_hidden() {
            return;
        }
        self.bar.set_message(match stage {
            Stage::Load => "loading the BPF program",
            Stage::Make => "making the scratch file system",
            Stage::Sync => "writing what is dirty to the device",
        });
        self.bar.enable_steady_tick(TICK);
    }

    fn ready(&mut self) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.wait(Member::ready)
    }

    fn started(&mut self, started: &Started) -> Result<(), Box<dyn Error + Send + Sync>> {
        // Also before what the simulation has to say.
        self.end_start();
        self.device = Some(started.number);
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
        self.wait(Member::begin)?;
        if let (Some(on), true) = (self.args.on(), self.attached_to.is_some()) {
            let said = format!("recording writes to {} on {}", on.display(), started.device.display());
            self.bar.suspend(|| self.ui.remark(&said));
        }
        Ok(())
    }

    fn ended(&mut self) {
        self.member.iter().for_each(Member::command_ended);
    }

    fn batch(&mut self, mut batch: Batch) -> Result<(), Box<dyn Error + Send + Sync>> {
        if let Some(redaction) = &self.redaction {
            redaction.batch(&mut batch);
        }
        batch.events.iter().for_each(|event| self.count(event));
        self.follow_growth(&batch)?;
        let writer = self.writer.as_mut().expect("the capture began");
        writer.write_batch(&batch)?;
        self.unflushed = true;
        self.flush_if_due()?;
        if let Some(simulation) = &mut self.simulation {
            simulation.feed(batch)?;
        }
        Ok(())
    }

    fn remark(&mut self, text: &str) {
        let on = self.args.on().map_or(String::new(), |on| format!("{}: ", on.display()));
        self.bar.suspend(|| self.ui.remark(&format!("{on}{text}")));
    }

    fn progress(&mut self, progress: &Progress) {
        // No batch comes while nobody writes. An error comes again with a later one, or at the end.
        _ = self.flush_if_due();
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

/// The live line, before the capture begins: silent unless stderr is a terminal.
fn starting_line(ui: Ui) -> ProgressBar {
    if !ui.is_interactive() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(5));
    bar.set_style(line("starting"));
    bar
}

fn line(what: &str) -> ProgressStyle {
    let template = format!("{what} {{elapsed_precise}}  {{prefix}}{{msg}}");
    ProgressStyle::with_template(&template).expect("the template is legal")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};

    #[test]
    fn places_are_hidden_on_request() {
        let shown = |flags: &str| {
            let words = format!("pcstream record -o t.pctrace {flags} -- true");
            let cli = Cli::of_words(words.split(' ').map(Into::into)).expect("it parses");
            let Command::Record(record) = cli.command else { panic!("it is a recording") };
            format!("{:?}", place(&record.capture))
        };
        for flag in ["--on /home/anna", "--image /home/anna/disk"] {
            assert!(shown(flag).contains("anna"), "{flag}");
            let hidden = shown(&format!("--redact {flag}"));
            assert!(!hidden.contains("anna") && hidden.contains("(redacted)"), "{hidden}");
        }
        assert!(shown("--redact --image tmpfs").contains("tmpfs"));
    }
}
