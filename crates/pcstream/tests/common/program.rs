//! The binary in tests that need root: how it is run, what it says, what it leaves, and a program that writes beside it. Whoever
//! includes this has `common` and `common::disk` of `pcstream-capture` as modules, too.
// Each test binary compiles this module and uses its own part of it.
#![allow(dead_code)]

use std::fs;
use std::ops::{Deref, DerefMut};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::{PATIENCE, wait_for};
use crate::disk::{Disk, succeed};

pub fn pcstream() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pcstream"));
    command.stdin(Stdio::null());
    command
}

/// Records what a shell script writes to the file system of a directory.
pub fn record(dir: &Path, trace: &Path, script: &str) -> Output {
    let mut command = pcstream();
    command.arg("record").arg("--on").arg(dir).arg("-o").arg(trace).args(["--", "sh", "-c", script]);
    command.output().expect("pcstream can be started")
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub fn said(output: &Output) -> String {
    text(&output.stderr)
}

/// Runs to the end; its process id, and what it said. Programs that replace themselves by pcstream keep their id.
pub fn run_to_end(command: &mut Command) -> (u32, Output) {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("it can be started");
    (child.id(), child.wait_with_output().expect("its output can be read"))
}

/// Runs to the end, and checks the exit code, that stderr says all of `parts`, and that nothing is left.
#[track_caller]
pub fn expect(command: &mut Command, code: i32, parts: &[&str]) -> Output {
    let (pid, out) = run_to_end(command);
    let said = said(&out);
    assert_eq!(out.status.code(), Some(code), "{command:?}: {said}\n{}", text(&out.stdout));
    for part in parts {
        assert!(said.contains(part), "{part:?} is not in what {command:?} said: {said}");
    }
    assert_eq!(left(pid), [""; 0], "{command:?}");
    out
}

/// What is left of a run: mounts, and directories of its file system and its device, by its process id. Other runs on the machine, of
/// tests or of users, are not judged.
pub fn left(pid: u32) -> Vec<String> {
    let mut left = Vec::new();
    let mounts = fs::read_to_string("/proc/self/mounts").expect("mounts can be read");
    for root in ["/run/pcstream", "/run/pcstream-emulator"] {
        let ours = format!("{root}/{pid}-");
        left.extend(mounts.lines().filter(|line| line.contains(&ours)).map(str::to_owned));
        let names = fs::read_dir(root).into_iter().flatten().flatten();
        let paths = names.map(|entry| entry.path().display().to_string());
        left.extend(paths.filter(|path| path.starts_with(&ours)));
    }
    left
}

pub fn signal(pid: u32, name: &str) {
    succeed("kill", &["-s", name, &pid.to_string()]);
}

/// Waits for the end; the exit code.
pub fn wait(child: &mut Child) -> Option<i32> {
    let mut status = None;
    wait_for("the end", || {
        status = child.try_wait().expect("it can be waited for");
        status.is_some()
    });
    status.and_then(|status| status.code())
}

/// A program in a process group of its own; all of it is killed when dropped.
pub struct Writer(pub Child);

impl Writer {
    /// It writes to this file, a page at a time, for ever.
    pub fn start(disk: &Disk, file: &str) -> Writer {
        let write = format!("dd if=/dev/zero of={file} bs=4k count=1 conv=fsync 2>/dev/null");
        Writer::run(disk, &format!("while true; do {write}; sleep 0.02; done"))
    }

    pub fn run(disk: &Disk, script: &str) -> Writer {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).current_dir(disk.mount_point()).stdin(Stdio::null()).process_group(0);
        Writer(shell.spawn().expect("it starts"))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        kill_with_group(&mut self.0);
    }
}

/// A pcstream in a process group of its own; all of it is killed when dropped, as where the test fails.
pub struct Run(Option<Child>);

impl Run {
    pub fn start(command: &mut Command) -> Run {
        Run(Some(command.process_group(0).spawn().expect("it can be started")))
    }

    pub fn wait_with_output(mut self) -> Output {
        self.0.take().expect("it was started").wait_with_output().expect("its output can be read")
    }
}

impl Deref for Run {
    type Target = Child;

    fn deref(&self) -> &Child {
        self.0.as_ref().expect("it was started")
    }
}

impl DerefMut for Run {
    fn deref_mut(&mut self) -> &mut Child {
        self.0.as_mut().expect("it was started")
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(kill_with_group);
    }
}

fn kill_with_group(child: &mut Child) {
    if !matches!(child.try_wait(), Ok(None)) {
        return;
    }
    let group = child.id().to_string();
    let _ = Command::new("kill").args(["-KILL", "--", &format!("-{group}")]).status();
    // Also if it has no group of its own.
    let _ = child.kill();
    let _ = child.wait();
    // What the shell had started keeps the disk and the cgroup in use until it is gone, too.
    let runs = || Command::new("pgrep").args(["-r", "R,S,D", "-g", &group]).stdout(Stdio::null()).status();
    let began = Instant::now();
    while runs().is_ok_and(|status| status.success()) && began.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(20));
    }
}
