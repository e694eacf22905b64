//! `record` with several `--on`: each device has a trace of its own, and they begin and end together.

#[path = "../../pcstream-capture/tests/common/mod.rs"]
mod common;
#[path = "../../pcstream-capture/tests/common/disk.rs"]
mod disk;
#[path = "common/program.rs"]
mod program;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use common::{wait_for, wait_for_child};
use disk::{Disk, text};
use pcstream_trace::{Op, TraceReader};
use program::{Writer, said};
use tempfile::TempDir;

fn main() -> ExitCode {
    let needs = [common::ext4 as common::Need, common::loop_devices];
    common::run(vec![
        common::test("several_devices_have_a_trace_each", &needs, traces),
        common::test("several_devices_are_recorded_until_the_command_ends", &needs, until_the_command_ends),
        common::test("several_devices_can_be_attached_to", &needs, attached),
        common::test("several_devices_have_one_clock", &needs, clock),
        common::test("several_devices_keep_what_was_written_before_an_unmount", &needs, unmounted),
        common::test("several_devices_leave_nothing_if_one_cannot_begin", &needs, refused),
    ])
}

/// Writes so many pages to a file, and waits until they are on the device.
const WRITE: &str = "w() { dd if=/dev/zero of=$1 bs=4k count=$2 conv=fsync 2>/dev/null; }; ";

/// Two disks, and where traces go.
struct Two {
    disks: [Disk; 2],
    traces: TempDir,
}

impl Two {
    fn make() -> Two {
        Two { disks: [Disk::ext4(256), Disk::ext4(256)], traces: TempDir::new().expect("a directory") }
    }

    fn mounts(&self) -> [PathBuf; 2] {
        self.disks.each_ref().map(Disk::mount_point)
    }

    /// A directory on the first.
    fn below(&self) -> PathBuf {
        let below = self.mounts()[0].join("below");
        fs::create_dir_all(&below).expect("it can be made");
        below
    }

    fn given(&self) -> PathBuf {
        self.traces.path().join("t.pctrace")
    }

    /// As they are named for their devices.
    fn made(&self) -> [PathBuf; 2] {
        let name = |disk: &Disk| format!("t-{}.pctrace", disk.device().trim_start_matches("/dev/"));
        self.disks.each_ref().map(|disk| self.traces.path().join(name(disk)))
    }

    fn record(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pcstream"));
        command.arg("record").arg("-o").arg(self.given());
        self.mounts().iter().for_each(|mount| _ = command.arg("--on").arg(mount));
        command.args(arguments).stdin(Stdio::null()).stderr(Stdio::piped());
        command
    }

    /// A shell, whose first argument is the second mount point.
    fn record_script(&self, script: &str) -> Command {
        let script = format!("{WRITE}{script}");
        self.record(&["--", "sh", "-c", &script, text(&self.mounts()[1])])
    }
}

/// Files of which data were written, with the number of pages, each page counted once.
fn files(trace: &Path) -> BTreeSet<(String, usize)> {
    let reader = TraceReader::open(trace).expect("the trace can be read");
    let mut pages = BTreeSet::new();
    for event in reader.batches().flat_map(|batch| batch.expect("it can be read").events) {
        if event.op == Op::Write && event.file.is_some() {
            let file = &reader.files()[event.file.0 as usize - 1].path;
            let context = (event.context.0 as usize).checked_sub(1).map(|at| &reader.contexts()[at]);
            assert!(
                context.is_some_and(|context| context.executable.ends_with("/dd")),
                "{file}: {context:?}"
            );
            pages
                .extend((event.lba.0..event.lba.0 + u64::from(event.pages)).map(|page| (file.clone(), page)));
        }
    }
    let names: BTreeSet<String> = pages.iter().map(|(file, _)| file.clone()).collect();
    let count = |name: &String| pages.iter().filter(|(file, _)| file == name).count();
    names.iter().map(|name| (name.clone(), count(name))).collect()
}

fn set(files: &[(&str, usize)]) -> BTreeSet<(String, usize)> {
    files.iter().map(|(name, pages)| ((*name).to_owned(), *pages)).collect()
}

fn traces() {
    let two = Two::make();
    let out = two.record_script("w here 3; w $0/there 5; w also-here 2").output().expect("it starts");
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    let [first, second] = two.made();
    assert_eq!(files(&first), set(&[("/also-here", 2), ("/here", 3)]));
    assert_eq!(files(&second), set(&[("/there", 5)]));
    for (trace, other) in [(&first, 1), (&second, 0)] {
        let reader = TraceReader::open(trace).expect("the trace can be read");
        let settings = &reader.meta().settings;
        assert_eq!(settings["recorded_with"][0], two.disks[other].device());
        assert_eq!(reader.meta().command[0], "sh", "the command is that of both");
        assert!(said(&out).contains(text(trace)), "{}", said(&out));
    }
    let merged = Command::new(env!("CARGO_BIN_EXE_pcstream"))
        .args(["merge", "--by-start", "-o", text(&two.given()), text(&first), text(&second)])
        .output();
    let merged = merged.expect("it starts");
    assert_eq!(merged.status.code(), Some(0), "{}", said(&merged));
    let again = two.record(&["--", "true"]).output().expect("it starts");
    assert_eq!(again.status.code(), Some(1), "{}", said(&again));
    assert!(said(&again).contains("exists; --force replaces it"), "{}", said(&again));
}

/// Also if the command takes its time after it was asked to end.
fn until_the_command_ends() {
    let two = Two::make();
    let script = "trap 'w late 1; w $0/late 4; exit 5' TERM; w ready 1; while :; do sleep 0.02; done";
    let recorder = two.record_script(script).spawn().expect("it starts");
    wait_for_child("the command", &recorder, || two.mounts()[0].join("ready").exists());
    disk::succeed("kill", &["-s", "TERM", &recorder.id().to_string()]);
    let out = recorder.wait_with_output().expect("it ends");
    assert_eq!(out.status.code(), Some(143), "{}", said(&out));
    assert!(two.made().iter().all(|trace| TraceReader::open(trace).is_ok()), "both are whole");
    assert!(files(&two.made()[1]).contains(&("/late".to_owned(), 4)), "{:?}", files(&two.made()[1]));
}

fn attached() {
    let mut two = Two::make();
    let [here, there] = two.mounts();
    let script = format!("{WRITE}while :; do w {}/a 1; w {}/b 1; done", text(&here), text(&there));
    let writer = Writer::run(&two.disks[0], &script);
    let pid = writer.0.id().to_string();
    let made = two.made();
    // As long as it takes until it wrote to both within that time.
    wait_for("what was written to both", || {
        let attached = ["--force", "--pid", &pid, "--duration", "1s"];
        let out = two.record(&attached).output().expect("it starts");
        assert_eq!(out.status.code(), Some(0), "{}", said(&out));
        let [a, b] = made.each_ref().map(|trace| files(trace));
        assert!(a.iter().all(|(name, _)| name == "/a"), "{a:?}");
        assert!(b.iter().all(|(name, _)| name == "/b"), "{b:?}");
        !a.is_empty() && !b.is_empty()
    });
    // One that is unmounted ends for itself.
    let recorder = two.record(&["--force", "--pid", &pid]).spawn().expect("it starts");
    let begun = |trace: &PathBuf| trace.with_extension("pctrace.partial").exists();
    wait_for_child("the recorder", &recorder, || made.iter().all(begun));
    let stopped = ["-s", "STOP", &pid];
    disk::succeed("kill", &stopped);
    two.disks[1].unmount();
    wait_for_child("the end of one", &recorder, || !begun(&made[1]));
    assert!(begun(&made[0]), "the other goes on");
    disk::succeed("kill", &["-s", "TERM", &recorder.id().to_string()]);
    let out = recorder.wait_with_output().expect("it ends");
    // 3: the sync or the names took longer than they may after a signal, which is said.
    assert!([Some(0), Some(3)].contains(&out.status.code()), "{}", said(&out));
    let unmounted = format!("{}: the file system was unmounted", two.disks[1].device());
    assert!(said(&out).contains(&unmounted), "{}", said(&out));
}

/// What is written first is first in a merged trace.
fn clock() {
    let two = Two::make();
    let d = "dd if=/dev/zero bs=4k count=1 oflag=direct conv=notrunc 2>/dev/null";
    let script = format!("for i in $(seq 40); do {d} of=$0/log; {d} of=data; done");
    let out = two.record_script(&script).output().expect("it starts");
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    let [data, log] = two.made();
    let times = |trace: &Path, name: &str| -> Vec<u64> {
        let reader = TraceReader::open(trace).expect("the trace can be read");
        let events = reader.batches().flat_map(|batch| batch.expect("it can be read").events);
        let of_file = |event: &pcstream_trace::Event| {
            event.op == Op::Write
                && event.file.is_some()
                && reader.files()[event.file.0 as usize - 1].path.ends_with(name)
        };
        let start = reader.meta().start_unix_ns.expect("it is recorded");
        events.filter(of_file).map(|event| start + event.time_ns).collect()
    };
    let (log, data) = (times(&log, "log"), times(&data, "data"));
    assert_eq!((log.len(), data.len()), (40, 40));
    let in_order = log.iter().zip(&data).all(|(log, data)| log < data);
    assert!(in_order && log.iter().skip(1).zip(&data).all(|(log, data)| data < log), "{log:?} {data:?}");
}

/// Though the command goes on.
fn unmounted() {
    let mut two = Two::make();
    let go = two.traces.path().join("go");
    let script = format!("w $0/file 3; umount $0; : > {0}; while [ -e {0} ]; do sleep 0.02; done", text(&go));
    let recorder = two.record_script(&script).spawn().expect("it starts");
    wait_for_child("the unmount", &recorder, || go.exists());
    two.disks[1].is_unmounted();
    fs::remove_file(&go).expect("it is there");
    let out = recorder.wait_with_output().expect("it ends");
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    assert_eq!(files(&two.made()[1]), set(&[("/file", 3)]));
    let why = format!("{}: the file system was unmounted or failed", two.disks[1].device());
    assert!(said(&out).contains(&why), "{}", said(&out));
}

fn refused() {
    let two = Two::make();
    let [here, _] = two.mounts();
    let pcstream = |arguments: &[&str], code: i32, part: &str| {
        let out = Command::new(env!("CARGO_BIN_EXE_pcstream")).args(arguments).output().expect("it starts");
        assert_eq!(out.status.code(), Some(code), "{}", said(&out));
        assert!(said(&out).contains(part), "{part}: {}", said(&out));
        assert!(!said(&out).contains("interrupted"), "nobody did: {}", said(&out));
        let left: Vec<_> = fs::read_dir(two.traces.path()).expect("it is there").collect();
        assert!(left.is_empty(), "{left:?}");
    };
    let (given, here, there) = (two.given(), text(&here), two.mounts()[1].clone());
    let record = ["record", "-o", text(&given), "--on", here, "--on"];
    let with = |more: &[&'static str]| [&record[..], &[text(&there)], more].concat();
    pcstream(&[&record[..], &[here, "--", "true"]].concat(), 2, "are both on /dev/loop");
    pcstream(&[&record[..], &["/proc", "--", "true"]].concat(), 1, "--on /proc");
    pcstream(&with(&["--", "no-such-program-anywhere"]), 1, "no-such-program-anywhere");
    // Found, and cannot be started: all have begun by then.
    pcstream(&with(&["--", "{}/no-such-program"]), 1, "no-such-program");
    let nowhere = ["record", "-o", ".", "--on", here, "--on", text(&there), "--", "true"];
    pcstream(&nowhere, 1, "-o: . does not end in a name");
    let unknown = with(&["--write-buffers", "no-such-thing", "--", "true"]);
    let out = Command::new(env!("CARGO_BIN_EXE_pcstream")).args(&unknown).output().expect("it starts");
    assert_eq!(said(&out).matches("no-such-thing").count(), 1, "{}", said(&out));
    // One fails where the other waits for it.
    let file = two.mounts()[1].join("file");
    fs::write(&file, "").expect("written");
    let failing = [&record[..], &[text(&file), "--dir-only", "--", "true"]].concat();
    pcstream(&failing, 1, "a directory or a block device");
    let below = two.below();
    let below = [&record[..], &[text(&below), "--dir-only", "--", "true"]].concat();
    pcstream(&below, 2, "--dir-only follows one directory of each file system");
    pcstream(&["run", "--on", here, "--on", text(&there), "--", "true"], 2, "one device is simulated");
}
