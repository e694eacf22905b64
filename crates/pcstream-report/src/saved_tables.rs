//! Saved PC attribute tables, for people, programs and spreadsheets. A table has signatures alone; whose they are,
//! recordings of the same programs say.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use pcstream_placement::parameter::Value as _;
use pcstream_placement::saved_table::{Difference, SavedEntry, SavedTable};
use pcstream_trace::{Context, ContextId, Signature};
use serde::Serialize;

use crate::VERSION;
use crate::call_paths::call_paths;
use crate::contexts::called;
use crate::csv;
use crate::escape::visible;
use crate::human::{counted, page_bytes, ratio};
use crate::layout::{Layout, clipped};
use crate::symbols::Names;
use crate::table::Side::{Left, Right};
use crate::table::{Column, columns_of, in_lines};

/// Longest call path of a row, in characters.
const PATH_WIDTH: usize = 110;
/// Columns of a terminal that a call path has at least.
const LEAST_PATH_WIDTH: usize = 50;

/// The result of `table show`: the files in the order given.
#[derive(Clone, Debug, Serialize)]
pub struct TablesJson {
    /// Version of pcstream.
    pub pcstream: &'static str,
    /// One per file.
    pub tables: Vec<TableJson>,
}

/// A saved table.
#[derive(Clone, Debug, Serialize)]
pub struct TableJson {
    /// The file.
    pub path: String,
    /// The scheme that learned it; null if that is not known.
    pub scheme: Option<String>,
    /// What its keys are, as the parameter `key` of the scheme says it.
    pub key: String,
    /// Its contexts, the shortest lifetime first.
    pub contexts: Vec<ContextJson>,
}

/// A context of a table.
#[derive(Clone, Debug, Serialize)]
pub struct ContextJson {
    /// What the table says.
    #[serde(flatten)]
    pub entry: EntryJson,
    /// None where no recording has the context.
    #[serde(flatten)]
    pub named: Option<Named>,
}

/// Whose writes a context's are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Named {
    /// File name of the executable.
    pub program: String,
    /// Functions, innermost first: those that tell the call path from others.
    pub call_path: String,
}

/// Names of contexts by their signatures.
#[derive(Clone, Debug, Default)]
pub struct NamedContexts(BTreeMap<Signature, Named>);

impl NamedContexts {
    /// Those of recordings that the tables know, and how many contexts the tables have. Of two with one signature it is
    /// the first.
    pub fn new<'a>(
        recorded: impl IntoIterator<Item = &'a Context>,
        tables: &[&SavedTable],
    ) -> (NamedContexts, usize) {
        let entries = tables.iter().flat_map(|table| table.entries());
        let mut wanted: BTreeSet<Signature> = entries.map(|entry| entry.signature).collect();
        // It stands for programs of no name.
        wanted.remove(&Context::others(ContextId::NONE).signature);
        let in_tables = wanted.len();
        let known: Vec<&Context> =
            recorded.into_iter().filter(|context| wanted.remove(&context.signature)).collect();
        let named = known.iter().zip(call_paths(&known, Names::Short)).map(|(context, path)| {
            let named = Named { program: context.program().to_owned(), call_path: called(context, &path) };
            (context.signature, named)
        });
        (NamedContexts(named.collect()), in_tables)
    }

    /// How many have a name.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none has a name.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn get(&self, signature: Signature) -> Option<Named> {
        self.0.get(&signature).cloned()
    }
}

/// Rows with as many columns in a line as a terminal has room for.
fn rows_within(columns: &[Column], layout: Layout) -> Vec<String> {
    in_lines(columns, LEAST_PATH_WIDTH, layout).iter().map(|line| layout.cut(line)).collect()
}

/// The columns with names; none where no row has one.
fn named_columns<'a>(rows: impl Iterator<Item = Option<&'a Named>> + Clone) -> Vec<Column> {
    if rows.clone().all(|named| named.is_none()) {
        return Vec::new();
    }
    let cell = |named: Option<&Named>, text: fn(&Named) -> String| named.map_or(String::new(), text);
    let programs = rows.clone().map(|named| cell(named, |named| named.program.clone()));
    let paths = rows.map(|named| cell(named, |named| clipped(&named.call_path, PATH_WIDTH)));
    vec![Column::new(Left, "program", programs), Column::new(Left, "call path, innermost first", paths)]
}

/// What a table says of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct EntryJson {
    /// Signature, 16 hexadecimal digits.
    #[serde(serialize_with = "as_text")]
    pub signature: pcstream_trace::Signature,
    /// Expected lifetime.
    pub lifetime_pages: u64,
    /// Lifetimes that went into it.
    pub samples: u32,
}

/// The result of `table diff`.
#[derive(Clone, Debug, Serialize)]
pub struct DiffJson {
    /// Version of pcstream.
    pub pcstream: &'static str,
    /// The first file.
    pub before: String,
    /// The second file.
    pub after: String,
    /// Contexts that only one table knows, or whose lifetimes differ by more than this factor, are changes.
    pub factor: f64,
    /// Every context of either, in the order of signatures.
    pub contexts: Vec<DifferenceJson>,
}

/// A context in two tables.
#[derive(Clone, Debug, Serialize)]
pub struct DifferenceJson {
    /// Signature, 16 hexadecimal digits.
    pub signature: String,
    /// Null where the first table does not know it.
    pub before: Option<EntryJson>,
    /// Null where the second table does not know it.
    pub after: Option<EntryJson>,
    /// The second lifetime over the first; null where one is missing.
    pub ratio: Option<f64>,
    /// Whether it is a change.
    pub changed: bool,
    /// None where no recording has the context.
    #[serde(flatten)]
    pub named: Option<Named>,
}

fn as_text<S: serde::Serializer>(
    signature: &pcstream_trace::Signature,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(signature)
}

fn entry_json(entry: &SavedEntry) -> EntryJson {
    EntryJson { signature: entry.signature, lifetime_pages: entry.lifetime.pages(), samples: entry.samples }
}

/// Tables with their paths, for programs.
pub fn tables_json(tables: &[(String, SavedTable)], names: &NamedContexts) -> TablesJson {
    let context =
        |entry: &SavedEntry| ContextJson { entry: entry_json(entry), named: names.get(entry.signature) };
    let table = |(path, table): &(String, SavedTable)| {
        let mut contexts: Vec<ContextJson> = table.entries().iter().map(context).collect();
        contexts.sort_by_key(|context| (context.entry.lifetime_pages, context.entry.signature));
        TableJson {
            path: path.clone(),
            scheme: table.scheme().map(str::to_owned),
            key: table.key().show(),
            contexts,
        }
    };
    TablesJson { pcstream: VERSION, tables: tables.iter().map(table).collect() }
}

/// The same for people; at most `top` contexts of each table, those with the most samples.
pub fn tables_text(json: &TablesJson, top: usize, layout: Layout) -> String {
    let mut lines = Vec::new();
    for saved in &json.tables {
        let samples: u64 = saved.contexts.iter().map(|context| u64::from(context.entry.samples)).sum();
        let contexts = saved.contexts.len();
        let known = counted(contexts as u64, "context");
        let scheme = saved.scheme.as_deref().unwrap_or("not known");
        let learned = counted(samples, "lifetime");
        let head =
            format!("{}: {known}, {learned} learned; scheme {scheme}, keys: {}", saved.path, saved.key);
        lines.extend(layout.fit(&head, 2).lines().map(str::to_owned));
        let mut shown: Vec<&ContextJson> = saved.contexts.iter().collect();
        shown.sort_by_key(|context| Reverse(context.entry.samples));
        shown.truncate(top);
        shown.sort_by_key(|context| (context.entry.lifetime_pages, context.entry.signature));
        if shown.is_empty() {
            continue;
        }
        let mut columns = columns_of(
            &shown,
            &[
                (Left, "context", &|context| context.entry.signature.to_string()),
                (Right, "lifetime", &|context| page_bytes(context.entry.lifetime_pages)),
                (Right, "pages", &|context| context.entry.lifetime_pages.to_string()),
                (Right, "samples", &|context| context.entry.samples.to_string()),
            ],
        );
        columns.extend(named_columns(shown.iter().map(|context| context.named.as_ref())));
        lines.extend(rows_within(&columns, layout));
        if contexts > shown.len() {
            lines.push(fewer_samples(contexts - shown.len()));
        }
    }
    lines.iter().map(|line| format!("{}\n", visible(line))).collect()
}

/// Tables as comma-separated values with a heading; with columns for names if those were asked for.
pub fn tables_csv(json: &TablesJson, with_names: bool) -> String {
    let all = json.tables.iter().flat_map(|table| table.contexts.iter().map(move |context| (table, context)));
    let mut head = vec!["file", "signature", "lifetime_pages", "samples"];
    head.extend(["program", "call_path"].iter().filter(|_| with_names));
    let rows = all.map(|(table, ContextJson { entry, named })| {
        let mut row = vec![
            table.path.clone(),
            entry.signature.to_string(),
            entry.lifetime_pages.to_string(),
            entry.samples.to_string(),
        ];
        if with_names {
            let named = named.as_ref();
            row.push(named.map_or(String::new(), |named| named.program.clone()));
            row.push(named.map_or(String::new(), |named| named.call_path.clone()));
        }
        row
    });
    csv::table(&head, rows)
}

/// A comparison for programs.
pub fn diff_json(
    [before, after]: [&str; 2],
    factor: f64,
    differences: &[Difference],
    names: &NamedContexts,
) -> DiffJson {
    let difference = |d: &Difference| DifferenceJson {
        signature: d.signature.to_string(),
        before: d.before.as_ref().map(entry_json),
        after: d.after.as_ref().map(entry_json),
        ratio: d.ratio(),
        changed: d.is_change(factor),
        named: names.get(d.signature),
    };
    DiffJson {
        pcstream: VERSION,
        before: before.to_owned(),
        after: after.to_owned(),
        factor,
        contexts: differences.iter().map(difference).collect(),
    }
}

/// The same for people: the changes; at most `top` of them, those with the most samples in one of the tables.
pub fn diff_text(json: &DiffJson, top: usize, layout: Layout) -> String {
    let changes: Vec<&DifferenceJson> = json.contexts.iter().filter(|d| d.changed).collect();
    let only = |side: fn(&DifferenceJson) -> bool| changes.iter().filter(|d| side(d)).count();
    let (gone, new) = (only(|d| d.after.is_none()), only(|d| d.before.is_none()));
    let other = changes.len() - gone - new;
    let head = format!(
        "{} in both with lifetimes within a factor of {}; {other} beyond it, {gone} only in {}, {new} only in {}",
        counted((json.contexts.len() - changes.len()) as u64, "context"),
        json.factor,
        json.before,
        json.after
    );
    let mut lines: Vec<String> = layout.fit(&head, 2).lines().map(str::to_owned).collect();
    let shown = most_samples(&changes, top);
    if !shown.is_empty() {
        let lifetime = |e: Option<EntryJson>| e.map_or("-".to_owned(), |e| page_bytes(e.lifetime_pages));
        let samples = |e: Option<EntryJson>| e.map_or("-".to_owned(), |e| e.samples.to_string());
        let mut columns = columns_of(
            &shown,
            &[
                (Left, "context", &|d| d.signature.clone()),
                (Right, "before", &|d| lifetime(d.before)),
                (Right, "after", &|d| lifetime(d.after)),
                (Right, "ratio", &|d| ratio(d.ratio)),
                (Right, "samples before", &|d| samples(d.before)),
                (Right, "after", &|d| samples(d.after)),
            ],
        );
        columns.extend(named_columns(shown.iter().map(|d| d.named.as_ref())));
        lines.extend(rows_within(&columns, layout));
    }
    if changes.len() > shown.len() {
        lines.push(fewer_samples(changes.len() - shown.len()));
    }
    lines.iter().map(|line| format!("{}\n", visible(line))).collect()
}

/// The changes with the most samples, in the order of signatures.
fn most_samples<'a>(changes: &[&'a DifferenceJson], top: usize) -> Vec<&'a DifferenceJson> {
    let samples = |d: &DifferenceJson| d.before.iter().chain(&d.after).map(|entry| entry.samples).max();
    let mut shown = changes.to_vec();
    shown.sort_by_key(|d| Reverse(samples(d)));
    shown.truncate(top);
    shown.sort_by(|a, b| a.signature.cmp(&b.signature));
    shown
}

fn fewer_samples(contexts: usize) -> String {
    format!("{contexts} more with fewer samples: --top shows them")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::columns_of as width_of;

    /// The call path is what tells contexts apart, so a narrow terminal shows it below the numbers.
    #[test]
    fn a_narrow_terminal_has_the_call_path() {
        let call_path = "pwrite64 < Table::checkpoint < in_place::workload".to_owned();
        let named = Some(Named { program: "a-program-of-a-store".to_owned(), call_path: call_path.clone() });
        let entry = EntryJson { signature: Signature(1), lifetime_pages: 9, samples: 3 };
        let table = TableJson {
            path: "place-var-lib-postgresql-15-main.table".to_owned(),
            scheme: Some("pcstream".to_owned()),
            key: "context".to_owned(),
            contexts: vec![ContextJson { entry, named: named.clone() }],
        };
        let tables = TablesJson { pcstream: VERSION, tables: vec![table] };
        let layout = Layout { width: Some(80), ..Layout::PLAIN };
        let difference = DifferenceJson {
            signature: "0000000000000001".to_owned(),
            before: Some(entry),
            after: None,
            ratio: None,
            changed: true,
            named,
        };
        let diff = DiffJson {
            pcstream: VERSION,
            before: "monday.table".to_owned(),
            after: "friday.table".to_owned(),
            factor: 2.0,
            contexts: vec![difference],
        };
        for text in [tables_text(&tables, 9, layout), diff_text(&diff, 9, layout)] {
            assert!(text.lines().all(|line| width_of(line) <= 80), "{text}");
            assert!(text.contains(&call_path) && text.contains("a-program-of-a-store"), "{text}");
        }
        assert_eq!(tables_text(&tables, 9, Layout::PLAIN).lines().count(), 3, "into a file a row is a line");
    }
}
