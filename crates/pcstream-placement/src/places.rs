//! Places of groups by their number: a table in two levels.
//!
//! Idea: groups lie close together, so they are found by way of leaves of 64 places each; a leaf stands for 4096 pages. A
//! plain array finds the leaves of the first 2^22 numbers (1 TiB of pages), a hash table those beyond.
//!
//! Memory: 4.7 bytes for each number where all have a place, 300 for one alone. The array takes 8 bytes for each leaf up
//! to the highest, 512 KiB at most.

use rustc_hash::FxHashMap;

/// Places of a leaf.
const LEAF: u64 = 64;
/// Leaves that the array finds.
const DENSE: u64 = 1 << 16;
/// No group.
const NONE: u32 = u32::MAX;
/// What a leaf costs: its content, its allocation, and key and pointer in a hash table that is 7/8 full at best. One that
/// the array finds counts as much.
const LEAF_BYTES: u64 = size_of::<Leaf>() as u64 + 16 + 24;

struct Leaf {
    places: [u32; LEAF as usize],
    used: u32,
}

/// A place for each of some numbers.
#[derive(Default)]
pub(crate) struct Places {
    dense: Vec<Option<Box<Leaf>>>,
    sparse: FxHashMap<u64, Box<Leaf>>,
    leaves: u64,
    len: u64,
}

impl Places {
    /// How many numbers have a place.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Bytes in use, as they count against a bound: without the array.
    pub fn bytes(&self) -> u64 {
        self.leaves * LEAF_BYTES
    }

    /// The place of a number.
    #[inline]
    pub fn get(&self, number: u64) -> Option<u32> {
        let at = number / LEAF;
        let leaf = if at < DENSE { self.dense.get(at as usize)?.as_ref()? } else { self.sparse.get(&at)? };
        Some(leaf.places[(number % LEAF) as usize]).filter(|&place| place != NONE)
    }

    /// Gives a number that has none a place below 2^32 - 1.
    pub fn insert(&mut self, number: u64, place: u32) {
        let at = number / LEAF;
        let empty = || {
            self.leaves += 1;
            Box::new(Leaf { places: [NONE; LEAF as usize], used: 0 })
        };
        let leaf = if at < DENSE {
            let at = at as usize;
            if self.dense.len() <= at {
                self.dense.resize_with(at + 1, || None);
            }
            self.dense[at].get_or_insert_with(empty)
        } else {
            self.sparse.entry(at).or_insert_with(empty)
        };
        debug_assert!(leaf.places[(number % LEAF) as usize] == NONE && place != NONE);
        leaf.places[(number % LEAF) as usize] = place;
        leaf.used += 1;
        self.len += 1;
    }

    /// Takes the place of a number that has one.
    pub fn remove(&mut self, number: u64) {
        let at = number / LEAF;
        let leaf = if at < DENSE { self.dense[at as usize].as_mut() } else { self.sparse.get_mut(&at) };
        let leaf = leaf.expect("it has a place");
        debug_assert_ne!(leaf.places[(number % LEAF) as usize], NONE);
        leaf.places[(number % LEAF) as usize] = NONE;
        leaf.used -= 1;
        self.len -= 1;
        if leaf.used == 0 {
            self.leaves -= 1;
            if at < DENSE {
                self.dense[at as usize] = None;
            } else {
                self.sparse.remove(&at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn places_are_as_in_a_map(steps in prop::collection::vec((0u64..300, 0u32..1000), 1..300)) {
            let (mut places, mut map) = (Places::default(), BTreeMap::new());
            for (number, place) in steps {
                // Some leaves lie beyond the array.
                let number = number * number * number;
                if map.remove(&number).is_some() {
                    places.remove(number);
                } else {
                    places.insert(number, place);
                    map.insert(number, place);
                }
                prop_assert_eq!(places.len(), map.len() as u64);
                prop_assert!((0..300).all(|n| places.get(n * n * n) == map.get(&(n * n * n)).copied()));
            }
            map.keys().for_each(|&number| places.remove(number));
            prop_assert_eq!(places.bytes(), 0);
        }
    }
}
