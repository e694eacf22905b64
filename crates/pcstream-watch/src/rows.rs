//! What a watch counts for each row: pages by interval and in all, kinds, files, lifetimes.
//!
//! Units: pages of 4 KiB; time since the watch began.

use std::collections::VecDeque;
use std::time::Duration;

use pcstream_placement::Stream;
use pcstream_trace::{Kind, PAGE_BYTES};

use crate::lifetimes::RecentLifetimes;
use crate::snapshot::Flow;
use crate::top_files::TopFiles;

/// Pages of the running interval, of those before, and of all.
#[derive(Clone, Debug, Default)]
pub struct Count {
    now: u64,
    pub total: u64,
    history: VecDeque<u64>,
}

impl Count {
    /// More pages of the running interval.
    pub fn add(&mut self, pages: u64) {
        self.now += pages;
        self.total += pages;
    }

    /// Adds what another counted in the same intervals.
    pub fn merge(&mut self, other: &Count) {
        self.now += other.now;
        self.total += other.total;
        while self.history.len() < other.history.len() {
            self.history.push_front(0);
        }
        let newest = self.history.iter_mut().rev().zip(other.history.iter().rev());
        newest.for_each(|(pages, more)| *pages += more);
    }

    /// Ends the running interval; so many are kept.
    pub fn tick(&mut self, intervals: usize) {
        self.history.push_back(std::mem::take(&mut self.now));
        keep_last(&mut self.history, intervals);
    }

    /// Pages of the last intervals.
    pub fn last(&self, intervals: usize) -> u64 {
        self.history.iter().rev().take(intervals).sum()
    }

    /// `lengths`: those of the intervals, the last one last. A row that is younger than they are was silent before.
    pub fn flow(&self, lengths: &VecDeque<Duration>, window: usize) -> Flow {
        let time: Duration = lengths.iter().rev().take(window).sum();
        let newest = lengths.iter().rev().zip(self.history.iter().rev());
        let mut history: Vec<f64> = newest.map(|(length, pages)| rate(*pages, *length)).collect();
        history.resize(lengths.len(), 0.0);
        history.reverse();
        Flow {
            pages: self.history.back().copied().unwrap_or(0),
            total_pages: self.total,
            rate: rate(self.last(window), time),
            history,
        }
    }
}

fn rate(pages: u64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { (pages * PAGE_BYTES) as f64 / time.as_secs_f64() }
}

/// What is known of who writes.
#[derive(Debug)]
pub struct Row {
    pub count: Count,
    pub pages_by_kind: [u64; Kind::ALL.len()],
    pub lifetimes: RecentLifetimes,
    pub files: TopFiles,
    pub stream: Option<Stream>,
    pub first: Duration,
    pub last: Duration,
}

impl Row {
    /// Of one that begins to write at this time.
    pub fn new(first: Duration) -> Row {
        Row {
            count: Count::default(),
            pages_by_kind: Default::default(),
            lifetimes: RecentLifetimes::default(),
            files: TopFiles::default(),
            stream: None,
            first,
            last: first,
        }
    }

    /// Counts what a row that goes has counted.
    pub fn take_over(&mut self, gone: &Row) {
        self.count.merge(&gone.count);
        self.pages_by_kind.iter_mut().zip(&gone.pages_by_kind).for_each(|(pages, more)| *pages += more);
        self.first = self.first.min(gone.first);
        self.last = self.last.max(gone.last);
    }
}

/// Drops the oldest, so that at most `most` are left.
pub fn keep_last<T>(values: &mut VecDeque<T>, most: usize) {
    let excess = values.len().saturating_sub(most);
    values.drain(..excess);
}
