//! Results that would go to another user: into a pipe or file that this user put into a directory that all may write to.

#[path = "../../pcstream-capture/tests/common/mod.rs"]
mod common;
#[path = "../../pcstream-capture/tests/common/disk.rs"]
mod disk;

use std::fs::{self, Permissions};
use std::io::Read as _;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _, PermissionsExt as _, chown};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use disk::{Disk, text};
use tempfile::TempDir;

/// Another user.
const OTHER: u32 = 65534;

fn main() -> ExitCode {
    let needs = [common::ext4 as common::Need, common::loop_devices];
    common::run(vec![
        common::test("outputs_into_pipes_of_others_are_refused", &needs, pipes),
        common::test("outputs_into_own_pipes_are_written", &needs, own_pipe),
        common::test("outputs_a_sweep_of_others_is_not_continued", &[], journal),
    ])
}

fn shared() -> TempDir {
    let dir = TempDir::new().expect("a directory");
    fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).expect("it is ours");
    dir
}

fn pipe(dir: &TempDir, owner: u32) -> String {
    let path = dir.path().join(format!("pipe of {owner}"));
    disk::succeed("mkfifo", &[text(&path)]);
    fs::set_permissions(&path, Permissions::from_mode(0o666)).expect("it is there");
    chown(&path, Some(owner), None).expect("it is there");
    path.display().to_string()
}

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pcstream"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn generate(trace: &Path) {
    disk::succeed(
        env!("CARGO_BIN_EXE_pcstream"),
        &["generate", "uniform", "--pages", "1000", "--writes", "1000", "-o", text(trace)],
    );
}

/// It neither waits for a reader nor writes a byte to one.
fn pipes() {
    let (disk, shared) = (Disk::ext4(64), shared());
    let (trace, json) = (shared.path().join("t.pctrace"), pipe(&shared, OTHER));
    generate(&trace);
    let (trace, on) = (text(&trace), disk.mount_point());
    let open = |write| fs::File::options().read(true).write(write).custom_flags(libc::O_NONBLOCK).open(&json);
    for reader in [None, Some(open(false).expect("a pipe"))] {
        for command in [
            &["simulate", trace, "--json", &json][..],
            &["contexts", trace, "--json", &json],
            &["contexts", trace, "--folded", &json],
            &["top", "--on", text(&on), "--duration", "1s", "--json", &json],
            &["place", "--sink", "none", "--on", text(&on), "--duration", "1s", "--json", &json],
        ] {
            let out = program(command).output().expect("it starts");
            let said = String::from_utf8_lossy(&out.stderr);
            assert_eq!(out.status.code(), Some(1), "{command:?}: {said}");
            assert!(said.contains("it is of user 65534 in a directory"), "{command:?}: {said}");
        }
        let read = reader.map(|mut pipe| pipe.read(&mut [0; 1]).expect("nobody has it open for writing"));
        assert_eq!(read.unwrap_or(0), 0, "nothing was written");
    }
    let file = shared.path().join("file");
    fs::write(&file, "theirs").expect("it can be made");
    chown(&file, Some(OTHER), None).expect("it is there");
    let out = program(&["top", "--on", text(&on), "--duration", "1s", "--json", text(&file)]).output();
    assert_eq!(out.expect("it starts").status.code(), Some(1));
    assert_eq!(fs::read(&file).expect("it is there"), b"theirs");
}

fn own_pipe() {
    let (disk, shared) = (Disk::ext4(64), shared());
    let json = pipe(&shared, 0);
    let on = disk.mount_point();
    // Whoever opens it so waits for nobody, and it has room for all lines.
    let open = fs::File::options().read(true).custom_flags(libc::O_NONBLOCK).open(&json);
    let mut reader = open.expect("a pipe");
    let out = program(&["top", "--on", text(&on), "--duration", "300ms", "--json", &json]).output();
    let out = out.expect("it starts");
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    let mut lines = String::new();
    reader.read_to_string(&mut lines).expect("nobody has it open for writing");
    assert!(lines.starts_with('{') && lines.ends_with("}\n"), "{lines}");
    assert!(fs::symlink_metadata(&json).expect("it is there").file_type().is_fifo());
}

fn journal() {
    let shared = shared();
    let (trace, table) = (shared.path().join("t.pctrace"), shared.path().join("t.csv"));
    generate(&trace);
    let journal = shared.path().join("t.csv.unfinished");
    fs::write(&journal, "").expect("it can be made");
    chown(&journal, Some(OTHER), None).expect("it is there");
    let out = program(&["sweep", text(&trace), "-o", text(&table)]).output().expect("it starts");
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("it is of user 65534") && !table.exists(), "{said}");
}
