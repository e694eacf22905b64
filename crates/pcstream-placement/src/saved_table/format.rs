//! The bytes of a saved PC attribute table: lifetimes and their samples, least recently referenced first.
//!
//! Streams are not saved: they depend on the device. Little-endian:
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 8 | `pcstable` |
//! | 8 | 4 | format version, 3 |
//! | 12 | 4 | number of entries n |
//! | 16 | 32 | name of the scheme that learned it, then zeros; all zeros if it is not known |
//! | 48 | 16 | what its keys are (`key` of the scheme's parameters), then zeros |
//! | 64 + 16 i | 8 | signature |
//! | 72 + 16 i | 4 | lifetime in pages, at least 1 |
//! | 76 + 16 i | 4 | samples, at least 1 |
//! | 64 + 16 n | 8 | FNV-1a 64 of all bytes before |
//!
//! Version 2 does not say what its keys are: its entries begin at 48. Version 1 has no name either: its entries begin at
//! 16. The keys of both count as those that the scheme has by default.

use pcstream_trace::Signature;

use super::{KeySource, Lifetime, SavedEntry, SavedTable};
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
        "offset 8: format version {found}, this program reads versions 1 to {VERSION}; use the program that saved it"
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
    /// What its keys are is not known here.
    #[error(
        "offset 48: no kind of keys, of which there are {}; the file is damaged, save it again",
        KeySource::CHOICES
    )]
    Key,
    /// Its keys are others than those of the scheme that takes it up.
    #[error(
        "its keys are of the kind '{}', but those of the scheme are of the kind '{}', to which its entries mean nothing",
        found.name(),
        expected.name()
    )]
    OtherKey {
        /// What its keys are.
        found: KeySource,
        /// What those of the scheme are.
        expected: KeySource,
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

/// What to do about a file that is something else.
const MAKERS: &str = "`pcstream simulate --save-table FILE` and `pcstream place --table FILE` make one";
const MAGIC: [u8; 8] = *b"pcstable";
const VERSION: u32 = 3;
/// Up to the name of the scheme: all of version 1's header.
const FIRST_BYTES: usize = 16;
const NAME_BYTES: usize = 32;
const KEY_BYTES: usize = 16;
const SAVED_BYTES: usize = 16;
const CHECKSUM_BYTES: usize = 8;

/// Entries as the bytes of a saved table, which [`parse`] takes back. Names of schemes are ASCII; one that is too long is cut.
pub(crate) fn encode(
    scheme: Option<&str>,
    key: KeySource,
    entries: impl Iterator<Item = SavedEntry>,
) -> Vec<u8> {
    let mut out = [MAGIC.as_slice(), &VERSION.to_le_bytes(), &[0; 4], &[0; NAME_BYTES + KEY_BYTES]].concat();
    let mut put = |at: usize, most: usize, name: &str| {
        let name = &name.as_bytes()[..name.len().min(most)];
        out[at..at + name.len()].copy_from_slice(name);
    };
    put(FIRST_BYTES, NAME_BYTES, scheme.unwrap_or_default());
    put(FIRST_BYTES + NAME_BYTES, KEY_BYTES, key.name());
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

/// Checks everything before anything is used.
pub(crate) fn parse(bytes: &[u8]) -> Result<SavedTable, TableError> {
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
        2 => FIRST_BYTES + NAME_BYTES,
        VERSION => FIRST_BYTES + NAME_BYTES + KEY_BYTES,
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
    let names = &bytes[FIRST_BYTES..header];
    let (name, key) = names.split_at(names.len().min(NAME_BYTES));
    let scheme = name_of(name).ok_or(TableError::Scheme)?;
    let key = match key {
        [] => KeySource::of_scheme(scheme.as_deref()),
        _ => key_of(key).ok_or(TableError::Key)?,
    };
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
    Ok(SavedTable { scheme, key, entries: entries? })
}

fn key_of(bytes: &[u8]) -> Option<KeySource> {
    KeySource::from_name(&name_of(bytes)??)
}

/// A name padded with zeros, and whether there is one; `None`: it is no text.
fn name_of(bytes: &[u8]) -> Option<Option<String>> {
    let length = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let (name, padding) = bytes.split_at(length);
    let name = std::str::from_utf8(name).ok()?;
    let printable = name.chars().all(|c| c.is_ascii_graphic());
    if !printable || padding.iter().any(|&byte| byte != 0) {
        return None;
    }
    Some((!name.is_empty()).then(|| name.to_owned()))
}
