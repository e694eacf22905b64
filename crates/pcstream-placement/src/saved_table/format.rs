//! The bytes of a saved PC attribute table: lifetimes and their samples, least recently referenced first.
//!
//! Streams are not saved: they depend on the device. Little-endian:
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 8 | `pcstable` |
//! | 8 | 4 | format version, 2 |
//! | 12 | 4 | number of entries n |
//! | 16 | 32 | name of the scheme that learned it, then zeros; all zeros if it is not known |
//! | 48 + 16 i | 8 | signature |
//! | 56 + 16 i | 4 | lifetime in pages, at least 1 |
//! | 60 + 16 i | 4 | samples, at least 1 |
//! | 48 + 16 n | 8 | FNV-1a 64 of all bytes before |
//!
//! Version 1 has no name: its entries begin at 16.

use pcstream_trace::Signature;

use super::{Lifetime, SavedEntry};
use crate::fnv::fnv1a;

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
    /// Nothing in it.
    #[error("the file is empty, and no saved table of pcstream; {MAKERS}")]
    Empty,
    /// Not a saved table.
    #[error("this is no saved table of pcstream; {MAKERS}")]
    Magic,
    /// Of a later version.
    #[error(
        "offset 8: format version {found}, this program reads versions 1 and {VERSION}; use the program that saved it"
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
    /// The name of the scheme is none.
    #[error("offset 16: the name of the scheme is no text; the file is damaged, save it again")]
    Scheme,
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

/// What to do about a file that is something else.
const MAKERS: &str = "`pcstream simulate --save-table FILE` and `pcstream place --table FILE` make one";
const MAGIC: [u8; 8] = *b"pcstable";
const VERSION: u32 = 2;
/// Up to the name of the scheme: all of version 1's header.
const FIRST_BYTES: usize = 16;
const NAME_BYTES: usize = 32;
const SAVED_BYTES: usize = 16;
const CHECKSUM_BYTES: usize = 8;

/// Entries as the bytes of a saved table, which [`parse`] takes back. Names of schemes are ASCII; one that is too long is cut.
pub(crate) fn encode(scheme: Option<&str>, entries: impl Iterator<Item = SavedEntry>) -> Vec<u8> {
    let mut out = [MAGIC.as_slice(), &VERSION.to_le_bytes(), &[0; 4], &[0; NAME_BYTES]].concat();
    let name = scheme.unwrap_or_default().as_bytes();
    let name = &name[..name.len().min(NAME_BYTES)];
    out[FIRST_BYTES..FIRST_BYTES + name.len()].copy_from_slice(name);
    let mut count = 0u32;
    for SavedEntry { signature, lifetime, samples } in entries {
        out.extend(signature.0.to_le_bytes());
        out.extend((lifetime.pages() as u32).to_le_bytes());
        out.extend(samples.to_le_bytes());
        count += 1;
    }
    out[FIRST_BYTES - 4..FIRST_BYTES].copy_from_slice(&count.to_le_bytes());
    let checksum = fnv1a(&out);
    out.extend(checksum.to_le_bytes());
    out
}

/// The name of a scheme, and entries.
pub(crate) type Parsed = (Option<String>, Vec<SavedEntry>);

/// Checks everything before anything is used.
pub(crate) fn parse(bytes: &[u8]) -> Result<Parsed, TableError> {
    if bytes.is_empty() {
        return Err(TableError::Empty);
    }
    if !bytes.starts_with(&MAGIC) {
        return Err(TableError::Magic);
    }
    if bytes.len() < FIRST_BYTES + CHECKSUM_BYTES {
        let expected = (FIRST_BYTES + CHECKSUM_BYTES) as u64;
        return Err(TableError::Length { found: bytes.len(), expected });
    }
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let header = match word(8) {
        1 => FIRST_BYTES,
        VERSION => FIRST_BYTES + NAME_BYTES,
        found => return Err(TableError::Version { found }),
    };
    let expected = (header + CHECKSUM_BYTES) as u64 + SAVED_BYTES as u64 * u64::from(word(12));
    if bytes.len() as u64 != expected {
        return Err(TableError::Length { found: bytes.len(), expected });
    }
    let end = bytes.len() - CHECKSUM_BYTES;
    let (found, computed) = (long(end), fnv1a(&bytes[..end]));
    if found != computed {
        return Err(TableError::Checksum { found, computed });
    }
    let scheme = name_of(&bytes[FIRST_BYTES..header])?;
    let mut seen = rustc_hash::FxHashSet::default();
    let entries: Result<_, _> = (header..end)
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
        .collect();
    Ok((scheme, entries?))
}

/// A name padded with zeros.
fn name_of(bytes: &[u8]) -> Result<Option<String>, TableError> {
    let length = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let (name, padding) = bytes.split_at(length);
    let name = std::str::from_utf8(name).map_err(|_| TableError::Scheme)?;
    let printable = name.chars().all(|c| c.is_ascii_graphic());
    if !printable || padding.iter().any(|&byte| byte != 0) {
        return Err(TableError::Scheme);
    }
    Ok((!name.is_empty()).then(|| name.to_owned()))
}
