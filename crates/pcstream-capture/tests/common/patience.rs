//! How long tests wait for what happens sooner or later, on a machine that may have other work.

use std::process::Child;
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

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

/// Waits until a child has done it. If the child ends before, the test fails at once, with what the child said.
#[track_caller]
pub fn wait_for_child(what: &str, child: &Child, mut done: impl FnMut() -> bool) {
    let (mut is_done, mut ended) = (false, None);
    wait_for(what, || {
        // Asked first: what the child did before it ended is done.
        ended = end_of(child);
        is_done = done();
        is_done || ended.is_some()
    });
    assert!(
        is_done,
        "waited for {what}, and the process ended ({}): {}",
        ended.unwrap_or_default(),
        errors_of(child)
    );
}

/// How a child ended, if it did. It can be waited for afterwards.
fn end_of(child: &Child) -> Option<String> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let status = waitid(WaitId::Pid(Pid::from_child(child)), options).expect("it is a child")?;
    let signal = status.terminating_signal().map(|signal| format!("signal {signal}"));
    signal.or_else(|| status.exit_status().map(|code| format!("exit code {code}")))
}

/// What is in the pipe of a child's errors. Other processes may keep this open, so its end is not waited for.
fn errors_of(child: &Child) -> String {
    let Some(pipe) = &child.stderr else { return String::new() };
    fcntl_setfl(pipe, OFlags::NONBLOCK).expect("it is a pipe");
    let mut bytes = vec![0; 1 << 16];
    let length = rustix::io::read(pipe, &mut bytes).unwrap_or(0);
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}
