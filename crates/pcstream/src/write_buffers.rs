//! `--write-buffers`: probes where programs mark pages of their own write buffers.

use std::collections::BTreeSet;

use anyhow::anyhow;
use pcstream_capture::buffers::{self, Probe};
use pcstream_capture::capture::Subject;
use pcstream_capture::running_programs;

use crate::failure::Failure;
use crate::ui::Ui;

/// The probes of each of `what`, in the programs of what is attached to. Says what the user should know of them.
pub fn probes(what: &[String], subject: &Subject, ui: Ui) -> Result<Vec<Probe>, Failure> {
    let running = match subject {
        Subject::Running(attach) if !what.is_empty() => {
            running_programs::programs(attach).map_err(Failure::failed)?
        }
        Subject::Running(_) | Subject::Command(_) => Vec::new(),
    };
    let probes = buffers::probes_of_running(what, &running)
        .map_err(|error| Failure::wrong_arguments(anyhow!("--write-buffers {error}")))?;
    let remarks: BTreeSet<_> = probes.iter().filter_map(|probe| probe.remark.as_ref()).collect();
    remarks.into_iter().for_each(|remark| ui.remark(remark));
    Ok(probes)
}
