//! A simulation made to fit: on another address space than the traced one, and in as many passes as memory asks for.
//!
//! The trace is read once more, before everything else, where it has to be known which pages it writes: to pack addresses,
//! to add static data, or because tables for whole devices would not fit into memory. It is surveyed once at most.
//!
//! Here is what is decided. Reading, progress, signals and the words of errors are those of the [`FrontEnd`].

use std::collections::BTreeMap;
use std::error::Error;

use pcstream_ssd::Density;
use pcstream_trace::{Batch, Extent, Meta};

use crate::budget::{Footprint, NotEnough, Touched};
use crate::error::ReplayError;
use crate::groups::{self, Fitted, Groups};
use crate::plan::Plan;
use crate::recorded::{self, Pass, Recorded, RecordedError};
use crate::space::{Pack, Space, SpaceError, SpaceSettings, Used};

/// Who simulates a recorded trace: reads it, and tells its users of it.
pub trait FrontEnd {
    /// Why the trace cannot be read.
    type ReadError: Error + Send;
    /// Why there is no result, in the words of the front end.
    type Failure;

    /// What the trace says of itself.
    fn meta(&self) -> &Meta;
    /// Begins to read the trace. Batches end early when the simulation is to stop.
    fn batches(&self) -> impl Iterator<Item = Result<Batch, Self::ReadError>> + Send;
    /// What is called with the number of events just done, and dropped after one or several passes.
    fn progress(&self) -> impl FnMut(Pass, usize);
    /// After every pass; an error if the simulation is to stop.
    fn check(&self) -> Result<(), Self::Failure>;
    /// A simulation cannot be made, or go on.
    fn failure(&self, error: FitError<Self::ReadError>) -> Self::Failure;
}

/// Why a trace has no simulation that fits.
#[derive(Debug, thiserror::Error)]
pub enum FitError<E: Error> {
    /// The trace cannot be read, or not replayed.
    #[error(transparent)]
    Recorded(#[from] RecordedError<E>),
    /// Not on the address space that was asked for.
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// Not even a lane at a time fits into memory.
    #[error("{not_enough}")]
    Memory {
        /// How much would be.
        not_enough: NotEnough,
        /// Which smaller device would take less; `None`: that of all pages that the trace writes is as small as can be.
        smaller: Option<Smaller>,
    },
}

/// A device that takes less memory than the one that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Smaller {
    /// Without the pages that the trace never writes.
    Packed,
    /// With less than the capacity that was given.
    Capacity,
}

impl<E: Error> From<ReplayError> for FitError<E> {
    fn from(error: ReplayError) -> FitError<E> {
        FitError::Recorded(error.into())
    }
}

/// A recorded trace as simulations see it.
pub struct Fit<F> {
    /// Who simulates.
    pub front: F,
    settings: SpaceSettings,
    /// Logical pages of the device, if they are given.
    capacity: Option<u64>,
    used: Option<Surveyed>,
    space: Option<Space>,
}

/// What is known of a trace once it has been read.
struct Surveyed {
    used: Used,
    /// Whether discards were left out of its peak of live data; none if that was not asked for.
    live_without_discards: Option<bool>,
}

impl<F: FrontEnd> Fit<F> {
    /// Of the front end's trace on a device of `capacity` logical pages, if that is given.
    pub fn new(front: F, settings: SpaceSettings, capacity: Option<u64>) -> Result<Fit<F>, F::Failure> {
        let mut fit = Fit { front, settings, capacity, used: None, space: None };
        fit.make(settings, capacity)?;
        Ok(fit)
    }

    /// Another address space. After an error it is the one before.
    pub fn change(&mut self, settings: SpaceSettings) -> Result<(), F::Failure> {
        self.change_device(settings, self.capacity)
    }

    /// Another address space, on a device of `capacity` logical pages, if that is given. After an error both are as before.
    pub fn change_device(
        &mut self,
        settings: SpaceSettings,
        capacity: Option<u64>,
    ) -> Result<(), F::Failure> {
        let is_same = (settings, capacity) == (self.settings, self.capacity);
        if is_same { Ok(()) } else { self.make(settings, capacity) }
    }

    fn make(&mut self, settings: SpaceSettings, capacity: Option<u64>) -> Result<(), F::Failure> {
        let mut space = None;
        if settings != SpaceSettings::default() {
            if settings.needs_survey() {
                self.survey(settings)?;
            }
            let nothing = Used::default();
            let used = self.used.as_ref().map_or(&nothing, |surveyed| &surveyed.used);
            let meta = self.front.meta();
            let made = Space::new(settings, used, &meta.prefilled, meta.device.pages, capacity);
            space = Some(made.map_err(|error| self.front.failure(error.into()))?);
        }
        (self.settings, self.capacity, self.space) = (settings, capacity, space);
        Ok(())
    }

    /// Another device, of so many logical pages, if the address space is changed and has fewer.
    pub fn grow(&mut self, logical_pages: u64) -> Result<(), F::Failure> {
        if self.space().is_some_and(|space| space.logical_pages < logical_pages) {
            self.make(self.settings, Some(logical_pages))?;
        }
        Ok(())
    }

    /// What was asked for.
    pub fn settings(&self) -> SpaceSettings {
        self.settings
    }

    /// The changed address space, if it is changed.
    pub fn space(&self) -> Option<&Space> {
        self.space.as_ref()
    }

    /// Whether a device without the pages that the trace never writes is smaller, and was not asked for.
    pub fn packs(&self) -> bool {
        let meta = self.front.meta();
        self.settings.pack.is_none() && self.capacity.is_none() && meta.totals.host_pages < meta.device.pages
    }

    fn smaller(&self) -> Option<Smaller> {
        let given = self.capacity.map(|_| Smaller::Capacity);
        self.packs().then_some(Smaller::Packed).or(given)
    }

    /// The trace's batches, changed.
    pub fn batches(&self) -> impl Iterator<Item = Result<Batch, F::ReadError>> + Send {
        let space = self.space.as_ref();
        self.front.batches().map(move |batch| match space {
            Some(space) => batch.map(|batch| space.change(batch)),
            None => batch,
        })
    }

    /// What a pass came to, unless the simulation is to stop: then its batches ended early, which is no result.
    pub fn ended<T>(&self, pass: Result<T, RecordedError<F::ReadError>>) -> Result<T, F::Failure> {
        self.front.check()?;
        pass.map_err(|error| self.front.failure(error.into()))
    }

    /// Finds out which pages the trace writes, once, and how many of them live at once where that is asked for.
    fn survey(&mut self, settings: SpaceSettings) -> Result<(), F::Failure> {
        let live = matches!(settings.pack, Some(Pack::Live(_))).then_some(settings.no_discard);
        let known = |surveyed: &Surveyed| live.is_none() || surveyed.live_without_discards == live;
        if !self.used.as_ref().is_some_and(known) {
            let (front, prefilled) = (&self.front, &self.front.meta().prefilled);
            let used = recorded::used(|| front.batches(), settings, prefilled, front.progress());
            self.used = Some(Surveyed { used: self.ended(used)?, live_without_discards: live });
        }
        Ok(())
    }

    /// The lanes of a plan that run at once, in order: as many as fit into `available` bytes.
    pub fn groups(&mut self, plan: &Plan, available: u64) -> Result<Groups, F::Failure> {
        let host_pages = self.front.meta().totals.host_pages;
        self.fitting(&plan.prefill, available, |touched| Footprint::new(&plan.lanes, host_pages, touched))
    }

    /// How the tables of a survey of the plan's first device are best made; refused where it does not fit into memory.
    pub fn room_for_survey(&mut self, plan: &Plan, available: u64) -> Result<Density, F::Failure> {
        let of = |touched: Option<&Touched>| Footprint::of_survey(&plan.lanes[0].device, touched);
        Ok(self.fitting(&plan.prefill, available, of)?.density)
    }

    /// What runs at once, by a footprint as exact as needed to see whether it fits; `of` knows it by what is touched.
    fn fitting(
        &mut self,
        prefill: &[Extent],
        available: u64,
        of: impl Fn(Option<&Touched>) -> Result<Footprint, ReplayError>,
    ) -> Result<Groups, F::Failure> {
        let mut footprint = of(None).map_err(|error| self.front.failure(error.into()))?;
        // Packed addresses leave nothing untouched.
        if footprint.total() > available && self.settings.pack.is_none() {
            self.survey(self.settings)?;
            let surveyed = self.used.as_ref().expect("the trace has been surveyed");
            let touched = Touched::new(&surveyed.used.written, prefill, self.front.meta().totals.host_pages);
            footprint = of(Some(&touched)).map_err(|error| self.front.failure(error.into()))?;
        }
        let lanes = footprint.groups(available).map_err(|not_enough| {
            self.front.failure(FitError::Memory { not_enough, smaller: self.smaller() })
        })?;
        Ok(Groups { lanes, density: footprint.density, total: footprint.total() })
    }

    /// One pass, of a plan that fits.
    pub fn pass(&self, plan: &Plan, progress: impl FnMut(Pass, usize)) -> Result<Recorded, F::Failure> {
        self.ended(recorded::replay(plan, || self.batches(), progress))
    }

    /// Runs the plan in its groups.
    pub fn run(&self, plan: &Plan, groups: &Groups) -> Result<Fitted, F::Failure> {
        let (mut results, mut learned) = (Vec::new(), BTreeMap::new());
        let last = groups::run(plan, groups, &mut None, |part| {
            let run = self.pass(part, self.front.progress())?;
            for result in run.replay.results() {
                if !learned.contains_key(&result.scheme)
                    && let Some(table) = run.replay.learned(&result.scheme)
                {
                    learned.insert(result.scheme.clone(), table);
                }
                results.push(result);
            }
            Ok(run)
        })?;
        let Recorded { replay, damage, .. } = last;
        Ok(Fitted { results, replay, learned, damage })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::sync::Arc;

    use pcstream_placement::configure;
    use pcstream_ssd::{DeviceSettings, Spare};
    use pcstream_trace::generators::{Common, generate};

    use super::*;
    use crate::lane::LaneSpec;

    /// Of the device that the trace says it was recorded on, of which it writes the first 4096.
    const PAGES: u64 = 1 << 26;

    struct Words {
        meta: Meta,
        passes: RefCell<Vec<Pass>>,
        stops: Cell<bool>,
    }

    fn trace() -> pcstream_trace::generators::Generated {
        generate("hotcold", Common { pages: 4096, writes: 65_536, seed: 1 }, &Default::default()).unwrap()
    }

    impl FrontEnd for Words {
        type ReadError = std::fmt::Error;
        type Failure = String;

        fn meta(&self) -> &Meta {
            &self.meta
        }

        fn batches(&self) -> impl Iterator<Item = Result<Batch, std::fmt::Error>> + Send {
            trace().map(Ok)
        }

        fn progress(&self) -> impl FnMut(Pass, usize) {
            |pass, _| {
                let mut passes = self.passes.borrow_mut();
                passes.push(pass);
                passes.dedup();
            }
        }

        fn check(&self) -> Result<(), String> {
            if self.stops.get() { Err("stopped".to_owned()) } else { Ok(()) }
        }

        fn failure(&self, error: FitError<std::fmt::Error>) -> String {
            error.to_string()
        }
    }

    #[test]
    fn a_trace_is_surveyed_once_where_that_is_needed() {
        let mut meta = trace().meta().clone();
        (meta.device.pages, meta.totals.host_pages) = (PAGES, 65_536);
        meta.prefilled.clear();
        let front = Words { meta, passes: RefCell::default(), stops: Cell::new(false) };
        let mut fit = Fit::new(front, SpaceSettings::default(), None).unwrap();

        let spare = Spare::SpareFactor(0.1);
        let device = DeviceSettings {
            logical_pages: PAGES,
            superblock_pages: 4096,
            spare,
            ..DeviceSettings::default()
        };
        let lane = LaneSpec::new(Arc::new(configure("baseline").unwrap()), device);
        let plan = Plan { lanes: vec![lane; 3], ..Plan::default() };
        assert_eq!(fit.groups(&plan, 1 << 40).unwrap().lanes.len(), 1);
        assert!(fit.front.passes.borrow().is_empty(), "whole tables fit");
        let refused = fit.groups(&plan, 1).err().unwrap();
        assert!(refused.ends_with("bytes of memory, 1 are allowed"), "{refused}");
        let all = fit.groups(&plan, 1 << 29).unwrap();
        assert_eq!((all.lanes.len(), all.density), (1, Density::Sparse));
        let some = fit.groups(&plan, all.total - 1).unwrap();
        assert_eq!(some.lanes, [0..2, 2..3]);
        let half = SpaceSettings { fill: Some(0.5), ..SpaceSettings::default() };
        fit.change(half).unwrap();
        fit.grow(2 * PAGES).unwrap();
        let space = fit.space().unwrap();
        assert_eq!((space.logical_pages, space.used_pages + space.static_pages), (2 * PAGES, PAGES));
        assert_eq!(*fit.front.passes.borrow(), [Pass::Survey]);

        // Live data is counted where that is asked for; what else is known of the trace stays.
        let packed = |pack| SpaceSettings { pack: Some(pack), ..SpaceSettings::default() };
        for pack in [Pack::Addresses(0.9), Pack::Live(0.5), Pack::Live(0.9), Pack::Addresses(0.5)] {
            fit.change(packed(pack)).unwrap();
            assert_eq!(fit.space().unwrap().peak_live.is_some(), matches!(pack, Pack::Live(_)));
        }
        assert_eq!(fit.front.passes.take(), [Pass::Survey, Pass::LiveData]);
        let kept = fit.space().unwrap().logical_pages;
        assert!(fit.change(SpaceSettings { fill: Some(0.0), ..half }).is_err(), "the trace writes more");
        assert_eq!(
            (fit.space().unwrap().logical_pages, fit.settings()),
            (kept, packed(Pack::Addresses(0.5)))
        );
        let empty = SpaceSettings { fill: Some(0.0), ..half };
        assert!(fit.change_device(empty, Some(4 * PAGES)).is_err());
        assert_eq!(fit.capacity, Some(2 * PAGES), "as before");
        fit.change_device(half, Some(4 * PAGES)).unwrap();
        let space = fit.space().unwrap();
        assert_eq!((space.logical_pages, space.used_pages + space.static_pages), (4 * PAGES, 2 * PAGES));
        fit.change_device(SpaceSettings::default(), None).unwrap();
        let wafs =
            |groups| fit.run(&plan, groups).unwrap().results.iter().map(|r| r.waf()).collect::<Vec<_>>();
        assert_eq!(wafs(&some), wafs(&all));
        fit.front.stops.set(true);
        assert_eq!(fit.run(&plan, &some).err().unwrap(), "stopped");
    }
}
