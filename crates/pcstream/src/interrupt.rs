//! Signals that end the program while something is made that must not be left half done: the first is noticed between two pieces
//! of work, so that temporary files are removed on the way out; the second ends the program at once. After a capture, whose
//! signals somebody else catches (`stop`), there is no such second one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::{Context as _, anyhow};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag;

use pcstream_system::process::ignores;

use crate::failure::Failure;

/// Signals that ask to stop; SIGHUP also where it `reloads`. What was started by `nohup` goes on when its terminal is gone.
pub fn asking_to_stop(reloads: bool) -> impl Iterator<Item = i32> {
    let hang_up = reloads || !ignores(SIGHUP);
    [SIGINT, SIGTERM, SIGQUIT].into_iter().chain(hang_up.then_some(SIGHUP))
}

/// The signal that came, if one did.
#[derive(Clone, Debug)]
pub struct Interrupt(Arc<AtomicUsize>);

impl Interrupt {
    /// From now on the signals are noted instead of ending the program.
    pub fn watch() -> anyhow::Result<Interrupt> {
        let (signal_number, came) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        for signal in asking_to_stop(false) {
            // In this order, or the first signal would count as the second.
            flag::register_conditional_default(signal, came.clone())
                .and_then(|_| flag::register(signal, came.clone()))
                .and_then(|_| flag::register_usize(signal, signal_number.clone(), signal as usize))
                .context("cannot catch signals")?;
        }
        Ok(Interrupt(signal_number))
    }

    /// Of a signal whose number somebody else puts here; 0: none came.
    #[cfg(feature = "capture")]
    pub fn noted_in(signal_number: Arc<AtomicUsize>) -> Interrupt {
        Interrupt(signal_number)
    }

    /// Of signals that are left to others.
    #[cfg(feature = "capture")]
    pub fn never() -> Interrupt {
        Interrupt(Arc::default())
    }

    /// Whether to stop.
    pub fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// `Interrupted` if a signal came.
    pub fn check(&self) -> Result<(), Failure> {
        match self.0.load(Ordering::Relaxed) {
            0 => Ok(()),
            signal => {
                let error = anyhow!("ended by signal {signal}; nothing was left behind");
                Err(Failure::Interrupted { error, signal: signal as i32 })
            }
        }
    }
}
