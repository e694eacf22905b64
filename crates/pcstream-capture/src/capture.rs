//! A whole capture: scratch file system, program, command, join, and everything put away again.
//!
//! Order matters. The BPF program is loaded before a device is made, so that a machine that cannot
//! capture is told so before anything is touched. The capture is aimed after the file system is filled
//! and synced, before its layout is read, and stays on while the file system is unmounted, so that every byte the
//! command wrote reaches the device under observation. What was dirty before is written by a second sync, whose
//! records are dropped: a page without a context is then a page whose context was lost. Symbols are resolved before
//! the unmount: modules may lie on it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::rc::Rc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use pcstream_trace::{Batch, Context, PAGE_BYTES};
use thiserror::Error;

use crate::command::{self, Traced};
use crate::doctor;
use crate::join::{JoinCounts, Joiner};
use crate::module_data::GivenUp;
use crate::modules::Lack;
use crate::patience::Interrupts;
use crate::session::{Reader, RuleTable, Session, SessionError, SessionMemory, SessionOptions};
use crate::signature::Order;
use crate::wire::{Counter, Record, UnknownRecord};
use pcstream_fs::extents::DeviceNumber;
use pcstream_fs::layout::{Layout, LayoutError, PageRange};
use pcstream_fs::scratch::{ExistingFs, FsKind, Scratch, ScratchError, ScratchOptions};

/// Where the command runs.
#[derive(Clone, Debug)]
pub enum Target {
    /// On a file system made for it.
    Scratch(ScratchOptions),
    /// In a directory of an existing ext4 or XFS. All writes to that file system are captured.
    Existing(PathBuf),
}

/// What to capture.
#[derive(Clone, Debug)]
pub struct CaptureOptions {
    /// Program and arguments; `{}` stands for the mount point.
    pub command: Vec<OsString>,
    /// Where it runs.
    pub target: Target,
    /// How.
    pub session: SessionOptions,
    /// How call paths are named.
    pub order: Order,
}

/// What is known when the command starts.
#[derive(Clone, Debug)]
pub struct Started {
    /// Its working directory.
    pub directory: PathBuf,
    /// The file system.
    pub fs: FsKind,
    /// The device.
    pub device: PathBuf,
    /// Size of the device in pages.
    pub device_pages: u64,
    /// What is allocated on it already: metadata and the fill.
    pub prefilled: Vec<PageRange>,
}

/// How a capture stands.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Since the command started.
    pub elapsed: Duration,
    /// Bytes written to the device.
    pub written_bytes: u64,
    /// Contexts seen.
    pub contexts: usize,
    /// Events lost so far.
    pub lost: u64,
}

/// What a capture came to.
#[derive(Clone, Debug)]
pub struct Finished {
    /// How the command ended.
    pub status: ExitStatus,
    /// Whether it was ended from outside.
    pub interrupted: bool,
    /// Every context, with names of functions.
    pub contexts: Vec<Context>,
    /// What was lost, by limit; all 0 in a complete trace.
    pub losses: BTreeMap<String, u64>,
    /// What captures cost and how they were answered.
    pub statistics: BTreeMap<String, u64>,
    /// Pages and events.
    pub counts: JoinCounts,
    /// What the user should know besides.
    pub notes: Vec<String>,
}

impl Finished {
    /// Everything that was lost.
    pub fn lost(&self) -> u64 {
        self.losses.values().sum()
    }
}

/// Whoever receives a capture. Called from one thread.
pub trait Observer {
    /// Once, before the command starts.
    fn started(&mut self, started: &Started) -> Result<(), Box<dyn Error + Send + Sync>>;
    /// Events, as they come.
    fn batch(&mut self, batch: Batch) -> Result<(), Box<dyn Error + Send + Sync>>;
    /// A few times a second.
    fn progress(&mut self, progress: &Progress);
}

/// Why a capture failed.
#[derive(Debug, Error)]
pub enum CaptureError {
    /// The process may not do what a capture takes.
    #[error("capturing needs root: this process is without {}. Run it with sudo; simulate, contexts and generate \
             need no privileges", missing.join(", "))]
    Privileges {
        /// Capabilities, and what for.
        missing: Vec<&'static str>,
    },
    /// The kernel has no type information.
    #[error(
        "the kernel has no type information (no {BTF}): use one built with CONFIG_DEBUG_INFO_BTF=y, as Debian's \
             and Ubuntu's are"
    )]
    NoBtf,
    /// The user stopped it before there was anything to capture.
    #[error("interrupted before the command was started")]
    Interrupted,
    /// No command was given.
    #[error("no command to trace: give one after `--`")]
    NoCommand,
    /// The command cannot be started.
    #[error("cannot start {command}: {source}")]
    Command {
        /// As given.
        command: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The program cannot be loaded or read.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The file system cannot be made, found or removed.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
    /// The file system cannot be understood.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The file system cannot be synced.
    #[error("cannot sync {path}: {source}")]
    Sync {
        /// Mount point.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The observer gave up.
    #[error("{0}")]
    Observer(Box<dyn Error + Send + Sync>),
}

const BTF: &str = "/sys/kernel/btf/vmlinux";

/// Events handed over at once, at most about this many.
const BATCH_EVENTS: usize = 16384;
/// Time between looks at the command.
const POLL: Duration = Duration::from_millis(50);
/// Time between progress reports.
const PROGRESS: Duration = Duration::from_millis(200);

/// Captures what a command writes. `interrupts` counts the user's wishes to stop: after one the command
/// is asked to end, after two it is killed.
pub fn capture(
    options: &CaptureOptions,
    interrupts: &AtomicUsize,
    observer: &mut dyn Observer,
) -> Result<Finished, CaptureError> {
    let interrupts = Interrupts::new(interrupts);
    let name = options.command.first().ok_or(CaptureError::NoCommand)?;
    let cannot_start =
        |source| CaptureError::Command { command: name.to_string_lossy().into_owned(), source };
    if !name.to_string_lossy().contains("{}") {
        command::find(name).map_err(cannot_start)?;
    }
    check_machine()?;
    let mut memory = SessionMemory::uninit();
    let mut session = Session::open(&options.session, &mut memory)?;
    let mut place = Place::make(&options.target)?;
    // Of other programs too, on a file system that is in use.
    sync(&place.directory, &interrupts, || ())?;
    let join = Rc::new(RefCell::new(Join {
        joiner: Joiner::new(monotonic_ns(), options.session.limits(), options.order),
        rules: session.rules()?,
        error: None,
    }));
    let reader = session.reader({
        let join = Rc::clone(&join);
        move |record| join.borrow_mut().take(record)
    })?;
    session.aim(kernel_number(place.number));
    sync(&place.directory, &interrupts, || drop(reader.drain()))?;
    reader.drain()?;
    if interrupts.wishes() > 0 {
        return Err(CaptureError::Interrupted);
    }
    let layout = Layout::of_mounted(&place.directory, place.fs)?;
    observer.started(&place.started(&layout)).map_err(CaptureError::Observer)?;
    let journal_is_elsewhere = layout.journal_is_elsewhere();
    join.borrow_mut().joiner.begin(layout);
    let mut run = Run::new(&session, reader, join, observer);

    let traced = Traced::start(&options.command, &place.directory).map_err(cannot_start)?;
    let (status, interrupted) = run.follow(traced, &interrupts)?;
    let mut notes = run.end(&mut place, &interrupts)?;
    // Taken last: others may still have written as the file system was given up.
    let (counts, contexts) = {
        let join = run.join.borrow();
        (join.joiner.counts(), join.joiner.contexts().to_vec())
    };
    notes.extend(runtime_note(&session, &contexts));
    if journal_is_elsewhere {
        notes.push("the journal is on a device of its own: its writes are not in the trace".into());
    }
    notes.extend(lack_note(&run.join.borrow().joiner.lacking_modules()));
    let losses = run.losses();
    drop(run);
    let finished = Finished {
        status,
        interrupted,
        contexts,
        losses,
        statistics: statistics(&session, &counts),
        counts,
        notes,
    };
    session.aim(0);
    place.remove()?;
    Ok(finished)
}

/// Whether this process may capture, on this kernel.
fn check_machine() -> Result<(), CaptureError> {
    let missing = doctor::missing_capabilities();
    if !missing.is_empty() {
        return Err(CaptureError::Privileges { missing });
    }
    if Path::new(BTF).exists() { Ok(()) } else { Err(CaptureError::NoBtf) }
}

/// Names modules without which call paths have no names.
fn lack_note(lacking: &[(&str, Lack)]) -> Option<String> {
    const NAMED: usize = 3;
    let (_, why) = lacking.first()?;
    let why = match why {
        Lack::NotOpened => "it was removed, or lies where only its process could see it, and that has ended",
        Lack::NotKept => "too many are open; raise the limit of open files (ulimit -n)",
    };
    let names: Vec<_> = lacking.iter().take(NAMED).map(|(path, _)| *path).collect();
    let more =
        if lacking.len() > NAMED { format!(" and {} more", lacking.len() - NAMED) } else { String::new() };
    Some(format!(
        "call paths through {}{more} have no names and may be merged, for the file could not be read: {why}",
        names.join(", ")
    ))
}

/// For whom it matters: the user of a Java program.
fn runtime_note(session: &Session<'_>, contexts: &[Context]) -> Option<String> {
    let why = session.runtime_unavailable()?;
    let of_java = |context: &Context| context.executable.ends_with("/java");
    contexts.iter().any(of_java).then(|| format!("call paths of the Java agent were not captured: {why}"))
}

/// The file system under capture.
struct Place {
    directory: PathBuf,
    fs: FsKind,
    device: PathBuf,
    number: DeviceNumber,
    bytes: u64,
    /// When the capture began.
    free_blocks: u64,
    scratch: Option<Scratch>,
}

impl Place {
    fn make(target: &Target) -> Result<Place, CaptureError> {
        match target {
            Target::Scratch(options) => {
                let scratch = Scratch::create(options)?;
                let device = scratch.device();
                Ok(Place {
                    free_blocks: rustix::fs::statvfs(scratch.mount_point()).map_or(0, |space| space.f_bavail),
                    directory: scratch.mount_point().to_path_buf(),
                    fs: scratch.fs(),
                    device: device.path.clone(),
                    number: device.number,
                    bytes: device.bytes,
                    scratch: Some(scratch),
                })
            }
            Target::Existing(dir) => {
                let found = ExistingFs::of(dir)?;
                Ok(Place {
                    free_blocks: 0,
                    directory: std::path::absolute(dir).unwrap_or_else(|_| dir.clone()),
                    fs: found.fs,
                    device: found.device.path,
                    number: found.device.number,
                    bytes: found.device.bytes,
                    scratch: None,
                })
            }
        }
    }

    fn started(&self, layout: &Layout) -> Started {
        Started {
            directory: self.directory.clone(),
            fs: self.fs,
            device: self.device.clone(),
            device_pages: self.bytes / PAGE_BYTES,
            prefilled: layout.allocated().to_vec(),
        }
    }

    /// Said if the scratch file system is full, whether the command noticed or not.
    fn full_note(&self) -> Option<String> {
        self.scratch.as_ref()?;
        let space = rustix::fs::statvfs(&self.directory).ok()?;
        let full = space.f_bavail * 100 < space.f_blocks && space.f_bavail * 2 < self.free_blocks;
        full.then(|| {
            "the scratch file system is full: give it more room with --size, or fill it less with --fill"
                .into()
        })
    }

    /// Ends what the command left running on a scratch file system.
    fn end_users(&self, interrupts: &Interrupts<'_>) -> Vec<String> {
        let mut notes = Vec::new();
        let Some(scratch) = &self.scratch else { return notes };
        for gently in [true, false] {
            let ended = command::end_descendants(&scratch.users(), gently);
            if ended.is_empty() {
                break;
            }
            if gently {
                notes
                    .extend(ended.iter().map(|user| format!("ended {user}, which the command left running")));
            }
            wait_until(Duration::from_secs(2), || command_left(scratch) || interrupts.are_urgent());
        }
        notes
    }

    /// Unmounts a scratch file system.
    fn unmount(&mut self) -> Result<Vec<String>, CaptureError> {
        let Some(scratch) = &mut self.scratch else { return Ok(Vec::new()) };
        let users = scratch.unmount()?;
        let still = |user| format!("{user} still uses the file system, which was detached under it");
        Ok(users.iter().map(still).collect())
    }

    fn remove(self) -> Result<(), CaptureError> {
        if let Some(scratch) = self.scratch {
            scratch.remove()?;
        }
        Ok(())
    }
}

fn command_left(scratch: &Scratch) -> bool {
    scratch.users().is_empty()
}

fn wait_until(limit: Duration, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() && began.elapsed() < limit {
        std::thread::sleep(Duration::from_millis(20));
    }
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
    /// The last sync was abandoned.
    unsynced: bool,
    /// Looking up names was.
    nameless: bool,
}

impl<'a, 'obj> Run<'a, 'obj> {
    fn new(
        session: &'a Session<'obj>,
        reader: Reader<'a>,
        join: Rc<RefCell<Join>>,
        observer: &'a mut dyn Observer,
    ) -> Run<'a, 'obj> {
        let began = Instant::now();
        Run {
            session,
            reader,
            join,
            observer,
            began,
            reported: None,
            full: false,
            unsynced: false,
            nameless: false,
        }
    }

    /// Reads records until the command has ended. Returns its status, and whether it was stopped.
    fn follow(
        &mut self,
        mut traced: Traced,
        interrupts: &Interrupts<'_>,
    ) -> Result<(ExitStatus, bool), CaptureError> {
        loop {
            self.reader.poll(POLL)?;
            self.hand_over(BATCH_EVENTS)?;
            self.report();
            let wishes = interrupts.wishes();
            if wishes > 0 {
                traced.stop(wishes > 1);
            }
            let status = traced
                .try_wait()
                .map_err(|source| CaptureError::Command { command: "the command".into(), source })?;
            if let Some(status) = status {
                return Ok((status, wishes > 0));
            }
        }
    }

    /// The end of a capture: all that was written reaches the device, names are found, a scratch file system is
    /// unmounted. Returns what the user should know.
    fn end(&mut self, place: &mut Place, interrupts: &Interrupts<'_>) -> Result<Vec<String>, CaptureError> {
        let mut notes: Vec<String> = place.full_note().into_iter().collect();
        self.full = !notes.is_empty();
        notes.extend(place.end_users(interrupts));
        self.unsynced = !sync(&place.directory, interrupts, || drop(self.reader.drain()))?;
        self.collect()?;
        let wanted = self.join.borrow_mut().joiner.wanted_names();
        let given_up = GivenUp::default();
        let find = {
            let given_up = given_up.clone();
            move || wanted.find(&given_up)
        };
        let names = interrupts.wait_for(find, || drop(self.reader.drain()));
        given_up.give_up();
        match names {
            Some(names) => self.join.borrow_mut().joiner.give_names(&names),
            None => self.nameless = true,
        }
        notes.extend(place.unmount()?);
        self.collect()?;
        if self.unsynced {
            notes.push("what was not on the device yet when you interrupted is not in the trace".into());
        }
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
            ("names_abandoned", u64::from(self.nameless)),
            ("sync_abandoned", u64::from(self.unsynced)),
            ("scratch_full", u64::from(self.full)),
        ];
        losses.extend(of_user_space.map(|(name, value)| (name.to_string(), value)));
        losses
    }

    /// Takes everything that is in the ring buffer.
    fn collect(&mut self) -> Result<(), CaptureError> {
        self.reader.drain()?;
        self.hand_over(0)?;
        self.report();
        Ok(())
    }

    /// Gives the observer what has gathered, if that is at least `least` events or a while has passed.
    fn hand_over(&mut self, least: usize) -> Result<(), CaptureError> {
        let batch = {
            let mut join = self.join.borrow_mut();
            if let Some(error) = join.error.take() {
                return Err(SessionError::from(error).into());
            }
            let due = self.reported.is_none_or(|at| at.elapsed() >= PROGRESS);
            if join.joiner.waiting() < least && !due {
                return Ok(());
            }
            join.joiner.drain()
        };
        if batch == Batch::default() {
            return Ok(());
        }
        self.observer.batch(batch).map_err(CaptureError::Observer)
    }

    fn report(&mut self) {
        if self.reported.is_some_and(|at| at.elapsed() < PROGRESS) {
            return;
        }
        self.reported = Some(Instant::now());
        let join = self.join.borrow();
        let counts = join.joiner.counts();
        self.observer.progress(&Progress {
            elapsed: self.began.elapsed(),
            written_bytes: counts.written_pages * PAGE_BYTES,
            contexts: join.joiner.context_count(),
            lost: losses(self.session, &counts).values().sum(),
        });
    }
}

/// Losses by name. The names are part of the trace format.
fn losses(session: &Session<'_>, counts: &JoinCounts) -> BTreeMap<String, u64> {
    let of = |counter| session.counter(counter);
    [
        ("ring_buffer_requests", of(Counter::LOST_IO_RECORDS)),
        ("ring_buffer_names", of(Counter::LOST_TABLE_RECORDS)),
        ("context_table", of(Counter::LOST_CONTEXTS)),
        ("long_requests", of(Counter::LOST_LONG_REQUESTS)),
        ("task_storage", of(Counter::LOST_TASK_STORAGE)),
        ("postponed_captures", of(Counter::LOST_PENDING)),
        ("runtime_paths_merged", of(Counter::LOST_RUNTIME_PATHS)),
        ("runtime_mappings", of(Counter::LOST_RUNTIME_MAPPINGS)),
        ("missed_events", session.missed()),
        ("unresolved_contexts", counts.unresolved_contexts),
        ("unresolved_files", counts.unresolved_files),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_string(), value))
    .collect()
}

fn statistics(session: &Session<'_>, counts: &JoinCounts) -> BTreeMap<String, u64> {
    [
        ("path_cache_same_system_call", Counter::SAME_SYSCALL),
        ("path_cache_same_stack", Counter::SAME_SLOTS),
        ("captures_by_runtime", Counter::RUNTIME_PATHS),
        ("captures_full", Counter::FULL_CAPTURES),
        ("stacks_unreadable", Counter::STACK_UNREADABLE),
        ("stacks_shipped", Counter::SHIPPED_STACKS),
        ("stacks_not_shipped", Counter::UNSHIPPED_STACKS),
        ("paths_cut", Counter::CUT_PATHS),
        ("stacks_short", Counter::SHORT_STACKS),
        ("mappings_read", Counter::ENUMERATIONS),
        ("mappings_locked", Counter::LOCKED_MAPPINGS),
        ("mappings_dropped", Counter::DROPPED_MAPPINGS),
        ("io_uring_worker_pages", Counter::URING_WORKERS),
        ("io_uring_submitter_unknown", Counter::URING_UNKNOWN),
        ("buffer_pages_marked", Counter::BUFFER_MARKS),
        ("buffer_writes", Counter::BUFFER_WRITES),
        ("buffers_not_placed", Counter::BUFFERS_UNPLACED),
        ("folios_without_context", Counter::UNTAGGED_FOLIOS),
    ]
    .into_iter()
    .map(|(name, counter)| (name.to_string(), session.counter(counter)))
    .chain([
        ("signatures_shared".to_string(), counts.collisions),
        ("runtime_paths_rejected".to_string(), counts.rejected),
    ])
    .chain(
        session
            .costs()
            .into_iter()
            .filter(|(_, runs, _)| *runs > 0)
            .flat_map(|(name, runs, ns)| [(format!("{name}_runs"), runs), (format!("{name}_ns"), ns)]),
    )
    .collect()
}

/// The number by which the kernel itself knows a device.
fn kernel_number(number: DeviceNumber) -> u32 {
    number.major << 20 | number.minor
}

/// Writes what is dirty on a file system. False: it took longer than the user wanted to wait.
fn sync(path: &Path, interrupts: &Interrupts<'_>, meanwhile: impl FnMut()) -> Result<bool, CaptureError> {
    let error = |source| CaptureError::Sync { path: path.to_path_buf(), source };
    let dir = File::open(path).map_err(error)?;
    let synced = interrupts.wait_for(move || rustix::fs::syncfs(&dir), meanwhile);
    synced.map_or(Ok(false), |result| result.map(|()| true).map_err(|errno| error(errno.into())))
}

fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
