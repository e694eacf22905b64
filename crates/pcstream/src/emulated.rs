//! `pcstream run --live`: the command on an emulated SSD that carries its data, once for each scheme.
//!
//! A run is a capture whose file system lies on the device. The simulation's only lane chooses streams; the device takes the
//! same ones (`device_process`). Both count the same writes, so their WAF should be the same.
//!
//! Order: the device is started, a file system is made on it by the capture, its counters start with the capture, it
//! settles when the capture is over. The device ends after the file system is gone, whatever happens.

use std::cell::OnceCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use pcstream_capture::capture::{self, Finished};
use pcstream_emulator::process::DeviceProcess;
use pcstream_emulator::{Loss, PowerCut, Status as DeviceStatus};
use pcstream_fs::scratch::{self, Image, Scratch, ScratchOptions};
use pcstream_replay::LaneResult;
use pcstream_report::dropped;
use pcstream_report::emulated::{self as report, Emulated, EmulatedRun, LiveCounts, PowerCutReport};
use pcstream_ssd::{DeviceSettings, GcDestination, Geometry};
use pcstream_system::trusted_file;
use pcstream_trace::{Meta, PAGE_BYTES};
use rustix::fs::FlockOperation;
use tempfile::NamedTempFile;

use crate::args::{EmulatedArgs, PowerLoss, RunArgs};
use crate::device::Template;
use crate::device_process::{self, BUFFER_PAGES, OnDevice, Standing};
use crate::failure::{Failure, Status, both};
use crate::lists::List;
use crate::live::{self, Captured};
use crate::live_simulation::LiveSimulation;
use crate::redact::Redaction;
use crate::run::{LiveDevice, Ran, TracePlace, recorded};
use crate::schemes;
use crate::simulate::{self, Planned};
use crate::stop::StopSignals;
use crate::ui::{self, JsonSink, Ui};
use crate::values::Prefill;
use crate::whole_file::{self, resolve};

/// The loss of what was dirty at the end of a capture.
const SYNC_ABANDONED: &str = "sync_abandoned";

/// `pcstream run --live`.
pub fn run(mut args: RunArgs, ui: Ui) -> Result<Status, Failure> {
    check(&args)?;
    if let Image::File(path) = &mut args.capture.image {
        // What a link names is read and replaced.
        *path = resolve(path).with_context(|| format!("--image {}", path.display()))?;
    }
    let device = &mut args.simulation.device;
    if device.gc.is_none() && device.profile.is_none() && device.device.is_none() {
        device.gc = Some(List(vec![GcDestination::Internal]));
    }
    let json = JsonSink::asked(&args.simulation.output)?;
    let template = Template::load(&args.simulation.device)?;
    let nothing_yet = Meta::new("emulated", args.capture.size / PAGE_BYTES);
    let planned = Planned::new(&args.simulation, &template, &nothing_yet)?;
    let live = Live { args: &args, template: &template, ui, image: OnceCell::new() };
    live.check_plan(&planned)?;
    capture::check_machine().map_err(Failure::failed)?;
    let stop = StopSignals::catch()?;
    let (runs, end) = live.all(&planned, &stop);
    drop(stop);
    if runs.is_empty() {
        return end;
    }
    let results: Vec<LaneResult> = runs.iter().map(|run| run.simulated.clone()).collect();
    simulate::remark_schemes(&args.simulation, &results, ui);
    let dropped = dropped(&results);
    dropped.iter().for_each(|dropped| ui.remark(&dropped.to_string()));
    let end = end.map(|status| status.or_losses(!dropped.is_empty()));
    let command =
        args.command.words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>();
    let emulated = Emulated {
        seed: planned.seed,
        command: if args.capture.redact { Redaction::command(&command) } else { command },
        fs: live::fs_kind(args.capture.fs).name().to_owned(),
        origin: planned.device,
        runs,
    };
    let shown = ui::show(json, &report::json(&emulated), || report::text(&emulated, ui.layout(false)));
    both(end, shown.map(|()| Status::Done))
}

fn refused(why: &str) -> Failure {
    Failure::wrong_arguments(anyhow!("{why}"))
}

/// Flags that say what the device is cannot say otherwise than `--size` and the file system do.
fn check(args: &RunArgs) -> Result<(), Failure> {
    schemes::check_files(&args.simulation.scheme_options, "--live")?;
    if !matches!(args.simulation.measure.prefill, Prefill::Trace) {
        return Err(refused("--prefill: with --live, what is on the device is what --fill put there"));
    }
    if args.simulation.device.capacity.is_some() {
        return Err(refused("--capacity: with --live, the device is as large as --size says"));
    }
    if args.simulation.measure.timing {
        return Err(refused(
            "--timing: with --live, the device is memory, and takes no time; simulate the trace (-o) instead",
        ));
    }
    match args.capture.image {
        Image::Tmpfs => {
            Err(refused("--image tmpfs: with --live, the device is memory, and --image a file for its data"))
        }
        _ => Ok(()),
    }
}

/// What all runs have in common.
struct Live<'a> {
    args: &'a RunArgs,
    template: &'a Template<'a>,
    ui: Ui,
    /// The image that was there before, locked; `None`: there was none.
    image: OnceCell<Option<File>>,
}

/// A run, how its device stands, and what came of a power cut.
type Measured = (Ran, DeviceStatus, Option<PowerCutReport>);
/// A run, and how it ended.
type Ended = (EmulatedRun, Result<Status, Failure>);

impl Live<'_> {
    /// A run for each lane, until one fails or a signal comes. What was measured until then is a result.
    fn all(&self, planned: &Planned, stop: &StopSignals) -> (Vec<EmulatedRun>, Result<Status, Failure>) {
        let lanes = &planned.plan.lanes;
        let (mut runs, mut end) = (Vec::new(), Ok(Status::Done));
        for (number, lane) in lanes.iter().enumerate() {
            if let Some(signal) = stop.first() {
                let error = anyhow!("ended by signal {signal} after {number} of {} runs", lanes.len());
                end = both(end, Err(Failure::Interrupted { error, signal }));
                break;
            }
            self.ui.remark(&format!("run {} of {}: {}", number + 1, lanes.len(), lane.scheme.name()));
            let ended = self.one(number, &lane.device, stop).and_then(|(run, ended)| {
                runs.push(run);
                ended
            });
            end = both(end, ended);
            if end.is_err() {
                break;
            }
        }
        if end.is_err() && !runs.is_empty() && runs.len() < lanes.len() {
            self.ui.remark(&format!("the results are of {} of {} runs", runs.len(), lanes.len()));
        }
        (runs, end)
    }

    fn emulated(&self) -> &EmulatedArgs {
        &self.args.emulated
    }

    /// Where the data is kept, if it is.
    fn image(&self) -> Option<&Path> {
        match &self.args.capture.image {
            Image::File(path) => Some(path),
            _ => None,
        }
    }

    fn check_plan(&self, planned: &Planned) -> Result<(), Failure> {
        let lanes = &planned.plan.lanes;
        if let Some(lane) = lanes.iter().find(|lane| lane.looks_ahead()) {
            let error = anyhow!(
                "--scheme {}: it looks ahead, and a live run has no future to show",
                lane.scheme.name()
            );
            return Err(Failure::wrong_arguments(error));
        }
        let several = [("--image", self.image().is_some()), ("--output", self.args.output.is_some())];
        if let Some((flag, _)) = several.iter().find(|(_, given)| *given && lanes.len() > 1) {
            let error = anyhow!(
                "{flag}: with --live, there are {} runs, and it is for one: give one --scheme and one --gc",
                lanes.len()
            );
            return Err(Failure::wrong_arguments(error));
        }
        self.check_image()?;
        let needed = memory(&lanes[0].device, self.image())?;
        let allowed = pcstream_system::memory::allowed(self.args.memory);
        if needed > allowed {
            let error = anyhow!(
                "the emulated device takes {needed} bytes of memory, {allowed} are available: use a smaller --size"
            );
            return Err(Failure::failed(error));
        }
        Ok(())
    }

    /// An image that is a pipe would be waited for, and one that cannot be saved is known before the run.
    fn check_image(&self) -> Result<(), Failure> {
        let Some(path) = self.image() else { return Ok(()) };
        if path.metadata().is_ok_and(|there| !there.is_file()) {
            let error = anyhow!("--image {}: is not a regular file", path.display());
            return Err(Failure::wrong_arguments(error));
        }
        let held = lock_image(path).with_context(|| format!("--image {}", path.display()))?;
        self.image.set(held).expect("it is checked once");
        let new = new_image(path)?;
        let own = rustix::process::geteuid().as_raw();
        let kept = trusted_file::check_alone(new.as_file(), new.path(), own);
        Ok(kept.with_context(|| format!("--image {}: cannot be saved there", path.display()))?)
    }

    fn scratch(&self, device: &DeviceProcess, keep: bool) -> ScratchOptions {
        ScratchOptions {
            fs: live::fs_kind(self.args.capture.fs),
            journal: live::fs_journal(self.args.capture.fs),
            size_bytes: self.args.capture.size,
            fill: self.args.capture.fill,
            image: Image::File(device.file().to_owned()),
            keep,
            ..ScratchOptions::default()
        }
    }

    /// One run of the command, under the scheme of a lane.
    fn one(&self, lane: usize, settings: &DeviceSettings, stop: &StopSignals) -> Result<Ended, Failure> {
        let process = Arc::new(device_process::start(settings)?);
        if let Some(lack) = process.lacks() {
            self.ui.remark(&format!(
                "where memory is short, the device may have to wait for itself: {lack}; keep some memory free"
            ));
        }
        let kept = self.load(&process)?;
        let place = TracePlace::new(self.args.output.as_deref())?;
        let device = OnDevice {
            process: process.clone(),
            lane,
            power_cut: self.planned_cut(settings.seed),
            gc_page: self.emulated().slow_gc.unwrap_or_default(),
        };
        let on = Some(LiveDevice { device, scratch: self.scratch(&process, kept) });
        let args = self.args;
        let simulation = LiveSimulation::new(&args.simulation, self.template, args.fit(), self.ui)?;
        let captured = std::thread::scope(|scope| {
            // Dropped however the run ends.
            let (_running, over) = channel();
            let hurried = &process;
            let watch = std::thread::Builder::new()
                .spawn_scoped(scope, move || hurry_when_asked(hurried, stop, over));
            watch.context("cannot start a thread that watches for signals")?;
            let _standing = Standing::say(&process, self.ui);
            recorded(args, simulation, place, on, stop, self.ui)
        });
        let ran = captured.and_then(|run| run.simulated(self.ui));
        let measured = ran.and_then(|ran| self.measured(&process, ran));
        // Whatever failed: what the command wrote is kept.
        let saved = if process.has_begun() { self.save(&process) } else { Ok(()) };
        let (ran, status, power_cut) = match measured {
            Ok(measured) => measured,
            Err(failed) => return Err(self.first_of(failed, saved)),
        };
        // Who uses the file system still uses the device too; `judge` says so.
        if ran.captured.finished.not_removed.is_none() {
            process.end().map_err(Failure::failed)?;
        }
        let ended = match (self.judge(&ran.captured, &status, power_cut.as_ref()), saved) {
            (Ok(_), Err(unsaved)) => Err(unsaved.into()),
            (Err(failed), saved) => Err(self.first_of(failed, saved)),
            (ended, Ok(())) => ended,
        };
        Ok((outcome(&ran, status, power_cut), ended))
    }

    /// How the device stands when a command is over. After a power cut its file system was mounted again.
    fn measured(&self, process: &DeviceProcess, ran: Ran) -> Result<Measured, Failure> {
        let status = process.settle().map_err(Failure::failed)?;
        // What is still mounted cannot be mounted again.
        let recovers = status.power_cuts > 0 && ran.captured.finished.not_removed.is_none();
        let power_cut = recovers.then(|| self.recover(process, &status)).transpose()?;
        Ok((ran, status, power_cut))
    }

    /// The error of a run. That its data was not saved either is a remark.
    fn first_of(&self, failed: Failure, saved: anyhow::Result<()>) -> Failure {
        if let Err(unsaved) = saved {
            self.ui.remark(&ui::with_causes(&unsaved));
        }
        failed
    }

    fn planned_cut(&self, seed: u64) -> Option<PowerCut> {
        let loss = match self.emulated().power_loss {
            PowerLoss::All => Loss::All,
            PowerLoss::Half => Loss::Half(seed),
            PowerLoss::None => Loss::Nothing,
        };
        self.emulated().power_cut.map(|after_pages| PowerCut { after_pages, loss })
    }

    /// Fills the device from the image, if there is one. Returns whether there is.
    fn load(&self, process: &DeviceProcess) -> Result<bool, Failure> {
        let Some(path) = self.image().filter(|path| path.exists()) else { return Ok(false) };
        let absolute = std::path::absolute(path).context("the current directory is gone")?;
        process.load(&absolute).with_context(|| format!("--image {}", path.display()))?;
        self.ui
            .remark(&format!("{}: its data is on the device, which --fill does not change", path.display()));
        Ok(true)
    }

    fn save(&self, process: &DeviceProcess) -> anyhow::Result<()> {
        let Some(path) = self.image() else { return Ok(()) };
        let problem = || format!("--image {}: the data was not saved", path.display());
        let new = new_image(path)?;
        let there = std::path::absolute(new.path()).with_context(problem)?;
        process.save(&there).with_context(problem)?;
        match self.image.get() {
            Some(Some(held)) if is_at(held, path) => new.persist(path).map(drop).with_context(problem),
            Some(Some(_)) => Err(anyhow!("it was replaced meanwhile")).with_context(problem),
            _ => match new.persist_noclobber(path) {
                Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                    Err(anyhow!("another run has made it meanwhile")).with_context(problem)
                }
                made => made.map(drop).with_context(problem),
            },
        }
    }

    /// After a power cut: the file system is mounted, which replays its journal, unmounted, and checked.
    fn recover(&self, process: &DeviceProcess, status: &DeviceStatus) -> Result<PowerCutReport, Failure> {
        process.power_on().map_err(Failure::failed)?;
        let mounted = Scratch::create(&self.scratch(process, true)).and_then(Scratch::remove);
        let fs = live::fs_kind(self.args.capture.fs);
        let check = scratch::check_fs(fs, process.file()).map_err(Failure::failed)?;
        Ok(PowerCutReport {
            after_pages: self.emulated().power_cut.unwrap_or(0),
            loss: self.emulated().power_loss.name(),
            lost_pages: status.lost_pages,
            mount_error: mounted.err().map(|error| error.to_string()),
            check: check.command,
            clean: check.clean,
            said: check.said,
        })
    }

    /// What exit code a run makes. A command on a device without power may fail.
    fn judge(
        &self,
        captured: &Captured,
        status: &DeviceStatus,
        power_cut: Option<&PowerCutReport>,
    ) -> Result<Status, Failure> {
        let finished = &captured.finished;
        let unchecked =
            finished.not_removed.as_ref().filter(|_| status.power_cuts > 0 && !finished.interrupted);
        if let Some(reason) = unchecked {
            return Err(anyhow!("after the power cut the file system could not be checked: {reason}").into());
        }
        if let Some(cut) = power_cut.filter(|_| !finished.interrupted) {
            finished.notes.iter().for_each(|note| self.ui.remark(note));
            if let Some(problem) = &cut.mount_error {
                return Err(anyhow!("the file system did not survive the power cut: {problem}").into());
            }
            if !cut.clean {
                let check = &cut.check;
                return Err(
                    anyhow!("the file system did not survive the power cut: {check} found faults").into()
                );
            }
            let lost = losses(finished, true);
            lost.iter().for_each(|(name, count)| self.ui.remark(&format!("the capture lost {name} {count}")));
            // What arrived just before the cut was not given a stream any more.
            return Ok(Status::with_losses(!lost.is_empty()));
        }
        let ended = live::outcome(captured, self.args.capture.forward_exit_code, self.ui)?;
        if let Some(pages) = self.emulated().power_cut.filter(|_| status.power_cuts == 0) {
            let written = status.counters.host_pages;
            return Err(anyhow!(
                "the power was not cut: {written} pages were written, which is not more than --power-cut {pages}"
            )
            .into());
        }
        Ok(ended.or_losses(status.unassigned_pages > 0))
    }
}

/// What a capture lost. Without power, what is dirty cannot be written: after a planned cut that is no loss.
fn losses(finished: &Finished, power_cut: bool) -> Vec<(String, u64)> {
    let counts = |(name, count): &(&String, &u64)| **count > 0 && !(power_cut && *name == SYNC_ABANDONED);
    finished.losses.iter().filter(counts).map(|(name, count)| (name.clone(), *count)).collect()
}

/// Lets nobody wait for slow garbage collection once a signal has come, until the run is over.
fn hurry_when_asked(process: &DeviceProcess, stop: &StopSignals, over: Receiver<()>) {
    const LOOK: Duration = Duration::from_millis(20);
    while over.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
        if stop.first().is_some() {
            // A device that is gone hurries nobody.
            let _ = process.hurry();
            return;
        }
    }
}

/// The image that is there, for this run alone. Of two that make one, the later cannot save it.
fn lock_image(path: &Path) -> anyhow::Result<Option<File>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => {
            Err(anyhow!("another run uses it: wait for that, or name another file"))
        }
        Err(error) => Err(io::Error::from(error)).context("cannot be locked"),
    }
}

/// Whether a file is what is at a path.
fn is_at(file: &File, path: &Path) -> bool {
    let identity = |about: std::fs::Metadata| (about.dev(), about.ino());
    file.metadata().ok().map(identity) == path.metadata().ok().map(identity)
}

/// A file beside the image. Only its owner may read it, and a whole one alone takes the image's place.
fn new_image(path: &Path) -> anyhow::Result<NamedTempFile> {
    let new = tempfile::Builder::new().prefix(".pcstream-").tempfile_in(whole_file::parent(path));
    new.with_context(|| format!("--image {}: cannot write there", path.display()))
}

fn outcome(ran: &Ran, status: DeviceStatus, power_cut: Option<PowerCutReport>) -> EmulatedRun {
    EmulatedRun {
        context_coverage: ran.context_coverage(),
        losses: losses(&ran.captured.finished, status.power_cuts > 0),
        simulated: ran.results[0].clone(),
        live: LiveCounts {
            counters: status.counters,
            free_superblocks: status.free_superblocks,
            unassigned_pages: status.unassigned_pages,
            flushes: status.flushes,
            read_pages: status.read_pages,
        },
        power_cut,
    }
}

/// Bytes that a device takes: its flash, its buffer, its tables, and those of its simulation. The data of an image lies in
/// memory a second time when the device begins to count (`EmulatedDevice::prefill`).
fn memory(settings: &DeviceSettings, image: Option<&Path>) -> Result<u64, Failure> {
    const TABLE_BYTES: u64 = 32;
    let geometry = Geometry::new(settings).map_err(Failure::wrong_arguments)?;
    let image_bytes = image.and_then(|path| path.metadata().ok()).map_or(0, |there| there.len());
    let copied = (image_bytes / PAGE_BYTES).min(geometry.logical_pages());
    Ok((geometry.physical_pages() + BUFFER_PAGES as u64 + copied) * (PAGE_BYTES + TABLE_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_takes_its_memory_twice() {
        let settings = DeviceSettings { logical_pages: 1 << 16, ..DeviceSettings::default() };
        let file = NamedTempFile::new().expect("a file");
        let needed = |bytes: u64| {
            file.as_file().set_len(bytes).expect("it can be long");
            memory(&settings, Some(file.path())).expect("legal settings")
        };
        let alone = memory(&settings, None).expect("legal settings");
        assert_eq!(
            (needed(0), memory(&settings, Some(Path::new("/nonexistent"))).expect("legal")),
            (alone, alone)
        );
        assert_eq!(needed(PAGE_BYTES << 10) - alone, (PAGE_BYTES + 32) << 10);
        // What does not belong to the device is refused before it lies in memory.
        assert_eq!(needed(PAGE_BYTES << 20) - alone, (PAGE_BYTES + 32) << 16);
    }
}
