//! `run --repeat`: a command several times, each time on a fresh scratch device.
//!
//! Each run is a whole `run` with the same seed.
//!
//! Invariant: a run that failed ends the series, and is not in the summary.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use pcstream_report::Verdict;
use pcstream_report::json::{self, SimulationJson};
use pcstream_report::measures::Measures;
use pcstream_report::repeated::Repeated;

use crate::args::RunArgs;
use crate::device::Template;
use crate::failure::{Failure, Status};
use crate::live::outcome;
use crate::live_simulation::LiveSimulation;
use crate::output::one_of_several;
use crate::run::{TracePlace, recorded};
use crate::schemes;
use crate::simulate;
use crate::stop::StopSignals;
use crate::ui::{self, JsonSink, Ui};

/// What the runs came to.
#[derive(Default)]
struct Runs {
    runs: Vec<SimulationJson>,
    measures: Measures,
    losses: bool,
}

/// `pcstream run --repeat`.
pub fn run(args: &RunArgs, times: u32, ui: Ui) -> Result<Status, Failure> {
    let traces = check(args, times)?;
    let json = JsonSink::asked(&args.simulation.output)?;
    let template = Template::load(&args.simulation.device)?;
    let stop = StopSignals::catch()?;
    let mut done = Runs::default();
    let mut ended = Ok(());
    for (number, trace) in (1..=times).zip(&traces) {
        ui.remark(&format!("run {number} of {times}"));
        ended = one(args, &template, trace.as_deref(), &stop, &mut done, ui);
        if ended.is_err() {
            let left = done.runs.len();
            ui.remark(&format!("run {number} failed: the results are those of the {left} before it"));
            break;
        }
    }
    drop(stop);
    if !done.runs.is_empty() {
        let result = Repeated::of(&done.runs, &done.measures);
        ui::show(json, &result, || result.text(ui.layout(false)))?;
    }
    ended.map(|()| Status::with_losses(done.losses))
}

/// Refuses what makes no sense together. The traces that are kept, by run.
fn check(args: &RunArgs, times: u32) -> Result<Vec<Option<PathBuf>>, Failure> {
    if args.simulation.details {
        let error = anyhow!("--details: with --repeat, keep the traces (-o) and simulate the one you mean");
        return Err(Failure::wrong_arguments(error));
    }
    schemes::check_files(&args.simulation.scheme_options, "--repeat")?;
    let traces: Vec<_> = (1..=times)
        .map(|n| args.output.as_deref().map(|path| one_of_several(path, &n.to_string())))
        .collect();
    if let Some(there) = traces.iter().flatten().find(|path| !args.force && path.exists()) {
        return Err(anyhow!("-o: {} exists; --force replaces it", there.display()).into());
    }
    Ok(traces)
}

fn one(
    args: &RunArgs,
    template: &Template,
    trace: Option<&Path>,
    stop: &StopSignals,
    done: &mut Runs,
    ui: Ui,
) -> Result<(), Failure> {
    let simulation = LiveSimulation::new(&args.simulation, template, args.fit(), ui)?;
    let recorded = recorded(args, simulation, TracePlace::new(trace)?, None, stop, ui)?;
    let ran = recorded.simulated(ui)?;
    let simulation = ran.simulation();
    simulate::remark_schemes(&args.simulation, &simulation.results, ui);
    let status = outcome(&ran.captured, args.capture.forward_exit_code, ui)?;
    simulation.dropped().iter().for_each(|dropped| ui.remark(&dropped.to_string()));
    done.losses |= status == Status::Losses || simulation.has_losses();
    done.measures.note(&simulation);
    done.runs.push(json::simulation(&simulation, &simulate::rows(&simulation)));
    if let Some(path) = trace {
        ui.remark(&format!("kept: {}", path.display()));
    }
    ui.remark(&Verdict::of(&simulation).sentences[0]);
    Ok(())
}
