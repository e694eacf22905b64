//! What a lane came to: its device, its scheme, and what each stream received.

use pcstream_placement::{SchemeFact, Stream};
use pcstream_ssd::endurance::Wear;
use pcstream_ssd::fdp::FdpStatistics;
use pcstream_ssd::steady_state::Steady;
use pcstream_ssd::timing::TimingResults;
use pcstream_ssd::{Counters, DeviceSettings, Geometry};

use crate::checkpoints::Progress;
use crate::lifetimes::Lifetimes;

/// What one external stream received.
#[derive(Clone, Debug)]
pub struct StreamResult {
    /// Which stream.
    pub stream: Stream,
    /// Pages the host wrote to it.
    pub host_pages: u64,
    /// Copies of its pages that garbage collection made.
    pub gc_pages: u64,
    /// Lifetimes that ended of the pages written to it, within 0.1 %. Without those that ended in
    /// its internal stream, if it has one. None if the lane keeps no lifetimes.
    pub lifetimes: Option<Lifetimes>,
    /// Its internal stream; none with other GC destinations.
    pub internal: Option<InternalStreamResult>,
}

/// What the internal stream of an external one received (FAST'19, section 5.3).
#[derive(Clone, Debug)]
pub struct InternalStreamResult {
    /// Pages that garbage collection moved into it: all copies of the external stream's pages.
    pub pages: u64,
    /// Of these, copies out of the internal stream itself: pages that were moved again.
    pub copied_again: u64,
    /// Lifetimes that ended there, from the host's write on, within 0.1 %. None if the lane keeps no lifetimes.
    pub lifetimes: Option<Lifetimes>,
}

/// The result of a lane so far.
#[derive(Clone, Debug)]
pub struct LaneResult {
    /// Name of the scheme.
    pub scheme: String,
    /// Parameters of the scheme with other values than its defaults.
    pub parameters: Vec<(&'static str, String)>,
    /// Whether the scheme was given the future.
    pub knows_future: bool,
    /// Whether it matters to the scheme which pages lie beside each other.
    pub reads_addresses: bool,
    /// Whether the program context alone decides: such streams can be given to real writes.
    pub by_context: bool,
    /// The device as it was asked for.
    pub settings: DeviceSettings,
    /// The victim policy: that of `settings`, or the name of the lane's own.
    pub victims: String,
    /// The device as it is.
    pub geometry: Geometry,
    /// Pages written before counting began.
    pub prefill_pages: u64,
    /// What the device counted.
    pub counters: Counters,
    /// Superblocks erased and not open at the end.
    pub free_superblocks: u32,
    /// The counters over the run: at most 201 points, evenly spaced, the first before all writes.
    pub progress: Vec<Progress>,
    /// Logical pages that hold data at the end.
    pub live_pages: u64,
    /// Where the steady part began: at the steady state that was detected, else after a third of the
    /// host writes (see `Checkpoints`).
    pub steady_start: Progress,
    /// The steady state, if one was detected (see `Rounds`).
    pub steady: Option<Steady>,
    /// Host pages until one is detected, if the WAF stays as in the last round (see `Rounds`); 0 if one was.
    pub pages_to_steady: u64,
    /// Erases of the superblocks, since the device was made.
    pub wear: Wear,
    /// What the device says to NVMe Flexible Data Placement, since it was made, prefill included.
    pub fdp: FdpStatistics,
    /// What a clock showed; none without one.
    pub timing: Option<TimingResults>,
    /// By stream, from S0 on; all streams of the device, used or not.
    pub streams: Vec<StreamResult>,
    /// What the scheme says about itself.
    pub facts: Vec<SchemeFact>,
    /// What whoever configured the scheme should know.
    pub remarks: Vec<String>,
    /// The stream that got most pages of each context, by context id; `None` for a context that
    /// wrote nothing. Ties go to the lower stream.
    pub stream_of_context: Vec<Option<Stream>>,
}

impl LaneResult {
    /// Pages the host wrote.
    pub fn host_pages(&self) -> u64 {
        self.counters.host_pages
    }

    /// Pages programmed: for the host and by garbage collection.
    pub fn flash_pages(&self) -> u64 {
        self.counters.flash_pages()
    }

    /// Write amplification: flash pages / host pages; `None` when the host wrote nothing.
    pub fn waf(&self) -> Option<f64> {
        ratio(self.flash_pages(), self.host_pages())
    }

    /// Write amplification of the steady part.
    pub fn steady_waf(&self) -> Option<f64> {
        // Without a device, nothing is counted.
        let flash_pages = self.flash_pages().checked_sub(self.steady_start.flash_pages)?;
        ratio(flash_pages, self.host_pages().checked_sub(self.steady_start.host_pages)?)
    }

    /// Share of the host pages that went to S0; `None` when the host wrote nothing.
    pub fn default_stream_share(&self) -> Option<f64> {
        ratio(self.streams[0].host_pages, self.host_pages())
    }

    /// A fact of the scheme by name.
    pub fn fact(&self, name: &str) -> Option<u64> {
        self.facts.iter().find(|(n, _)| *n == name).map(|&(_, value)| value)
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
