//! The trace files of MiDAS.
//!
//! Columns, by spaces: `time type lba size [stream]`. `time` is seconds, `type` is 0 for a read, 1
//! for a write, 3 for a discard (2 is not used), `lba` counts 4 KiB and `size` bytes. A write's context is
//! its stream, if the column is there.
//!
//! Source: github.com/dgist-datalab/MiDAS; zenodo.org/records/10409599; Oh et al., "MiDAS", FAST'24.
//!
//! Traps: `lba` and `size` have different units. The codes are the opposite of MQSim's.

use std::fmt::Write as _;

use super::cells::{BadLine, number, op, scaled, seconds, word, wrong_count};
use super::{Format, Parser, Record, Written};
use crate::event::Op;
use crate::ids::PAGE_BYTES;

/// Registry entry.
pub(super) const FORMAT: Format = Format {
    name: "midas",
    about: "MiDAS: time type (0 read, 1 write, 3 discard) lba size [stream]",
    volume: None,
    options: &[],
    make: |_| Box::new(Midas::default()),
};

/// The type that the format leaves free.
const NOT_USED: &str = "2";

#[derive(Default)]
struct Midas {
    label: String,
}

impl Parser for Midas {
    fn parse<'a>(&'a mut self, line: &'a str) -> Result<Option<Record<'a>>, BadLine> {
        let mut rest = line;
        let [time, code, lba, size, stream] = std::array::from_fn(|_| word(&mut rest));
        if size.is_empty() || !word(&mut rest).is_empty() {
            let found = line.split_ascii_whitespace().count();
            return Err(wrong_count(found, "4 or 5: time type lba size [stream]"));
        }
        if code == NOT_USED {
            return Ok(None);
        }
        self.label.clear();
        if !stream.is_empty() {
            _ = write!(self.label, "stream {}", number("stream", stream)?);
        }
        Ok(Some(Record {
            time_ns: seconds("time", time)?,
            op: op("type", code, &[("0", Op::Read), ("1", Op::Write), ("3", Op::Discard)])?,
            offset: scaled("lba", lba, PAGE_BYTES)?,
            bytes: number("size", size)?,
            volume: "",
            written: Written { tag: (!self.label.is_empty()).then_some(&self.label), ..Written::default() },
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{import, importer, refuses};
    use super::*;

    #[test]
    fn lines_become_events() {
        let text = "0.146559796 1 0 4096 \n0.146609386 1 1 4096 \n0.146637836 0 5 8182 \n0.146637836 2 5 8192\n\
                    0.146654316 3 8 8192 \n";
        let (events, contexts) = import(importer("midas"), text);
        let expected = [
            (0, Op::Write, 0, 1, 0),
            (49_590, Op::Write, 1, 1, 0),
            (78_040, Op::Read, 5, 2, 0),
            (94_520, Op::Discard, 8, 2, 0),
        ];
        assert_eq!(events, expected);
        assert!(contexts.is_empty());
    }

    #[test]
    fn streams_become_contexts() {
        let (events, contexts) =
            import(importer("midas"), "0 1 0 4096 7\n0 1 1 4096 0\n1 1 2 4096 7\n1 3 2 4096 7");
        let ids: Vec<_> = events.iter().map(|e| e.4).collect();
        assert_eq!((ids, contexts), (vec![1, 2, 1, 0], vec!["stream 7".to_owned(), "stream 0".to_owned()]));
    }

    #[test]
    fn bad_lines_say_what_is_wrong() {
        refuses("midas", "0.1 1 0", &["found 3 columns", "4 or 5: time"]);
        refuses("midas", "0.1 1 0 4096 1 1", &["found 6 columns"]);
        refuses("midas", "0.1 4 0 4096", &["type: found \"4\"", "0 (read) or 1 (write) or 3 (discard)"]);
        refuses("midas", "0.1 1 0 4096 hot", &["stream: found \"hot\""]);
    }
}
