//! Questions about other processes, with a limit of time.
//!
//! Idea: the kernel answers some of them only when it gets a lock of that process (of its address space), and a user can make a
//! process hold this lock for ever. Such a wait ends when the asking thread is killed, but not by a signal that is handled.
//! So a thread of its own asks; if there is no answer in time, it is left to itself, and ends with this program.
//!
//! Invariants: a process that did not answer is not asked again for `TERM`, nor as long as the thread that asked it waits. While
//! there are `MOST_SILENT` of them, nobody is asked: so about as many threads are left, and within a term the whole program
//! waits about that many times `LIMIT` in vain.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// For an answer, which otherwise takes some microseconds.
const LIMIT: Duration = Duration::from_secs(1);
const MOST_SILENT: usize = 4;
/// After which a process may be asked again, if its thread has ended: a program that runs for weeks meets many that were slow.
const TERM: Duration = Duration::from_secs(600);

static SILENT: Silent = Silent(Mutex::new(Vec::new()));

/// What `question`, which is about this process, returns. `None`: there is no answer in time, or nobody is asked.
pub fn ask<T: Send + 'static>(pid: u32, question: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    SILENT.ask(pid, question)
}

/// Processes that did not answer.
struct Silent(Mutex<Vec<Left>>);

/// A thread that was left to itself.
struct Left {
    pid: u32,
    since: Instant,
    has_ended: Arc<AtomicBool>,
}

impl Silent {
    fn ask<T: Send + 'static>(&self, pid: u32, question: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        if !self.may_ask(pid, Instant::now()) {
            return None;
        }
        let (done, answer) = channel();
        let ends = Ends(Arc::default());
        let has_ended = Arc::clone(&ends.0);
        let work = move || {
            let _ends = ends;
            drop(done.send(question()));
        };
        thread::Builder::new().spawn(work).ok()?;
        let answer = answer.recv_timeout(LIMIT);
        if matches!(answer, Err(RecvTimeoutError::Timeout)) {
            self.left().push(Left { pid, since: Instant::now(), has_ended });
        }
        answer.ok()
    }

    fn may_ask(&self, pid: u32, now: Instant) -> bool {
        let mut left = self.left();
        left.retain(|one| {
            !one.has_ended.load(Ordering::Relaxed) || now.saturating_duration_since(one.since) < TERM
        });
        left.len() < MOST_SILENT && left.iter().all(|one| one.pid != pid)
    }

    fn left(&self) -> MutexGuard<'_, Vec<Left>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says at its end that a thread has ended, also if that panics.
struct Ends(Arc<AtomicBool>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
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
        let later = Instant::now() + TERM;
        assert!(!silent.may_ask(100, later), "as long as the threads are there");
        drop(keep);
        while silent.left().iter().any(|one| !one.has_ended.load(Ordering::Relaxed)) {
            thread::yield_now();
        }
        assert_eq!(silent.ask(100, || 5), None, "each of many could answer late");
        assert!(silent.may_ask(7, later) && silent.left().is_empty());
        assert_eq!(silent.ask(7, || 5), Some(5));
    }

    #[test]
    fn a_question_that_fails_has_no_answer() {
        let silent = Silent(Mutex::default());
        assert_eq!(silent.ask(7, || -> bool { panic!("no answer") }), None);
        assert_eq!(silent.ask(7, || true), Some(true));
    }
}
