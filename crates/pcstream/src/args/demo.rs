//! Arguments of `demo`, and of the workload that it runs under capture.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::values;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo pcstream demo
  sudo pcstream demo -o d.pctrace && sudo pcstream contexts d.pctrace --by file
  sudo pcstream demo --workload built-in -- --fs xfs --scheme all")]
pub struct DemoArgs {
    /// What writes
    #[arg(long, value_name = "WHAT", default_value = "auto")]
    pub workload: Workload,
    /// Keep the trace: a new directory NAME.pctrace
    #[arg(short, long, value_name = "T.pctrace")]
    pub output: Option<PathBuf>,
    /// Replace the trace if it exists
    #[arg(long, requires = "output")]
    pub force: bool,
    /// How much of its updates the built-in workload does (for tests)
    #[arg(long, hide = true, default_value_t = 1.0, value_parser = values::positive_share)]
    pub part: f64,
    /// More flags of `pcstream run`, after --
    #[arg(last = true, value_name = "FLAGS")]
    pub flags: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// Databases where db_bench and sqlite3 are installed, else built-in
    Auto,
    /// SQLite and RocksDB side by side
    Databases,
    /// A table with a write-ahead log and sorted runs with compaction, both part of pcstream
    BuiltIn,
}

/// What `demo` captures: writes into the current directory.
#[derive(Debug, Args)]
pub struct DemoWorkloadArgs {
    /// SQLite and RocksDB instead of the built-in workload
    #[arg(long)]
    pub databases: bool,
    /// How much of its updates the built-in workload does
    #[arg(long, default_value_t = 1.0, value_parser = values::positive_share)]
    pub part: f64,
}
