//! The BPF program's table of streams, for a sink, and what became of requests: by the BPF program, which gives the streams, or by
//! the server that writes with them.

use std::io;
use std::sync::Arc;

use pcstream_capture::streams::{PAGE_STREAM_WORDS, StreamMaps};
use pcstream_capture::wire::{Limit, StreamCount};
use pcstream_place::sink::{StreamTable, StreamUse};
use pcstream_trace::PAGE_BYTES;
use pcstream_ublk::Link;
use pcstream_ublk::table::{SLOTS, STREAMS, Use, WORDS};

// The server shares the memory of the capture's map: both must have it laid out alike.
const _: () = assert!(Limit::PAGE_STREAM_SLOTS.0 as usize == SLOTS);
const _: () = assert!(Limit::MAX_WRITE_STREAMS.0 as usize == STREAMS);
const _: () = assert!(PAGE_STREAM_WORDS as usize == WORDS);

/// The table. A server takes streams as long as its link is kept.
pub struct KernelStreams {
    pub maps: StreamMaps,
    pub server: Option<Arc<Link>>,
}

impl StreamTable for KernelStreams {
    fn put(&mut self, key: u64, versions: [u8; 2]) -> io::Result<()> {
        self.maps.put(key, versions)
    }

    fn switch(&mut self, version: u32) -> io::Result<()> {
        self.maps.switch(version)
    }

    fn uses(&self) -> io::Result<Vec<StreamUse>> {
        let mut all = Vec::new();
        for (write_stream, chosen) in (0..).zip(self.maps.counts()?) {
            let used = used(write_stream, chosen);
            all.push(match &self.server {
                None => used,
                Some(_) => written(used, Use::of_words(self.maps.served(write_stream)?)),
            });
        }
        let nothing =
            |stream: &StreamUse| stream.pages + stream.refused_pages + stream.pages_of_programs == 0;
        all.retain(|stream| !nothing(stream));
        Ok(all)
    }
}

fn pages(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE_BYTES)
}

/// As the BPF program counts.
fn used(write_stream: u8, count: StreamCount) -> StreamUse {
    StreamUse {
        write_stream,
        requests: count.requests,
        pages: pages(count.bytes),
        minority_pages: pages(count.minority_bytes),
        refused_pages: pages(count.refused_bytes),
        pages_of_programs: pages(count.bytes_of_programs),
    }
}

/// What the server wrote, of what the BPF program chose. What was refused is what either could not do.
fn written(chosen: StreamUse, server: Use) -> StreamUse {
    StreamUse {
        requests: server.writes,
        pages: pages(server.bytes),
        refused_pages: chosen.refused_pages + pages(server.refused_bytes),
        ..chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_wrote_is_what_counts() {
        let count = StreamCount {
            requests: 3,
            bytes: 5 * 4096,
            minority_bytes: 4096,
            refused_bytes: 2 * 4096,
            bytes_of_programs: 0,
        };
        let chosen = used(2, count);
        assert_eq!((chosen.requests, chosen.pages, chosen.minority_pages), (3, 5, 1));
        let written = written(chosen, Use { writes: 2, bytes: 4 * 4096, refused_bytes: 4096 });
        assert_eq!((written.write_stream, written.requests, written.pages), (2, 2, 4));
        assert_eq!((written.minority_pages, written.refused_pages), (1, 3), "two notes were replaced");
    }
}
