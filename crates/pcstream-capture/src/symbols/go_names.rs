//! Names of Go functions from `.gopclntab`, which every Go program has, stripped or not.
//!
//! The table (cmd/internal/obj and runtime/symtab.go of Go) is an array of functions in the order of their addresses, each
//! with the place of its name. Go 1.2, 1.16, 1.18 and 1.20 each changed its form; all four are read. Nothing in it is
//! trusted: every read is checked.

use object::{Object, ObjectSection};

use crate::modules::module_data::Elf;
use crate::modules::reading_limits::Allowance;
use crate::symbols::places::{Named, Place};

/// Longest name kept.
const MAX_NAME: usize = 4096;
/// Of the search for a function and of its name.
const STEPS_OF_A_PLACE: u64 = 256;

/// Names places that have no name yet.
pub fn add(module: &Elf<'_>, wanted: &mut [Place], allowance: &Allowance) {
    if wanted.iter().all(|place| place.best.is_some()) {
        return;
    }
    let section =
        [".gopclntab", ".data.rel.ro.gopclntab"].iter().find_map(|name| module.section_by_name(name));
    let Some(bytes) = section.and_then(|section| section.data().ok()) else { return };
    let text = module.section_by_name(".text").map_or(0, |section| section.address());
    let Some(table) = Table::parse(bytes, text) else { return };
    for place in wanted.iter_mut().filter(|place| place.best.is_none()) {
        if !allowance.spend(STEPS_OF_A_PLACE) {
            return;
        }
        place.best = table.function_at(place.address).filter(|named| allowance.keep_name(&named.name));
    }
}

/// Where things are in a table.
struct Table<'a> {
    bytes: &'a [u8],
    functions: usize,
    /// Of names and of the functions' descriptions.
    names: usize,
    entries: usize,
    /// Bytes of each of the two numbers of an entry.
    word: usize,
    /// Added to addresses.
    text: u64,
}

impl<'a> Table<'a> {
    /// `text`: where code begins, if the table does not say.
    fn parse(bytes: &'a [u8], text: u64) -> Option<Table<'a>> {
        let magic = number(bytes, 0, 4)?;
        if number(bytes, 7, 1)? != 8 {
            return None;
        }
        let field = |n: usize| number(bytes, 8 + 8 * n, 8).and_then(|value| usize::try_from(value).ok());
        let functions = field(0)?;
        match magic {
            0xffff_fffb => Some(Table { bytes, functions, names: 0, entries: 16, word: 8, text: 0 }),
            0xffff_fffa => {
                Some(Table { bytes, functions, names: field(2)?, entries: field(6)?, word: 8, text: 0 })
            }
            0xffff_fff0 | 0xffff_fff1 => {
                let begins = number(bytes, 24, 8)?;
                let text = if begins == 0 { text } else { begins };
                Some(Table { bytes, functions, names: field(3)?, entries: field(7)?, word: 4, text })
            }
            _ => None,
        }
    }

    fn entry(&self, n: usize) -> Option<(u64, usize)> {
        let at = n.checked_mul(2 * self.word)?.checked_add(self.entries)?;
        let start = number(self.bytes, at, self.word)?.checked_add(self.text)?;
        let description = number(self.bytes, at.checked_add(self.word)?, self.word)?;
        Some((start, usize::try_from(description).ok()?))
    }

    fn function_at(&self, address: u64) -> Option<Named> {
        // The last that does not begin beyond it. What cannot be read lies beyond.
        let (mut low, mut high) = (0, self.functions);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.entry(middle) {
                Some((start, _)) if start <= address => low = middle + 1,
                _ => high = middle,
            }
        }
        let (start, description) = self.entry(low.checked_sub(1)?)?;
        // After the last function comes the end of all.
        let end_at = low.checked_mul(2 * self.word)?.checked_add(self.entries)?;
        let end = number(self.bytes, end_at, self.word)?.checked_add(self.text)?;
        if address >= end {
            return None;
        }
        let base = if self.names == 0 { 0 } else { self.entries };
        let name = number(self.bytes, base.checked_add(description)?.checked_add(self.word)?, 4)?;
        let name = self.bytes.get(self.names.checked_add(usize::try_from(name).ok()?)?..)?;
        let name = &name[..name.iter().take(MAX_NAME).position(|&byte| byte == 0)?];
        let name = std::str::from_utf8(name).ok().filter(|name| !name.is_empty())?;
        Some(Named { start, bytes: end - start, name: name.into() })
    }
}

/// A little-endian number of at most eight bytes.
fn number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let found = bytes.get(at..at.checked_add(length)?)?;
    let mut word = [0; 8];
    word[..length].copy_from_slice(found);
    Some(u64::from_le_bytes(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two functions, `main.main` at 0x1000 and `main.(*T).f` at 0x1040, and the end at 0x1080.
    fn table(magic: u32) -> Vec<u8> {
        let names = b"main.main\0main.(*T).f\0";
        let (header, word) = match magic {
            0xffff_fffb => (16, 8),
            0xffff_fffa => (8 + 7 * 8, 8),
            _ => (8 + 8 * 8, 4),
        };
        let old = magic == 0xffff_fffb;
        let names_at = if old { header + 6 * word + 2 * 16 } else { header };
        let entries_at = if old { header } else { header + names.len() };
        let mut bytes = magic.to_le_bytes().to_vec();
        bytes.extend([0, 0, 1, 8]);
        let fields: Vec<u64> = match magic {
            0xffff_fffb => vec![2],
            0xffff_fffa => vec![2, 0, names_at as u64, 0, 0, 0, entries_at as u64],
            _ => vec![2, 0, 0x1000, names_at as u64, 0, 0, 0, entries_at as u64],
        };
        fields.iter().for_each(|field| bytes.extend(field.to_le_bytes()));
        if !old {
            bytes.extend(names);
        }
        let origin = if word == 4 { 0x1000 } else { 0 };
        let base = if old { 0 } else { entries_at };
        let descriptions = entries_at + 5 * word - base + word;
        for (n, address) in [0x1000u64, 0x1040, 0x1080].into_iter().enumerate() {
            bytes.extend(&(address - origin).to_le_bytes()[..word]);
            bytes.extend(&((descriptions + n * 16) as u64).to_le_bytes()[..word]);
        }
        for name in [0u64, 10] {
            let mut description = vec![0; word];
            let name = if old { name + names_at as u64 } else { name };
            description.extend(&name.to_le_bytes()[..4]);
            description.resize(16, 0);
            bytes.extend(description);
        }
        if old {
            bytes.extend(names);
        }
        bytes
    }

    #[test]
    fn every_form_of_the_table_is_read() {
        for magic in [0xffff_fffb, 0xffff_fffa, 0xffff_fff0, 0xffff_fff1] {
            let bytes = table(magic);
            let parsed = Table::parse(&bytes, 0).expect("it is one");
            let name = |address| parsed.function_at(address).map(|named| named.name.to_string());
            assert_eq!(name(0xfff), None, "{magic:x}");
            assert_eq!(name(0x1000).as_deref(), Some("main.main"), "{magic:x}");
            assert_eq!(name(0x103f).as_deref(), Some("main.main"), "{magic:x}");
            assert_eq!(name(0x107f).as_deref(), Some("main.(*T).f"), "{magic:x}");
            assert_eq!(name(0x1080), None, "{magic:x}");
        }
    }

    #[test]
    fn tables_that_lie_are_survived() {
        for magic in [0xffff_fffb_u32, 0xffff_fffa, 0xffff_fff0, 0xffff_fff1] {
            let whole = table(magic);
            for length in 0..whole.len() {
                let _ = Table::parse(&whole[..length], 0).and_then(|table| table.function_at(0x1041));
            }
            for at in 8..whole.len() {
                let mut bytes = whole.clone();
                bytes[at] = 0xff;
                let _ = Table::parse(&bytes, 0).and_then(|table| table.function_at(0x1041));
            }
        }
        assert!(Table::parse(&[0; 64], 0).is_none());
    }
}
