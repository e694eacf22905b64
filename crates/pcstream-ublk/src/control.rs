//! Devices of ublk: made, started, stopped and removed by commands to `/dev/ublk-control`.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;

use io_uring::opcode::UringCmd80;
use io_uring::{IoUring, cqueue, squeue, types};

use crate::abi::{self, Command, ControlCommand, DeviceInfo, Parameters};
use crate::error::UblkError;

const CONTROL: &str = "/dev/ublk-control";
const NO_QUEUE: u16 = u16::MAX;

/// The block device of a number.
pub fn block_device(id: u32) -> PathBuf {
    format!("/dev/ublkb{id}").into()
}

/// What its server talks to.
pub fn character_device(id: u32) -> PathBuf {
    format!("/dev/ublkc{id}").into()
}

/// The way to the driver.
pub struct Control {
    file: File,
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
    /// The kernel has not taken a command, which is in the ring still and points to memory that is gone: nothing more is sent.
    stuck: bool,
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control").finish_non_exhaustive()
    }
}

impl Control {
    /// Opens it; the kernel must have ublk, with buffers in rings.
    pub fn open() -> Result<Control, UblkError> {
        let file = OpenOptions::new().read(true).write(true).open(CONTROL).map_err(|source| match source
            .kind()
        {
            io::ErrorKind::NotFound => UblkError::NoUblk,
            _ => UblkError::Open { path: CONTROL.into(), source },
        })?;
        let ring = IoUring::builder().build(4).map_err(UblkError::Ring)?;
        let mut control = Control { file, ring, stuck: false };
        let features = control.features().map_err(|source| UblkError::command("ask", source))?;
        let wanted = abi::BUFFERS_IN_RING | abi::ENCODED_COMMANDS;
        if features & wanted == wanted { Ok(control) } else { Err(UblkError::OldUblk) }
    }

    /// Makes a device; it has a character device from now on, and no block device yet.
    pub fn add(&mut self, wanted: DeviceInfo) -> io::Result<DeviceInfo> {
        let mut info = wanted;
        self.with(Command::Add, info.id, &mut info)?;
        Ok(info)
    }

    /// Says what kind of disk it is.
    pub fn set_parameters(&mut self, id: u32, parameters: Parameters) -> io::Result<()> {
        let mut parameters = parameters;
        self.with(Command::SetParameters, id, &mut parameters)
    }

    /// Makes the block device. All queues must be waiting for requests: its partitions are read now.
    pub fn start(&mut self, id: u32) -> io::Result<()> {
        self.run(Command::Start, ControlCommand { data: std::process::id().into(), ..of(id) })
    }

    /// Takes the block device away, when its requests are done. Whoever has it still open gets errors.
    pub fn stop(&mut self, id: u32) -> io::Result<()> {
        self.run(Command::Stop, of(id))
    }

    /// Removes what is left of a device, as soon as nobody has it open.
    pub fn delete(&mut self, id: u32) -> io::Result<()> {
        self.run(Command::Delete, of(id))
    }

    /// How a device stands.
    pub fn info(&mut self, id: u32) -> io::Result<DeviceInfo> {
        let mut info = DeviceInfo::default();
        self.with(Command::Info, id, &mut info)?;
        Ok(info)
    }

    fn features(&mut self) -> io::Result<u64> {
        let mut features = 0_u64;
        self.with(Command::Features, u32::MAX, &mut features)?;
        Ok(features)
    }

    /// A command that reads or writes something.
    fn with<T>(&mut self, command: Command, id: u32, value: &mut T) -> io::Result<()> {
        let (address, bytes) = (std::ptr::from_mut(value) as u64, size_of::<T>() as u16);
        self.run(command, ControlCommand { address, bytes, ..of(id) })
    }

    fn run(&mut self, command: Command, what: ControlCommand) -> io::Result<()> {
        if self.stuck {
            return Err(io::Error::other("an earlier command was not taken"));
        }
        let mut bytes = [0; 80];
        // SAFETY: plain numbers without gaps, 32 bytes of them.
        let own: [u8; size_of::<ControlCommand>()] = unsafe { std::mem::transmute(what) };
        bytes[..own.len()].copy_from_slice(&own);
        let entry = UringCmd80::new(types::Fd(self.file.as_raw_fd()), command as u32).cmd(bytes).build();
        // SAFETY: what the command reads or writes lives until it is done, which is waited for, or is never sent.
        unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
        loop {
            match self.ring.submit_and_wait(1) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    self.stuck = true;
                    return Err(error);
                }
                _ => {}
            }
            if let Some(done) = self.ring.completion().next() {
                return if done.result() < 0 {
                    Err(io::Error::from_raw_os_error(-done.result()))
                } else {
                    Ok(())
                };
            }
        }
    }
}

fn of(id: u32) -> ControlCommand {
    ControlCommand { id, queue: NO_QUEUE, ..ControlCommand::default() }
}
