//! What goes between the BPF program and user space while a session runs: records come, rules go.

use std::cell::Cell;
use std::io;
use std::time::Duration;

use libbpf_rs::{AsRawLibbpf as _, MapCore as _, MapFlags, MapHandle, libbpf_sys};

use super::error::SessionError;
use crate::wire::{ModuleOffset, UnwindRule, bytes_of};

/// The call-frame rules that the BPF program knows.
#[derive(Debug)]
pub struct RuleTable {
    pub(super) rules: MapHandle,
}

impl RuleTable {
    /// Adds rules. Those that find no room are left out: the BPF program asks for them a number of times, then ends paths
    /// there, and counts them (`UNSHIPPED_STACKS`).
    pub fn add(&mut self, rules: &[(ModuleOffset, UnwindRule)]) {
        for (key, rule) in rules {
            // One that fails takes none of the others along: they are not handed out again.
            let _ = self.rules.update(bytes_of(key), bytes_of(rule), MapFlags::ANY);
        }
    }
}

/// Records handled at once, at most: about a millisecond's work, unless stacks are among them.
pub const PIECE: usize = 4096;

/// Reads records from a session's ring buffer.
pub struct Reader<'cb> {
    ring: libbpf_rs::RingBuffer<'cb>,
    /// The last piece may have left some.
    has_more: Cell<bool>,
}

impl<'cb> Reader<'cb> {
    pub(super) fn new(ring: libbpf_rs::RingBuffer<'cb>) -> Reader<'cb> {
        Reader { ring, has_more: Cell::new(false) }
    }

    /// Handles what is there, [`PIECE`] records at most: whoever writes faster than records are taken must not keep the caller
    /// from everything else. If nothing is known to be there, waits up to `timeout` for a record that wakes. A signal ends the
    /// wait.
    pub fn poll(&self, timeout: Duration) -> Result<(), SessionError> {
        if !self.has_more.get() {
            self.wait(timeout)?;
        }
        self.consume().map(drop)
    }

    /// Handles what has been put there until now, but no record that comes meanwhile after that, except some of the last piece.
    pub fn drain(&self) -> Result<(), SessionError> {
        let end = self.positions().1;
        while end.wrapping_sub(self.positions().0).cast_signed() > 0 {
            // One that is not complete yet keeps back those behind it.
            if self.consume()? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Handles a piece. Returns how many records it had.
    fn consume(&self) -> Result<usize, SessionError> {
        let code = self.ring.consume_raw_n(PIECE);
        let taken = usize::try_from(code).map_err(|_| error_of(code))?;
        self.has_more.set(taken >= PIECE);
        Ok(taken)
    }

    fn wait(&self, timeout: Duration) -> Result<(), SessionError> {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        let timeout = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: room for one event, which lives until the call returns.
        let code = unsafe { libc::epoll_wait(self.ring.epoll_fd(), &raw mut event, 1, timeout) };
        match io::Error::last_os_error() {
            error if code < 0 && error.kind() != io::ErrorKind::Interrupted => {
                Err(SessionError::Ring(error.into()))
            }
            _ => Ok(()),
        }
    }

    /// Up to where records were taken and put, in bytes since the buffer was made.
    fn positions(&self) -> (u64, u64) {
        let buffer = self.ring.as_libbpf_object().as_ptr();
        // SAFETY: the buffer lives as long as `self`, and has the one ring that it was built with.
        unsafe {
            let ring = libbpf_sys::ring_buffer__ring(buffer, 0);
            (libbpf_sys::ring__consumer_pos(ring), libbpf_sys::ring__producer_pos(ring))
        }
    }
}

fn error_of(code: i32) -> SessionError {
    SessionError::Ring(libbpf_rs::Error::from_raw_os_error(-code))
}
