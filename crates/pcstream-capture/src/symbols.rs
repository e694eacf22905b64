//! Names for the frames of contexts.
//!
//! A frame holds a return address, so its name is that of the instruction before it; only the head of an
//! interrupted path is the instruction itself. Code without symbols keeps an empty name and is shown as module and
//! offset.

mod abbreviations;
pub(crate) mod debug_files;
mod demangle;
pub mod function_names;
mod go_names;
pub mod lines;
mod metered;
pub(crate) mod places;

use std::collections::BTreeMap;
use std::path::Path;

use pcstream_trace::Context;
use rustc_hash::FxHashMap;

use crate::modules::reading_limits::{Allowance, GivenUp};
use crate::modules::{Modules, OpenModule};
use crate::syscalls;

/// Of the names in all frames: four times what 65,536 contexts of twelve frames usually have.
const MAX_SYMBOL_BYTES: usize = 256 << 20;

/// A name that is wanted: of a module, by the BPF program's key, and a file offset.
type Place = (u64, u64);

/// The names that contexts want. Holds the files, so that they can be read elsewhere than where modules are.
#[derive(Debug, Default)]
pub struct Wanted {
    modules: Vec<Module>,
}

#[derive(Debug)]
struct Module {
    key: u64,
    open: OpenModule,
    offsets: Vec<u64>,
}

impl Wanted {
    /// The names of these contexts' frames. `modules_of`: the module of each of a context's frames.
    pub fn by(contexts: &[Context], modules_of: &[Vec<u64>], modules: &Modules) -> Wanted {
        let mut places: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for (context, keys) in contexts.iter().zip(modules_of) {
            for (key, offset) in instructions(context, keys) {
                places.entry(key).or_default().push(offset);
            }
        }
        let wanted = |(key, mut offsets): (u64, Vec<u64>)| {
            let open = modules.open_file(key)?;
            offsets.sort_unstable();
            offsets.dedup();
            Some(Module { key, open, offsets })
        };
        Wanted { modules: places.into_iter().filter_map(wanted).collect() }
    }

    /// Looks the names up. Once given up, what was found until then.
    pub fn find(&self, given_up: &GivenUp) -> Names {
        let mut names = Names::default();
        let allowance = Allowance::new(given_up.clone());
        for module in &self.modules {
            allowance.next_module();
            let OpenModule { file, path, .. } = &module.open;
            let found = function_names::names_at(file, Path::new(path), &module.offsets, &allowance);
            // Looked at afterwards: whatever was read before is its own then.
            if module.open.has_changed() {
                names.changed.push(module.key);
                continue;
            }
            let named = module
                .offsets
                .iter()
                .zip(found)
                .filter_map(|(offset, name)| Some(((module.key, *offset), name?)));
            names.by_place.extend(named);
            if allowance.fell_short() {
                names.short_of.push(path.clone());
            }
            if given_up.is_so() {
                return names;
            }
        }
        names
    }
}

/// Names of functions by place.
#[derive(Debug, Default)]
pub struct Names {
    by_place: FxHashMap<Place, String>,
    short_of: Vec<String>,
    changed: Vec<u64>,
}

impl Names {
    /// Modules of which a limit of work or memory kept names back ([`Allowance`]).
    pub fn short_of(&self) -> &[String] {
        &self.short_of
    }

    /// Modules whose files hold something else by now, by the BPF program's key.
    pub fn changed(&self) -> &[u64] {
        &self.changed
    }

    /// Adds what was found later.
    pub fn add(&mut self, later: Names) {
        self.changed.extend(later.changed);
        self.by_place.extend(later.by_place);
        self.short_of.extend(later.short_of);
        self.short_of.sort_unstable();
        self.short_of.dedup();
    }

    /// Fills in `symbol` of every frame that has a name here. Returns how many names found no room.
    pub fn give_to(&self, contexts: &mut [Context], modules_of: &[Vec<u64>]) -> u64 {
        let (mut left, mut without) = (MAX_SYMBOL_BYTES, 0);
        for (context, keys) in contexts.iter_mut().zip(modules_of) {
            let found: Vec<_> = instructions(context, keys).map(|place| self.by_place.get(&place)).collect();
            for (frame, symbol) in context.frames.iter_mut().zip(found) {
                let Some(symbol) = symbol else { continue };
                match left.checked_sub(symbol.len()) {
                    Some(rest) => (left, frame.symbol) = (rest, symbol.clone()),
                    None => without += 1,
                }
            }
        }
        without
    }
}

/// The instructions that the frames of a context are named after. None of a path of a language runtime: it has its
/// names, and no modules.
fn instructions(context: &Context, modules: &[u64]) -> impl Iterator<Item = Place> {
    let interrupted = syscalls::is_interruption(&context.entry);
    context.frames.iter().zip(modules).enumerate().map(move |(i, (frame, &module))| {
        let before = if i == 0 && interrupted { 0 } else { 1 };
        (module, frame.offset.saturating_sub(before))
    })
}
