//! What became of the lines of an input: counts, volumes, and why a line was refused.

use std::collections::BTreeMap;
use std::fmt;

use super::cells::{BadLine, quote};

/// Volumes that are counted by name.
const MAX_VOLUMES: usize = 4096;

/// Volumes that a message names.
const NAMED_VOLUMES: usize = 10;

/// Why a line was not imported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// The line is not what it should be. The importer remains usable: the line may be skipped.
    #[error(transparent)]
    Bad(#[from] BadLine),
    /// The line is of a second volume, and none was chosen. The importer has to be given up, but
    /// `survey` still tells the volumes of further lines.
    #[error(
        "more than one {what}: {volumes}; a trace is of one device: choose one with --volume (--list-volumes prints all)"
    )]
    Volumes {
        /// What tells volumes apart.
        what: &'static str,
        /// The volumes so far.
        volumes: Volumes,
    },
}

/// What became of the lines so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lines, of every kind.
    pub lines: u64,
    /// Lines that carry no request.
    pub other_lines: u64,
    /// Of these: headings and empty lines, which are no loss. They have no digit.
    pub headings: u64,
    /// Lines that were refused.
    pub bad_lines: u64,
    /// Requests of volumes that were not chosen.
    pub other_volumes: u64,
    /// Requests of no bytes, which were dropped.
    pub zero_length: u64,
    /// Writes that begin or end within a page, which count as writes of the whole page.
    pub partial_writes: u64,
    /// Bytes that all writes asked for.
    pub written_bytes: u64,
    /// Discards of less than a whole page, which were dropped.
    pub short_discards: u64,
    /// Requests earlier than the one before, which took its time.
    pub clamped_times: u64,
    /// The most by which one of them was moved.
    pub most_clamped_ns: u64,
    /// Writes imported.
    pub writes: u64,
    /// Reads imported.
    pub reads: u64,
    /// Discards imported.
    pub discards: u64,
    /// Barriers imported.
    pub flushes: u64,
}

impl Counts {
    /// Requests imported.
    pub fn requests(&self) -> u64 {
        self.writes + self.reads + self.discards + self.flushes
    }
}

/// Requests by volume: of the first 4096 volumes, and of all others together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Volumes {
    requests: BTreeMap<String, u64>,
    further: u64,
}

impl Volumes {
    pub(super) fn add(&mut self, volume: &str) {
        if let Some(requests) = self.requests.get_mut(volume) {
            *requests += 1;
        } else if self.requests.len() < MAX_VOLUMES {
            self.requests.insert(volume.to_owned(), 1);
        } else {
            self.further += 1;
        }
    }

    /// Requests of all.
    pub fn requests(&self) -> u64 {
        self.requests.values().sum::<u64>() + self.further
    }

    /// Volume and requests, the busiest first.
    pub fn by_requests(&self) -> Vec<(&str, u64)> {
        let mut volumes: Vec<(&str, u64)> = self.requests.iter().map(|(v, &n)| (v.as_str(), n)).collect();
        volumes.sort_by_key(|&(_, requests)| std::cmp::Reverse(requests));
        volumes
    }
}

impl fmt::Display for Volumes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let volumes = self.by_requests();
        for (i, (volume, requests)) in volumes.iter().take(NAMED_VOLUMES).enumerate() {
            let separator = if i == 0 { "" } else { ", " };
            write!(f, "{separator}{} ({requests} request{})", quote(volume.as_bytes()), plural(*requests))?;
        }
        let more = volumes.len().saturating_sub(NAMED_VOLUMES);
        match (more, self.further) {
            (0, _) => Ok(()),
            (more, 0) => write!(f, " and {more} more"),
            (more, _) => write!(f, " and more than {more} more"),
        }
    }
}

fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_are_counted_within_bounds() {
        let mut volumes = Volumes::default();
        (0..2 * MAX_VOLUMES).for_each(|i| volumes.add(&i.to_string()));
        assert_eq!((volumes.requests.len(), volumes.further), (MAX_VOLUMES, MAX_VOLUMES as u64));
        assert!(volumes.to_string().ends_with("and more than 4086 more"), "{volumes}");
    }
}
