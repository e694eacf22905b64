//! Whether entries of debug information have attributes without end (DWARF 5, section 7.5.3).
//!
//! Idea: an attribute's value may stand in the abbreviation, and take no byte of the entry. Going through a thousand of such
//! attributes for each entry of one byte takes work that no read pays for (`Metered`). So their number has a limit.

use std::collections::HashSet;

use gimli::{DW_FORM_flag_present, DW_FORM_implicit_const, Dwarf, Reader, Result, Section};

use crate::symbols::metered::Metered;

/// Without bytes, of one entry. Compilers make ten.
const MAX_EMPTY: u64 = 64;

/// Whether no kind of entry has too many attributes. One that cannot be read has none: nobody else can read it.
pub fn are_short(dwarf: &Dwarf<Metered<'_>>) -> bool {
    let mut known = HashSet::new();
    let mut units = dwarf.units();
    while let Ok(Some(unit)) = units.next() {
        let offset = unit.debug_abbrev_offset();
        let mut table = *dwarf.debug_abbrev.reader();
        if known.insert(offset) && table.skip(offset.0).is_ok() && is_long(&mut table).unwrap_or(false) {
            return false;
        }
    }
    true
}

/// Whether an entry of a table has too many attributes.
fn is_long(table: &mut Metered<'_>) -> Result<bool> {
    while table.read_uleb128()? != 0 {
        let (_tag, _has_children) = (table.read_uleb128()?, table.read_u8()?);
        let mut empty = 0;
        loop {
            let (name, form) = (table.read_uleb128()?, table.read_uleb128()?);
            if (name, form) == (0, 0) {
                break;
            }
            let is_constant = form == u64::from(DW_FORM_implicit_const.0);
            if is_constant {
                table.read_sleb128()?;
            }
            empty += u64::from(is_constant || form == u64::from(DW_FORM_flag_present.0));
            if empty > MAX_EMPTY {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use gimli::{DwarfSections, SectionId};

    use super::*;
    use crate::modules::reading_limits::Allowance;

    #[test]
    fn attributes_without_bytes_have_a_limit() {
        let unit = [8, 0, 0, 0, 4, 0, 0, 0, 0, 0, 8, 0].to_vec();
        let are_short = |attributes: usize, table_ends: bool| {
            let table = [vec![1, 0x11, 0], [0x0b, 0x21, 5].repeat(attributes), vec![0x0b, 0x0b, 0, 0, 0]];
            let mut table = table.concat();
            table.truncate(table.len() - if table_ends { 0 } else { 3 });
            let sections = DwarfSections::load(|id| {
                Ok::<_, ()>(match id {
                    SectionId::DebugAbbrev => table.clone(),
                    SectionId::DebugInfo => unit.clone(),
                    _ => Vec::new(),
                })
            });
            let (sections, allowance) = (sections.expect("nothing is refused"), Allowance::default());
            are_short(&sections.borrow(|section| Metered::new(section, &allowance)))
        };
        assert!(are_short(64, true) && are_short(64, false));
        assert!(!are_short(65, true) && !are_short(1_000_000, false));
    }
}
