//! Who looks on while a placer works: metrics, for example.
//!
//! Idea: it lives in the placer's thread, so that it sees each event beside what was decided then, and needs no copy of
//! either. Its time is the placer's: it counts, and leaves what takes long to others.

use std::time::Duration;

use pcstream_trace::Batch;

use crate::contexts::Decisions;
use crate::summary::Standing;

/// Looks on.
pub trait Spectator: Send {
    /// Time between two looks.
    fn every(&self) -> Duration;

    /// Events that are about to be learned from, and what was decided before: so were they placed.
    fn batch(&mut self, batch: &Batch, decisions: &Decisions);

    /// How placing stands now, and what is decided.
    fn look(&mut self, standing: &Standing, decisions: &Decisions);
}
