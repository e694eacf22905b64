//! Others may write to the directory that a trace is made in: whatever they put there, their links are not followed, and
//! nothing but the writer's own directory is written, renamed or removed.
#![cfg(feature = "store")]

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use common::{read, small};
use pcstream_trace::*;
use tempfile::TempDir;

/// A directory in which somebody else is at work, too.
struct Place(TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        fs::write(place.path("precious"), "root's").unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A writer of `t` that has written something.
    fn writer(&self, overwrite: bool) -> TraceWriter {
        let mut writer = create(&self.path("t"), overwrite).unwrap();
        writer.write_batch(&small()).unwrap();
        writer
    }

    /// Moves the writer's directory away, and makes one there with links at names that a writer uses.
    fn replace(&self) {
        fs::rename(self.path("t.partial"), self.path("moved")).unwrap();
        fs::create_dir(self.path("t.partial")).unwrap();
        self.link_from("t.partial");
    }

    fn link_from(&self, directory: &str) {
        for name in ["meta.json.tmp", "events.parquet", "contexts.parquet", "files.parquet"] {
            symlink("../precious", self.path(directory).join(name)).unwrap();
        }
    }

    /// The writer noticed what was done, and did nothing there.
    #[track_caller]
    fn is_untouched<T: std::fmt::Debug>(&self, result: Result<T, TraceError>) {
        let error = result.unwrap_err();
        assert!(matches!(&error, TraceError::Moved(path) if *path == self.path("t.partial")), "{error}");
        assert_eq!(fs::read(self.path("precious")).unwrap(), b"root's");
        assert_eq!(fs::read_dir(self.path("t.partial")).unwrap().count(), 4);
    }
}

fn create(path: &Path, overwrite: bool) -> Result<TraceWriter, TraceError> {
    TraceWriter::create(path, Meta::new("d", 1000), overwrite)
}

#[test]
fn a_directory_in_the_place_of_the_writers_is_not_written() {
    let place = Place::new();
    let mut writer = place.writer(false);
    place.replace();
    writer.flush().unwrap();
    place.is_untouched(writer.finish(None));
    assert!(!place.path("t").exists());
    // What was written is where it was moved to.
    assert_eq!(read(&TraceReader::open(place.path("moved")).unwrap()).unwrap(), small());
}

#[test]
fn a_directory_in_the_place_of_the_writers_is_not_removed() {
    for remove in [TraceWriter::abandon, |writer: TraceWriter| writer.finish_or_remove().map(drop)] {
        let place = Place::new();
        let mut writer = place.writer(false);
        writer.flush().unwrap();
        place.replace();
        place.is_untouched(remove(writer));
        assert_eq!(fs::read_dir(place.path("moved")).unwrap().count(), 0, "its own files");
    }
}

/// The old trace makes room only for one that can take its place.
#[test]
fn the_old_trace_stays_if_the_new_one_was_moved() {
    let place = Place::new();
    place.writer(false).finish(None).unwrap();
    let writer = create(&place.path("t"), true).unwrap();
    place.replace();
    place.is_untouched(writer.finish(None));
    assert_eq!(read(&TraceReader::open(place.path("t")).unwrap()).unwrap(), small());
}

/// Nobody but root can put links into the writer's own directory; they are not followed there either.
#[test]
fn links_in_the_writers_directory_are_not_followed() {
    let place = Place::new();
    let mut writer = place.writer(false);
    place.link_from("t.partial");
    for result in [writer.flush(), writer.finish(None).map(drop)] {
        let error = result.unwrap_err();
        assert!(error.to_string().contains("cannot create: File exists"), "{error}");
        assert_eq!(fs::read(place.path("precious")).unwrap(), b"root's");
    }
}

/// A file that could not be written is made again by the next try.
#[test]
fn a_file_that_failed_is_no_obstacle() {
    let place = Place::new();
    let mut writer = place.writer(false);
    fs::remove_file(place.path("t.partial/meta.json")).unwrap();
    fs::create_dir(place.path("t.partial/meta.json")).unwrap();
    for _ in 0..2 {
        let error = writer.flush().unwrap_err();
        assert!(error.to_string().contains("cannot rename its temporary file"), "{error}");
    }
    fs::remove_dir(place.path("t.partial/meta.json")).unwrap();
    writer.finish(None).unwrap();
}

/// With `--force` it would remove what the link leads to.
#[test]
fn links_to_traces_are_not_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    create(&dir.path().join("real"), false).unwrap().finish(None).unwrap();
    for name in ["t", "t.partial"] {
        symlink("real", dir.path().join(name)).unwrap();
        let error = create(&path, true).unwrap_err();
        assert!(matches!(error, TraceError::NotATrace { .. }), "{error}");
        fs::remove_file(dir.path().join(name)).unwrap();
    }
    TraceReader::open(dir.path().join("real")).unwrap();
}

/// As shells complete it.
#[test]
fn a_slash_after_the_name_is_no_part_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t/");
    create(&path, false).unwrap().finish(None).unwrap();
    create(&path, true).unwrap().finish(None).unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    TraceReader::open(&path).unwrap();
    let error = create(&dir.path().join(".."), true).unwrap_err();
    assert!(error.to_string().contains("does not end in a name"), "{error}");
}
