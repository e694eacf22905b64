//! Streams of contexts, as the BPF program looks them up when a request is made (`bpf/streams.h`).
//!
//! Units: write streams as devices number them, from 1; 0 is none. Contexts by the BPF program's keys.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use libbpf_rs::{MapCore as _, MapFlags, MapHandle};

use crate::wire::{self, Limit, StreamCount};

const PAGE_STREAM_SLOTS: u32 = Limit::PAGE_STREAM_SLOTS.0;
/// Words of the map of [`StreamMaps::pages`]: a place for each page, and four counts for each stream.
pub const PAGE_STREAM_WORDS: u32 = PAGE_STREAM_SLOTS + 4 * Limit::MAX_WRITE_STREAMS.0;

/// The BPF program's table of streams, and what it did. It outlives the session; then nobody looks into it.
#[derive(Debug)]
pub struct StreamMaps {
    pub(crate) streams: MapHandle,
    pub(crate) version: MapHandle,
    pub(crate) counts: MapHandle,
    pub(crate) answers: MapHandle,
    pub(crate) pages: MapHandle,
}

impl StreamMaps {
    /// Sets both versions of a context's stream.
    pub fn put(&mut self, key: u64, versions: [u8; 2]) -> io::Result<()> {
        let entered = self.streams.update(&key.to_ne_bytes(), &versions, MapFlags::ANY);
        entered.map_err(io::Error::other)
    }

    /// Makes a version, 0 or 1, the one that counts.
    pub fn switch(&mut self, version: u32) -> io::Result<()> {
        let set = self.version.update(&0_u32.to_ne_bytes(), &version.to_ne_bytes(), MapFlags::ANY);
        set.map_err(io::Error::other)
    }

    /// The table of answers to programs that ask (`libpcstream/answers.h`): whoever has it can map it, and nobody can write.
    pub fn answers(&self) -> io::Result<OwnedFd> {
        self.answers.as_fd().try_clone_to_owned()
    }

    /// The map that a server shares: streams of pages on their way to the disk, and what the server did with them.
    pub fn pages(&self) -> BorrowedFd<'_> {
        self.pages.as_fd()
    }

    /// The counts that a server wrote for a stream.
    pub fn served(&self, stream: u8) -> io::Result<[u64; 4]> {
        let mut words = [0; 4];
        for (word, at) in words.iter_mut().zip(PAGE_STREAM_SLOTS + 4 * u32::from(stream)..) {
            let found = self.pages.lookup(&at.to_ne_bytes(), MapFlags::ANY).map_err(io::Error::other)?;
            let bytes = found.and_then(|bytes| bytes.try_into().ok());
            *word = u64::from_ne_bytes(bytes.ok_or_else(|| io::Error::other("a count that is no number"))?);
        }
        Ok(words)
    }

    /// What was done, by write stream.
    pub fn counts(&self) -> io::Result<Vec<StreamCount>> {
        (0..self.counts.max_entries()).map(|stream| self.count(stream)).collect()
    }

    fn count(&self, stream: u32) -> io::Result<StreamCount> {
        let by_cpu = self.counts.lookup_percpu(&stream.to_ne_bytes(), MapFlags::ANY);
        let mut sum = StreamCount::default();
        for of_cpu in by_cpu.map_err(io::Error::other)?.unwrap_or_default() {
            let of_cpu = wire::stream_count(&of_cpu)
                .ok_or_else(|| io::Error::other(format!("a count of {} bytes", of_cpu.len())))?;
            sum.requests += of_cpu.requests;
            sum.bytes += of_cpu.bytes;
            sum.minority_bytes += of_cpu.minority_bytes;
            sum.refused_bytes += of_cpu.refused_bytes;
            sum.bytes_of_programs += of_cpu.bytes_of_programs;
        }
        Ok(sum)
    }
}
