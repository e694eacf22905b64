//! Files that are replaced only by whole new ones: written beside their place, and renamed when they are complete.
//!
//! A place that cannot be written is known before the work begins. Nothing is left there if the work is ended.
//!
//! Devices and pipes (`/dev/null`, `/dev/stdout`) are written, never replaced. A symbolic link stays; what it names is
//! replaced.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use tempfile::NamedTempFile;

/// A file on its way.
pub struct WholeFile {
    place: Place,
    path: PathBuf,
    flag: &'static str,
}

enum Place {
    /// A file at this path, or to be.
    File(PathBuf),
    /// A pipe or device.
    Special(File),
}

impl WholeFile {
    /// Prepares to write to `path`, which `flag` named.
    pub fn create(flag: &'static str, path: &Path) -> anyhow::Result<WholeFile> {
        let problem = || format!("{flag} {}: cannot write there", path.display());
        let place = match fs::metadata(path) {
            Ok(there) if there.is_dir() => {
                bail!("{flag} {}: is a directory, expected a file", path.display())
            }
            Ok(there) if there.is_file() => file(fs::canonicalize(path).with_context(problem)?),
            Ok(_) => OpenOptions::new().write(true).open(path).map(Place::Special),
            Err(error) if error.kind() == io::ErrorKind::NotFound => file(path.to_owned()),
            Err(error) => Err(error),
        };
        let place = place.map_err(|error| {
            // Without the path of the temporary file, which nobody gave.
            let error = error.to_string();
            let reason = error.split(" at path ").next().unwrap_or(&error);
            anyhow!("{}: {reason}", problem())
        })?;
        Ok(WholeFile { place, path: path.to_owned(), flag })
    }

    /// Writes all of it, and puts it in its place.
    pub fn write(self, bytes: &[u8]) -> anyhow::Result<()> {
        let written = match self.place {
            Place::File(path) => temporary(&path).and_then(|mut file| {
                file.write_all(bytes)?;
                file.persist(path).map(drop).map_err(|error| error.error)
            }),
            Place::Special(mut file) => file.write_all(bytes),
        };
        written.with_context(|| format!("{} {}", self.flag, self.path.display()))
    }
}

/// A place that can be written: it is tried.
fn file(path: PathBuf) -> io::Result<Place> {
    temporary(&path).map(|_| Place::File(path))
}

fn temporary(path: &Path) -> io::Result<NamedTempFile> {
    let directory = path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    tempfile::Builder::new().prefix(".pcstream-").permissions(permissions).tempfile_in(directory)
}
