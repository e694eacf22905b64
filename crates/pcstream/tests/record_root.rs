//! `record` on file systems that are there already, and what hostile or unusual programs do to it: the binary as a user
//! meets it, judged by the trace that it leaves.

#[path = "../../pcstream-capture/tests/common/mod.rs"]
mod common;
#[path = "../../pcstream-capture/tests/common/disk.rs"]
mod disk;
#[path = "common/program.rs"]
mod program;
#[path = "../../pcstream-capture/tests/common/programs.rs"]
mod programs;

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use common::{wait_for, wait_for_child};
use disk::{Disk, succeed, text};
use pcstream_fs::layout::Layout;
use pcstream_fs::scratch::FsKind;
use pcstream_trace::event::Kind;
use pcstream_trace::{Context, Op, TraceReader};
use program::{Run, pcstream, record, said};
use programs::{WRITERS, compile, descending_source, writers_source};
use tempfile::TempDir;

fn main() -> ExitCode {
    let needs = [common::ext4 as common::Need, common::loop_devices];
    let with = |more: &[common::Need]| -> Vec<common::Need> { needs.iter().chain(more).copied().collect() };
    let containers = with(&[programs::gcc, programs::unshare]);
    common::run(vec![
        common::test("record_traces_onto_the_traced_file_system", &needs, onto_itself),
        common::test("record_names_programs_behind_bind_mounts", &containers, bind_mounts),
        common::test(
            "record_names_programs_on_overlayfs",
            &with(&[programs::gcc, programs::unshare, common::overlayfs]),
            overlay,
        ),
        common::test(
            "record_names_programs_in_a_container",
            &with(&[programs::gcc, programs::runc]),
            container,
        ),
        common::test(
            "record_names_programs_of_a_private_unit",
            &with(&[programs::gcc, programs::systemd]),
            unit,
        ),
        common::test("record_counts_programs_that_cannot_be_opened", &containers, unopened),
        common::test("record_is_not_hung_by_a_pipe_as_debug_file", &with(&[programs::gcc]), debug_pipe),
        common::test("record_names_go_functions", &with(&[programs::go]), go_names),
        common::test("record_ext4_journalled_data_is_counted_once", &needs, journalled_data),
        common::test("record_on_a_block_device_is_where_it_is_mounted", &needs, on_device),
        common::test("record_ext4_without_a_journal", &needs, no_journal),
        common::test("record_makes_ext4_with_the_journal_that_was_asked_for", &needs, journals_asked_for),
        common::test("record_ext4_with_fast_commits", &needs, fast_commit),
        common::test("record_ext4_with_its_journal_elsewhere", &needs, external_journal),
        common::test("record_xfs_with_its_log_elsewhere", &with(&[common::xfs]), external_log),
        common::test(
            "record_xfs_with_a_realtime_device_is_refused",
            &with(&[common::xfs, xfs_realtime]),
            realtime,
        ),
        common::test("record_says_how_paths_were_read", &with(&[programs::gcc]), ways_of_reading),
        common::test("record_hides_names_on_request", &needs, redacted),
        common::test("record_ends_as_the_command_or_the_signal_does", &needs, exit_codes),
        common::test("record_is_whole_though_its_file_system_stays_mounted", &containers, held_mount),
    ])
}

fn contexts(trace: &Path) -> Vec<Context> {
    let reader = TraceReader::open(trace).expect("the trace can be read");
    reader.contexts().to_vec()
}

/// The trace lies on the file system that it is about: what is written to it is nobody's data.
fn onto_itself() {
    let disk = Disk::ext4(256);
    let trace = disk.mount_point().join("t.pctrace");
    let script = "for i in $(seq 120); do dd if=/dev/zero of=f$((i % 7)) bs=64k count=4 conv=fsync 2>/dev/null || exit 1; \
                  sleep 0.05; done";
    let out = record(&disk.mount_point(), &trace, script);
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    for context in contexts(&trace) {
        assert!(!context.executable.ends_with("/pcstream"), "the recorder captured itself: {context:?}");
    }
    let reader = TraceReader::open(&trace).expect("the trace can be read");
    let files = reader.files();
    assert!(files.iter().all(|file| !file.path.contains("pctrace") && !file.path.is_empty()), "{files:?}");
    let mut data = 0;
    for batch in reader.batches() {
        let batch = batch.expect("it can be read");
        data += batch.events.iter().filter(|e| e.op == Op::Write && e.file.is_some()).count();
    }
    assert!(data >= 120, "{data}");
}

/// Contexts in which this many of the program's functions are named.
fn assert_named(trace: &Path, functions: usize) {
    let contexts = contexts(trace);
    let named = |n: usize| {
        let name = format!("writer_{n}");
        contexts.iter().any(|context| context.frames.iter().any(|frame| frame.symbol == name))
    };
    let count = (0..WRITERS).filter(|&n| named(n)).count();
    assert_eq!(count, functions, "{contexts:#?}");
}

/// A directory with the program `writers` in it.
fn writers() -> TempDir {
    let dir = TempDir::new().expect("a directory");
    compile(dir.path(), "writers", &writers_source(), &[]);
    dir
}

/// The program's path exists in its mount namespace only.
fn bind_mounts() {
    let (disk, programs, elsewhere) = (Disk::ext4(256), writers(), TempDir::new().expect("a directory"));
    let place = elsewhere.path().join("seen/by/nobody/else");
    fs::create_dir_all(&place).expect("directories");
    let script = format!(
        "exec unshare -m sh -c 'mount --bind {} {} && exec {}/writers $PWD/file'",
        text(programs.path()),
        text(&place),
        text(&place)
    );
    let trace = elsewhere.path().join("t.pctrace");
    let out = record(&disk.mount_point(), &trace, &format!("cd {} && {script}", text(&disk.mount_point())));
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    assert_named(&trace, WRITERS);
}

/// The program lies on the lower layer of an overlay, whose numbers are not those of the file beneath. Its copy on the upper layer is
/// gone with its process, so it waits until the recorder has opened it, as a program and as a mapping.
fn overlay() {
    let (disk, programs, elsewhere) = (Disk::ext4(256), writers(), TempDir::new().expect("a directory"));
    let at = |name: &str| {
        let path = elsewhere.path().join(name);
        fs::create_dir_all(&path).expect("a directory");
        text(&path).to_owned()
    };
    let (top, merged) = (at("top"), at("merged"));
    let opened = r#"for i in $(seq 600); do [ $(ls -l /proc/$recorder/fd | grep -c /copy) -lt 2 ] || exit 0; sleep 0.1; done"#;
    let script = format!(
        "recorder=$PPID exec unshare -m sh -c 'mount -t tmpfs none {top} && mkdir {top}/upper {top}/work && \
         mount -t overlay -o lowerdir={},upperdir={top}/upper,workdir={top}/work none {merged} && \
         cp {merged}/writers {merged}/copy && {merged}/writers $PWD/file && {merged}/copy $PWD/file2 \"$1\"' sh '{opened}'",
        text(programs.path()),
    );
    let trace = elsewhere.path().join("t.pctrace");
    let out = record(&disk.mount_point(), &trace, &format!("cd {} && {script}", text(&disk.mount_point())));
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    assert_named(&trace, WRITERS);
}

/// A container by runc, its root made of the host's directories.
fn container() {
    let (disk, programs, bundle) = (Disk::ext4(256), writers(), TempDir::new().expect("a directory"));
    let root = bundle.path().join("rootfs");
    for dir in ["usr", "lib", "lib64", "bin", "proc", "dev", "opt/app", "data"] {
        fs::create_dir_all(root.join(dir)).expect("a directory");
    }
    let bind = |from: &str, to: &str| serde_json::json!({"destination": to, "type": "none", "source": from, "options": ["rbind"]});
    let mut mounts: Vec<_> = ["/usr", "/lib", "/lib64", "/bin"].iter().map(|dir| bind(dir, dir)).collect();
    mounts.push(bind(text(programs.path()), "/opt/app"));
    mounts.push(bind(text(&disk.mount_point()), "/data"));
    mounts.push(serde_json::json!({"destination": "/proc", "type": "proc", "source": "proc"}));
    let namespaces: Vec<_> =
        ["mount", "pid", "ipc", "uts"].iter().map(|kind| serde_json::json!({"type": kind})).collect();
    let config = serde_json::json!({
        "ociVersion": "1.0.2",
        "process": {"terminal": false, "user": {"uid": 0, "gid": 0}, "args": ["/opt/app/writers", "/data/file"],
                    "env": ["PATH=/usr/bin"], "cwd": "/"},
        "root": {"path": "rootfs"},
        "mounts": mounts,
        "linux": {"namespaces": namespaces},
    });
    fs::write(bundle.path().join("config.json"), config.to_string()).expect("it can be written");
    let name = format!("pcstream-test-{}", std::process::id());
    let state = bundle.path().join("state");
    let script = format!("exec runc --root {} run --bundle {} {name}", text(&state), text(bundle.path()));
    let trace = bundle.path().join("t.pctrace");
    let out = record(&disk.mount_point(), &trace, &script);
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    assert_named(&trace, WRITERS);
}

/// A unit with mounts of its own.
fn unit() {
    let (disk, programs, elsewhere) = (Disk::ext4(256), writers(), TempDir::new().expect("a directory"));
    let script = format!(
        "exec systemd-run --wait --quiet -p PrivateMounts=yes -p PrivateTmp=yes -p BindPaths={}:/mnt \
         /mnt/writers /proc/{}/root{}/file",
        text(programs.path()),
        std::process::id(),
        text(&disk.mount_point())
    );
    let trace = elsewhere.path().join("t.pctrace");
    let out = record(&disk.mount_point(), &trace, &script);
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    assert_named(&trace, WRITERS);
}

/// A program on a file system that nobody else sees, which has ended before the recorder, stopped meanwhile, looks.
fn unopened() {
    let (disk, programs, elsewhere) = (Disk::ext4(256), writers(), TempDir::new().expect("a directory"));
    let private = text(elsewhere.path()).to_owned();
    let script = format!(
        "recorder=$PPID; unshare -m sh -c 'mount -t tmpfs none {private} && cp {}/writers {private}/hidden && \
         kill -STOP '$recorder' && {private}/hidden {}/file'; kill -CONT $recorder",
        text(programs.path()),
        text(&disk.mount_point())
    );
    let traces = TempDir::new().expect("a directory");
    let trace = traces.path().join("t.pctrace");
    let out = record(&disk.mount_point(), &trace, &script);
    assert_eq!(out.status.code(), Some(3), "{}", said(&out));
    for part in ["hidden", "have no names", "modules_not_opened 1"] {
        assert!(said(&out).contains(part), "{part}: {}", said(&out));
    }
}

/// The program's debug file is a pipe that nobody writes to.
fn debug_pipe() {
    let (disk, programs) = (Disk::ext4(256), writers());
    let at = |name: &str| text(&programs.path().join(name)).to_owned();
    succeed("objcopy", &["--only-keep-debug", &at("writers"), &at("writers.debug")]);
    succeed("strip", &["-o", &at("stripped"), &at("writers")]);
    succeed("objcopy", &[&format!("--add-gnu-debuglink={}", at("writers.debug")), &at("stripped")]);
    let script = format!("{} {}/file", at("stripped"), text(&disk.mount_point()));
    let traces = TempDir::new().expect("a directory");
    let trace = traces.path().join("with.pctrace");
    let out = record(&disk.mount_point(), &trace, &script);
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    assert_named(&trace, WRITERS);
    fs::remove_file(at("writers.debug")).expect("it is there");
    succeed("mkfifo", &[&at("writers.debug")]);
    let trace = traces.path().join("without.pctrace");
    let out = record(&disk.mount_point(), &trace, &script);
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    assert_named(&trace, 0);
}

const GO: &str = r#"package main

import "os"

type Store struct{ file *os.File }

//go:noinline
func (s *Store) write(page []byte) { s.file.WriteAt(page, 0) }

//go:noinline
func (s *Store) writeMeta(page []byte) { s.file.WriteAt(page, 4096) }

func main() {
	file, err := os.Create(os.Args[1])
	if err != nil {
		panic(err)
	}
	store := Store{file}
	store.write(make([]byte, 4096))
	store.writeMeta(make([]byte, 4096))
	file.Sync()
}
"#;

/// Go programs as they are built by default, whose debug sections are compressed, and stripped ones.
fn go_names() {
    let (disk, dir) = (Disk::ext4(256), TempDir::new().expect("a directory"));
    for (name, flags) in [("plain", "-ldflags="), ("stripped", "-ldflags=-s -w")] {
        let program = programs::go_build(dir.path(), name, &[("main.go", GO)], &[flags]);
        let trace = dir.path().join(format!("{name}.pctrace"));
        let script = format!("{} {}/{name}", text(&program), text(&disk.mount_point()));
        let out = record(&disk.mount_point(), &trace, &script);
        assert_eq!(out.status.code(), Some(0), "{}", said(&out));
        for function in ["main.(*Store).write", "main.(*Store).writeMeta"] {
            let contexts = contexts(&trace);
            let found = contexts.iter().any(|c| c.frames.iter().any(|frame| frame.symbol == function));
            assert!(found, "{name}: {function} in {contexts:#?}");
        }
        let shown = pcstream().arg("contexts").arg(&trace).output().expect("it starts");
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        for method in ["Store.write", "Store.writeMeta"] {
            assert!(shown.contains(&format!("< {method} < main.main")), "{method}: {shown}");
        }
    }
}

/// The share of each way of reading paths is said when recording ends, in tables and in JSON.
fn ways_of_reading() {
    let (disk, dir) = (Disk::ext4(256), TempDir::new().expect("a directory"));
    let program = compile(dir.path(), "program", &descending_source(40), &["-fno-omit-frame-pointer"]);
    for (way, said_so, shares) in [
        ("auto", "100 % exact (50.0 % cut before the outermost frame)", [("exact", 0.5), ("cut", 0.5)]),
        ("fp", "100 % by frame pointers", [("fp", 1.0), ("cut", 0.0)]),
        ("scan", "100 % scanned", [("scan", 1.0), ("cut", 0.0)]),
    ] {
        let trace = dir.path().join(format!("{way}.pctrace"));
        let mut command = pcstream();
        command.args(["record", "--unwind", way, "--on"]).arg(disk.mount_point()).arg("-o").arg(&trace);
        command.arg("--").arg(&program).arg(disk.mount_point().join(way));
        let out = command.output().expect("pcstream can be started");
        assert_eq!(out.status.code(), Some(0), "{}", said(&out));
        assert!(said(&out).contains(said_so), "{way}: {}", said(&out));
        let run = |arguments: &[&str]| {
            let mut command = pcstream();
            let out = command.arg("contexts").arg(&trace).args(arguments).output().expect("it starts");
            String::from_utf8_lossy(&out.stdout).into_owned()
        };
        assert!(run(&[]).contains(said_so), "{way}: {}", run(&[]));
        let json: serde_json::Value = serde_json::from_str(&run(&["--json", "-"])).expect("it is JSON");
        for (name, share) in shares {
            assert_eq!(json["trace"]["call_paths"][name], share, "{way}: {json}");
        }
    }
}

/// Exit codes: of the command if that is asked for, of the signal if one ends the recording.
fn exit_codes() {
    let (disk, traces) = (Disk::ext4(256), TempDir::new().expect("a directory"));
    let begin = |name: &str, flags: &[&str], script: &str| {
        let mut command = pcstream();
        command.args(["record", "--on"]).arg(disk.mount_point()).args(flags);
        command.arg("-o").arg(traces.path().join(name)).args(["--", "sh", "-c", script]);
        Run::start(command.stderr(Stdio::piped()))
    };
    for (script, flags, code) in [
        ("exit 7", &["--forward-exit-code"][..], 7),
        ("kill -9 $$", &["--forward-exit-code"], 137),
        ("exit 7", &[], 1),
        ("true", &["--forward-exit-code"], 0),
    ] {
        let out = begin(&format!("{code}.pctrace"), flags, script).wait_with_output();
        assert_eq!(out.status.code(), Some(code), "{}", said(&out));
        assert_eq!(said(&out).contains("is the command's"), flags.len() == 1 && code != 0, "{}", said(&out));
    }
    for (signal, code) in [("INT", 130), ("QUIT", 131), ("TERM", 143)] {
        let (ready, closed) = (traces.path().join(signal), traces.path().join(format!("{signal}-closed")));
        // It takes its time to close what it has, or does not end at all until somebody insists.
        let script = format!(
            "trap 'if test -e {0}; then touch {1}; else sleep 1; touch {0}; exit 3; fi' TERM; trap '' INT QUIT; touch {1}; \
             while true; do sleep 0.1; done",
            text(&closed),
            text(&ready)
        );
        let mut child = begin(&format!("{signal}.pctrace"), &[], &script);
        wait_for_child("the command", &child, || ready.exists());
        succeed("kill", &["-s", signal, &child.id().to_string()]);
        wait_for("the end", || child.try_wait().expect("it can be waited for").is_some());
        let out = child.wait_with_output();
        assert_eq!(out.status.code(), Some(code), "{}", said(&out));
        assert!(closed.exists(), "a command on a file system of others has the time that it needs");
        fs::remove_file(&ready).expect("it is there");
        let mut child = begin(&format!("{signal}-2.pctrace"), &[], &script);
        wait_for_child("the command", &child, || ready.exists());
        fs::remove_file(&ready).expect("it is there");
        succeed("kill", &["-s", signal, &child.id().to_string()]);
        wait_for_child("the command", &child, || ready.exists());
        // It was asked and goes on. The second signal kills it.
        succeed("kill", &["-s", signal, &child.id().to_string()]);
        wait_for("the end", || child.try_wait().expect("it can be waited for").is_some());
        let out = child.wait_with_output();
        assert_eq!(out.status.code(), Some(code), "{}", said(&out));
        assert!(said(&out).contains("interrupted"), "{}", said(&out));
    }
}

/// A mount namespace that is made meanwhile keeps the scratch file system mounted: the trace is whole, and who holds it is named.
fn held_mount() {
    let traces = TempDir::new().expect("a directory");
    let (trace, holder) = (traces.path().join("t.pctrace"), traces.path().join("pid"));
    let script = common::holding_its_mount(&holder);
    let mut command = pcstream();
    command.args(["record", "--image", "tmpfs", "--size", "64M", "-o"]).arg(&trace);
    let out = command.args(["--", "sh", "-c", &script]).output().expect("pcstream can be started");
    let pid = fs::read_to_string(&holder).expect("the holder began");
    succeed("kill", &["-KILL", pid.trim()]);
    wait_for("the end of a process", || !Path::new(&format!("/proc/{}", pid.trim())).exists());
    let directory = said(&out)
        .split_whitespace()
        .find_map(|word| word.strip_prefix("/run/pcstream/")?.split('/').next().map(str::to_owned));
    let directory = directory.unwrap_or_else(|| panic!("its directory is named: {}", said(&out)));
    assert_eq!(out.status.code(), Some(1), "{}", said(&out));
    assert!(said(&out).contains(&format!("pid {}: mounted in its namespace", pid.trim())), "{}", said(&out));
    let reader = TraceReader::open(&trace).expect("the trace can be read");
    assert!(
        reader.meta().complete && reader.meta().losses.values().all(|&lost| lost == 0),
        "{:?}",
        reader.meta()
    );
    wait_for("nothing to be left", || {
        pcstream().args(["doctor", "--clean"]).output().expect("pcstream can be started");
        !Path::new("/run/pcstream").join(&directory).exists()
    });
}

/// Pages written, as data and as journal, those of data in the range of the journal, and those of journal with a context.
struct Written {
    data: u64,
    journal: u64,
    data_in_journal: u64,
    journal_with_context: u64,
}

/// Records a program that writes 1,024 pages to one file, on this mounted file system.
fn written_on(mount: &Path, fs: FsKind) -> Written {
    let layout = Layout::of_mounted(mount, fs).expect("the layout is read");
    let traces = TempDir::new().expect("a directory");
    let trace = traces.path().join("t.pctrace");
    let out = record(
        mount,
        &trace,
        "dd if=/dev/zero of=file bs=64k count=64 conv=fsync 2>/dev/null; sync -f .; sync -f .",
    );
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    let reader = TraceReader::open(&trace).expect("the trace can be read");
    let mut written = Written { data: 0, journal: 0, data_in_journal: 0, journal_with_context: 0 };
    for batch in reader.batches() {
        for event in batch.expect("it can be read").events.iter().filter(|event| event.op == Op::Write) {
            let pages = u64::from(event.pages);
            let in_journal = layout.static_kind(event.lba) == Some(Kind::Journal);
            match event.kind {
                Kind::Data => {
                    written.data += pages;
                    written.data_in_journal += if in_journal { pages } else { 0 };
                }
                Kind::Journal => {
                    written.journal += pages;
                    written.journal_with_context += if event.context.is_some() { pages } else { 0 };
                }
                _ => {}
            }
        }
    }
    written
}

const EXT4: [&str; 5] = ["mkfs.ext4", "-q", "-F", "-b", "4096"];

/// Every page goes to the journal first, from the file's own page, and to its place later.
fn journalled_data() {
    let disk = Disk::made(256, &EXT4, "discard,data=journal");
    let written = written_on(&disk.mount_point(), FsKind::Ext4);
    assert!(written.journal >= 1024, "{} pages of the journal", written.journal);
    assert!(written.data <= 1024, "{} pages of data, each of which was written once", written.data);
    assert_eq!((written.data_in_journal, written.journal_with_context), (0, 0));
}

fn on_device() {
    let mut disk = Disk::ext4(64);
    let (device, traces) = (disk.device().to_owned(), TempDir::new().expect("a directory"));
    let trace = traces.path().join("t.pctrace");
    let out = record(Path::new(&device), &trace, "dd if=/dev/zero of={}/f bs=4k count=64 conv=fsync");
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    assert_eq!(fs::metadata(disk.mount_point().join("f")).expect("it is there").len(), 64 * 4096);
    let reader = TraceReader::open(&trace).expect("the trace can be read");
    assert!(reader.files().iter().any(|file| file.path == "/f"), "{:?}", reader.files());
    // Without its file system it is a device that a program owns.
    disk.unmount();
    let trace = traces.path().join("u.pctrace");
    let out =
        record(Path::new(&device), &trace, "dd if=/dev/zero of={} bs=4k count=8 oflag=direct seek=2048");
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    assert!(
        said(&out).contains(&format!("{device} holds ext4, which is not seen as mounted here")),
        "{}",
        said(&out)
    );
    let reader = TraceReader::open(&trace).expect("the trace can be read");
    assert_eq!(reader.meta().totals.data_pages, 8, "{:?}", reader.meta().totals);
}

fn no_journal() {
    let disk = Disk::made(256, &[&EXT4[..], &["-O", "^has_journal"]].concat(), "discard");
    let written = written_on(&disk.mount_point(), FsKind::Ext4);
    assert_eq!((written.data, written.journal), (1024, 0));
}

/// On scratch file systems: 256 pages of data, which go to the journal too, or their metadata, or nothing.
fn journals_asked_for() {
    let traces = TempDir::new().expect("a directory");
    for (kind, journal) in
        [("ext4-nojournal", 0..=0), ("ext4", 1..=255), ("ext4-datajournal", 256..=u64::MAX)]
    {
        let trace = traces.path().join(format!("{kind}.pctrace"));
        let mut command = pcstream();
        command.args(["record", "--fs", kind, "--size", "128M", "-o"]).arg(&trace);
        let script = "dd if=/dev/zero of={}/f bs=64k count=16 conv=fsync; sync -f {}; sync -f {}";
        let out = command.args(["--", "sh", "-c", script]).output().expect("pcstream can be started");
        assert_eq!(out.status.code(), Some(0), "{}", said(&out));
        let reader = TraceReader::open(&trace).expect("the trace can be read");
        let written: Vec<_> =
            reader.batches().flat_map(|batch| batch.expect("it can be read").events).collect();
        let pages = |kind| {
            let events = written.iter().filter(|event| event.op == Op::Write && event.kind == kind);
            events.map(|event| u64::from(event.pages)).sum::<u64>()
        };
        assert_eq!(pages(Kind::Data), 256, "{kind}");
        assert!(journal.contains(&pages(Kind::Journal)), "{kind}: {}", pages(Kind::Journal));
    }
}

fn fast_commit() {
    let disk = Disk::made(256, &[&EXT4[..], &["-O", "fast_commit"]].concat(), "discard");
    let written = written_on(&disk.mount_point(), FsKind::Ext4);
    assert_eq!((written.data, written.data_in_journal), (1024, 0));
    assert!(written.journal > 0);
}

/// What a recording says of a journal whose writes it does not see.
const ELSEWHERE: &str = "the journal is on a device of its own";

fn assert_elsewhere(mount: &Path, fs: FsKind) {
    let written = written_on(mount, fs);
    assert_eq!((written.data, written.journal), (1024, 0));
    let traces = TempDir::new().expect("a directory");
    let out = record(mount, &traces.path().join("t.pctrace"), "true");
    assert!(said(&out).contains(ELSEWHERE), "{}", said(&out));
}

fn external_journal() {
    let log = Disk::unformatted(64);
    succeed("mke2fs", &["-q", "-F", "-b", "4096", "-O", "journal_dev", log.device()]);
    let journal = format!("device={}", log.device());
    let disk = Disk::made(256, &[&EXT4[..], &["-J", &journal]].concat(), "discard");
    assert_elsewhere(&disk.mount_point(), FsKind::Ext4);
}

fn external_log() {
    let log = Disk::unformatted(128);
    let device = format!("logdev={}", log.device());
    let disk = Disk::made(512, &["mkfs.xfs", "-q", "-f", "-l", &device], &format!("discard,{device}"));
    assert_elsewhere(&disk.mount_point(), FsKind::Xfs);
}

/// A kernel that mounts an XFS with a realtime device; tried, for nothing else tells.
fn xfs_realtime() -> Option<String> {
    let (disk, second) = (Disk::unformatted(512), Disk::unformatted(128));
    let device = format!("rtdev={}", second.device());
    succeed("mkfs.xfs", &["-q", "-f", "-r", &device, disk.device()]);
    let mount_point = disk.mount_point();
    let mounted = Command::new("mount").args(["-o", &device, disk.device()]).arg(&mount_point).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        return Some("realtime devices of XFS in the kernel (CONFIG_XFS_RT)".into());
    }
    succeed("umount", &[text(&mount_point)]);
    None
}

fn realtime() {
    let second = Disk::unformatted(128);
    let device = format!("rtdev={}", second.device());
    let disk = Disk::made(512, &["mkfs.xfs", "-q", "-f", "-r", &device], &format!("discard,{device}"));
    let traces = TempDir::new().expect("a directory");
    let out = record(&disk.mount_point(), &traces.path().join("t.pctrace"), "true");
    assert_eq!(out.status.code(), Some(1), "{}", said(&out));
    assert!(said(&out).contains("realtime device"), "{}", said(&out));
}

fn redacted() {
    let (disk, traces) = (Disk::ext4(256), TempDir::new().expect("a directory"));
    let trace = traces.path().join("t.pctrace");
    let mut command = pcstream();
    command.args(["record", "--redact", "--on"]).arg(disk.mount_point()).arg("-o").arg(&trace);
    let out =
        command.args(["--", "sh", "-c", "mkdir secret; echo x > secret/letter.txt; sync -f ."]).output();
    let out = out.expect("pcstream can be started");
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    let reader = TraceReader::open(&trace).expect("the trace can be read");
    let text = format!("{:?} {:?} {:?}", reader.meta(), reader.files(), reader.contexts());
    assert!(!text.contains("secret") && !text.contains("letter"), "{text}");
    assert!(!text.contains(disk::text(&disk.mount_point())) && !text.contains("/bin/"), "{text}");
    assert!(reader.files().iter().any(|file| file.path.ends_with(".txt")), "{text}");
}
