//! A table of fixed pages, updated in place through a write-ahead log, as SQLite does it in WAL mode.
//!
//! Every transaction appends the new versions of its pages to the log. After 1,000 pages a checkpoint makes the log safe,
//! writes the newest version of each page to its place, and starts the log at its beginning again. At the end every
//! page is read back.
//!
//! The steps are functions of their own, so that a capture can tell them apart.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use anyhow::{Context as _, ensure};

use super::random::Random;

const PAGE: usize = 4096;
const PAGES: u64 = 70_000;
const TRANSACTIONS: f64 = 160_000.0;
/// Pages changed by a transaction.
const UPDATES: u64 = 4;
/// Pages in the log that cause a checkpoint.
const CHECKPOINT: u64 = 1_000;

type Page = [u8; PAGE];

struct Table {
    pages: File,
    log: File,
    /// Pages in the log.
    logged: u64,
    /// What is in the log and not yet in place.
    newest: BTreeMap<u64, Box<Page>>,
    /// Version of every page, for the check at the end.
    versions: Vec<u64>,
}

/// Loads the table into `dir`, does `part` of the updates, and checks every page.
pub fn workload(dir: &Path, part: f64) -> anyhow::Result<()> {
    let mut table = Table::create(dir).context("cannot create the table")?;
    table.load().context("table.db")?;
    let mut random = Random::new(1);
    for _ in 0..(TRANSACTIONS * part) as u64 {
        table.transaction(&mut random).context("table.db-log")?;
        if table.logged >= CHECKPOINT {
            table.checkpoint().context("table.db")?;
        }
    }
    table.checkpoint().context("table.db")?;
    table.verify()
}

/// A page's content follows from its number and version.
fn content(number: u64, version: u64) -> Box<Page> {
    let mut page = Box::new([0; PAGE]);
    Random::new(number << 32 | version).fill(&mut page[..]);
    page[..8].copy_from_slice(&number.to_le_bytes());
    page[8..16].copy_from_slice(&version.to_le_bytes());
    page
}

impl Table {
    fn create(dir: &Path) -> std::io::Result<Table> {
        let create = |name: &str| {
            File::options().read(true).write(true).create(true).truncate(true).open(dir.join(name))
        };
        Ok(Table {
            pages: create("table.db")?,
            log: create("table.db-log")?,
            logged: 0,
            newest: BTreeMap::new(),
            versions: vec![0; PAGES as usize],
        })
    }

    #[inline(never)]
    fn load(&mut self) -> std::io::Result<()> {
        for number in 0..PAGES {
            self.pages.write_all_at(&content(number, 0)[..], number * PAGE as u64)?;
        }
        self.pages.sync_data()
    }

    fn transaction(&mut self, random: &mut Random) -> std::io::Result<()> {
        for _ in 0..UPDATES {
            let number = random.below(PAGES);
            self.versions[number as usize] += 1;
            let page = content(number, self.versions[number as usize]);
            self.append_to_log(&page)?;
            self.newest.insert(number, page);
        }
        Ok(())
    }

    #[inline(never)]
    fn append_to_log(&mut self, page: &Page) -> std::io::Result<()> {
        self.log.write_all_at(page, self.logged * PAGE as u64)?;
        self.logged += 1;
        Ok(())
    }

    #[inline(never)]
    fn checkpoint(&mut self) -> std::io::Result<()> {
        self.log.sync_data()?;
        for (number, page) in std::mem::take(&mut self.newest) {
            self.pages.write_all_at(&page[..], number * PAGE as u64)?;
        }
        self.pages.sync_data()?;
        self.logged = 0;
        Ok(())
    }

    fn verify(&self) -> anyhow::Result<()> {
        let mut page = [0; PAGE];
        for (number, &version) in (0..).zip(&self.versions) {
            self.pages.read_exact_at(&mut page, number * PAGE as u64).context("table.db")?;
            ensure!(page == *content(number, version), "page {number} of table.db is not what was written");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_is_not_what_was_written_is_found() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut table = Table::create(dir.path()).expect("it is created");
        table.versions.truncate(64);
        table.checkpoint().expect("it can be written");
        (0..64)
            .for_each(|n| table.pages.write_all_at(&content(n, 0)[..], n * PAGE as u64).expect("it writes"));
        table.verify().expect("all is as written");
        table.versions[3] = 1;
        assert!(table.verify().is_err());
        table.newest.insert(3, content(3, 1));
        table.checkpoint().expect("it can be written");
        table.verify().expect("the checkpoint wrote it");
    }
}
