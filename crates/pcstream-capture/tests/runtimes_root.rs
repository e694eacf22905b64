//! Paths of a language runtime, on the real kernel: a C program does what the Java agent does.

mod common;
#[path = "common/programs.rs"]
mod programs;
#[path = "common/recording.rs"]
mod recording;

use std::path::PathBuf;
use std::process::ExitCode;

use pcstream_capture::capture::Target;
use pcstream_capture::session::{Session, SessionMemory, SessionOptions};
use pcstream_fs::scratch::FsKind;
use pcstream_trace::{Context, Unwind};
use recording::{Recording, bpf, fs_need, gcc, prctl, record_with, scratch};
use tempfile::TempDir;

/// A program that tells paths, correct ones and others.
const PROGRAM: &str = include_str!("native/runtime_paths.c");

fn main() -> ExitCode {
    let mut tests = Vec::new();
    for fs in [FsKind::Ext4, FsKind::Xfs] {
        let needs = [fs_need(fs), common::zram, bpf, gcc, prctl];
        tests.push(common::test(format!("runtimes_{}_paths_are_captured", fs.name()), &needs, move || {
            captured(fs)
        }));
    }
    let needs = [fs_need(FsKind::Ext4), common::zram, bpf, gcc];
    tests.push(common::test("runtimes_without_the_tracepoint", &needs, without_the_tracepoint));
    let needs = [fs_need(FsKind::Ext4), common::zram, bpf, gcc, prctl];
    tests.push(common::test("runtimes_paths_are_kept_apart_up_to_the_limit", &needs, many));
    tests.push(common::test("runtimes_paths_beyond_the_limit_are_counted", &needs, too_many));
    tests.push(common::test("runtimes_names_that_cannot_be_read_are_counted", &needs, unread));
    common::run(tests)
}

/// Captures a program that writes by so many paths and maps so many files.
fn many_paths(paths: usize, files: usize) -> Recording {
    run_many_paths(&format!("{paths} {files}"))
}

fn run_many_paths(arguments: &str) -> Recording {
    let dir = TempDir::new().expect("a directory can be made");
    let program = compile(&dir, "many_paths", include_str!("native/many_paths.c"));
    let script = format!("{} {arguments} && sync", program.display());
    record_with(
        ["sh", "-c", &script].map(Into::into).to_vec(),
        Target::Scratch(scratch(FsKind::Ext4)),
        SessionOptions::default(),
    )
}

/// More paths than 16,384, and more mapped files than 4,096: each has its context.
fn many() {
    let recording = many_paths(20_000, 6_000);
    assert_lacks_names_only(&recording);
    let pages = |wanted: &str| {
        let writers = recording.writers_of(|path| path.starts_with(wanted));
        let of = |id: &u32| &recording.finished().contexts[*id as usize - 1];
        writers.keys().filter(|id| of(id).unwind == Unwind::Runtime).count()
    };
    assert_eq!((pages("/written"), pages("/mapped")), (20_000, 6_000));
}

fn too_many() {
    let recording = many_paths(66_000, 0);
    let losses = &recording.finished().losses;
    assert!(losses["runtime_paths_merged"] > 0, "{losses:?}");
}

/// A path whose names cannot be read is one path, however often they are asked for.
fn unread() {
    const TIMES: u64 = 66_000;
    let recording = run_many_paths(&format!("0 0 {TIMES}"));
    let losses = &recording.finished().losses;
    assert_eq!(losses["runtime_paths_merged"], 0, "{losses:?}");
    assert!(losses["runtime_paths_rejected"] >= TIMES, "{losses:?}");
    assert_eq!(recording.writers_of(|path| path == "/unread").values().sum::<u64>(), TIMES);
}

/// The one context of a file.
fn context<'a>(recording: &'a Recording, file: &str) -> &'a Context {
    let writers = recording.writers_of(|path| path == format!("/{file}"));
    let [(&id, 20)] = writers.iter().collect::<Vec<_>>()[..] else { panic!("{file}: {writers:?}") };
    &recording.finished().contexts[id as usize - 1]
}

fn captured(fs: FsKind) {
    paths_are_captured(&run_program(fs, SessionOptions::default()));
}

/// On a kernel that refuses, as on one that does not, the rest works.
fn without_the_tracepoint() {
    let options = SessionOptions { prctl_by_function: true, ..SessionOptions::default() };
    let unavailable = {
        let mut memory = SessionMemory::uninit();
        Session::open(&options, &mut memory).expect("it opens").runtime_unavailable().map(str::to_owned)
    };
    let recording = run_program(FsKind::Ext4, options);
    match unavailable {
        None => paths_are_captured(&recording),
        Some(why) => {
            println!("    {why}");
            for file in ["flush", "direct", "thread", "mapped"] {
                assert_eq!(context(&recording, file).unwind, Unwind::Exact, "{file}");
            }
        }
    }
}

fn compile(dir: &TempDir, name: &str, source: &str) -> PathBuf {
    programs::compile(dir.path(), name, source, &["-pthread", programs::WITH_LIBPCSTREAM])
}

fn run_program(fs: FsKind, options: SessionOptions) -> Recording {
    let dir = TempDir::new().expect("a directory can be made");
    let program = compile(&dir, "runtime_paths", PROGRAM);
    let recording = record_with(vec![program.into()], Target::Scratch(scratch(fs)), options);
    assert_lacks_names_only(&recording);
    recording
}

/// The programs forge names.
fn assert_lacks_names_only(recording: &Recording) {
    let mut losses = recording.finished().losses.clone();
    losses.remove("runtime_paths_rejected");
    assert!(losses.values().all(|count| *count == 0), "{losses:?}");
}

fn paths_are_captured(recording: &Recording) {
    let mut signatures = Vec::new();
    for (file, method, index, entry) in [
        ("flush", "flush", 7, "pwrite64"),
        ("direct", "compact", 9, "pwrite64"),
        ("thread", "compact", 9, "pwrite64"),
        ("mapped", "compact", 9, "page fault"),
    ] {
        let context = context(recording, file);
        assert_eq!((context.unwind, context.entry.as_str()), (Unwind::Runtime, entry), "{file}");
        let found: Vec<_> =
            context.frames.iter().map(|f| (f.symbol.as_str(), f.offset.cast_signed())).collect();
        assert_eq!(found, [(format!("org.db.Store.{method}").as_str(), index), ("Main.main", -1)], "{file}");
        assert!(context.frames[0].module.starts_with("java:org.db.Store."), "{file}");
        signatures.push(context.signature);
    }
    assert_eq!(signatures[1], signatures[2], "who tells it does not matter");
    assert_ne!(signatures[0], signatures[1]);
    let both = recording.writers_of(|path| path == "/both");
    assert_eq!(both.values().collect::<Vec<_>>(), [&10, &10]);

    for file in ["forged", "broken", "nameless"] {
        let context = context(recording, file);
        assert_eq!((context.unwind, context.frames.len()), (Unwind::Runtime, 0), "{file}");
    }
    assert_eq!(recording.finished().losses["runtime_paths_rejected"], 2);
    for file in ["nothing", "silent", "child", "unreadable", "kernel_address"] {
        let context = context(recording, file);
        assert_eq!(context.unwind, Unwind::Exact, "{file}");
        assert!(context.frames.iter().any(|frame| frame.symbol == "file"), "{file}: {context:?}");
    }
}
