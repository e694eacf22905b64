//! Arguments of `merge`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

use crate::values;

/// How much later a trace begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offset {
    /// Which: its path, its name, or its number from 1 on.
    pub trace: String,
    /// By how much, in nanoseconds.
    pub nanoseconds: u64,
}

impl FromStr for Offset {
    type Err = String;

    fn from_str(text: &str) -> Result<Offset, String> {
        let (trace, time) = text.rsplit_once('=').ok_or("expected TRACE=TIME, such as b=10s")?;
        let time = values::duration(time)?;
        let nanoseconds =
            u64::try_from(time.as_nanos()).map_err(|_| "expected a time of at most 500 years")?;
        Ok(Offset { trace: trace.to_owned(), nanoseconds })
    }
}

/// Flags of `merge`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pcstream generate hotcold --pages 64K --writes 1M -o a.pctrace
  pcstream generate zipf --pages 64K --writes 1M -o b.pctrace
  pcstream merge a.pctrace b.pctrace -o both.pctrace
  pcstream simulate both.pctrace
  pcstream merge a.pctrace b.pctrace --offset b=10s -o later.pctrace")]
pub struct MergeArgs {
    /// The traces, two or more; their address spaces lie one behind the other, their times begin together without --offset or --by-start
    #[arg(value_name = "T.pctrace", num_args = 2.., required = true)]
    pub traces: Vec<PathBuf>,
    /// Where the merged trace goes: a new directory NAME.pctrace
    #[arg(short, long, value_name = "M.pctrace")]
    pub output: PathBuf,
    /// Let a trace begin later than the others by so much (us, ms, s, m, h; seconds without a unit); may be repeated
    ///
    /// The trace is named as among the arguments, by its file name with or without `.pctrace`, or by its number from 1 on.
    #[arg(long, value_name = "TRACE=TIME")]
    pub offset: Vec<Offset>,
    /// Let each trace begin when it was recorded, after the first of them
    #[arg(long, conflicts_with = "offset")]
    pub by_start: bool,
    /// Replace the trace if it exists
    #[arg(long)]
    pub force: bool,
}
