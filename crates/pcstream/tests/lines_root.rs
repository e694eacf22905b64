//! From a recording to the source lines of the program that was recorded.

#[path = "../../pcstream-capture/tests/common/mod.rs"]
mod common;
#[path = "../../pcstream-capture/tests/common/disk.rs"]
mod disk;
#[path = "common/program.rs"]
mod program;
#[path = "../../pcstream-capture/tests/common/programs.rs"]
mod programs;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use disk::{Disk, succeed, text};
use program::{pcstream, said};
use programs::{compile, descending_source};
use tempfile::TempDir;

fn main() -> ExitCode {
    let needs = [common::ext4 as common::Need, common::loop_devices, programs::gcc, programs::dwz];
    common::run(vec![common::test("record_leads_to_source_lines", &needs, source_lines)])
}

/// The write becomes a call of a function that the compiler inlines. It and its types are long enough to be shared.
fn with_an_inlined_call(source: &str) -> String {
    const WRITE: &str = "(int)pwrite(fd, page, sizeof page, at * 4096L)";
    const FUNCTION: &str = "struct place_of_a_page { int file; long offset_in_the_file; };\n\
        static inline __attribute__((always_inline)) int put_a_page(struct place_of_a_page place) {\n\
        return (int)pwrite(place.file, page, sizeof page, place.offset_in_the_file); }\n\
        __attribute__((noinline)) int descend(";
    assert!(source.contains(WRITE));
    let source = source.replace(WRITE, "put_a_page((struct place_of_a_page){fd, at * 4096L})");
    source.replacen("__attribute__((noinline)) int descend(", FUNCTION, 1)
}

/// A debug file of a program, beside it.
fn compressed(program: &Path, how: &str) -> PathBuf {
    let file = program.with_extension(how);
    let compress = format!("--compress-debug-sections={how}");
    succeed("objcopy", &["--only-keep-debug", &compress, text(program), text(&file)]);
    file
}

/// Lines of the program that was recorded, with its debug information in it, and apart from it; none of another build.
/// The frame of `descend` has this place, and what the compiler inlined is there, too.
fn assert_lines_in_json(json: &str, place: &str, how: &str) {
    let json: serde_json::Value = serde_json::from_str(json).expect("JSON");
    let contexts = json["contexts"].as_array().expect("a list");
    let mut frames = contexts.iter().flat_map(|context| context["frames"].as_array().expect("a list"));
    let found = frames.find(|frame| frame["symbol"] == "descend").expect("it is on the paths");
    let file = found["file"].as_str().expect("a file");
    assert!(format!("{file}:{}", found["line"]).ends_with(place), "{how}: {found}");
    let inlined = contexts.iter().any(|of| of["frames"].to_string().contains(r#""function":"put_a_page""#));
    assert!(inlined, "{how}: {json}");
}

fn source_lines() {
    let (disk, dir) = (Disk::ext4(256), TempDir::new().expect("a directory"));
    let source = with_an_inlined_call(&descending_source(3));
    let program = compile(dir.path(), "program", &source, &[]);
    let trace = dir.path().join("t.pctrace");
    let script = format!("{} {}/file", text(&program), text(&disk.mount_point()));
    let mut command = pcstream();
    command.args(["record", "--on"]).arg(disk.mount_point()).arg("-o").arg(&trace);
    let out = command.args(["--", "sh", "-c", &script]).output().expect("pcstream can be started");
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    let run = |command: &str, flags: &[&str]| {
        let out = pcstream().arg(command).arg(&trace).args(flags).output().expect("it starts");
        assert_eq!(out.status.code(), Some(0), "{}", said(&out));
        (String::from_utf8_lossy(&out.stdout).into_owned(), said(&out))
    };
    let line_of = |code: &str| {
        let at = source.lines().position(|line| line.contains(code)).expect("it is there");
        format!("program.c:{}", at + 1)
    };
    let (inner, outer) = (line_of("int r = levels"), line_of("descend(fd, i,"));
    let has_lines = |how: &str| {
        let (shown, remarks) = run("contexts", &["--lines"]);
        assert!(shown.contains(&inner) && shown.contains(&outer), "{how}: {shown}\n{remarks}");
        let (one, _) = run("contexts", &["--lines", "--context", "1"]);
        assert!(
            one.contains(&inner) && one.contains("put_a_page") && one.contains("[inlined]"),
            "{how}: {one}"
        );
        let (advice, _) = run("advise", &["--json", "-"]);
        assert!(advice.contains(&inner), "{how}: {advice}");
        let (json, _) = run("contexts", &["--lines", "--json", "-"]);
        assert_lines_in_json(&json, &inner, how);
    };
    has_lines("in the program");
    // The build id stays; what two programs share goes into a file of its own, from which both take it.
    let other = compile(dir.path(), "other", &source.replace("levels - 1", "levels - 2"), &[]);
    let shared = dir.path().join("shared.debug");
    succeed("dwz", &["-m", text(&shared), "-M", "shared.debug", text(&program), text(&other)]);
    has_lines("in the program and a supplementary file");
    std::fs::remove_file(&shared).expect("it is there");
    let (shown, _) = run("contexts", &["--lines", "--context", "1"]);
    assert!(!shown.contains("[inlined]"), "its name is in the supplementary file alone: {shown}");
    // The same build once more. What the compiler knew of lines goes into debug files, and is compressed there.
    compile(dir.path(), "program", &source, &[]);
    let debug_files = ["zlib", "zstd"].map(|how| compressed(&program, how));
    succeed("strip", &["--strip-debug", text(&program)]);
    let (_, remarks) = run("contexts", &["--lines"]);
    assert!(remarks.contains("without debug information"), "{remarks}");
    for debug_file in debug_files {
        let link = format!("--add-gnu-debuglink={}", text(&debug_file));
        succeed("objcopy", &["--remove-section=.gnu_debuglink", text(&program)]);
        succeed("objcopy", &[&link, text(&program)]);
        has_lines(text(&debug_file));
    }
    compile(dir.path(), "program", &source.replace("levels - 1", "levels - 2"), &[]);
    for command in [&["contexts", "--lines"][..], &["advise"]] {
        let (shown, remarks) = run(command[0], &command[1..]);
        assert!(!shown.contains("program.c:"), "{shown}");
        let why = format!("no source lines of {}: changed since it was recorded", text(&program));
        assert!(remarks.contains(&why), "{remarks}");
    }
    std::fs::remove_file(&program).expect("it is there");
    let (shown, remarks) = run("contexts", &["--lines"]);
    assert!(shown.contains("No source lines are known") && remarks.contains("not here"), "{shown}{remarks}");
}
