//! What each program context wrote and how long it lived; and the totals of the trace. The same for
//! every scheme, so computed once.
//!
//! Units: pages; lifetimes in pages of logical time.

use pcstream_trace::{Batch, ById, ContextId, Event, FileId, Kind, Op, Totals};
use rustc_hash::FxHashMap;

use crate::lifetimes::{Lifetimes, Precision};
use crate::liveness::Ended;

/// One program context's writes; none by default.
#[derive(Clone, Debug)]
pub struct Writer {
    /// Pages written, by [`Kind`] (index: its stored number).
    pub pages_by_kind: [u64; Kind::ALL.len()],
    /// Lifetimes that ended, within 1 %.
    pub lifetimes: Lifetimes,
}

impl Default for Writer {
    fn default() -> Writer {
        Writer { pages_by_kind: Default::default(), lifetimes: Lifetimes::new(Precision::Percent) }
    }
}

impl Writer {
    /// Pages written.
    pub fn pages(&self) -> u64 {
        self.pages_by_kind.iter().sum()
    }

    /// Pages written that are neither overwritten nor discarded yet.
    pub fn alive_pages(&self) -> u64 {
        self.pages() - self.lifetimes.ended_pages()
    }
}

/// All contexts of a trace.
#[derive(Debug, Default)]
pub struct Writers {
    totals: Totals,
    /// By context id; index 0 is "no context known".
    by_context: ById<Writer>,
    by_file: FxHashMap<(ContextId, FileId), u64>,
}

impl Writers {
    /// Counts an event and the lifetimes that it ended.
    pub fn count(&mut self, event: &Event, ended: &[Ended]) {
        self.totals.add(event);
        if event.op == Op::Write {
            self.count_write(event);
        }
        for run in ended {
            self.by_context[run.context.0 as usize].lifetimes.record_run(run);
        }
    }

    /// Counts the table entries of a batch.
    pub fn count_tables(&mut self, batch: &Batch) {
        self.totals.contexts += batch.contexts.len() as u64;
        self.totals.files += batch.files.len() as u64;
    }

    fn count_write(&mut self, event: &Event) {
        let pages = u64::from(event.pages);
        self.by_context.at(event.context.0 as usize).pages_by_kind[event.kind as usize] += pages;
        if event.file.is_some() {
            *self.by_file.entry((event.context, event.file)).or_default() += pages;
        }
    }

    /// Totals of the trace so far.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Share of the written pages of kind [`Kind::Data`] whose context is known; 1 when no data was
    /// written. File-system metadata has no writer and is left out.
    pub fn context_coverage(&self) -> f64 {
        match self.totals.data_pages {
            0 => 1.0,
            data_pages => self.totals.covered_data_pages as f64 / data_pages as f64,
        }
    }

    /// Whether pages were written, but none by a known context: nothing can be said about schemes that go by context.
    pub fn are_unknown(&self) -> bool {
        self.totals.host_pages > 0 && self.totals.covered_pages == 0
    }

    /// The writes of one context; `None` when it has written nothing.
    pub fn writer(&self, context: ContextId) -> Option<&Writer> {
        self.by_context.get(context.0 as usize).filter(|w| w.pages() > 0)
    }

    /// Contexts that wrote, heaviest first, equals by id. `ContextId::NONE` stands for pages without
    /// a known context.
    pub fn heaviest(&self) -> Vec<(ContextId, &Writer)> {
        let ids = (0..).map(ContextId);
        let mut all: Vec<_> = ids.zip(self.by_context.iter()).filter(|(_, w)| w.pages() > 0).collect();
        all.sort_by_key(|(id, w)| (std::cmp::Reverse(w.pages()), *id));
        all
    }

    /// Pages of each file by each context that wrote to it, in no order.
    pub fn files(&self) -> impl Iterator<Item = (ContextId, FileId, u64)> + '_ {
        self.by_file.iter().map(|(&(context, file), &pages)| (context, file, pages))
    }

    /// The files that each context wrote most pages of, at most `limit` each, heaviest first.
    pub fn top_files(&self, limit: usize) -> FxHashMap<ContextId, Vec<(FileId, u64)>> {
        let mut top: FxHashMap<ContextId, Vec<(FileId, u64)>> = FxHashMap::default();
        for (&(context, file), &pages) in &self.by_file {
            top.entry(context).or_default().push((file, pages));
        }
        for files in top.values_mut() {
            files.sort_by_key(|&(file, pages)| (std::cmp::Reverse(pages), file));
            files.truncate(limit);
        }
        top
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    fn write(context: u32, file: u32, kind: Kind, pages: u32) -> Event {
        Event { context: ContextId(context), file: FileId(file), kind, ..Event::write(0, pages) }
    }

    #[test]
    fn coverage_counts_data_only() {
        let mut writers = Writers::default();
        assert_eq!(writers.context_coverage(), 1.0);
        writers.count(&write(0, 0, Kind::Journal, 100), &[]);
        assert_eq!(writers.context_coverage(), 1.0);
        writers.count(&write(1, 1, Kind::Data, 3), &[]);
        writers.count(&write(0, 1, Kind::Data, 1), &[]);
        assert_eq!(writers.context_coverage(), 0.75);
        assert_eq!(writers.totals().host_pages, 104);
    }

    #[test]
    fn heaviest_first_and_alive_pages() {
        let mut writers = Writers::default();
        writers.count(&write(1, 7, Kind::Data, 5), &[]);
        let ended = Ended { first: 0, pages: 2, lifetime: 5, falling: false, context: ContextId(1) };
        writers.count(&write(3, 8, Kind::Data, 9), &[ended]);
        writers.count(&write(3, 9, Kind::Inode, 10), &[]);
        let order: Vec<_> = writers.heaviest().iter().map(|(id, w)| (id.0, w.pages())).collect();
        assert_eq!(order, [(3, 19), (1, 5)]);
        assert_eq!(writers.writer(ContextId(1)).unwrap().alive_pages(), 3);
        assert_eq!(writers.top_files(1)[&ContextId(3)], [(FileId(9), 10)]);
        assert!(writers.writer(ContextId(2)).is_none());
    }
}
