//! pcstream-plus: PCStream on the history of pages, too. Ours; docs/pcstream-plus.md explains it.
//!
//! Idea: a program context says what kind of data a write is, and the earlier lifetimes of the same page
//! say how hot this piece of it is. `predictor` learns what each says of a write's lifetime, and
//! predicts the logarithm of a write's lifetime and how far it scatters. `clustering` groups predictions
//! so that streams tell most about when their pages die. This file keeps what is known of every page.
//!
//! A write is placed by what is known before it; then it is learned from: what one request ended counts once
//! for each set of writes, with its mean. Writes of which nothing is known go to S0. With five streams or more
//! they share it only with a single cluster. Metadata without a context is known by its kind.
//!
//! Units: pages, logical time, octaves (log2 of pages). A page keeps the time modulo 2^40 pages; one that lives longer
//! counts as younger.
//!
//! Memory: 12 bytes an extent of equal pages in `Extents`, bounded; 16,384 sets; 2 bytes a file.
//!
//! Known weaknesses: copy-on-write trees never write a page twice in place, so that only the context speaks;
//! a context of which nothing has died yet goes to S0.

mod by_context;
pub(crate) mod clustering;
mod name_class;
pub(crate) mod predictor;

use pcstream_trace::{ById, Event, Tables};

use crate::error::{SchemeError, check};
use crate::extents::{self, Extents};
use crate::parameter;
use crate::parameter::{Environment, Parameter, Parameters};
use crate::pcstream::key::{KeySource, Keys};
use crate::pcstream::lifetime::Writer;
use crate::pcstream::{OPEN_SHARE, streams_within};
use crate::plus::clustering::{Clustering, Member};
use crate::plus::name_class::NameClasses;
use crate::plus::predictor::{Origin, Predictor, SetId, log2};
use crate::prefetch::Ahead;
use crate::scheme::{ByContext, Placement, Scheme, SchemeFact, Stream, push_run};

/// Contexts that are kept apart if neither history nor names are: one more takes a set and two keys.
pub const MAX_CONTEXTS: usize = predictor::MAX_SETS - 2;

/// Pages written between clusterings; less at the start.
const CLUSTER_PAGES: u64 = 2048;
/// A page's mean lifetime moves by at least this share of a new one's difference.
const PAGE_RATE: f32 = 0.06;
/// Weight of a region's mean beside a page's own lifetimes.
const REGION_WEIGHT: f32 = 2.0;
/// A region's mean moves by this share of a new lifetime's difference.
const REGION_RATE: f32 = 0.1;
/// Pages of a region, and how many regions are kept (a power of two); further ones share.
const REGION_PAGES: u64 = 64;
const REGIONS: usize = 1 << 16;
/// Octaves in 16 bits.
const FIXED: f32 = 1024.0;

/// Parameters of `pcstream-plus`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlusParams {
    /// Memory for what is known of pages; 64 MiB. At the bound the least recently referenced go.
    pub max_bytes: u64,
    /// Share of the spare superblocks that open ones may take: of more streams, the first ones are used.
    pub open_share: f64,
    /// Whether the earlier lifetimes of a page tell writes apart.
    pub history: bool,
    /// Whether names of files tell writes apart.
    pub names: bool,
}

impl Default for PlusParams {
    fn default() -> Self {
        PlusParams { max_bytes: 64 << 20, open_share: OPEN_SHARE, history: true, names: true }
    }
}

impl PlusParams {
    /// What the kernel can do when a write is made: it knows its context, and no more.
    pub fn contexts_alone(&mut self) {
        (self.history, self.names) = (false, false);
    }

    fn by_context(&self) -> bool {
        !self.history && !self.names
    }
}

impl Parameters for PlusParams {
    #[rustfmt::skip]
    const LIST: &'static [Parameter<PlusParams>] = &[
        parameter!(PlusParams, max_bytes, "bytes", "memory for what is known of pages; the least recently referenced go", "this project"),
        parameter!(PlusParams, open_share, "share, above 0; all streams from 1 on", "share of the spare superblocks that open ones may take, which limits the streams used; three are used if they take a third at most", "this project"),
        parameter!(PlusParams, history, "true, false", "whether the earlier lifetimes of a page tell writes apart", "this project"),
        parameter!(PlusParams, names, "true, false", "whether names of files tell writes apart", "this project"),
    ];

    fn reads_addresses(&self, _: u32) -> bool {
        self.history
    }

    fn bytes_for(&self, pages: u64) -> u64 {
        extents::bytes_for(pages, self.max_bytes)
    }

    fn build(&self, scheme: &'static str, environment: &Environment) -> Result<Box<dyn Scheme>, SchemeError> {
        Ok(Box::new(PcStreamPlus::new(scheme, environment, *self)?))
    }
}

/// What is known of a page that holds data.
#[derive(Clone, Copy, PartialEq)]
#[repr(C, packed(4))]
struct Page {
    /// When it was written (40 bits), how many lifetimes its mean is of (8), owner (16).
    written: u64,
    /// Mean of its earlier lifetimes under this owner, in octaves / 1024.
    own: u16,
    set: u16,
}

/// Owners are known by 16 bits of a hash.
const OWNER_SHIFT: u32 = 48;
const COUNT_SHIFT: u32 = 40;
const TIME: u64 = (1 << COUNT_SHIFT) - 1;
/// A mean over more lifetimes than this no longer changes its rate.
const MOST: u32 = 15;
const NO_SET: u16 = u16::MAX;
/// Of data without one.
const NO_CONTEXT: u32 = 0;

/// The predictor's number of a context.
fn context_of(writer: Writer) -> u32 {
    writer.0 + 1
}

impl Page {
    /// Pages written since.
    fn age(self, now: u64) -> u64 {
        now.wrapping_sub(self.written) & TIME
    }

    fn set(self) -> Option<SetId> {
        (self.set != NO_SET).then_some(SetId(self.set))
    }

    fn owner(self) -> u16 {
        (self.written >> OWNER_SHIFT) as u16
    }

    /// Mean of the page's lifetimes with one more, and of how many it is.
    fn after(self, lifetime: f32) -> (f32, u32) {
        let n = (self.written >> COUNT_SHIFT) as u32 & 0xff;
        let own = f32::from(self.own) / FIXED;
        let mean = match n {
            0 => lifetime,
            n => own + (1.0 / (n as f32 + 1.0)).max(PAGE_RATE) * (lifetime - own),
        };
        (mean, (n + 1).min(MOST))
    }

    fn new(now: u64, owner: u16, (own, n): (f32, u32), set: Option<SetId>) -> Page {
        let written = u64::from(owner) << OWNER_SHIFT | u64::from(n) << COUNT_SHIFT | now & TIME;
        Page { written, own: (own * FIXED) as u16, set: set.map_or(NO_SET, |set| set.0) }
    }
}

/// Where the writes of a set go.
#[derive(Clone, Copy, Default)]
struct Placed {
    /// Pages written, older ones less.
    weight: f64,
    stream: Option<Stream>,
}

/// Lifetimes that one request ended: sum and number, by set.
#[derive(Default)]
struct Ended {
    sums: ById<(f32, u32)>,
    touched: Vec<SetId>,
}

impl Ended {
    #[inline]
    fn add(&mut self, page: Page, lifetime: f32, pages: u32) {
        let Some(set) = page.set() else { return };
        let (sum, count) = self.sums.at(set.0.into());
        if *count == 0 {
            self.touched.push(set);
        }
        *sum += lifetime * pages as f32;
        *count = count.saturating_add(pages);
    }
}

/// The scheme.
pub struct PcStreamPlus {
    name: &'static str,
    params: PlusParams,
    keys: Keys,
    names: NameClasses,
    pages: Extents<Page>,
    /// Mean lifetime of the pages around, in octaves / 1024; 0 where nothing died.
    regions: Vec<u16>,
    ended: Ended,
    predictor: Predictor,
    clustering: Clustering,
    streams: u8,
    placed: ById<Placed>,
    members: Vec<Member>,
    clustered_at: u64,
    /// How often that gave sets other streams.
    moves: u64,
    /// Pages that were dropped until then.
    dropped: u64,
    /// Pages of address space, as far as they were written.
    space: u64,
}

impl PcStreamPlus {
    /// Makes the scheme; errors name it `scheme`.
    pub fn new(
        scheme: &'static str,
        environment: &Environment,
        params: PlusParams,
    ) -> Result<PcStreamPlus, SchemeError> {
        let streams = streams_within(scheme, environment, params.open_share)?;
        let bytes = params.max_bytes;
        check(bytes >= 4096, scheme, "max_bytes", bytes, "at least 4096")?;
        Ok(PcStreamPlus {
            name: scheme,
            params,
            keys: Keys::new(KeySource::Context, true),
            names: NameClasses::default(),
            pages: Extents::new(bytes),
            regions: vec![0; REGIONS],
            ended: Ended::default(),
            predictor: Predictor::default(),
            clustering: Clustering::new(streams),
            streams,
            placed: ById::default(),
            members: Vec::new(),
            clustered_at: 0,
            moves: 0,
            dropped: 0,
            space: 1,
        })
    }

    /// Takes what a request ended into account, and clusters if that is due.
    fn learn(&mut self, now: u64) {
        for set in self.ended.touched.drain(..) {
            let (sum, count) = std::mem::take(&mut self.ended.sums[usize::from(set.0)]);
            self.predictor.learn(set, sum / count as f32);
        }
        if now - self.clustered_at >= (now / 4).clamp(64, CLUSTER_PAGES) {
            self.cluster(now);
        }
    }

    fn cluster(&mut self, now: u64) {
        // Half of a set's weight is left after twice the address space was written.
        let decay = (-((now - self.clustered_at) as f64) / (2.0 * self.space as f64)).exp2();
        self.clustered_at = now;
        self.predictor.fade(decay, now);
        if self.dropped != self.pages.evicted_pages() {
            self.dropped = self.pages.evicted_pages();
            self.predictor.nothing_lives(now);
            self.pages.each(|page, run| {
                if let Some(set) = page.set() {
                    self.predictor.born(set, run, now);
                }
            });
        }
        let predictor = &self.predictor;
        let predictions: Vec<_> =
            (0..predictor.sets()).map(|set| predictor.predict(SetId(set as u16))).collect();
        self.members.clear();
        for (placed, prediction) in self.placed.iter_mut().zip(&predictions) {
            placed.weight *= decay;
            let Placed { weight, stream } = *placed;
            self.members.extend(prediction.map(|prediction| Member { weight, prediction, stream }));
        }
        self.clustering.update(&self.members, log2(self.space) + 2.0);
        let mut moved = false;
        for (placed, prediction) in self.placed.iter_mut().zip(predictions) {
            let before = placed.stream;
            placed.stream = prediction.and_then(|prediction| self.clustering.stream(prediction));
            moved |= before.is_some() && before != placed.stream;
        }
        self.moves += u64::from(moved);
    }
}

/// The stream of a set that is written to.
#[inline]
fn stream_of(
    set: SetId,
    pages: u32,
    placed: &mut ById<Placed>,
    predictor: &Predictor,
    clustering: &Clustering,
) -> Stream {
    let placed = placed.at(set.0.into());
    placed.weight += f64::from(pages);
    if placed.stream.is_none() {
        placed.stream = predictor.predict(set).and_then(|prediction| clustering.stream(prediction));
    }
    placed.stream.unwrap_or_default()
}

#[inline]
fn region(page: u64) -> usize {
    (page / REGION_PAGES) as usize & (REGIONS - 1)
}

impl Scheme for PcStreamPlus {
    fn prefetch(&self, event: &Event, ahead: Ahead) {
        self.pages.prefetch(event.lba.0, ahead);
    }

    fn place(&mut self, event: &Event, now: u64, tables: &Tables, out: &mut Vec<Placement>) {
        let context = self.keys.writer_of(event, tables).map_or(NO_CONTEXT, context_of);
        let name = if self.params.names { self.names.of(event.file, tables) } else { 0 };
        let owner = if event.file.0 != 0 { event.file.0 } else { !context };
        let owner = (owner.wrapping_mul(0x9e37_79b9) >> 16) as u16;
        let start = out.len();
        let PcStreamPlus { params, pages, regions, ended, predictor, clustering, placed, .. } = self;
        pages.write(event.lba.0, event.pages, now, |old, page, run| {
            let (mut history, mut own) = (0, (0.0, 0));
            if let Some(old) = old {
                let age = old.age(now);
                let lifetime = log2(age);
                ended.add(old, lifetime, run);
                if let Some(set) = old.set() {
                    predictor.died(set, run, age, now);
                }
                let around = &mut regions[region(page)];
                let mean = if *around == 0 { lifetime } else { f32::from(*around) / FIXED };
                *around = ((mean + REGION_RATE * (lifetime - mean)) * FIXED) as u16;
                if old.owner() == owner && params.history {
                    own = old.after(lifetime);
                    let n = own.1 as f32;
                    history = 1 + ((n * own.0 + REGION_WEIGHT * mean) / (n + REGION_WEIGHT)) as u8;
                }
            }
            let set = predictor.set(Origin { context, history, name });
            let stream =
                set.map_or(Stream::DEFAULT, |set| stream_of(set, run, placed, predictor, clustering));
            if let Some(set) = set {
                predictor.born(set, run, now);
            }
            push_run(out, start, run, stream);
            Page::new(now, owner, own, set)
        });
        let after = now + u64::from(event.pages);
        self.space = self.space.max(event.lba.0.saturating_add(u64::from(event.pages)));
        self.learn(after);
    }

    fn discard(&mut self, event: &Event, now: u64, _: &Tables) {
        let PcStreamPlus { pages, ended, predictor, .. } = self;
        pages.discard(event.lba.0, event.pages, now, |page, run| {
            let age = page.age(now);
            if let Some(set) = page.set() {
                predictor.died(set, run, age, now);
            }
            ended.add(page, log2(age), run);
        });
        self.learn(now);
    }

    fn facts(&self) -> Vec<SchemeFact> {
        vec![
            ("reclusterings", self.clustering.changes()),
            ("contexts_known", self.predictor.contexts() as u64),
            ("origins", self.predictor.sets() as u64),
            ("origins_refused", self.predictor.refused()),
            ("names_refused", self.names.refused()),
            ("live_pages", self.pages.live_pages()),
            ("live_bytes", self.pages.bytes()),
            ("live_pages_dropped", self.pages.evicted_pages()),
            ("streams_used", self.streams.into()),
        ]
    }

    fn by_context(&mut self) -> Option<&mut dyn ByContext> {
        self.params.by_context().then_some(self as &mut dyn ByContext)
    }

    fn learned(&self) -> Option<Vec<u8>> {
        self.params.by_context().then(|| self.save())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{device, discard, tables, write};
    use pcstream_trace::{ContextId, FileId};

    /// A device of which only the first pages are written.
    #[test]
    fn a_few_pages_are_enough_to_cluster() {
        let mut scheme = crate::registry::build("pcstream-plus", &device(4)).expect("its defaults are good");
        let tables = tables(&[("a", "")], &[]);
        for written in 0..10_000 {
            let event = Event { context: ContextId(1), ..write(written % 3, 1) };
            scheme.place(&event, written, &tables, &mut Vec::new());
        }
        assert!(scheme.facts().contains(&("contexts_known", 1)));
    }

    #[test]
    fn a_page_keeps_its_values() {
        assert_eq!(size_of::<Page>(), 12);
        let page = Page::new((1 << 40) - 1, 0xabcd, (10.5, MOST), Some(SetId(4000)));
        assert_eq!((page.age(1 << 40), page.owner(), { page.own }, { page.set }), (1, 0xabcd, 10752, 4000));
        assert_eq!(page.after(26.5), (10.5 + 16.0 / 16.0, MOST));
        assert_eq!(Page::new(0, 0, (0.0, 0), None).after(7.0), (7.0, 1));
    }

    /// Two pages of one context and file: one is written all the time, the other every 64th.
    #[test]
    fn history_tells_pages_of_one_context_apart() {
        let tables = tables(&[("/bin/a", "")], &["/f"]);
        for file in [0, 1] {
            let mut scheme = PcStreamPlus::new("test", &device(9), PlusParams::default()).expect("valid");
            let (mut now, mut last) = (0, [0; 2]);
            for i in 0..40_000u64 {
                let cold = i % 2 == 1;
                let lba = if cold { 1000 + i / 2 % 3000 } else { i / 2 % 100 };
                let event = Event { context: ContextId(1), file: FileId(file), ..write(lba, 1) };
                let mut out = Vec::new();
                scheme.place(&event, now, &tables, &mut out);
                now += 1;
                last[usize::from(cold)] = out[0].stream.0;
            }
            assert!(last[0] != last[1] && !last.contains(&0), "{last:?}");
        }
    }

    /// One context writes two files in turn, a page each: one has 100 pages, the other 3000.
    #[test]
    fn each_part_can_be_switched_off() {
        let tables = tables(&[("/bin/a", "")], &["/log", "/table"]);
        let are_apart = |discards: bool, params: PlusParams| {
            let mut scheme = PcStreamPlus::new("test", &device(9), params).expect("valid");
            let (mut now, mut last) = (0, [0; 2]);
            for i in 0..20_000u64 {
                let (slow, file) = if i % 2 == 1 { (true, 2) } else { (false, 1) };
                let lba = if slow { 1000 + i / 2 % 3000 } else { i / 2 % 100 };
                // Pages that were discarded have no history.
                if discards {
                    scheme.discard(&discard(lba, 1), now, &tables);
                }
                let event = Event { context: ContextId(1), file: FileId(file), ..write(lba, 1) };
                let mut out = Vec::new();
                scheme.place(&event, now, &tables, &mut out);
                now += 1;
                last[usize::from(slow)] = out[0].stream.0;
            }
            last[0] != last[1]
        };
        let default = PlusParams::default;
        assert!(are_apart(true, default()), "by name alone");
        assert!(!are_apart(true, PlusParams { names: false, ..default() }));
        assert!(are_apart(false, PlusParams { names: false, ..default() }), "by history alone");
        assert!(!are_apart(false, PlusParams { names: false, history: false, ..default() }));
    }

    /// With room for all pages, and for a part of them.
    #[test]
    fn the_predictor_knows_how_many_pages_live() {
        let tables = tables(&[("/bin/a", ""), ("/bin/b", "")], &[]);
        for max_bytes in [64 << 20, 8192] {
            let params = PlusParams { max_bytes, ..PlusParams::default() };
            let mut scheme = PcStreamPlus::new("test", &device(9), params).expect("valid");
            let mut now = 0;
            for i in 0..20_000u64 {
                let (lba, pages) = (i * 7919 % 5000, 1 + (i % 13) as u32);
                if i % 5 == 0 {
                    scheme.discard(&discard(lba, pages), now, &tables);
                } else {
                    let event = Event { context: ContextId(1 + (i % 2) as u32), ..write(lba, pages) };
                    scheme.place(&event, now, &tables, &mut Vec::new());
                    now += u64::from(pages);
                }
            }
            scheme.cluster(now);
            assert_eq!(scheme.pages.evicted_pages() > 0, max_bytes == 8192);
            assert_eq!(scheme.predictor.alive(), scheme.pages.live_pages() as f64);
        }
    }

    #[test]
    fn too_little_memory_is_refused() {
        let refused =
            PcStreamPlus::new("test", &device(9), PlusParams { max_bytes: 4095, ..PlusParams::default() });
        let text = refused.err().expect("refused").to_string();
        assert_eq!(text, "test.max_bytes is 4095, but must be at least 4096");
    }
}
