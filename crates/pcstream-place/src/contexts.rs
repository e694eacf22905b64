//! Contexts and what was decided for them.
//!
//! Idea: a scheme may change its mind at every write; whoever places writes may not, or the data of one context would be
//! scattered. So a context that has a stream and a hint keeps both until the scheme gives all contexts streams together
//! (a clustering). The hint is the place of its stream in the order of lifetimes. What is not known has the default stream
//! and no hint. Nor have the writers that an attached capture does not follow (`Context::others`), however much is known of
//! them: nobody asked to place their writes.
//!
//! Units: pages.
//!
//! Invariant: between two clusterings a context goes from unknown to known once, and nowhere else.
//!
//! Known weakness: among n contexts, what became known of one may wait for n / 1024 batches.

use pcstream_placement::{ByContext, Stream};
use pcstream_trace::{ContextId, Life, Tables};

use crate::hint::HintClasses;

/// Contexts that are asked about with each batch, besides new ones. A program may have a new call path at every write: to
/// ask about all each time would take time by the square of their number.
const IN_TURN: usize = 1024;

/// What was decided for a context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Where its writes go.
    pub stream: Stream,
    /// What its files are expected to be; `None`: not known.
    pub hint: Option<Life>,
    /// Expected lifetime now.
    pub lifetime_pages: Option<u64>,
    /// Lifetimes that went into it.
    pub samples: u32,
}

/// Decisions by context.
#[derive(Debug, Default)]
pub struct Decisions {
    /// By context id, less one.
    all: Vec<Decision>,
    /// Streams in the order of lifetimes, of the last clustering.
    order: Vec<Stream>,
    clusterings: u64,
    /// Whose turn it is: a place in `all`.
    turn: usize,
    hints: HintClasses,
}

/// What a refresh changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Contexts whose stream or hint is another.
    pub contexts: Vec<ContextId>,
    /// All contexts were given streams together: what changed takes effect at once, for all.
    pub clustered: bool,
}

impl Decisions {
    /// Of contexts whose files have these hints.
    pub fn with(hints: HintClasses) -> Decisions {
        Decisions { hints, ..Decisions::default() }
    }

    /// What the requests of a context's files carry; `None`: it is not known.
    pub fn carried(&self, context: ContextId) -> Option<Life> {
        self.of(context).hint.map(|hint| self.hints.carried(hint))
    }

    /// Asks the scheme about contexts that are new, and about `IN_TURN` others in their turn; after a clustering about
    /// all contexts in the tables.
    pub fn refresh(&mut self, scheme: &mut dyn ByContext, tables: &Tables) -> Changes {
        let known = self.all.len();
        if scheme.clusterings() != self.clusterings || known <= IN_TURN {
            return self.refresh_all(scheme, tables);
        }
        let turn = self.turn..(self.turn + IN_TURN).min(known);
        self.turn = if turn.end == known { 0 } else { turn.end };
        self.ask(turn.chain(known..tables.contexts().len()), scheme, tables)
    }

    /// Asks the scheme about all contexts in the tables.
    pub fn refresh_all(&mut self, scheme: &mut dyn ByContext, tables: &Tables) -> Changes {
        self.turn = 0;
        self.ask(0..tables.contexts().len(), scheme, tables)
    }

    /// Asks about contexts by their place in the tables.
    fn ask(
        &mut self,
        asked: impl Iterator<Item = usize>,
        scheme: &mut dyn ByContext,
        tables: &Tables,
    ) -> Changes {
        let clustered = scheme.clusterings() != self.clusterings;
        self.clusterings = scheme.clusterings();
        let contexts = tables.contexts();
        let followed = asked.filter(|&at| !contexts[at].is_others());
        let known: Vec<_> = followed.map(|at| (at, scheme.of(contexts[at].id, tables))).collect();
        if clustered {
            self.order = scheme.by_lifetime();
        }
        self.all.resize(contexts.len(), Decision::default());
        let mut changes = Changes { contexts: Vec::new(), clustered };
        for (at, known) in known {
            let decision = &mut self.all[at];
            let before = (decision.stream, decision.hint);
            if clustered || decision.stream == Stream::DEFAULT {
                decision.stream = known.stream;
                // S0 may be one of the streams in the order, and hold what is unknown, too.
                let place = known
                    .lifetime_pages
                    .and_then(|_| self.order.iter().position(|&stream| stream == known.stream));
                decision.hint = place.map(|place| self.hints.of_place(place, self.order.len()));
            }
            (decision.lifetime_pages, decision.samples) = (known.lifetime_pages, known.samples);
            if before != (decision.stream, decision.hint) {
                changes.contexts.push(contexts[at].id);
            }
        }
        changes
    }

    /// What was decided for a context; nothing for one that is not known.
    pub fn of(&self, context: ContextId) -> Decision {
        let at = (context.0 as usize).wrapping_sub(1);
        self.all.get(at).copied().unwrap_or_default()
    }

    /// How often all contexts were given streams together.
    pub fn clusterings(&self) -> u64 {
        self.clusterings
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// Decisions of contexts 1, 2, ... with these streams.
    pub(crate) fn decided(streams: &[u8]) -> Decisions {
        let decision = |&stream: &u8| Decision { stream: Stream(stream), ..Decision::default() };
        Decisions { all: streams.iter().map(decision).collect(), ..Decisions::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcstream_placement::ContextStream;
    use pcstream_placement::saved_table::TableError;
    use pcstream_trace::{Context, Signature};
    use std::collections::BTreeMap;

    /// Says what it is given to say.
    #[derive(Default)]
    struct Said {
        streams: Vec<(u8, Option<u64>)>,
        clusterings: u64,
        /// How often it was asked.
        asked: u64,
    }

    impl ByContext for Said {
        fn of(&mut self, context: ContextId, _: &Tables) -> ContextStream {
            self.asked += 1;
            let (stream, lifetime_pages) = self.streams[context.0 as usize - 1];
            ContextStream { stream: Stream(stream), lifetime_pages, samples: lifetime_pages.map_or(0, |_| 1) }
        }

        fn clusterings(&self) -> u64 {
            self.clusterings
        }

        fn by_lifetime(&self) -> Vec<Stream> {
            let known =
                self.streams.iter().filter_map(|&(stream, lifetime)| Some((lifetime?, Stream(stream))));
            known.collect::<BTreeMap<_, _>>().into_values().collect()
        }

        fn load_table(&mut self, _: &[u8], _: u64) -> Result<(), TableError> {
            Ok(())
        }
    }

    fn tables(contexts: u32) -> Tables {
        let mut tables = Tables::default();
        for id in 1..=contexts {
            tables.push_context(Context {
                id: ContextId(id),
                signature: Signature(id.into()),
                ..Context::default()
            });
        }
        tables
    }

    #[test]
    fn a_context_keeps_its_stream_until_all_are_clustered() {
        let mut decisions = Decisions::default();
        let mut said = Said { streams: vec![(0, None), (1, Some(10))], clusterings: 1, asked: 0 };
        let changes = decisions.refresh(&mut said, &tables(2));
        assert_eq!(changes, Changes { contexts: vec![ContextId(2)], clustered: true });
        assert_eq!(decisions.of(ContextId(1)), Decision::default());
        assert_eq!(decisions.of(ContextId(2)).hint, Some(Life::Short));

        said.streams = vec![(2, Some(1000)), (3, Some(2000))];
        let changes = decisions.refresh(&mut said, &tables(2));
        assert_eq!(changes, Changes { contexts: vec![ContextId(1)], clustered: false });
        assert_eq!(decisions.of(ContextId(1)).stream, Stream(2), "it was not known");
        assert_eq!(decisions.of(ContextId(2)).stream, Stream(1), "it waits");
        assert_eq!(decisions.of(ContextId(2)).lifetime_pages, Some(2000), "what is learned is said");

        // Streams have kept their numbers, in another order.
        (said.streams, said.clusterings) = (vec![(3, Some(1000)), (2, Some(2000))], 2);
        let changes = decisions.refresh(&mut said, &tables(2));
        assert_eq!(changes.contexts, [ContextId(1), ContextId(2)]);
        let classes = [1, 2].map(|id| decisions.of(ContextId(id)).hint);
        assert_eq!(classes, [Some(Life::Short), Some(Life::Long)]);
        assert_eq!(decisions.refresh(&mut said, &tables(2)), Changes::default());
    }

    #[test]
    fn what_others_write_gets_nothing() {
        let mut tables = tables(1);
        tables.push_context(Context::others(ContextId(2)));
        let mut said = Said { streams: vec![(1, Some(10)), (2, Some(1000))], clusterings: 1, asked: 0 };
        let mut decisions = Decisions::default();
        assert_eq!(decisions.refresh(&mut said, &tables).contexts, [ContextId(1)]);
        assert_eq!(decisions.of(ContextId(2)), Decision::default());
    }

    #[test]
    fn of_many_contexts_a_batch_asks_about_new_ones_and_some_others() {
        let many = 3 * IN_TURN as u32;
        let (mut decisions, mut said) = (Decisions::default(), Said::default());
        said.streams = vec![(0, None); many as usize + 1];
        decisions.refresh(&mut said, &tables(many));
        assert_eq!(std::mem::take(&mut said.asked), u64::from(many));
        said.streams = vec![(1, Some(10)); many as usize + 1];
        let changes = decisions.refresh(&mut said, &tables(many + 1));
        assert_eq!(std::mem::take(&mut said.asked), IN_TURN as u64 + 1);
        assert_eq!((changes.contexts[0], changes.contexts[IN_TURN]), (ContextId(1), ContextId(many + 1)));
        (0..3).for_each(|_| _ = decisions.refresh(&mut said, &tables(many + 1)));
        let is_known = |decision: &Decision| decision.lifetime_pages.is_some();
        assert!(decisions.all.iter().all(is_known), "each had its turn");
        (said.clusterings, said.asked) = (1, 0);
        assert!(decisions.refresh(&mut said, &tables(many + 1)).clustered);
        assert_eq!(said.asked, u64::from(many) + 1, "a clustering is of all");
    }

    #[test]
    fn what_is_not_in_the_tables_has_the_default() {
        let decisions = Decisions::default();
        for id in [0, 1, u32::MAX] {
            assert_eq!(decisions.of(ContextId(id)), Decision::default());
        }
    }
}
