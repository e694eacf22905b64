//! What `contexts` shows: a table, one context whole, groups, CSV, or call paths for other tools.

use std::path::Path;

use anyhow::anyhow;
use pcstream_report::call_paths::call_paths;
use pcstream_report::grouped::{self, Group};
use pcstream_report::symbols::Names;
use pcstream_report::{ContextRow, Layout, Simulation, csv, folded, one_context};
use pcstream_trace::Context;

use crate::args::{SortBy, ViewArgs};
use crate::failure::Failure;
use crate::ui::{self, Ui};
use crate::whole_file::WholeFile;

/// Call paths for other tools. Opened before the work begins.
pub struct Files {
    names: Names,
    pprof: Option<WholeFile>,
    folded: Option<Folded>,
}

enum Folded {
    Stdout,
    File(WholeFile),
}

impl Files {
    /// What the flags ask for.
    pub fn open(args: &ViewArgs) -> Result<Files, Failure> {
        let folded = match args.folded.as_deref() {
            None => None,
            Some(path) if path == Path::new("-") => Some(Folded::Stdout),
            Some(path) => Some(Folded::File(WholeFile::create("--folded", path)?)),
        };
        let pprof = args.pprof.as_deref().map(|path| WholeFile::create("--pprof", path)).transpose()?;
        Ok(Files { names: names(args), pprof, folded })
    }

    /// Whether they take the place of the table.
    pub fn to_stdout(&self) -> bool {
        matches!(self.folded, Some(Folded::Stdout))
    }

    /// Writes them.
    pub fn write(self, rows: &[ContextRow]) -> Result<(), Failure> {
        if let Some(file) = self.pprof {
            file.write(&folded::pprof(rows))?;
        }
        let text = |names| folded::folded(rows, names).join("\n") + "\n";
        match self.folded {
            None => Ok(()),
            Some(Folded::Stdout) => ui::print(&text(self.names)),
            Some(Folded::File(file)) => Ok(file.write(text(self.names).as_bytes())?),
        }
    }
}

fn names(args: &ViewArgs) -> Names {
    if args.full_names { Names::Full } else { Names::Short }
}

/// Prints what the flags ask for.
pub fn show(
    simulation: &Simulation,
    mut rows: Vec<ContextRow>,
    args: &ViewArgs,
    top: usize,
    ui: Ui,
) -> Result<(), Failure> {
    let names = names(args);
    let layout = match names {
        Names::Short => ui.layout(false),
        Names::Full => Layout { names, ..Layout::PLAIN },
    };
    if let Some(wanted) = &args.context {
        return one(&rows, wanted);
    }
    let text = if let Some(by) = args.by {
        let mut groups = grouped::groups(&rows, simulation.writers, simulation.tables, by.group(), names);
        sort_groups(&mut groups, args.sort);
        if args.csv { groups_csv(&groups) } else { grouped::text(&groups, by.group(), top, layout) }
    } else {
        sort_rows(&mut rows, args.sort);
        if args.csv {
            rows_csv(&rows, names)
        } else {
            let mut text = pcstream_report::contexts::text(simulation, &rows, top, layout);
            if args.lines {
                text += &pcstream_report::contexts::source_lines(&rows, top, layout);
            }
            text
        }
    };
    ui::print(&text)
}

fn one(rows: &[ContextRow], wanted: &str) -> Result<(), Failure> {
    let found = one_context::find(rows, wanted);
    match found[..] {
        [row] => ui::print(&one_context::text(row)),
        [] => Err(Failure::wrong_arguments(anyhow!(
            "--context {wanted}: no context that wrote has this number or signature; `pcstream contexts` lists them"
        ))),
        _ => Err(Failure::wrong_arguments(anyhow!(
            "--context {wanted}: {} contexts begin with it; give more of the signature",
            found.len()
        ))),
    }
}

fn sort_rows(rows: &mut [ContextRow], by: SortBy) {
    let life = |row: &ContextRow| row.writer.lifetimes.quartiles().map_or(u64::MAX, |q| q.p50);
    match by {
        // They come so.
        SortBy::Pages => {}
        SortBy::Life => rows.sort_by_key(life),
        SortBy::Alive => rows.sort_by_key(|row| std::cmp::Reverse(row.writer.alive_pages())),
        SortBy::Name => rows.sort_by_key(|row| row.context.map(|c| (c.executable.clone(), c.comm.clone()))),
    }
}

fn sort_groups(groups: &mut [Group], by: SortBy) {
    match by {
        SortBy::Pages => {}
        SortBy::Life => groups.sort_by_key(|group| group.lifetime_pages.map_or(u64::MAX, |life| life.p50)),
        SortBy::Alive => groups.sort_by_key(|group| std::cmp::Reverse(group.alive_pages)),
        SortBy::Name => groups.sort_by(|a, b| a.name.cmp(&b.name)),
    }
}

fn groups_csv(groups: &[Group]) -> String {
    let head = ["name", "pages", "share", "contexts", "life_p25", "life_p50", "life_p75", "alive_pages"];
    let rows = groups.iter().map(|group| {
        let life = group.lifetime_pages;
        [
            group.name.clone(),
            group.pages.to_string(),
            group.share.to_string(),
            group.contexts.to_string(),
            csv::option(life.map(|l| l.p25)),
            csv::option(life.map(|l| l.p50)),
            csv::option(life.map(|l| l.p75)),
            csv::option(group.alive_pages),
        ]
    });
    csv::table(&head, rows)
}

fn rows_csv(rows: &[ContextRow], names: Names) -> String {
    let head = [
        "id",
        "signature",
        "program",
        "thread",
        "entry",
        "unwind",
        "pages",
        "share",
        "life_p25",
        "life_p50",
        "life_p75",
        "alive_pages",
        "stream",
        "file",
        "path",
    ];
    let known: Vec<&Context> = rows.iter().filter_map(|row| row.context).collect();
    let mut paths = call_paths(&known, names).into_iter();
    let rows = rows.iter().map(|row| {
        let life = row.writer.lifetimes.quartiles();
        let text = |of: fn(&Context) -> String| row.context.map_or_else(String::new, of);
        [
            row.context.map_or(0, |c| c.id.0).to_string(),
            text(|c| c.signature.to_string()),
            text(|c| c.executable.clone()),
            text(|c| c.comm.clone()),
            text(|c| c.entry.clone()),
            text(|c| c.unwind.name().to_owned()),
            row.writer.pages().to_string(),
            row.share.to_string(),
            csv::option(life.map(|l| l.p25)),
            csv::option(life.map(|l| l.p50)),
            csv::option(life.map(|l| l.p75)),
            row.writer.alive_pages().to_string(),
            csv::option(row.stream.map(|s| s.0)),
            row.files.first().map_or_else(String::new, |(path, _)| path.clone()),
            row.context.and_then(|_| paths.next()).unwrap_or_default(),
        ]
    });
    csv::table(&head, rows)
}
