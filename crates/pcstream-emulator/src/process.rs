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

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use pcstream_ssd::{DeviceSettings, LogicalPage, StreamId};
use pcstream_system::trusted_file::open_regular;
use serde::{Deserialize, Serialize};

use crate::device::{DeviceError, DeviceOptions, EmulatedDevice, Status};
use crate::image;
use crate::mount::MountedDevice;
use crate::power::PowerCut;
use crate::run_dir;

/// How long the end of a device waits for the loop device to let its file go.
const END: Duration = Duration::from_secs(30);
/// The same, if whoever started the device is gone.
const ORPHAN: Duration = Duration::from_secs(2);
/// After which the process of the device ends, whatever it waits for, if whoever started it is gone: longer than [`ORPHAN`].
const STUCK: Duration = Duration::from_secs(5);
/// Requests that wait.
const READ_AHEAD: usize = 64;
const POLL: Duration = Duration::from_millis(10);

/// What the child is asked.
#[derive(Debug, Serialize, Deserialize)]
enum Request {
    Start { settings: DeviceSettings, buffer_pages: usize, root: PathBuf, owner: u32 },
    Load(PathBuf),
    Save(PathBuf),
    Begin { prefill: Vec<(u64, u64)>, expects_streams: bool, power_cut: Option<PowerCut>, gc_page_ns: u64 },
    Assign(Vec<(u64, u32, u8)>),
    Settle,
    Status,
    PowerOn,
    End,
}

#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Started { file: PathBuf, locked: bool },
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    locked: bool,
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

fn extents(extents: &[(LogicalPage, u64)]) -> Vec<(u64, u64)> {
    extents.iter().map(|&(first, pages)| (first.0, pages)).collect()
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
        let mut process = DeviceProcess { child, link, file: PathBuf::new(), locked: false };
        let (settings, root, owner) = (settings.clone(), root.to_owned(), std::process::id());
        let request = Request::Start { settings, buffer_pages, root, owner };
        let Answer::Started { file, locked } = process.link().call(&request)? else {
            return Err(ProcessError::Refused("another answer than was expected".into()));
        };
        (process.file, process.locked) = (file, locked);
        Ok(process)
    }

    fn link(&self) -> MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file that a loop device can be made of.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Whether its memory is locked.
    pub fn locked(&self) -> bool {
        self.locked
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Fills an empty device from an image.
    pub fn load(&self, image: &Path) -> Result<(), ProcessError> {
        self.link().call(&Request::Load(image.to_owned())).map(drop)
    }

    /// Writes what the device holds to a file that is there.
    pub fn save(&self, image: &Path) -> Result<(), ProcessError> {
        self.link().call(&Request::Save(image.to_owned())).map(drop)
    }

    /// Counts from here on.
    pub fn begin(&self, beginning: &Beginning) -> Result<(), ProcessError> {
        let request = Request::Begin {
            prefill: extents(&beginning.prefill),
            expects_streams: beginning.expects_streams,
            power_cut: beginning.power_cut,
            gc_page_ns: u64::try_from(beginning.gc_page.as_nanos()).unwrap_or(u64::MAX),
        };
        self.link().call(&request).map(drop)
    }

    /// Assigns streams, in order. Errors: the process is gone; what the device refuses, the next request reports.
    pub fn assign(&self, assigned: &[Assigned]) -> Result<(), ProcessError> {
        let assigned = assigned.iter().map(|a| (a.first.0, a.pages, a.stream.0)).collect();
        self.link().send(&Request::Assign(assigned))
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

/// The child: serves a device until `input` ends. Errors: the other end is gone, or says what cannot be understood.
pub fn serve(input: impl BufRead + Send + 'static, mut output: impl Write) -> io::Result<()> {
    let directory = Arc::new(OnceLock::new());
    let mut server = Server::default();
    for line in read_ahead(input, directory.clone()) {
        let request: Request = serde_json::from_str(&line?)?;
        if let Some(answer) = server.answer(request) {
            write_line(&mut output, &answer)?;
        }
        if let Some(mounted) = &server.mounted {
            directory.get_or_init(|| directory_of(&mounted.file()));
        }
    }
    if let Some(mounted) = &mut server.mounted
        && mounted.unmount(ORPHAN).is_err()
    {
        // It is still used. The end of this process makes its users fail; its directory is left to `clean_stale`.
        std::process::exit(1);
    }
    Ok(())
}

/// Lines of `input`. Some time after its end it ends the process, if that still waits for something, and detaches the mount
/// below `directory`.
fn read_ahead(
    input: impl BufRead + Send + 'static,
    directory: Arc<OnceLock<PathBuf>>,
) -> Receiver<io::Result<String>> {
    let (sender, lines) = sync_channel(READ_AHEAD);
    std::thread::spawn(move || {
        for line in input.lines() {
            if sender.send(line).is_err() {
                return;
            }
        }
        drop(sender);
        std::thread::sleep(STUCK);
        // What cannot be removed now, `clean_stale` finds.
        let _ = directory.get().map(|directory| run_dir::remove(directory));
        std::process::exit(1);
    });
    lines
}

/// The run directory of the device's file.
fn directory_of(file: &Path) -> PathBuf {
    file.ancestors().nth(2).unwrap_or(file).to_owned()
}

#[derive(Default)]
struct Server {
    mounted: Option<MountedDevice>,
    /// The first stream that the device refused since the last answer.
    refused: Option<DeviceError>,
}

impl Server {
    fn answer(&mut self, request: Request) -> Option<Result<Answer, String>> {
        if let Request::Assign(assigned) = request {
            self.assign(&assigned);
            return None;
        }
        let answer = self.handle(request);
        Some(match self.refused.take() {
            Some(error) => Err(format!("a stream could not be assigned: {error}")),
            None => answer,
        })
    }

    fn assign(&mut self, assigned: &[(u64, u32, u8)]) {
        let Some(mounted) = &self.mounted else { return };
        for &(first, pages, stream) in assigned {
            match mounted.device().assign(LogicalPage(first), pages, StreamId(stream)) {
                // What was under way when the power was cut needs no stream any more.
                Ok(()) | Err(DeviceError::PowerOff) => {}
                Err(error) => self.refused = self.refused.or(Some(error)),
            }
        }
    }

    fn handle(&mut self, request: Request) -> Result<Answer, String> {
        let said = |error: &dyn std::error::Error| error.to_string();
        if let Request::Start { settings, buffer_pages, root, owner } = request {
            let options = DeviceOptions { settings, buffer_pages, expects_streams: false };
            let device = EmulatedDevice::new(&options).map_err(|error| said(&error))?;
            let mounted = MountedDevice::mount_for(owner, &root, device).map_err(|error| {
                format!("cannot mount the emulated device under {}: {error}", root.display())
            })?;
            let answer = Answer::Started { file: mounted.file(), locked: mounted.locked() };
            self.mounted = Some(mounted);
            return Ok(answer);
        }
        let mounted = self.mounted.as_mut().ok_or("no device was started")?;
        let shared = mounted.device();
        let done = |()| Answer::Done;
        match request {
            Request::Begin { prefill, expects_streams, power_cut, gc_page_ns } => {
                let extents: Vec<_> =
                    prefill.iter().map(|&(first, pages)| (LogicalPage(first), pages)).collect();
                let mut device = shared.lock();
                device.prefill(&extents).map_err(|error| said(&error))?;
                device.expect_streams(expects_streams);
                if let Some(cut) = power_cut {
                    device.plan_power_cut(cut);
                }
                shared.slow_gc(Duration::from_nanos(gc_page_ns));
                Ok(Answer::Done)
            }
            Request::Load(path) => load(&mut shared.lock(), &path).map(done).map_err(|error| said(&error)),
            Request::Save(path) => save(&shared.lock(), &path).map(done).map_err(|error| said(&error)),
            Request::Status => Ok(Answer::Status(Box::new(shared.lock().status()))),
            Request::Settle => {
                let mut device = shared.lock();
                device.settle();
                Ok(Answer::Status(Box::new(device.status())))
            }
            Request::PowerOn => {
                let mut device = shared.lock();
                device.power_on();
                // What replays the journal has no streams.
                device.expect_streams(false);
                Ok(Answer::Done)
            }
            Request::End => {
                mounted
                    .unmount(END)
                    .map_err(|error| format!("cannot unmount the emulated device: {error}"))?;
                self.mounted = None;
                Ok(Answer::Done)
            }
            Request::Start { .. } | Request::Assign(_) => unreachable!("handled above"),
        }
    }
}

/// Loads a regular file: a pipe would be waited for.
fn load(device: &mut EmulatedDevice, path: &Path) -> Result<(), image::ImageError> {
    let file = open_regular(path).map_err(|error| io::Error::other(error.to_string()))?;
    image::load(device, &mut BufReader::with_capacity(1 << 20, file))
}

fn save(device: &EmulatedDevice, path: &Path) -> Result<(), image::ImageError> {
    let mut out = BufWriter::with_capacity(1 << 20, File::options().write(true).open(path)?);
    image::save(device, &mut out)?;
    Ok(out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?)
}
