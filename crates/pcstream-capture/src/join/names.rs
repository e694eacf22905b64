//! Names of functions for the contexts of a joiner: asked for here, looked up elsewhere.

use std::ops::Range;

use pcstream_trace::Context;

use super::Joiner;
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

    /// Closes the files of programs that were removed, and of which no process runs any more. Whatever is wanted of them has been
    /// found.
    pub fn close_removed_programs(&mut self) {
        self.programs.ended.retain(|&program| !self.modules.close_removed(program));
    }

    /// Contexts from this index on whose functions could have names.
    pub fn nameable_from(&self, from: usize) -> u64 {
        self.modules_of[from..].iter().filter(|modules| !modules.is_empty()).count() as u64
    }
}
