//! Sets of pages, as extents: which pages a trace writes, what was on the device before.
//!
//! Pages are logical pages of 4 KiB. Extents are half open, disjoint, and never touch: neighbours are one. Memory is some
//! 50 bytes an extent while a set grows, and 24 when it is finished. Adding takes logarithmic time in the extents.

use std::collections::BTreeMap;

use pcstream_trace::{Extent, Lba};

/// A set that grows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressSet {
    /// End by beginning.
    extents: BTreeMap<u64, u64>,
}

impl AddressSet {
    /// Adds `pages` pages from `first` on.
    pub fn add(&mut self, first: u64, pages: u64) {
        if pages == 0 {
            return;
        }
        let (mut first, mut end) = (first, first.saturating_add(pages));
        if let Some((&before, &before_end)) = self.extents.range(..=first).next_back() {
            if before_end >= end {
                return;
            }
            if before_end >= first {
                first = before;
            }
        }
        while let Some((&next, &next_end)) = self.extents.range(first..=end).next() {
            end = end.max(next_end);
            self.extents.remove(&next);
        }
        self.extents.insert(first, end);
    }

    /// Number of pages.
    pub fn pages(&self) -> u64 {
        self.extents.iter().map(|(first, end)| end - first).sum()
    }

    /// First page and end of each extent, ascending.
    pub fn extents(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.extents.iter().map(|(&first, &end)| (first, end))
    }

    /// Aligned chunks of `chunk` pages that hold a page of the set.
    pub fn chunks(&self, chunk: u64) -> u64 {
        let (mut count, mut counted_to) = (0, 0);
        for (first, end) in self.extents() {
            let from = (first / chunk).max(counted_to);
            let to = end.div_ceil(chunk);
            count += to.saturating_sub(from);
            counted_to = counted_to.max(to);
        }
        count
    }

    /// The first `pages` pages below `limit` that are not in the set, as extents.
    pub fn gaps(&self, limit: u64, pages: u64) -> Vec<Extent> {
        let (mut gaps, mut left, mut from) = (Vec::new(), pages, 0);
        for (first, end) in self.extents().chain([(limit, limit)]) {
            let room = first.min(limit).saturating_sub(from).min(left);
            if room > 0 {
                gaps.push(Extent { lba: Lba(from), pages: room });
                left -= room;
            }
            from = end;
        }
        gaps
    }

    /// The set with the position of each page in it.
    pub fn ranks(&self) -> Ranks {
        let mut below = 0;
        let with_rank = self.extents().map(|(first, end)| {
            let rank = below;
            below += end - first;
            (first, end, rank)
        });
        let extents = with_rank.collect();
        Ranks { extents, pages: below }
    }
}

/// How many pages of a set lie below an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranks {
    /// First page, end, pages of the set below it.
    extents: Vec<(u64, u64, u64)>,
    pages: u64,
}

impl Ranks {
    /// Pages of the set.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// The parts of `first..end` that are in the set, ascending.
    pub fn within(&self, first: u64, end: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let at = self.extents.partition_point(|&(_, until, _)| until <= first);
        let touched = self.extents[at..].iter().take_while(move |&&(from, ..)| from < end);
        touched.map(move |&(from, until, _)| (from.max(first), until.min(end)))
    }

    /// Pages of the set below `address`.
    pub fn below(&self, address: u64) -> u64 {
        match self.extents.partition_point(|&(first, ..)| first <= address).checked_sub(1) {
            None => 0,
            Some(index) => {
                let (first, end, rank) = self.extents[index];
                rank + address.min(end) - first
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn neighbours_are_one_and_gaps_end_at_the_limit() {
        let mut set = AddressSet::default();
        for (first, pages) in [(10, 5), (15, 5), (3, 1), (12, 2), (30, 0)] {
            set.add(first, pages);
        }
        assert_eq!(set.extents().collect::<Vec<_>>(), [(3, 4), (10, 20)]);
        assert_eq!((set.pages(), set.chunks(4), set.chunks(16)), (11, 4, 2));
        let gap = |lba, pages| Extent { lba: Lba(lba), pages };
        assert_eq!(set.gaps(25, 100), [gap(0, 3), gap(4, 6), gap(20, 5)]);
        assert_eq!(set.gaps(12, 100), [gap(0, 3), gap(4, 6)]);
        assert_eq!(set.gaps(25, 4), [gap(0, 3), gap(4, 1)]);
    }

    proptest! {
        #[test]
        fn agrees_with_the_obvious_way(adds in prop::collection::vec((0u64..60, 0u64..12), 0..30)) {
            let (mut set, mut obvious) = (AddressSet::default(), BTreeSet::new());
            for (first, pages) in adds {
                set.add(first, pages);
                obvious.extend(first..first + pages);
            }
            prop_assert_eq!(set.pages(), obvious.len() as u64);
            let pages: Vec<u64> = set.extents().flat_map(|(first, end)| first..end).collect();
            prop_assert_eq!(&pages, &obvious.iter().copied().collect::<Vec<_>>());
            let ranks = set.ranks();
            for address in 0..80 {
                prop_assert_eq!(ranks.below(address), obvious.range(..address).count() as u64);
                let within = ranks.within(address, address + 9).flat_map(|(first, end)| first..end);
                let obvious = obvious.range(address..address + 9).copied();
                prop_assert_eq!(within.collect::<Vec<_>>(), obvious.collect::<Vec<_>>());
            }
            let chunks: BTreeSet<u64> = obvious.iter().map(|page| page / 8).collect();
            prop_assert_eq!(set.chunks(8), chunks.len() as u64);
            let free: Vec<u64> = (0..70).filter(|page| !obvious.contains(page)).take(9).collect();
            let gaps: Vec<u64> = set.gaps(70, 9).iter().flat_map(|e| e.lba.0..e.lba.0 + e.pages).collect();
            prop_assert_eq!(gaps, free);
        }
    }
}
