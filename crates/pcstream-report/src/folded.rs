//! Call paths for other tools: folded stacks (flamegraph.pl, inferno, speedscope) and pprof's protobuf.
//!
//! Units: a path's weight is a number of pages. Paths go from the program, the thread and the outermost function to
//! the entry into the kernel.

use std::collections::HashMap;

use pcstream_trace::{Context, Frame, PAGE_BYTES};

use crate::escape::visible;
use crate::functions::Functions;
use crate::symbols::{Names, frame_name};
use crate::{ContextRow, SourceLine};

/// What the kernel keeps of a thread's name.
const COMM_BYTES: usize = 15;

/// One line per context: names joined by `;`, a blank, the pages written.
pub fn folded(rows: &[ContextRow], names: Names) -> Vec<String> {
    let functions = Functions::of(rows.iter().filter_map(|row| row.context), names);
    let line =
        |row: &ContextRow| format!("{} {}", stack(row.who(), &functions).join(";"), row.writer.pages());
    rows.iter().map(line).collect()
}

/// Names of a path, outermost first; of what has no context ([`ContextRow::who`]), its name.
pub fn stack(who: Result<&Context, &str>, functions: &Functions) -> Vec<String> {
    let context = match who {
        Ok(context) => context,
        Err(name) => return vec![name.to_owned()],
    };
    let mut names = vec![context.program().to_owned()];
    names.extend(thread(context).map(str::to_owned));
    names.extend(context.frames.iter().rev().map(|frame| functions.name(frame)));
    names.extend((!context.entry.is_empty()).then(|| context.entry.clone()));
    // `;` separates names, and a line ends at its last blank.
    names.into_iter().map(|name| visible(&name.replace([';', '\n', '\r'], ",")).into_owned()).collect()
}

/// The thread's name, which is the second of a path, where it says more than the program's.
pub fn thread(context: &Context) -> Option<&str> {
    let (comm, program) = (context.comm.as_str(), context.program().as_bytes());
    let same = &program[..program.len().min(COMM_BYTES)] == comm.as_bytes();
    (!comm.is_empty() && !same).then_some(comm)
}

/// A profile in pprof's format (profile.proto), not compressed: sample values are pages and bytes.
pub fn pprof(rows: &[ContextRow]) -> Vec<u8> {
    let mut profile = Pprof::default();
    profile.string("");
    for (name, unit) in [("pages", "count"), ("written", "bytes")] {
        let (name, unit) = (profile.string(name), profile.string(unit));
        let value_type = [field(1, name), field(2, unit)].concat();
        profile.samples.extend(message(1, &value_type));
    }
    for row in rows {
        let (pages, who) = (row.writer.pages(), row.who());
        let locations: Vec<u64> = match who {
            Err(name) => vec![profile.location(None, name, "", None)],
            Ok(context) => profile.path(context, row),
        };
        let values = [varint(pages), varint(pages * PAGE_BYTES)].concat();
        let sample =
            [message(1, &locations.into_iter().flat_map(varint).collect::<Vec<u8>>()), message(2, &values)];
        profile.samples.extend(message(2, &sample.concat()));
    }
    profile.finish()
}

/// A profile on its way: tables of strings, functions and locations, numbered from 1 (strings from 0).
#[derive(Default)]
struct Pprof {
    strings: Vec<String>,
    string_ids: HashMap<String, u64>,
    /// By name and file.
    function_ids: HashMap<(String, String), u64>,
    location_ids: HashMap<(String, u64, String), u64>,
    samples: Vec<u8>,
    tables: Vec<u8>,
}

impl Pprof {
    fn string(&mut self, text: &str) -> u64 {
        if let Some(id) = self.string_ids.get(text) {
            return *id;
        }
        let id = self.strings.len() as u64;
        self.strings.push(text.to_owned());
        self.string_ids.insert(text.to_owned(), id);
        id
    }

    /// Locations of a path, innermost first, as pprof has them.
    fn path(&mut self, context: &Context, row: &ContextRow) -> Vec<u64> {
        let mut path = Vec::new();
        if !context.entry.is_empty() {
            path.push(self.location(None, &context.entry, "[kernel]", None));
        }
        for (at, frame) in context.frames.iter().enumerate() {
            let name = frame_name(frame, Names::Full);
            path.push(self.location(Some(frame), &name, &frame.module, row.line(at)));
        }
        path.push(self.location(None, context.program(), &context.executable, None));
        path
    }

    /// A location, with what was inlined there: addresses are offsets in their module, which is the file where no line is
    /// known.
    fn location(
        &mut self,
        frame: Option<&Frame>,
        name: &str,
        module: &str,
        line: Option<&SourceLine>,
    ) -> u64 {
        let offset = frame.map_or(0, |frame| frame.offset);
        let key = (module.to_owned(), offset, name.to_owned());
        if let Some(id) = self.location_ids.get(&key) {
            return *id;
        }
        let id = self.location_ids.len() as u64 + 1;
        self.location_ids.insert(key, id);
        let mut location = [field(1, id), field(3, offset)].concat();
        for (name, line) in line.iter().flat_map(|line| &line.inlined) {
            location.extend(self.line(name, &line.file, line.line));
        }
        location.extend(self.line(
            name,
            line.map_or(module, |line| &line.file),
            line.map_or(0, |line| line.line),
        ));
        self.tables.extend(message(4, &location));
        id
    }

    /// A line of a location, in this function.
    fn line(&mut self, name: &str, file: &str, line: u32) -> Vec<u8> {
        let new = self.function_ids.len() as u64 + 1;
        let id = *self.function_ids.entry((name.to_owned(), file.to_owned())).or_insert(new);
        if id == new {
            let (name, file) = (self.string(name), self.string(file));
            let function = [field(1, id), field(2, name), field(3, name), field(4, file)].concat();
            self.tables.extend(message(5, &function));
        }
        message(4, &[field(1, id), field(2, u64::from(line))].concat())
    }

    fn finish(mut self) -> Vec<u8> {
        let mut out = std::mem::take(&mut self.samples);
        out.extend(std::mem::take(&mut self.tables));
        self.strings.iter().for_each(|text| out.extend(message(6, text.as_bytes())));
        out
    }
}

/// A number as protobuf writes it.
fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

/// A field that is a number.
fn field(number: u64, value: u64) -> Vec<u8> {
    [varint(number << 3), varint(value)].concat()
}

/// A field that has a length: a message, a string, packed numbers.
fn message(number: u64, bytes: &[u8]) -> Vec<u8> {
    [varint(number << 3 | 2), varint(bytes.len() as u64), bytes.to_vec()].concat()
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use pcstream_replay::Writer;

    use super::*;

    fn context() -> Context {
        let frame =
            |symbol: &str| Frame { module: "/bin/db".into(), symbol: symbol.into(), ..Frame::default() };
        Context {
            executable: "/bin/db".into(),
            comm: "worker".into(),
            entry: "write".into(),
            frames: vec![frame("append;x"), frame("main")],
            ..Context::default()
        }
    }

    /// So many pages of the kind with this number.
    fn written(kind: usize, pages: u64) -> Writer {
        let mut writer = Writer::default();
        writer.pages_by_kind[kind] = pages;
        writer
    }

    fn row<'a>(context: Option<&'a Context>, writer: &'a Writer) -> ContextRow<'a> {
        ContextRow {
            context,
            writer: Cow::Borrowed(writer),
            share: 0.0,
            stream: None,
            files: Vec::new(),
            lines: Vec::new(),
        }
    }

    #[test]
    fn stacks_go_from_the_outside_to_the_inside() {
        let context = context();
        let writers = [written(0, 7), written(0, 2), written(1, 3)];
        let rows = [row(Some(&context), &writers[0]), row(None, &writers[1]), row(None, &writers[2])];
        let lines = folded(&rows, Names::Short);
        assert_eq!(lines, ["db;worker;main;append,x;write 7", "(unknown) 2", "(file system) 3"]);
    }

    #[test]
    fn a_profile_has_the_lines_that_are_known() {
        let (context, program) = (context(), written(0, 3));
        let at = |file: &str, line| SourceLine { file: file.to_owned(), line, ..SourceLine::default() };
        let line = SourceLine { inlined: vec![("pack".to_owned(), at("pack.h", 99))], ..at("append.c", 77) };
        let known = ContextRow { lines: vec![Some(line), None], ..row(Some(&context), &program) };
        let has = |bytes: &[u8], part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
        let (with, without) = (pprof(&[known]), pprof(&[row(Some(&context), &program)]));
        for part in [&b"append.c"[..], &field(2, 77), b"pack.h", &field(2, 99)] {
            assert!(has(&with, part) && !has(&without, part));
        }
        // One location has both lines, that of the inlined function first. Functions have numbers from 1; 1 is the kernel's.
        let of = |function, line| message(4, &[field(1, function), field(2, line)].concat());
        assert!(has(&with, &[of(2, 99), of(3, 77)].concat()));
    }

    #[test]
    fn a_profile_names_every_string_once_and_decodes() {
        let context = context();
        let (program, others) = (written(0, 300), written(0, 1));
        let bytes = pprof(&[row(Some(&context), &program), row(None, &others)]);
        // Walk the fields: each number and length must fit, and the sum of the first values is known.
        let (mut at, mut strings, mut samples) = (0, Vec::new(), 0);
        let read = |at: &mut usize| {
            let (mut value, mut shift) = (0u64, 0);
            loop {
                let byte = bytes[*at];
                *at += 1;
                value |= u64::from(byte & 0x7f) << shift;
                shift += 7;
                if byte < 0x80 {
                    return value;
                }
            }
        };
        while at < bytes.len() {
            let key = read(&mut at);
            assert_eq!(key & 7, 2, "every field of a profile here has a length");
            let length = read(&mut at) as usize;
            match key >> 3 {
                2 => samples += 1,
                6 => strings.push(String::from_utf8(bytes[at..at + length].to_vec()).unwrap()),
                _ => {}
            }
            at += length;
        }
        assert_eq!((at, samples), (bytes.len(), 2));
        assert_eq!(strings[0], "");
        for name in ["append;x", "main", "write", "db", "pages"] {
            assert_eq!(strings.iter().filter(|s| *s == name).count(), 1, "{name}");
        }
    }
}
