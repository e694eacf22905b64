//! Names of Go functions from Go's own table of functions (`go_table`), which stripped programs keep.

use crate::go_table::{self, GoTable};
use crate::modules::module_data::Elf;
use crate::modules::reading_limits::Allowance;
use crate::symbols::places::{Named, Place};

/// Of the search for a function and of its name.
const STEPS_OF_A_PLACE: u64 = 256;

/// Names places that have no name yet.
pub fn add(module: &Elf<'_>, wanted: &mut [Place], allowance: &Allowance) {
    if wanted.iter().all(|place| place.best.is_some()) {
        return;
    }
    let Some((bytes, text)) = go_table::section(module, u64::MAX) else { return };
    let Some(table) = GoTable::parse(bytes, text) else { return };
    for place in wanted.iter_mut().filter(|place| place.best.is_none()) {
        if !allowance.spend(STEPS_OF_A_PLACE) {
            return;
        }
        place.best = named(&table, place.address).filter(|named| allowance.keep_name(&named.name));
    }
}

fn named(table: &GoTable<'_>, address: u64) -> Option<Named> {
    let function = table.function_at(address)?;
    let name = table.name(&function)?;
    Some(Named { start: function.start, bytes: function.end - function.start, name: name.into() })
}
