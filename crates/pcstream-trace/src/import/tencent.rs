//! Tencent CBS: 5584 volumes of a cloud for ten days of 2018.
//!
//! Columns, by commas and without a header: `Timestamp,Offset,Size,IOType,VolumeID`. `Timestamp` is
//! seconds since 1970, `Offset` and `Size` are sectors of 512 bytes, `IOType` is 0 for a read and 1
//! for a write.
//!
//! Source: SNIA IOTTA repository; Zhang et al., "OSCA", ATC'20.
//!
//! Traps: sectors, not bytes. The codes are the opposite of MQSim's. Times are whole seconds, so
//! thousands of requests have the same one. One file holds all volumes of an hour.

use super::cells::{BadLine, SECTOR_BYTES, comma_columns, op, scaled, seconds};
use super::{Format, Parser, Record, Written};
use crate::event::Op;

/// Registry entry.
pub(super) const FORMAT: Format = Format {
    name: "tencent",
    about: "Tencent CBS: Timestamp,Offset,Size,IOType (0 read, 1 write),VolumeID",
    volume: Some("VolumeID"),
    options: &[],
    make: |_| Box::new(Tencent),
};

struct Tencent;

impl Parser for Tencent {
    fn parse<'a>(&'a mut self, line: &'a str) -> Result<Option<Record<'a>>, BadLine> {
        let header = "Timestamp,Offset,Size,IOType,VolumeID";
        let [time, offset, size, code, volume] = comma_columns(line, header)?;
        Ok(Some(Record {
            time_ns: seconds("Timestamp", time)?,
            op: op("IOType", code, &[("0", Op::Read), ("1", Op::Write)])?,
            offset: scaled("Offset", offset, SECTOR_BYTES)?,
            bytes: scaled("Size", size, SECTOR_BYTES)?,
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
        let text = "1538323200,12910952,128,0,1063\n1538323201,6265688,8,1,1063\n1538323201,8,1,1,1063\n";
        let (events, contexts) = import(importer("tencent"), text);
        // 12910952 * 512 / 4096 = 1613869, aligned.
        let expected = [
            (0, Op::Read, 1_613_869, 16, 0),
            (1_000_000_000, Op::Write, 783_211, 1, 0),
            (1_000_000_000, Op::Write, 1, 1, 0),
        ];
        assert_eq!(events, expected);
        assert!(contexts.is_empty());
    }

    #[test]
    fn bad_lines_say_what_is_wrong() {
        refuses("tencent", "1538323200,1,2,0", &["found 4 columns", "5: Timestamp,"]);
        refuses("tencent", "1538323200,1,2,W,9", &["IOType: found \"W\"", "0 (read) or 1 (write)"]);
        refuses("tencent", "1538323200,36028797018963968,2,0,9", &["Offset", "up to 36028797018963967"]);
    }
}
