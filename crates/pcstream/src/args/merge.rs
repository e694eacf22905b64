//! Arguments of `merge`.

use std::path::PathBuf;

use clap::Args;

/// Flags of `merge`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pcstream generate hotcold --pages 64K --writes 1M -o a.pctrace
  pcstream generate zipf --pages 64K --writes 1M -o b.pctrace
  pcstream merge a.pctrace b.pctrace -o both.pctrace
  pcstream simulate both.pctrace")]
pub struct MergeArgs {
    /// The traces, two or more; their address spaces lie one behind the other, their times begin together
    #[arg(value_name = "T.pctrace", num_args = 2.., required = true)]
    pub traces: Vec<PathBuf>,
    /// Where the merged trace goes: a new directory NAME.pctrace
    #[arg(short, long, value_name = "M.pctrace")]
    pub output: PathBuf,
    /// Replace the trace if it exists
    #[arg(long)]
    pub force: bool,
}
