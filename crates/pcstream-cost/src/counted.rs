//! What the kernel counts of BPF programs: runs and nanoseconds.

use std::os::fd::{FromRawFd, OwnedFd};

use libbpf_rs::libbpf_sys;

use crate::AnyError;
use crate::statistics::median;

/// What the kernel counted of the BPF programs in a run.
#[derive(Default)]
pub struct Programs {
    /// Names, runs, nanoseconds of all runs.
    pub costs: Vec<(String, u64, u64)>,
    /// Instructions that the verifier looked at, by name.
    pub verified: Vec<(String, u64)>,
}

impl Programs {
    fn of(&self, program: &str) -> (u64, u64) {
        self.costs.iter().find(|cost| cost.0 == program).map_or((0, 0), |&(_, runs, ns)| (runs, ns))
    }

    /// What was counted since `before`.
    pub fn since(&self, before: &Programs) -> Programs {
        let since = |(name, runs, ns): &(String, u64, u64)| {
            let (runs_before, ns_before) = before.of(name);
            (name.clone(), runs - runs_before, ns - ns_before)
        };
        Programs { costs: self.costs.iter().map(since).collect(), verified: self.verified.clone() }
    }

    /// Nanoseconds of a page made dirty, in the two programs that run then. That of each write is not among them.
    pub fn ns_per_page(&self) -> f64 {
        let ((pages, ns), (_, more)) = (self.of("on_dirty_folio"), self.of("on_mark_dirty"));
        mean_of_runs(pages, ns + more)
    }
}

fn mean_of_runs(runs: u64, ns: u64) -> f64 {
    if runs == 0 { 0.0 } else { ns as f64 / runs as f64 }
}

/// Prints the medians of rounds that were silent and capturing.
pub fn print_programs(rounds: &[[Programs; 2]]) {
    let of_rounds = |value: &dyn Fn(&[Programs; 2]) -> f64| median(rounds.iter().map(value).collect());
    let [_, last] = &rounds[rounds.len() - 1];
    for (name, runs, _) in &last.costs {
        let mean_of = |programs: &Programs| {
            let (runs, ns) = programs.of(name);
            mean_of_runs(runs, ns)
        };
        let ns = of_rounds(&|[_, capturing]| mean_of(capturing));
        let at_once = of_rounds(&|[silent, _]| mean_of(silent));
        println!("  {name:15} {runs:>9} runs of {ns:>5.0} ns, silent {at_once:>4.0} ns");
    }
    let all = of_rounds(&|[_, capturing]| capturing.ns_per_page());
    let beyond = of_rounds(&|[silent, capturing]| capturing.ns_per_page() - silent.ns_per_page());
    println!("  a page made dirty: {all:.0} ns, {beyond:.0} ns less the silent programs");
    for (name, instructions) in &last.verified {
        println!("  {name:15} {instructions:>9} instructions verified");
    }
}

/// Has the kernel count what BPF programs cost, until dropped, or until this process ends.
pub fn count_programs() -> Result<OwnedFd, AnyError> {
    // SAFETY: a system call without pointers.
    let descriptor = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
    if descriptor < 0 {
        return Err(format!("the kernel does not count BPF programs: error {descriptor}").into());
    }
    // SAFETY: the call made it, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}
