//! What ends a simulation early: Ctrl-C, or an exception in a scheme that is written in Python.
//!
//! The first reason wins. Batches end when there is one, so that the simulation comes to its end by itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

/// How often Python is asked for signals: often enough for a person, seldom enough to cost nothing.
pub const INTERVAL: Duration = Duration::from_millis(50);

/// Shared by all who may end a simulation and all who end with it.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    asked: AtomicBool,
    reason: Mutex<Option<PyErr>>,
}

impl Stop {
    /// Ends the simulation with this exception, unless it has one.
    pub fn because(&self, error: PyErr) {
        let mut reason = self.0.reason.lock().unwrap_or_else(PoisonError::into_inner);
        reason.get_or_insert(error);
        self.0.asked.store(true, Ordering::Relaxed);
    }

    /// Whether to end.
    pub fn asked(&self) -> bool {
        self.0.asked.load(Ordering::Relaxed)
    }

    /// The exception, if there is one.
    pub fn check(&self) -> PyResult<()> {
        let reason = self.0.reason.lock().unwrap_or_else(PoisonError::into_inner).take();
        reason.map_or(Ok(()), Err)
    }

    /// Something to be called often, in the thread that Python called: it asks for signals.
    pub fn watch(&self) -> impl FnMut() + use<> {
        let (stop, mut last) = (self.clone(), Instant::now());
        move || {
            if last.elapsed() >= INTERVAL {
                last = Instant::now();
                if let Err(error) = Python::attach(|py| py.check_signals()) {
                    stop.because(error);
                }
            }
        }
    }
}
