//! Arguments of `top`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args};
use pcstream_watch::{RowsBy, SortBy};

use super::attach::AttachArgs;
use super::metrics::MetricsArgs;
use crate::values;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo pcstream top --on /var/lib/postgresql
  sudo pcstream top --on /srv --unit mariadb --sort lifetime
  sudo pcstream top --on /srv --once
  sudo pcstream top --on /srv --once --by program
  sudo pcstream top --on /srv --json - | jq '.written.bytes_per_s'
  sudo pcstream top --on /srv --metrics 9469 > /dev/null")]
#[command(group(ArgGroup::new("attached").args(["pid", "cgroup", "unit"])))]
pub struct TopArgs {
    /// Watch the file system that holds DIR, or a block device: what is mounted from it, or else its own writes
    #[arg(long, value_name = "DIR|DEVICE", default_value = ".")]
    pub on: PathBuf,
    /// Follow only what is written to files in DIR of --on and below it; others are one row
    #[arg(long)]
    pub dir_only: bool,
    /// Time between two looks, from 200ms to 1h; rates are means over the last five
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = interval)]
    pub interval: Duration,
    /// Print one table after one interval, and end
    #[arg(long)]
    pub once: bool,
    /// Watch for so long, such as 60s or 5m (seconds without a unit) [default: until q or Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub duration: Option<Duration>,
    /// What a row stands for: a call path, or a program with all of its call paths
    #[arg(long, value_name = "WHAT", default_value = "context", value_parser = values::named(RowsBy::ALL, |by| by.name().into()))]
    pub by: RowsBy,
    /// What rows are sorted by
    #[arg(long, value_name = "COLUMN", default_value = "rate", value_parser = values::named(SortBy::ALL, |by| by.name().into()))]
    pub sort: SortBy,
    /// Rows of a printed table (with --once, or where stdout is no terminal)
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = values::rows)]
    pub rows: usize,
    /// Streams between which `pcstream` chooses, S0 included
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = values::streams)]
    pub streams: u8,
    /// Begin with the lifetimes that `simulate --save-table` or `place` saved
    #[arg(long, value_name = "FILE")]
    pub load_table: Option<PathBuf>,
    /// Write one JSON object per interval to FILE, a line each; a file that is there is emptied first; '-' is stdout, and
    /// replaces the tables
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    #[command(flatten)]
    pub metrics: MetricsArgs,
    #[command(flatten, next_help_heading = "Attach (all others that write are one row)")]
    pub attach: AttachArgs,
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = values::duration(text)?;
    let range = Duration::from_millis(200)..=Duration::from_secs(3600);
    if range.contains(&interval) { Ok(interval) } else { Err("expected a time from 200ms to 1h".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_have_a_range() {
        assert_eq!(interval("200ms"), Ok(Duration::from_millis(200)));
        assert!(interval("100ms").is_err() && interval("2h").is_err() && interval("x").is_err());
    }
}
