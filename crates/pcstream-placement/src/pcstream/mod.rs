//! pcstream: program contexts grouped by lifetime (Kim et al., FAST'19).
//!
//! Idea: the call path that led to a write predicts how long its data will live. Three parts, as in
//! the paper's Figure 7:
//!
//! - [`lifetime`], the lifetime manager: which context wrote what is where, and when; an overwrite
//!   or discard turns that into a lifetime;
//! - [`table`], the PC attribute table: expected lifetime and stream of each context;
//! - [`mapper`], the PC2Stream mapper: contexts with similar lifetimes share a stream.
//!
//! A write is placed by what is known before it; then it is learned from. A context that is
//! unknown, has no lifetime yet, or was not clustered yet goes to S0, as does a write without a
//! context (the file system's metadata and journal, unless `kinds` is set).
//!
//! Units: pages and logical time.
//!
//! Known weaknesses: a context whose data is never overwritten has no lifetime and stays in S0; one
//! whose data lives for very different times (an LSM tree's compaction) has a mean that fits
//! none of it, which is what internal streams are for. Lifetimes are learned from data that died,
//! so that a fresh trace shows the short ones first.

pub mod cluster;
pub mod key;
pub mod lifetime;
pub mod mapper;
pub mod table;

use std::sync::Arc;

use pcstream_trace::{Event, Tables};

use crate::error::{SchemeError, check};
use crate::registry::SchemeParams;
use crate::scheme::{Placement, Scheme, SchemeFact};
use key::{KeySource, Keys};
use lifetime::{Ended, LifetimeParams, LiveTable};
use mapper::{Mapper, MapperParams};
use table::{AttributeTable, Averaging, Lifetime};

/// Parameters of `pcstream`.
#[derive(Clone, Debug, PartialEq)]
pub struct PcStreamParams {
    /// What lifetimes are learned of; the program context.
    pub key: KeySource,
    /// Whether file-system metadata without a context is learned by its kind instead of going to
    /// S0; off, as in the paper.
    pub kinds: bool,
    /// Lifetimes that a path must have ended before it is preferred to its prefixes, at least 1; without a tree of
    /// prefixes it means nothing.
    pub enough_lifetimes: u32,
    /// The lifetime manager.
    pub lifetime: LifetimeParams,
    /// How a new lifetime changes the expected one.
    pub averaging: Averaging,
    /// Size of the PC attribute table; 360 KB in the paper. 13 bytes an entry.
    pub table_bytes: u64,
    /// Whether what was learned of a program's contexts is forgotten when its last process ends: what a table that does
    /// not outlive processes comes to (FAST'19's comparison without a table). Off, as in the paper.
    pub forget_at_exit: bool,
    /// A saved table to begin with. It is one of program contexts, so other keys begin without.
    pub saved_table: Option<Arc<[u8]>>,
    /// The mapper.
    pub mapper: MapperParams,
}

impl Default for PcStreamParams {
    fn default() -> Self {
        PcStreamParams {
            key: KeySource::default(),
            kinds: false,
            enough_lifetimes: 8,
            lifetime: LifetimeParams::default(),
            averaging: Averaging::default(),
            table_bytes: 360_000,
            forget_at_exit: false,
            saved_table: None,
            mapper: MapperParams::default(),
        }
    }
}

/// The PCStream scheme.
pub struct PcStream {
    keys: Keys,
    enough_lifetimes: u32,
    live: LiveTable,
    ended: Ended,
    table: AttributeTable,
    mapper: Mapper,
    averaged: u64,
    forget_at_exit: bool,
    forgotten: u64,
}

impl PcStream {
    /// Makes the scheme for `streams` streams, S0 included; errors name it `scheme`.
    pub fn new(scheme: &'static str, streams: u8, params: PcStreamParams) -> Result<PcStream, SchemeError> {
        if streams == 0 {
            return Err(SchemeError::NoStreams);
        }
        params.lifetime.check(scheme)?;
        params.mapper.check(scheme)?;
        if let Averaging::Weighted(w) = params.averaging {
            check(w > 0.0 && w <= 1.0, scheme, "pcstream.averaging", w, "above 0 and at most 1")?;
        }
        let mut table =
            AttributeTable::new(params.table_bytes, params.averaging, params.mapper.change_factor);
        if let Some(saved) = &params.saved_table
            && params.key.is_signature()
        {
            table.load(saved)?;
        }
        let mut mapper = Mapper::new(streams, params.mapper);
        if mapper.is_due(&table, 0) {
            mapper.cluster(&mut table, 0);
        }
        Ok(PcStream {
            keys: Keys::new(params.key, params.kinds),
            enough_lifetimes: params.enough_lifetimes,
            live: LiveTable::new(params.lifetime),
            ended: Ended::default(),
            table,
            mapper,
            averaged: 0,
            forget_at_exit: params.forget_at_exit,
            forgotten: 0,
        })
    }

    pub(crate) fn boxed(
        scheme: &'static str,
        p: &SchemeParams,
        vary: impl Fn(&mut PcStreamParams),
    ) -> Result<Box<dyn Scheme>, SchemeError> {
        let mut params = p.pcstream.clone();
        vary(&mut params);
        Ok(Box::new(PcStream::new(scheme, p.streams, params)?))
    }

    /// The PC attribute table.
    pub fn table(&self) -> &AttributeTable {
        &self.table
    }

    /// Takes the lifetimes that a request ended into the table, and re-clusters if that is due.
    #[inline]
    fn learn(&mut self, now: u64) {
        let PcStream { keys, ended, table, mapper, averaged, .. } = self;
        let mut learned = false;
        ended.drain(|writer, pages| {
            let lifetime = Lifetime::from_pages(pages);
            let mut upwards = Some(writer);
            while let Some(writer) = upwards {
                let known = keys.known(writer);
                let is_new = table.learn(known.signature, lifetime, &mut known.place);
                if is_new && let Some(stream) = mapper.stream_at_once(lifetime) {
                    table.set_stream(known.signature, stream);
                }
                upwards = known.parent;
            }
            *averaged += 1;
            learned = true;
        });
        if learned && mapper.is_due(table, now) {
            mapper.cluster(table, now);
        }
    }
}

impl Scheme for PcStream {
    fn place(&mut self, event: &Event, now: u64, tables: &Tables, out: &mut Vec<Placement>) {
        let writer = self.keys.writer_of(event, tables);
        let stream = writer.map_or(Default::default(), |w| {
            let lifetimes = |signature| self.table.get(signature).map_or(0, |entry| entry.samples);
            let best = self.keys.best_known(w, self.enough_lifetimes, lifetimes);
            let known = self.keys.known(best);
            self.table.stream_for_write(known.signature, event.pages, &mut known.place)
        });
        out.push(Placement { pages: event.pages, stream });
        self.live.write(event, writer, now, &mut self.ended);
        self.learn(now);
    }

    fn discard(&mut self, event: &Event, now: u64, _: &Tables) {
        self.live.discard(event, now, &mut self.ended);
        self.learn(now);
    }

    fn exit(&mut self, event: &Event, tables: &Tables) {
        let Some(context) = tables.context(event.context).filter(|_| self.forget_at_exit) else { return };
        for signature in self.keys.of_program(&context.executable) {
            self.forgotten += u64::from(self.table.get(signature).is_some());
            self.table.forget(signature);
        }
    }

    fn facts(&self) -> Vec<SchemeFact> {
        vec![
            ("reclusterings", self.mapper.clusterings()),
            ("contexts_known", self.table.len() as u64),
            ("remapped_contexts", self.mapper.remapped()),
            ("lifetimes_learned", self.averaged),
            ("table_bytes", self.table.bytes()),
            ("table_evictions", self.table.evictions()),
            ("contexts_forgotten", self.forgotten),
            ("live_chunks", self.live.chunks() as u64),
            ("live_bytes", self.live.bytes()),
            ("live_evictions", self.live.evictions()),
            ("live_pairs_dropped", self.live.dropped_pairs()),
        ]
    }

    fn learned(&self) -> Option<Vec<u8>> {
        Some(self.table.save())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{tables, write};
    use pcstream_trace::{ContextId, Op, Signature};

    /// Two programs learn; one ends.
    #[test]
    fn a_program_that_ends_is_forgotten_if_asked() {
        let tables = tables(&[("cc1", ""), ("cc1", ""), ("db", "")], &[]);
        for (forget, left) in [(true, 1), (false, 3)] {
            let params = PcStreamParams { forget_at_exit: forget, ..PcStreamParams::default() };
            let mut scheme = PcStream::new("test", 4, params).expect("good parameters");
            let (mut now, mut out) = (0, Vec::new());
            // Chunks of 1 MiB are overwritten, each by its own context.
            for round in 0..4u64 {
                for id in 1..=3u32 {
                    let mut event = write(u64::from(id) * 256, 256);
                    event.context = ContextId(id);
                    scheme.place(&event, now, &tables, &mut out);
                    now += 256;
                }
                assert_eq!(scheme.table().len(), if round == 0 { 0 } else { 3 });
            }
            let exit = Event { op: Op::Exit, context: ContextId(2), ..write(0, 0) };
            scheme.exit(&exit, &tables);
            assert_eq!(scheme.table().len(), left, "forget: {forget}");
            assert!(scheme.table().get(Signature(1003)).is_some());
            let nobody = Event { context: ContextId(9), ..exit };
            scheme.exit(&nobody, &tables);
            assert_eq!(scheme.table().len(), left);
        }
    }
}
