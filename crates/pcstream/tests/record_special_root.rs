//! `record` where pages do not lead to their file at once: encrypted directories, and memory swapped out to a file. And of programs
//! that are no 64-bit files of a file system.
//!
//! This program is its own writer: started with `--page-out` it makes the kernel swap its memory out.

#[path = "../../pcstream-capture/tests/common/mod.rs"]
mod common;
#[path = "../../pcstream-capture/tests/common/disk.rs"]
mod disk;
#[path = "common/program.rs"]
mod program;
#[path = "../../pcstream-capture/tests/common/programs.rs"]
mod programs;

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::io::{Error, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use disk::{Disk, succeed, text};
use pcstream_trace::event::Kind;
use pcstream_trace::{Op, TraceReader};
use program::record;
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
        common::test(
            "record_says_how_large_blocks_are",
            &[common::xfs, common::loop_devices, large_blocks],
            blocks,
        ),
        common::test("record_says_what_partitions_of_a_disk_are", &[common::loop_devices], on_partitions),
        common::test("record_names_no_functions_of_a_later_build", &with(&[programs::gcc]), overwritten),
        common::test("record_says_what_was_swapped_out", &with(&[swap]), swapped),
        common::test("record_names_programs_in_memory", &with(&[programs::gcc]), in_memory),
        common::test(
            "record_names_system_calls_of_32_bit_programs",
            &with(&[programs::gcc, programs_of_32_bits]),
            of_32_bits,
        ),
    ])
}

/// XFS has blocks larger than a page since Linux 6.12.
fn large_blocks() -> Option<String> {
    common::linux(6, 12)
}

fn blocks() {
    let (disk, dir) = (
        Disk::made(400, &["mkfs.xfs", "-q", "-b", "size=16384"], "discard"),
        TempDir::new().expect("a directory"),
    );
    let trace = dir.path().join("t.pctrace");
    let write = "mkdir d; for i in 1 2 3; do dd if=/dev/zero of=d/$i bs=5k count=10 conv=fsync; done";
    let output = record(&disk.mount_point(), &trace, write);
    assert!(output.status.success(), "{}", program::said(&output));
    let reader = TraceReader::open(&trace).expect("the trace can be read");
    let about = reader.meta().file_system.clone().expect("a file system");
    assert_eq!((about.kind.as_str(), about.block_bytes), ("xfs", 16384));
    let batches: Vec<_> = reader.batches().collect::<Result<_, _>>().expect("events");
    let data = batches.iter().flat_map(|batch| &batch.events);
    let data = data.filter(|event| event.op == Op::Write && event.kind == Kind::Data);
    let pages: u64 = data.map(|event| u64::from(event.pages)).sum();
    assert_eq!(pages, 3 * 16, "three files of 50 KiB, in blocks of 16");
}

/// What is written to its partitions is not of the disk.
fn on_partitions() {
    let (disk, traces) = (Disk::unformatted(64), TempDir::new().expect("a directory"));
    // A partition of type 83 (Linux) from 1 MiB on, of 8 MiB.
    let mut table = [0; 512];
    table[446 + 4] = 0x83;
    table[446 + 8..][..4].copy_from_slice(&2048_u32.to_le_bytes());
    table[446 + 12..][..4].copy_from_slice(&16384_u32.to_le_bytes());
    table[510..].copy_from_slice(&[0x55, 0xAA]);
    fs::File::options()
        .write(true)
        .open(disk.device())
        .and_then(|mut disk| disk.write_all(&table))
        .expect("written");
    succeed("partx", &["--add", disk.device()]);
    let out = record(Path::new(disk.device()), &traces.path().join("t.pctrace"), "true");
    succeed("partx", &["--delete", disk.device()]);
    let (device, name) = (disk.device(), disk.device().trim_start_matches("/dev/"));
    let expected = format!(
        "{device} has partitions ({name}p1), and what is written to them is not seen: give one of them, such as --on {device}p1"
    );
    assert!(program::said(&out).contains(&expected), "{}", program::said(&out));
}

/// A program that is overwritten in place, as `cp` does, and runs again: the first build's functions lie elsewhere.
fn overwritten() {
    let (disk, dir) = (Disk::ext4(64), TempDir::new().expect("a directory"));
    let source = "#include <fcntl.h>\n#include <unistd.h>\nstatic char page[4096];\n\
                  __attribute__((noinline)) void NAME(int file) { for (int i = 0; i < 9; i++) write(file, page, 4096); }\n\
                  int main(int argc, char **argv) { NAME(open(argv[1], O_CREAT | O_WRONLY, 0600)); return 0; }";
    let [first, second] = ["first_build", "second_build"]
        .map(|name| compile(dir.path(), name, source, &["-w", &format!("-DNAME={name}")]));
    let (trace, program) = (dir.path().join("t.pctrace"), dir.path().join("program"));
    let script = format!(
        "cp {0} {2} && {2} one && cp {1} {2} && {2} two",
        text(&first),
        text(&second),
        text(&program)
    );
    let out = record(&disk.mount_point(), &trace, &script);
    let said = program::said(&out);
    assert_eq!(out.status.code(), Some(3), "{said}");
    assert!(
        said.contains("it was overwritten after it had run") && said.contains("modules_changed 1"),
        "{said}"
    );
    let reader = TraceReader::open(&trace).expect("the trace can be read");
    let names = |context: &pcstream_trace::Context| -> Vec<String> {
        let ours = context.frames.iter().filter(|frame| frame.module.ends_with("/program"));
        ours.map(|frame| frame.symbol.clone()).collect()
    };
    let named: BTreeSet<_> = reader.contexts().iter().map(names).filter(|names| !names.is_empty()).collect();
    let all: Vec<&str> = named.iter().flatten().map(String::as_str).collect();
    assert!(all.contains(&"second_build") && all.contains(&"") && !all.contains(&"first_build"), "{named:?}");
    assert_eq!(named.len(), 2, "{named:?}");
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

/// The one context that wrote so many pages of data: its executable and its entry into the kernel.
fn writer(trace: &Path, pages: u64) -> (String, String) {
    let reader = TraceReader::open(trace).expect("the trace can be read");
    let mut written = BTreeMap::new();
    for batch in reader.batches() {
        for event in batch.expect("it can be read").events.iter().filter(|e| e.op == Op::Write) {
            if event.kind == Kind::Data {
                *written.entry(event.context).or_insert(0) += u64::from(event.pages);
            }
        }
    }
    let context = reader.contexts().iter().find(|context| written.get(&context.id) == Some(&pages));
    let context = context.unwrap_or_else(|| panic!("{written:?}"));
    (context.executable.clone(), context.entry.clone())
}

/// A program that copies another to memory, and executes that.
const IN_MEMORY: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>
static char page[4096];
int main(int argc, char **argv, char **environment) {
    if (argc > 2) {
        int fd = open(argv[2], O_CREAT | O_WRONLY, 0600);
        for (int i = 0; i < 50; i++) if (write(fd, page, sizeof page) != sizeof page) return 1;
        return fsync(fd);
    }
    int memory = memfd_create("copied", 0), own = open("/proc/self/exe", O_RDONLY);
    while (sendfile(memory, own, 0, 1 << 20) > 0);
    char *arguments[] = {argv[0], "again", argv[1], 0};
    fexecve(memory, arguments, environment);
    return 1;
}
"#;

/// Its name is that of the memory. No file was lost, so nothing is said of one.
fn in_memory() {
    let (disk, traces) = (Disk::ext4(256), TempDir::new().expect("a directory"));
    let program = compile(traces.path(), "in_memory", IN_MEMORY, &[]);
    let (dir, trace) = (disk.mount_point(), traces.path().join("t.pctrace"));
    let out = record(&dir, &trace, &format!("{} {}/file", text(&program), text(&dir)));
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(writer(&trace, 50), ("/memfd:copied".into(), "write".into()));
}

fn programs_of_32_bits() -> Option<String> {
    let emulation = Path::new("/proc/sys/abi/vsyscall32");
    (!emulation.exists()).then(|| "a kernel that runs 32-bit programs (CONFIG_IA32_EMULATION)".into())
}

/// Their system calls have other numbers: 4 is `write`, 8 `creat`, 118 `fsync`.
const OF_32_BITS: &str = r#"
static char page[4096];
static int call(int number, long a, long b, long c) {
    int result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(a), "c"(b), "d"(c) : "memory");
    return result;
}
void _start(void) {
    int fd = call(8, (long)"file", 0600, 0);
    for (int i = 0; i < 50; i++) call(4, fd, (long)page, sizeof page);
    call(118, fd, 0, 0);
    call(1, 0, 0, 0);
}
"#;

fn of_32_bits() {
    let (disk, traces) = (Disk::ext4(256), TempDir::new().expect("a directory"));
    let flags = ["-m32", "-nostdlib", "-static", "-fno-pic", "-fno-stack-protector"];
    let program = compile(traces.path(), "of_32_bits", OF_32_BITS, &flags);
    let (dir, trace) = (disk.mount_point(), traces.path().join("t.pctrace"));
    let out = record(&dir, &trace, &format!("cd {} && exec {}", text(&dir), text(&program)));
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(writer(&trace, 50), (text(&program).into(), "write (32-bit)".into()));
}
