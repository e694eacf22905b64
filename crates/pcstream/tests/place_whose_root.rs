//! Whom `place` serves: the programs that it follows and no others, its own command, and root.

#[path = "../../pcstream-capture/tests/common/mod.rs"]
mod common;
#[path = "../../pcstream-capture/tests/common/disk.rs"]
mod disk;
#[path = "common/placer.rs"]
mod placer;
#[path = "../../pcstream-capture/tests/common/programs.rs"]
mod programs;

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use common::wait_for;
use disk::text;
use placer::{Bench, context, ext4, result, said};

fn main() -> ExitCode {
    let needs = [common::ext4 as common::Need, common::loop_devices, programs::gcc];
    common::run(vec![
        common::test("place_leaves_files_of_others_alone", &needs, others),
        common::test("place_serves_its_command_alone", &needs, alone),
        common::test("place_lets_a_command_run_that_unmounts_the_file_system", &needs, unmounted),
        common::test("place_serves_one_directory_alone", &needs, one_directory),
        common::test("place_says_why_its_command_did_not_find_a_file", &needs, misplaced),
        common::test("place_needs_root_and_says_so", &needs, not_root),
    ])
}

fn others() {
    let disk = ext4();
    let mut bench = Bench::new(&disk);
    let mut followed = Command::new("sleep").arg("1h").spawn().expect("it starts");
    let id = followed.id().to_string();
    let placer = bench.start(&["--sink", "hints", "--save-every", "100ms", "--pid", &id]);
    bench.write();
    // As many writes as teach a lifetime of a context that is followed.
    wait_for("a file", || bench.disk.mount_point().join("log").exists());
    let (mut last, mut writes) = (bench.written("log"), 0);
    wait_for("many writes", || {
        let now = bench.written("log");
        writes += u32::from(now != last);
        last = now;
        writes == 50
    });
    bench.stop();
    (0..2).for_each(|_| placer.reload());
    assert_eq!(bench.learned(), 0);
    assert_eq!(["log", "table"].map(|file| bench.hint(file)), [0, 0]);
    let result = placer.end();
    followed.kill().and_then(|()| followed.wait()).expect("it ran");
    let others = &result["contexts"][0];
    assert_eq!((others["executable"].as_str(), others["stream"].as_u64()), (Some("others"), Some(0)));
    assert!(others["hint"].is_null() && others["pages"].as_u64() > Some(0), "{result:#}");
}

/// Programs that wrote before its command began, and go on beside it, are others.
fn alone() {
    let disk = ext4();
    let mut bench = Bench::new(&disk);
    bench.write();
    wait_for("a file of others", || bench.disk.mount_point().join("log").exists());
    let (program, stop) = (bench.program.display().to_string(), bench.path("stop of the command"));
    let script = format!("mkdir mine && cd mine && exec {program} '{}'", stop.display());
    let placer = bench.start(&["--sink", "hints", "--json", "-", "--", "sh", "-c", &script]);
    wait_for("a hint for the command's file", || bench.hint("mine/log") != 0);
    assert_eq!(["log", "table"].map(|file| bench.hint(file)), [0, 0]);
    fs::write(&stop, "").expect("written");
    let output = placer.wait();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    bench.stop();
    let result = result(&output);
    let others = result["contexts"].as_array().expect("a list").iter().find(|c| c["executable"] == "others");
    let others = others.unwrap_or_else(|| panic!("no others in {result:#}"));
    assert!(others["hint"].is_null() && others["pages"].as_u64() > Some(0), "{result:#}");
    assert!(context(&result, "log_append")["hint"].is_string(), "{result:#}");
}

/// A command that unmounts what is placed on runs to its own end, and its exit code counts.
fn unmounted() {
    let disk = ext4();
    for (status, code) in [(0, 0), (7, 1)] {
        let bench = Bench::new(&disk);
        let (mount_point, stop) = (disk.mount_point(), bench.path("stop"));
        let script = format!(
            "echo data > file; cd /; n=0; until umount {} || [ $n = 9000 ]; do sleep 0.1; n=$((n + 1)); done; until test -e {} || \
             [ $n = 9000 ]; do sleep 0.1; n=$((n + 1)); done; exit {status}",
            text(&mount_point),
            text(&stop)
        );
        let mut placer = bench.start(&["--sink", "hints", "--", "sh", "-c", &script]);
        let said = placer.says("the command goes on");
        assert!(said.contains(&format!("{} was unmounted", text(&mount_point))), "{said}");
        fs::write(&stop, "").expect("written");
        let ended = placer.wait().status;
        disk::succeed("mount", &[disk.device(), text(&mount_point)]);
        assert_eq!(ended.code(), Some(code), "the command ended with {status}");
    }
}

/// Of two that run the same program.
fn one_directory() {
    let disk = ext4();
    let mut bench = Bench::new(&disk);
    bench.on = disk.mount_point().join("mine");
    fs::create_dir(&bench.on).expect("it can be made");
    let placer = bench.start(&["--sink", "hints", "--dir-only"]);
    bench.write();
    let mut inside = Command::new(&bench.program);
    inside.arg(bench.path("stop")).current_dir(&bench.on);
    bench.children.push(inside.spawn().expect("it starts"));
    wait_for("a hint for a file in it", || bench.hint("mine/log") != 0);
    wait_for("a file of others", || bench.disk.mount_point().join("log").exists());
    assert_eq!(["log", "table"].map(|file| bench.hint(file)), [0, 0]);
    bench.stop();
    let result = placer.end();
    let others = result["contexts"].as_array().expect("a list").iter().find(|c| c["executable"] == "others");
    let others = others.unwrap_or_else(|| panic!("no others in {result:#}"));
    assert!(others["hint"].is_null() && others["pages"].as_u64() > Some(0), "{result:#}");
}

/// Its command runs in the directory of `--on`, so it does not find what it names from the caller's.
fn misplaced() {
    let disk = ext4();
    let bench = Bench::new(&disk);
    fs::write(bench.path("job.sh"), "true").expect("written");
    let there = |script: &str| {
        let mut command = bench.place(&["--sink", "none", "--", "sh", script]);
        command.current_dir(bench.dir.path()).output().expect("it starts")
    };
    let output = there("job.sh");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("job.sh does not exist: give its whole path"), "{}", said(&output));
    let output = there(text(&bench.path("job.sh")));
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

/// Also where root has placed before, whose directory in `/run` is there.
fn not_root() {
    let disk = ext4();
    let bench = Bench::new(&disk);
    bench.start(&["--sink", "none"]).end();
    // Where every user may run it.
    let binary = bench.path("pcstream");
    fs::copy(env!("CARGO_BIN_EXE_pcstream"), &binary).expect("a copy");
    disk::succeed("chmod", &["755", text(bench.dir.path()), text(&binary)]);
    let mut command = Command::new(&binary);
    command.args(["place", "--sink", "none", "--on"]).arg(&bench.on).uid(65534).gid(65534).current_dir("/");
    let output = command.output().expect("it starts");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("error: capturing needs root"), "{}", said(&output));
}
