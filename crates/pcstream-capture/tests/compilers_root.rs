//! The BPF program, compiled by every clang that is installed, is accepted by the running kernel in each of its settings.

#[path = "../clang.rs"]
mod clang;
mod common;
#[path = "common/recording.rs"]
mod recording;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, ExitCode};

use libbpf_rs::{ObjectBuilder, OpenObject, libbpf_sys};
use object::{Object, ObjectSymbol};
use pcstream_capture::session::{Followed, PlacedBy, has_tracepoint, uring_tracepoint};
use pcstream_capture::wire::UnwindMode;
use recording::bpf;
use tempfile::TempDir;

/// Settings that decide which of the program's code the verifier looks at.
const SETTINGS: [(&str, &[(&str, u32)]); 11] = [
    ("by default", &[]),
    ("with write buffers", &[("buffers", 1), ("check_every", 1)]),
    ("with mappings looked up one by one", &[("per_address_lookup", 1), ("buffers", 1)]),
    ("with scans only", &[("unwind", UnwindMode::UNWIND_SCAN.0)]),
    ("on a device without a file system", &[("raw", 1)]),
    ("following processes", &[("followed", Followed::Processes as u32)]),
    ("following a cgroup", &[("followed", Followed::Cgroup as u32)]),
    ("following a directory and processes", &[("only_below", 12), ("followed", Followed::Processes as u32)]),
    ("placed by the module, on a volume", &[("placing", PlacedBy::Module as u32), ("stream_dev", 1)]),
    ("placed by a server", &[("placing", PlacedBy::Server as u32)]),
    (
        "answering programs that own the device",
        &[("placing", PlacedBy::Programs as u32), ("raw", 1), ("answering", 1), ("buffers", 1)],
    ),
];

fn main() -> ExitCode {
    let mut compilers = BTreeMap::new();
    for name in clang::names().filter(|name| clang::runs(name)) {
        compilers.entry(version(&name)).or_insert(name);
    }
    if compilers.is_empty() {
        eprintln!("no clang found: it was needed to build this test");
        return ExitCode::FAILURE;
    }
    let test = |(version, name): (String, String)| {
        common::test(format!("the_program_of_clang_{version}_loads"), &[bpf], move || loads(&name))
    };
    common::run(compilers.into_iter().map(test).collect())
}

/// The compiler's main version, as it says itself.
fn version(clang: &str) -> String {
    let output = Command::new(clang).arg("--version").output().expect("it ran before");
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.split("version ").nth(1).and_then(|rest| rest.split('.').next());
    version.unwrap_or_else(|| panic!("{clang} says {text:?}")).to_owned()
}

fn loads(clang: &str) {
    let directory = TempDir::new().expect("a directory");
    let object = directory.path().join("pcstream.bpf.o");
    compile(clang, directory.path(), &object);
    for (name, settings) in SETTINGS {
        let mut open = ObjectBuilder::default().open_file(&object).expect("it is an object");
        for &(setting, value) in settings {
            set(&mut open, &object, setting, value);
        }
        let is = |setting, value: u32| settings.contains(&(setting, value));
        let placing = settings.iter().any(|&(setting, _)| setting == "placing");
        for mut program in open.progs_mut() {
            // As a session chooses.
            let wanted = match program.name().to_str() {
                Some("on_uring_submit") => uring_tracepoint().is_some_and(|name| {
                    program.set_attach_target(0, Some(name.to_owned())).expect("the kernel has it");
                    true
                }),
                Some("on_prctl") => has_tracepoint("task_prctl_unknown"),
                // Not all kernels let their functions be watched, and a capture does without.
                Some("on_fcntl" | "on_migrate") => false,
                Some("on_bio") => !placing,
                Some("on_placed_bio") => placing,
                Some("on_fork") => is("followed", Followed::Processes as u32),
                Some("on_buffer_page") => is("buffers", 1),
                _ => continue,
            };
            program.set_autoload(wanted);
        }
        if let Err(error) = open.load() {
            panic!("{clang}, {name}: {error}");
        }
    }
}

/// Compiles the program as `build.rs` does, with warnings as errors.
fn compile(clang: &str, directory: &Path, object: &Path) {
    let headers = directory.join("bpf");
    std::fs::create_dir(&headers).expect("a directory");
    for (name, text) in libbpf_sys::API_HEADERS {
        std::fs::write(headers.join(name), text).expect("it can be written");
    }
    let mut command = Command::new(clang);
    command.args(clang::ARGUMENTS).args(["-Werror", "-g", "-O2", "-target", "bpf", "-c"]);
    command.arg("-I").arg(directory).args(["bpf/pcstream.bpf.c", "-o"]).arg(object);
    let output = command.output().expect("it ran before");
    assert!(output.status.success(), "{clang}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Writes a read-only setting of the program.
fn set(open: &mut OpenObject, object: &Path, setting: &str, value: u32) {
    let file = std::fs::read(object).expect("it can be read");
    let symbols = object::File::parse(&file[..]).expect("it is an object");
    let symbol = symbols.symbols().find(|symbol| symbol.name() == Ok(setting)).expect("it has this setting");
    let at = symbol.address() as usize;
    let mut map =
        open.maps_mut().find(|map| map.name().to_string_lossy().ends_with(".rodata")).expect("settings");
    let settings = map.initial_value_mut().expect("they have values");
    settings[at..at + 4].copy_from_slice(&value.to_ne_bytes());
}
