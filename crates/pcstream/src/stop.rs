//! Signals that ask a capture to stop.
//!
//! They are counted while something is captured, for the first of them asks it to end in good order. Afterwards they
//! end the program, as usual.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

use anyhow::Context as _;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

/// Signals that ask to stop: those that came since they are caught.
pub struct StopSignals {
    /// How many there were.
    pub count: Arc<AtomicUsize>,
    /// The first of them; 0: none.
    first: Arc<AtomicI32>,
    released: Arc<AtomicBool>,
}

impl StopSignals {
    /// From now on.
    pub fn catch() -> anyhow::Result<StopSignals> {
        StopSignals::catch_with(None, || ())
    }

    /// From now on, but with `reload` SIGHUP only sets that. `then` runs in a thread of its own, after each signal that asks
    /// to stop.
    pub fn catch_with(
        reload: Option<Arc<AtomicBool>>,
        then: impl Fn() + Send + 'static,
    ) -> anyhow::Result<StopSignals> {
        let stop = StopSignals { count: Arc::default(), first: Arc::default(), released: Arc::default() };
        let (count, first, released) = (stop.count.clone(), stop.first.clone(), stop.released.clone());
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT]).context("cannot catch signals")?;
        std::thread::spawn(move || {
            for signal in signals.forever() {
                if released.load(Ordering::Relaxed) {
                    // Only fails for signals without a default action.
                    let _ = signal_hook::low_level::emulate_default_handler(signal);
                }
                if let Some(reload) = reload.as_ref().filter(|_| signal == SIGHUP) {
                    reload.store(true, Ordering::Relaxed);
                    continue;
                }
                let _ = first.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed);
                count.fetch_add(1, Ordering::Relaxed);
                then();
            }
        });
        Ok(stop)
    }

    /// The first signal that there was.
    pub fn first(&self) -> Option<i32> {
        Some(self.first.load(Ordering::Relaxed)).filter(|&signal| signal != 0)
    }
}

impl Drop for StopSignals {
    fn drop(&mut self) {
        self.released.store(true, Ordering::Relaxed);
    }
}
