//! A simulation made to fit, as `pcstream-replay` decides it: progress, signals, and the words for users.

mod memory;
mod remarks;

use pcstream_replay::space::SpaceSettings;
use pcstream_replay::{Class, Fit, FitError, Fitted, FrontEnd, Pass, Plan, recorded};
use pcstream_trace::{Batch, Event, Meta, TraceError, TraceReader};

use crate::args::FitArgs;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::passes;
use crate::ui::Ui;
#[cfg(feature = "capture")]
pub use memory::{not_enough_to_begin, packs};

/// A trace as the simulation sees it.
pub struct Fitting<'a> {
    /// The trace made to fit.
    pub fit: Fit<Program<'a>>,
    /// Bytes that may be taken, if a flag says how many.
    memory: Option<u64>,
    /// Whether it was said that the trace is damaged.
    said_damage: bool,
}

/// This program, as it reads a trace.
pub struct Program<'a> {
    reader: &'a TraceReader,
    ui: Ui,
    /// A signal that it notes ends the work.
    interrupt: Interrupt,
}

impl FrontEnd for Program<'_> {
    type ReadError = TraceError;
    type Failure = Failure;

    fn meta(&self) -> &Meta {
        self.reader.meta()
    }

    fn batches(&self) -> impl Iterator<Item = Result<Batch, TraceError>> + Send {
        let interrupt = self.interrupt.clone();
        self.reader.batches().take_while(move |_| !interrupt.came())
    }

    fn progress(&self) -> impl FnMut(Pass, usize) {
        passes::progress(self.reader, self.ui)
    }

    fn check(&self) -> Result<(), Failure> {
        self.interrupt.check()
    }

    fn failure(&self, error: FitError<TraceError>) -> Failure {
        match error {
            FitError::Recorded(error) => passes::failure(error, self.reader),
            FitError::Space(error) => Failure::wrong_arguments(error),
            FitError::Memory { not_enough, smaller } => memory::not_enough(not_enough, smaller),
        }
    }
}

impl<'a> Fitting<'a> {
    /// Of the trace on the device that `args` ask for; `capacity` is the number of logical pages, if that is given.
    pub fn new(
        reader: &'a TraceReader,
        args: &FitArgs,
        capacity: Option<u64>,
        interrupt: Interrupt,
        ui: Ui,
    ) -> Result<Fitting<'a>, Failure> {
        let settings =
            SpaceSettings { pack: args.packed.pack(), fill: args.fill, no_discard: args.no_discard };
        let mut fit = Fit::new(Program { reader, ui, interrupt }, settings, capacity)?;
        fit.grow(args.least_pages)?;
        Ok(Fitting { fit, memory: args.memory, said_damage: false })
    }

    /// Runs the plan.
    pub fn run(&mut self, plan: &Plan) -> Result<Fitted, Failure> {
        let groups = self.groups(plan)?;
        let fitted = self.fit.run(plan, &groups)?;
        if !std::mem::replace(&mut self.said_damage, fitted.damage.is_some()) {
            passes::remark_damage(fitted.damage.as_deref(), self.fit.front.ui);
        }
        Ok(fitted)
    }

    /// What each of `count` classes of the trace's writes comes to, after a plan ran. `class_of` says whose an event is.
    pub fn by_class(
        &self,
        plan: &Plan,
        count: usize,
        class_of: impl Fn(&Event) -> usize,
    ) -> Result<Vec<Class>, Failure> {
        let (of, mut progress) = ((count, plan.lanes[0].device.address_pages()), self.fit.front.progress());
        let advance = |events| progress(Pass::Survey, events);
        // That the trace is damaged has been said by the run before.
        self.fit.ended(recorded::by_class(self.fit.batches(), of, class_of, advance))
    }
}
