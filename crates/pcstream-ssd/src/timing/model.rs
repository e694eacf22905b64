//! Resources and queues: dies, channels, the write buffer, the backlog of GC. Times are in nanoseconds.
//!
//! Every function issues work in the order in which it is called; what a piece of work waits for is known
//! when it is issued, so one pass gives all times and nothing is simulated event by event.

mod issue;

use std::collections::VecDeque;

use super::backlog::{Backlog, Copies};
use super::channel::Channel;
use super::check::check;
use super::units::{Position, Unit, Units};
use super::{Throughput, TimingError, TimingSettings};
use crate::geometry::Geometry;
use crate::ids::{StreamId, SuperblockId};
use crate::observer::Observer;

/// A complete unit of copies, or an erase, that waits in the pipeline.
#[derive(Clone, Copy, Debug)]
enum Piped {
    Program { unit: Unit, ready: u64, copies: u32 },
    Erase { superblock: u32, ready: u64 },
}

/// Pages of a unit that wait for the others.
#[derive(Clone, Copy, Debug, Default)]
struct Begun {
    pages: u32,
    /// Of these, in a slot of the write buffer.
    host_pages: u32,
    /// Of these, copied by GC.
    copies: u32,
    ready: u64,
}

/// The clock of a device.
pub(super) struct Model {
    units: Units,
    read_ns: u64,
    program_ns: u64,
    erase_ns: u64,
    /// Of one page, and of all pages of a unit.
    transfer_ns: u64,
    unit_transfer_ns: u64,
    command_ns: u64,
    first_arrival: Option<u64>,
    latest_arrival: u64,
    /// Time within the request being served: when its next page can enter the buffer.
    clock: u64,
    die_free: Vec<u64>,
    channels: Vec<Channel>,
    /// When each unit was or will be programmed.
    programmed_at: Vec<u64>,
    /// Begun units by index: about one per open superblock, the newest last.
    begun: Vec<(usize, Begun)>,
    free_slots: u32,
    last_slot_at: u64,
    /// Programs that will free slots: when, and how many; in order of time.
    releases: VecDeque<(u64, u32)>,
    backlog: Backlog,
    /// Erases decided and not issued, by superblock: more than one where a policy chooses full superblocks.
    erases_pending: Vec<u32>,
    /// Pages gained by the victims in the backlog that the host has not used yet.
    gained_pages: u32,
    /// Since the last erase was decided: copies of the current victim.
    copies_of_victim: u32,
    superblock_pages: u32,
    /// At most as many as there are dies: then the oldest is issued.
    pipeline: VecDeque<Piped>,
    /// Latest end of a copy's read since the last erase was issued.
    copies_read_at: u64,
    host_busy_ns: u64,
    gc_busy_ns: u64,
    throughput: Throughput,
}

impl Model {
    /// An idle device of this geometry.
    pub(super) fn new(geometry: &Geometry, settings: &TimingSettings) -> Result<Model, TimingError> {
        check(geometry, settings)?;
        let TimingSettings { channels, dies_per_channel, pages_per_program, buffer_pages, .. } = *settings;
        let superblock_pages = geometry.superblock_pages();
        let (dies, superblocks) = (channels * dies_per_channel, geometry.superblocks());
        let units = Units::new(pages_per_program, dies, channels, superblock_pages, superblocks);
        let dies = dies as usize;
        let all_units = superblocks as usize * units.per_superblock() as usize;
        Ok(Model {
            units,
            read_ns: settings.read_ns,
            program_ns: settings.program_ns,
            erase_ns: settings.erase_ns,
            transfer_ns: settings.transfer_ns,
            unit_transfer_ns: settings.transfer_ns * u64::from(pages_per_program),
            command_ns: settings.command_ns,
            first_arrival: None,
            latest_arrival: 0,
            clock: 0,
            die_free: vec![0; dies],
            channels: vec![Channel::default(); channels as usize],
            programmed_at: vec![0; all_units],
            begun: Vec::new(),
            free_slots: buffer_pages,
            last_slot_at: 0,
            releases: VecDeque::new(),
            backlog: Backlog::default(),
            erases_pending: vec![0; superblocks as usize],
            gained_pages: 0,
            copies_of_victim: 0,
            superblock_pages,
            pipeline: VecDeque::with_capacity(dies + 1),
            copies_read_at: 0,
            host_busy_ns: 0,
            gc_busy_ns: 0,
            throughput: Throughput::default(),
        })
    }

    /// What is known of an open superblock of which `pages` pages were written before there was a clock: those of
    /// the unit that is not complete wait for the others, and hold no slot of the buffer.
    pub(super) fn begin_unit(&mut self, superblock: SuperblockId, pages: u32) {
        let (unit, pages) = self.units.of(superblock.0, pages);
        if pages > 0 {
            self.begun.push((unit.index, Begun { pages, ..Begun::default() }));
        }
    }

    pub(super) fn dies(&self) -> u32 {
        self.units.dies()
    }

    pub(super) fn command_ns(&self) -> u64 {
        self.command_ns
    }

    pub(super) fn host_busy_ns(&self) -> u64 {
        self.host_busy_ns
    }

    pub(super) fn gc_busy_ns(&self) -> u64 {
        self.gc_busy_ns
    }

    pub(super) fn throughput(&self) -> &Throughput {
        &self.throughput
    }

    /// Counts pages that the host had written, and copies that were read, by `at`.
    #[inline(always)]
    pub(super) fn count(&mut self, at: u64, pages: u64, gc_pages: u64) {
        self.throughput.add(at - self.first_arrival.unwrap_or(at), pages, gc_pages);
    }

    pub(super) fn first_arrival(&self) -> Option<u64> {
        self.first_arrival
    }

    pub(super) fn latest_arrival(&self) -> u64 {
        self.latest_arrival
    }

    /// Nothing will arrive before `arrival` any more.
    pub(super) fn set_latest_arrival(&mut self, arrival: u64) {
        self.first_arrival.get_or_insert(arrival);
        self.latest_arrival = arrival;
    }

    /// Begins a write that arrived then.
    pub(super) fn begin(&mut self, arrival: u64) {
        self.clock = arrival + self.command_ns;
    }

    /// When all pages given since `begin` are in the buffer.
    pub(super) fn clock(&self) -> u64 {
        self.clock
    }

    /// Takes a die's channel from `ready` on.
    #[inline(always)]
    fn reserve_channel(&mut self, channel: u16, ready: u64, transfer_ns: u64) -> u64 {
        let channel = usize::from(channel);
        let start = self.channels[channel].reserve(ready, transfer_ns);
        if self.channels[channel].is_long() {
            self.forget_transfers(channel);
        }
        start
    }

    /// A die's transfers never begin before it is free, so nothing that lies before all dies of the channel are
    /// matters any more.
    #[cold]
    fn forget_transfers(&mut self, channel: usize) {
        let dies = self.die_free.iter().skip(channel).step_by(self.channels.len());
        let idle = dies.min().copied().unwrap_or(0);
        self.channels[channel].forget_before(idle.max(self.latest_arrival));
    }

    /// Issues the program of a complete unit with so many `copies`. Returns its end.
    #[inline(always)]
    fn program(&mut self, unit: Unit, ready: u64, copies: u32) -> u64 {
        let die = usize::from(unit.place.die);
        let idle = ready.max(self.die_free[die]);
        let start = self.reserve_channel(unit.place.channel, idle, self.unit_transfer_ns);
        let end = start + self.unit_transfer_ns + self.program_ns;
        self.die_free[die] = end;
        self.programmed_at[unit.index] = end;
        self.share_busy(end - start, copies);
        end
    }

    /// Counts the time that a program takes for those whose pages it is of: with `GcDestination::Own` both may share a unit.
    #[inline(always)]
    fn share_busy(&mut self, busy: u64, copies: u32) {
        let all = self.units.pages_per_program();
        let gc = match copies {
            0 => 0,
            copies if copies == all => busy,
            copies => busy * u64::from(copies) / u64::from(all),
        };
        self.gc_busy_ns += gc;
        self.host_busy_ns += busy - gc;
    }

    /// Issues the read of pages of one unit. Returns its end and how long it occupied the die.
    #[inline(always)]
    fn read_pages(&mut self, place: Position, pages: u32, ready: u64) -> (u64, u64) {
        let die = usize::from(place.die);
        let start = ready.max(self.die_free[die]);
        let transfer = self.transfer_ns * u64::from(pages);
        let end = self.reserve_channel(place.channel, start + self.read_ns, transfer) + transfer;
        self.die_free[die] = end;
        (end, end - start)
    }

    /// Reads `pages` pages from `offset` on, all of one unit, for the host; returns when they are there.
    pub(super) fn host_read(&mut self, superblock: SuperblockId, offset: u32, pages: u32, ready: u64) -> u64 {
        let (unit, _) = self.units.of(superblock.0, offset);
        if self.programmed_at[unit.index] > ready || self.is_begun(unit) {
            return ready;
        }
        let (end, busy) = self.read_pages(unit.place, pages, ready);
        self.host_busy_ns += busy;
        end
    }

    /// Whether a page and the one before it in its superblock lie in one unit. The offset may be that of the superblock's end.
    pub(super) fn continues_unit(&self, offset: u32) -> bool {
        self.units.within(offset).1 > 0
    }

    /// Waits for a slot of the write buffer.
    ///
    /// Slots are given in the order of the requests: none is given earlier than the one before it.
    #[inline(always)]
    fn take_slot(&mut self) {
        self.clock = self.clock.max(self.last_slot_at);
        if self.free_slots == 0 && self.releases.is_empty() {
            self.issue_until_a_slot_is_free();
        }
        while let Some(&(at, pages)) = self.releases.front() {
            if at > self.clock && self.free_slots > 0 {
                break;
            }
            self.releases.pop_front();
            self.free_slots += pages;
            self.clock = self.clock.max(at);
        }
        self.free_slots -= 1;
        self.last_slot_at = self.clock;
    }

    /// All slots are held by units that copies in the backlog complete (`GcDestination::Own`).
    #[cold]
    fn issue_until_a_slot_is_free(&mut self) {
        while self.free_slots == 0 && self.releases.is_empty() {
            assert!(
                !self.backlog.is_empty(),
                "units that the host began cannot fill the buffer: checked in `new`"
            );
            self.issue_one();
        }
    }

    /// Adds pages to their unit, not all of it. Returns what the unit is when that completes it: when it is
    /// ready, and how many slots of the buffer it holds.
    #[inline(always)]
    fn add_pages(&mut self, unit: Unit, added: Begun) -> Option<Begun> {
        let Some(at) = self.begun.iter().rposition(|&(index, _)| index == unit.index) else {
            self.begun.push((unit.index, added));
            return None;
        };
        let begun = &mut self.begun[at].1;
        begun.pages += added.pages;
        begun.host_pages += added.host_pages;
        begun.copies += added.copies;
        begun.ready = begun.ready.max(added.ready);
        if begun.pages < self.units.pages_per_program() {
            return None;
        }
        Some(self.begun.swap_remove(at).1)
    }

    #[inline(always)]
    fn program_host_page(&mut self, superblock: u32, offset: u32) {
        self.take_slot();
        let (unit, _) = self.units.of(superblock, offset);
        let page = Begun { pages: 1, host_pages: 1, copies: 0, ready: self.clock };
        let complete =
            if self.units.pages_per_program() == 1 { Some(page) } else { self.add_pages(unit, page) };
        if let Some(complete) = complete {
            let end = self.program(unit, complete.ready, complete.copies);
            self.release_at(end, complete.host_pages);
        }
    }

    /// Programs end almost in the order in which they are issued, so the place is near the end.
    #[inline(always)]
    fn release_at(&mut self, end: u64, slots: u32) {
        let mut at = self.releases.len();
        self.releases.push_back((end, slots));
        while at > 0 && self.releases[at - 1].0 > end {
            self.releases.swap(at - 1, at);
            at -= 1;
        }
    }
}

impl Observer for Model {
    #[inline(always)]
    fn host_program(&mut self, superblock: SuperblockId, offset: u32, pages: u32, _stream: StreamId) {
        if self.erases_pending[superblock.0 as usize] > 0 {
            self.issue_until_erased(superblock.0);
        }
        for offset in offset..offset + pages {
            self.program_host_page(superblock.0, offset);
            self.issue_share();
        }
    }

    #[inline(always)]
    fn gc_copies(&mut self, victim: SuperblockId, sources: &[u32], to: SuperblockId, to_offset: u32) {
        self.copies_of_victim += sources.len() as u32;
        let (within, page) = self.units.within(to_offset);
        let left = sources.len() as u32;
        let mut copies =
            Copies { victim: victim.0, to: to.0, within, page, left, whole_unit: false, ready: 0 };
        if page == 0 {
            copies.begin_unit(within, self.units.pages_per_program());
        }
        self.backlog.push_copies(sources, copies);
    }

    fn erase(&mut self, superblock: SuperblockId, valid_pages: u32) {
        assert_eq!(valid_pages, self.copies_of_victim, "every valid page of a victim was copied");
        self.copies_of_victim = 0;
        self.gained_pages += self.superblock_pages - valid_pages;
        self.erases_pending[superblock.0 as usize] += 1;
        self.backlog.push_erase(superblock.0);
    }
}
