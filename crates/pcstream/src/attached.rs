//! `record --pid`, `--cgroup`, `--unit`: what is attached to, for the capture and for the trace.

use pcstream_capture::attach::{Attach, Running, command_of};
use pcstream_capture::capture::Subject;

use crate::args::RecordedArgs;

/// What the arguments say is recorded.
pub fn subject(args: &RecordedArgs) -> Subject {
    let to = match (args.pid, &args.cgroup, &args.unit) {
        (Some(pid), _, _) => Running::Process(pid),
        (_, Some(path), _) => Running::Cgroup(path.clone()),
        (_, _, Some(unit)) => Running::Unit(unit.clone()),
        (None, None, None) => return Subject::Command(args.words.clone()),
    };
    Subject::Running(Attach { to, duration: args.duration })
}

/// The command line that a trace tells: of the command, or of the process.
pub fn command(subject: &Subject) -> Vec<String> {
    let words = match subject {
        Subject::Command(words) => words.clone(),
        Subject::Running(Attach { to: Running::Process(pid), .. }) => command_of(*pid),
        Subject::Running(_) => Vec::new(),
    };
    words.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// What a trace says that its recording was attached to.
pub fn setting(subject: &Subject, redact: bool) -> Option<String> {
    let Subject::Running(attach) = subject else { return None };
    Some(match &attach.to {
        Running::Process(pid) => format!("process {pid}"),
        Running::Cgroup(_) | Running::Unit(_) if redact => "(redacted)".to_owned(),
        Running::Cgroup(path) => format!("cgroup {}", path.display()),
        Running::Unit(unit) => format!("unit {unit}"),
        Running::Anyone => "everything that writes".to_owned(),
    })
}
