//! Counts what a running capture sees, by context, file, stream and kind, over a sliding window.
//!
//! Idea: events are added as they come; `tick` ends an interval and says what is known. The caller has the clock: it
//! tells `tick` the time, and an event counts in the interval in which it arrives. Rates are means over the last
//! intervals, for writeback comes in bursts of seconds.
//!
//! Bounded memory: rows, files and followed pages each have a limit. The rows that go are those of the contexts that wrote
//! least. What they wrote stays in the sums, and in one row; a context that writes again begins at 0. Contexts themselves are
//! bounded by the capture.
//!
//! Units: pages of 4 KiB; time since the watch began.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use pcstream_placement::Stream;
use pcstream_replay::Quartiles;
use pcstream_report::call_paths::call_paths;
use pcstream_report::symbols::Names;
use pcstream_trace::{Batch, Context, ContextId, Event, FileId, Kind, Op, Signature};
use rustc_hash::FxHashMap;

use crate::lifetimes::{FOLLOWED_PAGES, PageSample, RecentLifetimes};
use crate::rows::{Count, Row, keep_last};
use crate::snapshot::{ContextNow, Expected, Snapshot, StreamNow, Who};

/// What a watch keeps at most.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Contexts with counts of their own.
    pub rows: usize,
    /// Names of files.
    pub files: usize,
    /// Intervals of each row's history.
    pub intervals: usize,
    /// Intervals that rates are means over.
    pub window: usize,
    /// Pages that are followed for their lifetimes.
    pub followed_pages: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { rows: 4096, files: 65_536, intervals: 60, window: 5, followed_pages: FOLLOWED_PAGES }
    }
}

/// Longest name of a function that is kept, in characters.
const NAME_CHARACTERS: usize = 512;

#[derive(Debug)]
struct FileName {
    path: Arc<str>,
    /// The last interval that wrote to it.
    used: u64,
}

/// What writes now.
#[derive(Debug)]
pub struct Watch {
    limits: Limits,
    contexts: FxHashMap<ContextId, Arc<Context>>,
    files: FxHashMap<FileId, FileName>,
    rows: FxHashMap<Who, Row>,
    streams: Vec<Count>,
    written: Count,
    discarded: Count,
    pages_by_kind: [u64; Kind::ALL.len()],
    sample: PageSample,
    lengths: VecDeque<Duration>,
    /// When the running interval began.
    began: Duration,
    ticks: u64,
    rows_dropped: u64,
    nameless_files: u64,
}

impl Watch {
    /// Nothing was written yet. `streams` counts S0; 0: no scheme chooses any.
    pub fn new(limits: Limits, streams: u8) -> Watch {
        Watch {
            limits,
            contexts: FxHashMap::default(),
            files: FxHashMap::default(),
            rows: FxHashMap::default(),
            streams: vec![Count::default(); usize::from(streams)],
            written: Count::default(),
            discarded: Count::default(),
            pages_by_kind: Default::default(),
            sample: PageSample::new(limits.followed_pages),
            lengths: VecDeque::new(),
            began: Duration::ZERO,
            ticks: 0,
            rows_dropped: 0,
            nameless_files: 0,
        }
    }

    /// Takes note of a batch's contexts and files; its events come one by one.
    pub fn absorb(&mut self, batch: &Batch) {
        // A context may have its names already: they are looked up while batches are made.
        let new = batch.contexts.iter().filter(|context| !self.contexts.contains_key(&context.id));
        let new: Vec<Context> = new.cloned().collect();
        self.named(&new);
        for file in &batch.files {
            let name = FileName { path: file.path.as_str().into(), used: self.ticks };
            self.files.insert(file.id, name);
        }
        if self.files.len() > self.limits.files {
            self.forget_files();
        }
    }

    /// Contexts whose functions have names now.
    pub fn named(&mut self, contexts: &[Context]) {
        for context in contexts {
            let mut context = context.clone();
            for frame in &mut context.frames {
                if let Some((at, _)) = frame.symbol.char_indices().nth(NAME_CHARACTERS) {
                    frame.symbol.truncate(at);
                }
            }
            self.contexts.insert(context.id, Arc::new(context));
        }
    }

    /// Takes an event; `stream` is where a scheme places it, if it is a write and there is a scheme.
    pub fn take(&mut self, event: &Event, stream: Option<Stream>) {
        match event.op {
            Op::Write => self.write(event, stream),
            Op::Discard | Op::WriteZeroes => {
                self.discarded.add(event.pages.into());
                let (rows, now) = (&mut self.rows, self.written.total);
                self.sample.discard(event.lba.0, event.pages, now, |context, life| end(rows, context, life));
            }
            Op::Read | Op::Flush | Op::Exit => {}
        }
    }

    fn write(&mut self, event: &Event, stream: Option<Stream>) {
        let pages = u64::from(event.pages);
        let who = match (event.context, event.kind) {
            (ContextId::NONE, Kind::Data) => Who::Unknown,
            (ContextId::NONE, kind) => Who::FileSystem(kind),
            (context, _) => Who::Context(context),
        };
        if !self.rows.contains_key(&who) && self.rows.len() >= self.limits.rows {
            self.drop_rows();
        }
        let path = event.file.is_some().then(|| self.path_of(event.file));
        let now = self.written.total;
        let time = Duration::from_nanos(event.time_ns);
        let row = self.rows.entry(who).or_insert_with(|| Row::new(time));
        row.count.add(pages);
        row.pages_by_kind[event.kind as usize] += pages;
        row.last = row.last.max(time);
        row.stream = stream.or(row.stream);
        if let Some(path) = path {
            row.files.add(path, pages);
        }
        if let Some(count) = stream.and_then(|stream| self.streams.get_mut(usize::from(stream.0))) {
            count.add(pages);
        }
        self.pages_by_kind[event.kind as usize] += pages;
        self.written.add(pages);
        let rows = &mut self.rows;
        self.sample
            .write(event.lba.0, event.pages, event.context, now, |context, life| end(rows, context, life));
    }

    fn path_of(&mut self, file: FileId) -> Arc<str> {
        let ticks = self.ticks;
        match self.files.get_mut(&file) {
            Some(name) => {
                name.used = ticks;
                name.path.clone()
            }
            None => {
                self.nameless_files += 1;
                "".into()
            }
        }
    }

    /// Makes room for an eighth of the rows: those of the contexts that wrote least give theirs up.
    fn drop_rows(&mut self) {
        let contexts = self.rows.iter().filter(|(who, _)| matches!(who, Who::Context(_)));
        let mut least: Vec<(u64, Duration, Who)> =
            contexts.map(|(who, row)| (row.count.total, row.last, *who)).collect();
        least.sort_unstable();
        for (_, _, who) in least.iter().take(self.limits.rows.div_ceil(8)) {
            let gone = self.rows.remove(who).expect("it was found above");
            self.rows.entry(Who::GivenUp).or_insert_with(|| Row::new(gone.first)).take_over(&gone);
            self.rows_dropped += 1;
        }
    }

    /// Forgets the names of an eighth of the files, those that were not written to for longest.
    fn forget_files(&mut self) {
        let mut unused: Vec<(u64, FileId)> = self.files.iter().map(|(id, name)| (name.used, *id)).collect();
        unused.sort_unstable();
        let keep = self.limits.files - self.limits.files.div_ceil(8);
        for (_, id) in &unused[..unused.len() - keep] {
            self.files.remove(id);
        }
    }

    /// Ends an interval at `now`. `losses` are those of the capture, `expected` is what a scheme knows of a context.
    pub fn tick(
        &mut self,
        now: Duration,
        losses: &BTreeMap<String, u64>,
        expected: impl Fn(Signature) -> Option<Expected>,
    ) -> Snapshot {
        let Limits { intervals, window, .. } = self.limits;
        self.lengths.push_back(now.saturating_sub(self.began));
        keep_last(&mut self.lengths, intervals);
        self.began = now;
        self.ticks += 1;
        let sums = [&mut self.written, &mut self.discarded].into_iter().chain(&mut self.streams);
        sums.for_each(|count| count.tick(intervals));
        for row in self.rows.values_mut() {
            row.count.tick(intervals);
            row.files.fade();
        }
        let contexts = self.context_rows(now, &expected);
        let streams = (0..).map(Stream).zip(&self.streams);
        let mut losses = losses.clone();
        losses.insert("watch_rows".into(), self.rows_dropped);
        losses.insert("watch_file_names".into(), self.nameless_files);
        Snapshot {
            elapsed: now,
            interval: self.lengths.back().copied().unwrap_or_default(),
            window: self.lengths.iter().rev().take(window).sum(),
            written: self.written.flow(&self.lengths, window),
            discarded: self.discarded.flow(&self.lengths, window),
            pages_by_kind: self.pages_by_kind,
            streams: streams
                .map(|(stream, count)| StreamNow {
                    stream,
                    written: count.flow(&self.lengths, window),
                    contexts: contexts.iter().filter(|row| row.stream == Some(stream)).count(),
                })
                .collect(),
            contexts,
            losses,
            context_count: self.contexts.len(),
            one_page_of: self.sample.one_of(),
            placing: None,
        }
    }

    /// Rows that wrote lately, the fastest first.
    fn context_rows(
        &self,
        now: Duration,
        expected: &impl Fn(Signature) -> Option<Expected>,
    ) -> Vec<ContextNow> {
        let Limits { intervals, window, .. } = self.limits;
        let all = self.written.last(window).max(1) as f64;
        let active = self.rows.iter().filter(|(_, row)| row.count.last(intervals) > 0);
        let mut rows: Vec<ContextNow> = active
            .map(|(who, row)| {
                let context = match who {
                    Who::Context(id) => self.contexts.get(id).cloned(),
                    _ => None,
                };
                ContextNow {
                    who: *who,
                    path: String::new(),
                    written: row.count.flow(&self.lengths, window),
                    share: row.count.last(window) as f64 / all,
                    pages_by_kind: row.pages_by_kind,
                    lifetimes: quartiles(&row.lifetimes),
                    ended: row.lifetimes.count(),
                    expected: context.as_ref().and_then(|context| expected(context.signature)),
                    stream: row.stream,
                    files: row.files.paths(),
                    first: now.saturating_sub(row.first),
                    last: now.saturating_sub(row.last),
                    context,
                }
            })
            .collect();
        rows.sort_by(|a, b| b.written.rate.total_cmp(&a.written.rate).then(a.who.cmp(&b.who)));
        let known: Vec<&Context> = rows.iter().filter_map(|row| row.context.as_deref()).collect();
        let mut paths = call_paths(&known, Names::Short).into_iter();
        let shown: Vec<String> = rows
            .iter()
            .map(|row| row.context.as_ref().and_then(|_| paths.next()).unwrap_or_default())
            .collect();
        rows.iter_mut().zip(shown).for_each(|(row, path)| row.path = path);
        rows
    }
}

/// A page's life ended: whoever wrote it has one more lifetime.
fn end(rows: &mut FxHashMap<Who, Row>, context: ContextId, lifetime: u64) {
    if let Some(row) = rows.get_mut(&Who::Context(context)) {
        row.lifetimes.record(lifetime);
    }
}

fn quartiles(lifetimes: &RecentLifetimes) -> Option<Quartiles> {
    Some(Quartiles {
        p25: lifetimes.quantile(0.25)?,
        p50: lifetimes.quantile(0.5)?,
        p75: lifetimes.quantile(0.75)?,
    })
}

#[cfg(test)]
mod tests {
    use pcstream_trace::File;

    use super::*;
    use crate::snapshot::Flow;
    use crate::snapshot::SortBy;

    const SECOND: Duration = Duration::from_secs(1);

    fn context(id: u32) -> Context {
        let executable = format!("/usr/bin/program{id}");
        Context {
            id: ContextId(id),
            signature: Signature(1000 + u64::from(id)),
            executable,
            ..Context::default()
        }
    }

    fn batch(contexts: u32, files: u32) -> Batch {
        let file = |id: u32| File { id: FileId(id), path: format!("/file{id}"), ..File::default() };
        Batch {
            contexts: (1..=contexts).map(context).collect(),
            files: (1..=files).map(file).collect(),
            events: Vec::new(),
        }
    }

    fn write(context: u32, file: u32, lba: u64, pages: u32, second: u64) -> Event {
        Event {
            time_ns: second * 1_000_000_000,
            context: ContextId(context),
            file: FileId(file),
            ..Event::write(lba, pages)
        }
    }

    fn watch(limits: Limits) -> Watch {
        let mut watch = Watch::new(limits, 3);
        watch.absorb(&batch(3, 3));
        watch
    }

    fn tick(watch: &mut Watch, second: u32) -> Snapshot {
        watch.tick(second * SECOND, &BTreeMap::new(), |_| None)
    }

    #[test]
    fn rates_are_means_over_the_window() {
        let mut watch = watch(Limits { window: 3, intervals: 4, ..Limits::default() });
        let mut snapshot = Snapshot::default();
        // Context 1 writes 256 pages (1 MiB) in each second, context 2 once, in the second one.
        for second in 1..=6 {
            watch.take(&write(1, 1, 0, 256, second), Some(Stream(1)));
            if second == 2 {
                watch.take(&write(2, 2, 1000, 768, second), Some(Stream(2)));
            }
            snapshot = tick(&mut watch, second as u32);
            let mib = |row: &ContextNow| row.written.rate / (1 << 20) as f64;
            let rates: Vec<f64> = snapshot.contexts.iter().map(mib).collect();
            let expected: &[f64] = match second {
                1 => &[1.0],
                2 => &[1.5, 1.0],
                3 | 4 => &[1.0, 1.0],
                5 => &[1.0, 0.0],
                _ => &[1.0],
            };
            assert_eq!(rates, expected, "second {second}");
        }
        assert_eq!(snapshot.contexts.len(), 1, "the other wrote in no interval that is kept");
        assert_eq!(snapshot.written.total_pages, 6 * 256 + 768, "but it counts in the sums");
        assert_eq!((snapshot.window, snapshot.interval), (3 * SECOND, SECOND));
        assert_eq!(snapshot.contexts[0].written.history.len(), 4);
        assert_eq!(snapshot.streams[2].written.total_pages, 768);
    }

    #[test]
    fn an_interval_is_as_long_as_the_clock_says() {
        let mut watch = watch(Limits::default());
        watch.take(&write(1, 1, 0, 512, 1), None);
        let snapshot = tick(&mut watch, 4);
        assert_eq!(snapshot.written.rate, (512 * 4096 / 4) as f64);
        let snapshot = watch.tick(4 * SECOND, &BTreeMap::new(), |_| None);
        assert!(snapshot.written.rate.is_finite(), "an empty interval divides by nothing");
    }

    #[test]
    fn a_late_row_was_silent_before() {
        let mut watch = watch(Limits::default());
        tick(&mut watch, 1);
        tick(&mut watch, 2);
        watch.take(&write(1, 1, 0, 1, 3), None);
        let snapshot = tick(&mut watch, 3);
        assert_eq!(snapshot.contexts[0].written.history, [0.0, 0.0, 4096.0]);
        assert_eq!(snapshot.contexts[0].written.rate, 4096.0 / 3.0);
    }

    #[test]
    fn rows_say_who_where_and_how_long() {
        let mut watch = watch(Limits::default());
        for round in 0..100 {
            watch.take(&write(1, 1, 0, 10, 1), Some(Stream(1)));
            watch.take(&write(2, 2, 100 + 10 * round, 10, 1), Some(Stream(0)));
        }
        watch.take(&Event { context: ContextId::NONE, kind: Kind::Journal, ..write(0, 0, 50, 5, 1) }, None);
        watch.take(&Event { op: Op::Discard, ..write(0, 0, 100, 1000, 1) }, None);
        let snapshot = watch.tick(2 * SECOND, &BTreeMap::new(), |signature| {
            (signature == Signature(1001)).then_some(Expected { lifetime: 20, samples: 99 })
        });
        let row =
            |program: &str| snapshot.contexts.iter().find(|row| row.program() == program).expect("there");
        let first = row("/usr/bin/program1");
        assert_eq!(first.lifetimes.map(|q| q.p50.abs_diff(20) <= 2), Some(true), "{:?}", first.lifetimes);
        assert_eq!(first.expected, Some(Expected { lifetime: 20, samples: 99 }));
        assert_eq!((first.file(), first.stream, first.last), ("/file1", Some(Stream(1)), SECOND));
        let second = row("/usr/bin/program2");
        assert!(second.lifetimes.is_some_and(|q| q.p25 > 300 && q.p75 < 1800), "{:?}", second.lifetimes);
        assert_eq!(row("journal").written.total_pages, 5);
        assert_eq!((snapshot.discarded.total_pages, snapshot.pages_by_kind[1]), (1000, 5));
        let order: Vec<_> =
            snapshot.order(SortBy::Program, true).iter().map(|&at| snapshot.contexts[at].program()).collect();
        assert_eq!(order, ["journal", "/usr/bin/program2", "/usr/bin/program1"]);
    }

    #[test]
    fn names_come_later_and_are_cut() {
        let mut watch = watch(Limits::default());
        watch.take(&write(1, 1, 0, 1, 1), None);
        assert_eq!(tick(&mut watch, 1).contexts[0].path, "");
        let symbol = |name: &str| pcstream_trace::Frame { symbol: name.into(), ..Default::default() };
        watch.named(&[Context { frames: vec![symbol("inner"), symbol(&"x".repeat(10_000))], ..context(1) }]);
        let snapshot = tick(&mut watch, 2);
        assert!(snapshot.contexts[0].path.starts_with("inner < xxx"), "{}", snapshot.contexts[0].path);
        assert!(snapshot.contexts[0].path.len() < 600);
    }

    #[test]
    fn memory_is_bounded_and_what_goes_is_counted() {
        let limits = Limits { rows: 16, files: 8, intervals: 3, followed_pages: 64, ..Limits::default() };
        let mut watch = Watch::new(limits, 0);
        watch.absorb(&batch(1000, 0));
        for id in 1..=1000 {
            let file = File { id: FileId(id), path: format!("/{id}"), ..File::default() };
            watch.absorb(&Batch { files: vec![file], ..Batch::default() });
            watch.take(&write(id, id, u64::from(id), 1, u64::from(id)), None);
            assert!(watch.rows.len() <= 16 && watch.files.len() <= 8);
        }
        watch.take(&write(1000, 1, 0, 1, 1000), None);
        let snapshot = tick(&mut watch, 1000);
        assert_eq!(snapshot.written.total_pages, 1001);
        let in_rows: u64 = snapshot.contexts.iter().map(|row| row.written.total_pages).sum();
        assert_eq!(in_rows, 1001, "what wrote in a row that went is in the one for all of these");
        assert!(snapshot.contexts.len() <= 16 && snapshot.one_page_of >= 8);
        assert!(snapshot.losses["watch_rows"] >= 984, "{:?}", snapshot.losses);
        assert_eq!(snapshot.losses["watch_file_names"], 1, "file 1 was forgotten");
    }

    #[test]
    fn who_wrote_much_keeps_its_row() {
        let mut watch = Watch::new(Limits { rows: 16, intervals: 3, ..Limits::default() }, 0);
        watch.absorb(&batch(100, 1));
        watch.take(&write(1, 1, 0, 1000, 1), None);
        watch.take(&Event { context: ContextId::NONE, kind: Kind::Journal, ..write(0, 0, 5000, 1, 1) }, None);
        watch.take(&Event { context: ContextId::NONE, ..write(0, 0, 6000, 1, 1) }, None);
        // Small ones in two intervals.
        (2..=50).for_each(|id| watch.take(&write(id, 1, 2000, 2, 2), None));
        tick(&mut watch, 2);
        (51..=100).for_each(|id| watch.take(&write(id, 1, 2000, 2, 3), None));
        watch.take(&write(1, 1, 0, 10, 3), None);
        let snapshot = tick(&mut watch, 3);
        let total = |who| {
            let row = snapshot.contexts.iter().find(|row| row.who == who);
            row.expect("its row stays").written.total_pages
        };
        assert_eq!(total(Who::Context(ContextId(1))), 1010);
        assert_eq!((total(Who::FileSystem(Kind::Journal)), total(Who::Unknown)), (1, 1));
        let of =
            |count: fn(&Flow) -> u64| snapshot.contexts.iter().map(|row| count(&row.written)).sum::<u64>();
        let written = &snapshot.written;
        assert_eq!(
            (of(|flow| flow.pages), of(|flow| flow.total_pages)),
            (written.pages, written.total_pages)
        );
        let given_up = snapshot.contexts.iter().find(|row| row.who == Who::GivenUp).expect("some went");
        assert_eq!(given_up.written.total_pages, 2 * snapshot.losses["watch_rows"]);
        assert_eq!((given_up.first, given_up.last, given_up.program()), (SECOND, Duration::ZERO, "given-up"));
    }
}
