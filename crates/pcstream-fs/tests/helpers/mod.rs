//! Devices and processes of a test.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A device by its path and by a number that no other one has while the system runs: another test may be given the path
/// as soon as it is free.
pub struct Known {
    pub path: PathBuf,
    sequence: Option<String>,
}

impl Known {
    pub fn of(path: impl Into<PathBuf>) -> Known {
        let path = path.into();
        Known { sequence: sequence(&path), path }
    }

    pub fn is_there(&self) -> bool {
        self.path.exists() && sequence(&self.path) == self.sequence
    }
}

/// Since Linux 5.15.
fn sequence(device: &Path) -> Option<String> {
    fs::read_to_string(Path::new("/sys/block").join(device.file_name()?).join("diskseq")).ok()
}

/// A child process that does not outlive the test, whatever happens.
pub struct Guarded(pub Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        // It may have ended already; a failing test must not fail again here.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Guarded {
    pub fn spawn(command: &mut Command) -> (Guarded, String) {
        let mut child = Guarded(command.stdout(Stdio::piped()).spawn().unwrap());
        let mut line = String::new();
        BufReader::new(child.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "the child ended before it was ready");
        (child, line.trim().to_string())
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    pub fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// By a loop device that is none of pcstream's.
pub fn attach(image: &Path) -> String {
    let output = Command::new("losetup").args(["-f", "--show"]).arg(image).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().trim().to_string()
}

pub fn detach(node: &str) {
    assert!(Command::new("losetup").args(["-d", node]).status().unwrap().success());
}
