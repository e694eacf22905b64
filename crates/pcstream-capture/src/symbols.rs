//! Names for the frames of contexts: from debug information, symbol tables or dynamic symbols.
//!
//! A frame holds a return address, so its name is that of the instruction before it. Code without
//! symbols keeps an empty name and is shown as module and offset.

use std::os::fd::AsRawFd;

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use pcstream_trace::Context;
use rustc_hash::FxHashMap;

use crate::modules::Module;

/// Fills in `symbol` of every frame whose module is still at hand. `module_of` finds a module by path.
pub fn resolve<'a>(contexts: &mut [Context], module_of: impl Fn(&str) -> Option<&'a Module>) {
    let mut wanted: FxHashMap<String, Vec<u64>> = FxHashMap::default();
    for frame in contexts.iter().flat_map(|context| &context.frames) {
        wanted.entry(frame.module.clone()).or_default().push(frame.offset);
    }
    let mut names: FxHashMap<(String, u64), String> = FxHashMap::default();
    let symbolizer = Symbolizer::new();
    for (path, mut offsets) in wanted {
        offsets.sort_unstable();
        offsets.dedup();
        let Some(module) = module_of(&path) else { continue };
        for (offset, name) in names_in(&symbolizer, module, &offsets) {
            names.insert((path.clone(), offset), name);
        }
    }
    for frame in contexts.iter_mut().flat_map(|context| &mut context.frames) {
        if let Some(name) = names.get(&(frame.module.clone(), frame.offset)) {
            frame.symbol.clone_from(name);
        }
    }
}

fn names_in(symbolizer: &Symbolizer, module: &Module, offsets: &[u64]) -> Vec<(u64, String)> {
    let Some(file) = &module.file else { return Vec::new() };
    // Through the open file: the path may name something else by now.
    let source = Source::Elf(Elf::new(format!("/proc/self/fd/{}", file.as_raw_fd())));
    let calls: Vec<u64> = offsets.iter().map(|offset| offset.saturating_sub(1)).collect();
    let Ok(found) = symbolizer.symbolize(&source, Input::FileOffset(&calls)) else { return Vec::new() };
    offsets
        .iter()
        .zip(found)
        .filter_map(|(&offset, symbol)| match symbol {
            // A symbol that ends before the address is a neighbour of stripped code, not its name.
            Symbolized::Sym(symbol) if symbol.size.is_none_or(|size| size == 0 || symbol.offset < size) => {
                Some((offset, symbol.name.into_owned()))
            }
            _ => None,
        })
        .collect()
}
