//! Which contexts of several runs are the same, and how they are named.
//!
//! Idea: contexts are the same if their programs and the functions of their call paths have the same names. Threads
//! do not count: a context has the name of the thread that happened to write first. A function without a name is an
//! offset in its module, which says something in the same build alone. Where each of two runs has a program that the
//! other lacks, and most of their call paths agree, the programs count as one: builds have file names like `app` and
//! `app-v2`.
//!
//! Weakness: functions that a build inlined or renamed make other call paths, and a stripped program has none to compare.
//! Where modules have no build ids, offsets are compared as if they were of one build; a remark names such programs.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use pcstream_trace::{Context, Frame, Unwind};

use crate::call_paths::distinguishing_frames;
use crate::contexts::called;
use crate::functions::Functions;
use crate::symbols::{Names, own_frames};
use crate::{ContextRow, folded};

/// Digits of a build id that tell builds apart.
const BUILD_DIGITS: usize = 8;
/// Digits in a row that make a number of a name a random one, as of a library that is unpacked into a temporary file.
const RANDOM: usize = 10;

/// By which contexts of several traces are matched.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    program: String,
    /// Whole names of functions from the outermost on, and the entry into the kernel.
    path: Vec<String>,
}

/// One context in one run.
#[derive(Clone, Debug)]
pub struct Written {
    /// The first context with this name; none for writes without a context.
    pub context: Option<Context>,
    /// Pages by repetition.
    pub pages: Vec<f64>,
}

/// What a run wrote.
pub type Contexts = BTreeMap<Name, Written>;

impl Name {
    /// Of a context; `functions` has whole names.
    pub fn of(row: &ContextRow, functions: &Functions) -> Name {
        let mut path = folded::stack(row.who(), functions);
        let program = path.remove(0);
        if row.context.and_then(folded::thread).is_some() {
            path.remove(0);
        }
        path.iter_mut().for_each(|frame| *frame = without_random(frame));
        let frames = row.context.iter().flat_map(|context| context.frames.iter().rev());
        for (name, frame) in path.iter_mut().zip(frames).filter(|(_, frame)| frame.symbol.is_empty()) {
            let build: String = frame.build_id.chars().take(BUILD_DIGITS).collect();
            name.extend([if build.is_empty() { "" } else { "@" }, &build]);
        }
        Name { program, path }
    }

    /// As folded stacks have it, without the thread.
    pub fn joined(&self) -> String {
        let parts = [&self.program].into_iter().chain(&self.path);
        parts.map(String::as_str).collect::<Vec<_>>().join(";")
    }
}

/// A frame's name with `*` in the place of random numbers: without symbols it is a library's file name and an offset.
fn without_random(name: &str) -> String {
    let runs = name.as_bytes().chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit());
    let named = runs.map(|run| match std::str::from_utf8(run) {
        Ok(run) if run.len() < RANDOM || !run.as_bytes()[0].is_ascii_digit() => run,
        _ => "*",
    });
    named.collect()
}

/// Lines that tell all these contexts apart: program, and frames of the call path. Frames of libraries are among them only
/// where the program's own do not tell, and only those that not all of these paths have.
pub fn lines(contexts: &BTreeMap<&Name, Option<&Context>>) -> Vec<String> {
    let functions = Functions::of(contexts.values().copied().flatten(), Names::Short);
    let path = |context: &Option<&Context>| context.map_or(Vec::new(), |context| functions.path(context));
    let all: Vec<Vec<(String, bool)>> = contexts.values().map(path).collect();
    let shown = |at: usize, shared: &dyn Fn(&String) -> bool| {
        let shown = all[at].iter().filter(|(name, own)| *own || !shared(name));
        repeated(shown.map(|(name, _)| name.clone()).collect())
    };
    let mut paths: Vec<Vec<String>> = (0..all.len()).map(|at| shown(at, &|_| true)).collect();
    let line = |((name, context), path): ((&&Name, &Option<&Context>), String)| {
        format!("{}  {}", name.program, context.map_or(String::new(), |context| called(context, &path)))
    };
    let lines = |paths: &[Vec<String>]| -> Vec<String> {
        contexts.iter().zip(distinguishing_frames(paths)).map(line).collect()
    };
    let mut alike: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let short = lines(&paths);
    short.iter().enumerate().for_each(|(at, line)| alike.entry(line.clone()).or_default().push(at));
    for group in alike.values().filter(|group| group.len() > 1) {
        let mut paths_with: HashMap<&str, usize> = HashMap::new();
        for &at in group {
            let names: BTreeSet<&str> = all[at].iter().map(|(name, _)| name.as_str()).collect();
            names.into_iter().for_each(|name| *paths_with.entry(name).or_default() += 1);
        }
        let shared = |name: &String| paths_with.get(name.as_str()) == Some(&group.len());
        group.iter().for_each(|&at| paths[at] = shown(at, &shared));
    }
    let longer = lines(&paths);
    let better = short.into_iter().zip(longer);
    better.map(|(short, longer)| if alike[&short].len() > 1 { longer } else { short }).collect()
}

/// A function that calls itself is named once, with the number of its frames.
fn repeated(names: Vec<String>) -> Vec<String> {
    let runs = names.chunk_by(|one, next| one == next);
    runs.map(|run| if run.len() > 1 { format!("{}*{}", run[0], run.len()) } else { run[0].clone() }).collect()
}

/// A program in one run.
#[derive(Default)]
struct Program<'a> {
    /// Its call paths.
    paths: BTreeSet<&'a [String]>,
    /// Those with functions of its own besides `main`: others may be in any program.
    own_paths: BTreeSet<&'a [String]>,
    pages: f64,
    /// Build ids of its modules; empty where there is none.
    builds: BTreeSet<&'a str>,
    /// Of those that have functions without names.
    nameless: BTreeSet<&'a str>,
}

fn programs(contexts: &Contexts) -> BTreeMap<&str, Program<'_>> {
    let mut programs: BTreeMap<&str, Program> = BTreeMap::new();
    for (name, written) in contexts {
        let Some(context) = written.context.as_ref().filter(|context| context.unwind != Unwind::Label) else {
            continue;
        };
        let program = programs.entry(&name.program).or_default();
        program.paths.insert(&name.path);
        program.pages += written.pages.iter().sum::<f64>();
        let own = context.frames.iter().filter(|frame| frame.module == context.executable);
        let tells = |frame: &Frame| !["", "main", "_start"].contains(&frame.symbol.as_str());
        if context.unwind == Unwind::Runtime || own.clone().any(tells) {
            program.own_paths.insert(&name.path);
        }
        program.builds.extend(context.frames.iter().map(|frame| frame.build_id.as_str()));
        let owned = context.frames.iter().zip(own_frames(context)).filter(|(_, own)| *own);
        let nameless = owned.filter(|(frame, _)| frame.symbol.is_empty() && frame.module.contains('/'));
        program.nameless.extend(nameless.map(|(frame, _)| frame.build_id.as_str()));
    }
    programs
}

/// Gives programs that only `other` has the names of those that only `first` has, where most call paths agree. Returns
/// the pairs: name in `first`, name in `other`.
pub fn rename(first: &Contexts, other: &mut Contexts) -> Vec<(String, String)> {
    let (mine, theirs) = (programs(first), programs(other));
    let mut free: BTreeMap<&str, &Program> = BTreeMap::new();
    let mut with_path: BTreeMap<&[String], Vec<&str>> = BTreeMap::new();
    for (&old, program) in mine.iter().filter(|(name, _)| !theirs.contains_key(*name)) {
        free.insert(old, program);
        program.own_paths.iter().for_each(|path| with_path.entry(path).or_default().push(old));
    }
    let mut renamed: BTreeMap<String, String> = BTreeMap::new();
    for (new, of_new) in theirs.iter().filter(|(name, _)| !mine.contains_key(*name)) {
        let mut agree: BTreeMap<&str, usize> = BTreeMap::new();
        let shared = of_new.own_paths.iter().filter_map(|path| with_path.get(path));
        shared.flatten().for_each(|&old| *agree.entry(old).or_default() += 1);
        let most = |of_old: &&Program, agree| 2 * agree > of_old.own_paths.len().min(of_new.own_paths.len());
        let alike =
            agree.into_iter().filter(|(old, agree)| free.get(old).is_some_and(|old| most(old, *agree)));
        // Of equals the first by name.
        if let Some((old, _)) = alike.rev().max_by_key(|(_, agree)| *agree) {
            free.remove(old);
            renamed.insert((*new).to_owned(), old.to_owned());
        }
    }
    for (mut name, written) in std::mem::take(other) {
        if let Some(old) = renamed.get(&name.program) {
            name.program.clone_from(old);
        }
        other.insert(name, written);
    }
    renamed.into_iter().map(|(new, old)| (old, new)).collect()
}

/// A program that has not all of its counterpart in another run.
pub struct Doubtful {
    /// Its name, and which run it is of.
    name: String,
    /// None of its call paths is in the other run.
    alone: bool,
    /// It has functions without names, and no module of that build is in the other run.
    nameless: bool,
}

/// Such programs of `contexts`, which is run `letter`, against `other`. Those that wrote less than 1 % are left out.
pub fn doubtful(contexts: &Contexts, other: &Contexts, letter: &str) -> Vec<Doubtful> {
    let others = programs(other);
    let total: f64 = contexts.values().flat_map(|written| &written.pages).sum();
    let heavy = programs(contexts).into_iter().filter(|(_, program)| program.pages >= total / 100.0);
    let judged = |(name, program): (&str, Program)| {
        let known = others.get(name);
        let has_build = |id: &str| !id.is_empty() && known.is_some_and(|of| of.builds.contains(id));
        Doubtful {
            name: format!("{name} of {letter}"),
            alone: known.is_none_or(|of| of.paths.is_disjoint(&program.paths)),
            nameless: program.nameless.iter().any(|id| !has_build(id)),
        }
    };
    heavy.map(judged).filter(|program| program.alone || program.nameless).collect()
}

/// What that means, and what to do.
pub fn in_words(doubtful: &[Doubtful]) -> Vec<String> {
    let names = |is_one: fn(&Doubtful) -> bool| -> Option<String> {
        let named: Vec<&str> =
            doubtful.iter().filter(|of| is_one(of)).map(|program| program.name.as_str()).collect();
        (!named.is_empty()).then(|| named.join(", "))
    };
    let alone = names(|program| program.alone)
        .map(|names| format!("No call path of these programs is in the other run: {names}."));
    let nameless = names(|program| program.nameless).map(|names| {
        format!(
            "Contexts are matched by names of functions, some of which are missing in {names}: record builds that are not stripped."
        )
    });
    alone.into_iter().chain(nameless).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each of these programs wrote, by functions of its own on its call paths.
    fn contexts(programs: &[(&str, &[&str])]) -> Contexts {
        let frame = |name: &str, module: &str| Frame {
            module: module.to_owned(),
            symbol: name.to_owned(),
            ..Frame::default()
        };
        let written = |program: &str, path: &str| {
            let context = Context {
                executable: program.to_owned(),
                frames: vec![frame(path, program)],
                ..Context::default()
            };
            let name = Name { program: program.to_owned(), path: vec![path.to_owned()] };
            (name, Written { context: Some(context), pages: vec![1.0] })
        };
        let all =
            programs.iter().flat_map(|(program, paths)| paths.iter().map(|path| written(program, path)));
        all.collect()
    }

    #[test]
    fn a_program_counts_as_the_free_one_with_which_most_paths_agree() {
        let first = contexts(&[("a", &["f"]), ("b", &["f"]), ("c", &["f", "g"]), ("x", &["p", "q", "r"])]);
        let mut other = contexts(&[("l", &["f", "g"]), ("m", &["f"]), ("n", &["f"]), ("o", &["f"])]);
        other.extend(contexts(&[("y", &["p", "s", "t"])]));
        let pairs = rename(&first, &mut other);
        let named = |(old, new): &(String, String)| format!("{new} is {old}");
        let pairs: Vec<String> = pairs.iter().map(named).collect();
        assert_eq!(
            pairs,
            ["l is c", "m is a", "n is b"],
            "none is left for o, and too few paths agree for y"
        );
        let programs: BTreeSet<&str> = other.keys().map(|name| name.program.as_str()).collect();
        assert_eq!(programs, BTreeSet::from(["a", "b", "c", "o", "y"]));
    }

    #[test]
    fn random_numbers_in_file_names_do_not_count() {
        assert_eq!(
            without_random("librocksdbjni7346677411429277500.so+0x48c6bb"),
            "librocksdbjni*.so+0x48c6bb"
        );
        for name in ["libc-2.36.so+0x123456", "Größe::écrire", "step_20261127", ""] {
            assert_eq!(without_random(name), name);
        }
    }
}
