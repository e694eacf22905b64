//! `record` with several `--on`: a capture of each file system or device, and one command for all of them.
//!
//! Idea: each capture is a whole one, with a session and a trace of its own, in a thread of its own. So what one of them
//! has to end for (a full disk, an unmount) does not end the others. The price: each page that becomes dirty is looked at once
//! for each device.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use pcstream_capture::attach::{Attach, Running};
use pcstream_capture::capture::Subject;
use pcstream_fs::extents::DeviceNumber;
use pcstream_fs::scratch::{ExistingFs, raw_device};

use super::together::{Member, NotBegun, Together};
use super::{Recorded, Recorder, outcome};
use crate::args::{CaptureArgs, RecordArgs};
use crate::failure::{Failure, Status};
use crate::output::one_of_several;
use crate::stop::StopSignals;
use crate::ui::{Ui, with_causes};

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
            let member = Member::new(&together, index, stop);
            scope.spawn(move || {
                let recorded = one(device, args.force, subject, member.clone(), stop, ui);
                member.leave();
                recorded
            })
        };
        let threads: Vec<_> = devices.iter().enumerate().map(one).collect();
        threads.into_iter().map(|thread| thread.join().expect("a capture does not panic")).collect()
    });
    report(results, &together, args.capture.forward_exit_code, ui)
}

/// Where the devices are, all different, and whether their traces can be made.
fn devices(args: &RecordArgs) -> Result<Vec<Device>, Failure> {
    let mut devices: Vec<Device> = Vec::new();
    for args_of_one in args.capture.each() {
        let on = &args_of_one.on[0];
        let (number, path) = device_of(on).with_context(|| format!("--on {}", on.display()))?;
        if let Some(same) = devices.iter().find(|other| other.number == number) {
            return Err(Failure::wrong_arguments(anyhow!(
                "--on {} and --on {} are both on {}: name it once",
                same.args.on[0].display(),
                on.display(),
                path.display()
            )));
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let trace = one_of_several(&args.output, &name);
        if trace.exists() && !args.force {
            return Err(anyhow!("-o: {} exists; --force replaces it", trace.display()).into());
        }
        devices.push(Device { args: args_of_one, number, path, trace });
    }
    Ok(devices)
}

fn device_of(on: &Path) -> anyhow::Result<(DeviceNumber, PathBuf)> {
    let device = match raw_device(on)? {
        Some(device) => device,
        None => ExistingFs::of(on)?.device,
    };
    Ok((device.number, device.path))
}

/// Of whom the captures beside the first are: with a command, of whoever writes while it runs.
fn beside(subject: &Subject) -> Subject {
    match subject {
        Subject::Command(_) => Subject::Running(Attach { to: Running::Anyone, duration: None }),
        running @ Subject::Running(_) => running.clone(),
    }
}

fn one<'a>(
    device: &'a Device,
    force: bool,
    subject: &Subject,
    member: Member,
    stop: &StopSignals,
    ui: Ui,
) -> Result<Recorded<'a>, Failure> {
    let mut recorder = Recorder::new(&device.trace, force, &device.args, subject, ui);
    let captured = if member.is_first() { subject.clone() } else { beside(subject) };
    recorder.join(member);
    Recorded::of(recorder, captured, &device.args, stop, ui)
}

/// Says what each came to. Of those that failed, the first counts; but one that kept the others from beginning before all.
fn report(
    results: Vec<Result<Recorded<'_>, Failure>>,
    together: &Arc<Together>,
    forward_exit_code: bool,
    ui: Ui,
) -> Result<Status, Failure> {
    let first_failed = together.failed();
    let mut outcomes: Vec<_> = results
        .into_iter()
        .map(|result| {
            let recorded = result?;
            recorded.summary(ui);
            outcome(&recorded.captured, forward_exit_code, ui)
        })
        .collect();
    if let Some(failed) = first_failed.or_else(|| outcomes.iter().position(Result::is_err)) {
        let failure = outcomes.swap_remove(failed);
        let others = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()?.error());
        others.filter(|error| !error.is::<NotBegun>()).for_each(|error| ui.remark(&with_causes(error)));
        return failure;
    }
    let losses = outcomes.iter().any(|outcome| matches!(outcome, Ok(Status::Losses)));
    Ok(Status::with_losses(losses))
}
