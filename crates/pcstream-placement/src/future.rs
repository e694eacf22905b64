//! The future of a trace: when each page written will die. Only the oracles are shown it.
//!
//! Idea: one pass over the events before the replay. Each written page gets the next number of
//! logical time (the first page written is 0); a table keeps which write last filled each
//! address; an overwrite or a discard fills in the death of that write.
//!
//! Units: logical time. A page overwritten by the write of number n dies at n; a page discarded
//! when n pages have been written dies at n. Its remaining lifetime when written at w is n - w >= 1.
//!
//! Memory: 4 bytes per page written, and 4 per page of address space touched, in groups of 512
//! pages; the latter is freed when the pass ends. Hence at most 2^32 - 2 pages (16 TiB) written.

use pcstream_trace::{Event, Op};
use rustc_hash::FxHashMap;

const GROUP: u64 = 512;
/// No write; no death.
const NEVER: u32 = u32::MAX;

/// More than a `Future` can number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "event {event}: {pages} pages were written, an oracle can follow {limit}; cut the trace or leave the oracles out"
)]
pub struct FutureTooLong {
    /// The event that goes beyond, from 0.
    pub event: u64,
    /// Pages written with it.
    pub pages: u64,
    /// The most that can be followed.
    pub limit: u64,
}

/// When each written page dies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Future {
    deaths: Vec<u32>,
}

impl Future {
    /// Of all events of a trace, in order.
    pub fn from_events<'a>(events: impl IntoIterator<Item = &'a Event>) -> Result<Future, FutureTooLong> {
        let mut builder = FutureBuilder::default();
        for event in events {
            builder.push(event)?;
        }
        Ok(builder.finish())
    }

    /// Pages written in the trace.
    pub fn pages(&self) -> u64 {
        self.deaths.len() as u64
    }

    /// The logical time at which the page written at `written` dies; `None` if it survives the
    /// trace, or if no page was written then.
    #[inline]
    pub fn death(&self, written: u64) -> Option<u64> {
        let at = usize::try_from(written).ok()?;
        self.deaths.get(at).copied().filter(|&d| d != NEVER).map(u64::from)
    }

    /// Remaining lifetimes of at most `most` pages, evenly spaced over the trace; `None` for pages
    /// that survive.
    pub(crate) fn sample(&self, most: usize) -> impl Iterator<Item = Option<u64>> {
        let step = self.deaths.len().div_ceil(most).max(1);
        (0..self.deaths.len()).step_by(step).map(|w| self.death(w as u64).map(|d| d - w as u64))
    }
}

/// Builds a [`Future`] from events that come in pieces.
#[derive(Default)]
pub struct FutureBuilder {
    deaths: Vec<u32>,
    events: u64,
    /// Group of addresses to its place in `groups`.
    index: FxHashMap<u64, u32>,
    /// The write that filled each address, NEVER if none.
    groups: Vec<[u32; GROUP as usize]>,
    /// The group used last.
    last: Option<(u64, u32)>,
}

impl FutureBuilder {
    /// Takes the next event.
    pub fn push(&mut self, event: &Event) -> Result<(), FutureTooLong> {
        match event.op {
            Op::Write => self.write(event)?,
            Op::Discard | Op::WriteZeroes => self.discard(event),
            Op::Read | Op::Flush | Op::Exit => {}
        }
        self.events += 1;
        Ok(())
    }

    /// The future; pages alive now survive.
    pub fn finish(self) -> Future {
        Future { deaths: self.deaths }
    }

    fn write(&mut self, event: &Event) -> Result<(), FutureTooLong> {
        let (now, limit) = (self.deaths.len() as u64, u64::from(NEVER) - 1);
        let pages = now + u64::from(event.pages);
        if pages > limit {
            return Err(FutureTooLong { event: self.events, pages, limit });
        }
        for (page, written) in (0..u64::from(event.pages)).zip(now..) {
            let lba = event.lba.0.wrapping_add(page);
            let group = self.group(lba / GROUP);
            let slot = &mut self.groups[group as usize][(lba % GROUP) as usize];
            let before = std::mem::replace(slot, written as u32);
            if before != NEVER {
                self.deaths[before as usize] = written as u32;
            }
            self.deaths.push(NEVER);
        }
        Ok(())
    }

    fn discard(&mut self, event: &Event) {
        if event.pages == 0 {
            return;
        }
        let now = self.deaths.len() as u32;
        let (first, last) = (event.lba.0, event.lba.0.saturating_add(u64::from(event.pages) - 1));
        let (first_group, last_group) = (first / GROUP, last / GROUP);
        // All pages die at the same time, so the order in which groups are visited does not matter.
        if last_group - first_group >= self.index.len() as u64 {
            for (&group, &at) in &self.index {
                if (first_group..=last_group).contains(&group) {
                    kill(&mut self.deaths, &mut self.groups[at as usize], group, first, last, now);
                }
            }
        } else {
            for group in first_group..=last_group {
                if let Some(&at) = self.index.get(&group) {
                    kill(&mut self.deaths, &mut self.groups[at as usize], group, first, last, now);
                }
            }
        }
    }

    #[inline]
    fn group(&mut self, group: u64) -> u32 {
        if let Some((last, at)) = self.last
            && last == group
        {
            return at;
        }
        let next = self.groups.len() as u32;
        let at = *self.index.entry(group).or_insert(next);
        if at == next {
            self.groups.push([NEVER; GROUP as usize]);
        }
        self.last = Some((group, at));
        at
    }
}

/// Ends the writes in those pages of a group that lie in `first..=last`.
fn kill(deaths: &mut [u32], slots: &mut [u32; GROUP as usize], group: u64, first: u64, last: u64, now: u32) {
    let begin = group * GROUP;
    let from = (first.max(begin) - begin) as usize;
    let to = (last.min(begin + (GROUP - 1)) - begin) as usize;
    for slot in &mut slots[from..=to] {
        let written = std::mem::replace(slot, NEVER);
        if written != NEVER {
            deaths[written as usize] = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{discard, write};
    use pcstream_trace::Lba;
    use proptest::prelude::*;

    #[test]
    fn deaths_by_hand() {
        let events = [
            write(10, 3),   // writes 0, 1, 2
            write(11, 1),   // write 3 kills write 1
            discard(0, 11), // kills write 0 at 4
            Event { op: Op::Read, ..write(11, 1) },
            write(10, 1),                                  // write 4
            Event { op: Op::WriteZeroes, ..write(10, 1) }, // kills write 4 at 5
            Event { op: Op::Flush, pages: 0, ..write(0, 1) },
            discard(10, 1), // nothing there any more
        ];
        let future = Future::from_events(&events).expect("short");
        assert_eq!(future.deaths, [4, 3, NEVER, NEVER, 5]);
        assert_eq!(
            (future.pages(), future.death(0), future.death(2), future.death(99)),
            (5, Some(4), None, None)
        );
        assert_eq!(future.sample(100).collect::<Vec<_>>(), [Some(4), Some(2), None, None, Some(1)]);
        assert_eq!(future.sample(2).collect::<Vec<_>>(), [Some(4), None]);
    }

    #[test]
    fn a_discard_of_everything_is_cheap_and_the_end_of_the_address_space_is_no_end() {
        let last = Lba(u64::MAX);
        let events = [
            write(5, 1),
            Event { lba: last, ..write(0, 1) },
            Event { lba: Lba(u64::MAX - 5), ..discard(0, u32::MAX) },
            discard(0, u32::MAX),
            discard(0, 0),
        ];
        assert_eq!(Future::from_events(&events).expect("short").deaths, [2, 2]);
    }

    #[test]
    fn a_trace_that_is_too_long_is_refused_before_memory_is_taken() {
        let mut builder = FutureBuilder::default();
        builder.push(&write(0, 7)).expect("short");
        let error = builder.push(&write(0, u32::MAX)).expect_err("too long");
        let expected = FutureTooLong { event: 1, pages: 4_294_967_302, limit: 4_294_967_294 };
        assert_eq!(error, expected);
    }

    proptest! {
        /// Against a search forward from every page written.
        #[test]
        fn agrees_with_looking_ahead(
            steps in prop::collection::vec((any::<bool>(), 0u64..1200, 1u32..700), 1..40),
        ) {
            let events: Vec<Event> =
                steps.iter().map(|&(w, l, p)| if w { write(l, p) } else { discard(l, p) }).collect();
            let mut written = Vec::new();
            for (i, e) in events.iter().enumerate().filter(|(_, e)| e.op == Op::Write) {
                written.extend((0..u64::from(e.pages)).map(|p| (i, e.lba.0 + p)));
            }
            let mut starts = Vec::new();
            let mut now = 0u64;
            for e in &events {
                starts.push(now);
                now += if e.op == Op::Write { u64::from(e.pages) } else { 0 };
            }
            let future = Future::from_events(&events).expect("short");
            prop_assert_eq!(future.pages(), now);
            for (w, &(i, lba)) in written.iter().enumerate() {
                let killer = events.iter().enumerate().skip(i + 1).find(|(_, e)| {
                    (e.lba.0..e.lba.0 + u64::from(e.pages)).contains(&lba)
                });
                let expected = killer.map(|(k, e)| match e.op {
                    Op::Write => starts[k] + (lba - e.lba.0),
                    _ => starts[k],
                });
                prop_assert_eq!(future.death(w as u64), expected);
            }
        }
    }
}
