//! The file in which PCStream's table of contexts outlives a simulation, so that short-lived programs begin with the history of
//! their predecessors (FAST'19, section 5.2). Its format is `AttributeTable::save`'s.

use std::path::Path;

use anyhow::anyhow;
use pcstream_placement::saved_table::SavedTable;
use pcstream_trace::{Context, ContextId};

use crate::failure::Failure;
use crate::small_file;
use crate::ui::Ui;
use crate::values::Schemes;
use crate::whole_file::WholeFile;

/// Schemes whose tables are of program contexts, in the order in which one is chosen.
const LEARNERS: [&str; 4] = ["pcstream", "pcstream-tree", "pcstream-paper", "pcstream-kinds"];
/// Longest file: four million contexts.
const MAX_BYTES: u64 = 64 << 20;

/// A saved table; whether it is one is for the scheme to say.
pub fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    small_file::read_bytes(path, MAX_BYTES, "a saved table")
}

/// Whether a scheme can begin with a table: with one of its own, or, if it learns of program contexts, with any that does.
pub fn fits(table: &SavedTable, scheme: &str) -> bool {
    let learns = |name: &str| LEARNERS.contains(&name);
    table.scheme().is_none_or(|of| of == scheme || learns(of) && learns(scheme))
}

/// Refuses a table that fits none of the schemes.
pub fn refuse_foreign<'a>(
    table: &SavedTable,
    place: &str,
    mut schemes: impl Iterator<Item = &'a str>,
) -> Result<(), Failure> {
    if schemes.any(|scheme| fits(table, scheme)) {
        return Ok(());
    }
    let of = table.scheme().unwrap_or_default();
    Err(Failure::wrong_arguments(anyhow!(
        "{place}: the table is one of the scheme '{of}', whose entries mean nothing here; give a table that one of {} learned",
        LEARNERS.join(", ")
    )))
}

/// Where a table goes.
pub struct TableFile {
    file: WholeFile,
    scheme: &'static str,
}

impl TableFile {
    /// Prepares to write to `path` what the first learner among `schemes` learns.
    pub fn open(path: &Path, schemes: &Schemes) -> Result<TableFile, Failure> {
        let scheme = LEARNERS.into_iter().find(|learner| schemes.0.iter().any(|scheme| scheme == learner)).ok_or_else(|| {
            Failure::wrong_arguments(anyhow!(
                "--save-table {}: no scheme of this run learns lifetimes of program contexts: add pcstream to --scheme",
                path.display()
            ))
        })?;
        Ok(TableFile { file: WholeFile::create("--save-table", path)?, scheme })
    }

    /// Writes what `learned` says of the scheme, without the context of others.
    pub fn write(self, learned: impl FnOnce(&str) -> Option<Vec<u8>>, ui: Ui) -> Result<(), Failure> {
        let table = learned(self.scheme).ok_or_else(|| anyhow!("{} learned nothing", self.scheme))?;
        let (table, had_others) = without_others(SavedTable::parse(&table).map_err(Failure::failed)?);
        if had_others {
            ui.remark("--save-table: the context of others is left out");
        }
        Ok(self.file.write(&table.to_bytes())?)
    }
}

/// A table without the context of others, and whether it had that. They are whoever was not followed in one recording, so
/// their lifetime says nothing of others elsewhere.
pub fn without_others(table: SavedTable) -> (SavedTable, bool) {
    table.without(Context::others(ContextId::NONE).signature)
}
