//! What limits the number of streams (FAST'19, section 2.2): each open external stream has write buffers that
//! capacitors must save at a power loss, and structures in fast memory that every read looks up. Internal
//! streams need neither, since the victim keeps its pages until they are safe, and GC may wait for slower
//! memory (section 4.2); so the limits count external streams alone.
//!
//! Budgets are parameters, unlimited unless given: public documents do not say what devices have.

use crate::ids::PAGE_BYTES;
use crate::timing::TimingSettings;

/// Budgets of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields, default)
)]
pub struct Resources {
    /// Bytes of write buffer that capacitors save at a power loss; none: as many as needed.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub power_loss_bytes: Option<u64>,
    /// Bytes of write buffer of an open stream; none: one program of every die, so that a stream alone
    /// can use them all.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub buffer_bytes_per_stream: Option<u64>,
    /// Bytes of fast memory for the structures of open streams; none: as many as needed.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub fast_memory_bytes: Option<u64>,
    /// Bytes of fast memory of an open stream; none: 8 for each page of its write buffer (an address and a
    /// place).
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub fast_memory_bytes_per_stream: Option<u64>,
}

/// Fast memory for a buffered page, unless given.
const FAST_MEMORY_BYTES_PER_PAGE: u64 = 8;

/// More streams than a budget pays for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{streams} streams need {needed} bytes of {budget}, and the device has {available}: it can afford {affordable} \
     streams, S0 included. Use fewer streams, or give it more {budget}"
)]
pub struct OverBudget {
    /// Streams asked for, S0 included.
    pub streams: u8,
    /// What they need.
    pub needed: u64,
    /// Of what.
    pub budget: &'static str,
    /// What there is.
    pub available: u64,
    /// As many can be had.
    pub affordable: u64,
}

/// A budget, and what an open stream takes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Its name.
    pub name: &'static str,
    /// Bytes; none: unlimited.
    pub bytes: Option<u64>,
    /// Bytes for each external stream.
    pub bytes_per_stream: u64,
}

impl Budget {
    /// External streams, S0 included, that it pays for; none: any number.
    pub fn affordable_streams(&self) -> Option<u64> {
        self.bytes?.checked_div(self.bytes_per_stream)
    }
}

impl Resources {
    /// The budgets of a device with this parallelism.
    pub fn budgets(&self, timing: &TimingSettings) -> [Budget; 2] {
        let dies = u64::from(timing.channels) * u64::from(timing.dies_per_channel);
        let stripe = dies.saturating_mul(u64::from(timing.pages_per_program)).saturating_mul(PAGE_BYTES);
        let buffer = self.buffer_bytes_per_stream.unwrap_or(stripe);
        let tables = buffer.div_ceil(PAGE_BYTES).saturating_mul(FAST_MEMORY_BYTES_PER_PAGE);
        [
            Budget {
                name: "write buffer safe at a power loss",
                bytes: self.power_loss_bytes,
                bytes_per_stream: buffer,
            },
            Budget {
                name: "fast memory",
                bytes: self.fast_memory_bytes,
                bytes_per_stream: self.fast_memory_bytes_per_stream.unwrap_or(tables),
            },
        ]
    }

    /// External streams, S0 included, that the device can afford; none: any number.
    pub fn affordable_streams(&self, timing: &TimingSettings) -> Option<u64> {
        self.budgets(timing).iter().filter_map(Budget::affordable_streams).min()
    }

    /// Refuses more streams than every budget pays for.
    pub fn check(&self, timing: &TimingSettings, streams: u8) -> Result<(), OverBudget> {
        for budget in self.budgets(timing) {
            let Some((available, affordable)) = budget.bytes.zip(budget.affordable_streams()) else {
                continue;
            };
            if u64::from(streams) > affordable {
                let needed = u64::from(streams).saturating_mul(budget.bytes_per_stream);
                return Err(OverBudget { streams, needed, budget: budget.name, available, affordable });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scarcest_budget_limits_the_streams() {
        let timing = TimingSettings { pages_per_program: 8, ..TimingSettings::default() };
        let stripe = 32 * 8 * 4096;
        let mut resources = Resources::default();
        assert_eq!(resources.affordable_streams(&timing), None);
        assert_eq!(resources.check(&timing, 255), Ok(()));
        resources.power_loss_bytes = Some(9 * stripe + 1);
        assert_eq!(resources.affordable_streams(&timing), Some(9));
        resources.fast_memory_bytes = Some(5 * 32 * 8 * 8);
        assert_eq!(resources.affordable_streams(&timing), Some(5));
        assert_eq!(resources.check(&timing, 5), Ok(()));
        let refused = resources.check(&timing, 6).unwrap_err();
        assert_eq!((refused.budget, refused.affordable, refused.needed), ("fast memory", 5, 6 * 2048));
        resources.buffer_bytes_per_stream = Some(stripe / 2);
        assert_eq!(resources.affordable_streams(&timing), Some(10), "smaller buffers need smaller tables");
        resources.fast_memory_bytes_per_stream = Some(0);
        assert_eq!(resources.affordable_streams(&timing), Some(18));
    }
}
