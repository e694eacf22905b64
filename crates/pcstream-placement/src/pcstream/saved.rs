//! A PC attribute table outlives a run: what a run learned, the next one begins with.

use crate::pcstream::table::AttributeTable;
use crate::saved_table::SavedEntry;
use crate::saved_table::format::{TableError, encode, parse};

impl AttributeTable {
    /// The table as bytes, which say that `scheme` learned it.
    pub fn save(&self, scheme: &str) -> Vec<u8> {
        // Contexts of whose data nothing died yet say nothing to a later run.
        let known = self.entries().filter(|entry| entry.samples > 0);
        let saved = known.map(|entry| SavedEntry {
            signature: entry.signature,
            lifetime: entry.lifetime,
            samples: entry.samples,
        });
        encode(Some(scheme), saved)
    }

    /// Adds the entries of a saved table, as if just learned. If there are more than fit, the most
    /// recently referenced stay.
    pub fn load(&mut self, bytes: &[u8]) -> Result<(), TableError> {
        for entry in parse(bytes)?.1 {
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
        let bytes = t.save("test");
        assert_eq!(bytes.len(), 48 + 3 * 16 + 8);
        let mut back = table(4);
        back.load(&bytes).expect("just saved");
        let all = |t: &AttributeTable| {
            t.entries().map(|e| (e.signature.0, e.lifetime.pages(), e.samples)).collect::<Vec<_>>()
        };
        assert_eq!(all(&back), [(2, 20, 1), (3, 30, 1), (1, 15, 2)]);
        assert_eq!(all(&back), all(&t));
        assert_eq!(back.changed(), 3, "all are to be clustered");
        let mut small = table(2);
        small.load(&bytes).expect("the newest fit");
        assert_eq!(all(&small), [(3, 30, 1), (1, 15, 2)]);
        back.load(&bytes).expect("again");
        assert_eq!(all(&back), all(&t), "loading replaces");
    }

    #[test]
    fn a_foreign_cut_or_damaged_table_is_refused() {
        let mut t = table(4);
        [1, 2].iter().for_each(|&s| learn(&mut t, s, 10));
        let good = t.save("test");
        let load = |bytes: &[u8]| table(4).load(bytes).expect_err("refused");
        assert_eq!(load(b""), TableError::Empty);
        assert_eq!(load(b"PAR1"), TableError::Magic);
        assert_eq!(load(b"pcstable"), TableError::Length { found: 8, expected: 24 });
        assert_eq!(load(&good[..good.len() - 1]), TableError::Length { found: 87, expected: 88 });
        assert_eq!(load(&good[..40]), TableError::Length { found: 40, expected: 88 });
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
        assert_eq!(with(8, 3), TableError::Version { found: 3 });
        assert_eq!(
            with(12, u32::MAX),
            TableError::Length { found: 88, expected: 56 + 16 * u64::from(u32::MAX) }
        );
        assert_eq!(with(44, 1), TableError::Scheme, "nothing comes after the end of the name");
        assert_eq!(with(16, 0xffff_ffff), TableError::Scheme, "no text");
        assert!(matches!(with(56, 0), TableError::Entry { offset: 48, .. }));
        assert!(matches!(with(60, 0), TableError::Entry { offset: 48, .. }));
        assert!(matches!(with(64, 1), TableError::Entry { offset: 64, .. }), "signature 1 twice");
    }

    #[test]
    fn a_table_of_version_1_is_one_of_no_known_scheme() {
        let mut old = b"pcstable\x01\0\0\0\x01\0\0\0".to_vec();
        old.extend([7u64.to_le_bytes().as_slice(), &10u32.to_le_bytes(), &3u32.to_le_bytes()].concat());
        old.extend(fnv1a(&old).to_le_bytes());
        let (scheme, entries) = parse(&old).expect("it can be read");
        assert_eq!((scheme, entries.len(), entries[0].samples), (None, 1, 3));
        let (scheme, _) = parse(&table(4).save("test")).expect("just saved");
        assert_eq!(scheme.as_deref(), Some("test"));
    }
}
