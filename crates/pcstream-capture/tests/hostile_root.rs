//! Programs whose owner wants the recorder to wait, and what they cost it.

mod common;
#[path = "common/programs.rs"]
mod programs;
#[path = "common/recording.rs"]
mod recording;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use pcstream_capture::capture::Target;
use pcstream_capture::session::SessionOptions;
use pcstream_fs::scratch::FsKind;
use recording::{Recording, assert_complete, assert_succeeded, bpf, scratch, try_record_into};
use tempfile::TempDir;

fn main() -> ExitCode {
    let needs = [common::ext4 as common::Need, common::zram, bpf, programs::gcc, fuse];
    let overlay = [&needs[..], &[programs::overlayfs, user_namespaces]].concat();
    common::run(vec![
        common::test("capture_asks_no_file_system_of_a_user_namespace", &overlay, in_user_namespace),
        common::test("capture_asks_no_file_system_that_a_path_leads_into", &needs, beneath),
    ])
}

fn fuse() -> Option<String> {
    (!Path::new("/dev/fuse").exists()).then(|| "FUSE (modprobe fuse)".into())
}

fn user_namespaces() -> Option<String> {
    let most = std::fs::read_to_string("/proc/sys/user/max_user_namespaces").unwrap_or_default();
    matches!(most.trim(), "" | "0").then(|| "user namespaces".into())
}

/// Records a program that serves itself. It ends once the recorder knows it, and says who else asked it for something.
fn record_silent(way: &str) -> Recording {
    let dir = TempDir::new().expect("a directory can be made");
    let built = programs::compile(dir.path(), "silent", include_str!("hostile/silent.c"), &[]);
    let at = |name: &str| dir.path().join(name);
    let words = [built.as_os_str(), way.as_ref(), dir.path().as_os_str(), "{}/file".as_ref()];
    let mut command = words.map(OsString::from).to_vec();
    command.extend([at("asked"), at("seen")].map(OsString::from));
    let recording = Recording { when_known: Some(at("seen")), ..Recording::default() };
    let target = Target::Scratch(scratch(FsKind::Ext4));
    let recording =
        try_record_into(recording, command, target, SessionOptions::default()).expect("the capture works");
    assert_eq!(std::fs::read_to_string(at("asked")).ok(), None, "it was asked");
    assert_succeeded(&recording, way);
    recording
}

/// An overlay over FUSE, both of a user namespace: its program has no names, and that is said.
fn in_user_namespace() {
    let recording = record_silent("overlay");
    let finished = recording.finished();
    assert!(finished.losses["modules_not_opened"] > 0, "{:?}", finished.losses);
    assert!(finished.notes.iter().any(|note| note.contains("user namespace")), "{:?}", finished.notes);
    assert_eq!(finished.counts.covered_pages, finished.counts.data_pages);
}

/// The program's path leads into FUSE here, and to the program in its own mount namespace.
fn beneath() {
    let recording = record_silent("beneath");
    assert_complete(&recording);
    let writers = recording.writers_of(|path| path == "/file");
    let named = |&id: &u32| recording::has_function(&recording, id, "main");
    assert!(!writers.is_empty() && writers.keys().all(named), "{:?}", recording.finished().contexts);
}
