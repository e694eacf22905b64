//! Hints for files that are written once: they are there before the first request, and are those of what was learned before.

#[path = "../../pcstream-capture/tests/common/mod.rs"]
mod common;
#[path = "../../pcstream-capture/tests/common/disk.rs"]
mod disk;
#[path = "common/placer.rs"]
mod placer;
#[path = "../../pcstream-capture/tests/common/programs.rs"]
mod programs;

use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::process::{Child, Command, ExitCode};

use common::wait_for;
use disk::{Disk, text};
use placer::{Bench, context, ext4, number, result, said, xfs_disk};
use serde_json::{Value, json};

/// For so many rounds a log is written, and every fifth time a table: over what is there. With a second argument each is a new
/// file instead, which is not flushed before it has a hint, and then replaces the one before.
const WRITE_ONCE: &str = r#"
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static char buf[65536];
__attribute__((noinline)) int log_append(int fd) { int bad = write(fd, buf, sizeof buf) != sizeof buf; return bad; }
__attribute__((noinline)) int table_flush(int fd) { int bad = write(fd, buf, sizeof buf) != sizeof buf; return bad; }
/* Both ways to write have the same call path. */
static volatile int once;
__attribute__((noinline)) int file(int (*content)(int), const char *kind, int number) {
  char name[32], before[32];
  uint64_t hint = 0;
  snprintf(name, sizeof name, "%s.%d", kind, once ? number : 0);
  snprintf(before, sizeof before, "%s.%d", kind, number - 1);
  int fd = open(name, O_CREAT | O_RDWR, 0600), bad = fd < 0 || content(fd);
  while (!bad && once && !hint) bad |= fcntl(fd, 1035, &hint) | usleep(1000);
  bad |= fdatasync(fd) | close(fd);
  if (once) unlink(before);
  return bad;
}
int main(int argc, char **argv) {
  int rounds = atoi(argv[1]), bad = 0;
  once = argc > 2;
  alarm(900);
  for (int round = 1; !bad && round <= rounds; round++) {
    bad |= file(log_append, "log", round);
    if (round % 5 == 0) bad |= file(table_flush, "table", round / 5);
  }
  return bad;
}
"#;
/// The hint by which a program says that it expects nothing (RWH_WRITE_LIFE_NONE).
const NONE: u64 = 1;
/// Of each file.
const PAGES: u64 = 65536 / 4096;

fn main() -> ExitCode {
    let all = |fs: common::Need| [fs, common::loop_devices, common::requests_with_hints, programs::gcc];
    let (needs, xfs) = (all(common::ext4), all(common::xfs));
    common::run(vec![
        common::test("files_written_once_have_their_hints_in_time", &needs, || written_once(&ext4())),
        common::test(
            "files_of_xfs_written_once_have_their_hints_in_time",
            &xfs,
            || written_once(&xfs_disk()),
        ),
        common::test("hints_of_a_file_system_that_others_have_mounted_are_not_forgotten", &needs, elsewhere),
        common::test("hints_that_programs_set_later_are_given_back", &needs, set_later),
    ])
}

/// Keeps a mount namespace of its own, with all that was mounted; killed when dropped.
struct Namespace(Child);

impl Namespace {
    fn new() -> Namespace {
        let own = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
        let sleeper = Command::new("unshare").args(["--mount", "sleep", "900"]).spawn().expect("it starts");
        let namespace = Namespace(sleeper);
        let pid = namespace.0.id().to_string();
        wait_for("a namespace", || own(&pid).is_some_and(|found| Some(found) != own("self")));
        namespace
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Unmounted here, the file system lives on in another namespace, and its files keep their hints.
fn elsewhere() {
    let disk = ext4();
    let mut bench = Bench::new(&disk);
    let placer = bench.hinted();
    let others = Namespace::new();
    assert!(disk::unmount(&disk.mount_point()), "{} is in use", disk.device());
    let output = placer.wait();
    disk::succeed("mount", &[disk.device(), text(&disk.mount_point())]);
    drop(others);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    let result = result(&output);
    assert_eq!(result["losses"]["hints_not_taken_back"], 2, "{result:#}");
    assert!(bench.hint("log") != 0 && bench.hint("table") != 0);
    let next = bench.start(&["--sink", "hints"]).end();
    assert_eq!(next["statistics"]["hints_taken_back"], 2, "{next:#}");
    assert_eq!(["log", "table", "own"].map(|file| bench.hint(file)), [0, 0, 5]);
}

/// Where hints of programs give way, one that the program set after the placer's is its own still, and is given back.
fn set_later() {
    let disk = ext4();
    let mut bench = Bench::new(&disk);
    let overriding = ["--sink", "hints", "--override-hints", "--save-every", "100ms"];
    let placer = bench.start(&overriding);
    bench.write();
    wait_for("another hint than the program's", || ![0, 5].contains(&bench.hint("own")));
    wait_for("all lifetimes", || bench.learned() == 3);
    placer.signal("KILL");
    placer.wait();
    set_hint(&disk.mount_point().join("own"), NONE);
    let next = bench.start(&overriding);
    wait_for("another hint than the program's", || ![0, NONE].contains(&bench.hint("own")));
    bench.stop();
    let result = next.end();
    assert_eq!(["log", "table", "own"].map(|file| bench.hint(file)), [0, 0, NONE], "{result:#}");
}

/// As a program does.
fn set_hint(path: &Path, hint: u64) {
    let file = File::open(path).expect("it is there");
    // SAFETY: F_SET_RW_HINT reads one u64, which lives until it returns.
    assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), 1036, &raw const hint) }, 0);
}

/// Runs the program, and empties the disk.
fn write(bench: &Bench<'_>, arguments: &[&str]) {
    let directory = bench.disk.mount_point();
    let status = Command::new(&bench.program).args(arguments).current_dir(&directory).status();
    let status = status.expect("it starts");
    assert!(status.success(), "each file was written, after its hint if that was waited for: {status}");
    for entry in fs::read_dir(&directory).expect("it is there").flatten() {
        // Not the directory that every ext4 has.
        _ = fs::remove_file(entry.path());
    }
    disk::succeed("sync", &["-f", text(&directory)]);
}

/// The pages that were written with a hint, which are nobody else's; null: without.
fn pages_with(result: &Value, hint: &Value) -> u64 {
    let rows = result["hints"].as_array().expect("an array");
    let Some(row) = rows.iter().find(|row| row["hint"] == *hint) else { return 0 };
    assert!(hint.is_null() || row["pages_of_others"] == 0, "{result:#}");
    row["pages"].as_u64().expect("a number")
}

fn written_once(disk: &Disk) {
    let mut bench = Bench::new(disk);
    bench.program = programs::compile(bench.dir.path(), "write_once", WRITE_ONCE, &[]);
    let placer = bench.start(&["--sink", "none", "--save-every", "100ms"]);
    write(&bench, &["100"]);
    wait_for("all lifetimes", || bench.learned() == 2);
    let before = placer.end();
    assert_eq!(before["hints"], json!([]), "a dry run gives none: {before:#}");

    let placer = bench.start(&["--sink", "hints"]);
    write(&bench, &["20", "wait"]);
    (0..2).for_each(|_| placer.reload());
    let result = placer.end();
    let hints = ["log_append", "table_flush"].map(|function| number(&context(&result, function)["hint"]));
    assert!(hints[0] < hints[1], "the log dies first: {result:#}");
    let pages = |function: &str| pages_with(&result, &context(&result, function)["hint"]);
    // Whoever calls `sync` writes a file's pages before its hint comes.
    let early = pages_with(&result, &Value::Null);
    assert_eq!(pages("log_append") + pages("table_flush") + early, 24 * PAGES, "{result:#}");
    assert!(early < pages("log_append") + pages("table_flush"), "{result:#}");
}
