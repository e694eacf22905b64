//! Importers: public block traces as the same batches that a recorded trace has.
//!
//! Idea: a format is one file that turns one line of text into a `Record`; everything else (pages,
//! time, volumes, contexts, counts, meta) is in `Importer`. A new format is a new file and a line in
//! `FORMATS`.
//!
//! Units: a record has bytes and nanoseconds since an epoch of the format's choice; an event has
//! pages and nanoseconds since the first request.
//!
//! Invariants: any bytes are either a line without a request, a request, or a `BadLine` that says
//! what was found and expected; never a panic, and never memory that grows with the length of a
//! line. Nothing here does I/O: whoever reads the input hands over its lines.
//!
//! Known weaknesses: a file system's view is lost, so no event has a file but those of a table of one's
//! own that names them, and every write counts as data; no public trace has program contexts, so a
//! context is at best a process or a stream.

use crate::event::{Op, WriteHint};

mod alibaba;
mod blkparse;
mod cells;
mod columns;
mod fio;
mod fiu;
mod importer;
mod midas;
mod mqsim;
mod msr;
mod outcome;
mod settings;
mod sink;
mod spc;
mod systor17;
mod tencent;

pub use cells::{BadLine, quote};
pub use importer::{Importer, MAX_LINE_BYTES};
pub use outcome::{Counts, LineError, Volumes};
pub use settings::{MAX_PAGES, Settings, SettingsError};

/// Every format, by name.
pub static FORMATS: &[Format] = &[
    msr::FORMAT,
    alibaba::FORMAT,
    tencent::FORMAT,
    systor17::FORMAT,
    fiu::FORMAT,
    blkparse::FORMAT,
    fio::FORMAT,
    mqsim::FORMAT,
    midas::FORMAT,
    spc::FORMAT,
    columns::FORMAT,
];

/// The format with this name.
pub fn find(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name == name)
}

/// An entry of the registry.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is, and its columns, in one line.
    pub about: &'static str,
    /// What tells the devices of one input apart; `None` when all lines are of one device.
    pub volume: Option<&'static str>,
    /// Its own settings.
    pub options: &'static [FormatOption],
    make: Make,
}

/// Makes the parser of a format from one choice per option.
type Make = fn(&[String]) -> Box<dyn Parser>;

/// A setting of a format: one of several words, or a text.
#[derive(Clone, Copy, Debug)]
pub struct FormatOption {
    /// Its name on the command line, without `--`.
    pub name: &'static str,
    /// What it means.
    pub help: &'static str,
    /// The words allowed; the first is the default.
    pub choices: &'static [&'static str],
    /// Any other text is allowed, too, if it passes this.
    pub text: Option<FreeText>,
}

/// A text that an option takes.
#[derive(Clone, Copy, Debug)]
pub struct FreeText {
    /// What help calls it.
    pub value_name: &'static str,
    /// What is wrong with it, expected and done about it.
    pub check: fn(&str) -> Result<(), String>,
}

/// A request as a format tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Nanoseconds since an epoch that is the same for all lines.
    pub time_ns: u64,
    /// What is asked.
    pub op: Op,
    /// First byte on the volume. Meaningless for `Flush`.
    pub offset: u64,
    /// Number of bytes; 0 for `Flush`.
    pub bytes: u64,
    /// The device, as the user names it; empty when the format knows only one.
    pub volume: &'a str,
    /// What else is known of a write; of others it means nothing.
    pub written: Written<'a>,
}

/// What a format may tell of a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written<'a> {
    /// What stands for the context: a process, a stream.
    pub tag: Option<&'a str>,
    /// The path of the file, or its name alone.
    pub file: Option<&'a str>,
    /// First byte within the file; 0 if it is not known.
    pub file_offset: u64,
    /// What the program asked for.
    pub hint: WriteHint,
}

/// Reads the lines of one input, in order. What it learns from them (a header, a clock) is its own.
pub trait Parser: Send {
    /// The request of a line, without white space around it and not empty; `None` if it carries
    /// none: a header, a comment, an event of another kind.
    fn parse<'a>(&'a mut self, line: &'a str) -> Result<Option<Record<'a>>, BadLine>;
}

/// What the tests of every format need.
#[cfg(test)]
mod testing {
    use super::{Importer, Settings, find};
    use crate::event::{Event, Op};
    use crate::tables::Context;

    /// An importer with the format's defaults.
    pub fn importer(format: &str) -> Importer {
        Importer::new(Settings::new(find(format).expect(format))).expect("defaults are legal")
    }

    /// An event as (time_ns, op, lba, pages, context).
    pub type Short = (u64, Op, u64, u32, u32);

    /// The events of a text, and the labels of the contexts.
    pub fn import(mut importer: Importer, text: &str) -> (Vec<Short>, Vec<String>) {
        text.lines().for_each(|line| {
            importer.line(line.as_bytes()).unwrap_or_else(|e| panic!("{line}: {e}"));
        });
        let batch = importer.take_batch();
        let short = |e: &Event| (e.time_ns, e.op, e.lba.0, e.pages, e.context.0);
        let label = |c: &Context| c.executable.clone();
        (batch.events.iter().map(short).collect(), batch.contexts.iter().map(label).collect())
    }

    /// Asserts that a line is refused, alone or after the lines before it, with these words.
    #[track_caller]
    pub fn refuses(format: &str, text: &str, words: &[&str]) {
        importer_refuses(importer(format), text, words);
    }

    /// The same of an importer with settings of its own.
    #[track_caller]
    pub fn importer_refuses(mut importer: Importer, text: &str, words: &[&str]) {
        let (last, before) =
            text.lines().collect::<Vec<_>>().split_last().map(|(l, b)| (*l, b.to_vec())).unwrap();
        before.iter().for_each(|line| importer.line(line.as_bytes()).expect("a good line"));
        let message = importer.line(last.as_bytes()).expect_err(last).to_string();
        words
            .iter()
            .for_each(|word| assert!(message.contains(word), "{last}: expected {word:?} in {message}"));
    }
}
