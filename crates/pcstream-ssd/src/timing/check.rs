//! Settings that make no device are refused.

use super::{MAX_OPERATION_NS, TimingError, TimingSettings};
use crate::geometry::Geometry;

impl TimingSettings {
    /// Refuses settings that make no device, whatever its sizes.
    pub fn check(&self) -> Result<(), TimingError> {
        let TimingSettings { channels, dies_per_channel, pages_per_program, .. } = *self;
        for (what, count) in [
            ("channels", channels),
            ("dies_per_channel", dies_per_channel),
            ("pages_per_program", pages_per_program),
        ] {
            if count == 0 {
                return Err(TimingError::Zero { what });
            }
        }
        let times = [
            ("read_ns", self.read_ns),
            ("program_ns", self.program_ns),
            ("erase_ns", self.erase_ns),
            ("transfer_ns", self.transfer_ns),
            ("command_ns", self.command_ns),
        ];
        if let Some((what, found)) = times.into_iter().find(|&(_, ns)| ns > MAX_OPERATION_NS) {
            return Err(TimingError::TooLong { what, found });
        }
        let dies = u64::from(channels) * u64::from(dies_per_channel);
        if dies > 65_536 || dies.saturating_mul(u64::from(pages_per_program)) > 1 << 24 {
            return Err(TimingError::TooManyDies { channels, dies_per_channel, pages_per_program });
        }
        Ok(())
    }
}

/// Refuses settings that make no device of these sizes.
pub(super) fn check(geometry: &Geometry, settings: &TimingSettings) -> Result<(), TimingError> {
    settings.check()?;
    let TimingSettings { pages_per_program, buffer_pages, .. } = *settings;
    let superblock_pages = geometry.superblock_pages();
    if !superblock_pages.is_multiple_of(pages_per_program) {
        return Err(TimingError::PartialUnit { superblock_pages, pages_per_program });
    }
    let frontiers = u32::from(geometry.streams());
    let needed = frontiers * (pages_per_program - 1) + 1;
    if buffer_pages < needed {
        return Err(TimingError::BufferTooSmall {
            found: buffer_pages,
            needed,
            frontiers,
            pages_per_program,
        });
    }
    Ok(())
}
