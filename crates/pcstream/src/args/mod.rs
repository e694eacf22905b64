//! The command line: one definition feeds the parser, the help, the man pages and the completions.
//! Everything that can be checked without looking at the world is checked here.

mod attach;
mod capture;
mod demo;
mod emulated;
#[cfg(test)]
mod examples;
mod extract;
mod generate;
mod import;
mod merge;
mod metrics;
mod place;
mod reports;
mod rules;
mod serve;
mod simulation;
mod sweep;
mod table;
mod top;
mod view;

use std::path::PathBuf;

use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};

use crate::version;

#[cfg(feature = "capture")]
pub use attach::{AttachArgs, RecordedArgs};
#[cfg(feature = "capture")]
pub use capture::{CaptureArgs, OrderArg, ScratchFs};
pub use capture::{DoctorArgs, RecordArgs, RunArgs};
#[cfg(feature = "capture")]
pub use demo::Workload;
pub use demo::{DemoArgs, DemoWorkloadArgs};
pub use emulated::with_live_defaults;
#[cfg(feature = "capture")]
pub use emulated::{EmulatedArgs, PowerLoss};
pub use extract::ExtractArgs;
pub use generate::{Pattern, PatternArgs};
pub use import::ImportArgs;
pub use merge::{MergeArgs, Offset};
#[cfg(feature = "capture")]
pub use metrics::MetricsArgs;
pub use place::PlaceArgs;
pub use reports::{AdviseArgs, CompareArgs, ReportArgs};
pub use rules::RulesArgs;
pub use serve::ServeArgs;
pub use simulation::{
    ContextsArgs, DeviceArgs, FitArgs, GeometryArgs, MeasureArgs, OutputArgs, SchemeOptions, SchemesArgs,
    SimulateArgs, SimulationArgs,
};
pub use sweep::{GridArgs, Point, SweepArgs};
pub use table::{TableAction, TableArgs};
pub use top::TopArgs;
pub use view::{Outputs, SortBy, ViewArgs};

/// Who causes write amplification, and what streams would save
///
/// An SSD copies live data before it erases a block. How much it copies (its write amplification,
/// WAF) depends on whether data that dies together was written together. pcstream records which
/// code path of an unmodified program writes each page, and shows what a multi-streamed or FDP SSD
/// would make of it under published placement schemes.
#[derive(Debug, Parser)]
#[command(
    name = "pcstream",
    version,
    long_version = version::long(),
    after_help = EXAMPLES,
    after_long_help = format!("{EXAMPLES}\n{EXIT_CODES}"),
    propagate_version = true,
    max_term_width = 110
)]
pub struct Cli {
    #[command(flatten)]
    pub global: GlobalArgs,
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// The definition of the command line, as it is parsed.
    pub fn definition() -> clap::Command {
        emulated::with_live_defaults(Cli::without_live_defaults(), |_| true, false)
    }

    /// The same before `run --live` changes defaults, which a configuration may set.
    pub fn without_live_defaults() -> clap::Command {
        with_negative_values(Cli::command())
    }

    /// A command line, the program's name first, without any configuration.
    #[cfg(any(feature = "capture", test))]
    pub fn of_words(words: impl IntoIterator<Item = std::ffi::OsString>) -> Result<Cli, clap::Error> {
        clap::FromArgMatches::from_arg_matches(&Cli::definition().try_get_matches_from(words)?)
    }
}

/// Makes `-1` the value of a flag, so that the error says what is expected, and no unknown flag.
fn with_negative_values(command: clap::Command) -> clap::Command {
    let takes = |arg: &clap::Arg| !arg.is_positional() && arg.get_action().takes_values();
    command
        .mut_args(|arg| if takes(&arg) { arg.allow_negative_numbers(true) } else { arg })
        .mut_subcommands(with_negative_values)
}

const EXAMPLES: &str = "\
Examples:
  pcstream generate hotcold --pages 1M --writes 8M -o hot.pctrace
  pcstream simulate hot.pctrace          # WAF by scheme, side by side
  pcstream simulate hot.pctrace --scheme baseline,pcstream --streams 5 --json -
  pcstream contexts hot.pctrace          # who wrote what, how long it lived
  sudo pcstream run --size 4G -- db_bench --db={} --benchmarks=overwrite
";

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failed
  2  wrong arguments
  3  done, but with losses: a damaged trace, events that the capture dropped, lines that the import
     skipped, events of a log that rules could not read, what a scheme dropped of what it knew
     of live data, pages whose stream came too late for run --live, requests that failed or lost
     their stream with serve, or devices that sweep or advise left out
  128 + n  ended by signal n: 129 for SIGHUP, 130 for Ctrl-C, 131 for SIGQUIT, 143 for SIGTERM
";

#[derive(Debug, Args)]
pub struct GlobalArgs {
    /// When to use colours
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", help_heading = "Output")]
    pub color: Color,
    /// No progress and no remarks on stderr; errors and results remain
    #[arg(short, long, global = true, help_heading = "Output")]
    pub quiet: bool,
    /// Take defaults of flags from this file, instead of the user's and the machine's pcstream.toml
    #[arg(
        long,
        global = true,
        value_name = "FILE.toml",
        conflicts_with = "no_config",
        help_heading = "Configuration"
    )]
    pub config: Option<PathBuf>,
    /// Take no defaults from configuration files
    #[arg(long, global = true, help_heading = "Configuration")]
    pub no_config: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show what this machine can capture, and what to install or enable
    ///
    /// Checks the kernel, the privileges and the programs that captures need, and says for all that is missing what to
    /// do. Names disks with write streams, and what killed recordings left behind.
    Doctor(DoctorArgs),
    /// Try it: a small workload under capture, and what streams would save (needs root)
    ///
    /// Makes a scratch file system of 1 GiB in memory, runs two stores on it that write in different ways, and prints
    /// the verdict, what each placement scheme would make of the writes, and who wrote what. Takes a minute or two.
    Demo(DemoArgs),
    /// Write into the current directory, as the built-in workload of `demo` does
    #[command(hide = true)]
    DemoWorkload(DemoWorkloadArgs),
    /// Serve the device of `run --live`, as requests on standard input say
    #[command(hide = true)]
    EmulatedDevice,
    /// Record a program, simulate placement schemes and report, in one go (needs root)
    ///
    /// Runs the command on a scratch file system, and finds the call path that wrote each page. Placement schemes then
    /// give each write a stream of a simulated SSD. Prints a verdict, the WAF by scheme, and who wrote what. The scratch
    /// file system is removed at the end; with --on the command runs on an existing one.
    Run(RunArgs),
    /// Record a program's writes into a trace (needs root)
    ///
    /// Records a command, on a scratch file system or with --on on an existing one. Or records what runs already: --on
    /// with --pid, --cgroup or --unit, or alone for everything that writes there. `contexts`, `simulate`, `report` and
    /// `advise` read the trace, without root.
    Record(RecordArgs),
    /// Show what writes to a file system now: who, how much, how long it lives, to which stream (needs root)
    ///
    /// One row for each call path that writes: bytes per second, share, the median lifetime of its data, the stream that
    /// the scheme `pcstream` would give it, program, file, call path. Nothing is recorded or changed. On a terminal, ?
    /// explains the keys and q ends. It takes ext4, XFS, F2FS, and block devices without a file system.
    Top(TopArgs),
    /// Give real writes streams or hints by the call path that made them (needs root)
    ///
    /// Finds the call path of each write to a mounted file system, learns how long the data of each call path lives, and
    /// gives its next writes a stream, or its files a hint. Programs are not changed, and their writes never wait for
    /// it. `top` shows what writes, without changing anything.
    Place(PlaceArgs),
    /// Serve an FDP disk as a block device whose writes get the streams that `place` chooses (needs root)
    ///
    /// For kernels without the module pcstream_bio: a file system on /dev/ublkbN reaches the disk through this process,
    /// which writes with the streams that `pcstream place --sink fdp-server` chooses meanwhile. Without a placer it
    /// writes without streams. Needs Linux 6.16 or newer and its module ublk_drv.
    Serve(ServeArgs),
    /// Replay a trace through placement schemes, side by side
    ///
    /// Each scheme chooses a stream for every write of the trace, and a model of an SSD counts the flash pages that
    /// follow. Prints a verdict and a table of the WAF. Rows are schemes, columns are kinds of drives (--gc): by default
    /// a legacy multi-stream SSD, and one with internal streams (FDP: persistently isolated handles).
    Simulate(SimulateArgs),
    /// Replay a trace over a grid of devices and parameters, one row of results per run
    Sweep(SweepArgs),
    /// Show which code path wrote what, how long it lived, and its stream
    ///
    /// A context is a call path with its program. The table has the contexts that wrote most: pages, share of all writes,
    /// median lifetime, share still alive at the end, stream, kind, the file written most, call path. Lifetimes are
    /// counted in what the host wrote between a page's write and its overwrite or discard.
    Contexts(ContextsArgs),
    /// Make one HTML file with pictures of a trace, or single pictures
    ///
    /// The file has the verdict, WAF by scheme, over the run, over utilisation and over the number of streams, who wrote
    /// what and how long it lived, flame graphs of writes and copies, and addresses over time. It needs no network.
    Report(ReportArgs),
    /// Say what to change, with the simulated gain of each change
    ///
    /// Changes are streams for classes of lifetimes, write hints (F_SET_RW_HINT), the file system's journal and metadata
    /// apart, and placement by call path. Each is simulated on a drive of the kind that it needs, and compared with a drive
    /// without streams. A change comes with whose code it is in, and with the functions that write the data.
    Advise(AdviseArgs),
    /// Compare recorded runs: what changed, and whether it is more than noise
    ///
    /// The first run is what the others are compared with. A run may be several traces, joined by commas: then its
    /// numbers are means with 95 % intervals, and each change is tested against the noise. With --pack or --pack-live
    /// all runs are on one drive, that of the run that needs the largest.
    Compare(CompareArgs),
    /// List placement schemes, or show a scheme's parameters with defaults, units and sources
    ///
    /// A placement scheme decides which stream each write goes to. A reading is a named set of parameters: one
    /// interpretation of a paper that leaves details open.
    Schemes(SchemesArgs),
    /// Print rules of the scheme 'manual': presets, or a stream for each of RocksDB's levels
    ///
    /// A rule gives the writes that match it a stream; the first match decides. Presets are rules to begin with.
    /// RocksDB's LOG says at which level each table was written, which neither path nor call path shows. Rules made from
    /// it are for traces of that database.
    Rules(RulesArgs),
    /// Show, merge, compare and export what PCStream learned
    ///
    /// A table has the expected lifetime of each call path, in pages written to the whole device, and the number of
    /// samples behind it. `simulate --save-table` and `place` write tables; --load-table and `place` begin with one.
    Table(TableArgs),
    /// Show what the settings of a device amount to, and how many streams it can afford
    ///
    /// Needs no trace. Prints flash, superblocks, the spare factor that open superblocks leave, and speeds.
    Geometry(GeometryArgs),
    /// Make a synthetic trace with known statistics
    ///
    /// Writes to a device that is full from the beginning: of single pages, or with 'files' of several. The classes
    /// that a page can belong to (hot, cold, ...) are the contexts of the trace.
    #[command(after_help = "\
Examples:
  pcstream generate uniform --pages 256K --writes 4M -o uniform.pctrace
  pcstream generate hotcold --pages 256K --writes 4M -o hot.pctrace
  pcstream generate zipf --pages 256K --writes 4M --theta 0.99 -o zipf.pctrace")]
    Generate {
        #[command(subcommand)]
        pattern: Pattern,
    },
    /// Make one trace of several, as if their programs had shared a device
    ///
    /// Address spaces follow each other in the order given. Times begin together, or later with --offset. Contexts with
    /// the same signature become one.
    Merge(MergeArgs),
    /// Make a trace of what some files or programs wrote, as if they had a drive of their own
    ///
    /// Discards and reads shrink to that data. What was on the device before is left out, so give the drive a
    /// utilisation when you simulate: with --pack or --pack-live.
    Extract(ExtractArgs),
    /// Convert a public block trace (MSR, Alibaba, blkparse, fio, ...) into a trace
    ///
    /// Block traces have no call paths: a context is at best a process or a stream. Schemes that go by addresses
    /// (AutoStream, sequential) and the oracles see all they need. What the scheme `pcstream` gives here says nothing
    /// about PCStream.
    Import(ImportArgs),
    /// Print a completion script for a shell
    #[command(after_help = "Example:\n  pcstream completions bash > /etc/bash_completion.d/pcstream")]
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Print the man page, or write the pages of all commands into a directory
    #[command(
        after_help = "Examples:\n  pcstream man | man -l -\n  pcstream man -o /usr/local/share/man/man1"
    )]
    Man {
        /// Directory for all pages; it is made if it is missing
        #[arg(short, long, value_name = "DIR")]
        output: Option<PathBuf>,
    },
}
