//! Reads of a file that do not wait for the lock of its inode.
//!
//! Idea: on XFS whoever reads a file waits for those who write to it, in a way that not even SIGKILL ends, and a user can make a
//! write last for ever. So a read asks not to wait at first (`RWF_NOWAIT`). If it would wait, or cannot be asked that, the file is
//! mapped: to fetch pages for a mapping takes no such lock, through an overlay neither. The kernel copies from there
//! (process_vm_readv(2)). Where the owner cut the file short meanwhile, that fails; a look at the mapping would end this process.

use std::ffi::c_void;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;
use std::ptr::{NonNull, null_mut};

use rustix::io::{Errno, ReadWriteFlags, preadv2};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Mappings begin at a multiple of it, whatever the size of a page is.
const ALIGNMENT: u64 = 64 << 10;

/// Reads what is there from a place on, perhaps less than there is room for. 0: the file ends there.
pub fn read_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<usize> {
    match preadv2(file, &mut [IoSliceMut::new(bytes)], at, ReadWriteFlags::NOWAIT) {
        Err(Errno::AGAIN | Errno::OPNOTSUPP) => {}
        result => return Ok(result?),
    }
    match read_mapped(file, bytes, at) {
        // Not of this file system, or forbidden here.
        Err(Errno::NODEV | Errno::NOSYS | Errno::PERM) => file.read_at(bytes, at),
        result => Ok(result?),
    }
}

fn read_mapped(file: &File, bytes: &mut [u8], at: u64) -> Result<usize, Errno> {
    let end = rustix::fs::fstat(file)?.st_size as u64;
    let there = usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX).min(bytes.len());
    if there == 0 {
        return Ok(0);
    }
    let skipped = at % ALIGNMENT;
    let mapping = Mapping::new(file, at - skipped, skipped as usize + there)?;
    mapping.copy(skipped as usize, &mut bytes[..there])
}

/// Part of a file in memory. Nothing refers to it: its contents may change, or go.
struct Mapping {
    start: NonNull<c_void>,
    bytes: usize,
}

impl Mapping {
    fn new(file: &File, at: u64, bytes: usize) -> Result<Mapping, Errno> {
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let start = unsafe { mmap(null_mut(), bytes, ProtFlags::READ, MapFlags::PRIVATE, file, at)? };
        NonNull::new(start).map(|start| Mapping { start, bytes }).ok_or(Errno::INVAL)
    }

    /// Copies from this place on. Fails if the first page is not there any more.
    fn copy(&self, from: usize, to: &mut [u8]) -> Result<usize, Errno> {
        assert!(from <= self.bytes && to.len() <= self.bytes - from);
        let bytes = to.len();
        let iovec = |start: *mut c_void| libc::iovec { iov_base: start, iov_len: bytes };
        let source = iovec(self.start.as_ptr().wrapping_byte_add(from));
        let target = iovec(to.as_mut_ptr().cast());
        let own = rustix::process::getpid().as_raw_nonzero().get();
        // SAFETY: `target` is ours alone and as long as said; of `source` the kernel checks each page.
        let copied = unsafe { libc::process_vm_readv(own, &raw const target, 1, &raw const source, 1, 0) };
        usize::try_from(copied).map_err(|_| {
            io::Error::last_os_error().raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
        })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it is ours, and nothing refers to it.
        let _ = unsafe { munmap(self.start.as_ptr(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mapped_is_what_is_read() {
        let file = tempfile::tempfile().unwrap();
        let contents: Vec<u8> = (0..300_000_u32).map(|n| (n / 7) as u8).collect();
        file.write_all_at(&contents, 0).unwrap();
        for (at, room) in [(0, 10), (65_535, 2), (70_001, 100_000), (299_999, 50), (300_000, 5), (400_000, 5)]
        {
            let expected = &contents[at.min(contents.len())..(at + room).min(contents.len())];
            let mut found = vec![1; room];
            assert_eq!(read_mapped(&file, &mut found, at as u64), Ok(expected.len()), "{at}");
            assert_eq!(&found[..expected.len()], expected, "{at}");
            assert_eq!(read_at(&file, &mut found, at as u64).unwrap(), expected.len(), "{at}");
            assert_eq!(&found[..expected.len()], expected, "{at}");
        }
    }

    #[test]
    fn a_file_that_is_cut_short_meanwhile_ends_a_read_and_not_the_process() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[7; 300_000], 0).unwrap();
        let mapping = Mapping::new(&file, 0, 300_000).unwrap();
        let mut found = vec![1; 200_000];
        file.set_len(150_000).unwrap();
        let there = mapping.copy(0, &mut found).unwrap();
        assert!((150_000..200_000).contains(&there), "{there}");
        assert_eq!(mapping.copy(200_000, &mut found[..10]), Err(Errno::FAULT));
    }
}
