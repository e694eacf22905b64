//! Go's table of functions, `.gopclntab`, which every Go program has, stripped or not.
//!
//! Idea: the table is an array of functions in the order of their addresses (cmd/link/internal/ld/pcln.go and runtime/symtab.go of
//! Go). A function has a description, by which its name is found, and its frame: how many bytes the stack pointer lies below the
//! return address, for each instruction. Go writes no `.eh_frame`; its own unwinder goes by this table. Go 1.2, 1.16, 1.18 and
//! 1.20 each changed its form; all four are read.
//!
//! Units: virtual addresses of the file; places are bytes from the beginning of the table.
//!
//! Invariant: nothing in it is trusted. Every read is checked, and the steps of one look-up are bounded.
//!
//! Known weaknesses: frames are known from the form of Go 1.18 on. Older ones do not say, or not always, which functions change
//! stacks. Where neither the table nor `.go.module` says where code begins, there are no names and no frames.

use object::{Object, ObjectSection};

use crate::modules::module_data::Elf;

/// Longest name kept.
const MAX_NAME: usize = 4096;
/// Of the frame of one function. A step is a change of the stack pointer: a function has two, and two for each return.
const MAX_STEPS: usize = 1 << 16;
/// Flags of functions (internal/abi/symtab.go).
const TOP_FRAME: u64 = 1;
const SP_WRITE: u64 = 2;
/// What a signal puts on the stack as if the interrupted instruction had called it.
const PUT_BY_SIGNALS: [&str; 4] =
    ["runtime.sigpanic", "runtime.asyncPreempt", "runtime.debugCallV2", "runtime.cgoSigtramp"];
/// How the forms begin: a number for each, two zeros, bytes of the smallest instruction, and of a pointer.
const HEADERS: [u64; 4] =
    [0x0801_0000_ffff_fffb, 0x0801_0000_ffff_fffa, 0x0801_0000_ffff_fff0, 0x0801_0000_ffff_fff1];
/// Of Go's description of a module (`moduledata` in runtime/symtab.go): the table's address, that of the first function, and where
/// code begins.
const MODULE_FIELDS: [usize; 3] = [0, 160, 176];

/// Sections that may hold the table.
pub const SECTIONS: [&str; 3] = [".gopclntab", ".data.rel.ro.gopclntab", ".data.rel.ro"];

/// The table of a program or library, and where its code begins, if the table does not say; `None`: it has none, or a larger one.
pub fn section<'d>(module: &Elf<'d>, most: u64) -> Option<(&'d [u8], u64)> {
    let content = |name: &str| {
        let section = module.section_by_name(name).filter(|section| section.size() <= most)?;
        Some((section.data().ok()?, section.address()))
    };
    let [alone, relocated, others] = SECTIONS;
    let named = || content(alone).or_else(|| content(relocated));
    // Where C is linked in and the program can be loaded anywhere, linkers put the table among other data.
    let among_others = || {
        module.section_by_name(".go.buildinfo")?;
        let (bytes, address) = content(others)?;
        let mut places = (0..bytes.len()).step_by(8);
        let at = places.find(|&at| number(bytes, at, 8).is_some_and(|word| HEADERS.contains(&word)))?;
        Some((&bytes[at..], address.checked_add(at as u64)?))
    };
    let (bytes, address) = named().or_else(among_others)?;
    let text = address_at(module, bytes, address, 24).or_else(|| text_of_module(module, bytes, address));
    Some((bytes, text.unwrap_or(0)))
}

/// Where Go's code begins, as Go 1.26 and newer say it. With C in the program, other code comes first.
fn text_of_module(module: &Elf<'_>, table: &[u8], address: u64) -> Option<u64> {
    let section = module.section_by_name(".go.module").filter(|section| section.size() <= 1 << 16)?;
    let data = section.data().ok()?;
    let [of, first, text] = MODULE_FIELDS.map(|at| address_at(module, data, section.address(), at));
    let (begins, _) = GoTable::parse(table, text?)?.entry(0)?;
    (of? == address && first? == begins).then_some(text?)
}

/// The address that is in `bytes` at a place once they are loaded, which is at `base`: it is there already, or a relocation has it.
fn address_at(module: &Elf<'_>, bytes: &[u8], base: u64, at: usize) -> Option<u64> {
    match number(bytes, at, 8)? {
        0 => {
            let place = base.checked_add(at as u64)?;
            let found = module.dynamic_relocations()?.find(|(address, _)| *address == place);
            found.map(|(_, relocation)| relocation.addend().cast_unsigned())
        }
        there => Some(there),
    }
}

/// Where things are in a table.
pub struct GoTable<'a> {
    bytes: &'a [u8],
    functions: usize,
    /// Of names and of the functions' descriptions.
    names: usize,
    entries: usize,
    /// Bytes of each of the two numbers of an entry.
    word: usize,
    /// Added to addresses.
    text: u64,
    frames: Option<Frames>,
}

/// Where frames are described.
struct Frames {
    /// Of the steps of all functions.
    steps: usize,
    /// Bytes from a function's description to its flags.
    flags: usize,
}

/// A function of a table.
#[derive(Debug)]
pub struct Function {
    /// Of its first instruction.
    pub start: u64,
    /// Of the next function.
    pub end: u64,
    description: usize,
}

/// A function's frame at one of its instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// So many bytes lie between the stack pointer and the return address.
    Bytes(u32),
    /// Nobody called the function.
    Outermost,
    /// Not known: the function changes to another stack, a signal put it there, or the table does not say.
    Unknown,
}

impl<'a> GoTable<'a> {
    /// `text`: where code begins, if the table does not say.
    pub fn parse(bytes: &'a [u8], text: u64) -> Option<GoTable<'a>> {
        let form = HEADERS.iter().position(|header| number(bytes, 0, 8) == Some(*header))?;
        let field = |n: usize| number(bytes, 8 + 8 * n, 8).and_then(|value| usize::try_from(value).ok());
        let old =
            GoTable { bytes, functions: field(0)?, names: 0, entries: 16, word: 8, text: 0, frames: None };
        Some(match form {
            0 => old,
            1 => GoTable { names: field(2)?, entries: field(6)?, ..old },
            _ => {
                let begins = number(bytes, 24, 8)?;
                let text = Some(if begins == 0 { text } else { begins }).filter(|&text| text != 0)?;
                // Go 1.20 put a line number before the flags.
                let flags = if form == 2 { 37 } else { 41 };
                let frames = Some(Frames { steps: field(6)?, flags });
                GoTable { names: field(3)?, entries: field(7)?, word: 4, text, frames, ..old }
            }
        })
    }

    /// Where the function with this number begins, and where its description is.
    fn entry(&self, n: usize) -> Option<(u64, usize)> {
        let at = n.checked_mul(2 * self.word)?.checked_add(self.entries)?;
        let start = number(self.bytes, at, self.word)?.checked_add(self.text)?;
        let description = number(self.bytes, at.checked_add(self.word)?, self.word)?;
        Some((start, usize::try_from(description).ok()?))
    }

    /// The function around an address.
    pub fn function_at(&self, address: u64) -> Option<Function> {
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
        let base = if self.names == 0 { 0 } else { self.entries };
        let function = Function { start, end, description: base.checked_add(description)? };
        (address < end).then_some(function)
    }

    /// A function's name.
    pub fn name(&self, function: &Function) -> Option<&'a str> {
        let name = number(self.bytes, function.description.checked_add(self.word)?, 4)?;
        let name = self.bytes.get(self.names.checked_add(usize::try_from(name).ok()?)?..)?;
        let name = &name[..name.iter().take(MAX_NAME).position(|&byte| byte == 0)?];
        std::str::from_utf8(name).ok().filter(|name| !name.is_empty())
    }

    /// The frame of a function at one of its addresses.
    pub fn frame_at(&self, function: &Function, address: u64) -> Frame {
        self.known_frame_at(function, address).unwrap_or(Frame::Unknown)
    }

    fn known_frame_at(&self, function: &Function, address: u64) -> Option<Frame> {
        let frames = self.frames.as_ref()?;
        let flags = number(self.bytes, function.description.checked_add(frames.flags)?, 1)?;
        if flags & TOP_FRAME != 0 {
            return Some(Frame::Outermost);
        }
        if flags & SP_WRITE != 0 || PUT_BY_SIGNALS.contains(&self.name(function)?) {
            return None;
        }
        let steps = number(self.bytes, function.description.checked_add(16)?, 4)?;
        // 0: it is another language's.
        let steps = usize::try_from(steps).ok().filter(|&steps| steps != 0)?;
        let steps = self.bytes.get(frames.steps.checked_add(steps)?..)?;
        let bytes = value_at(steps, address.checked_sub(function.start)?)?;
        Some(Frame::Bytes(u32::try_from(bytes).ok()?))
    }
}

/// The value at an instruction so many bytes into a function. Each step changes the value, and says for how many bytes of code that
/// holds (`pcvalue` in runtime/symtab.go).
fn value_at(mut steps: &[u8], into: u64) -> Option<i32> {
    let (mut value, mut until) = (-1_i32, 0);
    for n in 0..MAX_STEPS {
        let change = varint(&mut steps)?;
        if change == 0 && n > 0 {
            return None;
        }
        // The lowest bit is the sign.
        value = value.checked_add((change >> 1).cast_signed() ^ -(change & 1).cast_signed())?;
        until += u64::from(varint(&mut steps)?);
        if into < until {
            return Some(value);
        }
    }
    None
}

/// A number in pieces of seven bits, the lowest first; all but the last have the highest bit set.
fn varint(bytes: &mut &[u8]) -> Option<u32> {
    let mut value = 0;
    for shift in (0..35).step_by(7) {
        let byte = *bytes.split_off_first()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return u32::try_from(value).ok();
        }
    }
    None
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

    const FORMS: [u32; 4] = [0xffff_fffb, 0xffff_fffa, 0xffff_fff0, 0xffff_fff1];
    const NAMES: [&str; 4] = ["main.main", "main.(*T).f", "runtime.goexit", "runtime.sigpanic"];
    /// What the stack pointer does in all functions: 1 byte of code later 8 bytes lower (PUSHQ BP), 3 bytes later another 512, and
    /// up again for the return.
    const STEPS: [u8; 13] = [0, /* 0 */ 2, 1, 16, 3, 0x80, 0x08, 40, 0x8f, 0x08, 4, 0, 0];

    /// Functions of 64 bytes each from 0x1000 on, named as in [`NAMES`], with the flags that are given.
    fn table(magic: u32, flags: [u8; 4]) -> Vec<u8> {
        let names: Vec<u8> = NAMES.iter().flat_map(|name| [name.as_bytes(), b"\0"].concat()).collect();
        let (header, word) = match magic {
            0xffff_fffb => (16, 8),
            0xffff_fffa => (8 + 7 * 8, 8),
            _ => (8 + 8 * 8, 4),
        };
        let (old, description) = (magic == 0xffff_fffb, 48);
        let entries_bytes = (2 * NAMES.len() + 1) * word;
        let names_at = if old { header + entries_bytes + NAMES.len() * description } else { header };
        let steps_at = header + names.len();
        let entries_at = if old { header } else { steps_at + STEPS.len() };
        let mut bytes = magic.to_le_bytes().to_vec();
        bytes.extend([0, 0, 1, 8]);
        let count = NAMES.len() as u64;
        let (names_field, steps, entries) = (names_at as u64, steps_at as u64, entries_at as u64);
        let fields: Vec<u64> = match magic {
            0xffff_fffb => vec![count],
            0xffff_fffa => vec![count, 0, names_field, 0, 0, steps, entries],
            _ => vec![count, 0, 0x1000, names_field, 0, 0, steps, entries],
        };
        fields.iter().for_each(|field| bytes.extend(field.to_le_bytes()));
        if !old {
            bytes.extend(&names);
            bytes.extend(STEPS);
        }
        let origin = if word == 4 { 0x1000 } else { 0 };
        let base = if old { 0 } else { entries_at };
        let descriptions = entries_at + entries_bytes - base;
        for n in 0..=NAMES.len() {
            bytes.extend(&(0x1000 + 64 * n as u64 - origin).to_le_bytes()[..word]);
            if n < NAMES.len() {
                bytes.extend(&((descriptions + n * description) as u64).to_le_bytes()[..word]);
            }
        }
        let mut name = if old { names_at } else { 0 };
        for (text, flags) in NAMES.iter().zip(flags) {
            let mut its = vec![0; word];
            its.extend((name as u32).to_le_bytes());
            its.resize(description, 0);
            its[16] = 1;
            its[if magic == 0xffff_fff0 { 37 } else { 41 }] = flags;
            bytes.extend(its);
            name += text.len() + 1;
        }
        if old {
            bytes.extend(names);
        }
        bytes
    }

    #[test]
    fn every_form_of_the_table_has_functions_with_names() {
        for magic in FORMS {
            let bytes = table(magic, [0; 4]);
            let parsed = GoTable::parse(&bytes, 0).expect("it is one");
            let found = |address| {
                let function = parsed.function_at(address)?;
                Some((function.start, function.end, parsed.name(&function)?))
            };
            assert_eq!(found(0xfff), None, "{magic:x}");
            assert_eq!(found(0x1000), Some((0x1000, 0x1040, "main.main")), "{magic:x}");
            assert_eq!(found(0x103f), Some((0x1000, 0x1040, "main.main")), "{magic:x}");
            assert_eq!(found(0x107f), Some((0x1040, 0x1080, "main.(*T).f")), "{magic:x}");
            assert_eq!(found(0x1100), None, "{magic:x}");
        }
    }

    #[test]
    fn frames_are_those_of_the_instruction() {
        for magic in FORMS {
            let bytes = table(magic, [0, SP_WRITE as u8, TOP_FRAME as u8, 0]);
            let parsed = GoTable::parse(&bytes, 0).expect("it is one");
            let frame = |address| parsed.frame_at(&parsed.function_at(address).expect("a function"), address);
            let steps = [0, 1, 3, 4, 43, 44, 47, 48].map(|into| frame(0x1000 + into));
            if FORMS[..2].contains(&magic) {
                assert_eq!(steps, [Frame::Unknown; 8], "what is before Go 1.18 does not say enough");
                continue;
            }
            let expected = [Some(0), Some(8), Some(8), Some(520), Some(520), Some(0), Some(0), None];
            assert_eq!(steps, expected.map(|bytes| bytes.map_or(Frame::Unknown, Frame::Bytes)), "{magic:x}");
            assert_eq!(frame(0x1044), Frame::Unknown, "it changes to another stack");
            assert_eq!(frame(0x1084), Frame::Outermost);
            assert_eq!(frame(0x10c4), Frame::Unknown, "a signal put it there");
        }
    }

    #[test]
    fn values_that_lie_are_none() {
        let value = |steps: &[u8]| value_at(steps, 5);
        assert_eq!(value(&[2, 6]), Some(0));
        assert_eq!(value(&[2]), None, "cut");
        assert_eq!(value(&[0xff, 0xff, 0xff, 0xff, 0x0f, 6]), None, "below what a number can be");
        assert_eq!(value(&[0xff, 0xff, 0xff, 0xff, 0x1f, 6]), None, "more than 32 bits");
        assert_eq!(value(&[0xff; 100]), None, "without end");
        assert_eq!(value(&[1, 0].repeat(MAX_STEPS * 2)), None, "more steps than are taken");
    }

    #[test]
    fn tables_that_lie_are_survived() {
        let look = |bytes: &[u8]| {
            let Some(table) = GoTable::parse(bytes, 0) else { return };
            for address in (0xff0..0x1110).step_by(8) {
                let Some(function) = table.function_at(address) else { continue };
                table.name(&function);
                table.frame_at(&function, address);
            }
        };
        for magic in FORMS {
            let whole = table(magic, [0; 4]);
            (0..whole.len()).for_each(|length| look(&whole[..length]));
            for at in 8..whole.len() {
                let mut bytes = whole.clone();
                bytes[at] = 0xff;
                look(&bytes);
            }
        }
        assert!(GoTable::parse(&[0; 64], 0).is_none());
    }
}
