//! Files by inode number and generation (`open_by_handle_at`): no path is walked, so no rename, link or new file of the same name
//! leads elsewhere.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _};
use std::time::Duration;

/// `struct file_handle` as ext4, XFS and others give it to a file.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHandle {
    bytes: u32,
    kind: i32,
    words: [u32; 3],
}

/// Inode and generation.
const FILEID_INO32_GEN: i32 = 1;
/// The same of XFS, whose inode numbers may have two words.
const XFS_FILEID_INO64_GEN: i32 = 0x81;

impl FileHandle {
    /// The handle of a file.
    pub fn new(inode: u64, generation: u32) -> FileHandle {
        let (low, high) = (inode as u32, (inode >> 32) as u32);
        match high {
            0 => FileHandle { bytes: 8, kind: FILEID_INO32_GEN, words: [low, generation, 0] },
            _ => FileHandle { bytes: 12, kind: XFS_FILEID_INO64_GEN, words: [low, high, generation] },
        }
    }

    /// Opens the file, without a right to read it (`O_PATH`). `mount` is any file or directory of its file system.
    ///
    /// While a new file is made with the inode number of one that was removed, Linux answers ENOMEM (`iget_locked` has no other
    /// way to say so). That takes microseconds, and then the old file is gone.
    pub fn open(&self, mount: &impl AsFd) -> io::Result<File> {
        const TRIES: u32 = 5;
        let mut tries = 0;
        loop {
            // SAFETY: `self` is laid out as `struct file_handle`, with as many bytes behind the head as it says.
            let found = unsafe {
                libc::open_by_handle_at(
                    mount.as_fd().as_raw_fd(),
                    std::ptr::from_ref(self).cast_mut().cast(),
                    libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC,
                )
            };
            if found >= 0 {
                // SAFETY: it was just opened, and nobody else knows it.
                return Ok(unsafe { File::from_raw_fd(found) });
            }
            let error = io::Error::last_os_error();
            tries += 1;
            if error.raw_os_error() != Some(libc::ENOMEM) || tries == TRIES {
                return Err(error);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_laid_out_as_the_kernel_has_it() {
        let small = FileHandle::new(12, 0x0a0b_0c0d);
        assert_eq!((small.bytes, small.kind, small.words), (8, 1, [12, 0x0a0b_0c0d, 0]));
        let large = FileHandle::new(1 << 32 | 5, 0x0a0b_0c0d);
        assert_eq!((large.bytes, large.kind, large.words), (12, 0x81, [5, 1, 0x0a0b_0c0d]));
        assert_eq!(size_of::<FileHandle>(), 20);
    }
}
