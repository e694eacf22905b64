//! Arguments of the commands that capture. They are parsed the same way in every build, so that
//! help, man pages and scripts do not depend on what this binary was built with.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{ArgGroup, Args, ValueEnum};
use pcstream_fs::scratch::Image;
use pcstream_trace::Unwind;

use super::attach::RecordedArgs;
use super::emulated::EmulatedArgs;
#[cfg(feature = "capture")]
use super::simulation::FitArgs;
use super::simulation::{PackArgs, SimulationArgs};
use crate::values;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo pcstream run --fs xfs -- dd if=/dev/zero of={}/file bs=1M count=100
  sudo pcstream run -o db.pctrace -- db_bench --db={} --benchmarks=overwrite
  sudo pcstream run --repeat 5 -- db_bench --db={} --benchmarks=overwrite
  sudo pcstream run --on . --pack 0.9 -- make -j4     # a large disk
  sudo pcstream run --live --fill 0.5 -- db_bench --db={} --benchmarks=overwrite

{} in the command stands for the mount point of the scratch file system, or for DIR of --on. It is also the command's \
working directory. What the command prints on stdout goes to stderr: stdout has the results.")]
pub struct RunArgs {
    #[command(flatten)]
    pub capture: CaptureArgs,
    /// Keep the trace: a new directory NAME.pctrace
    #[arg(short, long, value_name = "T.pctrace", help_heading = "Capture")]
    pub output: Option<PathBuf>,
    /// Replace the trace if it exists
    #[arg(long, requires = "output", help_heading = "Capture")]
    pub force: bool,
    /// Run the command N times (2 to 100), each on a fresh scratch device, and show means, least and greatest
    ///
    /// The device and seed of the simulation are the same each time. -o NAME.pctrace keeps the traces NAME-1.pctrace,
    /// NAME-2.pctrace and so on. Not with --on, whose file system is another one after each run, and not with --live,
    /// which runs the command once for each scheme. Nor with --pack and --pack-live: their devices would differ.
    #[arg(
        long,
        value_name = "N",
        value_parser = values::within::<u32>(2, 100),
        conflicts_with_all = ["on", "live", "pack", "pack_live"],
        help_heading = "Capture"
    )]
    pub repeat: Option<u32>,
    #[command(flatten)]
    pub emulated: EmulatedArgs,
    #[command(flatten)]
    pub simulation: SimulationArgs,
    #[command(flatten)]
    pub packed: PackArgs,
    /// Memory that the simulation may take, such as 2G [default: three quarters of what is free]
    ///
    /// Schemes run while the program does. If all of them together could take more, they run after it over the
    /// recording, as many at once as fit. What cannot fit is refused before the program starts. On a packed device
    /// they run after it.
    #[arg(long, value_name = "BYTES", value_parser = values::size)]
    pub memory: Option<u64>,
    #[command(flatten)]
    pub command: CommandArgs,
}

#[cfg(feature = "capture")]
impl RunArgs {
    /// The address space of the simulation, and the memory that it may take.
    pub fn fit(&self) -> FitArgs {
        FitArgs { packed: self.packed.clone(), memory: self.memory, ..FitArgs::default() }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo pcstream record -o db.pctrace -- db_bench --db={} --benchmarks=overwrite
  sudo pcstream record -o build.pctrace --on . -- make -j4
  sudo pcstream record -o web.pctrace --on /srv --duration 10m -- ./server
  sudo pcstream record -o t.pctrace --on /var/lib/mysql --unit mariadb
  sudo pcstream record -o t.pctrace --on / --pid 1234 --duration 5m
  sudo pcstream record -o t.pctrace --on /srv --duration 5m   # all that write
  sudo pcstream record -o t.pctrace --on /data --on /wal --unit postgresql

Without a command, and without --pid, --cgroup or --unit, everything that writes to the file system of --on is recorded. \
{} in the command stands for the mount point of the scratch file system, or for DIR of --on. It is also the command's \
working directory. What the command prints on stdout goes to stdout. With several --on, the first is that of the command, \
and each device has a trace of its own: t-sda1.pctrace, t-sdb1.pctrace, and so on; merge --by-start makes one of them.")]
pub struct RecordArgs {
    #[command(flatten)]
    pub capture: CaptureArgs,
    /// Where the trace goes: a new directory NAME.pctrace. With several --on: NAME-DEVICE.pctrace for each of them
    #[arg(short, long, value_name = "T.pctrace", help_heading = "Capture")]
    pub output: PathBuf,
    /// Replace the trace if it exists
    #[arg(long, help_heading = "Capture")]
    pub force: bool,
    #[command(flatten)]
    pub recorded: RecordedArgs,
}

/// What is recorded, and on what.
#[derive(Clone, Debug, Args)]
#[command(group(ArgGroup::new("place").args(["on", "image"])))]
pub struct CaptureArgs {
    /// File system of the scratch device
    #[arg(
        long,
        value_name = "TYPE",
        default_value = "ext4",
        conflicts_with = "on",
        help_heading = "Capture"
    )]
    pub fs: ScratchFs,
    /// Size of the scratch device, such as 8G or 512M; it takes memory only for what is written to it
    #[arg(long, value_name = "BYTES", default_value = "8G", value_parser = values::size, conflicts_with = "on", help_heading = "Capture")]
    pub size: u64,
    /// Share of the scratch file system that is filled before the recording begins: from 0, below 1
    #[arg(long, value_name = "FRACTION", default_value_t = 0.9, value_parser = values::share_below_1, conflicts_with = "on", help_heading = "Capture")]
    pub fill: f64,
    /// What backs the scratch device: compressed memory, memory, or a file at PATH
    #[arg(long, value_name = "zram|tmpfs|PATH", default_value = "zram", value_parser = image, help_heading = "Capture")]
    pub image: Image,
    /// Record on the existing file system that holds DIR, or that is mounted from DEVICE, instead of on a scratch device.
    /// Of a DEVICE without a file system, record what is written to it. `record` takes several, each with a flag of its own
    #[arg(long, value_name = "DIR|DEVICE", help_heading = "Capture")]
    pub on: Vec<PathBuf>,
    /// Follow only what is written to files in DIR of --on and below it; what is written to other files of the same file
    /// system has the context `others`
    #[arg(long, requires = "on", help_heading = "Capture")]
    pub dir_only: bool,
    /// Record for so long, such as 60s or 5m (seconds without a unit); then a command is asked to end (SIGTERM), which is no
    /// failure of it. On a scratch file system it is killed if it has not ended half a second later [default: until the
    /// command or process ends, the cgroup is removed, or Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = values::duration, help_heading = "Capture")]
    pub duration: Option<Duration>,
    /// Return addresses kept of each call path: 1 to 16 [default: 12; of a stack scan 5]
    #[arg(long, value_name = "N", value_parser = values::within::<u8>(1, 16), help_heading = "Capture")]
    pub depth: Option<u8>,
    /// How call paths are read: exactly, along frame pointers, by the restricted stack scan, or the best that each
    /// program allows
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = unwind_choices(), help_heading = "Capture")]
    pub unwind: UnwindChoice,
    /// How the frames of a call path make its signature
    #[arg(long, value_name = "HOW", default_value = "hash", help_heading = "Capture")]
    pub order: OrderArg,
    /// Give pages that a program writes from a buffer of its own the call path that made them dirty: `postgresql`,
    /// `mariadb`, a rules file, or a program or library built with pcstream.h (see docs/write-buffers.md). May be
    /// repeated
    #[arg(long, value_name = "WHAT", help_heading = "Capture")]
    pub write_buffers: Vec<String>,
    /// Hide the command's arguments, directories of programs, and file names (extensions stay) in the trace and in what is
    /// printed
    #[arg(long, help_heading = "Capture")]
    pub redact: bool,
    /// End with the command's own exit code if it fails (128 and the signal's number if a signal ended it), not with 1
    #[arg(long, requires = "words", help_heading = "Capture")]
    pub forward_exit_code: bool,
}

#[cfg(feature = "capture")]
impl CaptureArgs {
    /// The existing file system or device; of several the first. `None`: a scratch device.
    pub fn on(&self) -> Option<&std::path::Path> {
        self.on.first().map(PathBuf::as_path)
    }

    /// The same flags for each existing file system or device alone.
    pub fn each(&self) -> Vec<CaptureArgs> {
        self.on.iter().map(|on| CaptureArgs { on: vec![on.clone()], ..self.clone() }).collect()
    }
}

#[derive(Debug, Args)]
pub struct CommandArgs {
    /// The program to record and its arguments, after --
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub words: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo pcstream doctor
  sudo pcstream doctor /var/lib/x  # what place can do there
  sudo pcstream doctor --clean     # after a recording was killed")]
pub struct DoctorArgs {
    /// A directory, file or block device: also say which sink `place` takes there, and what a better one needs
    #[arg(value_name = "DIR|DEVICE", conflicts_with = "clean")]
    pub path: Option<PathBuf>,
    /// Remove scratch devices and mounts that a killed recording left behind
    #[arg(long)]
    pub clean: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ScratchFs {
    /// ext4, whose journal holds metadata
    Ext4,
    /// ext4 without a journal
    #[value(name = "ext4-nojournal")]
    Ext4NoJournal,
    /// ext4, whose journal holds data, too: they are written twice
    #[value(name = "ext4-datajournal")]
    Ext4DataJournal,
    /// XFS
    Xfs,
    /// F2FS, a log of its own on the device
    F2fs,
}

/// How call paths are read; `None` is `auto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnwindChoice(pub Option<Unwind>);

impl UnwindChoice {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        self.0.map_or("auto", Unwind::name)
    }
}

/// Choices of `--unwind` and what they mean.
const UNWIND_CHOICES: [(Option<Unwind>, &str); 4] = [
    (None, "Exactly where the code has call-frame tables, else along frame pointers, else by the scan"),
    (
        Some(Unwind::Exact),
        "Along the call-frame tables of programs and libraries; paths end at code without them",
    ),
    (Some(Unwind::FramePointer), "Frame pointers"),
    (Some(Unwind::Scan), "The restricted stack scan of the PCStream paper"),
];

pub(super) fn unwind_choices() -> impl TypedValueParser<Value = UnwindChoice> {
    let shown = |(how, help)| PossibleValue::new(UnwindChoice(how).name()).help(help);
    values::named(UNWIND_CHOICES, shown).map(|(how, _)| UnwindChoice(how))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OrderArg {
    /// A hash in which their order counts
    Hash,
    /// Their sum, as in the PCStream paper: the same frames in another order are the same path
    Sum,
}

impl OrderArg {
    /// The name on the command line.
    #[cfg(feature = "capture")]
    pub fn name(self) -> &'static str {
        match self {
            OrderArg::Hash => "hash",
            OrderArg::Sum => "sum",
        }
    }
}

/// What backs a scratch device.
fn image(text: &str) -> Result<Image, String> {
    match text {
        "" => Err("expected zram, tmpfs or the path of a file".to_owned()),
        text => Ok(text.into()),
    }
}
