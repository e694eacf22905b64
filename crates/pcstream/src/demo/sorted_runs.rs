//! A log-structured store: updates are collected, written as sorted runs, and merged, as in an LSM tree.
//!
//! Every update goes to a log and into memory. 2,500 of them become a run of level 0. Four runs are merged with level 1,
//! which is one run of at most 16 MiB; when it is larger it is merged into level 2, table after table, so that only one
//! table exists twice. At the end every row is read back.
//!
//! The steps are functions of their own, so that a capture can tell them apart. Work is done where it arises: nothing lags
//! behind on a slow machine.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

use super::random::Random;

const KEYS: u64 = 150_000;
const UPDATES: f64 = 900_000.0;
/// Bytes of a row: key, version, and what follows from them.
const ROW: usize = 400;
/// Updates in memory that make a run of level 0.
const IN_MEMORY: usize = 2_500;
/// Runs of level 0 that are merged with level 1.
const RUNS: usize = 4;
/// Rows of level 1 that are merged into level 2.
const LEVEL_1_ROWS: usize = (16 << 20) / ROW;
/// Tables of level 2, each with as many keys.
const TABLES: u64 = 64;

/// Versions by key.
type Rows = BTreeMap<u64, u64>;

struct Store {
    dir: PathBuf,
    log: BufWriter<File>,
    memory: Rows,
    level_0: Vec<PathBuf>,
    /// Its rows, and the file where there are any.
    level_1: (usize, Option<PathBuf>),
    /// By range of keys; none where nothing was merged into it.
    level_2: Vec<Option<PathBuf>>,
    files: u64,
    /// Newest version of every key, for the check at the end.
    versions: Rows,
}

/// Does `part` of the updates in `dir`, and checks every row.
pub fn workload(dir: &Path, part: f64) -> anyhow::Result<()> {
    let mut store = Store::create(dir)?;
    let mut random = Random::new(2);
    for version in 1..=(UPDATES * part) as u64 {
        store.put(random.below(KEYS), version)?;
    }
    store.verify()
}

fn encode(key: u64, version: u64) -> [u8; ROW] {
    let mut row = [0; ROW];
    Random::new(key << 32 | version).fill(&mut row);
    row[..8].copy_from_slice(&key.to_le_bytes());
    row[8..16].copy_from_slice(&version.to_le_bytes());
    row
}

/// Rows of a file; newer ones replace what `rows` holds.
fn read(path: &Path, rows: &mut Rows) -> anyhow::Result<()> {
    let bytes = fs::read(path).with_context(|| path.display().to_string())?;
    ensure!(bytes.len() % ROW == 0, "{}: a row was cut", path.display());
    for row in bytes.chunks_exact(ROW) {
        let number = |at: usize| u64::from_le_bytes(row[at..at + 8].try_into().expect("eight bytes"));
        let (key, version) = (number(0), number(8));
        ensure!(row == encode(key, version), "{}: a row of key {key} is damaged", path.display());
        rows.entry(key).and_modify(|known| *known = version.max(*known)).or_insert(version);
    }
    Ok(())
}

impl Store {
    fn create(dir: &Path) -> anyhow::Result<Store> {
        let dir = dir.join("runs");
        fs::create_dir(&dir).with_context(|| dir.display().to_string())?;
        let log = BufWriter::new(File::create(dir.join("log")).context("runs/log")?);
        Ok(Store {
            dir,
            log,
            memory: Rows::new(),
            level_0: Vec::new(),
            level_1: (0, None),
            level_2: vec![None; TABLES as usize],
            files: 0,
            versions: Rows::new(),
        })
    }

    fn put(&mut self, key: u64, version: u64) -> anyhow::Result<()> {
        self.append_to_log(key, version).context("runs/log")?;
        self.memory.insert(key, version);
        self.versions.insert(key, version);
        if self.memory.len() >= IN_MEMORY {
            self.flush_memory()?;
        }
        if self.level_0.len() >= RUNS {
            self.merge_into_level_1()?;
        }
        if self.level_1.0 >= LEVEL_1_ROWS {
            self.merge_into_level_2()?;
        }
        Ok(())
    }

    #[inline(never)]
    fn append_to_log(&mut self, key: u64, version: u64) -> std::io::Result<()> {
        self.log.write_all(&encode(key, version))
    }

    /// A run of level 0; the log is not needed any more and begins again.
    #[inline(never)]
    fn flush_memory(&mut self) -> anyhow::Result<()> {
        let rows = std::mem::take(&mut self.memory);
        let run = self.write_run("level-0", &rows)?;
        self.level_0.push(run);
        let path = self.dir.join("log");
        self.log.flush().context("runs/log")?;
        fs::remove_file(&path).context("runs/log")?;
        self.log = BufWriter::new(File::create(path).context("runs/log")?);
        Ok(())
    }

    #[inline(never)]
    fn merge_into_level_1(&mut self) -> anyhow::Result<()> {
        let mut rows = Rows::new();
        let inputs: Vec<_> = self.level_0.drain(..).chain(self.level_1.1.take()).collect();
        inputs.iter().try_for_each(|path| read(path, &mut rows))?;
        let run = self.write_run("level-1", &rows)?;
        self.level_1 = (rows.len(), Some(run));
        inputs.iter().try_for_each(|path| remove(path))
    }

    #[inline(never)]
    fn merge_into_level_2(&mut self) -> anyhow::Result<()> {
        let Some(input) = self.level_1.1.take() else { return Ok(()) };
        let mut all = Rows::new();
        read(&input, &mut all)?;
        for table in 0..TABLES {
            let mut rows: Rows = all
                .range(table * KEYS / TABLES..(table + 1) * KEYS / TABLES)
                .map(|(k, v)| (*k, *v))
                .collect();
            let old = self.level_2[table as usize].take();
            old.iter().try_for_each(|path| read(path, &mut rows))?;
            self.level_2[table as usize] = Some(self.write_run("level-2", &rows)?);
            old.iter().try_for_each(|path| remove(path))?;
        }
        self.level_1.0 = 0;
        remove(&input)
    }

    fn write_run(&mut self, level: &str, rows: &Rows) -> anyhow::Result<PathBuf> {
        self.files += 1;
        let path = self.dir.join(format!("{level}-{}.run", self.files));
        let write = || {
            let mut file = BufWriter::with_capacity(1 << 16, File::create_new(&path)?);
            rows.iter().try_for_each(|(key, version)| file.write_all(&encode(*key, *version)))?;
            file.into_inner()?.sync_data()
        };
        write().with_context(|| path.display().to_string())?;
        Ok(path)
    }

    fn verify(&self) -> anyhow::Result<()> {
        let mut found = self.memory.clone();
        let files = self.level_0.iter().chain(&self.level_1.1).chain(self.level_2.iter().flatten());
        files.into_iter().try_for_each(|path| read(path, &mut found))?;
        ensure!(found == self.versions, "the sorted runs do not hold what was written");
        Ok(())
    }
}

fn remove(path: &Path) -> anyhow::Result<()> {
    fs::remove_file(path).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_runs_hold_the_newest_versions() {
        let dir = tempfile::tempdir().expect("a directory");
        // As much as makes every level.
        workload(dir.path(), 0.2).expect("all rows are found");
        let names = fs::read_dir(dir.path().join("runs")).expect("it is there").flatten();
        let tables = names.filter(|entry| entry.file_name().to_string_lossy().starts_with("level-2")).count();
        assert_eq!(tables, TABLES as usize);
    }

    #[test]
    fn lost_runs_are_found() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut store = Store::create(dir.path()).expect("it is created");
        (1..=IN_MEMORY as u64).for_each(|n| store.put(n, n).expect("it writes"));
        store.verify().expect("all is there");
        store.level_0.clear();
        assert!(store.verify().is_err());
    }
}
