//! A queue of the device, in a thread of its own: requests come from the driver, and go on to the disk, all by one io_uring.
//!
//! Idea: the driver puts the pages of each request into the ring's table of buffers, at the place of its tag, so the disk reads and
//! writes them without a copy. A ring is of the thread that made it.
//!
//! Invariant: nothing is allocated while requests are served. Memory may only become free by a write that waits for this thread.
//!
//! Known weakness: a request whose pages the kernel cannot enter into the table, for want of memory, gets EIO.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use io_uring::types::{Fd, FsyncFlags};
use io_uring::{IoUring, opcode, squeue};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::process::configure_io_flusher_behavior;

use crate::abi::{self, Descriptor, IoCommand};
use crate::disk::REQUEST_BYTES_MAX;
use crate::plan::{Next, Operation, PARTS_AT_ONCE, Part, Progress, Request};
use crate::shared::Shared;
use crate::table::{PAGE_BYTES, StreamTable};

/// A discard of a block device (`BLOCK_URING_CMD_DISCARD`).
const BLOCK_DISCARD: u32 = 0x1200;
/// How long to wait when the kernel lacks something, such as memory, before it is asked again.
const PAUSE: Duration = Duration::from_millis(10);
/// Asks for completions (`IORING_ENTER_GETEVENTS`).
const GET_EVENTS: u32 = 1;
/// Marks the completions of commands to the driver.
const OF_DRIVER: u64 = 1 << 63;

/// What a queue is made of.
#[derive(Clone, Debug)]
pub(crate) struct QueueConfig {
    pub number: u16,
    pub depth: u16,
    /// The character device.
    pub driver: Arc<File>,
    pub disk: Arc<File>,
    pub shared: Arc<Shared>,
}

/// The driver's descriptors of requests.
struct Descriptors {
    at: NonNull<Descriptor>,
    bytes: usize,
    depth: u16,
}

impl Descriptors {
    fn map(config: &QueueConfig) -> io::Result<Descriptors> {
        let bytes =
            (usize::from(config.depth) * size_of::<Descriptor>()).next_multiple_of(PAGE_BYTES as usize);
        let offset = u64::from(config.number) * abi::QUEUE_STRIDE;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let at = unsafe {
            mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, &*config.driver, offset)
        }?;
        let at = NonNull::new(at.cast()).ok_or_else(|| io::Error::other("a mapping at address 0"))?;
        Ok(Descriptors { at, bytes, depth: config.depth })
    }

    fn of(&self, tag: u16) -> Descriptor {
        assert!(tag < self.depth, "a tag of the queue");
        // SAFETY: within the mapping; the driver wrote it before it said so, and does not until it is answered.
        unsafe { self.at.as_ptr().add(tag.into()).read_volatile() }
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        // SAFETY: nobody reads it any more.
        let _ = unsafe { munmap(self.at.as_ptr().cast(), self.bytes) };
    }
}

struct Queue {
    config: QueueConfig,
    ring: IoUring,
    descriptors: Descriptors,
    /// By tag.
    requests: Vec<Progress>,
    /// Tags for which the driver may still have requests.
    live: u16,
    /// Whether there are parts to be tried again.
    again: bool,
}

/// Serves until the device is stopped. Says when it waits for requests, or why it cannot.
pub(crate) fn serve(config: QueueConfig, ready: Sender<io::Result<()>>) -> io::Result<()> {
    // What the kernel allocates on this thread's behalf must not wait for writes to the device.
    if configure_io_flusher_behavior(true).is_err() {
        config.shared.no_flusher();
    }
    let mut queue = match Queue::make(config) {
        Ok(queue) => queue,
        Err(error) => {
            let _ = ready.send(Err(error));
            return Ok(());
        }
    };
    let _ = ready.send(Ok(()));
    drop(ready);
    queue.run()
}

impl Queue {
    /// All its tags wait for requests.
    fn make(config: QueueConfig) -> io::Result<Queue> {
        let depth = u32::from(config.depth);
        let entries = depth * (PARTS_AT_ONCE as u32 + 1);
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_defer_taskrun().setup_cqsize(entries.next_power_of_two());
        let ring: IoUring = builder.build(depth.next_power_of_two())?;
        ring.submitter().register_buffers_sparse(depth)?;
        let pages = REQUEST_BYTES_MAX as usize / PAGE_BYTES as usize;
        let mut queue = Queue {
            descriptors: Descriptors::map(&config)?,
            requests: (0..depth).map(|_| Progress::with_room(pages)).collect(),
            live: config.depth,
            again: false,
            ring,
            config,
        };
        (0..queue.config.depth).try_for_each(|tag| queue.command(abi::FETCH, tag, 0))?;
        queue.ring.submit()?;
        Ok(queue)
    }

    fn run(&mut self) -> io::Result<()> {
        let mut done: Vec<(u64, i32)> = Vec::with_capacity(self.ring.completion().capacity());
        while self.live > 0 {
            if std::mem::take(&mut self.again) {
                std::thread::sleep(PAUSE);
            }
            self.submit(1)?;
            done.clear();
            done.extend(self.ring.completion().map(|entry| (entry.user_data(), entry.result())));
            let table = self.config.shared.table();
            for &(of, result) in &done {
                let (tag, part) = (of as u16, (of >> 16) as u16);
                if of & OF_DRIVER == 0 {
                    self.part_done(tag, part.into(), result, table.as_deref())?;
                } else if result == 0 {
                    self.request(tag, table.as_deref())?;
                } else {
                    self.live -= 1;
                    if result != -libc::ENODEV {
                        return Err(io::Error::from_raw_os_error(-result));
                    }
                }
            }
        }
        Ok(())
    }

    /// The driver has a request.
    fn request(&mut self, tag: u16, table: Option<&StreamTable>) -> io::Result<()> {
        let request = match Request::parse(&self.descriptors.of(tag)) {
            Ok(request) => request,
            Err(answer) => return self.answer(tag, answer),
        };
        self.config.shared.totals.asked(&request);
        let take = |page| table.map_or(0, |table| table.take(page));
        let parts = self.requests[usize::from(tag)].begin(request, take);
        (0..parts).try_for_each(|part| self.send(tag, part))
    }

    fn part_done(
        &mut self,
        tag: u16,
        part: usize,
        result: i32,
        table: Option<&StreamTable>,
    ) -> io::Result<()> {
        let totals = &self.config.shared.totals;
        let next = self.requests[usize::from(tag)].done(part, result, |stream, of| {
            totals.wrote(stream, of);
            if let Some(table) = table {
                table.count(stream, of);
            }
        });
        match next {
            Next::Do(part) => self.send(tag, part),
            Next::Again(part) => {
                self.again = true;
                self.send(tag, part)
            }
            Next::Wait => Ok(()),
            Next::Answer(answer) => self.answer(tag, answer),
        }
    }

    fn answer(&mut self, tag: u16, result: i32) -> io::Result<()> {
        if result < 0 {
            self.config.shared.totals.failed();
        }
        self.command(abi::COMMIT_AND_FETCH, tag, result)
    }

    /// A part goes to the disk.
    fn send(&mut self, tag: u16, number: usize) -> io::Result<()> {
        let progress = &self.requests[usize::from(tag)];
        let entry = entry(&progress.request, progress.part(number), self.config.disk.as_raw_fd(), tag);
        self.push(entry.user_data((number as u64) << 16 | u64::from(tag)))
    }

    /// A command to the driver: its next request for the tag comes when the command is done.
    fn command(&mut self, command: u32, tag: u16, result: i32) -> io::Result<()> {
        let what = IoCommand { queue: self.config.number, tag, result, ..IoCommand::default() };
        // SAFETY: plain numbers without gaps, 16 bytes of them.
        let bytes: [u8; 16] = unsafe { std::mem::transmute(what) };
        // The address says at which place of the table the pages are to be: that of the tag.
        let entry = opcode::UringCmd16::new(Fd(self.config.driver.as_raw_fd()), command)
            .cmd(bytes)
            .addr(Some(tag.into()))
            .build();
        self.push(entry.user_data(OF_DRIVER | u64::from(tag)))
    }

    fn push(&mut self, entry: squeue::Entry) -> io::Result<()> {
        loop {
            // SAFETY: files and pages of a request outlive it: the driver keeps both until it is answered.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return Ok(());
            }
            self.submit(0)?;
        }
    }

    /// Hands over what was pushed, and waits for so many completions. There may be fewer: after a signal, or when the kernel lacks
    /// something. What was not handed over then is handed over the next time.
    fn submit(&mut self, completions: usize) -> io::Result<()> {
        match self.ring.submit_and_wait(completions) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            Err(error) if !is_shortage(&error) => return Err(error),
            Err(_) => std::thread::sleep(PAUSE),
        }
        // The kernel ends what is done only when it is asked for completions. That gives back what it took.
        // SAFETY: it has no argument.
        match unsafe { self.ring.submitter().enter::<()>(0, 0, GET_EVENTS, None) } {
            Err(error) if !is_shortage(&error) && error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }
}

/// Whether another try may succeed: the kernel is short of something, or has completions that are to be taken first.
fn is_shortage(error: &io::Error) -> bool {
    [Some(libc::EAGAIN), Some(libc::EBUSY)].contains(&error.raw_os_error())
}

/// What is asked of the disk.
fn entry(request: &Request, part: Part, disk: i32, tag: u16) -> squeue::Entry {
    let (disk, offset) = (Fd(disk), request.start + part.offset);
    let bytes = part.bytes as u32;
    match request.operation {
        // Buffers of the driver begin at address 0.
        Operation::Read => {
            opcode::ReadFixed::new(disk, part.offset as *mut u8, bytes, tag).offset(offset).build()
        }
        Operation::Write => opcode::WriteFixed::new(disk, part.offset as *const u8, bytes, tag)
            .offset(offset)
            .rw_flags(if request.fua { libc::RWF_DSYNC } else { 0 })
            .write_stream(part.stream)
            .build(),
        Operation::Flush => opcode::Fsync::new(disk).flags(FsyncFlags::DATASYNC).build(),
        Operation::Discard => {
            let mut length = [0; 16];
            length[..8].copy_from_slice(&part.bytes.to_ne_bytes());
            opcode::UringCmd16::new(disk, BLOCK_DISCARD).cmd(length).addr(Some(offset)).build()
        }
        Operation::WriteZeroes { unmap } => {
            let how = if unmap { libc::FALLOC_FL_PUNCH_HOLE } else { libc::FALLOC_FL_ZERO_RANGE };
            let mode = how | libc::FALLOC_FL_KEEP_SIZE;
            opcode::Fallocate::new(disk, part.bytes).offset(offset).mode(mode).build()
        }
    }
}
