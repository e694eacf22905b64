//! A placer that runs beside a program that writes, on a disk of a test's own. Whoever includes this has `common::disk` and
//! `common::programs` of `pcstream-capture` as modules, too.
// Each test binary compiles this module and uses its own part of it.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::SystemTime;

use serde_json::Value;
use tempfile::TempDir;

use crate::common::{wait_for, wait_for_child};
use crate::disk::{self, Disk};
use crate::programs;

/// Two functions write: `log_append` a file over and over, `table_flush` another every tenth time. `own` has a hint of the
/// program's. It goes on until the file `stop` is there.
pub const TWO_PATHS: &str = r#"
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>
static char buf[65536];
__attribute__((noinline)) int log_append(int fd) { int bad = pwrite(fd, buf, sizeof buf, 0) != sizeof buf; return bad | fdatasync(fd); }
__attribute__((noinline)) int table_flush(int fd) { int bad = pwrite(fd, buf, sizeof buf, 0) != sizeof buf; return bad | fdatasync(fd); }
int main(int argc, char **argv) {
  uint64_t extreme = 5;
  int a = open("log", O_CREAT | O_WRONLY, 0600), b = open("table", O_CREAT | O_WRONLY, 0600);
  int c = open("own", O_CREAT | O_WRONLY, 0600), bad = a < 0 || b < 0 || c < 0;
  bad |= fcntl(c, 1036, &extreme);
  for (int round = 0; !bad && access(argv[1], F_OK); round++) {
    bad |= log_append(a);
    if (round % 10 == 0) bad |= table_flush(b) | log_append(c);
    usleep(2000);
  }
  return bad;
}
"#;

pub fn ext4() -> Disk {
    Disk::ext4(256)
}

pub fn xfs_disk() -> Disk {
    Disk::made(400, &["mkfs.xfs", "-q", "-f"], "discard")
}

/// Everything of one test: the program, a place for its table, and what runs. All of it ends when dropped.
pub struct Bench<'a> {
    pub disk: &'a Disk,
    /// What the placer is on; the disk at first.
    pub on: PathBuf,
    pub dir: TempDir,
    pub table: PathBuf,
    pub program: PathBuf,
    pub children: Vec<Child>,
}

impl<'a> Bench<'a> {
    pub fn new(disk: &'a Disk) -> Bench<'a> {
        let dir = TempDir::new().expect("a directory");
        let program = programs::compile(dir.path(), "two_paths", TWO_PATHS, &[]);
        let table = dir.path().join("t.table");
        Bench { disk, on: disk.mount_point(), dir, table, program, children: Vec::new() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The program, until `stop` is there.
    pub fn write(&mut self) {
        let mut command = Command::new(&self.program);
        command.arg(self.path("stop")).current_dir(self.disk.mount_point());
        self.children.push(command.spawn().expect("it starts"));
    }

    pub fn place(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pcstream"));
        command.args(["place", "--on"]).arg(&self.on).arg("--table").arg(&self.table);
        command.args(arguments).args(["--json", "-"]).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// A placer that is ready.
    pub fn start(&self, arguments: &[&str]) -> Running {
        let socket = UnixDatagram::bind(self.path("notify")).expect("bound");
        socket.set_nonblocking(true).expect("set");
        let child =
            self.place(arguments).env("NOTIFY_SOCKET", self.path("notify")).spawn().expect("it starts");
        let running = Running { child: Some(child), socket, path: self.path("notify") };
        assert!(running.notified().starts_with("READY=1"));
        running
    }

    /// A placer with hints, after the program wrote until both of its files had one.
    pub fn hinted(&mut self) -> Running {
        let placer = self.start(&["--sink", "hints"]);
        self.write();
        self.wait_for_hints();
        self.stop();
        placer
    }

    pub fn wait_for_hints(&self) {
        wait_for("hints of both files", || self.hint("log") != 0 && self.hint("table") != 0);
    }

    pub fn hint(&self, file: &str) -> u64 {
        hint(&self.disk.mount_point().join(file))
    }

    /// When a file was written last.
    pub fn written(&self, file: &str) -> SystemTime {
        let metadata = fs::metadata(self.disk.mount_point().join(file));
        metadata.and_then(|file| file.modified()).expect("it is there")
    }

    /// Contexts in the saved table.
    pub fn learned(&self) -> u64 {
        const HEAD: u64 = 64 + 8;
        fs::metadata(&self.table).map_or(0, |file| (file.len() - HEAD) / 16)
    }

    pub fn stop(&mut self) {
        fs::write(self.path("stop"), "").expect("written");
        for mut child in self.children.drain(..) {
            assert!(child.wait().expect("it ends").success(), "its writes were right");
        }
    }
}

impl Drop for Bench<'_> {
    fn drop(&mut self) {
        let _ = fs::write(self.path("stop"), "");
        for child in &mut self.children {
            let _ = child.wait();
        }
    }
}

/// A placer that runs; killed when dropped.
pub struct Running {
    pub child: Option<Child>,
    pub socket: UnixDatagram,
    pub path: PathBuf,
}

impl Running {
    pub fn notified(&self) -> String {
        let (mut bytes, mut received) = ([0; 1024], None);
        let child = self.child.as_ref().expect("it runs");
        wait_for_child("a message", child, || {
            received = self.socket.recv(&mut bytes).ok();
            received.is_some()
        });
        String::from_utf8_lossy(&bytes[..received.expect("there is one")]).into_owned()
    }

    /// The first line with this part that it says. What it says later is read, or it would wait.
    pub fn says(&mut self, part: &str) -> String {
        let stderr = self.child.as_mut().and_then(|child| child.stderr.take()).expect("it is a pipe");
        let mut lines = BufReader::new(stderr).lines().map(|line| line.expect("plain"));
        let found = lines.find(|line| line.contains(part));
        std::thread::spawn(move || lines.for_each(|line| println!("    {line}")));
        found.unwrap_or_else(|| panic!("it ended, and did not say {part:?}"))
    }

    /// The address at which it says that metrics are.
    pub fn metrics(&mut self) -> String {
        const AT: &str = "metrics at http://";
        let line = self.says(AT);
        let (_, rest) = line.split_once(AT).expect("it is there");
        rest.strip_suffix("/metrics").expect("an address").to_owned()
    }

    /// Asks it to reload, and waits until that is done: by then it has learned from what was on the device before.
    pub fn reload(&self) {
        self.signal("HUP");
        let message = self.notified();
        assert!(message.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{message}");
        assert!(self.notified().starts_with("READY=1"));
    }

    pub fn signal(&self, signal: &str) {
        let id = self.child.as_ref().expect("it runs").id().to_string();
        disk::succeed("kill", &["-s", signal, &id]);
    }

    pub fn wait(mut self) -> Output {
        self.child.take().expect("it runs").wait_with_output().expect("it ends")
    }

    /// Ended by SIGTERM: what it says. The end of a slow device's last sync is no loss of a service.
    pub fn end(self) -> Value {
        self.signal("TERM");
        let output = self.wait();
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        result(&output)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = fs::remove_file(&self.path);
    }
}

pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn result(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", said(output)))
}

/// The kernel's hint of a file; 0: none, or no file.
pub fn hint(path: &Path) -> u64 {
    let Ok(file) = File::open(path) else { return 0 };
    let mut hint = 0u64;
    // SAFETY: F_GET_RW_HINT writes one u64, which lives until it returns.
    assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), 1035, &raw mut hint) }, 0);
    hint
}

pub fn number(hint: &Value) -> u64 {
    hint.as_str().map_or(0, |name| {
        2 + ["SHORT", "MEDIUM", "LONG", "EXTREME"].iter().position(|n| *n == name).expect(name) as u64
    })
}

/// Hint and outcome of each file.
pub fn files(result: &Value) -> BTreeMap<String, (u64, String)> {
    let files = result["files"].as_array().expect("a list").iter();
    let outcome = |file: &Value| file["outcome"].as_str().expect("text").to_owned();
    files
        .map(|file| (file["path"].as_str().expect("text").to_owned(), (number(&file["hint"]), outcome(file))))
        .collect()
}

/// The context whose call path has this function.
pub fn context<'a>(result: &'a Value, function: &str) -> &'a Value {
    let contexts = result["contexts"].as_array().expect("a list");
    let found = contexts
        .iter()
        .find(|context| context["call_path"].as_str().is_some_and(|path| path.contains(function)));
    found.unwrap_or_else(|| panic!("{function} in {contexts:#?}"))
}

/// Writes until that fails.
pub fn fill(mut file: &File) -> std::io::Result<()> {
    let piece = vec![1u8; 1 << 20];
    // The last blocks are smaller than a piece.
    while file.write_all(&piece).is_ok() {}
    loop {
        file.write_all(&piece[..4096])?;
        file.sync_data()?;
    }
}
