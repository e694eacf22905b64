//! `import`: public block traces as traces of this program.
//!
//! The formats come from the registry of importers: a new format needs nothing here. Here are the input, its
//! lines, and what is said to the user.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::{Context as _, anyhow};
use indicatif::ProgressBar;
use pcstream_report::human;
use pcstream_report::table::Side::{Left, Right};
use pcstream_report::table::table;
use pcstream_system::shell;
use pcstream_trace::import::{BadLine, Counts, Importer, LineError, MAX_LINE_BYTES, Settings, quote};
use pcstream_trace::{PAGE_BYTES, Summary};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::args::ImportArgs;
use crate::failure::{Failure, Status};
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::ui::{self, Ui};

/// Events handed to the writer at a time.
const BATCH_EVENTS: usize = 8 * 1024;

/// Lines read on after a second volume was found, to tell the user which there are.
const SURVEY_LINES: u64 = 100_000;

/// Bytes read at a time.
const BUFFER_BYTES: usize = 256 * 1024;

/// Bytes that tell a compressed file.
const MAGIC_BYTES: usize = 6;

/// How compressed files begin, what they are, and what prints their contents.
const COMPRESSED: [(&[u8], &str, &str); 6] = [
    (&[0x1f, 0x8b], "gzip", "zcat"),
    (&[0x28, 0xb5, 0x2f, 0xfd], "zstd", "zstdcat"),
    (&[0xfd, b'7', b'z', b'X', b'Z', 0], "xz", "xzcat"),
    (b"BZh", "bzip2", "bzcat"),
    (&[0x04, 0x22, 0x4d, 0x18], "lz4", "lz4cat"),
    (b"PK\x03\x04", "zip", "unzip -p"),
];

/// The importer's settings.
fn settings(args: &ImportArgs) -> Settings {
    Settings {
        format: args.format,
        options: args.options.0.clone(),
        volume: args.volume.clone(),
        pages: args.size.map(|bytes| bytes.div_ceil(PAGE_BYTES)),
        assume_filled: args.assume_filled,
    }
}

/// The input, as messages call it.
fn input_name(args: &ImportArgs) -> String {
    if is_stdin(&args.input) { "standard input".to_owned() } else { args.input.display().to_string() }
}

/// An error about a line of the input.
fn at_line(args: &ImportArgs, number: u64, line: &[u8], bad: BadLine) -> anyhow::Error {
    anyhow::Error::new(bad).context(format!("{}, line {number}, {}", input_name(args), quote(line)))
}

fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

/// `pcstream import`.
pub fn import(args: &ImportArgs, ui: Ui) -> Result<Status, Failure> {
    let mut importer = Importer::new(settings(args)).map_err(Failure::wrong_arguments)?;
    let interrupt = Interrupt::watch()?;
    let opened = Lines::open(args, &interrupt);
    interrupt.check()?;
    let mut lines = opened?;
    let Some(path) = &args.output else { return list_volumes(args, importer, lines, ui, &interrupt) };
    let mut output = Output::create(path, importer.meta(), args.force)?;
    let bar = lines.progress("importing", ui);
    let copied = copy(args, &mut importer, &mut lines, &mut output, &bar, &interrupt);
    bar.finish_and_clear();
    importer.complete(output.meta_mut());
    let name = args.input.file_name().unwrap_or(args.input.as_os_str()).to_string_lossy().into_owned();
    output.meta_mut().settings.insert("input".to_owned(), name.into());
    let (summary, first_bad) = output.finish(copied)?;
    remark(args, &summary, importer.counts(), first_bad, ui);
    Ok(Status::with_losses(summary.meta.has_losses()))
}

/// Which volumes there are, with their requests.
fn list_volumes(
    args: &ImportArgs,
    mut importer: Importer,
    mut lines: Lines,
    ui: Ui,
    interrupt: &Interrupt,
) -> Result<Status, Failure> {
    let bar = lines.progress("reading", ui);
    let (mut is_first, mut bad_lines) = (true, 0_u64);
    while let Some(line) = next_line(args, &mut lines, interrupt)? {
        bad_lines += u64::from(importer.survey(line, is_first).is_err());
        is_first = false;
        bar.set_position(lines.consumed >> 10);
    }
    bar.finish_and_clear();
    let volumes = importer.volumes();
    let named = volumes.by_requests();
    let all = volumes.requests();
    if all == 0 {
        return Err(anyhow!("{}: no request of the format {}", input_name(args), args.format.name).into());
    }
    if named == [("", all)] {
        let columns = args.format.options.iter().any(|option| option.name == "columns");
        let instead = if columns { "; --columns volume=... says which column it is" } else { "" };
        return Err(Failure::wrong_arguments(anyhow!(
            "--list-volumes: the input has no column for volumes{instead}"
        )));
    }
    let rows = table(
        &named,
        &[
            (Right, "requests", &|(_, requests)| requests.to_string()),
            (Right, "share", &|(_, requests)| human::percent(*requests as f64 / all as f64)),
            (Left, args.format.volume.unwrap_or("volume"), &|(volume, _)| (*volume).to_owned()),
        ],
    );
    ui::print(&(rows.join("\n") + "\n"))?;
    let further = all - named.iter().map(|(_, requests)| requests).sum::<u64>();
    if further > 0 {
        ui.remark(&format!(
            "{} of further volumes, which are not listed",
            human::counted(further, "request")
        ));
    }
    if bad_lines > 0 {
        ui.remark(&format!("bad lines, left out: {bad_lines}"));
    }
    Ok(Status::with_losses(bad_lines > 0))
}

/// The next line, or what ends the reading. A signal does first: Ctrl-C ends the other side of a pipe, too.
fn next_line<'a>(
    args: &ImportArgs,
    lines: &'a mut Lines,
    interrupt: &Interrupt,
) -> Result<Option<&'a [u8]>, Failure> {
    let read = lines.read();
    interrupt.check()?;
    Ok(read.with_context(|| format!("{}: cannot read", input_name(args)))?)
}

/// Imports all lines. Returns what is wrong with the first one that was skipped.
fn copy(
    args: &ImportArgs,
    importer: &mut Importer,
    lines: &mut Lines,
    output: &mut Output,
    bar: &ProgressBar,
    interrupt: &Interrupt,
) -> Result<Option<anyhow::Error>, Failure> {
    let mut first_bad = None;
    while let Some(line) = next_line(args, lines, interrupt)? {
        match importer.line(line) {
            Ok(()) => {}
            Err(LineError::Bad(bad)) if args.skip_bad_lines && first_bad.is_some() => drop(bad),
            Err(LineError::Bad(bad)) => {
                let error = at_line(args, importer.counts().lines, line, bad);
                if !args.skip_bad_lines {
                    return Err(anyhow!("{error:#}; --skip-bad-lines leaves out such lines").into());
                }
                first_bad = Some(error);
            }
            Err(LineError::Volumes { what, .. }) => return Err(several_volumes(args, importer, lines, what)),
        }
        if importer.waiting() >= BATCH_EVENTS {
            output.write(&importer.take_batch())?;
            bar.set_position(lines.consumed >> 10);
        }
    }
    if importer.counts().requests() == 0 {
        return Err(nothing(args, importer, first_bad).into());
    }
    output.write(&importer.take_batch())?;
    Ok(first_bad)
}

/// Names the volumes of the next lines, so that the user can choose.
fn several_volumes(
    args: &ImportArgs,
    importer: &mut Importer,
    lines: &mut Lines,
    what: &'static str,
) -> Failure {
    let found_at = importer.counts().lines;
    let mut seen = found_at;
    while seen < found_at + SURVEY_LINES {
        // What can be read so far is enough for a message.
        let Ok(Some(line)) = lines.read() else { break };
        _ = importer.survey(line, false);
        seen += 1;
    }
    let volumes = importer.volumes().clone();
    let input = input_name(args);
    let problem = LineError::Volumes { what, volumes };
    anyhow!("{input}, line {found_at}: {problem} (requests in the first {seen} lines)").into()
}

/// Why there is no trace.
fn nothing(args: &ImportArgs, importer: &Importer, first_bad: Option<anyhow::Error>) -> anyhow::Error {
    let counts = importer.counts();
    let (input, format) = (input_name(args), args.format.name);
    let mut problem = format!("{input}: no request to import (lines read: {})", counts.lines);
    if counts.other_volumes > 0 {
        problem += &format!("; --volume found none of {}", importer.volumes());
    } else if let Some(bad) = first_bad {
        problem += &format!("; bad lines skipped: {}, the first: {bad:#}", counts.bad_lines);
    } else if counts.zero_length + counts.short_discards > 0 {
        problem += &format!(
            "; dropped: requests of no bytes {}, discards of less than a page {}",
            counts.zero_length, counts.short_discards
        );
    } else {
        problem += &format!("; expected the format {format}; see `pcstream import --help` for the others");
        for option in args.format.options {
            problem += &format!(", and --{}", option.name);
        }
    }
    anyhow!(problem)
}

/// Says what became of the input, and what looks wrong.
fn remark(args: &ImportArgs, summary: &Summary, counts: Counts, first_bad: Option<anyhow::Error>, ui: Ui) {
    let share = |part: u64| human::percent(part as f64 / counts.requests() as f64);
    ui.remark(&format!(
        "{}: writes {} ({}), reads {} ({}), discards {} ({}), flushes {}",
        input_name(args),
        counts.writes,
        share(counts.writes),
        counts.reads,
        share(counts.reads),
        counts.discards,
        share(counts.discards),
        counts.flushes,
    ));
    if counts.writes == 0 {
        ui.remark(&format!(
            "there is not a single write: is this the right format? {} is \"{}\"; `pcstream import --help` lists the others",
            args.format.name, args.format.about
        ));
    }
    if counts.partial_writes > 0 {
        ui.remark(&format!(
            "writes that begin or end within a page of 4 KiB: {} ({} of the writes); all writes ask for {}, and the whole \
             pages that they touch are {}",
            counts.partial_writes,
            human::percent(counts.partial_writes as f64 / counts.writes as f64),
            human::bytes(counts.written_bytes),
            human::page_bytes(summary.meta.totals.host_pages),
        ));
    }
    let noted = [
        (lines_without_requests(args, &counts), "lines without a request, left out"),
        (counts.other_volumes, "requests of other volumes, left out"),
        (counts.zero_length, "requests of 0 bytes, left out"),
        (counts.short_discards, "discards of less than a whole page, left out"),
        (counts.clamped_times, "requests earlier than the one before them, which were given its time"),
    ];
    for (count, what) in noted.into_iter().filter(|&(count, _)| count > 0) {
        ui.remark(&format!("{what}: {count}"));
    }
    let duration_ns = summary.meta.totals.duration_ns;
    if counts.most_clamped_ns > duration_ns / 100 {
        ui.remark(&format!(
            "one of them by {}: rates a day, and --timing --open-loop, mean nothing for this trace; WAF \
             depends on the order alone",
            of_the_time(counts.most_clamped_ns, duration_ns)
        ));
    }
    if let Some(bad) = first_bad {
        ui.remark(&format!("bad lines, left out: {}; the first: {bad:#}", counts.bad_lines));
    }
    if !args.assume_filled && counts.writes > 0 {
        ui.remark(
            "the device counts as empty at the beginning, so it copies nothing until its flash has been written once; \
             --assume-filled takes it as full",
        );
    }
    ui.remark(&format!(
        "{}: {} written to a device of {}, {} on disk, id {}",
        summary.path.display(),
        human::page_bytes(summary.meta.totals.host_pages),
        human::page_bytes(summary.meta.device.pages),
        human::bytes(summary.bytes),
        summary.meta.trace_id,
    ));
}

/// Those worth a word: headings are not. Nearly all files of blktrace and fio have many, and a table of `columns` has them as
/// comments and as a heading alone.
fn lines_without_requests(args: &ImportArgs, counts: &Counts) -> u64 {
    let usual = ["blkparse", "fio", "columns"].contains(&args.format.name);
    if usual { 0 } else { counts.other_lines - counts.headings }
}

/// The lines of the input, in memory that does not grow with their length.
struct Lines {
    input: Box<dyn BufRead>,
    line: Vec<u8>,
    /// Size of the input, if it is a file.
    bytes: Option<u64>,
    /// Bytes read so far.
    consumed: u64,
    /// Whether the input stands within a line that was too long.
    within_line: bool,
}

impl Lines {
    /// Opens the input and makes sure that it is not compressed.
    fn open(args: &ImportArgs, interrupt: &Interrupt) -> anyhow::Result<Lines> {
        let name = input_name(args);
        let problem = || format!("{name}: cannot read");
        let file = if is_stdin(&args.input) {
            File::from(io::stdin().as_fd().try_clone_to_owned().with_context(problem)?)
        } else {
            // A pipe without a writer is waited for when it is read.
            File::options()
                .read(true)
                .custom_flags(libc::O_NONBLOCK)
                .open(&args.input)
                .with_context(problem)?
        };
        let metadata = file.metadata().with_context(problem)?;
        if metadata.is_dir() {
            return Err(anyhow!("{name}: is a directory, expected a text file or '-' for standard input"));
        }
        let bytes = metadata.is_file().then_some(metadata.len());
        let mut input = Input { file, interrupt: interrupt.clone() };
        let mut head = Vec::new();
        input.by_ref().take(MAGIC_BYTES as u64).read_to_end(&mut head).with_context(problem)?;
        refuse_compressed(args, &head)?;
        let input = Box::new(BufReader::with_capacity(BUFFER_BYTES, Cursor::new(head).chain(input)));
        Ok(Lines { input, line: Vec::new(), bytes, consumed: 0, within_line: false })
    }

    /// A bar over the input.
    fn progress(&self, what: &'static str, ui: Ui) -> ProgressBar {
        match self.bytes {
            Some(bytes) => ui.progress(what, "KiB", bytes >> 10),
            None => ui.count(what, "KiB"),
        }
    }

    /// The next line without its line break; `None` at the end. Of a line that is too long, just as
    /// much as shows that it is: its rest, which may never end, is passed over only if somebody
    /// wants the line after it.
    fn read(&mut self) -> io::Result<Option<&[u8]>> {
        if std::mem::take(&mut self.within_line) {
            self.consumed += self.input.skip_until(b'\n')? as u64;
        }
        self.line.clear();
        let limit = MAX_LINE_BYTES as u64 + 1;
        let read = self.input.by_ref().take(limit).read_until(b'\n', &mut self.line)? as u64;
        self.consumed += read;
        if read == 0 {
            return Ok(None);
        }
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
        } else {
            self.within_line = read == limit;
        }
        Ok(Some(&self.line))
    }
}

/// The input. To read it ends with an error when a signal comes: whoever writes it may be silent for long.
struct Input {
    file: File,
    interrupt: Interrupt,
}

impl Read for Input {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        // A signal just before the wait does not end it.
        const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        loop {
            let ready = poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&LOOK));
            if self.interrupt.came() {
                return Err(io::Error::other("a signal came"));
            }
            match ready {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => match self.file.read(bytes) {
                    // Another reader was faster.
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    read => return read,
                },
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn refuse_compressed(args: &ImportArgs, head: &[u8]) -> anyhow::Result<()> {
    let Some((_, kind, command)) = COMPRESSED.iter().find(|(magic, ..)| head.starts_with(magic)) else {
        return Ok(());
    };
    let file = if is_stdin(&args.input) { "FILE".to_owned() } else { shell::word(&args.input) };
    Err(anyhow!(
        "{}: is compressed ({kind}), expected text; use `{command} {file} | pcstream import --format {} - ...`",
        input_name(args),
        args.format.name
    ))
}

/// A part of the whole time, in words.
fn of_the_time(part_ns: u64, whole_ns: u64) -> String {
    match whole_ns {
        0 => "more than the whole time".to_owned(),
        whole => format!("{} of the whole time", human::percent(part_ns as f64 / whole as f64)),
    }
}
