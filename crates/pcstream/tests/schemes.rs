//! Parameters and readings of schemes, from the command line.

mod common;

use common::{Place, ends_with, json, refuses};

/// WAF of each result, by scheme.
fn wafs(args: &[&str]) -> Vec<(String, f64)> {
    let result = json(args);
    let results = result["results"].as_array().expect("a list");
    let of = |r: &serde_json::Value| (r["scheme"].as_str().unwrap().to_owned(), r["waf"].as_f64().unwrap());
    results.iter().map(of).collect()
}

fn simulate<'a>(trace: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["simulate", trace, "--gc", "own", "--json", "-"], more].concat()
}

#[test]
fn a_parameter_that_is_set_changes_its_scheme_and_no_other() {
    let place = Place::new();
    let trace = place.path("t.pctrace");
    let schemes = ["--scheme", "baseline,pcstream,pcstream-kinds"];
    let before = wafs(&simulate(&trace, &schemes));
    let set = [&schemes[..], &["--set", "pcstream.lifetime.chunk=256"]].concat();
    let after = wafs(&simulate(&trace, &set));
    assert_eq!((&before[0], &before[2]), (&after[0], &after[2]));
    assert_ne!(before[1], after[1]);
}

#[test]
fn schemes_are_listed_for_programs() {
    let all = json(&["schemes", "--json", "-"]);
    let schemes = all["schemes"].as_array().unwrap();
    let oracle = schemes.iter().find(|scheme| scheme["name"] == "oracle").unwrap();
    assert_eq!(oracle["knows_future"], true);
    let one = json(&["schemes", "autostream-mq", "--json", "-"]);
    let [scheme] = &one["schemes"].as_array().unwrap()[..] else { panic!("{one}") };
    assert!(schemes.contains(scheme) && scheme["readings"].as_array().unwrap().contains(&"sepbit".into()));
    let (text, _) = ends_with(0, &["schemes", "autostream-mq"]);
    for parameter in scheme["parameters"].as_array().unwrap() {
        let [name, default] = ["name", "default"].map(|key| parameter[key].as_str().unwrap());
        assert!(text.contains(&format!("  {name} = {default}\n")), "{name}");
    }
}

/// The table of facts in docs/schemes.md has each, with its scheme or with the one that it is like.
#[test]
fn the_document_names_every_fact() {
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schemes.md");
    let document = std::fs::read_to_string(document).expect("docs/schemes.md");
    let facts = document.split_once("\n## Facts\n").expect("a table of facts").1;
    let place = Place::new();
    let result = json(&simulate(&place.path("t.pctrace"), &["--scheme", "all"]));
    let mut seen = 0;
    for result in result["results"].as_array().expect("a list") {
        for fact in result["facts"].as_object().expect("facts by name").keys() {
            assert!(facts.contains(&format!("`{fact}`")), "{}: {fact}", result["scheme"]);
            seen += 1;
        }
    }
    assert!(seen > 50, "{seen}");
}

#[test]
fn what_cannot_be_set_is_refused_with_what_can() {
    let place = Place::new();
    let trace = place.path("t.pctrace");
    let refused = |setting: &str, words: &[&str]| {
        refuses(2, &simulate(&trace, &["--scheme", "sequential", "--set", setting]), words);
    };
    refused("sequential.pattern=1", &["did you mean patterns?", "patterns, candidates"]);
    refused("sequential.patterns=x", &["sequential.patterns is 'x'", "from 0 to 255"]);
    refused("sequential.candidates=0", &["candidates is 0", "between 1 and 4096"]);
    refused("sequentia.patterns=1", &["did you mean sequential?"]);
    refused("pcstream.kinds=true", &["pcstream is not in this run", "--scheme"]);
    refused("patterns=1", &["SCHEME.PARAMETER=VALUE"]);
}

#[test]
fn the_best_reading_is_the_one_with_the_lowest_waf() {
    let place = Place::new();
    let trace = place.path("t.pctrace");
    let readings: Vec<String> = pcstream_placement::find("autostream-mq")
        .unwrap()
        .readings()
        .iter()
        .map(|reading| format!("autostream-mq:{reading}"))
        .collect();
    let all = wafs(&simulate(&trace, &["--scheme", &readings.join(",")]));
    assert_eq!(all.len(), readings.len());
    let (name, waf) = all.iter().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
    let best = wafs(&simulate(&trace, &["--scheme", "baseline,autostream-mq:best"]));
    assert_eq!(best.len(), 2);
    assert_eq!(best[1], (name.replace(':', ":best="), *waf));
    let flags = ["--scheme", "baseline,autostream-mq:best", "--gc", "own", "--json", "-"];
    let page = place.path("report.html");
    assert_eq!(wafs(&[&["report", &trace, "-o", &page], &flags[..]].concat()), best);
    // Which reading is the best may differ from run to run.
    let other = place.path("other.pctrace");
    ends_with(0, &["generate", "zipf", "--pages", "8K", "--writes", "32K", "--seed", "2", "-o", &other]);
    let compared = json(&[&["compare", &trace, &other], &flags[..]].concat());
    let measures = compared["runs"][1]["measures"].as_object().expect("measures by name");
    let of_best: Vec<_> = measures.keys().filter(|name| name.contains("autostream-mq")).collect();
    assert_eq!(of_best, ["WAF: autostream-mq:best gc own", "flash: autostream-mq:best gc own"]);
    let sepbit = wafs(&simulate(&trace, &["--scheme", "autostream-mq:sepbit"]));
    assert_eq!(sepbit[0], *all.iter().find(|(name, _)| name == "autostream-mq:sepbit").unwrap());
}

#[test]
fn schemes_are_listed_and_explained() {
    let (list, _) = ends_with(0, &["schemes"]);
    assert_eq!(list.lines().count(), pcstream_placement::names().count());
    for scheme in pcstream_placement::schemes() {
        let (text, _) = ends_with(0, &["schemes", scheme.name]);
        for parameter in scheme.parameters() {
            let shown = format!("  {} = {}\n", parameter.name, parameter.value);
            assert!(text.contains(&shown) && text.contains(parameter.source), "{shown}\n{text}");
        }
        let first_words = || text.lines().filter_map(|line| line.split_whitespace().next());
        assert!(scheme.readings().iter().all(|&reading| first_words().any(|word| word == reading)), "{text}");
    }
    refuses(2, &["schemes", "pcstrem"], &["did you mean pcstream?"]);
}

#[test]
fn what_a_scheme_drops_at_its_memory_bound_is_a_loss() {
    let place = Place::new();
    let trace = place.path("t.pctrace");
    for (scheme, parameter) in [("pcstream", "lifetime.max_bytes"), ("pcstream-plus", "max_bytes")] {
        let simulate = ["simulate", trace.as_str(), "--scheme", scheme, "--gc", "own"];
        ends_with(0, &simulate);
        let bound = format!("{scheme}.{parameter}=8192");
        let (out, _) = ends_with(3, &[&simulate[..], &["--set", &bound]].concat());
        let out = out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(out.contains(&format!("{scheme} dropped what it knew of live data")), "{out}");
        assert!(out.contains(&format!("--set {scheme}.{parameter}=BYTES")), "{out}");
    }
}

#[test]
fn rules_are_printed_and_made_from_the_log_of_rocksdb() {
    let (list, _) = ends_with(0, &["rules"]);
    for (name, what) in pcstream_placement::Rules::presets() {
        assert!(list.contains(name) && list.contains(what), "{list}");
        let (text, _) = ends_with(0, &["rules", name]);
        assert!(pcstream_placement::Rules::parse(&text).is_ok(), "{text}");
    }
    refuses(2, &["rules", "rockdb"], &["did you mean rocksdb?"]);

    let place = Place::new();
    let (trace, log, rules) = (place.path("t.pctrace"), place.path("LOG"), place.path("my.rules"));
    let event =
        |text: &str| format!("2026/11/25-00:42:09.5 7152 EVENT_LOG_v1 {{\"job\": 2, \"event\": {text}}}\n");
    let whole = event("\"table_file_creation\", \"file_number\": 9") + &event("\"flush_finished\"");
    std::fs::write(&log, &whole).unwrap();
    let (text, err) = ends_with(0, &["rules", "--rocksdb-log", &log]);
    assert!(text.contains("name={000009}.sst -> 3\n") && err.contains("1 at level 0"), "{text}{err}");
    std::fs::write(&rules, text).unwrap();
    ends_with(0, &["simulate", &trace, "--scheme", "manual", "--gc", "own", "--rules", &rules]);

    std::fs::write(&log, whole.clone() + "EVENT_LOG_v1 {\"job\"").unwrap();
    let (_, err) = ends_with(3, &["rules", "--rocksdb-log", &log]);
    assert!(err.contains("1 events could not be read"), "{err}");
    std::fs::write(&log, "nothing\n").unwrap();
    refuses(1, &["rules", "--rocksdb-log", &log], &["no table's level", "LOG.old"]);
    refuses(1, &["rules", "--rocksdb-log", &place.path("none")], &["--rocksdb-log", "none"]);
}

/// One of them would have no effect, and nobody would know which.
#[test]
fn flags_that_set_the_same_twice_or_nothing_are_said() {
    let place = Place::new();
    let trace = place.path("t.pctrace");
    let run = |flags: &[&'static str]| {
        [&["simulate", trace.as_str(), "--scheme", "baseline,pcstream", "--gc", "own"], flags].concat()
    };
    let (set, other) = ("pcstream.table_bytes=13", "pcstream.table_bytes=26");
    refuses(
        2,
        &run(&["--set", set, "--table-bytes", "26"]),
        &["--set", set, "--table-bytes 26 says the same"],
    );
    refuses(2, &run(&["--set", set, "--set", other]), &[other, set, "sweep takes several values"]);
    let out = place.path("r.csv");
    let swept = ["sweep", &trace, "-o", &out, "--scheme", "pcstream", "--gc", "own", "--set", set];
    ends_with(0, &[&swept[..], &["--set", other]].concat());
    refuses(2, &[&swept[..], &["--table-bytes", "26"]].concat(), &["--table-bytes 26 says the same"]);
    let remarks = ["--table-bytes 26 has no effect", "--no-discard has no effect: the trace has no discards"];
    let said = |flags: &[&'static str]| {
        let err = ends_with(0, &run(flags)).1;
        remarks.map(|remark| err.contains(remark))
    };
    assert_eq!(said(&["--table-bytes", "26"]), [false, false]);
    assert_eq!(said(&["--table-bytes", "26", "--no-discard"]), [false, true]);
    let err = ends_with(0, &["simulate", &trace, "--scheme", "baseline", "--table-bytes", "26"]).1;
    assert!(err.contains(remarks[0]), "{err}");
}

#[test]
fn rules_without_a_rule_are_remarked_with_their_file() {
    let place = Place::new();
    let (trace, rules) = (place.path("t.pctrace"), place.path("my.rules"));
    std::fs::write(&rules, "\u{feff}# none yet\n").unwrap();
    let (_, err) = ends_with(0, &["simulate", &trace, "--scheme", "manual", "--rules", &rules]);
    assert!(err.contains(&format!("--rules {rules}: no line holds a rule, so all goes to S0")), "{err}");
}

#[test]
fn a_setting_of_a_file_that_does_not_fit_flags_is_refused_with_the_file() {
    let place = Place::new();
    let (trace, file) = (place.path("t.pctrace"), place.path("my.toml"));
    let with = |text: &str, flags: &[&str], said: &str| {
        std::fs::write(&file, text).unwrap();
        let words = [&["--config", &file, "simulate", &trace], flags].concat();
        refuses(2, &words, &[said, &format!(" is of configuration {file})")]);
    };
    let table = ["--set", "pcstream.table_bytes=13000"];
    with("[simulate]\ntable-bytes = 1300\n", &table, "--table-bytes 1300 says the same");
    let set = "[simulate]\nset = ['pcstream.averaging=0.3']\n";
    with(set, &["--scheme", "baseline"], "pcstream is not in this run");
}

/// A preset that knows nothing of a trace places as the baseline does, which is said.
#[test]
fn the_default_rules_know_generated_files_and_say_what_they_do_not_know() {
    let dir = tempfile::TempDir::new().unwrap();
    let trace = |name: &str| dir.path().join(name).display().to_string();
    let (files, uniform) = (trace("f.pctrace"), trace("u.pctrace"));
    ends_with(
        0,
        &["generate", "files", "--pages", "16K", "--writes", "256K", "--file-pages", "24", "-o", &files],
    );
    ends_with(0, &["generate", "uniform", "--pages", "4K", "--writes", "16K", "-o", &uniform]);
    let flags = ["--scheme", "baseline,manual", "--gc", "own", "--json", "-"];
    let remark = "no rule of the preset matched";
    for rules in ["common", "classes"] {
        let (out, err) = ends_with(0, &[&["simulate", &files, "--rules", rules], &flags[..]].concat());
        let result: serde_json::Value = serde_json::from_str(&out).unwrap();
        let waf = |lane: usize| result["results"][lane]["waf"].as_f64().unwrap();
        assert!(waf(1) < 0.95 * waf(0), "{rules}: {} {}", waf(0), waf(1));
        assert!(!err.contains(remark), "{err}");
    }
    let (_, err) = ends_with(0, &[&["simulate", &uniform], &flags[..]].concat());
    assert_eq!(err.matches(remark).count(), 1, "{err}");
}
