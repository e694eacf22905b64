//! From lines to batches: what all formats have in common.

use super::cells::BadLine;
use super::outcome::{Counts, LineError, Volumes};
use super::settings::{MAX_PAGES, Settings, SettingsError, choices};
use super::sink::Sink;
use super::{Parser, Record};
use crate::ids::Lba;
use crate::meta::{Extent, Meta};
use crate::tables::Batch;

/// Longest line. No format comes near; what does is not text.
pub const MAX_LINE_BYTES: usize = 64 * 1024;

/// What programs on Windows write before the first line.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Turns lines into batches.
pub struct Importer {
    parser: Box<dyn Parser>,
    choices: Vec<String>,
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
        let imported = match parsed(parser, line, sink.counts.lines == 1) {
            Ok(Some(record)) => sink.add(&record),
            Ok(None) => {
                sink.counts.other_lines += 1;
                sink.counts.headings += u64::from(!has_digit(line));
                Ok(())
            }
            Err(bad) => Err(bad.into()),
        };
        sink.counts.bad_lines += u64::from(matches!(imported, Err(LineError::Bad(_))));
        imported
    }

    /// Counts the volume of a line and imports nothing. The first line of an input may be a heading.
    pub fn survey(&mut self, line: &[u8], is_first: bool) -> Result<(), BadLine> {
        if let Some(record) = parsed(&mut self.parser, line, is_first)? {
            self.sink.volumes.add(record.volume);
        }
        Ok(())
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
            set(&option.name.replace('-', "_"), choice.clone().into());
        }
        for (name, count) in [
            ("lines", counts.lines),
            ("other_lines", counts.other_lines),
            ("other_volumes", counts.other_volumes),
            ("zero_length", counts.zero_length),
            ("partial_writes", counts.partial_writes),
            ("written_bytes", counts.written_bytes),
            ("short_discards", counts.short_discards),
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

/// Whether a line that cannot be imported is the heading of a table: as many columns as a request has, and no digit.
fn is_heading(text: &str, bad: &BadLine) -> bool {
    bad.place != "line" && !has_digit(text.as_bytes())
}

fn has_digit(line: &[u8]) -> bool {
    line.iter().any(u8::is_ascii_digit)
}

/// A line as text, without white space around it, but with its tabs: an empty cell may be the first or the last.
fn text(line: &[u8]) -> Result<&str, BadLine> {
    let bad = |found: String, expected: &str| BadLine { place: "line", found, expected: expected.to_owned() };
    if line.len() > MAX_LINE_BYTES {
        return Err(bad(format!("more than {MAX_LINE_BYTES} bytes without a line break"), "lines of text"));
    }
    let text = std::str::from_utf8(line).map_err(|e| {
        let at = e.valid_up_to();
        bad(format!("byte 0x{:02x} at column {}, which is not UTF-8", line[at], at + 1), "text")
    })?;
    Ok(text.trim_matches(|c: char| c.is_whitespace() && c != '\t'))
}

/// The request of a line. Empty lines have none in any format, nor has the heading of a table, which may come first.
fn parsed<'a>(
    parser: &'a mut Box<dyn Parser>,
    line: &'a [u8],
    is_first: bool,
) -> Result<Option<Record<'a>>, BadLine> {
    let text = text(if is_first { line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line) } else { line })?;
    if text.trim().is_empty() {
        return Ok(None);
    }
    match parser.parse(text) {
        Err(bad) if is_first && is_heading(text, &bad) => Ok(None),
        request => request,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{find, testing};
    use super::*;
    use crate::event::Op;
    use crate::ids::PAGE_BYTES;
    use std::collections::BTreeMap;

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
    fn parts_of_pages_are_counted() {
        let counts = alibaba("1,W,0,4096,0\n1,W,512,4096,0\n1,W,4096,1024,0\n1,R,1,1,0").counts();
        assert_eq!((counts.partial_writes, counts.written_bytes), (2, 9216));
    }

    #[test]
    fn a_heading_may_come_first() {
        for heading in ["device_id,opcode,offset,length,timestamp", "\u{feff}Device,Op,Offset,Length,Time"] {
            let mut importer = alibaba(&format!("{heading}\r\n1,W,0,4096,0"));
            assert_eq!((importer.counts().other_lines, importer.counts().writes), (1, 1));
            assert!(importer.line(heading.as_bytes()).is_err(), "a second heading is no request");
        }
        alibaba("\u{feff}1,W,0,4096,0");
        testing::refuses("alibaba", "nonsense", &["found 1 column"]);
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
        let expected = Counts {
            lines: 7,
            other_lines: 1,
            headings: 1,
            bad_lines: 4,
            zero_length: 1,
            writes: 1,
            ..Counts::default()
        };
        let expected = Counts { written_bytes: 4096, ..expected };
        assert_eq!((counts, importer.take_batch().events.len()), (expected, 1));
    }

    #[test]
    fn one_trace_is_of_one_volume() {
        let lines = ["7,W,0,4096,1", "8,W,4096,4096,2", "8,R,4096,4096,3"];
        let mut importer = testing::importer("alibaba");
        importer.line(lines[0].as_bytes()).unwrap();
        let error = importer.line(lines[1].as_bytes()).unwrap_err();
        assert!(error.to_string().contains("\"7\" (1 request), \"8\" (1 request); a trace"), "{error}");
        importer.survey(lines[2].as_bytes(), false).expect("a good line");
        importer.survey(b"nonsense", false).expect_err("no line");
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
