//! What `record` says and does where there is no room, or suddenly more, or no file system that it can use, where the output of
//! its command goes, and what a terminal shows before that.

#[path = "../../pcstream-capture/tests/common/mod.rs"]
mod common;
#[path = "../../pcstream-capture/tests/common/disk.rs"]
mod disk;
#[path = "common/program.rs"]
mod program;
#[path = "../../pcstream-capture/tests/common/programs.rs"]
mod programs;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode, Output, Stdio};
use std::time::Instant;

use common::{PATIENCE, wait_for, wait_for_child};
use disk::{Disk, text};
use pcstream_trace::TraceReader;
use program::{Run, Writer};
use serde_json::Value;
use tempfile::TempDir;

fn main() -> ExitCode {
    let needs = [common::ext4 as common::Need, common::loop_devices];
    let xfs = [common::xfs as common::Need, common::loop_devices];
    common::run(vec![
        common::test("record_passes_the_output_of_its_command_through", &needs, output),
        common::test(
            "record_shows_its_start_on_a_terminal",
            &[common::ext4, common::zram, programs::script],
            start_on_a_terminal,
        ),
        common::test("record_writes_nothing_where_its_directory_was_replaced", &needs, replaced),
        common::test("record_says_what_a_full_disk_leaves_of_the_trace", &needs, full_disk),
        common::test(
            "record_says_that_a_file_system_is_mounted_elsewhere",
            &[common::ext4, common::loop_devices, programs::unshare],
            mounted_elsewhere,
        ),
        common::test("record_counts_what_a_detached_mount_leaves_unwritten", &needs, detached),
        common::test("record_waits_for_what_an_unmount_writes", &needs, unmounted_at_once),
        common::test("record_syncs_a_file_system_that_is_mounted_twice", &needs, unmounted_once),
        common::test("record_refuses_ext4_with_small_blocks", &needs, small_blocks),
        common::test(
            "record_notices_a_full_scratch_file_system",
            &[common::ext4, common::zram],
            full_scratch,
        ),
        common::test("record_goes_on_with_a_larger_device", &needs, larger_device),
        common::test("record_goes_on_with_a_larger_xfs", &xfs, larger_xfs),
        common::test("record_says_what_its_command_leaves_running", &needs, left_running),
        common::test("record_interrupted_with_its_command_says_so", &needs, both_interrupted),
        common::test("record_and_place_say_that_a_file_system_came", &needs, mounted_meanwhile),
        common::test("record_ends_when_an_xfs_is_shut_down", &xfs, shut_down),
        common::test("record_and_place_killed_leave_the_command_running", &needs, killed),
        common::test("commands_are_asked_to_end_after_a_duration", &needs, asked_to_end),
        common::test("record_keeps_a_burst_before_a_long_silence", &needs, burst),
        common::test("run_simulates_a_device_that_grew", &xfs, larger_run),
        common::test("run_packs_a_device_too_large_for_the_model", &[common::loop_devices], packed_run),
    ])
}

fn pcstream(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pcstream"));
    command.args(arguments).stdin(Stdio::null()).output().expect("it starts")
}

#[track_caller]
fn assert_said(output: &Output, code: i32, parts: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    parts.iter().for_each(|part| assert!(said.contains(part), "expected {part:?} in\n{said}"));
}

/// A status line that is gone before the command has the terminal. Nobody else gets it.
fn start_on_a_terminal() {
    let dir = TempDir::new().expect("a directory");
    let trace = dir.path().join("t.pctrace");
    let words = ["record", "--force", "--size", "256M", "-o", text(&trace), "--", "echo", "it-runs"];
    let on_a_terminal = |flags: &[&str]| {
        let line = [&[env!("CARGO_BIN_EXE_pcstream")], flags, &words].concat().join(" ");
        let mut script = Command::new("script");
        script.args(["--quiet", "--return", "--command", &line, "/dev/null"]).stdin(Stdio::null());
        let shown = script.output().expect("it starts");
        let text = String::from_utf8_lossy(&shown.stdout).into_owned();
        assert!(shown.status.success(), "{text}");
        text
    };
    let shown = on_a_terminal(&[]);
    let (start, rest) = shown.split_once("it-runs").expect("the command ran");
    for stage in ["loading the BPF program", "making the scratch file system", "writing what is dirty"] {
        assert!(start.contains(stage), "{stage} is not in {shown:?}");
    }
    assert!(start.ends_with("\x1b[2K") && !rest.contains("starting"), "the line is gone: {shown:?}");
    assert_eq!(on_a_terminal(&["--quiet"]), "it-runs\r\n");
    let plain = pcstream(&words);
    assert_said(&plain, 0, &["t.pctrace"]);
    assert!(!String::from_utf8_lossy(&plain.stderr).contains("starting"));
}

/// `run` has results of its own there.
fn output() {
    let (disk, traces) = (Disk::ext4(64), TempDir::new().expect("a directory"));
    let (mount, trace) = (disk.mount_point(), traces.path().join("t.pctrace"));
    let script = ["--", "sh", "-c", "echo result; echo remark >&2; echo x > f"];
    let on = ["--on", text(&mount), "-o", text(&trace)];
    let recorded = pcstream(&[&["record"], &on[..], &script].concat());
    assert_said(&recorded, 0, &["remark"]);
    assert_eq!(String::from_utf8_lossy(&recorded.stdout), "result\n");
    let run = pcstream(&[&["run", "--force", "--scheme", "baseline"], &on[..], &script].concat());
    assert_said(&run, 0, &["result", "remark"]);
    assert!(!String::from_utf8_lossy(&run.stdout).lines().any(|line| line == "result"));
}

/// What the command's user may do to a directory of that user, while root writes a trace into it.
fn replaced() {
    let (disk, traces) = (Disk::ext4(64), TempDir::new().expect("a directory"));
    let (mount, trace) = (disk.mount_point(), traces.path().join("t.pctrace"));
    let precious = traces.path().join("precious");
    fs::write(&precious, "root's").expect("a file");
    let script = "echo x > f; sync f; cd \"$0\"; mv t.pctrace.partial moved; mkdir t.pctrace.partial; \
                  for file in meta.json meta.json.tmp events.parquet contexts.parquet; do \
                      ln -s ../precious t.pctrace.partial/$file; done";
    let command = ["--", "sh", "-c", script, text(traces.path())];
    let recorded = pcstream(&[&["record", "--on", text(&mount), "-o", text(&trace)], &command[..]].concat());
    assert_said(&recorded, 1, &["t.pctrace.partial: somebody moved", "only you can change"]);
    assert_eq!(fs::read(&precious).expect("the file"), b"root's");
    assert!(!trace.exists());
    let moved = TraceReader::open(traces.path().join("moved")).expect("what was recorded is there");
    assert!(moved.meta().complete);
}

/// The command would write for ever. The disk gets full once a part of the trace is on it.
fn full_disk() {
    let (written, traces) = (Disk::ext4(64), Disk::ext4(64));
    let (mount, trace) = (written.mount_point(), traces.mount_point().join("t.pctrace"));
    let partial = trace.with_extension("pctrace.partial");
    let script = "while true; do dd if=/dev/zero of=f bs=4k count=64 conv=fsync,notrunc 2>/dev/null; done";
    let arguments = ["record", "--on", text(&mount), "-o", text(&trace), "--", "sh", "-c", script];
    let mut command = Command::new(env!("CARGO_BIN_EXE_pcstream"));
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0);
    let mut recorder = command.spawn().map(Writer).expect("it starts");
    // The second part is begun when all that the first one needs is on the disk.
    let mut parts = BTreeSet::new();
    wait_for_child("two parts of the trace", &recorder.0, || {
        let names = fs::read_dir(&partial).into_iter().flatten().flatten();
        let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
        parts.extend(names.filter(|name| name.starts_with("events-") && name.ends_with(".parquet")));
        parts.len() > 1
    });
    let mut rest = File::create(traces.mount_point().join("rest")).expect("there is room");
    let began = Instant::now();
    // What the recorder gives back is taken, too.
    let status = loop {
        let _ = rest.write_all(&[1; 4096]);
        if let Some(status) = recorder.0.try_wait().expect("it is a child") {
            break status;
        }
        assert!(began.elapsed() < PATIENCE, "it goes on");
    };
    let mut stderr = Vec::new();
    let mut pipe = recorder.0.stderr.take().expect("it is piped");
    pipe.read_to_end(&mut stderr).expect("it ended");
    let out = Output { status, stdout: Vec::new(), stderr };
    let parts = ["the command was ended", "can be read: ", text(&partial), "No space left", "another disk"];
    assert_said(&out, 1, &parts);
    TraceReader::open(&partial).expect("it can be read");
}

/// In a mount namespace alone that the recorder does not see.
fn mounted_elsewhere() {
    let (mut disk, traces) = (Disk::ext4(64), TempDir::new().expect("a directory"));
    let (device, mount) = (disk.device().to_owned(), disk.mount_point());
    disk.unmount();
    let script = format!("mount {device} {} && echo there && exec cat", text(&mount));
    let mut inside = Command::new("unshare");
    inside.args(["-m", "--propagation", "private", "sh", "-c", &script]);
    let mut inside = inside.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    inside.stdout.as_mut().expect("it is piped").read_exact(&mut [0; 6]).expect("it is mounted");
    let pid = inside.id();
    let through = Path::new(&format!("/proc/{pid}/root")).join(mount.strip_prefix("/").expect("absolute"));
    let record = |on: &str, name: &str| {
        pcstream(&["record", "--on", on, "-o", text(&traces.path().join(name)), "--", "true"])
    };
    let (by_path, by_device) = (record(text(&through), "a.pctrace"), record(&device, "b.pctrace"));
    let dd = format!("dd if=/dev/zero of={}/f bs=64k count=4 conv=fsync", text(&mount));
    let (trace, inside_of) = (traces.path().join("d.pctrace"), pid.to_string());
    let unseen = ["record", "--on", &device, "-o", text(&trace), "--"];
    let command = ["nsenter", "-t", &inside_of, "-m", "sh", "-c", &dd];
    let unseen = pcstream(&[&unseen[..], &command].concat());
    disk.mount("nosuid,nodev");
    let here = record(text(&mount), "c.pctrace");
    drop(inside.stdin.take());
    inside.wait().expect("it ends");
    assert_said(
        &by_path,
        1,
        &[text(&through), "is in another mount namespace", "mount -o nosuid,nodev DEVICE DIR"],
    );
    let too = format!("mount -o nosuid,nodev {device} DIR");
    assert_said(&by_device, 0, &[&device, "holds ext4, mounted in another mount namespace", &too]);
    assert_said(&unseen, 0, &["of data were written", "no write has a context"]);
    let said = String::from_utf8_lossy(&unseen.stderr);
    assert!(!said.contains("check --on"), "{said}");
    assert_said(&here, 0, &[]);
}

/// Records what a script writes, and what it does to the mount, which is `$0`.
fn end_of_mount(disk: &Disk, script: &str) -> (Output, u64) {
    let traces = TempDir::new().expect("a directory");
    let (mount, trace) = (disk.mount_point(), traces.path().join("t.pctrace"));
    let script = format!("dd if=/dev/zero of=\"$0/file\" bs=1M count=32 2>/dev/null; cd /; {script}");
    let on = ["record", "--on", text(&mount), "-o", text(&trace), "--", "sh", "-c", &script, text(&mount)];
    let output = pcstream(&on);
    let reader = TraceReader::open(&trace).expect("the trace can be read");
    (output, reader.meta().totals.host_pages)
}

/// Somebody has a file open.
fn detached() {
    let mut disk = Disk::ext4(128);
    let mut holder =
        Command::new("cat").current_dir(disk.mount_point()).stdin(Stdio::piped()).spawn().expect("it starts");
    let (output, _) = end_of_mount(&disk, "umount -l \"$0\"");
    drop(holder.stdin.take());
    holder.wait().expect("it ends");
    disk.is_unmounted();
    assert_said(
        &output,
        3,
        &["not all that was written has reached", "the file system was unmounted", "sync_abandoned 1"],
    );
}

/// Nobody uses it.
fn unmounted_at_once() {
    for flag in ["", "-l"] {
        let mut disk = Disk::ext4(128);
        let (output, pages) = end_of_mount(&disk, &format!("umount {flag} \"$0\""));
        disk.is_unmounted();
        assert_said(&output, 0, &[]);
        assert!(pages >= 8192, "{pages} pages with {flag:?}");
    }
}

/// It stays where else it is mounted.
fn unmounted_once() {
    let (mut disk, other) = (Disk::ext4(128), TempDir::new().expect("a directory"));
    let bind = format!("mount --bind \"$0\" {0} && umount \"$0\"", text(other.path()));
    let (output, pages) = end_of_mount(&disk, &bind);
    disk::succeed("umount", &[text(other.path())]);
    disk.is_unmounted();
    assert_said(&output, 0, &[]);
    assert!(pages >= 8192, "{pages} pages");
}

/// As `mkfs.ext4` makes them on small devices.
fn small_blocks() {
    let disk = Disk::made(64, &["mkfs.ext4", "-q", "-F", "-b", "1024"], "discard");
    let traces = TempDir::new().expect("a directory");
    let (mount, trace) = (disk.mount_point(), traces.path().join("t.pctrace"));
    let expected = "ext4 has blocks of 1024 bytes; 4096 are needed: mkfs.ext4 -b 4096";
    let record = ["record", "--on", text(&mount), "-o", text(&trace), "--", "true"];
    for words in [&record[..], &["place", "--sink", "none", "--on", text(&mount)], &["doctor", text(&mount)]]
    {
        assert_said(&pcstream(words), 1, &[text(&mount), expected]);
    }
}

/// A write of more than is free is refused as a whole: some room is left.
fn full_scratch() {
    let traces = TempDir::new().expect("a directory");
    let trace = traces.path().join("t.pctrace");
    let record = |script: &str| {
        let at = ["record", "--size", "64M", "--fill", "0.5", "--force", "-o", text(&trace)];
        pcstream(&[&at[..], &["--", "sh", "-c", script]].concat())
    };
    let full = record("dd if=/dev/zero of={}/big bs=1M count=200; true");
    assert_said(&full, 3, &["the scratch file system is full", "KiB were left", "scratch_full 1"]);
    // Removed once the recorder, whose looks are waits of its main thread, has looked some times.
    let removed = "dd if=/dev/zero of={}/big bs=1M count=200; waits() { sed -n 's/^voluntary_ctxt_switches:\t//p' /proc/$PPID/status; }; \
        first=$(waits); while [ $(waits) -lt $((first + 20)) ]; do sleep 0.1; done; rm {}/big; echo x >{}/small; sync";
    assert_said(&record(removed), 3, &["the scratch file system was full for some time", "scratch_full 1"]);
    assert_said(&record("dd if=/dev/zero of={}/big bs=1M count=20"), 0, &[]);
}

/// `$0` is the image, `$1` the device and `$2` where it is mounted.
fn while_it_grows(disk: &Disk, arguments: &[&str], script: &str) -> Output {
    let (image, mount) = (disk.image(), disk.mount_point());
    let command = ["--", "sh", "-c", script, text(&image), disk.device(), text(&mount)];
    pcstream(&[arguments, &command].concat())
}

/// The trace has the size that the device has at the end, and all that was written.
#[track_caller]
fn assert_grew(output: &Output, sizes: &str, trace: &Path, pages: u64, beyond: u64) {
    assert_said(output, 0, &[sizes]);
    let reader = TraceReader::open(trace).expect("the trace can be read");
    assert_eq!((reader.meta().device.pages, reader.meta().complete), (pages, true));
    let batches: Vec<_> = reader.batches().collect::<Result<_, _>>().expect("all events are on the device");
    let events = batches.iter().flat_map(|batch| &batch.events);
    let behind: u64 = events.filter(|event| event.lba.0 >= beyond).map(|event| u64::from(event.pages)).sum();
    assert!(behind >= 256, "{behind} pages");
}

/// As a logical volume is extended below a database.
fn larger_device() {
    let (disk, traces) = (Disk::unformatted(64), TempDir::new().expect("a directory"));
    let trace = traces.path().join("t.pctrace");
    let script = "dd if=/dev/zero of=\"$1\" bs=1M count=1 conv=fsync; truncate -s 128M \"$0\"; losetup -c \"$1\"; \
                  dd if=/dev/zero of=\"$1\" bs=1M count=1 seek=70 conv=fsync";
    let on = ["record", "--on", disk.device(), "-o", text(&trace)];
    let output = while_it_grows(&disk, &on, script);
    let sizes = format!("{} grew from 64.0 MiB to 128 MiB while it was recorded", disk.device());
    assert_grew(&output, &sizes, &trace, 128 << 8, 64 << 8);
}

/// Writes a file that did not fit before.
const GROW_XFS: &str = "echo x > \"$2/x\"; truncate -s 1G \"$0\"; losetup -c \"$1\"; xfs_growfs \"$2\" > /dev/null; \
                        dd if=/dev/zero of=\"$2/file\" bs=1M count=330";

fn small_xfs() -> Disk {
    Disk::made(320, &["mkfs.xfs", "-q"], "discard")
}

fn larger_xfs() {
    let (disk, traces) = (small_xfs(), TempDir::new().expect("a directory"));
    let (trace, mount) = (traces.path().join("t.pctrace"), disk.mount_point());
    let on = ["record", "--on", text(&mount), "-o", text(&trace)];
    let output = while_it_grows(&disk, &on, GROW_XFS);
    let sizes = "grew from 320 MiB to 1.00 GiB while it was recorded: the trace has the new size";
    assert_grew(&output, sizes, &trace, 1 << 18, 320 << 8);
}

/// The results are those of a later simulation, which knows the new size.
fn larger_run() {
    let (disk, traces) = (small_xfs(), TempDir::new().expect("a directory"));
    let (trace, mount) = (traces.path().join("t.pctrace"), disk.mount_point());
    let [live, later] = ["live", "later"].map(|name| traces.path().join(name));
    let schemes = ["--scheme", "baseline,pcstream,oracle"];
    let on = ["run", "--on", text(&mount), "-o", text(&trace), "--json", text(&live)];
    let output = while_it_grows(&disk, &[&on[..], &schemes].concat(), GROW_XFS);
    let said = "the schemes run over the recording, on a device of the new size";
    assert_grew(&output, said, &trace, 1 << 18, 320 << 8);
    let simulate = ["simulate", text(&trace), "--json", text(&later)];
    assert_said(&pcstream(&[&simulate[..], &schemes].concat()), 0, &[]);
    assert_eq!(results(&live), results(&later));
    assert!(results(&live).is_array());
}

fn results(path: &Path) -> Value {
    let text = fs::read(path).expect("results");
    serde_json::from_slice::<Value>(&text).expect("JSON")["results"].clone()
}

/// 15.5 TiB, and the spare area of its flash: refused before the command starts. Packed, results are those of `simulate`.
fn packed_run() {
    let (disk, dir) = (Disk::unformatted(31 << 19), TempDir::new().expect("a directory"));
    let [trace, live, later] = ["t.pctrace", "live", "later"].map(|name| dir.path().join(name));
    let write =
        |seek: u32| format!("dd if=/dev/zero of={} bs=1M count=2 seek={seek} conv=fsync; ", disk.device());
    let script: String = [0, 9_000_000, 0, 9_000_000, 0].map(write).concat();
    let run = |flags: &[&str]| {
        pcstream(&[&["run", "--on", disk.device()], flags, &["--", "sh", "-c", &script]].concat())
    };
    let refused = run(&[]);
    assert_said(&refused, 2, &["17.7 TiB of flash", "16.0 TiB that the model addresses", "or --pack 0.9"]);
    assert!(!String::from_utf8_lossy(&refused.stderr).contains("records"), "the command ran");
    let packed = ["--scheme", "baseline,pcstream,oracle", "--pack", "0.9", "--superblock-pages", "4"];
    let keep = ["-o", text(&trace), "--json", text(&live)];
    assert_said(&run(&[&packed[..], &keep].concat()), 0, &["simulated as if 90.0 % full: 4.00 MiB"]);
    let simulate = ["simulate", text(&trace), "--json", text(&later)];
    assert_said(&pcstream(&[&simulate[..], &packed].concat()), 0, &[]);
    assert_eq!(results(&live), results(&later));
    assert!(results(&live)[0]["erases"].as_u64().is_some_and(|pages| pages > 0), "the device had no work");
}

/// As Ctrl-C does on a terminal, also where the command has ended before `record` has noted the signal.
fn both_interrupted() {
    let (disk, traces) = (Disk::ext4(64), TempDir::new().expect("a directory"));
    for (signal, code) in [("INT", 130), ("QUIT", 131)] {
        let script = format!("kill -{signal} $PPID; kill -{signal} $$");
        let out = program::record(&disk.mount_point(), &traces.path().join(signal), &script);
        assert_said(&out, code, &["interrupted"]);
    }
}

/// As `pg_ctl start` does.
fn left_running() {
    let (disk, traces) = (Disk::ext4(64), TempDir::new().expect("a directory"));
    let (mount, trace) = (disk.mount_point(), traces.path().join("t.pctrace"));
    let (pid, fifo) = (traces.path().join("pid"), traces.path().join("fifo"));
    disk::succeed("mkfifo", &[text(&fifo)]);
    let script = "cat \"$0\" > late 2>/dev/null & echo $! > \"$1\"";
    let on = ["--on", text(&mount), "--", "sh", "-c", script, text(&fifo), text(&pid)];
    for words in [&["record", "-o", text(&trace)][..], &["place", "--sink", "none"]] {
        let output = pcstream(&[words, &on].concat());
        let left = fs::read_to_string(&pid).unwrap_or_else(|_| panic!("it did not begin: {output:?}"));
        let left = left.trim();
        // Its end. It opens the pipe first.
        wait_for("a reader of the pipe", || {
            let pipe = File::options().write(true).custom_flags(libc::O_NONBLOCK).open(&fifo);
            pipe.is_ok_and(|mut pipe| pipe.write_all(b"x").is_ok())
        });
        fs::remove_file(&pid).expect("it is there");
        let name = format!("(pid {left}), which the command left running, goes on");
        assert_said(&output, 0, &[&name, &format!("attach to it with --pid {left}")]);
    }
}

/// Without a word all writes to its files would be of nobody.
fn mounted_meanwhile() {
    let (disk, dir) = (Disk::unformatted(64), TempDir::new().expect("a directory"));
    let (device, at, go) = (disk.device(), dir.path().join("mount"), dir.path().join("go"));
    let trace = dir.path().join("t.pctrace");
    fs::create_dir(&at).expect("made");
    disk::succeed("mkfifo", &[text(&go)]);
    // Whoever holds both ends waits for nobody.
    let mut held = File::options().read(true).write(true).open(&go).expect("a pipe");
    // It stays until the test has seen the remark, or did not see it for long.
    let script =
        "mkfs.ext4 -q -F -b 4096 \"$0\" && mount \"$0\" \"$1\" && timeout 60 head -n 1 \"$2\"; umount \"$1\"";
    let on = ["--on", device, "--", "sh", "-c", script, device, text(&at), text(&go)];
    for words in [&["record", "-o", text(&trace)][..], &["place", "--sink", "none"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pcstream"));
        let mut pcstream = command
            .args(words)
            .args(on)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut lines =
            BufReader::new(pcstream.stderr.take().expect("it is piped")).lines().map_while(Result::ok);
        let expected = format!("was mounted at {} meanwhile", at.display());
        let said = lines.any(|line| line.contains(&expected));
        if said {
            held.write_all(b"go\n").expect("there is room");
        }
        lines.for_each(drop);
        assert!(said && pcstream.wait().expect("it ends").success(), "{words:?}");
    }
}

/// That a signal ended it is no failure, and not asked for by the user's signal.
fn asked_to_end() {
    let (disk, dir) = (Disk::ext4(64), TempDir::new().expect("a directory"));
    let (mount, trace) = (disk.mount_point(), dir.path().join("t.pctrace"));
    let command = ["--duration", "200ms", "--", "tail", "-f", "/dev/null"];
    let on = ["--on", text(&mount)];
    for (words, on) in [
        (&["record", "-o", text(&trace), "--forward-exit-code"][..], &on[..]),
        (&["place", "--sink", "none"], &on),
        (&["run", "--size", "64M"], &[]),
    ] {
        let mut pcstream = Command::new(env!("CARGO_BIN_EXE_pcstream"));
        let out = pcstream.args(words).args(on).args(command).output().expect("it starts");
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(0), "{words:?}: {said}");
        assert!(said.contains("asked the command to end after "), "{words:?}: {said}");
    }
    assert!(TraceReader::open(&trace).expect("it is whole").meta().exit.is_none());
}

/// A file system that failed would be watched for ever.
fn shut_down() {
    const XFS_IOC_GOINGDOWN: libc::c_ulong = 0x8004_587d;
    let (disk, dir) =
        (Disk::made(400, &["mkfs.xfs", "-q", "-f"], "discard"), TempDir::new().expect("a directory"));
    let trace = dir.path().join("t.pctrace");
    let mut recorder = Command::new(env!("CARGO_BIN_EXE_pcstream"));
    recorder.args(["record", "--on", text(&disk.mount_point()), "-o", text(&trace), "--duration", "60s"]);
    let mut recorder = Run::start(recorder.stdin(Stdio::null()).stderr(Stdio::piped()));
    let mut said = BufReader::new(recorder.stderr.take().expect("it is piped")).lines().map_while(Result::ok);
    assert!(said.next().is_some_and(|line| line.contains("recording writes to")));
    let directory = File::open(disk.mount_point()).expect("it is there");
    let no_log_flush: u32 = 2;
    // SAFETY: the call reads one number, which lives until it returns.
    let done = unsafe { libc::ioctl(directory.as_raw_fd(), XFS_IOC_GOINGDOWN, &raw const no_log_flush) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    drop(directory);
    let said: Vec<String> = said.collect();
    assert!(said.iter().any(|line| line.contains("was unmounted or failed")), "{said:?}");
    recorder.wait().expect("it ends");
}

/// A database that was started by `nohup pcstream` outlives a terminal, and pcstream itself.
fn killed() {
    let (disk, dir) = (Disk::ext4(64), TempDir::new().expect("a directory"));
    let (mount, trace, go) = (disk.mount_point(), dir.path().join("t.pctrace"), dir.path().join("go"));
    disk::succeed("mkfifo", &[text(&go)]);
    // Whoever holds both ends waits for nobody.
    let mut held = File::options().read(true).write(true).open(&go).expect("a pipe");
    let (begun, done) = (mount.join("begun"), mount.join("done"));
    let script = "echo > begun; read line < \"$0\"; echo \"$line\" > part; mv part done";
    let on = ["--on", text(&mount), "--", "sh", "-c", script, text(&go)];
    for words in [&["record", "-o", text(&trace)][..], &["place", "--sink", "none"]] {
        let mut shell = Command::new("sh");
        shell.args(["-c", "trap '' HUP; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_pcstream")]);
        let mut pcstream = Run::start(shell.args(words).args(on).stderr(Stdio::null()));
        wait_for_child("the command", &pcstream, || begun.exists());
        let status = fs::read_to_string(format!("/proc/{}/status", pcstream.id())).expect("it runs");
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("it is there");
        let ignores = ignored.ends_with('1');
        pcstream.kill().expect("it runs");
        pcstream.wait().expect("it ends");
        held.write_all(b"go\n").expect("there is room");
        wait_for("the end of the command", || done.exists());
        assert_eq!(fs::read_to_string(&done).expect("it is there"), "go\n");
        // A placer reloads at SIGHUP.
        assert_eq!(ignores, words[0] == "record", "{ignored}");
        [&begun, &done].iter().for_each(|file| fs::remove_file(file).expect("it is there"));
    }
}

/// Nothing else is written to the device, so no batch comes after it.
fn burst() {
    let (disk, traces) = (Disk::unformatted(64), TempDir::new().expect("a directory"));
    let trace = traces.path().join("t.pctrace");
    let mut recorder = Command::new(env!("CARGO_BIN_EXE_pcstream"));
    recorder.args(["record", "--on", disk.device(), "-o", text(&trace)]).stdin(Stdio::null());
    let mut recorder = Run::start(recorder.stderr(Stdio::piped()));
    let mut said = String::new();
    BufReader::new(recorder.stderr.take().expect("it is piped")).read_line(&mut said).expect("a remark");
    assert_eq!(said, format!("pcstream: recording writes to {0} on {0}\n", disk.device()));
    let of = format!("of={}", disk.device());
    disk::succeed("dd", &["if=/dev/zero", &of, "bs=1M", "count=4", "conv=fsync", "status=none"]);
    let meta = traces.path().join("t.pctrace.partial/meta.json");
    let meta =
        || serde_json::from_slice(&fs::read(&meta).unwrap_or_default()).unwrap_or(serde_json::Value::Null);
    wait_for_child("the burst in the trace", &recorder, || meta()["totals"]["host_pages"] == 1024);
    recorder.kill().expect("it runs");
    recorder.wait().expect("it ends");
    let reader = TraceReader::open(&trace).expect("what was flushed can be read");
    assert_eq!(reader.meta().totals.host_pages, 1024);
}
