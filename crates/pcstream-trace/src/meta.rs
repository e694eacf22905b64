//! What a trace says about itself: where and how it was taken, what it lost, what it sums to.
//!
//! `Meta` is the content of `meta.json` (docs/trace-format.md). Readers of format 1.x accept fields
//! they do not know, so a newer minor version may add some; every field named here without a
//! default must be present, so a misspelt one is an error and not a silent default.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

use crate::event::{Event, Kind, Op};
use crate::ids::Lba;
use crate::tables::Batch;

/// Version of the trace format. Equal majors are readable; a newer minor only adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FormatVersion {
    /// Changes when an old reader would misread a new trace.
    pub major: u32,
    /// Changes when fields or columns are added.
    pub minor: u32,
}

impl FormatVersion {
    /// What this crate writes.
    pub const CURRENT: FormatVersion = FormatVersion { major: 1, minor: 1 };
}

impl fmt::Display for FormatVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl From<FormatVersion> for String {
    fn from(version: FormatVersion) -> String {
        version.to_string()
    }
}

impl TryFrom<String> for FormatVersion {
    type Error = String;

    fn try_from(text: String) -> Result<FormatVersion, String> {
        let parts = text.split_once('.').and_then(|(major, minor)| {
            Some(FormatVersion { major: major.parse().ok()?, minor: minor.parse().ok()? })
        });
        parts.ok_or_else(|| format!("format version {text:?}: expected MAJOR.MINOR, such as \"1.0\""))
    }
}

/// Everything a trace knows about its origin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// Version of the format, set by the writer.
    pub format_version: FormatVersion,
    /// Version of the pcstream that wrote the trace.
    pub pcstream_version: String,
    /// Names the trace in results: `Digest` of its events as 16 hexadecimal digits. Empty until the
    /// trace is finished.
    pub trace_id: String,
    /// False while a trace is being recorded, and for ever if the recorder was killed.
    pub complete: bool,
    /// When the trace began, seconds since 1970 UTC; `None` for generated and imported
    /// traces.
    #[serde(default)]
    pub created_unix_s: Option<u64>,
    /// Time 0 of the trace by the clock of the day, nanoseconds since 1970 UTC; `None` for generated and imported traces.
    #[serde(default)]
    pub start_unix_ns: Option<u64>,
    /// The traced device.
    pub device: Device,
    /// The file system on it; `None` for imported and generated traces.
    #[serde(default)]
    pub file_system: Option<FileSystem>,
    /// Release of the kernel.
    #[serde(default)]
    pub kernel: Option<String>,
    /// The traced command, word by word.
    pub command: Vec<String>,
    /// How the traced command ended; `None` when there was none or its end was not seen.
    #[serde(default)]
    pub exit: Option<Exit>,
    /// Settings of the capture, importer or generator, by name.
    pub settings: BTreeMap<String, serde_json::Value>,
    /// What was lost, by cause. A cause that did not occur is listed with 0: absence means that the
    /// recorder did not count it.
    #[serde(deserialize_with = "each_once")]
    pub losses: BTreeMap<String, u64>,
    /// Extents that were allocated on the device before the first event: ascending, disjoint.
    pub prefilled: Vec<Extent>,
    /// Sums over the events, set by the writer.
    pub totals: Totals,
    /// Length and checksums of the other files of the trace, by file name, set by the writer.
    /// Whoever edits a file by hand removes its entry; absent and null mean that there are none.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub checksums: BTreeMap<String, FileSums>,
}

/// A map that may be null.
fn null_is_empty<'de, D: serde::Deserializer<'de>>(from: D) -> Result<BTreeMap<String, FileSums>, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

/// A map without a key that is there twice: the last value would hide the first.
fn each_once<'de, D: serde::Deserializer<'de>>(from: D) -> Result<BTreeMap<String, u64>, D::Error> {
    struct EachOnce;
    impl<'de> serde::de::Visitor<'de> for EachOnce {
        type Value = BTreeMap<String, u64>;

        fn expecting(&self, to: &mut std::fmt::Formatter) -> std::fmt::Result {
            to.write_str("a count for each cause")
        }

        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
            let mut map = BTreeMap::new();
            while let Some((key, value)) = from.next_entry::<String, u64>()? {
                if map.contains_key(&key) {
                    return Err(serde::de::Error::custom(format_args!("{key:?} is there twice")));
                }
                map.insert(key, value);
            }
            Ok(map)
        }
    }
    from.deserialize_map(EachOnce)
}

impl Meta {
    /// Meta of a trace of a device with `pages` pages, not complete yet. `pages` may be 0 while the size is not known
    /// (importers learn it at the end); a finished trace must state it.
    pub fn new(device: &str, pages: u64) -> Meta {
        Meta {
            format_version: FormatVersion::CURRENT,
            pcstream_version: env!("CARGO_PKG_VERSION").to_owned(),
            trace_id: String::new(),
            complete: false,
            created_unix_s: None,
            start_unix_ns: None,
            device: Device { name: device.to_owned(), pages },
            file_system: None,
            kernel: None,
            command: Vec::new(),
            exit: None,
            settings: BTreeMap::new(),
            losses: BTreeMap::new(),
            prefilled: Vec::new(),
            totals: Totals::default(),
            checksums: BTreeMap::new(),
        }
    }

    /// Whether any loss counter is above 0.
    pub fn has_losses(&self) -> bool {
        self.losses.values().any(|&count| count > 0)
    }

    /// The size of the traced device. The error says that the trace does not know it.
    pub fn device_pages(&self) -> Result<u64, &'static str> {
        match self.device.pages {
            0 => Err("the trace does not say how large its device is (device.pages in meta.json is 0): \
                      its recording or import ended before it was known; record again, or import with --size"),
            pages => Ok(pages),
        }
    }

    /// Checks what the types do not: names are words, since they are printed as they are; extents are ascending, disjoint,
    /// not empty and on the device. The error says where, what was found and what was expected.
    pub fn check(&self) -> Result<(), String> {
        let is_word = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_word(&self.trace_id) {
            return Err(format!("trace_id {:?}, expected letters, digits and underscores", self.trace_id));
        }
        if let Some(cause) = self.losses.keys().find(|cause| !is_word(cause)) {
            return Err(format!("losses: {cause:?}, expected letters, digits and underscores"));
        }
        let mut free_from = 0;
        for (i, extent) in self.prefilled.iter().enumerate() {
            let Extent { lba, pages } = *extent;
            if pages == 0 {
                return Err(format!("prefilled extent {i}: 0 pages at lba {lba}, expected at least 1"));
            }
            if lba.0 < free_from {
                return Err(format!(
                    "prefilled extent {i}: lba {lba}, expected {free_from} or more (ascending, disjoint)"
                ));
            }
            let end = lba.0.checked_add(pages).filter(|&end| end <= self.device.pages);
            free_from = end.ok_or_else(|| {
                format!(
                    "prefilled extent {i}: lba {lba} + {pages} pages, expected to end within the device's {} pages",
                    self.device.pages
                )
            })?;
        }
        Ok(())
    }
}

/// The traced device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Name for people: `zram0`, `/dev/nvme0n1p3`, `generated`.
    pub name: String,
    /// Size in pages of 4 KiB; every event lies within.
    pub pages: u64,
}

/// The file system on the traced device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSystem {
    /// `ext4`, `xfs`, ...
    #[serde(rename = "type")]
    pub kind: String,
    /// Size of its blocks in bytes.
    pub block_bytes: u32,
    /// Options it was made and mounted with, for people.
    pub options: String,
}

/// How the traced command ended: one of the two is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// Its exit status.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

impl Exit {
    /// Whether the command ended with status 0.
    pub fn success(self) -> bool {
        self.code == Some(0)
    }
}

/// Consecutive pages of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// First page.
    pub lba: Lba,
    /// Number of pages, at least 1.
    pub pages: u64,
}

/// Sums over the events of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Events of every operation.
    pub events: u64,
    /// Pages written.
    pub host_pages: u64,
    /// Of `host_pages`, those with a known context.
    pub covered_pages: u64,
    /// Of `host_pages`, those of kind `data`.
    pub data_pages: u64,
    /// Of `data_pages`, those with a known context.
    pub covered_data_pages: u64,
    /// Pages discarded.
    pub discarded_pages: u64,
    /// Pages set to zero (`write_zeroes`), which the model treats as discarded.
    pub zeroed_pages: u64,
    /// Pages read.
    pub read_pages: u64,
    /// Barriers.
    pub flushes: u64,
    /// Entries in the contexts table.
    pub contexts: u64,
    /// Entries in the files table.
    pub files: u64,
    /// Time of the last event, nanoseconds since the trace began.
    pub duration_ns: u64,
}

impl Totals {
    /// The members that differ from those of `found`, in words: `totals.events is 5, found 7`.
    pub fn against(&self, found: &Totals) -> String {
        let members = |totals| match serde_json::to_value(totals) {
            Ok(serde_json::Value::Object(members)) => members,
            _ => serde_json::Map::new(),
        };
        let pairs = members(self).into_iter().zip(members(found)).filter(|(one, other)| one != other);
        let words = pairs.map(|((name, said), (_, found))| format!("totals.{name} is {said}, found {found}"));
        words.collect::<Vec<_>>().join("; ")
    }

    /// Adds one event.
    pub fn add(&mut self, event: &Event) {
        let pages = u64::from(event.pages);
        self.events += 1;
        self.duration_ns = event.time_ns;
        match event.op {
            Op::Write => {
                let covered = pages * u64::from(event.context.is_some());
                let data = u64::from(event.kind == Kind::Data);
                self.host_pages += pages;
                self.covered_pages += covered;
                self.data_pages += pages * data;
                self.covered_data_pages += covered * data;
            }
            Op::Discard => self.discarded_pages += pages,
            Op::WriteZeroes => self.zeroed_pages += pages,
            Op::Read => self.read_pages += pages,
            Op::Flush => self.flushes += 1,
            Op::Exit => {}
        }
    }

    /// Adds a batch: its events and its new table entries.
    pub fn add_batch(&mut self, batch: &Batch) {
        batch.events.iter().for_each(|event| self.add(event));
        self.contexts += batch.contexts.len() as u64;
        self.files += batch.files.len() as u64;
    }

    /// Share of the written pages whose context is known, 0 to 1; 1 when nothing was written.
    pub fn context_coverage(&self) -> f64 {
        if self.host_pages == 0 { 1.0 } else { self.covered_pages as f64 / self.host_pages as f64 }
    }
}

/// Length and checksums of a file: one XXH3-64 for every `block_bytes` bytes, the last block may be
/// shorter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSums {
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Length of a block in bytes.
    pub block_bytes: u64,
    /// XXH3-64 (seed 0) of each block, 16 hexadecimal digits.
    pub xxh3: Vec<String>,
}

/// Running digest over events: the trace id. It depends on the events alone, so a trace on disk and
/// the same events seen live have the same id. Events are hashed as 38 bytes each: time_ns, lba,
/// file_page (u64), pages, context, file (u32), all little-endian, then op and kind (u8). An event with a hint or a
/// write stream has two more: life and stream (u8).
#[derive(Clone)]
pub struct Digest(XxHash3_64);

impl Default for Digest {
    fn default() -> Digest {
        Digest(XxHash3_64::with_seed(0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({})", self.id())
    }
}

impl Digest {
    const EVENT_BYTES: usize = 38;
    const HINTED_BYTES: usize = 40;

    /// Adds events, in order. How they are cut into calls does not matter.
    pub fn update(&mut self, events: &[Event]) {
        let mut buffer = [0u8; Self::HINTED_BYTES * 64];
        for chunk in events.chunks(64) {
            let mut used = 0;
            for event in chunk {
                let bytes = &mut buffer[used..used + Self::HINTED_BYTES];
                bytes[0..8].copy_from_slice(&event.time_ns.to_le_bytes());
                bytes[8..16].copy_from_slice(&event.lba.0.to_le_bytes());
                bytes[16..24].copy_from_slice(&event.file_page.to_le_bytes());
                bytes[24..28].copy_from_slice(&event.pages.to_le_bytes());
                bytes[28..32].copy_from_slice(&event.context.0.to_le_bytes());
                bytes[32..36].copy_from_slice(&event.file.0.to_le_bytes());
                bytes[36] = event.op as u8;
                bytes[37] = event.kind as u8;
                bytes[38] = event.hint.life as u8;
                bytes[39] = event.hint.stream;
                used += if event.hint.is_some() { Self::HINTED_BYTES } else { Self::EVENT_BYTES };
            }
            std::hash::Hasher::write(&mut self.0, &buffer[..used]);
        }
    }

    /// The digest so far, as 16 hexadecimal digits.
    pub fn id(&self) -> String {
        format!("{:016x}", std::hash::Hasher::finish(&self.0))
    }
}
