//! `compare`: simulates recorded runs, and shows what changed between them.

use std::path::Path;

use anyhow::anyhow;
use pcstream_replay::Fitted;
use pcstream_report::Simulation;
use pcstream_report::compare::{Comparison, Run};

use crate::args::CompareArgs;
use crate::device::Template;
use crate::failure::{Failure, Status};
use crate::fitted::Fitting;
use crate::interrupt::Interrupt;
use crate::schemes;
use crate::simulate;
use crate::ui::{self, JsonSink, Ui};

/// `pcstream compare`.
pub fn compare(mut args: CompareArgs, ui: Ui) -> Result<Status, Failure> {
    if args.simulation.measure.timing {
        return Err(Failure::wrong_arguments(anyhow!(
            "--timing: compare does not take it, because it compares what is written, not times; `pcstream simulate --timing` \
             shows those of one run"
        )));
    }
    schemes::check_files(&args.simulation.scheme_options, "compare")?;
    schemes::check_regular("--device", args.simulation.device.device.as_deref(), "compare")?;
    let json = JsonSink::asked(&args.simulation.output)?;
    let mut named = Vec::new();
    for run in &args.runs {
        let paths = traces(run)?;
        each_once(&paths)?;
        named.push(paths);
    }
    args.fit.least_pages = largest(&args, &named, ui)?;
    let mut losses = false;
    let mut runs = Vec::new();
    simulate::remark_idle(&args.simulation.scheme_options, &args.simulation.scheme, ui);
    for paths in &named {
        let (run, lost) = measure(paths, &args, ui)?;
        losses |= lost;
        runs.push(run);
    }
    let result = Comparison::of(runs);
    ui::show(json, &result, || result.text(args.top, ui.layout(args.simulation.details)))?;
    Ok(Status::with_losses(losses))
}

/// The repetitions of a run.
fn traces(run: &str) -> Result<Vec<String>, Failure> {
    let paths: Vec<String> = run.split(',').map(str::to_owned).collect();
    match paths.iter().any(String::is_empty) {
        true => Err(Failure::wrong_arguments(anyhow!("'{run}': a name of a trace is empty"))),
        false => Ok(paths),
    }
}

/// Errors: two repetitions of a run are the same trace, which would count twice and hide the noise.
fn each_once(paths: &[String]) -> Result<(), Failure> {
    let mut seen: Vec<(String, &str)> = Vec::new();
    for path in paths {
        let reader = simulate::read(Path::new(path))?;
        let meta = reader.meta();
        // A trace that was not finished has no id, and all without events have the same.
        let id = if meta.totals.events > 0 { meta.trace_id.clone() } else { String::new() };
        let is_same =
            |(other, first): &&(String, &str)| *first == path.as_str() || (!id.is_empty() && *other == id);
        if let Some((_, first)) = seen.iter().find(is_same) {
            return Err(Failure::wrong_arguments(anyhow!(
                "{first} and {path} are one trace, which would count as two repetitions: give each trace once"
            )));
        }
        seen.push((id, path));
    }
    Ok(())
}

/// Logical pages that the largest of all packed traces needs; 0 if none is packed, or the size is given.
fn largest(args: &CompareArgs, runs: &[Vec<String>], ui: Ui) -> Result<u64, Failure> {
    let mut largest = 0;
    if args.fit.packed.pack().is_some() && Template::load(&args.simulation.device)?.capacity_pages().is_none()
    {
        for path in runs.iter().flatten() {
            let reader = simulate::read(Path::new(path))?;
            let fitting = Fitting::new(&reader, &args.fit, None, Interrupt::watch()?, ui)?;
            largest = largest.max(fitting.fit.space().map_or(0, |space| space.logical_pages));
        }
    }
    Ok(largest)
}

/// Simulates every repetition.
fn measure(paths: &[String], args: &CompareArgs, ui: Ui) -> Result<(Run, bool), Failure> {
    let mut out = Run::new(paths[0].trim_end_matches('/'), paths.len());
    let mut losses = false;
    for path in paths {
        let reader = simulate::open(Path::new(path), ui)?;
        let (mut fitting, planned) = simulate::fit(&args.simulation, &args.fit, &reader, ui)?;
        let Fitted { results, replay, damage, .. } = fitting.run(&planned.plan)?;
        let remarks = simulate::lane_remarks(&args.simulation.scheme_options, &results);
        remarks.iter().for_each(|remark| ui.remark(&format!("{path}: {remark}")));
        let about = simulate::about(Path::new(path), &reader, damage, &planned);
        let results = schemes::best_by_name(results);
        let simulation = Simulation { results, ..Simulation::new(about, &replay) };
        losses |= simulation.has_losses();
        out.note(&simulation);
    }
    Ok((out, losses))
}
