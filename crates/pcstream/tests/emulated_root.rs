//! `run --live` as a user meets it: both counts agree, faults are survived, and nothing is left behind.

#[path = "../../pcstream-capture/tests/common/mod.rs"]
mod common;
#[path = "../../pcstream-capture/tests/common/disk.rs"]
mod disk;
#[path = "common/program.rs"]
mod program;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode, Output, Stdio};

use common::{wait_for, wait_for_child};
use program::{Run, expect, left, signal, text, wait};
use serde_json::Value;
use tempfile::TempDir;

/// Small and quick; with the live data of the workloads, most of it is in use.
const PLACE: [&str; 4] = ["--size", "512M", "--fill", "0.65"];
const DEVICE: [&str; 4] = ["--streams", "5", "--spare-factor", "0.1"];
/// How far the device and its simulation may be apart.
const AGREEMENT: f64 = 0.02;
/// A database that writes little, and a device that this fills.
const WORKLOADS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/workloads");
const FOR_SQLITE: [&str; 4] = ["--size", "64M", "--fill", "0.55"];
/// For the built-in workload, which does less of its updates, but keeps its data.
const FOR_BUILT_IN: [&str; 4] = ["--size", "1G", "--fill", "0.55"];
/// Rewrites and syncs files until it fails; tells that it began.
const FILES: &str = "n=0; while dd if=/dev/urandom of=f$((n % 40)) bs=64k count=32 conv=fsync 2>/dev/null; do \
    n=$((n + 1)); [ $n = 3 ] && : > $0; done; exit 9";

fn main() -> ExitCode {
    let ext4 = [common::ext4 as common::Need, common::loop_devices, common::fuse];
    let unshare = [common::ext4 as common::Need, common::loop_devices, common::fuse, || tool("unshare")];
    let both = [common::ext4 as common::Need, common::xfs, common::loop_devices, common::fuse];
    let sqlite = [common::ext4 as common::Need, common::loop_devices, common::fuse, || tool("sqlite3")];
    common::run(vec![
        common::test("live_built_in_workload_agrees", &ext4, built_in),
        common::test("live_sqlite_agrees", &sqlite, || {
            drop(agrees(FOR_SQLITE, &[WORKLOADS, "sqlite", "{}"]))
        }),
        common::test("live_device_says_how_it_stands", &ext4, standing),
        common::test("live_power_cuts_are_survived", &both, power_cuts),
        common::test("live_image_keeps_the_data", &both, image),
        common::test("live_image_is_of_one_run", &ext4, image_of_two),
        common::test("live_killed_is_cleaned_up", &ext4, killed),
        common::test("live_interrupted_reports_and_cleans_up", &ext4, interrupted),
        common::test("live_result_is_shown_though_its_file_system_stays_mounted", &unshare, held_mount),
        common::test("live_device_killed_ends_with_an_error", &ext4, device_killed),
        common::test("live_refuses_wrong_arguments", &ext4, wrong_arguments),
    ])
}

fn tool(name: &str) -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|dir| dir.join(name).is_file());
    (!found).then(|| name.to_owned())
}

fn live(flags: &[&str], command: &[&str]) -> Command {
    live_at(PLACE, flags, command)
}

fn live_at(place: [&str; 4], flags: &[&str], command: &[&str]) -> Command {
    let mut run = Command::new(env!("CARGO_BIN_EXE_pcstream"));
    run.args(["run", "--live"]).args(place).args(DEVICE).args(flags).arg("--").args(command);
    run.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    run
}

fn json(out: &Output) -> Value {
    serde_json::from_slice(&out.stdout).expect("it is JSON")
}

/// Runs without streams and with. The device and the simulation count the same writes, and nearly the same WAF.
fn agrees(place: [&str; 4], command: &[&str]) -> Value {
    let out = expect(&mut live_at(place, &["--json", "-"], command), 0, &["run 2 of 2: pcstream"]);
    let result = json(&out);
    let runs = result["runs"].as_array().expect("a list");
    assert_eq!(runs.len(), 2);
    for run in runs {
        let number = |side: &str, field: &str| run[side][field].as_u64().expect("a number");
        assert_eq!(number("live", "host_pages"), number("simulated", "host_pages"), "{run:#}");
        assert_eq!(number("live", "discarded_pages"), number("simulated", "discarded_pages"), "{run:#}");
        assert_eq!(run["unassigned_pages"], 0, "{run:#}");
        // Streams may leave nothing to copy.
        assert!(number("live", "erases") > 0, "nothing was erased, so nothing was compared: {run:#}");
        let copies = number("live", "gc_pages") > 0;
        assert!(copies || run["scheme"] == "pcstream", "nothing was copied: {run:#}");
        let difference = run["waf_difference"].as_f64().expect("a number");
        assert!(difference.abs() <= AGREEMENT, "{difference}: {run:#}");
        let of_streams = |side: &str| {
            let streams = run[side]["streams"].as_array().expect("a list");
            streams.iter().map(|stream| stream["host_pages"].as_u64().expect("a number")).collect::<Vec<_>>()
        };
        assert_eq!(of_streams("live"), of_streams("simulated"), "every page has its stream");
        let used = of_streams("live").iter().filter(|pages| **pages > 0).count();
        assert_eq!(used > 1, run["scheme"] == "pcstream", "{run:#}");
    }
    result
}

fn built_in() {
    agrees(FOR_BUILT_IN, &[env!("CARGO_BIN_EXE_pcstream"), "demo-workload", "--part", "0.1"]);
    let out = expect(&mut live(&["--scheme", "pcstream"], &["sh", "-c", "echo x > file"]), 0, &[]);
    let table = text(&out.stdout);
    assert!(table.contains("carries the data") && table.contains("unassigned"), "{table}");
}

/// The command writes until it was said how the device stands.
fn standing() {
    let dir = TempDir::new().expect("a directory");
    let said = dir.path().join("said");
    let script = "until [ -e $0 ]; do dd if=/dev/zero of=f bs=64k count=16 conv=fsync 2>/dev/null; done";
    // Without that line it fails after a while, instead of going on for ever.
    let command = ["timeout", "300", "sh", "-c", script, &said.display().to_string()];
    let mut run = live(&["--scheme", "pcstream"], &command);
    let mut run = Run::start(&mut run);
    let mut lines = BufReader::new(run.stderr.take().expect("piped")).lines();
    let line = lines.by_ref().map(|line| line.expect("text")).find(|line| line.contains("the device: "));
    fs::write(&said, "").expect("a file can be made");
    let line = line.expect("it was said before the end");
    for what in [" written, ", " copied by garbage collection, WAF 1.", " free"] {
        assert!(line.contains(what), "{line}");
    }
    lines.for_each(drop);
    assert_eq!(wait(&mut run), Some(0));
}

fn power_cuts() {
    let dir = TempDir::new().expect("a directory");
    let began = dir.path().join("began").display().to_string();
    for (fs, at, loss) in [("ext4", "4000", "half"), ("xfs", "7001", "all"), ("ext4", "9000", "none")] {
        let flags =
            ["--fs", fs, "--scheme", "pcstream", "--power-cut", at, "--power-loss", loss, "--json", "-"];
        let result = json(&expect(&mut live(&flags, &["sh", "-c", FILES, &began]), 0, &[]));
        let cut = &result["runs"][0]["power_cut"];
        assert_eq!((&cut["clean"], &cut["mount_error"]), (&Value::Bool(true), &Value::Null), "{cut:#}");
        assert_eq!(cut["lost_pages"].as_u64().expect("a number") > 0, loss != "none", "{cut:#}");
        assert_eq!(result["runs"][0]["waf_difference"], Value::Null);
        let lost = &result["runs"][0]["losses"];
        assert!(lost.as_object().is_none_or(|lost| lost.is_empty()), "what was dirty is no loss: {lost:#}");
    }
    let flags = ["--scheme", "pcstream", "--power-cut", "100000"];
    expect(&mut live(&flags, &["sh", "-c", "echo x > file"]), 1, &["the power was not cut"]);
}

/// Where there is an image, a second run is refused. Where there was none, the second to end does not replace the first's.
fn image_of_two() {
    let dir = TempDir::new().expect("a directory");
    let [image, begun, go] = ["image", "begun", "go"].map(|name| dir.path().join(name).display().to_string());
    let waits = format!(": > {begun}; while [ ! -e {go} ]; do sleep 0.1; done");
    let flags = ["--scheme", "baseline", "--image", &image];
    let start = || {
        let run = Run::start(&mut live_at(FOR_SQLITE, &flags, &["sh", "-c", &waits]));
        wait_for_child("the command", &run, || Path::new(&begun).exists());
        run
    };
    let end = |mut run: Run, code: i32, words: &[&str]| {
        fs::write(&go, "").expect("it can be written");
        assert_eq!(wait(&mut run), Some(code));
        let said = text(&run.wait_with_output().stderr);
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
        [&go, &begun].iter().for_each(|file| fs::remove_file(file).expect("it is there"));
    };
    let first = start();
    expect(&mut live_at(FOR_SQLITE, &flags, &["true"]), 0, &[]);
    let saved = fs::read(&image).expect("it was saved");
    end(first, 1, &["--image", "the data was not saved", "another run has made it"]);
    assert!(fs::read(&image).expect("it is there") == saved, "the other's data stays");
    let first = start();
    expect(&mut live_at(FOR_SQLITE, &flags, &["true"]), 1, &["--image", "another run uses it"]);
    end(first, 0, &[]);
}

fn image() {
    let dir = TempDir::new().expect("a directory");
    let link = dir.path().join("link").display().to_string();
    std::os::unix::fs::symlink("image", &link).expect("a link can be made");
    let through = ["--scheme", "pcstream", "--image", &link];
    expect(&mut live(&through, &["sh", "-c", "echo x > file"]), 0, &[]);
    expect(&mut live(&through, &["grep", "x", "file"]), 0, &["its data is on the device"]);
    let image = dir.path().join("image").display().to_string();
    assert!(fs::symlink_metadata(&link).is_ok_and(|it| it.is_symlink()), "what it names is replaced");
    fs::remove_file(&image).expect("it was made");
    for fs in ["ext4", "xfs"] {
        let flags = ["--fs", fs, "--scheme", "pcstream", "--image", &image];
        let write = "dd if=/dev/urandom of=file bs=1M count=20 2>/dev/null && sha256sum file > sum";
        expect(&mut live(&flags, &["sh", "-c", write]), 0, &[]);
        let mut check = live(&flags, &["sh", "-c", "sha256sum -c sum && echo more > more"]);
        expect(&mut check, 0, &["its data is on the device"]);
        expect(&mut live(&flags, &["sh", "-c", "sha256sum -c sum && grep more more"]), 0, &[]);
        let other = if fs == "ext4" { "xfs" } else { "ext4" };
        expect(
            &mut live(&["--fs", other, "--scheme", "pcstream", "--image", &image], &["true"]),
            1,
            &["--fs"],
        );
        std::os::unix::fs::chown(&image, Some(65534), None).expect("it is root's");
        expect(&mut live(&flags, &["true"]), 1, &["--image", "belongs to user 65534"]);
        std::os::unix::fs::chown(&image, Some(0), None).expect("it can be given back");
        let mut bytes = fs::read(&image).expect("it is there");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&image, &bytes).expect("it can be written");
        expect(&mut live(&flags, &["true"]), 1, &["--image", "damaged"]);
        assert!(fs::read(&image).expect("it is there") == bytes, "a refused image stays as it is");
        fs::remove_file(&image).expect("it is there");
    }
    let flags = ["--scheme", "pcstream", "--image", "/proc/image"];
    expect(&mut live(&flags, &["true"]), 1, &["--image /proc/image", "cannot write there"]);
    // It can be saved when the run begins, and not when it ends.
    let gone = dir.path().join("gone");
    fs::create_dir(&gone).expect("made");
    let (place, directory) = (gone.join("image").display().to_string(), gone.display().to_string());
    let flags = ["--scheme", "pcstream", "--image", &place];
    let out = expect(&mut live(&flags, &["rmdir", &directory]), 1, &["--image", "cannot write there"]);
    assert!(
        text(&out.stdout).contains("carries the data"),
        "what was measured is shown: {}",
        text(&out.stdout)
    );
    // What was written stays, also if the trace of the run is lost.
    let (traces, kept) = (dir.path().join("traces"), dir.path().join("kept"));
    fs::create_dir(&traces).expect("made");
    let (trace, kept) = (traces.join("t.pctrace").display().to_string(), kept.display().to_string());
    let flags = ["--scheme", "pcstream", "--image", &kept];
    let script = format!("echo written > file && rm -r {}", traces.display());
    let lost = [&flags[..], &["-o", &trace]].concat();
    expect(&mut live(&lost, &["sh", "-c", &script]), 1, &["t.pctrace"]);
    expect(&mut live(&flags, &["grep", "written", "file"]), 0, &["its data is on the device"]);
    assert!(Command::new("mkfifo").arg(&image).status().expect("it starts").success());
    let flags = ["--scheme", "pcstream", "--image", &image];
    expect(&mut live(&flags, &["true"]), 2, &["--image", "is not a regular file"]);
}

/// Starts a run that writes until it fails, and waits until it does.
fn start(dir: &Path, flags: &[&str]) -> Run {
    let began = dir.join("began");
    let command = ["sh", "-c", FILES, began.to_str().expect("a plain path")];
    let child = Run::start(&mut live(flags, &command));
    wait_for_child("the program", &child, || began.exists());
    child
}

/// The process that serves the device of a run.
fn device_of(run: &Run) -> u32 {
    let pid = run.id();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("it runs");
    let mut children = children.split_whitespace().map(|pid| pid.parse().expect("a number"));
    let is_device = |pid: &u32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        text(&words).contains("emulated-device")
    };
    children.find(is_device).expect("the device is a child")
}

fn killed() {
    let dir = TempDir::new().expect("a directory");
    let mut run = start(dir.path(), &["--scheme", "pcstream"]);
    signal(run.id(), "KILL");
    wait(&mut run);
    // The command dies with its capture, and the device ends; what they used is free a moment later.
    wait_for("nothing to be left", || {
        let doctor = Command::new(env!("CARGO_BIN_EXE_pcstream")).args(["doctor", "--clean"]).output();
        doctor.expect("it runs");
        left(run.id()).is_empty()
    });
}

fn interrupted() {
    let dir = TempDir::new().expect("a directory");
    let mut run = start(dir.path(), &[]);
    signal(run.id(), "INT");
    assert_eq!(wait(&mut run), Some(130));
    let pid = run.id();
    let out = run.wait_with_output();
    let (said, shown) = (text(&out.stderr), text(&out.stdout));
    assert!(said.contains("interrupted") && shown.contains("baseline"), "{said}\n{shown}");
    assert!(!said.contains("run 2 of 2"), "the second run is left out: {said}");
    assert_eq!(left(pid), [""; 0]);
}

/// A process has a copy of the mount, so the file system and its device cannot be removed: the result is shown nevertheless.
fn held_mount() {
    held_mount_after(&[], "the scratch file system is still there");
    held_mount_after(&["--power-cut", "50"], "after the power cut the file system could not be checked");
}

fn held_mount_after(flags: &[&str], error: &str) {
    let dir = TempDir::new().expect("a directory");
    let holder = dir.path().join("pid");
    let holding = common::holding_its_mount(&holder);
    let script =
        format!("scratch=$PWD; {holding}\ncd $scratch; head -c 1M /dev/zero > more; sync -f .; cd /; true");
    let flags = [&["--scheme", "pcstream", "--json", "-"], flags].concat();
    let mut run = live(&flags, &["sh", "-c", &script]);
    let run = Run::start(&mut run);
    let pid = run.id();
    let out = run.wait_with_output();
    let holder = fs::read_to_string(&holder).expect("the holder began").trim().to_owned();
    signal(holder.parse().expect("a number"), "KILL");
    wait_for("the end of a process", || !Path::new(&format!("/proc/{holder}")).exists());
    assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
    let named = format!("pid {holder}: mounted in its namespace");
    assert!([&*named, error].iter().all(|said| text(&out.stderr).contains(said)), "{}", text(&out.stderr));
    let pages = json(&out)["runs"][0]["live"]["host_pages"].as_u64();
    assert!(pages.is_some_and(|pages| pages > 0), "{}", text(&out.stdout));
    wait_for("nothing to be left", || {
        let doctor = Command::new(env!("CARGO_BIN_EXE_pcstream")).args(["doctor", "--clean"]).output();
        doctor.expect("it runs");
        left(pid).is_empty()
    });
}

/// The device is gone under the file system: an error that says so, no hang, nothing left.
fn device_killed() {
    let dir = TempDir::new().expect("a directory");
    let mut run = start(dir.path(), &["--scheme", "pcstream"]);
    signal(device_of(&run), "KILL");
    assert_eq!(wait(&mut run), Some(1));
    let pid = run.id();
    let out = run.wait_with_output();
    assert!(text(&out.stderr).contains("emulated device"), "{}", text(&out.stderr));
    assert_eq!(left(pid), [""; 0]);
}

fn wrong_arguments() {
    let refused = |flags: &[&str], parts: &[&str]| drop(expect(&mut live(flags, &["true"]), 2, parts));
    refused(&["--scheme", "oracle"], &["--scheme oracle", "looks ahead"]);
    refused(&["--capacity", "1G"], &["--capacity", "--size"]);
    refused(&["--prefill", "0.5"], &["--prefill", "--fill"]);
    refused(&["--timing"], &["--timing"]);
    refused(&["--image", "tmpfs"], &["--image tmpfs"]);
    refused(&["--image", "/nonexistent/image"], &["--image", "2 runs"]);
    refused(&["-o", "/nonexistent/t.pctrace"], &["--output", "2 runs"]);
    refused(&["--power-loss", "all"], &["--power-cut"]);
    let mut alone = Command::new(env!("CARGO_BIN_EXE_pcstream"));
    alone.args(["run", "--power-cut", "9", "--", "true"]).stderr(Stdio::piped()).stdout(Stdio::piped());
    expect(&mut alone, 2, &["--live"]);
    expect(
        &mut live_at(["--size", "1T", "--fill", "0.5"], &[], &["true"]),
        1,
        &["bytes of memory", "--size"],
    );
}
