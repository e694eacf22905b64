//! Exact call paths on the real kernel: programs whose paths are known, built for the purpose with gcc, or with Go.

mod common;
#[path = "common/programs.rs"]
mod programs;
#[path = "common/recording.rs"]
mod recording;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use gimli::{BaseAddresses, CfaRule, CieOrFde, DebugFrame, LittleEndian, UnwindContext, UnwindSection};
use object::{Object, ObjectSection, ObjectSegment};
use pcstream_capture::call_frames::CallFrames;
use pcstream_capture::capture::Target;
use pcstream_capture::session::SessionOptions;
use pcstream_capture::wire::RuleKind;
use pcstream_fs::scratch::FsKind;
use pcstream_trace::Unwind;
use recording::{
    DB_BENCH, Recording, bpf, db_bench, functions, gcc, record, record_with, scratch, try_record_into,
};
use tempfile::TempDir;

/// Two ways to one write, through frames of every shape: small, large, of variable size, with and without a frame
/// pointer of their own. `BARRIER` keeps calls from becoming jumps. Each path writes a file of its name. With a directory as
/// argument, it first writes to another, `NAME.warm`, until a file of that name is in the directory: the recorder knows the path.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#define PART __attribute__((noinline))
#define BARRIER __asm__ volatile("" ::: "memory")
#define USED(p) __asm__ volatile("" :: "r"(p) : "memory")
static char page[4096];
static char *map;
static const char *known;
struct file { int fd, warm; char *map, *warm_map, seen[4096]; };
static void make(struct file *f, const char *name) {
    char warm[64];
    snprintf(warm, sizeof warm, "%s.warm", name);
    f->fd = open(name, O_CREAT | O_RDWR, 0600);
    f->warm = known ? open(warm, O_CREAT | O_RDWR, 0600) : -1;
    snprintf(f->seen, sizeof f->seen, "%s/%s", known ? known : "", warm);
}
static void make_map(struct file *f, const char *name) {
    make(f, name);
    if (ftruncate(f->fd, 409600)) exit(1);
    f->map = mmap(0, 409600, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);
    if (!known) return;
    if (ftruncate(f->warm, 409600)) exit(1);
    f->warm_map = mmap(0, 409600, PROT_READ | PROT_WRITE, MAP_SHARED, f->warm, 0);
}
/* Whether its path is not known yet. What was written to be known is on the device by then. */
static int warms(struct file *f) {
    if (f->warm >= 0 && fsync(f->warm)) exit(1);
    return f->warm >= 0 && access(f->seen, F_OK);
}
#define FD(f, warm_up) (warm_up ? (f).warm : (f).fd)
#define EACH(warming) for (int i = 0, w; i < 100 && (w = (warming), 1); i += !w)
PART int leaf(int fd, int i) {
    char small[512]; memset(small, fd, sizeof small); USED(small);
    int r = 0;
    usleep(100);
    if (fd < 0) map[4096L * i] = 1; else r = write(fd, page, sizeof page);
    BARRIER; return r;
}
PART int plain(int fd, int i) { int r = leaf(fd, i); BARRIER; return r + 1; }
PART int large(int fd, int i) { char buffer[20000]; buffer[i] = 1; USED(buffer); int r = plain(fd, i); return r + buffer[i]; }
PART int variable(int fd, int i, int n) { char *p = __builtin_alloca(n); p[0] = 1; USED(p); int r = large(fd, i); return r + p[0]; }
PART int one(int fd, int i) { int r = variable(fd, i, 64 + i % 3 * 16); BARRIER; return r; }
PART int two(int fd, int i) { int r = variable(fd, i, 64 + i % 5 * 16); BARRIER; return r; }
PART int mapped(int i) { int r = variable(-1, i, 64); BARRIER; return r; }
static void *thread(void *unused) {
    static struct file file;
    make(&file, "thread");
    EACH(warms(&file)) { two(FD(file, w), i); BARRIER; }
    return unused;
}
int main(int argc, char **argv) {
    static struct file a, b, m;
    known = argc > 1 ? argv[1] : 0;
    alarm(900);
    make(&a, "one");
    make(&b, "two");
    EACH(warms(&a) | warms(&b)) { one(FD(a, w), i); BARRIER; two(FD(b, w), i); BARRIER; }
    make_map(&m, "mapped");
    EACH(warms(&m)) { map = w ? m.warm_map : m.map; mapped(i); BARRIER; }
    /* Its stack is one large page, where the kernel gives such. */
    unsigned long large = 2 << 20, at = (unsigned long)mmap(0, 2 * large, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    at = (at + large - 1) & -large;
    madvise((void *)at, large, MADV_HUGEPAGE);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, (void *)at, large);
    pthread_t t; pthread_create(&t, &attributes, thread, 0); pthread_join(t, 0);
    return 0;
}
"#;

fn main() -> ExitCode {
    let needs = [common::ext4 as common::Need, common::zram, bpf, gcc];
    let rocksdb = [common::ext4 as common::Need, common::zram, bpf, db_bench];
    let with_go = [common::ext4 as common::Need, common::zram, bpf, gcc, programs::go];
    common::run(vec![
        common::test("exact_paths_are_the_programs_own", &needs, known_paths),
        common::test("exact_paths_end_at_code_without_tables", &needs, without_tables),
        common::test("exact_paths_hold_where_mappings_are_looked_up_singly", &needs, per_address_lookup),
        common::test("exact_paths_longer_than_what_is_kept_are_cut", &needs, deep_recursion),
        common::test("exact_paths_go_through_frames_of_any_size", &needs, large_frames),
        common::test("a_path_of_an_absent_stack_is_not_kept", &needs, absent_stack),
        common::test("many_mappings_hide_no_library", &needs, many_mappings),
        common::test("stores_of_one_call_have_one_context", &needs, one_call_many_stores),
        common::test("stores_while_the_page_is_written_have_a_context", &needs, stores_beside_fsync),
        common::test("exact_paths_of_go_are_the_programs_own", &with_go, || go_paths(false)),
        common::test("rules_of_go_are_those_for_debuggers", &[programs::go], go_rules),
        common::test("exact_paths_of_go_end_where_it_calls_c", &with_go, || go_paths(true)),
        common::test("exact_paths_of_rocksdb_tell_its_activities_apart", &rocksdb, rocksdb_is_pure),
    ])
}

/// Builds a program with `-O2` and these flags.
fn build(dir: &TempDir, source: &str, flags: &[&str]) -> PathBuf {
    programs::compile(dir.path(), "program", source, &[&["-O2", "-pthread"], flags].concat())
}

fn run(program: &Path, session: SessionOptions) -> Recording {
    let recording = record_with(vec![program.into()], Target::Scratch(scratch(FsKind::Ext4)), session);
    assert_eq!(recording.finished().lost(), 0, "{:?}", recording.finished().losses);
    recording
}

/// The same with a program that waits until the recorder knows its paths. What it wrote before, each page as often as it did.
fn run_known(program: &Path, session: &SessionOptions) -> (Recording, u64) {
    let recording = recording::record_again(|| {
        let known = TempDir::new().expect("a directory");
        let command = vec![program.into(), known.path().into()];
        let recording = Recording { when_exact: Some(known.path().to_owned()), ..Recording::default() };
        try_record_into(recording, command, Target::Scratch(scratch(FsKind::Ext4)), session.clone())
    });
    assert_eq!(recording.finished().lost(), 0, "{:?}", recording.finished().losses);
    let before = recording.writers_of(|path| path.ends_with(".warm")).values().sum();
    (recording, before)
}

/// The contexts of a file, by id.
fn writers(recording: &Recording, file: &str) -> BTreeMap<u32, u64> {
    recording.writers_of(|path| path == format!("/{file}"))
}

const COMMON: [&str; 4] = ["leaf", "plain", "large", "variable"];

/// Every page of every file, the first ones included, has the one path that leads there.
fn assert_paths(recording: &Recording) {
    for (file, head, tail) in [
        ("one", Some("write"), &["one", "main"][..]),
        ("two", Some("write"), &["two", "main"]),
        ("mapped", None, &["mapped", "main"]),
        ("thread", Some("write"), &["two", "thread"]),
    ] {
        let writers = writers(recording, file);
        // A frame of variable size is on the way, yet it is one path.
        let [&id] = writers.keys().collect::<Vec<_>>()[..] else {
            panic!("{file} was written by {:?}", names(recording, &writers))
        };
        assert_eq!(recording.distinct_pages(&format!("/{file}")), 100, "{file}");
        let context = &recording.finished().contexts[id as usize - 1];
        assert_eq!(context.unwind, Unwind::Exact, "{file}");
        let named = functions(recording, id);
        let named = named.split_at(usize::from(head.is_some())).1;
        assert!(named.starts_with(&COMMON) && named[4..].starts_with(tail), "{file}: {named:?}");
    }
}

fn names<'a>(recording: &'a Recording, writers: &BTreeMap<u32, u64>) -> Vec<Vec<&'a str>> {
    writers.keys().map(|&id| functions(recording, id)).collect()
}

fn known_paths() {
    let dir = TempDir::new().expect("a directory");
    for flags in
        [&["-fomit-frame-pointer"][..], &["-fno-omit-frame-pointer"], &["-fomit-frame-pointer", "-static"]]
    {
        let program = build(&dir, PROGRAM, flags);
        let (recording, before) = run_known(&program, &SessionOptions::default());
        assert_paths(&recording);
        let statistics = &recording.finished().statistics;
        let shipped = statistics["stacks_shipped"];
        eprintln!("    {flags:?}: {shipped} stacks shipped, {before} pages before all paths were known");
        // Far fewer than the 400 pages that were written after that.
        assert!((1..200 + before).contains(&shipped), "{statistics:?}");
    }
}

/// Without `.eh_frame`: `exact` cuts the path and says so; `auto` finds another way.
fn without_tables() {
    let dir = TempDir::new().expect("a directory");
    let program = build(&dir, PROGRAM, &["-fomit-frame-pointer", "-fno-asynchronous-unwind-tables"]);
    for (unwind, expected) in [(Some(Unwind::Exact), Unwind::Cut), (None, Unwind::Scan)] {
        let recording = run(&program, SessionOptions { unwind, ..SessionOptions::default() });
        let cut = recording.finished().statistics["paths_cut"];
        assert_eq!(cut > 0, unwind == Some(Unwind::Exact), "{cut}");
        for file in ["one", "two", "mapped", "thread"] {
            for &id in writers(&recording, file).keys() {
                let context = &recording.finished().contexts[id as usize - 1];
                assert_eq!(context.unwind, expected, "{file}: {:?}", functions(&recording, id));
                // libc's `write` has tables; what called it has none.
                assert!(unwind.is_none() || context.frames.len() <= 2, "{:?}", context.frames);
            }
        }
        assert_eq!(recording.finished().counts.covered_pages, recording.finished().counts.data_pages);
    }
}

fn per_address_lookup() {
    let dir = TempDir::new().expect("a directory");
    let program = build(&dir, PROGRAM, &["-fomit-frame-pointer"]);
    let session = SessionOptions { per_address_lookup: true, ..SessionOptions::default() };
    let (recording, _) = run_known(&program, &session);
    let all: u64 = writers(&recording, "two").values().sum();
    let exact =
        writers(&recording, "two").into_iter().filter(|&(id, _)| functions(&recording, id).contains(&"main"));
    // Mappings become known one by one, a few stacks later than where they can be iterated.
    let exact: u64 = exact.map(|(_, pages)| pages).sum();
    assert!(exact as f64 >= 0.8 * all as f64, "only {exact} of {all} pages");
}

/// As many return addresses as are kept make a whole path if the last one is the outermost, and a cut one otherwise.
fn deep_recursion() {
    let dir = TempDir::new().expect("a directory");
    let program = build(
        &dir,
        r#"
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
static char page[4096];
__attribute__((noinline)) int descend(int fd, int levels) {
    int r = levels ? descend(fd, levels - 1) : (int)write(fd, page, sizeof page);
    __asm__ volatile("" ::: "memory");
    return r + 1;
}
int main(void) {
    for (int levels = 0; levels < 40; levels++) {
        char name[16];
        snprintf(name, sizeof name, "%d", levels);
        int fd = open(name, O_CREAT | O_WRONLY, 0600);
        for (int i = 0; i < 20; i++) { descend(fd, levels); usleep(100); }
    }
    return 0;
}
"#,
        &["-fno-builtin"],
    );
    let recording = run(&program, SessionOptions::default());
    let mut lengths = Vec::new();
    for levels in 0..40 {
        for &id in writers(&recording, &levels.to_string()).keys() {
            let context = &recording.finished().contexts[id as usize - 1];
            lengths.push((context.frames.len(), context.unwind));
        }
    }
    // Up to 12 return addresses; the first frame is the instruction.
    let whole = |length: &&(usize, Unwind)| length.1 == Unwind::Exact;
    let longest = lengths.iter().filter(whole).map(|length| length.0).max();
    assert_eq!(longest, Some(13), "{lengths:?}");
    assert!(lengths.iter().filter(whole).count() > 1, "{lengths:?}");
    let cut = lengths.iter().filter(|length| length.1 == Unwind::Cut).collect::<Vec<_>>();
    assert!(!cut.is_empty() && cut.iter().all(|length| length.0 == 13), "{lengths:?}");
    let statistics = &recording.finished().statistics;
    assert_eq!(statistics["paths_cut"], 0, "they are cut at the limit only: {statistics:?}");
}

/// A buffer on the stack that is larger than what is shipped of it. Until the rules of its callers are known, paths end there.
fn large_frames() {
    let dir = TempDir::new().expect("a directory");
    let program = build(
        &dir,
        r#"
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#define PART __attribute__((noinline))
#define BARRIER __asm__ volatile("" ::: "memory")
PART void copy(int fd) {
    char block[3 << 20];
    memset(block, 1, sizeof block);
    __asm__ volatile("" :: "r"(block) : "memory");
    for (int i = 0; i < 4; i++) (void)!write(fd, block, 4096);
    BARRIER;
}
PART void save_log(int fd) { copy(fd); BARRIER; }
PART void save_table(int fd) { copy(fd); BARRIER; }
int main(void) {
    int log = open("log", O_CREAT | O_WRONLY, 0600), table = open("table", O_CREAT | O_WRONLY, 0600);
    for (int i = 0; i < 500; i++) { save_log(log); save_table(table); usleep(1000); }
    return 0;
}
"#,
        &["-fno-builtin"],
    );
    let recording = run(&program, SessionOptions::default());
    for file in ["log", "table"] {
        let writers = writers(&recording, file);
        let whole = |&id: &u32| recording.finished().contexts[id as usize - 1].unwind == Unwind::Exact;
        let whole: Vec<u32> = writers.keys().copied().filter(whole).collect();
        let [id] = whole[..] else { panic!("{file}: {:?}", names(&recording, &writers)) };
        let caller = format!("save_{file}");
        let named = functions(&recording, id);
        assert!(named.starts_with(&["write", "copy", &caller, "main"]), "{file}: {named:?}");
        eprintln!(
            "    {file}: {} of {} pages by their whole path",
            writers[&id],
            writers.values().sum::<u64>()
        );
    }
}

/// The first write sees a part of its path, and the next ones all of theirs: what a part showed is not for the path cache.
fn absent_stack() {
    let dir = TempDir::new().expect("a directory");
    let program = build(&dir, include_str!("native/absent_stack.c"), &["-fno-builtin"]);
    let (recording, _) = run_known(&program, &SessionOptions::default());
    let writers = writers(&recording, "absent");
    let whole = |id: u32| recording.finished().contexts[id as usize - 1].unwind == Unwind::Exact;
    let [(&first, 1), (&rest, 99)] = {
        let mut by_pages: Vec<_> = writers.iter().map(|(id, &pages)| (id, pages)).collect();
        by_pages.sort_by_key(|&(_, pages)| pages);
        by_pages
    }[..] else {
        panic!("{writers:?}: {:?}", names(&recording, &writers))
    };
    assert!(!whole(first) && whole(rest), "{:?}", names(&recording, &writers));
    assert!(functions(&recording, rest).starts_with(&["write", "put", "save", "thread"]));
}

/// More executable mappings than the BPF program's table holds, all below those of the libraries.
fn many_mappings() {
    const MAPPINGS: u32 = 700;
    let dir = TempDir::new().expect("a directory");
    let program = build(
        &dir,
        &format!(
            r#"
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
static char page[4096];
__attribute__((noinline)) int store(int fd) {{ int r = write(fd, page, sizeof page); __asm__ volatile(""); return r + 1; }}
int main(void) {{
    for (long i = 0; i < {MAPPINGS}; i++)
        if (mmap((void *)(0x10000000 + i * 8192), 4096, PROT_READ | PROT_EXEC,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED) return 1;
    int fd = open("many", O_CREAT | O_WRONLY, 0600);
    for (int i = 0; i < 100; i++) {{ store(fd); usleep(100); }}
    return 0;
}}
"#
        ),
        &["-fno-builtin"],
    );
    let recording = run(&program, SessionOptions::default());
    let writers = writers(&recording, "many");
    let [&id] = writers.keys().collect::<Vec<_>>()[..] else {
        panic!("it was written by {:?}", names(&recording, &writers))
    };
    let context = &recording.finished().contexts[id as usize - 1];
    assert_eq!((recording.distinct_pages("/many"), context.unwind), (100, Unwind::Exact));
    let named = functions(&recording, id);
    assert!(named[1..].starts_with(&["store", "main"]), "{named:?}, {:?}", context.frames);
}

/// A copy stores by other instructions for each size. All are one function's.
fn one_call_many_stores() {
    let dir = TempDir::new().expect("a directory");
    let program = build(
        &dir,
        r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static char from[8192];
int main(void) {
    int fd = open("copied", O_CREAT | O_RDWR, 0600);
    if (ftruncate(fd, 400 * 8192)) return 1;
    char *map = mmap(0, 400 * 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    srandom(1);
    for (int i = 0; i < 400; i++) {
        memcpy(map + i * 8192L + random() % 4096, from, 1 + random() % 300);
        usleep(100);
    }
    return 0;
}
"#,
        &["-fno-builtin"],
    );
    let recording = run(&program, SessionOptions::default());
    let writers = writers(&recording, "copied");
    assert_eq!(writers.len(), 1, "{:?}", names(&recording, &writers));
    let (&id, _) = writers.first_key_value().expect("one");
    assert_eq!(recording.finished().contexts[id as usize - 1].unwind, Unwind::Exact);
}

/// A page that becomes dirty again while it is on its way to the device: both writes have the context.
fn stores_beside_fsync() {
    let dir = TempDir::new().expect("a directory");
    let program = build(
        &dir,
        r#"
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>
static atomic_int stores, flushes;
static void *flush(void *file) {
    for (int seen = 0; flushes < 1000; flushes++) {
        while (stores == seen) sched_yield();
        seen = stores;
        fsync(*(int *)file);
    }
    return 0;
}
int main(void) {
    int fd = open("flushed", O_CREAT | O_RDWR, 0600);
    if (ftruncate(fd, 4 << 20)) return 1;
    char *map = mmap(0, 4 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    pthread_t t;
    pthread_create(&t, 0, flush, &fd);
    while (flushes < 1000)
        for (int i = 0; i < 1024; i++, stores++) map[i * 4096L] = i;
    return pthread_join(t, 0);
}
"#,
        &["-fno-builtin"],
    );
    let recording = run(&program, SessionOptions::default());
    let writers = writers(&recording, "flushed");
    eprintln!("    {} pages written", writers.values().sum::<u64>());
    assert_eq!(recording.distinct_pages("/flushed"), 1024);
    assert!(!writers.contains_key(&0), "{writers:?}, {:?}", recording.finished().statistics);
}

/// Go programs, stripped: without C in it, and with C, which brings call-frame tables and other code before Go's.
fn go_paths(with_c: bool) {
    let dir = TempDir::new().expect("a directory");
    let sources =
        [("main.go", include_str!("native/go_paths.go")), ("c.go", include_str!("native/go_paths_c.go"))];
    let sources = &sources[..1 + usize::from(with_c)];
    let program = programs::go_build(dir.path(), "program", sources, &["-ldflags=-s -w"]);
    let recording = run(&program, SessionOptions::default());
    for (file, path) in [
        ("log", &["runtime.memmove", "main.storeLog", "main.main"][..]),
        ("table", &["runtime.memmove", "main.storeTable", "main.main"]),
        ("any", &["runtime.memmove", "main.storeAny", "main.main"]),
        ("one", &["main.storeOne", "main.main"]),
    ] {
        let whole = [path, &["runtime.main", "runtime.goexit"]].concat();
        assert_eq!(only_path(&recording, file), (whole, Unwind::Exact), "{file}");
    }
    let (named, unwind) = only_path(&recording, "goroutine");
    assert!(named.windows(2).any(|pair| pair == ["main.keep", "main.inGoroutine"]), "{named:?}");
    assert_eq!((named.last(), unwind), (Some(&"runtime.goexit"), Unwind::Exact), "{named:?}");
    let deep = writers(&recording, "deep");
    assert!(!deep.is_empty());
    for (id, pages) in deep {
        assert!(functions(&recording, id).contains(&"main.deep") && pages >= 14, "{pages}");
    }
    let (named, unwind) = only_path(&recording, "recovered");
    assert_eq!((named.last(), unwind), (Some(&"runtime.sigpanic"), Unwind::Cut), "{named:?}");
    if with_c {
        let (named, unwind) = only_path(&recording, "c");
        let last = named.last().is_some_and(|name| name.starts_with("runtime.asmcgocall"));
        assert!(last && named[0] == "write" && unwind == Unwind::Cut, "{unwind:?}: {named:?}");
    }
}

/// Go also writes call frames for debuggers (`.debug_frame`). All rows of a program give the same rules, but where a stack ends.
fn go_rules() {
    let dir = TempDir::new().expect("a directory");
    let source = [("main.go", include_str!("native/go_paths.go"))];
    let program = programs::go_build(dir.path(), "program", &source, &["-ldflags=-compressdwarf=false"]);
    let frames = CallFrames::read(&File::open(&program).expect("it was built")).expect("it has Go's table");
    let bytes = std::fs::read(&program).expect("it was built");
    let elf = object::File::parse(&*bytes).expect("it is a program");
    let offset = |address: u64| {
        let segment = elf.segments().find(|s| (s.address()..s.address() + s.size()).contains(&address));
        segment.map_or(0, |segment| address - segment.address() + segment.file_range().0)
    };
    let table =
        elf.section_by_name(".debug_frame").and_then(|section| section.data().ok()).expect("it has one");
    let mut table = DebugFrame::new(table, LittleEndian);
    table.set_address_size(8);
    let bases = BaseAddresses::default();
    let (mut entries, mut context) = (table.entries(&bases), UnwindContext::new());
    let (mut equal, mut ends) = (0, 0);
    while let Some(entry) = entries.next().expect("an entry") {
        let CieOrFde::Fde(partial) = entry else { continue };
        let entry = partial.parse(DebugFrame::cie_from_offset).expect("an entry");
        let mut rows = entry.rows(&table, &bases, &mut context).expect("it has rows");
        while let Some(row) = rows.next_row().expect("a row") {
            let rule = frames.rule_at(offset(row.start_address()));
            let CfaRule::RegisterAndOffset { offset, .. } = *row.cfa() else { panic!("{row:?}") };
            let into = row.start_address() - entry.initial_address();
            if rule.kind == RuleKind::RULE_SP.0 {
                assert_eq!(
                    (i64::from(rule.cfa_offset), u64::from(rule.into_function)),
                    (offset, into),
                    "{row:?}"
                );
                equal += 1;
            } else if row.start_address() < entry.end_address() {
                ends += 1;
            }
        }
    }
    eprintln!("    {equal} rows give the same rule, {ends} are where a stack ends");
    assert!(equal > 5_000 && ends < equal / 50, "{equal}, {ends}");
}

/// The functions on the one call path of a file of 100 pages, and how it was found.
fn only_path<'a>(recording: &'a Recording, file: &str) -> (Vec<&'a str>, Unwind) {
    let writers = writers(recording, file);
    let [&id] = writers.keys().collect::<Vec<_>>()[..] else {
        panic!("{file} was written by {:?}", names(recording, &writers))
    };
    assert_eq!(recording.distinct_pages(&format!("/{file}")), 100, "{file}");
    (functions(recording, id), recording.finished().contexts[id as usize - 1].unwind)
}

/// Of the bytes of table files, none has a path on which both flush and compaction write, and all paths are exact.
fn rocksdb_is_pure() {
    let recording = record(FsKind::Ext4, DB_BENCH);
    let mut pages = BTreeMap::new();
    for (&id, &written) in &recording.writers_of(|path| path.ends_with(".sst")) {
        let named = functions(&recording, id);
        let activity =
            ["Flush", "BuildTable", "Compaction"].map(|part| named.iter().any(|name| name.contains(part)));
        *pages.entry((activity[0] && !activity[2] || activity[1], activity[2])).or_insert(0) += written;
        let context = &recording.finished().contexts[id as usize - 1];
        assert!(matches!(context.unwind, Unwind::Exact | Unwind::Cut), "{named:?}");
    }
    let all: u64 = pages.values().sum();
    let apart = pages.get(&(true, false)).unwrap_or(&0) + pages.get(&(false, true)).unwrap_or(&0);
    eprintln!("    {apart} of {all} pages of tables have one activity: {pages:?}");
    assert!(apart as f64 >= 0.99 * all as f64, "{pages:?}");
}
