//! `hints`: the expected lifetime of each file, given to the kernel by `F_SET_RW_HINT` in the writer's stead.
//!
//! Idea: the hint belongs to the inode, so that it works for writers that have the file open already. The file is opened
//! by its handle (inode number and generation), which no rename, link or new file of the same name can redirect. It is
//! looked at before it is opened: nothing but a regular file on the right device ever is.
//!
//! Invariants: a hint that the program set stays, unless it shall be overridden. What this sink set is taken back at the
//! end, if it still is what was set, also what one that was killed had set (see [`super::given`]). No descriptor stays open, so the
//! file system can be unmounted at any time.
//!
//! Known weaknesses: a program that sets the hint that this sink gave before is not noticed, so that its hint counts as the
//! sink's. To open a file for reading breaks a write lease (Samba), and watchers of files see it. Until the holder of the
//! lease has let go, the file cannot be opened. What is given is noted before it is set: if this process is killed in between while
//! it overrides hints, the hint that it gave before is taken for the program's, and stays.

use std::fs::{File as Opened, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use pcstream_fs::extents::DeviceNumber;
use pcstream_fs::file_handle::FileHandle;
use pcstream_fs::scratch::{FsKind, directory_on, is_released};
use pcstream_trace::{File, Life};
use rustc_hash::FxHashSet;

use crate::device::Device;
use crate::files::Identity;
use crate::hint::HintClasses;
use crate::sink::{ByRequest, Outcome, Sink, SinkFact, SinkInfo, SinkInputs, Usable};
use crate::sinks::given::{Change, Given};

/// Its entry in the registry.
pub const INFO: SinkInfo = SinkInfo {
    name: "hints",
    summary: "The expected lifetime of each file, SHORT to EXTREME (F_SET_RW_HINT)",
    usable,
    streams: |device| HintClasses::of(device.file_system).count() + 1,
    by_request: ByRequest::No,
    answers: |_| false,
    make: |inputs| Ok(Box::new(Hints::new(inputs)?)),
};
/// How long hints are taken back at most: whoever stops a service waits for its end.
const TAKING_BACK: Duration = Duration::from_secs(20);
/// Time between two tries to take back hints of files that could not be opened.
const RETRY: Duration = Duration::from_millis(100);
/// No hint was set.
const NOT_SET: u64 = 0;
/// `fcntl` commands for the hint of an inode.
const F_GET_RW_HINT: i32 = 1035;
const F_SET_RW_HINT: i32 = 1036;
/// Whether there are files.
fn usable(device: &Device) -> Usable {
    let acts = match (device.file_system, &device.disk) {
        (None, _) => {
            let name = &device.name;
            return Err(format!("{name} has no file system that is mounted here, so it has no files"));
        }
        (Some(FsKind::F2fs), _) => "by which F2FS keeps hot, warm and cold data apart".to_owned(),
        (_, Some(disk)) if device.takes_hints => format!("which {disk} acts on, by streams of SCSI"),
        (_, Some(disk)) => format!("which only SCSI and UFS disks with streams act on, and {disk} is none"),
        (_, None) => "which only SCSI and UFS disks with streams act on".to_owned(),
    };
    Ok(format!("a hint for each file, {acts}"))
}

/// What became of a hint that was to be taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Restored {
    Done,
    /// Somebody else has set another one since, which stays.
    Changed,
    /// The file is gone, and its hint by that.
    Gone,
    /// It may be possible later.
    Failed,
}

/// Sets hints of files.
#[derive(Debug)]
pub struct Hints {
    directory: PathBuf,
    device: Device,
    override_hints: bool,
    given: Given,
    set: u64,
    of_programs: u64,
    gone: u64,
    refused: u64,
    taken_back: u64,
    not_noted: u64,
    not_taken_back: u64,
}

impl Hints {
    /// For the files of the file system that holds the directory.
    /// Errors: what was given before cannot be read.
    pub fn new(inputs: SinkInputs) -> io::Result<Hints> {
        Ok(Hints {
            directory: inputs.directory,
            device: inputs.device,
            override_hints: inputs.override_hints,
            given: Given::open(&inputs.given)?,
            set: 0,
            of_programs: 0,
            gone: 0,
            refused: 0,
            taken_back: 0,
            not_noted: 0,
            not_taken_back: 0,
        })
    }

    /// Whoever unmounts the directory may leave the file system mounted elsewhere. False: no mount of it can be seen.
    fn find_directory(&mut self) -> bool {
        if self.directory.metadata().is_ok_and(|found| self.check_device(found.dev()).is_ok()) {
            return true;
        }
        let Some(found) = directory_on(self.device.number, &self.directory) else { return false };
        self.directory = found;
        true
    }

    /// Whether the file system, of which no mount can be seen, is gone, and all hints with it. In a mount namespace of others it
    /// may live on.
    fn is_released(&self) -> bool {
        let node = PathBuf::from("/dev").join(self.device.name.replace('!', "/"));
        is_released(self.device.number, &node, Duration::ZERO)
    }

    fn set(&mut self, file: Identity, hint: Life) -> io::Result<Outcome> {
        self.find_directory();
        let opened = self.open(file)?;
        let now = get(&opened)?;
        let given = self.given.of(file);
        let ours = now == NOT_SET || given.is_some_and(|change| change.given == now);
        if !ours && !self.override_hints {
            return Ok(Outcome::OfProgram);
        }
        if given.is_none() {
            self.make_room()?;
        }
        let noted = self.given.add(file, Change { before: before(given, now), given: hint as u64 });
        self.not_noted += u64::from(noted.is_err());
        if let Err(error) = set(&opened, hint as u64) {
            // The file keeps the hint that was given before, which is still ours.
            let noted = given.map_or(Ok(()), |change| self.given.add(file, change));
            self.not_noted += u64::from(noted.is_err());
            return Err(error);
        }
        Ok(Outcome::Set)
    }

    /// For a new file, by forgetting those that are gone.
    fn make_room(&mut self) -> io::Result<()> {
        if self.given.is_time_to_ask() {
            let is_there = |&identity: &Identity| !self.open(identity).is_err_and(|error| means_gone(&error));
            let there: FxHashSet<_> = self.given.identities().filter(is_there).collect();
            self.given.retain(|identity, _| there.contains(&identity))?;
        }
        if self.given.is_full() { Err(io::Error::from_raw_os_error(libc::ENOSPC)) } else { Ok(()) }
    }

    /// Gives a file the hint that it had before.
    fn restore(&self, file: Identity, change: Change) -> Restored {
        let restored = self.open(file).and_then(|opened| {
            if get(&opened)? != change.given {
                return Ok(Restored::Changed);
            }
            set(&opened, change.before).map(|()| Restored::Done)
        });
        restored.unwrap_or_else(|error| if means_gone(&error) { Restored::Gone } else { Restored::Failed })
    }

    /// Takes hints back until then, again and again where that fails. What is left stays in the file of what was given: the
    /// next placer takes it back. The file stays whole until the end, for this process may be killed at any time.
    fn take_back_until(&mut self, until: Instant) {
        let mut left = self.given.all();
        loop {
            if !self.find_directory() && self.is_released() {
                left.clear();
            }
            left.retain(|&(file, change)| {
                let restored =
                    if Instant::now() < until { self.restore(file, change) } else { Restored::Failed };
                self.taken_back += u64::from(restored == Restored::Done);
                restored == Restored::Failed
            });
            let patience = until.saturating_duration_since(Instant::now());
            if left.is_empty() || patience.is_zero() {
                break;
            }
            std::thread::sleep(patience.min(RETRY));
        }
        self.not_taken_back = left.len() as u64;
        if left.is_empty() {
            return self.given.clear();
        }
        let left: FxHashSet<_> = left.into_iter().map(|(file, _)| file).collect();
        self.not_noted += u64::from(self.given.retain(|file, _| left.contains(&file)).is_err());
    }

    /// Opens a file for reading, if it still is the one that was written.
    fn open(&self, file: Identity) -> io::Result<Opened> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_DIRECTORY | libc::O_NONBLOCK | libc::O_CLOEXEC);
        // After an unmount the directory is gone, or belongs to another file system, whose inode numbers mean other files.
        let directory = options.open(&self.directory).and_then(|directory| {
            self.check_device(directory.metadata()?.dev())?;
            Ok(directory)
        });
        let directory = directory.map_err(|error| if is_missing(&error) { not_mounted() } else { error })?;
        let found = FileHandle::new(file.inode, file.generation).open(&directory)?;
        let metadata = found.metadata()?;
        self.check_device(metadata.dev())?;
        if !metadata.is_file() || metadata.ino() != file.inode {
            return Err(io::Error::from_raw_os_error(libc::ESTALE));
        }
        // The descriptor found names the inode, not a path; this one can be asked for its hint.
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOATIME | libc::O_CLOEXEC);
        options.open(format!("/proc/self/fd/{}", found.as_raw_fd()))
    }

    fn check_device(&self, number: u64) -> io::Result<()> {
        if DeviceNumber::from_stat(number) == self.device.number {
            Ok(())
        } else {
            Err(io::Error::from_raw_os_error(libc::ESTALE))
        }
    }
}

impl Sink for Hints {
    fn name(&self) -> &'static str {
        "hints"
    }

    fn gives_hints(&self) -> bool {
        true
    }

    fn file(&mut self, file: &File, hint: Life) -> Outcome {
        let outcome = self.set(Identity::of(file), hint).unwrap_or_else(|error| match error.raw_os_error() {
            Some(NOT_MOUNTED) => Outcome::Gone,
            _ if means_gone(&error) => Outcome::Gone,
            code => Outcome::Refused(code.unwrap_or(libc::EIO)),
        });
        match outcome {
            Outcome::Set => self.set += 1,
            Outcome::OfProgram => self.of_programs += 1,
            Outcome::Gone => self.gone += 1,
            Outcome::Refused(_) => self.refused += 1,
            Outcome::NotSaid => {}
        }
        outcome
    }

    fn take_back(&mut self) {
        self.take_back_until(Instant::now() + TAKING_BACK);
    }

    fn facts(&self) -> Vec<SinkFact> {
        vec![
            ("hints_set", self.set),
            ("hints_of_programs", self.of_programs),
            ("hints_of_files_gone", self.gone),
            ("hints_taken_back", self.taken_back),
        ]
    }

    fn losses(&self) -> Vec<SinkFact> {
        vec![
            ("hints_refused", self.refused),
            ("hints_not_noted", self.not_noted),
            ("hints_not_taken_back", self.not_taken_back),
        ]
    }
}

/// Whether a file cannot be opened because its inode is not in memory any more, which alone holds the hint: it was removed, or it
/// cannot be read.
fn means_gone(error: &io::Error) -> bool {
    is_missing(error) || matches!(error.raw_os_error(), Some(libc::EIO | libc::EUCLEAN))
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ESTALE | libc::ENOENT))
}

/// The file system is not mounted here: whether its files are gone is another question.
const NOT_MOUNTED: i32 = libc::ENODEV;

fn not_mounted() -> io::Error {
    io::Error::from_raw_os_error(NOT_MOUNTED)
}

/// What a file that has the hint `now` is given back: what was there before a hint of ours, or `now` if that is of the program, which set
/// it since.
fn before(given: Option<Change>, now: u64) -> u64 {
    given.filter(|change| change.given == now).map_or(now, |change| change.before)
}

fn get(file: &Opened) -> io::Result<u64> {
    let mut hint = NOT_SET;
    // SAFETY: the command writes one u64, which lives until it returns.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), F_GET_RW_HINT, &raw mut hint) };
    if result == 0 { Ok(hint) } else { Err(io::Error::last_os_error()) }
}

fn set(file: &Opened, hint: u64) -> io::Result<()> {
    // SAFETY: the command reads one u64, which lives until it returns.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), F_SET_RW_HINT, &raw const hint) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::are_documented;

    #[test]
    fn disks_that_act_on_hints_are_named() {
        let device = |disk: Option<&str>, takes_hints| Device {
            disk: disk.map(Into::into),
            takes_hints,
            file_system: Some(FsKind::Xfs),
            ..Device::default()
        };
        for (device, expected) in [
            (device(Some("sda"), true), "which sda acts on, by streams of SCSI"),
            (
                device(Some("nvme0n1"), false),
                "which only SCSI and UFS disks with streams act on, and nvme0n1 is none",
            ),
            (device(None, false), "which only SCSI and UFS disks with streams act on"),
        ] {
            assert_eq!(usable(&device).expect("it has files"), format!("a hint for each file, {expected}"));
        }
    }

    /// A sink for a device that is none.
    fn hints(directory: &std::path::Path) -> Hints {
        let inputs = SinkInputs {
            directory: std::env::temp_dir(),
            device: Device { file_system: Some(FsKind::Ext4), ..Device::default() },
            override_hints: false,
            given: directory.join("given"),
        };
        Hints::new(inputs).expect("what was given can be read")
    }

    #[test]
    fn the_document_names_every_count() {
        let directory = tempfile::TempDir::new().expect("a directory");
        let sink = hints(directory.path());
        are_documented("Statistics of place", sink.facts().into_iter().map(|(name, _)| name));
        are_documented("Losses of place", sink.losses().into_iter().map(|(name, _)| name));
    }

    #[test]
    fn a_hint_that_the_program_sets_later_is_given_back() {
        let given = |before, given| Some(Change { before, given });
        assert_eq!(before(None, 5), 5);
        assert_eq!(before(given(5, 2), 2), 5, "it is ours");
        assert_eq!(before(given(5, 2), 3), 3, "the program set another");
        assert_eq!(
            before(given(5, 2), NOT_SET),
            NOT_SET,
            "the kernel forgot both, or the program took it back"
        );
    }

    #[test]
    fn files_on_another_device_are_gone() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut hints = hints(directory.path());
        let file = File { inode: 2, generation: 1, ..File::default() };
        assert_eq!(hints.file(&file, Life::Short), Outcome::Gone);
        assert!(hints.losses().iter().all(|(_, count)| *count == 0));
    }

    /// It may be mounted in a namespace of others: whether the hints are gone, the device says.
    #[test]
    fn hints_of_a_file_system_that_is_not_mounted_here_are_not_given_up() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut hints = hints(directory.path());
        let (file, change) = (Identity { inode: 2, generation: 1 }, Change { before: 0, given: 2 });
        for place in [std::env::temp_dir(), directory.path().join("none")] {
            hints.directory = place;
            assert_eq!(hints.restore(file, change), Restored::Failed);
        }
        assert!(!hints.find_directory() && hints.is_released(), "nothing has a device of this number");
    }

    #[test]
    fn what_was_not_taken_back_in_time_is_said_and_stays_for_the_next_placer() {
        let directory = tempfile::tempdir().expect("a directory");
        let given = directory.path().join("given");
        std::fs::write(&given, "1 7 0 2\n2 7 0 3\n").expect("written");
        let mut first = hints(directory.path());
        // Its file system is there, but no time is left.
        let here = first.directory.metadata().expect("it is there").dev();
        first.device.number = DeviceNumber::from_stat(here);
        first.take_back_until(Instant::now());
        assert!(first.losses().contains(&("hints_not_taken_back", 2)), "{:?}", first.losses());
        assert!(given.exists());
        let mut second = hints(directory.path());
        assert_eq!(second.given.all().len(), 2);
        second.take_back();
        assert!(!given.exists() && second.losses().iter().all(|(_, count)| *count == 0));
    }
}
