//! Finished runs of a sweep that has not ended, so that it can go on after it was killed.
//!
//! `OUTPUT.unfinished`, beside the output: a line of JSON per run, `{"run": KEY, "damage": null, "results": [...]}`,
//! flushed to the disk after each pass over the trace. A run is found again by its key, so a grid may grow or shrink
//! between two tries. A last line without its end is what a killed sweep was writing: it is cut off. Runs over a damaged
//! trace are made again. The sweep that ends removes the file, which is locked until then.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use pcstream_replay::LaneResult;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::results::{self, Column};
use super::sheet::Cell;
use crate::whole_file;

/// A run that is done.
#[derive(Clone, Debug, PartialEq)]
pub struct Done {
    /// Cells of [`results::RESULTS`].
    pub results: Vec<Cell>,
    /// Why reading the trace ended early, if it did.
    pub damage: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    run: String,
    damage: Option<String>,
    results: Vec<Value>,
}

/// The file, or finished runs that are kept nowhere.
#[derive(Default)]
pub struct Journal {
    kept: Option<(PathBuf, File)>,
    done: HashMap<String, Done>,
}

impl Journal {
    /// Where the journal of a sweep into `output` lies.
    fn path_of(output: &Path) -> PathBuf {
        let mut name = output.as_os_str().to_owned();
        name.push(".unfinished");
        name.into()
    }

    /// Opens the journal beside `output`, and makes it if there is none.
    pub fn open(output: &Path) -> anyhow::Result<Journal> {
        let path = Journal::path_of(output);
        let problem = || format!("{}: cannot keep finished runs there", path.display());
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).custom_flags(OFlags::NOFOLLOW.bits() as i32);
        let mut file = options.open(&path).with_context(problem)?;
        // Whoever made it would say what the results are.
        whole_file::believe(&file, &path).with_context(problem)?;
        let is_file = file.metadata().with_context(problem)?.is_file();
        anyhow::ensure!(is_file, "{}: expected a regular file, or none", problem());
        // File systems without locks cannot tell.
        if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            bail!(
                "{}: another sweep writes it; wait until it ends, or choose another --output",
                output.display()
            );
        }
        // A sweep that ends just now removes its journal.
        if file.metadata().with_context(problem)?.nlink() == 0 {
            return Journal::open(output);
        }
        let mut lines = Vec::new();
        file.read_to_end(&mut lines).with_context(problem)?;
        let whole = lines.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let mut done = HashMap::new();
        for (number, line) in lines[..whole].split_inclusive(|byte| *byte == b'\n').enumerate() {
            let (run, result) = read(line).with_context(|| {
                format!(
                    "{}, line {}: not a finished run of this version; remove the file to start again",
                    path.display(),
                    number + 1
                )
            })?;
            // What a damaged trace gave is no result of the one that it was mended to.
            if result.damage.is_none() {
                done.insert(run, result);
            }
        }
        // Not before: a file of something else is left as it is.
        file.set_len(whole as u64).with_context(problem)?;
        Ok(Journal { kept: Some((path, file)), done })
    }

    /// Where finished runs are kept, if they are.
    pub fn path(&self) -> Option<&Path> {
        self.kept.as_ref().map(|(path, _)| path.as_path())
    }

    /// A run that was finished before.
    pub fn done(&self, key: &str) -> Option<&Done> {
        self.done.get(key)
    }

    /// Keeps finished runs: when this returns, they are on the disk.
    pub fn keep(&mut self, runs: Vec<(String, Done)>) -> anyhow::Result<()> {
        let mut lines = String::new();
        for (run, Done { results, damage }) in &runs {
            let results = results.iter().map(Cell::to_json).collect();
            let line = Line { run: run.clone(), damage: damage.clone(), results };
            lines += &serde_json::to_string(&line)?;
            lines.push('\n');
        }
        if let Some((path, file)) = &mut self.kept {
            let written = file.write_all(lines.as_bytes()).and_then(|()| file.sync_data());
            written.with_context(|| format!("{}: cannot keep finished runs", path.display()))?;
        }
        self.done.extend(runs);
        Ok(())
    }

    /// The sweep has ended.
    pub fn remove(self) -> anyhow::Result<()> {
        let Some((path, _)) = &self.kept else { return Ok(()) };
        fs::remove_file(path).with_context(|| format!("{}: cannot be removed", path.display()))
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // Whoever was forked with the file open would keep the lock.
        let _ = self.kept.as_ref().map(|(_, file)| flock(file, FlockOperation::Unlock));
    }
}

fn read(line: &[u8]) -> anyhow::Result<(String, Done)> {
    let Line { run, damage, results } = serde_json::from_slice(line)?;
    let expected = results::RESULTS.len();
    anyhow::ensure!(results.len() == expected, "{} results, expected {expected}", results.len());
    let cell = |(column, value): (&Column<LaneResult>, &Value)| {
        Cell::from_json(value, column.kind()).ok_or_else(|| anyhow!("{} is {value}", column.name))
    };
    let results: anyhow::Result<Vec<Cell>> = results::RESULTS.iter().zip(&results).map(cell).collect();
    Ok((run, Done { results: results?, damage }))
}

#[cfg(test)]
mod tests {
    use super::super::sheet::Type;
    use super::*;

    fn some(waf: f64) -> Done {
        let cell = |column: &Column<LaneResult>| match column.kind() {
            Type::Real => Cell::Real(waf),
            _ => Cell::Null,
        };
        Done { results: results::RESULTS.iter().map(cell).collect(), damage: None }
    }

    #[test]
    fn what_was_kept_is_found_and_a_torn_line_is_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let output = dir.path().join("r.csv");
        let mut journal = Journal::open(&output).unwrap();
        journal.keep(vec![("a \"b\"".into(), some(1.25)), ("c".into(), some(0.1 + 0.2))]).unwrap();
        drop(journal);
        let path = Journal::path_of(&output);
        let whole = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{whole}{{\"run\":\"d\",\"dam")).unwrap();
        let mut journal = Journal::open(&output).unwrap();
        assert_eq!(journal.done("c"), Some(&some(0.1 + 0.2)));
        assert_eq!(journal.done("a \"b\""), Some(&some(1.25)));
        assert_eq!(journal.done("d"), None);
        journal.keep(vec![("d".into(), some(2.0))]).unwrap();
        assert!(Journal::open(&output).err().unwrap().to_string().contains("another sweep writes it"));
        drop(journal);
        let journal = Journal::open(&output).unwrap();
        assert_eq!(journal.done("d"), Some(&some(2.0)));
        journal.remove().unwrap();
        assert!(!path.exists());
    }

    /// Whoever made it may want root to change the file that it names.
    #[test]
    fn a_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (output, target) = (dir.path().join("r.csv"), dir.path().join("target"));
        fs::write(&target, "no line").unwrap();
        std::os::unix::fs::symlink(&target, Journal::path_of(&output)).unwrap();
        let error = format!("{:#}", Journal::open(&output).err().unwrap());
        assert!(error.contains("r.csv.unfinished"), "{error}");
        assert_eq!(fs::read(&target).unwrap(), b"no line");
    }

    #[test]
    fn a_line_of_something_else_is_refused_with_its_number() {
        let dir = tempfile::tempdir().unwrap();
        let output = dir.path().join("r.csv");
        for other in [b"{\"run\":\"a\",\"damage\":null,\"results\":[1]}\nmore".as_slice(), b"\xff\xfe\n\0"] {
            fs::write(Journal::path_of(&output), other).unwrap();
            let error = format!("{:#}", Journal::open(&output).err().unwrap());
            assert!(error.contains("line 1") && error.contains("remove the file"), "{error}");
            assert_eq!(fs::read(Journal::path_of(&output)).unwrap(), other, "it is left as it was");
        }
    }
}
