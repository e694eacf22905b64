//! The block device under a scratch file system: zram, or a loop device over a file.
//!
//! Idea: zram is made and sized through /sys; a loop device is configured in one ioctl (LOOP_CONFIGURE,
//! Linux 5.8) with 4 KiB sectors, so that no file system writes less than a page, with direct I/O, so that pages
//! are not cached twice, and with auto-clear: the kernel itself detaches it when the last user goes, even
//! if this process was killed.
//!
//! Units: bytes. Invariant: an image that holds anything but an old scratch file system is never
//! written to; block devices are never taken.

use std::ffi::CStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::mount::MountFlags;

use super::error::{Context, ScratchError};
use super::format::{FS_LABEL, Identity};
use super::mounts::{FsKind, read_number, read_text};
use super::state::{FileId, ImageState, State};
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

// --- zram ------------------------------------------------------------------------------------

fn zram_sys(id: u32, attribute: &str) -> PathBuf {
    PathBuf::from(format!("/sys/block/zram{id}/{attribute}"))
}

pub(super) fn zram_node(id: u32) -> PathBuf {
    PathBuf::from(format!("/dev/zram{id}"))
}

pub(super) fn zram_exists(id: u32) -> bool {
    zram_sys(id, "disksize").exists()
}

/// Makes a zram device without a size. Loads the kernel module if it has to.
pub(super) fn zram_add() -> Result<u32, ScratchError> {
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
    read().map_err(|source| ScratchError::NoZram { source })
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

/// Whether this zram device is the one a state speaks of: ids are used again.
pub(super) fn zram_is_ours(id: u32, state: &State) -> Result<(), String> {
    let size = read_number(&zram_sys(id, "disksize")).map_err(|e| e.to_string())?;
    if size == 0 && !state.formatted {
        return Ok(());
    }
    if size != state.size_bytes {
        return Err(format!("it has {size} bytes, ours had {}: not ours any more", state.size_bytes));
    }
    let identity = Identity::read(&zram_node(id)).map_err(|e| e.to_string())?;
    match identity {
        Identity::Blank if !state.formatted => Ok(()),
        Identity::FileSystem { uuid, .. } if uuid == state.uuid => Ok(()),
        // mkfs was interrupted before it wrote the superblock that carries the UUID.
        _ if !state.formatted => Err("it holds something, and ours was not formatted yet".into()),
        _ => Err("it does not hold the file system that was made on it: not ours any more".into()),
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
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;
/// Others may take the free loop device that the kernel named; then ask again.
const LOOP_ATTEMPTS: u32 = 64;

/// `struct loop_info64` of linux/loop.h.
#[repr(C)]
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

/// An attached loop device; open, so that auto-clear does not detach it before it is mounted.
#[derive(Debug)]
pub(super) struct LoopDevice {
    pub number: u32,
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
            Ok(()) => return Ok(LoopDevice { number, _open: device }),
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
        info: LoopInfo {
            device: 0,
            inode: 0,
            rdevice: 0,
            offset: 0,
            size_limit: 0,
            number: 0,
            encrypt_type: 0,
            encrypt_key_size: 0,
            flags: LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO,
            file_name: [0; 64],
            crypt_name: [0; 64],
            encrypt_key: [0; 32],
            init: [0; 2],
        },
        reserved: [0; 8],
    };
    // SAFETY: the structure has the kernel's layout (sizes asserted above) and lives across the call.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE as _, &config) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The file behind a loop device, as /sys names it; `None` if nothing is attached.
pub(super) fn loop_backing(number: u32) -> Option<PathBuf> {
    let text = fs::read_to_string(format!("/sys/block/loop{number}/loop/backing_file")).ok()?;
    let text = text.trim_end_matches('\n');
    Some(PathBuf::from(text.strip_suffix(" (deleted)").unwrap_or(text)))
}

/// Detaches a loop device and waits until it is free.
pub(super) fn loop_detach(number: u32, deadline: Instant) -> io::Result<()> {
    let device = OpenOptions::new().read(true).open(loop_node(number))?;
    // SAFETY: the request takes no argument.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CLR_FD as _) };
    let error = io::Error::last_os_error();
    if result < 0 && error.raw_os_error() != Some(libc::ENXIO) {
        return Err(error);
    }
    drop(device);
    if wait_until(deadline, || loop_backing(number).is_none()) {
        return Ok(());
    }
    Err(io::Error::other("still open; it goes away with its last user"))
}

/// Which loop device has this file attached.
fn loop_over(id: FileId) -> Option<u32> {
    let numbers = fs::read_dir("/sys/block")
        .ok()?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.strip_prefix("loop")?.parse::<u32>().ok());
    numbers.into_iter().find(|&number| {
        loop_backing(number)
            .and_then(|path| fs::metadata(path).ok())
            .is_some_and(|metadata| FileId::of(&metadata) == id)
    })
}

// --- the file behind a loop device -----------------------------------------------------------

/// Mounts a tmpfs that holds one image, and makes the image.
pub(super) fn mount_tmpfs(dir: &Path, bytes: u64) -> Result<(), ScratchError> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let data = format!("size={bytes},mode=0700\0");
    let data = CStr::from_bytes_with_nul(data.as_bytes()).expect("one NUL, at the end");
    rustix::mount::mount("pcstream", dir, "tmpfs", flags, data)
        .doing(|| format!("mount a tmpfs on {}", dir.display()))
}

/// Makes an image in a directory of our own.
pub(super) fn create_image(path: &Path) -> Result<(File, ImageState), ScratchError> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
        .doing(|| format!("make {}", path.display()))?;
    let metadata = file.metadata().doing(|| format!("inspect {}", path.display()))?;
    Ok((file, ImageState { path: path.into(), id: FileId::of(&metadata), created: true }))
}

/// Opens the image a user named, or makes it if there is none, and locks it. Contents are checked, not
/// changed. `needed` is how much the image may come to occupy.
pub(super) fn open_image(path: &Path, needed: u64) -> Result<(File, ImageState), ScratchError> {
    let name = path.file_name().ok_or(ScratchError::ImageKind { path: path.into(), what: "a directory" })?;
    let parent = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let parent = fs::canonicalize(parent).doing(|| format!("open {}", parent.display()))?;
    let path = parent.join(name);
    let (file, image) = match fs::symlink_metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            check_space(&parent, &path, needed)?;
            create_image(&path)?
        }
        Err(error) => return Err(error).doing(|| format!("inspect {}", path.display())),
        Ok(metadata) => {
            check_kind(&path, &metadata)?;
            open_existing(&path)?
        }
    };
    check_unused(&file, &image)?;
    if !image.created {
        check_ours(&file, &path)?;
        check_space(&parent, &path, needed.saturating_sub(occupied(&file)))?;
    }
    Ok((file, image))
}

fn check_kind(path: &Path, metadata: &fs::Metadata) -> Result<(), ScratchError> {
    let kind = metadata.file_type();
    let what = match () {
        _ if kind.is_file() => return Ok(()),
        _ if kind.is_block_device() => "a block device",
        _ if kind.is_char_device() => "a character device",
        _ if kind.is_dir() => "a directory",
        _ if kind.is_symlink() => "a symbolic link",
        _ => "not a regular file",
    };
    Err(ScratchError::ImageKind { path: path.into(), what })
}

fn open_existing(path: &Path) -> Result<(File, ImageState), ScratchError> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
        .doing(|| format!("open {}", path.display()))?;
    let metadata = file.metadata().doing(|| format!("inspect {}", path.display()))?;
    check_kind(path, &metadata)?;
    Ok((file, ImageState { path: path.into(), id: FileId::of(&metadata), created: false }))
}

/// Locks the image against other runs, and looks for loop devices over it.
fn check_unused(file: &File, image: &ImageState) -> Result<(), ScratchError> {
    let in_use = |by: String| Err(ScratchError::ImageInUse { path: image.path.clone(), by });
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            return in_use(match loop_over(image.id) {
                Some(number) => format!("another pcstream run (/dev/loop{number})"),
                None => "a process that has locked it, probably another pcstream run".into(),
            });
        }
        Err(error) => return Err(error).doing(|| format!("lock {}", image.path.display())),
    }
    match loop_over(image.id) {
        Some(number) => in_use(format!("/dev/loop{number} (see `losetup -l`)")),
        None => Ok(()),
    }
}

/// An image may be used again if it is a scratch file system, by its label, or holds no data at all.
fn check_ours(file: &File, path: &Path) -> Result<(), ScratchError> {
    let doing = || format!("read {}", path.display());
    let foreign = Err(ScratchError::ImageForeign { path: path.into() });
    // lseek(SEEK_DATA) fails with ENXIO in a file that is one hole.
    // SAFETY: plain call with integers.
    let first_data = unsafe { libc::lseek(file.as_raw_fd(), 0, libc::SEEK_DATA) };
    if first_data < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ENXIO) {
        return Ok(());
    }
    let mut head = Vec::new();
    let mut from_start = file;
    from_start.seek(SeekFrom::Start(0)).doing(doing)?;
    from_start.take(Identity::HEAD_BYTES as u64).read_to_end(&mut head).doing(doing)?;
    match Identity::of_head(&head) {
        Identity::FileSystem { label, .. } if label == FS_LABEL => Ok(()),
        _ => foreign,
    }
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

/// Empties the image and gives it its size, without occupying space.
pub(super) fn size_image(file: &File, path: &Path, bytes: u64) -> Result<(), ScratchError> {
    file.set_len(0)
        .and_then(|()| file.set_len(bytes))
        .doing(|| format!("give {} a size of {bytes} bytes", path.display()))
}

fn occupied(file: &File) -> u64 {
    file.metadata().map_or(0, |m| m.blocks() * 512)
}

fn check_space(parent: &Path, path: &Path, needed: u64) -> Result<(), ScratchError> {
    let stat = rustix::fs::statvfs(parent).doing(|| format!("inspect {}", parent.display()))?;
    let available = stat.f_bavail.saturating_mul(stat.f_frsize);
    if needed > available {
        return Err(ScratchError::Space { path: path.into(), needed, available });
    }
    Ok(())
}

impl Identity {
    /// Reads what a device holds.
    pub(super) fn read(node: &Path) -> io::Result<Identity> {
        let mut head = [0; Identity::HEAD_BYTES];
        File::open(node)?.read_exact_at(&mut head, 0)?;
        Ok(Identity::of_head(&head))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(path: &Path) -> ScratchError {
        open_image(path, 0).unwrap_err()
    }

    #[test]
    fn a_missing_image_is_made_and_an_empty_one_taken() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        let (file, image) = open_image(&path, 1).unwrap();
        assert!(image.created);
        size_image(&file, &path, 1 << 20).unwrap();
        drop(file);
        let (_file, image) = open_image(&path, 1).unwrap();
        assert!(!image.created, "one hole, nothing to lose");
    }

    #[test]
    fn a_scratch_image_is_taken_again_and_foreign_data_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        fs::write(&path, b"precious").unwrap();
        assert!(matches!(refused(&path), ScratchError::ImageForeign { .. }));
        let mut head = vec![0; 8192];
        head[1024 + 0x38..1024 + 0x3A].copy_from_slice(&[0x53, 0xEF]);
        head[1024 + 0x78..1024 + 0x80].copy_from_slice(b"precious");
        fs::write(&path, &head).unwrap();
        assert!(matches!(refused(&path), ScratchError::ImageForeign { .. }));
        head[1024 + 0x78..1024 + 0x80].copy_from_slice(FS_LABEL.as_bytes());
        fs::write(&path, &head).unwrap();
        assert!(!open_image(&path, 0).unwrap().1.created);
        assert_eq!(fs::read(&path).unwrap(), head, "opening changes nothing");
    }

    #[test]
    fn a_locked_image_is_in_use() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        let (_held, _image) = open_image(&path, 0).unwrap();
        let error = refused(&path);
        assert!(matches!(error, ScratchError::ImageInUse { .. }), "{error}");
    }

    #[test]
    fn only_regular_files_are_images() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/etc/hostname", &link).unwrap();
        for (path, what) in [
            (dir.path(), "a directory"),
            (&link, "a symbolic link"),
            (Path::new("/dev/null"), "a character device"),
        ] {
            let error = refused(path).to_string();
            assert!(error.contains(what) && error.contains("devices are never used"), "{error}");
        }
    }

    #[test]
    fn an_image_that_cannot_fit_is_refused_before_it_is_made() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        assert!(matches!(open_image(&path, u64::MAX), Err(ScratchError::Space { .. })));
        assert!(!path.exists());
    }
}
