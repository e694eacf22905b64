//! Programs that run, as open files: also those of containers, and those that were replaced on disk.
//!
//! Idea: `/proc/PID/exe` is the file that runs, whatever lies at its path by now, or at that path in this mount namespace.
//!
//! Invariants: whoever is traced chose the programs. So no path of theirs is walked, and no file is opened on a file system
//! that a user may have mounted: its owner decides whether it ever answers. A file is opened once, so that nobody can put
//! another one in its place between two looks.
//!
//! Known weaknesses: so the program of a rootless container is not found on an overlay that the container mounted itself. Debug
//! files are looked for in this mount namespace alone.

use std::collections::HashSet;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::Arc;

use crate::attach::{AttachError, Attached, Running};
use crate::buffers::Program;
use crate::modules::file_handles::{Facts, Handle, Process, is_on_foreign_fuse};
use crate::modules::looks::STEPS_OF_A_PROCESS;

/// The programs of what is attached to, each once. Of everything that writes: none.
pub fn programs(of: &Running) -> Result<Vec<Program>, AttachError> {
    let mut known = HashSet::new();
    let found = Attached::find(of)?.processes().into_iter().filter_map(program);
    Ok(found.filter(|(_, identity)| known.insert(*identity)).map(|(program, _)| program).collect())
}

/// The program of a process, and which file it is.
fn program(pid: u32) -> Option<(Program, (u32, u64))> {
    let process = Process::new(pid, STEPS_OF_A_PROCESS)?;
    let found = Handle::of_path(&process.in_proc("exe"), 0)?;
    let facts = found.facts;
    if is_of_user(&facts, &process) {
        return None;
    }
    let file = found.open(0)?;
    let name = path_of(&file)?;
    Some((Program { name, file: Arc::new(file) }, (facts.device, facts.inode)))
}

/// Whether a user may have mounted the file system of a process's program.
fn is_of_user(program: &Facts, process: &Process) -> bool {
    let is_trusted = |process: &Process| {
        let mount = process.mount(program.mount);
        mount.is_some_and(|mount| !mount.fs_type.starts_with("fuse") && process.vouches_for(&mount))
    };
    is_on_foreign_fuse(program) && !is_trusted(process)
}

/// Where an open file lies, or lay.
fn path_of(file: &File) -> Option<PathBuf> {
    let link = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
    let link = link.as_os_str().as_bytes();
    // As the kernel says of a file that was removed or replaced.
    let path = link.strip_suffix(b" (deleted)").unwrap_or(link);
    Some(std::ffi::OsString::from_vec(path.to_vec()).into())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::Command;

    use super::*;
    use crate::attach::Running;

    fn of_process(pid: u32) -> Vec<Program> {
        programs(&Running::Processes(vec![pid])).expect("it runs")
    }

    #[test]
    fn a_program_that_was_removed_can_be_read() {
        let dir = tempfile::tempdir().expect("a directory can be made");
        let path = dir.path().canonicalize().expect("it is there").join("sleeper");
        // Not by this process: children of other tests would keep the copy open for writing, and it could not be executed.
        let copied = Command::new("cp").arg("/bin/sleep").arg(&path).status().expect("it starts");
        assert!(copied.success(), "it can be copied");
        let mut child = Command::new(&path).arg("60").spawn().expect("it starts");
        for is_there in [true, false] {
            let found = of_process(child.id());
            assert_eq!(found.iter().map(|program| &program.name).collect::<Vec<_>>(), [&path]);
            let mut bytes = Vec::new();
            (&*found[0].file).read_to_end(&mut bytes).expect("it can be read");
            assert_eq!(bytes, std::fs::read("/bin/sleep").expect("readable"));
            if is_there {
                std::fs::remove_file(&path).expect("it can be removed");
            }
        }
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
    }

    #[test]
    fn what_a_process_started_counts() {
        let mut shell = Command::new("sh").args(["-c", "sleep 60; true"]).spawn().expect("it starts");
        let is_sleep =
            |program: &Program| program.name.ends_with("sleep") || program.name.ends_with("coreutils");
        let began = std::time::Instant::now();
        while !of_process(shell.id()).iter().any(is_sleep) {
            assert!(began.elapsed().as_secs() < 30, "{:?}", of_process(shell.id()));
            std::thread::yield_now();
        }
        let attached = Attached::find(&Running::Processes(vec![shell.id()]));
        let family = attached.expect("it runs").processes();
        family.iter().for_each(|pid| drop(Command::new("kill").arg(pid.to_string()).status()));
        shell.wait().expect("it ends");
    }

    #[test]
    fn what_is_not_there_is_said() {
        let mut child = Command::new("true").spawn().expect("it starts");
        child.wait().expect("it ends");
        let found = programs(&Running::Processes(vec![child.id()]));
        assert!(matches!(found, Err(AttachError::NoProcess(pid)) if pid == child.id()));
    }
}
