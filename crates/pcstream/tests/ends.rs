//! How commands end that cannot do their work, or are interrupted: nothing is left behind, and the error says once what is wrong.

mod common;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::{Place, ends_with, refuses, text, wait_for, wait_for_child};
use rustix::process::{Pid, Signal, kill_process};

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_pcstream"))
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    entries.collect()
}

fn interrupt(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(child.id() as i32).expect("a child has a pid");
    kill_process(pid, signal).unwrap();
}

#[test]
fn an_interrupted_generate_leaves_nothing_and_ends_as_a_shell_expects() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::QUIT, 131), (Signal::HUP, 129)] {
        let dir = tempfile::tempdir().unwrap();
        // Whoever runs the tests by `nohup` ignores SIGHUP.
        let mut generate = Command::new("env");
        generate.args(["--default-signal=HUP", env!("CARGO_BIN_EXE_pcstream")]);
        generate.args(["generate", "uniform", "--pages", "1M", "--writes", "1T", "-o", "t.pctrace"]);
        let mut child = generate.current_dir(dir.path()).stderr(Stdio::null()).spawn().unwrap();
        let meta = dir.path().join("t.pctrace.partial/meta.json");
        wait_for_child("the file of a trace", &child, || meta.exists());
        interrupt(&child, signal);
        assert_eq!(child.wait().unwrap().code(), Some(code));
        assert_eq!(names(dir.path()), [] as [&str; 0]);
    }
}

/// Whoever writes the input may be silent for as long as it likes.
#[test]
fn an_interrupted_import_leaves_nothing_whatever_its_input_does() {
    const LINE: &[u8] = b"128166372003061629,src1,0,Write,0,8192,100\n";
    for ends in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let mut import = program();
        import.args(["import", "--format", "msr", "-", "-o", "t.pctrace"]).current_dir(dir.path());
        let mut child = import.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(LINE).unwrap();
        let meta = dir.path().join("t.pctrace.partial/meta.json");
        wait_for_child("the file of a trace", &child, || meta.exists());
        interrupt(&child, Signal::INT);
        let kept = (!ends).then_some(input);
        let output = child.wait_with_output().unwrap();
        drop(kept);
        assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("ended by signal 2; nothing was left behind"));
        assert_eq!(names(dir.path()), [] as [&str; 0]);
    }
}

#[test]
fn an_import_that_waits_for_a_pipe_can_be_ended_and_reads_what_comes() {
    const LINE: &[u8] = b"128166372003061629,src1,0,Write,0,8192,100\n";
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let import = || {
        let mut import = program();
        import.args(["import", "--format", "msr", "pipe", "-o", "t.pctrace"]).current_dir(dir.path());
        import.stderr(Stdio::piped()).spawn().unwrap()
    };
    // The other end can be opened without waiting once somebody reads.
    let open = || {
        let mut writer = None;
        wait_for("somebody to read the pipe", || {
            writer = fs::File::options().write(true).custom_flags(libc::O_NONBLOCK).open(&pipe).ok();
            writer.is_some()
        });
        writer.unwrap()
    };
    let child = import();
    let silent = open();
    interrupt(&child, Signal::TERM);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(143));
    assert_eq!(names(dir.path()), ["pipe"]);
    drop(silent);
    let child = import();
    open().write_all(LINE).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(dir.path().join("t.pctrace/meta.json").exists());
}

/// Rules may come through a pipe. Whoever waits for them can be ended as usual.
#[test]
fn a_run_that_waits_for_its_rules_can_be_ended() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("rules");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut run = program();
    run.args(["run", "--scheme", "manual", "--rules", "rules", "--", "true"]).current_dir(dir.path());
    let temporary = dir.path().join("temporary");
    fs::create_dir(&temporary).unwrap();
    run.env("TMPDIR", &temporary);
    let said = dir.path().join("said");
    let mut child = run.stderr(fs::File::create(&said).unwrap()).spawn().unwrap();
    // The other end can be opened without waiting once somebody reads.
    let mut writer = None;
    wait_for("somebody to read the pipe", || {
        let ended = child.try_wait().unwrap();
        assert!(ended.is_none(), "{ended:?}: {}", fs::read_to_string(&said).unwrap());
        writer = fs::File::options().write(true).custom_flags(libc::O_NONBLOCK).open(&pipe).ok();
        writer.is_some()
    });
    interrupt(&child, Signal::TERM);
    // Whoever goes on after the signal ends with the pipe, and otherwise.
    drop(writer);
    assert_eq!(child.wait().unwrap().signal(), Some(Signal::TERM.as_raw()));
    assert_eq!(names(&temporary), [] as [&str; 0]);
    let twice = ["run", "--repeat", "2", "--rules", pipe.to_str().unwrap(), "--", "true"];
    refuses(2, &twice, &["--rules", "no regular file", "--repeat"]);
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (pipe, trace, out) = (pipe.to_str().unwrap(), path("t.pctrace"), path("r.csv"));
    ends_with(0, &["generate", "uniform", "--pages", "64", "--writes", "64", "-o", &trace]);
    for flag in ["--rules", "--load-table", "--device"] {
        refuses(2, &["sweep", &trace, "-o", &out, flag, pipe], &[flag, "no regular file", "sweep"]);
        refuses(2, &["compare", &trace, &trace, flag, pipe], &[flag, "no regular file", "compare"]);
    }
}

#[test]
fn a_generate_without_room_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    // No file may grow beyond 64 blocks of 512 bytes; the signal that says so is ignored, so writing fails.
    let script =
        "trap '' XFSZ; ulimit -f 64; exec \"$0\" generate uniform --pages 1M --writes 1M -o t.pctrace";
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).arg(program().get_program()).current_dir(dir.path());
    let output = shell.output().unwrap();
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("File too large"), "{message}");
    assert_eq!(names(dir.path()), [] as [&str; 0]);
}

#[test]
fn errors_say_it_once_and_name_the_flag() {
    let place = Place::new();
    let trace = place.path("t.pctrace");
    refuses(1, &["generate", "uniform", "--pages", "1", "--writes", "1", "-o", &trace], &["with --force"]);
    for args in [
        vec!["simulate", trace.as_str(), "--device", "/nonexistent.toml"],
        vec!["simulate", trace.as_str(), "--load-table", "/nonexistent.table"],
        vec!["import", "--format", "msr", "/nonexistent.csv", "-o", "x.pctrace"],
        vec!["generate", "uniform", "--pages", "1", "--writes", "1", "-o", "/nonexistent/x.pctrace"],
    ] {
        let output = common::pcstream(&args);
        let message = text(&output.stderr);
        assert_eq!(message.matches("No such file").count(), 1, "{args:?}: {message}");
    }
    fs::remove_file(Path::new(&trace).join("events.parquet")).unwrap();
    let (_, message) = ends_with(1, &["simulate", &trace]);
    assert_eq!(message.matches("No such file").count(), 1, "{message}");
}

#[test]
fn numbers_say_what_one_looks_like() {
    for (flag, value, words) in [
        ("--seed", "x", "a whole number, 0 or more"),
        ("--streams", "0", "a whole number from 1 to 255"),
        ("--streams", "many", "a whole number from 1 to 255"),
    ] {
        refuses(2, &["simulate", "t.pctrace", flag, value], &[flag, words]);
    }
    refuses(2, &["simulate", "t", "--timing", "--queue-depth", "x"], &["--queue-depth", "from 1 to 65536"]);
    refuses(2, &["contexts", "t.pctrace", "--top", "x"], &["--top", "a whole number"]);
    let zipf = ["generate", "zipf", "--pages", "9", "--writes", "9", "-o", "t", "--theta", "x"];
    refuses(2, &zipf, &["--theta", "expected a number"]);
}

/// A context whose names would break lines, colour them and turn them round.
#[test]
fn names_of_others_are_escaped() {
    use pcstream_trace::*;
    let dir = tempfile::tempdir().unwrap();
    let evil = "a\r\n\t\u{1b}[31m\u{9b}\u{200b}\u{202e}b";
    let mut meta = Meta::new("d", 1000);
    meta.command = vec![evil.to_owned(), "x".repeat(10_000)];
    let path = dir.path().join("t.pctrace");
    let mut writer = TraceWriter::create(&path, meta, false).unwrap();
    let context =
        Context { comm: evil.into(), executable: "/bin/sh".into(), ..Context::label(ContextId(1), "x") };
    let file = File { id: FileId(1), inode: 1, generation: 0, path: format!("/{evil}") };
    let event = Event { context: ContextId(1), file: FileId(1), ..Event::write(0, 8) };
    writer.write_batch(&Batch { contexts: vec![context], files: vec![file], events: vec![event] }).unwrap();
    writer.finish(None).unwrap();
    let path = path.to_str().unwrap();
    let hidden = |c: char| c != '\n' && (c.is_control() || ['\u{200b}', '\u{202e}', '\u{fffd}'].contains(&c));
    let report = || vec!["report", path, "--no-curves", "-o", "-"];
    for args in
        [vec!["contexts", path], vec!["simulate", path], vec!["contexts", path, "--json", "-"], report()]
    {
        let (out, err) = ends_with(0, &args);
        assert!(!out.contains(hidden) && !err.contains(hidden), "{args:?}: {out:?} {err:?}");
        assert!(out.contains("\\u{202e}b") || out.contains("\\u202eb"), "{args:?}: {out}");
        let longest = out.lines().map(str::len).max().unwrap();
        assert!(args.contains(&"-") || longest < 400, "{args:?}: {longest}");
    }
}

/// Every example that --help shows can be pasted, in the order shown, but for those that capture or pipe.
#[test]
fn examples_can_be_pasted() {
    let mut tried = 0;
    for command in ["simulate", "sweep", "contexts", "generate", "merge", "geometry"] {
        let dir = tempfile::tempdir().unwrap();
        let (help, _) = ends_with(0, &[command, "--help"]);
        let examples = help.lines().skip_while(|line| !line.starts_with("Examples:")).skip(1);
        for example in examples.map(str::trim).filter(|l| l.starts_with("pcstream ") && !l.contains('|')) {
            // Smaller, so that it does not take long; nothing else is changed.
            let small =
                example.replace("--writes 1M", "--writes 128K").replace("--writes 4M", "--writes 128K");
            let line = small.replacen("pcstream", "\"$0\"", 1);
            let mut shell = Command::new("sh");
            shell.args(["-c", &line]).arg(program().get_program()).current_dir(dir.path());
            let output = shell.output().unwrap();
            assert!(output.status.success(), "{command}: {example}\n{}", text(&output.stderr));
            tried += 1;
        }
    }
    assert!(tried > 12, "{tried}");
}
