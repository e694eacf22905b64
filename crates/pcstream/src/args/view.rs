//! Which view of the contexts `contexts` shows.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use pcstream_report::grouped::GroupBy;

use crate::values;
use crate::whole_file::is_stdout;

#[derive(Debug, Args)]
pub struct ViewArgs {
    /// Show one context whole: its number in the trace, or at least four digits of its signature
    #[arg(long, value_name = "ID", conflicts_with_all = ["by", "csv"], help_heading = "View")]
    pub context: Option<String>,
    /// Count only what was written to these files: a pattern as in rules, of names, or of paths if it has a slash
    #[arg(long, value_name = "PATTERN", help_heading = "View")]
    pub file: Option<String>,
    /// Count only what these programs wrote: a pattern as in rules, of names, or of paths if it has a slash
    #[arg(long, value_name = "PATTERN", help_heading = "View")]
    pub program: Option<String>,
    /// Group what was written; a function counts with all that it calls
    #[arg(long, value_name = "WHAT", value_parser = values::named(GroupBy::ALL, |by| by.name().into()), help_heading = "View")]
    pub by: Option<GroupBy>,
    /// Order of the rows
    #[arg(long, value_name = "WHAT", default_value = "pages", help_heading = "View")]
    pub sort: SortBy,
    /// Show the source lines of call paths, where the programs are as they were and have debug information
    #[arg(long, conflicts_with_all = ["by", "csv", "folded"], help_heading = "View")]
    pub lines: bool,
    /// Write functions with template arguments and parameters, in lines of any length; otherwise their last two names
    #[arg(long, help_heading = "View")]
    pub full_names: bool,
    /// Print comma-separated values instead of a table; all rows, numbers in pages
    #[arg(long, help_heading = "View")]
    pub csv: bool,
    /// Write call paths with the pages they wrote as folded stacks, for flame graphs and speedscope;
    /// '-' is stdout, and replaces the table
    #[arg(long, value_name = "FILE", help_heading = "View")]
    pub folded: Option<PathBuf>,
    /// Write call paths with the pages they wrote as a pprof profile (not compressed)
    #[arg(long, value_name = "FILE", value_parser = values::named_file(), help_heading = "View")]
    pub pprof: Option<PathBuf>,
}

/// What was asked for of the outputs that can go to standard output.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outputs<'a> {
    pub json: Option<&'a Path>,
    pub folded: Option<&'a Path>,
    pub csv: bool,
    pub by: bool,
}

impl Outputs<'_> {
    /// Those that would go there. Only one of them can.
    pub fn on_stdout(&self) -> Vec<&'static str> {
        let asked = |file: Option<&Path>| file.is_some_and(is_stdout);
        let asked = [
            ("--json -", asked(self.json)),
            ("--folded -", asked(self.folded)),
            ("--csv", self.csv),
            // Groups are in JSON, and can be printed as CSV.
            ("--by", self.by && !self.csv && self.json.is_none()),
        ];
        asked.into_iter().filter(|(_, asked)| *asked).map(|(flag, _)| flag).collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SortBy {
    /// What was written, most first
    Pages,
    /// Median lifetime, shortest first; without one last
    Life,
    /// Pages alive at the end, most first
    Alive,
    /// Name (of a context: its program)
    Name,
}
