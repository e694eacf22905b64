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
pub enum Failure {
    /// Something failed.
    Failed(anyhow::Error),
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

    /// The exit code; a reader that is gone is no failure of ours.
    pub fn exit_code(&self) -> ExitCode {
        match self {
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
