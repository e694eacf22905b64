//! The load of the benchmarks: uniform random writes, known some writes ahead.

use pcstream_ssd::timing::TimedSsd;
use pcstream_ssd::{DeviceSettings, GcDestination, LogicalPage, Spare, Ssd, StreamId};

/// Writes between the drawing of a page and its being written.
const AHEAD: usize = 16;

/// Draws pages, each as likely as any other.
pub struct Uniform {
    state: u64,
    pages: u64,
    next: [u64; AHEAD],
    at: usize,
}

impl Uniform {
    /// Of so many pages, from a fixed seed.
    pub fn new(pages: u64) -> Self {
        Uniform { state: 1, pages, next: [0; AHEAD], at: 0 }
    }

    /// The page to write now; the one `AHEAD` writes later is prefetched.
    #[inline(always)]
    pub fn next(&mut self, ssd: &Ssd) -> LogicalPage {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let page = (((z >> 32) * self.pages) >> 32).min(self.pages - 1);
        ssd.prefetch(LogicalPage(page));
        self.at = (self.at + 1) % AHEAD;
        LogicalPage(std::mem::replace(&mut self.next[self.at], page))
    }
}

/// One stream, whose GC copies go to its own superblock.
pub fn device(superblocks: u32, superblock_pages: u32, spare_factor: f64) -> Ssd {
    let physical = f64::from(superblocks) * f64::from(superblock_pages);
    Ssd::new(&DeviceSettings {
        logical_pages: (physical * (1.0 - spare_factor)) as u64,
        spare: Spare::Superblocks(superblocks),
        superblock_pages,
        streams: 1,
        gc_destination: GcDestination::Own,
        ..DeviceSettings::default()
    })
    .expect("a legal geometry")
}

/// Writes, or reads the first `reads_in_4` of four requests, the next page in a closed loop.
#[inline(always)]
pub fn request(ssd: &mut TimedSsd, uniform: &mut Uniform, number: u64, reads_in_4: u64) {
    let page = uniform.next(ssd.ssd());
    if number % 4 < reads_in_4 {
        ssd.read(0, page, 1).expect("in range");
    } else {
        ssd.write(0, page, 1, StreamId::DEFAULT).expect("in range");
    }
}
