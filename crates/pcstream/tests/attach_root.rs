//! `record` attached to what runs already: by process, by cgroup, by unit, or to all that write; what it follows, and how it ends.

#[path = "../../pcstream-capture/tests/common/mod.rs"]
mod common;
#[path = "../../pcstream-capture/tests/common/disk.rs"]
mod disk;
#[path = "common/group.rs"]
mod group;
#[path = "common/program.rs"]
mod program;
#[path = "../../pcstream-capture/tests/common/programs.rs"]
mod programs;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant};

use common::{wait_for, wait_for_child};
use disk::{Disk, text};
use group::Group;
use pcstream_trace::{Context, Op, TraceReader};
use program::{Writer, said};
use tempfile::TempDir;

fn main() -> ExitCode {
    let needs = [common::ext4 as common::Need, common::loop_devices];
    let with = |more: &[common::Need]| -> Vec<common::Need> { needs.iter().chain(more).copied().collect() };
    common::run(vec![
        common::test("attach_follows_a_process_and_its_children", &needs, process),
        common::test("attach_follows_several_processes_until_all_have_ended", &needs, processes),
        common::test("attach_follows_a_thread_that_becomes_another_program", &with(&[programs::gcc]), || {
            exec_of_a_thread("late")
        }),
        common::test(
            "attach_follows_a_thread_that_was_there_and_becomes_another_program",
            &with(&[programs::gcc, descriptors_of_threads]),
            || exec_of_a_thread("early"),
        ),
        common::test("attach_follows_a_cgroup_and_those_below", &with(&[cgroups]), cgroup),
        common::test("attach_follows_a_unit", &with(&[programs::systemd]), unit),
        common::test("attach_follows_everything_that_writes", &needs, everything),
        common::test("attach_follows_one_directory", &needs, one_directory),
        common::test("attach_ends_after_its_duration", &needs, duration),
        common::test("attach_ends_with_the_process", &needs, end_of_process),
        common::test("attach_ends_with_the_cgroup", &with(&[cgroups]), end_of_cgroup),
        common::test("attach_ends_when_the_file_system_is_unmounted", &needs, unmounted),
        common::test("attach_to_a_device_without_a_medium_is_refused", &needs, without_medium),
        common::test("attach_ends_at_sigterm_within_a_second", &needs, sigterm),
        common::test("attach_refuses_what_does_not_run", &needs, refused),
        common::test(
            "attach_names_a_unit_where_systemd_does_not_run",
            &with(&[no_systemd]),
            unit_without_systemd,
        ),
    ])
}

fn no_systemd() -> Option<String> {
    programs::systemd().is_none().then(|| "a machine without systemd".into())
}

/// Cgroups of version 2, which this test may make.
fn cgroups() -> Option<String> {
    match Group::make("need") {
        Some(_) => None,
        None => Some("cgroups of version 2 (mount -t cgroup2 none DIR)".into()),
    }
}

fn record(disk: &Disk, trace: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pcstream"));
    command.arg("record").arg("--on").arg(disk.mount_point()).arg("-o").arg(trace).args(arguments);
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    command
}

/// Who wrote each file: names of programs, by the file's name.
fn writers(trace: &Path) -> BTreeMap<String, Vec<String>> {
    let reader = TraceReader::open(trace).expect("the trace can be read");
    let mut writers = BTreeMap::<String, Vec<String>>::new();
    for batch in reader.batches() {
        let batch = batch.expect("it can be read");
        for event in batch.events.iter().filter(|e| e.op == Op::Write && e.file.is_some()) {
            let file = &reader.files()[event.file.0 as usize - 1].path;
            let context = (event.context.0 as usize).checked_sub(1).map(|at| &reader.contexts()[at]);
            let program = context.map_or("nobody", |context| &context.executable);
            writers.entry(file.clone()).or_default().push(program.to_owned());
        }
    }
    writers
}

/// Whether all that was written since the recording began is of these writers. A page that was dirty before has no writer.
fn all_since_then(writers: &[String], is_one: impl Fn(&String) -> bool) -> bool {
    let mut since = writers.iter().skip_while(|writer| *writer == "nobody").peekable();
    since.peek().is_some() && since.all(is_one)
}

/// Of two files the first was written by followed programs only, the second by others only.
fn assert_apart(trace: &Path, followed: &str, others: &str) {
    let writers = writers(trace);
    let of = |file: &str| writers.get(file).unwrap_or_else(|| panic!("{file} in {writers:?}"));
    assert!(all_since_then(of(followed), |program| program.ends_with("/dd")), "{writers:?}");
    assert!(all_since_then(of(others), |program| program == "others"), "{writers:?}");
}

/// Records until both files were written several times more, which takes no certain time.
fn record_until_both_wrote(disk: &Disk, trace: &Path, arguments: &[&str]) -> Output {
    let recorder = record(disk, trace, arguments).spawn().expect("it starts");
    wait_for_child("the recorder", &recorder, || follows(trace));
    for file in ["followed", "other"].map(|name| Path::new(&disk.mount_point()).join(name)) {
        for _ in 0..5 {
            let written = || fs::metadata(&file).and_then(|metadata| metadata.modified()).ok();
            let before = written();
            wait_for("more writes", || written() != before);
        }
    }
    disk::succeed("kill", &["-s", "TERM", &recorder.id().to_string()]);
    let out = recorder.wait_with_output().expect("it ends");
    assert!([Some(0), Some(3)].contains(&out.status.code()), "{}", said(&out));
    assert!(said(&out).contains("ended as you asked"), "{}", said(&out));
    // Where everything is followed, nobody else is left.
    assert_eq!(said(&out).contains("written by others"), !arguments.is_empty(), "{}", said(&out));
    out
}

fn duration() {
    let (disk, traces) = (Disk::ext4(256), TempDir::new().expect("a directory"));
    let writer = Writer::start(&disk, "file");
    let pid = writer.0.id().to_string();
    for (name, of) in [("pid", &["--pid", &pid][..]), ("everything", &[])] {
        let trace = traces.path().join(name).with_extension("pctrace");
        let arguments = [of, &["--force", "--duration", "1s"]].concat();
        // As long as it takes until the writer wrote within that time.
        wait_for("something to be written", || {
            let out = record(&disk, &trace, &arguments).output().expect("it starts");
            assert_eq!(out.status.code(), Some(0), "{name}: {}", said(&out));
            assert!(said(&out).contains("ended after"), "{name}: {}", said(&out));
            assert!(TraceReader::open(&trace).is_ok(), "{name}: the trace is whole");
            !said(&out).contains("wrote nothing")
        });
    }
    let idle = Writer::run(&disk, "exec sleep 1000");
    let arguments = ["--duration", "1s", "--pid", &idle.0.id().to_string()];
    let out = record(&disk, &traces.path().join("idle.pctrace"), &arguments).output().expect("it starts");
    let hint =
        format!("what is followed wrote nothing to the file system of {}", disk.mount_point().display());
    assert!(out.status.success() && said(&out).contains(&hint), "{}", said(&out));
}

fn everything() {
    let (disk, traces) = (Disk::ext4(256), TempDir::new().expect("a directory"));
    let _root = Writer::start(&disk, "followed");
    let script = "while true; do echo line > other; sync other; sleep 0.02; done";
    let nobody =
        format!("touch other; chown 65534 other; exec setpriv --reuid 65534 --clear-groups sh -c '{script}'");
    let _nobody = Writer::run(&disk, &nobody);
    let trace = traces.path().join("t.pctrace");
    record_until_both_wrote(&disk, &trace, &[]);
    let writers = writers(&trace);
    assert!(all_since_then(&writers["/followed"], |program| program.ends_with("/dd")), "{writers:?}");
    let is_shell = |program: &String| program.starts_with('/') && !program.ends_with("/dd");
    assert!(all_since_then(&writers["/other"], is_shell), "{writers:?}");
    let reader = TraceReader::open(&trace).expect("the trace can be read");
    assert_eq!(reader.meta().settings["attached_to"], "everything that writes");
    assert!(reader.meta().command.is_empty() && reader.meta().exit.is_none());
}

/// Writes so many pages to a file, and waits until they are on the device.
const WRITE: &str = "w() { dd if=/dev/zero of=$1 bs=4k count=$2 conv=notrunc,fsync $3 2>/dev/null; }; ";

/// Pages of one file that were written by others, and all of them.
fn pages_of_others(trace: &Path, file: &str) -> (u64, u64) {
    let reader = TraceReader::open(trace).expect("the trace can be read");
    let (mut others, mut all) = (0, 0);
    for event in reader.batches().flat_map(|batch| batch.expect("it can be read").events) {
        let of_file = event.file.is_some() && reader.files()[event.file.0 as usize - 1].path.ends_with(file);
        if event.op == Op::Write && of_file {
            let context = (event.context.0 as usize).checked_sub(1).map(|at| &reader.contexts()[at]);
            all += u64::from(event.pages);
            others += if context.is_some_and(Context::is_others) { u64::from(event.pages) } else { 0 };
        }
    }
    (others, all)
}

/// Also by names that hide the way to it, and whatever becomes of a file's name.
fn one_directory() {
    let (disk, traces) = (Disk::ext4(256), TempDir::new().expect("a directory"));
    let mount = disk.mount_point();
    ["db", "bound", "e", "e/sub"]
        .iter()
        .for_each(|name| fs::create_dir(mount.join(name)).expect("it can be made"));
    fs::rename(mount.join("db"), mount.join(OsStr::from_bytes(b"d\xff b"))).expect("it can be renamed");
    std::os::unix::fs::symlink(OsStr::from_bytes(b"d\xff b"), mount.join("db")).expect("it can be made");
    let script = format!(
        "{WRITE} cd $0; w db/plain 1; w db/direct 2 oflag=direct; w other 3; w e/direct 4 oflag=direct; \
         w db/moved 5; mv db/moved e/moved; w e/moved 6; mv e/moved db/moved; w db/moved 7; \
         w db/linked 8; ln db/linked e/link; w e/link 9; rm e/link; w db/linked 10; \
         w e/sub/in 11; mv e/sub db/sub; w db/sub/in 12"
    );
    // Without the flag, more is recorded than the directory that was named.
    let mut whole = Command::new(env!("CARGO_BIN_EXE_pcstream"));
    whole.args(["record", "-o", text(&traces.path().join("whole.pctrace"))]).arg("--on").arg(mount.join("e"));
    let whole = whole.args(["--", "sh", "-c", "echo > file"]).output().expect("it starts");
    let expected = "is recorded, not the command alone: --dir-only takes that directory alone";
    assert!(said(&whole).contains(expected), "{}", said(&whole));
    for on in ["db", "bound"] {
        let trace = traces.path().join(on).with_extension("pctrace");
        // The bind mount is gone with its mount namespace.
        let record = format!(
            "mount --bind $0/db $0/bound && exec {} record --on $0/{on} --dir-only -o {} -- sh -c \"$1\" $0",
            env!("CARGO_BIN_EXE_pcstream"),
            text(&trace)
        );
        let out =
            Command::new("unshare").args(["--mount", "sh", "-c", &record]).arg(&mount).arg(&script).output();
        let out = out.expect("it starts");
        assert_eq!(out.status.code(), Some(0), "{on}: {}", said(&out));
        assert!(said(&out).contains("of the file data was written by others"), "{on}: {}", said(&out));
        let found = ["/plain", "/direct", "/other", "/moved", "/linked", "/link", "/in"]
            .map(|file| pages_of_others(&trace, file));
        assert_eq!(found, [(0, 1), (4, 6), (3, 3), (6, 18), (0, 8), (0, 19), (11, 23)], "{on}");
        let reader = TraceReader::open(&trace).expect("the trace can be read");
        assert_eq!(reader.meta().settings["dir_only"], true, "{on}");
        fs::rename(mount.join("db/sub"), mount.join("e/sub")).expect("it can be moved back");
    }
    let never = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pcstream"));
        let out =
            command.args(["record", "--dir-only", "-o", "never"]).args(more).args(["--", "true"]).output();
        let out = out.expect("it starts");
        assert_eq!(out.status.code(), Some(2), "{}", said(&out));
        said(&out)
    };
    assert!(never(&["--on", "/dev/null"]).contains("--dir-only: --on /dev/null is no directory"));
    assert!(never(&[]).contains("--on"));
}

fn process() {
    let (disk, traces) = (Disk::ext4(256), TempDir::new().expect("a directory"));
    let (followed, _other) = (Writer::start(&disk, "followed"), Writer::start(&disk, "other"));
    let trace = traces.path().join("t.pctrace");
    record_until_both_wrote(&disk, &trace, &["--pid", &followed.0.id().to_string()]);
    assert_apart(&trace, "/followed", "/other");
    let reader = TraceReader::open(&trace).expect("the trace can be read");
    assert_eq!(reader.meta().command[..2], ["sh", "-c"]);
    assert_eq!(reader.meta().settings["attached_to"], format!("process {}", followed.0.id()));
    assert_eq!(reader.meta().exit, None);
}

fn processes() {
    let (disk, traces) = (Disk::ext4(256), TempDir::new().expect("a directory"));
    let go = ["first", "second"].map(|name| traces.path().join(name));
    let [mut first, mut second] = go.each_ref().map(|go| {
        let go = text(go);
        Writer::run(&disk, &format!("while [ ! -e {go} ]; do sleep 0.02; done; echo last > $(basename {go})"))
    });
    let _other = Writer::start(&disk, "other");
    let trace = traces.path().join("t.pctrace");
    let mut gone = Writer::run(&disk, "true");
    gone.0.wait().expect("it ends");
    let both = format!("{},{},{}", first.0.id(), gone.0.id(), second.0.id());
    let recorder = record(&disk, &trace, &["--pid", &both]).spawn().expect("it starts");
    wait_for_child("the recorder", &recorder, || follows(&trace));
    for (writer, go) in [&mut first, &mut second].into_iter().zip(&go) {
        fs::write(go, "").expect("it can be written");
        writer.0.wait().expect("it ended");
    }
    let out = recorder.wait_with_output().expect("it ends");
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    assert!(said(&out).contains("all 2 processes ended"), "{}", said(&out));
    let absent = format!("not followed, because it has ended: {}\n", gone.0.id());
    assert!(said(&out).contains(&absent), "{}", said(&out));
    let writers = writers(&trace);
    for file in ["/first", "/second"] {
        assert!(
            writers[file].iter().all(|program| program != "others" && program != "nobody"),
            "{writers:?}"
        );
    }
    let reader = TraceReader::open(&trace).expect("the trace can be read");
    let attached = format!("processes {}", both.replace(',', ", "));
    assert_eq!(reader.meta().settings["attached_to"], attached);
}

fn cgroup() {
    let (disk, traces) = (Disk::ext4(256), TempDir::new().expect("a directory"));
    let group = Group::make("followed").expect("it was made before");
    let below = Group::below(group.path(), "below").expect("a cgroup");
    let (followed, _other) = (Writer::start(&disk, "followed"), Writer::start(&disk, "other"));
    below.enter(followed.0.id());
    let trace = traces.path().join("t.pctrace");
    record_until_both_wrote(&disk, &trace, &["--cgroup", text(group.path())]);
    assert_apart(&trace, "/followed", "/other");
    // As systemd and /proc/PID/cgroup tell it.
    let name = group.path().file_name().and_then(|name| name.to_str()).expect("a plain name");
    let trace = traces.path().join("by-name.pctrace");
    record_until_both_wrote(&disk, &trace, &["--cgroup", &format!("/{name}")]);
    assert_apart(&trace, "/followed", "/other");
    drop(followed);
    below.remove();
    group.remove();
}

fn unit() {
    let (disk, traces) = (Disk::ext4(256), TempDir::new().expect("a directory"));
    let unit = format!("pcstream-test-{}.service", std::process::id());
    let script = format!(
        "cd /proc/{}/root{}; while true; do dd if=/dev/zero of=followed bs=4k count=1 conv=fsync; sleep 0.02; done",
        std::process::id(),
        text(&disk.mount_point())
    );
    disk::succeed("systemd-run", &["--quiet", "--unit", &unit, "sh", "-c", &script]);
    let _other = Writer::start(&disk, "other");
    let trace = traces.path().join("t.pctrace");
    let result = std::panic::catch_unwind(|| {
        record_until_both_wrote(&disk, &trace, &["--unit", &unit]);
        assert_apart(&trace, "/followed", "/other");
        let out = record(&disk, &trace, &["--force", "--unit", "pcstream-no-such-unit.service"]).output();
        let out = out.expect("it starts");
        assert_eq!(out.status.code(), Some(1), "{}", said(&out));
        assert!(said(&out).contains("no running unit"), "{}", said(&out));
    });
    disk::succeed("systemctl", &["stop", &unit]);
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

fn unit_without_systemd() {
    let (disk, traces) = (Disk::ext4(256), TempDir::new().expect("a directory"));
    let out = record(&disk, &traces.path().join("t.pctrace"), &["--unit", "ssh.service"]).output();
    let out = out.expect("it starts");
    assert_eq!(out.status.code(), Some(1), "{}", said(&out));
    for part in ["ssh.service", "systemd does not run", "--cgroup or --pid"] {
        assert!(said(&out).contains(part), "{part}: {}", said(&out));
    }
}

/// The recorder begins its trace when it follows.
fn follows(trace: &Path) -> bool {
    trace.with_extension("pctrace.partial").exists()
}

/// `exec` of another thread than the first ends the first, which was the process's mark.
fn exec_of_a_thread(when: &str) {
    let (disk, traces) = (Disk::ext4(256), TempDir::new().expect("a directory"));
    let program = programs::compile(traces.path(), "exec_of_a_thread", EXEC_OF_A_THREAD, &["-pthread"]);
    let (go, file) = (traces.path().join("go"), disk.mount_point().join("file"));
    let mut command = Command::new(program);
    command.arg(&go).arg(&file).arg(when).process_group(0);
    let mut writer = command.spawn().map(Writer).expect("it starts");
    let trace = traces.path().join("t.pctrace");
    let recorder = record(&disk, &trace, &["--pid", &writer.0.id().to_string()]).spawn().expect("it starts");
    wait_for_child("the recorder", &recorder, || follows(&trace));
    fs::write(&go, "").expect("it can be written");
    let out = recorder.wait_with_output().expect("it ends");
    assert!(writer.0.wait().expect("it ended").success());
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    assert_eq!(pages_of_others(&trace, "/file"), (0, 100), "{}", said(&out));
}

/// Since Linux 6.9.
fn descriptors_of_threads() -> Option<String> {
    common::linux(6, 9)
}

/// Waits for the file of its first argument, then a thread becomes `dd`, which writes 100 pages to the second. The thread is new
/// then, or, with "early", was there from the beginning.
const EXEC_OF_A_THREAD: &str = r#"
#include <pthread.h>
#include <unistd.h>
static char *file, *go;
static void await_go(void) { while (access(go, F_OK)) usleep(1000); }
static void *become(void *unused) {
    await_go();
    execlp("dd", "dd", "if=/dev/zero", "bs=4096", "count=100", "conv=fsync", "status=none", file, (char *)0);
    return unused;
}
int main(int argc, char **argv) {
    static char of[4096] = "of=";
    pthread_t thread;
    for (char *to = of + 3, *from = argv[2]; (*to++ = *from++);) {}
    file = of;
    go = argv[1];
    if (argv[3][0] != 'e') await_go();
    pthread_create(&thread, 0, become, 0);
    pause();
    return 1;
}
"#;

fn end_of_process() {
    let (disk, traces) = (Disk::ext4(256), TempDir::new().expect("a directory"));
    let go = traces.path().join("go");
    let script = format!("while [ ! -e {} ]; do sleep 0.02; done; echo last > last; exit 7", text(&go));
    let mut writer = Writer::run(&disk, &script);
    let trace = traces.path().join("t.pctrace");
    let recorder = record(&disk, &trace, &["--pid", &writer.0.id().to_string()]).spawn().expect("it starts");
    wait_for_child("the recorder", &recorder, || follows(&trace));
    fs::write(&go, "").expect("it can be written");
    let out = recorder.wait_with_output().expect("it ends");
    writer.0.wait().expect("it ended");
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    assert!(said(&out).contains(&format!("process {} ended", writer.0.id())), "{}", said(&out));
    assert!(writers(&trace)["/last"].iter().all(|program| program != "others" && program != "nobody"));
}

fn end_of_cgroup() {
    let (disk, traces) = (Disk::ext4(256), TempDir::new().expect("a directory"));
    let group = Group::make("ending").expect("it was made before");
    let writer = Writer::start(&disk, "file");
    group.enter(writer.0.id());
    let trace = traces.path().join("t.pctrace");
    let recorder = record(&disk, &trace, &["--cgroup", text(group.path())]).spawn().expect("it starts");
    wait_for_child("the recorder", &recorder, || follows(&trace));
    drop(writer);
    group.remove();
    let out = recorder.wait_with_output().expect("it ends");
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    assert!(said(&out).contains("was removed"), "{}", said(&out));
}

fn unmounted() {
    let (mut disk, traces) = (Disk::ext4(256), TempDir::new().expect("a directory"));
    let (trace, below) = (traces.path().join("t.pctrace"), disk.mount_point().join("below"));
    fs::create_dir(&below).expect("a directory");
    let mut recorder = Command::new(env!("CARGO_BIN_EXE_pcstream"));
    recorder.arg("record").arg("--on").arg(&below).arg("-o").arg(&trace);
    let recorder = recorder.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    wait_for_child("the recorder", &recorder, || follows(&trace));
    fs::write(below.join("file"), [1; 1 << 16]).expect("written");
    disk.unmount();
    let out = recorder.wait_with_output().expect("it ends by itself");
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    assert!(said(&out).contains("the file system was unmounted or failed after"), "{}", said(&out));
    assert!(writers(&trace).contains_key("/below/file"), "what the unmount wrote is in the trace");
    let meta = pcstream_trace::TraceReader::open(&trace).expect("it is whole").meta().clone();
    assert_eq!(meta.settings["discards"], true, "the mount option is known");
}

fn without_medium() {
    let (disk, traces) = (Disk::apart(1), TempDir::new().expect("a directory"));
    disk.detach();
    let trace = traces.path().join("t.pctrace");
    let commands = [
        vec!["record", "-o", text(&trace), "--on", disk.device()],
        vec!["top", "--once", "--on", disk.device()],
        vec!["place", "--sink", "none", "--on", disk.device()],
        vec!["doctor", disk.device()],
    ];
    for arguments in commands {
        let out = Command::new(env!("CARGO_BIN_EXE_pcstream")).args(&arguments).output().expect("it runs");
        let all = String::from_utf8_lossy(&[&out.stdout[..], &out.stderr].concat()).into_owned();
        assert!(all.contains(&format!("{} has 0 bytes", disk.device())), "{arguments:?}: {all}");
        assert_eq!(out.status.code(), Some(1), "{arguments:?}: {all}");
    }
    assert_eq!(fs::read_dir(traces.path()).expect("it is there").count(), 0, "nothing is left");
}

fn sigterm() {
    let (disk, traces) = (Disk::ext4(256), TempDir::new().expect("a directory"));
    let writer = Writer::start(&disk, "file");
    for signal in ["TERM", "INT"] {
        let trace = traces.path().join(format!("{signal}.pctrace"));
        let mut recorder =
            record(&disk, &trace, &["--pid", &writer.0.id().to_string()]).spawn().expect("it starts");
        wait_for_child("the recorder", &recorder, || follows(&trace));
        let asked = Instant::now();
        disk::succeed("kill", &["-s", signal, &recorder.id().to_string()]);
        wait_for("its end", || recorder.try_wait().expect("it can be waited for").is_some());
        let took = asked.elapsed();
        let out = recorder.wait_with_output().expect("it ended");
        // A second on an idle machine; its last sync is given up after longer.
        let slow_device = out.status.code() == Some(3);
        assert!(took < Duration::from_secs(10) || slow_device, "it ended after {took:?}: {}", said(&out));
        // 3: the device was so slow that the last sync was given up.
        assert!([Some(0), Some(3)].contains(&out.status.code()), "{}", said(&out));
        assert!(said(&out).contains("ended as you asked"), "{}", said(&out));
        assert!(TraceReader::open(&trace).is_ok(), "the trace is whole");
        assert!(writer.0.id() > 0 && Path::new(&format!("/proc/{}", writer.0.id())).exists(), "it goes on");
    }
}

fn refused() {
    let (disk, traces) = (Disk::ext4(256), TempDir::new().expect("a directory"));
    let trace = traces.path().join("t.pctrace");
    let mut gone = Writer::run(&disk, "true");
    gone.0.wait().expect("it ends");
    let pid = gone.0.id().to_string();
    for (arguments, code, parts) in [
        (&["--pid", &pid][..], 1, ["--pid", "no process has this number"]),
        (&["--cgroup", "pcstream-no-such-group"], 1, ["pcstream-no-such-group", "cgroup"]),
        (&["--cgroup", text(traces.path())], 1, ["cgroup", "version 2"]),
        (&["--pid", "1", "--unit", "x"], 2, ["--pid", "--unit"]),
        (&["--pid", "1", "--", "true"], 2, ["--pid", "COMMAND"]),
        (&["--forward-exit-code"], 2, ["required", "COMMAND"]),
        (&["--pid", "1", "--duration", "soon"], 2, ["--duration", "such as 60s"]),
        (&["--pid", "1", "--forward-exit-code"], 2, ["--forward-exit-code", "--pid"]),
    ] {
        let out = record(&disk, &trace, arguments).output().expect("it starts");
        assert_eq!(out.status.code(), Some(code), "{arguments:?}: {}", said(&out));
        parts.iter().for_each(|part| assert!(said(&out).contains(part), "{part}: {}", said(&out)));
        assert!(!trace.exists() && !follows(&trace), "{arguments:?} left something");
    }
    // Nothing but the recorder would write to a scratch device.
    for arguments in [&[][..], &["--duration", "5s"], &["--size", "64M"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pcstream"));
        let out = command.arg("record").arg("-o").arg(&trace).args(arguments).output().expect("it starts");
        assert_eq!(out.status.code(), Some(2), "{arguments:?}: {}", said(&out));
        for part in ["after --", "--on DIR to record everything", "--pid P, --cgroup C or --unit NAME"] {
            assert!(said(&out).contains(part), "{part}: {}", said(&out));
        }
        assert!(!trace.exists() && !follows(&trace), "{arguments:?} left something");
    }
}
