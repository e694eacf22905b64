//! What makes it doubtful that numbers of runs differ because of what the runs wrote.

use super::{Run, letter};
use crate::human::bytes;
use crate::json::DeviceJson;

/// Less of a drive does not count as a difference of what was on it before.
const LEAST_PREFILL: f64 = 0.01;

/// What makes it doubtful that numbers differ because of what the runs wrote.
pub(super) fn of(runs: &[Run]) -> Vec<String> {
    let mut remarks: Vec<String> = runs.iter().flat_map(|run| run.missing.clone()).collect();
    if have_other_drives(runs) {
        remarks.push(
            "The drives differ, or what was on them before. That alone makes WAF differ: --capacity with --fill simulates all \
             runs on one."
                .to_owned(),
        );
    }
    for (index, run) in runs.iter().enumerate() {
        let letter = letter(index);
        if run.silent > 0 {
            let which = match run.repetitions {
                1 => String::new(),
                all => format!(" in {} of {all} repetitions", run.silent),
            };
            let instead = if !run.settings.is_packed() {
                ", or --pack 0.9 simulates a drive that they fill"
            } else {
                ""
            };
            remarks.push(format!(
                "Nothing can be said of {letter} yet{which}: no garbage was collected, or the flash was not written once. \
                 Longer recordings help{instead}."
            ));
        } else if run.bytes_to_steady > 0 {
            let more = bytes(run.bytes_to_steady);
            remarks
                .push(format!("{letter} is not steady yet: write at least {more} more for a steady answer."));
        }
    }
    remarks
}

/// Whether the drives differ, or what was on them before. Filled up to a share, they are alike in that.
fn have_other_drives(runs: &[Run]) -> bool {
    let first = &runs[0].devices[0];
    let size = |device: &DeviceJson| (device.logical_pages, device.physical_pages);
    let is_filled = runs[0].settings.fills_the_drive();
    let differs = |device: &DeviceJson| {
        let by = (prefilled(device) - prefilled(first)).abs();
        size(device) != size(first) || (!is_filled && by >= LEAST_PREFILL)
    };
    runs.iter().flat_map(|run| &run.devices).any(differs)
}

/// Share of a drive that held data before counting began.
pub(super) fn prefilled(device: &DeviceJson) -> f64 {
    device.prefill_pages as f64 / device.logical_pages as f64
}
