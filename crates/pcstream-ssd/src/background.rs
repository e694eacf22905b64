//! GC in the background, between two watermarks of free superblocks.
//!
//! Idea. GC in the foreground starts when a superblock is needed and none can be had: the write that needs
//! it waits. Background GC starts earlier, when fewer than `low` superblocks are free, and goes on until
//! `high` are, one victim at a time with host writes between them: it earns two free pages for each that
//! the host writes, so a victim that gained g pages is followed by the next after g/2 pages of the host.
//! If it cannot keep up, the foreground takes over.
//!
//! The rule counts host pages and not time, so that decisions (and WAF) are the same with and without
//! the timing layer. Free superblocks that wait are spare space that GC cannot use: WAF rises with `high`.

/// Free superblocks at which background GC starts and stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct Watermarks {
    /// Starts when fewer are free; at least 2, since at 1 the foreground is at work anyway.
    pub low: u32,
    /// Stops when as many are free; at least `low`.
    pub high: u32,
}

/// Free pages that background GC gains for each page of the host.
const GAIN_PER_HOST_PAGE: u32 = 2;

/// `Background::pages_left` while it rests.
const RESTS: u32 = u32::MAX;

/// When the next victim is due.
pub(crate) struct Background {
    watermarks: Option<Watermarks>,
    /// Host pages until the next victim, or `RESTS`.
    pages_left: u32,
}

impl Background {
    pub(crate) fn new(watermarks: Option<Watermarks>) -> Background {
        Background { watermarks, pages_left: RESTS }
    }

    /// Most pages that the host may write before `wrote` is called.
    #[inline(always)]
    pub(crate) fn pages_left(&self) -> u32 {
        self.pages_left
    }

    /// The host wrote `pages`; returns whether a victim is due.
    #[inline(always)]
    pub(crate) fn wrote(&mut self, pages: u32) -> bool {
        if self.pages_left == RESTS {
            return false;
        }
        self.pages_left -= pages;
        self.pages_left == 0
    }

    /// A superblock was opened and left `free` ones: work starts with the next page of the host.
    pub(crate) fn opened(&mut self, free: u32) {
        if self.pages_left == RESTS && self.watermarks.is_some_and(|w| free < w.low) {
            self.pages_left = 1;
        }
    }

    /// Whether to stop at `free` superblocks; if so, it rests.
    pub(crate) fn is_done(&mut self, free: u32) -> bool {
        let done = self.watermarks.is_none_or(|w| free >= w.high);
        if done {
            self.pages_left = RESTS;
        }
        done
    }

    /// A victim gained `pages`: sets when the next one is due.
    pub(crate) fn gained(&mut self, pages: u32) {
        self.pages_left = (pages / GAIN_PER_HOST_PAGE).max(1);
    }
}
