//! Arguments of ioctls that return records behind a head.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// An ioctl argument: bytes, aligned as the kernel's structures want them.
pub(super) struct Buffer {
    words: Vec<u64>,
}

impl Buffer {
    pub(super) fn new(bytes: usize) -> Buffer {
        Buffer { words: vec![0; bytes.div_ceil(8)] }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: the vector owns `len * 8` initialised bytes, and any byte is a valid u8.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), self.words.len() * 8) }
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; the borrow is exclusive, and any byte pattern is a valid u64.
        unsafe { std::slice::from_raw_parts_mut(self.words.as_mut_ptr().cast(), self.words.len() * 8) }
    }

    pub(super) fn put_u32(&mut self, at: usize, value: u32) {
        self.bytes_mut()[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }

    pub(super) fn put_u64(&mut self, at: usize, value: u64) {
        self.bytes_mut()[at..at + 8].copy_from_slice(&value.to_ne_bytes());
    }

    /// Both requests write no more records than the count field in the head allows, and every caller
    /// sizes the buffer by that count.
    pub(super) fn ioctl(&mut self, fd: &impl AsFd, request: u64) -> io::Result<()> {
        // SAFETY: the buffer lives across the call and is as long as its own head declares.
        let result = unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), request as _, self.words.as_mut_ptr()) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

pub(super) fn read_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("a slice of four bytes"))
}

pub(super) fn read_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("a slice of eight bytes"))
}
