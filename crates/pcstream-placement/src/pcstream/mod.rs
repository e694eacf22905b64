//! pcstream: program contexts grouped by lifetime (Kim et al., FAST'19).
//!
//! Idea: the call path that led to a write predicts how long its data will live. Three parts, as in
//! the paper's Figure 7:
//!
//! - [`lifetime`], the lifetime manager: which context wrote what is where, and when; an overwrite
//!   or discard turns that into a lifetime;
//! - [`table`], the PC attribute table: expected lifetime and stream of each context;
//! - [`mapper`], the PC2Stream mapper: contexts with similar lifetimes share a stream.
//!
//! A write is placed by what is known before it; then it is learned from. A context that is
//! unknown, has no lifetime yet, or was not clustered yet goes to S0, as does a write without a
//! context (the file system's metadata and journal, unless `kinds` is set).
//!
//! Units: pages and logical time.
//!
//! Known weaknesses: a context whose data is never overwritten has no lifetime and stays in S0; one
//! whose data lives for very different times (an LSM tree's compaction) has a mean that fits
//! none of it, which is what internal streams are for. Lifetimes are learned from data that died,
//! so that a fresh trace shows the short ones first.

pub mod averaging;
mod by_context;
pub mod cluster;
pub mod key;
pub mod lifetime;
pub mod mapper;
mod saved;
pub mod table;

use std::sync::Arc;

use pcstream_trace::paths::file_name;
use pcstream_trace::{Event, Signature, Tables};

use crate::error::{SchemeError, check};
use crate::parameter::{Environment, Parameter, Parameters, Value};
use crate::prefetch::Ahead;
use crate::scheme::{ByContext, Placement, Scheme, SchemeFact};
use crate::{choices, extents, parameter};
use averaging::Averaging;
use globset::{Glob, GlobMatcher};
use key::{KeySource, Keys};
use lifetime::{Chunk, Ended, LifetimeParams, LiveTable, Writer};
use mapper::{Clusterer, Distance, Mapper, MapperParams, Numbering, Weights};
use table::AttributeTable;

/// Parameters of `pcstream`.
#[derive(Clone, Debug, PartialEq)]
pub struct PcStreamParams {
    /// What lifetimes are learned of; the program context.
    pub key: KeySource,
    /// Whether file-system metadata without a context is learned by its kind instead of going to
    /// S0; off, as in the paper.
    pub kinds: bool,
    /// Lifetimes that a path must have ended before it is preferred to its prefixes, at least 1; without a tree of
    /// prefixes it means nothing.
    pub enough_lifetimes: u32,
    /// The lifetime manager.
    pub lifetime: LifetimeParams,
    /// Whether data that still lives counts, each `mapper.drift_pages` and each 16 MiB at most, as censored samples; off, as in
    /// the paper.
    pub survivors: bool,
    /// How a new lifetime changes the expected one.
    pub averaging: Averaging,
    /// Size of the PC attribute table; 360 KB in the paper. 13 bytes an entry.
    pub table_bytes: u64,
    /// Programs whose end empties the table, by a glob over the last component of their path: `make` empties it after
    /// each build (FAST'19's comparison without a table, section 6.6). What is written before does not teach any more.
    pub forget_at_exit_of: Option<String>,
    /// A saved table to begin with. One whose keys mean nothing here is refused.
    pub saved_table: Option<Arc<[u8]>>,
    /// The mapper.
    pub mapper: MapperParams,
    /// Share of the spare superblocks that open ones may take: of more streams, the first ones are used. From 1 on, all
    /// streams are, as in the paper.
    pub open_share: f64,
}

impl Default for PcStreamParams {
    fn default() -> Self {
        PcStreamParams {
            key: KeySource::default(),
            kinds: false,
            enough_lifetimes: 8,
            lifetime: LifetimeParams::default(),
            survivors: false,
            averaging: Averaging::default(),
            table_bytes: 360_000,
            forget_at_exit_of: None,
            saved_table: None,
            mapper: MapperParams::default(),
            open_share: OPEN_SHARE,
        }
    }
}

impl PcStreamParams {
    /// What FAST'19 says, where ours differs by default (docs/fidelity.md says what still does): lifetimes by chunks of 1/1049 superblock, averaged once a
    /// request, new contexts in S0 until re-clustering is due, no rest between two of them, a stream for every cluster, and all
    /// streams.
    pub(crate) fn by_the_letter(&mut self) {
        if self.lifetime.chunk == Chunk::Page {
            self.lifetime.chunk = Chunk::Scaled;
        }
        self.averaging = Averaging::Half;
        self.mapper.newcomer_pages = None;
        self.mapper.drift_pages = 0;
        self.mapper.least_gain = 0.0;
        self.open_share = 1.0;
    }

    /// The table is emptied when a linker ends, unless another program is named: the last step of a build.
    pub(crate) fn forget_builds(&mut self) {
        self.forget_at_exit_of.get_or_insert_with(|| "{ld,ld.*,*-ld,*-ld.*,gold,lld,mold}".to_owned());
    }
}

choices!(Weights: Equal = "equal", Written = "written");
choices!(Clusterer: KMeans = "k-means", MergeClosest = "merge-closest");
choices!(Distance: Linear = "linear", Log = "log");
choices!(Numbering: Keep = "keep", ByLifetime = "by-lifetime");

/// `pages:WINDOW`, `half`, `mean`, or the weight of a new lifetime.
impl Value for Averaging {
    fn read(text: &str) -> Result<Self, String> {
        let read = match (text, text.strip_prefix("pages:")) {
            ("half", _) => Some(Averaging::Half),
            ("mean", _) => Some(Averaging::Mean),
            (_, Some(window)) => window.parse().ok().map(|window| Averaging::Pages { window }),
            (weight, None) => weight.parse().ok().map(Averaging::Weighted),
        };
        read.ok_or_else(|| "pages:WINDOW, half, mean, or a weight above 0 and at most 1".into())
    }

    fn show(&self) -> String {
        match self {
            Averaging::Pages { window } => format!("pages:{window}"),
            Averaging::Half => "half".to_owned(),
            Averaging::Mean => "mean".to_owned(),
            Averaging::Weighted(weight) => weight.to_string(),
        }
    }
}

#[rustfmt::skip]
impl Parameters for PcStreamParams {
    const LIST: &'static [Parameter<PcStreamParams>] = &[
        parameter!(PcStreamParams, key, KeySource::CHOICES, "what lifetimes are learned of", "FAST'19; extensions and files after HotStorage'18"),
        parameter!(PcStreamParams, kinds, "true, false", "whether file-system metadata is learned by its kind instead of going to S0", "this project; FAST'19: false"),
        parameter!(PcStreamParams, enough_lifetimes, "lifetimes", "lifetimes of a call path before it is preferred to its prefixes (context-tree)", "this project"),
        parameter!(PcStreamParams, survivors, "true, false", "whether data that still lives counts, as censored samples", "this project; FAST'19: false"),
        parameter!(PcStreamParams, averaging, "pages:WINDOW, half, mean, or weight of a new lifetime", "how a new lifetime changes the expected one", "this project; FAST'19: half"),
        parameter!(PcStreamParams, table_bytes, "bytes", "size of the PC attribute table, 13 bytes an entry", "FAST'19, section 5.1"),
        parameter!(PcStreamParams, forget_at_exit_of, "glob, or none", "programs whose end empties the table", "FAST'19, section 6.6, without table"),
        parameter!(PcStreamParams, lifetime.chunk, "page, scaled, or pages", "unit of address whose lifetimes end together; scaled is 1/1049 superblock", "this project; FAST'19: 1 MiB"),
        parameter!(PcStreamParams, lifetime.max_bytes, "bytes", "memory of the table of live data", "dissertation chapter on PCStream, \"PC Lifetime Management\""),
        parameter!(PcStreamParams, mapper.clusterer, Clusterer::CHOICES, "how lifetimes are grouped", "FAST'19; HotStorage'18: merge-closest"),
        parameter!(PcStreamParams, mapper.distance, Distance::CHOICES, "what is close", "FAST'19"),
        parameter!(PcStreamParams, mapper.numbering, Numbering::CHOICES, "which stream a cluster gets", "this project; the papers leave it open"),
        parameter!(PcStreamParams, mapper.changed_fraction, "share, 0 to 1", "share of the table that must have changed before it is clustered again", "FAST'19, section 5.2"),
        parameter!(PcStreamParams, mapper.change_factor, "ratio, at least 1", "how many times longer or shorter a changed lifetime is", "this project; the papers leave it open"),
        parameter!(PcStreamParams, mapper.drift_pages, "pages", "host writes between clusterings that no new context asks for", "this project; the papers have no such limit"),
        parameter!(PcStreamParams, mapper.early, "true, false", "whether the first of these clusterings come sooner, whenever twice as much has been written", "this project; `place` has true"),
        parameter!(PcStreamParams, mapper.weights, Weights::CHOICES, "how much a context counts when means are found", "FAST'19; `place` with five streams or fewer: written"),
        parameter!(PcStreamParams, mapper.least_gain, "octaves squared, 0 or more", "variance of log2 of lifetimes between two neighbouring clusters, by pages, below which they share a stream", "this project; FAST'19: 0"),
        parameter!(PcStreamParams, mapper.newcomer_pages, "pages, or none", "pages of a context that must have died before it goes to the nearest cluster", "this project; FAST'19: none"),
        parameter!(PcStreamParams, open_share, "share, above 0; all streams from 1 on", "share of the spare superblocks that open ones may take, which limits the streams used; three are used if they take a third at most", "this project; FAST'19: 1"),
    ];

    fn reads_addresses(&self, superblock_pages: u32) -> bool {
        self.lifetime.chunk.pages(superblock_pages) > 1
    }

    fn bytes_for(&self, pages: u64) -> u64 {
        extents::bytes_for(pages, self.lifetime.max_bytes)
    }

    fn build(
        &self,
        scheme: &'static str,
        environment: &Environment,
    ) -> Result<Box<dyn Scheme>, SchemeError> {
        Ok(Box::new(PcStream::new(scheme, environment, self.clone())?))
    }
}

/// Share of the spare superblocks that open ones may take, unless a parameter says otherwise. Open superblocks are half
/// empty on average, so a tenth of the spare area is lost at most, and copies rise by about a tenth.
pub(crate) const OPEN_SHARE: f64 = 0.2;

/// The streams of a device that a scheme uses with this share. Refuses what is no share.
pub(crate) fn streams_within(
    scheme: &'static str,
    environment: &Environment,
    share: f64,
) -> Result<u8, SchemeError> {
    check(share > 0.0 && share.is_finite(), scheme, "open_share", share, "a number above 0")?;
    Ok(environment.streams_within(share))
}

/// Host writes between two counts of what still lives, at least: a count looks at every extent.
const SURVIVORS_PAGES: u64 = 4096;

/// The PCStream scheme.
pub struct PcStream {
    name: &'static str,
    keys: Keys,
    enough_lifetimes: u32,
    /// When what still lives was last counted, if it is.
    survivors_counted_at: Option<u64>,
    live: LiveTable,
    ended: Ended,
    table: AttributeTable,
    mapper: Mapper,
    averaged: u64,
    /// Contexts that were not clustered yet and just got a lifetime; empty outside a request.
    newcomers: Vec<Signature>,
    forget: Option<Forget>,
    forgotten: u64,
    /// Logical time after the last write.
    written_until: u64,
}

/// When the table is emptied.
struct Forget {
    programs: GlobMatcher,
    times: u64,
}

impl Forget {
    fn new(scheme: &'static str, programs: &str) -> Result<Forget, SchemeError> {
        let glob = Glob::new(programs).map_err(|_| {
            let (parameter, found) = ("forget_at_exit_of", programs.to_owned());
            SchemeError::Parameter { scheme, parameter, found, expected: "a glob" }
        })?;
        Ok(Forget { programs: glob.compile_matcher(), times: 0 })
    }
}

impl PcStream {
    /// Makes the scheme; errors name it `scheme`.
    pub fn new(
        scheme: &'static str,
        environment: &Environment,
        params: PcStreamParams,
    ) -> Result<PcStream, SchemeError> {
        let streams = streams_within(scheme, environment, params.open_share)?;
        params.lifetime.check(scheme)?;
        params.mapper.check(scheme)?;
        let (averaging, expected) =
            (params.averaging, "a weight above 0 and at most 1, a window of at least 1 page");
        check(averaging.is_valid(), scheme, "averaging", averaging.show(), expected)?;
        let forget = params.forget_at_exit_of.as_deref().map(|programs| Forget::new(scheme, programs));
        let mut table =
            AttributeTable::new(params.table_bytes, params.averaging, params.mapper.change_factor);
        if let Some(saved) = &params.saved_table {
            table.load(saved, params.key)?;
        }
        let mut mapper = Mapper::new(streams, params.mapper);
        if mapper.is_due(&table, 0) {
            mapper.cluster(&mut table, 0);
        }
        Ok(PcStream {
            name: scheme,
            keys: Keys::new(params.key, params.kinds),
            enough_lifetimes: params.enough_lifetimes,
            survivors_counted_at: params.survivors.then_some(0),
            live: LiveTable::new(params.lifetime, environment.superblock_pages),
            ended: Ended::default(),
            table,
            mapper,
            averaged: 0,
            newcomers: Vec::new(),
            forget: forget.transpose()?,
            forgotten: 0,
            written_until: 0,
        })
    }

    /// The PC attribute table.
    pub fn table(&self) -> &AttributeTable {
        &self.table
    }

    /// Takes the lifetimes that a request ended into the table, and re-clusters if that is due.
    #[inline]
    fn learn(&mut self, now: u64) {
        let PcStream { keys, ended, live, table, mapper, averaged, newcomers, survivors_counted_at, .. } =
            self;
        let before = *averaged;
        ended.drain(|writer, died| {
            let mut upwards = Some(writer);
            while let Some(writer) = upwards {
                let known = keys.known(writer);
                if table.learn(known.signature, died, &mut known.place).is_some() {
                    newcomers.push(known.signature);
                }
                upwards = known.parent;
            }
            *averaged += 1;
        });
        if let Some(counted_at) = survivors_counted_at
            && now - *counted_at >= mapper.drift_pages().max(SURVIVORS_PAGES)
        {
            *counted_at = now;
            for (writer, &(ages, pages)) in
                (0..).zip(live.ages(now, ended).iter()).filter(|(_, (_, pages))| *pages > 0)
            {
                table.count_alive(keys.known(Writer(writer)).signature, ages, pages);
            }
        }
        if *averaged > before && mapper.is_due(table, now) {
            mapper.cluster(table, now);
            newcomers.clear();
        }
        for signature in newcomers.drain(..) {
            table.settle(signature, |entry| mapper.newcomer(entry));
        }
    }
}

impl Scheme for PcStream {
    fn prefetch(&self, event: &Event, ahead: Ahead) {
        self.live.prefetch(event, ahead);
    }

    fn place(&mut self, event: &Event, now: u64, tables: &Tables, out: &mut Vec<Placement>) {
        let writer = self.keys.writer_of(event, tables);
        let stream = writer.map_or(Default::default(), |w| {
            let lifetimes = |signature| self.table.get(signature).map_or(0, |entry| entry.samples);
            let best = self.keys.best_known(w, self.enough_lifetimes, lifetimes);
            let known = self.keys.known(best);
            self.table.stream_for_write(known.signature, event.pages, &mut known.place)
        });
        out.push(Placement { pages: event.pages, stream });
        self.written_until = now + u64::from(event.pages);
        self.live.write(event, writer, now, &mut self.ended);
        self.learn(now);
    }

    fn discard(&mut self, event: &Event, now: u64, _: &Tables) {
        self.live.discard(event, now, &mut self.ended);
        self.learn(now);
    }

    fn exit(&mut self, event: &Event, tables: &Tables) {
        let Some(context) = tables.context(event.context) else { return };
        let program = file_name(&context.executable);
        if let Some(forget) = self.forget.as_mut().filter(|forget| forget.programs.is_match(program)) {
            forget.times += 1;
            self.forgotten += self.table.len() as u64;
            self.table.clear();
            self.mapper.clear();
            self.ended.only_since(self.written_until);
        }
    }

    fn facts(&self) -> Vec<SchemeFact> {
        vec![
            ("reclusterings", self.mapper.clusterings()),
            ("contexts_known", self.table.len() as u64),
            ("remapped_contexts", self.mapper.remapped()),
            ("lifetimes_learned", self.averaged),
            ("table_bytes", self.table.bytes()),
            ("table_evictions", self.table.evictions()),
            ("contexts_forgotten", self.forgotten),
            ("keys_refused", self.keys.refused()),
            ("live_chunks", self.live.live()),
            ("live_bytes", self.live.bytes()),
            ("live_chunks_dropped", self.live.evicted()),
            ("streams_used", self.mapper.streams().into()),
        ]
    }

    fn remarks(&self) -> Vec<String> {
        let never = self.forget.iter().filter(|forget| forget.times == 0 && self.written_until > 0);
        let said = never.map(|forget| {
            let programs = forget.programs.glob();
            let name = self.name;
            format!(
                "{name}: the table was never emptied: the trace has no end of a program {programs} that wrote; \
                 name one that did in the parameter {name}.forget_at_exit_of"
            )
        });
        said.collect()
    }

    fn by_context(&mut self) -> Option<&mut dyn ByContext> {
        self.keys.are_of_contexts().then_some(self)
    }

    fn learned(&self) -> Option<Vec<u8>> {
        Some(self.table.save(self.name, self.keys.source()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{device, discard, tables, write};
    use pcstream_trace::{ContextId, Op};

    struct Bench {
        scheme: PcStream,
        tables: Tables,
        now: u64,
    }

    impl Bench {
        fn new(params: PcStreamParams, programs: &[&str]) -> Bench {
            let contexts: Vec<_> = programs.iter().map(|&program| (program, "")).collect();
            let scheme = PcStream::new("test", &device(9), params).expect("good parameters");
            Bench { scheme, tables: tables(&contexts, &[]), now: 0 }
        }

        fn write(&mut self, context: u32, lba: u64, pages: u32) -> u8 {
            let (event, mut out) = (Event { context: ContextId(context), ..write(lba, pages) }, Vec::new());
            self.scheme.place(&event, self.now, &self.tables, &mut out);
            self.now += u64::from(pages);
            out[0].stream.0
        }

        fn discard(&mut self, lba: u64, pages: u32) {
            self.scheme.discard(&discard(lba, pages), self.now, &self.tables);
        }

        fn exit(&mut self, context: u32) {
            let event = Event { op: Op::Exit, context: ContextId(context), ..write(0, 0) };
            self.scheme.exit(&event, &self.tables);
        }
    }

    /// `settled` contexts whose pages live equally long every time, then one more like the second.
    fn writes_of_a_newcomer_on_s0(settled: u32, params: PcStreamParams) -> usize {
        let mut bench = Bench::new(params, &vec!["p"; settled as usize + 1]);
        for round in 0..400u64 {
            // Context k overwrites its page every k rounds.
            for context in (1..=settled).filter(|&k| round % u64::from(k) == 0) {
                bench.write(context, u64::from(context), 1);
            }
        }
        (0..4000).filter(|_| bench.write(settled + 1, 1000, 1) == 0).count()
    }

    #[test]
    fn a_newcomer_among_settled_contexts_does_not_starve() {
        for settled in [10, 30, 100] {
            let of = |vary: fn(&mut PcStreamParams)| {
                let mut params = PcStreamParams::default();
                vary(&mut params);
                writes_of_a_newcomer_on_s0(settled, params)
            };
            assert_eq!(of(|_| ()), 2, "{settled}: the second write ends the first lifetime");
            assert_eq!(of(|p| p.mapper.newcomer_pages = None), 4000, "{settled}: the paper's rule");
        }
    }

    /// Context 1 writes once and never again, context 2 overwrites one page, context 3 deletes a little of what it writes.
    #[test]
    fn survivors_count_if_asked() {
        for (survivors, known, longest) in [(false, 2, 1), (true, 3, 1000)] {
            let params = PcStreamParams {
                survivors,
                mapper: MapperParams { drift_pages: 0, ..MapperParams::default() },
                ..PcStreamParams::default()
            };
            let mut bench = Bench::new(params, &["a", "b", "c"]);
            bench.write(1, 10_000, 100);
            for round in 0..5000 {
                bench.write(2, 0, 1);
                bench.write(3, 100 + round, 1);
                if round % 500 == 499 {
                    bench.discard(100 + round, 1);
                }
            }
            assert_eq!(bench.scheme.table().len(), known);
            let lifetime =
                |id: u64| bench.scheme.table().get(Signature(1000 + id)).map(|e| e.lifetime.pages());
            assert!(lifetime(3) >= Some(longest), "{:?}", lifetime(3));
            assert_eq!(lifetime(1).is_some_and(|l| l > 1000), survivors, "its age is known");
            assert_eq!(lifetime(2), Some(2), "the one page alive adds next to nothing");
        }
    }

    fn forgetting() -> PcStreamParams {
        PcStreamParams { forget_at_exit_of: Some("ma*".into()), ..PcStreamParams::default() }
    }

    #[test]
    fn the_table_is_empty_after_the_named_program_and_stays_so() {
        for (params, left) in [(forgetting(), 0), (PcStreamParams::default(), 2)] {
            let mut bench = Bench::new(params, &["/usr/bin/cc1", "/usr/bin/make", "/usr/bin/cc1"]);
            for _ in 0..4 {
                bench.write(1, 0, 10);
                bench.write(2, 100, 10);
            }
            bench.exit(1);
            assert_eq!(bench.scheme.table().len(), 2, "a compiler that ends is no build that ends");
            let never_emptied = |bench: &Bench| bench.scheme.remarks().len();
            assert_eq!(never_emptied(&bench), usize::from(left == 0), "it does nothing yet, and says so");
            bench.exit(2);
            assert_eq!((bench.scheme.table().len(), never_emptied(&bench)), (left, 0));
            // What the build left behind is removed: that teaches nothing about contexts that are forgotten.
            bench.discard(0, 200);
            assert_eq!(bench.scheme.table().len(), left, "the dead are not resurrected");
            bench.exit(9);
        }
        let mut bench = Bench::new(forgetting(), &["cc1", "make"]);
        (0..3).for_each(|_| _ = bench.write(1, 0, 10));
        bench.exit(2);
        assert_eq!([0; 3].map(|_| bench.write(1, 0, 10)), [0, 0, 1], "the next build learns again");
        assert!(bench.scheme.table().get(Signature(1001)).is_some());
    }

    #[test]
    fn a_build_ends_with_any_linker() {
        let mut params = PcStreamParams::default();
        params.forget_builds();
        for (program, is_linker) in [
            ("/usr/bin/x86_64-linux-gnu-ld.bfd", true),
            ("/usr/lib/llvm-14/bin/lld", true),
            ("/usr/bin/mold", true),
            ("/usr/bin/ldd", false),
            ("/usr/lib/gcc/cc1", false),
        ] {
            let mut bench = Bench::new(params.clone(), &[program]);
            (0..3).for_each(|_| _ = bench.write(1, 0, 10));
            bench.exit(1);
            assert_eq!(bench.scheme.table().len(), usize::from(!is_linker), "{program}");
        }
    }

    /// Data of before that still lives is no evidence either.
    #[test]
    fn survivors_of_a_build_that_ended_teach_nothing() {
        for (programs, known) in [(None, 2), (Some("make".to_owned()), 1)] {
            let params =
                PcStreamParams { forget_at_exit_of: programs, survivors: true, ..Default::default() };
            let drift = params.mapper.drift_pages;
            let mut bench = Bench::new(params, &["make", "cc1"]);
            bench.write(1, 0, 10);
            bench.exit(1);
            (0..=drift).for_each(|_| _ = bench.write(2, 100, 1));
            assert_eq!(bench.scheme.table().len(), known);
        }
    }

    #[test]
    fn a_name_that_is_no_glob_is_refused() {
        let params = PcStreamParams { forget_at_exit_of: Some("a[".into()), ..PcStreamParams::default() };
        let error = PcStream::new("test", &device(9), params).err().expect("refused").to_string();
        assert!(error.contains("forget_at_exit_of is a[, but must be a glob"), "{error}");
    }
}
