//! `place` as an operator runs it: with another scheme, on a terminal that closes, with a table on a full disk, on the disk
//! that is placed on or behind a link, on one of several mounts, and after a placer that was killed.

#[path = "../../pcstream-capture/tests/common/mod.rs"]
mod common;
#[path = "../../pcstream-capture/tests/common/disk.rs"]
mod disk;
#[path = "common/placer.rs"]
mod placer;
#[path = "../../pcstream-capture/tests/common/programs.rs"]
mod programs;

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt as _, lchown, symlink};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use common::{wait_for, wait_for_child};
use disk::{Disk, succeed, text};
use placer::{Bench, context, ext4, fill, result, said};
use tempfile::TempDir;

fn main() -> ExitCode {
    let needs = [common::ext4 as common::Need, common::loop_devices, programs::gcc];
    common::run(vec![
        common::test("place_ends_with_its_terminal", &needs, terminal),
        common::test("place_writes_a_file_whole_after_a_signal", &needs, slow_file),
        common::test("place_begins_though_the_disk_of_its_table_is_full", &needs, full),
        common::test("top_beside_a_placer_says_whose_streams_it_shows", &needs, top_beside),
        common::test("place_learns_by_pcstream_plus_context_and_goes_on", &needs, plus_context),
        common::test("place_saves_through_a_link", &needs, link),
        common::test("place_makes_no_directory_of_a_table_that_is_named", &needs, nowhere),
        common::test("place_refuses_a_link_of_another_user_in_a_shared_directory", &needs, link_of_another),
        common::test("place_goes_on_while_the_file_system_is_mounted_elsewhere", &needs, mounted_twice),
        common::test("place_lets_go_of_a_table_on_the_file_system", &needs, unmounted_with_table),
        common::test("place_and_doctor_name_hints_that_a_killed_one_left", &needs, left),
        common::test("place_lets_go_of_programs_that_were_removed", &needs, removed_program),
    ])
}

/// A disk that takes nothing, until this is dropped.
struct Frozen<'a>(&'a Disk);

impl Frozen<'_> {
    fn new(disk: &Disk) -> Frozen<'_> {
        succeed("fsfreeze", &["--freeze", text(&disk.mount_point())]);
        Frozen(disk)
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        succeed("fsfreeze", &["--unfreeze", text(&self.0.mount_point())]);
    }
}

/// Whoever reads a pipe has to do that soon after a signal. A file is written whole, however long that takes.
fn slow_file() {
    let (disk, slow) = (ext4(), Disk::ext4(64));
    let bench = Bench::new(&disk);
    let json = slow.mount_point().join("result.json");
    let placer = bench.start(&["--sink", "none", "--json", text(&json), "--", "sh", "-c", "exec sleep 900"]);
    let frozen = Frozen::new(&slow);
    placer.signal("TERM");
    let id = placer.child.as_ref().expect("it runs").id();
    let stat = || fs::read_to_string(format!("/proc/{id}/stat")).expect("it runs");
    // Other waits for a disk are short.
    let mut looks = 0;
    wait_for("a write that waits for the disk", || {
        looks = if stat().contains(") D ") { looks + 1 } else { 0 };
        looks == 25
    });
    // Longer than a pipe is waited for.
    std::thread::sleep(Duration::from_secs(2));
    drop(frozen);
    let output = placer.wait();
    assert_eq!(output.status.code(), Some(143), "{}", said(&output));
    let written = fs::read(&json).expect("it was written");
    let result: serde_json::Value = serde_json::from_slice(&written).expect("it is whole");
    assert_eq!(result["sink"], "none", "{result:#}");
}

/// SIGHUP asks a service for a reload. On a terminal it says that this closed.
fn terminal() {
    let disk = ext4();
    let bench = Bench::new(&disk);
    let log = bench.path("log");
    let command = format!(
        "exec {} place --on {} --table {} --sink none",
        env!("CARGO_BIN_EXE_pcstream"),
        text(&disk.mount_point()),
        text(&bench.table)
    );
    // Below `nohup` it would be asked to go on.
    let mut script = Command::new("env");
    script
        .args(["--default-signal=HUP", "script", "-q", "-e", "-f", "-c", &command])
        .arg(&log)
        .env_remove("NOTIFY_SOCKET");
    script.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut script = script.spawn().expect("script is a part of util-linux");
    let seen = || fs::read_to_string(&log).unwrap_or_default();
    wait_for_child("a placer", &script, || seen().contains("placing writes to"));
    let placer = succeed("pgrep", &["-P", &script.id().to_string()]).trim().to_owned();
    script.kill().and_then(|()| script.wait()).expect("it ran");
    // Whoever has it as a child now may never wait for it.
    let runs = || fs::read(format!("/proc/{placer}/cmdline")).is_ok_and(|line| !line.is_empty());
    let began = Instant::now();
    while runs() && began.elapsed() < common::PATIENCE {
        std::thread::sleep(Duration::from_millis(20));
    }
    let orphan = runs();
    if orphan {
        succeed("kill", &["-s", "TERM", &placer]);
        wait_for("its end", || !runs());
    }
    assert!(!orphan, "it went on without its terminal");
    assert!(!bench.path(".t.table.lock").exists(), "that is a regular end");
}

/// Its table cannot be saved then, which is counted, as where the disk becomes full later.
fn full() {
    let (disk, small) = (ext4(), Disk::ext4(64));
    let mut bench = Bench::new(&disk);
    bench.table = small.mount_point().join("t.table");
    let rest = File::create(small.mount_point().join("rest")).expect("it is made");
    let error = fill(&rest).expect_err("it is full");
    assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    let placer = bench.start(&["--sink", "none"]);
    placer.reload();
    placer.signal("TERM");
    let output = placer.wait();
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert_eq!(result(&output)["losses"]["table_saves_failed"], 2, "{}", said(&output));
    let names = |directory: &Path| {
        let entries = fs::read_dir(directory).expect("it is mounted").flatten();
        entries.map(|entry| entry.file_name()).filter(|name| name != "lost+found").collect::<Vec<_>>()
    };
    assert_eq!(names(&small.mount_point()), ["rest"]);
}

fn top_beside() {
    let disk = ext4();
    let bench = Bench::new(&disk);
    let top = || {
        let mut top = Command::new(env!("CARGO_BIN_EXE_pcstream"));
        top.args(["top", "--once", "--duration", "100ms", "--on"]).arg(disk.mount_point());
        said(&top.output().expect("it starts")).contains("a placer runs for this device")
    };
    assert!(!top());
    let placer = bench.start(&["--sink", "none"]);
    assert!(top());
    placer.signal("TERM");
    assert_eq!(placer.wait().status.code(), Some(0));
    assert!(!top());
}

/// Which streams it gives is for the model's tests; here what is learned comes from real writes, and outlives the run.
fn plus_context() {
    let disk = ext4();
    let mut bench = Bench::new(&disk);
    let arguments = ["--sink", "none", "--save-every", "100ms", "--scheme", "pcstream-plus-context"];
    let run = |bench: &mut Bench<'_>| {
        let placer = bench.start(&arguments);
        bench.write();
        wait_for("all lifetimes", || bench.learned() == 3);
        // The first of these may have begun before; what was written before the second is on the disk.
        for _ in 0..2 {
            let begun = bench.written("table");
            wait_for("another flush", || bench.written("table") != begun);
        }
        bench.stop();
        let result = placer.end();
        fs::remove_file(bench.path("stop")).expect("it was there");
        assert_eq!(result["scheme"], "pcstream-plus-context");
        let about = |function: &str, key: &str| context(&result, function)[key].as_u64().expect("a number");
        assert!(about("log_append", "lifetime_pages") < about("table_flush", "lifetime_pages"), "{result:#}");
        about("table_flush", "samples")
    };
    let before = run(&mut bench);
    assert!(run(&mut bench) > before);
    let output = bench.place(&["--sink", "none"]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("'pcstream-plus-context', but 'pcstream' runs"), "{}", said(&output));
}

fn link() {
    let (disk, other) = (ext4(), ext4());
    let mut bench = Bench::new(&disk);
    let target = bench.path("tables/real.table");
    fs::create_dir(bench.path("tables")).expect("a directory");
    symlink("tables/real.table", &bench.table).expect("linked");
    let first = bench.start(&["--sink", "none"]);
    // Another name of the same table.
    let (mount, link) = (other.mount_point(), bench.table.clone());
    let mut second = Command::new(env!("CARGO_BIN_EXE_pcstream"));
    second
        .args(["place", "--sink", "none", "--duration", "1s", "--on"])
        .arg(mount)
        .arg("--table")
        .arg(&target);
    let output = second.output().expect("it starts");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("in use by another placer"), "{}", said(&output));
    first.reload();
    first.signal("TERM");
    let output = first.wait();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let new = format!("the table {} is new", text(&target));
    assert!(said(&output).contains(&new), "{}", said(&output));
    assert!(target.exists() && link.is_symlink(), "{}", said(&output));
    bench.table = target;
    let output = bench.place(&["--sink", "none", "--", "true"]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(!said(&output).contains("is new"), "{}", said(&output));
}

/// The directory of a mistyped path is not made, nor that where a link leads.
fn nowhere() {
    let disk = ext4();
    let dir = TempDir::new().expect("a directory");
    let (missing, link) = (dir.path().join("x"), dir.path().join("link"));
    symlink(missing.join("t.table"), &link).expect("a link");
    for table in [missing.join("t.table"), link] {
        let mut mistyped = Command::new(env!("CARGO_BIN_EXE_pcstream"));
        mistyped.args(["place", "--sink", "none", "--table"]).arg(&table).arg("--on");
        let output = mistyped.arg(disk.mount_point()).output().expect("it starts");
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        let expected = format!("there is no directory {}", missing.display());
        assert!(said(&output).contains(&expected) && !missing.exists(), "{}", said(&output));
    }
}

/// Root's file would be written where the other user wants it.
fn link_of_another() {
    const NOBODY: u32 = 65534;
    let disk = ext4();
    let bench = Bench::new(&disk);
    let target = bench.path("of-root");
    symlink(&target, &bench.table).and_then(|()| lchown(&bench.table, Some(NOBODY), None)).expect("linked");
    fs::set_permissions(bench.dir.path(), Permissions::from_mode(0o1777)).expect("set");
    let output = bench.place(&["--sink", "none", "--", "true"]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("t.table is a symbolic link of user 65534"), "{}", said(&output));
    assert!(!target.exists() && bench.table.is_symlink());
}

/// A bind mount is unmounted, and the file system is used on where it was mounted first.
fn mounted_twice() {
    /// How often a placer looks whether its file system is there.
    const LOOK: Duration = Duration::from_secs(1);
    let disk = ext4();
    let mut bench = Bench::new(&disk);
    bench.on = bench.path("again");
    fs::create_dir(&bench.on).expect("it is made");
    succeed("mount", &["--bind", text(&disk.mount_point()), text(&bench.on)]);
    let placer = bench.start(&["--sink", "hints"]);
    succeed("umount", &[text(&bench.on)]);
    let began = Instant::now();
    wait_for("another look at the file system", || began.elapsed() > 2 * LOOK);
    placer.reload();
    bench.write();
    bench.wait_for_hints();
    bench.stop();
    let result = placer.end();
    assert_eq!(["log", "table", "own"].map(|file| bench.hint(file)), [0, 0, 5], "{result:#}");
}

/// Only a placer of hints takes hints back, so all others say how to.
fn left() {
    let disk = ext4();
    let mut bench = Bench::new(&disk);
    let mount = disk.mount_point();
    let remedy = format!("pcstream place --on {} --sink hints -- true", text(&mount));
    let doctor = |argument: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pcstream"));
        let output = command.args(["doctor", argument]).output().expect("it starts");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).contains(&remedy)
    };
    let killed = bench.start(&["--sink", "hints"]);
    bench.write();
    wait_for("hints", || bench.hint("log") != 0 && bench.hint("table") != 0);
    bench.stop();
    assert!(!doctor(text(&mount)), "its placer runs");
    killed.signal("KILL");
    killed.wait();
    let output = bench.place(&["--sink", "none", "--", "true"]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains(&remedy), "{}", said(&output));
    assert_ne!(bench.hint("log"), 0);
    assert!(doctor(text(&mount)), "it says the remedy");
    assert!(doctor("--clean"), "it says the remedy");
    // As the remedy says, but without the search path.
    let mut command = Command::new(env!("CARGO_BIN_EXE_pcstream"));
    let output = command.args(remedy.split(' ').skip(1)).output().expect("it starts");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(["log", "table", "own"].map(|file| bench.hint(file)), [0, 0, 5]);
    assert!(!doctor(text(&mount)), "nothing is left");
}

/// A table on the file system that is placed on keeps nobody from unmounting it. What was saved stays there, and nothing is
/// written to the directory that it was mounted on. Another placer does not get the table, whatever it calls it.
fn unmounted_with_table() {
    let (disk, other) = (ext4(), ext4());
    let mut bench = Bench::new(&disk);
    let mounted = disk.mount_point();
    bench.table = mounted.join("t.table");
    let placer = bench.start(&["--sink", "hints", "--save-every", "100ms"]);
    bench.write();
    wait_for("hints", || bench.hint("log") != 0);
    wait_for("all lifetimes", || bench.learned() == 3);
    symlink(&mounted, bench.path("link")).expect("linked");
    let mut second = Command::new(env!("CARGO_BIN_EXE_pcstream"));
    second.args(["place", "--on", text(&other.mount_point()), "--duration", "1s", "--table"]);
    let refused = second.arg(bench.path("link/t.table")).output().expect("it starts");
    assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
    assert!(said(&refused).contains("in use by another placer"), "{}", said(&refused));
    bench.stop();
    // A save that is under way keeps it for an instant.
    let unmounted = || Command::new("umount").arg(&mounted).status().is_ok_and(|status| status.success());
    wait_for("the table's file system to be unmounted", unmounted);
    let output = placer.wait();
    let below = fs::read_dir(&mounted).expect("it is there").count();
    succeed("mount", &[disk.device(), text(&mounted)]);
    assert_eq!(below, 0, "{}", said(&output));
    assert_eq!(bench.learned(), 3, "{}", said(&output));
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(said(&output).contains("t.table: its file system was unmounted"), "{}", said(&output));
    assert!(said(&output).contains("table_saves_failed"), "{}", said(&output));
}

/// A service outlives the programs that it saw. One that was removed keeps no room on the disk once it has ended, and its functions
/// have names all the same.
fn removed_program() {
    let disk = ext4();
    let mut bench = Bench::new(&disk);
    let placer = bench.start(&["--sink", "none"]);
    let descriptors = format!("/proc/{}/fd", placer.child.as_ref().expect("it runs").id());
    let program = bench.program.clone();
    let is_open = || {
        let descriptors = fs::read_dir(&descriptors).expect("it runs");
        let links = descriptors.filter_map(|entry| fs::read_link(entry.expect("read").path()).ok());
        links.filter_map(|link| link.to_str().map(str::to_owned)).any(|link| link.starts_with(text(&program)))
    };
    bench.write();
    wait_for("the program", is_open);
    fs::remove_file(&program).expect("it is there");
    bench.stop();
    wait_for("the end of the program", || !is_open());
    let result = placer.end();
    assert!(placer::context(&result, "log_append")["pages"].as_u64() > Some(0), "{result:#}");
    let lost = result["losses"].as_object().expect("losses").values().filter(|lost| **lost != 0).count();
    assert_eq!(lost, 0, "{result:#}");
}
