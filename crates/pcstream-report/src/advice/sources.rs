//! Who wrote what, by what a person can name: program, thread, and the pattern of the file's name. A name of numbers alone
//! says nothing, so the directories above it are part of the pattern.
//!
//! Files that are few of their kind and each written much keep their whole names, such as `index.dat` and `rows.dat`: they
//! are likely to be written in different ways.
//!
//! Temporary files often have random names, so that each kind of name writes little. Those that begin alike count together
//! (`sort*`), and what is left of a program counts together, too (`*`). What is still less than 0.2 % of the writes is no
//! source; [`Sources::unassigned`] says how much that is.
//!
//! A call path that writes several kinds of files counts for each with the pages of those files alone. Which kinds are heavy
//! is known when a trace has been replayed once ([`Sources::of`]). How long their data lives takes another pass, in which
//! [`Sources::class_of`] says whose a write is.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::collections::btree_map::{BTreeMap, Entry};

use pcstream_replay::lifetimes::Precision;
use pcstream_replay::{Class, Lifetimes};
use pcstream_trace::{Context, ContextId, Event, FileId, Life};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::patterns::{beginning, both, pattern, whole_names};
use crate::call_paths::call_paths;
use crate::symbols::{Names, own_frames};
use crate::{ContextRow, Simulation};

/// Smallest share of the writes for a source of its own.
const SMALLEST_SHARE: f64 = 0.002;
/// Share of a source's pages with which a hint is its own.
const HINTED_SHARE: f64 = 0.9;

/// A writer that a rule can name.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Source {
    /// Path of the executable, or the label of a generated class.
    pub executable: String,
    /// Thread name; empty if it is not known, or if there are several.
    pub thread: String,
    /// Pattern of the names of its files, or of the ends of their paths if it has a slash; empty if they have none.
    pub file: String,
    /// Call path of its heaviest context, shortened.
    pub function: String,
    /// Contexts that write it.
    pub contexts: usize,
    /// Module that the innermost function of its own lies in: whose code it is.
    pub module: String,
    /// Source line of that function, `file:line`, if it is known.
    pub line: Option<String>,
    /// Pages written.
    pub pages: u64,
    /// Median lifetime in pages; the whole trace where less than half has died.
    pub lifetime: u64,
    /// The lifetime that the program asks for already (`F_SET_RW_HINT`), as traces name it; null if it asks for none.
    pub hint: Option<&'static str>,
}

/// What a rule can name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a> {
    executable: &'a str,
    thread: &'a str,
    file: String,
}

/// The writes of a key.
#[derive(Default)]
struct Found {
    pages: u64,
    by_context: BTreeMap<ContextId, u64>,
    writes: Vec<(ContextId, FileId)>,
}

/// The heavy writers of a trace, heaviest first, and which writes are theirs.
pub struct Sources {
    sources: Vec<Source>,
    /// Number of the source, from 1.
    class_of: FxHashMap<(ContextId, FileId), usize>,
    host_pages: u64,
    unassigned: u64,
}

impl Sources {
    /// Those of a replayed trace. `rows` are all of its contexts.
    pub fn of(simulation: &Simulation, rows: &[ContextRow]) -> Sources {
        let host_pages = simulation.writers.totals().host_pages;
        let mut found: BTreeMap<Key, Found> = BTreeMap::new();
        let least = ((host_pages as f64 * SMALLEST_SHARE) as u64).max(1);
        let written = written(simulation, rows);
        let path = |file: FileId| simulation.tables.file(file).map_or("", |file| &file.path);
        let files = written.iter().map(|(context, file, pages)| (*context, path(*file), *pages));
        let whole = whole(files, least);
        for (context, file, pages) in written {
            let (executable, thread) = (context.executable.as_str(), context.comm.as_str());
            let name = whole.get(&(executable, path(file))).cloned();
            let key = Key { executable, thread, file: name.unwrap_or_else(|| pattern(path(file))) };
            let found = found.entry(key).or_default();
            found.pages += pages;
            *found.by_context.entry(context.id).or_default() += pages;
            found.writes.push((context.id, file));
        }
        let of_programs: u64 = found.values().map(|found| found.pages).sum();
        let mut found: Vec<(Key, Found)> = gathered(found, least).into_iter().collect();
        let unassigned = of_programs - found.iter().map(|(_, found)| found.pages).sum::<u64>();
        found.sort_by_key(|(_, found)| Reverse(found.pages));
        let functions = functions(rows);
        let (mut sources, mut class_of) = (Vec::new(), FxHashMap::default());
        for (key, found) in found {
            let heaviest = found.by_context.iter().max_by_key(|(id, pages)| (**pages, Reverse(**id)));
            let function = heaviest.and_then(|(id, _)| functions.get(id)).cloned().unwrap_or_default();
            sources.push(Source {
                executable: key.executable.to_owned(),
                thread: key.thread.to_owned(),
                file: key.file,
                contexts: found.by_context.len(),
                pages: found.pages,
                ..function
            });
            class_of.extend(found.writes.into_iter().map(|write| (write, sources.len())));
        }
        Sources { sources, class_of, host_pages, unassigned }
    }

    /// Pages of programs that no source wrote: too little of each kind of file.
    pub fn unassigned(&self) -> u64 {
        self.unassigned
    }

    /// Number of classes of writes: one for each source, and one for all other writes.
    pub fn classes(&self) -> usize {
        self.sources.len() + 1
    }

    /// The class of a write: 0 stands for all that no source wrote.
    pub fn class_of(&self, event: &Event) -> usize {
        self.class_of.get(&(event.context, event.file)).copied().unwrap_or(0)
    }

    /// The sources, with what another pass found out of each class; and those of which nothing can be said, because most of
    /// their pages live, and their mean age at the end is below the median lifetime of all pages.
    pub fn finish(self, classes: &[Class]) -> (Vec<Source>, Vec<Source>) {
        let mut all = Lifetimes::new(Precision::Percent);
        classes[1..].iter().for_each(|class| all.add(&class.lifetimes));
        let pages = classes[1..].iter().map(|class| class.pages).sum();
        let half = all.median_of(pages).unwrap_or(0);
        let (mut known, mut young) = (Vec::new(), Vec::new());
        for (source, class) in self.sources.into_iter().zip(&classes[1..]) {
            let lifetime = class.lifetimes.median_of(class.pages);
            let is_young = class.written_at().is_some_and(|at| self.host_pages.saturating_sub(at) < half);
            let those = if lifetime.is_none() && is_young { &mut young } else { &mut known };
            those.push(Source {
                lifetime: lifetime.unwrap_or(self.host_pages).max(1),
                hint: own_hint(class).map(Life::name),
                ..source
            });
        }
        (known, young)
    }
}

impl Found {
    fn add(&mut self, other: Found) {
        self.pages += other.pages;
        for (context, pages) in other.by_context {
            *self.by_context.entry(context).or_default() += pages;
        }
        self.writes.extend(other.writes);
    }
}

/// Those that write at least so many pages. Of a program's others, files whose names begin alike count as
/// one, and then all that have names.
fn gathered(found: BTreeMap<Key<'_>, Found>, least: u64) -> BTreeMap<Key<'_>, Found> {
    let (mut heavy, light): (BTreeMap<Key, Found>, BTreeMap<Key, Found>) =
        found.into_iter().partition(|(_, found)| found.pages >= least);
    let mut alike: BTreeMap<(&str, String), (String, Found)> = BTreeMap::new();
    for (key, found) in light.into_iter().filter(|(key, _)| !key.file.is_empty()) {
        let begins = beginning(&key.file).map_or(String::new(), ToOwned::to_owned);
        match alike.entry((key.executable, begins)) {
            Entry::Vacant(entry) => drop(entry.insert((key.file, found))),
            Entry::Occupied(mut entry) => {
                let (file, all) = entry.get_mut();
                if *file != key.file {
                    *file = both(file, &key.file);
                }
                all.add(found);
            }
        }
    }
    let mut rest: BTreeMap<&str, Found> = BTreeMap::new();
    for ((executable, begins), (file, found)) in alike {
        if found.pages >= least && !begins.is_empty() {
            heavy.entry(Key { executable, thread: "", file }).or_default().add(found);
        } else {
            rest.entry(executable).or_default().add(found);
        }
    }
    for (executable, found) in rest.into_iter().filter(|(_, found)| found.pages >= least) {
        heavy.entry(Key { executable, thread: "", file: "*".to_owned() }).or_default().add(found);
    }
    heavy
}

/// Whole names, by executable and path, of files that are few of their kind, if each has so many pages at least.
fn whole<'a>(
    written: impl Iterator<Item = (&'a Context, &'a str, u64)>,
    least: u64,
) -> BTreeMap<(&'a str, &'a str), String> {
    let mut kinds: BTreeMap<(&str, String), BTreeMap<&str, u64>> = BTreeMap::new();
    for (context, path, pages) in written {
        let kind = kinds.entry((&context.executable, pattern(path))).or_default();
        *kind.entry(path).or_default() += pages;
    }
    let mut whole = BTreeMap::new();
    for ((executable, _), files) in kinds.iter().filter(|(_, files)| files.values().all(|all| *all >= least))
    {
        let paths: Vec<&str> = files.keys().copied().collect();
        let names = whole_names(&paths).unwrap_or_default();
        whole.extend(paths.into_iter().zip(names).map(|(path, name)| ((*executable, path), name)));
    }
    whole
}

/// Pages by context and file; `FileId::NONE` stands for pages of a context that belong to no file.
fn written<'a>(simulation: &Simulation<'a>, rows: &[ContextRow<'a>]) -> Vec<(&'a Context, FileId, u64)> {
    let mut without: BTreeMap<ContextId, (&Context, u64)> = BTreeMap::new();
    for row in rows {
        without.extend(row.context.map(|context| (context.id, (context, row.writer.pages()))));
    }
    let mut out = Vec::new();
    for (id, file, pages) in simulation.writers.files() {
        if let Some((context, left)) = without.get_mut(&id) {
            *left -= pages;
            out.push((*context, file, pages));
        }
    }
    let left = without.into_values().filter(|(_, pages)| *pages > 0);
    out.extend(left.map(|(context, pages)| (context, FileId::NONE, pages)));
    out
}

/// Of each context, what names its code.
fn functions(rows: &[ContextRow]) -> HashMap<ContextId, Source> {
    let known: Vec<(&ContextRow, &Context)> =
        rows.iter().filter_map(|row| Some((row, row.context?))).collect();
    let contexts: Vec<&Context> = known.iter().map(|(_, context)| *context).collect();
    let named = |((row, context), function): (&(&ContextRow, &Context), String)| {
        let own = own_frames(context).iter().position(|own| *own);
        let source = Source {
            function,
            module: own.map_or(context.executable.clone(), |own| context.frames[own].module.clone()),
            line: own.and_then(|own| row.line(own)).map(ToString::to_string),
            ..Source::default()
        };
        (context.id, source)
    };
    known.iter().zip(call_paths(&contexts, Names::Short)).map(named).collect()
}

/// The hint that next to all pages of a class carry.
fn own_hint(class: &Class) -> Option<Life> {
    let enough = (class.pages as f64 * HINTED_SHARE) as u64;
    let asked = Life::ALL.into_iter().filter(|life| *life > Life::None);
    asked.max_by_key(|life| class.pages_by_life[*life as usize]).filter(|life| {
        let pages = class.pages_by_life[*life as usize];
        pages > 0 && pages >= enough
    })
}
