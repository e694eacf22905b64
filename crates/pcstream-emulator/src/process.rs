//! The device in a process of its own, and the other end: who starts it, writes on it and knows the streams.
//!
//! Idea: a process that serves a file system and also waits for it may wait for itself for ever, even when it is killed.
//! So a child serves the device. It takes requests on its standard input and answers on its standard output, both as
//! lines of JSON. Streams ([`DeviceProcess::assign`]) are not answered.
//!
//! The child ends when its input ends, so it never outlives who started it. A thread of its own reads the input: the child
//! ends even while it waits for something else, such as a slow image. If the file system is still mounted then,
//! its writes fail, and [`clean_stale`](crate::mount::clean_stale) removes what is left.
//!
//! Units: pages, and their addresses on the device.

mod server;

use std::io::{self, BufRead as _, BufReader, BufWriter, Write};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pcstream_ssd::{DeviceSettings, LogicalPage, StreamId};
use serde::{Deserialize, Serialize};

use crate::device::Status;
use crate::power::PowerCut;
use crate::run_dir;
pub use server::serve;

/// How long the end of a device waits for the loop device to let its file go.
const END: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(10);

/// What the child is asked.
#[derive(Debug, Serialize, Deserialize)]
enum Request {
    Start { settings: DeviceSettings, buffer_pages: usize, root: PathBuf, owner: u32 },
    Load(PathBuf),
    Save(PathBuf),
    Begin(Beginning),
    Assign(Vec<Assigned>),
    Settle,
    Status,
    PowerOn,
    Hurry,
    End,
}

#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Started { file: PathBuf, lacks: Option<String> },
    Done,
    Status(Box<Status>),
}

/// Why the device does not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// It cannot be started.
    #[error("cannot start the process of the emulated device: {0}")]
    Start(io::Error),
    /// It ended, or its answers cannot be read.
    #[error("the process of the emulated device is gone: {0}")]
    Gone(io::Error),
    /// It refuses.
    #[error("{0}")]
    Refused(String),
}

/// How a device begins to count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beginning {
    /// What is on it: first page and number of pages of each extent ([`EmulatedDevice::prefill`]).
    pub prefill: Vec<(LogicalPage, u64)>,
    /// Whether streams are assigned.
    pub expects_streams: bool,
    /// A power cut to come.
    pub power_cut: Option<PowerCut>,
    /// How long garbage collection takes for each page that it copies, on top.
    pub gc_page: Duration,
}

/// Pages and their stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assigned {
    /// First page.
    pub first: LogicalPage,
    /// Number of pages.
    pub pages: u32,
    /// Their stream.
    pub stream: StreamId,
}

/// A device that is served by a child. Dropping it ends the service.
#[derive(Debug)]
pub struct DeviceProcess {
    child: Child,
    link: Mutex<Link>,
    file: PathBuf,
    lacks: Option<String>,
    begun: AtomicBool,
}

#[derive(Debug)]
struct Link {
    /// Closed to end the child.
    to: Option<BufWriter<ChildStdin>>,
    from: BufReader<ChildStdout>,
}

impl Link {
    fn send(&mut self, request: &Request) -> Result<(), ProcessError> {
        let to = self.to.as_mut().ok_or_else(|| ProcessError::Gone(io::ErrorKind::BrokenPipe.into()))?;
        write_line(to, request).map_err(ProcessError::Gone)
    }

    fn call(&mut self, request: &Request) -> Result<Answer, ProcessError> {
        self.send(request)?;
        let mut line = String::new();
        if self.from.read_line(&mut line).map_err(ProcessError::Gone)? == 0 {
            return Err(ProcessError::Gone(io::ErrorKind::UnexpectedEof.into()));
        }
        let answer: Result<Answer, String> =
            serde_json::from_str(&line).map_err(|error| ProcessError::Gone(error.into()))?;
        answer.map_err(ProcessError::Refused)
    }
}

fn write_line(to: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *to, value)?;
    to.write_all(b"\n")?;
    to.flush()
}

impl DeviceProcess {
    /// Starts `command`, which calls [`serve`], and a device in it, in a directory under `root` whose name begins with the
    /// id of this process.
    pub fn start(
        mut command: Command,
        settings: &DeviceSettings,
        buffer_pages: usize,
        root: &Path,
    ) -> Result<DeviceProcess, ProcessError> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).current_dir("/");
        // Ctrl-C on a terminal is for the program on the device; the device ends after it.
        command.process_group(0);
        let mut child = command.spawn().map_err(ProcessError::Start)?;
        let to = child.stdin.take().map(BufWriter::new);
        let from = BufReader::new(child.stdout.take().expect("it is piped"));
        let link = Mutex::new(Link { to, from });
        let mut process =
            DeviceProcess { child, link, file: PathBuf::new(), lacks: None, begun: AtomicBool::new(false) };
        let (settings, root, owner) = (settings.clone(), root.to_owned(), std::process::id());
        let request = Request::Start { settings, buffer_pages, root, owner };
        let Answer::Started { file, lacks } = process.link().call(&request)? else {
            return Err(ProcessError::Refused("another answer than was expected".into()));
        };
        (process.file, process.lacks) = (file, lacks);
        Ok(process)
    }

    fn link(&self) -> MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file that a loop device can be made of.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// What the limits of the process do not allow, that keeps it from waiting for its own writes where memory is short.
    pub fn lacks(&self) -> Option<&str> {
        self.lacks.as_deref()
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Fills an empty device from an image.
    pub fn load(&self, image: &Path) -> Result<(), ProcessError> {
        self.link().call(&Request::Load(image.to_owned())).map(drop)
    }

    /// Writes what the device holds to a file that is there, and is nobody else's.
    pub fn save(&self, image: &Path) -> Result<(), ProcessError> {
        self.link().call(&Request::Save(image.to_owned())).map(drop)
    }

    /// Counts from here on.
    pub fn begin(&self, beginning: &Beginning) -> Result<(), ProcessError> {
        self.link().call(&Request::Begin(beginning.clone()))?;
        self.begun.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Garbage collection is not slow any more, nor what is not over yet.
    pub fn hurry(&self) -> Result<(), ProcessError> {
        self.link().call(&Request::Hurry).map(drop)
    }

    /// Whether it began to count. Until then the file system on it may be half made.
    pub fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Relaxed)
    }

    /// Assigns streams, in order. Errors: the process is gone; what the device refuses, the next request but
    /// `status` and `save` reports.
    pub fn assign(&self, assigned: &[Assigned]) -> Result<(), ProcessError> {
        self.link().send(&Request::Assign(assigned.to_vec()))
    }

    /// How it stands.
    pub fn status(&self) -> Result<Status, ProcessError> {
        self.status_after(&Request::Status)
    }

    /// How it stands when everything in its buffer is programmed.
    pub fn settle(&self) -> Result<Status, ProcessError> {
        self.status_after(&Request::Settle)
    }

    fn status_after(&self, request: &Request) -> Result<Status, ProcessError> {
        match self.link().call(request)? {
            Answer::Status(status) => Ok(*status),
            _ => Err(ProcessError::Refused("another answer than was expected".into())),
        }
    }

    /// Gives it power again after a power cut.
    pub fn power_on(&self) -> Result<(), ProcessError> {
        self.link().call(&Request::PowerOn).map(drop)
    }

    /// Ends the service and the process. Errors: something still uses the file.
    pub fn end(&self) -> Result<(), ProcessError> {
        self.link().call(&Request::End).map(drop)
    }
}

impl Drop for DeviceProcess {
    fn drop(&mut self) {
        self.link().to = None;
        let deadline = Instant::now() + END;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() >= deadline {
                // It does not end by itself. Errors: it just did.
                let _ = self.child.kill();
                let _ = self.child.wait();
                break;
            }
            std::thread::sleep(POLL);
        }
        // Usually the child has removed it. What cannot be removed now, `clean_stale` finds.
        if let Some(directory) = self.file.parent().and_then(Path::parent) {
            let _ = run_dir::remove(directory);
        }
    }
}
