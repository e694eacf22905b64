//! Captures under stress: what a traced program, another tracer or a full buffer does to a capture must not harm the
//! program, and must not go unreported.

mod common;
#[path = "common/programs.rs"]
mod programs;
#[path = "common/recording.rs"]
mod recording;

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::rc::Rc;
use std::time::Duration;

use pcstream_capture::attach::{Attached, Running};
use pcstream_capture::capture::Target;
use pcstream_capture::session::{PIECE, Session, SessionMemory, SessionOptions};
use pcstream_fs::scratch::{FsKind, Scratch};
use recording::{Recording, bpf, gcc, record, record_with, scratch, shell, try_record};
use tempfile::TempDir;

fn main() -> ExitCode {
    let needs = [common::ext4 as common::Need, common::zram, bpf];
    let compiling = [common::ext4 as common::Need, common::zram, bpf, gcc];
    let tracing = [common::ext4 as common::Need, common::zram, bpf, tracefs];
    common::run(vec![
        common::test("capture_survives_thousands_of_forks", &needs, forks),
        common::test("capture_survives_programs_killed_while_writing", &needs, kills),
        common::test("capture_survives_programs_that_replace_themselves", &needs, replacements),
        common::test("capture_survives_code_that_comes_and_goes", &compiling, plugins),
        common::test("capture_reports_a_full_ring_buffer", &needs, full_ring),
        common::test("capture_counts_who_lost_a_context_to_a_full_ring_buffer", &needs, full_of_programs),
        common::test("capture_takes_records_in_pieces", &needs, endless),
        common::test("capture_survives_its_file_system_being_detached", &needs, detached),
        common::test("capture_says_that_a_process_ended_before", &needs, ended_before),
        common::test("capture_works_beside_another", &needs, two_captures),
        common::test("capture_works_beside_other_tracers", &tracing, other_tracers),
    ])
}

fn tracefs() -> Option<String> {
    common::file_system("tracefs")
}

/// Every data page has a context.
fn assert_whole(recording: &Recording, least_pages: u64) {
    let finished = recording.finished();
    let counts = finished.counts;
    eprintln!("    {} data pages, {} contexts", counts.data_pages, finished.contexts.len());
    assert!(counts.data_pages >= least_pages, "{} pages", counts.data_pages);
    assert_eq!(counts.covered_pages, counts.data_pages);
}

/// Between the look at its number and the moment at which it is followed.
fn ended_before() {
    let mut child = Command::new("sleep").arg("60").spawn().expect("it starts");
    let attach = Running::Processes(vec![child.id()]);
    let attached = Attached::find(&attach).expect("it runs");
    child.kill().and_then(|()| child.wait()).expect("it ends");
    let mut memory = SessionMemory::uninit();
    let options = SessionOptions { followed: attached.followed(), ..SessionOptions::default() };
    let session = Session::open(&options, &mut memory).expect("it opens");
    let error = attached.follow(&session).expect_err("it ended").to_string();
    assert_eq!(error, format!("--pid {}: the process ended before the recording began", child.id()));
}

fn forks() {
    let recording = record(
        FsKind::Ext4,
        "for i in $(seq 3000); do (echo $i > f$((i % 100))) & [ $((i % 50)) = 0 ] && wait; done; wait; sync",
    );
    assert_whole(&recording, 100);
    // One program, one path, whichever of its processes wrote.
    assert!(recording.finished().contexts.len() < 10, "{}", recording.finished().contexts.len());
}

fn kills() {
    // Each is killed once it has written 25 pages, however long that takes.
    let script = "for i in $(seq 40); do dd if=/dev/zero of=f$i bs=4k count=100000 2>/dev/null & p=$!; \
                  until [ \"$(stat -c %s f$i 2>/dev/null || echo 0)\" -ge 102400 ]; do sleep 0.01; done; \
                  kill -KILL $p; wait $p; sync f$i; rm f$i; done 2>/dev/null; true";
    assert_whole(&record(FsKind::Ext4, script), 1000);
}

fn replacements() {
    let script = "i=0; while [ $i -lt 300 ]; do sh -c \"echo a > a$i; exec dd if=/dev/zero of=b$i bs=4k count=2 \
                  2>/dev/null\"; i=$((i + 1)); done; sync";
    let recording = record(FsKind::Ext4, script);
    assert_whole(&recording, 900);
    for (prefix, program) in [("/a", "/dash"), ("/b", "/dd")] {
        for &id in recording.writers_of(|path| path.starts_with(prefix)).keys() {
            let executable = &recording.finished().contexts[id as usize - 1].executable;
            assert!(
                executable.ends_with(program) || program == "/dash" && executable.ends_with("sh"),
                "{executable}"
            );
        }
    }
}

/// Writes come from two libraries, loaded in turn where the other one was, while another thread maps and unmaps code of its
/// own. They differ in size: one of the same number of pages would be taken for the other (see `pcstream.bpf.c`).
const PLUGINS: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
static volatile int done;
static void *churn(void *unused) {
    while (!done) {
        char *code = mmap(0, 8 * 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        code[0] = 1;
        munmap(code, 8 * 4096);
    }
    return unused;
}
int main(void) {
    pthread_t thread;
    for (int churning = 0; churning < 2; churning++) {
        if (churning) pthread_create(&thread, 0, churn, 0);
        for (int i = 0; i < 300; i++) {
            char name[32];
            void *library = dlopen(i % 2 ? LARGE : SMALL, RTLD_NOW);
            void (*save)(int) = (void (*)(int))dlsym(library, "save");
            snprintf(name, sizeof name, "%s%d%d", i % 2 ? "large" : "small", churning, i);
            int fd = open(name, O_CREAT | O_WRONLY, 0600);
            if (fd < 0) return 1;
            save(fd);
            close(fd);
            dlclose(library);
        }
    }
    done = 1;
    pthread_join(thread, 0);
    return 0;
}
"#;
const PLUGIN: &str = r#"
#include <unistd.h>
char page[4096];
#ifdef LARGE
__attribute__((used)) static void filler(void) { __asm__ volatile(".skip 40000, 0x90"); }
#endif
void save(int fd) { for (int i = 0; i < 2; i++) if (write(fd, page, sizeof page) != sizeof page) _exit(1); }
"#;

fn plugins() {
    let dir = TempDir::new().expect("a directory can be made");
    let build = |text: &str, name: &str, flags: &[&str]| {
        let built = programs::compile(dir.path(), name, text, &[&["-O2"], flags].concat());
        built.to_str().expect("temporary paths are plain").to_owned()
    };
    let small = build(PLUGIN, "small.so", &["-shared", "-fPIC"]);
    let large = build(PLUGIN, "large.so", &["-shared", "-fPIC", "-DLARGE"]);
    let names = [format!("-DSMALL={small:?}"), format!("-DLARGE={large:?}")];
    let program = build(PLUGINS, "plugins", &[&names[0], &names[1], "-pthread"]);
    let recording = record(FsKind::Ext4, &format!("{program} && sync"));
    assert_whole(&recording, 1200);
    for (name, other) in [("small", "large.so"), ("large", "small.so")] {
        let writers = recording.writers_of(|path| path.starts_with(&format!("/{name}0")));
        assert_eq!(writers.values().sum::<u64>(), 300, "{writers:?}");
        for (&id, &pages) in &writers {
            let modules: Vec<_> = recording.finished().contexts[id as usize - 1]
                .frames
                .iter()
                .map(|frame| &frame.module)
                .collect();
            assert!(
                modules.iter().any(|module| module.contains(&format!("/{name}.so"))),
                "{pages}: {modules:?}"
            );
            assert!(!modules.iter().any(|module| module.contains(other)), "{pages}: {modules:?}");
        }
    }
}

/// A ring buffer that holds next to nothing: the program does not notice, the losses are counted.
fn full_ring() {
    let session = SessionOptions { ring_bytes: 4096, ..SessionOptions::default() };
    // Paths of 1.9 KiB, as fast as a shell makes files.
    let script = "d=$(printf 'd%.0s' $(seq 240)); p=$d/$d/$d/$d/$d/$d/$d; mkdir -p $p && cd $p || exit 1; \
        for i in $(seq 3000); do echo x > $i-$d || exit 1; done; sync";
    let recording = record_with(shell(script), Target::Scratch(scratch(FsKind::Ext4)), session);
    let losses = &recording.finished().losses;
    eprintln!("    {losses:?}");
    assert!(losses["ring_buffer_names"] > 0, "two names fill 4 KiB: {losses:?}");
    assert!(recording.finished().lost() > 0);
}

/// The same with programs that are all new, each with a long path.
fn full_of_programs() {
    let session = SessionOptions { ring_bytes: 4096, ..SessionOptions::default() };
    // They lie elsewhere: a write of many pages, as of `cp`, is one capture.
    let programs = tempfile::tempdir().expect("a directory");
    let script = format!(
        "d=$(printf 'd%.0s' $(seq 240)); p={}/$d/$d/$d/$d/$d/$d; mkdir -p $p || exit 1; \
        for i in $(seq 100); do cp \"$(command -v dd)\" $p/$d$i || exit 1; done; \
        for i in $(seq 100); do $p/$d$i if=/dev/zero of=o$i bs=4k count=8 status=none & done; wait; sync",
        programs.path().display()
    );
    let recording = record_with(shell(&script), Target::Scratch(scratch(FsKind::Ext4)), session);
    let losses = &recording.finished().losses;
    eprintln!("    {losses:?}");
    assert!(losses["ring_buffer_contexts"] > 0, "programs of 1.7 KiB fill 4 KiB: {losses:?}");
    // Who has no context is counted, and who has one has all of it.
    let counts = recording.finished().counts;
    let without = counts.data_pages - counts.covered_pages;
    let counted = ["ring_buffer_contexts", "unresolved_contexts", "postponed_captures", "missed_events"];
    let counted: u64 = counted.iter().map(|name| losses[*name]).sum();
    eprintln!("    {without} of {} data pages without a context, {counted} counted", counts.data_pages);
    assert!(without <= counted, "{without} pages, {counted} counted: {losses:?}");
    for context in &recording.finished().contexts {
        let modules = context.frames.iter().map(|frame| frame.module.as_str());
        let unknown = modules.chain([context.executable.as_str()]).any(|module| module == "[unknown]");
        assert!(!unknown, "{context:?}");
    }
}

/// A program that writes faster than records are taken does not keep the recorder from anything else.
fn endless() {
    let place = Scratch::create(&scratch(FsKind::Ext4)).expect("a scratch file system");
    let mut memory = SessionMemory::uninit();
    let mut session = Session::open(&SessionOptions::default(), &mut memory).expect("it loads");
    session.aim(place.device().number.kernel_dev_t());
    let (taken, slow) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(true)));
    let reader = session
        .reader({
            let (taken, slow) = (Rc::clone(&taken), Rc::clone(&slow));
            move |_| {
                taken.set(taken.get() + 1);
                // Without a limit, this would go on for ever.
                slow.set(slow.get() && taken.get() < 10 * PIECE);
                if slow.get() {
                    std::thread::sleep(Duration::from_micros(100));
                }
            }
        })
        .expect("it can be read");
    // One process: a child of a shell would go on.
    let mut writer = Command::new("dd")
        .args(["if=/dev/zero", "of=endless", "bs=4k", "count=64k", "oflag=direct", "conv=notrunc"])
        .current_dir(place.mount_point())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut pieces = 0;
    while pieces < 3 {
        let before = taken.get();
        reader.poll(Duration::from_millis(20)).expect("it can be read");
        assert!(taken.get() - before <= PIECE, "{} at once", taken.get() - before);
        pieces += usize::from(taken.get() - before == PIECE);
        assert!(matches!(writer.try_wait(), Ok(None)), "it ended after {pieces} pieces");
    }
    slow.set(false);
    reader.drain().expect("it comes to an end");
    writer.kill().expect("it can be killed");
    writer.wait().expect("it ends");
    reader.drain().expect("it comes to an end");
    drop(reader);
    session.aim(0);
    place.remove().expect("it can be removed");
}

/// A traced program may detach the file system that it is traced on.
fn detached() {
    let script = "echo x > f; sync; umount -l . && echo y > g; true";
    let result = try_record(shell(script), Target::Scratch(scratch(FsKind::Ext4)), SessionOptions::default());
    // It is complete: the shell kept the file system in use until it ended.
    let recording = result.expect("what was written is kept");
    recording::assert_complete(&recording);
    assert_whole(&recording, 1);
    assert_eq!(recording.distinct_pages("/f"), 1);
    let notes = &recording.finished().notes;
    assert!(
        notes.iter().any(|note| note.ends_with("unmounted or failed before the command ended")),
        "{notes:?}"
    );
    let ours = format!("/run/pcstream/{}-", std::process::id());
    let mounts = fs::read_to_string("/proc/self/mounts").expect("mounts can be read");
    assert!(!mounts.contains(&ours), "{mounts}");
}

/// Two captures at once: each sees its own file system.
fn two_captures() {
    let script = |name: &str| {
        format!(
            "for i in $(seq 100); do dd if=/dev/zero of={name}$i bs=4k count=10 conv=fsync 2>/dev/null; done"
        )
    };
    let both = std::thread::scope(|scope| {
        let other = scope.spawn(|| record(FsKind::Ext4, &script("other")));
        [record(FsKind::Ext4, &script("one")), other.join().expect("it works")]
    });
    for (recording, name) in both.iter().zip(["/one", "/other"]) {
        assert_whole(recording, 1000);
        assert!(recording.data_writes().all(|event| recording.path(event).starts_with(name)));
    }
}

/// A tracing instance of its own, on a mount of its own; both gone when dropped.
struct Instance {
    mount: TempDir,
    path: PathBuf,
}

impl Instance {
    fn new() -> Instance {
        let mount = TempDir::new().expect("a directory");
        run("mount", &["-t".as_ref(), "tracefs".as_ref(), "none".as_ref(), mount.path()]);
        let path = mount.path().join(format!("instances/pcstream-test-{}", std::process::id()));
        let instance = Instance { mount, path };
        fs::create_dir(&instance.path).expect("an instance can be made");
        for group in ["writeback", "block", "syscalls"] {
            fs::write(instance.path.join("events").join(group).join("enable"), "1")
                .expect("events can be enabled");
        }
        instance
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = fs::write(self.path.join("events/enable"), "0");
        if let Err(error) = fs::remove_dir(&self.path) {
            eprintln!("{} is left: {error}", self.path.display());
        }
        run("umount", &[self.mount.path()]);
    }
}

fn run(program: &str, arguments: &[&Path]) {
    let status = Command::new(program).args(arguments).status().expect("it starts");
    assert!(status.success(), "{program} {arguments:?}: {status}");
}

/// The same tracepoints, and those of all system calls, have another listener.
fn other_tracers() {
    let instance = Instance::new();
    let script = "for i in $(seq 100); do dd if=/dev/zero of=f$i bs=4k count=20 conv=fsync 2>/dev/null; done";
    assert_whole(&record(FsKind::Ext4, script), 2000);
    let seen = fs::read_to_string(instance.path.join("per_cpu/cpu0/stats")).expect("it counts");
    let count = |name: &str| -> u64 {
        let line = seen.lines().find_map(|line| line.strip_prefix(name)).expect("it is there");
        line.trim_start_matches(':').trim().parse().expect("a number")
    };
    assert!(count("entries") + count("overrun") > 0, "the other tracer saw it too: {seen}");
}
