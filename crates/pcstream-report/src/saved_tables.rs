//! Saved PC attribute tables, for people, programs and spreadsheets.

use pcstream_placement::saved_table::{Difference, SavedEntry, SavedTable};
use serde::Serialize;

use crate::VERSION;
use crate::csv;
use crate::escape::visible;
use crate::human::{counted, page_bytes, ratio};
use crate::table::Side::{Left, Right};
use crate::table::table;

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
    /// Its contexts, the shortest lifetime first.
    pub contexts: Vec<EntryJson>,
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
pub fn tables_json(tables: &[(String, SavedTable)]) -> TablesJson {
    let table = |(path, table): &(String, SavedTable)| {
        let mut contexts: Vec<EntryJson> = table.entries().iter().map(entry_json).collect();
        contexts.sort_by_key(|entry| (entry.lifetime_pages, entry.signature));
        TableJson { path: path.clone(), scheme: table.scheme().map(str::to_owned), contexts }
    };
    TablesJson { pcstream: VERSION, tables: tables.iter().map(table).collect() }
}

/// The same for people; at most `top` contexts of each table, those with the most samples.
pub fn tables_text(json: &TablesJson, top: usize) -> String {
    let mut lines = Vec::new();
    for saved in &json.tables {
        let samples: u64 = saved.contexts.iter().map(|entry| u64::from(entry.samples)).sum();
        let contexts = saved.contexts.len();
        let known = counted(contexts as u64, "context");
        let scheme = saved.scheme.as_deref().unwrap_or("not known");
        let learned = counted(samples, "lifetime");
        lines.push(format!("{}: {known}, {learned} learned; scheme {scheme}", saved.path));
        let mut shown = saved.contexts.clone();
        shown.sort_by_key(|entry| std::cmp::Reverse(entry.samples));
        shown.truncate(top);
        shown.sort_by_key(|entry| (entry.lifetime_pages, entry.signature));
        if shown.is_empty() {
            continue;
        }
        lines.extend(table(
            &shown,
            &[
                (Left, "context", &|entry| entry.signature.to_string()),
                (Right, "lifetime", &|entry| page_bytes(entry.lifetime_pages)),
                (Right, "pages", &|entry| entry.lifetime_pages.to_string()),
                (Right, "samples", &|entry| entry.samples.to_string()),
            ],
        ));
        if contexts > shown.len() {
            lines.push(format!("{} more with fewer samples: --top shows them", contexts - shown.len()));
        }
    }
    lines.iter().map(|line| format!("{}\n", visible(line))).collect()
}

/// Tables as comma-separated values with a heading.
pub fn tables_csv(json: &TablesJson) -> String {
    let rows = json.tables.iter().flat_map(|table| {
        table.contexts.iter().map(|entry| {
            [
                table.path.clone(),
                entry.signature.to_string(),
                entry.lifetime_pages.to_string(),
                entry.samples.to_string(),
            ]
        })
    });
    csv::table(&["file", "signature", "lifetime_pages", "samples"], rows)
}

/// A comparison for programs.
pub fn diff_json([before, after]: [&str; 2], factor: f64, differences: &[Difference]) -> DiffJson {
    let difference = |d: &Difference| DifferenceJson {
        signature: d.signature.to_string(),
        before: d.before.as_ref().map(entry_json),
        after: d.after.as_ref().map(entry_json),
        ratio: d.ratio(),
        changed: d.is_change(factor),
    };
    DiffJson {
        pcstream: VERSION,
        before: before.to_owned(),
        after: after.to_owned(),
        factor,
        contexts: differences.iter().map(difference).collect(),
    }
}

/// The same for people: the changes.
pub fn diff_text(json: &DiffJson) -> String {
    let changes: Vec<&DifferenceJson> = json.contexts.iter().filter(|d| d.changed).collect();
    let only = |side: fn(&DifferenceJson) -> bool| changes.iter().filter(|d| side(d)).count();
    let (gone, new) = (only(|d| d.after.is_none()), only(|d| d.before.is_none()));
    let other = changes.len() - gone - new;
    let mut lines = vec![format!(
        "{} in both with lifetimes within a factor of {}; {other} beyond it, {gone} only in {}, {new} only in {}",
        counted((json.contexts.len() - changes.len()) as u64, "context"),
        json.factor,
        json.before,
        json.after
    )];
    if !changes.is_empty() {
        let lifetime = |e: Option<EntryJson>| e.map_or("-".to_owned(), |e| page_bytes(e.lifetime_pages));
        let samples = |e: Option<EntryJson>| e.map_or("-".to_owned(), |e| e.samples.to_string());
        lines.extend(table(
            &changes,
            &[
                (Left, "context", &|d| d.signature.clone()),
                (Right, "before", &|d| lifetime(d.before)),
                (Right, "after", &|d| lifetime(d.after)),
                (Right, "ratio", &|d| ratio(d.ratio)),
                (Right, "samples before", &|d| samples(d.before)),
                (Right, "after", &|d| samples(d.after)),
            ],
        ));
    }
    lines.iter().map(|line| format!("{}\n", visible(line))).collect()
}
