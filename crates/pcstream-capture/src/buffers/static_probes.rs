//! The static probes of a binary, by their notes (`.note.stapsdt`, written by systemtap's `sys/sdt.h` and by `pcstream.h`):
//! a place in the code, and for each argument where it is kept there.
//!
//! Units: virtual addresses of the file.

use object::{Object, ObjectSection};

use super::register;
use crate::modules::module_data::Elf;

/// Notes beyond this are not read.
const MAX_NOTES_BYTES: u64 = 16 << 20;

/// A static probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticProbe {
    pub provider: String,
    pub name: String,
    pub address: u64,
    /// Of the number of those who listen; 0: there is none.
    pub listeners: u64,
    /// As in the note: `8@%rdi -4@8(%rbp)`.
    arguments: String,
}

impl StaticProbe {
    /// Which register, as the BPF program counts them, holds an argument (from 1) of a static probe.
    pub fn register_of(&self, argument: u32) -> Result<u32, String> {
        let described = self.arguments.split_whitespace().nth(argument.saturating_sub(1) as usize);
        let held = described.and_then(|text| text.split_once('@')).map(|(_, held)| held);
        held.and_then(register::by_name).and_then(register::code).ok_or_else(|| {
            let (provider, name, arguments) = (&self.provider, &self.name, &self.arguments);
            format!(
                "has {provider}:{name} with arguments {arguments:?}, of which number {argument} is not in a register"
            )
        })
    }
}

/// The static probes of a binary.
pub fn read(binary: &Elf<'_>) -> Result<Vec<StaticProbe>, String> {
    let Some(section) = binary.section_by_name(".note.stapsdt") else { return Ok(Vec::new()) };
    if section.size() > MAX_NOTES_BYTES {
        return Err(format!(
            "has {} bytes of notes of static probes, more than a program has",
            section.size()
        ));
    }
    let data = section.data().map_err(|error| format!("has notes that cannot be read: {error}"))?;
    let base = binary.section_by_name(".stapsdt.base").map(|base| base.address());
    Ok(parse_notes(data, base))
}

/// The notes of static probes, up to the first that is none. `base` is where the section that they count from lies now: a
/// linker run afterwards (prelink) may have moved the code.
fn parse_notes(mut data: &[u8], base: Option<u64>) -> Vec<StaticProbe> {
    std::iter::from_fn(|| {
        let (size, rest) = data.split_first_chunk::<12>()?;
        let word =
            |at: usize| u32::from_le_bytes([size[at], size[at + 1], size[at + 2], size[at + 3]]) as usize;
        let (owner, rest) = rest.split_at_checked(word(0).checked_next_multiple_of(4)?)?;
        let (description, _) = rest.split_at_checked(word(4))?;
        data = rest.get(word(4).checked_next_multiple_of(4)?..).unwrap_or_default();
        Some((owner, word(8), description))
    })
    .filter(|(owner, kind, _)| *owner == b"stapsdt\0" && *kind == 3)
    .filter_map(|(_, _, description)| {
        let (numbers, texts) = description.split_first_chunk::<24>()?;
        let number = |at: usize| numbers[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let mut texts = texts.split(|&byte| byte == 0).map(|text| String::from_utf8_lossy(text).into_owned());
        let moved = base.map_or(0, |base| base.wrapping_sub(number(8)));
        let address = number(0).wrapping_add(moved);
        let listeners = if number(16) == 0 { 0 } else { number(16).wrapping_add(moved) };
        Some(StaticProbe {
            address,
            listeners,
            provider: texts.next()?,
            name: texts.next()?,
            arguments: texts.next()?,
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(owner: &[u8], kind: u32, address: u64, texts: &[u8]) -> Vec<u8> {
        let mut note = Vec::new();
        note.extend((owner.len() as u32).to_le_bytes());
        note.extend((24 + texts.len() as u32).to_le_bytes());
        note.extend(kind.to_le_bytes());
        note.extend(owner);
        note.resize(note.len().next_multiple_of(4), 0);
        [address, 0x1000, 0].iter().for_each(|number| note.extend(number.to_le_bytes()));
        note.extend(texts);
        note.resize(note.len().next_multiple_of(4), 0);
        note
    }

    #[test]
    fn notes_name_probes_and_move_with_their_base() {
        let mut data = note(b"stapsdt\0", 3, 0x500, b"pcstream\0page_dirty\x008@%rdi 8@%rsi\0");
        data[12 + 8 + 16..][..8].copy_from_slice(&0x700u64.to_le_bytes());
        data.extend(note(b"GNU\0", 3, 1, b"a\0b\0c\0"));
        data.extend(note(b"stapsdt\0", 3, 0x600, b"x\0y\0\0"));
        let probes = parse_notes(&data, Some(0x1010));
        assert_eq!(probes.len(), 2);
        assert_eq!((probes[0].address, probes[0].name.as_str()), (0x510, "page_dirty"));
        assert_eq!([&probes[0], &probes[1]].map(|probe| probe.listeners), [0x710, 0]);
        assert_eq!((probes[0].register_of(1), probes[0].register_of(2)), (Ok(15), Ok(14)));
        assert!(probes[0].register_of(3).is_err());
        assert_eq!(parse_notes(&data, None)[1].address, 0x600);
    }

    #[test]
    fn bytes_that_are_no_notes_are_none() {
        let good = note(b"stapsdt\0", 3, 0x500, b"a\0b\0c\0");
        for length in 0..good.len() {
            assert!(parse_notes(&good[..length], None).len() <= 1);
        }
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0xff;
            parse_notes(&bad, Some(7));
        }
        assert!(parse_notes(&[0xff; 64], None).is_empty());
        assert!(parse_notes(&[0; 64], None).is_empty());
    }
}
