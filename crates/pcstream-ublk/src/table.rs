//! Streams of pages on their way to the disk, in memory that the BPF program shares with the server.
//!
//! Idea: the BPF program notes the stream of each page when a request is made, and the server takes it when the request
//! arrives. Requests may be split and joined in between: the page is the key. A page has its one place, at its number modulo the
//! number of places, so that nothing is searched, and memory does not grow with the disk. Pages that share a place are 4 GiB apart.
//!
//! Units: pages of 4096 bytes, counted from the beginning of the disk; write streams as the disk numbers them, from 1; 0: none.
//!
//! Layout, in words of 8 bytes (`struct` comments in `bpf/streams.h` say the same): [`SLOTS`] places, each 0 or the number of a page
//! shifted by 8 and its stream; then [`STREAMS`] groups of four words: writes, bytes, refused bytes, and one that is unused.
//!
//! Invariants: a stream is found for the page that it was noted for only, and once. What is not found is none.
//!
//! Known weaknesses: of two pages that share a place and are on their way at once, the one noted first gets no stream, which the kernel
//! side counts. Of two requests for parts of a page that are on their way at once, the second to arrive gets none.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Places: 4 GiB of pages.
pub const SLOTS: usize = 1 << 20;
/// Streams that are counted apart.
pub const STREAMS: usize = 32;
/// Words of the counts of a stream.
pub const COUNT_WORDS: usize = 4;
/// All words.
pub const WORDS: usize = SLOTS + STREAMS * COUNT_WORDS;
/// Of the unit in which streams are noted.
pub const PAGE_BYTES: u64 = 4096;

/// What the server did with a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// Writes to the disk.
    pub writes: u64,
    /// What they wrote.
    pub bytes: u64,
    /// What should have had it, but the disk or the kernel refused.
    pub refused_bytes: u64,
}

impl Use {
    /// From the words of a stream.
    pub fn of_words(words: [u64; COUNT_WORDS]) -> Use {
        Use { writes: words[0], bytes: words[1], refused_bytes: words[2] }
    }
}

/// The shared memory.
#[derive(Debug)]
pub struct StreamTable {
    words: *mut AtomicU64,
}

// SAFETY: the memory is not bound to a thread, and all access is atomic.
unsafe impl Send for StreamTable {}
// SAFETY: as above.
unsafe impl Sync for StreamTable {}

const BYTES: usize = WORDS * 8;

impl StreamTable {
    /// Shares the memory of a map; fails if it is smaller.
    pub fn of_map(map: BorrowedFd<'_>) -> io::Result<StreamTable> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let words = unsafe { mmap(std::ptr::null_mut(), BYTES, protection, MapFlags::SHARED, map, 0) }?;
        Ok(StreamTable { words: words.cast() })
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at < WORDS, "a word of the table");
        // SAFETY: within the mapping, which lives as long as this, and aligned.
        unsafe { &*self.words.add(at) }
    }

    /// The stream of a page, which is forgotten; 0: none.
    pub fn take(&self, page: u64) -> u8 {
        let word = self.word(page as usize % SLOTS);
        let noted = word.load(Ordering::Acquire);
        if noted == 0 || noted >> 8 != page {
            return 0;
        }
        // What has been noted since stays.
        let _ = word.compare_exchange(noted, 0, Ordering::AcqRel, Ordering::Relaxed);
        noted as u8
    }

    /// Counts a write.
    pub fn count(&self, stream: u8, wrote: Use) {
        let at = SLOTS + (usize::from(stream) % STREAMS) * COUNT_WORDS;
        for (word, more) in [wrote.writes, wrote.bytes, wrote.refused_bytes].into_iter().enumerate() {
            if more > 0 {
                self.word(at + word).fetch_add(more, Ordering::Relaxed);
            }
        }
    }
}

impl Drop for StreamTable {
    fn drop(&mut self) {
        // SAFETY: nobody has a reference into it any more.
        let _ = unsafe { munmap(self.words.cast(), BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use std::os::fd::AsFd as _;

    use proptest::prelude::*;
    use rustix::mm::mmap_anonymous;

    /// What the BPF program does, and others read.
    impl StreamTable {
        /// Memory of this process alone, with nothing in it.
        fn private() -> io::Result<StreamTable> {
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: a new mapping, at an address that the kernel chooses.
            let words =
                unsafe { mmap_anonymous(std::ptr::null_mut(), BYTES, protection, MapFlags::PRIVATE) }?;
            Ok(StreamTable { words: words.cast() })
        }

        /// For each page of a request.
        fn note(&self, page: u64, stream: u8) {
            let word = self.word(page as usize % SLOTS);
            if stream > 0 {
                word.store(page << 8 | u64::from(stream), Ordering::Release);
            } else if word.load(Ordering::Relaxed) >> 8 == page {
                word.store(0, Ordering::Release);
            }
        }

        /// What was counted, by stream.
        fn uses(&self) -> [Use; STREAMS] {
            std::array::from_fn(|stream| {
                let at = SLOTS + stream * COUNT_WORDS;
                Use::of_words(std::array::from_fn(|word| self.word(at + word).load(Ordering::Relaxed)))
            })
        }
    }

    #[test]
    fn a_stream_is_taken_once_and_by_its_page_only() {
        let table = StreamTable::private().expect("memory");
        table.note(7, 3);
        assert_eq!([table.take(6), table.take(7), table.take(7)], [0, 3, 0]);
        // Another page in the same place.
        let other = 7 + SLOTS as u64;
        table.note(7, 3);
        assert_eq!(table.take(other), 0);
        table.note(other, 4);
        assert_eq!([table.take(7), table.take(other)], [0, 4]);
        // A later request for the page, without a stream: what was noted before is stale.
        table.note(7, 3);
        table.note(7, 0);
        assert_eq!(table.take(7), 0);
        table.note(0, 5);
        assert_eq!([table.take(0), table.take(0)], [5, 0]);
    }

    #[test]
    fn counts_are_of_their_stream() {
        let table = StreamTable::private().expect("memory");
        table.count(2, Use { writes: 1, bytes: 8192, refused_bytes: 0 });
        table.count(2, Use { writes: 1, bytes: 4096, refused_bytes: 512 });
        let uses = table.uses();
        assert_eq!(uses[2], Use { writes: 2, bytes: 12288, refused_bytes: 512 });
        assert!(uses.iter().enumerate().all(|(stream, of)| stream == 2 || *of == Use::default()));
    }

    #[test]
    fn a_file_that_is_no_map_is_refused() {
        let null = std::fs::File::open("/dev/null").expect("it is there");
        assert!(StreamTable::of_map(null.as_fd()).is_err());
    }

    proptest! {
        /// Whatever is noted and taken, in whatever order: a page's stream is the last one noted for it, or none.
        #[test]
        fn a_page_never_gets_the_stream_of_another(steps in prop::collection::vec((0_u64..4, 0_u64..3, 0_u8..9, any::<bool>()), 1..200)) {
            let table = StreamTable::private().expect("memory");
            let mut last = HashMap::new();
            for (low, high, stream, take) in steps {
                let page = low + high * SLOTS as u64;
                if take {
                    let found = table.take(page);
                    prop_assert!(found == 0 || Some(found) == last.remove(&page), "page {page}: {found}");
                } else {
                    table.note(page, stream);
                    last.insert(page, stream);
                }
            }
        }
    }
}
