//! A PC attribute table outlives a run: what a run learned, the next one begins with.

use crate::pcstream::key::KeySource;
use crate::pcstream::table::AttributeTable;
use crate::saved_table::SavedEntry;
use crate::saved_table::format::{TableError, encode, parse};

impl AttributeTable {
    /// The table as bytes, which say that `scheme` learned it of such keys.
    pub fn save(&self, scheme: &str, key: KeySource) -> Vec<u8> {
        // Contexts of whose data nothing died yet say nothing to a later run.
        let known = self.entries().filter(|entry| entry.samples > 0);
        let saved = known.map(|entry| SavedEntry {
            signature: entry.signature,
            lifetime: entry.lifetime,
            samples: entry.samples,
        });
        encode(Some(scheme), key, saved)
    }

    /// Adds the entries of a saved table, as if just learned. If there are more than fit, the most
    /// recently referenced stay. Errors also where its keys mean nothing among those of this table.
    pub fn load(&mut self, bytes: &[u8], key: KeySource) -> Result<(), TableError> {
        let saved = parse(bytes)?;
        if !key.begins_with(saved.key()) {
            return Err(TableError::OtherKey { found: saved.key(), expected: key });
        }
        for &entry in saved.entries() {
            self.restore(entry);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fnv::fnv1a;
    use crate::pcstream::averaging::Averaging;
    use crate::pcstream::lifetime::Died;
    use crate::pcstream::table::{ENTRY_BYTES, EntryIndex};
    use crate::saved_table::SavedTable;
    use pcstream_trace::Signature;

    fn table(entries: u64) -> AttributeTable {
        AttributeTable::new(entries * ENTRY_BYTES, Averaging::Half, 2.0)
    }

    fn learn(table: &mut AttributeTable, signature: u64, pages: u64) {
        table.learn(Signature(signature), Died { lifetime: pages, pages: 1 }, &mut { EntryIndex::NOWHERE });
    }

    #[test]
    fn saving_and_loading_keeps_lifetimes_and_order() {
        let mut t = table(4);
        [(1, 10), (2, 20), (3, 30), (1, 20)].iter().for_each(|&(s, l)| learn(&mut t, s, l));
        let bytes = t.save("test", KeySource::Context);
        assert_eq!(bytes.len(), 64 + 3 * 16 + 8);
        let mut back = table(4);
        back.load(&bytes, KeySource::Context).expect("just saved");
        let all = |t: &AttributeTable| {
            t.entries().map(|e| (e.signature.0, e.lifetime.pages(), e.samples)).collect::<Vec<_>>()
        };
        assert_eq!(all(&back), [(2, 20, 1), (3, 30, 1), (1, 15, 2)]);
        assert_eq!(all(&back), all(&t));
        assert_eq!(back.changed(), 3, "all are to be clustered");
        let mut small = table(2);
        small.load(&bytes, KeySource::Context).expect("the newest fit");
        assert_eq!(all(&small), [(3, 30, 1), (1, 15, 2)]);
        back.load(&bytes, KeySource::Context).expect("again");
        assert_eq!(all(&back), all(&t), "loading replaces");
    }

    #[test]
    fn a_foreign_cut_or_damaged_table_is_refused() {
        let mut t = table(4);
        [1, 2].iter().for_each(|&s| learn(&mut t, s, 10));
        let good = t.save("test", KeySource::Context);
        let load = |bytes: &[u8]| table(4).load(bytes, KeySource::Context).expect_err("refused");
        assert_eq!(load(b""), TableError::Empty);
        assert_eq!(load(b"PAR1"), TableError::Magic);
        assert_eq!(load(b"pcstable"), TableError::Length { found: 8, expected: 24 });
        assert_eq!(load(&good[..good.len() - 1]), TableError::Length { found: 103, expected: 104 });
        assert_eq!(load(&good[..40]), TableError::Length { found: 40, expected: 104 });
        for at in 16..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 4;
            assert!(matches!(load(&bad), TableError::Checksum { .. }), "byte {at}");
        }
        let with = |at: usize, value: u32| {
            let mut bytes = good.clone();
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
            let end = bytes.len() - 8;
            let sum = fnv1a(&bytes[..end]).to_le_bytes();
            bytes[end..].copy_from_slice(&sum);
            load(&bytes)
        };
        assert_eq!(with(8, 4), TableError::Version { found: 4 });
        assert_eq!(
            with(12, u32::MAX),
            TableError::Length { found: 104, expected: 72 + 16 * u64::from(u32::MAX) }
        );
        assert_eq!(with(44, 1), TableError::Scheme, "nothing comes after the end of the name");
        assert_eq!(with(16, 0xffff_ffff), TableError::Scheme, "no text");
        for (at, value) in [(48, 0), (48, u32::from_le_bytes(*b"some")), (60, 1)] {
            assert_eq!(with(at, value), TableError::Key, "offset {at}");
        }
        assert!(matches!(with(72, 0), TableError::Entry { offset: 64, .. }));
        assert!(matches!(with(76, 0), TableError::Entry { offset: 64, .. }));
        assert!(matches!(with(80, 1), TableError::Entry { offset: 80, .. }), "signature 1 twice");
    }

    /// A table of an earlier version with one entry.
    fn old(version: u8, name: &str) -> SavedTable {
        let mut old = [b"pcstable".as_slice(), &[version, 0, 0, 0, 1, 0, 0, 0], name.as_bytes()].concat();
        old.resize(if version == 1 { 16 } else { 48 }, 0);
        old.extend([7u64.to_le_bytes().as_slice(), &10u32.to_le_bytes(), &3u32.to_le_bytes()].concat());
        old.extend(fnv1a(&old).to_le_bytes());
        parse(&old).expect("it can be read")
    }

    #[test]
    fn older_tables_have_the_default_keys_of_their_scheme() {
        let first = old(1, "");
        assert_eq!((first.scheme(), first.entries().len(), first.entries()[0].samples), (None, 1, 3));
        let keys = [
            ("", KeySource::Context),
            ("pcstream", KeySource::Context),
            ("of-tomorrow", KeySource::Context),
            ("pcstream-tree", KeySource::ContextTree),
            ("vstream-file", KeySource::File),
        ];
        for (scheme, key) in keys {
            let second = old(2, scheme);
            assert_eq!((second.scheme().unwrap_or_default(), second.key()), (scheme, key));
            assert_eq!(second.entries(), first.entries());
        }
        for info in crate::registry::schemes() {
            let mut scheme = info.configure();
            if let Some(params) = scheme.params_mut::<crate::pcstream::PcStreamParams>() {
                assert_eq!(old(2, info.name).key(), params.key, "{}", info.name);
            }
        }
        let now = parse(&table(4).save("test", KeySource::File)).expect("just saved");
        assert_eq!((now.scheme(), now.key()), (Some("test"), KeySource::File));
    }

    #[test]
    fn keys_of_another_kind_are_refused() {
        let is_of_contexts = |key| matches!(key, KeySource::Context | KeySource::ContextTree);
        for found in KeySource::ALL {
            let saved = table(4).save("test", found);
            for expected in KeySource::ALL {
                let loaded = table(4).load(&saved, expected);
                if found == expected || is_of_contexts(found) && is_of_contexts(expected) {
                    assert_eq!(loaded, Ok(()));
                } else {
                    assert_eq!(loaded, Err(TableError::OtherKey { found, expected }));
                }
            }
        }
    }
}
