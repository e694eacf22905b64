//! MQSim's ASCII traces.
//!
//! Columns, by spaces: `time device address size type`. `time` is in nanoseconds unless the
//! simulation's settings said otherwise, `address` and `size` are sectors of 512 bytes, `type` is 0
//! for a write and 1 for a read.
//!
//! Source: github.com/CMU-SAFARI/MQSim, `src/exec/ASCII_Trace_Definition.h` and `IO_Flow_Trace_Based.cpp`.
//!
//! Traps: the codes are the opposite of Tencent's and of MiDAS'. The unit of time is not in the
//! file; MQSim itself takes any type but 0 for a read, and wraps addresses beyond its device.

use super::cells::{BadLine, SECTOR_BYTES, number, op, scaled, spaced_columns};
use super::{Format, FormatOption, Parser, Record, Written};
use crate::event::Op;

/// Registry entry.
pub(super) const FORMAT: Format = Format {
    name: "mqsim",
    about: "MQSim ASCII: time device address size type (0 write, 1 read)",
    volume: Some("device"),
    options: &[FormatOption {
        name: "time-unit",
        help: "Unit of the times, which the settings of MQSim name and the file does not",
        choices: &["ns", "us", "ps"],
        text: None,
    }],
    make: |choices| Box::new(Mqsim { unit: choices[0].clone() }),
};

struct Mqsim {
    unit: String,
}

impl Parser for Mqsim {
    fn parse<'a>(&'a mut self, line: &'a str) -> Result<Option<Record<'a>>, BadLine> {
        let [time, volume, address, size, code] = spaced_columns(line, "time device address size type")?;
        let time_ns = match self.unit.as_str() {
            "us" => scaled("time", time, 1000)?,
            "ps" => number("time", time)? / 1000,
            _ => number("time", time)?,
        };
        Ok(Some(Record {
            time_ns,
            op: op("type", code, &[("0", Op::Write), ("1", Op::Read)])?,
            offset: scaled("address", address, SECTOR_BYTES)?,
            bytes: scaled("size", size, SECTOR_BYTES)?,
            volume,
            written: Written::default(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{import, importer, refuses};
    use super::super::{Importer, Settings};
    use super::*;

    const TEXT: &str = "4389000 0 4607 16 1\n4390000 0 8 8 0\n";

    #[test]
    fn lines_become_events() {
        let (events, contexts) = import(importer("mqsim"), TEXT);
        // Sector 4607 is the last of page 575, so 16 sectors touch three pages.
        assert_eq!(events, [(0, Op::Read, 575, 3, 0), (1000, Op::Write, 1, 1, 0)]);
        assert!(contexts.is_empty());
    }

    #[test]
    fn times_have_a_unit() {
        for (unit, time_ns) in [("ns", 1000), ("us", 1_000_000), ("ps", 1)] {
            let options = [("time-unit".to_owned(), unit.to_owned())].into();
            let importer = Importer::new(Settings { options, ..Settings::new(&FORMAT) }).unwrap();
            assert_eq!(import(importer, TEXT).0[1].0, time_ns, "{unit}");
        }
    }

    #[test]
    fn bad_lines_say_what_is_wrong() {
        refuses("mqsim", "4389000 0 4607 16", &["found 4 columns", "5: time device"]);
        refuses("mqsim", "4389000 0 4607 16 2", &["type: found \"2\"", "0 (write) or 1 (read)"]);
        refuses("mqsim", "4.5 0 4607 16 0", &["time: found \"4.5\""]);
    }
}
