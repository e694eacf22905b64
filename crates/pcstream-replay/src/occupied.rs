//! Which pages hold data, and how many did at most: a bit for each address.

use pcstream_ssd::{Density, DeviceSettings, OutOfMemory, Table};
use pcstream_trace::{Event, Op};

/// Pages with data.
#[derive(Debug)]
pub struct Occupied {
    words: Table<u64>,
    live: u64,
    peak: u64,
}

impl Occupied {
    /// None of `pages` holds data.
    pub fn new(pages: u64) -> Result<Occupied, OutOfMemory> {
        Ok(Occupied { words: Table::zeroed(pages.div_ceil(64), Density::Sparse)?, live: 0, peak: 0 })
    }

    /// For a device that has more addresses than it can hold pages; none for others, which cannot be too full.
    pub(crate) fn of_thin(device: &DeviceSettings) -> Result<Option<Occupied>, OutOfMemory> {
        let addresses = device.address_pages();
        (addresses > device.logical_pages).then(|| Occupied::new(addresses)).transpose()
    }

    /// Takes in an event within the pages.
    pub fn see(&mut self, event: &Event) {
        match event.op {
            Op::Write => self.fill(event.lba.0, event.pages.into()),
            Op::Discard | Op::WriteZeroes => self.free(event.lba.0, event.pages.into()),
            Op::Read | Op::Flush | Op::Exit => {}
        }
    }

    /// `pages` pages from `first` on hold data.
    pub fn fill(&mut self, first: u64, pages: u64) {
        for (word, mask) in words(first, pages) {
            self.live += u64::from((mask & !self.words[word]).count_ones());
            self.words[word] |= mask;
        }
        self.peak = self.peak.max(self.live);
    }

    /// `pages` pages from `first` on hold nothing.
    pub fn free(&mut self, first: u64, pages: u64) {
        for (word, mask) in words(first, pages) {
            let freed = mask & self.words[word];
            // What was never touched stays so.
            if freed != 0 {
                self.live -= u64::from(freed.count_ones());
                self.words[word] &= !mask;
            }
        }
    }

    /// First page and end of each run of pages with data, of `pages` pages from `first` on, ascending.
    pub fn runs(&self, first: u64, pages: u64) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for (word, mask) in words(first, pages) {
            let mut bits = self.words[word] & mask;
            while bits != 0 {
                let from = bits.trailing_zeros();
                let until = from + (bits >> from).trailing_ones();
                bits &= u64::MAX.checked_shl(until).unwrap_or(0);
                let (from, until) = (word as u64 * 64 + u64::from(from), word as u64 * 64 + u64::from(until));
                match runs.last_mut() {
                    Some((_, end)) if *end == from => *end = until,
                    _ => runs.push((from, until)),
                }
            }
        }
        runs
    }

    /// `pages` pages from `first` on hold data as `runs` said once. The peak stays.
    pub(crate) fn restore(&mut self, first: u64, pages: u64, runs: &[(u64, u64)]) {
        self.free(first, pages);
        runs.iter().for_each(|&(first, end)| self.fill(first, end - first));
    }

    /// Pages that hold data.
    pub fn live(&self) -> u64 {
        self.live
    }

    /// Most pages that held data at once.
    pub fn peak(&self) -> u64 {
        self.peak
    }
}

/// The words that a range lies in, each with the bits of it.
fn words(first: u64, pages: u64) -> impl Iterator<Item = (usize, u64)> {
    let end = first + pages;
    let until = if pages > 0 { end.div_ceil(64) } else { 0 };
    (first / 64..until).map(move |word| {
        let (from, to) = (first.saturating_sub(word * 64), (end - word * 64).min(64));
        (word as usize, (u64::MAX >> (64 - (to - from))) << from)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn agrees_with_the_obvious_way(ops in prop::collection::vec((any::<bool>(), 0u64..200, 0u64..150), 0..40)) {
            let (mut occupied, mut obvious, mut peak) = (Occupied::new(350).unwrap(), BTreeSet::new(), 0);
            for (write, first, pages) in ops {
                let range = first..first + pages;
                if write {
                    occupied.fill(first, pages);
                    obvious.extend(range);
                } else {
                    occupied.free(first, pages);
                    obvious.retain(|page| !range.contains(page));
                }
                peak = peak.max(obvious.len());
                prop_assert_eq!((occupied.live(), occupied.peak()), (obvious.len() as u64, peak as u64));
                let runs = occupied.runs(first, pages);
                prop_assert!(runs.windows(2).all(|pair| pair[0].1 < pair[1].0));
                let there = runs.into_iter().flat_map(|(first, end)| first..end);
                let obvious = obvious.range(first..first + pages).copied();
                prop_assert_eq!(there.collect::<Vec<_>>(), obvious.collect::<Vec<_>>());
            }
        }
    }
}
