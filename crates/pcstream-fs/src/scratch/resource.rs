//! What a scratch file system is made of, and who can keep it busy.

use std::fmt;
use std::path::PathBuf;

/// Something that a scratch file system is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resource {
    /// The mounted file system.
    Mount(PathBuf),
    /// A loop device.
    Loop(u32),
    /// The tmpfs that holds the image.
    Tmpfs(PathBuf),
    /// A zram device.
    Zram(u32),
    /// The image file.
    Image(PathBuf),
    /// The run directory.
    RunDir(PathBuf),
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Resource::Mount(path) => write!(f, "mount {}", path.display()),
            Resource::Loop(number) => write!(f, "/dev/loop{number}"),
            Resource::Tmpfs(path) => write!(f, "tmpfs {}", path.display()),
            Resource::Zram(id) => write!(f, "/dev/zram{id}"),
            Resource::Image(path) => write!(f, "image {}", path.display()),
            Resource::RunDir(path) => write!(f, "directory {}", path.display()),
        }
    }
}

/// Something that could not be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// What.
    pub resource: Resource,
    /// Why.
    pub reason: String,
}

/// A process that keeps a file system busy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountUser {
    /// Process id.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// How: `cwd`, `root`, `exe`, `fd N`, `map`, or that its namespace has it mounted.
    pub how: Vec<String>,
}

impl fmt::Display for MountUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {}: {})", self.name, self.pid, self.how.join(", "))
    }
}
