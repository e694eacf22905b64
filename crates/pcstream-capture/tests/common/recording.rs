//! A capture as a test sees it: everything that it yields, kept in memory.
// Each test binary compiles this module and uses its own part of it.
#![allow(dead_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;

use pcstream_capture::capture::{
    self, CaptureError, CaptureOptions, Finished, Observer, Progress, Stage, Started, Subject, Target,
};
use pcstream_capture::doctor::{self, Verdict};
use pcstream_capture::session::{Session, SessionMemory, SessionOptions};
use pcstream_fs::scratch::{FsKind, Image, ScratchOptions};
use pcstream_trace::{Batch, Context, Event, Kind, Op, Signature, Tables, Unwind};

use crate::common;

/// RocksDB's fillrandom and overwrite, small.
pub const DB_BENCH: &str = "db_bench --benchmarks=fillrandom,overwrite --num=100000 --value_size=400 --db={}/db \
    --write_buffer_size=2097152 --target_file_size_base=1048576 --compression_type=none --seed=1 \
    --max_background_jobs=2 >/dev/null 2>&1";

pub const GCC: &str = "mkdir src && cd src && export TMPDIR=. && for i in $(seq 50); do \
    echo \"#include <stdio.h>\nint f$i(int x) { printf(\\\"%d\\\", x); return x * $i; }\" > f$i.c; done && \
    for i in $(seq 50); do gcc -O1 -g -c f$i.c || exit 1; done && ld -r -o all *.o";

pub fn fs_need(fs: FsKind) -> common::Need {
    match fs {
        FsKind::Ext4 => common::ext4,
        _ => common::xfs,
    }
}

/// A kernel that the capture program runs on. One that has all and yet refuses the program makes the tests fail.
pub fn bpf() -> Option<String> {
    let checks = pcstream_capture::doctor::examine();
    let missing = checks.iter().find(|check| check.verdict == Verdict::Missing)?;
    if missing.name == doctor::PROGRAM {
        return None;
    }
    Some(format!("{}: {}", missing.name, missing.found))
}

pub fn prctl() -> Option<String> {
    let mut memory = SessionMemory::uninit();
    let session = Session::open(&SessionOptions::default(), &mut memory).ok()?;
    session.runtime_unavailable().map(|why| format!("a kernel whose prctl can be watched: {why}"))
}

pub fn db_bench() -> Option<String> {
    program("db_bench", "rocksdb-tools")
}
pub fn sqlite() -> Option<String> {
    program("sqlite3", "sqlite3")
}
pub fn fio() -> Option<String> {
    program("fio", "fio")
}
pub fn gcc() -> Option<String> {
    program("gcc", "gcc")
}
pub fn nothing() -> Option<String> {
    None
}

pub fn program(name: &str, package: &str) -> Option<String> {
    pcstream_capture::command::find(name.as_ref()).is_err().then(|| format!("{name} (apt install {package})"))
}

/// Everything a capture yields.
#[derive(Default)]
pub struct Recording {
    pub tables: Tables,
    pub events: Vec<Event>,
    /// What came before it started.
    pub stages: Vec<Stage>,
    pub started: Option<Started>,
    pub finished: Option<Finished>,
    /// A file that is made when the first context is known.
    pub when_known: Option<PathBuf>,
    /// A directory where a file is made for each that was written by a context with an exact path, of the same name.
    pub when_exact: Option<PathBuf>,
}

impl Observer for Recording {
    fn starting(&mut self, stage: Stage) {
        self.stages.push(stage);
    }

    fn started(&mut self, started: &Started) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.started = Some(started.clone());
        Ok(())
    }

    fn batch(&mut self, batch: Batch) -> Result<(), Box<dyn Error + Send + Sync>> {
        if !batch.contexts.is_empty()
            && let Some(path) = self.when_known.take()
        {
            std::fs::write(path, "")?;
        }
        self.tables.absorb(&batch);
        if let Some(directory) = &self.when_exact {
            for event in batch.events.iter().filter(|event| event.op == Op::Write) {
                let context = self.tables.context(event.context);
                let name = Path::new(self.path(event)).file_name();
                if let (Some(Unwind::Exact), Some(name)) = (context.map(|context| context.unwind), name) {
                    std::fs::write(directory.join(name), "")?;
                }
            }
        }
        self.events.extend(batch.events);
        Ok(())
    }

    fn progress(&mut self, _: &Progress) {}
}

impl Recording {
    pub fn finished(&self) -> &Finished {
        self.finished.as_ref().expect("the capture finished")
    }

    pub fn data_writes(&self) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(|event| event.op == Op::Write && event.kind == Kind::Data)
    }

    /// The context of an event with the names of its functions.
    pub fn context(&self, event: &Event) -> Option<&Context> {
        self.finished().contexts.get((event.context.0 as usize).checked_sub(1)?)
    }

    pub fn path(&self, event: &Event) -> &str {
        self.tables.file(event.file).map_or("", |file| &file.path)
    }

    /// Pages written by context, for files that `wanted` accepts.
    pub fn writers_of(&self, wanted: impl Fn(&str) -> bool) -> BTreeMap<u32, u64> {
        let mut pages = BTreeMap::new();
        for event in self.data_writes().filter(|event| wanted(self.path(event))) {
            *pages.entry(event.context.0).or_default() += u64::from(event.pages);
        }
        pages
    }

    /// Pages of one file that were written, each counted once. The kernel may write a page more than once: whoever calls
    /// `sync` makes it write early, and the next store into a large folio makes all its pages dirty again.
    pub fn distinct_pages(&self, file: &str) -> usize {
        let written = self.data_writes().filter(|event| self.path(event) == file);
        let pages = written.flat_map(|event| (0..u64::from(event.pages)).map(|page| event.lba.0 + page));
        pages.collect::<BTreeSet<_>>().len()
    }

    pub fn pages_by_signature(&self) -> BTreeMap<Signature, u64> {
        let mut pages = BTreeMap::new();
        for event in self.data_writes() {
            let signature = self.context(event).map_or(Signature(0), |context| context.signature);
            *pages.entry(signature).or_default() += u64::from(event.pages);
        }
        pages
    }
}

pub fn scratch(fs: FsKind) -> ScratchOptions {
    ScratchOptions { fs, size_bytes: 1 << 30, fill: 0.2, image: Image::Zram, ..ScratchOptions::default() }
}

pub fn try_record(
    command: Vec<OsString>,
    target: Target,
    session: SessionOptions,
) -> Result<Recording, CaptureError> {
    try_record_into(Recording::default(), command, target, session)
}

pub fn try_record_into(
    mut recording: Recording,
    command: Vec<OsString>,
    target: Target,
    session: SessionOptions,
) -> Result<Recording, CaptureError> {
    let options = CaptureOptions { session, ..CaptureOptions::new(Subject::Command(command), target) };
    let finished = capture::capture(&options, &AtomicUsize::new(0), &mut recording)?;
    recording.finished = Some(finished);
    Ok(recording)
}

/// The command ended well.
pub fn assert_succeeded(recording: &Recording, what: &str) {
    let status = recording.finished().status;
    assert!(status.is_some_and(|status| status.success()), "{what}: {status:?}");
}

pub fn shell(script: &str) -> Vec<OsString> {
    ["sh", "-c", script].map(OsString::from).to_vec()
}

/// Recordings, at most, while the kernel moves memory.
const TRIES: usize = 20;

/// Pages that the kernel has moved, as for large folios of other programs.
fn moved_pages() -> u64 {
    let counters = std::fs::read_to_string("/proc/vmstat").expect("the kernel counts");
    let moved = counters.lines().find_map(|line| line.strip_prefix("pgmigrate_success "));
    moved.map_or(0, |moved| moved.parse().expect("a number"))
}

/// A capture that must work. A dirty folio that the kernel moves loses its tag (docs/capture.md, limits): such a
/// recording is made again.
pub fn record_with(command: Vec<OsString>, target: Target, session: SessionOptions) -> Recording {
    record_again(|| try_record(command.clone(), target.clone(), session.clone()))
}

pub fn record_again(record: impl Fn() -> Result<Recording, CaptureError>) -> Recording {
    let mut tries = 0;
    loop {
        tries += 1;
        let before = moved_pages();
        let recording = record().expect("the capture works");
        assert_succeeded(&recording, "");
        let untagged = recording.finished().statistics["pages_without_context"];
        let moved = moved_pages() - before;
        if untagged == 0 || moved == 0 || tries == TRIES {
            return recording;
        }
        eprintln!("    {untagged} folios without a context, while the kernel moved {moved} pages: once more");
    }
}

pub fn record(fs: FsKind, script: &str) -> Recording {
    let recording = record_with(shell(script), Target::Scratch(scratch(fs)), SessionOptions::default());
    assert_complete(&recording);
    recording
}

pub fn assert_complete(recording: &Recording) {
    let finished = recording.finished();
    assert_eq!(finished.lost(), 0, "{:?}", finished.losses);
    assert!(recording.events.is_sorted_by_key(|event| event.time_ns));
    let pages = recording.started.as_ref().expect("it started").device_pages;
    assert!(recording.events.iter().all(|event| event.lba.0 + u64::from(event.pages) <= pages));
}

/// Names of the functions on the call path of a context.
pub fn functions(recording: &Recording, context: u32) -> Vec<&str> {
    recording.finished().contexts[context as usize - 1]
        .frames
        .iter()
        .map(|frame| frame.symbol.as_str())
        .collect()
}

pub fn has_function(recording: &Recording, context: u32, name: &str) -> bool {
    functions(recording, context).iter().any(|function| function.contains(name))
}
