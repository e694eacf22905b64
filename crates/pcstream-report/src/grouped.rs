//! Contexts grouped by what they have in common: function, file, program, thread, directory or kind.
//!
//! Units: pages of 4 KiB; lifetimes in pages written by the host. A page counts once in each group that it belongs
//! to. Only functions overlap: a page counts for every function of its call path, so their shares add up to more
//! than 1.
//!
//! Weaknesses: lifetimes are known by context, so groups that divide a context (file, directory, kind) have none. A
//! context has one thread name and one program, those of its first write: what other threads write on the same call
//! path counts there.

use std::collections::{BTreeMap, HashMap, HashSet};

use pcstream_replay::{Lifetimes, Quartiles};
use pcstream_trace::{Context, Kind};
use serde::Serialize;

use crate::ContextRow;
use crate::escape::visible;
use crate::functions::Functions;
use crate::human::{count, page_bytes, percent};
use crate::layout::{Layout, clipped};
use crate::symbols::Names;
use crate::table::Side::{Left, Right};
use crate::table::table;

/// Longest name of a group in a table, in characters, unless names are wanted in full.
const NAME_WIDTH: usize = 70;

/// What contexts are grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupBy {
    /// Functions of the call path, each with all that it and its callees wrote.
    Function,
    /// Files written.
    File,
    /// Executables.
    Program,
    /// Threads, by program and name.
    Thread,
    /// Directories of the files written.
    Directory,
    /// What the pages are to the file system.
    Kind,
}

pcstream_trace::named!(GroupBy:
    Function = "function", File = "file", Program = "program", Thread = "thread",
    Directory = "directory", Kind = "kind"
);

/// What one group wrote.
#[derive(Clone, Debug, Serialize)]
pub struct Group {
    /// What its members have in common.
    pub name: String,
    /// Pages written.
    pub pages: u64,
    /// Share of all pages written.
    pub share: f64,
    /// Contexts in it.
    pub contexts: u64,
    /// Lifetimes that ended; null where they are not known by group, or none ended.
    pub lifetime_pages: Option<Quartiles>,
    /// Pages neither overwritten nor discarded at the end; null where they are not known by group.
    pub alive_pages: Option<u64>,
}

#[derive(Default)]
struct Sums {
    pages: u64,
    contexts: HashSet<u32>,
    lifetimes: Option<Lifetimes>,
    alive: Option<u64>,
    /// Whether a part of a context is in it, of which lifetimes are not known.
    divided: bool,
}

impl Sums {
    fn add(&mut self, context: u32, pages: u64) {
        self.pages += pages;
        self.contexts.insert(context);
    }

    fn add_row(&mut self, row: &ContextRow) {
        self.add(id(row), row.writer.pages());
        match row.alive_pages() {
            Some(pages) => *self.alive.get_or_insert(0) += pages,
            None => self.divided = true,
        }
        match &mut self.lifetimes {
            Some(lifetimes) => lifetimes.add(&row.writer.lifetimes),
            None => self.lifetimes = Some(row.writer.lifetimes.clone()),
        }
    }
}

/// The groups of `rows`, which have all their files, heaviest first, equals by name. `host_pages` is what was written
/// in all, `style` that of functions.
pub fn groups(rows: &[ContextRow], host_pages: u64, by: GroupBy, style: Names) -> Vec<Group> {
    let mut sums: BTreeMap<String, Sums> = BTreeMap::new();
    match by {
        GroupBy::File | GroupBy::Directory => by_file(rows, by, &mut sums),
        GroupBy::Kind => by_kind(rows, &mut sums),
        GroupBy::Function | GroupBy::Program | GroupBy::Thread => {
            let functions = Functions::of(rows.iter().filter_map(|row| row.context), style);
            for row in rows {
                for name in names(row, by, &functions) {
                    sums.entry(name).or_default().add_row(row);
                }
            }
        }
    }
    let total = host_pages.max(1) as f64;
    let group = |(name, sums): (String, Sums)| Group {
        name,
        pages: sums.pages,
        share: sums.pages as f64 / total,
        contexts: sums.contexts.len() as u64,
        lifetime_pages: sums.lifetimes.as_ref().filter(|_| !sums.divided).and_then(Lifetimes::quartiles),
        alive_pages: sums.alive.filter(|_| !sums.divided),
    };
    let mut groups: Vec<Group> = sums.into_iter().map(group).collect();
    groups.sort_by(|a, b| b.pages.cmp(&a.pages).then_with(|| a.name.cmp(&b.name)));
    groups
}

fn id(row: &ContextRow) -> u32 {
    row.context.map_or(0, |context| context.id.0)
}

fn names(row: &ContextRow, by: GroupBy, functions: &Functions) -> Vec<String> {
    let context = match row.who() {
        Ok(context) => context,
        Err(name) => return vec![name.to_owned()],
    };
    match by {
        GroupBy::Function => own_functions(context, functions),
        GroupBy::Thread => vec![thread(context)],
        _ => vec![context.executable.clone()],
    }
}

/// A thread's name behind its program's.
fn thread(context: &Context) -> String {
    let program = context.program();
    if context.comm.is_empty() { program.to_owned() } else { format!("{program}: {}", context.comm) }
}

/// Every function of a path that is the program's own, once.
fn own_functions(context: &Context, functions: &Functions) -> Vec<String> {
    let mut seen = HashSet::new();
    let mut own = functions.own(context);
    own.retain(|name| seen.insert(name.clone()));
    if own.is_empty() { vec![format!("({})", context.program())] } else { own }
}

fn by_file(rows: &[ContextRow], by: GroupBy, sums: &mut BTreeMap<String, Sums>) {
    for row in rows {
        let mut left = row.writer.pages();
        for (path, pages) in &row.files {
            left -= pages;
            let name = match (path.as_str(), by) {
                ("", _) => "(file without a name)",
                (path, GroupBy::Directory) => match path.rsplit_once('/') {
                    Some((directory, _)) if !directory.is_empty() => directory,
                    _ => "/",
                },
                (path, _) => path,
            };
            sums.entry(name.to_owned()).or_default().add(id(row), *pages);
        }
        if left > 0 {
            sums.entry("(no file)".to_owned()).or_default().add(id(row), left);
        }
    }
}

fn by_kind(rows: &[ContextRow], sums: &mut BTreeMap<String, Sums>) {
    for row in rows {
        for (kind, &pages) in Kind::ALL.iter().zip(&row.writer.pages_by_kind).filter(|(_, pages)| **pages > 0)
        {
            sums.entry(kind.name().to_owned()).or_default().add(id(row), pages);
        }
    }
}

/// The first `limit` groups as a table.
pub fn text(groups: &[Group], by: GroupBy, limit: usize, layout: Layout) -> String {
    let shown = &groups[..groups.len().min(limit)];
    let rows: Vec<(&Group, String)> = shown.iter().zip(shown_names(shown, layout.names)).collect();
    let alive =
        |group: &Group| group.alive_pages.map(|alive| percent(alive as f64 / group.pages.max(1) as f64));
    let lines = table(
        &rows,
        &[
            (Right, "written", &|(group, _)| page_bytes(group.pages)),
            (Right, "share", &|(group, _)| percent(group.share)),
            (Right, "contexts", &|(group, _)| count(group.contexts)),
            (Right, "life p50", &|(group, _)| {
                group.lifetime_pages.map_or("-".to_owned(), |life| page_bytes(life.p50))
            }),
            (Right, "alive", &|(group, _)| alive(group).unwrap_or("-".to_owned())),
            (Left, name_of(by), &|(_, name)| name.clone()),
        ],
    );
    let mut out: String = lines.iter().map(|line| layout.cut(line) + "\n").collect();
    if groups.len() > limit {
        let rest: u64 = groups[limit..].iter().map(|group| group.pages).sum();
        let overlap = if by == GroupBy::Function { ", callers and callees both counted" } else { "" };
        let more = format!(
            "{} more wrote {}{overlap} (contexts --top shows them)",
            groups.len() - limit,
            page_bytes(rest)
        );
        out += &(layout.wrap(&more, 0).join("\n") + "\n");
    }
    if matches!(by, GroupBy::Program | GroupBy::Thread) {
        let note = "A context counts for the program and thread of its first write, also what others write on the same \
                    call path.";
        layout.wrap(note, 0).iter().for_each(|line| out += &format!("{line}\n"));
    }
    out
}

/// Long names are cut off, unless they would be the same then.
fn shown_names(groups: &[Group], names: Names) -> Vec<String> {
    let whole: Vec<String> = groups.iter().map(|group| visible(&group.name).into_owned()).collect();
    let cut: Vec<String> = whole.iter().map(|name| clipped(name, NAME_WIDTH)).collect();
    let mut times: HashMap<&str, usize> = HashMap::new();
    cut.iter().for_each(|name| *times.entry(name).or_default() += 1);
    let shown = |(whole, cut): (&String, &String)| {
        if names == Names::Full || times[cut.as_str()] > 1 { whole.clone() } else { cut.clone() }
    };
    whole.iter().zip(&cut).map(shown).collect()
}

fn name_of(by: GroupBy) -> &'static str {
    match by {
        GroupBy::Function => "function (with all that it calls)",
        by => by.name(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lines_fit_the_terminal() {
        let group = |name: &str| Group {
            name: name.to_owned(),
            pages: 1 << 20,
            share: 0.5,
            contexts: 1,
            lifetime_pages: None,
            alive_pages: None,
        };
        let groups = [group("Compaction"), group("Flush")];
        let layout = Layout { width: Some(80), ..Layout::PLAIN };
        let table = text(&groups, GroupBy::Function, 1, layout);
        assert!(table.contains("1 more wrote 4.00 GiB, callers and callees both counted"), "{table}");
        assert!(table.lines().all(|line| line.len() <= 80), "{table}");
    }
}
