//! Arguments of `extract`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

/// Flags of `extract`.
#[derive(Debug, Args)]
#[command(
    group(ArgGroup::new("wanted").args(["file", "program"]).required(true).multiple(true)),
    after_help = "\
Examples:
  pcstream generate hotcold --pages 64K --writes 1M -o both.pctrace
  pcstream extract both.pctrace --program hot -o hot.pctrace
  pcstream simulate hot.pctrace --pack-live 0.9"
)]
pub struct ExtractArgs {
    /// The trace
    #[arg(value_name = "T.pctrace")]
    pub trace: PathBuf,
    /// What was written to these files: a pattern as in rules, of names, or of paths below the mount point if it has a slash, such as '/var/lib/mysql/**'; may be repeated
    #[arg(long, value_name = "PATTERN")]
    pub file: Vec<String>,
    /// What these programs wrote: a pattern as in rules, of names, or of paths if it has a slash; may be repeated
    #[arg(long, value_name = "PATTERN")]
    pub program: Vec<String>,
    /// Take the metadata and the journal of the file system along, whoever caused them
    #[arg(long)]
    pub metadata: bool,
    /// Where the part goes: a new directory NAME.pctrace
    #[arg(short, long, value_name = "P.pctrace")]
    pub output: PathBuf,
    /// Replace the trace if it exists
    #[arg(long)]
    pub force: bool,
}
