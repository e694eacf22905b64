//! `record` with several `--on`: a capture of each file system or device, and one command for all of them.
//!
//! Idea: each capture is a whole one, with a session and a trace of its own, in a thread of its own. So what one of them
//! has to end for (a full disk, an unmount) does not end the others. The price: each page that becomes dirty is looked at once
//! for each device.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::ScopedJoinHandle;

use anyhow::{Context as _, anyhow};
use pcstream_capture::attach::Running;
use pcstream_capture::capture::Subject;
use pcstream_fs::extents::DeviceNumber;
use pcstream_trace::store::partial_path;

use super::together::{Member, NotBegun, Together};
use super::{Recorded, Recorder, outcome};
use crate::args::{CaptureArgs, RecordArgs};
use crate::attached;
use crate::failure::{Failure, Status};
use crate::output::one_of_several;
use crate::stop::StopSignals;
use crate::ui::{Ui, with_causes};
use crate::whole_file::resolve_directory;

/// One of the devices.
struct Device {
    args: CaptureArgs,
    number: DeviceNumber,
    path: PathBuf,
    trace: PathBuf,
}

/// Records them.
pub fn record(args: &RecordArgs, subject: &Subject, stop: &StopSignals, ui: Ui) -> Result<Status, Failure> {
    let devices = devices(args)?;
    let names = devices.iter().map(|device| device.path.display().to_string()).collect();
    let has_command = matches!(subject, Subject::Command(_));
    let together = Together::new(names, has_command, stop);
    let results: Vec<_> = std::thread::scope(|scope| {
        let one = |(index, device)| {
            let member = Member::new(&together, index);
            // Here, so that the others learn of it if there is no room for a thread.
            let leaving = member.leaving();
            std::thread::Builder::new().spawn_scoped(scope, move || {
                let mut leaving = leaving;
                let status = one(device, args.force, subject, member, stop, ui);
                leaving.failed = status.is_err();
                status
            })
        };
        let threads: Vec<_> = devices.iter().enumerate().map(one).collect();
        let join = |thread: io::Result<ScopedJoinHandle<_>>| {
            let thread = thread.context("cannot start a thread for a device")?;
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    });
    together_as(results, &together, ui)
}

/// Where the devices are, all different, and whether their traces can be made.
fn devices(args: &RecordArgs) -> Result<Vec<Device>, Failure> {
    // Each trace would say so.
    resolve_directory(&args.output).with_context(|| format!("-o {}", args.output.display()))?;
    if args.output.file_name().is_none() {
        return Err(anyhow!("-o: {} does not end in a name", args.output.display()).into());
    }
    let mut devices: Vec<Device> = Vec::new();
    for mut args_of_one in args.capture.each() {
        // The command ends later than it is asked to; until then it writes to all of them.
        if !args.recorded.words.is_empty() && !devices.is_empty() {
            args_of_one.duration = None;
        }
        let on = &args_of_one.on[0];
        let (number, path) = attached::device_of(on).with_context(|| format!("--on {}", on.display()))?;
        if let Some(same) = devices.iter().find(|other| other.number == number) {
            let advice = match args_of_one.dir_only {
                true => "--dir-only follows one directory of each file system",
                false => "name it once",
            };
            return Err(Failure::wrong_arguments(anyhow!(
                "--on {} and --on {} are both on {}: {advice}",
                same.args.on[0].display(),
                on.display(),
                path.display()
            )));
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let trace = one_of_several(&args.output, &name);
        let left = [trace.clone(), partial_path(&trace)].into_iter().find(|path| path.exists());
        if let Some(left) = left.filter(|_| !args.force) {
            return Err(anyhow!("-o: {} exists; --force replaces it", left.display()).into());
        }
        devices.push(Device { args: args_of_one, number, path, trace });
    }
    Ok(devices)
}

/// Of whom the captures beside the first are: with a command, of whoever writes while it runs.
fn beside(subject: &Subject) -> Subject {
    match subject {
        Subject::Command(_) => Subject::Running(Running::Anyone),
        running @ Subject::Running(_) => running.clone(),
    }
}

/// Says what it came to, as soon as it has ended.
fn one(
    device: &Device,
    force: bool,
    subject: &Subject,
    member: Member,
    stop: &StopSignals,
    ui: Ui,
) -> Result<Status, Failure> {
    let mut recorder = Recorder::new(&device.trace, force, &device.args, subject, ui);
    let captured = if member.is_first() { subject.clone() } else { beside(subject) };
    recorder.join(member.clone());
    let recorded = Recorded::of(recorder, captured, &device.args, stop, ui);
    member.bars().suspend(|| {
        let recorded = recorded.map_err(|failure| late(failure, &member, ui))?;
        recorded.summary(ui);
        outcome(&recorded.captured, device.args.forward_exit_code, ui)
    })
}

/// A failure with its device, if all captures had begun. It is said at once: the others may go on for long.
fn late(failure: Failure, member: &Member, ui: Ui) -> Failure {
    let is_new = |error: &anyhow::Error| member.all_have_begun() && !error.is::<NotBegun>();
    let failure = failure.map_failed(|error| match is_new(&error) {
        true => anyhow!("{}: {}", member.device(), with_causes(&error)),
        false => error,
    });
    if let Failure::Failed(error) = &failure
        && is_new(error)
    {
        ui.remark(&with_causes(error));
        if member.ends_the_command() {
            ui.remark("the command is asked to end, as a device is not recorded any more");
        }
    }
    failure
}

/// What they come to together. Of those that failed, the first counts.
fn together_as(
    mut results: Vec<Result<Status, Failure>>,
    together: &Arc<Together>,
    ui: Ui,
) -> Result<Status, Failure> {
    if let Some(failed) = together.failed().or_else(|| results.iter().position(Result::is_err)) {
        let failure = results.swap_remove(failed);
        let said = failure.as_ref().err().and_then(Failure::error).map(with_causes);
        let failed = |result: &Result<Status, Failure>| match result {
            Err(Failure::Failed(error)) if !error.is::<NotBegun>() => Some(with_causes(error)),
            Err(Failure::WrongArguments(error)) => Some(with_causes(error)),
            _ => None,
        };
        let new = results.iter().filter_map(failed);
        let new: BTreeSet<String> = new.filter(|text| said.as_ref() != Some(text)).collect();
        // Later ones were said when they came.
        new.iter().filter(|_| !together.have_begun()).for_each(|text| ui.remark(text));
        return failure;
    }
    let losses = results.iter().any(|result| matches!(result, Ok(Status::Losses)));
    Ok(Status::with_losses(losses))
}
