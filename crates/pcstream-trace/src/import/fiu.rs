//! FIU: three weeks of departmental servers and home directories, with a digest of what was written.
//!
//! Columns, by spaces: `ts pid process lba size op major minor md5`. `ts` is nanoseconds, `lba` and
//! `size` are sectors of 512 bytes, `op` is `R` or `W`; `pid` and `md5` are not used. A write's
//! context is its process name.
//!
//! Source: SNIA IOTTA repository; Koller and Rangaswami, "I/O Deduplication", FAST'10.
//!
//! Traps: `md5` is of 4096 bytes, in the home traces of 512, so a request is several lines of 8
//! sectors or one: nothing distinguishes them, and they are imported as they stand. A process name may
//! have spaces: columns count from both ends. The process is the one that ran when the request was
//! made, often a kernel thread that wrote for others.

use super::cells::{BadLine, SECTOR_BYTES, number, op, scaled, word, wrong_count};
use super::{Format, Parser, Record, Written};
use crate::event::Op;

/// Registry entry.
pub(super) const FORMAT: Format = Format {
    name: "fiu",
    about: "FIU: ts pid process lba size op major minor md5; the process is the context",
    volume: Some("major,minor"),
    options: &[],
    make: |_| Box::new(Fiu::default()),
};

/// Columns behind the process.
const AFTER_PROCESS: usize = 6;

#[derive(Default)]
struct Fiu {
    volume: String,
}

impl Parser for Fiu {
    fn parse<'a>(&'a mut self, line: &'a str) -> Result<Option<Record<'a>>, BadLine> {
        let mut rest = line;
        let (time, _pid) = (word(&mut rest), word(&mut rest));
        let (process, [lba, size, code, major, minor, _md5]) = last_columns(rest).ok_or_else(|| {
            wrong_count(
                line.split_ascii_whitespace().count(),
                "9: ts pid process lba size op major minor md5",
            )
        })?;
        self.volume.clear();
        self.volume.extend([major, ",", minor]);
        Ok(Some(Record {
            time_ns: number("ts", time)?,
            op: op("op", code, &[("R", Op::Read), ("W", Op::Write)])?,
            offset: scaled("lba", lba, SECTOR_BYTES)?,
            bytes: scaled("size", size, SECTOR_BYTES)?,
            volume: &self.volume,
            written: Written { tag: Some(process), ..Written::default() },
        }))
    }
}

/// The columns at the end, and what is before them, which must not be empty.
fn last_columns(text: &str) -> Option<(&str, [&str; AFTER_PROCESS])> {
    let mut columns = [""; AFTER_PROCESS];
    let mut rest = text;
    for column in columns.iter_mut().rev() {
        rest = rest.trim_ascii_end();
        let start = rest.bytes().rposition(|b| b.is_ascii_whitespace())? + 1;
        (rest, *column) = rest.split_at(start);
    }
    let process = rest.trim_ascii();
    (!process.is_empty()).then_some((process, columns))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{import, importer, refuses};
    use super::*;

    #[test]
    fn lines_become_events() {
        let text = "89967404388475 4892 syslogd 904265560 8 W 6 0 531e779b0cd1c8b1b0a8ac4b6b1e0c87\n\
                    89967404388480 4892 Web Content 16 9 W 6 0 aa\n\
                    89967404388490 4892 syslogd 8 8 W 6 0 aa\n\
                    89967404388495 20782 gzip 283193184 8 R 6 0 56f11b711d91a065a2b6458eca924523\n";
        let (events, contexts) = import(importer("fiu"), text);
        let expected = [
            (0, Op::Write, 113_033_195, 1, 1),
            (5, Op::Write, 2, 2, 2),
            (15, Op::Write, 1, 1, 1),
            (20, Op::Read, 35_399_148, 1, 0),
        ];
        assert_eq!(events, expected);
        assert_eq!(contexts, ["syslogd", "Web Content"], "gzip wrote nothing");
    }

    #[test]
    fn bad_lines_say_what_is_wrong() {
        refuses("fiu", "1 2 sh 8 8 W 6 0", &["found 8 columns", "9: ts pid"]);
        refuses("fiu", "1 2 sh 8 8 X 6 0 aa", &["op: found \"X\"", "R (read) or W (write)"]);
        refuses("fiu", "1 2 sh 8 8 W 6 0 aa\n1 2 sh 8 8 W 8 1 aa", &["major,minor", "\"6,0\"", "\"8,1\""]);
        refuses("fiu", "x", &["found 1 column,"]);
    }
}
