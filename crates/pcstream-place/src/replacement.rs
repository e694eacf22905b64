//! Files that are written beside another one and take its place, so that it is whole at any time.
//!
//! A kill leaves them there. Their names begin with a hash of the other's name, so that its next owner finds and removes them.
//! Whoever writes or removes them holds a lock for that name: nobody else writes one meanwhile. One that is made without the
//! lock, to see whether that is possible, may be removed by somebody else.

use std::ffi::OsStr;
use std::fs::Permissions;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use pcstream_placement::fnv1a;
use tempfile::NamedTempFile;

fn prefix(name: &OsStr) -> String {
    format!(".pcstream-{:016x}-", fnv1a(name.as_bytes()))
}

/// A new file in `directory`, to take the place of `name` there.
pub(crate) fn make(directory: &Path, name: &OsStr, mode: u32) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix(name)).permissions(Permissions::from_mode(mode)).tempfile_in(directory)
}

/// Removes what a kill left. What cannot be removed stays: it harms nobody.
pub(crate) fn remove_left(directory: &Path, name: &OsStr) {
    let prefix = prefix(name);
    let Ok(entries) = directory.read_dir() else { return };
    for entry in entries.flatten().filter(|entry| entry.file_name().as_bytes().starts_with(prefix.as_bytes()))
    {
        let _ = std::fs::remove_file(entry.path());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_kill_left_is_removed_and_nothing_else() {
        let dir = tempfile::tempdir().expect("a directory");
        let [a, b] = ["a.table", "b.table"].map(OsStr::new);
        let left = [a, a, b].map(|name| make(dir.path(), name, 0o644).expect("it can be made").keep());
        let left = left.map(|kept| kept.expect("it can be kept").1);
        std::fs::write(dir.path().join(a), "").expect("it can be written");
        remove_left(dir.path(), a);
        assert_eq!(left.map(|path| path.exists()), [false, false, true]);
        assert!(dir.path().join(a).exists());
        remove_left(&dir.path().join("none"), a);
    }
}
