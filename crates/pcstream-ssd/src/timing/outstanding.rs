//! Requests that a closed loop waits for.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// When they complete. Writes mostly complete in the order in which they arrive, for slots of the write buffer are given
/// in that order: those need no heap.
#[derive(Clone, Debug, Default)]
pub(super) struct Outstanding {
    /// Ascending.
    in_order: VecDeque<u64>,
    others: BinaryHeap<Reverse<u64>>,
}

impl Outstanding {
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.in_order.len() + self.others.len()
    }

    /// Adds a request that completes then.
    #[inline(always)]
    pub(super) fn push(&mut self, done: u64) {
        match self.in_order.back() {
            Some(&last) if last > done => self.others.push(Reverse(done)),
            _ => self.in_order.push_back(done),
        }
    }

    /// Removes the request that completes first, and returns when.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<u64> {
        match (self.in_order.front(), self.others.peek()) {
            (Some(&first), Some(&Reverse(other))) if other < first => self.pop_other(),
            (None, _) => self.pop_other(),
            _ => self.in_order.pop_front(),
        }
    }

    fn pop_other(&mut self) -> Option<u64> {
        self.others.pop().map(|Reverse(done)| done)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Outstanding;

    proptest! {
        #[test]
        fn the_first_to_complete_comes_out(times in prop::collection::vec(0..40u64, 1..200)) {
            let (mut outstanding, mut all) = (Outstanding::default(), Vec::new());
            for (now, time) in times.into_iter().enumerate() {
                let done = now as u64 + time;
                outstanding.push(done);
                all.push(done);
                prop_assert_eq!(outstanding.len(), all.len());
                if all.len() > 8 {
                    all.sort_unstable_by(|a, b| b.cmp(a));
                    prop_assert_eq!(outstanding.pop(), all.pop());
                }
            }
            all.sort_unstable_by(|a, b| b.cmp(a));
            while let Some(done) = outstanding.pop() {
                prop_assert_eq!(Some(done), all.pop());
            }
            prop_assert!(all.is_empty());
        }
    }
}
