//! Names of functions for the contexts of a joiner: asked for here, looked up elsewhere.

use std::cell::LazyCell;
use std::fs::File;
use std::ops::Range;

use pcstream_trace::Context;

use super::Joiner;
use crate::modules::file_handles::Facts;
use crate::symbols::{Names, Wanted};

impl Joiner {
    /// The names that contexts from this index on lack. The files that they are wanted of stay open as long as what is
    /// returned.
    pub fn wanted_names(&self, from: usize) -> Wanted {
        Wanted::by(&self.contexts[from..], &self.modules_of[from..], &self.modules)
    }

    /// Takes note of modules whose files hold something else by now.
    pub fn modules_changed(&mut self, keys: &[u64]) {
        self.modules.mark_changed(keys);
    }

    /// Closes the modules' files: nothing more is wanted of them.
    pub fn close_modules(&mut self) {
        self.modules.close();
    }

    /// Gives contexts the names of their functions. Returns how many found no room.
    pub fn give_names(&mut self, names: &Names) -> u64 {
        names.give_to(&mut self.contexts, &self.modules_of)
    }

    /// Gives some of the contexts the names of their functions. Returns these, and how many names found no room.
    pub fn name(&mut self, range: Range<usize>, names: &Names) -> (Vec<Context>, u64) {
        let contexts = &mut self.contexts[range.clone()];
        let without = names.give_to(contexts, &self.modules_of[range]);
        (contexts.to_vec(), without)
    }

    /// Lets go of programs that were removed, and that no process runs any more. Whatever is wanted of them has been found. A process
    /// that wrote nothing may still start others of its program: a server whose file an upgrade replaced.
    pub fn close_removed_programs(&mut self) {
        let running = LazyCell::new(Facts::of_programs);
        let is_it = |file: Facts| running.iter().any(|program| program.is_same_file(&file));
        let runs = |file: &File| Facts::of(file).is_none_or(is_it);
        for program in self.programs.ended.extract_if(|&program| self.modules.close_removed(program, runs)) {
            self.unwinder.forget(program);
        }
    }

    /// Contexts from this index on whose functions could have names.
    pub fn nameable_from(&self, from: usize) -> u64 {
        self.modules_of[from..].iter().filter(|modules| !modules.is_empty()).count() as u64
    }
}
