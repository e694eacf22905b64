//! Processes of this machine, as `/proc` shows them.
//!
//! Units: process ids of this PID namespace. A number may belong to another process a moment later: the time of the
//! start tells the two apart.

use std::collections::BTreeSet;
use std::fs;

/// What `/proc/PID/stat` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// A letter, as in proc_pid_stat(5).
    pub state: char,
    /// The process that it is a child of.
    pub parent: u32,
    /// When it started, in clock ticks since the boot.
    pub start_ticks: u64,
}

impl Stat {
    /// Whether it is a zombie or dead: it holds nothing any more.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// A process; `None` if there is none, or it may not be looked at.
pub fn stat(pid: u32) -> Option<Stat> {
    parse(&String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/stat")).ok()?))
}

/// The name in parentheses may hold any bytes, parentheses too.
fn parse(text: &str) -> Option<Stat> {
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
    let (state, parent) = (fields.next()?.chars().next()?, fields.next()?.parse().ok()?);
    let start_ticks = fields.nth(17)?.parse().ok()?;
    Some(Stat { state, parent, start_ticks })
}

/// Whether this process ignores a signal, as `nohup` has it ignore SIGHUP.
pub fn ignores(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask =
        status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 << (signal - 1) != 0)
}

/// The name of a process's program, as the kernel keeps it; empty if there is no such process.
pub fn name(pid: u32) -> String {
    let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    String::from_utf8_lossy(&name).trim_end().to_owned()
}

/// All processes.
pub fn all() -> BTreeSet<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The children of a process, those included that have ended and that nobody waited for.
pub fn children_of(parent: u32) -> Vec<(u32, Stat)> {
    let child = |pid| Some((pid, stat(pid).filter(|stat| stat.parent == parent)?));
    all().into_iter().filter_map(child).collect()
}

/// Whether a process is a child of `ancestor`, or a child of such a process, and so on.
pub fn descends_from(pid: u32, ancestor: u32) -> bool {
    let mut seen = BTreeSet::new();
    let mut at = pid;
    while at > 1 && seen.insert(at) {
        match stat(at) {
            Some(stat) if stat.parent == ancestor => return true,
            Some(stat) => at = stat.parent,
            None => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_name_with_spaces_and_brackets_is_skipped() {
        let text = "12 (a) b (c) Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21\n";
        let stat = parse(text).unwrap();
        assert_eq!(stat, Stat { state: 'Z', parent: 1, start_ticks: 4711 });
        assert!(stat.has_ended());
        assert!(parse("12 (a").is_none() && parse("12 (a) S 1 2").is_none());
        let own = std::process::id();
        assert!(self::stat(own).is_some_and(|own| !own.has_ended()) && all().contains(&own));
    }

    #[test]
    fn a_name_may_be_any_bytes() {
        use std::os::unix::ffi::OsStrExt as _;
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join(std::ffi::OsStr::from_bytes(b"\xC3) \xFF"));
        let sleep = ["/bin/sleep", "/usr/bin/sleep"].into_iter().find(|path| fs::exists(path).unwrap());
        std::os::unix::fs::symlink(sleep.unwrap(), &program).unwrap();
        let mut child = Command::new(&program).arg("30").spawn().unwrap();
        assert!(stat(child.id()).is_some_and(|stat| stat.parent == std::process::id()));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn descent_is_followed_up() {
        let own = std::process::id();
        let mut child = Command::new("sleep").arg("30").spawn().unwrap();
        let pid = child.id();
        assert!(descends_from(pid, own) && !descends_from(1, own));
        let is_child = || children_of(own).into_iter().find(|(child, _)| *child == pid);
        assert!(is_child().is_some_and(|(_, stat)| !stat.has_ended()));
        child.kill().unwrap();
        // It is a zombie until it is waited for.
        while is_child().is_some_and(|(_, stat)| !stat.has_ended()) {
            std::thread::yield_now();
        }
        assert!(is_child().is_some());
        child.wait().unwrap();
        assert!(stat(pid).is_none());
    }
}
