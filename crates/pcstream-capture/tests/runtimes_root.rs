//! Paths told by a language runtime, on the real kernel: a C program does what the Java agent does.

mod common;
#[path = "common/recording.rs"]
mod recording;

use std::process::{Command, ExitCode};

use pcstream_capture::capture::Target;
use pcstream_capture::scratch::FsKind;
use pcstream_capture::session::{SessionOptions, has_tracepoint};
use pcstream_trace::{Context, Unwind};
use recording::{Recording, assert_complete, bpf, fs_need, gcc, record_with, scratch};
use tempfile::TempDir;

const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
typedef unsigned long long u64;
#include "signature.h"
#include "pcstream_runtime.h"
#define PAGES 20
static __thread struct pcstream_slot slot;
static int nameless;
static char page[4096] __attribute__((aligned(4096)));
static u64 of_bytes(const char *text) {
    size_t length = strlen(text);
    u64 hash = signature_mix(SIGNATURE_SEED, length);
    for (size_t i = 0; i < length; i += 8) {
        u64 word = 0;
        memcpy(&word, text + i, length - i < 8 ? length - i : 8);
        hash = signature_mix(hash, word);
    }
    return hash;
}
/* Paths of two frames: a method, and Main.main. */
static struct pcstream_path *path(const char *method, long index) {
    struct pcstream_path *path = calloc(1, 4200);
    path->signature = signature_mix(signature_mix(signature_mix(SIGNATURE_SEED, of_bytes("org.db.Store")), of_bytes(method)), index);
    path->signature = signature_mix(signature_mix(signature_mix(path->signature, of_bytes("Main")), of_bytes("main")), -1);
    strcat(strcat(path->text, "org.db.Store\t"), method);
    strcat(path->text, index == 7 ? "\t7\n" : "\t9\n");
    strcat(path->text, "Main\tmain\t-1\n");
    path->bytes = strlen(path->text);
    path->frames = 2;
    return path;
}
static void enter(const struct pcstream_path *path) {
    prctl(PCSTREAM_THREAD_SLOT, &slot, 0, 0, 0);
    slot.path = nameless ? 0 : path;
    slot.signature = nameless ? 99 : path->signature;
}
static void leave(void) { slot.signature = 0; slot.path = 0; }
static void file(const char *name, int flags, const struct pcstream_path *as, const struct pcstream_path *and) {
    int fd = open(name, O_CREAT | O_WRONLY | flags, 0600);
    for (int i = 0; i < PAGES; i++) {
        const struct pcstream_path *path = i % 2 && and ? and : as;
        if (path) enter(path);
        if (pwrite(fd, page, 4096, 4096L * i) != 4096) exit(2);
        leave();
    }
    close(fd);
}
static void *thread(void *as) { file("thread", 0, as, 0); return 0; }
static void *silent(void *unused) { file("silent", 0, 0, 0); return unused; }
int main(void) {
    struct pcstream_path *flush = path("flush", 7), *compact = path("compact", 9), *forged = path("forged", 7), *broken;
    pthread_t other;
    file("flush", 0, flush, 0);
    file("both", 0, flush, compact);
    file("direct", O_DIRECT, compact, 0);
    file("nothing", 0, 0, 0);
    strcpy(forged->text, "org.db.Store\tstolen\t7\nMain\tmain\t-1\n");
    file("forged", 0, forged, 0);
    broken = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    broken = (void *)((char *)broken + 4096 - sizeof(*broken));
    broken->signature = 77;
    broken->bytes = 1 << 30;
    file("broken", 0, broken, 0);
    nameless = 1;
    file("nameless", 0, flush, 0);
    nameless = 0;
    pthread_create(&other, 0, thread, compact); pthread_join(other, 0);
    enter(flush);
    pthread_create(&other, 0, silent, 0); pthread_join(other, 0);
    if (fork() == 0) { file("child", 0, 0, 0); _exit(0); }
    wait(0);
    leave();
    int fd = open("mapped", O_CREAT | O_RDWR, 0600);
    if (ftruncate(fd, PAGES * 4096)) return 3;
    char *map = mmap(0, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    prctl(PCSTREAM_MAPPED, map, PAGES * 4096, compact, 0);
    /* What a thread does otherwise does not matter to a store. */
    enter(flush);
    for (int i = 0; i < PAGES; i++) map[4096 * i] = 1;
    leave();
    /* Whatever is told must do no harm. */
    prctl(PCSTREAM_THREAD_SLOT, 8, 0, 0, 0);
    file("unreadable", 0, 0, 0);
    prctl(PCSTREAM_THREAD_SLOT, -8L, 0, 0, 0);
    prctl(PCSTREAM_MAPPED, 4096, 1UL << 60, 12, 0);
    prctl(PCSTREAM_MAPPED, map, 1, page, 0);
    file("kernel_address", 0, 0, 0);
    return 0;
}
"#;

fn main() -> ExitCode {
    let mut tests = Vec::new();
    for fs in [FsKind::Ext4, FsKind::Xfs] {
        let needs = [fs_need(fs), common::zram, bpf, gcc, prctl];
        tests.push(common::test(format!("runtimes_{}_paths_are_told", fs.name()), &needs, move || told(fs)));
    }
    common::run(tests)
}

fn prctl() -> Option<String> {
    (!has_tracepoint("task_prctl_unknown")).then(|| "a kernel with the tracepoint task_prctl_unknown".into())
}

/// The one context of a file.
fn context<'a>(recording: &'a Recording, file: &str) -> &'a Context {
    let writers = recording.writers_of(|path| path == format!("/{file}"));
    let [(&id, 20)] = writers.iter().collect::<Vec<_>>()[..] else { panic!("{file}: {writers:?}") };
    &recording.finished().contexts[id as usize - 1]
}

fn told(fs: FsKind) {
    let dir = TempDir::new().expect("a directory can be made");
    let (source, program) = (dir.path().join("told.c"), dir.path().join("told"));
    std::fs::write(&source, PROGRAM).expect("it can be written");
    let root = env!("CARGO_MANIFEST_DIR");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-g", "-pthread"])
        .arg(format!("-I{root}/bpf"))
        .arg(format!("-I{root}/../../libpcstream"));
    assert!(gcc.arg("-o").arg(&program).arg(&source).status().expect("gcc starts").success());
    let recording =
        record_with(vec![program.into()], Target::Scratch(scratch(fs)), SessionOptions::default());
    assert_complete(&recording);

    let mut signatures = Vec::new();
    for (file, method, index, entry) in [
        ("flush", "flush", 7, "pwrite64"),
        ("direct", "compact", 9, "pwrite64"),
        ("thread", "compact", 9, "pwrite64"),
        ("mapped", "compact", 9, "page fault"),
    ] {
        let context = context(&recording, file);
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
        let context = context(&recording, file);
        assert_eq!((context.unwind, context.frames.len()), (Unwind::Runtime, 0), "{file}");
    }
    assert_eq!(recording.finished().statistics["runtime_paths_disbelieved"], 2);
    for file in ["nothing", "silent", "child", "unreadable", "kernel_address"] {
        let context = context(&recording, file);
        assert_eq!(context.unwind, Unwind::Exact, "{file}");
        assert!(context.frames.iter().any(|frame| frame.symbol == "file"), "{file}: {context:?}");
    }
}
