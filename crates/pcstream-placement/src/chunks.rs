//! Chunks: pieces of the address space of equal size. AutoStream counts their accesses, PCStream may keep lifetimes by them.
//!
//! Units: pages. A chunk of 1 MiB is a thousandth of the superblock of the papers' drive. A small simulated device has
//! superblocks of about that size, so [`Chunk::Scaled`] keeps the proportion. [`ChunkIndex`] takes 4 to 8 bytes a chunk up to the highest one touched of the first 2^22 (4 TiB in chunks
//! of 1 MiB), and a place in a hash table for each one touched beyond.

use pcstream_trace::Event;
use rustc_hash::FxHashMap;

use crate::choices;
use crate::parameter::Value;

/// Pages of the PM963's superblock (1.1 GB: FAST'18, section 4) for each page of FAST'19's chunk (1 MiB).
const PAPER_RATIO: u32 = 1049;

/// The unit of address: how many pages go together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Chunk {
    /// A page: exact.
    #[default]
    Page,
    /// FAST'19's 1 MiB in proportion: 1/1049 of the device's superblock, at least a page.
    Scaled,
    /// So many pages; 256 are the paper's 1 MiB.
    Pages(u32),
}

impl Chunk {
    /// Its pages on a device with such superblocks.
    pub fn pages(self, superblock_pages: u32) -> u32 {
        match self {
            Chunk::Page => 1,
            Chunk::Scaled => (superblock_pages.saturating_add(PAPER_RATIO / 2) / PAPER_RATIO).max(1),
            Chunk::Pages(pages) => pages,
        }
    }
}

/// `page`, `scaled`, or a number of pages.
impl Value for Chunk {
    fn read(text: &str) -> Result<Self, String> {
        match text {
            "page" => Ok(Chunk::Page),
            "scaled" => Ok(Chunk::Scaled),
            pages => pages.parse().map(Chunk::Pages).map_err(|_| "page, scaled, or a number of pages".into()),
        }
    }

    fn show(&self) -> String {
        match self {
            Chunk::Page => "page".to_owned(),
            Chunk::Scaled => "scaled".to_owned(),
            Chunk::Pages(pages) => pages.to_string(),
        }
    }
}

/// Which chunks of a write count, and whose stream it gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Span {
    /// Every chunk is an access, and each part of the write goes where its chunk is (SepBIT).
    #[default]
    EachChunk,
    /// Only the chunk of the first page, for the whole write (BlueDBM).
    FirstChunk,
}

choices!(Span: EachChunk = "each-chunk", FirstChunk = "first-chunk");

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
    fn chunks_scale_with_the_superblock() {
        let pages = |superblock| Chunk::Scaled.pages(superblock);
        assert_eq!([1, 1024, 4096, 268_555, u32::MAX].map(pages), [1, 1, 4, 256, 4_094_344]);
        assert_eq!((Chunk::Page.pages(1 << 20), Chunk::Pages(7).pages(1 << 20)), (1, 7));
    }

    #[test]
    fn places_are_given_in_order_of_first_sight() {
        let mut index = ChunkIndex::default();
        let chunks = [7, 0, DENSE, 7, u64::MAX, DENSE - 1, DENSE, 0, u64::MAX];
        assert_eq!(chunks.map(|c| index.place(c)), [0, 1, 2, 0, 3, 4, 2, 1, 3]);
    }
}
