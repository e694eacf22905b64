//! Names of functions by place in a module: from symbol tables, of the module or of its debug file, and from Go's own
//! tables.
//!
//! Idea: a name is wanted for a few places of a module, so a symbol table is gone through once and only the names of
//! functions around those places are read. A symbol table names each function that has code, so debug information
//! is not needed, and whether it is compressed does not matter.
//!
//! Order: the table of a separate debug file (found by build id), the module's own, its dynamic symbols, and
//! `.gopclntab`, which Go programs keep when they are stripped.
//!
//! Known weaknesses: an inlined function has the name of the function that it is in; `.gnu_debugdata` is not read. A module whose tables take more than its [`Allowance`] has only the names
//! that were found in other tables.

use std::cell::LazyCell;
use std::fs::File;
use std::path::Path;

use object::{Object, ObjectSymbol, SymbolKind};

use crate::modules::module_data::{Elf, ModuleData};
use crate::modules::reading_limits::Allowance;
use crate::symbols::debug_files::debug_file;
use crate::symbols::demangle::demangled;
use crate::symbols::go_names;
use crate::symbols::places::{Named, Place, places};

/// Of demangling a name.
const STEPS_OF_A_BYTE: u64 = 4;

/// The names of the functions at these file offsets of a module, which was mapped from `path`; `None` where there is no name.
pub fn names_at(file: &File, path: &Path, offsets: &[u64], allowance: &Allowance) -> Vec<Option<String>> {
    let mut found: Vec<_> = offsets.iter().map(|_| None).collect();
    let data = ModuleData::of(file, allowance);
    let Ok(module) = Elf::parse(&data) else { return found };
    let mut wanted: Vec<Place> = places(&module, offsets);
    if let Some(debug) = debug_file(file, &module, path) {
        let data = ModuleData::of(&debug, allowance);
        if let Ok(debug) = Elf::parse(&data) {
            from_symbols(debug.symbols(), &mut wanted, allowance);
        }
    }
    from_symbols(module.symbols(), &mut wanted, allowance);
    from_symbols(module.dynamic_symbols(), &mut wanted, allowance);
    go_names::add(&module, &mut wanted, allowance);
    for place in wanted {
        found[place.of] = place.best.and_then(|best| name_of(&best, allowance));
    }
    found
}

/// What a function is called. Many places may be in one function, and demangling takes time.
fn name_of(function: &Named, allowance: &Allowance) -> Option<String> {
    if !allowance.spend(STEPS_OF_A_BYTE * function.name.len() as u64) {
        return None;
    }
    Some(demangled(&function.name)).filter(|name| allowance.keep_name(name))
}

/// Names places that have none yet.
fn from_symbols<'d, S: ObjectSymbol<'d>>(
    symbols: impl Iterator<Item = S>,
    wanted: &mut [Place],
    allowance: &Allowance,
) {
    let mut best: Vec<Option<Named>> = wanted.iter().map(|_| None).collect();
    // Of functions of unknown size, by the first place beyond their beginning; and where any function begins.
    let mut open: Vec<Option<Named>> = best.clone();
    let mut latest: Vec<u64> = vec![0; wanted.len()];
    for symbol in symbols {
        if !allowance.spend(1) {
            return;
        }
        let (start, bytes) = (symbol.address(), symbol.size());
        let first = wanted.partition_point(|place| place.address < start);
        if symbol.kind() != SymbolKind::Text || symbol.is_undefined() || first == wanted.len() {
            continue;
        }
        latest[first] = latest[first].max(start);
        let inside = |place: &&Place| place.address - start < bytes;
        let count = wanted[first..].iter().take_while(inside).count();
        if !allowance.spend(count as u64) {
            return;
        }
        let named = LazyCell::new(|| {
            let Ok(name) = symbol.name().map(without_version) else {
                // It is longer than what is read of a name, or no text.
                allowance.fall_short();
                return None;
            };
            if name.is_empty() {
                return None;
            }
            allowance.keep_name(name).then(|| Named { start, bytes, name: name.into() })
        });
        let offered = if bytes == 0 { &mut open[first..=first] } else { &mut best[first..first + count] };
        for to in offered.iter_mut().filter(|to| to.as_ref().is_none_or(|known| known.start <= start)) {
            if let Some(named) = named.as_ref()
                && to.as_ref().is_none_or(|known| named.is_better_than(known))
            {
                *to = Some(named.clone());
            }
        }
    }
    // A function of unknown size ends where the next one begins.
    let (mut begun, mut last) = (None, 0);
    for (at, place) in wanted.iter_mut().enumerate() {
        last = last.max(latest[at]);
        begun = open[at].take().or(begun);
        let open_here = begun.clone().filter(|named: &Named| named.start == last);
        place.best = place.best.take().or_else(|| best[at].take()).or(open_here);
    }
}

fn without_version(name: &str) -> &str {
    name.split('@').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::reading_limits::GivenUp;

    fn own_offset_of(function: *const ()) -> (File, u64) {
        let file = File::open("/proc/self/exe").unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let at = function.addr() as u64;
        let line = maps.lines().find(|line| {
            let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
            let hex = |text| u64::from_str_radix(text, 16).unwrap();
            (hex(start)..hex(end)).contains(&at)
        });
        let words: Vec<_> = line.unwrap().split_whitespace().collect();
        let hex = |text| u64::from_str_radix(text, 16).unwrap();
        (file, at - hex(words[0].split('-').next().unwrap()) + hex(words[2]))
    }

    #[test]
    fn functions_of_this_program_have_their_names() {
        let (file, offset) = own_offset_of(without_version as *const ());
        let names = names_at(&file, Path::new("/proc/self/exe"), &[offset, u64::MAX], &Allowance::default());
        assert!(names[0].as_ref().unwrap().ends_with("function_names::without_version"), "{names:?}");
        assert_eq!(names[1], None);
    }

    #[test]
    fn nobody_waits_for_names_that_are_given_up() {
        let (file, offset) = own_offset_of(without_version as *const ());
        let given_up = GivenUp::default();
        given_up.give_up();
        let names = names_at(&file, Path::new("/proc/self/exe"), &[offset], &Allowance::new(given_up));
        assert_eq!(names, [None]);
    }

    #[test]
    fn the_name_that_users_know_is_chosen() {
        let named = |start, name: &str| Named { start, bytes: 10, name: name.into() };
        assert!(named(5, "write").is_better_than(&named(5, "__write")));
        assert!(!named(5, "__libc_write").is_better_than(&named(5, "__write")));
        assert!(named(6, "__inner").is_better_than(&named(5, "outer")));
    }
}
