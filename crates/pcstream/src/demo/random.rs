//! Numbers that look random and are the same on every machine.

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
pub struct Random(u64);

impl Random {
    /// The same seed gives the same numbers.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Any 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to `end` - 1. The bias is below `end` / 2^64.
    pub fn below(&mut self, end: u64) -> u64 {
        self.bits() % end
    }

    /// Fills a buffer, of whose length the last `len` % 8 bytes are left.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        buffer.chunks_exact_mut(8).for_each(|chunk| chunk.copy_from_slice(&self.bits().to_le_bytes()));
    }
}
