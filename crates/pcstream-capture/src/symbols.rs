//! Names for the frames of contexts: from debug information, symbol tables or dynamic symbols.
//!
//! A frame holds a return address, so its name is that of the instruction before it; only the head of an
//! interrupted path is the instruction itself. Code without symbols keeps an empty name and is shown as module and
//! offset.

use std::os::fd::AsRawFd;

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use pcstream_trace::{Context, Frame};
use rustc_hash::FxHashMap;

use crate::modules::Module;
use crate::syscalls;

/// Fills in `symbol` of every frame whose module is still at hand. `module_of` finds a module by path.
pub fn resolve<'a>(contexts: &mut [Context], module_of: impl Fn(&str) -> Option<&'a Module>) {
    let mut wanted: FxHashMap<String, Vec<u64>> = FxHashMap::default();
    for (frame, instruction) in contexts.iter().flat_map(instructions) {
        wanted.entry(frame.module.clone()).or_default().push(instruction);
    }
    let mut names: FxHashMap<(String, u64), String> = FxHashMap::default();
    let symbolizer = Symbolizer::new();
    for (path, mut places) in wanted {
        places.sort_unstable();
        places.dedup();
        let Some(module) = module_of(&path) else { continue };
        for (place, name) in names_in(&symbolizer, module, &places) {
            names.insert((path.clone(), place), name);
        }
    }
    for context in contexts {
        let name =
            |(frame, instruction): (&Frame, u64)| names.get(&(frame.module.clone(), instruction)).cloned();
        let symbols: Vec<_> = instructions(context).map(name).collect();
        for (frame, symbol) in context.frames.iter_mut().zip(symbols) {
            // A language runtime told its names itself.
            if let Some(symbol) = symbol {
                frame.symbol = symbol;
            }
        }
    }
}

/// The frames of a context, each with the instruction that it is named after, as an offset in its module.
fn instructions(context: &Context) -> impl Iterator<Item = (&Frame, u64)> {
    let interrupted = syscalls::is_interruption(&context.entry);
    context.frames.iter().enumerate().map(move |(i, frame)| {
        let before = if i == 0 && interrupted { 0 } else { 1 };
        (frame, frame.offset.saturating_sub(before))
    })
}

fn names_in(symbolizer: &Symbolizer, module: &Module, places: &[u64]) -> Vec<(u64, String)> {
    let Some(file) = &module.file else { return Vec::new() };
    // Through the open file: the path may name something else by now.
    let source = Source::Elf(Elf::new(format!("/proc/self/fd/{}", file.as_raw_fd())));
    let Ok(found) = symbolizer.symbolize(&source, Input::FileOffset(places)) else { return Vec::new() };
    places
        .iter()
        .zip(found)
        .filter_map(|(&place, symbol)| match symbol {
            // A symbol that ends before the address is a neighbour of stripped code, not its name.
            Symbolized::Sym(symbol) if symbol.size.is_none_or(|size| size == 0 || symbol.offset < size) => {
                Some((place, symbol.name.into_owned()))
            }
            _ => None,
        })
        .collect()
}
