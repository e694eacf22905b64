//! The judge: an FTL that is as slow and obvious as can be, against which the fast one is compared page
//! by page. It keeps what is where in plain tables, finds victims by looking at all superblocks, and
//! moves pages one at a time. It shares with the fast one the geometry, the names, the formulas of the
//! scores, and the random draws; nothing of the state or the algorithms.
//!
//! The rules that both follow:
//! - GC runs before a superblock is opened for the host while fewer than two are free; it sees the old
//!   copies of pages that are about to be overwritten as valid.
//! - Free superblocks are used in the order of their erasure, at first by number.
//! - A superblock's copies keep their order. A superblock closes with its last page; copies close
//!   superblocks before the victim is erased.
//! - A policy's ties go as documented with the policy.
//! - With pools of given sizes, while the shortfall is too much (`ftl::least_gain`), the emptiest candidate of all is the
//!   victim; among equals, the one that has had its number of valid pages for longest.
//! - With watermarks, a victim is emptied after the page of the host at which it is due: the first page after
//!   a superblock was opened that left fewer than `low` free, then g/2 pages after a victim that gained g.

mod victims;

use std::collections::{BTreeMap, VecDeque};

use crate::background::Watermarks;
use crate::counters::Counters;
use crate::geometry::{Geometry, GeometryError};
use crate::ids::{LogicalPage, StreamId, SuperblockId};
use crate::settings::{DeviceSettings, GcDestination};
use crate::victim::{Draws, Pool, furthest_above, targets};
use victims::Choose;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Open,
    Closed,
}

/// Where pages are appended: in the order of the fast FTL's frontiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    Host(u8),
    Internal(u8),
    Shared,
}

#[derive(Clone, Debug)]
struct Superblock {
    state: State,
    owner: Owner,
    /// Logical pages programmed since the last erase, in order.
    programmed: Vec<u64>,
    erases: u32,
    /// When (in steps of the model) it was closed.
    closed_step: u64,
    /// When it was closed, or last lost a page after that.
    changed_step: u64,
    /// Logical time of closing.
    closed_at: u64,
}

/// The slow FTL.
pub struct ReferenceSsd {
    geometry: Geometry,
    choose: Choose,
    /// That of the victim policy, if it has one.
    parameter: Option<u32>,
    map: Vec<Option<(usize, usize)>>,
    superblocks: Vec<Superblock>,
    free: VecDeque<usize>,
    open: BTreeMap<Owner, usize>,
    /// Sizes that pools should have, if they have sizes.
    targets: Vec<f64>,
    /// By pool (only one if they have no sizes). For the policies that draw: candidates as an array in which
    /// the last replaces one removed.
    candidates: Vec<Vec<usize>>,
    draws: Vec<Draws>,
    watermarks: Option<Watermarks>,
    /// Page of the host (counted from the beginning) after which background GC empties its next victim.
    background_due: Option<u64>,
    /// For pool greedy.
    pools: BTreeMap<Owner, Pool>,
    last_choice: u64,
    fruitless_victims: u32,
    /// For pools of given sizes: pages that victims gained, each less than a blind choice among N - F closed superblocks
    /// of a full device would; a sum in units of 1/(N - F) page, at most 0.
    gained_over_blind: i64,
    step: u64,
    now_pages: u64,
    counters: Counters,
}

impl ReferenceSsd {
    /// A device whose superblocks are all free. Panics if its victim policy has no slow form.
    pub fn new(settings: &DeviceSettings) -> Result<Self, GeometryError> {
        let geometry = Geometry::new(settings)?;
        let superblock = Superblock {
            state: State::Free,
            owner: Owner::Host(0),
            programmed: Vec::new(),
            erases: 0,
            closed_step: 0,
            changed_step: 0,
            closed_at: 0,
        };
        let pools = settings.pools.len().max(1);
        Ok(ReferenceSsd {
            geometry,
            choose: victims::slow_form(settings.victim.name()),
            parameter: settings.victim.parameter(),
            targets: targets(&settings.pools, geometry.superblocks() - geometry.open_superblocks()),
            watermarks: settings.background_gc,
            background_due: None,
            map: vec![None; geometry.address_pages() as usize],
            superblocks: vec![superblock; geometry.superblocks() as usize],
            free: (0..geometry.superblocks() as usize).collect(),
            open: BTreeMap::new(),
            candidates: vec![Vec::new(); pools],
            draws: (0..pools as u64).map(|pool| Draws::new(settings.seed.wrapping_add(pool))).collect(),
            pools: BTreeMap::new(),
            last_choice: 0,
            fruitless_victims: 0,
            gained_over_blind: 0,
            step: 0,
            now_pages: 0,
            counters: Counters::new(usize::from(geometry.streams())),
        })
    }

    /// What happened so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Where a logical page lies.
    pub fn locate(&self, page: LogicalPage) -> Option<(SuperblockId, u32)> {
        self.map[page.0 as usize].map(|(superblock, offset)| (SuperblockId(superblock as u32), offset as u32))
    }

    /// Superblocks that are free.
    pub fn free_superblocks(&self) -> u32 {
        self.free.len() as u32
    }

    /// Erases of each superblock.
    pub fn erase_counts(&self) -> impl Iterator<Item = u32> + '_ {
        self.superblocks.iter().map(|s| s.erases)
    }

    /// Writes pages. The range and the stream must exist.
    pub fn write(&mut self, first: LogicalPage, pages: u32, stream: StreamId) {
        for page in first.0..first.0 + u64::from(pages) {
            self.write_page(page, stream.0);
        }
    }

    /// Discards pages. The range must exist.
    pub fn discard(&mut self, first: LogicalPage, pages: u64) {
        for page in first.0..first.0 + pages {
            if self.map[page as usize].is_some() {
                self.invalidate(page);
                self.counters.discarded_pages += 1;
            } else {
                self.counters.discarded_unmapped_pages += 1;
            }
        }
    }

    fn write_page(&mut self, page: u64, stream: u8) {
        while !self.open.contains_key(&Owner::Host(stream)) {
            if self.free.len() >= 2 {
                self.open(Owner::Host(stream));
            } else {
                self.collect();
            }
        }
        self.invalidate(page);
        self.now_pages += 1;
        self.program(page, Owner::Host(stream));
        self.counters.host_pages += 1;
        self.counters.streams[usize::from(stream)].host_pages += 1;
        if self.background_due == Some(self.now_pages) {
            self.collect_in_background();
        }
    }

    fn collect_in_background(&mut self) {
        let high = self.watermarks.expect("background GC has watermarks").high;
        if self.free.len() >= high as usize {
            self.background_due = None;
            return;
        }
        let gained = self.collect();
        self.counters.background_erases += 1;
        self.background_due = Some(self.now_pages + u64::from((gained / 2).max(1)));
    }

    fn open(&mut self, owner: Owner) {
        let superblock = self.free.pop_front().expect("the geometry leaves room for GC");
        assert_eq!(self.superblocks[superblock].state, State::Free);
        self.superblocks[superblock].state = State::Open;
        self.superblocks[superblock].owner = owner;
        self.open.insert(owner, superblock);
        let few = self.watermarks.is_some_and(|w| self.free.len() < w.low as usize);
        if few && self.background_due.is_none() {
            self.background_due = Some(self.now_pages + 1);
        }
    }

    /// Where a pool's candidates are.
    fn pool(&self, owner: Owner) -> usize {
        let streams = usize::from(self.geometry.streams());
        match owner {
            _ if self.targets.is_empty() => 0,
            Owner::Host(s) => usize::from(s),
            Owner::Internal(s) => streams + usize::from(s),
            Owner::Shared => streams,
        }
    }

    fn program(&mut self, page: u64, owner: Owner) {
        let superblock = self.open[&owner];
        let offset = self.superblocks[superblock].programmed.len();
        self.superblocks[superblock].programmed.push(page);
        self.map[page as usize] = Some((superblock, offset));
        if offset + 1 == self.geometry.superblock_pages() as usize {
            self.close(superblock);
        }
    }

    fn close(&mut self, superblock: usize) {
        self.step += 1;
        let valid = u64::from(self.valid(superblock));
        let closed = &mut self.superblocks[superblock];
        closed.state = State::Closed;
        (closed.closed_step, closed.changed_step, closed.closed_at) = (self.step, self.step, self.now_pages);
        self.open.remove(&closed.owner);
        let owner = closed.owner;
        self.pools.entry(owner).or_default().valid_pages += valid;
        let pool = self.pool(owner);
        self.candidates[pool].push(superblock);
    }

    fn invalidate(&mut self, page: u64) {
        let Some((superblock, _)) = self.map[page as usize].take() else { return };
        self.step += 1;
        if self.superblocks[superblock].state == State::Closed {
            self.superblocks[superblock].changed_step = self.step;
            let pool =
                self.pools.get_mut(&self.superblocks[superblock].owner).expect("closed pages have a pool");
            pool.valid_pages -= 1;
            pool.fresh_deaths += 1;
        }
    }

    /// Valid pages of a superblock, counted.
    fn valid(&self, superblock: usize) -> u32 {
        let programmed = self.superblocks[superblock].programmed.iter().enumerate();
        programmed.filter(|&(offset, page)| self.map[*page as usize] == Some((superblock, offset))).count()
            as u32
    }

    /// Empties one victim; returns the pages gained.
    fn collect(&mut self) -> u32 {
        let victim = self.choose_victim();
        let owner = self.superblocks[victim].owner;
        let pool = self.pool(owner);
        let candidates = &mut self.candidates[pool];
        let at = candidates.iter().position(|&c| c == victim).expect("a victim is a candidate");
        candidates.swap_remove(at);
        let valid = self.valid(victim);
        let (closed, pages) = self.closed_at_gc();
        let blind = pages - self.geometry.logical_pages() as i64;
        let gained = i64::from(self.geometry.superblock_pages() - valid) * closed;
        self.gained_over_blind = 0.min(self.gained_over_blind + gained - blind);
        self.pools.get_mut(&owner).expect("closed pages have a pool").valid_pages -= u64::from(valid);
        self.superblocks[victim].state = State::Free;
        let destination = match (self.geometry.gc_destination(), owner) {
            (GcDestination::Own, owner) => owner,
            (GcDestination::Internal, Owner::Host(s) | Owner::Internal(s)) => Owner::Internal(s),
            _ => Owner::Shared,
        };
        for (offset, page) in self.superblocks[victim].programmed.clone().into_iter().enumerate() {
            if self.map[page as usize] == Some((victim, offset)) {
                if !self.open.contains_key(&destination) {
                    self.open(destination);
                }
                self.program(page, destination);
            }
        }
        self.superblocks[victim].programmed.clear();
        self.superblocks[victim].erases += 1;
        self.free.push_back(victim);
        self.count(owner, valid);
        self.geometry.superblock_pages() - valid
    }

    fn count(&mut self, owner: Owner, valid: u32) {
        self.counters.gc_pages += u64::from(valid);
        self.counters.erases += 1;
        let bucket = Counters::validity_bucket(valid, self.geometry.superblock_pages());
        self.counters.victim_validity[bucket] += 1;
        match owner {
            Owner::Host(s) | Owner::Internal(s) => {
                let stream = &mut self.counters.streams[usize::from(s)];
                stream.gc_pages += u64::from(valid);
                if matches!(owner, Owner::Internal(_)) {
                    stream.internal_gc_pages += u64::from(valid);
                }
            }
            Owner::Shared => self.counters.shared_gc_pages += u64::from(valid),
        }
    }

    fn choose_victim(&mut self) -> usize {
        let victim = self.ask_policy();
        if self.valid(victim) < self.geometry.superblock_pages() {
            self.fruitless_victims = 0;
            return victim;
        }
        self.fruitless_victims += 1;
        if self.fruitless_victims <= self.geometry.superblocks() {
            return victim;
        }
        self.fruitless_victims = 0;
        self.counters.rescues += 1;
        let closed = (0..self.superblocks.len()).filter(|&s| self.superblocks[s].state == State::Closed);
        closed.min_by_key(|&s| self.valid(s)).expect("there are candidates")
    }

    /// Superblocks that are closed when GC must choose, and their pages.
    fn closed_at_gc(&self) -> (i64, i64) {
        let closed = i64::from(self.geometry.superblocks() - self.geometry.open_superblocks());
        (closed, closed * i64::from(self.geometry.superblock_pages()))
    }

    fn ask_policy(&mut self) -> usize {
        if self.targets.is_empty() {
            return (self.choose)(self, 0);
        }
        if self.gained_over_blind < -self.closed_at_gc().1 {
            let all = self.candidates.iter().flatten().copied();
            let emptiest = all.min_by_key(|&s| (self.valid(s), self.superblocks[s].changed_step));
            return emptiest.expect("there are candidates");
        }
        let sizes: Vec<u32> = self.candidates.iter().map(|c| c.len() as u32).collect();
        let pool = furthest_above(&sizes, &self.targets).expect("there are candidates");
        (self.choose)(self, pool)
    }
}
