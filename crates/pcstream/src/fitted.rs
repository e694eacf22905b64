//! A simulation made to fit: on another address space than the traced one, and in as many passes as memory asks for.
//!
//! The trace is read once more, before everything else, where it has to be known which pages it writes: to pack
//! addresses, to add static data, or because tables for whole devices would not fit into memory.

mod memory;
mod remarks;

use std::sync::Arc;

use pcstream_placement::Future;
use pcstream_replay::groups;
use pcstream_replay::recorded::{self, Pass, Recorded};
use pcstream_replay::space::{Space, SpaceSettings, Used};
use pcstream_replay::{Class, Fitted, Plan};
use pcstream_report::space::ChangedSpace;
use pcstream_trace::{Batch, Event, TraceError, TraceReader};

use crate::args::FitArgs;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::passes::{Bars, failure};
use crate::ui::Ui;
pub use memory::Groups;
#[cfg(feature = "capture")]
pub use memory::not_enough_to_begin;

/// A trace as the simulation sees it.
pub struct Fitting<'a> {
    reader: &'a TraceReader,
    settings: SpaceSettings,
    /// Bytes that may be taken, if a flag says how many.
    memory: Option<u64>,
    capacity: Option<u64>,
    ui: Ui,
    interrupt: Interrupt,
    used: Option<Used>,
    space: Option<Space>,
}

impl<'a> Fitting<'a> {
    /// Of the trace on the device that `args` ask for; `capacity` is the number of logical pages, if that is given.
    /// A signal that `interrupt` notes ends the work.
    pub fn new(
        reader: &'a TraceReader,
        args: &FitArgs,
        capacity: Option<u64>,
        interrupt: Interrupt,
        ui: Ui,
    ) -> Result<Fitting<'a>, Failure> {
        let FitArgs { fill, no_discard, memory, least_pages, .. } = *args;
        let settings = SpaceSettings { pack: args.pack(), fill, no_discard };
        let mut fitting =
            Fitting { reader, settings, memory, capacity, ui, interrupt, used: None, space: None };
        fitting.fill(fill)?;
        if fitting.space().is_some_and(|space| space.logical_pages < least_pages) {
            fitting.capacity = Some(least_pages);
            fitting.fill(fill)?;
        }
        Ok(fitting)
    }

    /// Another share of the device that static data fills up to; none for no static data.
    pub fn fill(&mut self, share: Option<f64>) -> Result<(), Failure> {
        self.settings.fill = share;
        self.space = None;
        if self.settings != SpaceSettings::default() {
            if self.settings.needs_survey() {
                self.survey()?;
            }
            let nothing = Used::default();
            let used = self.used.as_ref().unwrap_or(&nothing);
            let meta = self.reader.meta();
            let space = Space::new(self.settings, used, &meta.prefilled, meta.device.pages, self.capacity);
            self.space = Some(space.map_err(Failure::wrong_arguments)?);
        }
        Ok(())
    }

    /// The changed address space, if it is changed.
    pub fn space(&self) -> Option<&Space> {
        self.space.as_ref()
    }

    /// What was done to the trace's addresses, for the report.
    pub fn changed_space(&self) -> Option<ChangedSpace> {
        self.space.as_ref().map(|space| ChangedSpace::of(space, self.settings.pack.is_some()))
    }

    /// The trace's batches, changed, until a signal comes.
    pub fn batches(&self) -> impl Iterator<Item = Result<Batch, TraceError>> + Send {
        let space = self.space.as_ref();
        self.recorded().map(move |batch| match space {
            Some(space) => batch.map(|batch| space.change(batch)),
            None => batch,
        })
    }

    /// The trace's batches as they are, until a signal comes.
    fn recorded(&self) -> impl Iterator<Item = Result<Batch, TraceError>> + Send {
        let interrupt = self.interrupt.clone();
        self.reader.batches().take_while(move |_| !interrupt.came())
    }

    /// A failure if a signal came, which ends the batches early.
    pub fn check(&self) -> Result<(), Failure> {
        self.interrupt.check()
    }

    /// Finds out which pages the trace writes, once, and how many of them live at once where that is asked for.
    fn survey(&mut self) -> Result<(), Failure> {
        if self.used.is_none() {
            let mut bars = Bars::new(self.reader, self.ui);
            let prefilled = &self.reader.meta().prefilled;
            let advance = |pass, events| bars.advance(pass, events);
            let used = recorded::used(|| self.recorded(), self.settings, prefilled, advance);
            let used = used.map_err(|error| failure(error, self.reader))?;
            bars.finish(None);
            self.interrupt.check()?;
            self.used = Some(used);
        }
        Ok(())
    }

    /// Runs a part of a plan; `future` is learned if a lane needs it and it is not known.
    pub fn run_part(
        &self,
        mut part: Plan,
        future: &mut Option<Arc<Future>>,
        progress: impl FnMut(Pass, usize),
    ) -> Result<Recorded, Failure> {
        if let Some(future) = future {
            part.share_future(future);
        }
        let run = self.pass(&part, progress)?;
        *future = future.take().or_else(|| run.future.clone());
        Ok(run)
    }

    fn pass(&self, plan: &Plan, progress: impl FnMut(Pass, usize)) -> Result<Recorded, Failure> {
        let run = recorded::replay(plan, || self.batches(), progress);
        // A signal ends the batches early, which is no result.
        self.interrupt.check()?;
        run.map_err(|error| failure(error, self.reader))
    }

    /// Runs the plan.
    pub fn run(&mut self, plan: &Plan) -> Result<Fitted, Failure> {
        let Groups { lanes, density } = self.groups(plan, usize::MAX)?;
        groups::run(plan, density, lanes, |part| {
            let mut bars = Bars::new(self.reader, self.ui);
            let run = self.pass(part, |pass, n| bars.advance(pass, n))?;
            bars.finish(run.damage.as_deref());
            Ok(run)
        })
    }

    /// What each of `count` classes of the trace's writes comes to, after a plan ran. `class_of` says whose an event is.
    pub fn by_class(
        &self,
        plan: &Plan,
        count: usize,
        class_of: impl Fn(&Event) -> usize,
    ) -> Result<Vec<Class>, Failure> {
        let mut bars = Bars::new(self.reader, self.ui);
        let of = (count, plan.lanes[0].device.address_pages());
        let classes =
            recorded::by_class(self.batches(), of, class_of, |events| bars.advance(Pass::Survey, events));
        self.interrupt.check()?;
        let classes = classes.map_err(|error| failure(error, self.reader))?;
        // That the trace is damaged has been said by the run before.
        bars.finish(None);
        Ok(classes)
    }
}
