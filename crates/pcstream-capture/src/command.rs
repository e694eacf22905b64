//! The traced command: started on the captured file system, and not left behind on it.
//!
//! Its standard output goes to standard error where standard output belongs to results. When the
//! capture dies, so does the command; processes that it leaves on a scratch file system are ended before
//! that is removed.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use pcstream_fs::scratch::MountUser;

/// What stands for the mount point in the command's arguments.
const MOUNT_POINT: &[u8] = b"{}";
/// How long an interrupted command on a scratch file system may take to end before it is killed: most of the time that a
/// capture goes on after the user's wish to stop it. A file system that was there before has data to be closed in order.
const PATIENCE: Duration = Duration::from_millis(500);

/// A running traced command.
#[derive(Debug)]
pub struct Traced {
    child: Child,
    asked_to_stop: Option<Instant>,
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
    std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .map(|dir| dir.join(program))
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
    /// directory. Its standard output is ours if `keep_stdout`, else our standard error.
    pub fn start(command: &[OsString], mount_point: &Path, keep_stdout: bool) -> io::Result<Traced> {
        let arguments: Vec<_> =
            command.iter().map(|argument| at_mount_point(argument, mount_point)).collect();
        let program = find(&arguments[0])?;
        // Orphans of the command come to us, so that they can be ended.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let mut prepared = Command::new(program);
        prepared.args(&arguments[1..]).arg0(&arguments[0]);
        if !keep_stdout {
            prepared.stdout(Stdio::from(io::stderr()));
        }
        if mount_point.is_dir() {
            prepared.current_dir(mount_point);
        }
        // SAFETY: one system call, which is safe between fork and exec.
        unsafe {
            prepared.pre_exec(|| {
                rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(io::Error::from)
            })
        };
        Ok(Traced { child: prepared.spawn()?, asked_to_stop: None })
    }

    /// Its exit status, once it has one.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
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

impl Drop for Traced {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal(Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// Ends the processes among `users` that descend from this one, and says which. Others, such as a shell
/// that somebody opened on the mount, are left alone.
pub fn end_descendants(users: &[MountUser], gently: bool) -> Vec<MountUser> {
    let own = std::process::id();
    let ours: Vec<_> =
        users.iter().filter(|user| user.pid != own && descends_from(user.pid, own)).cloned().collect();
    for user in &ours {
        let Some(pid) = Pid::from_raw(user.pid.cast_signed()) else { continue };
        let _ = rustix::process::kill_process(pid, if gently { Signal::TERM } else { Signal::KILL });
        // Reap it if it is ours by now; if not, its parent does.
        let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::NOHANG);
    }
    ours
}

fn descends_from(pid: u32, ancestor: u32) -> bool {
    let mut seen = HashSet::new();
    let mut at = pid;
    while at > 1 && seen.insert(at) {
        match parent_of(at) {
            Some(parent) if parent == ancestor => return true,
            Some(parent) => at = parent,
            None => return false,
        }
    }
    false
}

/// What the command left running, as id and name: its orphans come to this process. Their own children are not named.
pub fn left_running() -> Vec<(u32, String)> {
    let own = std::process::id();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    pids.retain(|pid| state_and_parent(*pid).is_some_and(|(state, parent)| parent == own && state != "Z"));
    pids.sort_unstable();
    let name =
        |pid: &u32| Some(std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim_end().to_owned());
    pids.iter().filter_map(|pid| Some((*pid, name(pid)?))).collect()
}

/// The parent of a process; `None` if it ended.
pub(crate) fn parent_of(pid: u32) -> Option<u32> {
    state_and_parent(pid).map(|(_, parent)| parent)
}

fn state_and_parent(pid: u32) -> Option<(String, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
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

    #[test]
    fn descent_is_followed_up_to_us() {
        let mut child = Command::new("sleep").arg("30").spawn().unwrap();
        assert!(descends_from(child.id(), std::process::id()));
        assert!(!descends_from(1, std::process::id()));
        let left = (child.id(), "sleep".to_owned());
        assert!(left_running().contains(&left));
        child.kill().unwrap();
        // It is a zombie until it is waited for.
        let state = || state_and_parent(child.id()).map(|(state, _)| state);
        while state().as_deref() != Some("Z") {
            std::thread::yield_now();
        }
        assert!(!left_running().contains(&left));
        child.wait().unwrap();
    }
}
