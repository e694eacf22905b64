//! The binary as scripts see it: runs it and checks how it ends.

#![allow(dead_code, reason = "each test binary uses its part")]

#[path = "../../../pcstream-capture/tests/common/patience.rs"]
mod patience;

use std::path::Path;
use std::process::Output;

use assert_cmd::Command;
use serde_json::Value;
use tempfile::TempDir;

#[allow(unused_imports, reason = "each test binary uses its part")]
pub use patience::{PATIENCE, wait_for, wait_for_child};

pub fn pcstream(args: &[&str]) -> Output {
    pcstream_in(Path::new("."), args)
}

pub fn pcstream_in(directory: &Path, args: &[&str]) -> Output {
    let mut command = Command::cargo_bin("pcstream").expect("the binary is built");
    // Neither the user's defaults nor the user's colours.
    command.env("XDG_CONFIG_HOME", "/proc/none");
    ["CLICOLOR", "CLICOLOR_FORCE", "NO_COLOR"].iter().for_each(|name| _ = command.env_remove(name));
    command.current_dir(directory).args(args).output().expect("it runs")
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("output is UTF-8")
}

/// Runs, expects this exit code, and returns stdout and stderr.
#[track_caller]
pub fn ends_with(code: i32, args: &[&str]) -> (String, String) {
    ends_with_in(Path::new("."), code, args)
}

#[track_caller]
pub fn ends_with_in(directory: &Path, code: i32, args: &[&str]) -> (String, String) {
    let output = pcstream_in(directory, args);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{args:?}\n{out}\n{err}");
    (out, err)
}

#[track_caller]
pub fn json(args: &[&str]) -> Value {
    let (out, _) = ends_with(0, args);
    serde_json::from_str(&out).expect("stdout is JSON and nothing else")
}

/// An error is one message on stderr and nothing on stdout.
#[track_caller]
pub fn refuses(code: i32, args: &[&str], words: &[&str]) {
    refuses_in(Path::new("."), code, args, words);
}

#[track_caller]
pub fn refuses_in(directory: &Path, code: i32, args: &[&str], words: &[&str]) {
    let (out, err) = ends_with_in(directory, code, args);
    assert!(out.is_empty(), "{out}");
    for word in words {
        assert!(err.contains(word), "{args:?}: expected {word:?} in\n{err}");
    }
    assert!(!err.contains("panicked"), "{err}");
}

/// A directory with a hot/cold trace of 64 Ki pages and 256 Ki writes.
pub struct Place {
    directory: TempDir,
}

impl Place {
    pub fn new() -> Place {
        let place = Place { directory: TempDir::new().expect("a temporary directory") };
        let trace = place.path("t.pctrace");
        ends_with(0, &["generate", "hotcold", "--pages", "64K", "--writes", "256K", "-o", &trace]);
        place
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().expect("UTF-8").to_owned()
    }
}
