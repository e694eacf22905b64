//! The traced command: started on the captured file system, and not left behind on it.
//!
//! Its standard output goes to standard error where standard output belongs to results. When the
//! capture dies, so does the command; processes that it leaves on a scratch file system are ended before
//! that is removed.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use pcstream_fs::scratch::MountUser;
use pcstream_system::process;
use rustix::process::{
    Pid, PidfdFlags, Resource, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, setrlimit,
    waitid,
};

use crate::modules::open_files;

/// What stands for the mount point in the command's arguments.
const MOUNT_POINT: &[u8] = b"{}";
/// How long an interrupted command on a scratch file system may take to end before it is killed: most of the time that a
/// capture goes on after the user's wish to stop it. A file system that was there before has data to be closed in order.
const PATIENCE: Duration = Duration::from_millis(500);

/// Between two looks at a command that was asked to end as the capture failed.
const LOOK: Duration = Duration::from_millis(10);

/// A running traced command.
#[derive(Debug)]
pub struct Traced {
    child: Child,
    asked_to_stop: Option<Instant>,
    outlives: bool,
    /// If orphans are waited for: the children that this process had before.
    others: Option<Vec<u32>>,
}

/// What a command is given of this process, and this process takes from it.
#[derive(Clone, Copy, Debug, Default)]
pub struct TracedOptions {
    /// The command writes to our standard output. Otherwise to our standard error.
    pub keep_stdout: bool,
    /// Orphans of the command are waited for as soon as they end, and not at the end of this process. It must not start other
    /// programs meanwhile: theirs would be taken for orphans.
    pub reap: bool,
    /// It goes on if this process is killed.
    pub outlives: bool,
}

/// The file that a command name stands for, as execvp would find it.
pub fn find(program: &OsStr) -> io::Result<PathBuf> {
    let runnable = |path: &Path| {
        path.metadata().is_ok_and(|m| {
            m.is_file() && std::os::unix::fs::PermissionsExt::mode(&m.permissions()) & 0o111 != 0
        })
    };
    if program.as_bytes().contains(&b'/') {
        let path = std::path::absolute(program)?;
        return match path.metadata() {
            Err(error) => Err(error),
            Ok(_) if runnable(&path) => Ok(path),
            Ok(_) => Err(io::Error::new(io::ErrorKind::PermissionDenied, "not an executable file")),
        };
    }
    // The command runs in another directory, so places relative to this one become whole paths.
    std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .filter_map(|dir| std::path::absolute(dir.join(program)).ok())
        .find(|path| runnable(path))
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "not found in PATH"))
}

/// `argument` with every `{}` replaced by the mount point.
pub fn at_mount_point(argument: &OsStr, mount_point: &Path) -> OsString {
    let mut rest = argument.as_bytes();
    let mut out = Vec::with_capacity(rest.len());
    while let Some(at) = rest.windows(MOUNT_POINT.len()).position(|window| window == MOUNT_POINT) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(mount_point.as_os_str().as_bytes());
        rest = &rest[at + MOUNT_POINT.len()..];
    }
    out.extend_from_slice(rest);
    OsString::from_vec(out)
}

impl Traced {
    /// Starts `command` in `mount_point`, or here if that is a device without a file system. A program given by a relative path is meant from the caller's
    /// directory. It may have as many files open as this process was allowed at its start.
    pub fn start(command: &[OsString], mount_point: &Path, options: TracedOptions) -> io::Result<Traced> {
        let arguments: Vec<_> =
            command.iter().map(|argument| at_mount_point(argument, mount_point)).collect();
        let program = find(&arguments[0])?;
        // Orphans of the command come to us, so that they can be ended.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let mut prepared = Command::new(program);
        prepared.args(&arguments[1..]).arg0(&arguments[0]);
        if !options.keep_stdout {
            prepared.stdout(Stdio::from(io::stderr()));
        }
        if mount_point.is_dir() {
            prepared.current_dir(mount_point);
        }
        let files = open_files::given();
        // SAFETY: two system calls, which are safe between fork and exec.
        unsafe {
            prepared.pre_exec(move || {
                // Refused only where somebody lowered the limit meanwhile.
                let _ = setrlimit(Resource::Nofile, files);
                let at_our_death = (!options.outlives).then_some(Signal::KILL);
                rustix::process::set_parent_process_death_signal(at_our_death).map_err(io::Error::from)
            })
        };
        let children = || process::children_of(std::process::id()).into_iter().map(|(pid, _)| pid);
        let others = options.reap.then(|| children().collect());
        Ok(Traced { child: prepared.spawn()?, asked_to_stop: None, outlives: options.outlives, others })
    }

    /// Its exit status, once it has one.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        let status = self.child.try_wait();
        if let Some(others) = &self.others {
            let keeps = |pid| pid == self.child.id() || others.contains(&pid);
            reap_but(keeps);
        }
        status
    }

    /// Ends it: gently at first, by force when the user insists, or when it does not listen and nobody is `patient`. To be
    /// called repeatedly until [`Traced::try_wait`] has a status.
    pub fn stop(&mut self, insist: bool, patient: bool) {
        let since = self.asked_to_stop;
        if since.is_none() {
            self.asked_to_stop = Some(Instant::now());
            self.signal(Signal::TERM);
        }
        if insist || !patient && since.is_some_and(|at| at.elapsed() > PATIENCE) {
            self.signal(Signal::KILL);
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            // It may have ended this moment.
            let _ = rustix::process::kill_process(pid, signal);
        }
    }
}

/// Where the capture failed: the command is asked to end. One that outlives this process has as much time as it takes, but is not
/// waited for. Any other is killed if it does not listen.
impl Drop for Traced {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        self.signal(Signal::TERM);
        let asked = Instant::now();
        while asked.elapsed() < PATIENCE {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(LOOK);
        }
        if !self.outlives {
            self.signal(Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// Waits for children of this process that have ended, until there is one that somebody else waits for.
fn reap_but(keeps: impl Fn(u32) -> bool) {
    /// At once: others may go on ending.
    const MOST: usize = 4096;
    let look = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    for _ in 0..MOST {
        // SAFETY: plain numbers, for which zeros are fine.
        let mut ended: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes one such structure, which lives until it returns.
        if unsafe { libc::waitid(libc::P_ALL, 0, &raw mut ended, look) } != 0 {
            return;
        }
        // SAFETY: of a child that ended, or zeros if there is none.
        let Some(pid) = Pid::from_raw(unsafe { ended.si_pid() }) else { return };
        if keeps(pid.as_raw_pid().cast_unsigned()) {
            return;
        }
        let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
    }
}

/// Ends the processes among `users` that descend from this one, and says which. Others, such as a shell
/// that somebody opened on the mount, are left alone.
pub fn end_descendants(users: &[MountUser], gently: bool) -> Vec<MountUser> {
    users.iter().filter(|user| end_descendant(user.pid, gently)).cloned().collect()
}

/// Ends a process if it descends from this one. Its number may soon be another's, which a descriptor never is.
fn end_descendant(pid: u32, gently: bool) -> bool {
    let own = std::process::id();
    let open = |pid| pidfd_open(pid, PidfdFlags::empty()).ok();
    let Some(descriptor) = Pid::from_raw(pid.cast_signed()).and_then(open) else { return false };
    if pid == own || !process::descends_from(pid, own) {
        return false;
    }
    let _ = pidfd_send_signal(&descriptor, if gently { Signal::TERM } else { Signal::KILL });
    // Reap it if it is ours by now; if not, its parent does.
    let _ = waitid(WaitId::PidFd(descriptor.as_fd()), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
    true
}

/// What the command left running, as id and name: its orphans come to this process. Their own children are not named.
pub fn left_running() -> Vec<(u32, String)> {
    let children = process::children_of(std::process::id()).into_iter();
    let running = children.filter(|(_, stat)| !stat.has_ended());
    running.map(|(pid, _)| (pid, process::name(pid))).filter(|(_, name)| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_stand_for_the_mount_point_anywhere() {
        let at = |text: &str| at_mount_point(OsStr::new(text), Path::new("/m")).into_string().unwrap();
        assert_eq!(at("--db={}/db:{}"), "--db=/m/db:/m");
        assert_eq!(at("{"), "{");
        assert_eq!(at("plain"), "plain");
    }

    #[test]
    fn commands_are_found_as_the_shell_would() {
        assert!(find(OsStr::new("sh")).unwrap().ends_with("sh"));
        assert_eq!(find(OsStr::new("no-such-command-anywhere")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(find(OsStr::new("/no/such/file")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(find(OsStr::new("/etc/passwd")).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    /// A command that takes its time to end, once it runs.
    fn slow_to_end(dir: &Path, outlives: bool) -> Traced {
        let script = "trap 'until [ -e go ]; do sleep 0.05; done; echo > closed; exit' TERM; echo > ready; \
                      while :; do sleep 0.05; done";
        let command = ["sh", "-c", script].map(OsString::from);
        let options = TracedOptions { outlives, ..TracedOptions::default() };
        let traced = Traced::start(&command, dir, options).expect("it starts");
        while !dir.join("ready").exists() {
            std::thread::yield_now();
        }
        traced
    }

    #[test]
    fn a_command_whose_recording_fails_may_close_its_data() {
        let dir = tempfile::tempdir().expect("a directory");
        drop(slow_to_end(dir.path(), true));
        assert!(!dir.path().join("closed").exists(), "it is not waited for");
        std::fs::write(dir.path().join("go"), "").expect("a file can be made");
        while !dir.path().join("closed").exists() {
            std::thread::sleep(LOOK);
        }
    }

    #[test]
    fn a_command_on_what_is_removed_is_killed() {
        let dir = tempfile::tempdir().expect("a directory");
        let traced = slow_to_end(dir.path(), false);
        let pid = traced.child.id();
        drop(traced);
        assert!(process::stat(pid).is_none(), "it has ended, and was waited for");
    }

    #[test]
    fn what_runs_is_left_and_ended_as_a_descendant_only() {
        let mut child = Command::new("sleep").arg("30").spawn().unwrap();
        let (pid, own) = (child.id(), std::process::id());
        // It begins under the name of this program, also where `spawn` has returned.
        while !left_running().contains(&(pid, "sleep".to_owned())) {
            assert!(matches!(child.try_wait(), Ok(None)), "it ended: {:?}", left_running());
            std::thread::yield_now();
        }
        let users = [own, 1, pid].map(|pid| MountUser { pid, name: String::new(), how: Vec::new() });
        let ended = end_descendants(&users, false);
        assert_eq!(ended.iter().map(|user| user.pid).collect::<Vec<_>>(), [pid]);
        let _ = child.wait();
        assert!(!left_running().iter().any(|(left, _)| *left == pid));
    }
}
