//! Errors name the flag, say the value once, and say what one looks like.

mod common;

use std::fs;

use common::{Place, ends_with, refuses};

/// A flag with a bad value, and what a good one is.
const BAD_VALUES: [(&[&str], &str, &str); 26] = [
    (&["simulate", "T", "--streams"], "300", "from 1 to 255"),
    (&["simulate", "T", "--spare-factor"], "7", "below 1"),
    (&["simulate", "T", "--overprovision"], "zz", "such as 0.14"),
    (&["simulate", "T", "--superblock-pages"], "zz", "such as 512M"),
    (&["simulate", "T", "--capacity"], "99999999T", "less than 16 EiB"),
    (&["simulate", "T", "--memory"], "zz", "such as 512M"),
    (&["simulate", "T", "--fill"], "7", "from 0 to 1"),
    (&["simulate", "T", "--pack"], "7", "above 0, at most 1"),
    (&["simulate", "T", "--pack-live"], "0", "above 0, at most 1"),
    (&["simulate", "T", "--prefill"], "7", "or 'trace'"),
    (&["simulate", "T", "--seed"], "zz", "0 or more"),
    (&["simulate", "T", "--timing", "--queue-depth"], "zz", "from 1 to 65536"),
    (&["simulate", "T", "--pools"], "zz", "such as 1,3"),
    (&["simulate", "T", "--background-gc"], "zz", "such as 4:8"),
    (&["simulate", "T", "--victim"], "zz", "greedy"),
    (&["simulate", "T", "--gc"], "zz", "internal"),
    (&["simulate", "T", "--profile"], "zz", "femu"),
    (&["run", "--depth"], "zz", "from 1 to 16"),
    (&["compare", "T", "T", "--top"], "zz", "such as 8"),
    (&["table", "diff", "T", "T", "--factor"], "zz", "1 or more"),
    (&["run", "--fill"], "-0.1", "from 0, below 1"),
    (&["run", "--memory"], "-5", "such as 512M"),
    (&["record", "-o", "T", "--on", "D", "--pid"], "x", "a whole number from 1"),
    (&["record", "-o", "T", "--on", "D", "--pid"], "0", "does the program run?"),
    (&["sweep", "T", "-o", "x.csv", "--streams"], "9..3", "FIRST..LAST, ascending"),
    (&["record", "-o", "T", "--on", "D", "--pid", "1", "--duration"], "zz", "such as 60s"),
];

#[test]
fn bad_values_are_said_once_with_the_flag_and_what_is_expected() {
    for (arguments, value, expected) in BAD_VALUES {
        let (_, error) = ends_with(2, &[arguments, &[value]].concat());
        let flag = arguments.last().expect("a flag");
        assert!(error.contains(flag) && error.contains(expected), "{flag}: {error}");
        assert_eq!(error.matches(&format!("'{value}'")).count(), 1, "the value once: {error}");
        assert!(!error.contains("invalid digit"), "{error}");
    }
}

#[test]
fn files_that_cannot_be_written_are_named_once() {
    let place = Place::new();
    let trace = place.path("t.pctrace");
    let generate = ["generate", "uniform", "--pages", "1000", "--writes", "1000", "-o", &trace];
    let (_, error) = ends_with(1, &generate);
    assert_eq!(error.matches(&trace).count(), 1, "{error}");
    assert!(error.contains("(-o)") && error.contains("--force"), "{error}");
    let json = place.path("missing/x.json");
    let (_, error) = ends_with(1, &["simulate", &trace, "--scheme", "baseline", "--json", &json]);
    assert!(error.contains(&format!("--json {json}: cannot write there: No such file")), "{error}");
    assert!(!error.contains(".pcstream-"), "no name that nobody gave: {error}");
}

#[test]
fn rules_and_parameters_name_their_flag() {
    let place = Place::new();
    let (trace, rules) = (place.path("t.pctrace"), place.path("my.rules"));
    fs::write(&rules, "# logs\nname=*.log 2\n").expect("writable");
    let manual = ["simulate", &trace, "--scheme", "manual", "--rules", &rules];
    refuses(2, &manual, &[&format!("--rules {rules}: line 2: 'name=*.log 2' has no '->'")]);
    let table = ["simulate", &trace, "--scheme", "pcstream", "--load-table", &rules];
    refuses(
        2,
        &table,
        &[&format!(
            "--load-table {rules}: this is no saved table of pcstream; `pcstream simulate --save-table"
        )],
    );
    let set = ["simulate", &trace, "--scheme", "pcstream", "--set", "pcstream.lifetime.max_bytes=1"];
    refuses(2, &set, &["--set: pcstream.lifetime.max_bytes is 1, but must be at least 4096"]);
}

/// Data and log often lie on two devices.
#[test]
fn two_places_at_once_are_refused_with_what_to_do() {
    for command in [&["top"][..], &["place"]] {
        let two = [command, &["--on", "/a", "--on", "/b"]].concat();
        refuses(2, &two, &["'--on <DIR|DEVICE>'", "start one for each"]);
    }
    refuses(2, &["doctor", "/a", "/b"], &["'/b'", "one directory or device at a time"]);
    let (_, error) = ends_with(2, &["top", "--once", "--once"]);
    assert!(!error.contains("tip:"), "{error}");
}

/// The description of a generator is its own.
#[test]
fn help_of_a_generator_says_what_it_generates() {
    let (help, _) = ends_with(0, &["generate", "hotcold", "--help"]);
    assert!(help.starts_with("A fraction of the pages gets"), "{help}");
}

/// Examples can be pasted: help wraps at the width of the terminal, and no terminal is narrower than this.
#[test]
fn examples_fit_into_a_line() {
    const COMMANDS: [&str; 22] = [
        "doctor",
        "demo",
        "run",
        "record",
        "top",
        "place",
        "serve",
        "sweep",
        "rules",
        "simulate",
        "contexts",
        "report",
        "advise",
        "compare",
        "geometry",
        "table",
        "schemes",
        "generate",
        "merge",
        "import",
        "completions",
        "man",
    ];
    let helps = COMMANDS.iter().map(|command| vec![*command, "--help"]).chain([vec!["--help"]]);
    let mut examples = 0;
    for arguments in helps {
        let (help, _) = ends_with(0, &arguments);
        let from = help.split_once("Examples:\n").map_or("", |(_, examples)| examples);
        for example in from.lines().take_while(|line| line.starts_with("  ")) {
            assert!(example.len() <= 80, "{} columns: {example}", example.len());
            examples += 1;
        }
    }
    assert!(examples > 20, "examples are found");
}
