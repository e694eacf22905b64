//! `--file` and `--program`: a part of what was written.
//!
//! Patterns are those of the rules of `manual`, so they are read and matched as rules with one condition.

use anyhow::anyhow;
use pcstream_placement::Rules;
use pcstream_placement::rules::Subject;
use pcstream_report::human::page_bytes;
use pcstream_report::json::SelectionJson;
use pcstream_report::{ContextRow, Simulation};
use pcstream_trace::{Context, File, Kind};

use crate::args::ViewArgs;
use crate::failure::Failure;

/// What files and programs are meant: those that match one of each kind given.
pub struct Patterns {
    file: Vec<Pattern>,
    program: Vec<Pattern>,
}

/// As it was given, and as rules with one condition.
struct Pattern {
    text: String,
    rules: Rules,
}

impl Patterns {
    /// What the flags ask for; `None` if that is everything.
    pub fn new(file: &[String], program: &[String]) -> Result<Option<Patterns>, Failure> {
        let of = |flag: &str, patterns: &[String], [name, path]: [&str; 2]| {
            let field = |pattern: &str| if pattern.contains('/') { path } else { name }.to_owned() + pattern;
            let read = |text: &String| Ok(Pattern { text: text.clone(), rules: rule(flag, &field(text))? });
            patterns.iter().map(read).collect::<Result<Vec<_>, Failure>>()
        };
        let file = of("--file", file, ["name=", "path="])?;
        let program = of("--program", program, ["executable=**/", "executable="])?;
        Ok((!file.is_empty() || !program.is_empty()).then_some(Patterns { file, program }))
    }

    /// Whether a program is meant by whom that is.
    pub fn is_program(&self, context: Option<&Context>) -> bool {
        self.program.is_empty() || self.program.iter().any(|pattern| is_of(&pattern.rules, context))
    }

    /// Whether a file is meant that has this path; a write without a file has none.
    pub fn is_file(&self, path: Option<&str>) -> bool {
        let matches = |path: &str| self.file.iter().any(|pattern| is_file(&pattern.rules, path));
        self.file.is_empty() || path.is_some_and(matches)
    }

    /// What may be wrong with patterns of paths that match no file; empty if nothing is.
    pub fn hint(&self) -> &'static str {
        let mut paths = self.file.iter().map(|pattern| &pattern.text).filter(|text| text.contains('/'));
        let begins_inside = |text: &String| !text.starts_with(['/', '*']);
        let is_of_one_directory = |text: &String| text.contains('*') && !text.contains("**");
        if paths.clone().any(begins_inside) {
            "; a path begins with /, at the mount point: write **/ before the pattern"
        } else if paths.any(is_of_one_directory) {
            "; a * matches no /: write ** for directories"
        } else {
            ""
        }
    }

    /// The flags and patterns that none of these files or programs matches.
    pub fn without_match(&self, files: &[File], contexts: &[Context]) -> Vec<(&'static str, &str)> {
        let no_file = |pattern: &&Pattern| !files.iter().any(|file| is_file(&pattern.rules, &file.path));
        let no_program = |pattern: &&Pattern| !contexts.iter().any(|of| is_of(&pattern.rules, Some(of)));
        let files = self.file.iter().filter(no_file).map(|pattern| ("--file", pattern.text.as_str()));
        let programs = self.program.iter().filter(no_program);
        files.chain(programs.map(|pattern| ("--program", pattern.text.as_str()))).collect()
    }
}

/// What is selected.
pub struct Selection<'a> {
    args: &'a ViewArgs,
    patterns: Patterns,
}

impl Selection<'_> {
    /// What the flags ask for; `None` if that is everything.
    pub fn new(args: &ViewArgs) -> Result<Option<Selection<'_>>, Failure> {
        let patterns = Patterns::new(args.file.as_slice(), args.program.as_slice())?;
        Ok(patterns.map(|patterns| Selection { args, patterns }))
    }

    /// Leaves what is selected of rows that have all their files, heaviest first. Says what it left out.
    pub fn apply(&self, rows: &mut Vec<ContextRow>, simulation: &Simulation) -> (SelectionJson, String) {
        let contexts = known(rows);
        rows.retain(|row| self.patterns.is_program(row.context));
        if !self.patterns.file.is_empty() {
            rows.iter_mut().for_each(|row| row.keep_files(|path| self.patterns.is_file(Some(path))));
            rows.retain(|row| row.writer.pages() > 0);
            rows.sort_by_key(|row| std::cmp::Reverse(row.writer.pages()));
        }
        let pages: u64 = rows.iter().map(|row| row.writer.pages()).sum();
        let selection = SelectionJson {
            file: self.args.file.clone(),
            program: self.args.program.clone(),
            left_out_pages: simulation.writers.totals().host_pages - pages,
            left_out_contexts: contexts - known(rows),
        };
        let words = in_words(&selection, rows, self.patterns.hint());
        (selection, words)
    }
}

/// Contexts among the rows, of which one may be for what has none.
fn known(rows: &[ContextRow]) -> u64 {
    rows.iter().filter(|row| row.context.is_some()).count() as u64
}

/// For the head of a table; the hint is for one without rows.
fn in_words(selection: &SelectionJson, rows: &[ContextRow], hint: &str) -> String {
    let flag = |name: &str, pattern: &Option<String>| pattern.as_ref().map(|of| format!("{name} '{of}'"));
    let flags = [flag("--file", &selection.file), flag("--program", &selection.program)];
    let pages = rows.iter().map(|row| row.writer.pages()).sum();
    let mut words = format!(
        "only {}: {} by {} of {} contexts; {} are left out",
        flags.into_iter().flatten().collect::<Vec<_>>().join(" and "),
        page_bytes(pages),
        known(rows),
        known(rows) + selection.left_out_contexts,
        page_bytes(selection.left_out_pages),
    );
    if rows.is_empty() {
        words += hint;
    }
    if rows.iter().any(|row| row.alive_pages().is_none()) {
        words += "; lifetimes are not known of contexts that wrote other files, too";
    }
    words
}

fn rule(flag: &str, condition: &str) -> Result<Rules, Failure> {
    if condition.contains(['"', '\n']) {
        let problem = "a pattern cannot have double quotes or line breaks; write ? for such a character";
        return Err(Failure::wrong_arguments(anyhow!("{flag}: {problem}")));
    }
    Rules::parse(&format!("\"{condition}\" -> 1")).map_err(|error| {
        // There are no lines here.
        let problem = error.to_string();
        Failure::wrong_arguments(anyhow!("{flag}: {}", problem.trim_start_matches("line 1: ")))
    })
}

fn is_of(rules: &Rules, context: Option<&Context>) -> bool {
    rules.stream_of(Subject { kind: Kind::Data, file: None, context, size: None }).is_some()
}

fn is_file(rules: &Rules, path: &str) -> bool {
    let file = File { path: path.to_owned(), ..File::default() };
    rules.stream_of(Subject { kind: Kind::Data, file: Some(&file), context: None, size: None }).is_some()
}
