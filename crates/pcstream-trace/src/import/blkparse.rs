//! The text that blkparse makes of a recording by blktrace, as in SNIA's YCSB-RocksDB traces.
//!
//! Columns, by spaces: `major,minor cpu sequence seconds.ns pid action rwbs sector + count [process]`.
//! `sector` and `count` are sectors of 512 bytes. `rwbs` has R, W or D (discard), an F in front for a
//! flush, and further letters that do not matter here. A write's context is its process name. Only lines with
//! one action count: D (issued to the driver) or Q (queued).
//!
//! Source: blkparse(1), default output.
//!
//! Traps: a request appears in several lines (Q, G, I, D, C, ...), so counting all would multiply
//! it. Devices without a queue of their own (device mapper, MD, zram) have Q and no D. The process
//! of a D line is often a kernel thread that issues for others, that of a Q line the one that asked
//! (for buffered writes, again a kernel thread). A flush that carries data counts as the write alone.
//! A request that the driver gives back (R) is issued again, so it has two D lines; the second does not
//! count, unless other requests were merged into it meanwhile. Zeroing shows as W. SCSI commands that
//! are not reads or writes have bytes instead of a sector. The summary at the end is text, with a colon in each line.

use std::collections::HashMap;

use super::cells::{BadLine, SECTOR_BYTES, scaled, seconds, word};
use super::{Format, FormatOption, Parser, Record, Written};
use crate::event::Op;

const ISSUED: &str = "D";
const GIVEN_BACK: &str = "R";

/// Registry entry.
pub(super) const FORMAT: Format = Format {
    name: "blkparse",
    about: "default output of blkparse; the process is the context",
    volume: Some("major,minor"),
    options: &[FormatOption {
        name: "action",
        help: "Which lines are requests: D, issued to the driver, or Q, queued",
        choices: &[ISSUED, "Q"],
        text: None,
    }],
    make: |choices| Box::new(Blkparse { action: choices[0].clone(), given_back: HashMap::new() }),
};

/// Requests given back that are known at a time. More than a driver ever holds.
const MAX_GIVEN_BACK: usize = 1 << 16;

struct Blkparse {
    action: String,
    /// Requests that the driver gave back, and that were not issued again yet: by device and sector, what they ask.
    given_back: HashMap<String, (Op, String)>,
}

impl Blkparse {
    /// Whether a line issues what was issued before. Notes what is given back.
    fn is_again(&mut self, action: &str, device: &str, op: Op, extent: Option<(&str, &str)>) -> bool {
        let Some((sector, count)) = extent.filter(|_| self.action == ISSUED) else { return false };
        let place = || format!("{device} {sector}");
        if action == ISSUED {
            // What is issued there ends the wait, also if it is another request.
            let known = if self.given_back.is_empty() { None } else { self.given_back.remove(&place()) };
            return known.is_some_and(|(known_op, known_count)| known_op == op && known_count == count);
        }
        if self.given_back.len() < MAX_GIVEN_BACK {
            self.given_back.insert(place(), (op, count.to_owned()));
        }
        false
    }
}

impl Parser for Blkparse {
    fn parse<'a>(&'a mut self, line: &'a str) -> Result<Option<Record<'a>>, BadLine> {
        if is_summary(line) {
            return Ok(None);
        }
        let mut rest = line;
        let [device, _cpu, _sequence, time, _pid, action, rwbs] = std::array::from_fn(|_| word(&mut rest));
        if !is_device(device) {
            return Err(BadLine::column("device", device, "MAJOR,MINOR such as 8,0, as blkparse prints it"));
        }
        if rwbs.is_empty() {
            let expected = "MAJOR,MINOR CPU SEQUENCE TIME PID ACTION RWBS SECTOR + COUNT [PROCESS]";
            return Err(BadLine::column("line", line, expected));
        }
        if action != self.action && action != GIVEN_BACK {
            return Ok(None);
        }
        let (request, tag) = split_process(rest);
        let Some((op, extent)) = requested(rwbs, request, tag.is_some())? else { return Ok(None) };
        if self.is_again(action, device, op, extent) || action == GIVEN_BACK {
            return Ok(None);
        }
        let (sector, count) = extent.unwrap_or(("0", "0"));
        Ok(Some(Record {
            time_ns: seconds("time", time)?,
            op,
            offset: scaled("sector", sector, SECTOR_BYTES)?,
            bytes: scaled("count", count, SECTOR_BYTES)?,
            volume: device,
            written: Written { tag, ..Written::default() },
        }))
    }
}

/// Whether this is of the summary at the end, or of the list of what blkparse read.
fn is_summary(line: &str) -> bool {
    let line = line.trim();
    let first = line.split_ascii_whitespace().next().unwrap_or_default();
    let words = first.starts_with(|c: char| c.is_ascii_alphabetic()) && line.contains(':');
    words || first.is_empty() || line.starts_with("===") || line.starts_with("Input file ")
}

fn is_device(text: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.split_once(',').is_some_and(|(major, minor)| number(major) && number(minor))
}

/// What precedes `[process]`, and the process.
fn split_process(text: &str) -> (&str, Option<&str>) {
    match (text.find('['), text.rfind(']')) {
        (Some(open), Some(close)) if open < close => (&text[..open], Some(&text[open + 1..close])),
        _ => (text, None),
    }
}

/// The operation and, as text, its sector and count; no extent for a flush, nothing for what is
/// neither.
type Requested<'a> = Option<(Op, Option<(&'a str, &'a str)>)>;

/// `whole`: a process follows, so the line was not cut off before.
fn requested<'a>(rwbs: &str, request: &'a str, whole: bool) -> Result<Requested<'a>, BadLine> {
    let (flush, letters) = rwbs.strip_prefix('F').map_or((false, rwbs), |letters| (true, letters));
    let op = match letters.bytes().next() {
        Some(b'R') => Some(Op::Read),
        Some(b'W') => Some(Op::Write),
        Some(b'D') if !letters.starts_with("DD") => Some(Op::Discard),
        Some(b'N' | b'F') | None => None,
        Some(_) => return Err(BadLine::column("rwbs", rwbs, "R, W, D or N, with an F in front for a flush")),
    };
    let mut rest = request;
    let [sector, plus, count] = std::array::from_fn(|_| word(&mut rest));
    let extent = match (op, plus) {
        (Some(op), "+") if count != "0" || !flush => Some((op, Some((sector, count)))),
        // A flush without data, or a SCSI command: its length, and its bytes if it has some.
        (None, _) => None,
        (_, "") if flush || whole => None,
        (_, "+") if flush => None,
        (_, plus) if plus.starts_with('(') => None,
        _ => return Err(BadLine::column("request", request, "SECTOR + COUNT")),
    };
    Ok(extent.or(flush.then_some((Op::Flush, None))))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{import, importer, refuses};
    use super::super::{Importer, Settings};
    use super::*;

    const TEXT: &str = "\
  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]
  8,0    3        2     0.000001829   697  G   W 223490 + 8 [kjournald]
  8,0    3        3     0.000003000   697  P   N [kjournald]
  8,0    3        4     0.000004000     0  m   N cfq697 insert_request
  8,0    3        5     0.000005000    35  D   W 223490 + 8 [kworker/0:1H]
  8,0    3        6     0.000006000    35  D FWFS 16 + 8 [Web Content [1]]
  8,0    3        7     0.000007000    35  D  FN [kworker/0:1H]
  8,0    3        8     0.000008000    35  D   D 80 + 16 [fstrim]
  8,0    3        9     0.000009000    35  D  RM 8 + 1 (    1829) [ls]
  8,0    3       10     0.000010000    35  D   R 36 (12 01 00 00 24 00) [sg_inq]
  8,0    3       11     0.000011000    35  D   N 0 (00 ..) [sg]
  8,0    3       11     0.000011000    35  D   R 36 [scsi_id]
  8,0    3       11     0.000011000    35  D   W [blkzone]
  8,0    3       11     0.000011000    35  R   R [0]
  8,0    3       12     0.000012000    35  D FWS 0 + 0 [kworker/0:1H]
  8,0    3       13     0.000013000     0  C   W 223490 + 8 [0]
CPU0 (8,0):
 Reads Queued:           0,        0KiB\t Writes Queued:           1,        4KiB
Total (8,0):
Events (8,0): 13 entries
Skips: 0 forward (0 -   0.0%)
";

    #[test]
    fn lines_become_events() {
        let (events, contexts) = import(importer("blkparse"), TEXT);
        let expected = [
            // Sector 223490 is the third of page 27936.
            (0, Op::Write, 27_936, 2, 1),
            (1000, Op::Write, 2, 1, 2),
            (2000, Op::Flush, 0, 0, 0),
            (3000, Op::Discard, 10, 2, 0),
            (4000, Op::Read, 1, 1, 0),
            (7000, Op::Flush, 0, 0, 0),
        ];
        assert_eq!(events, expected);
        assert_eq!(contexts, ["kworker/0:1H", "Web Content [1]"]);
    }

    #[test]
    fn queued_requests_can_be_chosen() {
        let options = [("action".to_owned(), "Q".to_owned())].into();
        let importer = Importer::new(Settings { options, ..Settings::new(&FORMAT) }).unwrap();
        let (events, contexts) = import(importer, TEXT);
        assert_eq!(events, [(0, Op::Write, 27_936, 2, 1)]);
        assert_eq!(contexts, ["kjournald"]);
    }

    #[test]
    fn what_the_driver_gives_back_counts_once() {
        let text = "\
8,0 3 1 0.000000000 35 D W 8 + 8 [a]
8,0 3 2 0.000001000 35 R W 8 + 8 [0]
8,0 3 3 0.000002000 35 D W 16 + 8 [a]
8,0 3 4 0.000003000 35 D W 8 + 8 [a]
8,0 3 5 0.000004000 0 C W 8 + 8 [0]
8,0 3 6 0.000005000 35 D W 8 + 8 [a]
";
        let (events, _) = import(importer("blkparse"), text);
        let lbas: Vec<u64> = events.iter().map(|event| event.2).collect();
        assert_eq!(lbas, [1, 2, 1], "the fourth line is the first one again, the last one is not");
        let merged = text.replacen("35 D W 8 + 8 [a]\n8,0 3 5", "35 D W 8 + 16 [a]\n8,0 3 5", 1);
        assert_ne!(merged, text);
        assert_eq!(import(importer("blkparse"), &merged).0.len(), 4, "another request, and the last one");
        let options = [("action".to_owned(), "Q".to_owned())].into();
        let queued = Importer::new(Settings { options, ..Settings::new(&FORMAT) }).unwrap();
        assert_eq!(import(queued, &text.replace(" D ", " Q ")).0.len(), 4, "a request is queued once");
    }

    #[test]
    fn bad_lines_say_what_is_wrong() {
        refuses("blkparse", "128166372003061629,hm,1,Read,0,4096,1", &["device: found", "MAJOR,MINOR"]);
        refuses("blkparse", "8,0 3 1 0.0 697 D", &["expected MAJOR,MINOR CPU"]);
        refuses("blkparse", "8,0 3 1 0.0 697 D X 8 + 8 [a]", &["rwbs: found \"X\""]);
        refuses("blkparse", "8,0 3 1 0.0 697 D W 8 8 [a]", &["request", "SECTOR + COUNT"]);
        refuses("blkparse", "8,0 3 1 0.0 697 D W 8 + x [a]", &["count: found \"x\""]);
        refuses("blkparse", "8,0 3 1 0.0 697 D W 22349", &["request", "SECTOR + COUNT"]);
        refuses("blkparse", "8,0 3 1 0.0 697 D W ", &["request", "SECTOR + COUNT"]);
        refuses("blkparse", "8,0 3 1 0.0 697 D DD 8 + 8 [a]", &["rwbs: found \"DD\""]);
        refuses("blkparse", "-1 8,0 3 1 0.0 697 D W 8 + 8 [a]", &["device: found \"-1\""]);
        refuses(
            "blkparse",
            "8,0 3 1 0.0 697 Q W 8 + 8 [a]\ngarbage line here",
            &["device: found \"garbage\""],
        );
        refuses("blkparse", "8,0 3 1 zero 697 D W 8 + 8 [a]", &["time: found \"zero\""]);
    }
}
