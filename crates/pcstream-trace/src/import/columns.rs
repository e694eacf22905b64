//! Tables of anybody's: which column holds what is chosen with `--columns`.
//!
//! Columns: `ROLE[:UNIT]=COLUMN,...`. A column is its number, from 0 on, or its name in the heading. Roles are `time`,
//! `op`, `offset` and `size`, and, if the table has them, `volume` and, of writes, `context`, `file`, `file_offset`,
//! `hint` and `stream`.
//!
//! Units: `time` in `s` unless `ms`, `us` or `ns` are named, with decimals or without; `offset` and `size` in `bytes`
//! unless `sectors` (512 bytes), `kib` or `pages` (4 KiB) are, and so is `file_offset`.
//!
//! Traps: 0 reads in some tables and writes in others, so these codes mean something only with the unit `r0w1` or
//! `w0r1` of `op`. The delimiter is guessed from the first line: the first of tab, semicolon, comma and blanks that
//! gives the columns chosen. Lines that begin with `#` are comments. A hint's number is the kernel's, in which 0 and 1
//! name no lifetime.

mod hint;
mod separator;

use std::borrow::Cow;

use super::cells::{BadLine, SECTOR_BYTES, decimal_or_power, op, scaled_decimal};
use super::{Format, FormatOption, FreeText, Parser, Record, Written};
use crate::event::{Op, WriteHint};
use crate::ids::PAGE_BYTES;
use hint::{life, stream};
use separator::{SEPARATORS, Separator};

/// What a table has where nothing is chosen.
const DEFAULT: &str = "time=time,op=op,offset=offset,size=size";

/// Registry entry.
pub(super) const FORMAT: Format = Format {
    name: "columns",
    about: "any table: --columns says which column is the time, operation, offset, size, context, file or hint",
    volume: Some("column chosen with volume="),
    options: &[FormatOption {
        name: "columns",
        help: "Columns by number from 0 on or by name, with units: time:us=0,op=1,offset:sectors=LBA,size=3",
        choices: &[DEFAULT],
        text: Some(FreeText {
            value_name: "ROLE[:UNIT]=COLUMN,...",
            check: |text| Plan::parse(text).map(drop),
        }),
    }],
    make: |choices| Box::new(Table::new(Plan::parse(&choices[0]).expect("it was checked"))),
};

/// Roles by place in `Plan::columns`; the first four are required.
const ROLES: [&str; 10] =
    ["time", "op", "offset", "size", "volume", "context", "file", "file_offset", "hint", "stream"];
const REQUIRED: usize = 4;
const TIME: usize = 0;
const OP: usize = 1;
const OFFSET: usize = 2;
const SIZE: usize = 3;
const VOLUME: usize = 4;
const CONTEXT: usize = 5;
const FILE: usize = 6;
const FILE_OFFSET: usize = 7;
const HINT: usize = 8;
const STREAM: usize = 9;

/// Units of a time: the places behind the decimal point of a nanosecond. Windows counts in 100 ns.
const TIMES: [(&str, usize); 5] = [("s", 9), ("ms", 6), ("us", 3), ("100ns", 2), ("ns", 0)];
/// Units of an offset or a size, in bytes.
const BYTES: [(&str, u64); 4] =
    [("bytes", 1), ("sectors", SECTOR_BYTES), ("kib", 1024), ("pages", PAGE_BYTES)];

/// What operations are called; upper and lower case are the same.
const WORDS: &[(&str, Op)] = &[
    ("R", Op::Read),
    ("W", Op::Write),
    ("D", Op::Discard),
    ("F", Op::Flush),
    ("read", Op::Read),
    ("write", Op::Write),
    ("discard", Op::Discard),
    ("flush", Op::Flush),
    ("rd", Op::Read),
    ("wr", Op::Write),
    ("rs", Op::Read),
    ("ws", Op::Write),
    ("trim", Op::Discard),
    ("unmap", Op::Discard),
    ("sync", Op::Flush),
];
const READ_IS_0: &[(&str, Op)] = &[("0", Op::Read), ("1", Op::Write)];
const WRITE_IS_0: &[(&str, Op)] = &[("0", Op::Write), ("1", Op::Read)];
const CODES: [(&str, &[(&str, Op)]); 3] = [("words", WORDS), ("r0w1", READ_IS_0), ("w0r1", WRITE_IS_0)];

/// A column as it was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Column {
    Number(usize),
    Name(String),
}

/// What `--columns` says.
#[derive(Debug)]
struct Plan {
    columns: [Option<Column>; ROLES.len()],
    time_places: usize,
    codes: &'static [(&'static str, Op)],
    offset_bytes: u64,
    size_bytes: u64,
    file_offset_bytes: u64,
}

impl Plan {
    fn parse(text: &str) -> Result<Plan, String> {
        let mut plan = Plan {
            columns: [const { None }; ROLES.len()],
            time_places: TIMES[0].1,
            codes: WORDS,
            offset_bytes: 1,
            size_bytes: 1,
            file_offset_bytes: 1,
        };
        for part in text.split(',').map(str::trim) {
            let (what, column) = part
                .split_once('=')
                .filter(|(_, column)| !column.trim().is_empty())
                .ok_or_else(|| format!("{part:?}: expected ROLE=COLUMN, such as time=0"))?;
            let (role, unit) = what.split_once(':').map_or((what, None), |(role, unit)| (role, Some(unit)));
            let at = ROLES.iter().position(|known| *known == role);
            let at = at.ok_or_else(|| format!("{part:?}: expected one of {}", ROLES.join(", ")))?;
            let column = column.trim();
            let number = column.bytes().all(|b| b.is_ascii_digit()).then(|| column.parse().ok()).flatten();
            let column = number.map_or_else(|| Column::Name(column.to_owned()), Column::Number);
            if plan.columns[at].replace(column).is_some() {
                return Err(format!("{part:?}: {role} was chosen before, expected each role once"));
            }
            if let Some(unit) = unit {
                plan.set_unit(at, unit).map_err(|expected| format!("{part:?}: {expected}"))?;
            }
        }
        let needed = &plan.columns[..REQUIRED];
        let is_taken = |at: usize| needed[at].is_some() && needed[..at].contains(&needed[at]);
        if let Some(at) = (0..REQUIRED).find(|&at| is_taken(at)) {
            return Err(format!("{}: its column is that of another, expected one for each", ROLES[at]));
        }
        match needed.iter().position(Option::is_none) {
            None if plan.columns[FILE_OFFSET].is_some() && plan.columns[FILE].is_none() => {
                Err("file_offset: no column for file, expected one such as file=4".to_owned())
            }
            None => Ok(plan),
            Some(at) => Err(format!("no column for {}, expected one such as {0}=3", ROLES[at])),
        }
    }

    fn set_unit(&mut self, role: usize, unit: &str) -> Result<(), String> {
        match role {
            TIME => self.time_places = named(&TIMES, unit)?,
            OP => self.codes = named(&CODES, unit)?,
            OFFSET => self.offset_bytes = named(&BYTES, unit)?,
            SIZE => self.size_bytes = named(&BYTES, unit)?,
            FILE_OFFSET => self.file_offset_bytes = named(&BYTES, unit)?,
            _ => return Err(format!("{} has no unit, expected none", ROLES[role])),
        }
        Ok(())
    }

    /// The numbers of the columns in a table whose first line has these cells; `None` if it lacks some.
    fn places(&self, cells: &[Cow<'_, str>]) -> Option<[Option<usize>; ROLES.len()]> {
        let mut places = [None; ROLES.len()];
        for (place, column) in places.iter_mut().zip(&self.columns) {
            *place = match column {
                None => None,
                Some(Column::Number(number)) => Some(*number).filter(|number| *number < cells.len())?.into(),
                Some(Column::Name(name)) => Some(cells.iter().position(|c| c.eq_ignore_ascii_case(name))?),
            };
        }
        Some(places)
    }

    /// Refuses a heading in which a name is there twice.
    fn check_heading(&self, cells: &[Cow<'_, str>]) -> Result<(), BadLine> {
        for name in self.names() {
            let places = cells.iter().enumerate().filter(|(_, cell)| cell.eq_ignore_ascii_case(name));
            let places: Vec<usize> = places.map(|(place, _)| place).collect();
            if places.len() > 1 {
                let expected =
                    format!("it once; choose one of the columns {places:?} by number with --columns");
                return Err(BadLine::column("line", name, expected));
            }
        }
        Ok(())
    }

    fn names(&self) -> impl Iterator<Item = &String> {
        self.columns.iter().flatten().filter_map(|column| match column {
            Column::Name(name) => Some(name),
            Column::Number(_) => None,
        })
    }

    fn has_names(&self) -> bool {
        self.names().next().is_some()
    }

    /// The names that a heading lacks, if it has some of them.
    fn missing(&self, line: &str) -> Option<String> {
        let lacks = |cells: Vec<Cow<'_, str>>| {
            let has = |name: &str| cells.iter().any(|cell| cell.eq_ignore_ascii_case(name));
            self.names().filter(|name| !has(name)).map(|name| format!("'{name}'")).collect::<Vec<_>>()
        };
        let split = SEPARATORS.into_iter().filter_map(|separator| separator.split(line).ok());
        let least = split.map(lacks).min_by_key(Vec::len)?;
        (!least.is_empty() && least.len() < self.names().count()).then(|| least.join(", "))
    }
}

fn named<T: Copy>(units: &[(&str, T)], unit: &str) -> Result<T, String> {
    let names = || units.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let found = units.iter().find(|(name, _)| *name == unit);
    found.map(|(_, value)| *value).ok_or_else(|| format!("expected the unit {}", names()))
}

/// What the first line showed.
type Layout = (Separator, [Option<usize>; ROLES.len()]);

struct Table {
    plan: Plan,
    layout: Option<Layout>,
    /// Most cells of a line: as many as the first line has, but for blanks, which texts without a heading may hold.
    width: usize,
    /// Volume, context and file of a line, if quotes within had to be undone.
    kept: [String; 3],
}

impl Table {
    fn new(plan: Plan) -> Table {
        Table { plan, layout: None, width: usize::MAX, kept: Default::default() }
    }

    fn find_layout(&self, line: &str) -> Result<Layout, BadLine> {
        let of = |separator: Separator| Some((separator, self.plan.places(&separator.split(line).ok()?)?));
        // Where quotes are wrong for all of them, separators are not to blame.
        if let Some(Err(bad)) =
            SEPARATORS.map(|separator| separator.split(line)).into_iter().max_by_key(Result::is_ok)
        {
            return Err(bad);
        }
        SEPARATORS.into_iter().find_map(of).ok_or_else(|| {
            let chosen = ROLES.iter().zip(&self.plan.columns).filter_map(|(role, column)| {
                Some(match column.as_ref()? {
                    Column::Number(number) => format!("{role}={number}"),
                    Column::Name(name) => format!("{role}={name}"),
                })
            });
            let chosen: Vec<String> = chosen.collect();
            let what = if self.plan.has_names() { "a heading" } else { "a line" };
            let missing = self.plan.missing(line).map_or(String::new(), |names| format!(" (it has no {names})"));
            let expected = format!(
                "{what} with the columns {}{missing}, between tabs, semicolons, commas or blanks; --columns chooses \
                 others by number, from 0 on, or by name",
                chosen.join(", ")
            );
            BadLine::column("line", line, expected)
        })
    }
}

impl Parser for Table {
    fn parse<'a>(&'a mut self, line: &'a str) -> Result<Option<Record<'a>>, BadLine> {
        if line.trim_start().starts_with('#') {
            return Ok(None);
        }
        let (separator, places) = match self.layout {
            Some(layout) => layout,
            None => {
                let (separator, places) = self.find_layout(line)?;
                let cells = separator.split(line)?;
                self.plan.check_heading(&cells)?;
                self.layout = Some((separator, places));
                self.width = if self.plan.has_names() || separator != Separator::Blanks {
                    cells.len()
                } else {
                    usize::MAX
                };
                let is_number = |role: usize| {
                    places[role].is_some_and(|at| cells[at].starts_with(|c: char| c.is_ascii_digit()))
                };
                // A heading stands above numbers and has none itself.
                if self.plan.has_names() || ![TIME, OFFSET, SIZE].into_iter().any(is_number) {
                    return Ok(None);
                }
                (separator, places)
            }
        };
        let cells = separator.split(line)?;
        let last = places.iter().flatten().max().copied().unwrap_or(0);
        if cells.len() <= last {
            let expected = format!("at least {} between {}", last + 1, separator.in_words());
            return Err(BadLine { place: "line", found: format!("{} columns", cells.len()), expected });
        }
        // A comma within a number or a name, which would move all that follows.
        if cells.iter().skip(self.width).any(|cell| !cell.is_empty()) {
            let expected = format!(
                "{} between {}, as in the first line: quote cells that hold such a character",
                self.width,
                separator.in_words()
            );
            return Err(BadLine { place: "line", found: format!("{} columns", cells.len()), expected });
        }
        let text = |role: usize| places[role].map_or("", |at| &*cells[at]);
        let op = op("op", text(OP), self.plan.codes).map_err(|bad| self.with_codes(bad, text(OP)))?;
        let is_flush = op == Op::Flush;
        let bytes =
            |role, place, unit| if is_flush { Ok(0) } else { scaled_decimal(place, text(role), unit) };
        let time = decimal_or_power(text(TIME), self.plan.time_places);
        let time_ns = time.ok_or_else(|| self.no_time(text(TIME)))?;
        let offset = bytes(OFFSET, "offset", self.plan.offset_bytes)?;
        let bytes = bytes(SIZE, "size", self.plan.size_bytes)?;
        // Of other requests these columns mean nothing, whatever stands there.
        let (mut hint, mut file_offset) = (WriteHint::NONE, 0);
        if op == Op::Write {
            hint = WriteHint { life: life(text(HINT))?, stream: stream(text(STREAM))? };
            if !text(FILE_OFFSET).is_empty() {
                file_offset = scaled_decimal("file_offset", text(FILE_OFFSET), self.plan.file_offset_bytes)?;
            }
        }
        // One column may have several roles.
        let of = |role: usize| places[role].map_or(Cow::Borrowed(""), |at| cells[at].clone());
        let [of_volume, of_tag, of_file] = &mut self.kept;
        let volume = kept(of_volume, of(VOLUME));
        let [tag, file] = [kept(of_tag, of(CONTEXT)), kept(of_file, of(FILE))]
            .map(|text| Some(text).filter(|text| !text.is_empty()));
        let written = Written { tag, file, file_offset, hint };
        Ok(Some(Record { time_ns, op, offset, bytes, volume, written }))
    }
}

/// A cell, which lives as long as the line or as what keeps it.
fn kept<'a>(place: &'a mut String, cell: Cow<'a, str>) -> &'a str {
    match cell {
        Cow::Borrowed(text) => text,
        Cow::Owned(text) => {
            *place = text;
            place
        }
    }
}

impl Table {
    fn no_time(&self, text: &str) -> BadLine {
        let most = u64::MAX / 10u64.pow(self.plan.time_places as u32);
        let expected = format!(
            "a number such as 12.345, up to {most}; for another unit say --columns time:ms=... (or us, 100ns, ns)"
        );
        BadLine::column("time", text, expected)
    }

    /// The same with the remedy: codes mean nothing by themselves.
    fn with_codes(&self, mut bad: BadLine, text: &str) -> BadLine {
        if self.plan.codes == WORDS {
            bad.expected = match text {
                "0" | "1" => "a word; for codes say --columns op:r0w1=... (0 reads, 1 writes) or op:w0r1=...",
                _ => "R (read), W (write), D (discard), F (flush), or such words as write and trim",
            }
            .to_owned();
        }
        bad
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Short, import, importer_refuses};
    use super::super::{Importer, Settings};
    use super::*;
    use crate::event::{Event, Life};

    fn importer(columns: &str) -> Result<Importer, String> {
        let options = [("columns".to_owned(), columns.to_owned())].into();
        Importer::new(Settings { options, ..Settings::new(&FORMAT) }).map_err(|error| error.to_string())
    }

    fn events(columns: &str, text: &str) -> (Vec<Short>, Vec<String>) {
        import(importer(columns).expect("legal"), text)
    }

    #[track_caller]
    fn refuses(columns: &str, text: &str, words: &[&str]) {
        importer_refuses(importer(columns).expect("legal"), text, words);
    }

    const NUMBERS: &str = "time=0,op=1,offset=2,size=3";

    /// As pandas writes small numbers, and whole ones of a column that has gaps; a missing context is none.
    #[test]
    fn numbers_may_have_an_exponent_or_a_needless_fraction() {
        let lines = "1e-05,W,4096.0,8192.0\n1.5E-05,W,0.00,4096\n2e+1,W,0,4096\n1e-30,W,0,4096";
        let (events, _) = events(NUMBERS, lines);
        let times: Vec<u64> = events.iter().map(|event| event.0).collect();
        // Since the first; the last is earlier than the one before.
        assert_eq!(times, [0, 5_000, 19_999_990_000, 19_999_990_000]);
        assert_eq!((events[0].2, events[0].3), (1, 2));
        refuses(NUMBERS, "0,W,4096.5,8192", &["offset", "4096.5"]);
        refuses(NUMBERS, "1e,W,4096,8192", &["time"]);
        refuses(NUMBERS, "1e99,W,4096,8192", &["time", "up to 18446744073"]);
        let (contexts, tags) = self::events(&format!("{NUMBERS},context=4"), "0,W,0,4096,\n1,W,0,4096,db");
        assert_eq!((contexts.len(), tags), (2, vec!["db".to_owned()]));
    }

    #[test]
    fn times_of_windows_are_steps_of_100_ns() {
        refuses(NUMBERS, "128166372003061629,W,0,4096", &["up to 18446744073", "100ns"]);
        let (events, _) = events(
            "time:100ns=0,op=1,offset=2,size=3",
            "128166372003061629,W,0,4096\n128166372003061630,W,0,4096",
        );
        assert_eq!(events[1].0 - events[0].0, 100);
    }

    #[test]
    fn columns_have_numbers_or_names() {
        let expected = vec![
            (0, Op::Write, 1, 2, 0),
            (500_000_000, Op::Read, 0, 1, 0),
            (1_000_000_000, Op::Discard, 4, 1, 0),
        ];
        for separator in [",", ";", "\t", " ", " , "] {
            let lines = ["1,W,4096,8192,x", "1.5,read,0,512,x", "2,TRIM,16384,4096,x"];
            let lines = lines.map(|line| line.replace(',', separator)).join("\n");
            assert_eq!(events(NUMBERS, &lines).0, expected, "{separator:?}");
            let heading = "start,type,address,length,note".replace(',', separator);
            let lines = format!("# a comment\n{heading}\n{lines}");
            assert_eq!(events(NUMBERS, &lines).0, expected, "{separator:?}");
            let named = "size=Length,offset=ADDRESS,op=type,time=start";
            assert_eq!(events(named, &lines).0, expected, "{separator:?}");
        }
        let defaults =
            import(Importer::new(Settings::new(&FORMAT)).unwrap(), "size,op,offset,time\n512,w,0,0\n");
        assert_eq!(defaults.0, [(0, Op::Write, 0, 1, 0)]);
    }

    /// As pandas writes a table with its index, whose heading is empty, and with gaps.
    #[test]
    fn an_empty_cell_is_a_cell() {
        let named = "time=time,op=op,offset=offset,size=size,context=context";
        let numbered = "time=1,op=2,offset=3,size=4,context=5";
        let lines =
            ["|time|op|offset|size|context", "0|1|W|4096|8192|db", "|1.5|W|0|512|", "2|2|F|||"].join("\n");
        for separator in ["\t", ",", ";"] {
            let lines = lines.replace('|', separator);
            for columns in [named, numbered] {
                let (found, tags) = events(columns, &lines);
                let expected = [
                    (0, Op::Write, 1, 2, 1),
                    (500_000_000, Op::Write, 0, 1, 0),
                    (1_000_000_000, Op::Flush, 0, 0, 0),
                ];
                assert_eq!((&found[..], &tags[..]), (&expected[..], &["db".to_owned()][..]), "{separator:?}");
            }
        }
        let around = "\t1 W  4096 8192 \t\n \t\t\n";
        assert_eq!(events(NUMBERS, around).0, [(0, Op::Write, 1, 2, 0)], "blanks are around cells alone");
    }

    #[test]
    fn units_are_named() {
        let of = |columns: &str| events(columns, "1,W,8,16\n2.5,R,8,16").0[1];
        assert_eq!(of("time:ms=0,op=1,offset:sectors=2,size:kib=3"), (1_500_000, Op::Read, 1, 4, 0));
        assert_eq!(of("time:us=0,op=1,offset:pages=2,size:pages=3"), (1_500, Op::Read, 8, 16, 0));
        assert_eq!(of("time:ns=0,op=1,offset:bytes=2,size:bytes=3"), (1, Op::Read, 0, 1, 0));
        let ops = |unit: &str| {
            let columns = format!("time=0,op:{unit}=1,offset=2,size=3");
            events(&columns, "0,0,0,512\n0,1,0,512").0.iter().map(|event| event.1).collect::<Vec<_>>()
        };
        assert_eq!(ops("r0w1"), [Op::Read, Op::Write]);
        assert_eq!(ops("w0r1"), [Op::Write, Op::Read]);
    }

    #[test]
    fn tables_may_have_volumes_contexts_quotes_and_flushes() {
        let columns = "time=0,op=1,offset=2,size=3,volume=4,context=5";
        let lines =
            "\"1\",\"W\",\"0\",\"4096\",\"a, b\",\"db 1\"\n2,flush,,,\"a, b\",x\n3,ws,0,1,\"a, b\",db 2";
        let (found, contexts) = events(columns, lines);
        assert_eq!(
            found.iter().map(|event| (event.1, event.4)).collect::<Vec<_>>(),
            [(Op::Write, 1), (Op::Flush, 0), (Op::Write, 2)]
        );
        assert_eq!(contexts, ["db 1", "db 2"]);
        refuses(columns, "1,W,0,1,a,x\n1,W,0,1,b,x", &["more than one", "\"a\"", "--volume"]);
    }

    const ALL: &str = "time=0,op=1,offset=2,size=3,file=4,file_offset:pages=5,hint=6,stream=7";

    #[test]
    fn writes_may_have_files_and_hints() {
        let lines = "0,W,0,4096,/db/a.log,7,short,\n1,W,4096,4096,\"b \"\"2\"\"\",,RWH_WRITE_LIFE_EXTREME,255\n\
                     2,R,0,4096,/c,nothing,of,this\n3,W,0,4096,/db/a.log,8.0,3.0,2.0\n4,W,0,4096,,9,Not_Set,0";
        let mut importer = importer(ALL).expect("legal");
        lines.lines().for_each(|line| importer.line(line.as_bytes()).expect(line));
        let batch = importer.take_batch();
        let of = |e: &Event| (e.file.0, e.file_page, e.hint.life, e.hint.stream);
        let expected = [
            (1, 7, Life::Short, 0),
            (2, 0, Life::Extreme, 255),
            (0, 0, Life::NotSet, 0),
            (1, 8, Life::Medium, 2),
            (0, 0, Life::NotSet, 0),
        ];
        assert_eq!(batch.events.iter().map(of).collect::<Vec<_>>(), expected);
        let files: Vec<_> = batch.files.iter().map(|file| (file.id.0, file.inode, &file.path[..])).collect();
        assert_eq!(files, [(1, 1, "/db/a.log"), (2, 2, "/b \"2\"")]);
    }

    #[test]
    fn hints_of_other_kinds_are_refused() {
        refuses(ALL, "0,W,0,4096,/a,0,hot,0", &["hint: found \"hot\"", "the role stream"]);
        refuses(ALL, "0,W,0,4096,/a,0,2,256", &["stream: found \"256\"", "from 1 to 255"]);
        refuses(ALL, "0,W,0,4096,/a,0,2,db", &["stream: found \"db\"", "the role context"]);
        refuses(ALL, "0,W,0,4096,/a,1.5,2,0", &["file_offset: found \"1.5\"", "a whole number"]);
    }

    #[test]
    fn one_column_may_be_context_and_file() {
        let mut importer = importer("time=0,op=1,offset=2,size=3,context=4,file=4").expect("legal");
        importer.line(b"0,W,0,4096,db").unwrap();
        let batch = importer.take_batch();
        assert_eq!((&batch.contexts[0].executable[..], &batch.files[0].path[..]), ("db", "/db"));
    }

    #[test]
    fn quotes_within_quotes_are_doubled() {
        let columns = "time=0,op=1,offset=2,size=3,volume=4,context=5";
        for (cell, expected) in [
            (r#""say ""hi"" now""#, r#"say "hi" now"#),
            (r#""""quoted""""#, r#""quoted""#),
            (r#" "a "", b" "#, r#"a ", b"#),
            (r#"""#.repeat(4).as_str(), "\""),
            (r#"5" disk"#, r#"5" disk"#),
        ] {
            let line = format!("1,W,0,512,\"v\"\"1\",{cell}\n2,W,0,512,\"v\"\"1\",{cell}");
            assert_eq!(events(columns, &line).1, [expected], "{cell}");
        }
        let blanks = "1 W 0 512 v \"db \"\"1\"\"\"";
        assert_eq!(events(columns, blanks).1, ["db \"1\""]);
        refuses(columns, "1,W,0,1,\"v\"\"\",x\n1,W,0,1,v,x", &["more than one", "--volume"]);
        refuses(
            NUMBERS,
            "1,W,0,512\n1,\"W\"x,0,512",
            &["found \"\\\"W\\\"x,0,512\"", "two for each quote within"],
        );
        refuses(NUMBERS, "1,W,0,512\n1,\"W,0,512", &["a second quote for each"]);
    }

    #[test]
    fn bad_lines_say_what_is_wrong() {
        refuses(NUMBERS, "1,W,0", &["found \"1,W,0\"", "time=0, op=1, offset=2, size=3", "--columns"]);
        refuses(NUMBERS, "1,W,0,512\n2,W,0", &["found 3 columns", "at least 4 between commas"]);
        refuses(
            NUMBERS,
            "1,W,0,512\n1,W,0,5,12",
            &["found 5 columns", "4 between commas, as in the first line: quote"],
        );
        let named = "op=op,offset=offset,time=time,size=size";
        refuses(named, "op,offset,time,size\nW,0,1,5,4096", &["found 5 columns"]);
        refuses(named, "op offset time size\nW 0 1 4096 x", &["found 5 columns", "4 between blanks"]);
        assert_eq!(events(NUMBERS, "1,W,0,512\n2,W,0,512,,").0.len(), 2, "empty cells at the end");
        assert_eq!(events(NUMBERS, "1 W 0 512\n2 W 0 512 my prog").0.len(), 2, "a text without a heading");
        refuses(NUMBERS, "1,X,0,512", &["op: found \"X\"", "W (write)"]);
        refuses(NUMBERS, "1,1,0,512", &["op: found \"1\"", "op:r0w1", "op:w0r1"]);
        refuses(NUMBERS, "1,W,0x10,512", &["offset: found \"0x10\"", "a whole number"]);
        refuses(NUMBERS, "1x9,W,0,512", &["time: found \"1x9\"", "12.345"]);
        refuses(NUMBERS, "\"1,W,0,512", &["a second quote"]);
        let named = "time=t,op=o,offset=x,size=y";
        refuses(named, "t,o,x,y,T", &["found \"t\", expected it once", "columns [0, 4] by number"]);
        refuses("time=t,op=1,offset=2,size=3", "T0,op,x,y", &["a heading with the columns time=t, op=1"]);
        refuses("time=t,op=o,offset=x,size=y", "t;o;LBA;n", &["size=y (it has no 'x', 'y'), between tabs"]);
    }

    #[test]
    fn choices_are_checked() {
        for (columns, words) in [
            ("time=0,op=1,offset=2", "no column for size, expected one such as size=3"),
            ("time", "\"time\": expected ROLE=COLUMN, such as time=0"),
            ("time=", "expected ROLE=COLUMN"),
            (
                "when=0",
                "\"when=0\": expected one of time, op, offset, size, volume, context, file, file_offset, hint, stream",
            ),
            ("time=0,time=1", "time was chosen before"),
            ("time=0,op=1,offset=c,size=c", "size: its column is that of another"),
            ("time:min=0", "\"time:min=0\": expected the unit s, ms, us, 100ns, ns"),
            ("size:mb=0", "expected the unit bytes, sectors, kib, pages"),
            ("volume:s=0", "volume has no unit"),
            ("time=0,op=1,offset=2,size=3,file_offset=4", "no column for file, expected one such as file=4"),
            ("file_offset:mb=0", "expected the unit bytes, sectors, kib, pages"),
        ] {
            let error = importer(columns).map(drop).expect_err(columns);
            assert!(error.starts_with("--columns") && error.contains(words), "{error}");
        }
    }
}
