//! What pictures of a trace need beyond the counters of lanes: who wrote where and when, what garbage collection
//! copied of whom, and the rates over the traced time.
//!
//! Idea: one pass over the events, in memory that depends on the device and the resolution, and not on the number
//! of events. The copies are those of a drive without streams, so that they show who causes garbage collection
//! today. The context of every flash page is kept beside the model of the drive.
//!
//! Weakness: a cell of the map shows one context: the one that a majority vote in one pass (Boyer and Moore) finds.
//! Where no context has the majority, it is one of the heavy ones.

use pcstream_ssd::observer::Observer;
use pcstream_ssd::{
    Density, DeviceSettings, GcDestination, GeometryError, LogicalPage, Ssd, StreamId, SuperblockId, Table,
};
use pcstream_trace::{ById, ContextId, Event, Extent, Op};

use crate::error::ReplayError;

/// Columns of the map: equal parts of the pages written.
pub const MAP_COLUMNS: usize = 300;
/// Rows of the map: equal parts of the address space.
pub const MAP_ROWS: usize = 128;
/// Parts of the traced time.
pub const TIME_BINS: usize = 150;

/// A cell of the map: the context that wins the vote, plus 1, and its lead.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    context_plus_one: u32,
    lead: u64,
}

/// Rates of one part of the traced time, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    /// Written by the host.
    pub host_pages: u64,
    /// Copied by garbage collection on a drive without streams.
    pub gc_pages: u64,
    /// Discarded.
    pub discarded_pages: u64,
}

/// What was found out.
pub struct Survey {
    cells: Vec<Cell>,
    rates: Vec<Rate>,
    copies: Copies,
    peak_live: u64,
}

/// Collects while events pass.
pub struct Surveyor {
    ssd: Ssd,
    pages: FlashPages,
    address_pages: u64,
    total_pages: u64,
    duration_ns: u64,
    /// Events taken in.
    events: u64,
    written: u64,
    found: Survey,
}

/// Pages copied, by who wrote them.
#[derive(Default)]
struct Copies {
    by_context: ById<u64>,
    of_prefill: u64,
}

/// The context of every flash page, plus 1; 0 stands for data from before the trace, and what was never programmed
/// takes no memory. Counts copies.
struct FlashPages {
    superblock_pages: usize,
    writing_plus_one: u32,
    context_plus_one: Table<u32>,
    copies: Copies,
}

impl FlashPages {
    fn slot(&self, superblock: SuperblockId, offset: u32) -> usize {
        superblock.0 as usize * self.superblock_pages + offset as usize
    }
}

impl Observer for FlashPages {
    fn host_program(&mut self, superblock: SuperblockId, offset: u32, pages: u32, _: StreamId) {
        let slot = self.slot(superblock, offset);
        let context = self.writing_plus_one;
        self.context_plus_one[slot..slot + pages as usize].fill(context);
    }

    fn gc_copies(&mut self, victim: SuperblockId, sources: &[u32], to: SuperblockId, to_offset: u32) {
        let (from, to) = (self.slot(victim, 0), self.slot(to, to_offset));
        for (index, source) in sources.iter().enumerate() {
            let plus_one = self.context_plus_one[from + *source as usize];
            self.context_plus_one[to + index] = plus_one;
            let Some(context) = plus_one.checked_sub(1) else {
                self.copies.of_prefill += 1;
                continue;
            };
            *self.copies.by_context.at(context as usize) += 1;
        }
    }
}

impl Surveyor {
    /// A drive like `device` without streams: what pictures are of.
    pub fn device(device: &DeviceSettings) -> DeviceSettings {
        DeviceSettings { streams: 1, gc_destination: GcDestination::Own, pools: Vec::new(), ..device.clone() }
    }

    /// Of a trace of `total_pages` written pages and `duration_ns`, on `device`, of which one stream is used. `density`
    /// says how much of it will be written.
    pub fn new(
        device: &DeviceSettings,
        density: Density,
        prefill: &[Extent],
        total_pages: u64,
        duration_ns: u64,
    ) -> Result<Surveyor, ReplayError> {
        let mut ssd = Ssd::with_density(device, density)?;
        for extent in prefill {
            ssd.prefill(LogicalPage(extent.lba.0), extent.pages)
                .map_err(|error| prefill_error(extent, &error.to_string()))?;
        }
        ssd.start_counting();
        let flash_pages = ssd.geometry().physical_pages();
        let pages = FlashPages {
            superblock_pages: ssd.geometry().superblock_pages() as usize,
            writing_plus_one: 0,
            context_plus_one: Table::zeroed(flash_pages, density).map_err(GeometryError::from)?,
            copies: Copies::default(),
        };
        let found = Survey {
            cells: vec![Cell::default(); MAP_COLUMNS * MAP_ROWS],
            rates: vec![Rate::default(); TIME_BINS],
            copies: Copies::default(),
            peak_live: ssd.live_pages(),
        };
        Ok(Surveyor {
            address_pages: device.address_pages(),
            total_pages: total_pages.max(1),
            duration_ns: duration_ns.max(1),
            events: 0,
            written: 0,
            found,
            ssd,
            pages,
        })
    }

    /// Takes in the next event.
    pub fn feed(&mut self, event: &Event) -> Result<(), ReplayError> {
        let before = self.ssd.counters().gc_pages;
        let bin = bin(event.time_ns, self.duration_ns, TIME_BINS);
        let pages = u64::from(event.pages);
        match event.op {
            Op::Write => {
                self.pages.writing_plus_one = event.context.0 + 1;
                let write = self.ssd.write_observed(
                    LogicalPage(event.lba.0),
                    event.pages,
                    StreamId::DEFAULT,
                    &mut self.pages,
                );
                write.map_err(|_| self.beyond(event))?;
                self.found.peak_live = self.found.peak_live.max(self.ssd.live_pages());
                self.draw(event);
                self.written += pages;
                self.found.rates[bin].host_pages += pages;
            }
            Op::Discard | Op::WriteZeroes => {
                let discard = self.ssd.discard(LogicalPage(event.lba.0), pages);
                discard.map_err(|_| self.beyond(event))?;
                self.found.rates[bin].discarded_pages += pages;
            }
            Op::Read | Op::Flush | Op::Exit => {}
        }
        self.found.rates[bin].gc_pages += self.ssd.counters().gc_pages - before;
        self.events += 1;
        Ok(())
    }

    fn beyond(&self, event: &Event) -> ReplayError {
        ReplayError::BeyondDevice {
            event: self.events,
            op: event.op.name(),
            lba: event.lba.0,
            pages: event.pages,
            logical_pages: self.address_pages,
        }
    }

    fn draw(&mut self, event: &Event) {
        let column = bin(self.written, self.total_pages, MAP_COLUMNS);
        let first = bin(event.lba.0, self.address_pages, MAP_ROWS);
        let last = bin(event.lba.0 + u64::from(event.pages) - 1, self.address_pages, MAP_ROWS);
        let weight = (u64::from(event.pages) / (last - first + 1) as u64).max(1);
        for row in first..=last {
            self.found.cells[row * MAP_COLUMNS + column].vote(event.context, weight);
        }
    }

    /// What was found out. The model of the drive is gone.
    pub fn finish(self) -> Survey {
        Survey { copies: self.pages.copies, ..self.found }
    }
}

impl Survey {
    /// Context of a cell of the map; none where nothing was written.
    pub fn context_at(&self, column: usize, row: usize) -> Option<ContextId> {
        let cell = self.cells[row * MAP_COLUMNS + column];
        cell.context_plus_one.checked_sub(1).map(ContextId)
    }

    /// Pages that garbage collection copied, by context id; index 0 stands for pages without a context.
    pub fn copies_by_context(&self) -> &[u64] {
        &self.copies.by_context
    }

    /// Pages that garbage collection copied of data from before the trace.
    pub fn copies_of_prefill(&self) -> u64 {
        self.copies.of_prefill
    }

    /// Rates over the traced time.
    pub fn rates(&self) -> &[Rate] {
        &self.rates
    }

    /// Most logical pages that held data at once, as far as it was noted.
    pub fn peak_live_pages(&self) -> u64 {
        self.peak_live
    }
}

impl Cell {
    fn vote(&mut self, context: ContextId, pages: u64) {
        let context = context.0 + 1;
        if self.context_plus_one == context {
            self.lead += pages;
        } else if self.lead > pages {
            self.lead -= pages;
        } else {
            *self = Cell { context_plus_one: context, lead: pages - self.lead };
        }
    }
}

/// Which of `bins` equal parts of `whole` holds `value`.
fn bin(value: u64, whole: u64, bins: usize) -> usize {
    let index = u128::from(value) * bins as u128 / u128::from(whole.max(1));
    (index as usize).min(bins - 1)
}

fn prefill_error(extent: &Extent, problem: &str) -> ReplayError {
    ReplayError::Prefill { first: extent.lba.0, pages: extent.pages, problem: problem.to_owned() }
}

#[cfg(test)]
mod tests {

    use super::*;

    fn write(lba: u64, pages: u32, context: u32) -> Event {
        Event { time_ns: lba, context: ContextId(context), ..Event::write(lba, pages) }
    }

    /// Context 1 fills the drive once; context 2 rewrites every second page. What is copied is all of context 1.
    #[test]
    fn copies_belong_to_whoever_wrote_the_page() {
        let device = DeviceSettings {
            logical_pages: 4096,
            superblock_pages: 64,
            streams: 1,
            ..DeviceSettings::default()
        };
        let mut surveyor = Surveyor::new(&device, Density::Dense, &[], 4096 + 20_000, 4096).unwrap();
        (0..4096).for_each(|page| surveyor.feed(&write(page, 1, 1)).unwrap());
        (0..20_000u64).for_each(|i| surveyor.feed(&write(i * 2 % 512 * 8 % 4096, 1, 2)).unwrap());
        let gc_pages = surveyor.ssd.counters().gc_pages;
        let survey = surveyor.finish();
        let copies = survey.copies_by_context();
        let all: u64 = copies.iter().sum();
        assert_eq!(all, gc_pages);
        assert!(copies[1] > 0 && copies[1] > copies.get(2).copied().unwrap_or(0), "{copies:?}");
        assert_eq!(survey.peak_live_pages(), 4096);
        assert_eq!(survey.rates().iter().map(|r| r.host_pages).sum::<u64>(), 24_096);
        assert_eq!(survey.context_at(0, 0), Some(ContextId(1)));
        assert_eq!(survey.context_at(MAP_COLUMNS - 1, 0), Some(ContextId(2)));
        assert_eq!(survey.context_at(0, MAP_ROWS - 1), None);
    }

    #[test]
    fn an_event_beyond_the_device_is_refused() {
        let device = DeviceSettings { streams: 1, ..DeviceSettings::default() };
        let mut surveyor = Surveyor::new(&device, Density::Dense, &[], 1, 1).unwrap();
        assert!(surveyor.feed(&write(device.logical_pages, 1, 1)).is_err());
    }
}
