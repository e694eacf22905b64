//! `run`: a program under capture, and what schemes make of its writes.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use pcstream_capture::capture::{CaptureOptions, Subject, Target};
use pcstream_fs::scratch::ScratchOptions;
use pcstream_replay::{LaneResult, Replay};
use pcstream_report::{About, Simulation};
use pcstream_trace::{Tables, TraceReader};

use crate::args::RunArgs;
use crate::device::Template;
use crate::device_process::OnDevice;
use crate::failure::{Failure, Status, both};
use crate::interrupt::Interrupt;
use crate::live::{Captured, Recorder, capture_into, options, outcome, say_what_is_taken};
use crate::live_simulation::{LiveSimulation, Simulated};
use crate::schemes;
use crate::simulate::{self, TOP_CONTEXTS};
use crate::stop::StopSignals;
use crate::temporary::Temporary;
use crate::ui::{JsonSink, Ui};
use crate::unkept::RECORDING;
use crate::whole_file::all_different;

/// `pcstream run`.
pub fn run(args: &RunArgs, ui: Ui) -> Result<Status, Failure> {
    let outputs = [("--json", args.simulation.output.json.as_deref()), ("--output", args.output.as_deref())];
    all_different(&outputs)?;
    let json = JsonSink::asked(&args.simulation.output)?;
    let template = Template::load(&args.simulation.device)?;
    let simulation = LiveSimulation::new(&args.simulation, &template, args.fit(), ui)?;
    // Until the recording is not needed any more: what ends the program at once leaves it behind.
    let stop = StopSignals::catch()?;
    let place = TracePlace::new(args.output.as_deref())?;
    let ran = recorded(args, simulation, place, None, &stop, ui)?.simulated(ui)?;
    drop(stop);
    let simulation = ran.simulation();
    simulate::remark_schemes(&args.simulation, &simulation.results, ui);
    let shown = simulate::present(&simulation, json, TOP_CONTEXTS, ui.layout(args.simulation.details));
    both(outcome(&ran.captured, args.capture.forward_exit_code, ui), shown)
}

/// Where the trace of a run goes.
pub struct TracePlace {
    path: PathBuf,
    /// Without -o the trace is only needed until it is simulated.
    temporary: Option<Temporary>,
}

impl TracePlace {
    /// At `output`, or else in a directory that is removed afterwards.
    pub fn new(output: Option<&Path>) -> Result<TracePlace, Failure> {
        if let Some(path) = output {
            return Ok(TracePlace { path: path.to_owned(), temporary: None });
        }
        let temporary = Temporary::new().context("cannot make a directory for the trace")?;
        Ok(TracePlace { path: temporary.recording(), temporary: Some(temporary) })
    }
}

/// A device that carries the data of a run, and the file system on it.
pub struct LiveDevice {
    /// The device, and what the schemes tell it.
    pub device: OnDevice,
    /// The file system.
    pub scratch: ScratchOptions,
}

/// A command that ran, whose simulation is not over yet.
pub struct RecordedRun<'a> {
    /// What was captured.
    pub captured: Captured,
    simulation: LiveSimulation<'a>,
    place: TracePlace,
    /// From the end of the capture on.
    interrupt: Interrupt,
}

/// Runs the command once: on the device if there is one, and otherwise where the flags say.
pub fn recorded<'a>(
    args: &'a RunArgs,
    mut simulation: LiveSimulation<'a>,
    place: TracePlace,
    device: Option<LiveDevice>,
    stop: &StopSignals,
    ui: Ui,
) -> Result<RecordedRun<'a>, Failure> {
    let subject = Subject::Command(args.command.words.clone());
    let mut recorder = Recorder::new(&place.path, args.force, &args.capture, &subject, ui);
    say_what_is_taken(&args.capture, &subject, ui);
    let mut options = options(&args.capture, subject, ui)?;
    // Beside a device, all that is left to do is soon done, and the device is saved after it.
    let is_live = device.is_some();
    if let Some(LiveDevice { device, scratch }) = device {
        simulation = simulation.beside(device);
        options = CaptureOptions { target: Target::Scratch(scratch), live: true, ..options };
    }
    recorder.simulation = Some(simulation);
    recorder.temporary = place.temporary.is_some();
    let (mut recorder, captured) = capture_into(recorder, &options, stop, ui)?;
    let interrupt = if is_live { Interrupt::never() } else { stop.interrupt() };
    let simulation = recorder.simulation.take().expect("it was given above");
    recorder.finish(&captured.finished)?;
    Ok(RecordedRun { captured, simulation, place, interrupt })
}

impl RecordedRun<'_> {
    /// Ends its simulation.
    pub fn simulated(self, ui: Ui) -> Result<Ran, Failure> {
        let TracePlace { path, temporary } = self.place;
        let reader = TraceReader::open(&path).context("cannot read the trace just written")?;
        let simulated = match (self.simulation.finish(&reader, self.interrupt), &temporary) {
            (Err(failure @ (Failure::Failed(_) | Failure::WrongArguments(_))), Some(_)) => {
                let trace = |kept: &Path| kept.join(RECORDING).display().to_string();
                ui.remark(&match temporary.expect("it is there").keep() {
                    Ok(kept) => format!("the recording is kept: {}", trace(&kept)),
                    Err(kept) => format!(
                        "the recording is kept: {}; move it, for `pcstream doctor --clean` removes it there",
                        trace(&kept)
                    ),
                });
                return Err(failure);
            }
            (Err(Failure::Interrupted { signal, .. }), temporary) => {
                let recording = match temporary {
                    Some(_) => "the recording is removed (-o keeps one)".to_owned(),
                    None => format!("the recording is kept: {}", path.display()),
                };
                let error = anyhow!("ended by signal {signal} while the schemes ran; {recording}");
                return Err(Failure::Interrupted { error, signal });
            }
            (other, _) => other?,
        };
        let Simulated { planned, replay, results, damage } = simulated;
        let shown = if temporary.is_some() { Path::new("") } else { &path };
        Ok(Ran {
            captured: self.captured,
            about: simulate::about(shown, &reader, damage, &planned),
            replay,
            results: schemes::keep_best(results),
            tables: simulate::tables_of(&reader),
        })
    }
}

/// A command that ran, simulated.
pub struct Ran {
    /// What was captured.
    pub captured: Captured,
    about: About,
    replay: Replay,
    /// By scheme, in the order of the plan.
    pub results: Vec<LaneResult>,
    /// As recorded: with the names of functions, which a running capture does not know yet.
    tables: Tables,
}

impl Ran {
    /// Share of the written pages of file data whose context is known.
    pub fn context_coverage(&self) -> f64 {
        self.replay.writers().context_coverage()
    }

    /// What schemes made of it.
    pub fn simulation(&self) -> Simulation<'_> {
        Simulation {
            about: self.about.clone(),
            results: self.results.clone(),
            writers: self.replay.writers(),
            tables: &self.tables,
        }
    }
}
