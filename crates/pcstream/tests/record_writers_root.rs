//! `record` credits each page to the function that wrote it, where that is hard to see: in folios of several pages, below arrays of
//! variable length, in requests of io_uring, after a truncation, where `fsync` puts pages off, and where the kernel writes for
//! a loop device.

#[path = "../../pcstream-capture/tests/common/mod.rs"]
mod common;
#[path = "../../pcstream-capture/tests/common/disk.rs"]
mod disk;
#[path = "../../pcstream-capture/tests/common/programs.rs"]
mod programs;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};

use disk::{Disk, succeed, text};
use tempfile::TempDir;

const SOURCE: &str = include_str!("../../pcstream-capture/tests/native/known_writers.c");

fn main() -> ExitCode {
    let needs = [common::loop_devices as common::Need, programs::gcc, programs::liburing];
    let with = |more: common::Need| [&needs[..], &[more]].concat();
    let (ext4, xfs) = (with(common::ext4), with(common::xfs));
    let trial = |name: &str, needs: &[common::Need], make: fn() -> Disk, way: &'static str| {
        common::test(name, needs, move || credits(&make(), way))
    };
    common::run(vec![
        trial("record_ext4_tells_pages_of_a_folio_apart", &ext4, ext4_disk, "folios"),
        trial("record_xfs_tells_pages_of_a_folio_apart", &xfs, xfs_disk, "folios"),
        trial("record_tells_callers_of_a_variable_frame_apart", &ext4, ext4_disk, "arrays"),
        trial("record_ext4_credits_requests_to_their_submitter", &ext4, ext4_disk, "requests"),
        trial("record_xfs_credits_requests_to_their_submitter", &xfs, xfs_disk, "requests"),
        trial("record_ext4_keeps_the_writer_of_a_folio_that_is_cut", &ext4, ext4_disk, "cuts"),
        trial("record_xfs_keeps_the_writer_of_a_folio_that_is_cut", &xfs, xfs_disk, "cuts"),
        trial("record_ext4_keeps_the_writer_of_a_page_that_fsync_puts_off", &ext4, small_groups, "again"),
        common::test("record_tells_plugins_of_siblings_apart", &ext4, || plugins("siblings")),
        common::test("record_tells_plugins_of_one_process_apart", &ext4, || plugins("in_turn")),
        common::test("record_tells_plugins_apart_before_it_answers", &ext4, || plugins("unanswered")),
        common::test("record_tells_programs_of_one_task_apart", &ext4, programs_in_turn),
        common::test("record_credits_nobody_with_writes_of_a_loop_device", &ext4, loop_device),
    ])
}

fn ext4_disk() -> Disk {
    Disk::ext4(512)
}

/// Each group has a bitmap of its own, which takes room in the small journal.
fn small_groups() -> Disk {
    let make = ["mkfs.ext4", "-q", "-F", "-b", "4096", "-J", "size=4", "-N", "8192", "-g", "256"];
    Disk::made(256, &make, "discard")
}

fn xfs_disk() -> Disk {
    Disk::made(512, &["mkfs.xfs", "-q"], "discard")
}

fn pcstream(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pcstream")).args(arguments).output().expect("pcstream can be started")
}

/// Pages of file data by the function of the test's program that wrote them; `nobody`: no context.
fn recorded(traces: &TempDir, dir: &Path, command: &[&str]) -> (BTreeMap<String, u64>, String) {
    let trace = traces.path().join("t.pctrace");
    let arguments = [&["record", "--on", text(dir), "-o", text(&trace), "--"], command].concat();
    let out = pcstream(&arguments);
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    let listed = pcstream(&["contexts", text(&trace), "--json", "-", "--top", "100"]);
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).expect("it is JSON");
    let mut pages = BTreeMap::new();
    for context in listed["contexts"].as_array().expect("a list") {
        let functions =
            context["frames"].as_array().into_iter().flatten().filter_map(|f| f["symbol"].as_str());
        let of_ours = ["insert", "delete", "make_file", "cut_file"];
        let function = functions.clone().find(|name| name.starts_with("put_") || of_ours.contains(name));
        *pages.entry(function.unwrap_or("nobody").to_owned()).or_default() +=
            context["kinds"]["data"].as_u64().unwrap_or(0);
    }
    pages.retain(|_, pages| *pages > 0);
    (pages, String::from_utf8_lossy(&out.stdout).into_owned())
}

fn compiled(traces: &TempDir) -> PathBuf {
    programs::compile(traces.path(), "known_writers", SOURCE, &["-luring"])
}

/// Each function has its own pages and no other's. Where the kernel's functions cannot be watched, a page that it moves in memory has
/// no context: a few may be nobody's, and the trace counts them.
#[track_caller]
fn assert_credited(traces: &TempDir, mut pages: BTreeMap<String, u64>, truth: &BTreeMap<String, u64>) {
    let moved = pages.remove("nobody").unwrap_or(0);
    let meta = fs::read(traces.path().join("t.pctrace/meta.json")).expect("it was recorded");
    let meta: serde_json::Value = serde_json::from_slice(&meta).expect("it is JSON");
    let counted = meta["settings"]["statistics"]["pages_without_context"].as_u64().expect("a number");
    assert!(moved <= counted.min(8), "{moved} pages are nobody's, {counted} are counted");
    let total = |of: &BTreeMap<String, u64>| of.values().sum::<u64>();
    assert_eq!(total(&pages) + moved, total(truth), "{pages:?}, expected {truth:?}");
    let is_own = |(function, &found): (&String, &u64)| truth.get(function).is_some_and(|&own| found <= own);
    assert!(pages.iter().all(is_own), "{pages:?}, expected {truth:?}");
}

/// What the trace says is what the program says that it did.
fn credits(disk: &Disk, way: &str) {
    let traces = TempDir::new().expect("a directory");
    let program = compiled(&traces);
    let dir = disk.mount_point();
    let (pages, said) = recorded(&traces, &dir, &[text(&program), way, text(&dir)]);
    let truth = said.lines().filter_map(|line| line.split_once(' '));
    let truth = truth.map(|(function, n)| (function.to_owned(), n.parse().expect("a number"))).collect();
    assert_credited(&traces, pages, &truth);
}

/// Their code takes as many pages, and the kernel's memory for one address space may be the next one's.
fn plugins(way: &str) {
    const SOURCE: &str = include_str!("../../pcstream-capture/tests/native/plugins.c");
    let (disk, traces) = (ext4_disk(), TempDir::new().expect("a directory"));
    let [alpha, beta] = ["put_alpha", "put_beta"].map(|name| {
        let flags = [&format!("-DPLUGIN={name}"), "-shared", "-fPIC"];
        programs::compile(traces.path(), &format!("{name}.so"), SOURCE, &flags)
    });
    let program = programs::compile(traces.path(), "plugins", SOURCE, &["-ldl"]);
    let dir = disk.mount_point();
    let command = [text(&program), way, text(&dir), text(&alpha), text(&beta)];
    let (pages, said) = recorded(&traces, &dir, &command);
    let truth = said.lines().filter_map(|line| line.split_once(' '));
    let truth = truth.map(|(function, n)| (function.to_owned(), n.parse().expect("a number"))).collect();
    assert_credited(&traces, pages, &truth);
}

/// Programs of one task lie at the same addresses, and use the same memory of the kernel in turn.
fn programs_in_turn() {
    const SOURCE: &str = include_str!("../../pcstream-capture/tests/native/programs_in_turn.c");
    let (disk, traces) = (ext4_disk(), TempDir::new().expect("a directory"));
    // Names of one length: they lie on the stack.
    let programs = [("a", "-DPUT=put_alpha"), ("b", "-DPUT=put_beta"), ("r", "-DREST")];
    let [alpha, beta, rest] =
        programs.map(|(name, flag)| programs::compile(traces.path(), name, SOURCE, &[flag]));
    let dir = disk.mount_point();
    let command = [text(&rest), "0040", text(&dir), text(&alpha), text(&beta), text(&rest)];
    let (pages, _) = recorded(&traces, &dir, &command);
    let truth = ["put_alpha", "put_beta"].map(|function| (function.to_owned(), 100));
    assert_credited(&traces, pages, &BTreeMap::from(truth));
}

/// The kernel writes to its file in a thread of its own; who wrote the file before has nothing to do with that, but for pages that
/// were dirty still.
fn loop_device() {
    for (way, put) in [("folios", 4000), ("some", 128)] {
        let (disk, traces) = (ext4_disk(), TempDir::new().expect("a directory"));
        let program = compiled(&traces);
        let dir = disk.mount_point();
        let script = "set -e; $0 $2 $1; device=$(losetup --find --show $1/log); \
            trap 'losetup --detach $device' EXIT; \
            dd if=/dev/zero of=$device bs=64k count=125 oflag=direct conv=notrunc status=none; sync -f $1";
        let (pages, _) = recorded(&traces, &dir, &["sh", "-c", script, text(&program), text(&dir), way]);
        assert_eq!((pages["make_file"], pages["put_record"]), (2048, put), "{way}: {pages:?}");
        // All that dd wrote, less what was dirty and is written once.
        assert!((2000 - 125..=2000).contains(&pages["nobody"]), "{way}: {pages:?}");
        succeed("sync", &["-f", text(&dir)]);
    }
}
