//! What writes, in a process of its own, and what it costs.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clap::ValueEnum;

use crate::AnyError;
use crate::server::pgbench;

/// First argument that turns this program into a writer.
pub const WRITER: &str = "writer";
/// Pages before a writer starts its file again: what it drops was never written to the device.
const FILE_PAGES: u64 = 4096;
/// Of the workload `files`.
const FILES_OF_A_DIRECTORY: u64 = 500;

const DB_BENCH: [&str; 9] = [
    "--benchmarks=fillrandom,overwrite",
    "--value_size=400",
    "--write_buffer_size=4194304",
    "--target_file_size_base=2097152",
    "--max_bytes_for_level_base=8388608",
    "--compression_type=none",
    "--seed=1",
    "--max_background_jobs=2",
    "--db=db",
];

/// What writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// A new page with every call of 4 KiB, from one call path
    Appends,
    /// A page that is dirty already
    Rewrites,
    /// Appends from four call paths in turn, as a database writes a journal and a file
    Paths,
    /// Appends from 64 call paths, more than a task's cache holds: mostly full captures
    Captures,
    /// A new file of one page with every call, 500 in a directory
    Files,
    /// RocksDB's fillrandom and overwrite
    #[value(name = "db_bench")]
    DbBench,
    /// PostgreSQL with its write buffer watched; needs PostgreSQL and a user postgres
    Pgbench,
}

impl Workload {
    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Workload::Appends => "appends",
            Workload::Rewrites => "rewrites",
            Workload::Paths => "paths",
            Workload::Captures => "captures",
            Workload::Files => "files",
            Workload::DbBench => "db_bench",
            Workload::Pgbench => "pgbench",
        }
    }

    /// Whether this program itself writes.
    pub fn is_writer(self) -> bool {
        !matches!(self, Workload::DbBench | Workload::Pgbench)
    }

    /// What its cost is measured in.
    pub fn unit(self) -> &'static str {
        match self {
            Workload::DbBench => "s of processor time",
            Workload::Pgbench => "us per transaction",
            _ => "ns of processor time per call",
        }
    }
}

/// Runs a workload in a process of its own, calling `meanwhile` until it ends.
pub fn work(
    workload: Workload,
    calls: u64,
    directory: &Path,
    mut meanwhile: impl FnMut() -> Result<(), AnyError>,
) -> Result<f64, AnyError> {
    let mut command = match workload {
        Workload::DbBench => {
            let mut command = Command::new("db_bench");
            command.arg(format!("--num={calls}")).args(DB_BENCH).stderr(Stdio::null());
            command
        }
        Workload::Pgbench => pgbench(directory, "run"),
        _ => {
            let mut command = Command::new(std::env::current_exe()?);
            command.args([WRITER, workload.name(), &calls.to_string()]);
            command
        }
    };
    let report = tempfile::NamedTempFile::new()?;
    let mut child = command.current_dir(directory).stdout(report.reopen()?).spawn()?;
    let (begin, before) = (Instant::now(), processor_seconds_of_children());
    // Whoever waits in poll uses no processor time; without a reader, a nap does the same.
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if let Err(error) = meanwhile() {
            child.kill()?;
            child.wait()?;
            return Err(error);
        }
        if begin.elapsed() > Duration::from_secs(600) {
            child.kill()?;
            child.wait()?;
            return Err(format!("{} did not end within 10 minutes", workload.name()).into());
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    if !status.success() {
        return Err(format!("{} failed: {status}", workload.name()).into());
    }
    let cost = if workload == Workload::DbBench {
        processor_seconds_of_children() - before
    } else {
        fs::read_to_string(report.path())?.trim().parse()?
    };
    if workload != Workload::Pgbench {
        clear(directory)?;
    }
    Ok(cost)
}

/// Processor time of all children that have ended.
fn processor_seconds_of_children() -> f64 {
    // SAFETY: the structure is filled by the call, which cannot fail for this selector.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

fn clear(directory: &Path) -> Result<(), AnyError> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
    }
    rustix::fs::sync();
    Ok(())
}

/// The writers: nanoseconds of this thread's processor time per call.
pub fn write(workload: Workload, calls: u64) -> Result<f64, AnyError> {
    let block = vec![7u8; 4096];
    let mut file = OpenOptions::new().create(true).truncate(true).write(true).open("file")?;
    file.write_all(&block)?;
    let begin = thread_ns();
    for call in 0..calls {
        match workload {
            Workload::Rewrites => file.write_all_at(&block, 0)?,
            Workload::Paths => append(&mut file, &block, call % 4)?,
            Workload::Captures => append(&mut file, &block, call % 64)?,
            Workload::Files => new_file(&block, call)?,
            _ => append(&mut file, &block, 0)?,
        }
        if call % FILE_PAGES == FILE_PAGES - 1 && !matches!(workload, Workload::Rewrites | Workload::Files) {
            file = OpenOptions::new().truncate(true).write(true).open("file")?;
        }
    }
    Ok((thread_ns() - begin) as f64 / calls as f64)
}

fn new_file(block: &[u8], number: u64) -> std::io::Result<()> {
    let directory = format!("d{}", number / FILES_OF_A_DIRECTORY);
    if number.is_multiple_of(FILES_OF_A_DIRECTORY) {
        fs::create_dir(&directory)?;
    }
    fs::write(format!("{directory}/f{number}"), block)
}

/// Appends from a call path of its own for each depth.
#[inline(never)]
fn append(file: &mut File, block: &[u8], depth: u64) -> std::io::Result<()> {
    if depth == 0 {
        return file.write_all(block);
    }
    // Seen through, this would be a loop.
    std::hint::black_box(append)(file, block, depth - 1)?;
    std::hint::black_box(Ok(()))
}

fn thread_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
