//! Programs whose owner wants the recorder to wait, and what they cost it.

mod common;
#[path = "common/disk.rs"]
mod disk;
#[path = "common/programs.rs"]
mod programs;
#[path = "common/recording.rs"]
mod recording;

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;

use disk::{Disk, succeed, text};
use object::ReadRef;
use pcstream_capture::attach::command_of;
use pcstream_capture::buffers::{Program, probes_of_running};
use pcstream_capture::capture::Target;
use pcstream_capture::modules::module_data::ModuleData;
use pcstream_capture::modules::reading_limits::Allowance;
use pcstream_capture::modules::{Lack, Modules};
use pcstream_capture::session::SessionOptions;
use pcstream_capture::wire::PathRecord;
use pcstream_fs::extents::DeviceNumber;
use pcstream_fs::scratch::{FsKind, users_of};
use recording::{Recording, assert_complete, assert_succeeded, bpf, scratch, try_record_into};
use rustix::fs::Advice;
use tempfile::TempDir;

/// Where what is served by FUSE has its common part.
const FUSE: &str = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/tests/hostile");

fn main() -> ExitCode {
    let needs = [common::ext4 as common::Need, common::zram, bpf, programs::gcc, common::fuse];
    let overlay = [&needs[..], &[common::overlayfs, user_namespaces]].concat();
    let locked = [programs::gcc as common::Need, common::fuse];
    let on_xfs = [&locked[..], &[common::xfs, common::overlayfs]].concat();
    common::run(vec![
        common::test("capture_asks_no_file_system_of_a_user_namespace", &overlay, in_user_namespace),
        common::test("capture_asks_no_file_system_that_a_path_leads_into", &needs, beneath),
        common::test("a_process_that_keeps_answers_back_is_not_waited_for", &locked, locked_memory),
        common::test("a_file_that_is_being_written_is_read_and_not_waited_for", &on_xfs, locked_file),
    ])
}

fn user_namespaces() -> Option<String> {
    let most = std::fs::read_to_string("/proc/sys/user/max_user_namespaces").unwrap_or_default();
    matches!(most.trim(), "" | "0").then(|| "user namespaces".into())
}

/// Records a program that serves itself. It ends once the recorder knows it, and says who else asked it for something.
fn record_silent(way: &str) -> Recording {
    let dir = TempDir::new().expect("a directory can be made");
    let built = programs::compile(dir.path(), "silent", include_str!("hostile/silent.c"), &[FUSE]);
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

/// A process that keeps a lock. It ends when this is dropped.
struct Locked {
    dir: TempDir,
    server: Child,
    pid: u32,
}

impl Locked {
    /// With a lock of this kind: of its memory, or of a file's inode.
    fn new(kind: &str, file: Option<&Path>) -> Locked {
        let dir = TempDir::new().expect("a directory can be made");
        let built = programs::compile(dir.path(), "locked", include_str!("hostile/locked.c"), &[FUSE]);
        std::fs::create_dir(dir.path().join("served")).expect("a directory can be made");
        let mut command = Command::new(built);
        command.arg(kind).arg(dir.path().join("served")).args(file).stdout(Stdio::piped());
        let mut server = command.spawn().expect("it starts");
        let mut line = String::new();
        let said = server.stdout.take().expect("it is a pipe");
        BufReader::new(said).read_line(&mut line).expect("it says something");
        Locked { dir, server, pid: line.trim().parse().expect("the number of a process") }
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Of each way to ask there is another process, because one that did not answer is not asked again.
fn locked_memory() {
    let locked = Locked::new("memory", None);
    assert_eq!(command_of(locked.pid), None);

    let locked = Locked::new("memory", None);
    let mut modules = Modules::default();
    let mut record = PathRecord { key: 7, pid: locked.pid, inode: 1, components: 1, ..Default::default() };
    record.length[0] = 7;
    record.text[..7].copy_from_slice(b"nowhere");
    modules.add(&record);
    modules.mark_used(7);
    assert_eq!(modules.lacking(), [("/nowhere", Lack::NotOpened)]);

    let locked = Locked::new("memory", None);
    let device = |path: &Path| {
        DeviceNumber::from_stat(std::os::linux::fs::MetadataExt::st_dev(
            &path.metadata().expect("it is there"),
        ))
    };
    let users = users_of(device(locked.dir.path()));
    assert!(users.iter().any(|user| user.pid == locked.pid), "it is judged by its links: {users:?}");
}

/// What is read is what was there, although no cache has it; through an overlay, too.
fn locked_file() {
    let disk = Disk::made(600, &["mkfs.xfs", "-q"], "discard");
    let at = |name: &str| disk.mount_point().join(name);
    ["lower", "upper", "work", "merged"]
        .iter()
        .for_each(|dir| std::fs::create_dir(at(dir)).expect("a directory"));
    let contents: Vec<u8> = (0..1_000_000_u32).map(|n| (n / 7) as u8).collect();
    let path = at("lower/program");
    std::fs::write(&path, &contents).expect("it can be written");
    let file = File::open(&path).expect("it is there");
    file.sync_all().expect("it can be synced");
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).expect("the cache can be emptied");
    drop(file);
    let part = |name: &str| text(&at(name)).to_owned();
    let layers = format!("lowerdir={},upperdir={},workdir={}", part("lower"), part("upper"), part("work"));
    succeed("mount", &["-t", "overlay", "-o", &layers, "none", &part("merged")]);
    let locked = Locked::new("file", Some(&path));
    for name in ["lower/program", "merged/program"] {
        let (file, allowance) = (File::open(at(name)).expect("it is there"), Allowance::default());
        let data = ModuleData::of(&file, &allowance);
        assert!((&data).read_bytes_at(0, contents.len() as u64) == Ok(&contents), "{name}");
        let running = [Program { name: "/usr/sbin/mariadbd".into(), file: Arc::new(file) }];
        let refused = probes_of_running(&["mariadb".to_owned()], &running).expect_err("it is no program");
        assert!(refused.to_string().contains("is not a program or library"), "{refused}");
    }
    drop(locked);
    succeed("umount", &[&part("merged")]);
}
