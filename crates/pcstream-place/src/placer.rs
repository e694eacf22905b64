//! The placer: a learner, a sink and a saved table, without a thread or a clock.
//!
//! Invariant: nothing here fails a program's write. What does not work is counted and noted, and placing goes on.

use std::collections::BTreeSet;

use pcstream_trace::{Batch, ContextId, FileId};

use crate::contexts::Decisions;
use crate::learner::{Learner, Step};
use crate::sink::{Outcome, Sink, StreamTable};
use crate::summary::{Standing, Summary};
use crate::table_file::{TableFile, TableFileError};

/// The loss of tables that were not saved.
const SAVES_FAILED: &str = "table_saves_failed";

/// Learns and places.
pub struct Placer {
    scheme: String,
    learner: Learner,
    sink: Box<dyn Sink>,
    table: Option<TableFile>,
    /// Whether there was anything to learn from.
    fed: bool,
    saves_failed: u64,
    /// Why the table was not saved last, if it was not.
    unsaved: Option<String>,
    /// Error numbers of hints that were refused, which were said.
    refusals_said: BTreeSet<i32>,
    notes: Vec<String>,
}

impl Placer {
    /// A placer; `scheme` is the name of the learner's scheme. Begins with what `table` holds. Errors: the table cannot be
    /// used.
    pub fn new(
        scheme: &str,
        learner: Learner,
        sink: Box<dyn Sink>,
        table: Option<TableFile>,
    ) -> Result<Placer, TableFileError> {
        let mut placer = Placer {
            scheme: scheme.to_owned(),
            learner,
            sink,
            table,
            fed: false,
            saves_failed: 0,
            unsaved: None,
            refusals_said: BTreeSet::new(),
            notes: Vec::new(),
        };
        if placer.load_table()? {
            let loaded = placer.table.iter().map(|table| {
                format!("the table {}: contexts loaded: {}", table.path().display(), table.contexts())
            });
            placer.notes.extend(loaded);
        }
        Ok(placer)
    }

    /// The BPF program's table of streams is there.
    pub fn connect(&mut self, table: Box<dyn StreamTable>) {
        self.sink.connect(table);
    }

    /// Takes the next events, and keys of contexts that they introduce.
    pub fn feed(&mut self, batch: &Batch, keys: &[(u64, ContextId)]) {
        self.fed |= !batch.events.is_empty();
        let step = self.learner.feed(batch);
        if !keys.is_empty() {
            self.sink.keys(keys, self.learner.decisions());
        }
        self.apply(&step);
    }

    /// Contexts that made new files dirty: each file is expected to be what its first context is, until its requests say more.
    pub fn first_writers(&mut self, files: &[(FileId, ContextId)]) {
        self.learner.first_writers(files).into_iter().for_each(|id| self.say(id));
    }

    /// What was decided so far.
    pub fn decisions(&self) -> &Decisions {
        self.learner.decisions()
    }

    /// How placing stands.
    pub fn standing(&self) -> Standing {
        let mut standing = Standing::of(&self.learner, self.sink.as_ref());
        standing.losses.insert(SAVES_FAILED.to_owned(), self.saves_failed);
        standing
    }

    /// Takes up the table if somebody replaced it, and saves. What fails is noted, the same once; so is that it works again.
    /// Makes no table of nothing: a start that fails leaves no file behind.
    pub fn save(&mut self) {
        let is_new = self.table.as_ref().is_some_and(|table| !table.is_there());
        if is_new && !self.fed && self.unsaved.is_none() {
            return;
        }
        match self.saved() {
            Ok(taken) => {
                let replaced = self.table.as_ref().filter(|_| taken);
                self.notes.extend(replaced.map(|table| {
                    format!(
                        "the table {} was replaced by another, which was taken up",
                        table.path().display()
                    )
                }));
                let again = self.unsaved.take().and(self.table.as_ref());
                self.notes.extend(
                    again.map(|table| format!("the table {} is saved again", table.path().display())),
                );
            }
            Err(error) => {
                let said = self.unsaved.as_ref() == Some(&error.to_string());
                if said { self.saves_failed += 1 } else { self.failed(&error) }
            }
        }
    }

    fn failed(&mut self, error: &TableFileError) {
        self.saves_failed += 1;
        self.notes.push(format!("{error}; placing goes on"));
        self.unsaved = Some(error.to_string());
    }

    /// The same, on demand: says what was done.
    pub fn reload(&mut self) {
        let path = self.table.as_ref().map(|table| table.path().display().to_string());
        let Some(path) = path else {
            self.notes.push("nothing to reload: there is no table (--table)".to_owned());
            return;
        };
        match self.saved() {
            Ok(taken) => {
                let what = if taken { "taken up and saved" } else { "saved" };
                self.notes.push(format!("the table {path} was {what}"));
                self.unsaved = None;
            }
            Err(error) => self.failed(&error),
        }
    }

    /// What the user should know since the last call.
    pub fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Saves, takes back what would outlive the placer, and tells what came of it.
    pub fn finish(&mut self) -> Summary {
        self.save();
        // For what is reported: nothing is placed any more.
        self.learner.decide_all();
        self.sink.take_back();
        Summary::of(self.sink.name(), &self.scheme, &self.learner, self.standing())
    }

    /// Takes up what somebody else put in the table's place, if so.
    fn load_table(&mut self) -> Result<bool, TableFileError> {
        let Some(table) = &mut self.table else { return Ok(false) };
        let Some(saved) = table.read_new()? else { return Ok(false) };
        let path = table.path().to_owned();
        let step = self.learner.load_table(&saved);
        let step = step.map_err(|source| TableFileError::Damaged { path, source })?;
        self.apply(&step);
        Ok(true)
    }

    /// Takes up the table if somebody replaced it, and saves. Whether it was taken up.
    fn saved(&mut self) -> Result<bool, TableFileError> {
        let taken = self.load_table()?;
        if let (Some(table), Some(learned)) = (&mut self.table, self.learner.learned()) {
            table.write(&learned)?;
        }
        Ok(taken)
    }

    fn apply(&mut self, step: &Step) {
        if step.changes.clustered || !step.changes.contexts.is_empty() {
            self.sink.contexts(&step.changes, self.learner.decisions());
        }
        step.files.iter().for_each(|&id| self.say(id));
    }

    fn say(&mut self, id: FileId) {
        let Some(followed) = self.learner.files().get(id) else { return };
        let Some(hint) = followed.hint else { return };
        let outcome = self.sink.file(&followed.file, hint);
        if let Outcome::Refused(code) = outcome
            && self.refusals_said.insert(code)
        {
            let error = std::io::Error::from_raw_os_error(code);
            self.notes
                .push(format!("no hint for {}: {error}; placing goes on", followed.file.path.escape_debug()));
        }
        self.learner.said(id, outcome);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sinks::none::Nothing;
    use crate::testing::{batch, locks, scheme, write};
    use pcstream_placement::pcstream::key::KeySource;
    use std::path::Path;

    fn placer(table: &Path) -> Result<Placer, TableFileError> {
        let learner = Learner::new(scheme("pcstream")).expect("it places by context");
        let table = TableFile::new(table, &locks(), "pcstream", KeySource::Context)?;
        Placer::new("pcstream", learner, Box::new(Nothing), Some(table))
    }

    fn teach(placer: &mut Placer) {
        placer.feed(&batch(2, 2, Vec::new()), &[]);
        for round in 0..50 {
            placer.feed(&batch(0, 0, vec![write(1, 1, 0, 1), write(2, 2, 10 + round % 20, 1)]), &[]);
        }
    }

    #[test]
    fn a_second_placer_knows_what_the_first_learned() {
        let dir = tempfile::tempdir().expect("a directory");
        let table = dir.path().join("t.table");
        let mut first = placer(&table).expect("there is none yet");
        teach(&mut first);
        assert!(first.notes().is_empty(), "nothing was loaded");
        let before = first.finish();
        drop(first);
        let mut second = placer(&table).expect("just saved");
        let loaded = format!("the table {}: contexts loaded: 2", table.display());
        assert_eq!(second.notes(), [loaded]);
        assert_eq!(second.standing().statistics["contexts_known"], 2, "before any writes");
        second.feed(&batch(2, 2, Vec::new()), &[]);
        let after = second.finish();
        let known = |summary: &Summary| {
            let mut known: Vec<_> =
                summary.contexts.iter().map(|c| (c.id, c.lifetime_pages, c.samples)).collect();
            known.sort_unstable();
            known
        };
        assert_eq!(known(&before), known(&after));
        assert!(known(&before).iter().all(|(_, lifetime, _)| lifetime.is_some()), "{before:?}");
        assert_eq!((before.written_pages, after.written_pages, after.lost()), (100, 0, 0));
    }

    #[test]
    fn a_table_with_more_contexts_than_are_kept_is_refused_and_stays_whole() {
        use crate::table_file::Room::{Fixed, TableBytes};
        let dir = tempfile::tempdir().expect("a directory");
        let table = dir.path().join("t.table");
        let mut first = placer(&table).expect("there is none yet");
        teach(&mut first);
        first.finish();
        drop(first);
        let saved = std::fs::read(&table).expect("it was saved");
        let begin = |room| {
            let learner = Learner::new(scheme("pcstream")).expect("it places by context");
            let file = TableFile::new(&table, &locks(), "pcstream", KeySource::Context)?.with_room(room);
            Placer::new("pcstream", learner, Box::new(Nothing), Some(file))
        };
        for (room, remedy) in [
            (TableBytes(1), "run --set pcstream.table_bytes=26, or give another file with --table"),
            (Fixed(1), "lost: give another file with --table"),
        ] {
            let error = begin(room).err().expect("it has two").to_string();
            let said = "t.table has 2 contexts, but pcstream has room for 1";
            assert!(error.contains(said) && error.ends_with(remedy), "{error}");
        }
        assert_eq!(std::fs::read(&table).expect("it is there"), saved);
        drop(begin(Fixed(2)).expect("both fit"));
    }

    #[test]
    fn what_a_kill_left_beside_a_table_goes_with_the_next_placer() {
        let dir = tempfile::tempdir().expect("a directory");
        let table = dir.path().join("t.table");
        let left = crate::replacement::make(dir.path(), table.file_name().expect("a name"), 0o644);
        let (_, left) = left.expect("it can be made").keep().expect("it can be kept");
        drop(placer(&table).expect("there is none yet"));
        assert!(!left.exists());
    }

    #[test]
    fn nothing_learned_makes_no_table() {
        let dir = tempfile::tempdir().expect("a directory");
        let table = dir.path().join("t.table");
        let mut idle = placer(&table).expect("there is none yet");
        idle.save();
        idle.finish();
        drop(idle);
        assert_eq!(std::fs::read_dir(dir.path()).expect("it is there").count(), 0);
        // Asked for, it is saved all the same.
        placer(&table).expect("there is none yet").reload();
        assert!(table.exists());
    }

    #[test]
    fn a_table_that_somebody_replaced_is_taken_up_before_it_is_saved() {
        let dir = tempfile::tempdir().expect("a directory");
        let (ours, fleet) = (dir.path().join("ours"), dir.path().join("fleet"));
        let mut teacher = placer(&fleet).expect("there is none yet");
        teach(&mut teacher);
        teacher.finish();
        let mut placer = placer(&ours).expect("there is none yet");
        placer.feed(&batch(2, 2, Vec::new()), &[]);
        placer.reload();
        assert!(placer.notes().concat().ends_with("was saved"));
        std::fs::rename(&fleet, &ours).expect("renamed");
        placer.reload();
        assert!(placer.notes().concat().ends_with("was taken up and saved"));
        std::fs::copy(&ours, &fleet).expect("copied");
        std::fs::rename(&fleet, &ours).expect("renamed");
        placer.save();
        assert!(placer.notes().concat().ends_with("was replaced by another, which was taken up"));
        placer.save();
        assert!(placer.notes().is_empty());
        assert!(placer.finish().contexts.iter().all(|context| context.lifetime_pages.is_some()));
    }

    #[test]
    fn a_table_that_cannot_be_used_stays_and_is_counted() {
        let dir = tempfile::tempdir().expect("a directory");
        let table = dir.path().join("t.table");
        let mut placer = placer(&table).expect("there is none yet");
        std::fs::write(&table, "somebody's notes").expect("written");
        placer.save();
        assert!(placer.notes().concat().contains("placing goes on"));
        placer.save();
        assert!(placer.notes().is_empty(), "it was said");
        let notes = std::fs::read(&table).expect("it is there");
        std::fs::remove_file(&table).expect("it is there");
        placer.save();
        assert!(placer.notes().concat().ends_with("t.table is saved again"));
        placer.save();
        assert!(placer.notes().is_empty());
        std::fs::write(&table, notes).expect("written");
        let summary = placer.finish();
        assert_eq!(summary.standing.losses["table_saves_failed"], 3);
        assert_eq!(std::fs::read_to_string(&table).expect("it is there"), "somebody's notes");
    }
}
