//! Every command is in the table of docs/command-line.md, and every flag that it has is there or in docs/commands. So is
//! every name of a registry, or it is in the table of its document.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use pcstream_ssd::VictimPolicy;

use crate::Faults;

pub fn check(root: &Path, faults: &mut Faults) {
    let overview = fs::read_to_string(root.join("docs/command-line.md")).expect("the document is there");
    for command in unnamed(&commands(&help(&[])), &first_cells(&overview, "## Commands")) {
        faults.insert(("undocumented-command".into(), command.into()), 1);
    }
    let document = [overview, pages(&root.join("docs/commands"))].concat();
    let helps = helps(&[]);
    for command in ["simulate", "generate zipf"] {
        assert!(helps.iter().any(|(name, _)| name == command), "{command}");
    }
    for (command, help) in helps {
        for flag in undocumented(&help, &document) {
            faults.insert(("undocumented-flag".into(), format!("{command} {flag}")), 1);
        }
    }
    for (begin, names) in lines_of_registries() {
        for name in unnamed(&names, &lines(&document, begin)) {
            faults.insert(("undocumented-name".into(), format!("{name}, in the line of {begin}")), 1);
        }
    }
    for (path, heading, names) in tables_of_registries() {
        let document = fs::read_to_string(root.join(path)).expect(path);
        for name in unnamed(&names, &first_cells(&document, heading)) {
            faults.insert(("undocumented-name".into(), format!("{name}, in the table of {path}")), 1);
        }
    }
}

/// All pages of a directory, one after the other.
fn pages(dir: &Path) -> String {
    let entries = fs::read_dir(dir).expect("the pages are there").flatten();
    entries.map(|entry| fs::read_to_string(entry.path()).expect("a page")).collect()
}

/// How the lines of docs/commands begin that list the names of a registry, and those names.
fn lines_of_registries() -> [(&'static str, Vec<&'static str>); 5] {
    let takes_parameter = |policy: &VictimPolicy| policy.parameter().is_some();
    [
        ("| `--format ", pcstream_trace::import::FORMATS.iter().map(|format| format.name).collect()),
        ("| `--sink ", pcstream_place::sinks::names()),
        ("| `--profile ", pcstream_ssd::profile::KNOWN.iter().map(|profile| profile.name).collect()),
        ("| `--victim NAME", VictimPolicy::known().filter(takes_parameter).map(VictimPolicy::name).collect()),
        ("pcstream generate ", pcstream_trace::generators::GENERATORS.iter().map(|g| g.name).collect()),
    ]
}

/// Documents whose table, between this heading and the next, has a row for each name of a registry.
fn tables_of_registries() -> [(&'static str, &'static str, Vec<&'static str>); 3] {
    [
        ("docs/ssd-model.md", "## Algorithms", VictimPolicy::names()),
        ("docs/schemes.md", "# Placement schemes", pcstream_placement::names().collect()),
        ("docs/reports.md", "## One HTML file", pcstream_report::pictures::names().collect()),
    ]
}

/// The lines that begin so.
fn lines(document: &str, begin: &str) -> String {
    document.lines().filter_map(|line| line.strip_prefix(begin)).collect::<Vec<_>>().join("\n")
}

/// What begins the rows of the tables below a heading.
fn first_cells(document: &str, heading: &str) -> String {
    let section = document.lines().skip_while(|line| *line != heading).skip(1);
    let rows = section.take_while(|line| !line.starts_with('#')).filter_map(|line| line.strip_prefix("| "));
    rows.filter_map(|row| row.split(" |").next()).collect::<Vec<_>>().join("\n")
}

/// Names that a text does not have.
fn unnamed<'a, N: AsRef<str>>(names: &'a [N], text: &str) -> Vec<&'a str> {
    let is_part = |c: char| ['-', '.'].contains(&c) || c.is_alphanumeric();
    let words: BTreeSet<&str> = text.split(|c| !is_part(c)).collect();
    names.iter().map(AsRef::as_ref).filter(|name| !words.contains(name)).collect()
}

fn help(of: &[&str]) -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_pcstream")).args(of).arg("--help").output().expect("it runs");
    String::from_utf8(output.stdout).expect("text")
}

/// The names of a command and of all below it, with their help.
fn helps(command: &[&str]) -> Vec<(String, String)> {
    let own = help(command);
    let below = commands(&own);
    let below =
        below.iter().flat_map(|name| helps(&[command, &[name.as_str()]].concat())).collect::<Vec<_>>();
    [(command.join(" "), own)].into_iter().chain(below).collect()
}

fn commands(help: &str) -> Vec<String> {
    let list = help.lines().skip_while(|line| !line.starts_with("Commands:")).skip(1);
    // A description that goes on in the next line is indented further.
    let begins = list.take_while(|line| !line.is_empty()).filter_map(|line| line.strip_prefix("  "));
    let names = begins.filter_map(|line| line.split(' ').next());
    names.filter(|name| !["", "help"].contains(name)).map(str::to_owned).collect()
}

fn undocumented(help: &str, document: &str) -> BTreeSet<String> {
    let before_examples = help.lines().take_while(|line| !line.starts_with("Examples"));
    let options = before_examples.map(str::trim).filter(|line| line.starts_with('-'));
    let flags =
        options.filter_map(|line| line.split([' ', ',', '=', '[']).find(|word| word.starts_with("--")));
    let known = |flag: &str| {
        let follows = |at: usize| document[at + flag.len()..].chars().next();
        let mut places = document.match_indices(flag);
        places.any(|(at, _)| !follows(at).is_some_and(|c| c == '-' || c.is_alphanumeric()))
    };
    flags.filter(|flag| !["--help", "--version"].contains(flag) && !known(flag)).map(str::to_owned).collect()
}

#[test]
fn undocumented_names_are_found() {
    let document =
        "msr and fio elsewhere\n| `--format NAME` | | `spc`, `fio-2` or `msr` |\n| `--sink auto\\|none` |\n";
    assert_eq!(unnamed(&["msr", "fio", "spc"], &lines(document, "| `--format ")), ["fio"]);
    assert!(unnamed(&["auto", "none"], &lines(document, "| `--sink ")).is_empty());
    let table =
        "# Some\n| `fifo` | not `greedy` |\n| `random`, `d-choices:D` | |\n\n## Others\n| `greedy` | |\n";
    assert_eq!(unnamed(&["fifo", "greedy", "d-choices"], &first_cells(table, "# Some")), ["greedy"]);
}

#[test]
fn undocumented_flags_are_found() {
    let help = "Options:\n  -o, --output <F>  Where\n      --size <N>\n          --not-at-the-start is prose\n  -h, --help\nExamples:\n  --other\n";
    let found = undocumented(help, "`--output-format` and `--size`");
    assert_eq!(found.into_iter().collect::<Vec<_>>(), ["--not-at-the-start", "--output"]);
    let help = "Usage\n\nCommands:\n  run   Runs\n        it\n  help  Prints\n\nOptions:\n  -h\n";
    assert_eq!(commands(help), ["run"]);
}
