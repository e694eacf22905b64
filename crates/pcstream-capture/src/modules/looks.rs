//! What looking for the files of modules may cost: whoever is traced chose how many mappings there are to be looked at.
//!
//! Idea: steps are counted, not time, so that a limit holds alike on every machine. One step takes about 4 µs: reading a link.
//!
//! What a process may keep the kernel from answering is asked in a thread of its own (`limited`). The rest is asked first and
//! without one, because a process that ends soon may be gone before a thread begins on a busy machine.
//!
//! Invariants: within `TERM` one process costs at most `STEPS_OF_A_PROCESS`, all of them together at most `ALL_STEPS`. So a
//! capture may go on for weeks. After [`Looks::give_up`] no process is looked at.

use std::time::{Duration, Instant};

use pcstream_fs::limited;
use rustc_hash::FxHashMap;

use crate::modules::file_handles::Process;

/// Of all processes: some two seconds.
const ALL_STEPS: u64 = 1 << 19;
/// Of one process.
pub const STEPS_OF_A_PROCESS: u64 = 1 << 16;

/// After which everything may be spent again.
const TERM: Duration = Duration::from_secs(600);

/// What is left to be spent.
#[derive(Debug)]
pub struct Looks {
    left: u64,
    /// Steps that each process has cost. Each has cost one at least, so there are not too many.
    spent: FxHashMap<u32, u64>,
    /// When the term began; none after giving up.
    since: Option<Instant>,
}

impl Default for Looks {
    fn default() -> Looks {
        Looks { left: ALL_STEPS, spent: FxHashMap::default(), since: Some(Instant::now()) }
    }
}

impl Looks {
    /// What is found by this process: `at_once`, or else `in_thread`. `None` also if it has ended, does not answer or may cost no
    /// more.
    pub fn look<T: Send + 'static>(
        &mut self,
        pid: u32,
        at_once: impl FnOnce(&Process) -> Option<T>,
        in_thread: Option<impl FnOnce(&Process) -> Option<T> + Send + 'static>,
    ) -> Option<T> {
        self.renew(Instant::now());
        let all = self.left_for(pid);
        if all == 0 {
            return None;
        }
        let Some(process) = Process::new(pid, all) else {
            self.spend(pid, 1);
            return None;
        };
        let found = at_once(&process);
        let mut left = process.left();
        let found = found.or_else(|| {
            let find = in_thread?;
            let (found, after) = limited::ask(pid, move || (find(&process), process.left()))?;
            left = after;
            found
        });
        self.spend(pid, all - left);
        found
    }

    /// Steps that this process may still cost.
    pub fn left_for(&self, pid: u32) -> u64 {
        let spent = self.spent.get(&pid).copied().unwrap_or(0);
        self.left.min(STEPS_OF_A_PROCESS.saturating_sub(spent))
    }

    /// Takes what a process has cost.
    pub fn spend(&mut self, pid: u32, steps: u64) {
        let steps = steps.max(1);
        self.left = self.left.saturating_sub(steps);
        *self.spent.entry(pid).or_default() += steps;
    }

    /// No process is looked at any more.
    pub fn give_up(&mut self) {
        (self.left, self.since) = (0, None);
    }

    /// Begins another term, if one is over.
    fn renew(&mut self, now: Instant) {
        if self.since.is_some_and(|since| now.duration_since(since) >= TERM) {
            *self = Looks { since: Some(now), ..Looks::default() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_leaves_something_for_others() {
        let mut looks = Looks::default();
        looks.spend(7, STEPS_OF_A_PROCESS - 5);
        assert_eq!((looks.left_for(7), looks.left_for(8)), (5, STEPS_OF_A_PROCESS));
        looks.spend(7, 10);
        assert_eq!(looks.left_for(7), 0);
        for pid in 8..100 {
            looks.spend(pid, looks.left_for(pid));
        }
        assert_eq!(looks.left_for(100), 0, "all processes together have a limit, too");
        assert!(looks.spent.len() < 100 && looks.left == 0);
        let began = looks.since.unwrap();
        looks.renew(began + TERM - Duration::from_nanos(1));
        assert_eq!(looks.left_for(100), 0);
        looks.renew(began + TERM);
        assert_eq!(looks.left_for(7), STEPS_OF_A_PROCESS, "also what one process may cost");
    }

    #[test]
    fn nothing_is_looked_at_after_giving_up() {
        let mut looks = Looks::default();
        looks.give_up();
        looks.renew(Instant::now() + TERM);
        assert_eq!(looks.left_for(7), 0);
    }
}
