//! Snapshots as tables on stdout, and as lines of JSON.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use pcstream_report::{Layout, escape};
use pcstream_watch::json::IntervalJson;
use pcstream_watch::{Snapshot, text};

use crate::args::TopArgs;
use crate::failure::Failure;
use crate::stop::Shown;
use crate::{ui, whole_file};

/// Prints a table; a blank line comes before all but the first.
pub fn table(snapshot: &Snapshot, args: &TopArgs, layout: Layout, first: bool) -> Result<(), Failure> {
    let table = text::table(&snapshot.by(args.by), args.sort, args.rows, layout);
    ui::print(&if first { table } else { format!("\n{table}") })
}

/// Where JSON goes, one object per line.
pub enum Lines {
    /// Instead of the tables.
    Stdout,
    /// Beside them, at this path. What goes into a regular file is written whole.
    File(File, PathBuf, Option<Arc<Shown>>),
}

impl Lines {
    /// `-` is stdout. A file that is made nobody else may read: it has names of files in it.
    pub fn open(path: &Path, shown: &Arc<Shown>) -> anyhow::Result<Lines> {
        if whole_file::is_stdout(path) {
            return Ok(Lines::Stdout);
        }
        let real = whole_file::place("--json", path)?;
        let file = open_or_make(&real).with_context(|| whole_file::cannot_write("--json", path))?;
        let regular = file.metadata().is_ok_and(|file| file.is_file());
        Ok(Lines::File(file, path.to_owned(), regular.then(|| shown.clone())))
    }

    /// The file, if it is a regular one: to be emptied when the first line is sure to come.
    pub fn to_be_emptied(&self) -> anyhow::Result<Option<File>> {
        match self {
            Lines::File(file, path, Some(_)) => {
                let file = file.try_clone().with_context(|| whole_file::cannot_write("--json", path))?;
                Ok(Some(file))
            }
            _ => Ok(None),
        }
    }

    /// Whether the tables have to give way.
    pub fn is_stdout(&self) -> bool {
        matches!(self, Lines::Stdout)
    }

    /// Writes a snapshot that was taken just now.
    pub fn write(&mut self, snapshot: &Snapshot) -> Result<(), Failure> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
        let object = IntervalJson::new(snapshot, now);
        let line = serde_json::to_string(&object).context("cannot make JSON of the interval")?;
        let line = escape::json(line) + "\n";
        match self {
            Lines::Stdout => ui::print(&line),
            Lines::File(file, path, regular) => {
                let written = match regular {
                    Some(shown) => shown.to_file(|| file.write_all(line.as_bytes())),
                    None => file.write_all(line.as_bytes()),
                };
                Ok(written.with_context(|| format!("--json {}", path.display()))?)
            }
        }
    }
}

/// Opens what is at a resolved path, or makes a file.
fn open_or_make(path: &Path) -> io::Result<File> {
    match whole_file::open_there(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
        }
        opened => opened,
    }
}
