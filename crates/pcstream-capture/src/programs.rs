//! Which programs run that make pages dirty, and when the last process of one ends.

use pcstream_trace::ContextId;
use rustc_hash::{FxHashMap, FxHashSet};

/// Programs of which processes run that make pages dirty, by the BPF program's key of the executable.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    of_process: FxHashMap<u32, u64>,
    running: FxHashMap<u64, u32>,
    /// Programs that ran, and of which no process runs now, until somebody takes them out.
    pub(crate) ended: FxHashSet<u64>,
    /// One context of each.
    pub(crate) contexts: FxHashMap<u64, ContextId>,
}

impl Programs {
    /// A process runs this program. Returns the one that it ran before, if that was the last process to.
    pub(crate) fn begin(&mut self, pid: u32, program: u64) -> Option<u64> {
        let ended = self.end(pid);
        self.of_process.insert(pid, program);
        self.ended.remove(&program);
        *self.running.entry(program).or_default() += 1;
        ended.filter(|&before| before != program)
    }

    /// A process ended. Returns its program, if it was the last process to run it.
    pub(crate) fn end(&mut self, pid: u32) -> Option<u64> {
        let program = self.of_process.remove(&pid)?;
        let running = self.running.get_mut(&program)?;
        *running -= 1;
        if *running > 0 {
            return None;
        }
        // What runs for weeks meets programs without end.
        self.running.remove(&program);
        self.ended.insert(program);
        Some(program)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_ended_leaves_nothing() {
        let mut programs = Programs::default();
        assert_eq!([programs.begin(1, 7), programs.begin(2, 7), programs.begin(1, 8)], [None; 3]);
        assert_eq!((programs.end(2), programs.end(2), programs.end(1)), (Some(7), None, Some(8)));
        assert!(programs.running.is_empty() && programs.of_process.is_empty());
        programs.begin(3, 7);
        assert_eq!(programs.ended.into_iter().collect::<Vec<_>>(), [8], "7 runs again");
    }
}
