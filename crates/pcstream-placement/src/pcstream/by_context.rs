//! The streams of contexts, for those who place writes before the scheme sees them.

use pcstream_trace::{ContextId, Event, Tables};

use crate::pcstream::PcStream;
use crate::saved_table::TableError;
use crate::scheme::{ByContext, ContextStream, Stream};

impl ByContext for PcStream {
    fn of(&mut self, context: ContextId, tables: &Tables) -> ContextStream {
        let event = Event { context, ..Event::write(0, 1) };
        let Some(writer) = self.keys.writer_of(&event, tables) else { return ContextStream::default() };
        let lifetimes = |signature| self.table.get(signature).map_or(0, |entry| entry.samples);
        let best = self.keys.best_known(writer, self.enough_lifetimes, lifetimes);
        let signature = self.keys.known(best).signature;
        self.table.get(signature).map_or(ContextStream::default(), |entry| ContextStream {
            stream: entry.stream,
            // One that is known by its survivors only has an age, and that is all.
            lifetime_pages: Some(entry.lifetime.pages()),
            samples: entry.samples,
        })
    }

    fn clusterings(&self) -> u64 {
        self.mapper.clusterings()
    }

    fn by_lifetime(&self) -> Vec<Stream> {
        self.mapper.by_lifetime()
    }

    fn load_table(&mut self, saved: &[u8], now: u64) -> Result<(), TableError> {
        self.table.load(saved, self.keys.source())?;
        let PcStream { mapper, table, .. } = self;
        if mapper.is_due(table, now) {
            mapper.cluster(table, now);
        } else {
            table.settle_all(|entry| mapper.newcomer(entry));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::find;
    use crate::scheme::Scheme;
    use crate::testing::{device, tables, write};

    fn scheme(name: &str) -> Box<dyn Scheme> {
        find(name).expect("registered").build(&device(4)).expect("its defaults are good")
    }

    /// Context 1 overwrites its page at once, context 2 every tenth time.
    fn teach(scheme: &mut dyn Scheme, tables: &Tables) -> u64 {
        let mut now = 0;
        for round in 0..200 {
            let context = if round % 10 == 0 { 2 } else { 1 };
            let event = Event { context: ContextId(context), ..write(1000 * u64::from(context), 1) };
            scheme.place(&event, now, tables, &mut Vec::new());
            now += 1;
        }
        now
    }

    /// What is said of a context is what its next write gets.
    #[test]
    fn contexts_have_the_streams_that_their_writes_get() {
        for name in ["pcstream", "pcstream-tree", "pcstream-paper"] {
            let (mut scheme, tables) = (scheme(name), tables(&[("a", ""), ("b", ""), ("c", "")], &[]));
            let now = teach(scheme.as_mut(), &tables);
            let known =
                [1, 2, 3].map(|id| scheme.by_context().expect("by context").of(ContextId(id), &tables));
            for (id, known) in (1..).zip(known) {
                let mut out = Vec::new();
                let event = Event { context: ContextId(id), ..write(10 + u64::from(id), 1) };
                scheme.place(&event, now, &tables, &mut out);
                assert_eq!(out[0].stream, known.stream, "{name}: context {id}");
            }
            assert_ne!(known[0].stream, known[1].stream, "{name}");
            let order = scheme.by_context().expect("by context").by_lifetime();
            assert_eq!(order, [known[0].stream, known[1].stream], "{name}");
            assert!(known[0].lifetime_pages < known[1].lifetime_pages, "{name}: {known:?}");
            assert_eq!(known[2], ContextStream::default(), "{name}: nothing is known of it");
        }
    }

    #[test]
    fn a_saved_table_is_taken_up_while_the_scheme_runs() {
        let (mut first, mut second) = (scheme("pcstream"), scheme("pcstream"));
        let tables = tables(&[("a", ""), ("b", "")], &[]);
        teach(first.as_mut(), &tables);
        let saved = first.learned().expect("it learns");
        let by_context = second.by_context().expect("by context");
        assert_eq!(by_context.of(ContextId(1), &tables).stream, Stream::DEFAULT);
        by_context.load_table(&saved, 7).expect("just saved");
        let known = by_context.of(ContextId(1), &tables);
        assert_eq!(
            known.lifetime_pages,
            first.by_context().expect("so too").of(ContextId(1), &tables).lifetime_pages
        );
        assert_ne!(known.stream, Stream::DEFAULT, "it is clustered at once");
        assert!(by_context.load_table(b"something else", 8).is_err());
    }

    /// A table with a few contexts, among many: too few for another clustering.
    #[test]
    fn a_loaded_context_goes_to_the_nearest_cluster_where_clustering_is_not_due() {
        let names: Vec<String> = (0..40).map(|n| format!("p{n}")).collect();
        let contexts: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
        let tables = tables(&contexts, &[]);
        let teach = |contexts: std::ops::Range<u32>, rounds: u32| {
            let mut scheme = scheme("pcstream");
            for round in 0..rounds {
                for context in contexts.clone().filter(|context| round % (1 + context % 2 * 9) == 0) {
                    let event = Event { context: ContextId(context), ..write(1000 * u64::from(context), 1) };
                    scheme.place(&event, u64::from(round * 40 + context), &tables, &mut Vec::new());
                }
            }
            scheme
        };
        let saved = teach(1..2, 400).learned().expect("it learns");
        let mut many = teach(2..40, 400);
        let by_context = many.by_context().expect("by context");
        let clusterings = by_context.clusterings();
        by_context.load_table(&saved, 16_000).expect("just saved");
        assert_eq!(by_context.clusterings(), clusterings, "it was not due");
        let like = by_context.of(ContextId(3), &tables);
        assert_ne!(like.stream, Stream::DEFAULT);
        assert_eq!(by_context.of(ContextId(1), &tables).stream, like.stream);
    }

    #[test]
    fn schemes_that_go_by_files_or_addresses_say_so() {
        for name in ["baseline", "autostream-mq", "fstream", "manual", "sequential"] {
            if let Ok(info) = find(name) {
                let mut scheme = info.build(&device(4)).expect("its defaults are good");
                assert!(scheme.by_context().is_none(), "{name}");
            }
        }
    }
}
