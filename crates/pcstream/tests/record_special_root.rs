//! `record` where pages do not lead to their file at once: encrypted directories, and memory swapped out to a file.
//!
//! This program is its own writer: started with `--page-out` it makes the kernel swap its memory out.

#[path = "../../pcstream-capture/tests/common/mod.rs"]
mod common;
#[path = "../../pcstream-capture/tests/common/disk.rs"]
mod disk;
#[path = "../../pcstream-capture/tests/common/programs.rs"]
mod programs;

use std::fs;
use std::io::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};

use disk::{Disk, succeed, text};
use pcstream_trace::event::Kind;
use pcstream_trace::{Op, TraceReader};
use programs::compile;
use tempfile::TempDir;

const PAGE_OUT: &str = "--page-out";
const PAGE: usize = 4096;
/// What is swapped out.
const PAGES: usize = 2048;

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(PAGE_OUT) {
        page_out();
        return ExitCode::SUCCESS;
    }
    let needs = [common::ext4 as common::Need, common::loop_devices];
    let with = |more: &[common::Need]| [&needs[..], more].concat();
    common::run(vec![
        common::test(
            "record_encrypted_directories_as_others",
            &with(&[encryption, programs::gcc]),
            encrypted,
        ),
        common::test("record_says_what_was_swapped_out", &with(&[swap]), swapped),
    ])
}

fn encryption() -> Option<String> {
    let feature = Path::new("/sys/fs/ext4/features/encryption");
    (!feature.exists()).then(|| "a kernel with encryption in ext4 (CONFIG_FS_ENCRYPTION)".into())
}

fn swap() -> Option<String> {
    let says = |path: String, word: &str| fs::read_to_string(path).is_ok_and(|text| text.trim() == word);
    if !Path::new("/proc/swaps").exists() {
        return Some("a kernel that swaps".into());
    }
    if says("/sys/module/zswap/parameters/enabled".into(), "Y") {
        return Some("a kernel whose zswap is off: with it, nothing is written".into());
    }
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = groups.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or_default();
    says(format!("/sys/fs/cgroup{group}/memory.swap.max"), "0")
        .then(|| "a control group that may swap".into())
}

fn record(dir: &Path, trace: &Path, script: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pcstream"));
    command.arg("record").arg("--on").arg(dir).arg("-o").arg(trace).args(["--", "sh", "-c", script]);
    command.stdin(Stdio::null()).output().expect("pcstream can be started")
}

/// Buffered, direct and small writes: the pages have the file, the context and the place in the file of what was encrypted.
fn encrypted() {
    let disk = Disk::made(128, &["mkfs.ext4", "-q", "-F", "-b", "4096", "-O", "encrypt"], "discard");
    let (secret, traces) = (disk.mount_point().join("secret"), TempDir::new().expect("a directory"));
    fs::create_dir(&secret).expect("a directory");
    let source = include_str!("../../pcstream-capture/tests/native/encrypt_directory.c");
    let encrypt = compile(traces.path(), "encrypt_directory", source, &[]);
    succeed(text(&encrypt), &[text(&secret)]);
    let trace = traces.path().join("t.pctrace");
    let script = "dd if=/dev/zero of={}/secret/a bs=64k count=16 conv=fsync status=none && \
        dd if=/dev/zero of={}/secret/b bs=4k count=32 oflag=direct status=none && \
        dd if=/dev/zero of={}/plain bs=64k count=4 conv=fsync status=none; sync -f {}";
    let out = record(&disk.mount_point(), &trace, script);
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    let reader = TraceReader::open(&trace).expect("the trace can be read");
    for (name, pages) in [("/secret/a", 256), ("/secret/b", 32), ("/plain", 64)] {
        let file = reader.files().iter().find(|file| file.path == name).expect(name).id;
        let events = reader.batches().flat_map(|batch| batch.expect("it can be read").events);
        let mut written = vec![0; pages];
        for event in events.filter(|event| event.op == Op::Write && event.file == file) {
            assert!(event.kind == Kind::Data && event.context.is_some(), "{name}: {event:?}");
            (0..event.pages).for_each(|page| written[event.file_page as usize + page as usize] += 1);
        }
        assert!(written.iter().all(|&times| times == 1), "{name}: {written:?}");
    }
    let statistics = &reader.meta().settings["statistics"];
    assert_eq!(statistics["pages_without_context"], 0, "{statistics}");
}

/// A file that is swapped to until it is dropped.
struct Swap(PathBuf);

impl Swap {
    fn on(file: PathBuf) -> Swap {
        fs::write(&file, vec![0; 2 * PAGES * PAGE]).expect("a file");
        succeed("chmod", &["600", text(&file)]);
        succeed("mkswap", &[text(&file)]);
        // Before any other swap that the machine has.
        succeed("swapon", &["--priority", "32767", text(&file)]);
        Swap(file)
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        let off = Command::new("swapoff").arg(&self.0).status();
        assert!(off.is_ok_and(|status| status.success()) || std::thread::panicking(), "cannot end the swap");
    }
}

fn page_out() {
    const MADV_PAGEOUT: i32 = 21;
    let bytes = PAGES * PAGE;
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: new memory, which this program alone uses; each page gets other contents than the one before.
    unsafe {
        let memory = libc::mmap(std::ptr::null_mut(), bytes, access, flags, -1, 0);
        assert_ne!(memory, libc::MAP_FAILED);
        for page in 0..PAGES {
            memory.cast::<u64>().add(page * PAGE / 8).write(page as u64 + 1);
        }
        assert_eq!(libc::madvise(memory, bytes, MADV_PAGEOUT), 0, "{}", Error::last_os_error());
    }
}

fn swapped() {
    let disk = Disk::ext4(128);
    let _swap = Swap::on(disk.mount_point().join("swap"));
    let traces = TempDir::new().expect("a directory");
    let trace = traces.path().join("t.pctrace");
    let program = std::env::current_exe().expect("it has a path");
    let script = format!("'{}' {PAGE_OUT} && : {{}}", program.display());
    let out = record(&disk.mount_point(), &trace, &script);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(0), "{said}");
    let reader = TraceReader::open(&trace).expect("the trace can be read");
    let pages = reader.meta().settings["statistics"]["pages_of_swap"].as_u64().expect("a number");
    // Others on the machine may be swapped out too, and the kernel may leave out a page that is in use.
    assert!(pages >= PAGES as u64 * 9 / 10, "{pages} pages of swap: {said}");
    assert!(said.contains("swapped out to a file of this file system"), "{said}");
}
