//! A changed address space, in numbers and in words.

use pcstream_replay::space::Space;
use pcstream_trace::Totals;
use serde::Serialize;

use crate::human::page_bytes;

/// Share of the writes that must be discarded for a word about discards.
const LEAST_DISCARDED: f64 = 0.01;

/// Whether so much of what a trace writes is discarded that it leaves a device emptier than its share of addresses.
pub fn discards_matter(totals: &Totals, no_discard: bool) -> bool {
    let many = totals.discarded_pages as f64 >= LEAST_DISCARDED * totals.host_pages as f64;
    totals.discarded_pages > 0 && many && !no_discard
}

/// What was done to the addresses of a trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChangedSpace {
    /// Different pages that the trace writes, packed beside each other; null where they were not packed.
    pub packed_pages: Option<u64>,
    /// The most of them that hold data at once; null unless that sizes the device.
    pub live_pages: Option<u64>,
    /// Pages of static data, which nobody writes again.
    pub static_pages: u64,
}

impl ChangedSpace {
    /// Of a space.
    pub fn of(space: &Space) -> ChangedSpace {
        let packed_pages = space.is_packed().then_some(space.used_pages);
        ChangedSpace { packed_pages, live_pages: space.peak_live, static_pages: space.static_pages }
    }

    /// In words; none if the addresses stay, without static data.
    pub fn in_words(&self) -> Vec<String> {
        let mut parts = Vec::new();
        if let Some(packed) = self.packed_pages {
            let addresses = format!("{} of addresses packed", page_bytes(packed));
            let live = |live| format!("at most {} of live data, on {addresses}", page_bytes(live));
            parts.push(self.live_pages.map_or(addresses.clone(), live));
        }
        if self.static_pages > 0 {
            parts.push(format!("{} of static data", page_bytes(self.static_pages)));
        }
        parts
    }
}
