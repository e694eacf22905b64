//! Names of functions that tell those of several call paths apart.
//!
//! Idea: a function is known by its whole name. Its short name is shown, unless another function has the same one:
//! then both are shown by their whole names. So what has the same name here is the same function.
//!
//! Weakness: functions of different modules with the same whole name (`main`) are taken for one.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use pcstream_trace::{Context, Frame};

use crate::symbols::{Names, frame_name, own_frames};

/// How the functions of some contexts are shown.
pub struct Functions {
    style: Names,
    /// Short names that several functions have.
    ambiguous: HashSet<String>,
}

impl Functions {
    /// Those of `contexts`.
    pub fn of<'a>(contexts: impl IntoIterator<Item = &'a Context>, style: Names) -> Functions {
        let mut first: HashMap<String, String> = HashMap::new();
        let mut ambiguous = HashSet::new();
        let frames = contexts.into_iter().flat_map(|context| &context.frames);
        for frame in frames.filter(|_| style == Names::Short) {
            let whole = whole_name(frame);
            match first.entry(frame_name(frame, Names::Short)) {
                Entry::Vacant(entry) => _ = entry.insert(whole),
                Entry::Occupied(entry) if *entry.get() != whole => _ = ambiguous.insert(entry.key().clone()),
                Entry::Occupied(_) => {}
            }
        }
        Functions { style, ambiguous }
    }

    /// By whole names.
    pub fn whole() -> Functions {
        Functions::of([], Names::Full)
    }

    /// The name of a frame's function.
    pub fn name(&self, frame: &Frame) -> String {
        let short = || Some(frame_name(frame, Names::Short)).filter(|short| !self.ambiguous.contains(short));
        match self.style {
            Names::Full => whole_name(frame),
            Names::Short => short().unwrap_or_else(|| whole_name(frame)),
        }
    }

    /// Names of the functions of a path, innermost first, and whether each is the program's own.
    pub fn path(&self, context: &Context) -> Vec<(String, bool)> {
        context.frames.iter().map(|frame| self.name(frame)).zip(own_frames(context)).collect()
    }

    /// Those that are the program's own.
    pub fn own(&self, context: &Context) -> Vec<String> {
        self.path(context).into_iter().filter(|(_, own)| *own).map(|(name, _)| name).collect()
    }
}

/// A function's name as its language has it. Copies and parts of a function, which compilers make, have the same.
fn whole_name(frame: &Frame) -> String {
    let name = frame_name(frame, Names::Full);
    let name = name.split(" [clone ").next().unwrap_or(&name);
    let (mut end, mut rest, mut number) = (name.len(), name, false);
    while let Some((before, part)) = rest.rsplit_once('.') {
        match part {
            "cold" | "abi0" => end = before.len(),
            "isra" | "constprop" | "part" | "lto_priv" | "llvm" if number => end = before.len(),
            _ if part.is_empty() || part.bytes().any(|byte| !byte.is_ascii_digit()) => break,
            _ => {}
        }
        number = part.starts_with(|first: char| first.is_ascii_digit());
        rest = before;
    }
    name[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(symbol: &str) -> Frame {
        Frame { module: "/bin/db".into(), symbol: symbol.into(), ..Frame::default() }
    }

    fn path(symbols: &[&str]) -> Context {
        Context { frames: symbols.iter().copied().map(frame).collect(), ..Context::default() }
    }

    #[test]
    fn different_functions_have_different_names() {
        let alike = [
            ["db::wal::Writer::put(int)", "db::sst::Writer::put(int)"],
            ["db::Writer::put(int)", "db::Writer::put(char)"],
            ["db::Writer<int>::put()", "db::Writer<char>::put()"],
            ["example.com/log.(*Writer).Flush", "example.com/zip.(*Writer).Flush"],
        ];
        for [one, other] in alike {
            let both = path(&[one, "db::main()", other, one]);
            let functions = Functions::of([&both], Names::Short);
            assert_eq!(functions.own(&both), [one, "db::main", other, one]);
            let alone = path(&[one]);
            assert_ne!(
                Functions::of([&alone], Names::Short).own(&alone),
                [one],
                "it is short where it can be"
            );
        }
    }

    #[test]
    fn copies_and_parts_of_a_function_are_the_function() {
        let cases = [
            ("unixWrite.isra.0", "unixWrite"),
            ("foo.part.0.isra.0", "foo"),
            ("foo.cold", "foo"),
            ("runtime.goexit.abi0", "runtime.goexit"),
            ("foo.lto_priv.3.cold", "foo"),
            ("db::put(int) [clone .isra.0] [clone .cold]", "db::put(int)"),
            ("foo.123", "foo.123"),
            ("main.main.func1.2", "main.main.func1.2"),
            ("store.part", "store.part"),
        ];
        cases.iter().for_each(|(name, whole)| assert_eq!(whole_name(&frame(name)), *whole));
        let both = path(&["foo", "foo.cold"]);
        assert_eq!(Functions::of([&both], Names::Short).own(&both), ["foo", "foo"]);
    }
}
