//! Where results go, and where small files come from: directories, links, pipes and devices.

mod common;

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::{FileTypeExt as _, symlink};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{PATIENCE, Place, ends_with, refuses, refuses_in};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};

fn make_fifo(path: &str) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO can be made");
}

/// What root would lose: `--save-table /dev/null` must not make a file of it.
#[test]
fn pipes_are_written_and_links_stay() {
    let place = Place::new();
    let (trace, fifo, link, target) =
        (place.path("t.pctrace"), place.path("fifo"), place.path("link"), place.path("target"));
    make_fifo(&fifo);
    let reader = std::thread::spawn({
        let fifo = fifo.clone();
        move || {
            let mut bytes = Vec::new();
            File::open(fifo).and_then(|mut file| file.read_to_end(&mut bytes)).expect("it can be read");
            bytes
        }
    });
    ends_with(0, &["simulate", &trace, "--scheme", "pcstream", "--save-table", &fifo]);
    assert!(fs::metadata(&fifo).unwrap().file_type().is_fifo(), "it is one still");
    assert!(reader.join().unwrap().starts_with(b"pcstable"), "the table went through it");

    fs::write(&target, "before").unwrap();
    symlink(&target, &link).unwrap();
    ends_with(0, &["contexts", &trace, "--folded", &link]);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink(), "it is one still");
    assert!(fs::read_to_string(&target).unwrap().contains("hot"), "what it names was replaced");
}

#[test]
fn places_that_cannot_be_written_are_refused_at_once() {
    let place = Place::new();
    let (trace, directory, circle) = (place.path("t.pctrace"), place.path("directory"), place.path("circle"));
    fs::create_dir(&directory).unwrap();
    symlink(&circle, &circle).unwrap();
    for (command, flag) in [
        ("simulate", "--save-table"),
        ("simulate", "--json"),
        ("contexts", "--folded"),
        ("contexts", "--pprof"),
        ("report", "--output"),
        ("advise", "--rules-out"),
    ] {
        let expected = format!("{flag} {directory}: is a directory, expected a file");
        refuses(1, &[command, &trace, flag, &directory], &[&expected]);
        let expected = format!("{flag} {circle}: cannot write there: Too many levels");
        refuses(1, &[command, &trace, flag, &circle], &[&expected]);
    }
}

#[test]
fn a_full_disk_does_not_cost_the_tables() {
    let trace = Place::new();
    for flag in ["--help", "--version"] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let out = Command::new(env!("CARGO_BIN_EXE_pcstream")).arg(flag).stdout(full).output().unwrap();
        assert_eq!(out.status.code(), Some(1), "{flag}: {out:?}");
    }
    let (out, err) = ends_with(1, &["simulate", &trace.path("t.pctrace"), "--json", "/dev/full"]);
    assert!(out.contains("WAF") && err.contains("--json /dev/full: No space left"), "{out}{err}");
}

/// A recording may be impossible to repeat.
#[test]
fn results_take_the_place_of_no_part_of_a_trace_and_of_no_other_result() {
    let place = Place::new();
    let (trace, file) = (place.path("t.pctrace"), place.path("file"));
    for (command, flag, part) in [
        ("simulate", "--json", "meta.json"),
        ("simulate", "--save-table", "events.parquet"),
        ("contexts", "--folded", "contexts.parquet"),
        ("report", "-o", "files.parquet"),
        ("sweep", "-o", "events.parquet"),
    ] {
        refuses(1, &[command, &trace, flag, &format!("{trace}/{part}")], &["is part of a trace"]);
    }
    let parent = place.path("t.pctrace/../file");
    for (command, flags, other) in [
        ("simulate", ["--scheme=pcstream", "--save-table"], "--json"),
        ("contexts", ["--by=file", "--folded"], "--json"),
        ("contexts", ["--by=file", "--pprof"], "--folded"),
        ("report", ["--figure=waf", "--svg"], "--csv"),
        ("advise", ["--streams=4", "--rules-out"], "--json"),
    ] {
        let words = ["name the same file", flags[1], other];
        refuses(2, &[command, &trace, flags[0], flags[1], &file, other, &parent], &words);
    }
    assert!(!fs::exists(&file).unwrap());
    ends_with(0, &["simulate", &trace]);
    refuses(1, &["merge", &trace, &trace, "-o", "-"], &["a trace is a directory", "./-"]);
}

/// Whether a process waits in openat(2) (x86-64).
fn waits_in_open(pid: u32) -> bool {
    let read = |name: &str| fs::read_to_string(Path::new("/proc").join(pid.to_string()).join(name));
    read("syscall").is_ok_and(|call| call.starts_with("257 "))
        && read("stat").is_ok_and(|stat| stat.contains(") S "))
}

/// A pipe may be given for a small file, as in `--rules <(command)`. Nobody may ever write to it.
#[test]
fn signals_end_what_waits_for_a_pipe() {
    let place = Place::new();
    let (trace, fifo) = (place.path("t.pctrace"), place.path("fifo"));
    make_fifo(&fifo);
    for flags in [
        vec!["simulate", &trace, "--load-table", &fifo],
        vec!["simulate", &trace, "--scheme", "manual", "--rules", &fifo],
        vec!["report", &trace, "-o", "x.html", "--rules", &fifo, "--scheme", "manual"],
        vec!["report", &trace, "--figure", "waf", "--svg", &fifo],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pcstream"));
        command.args(&flags).current_dir(Path::new(&trace).parent().unwrap()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let begin = Instant::now();
        while !waits_in_open(child.id()) {
            assert!(child.try_wait().unwrap().is_none() && begin.elapsed() < PATIENCE, "{flags:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
        kill_process(Pid::from_raw(child.id() as i32).unwrap(), Signal::TERM).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(15), "{flags:?}");
        let left = fs::read_dir(Path::new(&trace).parent().unwrap()).unwrap();
        let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left.len(), 2, "the trace and the FIFO: {left:?}");
    }
}

/// As for `| head`, or a pager that is left: what was asked for in files is not lost with the reader.
#[test]
fn a_reader_that_goes_away_does_not_cost_the_files() {
    let place = Place::new();
    let (trace, one, other) = (place.path("t.pctrace"), place.path("one"), place.path("other"));
    for flags in [
        &["contexts", "--json", "-", "--pprof", &one, "--folded", &other][..],
        &["contexts", "--folded", "-", "--pprof", &one, "--json", &other],
        &["report", "--no-curves", "--json", "-", "--output", &one, "--figure=waf", "--csv", &other],
        &["report", "--no-curves", "--figure=waf", "--svg", "-", "--csv", &one, "--output", &other],
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_pcstream"));
        let output = command.arg(flags[0]).arg(&trace).args(&flags[1..]).stdout(writer).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{flags:?}: {output:?}");
        for file in [&one, &other] {
            assert!(fs::metadata(file).is_ok_and(|file| file.len() > 0), "{flags:?}: {file}");
            fs::remove_file(file).unwrap();
        }
    }
}

/// What never goes to stdout makes no file called `-`.
#[test]
fn files_are_not_called_as_stdout_is() {
    let place = Place::new();
    let (trace, table) = (place.path("t.pctrace"), place.path("a.table"));
    ends_with(0, &["simulate", &trace, "--scheme", "pcstream", "--save-table", &table]);
    for command in [
        &["contexts", &trace, "--pprof", "-"][..],
        &["table", "merge", &table, "-o", "-"],
        &["simulate", &trace, "--save-table", "-"],
        &["advise", &trace, "--rules-out", "-"],
    ] {
        refuses_in(place.directory(), 2, command, &["it goes to a file only"]);
        assert!(!Path::new(&place.path("-")).exists(), "{command:?}");
    }
}
