//! Why captures fail.

use std::error::Error;
use std::path::PathBuf;

use super::BTF;
use crate::attach::AttachError;
use crate::session::SessionError;
use pcstream_fs::layout::LayoutError;
use pcstream_fs::scratch::ScratchError;

/// Why a capture failed.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The process may not do what a capture takes.
    #[error("capturing needs root: this process is without {}. Run it with sudo; simulate, contexts and generate \
             need no privileges", missing.join(", "))]
    Privileges {
        /// Capabilities, and what for.
        missing: Vec<&'static str>,
    },
    /// The kernel has no type information.
    #[error(
        "the kernel has no type information (no {BTF}): use one built with CONFIG_DEBUG_INFO_BTF=y, as Debian's \
             and Ubuntu's are"
    )]
    NoBtf,
    /// The user stopped it before there was anything to capture.
    #[error("interrupted before the recording began")]
    Interrupted,
    /// No command was given.
    #[error("no command to trace: give one after `--`")]
    NoCommand,
    /// The command cannot be started.
    #[error("cannot start '{command}': {source}")]
    Command {
        /// As given; a path with its directory.
        command: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The program cannot be loaded or read.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The file system cannot be made, found or removed.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
    /// The file system cannot be understood.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The file system cannot be synced.
    #[error("cannot sync {path}: {source}")]
    Sync {
        /// Mount point.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// What runs already cannot be followed.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The observer gave up.
    #[error("{0}")]
    Observer(Box<dyn Error + Send + Sync>),
}
