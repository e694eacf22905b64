//! Work of GC is issued: a share with each page of the host, more when the device is idle or out of room. Reads of
//! copies come from the backlog; complete units and erases pass through the pipeline.

use super::{Begun, Model, Piped};
use crate::timing::backlog::{Copies, Work};
use crate::timing::units::{Unit, UnitRead};

impl Model {
    /// Issues the share of the backlog that belongs to one page of the host.
    #[inline(always)]
    pub(super) fn issue_share(&mut self) {
        if self.backlog.is_empty() {
            return;
        }
        let share = self.backlog.len().div_ceil(self.gained_pages.max(1));
        self.gained_pages = self.gained_pages.saturating_sub(1);
        self.issue(share);
        if self.backlog.is_empty() {
            self.gained_pages = 0;
        }
    }

    /// Issues what of the backlog can begin before the next request arrives.
    pub(in crate::timing) fn use_idle_time(&mut self, arrival: u64) {
        self.clock = self.clock.max(self.latest_arrival);
        while let Some(work) = self.backlog.front() {
            let begin = match work {
                Work::Copies(copies) => {
                    let read = self.backlog.next_read(&copies, &self.units);
                    self.die_free[usize::from(self.units.place(copies.victim, read.within).die)]
                }
                Work::Erase { .. } => self.copies_read_at,
            };
            if begin.max(self.clock) >= arrival {
                return;
            }
            self.issue_one();
        }
        self.gained_pages = 0;
        while let Some(&(Piped::Program { ready, .. } | Piped::Erase { ready, .. })) = self.pipeline.front() {
            if ready.max(self.clock) >= arrival {
                return;
            }
            self.issue_first_piped();
        }
    }

    /// Issues the next `pieces` of the backlog, or all of it if there are fewer. The read of a unit is not cut.
    #[inline(always)]
    fn issue(&mut self, mut pieces: u32) {
        self.issue_while(|_, issued| {
            pieces = pieces.saturating_sub(issued);
            pieces > 0
        });
    }

    /// Issues a piece of the backlog and, while `more` says so and there are any, further ones. It is given how many
    /// were issued last.
    #[inline(always)]
    fn issue_while(&mut self, mut more: impl FnMut(&Model, u32) -> bool) {
        while let Some(work) = self.backlog.front() {
            match work {
                Work::Copies(mut copies) => {
                    let mut go_on = true;
                    while go_on && copies.left > 0 {
                        let read = self.backlog.next_read(&copies, &self.units);
                        self.backlog.pop_read(read);
                        self.issue_copies(read, &mut copies);
                        go_on = more(self, read.pages);
                    }
                    self.backlog.put_copies(copies);
                    if !go_on {
                        return;
                    }
                }
                Work::Erase { superblock } => {
                    self.pipe_erase(superblock);
                    if !more(self, 1) {
                        return;
                    }
                }
            }
        }
    }

    /// The same of one piece, for where it is seldom needed.
    #[cold]
    pub(super) fn issue_one(&mut self) {
        self.issue(1);
    }

    /// Moves the erase at the front of the backlog into the pipeline.
    #[cold]
    fn pipe_erase(&mut self, superblock: u32) {
        self.backlog.pop_erase();
        debug_assert!(
            self.begun.iter().all(|&(index, _)| !self.units.is_of(index, superblock)),
            "every unit of a victim is complete"
        );
        self.pipe(Piped::Erase { superblock, ready: self.copies_read_at });
        self.copies_read_at = 0;
    }

    /// Reads pages of one unit, and adds them to the units that `copies` goes to.
    #[inline(always)]
    fn issue_copies(&mut self, read: UnitRead, copies: &mut Copies) {
        let place = self.units.place(copies.victim, read.within);
        let (ready, busy) = self.read_pages(place, read.pages, self.clock);
        self.gc_busy_ns += busy;
        self.copies_read_at = self.copies_read_at.max(ready);
        self.count(ready, 0, u64::from(read.pages));
        self.add_copies(read.pages, ready, copies);
    }

    /// Adds `pages` copies, read at `ready`, to the units that `copies` has come to, whoever else writes there.
    #[inline(always)]
    fn add_copies(&mut self, mut pages: u32, ready: u64, copies: &mut Copies) {
        let pages_per_program = self.units.pages_per_program();
        while pages > 0 {
            let added = pages.min(pages_per_program - copies.page);
            pages -= added;
            copies.left -= added;
            copies.page += added;
            copies.ready = copies.ready.max(ready);
            let unit = self.units.unit(copies.to, copies.within);
            if copies.whole_unit {
                if copies.page == pages_per_program {
                    self.pipe(Piped::Program { unit, ready: copies.ready, copies: pages_per_program });
                }
            } else {
                self.add_copies_to_begun(unit, added, copies.ready);
            }
            if copies.page == pages_per_program {
                copies.begin_unit(copies.within + 1, pages_per_program);
            }
        }
    }

    /// Adds copies to a unit of which others write a part: the host, or the copies before or after these.
    fn add_copies_to_begun(&mut self, unit: Unit, pages: u32, ready: u64) {
        if let Some(complete) = self.add_pages(unit, Begun { pages, copies: pages, host_pages: 0, ready }) {
            self.pipe(Piped::Program { unit, ready: complete.ready, copies: complete.copies });
            // A unit that the host began and GC completed leaves the buffer at once.
            self.free_slots += complete.host_pages;
        }
    }

    /// Whether a unit was begun and is not complete: its pages are in a buffer.
    pub(super) fn is_begun(&self, unit: Unit) -> bool {
        let copied = match self.backlog.front() {
            Some(Work::Copies(copies)) => {
                copies.whole_unit && copies.page > 0 && self.units.unit(copies.to, copies.within) == unit
            }
            _ => false,
        };
        copied || self.begun.iter().any(|&(index, _)| index == unit.index)
    }

    /// Appends to the pipeline, and issues what leaves it at the other end.
    #[inline(always)]
    fn pipe(&mut self, piped: Piped) {
        self.pipeline.push_back(piped);
        if self.pipeline.len() > self.units.dies() as usize {
            self.issue_first_piped();
        }
    }

    /// Issues what is at the front of the pipeline, whether or not something comes after it.
    #[inline(always)]
    fn issue_first_piped(&mut self) {
        match self.pipeline.pop_front() {
            Some(Piped::Program { unit, ready, copies }) => {
                self.program(unit, ready.max(self.clock), copies);
            }
            Some(Piped::Erase { superblock, ready }) => self.issue_erase(superblock, ready),
            None => {}
        }
    }

    #[cold]
    fn issue_erase(&mut self, superblock: u32, ready: u64) {
        self.erases_pending[superblock as usize] -= 1;
        for die in self.units.dies_of(superblock) {
            let free = &mut self.die_free[usize::from(die)];
            *free = ready.max(self.clock).max(*free) + self.erase_ns;
            self.gc_busy_ns += self.erase_ns;
        }
    }

    /// Makes sure that the erase of a superblock that is about to be programmed was issued.
    #[inline(never)]
    pub(super) fn issue_until_erased(&mut self, superblock: u32) {
        let pending = |model: &Model| model.erases_pending[superblock as usize] > 0;
        if pending(self) {
            self.issue_while(|model, _| pending(model));
        }
        while pending(self) {
            self.issue_first_piped();
        }
    }
}
