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

/// The layout of a superblock over dies.
#[derive(Clone, Debug)]
pub(super) struct Units {
    pages_per_program: u32,
    dies: u32,
    /// Of each unit of a superblock: the same for all superblocks.
    places: Vec<Position>,
}

impl Units {
    /// All at least 1, at most 65,536 dies; `superblock_pages` is a multiple of `pages_per_program`.
    pub(super) fn new(pages_per_program: u32, dies: u32, channels: u32, superblock_pages: u32) -> Units {
        let place = |within| {
            let die = within % dies;
            Position { die: die as u16, channel: (die % channels) as u16 }
        };
        Units {
            pages_per_program,
            dies,
            places: (0..superblock_pages / pages_per_program).map(place).collect(),
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
        self.places.len() as u32
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
        let index = superblock as usize * self.places.len() + within as usize;
        Unit { index, place: self.place(within) }
    }

    /// Whether the unit with this index over all units lies in a superblock.
    pub(super) fn is_of(&self, index: usize, superblock: u32) -> bool {
        index / self.places.len() == superblock as usize
    }

    /// Index of a page's unit in its superblock, and the page's number in it.
    #[inline(always)]
    pub(super) fn within(&self, offset: u32) -> (u32, u32) {
        (offset / self.pages_per_program, offset % self.pages_per_program)
    }

    /// Where the unit with index `within` in its superblock lies.
    #[inline(always)]
    pub(super) fn place(&self, within: u32) -> Position {
        self.places[within as usize]
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
    use super::*;

    #[test]
    fn consecutive_units_lie_on_consecutive_dies() {
        let units = Units::new(4, 6, 3, 48);
        let at = |die, channel| Position { die, channel };
        assert_eq!(units.of(0, 0), (Unit { index: 0, place: at(0, 0) }, 0));
        assert_eq!(units.of(0, 7), (Unit { index: 1, place: at(1, 1) }, 3));
        assert_eq!(units.of(2, 25), (Unit { index: 30, place: at(0, 0) }, 1));
        assert_eq!(units.place(4), at(4, 1));
        assert_eq!((units.per_superblock(), units.within(47)), (12, (11, 3)));
    }

    #[test]
    fn pages_of_a_unit_are_read_together() {
        let units = Units::new(4, 6, 3, 48);
        let offsets = [1, 3, 4, 5, 6, 7, 20, 47];
        let read = |from: usize| units.first_read(&offsets[from..]);
        assert_eq!(read(0), UnitRead { within: 0, pages: 2 });
        assert_eq!(read(2), UnitRead { within: 1, pages: 4 });
        assert_eq!(read(6), UnitRead { within: 5, pages: 1 });
        assert_eq!(read(7), UnitRead { within: 11, pages: 1 });
    }
}
