//! What a simulation takes in memory, and how many of its lanes run at once.

use std::ops::Range;

use anyhow::anyhow;
use pcstream_replay::budget::{Footprint, NotEnough, Touched};
use pcstream_replay::{Plan, ReplayError};
use pcstream_report::human::bytes;
use pcstream_ssd::Density;
use pcstream_trace::Extent;

use super::Fitting;
use crate::failure::Failure;
use crate::passes::refused;

/// Refuses a simulation before anything is recorded.
#[cfg(feature = "capture")]
pub fn not_enough_to_begin(NotEnough { needed, available }: NotEnough) -> Failure {
    Failure::failed(anyhow!(
        "the simulation needs at least {} of memory, for one lane at a time and before the program writes anything, and {} \
         are allowed (three quarters of what is free, unless --memory says otherwise): free some, allow more with --memory, \
         or use `pcstream record` and then `pcstream simulate --pack 0.9`",
        enough(needed),
        bytes(available),
    ))
}

/// What is enough for so many bytes, as `--memory` takes it: rounded up.
fn enough(needed: u64) -> String {
    const MIB: u64 = 1 << 20;
    format!("{} MiB", needed.div_ceil(MIB))
}

/// Lanes that run at once.
pub struct Groups {
    /// Lanes of the plan, in order.
    pub lanes: Vec<Range<usize>>,
    /// How their tables are best made.
    pub density: Density,
}

impl Groups {
    /// Some of a plan's lanes.
    pub fn part(&self, plan: &Plan, lanes: Range<usize>) -> Plan {
        Plan { lanes: plan.lanes[lanes].to_vec(), density: self.density, ..plan.clone() }
    }
}

impl Fitting<'_> {
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
            "the simulation needs at least {} of memory, for one lane at a time, and {} are allowed (three \
             quarters of what is free, unless --memory says otherwise): free some, allow more with --memory{smaller}",
            enough(needed),
            bytes(available),
        ))
    }
}
