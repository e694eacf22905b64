//! Threads after a fork. The threads of rayon's global pool stay in the parent, so whoever waits for them in the child waits
//! for ever.
//!
//! Idea: a process that was forked after the pool had begun makes a pool of its own for each simulation.

use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};

use pyo3::prelude::*;

use crate::errors;
use crate::stop::INTERVAL;

/// The process that the global pool belongs to; 0 before the first simulation.
static POOL_OF: AtomicU32 = AtomicU32::new(0);

/// Does `work` where it finds threads to share it with. `watch` is called meanwhile, in the thread of the caller: Python
/// tells signals to no other.
pub fn run<T: Send>(work: impl FnOnce() -> PyResult<T> + Send, mut watch: impl FnMut()) -> PyResult<T> {
    let here = process::id();
    match POOL_OF.compare_exchange(0, here, Ordering::Relaxed, Ordering::Relaxed) {
        Err(owner) if owner != here => {}
        _ => return work(),
    }
    let pool = rayon::ThreadPoolBuilder::new().build().map_err(errors::argument)?;
    let (done, end) = mpsc::channel();
    let ended = pool.in_place_scope(|scope| {
        scope.spawn(move |_| _ = done.send(work()));
        loop {
            match end.recv_timeout(INTERVAL) {
                Err(RecvTimeoutError::Timeout) => watch(),
                ended => return ended,
            }
        }
    });
    // The scope passes a panic of `work` on.
    ended.expect("work has ended")
}
