//! Arguments of `serve`.

use std::path::PathBuf;

use clap::Args;

use crate::values;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo pcstream serve /dev/nvme0n1     # makes /dev/ublkb0, and goes on
  sudo mount /dev/ublkb0 /srv          # in another terminal
  sudo pcstream place --on /srv

It serves until SIGTERM, SIGINT or SIGHUP, and then until nobody has the device mounted. If it is killed, writes get \
EIO; nothing is lost that was flushed, and the disk itself can be mounted.")]
pub struct ServeArgs {
    /// The whole disk, such as /dev/nvme0n1: nobody else may use it meanwhile
    #[arg(value_name = "DISK")]
    pub disk: PathBuf,
    /// The number of the device, N of /dev/ublkbN [default: the first that is free]
    #[arg(long, value_name = "N", value_parser = values::within::<u32>(0, 65_535))]
    pub id: Option<u32>,
    /// Queues, each with a thread: 1 to 32, at most one for each processor [default: one for each, up to 4]
    #[arg(long, value_name = "N", value_parser = values::within::<u16>(1, 32))]
    pub queues: Option<u16>,
    /// Requests that each queue handles at once: 1 to 1024
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = values::within::<u16>(1, 1024))]
    pub depth: u16,
}
