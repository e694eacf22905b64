//! A whole capture: scratch file system, program, command, join, and everything put away again.
//!
//! Order matters. The BPF program is loaded before a device is made, so that a machine that cannot
//! capture says so before anything is touched. The capture is aimed after the file system is filled
//! and synced, before its layout is read, and stays on while the file system is unmounted, so that every byte the
//! command wrote reaches the device under observation. What was dirty before is written by a second sync, whose
//! records are dropped: a page without a context is then a page whose context was lost. Symbols are resolved before
//! the unmount: modules may lie on it.

mod error;
mod interface;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::process::ExitStatus;
use std::rc::Rc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use pcstream_trace::{Batch, PAGE_BYTES};

use crate::allowance::GivenUp;
use crate::attach::{self, Attached};
use crate::command::{self, Traced};
use crate::counts::{losses, statistics};
use crate::doctor;
use crate::join::Joiner;
use crate::live_names::LiveNames;
use crate::modules::Lack;
use crate::notes;
use crate::patience::Interrupts;
use crate::session::{Followed, Reader, RuleTable, Session, SessionError, SessionMemory, SessionOptions};
use crate::target::Place;
pub use crate::target::{Started, Target};
use crate::wire::{Record, UnknownRecord};

pub use error::CaptureError;
pub use interface::{CaptureOptions, ENDED_AS_ASKED, Finished, Observer, Progress, Subject};

const BTF: &str = "/sys/kernel/btf/vmlinux";

/// Events handed over at once, at most about this many.
const BATCH_EVENTS: usize = 16384;
/// Time between looks at the command.
const POLL: Duration = Duration::from_millis(50);
/// Time between progress reports.
const PROGRESS: Duration = Duration::from_millis(200);
/// Why what was written has not reached the device.
const IN_USE: &str =
    "the file system was unmounted here, and is still in use (umount -l, or another mount namespace)";

/// Captures what a command writes. `interrupts` counts the user's wishes to stop: after one the command
/// is asked to end, after two it is killed.
pub fn capture(
    options: &CaptureOptions,
    interrupts: &AtomicUsize,
    observer: &mut dyn Observer,
) -> Result<Finished, CaptureError> {
    let interrupts = Interrupts::new(interrupts);
    let writer = Writer::find(&options.subject)?;
    let mut memory = SessionMemory::uninit();
    let raw = options.target.is_raw()?;
    let mut session = writer.open(
        &SessionOptions { raw, prompt: options.live || options.first_writers, ..options.session.clone() },
        &mut memory,
    )?;
    if let Some(streams) = session.streams()? {
        observer.streams(streams).map_err(CaptureError::Observer)?;
    }
    let mut place = Place::make(&options.target, raw)?;
    // Of other programs too, on a file system that is in use.
    sync(&place.directory, &interrupts, || ())?;
    let join = Rc::new(RefCell::new(Join { joiner: joiner(options), rules: session.rules()?, error: None }));
    let reader = session.reader({
        let join = Rc::clone(&join);
        move |record| join.borrow_mut().take(record)
    })?;
    session.aim(place.number.kernel_dev_t());
    sync(&place.directory, &interrupts, || drop(reader.drain()))?;
    reader.drain()?;
    if interrupts.wishes() > 0 {
        return Err(CaptureError::Interrupted);
    }
    let layout = place.layout()?;
    observer.started(&place.started(&layout)).map_err(CaptureError::Observer)?;
    let journal_is_elsewhere = layout.journal_is_elsewhere();
    join.borrow_mut().joiner.begin(layout);
    place.raw_file().into_iter().for_each(|(number, path)| join.borrow_mut().joiner.device(number, path));
    let mut run = Run::new(&session, reader, join, observer, options);

    let ending = match writer {
        Writer::Command(words) => run.follow(start(words, &place, options.keep_stdout)?, &interrupts)?,
        Writer::Running(attached) => run.watch(&attached, &place, &interrupts)?,
    };
    let mut notes: Vec<_> = ending.note.into_iter().collect();
    notes.extend(if options.watch { run.leave(&mut place)? } else { run.end(&mut place, &interrupts)? });
    // Taken last: others may still have written as the file system was given up.
    let (counts, contexts) = {
        let join = run.join.borrow();
        (join.joiner.counts(), join.joiner.contexts().to_vec())
    };
    notes.extend(notes::runtime(&session, &contexts));
    notes.extend(notes::of_session(&session, &options.session.buffers, &counts));
    if journal_is_elsewhere {
        notes.push("the journal is on a device of its own: its writes are not in the trace".into());
    }
    notes.extend(notes::others(&counts));
    notes.extend(notes::lack(&run.join.borrow().joiner.lacking_modules()));
    let losses = run.losses();
    drop(run);
    session.aim(0);
    Ok(Finished {
        status: ending.status,
        interrupted: ending.interrupted,
        contexts,
        losses,
        statistics: statistics(&session, &counts),
        counts,
        notes,
        not_removed: place.remove().err().map(|error| error.to_string()),
    })
}

fn joiner(options: &CaptureOptions) -> Joiner {
    let mut joiner = Joiner::new(monotonic_ns(), options.session.limits(), options.order);
    if options.forget_files {
        joiner.forget_files();
    }
    if options.first_writers {
        joiner.tell_first_writers();
    }
    joiner
}

/// Whose writes are captured, known to be there.
enum Writer<'a> {
    Command(&'a [OsString]),
    Running(Attached),
}

impl<'a> Writer<'a> {
    /// Finds the program or process, and checks the machine, before anything is made.
    fn find(subject: &'a Subject) -> Result<Writer<'a>, CaptureError> {
        match subject {
            Subject::Command(words) => {
                let name = words.first().ok_or(CaptureError::NoCommand)?;
                if !name.to_string_lossy().contains("{}") {
                    command::find(name).map_err(|source| cannot_start(words, source))?;
                }
                check_machine()?;
                Ok(Writer::Command(words))
            }
            Subject::Running(attach) => {
                check_machine()?;
                Ok(Writer::Running(Attached::find(attach)?))
            }
        }
    }

    fn open<'obj>(
        &self,
        options: &SessionOptions,
        memory: &'obj mut SessionMemory,
    ) -> Result<Session<'obj>, CaptureError> {
        if let Writer::Running(attached) = self {
            let options = SessionOptions { followed: attached.followed(), ..options.clone() };
            let session = Session::open(&options, memory)?;
            attached.follow(&session)?;
            return Ok(session);
        }
        let session = Session::open(options, memory)?;
        if options.followed == Followed::Processes {
            attach::follow_children(&session)?;
        }
        Ok(session)
    }
}

fn start(words: &[OsString], place: &Place, keep_stdout: bool) -> Result<Traced, CaptureError> {
    Traced::start(words, &place.directory, keep_stdout).map_err(|source| cannot_start(words, source))
}

fn cannot_start(words: &[OsString], source: std::io::Error) -> CaptureError {
    CaptureError::Command { command: words[0].to_string_lossy().into_owned(), source }
}

/// How the captured part of a writer's life ended.
struct Ending {
    status: Option<ExitStatus>,
    interrupted: bool,
    note: Option<String>,
}

/// Whether this process may capture, on this kernel.
pub fn check_machine() -> Result<(), CaptureError> {
    let missing = doctor::missing_capabilities();
    if !missing.is_empty() {
        return Err(CaptureError::Privileges { missing });
    }
    if Path::new(BTF).exists() { Ok(()) } else { Err(CaptureError::NoBtf) }
}

/// The joiner and the first error on the way to it: the ring buffer's callback cannot return one.
struct Join {
    joiner: Joiner,
    rules: RuleTable,
    error: Option<UnknownRecord>,
}

impl Join {
    fn take(&mut self, record: Result<Record, UnknownRecord>) {
        match record {
            Ok(record) => {
                let stack = matches!(record, Record::Stack(_));
                self.joiner.take(record);
                // At once: until the kernel side has the rules it ships more stacks of the same path.
                if stack {
                    self.rules.add(&self.joiner.take_rules());
                }
            }
            Err(error) => self.error = self.error.take().or(Some(error)),
        }
    }
}

/// The part of a capture in which records arrive.
struct Run<'a, 'obj> {
    session: &'a Session<'obj>,
    reader: Reader<'a>,
    join: Rc<RefCell<Join>>,
    observer: &'a mut dyn Observer,
    began: Instant,
    reported: Option<Instant>,
    /// The scratch file system was full at the end.
    full: bool,
    /// See `CaptureOptions`.
    live: bool,
    /// A command that was asked to end has as much time as it wants.
    patient: bool,
    /// Why not all that was written has reached the device, if so.
    unsynced: Option<&'static str>,
    /// What failed meanwhile.
    error: Option<CaptureError>,
    /// Looking up names was.
    nameless: bool,
    /// Modules and frames that a limit left without names.
    names_over_limit: u64,
    /// If functions get names while the capture runs.
    live_names: Option<LiveNames>,
}

impl<'a, 'obj> Run<'a, 'obj> {
    fn new(
        session: &'a Session<'obj>,
        reader: Reader<'a>,
        join: Rc<RefCell<Join>>,
        observer: &'a mut dyn Observer,
        options: &CaptureOptions,
    ) -> Run<'a, 'obj> {
        let began = Instant::now();
        Run {
            live: options.live,
            patient: matches!(options.target, Target::Existing(_)),
            session,
            reader,
            join,
            observer,
            began,
            reported: None,
            full: false,
            unsynced: None,
            error: None,
            nameless: false,
            names_over_limit: 0,
            live_names: options.live_names.then(LiveNames::default),
        }
    }

    /// Reads records until there is a reason to stop. A wish to stop is one: whoever is attached to did not ask for it.
    fn watch(
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
            if let Some(why) = asked.or_else(ended) {
                return Ok(Ending { status: None, interrupted: false, note: Some(why) });
            }
        }
    }

    /// Why a capture of what runs already has nothing more to see, if so.
    fn unmounted(&self, place: &Place) -> Option<String> {
        let gone = !place.is_working();
        gone.then(|| {
            format!(
                "the file system was unmounted or failed after {:.1} s",
                self.began.elapsed().as_secs_f64()
            )
        })
    }

    /// Reads the records of a moment.
    fn look(&mut self) -> Result<(), CaptureError> {
        self.reader.poll(POLL)?;
        self.hand_over(if self.live { 1 } else { BATCH_EVENTS })?;
        if let Some(names) = &mut self.live_names {
            let named = names.look(&self.join.borrow().joiner);
            self.observer.named(&named);
        }
        self.report();
        Ok(())
    }

    /// Keeps up with the records while something else is waited for. An error keeps for the next look.
    fn meanwhile(&mut self) {
        let drained = self.reader.drain().map_err(CaptureError::from);
        let result = if self.live { drained.and_then(|()| self.hand_over(1)) } else { drained };
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

    /// Reads records until the command has ended.
    fn follow(&mut self, mut traced: Traced, interrupts: &Interrupts<'_>) -> Result<Ending, CaptureError> {
        loop {
            self.look()?;
            let wishes = interrupts.wishes();
            if wishes > 0 {
                traced.stop(wishes > 1, self.patient);
            }
            let status = traced
                .try_wait()
                .map_err(|source| CaptureError::Command { command: "the command".into(), source })?;
            if let Some(status) = status {
                interrupts.start_again();
                return Ok(Ending { status: Some(status), interrupted: wishes > 0, note: None });
            }
        }
    }

    /// The end of a capture that only watched.
    fn leave(&mut self, place: &mut Place) -> Result<Vec<String>, CaptureError> {
        self.live_names = None;
        self.collect()?;
        Ok(place.unmount()?)
    }

    /// The end of a capture: all that was written reaches the device, names are found, a scratch file system is
    /// unmounted. Returns what the user should know.
    fn end(&mut self, place: &mut Place, interrupts: &Interrupts<'_>) -> Result<Vec<String>, CaptureError> {
        let mut notes: Vec<String> = place.full_note().into_iter().collect();
        self.full = !notes.is_empty();
        self.live_names = None;
        notes.extend(place.end_users(interrupts));
        self.unsynced = self.sync(place, interrupts)?;
        self.collect()?;
        let wanted = self.join.borrow().joiner.wanted_names(0);
        self.join.borrow_mut().joiner.close_modules();
        let given_up = GivenUp::default();
        let find = {
            let given_up = given_up.clone();
            move || wanted.find(&given_up)
        };
        let names = interrupts.wait_for(find, || self.meanwhile());
        given_up.give_up();
        match names {
            Some(names) => {
                let without = self.join.borrow_mut().joiner.give_names(&names);
                self.names_over_limit = names.short_of().len() as u64 + without;
                notes.extend(notes::limit(names.short_of(), without));
            }
            None => self.nameless = true,
        }
        notes.extend(place.unmount()?);
        self.collect()?;
        let unsynced = |why| format!("not all that was written has reached the device: {why}");
        notes.extend(self.unsynced.map(unsynced));
        if self.nameless {
            notes.push("functions have no names: looking them up was interrupted".into());
        }
        Ok(notes)
    }

    /// What was lost so far, by limit.
    fn losses(&self) -> BTreeMap<String, u64> {
        let join = self.join.borrow();
        let lacking = join.joiner.lacking_modules();
        let because = |lack| lacking.iter().filter(|(_, why)| *why == lack).count() as u64;
        let mut losses = losses(self.session, &join.joiner.counts());
        let of_user_space = [
            ("modules_not_opened", because(Lack::NotOpened)),
            ("modules_not_kept", because(Lack::NotKept)),
            ("names_over_limit", self.names_over_limit),
            ("names_abandoned", u64::from(self.nameless)),
            ("sync_abandoned", u64::from(self.unsynced.is_some())),
            ("scratch_full", u64::from(self.full)),
        ];
        losses.extend(of_user_space.map(|(name, value)| (name.to_string(), value)));
        losses
    }

    /// Takes everything that is in the ring buffer.
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

    fn report(&mut self) {
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

/// Writes what is dirty on a file system, or of a device. False: it took longer than the user wanted to wait.
fn sync(path: &Path, interrupts: &Interrupts<'_>, meanwhile: impl FnMut()) -> Result<bool, CaptureError> {
    let error = |source| CaptureError::Sync { path: path.to_path_buf(), source };
    let dir = File::open(path).map_err(error)?;
    // The file system of a device's node is not what is on the device.
    let device = dir.metadata().map_err(error)?.file_type().is_block_device();
    let sync = move || if device { rustix::fs::fsync(&dir) } else { rustix::fs::syncfs(&dir) };
    let synced = interrupts.wait_for(sync, meanwhile);
    synced.map_or(Ok(false), |result| result.map(|()| true).map_err(|errno| error(errno.into())))
}

fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
