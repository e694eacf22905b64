//! `--device FILE.toml`: settings of a device that replace those of a profile.
//!
//! A file is read twice: as a whole profile, which finds unknown keys and wrong types with their line, and as
//! plain tables, which say what was given and what was left out.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use pcstream_ssd::Profile;
use toml::{Table, Value};

use crate::failure::Failure;
use crate::small_file;

/// Settings that a file gives.
pub struct DeviceFile {
    path: PathBuf,
    tables: Table,
}

impl DeviceFile {
    /// Reads and checks a file.
    pub fn read(path: &Path) -> Result<DeviceFile, Failure> {
        let place = || format!("--device {}", path.display());
        let text = small_file::read_text(path).with_context(place).map_err(Failure::wrong_arguments)?;
        // Only for its errors, which know the line.
        let whole = toml::from_str::<Profile>(&text).map(drop);
        let tables = whole.and_then(|()| toml::from_str::<Table>(&text));
        let tables = tables.with_context(place).map_err(Failure::wrong_arguments)?;
        Ok(DeviceFile { path: path.to_owned(), tables })
    }

    /// Whether `[table] key` is given.
    pub fn gives(&self, table: &str, key: &str) -> bool {
        self.tables.get(table).and_then(Value::as_table).is_some_and(|table| table.contains_key(key))
    }

    /// Size of the device, if the file gives it.
    pub fn logical_pages(&self) -> Option<u64> {
        let pages = self.tables.get("device")?.get("logical_pages")?.as_integer()?;
        u64::try_from(pages).ok()
    }

    /// `base` with what the file gives in its place.
    pub fn over(&self, base: &Profile) -> Result<Profile, Failure> {
        let merged = Table::try_from(base).map_err(anyhow::Error::from).and_then(|mut merged| {
            for (name, table) in &self.tables {
                let into = merged.get_mut(name).and_then(Value::as_table_mut);
                let into = into.ok_or_else(|| anyhow!("a profile has no table [{name}]"))?;
                let given = table.as_table().ok_or_else(|| anyhow!("{name} is not a table"))?;
                into.extend(given.iter().map(|(key, value)| (key.clone(), value.clone())));
            }
            Ok(merged.try_into::<Profile>()?)
        });
        let place = || format!("--device {}", self.path.display());
        merged.with_context(place).map_err(Failure::wrong_arguments)
    }
}
