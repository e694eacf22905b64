//! Growable arrays for what is kept of every page of a device, in huge pages of the system.
//!
//! Idea: such arrays are read at random, so that what costs is cache and TLB misses. Memory comes in blocks of 32 MiB
//! that never move; what is never touched of them is only address space. What lies beyond the first 2 MiB of an array asks
//! for huge pages, so that a small array stays small.
//!
//! [`Blocks`] is one array; [`Values`] holds many short ones, in slots of 1, 2, 4, ... 64 values.

use std::ops::{Index, IndexMut};

use rustix::mm::{Advice, madvise};

/// Bytes of a block, at most.
const BLOCK: usize = 32 << 20;
/// What an array takes before it asks for huge pages, each of which may be taken whole for little.
const SMALL: usize = 2 << 20;

/// An array that grows at its end.
pub(crate) struct Blocks<T> {
    blocks: Vec<Vec<T>>,
}

impl<T> Blocks<T> {
    /// Elements of a block are 2 to the power of this.
    const SHIFT: u32 = (BLOCK / size_of::<T>()).ilog2();
    const MASK: usize = (1 << Self::SHIFT) - 1;

    pub fn new() -> Blocks<T> {
        Blocks { blocks: Vec::new() }
    }

    pub fn len(&self) -> usize {
        match self.blocks.split_last() {
            Some((last, full)) => (full.len() << Self::SHIFT) + last.len(),
            None => 0,
        }
    }

    pub fn push(&mut self, value: T) {
        let len = self.len();
        if len & Self::MASK == 0 {
            self.blocks.push(Vec::with_capacity(1 << Self::SHIFT));
        }
        let block = self.blocks.last_mut().expect("there is one");
        block.push(value);
        if block.len() == 1 && len > 0 || len == SMALL / size_of::<T>() {
            ask_for_huge_pages(block);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> + Clone {
        self.blocks.iter().flatten()
    }

    /// Elements that lie in one block.
    #[inline]
    fn slice(&self, first: usize, elements: usize) -> &[T] {
        let at = first & Self::MASK;
        &self.blocks[first >> Self::SHIFT][at..at + elements]
    }

    #[inline]
    fn slice_mut(&mut self, first: usize, elements: usize) -> &mut [T] {
        let at = first & Self::MASK;
        &mut self.blocks[first >> Self::SHIFT][at..at + elements]
    }
}

impl<T> Index<usize> for Blocks<T> {
    type Output = T;

    #[inline]
    fn index(&self, at: usize) -> &T {
        &self.blocks[at >> Self::SHIFT][at & Self::MASK]
    }
}

impl<T> IndexMut<usize> for Blocks<T> {
    #[inline]
    fn index_mut(&mut self, at: usize) -> &mut T {
        &mut self.blocks[at >> Self::SHIFT][at & Self::MASK]
    }
}

/// Sizes of slots: 2 to the power of 0 to 6.
const CLASSES: usize = 7;

/// Where a short array is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    number: u32,
    /// It has room for 2 to the power of this; [`Slot::NONE`] has no room.
    class: u8,
}

impl Slot {
    /// Of an empty array.
    pub const NONE: Slot = Slot { number: 0, class: u8::MAX };

    /// How many values it has room for.
    pub fn room(self) -> usize {
        if self == Slot::NONE { 0 } else { 1 << self.class }
    }
}

/// Many arrays of at most 64 values. How long each is its owner knows.
pub(crate) struct Values<T> {
    classes: [Blocks<T>; CLASSES],
    free: [Vec<u32>; CLASSES],
}

impl<T: Copy> Values<T> {
    pub fn new() -> Values<T> {
        Values { classes: [const { Blocks { blocks: Vec::new() } }; CLASSES], free: Default::default() }
    }

    /// The room of a slot; what lies beyond its array's length means nothing.
    #[inline]
    pub fn get(&self, slot: Slot) -> &[T] {
        if slot == Slot::NONE {
            return &[];
        }
        self.classes[usize::from(slot.class)].slice((slot.number as usize) << slot.class, 1 << slot.class)
    }

    #[inline]
    pub fn get_mut(&mut self, slot: Slot) -> &mut [T] {
        if slot == Slot::NONE {
            return &mut [];
        }
        let first = (slot.number as usize) << slot.class;
        self.classes[usize::from(slot.class)].slice_mut(first, 1 << slot.class)
    }

    /// Replaces the values `from..to` of an array of `len` by others, and returns the array's slot: a larger one if it
    /// lacks room, a smaller one if a quarter would do.
    pub fn splice(&mut self, slot: Slot, len: usize, (from, to): (usize, usize), new: &[T]) -> Slot {
        let new_len = len - (to - from) + new.len();
        if new_len == 0 {
            self.release(slot);
            return Slot::NONE;
        }
        let class = new_len.next_power_of_two().ilog2() as u8;
        if slot != Slot::NONE && class <= slot.class && slot.class < class + 2 {
            let values = self.get_mut(slot);
            values.copy_within(to..len, from + new.len());
            values[from..from + new.len()].copy_from_slice(new);
            return slot;
        }
        let mut all = [None; 1 << (CLASSES - 1)];
        let old = self.get(slot);
        let joined = old[..from].iter().chain(new).chain(&old[to..len]);
        all.iter_mut().zip(joined).for_each(|(place, &value)| *place = Some(value));
        self.release(slot);
        let any = all[0].expect("it is not empty");
        let slot = self.take(class, any);
        self.get_mut(slot).iter_mut().zip(all).for_each(|(place, value)| *place = value.unwrap_or(any));
        slot
    }

    /// Gives a slot up.
    pub fn release(&mut self, slot: Slot) {
        if slot != Slot::NONE {
            self.free[usize::from(slot.class)].push(slot.number);
        }
    }

    fn take(&mut self, class: u8, filler: T) -> Slot {
        let (values, free) = (&mut self.classes[usize::from(class)], &mut self.free[usize::from(class)]);
        let number = free.pop().unwrap_or_else(|| {
            let number = (values.len() >> class) as u32;
            (0..1 << class).for_each(|_| values.push(filler));
            number
        });
        Slot { number, class }
    }
}

/// Asks for huge pages for the part of a block that is not in use yet. Where there are none, things stay as they are.
fn ask_for_huge_pages<T>(block: &mut Vec<T>) {
    const PAGE: usize = 4096;
    let rest = block.spare_capacity_mut();
    let (first, bytes) = (rest.as_mut_ptr().cast::<u8>(), size_of_val(rest));
    let into = first.addr() % PAGE;
    let whole = (into + bytes).next_multiple_of(PAGE);
    // SAFETY: these are the pages of the system that hold it. The advice changes neither contents nor validity of what
    // they hold.
    let _ = unsafe { madvise(first.wrapping_sub(into).cast(), whole, Advice::LinuxHugepage) };
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_array_grows_over_blocks() {
        let mut blocks = Blocks::new();
        let many = 5 << (Blocks::<u64>::SHIFT - 1);
        (0..many).for_each(|value| blocks.push(value));
        assert_eq!((blocks.len() as u64, blocks.blocks.len()), (many, 3));
        assert!((0..many).all(|at| blocks[at as usize] == at));
        blocks[5] = 7;
        assert_eq!(blocks.iter().copied().sum::<u64>(), many * (many - 1) / 2 + 2);
        let slots = 1 << (Blocks::<u64>::SHIFT - 6);
        assert_eq!(blocks.slice(64 * slots, 64)[0], 64 * slots as u64, "a slot does not cross blocks");
    }

    proptest! {
        #[test]
        fn arrays_are_as_vectors(
            steps in prop::collection::vec((0usize..4, 0usize..65, 0usize..65, 0usize..65, any::<u16>()), 1..200),
        ) {
            let mut values = Values::new();
            let mut slots = [Slot::NONE; 4];
            let mut vectors: [Vec<u16>; 4] = Default::default();
            for (which, a, b, more, value) in steps {
                let vector = &mut vectors[which];
                let (a, b) = (a.min(vector.len()), b.min(vector.len()));
                let (from, to) = (a.min(b), a.max(b));
                let more = more.min(64 - (vector.len() - (to - from)));
                let new: Vec<u16> = (0..more as u16).map(|i| value.wrapping_add(i)).collect();
                slots[which] = values.splice(slots[which], vector.len(), (from, to), &new);
                vector.splice(from..to, new);
                for (slot, vector) in slots.iter().zip(&vectors) {
                    prop_assert_eq!(&values.get(*slot)[..vector.len()], &vector[..]);
                    prop_assert!(slot.room() <= 4 * vector.len());
                }
            }
        }
    }
}
