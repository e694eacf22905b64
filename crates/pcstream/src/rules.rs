//! `rules`: presets as they are written, and rules made from a program's own records.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use pcstream_placement::{RocksdbLog, Rules};
use pcstream_report::Layout;

use crate::args::RulesArgs;
use crate::failure::{Failure, Status};
use crate::small_file;
use crate::ui::{self, Ui};

/// Longest log; RocksDB begins a new one with each opening of the database.
const MAX_LOG_BYTES: u64 = 1 << 28;

/// `pcstream rules`.
pub fn rules(args: &RulesArgs, ui: Ui) -> Result<Status, Failure> {
    match &args.preset {
        Some(name) => {
            ui::print(Rules::preset_text(name).map_err(Failure::wrong_arguments)?)?;
            Ok(Status::Done)
        }
        None if args.rocksdb_log.is_empty() => {
            ui::print(&list(ui.layout(false)))?;
            Ok(Status::Done)
        }
        None => by_level(&args.rocksdb_log, ui),
    }
}

fn list(layout: Layout) -> String {
    let width = Rules::presets().map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines =
        Rules::presets().map(|(name, what)| layout.fit(&format!("{name:width$}  {what}\n"), width + 2));
    lines.collect::<String>() + "\n`pcstream rules NAME` prints one; `--rules NAME` uses it.\n"
}

fn by_level(paths: &[PathBuf], ui: Ui) -> Result<Status, Failure> {
    let mut log = RocksdbLog::default();
    for path in paths {
        let text = text_of(path).with_context(|| format!("--rocksdb-log {}", path.display()))?;
        log.read(text.lines());
    }
    if log.levels().next().is_none() {
        let error = anyhow!(
            "--rocksdb-log: no table's level is in it; RocksDB writes LOG and LOG.old.* into the database's directory, \
             unless its logger is another one"
        );
        return Err(error.into());
    }
    let counts = log.levels().map(|(level, tables)| format!("{tables} at level {level}"));
    ui.remark(&format!("tables: {}", counts.collect::<Vec<_>>().join(", ")));
    if log.without_level() > 0 {
        let tables = log.without_level();
        ui.remark(&format!("{tables} tables have no rule and go to S0: their jobs do not end in these logs"));
    }
    if log.unreadable_events() > 0 {
        ui.remark(&format!("{} events could not be read", log.unreadable_events()));
    }
    ui::print(&log.rules())?;
    Ok(Status::with_losses(log.unreadable_events() > 0))
}

/// RocksDB writes names as they are, so a log need not be text throughout.
fn text_of(path: &Path) -> anyhow::Result<String> {
    let bytes = small_file::read_bytes(path, MAX_LOG_BYTES, "a LOG of RocksDB")?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_fits_a_terminal() {
        let text = list(Layout { width: Some(80), ..Layout::PLAIN });
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        assert!(text.contains("\ncommon ") || text.starts_with("common "), "{text}");
        assert!(list(Layout::PLAIN).lines().any(|line| line.len() > 80), "a file has lines of any length");
    }
}
