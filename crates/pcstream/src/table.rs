//! `table`: saved tables of contexts, shown, merged, compared and exported.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use pcstream_placement::parameter::Value as _;
use pcstream_placement::saved_table::SavedTable;
use pcstream_report::human;
use pcstream_report::saved_tables::{self, NamedContexts, TablesJson};
use pcstream_trace::TraceReader;

use crate::args::{TableAction, TableArgs};
use crate::failure::{Failure, Status};
use crate::learned_table;
use crate::simulate;
use crate::ui::{self, JsonSink, Ui};
use crate::whole_file::WholeFile;

/// `pcstream table`.
pub fn table(args: &TableArgs, ui: Ui) -> Result<Status, Failure> {
    match &args.action {
        TableAction::Show { files, top, names, output } => {
            let sink = JsonSink::asked(output)?;
            let (json, status) = read_named(files, names, ui)?;
            ui::show(sink, &json, || saved_tables::tables_text(&json, *top, ui.layout(false)))?;
            Ok(status)
        }
        TableAction::Merge { files, base, output } => merge(files, base.as_deref(), output, ui),
        TableAction::Diff { before, after, factor, top, names, output } => {
            let sink = JsonSink::asked(output)?;
            let tables = read_all([before, after])?;
            of_one_key(&tables, "compare")?;
            let [(before, first), (after, second)] = &tables[..] else { unreachable!("there are two") };
            let differences = SavedTable::diff(first, second);
            let (named, status) = named_contexts(names, &[first, second], ui)?;
            let json = saved_tables::diff_json([before, after], *factor, &differences, &named);
            ui::show(sink, &json, || saved_tables::diff_text(&json, *top, ui.layout(false)))?;
            Ok(status)
        }
        TableAction::Export { files, names } => {
            let (json, status) = read_named(files, names, ui)?;
            ui::print(&saved_tables::tables_csv(&json, !names.is_empty()))?;
            Ok(status)
        }
    }
}

/// `base` comes first, and counts once.
fn merge(files: &[PathBuf], base: Option<&Path>, output: &Path, ui: Ui) -> Result<Status, Failure> {
    let files: Vec<PathBuf> = base.into_iter().map(Path::to_owned).chain(files.iter().cloned()).collect();
    let mut tables = read_all(&files)?;
    for (path, table) in &mut tables {
        let (followed, had_others) = learned_table::without_others(std::mem::take(table));
        *table = followed;
        if had_others {
            ui.remark(&format!("{path}: the context of others is left out"));
        }
    }
    of_one_scheme(&tables)?;
    of_one_key(&tables, "merge")?;
    each_once(&files)?;
    let files: Vec<Vec<u8>> = tables.iter().map(|(_, table)| table.to_bytes()).collect();
    if base.is_some() {
        take_out_base(&mut tables, ui);
    }
    for (first, second) in alike(&tables, &files) {
        ui.remark(&format!(
            "{first} and {second} hold the same, which counts twice: leave one out if it is a copy"
        ));
    }
    let file = WholeFile::create("-o", output)?;
    let merged = SavedTable::merge(tables.iter().map(|(_, table)| table));
    file.write(&merged.table.to_bytes())?;
    ui.remark(&format!(
        "{}: {} of {}, {} of them in more than one",
        output.display(),
        human::counted(merged.table.entries().len() as u64, "context"),
        human::counted(tables.len() as u64, "table"),
        merged.shared
    ));
    if merged.saturated > 0 {
        ui.remark(&format!(
            "{} with more samples than a table can say: they count as 2^32 - 1",
            human::counted(merged.saturated as u64, "context")
        ));
    }
    Ok(Status::Done)
}

/// Leaves of each table what it learned since the first.
fn take_out_base(tables: &mut [(String, SavedTable)], ui: Ui) {
    let Some(((_, base), hosts)) = tables.split_first_mut() else { return };
    for (path, table) in hosts {
        let (new, again) = table.since(base);
        *table = new;
        if again > 0 {
            ui.remark(&format!(
                "{path}: {} with fewer samples than in the base: learned again, so they count in full",
                human::counted(again as u64, "context")
            ));
        }
    }
}

/// Errors: two are of different schemes, whose contexts have other lifetimes, and often other signatures.
fn of_one_scheme(tables: &[(String, SavedTable)]) -> Result<(), Failure> {
    let mut known = tables.iter().filter_map(|(path, table)| Some((path, table.scheme()?)));
    let Some((first, scheme)) = known.next() else { return Ok(()) };
    known.find(|(_, other)| *other != scheme).map_or(Ok(()), |(second, other)| {
        Err(Failure::wrong_arguments(anyhow!(
            "{first} is a table of the scheme '{scheme}', {second} one of '{other}': merge tables of one scheme"
        )))
    })
}

/// Errors: two are of different kinds of keys, which have nothing in common. `verb` is what would be done with them.
fn of_one_key(tables: &[(String, SavedTable)], verb: &str) -> Result<(), Failure> {
    let Some((first, rest)) = tables.split_first() else { return Ok(()) };
    rest.iter().find(|(_, table)| table.key() != first.1.key()).map_or(Ok(()), |(second, table)| {
        let (path, key, other) = (&first.0, first.1.key().show(), table.key().show());
        Err(Failure::wrong_arguments(anyhow!(
            "{path} has keys of the kind '{key}', {second} of the kind '{other}': {verb} tables of one kind"
        )))
    })
}

/// Errors: two names are of one file, whose samples would count twice, or not at all.
fn each_once(files: &[PathBuf]) -> Result<(), Failure> {
    let mut seen: Vec<((u64, u64), &Path)> = Vec::new();
    for path in files {
        let about = std::fs::metadata(path).with_context(|| path.display().to_string())?;
        let identity = (about.dev(), about.ino());
        if let Some((_, first)) = seen.iter().find(|(other, _)| *other == identity) {
            return Err(Failure::wrong_arguments(anyhow!(
                "{} and {} are one file: give each table once",
                first.display(),
                path.display()
            )));
        }
        seen.push((identity, path));
    }
    Ok(())
}

/// Names of tables whose files hold what an earlier one does, each with that. A table without contexts counts for nothing.
fn alike<'a>(tables: &'a [(String, SavedTable)], files: &'a [Vec<u8>]) -> Vec<(&'a str, &'a str)> {
    let mut seen: HashMap<&[u8], &str> = HashMap::new();
    let mut found = Vec::new();
    for ((path, _), file) in tables.iter().zip(files).filter(|((_, table), _)| !table.entries().is_empty()) {
        match seen.entry(file) {
            Entry::Occupied(first) => found.push((*first.get(), path.as_str())),
            Entry::Vacant(place) => _ = place.insert(path),
        }
    }
    found
}

fn read_named(files: &[PathBuf], names: &[PathBuf], ui: Ui) -> Result<(TablesJson, Status), Failure> {
    let tables = read_all(files)?;
    let all: Vec<&SavedTable> = tables.iter().map(|(_, table)| table).collect();
    let (named, status) = named_contexts(names, &all, ui)?;
    Ok((saved_tables::tables_json(&tables, &named), status))
}

/// Names of what the tables know, from these recordings, and whether one of these lacks something.
fn named_contexts(
    traces: &[PathBuf],
    tables: &[&SavedTable],
    ui: Ui,
) -> Result<(NamedContexts, Status), Failure> {
    if traces.is_empty() {
        return Ok((NamedContexts::default(), Status::Done));
    }
    let names = |failure: Failure| failure.map_failed(|error| error.context("--names"));
    let open = |path: &PathBuf| simulate::open(path, ui).map_err(names);
    let readers = traces.iter().map(open).collect::<Result<Vec<_>, Failure>>()?;
    let lacks = |reader: &TraceReader| reader.damage().is_some() || reader.meta().has_losses();
    let status = Status::with_losses(readers.iter().any(lacks));
    let recorded = readers.iter().flat_map(|reader| reader.contexts());
    let (named, known) = NamedContexts::new(recorded, tables);
    if named.len() < known {
        ui.remark(&format!(
            "no trace of --names has {} of {}: record the same builds, with the same --depth, --unwind and --order",
            known - named.len(),
            human::counted(known as u64, "context"),
        ));
    }
    Ok((named, status))
}

fn read_all<'a>(files: impl IntoIterator<Item = &'a PathBuf>) -> anyhow::Result<Vec<(String, SavedTable)>> {
    files.into_iter().map(|path| Ok((path.display().to_string(), read(path)?))).collect()
}

fn read(path: &Path) -> anyhow::Result<SavedTable> {
    let bytes = learned_table::read_regular(path);
    bytes.and_then(|bytes| Ok(SavedTable::parse(&bytes)?)).with_context(|| path.display().to_string())
}
