//! `top` on file systems of its own: what it says of a writer that is known, how it is read, and how it ends.

#[path = "../../pcstream-capture/tests/common/mod.rs"]
mod common;
#[path = "../../pcstream-capture/tests/common/disk.rs"]
mod disk;
#[path = "common/program.rs"]
mod program;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant};

use disk::{Disk, text};
use program::{Writer, said};
use serde_json::Value;
use tempfile::TempDir;

fn main() -> ExitCode {
    let needs = [common::ext4 as common::Need, common::loop_devices];
    common::run(vec![
        common::test("top_counts_what_a_known_writer_writes", &needs, known_writer),
        common::test("top_tells_a_process_from_others", &needs, process_and_others),
        common::test("top_tells_a_directory_from_others", &needs, one_directory),
        common::test("top_prints_one_table", &needs, once),
        common::test("top_shows_the_interval_in_which_it_ends", &needs, last_interval),
        common::test("top_serves_metrics_over_loopback", &needs, served),
        common::test("top_ends_at_a_signal_within_a_second", &needs, signals),
        common::test("top_ends_though_nobody_reads_it", &needs, stalled),
        common::test("top_gives_the_terminal_back", &needs, terminal),
        common::test("top_on_a_terminal_writes_its_last_object", &needs, last_of_a_terminal),
        common::test("top_ends_when_the_file_system_is_unmounted", &needs, unmounted),
        common::test("two_at_once_see_the_same", &needs, two),
        common::test("top_says_that_it_takes_the_whole_file_system", &needs, whole),
        common::test("top_refuses_what_cannot_be_watched", &needs, refused),
    ])
}

fn top(disk: &Disk, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pcstream"));
    command.arg("top").arg("--on").arg(disk.mount_point()).args(["--interval", "200ms"]).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A `top` that runs; killed if the test fails.
struct Running(Option<Child>);

impl Running {
    fn start(mut command: Command) -> Running {
        Running(Some(command.spawn().expect("it starts")))
    }

    fn id(&self) -> u32 {
        self.0.as_ref().expect("it runs").id()
    }

    /// Waits until it has done something.
    #[track_caller]
    fn wait_for<T>(&self, what: &str, mut done: impl FnMut() -> Option<T>) -> T {
        let mut found = None;
        common::wait_for_child(what, self.0.as_ref().expect("it runs"), || {
            found = done();
            found.is_some()
        });
        found.expect("it is done")
    }

    fn end(mut self, signal: &str) -> Output {
        disk::succeed("kill", &["-s", signal, &self.id().to_string()]);
        self.0.take().expect("it runs").wait_with_output().expect("it ends")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[track_caller]
fn wait_for<T>(what: &str, mut done: impl FnMut() -> Option<T>) -> T {
    let mut found = None;
    common::wait_for(what, || {
        found = done();
        found.is_some()
    });
    found.expect("it is done")
}

/// The whole lines of a file so far.
fn objects(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

/// What programs of this name wrote to files of this name, by the last object: bytes in all.
fn total(objects: &[Value], program: &str, file: &str) -> u64 {
    let contexts = objects.last().and_then(|object| object["contexts"].as_array());
    let of = |row: &&Value| {
        row["program"].as_str().is_some_and(|path| path.ends_with(program))
            && row["files"].as_array().is_some_and(|files| files.iter().any(|name| name == file))
    };
    contexts.into_iter().flatten().filter(of).map(|row| row["total_bytes"].as_u64().expect("a number")).sum()
}

fn known_writer() {
    const BYTES: u64 = 32 << 20;
    let (disk, files) = (Disk::ext4(256), TempDir::new().expect("a directory"));
    let (json, go) = (files.path().join("lines"), files.path().join("go"));
    let running = Running::start(top(&disk, &["--json", text(&json)]));
    running.wait_for("the first interval", || (!objects(&json).is_empty()).then_some(()));
    let write = "dd if=/dev/zero of=known bs=1M count=1 seek=$i conv=notrunc,fsync 2>/dev/null";
    let script = format!(
        "while [ ! -e {} ]; do sleep 0.02; done; i=0; while [ $i -lt 32 ]; do {write}; i=$((i+1)); done; sleep 600",
        text(&go)
    );
    let _writer = Writer::run(&disk, &script);
    fs::write(&go, "").expect("it can be written");
    let all = running.wait_for("the writer's bytes", || {
        let objects = objects(&json);
        (total(&objects, "/dd", "/known") >= BYTES).then_some(objects)
    });
    assert_eq!(total(&all, "/dd", "/known"), BYTES, "neither more nor less");
    let out = running.end("TERM");
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    let number = |object: &Value, path: &[&str]| {
        path.iter().fold(object, |value, key| &value[*key]).as_f64().unwrap_or_else(|| panic!("{path:?}"))
    };
    for last in 0..all.len() {
        let window = &all[(last + 1).saturating_sub(5)..=last];
        let bytes: f64 = window.iter().map(|object| number(object, &["written", "bytes"])).sum();
        let seconds: f64 = window.iter().map(|object| number(object, &["interval_s"])).sum();
        let rate = number(&all[last], &["written", "bytes_per_s"]);
        assert!((rate - bytes / seconds).abs() <= rate / 1000.0, "{rate} is not {bytes} / {seconds}");
    }
    let fastest = |object: &Value| number(object, &["written", "bytes_per_s"]);
    let mean = BYTES as f64 / number(all.last().expect("there are some"), &["elapsed_s"]);
    assert!(all.iter().map(fastest).fold(0.0, f64::max) >= mean, "at some time it was as fast as the mean");
    let by_dd = all.last().and_then(|object| object["contexts"].as_array()).expect("contexts").iter();
    let of_dd: Vec<_> =
        by_dd.filter(|row| row["program"].as_str().is_some_and(|p| p.ends_with("/dd"))).collect();
    assert!(of_dd.iter().all(|row| row["who"] == "program" && row["call_path"][0].is_string()), "{of_dd:?}");
}

fn process_and_others() {
    let (disk, files) = (Disk::ext4(256), TempDir::new().expect("a directory"));
    let json = files.path().join("lines");
    let (followed, _other) = (Writer::start(&disk, "followed"), Writer::start(&disk, "other"));
    let pid = followed.0.id().to_string();
    let mut running = Running::start(top(&disk, &["--pid", &pid, "--json", text(&json)]));
    running.wait_for("both", || {
        let objects = objects(&json);
        assert_eq!(total(&objects, "/dd", "/other"), 0);
        let (mine, others) = (total(&objects, "/dd", "/followed"), total(&objects, "others", "/other"));
        (mine >= 20 << 12 && others >= 20 << 12).then_some(())
    });
    drop(followed);
    let out = running.0.take().expect("it runs").wait_with_output().expect("it ends with the process");
    assert!(said(&out).contains(&format!("process {pid} ended")), "{}", said(&out));
}

fn one_directory() {
    let (disk, files) = (Disk::ext4(256), TempDir::new().expect("a directory"));
    let (json, below) = (files.path().join("lines"), disk.mount_point().join("below"));
    std::fs::create_dir(&below).expect("it can be made");
    let (_followed, _other) = (Writer::start(&disk, "below/followed"), Writer::start(&disk, "other"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_pcstream"));
    command.args(["top", "--dir-only", "--interval", "200ms", "--json", text(&json), "--on"]).arg(&below);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let running = Running::start(command);
    running.wait_for("both", || {
        let objects = objects(&json);
        assert_eq!(total(&objects, "/dd", "/other"), 0);
        let (mine, others) = (total(&objects, "/dd", "/below/followed"), total(&objects, "others", "/other"));
        (mine >= 20 << 12 && others >= 20 << 12).then_some(())
    });
    let out = running.end("TERM");
    assert!(!said(&out).contains("all that writes"), "{}", said(&out));
}

fn once() {
    let disk = Disk::ext4(256);
    let _writer = Writer::start(&disk, "file");
    // As long as it takes until the writer and the journal wrote in the interval.
    let table = wait_for("a table with the writer and the journal", || {
        let out = top(&disk, &["--once"]).output().expect("it starts");
        assert_eq!(out.status.code(), Some(0), "{}", said(&out));
        let table = String::from_utf8(out.stdout).expect("text");
        [" dd ", "journal"].iter().all(|part| table.contains(part)).then_some(table)
    });
    assert_eq!(table.matches("written,").count(), 1, "{table}");
    for part in ["rate", "share", "life p50", "stream", "streams: S", "program", "file"] {
        assert!(table.contains(part), "{part}: {table}");
    }
    let out = top(&disk, &["--once", "--json", "-"]).output().expect("it starts");
    let object: Value = serde_json::from_slice(&out.stdout).expect("one object and nothing else");
    assert!(
        object["written"]["bytes"].is_u64() && object["streams"].as_array().is_some_and(|s| s.len() == 9)
    );
}

fn last_interval() {
    let (disk, files) = (Disk::ext4(256), TempDir::new().expect("a directory"));
    let _writer = Writer::start(&disk, "file");
    let json = files.path().join("lines");
    // As long as it takes until the writer wrote meanwhile.
    wait_for("what was written until the end", || {
        let arguments = ["--interval", "1h", "--duration", "1s", "--json", text(&json)];
        let mut command = Command::new(env!("CARGO_BIN_EXE_pcstream"));
        command.arg("top").arg("--on").arg(disk.mount_point()).args(arguments).stdin(Stdio::null());
        let out = command.output().expect("it starts");
        assert_eq!(out.status.code(), Some(0), "{}", said(&out));
        assert_eq!(String::from_utf8_lossy(&out.stdout).matches("written,").count(), 1, "{}", said(&out));
        let objects = objects(&json);
        assert_eq!((objects.len(), &objects[0]["interval_s"]), (1, &objects[0]["elapsed_s"]));
        (total(&objects, "dd", "/file") > 0).then_some(())
    });
}

/// Of a directory on it only where nothing narrows what is watched.
fn whole() {
    let disk = Disk::ext4(64);
    let below = disk.mount_point().join("below");
    std::fs::create_dir(&below).expect("it can be made");
    let remarks = |on: &std::path::Path, arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pcstream"));
        command.args(["top", "--once", "--interval", "200ms", "--on"]).arg(on).args(arguments);
        let output = command.output().expect("it starts");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let all =
        format!("all that writes to the file system at {} is shown; --pid", disk.mount_point().display());
    let said = remarks(&below, &[]);
    assert!(said.contains(&all), "{said}");
    let own = std::process::id().to_string();
    for said in [remarks(&disk.mount_point(), &[]), remarks(&below, &["--pid", &own])] {
        assert!(!said.contains("all that writes"), "{said}");
    }
}

fn served() {
    let disk = Disk::ext4(256);
    let _writer = Writer::start(&disk, "file");
    let mut command = top(&disk, &["--metrics", "0"]);
    command.stdout(Stdio::null());
    let mut running = Running::start(command);
    // It says which port it got.
    let stderr = running.0.as_mut().and_then(|child| child.stderr.take()).expect("it is a pipe");
    let mut lines = BufReader::new(stderr).lines().map(|line| line.expect("it runs"));
    let address = lines.find_map(|line| {
        let (_, rest) = line.split_once("http://")?;
        rest.split_once("/metrics").map(|(address, _)| address.to_owned())
    });
    let address = address.expect("it says so");
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    let begun = format!("watching writes to {} on {}", disk.mount_point().display(), disk.device());
    assert!(lines.any(|line| line.contains(&begun)));
    let scraped = |path: &str| {
        let mut connection = TcpStream::connect(&address).expect("it listens");
        write!(connection, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").expect("it reads");
        let mut answer = String::new();
        connection.read_to_string(&mut answer).expect("it answers");
        answer
    };
    let written = |answer: &str| -> Option<u64> {
        let line = answer.lines().find(|line| {
            line.starts_with("pcstream_context_written_bytes_total{") && line.contains("program=\"dd\"")
        })?;
        line.rsplit_once(' ')?.1.parse().ok()
    };
    let first = wait_for("the writer", || written(&scraped("/metrics")));
    wait_for("more of it", || written(&scraped("/metrics")).filter(|now| *now > first));
    let answer = scraped("/metrics");
    assert!(answer.contains("application/openmetrics-text") && answer.ends_with("# EOF\n"), "{answer}");
    let info = answer.lines().find(|line| line.starts_with("pcstream_info{")).expect("what is watched");
    assert!(info.contains("device=\"loop") && info.contains("fs=\"ext4\""), "{info}");
    assert!(scraped("/etc/passwd").starts_with("HTTP/1.1 404 "));
    let out = running.end("INT");
    assert_eq!(out.status.code(), Some(0));
    assert!(TcpStream::connect(&address).is_err(), "nobody listens any more");
}

fn signals() {
    let (disk, files) = (Disk::ext4(256), TempDir::new().expect("a directory"));
    let _writer = Writer::start(&disk, "file");
    // Under `nohup` SIGHUP stays ignored.
    let hang_up = (!pcstream_system::process::ignores(libc::SIGHUP)).then_some("HUP");
    for signal in ["TERM", "INT", "QUIT"].into_iter().chain(hang_up) {
        let json = files.path().join(signal);
        let running = Running::start(top(&disk, &["--json", text(&json)]));
        running.wait_for("an interval", || (!objects(&json).is_empty()).then_some(()));
        let began = Instant::now();
        let out = running.end(signal);
        let took = began.elapsed();
        println!("    SIG{signal}: {:.2} s", took.as_secs_f64());
        // A second on an idle machine.
        assert!(took < Duration::from_secs(10), "{signal}: {took:?}");
        assert_eq!(out.status.code(), Some(0), "{signal}: {}", said(&out));
        assert!(!said(&out).contains("panicked"), "{}", said(&out));
    }
    let left: Vec<_> =
        fs::read_dir(disk.mount_point()).expect("it is mounted").flatten().map(|e| e.file_name()).collect();
    assert!(left.iter().all(|name| name == "file" || name == "lost+found"), "{left:?}");
}

fn stalled() {
    let (disk, files) = (Disk::ext4(256), TempDir::new().expect("a directory"));
    let _writer = Writer::start(&disk, "file");
    let json = files.path().join("lines");
    disk::succeed("mkfifo", &[text(&json)]);
    // Opened for both, so that neither side waits; nobody reads, and the pipe becomes full.
    let held = fs::OpenOptions::new().read(true).write(true).open(&json).expect("a pipe");
    let mut running = Running::start(top(&disk, &["--json", text(&json)]));
    running.wait_for("a full pipe", || {
        let state = fs::read_to_string(format!("/proc/{}/task/{0}/wchan", running.id())).unwrap_or_default();
        state.contains("pipe_write").then_some(())
    });
    disk::succeed("kill", &["-s", "TERM", &running.id().to_string()]);
    wait_for("the end", || running.0.as_mut().and_then(|child| child.try_wait().expect("it is a child")));
    let out = running.0.take().expect("it ran").wait_with_output().expect("it ended");
    assert_eq!(out.status.code(), Some(3), "{}", said(&out));
    assert!(said(&out).contains("nobody reads the output"), "{}", said(&out));
    drop(held);
}

/// Runs it on a terminal of its own, which `script` makes and logs.
fn on_a_terminal(disk: &Disk, log: &Path, more: &str) -> Child {
    let command = format!(
        "stty rows 24 cols 80; exec {} top --on {} --sort program {more}",
        env!("CARGO_BIN_EXE_pcstream"),
        text(&disk.mount_point())
    );
    let mut script = Command::new("script");
    script.args(["-q", "-e", "-f", "-c", &command]).arg(log).env("TERM", "xterm-256color");
    script.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    script.spawn().expect("script is a part of util-linux")
}

fn terminal() {
    let (disk, files) = (Disk::ext4(256), TempDir::new().expect("a directory"));
    let _writer = Writer::start(&disk, "file");
    for how in ["q", "TERM"] {
        let log = files.path().join(how);
        let mut script = on_a_terminal(&disk, &log, "--interval 200ms");
        let seen =
            || fs::read(&log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
        common::wait_for_child("the table", &script, || seen().contains("program") && seen().contains("dd"));
        let mut keys = script.stdin.take().expect("it is a pipe");
        keys.write_all(b"\x1b[B\r").expect("it reads");
        keys.flush().expect("it reads");
        common::wait_for_child("the call path", &script, || seen().contains("#0"));
        if how == "q" {
            keys.write_all(b"q").expect("it reads");
            keys.flush().expect("it reads");
        } else {
            let children = disk::succeed("pgrep", &["-P", &script.id().to_string()]);
            disk::succeed("kill", &["-s", how, children.trim()]);
        }
        let status = wait_for("the end", || script.try_wait().expect("it is a child"));
        assert!(status.success(), "{how}: {status}: {}", seen());
        let after = seen();
        let taken = after.find("\x1b[?1049h").expect("it took the terminal over");
        let given = after.rfind("\x1b[?1049l").expect("it gave the terminal back");
        assert!(taken < given && !after[given..].contains("rate"), "{how}");
    }
}

/// Though no interval has ended. By a key; and where the terminal is closed, as whoever made it ends.
fn last_of_a_terminal() {
    let (disk, files) = (Disk::ext4(256), TempDir::new().expect("a directory"));
    for how in ["q", "closed"] {
        let (log, json) = (files.path().join(how), files.path().join(format!("{how}.json")));
        fs::write(&json, "emptied when it begins").expect("written");
        let mut script = on_a_terminal(&disk, &log, &format!("--interval 1h --json {}", text(&json)));
        let begun = || fs::metadata(&json).is_ok_and(|json| json.len() == 0);
        common::wait_for_child("the beginning", &script, begun);
        let pid = disk::succeed("pgrep", &["-P", &script.id().to_string()]).trim().to_owned();
        let to = format!("of={}", text(&disk.mount_point().join("file")));
        disk::succeed("dd", &["if=/dev/zero", &to, "bs=4k", "count=100", "conv=fsync", "status=none"]);
        if how == "q" {
            let mut keys = script.stdin.take().expect("it is a pipe");
            keys.write_all(b"q").expect("it reads");
            let status = wait_for("the end", || script.try_wait().expect("it is a child"));
            assert!(status.success(), "{status}");
        } else {
            script.kill().expect("it runs");
            script.wait().expect("it ends");
        }
        let process = Path::new("/proc").join(pid);
        wait_for("the end of top", || (!process.exists()).then_some(()));
        let objects = objects(&json);
        assert_eq!((objects.len(), total(&objects, "dd", "/file")), (1, 400 << 10), "{how}");
    }
}

fn unmounted() {
    let (mut disk, files) = (Disk::ext4(256), TempDir::new().expect("a directory"));
    let json = files.path().join("lines");
    let mut running = Running::start(top(&disk, &["--json", text(&json)]));
    running.wait_for("an interval", || (!objects(&json).is_empty()).then_some(()));
    disk.unmount();
    let out = running.0.take().expect("it runs").wait_with_output().expect("it ends by itself");
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    assert!(said(&out).contains("the file system was unmounted or failed after"), "{}", said(&out));
}

fn two() {
    let (disk, files) = (Disk::ext4(256), TempDir::new().expect("a directory"));
    let both = ["first", "second"].map(|name| files.path().join(name));
    let running = both.each_ref().map(|json| Running::start(top(&disk, &["--json", text(json)])));
    for (json, running) in both.iter().zip(&running) {
        running.wait_for("an interval", || (!objects(json).is_empty()).then_some(()));
    }
    let script = "dd if=/dev/zero of=known bs=1M count=8 conv=fsync 2>/dev/null; sleep 600";
    let _writer = Writer::run(&disk, script);
    for (json, running) in both.iter().zip(&running) {
        let seen = || Some(total(&objects(json), "/dd", "/known")).filter(|bytes| *bytes >= 8 << 20);
        assert_eq!(running.wait_for("the writer's bytes", seen), 8 << 20);
    }
    for running in running {
        let out = running.end("TERM");
        assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    }
}

fn refused() {
    let (disk, files) = (Disk::ext4(256), TempDir::new().expect("a directory"));
    let json = files.path().join("lines");
    std::fs::write(&json, "old").expect("it can be written");
    for (arguments, code, parts) in [
        (&["--pid", "4194304"][..], 1, ["--pid", "no process"]),
        (&["--pid", "1", "--unit", "x"], 2, ["--pid", "--unit"]),
        (&["--interval", "1ms"], 2, ["--interval", "200ms"]),
        (&["--metrics", "nowhere"], 2, ["--metrics", "127.0.0.1"]),
        (&["--metrics-contexts", "5"], 2, ["--metrics", "required"]),
        (&["--json", "/no/such/directory/file"], 1, ["--json", "/no/such/directory"]),
        (&["--sort", "size"], 2, ["--sort", "lifetime"]),
        (&["--json", text(&json), "--pid", "4194304"], 1, ["--pid", "no process"]),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pcstream"));
        let out = command
            .arg("top")
            .arg("--on")
            .arg(disk.mount_point())
            .args(arguments)
            .output()
            .expect("it starts");
        assert_eq!(out.status.code(), Some(code), "{arguments:?}: {}", said(&out));
        parts.iter().for_each(|part| assert!(said(&out).contains(part), "{part}: {}", said(&out)));
    }
    assert_eq!(std::fs::read_to_string(&json).expect("it is there"), "old", "what is refused takes nothing");
}
