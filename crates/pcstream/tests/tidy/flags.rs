//! Every flag that a command has is in docs/command-line.md, and so is every name that the registries have.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::Faults;

pub fn check(root: &Path, faults: &mut Faults) {
    let document = std::fs::read_to_string(root.join("docs/command-line.md")).expect("the document is there");
    let commands = commands(&help(&[]));
    assert!(commands.contains(&"simulate".to_owned()), "{commands:?}");
    for command in commands {
        for flag in undocumented(&help(&[&command]), &document) {
            faults.insert(("undocumented-flag".into(), format!("{command} {flag}")), 1);
        }
    }
    for (lines, names) in registries() {
        for name in unnamed(&names, lines, &document) {
            faults.insert(("undocumented-name".into(), format!("{name}, in the line of {lines}")), 1);
        }
    }
}

/// How the lines of the document begin that list the names of a registry, and those names.
fn registries() -> [(&'static str, Vec<&'static str>); 4] {
    [
        ("| `--format ", pcstream_trace::import::FORMATS.iter().map(|format| format.name).collect()),
        ("| `--sink ", pcstream_place::sinks::names()),
        ("| `--profile ", pcstream_ssd::profile::KNOWN.iter().map(|profile| profile.name).collect()),
        ("pcstream generate ", pcstream_trace::generators::GENERATORS.iter().map(|g| g.name).collect()),
    ]
}

/// Names that no line has which begins so.
fn unnamed<'a>(names: &[&'a str], begin: &str, document: &str) -> Vec<&'a str> {
    let lines = || document.lines().filter_map(|line| line.strip_prefix(begin));
    let is_part = |c: char| ['-', '.'].contains(&c) || c.is_alphanumeric();
    let named = |name: &str| lines().any(|line| line.split(|c| !is_part(c)).any(|word| word == name));
    names.iter().copied().filter(|name| !named(name)).collect()
}

fn help(of: &[&str]) -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_pcstream")).args(of).arg("--help").output().expect("it runs");
    String::from_utf8(output.stdout).expect("text")
}

fn commands(help: &str) -> Vec<String> {
    let list = help.lines().skip_while(|line| !line.starts_with("Commands:")).skip(1);
    let names = list.take_while(|line| !line.is_empty()).filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
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
    assert_eq!(unnamed(&["msr", "fio", "spc"], "| `--format ", document), ["fio"]);
    assert!(unnamed(&["auto", "none"], "| `--sink ", document).is_empty());
}

#[test]
fn undocumented_flags_are_found() {
    let help = "Options:\n  -o, --output <F>  Where\n      --size <N>\n          --not-at-the-start is prose\n  -h, --help\nExamples:\n  --other\n";
    let found = undocumented(help, "`--output-format` and `--size`");
    assert_eq!(found.into_iter().collect::<Vec<_>>(), ["--not-at-the-start", "--output"]);
    assert_eq!(commands("Usage\n\nCommands:\n  run   Runs\n  help  Prints\n\nOptions:\n  -h\n"), ["run"]);
}
