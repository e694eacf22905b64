//! What flags ask of a simulation beyond the device, as results tell it.

use std::path::Path;

use pcstream_placement::saved_table::MAX_BYTES;
use pcstream_report::settings::{GivenFile, Settings};

use crate::args::{FitArgs, MeasureArgs, SchemeOptions};
use crate::failure::Failure;
use crate::schemes::is_preset;
use crate::small_file;

/// What these flags ask for.
pub fn settings(options: &SchemeOptions, measure: &MeasureArgs, fit: &FitArgs) -> Result<Settings, Failure> {
    let set = options.set.iter();
    let given =
        |path: &Path, bytes: Option<Vec<u8>>| GivenFile::new(path.display().to_string(), bytes.as_deref());
    let rules = |path| rules(path).map(|bytes| given(path, bytes));
    let table = |path| contents(path).map(|bytes| given(path, bytes));
    Ok(Settings {
        set: set.map(|s| (format!("{}.{}", s.scheme, s.parameter), s.value.clone())).collect(),
        rules: options.rules.as_deref().map(rules).transpose()?,
        table_bytes: options.table_bytes,
        load_table: options.load_table.as_deref().map(table).transpose()?,
        prefill: measure.prefill.share(),
        pack: fit.packed.pack,
        pack_live: fit.packed.pack_live,
        fill: fit.fill,
        no_discard: fit.no_discard,
    })
}

/// The contents of what `--rules` names, if it is a file and no preset.
pub fn rules(path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    if is_preset(path) { Ok(None) } else { contents(path) }
}

/// The contents of a file that a flag names; none of a pipe, which can be read once only.
pub fn contents(path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    if !path.is_file() {
        return Ok(None);
    }
    let bytes = small_file::read_bytes(path, MAX_BYTES, "rules or a saved table");
    let refuse = |error: anyhow::Error| Failure::wrong_arguments(error.context(path.display().to_string()));
    bytes.map(Some).map_err(refuse)
}
