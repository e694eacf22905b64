//! Power cuts: which of the writes that were not flushed are lost.
//!
//! Idea: between flushes a device may keep any of the pages written, and lose any. So the contents that each page had at
//! the last flush are kept; a power cut at the n-th page tears the request there and gives pages their old contents back, all
//! of them or those that the seed draws. Pages may be lost out of order: that is what a file system has to survive.
//!
//! Discards take effect at once and are never undone, as a device may do.
//!
//! Units: pages. Memory: one page and some 40 bytes for each page not flushed, at most `UNFLUSHED_PAGES`; a
//! device that has more unflushed writes makes them all durable, as an SSD whose write buffer is full.

use pcstream_ssd::LogicalPage;
use rustc_hash::FxHashMap;

/// Pages that can be lost at most.
pub const UNFLUSHED_PAGES: usize = 16384;

/// Which pages a power cut takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "fuse", derive(serde::Serialize, serde::Deserialize))]
pub enum Loss {
    /// Every page written since the last flush.
    All,
    /// None: only the write under way is torn.
    Nothing,
    /// Each with a probability of a half, drawn from this seed.
    Half(u64),
}

/// A power cut to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "fuse", derive(serde::Serialize, serde::Deserialize))]
pub struct PowerCut {
    /// Pages that are still written, at least 0.
    pub after_pages: u64,
    /// What is lost.
    pub loss: Loss,
}

/// Old contents of what was written since the last flush.
pub(crate) struct Unflushed {
    cut: PowerCut,
    left: u64,
    index: FxHashMap<u64, usize>,
    /// `None`: the page held no data.
    pages: Vec<(LogicalPage, Option<Box<[u8]>>)>,
}

impl Unflushed {
    pub fn new(cut: PowerCut) -> Unflushed {
        Unflushed { cut, left: cut.after_pages, index: FxHashMap::default(), pages: Vec::new() }
    }

    /// How many of `pages` pages are still written; fewer means that the power is cut there.
    pub fn admit(&mut self, pages: usize) -> usize {
        let admitted = self.left.min(pages as u64);
        self.left -= admitted;
        admitted as usize
    }

    /// A page is about to be overwritten.
    pub fn keep(&mut self, page: LogicalPage, old: Option<&[u8]>) {
        if self.index.contains_key(&page.0) {
            return;
        }
        if self.pages.len() == UNFLUSHED_PAGES {
            self.flushed();
        }
        self.index.insert(page.0, self.pages.len());
        self.pages.push((page, old.map(Box::from)));
    }

    /// Everything written so far is durable.
    pub fn flushed(&mut self) {
        self.index.clear();
        self.pages.clear();
    }

    /// The pages are gone for good.
    pub fn discarded(&mut self, first: LogicalPage, pages: u64) {
        for (page, old) in &mut self.pages {
            if (first.0..first.0 + pages).contains(&page.0) {
                *old = None;
            }
        }
    }

    /// The pages that are lost, with the contents that they get back.
    pub fn lost(self) -> Vec<(LogicalPage, Option<Box<[u8]>>)> {
        let mut state = match self.cut.loss {
            Loss::Nothing => return Vec::new(),
            Loss::All => return self.pages,
            Loss::Half(seed) => seed,
        };
        self.pages.into_iter().filter(|_| split_mix(&mut state) & 1 == 1).collect()
    }
}

/// SplitMix64 (Steele, Lea, Flood: OOPSLA 2014).
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PAGE;

    #[test]
    fn half_of_the_pages_are_drawn_by_the_seed() {
        let lost = |seed| {
            let mut unflushed = Unflushed::new(PowerCut { after_pages: 0, loss: Loss::Half(seed) });
            (0..1000).for_each(|n| unflushed.keep(LogicalPage(n), Some(&[0; PAGE])));
            unflushed.lost().into_iter().map(|(page, _)| page.0).collect::<Vec<_>>()
        };
        assert_eq!(lost(1), lost(1));
        assert_ne!(lost(1), lost(2));
        assert!((400..600).contains(&lost(1).len()));
    }
}
