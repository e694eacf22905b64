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
//! Known weaknesses: inlined functions are not told apart from those that they are in; debug files of modules without a build id
//! are not looked for; `.gnu_debugdata` is not read.

use std::fs::File;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};

use crate::go_names;
use crate::module_data::{GivenUp, ModuleData};
use crate::module_file::open_regular;
use crate::modules::build_id;

const DEBUG_FILES: &str = "/usr/lib/debug";

/// Symbols between two looks whether somebody still waits for names.
const SYMBOLS_AT_ONCE: usize = 4096;

/// The names of the functions at these file offsets of a module, which was mapped from `path`; `None` where there is no name.
pub fn names_at(file: &File, path: &Path, offsets: &[u64], given_up: &GivenUp) -> Vec<Option<String>> {
    let mut found: Vec<_> = offsets.iter().map(|_| None).collect();
    let data = ModuleData::of(file, given_up.clone());
    let Ok(module) = object::File::parse(&data) else { return found };
    let mut wanted: Vec<Place> = places(&module, offsets);
    if let Some(debug) = debug_file(&module, path) {
        let data = ModuleData::of(&debug, given_up.clone());
        if let Ok(debug) = object::File::parse(&data) {
            from_symbols(debug.symbols(), &mut wanted, given_up);
        }
    }
    from_symbols(module.symbols(), &mut wanted, given_up);
    from_symbols(module.dynamic_symbols(), &mut wanted, given_up);
    go_names::add(&module, &mut wanted);
    for place in wanted {
        found[place.of] = place.best.map(|best| demangled(&best.name));
    }
    found
}

/// A place whose function is wanted.
#[derive(Debug)]
pub struct Place {
    /// Virtual address in the file.
    pub address: u64,
    /// Index among the offsets asked for.
    of: usize,
    /// From the table that named it first.
    pub best: Option<Named>,
}

/// A function around a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Of its first instruction.
    pub start: u64,
    /// 0: not known.
    pub bytes: u64,
    /// As in the table.
    pub name: String,
}

impl Named {
    /// Whether this name is the better one of a place: of the function that begins later (the inner one), else a
    /// name that users know. Libraries have several for one function: `write`, `__write`.
    fn is_better_than(&self, other: &Named) -> bool {
        let plain = |named: &Named| {
            let underscores = named.name.bytes().take_while(|&byte| byte == b'_').count();
            (underscores, named.name.len(), named.name.clone())
        };
        match self.start.cmp(&other.start) {
            std::cmp::Ordering::Equal => plain(self) < plain(other),
            order => order.is_gt(),
        }
    }
}

/// The places in the order of their addresses.
fn places<'d>(module: &object::File<'d, &'d ModuleData<'_>>, offsets: &[u64]) -> Vec<Place> {
    let segments: Vec<_> = module.segments().map(|s| (s.file_range(), s.address())).collect();
    let place = |(of, &offset): (usize, &u64)| {
        let inside =
            |&((start, bytes), _): &((u64, u64), u64)| offset.checked_sub(start).is_some_and(|at| at < bytes);
        let ((start, _), address) = segments.iter().copied().find(inside)?;
        Some(Place { address: address.checked_add(offset - start)?, of, best: None })
    };
    let mut places: Vec<_> = offsets.iter().enumerate().filter_map(place).collect();
    places.sort_unstable_by_key(|place| place.address);
    places
}

/// Names places that have none yet.
fn from_symbols<'d, S: ObjectSymbol<'d>>(
    symbols: impl Iterator<Item = S>,
    wanted: &mut [Place],
    given_up: &GivenUp,
) {
    let mut best: Vec<Option<Named>> = wanted.iter().map(|_| None).collect();
    // Of functions of unknown size, by the first place beyond their beginning; and where any function begins.
    let mut open: Vec<Option<Named>> = best.clone();
    let mut latest: Vec<u64> = vec![0; wanted.len()];
    for (n, symbol) in symbols.enumerate() {
        if n % SYMBOLS_AT_ONCE == 0 && given_up.is_so() {
            return;
        }
        let (start, bytes) = (symbol.address(), symbol.size());
        let first = wanted.partition_point(|place| place.address < start);
        if symbol.kind() != SymbolKind::Text || symbol.is_undefined() || first == wanted.len() {
            continue;
        }
        latest[first] = latest[first].max(start);
        let offer = |to: &mut Option<Named>| {
            if to.as_ref().is_some_and(|known| known.start > start) {
                return;
            }
            let name = symbol.name().map_or("", without_version);
            let named = Named { start, bytes, name: name.to_owned() };
            if !name.is_empty() && to.as_ref().is_none_or(|known| named.is_better_than(known)) {
                *to = Some(named);
            }
        };
        if bytes == 0 {
            offer(&mut open[first]);
            continue;
        }
        let inside = |place: &&mut Place| place.address - start < bytes;
        let count = wanted[first..].iter_mut().take_while(inside).count();
        best[first..first + count].iter_mut().for_each(offer);
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

/// The debug file that belongs to a module: its build id says where it is, or the module's link, and its own must be the same.
fn debug_file<'d>(module: &object::File<'d, &'d ModuleData<'_>>, path: &Path) -> Option<File> {
    let id = module.build_id().ok().flatten().filter(|id| id.len() > 2)?;
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let by_id = PathBuf::from(format!("{DEBUG_FILES}/.build-id/{}/{}.debug", &hex[..2], &hex[2..]));
    let is_its = |file: &File| build_id(file).is_some_and(|its| its == id);
    if let Some(file) = open_regular(&by_id, 0).filter(is_its) {
        return Some(file);
    }
    let (link, _) = module.gnu_debuglink().ok().flatten()?;
    let name = std::str::from_utf8(link).ok().filter(|name| !name.contains('/') && !name.starts_with('.'))?;
    let dir = path.parent()?;
    let central = Path::new(DEBUG_FILES).join(dir.strip_prefix("/").unwrap_or(dir));
    // Whoever is traced may have made the first two.
    [
        (dir.join(name), libc::O_NOFOLLOW),
        (dir.join(".debug").join(name), libc::O_NOFOLLOW),
        (central.join(name), 0),
    ]
    .iter()
    .find_map(|(path, flags)| open_regular(path, *flags).filter(is_its))
}

/// A name as its language has it.
pub fn demangled(name: &str) -> String {
    // Of C++ too, but there it takes a parser. Deep nesting is refused by both.
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    if !name.starts_with("_Z") {
        return name.to_owned();
    }
    let cpp = cpp_demangle::Symbol::new(name).ok().and_then(|symbol| symbol.demangle().ok());
    cpp.unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let names = names_at(&file, Path::new("/proc/self/exe"), &[offset, u64::MAX], &GivenUp::default());
        assert!(names[0].as_ref().unwrap().ends_with("function_names::without_version"), "{names:?}");
        assert_eq!(names[1], None);
    }

    #[test]
    fn nobody_waits_for_names_that_are_given_up() {
        let (file, offset) = own_offset_of(without_version as *const ());
        let given_up = GivenUp::default();
        given_up.give_up();
        assert_eq!(names_at(&file, Path::new("/proc/self/exe"), &[offset], &given_up), [None]);
    }

    #[test]
    fn the_name_that_users_know_is_chosen() {
        let named = |start, name: &str| Named { start, bytes: 10, name: name.into() };
        assert!(named(5, "write").is_better_than(&named(5, "__write")));
        assert!(!named(5, "__libc_write").is_better_than(&named(5, "__write")));
        assert!(named(6, "__inner").is_better_than(&named(5, "outer")));
    }

    #[test]
    fn names_are_demangled_by_language() {
        assert_eq!(demangled("_ZN7rocksdb6DBImpl5FlushEv"), "rocksdb::DBImpl::Flush()");
        assert_eq!(
            demangled("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE"),
            "core::fmt::Write::write_fmt"
        );
        assert_eq!(demangled("go.etcd.io/bbolt.(*Tx).write"), "go.etcd.io/bbolt.(*Tx).write");
        assert_eq!(demangled("_Z"), "_Z");
        assert_eq!(demangled("write"), "write");
    }
}
