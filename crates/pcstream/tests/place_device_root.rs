//! `place` on a device without a file system, whose owner asks for streams: what the program is given, what the placer says, and
//! what is left when it ends, however it ends.

#[path = "../../pcstream-capture/tests/common/mod.rs"]
mod common;
#[path = "../../pcstream-capture/tests/common/disk.rs"]
mod disk;
#[path = "common/placer.rs"]
mod placer;
#[path = "../../pcstream-capture/tests/common/programs.rs"]
mod programs;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, channel};

use disk::Disk;
use placer::{Running, context, said};
use serde_json::Value;
use tempfile::TempDir;

fn main() -> ExitCode {
    let needs = [common::loop_devices as common::Need, programs::gcc, programs::liburing];
    common::run(vec![
        common::test("device_programs_are_given_the_streams_of_their_call_paths", &needs, given),
        common::test("device_programs_of_other_users_are_given_too", &needs, of_others),
        common::test("device_programs_get_none_when_their_place_is_killed", &needs, killed),
        common::test("device_programs_of_others_than_the_device_get_none", &needs, another_device),
        common::test("device_that_goes_away_ends_its_place_and_leaves_a_table", &needs, gone),
        common::test("device_sinks_that_cannot_be_used_are_refused", &needs, refused),
    ])
}

/// A device, the example built for it, and a place for its table.
struct Bench {
    dir: TempDir,
    disk: Disk,
    program: PathBuf,
}

/// The example while it runs, and what it says.
struct Owner {
    child: Child,
    said: Receiver<String>,
    /// Of the log and of the table, as it said last.
    streams: [u64; 2],
}

impl Bench {
    fn new() -> Bench {
        Bench::on(Disk::unformatted(64))
    }

    fn on(disk: Disk) -> Bench {
        let dir = TempDir::new().expect("a directory");
        let program = dir.path().join("two_streams");
        let library = concat!(env!("CARGO_MANIFEST_DIR"), "/../../libpcstream");
        let mut gcc = Command::new("gcc");
        gcc.args(["-O2", "-g", "-Wall", "-Wextra", "-Werror", "-I", library, "-o"]).arg(&program);
        gcc.arg(format!("{library}/examples/two_streams.c"))
            .arg(format!("{library}/pcstream.c"))
            .arg("-luring");
        assert!(gcc.status().expect("gcc starts").success());
        Bench { dir, disk, program }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn place(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pcstream"));
        command
            .args(["--no-config", "place", "--on", self.disk.device(), "--table"])
            .arg(self.path("t.table"));
        command.arg("--write-buffers").arg(&self.program).args(arguments).args(["--json", "-"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// A placer that is ready.
    fn start(&self, arguments: &[&str]) -> Running {
        let path = self.path("notify");
        let _ = fs::remove_file(&path);
        let socket = UnixDatagram::bind(&path).expect("bound");
        socket.set_nonblocking(true).expect("set");
        let child = self.place(arguments).env("NOTIFY_SOCKET", &path).spawn().expect("it starts");
        let running = Running { child: Some(child), socket, path };
        assert!(running.notified().starts_with("READY=1"));
        running
    }

    /// The example, until `stop` is there.
    fn write(&self, device: &str) -> Owner {
        let mut command = Command::new(&self.program);
        command.args([device, "0"]).arg(self.path("stop"));
        Owner::of(&mut command)
    }

    fn stop(&self, mut owner: Owner) -> [u64; 2] {
        fs::write(self.path("stop"), "").expect("written");
        owner.follow(|_| false);
        assert!(owner.child.wait().expect("it ends").success(), "its writes were right");
        fs::remove_file(self.path("stop")).expect("it was there");
        owner.streams
    }

    fn socket(&self) -> PathBuf {
        let device = fs::metadata(self.disk.device()).expect("it is there").rdev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        Path::new("/run/pcstream").join(format!("place-{major}-{minor}.sock"))
    }
}

impl Owner {
    fn of(command: &mut Command) -> Owner {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let (sender, said) = channel();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Owner { child, said, streams: [0, 0] }
    }

    /// Reads what it says until `done`, or until it ends. Whether it is done.
    fn follow(&mut self, done: impl Fn([u64; 2]) -> bool) -> bool {
        while !done(self.streams) {
            let Ok(line) = self.said.recv_timeout(common::PATIENCE) else { return false };
            let Some((what, stream)) = line.split_once(" has stream ") else { continue };
            let at = usize::from(what.ends_with("the table"));
            self.streams[at] = stream.parse().expect("a number");
        }
        true
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn differ([log, table]: [u64; 2]) -> bool {
    log > 1 && table > 1 && log != table
}

/// The streams of the two call paths, as the device would number them.
fn decided(result: &Value) -> [u64; 2] {
    ["log_append", "table_flush"].map(|function| {
        let row = context(result, function);
        assert_eq!(row["entry"], "write buffer", "{row:#}");
        row["stream"].as_u64().map(|stream| if stream == 0 { 0 } else { stream + 1 }).expect("a number")
    })
}

fn given() {
    let bench = Bench::new();
    let placer = bench.start(&["--sink", "none", "--save-every", "100ms"]);
    let mut owner = bench.write(bench.disk.device());
    assert!(owner.follow(differ), "it gets a stream for each: {:?}", owner.streams);
    let streams = bench.stop(owner);
    (0..2).for_each(|_| placer.reload());
    let result = placer.end();
    assert_eq!(streams, decided(&result), "{result:#}");
    // All that was written was marked, but for the first calls: rules for their call paths were asked for.
    let all = result["written_pages"].as_u64().expect("a number");
    let of_both: u64 = ["log_append", "table_flush"]
        .map(|function| context(&result, function)["pages"].as_u64().expect("a number"))
        .iter()
        .sum();
    assert!(of_both * 100 >= all * 90, "{of_both} of {all}: {result:#}");
    assert_eq!(result["pages_without_context"], 0, "{result:#}");
    assert_eq!(result["files"][0]["path"], bench.disk.device(), "{result:#}");
    assert!(result["losses"].as_object().expect("losses").values().all(|count| count == 0), "{result:#}");
    assert!(!bench.socket().exists(), "it ends with the placer");
    // A program that nobody listens to any more, and one that nobody ever listened to.
    let output = Command::new(&bench.program).args([bench.disk.device(), "200"]).output().expect("it starts");
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 1, "no stream is named: {output:?}");
}

/// Whoever may write to the device may ask: it takes no privileges.
fn of_others() {
    let bench = Bench::new();
    let placer = bench.start(&["--sink", "none", "--save-every", "100ms"]);
    let open = |path: &Path, mode: &str| _ = disk::succeed("chmod", &[mode, disk::text(path)]);
    open(bench.dir.path(), "755");
    let device = Path::new(bench.disk.device());
    open(device, "666");
    let mut command = Command::new("setpriv");
    command.args([
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--inh-caps=-all",
        "--bounding-set=-all",
    ]);
    command.arg(&bench.program).args([bench.disk.device(), "0"]).arg(bench.path("stop"));
    let mut owner = Owner::of(&mut command);
    let done = owner.follow(differ);
    open(device, "660");
    assert!(done, "it gets a stream for each: {:?}", owner.streams);
    bench.stop(owner);
    placer.end();
}

/// Its writes go on, without streams; the next place is found by a program that runs.
fn killed() {
    let bench = Bench::new();
    let placer = bench.start(&["--sink", "none", "--save-every", "100ms"]);
    let mut owner = bench.write(bench.disk.device());
    assert!(owner.follow(differ), "it gets a stream for each: {:?}", owner.streams);
    // It saves what makes them different. The next one would learn it again, which takes as long as the next clustering.
    placer.reload();
    placer.signal("KILL");
    assert_eq!(placer.wait().status.code(), None);
    assert!(owner.follow(|streams| streams == [0, 0]), "it gets none: {:?}", owner.streams);
    assert!(bench.socket().exists(), "what a killed one leaves");
    let next = bench.start(&["--sink", "none"]);
    assert!(owner.follow(differ), "it gets them of the next: {:?}", owner.streams);
    bench.stop(owner);
    next.end();
    assert!(!bench.socket().exists());
}

fn another_device() {
    let (bench, other) = (Bench::new(), Disk::unformatted(64));
    let placer = bench.start(&["--sink", "none", "--save-every", "100ms"]);
    let output = Command::new(&bench.program).args([other.device(), "300"]).output().expect("it starts");
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 1, "no stream is named: {output:?}");
    let result = placer.end();
    assert_eq!(result["written_pages"], 0, "{result:#}");
}

/// As a drive that is pulled out: the placer ends by itself, keeps what it learned, and leaves nothing in `/run/pcstream`.
fn gone() {
    let bench = Bench::on(Disk::apart(64));
    let placer = bench.start(&["--sink", "none", "--save-every", "1h"]);
    let mut owner = bench.write(bench.disk.device());
    assert!(owner.follow(differ), "it gets a stream for each: {:?}", owner.streams);
    bench.stop(owner);
    assert!(!bench.path("t.table").exists(), "the test would prove nothing");
    bench.disk.detach();
    let output = placer.wait();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let device = bench.disk.device().trim_start_matches("/dev/");
    let ended = format!("ended: {device} failed or is gone; what was learned until then is kept");
    assert!(said(&output).contains(&ended), "{}", said(&output));
    let result = placer::result(&output);
    let shown = Command::new(env!("CARGO_BIN_EXE_pcstream"))
        .args(["--no-config", "table", "show", "--json", "-"])
        .arg(bench.path("t.table"))
        .output()
        .expect("it starts");
    let saved: Value = serde_json::from_slice(&shown.stdout).expect("a table");
    let saved = saved["tables"][0]["contexts"].as_array().expect("a list");
    for function in ["log_append", "table_flush"] {
        let of = context(&result, function);
        let kept = saved.iter().find(|entry| entry["signature"] == of["signature"]).expect("it is saved");
        assert_eq!(kept["lifetime_pages"], of["lifetime_pages"], "{result:#}");
    }
    assert!(!bench.socket().exists(), "nothing is left");
}

fn refused() {
    let bench = Bench::new();
    for (sink, words) in [("hints", "has no file system"), ("program", "has no write streams")] {
        let output = bench.place(&["--sink", sink, "--duration", "1s"]).output().expect("it starts");
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(words), "{}", said(&output));
    }
    let output = bench.place(&["--duration", "100ms"]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let short = "sink none (a dry run; loop";
    assert!(
        said(&output).contains(short) && said(&output).contains("has no write streams)"),
        "{}",
        said(&output)
    );
}
