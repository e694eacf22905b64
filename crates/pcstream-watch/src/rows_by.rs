//! Rows of a snapshot by program: each the sum of its contexts.
//!
//! Such a snapshot is shown as any other. A sum has no call path, and no lifetimes where it is of several contexts: quartiles
//! do not add up.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::Hasher as _;
use std::sync::Arc;

use pcstream_report::human::counted;
use pcstream_trace::Context;
use rustc_hash::FxHasher;

use crate::snapshot::{ContextNow, Snapshot, Who};

/// Files of a program that are named.
const FILES: usize = 8;

/// What a row stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowsBy {
    /// A program context.
    #[default]
    Context,
    /// A program, by the path of its executable.
    Program,
}

pcstream_trace::named!(RowsBy: Context = "context", Program = "program");

impl Snapshot {
    /// The same with rows of this kind. Those without a program stay as they are.
    pub fn by(&self, rows: RowsBy) -> Cow<'_, Snapshot> {
        match rows {
            RowsBy::Context => Cow::Borrowed(self),
            RowsBy::Program => Cow::Owned(Snapshot { contexts: programs(&self.contexts), ..self.clone() }),
        }
    }

    /// The same with the contexts of one program alone.
    pub fn of_program(&self, program: Who) -> Snapshot {
        let mut snapshot = self.clone();
        snapshot.contexts.retain(|row| program_of(row) == Some(program));
        snapshot
    }

    /// Whether a row has a text, or one of the contexts of this snapshot that it is the sum of.
    pub fn mentions(&self, row: &ContextNow, text: &str) -> bool {
        let mut parts = self.contexts.iter().filter(|part| program_of(part) == Some(row.who));
        row.mentions(text) || parts.any(|part| part.mentions(text))
    }
}

/// The row that a row of a context is part of.
fn program_of(row: &ContextNow) -> Option<Who> {
    row.context.as_ref().map(|context| {
        let mut hash = FxHasher::default();
        hash.write(context.executable.as_bytes());
        Who::Program(hash.finish())
    })
}

/// The fastest first.
fn programs(contexts: &[ContextNow]) -> Vec<ContextNow> {
    let mut rows: Vec<ContextNow> = Vec::new();
    let mut places: HashMap<Who, (usize, u64)> = HashMap::new();
    for context in contexts {
        let Some(program) = program_of(context) else {
            rows.push(context.clone());
            continue;
        };
        let (at, parts) = places.entry(program).or_insert((rows.len(), 0));
        *parts += 1;
        match rows.get_mut(*at) {
            Some(sum) => add(sum, context),
            None => rows.push(begun(program, context)),
        }
    }
    for (at, parts) in places.into_values() {
        rows[at].path = counted(parts, "call path");
    }
    rows.sort_by(|a, b| b.written.rate.total_cmp(&a.written.rate).then(a.who.cmp(&b.who)));
    rows
}

/// The row of a program of which one context is known.
fn begun(program: Who, first: &ContextNow) -> ContextNow {
    let executable = first.program().to_owned();
    let context = Some(Arc::new(Context { executable, ..Context::default() }));
    ContextNow { who: program, context, ..first.clone() }
}

fn add(sum: &mut ContextNow, more: &ContextNow) {
    let written = &mut sum.written;
    written.pages += more.written.pages;
    written.total_pages += more.written.total_pages;
    written.rate += more.written.rate;
    // All rows have the same intervals.
    written.history.iter_mut().zip(&more.written.history).for_each(|(rate, more)| *rate += more);
    sum.share += more.share;
    sum.pages_by_kind.iter_mut().zip(&more.pages_by_kind).for_each(|(pages, more)| *pages += more);
    (sum.lifetimes, sum.expected) = (None, None);
    sum.ended += more.ended;
    sum.stream = sum.stream.filter(|stream| more.stream == Some(*stream));
    for file in &more.files {
        if sum.files.len() < FILES && !sum.files.contains(file) {
            sum.files.push(file.clone());
        }
    }
    sum.first = sum.first.max(more.first);
    sum.last = sum.last.min(more.last);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pcstream_placement::Stream;
    use pcstream_replay::Quartiles;
    use pcstream_trace::{ContextId, Kind, Signature};

    use super::*;
    use crate::snapshot::Flow;

    fn row(id: u32, program: &str, pages: u64, stream: u8) -> ContextNow {
        let context = Context {
            id: ContextId(id),
            signature: Signature(id.into()),
            executable: program.to_owned(),
            ..Context::default()
        };
        let rate = pages as f64;
        ContextNow {
            who: Who::Context(ContextId(id)),
            context: Some(Arc::new(context)),
            path: "write < main".to_owned(),
            written: Flow { pages, total_pages: 2 * pages, rate, history: vec![0.0, rate] },
            share: rate / 100.0,
            pages_by_kind: [pages, 0, 0, 0, 0, 0],
            lifetimes: Some(Quartiles { p25: 1, p50: 2, p75: 3 }),
            ended: 5,
            expected: None,
            stream: Some(Stream(stream)),
            files: vec!["/log".into(), format!("/{id}").into()],
            first: Duration::from_secs(id.into()),
            last: Duration::from_secs(id.into()),
        }
    }

    #[test]
    fn a_program_is_the_sum_of_its_contexts() {
        let journal = ContextNow { who: Who::FileSystem(Kind::Journal), context: None, ..row(9, "", 15, 0) };
        let contexts = vec![row(1, "/a/db", 10, 1), row(2, "/b/db", 40, 2), row(3, "/a/db", 20, 1), journal];
        let snapshot = Snapshot { contexts, ..Snapshot::default() };
        assert_eq!(snapshot.by(RowsBy::Context).contexts.len(), 4);
        let programs = snapshot.by(RowsBy::Program);
        let names = programs.contexts.iter().map(|row| (row.program(), row.written.pages, &row.path[..]));
        let expected =
            [("/b/db", 40, "1 call path"), ("/a/db", 30, "2 call paths"), ("journal", 15, "write < main")];
        assert_eq!(names.collect::<Vec<_>>(), expected);
        let [alone, sum, _] = &programs.contexts[..] else { panic!("three rows") };
        assert_eq!((alone.lifetimes.map(|q| q.p50), sum.lifetimes), (Some(2), None));
        assert_eq!((sum.written.rate, &sum.written.history[..], sum.ended), (30.0, &[0.0, 30.0][..], 10));
        assert_eq!((sum.stream, sum.written.total_pages, sum.pages_by_kind[0]), (Some(Stream(1)), 60, 30));
        assert_eq!(sum.files, ["/log".into(), "/1".into(), "/3".into()]);
        assert_eq!((sum.first, sum.last), (Duration::from_secs(3), Duration::from_secs(1)));
        let opened = snapshot.of_program(sum.who).contexts;
        assert_eq!(opened.iter().map(|row| row.written.pages).collect::<Vec<_>>(), [10, 20]);
    }

    #[test]
    fn contexts_in_several_streams_have_none_together() {
        let contexts = [1, 2, 2].into_iter().zip(1..).map(|(stream, id)| row(id, "/db", 1, stream)).collect();
        let snapshot = Snapshot { contexts, ..Snapshot::default() };
        assert_eq!(snapshot.by(RowsBy::Program).contexts[0].stream, None);
    }
}
