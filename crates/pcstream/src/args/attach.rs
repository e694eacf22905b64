//! What `record` records: a command that it starts, or what runs already.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args};

use crate::values;

#[derive(Debug, Args)]
#[command(group(
    ArgGroup::new("attached").args(["pid", "cgroup", "unit"]).requires("on").conflicts_with("forward_exit_code")
))]
pub struct RecordedArgs {
    /// Attach to this process and what it starts, instead of starting a command
    #[arg(long, value_name = "P", value_parser = values::pid, help_heading = "Attach")]
    pub pid: Option<u32>,
    /// Attach to this cgroup (version 2) and those below it: a directory, or its path below the mount of cgroups
    #[arg(long, value_name = "C", help_heading = "Attach")]
    pub cgroup: Option<PathBuf>,
    /// Attach to this systemd unit
    #[arg(long, value_name = "NAME", help_heading = "Attach")]
    pub unit: Option<String>,
    /// Record for so long, such as 60s or 5m [default: until the process ends, the cgroup is removed, or Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = values::duration, requires = "attached", help_heading = "Attach")]
    pub duration: Option<Duration>,
    /// The program to record and its arguments, after --
    #[arg(
        last = true,
        required_unless_present = "attached",
        conflicts_with = "attached",
        value_name = "COMMAND"
    )]
    pub words: Vec<OsString>,
}
