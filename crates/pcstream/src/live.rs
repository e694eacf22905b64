//! A program under capture, for `run` and `record`; and `record` itself.
//!
//! A capture feeds two consumers at once: the trace on disk and, for `run`, the simulation.

mod options;
mod recorder;
mod several;
mod together;

use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::ExitStatus;

use anyhow::{Context as _, anyhow};
use pcstream_capture::capture::{self, CaptureError, CaptureOptions, Finished, Stop, Subject};
use pcstream_fs::scratch::ScratchError;
use pcstream_report::{PathShares, human};
use pcstream_trace::{Meta, Totals};
use signal_hook::consts::SIGINT;

use crate::args::{CaptureArgs, RecordArgs, RecordedArgs};
use crate::attached;
use crate::command_files;
use crate::failure::{Failure, Status};
use crate::stop::{StopSignals, failure_of};
use crate::ui::Ui;
use together::{Member, NotBegun};

pub use options::{fs_journal, fs_kind, options, say_what_is_taken};
pub use recorder::Recorder;

/// `pcstream record`.
pub fn record(args: &RecordArgs, ui: Ui) -> Result<Status, Failure> {
    let RecordedArgs { words, attach } = &args.recorded;
    if words.is_empty() && args.capture.on().is_none() {
        return Err(Failure::wrong_arguments(anyhow!(
            "record: give a command after --; or --on DIR to record everything that writes there, or with --pid P, \
             --cgroup C or --unit NAME a part of it"
        )));
    }
    let subject = attached::subject(words, attach);
    say_what_is_taken(&args.capture, &subject, ui);
    let stop = StopSignals::catch()?;
    if args.capture.on.len() > 1 {
        return several::record(args, &subject, &stop, ui);
    }
    let recorder = Recorder::new(&args.output, args.force, &args.capture, &subject, ui);
    let recorded = Recorded::of(recorder, subject, &args.capture, &stop, ui)?;
    recorded.summary(ui);
    outcome(&recorded.captured, args.capture.forward_exit_code, ui)
}

/// A recording that is complete.
struct Recorded<'a> {
    captured: Captured,
    trace: PathBuf,
    meta: Meta,
    args: &'a CaptureArgs,
    /// How its call paths were read.
    paths: PathShares,
    /// Contexts that wrote.
    contexts: u64,
    /// What was followed wrote.
    wrote: bool,
}

impl<'a> Recorded<'a> {
    /// Records. No result goes to standard output: it is the command's.
    fn of(
        recorder: Recorder<'_>,
        subject: Subject,
        args: &'a CaptureArgs,
        stop: &StopSignals,
        ui: Ui,
    ) -> Result<Recorded<'a>, Failure> {
        let mut options = options(args, subject, ui)?;
        options.traced.keep_stdout = true;
        let (mut recorder, captured) = capture_into(recorder, &options, stop, ui)?;
        if recorder.member.as_ref().is_some_and(Member::lacks_command) {
            recorder.abandon()?;
            return Err(NotBegun::AnotherFailed.into());
        }
        let finished = &captured.finished;
        let (paths, contexts) = (recorder.path_shares(finished), recorder.contexts_that_wrote());
        let (wrote, trace) = (recorder.followed_wrote(finished), recorder.path.clone());
        let meta = recorder.finish(finished)?;
        Ok(Recorded { captured, trace, meta, args, paths, contexts, wrote })
    }

    fn summary(&self, ui: Ui) {
        ui.remark(&format!(
            "{}: {} written by {} in {}",
            self.trace.display(),
            human::page_bytes(self.meta.totals.host_pages),
            human::counted(self.contexts, "context"),
            human::counted(self.meta.totals.events, "event"),
        ));
        self.paths.text().iter().for_each(|paths| ui.remark(&format!("of the file data, {paths}")));
        if let Some(dir) = self.args.on().filter(|_| !self.wrote) {
            let place = match self.meta.file_system {
                None => dir.display().to_string(),
                Some(_) if self.args.dir_only => format!("files in {}", dir.display()),
                Some(_) => format!("the file system of {}", dir.display()),
            };
            let Totals { data_pages, covered_data_pages, .. } = self.meta.totals;
            let unknown = data_pages - covered_data_pages;
            ui.remark(&match self.meta.settings.contains_key("attached_to") {
                _ if unknown > 0 && self.contexts == 0 => format!(
                    "{} of data were written to {place}, and no write has a context: nothing says who wrote them",
                    human::page_bytes(unknown)
                ),
                true => {
                    format!("what is followed wrote nothing to {place}: check --on, or record for longer")
                }
                false => format!("no program wrote data to {place}: check --on"),
            });
        }
    }
}

/// What a capture came to, and the signal that ended it.
pub struct Captured {
    /// What it came to.
    pub finished: Finished,
    signal: Option<i32>,
    /// Its device, if it is one of several.
    of: Option<String>,
    /// Files that the command may have looked for in vain.
    misplaced: Option<String>,
}

/// Says what the user should know about a capture, and what exit code that makes.
pub fn outcome(captured: &Captured, forward: bool, ui: Ui) -> Result<Status, Failure> {
    let finished = &captured.finished;
    let say = |text: &str| match &captured.of {
        Some(device) => ui.remark(&format!("{device}: {text}")),
        None => ui.remark(text),
    };
    finished.notes.iter().for_each(|note| say(note));
    let lost = human::losses(&finished.losses);
    if !lost.is_empty() {
        say(&format!("the capture lost part of the writes' contexts or events: {lost}"));
    }
    if let Some(reason) = &finished.not_removed {
        say(reason);
    }
    if finished.interrupted {
        let error = anyhow!("interrupted; what came later was not captured");
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

/// Captures into a recorder. If nothing came of it, the trace begun is removed again.
pub fn capture_into<'a>(
    mut recorder: Recorder<'a>,
    options: &CaptureOptions,
    stop: &StopSignals,
    ui: Ui,
) -> Result<(Recorder<'a>, Captured), Failure> {
    let member = recorder.member.clone();
    let wishes: &dyn Stop = member.as_ref().map_or(&*stop.count, |member| member);
    let result = capture::capture(options, wishes, &mut recorder);
    let signal = stop.first();
    recorder.bar.finish_and_clear();
    match result {
        Ok(mut finished) => {
            let unread = u64::from(recorder.command.is_none());
            finished.losses.insert("command_line_unread".to_owned(), unread);
            let misplaced = if recorder.hides_names() { None } else { command_files::misplaced(options) };
            let of = member.map(|member| member.device().to_owned());
            Ok((recorder, Captured { finished, signal, of, misplaced }))
        }
        Err(error) => {
            if let Some(refused) = recorder.refused.take() {
                recorder.abandon()?;
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
            Err(match &error {
                CaptureError::Scratch(ScratchError::Option { option: "--size" | "--fill", .. }) => {
                    Failure::wrong_arguments(error)
                }
                _ if is_full(&error) => {
                    anyhow!("{error}; give the trace a place on another disk with -o").into()
                }
                _ => failure_of(error, signal),
            })
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
