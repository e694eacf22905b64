//! A device without a file system, whose owner writes to it in every way: who wrote what, with and without its word.

mod common;
#[path = "common/disk.rs"]
mod disk;
#[path = "common/programs.rs"]
mod programs;
#[path = "common/recording.rs"]
mod recording;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use disk::Disk;
use pcstream_capture::buffers;
use pcstream_capture::capture::Target;
use pcstream_capture::session::{Session, SessionMemory, SessionOptions};
use recording::{Recording, assert_complete, bpf, functions, gcc, record_with};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mprotect, munmap};
use tempfile::TempDir;

/// Each function writes a MiB of its own, the last one four, in pieces of one. `submit` submits all that goes by io_uring,
/// in the way that the flags say.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <liburing.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "pcstream.h"
#define PART __attribute__((noinline, noclone))
#define BARRIER __asm__ volatile("" ::: "memory")
#define PIECE 65536L
#define MIB (1L << 20)
static int direct, cached, orders[2], answers[2];
static char *data;
static struct io_uring ring;
struct order { const char *data; long bytes, at; };
PART void submit(struct order *o) {
    struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
    struct io_uring_cqe *cqe;
    io_uring_prep_write(sqe, direct, o->data, o->bytes, o->at);
#ifdef WORKER
    io_uring_sqe_set_flags(sqe, IOSQE_ASYNC);
#endif
    if (io_uring_submit(&ring) < 0 || io_uring_wait_cqe(&ring, &cqe) || cqe->res != o->bytes) exit(2);
    io_uring_cqe_seen(&ring, cqe);
    BARRIER;
}
PART void write_it(struct order *o) { if (pwrite(direct, o->data, o->bytes, o->at) != o->bytes) exit(3); BARRIER; }
static void *other(void *unused) {
    struct order o; char answer = 'x';
    while (read(orders[0], &o, sizeof o) == sizeof o) {
        if (o.at < 0) { o.at = -o.at; write_it(&o); } else submit(&o);
        if (write(answers[1], &answer, 1) != 1) exit(4);
    }
    return unused;
}
static void hand_over(const char *from, long bytes, long at) {
    struct order o = { from, bytes, at }; char answer;
    if (write(orders[1], &o, sizeof o) != sizeof o || read(answers[0], &answer, 1) != 1) exit(5);
}
#define EACH(at) for (long end = (at) + MIB, i = (at); i < end; i += PIECE)
PART void sync_plain(long at) { EACH(at) { struct order o = { data, PIECE, i }; write_it(&o); } BARRIER; }
PART void sync_marked(long at) { EACH(at) { pcstream_stream(direct, data, PIECE); hand_over(data, PIECE, -i); } BARRIER; }
PART void ring_marked(long at) { EACH(at) { pcstream_stream(direct, data, PIECE); hand_over(data, PIECE, i); } BARRIER; }
PART void page_marked(long at) { EACH(at) { pcstream_page_dirty(data, 8192); hand_over(data, PIECE, i); } BARRIER; }
PART void unmarked(long at) { EACH(at) hand_over(data, PIECE, i); BARRIER; }
PART void through_cache(long at) { EACH(at) if (pwrite(cached, data, PIECE, i) != PIECE) exit(6); BARRIER; }
PART void large_marked(long at) { pcstream_stream(direct, data, 4 * MIB); hand_over(data, 4 * MIB, at); BARRIER; }
int main(int argc, char **argv) {
    struct io_uring_params parameters = { 0 };
    pthread_t thread;
#ifdef KERNEL_THREAD
    parameters.flags = IORING_SETUP_SQPOLL; parameters.sq_thread_idle = 100;
#endif
    direct = open(argv[1], O_RDWR | O_DIRECT);
    cached = open(argv[1], O_RDWR);
    if (argc < 2 || direct < 0 || cached < 0 || pipe(orders) || pipe(answers)) return 7;
    if (io_uring_queue_init_params(8, &ring, &parameters)) return 8;
    if (posix_memalign((void **)&data, MIB, 4 * MIB)) return 9;
    memset(data, 1, 4 * MIB);
    pthread_create(&thread, 0, other, 0);
    /* Rules for call paths are asked for and answered. */
    for (int round = 0; round < 3; round++) {
        sync_plain(0); sync_marked(MIB); ring_marked(2 * MIB); page_marked(3 * MIB);
        unmarked(4 * MIB); through_cache(5 * MIB); large_marked(8 * MIB);
        usleep(200000);
    }
    return fsync(cached);
}
"#;

/// Pages of a MiB.
const MIB: u64 = 256;

fn main() -> ExitCode {
    let needs = [common::loop_devices as common::Need, bpf, gcc, programs::liburing];
    // Who submits for another thread, or hands over to a worker at once, has no call path here: unless it is marked.
    let ways: [(&str, &[&str], [&str; 2]); 3] = [
        ("by_its_ring", &[], ["io_uring_enter", "< submit <"]),
        ("by_a_worker", &["-DWORKER"], ["io_uring_enter", "< submit < other <"]),
        ("by_a_kernel_thread", &["-DKERNEL_THREAD"], ["io_uring worker", ""]),
    ];
    let test = |(name, flags, unmarked): (&str, &'static [&'static str], [&'static str; 2])| {
        common::test(format!("device_written_{name}"), &needs, move || owned(flags, unmarked))
    };
    let answers = common::test("device_answers_can_be_read_and_not_written", &[bpf], answers);
    common::run(ways.into_iter().map(test).chain([answers]).collect())
}

/// Of a table that any program can have.
fn answers() {
    let mut memory = SessionMemory::uninit();
    let options = SessionOptions { answering: true, raw: true, ..SessionOptions::default() };
    let session = Session::open(&options, &mut memory).expect("it loads");
    let streams = session.streams().expect("they can be opened").expect("they are asked for");
    let table = streams.answers().expect("it can be handed over");
    let mapped = |protection| {
        // SAFETY: a new mapping that nobody uses.
        unsafe { mmap(std::ptr::null_mut(), 4096 * 8, protection, MapFlags::SHARED, &table, 0) }
    };
    assert_eq!(mapped(ProtFlags::READ | ProtFlags::WRITE).err(), Some(Errno::PERM));
    let read = mapped(ProtFlags::READ).expect("it can be read");
    // SAFETY: the mapping is this function's.
    unsafe {
        assert_eq!(mprotect(read, 4096, MprotectFlags::READ | MprotectFlags::WRITE), Err(Errno::ACCESS));
        assert_eq!(*read.cast::<u64>(), 0);
        munmap(read, 4096 * 8).expect("it is mapped");
    }
}

fn build(dir: &Path, flags: &[&str]) -> PathBuf {
    let library = concat!(env!("CARGO_MANIFEST_DIR"), "/../../libpcstream/pcstream.c");
    let common = ["-O2", "-pthread", programs::WITH_LIBPCSTREAM, library, "-luring"];
    programs::compile(dir, "owner", PROGRAM, &[&common, flags].concat())
}

fn owned(flags: &[&str], unmarked: [&str; 2]) {
    let dir = TempDir::new().expect("a directory can be made");
    let program = build(dir.path(), flags);
    let disk = Disk::unformatted(64);
    let what = program.to_str().expect("temporary paths are plain").to_owned();
    let session = SessionOptions {
        buffers: buffers::probes(&[what]).expect("it has probes"),
        ..SessionOptions::default()
    };
    let command = vec![program.into(), "{}".into()];
    let recording = record_with(command, Target::Existing(disk.device().into()), session);
    assert_complete(&recording);
    assert_eq!(recording.started.as_ref().and_then(|started| started.fs), None);
    let own = recording.data_writes().all(|event| recording.path(event) == disk.device());
    assert!(own, "what is written is the device's");
    let marked = |function| ["write buffer", function];
    let expected = [
        (0, 3 * MIB, ["pwrite64", "< write_it < sync_plain <"]),
        (1, 3 * MIB, marked("< sync_marked <")),
        (2, 3 * MIB, marked("< ring_marked <")),
        (3, 3 * MIB, marked("< page_marked <")),
        (4, 3 * MIB, unmarked),
        // The cache takes what is overwritten once.
        (5, MIB, ["pwrite64", "< through_cache <"]),
        (8, 12 * MIB, marked("< large_marked <")),
    ];
    for (at, pages, [entry, function]) in expected {
        let found = writers(&recording, at, if at == 8 { 12 } else { at + 1 });
        let is_ours = |path: &str| path.starts_with(&format!("{entry} <")) && path.contains(function);
        let ours: u64 = found.iter().filter(|(path, _)| is_ours(path)).map(|(_, pages)| pages).sum();
        assert_eq!(found.values().sum::<u64>(), ours, "{entry} {function}: {found:?}");
        assert!(ours >= pages, "{entry} {function}: {found:?}");
    }
}

/// Pages of a range of MiB by entry and call path.
fn writers(recording: &Recording, from: u64, to: u64) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for event in recording.data_writes().filter(|event| (from * MIB..to * MIB).contains(&event.lba.0)) {
        let path = recording.context(event).map_or(String::new(), |context| {
            format!("{} < {}", context.entry, functions(recording, event.context.0).join(" < "))
        });
        *found.entry(path).or_default() += u64::from(event.pages);
        assert_eq!(event.file_page, event.lba.0);
    }
    found
}
