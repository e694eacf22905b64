//! What a capture costs a program, in runs taken in turn: without the BPF program, with it aimed at no file
//! system, with it aimed at another one, and with it capturing. Needs root.
//!
//! ```text
//! cargo run --release -p pcstream-capture --features bpf --example cost -- --help
//! ```
//!
//! `appends` makes a new page dirty with every call of 4 KiB; `rewrites` writes to a page that is dirty already;
//! `paths` appends from four call paths in turn, as a database does that writes a journal and a file; `captures`
//! from 64, many more than a task's cache holds, so that most appends are full captures; `db_bench` is RocksDB's
//! fillrandom and overwrite; `pgbench` (only when named; needs PostgreSQL and a user postgres) is PostgreSQL with its write
//! buffer watched. The first four print nanoseconds of processor time per call, taken by the writer
//! itself, `db_bench` the processor time of the whole program, `pgbench` the time of a transaction. Medians; a ratio compares with the run
//! without the program of the same round, and between which values it is, 19 times in 20 (all of them, of fewer than six).
//! Below: runs and nanoseconds of each BPF program, which the kernel counts in rounds of their own, beside those of the same program aimed at no file system, which returns at once: so much of
//! the number is the counting. Then what a page made dirty costs, how much of that is the capture (one more run tags each page and
//! captures nothing) and the tag (one finds task and file of each page and no more), and the instructions that the verifier looked
//! at. What the kernel counts is medians, too.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use libbpf_rs::libbpf_sys;
use pcstream_capture::buffers;
use pcstream_capture::modules::Modules;
use pcstream_capture::session::{LeftOut, Session, SessionMemory, SessionOptions};
use pcstream_capture::unwind::Unwinder;
use pcstream_capture::wire::Record;
use pcstream_fs::scratch::{FsKind, Scratch, ScratchOptions};
use pcstream_trace::Unwind;
use rustix::process::{Pid, Signal};

type AnyError = Box<dyn std::error::Error>;

const USAGE: &str = "\
cost [--rounds N] [--pairs] [--calls N] [--unwind auto|fp|scan] [--no-cache] [--unanswered] [--runs N] [WORKLOAD...]

What a capture costs appends, rewrites, paths, captures, db_bench (these five unless named) and pgbench. Needs root.

  --rounds N     rounds of each comparison with the program that is not captured (9); 0: only what the kernel counts
  --pairs        compare with capturing only, not with a program that is silent or captures another file system
  --calls N      calls of a writer (200000), or keys that db_bench writes, twice (300000): short runs have more in common
  --unwind WAY   how paths are read: auto, fp or scan
  --no-cache     cache no path: what reading one costs while it is warm
  --unanswered   hand out no rules: what a page costs while user space has no time to
  --runs N       what the kernel counts in N short runs: least, median, mean, and between";

/// First argument that turns this program into a writer.
const WRITER: &str = "--writer";
/// Calls of a writer.
const CALLS: u64 = 200_000;
/// Keys that `db_bench` writes, twice.
const KEYS: u64 = 300_000;
/// Calls of a writer in a short run.
const CALLS_OF_A_RUN: u64 = 15_000;
/// Runs under one session, before those of the next kind.
const RUNS_OF_A_TURN: usize = 10;
/// Pages before a writer starts its file again: what it drops was never written to the device.
const FILE_PAGES: u64 = 4096;
/// Rounds in which the kernel counts.
const COUNTED_ROUNDS: usize = 5;

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

/// A database of 150 MB with a buffer of 64 MB is made by `create`, served by `serve`, which ends with its parent, and filled by `fill`;
/// `run` prints the microseconds of a transaction of pgbench's, four at a time, after a checkpoint.
const PGBENCH: &str = r#"
set -eu
bin=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
postgres="setpriv --reuid postgres --regid postgres --init-groups"
case $1 in
create)
    mkdir data socket; chown postgres data socket
    $postgres "$bin/initdb" -D data -A trust >/dev/null ;;
serve)
    exec $postgres --pdeathsig QUIT "$bin/postgres" -D data -c listen_addresses= -c unix_socket_directories="$PWD/socket" \
        -c shared_buffers=64MB -c max_wal_size=1GB >log 2>&1 ;;
fill)
    tries=0
    until $postgres "$bin/pg_isready" -q -h "$PWD/socket"; do
        [ $((tries += 1)) -lt 600 ] || { cat log >&2; exit 1; }
        sleep 0.1
    done
    $postgres "$bin/pgbench" -q -i -s 10 -h "$PWD/socket" postgres >/dev/null 2>&1 ;;
run)
    $postgres "$bin/psql" -q -h "$PWD/socket" -c checkpoint postgres
    $postgres "$bin/pgbench" -n -h "$PWD/socket" -c 4 -T 4 postgres 2>/dev/null | awk '/^tps/ { print 1e6 / $3 }' ;;
esac
"#;

/// The server that pgbench works on: the same one for all runs, for two servers differ more than what is measured.
struct Server {
    process: Child,
}

impl Server {
    fn start(directory: &Path) -> Result<Server, AnyError> {
        let done = |what: &str| match pgbench(directory, what).status()? {
            status if status.success() => Ok::<_, AnyError>(()),
            status => Err(format!("PostgreSQL: {what} failed: {status}").into()),
        };
        done("create")?;
        let server = Server { process: pgbench(directory, "serve").spawn()? };
        done("fill")?;
        Ok(server)
    }
}

fn pgbench(directory: &Path, what: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", PGBENCH, "pgbench", what]).current_dir(directory);
    command
}

impl Drop for Server {
    fn drop(&mut self) {
        // Without a last checkpoint: the database is thrown away.
        let ended = rustix::process::kill_process(Pid::from_child(&self.process), Signal::QUIT)
            .map_err(std::io::Error::from)
            .and_then(|()| self.process.wait());
        if let Err(error) = ended {
            eprintln!("PostgreSQL did not stop: {error}");
        }
    }
}

/// What is attached, and what it is aimed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Without,
    Silent,
    Elsewhere,
    Capturing,
    /// Capturing, but for the captures.
    Tagging,
    /// Capturing, but for captures and tags.
    Finding,
}

/// How paths are captured.
#[derive(Clone, Copy, Debug)]
struct Way {
    unwind: Option<Unwind>,
    no_cache: bool,
    unanswered: bool,
}

/// What is compared with what, if nothing else is said.
const STATES: [State; 4] = [State::Without, State::Silent, State::Elsewhere, State::Capturing];

/// Runs that are compared.
#[derive(Clone, Copy, Debug)]
struct Compared {
    rounds: usize,
    /// The first is what the others are compared with.
    states: &'static [State],
    /// Of a run; none: as many as the workload makes if nothing else is said.
    calls: Option<u64>,
}

impl Compared {
    fn calls_of(&self, workload: &str) -> u64 {
        self.calls.unwrap_or(if workload == "db_bench" { KEYS } else { CALLS })
    }
}

fn main() -> Result<(), AnyError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, workload, calls] = &arguments[..]
        && flag == WRITER
    {
        println!("{}", write(workload, calls.parse()?)?);
        return Ok(());
    }
    let (mut runs, mut compared) = (0, Compared { rounds: 9, states: &STATES, calls: None });
    let (mut way, mut workloads) = (Way { unwind: None, no_cache: false, unanswered: false }, Vec::new());
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--rounds" => {
                let of = rest.next().and_then(|rounds| rounds.parse().ok());
                compared.rounds =
                    of.ok_or("--rounds N: how many? With 0 there is only what the kernel counts")?;
            }
            "--runs" => {
                let of = rest.next().and_then(|runs| runs.parse().ok()).filter(|&runs| runs > 0);
                runs = of.ok_or("--runs N: how many? 120 take a minute")?;
            }
            "--pairs" => compared.states = &[State::Without, State::Capturing],
            "--calls" => {
                let of = rest.next().and_then(|calls| calls.parse().ok()).filter(|&calls| calls > 0);
                compared.calls = Some(of.ok_or("--calls N: how many? 30000 keys of db_bench take a second")?);
            }
            "--no-cache" => way.no_cache = true,
            "--unanswered" => way.unanswered = true,
            "--unwind" => {
                way.unwind = match rest.next().map(String::as_str) {
                    Some("auto") => None,
                    Some("fp") => Some(Unwind::FramePointer),
                    Some("scan") => Some(Unwind::Scan),
                    _ => return Err("--unwind: auto, fp or scan".into()),
                }
            }
            known @ ("appends" | "rewrites" | "paths" | "captures" | "db_bench" | "pgbench") => {
                workloads.push(known)
            }
            "--help" => {
                println!("{USAGE}");
                return Ok(());
            }
            other => {
                let all = "appends, rewrites, paths, captures, db_bench or pgbench";
                return Err(format!("{other}: expected {all}").into());
            }
        }
    }
    if workloads.is_empty() {
        workloads = vec!["appends", "rewrites", "paths", "captures", "db_bench"];
    }
    if !rustix::process::geteuid().is_root() {
        return Err("measuring captures needs root".into());
    }
    println!("{}", processor()?);
    for workload in workloads {
        if runs > 0 {
            measure_runs(workload, way, runs)?;
        } else {
            measure(workload, way, compared)?;
        }
    }
    Ok(())
}

/// The first processor, as the kernel describes it: numbers of two kinds of processors do not compare.
fn processor() -> Result<String, AnyError> {
    let facts = fs::read_to_string("/proc/cpuinfo")?;
    let fact =
        |name| facts.lines().filter_map(|line| line.split_once(':')).find(|fact| fact.0.trim() == name);
    let facts = ["model name", "cpu family", "model", "stepping", "cpu MHz"].map(|name| {
        let value = fact(name).map_or("?", |fact| fact.1.trim());
        if name == "model name" { value.to_owned() } else { format!("{name} {value}") }
    });
    Ok(facts.join(", "))
}

fn scratch() -> Result<Scratch, AnyError> {
    let options =
        ScratchOptions { fs: FsKind::Ext4, size_bytes: 2 << 30, fill: 0.0, ..ScratchOptions::default() };
    Ok(Scratch::create(&options)?)
}

fn measure(workload: &str, way: Way, compared: Compared) -> Result<(), AnyError> {
    let place = scratch()?;
    let device = place.device().number.kernel_dev_t();
    let server = if workload == "pgbench" { Some(Server::start(place.mount_point())?) } else { None };
    let (rounds, states, calls) = (compared.rounds, compared.states, compared.calls_of(workload));
    let mut costs = vec![Vec::new(); states.len()];
    for round in 0..rounds {
        // Each state has each place in the order.
        for turn in 0..states.len() {
            let at = (round + turn) % states.len();
            costs[at].push(run(workload, way, states[at], device, place.mount_point(), calls)?.0);
        }
    }
    let unit = match workload {
        "db_bench" => "s of processor time",
        "pgbench" => "us per transaction",
        _ => "ns per call",
    };
    println!("{workload}: {rounds} rounds, medians in {unit}");
    for (state, values) in states.iter().zip(&costs).filter(|(_, values)| !values.is_empty()) {
        let mut ratios: Vec<f64> =
            values.iter().zip(&costs[0]).map(|(value, without)| value / without).collect();
        ratios.sort_by(f64::total_cmp);
        let (least, greatest) = around_the_median(&ratios);
        println!(
            "  {:10} {:>8.2}   x {:.3} ({least:.3} to {greatest:.3})",
            format!("{state:?}").to_lowercase(),
            median(values.clone()),
            median(ratios)
        );
    }
    let _counting = count_programs()?;
    let counted = |state| Ok::<_, AnyError>(run(workload, way, state, device, place.mount_point(), calls)?.1);
    let mut by_round = Vec::new();
    for _ in 0..COUNTED_ROUNDS {
        by_round.push([
            counted(State::Silent)?,
            counted(State::Finding)?,
            counted(State::Tagging)?,
            counted(State::Capturing)?,
        ]);
    }
    print_programs(&by_round);
    drop(server);
    place.remove()?;
    Ok(())
}

/// What the kernel counted of the BPF programs in a run.
#[derive(Default)]
struct Programs {
    /// Names, runs, nanoseconds of all runs.
    costs: Vec<(&'static str, u64, u64)>,
    verified: Vec<(&'static str, u64)>,
}

impl Programs {
    fn of(&self, program: &str) -> (u64, u64) {
        self.costs.iter().find(|cost| cost.0 == program).map_or((0, 0), |&(_, runs, ns)| (runs, ns))
    }

    fn since(&self, before: &Programs) -> Programs {
        let since = |&(name, runs, ns)| {
            let (runs_before, ns_before) = before.of(name);
            (name, runs - runs_before, ns - ns_before)
        };
        Programs { costs: self.costs.iter().map(since).collect(), verified: self.verified.clone() }
    }

    /// Of a page made dirty, which two programs see.
    fn ns_per_page(&self) -> f64 {
        let ((pages, ns), (_, more)) = (self.of("on_dirty_folio"), self.of("on_mark_dirty"));
        mean(pages, ns + more)
    }
}

fn mean(runs: u64, ns: u64) -> f64 {
    if runs == 0 { 0.0 } else { ns as f64 / runs as f64 }
}

/// Of rounds that were silent, finding, tagging and capturing.
fn print_programs(rounds: &[[Programs; 4]]) {
    let of_rounds = |value: &dyn Fn(&[Programs; 4]) -> f64| median(rounds.iter().map(value).collect());
    let [.., last] = &rounds[rounds.len() - 1];
    for &(name, runs, _) in &last.costs {
        let mean_of = |programs: &Programs| {
            let (runs, ns) = programs.of(name);
            mean(runs, ns)
        };
        let ns = of_rounds(&|[.., capturing]| mean_of(capturing));
        let at_once = of_rounds(&|[silent, ..]| mean_of(silent));
        println!("  {name:15} {runs:>9} runs of {ns:>5.0} ns, silent {at_once:>4.0} ns");
    }
    let all = of_rounds(&|[.., capturing]| capturing.ns_per_page());
    let between = |less: usize, more: usize| of_rounds(&|of| of[more].ns_per_page() - of[less].ns_per_page());
    let (beyond, capture, tag, file) = (between(0, 3), between(2, 3), between(1, 2), between(0, 1));
    println!("  a page made dirty: {all:.0} ns, {beyond:.0} ns less the silent programs");
    println!("  of that the capture {capture:.0} ns, the tag {tag:.0} ns, task and file {file:.0} ns");
    for (name, instructions) in &last.verified {
        println!("  {name:15} {instructions:>9} instructions verified");
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Between which of `sorted` values the median is of whatever they are taken from, about 19 times in 20, however they are
/// spread: each is as likely above it as below (the sign test, with its normal approximation). Fewer than six cannot tell:
/// then the least and the greatest.
fn around_the_median(sorted: &[f64]) -> (f64, f64) {
    let values = sorted.len() as f64;
    let below = ((values - 1.0 - 1.96 * values.sqrt()) / 2.0).max(0.0) as usize;
    (sorted[below], sorted[sorted.len() - 1 - below])
}

/// What a page made dirty costs in short runs: its task and file, its tag too, and its capture. A few of each in turn, as the
/// hour changes what all of them cost. Each turn begins with a new session, so one run in so many finds it cold.
fn measure_runs(workload: &str, way: Way, wanted: usize) -> Result<(), AnyError> {
    if matches!(workload, "db_bench" | "pgbench") {
        return Err(format!("--runs is for writers, and {workload} is none").into());
    }
    let place = scratch()?;
    let device = place.device().number.kernel_dev_t();
    let _counting = count_programs()?;
    let parts =
        [("task and file", State::Finding), ("and tag", State::Tagging), ("and capture", State::Capturing)];
    println!("{workload}: {wanted} runs of {CALLS_OF_A_RUN} calls; ns in BPF per page made dirty");
    let mut ns_of: [Vec<f64>; 3] = Default::default();
    while ns_of[0].len() < wanted {
        let turn = RUNS_OF_A_TURN.min(wanted - ns_of[0].len());
        for ((_, state), ns) in parts.iter().zip(&mut ns_of) {
            let directory = place.mount_point();
            let runs = runs(workload, way, *state, device, directory, CALLS_OF_A_RUN, turn)?;
            ns.extend(runs.iter().map(|(_, programs)| programs.ns_per_page()));
        }
    }
    let of_parts = ns_of.map(Spread::of);
    for ((name, _), of) in parts.iter().zip(&of_parts) {
        of.print(name);
    }
    let [_, tag, capture] = of_parts;
    capture.less(&tag).print("the capture");
    place.remove()?;
    Ok(())
}

/// Nanoseconds of short runs.
struct Spread {
    least: f64,
    first_20th: f64,
    first_quarter: f64,
    median: f64,
    mean: f64,
}

impl Spread {
    fn of(mut ns: Vec<f64>) -> Self {
        ns.sort_by(f64::total_cmp);
        let at = |part: usize| ns[ns.len() / part];
        let mean = ns.iter().sum::<f64>() / ns.len() as f64;
        Self { least: ns[0], first_20th: at(20), first_quarter: at(4), median: at(2), mean }
    }

    fn less(&self, other: &Self) -> Self {
        Self {
            least: self.least - other.least,
            first_20th: self.first_20th - other.first_20th,
            first_quarter: self.first_quarter - other.first_quarter,
            median: self.median - other.median,
            mean: self.mean - other.mean,
        }
    }

    fn print(&self, name: &str) {
        let Self { least, first_20th, first_quarter, median, mean } = self;
        println!(
            "  {name:13} least {least:.0}, 5 % {first_20th:.0}, quartile {first_quarter:.0}, median {median:.0}, mean {mean:.0}"
        );
    }
}

/// One run: its cost, and what the BPF programs did.
fn run(
    workload: &str,
    way: Way,
    state: State,
    device: u32,
    directory: &Path,
    calls: u64,
) -> Result<(f64, Programs), AnyError> {
    if state == State::Without {
        return Ok((work(workload, calls, directory, || Ok(()))?, Programs::default()));
    }
    let runs = runs(workload, way, state, device, directory, calls, 1)?;
    Ok(runs.into_iter().next().expect("one run"))
}

/// Runs under one session.
fn runs(
    workload: &str,
    way: Way,
    state: State,
    device: u32,
    directory: &Path,
    calls: u64,
    times: usize,
) -> Result<Vec<(f64, Programs)>, AnyError> {
    let mut memory = SessionMemory::uninit();
    let watched: &[String] = if workload == "pgbench" { &["postgresql".to_owned()] } else { &[] };
    let options = SessionOptions {
        unwind: way.unwind,
        no_cache: way.no_cache,
        buffers: buffers::probes(watched)?,
        left_out: match state {
            State::Finding => LeftOut::CapturesAndTags,
            State::Tagging => LeftOut::Captures,
            _ => LeftOut::Nothing,
        },
        ..SessionOptions::default()
    };
    let mut session = Session::open(&options, &mut memory)?;
    session.aim(match state {
        State::Capturing | State::Tagging | State::Finding => device,
        // A number that no device has.
        State::Elsewhere => 0xfff_ffff,
        _ => 0,
    });
    let (mut modules, mut unwinder, mut rules) = (Modules::default(), Unwinder::default(), session.rules()?);
    let reader = session.reader(move |record| match record {
        Ok(Record::Module(module)) => modules.add(&module),
        Ok(Record::Stack(stack)) if !way.unanswered => {
            unwinder.path(&stack, &modules, &options.limits());
            rules.add(&unwinder.take_rules());
        }
        _ => {}
    })?;
    let mut before = Programs::default();
    let mut runs = Vec::new();
    for _ in 0..times {
        let cost = work(workload, calls, directory, || Ok(reader.poll(Duration::from_millis(20))?))?;
        reader.drain()?;
        let now = Programs { costs: session.costs(), verified: session.verified_instructions() };
        runs.push((cost, now.since(&before)));
        before = now;
    }
    Ok(runs)
}

/// Runs a workload in a process of its own, calling `meanwhile` until it ends.
fn work(
    workload: &str,
    calls: u64,
    directory: &Path,
    mut meanwhile: impl FnMut() -> Result<(), AnyError>,
) -> Result<f64, AnyError> {
    let mut command = if workload == "db_bench" {
        let mut command = Command::new("db_bench");
        command.arg(format!("--num={calls}")).args(DB_BENCH).stderr(Stdio::null());
        command
    } else if workload == "pgbench" {
        pgbench(directory, "run")
    } else {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([WRITER, workload, &calls.to_string()]);
        command
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
            return Err(format!("{workload} did not end within 10 minutes").into());
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    if !status.success() {
        return Err(format!("{workload} failed: {status}").into());
    }
    let cost = if workload == "db_bench" {
        processor_seconds_of_children() - before
    } else {
        fs::read_to_string(report.path())?.trim().parse()?
    };
    if workload != "pgbench" {
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

/// Has the kernel count what BPF programs cost, until dropped, or until this process ends.
fn count_programs() -> Result<OwnedFd, AnyError> {
    // SAFETY: a system call without pointers.
    let descriptor = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
    if descriptor < 0 {
        return Err(format!("the kernel does not count BPF programs: error {descriptor}").into());
    }
    // SAFETY: the call made it, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// The writers: nanoseconds of this thread's processor time per call.
fn write(workload: &str, calls: u64) -> Result<f64, AnyError> {
    let block = vec![7u8; 4096];
    let mut file = OpenOptions::new().create(true).truncate(true).write(true).open("file")?;
    file.write_all(&block)?;
    let begin = thread_ns();
    for call in 0..calls {
        match workload {
            "rewrites" => file.write_all_at(&block, 0)?,
            "paths" => append(&mut file, &block, call % 4)?,
            "captures" => append(&mut file, &block, call % 64)?,
            _ => append(&mut file, &block, 0)?,
        }
        if call % FILE_PAGES == FILE_PAGES - 1 && workload != "rewrites" {
            file = OpenOptions::new().truncate(true).write(true).open("file")?;
        }
    }
    Ok((thread_ns() - begin) as f64 / calls as f64)
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
