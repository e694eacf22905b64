//! The scheme `pcstream`, learning while a program writes.
//!
//! Memory: the scheme's own bounds, and 40 bytes for each context of the capture.

use std::sync::Arc;

use pcstream_placement::pcstream::{PcStream, PcStreamParams};
use pcstream_placement::{Environment, Placement, Scheme, SchemeError, Stream};
use pcstream_trace::{Batch, Context, Event, Signature, Tables};

use crate::snapshot::Expected;

/// A scheme and what it has seen.
pub struct Learner {
    scheme: PcStream,
    /// Contexts with their signatures and programs only: the scheme asks for no more.
    tables: Tables,
    now: u64,
    placements: Vec<Placement>,
    streams: u8,
}

impl Learner {
    /// A learner that knows nothing, or what a saved table says. `streams` counts S0.
    pub fn new(streams: u8, saved_table: Option<Arc<[u8]>>) -> Result<Learner, SchemeError> {
        let params = PcStreamParams { saved_table, ..PcStreamParams::default() };
        let scheme = PcStream::new("pcstream", &Environment::new(streams)?, params)?;
        Ok(Learner { scheme, tables: Tables::default(), now: 0, placements: Vec::new(), streams })
    }

    /// Streams, S0 included.
    pub fn streams(&self) -> u8 {
        self.streams
    }

    /// Takes note of a batch's contexts.
    pub fn absorb(&mut self, batch: &Batch) {
        for context in &batch.contexts {
            let known = Context {
                id: context.id,
                signature: context.signature,
                executable: context.executable.clone(),
                ..Context::default()
            };
            self.tables.push_context(known);
        }
    }

    /// Learns from an event. Returns the stream of a write.
    pub fn take(&mut self, event: &Event) -> Option<Stream> {
        self.placements.clear();
        self.now = self.scheme.take(event, self.now, &self.tables, &mut self.placements);
        self.placements.first().map(|placement| placement.stream)
    }

    /// What is expected of a context; `None`: nothing is known yet.
    pub fn expected(&self, signature: Signature) -> Option<Expected> {
        let entry = self.scheme.table().get(signature)?;
        Some(Expected { lifetime: entry.lifetime.pages(), samples: entry.samples })
    }

    /// What the scheme had to drop of live data, for its memory is bounded.
    pub fn dropped(&self) -> u64 {
        self.scheme.facts().iter().find(|(name, _)| *name == "live_chunks_dropped").map_or(0, |(_, n)| *n)
    }
}
