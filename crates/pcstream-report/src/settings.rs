//! What a result was asked for, beyond its device: whoever has it and the trace can make the result again.

use std::collections::BTreeMap;

use serde::Serialize;
use twox_hash::XxHash3_64;

/// Settings of a simulation as they were given; those of the device are with the device.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Settings {
    /// Parameters of schemes: `SCHEME.PARAMETER` and value.
    pub set: BTreeMap<String, String>,
    /// Rules of `manual`; null for its default.
    pub rules: Option<GivenFile>,
    /// Size of PCStream's table; null for the scheme's own.
    pub table_bytes: Option<u64>,
    /// Lifetimes to begin with; null for none.
    pub load_table: Option<GivenFile>,
    /// Share of the address space that is written before counting; null for what the trace says.
    pub prefill: Option<f64>,
    /// Share of the device that packed addresses fill; null where addresses stay.
    pub pack: Option<f64>,
    /// The same of live data.
    pub pack_live: Option<f64>,
    /// Share of the device that holds data, static data included; null for what the trace says.
    pub fill: Option<f64>,
    /// Whether the trace's discards were left out.
    pub no_discard: bool,
}

impl Settings {
    /// Whether the device was sized by what the trace uses.
    pub fn is_packed(&self) -> bool {
        self.pack.is_some() || self.pack_live.is_some()
    }

    /// Whether data fill a share of the device that was asked for.
    pub fn fills_the_drive(&self) -> bool {
        self.is_packed() || self.fill.is_some()
    }
}

/// A file that was given, or something known by name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GivenFile {
    /// As it was given.
    pub name: String,
    /// XXH3 of its contents, 16 hexadecimal digits; null for what is no file.
    pub xxh3: Option<String>,
}

impl GivenFile {
    /// Of this name, with these contents if it is a file.
    pub fn new(name: String, contents: Option<&[u8]>) -> GivenFile {
        GivenFile { name, xxh3: contents.map(|bytes| format!("{:016x}", XxHash3_64::oneshot(bytes))) }
    }
}
