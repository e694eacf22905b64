//! Arguments of `place`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args};

use super::attach::AttachArgs;
use super::capture::{UnwindChoice, unwind_choices};
use super::metrics::MetricsArgs;
use super::simulation::OutputArgs;
use crate::values::{self, Setting};

const ATTACH: &str = "Attach (only what these write is placed)";

#[derive(Debug, Args)]
#[command(
    group(ArgGroup::new("whose").args(["pid", "cgroup", "unit", "words"])),
    after_help = "\
Examples:
  sudo pcstream place --on /srv --sink none --duration 5m    # a dry run
  sudo pcstream place --on /srv                              # until Ctrl-C
  sudo pcstream place --on /srv --metrics 9469               # and serve metrics
  sudo pcstream place --on /srv/db --dir-only                # this directory
  sudo pcstream place --on /srv -- db_bench --db={}/db --benchmarks=overwrite
  sudo systemctl enable --now pcstream-place@srv.service     # as a service

Without a command, and without --pid, --cgroup or --unit, everything that writes to the file system \
is placed. A command runs in DIR, and {} in it stands for DIR. What it prints on stdout goes to stderr."
)]
pub struct PlaceArgs {
    /// A program to start, and its arguments, after --
    #[arg(last = true, value_name = "COMMAND")]
    pub words: Vec<OsString>,
    /// The mounted ext4, XFS or F2FS whose writes are placed: a directory on it, or its block device. Or a block device without a
    /// file system, which a program writes to directly
    #[arg(long, value_name = "DIR|DEVICE", required = true, help_heading = "Placement")]
    pub on: PathBuf,
    /// Place only what is written to files in DIR of --on and below it
    #[arg(long, help_heading = "Placement")]
    pub dir_only: bool,
    /// Where decisions go: `auto` takes the best that the device and the kernel have
    #[arg(long, value_name = "SINK", default_value = "auto", value_parser = values::sink, help_heading = "Placement", long_help = sinks_help())]
    pub sink: String,
    /// The scheme: one that places by program context, such as `pcstream-tree`, or by program (`vstream-executable`)
    #[arg(long, value_name = "NAME", default_value = "pcstream", value_parser = values::scheme_name, help_heading = "Placement")]
    pub scheme: String,
    /// Set a parameter of the scheme; `pcstream schemes NAME` lists them. May be repeated
    #[arg(long, value_name = "SCHEME.PARAMETER=VALUE", help_heading = "Placement")]
    pub set: Vec<Setting>,
    /// Streams that the scheme uses, S0 included: 2 to 16 [default: as many as the sink has on the device]
    #[arg(long, value_name = "N", value_parser = values::within::<u8>(2, 16), help_heading = "Placement")]
    pub streams: Option<u8>,
    /// Replace hints that programs gave their files themselves
    #[arg(long, help_heading = "Placement")]
    pub override_hints: bool,
    /// File of the table of lifetimes that the scheme learned: read at the start, saved while `place` runs and at the end
    /// [default: without a command, /var/lib/pcstream/place-NAME.table, where NAME is what `systemd-escape --path DIR`
    /// prints; with a command, none]
    #[arg(long, value_name = "FILE", help_heading = "Placement")]
    pub table: Option<PathBuf>,
    /// Time between two saves of the table
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = values::duration, help_heading = "Placement")]
    pub save_every: Duration,
    /// How call paths are read
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = unwind_choices(), help_heading = "Capture")]
    pub unwind: UnwindChoice,
    /// Return addresses kept of each call path: 1 to 16 [default: 12; of a stack scan 5]
    #[arg(long, value_name = "N", value_parser = values::within::<u8>(1, 16), help_heading = "Capture")]
    pub depth: Option<u8>,
    /// Give pages that a program writes from a buffer of its own the call path that made them dirty, as in `record`. May
    /// be repeated
    #[arg(long, value_name = "WHAT", help_heading = "Capture")]
    pub write_buffers: Vec<String>,
    #[command(flatten, next_help_heading = ATTACH)]
    pub attach: AttachArgs,
    /// Place for so long, such as 60s or 5m (seconds without a unit); then a command is asked to end (SIGTERM), which is no
    /// failure of it [default: until the command ends, or it is stopped]
    #[arg(long, value_name = "TIME", value_parser = values::duration, help_heading = "Placement")]
    pub duration: Option<Duration>,
    /// How many contexts are shown at the end, those that wrote the most; JSON has them all
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = values::rows, help_heading = "Output")]
    pub top: usize,
    #[command(flatten, next_help_heading = "Output")]
    pub metrics: MetricsArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

fn sinks_help() -> String {
    let mut help =
        String::from("Where decisions go: `auto` takes the first that works on the device and the kernel\n");
    for sink in pcstream_place::sinks::REGISTRY {
        help += &format!("\n  {:10}  {}", sink.name, sink.summary);
    }
    help
}
