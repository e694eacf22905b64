//! Commands that may start few processes and threads: each says so, ends with its usual exit code, and leaves nothing behind.

#[path = "../../pcstream-capture/tests/common/mod.rs"]
mod common;
#[path = "../../pcstream-capture/tests/common/disk.rs"]
mod disk;
#[path = "common/group.rs"]
mod group;
#[path = "common/program.rs"]
mod program;

use std::path::Path;
use std::process::{Command, ExitCode};

use disk::{Disk, text as path_text};
use group::Group;
use program::{expect, left, run_to_end, text};
use tempfile::TempDir;

/// Enough for any of the commands below.
const MOST: usize = 40;

fn main() -> ExitCode {
    let user = [common::ext4 as common::Need];
    let captures = [common::ext4 as common::Need, common::loop_devices, pids];
    let live = [common::ext4 as common::Need, common::loop_devices, common::fuse, pids];
    common::run(vec![
        common::test("run_simulates_only_if_threads_can_be_started", &user, simulate),
        common::test("record_of_several_devices_only_if_threads_can_be_started", &captures, record),
        common::test("top_only_if_threads_can_be_started", &captures, top),
        common::test("place_only_if_threads_can_be_started", &captures, place),
        common::test("run_live_only_if_threads_can_be_started", &live, run_live),
    ])
}

fn pids() -> Option<String> {
    match Group::of_pids("need") {
        Some(_) => None,
        None => Some("a controller of control groups that counts processes (pids)".into()),
    }
}

/// As a user who has no process but this, and may have no thread more.
fn simulate() {
    let dir = TempDir::new().expect("a directory");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(dir.path(), open).expect("the directory can be opened to all");
    let copy = dir.path().join("pcstream");
    std::fs::copy(env!("CARGO_BIN_EXE_pcstream"), &copy).expect("the program can be copied");
    let user = format!("--reuid={}", 100_000_000 + std::process::id());
    let as_user = |limit: &str, arguments: &[&str]| {
        let mut command = Command::new("prlimit");
        command.args([limit, "setpriv", &user, "--clear-groups", "--bounding-set=-all"]);
        command.arg(&copy).args(arguments).current_dir(dir.path()).env("HOME", "/nonexistent");
        command
    };
    let (_, made) = run_to_end(&mut as_user(
        "--nproc=1000",
        &["generate", "uniform", "--pages", "10k", "--writes", "10k", "-o", "t"],
    ));
    assert!(made.status.success(), "{}", text(&made.stderr));
    expect(&mut as_user("--nproc=1", &["simulate", "t"]), 1, &["no thread can be started", "ulimit -u"]);
    // Whichever it is that cannot be started.
    for limit in 2..8 {
        let out = run_to_end(&mut as_user(&format!("--nproc={limit}"), &["simulate", "t"])).1;
        assert!(matches!(out.status.code(), Some(0 | 1)), "{limit}: {}", text(&out.stderr));
    }
}

/// Runs this with 1, 2, 3, … processes and threads until it succeeds.
fn with_few(arguments: &[&str]) {
    let group = Group::of_pids("few").expect("it was made before");
    let dir = TempDir::new().expect("a directory");
    let mut refused = 0;
    for limit in 1..=MOST {
        group.set("pids.max", &limit.to_string());
        let mut command = Command::new("sh");
        let enter = format!("echo $$ >{}; exec \"$@\"", path_text(&group.members()));
        command.args(["-c", &enter, "sh", env!("CARGO_BIN_EXE_pcstream")]).args(arguments);
        let (pid, out) = run_to_end(command.current_dir(dir.path()));
        let said = text(&out.stderr);
        assert!(left(pid).is_empty(), "{limit}: {:?} {said}", left(pid));
        match out.status.code() {
            Some(0) => {
                assert!(refused > 0, "{limit} is enough, so nothing was tried");
                // No process is left in it.
                return group.remove();
            }
            Some(1) => {
                assert!(
                    said.contains("error: ") && said.contains("Resource temporarily unavailable"),
                    "{limit}: {said}"
                );
                refused += 1;
            }
            // Files could not be looked up, for instance.
            code => assert!(code == Some(3) && said.contains("pcstream: "), "{limit}: {code:?} {said}"),
        }
    }
    panic!("{MOST} are too few for {arguments:?}");
}

fn mounted(disk: &Disk) -> String {
    path_text(Path::new(&disk.mount_point())).to_owned()
}

fn record() {
    let disks = [Disk::ext4(64), Disk::ext4(64)];
    let [one, other] = [mounted(&disks[0]), mounted(&disks[1])];
    with_few(&["record", "--on", &one, "--on", &other, "-o", "t", "--force", "--duration", "100ms"]);
}

fn top() {
    let disk = Disk::ext4(64);
    with_few(&["top", "--on", &mounted(&disk), "--once", "--duration", "100ms"]);
}

fn place() {
    let disk = Disk::ext4(64);
    with_few(&["place", "--on", &mounted(&disk), "--sink", "none", "--duration", "100ms"]);
}

/// The device is a process of its own, whose threads are counted with the others.
fn run_live() {
    let size = ["--size", "256M", "--streams", "4"];
    with_few(&[&["run", "--live", "--scheme", "pcstream"], &size[..], &["--", "true"]].concat());
}
