//! The learner: events of a capture go through a scheme, and what it learned becomes decisions.
//!
//! Idea: the scheme is one of those that simulate, and sees the same events. Where it would place a simulated write is
//! not asked for; what it knows of each context is, after every batch.
//!
//! Units: pages and logical time (pages written by the host so far).
//!
//! Known weakness: a context is known once some of its data has died.

use pcstream_placement::saved_table::TableError;
use pcstream_placement::{Placement, Scheme, SchemeFact};
use pcstream_trace::{Batch, ById, Context, ContextId, Event, FileId, Tables};

use crate::contexts::{Changes, Decisions};
use crate::files::Files;
use crate::hint::{HintClasses, HintUse, HintUses};
use crate::sink::Outcome;

/// A scheme, what it was fed, and what it decided.
pub struct Learner {
    scheme: Box<dyn Scheme>,
    /// Contexts only: a daemon sees files without end.
    tables: Tables,
    now: u64,
    decisions: Decisions,
    files: Files,
    /// Written to files that are not followed any more, by whoever is.
    unfollowed_pages: u64,
    /// By context id; those of no context come first.
    pages: ById<u64>,
    hints: HintUses,
    placements: Vec<Placement>,
    written_files: Vec<FileId>,
}

/// What a batch changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Of contexts.
    pub changes: Changes,
    /// Files whose hint is another.
    pub files: Vec<FileId>,
}

/// A context and what is known of it.
#[derive(Clone, Copy, Debug)]
pub struct Learned<'a> {
    /// Who wrote.
    pub context: &'a Context,
    /// How much.
    pub pages: u64,
    /// What was decided.
    pub decision: crate::contexts::Decision,
}

impl Learner {
    /// `None`: the scheme places by more than the context, or by something else.
    pub fn new(mut scheme: Box<dyn Scheme>) -> Option<Learner> {
        scheme.by_context()?;
        Some(Learner {
            scheme,
            tables: Tables::default(),
            now: 0,
            decisions: Decisions::default(),
            files: Files::default(),
            unfollowed_pages: 0,
            pages: ById::default(),
            hints: HintUses::default(),
            placements: Vec::new(),
            written_files: Vec::new(),
        })
    }

    /// With the hints that the file system tells apart.
    pub fn with_hints(self, hints: HintClasses) -> Learner {
        Learner { decisions: Decisions::with(hints), ..self }
    }

    /// Takes a batch, and decides.
    pub fn feed(&mut self, batch: &Batch) -> Step {
        for context in &batch.contexts {
            self.tables.push_context(context.clone());
            if context.is_others() {
                self.files.set_others(context.id);
            }
        }
        batch.files.iter().for_each(|file| self.files.enter(file));
        batch.events.iter().for_each(|event| self.event(event));
        if batch.events.is_empty() && batch.contexts.is_empty() {
            return Step::default();
        }
        let by_context = self.scheme.by_context().expect("it was asked for");
        let changes = self.decisions.refresh(by_context, &self.tables);
        self.decide(changes)
    }

    /// Contexts made these files dirty that are new: none of their pages was written to the device before. Returns the files
    /// whose hint is another.
    pub fn first_writers(&mut self, files: &[(FileId, ContextId)]) -> Vec<FileId> {
        files.iter().for_each(|&(file, context)| self.files.begin(file, context));
        self.files.decide(files.iter().map(|&(file, _)| file), &self.decisions)
    }

    /// Takes up a saved table.
    pub fn load_table(&mut self, saved: &[u8]) -> Result<Step, TableError> {
        let now = self.now;
        let by_context = self.scheme.by_context().expect("it was asked for");
        by_context.load_table(saved, now)?;
        Ok(self.decide_all())
    }

    fn event(&mut self, event: &Event) {
        // Nobody asked to place what others write. Their writes end lifetimes, and learn nothing: a stream of their own would be
        // one less for those that are placed.
        let others = self.tables.context(event.context).is_some_and(Context::is_others);
        let seen = Event { context: if others { ContextId::NONE } else { event.context }, ..*event };
        self.placements.clear();
        let before = self.now;
        self.now = self.scheme.take(&seen, before, &self.tables, &mut self.placements);
        if self.now > before {
            self.count(event, others);
        }
    }

    fn count(&mut self, event: &Event, others: bool) {
        *self.pages.at(event.context.0 as usize) += u64::from(event.pages);
        if event.file.is_some() {
            let followed = self.files.write(event.file, event.context, event.pages.into());
            if !followed && !others {
                self.unfollowed_pages += u64::from(event.pages);
            }
            let wanted = self.decisions.carried(event.context);
            self.hints.count(event.hint.life, wanted, event.pages.into());
            if self.written_files.last() != Some(&event.file) {
                self.written_files.push(event.file);
            }
        }
    }

    /// Decides what is known of every context now, without waiting for its turn.
    pub fn decide_all(&mut self) -> Step {
        let by_context = self.scheme.by_context().expect("it was asked for");
        let changes = self.decisions.refresh_all(by_context, &self.tables);
        self.decide(changes)
    }

    fn decide(&mut self, changes: Changes) -> Step {
        let written = std::mem::take(&mut self.written_files);
        // A change of any context may turn the majority of files that are not written now.
        let files = if changes.contexts.is_empty() { written } else { self.files.ids() };
        let files = self.files.decide(files, &self.decisions);
        Step { changes, files }
    }

    /// What was decided.
    pub fn decisions(&self) -> &Decisions {
        &self.decisions
    }

    /// Pages written to files that are not followed any more. What others write does not count: it gets no hint.
    pub fn unfollowed_pages(&self) -> u64 {
        self.unfollowed_pages
    }

    /// The files that are followed.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// Keeps what came of saying a file's hint.
    pub fn said(&mut self, id: FileId, outcome: Outcome) {
        self.files.said(id, outcome);
    }

    /// Every context, in order of first use.
    pub fn contexts(&self) -> impl Iterator<Item = Learned<'_>> {
        self.tables.contexts().iter().map(|context| Learned {
            context,
            pages: self.pages_of(context.id),
            decision: self.decisions.of(context.id),
        })
    }

    /// Pages that a context wrote; [`ContextId::NONE`]: pages without one.
    pub fn pages_of(&self, context: ContextId) -> u64 {
        self.pages.get(context.0 as usize).copied().unwrap_or(0)
    }

    /// File data by the hint that its requests carried.
    pub fn hint_uses(&self) -> Vec<HintUse> {
        self.hints.used()
    }

    /// Pages written so far.
    pub fn written_pages(&self) -> u64 {
        self.now
    }

    /// What the scheme has to say about itself.
    pub fn facts(&self) -> Vec<SchemeFact> {
        self.scheme.facts()
    }

    /// What was learned, as a saved table.
    pub fn learned(&self) -> Option<Vec<u8>> {
        self.scheme.learned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{batch, scheme, write};
    use pcstream_trace::{File, Life, Op, Signature};

    /// Context 1 overwrites a page of file 1 again and again, context 2 pages of file 2 more rarely.
    fn taught() -> (Learner, Vec<Step>) {
        taught_from(0)
    }

    /// The same after so many pages.
    fn taught_from(now: u64) -> (Learner, Vec<Step>) {
        let mut learner = Learner::new(scheme("pcstream")).expect("it places by context");
        learner.now = now;
        let mut steps = vec![learner.feed(&batch(3, 3, Vec::new()))];
        for round in 0..100u64 {
            let mut events = vec![write(1, 1, 0, 1)];
            if round % 10 == 0 {
                events.push(write(2, 2, 100, 4));
            }
            events.push(write(3, 3, 1000 + round, 1));
            steps.push(learner.feed(&batch(0, 0, events)));
        }
        (learner, steps)
    }

    #[test]
    fn what_others_write_teaches_nothing() {
        let mut learner = Learner::new(scheme("pcstream")).expect("it places by context");
        let mut first = batch(0, 1, Vec::new());
        first.contexts = vec![Context::others(ContextId(1))];
        learner.feed(&first);
        for _ in 0..100 {
            learner.feed(&batch(0, 0, vec![write(1, 1, 0, 1)]));
        }
        assert_eq!(learner.pages_of(ContextId(1)), 100);
        assert_eq!(learner.decisions().of(ContextId(1)).lifetime_pages, None);
        let same = |context: ContextId| {
            let mut other = Learner::new(scheme("pcstream")).expect("it places by context");
            other.feed(&batch(1, 1, Vec::new()));
            (0..100).for_each(|_| _ = other.feed(&batch(0, 0, vec![write(context.0, 1, 0, 1)])));
            other.learned()
        };
        assert_eq!(learner.learned(), same(ContextId::NONE));
        assert_ne!(learner.learned(), same(ContextId(1)));
    }

    #[test]
    fn files_get_the_hint_of_the_contexts_that_write_them() {
        let (learner, steps) = taught();
        let hints = [1, 2, 3].map(|id| learner.files().get(FileId(id)).expect("it is followed").hint);
        assert_eq!(hints, [Some(Life::Short), Some(Life::Long), None]);
        let streams = [1, 2, 3].map(|id| learner.decisions().of(ContextId(id)).stream.0);
        assert!(
            streams[0] != streams[1] && streams[0] > 0 && streams[1] > 0 && streams[2] == 0,
            "{streams:?}"
        );
        let said = |id: u32| steps.iter().filter(|step| step.files.contains(&FileId(id))).count();
        assert_eq!((said(2), said(3)), (1, 0), "once each, and nothing of what is not known");
        assert_eq!(learner.written_pages(), 100 + 40 + 100);
        assert_eq!(learner.contexts().map(|learned| learned.pages).collect::<Vec<_>>(), [100, 40, 100]);
    }

    /// The live table has 40 bits for the time.
    #[test]
    fn a_daemon_learns_the_same_after_petabytes() {
        let late = taught_from((1 << 40) - 100);
        assert!(late.0.written_pages() > 1 << 40);
        assert_eq!(late.0.learned(), taught().0.learned());
        assert_eq!(late.1, taught().1);
    }

    #[test]
    fn the_majority_of_a_file_may_turn() {
        let (mut learner, _) = taught();
        let step = learner.feed(&batch(0, 0, vec![write(2, 1, 5000, 99)]));
        assert!(!step.files.contains(&FileId(1)), "99 of 199 pages are no majority");
        let step = learner.feed(&batch(0, 0, vec![write(2, 1, 6000, 2)]));
        assert_eq!(step.files, [FileId(1)]);
        assert_eq!(learner.files().get(FileId(1)).and_then(|file| file.hint), Some(Life::Long));
        // Contexts of which nothing is known do not take a hint away.
        let step = learner.feed(&batch(0, 0, vec![write(3, 1, 7000, 2000)]));
        assert_eq!(
            (step.files.len(), learner.files().get(FileId(1)).and_then(|file| file.hint)),
            (0, Some(Life::Long))
        );
    }

    #[test]
    fn a_file_is_what_its_first_writer_is_until_its_requests_say_more() {
        let (mut learner, _) = taught();
        let files = [4, 5].map(|id| File { id: FileId(id), inode: id.into(), ..File::default() }).to_vec();
        learner.feed(&Batch { files, ..Batch::default() });
        let first = [(FileId(4), ContextId(1)), (FileId(5), ContextId(3)), (FileId(6), ContextId(1))];
        assert_eq!(
            learner.first_writers(&first),
            [FileId(4)],
            "nothing is known of context 3, and there is no file 6"
        );
        let hint = |learner: &Learner, id| learner.files().get(FileId(id)).expect("it is followed").hint;
        assert_eq!(hint(&learner, 4), Some(Life::Short));
        assert_eq!(learner.feed(&batch(0, 0, vec![write(1, 4, 8000, 1)])).files, [], "it is said");
        assert_eq!(learner.feed(&batch(0, 0, vec![write(2, 4, 8100, 2)])).files, [FileId(4)]);
        assert_eq!(hint(&learner, 4), Some(Life::Long));
        assert_eq!(learner.first_writers(&[(FileId(4), ContextId(1))]), [], "requests say more");
    }

    #[test]
    fn what_an_earlier_learner_saved_is_known_from_the_first_write_on() {
        let saved = taught().0.learned().expect("it learns");
        let mut learner = Learner::new(scheme("pcstream")).expect("it places by context");
        learner.load_table(&saved).expect("just saved");
        let step = learner.feed(&batch(3, 3, vec![write(2, 2, 0, 1), write(3, 3, 9, 1)]));
        assert_eq!(step.files, [FileId(2)]);
        assert!(learner.decisions().of(ContextId(2)).stream.0 > 0);
    }

    /// Of four contexts, each overwrites its page a quarter as often as the one before. The learner meets them in this order
    /// and the other way round.
    #[test]
    fn a_saved_table_gives_hints_to_contexts_in_whatever_order_they_come() {
        let mut teacher = Learner::new(scheme("pcstream")).expect("it places by context");
        teacher.feed(&batch(4, 4, Vec::new()));
        for round in 0..1000u32 {
            let due = (1..=4).filter(|context| round.is_multiple_of(4u32.pow(context - 1)));
            let events = due.map(|context| write(context, context, 10 * u64::from(context), 1)).collect();
            teacher.feed(&batch(0, 0, events));
        }
        let saved = teacher.learned().expect("it learns");
        for backwards in [false, true] {
            let mut learner = Learner::new(scheme("pcstream")).expect("it places by context");
            learner.load_table(&saved).expect("just saved");
            let mut first = batch(4, 4, Vec::new());
            if backwards {
                first.contexts.iter_mut().for_each(|context| {
                    context.signature = Signature(1005 - u64::from(context.id.0));
                });
            }
            for context in first.contexts {
                learner.feed(&Batch { contexts: vec![context], ..Batch::default() });
            }
            let mut hints = [1, 2, 3, 4].map(|id| learner.decisions().of(ContextId(id)).hint);
            if backwards {
                hints.reverse();
            }
            assert_eq!(hints, Life::TIMED.map(Some));
        }
    }

    #[test]
    fn schemes_that_do_not_go_by_context_are_refused() {
        assert!(Learner::new(scheme("autostream-mq")).is_none());
    }

    #[test]
    fn reads_flushes_and_empty_writes_teach_nothing() {
        let mut learner = Learner::new(scheme("pcstream")).expect("it places by context");
        let read = Event { op: Op::Read, ..write(1, 1, 0, 8) };
        let flush = Event { op: Op::Flush, ..write(0, 0, 0, 0) };
        let empty = write(1, 1, 0, 0);
        assert_eq!(learner.feed(&batch(1, 1, vec![read, flush, empty])), Step::default());
        assert_eq!(learner.written_pages(), 0);
    }
}
