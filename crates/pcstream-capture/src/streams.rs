//! Streams of contexts, as the kernel side looks them up when a request is made (`bpf/streams.h`).
//!
//! Units: write streams as devices number them, from 1; 0 is none. Contexts by the kernel side's keys.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use libbpf_rs::{MapCore as _, MapFlags, MapHandle};

use crate::wire::{self, StreamCount};

/// The kernel side's table of streams, and what it did. It outlives the session; then nobody looks into it.
#[derive(Debug)]
pub struct StreamMaps {
    pub(crate) streams: MapHandle,
    pub(crate) version: MapHandle,
    pub(crate) counts: MapHandle,
    pub(crate) answers: MapHandle,
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
