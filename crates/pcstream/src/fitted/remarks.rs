//! What users should know of a result before they believe it: how little was written, and whose addresses these are.

use std::collections::BTreeSet;

use pcstream_replay::LaneSpec;
use pcstream_replay::space::Pack;
use pcstream_report::human::{page_bytes, percent};
use pcstream_report::space::discards_matter;
use pcstream_ssd::{DeviceSettings, Geometry};
use pcstream_trace::{Extent, TraceReader};

use super::{Fitting, Program};
use crate::unkept::is_unkept;

/// What is to be known of schemes for which neighbours matter, on a device packed by live data.
const SPREAD_ADDRESSES: &str = "neighbouring addresses matter, and are those of the recording; on a device of this size a \
                                file system would use freed ones again";

/// What a remark calls a trace. The path of one that is not kept leads nowhere.
fn name(reader: &TraceReader) -> String {
    let path = reader.path();
    if is_unkept(path) { "the recording".to_owned() } else { path.display().to_string() }
}

impl Fitting<'_> {
    /// Says how much was written to how large a device, where that is too little for a result: where the flash of the
    /// simulated `device`, with `prefill` on it, is not even written once.
    pub fn remark_size(&self, device: &DeviceSettings, prefill: &[Extent]) {
        let Program { reader, ui, .. } = &self.fit.front;
        let trace = name(reader);
        let (written, traced) = (reader.meta().totals.host_pages, reader.meta().device.pages);
        if let (Some(pack), Some(space)) = (self.fit.settings().pack, self.fit.space()) {
            if written < traced {
                let filled = match space.peak_live {
                    Some(live) => format!("{} of live data at most", page_bytes(live)),
                    None => format!("{} of addresses that are written", page_bytes(space.used_pages)),
                };
                ui.remark(&format!(
                    "{trace}: {} written to {}, simulated as if {} full: {filled}, on {}",
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
            if written == 0 {
                return ui
                    .remark(&format!("{trace}: nothing was written, so there is nothing to say of WAF"));
            }
            let more =
                if before > 0 { format!(", and {} before", page_bytes(before)) } else { String::new() };
            ui.remark(&format!(
                "{trace}: {} written to {} of flash{more}: too little to say anything; --pack 0.9 simulates the addresses \
                 that are written as if they filled 90 % of a device{}",
                page_bytes(written),
                page_bytes(flash),
                if is_unkept(reader.path()) { ", and -o keeps a recording for `simulate`" } else { "" },
            ));
        }
    }

    /// Says what the addresses of a packed device make of a result: which schemes see more of them than such a device has,
    /// and that discards leave it emptier than asked for, or that there are none to leave out.
    pub fn remark_addresses<'l>(&self, lanes: impl Iterator<Item = &'l LaneSpec>) {
        let Program { reader, ui, .. } = &self.fit.front;
        if self.fit.settings().no_discard && reader.meta().totals.discarded_pages == 0 {
            let trace = name(reader);
            ui.remark(&format!("{trace}: --no-discard has no effect: the trace has no discards"));
        }
        let discards = discards_matter(&reader.meta().totals, self.fit.settings().no_discard);
        match self.fit.settings().pack {
            Some(Pack::Live(_)) => {
                let reads = |lane: &&LaneSpec| lane.scheme.reads_addresses(lane.device.superblock_pages);
                let schemes: BTreeSet<&str> = lanes.filter(reads).map(|lane| lane.scheme.name()).collect();
                if !schemes.is_empty() {
                    let schemes = schemes.into_iter().collect::<Vec<_>>().join(", ");
                    ui.remark(&format!("{schemes}: {SPREAD_ADDRESSES}"));
                }
            }
            Some(Pack::Addresses(share)) if discards => ui.remark(&format!(
                "discards leave the device emptier than {}, its share of addresses: --pack-live {share} goes by live data",
                percent(share)
            )),
            _ => {}
        }
    }
}
