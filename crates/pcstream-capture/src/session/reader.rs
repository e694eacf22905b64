//! What goes between the BPF program and user space while a session runs: records come, rules go.

use std::time::Duration;

use libbpf_rs::{MapCore as _, MapFlags, MapHandle};

use super::error::SessionError;
use crate::wire::{ModuleOffset, UnwindRule};

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
            let name = [key.module.to_ne_bytes(), key.offset.to_ne_bytes()].concat();
            let rule = [
                rule.kind.to_ne_bytes(),
                rule.cfa_offset.to_ne_bytes(),
                rule.bp_offset.to_ne_bytes(),
                rule.into_function.to_ne_bytes(),
            ]
            .concat();
            // One that fails takes none of the others along: they are not handed out again.
            let _ = self.rules.update(&name, &rule, MapFlags::ANY);
        }
    }
}

/// Reads records from a session's ring buffer.
pub struct Reader<'cb> {
    pub(super) ring: libbpf_rs::RingBuffer<'cb>,
}

impl Reader<'_> {
    /// Handles what is there, waiting up to `timeout` for a record that wakes. A signal ends the wait.
    pub fn poll(&self, timeout: Duration) -> Result<(), SessionError> {
        match self.ring.poll_raw(timeout) {
            code if code < 0 && -code != libc::EINTR => {
                Err(SessionError::Ring(libbpf_rs::Error::from_raw_os_error(-code)))
            }
            0 => self.drain(),
            _ => Ok(()),
        }
    }

    /// Handles what is there, to the last record.
    pub fn drain(&self) -> Result<(), SessionError> {
        loop {
            match self.ring.consume_raw() {
                0 => return Ok(()),
                code if code < 0 && -code != libc::EINTR => {
                    return Err(SessionError::Ring(libbpf_rs::Error::from_raw_os_error(-code)));
                }
                _ => {}
            }
        }
    }
}
