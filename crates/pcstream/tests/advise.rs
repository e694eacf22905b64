//! `advise` on traces that say beforehand what is right: kinds of files, hints, little written; and what `simulate` says of
//! rules that do nothing.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{Place, ends_with, json, refuses};
use pcstream_trace::*;
use serde_json::Value;
use tempfile::TempDir;

/// What the program asked for, for what lives short and for what stays.
type Asked = (Life, Life);

const NOTHING: Asked = (Life::NotSet, Life::NotSet);
/// Of the simulated device.
const DEVICE: [&str; 4] = ["--superblock-pages", "8", "--spare-factor", "0.1"];
/// Files that live short, of 8 pages each, of which this many are there at once.
const SPILLS: u64 = 40;
const ROUNDS: u64 = 3000;

/// A program whose one call path writes all its files: `archive.keep`, which stays, and `spill0` and so on, which are soon
/// deleted. The device has `pages` pages, from 2048 on.
fn storage(dir: &Path, pages: u64, asked: Asked) -> String {
    storage_with_names(dir, pages, asked, SPILLS, |n| format!("/spill{n}"))
}

/// A write of the first context to a file.
fn write(file: u32, lba: u64, pages: u32) -> Event {
    Event { context: ContextId(1), file: FileId(file), ..Event::write(lba, pages) }
}

/// The same with so many names for those that are deleted, one round after the other.
fn storage_with_names(
    dir: &Path,
    pages: u64,
    (short, long): Asked,
    count: u64,
    name: fn(u64) -> String,
) -> String {
    let path = dir.join("storage.pctrace");
    let mut writer = TraceWriter::create(&path, Meta::new("storage", pages), false).unwrap();
    let executable = "/home/me/build-1/storage".to_owned();
    let context = Context { id: ContextId(1), executable, comm: "storage".into(), ..Context::default() };
    let names = std::iter::once("/archive.keep".to_owned()).chain((0..count).map(name));
    let file = |(id, path)| File { id: FileId(id), path, ..File::default() };
    let files = (1..).zip(names).map(file).collect();
    writer.write_batch(&Batch { contexts: vec![context], files, ..Batch::default() }).unwrap();
    let event = |op, file, lba, pages, life| Event {
        op,
        hint: WriteHint { life, stream: 0 },
        ..write(file, lba, pages)
    };
    let (mut events, mut kept) = (Vec::new(), 0);
    for round in 0..ROUNDS {
        let spill = round % SPILLS;
        let at = 1500 + spill * 8;
        events.push(event(Op::Discard, 0, at, 8, Life::NotSet));
        events.push(event(Op::Write, 2 + (round % count) as u32, at, 8, short));
        if round % 4 == 0 {
            events.push(event(Op::Write, 1, kept, 2, long));
            kept += 2;
        }
    }
    assert_eq!(kept, 1500);
    writer.write_batch(&Batch { events, ..Batch::default() }).unwrap();
    writer.finish(None).unwrap();
    path.to_str().unwrap().to_owned()
}

fn advice(trace: &str) -> Value {
    json(&[&["advise", trace, "--json", "-"], &DEVICE[..]].concat())
}

fn change<'a>(advice: &'a Value, words: &str) -> Option<&'a Value> {
    let named = |change: &&Value| change["change"].as_str().unwrap().contains(words);
    advice["changes"].as_array().unwrap().iter().find(named)
}

/// Placement by program context on a drive of this name.
fn by_context<'a>(advice: &'a Value, drive: &str) -> &'a Value {
    let is_it = |change: &&Value| {
        let is = |key: &str, what| change[key].as_str().unwrap().contains(what);
        is("change", "place writes by program context") && is("drive", drive)
    };
    let mut found = advice["changes"].as_array().unwrap().iter().filter(is_it);
    let change = found.next().unwrap();
    assert!(found.next().is_none(), "the better scheme counts: {advice:#}");
    assert!(
        steps(change)[0]
            .starts_with(&format!("pcstream place --scheme {}", change["scheme"].as_str().unwrap()))
    );
    change
}

fn steps(change: &Value) -> Vec<&str> {
    change["steps"].as_array().unwrap().iter().map(|step| step.as_str().unwrap()).collect()
}

#[test]
fn kinds_of_files_that_one_call_path_writes_are_kept_apart() {
    let dir = TempDir::new().unwrap();
    let trace = storage(dir.path(), 2048, NOTHING);
    let advice = advice(&trace);
    let of = |index: usize| {
        let source = &advice["sources"][index];
        (source["file"].as_str().unwrap(), source["pages"].as_u64().unwrap())
    };
    assert_eq!([of(0), of(1)], [("spill*", 24_000), ("*.keep", 1500)]);
    let life = |index: usize| advice["sources"][index]["lifetime"].as_u64().unwrap();
    assert!(life(0) < 500, "{}", life(0));
    assert_eq!(life(1), 25_500, "what never died lived as long as the trace");
    let hints = change(&advice, "F_SET_RW_HINT").unwrap();
    let steps = steps(hints);
    assert!(steps[0].starts_with("RWH_WRITE_LIFE_SHORT: storage writing spill*"), "{steps:?}");
    assert!(steps[1].starts_with("RWH_WRITE_LIFE_MEDIUM: storage writing *.keep"), "{steps:?}");
}

/// With the flag or without, both sides are what `simulate` says.
#[test]
fn what_discards_save_is_what_simulations_say() {
    let dir = TempDir::new().unwrap();
    let trace = storage(dir.path(), 2048, NOTHING);
    let baseline = |flags: &[&str]| {
        let asked = ["simulate", &trace, "--scheme", "baseline", "--gc", "own", "--json", "-"];
        json(&[&asked[..], &DEVICE, flags].concat())["results"][0].clone()
    };
    let (with, without) = (baseline(&[]), baseline(&["--no-discard"]));
    let flash = |result: &Value| result["flash_pages"].as_f64().unwrap();
    let saved = 1.0 - flash(&with) / flash(&without);
    assert!(saved > 0.01, "{saved}");
    let said = advice(&trace);
    assert_eq!(said["discards"]["waf_with"], with["waf"]);
    assert_eq!(said["discards"]["waf_without"], without["waf"]);
    assert_eq!(said["discards"]["flash_saved"], saved);
    assert!(said["remarks"].to_string().contains("Discards save "), "{}", said["remarks"]);
    let left_out = json(&[&["advise", &trace, "--json", "-", "--no-discard"], &DEVICE[..]].concat());
    assert_eq!(left_out["discards"], said["discards"]);
    assert!(left_out["remarks"].to_string().contains("Discards would save "), "{}", left_out["remarks"]);
}

/// As of mkstemp. Each name alone is too little for a rule.
#[test]
fn files_with_random_names_count_by_what_they_share() {
    fn letters(n: u64) -> String {
        (0..3).map(|place| char::from(b'a' + (n / 26_u64.pow(place) % 26) as u8)).collect()
    }
    let patterns = |name: fn(u64) -> String| {
        let dir = TempDir::new().unwrap();
        let advice = advice(&storage_with_names(dir.path(), 2048, NOTHING, ROUNDS, name));
        assert!(change(&advice, "a stream for each class").unwrap()["flash_saved"].as_f64() > Some(0.01));
        let sources = advice["sources"].as_array().unwrap().iter();
        let of =
            |source: &Value| (source["file"].as_str().unwrap().to_owned(), source["pages"].as_u64().unwrap());
        (sources.map(of).collect::<Vec<_>>(), advice["remarks"].to_string())
    };
    let kept = ("*.keep".to_owned(), 1500);
    let (sources, remarks) = patterns(|n| format!("/tmp/sort{}", letters(n)));
    assert_eq!(sources, [("sort*".to_owned(), 24_000), kept.clone()]);
    assert!(!remarks.contains("random"), "{remarks}");
    let (sources, remarks) = patterns(|n| format!("/tmp/{}", letters(n)));
    assert_eq!(sources, [("*".to_owned(), 24_000), kept]);
    assert!(remarks.contains("names are numbers or random"), "{remarks}");
}

/// The next build lies in another directory.
#[test]
fn advised_rules_know_the_program_by_its_name() {
    let dir = TempDir::new().unwrap();
    let (trace, rules) = (storage(dir.path(), 2048, NOTHING), dir.path().join("my.rules"));
    let rules = rules.to_str().unwrap();
    ends_with(0, &["advise", &trace, "--rules-out", rules]);
    let text = fs::read_to_string(rules).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let expected =
        ["\"executable=**/storage\" \"name=*.keep\" -> 2", "\"executable=**/storage\" \"name=spill*\" -> 1"];
    assert_eq!(lines.len(), 2, "{text}");
    assert!(expected.iter().all(|line| lines.contains(line)), "{text}");
    let manual = ["simulate", &trace, "--scheme", "manual", "--gc", "own", "--rules", rules, "--json", "-"];
    let (result, err) = ends_with(0, &manual);
    let result: Value = serde_json::from_str(&result).unwrap();
    assert_eq!(result["results"][0]["facts"]["pages_off_default"], 25_500);
    assert!(!err.contains("matched nothing"), "{err}");
}

#[test]
fn names_with_quotes_and_backslashes_have_rules() {
    let dir = TempDir::new().unwrap();
    let name = |n| format!("/the \"spill\" \\{n}");
    let trace = storage_with_names(dir.path(), 2048, NOTHING, SPILLS, name);
    let file = advice(&trace)["sources"][0]["file"].clone();
    assert_eq!(file, "the ?spill? [\\]*");
    let rules = dir.path().join("my.rules");
    let rules = rules.to_str().unwrap();
    ends_with(0, &["advise", &trace, "--rules-out", rules]);
    let simulated =
        json(&["simulate", &trace, "--scheme", "manual", "--gc", "own", "--rules", rules, "--json", "-"]);
    assert_eq!(simulated["results"][0]["facts"]["pages_off_default"], 25_500);
}

/// A drive with internal streams saves something without any change; a change is judged without that.
#[test]
fn what_a_drive_saves_by_itself_is_no_gain_of_a_change() {
    let dir = TempDir::new().unwrap();
    let trace = storage(dir.path(), 2048, NOTHING);
    let schemes =
        ["--scheme", "baseline,pcstream,pcstream-plus-context", "--gc", "own,internal", "--json", "-"];
    let result = json(&[&["simulate", &trace], &schemes[..], &DEVICE[..]].concat());
    let flash = |scheme: &str, gc: &str| {
        let lanes = result["results"].as_array().unwrap();
        let lane = lanes.iter().find(|lane| lane["scheme"] == scheme && lane["gc_destination"] == gc);
        lane.unwrap()["flash_pages"].as_f64().unwrap()
    };
    let with = flash("pcstream", "internal").min(flash("pcstream-plus-context", "internal"));
    let advice = advice(&trace);
    let by_context = by_context(&advice, "internal streams");
    for (key, reference) in [("flash_saved", "own"), ("flash_saved_on_same_drive", "internal")] {
        let expected = 1.0 - with / flash("baseline", reference);
        assert!(
            (by_context[key].as_f64().unwrap() - expected).abs() < 1e-9,
            "{key}: {expected}, {by_context}"
        );
    }
    assert_ne!(flash("baseline", "own"), flash("baseline", "internal"), "the drive saves something");
    let streams = change(&advice, "a stream for each class").unwrap();
    assert_eq!(streams["flash_saved"], streams["flash_saved_on_same_drive"]);
    let (text, _) = ends_with(0, &[&["advise", &trace], &DEVICE[..]].concat());
    assert!(text.contains("Gains little: place writes by program context"), "{text}");
    assert!(text.contains("; that drive alone does as much)"), "{text}");
    assert!(text.contains(" % against that drive without this change"), "{text}");
}

/// Where the host's streams help on a legacy multi-stream SSD alone, both commands say so.
#[test]
fn advice_follows_the_rule_of_the_verdict() {
    let trace = format!("{}/tests/data/sqlite.pctrace", env!("CARGO_MANIFEST_DIR"));
    let schemes = "baseline,pcstream,pcstream-plus-context";
    let simulated = json(&["simulate", &trace, "--scheme", schemes, "--json", "-"]);
    let sentences = simulated["verdict"]["sentences"].to_string();
    assert!(sentences.contains("streams of the host on a legacy multi-stream SSD"), "{sentences}");
    let advice = json(&["advise", &trace, "--json", "-"]);
    let legacy = by_context(&advice, "legacy multi-stream SSD");
    assert_eq!(legacy["flash_saved"], simulated["verdict"]["flash_saved_on_legacy_drive"]);
    let (text, _) = ends_with(0, &["advise", &trace]);
    let little: Vec<&str> = text.lines().filter(|line| line.starts_with("Gains little: place")).collect();
    assert!(text.contains("less flash (WAF ") && little.len() == 2, "{text}");
    assert!(little[0].contains("on an SSD with internal"), "{text}");
    assert!(little[1].ends_with("on an FDP SSD with"), "{text}");
}

#[test]
fn hints_that_are_set_already_are_not_advised() {
    let dir = TempDir::new().unwrap();
    let half = advice(&storage(dir.path(), 2048, (Life::Short, Life::NotSet)));
    let own = change(&half, "set already").unwrap();
    assert_eq!(own["scheme"], "hints");
    assert!(own["flash_saved"].as_f64().unwrap() > 0.01, "{own}");
    assert!(steps(own)[0].starts_with("RWH_WRITE_LIFE_SHORT: storage writing spill*"), "{own}");
    assert_eq!(half["sources"][0]["hint"], "short");
    assert!(half["sources"][1]["hint"].is_null());
    // `*.keep` alone in S0 is as good as in a stream of its own.
    assert!(change(&half, "F_SET_RW_HINT").is_none(), "{half}");
    let remarks = half["remarks"].to_string();
    assert!(remarks.contains("No other hints would save more than those that are set already"), "{remarks}");

    let dir = TempDir::new().unwrap();
    let wrong = advice(&storage(dir.path(), 2048, (Life::Short, Life::Short)));
    let hints = change(&wrong, "F_SET_RW_HINT").unwrap();
    let steps = steps(hints);
    assert_eq!(steps.len(), 1, "{steps:?}");
    assert!(steps[0].starts_with("RWH_WRITE_LIFE_MEDIUM instead of RWH_WRITE_LIFE_SHORT: "), "{steps:?}");
    assert!(steps[0].contains("*.keep"), "{steps:?}");

    let dir = TempDir::new().unwrap();
    let none = advice(&storage(dir.path(), 2048, NOTHING));
    assert!(change(&none, "set already").is_none(), "{none}");
}

#[test]
fn little_written_to_a_large_drive_can_be_packed() {
    let dir = TempDir::new().unwrap();
    let trace = storage(dir.path(), 1 << 20, NOTHING);
    let (text, _) = ends_with(0, &["advise", &trace]);
    assert!(text.contains("Nothing can be said yet: nothing was copied. Too little"), "{text}");
    assert!(text.contains("--pack 0.9") && !text.contains("Gains little"), "{text}");
    let (text, _) = ends_with(0, &[&["advise", &trace, "--pack", "0.9"], &DEVICE[..]].concat());
    assert!(text.contains("1. ") && !text.contains("--pack"), "{text}");
    let capacity = ["--pack", "0.9", "--capacity", "16M", "--json", "-"];
    let packed = json(&[&["advise", &trace], &DEVICE[..], &capacity[..]].concat());
    let simulate = ["simulate", &trace, "--scheme", "baseline", "--gc", "own"];
    let simulated = json(&[&simulate[..], &DEVICE[..], &capacity[..]].concat());
    assert_eq!(packed["baseline_waf"], simulated["results"][0]["waf"]);
}

#[test]
fn rules_that_do_nothing_are_named() {
    let dir = TempDir::new().unwrap();
    let (trace, rules) = (storage(dir.path(), 2048, NOTHING), dir.path().join("my.rules"));
    let rules = rules.to_str().unwrap();
    let lines =
        "# mine\nname=spill* -> 1\n\"executable=/elsewhere/storage\" name=*.keep -> 2\nname=*.keep -> 12\n";
    fs::write(rules, lines).unwrap();
    let manual = ["simulate", &trace, "--scheme", "manual", "--json", "-", "--rules"];
    let (_, err) = ends_with(0, &[&manual[..], &[rules]].concat());
    let unused =
        format!("--rules {rules}: line 3 (executable=/elsewhere/storage name=*.keep) matched nothing\n");
    assert_eq!(err.matches(&unused).count(), 1, "once for all drives: {err}");
    assert!(err.contains("line 4: the device has no stream 12; the writes go to its last, S8"), "{err}");
    assert_eq!(err.matches("matched nothing").count(), 1, "{err}");

    fs::write(rules, (0..20).map(|n| format!("name=*.x{n} -> 1\n")).collect::<String>()).unwrap();
    let (_, err) = ends_with(0, &[&manual[..], &[rules]].concat());
    assert_eq!(err.matches(") matched nothing").count(), 5, "{err}");
    assert!(err.contains("15 more lines matched nothing"), "{err}");
    let (_, err) = ends_with(0, &[&manual[..], &["common"]].concat());
    assert!(!err.contains("matched nothing"), "a preset is for many programs: {err}");

    let without = "has no effect: the scheme manual is not simulated";
    assert!(!err.contains(without), "{err}");
    let (_, err) =
        ends_with(0, &["simulate", &trace, "--scheme", "baseline", "--json", "-", "--rules", rules]);
    assert_eq!(err.matches(&format!("--rules {rules} {without}\n")).count(), 1, "{err}");
}

#[test]
fn every_command_that_takes_rules_names_those_that_do_nothing() {
    let dir = TempDir::new().unwrap();
    let (trace, rules) = (storage(dir.path(), 2048, NOTHING), dir.path().join("my.rules"));
    let (trace, rules) = (trace.as_str(), rules.to_str().unwrap());
    fs::write(rules, "name=spill* -> 1\nname=*.x -> 2\n").unwrap();
    let unused = format!("--rules {rules}: line 2 (name=*.x) matched nothing\n");
    for (command, times) in
        [(&["compare", trace, trace][..], 2), (&["contexts", trace], 1), (&["sweep", trace, "-o", "-"], 1)]
    {
        let (_, err) = ends_with(0, &[command, &["--scheme", "manual", "--rules", rules]].concat());
        assert_eq!(err.matches(&unused).count(), times, "{command:?}: {err}");
        assert_eq!(err.matches("matched nothing").count(), times, "{command:?}: {err}");
    }
}

/// What gains nothing is no suggestion, and one class of lifetimes keeps nothing apart.
#[test]
fn nothing_is_advised_that_gains_nothing() {
    let hotcold = format!("{}/tests/data/hotcold.pctrace", env!("CARGO_MANIFEST_DIR"));
    let (text, _) = ends_with(0, &["advise", &hotcold]);
    assert!(text.contains("for each class of lifetimes") && !text.contains("journal and metadata"), "{text}");
    assert!(!text.contains("Not steady") && !text.contains("one class"), "{text}");
    let dir = TempDir::new().unwrap();
    let trace = dir.path().join("u.pctrace").to_str().unwrap().to_owned();
    ends_with(0, &["generate", "uniform", "--pages", "16K", "--writes", "40K", "-o", &trace]);
    let (text, _) = ends_with(0, &["advise", &trace]);
    assert!(text.contains("All sources are in one class of lifetimes"), "{text}");
    assert!(!text.contains("for each class") && !text.contains("F_SET_RW_HINT"), "{text}");
    assert!(text.contains("Not steady yet: write at least 160 MiB more for a steady answer."), "{text}");
}

/// A label of a generator is no function, and leaves no gap.
#[test]
fn what_has_no_function_leaves_no_gap() {
    let trace = format!("{}/tests/data/hotcold.pctrace", env!("CARGO_MANIFEST_DIR"));
    let (text, _) = ends_with(0, &["advise", &trace]);
    assert!(text.contains("hot writing (no file name): [hot], "), "{text}");
}

/// A drive that is full copies nothing where data die together. What is advised instead can be done.
#[test]
fn what_is_said_of_a_drive_that_copies_nothing_goes_by_its_live_data() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (files, lines, full, reads) =
        (path("f.pctrace"), path("t.csv"), path("s.pctrace"), path("r.pctrace"));
    ends_with(0, &["generate", "files", "--pages", "16K", "--writes", "256K", "-o", &files]);
    let advised = |trace: &str, flags: &[&str]| {
        let (text, _) = ends_with(0, &[&["advise", trace], flags].concat());
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let text = advised(&files, &["--prefill", "0"]);
    assert!(text.contains("--pack-live 0.9 simulates") && !text.contains("--fill"), "{text}");
    for flags in [&[][..], &["--pack-live", "0.9"]] {
        let text = advised(&files, flags);
        assert!(
            text.contains("Live data fill 90.") && text.contains(" % of this drive. It copies"),
            "{text}"
        );
    }
    let sequential = (0..3072).map(|n| format!("{n},{},128,1,0\n", n % 256 * 128)).collect::<String>();
    fs::write(&lines, sequential).unwrap();
    ends_with(0, &["import", "--format", "tencent", &lines, "--assume-filled", "-o", &full]);
    for flags in [&[][..], &["--fill", "1"]] {
        let text = advised(&full, flags);
        assert!(text.contains("Live data fill 100 % of this drive.") && !text.contains("fuller"), "{text}");
    }
    fs::write(&lines, "0,0,8,0,0\n").unwrap();
    ends_with(0, &["import", "--format", "tencent", &lines, "-o", &reads]);
    let text = advised(&reads, &[]);
    assert!(text.contains("The trace writes nothing, so") && !text.contains("--pack"), "{text}");
}

/// As of a store that overwrites its index often and its rows seldom, through one function.
#[test]
fn files_of_one_kind_are_kept_apart_by_their_names() {
    let dir = TempDir::new().unwrap();
    let trace = storage_with_names(dir.path(), 2048, NOTHING, 1, |_| "/spill.keep".to_owned());
    let advice = advice(&trace);
    let files: Vec<&str> =
        advice["sources"].as_array().unwrap().iter().map(|of| of["file"].as_str().unwrap()).collect();
    assert_eq!(files, ["spill.keep", "archive.keep"]);
    let by_class = change(&advice, "a stream for each class").expect("they are of two classes");
    assert!(by_class["flash_saved"].as_f64() > Some(0.01), "{by_class}");
    assert!(!advice["remarks"].to_string().contains("one class"), "{advice}");
}

/// As of RocksDB, whose log reaches the drive when the run ends: it is not known to live long.
#[test]
fn what_is_written_at_the_end_is_too_young_to_tell() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("late.pctrace");
    let mut writer = TraceWriter::create(&path, Meta::new("storage", 2048), false).unwrap();
    let context = Context { id: ContextId(1), executable: "/bin/db".into(), ..Context::default() };
    let file = |id, path: &str| File { id: FileId(id), path: path.into(), ..File::default() };
    let files = vec![file(1, "/a.sst"), file(2, "/1.log"), file(3, "/a.keep")];
    // Each round overwrites a tenth of a table, so that its pages live for 10 rounds. One file stays.
    let rounds = (0..400).flat_map(|round| [write(1, round % 10 * 100, 100), write(3, 1000 + round, 1)]);
    let events = rounds.chain([write(2, 1500, 200)]).collect();
    writer.write_batch(&Batch { contexts: vec![context], files, events }).unwrap();
    writer.finish(None).unwrap();
    let advice = advice(path.to_str().unwrap());
    let sources = advice["sources"].as_array().unwrap();
    let files: Vec<&str> = sources.iter().map(|of| of["file"].as_str().unwrap()).collect();
    assert_eq!(files, ["*.sst", "*.keep"], "what was written all the time is known to stay");
    let remarks = advice["remarks"].to_string();
    assert!(remarks.contains("Too young to tell: db writing *.log (0.49 % of the writes)"), "{remarks}");
    assert!(remarks.contains("their mean age is below the median lifetime of all pages"), "{remarks}");
}

/// What a change gains is less certain where its scheme had to forget, and unknown where its drive cannot be.
#[test]
fn what_is_dropped_or_has_no_room_is_a_loss() {
    let place = Place::new();
    let (trace, page) = (place.path("t.pctrace"), place.path("page.html"));
    let bound = ["--set", "pcstream.lifetime.max_bytes=8192"];
    let says_so = |text: &str| {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("pcstream dropped what it knew of live data"), "{text}");
        assert!(text.contains("more with --set pcstream.lifetime.max_bytes=BYTES."), "{text}");
    };
    says_so(&ends_with(3, &[&["advise", trace.as_str()], &bound[..]].concat()).0);
    let report = ["report", &trace, "--scheme", "baseline,pcstream", "--gc", "own", "-o", &page];
    let (_, err) = ends_with(3, &[&report[..], &bound].concat());
    let of_curves = err.lines().find(|line| line.contains("curves: ")).expect("the curves are remarked on");
    says_so(of_curves);
    says_so(&fs::read_to_string(&page).unwrap());

    let dir = TempDir::new().unwrap();
    let trace = storage(dir.path(), 2048, NOTHING);
    // A drive with internal streams has up to 18 open superblocks, and 14 more than its data fills.
    let crowded = ["--profile", "fdp-3.84t", "--streams", "9", "--superblock-pages", "8"];
    let advise = [&["advise", trace.as_str(), "--spare-factor", "0.05"], &crowded[..]].concat();
    let (text, err) = ends_with(3, &advise);
    assert_eq!(err.matches("left out: changes for ").count(), 1, "{err}");
    assert!(
        err.contains("left out: changes for an SSD with internal streams") && err.contains("no room"),
        "{err}"
    );
    assert!(text.contains("WAF now"), "{text}");
}

/// Sizes for one kind of drive are too few for another.
#[test]
fn pools_of_a_device_file_are_refused() {
    let dir = TempDir::new().unwrap();
    let trace = storage(dir.path(), 2048, NOTHING);
    let file = dir.path().join("device.toml");
    let advise = ["advise", &trace, "--device", file.to_str().unwrap(), "--superblock-pages", "8"];
    fs::write(&file, "[device]\nstreams = 2\npools = [1.0, 2.0]\n").unwrap();
    refuses(2, &advise, &["--device", "advise takes no pools", "leave them out of the file"]);
    fs::write(&file, "[device]\nstreams = 2\npools = []\n").unwrap();
    let (text, _) = ends_with(0, &advise);
    // A pipe can be read once only.
    let pipe = dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let writer = std::thread::spawn({
        let (file, pipe) = (file.clone(), pipe.clone());
        move || fs::copy(file, pipe)
    });
    let piped = ["advise", &trace, "--device", pipe.to_str().unwrap(), "--superblock-pages", "8"];
    assert_eq!(ends_with(0, &piped).0, text);
    writer.join().unwrap().unwrap();
}

/// Nobody knows how the file system of an import was mounted, if there was one.
#[test]
fn discards_are_advised_for_recorded_file_systems_alone() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (table, imported) = (path("t.csv"), path("imported.pctrace"));
    fs::write(&table, (0..4096).map(|n| format!("{n},W,{},4096,db\n", n % 512 * 4096)).collect::<String>())
        .unwrap();
    let columns = ["--columns", "time=0,op=1,offset=2,size=3,context=4"];
    ends_with(0, &[&["import", "--format", "columns", &table, "-o", &imported], &columns[..]].concat());
    let recorded = path("recorded.pctrace");
    let file_system = Some(FileSystem { kind: "ext4".into(), ..FileSystem::default() });
    let meta = Meta { file_system, created_unix_s: Some(1), ..Meta::new("disk", 512) };
    let mut writer = TraceWriter::create(Path::new(&recorded), meta, false).unwrap();
    let context = Context { id: ContextId(1), executable: "/bin/db".into(), ..Context::default() };
    let events = (0..4096).map(|n| Event { context: ContextId(1), ..Event::write(n % 512, 1) }).collect();
    writer.write_batch(&Batch { contexts: vec![context], events, ..Batch::default() }).unwrap();
    writer.finish(None).unwrap();
    let remarks = |trace: &str| json(&["advise", trace, "--json", "-"])["remarks"].to_string();
    assert!(!remarks(&imported).contains("discard"), "{}", remarks(&imported));
    assert!(remarks(&recorded).contains("mount with -o discard"), "{}", remarks(&recorded));
}
