//! Saved tables on the command line: `table show`, `merge`, `diff`, `export`.

mod common;

use std::fs;

use common::{Place, ends_with, json, refuses};
use serde_json::Value;

fn learn(trace: &str, table: &str, flags: &[&str]) {
    let all = [&["simulate", trace, "--scheme", "pcstream", "--save-table", table], flags].concat();
    ends_with(0, &all);
}

/// A second trace, whose lifetimes are others and whose contexts are the same.
fn other_trace(place: &Place) -> String {
    let trace = place.path("other.pctrace");
    let generate = ["generate", "hotcold", "--pages", "16K", "--writes", "256K", "--seed", "3", "-o", &trace];
    ends_with(0, &generate);
    trace
}

/// Lifetime and samples of the same context in another list.
fn learned(contexts: &[Value], entry: &Value) -> (u64, u64) {
    let same = contexts.iter().find(|e| e["signature"] == entry["signature"]).expect("in both");
    (same["lifetime_pages"].as_u64().expect("a number"), same["samples"].as_u64().expect("a number"))
}

#[test]
fn merged_tables_weigh_by_samples_and_can_be_loaded() {
    let place = Place::new();
    let (trace, other) = (place.path("t.pctrace"), other_trace(&place));
    let [a, b, merged] = ["a", "b", "merged"].map(|name| place.path(name));
    learn(&trace, &a, &[]);
    learn(&other, &b, &[]);
    ends_with(0, &["table", "merge", "-o", &merged, &a, &b]);
    let shown = json(&["table", "show", &a, &b, &merged, "--json", "-"]);
    let contexts = |table: usize| shown["tables"][table]["contexts"].as_array().expect("a list").clone();
    assert_eq!(contexts(2).len(), 2, "hot and cold: {shown}");
    for entry in contexts(2) {
        let [(l1, n1), (l2, n2)] = [0, 1].map(|table| learned(&contexts(table), &entry));
        assert_ne!(l1, l2, "the test would prove nothing");
        assert_eq!(entry["samples"].as_u64(), Some(n1 + n2));
        assert_eq!(entry["lifetime_pages"].as_u64(), Some((l1 * n1 + l2 * n2 + (n1 + n2) / 2) / (n1 + n2)));
    }
    let copy = place.path("copy");
    learn(&trace, &copy, &["--load-table", &merged]);
}

#[test]
fn show_diff_and_export_agree() {
    let place = Place::new();
    let (trace, other) = (place.path("t.pctrace"), other_trace(&place));
    let [a, b] = ["a", "b"].map(|name| place.path(name));
    learn(&trace, &a, &[]);
    learn(&other, &b, &[]);
    let same = json(&["table", "diff", &a, &a, "--factor", "1", "--json", "-"]);
    assert!(same["contexts"].as_array().expect("a list").iter().all(|d| d["changed"] == false), "{same}");
    let (text, _) = ends_with(0, &["table", "diff", &a, &b, "--factor", "1.01", "--top", "0"]);
    assert!(
        text.contains(" more with fewer samples: --top shows them") && text.lines().count() == 2,
        "{text}"
    );
    let (text, _) = ends_with(0, &["table", "diff", &a, &b, "--factor", "1.01"]);
    let (csv, _) = ends_with(0, &["table", "export", &a, &b]);
    let (shown, _) = ends_with(0, &["table", "show", &a, "--top", "1"]);
    assert_eq!(csv.lines().count(), 5, "{csv}");
    assert!(shown.contains("2 contexts") && shown.contains("1 more with fewer samples"), "{shown}");
    for line in csv.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!(fields.len(), 4, "{line}");
        assert!(text.contains(fields[1]), "{text}\n{line}");
    }
}

#[test]
fn recordings_name_the_contexts_of_tables() {
    let place = Place::new();
    let trace = place.path("t.pctrace");
    let table = place.path("a");
    learn(&trace, &table, &[]);
    let (shown, said) = ends_with(0, &["table", "show", &table, "--names", &trace]);
    assert!(shown.contains("program") && shown.contains("hot") && shown.contains("cold"), "{shown}");
    assert!(!said.contains("--names"), "{said}");
    let (csv, _) = ends_with(0, &["table", "export", &table, "--names", &trace]);
    assert!(csv.starts_with("file,signature,lifetime_pages,samples,program,call_path\n"), "{csv}");
    let named = json(&["table", "diff", &table, &table, "--names", &trace, "--json", "-"]);
    let programs: Vec<_> =
        named["contexts"].as_array().expect("a list").iter().map(|c| &c["program"]).collect();
    assert!(programs.len() == 2 && programs.iter().all(|program| program.is_string()), "{named}");
    let without = json(&["table", "show", &table, "--json", "-"]);
    assert!(without["tables"][0]["contexts"][0].get("program").is_none(), "{without}");

    let other = place.path("other.pctrace");
    ends_with(0, &["generate", "uniform", "--pages", "16K", "--writes", "64K", "-o", &other]);
    let (shown, said) = ends_with(0, &["table", "show", &table, "--names", &other]);
    assert!(!shown.contains("program"), "{shown}");
    assert!(said.contains("no trace of --names has 2 of 2 contexts"), "{said}");
    let (csv, _) = ends_with(0, &["table", "export", &table, "--names", &other]);
    assert!(csv.lines().next().is_some_and(|head| head.ends_with("program,call_path")), "{csv}");
    refuses(1, &["table", "show", &table, "--names", &table], &["--names", &table]);
}

#[test]
fn control_characters_in_names_of_files_are_escaped() {
    let place = Place::new();
    let table = place.path("\x1b[31mred");
    learn(&place.path("t.pctrace"), &table, &[]);
    for arguments in
        [&["table", "show", &table][..], &["table", "export", &table], &["table", "diff", &table, &table]]
    {
        let (out, _) = ends_with(0, arguments);
        assert!(out.contains("\\x1b[31mred") && !out.contains('\x1b'), "{arguments:?}: {out}");
    }
}

#[test]
fn what_is_no_table_is_named() {
    let place = Place::new();
    let [good, bad, out] = ["good", "bad", "out"].map(|name| place.path(name));
    learn(&place.path("t.pctrace"), &good, &[]);
    fs::write(&bad, "not a table at all").expect("it can be written");
    refuses(1, &["table", "show", &good, &bad], &[&bad, "no saved table of pcstream", "place --table"]);
    refuses(1, &["table", "merge", "-o", &out, &good, &bad], &[&bad]);
    fs::write(&bad, "").expect("it can be written");
    refuses(1, &["table", "show", &bad], &[&bad, "is empty"]);
    assert!(!fs::exists(&out).expect("it can be looked for"), "nothing is written for half of the tables");
    let mut damaged = fs::read(&good).expect("it was saved");
    damaged[20] ^= 1;
    fs::write(&bad, damaged).expect("it can be written");
    refuses(1, &["table", "export", &bad], &[&bad, "checksum", "save it again"]);
    refuses(1, &["table", "diff", &good, &place.path("none")], &["none", "No such file"]);
    refuses(2, &["table", "diff", &good, &good, "--factor", "0.5"], &["1 or more"]);
    refuses(2, &["table", "merge", "-o", &out], &["<FILE>"]);
    refuses(2, &["table", "export", &good, "--json", "-"], &["table show --json"]);
}

/// Nobody may ever write to a pipe, and what has no end is no table.
#[test]
fn only_regular_files_are_tables() {
    let place = Place::new();
    let [good, pipe, long, out] = ["good", "pipe", "long", "out"].map(|name| place.path(name));
    learn(&place.path("t.pctrace"), &good, &[]);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("a pipe");
    for other in [&pipe[..], "/dev/zero"] {
        for arguments in [
            &["table", "show", other][..],
            &["table", "export", other],
            &["table", "diff", &good, other],
            &["table", "merge", "-o", &out, &good, other],
        ] {
            refuses(1, arguments, &[other, "is not a regular file"]);
        }
    }
    let made = fs::File::create(&long).and_then(|file| file.set_len(65 << 20));
    made.expect("a file without data");
    refuses(1, &["table", "show", &long], &[&long, "is longer than"]);
}

/// A host began with the fleet's table: what it has of that counts once, in the base.
#[test]
fn what_the_fleet_knows_already_counts_once() {
    let place = Place::new();
    let (trace, other) = (place.path("t.pctrace"), other_trace(&place));
    let [fleet, went_on, idle, new] = ["fleet", "went_on", "idle", "new"].map(|name| place.path(name));
    learn(&trace, &fleet, &[]);
    learn(&other, &went_on, &["--load-table", &fleet]);
    fs::copy(&fleet, &idle).expect("it can be copied");
    let (_, said) = ends_with(0, &["table", "merge", "--base", &fleet, "-o", &new, &went_on, &idle]);
    assert!(!said.contains("hold the same") && !said.contains("fewer samples"), "{said}");
    let shown = json(&["table", "show", &fleet, &went_on, &new, "--json", "-"]);
    let contexts = |table: usize| shown["tables"][table]["contexts"].as_array().expect("a list").clone();
    assert_eq!(contexts(2).len(), 2, "hot and cold: {shown}");
    for entry in contexts(2) {
        let [(l1, n1), (l2, n2)] = [0, 1].map(|table| learned(&contexts(table), &entry));
        assert!(n2 > n1, "the test would prove nothing: {shown}");
        assert_eq!(entry["samples"].as_u64(), Some(n2), "those of the fleet, and new ones: {shown}");
        let mean = (l1 * n1 + l2 * (n2 - n1) + n2 / 2) / n2;
        assert_eq!(entry["lifetime_pages"].as_u64(), Some(mean), "{shown}");
    }
    // One that learned as much again holds something else than the base, though it learned the same.
    let twice = place.path("twice");
    let mut doubled = fs::read(&fleet).expect("a table");
    let end = doubled.len() - 8;
    for entry in doubled[64..end].chunks_exact_mut(16) {
        let samples = u32::from_le_bytes(entry[12..].try_into().expect("four bytes"));
        entry[12..].copy_from_slice(&(2 * samples).to_le_bytes());
    }
    let sum = pcstream_placement::fnv1a(&doubled[..end]).to_le_bytes();
    doubled[end..].copy_from_slice(&sum);
    fs::write(&twice, doubled).expect("it can be written");
    let (_, said) = ends_with(0, &["table", "merge", "--base", &fleet, "-o", &idle, &twice]);
    assert!(!said.contains("hold the same"), "{said}");
    // A host that forgot and learned again has fewer samples than the base.
    let (_, said) = ends_with(0, &["table", "merge", "--base", &new, "-o", &idle, &fleet]);
    assert!(said.contains(&format!("{fleet}: 2 contexts with fewer samples than in the base")), "{said}");
    refuses(2, &["table", "merge", "--base", &new, "-o", &idle, &new], &["are one file"]);
}

/// Samples that count twice weigh too much, and say nothing of it.
#[test]
fn no_table_counts_twice_without_a_word() {
    let place = Place::new();
    let [a, copy, link, out] = ["a", "copy", "link", "out"].map(|name| place.path(name));
    learn(&place.path("t.pctrace"), &a, &[]);
    fs::copy(&a, &copy).expect("it can be copied");
    std::os::unix::fs::symlink(&a, &link).expect("it can be linked");
    refuses(2, &["table", "merge", "-o", &out, &a, &a], &[&format!("{a} and {a} are one file")]);
    refuses(2, &["table", "merge", "-o", &out, &a, &copy, &link], &[&a, &link, "each table once"]);
    assert!(!fs::exists(&out).expect("it can be looked for"));
    let (_, said) = ends_with(0, &["table", "merge", "-o", &out, &a, &copy]);
    assert!(said.contains(&format!("{a} and {copy} hold the same")), "{said}");
    assert!(fs::exists(&out).expect("it can be looked for"));
}

#[test]
fn tables_of_two_schemes_are_not_merged() {
    let place = Place::new();
    let trace = place.path("t.pctrace");
    let [pc, tree, out] = ["pc", "tree", "out"].map(|name| place.path(name));
    learn(&trace, &pc, &[]);
    ends_with(0, &["simulate", &trace, "--scheme", "pcstream-tree", "--save-table", &tree]);
    refuses(2, &["table", "merge", "-o", &out, &pc, &tree], &[&pc, "'pcstream'", &tree, "'pcstream-tree'"]);
    assert!(!fs::exists(&out).expect("it can be looked for"));
    let shown = json(&["table", "show", &pc, &tree, "--json", "-"]);
    assert_eq!(
        (&shown["tables"][0]["scheme"], &shown["tables"][1]["scheme"]),
        (&"pcstream".into(), &"pcstream-tree".into())
    );
    let (text, _) = ends_with(0, &["table", "show", &tree]);
    assert!(text.contains("learned; scheme pcstream-tree"), "{text}");
}

/// The entries of one are programs, those of the other call paths: side by side they would share streams.
#[test]
fn tables_of_two_kinds_of_keys_are_not_mixed() {
    let place = Place::new();
    let trace = place.path("t.pctrace");
    let [paths, programs, out] = ["paths", "programs", "out"].map(|name| place.path(name));
    let by_program = ["--set", "pcstream.key=executable"];
    learn(&trace, &paths, &[]);
    learn(&trace, &programs, &by_program);
    refuses(
        2,
        &["table", "merge", "-o", &out, &paths, &programs],
        &[&paths, "'context'", &programs, "'executable'"],
    );
    assert!(!fs::exists(&out).expect("it can be looked for"));
    refuses(2, &["table", "diff", &paths, &programs], &["'context'", "'executable': compare tables of one"]);
    let load = ["simulate", &trace, "--scheme", "pcstream", "--load-table"];
    let key = ["keys of the kind 'executable'", "parameter key of the scheme to executable"];
    refuses(2, &[&load[..], &[&programs]].concat(), &key);
    refuses(2, &[&load[..], &[&paths], &by_program].concat(), &["keys of the kind 'context'"]);
    learn(&trace, &out, &[&["--load-table", &programs], &by_program[..]].concat());
    let shown = json(&["table", "show", &paths, &programs, "--json", "-"]);
    assert_eq!(
        (&shown["tables"][0]["key"], &shown["tables"][1]["key"]),
        (&"context".into(), &"executable".into())
    );
    let (text, _) = ends_with(0, &["table", "show", &programs]);
    assert!(text.contains("scheme pcstream, keys: executable"), "{text}");
}

/// Whoever was not followed in one recording is somebody else in the next.
#[test]
fn the_context_of_others_is_in_no_table() {
    let place = Place::new();
    let [csv, trace, table] = ["t.csv", "others.pctrace", "table"].map(|name| place.path(name));
    let line =
        |at: u64| format!("{at},write,{},4096,{}\n", at % 64 * 4096, ["mine", "others"][at as usize % 2]);
    let lines: String = (0..4096).map(line).collect();
    let columns = "time=time,op=op,offset=offset,size=size,context=context";
    fs::write(&csv, format!("time,op,offset,size,context\n{lines}")).expect("written");
    ends_with(0, &["import", "--format", "columns", "--columns", columns, &csv, "-o", &trace]);
    let (_, said) = ends_with(0, &["simulate", &trace, "--scheme", "pcstream", "--save-table", &table]);
    assert!(said.contains("--save-table: the context of others is left out"), "{said}");
    let shown = json(&["table", "show", &table, "--json", "-"]);
    assert_eq!(shown["tables"][0]["contexts"].as_array().map(Vec::len), Some(1), "{shown}");
}

/// Names that are missing are then no sign of another build.
#[test]
fn recordings_that_lack_something_are_said_and_end_with_3() {
    let place = Place::new();
    let [trace, table] = ["t.pctrace", "table"].map(|name| place.path(name));
    learn(&trace, &table, &[]);
    let meta = format!("{trace}/meta.json");
    let mut value: Value = serde_json::from_slice(&fs::read(&meta).expect("it is there")).expect("JSON");
    value["losses"]["context_table"] = 7.into();
    fs::write(&meta, value.to_string()).expect("it can be written");
    for command in
        [&["table", "show", &table][..], &["table", "export", &table], &["table", "diff", &table, &table]]
    {
        let (out, said) = ends_with(3, &[command, &["--names", &trace]].concat());
        assert!(said.contains(&format!("{trace}: something was lost")), "{command:?}: {said}");
        assert!(!out.is_empty(), "{command:?}");
        ends_with(0, command);
    }
}
