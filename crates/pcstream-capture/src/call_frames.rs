//! Call-frame rules of a module: how to get from a frame to its caller's, read from `.eh_frame` or from Go's table.
//!
//! Idea: compilers describe every instruction's frame in a table (DWARF 5, section 6.4; present in every x86-64
//! binary that can throw, which distributions make all of them). A row of it that says "the caller's stack
//! pointer is this register plus that number, and the return address lies below it" is small enough for the
//! BPF program to follow. All rows of call sites seen in practice have this form; what has not
//! (procedure linkage tables, signal frames) becomes `RULE_NONE`, where a path is cut.
//!
//! Go's functions have no entries there. Their rules come from Go's own table (`go_table`): all are of the form
//! "the stack pointer plus that number". A path ends where Go changes from one stack to another.
//!
//! Units: file offsets come in, as the BPF program has them; virtual addresses of the file are only used inside.
//!
//! Files are of the traced program's making, so nothing in them is trusted: sizes are bounded, every read is checked,
//! and what cannot be understood has no rules.

use std::fs::File;
use std::ops::Range;

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, FrameDescriptionEntry, LittleEndian,
    RegisterRule, UnwindContext, UnwindSection, UnwindTableRow, X86_64,
};
use object::{Object, ObjectSection};

use crate::go_table::{self, Frame, GoTable};
use crate::modules::module_data::{Elf, ModuleData};
use crate::modules::reading_limits::Allowance;
use crate::modules::segments::Segments;
use crate::wire::{RuleKind, UnwindRule};

/// Sections beyond this size are not read: the largest programs have a third of it.
const MAX_SECTION_BYTES: u64 = 64 << 20;
/// Nor is a table of Go's beyond this size: it is a quarter of a program, and the largest programs have 300 MB.
const MAX_GO_BYTES: u64 = 128 << 20;
/// Entries of more instructions are not followed: those of the largest functions are a tenth as long.
const MAX_ENTRY_BYTES: usize = 64 << 10;
/// Tables without an index are searched from their beginning, unless they are longer than this.
const MAX_SEARCHED_BYTES: usize = 1 << 20;

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// The call-frame tables of one module.
#[derive(Debug)]
pub struct CallFrames {
    eh_frame: Vec<u8>,
    /// An index by address; empty if the module has none.
    eh_frame_hdr: Vec<u8>,
    bases: BaseAddresses,
    go: Option<GoFrames>,
    segments: Segments,
}

/// Go's table, and where its code begins, if the table does not say.
#[derive(Debug)]
struct GoFrames {
    table: Vec<u8>,
    text: u64,
}

impl CallFrames {
    /// The tables of an ELF file; `None` if it has none, or is not one.
    pub fn read(file: &File) -> Option<CallFrames> {
        CallFrames::read_within(file, u64::MAX)
    }

    /// The same if it says that they take so many bytes at most.
    pub fn read_within(file: &File, most_bytes: u64) -> Option<CallFrames> {
        let allowance = Allowance::default();
        let data = ModuleData::of(file, &allowance);
        let parsed = Elf::parse(&data).ok()?;
        let section = |name: &str| parsed.section_by_name(name);
        let address = |name: &str| section(name).map_or(0, |section| section.address());
        let tables = [".eh_frame", ".eh_frame_hdr"].into_iter().chain(go_table::SECTIONS);
        let claimed = tables.filter_map(|name| Some(section(name)?.size())).fold(0, u64::saturating_add);
        if claimed > most_bytes {
            return None;
        }
        let content = |name: &str| {
            let section = section(name)?;
            (section.size() <= MAX_SECTION_BYTES).then(|| section.data().ok()).flatten().map(<[u8]>::to_vec)
        };
        let eh_frame = content(".eh_frame").unwrap_or_default();
        let go = go_table::section(&parsed, MAX_GO_BYTES);
        if eh_frame.is_empty() && go.is_none() {
            return None;
        }
        Some(CallFrames {
            eh_frame,
            eh_frame_hdr: content(".eh_frame_hdr").unwrap_or_default(),
            go: go.map(|(table, text)| GoFrames { table: table.to_vec(), text }),
            bases: BaseAddresses::default()
                .set_eh_frame(address(".eh_frame"))
                .set_eh_frame_hdr(address(".eh_frame_hdr"))
                .set_text(address(".text"))
                .set_got(address(".got")),
            segments: Segments::of(&parsed),
        })
    }

    /// Memory that they take.
    pub fn bytes(&self) -> u64 {
        let go = self.go.as_ref().map_or(0, |go| go.table.len());
        (self.eh_frame.len() + self.eh_frame_hdr.len() + go) as u64
    }

    /// The rule for the instruction at a file offset.
    pub fn rule_at(&self, file_offset: u64) -> UnwindRule {
        let address = self.segments.address_of(file_offset);
        address.and_then(|address| self.rule_of_address(address)).unwrap_or(NO_RULE)
    }

    fn rule_of_address(&self, address: u64) -> Option<UnwindRule> {
        let mut context = UnwindContext::new();
        let Some(entry) = self.entry_of(address) else { return self.go.as_ref()?.rule_of_address(address) };
        if entry.entry_len().saturating_add(entry.cie().entry_len()) > MAX_ENTRY_BYTES {
            return None;
        }
        let row = entry.unwind_info_for_address(&self.table(), &self.bases, &mut context, address).ok();
        let into_function = u32::try_from(address.checked_sub(entry.initial_address())?).ok()?;
        Some(UnwindRule { into_function, ..row.and_then(rule_of_row).unwrap_or(NO_RULE) })
    }

    /// The addresses of the function, or of the part of one, around an address; `None` if it has exception handlers, which
    /// lead to anywhere in it.
    pub fn part_of(&self, address: u64) -> Option<Range<u64>> {
        let entry = self.entry_of(address).filter(|entry| entry.lsda().is_none())?;
        Some(entry.initial_address()..entry.end_address())
    }

    fn table(&self) -> EhFrame<Slice<'_>> {
        EhFrame::new(&self.eh_frame, LittleEndian)
    }

    fn entry_of(&self, address: u64) -> Option<FrameDescriptionEntry<Slice<'_>>> {
        let (table, from_offset) = (self.table(), EhFrame::cie_from_offset);
        let index = EhFrameHdr::new(&self.eh_frame_hdr, LittleEndian).parse(&self.bases, 8).ok();
        match index.as_ref().and_then(|index| index.table()) {
            Some(sorted) => sorted.fde_for_address(&table, &self.bases, address, from_offset).ok(),
            None if self.eh_frame.len() > MAX_SEARCHED_BYTES => None,
            None => table.fde_for_address(&self.bases, address, from_offset).ok(),
        }
    }
}

impl GoFrames {
    fn rule_of_address(&self, address: u64) -> Option<UnwindRule> {
        let table = GoTable::parse(&self.table, self.text)?;
        let function = table.function_at(address)?;
        let into_function = u32::try_from(address - function.start).ok()?;
        Some(UnwindRule {
            into_function,
            ..rule_of_go(table.frame_at(&function, address)).unwrap_or(NO_RULE)
        })
    }
}

/// No rule is known.
pub const NO_RULE: UnwindRule =
    UnwindRule { kind: RuleKind::RULE_NONE.0, cfa_offset: 0, bp_offset: 0, into_function: 0 };

/// A row in the form that the BPF program follows, if it has it.
fn rule_of_row(row: &UnwindTableRow<usize>) -> Option<UnwindRule> {
    match row.register(X86_64::RA) {
        Some(RegisterRule::Undefined) => {
            return Some(UnwindRule { kind: RuleKind::RULE_END.0, ..NO_RULE });
        }
        Some(RegisterRule::Offset(-8)) => {}
        _ => return None,
    }
    let (kind, offset) = match *row.cfa() {
        CfaRule::RegisterAndOffset { register: X86_64::RSP, offset } => (RuleKind::RULE_SP, offset),
        CfaRule::RegisterAndOffset { register: X86_64::RBP, offset } => (RuleKind::RULE_BP, offset),
        _ => return None,
    };
    let bp_offset = match row.register(X86_64::RBP) {
        Some(RegisterRule::Offset(offset)) => i32::try_from(offset).ok()?,
        Some(RegisterRule::SameValue | RegisterRule::Undefined) | None => 0,
        Some(_) => return None,
    };
    Some(UnwindRule { kind: kind.0, cfa_offset: i32::try_from(offset).ok()?, bp_offset, into_function: 0 })
}

/// Go saves the frame pointer below the return address, in frames that have room for it.
fn rule_of_go(frame: Frame) -> Option<UnwindRule> {
    match frame {
        Frame::Bytes(bytes) => Some(UnwindRule {
            kind: RuleKind::RULE_SP.0,
            cfa_offset: i32::try_from(bytes).ok()?.checked_add(8)?,
            bp_offset: if bytes == 0 { 0 } else { -16 },
            into_function: 0,
        }),
        Frame::Outermost => Some(UnwindRule { kind: RuleKind::RULE_END.0, ..NO_RULE }),
        Frame::Unknown => None,
    }
}
