//! The part of a capture in which records arrive: from the start of the command, or of following what runs, to the last record.
//!
//! Idea: one thread reads records, joins them, and hands batches to the observer. What can take long (sync, names, unmount) runs
//! beside it, for a ring buffer that nobody empties overflows. All but an unmount is abandoned when the user's patience ends.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::rc::Rc;
use std::time::{Duration, Instant};

use pcstream_fs::extents::DeviceNumber;
use pcstream_fs::scratch::mounted_meanwhile;
use pcstream_trace::{Batch, PAGE_BYTES};

use super::{CaptureError, CaptureOptions, ENDED_AS_ASKED, Observer, Progress, Subject, sync};
use crate::attach::Attached;
use crate::command::{self, Traced};
use crate::counts::{Lacking, losses};
use crate::join::Joiner;
use crate::live_names::LiveNames;
use crate::modules::Lack;
use crate::modules::reading_limits::GivenUp;
use crate::notes;
use crate::patience::{Interrupts, wait_for_all_of};
use crate::session::{Reader, RuleTable, Session, SessionError};
use crate::symbols::{Names, Wanted};
use crate::target::{Place, Target};
use crate::wire::{Record, UnknownRecord};

/// From how many events on they are handed over, if not earlier. A piece of records adds to them: see [`Reader`].
const BATCH_EVENTS: usize = 16384;
/// Time between looks at the command.
const POLL: Duration = Duration::from_millis(50);
/// Time between progress reports.
const PROGRESS: Duration = Duration::from_millis(200);
/// Time between two looks for a file system on a device without one.
const LOOK: Duration = Duration::from_secs(1);
/// Why what was written has not reached the device.
const IN_USE: &str =
    "the file system was unmounted here, and is still in use (umount -l, or another mount namespace)";

/// How the captured part of a writer's life ended.
pub(super) struct Ending {
    pub(super) status: Option<ExitStatus>,
    pub(super) interrupted: bool,
    pub(super) note: Option<String>,
}

/// The joiner and the first error on the way to it: the ring buffer's callback cannot return one.
pub(super) struct Join {
    pub(super) joiner: Joiner,
    pub(super) rules: RuleTable,
    pub(super) error: Option<UnknownRecord>,
}

impl Join {
    pub(super) fn shared(joiner: Joiner, rules: RuleTable) -> Rc<RefCell<Join>> {
        Rc::new(RefCell::new(Join { joiner, rules, error: None }))
    }

    pub(super) fn take(&mut self, record: Result<Record, UnknownRecord>, interrupts: &Interrupts<'_>) {
        if interrupts.are_urgent() {
            self.joiner.stop_looking();
        }
        match record {
            Ok(record) => {
                let stack = matches!(record, Record::Stack(_));
                self.joiner.take(record);
                // At once: until the BPF program has the rules it ships more stacks of the same path.
                if stack {
                    self.rules.add(&self.joiner.take_rules());
                }
            }
            Err(error) => self.error = self.error.take().or(Some(error)),
        }
    }
}

/// See the head of this file.
pub(super) struct Run<'a, 'obj> {
    session: &'a Session<'obj>,
    reader: Reader<'a>,
    pub(super) join: Rc<RefCell<Join>>,
    observer: &'a mut dyn Observer,
    began: Instant,
    reported: Option<Instant>,
    /// The device, if it has no file system, or none that was seen.
    raw: Option<DeviceNumber>,
    /// When it was looked for one.
    looked: Instant,
    /// The scratch file system was full at the end.
    full: bool,
    /// See `CaptureOptions`.
    live: bool,
    /// What notes call a module.
    module_name: fn(&str) -> String,
    /// For so long at most.
    duration: Option<Duration>,
    /// A command that was asked to end has as much time as it wants.
    patient: bool,
    /// What the command leaves running goes on: the file system was there before.
    leaves_running: bool,
    /// Why not all that was written has reached the device, if so.
    unsynced: Option<&'static str>,
    /// What failed meanwhile.
    error: Option<CaptureError>,
    /// Looking up names was.
    nameless: bool,
    /// Modules and frames that a limit left without names.
    names_over_limit: u64,
    /// Contexts that were there as names were looked up last.
    named: Option<usize>,
    /// If functions get names while the capture runs.
    live_names: Option<LiveNames>,
}

impl<'a, 'obj> Run<'a, 'obj> {
    pub(super) fn new(
        session: &'a Session<'obj>,
        reader: Reader<'a>,
        join: Rc<RefCell<Join>>,
        observer: &'a mut dyn Observer,
        place: &Place,
        options: &CaptureOptions,
    ) -> Run<'a, 'obj> {
        let began = Instant::now();
        let existing = matches!(options.target, Target::Existing(_));
        Run {
            live: options.live,
            module_name: options.module_name,
            duration: options.duration,
            patient: existing,
            leaves_running: existing && matches!(options.subject, Subject::Command(_)),
            session,
            reader,
            join,
            observer,
            began,
            reported: None,
            raw: place.fs.is_none().then_some(place.number),
            looked: began,
            full: false,
            unsynced: None,
            error: None,
            nameless: false,
            names_over_limit: 0,
            named: None,
            live_names: options.live_names.then(LiveNames::default),
        }
    }

    /// Reads records until there is a reason to stop. A wish to stop is one: whoever is attached to did not ask for it.
    pub(super) fn watch(
        &mut self,
        attached: &Attached,
        place: &Place,
        interrupts: &Interrupts<'_>,
    ) -> Result<Ending, CaptureError> {
        loop {
            let reported = self.reported;
            self.look()?;
            let asked = (interrupts.wishes() > 0).then(|| ENDED_AS_ASKED.to_string());
            let unmounted = || (self.reported != reported).then(|| self.unmounted(place)).flatten();
            let ended = || attached.ended(self.began.elapsed()).or_else(unmounted);
            let over = || self.is_over().then(|| self.after("ended"));
            if let Some(why) = asked.or_else(over).or_else(ended) {
                return Ok(Ending { status: None, interrupted: false, note: Some(why) });
            }
            if interrupts.over() {
                return Ok(Ending { status: None, interrupted: false, note: self.unmounted(place) });
            }
        }
    }

    /// Why a capture of what runs already has nothing more to see, if so.
    fn unmounted(&self, place: &Place) -> Option<String> {
        let gone = !place.is_working();
        gone.then(|| self.after(place.gone()))
    }

    /// Whether it went on for as long as was asked for.
    fn is_over(&self) -> bool {
        self.duration.is_some_and(|duration| self.began.elapsed() >= duration)
    }

    /// What happened, and when.
    fn after(&self, what: &str) -> String {
        format!("{what} after {:.1} s", self.began.elapsed().as_secs_f64())
    }

    /// Reads the records of a moment.
    fn look(&mut self) -> Result<(), CaptureError> {
        self.reader.poll(POLL)?;
        self.hand_over(self.least())?;
        if let Some(names) = &mut self.live_names {
            let named = names.look(&mut self.join.borrow_mut().joiner);
            self.observer.named(&named);
        }
        self.report();
        Ok(())
    }

    /// Events that are handed over at once, at least.
    fn least(&self) -> usize {
        if self.live { 1 } else { BATCH_EVENTS }
    }

    /// Keeps up with the records while something else is waited for. An error keeps for the next look.
    fn meanwhile(&mut self) {
        let drained = self.reader.drain().map_err(CaptureError::from);
        let result = drained.and_then(|()| self.hand_over(self.least()));
        self.error = self.error.take().or(result.err());
    }

    /// Writes everything to the device. Returns why not all of it is there, if so. A device that failed takes nothing from what
    /// was captured before.
    fn sync(
        &mut self,
        place: &Place,
        interrupts: &Interrupts<'_>,
    ) -> Result<Option<&'static str>, CaptureError> {
        let Some(path) = place.to_sync() else {
            let released = interrupts.wait_for(place.release(), || self.meanwhile());
            return Ok((released != Some(true)).then_some(IN_USE));
        };
        match sync(&path, interrupts, || self.meanwhile()) {
            Ok(true) => Ok(None),
            Ok(false) | Err(CaptureError::Sync { .. }) => Ok(Some("you interrupted, or the device failed")),
            Err(error) => Err(error),
        }
    }

    /// Reads records until the command has ended, by itself or because it was asked to.
    pub(super) fn follow(
        &mut self,
        mut traced: Traced,
        place: &Place,
        interrupts: &Interrupts<'_>,
    ) -> Result<Ending, CaptureError> {
        let mut over = None;
        loop {
            self.look()?;
            place.look_for_room();
            let wishes = interrupts.wishes();
            if wishes > 0 || over.is_some() {
                traced.stop(wishes > 1, self.patient);
            }
            let status = traced
                .try_wait()
                .map_err(|source| CaptureError::Command { command: "the command".into(), source })?;
            if let Some(status) = status {
                if ended_by_terminal(status) {
                    interrupts.wait_for_wish();
                }
                let interrupted = interrupts.wishes() > 0;
                interrupts.start_again();
                let gone = !place.is_working();
                let note = gone.then(|| format!("{} before the command ended", place.gone()));
                // How it ends then is no failure of its own.
                let status = over.is_none().then_some(status);
                return Ok(Ending { status, interrupted, note: note.or(over) });
            }
            if over.is_none() && wishes == 0 && self.is_over() {
                over = Some(self.after("asked the command to end"));
            }
        }
    }

    /// Says to the observer that what was followed has ended.
    pub(super) fn say_ended(&mut self, ending: Result<Ending, CaptureError>) -> Result<Ending, CaptureError> {
        self.look_for_mount();
        self.observer.ended();
        ending
    }

    /// The end of a capture that only watched.
    pub(super) fn leave(&mut self, place: &mut Place) -> Result<Vec<String>, CaptureError> {
        self.names_over_limit = self.live_names.take().map_or(0, |names| names.over_limit());
        self.collect()?;
        self.unmount(place)
    }

    /// The end of a capture: all that was written reaches the device, names are found, a scratch file system is
    /// unmounted. Returns what the user should know.
    pub(super) fn end(
        &mut self,
        place: &mut Place,
        interrupts: &Interrupts<'_>,
    ) -> Result<Vec<String>, CaptureError> {
        let mut notes: Vec<String> = place.full_note().into_iter().collect();
        self.full = !notes.is_empty();
        self.live_names = None;
        notes.extend(place.end_users(interrupts));
        self.unsynced = self.sync(place, interrupts)?;
        self.collect()?;
        notes.extend(self.name(interrupts)?);
        notes.extend(self.unmount(place)?);
        self.collect()?;
        if self.leaves_running {
            notes.extend(notes::left_running(&command::left_running()));
        }
        let unsynced = |why| format!("not all that was written has reached the device: {why}");
        notes.extend(self.unsynced.map(unsynced));
        if self.nameless {
            notes.push("functions have no names: looking them up was interrupted".into());
        }
        Ok(notes)
    }

    /// Unmounts a scratch file system. Returns what the user should know.
    fn unmount(&mut self, place: &mut Place) -> Result<Vec<String>, CaptureError> {
        Ok(wait_for_all_of(|| place.unmount(), || self.meanwhile())?)
    }

    /// Gives functions their names, and closes the modules. Looking them up may take seconds, in which others go on: contexts that
    /// are new then are looked up in passes of their own, each of which is shorter. Returns what a limit kept back.
    fn name(&mut self, interrupts: &Interrupts<'_>) -> Result<Option<String>, CaptureError> {
        /// Those who go on may never end.
        const PASSES: usize = 4;
        let mut names = Names::default();
        for _ in 0..PASSES {
            let from = self.named.unwrap_or(0);
            let wanted = {
                let joiner = &self.join.borrow().joiner;
                self.named = Some(joiner.context_count());
                joiner.wanted_names(from)
            };
            match self.find(wanted, interrupts) {
                Some(found) => names.add(found),
                None => self.nameless = true,
            }
            self.collect()?;
            if self.nameless || self.named_late() == 0 {
                break;
            }
        }
        let joiner = &mut self.join.borrow_mut().joiner;
        joiner.modules_changed(names.changed());
        joiner.close_modules();
        let without = joiner.give_names(&names);
        self.names_over_limit = names.short_of().len() as u64 + without;
        Ok(notes::limit(names.short_of(), without, self.module_name))
    }

    /// Contexts that came after names were looked up.
    fn named_late(&self) -> u64 {
        self.named.map_or(0, |named| self.join.borrow().joiner.nameable_from(named))
    }

    /// Looks names up beside the reading of records; `None`: abandoned.
    fn find(&mut self, wanted: Wanted, interrupts: &Interrupts<'_>) -> Option<Names> {
        let given_up = GivenUp::default();
        let find = {
            let given_up = given_up.clone();
            move || wanted.find(&given_up)
        };
        let names = interrupts.wait_for(find, || self.meanwhile());
        given_up.give_up();
        names
    }

    /// What was lost so far, by limit.
    pub(super) fn losses(&self) -> BTreeMap<String, u64> {
        let join = self.join.borrow();
        let modules = join.joiner.lacking_modules();
        let because = |lack| modules.iter().filter(|(_, why)| *why == lack).count() as u64;
        let live = self.live_names.as_ref().map_or(0, LiveNames::over_limit);
        let lacking = Lacking {
            modules_not_opened: because(Lack::NotOpened),
            modules_not_kept: because(Lack::NotKept),
            modules_changed: because(Lack::Changed),
            names_over_limit: self.names_over_limit + live,
            names_late: self.named_late(),
            names_abandoned: self.nameless,
            sync_abandoned: self.unsynced.is_some(),
            scratch_full: self.full,
        };
        losses(self.session, &join.joiner.counts(), &lacking)
    }

    /// Takes everything that is in the ring buffer now. Others may go on writing.
    fn collect(&mut self) -> Result<(), CaptureError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        self.reader.drain()?;
        self.hand_over(0)?;
        self.report();
        Ok(())
    }

    /// Gives the observer what has gathered, if that is at least `least` events, a while has passed or a context is new. A file
    /// that is new does not take events along.
    fn hand_over(&mut self, least: usize) -> Result<(), CaptureError> {
        let (keys, batch, first_writers) = {
            let mut join = self.join.borrow_mut();
            if let Some(error) = join.error.take() {
                return Err(SessionError::from(error).into());
            }
            let (joiner, reported) = (&mut join.joiner, self.reported);
            let due = reported.is_none_or(|at| at.elapsed() >= PROGRESS);
            let all = joiner.waiting() >= least || due || joiner.has_keys();
            let first_writers = joiner.take_first_writers();
            if !all && first_writers.is_empty() {
                return Ok(());
            }
            let batch = if all { joiner.drain() } else { joiner.drain_names() };
            (joiner.take_keys(), batch, first_writers)
        };
        if !keys.is_empty() {
            self.observer.keys(keys);
        }
        if batch != Batch::default() {
            self.observer.batch(batch).map_err(CaptureError::Observer)?;
        }
        if !first_writers.is_empty() {
            self.observer.first_writers(first_writers);
        }
        Ok(())
    }

    /// Says once that a device without a file system has one by now.
    fn look_for_mount(&mut self) {
        self.looked = Instant::now();
        if let Some(said) = self.raw.and_then(mounted_meanwhile) {
            self.raw = None;
            self.observer.remark(&said);
        }
    }

    fn report(&mut self) {
        if self.looked.elapsed() >= LOOK {
            self.look_for_mount();
        }
        if self.reported.is_some_and(|at| at.elapsed() < PROGRESS) {
            return;
        }
        self.reported = Some(Instant::now());
        let losses = self.losses();
        let join = self.join.borrow();
        let counts = join.joiner.counts();
        self.observer.progress(&Progress {
            elapsed: self.began.elapsed(),
            written_bytes: counts.written_pages * PAGE_BYTES,
            contexts: join.joiner.context_count(),
            lost: losses.values().sum(),
            losses,
        });
    }
}

/// Whether a command ended as one does that a terminal has signalled: by Ctrl-C, by Ctrl-\\, or as the terminal was closed. A shell
/// ends with 128 and the number.
fn ended_by_terminal(status: ExitStatus) -> bool {
    let signals = [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP];
    let signal = status.signal().or(status.code().map(|code| code - 128));
    signal.is_some_and(|signal| signals.contains(&signal))
}
