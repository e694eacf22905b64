//! Programs that run, by files that can be opened: also those of containers, and those that were replaced on disk.
//!
//! Idea: `/proc/PID/exe` is the file that runs, whatever lies at its path by now, or at that path in this mount namespace.
//! A path to the same file is taken instead where there is one: messages name it, and a debug file may lie beside it.

use std::collections::{BTreeSet, HashSet};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::attach::{self, Running};
use crate::buffers::Program;
use crate::command::parent_of;

/// The programs of what is attached to, each once. Of everything that writes: none.
pub fn programs(of: &Running) -> Vec<Program> {
    let processes = match of {
        Running::Process(pid) => family(*pid),
        Running::Cgroup(path) => attach::directory_of(path).map(|path| members(&path)).unwrap_or_default(),
        Running::Unit(unit) => attach::directory_of_unit(unit).map(|path| members(&path)).unwrap_or_default(),
        Running::Anyone => BTreeSet::new(),
    };
    let mut known = HashSet::new();
    let found = processes.into_iter().filter_map(program);
    found.filter(|(_, identity)| known.insert(*identity)).map(|(program, _)| program).collect()
}

/// A process and its descendants.
fn family(root: u32) -> BTreeSet<u32> {
    let parents: Vec<_> = attach::processes().filter_map(|pid| Some((pid, parent_of(pid)?))).collect();
    let mut family = BTreeSet::from([root]);
    loop {
        let is_child = |(pid, parent): &(u32, u32)| family.contains(parent).then_some(*pid);
        let children: Vec<u32> = parents.iter().filter_map(is_child).collect();
        let before = family.len();
        family.extend(children);
        if family.len() == before {
            return family;
        }
    }
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

/// The program of a process, and which file it is.
fn program(pid: u32) -> Option<(Program, (u64, u64))> {
    let exe = PathBuf::from(format!("/proc/{pid}/exe"));
    let link = std::fs::read_link(&exe).ok()?.into_os_string().into_vec();
    // As the kernel says of a file that was removed or replaced.
    let name = PathBuf::from(std::ffi::OsStr::from_bytes(link.strip_suffix(b" (deleted)").unwrap_or(&link)));
    let identity = |path: &Path| path.metadata().ok().map(|file| (file.dev(), file.ino()));
    let runs = identity(&exe)?;
    let inside = Path::new(&format!("/proc/{pid}/root")).join(name.strip_prefix("/").unwrap_or(&name));
    let named = [name.clone(), inside].into_iter().find(|path| identity(path) == Some(runs));
    Some((Program { name, file: named.unwrap_or(exe) }, runs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_program_that_was_removed_can_be_opened() {
        let dir = tempfile::tempdir().expect("a directory can be made");
        let file = dir.path().canonicalize().expect("it is there").join("sleeper");
        std::fs::copy("/bin/sleep", &file).expect("it can be copied");
        let mut child = Command::new(&file).arg("60").spawn().expect("it starts");
        let of_child = || programs(&Running::Process(child.id()));
        assert_eq!(of_child(), [Program { name: file.clone(), file: file.clone() }]);
        std::fs::remove_file(&file).expect("it can be removed");
        let exe = PathBuf::from(format!("/proc/{}/exe", child.id()));
        assert_eq!(of_child(), [Program { name: file, file: exe.clone() }]);
        assert!(
            std::fs::read(exe).is_ok_and(|bytes| bytes == std::fs::read("/bin/sleep").expect("readable"))
        );
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
    }

    #[test]
    fn what_a_process_started_counts() {
        let mut shell = Command::new("sh").args(["-c", "sleep 60; true"]).spawn().expect("it starts");
        let is_sleep =
            |program: &Program| program.name.ends_with("sleep") || program.name.ends_with("coreutils");
        let began = std::time::Instant::now();
        while !programs(&Running::Process(shell.id())).iter().any(is_sleep) {
            assert!(began.elapsed().as_secs() < 30, "{:?}", programs(&Running::Process(shell.id())));
            std::thread::yield_now();
        }
        let children = family(shell.id());
        children.iter().for_each(|pid| drop(Command::new("kill").arg(pid.to_string()).status()));
        shell.wait().expect("it ends");
    }
}
