//! `place` on a real file system: what it says, what the kernel says, and what is left when it ends, however it ends.

#[path = "../../pcstream-capture/tests/common/mod.rs"]
mod common;
#[path = "../../pcstream-capture/tests/common/disk.rs"]
mod disk;
#[path = "common/placer.rs"]
mod placer;
#[path = "../../pcstream-capture/tests/common/programs.rs"]
mod programs;
#[path = "../../pcstream-watch/tests/common/prometheus.rs"]
mod prometheus;

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use common::wait_for;
use disk::{Disk, text};
use placer::{Bench, context, ext4, files, fill, number, result, said, xfs_disk};
use serde_json::Value;

/// How often a placer looks whether its file system is there.
const LOOK: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let needs = [common::ext4 as common::Need, common::loop_devices, programs::gcc];
    let parsed = [common::ext4 as common::Need, common::loop_devices, programs::gcc, prometheus::missing];
    let xfs = [common::xfs as common::Need, common::loop_devices, programs::gcc];
    common::run(vec![
        common::test("place_gives_files_the_hints_that_it_says", &needs, || hints(&ext4())),
        common::test("place_gives_files_of_xfs_hints", &xfs, || hints(&xfs_disk())),
        common::test("place_says_what_it_would_do_and_does_nothing", &needs, dry_run),
        common::test("place_overrides_hints_of_programs_if_asked", &needs, overrides),
        common::test("place_begins_with_what_it_learned_before", &needs, table),
        common::test("place_reloads_and_tells_systemd", &needs, reload),
        common::test("place_takes_the_best_sink_and_says_why", &needs, falls_back),
        common::test("place_refuses_a_second_instance", &needs, second),
        common::test("place_killed_leaves_a_file_system_as_it_was", &needs, killed),
        common::test("place_says_which_hints_it_could_not_take_back", &needs, leased),
        common::test("place_goes_on_when_its_directory_is_renamed", &needs, renamed),
        common::test("place_ends_when_the_file_system_is_unmounted", &needs, unmounted),
        common::test("place_ends_when_the_device_of_an_ext4_fails", &needs, || failed(&ext4())),
        common::test("place_ends_when_the_device_of_an_xfs_fails", &xfs, || failed(&xfs_disk())),
        common::test("place_goes_on_when_disks_are_full", &needs, full),
        common::test("place_serves_metrics_that_agree_with_its_end", &needs, || served("hints")),
        common::test("place_serves_metrics_of_a_dry_run", &needs, || served("none")),
        common::test("place_serves_what_prometheus_reads", &parsed, parsed_by_prometheus),
        common::test("place_stops_serving_before_its_command_ends", &needs, stops_serving),
        common::test("place_does_not_wait_for_a_pipe_in_the_place_of_its_table", &needs, pipe),
        common::test("place_does_not_wait_for_whoever_reads_its_output", &needs, unread),
        common::test("place_refuses_what_it_cannot_use", &needs, refused),
    ])
}

fn hints(disk: &Disk) {
    let mut bench = Bench::new(disk);
    let placer = bench.start(&["--sink", "hints"]);
    bench.write();
    wait_for("hints of both files", || bench.hint("log") != 0 && bench.hint("table") > bench.hint("log"));
    bench.stop();
    disk::succeed("sync", &["-f", text(&disk.mount_point())]);
    // The first may come while the records of the sync are read.
    (0..2).for_each(|_| placer.reload());
    let kernel = ["log", "table", "own"].map(|file| bench.hint(file));
    let result = placer.end();
    let files = files(&result);
    assert_eq!(kernel[..2], [files["/log"].0, files["/table"].0], "{result:#}");
    assert_eq!((kernel[2], files["/own"].1.as_str()), (5, "of-program"), "{result:#}");
    let (log, table) = (context(&result, "log_append"), context(&result, "table_flush"));
    assert_eq!([number(&log["hint"]), number(&table["hint"])], kernel[..2], "{result:#}");
    assert!(log["lifetime_pages"].as_u64() < table["lifetime_pages"].as_u64(), "{result:#}");
    assert_ne!(log["stream"], table["stream"], "{result:#}");
    assert_eq!(table["files_hinted"], 1, "{result:#}");
    // What was set is taken back, and nothing else.
    assert_eq!(["log", "table", "own"].map(|file| bench.hint(file)), [0, 0, 5]);
    assert!(result["losses"].as_object().expect("losses").values().all(|count| count == 0), "{result:#}");
}

fn dry_run() {
    let disk = ext4();
    let mut bench = Bench::new(&disk);
    let placer = bench.start(&["--sink", "none", "--save-every", "100ms"]);
    bench.write();
    wait_for("all lifetimes", || bench.learned() == 3);
    bench.stop();
    let kernel = ["log", "table", "own"].map(|file| bench.hint(file));
    let result = placer.end();
    assert_eq!(kernel, [0, 0, 5]);
    assert!(result["streams"].as_array().is_some_and(Vec::is_empty), "{result:#}");
    assert_eq!((result["sink"].as_str(), result["scheme"].as_str()), (Some("none"), Some("pcstream")));
    assert!(files(&result)["/log"].0 > 0, "{result:#}");
    assert!(files(&result).values().all(|(_, outcome)| outcome == "not-said"), "{result:#}");
}

fn overrides() {
    let disk = ext4();
    let mut bench = Bench::new(&disk);
    let placer = bench.start(&["--sink", "hints", "--override-hints"]);
    bench.write();
    wait_for("the program's own hint to go", || {
        disk.mount_point().join("own").exists() && ![0, 5].contains(&bench.hint("own"))
    });
    bench.stop();
    assert_eq!(files(&placer.end())["/own"].1, "set");
    assert_eq!(bench.hint("own"), 5, "the program has its hint back");
}

fn table() {
    let disk = ext4();
    let mut bench = Bench::new(&disk);
    let placer = bench.start(&["--sink", "none", "--save-every", "100ms"]);
    bench.write();
    wait_for("all lifetimes", || bench.learned() == 3);
    let before = placer.end();
    bench.stop();
    fs::remove_file(bench.path("stop")).expect("it was there");
    let known = context(&before, "table_flush")["lifetime_pages"].clone();
    assert!(known.is_u64(), "{before:#}");
    let placer = bench.start(&["--sink", "hints"]);
    bench.write();
    wait_for("a hint by the table", || bench.hint("table") != 0);
    bench.stop();
    let after = placer.end();
    let samples = |result: &Value| context(result, "table_flush")["samples"].as_u64().expect("a number");
    assert!(samples(&after) >= samples(&before), "{before:#}\n{after:#}");
    // A table of another scheme is refused, and stays.
    let bytes = fs::read(bench.path("t.table")).expect("it is there");
    let output = bench.place(&["--sink", "none", "--scheme", "pcstream-tree"]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("'pcstream', but 'pcstream-tree' runs"), "{}", said(&output));
    assert_eq!(fs::read(bench.path("t.table")).expect("it is there"), bytes);
}

fn falls_back() {
    let disk = ext4();
    let bench = Bench::new(&disk);
    let result = bench.start(&[]).end();
    assert_eq!(result["sink"], "hints");
    let because = result["sink_because"].as_str().expect("text");
    assert!(because.contains("not kfunc: loop") && because.contains("has no write streams"), "{because}");
}

fn reload() {
    let disk = ext4();
    let bench = Bench::new(&disk);
    let placer = bench.start(&["--sink", "none", "--save-every", "1h"]);
    assert!(!bench.path("t.table").exists());
    placer.reload();
    assert!(bench.path("t.table").exists());
    placer.signal("TERM");
    assert_eq!(placer.notified(), "STOPPING=1");
    let output = placer.wait();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("t.table was saved"), "{}", said(&output));
}

fn second() {
    let disk = ext4();
    let bench = Bench::new(&disk);
    let first = bench.start(&["--sink", "none"]);
    let output = bench.place(&["--sink", "hints", "--duration", "1s"]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let holder = first.child.as_ref().expect("it runs").id().to_string();
    assert!(
        said(&output).contains("has a placer already") && said(&output).contains(&holder),
        "{}",
        said(&output)
    );
    first.end();
    let output = bench.place(&["--sink", "none", "--duration", "100ms"]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

fn killed() {
    let disk = ext4();
    let mut bench = Bench::new(&disk);
    let placer = bench.start(&["--sink", "hints", "--save-every", "100ms"]);
    bench.write();
    wait_for("all lifetimes", || bench.learned() == 3);
    wait_for("hints", || bench.hint("log") != 0 && bench.hint("table") != 0);
    placer.signal("KILL");
    let output = placer.wait();
    assert_eq!(output.status.code(), None);
    // The program's writes go on; a new placer has the device and the table, whole.
    let before = bench.written("log");
    wait_for("more writes", || bench.written("log") != before);
    assert!(bench.hint("log") != 0 && bench.hint("table") != 0, "hints stay with the kernel's inodes");
    // It knows the hints for a placer's, not the program's, and takes them back.
    let next = bench.start(&["--sink", "hints"]);
    let begun = bench.written("table");
    wait_for("another flush", || bench.written("table") != begun);
    bench.stop();
    disk::succeed("sync", &["-f", text(&disk.mount_point())]);
    (0..2).for_each(|_| next.reload());
    let result = next.end();
    let files = files(&result);
    assert_eq!(["/log", "/table", "/own"].map(|file| files[file].1.as_str()), ["set", "set", "of-program"]);
    assert_eq!(["log", "table", "own"].map(|file| bench.hint(file)), [0, 0, 5]);
    disk::succeed("umount", &[text(&disk.mount_point())]);
    let checked = Command::new("e2fsck").args(["-fn", disk.device()]).output().expect("it starts");
    disk::succeed("mount", &[disk.device(), text(&disk.mount_point())]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}

/// A file with a write lease cannot be opened until the lease is let go, as Samba's clients have them.
fn leased() {
    let disk = ext4();
    let mut bench = Bench::new(&disk);
    let placer = bench.hinted();
    disk::succeed("sync", &["-f", text(&disk.mount_point())]);
    (0..2).for_each(|_| placer.reload());
    let lease = lease(&disk.mount_point().join("log"));
    placer.signal("TERM");
    let output = placer.wait();
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert_eq!(result(&output)["losses"]["hints_not_taken_back"], 1, "{}", said(&output));
    assert_eq!(bench.hint("table"), 0);
    // The next one knows of it, and tries until it may.
    let next = bench.start(&["--sink", "hints"]);
    next.signal("TERM");
    assert_eq!(next.notified(), "STOPPING=1");
    drop(lease);
    let output = next.wait();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(result(&output)["statistics"]["hints_taken_back"], 1, "{}", said(&output));
    assert_eq!(bench.hint("log"), 0);
}

/// A write lease, until the file is closed.
fn lease(path: &Path) -> File {
    /// The signal that says so when somebody wants the file: one that is ignored.
    const F_SETSIG: i32 = 10;
    let file = File::options().read(true).write(true).open(path).expect("it is there");
    for (command, argument) in [(F_SETSIG, libc::SIGCHLD), (libc::F_SETLEASE, libc::F_WRLCK)] {
        // SAFETY: the commands take a number.
        assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), command, argument) }, 0);
    }
    file
}

/// Its owner may rename it at any time: placing goes on for the file system.
fn renamed() {
    let disk = ext4();
    let mut bench = Bench::new(&disk);
    bench.on = disk.mount_point().join("of-a-user");
    fs::create_dir(&bench.on).expect("it is made");
    let placer = bench.start(&["--sink", "hints"]);
    let began = Instant::now();
    fs::rename(&bench.on, disk.mount_point().join("renamed")).expect("it is renamed");
    bench.write();
    bench.wait_for_hints();
    wait_for("another look at the file system", || began.elapsed() > 2 * LOOK);
    placer.reload();
    bench.stop();
    placer.end();
    assert_eq!(["log", "table", "own"].map(|file| bench.hint(file)), [0, 0, 5]);
}

fn unmounted() {
    let disk = ext4();
    let mut bench = Bench::new(&disk);
    let placer = bench.start(&["--sink", "hints"]);
    bench.write();
    wait_for("hints", || disk.mount_point().join("log").exists() && bench.hint("log") != 0);
    bench.stop();
    // The placer keeps nothing open there for long.
    assert!(disk::unmount(&disk.mount_point()), "{} is in use", disk.device());
    let output = placer.wait();
    disk::succeed("mount", &[disk.device(), text(&disk.mount_point())]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("was unmounted"), "{}", said(&output));
    assert!(
        fs::metadata(bench.path("t.table")).is_ok_and(|file| file.len() > 56),
        "what was learned is saved"
    );
}

/// The file system is shut down without writing anything more, which is what the kernel does when its device vanishes. The
/// program's writes fail, the placer ends by itself, keeps what it learned, and leaves nothing in `/run/pcstream`.
fn failed(disk: &Disk) {
    let mut bench = Bench::new(disk);
    let placer = bench.start(&["--sink", "hints", "--save-every", "100ms"]);
    bench.write();
    wait_for("hints", || disk.mount_point().join("log").exists() && bench.hint("log") != 0);
    wait_for("all lifetimes", || bench.learned() == 3);
    shut_down(disk);
    for mut child in bench.children.drain(..) {
        assert!(!child.wait().expect("it ends").success(), "its writes fail");
    }
    let shown = says_that_it_is_shut_down(disk);
    if !shown {
        println!(
            "    this kernel does not show that the file system is shut down: the placer goes on until it is stopped"
        );
        placer.signal("TERM");
    }
    let output = placer.wait();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let result = result(&output);
    assert!(
        context(&result, "log_append")["lifetime_pages"].is_u64(),
        "what was learned is reported: {result:#}"
    );
    assert_eq!(bench.learned(), 3, "and saved");
    let device = disk.device().trim_start_matches("/dev/");
    let why =
        said(&output).contains("ended: ") && said(&output).contains(&format!("{device} failed or is gone"));
    assert_eq!(why, shown, "{}", said(&output));
    let left: Vec<_> =
        fs::read_dir("/run/pcstream").expect("it is there").flatten().map(|e| e.file_name()).collect();
    let device = fs::metadata(disk.device()).expect("it is there").rdev();
    let own = format!("place-{}-{}.", rustix::fs::major(device), rustix::fs::minor(device));
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with(&own)), "{left:?}");
}

/// Ends all writes to a file system at once, also of its journal.
fn shut_down(disk: &Disk) {
    /// `FS_IOC_SHUTDOWN`.
    const SHUTDOWN: libc::Ioctl = 0x8004_587d_u32 as libc::Ioctl;
    // Its flag not to write the journal.
    let no_log = 2u32;
    let directory = File::open(disk.mount_point()).expect("it is mounted");
    // SAFETY: the request reads one u32, which lives until it returns.
    assert_eq!(unsafe { libc::ioctl(directory.as_raw_fd(), SHUTDOWN, &raw const no_log) }, 0);
}

/// XFS answers nothing any more; ext4 shows it in its options from Linux 6.15 on.
fn says_that_it_is_shut_down(disk: &Disk) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").expect("it can be read");
    let point = disk.mount_point();
    let line = mounts.lines().find(|line| line.contains(text(&point))).expect("it is mounted");
    line.contains(" xfs ") || line.split([' ', ',']).any(|option| option == "shutdown")
}

/// Neither the disk of the table nor the one that is placed on has room: writes fail as without a placer, the table stays as it
/// was, and what failed is counted.
fn full() {
    let (disk, small) = (ext4(), Disk::ext4(64));
    let mut bench = Bench::new(&disk);
    let table = small.mount_point().join("t.table");
    bench.table = table.clone();
    let placer = bench.start(&["--sink", "hints", "--save-every", "100ms"]);
    bench.write();
    wait_for("all lifetimes", || bench.learned() == 3);
    let rest = File::create(small.mount_point().join("rest")).expect("it is made");
    let version = || {
        fs::metadata(&table).map(|file| (file.ino(), file.mtime(), file.mtime_nsec())).expect("it is there")
    };
    // A save that was under way leaves the old table's block free, so that all later ones fit.
    loop {
        let error = fill(&rest).expect_err("it is full");
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
        let before = version();
        placer.reload();
        if version() == before {
            break;
        }
    }
    let whole = fs::read(&table).expect("it is there");
    let rest = File::create(disk.mount_point().join("rest")).expect("it is made");
    let error = fill(&rest).expect_err("it is full");
    assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    // Blocks that are there can be written still.
    let before = bench.written("table");
    wait_for("another flush", || bench.written("table") != before);
    bench.stop();
    placer.signal("TERM");
    let output = placer.wait();
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(said(&output).contains("t.table: cannot") && said(&output).contains("placing goes on"));
    let losses = result(&output)["losses"].clone();
    assert!(losses["table_saves_failed"].as_u64().is_some_and(|count| count > 0), "{losses:#}");
    assert_eq!(fs::read(&table).expect("it is there"), whole);
}

/// What the server at this address says.
fn scraped(address: &str) -> String {
    let mut connection = TcpStream::connect(address).expect("it listens");
    write!(connection, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    connection.read_to_string(&mut answer).expect("it answers");
    answer.split_once("\r\n\r\n").expect("head and body").1.to_owned()
}

/// The value of the series with this name and these parts of labels.
fn value(text: &str, name: &str, labels: &[&str]) -> Option<u64> {
    let of = |line: &&str| line.starts_with(name) && labels.iter().all(|label| line.contains(label));
    text.lines().find(of)?.rsplit_once(' ')?.1.parse().ok()
}

/// Scraped when all that the placer has learned is in the metrics: two looks later.
fn settled(address: &str) -> String {
    let watched = |text: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix("pcstream_watched_seconds_total "));
        line.and_then(|seconds| seconds.parse::<f64>().ok()).expect("a time")
    };
    let mut last = watched(&scraped(address));
    for _ in 0..2 {
        let before = last;
        wait_for("another look", || {
            last = watched(&scraped(address));
            last > before
        });
    }
    scraped(address)
}

/// Metrics while a program writes, and when it has: they say what the placer says at its end.
fn served(sink: &str) {
    let disk = ext4();
    let mut bench = Bench::new(&disk);
    let mut placer = bench.start(&["--sink", sink, "--metrics", "0"]);
    let address = placer.metrics();
    bench.write();
    let log = ["program=\"two_paths\"", "log_append"];
    let written = |text: &str| value(text, "pcstream_context_written_bytes_total{", &log);
    let mut first = 0;
    wait_for("the program", || {
        first = written(&scraped(&address)).unwrap_or(0);
        first > 0
    });
    wait_for("more of it", || written(&scraped(&address)) > Some(first));
    wait_for("a stream", || value(&scraped(&address), "pcstream_context_stream{", &log) > Some(0));
    bench.stop();
    disk::succeed("sync", &["-f", text(&disk.mount_point())]);
    (0..2).for_each(|_| placer.reload());
    let scraped = settled(&address);
    let info = scraped.lines().find(|line| line.starts_with("pcstream_info{")).expect("what is placed");
    assert!(info.contains(&format!("fs=\"ext4\",sink=\"{sink}\"")), "{info}");
    let result = placer.end();
    assert!(TcpStream::connect(&address).is_err(), "nobody listens any more");
    let contexts = result["contexts"].as_array().expect("a list");
    let known = contexts.iter().filter(|context| context["lifetime_pages"].is_u64()).count() as u64;
    let unhinted = result["hints"][0]["pages"].as_u64().map(|pages| pages * 4096);
    for (name, said) in [
        ("pcstream_contexts", Some(contexts.len() as u64)),
        ("pcstream_place_contexts_known", Some(known)),
        ("pcstream_place_clusterings_total", result["clusterings"].as_u64()),
        (
            "pcstream_lost_total{cause=\"events_not_learned\"}",
            result["losses"]["events_not_learned"].as_u64(),
        ),
        ("pcstream_place_hints_total{outcome=\"set\"}", result["statistics"]["hints_set"].as_u64()),
        (
            "pcstream_place_hints_total{outcome=\"of_programs\"}",
            result["statistics"]["hints_of_programs"].as_u64(),
        ),
        ("pcstream_place_hints_total{outcome=\"refused\"}", result["losses"]["hints_refused"].as_u64()),
        ("pcstream_place_hinted_bytes_total{hint=\"none\"}", unhinted),
    ] {
        assert_eq!(value(&scraped, name, &[]), said, "{name}\n{scraped}\n{result:#}");
    }
    assert_eq!(
        value(&scraped, "pcstream_place_hints_total{outcome=\"set\"}", &[]).is_some(),
        sink == "hints"
    );
    for function in ["log_append", "table_flush"] {
        let said = context(&result, function);
        let signature = said["signature"].as_str().expect("text");
        let series = |name| value(&scraped, name, &[signature]);
        let bytes = said["pages"].as_u64().map(|pages| pages * 4096);
        assert_eq!(series("pcstream_context_written_bytes_total{"), bytes, "{scraped}\n{result:#}");
        let lifetime = said["lifetime_pages"].as_u64().map(|pages| pages * 4096);
        assert_eq!(series("pcstream_context_lifetime_bytes{"), lifetime, "{scraped}\n{result:#}");
    }
    let by_stream = scraped.lines().filter(|line| line.starts_with("pcstream_stream_written_bytes_total{"));
    let bytes: u64 = by_stream.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum();
    let all = result["written_pages"].as_u64().map(|pages| pages * 4096).expect("a number");
    assert!(bytes > 0 && bytes <= all, "the journal may have written since: {bytes} of {all}");
}

fn parsed_by_prometheus() {
    let disk = ext4();
    let mut bench = Bench::new(&disk);
    let mut placer = bench.start(&["--sink", "hints", "--metrics", "0", "--metrics-contexts", "1"]);
    let address = placer.metrics();
    bench.write();
    let hints = |text: &str| value(text, "pcstream_place_hints_total{outcome=\"set\"}", &[]);
    wait_for("hints", || hints(&scraped(&address)) >= Some(2));
    let read = prometheus::read(&settled(&address)).expect("it is OpenMetrics");
    assert_eq!(
        read.matches("pcstream_context_written_bytes_total {").count(),
        2,
        "one, and the others: {read}"
    );
    assert!(read.contains("pcstream_place_hints_total {'outcome': 'set'}"), "{read}");
    bench.stop();
    placer.end();
}

/// The server is gone at once, even if the capture goes on, and a peer that says nothing delays nobody.
fn stops_serving() {
    let disk = ext4();
    let bench = Bench::new(&disk);
    let script = format!("trap '' TERM; until test -e {}; do sleep 0.05; done", text(&bench.path("stop")));
    let mut placer = bench.start(&["--sink", "none", "--metrics", "0", "--", "sh", "-c", &script]);
    let address = placer.metrics();
    let silent = TcpStream::connect(&address).expect("it listens");
    let asked = Instant::now();
    placer.signal("TERM");
    wait_for("the server's end", || TcpStream::connect(&address).is_err());
    println!("    {:.0} ms after SIGTERM", asked.elapsed().as_secs_f64() * 1e3);
    assert!(
        placer.child.as_mut().expect("it runs").try_wait().expect("a child").is_none(),
        "its command runs"
    );
    fs::write(bench.path("stop"), "").expect("written");
    let output = placer.wait();
    assert_eq!(output.status.code(), Some(143), "{}", said(&output));
    drop(silent);
}

/// Somebody who may write there puts a pipe into the table's place: opening that would never return.
fn pipe() {
    let disk = ext4();
    let bench = Bench::new(&disk);
    let placer = bench.start(&["--sink", "none", "--save-every", "1h"]);
    disk::succeed("mkfifo", &[text(&bench.table)]);
    placer.reload();
    placer.signal("TERM");
    let output = placer.wait();
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert_eq!(result(&output)["losses"]["table_saves_failed"], 2, "{}", said(&output));
    assert!(said(&output).contains("t.table is not a regular file"), "{}", said(&output));
    let output = bench.place(&["--sink", "none"]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
}

fn unread() {
    const CAPACITY: usize = 65536;
    let disk = ext4();
    let bench = Bench::new(&disk);
    let pipe = bench.path("pipe");
    disk::succeed("mkfifo", &[text(&pipe)]);
    // Opened for both, so that neither side waits; nobody reads.
    let mut held = File::options().read(true).write(true).open(&pipe).expect("a pipe");
    held.write_all(&[0; CAPACITY]).expect("there is room");
    let mut command = bench.place(&["--sink", "none", "--", "true"]);
    let mut child = command.stdout(held.try_clone().expect("a handle")).spawn().expect("it starts");
    let id = child.id();
    let waits = || {
        let state = fs::read_to_string(format!("/proc/{id}/task/{id}/wchan")).unwrap_or_default();
        state.contains("pipe_write")
    };
    wait_for("a full pipe", || waits() || child.try_wait().expect("a child").is_some());
    disk::succeed("kill", &["-s", "TERM", &id.to_string()]);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(said(&output).contains("nobody reads the output"), "{}", said(&output));
}

fn refused() {
    let disk = ext4();
    let bench = Bench::new(&disk);
    fs::write(bench.path("t.table"), "something else").expect("written");
    for (arguments, code, parts) in [
        (
            &["--sink", "nowhere"][..],
            2,
            ["'nowhere' for '--sink <SINK>'", "kfunc, fdp-server, program, hints, none"],
        ),
        (&["--scheme", "autostream-mq"], 2, ["--scheme autostream-mq", "program context alone"]),
        (&["--scheme", "oracle"], 2, ["--scheme oracle", "program context alone"]),
        (&["--scheme", "pcstram"], 2, ["pcstram", "pcstream"]),
        // Loop devices have no streams, whatever modules there are.
        (&["--sink", "kfunc"], 2, ["--sink kfunc", "has no write streams; it takes an NVMe drive with FDP"]),
        (&["--sink", "fdp-server"], 2, ["--sink fdp-server", "is no device of pcstream serve"]),
        (&["--sink", "none"], 2, ["t.table", "no saved table"]),
        (&["--streams", "1"], 2, ["--streams", "from 2 to 16"]),
        (&["--pid", "1", "--unit", "x"], 2, ["--pid", "--unit"]),
        (&["--metrics", "nowhere"], 2, ["--metrics", "127.0.0.1:9469"]),
        (&["--metrics-contexts", "5"], 2, ["--metrics", "required"]),
    ] {
        let output = bench.place(arguments).output().expect("it starts");
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", said(&output));
        parts.iter().for_each(|part| assert!(said(&output).contains(part), "{part}: {}", said(&output)));
    }
    assert_eq!(fs::read_to_string(bench.path("t.table")).expect("it is there"), "something else");
    fs::remove_file(bench.path("t.table")).expect("it is there");
    let output = bench.place(&["--sink", "none", "--", "/no/such/command"]).output().expect("it starts");
    assert_ne!(output.status.code(), Some(0), "{}", said(&output));
    assert!(!bench.path("t.table").exists(), "a start that fails makes no table: {}", said(&output));
}
