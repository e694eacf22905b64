//! Runs of a workload with the BPF program attached in a certain state.

use std::path::Path;
use std::time::Duration;

use pcstream_capture::buffers;
use pcstream_capture::modules::Modules;
use pcstream_capture::session::{Session, SessionMemory, SessionOptions};
use pcstream_capture::unwind::Unwinder;
use pcstream_capture::wire::Record;
use pcstream_fs::scratch::FsKind;
use pcstream_trace::Unwind;

use crate::AnyError;
use crate::counted::Programs;
use crate::placer::Placer;
use crate::workloads::{Workload, work};

/// What is attached, and what it is aimed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No BPF program.
    Without,
    /// Aimed at no file system.
    Silent,
    /// Aimed at another file system.
    Elsewhere,
    /// Aimed at the workload's.
    Capturing,
    /// `pcstream place` runs beside it.
    Placing,
}

/// How paths are captured.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// How they are read; none: exactly where that can be.
    pub unwind: Option<Unwind>,
    /// No path is cached.
    pub no_cache: bool,
    /// No rules are handed out.
    pub unanswered: bool,
}

/// What runs where.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// What writes.
    pub workload: Workload,
    /// How its paths are captured.
    pub way: Way,
    /// Of the file system, as the kernel numbers it.
    pub device: u32,
    /// In which it writes.
    pub directory: &'a Path,
    /// Of a run.
    pub calls: u64,
    /// Of `pcstream place`.
    pub sink: Option<&'a str>,
}

/// One run: its cost, and what the BPF programs did.
pub fn run(subject: &Subject, state: State) -> Result<(f64, Programs), AnyError> {
    let placer = match (state, subject.sink) {
        (State::Placing, Some(sink)) => Some(Placer::start(subject.directory, sink)?),
        _ => None,
    };
    if matches!(state, State::Without | State::Placing) {
        let cost = work(subject.workload, subject.calls, subject.directory, || Ok(()))?;
        placer.map_or(Ok(()), Placer::end)?;
        return Ok((cost, Programs::default()));
    }
    let runs = runs(subject, state, 1)?;
    Ok(runs.into_iter().next().expect("one run"))
}

/// As many runs under one session.
pub fn runs(subject: &Subject, state: State, times: usize) -> Result<Vec<(f64, Programs)>, AnyError> {
    let mut memory = SessionMemory::uninit();
    let watched: &[String] =
        if subject.workload == Workload::Pgbench { &["postgresql".to_owned()] } else { &[] };
    let options = SessionOptions {
        unwind: subject.way.unwind,
        no_cache: subject.way.no_cache,
        buffers: buffers::probes(watched)?,
        ..SessionOptions::default()
    };
    let mut session = Session::open(&options, &mut memory)?;
    session.watch_writes(FsKind::Ext4)?;
    session.aim(match state {
        State::Capturing => subject.device,
        // A number that no device has.
        State::Elsewhere => 0xfff_ffff,
        _ => 0,
    });
    let answered = !subject.way.unanswered;
    let (mut modules, mut unwinder, mut rules) = (Modules::default(), Unwinder::default(), session.rules()?);
    let reader = session.reader(move |record| match record {
        Ok(Record::Module(module)) => modules.add(&module),
        Ok(Record::Stack(stack)) if answered => {
            unwinder.path(&stack, &modules, &options.limits());
            rules.add(&unwinder.take_rules());
        }
        _ => {}
    })?;
    let mut before = Programs::default();
    let mut runs = Vec::new();
    for _ in 0..times {
        let cost = work(subject.workload, subject.calls, subject.directory, || {
            Ok(reader.poll(Duration::from_millis(20))?)
        })?;
        reader.drain()?;
        let now = Programs { costs: session.costs(), verified: session.verified_instructions() };
        runs.push((cost, now.since(&before)));
        before = now;
    }
    Ok(runs)
}
