//! Names of functions while a capture runs.
//!
//! Idea: contexts that are new are looked up together, in a thread of their own, one round at a time. Records never wait
//! for it. A round that somebody no longer waits for is given up. Programs that were removed stay open until they have names,
//! and their last process has ended: what runs for weeks would keep more and more of them on the disk.

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use pcstream_trace::Context;

use crate::join::Joiner;
use crate::modules::reading_limits::GivenUp;
use crate::symbols::Names;

/// From the beginning of a round to that of the next: each parses its modules again.
const ROUND: Duration = Duration::from_millis(500);
/// Between two looks for programs that were removed.
const CLOSING: Duration = Duration::from_secs(2);

/// Who has names, and who is being looked up.
#[derive(Debug, Default)]
pub(crate) struct LiveNames {
    /// Contexts before this index have names, or none can be found.
    named: usize,
    /// The round that runs: up to which index, and its result.
    round: Option<(usize, Receiver<Names>)>,
    began: Option<Instant>,
    /// When removed programs were looked for.
    closed: Option<Instant>,
    /// Modules of which a limit kept names back: each round may say so again.
    short_of: BTreeSet<String>,
    /// Modules whose files were overwritten.
    changed: BTreeSet<u64>,
    /// Names that found no room.
    without: u64,
    given_up: GivenUp,
}

impl LiveNames {
    /// Contexts that got names since the last call.
    pub(crate) fn look(&mut self, joiner: &mut Joiner) -> Vec<Context> {
        let mut found = Vec::new();
        if let Some((until, result)) = &self.round {
            let until = *until;
            match result.try_recv() {
                Err(TryRecvError::Empty) => return found,
                Ok(names) => {
                    self.short_of.extend(names.short_of().iter().cloned());
                    self.changed.extend(names.changed());
                    let (named, without) = joiner.name(self.named..until, &names);
                    self.without += without;
                    found = named;
                }
                Err(TryRecvError::Disconnected) => {}
            }
            self.named = until;
            self.round = None;
        }
        let all = joiner.context_count();
        if all == self.named && self.closed.is_none_or(|closed| closed.elapsed() >= CLOSING) {
            self.closed = Some(Instant::now());
            joiner.close_removed_programs();
        }
        if all > self.named && self.began.is_none_or(|began| began.elapsed() >= ROUND) {
            self.began = Some(Instant::now());
            let (done, result) = channel();
            let (wanted, given_up) = (joiner.wanted_names(self.named), self.given_up.clone());
            let look = thread::Builder::new().spawn(move || drop(done.send(wanted.find(&given_up))));
            // Without room for a thread the next round tries again.
            self.round = look.is_ok().then_some((all, result));
        }
        found
    }

    /// Modules and frames that are left without names.
    pub(crate) fn over_limit(&self) -> u64 {
        (self.short_of.len() + self.changed.len()) as u64 + self.without
    }
}

impl Drop for LiveNames {
    fn drop(&mut self) {
        self.given_up.give_up();
    }
}
