//! A simulation made to fit: on another address space than the traced one, and in as many passes as memory asks for.
//!
//! The trace is read once more, before everything else, where it has to be known which pages it writes: to pack
//! addresses, to add static data, or because tables for whole devices would not fit into memory.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use anyhow::anyhow;
use pcstream_placement::Future;
use pcstream_replay::budget::{Footprint, NotEnough, Touched};
use pcstream_replay::groups;
use pcstream_replay::recorded::{self, Pass, Recorded, RecordedError};
use pcstream_replay::space::{Pack, Space, SpaceSettings, Used};
use pcstream_replay::{Class, Fitted, LaneSpec, Plan, ReplayError};
use pcstream_report::human::{bytes, page_bytes, percent};
use pcstream_report::space::ChangedSpace;
use pcstream_ssd::{Density, DeviceSettings, Geometry};
use pcstream_trace::{Batch, Event, Extent, TraceError, TraceReader};

use crate::args::FitArgs;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::passes::{Bars, failure, refused};
use crate::ui::Ui;

/// Share of the writes that must be discarded for a word about discards.
const LEAST_DISCARDED: f64 = 0.01;

/// What is to be known of schemes for which neighbours matter, on a device packed by live data.
const SPREAD_ADDRESSES: &str = "neighbouring addresses matter, and are those of the recording; on a device of this size a \
                                file system would use freed ones again";

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

/// Refuses a simulation before anything is recorded.
#[cfg(feature = "capture")]
pub fn not_enough_to_begin(NotEnough { needed, available }: NotEnough) -> Failure {
    Failure::failed(anyhow!(
        "the simulation needs at least {} of memory, for one lane at a time and before the program writes anything, and {} \
         are allowed (three quarters of what is free, unless --memory says otherwise): free some, allow more with --memory, \
         or use `pcstream record` and then `pcstream simulate --pack 0.9`",
        bytes(needed),
        bytes(available),
    ))
}

/// Lanes that run at once.
pub struct Groups {
    /// Lanes of the plan, in order.
    pub lanes: Vec<Range<usize>>,
    /// How their tables are best made.
    pub density: Density,
}

impl<'a> Fitting<'a> {
    /// Of the trace on the device that `args` ask for; `capacity` is the number of logical pages, if that is given.
    pub fn new(
        reader: &'a TraceReader,
        args: &FitArgs,
        capacity: Option<u64>,
        ui: Ui,
    ) -> Result<Fitting<'a>, Failure> {
        let FitArgs { fill, no_discard, memory, least_pages, .. } = *args;
        let settings = SpaceSettings { pack: args.pack(), fill, no_discard };
        let interrupt = Interrupt::watch()?;
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

    /// Says how much was written to how large a device, where that is too little for a result: where the flash of the
    /// simulated `device`, with `prefill` on it, is not even written once.
    pub fn remark_size(&self, device: &DeviceSettings, prefill: &[Extent]) {
        let (written, traced) = (self.reader.meta().totals.host_pages, self.reader.meta().device.pages);
        if let (Some(pack), Some(space)) = (self.settings.pack, &self.space) {
            if written < traced {
                let filled = match space.peak_live {
                    Some(live) => format!("{} of live data at most", page_bytes(live)),
                    None => format!("{} of addresses that are written", page_bytes(space.used_pages)),
                };
                self.ui.remark(&format!(
                    "{}: {} written to {}, simulated as if {} full: {filled}, on {}",
                    self.reader.path().display(),
                    page_bytes(written),
                    page_bytes(traced),
                    percent(pack.share()),
                    page_bytes(space.logical_pages),
                ));
            }
            return;
        }
        let before: u64 = prefill.iter().map(|extent| extent.pages).sum();
        // A device that cannot be is refused elsewhere.
        let flash = Geometry::new(device).map_or(0, |geometry| geometry.physical_pages());
        if written + before < flash {
            let more =
                if before > 0 { format!(", and {} before", page_bytes(before)) } else { String::new() };
            self.ui.remark(&format!(
                "{}: {} written to {} of flash{more}: too little to say anything; --pack 0.9 simulates the addresses that \
                 are written as if they filled 90 % of a device",
                self.reader.path().display(),
                page_bytes(written),
                page_bytes(flash),
            ));
        }
    }

    /// Says what the addresses of a packed device make of a result: which schemes see more of them than such a device has,
    /// and that discards leave it emptier than asked for.
    pub fn remark_addresses<'l>(&self, lanes: impl Iterator<Item = &'l LaneSpec>) {
        let totals = &self.reader.meta().totals;
        let matters = totals.discarded_pages as f64 >= LEAST_DISCARDED * totals.host_pages as f64;
        let discards = totals.discarded_pages > 0 && matters && !self.settings.no_discard;
        match self.settings.pack {
            Some(Pack::Live(_)) => {
                let reads = |lane: &&LaneSpec| lane.scheme.reads_addresses(lane.device.superblock_pages);
                let schemes: BTreeSet<&str> = lanes.filter(reads).map(|lane| lane.scheme.name()).collect();
                if !schemes.is_empty() {
                    let schemes = schemes.into_iter().collect::<Vec<_>>().join(", ");
                    self.ui.remark(&format!("{schemes}: {SPREAD_ADDRESSES}"));
                }
            }
            Some(Pack::Addresses(share)) if discards => self.ui.remark(&format!(
                "discards leave the device emptier than {}, its share of addresses: --pack-live {share} goes by live data",
                percent(share)
            )),
            _ => {}
        }
    }

    /// The trace's batches, changed, until a signal comes.
    pub fn batches(&self) -> impl Iterator<Item = Result<Batch, TraceError>> + Send {
        let (interrupt, space) = (self.interrupt.clone(), self.space.as_ref());
        let batches = self.reader.batches().take_while(move |_| !interrupt.came());
        batches.map(move |batch| match space {
            Some(space) => batch.map(|batch| space.change(batch)),
            None => batch,
        })
    }

    /// A failure if a signal came, which ends the batches early.
    pub fn check(&self) -> Result<(), Failure> {
        self.interrupt.check()
    }

    /// Finds out which pages the trace writes, once, and how many of them live at once where that is asked for.
    fn survey(&mut self) -> Result<(), Failure> {
        if self.used.is_none() {
            let written = self.surveyed(|progress| recorded::written(self.reader.batches(), progress))?;
            let peak_live = match self.settings.pack {
                Some(Pack::Live(_)) => self.surveyed(|progress| {
                    let pages = (&written, &self.reader.meta().prefilled[..]);
                    recorded::peak_live(self.reader.batches(), pages, self.settings.no_discard, progress)
                })?,
                _ => 0,
            };
            self.used = Some(Used { written, peak_live });
        }
        Ok(())
    }

    /// What a pass over the trace finds out.
    fn surveyed<T>(
        &self,
        pass: impl FnOnce(&mut dyn FnMut(usize)) -> Result<T, RecordedError<TraceError>>,
    ) -> Result<T, Failure> {
        let mut bars = Bars::new(self.reader, self.ui);
        let found = pass(&mut |events| bars.advance(Pass::Survey, events));
        let found = found.map_err(|error| failure(error, self.reader))?;
        bars.finish(None);
        self.interrupt.check()?;
        Ok(found)
    }

    /// What something takes in memory, as exactly as needed to see whether it fits; `of` knows it by what is touched.
    fn footprint(
        &mut self,
        prefill: &[Extent],
        available: u64,
        of: impl Fn(Option<&Touched>) -> Result<Footprint, ReplayError>,
    ) -> Result<Footprint, Failure> {
        let whole = of(None).map_err(refused)?;
        // Packed addresses leave nothing untouched.
        if whole.total() <= available || self.settings.pack.is_some() {
            return Ok(whole);
        }
        self.survey()?;
        let used = self.used.as_ref().expect("the trace has been surveyed");
        of(Some(&Touched::new(&used.written, prefill, self.reader.meta().totals.host_pages))).map_err(refused)
    }

    /// How the tables of a survey of the plan's first device are best made; refused where it does not fit into memory.
    pub fn room_for_survey(&mut self, plan: &Plan) -> Result<Density, Failure> {
        let available = pcstream_system::memory::allowed(self.memory);
        let of = |touched: Option<&Touched>| Footprint::of_survey(&plan.lanes[0].device, touched);
        let footprint = self.footprint(&plan.prefill, available, of)?;
        footprint.groups(available).map_err(|error| self.not_enough(error))?;
        Ok(footprint.density)
    }

    /// The lanes of a plan that run at once, in order: as many as fit into memory, and at most `at_most`.
    pub fn groups(&mut self, plan: &Plan, at_most: usize) -> Result<Groups, Failure> {
        let available = pcstream_system::memory::allowed(self.memory);
        let host_pages = self.reader.meta().totals.host_pages;
        let of = |touched: Option<&Touched>| Footprint::new(&plan.lanes, host_pages, touched);
        let footprint = self.footprint(&plan.prefill, available, of)?;
        let fitting = footprint.groups(available).map_err(|error| self.not_enough(error))?;
        if fitting.len() > 1 {
            self.ui.remark(&format!(
                "{} lanes would take {} of memory at once, {} are allowed (--memory): {} passes",
                plan.lanes.len(),
                bytes(footprint.total()),
                bytes(available),
                fitting.len(),
            ));
        }
        let cut = |group: Range<usize>| {
            let starts = group.clone().step_by(at_most.max(1));
            starts.map(move |start| start..start.saturating_add(at_most).min(group.end)).collect::<Vec<_>>()
        };
        Ok(Groups { lanes: fitting.into_iter().flat_map(cut).collect(), density: footprint.density })
    }

    /// Runs some lanes of a plan; `future` is learned if a lane needs it and it is not known.
    pub fn run_group(
        &self,
        plan: &Plan,
        lanes: Range<usize>,
        density: Density,
        future: &mut Option<Arc<Future>>,
        progress: impl FnMut(Pass, usize),
    ) -> Result<Recorded, Failure> {
        let mut part = Plan { lanes: plan.lanes[lanes].to_vec(), density, ..plan.clone() };
        if let Some(future) = future {
            part.share_future(future);
        }
        let run = self.pass(&mut part, progress)?;
        *future = future.take().or_else(|| part.future());
        Ok(run)
    }

    fn pass(&self, plan: &mut Plan, progress: impl FnMut(Pass, usize)) -> Result<Recorded, Failure> {
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

    fn not_enough(&self, NotEnough { needed, available }: NotEnough) -> Failure {
        // A trace that writes less than its device holds fits a smaller one.
        let meta = self.reader.meta();
        let smaller = match self.settings.pack {
            None if meta.totals.host_pages < meta.device.pages => {
                ", or --pack 0.9 for a device that is no larger than what the trace writes"
            }
            _ => "",
        };
        Failure::failed(anyhow!(
            "the simulation needs at least {} of memory, for one lane at a time, and {} are allowed (three quarters of what \
             is free, unless --memory says otherwise): free some, allow more with --memory{smaller}",
            bytes(needed),
            bytes(available),
        ))
    }
}
