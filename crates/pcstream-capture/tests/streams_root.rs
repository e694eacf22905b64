//! Streams of requests: the BPF program finds the stream of most pages, in the version that counts.
//!
//! The test's devices have no streams, so each stream that is chosen is refused, and counted; or it is noted, for a server that is not
//! there. That is what is looked at here; `scripts/devices place fdp-server` shows what an SSD with streams gets.

mod common;
#[path = "common/programs.rs"]
mod programs;
#[path = "common/recording.rs"]
mod recording;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use pcstream_capture::capture::{self, CaptureOptions, Observer, Progress, Started, Subject, Target};
use pcstream_capture::session::{PlacedBy, SessionOptions};
use pcstream_capture::streams::StreamMaps;
use pcstream_fs::scratch::FsKind;
use pcstream_trace::{Batch, ContextId, Op, PAGE_BYTES, Tables};
use pcstream_ublk::table::{SLOTS, STREAMS, StreamTable, Use};
use recording::{bpf, fs_need};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

fn main() -> ExitCode {
    let tests = [FsKind::Ext4, FsKind::Xfs].into_iter().flat_map(|fs| {
        let needs = [fs_need(fs), common::zram, programs::gcc, bpf];
        let (module, server) = ("streams_are_those_of_most_pages_on", "a_server_finds_streams_by_page_on");
        [
            common::test(format!("{module}_{fs}"), &needs, move || majority(fs, PlacedBy::Module)),
            common::test(format!("{server}_{fs}"), &needs, move || majority(fs, PlacedBy::Server)),
        ]
    });
    common::run(tests.collect())
}

/// Rounds in which contexts become known.
const ROUNDS: usize = 3;

/// `first` and `second` write pages. After each round the program waits for a file of the round's name. At last, files with
/// pages of one, and of both. All are written from one place, so that no call path is new at the end. It ends by itself if a file
/// never comes.
const PROGRAM: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
static char page[4096];
__attribute__((noinline)) int first(int fd, int at) { page[0] = 1; int bad = pwrite(fd, page, 4096, at * 4096L) != 4096; return bad; }
__attribute__((noinline)) int second(int fd, int at) { page[0] = 2; int bad = pwrite(fd, page, 4096, at * 4096L) != 4096; return bad; }
__attribute__((noinline)) static int file(const char *dir, const char *name, int firsts, int seconds) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600), bad = fd < 0, at = 0;
  while (at < firsts) bad |= first(fd, at++);
  while (at < firsts + seconds) bad |= second(fd, at++);
  return bad | fsync(fd) | close(fd);
}
static const struct { const char *name; int firsts, seconds, wait; } jobs[] = {
  {"first", 8, 0, 0}, {"second", 0, 8, 1}, {"first", 8, 0, 0}, {"second", 0, 8, 1}, {"first", 8, 0, 0}, {"second", 0, 8, 1},
  {"first", 64, 0, 0}, {"second", 0, 32, 0}, {"most", 5, 3, 0}, {"half", 4, 4, 0},
};
int main(int argc, char **argv) {
  int bad = 0, round = 0;
  alarm(900);
  for (unsigned job = 0; job < sizeof jobs / sizeof *jobs && !bad; job++) {
    bad |= file(argv[1], jobs[job].name, jobs[job].firsts, jobs[job].seconds);
    if (!jobs[job].wait) continue;
    char path[4096];
    snprintf(path, sizeof path, "%s/%d", argv[2], round++);
    while (access(path, F_OK)) usleep(1000);
  }
  return bad;
}
"#;

/// Noted for other pages than those of the device.
const OF_OTHERS: usize = 7;

/// Enters streams when all contexts are known, and lets the program go on.
#[derive(Default)]
struct Entering {
    /// Streams are noted for a server.
    server: bool,
    signals: PathBuf,
    streams: Option<StreamMaps>,
    keys: Vec<(u64, ContextId)>,
    tables: Tables,
    writers: BTreeMap<String, BTreeSet<ContextId>>,
    /// Files written since the last round ended.
    seen: BTreeSet<String>,
    rounds: usize,
    before: Vec<[u64; 2]>,
}

impl Entering {
    /// Pages that should get each stream, and of those without one pages of contexts that have one.
    fn pages(&self) -> Vec<[u64; 2]> {
        let counts = self.streams.as_ref().expect("it places").counts().expect("it can be read");
        let pages = |bytes| bytes / PAGE_BYTES;
        counts.iter().map(|c| [pages(c.refused_bytes + c.bytes), pages(c.minority_bytes)]).collect()
    }

    fn end_round(&mut self) {
        if self.rounds + 1 == ROUNDS {
            let streams = self.streams.as_mut().expect("it places");
            for &(key, context) in &self.keys {
                let of = |file: &str| self.writers[file].contains(&context);
                let versions = if of("/first") { [2, 9] } else { [3, 8] };
                assert!(of("/first") != of("/second"), "{context:?} writes one of them: {:?}", self.writers);
                streams.put(key, versions).expect("there is room");
            }
            streams.switch(1).expect("it can be switched");
            if self.server {
                occupy(streams);
            }
            self.before = self.pages();
        }
        std::fs::write(self.signals.join(self.rounds.to_string()), "").expect("written");
        self.rounds += 1;
        self.seen.clear();
    }
}

impl Observer for Entering {
    fn started(&mut self, _: &Started) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(())
    }

    fn streams(&mut self, streams: StreamMaps) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.streams = Some(streams);
        Ok(())
    }

    fn keys(&mut self, keys: Vec<(u64, ContextId)>) {
        self.keys.extend(keys);
    }

    fn batch(&mut self, batch: Batch) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.tables.absorb(&batch);
        for event in batch.events.iter().filter(|event| event.op == Op::Write && event.file.is_some()) {
            let path = self.tables.file(event.file).map_or("", |file| &file.path).to_owned();
            assert!(event.context.is_some(), "a page of {path} has no context");
            self.writers.entry(path.clone()).or_default().insert(event.context);
            self.seen.insert(path);
        }
        if self.rounds < ROUNDS && self.seen.len() == 2 {
            self.end_round();
        }
        Ok(())
    }

    fn progress(&mut self, _: &Progress) {}
}

/// Each place has the note of a page 4 GiB behind that of the device, as if a server were slow to take them.
fn occupy(streams: &StreamMaps) {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let bytes = SLOTS * size_of::<u64>();
    // SAFETY: a new mapping, of a map that is larger.
    let mapped =
        unsafe { mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, streams.pages(), 0) };
    let places = mapped.expect("the map can be shared").cast::<AtomicU64>();
    for at in 0..SLOTS {
        // SAFETY: within the mapping, and aligned.
        unsafe { &*places.add(at) }.store(((at + SLOTS) << 8 | OF_OTHERS) as u64, Ordering::Relaxed);
    }
    // SAFETY: nobody has a reference into it any more.
    unsafe { munmap(places.cast(), bytes) }.expect("it is mapped");
}

fn majority(fs: FsKind, placed_by: PlacedBy) {
    let dir = tempfile::tempdir().expect("a directory");
    let program = programs::compile(dir.path(), "two", PROGRAM, &[]);
    let server = placed_by == PlacedBy::Server;
    let mut entering = Entering { signals: dir.path().to_owned(), server, ..Entering::default() };
    let words =
        [program.as_os_str(), "{}".as_ref(), Path::as_os_str(dir.path())].map(ToOwned::to_owned).to_vec();
    let (subject, target) = (Subject::Command(words), Target::Scratch(recording::scratch(fs)));
    let session = SessionOptions { placed_by, ..SessionOptions::default() };
    let options = CaptureOptions { session, ..CaptureOptions::new(subject, target) };
    let finished =
        capture::capture(&options, &AtomicUsize::new(0), &mut entering).expect("the capture works");
    assert!(finished.status.is_some_and(|status| status.success()));
    assert_eq!((finished.lost(), entering.rounds), (0, ROUNDS), "{:?}", finished.losses);
    let (before, after) = (&entering.before, entering.pages());
    let change: Vec<_> =
        (0..after.len()).map(|s| [after[s][0] - before[s][0], after[s][1] - before[s][1]]).collect();
    assert_eq!([change[9][0], change[8][0]], [64 + 8, 32], "{change:?}");
    // The half that was no majority, among metadata.
    assert!(change[0][0] >= 8 && change[0][1] == 8, "{change:?}");
    // Each page took the place of another, which goes without its stream.
    let replaced = if server { 64 + 8 + 32 } else { 0 };
    assert_eq!(change[OF_OTHERS][0], replaced, "{change:?}");
    let streams = (1..32).filter(|stream| ![OF_OTHERS, 8, 9].contains(stream));
    let others: u64 = streams.map(|stream| after[stream][0]).sum();
    assert_eq!(others, 0, "the other version does not count: {after:?}");
    if server {
        noted(entering.streams.as_ref().expect("it places"));
    }
}

/// What a server would find: the pages of `first` and `most`, and of `second`, where they lie.
fn noted(streams: &StreamMaps) {
    let table = StreamTable::of_map(streams.pages()).expect("the map is as large as a server expects");
    let mut pages = [0; STREAMS];
    (0..SLOTS as u64).for_each(|page| pages[usize::from(table.take(page))] += 1);
    assert_eq!([pages[9], pages[8]], [64 + 8, 32], "{pages:?}");
    assert_eq!(pages.iter().skip(1).sum::<u64>(), 64 + 8 + 32, "{pages:?}");
    table.count(9, Use { writes: 2, bytes: 8192, refused_bytes: 4096 });
    assert_eq!(streams.served(9).expect("it can be read"), [2, 8192, 4096, 0]);
}
