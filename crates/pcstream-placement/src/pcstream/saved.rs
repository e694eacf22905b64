//! A PC attribute table as bytes, to outlive a run: what a run learned, the next one begins with.
//!
//! Lifetimes and their samples, least recently referenced first. Streams are not saved: they depend on
//! the device. Little-endian:
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 8 | `pcstable` |
//! | 8 | 4 | format version, 1 |
//! | 12 | 4 | number of entries n |
//! | 16 + 16 i | 8 | signature |
//! | 24 + 16 i | 4 | lifetime in pages, at least 1 |
//! | 28 + 16 i | 4 | samples, at least 1 |
//! | 16 + 16 n | 8 | FNV-1a 64 of all bytes before |

use pcstream_trace::Signature;

use crate::pcstream::table::{AttributeTable, Lifetime};

/// A saved table that cannot be used. Offsets are in bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// Too short or too long for what it says.
    #[error("{found} bytes, expected {expected}; the file is cut off or damaged, save it again")]
    Length {
        /// Its length.
        found: usize,
        /// The length that its header implies.
        expected: u64,
    },
    /// Not a saved table.
    #[error("it does not begin with '{}' but with {found:02x?}; this is not a saved PC attribute table", MAGIC.escape_ascii())]
    Magic {
        /// The first bytes.
        found: Vec<u8>,
    },
    /// Of a later version.
    #[error(
        "offset 8: format version {found}, this program reads version {VERSION}; use the program that saved it"
    )]
    Version {
        /// The version.
        found: u32,
    },
    /// The checksum does not match.
    #[error("checksum {found:016x}, computed {computed:016x}; the file is damaged, save it again")]
    Checksum {
        /// As stored.
        found: u64,
        /// Of the bytes.
        computed: u64,
    },
    /// An entry that no table holds.
    #[error("offset {offset}: signature {signature} {problem}")]
    Entry {
        /// Where the entry begins.
        offset: usize,
        /// Its signature.
        signature: Signature,
        /// What is wrong with it.
        problem: &'static str,
    },
}

const MAGIC: [u8; 8] = *b"pcstable";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 16;
const SAVED_BYTES: usize = 16;
const CHECKSUM_BYTES: usize = 8;

impl AttributeTable {
    /// The table as bytes.
    pub fn save(&self) -> Vec<u8> {
        // Contexts of whose data nothing died yet say nothing to a later run.
        let known = self.entries().filter(|entry| entry.samples > 0);
        encode(known.map(|entry| (entry.signature, entry.lifetime, entry.samples)))
    }

    /// Adds the entries of a saved table, as if just learned. If there are more than fit, the most
    /// recently referenced stay.
    pub fn load(&mut self, bytes: &[u8]) -> Result<(), TableError> {
        for (signature, lifetime, samples) in parse(bytes)? {
            self.restore(signature, lifetime, samples);
        }
        Ok(())
    }
}

/// Signature, expected lifetime, samples.
pub(crate) type Saved = (Signature, Lifetime, u32);

/// Entries as the bytes of a saved table, which [`parse`] takes back.
pub(crate) fn encode(entries: impl Iterator<Item = Saved>) -> Vec<u8> {
    let mut out = [MAGIC.as_slice(), &VERSION.to_le_bytes(), &[0; 4]].concat();
    let mut count = 0u32;
    for (signature, lifetime, samples) in entries {
        out.extend(signature.0.to_le_bytes());
        out.extend((lifetime.pages() as u32).to_le_bytes());
        out.extend(samples.to_le_bytes());
        count += 1;
    }
    out[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&count.to_le_bytes());
    let checksum = fnv1a(&out);
    out.extend(checksum.to_le_bytes());
    out
}

/// Checks everything before anything is used.
pub(crate) fn parse(bytes: &[u8]) -> Result<Vec<Saved>, TableError> {
    let smallest = HEADER_BYTES + CHECKSUM_BYTES;
    if !bytes.starts_with(&MAGIC) {
        return Err(TableError::Magic { found: bytes[..bytes.len().min(MAGIC.len())].to_vec() });
    }
    if bytes.len() < smallest {
        return Err(TableError::Length { found: bytes.len(), expected: smallest as u64 });
    }
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    if word(8) != VERSION {
        return Err(TableError::Version { found: word(8) });
    }
    let expected = smallest as u64 + SAVED_BYTES as u64 * u64::from(word(12));
    if bytes.len() as u64 != expected {
        return Err(TableError::Length { found: bytes.len(), expected });
    }
    let end = bytes.len() - CHECKSUM_BYTES;
    let (found, computed) = (long(end), fnv1a(&bytes[..end]));
    if found != computed {
        return Err(TableError::Checksum { found, computed });
    }
    let mut seen = rustc_hash::FxHashSet::default();
    (HEADER_BYTES..end)
        .step_by(SAVED_BYTES)
        .map(|offset| {
            let (signature, lifetime, samples) =
                (Signature(long(offset)), word(offset + 8), word(offset + 12));
            let wrong = |problem| Err(TableError::Entry { offset, signature, problem });
            if lifetime == 0 || samples == 0 {
                return wrong("has a lifetime or samples of 0, at least 1 is expected");
            }
            if !seen.insert(signature) {
                return wrong("occurs twice");
            }
            Ok((signature, Lifetime::from_pages(u64::from(lifetime)), samples))
        })
        .collect()
}

/// FNV-1a, 64 bits.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pcstream::averaging::Averaging;
    use crate::pcstream::lifetime::Died;
    use crate::pcstream::table::{ENTRY_BYTES, Place};

    fn table(entries: u64) -> AttributeTable {
        AttributeTable::new(entries * ENTRY_BYTES, Averaging::Half, 2.0)
    }

    fn learn(table: &mut AttributeTable, signature: u64, pages: u64) {
        table.learn(Signature(signature), Died { lifetime: pages, pages: 1 }, &mut { Place::NOWHERE });
    }

    #[test]
    fn saving_and_loading_keeps_lifetimes_and_order() {
        let mut t = table(4);
        [(1, 10), (2, 20), (3, 30), (1, 20)].iter().for_each(|&(s, l)| learn(&mut t, s, l));
        let bytes = t.save();
        assert_eq!(bytes.len(), 16 + 3 * 16 + 8);
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
        let good = t.save();
        let load = |bytes: &[u8]| table(4).load(bytes).expect_err("refused");
        assert_eq!(load(b""), TableError::Magic { found: vec![] });
        assert_eq!(load(b"PAR1"), TableError::Magic { found: b"PAR1".to_vec() });
        assert_eq!(load(b"pcstable"), TableError::Length { found: 8, expected: 24 });
        assert_eq!(load(&good[..good.len() - 1]), TableError::Length { found: 55, expected: 56 });
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
        assert_eq!(with(8, 2), TableError::Version { found: 2 });
        assert_eq!(
            with(12, u32::MAX),
            TableError::Length { found: 56, expected: 24 + 16 * u64::from(u32::MAX) }
        );
        assert!(matches!(with(24, 0), TableError::Entry { offset: 16, .. }));
        assert!(matches!(with(28, 0), TableError::Entry { offset: 16, .. }));
        assert!(matches!(with(32, 1), TableError::Entry { offset: 32, .. }), "signature 1 twice");
    }
}
