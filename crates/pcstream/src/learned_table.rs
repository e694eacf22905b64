//! The file in which PCStream's table of contexts outlives a simulation, so that short-lived programs begin with the history of
//! their predecessors (FAST'19, section 5.2). Its format is `AttributeTable::save`'s.

use std::path::Path;

use anyhow::anyhow;
use pcstream_placement::parameter::Value as _;
use pcstream_placement::pcstream::key::KeySource;
use pcstream_placement::saved_table::{MAX_BYTES, SavedTable};
use pcstream_trace::{Context, ContextId};

use crate::failure::Failure;
use crate::small_file;
use crate::ui::Ui;
use crate::values::Schemes;
use crate::whole_file::WholeFile;

/// Schemes whose tables are of program contexts, in the order in which one is chosen.
const LEARNERS: [&str; 4] = ["pcstream", "pcstream-tree", "pcstream-paper", "pcstream-kinds"];

/// A saved table; whether it is one is for the scheme to say.
pub fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    small_file::read_bytes(path, MAX_BYTES, "a saved table")
}

/// The same of a regular file: a pipe is refused, and nobody waits for its writer.
pub fn read_regular(path: &Path) -> anyhow::Result<Vec<u8>> {
    small_file::read_regular(path, MAX_BYTES, "a saved table")
}

/// Whether a scheme that learns of such keys can begin with a table: with one of its own, or, if it learns of program
/// contexts, with any that does.
pub fn fits(table: &SavedTable, scheme: &str, key: KeySource) -> bool {
    let learns = |name: &str| LEARNERS.contains(&name);
    let is_alike = table.scheme().is_none_or(|of| of == scheme || learns(of) && learns(scheme));
    is_alike && key.begins_with(table.key())
}

/// Refuses a table that fits none of the schemes.
pub fn refuse_foreign<'a>(
    table: &SavedTable,
    place: &str,
    mut schemes: impl Iterator<Item = (&'a str, KeySource)>,
) -> Result<(), Failure> {
    if schemes.any(|(scheme, key)| fits(table, scheme, key)) {
        return Ok(());
    }
    let of =
        table.scheme().map_or("of an unknown scheme".to_owned(), |of| format!("one of the scheme '{of}'"));
    let key = table.key().show();
    Err(Failure::wrong_arguments(anyhow!(
        "{place}: the table is {of} with keys of the kind '{key}', whose entries mean nothing here; give a table that one of {} \
         learned, or set the parameter key of the scheme to {key}",
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
