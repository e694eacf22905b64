//! Files that are replaced only by whole new ones: made before the work begins, so that a directory that cannot be written is
//! known at once, and renamed when they are complete.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use tempfile::NamedTempFile;

/// A file on its way.
pub struct WholeFile {
    file: NamedTempFile,
    path: PathBuf,
    flag: &'static str,
}

impl WholeFile {
    /// Prepares to write to `path`, which `flag` named.
    pub fn create(flag: &'static str, path: &Path) -> anyhow::Result<WholeFile> {
        let directory = path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        let mut temporary = tempfile::Builder::new();
        let file = temporary.prefix(".pcstream-").permissions(permissions).tempfile_in(directory);
        let file = file.map_err(|error| {
            // Without the path of the temporary file, which nobody gave.
            let error = error.to_string();
            let reason = error.split(" at path ").next().unwrap_or(&error);
            anyhow!("{flag} {}: cannot write there: {reason}", path.display())
        })?;
        Ok(WholeFile { file, path: path.to_owned(), flag })
    }

    /// Writes all of it, and puts it in its place.
    pub fn write(mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let problem = format!("{} {}", self.flag, self.path.display());
        self.file.write_all(bytes).context(problem.clone())?;
        self.file.persist(&self.path).context(problem)?;
        Ok(())
    }
}
