//! How a command ends: exit codes, and errors that know theirs.

use std::process::ExitCode;

/// How a command that did its work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Everything asked for.
    Done,
    /// A result, but of a trace that lacks something.
    Losses,
}

/// How a command ended that did not do its work.
#[derive(Debug)]
#[cfg_attr(not(feature = "capture"), allow(dead_code))]
pub enum Failure {
    /// Something failed.
    Failed(anyhow::Error),
    /// A signal ended it.
    Interrupted {
        /// What to say.
        error: anyhow::Error,
        /// Its number.
        signal: i32,
    },
    /// The traced command failed, and its exit code was asked for.
    Forwarded {
        /// What to say.
        error: anyhow::Error,
        /// The command's.
        code: u8,
    },
    /// What was asked for cannot be.
    WrongArguments(anyhow::Error),
    /// Whoever read the results does not want more of them.
    ReaderGone,
}

impl Status {
    /// `Losses` if there were any.
    pub fn with_losses(losses: bool) -> Status {
        if losses { Status::Losses } else { Status::Done }
    }

    /// The same, but `Losses` if there were more.
    #[cfg(feature = "capture")]
    pub fn or_losses(self, more: bool) -> Status {
        Status::with_losses(self == Status::Losses || more)
    }
}

/// How a command of two parts ends: with a failure of either, or else with losses of either. Whoever reads no more results still
/// learns of the other part.
#[cfg(feature = "capture")]
pub fn both(one: Result<Status, Failure>, other: Result<Status, Failure>) -> Result<Status, Failure> {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok(one.or_losses(other == Status::Losses)),
        (Err(Failure::ReaderGone), end) | (end, Err(Failure::ReaderGone)) => end,
        (Err(failure), _) | (_, Err(failure)) => Err(failure),
    }
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> ExitCode {
        match status {
            Status::Done => ExitCode::SUCCESS,
            Status::Losses => ExitCode::from(3),
        }
    }
}

impl Failure {
    /// Exit code 1.
    pub fn failed(error: impl Into<anyhow::Error>) -> Failure {
        Failure::Failed(error.into())
    }

    /// Exit code 2.
    pub fn wrong_arguments(error: impl Into<anyhow::Error>) -> Failure {
        Failure::WrongArguments(error.into())
    }

    /// The same failure, with more said if it is one of exit code 1.
    pub fn map_failed(self, more: impl FnOnce(anyhow::Error) -> anyhow::Error) -> Failure {
        match self {
            Failure::Failed(error) => Failure::Failed(more(error)),
            other => other,
        }
    }

    /// What to say, if anything.
    pub fn error(&self) -> Option<&anyhow::Error> {
        match self {
            Failure::Failed(error) | Failure::WrongArguments(error) => Some(error),
            Failure::Interrupted { error, .. } | Failure::Forwarded { error, .. } => Some(error),
            Failure::ReaderGone => None,
        }
    }

    /// The exit code; a reader that is gone is no failure of ours. A signal gives the code by which shells tell it.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Failure::Interrupted { signal, .. } => ExitCode::from(128 + u8::try_from(*signal).unwrap_or(0)),
            Failure::Forwarded { code, .. } => ExitCode::from(*code),
            Failure::Failed(_) => ExitCode::from(1),
            Failure::WrongArguments(_) => ExitCode::from(2),
            Failure::ReaderGone => ExitCode::SUCCESS,
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Failure {
        Failure::Failed(error)
    }
}
