//! How long a capture goes on after the user asked it to stop: [`PATIENCE`], and then as long as an unmount takes.
//!
//! What may take long (syncing a file system, reading the symbols of files that somebody else made) is done in a
//! thread of its own. If the user's patience ends first, it is abandoned. An unmount is not: see [`wait_for_all_of`].

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// From the wish to stop until what is not done is abandoned.
pub const PATIENCE: Duration = Duration::from_millis(700);
/// Between two looks at the user's wishes.
const LOOK: Duration = Duration::from_millis(20);

/// What asks a capture to end, from outside.
pub trait Stop {
    /// The user's wishes to stop so far: after one the command is asked to end, after two it is killed.
    fn wishes(&self) -> usize;
    /// Whether a capture of what runs already has nothing more to wait for.
    fn over(&self) -> bool {
        false
    }
}

impl Stop for AtomicUsize {
    fn wishes(&self) -> usize {
        self.load(Ordering::Relaxed)
    }
}

/// The user's wishes to stop, and since when there are any.
pub struct Interrupts<'a> {
    stop: &'a dyn Stop,
    since: Cell<Option<Instant>>,
}

impl fmt::Debug for Interrupts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupts").field("wishes", &self.stop.wishes()).field("since", &self.since).finish()
    }
}

impl<'a> Interrupts<'a> {
    /// `stop` counts them, from elsewhere.
    pub fn new(stop: &'a dyn Stop) -> Interrupts<'a> {
        Interrupts { stop, since: Cell::new(None) }
    }

    /// As [`Stop::over`] says.
    pub fn over(&self) -> bool {
        self.stop.over()
    }

    /// Wishes so far.
    pub fn wishes(&self) -> usize {
        let wishes = self.stop.wishes();
        if wishes > 0 && self.since.get().is_none() {
            self.since.set(Some(Instant::now()));
        }
        wishes
    }

    /// Waits for a wish that may be on its way: a terminal signals a command and this process at once, and the command may
    /// have ended before this process has noted it.
    pub fn wait_for_wish(&self) {
        let begin = Instant::now();
        while self.wishes() == 0 && begin.elapsed() < PATIENCE {
            std::thread::sleep(LOOK);
        }
    }

    /// The time that was waited for a command to end is not taken from what comes after it.
    pub fn start_again(&self) {
        if self.since.get().is_some() {
            self.since.set(Some(Instant::now()));
        }
    }

    /// Whether nothing is to be waited for any more: the patience is over, or the user insists.
    pub fn are_urgent(&self) -> bool {
        let wishes = self.wishes();
        wishes > 1 || wishes > 0 && self.since.get().is_some_and(|since| since.elapsed() >= PATIENCE)
    }

    /// The result of `work`, done in a thread of its own; `None`: abandoned, or there is no room for a thread. `meanwhile` is
    /// called many times a second.
    pub fn wait_for<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
        mut meanwhile: impl FnMut(),
    ) -> Option<T> {
        let (done, result) = channel();
        std::thread::Builder::new().spawn(move || drop(done.send(work()))).ok()?;
        loop {
            match result.recv_timeout(LOOK) {
                Ok(result) => return Some(result),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) if self.are_urgent() => return None,
                Err(RecvTimeoutError::Timeout) => meanwhile(),
            }
        }
    }
}

/// The result of `work`, done in a thread of its own, which is never abandoned: an unmount that nobody waits for would leave a
/// device behind. `meanwhile` is called many times a second, unless there is no room for a thread.
pub fn wait_for_all_of<T: Send>(work: impl FnOnce() -> T + Send, mut meanwhile: impl FnMut()) -> T {
    let work = Mutex::new(Some(work));
    let take = || work.lock().unwrap_or_else(PoisonError::into_inner).take().map(|work| work());
    let here = || take().expect("only one thread takes the work");
    std::thread::scope(|scope| {
        let (done, result) = channel();
        let started = std::thread::Builder::new().spawn_scoped(scope, move || {
            let result = here();
            let _ = done.send(());
            result
        });
        let Ok(thread) = started else { return here() };
        while matches!(result.recv_timeout(LOOK), Err(RecvTimeoutError::Timeout)) {
            meanwhile();
        }
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_waited_for_until_somebody_insists() {
        let wishes = AtomicUsize::new(0);
        let interrupts = Interrupts::new(&wishes);
        assert_eq!(interrupts.wait_for(|| 7, || ()), Some(7));
        // It would never end.
        let (keep, never) = channel::<()>();
        let result = interrupts.wait_for(
            move || {
                let _ = never.recv();
            },
            || {
                wishes.store(2, Ordering::Relaxed);
            },
        );
        assert_eq!(result, None);
        drop(keep);
    }

    #[test]
    fn what_is_not_abandoned_has_company() {
        let (go, gone) = channel::<()>();
        let mut looks = 0;
        let look = || {
            looks += 1;
            if looks == 3 {
                let _ = go.send(());
            }
        };
        assert_eq!(wait_for_all_of(move || gone.recv(), look), Ok(()));
        assert!(looks >= 3);
    }

    #[test]
    fn one_wish_is_granted_when_the_patience_ends() {
        let wishes = AtomicUsize::new(1);
        let interrupts = Interrupts::new(&wishes);
        assert!(!interrupts.are_urgent());
        interrupts.since.set(Instant::now().checked_sub(PATIENCE));
        assert!(interrupts.are_urgent());
        interrupts.start_again();
        assert!(!interrupts.are_urgent());
    }
}
