//! `pcstream-plus` by contexts alone, for those who place writes before the scheme sees them; and what outlives a run.
//!
//! Idea: without history and names a context has one origin, and so one expected lifetime. That and the number of requests that
//! it was learned from are saved. How far lifetimes scatter is not: it is that of exponential lifetimes until more is seen.
//!
//! Units: pages.

use pcstream_trace::{ContextId, Event, Tables};

use crate::plus::predictor::{Origin, log2, pages};
use crate::plus::{PcStreamPlus, context_of};
use crate::saved_table::format::{TableError, encode, parse};
use crate::saved_table::{Lifetime, SavedEntry};
use crate::scheme::{ByContext, ContextStream, Stream};

impl PcStreamPlus {
    /// What was learned, as a saved table. Its entries are in the order in which contexts came.
    pub(super) fn save(&self) -> Vec<u8> {
        let entry = |(writer, signature)| {
            let set = self.predictor.set_of_context(context_of(writer))?;
            let lifetime = self.predictor.predict(set)?.lifetime;
            let lifetime = Lifetime::from_pages(pages(lifetime));
            Some(SavedEntry { signature, lifetime, samples: self.predictor.samples(set) })
        };
        let entries: Vec<_> = self.keys.writers().filter_map(entry).collect();
        encode(Some(self.name), self.keys.source(), entries.into_iter())
    }
}

impl ByContext for PcStreamPlus {
    fn of(&mut self, context: ContextId, tables: &Tables) -> ContextStream {
        let event = Event { context, ..Event::write(0, 1) };
        let writer = self.keys.writer_of(&event, tables);
        let set = writer.and_then(|writer| self.predictor.set_of_context(context_of(writer)));
        let known = set.and_then(|set| Some((set, self.predictor.predict(set)?)));
        known.map_or(ContextStream::default(), |(set, prediction)| {
            // Like `stream_of`, without a write.
            let placed = self.placed.get(usize::from(set.0)).and_then(|placed| placed.stream);
            ContextStream {
                stream: placed.or_else(|| self.clustering.stream(prediction)).unwrap_or_default(),
                lifetime_pages: Some(pages(prediction.lifetime)),
                samples: self.predictor.samples(set),
            }
        })
    }

    fn clusterings(&self) -> u64 {
        self.clustering.changes() + self.moves
    }

    fn by_lifetime(&self) -> Vec<Stream> {
        let streams = self.clustering.by_lifetime();
        // A single one is S0: nothing is kept apart, and nothing lives longer than something else.
        if streams.len() > 1 { streams } else { Vec::new() }
    }

    fn load_table(&mut self, saved: &[u8], now: u64) -> Result<(), TableError> {
        let saved = parse(saved)?;
        let (found, expected) = (saved.key(), self.keys.source());
        if !expected.begins_with(found) {
            return Err(TableError::OtherKey { found, expected });
        }
        for entry in saved.entries() {
            let writer = self.keys.writer_with(entry.signature);
            let origin = writer.map(|writer| Origin { context: context_of(writer), history: 0, name: 0 });
            let Some(set) = origin.and_then(|origin| self.predictor.set(origin)) else { continue };
            self.predictor.restore(set, log2(entry.lifetime.pages()), entry.samples);
            // Who had many lifetimes wrote much.
            self.placed.at(set.0.into()).weight += f64::from(entry.samples);
            // What lives so long was in a space of that size.
            self.space = self.space.max(entry.lifetime.pages());
        }
        self.cluster(now);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plus::MAX_CONTEXTS;
    use crate::registry::find;
    use crate::scheme::Scheme;
    use crate::testing::{device, tables, write};
    use pcstream_trace::Tables;

    fn scheme(streams: u8) -> Box<dyn Scheme> {
        let info = find("pcstream-plus-context").expect("registered");
        info.build(&device(streams)).expect("its defaults are good")
    }

    /// Context 1 overwrites one of 100 pages nine times out of ten, context 2 one of 3000; both in turn from page to page.
    fn teach(scheme: &mut dyn Scheme, tables: &Tables, from: u64) -> u64 {
        for round in 0..40_000u64 {
            let (context, lba) =
                if round % 10 == 0 { (2, 1000 + round / 10 % 3000) } else { (1, round % 100) };
            let event = Event { context: ContextId(context), ..write(lba, 1) };
            scheme.place(&event, from + round, tables, &mut Vec::new());
        }
        from + 40_000
    }

    fn known(scheme: &mut dyn Scheme, tables: &Tables) -> [ContextStream; 3] {
        [1, 2, 3].map(|id| scheme.by_context().expect("by context").of(ContextId(id), tables))
    }

    /// What is said of a context is what its next write gets, with a stream for what is unknown and without.
    #[test]
    fn contexts_have_the_streams_that_their_writes_get() {
        for streams in [4, 9] {
            let (mut scheme, tables) = (scheme(streams), tables(&[("a", ""), ("b", ""), ("c", "")], &[]));
            let now = teach(scheme.as_mut(), &tables, 0);
            let known = known(scheme.as_mut(), &tables);
            for (id, known) in (1..).zip(known) {
                let mut out = Vec::new();
                let event = Event { context: ContextId(id), ..write(10 + u64::from(id), 1) };
                scheme.place(&event, now, &tables, &mut out);
                assert_eq!(out[0].stream, known.stream, "{streams}: context {id}");
            }
            let order = scheme.by_context().expect("by context").by_lifetime();
            assert_eq!(order, [known[0].stream, known[1].stream], "{streams}");
            assert_ne!(order[0], order[1], "{streams}");
            let mut alone = self::scheme(streams);
            for round in 0..1000 {
                let event = Event { context: ContextId(1), ..write(round % 100, 1) };
                alone.place(&event, round, &tables, &mut Vec::new());
            }
            let alone = alone.by_context().expect("by context");
            assert_eq!(
                (alone.of(ContextId(1), &tables).stream, alone.by_lifetime()),
                (Stream::DEFAULT, Vec::new())
            );
            assert!((50..200).contains(&known[0].lifetime_pages.expect("known")), "{known:?}");
            assert!((15_000..60_000).contains(&known[1].lifetime_pages.expect("known")), "{known:?}");
            assert_eq!(known[2], ContextStream::default(), "nothing is known of it");
        }
    }

    #[test]
    fn streams_move_only_with_a_clustering() {
        let (mut scheme, tables) = (scheme(9), tables(&[("a", ""), ("b", ""), ("c", "")], &[]));
        let mut seen = (0, known(scheme.as_mut(), &tables));
        for round in 0..40_000u64 {
            // Context 2 begins like context 1, and lives longer and longer.
            let lba = if round % 2 == 0 { round % 100 } else { 1000 + round % (100 + round / 4) };
            let event = Event { context: ContextId(1 + (round % 2) as u32), ..write(lba, 1) };
            scheme.place(&event, round, &tables, &mut Vec::new());
            let now =
                (scheme.by_context().expect("by context").clusterings(), known(scheme.as_mut(), &tables));
            for (before, after) in seen.1.iter().zip(&now.1) {
                let is_new = before.lifetime_pages.is_none();
                assert!(is_new || before.stream == after.stream || seen.0 < now.0, "{round}");
            }
            seen = now;
        }
        assert!(seen.1[0].stream != seen.1[1].stream && seen.0 < 20, "{seen:?}");
    }

    #[test]
    fn a_saved_table_is_known_at_once_and_gives_way_to_what_is_seen() {
        let tables = tables(&[("a", ""), ("b", ""), ("c", "")], &[]);
        let mut first = scheme(9);
        teach(first.as_mut(), &tables, 0);
        let saved = first.learned().expect("it learns");
        let mut second = scheme(9);
        second.by_context().expect("by context").load_table(&saved, 7).expect("just saved");
        let (of_first, of_second) = (known(first.as_mut(), &tables), known(second.as_mut(), &tables));
        for (first, second) in of_first.iter().zip(&of_second) {
            assert_eq!(first.samples, second.samples);
            let [first, second] = [first, second].map(|known| known.lifetime_pages.unwrap_or_default());
            assert!(first.abs_diff(second) <= 1 + first / 10_000, "{first} {second}: logarithms are rounded");
        }
        assert!(of_second[0].stream != of_second[1].stream && of_second[0].stream != Stream::DEFAULT);
        // What was the long-lived context now dies at once.
        for round in 0..20_000u64 {
            let event = Event { context: ContextId(2), ..write(1000 + round % 64, 1) };
            second.place(&event, 7 + round, &tables, &mut Vec::new());
        }
        let lifetime = known(second.as_mut(), &tables)[1].lifetime_pages.expect("known");
        assert!((32..256).contains(&lifetime), "{lifetime}");
        let by_context = second.by_context().expect("by context");
        assert!(by_context.load_table(b"something else", 8).is_err());
        let of_files =
            crate::registry::build("vstream-file", &device(9)).expect("valid").learned().expect("learns");
        assert!(matches!(by_context.load_table(&of_files, 8), Err(TableError::OtherKey { .. })));
    }

    /// Pages keep 40 bits of the time.
    #[test]
    fn a_daemon_learns_the_same_after_petabytes() {
        let tables = tables(&[("a", ""), ("b", "")], &[]);
        let taught = |from| {
            let mut scheme = scheme(9);
            teach(scheme.as_mut(), &tables, from);
            scheme.by_context().expect("by context").of(ContextId(2), &tables).lifetime_pages.expect("known")
        };
        let (early, late) = (taught(0), taught((1 << 40) - 20_000));
        assert!(early.abs_diff(late) * 20 < early, "{early} {late}");
    }

    #[test]
    fn as_many_contexts_are_taken_up_as_there_is_room_for() {
        let entries = |contexts: usize| {
            let entry = |at| SavedEntry {
                signature: pcstream_trace::Signature(at),
                lifetime: Lifetime::from_pages(100 + at),
                samples: 1,
            };
            encode(Some("pcstream-plus-context"), Default::default(), (1..=contexts as u64).map(entry))
        };
        for (contexts, refused) in [(MAX_CONTEXTS, 0), (MAX_CONTEXTS + 7, 7)] {
            let mut scheme = scheme(9);
            scheme.by_context().expect("by context").load_table(&entries(contexts), 0).expect("just made");
            let facts = scheme.facts();
            assert!(facts.contains(&("contexts_known", MAX_CONTEXTS as u64)), "{facts:?}");
            assert!(facts.contains(&("origins_refused", refused)), "{facts:?}");
        }
    }
}
