//! Arguments of `table`.

use std::path::PathBuf;

use clap::builder::UnknownArgumentValueParser;
use clap::{Arg, Args, Subcommand};

use super::simulation::OutputArgs;
use crate::values;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pcstream generate hotcold --pages 64K --writes 1M -o hot.pctrace
  pcstream simulate hot.pctrace --save-table host1.table
  pcstream generate hotcold --pages 64K --writes 1M --seed 2 -o two.pctrace
  pcstream simulate two.pctrace --save-table host2.table
  pcstream table show host1.table --names hot.pctrace
  pcstream table merge -o fleet.table host1.table host2.table
  pcstream table diff host1.table host2.table
  pcstream table export host1.table host2.table > fleet.csv")]
pub struct TableArgs {
    #[command(subcommand)]
    pub action: TableAction,
}

#[derive(Debug, Subcommand)]
pub enum TableAction {
    /// Show the lifetimes that tables hold
    #[command(after_help = "Example:\n  pcstream table show host1.table --top 5")]
    Show {
        /// Saved tables
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// How many contexts of each table are shown, those with the most samples; JSON has them all
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = values::rows)]
        top: usize,
        /// A recording of the same programs, which says what the contexts are; may be given more than once
        #[arg(long, value_name = "TRACE")]
        names: Vec<PathBuf>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Make one table of several of a scheme: mean lifetimes, weighted by the numbers of samples
    #[command(after_help = "\
Examples:
  pcstream table merge -o fleet.table host1.table host2.table
  pcstream table merge --base fleet.table -o new.table host1.table host2.table")]
    Merge {
        /// Saved tables
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// The table that the others began with: it counts once, and of the others what they learned since
        #[arg(long, value_name = "FILE", value_parser = values::named_file())]
        base: Option<PathBuf>,
        /// Where the merged table goes; replaced only by a whole one
        #[arg(short, long, value_name = "FILE", value_parser = values::named_file())]
        output: PathBuf,
    },
    /// Show in which contexts two tables differ
    #[command(after_help = "Example:\n  pcstream table diff monday.table friday.table --factor 4")]
    Diff {
        /// The first table
        before: PathBuf,
        /// The second table
        after: PathBuf,
        /// Lifetimes that differ by no more than this factor are alike
        #[arg(long, value_name = "F", default_value_t = 2.0, value_parser = values::factor)]
        factor: f64,
        /// How many contexts are shown, those with the most samples; JSON has them all
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = values::rows)]
        top: usize,
        /// A recording of the same programs, which says what the contexts are; may be given more than once
        #[arg(long, value_name = "TRACE")]
        names: Vec<PathBuf>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Print tables as comma-separated values: file, signature, lifetime in pages, samples, and names if asked
    #[command(
        after_help = "Example:\n  pcstream table export host*.table > fleet.csv",
        arg = Arg::new("json").long("json").hide(true).value_parser(UnknownArgumentValueParser::suggest("`pcstream table show --json` has them as JSON"))
    )]
    Export {
        /// Saved tables
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// A recording of the same programs, which says what the contexts are; may be given more than once
        #[arg(long, value_name = "TRACE")]
        names: Vec<PathBuf>,
    },
}
