//! From chunk number to a place in a scheme's own list of chunks: a plain array for the first 2^22
//! chunks (4 TiB in chunks of 1 MiB, 16 MiB of memory if touched at the end), a hash map beyond.

use rustc_hash::FxHashMap;

const DENSE: u64 = 1 << 22;
const NOWHERE: u32 = u32::MAX;

/// Places of chunks, given out in the order in which the chunks first occur.
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
