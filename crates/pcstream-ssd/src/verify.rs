//! All invariants of a device, checked from scratch. Costs a pass over both tables; meant for tests
//! and for the end of a run.
//!
//! 1. Every mapped logical page lies in a page that was programmed, and that page names it.
//! 2. The valid count of every superblock is the number of logical pages mapped into it, and their sum that of the
//!    pages with data, which are at most the logical pages.
//! 3. Free superblocks hold nothing; each superblock is exactly one of free, open, closed.
//! 4. Every open superblock belongs to the frontier that fills it, and no frontier is full.
//! 5. Host writes + GC copies = pages programmed, where a superblock was programmed once per erase, and
//!    the counters per stream sum to the totals.

use crate::counters::Counters;
use crate::ftl::{Ssd, UNMAPPED};
use crate::ids::{LogicalPage, SuperblockId};

/// An invariant that does not hold: a bug in the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// Map and reverse map disagree.
    #[error(
        "logical page {page} is mapped to page {offset} of superblock {superblock}, which holds logical page {found}"
    )]
    ReverseMap {
        /// The page mapped.
        page: LogicalPage,
        /// Where the map says it is.
        superblock: SuperblockId,
        /// Where the map says it is.
        offset: u32,
        /// What is there.
        found: u32,
    },
    /// A logical page is mapped to a page that was not programmed since the last erase.
    #[error(
        "logical page {page} is mapped to page {offset} of superblock {superblock}, which is not programmed"
    )]
    NotProgrammed {
        /// The page mapped.
        page: LogicalPage,
        /// Where the map says it is.
        superblock: SuperblockId,
        /// Where the map says it is.
        offset: u32,
    },
    /// A valid count is wrong.
    #[error("superblock {superblock} counts {counted} valid pages, {mapped} are mapped into it")]
    ValidCount {
        /// Which.
        superblock: SuperblockId,
        /// Its count.
        counted: u32,
        /// Pages mapped into it.
        mapped: u32,
    },
    /// The count of pages with data is wrong, or too large.
    #[error("{counted} logical pages of {logical_pages} hold data by the count, {mapped} are mapped")]
    LivePages {
        /// The count.
        counted: u64,
        /// Pages mapped.
        mapped: u64,
        /// Pages that can hold data.
        logical_pages: u64,
    },
    /// A superblock is in several states, or in none.
    #[error("superblock {superblock} is {states} of free, open, closed instead of one")]
    States {
        /// Which.
        superblock: SuperblockId,
        /// In how many states it is.
        states: u32,
    },
    /// An open superblock belongs to another frontier, or is full.
    #[error("open superblock {superblock} of frontier {frontier} is full or belongs to frontier {owner}")]
    Frontier {
        /// Which.
        superblock: SuperblockId,
        /// The frontier that has it open.
        frontier: usize,
        /// The frontier recorded with it.
        owner: u16,
    },
    /// Programs do not add up.
    #[error("{counted} pages programmed by the counters, {programmed} by the state of the superblocks")]
    Programs {
        /// Host writes + GC copies.
        counted: u64,
        /// Erases x b + pages programmed since.
        programmed: u64,
    },
    /// Counters per stream do not sum to the totals.
    #[error("the streams' counters do not sum to the device's: {0}")]
    StreamSums(&'static str),
}

impl Ssd {
    /// Checks all invariants.
    pub fn verify(&self) -> Result<(), Violation> {
        let programmed = self.verify_states()?;
        self.verify_map(&programmed)?;
        self.verify_programs(&programmed)?;
        verify_sums(&self.counters)?;
        verify_sums(&self.uncounted)
    }

    /// Returns the pages programmed in each superblock since its last erase.
    fn verify_states(&self) -> Result<Vec<u32>, Violation> {
        let n = self.table.len() as usize;
        let b = self.geometry.superblock_pages();
        let mut programmed = vec![0; n + 1];
        let mut states = vec![0; n + 1];
        for &superblock in &self.free {
            states[superblock as usize] += 1;
        }
        for (index, frontier) in self.frontiers.iter().enumerate().filter(|(_, f)| f.superblock != 0) {
            let superblock = frontier.superblock as usize;
            states[superblock] += 1;
            programmed[superblock] = frontier.offset;
            if usize::from(self.owners[superblock]) != index || frontier.offset >= b {
                let (superblock, owner) = (SuperblockId(frontier.superblock - 1), self.owners[superblock]);
                return Err(Violation::Frontier { superblock, frontier: index, owner });
            }
        }
        for superblock in 1..=n {
            if self.table.is_closed(superblock as u32) {
                states[superblock] += 1;
                programmed[superblock] = b;
            }
            if states[superblock] != 1 {
                let id = SuperblockId(superblock as u32 - 1);
                return Err(Violation::States { superblock: id, states: states[superblock] });
            }
        }
        Ok(programmed)
    }

    fn verify_map(&self, programmed: &[u32]) -> Result<(), Violation> {
        let mut mapped = vec![0u32; programmed.len()];
        for (page, &entry) in self.map.iter().enumerate().filter(|&(_, &entry)| entry != UNMAPPED) {
            let (superblock, offset) = self.unpack(entry);
            let index = superblock.0 + 1;
            let page = LogicalPage(page as u64);
            if offset >= programmed[index as usize] {
                return Err(Violation::NotProgrammed { page, superblock, offset });
            }
            let found = self.logical_of[self.slot(index, offset)];
            if u64::from(found) != page.0 {
                return Err(Violation::ReverseMap { page, superblock, offset, found });
            }
            mapped[index as usize] += 1;
        }
        for superblock in 1..=self.table.len() {
            let (counted, mapped) = (self.table.valid(superblock), mapped[superblock as usize]);
            if counted != mapped {
                return Err(Violation::ValidCount {
                    superblock: SuperblockId(superblock - 1),
                    counted,
                    mapped,
                });
            }
        }
        let (counted, logical_pages) = (self.live_pages(), self.geometry.logical_pages());
        let mapped = mapped.iter().map(|&pages| u64::from(pages)).sum();
        if counted != mapped || counted > logical_pages {
            return Err(Violation::LivePages { counted, mapped, logical_pages });
        }
        Ok(())
    }

    fn verify_programs(&self, programmed: &[u32]) -> Result<(), Violation> {
        let b = u64::from(self.geometry.superblock_pages());
        let erases: u64 = self.erase_counts().map(u64::from).sum();
        let programmed = erases * b + programmed.iter().map(|&p| u64::from(p)).sum::<u64>();
        let counted = self.counters.flash_pages() + self.uncounted.flash_pages();
        if counted != programmed || erases != self.counters.erases + self.uncounted.erases {
            return Err(Violation::Programs { counted, programmed });
        }
        Ok(())
    }
}

fn verify_sums(counters: &Counters) -> Result<(), Violation> {
    let host: u64 = counters.streams.iter().map(|s| s.host_pages).sum();
    let gc: u64 = counters.streams.iter().map(|s| s.gc_pages).sum();
    let victims: u64 = counters.victim_validity.iter().sum();
    if host != counters.host_pages {
        return Err(Violation::StreamSums("host pages"));
    }
    if gc + counters.shared_gc_pages != counters.gc_pages {
        return Err(Violation::StreamSums("GC pages"));
    }
    if victims != counters.erases {
        return Err(Violation::StreamSums("victims"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::StreamId;
    use crate::settings::{DeviceSettings, Spare};

    /// A device with open, closed and free superblocks and some GC behind it.
    fn used() -> Ssd {
        let (logical_pages, spare) = (640, Spare::Superblocks(56));
        let settings = DeviceSettings {
            logical_pages,
            spare,
            superblock_pages: 16,
            streams: 3,
            ..DeviceSettings::default()
        };
        let mut ssd = Ssd::new(&settings).expect("legal");
        ssd.prefill(LogicalPage(0), 600).expect("in range");
        for i in 0..3000u64 {
            ssd.write(LogicalPage(i * 7919 % 640), 1, StreamId((i % 3) as u8)).expect("in range");
        }
        ssd.verify().expect("sound so far");
        ssd
    }

    /// Each kind of damage is found, and called by its name.
    #[test]
    fn damage_is_found() {
        let mut ssd = used();
        ssd.map.swap(3, 4);
        assert!(matches!(ssd.verify(), Err(Violation::ReverseMap { .. })));

        let mut ssd = used();
        let frontier = *ssd.frontiers.iter().find(|f| f.superblock != 0).expect("one is open");
        ssd.map[5] = frontier.superblock << ssd.offset_bits | frontier.offset;
        assert!(matches!(ssd.verify(), Err(Violation::NotProgrammed { page: LogicalPage(5), .. })));

        let mut ssd = used();
        ssd.map[5] = UNMAPPED;
        assert!(matches!(ssd.verify(), Err(Violation::ValidCount { .. })));

        let mut ssd = used();
        let free = ssd.free[0];
        ssd.free.push_back(free);
        assert!(matches!(ssd.verify(), Err(Violation::States { states: 2, .. })));

        let mut ssd = used();
        ssd.free.pop_front();
        assert!(matches!(ssd.verify(), Err(Violation::States { states: 0, .. })));

        let mut ssd = used();
        let open = ssd.frontiers.iter().find(|f| f.superblock != 0).expect("one is open").superblock;
        ssd.owners[open as usize] = 99;
        assert!(matches!(ssd.verify(), Err(Violation::Frontier { owner: 99, .. })));

        let mut ssd = used();
        ssd.counters.gc_pages += 1;
        assert!(matches!(ssd.verify(), Err(Violation::Programs { .. })));

        let mut ssd = used();
        ssd.counters.streams[1].host_pages -= 1;
        assert!(matches!(ssd.verify(), Err(Violation::StreamSums(_))));

        let mut ssd = used();
        ssd.counters.victim_validity[3] += 1;
        assert!(matches!(ssd.verify(), Err(Violation::StreamSums("victims"))));
    }
}
