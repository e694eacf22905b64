//! Arguments of `rules`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pcstream rules
  pcstream rules classes > my.rules
  pcstream generate hotcold --pages 64K --writes 1M -o hot.pctrace
  pcstream simulate hot.pctrace --scheme baseline,manual --rules my.rules
  pcstream rules --rocksdb-log /srv/db/LOG /srv/db/LOG.old.* > levels.rules")]
pub struct RulesArgs {
    /// The preset to print; without one, all are listed
    #[arg(value_name = "PRESET", conflicts_with = "rocksdb_log")]
    pub preset: Option<String>,
    /// Make rules from RocksDB's LOG: a stream for the tables of each level. Give all logs of one database
    #[arg(long, value_name = "LOG", num_args = 1..)]
    pub rocksdb_log: Vec<PathBuf>,
}
