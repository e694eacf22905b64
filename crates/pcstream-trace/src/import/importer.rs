//! From records to events: what all formats have in common.
//!
//! - A request covers every page that it touches: a write of a part of a page counts as the whole.
//! - Time counts from the first request and never decreases: where a trace goes back in time, the
//!   time of the request before it is taken, and that is counted.
//! - A request of more than 2^32 - 1 pages becomes several events.
//! - One trace is of one volume.
//! - Only writes have a context: it says who wrote.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use super::columns::{BadLine, quote};
use super::{Format, Parser, Record};
use crate::event::{Event, Kind, Op};
use crate::ids::{ContextId, FileId, Lba, PAGE_BYTES};
use crate::meta::{Extent, Meta};
use crate::tables::{Batch, Context};

/// Longest line. No format comes near; what does is not text.
pub const MAX_LINE_BYTES: usize = 64 * 1024;

/// Largest device: 64 PiB. No disk comes near, and a line of nonsense cannot become more than a few
/// thousand events.
pub const MAX_PAGES: u64 = 1 << 44;

/// Without a given size, the device ends at a multiple of 1 MiB.
const SIZE_STEP_PAGES: u64 = (1 << 20) / PAGE_BYTES;

/// Volumes that are counted by name.
const MAX_VOLUMES: usize = 4096;

/// Volumes that a message names.
const NAMED_VOLUMES: usize = 10;

/// What to import, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The format of the lines.
    pub format: &'static Format,
    /// Choices for the format's own options by name; those not given take their defaults.
    pub options: BTreeMap<String, String>,
    /// The only volume to import; without it, there must be only one.
    pub volume: Option<String>,
    /// Size of the device in pages; without it, the device ends behind the last request, at a
    /// multiple of 1 MiB.
    pub pages: Option<u64>,
    /// Whether the whole device counts as filled before the first request.
    pub assume_filled: bool,
}

impl Settings {
    /// The defaults of a format.
    pub fn new(format: &'static Format) -> Settings {
        Settings { format, options: BTreeMap::new(), volume: None, pages: None, assume_filled: false }
    }
}

/// Settings that no importer can be made of.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The option belongs to another format.
    #[error("--{option} does not apply to format {format}{}", whose(option))]
    Option {
        /// The format.
        format: &'static str,
        /// The option.
        option: String,
    },
    /// The option has no such choice.
    #[error("--{option} {found:?}: expected {}", choices.join(" or "))]
    Choice {
        /// The option.
        option: &'static str,
        /// What was chosen.
        found: String,
        /// What can be chosen.
        choices: &'static [&'static str],
    },
    /// All lines of the format are of one volume.
    #[error("--volume {volume:?}: format {format} has no column for volumes; leave the flag out")]
    NoVolumes {
        /// The format.
        format: &'static str,
        /// The volume.
        volume: String,
    },
    /// The size is out of range.
    #[error("the size of the device is {pages} pages of 4 KiB, expected 1 to {MAX_PAGES} (64 PiB)")]
    Size {
        /// The size in pages.
        pages: u64,
    },
}

/// `; it is an option of X`, if it is one of any format.
fn whose(option: &str) -> String {
    let formats = super::FORMATS.iter().filter(|f| f.options.iter().any(|o| o.name == option));
    let names: Vec<&str> = formats.map(|f| f.name).collect();
    if names.is_empty() { String::new() } else { format!("; it is an option of {}", names.join(" and ")) }
}

/// Why a line was not imported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// The line is not what it should be. The importer remains usable: the line may be skipped.
    #[error(transparent)]
    Bad(#[from] BadLine),
    /// The line is of a second volume, and none was chosen. The importer has to be given up, but
    /// `survey` still tells the volumes of further lines.
    #[error("more than one {what}: {volumes}; a trace is of one device: choose one with --volume")]
    Volumes {
        /// What tells volumes apart.
        what: &'static str,
        /// The volumes so far.
        volumes: Volumes,
    },
}

/// What became of the lines so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lines, of every kind.
    pub lines: u64,
    /// Lines that carry no request.
    pub other_lines: u64,
    /// Lines that were refused.
    pub bad_lines: u64,
    /// Requests of volumes that were not chosen.
    pub other_volumes: u64,
    /// Requests of no bytes, which were dropped.
    pub zero_length: u64,
    /// Requests earlier than the one before, which took its time.
    pub clamped_times: u64,
    /// Writes imported.
    pub writes: u64,
    /// Reads imported.
    pub reads: u64,
    /// Discards imported.
    pub discards: u64,
    /// Barriers imported.
    pub flushes: u64,
}

impl Counts {
    /// Requests imported.
    pub fn requests(&self) -> u64 {
        self.writes + self.reads + self.discards + self.flushes
    }
}

/// Requests by volume: of the first 4096 volumes, and of all others together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Volumes {
    requests: BTreeMap<String, u64>,
    further: u64,
}

impl Volumes {
    fn add(&mut self, volume: &str) {
        if let Some(requests) = self.requests.get_mut(volume) {
            *requests += 1;
        } else if self.requests.len() < MAX_VOLUMES {
            self.requests.insert(volume.to_owned(), 1);
        } else {
            self.further += 1;
        }
    }

    /// Volume and requests, the busiest first.
    pub fn by_requests(&self) -> Vec<(&str, u64)> {
        let mut volumes: Vec<(&str, u64)> = self.requests.iter().map(|(v, &n)| (v.as_str(), n)).collect();
        volumes.sort_by_key(|&(_, requests)| std::cmp::Reverse(requests));
        volumes
    }
}

impl fmt::Display for Volumes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let volumes = self.by_requests();
        for (i, (volume, requests)) in volumes.iter().take(NAMED_VOLUMES).enumerate() {
            let separator = if i == 0 { "" } else { ", " };
            write!(f, "{separator}{} ({requests} request{})", quote(volume.as_bytes()), plural(*requests))?;
        }
        let more = volumes.len().saturating_sub(NAMED_VOLUMES);
        match (more, self.further) {
            (0, _) => Ok(()),
            (more, 0) => write!(f, " and {more} more"),
            (more, _) => write!(f, " and more than {more} more"),
        }
    }
}

fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// Turns lines into batches.
pub struct Importer {
    parser: Box<dyn Parser>,
    choices: Vec<&'static str>,
    sink: Sink,
}

impl Importer {
    /// An importer that has seen no line yet.
    pub fn new(settings: Settings) -> Result<Importer, SettingsError> {
        let format = settings.format;
        let choices = choices(format, &settings.options)?;
        if let (None, Some(volume)) = (format.volume, &settings.volume) {
            return Err(SettingsError::NoVolumes { format: format.name, volume: volume.clone() });
        }
        if let Some(pages) = settings.pages.filter(|&pages| pages == 0 || pages > MAX_PAGES) {
            return Err(SettingsError::Size { pages });
        }
        Ok(Importer { parser: (format.make)(&choices), choices, sink: Sink::new(settings) })
    }

    /// Takes the next line, without its line break. On `LineError::Bad` nothing of the line is
    /// imported, it is counted, and the next one may follow.
    pub fn line(&mut self, line: &[u8]) -> Result<(), LineError> {
        let Importer { parser, sink, .. } = self;
        sink.counts.lines += 1;
        let imported = text(line).map_err(LineError::Bad).and_then(|text| match request(parser, text)? {
            Some(record) => sink.add(&record),
            None => {
                sink.counts.other_lines += 1;
                Ok(())
            }
        });
        sink.counts.bad_lines += u64::from(matches!(imported, Err(LineError::Bad(_))));
        imported
    }

    /// Counts the volume of a line and imports nothing.
    pub fn survey(&mut self, line: &[u8]) {
        if let Ok(Some(record)) = text(line).and_then(|text| request(&mut self.parser, text)) {
            self.sink.volumes.add(record.volume);
        }
    }

    /// Events that wait for `take_batch`.
    pub fn waiting(&self) -> usize {
        self.sink.batch.events.len()
    }

    /// The events since the last call, and the contexts that are new in them.
    pub fn take_batch(&mut self) -> Batch {
        std::mem::take(&mut self.sink.batch)
    }

    /// What became of the lines so far.
    pub fn counts(&self) -> Counts {
        self.sink.counts
    }

    /// The volumes so far, chosen or not.
    pub fn volumes(&self) -> &Volumes {
        &self.sink.volumes
    }

    /// The meta of a trace that begins: its size may not be known yet (0 pages).
    pub fn meta(&self) -> Meta {
        let format = self.sink.settings.format.name;
        Meta::new(&format!("imported {format}"), self.sink.settings.pages.unwrap_or(0))
    }

    /// Completes the meta of a trace once the last line was taken.
    pub fn complete(&self, meta: &mut Meta) {
        let Sink { settings, counts, .. } = &self.sink;
        let pages = self.sink.device_pages();
        meta.device.pages = pages;
        if settings.assume_filled {
            meta.prefilled = vec![Extent { lba: Lba(0), pages }];
        }
        meta.losses.insert("events".to_owned(), 0);
        meta.losses.insert("bad_lines".to_owned(), counts.bad_lines);
        let mut set = |name: &str, value: serde_json::Value| meta.settings.insert(name.to_owned(), value);
        set("format", settings.format.name.into());
        set("assume_filled", settings.assume_filled.into());
        for (option, choice) in settings.format.options.iter().zip(&self.choices) {
            set(&option.name.replace('-', "_"), (*choice).into());
        }
        for (name, count) in [
            ("lines", counts.lines),
            ("other_lines", counts.other_lines),
            ("other_volumes", counts.other_volumes),
            ("zero_length", counts.zero_length),
            ("clamped_times", counts.clamped_times),
        ] {
            set(name, count.into());
        }
        if let Some(volume) = self.sink.volume.as_deref().filter(|volume| !volume.is_empty()) {
            set("volume", volume.into());
            meta.device.name = format!("imported {} {volume}", settings.format.name);
        }
    }
}

/// One choice for every option of the format.
fn choices(
    format: &'static Format,
    given: &BTreeMap<String, String>,
) -> Result<Vec<&'static str>, SettingsError> {
    if let Some(option) = given.keys().find(|&name| format.options.iter().all(|o| o.name != name)) {
        return Err(SettingsError::Option { format: format.name, option: option.clone() });
    }
    let choice = |option: &super::FormatOption| match given.get(option.name) {
        None => Ok(option.choices[0]),
        Some(found) => option.choices.iter().find(|c| *c == found).copied().ok_or(SettingsError::Choice {
            option: option.name,
            found: found.clone(),
            choices: option.choices,
        }),
    };
    format.options.iter().map(choice).collect()
}

/// A line as text, without white space around it.
fn text(line: &[u8]) -> Result<&str, BadLine> {
    let bad = |found: String, expected: &str| BadLine { place: "line", found, expected: expected.to_owned() };
    if line.len() > MAX_LINE_BYTES {
        return Err(bad(format!("more than {MAX_LINE_BYTES} bytes without a line break"), "lines of text"));
    }
    let text = std::str::from_utf8(line).map_err(|e| {
        let at = e.valid_up_to();
        bad(format!("byte 0x{:02x} at column {}, which is not UTF-8", line[at], at + 1), "text")
    })?;
    Ok(text.trim())
}

/// The request of a line; empty lines have none in any format.
fn request<'a>(parser: &'a mut Box<dyn Parser>, text: &'a str) -> Result<Option<Record<'a>>, BadLine> {
    if text.is_empty() { Ok(None) } else { parser.parse(text) }
}

/// Where records become events.
struct Sink {
    settings: Settings,
    /// The volume that is imported: chosen, or that of the first request.
    volume: Option<String>,
    volumes: Volumes,
    contexts: HashMap<String, ContextId>,
    clock: Clock,
    /// End of the highest extent, in pages.
    highest_end: u64,
    counts: Counts,
    batch: Batch,
}

impl Sink {
    fn new(settings: Settings) -> Sink {
        Sink {
            volume: settings.volume.clone(),
            settings,
            volumes: Volumes::default(),
            contexts: HashMap::new(),
            clock: Clock::default(),
            highest_end: 0,
            counts: Counts::default(),
            batch: Batch::default(),
        }
    }

    /// Size of the device in pages, by all that is known.
    fn device_pages(&self) -> u64 {
        let needed = self.highest_end.max(1).next_multiple_of(SIZE_STEP_PAGES);
        self.settings.pages.unwrap_or(needed)
    }

    fn add(&mut self, record: &Record) -> Result<(), LineError> {
        self.volumes.add(record.volume);
        if !self.is_wanted(record.volume)? {
            self.counts.other_volumes += 1;
            return Ok(());
        }
        if record.bytes == 0 && record.op != Op::Flush {
            self.counts.zero_length += 1;
            return Ok(());
        }
        let (lba, pages) = self.extent(record)?;
        let context = self.context(record)?;
        let (time_ns, clamped) = self.clock.at(record.time_ns);
        self.counts.clamped_times += u64::from(clamped);
        *self.count_of(record.op) += 1;
        self.highest_end = self.highest_end.max(lba + pages);
        self.push(time_ns, record.op, context, lba, pages);
        Ok(())
    }

    /// Whether a volume is the chosen one; without a choice, the first is.
    fn is_wanted(&mut self, volume: &str) -> Result<bool, LineError> {
        match &self.volume {
            Some(wanted) if wanted == volume => Ok(true),
            Some(_) if self.settings.volume.is_some() => Ok(false),
            Some(_) => {
                let what = self.settings.format.volume.unwrap_or("volume");
                Err(LineError::Volumes { what, volumes: self.volumes.clone() })
            }
            None => {
                self.volume = Some(volume.to_owned());
                Ok(true)
            }
        }
    }

    /// First page and number of pages that a request touches; none for a barrier.
    fn extent(&self, record: &Record) -> Result<(u64, u64), BadLine> {
        if record.op == Op::Flush {
            return Ok((0, 0));
        }
        let limit = self.settings.pages.unwrap_or(MAX_PAGES);
        let end = record.offset.checked_add(record.bytes).map(|end| end.div_ceil(PAGE_BYTES));
        match end.filter(|&end| end <= limit) {
            Some(end) => {
                let lba = record.offset / PAGE_BYTES;
                Ok((lba, end - lba))
            }
            None => Err(self.beyond(record, limit)),
        }
    }

    #[cold]
    fn beyond(&self, record: &Record, limit: u64) -> BadLine {
        let remedy = match self.settings.pages {
            Some(_) => "give a larger --size or none",
            None => "is this the right format?",
        };
        BadLine {
            place: "address",
            found: format!("byte {} + {} bytes", record.offset, record.bytes),
            expected: format!("an end within the device's {} bytes; {remedy}", limit * PAGE_BYTES),
        }
    }

    /// The context of a write that has a tag, by first occurrence.
    fn context(&mut self, record: &Record) -> Result<ContextId, BadLine> {
        let Some(tag) = record.tag.filter(|_| record.op == Op::Write) else {
            return Ok(ContextId::NONE);
        };
        if let Some(&id) = self.contexts.get(tag) {
            return Ok(id);
        }
        let id = u32::try_from(self.contexts.len() + 1)
            .map_err(|_| BadLine::column("line", tag, format!("at most {} different tags", u32::MAX)))?;
        let id = ContextId(id);
        self.contexts.insert(tag.to_owned(), id);
        self.batch.contexts.push(Context::label(id, tag));
        Ok(id)
    }

    fn count_of(&mut self, op: Op) -> &mut u64 {
        match op {
            Op::Write => &mut self.counts.writes,
            Op::Read => &mut self.counts.reads,
            Op::Discard | Op::WriteZeroes => &mut self.counts.discards,
            Op::Flush => &mut self.counts.flushes,
            Op::Exit => unreachable!("no format has it"),
        }
    }

    /// Appends a request as one event, or as several if it is too long for one.
    fn push(&mut self, time_ns: u64, op: Op, context: ContextId, mut lba: u64, mut pages: u64) {
        loop {
            let now = u32::try_from(pages).unwrap_or(u32::MAX);
            self.batch.events.push(Event {
                time_ns,
                lba: Lba(lba),
                pages: now,
                context,
                file: FileId::NONE,
                file_page: 0,
                op,
                kind: Kind::Data,
            });
            lba += u64::from(now);
            pages -= u64::from(now);
            if pages == 0 {
                return;
            }
        }
    }
}

/// Time since the first request.
#[derive(Default)]
struct Clock {
    first_ns: Option<u64>,
    last_ns: u64,
}

impl Clock {
    /// Time of a request, and whether it had to be moved to that of the one before.
    fn at(&mut self, time_ns: u64) -> (u64, bool) {
        let first = *self.first_ns.get_or_insert(time_ns);
        let clamped = time_ns < first.saturating_add(self.last_ns);
        if !clamped {
            self.last_ns = time_ns - first;
        }
        (self.last_ns, clamped)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{find, testing};
    use super::*;

    fn settings(format: &str) -> Settings {
        Settings::new(find(format).unwrap())
    }

    fn alibaba(lines: &str) -> Importer {
        let mut importer = testing::importer("alibaba");
        lines.lines().for_each(|line| importer.line(line.as_bytes()).unwrap());
        importer
    }

    fn completed(importer: &Importer) -> Meta {
        let mut meta = importer.meta();
        importer.complete(&mut meta);
        meta
    }

    #[test]
    fn requests_cover_every_page_that_they_touch() {
        let text = "1,W,0,1,0\n1,W,4095,2,0\n1,W,4096,4096,0\n1,W,8191,4098,0\n1,W,512,512,0";
        let (events, _) = testing::import(testing::importer("alibaba"), text);
        let extents: Vec<_> = events.iter().map(|e| (e.2, e.3)).collect();
        assert_eq!(extents, [(0, 1), (0, 2), (1, 1), (1, 3), (0, 1)]);
    }

    #[test]
    fn time_counts_from_the_first_request_and_never_goes_back() {
        let mut importer =
            alibaba("1,W,0,4096,100\n1,W,0,4096,90\n1,R,0,4096,130\n1,W,0,4096,129\n1,W,0,4096,131");
        let times: Vec<_> = importer.take_batch().events.iter().map(|e| e.time_ns).collect();
        assert_eq!(times, [0, 0, 30_000, 30_000, 31_000]);
        assert_eq!(importer.counts().clamped_times, 2);
    }

    #[test]
    fn long_requests_become_several_events() {
        let bytes = ((1u64 << 32) + 5) * PAGE_BYTES;
        let (events, _) = testing::import(testing::importer("alibaba"), &format!("1,W,4096,{bytes},7"));
        assert_eq!(events, [(0, Op::Write, 1, u32::MAX, 0), (0, Op::Write, 1 + u64::from(u32::MAX), 6, 0)]);
    }

    #[test]
    fn the_size_is_that_of_the_last_page_or_given() {
        assert_eq!(completed(&alibaba("1,W,0,1,0")).device.pages, 256);
        assert_eq!(completed(&alibaba("1,W,1048575,1,0")).device.pages, 256);
        assert_eq!(completed(&alibaba("1,W,1048575,2,0")).device.pages, 512);
        let mut importer =
            Importer::new(Settings { pages: Some(10), assume_filled: true, ..settings("alibaba") }).unwrap();
        importer.line(b"1,W,36864,4096,0").unwrap();
        let error = importer.line(b"1,W,36864,4097,0").unwrap_err().to_string();
        assert!(
            error.contains("byte 36864 + 4097 bytes") && error.contains("40960 bytes; give a larger --size"),
            "{error}"
        );
        let meta = completed(&importer);
        assert_eq!((meta.device.pages, meta.prefilled), (10, vec![Extent { lba: Lba(0), pages: 10 }]));
        assert_eq!(meta.losses["bad_lines"], 1);
        for bad in
            ["1,W,18446744073709551615,1,0", "1,W,72057594037927936,1,0", "1,R,0,18446744073709551615,0"]
        {
            testing::refuses("alibaba", bad, &["address", "right format"]);
        }
    }

    #[test]
    fn nothing_of_a_bad_line_is_imported() {
        let mut importer = alibaba("1,W,0,4096,100");
        for line in [&b"1,W,0,4096"[..], b"1,X,0,4096,0", b"\xff", &[b'1'; MAX_LINE_BYTES + 1]] {
            assert!(matches!(importer.line(line), Err(LineError::Bad(_))));
        }
        importer.line(b" \t").unwrap();
        importer.line(b"1,R,0,0,50").unwrap();
        let counts = importer.counts();
        let expected =
            Counts { lines: 7, other_lines: 1, bad_lines: 4, zero_length: 1, writes: 1, ..Counts::default() };
        assert_eq!((counts, importer.take_batch().events.len()), (expected, 1));
    }

    #[test]
    fn one_trace_is_of_one_volume() {
        let lines = ["7,W,0,4096,1", "8,W,4096,4096,2", "8,R,4096,4096,3"];
        let mut importer = testing::importer("alibaba");
        importer.line(lines[0].as_bytes()).unwrap();
        let error = importer.line(lines[1].as_bytes()).unwrap_err();
        assert!(error.to_string().contains("\"7\" (1 request), \"8\" (1 request); a trace"), "{error}");
        importer.survey(lines[2].as_bytes());
        importer.survey(b"nonsense");
        assert_eq!(importer.volumes().by_requests(), [("8", 2), ("7", 1)]);

        let chosen = Settings { volume: Some("8".to_owned()), ..settings("alibaba") };
        let mut importer = Importer::new(chosen).unwrap();
        lines.iter().for_each(|line| importer.line(line.as_bytes()).unwrap());
        assert_eq!(importer.counts().other_volumes, 1);
        let times: Vec<_> = importer.take_batch().events.iter().map(|e| e.time_ns).collect();
        assert_eq!(times, [0, 1000], "time counts from the first request of the volume");
        let meta = completed(&importer);
        assert_eq!(
            (meta.settings["volume"].as_str(), meta.device.name.as_str()),
            (Some("8"), "imported alibaba 8")
        );
    }

    #[test]
    fn volumes_are_counted_within_bounds() {
        let mut volumes = Volumes::default();
        (0..2 * MAX_VOLUMES).for_each(|i| volumes.add(&i.to_string()));
        assert_eq!((volumes.requests.len(), volumes.further), (MAX_VOLUMES, MAX_VOLUMES as u64));
        assert!(volumes.to_string().ends_with("and more than 4086 more"), "{volumes}");
    }

    #[test]
    fn settings_are_checked() {
        let error = |settings| Importer::new(settings).map(drop).unwrap_err().to_string();
        let option = |name: &str, choice: &str| BTreeMap::from([(name.to_owned(), choice.to_owned())]);
        let foreign = Settings { options: option("wait-unit", "ms"), ..settings("msr") };
        assert_eq!(error(foreign), "--wait-unit does not apply to format msr; it is an option of fio");
        let unknown = Settings { options: option("wait-unit", "s"), ..settings("fio") };
        assert_eq!(error(unknown), "--wait-unit \"s\": expected us or ms");
        let volume = Settings { volume: Some("0".to_owned()), ..settings("midas") };
        assert!(error(volume).contains("midas has no column"));
        assert!(error(Settings { pages: Some(0), ..settings("msr") }).contains("expected 1 to"));
        assert!(error(Settings { pages: Some(MAX_PAGES + 1), ..settings("msr") }).contains("64 PiB"));
    }
}
