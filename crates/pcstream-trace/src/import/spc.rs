//! The trace format of the Storage Performance Council, in which UMass publishes OLTP and web search.
//!
//! Columns, by commas and without a header: `ASU,LBA,Size,Opcode,Timestamp`, and any number that an
//! application added. `LBA` counts sectors of 512 bytes, `Size` bytes, `Timestamp` seconds;
//! `Opcode` is `R` or `W` in either case.
//!
//! Source: "SPC Trace File Format Specification", revision 1.0.1; traces.cs.umass.edu (Financial,
//! WebSearch).
//!
//! Traps: `LBA` and `Size` have different units. An application storage unit (ASU) is a volume, and
//! one file holds many.

use super::cells::{BadLine, SECTOR_BYTES, number, op, scaled, seconds, wrong_count};
use super::{Format, Parser, Record, Written};
use crate::event::Op;

/// Registry entry.
pub(super) const FORMAT: Format = Format {
    name: "spc",
    about: "SPC, as UMass OLTP and WebSearch: ASU,LBA,Size,Opcode,Timestamp",
    volume: Some("ASU"),
    options: &[],
    make: |_| Box::new(Spc),
};

struct Spc;

impl Parser for Spc {
    fn parse<'a>(&'a mut self, line: &'a str) -> Result<Option<Record<'a>>, BadLine> {
        let mut columns = line.split(',').map(str::trim);
        let [volume, lba, size, code, time] = std::array::from_fn(|_| columns.next().unwrap_or_default());
        if time.is_empty() {
            return Err(wrong_count(line.split(',').count(), "at least 5: ASU,LBA,Size,Opcode,Timestamp"));
        }
        Ok(Some(Record {
            time_ns: seconds("Timestamp", time)?,
            op: op("Opcode", code, &[("R", Op::Read), ("W", Op::Write)])?,
            offset: scaled("LBA", lba, SECTOR_BYTES)?,
            bytes: number("Size", size)?,
            volume,
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
        let text = "0,303567,3584,w,0.000000\n0,303574,3584,W,0.026214\n0, 8, 4096, r, 0.1, 17, x\n";
        let (events, contexts) = import(importer("spc"), text);
        // Sector 303567 is the eighth of page 37945, 303574 the seventh of page 37946.
        let expected = [
            (0, Op::Write, 37_945, 2, 0),
            (26_214_000, Op::Write, 37_946, 2, 0),
            (100_000_000, Op::Read, 1, 1, 0),
        ];
        assert_eq!(events, expected);
        assert!(contexts.is_empty());
    }

    #[test]
    fn bad_lines_say_what_is_wrong() {
        refuses("spc", "0,303567,3584,w", &["found 4 columns", "at least 5: ASU"]);
        refuses("spc", "0,303567,3584,x,0", &["Opcode: found \"x\"", "R (read) or W (write)"]);
        refuses("spc", "0,0,512,w,0\n1,0,512,w,0", &["more than one ASU", "--volume"]);
    }
}
