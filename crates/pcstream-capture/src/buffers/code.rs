//! The code of a binary, as the search for the place where a function counts reads it.

use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;

use object::{Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, RelocationTarget, SectionKind};

use super::counted::{Code, Linked};
use crate::call_frames::CallFrames;
use crate::modules::module_data::Elf;

/// Functions of libraries that do not return and that functions without an error of their own call.
const ENDS: [&str; 11] = [
    "__stack_chk_fail",
    "abort",
    "exit",
    "_exit",
    "__assert_fail",
    "__chk_fail",
    "longjmp",
    "siglongjmp",
    "__longjmp_chk",
    "__cxa_throw",
    "_Unwind_Resume",
];

/// The code of a binary, and where its functions begin and end.
pub struct Text<'a> {
    sections: Vec<(u64, &'a [u8])>,
    frames: CallFrames,
    /// Where the linker puts the addresses of functions.
    linked: HashMap<u64, Linked>,
}

impl<'a> Text<'a> {
    /// Of a binary; `None`: its call-frame entries cannot be read.
    pub fn read(file: &File, binary: &Elf<'a>) -> Option<Text<'a>> {
        let code = binary.sections().filter(|section| section.kind() == SectionKind::Text);
        let symbols = binary.dynamic_symbol_table();
        let linked = |target: RelocationTarget| {
            let RelocationTarget::Symbol(index) = target else { return None };
            let symbol = symbols.as_ref()?.symbol_by_index(index).ok()?;
            let ends = ENDS.contains(&symbol.name().ok()?);
            Some(if ends { Linked::DoesNotReturn } else { Linked::Returns })
        };
        let relocations = binary.dynamic_relocations().into_iter().flatten();
        Some(Text {
            sections: code.filter_map(|section| Some((section.address(), section.data().ok()?))).collect(),
            frames: CallFrames::read(file)?,
            linked: relocations.filter_map(|(at, to)| Some((at, linked(to.target())?))).collect(),
        })
    }
}

impl Code for Text<'_> {
    fn bytes(&self, address: u64) -> Option<&[u8]> {
        self.sections.iter().find_map(|(start, data)| {
            let into = usize::try_from(address.checked_sub(*start)?).ok()?;
            data.get(into..).filter(|rest| !rest.is_empty())
        })
    }

    fn part(&self, address: u64) -> Option<Range<u64>> {
        self.frames.part_of(address)
    }

    fn linked(&self, variable: u64) -> Option<Linked> {
        self.linked.get(&variable).copied()
    }
}
