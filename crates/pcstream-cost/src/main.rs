//! What a capture costs a program, in runs taken in turn. Needs root.
//!
//! ```text
//! cargo run --release -p pcstream-cost -- --help
//! ```
//!
//! Idea: each workload runs without the BPF program, with it aimed at no file system (silent), at another one (elsewhere),
//! and capturing. A ratio compares with the run without it in the same round; beside it stands its 95 % confidence interval.
//! Numbers are medians.
//!
//! Below stands what the kernel counts, in rounds of its own: runs and nanoseconds of each BPF program, and of the silent
//! one, which returns at once: so much is the counting itself. Then comes the cost of a page made dirty, and last the
//! instructions that the verifier looked at.
//!
//! Units: nanoseconds of the writer's processor time per call; `db_bench`: seconds of processor time; `pgbench`: microseconds
//! per transaction.

mod counted;
mod placer;
mod server;
mod sessions;
mod statistics;
mod workloads;

use std::fs;

use clap::{Parser, Subcommand, ValueEnum};
use pcstream_fs::scratch::{FsKind, Scratch, ScratchOptions};
use pcstream_trace::Unwind;

use crate::counted::{count_programs, print_programs};
use crate::server::Server;
use crate::sessions::{State, Subject, Way, run, runs};
use crate::statistics::{around_the_median, median, print_spread};
use crate::workloads::{WRITER, Workload, write};

type AnyError = Box<dyn std::error::Error>;

/// Calls of a writer.
const CALLS: u64 = 200_000;
/// Files of a run of `files`.
const FILES: u64 = 20_000;
/// Keys that `db_bench` writes, twice.
const KEYS: u64 = 300_000;
/// Calls of a writer in a short run.
const CALLS_OF_A_RUN: u64 = 15_000;
/// Rounds in which the kernel counts.
const COUNTED_ROUNDS: usize = 5;

/// What a capture costs a program. Needs root
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Args {
    #[command(subcommand)]
    writer: Option<Writer>,
    /// What is measured
    #[arg(default_values = ["appends", "rewrites", "paths", "captures", "db_bench"])]
    workloads: Vec<Workload>,
    /// Rounds of each comparison with the program that is not captured; 0: only what the kernel counts
    #[arg(long, value_name = "N", default_value_t = 9)]
    rounds: usize,
    /// Compare with capturing only, not with a program that is silent or captures another file system
    #[arg(long)]
    pairs: bool,
    /// Compare with `pcstream place` and this sink beside the program, in pairs; nothing is counted then
    #[arg(long, value_name = "SINK", conflicts_with_all = ["pairs", "runs"])]
    place: Option<String>,
    /// Calls of a writer, or keys that db_bench writes, twice, or files: short runs have more in common [default: 200000; 300000; 20000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    calls: Option<u64>,
    /// How call paths are read
    #[arg(long, value_name = "HOW", default_value = "auto")]
    unwind: UnwindArg,
    /// Cache no path: what reading one costs while it is warm
    #[arg(long)]
    no_cache: bool,
    /// Hand out no rules: what a page costs while user space has no time to
    #[arg(long)]
    unanswered: bool,
    /// Only what the kernel counts of a page made dirty, in N short runs of a writer: least, median, mean, and between
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,
}

#[derive(Debug, Subcommand)]
enum Writer {
    /// What is measured: writes, and prints its cost
    #[command(name = WRITER, hide = true)]
    Writer { workload: Workload, calls: u64 },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum UnwindArg {
    Auto,
    Fp,
    Scan,
}

/// Runs that are compared; the first is what the others are compared with.
const STATES: [State; 4] = [State::Without, State::Silent, State::Elsewhere, State::Capturing];
const PAIRS: [State; 2] = [State::Without, State::Capturing];
const PLACED: [State; 2] = [State::Without, State::Placing];

impl Args {
    fn way(&self) -> Way {
        let unwind = match self.unwind {
            UnwindArg::Auto => None,
            UnwindArg::Fp => Some(Unwind::FramePointer),
            UnwindArg::Scan => Some(Unwind::Scan),
        };
        Way { unwind, no_cache: self.no_cache, unanswered: self.unanswered }
    }

    fn calls_of(&self, workload: Workload) -> u64 {
        self.calls.unwrap_or(match workload {
            Workload::DbBench => KEYS,
            Workload::Files => FILES,
            _ => CALLS,
        })
    }
}

fn main() -> Result<(), AnyError> {
    let args = Args::parse();
    if let Some(Writer::Writer { workload, calls }) = args.writer {
        println!("{}", write(workload, calls)?);
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        return Err("measuring captures needs root".into());
    }
    println!("{}", processor()?);
    for &workload in &args.workloads {
        match args.runs {
            Some(wanted) => measure_runs(workload, args.way(), wanted as usize)?,
            None => measure(workload, &args)?,
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

fn measure(workload: Workload, args: &Args) -> Result<(), AnyError> {
    let place = scratch()?;
    let directory = place.mount_point();
    let server = if workload == Workload::Pgbench { Some(Server::start(directory)?) } else { None };
    let subject = Subject {
        workload,
        way: args.way(),
        device: place.device().number.kernel_dev_t(),
        directory,
        calls: args.calls_of(workload),
        sink: args.place.as_deref(),
    };
    let states: &[State] = match (&args.place, args.pairs) {
        (Some(_), _) => &PLACED,
        (None, true) => &PAIRS,
        (None, false) => &STATES,
    };
    compare(&subject, states, args.rounds)?;
    if args.place.is_none() {
        count(&subject)?;
    }
    drop(server);
    place.remove()?;
    Ok(())
}

/// What the kernel counts while the workload runs.
fn count(subject: &Subject) -> Result<(), AnyError> {
    let _counting = count_programs()?;
    let counted = |state| Ok::<_, AnyError>(run(subject, state)?.1);
    let mut by_round = Vec::new();
    for _ in 0..COUNTED_ROUNDS {
        by_round.push([counted(State::Silent)?, counted(State::Capturing)?]);
    }
    print_programs(&by_round);
    Ok(())
}

fn compare(subject: &Subject, states: &[State], rounds: usize) -> Result<(), AnyError> {
    let mut costs = vec![Vec::new(); states.len()];
    for round in 0..rounds {
        // Each state has each place in the order.
        for turn in 0..states.len() {
            let at = (round + turn) % states.len();
            costs[at].push(run(subject, states[at])?.0);
        }
    }
    let workload = subject.workload;
    println!("{}: {rounds} rounds, medians in {}", workload.name(), workload.unit());
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
    Ok(())
}

/// What a page made dirty costs in short runs under one session. The first finds its caches cold.
fn measure_runs(workload: Workload, way: Way, wanted: usize) -> Result<(), AnyError> {
    if !workload.is_writer() {
        return Err(format!("--runs is for writers, and {} is none", workload.name()).into());
    }
    let place = scratch()?;
    let device = place.device().number.kernel_dev_t();
    let directory = place.mount_point();
    let subject = Subject { workload, way, device, directory, calls: CALLS_OF_A_RUN, sink: None };
    let _counting = count_programs()?;
    let counted = runs(&subject, State::Capturing, wanted)?;
    println!("{}: {wanted} runs of {CALLS_OF_A_RUN} calls; ns in BPF per page made dirty", workload.name());
    print_spread(counted.iter().map(|(_, programs)| programs.ns_per_page()).collect());
    place.remove()?;
    Ok(())
}
