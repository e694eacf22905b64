//! `sweep`: one trace over a grid of devices, schemes and parameters.
//!
//! Runs are lanes of passes over the trace, as in `simulate`, and come to the same numbers. A pass has as many as memory
//! allows, but no more than some for each core: what is done is kept after each pass, and a sweep that is killed loses one
//! pass at most. Runs with another capacity, utilisation or prefill have other data on the device beforehand, and get passes
//! of their own.

mod grid;
mod journal;
mod results;
mod sheet;

use std::collections::BTreeSet;
use std::num::NonZero;
use std::path::Path;

use anyhow::{Context as _, anyhow};
use pcstream_replay::{Pass, Plan, groups};
use pcstream_report::geometry;
use pcstream_report::human::counted;
use pcstream_ssd::{DeviceSettings, Geometry};
use pcstream_trace::{Meta, TraceReader};

use crate::args::{FitArgs, SchemeOptions, SweepArgs};
use crate::failure::{Failure, Status};
use crate::fitted::Fitting;
use crate::interrupt::Interrupt;
use crate::passes;
use crate::schemes;
use crate::simulate;
use crate::ui::{self, Ui};
use crate::whole_file::{WholeFile, is_stdout};
use grid::{Grid, Run, Space};
use journal::{Done, Journal};
use results::Asked;
use sheet::{Cell, Format, Sheet, Type};

/// Lanes in a pass for each core: reading the trace costs little beside so many, and little is lost with a pass.
const LANES_PER_CORE: usize = 8;

/// Points left out that are named one by one.
const NAMED: usize = 3;

/// `pcstream sweep`.
pub fn sweep(args: &SweepArgs, ui: Ui) -> Result<Status, Failure> {
    let format = Format::of(&args.output).map_err(Failure::WrongArguments)?;
    schemes::check_files(&args.scheme_options, "sweep")?;
    schemes::check_regular("--device", args.grid.device.as_deref(), "sweep")?;
    let file = (!is_stdout(&args.output)).then_some(&args.output);
    let output = file.map(|path| WholeFile::create("--output", path)).transpose()?;
    let reader = simulate::open(&args.trace, ui)?;
    simulate::device_pages(reader.meta())?;
    let variants = schemes::variants(&args.scheme, &args.scheme_options)?;
    let asked = Asked::new(args)?;
    let memory = FitArgs { memory: args.memory, ..FitArgs::default() };
    let mut fitting = Fitting::new(&reader, &memory, None, Interrupt::watch()?, ui)?;
    let grid = Grid::new(args, variants, &reader, &mut fitting)?;
    simulate::remark_idle(&args.scheme_options, &args.scheme, ui);
    remark_grid(&grid, ui);
    remark_size(&grid, &mut fitting)?;
    fitting.remark_addresses(grid.runs.iter().map(|run| &run.lane));
    let mut journal = file.map_or_else(|| Ok(Journal::default()), |path| Journal::open(path))?;
    let ran =
        Sweep { reader: &reader, ui, grid: &grid, options: &args.scheme_options, journal: &mut journal }
            .run(&mut fitting);
    ran.map_err(|failure| resumable(failure, &grid, &journal))?;
    let (sheet, damage) = collect(&args.trace, &asked, reader.meta(), (&grid, &journal))?;
    passes::remark_damage(damage.as_deref(), ui);
    let bytes = sheet.file(format)?;
    match output {
        Some(output) => output.write(&bytes)?,
        None => ui::print_bytes(&bytes)?,
    }
    journal.remove()?;
    let place = file.map_or("stdout".into(), |path| path.display().to_string());
    ui.remark(&format!("{place}: {}", counted(sheet.rows.len() as u64, "row")));
    let meta = reader.meta();
    let dropped = dropped(&sheet);
    if dropped > 0 {
        ui.remark(&format!(
            "{dropped} runs dropped what they knew of live data at their memory bound (live_dropped)"
        ));
    }
    let lost =
        damage.is_some() || dropped > 0 || reader.damage().is_some() || meta.has_losses() || !meta.complete;
    Ok(Status::with_losses(lost || !grid.left_out.is_empty()))
}

/// Rows whose scheme had to drop what it knew of live data.
fn dropped(sheet: &Sheet) -> usize {
    let column =
        sheet.columns.iter().position(|(name, _)| name == "live_dropped").expect("a column of results");
    sheet.rows.iter().filter(|row| !matches!(row[column], Cell::Null | Cell::Whole(0))).count()
}

/// Says that too little was written, if it is too little for all devices.
fn remark_size(grid: &Grid, fitting: &mut Fitting) -> Result<(), Failure> {
    let flash =
        |device: &DeviceSettings| Geometry::new(device).map_or(0, |geometry| geometry.physical_pages());
    let smallest = |space: &Space| {
        let runs = grid.runs.iter().filter(|run| run.at.ground == space.ground);
        let devices = runs.map(|run| &run.lane.device);
        devices.min_by_key(|device| flash(device)).expect("a space is that of a run")
    };
    let fullest = grid.spaces.iter().max_by_key(|space| {
        (i128::from(space.pages()) - i128::from(flash(smallest(space))), !space.ground.space.no_discard)
    });
    let Some(fullest) = fullest else { return Ok(()) };
    fitting.fit.change_device(fullest.ground.space, fullest.ground.capacity)?;
    // Of several packed devices the rows say how large and how full each is.
    let packed = |space: &Space| (space.ground.space.pack, space.ground.capacity);
    let pack = fullest.ground.space.pack;
    if pack.is_none() || grid.spaces.iter().all(|space| packed(space) == packed(fullest)) {
        fitting.remark_size(smallest(fullest), &fullest.prefill);
    }
    Ok(())
}

/// Says what is run, and what cannot be.
fn remark_grid(grid: &Grid, ui: Ui) {
    let superblocks: BTreeSet<u32> = grid.runs.iter().map(|run| run.lane.device.superblock_pages).collect();
    ui.remark(&counted(grid.runs.len() as u64, "run"));
    if superblocks.len() > 1 {
        let list: Vec<String> = superblocks.iter().map(u32::to_string).collect();
        ui.remark(&format!("superblocks of {} pages; --superblock-pages keeps them alike", list.join(", ")));
    }
    if let Some(&(first, pages)) = grid.shrunk.iter().min_by_key(|(_, pages)| *pages) {
        ui.remark(&geometry::smaller_superblocks(first, pages));
    }
    grid.left_out.iter().take(NAMED).for_each(|point| ui.remark(&format!("left out: {point}")));
    if grid.left_out.len() > NAMED {
        let more = (grid.left_out.len() - NAMED) as u64;
        ui.remark(&format!("left out: {}, whose device cannot be either", counted(more, "more point")));
    }
}

/// Says that an interrupted sweep can go on.
fn resumable(failure: Failure, grid: &Grid, journal: &Journal) -> Failure {
    match (failure, journal.path()) {
        (Failure::Interrupted { signal, .. }, Some(path)) => {
            let done = grid.runs.iter().filter(|run| journal.done(&run.key).is_some()).count();
            let error = anyhow!(
                "ended by signal {signal}; {done} of {} runs are kept in {}, and the same command goes on with the rest",
                grid.runs.len(),
                path.display()
            );
            Failure::Interrupted { error, signal }
        }
        (other, _) => other,
    }
}

/// A sweep at work.
struct Sweep<'a> {
    reader: &'a TraceReader,
    ui: Ui,
    grid: &'a Grid,
    options: &'a SchemeOptions,
    journal: &'a mut Journal,
}

impl Sweep<'_> {
    /// Runs what is not done yet.
    fn run(&mut self, fitting: &mut Fitting) -> Result<(), Failure> {
        let open = self.grid.runs.iter().filter(|run| self.journal.done(&run.key).is_none()).count();
        if let Some(path) = self.journal.path().filter(|_| open < self.grid.runs.len()) {
            let done = self.grid.runs.len() - open;
            self.ui.remark(&format!("finished before: {} ({})", counted(done as u64, "run"), path.display()));
        }
        // A run is all events of the trace in one lane.
        let bar = self.ui.progress("sweeping", "events", self.reader.meta().totals.events * open as u64);
        let (grid, mut future, mut remarks) = (self.grid, None, BTreeSet::new());
        // When a page dies depends on discards, so that those with and those without have a future of their own.
        let mut spaces: Vec<&Space> = grid.spaces.iter().collect();
        spaces.sort_by_key(|space| space.ground.space.no_discard);
        let mut no_discard = false;
        for space in spaces {
            if std::mem::replace(&mut no_discard, space.ground.space.no_discard) != no_discard {
                future = None;
            }
            let open = |run: &&Run| run.at.ground == space.ground && self.journal.done(&run.key).is_none();
            let runs: Vec<&Run> = grid.runs.iter().filter(open).collect();
            if runs.is_empty() {
                continue;
            }
            fitting.fit.change_device(space.ground.space, space.ground.capacity)?;
            let plan = plan_of(&runs, space);
            let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
            let groups = fitting.groups(&plan)?.at_most(cores * LANES_PER_CORE);
            let mut rest = &runs[..];
            groups::run(&plan, &groups, &mut future, |part| {
                let runs = rest.split_off(..part.lanes.len()).expect("a part of the plan");
                let progress = |pass, events: usize| {
                    if pass == Pass::Simulate {
                        bar.inc((events * runs.len()) as u64);
                    }
                };
                let recorded = fitting.fit.pass(part, progress)?;
                let results = recorded.replay.results();
                remarks.extend(pcstream_report::too_few_dies(&results));
                remarks.extend(simulate::lane_remarks(self.options, &results));
                let done = runs.iter().zip(&results).map(|(run, result)| {
                    (run.key.clone(), Done { results: results::of(result), damage: recorded.damage.clone() })
                });
                self.journal.keep(done.collect())?;
                Ok::<_, Failure>(recorded)
            })?;
        }
        bar.finish_and_clear();
        remarks.iter().for_each(|remark| self.ui.remark(remark));
        Ok(())
    }
}

fn plan_of(runs: &[&Run], space: &Space) -> Plan {
    let lanes = runs.iter().map(|run| run.lane.clone()).collect();
    Plan { lanes, prefill: space.prefill.clone(), ..Plan::default() }
}

/// The rows of all runs, with what was `asked` of them alike, and why the trace could not be read to its end, if so.
fn collect(
    path: &Path,
    asked: &Asked<'_>,
    meta: &Meta,
    (grid, journal): (&Grid, &Journal),
) -> anyhow::Result<(Sheet, Option<String>)> {
    let mut parameters: Vec<String> = Vec::new();
    for (name, _) in grid.runs.iter().flat_map(|run| &run.settings) {
        if !parameters.contains(name) {
            parameters.push(name.clone());
        }
    }
    let mut columns = results::columns(&parameters);
    columns.push(("damage".to_owned(), Type::Text));
    let (path, mut damage, mut rows) = (path.display().to_string(), None, Vec::new());
    let trace = (&path[..], &meta.trace_id[..]);
    for run in &grid.runs {
        let done = journal.done(&run.key).context("every run is done")?;
        let mut row = results::place(run, trace, &parameters, &Geometry::new(&run.lane.device)?);
        row.extend(done.results.iter().cloned());
        row.extend(asked.of(run));
        row.push(done.damage.clone().map_or(Cell::Null, Cell::Text));
        rows.push(row);
        damage = damage.or_else(|| done.damage.clone());
    }
    Ok((Sheet { columns, rows }, damage))
}
