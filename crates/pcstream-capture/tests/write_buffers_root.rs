//! Write buffers on the real kernel: a program whose pages are written by another thread or process than made them dirty,
//! in every way that a rule can tell of pages; and PostgreSQL.

mod common;
#[path = "common/programs.rs"]
mod programs;
#[path = "common/recording.rs"]
mod recording;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use pcstream_capture::buffers;
use pcstream_capture::capture::Target;
use pcstream_capture::session::SessionOptions;
use pcstream_fs::scratch::{FsKind, ScratchOptions};
use recording::{Recording, assert_complete, bpf, fs_need, functions, gcc, record_with, scratch, shell};
use tempfile::TempDir;

/// Pages of a pool are changed by some functions and written by one, `writer`, in another thread or, with PROCESS, in
/// another process that has the pool elsewhere. Each file is written after changes by one function.
const PROGRAM: &str = include_str!("native/write_buffers.c");

/// Device pages of each file.
const FILE_PAGES: u64 = 80;

fn main() -> ExitCode {
    let needs = [common::ext4 as common::Need, common::zram, bpf, gcc];
    let header: [(&'static str, &'static [&'static str]); 7] = [
        ("thread", &["-DPOOL=MAP_PRIVATE|MAP_ANONYMOUS"]),
        ("process", &["-DPOOL=MAP_SHARED", "-DPROCESS"]),
        ("copied", &["-DPOOL=MAP_SHARED", "-DPROCESS", "-DCOPIED"]),
        ("copied_direct", &["-DPOOL=MAP_PRIVATE|MAP_ANONYMOUS", "-DCOPIED", "-DDIRECT"]),
        ("direct", &["-DPOOL=MAP_PRIVATE|MAP_ANONYMOUS", "-DDIRECT"]),
        ("appended", &["-DPOOL=MAP_PRIVATE|MAP_ANONYMOUS", "-DAPPENDED"]),
        ("frame_pointers", &["-DPOOL=MAP_SHARED", "-fno-omit-frame-pointer", "-fcf-protection=full"]),
    ];
    let mut tests = Vec::new();
    for fs in [FsKind::Ext4, FsKind::Xfs] {
        let needs = [fs_need(fs), common::zram, bpf, gcc];
        for (name, flags) in header {
            let name = format!("buffers_{}_header_{name}", fs.name());
            tests.push(common::test(name, &needs, move || by_header(fs, flags)));
        }
    }
    tests.push(common::test("buffers_library", &needs, by_library));
    tests.push(common::test("buffers_of_another_file_are_missed_aloud", &needs, of_another_file));
    tests.push(common::test("buffers_written_by_vectors_are_missed_aloud", &needs, by_vectors));
    tests.push(common::test("buffers_pages_beyond_those_that_are_kept_are_counted", &needs, too_many));
    for fs in [FsKind::Ext4, FsKind::Xfs] {
        let needs = [fs_need(fs), common::zram, bpf, gcc];
        let name = format!("buffers_{fs}_write_to_a_dirty_page_uses_up_its_path");
        tests.push(common::test(name, &needs, move || reused_at_once(fs)));
    }
    tests.push(common::test("buffers_of_several_threads_are_not_lost", &needs, shared_by_threads));
    tests.push(common::test("buffers_probe_harms_no_leaf_function", &needs, leaf));
    tests.push(common::test("buffers_rules_by_number", &needs, by_number));
    tests.push(common::test("buffers_rules_where_clean_pages_are_counted", &needs, by_counter));
    tests.push(common::test("buffers_rules_by_pointers", &needs, by_pointers));
    tests.push(common::test("buffers_rules_of_a_stripped_program", &needs, stripped));
    tests.push(common::test("buffers_rules_by_static_probe", &needs, by_static_probe));
    let postgres = [common::ext4 as common::Need, common::zram, bpf, postgresql];
    tests.push(common::test("buffers_postgresql", &postgres, || pgbench("")));
    tests.push(common::test("buffers_postgresql_with_checksums", &postgres, || pgbench("-k")));
    let maria = [common::ext4 as common::Need, common::zram, bpf, mariadb];
    tests.push(common::test("buffers_mariadb", &maria, || innodb("")));
    tests.push(common::test("buffers_mariadb_with_threads_that_write", &maria, || {
        innodb("--innodb-use-native-aio=0 --innodb-flush-method=fsync");
    }));
    common::run(tests)
}

fn build(dir: &Path, flags: &[&str]) -> PathBuf {
    build_source(dir, PROGRAM, flags)
}

fn build_source(dir: &Path, source: &str, flags: &[&str]) -> PathBuf {
    let common = ["-O2", "-pthread", programs::WITH_LIBPCSTREAM];
    programs::compile(dir, "buffers", source, &[&common, flags].concat())
}

fn run(fs: FsKind, program: &Path, what: &str) -> Recording {
    let buffers = buffers::probes(&[what.to_owned()]).expect("the rules fit the program");
    let session = SessionOptions { buffers, ..SessionOptions::default() };
    let recording = record_with(vec![program.into()], Target::Scratch(scratch(fs)), session);
    assert_complete(&recording);
    recording
}

/// Each file was written by one context, which came this way and through this function.
fn assert_written(recording: &Recording, expected: &[(&str, &str, &str)]) {
    for &(file, entry, function) in expected {
        let writers = recording.writers_of(|path| path == format!("/{file}"));
        let found: Vec<_> = writers
            .iter()
            .map(|(&id, pages)| {
                (&recording.finished().contexts[id as usize - 1].entry, functions(recording, id), pages)
            })
            .collect();
        let [(its_entry, path, pages)] = &found[..] else { panic!("{file} was written by {found:?}") };
        assert_eq!((its_entry.as_str(), **pages), (entry, FILE_PAGES), "{file}: {path:?}");
        assert!(path.contains(&function), "{file}: {path:?}");
    }
}

/// What the header's calls give; the third file is written without having been changed, the fourth after changes by two.
fn assert_both(recording: &Recording, write: &str) {
    assert_written(
        recording,
        &[
            ("insert", "write buffer", "insert_row"),
            ("update", "write buffer", "update_row"),
            ("again", write, "write_file"),
            ("later", "write buffer", "update_row"),
        ],
    );
}

fn by_header(fs: FsKind, flags: &[&str]) {
    let dir = TempDir::new().expect("a directory can be made");
    let program = build(dir.path(), flags);
    let recording = run(fs, &program, program.to_str().expect("temporary paths are plain"));
    assert_both(&recording, if flags.contains(&"-DAPPENDED") { "write" } else { "pwrite64" });
}

/// What is remarked when `program` runs, and another file may be probed.
fn notes(probed: &Path, program: &Path) -> Vec<String> {
    let probed = probed.to_str().expect("temporary paths are plain").to_owned();
    let buffers = buffers::probes(&[probed]).expect("it has probes");
    let session = SessionOptions { buffers, ..SessionOptions::default() };
    let recording = record_with(vec![program.into()], Target::Scratch(scratch(FsKind::Ext4)), session);
    recording.finished().notes.clone()
}

/// Writes that are not joined to the buffer.
fn by_vectors() {
    let dir = TempDir::new().expect("a directory can be made");
    let remarks = |flags: &[&str]| {
        let program = build(dir.path(), flags);
        let notes = notes(&program, &program);
        notes.iter().filter(|note| note.contains("but no write came from it")).count()
    };
    let pool = "-DPOOL=MAP_PRIVATE|MAP_ANONYMOUS";
    assert_eq!((remarks(&[pool, "-DVECTORS"]), remarks(&[pool])), (1, 0));
}

/// As where a container runs its own copy of a server.
fn of_another_file() {
    let dir = TempDir::new().expect("a directory can be made");
    let program = build(dir.path(), &["-DPOOL=MAP_PRIVATE|MAP_ANONYMOUS"]);
    let copy = dir.path().join("copy");
    std::fs::copy(&program, &copy).expect("it can be copied");
    let remarks = |probed: &Path| {
        let notes = notes(probed, &copy);
        notes.iter().filter(|note| note.contains("no page of a write buffer became dirty")).count()
    };
    assert_eq!((remarks(&program), remarks(&copy)), (1, 0));
}

/// Changes pages and writes them, then changes others that it does not write.
const MANY: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include "pcstream.h"
static void change(char *page) {
    pcstream_page_dirty(page, 4096);
}
int main(void) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, fd = open("many", O_CREAT | O_RDWR | O_DIRECT, 0600);
    char *pages = mmap(0, (WRITTEN + UNWRITTEN) * 4096L, PROT_READ | PROT_WRITE, flags, -1, 0);
    for (long i = 0; i < WRITTEN; i++) {
        change(pages + i * 4096);
        if (pwrite(fd, pages + i * 4096, 4096, 0) != 4096) return 9;
    }
    for (long i = 0; i < UNWRITTEN; i++) change(pages + (WRITTEN + i) * 4096);
    return 0;
}
"#;

/// Pages that were written make room.
fn too_many() {
    const KEPT: u64 = 524_288;
    let dir = TempDir::new().expect("a directory can be made");
    let displaced = |unwritten: u64| {
        let program =
            build_source(dir.path(), MANY, &["-DWRITTEN=130000", &format!("-DUNWRITTEN={unwritten}")]);
        let what = program.to_str().expect("temporary paths are plain").to_owned();
        let buffers = buffers::probes(&[what]).expect("the rules fit the program");
        let session = SessionOptions { buffers, ..SessionOptions::default() };
        let recording = record_with(vec![program.into()], Target::Scratch(scratch(FsKind::Ext4)), session);
        let finished = recording.finished();
        eprintln!("    {:?}", finished.statistics);
        assert_eq!(finished.statistics["buffer_writes"], 130_000);
        assert_eq!(finished.lost(), finished.losses["buffer_pages_displaced"], "{:?}", finished.losses);
        finished.lost()
    };
    // The page that was written last is kept until the next one is.
    assert_eq!((displaced(KEPT - 1), displaced(KEPT + 999)), (0, 1000));
}

/// One page of a buffer holds pages of a file in turn. Each of the even ones is changed and written twice at once.
const REUSED: &str = r#"
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include "pcstream.h"
#define CHANGE(function) \
    __attribute__((noinline, noclone)) static void function(char *page, int fd, long at) { \
        usleep(1000); \
        pcstream_page_dirty(page, 4096); \
        if (pwrite(fd, page, 4096, at * 4096) != 4096) exit(9); \
        __asm__ volatile("" ::: "memory"); \
    }
CHANGE(put_first)
CHANGE(put_again)
CHANGE(put_other)
int main(void) {
    char *page = aligned_alloc(4096, 4096);
    int fd = open("reused", O_CREAT | O_RDWR, 0600);
    for (long i = 0; i < 200; i += 2) {
        put_first(page, fd, i);
        put_again(page, fd, i);
        put_other(page, fd, i + 1);
    }
    return fd < 0;
}
"#;

fn reused_at_once(fs: FsKind) {
    let dir = TempDir::new().expect("a directory can be made");
    // The functions have the same code.
    let program = build_source(dir.path(), REUSED, &["-fno-ipa-icf"]);
    let recording = run(fs, &program, program.to_str().expect("temporary paths are plain"));
    let writers = recording.writers_of(|path| path == "/reused");
    let found: BTreeMap<_, _> =
        writers.iter().map(|(&id, &pages)| (functions(&recording, id)[0].to_owned(), pages)).collect();
    let expected = [("put_first", 100), ("put_other", 100)].map(|(name, pages)| (name.to_owned(), pages));
    assert_eq!(found, BTreeMap::from(expected));
}

/// Threads change and write the same few pages of a buffer, one after another.
const SHARED: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#include "pcstream.h"
static char *pages;
static int fd, taken[16];
static void *change(void *number) {
    for (long i = 0; i < 50000; i++) {
        int n = (i + i / 16 * (long)number) % 16;
        if (__atomic_exchange_n(&taken[n], 1, __ATOMIC_ACQUIRE)) continue;
        pcstream_page_dirty(pages + n * 4096, 4096);
        if (pwrite(fd, pages + n * 4096, 4096, n * 4096) != 4096) exit(9);
        __atomic_store_n(&taken[n], 0, __ATOMIC_RELEASE);
    }
    return number;
}
int main(void) {
    pthread_t threads[6];
    pages = aligned_alloc(4096, 16 * 4096);
    fd = open("shared", O_CREAT | O_RDWR | O_DIRECT, 0600);
    for (long i = 0; i < 6; i++) pthread_create(&threads[i], NULL, change, (void *)(i + 1));
    for (int i = 0; i < 6; i++) pthread_join(threads[i], NULL);
    return fd < 0;
}
"#;

fn shared_by_threads() {
    let dir = TempDir::new().expect("a directory can be made");
    let program = build_source(dir.path(), SHARED, &[]);
    let recording = run(FsKind::Ext4, &program, program.to_str().expect("temporary paths are plain"));
    assert_eq!(recording.finished().losses["buffer_pages_displaced"], 0);
    assert!(recording.finished().statistics["buffer_writes"] > 50_000);
}

/// A function that calls nothing may keep variables below the stack pointer.
const LEAF: &str = r#"
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include "pcstream.h"
__attribute__((noinline, noclone)) static long leaf(char *page, long x) {
    volatile long a = x, b = x + 1, c = x + 2, d = x + 3, e = x + 4, f = x + 5;
    pcstream_page_dirty(page, 8192);
    return a + b + c + d + e + f;
}
int main(void) {
    char *page = aligned_alloc(8192, 8192);
    int fd = open("leaf", O_CREAT | O_RDWR, 0600);
    for (long i = 0; i < 5000; i++) if (leaf(page, i) != 6 * i + 15) return 9;
    return pwrite(fd, page, 8192, 0) != 8192;
}
"#;

fn leaf() {
    let dir = TempDir::new().expect("a directory can be made");
    for level in ["-O0", "-O2"] {
        let program = build_source(dir.path(), LEAF, &[level]);
        let recording = run(FsKind::Ext4, &program, program.to_str().expect("temporary paths are plain"));
        let writers = recording.writers_of(|path| path == "/leaf");
        let [(&id, 2)] = writers.iter().collect::<Vec<_>>()[..] else { panic!("{level}: {writers:?}") };
        assert!(functions(&recording, id).starts_with(&["leaf", "main"]), "{level}");
    }
}

/// The calls as functions of a library, which has the probes then.
fn by_library() {
    let dir = TempDir::new().expect("a directory can be made");
    let library = dir.path().join("libpcstream.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../libpcstream/pcstream.c");
    let gcc = Command::new("gcc").args(["-O2", "-shared", "-fPIC", "-o"]).arg(&library).arg(source).status();
    assert!(gcc.expect("gcc starts").success());
    let library = library.to_str().expect("temporary paths are plain");
    let origin = format!("-Wl,-rpath,{}", dir.path().display());
    // The linker wants libraries after what uses them.
    let program =
        build(dir.path(), &["-DPOOL=MAP_SHARED", "-DLIBRARY", "-Wl,--no-as-needed", library, &origin]);
    assert_both(&run(FsKind::Ext4, &program, library), "pwrite64");
}

/// Records the program under rules. `{program}` in them stands for its path.
fn with_rules(dir: &Path, program: &Path, rules: &str) -> Recording {
    let file = dir.join("rules.toml");
    let program_name = program.to_str().expect("temporary paths are plain");
    std::fs::write(&file, rules.replace("{program}", program_name)).expect("it can be written");
    run(FsKind::Ext4, program, file.to_str().expect("temporary paths are plain"))
}

const NUMBERED: &str = r#"
program = "{program}"
page_bytes = 8192
[[dirty]]
function = "mark_number"
page = { number = 1, from = 1, pool = "pool" }
[[dirty]]
function = "hint_number"
page = { number = 1, from = 1, pool = "pool" }
weak = true
[[dirty]]
function = "of_another_version"
page = { address = 1 }
optional = true
[[copied]]
function = "copied"
page = { address = 1 }
"#;

fn assert_numbered(recording: &Recording) {
    assert_both(recording, "pwrite64");
    assert_written(
        recording,
        &[("hinted", "write buffer", "update_row"), ("hints", "write buffer", "set_hint")],
    );
}

fn by_number() {
    let dir = TempDir::new().expect("a directory can be made");
    for more in ["-DPROCESS", "-DCOPIED"] {
        let program = build(dir.path(), &["-DPOOL=MAP_SHARED", "-DNUMBERED", "-DHINTED", more]);
        assert_numbered(&with_rules(dir.path(), &program, NUMBERED));
    }
}

/// Probed where clean pages are counted, a page has the path of its first change; probed at its beginning, because nothing is
/// kept in registers, that of a later one.
fn by_counter() {
    let rules = r#"
        program = "{program}"
        page_bytes = 8192
        [[dirty]]
        function = "mark_counted"
        page = { number = 1, from = 1, pool = "pool" }
        counts = { variable = "usage", at = 8 }
    "#;
    let dir = TempDir::new().expect("a directory can be made");
    let builds: [(&[&str], bool); 6] = [
        (&["-O1"], true),
        (&["-O2"], true),
        (&["-O3", "-march=x86-64-v3"], true),
        (&["-Os", "-no-pie"], true),
        (&["-O2", "-fno-omit-frame-pointer", "-fcf-protection=full", "-fstack-protector-all"], true),
        (&["-O0"], false),
    ];
    for (flags, found) in builds {
        let program = build(dir.path(), &[&["-DPOOL=MAP_SHARED", "-DCOUNTED"], flags].concat());
        let recording = with_rules(dir.path(), &program, rules);
        let file = dir.path().join("rules.toml").to_str().expect("temporary paths are plain").to_owned();
        let remarks =
            buffers::probes(&[file]).expect("they fit").into_iter().filter_map(|probe| probe.remark);
        let remarks: Vec<String> = remarks.collect();
        assert_eq!(remarks.is_empty(), found, "{flags:?}: {remarks:?}");
        assert!(remarks.iter().all(|remark| remark.contains("every call of mark_counted")), "{remarks:?}");
        let later = if found { "insert_row" } else { "update_row" };
        assert_written(
            &recording,
            &[
                ("insert", "write buffer", "insert_row"),
                ("update", "write buffer", "update_row"),
                ("again", "pwrite64", "write_file"),
                ("later", "write buffer", later),
            ],
        );
    }
}

fn by_pointers() {
    let rules = r#"
        program = "{program}"
        page_bytes = 8192
        [[dirty]]
        function = "mark_block"
        page = { address = 2, follow = [0, 8] }
    "#;
    let dir = TempDir::new().expect("a directory can be made");
    let program = build(dir.path(), &["-DPOOL=MAP_PRIVATE|MAP_ANONYMOUS", "-DPOINTED"]);
    assert_both(&with_rules(dir.path(), &program, rules), "pwrite64");
}

/// Names of functions and variables come from the debug file, those of the paths do not.
fn stripped() {
    let dir = TempDir::new().expect("a directory can be made");
    let program = build(dir.path(), &["-DPOOL=MAP_SHARED", "-DNUMBERED", "-DHINTED"]);
    let debug = dir.path().join(".debug");
    std::fs::create_dir(&debug).expect("a directory can be made");
    let objcopy = |args: &[&str]| {
        let status = Command::new("objcopy").args(args).current_dir(dir.path()).status();
        assert!(status.expect("objcopy starts").success());
    };
    objcopy(&["--only-keep-debug", "buffers", ".debug/buffers.debug"]);
    objcopy(&["--strip-all", "--add-gnu-debuglink=.debug/buffers.debug", "buffers"]);
    let recording = with_rules(dir.path(), &program, NUMBERED);
    let files = ["insert", "update", "again", "hinted", "hints"];
    let contexts = files.map(|file| {
        let writers = recording.writers_of(|path| path == format!("/{file}"));
        let [(&id, _)] = writers.iter().collect::<Vec<_>>()[..] else { panic!("{file}: {writers:?}") };
        id
    });
    assert_ne!(contexts[0], contexts[1]);
    assert_ne!(contexts[3], contexts[4]);
    let entries = contexts.map(|id| recording.finished().contexts[id as usize - 1].entry.as_str());
    assert_eq!(entries, ["write buffer", "write buffer", "pwrite64", "write buffer", "write buffer"]);

    // A debug file of another build says nothing about this one.
    let other = build(dir.path(), &["-DPOOL=MAP_SHARED", "-DNUMBERED"]);
    objcopy(&["--strip-all", "--add-gnu-debuglink=.debug/buffers.debug", "buffers"]);
    let rules = dir.path().join("rules.toml").to_str().expect("temporary paths are plain").to_owned();
    let refused = buffers::probes(&[rules]).expect_err("it has no names").to_string();
    assert!(refused.contains("mark_number") && refused.contains(other.to_str().expect("plain")), "{refused}");
}

fn by_static_probe() {
    let rules = r#"
        program = "{program}"
        page_bytes = 8192
        [[dirty]]
        probe = "pcstream:page_dirty"
        page = { address = 1 }
    "#;
    let dir = TempDir::new().expect("a directory can be made");
    let program = build(dir.path(), &["-DPOOL=MAP_SHARED"]);
    assert_both(&with_rules(dir.path(), &program, rules), "pwrite64");
}

/// PostgreSQL, and a user to run it as, for it does not run as root.
fn postgresql() -> Option<String> {
    let found = glob::glob("/usr/lib/postgresql/*/bin/pgbench").ok()?.flatten().next();
    let user = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    match (found, user.lines().any(|line| line.starts_with("postgres:"))) {
        (Some(_), true) => None,
        _ => Some("PostgreSQL (apt install postgresql)".into()),
    }
}

const PGBENCH: &str = r#"
set -eu
bin=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
socket=$(mktemp -d); chown postgres "$socket"; mkdir data; chown postgres data
trap 'pg "$bin/pg_ctl" -D data stop -m immediate >/dev/null 2>&1 || true; rm -rf "$socket"' EXIT
pg() { setpriv --reuid postgres --regid postgres --init-groups "$@"; }
pg "$bin/initdb" {} -D data -A trust >/dev/null
pg "$bin/pg_ctl" -D data -w -l data/log start >/dev/null -o "-c listen_addresses= -c unix_socket_directories=$socket \
    -c shared_buffers=32MB -c checkpoint_timeout=30s -c max_wal_size=64MB"
pg "$bin/pgbench" -q -i -s 8 -h "$socket" postgres 2>/dev/null
pg "$bin/pgbench" -h "$socket" -c 4 -t 4000 postgres >/dev/null 2>&1
pg "$bin/pg_ctl" -D data -w stop -m fast >/dev/null
"#;

/// At least 97 % of the pages of relations have the context of the code that made them dirty: kept under the page, or, where a
/// relation is copied or made longer, that of the write itself. What goes through `smgrwrite` is somebody else's page.
fn pgbench(initdb: &str) {
    let buffers = buffers::probes(&["postgresql".to_owned()]).expect("Debian's program has the names");
    let session = SessionOptions { buffers, ..SessionOptions::default() };
    let options = ScratchOptions { size_bytes: 3 << 30, ..scratch(FsKind::Ext4) };
    let script: Vec<OsString> = shell(&PGBENCH.replace("{}", initdb));
    let recording = record_with(script, Target::Scratch(options), session);
    assert_complete(&recording);
    let (mut all, mut marked, mut flushed) = (0, 0, 0);
    for (&id, &pages) in &recording.writers_of(|path| path.starts_with("/data/base/")) {
        all += pages;
        let entry = (id as usize).checked_sub(1).map(|at| recording.finished().contexts[at].entry.as_str());
        match entry {
            Some("write buffer") => marked += pages,
            Some(_)
                if !functions(&recording, id).iter().any(|name| ["smgrwrite", "mdwrite"].contains(name)) => {}
            _ => flushed += pages,
        }
    }
    let share = 1.0 - flushed as f64 / all as f64;
    eprintln!(
        "    {:.2} % of {all} pages have the context of who made them dirty ({marked} kept under the page), {:?}",
        100.0 * share,
        recording.finished().statistics
    );
    assert!(marked > 20_000, "{marked} of {all}");
    assert!(share >= 0.97, "{share}");
}

fn mariadb_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/mariadb")
}

fn mariadb() -> Option<String> {
    let missing = !mariadb_dir().join("bin/mariadbd").exists();
    missing.then(|| "a MariaDB with names (scripts/mariadb fetches one)".into())
}

/// One connection that the server makes itself, and a buffer smaller than the table.
const INNODB: &str = r#"
set -eu
mkdir data
cat > statements <<'SQL'
CREATE DATABASE b;
USE b;
CREATE TABLE a(aid INT PRIMARY KEY, bal INT, filler CHAR(84)) ENGINE=InnoDB;
INSERT INTO a SELECT seq, 0, '' FROM seq_1_to_200000;
UPDATE a SET bal=bal+1 WHERE aid%7=0;
UPDATE a SET bal=bal+1 WHERE aid%11=0;
UPDATE a SET filler='x' WHERE aid%1000<30;
DELETE FROM a WHERE aid%5=0;
SHUTDOWN;
SQL
{base}/bin/mariadbd --no-defaults --basedir={base} --datadir="$PWD/data" --user=root --socket="$PWD/data/s" \
    --skip-networking --skip-grant-tables --init-file="$PWD/statements" --innodb-buffer-pool-size=12M \
    --innodb-log-file-size=16M {options} > log 2>&1 || { cat log >&2; exit 1; }
grep -q "Shutdown complete" log
"#;

/// At least 97 % of the pages of tables have the context of the code that made them dirty, and inserts differ from
/// updates.
fn innodb(options: &str) {
    let dir = TempDir::new().expect("a directory can be made");
    let rules = dir.path().join("rules.toml");
    let base = mariadb_dir().canonicalize().expect("it is there");
    let base = base.to_str().expect("a plain path");
    let (_, preset) = buffers::PRESETS.iter().find(|(name, _)| *name == "mariadb").expect("it is one");
    let program = format!("program = {base:?}\n").replace(base, &format!("{base}/bin/mariadbd"));
    let others: String =
        preset.lines().filter(|line| !line.starts_with("program")).map(|l| format!("{l}\n")).collect();
    std::fs::write(&rules, program + &others).expect("it can be written");
    let what = rules.to_str().expect("temporary paths are plain").to_owned();
    let buffers = buffers::probes(&[what]).expect("this program has the names");
    let session = SessionOptions { buffers, ..SessionOptions::default() };
    let target = ScratchOptions { size_bytes: 2 << 30, ..scratch(FsKind::Ext4) };
    let script: Vec<OsString> = shell(&INNODB.replace("{base}", base).replace("{options}", options));
    let recording = record_with(script, Target::Scratch(target), session);
    assert_complete(&recording);
    let (mut all, mut marked, mut inserts, mut updates) = (0, 0, 0, 0);
    for (&id, &pages) in &recording.writers_of(|path| path.ends_with(".ibd")) {
        all += pages;
        let context = (id as usize).checked_sub(1).map(|at| &recording.finished().contexts[at]);
        if context.is_some_and(|context| context.entry == "write buffer") {
            marked += pages;
            let through =
                |function: &str| functions(&recording, id).iter().any(|name| name.contains(function));
            inserts += if through("row_ins_step") || through("write_record") { pages } else { 0 };
            updates += if through("mysql_update") { pages } else { 0 };
        }
    }
    let share = marked as f64 / all as f64;
    eprintln!(
        "    {:.2} % of {all} pages have the context of who made them dirty (inserts {inserts}, updates {updates}), {:?}",
        100.0 * share,
        recording.finished().statistics
    );
    assert!(all > 5_000 && share >= 0.97, "{share} of {all}");
    assert!(inserts > all / 20 && updates > all / 20, "{inserts} and {updates} of {all}");
}
