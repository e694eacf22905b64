//! What a traced command is given, and what becomes of its orphans. One test, for both are of the whole process.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use pcstream_capture::command::{Traced, TracedOptions};
use pcstream_capture::modules::Modules;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

fn start(script: &str, dir: &Path, reap: bool) -> Traced {
    let command = ["sh", "-c", script].map(OsString::from);
    Traced::start(&command, dir, TracedOptions { reap, ..TracedOptions::default() }).expect("it starts")
}

fn wait(traced: &mut Traced) {
    while traced.try_wait().expect("it can be waited for").is_none() {
        std::thread::yield_now();
    }
}

/// Whether a process is there, ended or not.
fn is_there(pid: &str) -> bool {
    Path::new("/proc").join(pid.trim()).exists()
}

#[test]
fn a_command_keeps_its_limits_and_leaves_no_zombies() {
    let dir = tempfile::tempdir().expect("a directory");
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap_or_default();
    let given = Rlimit { current: Some(321), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, given).expect("it may be lowered");
    // Keeps many files open.
    let _modules = Modules::default();
    assert_ne!(getrlimit(Resource::Nofile), given, "it is raised here");
    wait(&mut start("ulimit -Sn > limit", dir.path(), false));
    assert_eq!(read("limit"), "321\n");

    // A child of this process alone, which nobody waits for yet: it is not taken from its owner.
    let mut own = Command::new("sleep").arg("600").stdout(Stdio::null()).spawn().expect("it starts");
    let script = "(sh -c 'echo $$ > orphan.new; mv orphan.new orphan; exec sleep 600' &); exec sleep 600";
    let mut traced = start(script, dir.path(), true);
    let alive = |traced: &mut Traced| assert!(traced.try_wait().expect("it can be waited for").is_none());
    while read("orphan").is_empty() {
        alive(&mut traced);
    }
    let kill = Command::new("kill").arg(read("orphan").trim()).status().expect("kill starts");
    assert!(kill.success());
    // The command goes on, and so does its recording.
    while is_there(&read("orphan")) {
        alive(&mut traced);
    }
    own.kill().expect("it runs");
    while pcstream_system::process::stat(own.id()).is_some_and(|stat| !stat.has_ended()) {
        std::thread::yield_now();
    }
    alive(&mut traced);
    assert!(own.wait().is_ok(), "its owner waits for it");
    traced.stop(true, false);
    wait(&mut traced);
}
