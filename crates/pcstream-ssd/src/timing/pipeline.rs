//! A queue of fixed length, for what waits until as much has come after it.

/// At most `capacity` entries. Mostly full, so that one comes and one goes.
#[derive(Clone, Debug)]
pub(super) struct Pipeline<T> {
    /// The oldest entry is at `first`, `len - 1` others follow, cyclically. Places never used are not there yet.
    entries: Vec<T>,
    first: usize,
    len: usize,
    capacity: usize,
}

impl<T: Copy> Pipeline<T> {
    /// `capacity` is at least 1.
    pub(super) fn new(capacity: usize) -> Pipeline<T> {
        Pipeline { entries: Vec::with_capacity(capacity), first: 0, len: 0, capacity }
    }

    /// Appends an entry. If the pipeline was full, the oldest one comes out.
    #[inline(always)]
    pub(super) fn push(&mut self, entry: T) -> Option<T> {
        if self.len < self.capacity {
            self.append(entry);
            return None;
        }
        let oldest = std::mem::replace(&mut self.entries[self.first], entry);
        self.step();
        Some(oldest)
    }

    #[cold]
    fn append(&mut self, entry: T) {
        let at = (self.first + self.len) % self.capacity;
        match self.entries.get_mut(at) {
            Some(place) => *place = entry,
            None => self.entries.push(entry),
        }
        self.len += 1;
    }

    /// The oldest entry.
    pub(super) fn front(&self) -> Option<T> {
        (self.len > 0).then(|| self.entries[self.first])
    }

    /// Removes the oldest entry.
    pub(super) fn pop(&mut self) -> Option<T> {
        let oldest = self.front()?;
        self.step();
        self.len -= 1;
        Some(oldest)
    }

    #[inline(always)]
    fn step(&mut self) {
        self.first += 1;
        if self.first == self.capacity {
            self.first = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::Pipeline;

    proptest! {
        #[test]
        fn it_is_a_queue(capacity in 1..9usize, pops in prop::collection::vec(prop::bool::weighted(0.3), 1..200)) {
            let (mut pipeline, mut queue) = (Pipeline::new(capacity), VecDeque::new());
            for (number, pop) in pops.into_iter().enumerate() {
                if pop {
                    prop_assert_eq!(pipeline.pop(), queue.pop_front());
                } else {
                    queue.push_back(number);
                    let over = if queue.len() > capacity { queue.pop_front() } else { None };
                    prop_assert_eq!(pipeline.push(number), over);
                }
                prop_assert_eq!(pipeline.front(), queue.front().copied());
            }
        }
    }
}
