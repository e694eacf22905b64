//! Questions about other processes, with a limit of time.
//!
//! Idea: the kernel answers some of them only when it gets a lock of that process (of its address space), and a user can make a
//! process hold this lock for ever. Such a wait ends when the asking thread is killed, but not by a signal that is handled.
//! So a thread of its own asks; if there is no answer in time, it is left to itself, and ends with this program.
//!
//! Invariants: a process that did not answer is not asked again. After `MOST_SILENT` of them nobody is asked: so about as many
//! threads are left, and the whole program waits about that many times `LIMIT` in vain.

use std::collections::BTreeSet;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// For an answer, which otherwise takes some microseconds.
const LIMIT: Duration = Duration::from_secs(1);
const MOST_SILENT: usize = 4;

static SILENT: Silent = Silent(Mutex::new(BTreeSet::new()));

/// What `question`, which is about this process, returns. `None`: there is no answer in time, or nobody is asked.
pub fn ask<T: Send + 'static>(pid: u32, question: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    SILENT.ask(pid, question)
}

/// Processes that did not answer.
struct Silent(Mutex<BTreeSet<u32>>);

impl Silent {
    fn ask<T: Send + 'static>(&self, pid: u32, question: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let silent = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if silent().len() >= MOST_SILENT || silent().contains(&pid) {
            return None;
        }
        let (done, answer) = channel();
        thread::Builder::new().spawn(move || drop(done.send(question()))).ok()?;
        let answer = answer.recv_timeout(LIMIT);
        if matches!(answer, Err(RecvTimeoutError::Timeout)) {
            silent().insert(pid);
        }
        answer.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_answer_is_asked_once_and_not_many_are() {
        let silent = Silent(Mutex::default());
        let (keep, never) = channel::<()>();
        let never = std::sync::Arc::new(Mutex::new(never));
        let silence = || {
            let never = std::sync::Arc::clone(&never);
            move || drop(never.lock().map(|never| never.recv()))
        };
        assert_eq!(silent.ask(7, || 5), Some(5));
        assert_eq!(silent.ask(7, silence()), None);
        assert_eq!(silent.ask(7, || 5), None, "it is not asked again");
        assert_eq!(silent.ask(8, || 5), Some(5));
        (8..7 + MOST_SILENT as u32).for_each(|pid| assert_eq!(silent.ask(pid, silence()), None));
        assert_eq!(silent.ask(100, || 5), None, "nobody is asked any more");
        drop(keep);
    }

    #[test]
    fn a_question_that_fails_has_no_answer() {
        let silent = Silent(Mutex::default());
        assert_eq!(silent.ask(7, || -> bool { panic!("no answer") }), None);
        assert_eq!(silent.ask(7, || true), Some(true));
    }
}
