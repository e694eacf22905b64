//! What PCStream learns lifetimes of: program contexts, or any other key of a write.
//!
//! vStream (HotStorage'18) groups many virtual streams on few physical ones by observed lifetime,
//! which is PCStream's mapper under another key; so the key is a parameter.
//!
//! A key is 64 bits and the same in every run: a context's signature, or a hash (FNV-1a) of a name
//! with the kind of key in front. A write without the key's ingredient has none, goes to S0, and
//! starts no lifetime.

use pcstream_trace::{Event, Kind, Signature, Tables};
use rustc_hash::FxHashMap;

use crate::pcstream::lifetime::Writer;
use crate::pcstream::table::{Place, fnv1a};
use crate::rules::{extension_of, name_of};

/// What a write is identified by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeySource {
    /// The signature of its program context (PCStream).
    #[default]
    Context,
    /// The executable of its context.
    Executable,
    /// The thread name of its context.
    Comm,
    /// The extension of its file; files without one share a key.
    Extension,
    /// Its file, by path; by inode number and generation if it has no path.
    File,
}

const UNSEEN: u32 = u32::MAX;
const NO_KEY: u32 = u32::MAX - 1;

/// Keys met so far.
pub(crate) struct Keys {
    source: KeySource,
    kinds: bool,
    /// By context id or file id: a writer's number, UNSEEN or NO_KEY.
    by_id: Vec<u32>,
    by_kind: [u32; Kind::ALL.len()],
    index: FxHashMap<Signature, u32>,
    writers: Vec<Known>,
}

/// A key and where it was last found in the PC attribute table.
pub(crate) struct Known {
    pub signature: Signature,
    pub place: Place,
}

impl Keys {
    /// With `kinds`, file-system metadata without another key is identified by its kind.
    pub(crate) fn new(source: KeySource, kinds: bool) -> Keys {
        Keys {
            source,
            kinds,
            by_id: Vec::new(),
            by_kind: [UNSEEN; Kind::ALL.len()],
            index: FxHashMap::default(),
            writers: Vec::new(),
        }
    }

    pub(crate) fn known(&mut self, writer: Writer) -> &mut Known {
        &mut self.writers[writer.0 as usize]
    }

    /// The writer of an event, if it has a key.
    #[inline]
    pub(crate) fn writer_of(&mut self, event: &Event, tables: &Tables) -> Option<Writer> {
        let id = match self.source {
            KeySource::Context | KeySource::Executable | KeySource::Comm => event.context.0,
            KeySource::Extension | KeySource::File => event.file.0,
        };
        let number = match self.by_id.get(id as usize) {
            Some(&number) if number != UNSEEN => number,
            _ => self.resolve(id, event, tables),
        };
        match number {
            NO_KEY if self.kinds && event.kind != Kind::Data => Some(self.writer_of_kind(event.kind)),
            NO_KEY => None,
            number => Some(Writer(number)),
        }
    }

    fn resolve(&mut self, id: u32, event: &Event, tables: &Tables) -> u32 {
        let context = tables.context(event.context);
        let file = tables.file(event.file);
        let signature = match self.source {
            KeySource::Context => context.map(|c| c.signature),
            KeySource::Executable => context.map(|c| hash("executable", c.executable.as_bytes())),
            KeySource::Comm => context.map(|c| hash("comm", c.comm.as_bytes())),
            KeySource::Extension => file
                .filter(|f| !name_of(&f.path).is_empty())
                .map(|f| hash("extension", extension_of(&f.path).unwrap_or("").as_bytes())),
            KeySource::File => file.map(|f| match f.path.is_empty() {
                false => hash("file", f.path.as_bytes()),
                true => {
                    hash("inode", &[f.inode.to_le_bytes(), u64::from(f.generation).to_le_bytes()].concat())
                }
            }),
        };
        let in_table = match self.source {
            KeySource::Context | KeySource::Executable | KeySource::Comm => context.is_some(),
            KeySource::Extension | KeySource::File => file.is_some(),
        };
        let number = signature.map_or(NO_KEY, |s| self.number(s));
        // Id 0 is "none" for good; any other that is not in the tables is not worth remembering.
        if in_table || id == 0 {
            let at = id as usize;
            if self.by_id.len() <= at {
                self.by_id.resize(at + 1, UNSEEN);
            }
            self.by_id[at] = number;
        }
        number
    }

    fn writer_of_kind(&mut self, kind: Kind) -> Writer {
        let at = kind as usize;
        if self.by_kind[at] == UNSEEN {
            self.by_kind[at] = self.number(hash("kind", kind.name().as_bytes()));
        }
        Writer(self.by_kind[at])
    }

    fn number(&mut self, signature: Signature) -> u32 {
        let next = self.writers.len() as u32;
        let number = *self.index.entry(signature).or_insert(next);
        if number == next {
            assert!(next < NO_KEY, "fewer than 2^32 - 2 keys");
            self.writers.push(Known { signature, place: Place::NOWHERE });
        }
        number
    }
}

/// Keys of different kinds do not meet: their names end with a zero byte, which no name contains.
fn hash(kind: &str, name: &[u8]) -> Signature {
    Signature(fnv1a(&[kind.as_bytes(), &[0], name].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{tables, write};
    use pcstream_trace::{ContextId, FileId};

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
        check(KeySource::Comm, [Some(0), Some(1), Some(1), Some(0)]);
        check(KeySource::Extension, [Some(0), Some(0), Some(1), None]);
        check(KeySource::File, [Some(0), Some(1), Some(2), Some(3)]);
        let with_kinds = writers(KeySource::Context, true);
        assert_eq!(with_kinds[4..], [Some(3), Some(3), None, Some(4)]);
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
