//! `--write-buffers`: probes where programs mark pages of their own write buffers.

use std::collections::BTreeSet;

use anyhow::anyhow;
use pcstream_capture::buffers::{self, Probe};

use crate::failure::Failure;
use crate::ui::Ui;

/// The probes of each of `what`. Says what the user should know of them.
pub fn probes(what: &[String], ui: Ui) -> Result<Vec<Probe>, Failure> {
    let probes = buffers::probes(what)
        .map_err(|error| Failure::wrong_arguments(anyhow!("--write-buffers {error}")))?;
    let remarks: BTreeSet<_> = probes.iter().filter_map(|probe| probe.remark.as_ref()).collect();
    remarks.into_iter().for_each(|remark| ui.remark(remark));
    Ok(probes)
}
