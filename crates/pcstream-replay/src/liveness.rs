//! Which pages live, since when, and who wrote them: the part of a replay that is the same for every
//! scheme, done once per batch for all lanes.
//!
//! Units: logical time in pages written by the host. Page i of a write that begins at time t is
//! written at t + i, so cutting a request into two events changes nothing. A lifetime is the logical
//! time from a page's write to its overwrite or discard, the write itself included: at least 1.
//!
//! State: 8 bytes per logical page, zero (and untouched memory) for pages never written. Prefilled
//! pages have no known write time, so overwriting one ends no lifetime.

use pcstream_ssd::{Density, OutOfMemory, Table};
use pcstream_trace::ContextId;

/// Bits of a cell for the time: 2^40 pages are 4 PiB of host writes.
const TIME_BITS: u32 = 40;
/// Longest logical time that a cell can hold.
pub const MAX_TIME: u64 = (1 << TIME_BITS) - 2;
/// Largest context id that a cell can hold.
pub const MAX_CONTEXT: u32 = (1 << (64 - TIME_BITS)) - 1;

/// Consecutive pages whose lifetimes end together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// First page.
    pub first: u64,
    /// Number of pages.
    pub pages: u32,
    /// Lifetime of the first page.
    pub lifetime: u64,
    /// Whether each next page lived one page shorter, as when a sequential write is discarded;
    /// otherwise all lived equally long.
    pub falling: bool,
    /// Who had written the pages.
    pub context: ContextId,
}

impl Ended {
    /// Lifetime of the page `index` pages after the first.
    pub fn lifetime_at(&self, index: u32) -> u64 {
        self.lifetime - if self.falling { u64::from(index) } else { 0 }
    }

    /// Takes in the next page if it continues the run.
    fn extend(&mut self, page: u64, lifetime: u64, context: ContextId) -> bool {
        if page != self.first + u64::from(self.pages) || context != self.context || self.pages == u32::MAX {
            return false;
        }
        if self.pages == 1 && lifetime + 1 == self.lifetime {
            self.falling = true;
        } else if lifetime != self.lifetime_at(self.pages) {
            return false;
        }
        self.pages += 1;
        true
    }
}

/// Write time and writer of every live page.
#[derive(Debug)]
pub struct Liveness {
    /// Zero: not written (or discarded since). Else time + 1 in the low bits, context above.
    cells: Table<u64>,
}

impl Liveness {
    /// No page of the device is alive; `density` says how much of it will be written.
    pub fn new(logical_pages: u64, density: Density) -> Result<Liveness, OutOfMemory> {
        Ok(Liveness { cells: Table::zeroed(logical_pages, density)? })
    }

    /// Asks the processor for the cell of a page that will be written soon.
    #[inline(always)]
    pub fn prefetch(&self, page: u64) {
        pcstream_ssd::memory::prefetch(&self.cells, page as usize);
    }

    /// Pages from `first` on are written by `context`, beginning at `now`. Lifetimes that end are
    /// appended to `ended`.
    pub fn write(&mut self, first: u64, pages: u32, context: ContextId, now: u64, ended: &mut Vec<Ended>) {
        assert!(context.0 <= MAX_CONTEXT && now + u64::from(pages) <= MAX_TIME, "checked by the caller");
        let begin = ended.len();
        for index in 0..u64::from(pages) {
            let cell = &mut self.cells[(first + index) as usize];
            end(begin, *cell, first + index, now + index, ended);
            *cell = u64::from(context.0) << TIME_BITS | (now + index + 1);
        }
    }

    /// Pages from `first` on hold nothing any more. Lifetimes that end are appended to `ended`.
    pub fn discard(&mut self, first: u64, pages: u32, now: u64, ended: &mut Vec<Ended>) {
        let begin = ended.len();
        for index in 0..u64::from(pages) {
            let cell = &mut self.cells[(first + index) as usize];
            if *cell != 0 {
                end(begin, *cell, first + index, now, ended);
                *cell = 0;
            }
        }
    }
}

/// Ends the lifetime in `cell`, if there is one; runs before index `begin` belong to other events.
fn end(begin: usize, cell: u64, page: u64, now: u64, ended: &mut Vec<Ended>) {
    if cell == 0 {
        return;
    }
    let written = (cell & ((1 << TIME_BITS) - 1)) - 1;
    let context = ContextId((cell >> TIME_BITS) as u32);
    let lifetime = now - written;
    debug_assert!(lifetime > 0, "page {page} ends at {now} and was written at {written}");
    if ended[begin..].last_mut().is_some_and(|run| run.extend(page, lifetime, context)) {
        return;
    }
    ended.push(Ended { first: page, pages: 1, lifetime, falling: false, context });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn live(logical_pages: u64) -> Liveness {
        Liveness::new(logical_pages, Density::Dense).unwrap()
    }

    const A: ContextId = ContextId(1);
    const B: ContextId = ContextId(2);

    #[test]
    fn sequential_overwrite_is_one_run() {
        let (mut live, mut ended) = (live(100), Vec::new());
        live.write(0, 50, A, 0, &mut ended);
        assert!(ended.is_empty());
        live.write(0, 50, B, 50, &mut ended);
        assert_eq!(ended, [Ended { first: 0, pages: 50, lifetime: 50, falling: false, context: A }]);
    }

    #[test]
    fn discard_of_a_sequential_write_is_one_falling_run() {
        let (mut live, mut ended) = (live(100), Vec::new());
        live.write(10, 5, A, 7, &mut ended);
        live.discard(0, 100, 12, &mut ended);
        assert_eq!(ended, [Ended { first: 10, pages: 5, lifetime: 5, falling: true, context: A }]);
        assert_eq!(ended[0].lifetime_at(4), 1, "the last page written dies at once");
        ended.clear();
        live.discard(0, 100, 12, &mut ended);
        assert!(ended.is_empty(), "a page dies once");
    }

    #[test]
    fn largest_context_and_time_fit() {
        let (mut live, mut ended) = (live(2), Vec::new());
        live.write(0, 1, ContextId(MAX_CONTEXT), MAX_TIME - 1, &mut ended);
        live.discard(0, 1, MAX_TIME, &mut ended);
        assert_eq!((ended[0].lifetime, ended[0].context), (1, ContextId(MAX_CONTEXT)));
    }

    proptest! {
        /// Against a map from page to (time, context), whatever the runs are.
        #[test]
        fn agrees_with_the_obvious_way(
            ops in prop::collection::vec((any::<bool>(), 0u64..40, 1u32..12, 1u32..4), 1..60),
        ) {
            let mut live = live(64);
            let mut obvious = std::collections::BTreeMap::new();
            let mut now = 0u64;
            for (write, first, pages, context) in ops {
                let (mut ended, mut expected) = (Vec::new(), Vec::new());
                for index in 0..u64::from(pages) {
                    let at = if write { now + index } else { now };
                    let old = if write {
                        obvious.insert(first + index, (at, context))
                    } else {
                        obvious.remove(&(first + index))
                    };
                    expected.extend(old.map(|(t, c): (u64, u32)| (first + index, at - t, c)));
                }
                if write {
                    live.write(first, pages, ContextId(context), now, &mut ended);
                    now += u64::from(pages);
                } else {
                    live.discard(first, pages, now, &mut ended);
                }
                let got: Vec<_> = ended
                    .iter()
                    .flat_map(|r| (0..r.pages).map(|i| (r.first + u64::from(i), r.lifetime_at(i), r.context.0)))
                    .collect();
                prop_assert_eq!(got, expected);
            }
        }
    }
}
