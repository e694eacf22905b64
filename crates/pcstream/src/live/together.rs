//! Captures of several devices that begin together and have one command.
//!
//! Idea: no capture goes on, and no command starts, before all of them have begun. The first runs the command; the others end
//! when it has. If one of them fails, the command is asked to end. The user's wishes to stop are the command's while it runs,
//! and everybody's before and after that.

use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indicatif::MultiProgress;
use pcstream_capture::capture::Stop;

use crate::failure::Failure;
use crate::stop::StopSignals;

/// Between two looks at the user's wishes.
const LOOK: Duration = Duration::from_millis(20);

/// How the captures stand.
#[derive(Debug)]
struct Progress {
    /// Captures that have not come to each gate: before anything is recorded, and before the command starts.
    missing: [usize; 2],
    /// The first that failed.
    failed: Option<usize>,
    /// The command has ended.
    command_ended: bool,
    /// So has its capture.
    first_left: bool,
}

impl Progress {
    fn have_begun(&self) -> bool {
        self.missing[1] == 0
    }

    /// The command is over, or will never run. Only with a command.
    fn is_over(&self) -> bool {
        self.command_ended || self.first_left
    }

    /// The command runs. Only with one.
    fn runs(&self) -> bool {
        self.have_begun() && !self.is_over()
    }
}

/// What the captures share.
#[derive(Debug)]
pub struct Together {
    devices: Vec<String>,
    has_command: bool,
    progress: Mutex<Progress>,
    changed: Condvar,
    wishes: Arc<AtomicUsize>,
    first_signal: Arc<AtomicI32>,
    /// Where their progress is shown.
    bars: MultiProgress,
}

/// Why a capture does not begin.
#[derive(Clone, Copy, Debug)]
pub enum NotBegun {
    /// The user does not want it.
    Interrupted {
        /// By this signal.
        signal: i32,
    },
    /// One of the others cannot.
    AnotherFailed,
}

impl fmt::Display for NotBegun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotBegun::Interrupted { .. } => "interrupted before anything was recorded",
            NotBegun::AnotherFailed => "another device cannot be recorded",
        })
    }
}

impl Error for NotBegun {}

impl From<NotBegun> for Failure {
    fn from(not_begun: NotBegun) -> Failure {
        match not_begun {
            NotBegun::Interrupted { signal } => Failure::Interrupted { error: not_begun.into(), signal },
            NotBegun::AnotherFailed => Failure::failed(not_begun),
        }
    }
}

impl Together {
    /// Of these devices. With a command, the first capture runs it.
    pub fn new(devices: Vec<String>, has_command: bool, stop: &StopSignals) -> Arc<Together> {
        let missing = [devices.len(); 2];
        let progress = Progress { missing, failed: None, command_ended: false, first_left: false };
        Arc::new(Together {
            devices,
            has_command,
            progress: Mutex::new(progress),
            changed: Condvar::new(),
            wishes: Arc::clone(&stop.count),
            first_signal: stop.first_signal(),
            bars: MultiProgress::new(),
        })
    }

    /// Whether all captures have begun.
    pub fn have_begun(&self) -> bool {
        self.progress().have_begun()
    }

    /// The first capture that failed.
    pub fn failed(&self) -> Option<usize> {
        self.progress().failed
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of the captures.
#[derive(Clone, Debug)]
pub struct Member {
    together: Arc<Together>,
    index: usize,
}

impl Member {
    /// The one with this number, from 0.
    pub fn new(together: &Arc<Together>, index: usize) -> Member {
        Member { together: Arc::clone(together), index }
    }

    /// Its device.
    pub fn device(&self) -> &str {
        &self.together.devices[self.index]
    }

    /// Whether it is the one that runs the command, if there is one.
    pub fn is_first(&self) -> bool {
        self.index == 0
    }

    /// Where it shows its progress.
    pub fn bars(&self) -> &MultiProgress {
        &self.together.bars
    }

    /// Whether a command was to run and did not. To be asked after the capture; waits for a command that still runs, for a
    /// device may be gone before it ends.
    pub fn lacks_command(&self) -> bool {
        let runs = |progress: &mut Progress| self.goes_along() && !progress.is_over();
        let waited = self.together.changed.wait_while(self.together.progress(), runs);
        self.together.has_command && !waited.unwrap_or_else(PoisonError::into_inner).command_ended
    }

    /// Whether the recording of another device ends the command, which goes on without this one.
    pub fn ends_the_command(&self) -> bool {
        self.goes_along() && self.together.progress().runs()
    }

    /// As [`Together::have_begun`] says.
    pub fn all_have_begun(&self) -> bool {
        self.together.have_begun()
    }

    /// Devices of the other captures.
    pub fn others(&self) -> Vec<String> {
        let others = self.together.devices.iter().enumerate().filter(|(index, _)| *index != self.index);
        others.map(|(_, device)| device.clone()).collect()
    }

    /// Waits until all captures can record: the slowest device may take long to write what is dirty.
    pub fn ready(&self) -> Result<(), NotBegun> {
        self.pass(0)
    }

    /// Waits until all captures have begun.
    pub fn begin(&self) -> Result<(), NotBegun> {
        self.pass(1)
    }

    fn pass(&self, gate: usize) -> Result<(), NotBegun> {
        let mut progress = self.together.progress();
        progress.missing[gate] -= 1;
        self.together.changed.notify_all();
        loop {
            // First: one that failed after it is no concern of the others.
            if progress.missing[gate] == 0 {
                return Ok(());
            }
            if progress.failed.is_some() {
                return Err(NotBegun::AnotherFailed);
            }
            if self.together.wishes.load(Ordering::Relaxed) > 0 {
                progress.failed = progress.failed.or(Some(self.index));
                let signal = self.together.first_signal.load(Ordering::Relaxed);
                return Err(NotBegun::Interrupted { signal });
            }
            let waited = self.together.changed.wait_timeout(progress, LOOK);
            progress = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn runs_command(&self) -> bool {
        self.together.has_command && self.is_first()
    }

    fn goes_along(&self) -> bool {
        self.together.has_command && !self.is_first()
    }

    /// The command has ended, if it is this capture's.
    pub fn command_ended(&self) {
        if self.runs_command() {
            self.together.progress().command_ended = true;
            self.together.changed.notify_all();
        }
    }

    /// To be kept until the capture has ended.
    pub fn leaving(&self) -> Leaving {
        Leaving { member: self.clone(), failed: true }
    }

    /// The capture has ended.
    fn leave(&self, failed: bool) {
        let mut progress = self.together.progress();
        if failed || !progress.have_begun() {
            progress.failed = progress.failed.or(Some(self.index));
        }
        progress.first_left |= self.is_first();
        self.together.changed.notify_all();
    }
}

/// Says that a capture has ended, when it is dropped: also by a panic, for which the others would wait for ever.
pub struct Leaving {
    member: Member,
    /// It failed; so it did unless somebody says something else.
    pub failed: bool,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.member.leave(self.failed);
    }
}

impl Stop for Member {
    fn wishes(&self) -> usize {
        let progress = self.together.progress();
        let of_user = self.together.wishes.load(Ordering::Relaxed);
        match progress.runs() {
            true if self.goes_along() => 0,
            // A recording that lacks a device is not what was asked for: the command is asked to end. Only the user insists.
            true if self.runs_command() && progress.failed.is_some() => of_user.max(1),
            _ => of_user,
        }
    }

    fn over(&self) -> bool {
        self.goes_along() && self.together.progress().is_over()
    }
}
