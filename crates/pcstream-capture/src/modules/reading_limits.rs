//! What reading the files of traced programs may cost: whoever is traced made these files.
//!
//! Idea: work and memory are counted, not time, so that a limit holds alike on every machine. One step is about 10 ns: a symbol
//! looked at, a place compared with it, or `BYTES_OF_A_STEP` read. A module that wants more gets no names, is counted and said.
//!
//! Invariants: all names of a capture take at most `ALL_STEPS` and `NAME_BYTES`, one module at most `MODULE_STEPS`.
//! After [`GivenUp::give_up`] nothing is allowed.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pcstream_trace::tables::MAX_STRING_BYTES;

/// For the names of one module: twenty times what the largest browser takes.
const MODULE_STEPS: u64 = 1 << 26;
/// For those of all modules.
const ALL_STEPS: u64 = 1 << 29;
/// Kept names of all modules: a million of usual length.
const NAME_BYTES: u64 = 64 << 20;
/// Read in one step.
const BYTES_OF_A_STEP: u64 = 64;

/// Ends reading from outside: whoever waits for it does not want the result any more.
#[derive(Clone, Debug, Default)]
pub struct GivenUp(Arc<AtomicBool>);

impl GivenUp {
    /// All reads fail from now on.
    pub fn give_up(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether they do.
    pub fn is_so(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What is left to be spent.
#[derive(Debug)]
pub struct Allowance {
    given_up: GivenUp,
    all: Cell<u64>,
    module: Cell<u64>,
    name_bytes: Cell<u64>,
    short: Cell<bool>,
}

impl Default for Allowance {
    fn default() -> Allowance {
        Allowance::new(GivenUp::default())
    }
}

impl Allowance {
    /// All of it, until given up.
    pub fn new(given_up: GivenUp) -> Allowance {
        Allowance {
            given_up,
            all: Cell::new(ALL_STEPS),
            module: Cell::new(MODULE_STEPS),
            name_bytes: Cell::new(NAME_BYTES),
            short: Cell::new(false),
        }
    }

    /// The next module has its own share of what is left.
    pub fn next_module(&self) {
        self.module.set(MODULE_STEPS);
        self.short.set(false);
    }

    /// Takes steps; false if there are no more, or nobody waits.
    pub fn spend(&self, steps: u64) -> bool {
        let left = self.module.get().checked_sub(steps).zip(self.all.get().checked_sub(steps));
        if let Some((module, all)) = left {
            self.module.set(module);
            self.all.set(all);
        } else {
            self.fall_short();
        }
        left.is_some() && !self.given_up.is_so()
    }

    /// Takes the steps of a read.
    pub fn read(&self, bytes: u64) -> bool {
        self.spend(bytes.div_ceil(BYTES_OF_A_STEP))
    }

    /// Takes the memory of a name; false if there is none left, or if it is longer than a trace may have it.
    pub fn keep_name(&self, name: &str) -> bool {
        let bytes = Some(name.len() as u64).filter(|bytes| *bytes <= MAX_STRING_BYTES);
        let left = bytes.and_then(|bytes| self.name_bytes.get().checked_sub(bytes));
        left.map_or_else(|| self.fall_short(), |left| self.name_bytes.set(left));
        left.is_some()
    }

    /// Notes that a limit was reached, this one or that of whoever reads.
    pub fn fall_short(&self) {
        self.short.set(true);
    }

    /// Whether a limit was reached since [`Allowance::next_module`].
    pub fn fell_short(&self) -> bool {
        self.short.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greedy_module_leaves_something_for_others() {
        let allowance = Allowance::default();
        assert!(!allowance.spend(MODULE_STEPS + 1) && allowance.fell_short());
        allowance.next_module();
        assert!(allowance.spend(MODULE_STEPS) && !allowance.fell_short());
        assert!(!allowance.spend(1) && allowance.fell_short());
        for _ in 1..ALL_STEPS / MODULE_STEPS {
            allowance.next_module();
            assert!(allowance.spend(MODULE_STEPS));
        }
        allowance.next_module();
        assert!(!allowance.spend(1), "all modules together have a limit, too");
    }

    #[test]
    fn names_have_a_limit_and_giving_up_is_no_limit() {
        let given_up = GivenUp::default();
        let allowance = Allowance::new(given_up.clone());
        let name = "n".repeat(MAX_STRING_BYTES as usize);
        assert!(!allowance.keep_name(&(name.clone() + "n")), "no trace takes it");
        let kept = (0..2000).filter(|_| allowance.keep_name(&name)).count() as u64;
        assert_eq!(kept, NAME_BYTES / MAX_STRING_BYTES);
        assert!(allowance.fell_short());
        allowance.next_module();
        given_up.give_up();
        assert!(!allowance.read(1) && !allowance.fell_short());
    }
}
