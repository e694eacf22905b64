//! What Python asks for, read from the attributes of its data classes.

use pcstream_replay::Clock;
use pcstream_replay::space::{Pack, SpaceSettings};
use pcstream_report::settings::{GivenFile, Settings};
use pcstream_ssd::Profile;
use pyo3::prelude::*;

/// `pcstream.Device`.
#[derive(Debug, FromPyObject)]
pub struct DeviceArg {
    /// A named profile.
    pub profile_name: Option<String>,
    /// Size; that of the profile, or of the trace, if none is given.
    pub logical_pages: Option<u64>,
    /// Whether the profile is scaled to the trace.
    pub to_trace: bool,
    /// (T-U)/T.
    pub spare_factor: Option<f64>,
    /// (T-U)/U.
    pub overprovisioning: Option<f64>,
    /// Unit of erasing.
    pub superblock_pages: Option<u32>,
    /// S0 included.
    pub streams: Option<u8>,
    /// Names of GC destinations.
    pub gc: Option<Vec<String>>,
    /// Name of the victim policy.
    pub victim: Option<String>,
    /// Relative sizes.
    pub pools: Option<Vec<f64>>,
    /// Low and high watermark.
    pub background_gc: Option<(u32, u32)>,
    /// Replaced values of `TimingSettings`, by name.
    pub timing: Option<Vec<(String, u64)>>,
    /// Of everything random.
    pub seed: Option<u64>,
}

/// `pcstream._options.Options`.
#[derive(Debug, FromPyObject)]
pub struct OptionsArg {
    /// Share of the address space that is written before counting; what the trace says if none is given.
    pub prefill: Option<f64>,
    /// Whether time is simulated.
    pub timing: bool,
    /// Outstanding requests, if not the default.
    pub queue_depth: Option<u32>,
    /// Whether requests arrive at the times of the trace.
    pub open_loop: bool,
    /// Share of the device that packed addresses fill.
    pub pack: Option<f64>,
    /// Share of the device that live data fill at most, on packed addresses.
    pub pack_live: Option<f64>,
    /// Share of the device that holds data, static data included.
    pub fill: Option<f64>,
    /// Whether discards count.
    pub discard: bool,
    /// Bytes that may be taken.
    pub memory: Option<u64>,
    /// Text of rules for `manual`.
    pub rules_text: Option<String>,
    /// What the rules are called, or the name of a preset.
    pub rules_name: Option<String>,
    /// Scheme, parameter, value.
    pub set: Vec<(String, String, String)>,
}

impl OptionsArg {
    /// What results tell of it.
    pub fn settings(&self) -> Settings {
        let set = self.set.iter();
        let rules =
            |name: &String| GivenFile::new(name.clone(), self.rules_text.as_deref().map(str::as_bytes));
        Settings {
            set: set.map(|(scheme, name, value)| (format!("{scheme}.{name}"), value.clone())).collect(),
            rules: self.rules_name.as_ref().map(rules),
            table_bytes: None,
            load_table: None,
            prefill: self.prefill,
            pack: self.pack,
            pack_live: self.pack_live,
            fill: self.fill,
            no_discard: !self.discard,
        }
    }

    /// The changes to the address space.
    pub fn space(&self) -> SpaceSettings {
        let pack = self.pack.map(Pack::Addresses).or(self.pack_live.map(Pack::Live));
        SpaceSettings { pack, fill: self.fill, no_discard: !self.discard }
    }

    /// The clock, if there is one.
    pub fn clock(&self, profile: &Profile) -> Option<Clock> {
        self.timing.then(|| Clock::new(&profile.timing, self.queue_depth, self.open_loop))
    }
}
