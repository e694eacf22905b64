//! Values in the order of their last reference.
//!
//! Idea: the values lie in a vector and are linked to a list through it, so that a reference and a removal
//! touch three of them. A value is found by its place, which whoever uses the list keeps in an index.
//!
//! Invariants: the list runs through every value once, the least recently referenced first; places are
//! `0..len`.
//!
//! Known weakness: a removal moves the last value into the gap, so that its place has to be corrected.

use std::ops::{Index, IndexMut};

/// No place.
const NIL: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Node<T> {
    value: T,
    older: u32,
    newer: u32,
}

/// At most 2^32 - 1 values.
pub(crate) struct Lru<T> {
    nodes: Vec<Node<T>>,
    oldest: u32,
    newest: u32,
}

impl<T> Lru<T> {
    pub(crate) fn new() -> Lru<T> {
        Lru { nodes: Vec::new(), oldest: NIL, newest: NIL }
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn get(&self, at: u32) -> Option<&T> {
        self.nodes.get(at as usize).map(|node| &node.value)
    }

    /// Place of the least recently referenced value.
    pub(crate) fn oldest(&self) -> Option<u32> {
        (self.oldest != NIL).then_some(self.oldest)
    }

    /// All values, the least recently referenced first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        let mut at = self.oldest;
        std::iter::from_fn(move || {
            let node = self.nodes.get(at as usize)?;
            at = node.newer;
            Some(&node.value)
        })
    }

    /// All values in the order of their places.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.nodes.iter_mut().map(|node| &mut node.value)
    }

    /// Adds a value as the most recently referenced, and returns its place.
    pub(crate) fn push(&mut self, value: T) -> u32 {
        let at = self.nodes.len() as u32;
        assert!(at < NIL, "a place fits into 32 bits");
        self.nodes.push(Node { value, older: NIL, newer: NIL });
        self.link_newest(at);
        at
    }

    /// A value becomes the most recently referenced.
    #[inline]
    pub(crate) fn reference(&mut self, at: u32) {
        if at != self.newest {
            self.unlink(at);
            self.link_newest(at);
        }
    }

    /// Removes a value and returns it. If there is a value at `at` afterwards, it came from the last place.
    pub(crate) fn remove(&mut self, at: u32) -> T {
        self.unlink(at);
        let gone = self.nodes.swap_remove(at as usize);
        if let Some(&Node { older, newer, .. }) = self.nodes.get(at as usize) {
            *self.newer_of(older) = at;
            *self.older_of(newer) = at;
        }
        gone.value
    }

    pub(crate) fn clear(&mut self) {
        self.nodes.clear();
        (self.oldest, self.newest) = (NIL, NIL);
    }

    fn unlink(&mut self, at: u32) {
        let Node { older, newer, .. } = self.nodes[at as usize];
        *self.newer_of(older) = newer;
        *self.older_of(newer) = older;
    }

    fn link_newest(&mut self, at: u32) {
        let older = std::mem::replace(&mut self.newest, at);
        *self.newer_of(older) = at;
        let node = &mut self.nodes[at as usize];
        (node.older, node.newer) = (older, NIL);
    }

    /// The link from a value to the next newer one, or the beginning of the list.
    fn newer_of(&mut self, at: u32) -> &mut u32 {
        if at == NIL { &mut self.oldest } else { &mut self.nodes[at as usize].newer }
    }

    /// The link from a value to the next older one, or the end of the list.
    fn older_of(&mut self, at: u32) -> &mut u32 {
        if at == NIL { &mut self.newest } else { &mut self.nodes[at as usize].older }
    }
}

impl<T> Index<u32> for Lru<T> {
    type Output = T;

    fn index(&self, at: u32) -> &T {
        &self.nodes[at as usize].value
    }
}

impl<T> IndexMut<u32> for Lru<T> {
    fn index_mut(&mut self, at: u32) -> &mut T {
        &mut self.nodes[at as usize].value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a vector in the order of references.
        #[test]
        fn is_in_the_order_of_references(steps in prop::collection::vec((0u8..3, any::<u32>()), 1..100)) {
            let (mut list, mut plain) = (Lru::new(), Vec::new());
            for (number, (operation, at)) in steps.into_iter().enumerate() {
                if operation == 0 || plain.is_empty() {
                    prop_assert_eq!(list.push(number), plain.len() as u32);
                    plain.push(number);
                } else {
                    let at = at % plain.len() as u32;
                    let value = list[at];
                    plain.retain(|&other| other != value);
                    if operation == 1 {
                        list.reference(at);
                        plain.push(value);
                    } else {
                        prop_assert_eq!(list.remove(at), value);
                    }
                }
                prop_assert_eq!(list.iter().copied().collect::<Vec<_>>(), plain.clone());
                prop_assert_eq!(list.oldest().map(|at| list[at]), plain.first().copied());
                prop_assert_eq!(list.len(), plain.len());
                prop_assert!(list.get(list.len() as u32).is_none());
            }
            list.clear();
            prop_assert_eq!((list.len(), list.oldest()), (0, None));
        }
    }
}
