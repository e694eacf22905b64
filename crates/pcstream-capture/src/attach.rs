//! Attaching to what runs already: a process and what it starts, a cgroup, or the cgroup of a systemd unit.
//!
//! Idea: user space finds the subject and hands the BPF program a descriptor, a pidfd or an open directory of cgroup v2; from
//! then on the BPF program tells the followed from the others. Descriptors stand for one process or cgroup for ever, numbers
//! and names do not.
//!
//! Known weaknesses: a runtime's agent that registered before is not known (its paths are unwound). A child whose parent
//! ended before the capture began has no parent any more that would lead to the followed process.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use pcstream_fs::{limited, mounts};
use pcstream_system::process::{self, Stat};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use thiserror::Error;

use crate::session::{Followed, Session, SessionError};

/// Of `pidfd_open`, since Linux 6.9.
const PIDFD_THREAD: u32 = 0o200;

/// What runs already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Running {
    /// Processes, by their numbers in this PID namespace, and what they start.
    Processes(Vec<u32>),
    /// A cgroup (version 2) and those below it: a directory, or its path below the mount of cgroups.
    Cgroup(PathBuf),
    /// The cgroup of a systemd unit.
    Unit(String),
    /// Whoever writes.
    Anyone,
}

/// Why nothing can be attached to.
#[derive(Debug, Error)]
pub enum AttachError {
    /// No such process.
    #[error("--pid {0}: no process has this number; `pgrep -a NAME` lists processes")]
    NoProcess(u32),
    /// A thread that is no process.
    #[error("--pid {0}: this is a thread; give its process (Tgid in /proc/{0}/status)")]
    Thread(u32),
    /// The process is there no more.
    #[error("--pid {0}: the process ended before the recording began")]
    Ended(u32),
    /// The cgroup is there no more.
    #[error("--cgroup {}: it was removed before the recording began", .0.display())]
    Removed(PathBuf),
    /// The process cannot be watched.
    #[error("--pid {pid}: cannot watch the process: {source}")]
    Process {
        /// Its number.
        pid: u32,
        /// What the system said.
        source: io::Error,
    },
    /// No cgroup v2 is mounted.
    #[error(
        "no cgroup file system of version 2 is mounted: mount one (mount -t cgroup2 none DIR), or use --pid"
    )]
    NoCgroups,
    /// The cgroup cannot be opened.
    #[error("--cgroup {}: {source}; expected a directory below {}, as `systemd-cgls` lists them", path.display(), mount.display())]
    Cgroup {
        /// As given.
        path: PathBuf,
        /// Where cgroups are mounted.
        mount: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A directory that is no cgroup.
    #[error("--cgroup {}: not a cgroup of version 2; those are below {}", path.display(), mount.display())]
    NotCgroup {
        /// As given.
        path: PathBuf,
        /// Where cgroups are mounted.
        mount: PathBuf,
    },
    /// systemd cannot be asked.
    #[error("--unit {unit}: {reason}; use --cgroup or --pid")]
    Systemd {
        /// As given.
        unit: String,
        /// What is missing.
        reason: String,
    },
    /// The unit has no processes.
    #[error("--unit {0}: systemd knows no running unit of this name; `systemctl list-units` lists them")]
    NoUnit(String),
    /// The BPF program did not take it.
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// What a capture is attached to, found and open.
#[derive(Debug)]
pub struct Attached {
    subject: Found,
    /// Of several processes, those that were not there any more.
    absent: Vec<u32>,
}

#[derive(Debug)]
enum Found {
    Anyone,
    Processes(Vec<Process>),
    Cgroup { path: PathBuf, directory: File },
}

#[derive(Debug)]
struct Process {
    pid: u32,
    descriptor: OwnedFd,
}

impl Attached {
    /// Finds and opens it. Of several processes those that have ended are left out, for who lists them is never quite up to date.
    pub fn find(running: &Running) -> Result<Attached, AttachError> {
        let mut absent = Vec::new();
        let subject = match running {
            Running::Processes(pids) => {
                let mut found = Vec::new();
                for &pid in pids {
                    match open_process(pid) {
                        Ok(descriptor) => found.push(Process { pid, descriptor }),
                        Err(AttachError::NoProcess(_)) if pids.len() > 1 => absent.push(pid),
                        Err(error) => return Err(error),
                    }
                }
                if let ([], Some(&first)) = (&found[..], absent.first()) {
                    return Err(AttachError::NoProcess(first));
                }
                Found::Processes(found)
            }
            Running::Cgroup(path) => cgroup(path)?,
            Running::Unit(unit) => cgroup(&cgroup_of_unit(unit)?)?,
            Running::Anyone => Found::Anyone,
        };
        Ok(Attached { subject, absent })
    }

    /// How a session tells it from others.
    pub fn followed(&self) -> Followed {
        match self.subject {
            Found::Anyone => Followed::All,
            Found::Processes(_) => Followed::Processes,
            Found::Cgroup { .. } => Followed::Cgroup,
        }
    }

    /// What is not followed, of several processes, because it has ended.
    pub(crate) fn absent(&self) -> Option<String> {
        let ended = match &self.subject {
            Found::Processes(processes) => processes.iter().filter(|process| has_ended(&process.descriptor)),
            _ => return None,
        };
        let pids: BTreeSet<u32> =
            self.absent.iter().copied().chain(ended.map(|process| process.pid)).collect();
        let names: Vec<String> = pids.iter().map(u32::to_string).collect();
        (!names.is_empty())
            .then(|| format!("--pid: not followed, because it has ended: {}", names.join(", ")))
    }

    /// Names it to a session. Returns what may be missing. Errors: all processes have ended, or the cgroup was removed.
    pub fn follow(&self, session: &Session<'_>) -> Result<Option<String>, AttachError> {
        let mut all = true;
        match &self.subject {
            Found::Anyone => {}
            Found::Cgroup { path, directory } => match session.follow_cgroup(directory.as_fd()) {
                Err(_) if is_gone(path, directory) => return Err(AttachError::Removed(path.clone())),
                result => result?,
            },
            Found::Processes(processes) => {
                let mut follows = false;
                for Process { pid, descriptor } in processes {
                    match session.follow_process(descriptor.as_fd()) {
                        Err(_) if has_ended(descriptor) => continue,
                        result => result?,
                    }
                    follow_threads(*pid, descriptor, session);
                    follows = true;
                }
                if !follows {
                    return Err(AttachError::Ended(processes[0].pid));
                }
                all = follow_descendants(numbers(processes), session)?;
            }
        }
        Ok((!all).then(|| "--pid: some children may not be followed, because too many are started".into()))
    }

    /// Its processes; none of everything that writes.
    pub(crate) fn processes(&self) -> BTreeSet<u32> {
        match &self.subject {
            Found::Anyone => BTreeSet::new(),
            Found::Processes(processes) => family(numbers(processes)),
            Found::Cgroup { path, .. } => members(path),
        }
    }

    /// Why there is nothing more to capture, if so, after this time.
    pub fn ended(&self, after: Duration) -> Option<String> {
        match &self.subject {
            Found::Anyone => None,
            Found::Processes(processes) => {
                processes.iter().all(|process| has_ended(&process.descriptor)).then(|| {
                    let which = match &processes[..] {
                        [only] => format!("process {}", only.pid),
                        several => format!("all {} processes", several.len()),
                    };
                    format!("{which} ended after {:.1} s", after.as_secs_f64())
                })
            }
            Found::Cgroup { path, directory } => is_gone(path, directory).then(|| {
                format!("the cgroup {} was removed after {:.1} s", path.display(), after.as_secs_f64())
            }),
        }
    }
}

/// The command line of a process, as it tells it; empty if it has none. `None`: it cannot be read, or not in time.
pub fn command_of(pid: u32) -> Option<Vec<OsString>> {
    const MOST: u64 = 64 << 10;
    let read = move || {
        let mut bytes = Vec::new();
        File::open(format!("/proc/{pid}/cmdline"))?.take(MOST).read_to_end(&mut bytes)?;
        io::Result::Ok(bytes)
    };
    let bytes = limited::ask(pid, read)?.ok()?;
    let words = bytes.strip_suffix(&[0]).unwrap_or(&bytes);
    Some(words.split(|&byte| byte == 0).map(|word| OsString::from_vec(word.to_vec())).collect())
}

/// Follows what this process starts from now on, from its first instruction.
pub fn follow_children(session: &Session<'_>) -> Result<(), AttachError> {
    Ok(session.follow_process(open_process(std::process::id())?.as_fd())?)
}

/// Marks a process's threads but the first, where the kernel has descriptors of them (Linux 6.9): one that becomes another
/// program takes the place of the first. A thread that ended meanwhile becomes none. As long as the process of the descriptor
/// runs, what is listed under its number are its threads.
fn follow_threads(pid: u32, descriptor: &OwnedFd, session: &Session<'_>) {
    let thread = |entry: io::Result<std::fs::DirEntry>| {
        let entry = entry.ok()?;
        let number = entry.file_name().to_str()?.parse().ok().filter(|&number| number != pid as i32)?;
        let thread = pidfd_open(Pid::from_raw(number)?, PidfdFlags::from_bits_retain(PIDFD_THREAD)).ok()?;
        // Its number may have become another's before it was opened.
        (entry.path().exists() && !has_ended(descriptor)).then_some(thread)
    };
    for thread in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().filter_map(thread) {
        let _ = session.follow_process(thread.as_fd());
    }
}

fn open_process(pid: u32) -> Result<OwnedFd, AttachError> {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(AttachError::NoProcess(pid))?;
    pidfd_open(number, PidfdFlags::empty()).map_err(|errno| match errno {
        Errno::SRCH => AttachError::NoProcess(pid),
        Errno::INVAL | Errno::NOENT => AttachError::Thread(pid),
        _ => AttachError::Process { pid, source: errno.into() },
    })
}

fn numbers(processes: &[Process]) -> BTreeSet<u32> {
    processes.iter().map(|process| process.pid).collect()
}

/// Follows what these processes have started. What a followed process starts, the BPF program follows itself: so a child that is
/// followed already is no find. Whether all were found.
fn follow_descendants(family: BTreeSet<u32>, session: &Session<'_>) -> Result<bool, SessionError> {
    let follow = |pid, listed: &Stat| -> Result<bool, SessionError> {
        // It may have ended meanwhile, and its number may be another's.
        let Ok(descriptor) = open_process(pid) else { return Ok(false) };
        if process::stat(pid).is_none_or(|now| now.start_ticks != listed.start_ticks)
            || session.follows_process(descriptor.as_fd())
        {
            return Ok(false);
        }
        match session.follow_process(descriptor.as_fd()) {
            Err(_) if has_ended(&descriptor) => return Ok(false),
            result => result?,
        }
        follow_threads(pid, &descriptor, session);
        Ok(true)
    };
    Ok(descendants(family, follow)?.1)
}

/// Processes and their descendants.
fn family(family: BTreeSet<u32>) -> BTreeSet<u32> {
    let Ok((family, _)) = descendants(family, |_, _| Ok::<_, Infallible>(true));
    family
}

/// Adds to processes their descendants that are `finds`, scan by scan, until one has no find. Returns them all, and whether it
/// came to that.
fn descendants<E>(
    mut family: BTreeSet<u32>,
    mut finds: impl FnMut(u32, &Stat) -> Result<bool, E>,
) -> Result<(BTreeSet<u32>, bool), E> {
    /// Each finds a further generation, if nobody starts processes meanwhile. Somebody may do so without end.
    const SCANS: usize = 64;
    for _ in 0..SCANS {
        let before = family.len();
        for (pid, stat) in children_of(&family) {
            if finds(pid, &stat)? {
                family.insert(pid);
            }
        }
        if family.len() == before {
            return Ok((family, true));
        }
    }
    Ok((family, false))
}

/// Processes that are none of these, but whose parents are.
fn children_of(family: &BTreeSet<u32>) -> Vec<(u32, Stat)> {
    let others = process::all().into_iter().filter(|pid| !family.contains(pid));
    let child = |pid| Some((pid, process::stat(pid).filter(|stat| family.contains(&stat.parent))?));
    others.filter_map(child).collect()
}

/// The processes of a cgroup and of those below it.
fn members(directory: &Path) -> BTreeSet<u32> {
    let listed = std::fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
    let mut members: BTreeSet<u32> = listed.lines().filter_map(|line| line.parse().ok()).collect();
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    below.for_each(|entry| members.extend(self::members(&entry.path())));
    members
}

/// Whether the process of a pidfd has ended, reaped or not.
fn has_ended(descriptor: &OwnedFd) -> bool {
    let mut poll = libc::pollfd { fd: descriptor.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid pollfd, and no waiting.
    let ready = unsafe { libc::poll(&raw mut poll, 1, 0) };
    ready > 0 && poll.revents & (libc::POLLIN | libc::POLLHUP) != 0
}

fn is_gone(path: &Path, directory: &File) -> bool {
    let open = directory.metadata().map(|meta| meta.ino());
    !path.metadata().is_ok_and(|now| open.is_ok_and(|open| now.ino() == open))
}

fn cgroup(given: &Path) -> Result<Found, AttachError> {
    /// Of statfs(2).
    const CGROUP2_SUPER_MAGIC: u64 = 0x6367_7270;
    let mount = cgroup_mount().ok_or(AttachError::NoCgroups)?;
    let below = || mount.join(given.strip_prefix("/").unwrap_or(given));
    let path = if given.is_absolute() && given.is_dir() { given.to_path_buf() } else { below() };
    let open = OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY).open(&path);
    let directory = open.map_err(|source| AttachError::Cgroup {
        path: given.to_path_buf(),
        mount: mount.clone(),
        source,
    })?;
    if !rustix::fs::fstatfs(&directory).is_ok_and(|found| found.f_type as u64 == CGROUP2_SUPER_MAGIC) {
        return Err(AttachError::NotCgroup { path: given.to_path_buf(), mount });
    }
    Ok(Found::Cgroup { path, directory })
}

/// Where cgroups of version 2 are mounted.
fn cgroup_mount() -> Option<PathBuf> {
    let mut mounts = mounts::own().ok()?.into_iter();
    mounts.find(|mount| mount.fs_type == "cgroup2").map(|mount| mount.mount_point)
}

fn cgroup_of_unit(unit: &str) -> Result<PathBuf, AttachError> {
    let error = |reason: String| AttachError::Systemd { unit: unit.to_string(), reason };
    if !Path::new("/run/systemd/system").is_dir() {
        return Err(error("systemd does not run on this machine".into()));
    }
    let asked =
        Command::new("systemctl").args(["show", "--property=ControlGroup", "--value", "--", unit]).output();
    let answer = asked.map_err(|e| error(format!("systemctl cannot be started: {e}")))?;
    let path = String::from_utf8_lossy(&answer.stdout).trim().to_string();
    if !answer.status.success() || !path.starts_with('/') {
        return Err(AttachError::NoUnit(unit.to_string()));
    }
    Ok(path.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_watched_until_they_end() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("it starts");
        let running = Running::Processes(vec![child.id()]);
        let attached = Attached::find(&running).expect("it runs");
        // The kernel lets the parent go on before the program's arguments can be read.
        while command_of(child.id()).expect("it can be read") != ["sleep", "60"] {
            std::thread::yield_now();
        }
        assert_eq!(attached.ended(Duration::ZERO), None);
        child.kill().expect("it can be killed");
        // It is not reaped yet.
        let why = loop {
            if let Some(why) = attached.ended(Duration::from_secs(5)) {
                break why;
            }
            std::thread::yield_now();
        };
        assert!(why.contains("after 5.0 s"), "{why}");
        let pid = child.id();
        child.wait().expect("it ends");
        assert!(matches!(Attached::find(&running), Err(AttachError::NoProcess(n)) if n == pid));
    }

    #[test]
    fn a_thread_is_no_process() {
        let find = |pid| Attached::find(&Running::Processes(vec![pid]));
        let thread = std::thread::spawn(move || rustix::thread::gettid().as_raw_nonzero().get());
        let mut own = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
                assert!(matches!(find(own), Err(AttachError::Thread(tid)) if tid == own));
            });
        });
        assert!(thread.join().is_ok() && own != 0);
        assert!(matches!(find(0), Err(AttachError::NoProcess(0))));
        assert!(matches!(find(u32::MAX), Err(AttachError::NoProcess(_))));
    }

    #[test]
    fn a_family_that_grows_with_each_look_is_left() {
        let start = || Command::new("sleep").arg("60").spawn().expect("it starts");
        let mut children = vec![start()];
        let Ok((all, whole)) = descendants(BTreeSet::from([std::process::id()]), |pid, _| {
            if children.iter().any(|child| child.id() == pid) {
                children.push(start());
            }
            Ok::<_, Infallible>(true)
        });
        assert!(!whole && all.contains(&children[0].id()), "{all:?}");
        for mut child in children {
            child.kill().expect("it can be killed");
            child.wait().expect("it ends");
        }
    }

    #[test]
    fn a_directory_is_not_always_a_cgroup() {
        let error = cgroup(Path::new("/tmp")).expect_err("it is none").to_string();
        assert!(error.contains("/tmp") || error.contains("no cgroup file system"), "{error}");
        let error = cgroup(Path::new("no/such/group")).expect_err("it is none").to_string();
        assert!(error.contains("cgroup"), "{error}");
    }
}
