//! The bytes of a saved PC attribute table: lifetimes and their samples, least recently referenced first.
//!
//! Streams are not saved: they depend on the device. Little-endian:
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

use super::{Lifetime, SavedEntry};

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

/// Entries as the bytes of a saved table, which [`parse`] takes back.
pub(crate) fn encode(entries: impl Iterator<Item = SavedEntry>) -> Vec<u8> {
    let mut out = [MAGIC.as_slice(), &VERSION.to_le_bytes(), &[0; 4]].concat();
    let mut count = 0u32;
    for SavedEntry { signature, lifetime, samples } in entries {
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
pub(crate) fn parse(bytes: &[u8]) -> Result<Vec<SavedEntry>, TableError> {
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
            let signature = Signature(long(offset));
            let (lifetime, samples) = (word(offset + 8), word(offset + 12));
            let wrong = |problem| Err(TableError::Entry { offset, signature, problem });
            if lifetime == 0 || samples == 0 {
                return wrong("has a lifetime or samples of 0, at least 1 is expected");
            }
            if !seen.insert(signature) {
                return wrong("occurs twice");
            }
            Ok(SavedEntry { signature, lifetime: Lifetime::from_pages(u64::from(lifetime)), samples })
        })
        .collect()
}

/// FNV-1a, 64 bits.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3))
}
