//! What a simulation takes in memory, and how many of its lanes run at once, in words.

use anyhow::anyhow;
use pcstream_replay::budget::NotEnough;
use pcstream_replay::{Groups, Plan, Smaller};
use pcstream_report::human::bytes;
use pcstream_ssd::Density;
use pcstream_ssd::request::RequestError;
use pcstream_system::memory::allowed;

use super::Fitting;
use crate::failure::Failure;

/// Refuses a simulation before anything is recorded.
#[cfg(feature = "capture")]
pub fn not_enough_to_begin(NotEnough { needed, available }: NotEnough) -> Failure {
    Failure::failed(anyhow!(
        "the simulation needs at least {} of memory, for one lane at a time and before the program writes anything, and {} \
         are allowed (three quarters of what is free, unless --memory says otherwise): free some, allow more with --memory, \
         or take a device that is no larger than what the trace writes (--pack 0.9)",
        enough(needed),
        bytes(available),
    ))
}

/// What takes less of everything than the device of a trace that writes little of it.
const PACKED: &str = ", or --pack 0.9 for a device that is no larger than what the trace writes";

/// Refuses a simulation.
pub fn not_enough(NotEnough { needed, available }: NotEnough, smaller: Option<Smaller>) -> Failure {
    let smaller = match smaller {
        Some(Smaller::Packed) => PACKED,
        Some(Smaller::Capacity) => ", or take a smaller --capacity",
        None => "",
    };
    Failure::failed(anyhow!(
        "the simulation needs at least {} of memory, for one lane at a time, and {} are allowed (three \
         quarters of what is free, unless --memory says otherwise): free some, allow more with --memory{smaller}",
        enough(needed),
        bytes(available),
    ))
}

/// Why a device cannot be, where it could be packed.
pub fn packs(failure: Failure) -> Failure {
    let is_too_large = |error: &anyhow::Error| error.downcast_ref().is_some_and(RequestError::is_too_large);
    match failure {
        Failure::WrongArguments(error) if is_too_large(&error) => {
            Failure::wrong_arguments(anyhow!("{error}{PACKED}"))
        }
        other => other,
    }
}

/// What is enough for so many bytes, as `--memory` takes it: rounded up.
fn enough(needed: u64) -> String {
    const MIB: u64 = 1 << 20;
    format!("{} MiB", needed.div_ceil(MIB))
}

impl Fitting<'_> {
    /// Why the device cannot be; one that is too large for the model may fit once it is packed.
    pub fn refused(&self, failure: Failure) -> Failure {
        if self.fit.packs() { packs(failure) } else { failure }
    }

    /// How the tables of a survey of the plan's first device are best made; refused where it does not fit into memory.
    pub fn room_for_survey(&mut self, plan: &Plan) -> Result<Density, Failure> {
        self.fit.room_for_survey(plan, allowed(self.memory))
    }

    /// The lanes of a plan that run at once, in order: as many as fit into memory.
    pub fn groups(&mut self, plan: &Plan) -> Result<Groups, Failure> {
        let available = allowed(self.memory);
        let groups = self.fit.groups(plan, available)?;
        if groups.lanes.len() > 1 {
            self.fit.front.ui.remark(&format!(
                "{} lanes would take {} of memory at once, {} are allowed (--memory): {} passes",
                plan.lanes.len(),
                bytes(groups.total),
                bytes(available),
                groups.lanes.len(),
            ));
        }
        Ok(groups)
    }
}
