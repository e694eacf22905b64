//! Systor'17: virtual desktops on six LUNs for a month of 2016.
//!
//! Columns, by commas: `Timestamp,Response,IOType,LUN,Offset,Size`. `Timestamp` is seconds since
//! 1970 with nine decimals (of which six mean something), `IOType` is `R`, `W` or empty, `Offset`
//! and `Size` are bytes; `Response` is not used.
//!
//! Source: SNIA IOTTA repository; Lee et al., "Understanding Storage Traffic Characteristics on
//! Enterprise Virtual Desktop Infrastructure", SYSTOR'17.
//!
//! Traps: one file is an hour of one LUN and begins with a header, so several files in a row have
//! headers in between. Requests without a type are neither reads nor writes, and left out.

use super::cells::{BadLine, comma_columns, number, op, seconds};
use super::{Format, Parser, Record, Written};
use crate::event::Op;

/// Registry entry.
pub(super) const FORMAT: Format = Format {
    name: "systor17",
    about: "SYSTOR'17 desktops: Timestamp,Response,IOType,LUN,Offset,Size with a header",
    volume: Some("LUN"),
    options: &[],
    make: |_| Box::new(Systor17),
};

struct Systor17;

impl Parser for Systor17 {
    fn parse<'a>(&'a mut self, line: &'a str) -> Result<Option<Record<'a>>, BadLine> {
        let header = "Timestamp,Response,IOType,LUN,Offset,Size";
        let [time, _, code, volume, offset, size] = comma_columns(line, header)?;
        if time == "Timestamp" || code.is_empty() {
            return Ok(None);
        }
        Ok(Some(Record {
            time_ns: seconds("Timestamp", time)?,
            op: op("IOType", code, &[("R", Op::Read), ("W", Op::Write)])?,
            offset: number("Offset", offset)?,
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
        let text = "Timestamp,Response,IOType,LUN,Offset,Size\n\
                    1455592509.130265951,0.004178,R,2,21491712,8192\n\
                    1455592509.130266000,,,2,0,0\n\
                    Timestamp,Response,IOType,LUN,Offset,Size\n\
                    1455592510.130265951,0.1,W,2,4608,4096\n";
        let (events, contexts) = import(importer("systor17"), text);
        assert_eq!(events, [(0, Op::Read, 5247, 2, 0), (1_000_000_000, Op::Write, 1, 2, 0)]);
        assert!(contexts.is_empty());
    }

    #[test]
    fn bad_lines_say_what_is_wrong() {
        refuses("systor17", "1.0,0.1,W,2,4608", &["found 5 columns", "6: Timestamp,"]);
        refuses("systor17", "1.0,0.1,T,2,4608,512", &["IOType: found \"T\"", "R (read) or W (write)"]);
        refuses("systor17", "x,0.1,W,2,4608,512", &["Timestamp: found \"x\"", "seconds"]);
    }
}
