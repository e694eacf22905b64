//! The block device under a scratch file system: zram, or a loop device over a file.
//!
//! Idea: zram is made and sized through /sys; a loop device is configured in one ioctl (LOOP_CONFIGURE,
//! Linux 5.8) with 4 KiB sectors, so that no file system writes less than a page, with direct I/O, so that pages
//! are not cached twice, and with auto-clear: the kernel itself detaches it when the last user goes, even
//! if this process was killed.
//!
//! Numbers of devices are used again by others, so each device is known by its [`Disk`], too.
//!
//! Units: bytes.

use std::ffi::CStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::mount::MountFlags;

use super::error::{Context, ScratchError};
use super::format::{FS_LABEL, Identity};
use super::mounts::{FsKind, read_number, read_text};
use super::state::{Disk, FileId, State};
use crate::extents::DeviceNumber;

const ZRAM_CONTROL: &str = "/sys/class/zram-control";
const LOOP_CONTROL: &str = "/dev/loop-control";
/// Sector size of loop devices, the page of a trace.
const SECTOR_BYTES: u32 = 4096;
const POLL: Duration = Duration::from_millis(20);
/// Device nodes appear within milliseconds; on a busy machine udev may lag by seconds.
const NODE_WAIT: Duration = Duration::from_secs(30);
/// The fastest algorithms, the best first; zram's own default otherwise.
const ZRAM_ALGORITHMS: [&str; 2] = ["lz4", "lzo-rle"];

/// Calls until it succeeds, fails for good, or the deadline has passed while it says "busy".
pub(super) fn retry_while_busy<T>(
    deadline: Instant,
    mut call: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < deadline => {
                thread::sleep(POLL);
            }
            result => return result,
        }
    }
}

/// Waits until a condition holds; false if it does not by the deadline.
pub(super) fn wait_until(deadline: Instant, condition: impl Fn() -> bool) -> bool {
    while !condition() {
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(POLL);
    }
    true
}

impl Disk {
    fn of(name: &str, number: u32) -> Result<Disk, ScratchError> {
        Ok(Disk { number, sequence: read_number(&Disk::path(name, number))? })
    }

    /// Whether the number still belongs to it.
    fn is_there(self, name: &str) -> bool {
        read_number(&Disk::path(name, self.number)).is_ok_and(|now| now == self.sequence)
    }

    /// Since Linux 5.15.
    fn path(name: &str, number: u32) -> PathBuf {
        PathBuf::from(format!("/sys/block/{name}{number}/diskseq"))
    }
}

// --- zram ------------------------------------------------------------------------------------

fn zram_sys(id: u32, attribute: &str) -> PathBuf {
    PathBuf::from(format!("/sys/block/zram{id}/{attribute}"))
}

pub(super) fn zram_node(id: u32) -> PathBuf {
    PathBuf::from(format!("/dev/zram{id}"))
}

/// Makes a zram device without a size. Loads the kernel module if it has to.
pub(super) fn zram_add() -> Result<Disk, ScratchError> {
    let hot_add = Path::new(ZRAM_CONTROL).join("hot_add");
    if !hot_add.exists() {
        // Without num_devices the module makes a device that nobody asked for.
        let loaded = super::format::run_tool("modprobe", "kmod", &["-q", "zram", "num_devices=0"]);
        if loaded.is_err() || !hot_add.exists() {
            let source = io::Error::new(io::ErrorKind::NotFound, "no /sys/class/zram-control/hot_add");
            return Err(ScratchError::NoZram { source });
        }
    }
    // Every read of this file makes a device: one read, not "until the end".
    let read = || -> io::Result<u32> {
        let mut text = [0; 16];
        let length = File::open(&hot_add)?.read(&mut text)?;
        let text = String::from_utf8_lossy(&text[..length]);
        text.trim().parse().map_err(|_| io::Error::other(format!("hot_add says {:?}", text.trim())))
    };
    Disk::of("zram", read().map_err(|source| ScratchError::NoZram { source })?)
}

/// Chooses the algorithm and sets the size.
pub(super) fn zram_configure(id: u32, bytes: u64) -> Result<(), ScratchError> {
    let offered = read_text(&zram_sys(id, "comp_algorithm"))?;
    let offers = |name: &&&str| offered.split_whitespace().any(|o| o.trim_matches(['[', ']']) == **name);
    // Linux 6.1 also offers those whose module it cannot load, and refuses them then: the default stays.
    let _ = ZRAM_ALGORITHMS
        .iter()
        .filter(offers)
        .find(|algorithm| write_sys(&zram_sys(id, "comp_algorithm"), algorithm).is_ok());
    write_sys(&zram_sys(id, "disksize"), &bytes.to_string())
        .doing(|| format!("give zram{id} a size of {bytes} bytes"))?;
    wait_for_node(&zram_node(id))
}

/// Whether this zram device is still there (false: another one has its number, or none), and nobody has put it to another use.
pub(super) fn zram_is_ours(disk: Disk, state: &State) -> Result<bool, String> {
    if !disk.is_there("zram") {
        return Ok(false);
    }
    let size = read_number(&zram_sys(disk.number, "disksize")).map_err(|e| e.to_string())?;
    if size == 0 && !state.formatted {
        return Ok(true);
    }
    if size != state.size_bytes {
        return Err(format!("it has {size} bytes, ours had {}: not ours any more", state.size_bytes));
    }
    let identity = Identity::read(&zram_node(disk.number)).map_err(|e| e.to_string())?;
    match identity.may_be_of(state) {
        true => Ok(true),
        // mkfs was interrupted before it wrote the superblock that carries the UUID.
        false if !state.formatted => Err("it holds something, and ours was not formatted yet".into()),
        false => Err("it does not hold the file system that was made on it: not ours any more".into()),
    }
}

/// Frees the memory and removes the device.
pub(super) fn zram_remove(id: u32, deadline: Instant) -> io::Result<()> {
    retry_while_busy(deadline, || write_sys(&zram_sys(id, "reset"), "1"))?;
    let hot_remove = Path::new(ZRAM_CONTROL).join("hot_remove");
    retry_while_busy(deadline, || write_sys(&hot_remove, &id.to_string()))
}

/// One write call: a value in /sys is one message.
fn write_sys(path: &Path, value: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(path)?.write_all(value.as_bytes())
}

fn wait_for_node(node: &Path) -> Result<(), ScratchError> {
    let is_node = || fs::metadata(node).is_ok_and(|m| m.file_type().is_block_device());
    if wait_until(Instant::now() + NODE_WAIT, is_node) {
        return Ok(());
    }
    Err(io::Error::other("the device node did not appear (is /dev a devtmpfs?)"))
        .doing(|| format!("open {}", node.display()))
}

pub(super) fn node_number(node: &Path) -> Result<DeviceNumber, ScratchError> {
    let metadata = fs::metadata(node).doing(|| format!("inspect {}", node.display()))?;
    Ok(DeviceNumber::from_stat(metadata.rdev()))
}

// --- loop ------------------------------------------------------------------------------------

const LOOP_CTL_GET_FREE: u64 = 0x4C82;
const LOOP_CONFIGURE: u64 = 0x4C0A;
const LOOP_CLR_FD: u64 = 0x4C01;
const LOOP_GET_STATUS64: u64 = 0x4C05;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;
/// Others may take the free loop device that the kernel named; then ask again.
const LOOP_ATTEMPTS: u32 = 64;

/// `struct loop_info64` of linux/loop.h.
#[repr(C)]
#[derive(Clone, Copy)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config` of linux/loop.h.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

const _: () = assert!(size_of::<LoopInfo>() == 232 && size_of::<LoopConfig>() == 304);

const NO_LOOP: LoopInfo = LoopInfo {
    device: 0,
    inode: 0,
    rdevice: 0,
    offset: 0,
    size_limit: 0,
    number: 0,
    encrypt_type: 0,
    encrypt_key_size: 0,
    flags: 0,
    file_name: [0; 64],
    crypt_name: [0; 64],
    encrypt_key: [0; 32],
    init: [0; 2],
};

/// An attached loop device; open, so that auto-clear does not detach it before it is mounted.
#[derive(Debug)]
pub(super) struct LoopDevice {
    pub disk: Disk,
    _open: File,
}

pub(super) fn loop_node(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/loop{number}"))
}

/// Attaches a free loop device to a file.
pub(super) fn loop_attach(backing: &File) -> Result<LoopDevice, ScratchError> {
    let control = OpenOptions::new()
        .read(true)
        .write(true)
        .open(LOOP_CONTROL)
        .doing(|| format!("open {LOOP_CONTROL} (is the kernel module loop there?)"))?;
    for _ in 0..LOOP_ATTEMPTS {
        // SAFETY: the request takes no argument.
        let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE as _) };
        let number = u32::try_from(number)
            .map_err(|_| io::Error::last_os_error())
            .doing(|| "get a free loop device".into())?;
        let node = loop_node(number);
        wait_for_node(&node)?;
        let device = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&node)
            .doing(|| format!("open {}", node.display()))?;
        match configure_loop(&device, backing) {
            Ok(()) => return Ok(LoopDevice { disk: Disk::of("loop", number)?, _open: device }),
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => continue,
            Err(error) => return Err(error).doing(|| format!("attach {}", node.display())),
        }
    }
    Err(io::Error::other(format!("lost the race for one {LOOP_ATTEMPTS} times")))
        .doing(|| "get a free loop device".into())
}

fn configure_loop(device: &File, backing: &File) -> io::Result<()> {
    let config = LoopConfig {
        fd: backing.as_raw_fd() as u32,
        block_size: SECTOR_BYTES,
        info: LoopInfo { flags: LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO, ..NO_LOOP },
        reserved: [0; 8],
    };
    // SAFETY: the structure has the kernel's layout (sizes asserted above) and lives across the call.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE as _, &config) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Whether a file is attached.
pub(super) fn loop_is_attached(number: u32) -> bool {
    Path::new(&format!("/sys/block/loop{number}/loop/backing_file")).exists()
}

/// Detaches a loop device and waits until it is free. False: it was free, and another one has its number.
pub(super) fn loop_detach(disk: Disk, deadline: Instant) -> io::Result<bool> {
    let device = File::open(loop_node(disk.number))?;
    // While it is open here, nobody else is given its number.
    if !disk.is_there("loop") {
        return Ok(false);
    }
    // SAFETY: the request takes no argument.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CLR_FD as _) };
    let error = io::Error::last_os_error();
    if result < 0 && error.raw_os_error() != Some(libc::ENXIO) {
        return Err(error);
    }
    drop(device);
    if wait_until(deadline, || !loop_is_attached(disk.number) || !disk.is_there("loop")) {
        return Ok(true);
    }
    Err(io::Error::other("still open; it goes away with its last user"))
}

/// Which loop device has this file attached, by whatever name.
pub(super) fn loop_over(id: FileId) -> Option<u32> {
    let numbers = fs::read_dir("/sys/block")
        .ok()?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.strip_prefix("loop")?.parse::<u32>().ok());
    numbers.into_iter().filter(|&number| loop_is_attached(number)).find(|&number| {
        loop_file(number).is_ok_and(|(device, inode)| (device, inode) == (id.device, id.inode))
    })
}

/// Device and inode of the file that is attached.
fn loop_file(number: u32) -> io::Result<(u64, u64)> {
    let device = File::open(loop_node(number))?;
    let mut info = NO_LOOP;
    // SAFETY: the kernel writes a structure of this layout (size asserted above), which lives across the call.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_GET_STATUS64 as _, &raw mut info) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok((info.device, info.inode)) }
}

// --- what is on a device, and under it ---------------------------------------------------------

/// Mounts a tmpfs that holds one image, and makes the image.
pub(super) fn mount_tmpfs(dir: &Path, bytes: u64) -> Result<(), ScratchError> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let data = format!("size={bytes},mode=0700\0");
    let data = CStr::from_bytes_with_nul(data.as_bytes()).expect("one NUL, at the end");
    rustix::mount::mount("pcstream", dir, "tmpfs", flags, data)
        .doing(|| format!("mount a tmpfs on {}", dir.display()))
}

/// UUID of the scratch file system that a device holds.
pub(super) fn kept_uuid(node: &Path, expected: FsKind) -> Result<String, ScratchError> {
    match Identity::read(node).doing(|| format!("read {}", node.display()))? {
        Identity::FileSystem { fs, label, uuid } if label == FS_LABEL && fs == expected => Ok(uuid),
        Identity::FileSystem { fs, label, .. } if label == FS_LABEL => {
            Err(ScratchError::NotKept { found: format!("an {fs}"), expected: expected.name() })
        }
        _ => Err(ScratchError::NotKept {
            found: "no file system that pcstream made".into(),
            expected: expected.name(),
        }),
    }
}

impl Identity {
    /// Reads what a device holds.
    pub(super) fn read(node: &Path) -> io::Result<Identity> {
        let mut head = [0; Identity::HEAD_BYTES];
        File::open(node)?.read_exact_at(&mut head, 0)?;
        Ok(Identity::of_head(&head))
    }

    /// Whether a state's device or image may hold this: its file system, or nothing before it was made.
    pub(super) fn may_be_of(&self, state: &State) -> bool {
        match self {
            Identity::Blank => !state.formatted,
            Identity::FileSystem { uuid, .. } => *uuid == state.uuid,
            Identity::Other => false,
        }
    }
}
