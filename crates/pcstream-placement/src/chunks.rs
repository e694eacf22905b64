//! Chunks: pieces of the address space of equal size, whose accesses AutoStream counts.
//!
//! Units: pages. [`ChunkIndex`] takes 4 to 8 bytes a chunk up to the highest one touched of the first 2^22 (4 TiB in chunks
//! of 1 MiB), and a place in a hash table for each one touched beyond.

use pcstream_trace::Event;
use rustc_hash::FxHashMap;

const DENSE: u64 = 1 << 22;
const NOWHERE: u32 = u32::MAX;

/// The chunks of an event in address order, each with the event's pages in it.
#[inline]
pub(crate) fn for_each_chunk(event: &Event, chunk_pages: u64, mut f: impl FnMut(u64, u32)) {
    let (mut lba, mut left) = (event.lba.0, u64::from(event.pages));
    while left > 0 {
        let chunk = lba / chunk_pages;
        let pages = (chunk_pages - lba % chunk_pages).min(left);
        f(chunk, pages as u32);
        lba = lba.wrapping_add(pages);
        left -= pages;
    }
}

/// Places of chunks in a scheme's own list, given out in the order in which the chunks first occur: a plain array for the
/// first chunks, a hash table beyond.
#[derive(Default)]
pub(crate) struct ChunkIndex {
    dense: Vec<u32>,
    sparse: FxHashMap<u64, u32>,
    chunks: u32,
}

impl ChunkIndex {
    /// The place of a chunk; the number of chunks before it, if it is new.
    #[inline]
    pub(crate) fn place(&mut self, chunk: u64) -> usize {
        let next = self.chunks;
        let place = if chunk < DENSE {
            let at = chunk as usize;
            if self.dense.len() <= at {
                self.dense.resize((at + 1).next_power_of_two(), NOWHERE);
            }
            let place = &mut self.dense[at];
            if *place == NOWHERE {
                *place = next;
            }
            *place
        } else {
            *self.sparse.entry(chunk).or_insert(next)
        };
        if place == next {
            assert!(next < NOWHERE, "fewer than 2^32 - 1 chunks");
            self.chunks += 1;
        }
        place as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_given_in_order_of_first_sight() {
        let mut index = ChunkIndex::default();
        let chunks = [7, 0, DENSE, 7, u64::MAX, DENSE - 1, DENSE, 0, u64::MAX];
        assert_eq!(chunks.map(|c| index.place(c)), [0, 1, 2, 0, 3, 4, 2, 1, 3]);
    }
}
