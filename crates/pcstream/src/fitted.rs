//! A simulation made to fit: on another address space than the traced one, and in as many passes as memory asks for.
//!
//! The trace is read once more, before everything else, where it has to be known which pages it writes: to pack
//! addresses, to add static data, or because tables for whole devices would not fit into memory.

use std::collections::BTreeMap;

use anyhow::anyhow;
use pcstream_replay::addresses::AddressSet;
use pcstream_replay::budget::{Footprint, NotEnough, Touched};
use pcstream_replay::recorded::{self, Pass, Recorded};
use pcstream_replay::space::{Space, SpaceSettings};
use pcstream_replay::{LaneResult, Plan, Replay};
use pcstream_report::human::{bytes, page_bytes, percent};
use pcstream_trace::{Batch, TraceError, TraceReader};

use crate::args::FitArgs;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::memory;
use crate::passes::{Bars, failure, refused};
use crate::ui::Ui;

/// A trace as the simulation sees it.
pub struct Fitting<'a> {
    reader: &'a TraceReader,
    args: &'a FitArgs,
    ui: Ui,
    interrupt: Interrupt,
    written: Option<AddressSet>,
    space: Option<Space>,
}

/// What all lanes together came to.
pub struct Fitted {
    /// By lane, in the order of the plan.
    pub results: Vec<LaneResult>,
    /// The last pass: what is the same for every lane.
    pub replay: Replay,
    /// What schemes learned that can be saved, by scheme.
    pub learned: BTreeMap<String, Vec<u8>>,
    /// Why reading ended early, if it did.
    pub damage: Option<String>,
}

impl<'a> Fitting<'a> {
    /// Of the trace on the device that `args` ask for; `capacity` is the number of logical pages, if that is given.
    pub fn new(
        reader: &'a TraceReader,
        args: &'a FitArgs,
        capacity: Option<u64>,
        ui: Ui,
    ) -> Result<Fitting<'a>, Failure> {
        let interrupt = Interrupt::watch()?;
        let mut fitting = Fitting { reader, args, ui, interrupt, written: None, space: None };
        let settings = SpaceSettings { pack: args.pack, fill: args.fill, no_discard: args.no_discard };
        if settings != SpaceSettings::default() {
            if settings.needs_survey() {
                fitting.survey()?;
            }
            let nothing = AddressSet::default();
            let written = fitting.written.as_ref().unwrap_or(&nothing);
            let meta = reader.meta();
            let space = Space::new(settings, written, &meta.prefilled, meta.device.pages, capacity);
            fitting.space = Some(space.map_err(Failure::wrong_arguments)?);
        }
        fitting.remark_size();
        Ok(fitting)
    }

    /// The changed address space, if it is changed.
    pub fn space(&self) -> Option<&Space> {
        self.space.as_ref()
    }

    /// What was done to the trace, in words, for the report.
    pub fn description(&self) -> Option<String> {
        let space = self.space.as_ref()?;
        let mut parts = Vec::new();
        if self.args.pack.is_some() {
            parts.push(format!("{} of addresses packed", page_bytes(space.used_pages)));
        }
        if space.static_pages > 0 {
            parts.push(format!("{} of static data", page_bytes(space.static_pages)));
        }
        if self.args.no_discard {
            parts.push("without discards".to_owned());
        }
        Some(parts.join(", "))
    }

    /// Says how much was written to how large a device, where that is too little for a result.
    fn remark_size(&self) {
        let (written, device) = (self.reader.meta().totals.host_pages, self.reader.meta().device.pages);
        if written >= device {
            return;
        }
        let problem =
            format!("{} written to {}: too little to say anything", page_bytes(written), page_bytes(device));
        match (self.args.pack, &self.space) {
            (Some(share), Some(space)) => self.ui.remark(&format!(
                "{problem}; simulated as if {} full: {} of addresses that are written, on {}",
                percent(share),
                page_bytes(space.used_pages),
                page_bytes(space.logical_pages),
            )),
            _ => self.ui.remark(&format!(
                "{problem}; --pack 0.9 simulates the addresses that are written as if they filled 90 % of a device"
            )),
        }
    }

    /// The trace's batches, changed, until a signal comes.
    fn batches(&self) -> impl Iterator<Item = Result<Batch, TraceError>> + Send {
        let (interrupt, space) = (self.interrupt.clone(), self.space.as_ref());
        let batches = self.reader.batches().take_while(move |_| !interrupt.came());
        batches.map(move |batch| match space {
            Some(space) => batch.map(|batch| space.change(batch)),
            None => batch,
        })
    }

    /// Finds out which pages the trace writes, once.
    fn survey(&mut self) -> Result<(), Failure> {
        if self.written.is_none() {
            let mut bars = Bars::new(self.reader, self.ui);
            let written =
                recorded::written(self.reader.batches(), |events| bars.advance(Pass::Survey, events));
            let written = written.map_err(|error| failure(error, self.reader))?;
            bars.finish(None);
            self.interrupt.check()?;
            self.written = Some(written);
        }
        Ok(())
    }

    /// What the plan takes in memory, as exactly as needed to see whether it fits.
    fn footprint(&mut self, plan: &Plan, available: u64) -> Result<Footprint, Failure> {
        let host_pages = self.reader.meta().totals.host_pages;
        let whole = Footprint::new(&plan.lanes, host_pages, None).map_err(refused)?;
        // Packed addresses leave nothing untouched.
        if whole.total() <= available || self.args.pack.is_some() {
            return Ok(whole);
        }
        self.survey()?;
        let written = self.written.as_ref().expect("the trace has been surveyed");
        let touched = Touched::new(written, &plan.prefill, host_pages);
        Footprint::new(&plan.lanes, host_pages, Some(&touched)).map_err(refused)
    }

    /// Runs the plan.
    pub fn run(mut self, plan: &Plan) -> Result<Fitted, Failure> {
        let available = memory::allowed(self.args.memory);
        let footprint = self.footprint(plan, available)?;
        let groups = footprint.groups(available).map_err(|error| self.not_enough(error))?;
        if groups.len() > 1 {
            self.ui.remark(&format!(
                "{} lanes would take {} of memory at once, {} are allowed (--memory): {} passes",
                plan.lanes.len(),
                bytes(footprint.total()),
                bytes(available),
                groups.len(),
            ));
        }
        let (mut results, mut learned, mut last) = (Vec::new(), BTreeMap::new(), None);
        let mut future = None;
        for group in groups {
            drop(last.take());
            let lanes = plan.lanes[group].to_vec();
            let mut part = Plan { lanes, density: footprint.density, ..plan.clone() };
            if let Some(future) = &future {
                part.share_future(future);
            }
            let mut bars = Bars::new(self.reader, self.ui);
            let run = recorded::replay(&mut part, || self.batches(), |pass, n| bars.advance(pass, n));
            let run = run.map_err(|error| failure(error, self.reader))?;
            self.interrupt.check()?;
            bars.finish(run.damage.as_deref());
            let group_results = run.replay.results();
            for result in &group_results {
                if let Some(table) = run.replay.learned(&result.scheme) {
                    learned.entry(result.scheme.clone()).or_insert(table);
                }
            }
            results.extend(group_results);
            future = future.or_else(|| part.future());
            last = Some(run);
        }
        let Recorded { replay, damage } = last.expect("there is at least one group");
        Ok(Fitted { results, replay, learned, damage })
    }

    fn not_enough(&self, NotEnough { needed, available }: NotEnough) -> Failure {
        let smaller = match self.args.pack {
            None => ", or --pack 0.9 for a device that is no larger than what the trace writes",
            Some(_) => "",
        };
        Failure::failed(anyhow!(
            "the simulation needs at least {} of memory, for one lane at a time, and {} are allowed (three quarters of what \
             is free, unless --memory says otherwise): free some, allow more with --memory{smaller}",
            bytes(needed),
            bytes(available),
        ))
    }
}
