//! `place` on a real file system: what it says, what the kernel says, and what is left when it ends, however it ends.

#[path = "../../pcstream-capture/tests/common/mod.rs"]
mod common;
#[path = "../../pcstream-capture/tests/common/disk.rs"]
mod disk;
#[path = "../../pcstream-capture/tests/common/programs.rs"]
mod programs;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant, SystemTime};

use disk::{Disk, text};
use serde_json::Value;
use tempfile::TempDir;

fn main() -> ExitCode {
    let needs = [common::ext4 as common::Need, common::loop_devices, programs::gcc];
    let xfs = [common::xfs as common::Need, common::loop_devices, programs::gcc];
    common::run(vec![
        common::test("place_gives_files_the_hints_that_it_says", &needs, || hints(&ext4())),
        common::test("place_gives_files_of_xfs_hints", &xfs, || hints(&xfs_disk())),
        common::test("place_says_what_it_would_do_and_does_nothing", &needs, dry_run),
        common::test("place_overrides_hints_of_programs_if_asked", &needs, overrides),
        common::test("place_begins_with_what_it_learned_before", &needs, table),
        common::test("place_reloads_and_tells_systemd", &needs, reload),
        common::test("place_takes_the_best_sink_and_says_why", &needs, falls_back),
        common::test("place_refuses_a_second_instance", &needs, second),
        common::test("place_killed_leaves_a_file_system_as_it_was", &needs, killed),
        common::test("place_ends_when_the_file_system_is_unmounted", &needs, unmounted),
        common::test("place_goes_on_when_disks_are_full", &needs, full),
        common::test("place_refuses_what_it_cannot_use", &needs, refused),
    ])
}

/// Two functions write: `log_append` a file over and over, `table_flush` another every tenth time. `own` has a hint of the
/// program's. It goes on until the file `stop` is there.
const TWO_PATHS: &str = r#"
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

fn ext4() -> Disk {
    Disk::ext4(256)
}

fn xfs_disk() -> Disk {
    Disk::made(400, &["mkfs.xfs", "-q", "-f"], "discard")
}

/// Everything of one test: the program, a place for its table, and what runs. All of it ends when dropped.
struct Bench<'a> {
    disk: &'a Disk,
    dir: TempDir,
    table: PathBuf,
    program: PathBuf,
    children: Vec<Child>,
}

impl<'a> Bench<'a> {
    fn new(disk: &'a Disk) -> Bench<'a> {
        let dir = TempDir::new().expect("a directory");
        let program = programs::compile(dir.path(), "two_paths", TWO_PATHS, &[]);
        let table = dir.path().join("t.table");
        Bench { disk, dir, table, program, children: Vec::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The program, until `stop` is there.
    fn write(&mut self) {
        let mut command = Command::new(&self.program);
        command.arg(self.path("stop")).current_dir(self.disk.mount_point());
        self.children.push(command.spawn().expect("it starts"));
    }

    fn place(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pcstream"));
        command.args(["place", "--on"]).arg(self.disk.mount_point()).arg("--table").arg(&self.table);
        command.args(arguments).args(["--json", "-"]).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// A placer that is ready.
    fn start(&self, arguments: &[&str]) -> Running {
        let socket = UnixDatagram::bind(self.path("notify")).expect("bound");
        socket.set_read_timeout(Some(Duration::from_secs(120))).expect("set");
        let child =
            self.place(arguments).env("NOTIFY_SOCKET", self.path("notify")).spawn().expect("it starts");
        let running = Running { child: Some(child), socket, path: self.path("notify") };
        assert!(running.notified().starts_with("READY=1"));
        running
    }

    fn hint(&self, file: &str) -> u64 {
        hint(&self.disk.mount_point().join(file))
    }

    /// When a file was written last.
    fn written(&self, file: &str) -> SystemTime {
        let metadata = fs::metadata(self.disk.mount_point().join(file));
        metadata.and_then(|file| file.modified()).expect("it is there")
    }

    /// Contexts in the saved table.
    fn learned(&self) -> u64 {
        const HEAD: u64 = 48 + 8;
        fs::metadata(&self.table).map_or(0, |file| (file.len() - HEAD) / 16)
    }

    fn stop(&mut self) {
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
struct Running {
    child: Option<Child>,
    socket: UnixDatagram,
    path: PathBuf,
}

impl Running {
    fn notified(&self) -> String {
        let mut bytes = [0; 1024];
        let length = self.socket.recv(&mut bytes).expect("a message in time");
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    /// Asks it to reload, and waits until that is done: by then it has learned from what was on the device before.
    fn reload(&self) {
        self.signal("HUP");
        let message = self.notified();
        assert!(message.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{message}");
        assert!(self.notified().starts_with("READY=1"));
    }

    fn signal(&self, signal: &str) {
        let id = self.child.as_ref().expect("it runs").id().to_string();
        disk::succeed("kill", &["-s", signal, &id]);
    }

    fn wait(mut self) -> Output {
        self.child.take().expect("it runs").wait_with_output().expect("it ends")
    }

    /// Ended by SIGTERM: what it says. The end of a slow device's last sync is no loss of a service.
    fn end(self) -> Value {
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

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn result(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", said(output)))
}

/// The kernel's hint of a file; 0: none, or no file.
fn hint(path: &Path) -> u64 {
    let Ok(file) = File::open(path) else { return 0 };
    let mut hint = 0u64;
    // SAFETY: F_GET_RW_HINT writes one u64, which lives until it returns.
    assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), 1035, &raw mut hint) }, 0);
    hint
}

fn number(hint: &Value) -> u64 {
    hint.as_str().map_or(0, |name| {
        2 + ["SHORT", "MEDIUM", "LONG", "EXTREME"].iter().position(|n| *n == name).expect(name) as u64
    })
}

/// Hint and outcome of each file.
fn files(result: &Value) -> BTreeMap<String, (u64, String)> {
    let files = result["files"].as_array().expect("a list").iter();
    let outcome = |file: &Value| file["outcome"].as_str().expect("text").to_owned();
    files
        .map(|file| (file["path"].as_str().expect("text").to_owned(), (number(&file["hint"]), outcome(file))))
        .collect()
}

/// The context whose call path has this function.
fn context<'a>(result: &'a Value, function: &str) -> &'a Value {
    let contexts = result["contexts"].as_array().expect("a list");
    let found = contexts
        .iter()
        .find(|context| context["call_path"].as_str().is_some_and(|path| path.contains(function)));
    found.unwrap_or_else(|| panic!("{function} in {contexts:#?}"))
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(120), "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn hints(disk: &Disk) {
    let mut bench = Bench::new(disk);
    let placer = bench.start(&["--sink", "hints"]);
    bench.write();
    wait_for("hints of both files", || bench.hint("log") != 0 && bench.hint("table") > bench.hint("log"));
    bench.stop();
    disk::succeed("sync", &["-f", text(&disk.mount_point())]);
    // The first may come while the records of the sync are read.
    (0..2).for_each(|_| placer.reload());
    let kernel = ["log", "table", "own"].map(|file| bench.hint(file));
    let result = placer.end();
    let files = files(&result);
    assert_eq!(kernel[..2], [files["/log"].0, files["/table"].0], "{result:#}");
    assert_eq!((kernel[2], files["/own"].1.as_str()), (5, "of-program"), "{result:#}");
    let (log, table) = (context(&result, "log_append"), context(&result, "table_flush"));
    assert_eq!([number(&log["hint"]), number(&table["hint"])], kernel[..2], "{result:#}");
    assert!(log["lifetime_pages"].as_u64() < table["lifetime_pages"].as_u64(), "{result:#}");
    assert_ne!(log["stream"], table["stream"], "{result:#}");
    assert_eq!(table["files_hinted"], 1, "{result:#}");
    // What was set is taken back, and nothing else.
    assert_eq!(["log", "table", "own"].map(|file| bench.hint(file)), [0, 0, 5]);
    assert!(result["losses"].as_object().expect("losses").values().all(|count| count == 0), "{result:#}");
}

fn dry_run() {
    let disk = ext4();
    let mut bench = Bench::new(&disk);
    let placer = bench.start(&["--sink", "none", "--save-every", "100ms"]);
    bench.write();
    wait_for("all lifetimes", || bench.learned() == 3);
    bench.stop();
    let kernel = ["log", "table", "own"].map(|file| bench.hint(file));
    let result = placer.end();
    assert_eq!(kernel, [0, 0, 5]);
    assert!(result["streams"].as_array().is_some_and(Vec::is_empty), "{result:#}");
    assert_eq!((result["sink"].as_str(), result["scheme"].as_str()), (Some("none"), Some("pcstream")));
    assert!(files(&result)["/log"].0 > 0, "{result:#}");
    assert!(files(&result).values().all(|(_, outcome)| outcome == "not-said"), "{result:#}");
}

fn overrides() {
    let disk = ext4();
    let mut bench = Bench::new(&disk);
    let placer = bench.start(&["--sink", "hints", "--override-hints"]);
    bench.write();
    wait_for("the program's own hint to go", || {
        disk.mount_point().join("own").exists() && ![0, 5].contains(&bench.hint("own"))
    });
    bench.stop();
    assert_eq!(files(&placer.end())["/own"].1, "set");
    assert_eq!(bench.hint("own"), 5, "the program has its hint back");
}

fn table() {
    let disk = ext4();
    let mut bench = Bench::new(&disk);
    let placer = bench.start(&["--sink", "none", "--save-every", "100ms"]);
    bench.write();
    wait_for("all lifetimes", || bench.learned() == 3);
    let before = placer.end();
    bench.stop();
    fs::remove_file(bench.path("stop")).expect("it was there");
    let known = context(&before, "table_flush")["lifetime_pages"].clone();
    assert!(known.is_u64(), "{before:#}");
    let placer = bench.start(&["--sink", "hints"]);
    bench.write();
    wait_for("a hint by the table", || bench.hint("table") != 0);
    bench.stop();
    let after = placer.end();
    let samples = |result: &Value| context(result, "table_flush")["samples"].as_u64().expect("a number");
    assert!(samples(&after) >= samples(&before), "{before:#}\n{after:#}");
    // A table of another scheme is refused, and stays.
    let bytes = fs::read(bench.path("t.table")).expect("it is there");
    let output = bench.place(&["--sink", "none", "--scheme", "pcstream-tree"]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("'pcstream', but 'pcstream-tree' runs"), "{}", said(&output));
    assert_eq!(fs::read(bench.path("t.table")).expect("it is there"), bytes);
}

fn falls_back() {
    let disk = ext4();
    let bench = Bench::new(&disk);
    let result = bench.start(&[]).end();
    assert_eq!(result["sink"], "hints");
    let because = result["sink_because"].as_str().expect("text");
    assert!(because.contains("not kfunc: loop") && because.contains("has no write streams"), "{because}");
}

fn reload() {
    let disk = ext4();
    let bench = Bench::new(&disk);
    let placer = bench.start(&["--sink", "none", "--save-every", "1h"]);
    assert!(!bench.path("t.table").exists());
    placer.reload();
    assert!(bench.path("t.table").exists());
    placer.signal("TERM");
    assert_eq!(placer.notified(), "STOPPING=1");
    let output = placer.wait();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("t.table was saved"), "{}", said(&output));
}

fn second() {
    let disk = ext4();
    let bench = Bench::new(&disk);
    let first = bench.start(&["--sink", "none"]);
    let output = bench.place(&["--sink", "hints", "--duration", "1s"]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let holder = first.child.as_ref().expect("it runs").id().to_string();
    assert!(
        said(&output).contains("has a placer already") && said(&output).contains(&holder),
        "{}",
        said(&output)
    );
    first.end();
    let output = bench.place(&["--sink", "none", "--duration", "100ms"]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

fn killed() {
    let disk = ext4();
    let mut bench = Bench::new(&disk);
    let placer = bench.start(&["--sink", "hints", "--save-every", "100ms"]);
    bench.write();
    wait_for("all lifetimes", || bench.learned() == 3);
    wait_for("hints", || bench.hint("log") != 0 && bench.hint("table") != 0);
    placer.signal("KILL");
    let output = placer.wait();
    assert_eq!(output.status.code(), None);
    // The program's writes go on; a new placer has the device and the table, whole.
    let before = bench.written("log");
    wait_for("more writes", || bench.written("log") != before);
    assert!(bench.hint("log") != 0 && bench.hint("table") != 0, "hints stay with the kernel's inodes");
    // It knows the hints for a placer's, not the program's, and takes them back.
    let next = bench.start(&["--sink", "hints"]);
    let begun = bench.written("table");
    wait_for("another flush", || bench.written("table") != begun);
    bench.stop();
    disk::succeed("sync", &["-f", text(&disk.mount_point())]);
    (0..2).for_each(|_| next.reload());
    let result = next.end();
    let files = files(&result);
    assert_eq!(["/log", "/table", "/own"].map(|file| files[file].1.as_str()), ["set", "set", "of-program"]);
    assert_eq!(["log", "table", "own"].map(|file| bench.hint(file)), [0, 0, 5]);
    disk::succeed("umount", &[text(&disk.mount_point())]);
    let checked = Command::new("e2fsck").args(["-fn", disk.device()]).output().expect("it starts");
    disk::succeed("mount", &[disk.device(), text(&disk.mount_point())]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}

fn unmounted() {
    let disk = ext4();
    let mut bench = Bench::new(&disk);
    let placer = bench.start(&["--sink", "hints"]);
    bench.write();
    wait_for("hints", || disk.mount_point().join("log").exists() && bench.hint("log") != 0);
    bench.stop();
    // The placer keeps nothing open there.
    disk::succeed("umount", &[text(&disk.mount_point())]);
    let output = placer.wait();
    disk::succeed("mount", &[disk.device(), text(&disk.mount_point())]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("was unmounted"), "{}", said(&output));
    assert!(
        fs::metadata(bench.path("t.table")).is_ok_and(|file| file.len() > 56),
        "what was learned is saved"
    );
}

/// Neither the disk of the table nor the one that is placed on has room: writes fail as without a placer, the table stays as it
/// was, and what failed is counted.
fn full() {
    let (disk, small) = (ext4(), Disk::ext4(64));
    let mut bench = Bench::new(&disk);
    let table = small.mount_point().join("t.table");
    bench.table = table.clone();
    let placer = bench.start(&["--sink", "hints", "--save-every", "100ms"]);
    bench.write();
    wait_for("all lifetimes", || bench.learned() == 3);
    let rest = File::create(small.mount_point().join("rest")).expect("it is made");
    let error = fill(&rest).expect_err("it is full");
    assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    let whole = fs::read(&table).expect("it is there");
    let rest = File::create(disk.mount_point().join("rest")).expect("it is made");
    let error = fill(&rest).expect_err("it is full");
    assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    // Blocks that are there can be written still.
    let before = bench.written("table");
    wait_for("another flush", || bench.written("table") != before);
    bench.stop();
    placer.signal("TERM");
    let output = placer.wait();
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(said(&output).contains("t.table: cannot") && said(&output).contains("placing goes on"));
    let losses = result(&output)["losses"].clone();
    assert!(losses["table_saves_failed"].as_u64().is_some_and(|count| count > 0), "{losses:#}");
    assert_eq!(fs::read(&table).expect("it is there"), whole);
}

/// Writes until that fails.
fn fill(mut file: &File) -> std::io::Result<()> {
    let piece = vec![1u8; 1 << 20];
    // The last blocks are smaller than a piece.
    while file.write_all(&piece).is_ok() {}
    loop {
        file.write_all(&piece[..4096])?;
        file.sync_data()?;
    }
}

fn refused() {
    let disk = ext4();
    let bench = Bench::new(&disk);
    fs::write(bench.path("t.table"), "something else").expect("written");
    for (arguments, code, parts) in [
        (&["--sink", "nowhere"][..], 2, ["--sink nowhere", "kfunc, hints, none"]),
        (&["--scheme", "autostream-mq"], 2, ["--scheme autostream-mq", "program context alone"]),
        (&["--scheme", "pcstram"], 2, ["pcstram", "pcstream"]),
        // Loop devices have no streams, whatever modules there are.
        (&["--sink", "kfunc"], 2, ["--sink kfunc", "has no write streams; it takes an NVMe drive with FDP"]),
        (&["--sink", "none"], 1, ["t.table", "not a saved"]),
        (&["--duration", "5s", "--", "true"], 2, ["--duration", "COMMAND"]),
        (&["--streams", "1"], 2, ["--streams", "2..=16"]),
        (&["--pid", "1", "--unit", "x"], 2, ["--pid", "--unit"]),
    ] {
        let output = bench.place(arguments).output().expect("it starts");
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", said(&output));
        parts.iter().for_each(|part| assert!(said(&output).contains(part), "{part}: {}", said(&output)));
    }
    assert_eq!(fs::read_to_string(bench.path("t.table")).expect("it is there"), "something else");
}
