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
mod run;

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::rc::Rc;

use rustix::time::ClockId;

use crate::attach::{self, Attached};
use crate::command::{self, Traced, TracedOptions};
use crate::counts::statistics;
use crate::doctor;
use crate::join::Joiner;
use crate::notes;
use crate::patience::Interrupts;
pub use crate::patience::Stop;
use crate::session::{Followed, Session, SessionMemory, SessionOptions};
use crate::target::{FoundTarget, Place};
pub use crate::target::{Started, Target};

pub use error::CaptureError;
pub use interface::{CaptureOptions, ENDED_AS_ASKED, Finished, Observer, Progress, Stage, Subject};
use run::{Join, Run};

const BTF: &str = "/sys/kernel/btf/vmlinux";

/// Captures what a command writes, or what runs already, until that ends or `stop` says so.
pub fn capture(
    options: &CaptureOptions,
    stop: &dyn Stop,
    observer: &mut dyn Observer,
) -> Result<Finished, CaptureError> {
    let interrupts = Interrupts::new(stop);
    let writer = Writer::find(&options.subject)?;
    let mut memory = SessionMemory::uninit();
    let found = options.target.find()?;
    let prompt = options.live || options.first_writers;
    let session = SessionOptions { raw: found.raw, prompt, ..options.session.clone() };
    let mut session = writer.open(&session, &mut memory, observer)?;
    if let Some(streams) = session.streams()? {
        observer.streams(streams).map_err(CaptureError::Observer)?;
    }
    let mut place = prepare(&options.target, &found, observer, &interrupts)?;
    observer.ready().map_err(CaptureError::Observer)?;
    let start_ns = kernel_now_ns();
    let join = Join::shared(joiner(options, start_ns), session.rules()?);
    let reader = session.reader({
        let (join, interrupts) = (Rc::clone(&join), &interrupts);
        move |record| join.borrow_mut().take(record, interrupts)
    })?;
    let unseen = place.fs.and_then(|fs| notes::unseen_writes(fs, session.watch_writes(fs)));
    session.aim(place.number.kernel_dev_t());
    sync(&place.directory, &interrupts, || drop(reader.drain()))?;
    reader.drain()?;
    if interrupts.wishes() > 0 {
        return Err(CaptureError::Interrupted);
    }
    let layout = place.layout()?;
    observer.started(&place.started(&layout, by_clock(start_ns))).map_err(CaptureError::Observer)?;
    let journal_is_elsewhere = layout.journal_is_elsewhere();
    join.borrow_mut().joiner.begin(layout);
    place.raw_file().into_iter().for_each(|(number, path)| join.borrow_mut().joiner.device(number, path));
    let mut run = Run::new(&session, reader, join, observer, &place, options);

    let followed = match writer {
        Writer::Command(words) => run.follow(start(words, &place, options)?, &place, &interrupts),
        Writer::Running(attached) => run.watch(&attached, &place, &interrupts),
    };
    let ending = run.say_ended(followed)?;
    let mut notes: Vec<_> = ending.note.into_iter().chain(unseen).collect();
    notes.extend(if options.watch { run.leave(&mut place)? } else { run.end(&mut place, &interrupts)? });
    // Taken last: others may still have written as the file system was given up.
    let (counts, contexts) = {
        let join = run.join.borrow();
        (join.joiner.counts(), join.joiner.contexts().to_vec())
    };
    let (probes, name) = (&options.session.buffers, options.module_name);
    notes.extend(notes::of_session(&session, probes, &counts, &contexts, name));
    notes.extend(notes::of_place(journal_is_elsewhere, !options.watch && place.is_mounted_xfs()));
    notes.extend(notes::of_counts(&counts));
    notes.extend(notes::lack(&run.join.borrow().joiner.lacking_modules(), name));
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

/// Makes the place, and writes what is dirty there: of other programs too, on a file system that is in use.
fn prepare(
    target: &Target,
    found: &FoundTarget,
    observer: &mut dyn Observer,
    interrupts: &Interrupts<'_>,
) -> Result<Place, CaptureError> {
    if matches!(target, Target::Scratch(_)) {
        observer.starting(Stage::Make);
    }
    let place = Place::make(target, found, interrupts)?;
    observer.starting(Stage::Sync);
    sync(&place.directory, interrupts, || ())?;
    Ok(place)
}

fn joiner(options: &CaptureOptions, start_ns: u64) -> Joiner {
    let mut joiner = Joiner::new(start_ns, options.session.limits(), options.order);
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
        observer: &mut dyn Observer,
    ) -> Result<Session<'obj>, CaptureError> {
        observer.starting(Stage::Load);
        if let Writer::Running(attached) = self {
            let options = SessionOptions { followed: attached.followed(), ..options.clone() };
            let session = Session::open(&options, memory)?;
            let missing = attached.follow(&session)?;
            attached.absent().iter().chain(&missing).for_each(|absent| observer.remark(absent));
            return Ok(session);
        }
        let session = Session::open(options, memory)?;
        if options.followed == Followed::Processes {
            attach::follow_children(&session)?;
        }
        Ok(session)
    }
}

/// What a command does with a file system that was there before, such as a database's, is worth more than a recording.
fn start(words: &[OsString], place: &Place, options: &CaptureOptions) -> Result<Traced, CaptureError> {
    let outlives = matches!(options.target, Target::Existing(_));
    let options = TracedOptions { outlives, ..options.traced };
    Traced::start(words, &place.directory, options).map_err(|source| cannot_start(words, source))
}

fn cannot_start(words: &[OsString], source: std::io::Error) -> CaptureError {
    let command = Path::new(&words[0]);
    // A path is one from here, wherever the command is to run.
    let tried = if words[0].as_bytes().contains(&b'/') { std::path::absolute(command).ok() } else { None };
    let command = tried.as_deref().unwrap_or(command).display().to_string();
    CaptureError::Command { command, source }
}

/// Whether this process may capture, on this kernel.
pub fn check_machine() -> Result<(), CaptureError> {
    let missing = doctor::missing_capabilities();
    if !missing.is_empty() {
        return Err(CaptureError::Privileges { missing });
    }
    if Path::new(BTF).exists() { Ok(()) } else { Err(CaptureError::NoBtf) }
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

fn now_ns(clock: ClockId) -> u64 {
    let now = rustix::time::clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// CLOCK_MONOTONIC as the BPF program reads it: that of the machine, whatever time namespace this process was started in.
fn kernel_now_ns() -> u64 {
    let offsets = std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
    now_ns(ClockId::Monotonic).wrapping_add_signed(-monotonic_offset_ns(&offsets))
}

/// By how much a time namespace moves CLOCK_MONOTONIC; `offsets` has lines of a clock's name, seconds and nanoseconds.
fn monotonic_offset_ns(offsets: &str) -> i64 {
    let line = offsets.lines().find_map(|line| line.strip_prefix("monotonic"));
    let mut numbers = line.into_iter().flat_map(str::split_ascii_whitespace).map_while(|n| n.parse().ok());
    let (seconds, ns): (i64, i64) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    seconds.saturating_mul(1_000_000_000).saturating_add(ns)
}

/// A time of the BPF program by the clock of the day, in nanoseconds since 1970 UTC.
fn by_clock(monotonic_ns: u64) -> u64 {
    now_ns(ClockId::Realtime) - (kernel_now_ns() - monotonic_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_namespace_moves_the_clock() {
        let offsets = "monotonic           -3         5\nboottime         100000         0\n";
        assert_eq!(monotonic_offset_ns(offsets), -2_999_999_995);
        assert_eq!(monotonic_offset_ns(""), 0);
    }
}
