//! A command, or what runs already (`--pid`, `--cgroup`, `--unit`): for the capture and for the trace.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use pcstream_capture::attach::{Running, command_of};
use pcstream_capture::capture::Subject;
use pcstream_fs::extents::DeviceNumber;
use pcstream_fs::scratch::{ExistingFs, raw_device};

use crate::args::AttachArgs;
use crate::failure::Failure;

/// The command, if there is one, or else what runs already.
pub fn subject(words: &[OsString], args: &AttachArgs) -> Subject {
    match words.is_empty() {
        true => running(args),
        false => Subject::Command(words.to_vec()),
    }
}

/// What the arguments name, or else everything that writes.
pub fn running(args: &AttachArgs) -> Subject {
    Subject::Running(named(args).unwrap_or(Running::Anyone))
}

fn named(args: &AttachArgs) -> Option<Running> {
    let processes = (!args.pid.is_empty()).then(|| Running::Processes(args.pid.clone()));
    let cgroup = || args.cgroup.clone().map(Running::Cgroup);
    processes.or_else(cgroup).or_else(|| args.unit.clone().map(Running::Unit))
}

/// What the user should know where everybody who writes is followed, and `on` is a directory below a mount point: the whole
/// file system is taken. `done` says what happens to its writes.
pub fn takes_all(on: &Path, subject: &Subject, done: &str) -> Option<String> {
    let narrows = match subject {
        Subject::Command(_) => ", not the command alone:",
        Subject::Running(Running::Anyone) => "; --pid, --cgroup or --unit narrows that, and",
        Subject::Running(_) => return None,
    };
    let found = ExistingFs::of(on).ok()?;
    (found.directory != found.mount_point).then(|| {
        format!(
            "--on {}: all that writes to the file system at {} is {done}{narrows} --dir-only takes that directory alone",
            on.display(),
            found.mount_point.display()
        )
    })
}

/// The block device that `--on` is, or whose file system it is on: number and path.
pub fn device_of(on: &Path) -> anyhow::Result<(DeviceNumber, PathBuf)> {
    let device = match raw_device(on)? {
        Some(device) => device,
        None => ExistingFs::of(on)?.device,
    };
    Ok((device.number, device.path))
}

/// The inode of the only directory that is followed. Errors: there is none.
pub fn only_below(on: Option<&Path>, dir_only: bool) -> Result<Option<u64>, Failure> {
    let Some(on) = on.filter(|_| dir_only) else {
        // A configuration file may ask for it.
        let refused = || Failure::wrong_arguments(anyhow!("--dir-only needs --on DIR"));
        return if dir_only { Err(refused()) } else { Ok(None) };
    };
    let about = std::fs::metadata(on).with_context(|| format!("--on {}", on.display()))?;
    if !about.is_dir() {
        let error = anyhow!("--dir-only: --on {} is no directory: give one of its file system", on.display());
        return Err(Failure::wrong_arguments(error));
    }
    Ok(Some(about.ino()))
}

/// The command line that a trace tells: of the command, or of the only process. `None`: that did not answer.
pub fn command(subject: &Subject) -> Option<Vec<String>> {
    let words = match subject {
        Subject::Command(words) => words.clone(),
        Subject::Running(Running::Processes(pids)) => match pids[..] {
            [only] => command_of(only)?,
            _ => Vec::new(),
        },
        Subject::Running(_) => Vec::new(),
    };
    Some(words.iter().map(|word| word.to_string_lossy().into_owned()).collect())
}

/// What a trace says that its recording was attached to.
pub fn setting(subject: &Subject, redact: bool) -> Option<String> {
    let Subject::Running(running) = subject else { return None };
    Some(match running {
        Running::Processes(pids) => match &pids[..] {
            [only] => format!("process {only}"),
            several => {
                format!("processes {}", several.iter().map(u32::to_string).collect::<Vec<_>>().join(", "))
            }
        },
        Running::Cgroup(_) | Running::Unit(_) if redact => "(redacted)".to_owned(),
        Running::Cgroup(path) => format!("cgroup {}", path.display()),
        Running::Unit(unit) => format!("unit {unit}"),
        Running::Anyone => "everything that writes".to_owned(),
    })
}
