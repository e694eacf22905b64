//! The I/O logs of fio, versions 2 and 3.
//!
//! The first line is `fio version 2 iolog` or `fio version 3 iolog`. Version 2 has lines
//! `file action` and `file action offset length`; version 3 has a timestamp in front, in
//! microseconds since the log began. Offsets and lengths are bytes. Actions: `read`, `write`,
//! `trim`, `sync`, `datasync` and `syncfs` (barriers), `wait` (only version 2, with the time as the offset);
//! `add`, `open`, `close` and `sync_file_range` carry no request.
//!
//! Source: fio's HOWTO, "Trace file format", and `iolog.c`.
//!
//! Traps: the HOWTO says that `wait` is in microseconds since the wait before, `iolog.c` sleeps
//! until as many milliseconds since the start: `--wait-unit` chooses. A file is a volume: the log of
//! a job on one block device has one, and offsets within several files say nothing about where
//! they are on a device.

use super::cells::{BadLine, number, scaled, word};
use super::{Format, FormatOption, Parser, Record, Written};
use crate::event::Op;

/// Registry entry.
pub(super) const FORMAT: Format = Format {
    name: "fio",
    about: "fio iolog, version 2 or 3 by its first line",
    volume: Some("file"),
    options: &[FormatOption {
        name: "wait-unit",
        help: "What 'wait N' means in version 2: N us after the wait before (fio's HOWTO), or N ms after the start (fio's code)",
        choices: &["us", "ms"],
        text: None,
    }],
    make: |choices| Box::new(Fio { version: None, now_ns: 0, wait_unit: choices[0].clone() }),
};

const HEADERS: [(&str, Version); 2] =
    [("fio version 2 iolog", Version::Two), ("fio version 3 iolog", Version::Three)];

#[derive(Clone, Copy)]
enum Version {
    Two,
    Three,
}

struct Fio {
    /// As the header says.
    version: Option<Version>,
    /// The clock of version 2, moved by `wait`.
    now_ns: u64,
    wait_unit: String,
}

impl Parser for Fio {
    fn parse<'a>(&'a mut self, line: &'a str) -> Result<Option<Record<'a>>, BadLine> {
        if let Some(&(_, version)) = HEADERS.iter().find(|(header, _)| *header == line.trim()) {
            self.version = Some(version);
            return Ok(None);
        }
        let mut rest = line;
        let version = self.version.ok_or_else(|| {
            BadLine::column(
                "line",
                line,
                "\"fio version 2 iolog\" or \"fio version 3 iolog\" before anything else",
            )
        })?;
        let time = match version {
            Version::Two => None,
            Version::Three => Some(scaled("timestamp", word(&mut rest), 1000)?),
        };
        let [volume, action, offset, length, excess] = std::array::from_fn(|_| word(&mut rest));
        if !excess.is_empty() || action.is_empty() {
            return Err(BadLine::column("line", line, expected_columns(version)));
        }
        let op = match action {
            "read" => Op::Read,
            "write" => Op::Write,
            "trim" => Op::Discard,
            "sync" | "datasync" | "syncfs" => Op::Flush,
            "wait" => return self.wait(version, offset).map(|()| None),
            "add" | "open" | "close" | "sync_file_range" => return Ok(None),
            _ => return Err(BadLine::column("action", action, ACTIONS)),
        };
        let time_ns = time.unwrap_or(self.now_ns);
        let (offset, bytes) = match op {
            Op::Flush => (0, 0),
            _ => (number("offset", offset)?, number("length", length)?),
        };
        Ok(Some(Record { time_ns, op, offset, bytes, volume, written: Written::default() }))
    }
}

const ACTIONS: &str = "read, write, trim, sync, datasync, syncfs, wait, add, open or close";

fn expected_columns(version: Version) -> &'static str {
    match version {
        Version::Two => "FILE ACTION [OFFSET LENGTH], as in version 2",
        Version::Three => "TIMESTAMP FILE ACTION [OFFSET LENGTH], as in version 3",
    }
}

impl Fio {
    /// Moves the clock. fio ignores waits in version 3, whose lines have times of their own.
    fn wait(&mut self, version: Version, duration: &str) -> Result<(), BadLine> {
        match (version, self.wait_unit.as_str()) {
            (Version::Three, _) => {}
            (Version::Two, "ms") => self.now_ns = self.now_ns.max(scaled("wait", duration, 1_000_000)?),
            (Version::Two, _) => {
                let ns = scaled("wait", duration, 1000)?;
                self.now_ns = self.now_ns.checked_add(ns).ok_or_else(|| {
                    BadLine::column("wait", duration, "waits of less than 2^64 ns together")
                })?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{import, importer, refuses};
    use super::super::{Importer, Settings};
    use super::*;

    const VERSION_2: &str = "fio version 2 iolog\n/dev/sda add\n/dev/sda open\n/dev/sda write 0 8192\n\
        /dev/sda wait 250 0\n/dev/sda read 4096 512\n/dev/sda wait 300\n/dev/sda sync 0 0\n\
        /dev/sda datasync\n/dev/sda syncfs 0 0\n/dev/sda trim 8192 4096\n/dev/sda close\n";

    #[test]
    fn version_2_has_waits() {
        let events = |wait_unit: &str| {
            let options = [("wait-unit".to_owned(), wait_unit.to_owned())].into();
            import(Importer::new(Settings { options, ..Settings::new(&FORMAT) }).unwrap(), VERSION_2).0
        };
        let expected = |read, later| {
            [
                (0, Op::Write, 0, 2, 0),
                (read, Op::Read, 1, 1, 0),
                (later, Op::Flush, 0, 0, 0),
                (later, Op::Flush, 0, 0, 0),
                (later, Op::Flush, 0, 0, 0),
                (later, Op::Discard, 2, 1, 0),
            ]
        };
        assert_eq!(events("us"), expected(250_000, 550_000));
        assert_eq!(events("ms"), expected(250_000_000, 300_000_000));
    }

    #[test]
    fn a_discard_takes_whole_pages_only() {
        let text = "fio version 2 iolog\nx add\nx open\nx write 0 16384\nx trim 512 4096\nx trim 512 8192\n\
                    x trim 0 16384\nx trim 4096 512\n";
        let mut importer = importer("fio");
        text.lines().for_each(|line| importer.line(line.as_bytes()).unwrap());
        let events = importer.take_batch().events;
        let discards = events.iter().filter(|event| event.op == Op::Discard);
        assert_eq!(discards.map(|event| (event.lba.0, event.pages)).collect::<Vec<_>>(), [(1, 1), (0, 4)]);
        assert_eq!(importer.counts().short_discards, 2);
    }

    #[test]
    fn version_3_has_times() {
        let text = "fio version 3 iolog\n2 Nvme1n1 add\n872 Nvme1n1 open\n878 Nvme1n1 write 0 16384\n\
                    888 Nvme1n1 wait 1 0\n891 Nvme1n1 trim 16384 4096\n895 Nvme1n1 sync 0 0\n900 Nvme1n1 close\n";
        let (events, contexts) = import(importer("fio"), text);
        let expected =
            [(0, Op::Write, 0, 4, 0), (13_000, Op::Discard, 4, 1, 0), (17_000, Op::Flush, 0, 0, 0)];
        assert_eq!(events, expected);
        assert!(contexts.is_empty());
    }

    #[test]
    fn bad_lines_say_what_is_wrong() {
        refuses("fio", "/dev/sda add", &["\"/dev/sda add\"", "fio version 3 iolog", "before anything else"]);
        refuses("fio", "fio version 1 iolog", &["fio version 2 iolog"]);
        refuses("fio", "fio version 2 iolog\n/dev/sda", &["FILE ACTION [OFFSET LENGTH]"]);
        refuses("fio", "fio version 3 iolog\n/dev/sda write 0 512", &["timestamp: found \"/dev/sda\""]);
        refuses("fio", "fio version 3 iolog\n1 /dev/sda writ 0 512", &["action: found \"writ\"", "trim"]);
        refuses("fio", "fio version 3 iolog\n1 /dev/sda write 0", &["length: found \"\""]);
        refuses("fio", "fio version 2 iolog\n/dev/sda wait x", &["wait: found \"x\""]);
        refuses("fio", "fio version 2 iolog\na write 0 512\nb write 0 512", &["more than one file", "\"b\""]);
        let day = "a wait 18446744073709551 0";
        refuses("fio", &format!("fio version 2 iolog\n{day}\n{day}"), &["wait", "together"]);
    }
}
