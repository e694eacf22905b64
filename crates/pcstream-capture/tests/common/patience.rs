//! How long tests wait for what happens sooner or later, on a machine that may have other work.

use std::time::{Duration, Instant};

/// Nothing that a test waits for takes this long, however busy the machine is.
pub const PATIENCE: Duration = Duration::from_secs(900);

/// Waits until it is done.
#[track_caller]
pub fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < PATIENCE, "waited {PATIENCE:?} for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
