//! Source lines of places in a module, from debug information (DWARF 5, section 6.2).
//!
//! Idea: a trace has a module's path, its build id and offsets in it. The file at that path counts only if it has that
//! build id. The line comes from its debug file (below `/usr/lib/debug`, or as its debug link says) or else from its
//! own sections. Names that the file shares with others come from its supplementary file.
//!
//! Files are not trusted: they are opened if they are regular, and read within an [`Allowance`]; sections larger than
//! `MAX_SECTION_BYTES`, once uncompressed, are not. What is made of the sections is within it, too (`Metered`).
//!
//! Known weaknesses: split debug files (`.dwo`) are not read.

use std::io::Read;
use std::path::Path;

use addr2line::Context;
use flate2::read::ZlibDecoder;
use gimli::{DwarfSections, SectionId};
use object::{CompressionFormat, Object, ObjectSection};
use thiserror::Error;

use crate::modules::module_data::{Elf, ModuleData};
use crate::modules::module_file::open_regular;
use crate::modules::reading_limits::Allowance;
use crate::symbols::abbreviations::are_short;
use crate::symbols::debug_files::{debug_file, supplementary_file};
use crate::symbols::demangle::demangled;
use crate::symbols::metered::Metered;
use crate::symbols::places::places;

/// The largest programs that distributions have debug files of (browsers left out) have a quarter of it.
const MAX_SECTION_BYTES: u64 = 256 << 20;
/// Of looking up a line, in a unit that was read.
const STEPS_OF_A_LINE: u64 = 100;

/// A line of a source file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Path of the file, as the compiler had it.
    pub file: String,
    /// From 1.
    pub line: u32,
}

/// What stands at a place in a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// In the function that the machine code belongs to.
    pub line: Line,
    /// Functions whose calls were inlined there, with the lines in them, innermost first.
    pub inlined: Vec<(String, Line)>,
}

/// Why a module has no source lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
pub enum Lack {
    /// What is at its path now has another build id.
    #[error("changed since it was recorded: the build id is another one")]
    Changed,
    /// There is no regular file at its path.
    #[error("not here")]
    NotHere,
    /// What is at its path cannot be compared with what ran.
    #[error("without a build id")]
    NoBuildId,
    /// Neither it nor a debug file has any that can be read.
    #[error("without debug information that pcstream reads (no .dwo)")]
    NoDebugInformation,
    /// Reading it would take too much.
    #[error("larger than the limits of reading")]
    OverLimit,
}

/// What stands at these file offsets of a module; `None` where there is no line, or the allowance fell short.
pub fn lines_at(
    path: &Path,
    build_id: &str,
    offsets: &[u64],
    allowance: &Allowance,
) -> Result<Vec<Option<Source>>, Lack> {
    if build_id.is_empty() {
        return Err(Lack::NoBuildId);
    }
    let file = open_regular(path).ok_or(Lack::NotHere)?;
    let data = ModuleData::of(&file, allowance);
    let module = Elf::parse(&data).map_err(|_| Lack::Changed)?;
    let its_id = module.build_id().ok().flatten().unwrap_or_default();
    if its_id.iter().map(|byte| format!("{byte:02x}")).collect::<String>() != build_id {
        return Err(Lack::Changed);
    }
    let debug = debug_file(&file, &module, path);
    let debug_data = debug.as_ref().map(|debug| ModuleData::of(debug, allowance));
    let separate = debug_data.as_ref().and_then(|data| Elf::parse(data).ok());
    let lack = || if allowance.fell_short() { Lack::OverLimit } else { Lack::NoDebugInformation };
    let mut holders = separate.iter().chain([&module]).filter(|file| has_lines(file));
    let found = holders.find_map(|holder| Some((holder, sections_of(holder, allowance)?)));
    let (holder, sections) = found.ok_or_else(lack)?;
    let shared = supplementary_file(&file, holder, path);
    let shared_data = shared.as_ref().map(|shared| ModuleData::of(shared, allowance));
    let shared = shared_data.as_ref().and_then(|data| Elf::parse(data).ok());
    let shared = shared.as_ref().and_then(|shared| sections_of(shared, allowance));
    let dwarf = sections.borrow_with_sup(shared.as_ref(), |section| Metered::new(section, allowance));
    if !(are_short(&dwarf) && dwarf.sup().is_none_or(are_short)) {
        return Err(Lack::OverLimit);
    }
    let context = Context::from_dwarf(dwarf).map_err(|_| lack())?;
    let mut found = vec![None; offsets.len()];
    for place in places(&module, offsets) {
        if !allowance.spend(STEPS_OF_A_LINE) {
            break;
        }
        found[place.of] = source_at(&context, place.address);
    }
    Ok(found)
}

/// What stands at an address.
fn source_at(context: &Context<Metered<'_>>, address: u64) -> Option<Source> {
    let mut frames = context.find_frames(address).skip_all_loads().ok()?;
    let mut lines = Vec::new();
    while let Some(frame) = frames.next().ok()? {
        let name = frame.function.and_then(|function| Some(demangled(&function.raw_name().ok()?)));
        let line = frame.location.and_then(|at| Some(Line { file: at.file?.to_owned(), line: at.line? }));
        lines.push((name, line));
    }
    let (_, own) = lines.pop()?;
    let inlined: Vec<_> = lines.into_iter().filter_map(|(name, line)| Some((name?, line?))).collect();
    let line = own.or_else(|| inlined.last().map(|(_, line)| line.clone()))?;
    Some(Source { line, inlined })
}

/// What lines are made of; `None` if it cannot be read, or is too large.
fn sections_of(file: &Elf<'_>, allowance: &Allowance) -> Option<DwarfSections<Vec<u8>>> {
    DwarfSections::load(|id| section(file, id, allowance).ok_or(())).ok()
}

fn has_lines(file: &Elf<'_>) -> bool {
    let has = |id: SectionId| file.section_by_name(id.name()).is_some_and(|section| section.size() > 0);
    has(SectionId::DebugInfo) && has(SectionId::DebugLine)
}

/// A section's contents, uncompressed; empty if there is no such section, or no need of it.
fn section(file: &Elf<'_>, id: SectionId, allowance: &Allowance) -> Option<Vec<u8>> {
    use SectionId::{DebugLoc, DebugLocLists, DebugMacinfo, DebugMacro, DebugTypes};
    if [DebugLoc, DebugLocLists, DebugMacinfo, DebugMacro, DebugTypes].contains(&id) {
        return Some(Vec::new());
    }
    let Some(section) = file.section_by_name(id.name()) else { return Some(Vec::new()) };
    let range = section.compressed_file_range().ok()?;
    if range.uncompressed_size > MAX_SECTION_BYTES {
        allowance.fall_short();
        return None;
    }
    if !allowance.read(range.uncompressed_size) {
        return None;
    }
    let data = section.compressed_data().ok()?;
    match data.format {
        CompressionFormat::None => Some(data.data.to_vec()),
        CompressionFormat::Zlib => unpacked(ZlibDecoder::new(data.data), range.uncompressed_size),
        CompressionFormat::Zstandard => {
            unpacked(zstd::Decoder::with_buffer(data.data).ok()?, range.uncompressed_size)
        }
        _ => None,
    }
}

fn unpacked(decoder: impl Read, bytes: u64) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    decoder.take(bytes).read_to_end(&mut out).ok().map(|_| out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::build_id;

    const BODY: u32 = line!() + 4;

    #[inline(never)]
    fn here(number: u32) -> u32 {
        number ^ 0x5a5a
    }

    const INNER: u32 = line!() + 4;

    #[inline(always)]
    fn inner(number: u32) -> u32 {
        std::hint::black_box(number) ^ 0x5a5a
    }

    const CALL: u32 = line!() + 4;

    #[inline(never)]
    fn outer(number: u32) -> u32 {
        inner(number)
    }

    /// The build id of this program.
    fn id_of(program: &Path) -> String {
        let id = build_id(&std::fs::File::open(program).unwrap()).expect("test programs have build ids");
        id.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn a_line_is_that_of_the_function_and_calls_inlined_in_it_are_named() {
        let program = std::env::current_exe().unwrap();
        let function: fn(u32) -> u32 = std::hint::black_box(outer);
        let start = offset_of(function as *const ());
        let offsets: Vec<u64> = (start..start + 16).collect();
        let found =
            lines_at(&program, &id_of(&program), &offsets, &Allowance::default()).expect("it has lines");
        let place =
            found.into_iter().flatten().find(|found| !found.inlined.is_empty()).expect("inlined code");
        assert_eq!(place.line.line, CALL, "{place:?}");
        let (name, line) = place.inlined.last().expect("one");
        assert!(name.ends_with("inner"), "{place:?}");
        assert_eq!(line.line, INNER, "{place:?}");
    }

    /// The file offset of a function of this program.
    fn offset_of(function: *const ()) -> u64 {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let at = function.addr() as u64;
        let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
        let inside = |line: &&str| {
            let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
            (hex(start)..hex(end)).contains(&at)
        };
        let words: Vec<_> = maps.lines().find(inside).unwrap().split_whitespace().collect();
        at - hex(words[0].split('-').next().unwrap()) + hex(words[2])
    }

    /// Debug information of a unit at address 0, whose line table has so many rows of a byte each.
    fn unit_of(rows: usize) -> DwarfSections<Vec<u8>> {
        // DW_TAG_compile_unit: DW_AT_stmt_list (sec_offset), DW_AT_low_pc (addr), DW_AT_high_pc (data8).
        let abbreviations = vec![1, 0x11, 0, 0x10, 0x17, 0x11, 0x01, 0x12, 0x07, 0, 0, 0];
        let words: Vec<u8> = [0, rows as u64].iter().flat_map(|word| word.to_le_bytes()).collect();
        let unit = [&[4, 0, 0, 0, 0, 0, 8, 1, 0, 0, 0, 0][..], &words].concat();
        // Each opcode from 13 on makes a row, 14 one byte further on. No directories, one file.
        let header = b"\x01\x01\x01\0\x01\x0d\0\x01\x01\x01\x01\0\0\0\x01\0\0\x01\0a.c\0\0\0\0\0";
        let program = [&[0, 9, 2, 0, 0, 0, 0, 0, 0, 0, 0, 13][..], &vec![14; rows], &[0, 1, 1]].concat();
        let length = |bytes: usize| (bytes as u32).to_le_bytes();
        let header = [&[4, 0][..], &length(header.len()), header].concat();
        let lines = [&length(header.len() + program.len())[..], &header, &program].concat();
        let info = [&length(unit.len())[..], &unit].concat();
        let sections = DwarfSections::load(|id| {
            Ok::<_, ()>(match id {
                SectionId::DebugAbbrev => abbreviations.clone(),
                SectionId::DebugInfo => info.clone(),
                SectionId::DebugLine => lines.clone(),
                _ => Vec::new(),
            })
        });
        sections.expect("nothing is refused")
    }

    /// A row takes 24 bytes: a compressed section of a few KB could take all memory.
    #[test]
    fn rows_of_a_line_table_are_taken_from_the_allowance() {
        for (rows, short) in [(1000, false), (100 << 20, true)] {
            let (sections, allowance) = (unit_of(rows), Allowance::default());
            let dwarf = sections.borrow(|section| Metered::new(section, &allowance));
            let context = Context::from_dwarf(dwarf).expect("its unit can be read");
            let found = source_at(&context, 100);
            assert_eq!(allowance.fell_short(), short);
            let line = Line { file: "a.c".into(), line: 1 };
            assert_eq!(found, (!short).then_some(Source { line, inlined: Vec::new() }));
        }
    }

    #[test]
    fn a_function_of_this_program_is_where_it_stands() {
        let program = std::env::current_exe().unwrap();
        let id = id_of(&program);
        let function: fn(u32) -> u32 = std::hint::black_box(here);
        let offsets = [offset_of(function as *const ()), u64::MAX];
        let found = lines_at(&program, &id, &offsets, &Allowance::default()).expect("it has lines");
        let line = &found[0].as_ref().expect("a line").line;
        assert!(line.file.ends_with("src/symbols/lines.rs"), "{line:?}");
        assert!(line.line.abs_diff(BODY) <= 1, "{line:?}, expected {BODY}");
        assert_eq!(found[1], None);
        let other = lines_at(&program, "00112233", &offsets, &Allowance::default());
        assert_eq!(other, Err(Lack::Changed));
        let missing = lines_at(Path::new("/nonexistent"), &id, &offsets, &Allowance::default());
        assert_eq!(missing, Err(Lack::NotHere));
        assert_eq!(lines_at(&program, "", &offsets, &Allowance::default()), Err(Lack::NoBuildId));
    }
}
