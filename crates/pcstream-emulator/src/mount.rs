//! The device as the only file of a FUSE file system, for a loop device.
//!
//! ```text
//! program -> ext4, XFS, ... -> /dev/loopN (direct I/O) -> PATH/ssd -> this server -> EmulatedDevice
//! ```
//!
//! Discards arrive as FALLOC_FL_PUNCH_HOLE, flushes as fsync. Parts of pages are read, changed and written.
//!
//! Safety under memory pressure: the loop device writes memory back through this server, so it must not wait for memory itself.
//! Requests allocate. So whoever mounts a device gives it a process of its own, whose memory is locked and whose allocations
//! wait for no write (`process` does so). The server keeps no file open on the file system that it carries, and waits for
//! streams for a bounded time (`shared`).
//!
//! If the server dies, the file system on it gets EIO and can be unmounted; [`clean_stale`] removes what is left.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty,
    ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, Request, WriteFlags,
};
use pcstream_ssd::LogicalPage;
use rustix::mount::UnmountFlags;

use crate::PAGE;
use crate::device::{DeviceError, EmulatedDevice};
use crate::run_dir::RunDir;
pub use crate::run_dir::{clean_stale, find_stale};
pub use crate::shared::SharedDevice;
use crate::shared::{punch, read_bytes};

/// Where mounts lie.
pub const RUN_ROOT: &str = "/run/pcstream-emulator";
/// The file's name.
const FILE: &str = "ssd";
const FILE_INODE: INodeNo = INodeNo(2);
/// Between two attempts to unmount.
const RETRY: Duration = Duration::from_millis(20);
/// Threads that serve requests.
const THREADS: usize = 4;
/// Attributes never change but through the kernel.
const TTL: Duration = Duration::from_secs(3600);

/// A device that is served. Dropping it ends the service: what is still mounted on it then gets errors.
pub struct MountedDevice {
    device: Arc<SharedDevice>,
    session: Option<BackgroundSession>,
    run: RunDir,
}

impl MountedDevice {
    /// Serves a device for the process `owner`, in a directory of its own under `root` whose name begins with that id.
    pub fn mount(owner: u32, root: &Path, device: EmulatedDevice) -> io::Result<MountedDevice> {
        let run = RunDir::create(root, owner)?;
        let size = AtomicU64::new(device.pages() * PAGE as u64);
        let device = Arc::new(SharedDevice::new(device));
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName("pcstream-emulator".into()),
            MountOption::NoDev,
            MountOption::NoSuid,
            MountOption::NoExec,
        ];
        config.n_threads = Some(THREADS);
        config.clone_fd = true;
        let server = Server { device: Arc::clone(&device), size };
        has_room_for_threads()?;
        let session = fuser::spawn_mount(server, run.mount_point(), &config)?;
        Ok(MountedDevice { device, session: Some(session), run })
    }

    /// The file that a loop device can be made of.
    pub fn file(&self) -> PathBuf {
        self.run.mount_point().join(FILE)
    }

    /// The device.
    pub fn device(&self) -> &Arc<SharedDevice> {
        &self.device
    }

    /// Ends the service. A loop device lets its file go a moment after it was detached: this waits for `patience`
    /// at most. Errors: something still uses the file, which goes on being served.
    pub fn unmount(&mut self, patience: Duration) -> io::Result<()> {
        let deadline = Instant::now() + patience;
        loop {
            match rustix::mount::unmount(self.run.mount_point(), UnmountFlags::NOFOLLOW) {
                Ok(()) => break,
                // Somebody else unmounted it.
                Err(rustix::io::Errno::INVAL) => break,
                Err(rustix::io::Errno::BUSY) if Instant::now() < deadline => std::thread::sleep(RETRY),
                Err(error) => return Err(error.into()),
            }
        }
        // It ends because nothing is mounted any more.
        self.session.take().map_or(Ok(()), BackgroundSession::join)
    }
}

/// Whether the service can start its threads, and the one that starts these. It starts them when the file is there already:
/// without them whoever opens the file would wait for ever.
fn has_room_for_threads() -> io::Result<()> {
    // Each waits until the last has started.
    let all = RwLock::new(());
    std::thread::scope(|scope| {
        let started = all.write();
        for _ in 0..=THREADS {
            std::thread::Builder::new().spawn_scoped(scope, || drop(all.read()))?;
        }
        drop(started);
        Ok(())
    })
}

impl Drop for MountedDevice {
    fn drop(&mut self) {
        let Some(session) = self.session.take() else { return };
        // Whoever still uses the file gets errors. To wait for them could be to wait for this process, and so for ever.
        let abort = UnmountFlags::FORCE | UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
        let ended = match rustix::mount::unmount(self.run.mount_point(), abort) {
            Ok(()) => session.join(),
            // Somebody else unmounted it.
            Err(rustix::io::Errno::INVAL) => Ok(()),
            Err(error) => Err(error.into()),
        };
        if let Err(error) = ended {
            eprintln!("pcstream: cannot unmount the emulated device: {error}");
        }
    }
}

struct Server {
    device: Arc<SharedDevice>,
    /// Of the file; truncated and grown by whoever prepares it.
    size: AtomicU64,
}

impl Server {
    fn attributes(&self, inode: INodeNo) -> FileAttr {
        let root = inode == INodeNo::ROOT;
        let size = if root { 0 } else { self.size.load(Ordering::Relaxed) };
        FileAttr {
            ino: inode,
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if root { FileType::Directory } else { FileType::RegularFile },
            perm: if root { 0o700 } else { 0o600 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: PAGE as u32,
            flags: 0,
        }
    }
}

fn reply_empty(result: Result<(), DeviceError>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(_) => reply.error(Errno::EIO),
    }
}

impl Filesystem for Server {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Each is a matter of speed; older kernels may lack one.
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        let _ = config.add_capabilities(InitFlags::FUSE_MAX_PAGES);
        let _ = config.set_max_background(256);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent == INodeNo::ROOT && name == FILE {
            reply.entry(&TTL, &self.attributes(FILE_INODE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TTL, &self.attributes(inode));
    }

    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<fuser::TimeOrNow>,
        _: Option<fuser::TimeOrNow>,
        _: Option<std::time::SystemTime>,
        _: Option<FileHandle>,
        _: Option<std::time::SystemTime>,
        _: Option<std::time::SystemTime>,
        _: Option<std::time::SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        if let Some(size) = size {
            let mut device = self.device.lock();
            let most = device.pages() * PAGE as u64;
            if size > most {
                return reply.error(Errno::EFBIG);
            }
            if punch(&mut device, size, most - size).is_err() {
                return reply.error(Errno::EIO);
            }
            self.size.store(size, Ordering::Relaxed);
        }
        reply.attr(&TTL, &self.attributes(inode));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let result = read_bytes(&mut self.device.lock(), offset, size as usize);
        match result {
            Ok(data) => reply.data(&data),
            Err(_) => reply.error(Errno::EIO),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.device.write(offset, data) {
            Ok(()) => reply.written(data.len() as u32),
            Err(_) => reply.error(Errno::EIO),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let result = self.device.lock().flush();
        reply_empty(result, reply);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let zeroing = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE;
        if mode & zeroing == 0 {
            // Room for all of it is there already.
            return reply.ok();
        }
        let result = punch(&mut self.device.lock(), offset, length);
        reply_empty(result, reply);
    }

    fn lseek(&self, _: &Request, _: INodeNo, _: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        let device = self.device.lock();
        let size = self.size.load(Ordering::Relaxed);
        if !(0..size.cast_signed()).contains(&offset) {
            return reply.error(Errno::ENXIO);
        }
        let from = offset.cast_unsigned() / PAGE as u64;
        let wanted = whence == libc::SEEK_DATA;
        let found =
            (from..size / PAGE as u64).find(|&page| device.page(LogicalPage(page)).is_some() == wanted);
        match found {
            Some(page) => reply.offset(offset.max((page * PAGE as u64).cast_signed())),
            None if wanted => reply.error(Errno::ENXIO),
            None => reply.offset(size.cast_signed()),
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let pages = self.device.lock().pages();
        reply.statfs(pages, pages, pages, 2, 0, PAGE as u32, 255, PAGE as u32);
    }
}
