//! What `contexts` shows: a table, one context whole, groups, CSV, or call paths for other tools.

use std::path::PathBuf;

use anyhow::anyhow;
use pcstream_report::call_paths::call_paths;
use pcstream_report::grouped::{self, Group, GroupBy};
use pcstream_report::json::SelectionJson;
use pcstream_report::schemes::loss_lines;
use pcstream_report::symbols::Names;
use pcstream_report::{ContextRow, FILES_PER_CONTEXT, Layout, Simulation, csv, folded, json, one_context};
use pcstream_trace::Context;

use crate::args::{ContextsArgs, Outputs, SortBy, ViewArgs};
use crate::failure::Failure;
use crate::selection::Selection;
use crate::source_lines;
use crate::ui::{self, JsonSink, Sink, Ui};
use crate::whole_file::all_different;

/// Contexts named where several are meant.
const CANDIDATES: usize = 5;

/// What the flags ask for. Files are opened before the work begins.
pub struct View<'a> {
    args: &'a ViewArgs,
    top: usize,
    selection: Option<Selection<'a>>,
    json: Option<JsonSink>,
    pprof: Option<Sink>,
    folded: Option<Sink>,
}

/// What is put out.
struct Shown<'a> {
    rows: Vec<ContextRow<'a>>,
    groups: Vec<Group>,
    /// With what it says in words.
    selection: Option<(SelectionJson, String)>,
}

impl View<'_> {
    /// Errors: a file cannot be written, or standard output is asked for more than once.
    pub fn new(args: &ContextsArgs) -> Result<View<'_>, Failure> {
        let ContextsArgs { view, top, output, .. } = args;
        check_stdout(args)?;
        let create =
            |flag, path: &Option<PathBuf>| path.as_deref().map(|path| Sink::create(flag, path)).transpose();
        Ok(View {
            args: view,
            top: *top,
            selection: Selection::new(view)?,
            json: JsonSink::asked(output)?,
            pprof: create("--pprof", &view.pprof)?,
            folded: create("--folded", &view.folded)?,
        })
    }

    /// Puts it out.
    pub fn show(self, simulation: &Simulation, ui: Ui) -> Result<(), Failure> {
        let shown = self.chosen(simulation, ui)?;
        let text = (!self.stdout_is_taken()).then(|| self.text(simulation, &shown, ui));
        let Shown { rows, groups, selection } = shown;
        let rows = &rows;
        if let Some((_, words)) = selection.as_ref().filter(|_| text.is_none() || self.args.csv) {
            ui.remark(words);
        }
        let mut results = Vec::new();
        if let Some(sink) = self.json {
            let selection = selection.map(|(selection, _)| selection);
            let all = json::contexts(simulation, rows);
            results.push(sink.with(&json::ContextsJson { groups, selection, ..all })?);
        }
        results.extend(self.pprof.map(|sink| (sink, folded::pprof(rows))));
        let stacks = || folded::folded(rows, names(self.args)).join("\n") + "\n";
        results.extend(self.folded.map(|sink| (sink, stacks().into_bytes())));
        ui::put_out(results)?;
        text.map_or(Ok(()), |text| ui::print(&text))
    }

    /// Rows and groups, in order.
    fn chosen<'b>(&self, simulation: &Simulation<'b>, ui: Ui) -> Result<Shown<'b>, Failure> {
        let mut rows = simulation.context_rows(0, self.files_per_context());
        let selection = self.selection.as_ref().map(|selection| selection.apply(&mut rows, simulation));
        if let Some(wanted) = &self.args.context {
            rows = vec![one(&rows, wanted, selection.is_some())?];
        }
        if self.args.lines {
            let lacks = source_lines::add(&mut rows);
            lacks.iter().for_each(|(lack, modules)| ui.remark(&source_lines::in_words(*lack, modules)));
            if source_lines::has_java(&rows) {
                ui.remark("no source lines of Java methods: a trace has only their names");
            }
        }
        sort_rows(&mut rows, self.args.sort);
        let host_pages = simulation.writers.totals().host_pages;
        let of = |by| grouped::groups(&rows, host_pages, by, names(self.args));
        let mut groups = self.args.by.map_or(Vec::new(), of);
        sort_groups(&mut groups, self.args.sort);
        rows.iter_mut().for_each(|row| row.files.truncate(FILES_PER_CONTEXT));
        Ok(Shown { rows, groups, selection })
    }

    /// Traces may have millions of files, and only some results need them all.
    fn files_per_context(&self) -> usize {
        let by_file = self.args.by.is_some_and(|by| matches!(by, GroupBy::File | GroupBy::Directory));
        if by_file || self.args.file.is_some() { usize::MAX } else { FILES_PER_CONTEXT }
    }

    /// Whether something else takes the place of the table.
    fn stdout_is_taken(&self) -> bool {
        self.folded.as_ref().is_some_and(Sink::is_stdout)
            || self.json.as_ref().is_some_and(JsonSink::is_stdout)
    }

    fn text(&self, simulation: &Simulation, shown: &Shown, ui: Ui) -> String {
        let Shown { rows, groups, selection } = shown;
        let names = names(self.args);
        let layout = match names {
            Names::Short => ui.layout(false),
            Names::Full => Layout { names, ..Layout::PLAIN },
        };
        let head =
            selection.as_ref().map_or(String::new(), |(_, words)| layout.wrap(words, 0).join("\n") + "\n\n");
        let losses: String = loss_lines(simulation).iter().map(|line| format!("{line}\n")).collect();
        match (self.args.by, self.args.csv) {
            _ if self.args.context.is_some() => {
                let scheme = simulation.results.first().map_or("", |lane| &lane.scheme);
                let text: String = rows.iter().map(|row| one_context::text(row, scheme)).collect();
                head + &layout.fit(&text, 11) + &losses
            }
            (Some(_), true) => groups_csv(groups),
            (None, true) => rows_csv(rows, names),
            (Some(by), false) => head + &grouped::text(groups, by, self.top, layout) + &losses,
            (None, false) => {
                let mut text = pcstream_report::contexts::text(simulation, rows, &head, self.top, layout);
                if self.args.lines {
                    text += &pcstream_report::contexts::source_lines(rows, self.top, layout);
                }
                text
            }
        }
    }
}

/// Standard output holds one result, and no flag is of no effect because of that.
fn check_stdout(args: &ContextsArgs) -> Result<(), Failure> {
    let ContextsArgs { view, output, .. } = args;
    let outputs = Outputs {
        json: output.json.as_deref(),
        folded: view.folded.as_deref(),
        csv: view.csv,
        by: view.by.is_some(),
    };
    ui::one_on_stdout(&outputs.on_stdout())?;
    all_different(&[
        ("--json", outputs.json),
        ("--folded", outputs.folded),
        ("--pprof", view.pprof.as_deref()),
    ])
}

fn names(args: &ViewArgs) -> Names {
    if args.full_names { Names::Full } else { Names::Short }
}

fn one<'a>(rows: &[ContextRow<'a>], wanted: &str, selected: bool) -> Result<ContextRow<'a>, Failure> {
    let found = one_context::find(rows, wanted);
    match found[..] {
        [row] => Ok(row.clone()),
        [] => Err(Failure::wrong_arguments(anyhow!(
            "--context {wanted}: no context that wrote{} has this number, or a signature that begins with these digits (at least four); `pcstream contexts` lists them",
            if selected { ", of those that --file and --program select," } else { "" }
        ))),
        _ => Err(Failure::wrong_arguments(anyhow!(
            "--context {wanted}: this means one of {} contexts: {}; give more of a signature",
            found.len(),
            candidates(&found)
        ))),
    }
}

/// The first of several contexts, as `--context` takes them.
fn candidates(found: &[&ContextRow]) -> String {
    let name = |context: &Context| format!("{} (number {})", context.signature, context.id.0);
    let named = found.iter().filter_map(|row| row.context).take(CANDIDATES).map(name);
    let mut names: Vec<String> = named.collect();
    names.extend((found.len() > CANDIDATES).then(|| format!("and {} more", found.len() - CANDIDATES)));
    names.join(", ")
}

fn sort_rows(rows: &mut [ContextRow], by: SortBy) {
    let life = |row: &ContextRow| row.writer.lifetimes.quartiles().map_or(u64::MAX, |q| q.p50);
    match by {
        // They come so.
        SortBy::Pages => {}
        SortBy::Life => rows.sort_by_key(life),
        SortBy::Alive => rows.sort_by_key(|row| std::cmp::Reverse(row.alive_pages())),
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
            csv::option(row.alive_pages()),
            csv::option(row.stream.map(|s| s.0)),
            row.files.first().map_or_else(String::new, |(path, _)| path.clone()),
            row.context.and_then(|_| paths.next()).unwrap_or_default(),
        ]
    });
    csv::table(&head, rows)
}
