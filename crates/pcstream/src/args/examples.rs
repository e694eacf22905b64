//! Examples in the help can be pasted: they parse, and use no trace that none of them makes.

use std::collections::BTreeSet;

use clap::{Command, CommandFactory as _, Parser as _};

use super::Cli;

/// RocksDB's benchmark ends with an error where nobody chooses what it does: its default holds one that needs another
/// compaction style.
#[test]
fn examples_choose_what_db_bench_does() {
    let helps = helps(&Cli::command());
    let lines = helps.iter().flat_map(|help| help.lines()).filter(|line| line.contains("-- db_bench"));
    let lines: Vec<&str> = lines.collect();
    assert!(lines.len() > 4, "{lines:#?}");
    for line in lines {
        assert!(line.contains(" --benchmarks="), "{line}");
    }
}

/// The commands of the examples of `help`: one for each part of a pipeline.
fn commands(help: &str) -> Vec<Vec<String>> {
    let (_, examples) = help.split_once("Example").unwrap_or_default();
    let lines = examples.lines().skip(1).take_while(|line| line.starts_with("  "));
    let parts = lines.flat_map(|line| line.split(['|', '>', '#']).flat_map(|part| part.split("&&")));
    let words = parts.map(|part| part.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    words
        .filter_map(|words| {
            let from = words.iter().position(|word| word == "pcstream")?;
            (from == 0 || words[0] == "sudo").then(|| words[from..].to_vec())
        })
        .collect()
}

fn helps(command: &Command) -> Vec<String> {
    let own = command.get_after_help().map(ToString::to_string);
    own.into_iter().chain(command.get_subcommands().flat_map(helps)).collect()
}

#[test]
fn examples_parse_and_make_the_traces_that_they_use() {
    let mut count = 0;
    for help in helps(&Cli::command()) {
        let mut made = BTreeSet::new();
        for words in commands(&help) {
            if let Err(error) = Cli::try_parse_from(&words) {
                panic!("{words:?}: {error}");
            }
            let is_output = |at: usize| ["-o", "--output"].contains(&words[at - 1].as_str());
            for (at, word) in words.iter().enumerate().filter(|(_, word)| word.contains(".pctrace")) {
                if is_output(at) {
                    made.insert(word.clone());
                } else {
                    word.split(',').for_each(|trace| assert!(made.contains(trace), "{trace}: {words:?}"));
                }
            }
            count += 1;
        }
    }
    assert!(count > 40, "examples are found: {count}");
}
