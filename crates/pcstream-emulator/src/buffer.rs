//! The device's write buffer: pages that arrived, in order, waiting for their streams.
//!
//! Idea: a write reaches a loop device without a stream, and who knows the stream (the capture in user space) tells
//! it a moment later. Until then the page waits here, as it would in an SSD's memory, and is programmed with its
//! stream. So nobody waits for anybody, and every page gets exactly the stream that was chosen for it.
//!
//! Pages and streams of one logical page come in the same order, as the block layer never has two
//! writes of one page under way at once; across pages the orders may differ.
//!
//! Invariants: a fixed number of pages; they leave in the order of arrival. All memory is taken when the buffer is made,
//! but for one entry per page that was programmed before its stream was known.
//!
//! Known weakness: if a stream is lost, the next one of that page is taken for it, and ignored.

use std::collections::VecDeque;

use pcstream_ssd::{LogicalPage, StreamId};
use rustc_hash::FxHashMap;

use crate::PAGE;

/// No stream, in `early`.
const NONE: u8 = u8::MAX;

/// A page in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Which.
    pub page: LogicalPage,
    /// Its stream, once assigned.
    pub stream: Option<StreamId>,
    /// Whether it was discarded after it was written.
    pub discarded: bool,
    /// The next write of the same page.
    next: Option<u64>,
}

/// The buffer. Entries have serial numbers; entry n lies in slot n modulo the capacity.
#[derive(Debug)]
pub struct Buffer {
    data: Vec<u8>,
    entries: VecDeque<Pending>,
    /// Serial number of the first entry.
    head: u64,
    capacity: usize,
    /// The last write of each page in the buffer.
    last: FxHashMap<u64, u64>,
    /// The first write of each page that has no stream yet.
    waiting: FxHashMap<u64, u64>,
    /// Streams assigned before the page arrived, by page.
    early: Vec<u8>,
    /// Writes that left without a stream, by page: that many streams still to come are for them.
    left: FxHashMap<u64, u32>,
}

impl Buffer {
    /// Room for `capacity` pages, at least 1, of a device of `logical_pages`.
    pub fn new(capacity: usize, logical_pages: u64) -> Buffer {
        let capacity = capacity.max(1);
        let map = || FxHashMap::with_capacity_and_hasher(2 * capacity, Default::default());
        Buffer {
            data: vec![0; capacity * PAGE],
            entries: VecDeque::with_capacity(capacity),
            head: 0,
            capacity,
            last: map(),
            waiting: map(),
            early: vec![NONE; logical_pages as usize],
            left: FxHashMap::default(),
        }
    }

    /// Forgets all pages and streams. Its memory stays: what is locked must not be taken again while the device serves.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.head = 0;
        self.last.clear();
        self.waiting.clear();
        self.early.fill(NONE);
        self.left.clear();
    }

    /// Whether nothing more fits.
    pub fn is_full(&self) -> bool {
        self.entries.len() == self.capacity
    }

    /// Pages that it has room for.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Pages in it.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn entry(&mut self, serial: u64) -> &mut Pending {
        &mut self.entries[(serial - self.head) as usize]
    }

    fn slot(&self, serial: u64) -> usize {
        (serial % self.capacity as u64) as usize * PAGE
    }

    /// Adds a page; there must be room.
    pub fn push(&mut self, page: LogicalPage, data: &[u8]) {
        assert!(!self.is_full(), "the caller makes room");
        let serial = self.head + self.entries.len() as u64;
        let at = self.slot(serial);
        self.data[at..at + PAGE].copy_from_slice(data);
        let early = std::mem::replace(&mut self.early[page.0 as usize], NONE);
        let stream = (early != NONE).then_some(StreamId(early));
        self.entries.push_back(Pending { page, stream, discarded: false, next: None });
        if let Some(before) = self.last.insert(page.0, serial) {
            self.entry(before).next = Some(serial);
        }
        if stream.is_none() {
            self.waiting.entry(page.0).or_insert(serial);
        }
    }

    /// Assigns the stream of the page's first write that has none, or of the next to arrive.
    pub fn assign(&mut self, page: LogicalPage, stream: StreamId) {
        if let Some(left) = self.left.get_mut(&page.0) {
            *left -= 1;
            if *left == 0 {
                self.left.remove(&page.0);
            }
            return;
        }
        let Some(serial) = self.waiting.remove(&page.0) else {
            self.early[page.0 as usize] = stream.0;
            return;
        };
        let entry = self.entry(serial);
        entry.stream = Some(stream);
        if let Some(next) = entry.next {
            self.waiting.insert(page.0, next);
        }
    }

    /// The last write of this page, if it is in the buffer: its data, or `None` within if it was discarded since.
    pub fn get(&self, page: LogicalPage) -> Option<Option<&[u8]>> {
        let serial = *self.last.get(&page.0)?;
        let at = self.slot(serial);
        let discarded = self.entries[(serial - self.head) as usize].discarded;
        Some((!discarded).then(|| &self.data[at..at + PAGE]))
    }

    /// The pages no longer hold data. The last write of a page in the buffer is programmed, and discarded then. Returns all
    /// other pages, by runs.
    pub fn discard(&mut self, first: LogicalPage, pages: u64) -> Vec<(LogicalPage, u64)> {
        let range = first.0..first.0 + pages;
        let mut here = Vec::new();
        for (serial, entry) in (self.head..).zip(&mut self.entries) {
            if range.contains(&entry.page.0) && self.last.get(&entry.page.0) == Some(&serial) {
                entry.discarded = true;
                here.push(entry.page.0);
            }
        }
        here.sort_unstable();
        here.push(range.end);
        let begins = std::iter::once(range.start).chain(here.iter().map(|page| page + 1));
        let runs = begins.zip(&here).filter(|(begin, end)| begin < end);
        runs.map(|(begin, &end)| (LogicalPage(begin), end - begin)).collect()
    }

    /// The pages at the head that can be programmed as one write: consecutive, of one stream, in one
    /// piece of memory. `None` if the head waits for its stream; with `force` it goes to S0.
    pub fn run(&self, force: bool) -> Option<(Pending, &[u8])> {
        let head = *self.entries.front()?;
        let stream = match head.stream {
            Some(stream) => stream,
            None if force => StreamId::DEFAULT,
            None => return None,
        };
        let first = Pending { stream: Some(stream), ..head };
        let to_wrap = self.capacity - (self.head % self.capacity as u64) as usize;
        let joins = |(i, e): &(usize, &Pending)| {
            e.page.0 == head.page.0 + *i as u64 && e.stream == head.stream && e.discarded == head.discarded
        };
        let whole = head.stream.is_some();
        let pages =
            if whole { self.entries.iter().enumerate().take(to_wrap).take_while(joins).count() } else { 1 };
        let at = self.slot(self.head);
        Some((first, &self.data[at..at + pages * PAGE]))
    }

    /// Removes `pages` pages from the head. Returns how many of them had no stream.
    pub fn pop(&mut self, pages: usize) -> u64 {
        let mut unassigned = 0;
        for _ in 0..pages {
            let entry = self.entries.pop_front().expect("the caller has seen it");
            let page = entry.page.0;
            if self.last.get(&page) == Some(&self.head) {
                self.last.remove(&page);
            }
            if entry.stream.is_none() {
                unassigned += 1;
                self.waiting.remove(&page);
                if let Some(next) = entry.next {
                    self.waiting.insert(page, next);
                }
                *self.left.entry(page).or_default() += 1;
            }
            self.head += 1;
        }
        unassigned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(n: u64) -> LogicalPage {
        LogicalPage(n)
    }

    fn bytes(value: u8) -> Vec<u8> {
        vec![value; PAGE]
    }

    #[test]
    fn pages_wait_for_their_streams_in_order() {
        let mut buffer = Buffer::new(4, 10);
        buffer.assign(page(3), StreamId(2));
        for (n, value) in [(5, 1), (3, 2), (4, 3), (5, 4)] {
            buffer.push(page(n), &bytes(value));
        }
        assert!(buffer.is_full() && buffer.run(false).is_none());
        buffer.assign(page(5), StreamId(1));
        let (first, data) = buffer.run(false).expect("the head has its stream");
        assert_eq!((first.page, first.stream, data), (page(5), Some(StreamId(1)), &bytes(1)[..]));
        assert_eq!(buffer.pop(1), 0);
        buffer.assign(page(4), StreamId(2));
        let (first, data) = buffer.run(false).expect("assigned early");
        assert_eq!((first.page, data.len()), (page(3), 2 * PAGE), "one run of stream 2");
        assert_eq!(buffer.pop(2), 0);
        assert_eq!(buffer.get(page(5)), Some(Some(&bytes(4)[..])));
        assert!(buffer.run(false).is_none(), "the second write of page 5 has a stream of its own");
        buffer.assign(page(5), StreamId(0));
        assert!(buffer.run(false).is_some());
    }

    #[test]
    fn a_stream_that_comes_too_late_is_not_taken_for_the_next() {
        let mut buffer = Buffer::new(2, 10);
        buffer.push(page(1), &bytes(1));
        assert_eq!(buffer.run(true).expect("forced").0.stream, Some(StreamId::DEFAULT));
        assert_eq!(buffer.pop(1), 1);
        buffer.assign(page(1), StreamId(7));
        buffer.push(page(1), &bytes(2));
        assert!(buffer.run(false).is_none());
        buffer.assign(page(1), StreamId(6));
        assert_eq!(buffer.run(false).expect("assigned").0.stream, Some(StreamId(6)));
    }

    #[test]
    fn a_cleared_buffer_is_as_a_new_one_in_the_same_memory() {
        let mut buffer = Buffer::new(2, 10);
        let memory = |buffer: &Buffer| (buffer.data.as_ptr(), buffer.early.as_ptr(), buffer.last.capacity());
        let before = memory(&buffer);
        buffer.push(page(1), &bytes(1));
        buffer.pop(1);
        buffer.push(page(2), &bytes(2));
        buffer.assign(page(3), StreamId(4));
        buffer.clear();
        assert_eq!(memory(&buffer), before);
        assert!(buffer.is_empty() && buffer.get(page(2)).is_none());
        for n in [1, 3] {
            buffer.push(page(n), &bytes(3));
        }
        assert!(buffer.run(false).is_none(), "no stream was assigned");
        buffer.assign(page(1), StreamId(5));
        assert_eq!(buffer.run(false).expect("it was its first").0.stream, Some(StreamId(5)));
        buffer.pop(1);
        assert!(buffer.run(false).is_none(), "what was assigned early is forgotten");
    }

    #[test]
    fn what_was_discarded_is_not_read() {
        let mut buffer = Buffer::new(3, 10);
        buffer.push(page(1), &bytes(1));
        assert_eq!(buffer.discard(page(0), 10), [(page(0), 1), (page(2), 8)]);
        assert_eq!(buffer.get(page(1)), Some(None));
        buffer.push(page(1), &bytes(2));
        assert_eq!(buffer.get(page(1)), Some(Some(&bytes(2)[..])));
        assert_eq!(buffer.discard(page(1), 1), []);
        assert_eq!(buffer.discard(page(2), 2), [(page(2), 2)]);
        assert!(buffer.run(true).expect("forced").0.discarded);
    }
}
