//! How a recording that `run` does not keep is known by its path.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// What names of directories begin with that are gone after a run.
pub const PREFIX: &str = "pcstream-run-";
/// The recording in one.
pub const RECORDING: &str = "run.pctrace";

/// Whether this is a recording that is gone after the run.
pub fn is_unkept(path: &Path) -> bool {
    let directory = path.parent().and_then(Path::file_name);
    path.ends_with(RECORDING) && directory.is_some_and(|name| name.as_bytes().starts_with(PREFIX.as_bytes()))
}
