//! MSR Cambridge: 36 volumes of 13 servers for a week of 2007.
//!
//! Columns, by commas and without a header: `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`.
//! `Timestamp` is a Windows filetime (100 ns since 1601), `Type` is `Read` or `Write`, `Offset` and
//! `Size` are bytes; `ResponseTime` (100 ns) is not used.
//!
//! Source: SNIA IOTTA repository; Narayanan et al., "Write Off-Loading", FAST'08.
//!
//! Traps: time goes back now and then. A volume is a host and a disk, named as its file is: `hm_1`.

use super::cells::{BadLine, comma_columns, number, op, scaled};
use super::{Format, Parser, Record, Written};
use crate::event::Op;

/// Registry entry.
pub(super) const FORMAT: Format = Format {
    name: "msr",
    about: "MSR Cambridge: Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime",
    volume: Some("host and disk"),
    options: &[],
    make: |_| Box::new(Msr::default()),
};

/// Nanoseconds of a unit of Windows filetime.
const FILETIME_NS: u64 = 100;

#[derive(Default)]
struct Msr {
    volume: String,
}

impl Parser for Msr {
    fn parse<'a>(&'a mut self, line: &'a str) -> Result<Option<Record<'a>>, BadLine> {
        let header = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime";
        let [time, host, disk, kind, offset, size, _] = comma_columns(line, header)?;
        self.volume.clear();
        self.volume.extend([host, "_", disk]);
        Ok(Some(Record {
            time_ns: scaled("Timestamp", time, FILETIME_NS)?,
            op: op("Type", kind, &[("Read", Op::Read), ("Write", Op::Write)])?,
            offset: number("Offset", offset)?,
            bytes: number("Size", size)?,
            volume: &self.volume,
            written: Written::default(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{import, importer, refuses};
    use super::*;

    #[test]
    fn lines_become_events() {
        let text = "128166372003061629,hm,1,Read,383496192,32768,413\n\
                    128166372016382155,hm,1,Write,2822144,4096,552\n\
                    128166372016382155,hm,1,Write,2824704,512,1\n";
        let (events, contexts) = import(importer("msr"), text);
        let later = (128166372016382155 - 128166372003061629) * 100;
        assert_eq!(
            events,
            [(0, Op::Read, 93_627, 8, 0), (later, Op::Write, 689, 1, 0), (later, Op::Write, 689, 1, 0)]
        );
        assert!(contexts.is_empty());
    }

    #[test]
    fn a_volume_is_a_host_and_a_disk() {
        refuses(
            "msr",
            "1,hm,0,Read,0,512,1\n2,hm,1,Read,0,512,1",
            &["host and disk", "\"hm_0\"", "\"hm_1\"", "--volume"],
        );
    }

    #[test]
    fn bad_lines_say_what_is_wrong() {
        refuses("msr", "1,hm,0,Read,0,512", &["found 6 columns", "7: Timestamp,"]);
        refuses("msr", "1,hm,0,Trim,0,512,1", &["Type: found \"Trim\"", "Read (read) or Write (write)"]);
        refuses("msr", "1,hm,0,Read,-1,512,1", &["Offset: found \"-1\"", "whole number"]);
        refuses("msr", "184467440737095517,hm,0,Read,0,512,1", &["Timestamp", "up to 184467440737095516"]);
    }
}
