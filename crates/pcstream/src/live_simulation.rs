//! The schemes of `run`: while the program runs if the device is known and their tables fit into memory, otherwise over
//! the recording.
//!
//! Units: bytes of memory. Invariant: results are the same either way, and those of a later `simulate`.
//!
//! Known weakness: memory that the program and the scratch device take during the run is not foreseen.

use std::sync::Arc;

use pcstream_placement::SchemeFactory;
use pcstream_replay::addresses::AddressSet;
use pcstream_replay::budget::{Footprint, Touched};
use pcstream_replay::{Fitted, LaneResult, LiveReplay, LiveResults, Replay, ReplayError};
use pcstream_report::geometry;
use pcstream_report::human::bytes;
use pcstream_trace::{Batch, Meta, TraceReader};

use crate::args::{FitArgs, SimulationArgs};
use crate::device::Template;
use crate::device_process::OnDevice;
use crate::failure::Failure;
use crate::fitted;
use crate::interrupt::Interrupt;
use crate::passes;
use crate::schemes;
use crate::simulate::{self, Planned};
use crate::ui::Ui;

/// Schemes that wait for a capture, which knows the device.
pub struct LiveSimulation<'a> {
    args: &'a SimulationArgs,
    schemes: Vec<Arc<dyn SchemeFactory>>,
    template: &'a Template<'a>,
    /// How it is made to fit. A packed device takes the whole recording.
    fit: FitArgs,
    /// Bytes that may be taken.
    available: u64,
    /// A device that carries the data, and does what one of the schemes says.
    device: Option<OnDevice>,
    ui: Ui,
    /// None: the schemes run over the recording.
    running: Option<Running>,
}

struct Running {
    planned: Planned,
    live: LiveReplay,
}

/// What came of it.
pub struct Simulated {
    /// What ran.
    pub planned: Planned,
    /// A replay, which knows the contexts.
    pub replay: Replay,
    /// Results of all lanes, in the order of the plan.
    pub results: Vec<LaneResult>,
    /// Why the recorded trace could not be read to its end, if it could not.
    pub damage: Option<String>,
}

impl<'a> LiveSimulation<'a> {
    /// Of the schemes and devices of `args`, in at most the memory of `fit`, or else three quarters of what is free now.
    pub fn new(
        args: &'a SimulationArgs,
        template: &'a Template<'a>,
        fit: FitArgs,
        ui: Ui,
    ) -> Result<LiveSimulation<'a>, Failure> {
        let available = pcstream_system::memory::allowed(fit.memory);
        // Before signals are caught: a rules file may be a pipe that nobody writes to.
        let schemes = schemes::factories(&args.scheme, &args.scheme_options)?;
        Ok(LiveSimulation { args, schemes, template, fit, available, device: None, ui, running: None })
    }

    /// The same with a single lane, beside a device.
    pub fn beside(self, device: OnDevice) -> LiveSimulation<'a> {
        LiveSimulation { device: Some(device), ..self }
    }

    /// Before the command starts. Refuses what would not fit into memory even if the command wrote nothing.
    pub fn start(&mut self, meta: &Meta) -> Result<(), Failure> {
        if self.fit.packed.pack().is_some() {
            return Ok(());
        }
        let planned = Planned::of(self.args, &self.schemes, self.template, meta, None);
        let mut planned = planned.map_err(fitted::packs)?;
        if let Some(device) = &self.device {
            device.begin(&mut planned.plan)?;
        }
        let lanes = &planned.plan.lanes;
        let whole = Footprint::new(lanes, 0, None).map_err(passes::refused)?;
        // A device waits for its streams, so its scheme has to run now; whether that fits has been checked.
        if self.device.is_some() || whole.total() <= self.available {
            if let Some(first) = planned.shrunk_from {
                self.ui.remark(&geometry::smaller_superblocks(first, lanes[0].device.superblock_pages));
            }
            let live = LiveReplay::start(planned.plan.clone()).map_err(passes::refused)?;
            self.running = Some(Running { planned, live });
        } else {
            let nothing_written = Touched::new(&AddressSet::default(), &planned.plan.prefill, 0);
            let least = Footprint::new(lanes, 0, Some(&nothing_written)).map_err(passes::refused)?;
            least.groups(self.available).map_err(fitted::not_enough_to_begin)?;
            self.ui.remark(&format!(
                "{} lanes may take {} of memory, {} are allowed (--memory): they run after the recording",
                lanes.len(),
                bytes(whole.total()),
                bytes(self.available),
            ));
        }
        Ok(())
    }

    /// The traced device is larger from now on. Returns what that means for the results.
    pub fn device_grew(&mut self) -> &'static str {
        self.running = None;
        "the schemes run over the recording, on a device of the new size"
    }

    /// The next events.
    pub fn feed(&mut self, batch: Batch) -> Result<(), ReplayError> {
        self.running.as_mut().map_or(Ok(()), |running| running.live.feed(batch))
    }

    /// After the recording, which `reader` reads. A signal that `interrupt` notes ends it.
    pub fn finish(self, reader: &TraceReader, interrupt: Interrupt) -> Result<Simulated, Failure> {
        if let Some(Running { planned, live }) = self.running {
            let host_pages = reader.meta().totals.host_pages;
            let whole = Footprint::new(&planned.plan.lanes, host_pages, None).map_err(passes::refused)?;
            // Schemes that look ahead take memory for each page written, which was not known before.
            if whole.total() <= self.available {
                let batches = || reader.batches().take_while(|_| !interrupt.came());
                let finished = live.finish(batches, passes::progress(reader, self.ui));
                interrupt.check()?;
                let LiveResults { replay, results, damage } =
                    finished.map_err(|error| passes::failure(error, reader))?;
                passes::remark_damage(damage.as_deref(), self.ui);
                return Ok(Simulated { planned, replay, results, damage });
            }
        }
        let fit = FitArgs { memory: Some(self.available), ..self.fit };
        let (template, schemes) = (self.template, &self.schemes);
        let (mut fitting, planned) =
            simulate::fit_schemes(template, self.args, schemes, &fit, reader, interrupt, self.ui)?;
        let Fitted { results, replay, damage, .. } = fitting.run(&planned.plan)?;
        Ok(Simulated { planned, replay, results, damage })
    }
}
