//! Alibaba block traces: 1000 volumes of a cloud for a month of 2020.
//!
//! Columns, by commas and without a header: `device_id,opcode,offset,length,timestamp`. `opcode` is
//! `R` or `W`, `offset` and `length` are bytes, `timestamp` is microseconds.
//!
//! Source: github.com/alibaba/block-traces; Li et al., "An In-Depth Analysis of Cloud Block Storage
//! Workloads in Large-Scale Production", IISWC'20.
//!
//! Traps: one file holds all devices.

use super::cells::{BadLine, comma_columns, number, op, scaled};
use super::{Format, Parser, Record, Written};
use crate::event::Op;

/// Registry entry.
pub(super) const FORMAT: Format = Format {
    name: "alibaba",
    about: "Alibaba block traces: device_id,opcode,offset,length,timestamp",
    volume: Some("device_id"),
    options: &[],
    make: |_| Box::new(Alibaba),
};

struct Alibaba;

impl Parser for Alibaba {
    fn parse<'a>(&'a mut self, line: &'a str) -> Result<Option<Record<'a>>, BadLine> {
        let header = "device_id,opcode,offset,length,timestamp";
        let [volume, code, offset, length, time] = comma_columns(line, header)?;
        Ok(Some(Record {
            time_ns: scaled("timestamp", time, 1000)?,
            op: op("opcode", code, &[("R", Op::Read), ("W", Op::Write)])?,
            offset: number("offset", offset)?,
            bytes: number("length", length)?,
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
        let text = "3,W,5496832,4096,1577808000000372\n3,R,8192,16384,1577808000000400\n";
        let (events, contexts) = import(importer("alibaba"), text);
        assert_eq!(events, [(0, Op::Write, 1342, 1, 0), (28_000, Op::Read, 2, 4, 0)]);
        assert!(contexts.is_empty());
    }

    #[test]
    fn bad_lines_say_what_is_wrong() {
        refuses("alibaba", "3,W,5496832,4096", &["found 4 columns", "5: device_id,"]);
        refuses("alibaba", "3,1,5496832,4096,1", &["opcode: found \"1\"", "R (read) or W (write)"]);
        refuses("alibaba", "3,W,0,4096,1.5", &["timestamp: found \"1.5\""]);
    }
}
