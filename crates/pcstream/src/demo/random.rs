//! Numbers that look random and are the same on every machine.

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
pub struct Random(u64);

impl Random {
    /// The same seed gives the same numbers.
    pub const fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Any 64 bits.
    pub const fn bits(&mut self) -> u64 {
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

    /// Fills a buffer of at most a page with a piece of noise, which costs little beside writing it.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        let pieces = NOISE.len() - buffer.len();
        let at = self.below(pieces as u64) as usize;
        buffer.copy_from_slice(&NOISE[at..at + buffer.len()]);
    }
}

static NOISE: [u8; 32 * 1024] = noise();

const fn noise() -> [u8; 32 * 1024] {
    let mut noise = [0; 32 * 1024];
    let mut random = Random::new(0);
    let mut at = 0;
    while at < noise.len() {
        noise[at] = random.bits() as u8;
        at += 1;
    }
    noise
}
