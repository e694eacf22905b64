//! What `record` records: a command that it starts, or what runs already.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgGroup, Args};

use crate::values;

/// What runs already.
#[derive(Debug, Args)]
#[group(skip)]
pub struct AttachArgs {
    /// Follow this process and what it starts; several are separated by commas
    #[arg(long, value_name = "P", value_parser = values::pid, value_delimiter = ',')]
    pub pid: Vec<u32>,
    /// Follow this cgroup (version 2) and those below it: a directory, or its path below the mount of cgroups
    #[arg(long, value_name = "C")]
    pub cgroup: Option<PathBuf>,
    /// Follow this systemd unit
    #[arg(long, value_name = "NAME")]
    pub unit: Option<String>,
}

#[derive(Debug, Args)]
#[command(group(
    ArgGroup::new("attached").args(["pid", "cgroup", "unit"]).requires("on").conflicts_with("forward_exit_code")
))]
pub struct RecordedArgs {
    /// The program to record and its arguments, after --
    #[arg(last = true, conflicts_with = "attached", value_name = "COMMAND")]
    pub words: Vec<OsString>,
    #[command(flatten, next_help_heading = "Attach (needs --on, and takes no command)")]
    pub attach: AttachArgs,
}
