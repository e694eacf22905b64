//! A device in front of a disk: made, served until it is stopped, and removed.
//!
//! Idea: queues are threads of their own; this thread receives from placers and is asked to stop. It stops only when nobody has the device
//! mounted. Whatever ends the process otherwise, the driver answers what is on its way with EIO and takes the device away.
//!
//! Invariant: the disk is claimed exclusively from before the device is made until after it is gone.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mm::MlockAllFlags;

use crate::abi::{self, DeviceInfo};
use crate::control::{Control, block_device, character_device};
use crate::disk::{Disk, Limits, REQUEST_BYTES_MAX};
use crate::error::UblkError;
use crate::in_use::InUse;
use crate::link::{ControlSocket, Received, Served};
use crate::making::Making;
use crate::number;
use crate::queue::{self, QueueConfig};
use crate::shared::{Shared, Totals};

/// Room for what a queue calls; little, as it is locked in memory.
const STACK_BYTES: usize = 256 << 10;
/// How often a device that is to be stopped is looked at.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// How a disk is served.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The number of the device; `None`: the first that is free.
    pub id: Option<u32>,
    /// Queues, each with a thread. There are no more than processors.
    pub queues: u16,
    /// Requests that a queue has on their way at once.
    pub depth: u16,
}

/// What somebody should know while a device is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The number that it is to have is that of a killed server's device, until nobody has that mounted or open.
    Waits(u32),
    /// This process gives streams.
    Attached(u32),
    /// Nobody does any more.
    Detached,
    /// It is to be stopped, but is in use: it is served until it is not.
    InUse,
    /// It is to be stopped, and this is why nobody knows whether it is in use: it is served until it is known not to be.
    Unknown(String),
}

/// Removes a device when it is dropped.
#[derive(Debug)]
struct Device {
    control: Control,
    id: u32,
    queues: u16,
    started: bool,
}

impl Device {
    fn add(
        mut control: Control,
        options: &Options,
        stop: BorrowedFd<'_>,
        report: &mut dyn FnMut(Event),
    ) -> Result<(Device, Making), UblkError> {
        let wanted = DeviceInfo {
            queues: options.queues,
            depth: options.depth,
            request_bytes_max: REQUEST_BYTES_MAX,
            id: options.id.unwrap_or(number::ANY),
            server: std::process::id() as i32,
            flags: abi::BUFFERS_IN_RING | abi::ENCODED_COMMANDS,
            server_flags: abi::OF_PCSTREAM,
            ..DeviceInfo::default()
        };
        let (made, making) = number::add(&mut control, wanted, stop, || report(Event::Waits(wanted.id)))?;
        Ok((Device { control, id: made.id, queues: made.queues, started: false }, making))
    }

    fn stop(&mut self) -> Result<(), UblkError> {
        self.started = false;
        self.control.stop(self.id).map_err(|source| UblkError::command("stop the device", source))
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if self.started {
            let _ = self.stop();
        }
        let _ = self.control.delete(self.id);
    }
}

/// A disk that is served.
#[derive(Debug)]
pub struct Server {
    socket: ControlSocket,
    limits: Limits,
    shared: Arc<Shared>,
    device: Device,
    queues: Queues,
    locked: bool,
}

impl Server {
    /// Makes the device. It may wait for its number, until `stop` can be read: then the error is [`UblkError::Stopped`].
    pub fn start(
        path: &Path,
        options: &Options,
        stop: BorrowedFd<'_>,
        report: &mut dyn FnMut(Event),
    ) -> Result<Server, UblkError> {
        let control = Control::open()?;
        let Disk { file, limits } = Disk::claim(path)?;
        let (mut device, making) = Device::add(control, options, stop, report)?;
        let options = &Options { queues: device.queues, ..*options };
        let set = device.control.set_parameters(device.id, limits.parameters());
        set.map_err(|source| UblkError::command("describe the device", source))?;
        let shared = Arc::<Shared>::default();
        let queues = Queues::start(device.id, options, &Arc::new(file), &shared)?;
        device.started = true;
        let started = device.control.start(device.id);
        started.map_err(|source| UblkError::command("start the device", source))?;
        let (disk, streams) = (limits.name.clone(), limits.streams);
        let socket = ControlSocket::open(&Served { device: format!("ublkb{}", device.id), disk, streams })?;
        drop(making);
        let locked = rustix::mm::mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE).is_ok();
        Ok(Server { socket, limits, shared, device, queues, locked })
    }

    /// The device that was made.
    pub fn device(&self) -> PathBuf {
        block_device(self.device.id)
    }

    /// Its queues: as many as were asked for, or as there are processors.
    pub fn queues(&self) -> u16 {
        self.device.queues
    }

    /// What is behind it.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What the limits of this process do not allow, that keeps the server from waiting for its own writes where memory is short.
    pub fn lacks(&self) -> Option<&'static str> {
        match (self.locked, self.shared.lacks_flusher()) {
            (true, false) => None,
            (false, _) => Some("its memory cannot be locked (RLIMIT_MEMLOCK)"),
            (true, true) => Some("its allocations may wait for its own writes (it lacks CAP_SYS_RESOURCE)"),
        }
    }

    /// Serves until `stop` can be read, and it is known that nobody uses the device any more.
    pub fn run(
        mut self,
        stop: BorrowedFd<'_>,
        report: &mut dyn FnMut(Event),
    ) -> Result<Arc<Totals>, UblkError> {
        let (mut stopping, mut said) = (false, None);
        loop {
            if stopping {
                let event = match self.in_use() {
                    InUse::No(unused) => {
                        self.device.stop()?;
                        drop(unused);
                        return self.finish();
                    }
                    InUse::Yes => Event::InUse,
                    InUse::Unknown(why) => Event::Unknown(why),
                };
                if said.as_ref() != Some(&event) {
                    report(event.clone());
                    said = Some(event);
                }
            }
            let ready = self.wait((!stopping).then_some(stop))?;
            stopping |= ready.stop;
            if ready.queue_over {
                return self.over();
            }
            for client in ready.clients.into_iter().rev() {
                match self.socket.receive_from(client) {
                    Received::Attached(table, process) => {
                        self.shared.set_table(Some(table));
                        report(Event::Attached(process));
                    }
                    Received::Detached => {
                        self.shared.set_table(None);
                        report(Event::Detached);
                    }
                    Received::Nothing => {}
                }
            }
            if ready.new {
                self.socket.greet();
            }
        }
    }

    fn in_use(&self) -> InUse {
        let number = format!("/sys/block/ublkb{}/dev", self.device.id);
        InUse::of(&self.device(), Path::new(&number))
    }

    fn wait(&self, stop: Option<BorrowedFd<'_>>) -> Result<Ready, UblkError> {
        let stop = stop.unwrap_or(self.queues.over.as_fd());
        let fds = [stop, self.queues.over.as_fd()].into_iter().chain(self.socket.waits_for());
        let mut fds: Vec<_> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        match poll(&mut fds, Some(&LOOK)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(UblkError::command("wait", errno.into())),
        }
        let ready: Vec<_> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let clients = (3..ready.len()).filter(|&number| ready[number]).map(|number| number - 3).collect();
        Ok(Ready { stop: ready[0], queue_over: ready[1], new: ready[2], clients })
    }

    /// The device was stopped: all queues end.
    fn finish(mut self) -> Result<Arc<Totals>, UblkError> {
        self.queues.join()?;
        Ok(self.shared.totals.clone())
    }

    /// A queue ended, and this process did not stop the device.
    fn over(mut self) -> Result<Arc<Totals>, UblkError> {
        if let Err(error) = self.queues.join_one() {
            // Requests of that queue are answered when this process ends, and no sooner: to stop the device would wait for them.
            // The next server removes what is left, by the socket that stays.
            std::mem::forget(self);
            return Err(error);
        }
        // Somebody else stopped it.
        self.device.started = false;
        self.finish()
    }
}

/// What happened meanwhile.
struct Ready {
    stop: bool,
    queue_over: bool,
    new: bool,
    clients: Vec<usize>,
}

/// What came of a queue.
type Ended = (u16, io::Result<()>);

/// Threads that serve.
#[derive(Debug)]
struct Queues {
    /// How many have not ended, as far as `ended` was read.
    running: u16,
    ended: mpsc::Receiver<Ended>,
    /// Shut when one of them ends.
    over: UnixStream,
}

impl Queues {
    /// All of them wait for requests.
    fn start(
        id: u32,
        options: &Options,
        disk: &Arc<File>,
        shared: &Arc<Shared>,
    ) -> Result<Queues, UblkError> {
        let name = character_device(id);
        let driver = OpenOptions::new().read(true).write(true).custom_flags(libc::O_CLOEXEC).open(&name);
        let driver = Arc::new(driver.map_err(|source| UblkError::Open { path: name, source })?);
        let pair = UnixStream::pair().map_err(|source| UblkError::command("make a socket", source));
        let (over, other_end) = pair?;
        let (send, ended) = mpsc::channel();
        for number in 0..options.queues {
            let (driver, disk, shared) = (driver.clone(), disk.clone(), shared.clone());
            start_queue(
                QueueConfig { number, depth: options.depth, driver, disk, shared },
                &other_end,
                send.clone(),
            )?;
        }
        Ok(Queues { running: options.queues, ended, over })
    }

    /// Waits for all that run.
    fn join(&mut self) -> Result<(), UblkError> {
        while self.running > 0 {
            self.join_one()?;
        }
        Ok(())
    }

    /// Waits for the next one to end.
    fn join_one(&mut self) -> Result<(), UblkError> {
        self.running -= 1;
        let (queue, result) = self.ended.recv().expect("each queue says how it ended");
        result.map_err(|source| UblkError::Queue { queue, source })
    }
}

/// Starts a queue, and waits until it waits for requests. `over` is shut when it has ended.
fn start_queue(config: QueueConfig, over: &UnixStream, ended: mpsc::Sender<Ended>) -> Result<(), UblkError> {
    let queue = config.number;
    let error = |source| UblkError::Queue { queue, source };
    let over = over.try_clone().map_err(error)?;
    let (ready, is_ready) = mpsc::channel();
    let run = move || {
        let result = std::panic::catch_unwind(AssertUnwindSafe(|| queue::serve(config, ready)));
        let _ = ended.send((queue, result.unwrap_or_else(|_| Err(io::Error::other("it panicked")))));
        let _ = over.shutdown(std::net::Shutdown::Both);
    };
    let thread = std::thread::Builder::new().name(format!("queue-{queue}")).stack_size(STACK_BYTES);
    thread.spawn(run).map_err(error)?;
    match is_ready.recv() {
        Ok(result) => result.map_err(error),
        Err(_) => Err(error(io::Error::other("it ended before it began"))),
    }
}
