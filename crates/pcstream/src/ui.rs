//! What the user sees: results on stdout, everything else on stderr.

use std::borrow::Borrow;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

use anyhow::{Context as _, anyhow};
use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use pcstream_report::Layout;
use pcstream_report::escape::visible;
use pcstream_report::symbols::Names;

use crate::args::{Color, GlobalArgs, OutputArgs};
use crate::failure::Failure;
use crate::whole_file::{WholeFile, is_stdout};

/// How to talk to the user.
#[derive(Clone, Copy, Debug)]
pub struct Ui {
    quiet: bool,
}

impl Ui {
    /// Applies the global flags.
    pub fn new(global: &GlobalArgs) -> Ui {
        let choice = match global.color {
            Color::Auto => anstream::ColorChoice::Auto,
            Color::Always => anstream::ColorChoice::Always,
            Color::Never => anstream::ColorChoice::Never,
        };
        choice.write_global();
        Ui { quiet: global.quiet }
    }

    /// A remark that is not a result.
    pub fn remark(self, text: &str) {
        if !self.quiet {
            // Nobody is left to read that stderr is closed.
            // One write, so that it stays a line among those of other programs.
            _ = anstream::stderr().write_all(format!("pcstream: {}\n", visible(text)).as_bytes());
        }
    }

    /// How tables are laid out: as wide as the terminal, of any width into a file or pipe.
    pub fn layout(self, details: bool) -> Layout {
        let terminal = io::stdout().is_terminal().then(terminal_size::terminal_size).flatten();
        let width = terminal.map(|(width, _)| usize::from(width.0).max(40));
        Layout { width, details, names: Names::Short }
    }

    /// Whether somebody looks at stderr and wants to see progress there.
    pub fn is_interactive(self) -> bool {
        !self.quiet && io::stderr().is_terminal()
    }

    /// A bar over `total` units with rate and time left; silent unless stderr is a terminal.
    pub fn progress(self, what: &'static str, unit: &str, total: u64) -> ProgressBar {
        if !self.is_interactive() {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(5));
        let template =
            format!("{{msg:12}} {{wide_bar}} {{human_pos}}/{{human_len}} {unit}  {{rate}}  {{eta}} left");
        bar.set_style(style(&template));
        bar.with_message(what)
    }

    /// A count with its rate, for work whose end is not known; silent unless stderr is a terminal.
    pub fn count(self, what: &'static str, unit: &str) -> ProgressBar {
        if !self.is_interactive() {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(5));
        let template = format!("{{msg:12}} {{spinner}} {{human_pos}} {unit}  {{rate}}");
        bar.set_style(style(&template));
        bar.with_message(what)
    }
}

/// A style that has `rate` for whole units per second.
fn style(template: &str) -> ProgressStyle {
    let rate = |state: &ProgressState, out: &mut dyn fmt::Write| _ = out.write_str(&rate(state.per_sec()));
    ProgressStyle::with_template(template).expect("the template is legal").with_key("rate", rate)
}

fn rate(per_second: f64) -> String {
    format!("{}/s", HumanCount(per_second.round() as u64))
}

/// An error with its causes, and what each adds. Some errors print their cause themselves: it is not said twice.
pub fn with_causes(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Prints an error. Lines of its own, as errors in TOML have, stay.
pub fn complain(error: &anyhow::Error) {
    // Nobody is left to read that stderr is closed.
    let style = anstyle::Style::new().bold().fg_color(Some(anstyle::AnsiColor::Red.into()));
    let text = with_causes(error);
    let lines: Vec<_> = text.lines().map(visible).collect();
    _ = writeln!(anstream::stderr(), "{style}error:{style:#} {}", lines.join("\n"));
}

/// Standard output holds one result: refuses more, of the flags that want it.
pub fn one_on_stdout(flags: &[impl Borrow<str>]) -> Result<(), Failure> {
    match flags {
        [] | [_] => Ok(()),
        _ => {
            let flags = flags.join(" and ");
            Err(Failure::wrong_arguments(anyhow!("{flags}: only one of them can go to standard output")))
        }
    }
}

/// Prints a result.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = anstream::stdout().lock();
    finish(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Prints it as it is: it is for programs, or no text at all.
pub fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    finish(out.write_all(bytes).and_then(|()| out.flush()))
}

/// A closed pipe is how `| head` says that it has seen enough.
pub fn finish(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Err(Failure::ReaderGone),
        Err(e) => Err(anyhow::Error::new(e).context("cannot write to standard output").into()),
        Ok(()) => Ok(()),
    }
}

/// Puts a result out: as JSON where that is asked for, and as text unless JSON takes its place. A JSON file that cannot be
/// written, as on a full disk, does not cost the text.
pub fn show(
    json: Option<JsonSink>,
    result: &impl serde::Serialize,
    text: impl FnOnce() -> String,
) -> Result<(), Failure> {
    let is_taken = json.as_ref().is_some_and(JsonSink::is_stdout);
    let written = json.map_or(Ok(()), |sink| sink.write(result));
    if !is_taken {
        print(&text())?;
    }
    written
}

/// Where a result goes, opened before the work begins.
pub enum Sink {
    /// Standard output.
    Stdout,
    /// A file.
    File(WholeFile),
}

impl Sink {
    /// Prepares to write to `path`, which `flag` named; `-` is stdout.
    pub fn create(flag: &'static str, path: &Path) -> anyhow::Result<Sink> {
        if is_stdout(path) { Ok(Sink::Stdout) } else { WholeFile::create(flag, path).map(Sink::File) }
    }

    /// Whether whatever else would be printed has to give way.
    pub fn is_stdout(&self) -> bool {
        matches!(self, Sink::Stdout)
    }

    fn write(self, bytes: &[u8]) -> Result<(), Failure> {
        match self {
            Sink::Stdout => print_bytes(bytes),
            Sink::File(file) => Ok(file.write(bytes)?),
        }
    }
}

/// Puts results out. What is printed comes last: whoever reads it may go away, which ends the program. One that cannot be
/// written does not cost the others.
pub fn put_out(mut results: Vec<(Sink, Vec<u8>)>) -> Result<(), Failure> {
    results.sort_by_key(|(sink, _)| sink.is_stdout());
    let mut written = Ok(());
    for (sink, bytes) in results {
        written = written.and(sink.write(&bytes));
    }
    written
}

/// Where JSON goes: instead of the tables, or beside them.
pub struct JsonSink(Sink);

impl JsonSink {
    /// What `--json` asks for.
    pub fn asked(output: &OutputArgs) -> anyhow::Result<Option<JsonSink>> {
        let create = |path| Sink::create("--json", path).map(JsonSink);
        output.json.as_deref().map(create).transpose()
    }

    /// Whether the tables have to give way.
    pub fn is_stdout(&self) -> bool {
        self.0.is_stdout()
    }

    /// Whether it is a regular file, which nobody has to read.
    #[cfg(feature = "capture")]
    pub fn is_file(&self) -> bool {
        matches!(&self.0, Sink::File(file) if file.is_regular())
    }

    /// `value` as indented JSON and a newline, and where it goes.
    pub fn with(self, value: &impl serde::Serialize) -> anyhow::Result<(Sink, Vec<u8>)> {
        let mut text = serde_json::to_string_pretty(value).context("cannot make JSON of the result")?;
        text.push('\n');
        Ok((self.0, pcstream_report::escape::json(text).into_bytes()))
    }

    /// Writes `value`.
    pub fn write(self, value: &impl serde::Serialize) -> Result<(), Failure> {
        put_out(vec![self.with(value)?])
    }
}

#[cfg(test)]
mod tests {
    use super::rate;

    #[test]
    fn rates_are_whole_numbers() {
        assert_eq!(rate(7_326_447.274_7), "7,326,447/s");
    }
}
