//! `run`, `record` and `doctor` as a user meets them: exit codes, messages, and nothing left behind.

#[path = "../../pcstream-capture/tests/common/mod.rs"]
mod common;
#[path = "../../pcstream-capture/tests/common/disk.rs"]
mod disk;
#[path = "common/program.rs"]
mod program;

use std::path::Path;
use std::process::{Command, ExitCode, Output, Stdio};

use common::{wait_for, wait_for_child};
use program::{Run, expect, left, pcstream, run_to_end, signal, text, wait};
use serde_json::Value;
use tempfile::TempDir;

/// Small and quick: 256 MiB, of which about a third is free.
const PLACE: [&str; 4] = ["--size", "256M", "--fill", "0.6"];
/// Fills most of the free space, rewrites scattered pieces of it, and makes and deletes small files.
const CHURN: &str = "dd if=/dev/zero of=big bs=64k count=1200 oflag=direct 2>/dev/null || exit 1; \
    for i in $(seq 1500); do dd if=/dev/zero of=big bs=64k count=1 seek=$((i * 7919 % 1200)) conv=notrunc \
    oflag=direct 2>/dev/null || exit 1; [ $((i % 50)) = 0 ] && echo $i > small-$i && sync && rm small-*; done; true";
/// A device on which that is work.
const DEVICE: [&str; 6] = ["--streams", "4", "--superblock-pages", "64", "--spare-factor", "0.1"];
/// What a command sleeps that is ended by its test, in seconds: longer than the test can wait.
const FOR_EVER: &str = "1000000";

fn main() -> ExitCode {
    let needs = [common::ext4 as common::Need, common::zram];
    let with_loop = [common::ext4 as common::Need, common::loop_devices];
    common::run(vec![
        common::test("run_live_equals_the_recorded_trace", &needs, live_equals_recorded),
        common::test("run_keeps_to_its_memory", &needs, bounded_memory),
        common::test("run_fails_as_the_command_does", &needs, failing_commands),
        common::test("run_says_when_the_device_is_full", &needs, full_device),
        common::test("run_repeats_its_command", &needs, repeats),
        common::test("run_counts_what_schemes_drop", &needs, dropped),
        common::test("run_refuses_wrong_arguments", &needs, wrong_arguments),
        common::test("record_refuses_wrong_write_buffers", &needs, wrong_write_buffers),
        common::test("run_needs_capabilities", &needs, no_capability),
        common::test("run_needs_root", &needs, no_root),
        common::test("demo_with_the_binary_alone", &needs, demo),
        common::test("run_needs_kernel_types", &needs, no_btf),
        common::test("run_refuses_an_image_in_use", &with_loop, image_in_use),
        common::test("run_interrupted_reports_and_cleans_up", &needs, interrupted),
        common::test("run_interrupted_in_the_schemes_leaves_no_recording", &needs, interrupted_schemes),
        common::test("record_killed_leaves_a_readable_trace", &needs, killed),
        common::test("what_a_killed_run_recorded_is_cleaned_away", &needs, killed_run),
        common::test("doctor_says_what_it_cannot_clean", &[], unjudged),
        common::test("doctor_says_what_place_can_do_at_a_path", &with_loop, doctor_of_a_path),
    ])
}

fn output(command: &mut Command) -> Output {
    run_to_end(command).1
}

fn results(path: &Path) -> Value {
    let json: Value = serde_json::from_str(&std::fs::read_to_string(path).expect("the JSON was written"))
        .expect("it is JSON");
    json["results"].clone()
}

fn live_equals_recorded() {
    let dir = TempDir::new().expect("a directory");
    let at = |name: &str| dir.path().join(name);
    let run = expect(
        pcstream()
            .args(["run", "--scheme", "all", "--gc", "own,internal,shared"])
            .args(PLACE)
            .args(DEVICE)
            .args(["-o"])
            .arg(at("t.pctrace"))
            .arg("--json")
            .arg(at("run.json"))
            .args(["--", "sh", "-c", CHURN]),
        0,
        &[],
    );
    let table = text(&run.stdout);
    assert!(table.contains("baseline") && table.contains("dd"), "{table}");
    let simulate = |scheme: &str, json: &str| {
        let mut command = pcstream();
        command.arg("simulate").arg(at("t.pctrace")).args([
            "--scheme",
            scheme,
            "--gc",
            "own,internal,shared",
        ]);
        expect(command.args(DEVICE).arg("--json").arg(at(json)), 0, &[]);
        results(&at(json))
    };
    let live = results(&at("run.json"));
    assert!(live == simulate("all", "all.json"), "live and recorded differ");
    let collected = live.as_array().unwrap().iter().filter(|r| r["gc_pages"].as_u64().unwrap() > 0).count();
    assert!(collected > 0, "the device had no work, so nothing was compared");
    for scheme in ["pcstream", "autostream-mq", "oracle"] {
        let alone = simulate(scheme, "one.json");
        let among: Vec<_> =
            live.as_array().unwrap().iter().filter(|r| r["scheme"] == scheme).cloned().collect();
        assert!(alone == Value::from(among), "{scheme} alone differs");
    }
    let contexts = expect(pcstream().arg("contexts").arg(at("t.pctrace")), 0, &[]);
    assert!(text(&contexts.stdout).contains("dd"), "{}", text(&contexts.stdout));
}

/// Too little memory for all lanes: they run after the command, in passes. Too little for any: the command never starts.
fn bounded_memory() {
    let dir = TempDir::new().expect("a directory");
    let at = |name: &str| dir.path().join(name);
    let schemes = ["--scheme", "baseline,pcstream,oracle"];
    let run = |memory: &str, command: &str| {
        let mut run = pcstream();
        run.arg("run").args(PLACE).args(DEVICE).args(schemes).args(["--memory", memory, "-o"]);
        run.arg(at("t.pctrace")).arg("--json").arg(at("run.json")).args(["--", "sh", "-c", command]);
        run
    };
    let begun = at("begun");
    let touch = format!("touch {}", begun.display());
    expect(
        &mut run("1M", &touch),
        1,
        &["the simulation needs at least", "1.00 MiB are allowed", "--memory", "--pack 0.9"],
    );
    assert!(!begun.exists() && !at("t.pctrace").exists(), "nothing has begun");
    let said = ["130 MiB are allowed (--memory)", "after the recording", "passes"];
    expect(&mut run("130M", CHURN), 0, &said);
    let mut simulate = pcstream();
    simulate
        .arg("simulate")
        .arg(at("t.pctrace"))
        .args(DEVICE)
        .args(schemes)
        .arg("--json")
        .arg(at("all.json"));
    expect(&mut simulate, 0, &[]);
    assert!(results(&at("run.json")) == results(&at("all.json")), "passes change results");
}

/// What a scheme forgot of live data is a loss, however the run is made.
fn dropped() {
    let scattered = "for i in $(seq 400); do dd if=/dev/zero of=big bs=4k count=1 seek=$((i * 7919 % 9000)) \
        conv=notrunc oflag=direct 2>/dev/null || exit 1; done";
    for flags in [&[][..], &["--repeat", "2"]] {
        let mut run = pcstream();
        run.arg("run").args(PLACE).args(DEVICE).args(["--scheme", "pcstream"]).args(flags);
        run.args(["--set", "pcstream.lifetime.max_bytes=4096", "--", "sh", "-c", scattered]);
        let out = expect(&mut run, 3, &[]);
        let said = text(&out.stdout) + &text(&out.stderr);
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains("more with --set pcstream.lifetime.max_bytes=BYTES"), "{said}");
    }
}

/// Each run on a fresh device, of a command that writes twice as much the second time, and three times the third. What is
/// shown is of all runs.
fn repeats() {
    let dir = TempDir::new().expect("a directory");
    let at = |name: &str| dir.path().join(name);
    let script = |and: &str| {
        let count = at("count").display().to_string();
        format!(
            "[ -e f ] && exit 9; n=$(($(cat {count} 2>/dev/null || echo 0) + 1)); echo $n > {count}; \
             dd if=/dev/zero of=f bs=64k count=$((n * 200)) oflag=direct 2>/dev/null || exit 1; {and}"
        )
    };
    let run = |and: &str| {
        let mut run = pcstream();
        run.args(["run", "--repeat", "3", "--scheme", "baseline,pcstream"]).args(PLACE).args(DEVICE);
        run.arg("-o").arg(at("t.pctrace")).arg("--json").arg(at("run.json"));
        run.args(["--", "sh", "-c", &script(and)]);
        run
    };
    let out = expect(&mut run("true"), 0, &["run 1 of 3", "run 3 of 3", "t-3.pctrace"]);
    let table = text(&out.stdout);
    for part in ["seed 1", "Verdict of 3 runs: ", "least", "greatest", "WAF: baseline gc own"] {
        assert!(table.contains(part), "{part}: {table}");
    }
    let json = || -> Value {
        serde_json::from_str(&std::fs::read_to_string(at("run.json")).expect("it was written")).expect("JSON")
    };
    let result = json();
    let runs = result["runs"].as_array().expect("a list");
    let pages: Vec<f64> = runs.iter().map(|run| run["trace"]["host_pages"].as_f64().unwrap()).collect();
    assert!(pages.len() == 3 && pages.is_sorted() && pages[2] > 2.0 * pages[0], "{pages:?}");
    let written = &result["summary"]["measures"]["written by the host"];
    assert_eq!((&written["least"], &written["greatest"]), (&pages[0].into(), &pages[2].into()));
    assert_eq!(written["mean"].as_f64(), Some(pages.iter().sum::<f64>() / 3.0));
    assert!(written["half_width_95"].as_f64().is_some_and(|half| half > 0.0), "{written}");
    assert_eq!(result["summary"]["verdict"]["waf_now"]["repetitions"], 3);
    // The same as of each trace alone.
    for (number, run) in (1..).zip(runs) {
        let mut simulate = pcstream();
        simulate.arg("simulate").arg(at(&format!("t-{number}.pctrace"))).args(DEVICE);
        simulate.args(["--scheme", "baseline,pcstream", "--json"]).arg(at("one.json"));
        expect(&mut simulate, 0, &[]);
        let one: Value = serde_json::from_str(&std::fs::read_to_string(at("one.json")).unwrap()).unwrap();
        assert_eq!(one["verdict"], run["verdict"]);
    }
    expect(&mut run("true"), 1, &["t-1.pctrace exists", "--force"]);
    std::fs::remove_file(at("count")).expect("it is there");
    let mut failing = run("[ $n = 2 ] && exit 7; true");
    (1..=3).for_each(|n| std::fs::remove_dir_all(at(&format!("t-{n}.pctrace"))).expect("it is there"));
    let said = ["run 2 failed: the results are those of the 1 before it", "exit status: 7"];
    expect(&mut failing, 1, &said);
    assert_eq!(json()["runs"].as_array().map(Vec::len), Some(1));
    assert!(!at("t-3.pctrace").exists(), "a failure ends the series");
}

fn run_with(command: &[&str]) -> Command {
    let mut run = pcstream();
    run.arg("run").args(PLACE).args(DEVICE).args(["--scheme", "baseline"]).arg("--").args(command);
    run
}

fn failing_commands() {
    expect(
        &mut run_with(&["no-such-command-anywhere"]),
        1,
        &["no-such-command-anywhere", "not found in PATH"],
    );
    expect(&mut run_with(&["/etc/passwd"]), 1, &["/etc/passwd", "not an executable file"]);
    for (script, said) in [("echo x > f; exit 7", "exit status: 7"), ("echo x > f; kill -9 $$", "signal: 9")]
    {
        let out = expect(&mut run_with(&["sh", "-c", script]), 1, &["the traced command failed", said]);
        assert!(text(&out.stdout).contains("baseline"), "what it wrote is reported all the same");
    }
    // Tests run in the directory of their crate.
    let whole = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    expect(&mut run_with(&["sh", "Cargo.toml"]), 1, &["give its whole path", whole]);
}

fn full_device() {
    let script = "dd if=/dev/zero of=f bs=1M count=1000";
    expect(
        &mut run_with(&["sh", "-c", script]),
        1,
        &["is full", "--size", "--fill", "the traced command failed"],
    );
    // A command that goes on as if nothing had happened: what it could not write is missing all the same.
    let careless = format!("{script} 2>/dev/null; exit 0");
    let out = expect(
        &mut run_with(&["sh", "-c", &careless]),
        3,
        &["is full", "--size", "--fill", "scratch_full 1"],
    );
    assert!(text(&out.stdout).contains("scratch_full 1"), "the report says it, too: {}", text(&out.stdout));
}

fn wrong_arguments() {
    let with = |flags: &[&str]| {
        let mut run = pcstream();
        run.arg("run").args(PLACE).args(flags).args(["--", "true"]);
        run
    };
    expect(&mut with(&["--scheme", "pcstraem"]), 2, &["pcstraem", "pcstream"]);
    expect(&mut with(&["--no-such-flag"]), 2, &["--no-such-flag"]);
    expect(&mut with(&["--depth", "99"]), 2, &["99"]);
    expect(&mut with(&["--fs", "btrfs"]), 2, &["btrfs", "ext4"]);
    expect(&mut with(&["--streams", "40", "--superblock-pages", "4096"]), 2, &["--streams"]);
    expect(pcstream().arg("run"), 2, &["COMMAND"]);
    expect(
        pcstream().args(["run", "--size", "1K", "--", "true"]),
        2,
        &["--size is 1024", "a multiple of 4096"],
    );
    expect(&mut with(&["--repeat", "1"]), 2, &["--repeat"]);
    expect(&mut with(&["--repeat", "3", "--live"]), 2, &["--live", "--repeat"]);
    expect(&mut with(&["--repeat", "3", "--details"]), 2, &["--details", "keep the traces"]);
    expect(pcstream().args(["run", "--repeat", "3", "--on", "/tmp", "--", "true"]), 2, &["--on"]);
    expect(&mut with(&["--on", "/proc"]), 2, &[]);
    expect(pcstream().args(["run", "--on", "/proc", "--", "true"]), 1, &["/proc"]);
    let missing = ["--on /nonexistent: No such file", "--image /nonexistent/x: No such file"];
    expect(pcstream().args(["run", "--on", "/nonexistent", "--", "true"]), 1, &missing[..1]);
    expect(pcstream().args(["run", "--image", "/nonexistent/x", "--", "true"]), 1, &missing[1..]);
    let no_place = ["cannot write the trace (-o): /nonexistent: cannot make a trace there: No such file"];
    expect(&mut with(&["-o", "/nonexistent/x.pctrace"]), 1, &no_place);
}

/// Rules for write buffers that do not fit are reported before anything is touched, with file, place and remedy.
fn wrong_write_buffers() {
    let dir = TempDir::new().expect("a directory");
    let rules = dir.path().join("rules.toml");
    let this = std::env::current_exe().expect("it runs");
    let this = this.to_str().expect("a plain path");
    let record = |what: &str| {
        let mut command = pcstream();
        command.args(["record", "-o"]).arg(dir.path().join("t.pctrace")).args(["--write-buffers", what]);
        command.args(["--", "true"]);
        command
    };
    expect(
        &mut record("mysql"),
        2,
        &["--write-buffers mysql", "neither a preset (mariadb, postgresql) nor a file"],
    );
    let without = format!("--write-buffers {this} has no probes of pcstream.h");
    expect(&mut record(this), 2, &[&without, "rules file"]);
    let good = "page_bytes = 4096\n[[dirty]]\nfunction = 'no_such_function'\npage = { address = 1 }\n";
    for (text, parts) in [
        (
            format!("program = '/nonexistent/*/db'\n{good}"),
            ["no program matches /nonexistent/*/db", "install it"],
        ),
        (format!("program = '{this}'\n{good}"), [this, "has no function no_such_function"]),
        (format!("program = '{this}'\nsize = 1\n{good}"), ["unknown field `size`", "line 2"]),
        (format!("program = '{}'\n{good}", rules.display()), ["rules.toml", "is not a program"]),
        ("\u{fffd}".to_owned(), ["rules.toml", "line 1"]),
    ] {
        std::fs::write(&rules, &text).expect("it can be written");
        expect(&mut record(rules.to_str().expect("a plain path")), 2, &parts);
    }
    std::fs::write(&rules, [0xff, 0xfe]).expect("it can be written");
    expect(
        &mut record(rules.to_str().expect("a plain path")),
        2,
        &["neither text (a rules file) nor a program"],
    );
}

fn no_capability() {
    let mut run = Command::new("setpriv");
    run.args(["--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]).arg(env!("CARGO_BIN_EXE_pcstream"));
    expect(run.args(["run", "--", "true"]), 1, &["CAP_SYS_ADMIN", "sudo"]);
}

/// As a user without any rights. Where the program was built may be closed to them, so they get a copy.
fn no_root() {
    let dir = TempDir::new().expect("a directory");
    let traces = dir.path().join("traces");
    std::fs::create_dir(&traces).expect("a directory");
    for (directory, mode) in [(dir.path(), 0o755), (&traces, 0o777)] {
        let open = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(directory, open).expect("the directory can be opened to all");
    }
    let trace = traces.join("nobody.pctrace").display().to_string();
    let copy = dir.path().join("pcstream");
    std::fs::copy(env!("CARGO_BIN_EXE_pcstream"), &copy).expect("the program can be copied");
    let as_nobody = || {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all"]);
        command.arg(&copy).current_dir("/").env_remove("XDG_CONFIG_HOME").env("HOME", "/nonexistent");
        command
    };
    for arguments in [&["run", "--", "true"][..], &["record", "-o", &trace, "--", "true"]] {
        let out = expect(as_nobody().args(arguments), 1, &["root", "sudo"]);
        assert!(out.stdout.is_empty() && text(&out.stderr).lines().count() == 1, "{}", text(&out.stderr));
    }
    assert_eq!(std::fs::read_dir(&traces).expect("it is there").count(), 0, "nothing is made");
    expect(as_nobody().arg("doctor"), 1, &["cannot capture", "simulate"]);
    let out = output(as_nobody().args(["geometry", "--profile", "femu"]));
    assert!(out.status.success(), "what needs no rights works without them");
    // A home that was left behind with the rights.
    let home = TempDir::new().expect("a directory");
    let closed = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(home.path(), closed).expect("it can be closed to others");
    let out = output(as_nobody().args(["geometry", "--profile", "femu"]).env("HOME", home.path()));
    assert!(out.status.success() && out.stderr.is_empty(), "whether there is a configuration is not known");
}

fn no_btf() {
    let script = "mount -t tmpfs none /sys/kernel/btf && exec \"$0\" run -- true";
    let mut run = Command::new("unshare");
    expect(run.args(["-m", "sh", "-c", script, env!("CARGO_BIN_EXE_pcstream")]), 1, &["BTF"]);
}

fn image_in_use() {
    let dir = TempDir::new().expect("a directory");
    let image = dir.path().join("image");
    let mut first = start(&["--image", image.to_str().expect("a plain path")], &["sleep", FOR_EVER]);
    wait_for_child("a mount", &first, || mounted(&first));
    let mut second = pcstream();
    second.args(["run", "--image"]).arg(&image).args(PLACE).args(["--", "true"]);
    expect(&mut second, 1, &["use"]);
    signal(first.id(), "INT");
    wait(&mut first);
    assert_eq!(left(first.id()), [""; 0]);
}

/// Whether the scratch file system of this run is mounted.
fn mounted(run: &Run) -> bool {
    left(run.id()).iter().any(|line| line.contains("/mnt "))
}

fn start(flags: &[&str], command: &[&str]) -> Run {
    let mut run = pcstream();
    run.arg("run")
        .args(PLACE)
        .args(DEVICE)
        .args(["--scheme", "baseline"])
        .args(flags)
        .arg("--")
        .args(command);
    Run::start(run.stdout(Stdio::piped()).stderr(Stdio::piped()))
}

fn interrupted() {
    let dir = TempDir::new().expect("a directory");
    let wrote = dir.path().join("wrote");
    let script = format!("echo one > one; sync; : > {}; sleep {FOR_EVER}", wrote.display());
    let mut child = start(&[], &["sh", "-c", &script]);
    wait_for_child("the program", &child, || wrote.exists());
    signal(child.id(), "INT");
    assert_eq!(wait(&mut child), Some(130));
    let pid = child.id();
    let out = child.wait_with_output();
    assert!(text(&out.stderr).contains("interrupted"), "{}", text(&out.stderr));
    assert!(text(&out.stdout).contains("baseline"), "what was captured is reported: {}", text(&out.stdout));
    assert_eq!(left(pid), [""; 0]);
}

/// After the command, while schemes that look ahead run over the recording.
fn interrupted_schemes() {
    let dir = TempDir::new().expect("a directory");
    let script = "for i in 1 2 3 4 5; do \
        dd if=/dev/zero of=f bs=4k count=20000 oflag=direct conv=notrunc 2>/dev/null || exit 1; done";
    // One lane after the other, for many times as long as the signal takes.
    let work = ["--memory", "140M", "--scheme", "all", "--gc", "own,internal,shared"];
    let words = [&work[..], &["--", "sh", "-c", script]].concat();
    for kept in [false, true] {
        let trace = dir.path().join("kept.pctrace");
        let mut run = pcstream();
        run.env("TMPDIR", dir.path()).arg("run").args(PLACE).args(DEVICE);
        if kept {
            run.arg("-o").arg(&trace);
        }
        let mut child = Run::start(run.args(&words).stdout(Stdio::piped()).stderr(Stdio::piped()));
        let recorded = || {
            let made = std::fs::read_dir(dir.path()).expect("it is there").flatten();
            kept && trace.exists()
                || made.map(|entry| entry.path().join("run.pctrace")).any(|path| path.exists())
        };
        wait_for_child("the recording", &child, recorded);
        signal(child.id(), "INT");
        assert_eq!(wait(&mut child), Some(130));
        let pid = child.id();
        let said = text(&child.wait_with_output().stderr);
        let traces = std::fs::read_dir(dir.path()).expect("it is there").count();
        let expected =
            if kept { "the recording is kept: " } else { "the recording is removed (-o keeps one)" };
        assert!(said.contains(expected), "{said}");
        assert_eq!(traces, usize::from(kept), "{said}");
        assert_eq!(left(pid), [""; 0]);
    }
}

fn killed() {
    let dir = TempDir::new().expect("a directory");
    let trace = dir.path().join("t.pctrace");
    let mut record = pcstream();
    record.arg("record").args(PLACE).arg("-o").arg(&trace).args(["--", "sh", "-c"]);
    let script = "while true; do dd if=/dev/zero of=f bs=64k count=16 conv=notrunc,fsync 2>/dev/null; sleep 0.05; done";
    let mut child = Run::start(record.arg(script).stderr(Stdio::null()));
    wait_for_child("events on disk", &child, || events_on_disk(&trace));
    signal(child.id(), "KILL");
    wait(&mut child);
    // The command dies with its capture; what it was using is free a moment later. What other runs left is not judged.
    wait_for("nothing to be left", || {
        output(pcstream().args(["doctor", "--clean"]));
        left(child.id()).is_empty()
    });
    let simulate = output(pcstream().arg("simulate").arg(&trace).args(["--scheme", "baseline"]));
    assert_eq!(simulate.status.code(), Some(3), "{}", text(&simulate.stderr));
    assert!(text(&simulate.stdout).contains("baseline"), "{}", text(&simulate.stdout));
}

/// The recording of a killed `run` that nobody asked for goes with `doctor --clean`, which leaves others alone.
fn killed_run() {
    let dir = TempDir::new().expect("a directory");
    let mut run = pcstream();
    run.env("TMPDIR", dir.path()).arg("run").args(PLACE).args(DEVICE).args([
        "--",
        "sh",
        "-c",
        "while :; do echo x >f; sync f; done",
    ]);
    let mut child = Run::start(run.stdout(Stdio::null()).stderr(Stdio::null()));
    let recordings = || {
        let names =
            std::fs::read_dir(dir.path()).expect("it is there").map(|entry| entry.expect("an entry").path());
        names.filter(|path| path.join("run.pctrace.partial").exists()).count()
    };
    wait_for_child("a recording", &child, || recordings() == 1);
    let clean = || output(pcstream().env("TMPDIR", dir.path()).args(["doctor", "--clean"]));
    clean();
    assert_eq!(recordings(), 1, "it is in use");
    signal(child.id(), "KILL");
    wait(&mut child);
    wait_for("nothing to be left", || {
        clean();
        left(child.id()).is_empty() && recordings() == 0
    });
}

/// In a mount namespace of its own, where nobody else has run directories.
fn unjudged() {
    let script = "mkdir -p /run/pcstream && mount -t tmpfs -o mode=755 none /run/pcstream && \
        mkdir /run/pcstream/1-0 && echo '{\"version\": 1}' > /run/pcstream/1-0/state.json && exec \"$@\"";
    let doctor = |flags: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_pcstream"), "doctor"]);
        output(command.args(flags))
    };
    let looked = text(&doctor(&[]).stdout);
    let line = looked.lines().find(|line| line.contains("leftovers")).expect(&looked);
    assert!(line.contains("/run/pcstream/1-0") && line.contains("state version 1"), "{line}");
    let cleaned = doctor(&["--clean"]);
    assert_eq!(cleaned.status.code(), Some(1), "{}", text(&cleaned.stderr));
    assert!(text(&cleaned.stderr).contains("state version 1"), "{}", text(&cleaned.stderr));
}

/// By a directory, a file and the device of a file system, and by a device without one.
fn doctor_of_a_path() {
    let (disk, bare) = (disk::Disk::ext4(64), disk::Disk::unformatted(64));
    let (directory, file) = (disk.mount_point(), disk.mount_point().join("file"));
    std::fs::write(&file, "").expect("written");
    let doctor = |path: &Path| text(&expect(pcstream().arg("doctor").arg(path), 0, &[]).stdout);
    let mounted = format!("a whole disk, has no write streams; ext4, mounted at {}\n", directory.display());
    for path in [&directory, &file, Path::new(disk.device())] {
        let said = doctor(path);
        assert!(said.contains(&mounted) && said.contains("sink hints, streams S0 to S4: "), "{said}");
        assert!(said.contains("-> not kfunc: loop") && said.contains("FDP"), "{said}");
    }
    let said = doctor(Path::new(bare.device()));
    assert!(said.contains("no mounted file system") && said.contains("sink none, streams S0 to"), "{said}");
    assert!(said.contains("-> not hints: loop"), "{said}");
    expect(pcstream().args(["doctor", "/proc"]), 1, &["/proc", "only ext4, xfs and f2fs"]);
    let refused = expect(pcstream().args(["doctor", "/dev/null"]), 1, &[]);
    assert_eq!(text(&refused.stderr), "error: /dev/null: expected a directory or a block device\n");
}

/// On a machine without databases: its own workload, whose stores have contexts of their own, and a verdict.
fn demo() {
    let dir = TempDir::new().expect("a directory");
    let trace = dir.path().join("demo.pctrace");
    let mut command = pcstream();
    // Programs that the capture needs, but no database.
    command.env("PATH", "/usr/sbin:/sbin").args(["demo", "--part", "0.1", "-o"]).arg(&trace);
    let out =
        expect(&mut command, 0, &["the built-in workload", "is not installed", "`report` and `advise` of"]);
    assert!(text(&out.stdout).contains("Verdict: "), "{}", text(&out.stdout));
    let contexts = expect(pcstream().args(["contexts", "--csv"]).arg(&trace), 0, &[]);
    let contexts = text(&contexts.stdout);
    for step in ["append_to_log", "checkpoint", "flush_memory", "merge_into_level_1", "merge_into_level_2"] {
        assert!(contexts.contains(step), "{step} is no context: {contexts}");
    }
    let mut databases = pcstream();
    databases.env("PATH", "/usr/sbin:/sbin").args(["demo", "--workload", "databases"]);
    expect(&mut databases, 1, &["db_bench is not installed", "rocksdb-tools", "--workload built-in"]);
    expect(pcstream().args(["demo", "--", "--streams", "many"]), 2, &["--streams", "many"]);
}

/// Whether a recorder has written events that outlive it.
fn events_on_disk(trace: &Path) -> bool {
    let entries = std::fs::read_dir(trace.with_extension("pctrace.partial")).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).any(|name| name.to_string_lossy().starts_with("events"))
}
