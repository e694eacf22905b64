//! The binary as scripts see it: exit codes, JSON, what goes to stdout and what to stderr.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use common::{Place, ends_with, json, refuses, text};
use serde_json::{Value, json};

/// Every path of keys; array elements are `[]`, objects with free keys are cut off.
fn key_paths(value: &Value, path: &str, paths: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let path = format!("{path}.{key}");
                let free = ["losses", "facts", "kinds", "parameters", "set"].contains(&key.as_str());
                if free {
                    paths.insert(format!("{path}{{}}"));
                } else {
                    key_paths(value, &path, paths);
                }
            }
        }
        Value::Array(values) => {
            if values.is_empty() {
                paths.insert(format!("{path}[]"));
            }
            values.iter().for_each(|value| key_paths(value, &format!("{path}[]"), paths));
        }
        _ => _ = paths.insert(path.to_owned()),
    }
}

fn paths(value: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    key_paths(value, "", &mut found);
    found
}

/// Scripts rely on these: the list may grow, but nothing in it may go.
const SIMULATION_KEYS: &str = "
    .pcstream .seed
    .trace.path .trace.events .trace.host_pages .trace.discarded_pages .trace.contexts .trace.context_coverage
    .trace.lost_events .trace.id .trace.command[] .trace.zeroed_pages .trace.read_pages .trace.files .trace.losses{}
    .trace.complete .trace.damage
    .trace.call_paths.exact .trace.call_paths.cut .trace.call_paths.fp .trace.call_paths.scan
    .trace.call_paths.runtime .trace.call_paths.label .trace.call_paths.none
    .settings.set{} .settings.rules .settings.table_bytes .settings.load_table .settings.prefill .settings.pack
    .settings.pack_live .settings.fill .settings.no_discard .space
    .device.logical_pages .device.address_pages .device.physical_pages .device.superblock_pages .device.superblocks .device.spare_factor
    .device.overprovisioning .device.streams .device.victim .device.prefill_pages
    .device.pools[] .device.background_gc .device.origin .device.timing
    .results[].scheme .results[].gc_destination .results[].knows_future .results[].reads_addresses .results[].host_pages .results[].flash_pages
    .results[].gc_pages .results[].erases .results[].waf .results[].steady_waf .results[].steady_from_host_pages
    .results[].default_stream_share .results[].parameters{} .results[].free_superblocks
    .results[].open_superblocks .results[].worst_case_spare_factor .results[].shared_gc_pages
    .results[].victim_validity[] .results[].facts{}
    .results[].steady .results[].background_erases
    .results[].wear.least .results[].wear.mean .results[].wear.most .results[].wear.deviation
    .results[].fdp.host_bytes_written .results[].fdp.media_bytes_written .results[].fdp.media_bytes_erased
    .results[].iops .results[].latency_us .results[].simulated_seconds .results[].gc_time_share .results[].throughput
    .results[].streams[].stream .results[].streams[].host_pages .results[].streams[].gc_pages
    .results[].streams[].lifetime_pages .results[].streams[].lifetime_pages.p25
    .results[].streams[].lifetime_pages.p50 .results[].streams[].lifetime_pages.p75 .results[].streams[].ended_pages
    .results[].streams[].internal .results[].streams[].internal.pages .results[].streams[].internal.copied_again
    .results[].streams[].internal.lifetime_pages .results[].streams[].internal.lifetime_pages.p25
    .results[].streams[].internal.lifetime_pages.p50 .results[].streams[].internal.lifetime_pages.p75
    .results[].streams[].internal.ended_pages
    .comparisons[].scheme .comparisons[].gc_destination .comparisons[].flash_pages_ratio .comparisons[].life_ratio_by_erases
    .comparisons[].reference .comparisons[].reference_scheme .comparisons[].reference_gc_destination
    .verdict.sentences[] .verdict.matters .verdict.best_foreseeing .verdict.flash_saved .verdict.life_ratio
    .verdict.flash_saved_on_same_drive .verdict.flash_saved_on_legacy_drive
    .verdict.steady .verdict.bytes_to_steady
    .verdict.now.scheme .verdict.now.gc_destination .verdict.now.drive .verdict.now.waf .verdict.now.steady_waf
    .verdict.now.flash_bytes .verdict.now.flash_bytes_per_day
    .verdict.with_streams.scheme .verdict.with_streams.gc_destination .verdict.with_streams.drive
    .verdict.with_streams.waf .verdict.with_streams.steady_waf .verdict.with_streams.flash_bytes
    .verdict.with_streams.flash_bytes_per_day
    .verdict.real_writes.scheme .verdict.real_writes.gc_destination .verdict.real_writes.drive
    .verdict.real_writes.waf .verdict.real_writes.steady_waf .verdict.real_writes.flash_bytes
    .verdict.real_writes.flash_bytes_per_day
    .verdict.same_drive.scheme .verdict.same_drive.gc_destination .verdict.same_drive.drive
    .verdict.same_drive.waf .verdict.same_drive.steady_waf .verdict.same_drive.flash_bytes
    .verdict.same_drive.flash_bytes_per_day
    .verdict.on_legacy_drive.scheme .verdict.on_legacy_drive.gc_destination .verdict.on_legacy_drive.drive
    .verdict.on_legacy_drive.waf .verdict.on_legacy_drive.steady_waf .verdict.on_legacy_drive.flash_bytes
    .verdict.on_legacy_drive.flash_bytes_per_day
    .contexts[]";

/// With `--timing`, on a run that is long enough to become steady.
const TIMING_KEYS: &str = "
    .device.timing.channels .device.timing.dies_per_channel .device.timing.pages_per_program .device.timing.read_ns
    .device.timing.program_ns .device.timing.erase_ns .device.timing.transfer_ns .device.timing.command_ns
    .device.timing.buffer_pages .device.timing.queue_depth
    .results[].latency_us.read .results[].latency_us.write.requests .results[].latency_us.write.mean
    .results[].latency_us.write.p50 .results[].latency_us.write.p99 .results[].latency_us.write.p99_9
    .results[].latency_us.write.p99_99 .results[].latency_us.write.max
    .results[].throughput.interval_ms .results[].throughput.pages[] .results[].throughput.gc_pages[]
    .results[].steady.first_round .results[].steady.rounds .results[].steady.waf .results[].steady.half_width_95";

const CONTEXT_KEYS: &str = "
    .scheme .streams .selection .groups[]
    .contexts[].id .contexts[].signature .contexts[].executable .contexts[].comm .contexts[].entry
    .contexts[].unwind .contexts[].pages .contexts[].share .contexts[].kinds{} .contexts[].lifetime_pages.p25
    .contexts[].lifetime_pages.p50 .contexts[].lifetime_pages.p75 .contexts[].alive_pages .contexts[].stream
    .contexts[].files[] .contexts[].frames[]";

#[test]
fn the_json_contract_holds() {
    let place = Place::new();
    let trace = place.path("t.pctrace");
    let simulation = json(&["simulate", &trace, "--scheme", "baseline,pcstream", "--json", "-"]);
    let found = paths(&simulation);
    let expected: BTreeSet<String> = SIMULATION_KEYS.split_whitespace().map(str::to_owned).collect();
    assert_eq!(found, expected, "a new key goes into the list and into docs/json.md");
    let small = place.path("small.pctrace");
    ends_with(0, &["generate", "uniform", "--pages", "16K", "--writes", "160K", "-o", &small]);
    let timed = ["simulate", &small, "--scheme", "baseline,pcstream", "--timing", "--json", "-"];
    let timed = paths(&json(&timed));
    for key in SIMULATION_KEYS.split_whitespace().chain(TIMING_KEYS.split_whitespace()) {
        // A number with parts, or a list that is not empty, has longer paths.
        assert!(timed.iter().any(|found| found.starts_with(key.trim_end_matches("[]"))), "{key}");
    }
    let contexts = paths(&json(&["contexts", &trace, "--json", "-"]));
    for key in CONTEXT_KEYS.split_whitespace() {
        assert!(contexts.contains(key), "{key}");
    }

    let version = simulation["pcstream"].as_str().unwrap();
    assert!(
        version.starts_with(concat!(env!("CARGO_PKG_VERSION"), "+")),
        "{version} does not name its build"
    );
    assert!(ends_with(0, &["--version"]).0.starts_with(&format!("pcstream {version}\n")));
    assert_eq!(simulation["seed"], 1);
    assert_eq!(simulation["trace"]["host_pages"], 256 << 10);
    assert_eq!(simulation["trace"]["contexts"], 2);
    assert_eq!(simulation["trace"]["context_coverage"], 1.0);
    assert_eq!(simulation["trace"]["call_paths"]["label"], 1.0);
    assert_eq!(simulation["device"]["logical_pages"], 64 << 10);
    assert_eq!(simulation["device"]["superblock_pages"], 128, "0.23 % of 64 Ki, as a power of two");
    assert_eq!(simulation["device"]["prefill_pages"], 64 << 10);
    let results = simulation["results"].as_array().unwrap();
    let lanes: Vec<_> = results.iter().map(|r| format!("{}/{}", r["scheme"], r["gc_destination"])).collect();
    assert_eq!(
        lanes,
        [
            r#""baseline"/"own""#,
            r#""baseline"/"internal""#,
            r#""pcstream"/"own""#,
            r#""pcstream"/"internal""#
        ]
    );
    for result in results {
        let number = |key: &str| result[key].as_u64().unwrap();
        assert_eq!(number("flash_pages"), number("host_pages") + number("gc_pages"));
        assert_eq!(result["waf"], number("flash_pages") as f64 / number("host_pages") as f64);
        assert!(result["waf"].as_f64().unwrap() > 1.0);
        assert_eq!(result["streams"].as_array().unwrap().len(), 9);
    }
    assert_eq!(results[0]["default_stream_share"], 1.0);
}

/// Everything that changes a result is in it; a file with its digest.
#[test]
fn a_result_says_what_was_simulated() {
    let place = Place::new();
    let (trace, rules, table) = (place.path("t.pctrace"), place.path("my rules"), place.path("table"));
    fs::write(&rules, "* -> 1\n").unwrap();
    let schemes = ["--scheme", "baseline,manual,pcstream,autostream-mq:sepbit", "--gc", "own"];
    ends_with(0, &[&["simulate", &trace, "--save-table", &table], &schemes[..]].concat());
    let simulate = |flags: &[&str]| {
        let (out, _) = ends_with(0, &[&["simulate", &trace, "--json", "-"], &schemes[..], flags].concat());
        serde_json::from_str::<Value>(&out).unwrap()
    };
    let plain = simulate(&[]);
    assert_eq!((&plain["settings"]["set"], &plain["settings"]["rules"]), (&json!({}), &Value::Null));
    assert_eq!(plain["results"][2]["parameters"], json!({}));
    assert_eq!(plain, simulate(&[]), "nothing in it depends on the machine");

    let given = [
        "--rules",
        &rules,
        "--load-table",
        &table,
        "--table-bytes",
        "1300",
        "--prefill",
        "0.5",
        "--no-discard",
    ];
    let changed = simulate(&[&given[..], &["--set", "pcstream.mapper.distance=log"]].concat());
    let settings = &changed["settings"];
    assert_eq!(settings["set"], json!({"pcstream.mapper.distance": "log"}));
    assert_eq!(settings["rules"], json!({"name": rules, "xxh3": "405bc6933e7609c6"}));
    assert_eq!(settings["load_table"]["xxh3"].as_str().unwrap().len(), 16);
    assert_eq!((&settings["table_bytes"], &settings["prefill"]), (&1300.into(), &0.5.into()));
    assert_eq!((&settings["no_discard"], &changed["device"]["origin"]), (&true.into(), &Value::Null));
    let parameters = |scheme: usize| changed["results"][scheme]["parameters"].clone();
    assert_eq!(parameters(0), json!({}));
    assert_eq!(parameters(1), json!({"rules": rules}));
    assert_eq!(parameters(2), json!({"mapper.distance": "log", "table_bytes": "1300"}));
    assert!(parameters(3).as_object().unwrap().len() > 1, "a reading is values of parameters");

    let packed = simulate(&["--pack", "0.9", "--capacity", "512M", "--rules", "rocksdb"]);
    assert_eq!(packed["settings"]["pack"], 0.9);
    assert_eq!(packed["settings"]["rules"], json!({"name": "rocksdb", "xxh3": null}));
    // A saved table is a file, also one that has the name of a preset.
    let like_a_preset = place.path("rocksdb");
    fs::rename(&table, &like_a_preset).unwrap();
    let loaded = Command::cargo_bin("pcstream")
        .unwrap()
        .current_dir(Path::new(&like_a_preset).parent().unwrap())
        .args(["simulate", "t.pctrace", "--json", "-", "--load-table", "rocksdb", "--scheme", "pcstream"])
        .output()
        .unwrap();
    let loaded: Value = serde_json::from_slice(&loaded.stdout).unwrap();
    assert_eq!(loaded["settings"]["load_table"]["xxh3"], settings["load_table"]["xxh3"]);
    let space = json!({"packed_pages": 46219, "live_pages": null, "static_pages": 71746});
    assert_eq!(packed["space"], space);
}

/// docs/json.md names every key, in a row of the field that it belongs to.
#[test]
fn the_document_names_every_key() {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/json.md");
    let document = fs::read_to_string(document).expect("docs/json.md");
    let section = |heading: &str| {
        let begins = format!("{heading}\n");
        document.split("\n## ").find(|section| section.starts_with(&begins)).expect("a section")
    };
    let of = |heading, keys: &'static str| keys.split_whitespace().map(move |path| (heading, path));
    let of_simulate = of("simulate and run", SIMULATION_KEYS).chain(of("simulate and run", TIMING_KEYS));
    for (heading, path) in of_simulate.chain(of("contexts", CONTEXT_KEYS)) {
        let field = path.trim_start_matches('.').split(['.', '[', '{']).next().expect("a key");
        // A row of a table, or what is said outside of it.
        let row = format!("| `{field}");
        let is_about = |line: &&str| {
            !line.starts_with('|')
                || line.strip_prefix(&row).is_some_and(|rest| rest.starts_with(['.', '[', '{', '`']))
        };
        let lines: Vec<&str> = section(heading).lines().filter(is_about).collect();
        let key = path.rsplit('.').next().expect("a key").trim_end_matches(['[', ']', '{', '}']);
        let named = [
            format!(".{key}`"),
            format!(".{key}."),
            format!(".{key}["),
            format!(".{key}{{"),
            format!("`{key}`"),
            format!("`{key}["),
        ];
        let is_named = |line: &&str| named.iter().any(|form| line.contains(form));
        assert!(lines.iter().any(is_named), "{path} is not in docs/json.md, {heading}");
    }
}

#[test]
fn all_schemes_together_equal_each_alone_and_a_second_run() {
    let place = Place::new();
    let trace = place.path("t.pctrace");
    let all = || json(&["simulate", &trace, "--scheme", "all", "--gc", "own,internal,shared", "--json", "-"]);
    let together = all();
    assert_eq!(together, all());
    let results = together["results"].as_array().unwrap();
    let schemes: BTreeSet<&str> = results.iter().map(|r| r["scheme"].as_str().unwrap()).collect();
    assert_eq!(results.len(), 3 * schemes.len());
    for scheme in schemes {
        let alone = json(&["simulate", &trace, "--scheme", scheme, "--gc", "internal", "--json", "-"]);
        let same =
            results.iter().find(|r| r["scheme"] == scheme && r["gc_destination"] == "internal").unwrap();
        assert_eq!(&alone["results"][0], same, "{scheme}");
    }
}

#[test]
fn tables_for_people_and_a_json_file_beside_them() {
    let place = Place::new();
    let (trace, file) = (place.path("t.pctrace"), place.path("r.json"));
    let (out, err) = ends_with(0, &["simulate", &trace, "--json", &file, "--seed", "5"]);
    for word in [
        "scheme",
        "multi-stream SSD",
        "FDP persistent",
        "baseline",
        "oracle",
        "Sf 12.6 %",
        "OP 14.5 %",
        "seed 5",
    ] {
        assert!(out.contains(word), "{word} is missing in\n{out}");
    }
    let (details, _) = ends_with(0, &["simulate", &trace, "--details"]);
    for word in ["on S0", "own: GC pages", "internal: GC pages", "without them", "S1'", "life p25"] {
        assert!(details.contains(word) && !out.contains(word), "{word} belongs to the details:\n{details}");
    }
    assert!(err.starts_with("pcstream: seed 5\n"), "the seed comes first: {err}");
    assert!(!out.contains('\u{1b}') && !err.contains('\u{1b}'), "no colours into a pipe");
    let written: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(written["seed"], 5);
    let coloured = ends_with(0, &["simulate", &trace, "--color", "always", "-q"]);
    assert!(coloured.0.contains('\u{1b}') && coloured.1.is_empty());
    let (contexts, _) = ends_with(0, &["contexts", &trace, "--top", "1"]);
    assert!(contexts.contains("1 more wrote"), "{contexts}");
}

/// Internal streams have counters and lifetimes of their own (FAST'19, Fig. 11 and 12).
#[test]
fn internal_streams_are_counted_apart() {
    let trace = format!("{}/tests/data/hotcold.pctrace", env!("CARGO_MANIFEST_DIR"));
    let flags = ["--scheme", "baseline", "--gc", "own,internal", "--json", "-"];
    let result = json(&[&["simulate", trace.as_str()], &flags[..]].concat());
    let stream = |index: usize| result["results"][index]["streams"][0].clone();
    let (own, with) = (stream(0), stream(1));
    assert!(own["internal"].is_null());
    assert_eq!(with["internal"]["pages"], with["gc_pages"]);
    let ended = |value: &Value| value["ended_pages"].as_u64().unwrap();
    assert_eq!(ended(&own), ended(&with) + ended(&with["internal"]), "every page ends in one of the two");
    let median = |value: &Value| value["lifetime_pages"]["p50"].as_u64().unwrap();
    assert!(median(&with) < median(&own) && median(&own) < median(&with["internal"]), "{with}");
}

#[test]
fn a_waf_of_one_is_explained() {
    let place = Place::new();
    let few = place.path("few.pctrace");
    ends_with(0, &["generate", "uniform", "--pages", "64K", "--writes", "100", "-o", &few]);
    let (out, _) = ends_with(0, &["simulate", &few, "--prefill", "0.1"]);
    assert!(out.contains("every result: GC never ran, because free superblocks never ran out"), "{out}");
}

#[test]
fn generated_traces_are_reproducible_and_not_overwritten() {
    let place = Place::new();
    let make = |name: &str, seed: &str| {
        let path = place.path(name);
        ends_with(
            0,
            &["generate", "zipf", "--pages", "1000", "--writes", "5000", "--seed", seed, "-o", &path],
        );
        json(&["simulate", &path, "--scheme", "baseline", "--streams", "2", "--json", "-"])["trace"]["id"]
            .clone()
    };
    assert_eq!(make("a.pctrace", "1"), make("b.pctrace", "1"));
    assert_ne!(make("c.pctrace", "1"), make("d.pctrace", "2"));
    let again = ["generate", "uniform", "--pages", "10", "--writes", "10", "-o", &place.path("a.pctrace")];
    refuses(1, &again, &["a.pctrace", "exists"]);
    ends_with(0, &[&again[..], &["--force"]].concat());
}

#[test]
fn wrong_arguments_end_with_2() {
    let place = Place::new();
    let trace = place.path("t.pctrace");
    let simulate =
        |flags: &[&str], words: &[&str]| refuses(2, &[&["simulate", &trace], flags].concat(), words);
    simulate(&["--scheme", "pcstrem"], &["--scheme", "pcstrem", "did you mean pcstream?"]);
    simulate(&["--scheme", ""], &["--scheme"]);
    simulate(&["--gc", "intern"], &["--gc", "did you mean internal?"]);
    simulate(&["--victim", "gredy"], &["--victim", "did you mean greedy?"]);
    simulate(&["--stream", "9"], &["'--stream'", "--streams"]);
    simulate(&["--streams", "0"], &["--streams"]);
    simulate(&["--spare-factor", "1"], &["--spare-factor", "below 1"]);
    simulate(&["--spare-factor", "0.1", "--overprovision", "0.1"], &["cannot be used with"]);
    simulate(&["--superblock-pages", "12Q"], &["--superblock-pages", "'12Q'", "such as 512M"]);
    simulate(&["--prefill", "90%"], &["--prefill", "or 'trace'"]);
    simulate(&["--seed", "-1"], &["seed"]);
    simulate(&["--spare-factor", "0"], &["no room for GC", "--streams"]);
    simulate(&["--superblock-pages", "32K"], &["no room for GC", "--superblock-pages"]);
    simulate(&["--rules", "rocksdbb"], &["--rules rocksdbb", "no such file", "rocksdb"]);
    refuses(2, &["simulat", &trace], &["simulate"]);
    refuses(2, &["generate", "uniforn", "--pages", "1", "--writes", "1", "-o", "x"], &["uniform"]);
    let zipf =
        ["generate", "zipf", "--pages", "10", "--writes", "10", "--theta", "-3", "-o", &place.path("z")];
    refuses(2, &zipf, &["theta"]);
    assert!(!Path::new(&place.path("z")).exists() && !Path::new(&place.path("z.partial")).exists());
    refuses(2, &["run"], &["COMMAND"]);
    refuses(2, &["record", "--", "true"], &["--output"]);
    refuses(
        2,
        &["record", "-o", "x", "--on", "/", "--image", "zram", "--", "true"],
        &["cannot be used with"],
    );
    refuses(2, &["run", "--fs", "btrfs", "--", "true"], &["--fs", "ext4", "xfs"]);
}

#[test]
fn unreadable_traces_end_with_1() {
    let place = Place::new();
    let missing = place.path("missing.pctrace");
    refuses(1, &["simulate", &missing], &["missing.pctrace"]);
    refuses(1, &["contexts", &missing], &["missing.pctrace"]);
    let foreign = place.path("foreign");
    fs::create_dir(&foreign).unwrap();
    refuses(1, &["simulate", &foreign], &["foreign"]);
    let file = place.path("file.pctrace");
    fs::write(&file, "not a trace").unwrap();
    refuses(1, &["simulate", &file], &["file.pctrace"]);
    refuses(
        1,
        &["simulate", &place.path("t.pctrace"), "--json", "/nonexistent/r.json"],
        &["--json /nonexistent/r.json"],
    );
    refuses(1, &["simulate", &place.path("t.pctrace"), "--json", &foreign], &["is a directory"]);
    let rules = place.path("rules");
    fs::write(&rules, "kind=journal 1\n").unwrap();
    refuses(2, &["simulate", &place.path("t.pctrace"), "--rules", &rules], &["line 1", "->"]);
}

/// Flips bytes of a file near its end or its middle.
fn damage(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at..at + 64].iter_mut().for_each(|b| *b ^= 0x5a);
    fs::write(path, bytes).unwrap();
}

/// Where a trace's events are.
fn events(trace: &str) -> PathBuf {
    Path::new(trace).join("events.parquet")
}

#[test]
fn truncated_and_damaged_traces_never_pass_for_whole_ones() {
    let place = Place::new();
    let truncated = place.path("t.pctrace");
    let length = fs::metadata(events(&truncated)).unwrap().len();
    fs::File::options().write(true).open(events(&truncated)).unwrap().set_len(length / 2).unwrap();
    refuses(1, &["simulate", &truncated], &["events.parquet"]);

    // Damage at the start leaves nothing to report; in the last row groups, those before.
    let long = place.path("long.pctrace");
    let make = ["generate", "uniform", "--pages", "64K", "--writes", "1M", "-o", &long, "--force"];
    ends_with(0, &make);
    damage(&events(&long), 1000);
    refuses(1, &["simulate", &long], &["events.parquet"]);
    ends_with(0, &make);
    let length = fs::metadata(events(&long)).unwrap().len() as usize;
    damage(&events(&long), length / 8 * 7);
    let (out, err) = ends_with(3, &["simulate", &long, "--json", "-"]);
    let value: Value = serde_json::from_str(&out).unwrap();
    let replayed = value["trace"]["events"].as_u64().unwrap();
    assert!(replayed > 0 && replayed < 1 << 20, "{replayed}");
    assert!(value["trace"]["damage"].as_str().unwrap().contains("events.parquet"));
    assert!(err.contains("the trace is damaged"), "{err}");
    let (table, _) = ends_with(3, &["contexts", &long]);
    assert!(table.contains("the trace is damaged"), "{table}");
}

#[test]
fn lost_events_end_with_3() {
    let place = Place::new();
    let trace = place.path("t.pctrace");
    let meta = Path::new(&trace).join("meta.json");
    let mut value: Value = serde_json::from_str(&fs::read_to_string(&meta).unwrap()).unwrap();
    value["losses"]["events"] = 7.into();
    fs::write(&meta, value.to_string()).unwrap();
    let (out, err) = ends_with(3, &["simulate", &trace]);
    assert!(out.contains("missing from the trace: events 7"), "{out}");
    assert!(err.contains("lost"), "{err}");
    assert!(err.contains(&format!("{trace}: something was lost")) && err.contains("events 7"), "{err}");
    let (json, _) = ends_with(3, &["simulate", &trace, "--json", "-"]);
    assert_eq!(serde_json::from_str::<Value>(&json).unwrap()["trace"]["lost_events"], 7);
    let scheme = ["--scheme", "baseline"];
    for command in [
        &[&["compare", "-q", &trace, &trace], &scheme[..]].concat()[..],
        &["advise", "-q", &trace],
        &["contexts", "-q", &trace, "--by", "program"],
        &["contexts", "-q", &trace, "--context", "1"],
    ] {
        let (out, _) = ends_with(3, command);
        assert!(out.contains("missing from the trace: events 7"), "{command:?}: {out}");
    }
    value["losses"] = json!({ "events": u64::MAX, "stacks": 1 });
    fs::write(&meta, value.to_string()).unwrap();
    let (json, _) = ends_with(3, &["simulate", &trace, "--json", "-"]);
    assert_eq!(serde_json::from_str::<Value>(&json).unwrap()["trace"]["lost_events"], u64::MAX);
}

#[test]
fn help_teaches_and_completions_and_man_pages_are_made() {
    let (help, _) = ends_with(0, &["--help"]);
    for word in ["Examples:", "Exit codes:", "simulate", "doctor", "what a scheme dropped"] {
        assert!(help.contains(word), "{help}");
    }
    let (simulate, _) = ends_with(0, &["simulate", "--help"]);
    for word in ["pcstream ", "autostream-mq ", "Examples:", "--overprovision", "cb-lfs"] {
        assert!(simulate.contains(word), "{simulate}");
    }
    for shell in ["bash", "zsh", "fish"] {
        assert!(ends_with(0, &["completions", shell]).0.contains("simulate"));
    }
    assert!(ends_with(0, &["man"]).0.contains(".TH PCSTREAM"));
    let place = Place::new();
    let directory = place.path("man");
    ends_with(0, &["man", "-o", &directory]);
    assert!(Path::new(&directory).join("pcstream-simulate.1").exists());
}

#[cfg(not(feature = "capture"))]
#[test]
fn without_capture_the_commands_say_so() {
    let directory = tempfile::TempDir::new().unwrap();
    for args in [&["doctor"][..], &["demo"], &["run", "--", "true"], &["record", "-o", "x", "--", "true"]] {
        common::refuses_in(directory.path(), 1, args, &["built without capture", "--features capture"]);
    }
    assert!(!directory.path().join("x").exists());
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    use std::process::Stdio;
    let place = Place::new();
    let binary = assert_cmd::cargo::cargo_bin("pcstream");
    let mut child = std::process::Command::new(binary)
        .args(["simulate", &place.path("t.pctrace"), "--json", "-", "-q"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
}
