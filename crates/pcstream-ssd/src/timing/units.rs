//! Where the pages of a superblock lie: which unit, which die, which channel.

/// Where a unit lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) die: u16,
    pub(super) channel: u16,
}

/// Index over all units of the device, and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    pub(super) index: usize,
    pub(super) place: Position,
}

/// Pages of one unit of a victim: they are read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnitRead {
    /// Index of the unit in its superblock.
    pub(super) within: u32,
    pub(super) pages: u32,
}

/// The layout of superblocks over dies. A superblock begins on the die after the last one of the superblock before
/// it: if all began on the same die, the first dies would have more units than the others, wherever a superblock is
/// no whole number of stripes.
///
/// Superblocks smaller than a stripe all begin on die 0. If they did not, the number of open superblocks would say
/// how many dies work at once, and schemes with more streams would look faster than their WAF makes them.
#[derive(Clone, Debug)]
pub(super) struct Units {
    pages_per_program: u32,
    dies: u32,
    per_superblock: u32,
    /// Of consecutive units from die 0 on: as many as a superblock that begins on the last die needs.
    places: Vec<Position>,
    /// Die of each superblock's first unit.
    first_die: Vec<u16>,
}

impl Units {
    /// All at least 1, at most 65,536 dies; `superblock_pages` is a multiple of `pages_per_program`.
    pub(super) fn new(
        pages_per_program: u32,
        dies: u32,
        channels: u32,
        superblock_pages: u32,
        superblocks: u32,
    ) -> Units {
        let per_superblock = superblock_pages / pages_per_program;
        let place = |unit| {
            let die = unit % dies;
            Position { die: die as u16, channel: (die % channels) as u16 }
        };
        let step = if per_superblock < dies { 0 } else { per_superblock % dies };
        let first_die = |superblock| (u64::from(superblock) * u64::from(step) % u64::from(dies)) as u16;
        Units {
            pages_per_program,
            dies,
            per_superblock,
            places: (0..dies - 1 + per_superblock).map(place).collect(),
            first_die: (0..superblocks).map(first_die).collect(),
        }
    }

    #[inline(always)]
    pub(super) fn pages_per_program(&self) -> u32 {
        self.pages_per_program
    }

    pub(super) fn dies(&self) -> u32 {
        self.dies
    }

    /// Units of a superblock.
    pub(super) fn per_superblock(&self) -> u32 {
        self.per_superblock
    }

    /// The unit of a page, and the page's number in it.
    #[inline(always)]
    pub(super) fn of(&self, superblock: u32, offset: u32) -> (Unit, u32) {
        let (within, page) = self.within(offset);
        (self.unit(superblock, within), page)
    }

    /// The unit with index `within` in its superblock.
    #[inline(always)]
    pub(super) fn unit(&self, superblock: u32, within: u32) -> Unit {
        let index = superblock as usize * self.per_superblock as usize + within as usize;
        Unit { index, place: self.place(superblock, within) }
    }

    /// Whether the unit with this index over all units lies in a superblock.
    pub(super) fn is_of(&self, index: usize, superblock: u32) -> bool {
        index / self.per_superblock as usize == superblock as usize
    }

    /// Index of a page's unit in its superblock, and the page's number in it.
    #[inline(always)]
    pub(super) fn within(&self, offset: u32) -> (u32, u32) {
        (offset / self.pages_per_program, offset % self.pages_per_program)
    }

    /// Where the unit with index `within` in its superblock lies.
    #[inline(always)]
    pub(super) fn place(&self, superblock: u32, within: u32) -> Position {
        self.places[usize::from(self.first_die[superblock as usize]) + within as usize]
    }

    /// The dies that a superblock lies on, each once.
    pub(super) fn dies_of(&self, superblock: u32) -> impl Iterator<Item = u16> + use<> {
        let (first, dies) = (u32::from(self.first_die[superblock as usize]), self.dies);
        (first..first + dies.min(self.per_superblock)).map(move |die| (die % dies) as u16)
    }

    /// The first pages of ascending offsets that lie in one unit. There is at least one offset.
    #[inline(always)]
    pub(super) fn first_read(&self, offsets: &[u32]) -> UnitRead {
        let first = offsets[0];
        let (within, page) = self.within(first);
        let end = first + (self.pages_per_program - page);
        // Whether the second one is of the same unit is as good as random, and mostly all there is to know: no branch.
        let mut pages = 1 + usize::from(offsets.get(1).is_some_and(|&second| second < end));
        if self.pages_per_program > 2 && pages == 2 {
            while pages < offsets.len() && offsets[pages] < end {
                pages += 1;
            }
        }
        UnitRead { within, pages: pages as u32 }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn consecutive_units_lie_on_consecutive_dies() {
        let units = Units::new(4, 6, 3, 48, 3);
        let at = |die, channel| Position { die, channel };
        assert_eq!(units.of(0, 0), (Unit { index: 0, place: at(0, 0) }, 0));
        assert_eq!(units.of(0, 7), (Unit { index: 1, place: at(1, 1) }, 3));
        assert_eq!(units.of(2, 25), (Unit { index: 30, place: at(0, 0) }, 1));
        assert_eq!(units.place(1, 4), at(4, 1));
        assert_eq!((units.per_superblock(), units.within(47)), (12, (11, 3)));
    }

    #[test]
    fn superblocks_follow_one_another_over_the_dies() {
        for (superblock_pages, first_dies) in
            [(48, [0, 0, 0, 0]), (52, [0, 1, 2, 3]), (40, [0, 4, 2, 0]), (16, [0, 0, 0, 0])]
        {
            let units = Units::new(4, 6, 3, superblock_pages, 4);
            let mut on_die = [0; 6];
            for (superblock, &first) in (0..).zip(&first_dies) {
                assert_eq!(units.place(superblock, 0).die, first, "{superblock_pages} pages");
                let mut dies = BTreeSet::new();
                for within in 0..units.per_superblock() {
                    let place = units.place(superblock, within);
                    assert_eq!(place.channel, place.die % 3);
                    on_die[usize::from(place.die)] += 1;
                    dies.insert(place.die);
                }
                assert_eq!(units.dies_of(superblock).count(), dies.len(), "each once");
                assert_eq!(units.dies_of(superblock).collect::<BTreeSet<_>>(), dies);
            }
            let (least, most) = (on_die.iter().min().unwrap(), on_die.iter().max().unwrap());
            assert!(most - least <= 1 || superblock_pages < 4 * 6, "{superblock_pages} pages: {on_die:?}");
        }
    }

    #[test]
    fn pages_of_a_unit_are_read_together() {
        let units = Units::new(4, 6, 3, 48, 1);
        let offsets = [1, 3, 4, 5, 6, 7, 20, 47];
        let read = |from: usize| units.first_read(&offsets[from..]);
        assert_eq!(read(0), UnitRead { within: 0, pages: 2 });
        assert_eq!(read(2), UnitRead { within: 1, pages: 4 });
        assert_eq!(read(6), UnitRead { within: 5, pages: 1 });
        assert_eq!(read(7), UnitRead { within: 11, pages: 1 });
    }
}
