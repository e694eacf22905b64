//! What PCStream learns lifetimes of: program contexts, or any other key of a write.
//!
//! vStream (HotStorage'18) groups many virtual streams on few physical ones by observed lifetime,
//! which is PCStream's mapper under another key; so the key is a parameter.
//!
//! Exact call paths need many frames to tell an LSM tree's flush from its compaction, and few for what writes through a
//! library's buffer, which flushes from wherever it is full: a compiler has hundreds of such paths, each of a few
//! writes. So the paths may be a prefix tree ([`KeySource::ContextTree`]): executable, then the innermost 4 and 8 return
//! addresses, then the whole path. A lifetime counts for the path and everything above it; a write goes by the
//! longest prefix of which enough is known.
//!
//! A key is 64 bits and the same in every run: a context's signature, or a hash (FNV-1a) of a name
//! with the kind of key in front. A write without the key's ingredient has none, goes to S0, and
//! starts no lifetime.

use pcstream_trace::paths::{extension, file_name};
use pcstream_trace::{ById, Context, Event, Kind, Signature, Tables, Unwind};
use rustc_hash::FxHashMap;

use crate::fnv::fnv1a;
use crate::pcstream::lifetime::Writer;
use crate::pcstream::table::EntryIndex;
pub use crate::saved_table::KeySource;

/// Whether the key is made of the file, not of the context.
fn is_of_files(source: KeySource) -> bool {
    matches!(source, KeySource::Extension | KeySource::File)
}

/// Return addresses of the prefixes between the executable and the whole path. At 4, GCC's stages are distinguished and
/// its hundreds of paths are ten; RocksDB's activities part at the ninth.
const PREFIXES: [usize; 2] = [4, 8];

const UNSEEN: u32 = u32::MAX;
const NO_KEY: u32 = u32::MAX - 1;

/// Keys so far.
pub(crate) struct Keys {
    source: KeySource,
    kinds: bool,
    /// By context id or file id: a writer's number, UNSEEN or NO_KEY.
    by_id: ById<u32>,
    by_kind: [u32; Kind::ALL.len()],
    index: FxHashMap<Signature, u32>,
    writers: Vec<Known>,
    /// Keys beyond [`Writer::LIMIT`].
    refused: u64,
}

/// A key and where it was last found in the PC attribute table.
pub(crate) struct Known {
    pub signature: Signature,
    pub place: EntryIndex,
    /// Whose path is a prefix of this one's.
    pub parent: Option<Writer>,
}

impl Keys {
    /// With `kinds`, file-system metadata without another key is identified by its kind.
    pub(crate) fn new(source: KeySource, kinds: bool) -> Keys {
        Keys {
            source,
            kinds,
            by_id: ById::filled(UNSEEN),
            by_kind: [UNSEEN; Kind::ALL.len()],
            index: FxHashMap::default(),
            writers: Vec::new(),
            refused: 0,
        }
    }

    /// What keys are made of.
    pub(crate) fn source(&self) -> KeySource {
        self.source
    }

    /// Whether a write's key is made of its context alone.
    pub(crate) fn are_of_contexts(&self) -> bool {
        !is_of_files(self.source)
    }

    /// Keys that got no number, and whose writes go to S0.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    pub(crate) fn known(&mut self, writer: Writer) -> &mut Known {
        &mut self.writers[writer.0 as usize]
    }

    /// The writer itself if `lifetimes` of it are `enough`, else the nearest above it of which they are; where none has
    /// as many, the nearest that has any.
    #[inline]
    pub(crate) fn best_known(
        &self,
        writer: Writer,
        enough: u32,
        lifetimes: impl Fn(Signature) -> u32,
    ) -> Writer {
        let known = |writer: Writer| &self.writers[writer.0 as usize];
        if known(writer).parent.is_none() {
            return writer;
        }
        let mut upwards = std::iter::successors(Some(writer), |&w| known(w).parent);
        let learned = |writer: Writer| lifetimes(known(writer).signature);
        upwards
            .clone()
            .find(|&w| learned(w) >= enough)
            .or_else(|| upwards.find(|&w| learned(w) > 0))
            .unwrap_or(writer)
    }

    /// The writer of an event, if it has a key.
    #[inline]
    pub(crate) fn writer_of(&mut self, event: &Event, tables: &Tables) -> Option<Writer> {
        let id = if is_of_files(self.source) { event.file.0 } else { event.context.0 };
        let number = match self.by_id.get(id as usize) {
            Some(&number) if number != UNSEEN => number,
            _ => self.resolve(id, event, tables),
        };
        match number {
            NO_KEY if self.kinds && event.kind != Kind::Data => self.writer_of_kind(event.kind),
            NO_KEY => None,
            number => Some(Writer(number)),
        }
    }

    fn resolve(&mut self, id: u32, event: &Event, tables: &Tables) -> u32 {
        let context = tables.context(event.context);
        let file = tables.file(event.file);
        let signature = match self.source {
            KeySource::Context | KeySource::ContextTree => context.map(|c| c.signature),
            KeySource::Executable => context.map(|c| hash("executable", c.executable.as_bytes())),
            KeySource::Extension => file
                .filter(|f| !file_name(&f.path).is_empty())
                .map(|f| hash("extension", extension(&f.path).unwrap_or("").as_bytes())),
            KeySource::File => file.map(|f| match f.path.is_empty() {
                false => hash("file", f.path.as_bytes()),
                true => {
                    hash("inode", &[f.inode.to_le_bytes(), u64::from(f.generation).to_le_bytes()].concat())
                }
            }),
        };
        let in_table = if is_of_files(self.source) { file.is_some() } else { context.is_some() };
        let number = signature.map_or(NO_KEY, |s| self.number(s));
        if let (KeySource::ContextTree, Some(context)) = (self.source, context) {
            self.grow_tree(number, context);
        }
        // Id 0 is "none" for good; any other that is not in the tables is not worth an entry.
        if in_table || id == 0 {
            *self.by_id.at(id as usize) = number;
        }
        number
    }

    /// Enters the prefixes of a path above its own number.
    fn grow_tree(&mut self, leaf: u32, context: &Context) {
        if context.unwind == Unwind::Label || leaf == NO_KEY {
            return;
        }
        let mut child = leaf;
        // The head of the frames is no return address.
        let shorter = PREFIXES.into_iter().rev().filter(|&n| n + 1 < context.frames.len());
        let prefixes = shorter.map(|n| hash("prefix", &path_bytes(context, n + 1)));
        for signature in prefixes.chain([hash("executable", context.executable.as_bytes())]) {
            let parent = self.number(signature);
            // A trace may claim any signature for a context, also that of a prefix: nothing is above itself.
            if parent == NO_KEY || self.is_above(child, parent) {
                return;
            }
            self.writers[child as usize].parent = Some(Writer(parent));
            child = parent;
        }
    }

    /// Whether `writer` is `other`, or above it.
    fn is_above(&self, writer: u32, other: u32) -> bool {
        let mut upwards = std::iter::successors(Some(Writer(other)), |w| self.writers[w.0 as usize].parent);
        upwards.any(|above| above.0 == writer)
    }

    fn writer_of_kind(&mut self, kind: Kind) -> Option<Writer> {
        let at = kind as usize;
        if self.by_kind[at] == UNSEEN {
            self.by_kind[at] = self.number(hash("kind", kind.name().as_bytes()));
        }
        (self.by_kind[at] != NO_KEY).then(|| Writer(self.by_kind[at]))
    }

    /// The writer of a signature that an earlier run knew; `None` for one more than a live table can tell apart.
    pub(crate) fn writer_with(&mut self, signature: Signature) -> Option<Writer> {
        Some(self.number(signature)).filter(|&number| number != NO_KEY).map(Writer)
    }

    /// Every writer so far, in the order of their numbers.
    pub(crate) fn writers(&self) -> impl Iterator<Item = (Writer, Signature)> {
        (0..).map(Writer).zip(self.writers.iter().map(|known| known.signature))
    }

    /// The number of a key; NO_KEY for one more than a live table can tell apart.
    fn number(&mut self, signature: Signature) -> u32 {
        let next = self.writers.len() as u32;
        if next == Writer::LIMIT && !self.index.contains_key(&signature) {
            self.refused += 1;
            return NO_KEY;
        }
        let number = *self.index.entry(signature).or_insert(next);
        if number == next {
            self.writers.push(Known { signature, place: EntryIndex::NOWHERE, parent: None });
        }
        number
    }
}

/// What identifies the executable and the innermost frames of a path: build ids, or paths where there are none.
fn path_bytes(context: &Context, frames: usize) -> Vec<u8> {
    let mut bytes = context.executable.as_bytes().to_vec();
    for frame in &context.frames[..frames] {
        let module = if frame.build_id.is_empty() { &frame.module } else { &frame.build_id };
        bytes.push(0);
        bytes.extend_from_slice(module.as_bytes());
        bytes.push(0);
        bytes.extend_from_slice(&frame.offset.to_le_bytes());
    }
    bytes
}

/// Keys of different kinds do not meet: their names end with a zero byte, which no name contains.
fn hash(kind: &str, name: &[u8]) -> Signature {
    Signature(fnv1a(&[kind.as_bytes(), &[0], name].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{tables, write};
    use pcstream_trace::{ContextId, FileId, Frame};

    fn writers(source: KeySource, kinds: bool) -> Vec<Option<u32>> {
        let contexts = [("/bin/a", "x"), ("/bin/a", "y"), ("/bin/b", "y")];
        let tables = tables(&contexts, &["/1.sst", "/2.sst", "/LOG", ""]);
        let mut keys = Keys::new(source, kinds);
        let event = |context, file, kind| Event {
            context: ContextId(context),
            file: FileId(file),
            kind,
            ..write(0, 1)
        };
        let events = [
            event(1, 1, Kind::Data),
            event(2, 2, Kind::Data),
            event(3, 3, Kind::Data),
            event(1, 4, Kind::Data),
            event(0, 0, Kind::Journal),
            event(99, 99, Kind::Journal),
            event(0, 0, Kind::Data),
            event(0, 0, Kind::Inode),
        ];
        let first: Vec<_> = events.iter().map(|e| keys.writer_of(e, &tables).map(|w| w.0)).collect();
        let again: Vec<_> = events.iter().map(|e| keys.writer_of(e, &tables).map(|w| w.0)).collect();
        assert_eq!(first, again);
        first
    }

    #[test]
    fn keys_by_hand() {
        let none = [None; 4];
        let check = |source, data: [Option<u32>; 4]| {
            assert_eq!(writers(source, false), [data, none].concat(), "{source:?}");
        };
        check(KeySource::Context, [Some(0), Some(1), Some(2), Some(0)]);
        check(KeySource::Executable, [Some(0), Some(0), Some(1), Some(0)]);
        check(KeySource::Extension, [Some(0), Some(0), Some(1), None]);
        check(KeySource::File, [Some(0), Some(1), Some(2), Some(3)]);
        let with_kinds = writers(KeySource::Context, true);
        assert_eq!(with_kinds[4..], [Some(3), Some(3), None, Some(4)]);
    }

    /// Contexts whose frames have these offsets, all of one program and module.
    fn trees(paths: &[&[u64]]) -> Tables {
        let mut tables = Tables::default();
        for (id, offsets) in (1..).zip(paths) {
            let frame = |&offset: &u64| Frame { module: "/lib/x".into(), offset, ..Frame::default() };
            tables.push_context(Context {
                id: ContextId(id),
                signature: Signature(1000 + u64::from(id)),
                executable: "/bin/a".into(),
                unwind: Unwind::Exact,
                frames: offsets.iter().map(frame).collect(),
                ..Context::default()
            });
        }
        tables
    }

    #[test]
    fn paths_share_their_inner_frames() {
        let long = |outer: u64| [&(0..9).collect::<Vec<_>>()[..], &[outer, 99]].concat();
        let tables = trees(&[&long(10), &long(11), &[0, 1, 2, 3, 4, 50], &[0, 1, 7], &[0, 1, 2, 3, 40, 50]]);
        let mut keys = Keys::new(KeySource::ContextTree, false);
        let mut chain = |context: u32| -> Vec<u32> {
            let event = Event { context: ContextId(context), ..write(0, 1) };
            let leaf = keys.writer_of(&event, &tables).expect("it has a context");
            std::iter::successors(Some(leaf), |w| keys.writers[w.0 as usize].parent).map(|w| w.0).collect()
        };
        // Path, 8 return addresses, 4, program.
        assert_eq!(chain(1), [0, 1, 2, 3]);
        assert_eq!(chain(2), [4, 1, 2, 3]);
        // As long as the shorter prefix and one more; as short as no prefix; parted before it.
        assert_eq!(chain(3), [5, 2, 3]);
        assert_eq!(chain(4), [6, 3]);
        assert_eq!(chain(5), [7, 8, 3]);
    }

    #[test]
    fn nothing_is_above_itself() {
        let path: Vec<u64> = (0..12).collect();
        let honest = trees(&[&path]);
        let context = honest.context(ContextId(1)).expect("it is there").clone();
        for stolen in [
            hash("executable", context.executable.as_bytes()),
            hash("prefix", &path_bytes(&context, 5)),
            hash("prefix", &path_bytes(&context, 9)),
        ] {
            let mut tables = Tables::default();
            tables.push_context(Context { signature: stolen, ..context.clone() });
            tables.push_context(Context { id: ContextId(2), signature: Signature(7), ..context.clone() });
            let mut keys = Keys::new(KeySource::ContextTree, false);
            for id in [1, 2, 1] {
                let event = Event { context: ContextId(id), ..write(0, 1) };
                let writer = keys.writer_of(&event, &tables).expect("it has a context");
                let chain = std::iter::successors(Some(writer), |w| keys.writers[w.0 as usize].parent);
                assert!(chain.take(9).count() < 9, "a path has an end");
            }
        }
    }

    #[test]
    fn what_is_known_well_goes_before_what_is_known_at_all() {
        let tables = trees(&[&[0, 1, 2, 3, 4, 5, 6], &[0, 1, 2, 3, 4, 5, 7]]);
        let mut keys = Keys::new(KeySource::ContextTree, false);
        let writer = |keys: &mut Keys, context| {
            keys.writer_of(&Event { context: ContextId(context), ..write(0, 1) }, &tables)
                .expect("it has one")
        };
        let (first, second) = (writer(&mut keys, 1), writer(&mut keys, 2));
        let (inner, program) = (Writer(1), Writer(2));
        let mut learned: FxHashMap<Signature, u32> = FxHashMap::default();
        let best = |learned: &FxHashMap<Signature, u32>, writer, enough| {
            keys.best_known(writer, enough, |signature| learned.get(&signature).copied().unwrap_or(0))
        };
        assert_eq!(best(&learned, first, 4), first, "nothing is known");
        for (lifetimes, of) in [(1, first), (2, inner), (5, program)] {
            learned.insert(keys.writers[of.0 as usize].signature, lifetimes);
        }
        assert_eq!(best(&learned, first, 4), program);
        assert_eq!(best(&learned, first, 2), inner);
        assert_eq!(best(&learned, first, 9), first, "none is known well: the longest of which anything is");
        assert_eq!(best(&learned, second, 9), inner);
        assert_eq!(best(&learned, first, 1), first);
    }

    #[test]
    fn a_context_that_comes_later_is_found() {
        let mut keys = Keys::new(KeySource::Context, false);
        let event = Event { context: ContextId(1), ..write(0, 1) };
        assert_eq!(keys.writer_of(&event, &Tables::default()), None);
        assert_eq!(keys.writer_of(&event, &tables(&[("/bin/a", "x")], &[])), Some(Writer(0)));
        assert_eq!(keys.known(Writer(0)).signature, Signature(1001));
    }
}
