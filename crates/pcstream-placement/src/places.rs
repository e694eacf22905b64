//! Places of groups by their number: a table in two levels.
//!
//! Idea: groups lie close together, so a hash table finds leaves of 64 places each. It stays small enough for the
//! processor's cache where a hash table of all groups would not: a leaf stands for 4096 pages.
//!
//! Memory: 4.7 bytes for each number where all have a place, 300 for one alone.

use rustc_hash::FxHashMap;

/// Places of a leaf.
const LEAF: u64 = 64;
/// No group.
const NONE: u32 = u32::MAX;
/// What a leaf costs: its content, its allocation, and key and pointer in a hash table that is 7/8 full at best.
const LEAF_BYTES: u64 = size_of::<Leaf>() as u64 + 16 + 24;

struct Leaf {
    places: [u32; LEAF as usize],
    used: u32,
}

/// A place for each of some numbers.
#[derive(Default)]
pub(crate) struct Places {
    leaves: FxHashMap<u64, Box<Leaf>>,
    len: u64,
}

impl Places {
    /// How many numbers have a place.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Bytes in use.
    pub fn bytes(&self) -> u64 {
        self.leaves.len() as u64 * LEAF_BYTES
    }

    /// The place of a number.
    #[inline]
    pub fn get(&self, number: u64) -> Option<u32> {
        let leaf = self.leaves.get(&(number / LEAF))?;
        Some(leaf.places[(number % LEAF) as usize]).filter(|&place| place != NONE)
    }

    /// Gives a number that has none a place below 2^32 - 1.
    pub fn insert(&mut self, number: u64, place: u32) {
        let empty = || Box::new(Leaf { places: [NONE; LEAF as usize], used: 0 });
        let leaf = self.leaves.entry(number / LEAF).or_insert_with(empty);
        debug_assert!(leaf.places[(number % LEAF) as usize] == NONE && place != NONE);
        leaf.places[(number % LEAF) as usize] = place;
        leaf.used += 1;
        self.len += 1;
    }

    /// Takes the place of a number that has one.
    pub fn remove(&mut self, number: u64) {
        let leaf = self.leaves.get_mut(&(number / LEAF)).expect("it has a place");
        debug_assert_ne!(leaf.places[(number % LEAF) as usize], NONE);
        leaf.places[(number % LEAF) as usize] = NONE;
        leaf.used -= 1;
        self.len -= 1;
        if leaf.used == 0 {
            self.leaves.remove(&(number / LEAF));
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
                let number = number * number;
                if map.remove(&number).is_some() {
                    places.remove(number);
                } else {
                    places.insert(number, place);
                    map.insert(number, place);
                }
                prop_assert_eq!(places.len(), map.len() as u64);
                prop_assert!((0..300).all(|n| places.get(n * n) == map.get(&(n * n)).copied()));
            }
            map.keys().for_each(|&number| places.remove(number));
            prop_assert_eq!(places.bytes(), 0);
        }
    }
}
