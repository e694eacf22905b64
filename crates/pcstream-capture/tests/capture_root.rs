//! Captures on the real kernel: real programs, both file systems, every way to write.
//!
//! What a capture says is held against what the programs did: against FIEMAP for the pages of files,
//! against file names for who wrote what, against a second run for signatures.

mod common;
#[path = "common/disk.rs"]
mod disk;
#[path = "common/recording.rs"]
mod recording;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicUsize;

use disk::{Disk, succeed, text};
use pcstream_capture::attach::Running;
use pcstream_capture::capture::{self, CaptureOptions, Observer, Progress, Stage, Started, Subject, Target};
use pcstream_capture::session::SessionOptions;
use pcstream_fs::extents;
use pcstream_fs::scratch::FsKind;
use pcstream_trace::{Batch, Event, Kind, Op};
use recording::*;

/// First argument that turns this program into the writer of known files.
const WRITER: &str = "--write-known-files";
/// Share of written data bytes that must carry a context.
const COVERAGE: f64 = 0.99;
/// Share of bytes whose signatures must be the same in a second run.
const STABLE: f64 = 0.95;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, flag, report] = &arguments[..]
        && flag == WRITER
    {
        write_known_files(Path::new(report)).expect("the writer works");
        return ExitCode::SUCCESS;
    }
    let mut tests = Vec::new();
    for fs in [FsKind::Ext4, FsKind::Xfs] {
        let needs = [fs_need(fs), common::zram, bpf];
        for workload in WORKLOADS {
            let needs: Vec<_> = needs.into_iter().chain([workload.needs]).collect();
            tests.push(common::test(
                format!("capture_{fs}_{}_is_covered", workload.name),
                &needs,
                move || {
                    covered(fs, workload);
                },
            ));
        }
        tests.push(common::test(format!("capture_{fs}_pages_equal_fiemap"), &needs, move || {
            pages_equal_fiemap(fs)
        }));
        tests.push(common::test(format!("capture_{fs}_kinds_are_distinguished"), &needs, move || kinds(fs)));
        tests.push(common::test(format!("capture_{fs}_renamed_files_have_both_names"), &needs, move || {
            renamed(fs)
        }));
    }
    let needs = |tool| [common::ext4 as common::Need, common::zram, bpf, tool];
    tests.push(common::test(
        "capture_rocksdb_contexts_name_its_activities",
        &needs(db_bench),
        rocksdb_contexts,
    ));
    tests.push(common::test("capture_sqlite_journal_and_database_differ", &needs(sqlite), sqlite_contexts));
    tests.push(common::test("capture_gcc_stages_differ", &needs(gcc), gcc_contexts));
    tests.push(common::test(
        "capture_with_per_address_lookup_is_covered_too",
        &needs(gcc),
        per_address_lookup,
    ));
    tests.push(common::test(
        "capture_existing_directory",
        &[common::ext4, common::zram, bpf],
        existing_directory,
    ));
    tests.push(common::test(
        "capture_that_is_unmounted_at_the_start_is_refused",
        &[common::ext4, common::zram, common::loop_devices, bpf],
        unmounted_at_the_start,
    ));
    tests.push(common::test(
        "capture_partition_pages_equal_fiemap",
        &[common::ext4, common::loop_devices, partitions, bpf],
        partition,
    ));
    tests.push(common::test("capture_command_that_cannot_start", &[common::zram, bpf], cannot_start));
    tests.push(common::test("capture_leftover_process_is_ended", &[common::zram, bpf], leftover));
    tests.push(common::test("capture_reports_failure_and_signal", &[common::zram, bpf], failing_commands));
    common::run(tests)
}

/// A program whose writes must all be attributed.
#[derive(Clone, Copy)]
struct Workload {
    name: &'static str,
    needs: common::Need,
    /// For `sh -c`, in the mount point.
    script: &'static str,
    /// It writes at least this much data.
    least_pages: u64,
}

const SQLITE: &str = "(echo 'create table t(a integer primary key, b text);'; for i in $(seq 1000); do \
    echo 'insert into t(b) values(hex(randomblob(200)));'; done) | sqlite3 test.db";
const WORKLOADS: [Workload; 7] = [
    Workload { name: "rocksdb", needs: db_bench, script: DB_BENCH, least_pages: 10_000 },
    Workload { name: "sqlite", needs: sqlite, script: SQLITE, least_pages: 1_000 },
    Workload {
        name: "dd_direct",
        needs: nothing,
        script: "dd if=/dev/zero of=file bs=256k count=100 oflag=direct 2>/dev/null",
        least_pages: 6_400,
    },
    Workload {
        name: "mmap",
        needs: fio,
        script: "fio --name=m --ioengine=mmap --rw=randwrite --bs=4k --size=32m --filename=m --end_fsync=1 >/dev/null",
        least_pages: 8_000,
    },
    Workload {
        name: "io_uring_buffered",
        needs: fio,
        script: "fio --name=b --ioengine=io_uring --rw=randwrite --bs=4k --size=32m --iodepth=16 --filename=b \
                 --end_fsync=1 >/dev/null",
        least_pages: 8_000,
    },
    Workload {
        name: "io_uring_direct",
        needs: fio,
        script: "fio --name=d --ioengine=io_uring --direct=1 --rw=randwrite --bs=4k --size=32m --iodepth=16 \
                 --filename=d >/dev/null",
        least_pages: 8_000,
    },
    Workload { name: "gcc", needs: gcc, script: GCC, least_pages: 100 },
];

fn assert_covered(recording: &Recording, least_pages: u64) {
    let counts = recording.finished().counts;
    let coverage = counts.covered_pages as f64 / counts.data_pages as f64;
    eprintln!(
        "    {:.3} % of {} data pages, {} contexts, {:?}",
        100.0 * coverage,
        counts.data_pages,
        recording.finished().contexts.len(),
        recording.finished().statistics
    );
    assert!(counts.data_pages >= least_pages, "only {} data pages", counts.data_pages);
    assert!(coverage >= COVERAGE, "coverage {coverage}");
}

fn covered(fs: FsKind, workload: Workload) {
    assert_covered(&record(fs, workload.script), workload.least_pages);
}

fn per_address_lookup() {
    let session = SessionOptions { per_address_lookup: true, ..SessionOptions::default() };
    let looked_up =
        try_record(shell(GCC), Target::Scratch(scratch(FsKind::Ext4)), session).expect("the capture works");
    assert_covered(&looked_up, 100);
    // The same call paths, whichever way the mappings were found.
    assert_stable(&record(FsKind::Ext4, GCC), &looked_up);
}

/// At least `STABLE` of the bytes of `first` come from signatures that `second` has too.
fn assert_stable(first: &Recording, second: &Recording) {
    let (first, second) = (first.pages_by_signature(), second.pages_by_signature());
    let common: u64 =
        first.iter().filter(|(signature, _)| second.contains_key(signature)).map(|(_, pages)| pages).sum();
    let share = common as f64 / first.values().sum::<u64>() as f64;
    eprintln!("    {:.2} % of the pages have signatures of both runs", 100.0 * share);
    assert!(share >= STABLE, "only {share} of the pages");
}

fn dominant(writers: &BTreeMap<u32, u64>) -> u32 {
    *writers.iter().max_by_key(|(_, pages)| **pages).expect("somebody wrote").0
}

/// WAL, flush and compaction have contexts of their own, named after RocksDB's functions.
fn rocksdb_contexts() {
    let first = record(FsKind::Ext4, DB_BENCH);
    let wal = first.writers_of(|path| path.ends_with(".log"));
    let tables = first.writers_of(|path| path.ends_with(".sst"));
    let by = |name: &str| -> BTreeMap<u32, u64> {
        tables
            .iter()
            .filter(|(id, _)| has_function(&first, **id, name))
            .map(|(id, pages)| (*id, *pages))
            .collect()
    };
    let (flush, compaction) = (by("rocksdb::BuildTable"), by("rocksdb::CompactionJob"));
    for (name, writers) in [("WAL", &wal), ("flush", &flush), ("compaction", &compaction)] {
        let heaviest = dominant(writers);
        eprintln!("    {name}: {} pages, {:?}", writers[&heaviest], functions(&first, heaviest));
    }
    assert!(has_function(&first, dominant(&wal), "rocksdb::"), "{:?}", functions(&first, dominant(&wal)));
    let sets = [&wal, &flush, &compaction].map(|writers| writers.keys().copied().collect::<BTreeSet<_>>());
    assert!(sets[0].is_disjoint(&sets[1]) && sets[0].is_disjoint(&sets[2]) && sets[1].is_disjoint(&sets[2]));
    let named: u64 = flush.values().chain(compaction.values()).sum();
    let all: u64 = tables.values().sum();
    assert!(named as f64 >= 0.95 * all as f64, "only {named} of {all} table pages are flush or compaction");
    assert_stable(&first, &record(FsKind::Ext4, DB_BENCH));
}

fn sqlite_contexts() {
    let first = record(FsKind::Ext4, SQLITE);
    let journal = first.writers_of(|path| path.ends_with("-journal"));
    let database = first.writers_of(|path| path.ends_with(".db"));
    assert_ne!(dominant(&journal), dominant(&database));
    let both = |of: &BTreeMap<u32, u64>, other: &BTreeMap<u32, u64>| -> u64 {
        of.iter().filter(|(id, _)| other.contains_key(id)).map(|(_, pages)| pages).sum()
    };
    assert_eq!(both(&journal, &database), 0, "contexts write journal and database");
    assert_stable(&first, &record(FsKind::Ext4, SQLITE));
}

fn gcc_contexts() {
    let first = record(FsKind::Ext4, GCC);
    let written_by = |suffix: &str| -> BTreeSet<String> {
        let ids = first.writers_of(|path| path.ends_with(suffix) && !path.contains(".pcstream"));
        let name = |id: u32| first.finished().contexts[id as usize - 1].executable.clone();
        ids.keys().map(|id| name(*id)).collect()
    };
    let only = |suffix: &str, program: &str| {
        let programs = written_by(suffix);
        assert!(!programs.is_empty(), "nobody wrote *{suffix}");
        assert!(programs.iter().all(|path| path.ends_with(program)), "*{suffix} written by {programs:?}");
    };
    only(".s", "/cc1");
    only(".o", "-as");
    only("/all", "-ld.bfd");
    let contexts = [".s", ".o", "/all"].map(|suffix| first.writers_of(|path| path.ends_with(suffix)));
    for (a, b) in [(0, 1), (0, 2), (1, 2)] {
        assert!(contexts[a].keys().all(|id| !contexts[b].contains_key(id)), "stages share contexts");
    }
    // One process after another, each the last of its program that made pages dirty.
    let ended = |program: &str| {
        let of = |event: &&Event| first.context(event).is_some_and(|c| c.executable.ends_with(program));
        first.events.iter().filter(|event| event.op == Op::Exit).filter(of).count()
    };
    assert_eq!([ended("/cc1"), ended("-as"), ended("-ld.bfd")], [50, 50, 1]);
    assert_stable(&first, &record(FsKind::Ext4, GCC));
}

fn pages_equal_fiemap(fs: FsKind) {
    assert_pages_equal_fiemap(Target::Scratch(scratch(fs)));
}

/// Every page that was written and synced is in the trace under its file, no other page is, and what
/// was unlinked is discarded: at the latest when the file system is unmounted, which one that was there before
/// is not.
fn assert_pages_equal_fiemap(target: Target) {
    let is_unmounted = matches!(target, Target::Scratch(_));
    let report = tempfile::NamedTempFile::new().expect("a temporary file");
    let own = std::env::current_exe().expect("this program has a path");
    let command = vec![own.into_os_string(), WRITER.into(), report.path().as_os_str().to_owned()];
    let recording = try_record(command, target, SessionOptions::default()).expect("the capture works");
    assert_succeeded(&recording, "the writer");
    assert_complete(&recording);
    let mut written: BTreeMap<String, BTreeSet<(u64, u64)>> = BTreeMap::new();
    for event in recording.data_writes() {
        let pages = (0..u64::from(event.pages)).map(|page| (event.lba.0 + page, event.file_page + page));
        written.entry(recording.path(event).to_owned()).or_default().extend(pages);
    }
    let text = fs::read_to_string(report.path()).expect("the writer reported");
    let mut expected: BTreeMap<String, BTreeSet<(u64, u64)>> = BTreeMap::new();
    let mut deleted = BTreeSet::new();
    for line in text.lines() {
        let words: Vec<_> = line.split(' ').collect();
        let [path, lba, logical, pages, fate] = words[..] else { panic!("report line {line:?}") };
        let [lba, logical, pages] = [lba, logical, pages].map(|word| word.parse::<u64>().expect("a number"));
        expected
            .entry(path.to_owned())
            .or_default()
            .extend((0..pages).map(|page| (lba + page, logical + page)));
        if fate == "deleted" {
            deleted.extend(lba..lba + pages);
        }
    }
    assert_eq!(written.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (path, pages) in &expected {
        eprintln!("    {path}: {} pages", pages.len());
        assert_eq!(&written[path], pages, "{path}");
    }
    let mut alive: BTreeSet<u64> = BTreeSet::new();
    let mut discarded: BTreeSet<u64> = BTreeSet::new();
    for event in &recording.events {
        let pages = event.lba.0..event.lba.0 + u64::from(event.pages);
        match event.op {
            Op::Write if event.kind == Kind::Data => alive.extend(pages),
            Op::Discard => {
                alive.retain(|page| !pages.contains(page));
                discarded.extend(pages);
            }
            _ => {}
        }
    }
    if !is_unmounted {
        return;
    }
    assert!(deleted.is_subset(&discarded), "{} pages not discarded", deleted.difference(&discarded).count());
    let kept: BTreeSet<u64> =
        expected.values().flatten().map(|(lba, _)| *lba).filter(|lba| !deleted.contains(lba)).collect();
    assert_eq!(alive, kept, "what is alive at the end is what was kept");
}

/// Stores to some pages of a new file.
fn store_to_mapped(name: &str) -> Result<(), Box<dyn Error>> {
    let mapped = OpenOptions::new().read(true).write(true).create_new(true).open(name)?;
    mapped.set_len(256 << 10)?;
    // SAFETY: a new mapping of a file of this length, used within it.
    unsafe {
        let at = rustix::mm::mmap(
            std::ptr::null_mut(),
            256 << 10,
            rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE,
            rustix::mm::MapFlags::SHARED,
            &mapped,
            0,
        )?;
        for page in [0, 3, 4, 60] {
            at.cast::<u8>().add(page * 4096 + 11).write_volatile(1);
        }
    }
    Ok(())
}

/// Writes files in every way, syncs, reports where they lie, and deletes half of them.
fn write_known_files(report: &Path) -> Result<(), Box<dyn Error>> {
    let block = vec![7u8; 1 << 20];
    let mut sequential = File::create("sequential")?;
    sequential.write_all(&block)?;
    sequential.write_all(&block[..300_001])?;
    let mut scattered = File::create("scattered")?;
    for page in [0u64, 5, 9, 500, 5, 77] {
        scattered.write_all_at(&block[..4096], page * 4096)?;
        scattered.sync_data()?;
    }
    scattered.seek(SeekFrom::End(0))?;
    scattered.write_all(b"a tail")?;
    let mut overwritten = File::create("overwritten")?;
    for _ in 0..3 {
        overwritten.seek(SeekFrom::Start(0))?;
        overwritten.write_all(&block[..128 << 10])?;
        overwritten.sync_all()?;
    }
    let layout = std::alloc::Layout::from_size_align(3 << 20, 4096)?;
    // SAFETY: the layout has a size; the memory is zeroed, used as bytes, and freed at exit.
    let aligned = unsafe { std::slice::from_raw_parts(std::alloc::alloc_zeroed(layout), layout.size()) };
    let direct =
        OpenOptions::new().write(true).create_new(true).custom_flags(libc::O_DIRECT).open("direct")?;
    for piece in [0u64, 2, 3, 1] {
        direct.write_all_at(&aligned[..64 << 10], piece * (64 << 10))?;
    }
    // In several requests: one has 256 pages that lie apart.
    direct.write_all_at(aligned, 256 << 10)?;
    store_to_mapped("mapped")?;
    let small: Vec<String> = (0..40).map(|number| format!("small-{number}")).collect();
    for name in &small {
        fs::write(name, name)?;
    }
    rustix::fs::sync();

    let mut names =
        ["sequential", "scattered", "overwritten", "direct", "mapped"].map(str::to_owned).to_vec();
    names.extend(small);
    let mut lines = String::new();
    for (number, name) in names.iter().enumerate() {
        let fate = if number % 2 == 0 { "deleted" } else { "kept" };
        let map = extents::fiemap(&File::open(name)?)?;
        assert!(map.skipped.is_empty(), "{name}: {:?}", map.skipped);
        for extent in map.extents.into_iter().filter(|extent| !extent.unwritten) {
            lines += &format!(
                "/{name} {} {} {} {fate}\n",
                extent.physical_page, extent.logical_page, extent.pages
            );
        }
    }
    fs::write(report, lines)?;
    for name in names.iter().step_by(2) {
        fs::remove_file(name)?;
    }
    rustix::fs::sync();
    Ok(())
}

/// Metadata of every kind shows up when directories and files come and go.
fn kinds(fs: FsKind) {
    let recording = record(
        fs,
        "for d in $(seq 40); do mkdir d$d; for f in $(seq 30); do echo x > d$d/f$f; done; done; sync; rm -r d1 d2; sync",
    );
    let mut pages: BTreeMap<Kind, u64> = BTreeMap::new();
    for event in recording.events.iter().filter(|event| event.op == Op::Write) {
        *pages.entry(event.kind).or_default() += u64::from(event.pages);
    }
    eprintln!("    {pages:?}");
    for kind in [Kind::Data, Kind::Journal, Kind::Inode, Kind::Directory, Kind::Bitmap] {
        assert!(pages.contains_key(&kind), "no {kind:?} among {pages:?}");
    }
    assert_eq!(pages[&Kind::Data], 1200, "one page for each file");
}

/// `--on DIR`: a file system that was there before, seen from one of its directories.
fn existing_directory() {
    let place = pcstream_fs::scratch::Scratch::create(&scratch(FsKind::Ext4)).expect("a file system");
    let dir = place.mount_point().join("inner");
    fs::create_dir(&dir).expect("a directory");
    let target = Target::Existing(dir);
    let recording = try_record(
        shell("dd if=/dev/zero of=file bs=64k count=64 2>/dev/null"),
        target,
        SessionOptions::default(),
    )
    .expect("the capture works");
    assert_complete(&recording);
    assert_covered(&recording, 1024);
    assert_eq!(recording.stages, [Stage::Load, Stage::Sync]);
    assert!(recording.data_writes().all(|event| recording.path(event) == "/inner/file"));
    assert!(place.mount_point().join("inner/file").exists(), "the file system is left as it is");
    place.remove().expect("it can be removed");
}

/// Gets a remark on a process that has ended when the program is loaded, before the file system is looked at again.
struct Unmounts(PathBuf);

impl Observer for Unmounts {
    fn started(&mut self, _: &Started) -> Result<(), Box<dyn Error + Send + Sync>> {
        panic!("the file system that was asked for is gone");
    }

    fn batch(&mut self, _: Batch) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(())
    }

    fn progress(&mut self, _: &Progress) {}

    fn remark(&mut self, _: &str) {
        succeed("umount", &[text(&self.0)]);
    }
}

/// What is below a mount point that was unmounted belongs to nobody who asked for it.
fn unmounted_at_the_start() {
    let outer = pcstream_fs::scratch::Scratch::create(&scratch(FsKind::Ext4)).expect("a file system");
    let (inner, disk) = (outer.mount_point().join("inner"), Disk::ext4(64));
    fs::create_dir(&inner).expect("a directory");
    succeed("mount", &[disk.device(), text(&inner)]);
    let mut ended = std::process::Command::new("true").spawn().expect("it starts");
    ended.wait().expect("it ends");
    let subject = Subject::Running(Running::Processes(vec![std::process::id(), ended.id()]));
    let options = CaptureOptions::new(subject, Target::Existing(inner.clone()));
    let mut observer = Unmounts(inner);
    let captured = capture::capture(&options, &AtomicUsize::new(0), &mut observer);
    outer.remove().expect("nothing is mounted below it");
    let error = captured.expect_err("another device").to_string();
    assert!(error.contains("mounted or unmounted meanwhile") && error.contains(disk.device()), "{error}");
}

/// Data go by the name that the file has when it is written; one that was removed keeps its last.
fn renamed(fs: FsKind) {
    let recording = record(
        fs,
        "w='dd if=/dev/zero bs=4k status=none conv=notrunc'; $w,fsync of=log.tmp count=50; mv log.tmp log; \
         $w,fsync of=log count=30; $w of=table.tmp count=20 oflag=direct; mv table.tmp table; \
         $w of=table count=10 oflag=direct; exec 3<>log; rm log; $w,fsync count=5 >&3",
    );
    let mut pages = BTreeMap::new();
    for event in recording.data_writes() {
        *pages.entry(recording.path(event)).or_insert(0) += event.pages;
    }
    let expected = [("/log", 35), ("/log.tmp", 50), ("/table", 10), ("/table.tmp", 20)];
    assert_eq!(pages, BTreeMap::from(expected), "{:?}", recording.finished().statistics);
}

/// A file system on the second half of a disk. Requests reach a disk with the partition's start added, and
/// the trace must be free of it.
struct Partition {
    /// Holds the image and the mount point.
    dir: tempfile::TempDir,
    disk: String,
}

impl Partition {
    fn create() -> Partition {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let image = dir.path().join("image");
        File::create(&image).and_then(|file| file.set_len(512 << 20)).expect("an image");
        let disk = succeed("losetup", &["--find", "--show", text(&image)]).trim().to_owned();
        let partition = Partition { dir, disk };
        let sectors = (256u32 << 11).to_string();
        succeed("addpart", &[&partition.disk, "1", &sectors, &sectors]);
        let device = partition.device();
        // Small file systems would get blocks of 1 KiB, which a capture refuses.
        succeed("mkfs.ext4", &["-q", "-F", "-b", "4096", &device]);
        fs::create_dir(partition.mount_point()).expect("a mount point");
        succeed("mount", &["-o", "discard", &device, text(&partition.mount_point())]);
        partition
    }

    fn device(&self) -> String {
        format!("{}p1", self.disk)
    }

    fn mount_point(&self) -> std::path::PathBuf {
        self.dir.path().join("mount")
    }
}

impl Drop for Partition {
    /// Whatever happened, and whatever of it was made. Others, such as udev, may use it for a while.
    fn drop(&mut self) {
        for (program, arguments) in [
            ("umount", vec![text(&self.mount_point())]),
            ("delpart", vec![&self.disk, "1"]),
            ("losetup", vec!["--detach", &self.disk]),
        ] {
            let mut command = std::process::Command::new(program);
            command.args(arguments);
            let mut done = || command.output().is_ok_and(|output| output.status.success());
            if !std::thread::panicking() {
                common::wait_for(program, done);
            } else if !done() {
                eprintln!("    cannot clean up with {program}");
            }
        }
    }
}

fn partitions() -> Option<String> {
    program("addpart", "util-linux")
}

fn partition() {
    let partition = Partition::create();
    assert_pages_equal_fiemap(Target::Existing(partition.mount_point()));
}

fn cannot_start() {
    for (command, part) in
        [("no-such-program-anywhere", "not found in PATH"), ("/etc/passwd", "not an executable")]
    {
        let result = try_record(
            vec![command.into()],
            Target::Scratch(scratch(FsKind::Ext4)),
            SessionOptions::default(),
        );
        let message = result.err().expect("it cannot start").to_string();
        assert!(message.contains(command) && message.contains(part), "{message}");
    }
    assert!(leftovers().is_empty(), "{:?}", leftovers());
}

/// Mounts of this process's runs. Those of others, running or killed, are not judged here.
fn leftovers() -> Vec<String> {
    let ours = format!("/run/pcstream/{}-", std::process::id());
    let mounts = fs::read_to_string("/proc/self/mounts").expect("mounts can be read");
    mounts.lines().filter(|line| line.contains(&ours)).map(str::to_owned).collect()
}

fn leftover() {
    let script = "(sleep 1000000; echo late > late) & echo now > now";
    let recording = record(FsKind::Ext4, script);
    assert!(
        recording.finished().notes.iter().any(|note| note.contains("left running")),
        "{:?}",
        recording.finished().notes
    );
    assert!(leftovers().is_empty(), "{:?}", leftovers());
}

fn failing_commands() {
    for (script, code, signal) in
        [("echo x > f; exit 7", Some(7), None), ("echo x > f; kill -9 $$", None, Some(9))]
    {
        let recording =
            try_record(shell(script), Target::Scratch(scratch(FsKind::Ext4)), SessionOptions::default())
                .expect("the capture works all the same");
        let status = recording.finished().status.expect("a command was started");
        assert_eq!((status.code(), std::os::unix::process::ExitStatusExt::signal(&status)), (code, signal));
        assert_eq!(recording.data_writes().count(), 1, "what was written is there");
        assert_eq!(recording.stages, [Stage::Load, Stage::Make, Stage::Sync]);
    }
}
