//! The verdict as scripts and people see it: its conclusion, and that its numbers are those of the results.

mod common;

use std::fs;
use std::path::Path;

use common::{Place, ends_with, json};
use pcstream_trace::*;
use serde_json::Value;

/// The verdict comes before the table, and its numbers are those of the results that it names.
#[test]
fn the_verdict_comes_first_and_compares_across_kinds_of_drives() {
    let trace = format!("{}/tests/data/hotcold.pctrace", env!("CARGO_MANIFEST_DIR"));
    let (out, _) = ends_with(0, &["simulate", &trace]);
    let (verdict, table) = (out.find("Verdict: Streams ").unwrap(), out.find("\nscheme ").unwrap());
    assert!(verdict < table, "{out}");
    let result = json(&["simulate", &trace, "--json", "-"]);
    let of = |scheme: &str, gc: &str| {
        let results = result["results"].as_array().unwrap();
        results.iter().find(|r| r["scheme"] == scheme && r["gc_destination"] == gc).unwrap().clone()
    };
    let (now, same_drive) = (of("baseline", "own"), of("baseline", "internal"));
    let flash = |lane: &Value| lane["flash_pages"].as_u64().unwrap();
    let (plus, real) = (of("pcstream-plus", "internal"), of("pcstream", "internal"));
    let with = if flash(&plus) <= flash(&real) { plus.clone() } else { real.clone() };
    let verdict = &result["verdict"];
    for (side, lane) in
        [("now", &now), ("with_streams", &with), ("real_writes", &real), ("same_drive", &same_drive)]
    {
        assert_eq!(verdict[side]["waf"], lane["waf"], "{side}");
        assert_eq!(verdict[side]["scheme"], lane["scheme"], "{side}");
    }
    let by_host = 1.0 - flash(&with) as f64 / flash(&same_drive) as f64;
    assert!((verdict["flash_saved_on_same_drive"].as_f64().unwrap() - by_host).abs() < 1e-12);
    let conclusion = verdict["sentences"][0].as_str().unwrap();
    let waf = |lane: &Value| format!("{:.3}", lane["waf"].as_f64().unwrap());
    let scheme = with["scheme"].as_str().unwrap();
    let first = format!(" worth it here: WAF {} now, {} with {scheme} on an SSD with", waf(&now), waf(&with));
    let second = format!(". Of this, the drive alone gives {}; the host's streams save", waf(&same_drive));
    assert!(conclusion.contains(&first) && conclusion.contains(&second), "{conclusion}");
    let by_call_path = format!("by call path alone, as pcstream place has them ({})", waf(&real));
    assert_eq!(conclusion.contains(&by_call_path), with["scheme"] != real["scheme"], "{conclusion}");
    let ratio = with["flash_pages"].as_f64().unwrap() / now["flash_pages"].as_f64().unwrap();
    assert!((result["verdict"]["flash_saved"].as_f64().unwrap() - (1.0 - ratio)).abs() < 1e-12);
    assert_eq!(result["verdict"]["matters"], "yes");
    assert!(result["verdict"]["now"]["flash_bytes_per_day"].is_null(), "a generator's times are no rate");
    let comparisons = result["comparisons"].as_array().unwrap();
    let across = |c: &&Value| {
        c["scheme"] == with["scheme"]
            && c["gc_destination"] == "internal"
            && c["reference_gc_destination"] == "own"
    };
    let across = comparisons.iter().find(across).expect("results are compared across GC destinations");
    assert_eq!(across["flash_pages_ratio"].as_f64().unwrap(), ratio);
    assert_eq!(across["reference"], "baseline on a drive without streams");
    // 8 of 5 rounds are written, and a steady state was found or not: the verdict says the same.
    let steady = !now["steady"].is_null() && !with["steady"].is_null();
    assert_eq!(result["verdict"]["steady"], steady);
}

/// Where keeping copies apart is all that helps, streams of the host get no credit for it.
#[test]
fn the_verdict_tells_the_drives_share_from_the_hosts() {
    let place = Place::new();
    let trace = place.path("own.pctrace");
    // There are no hints, so all goes to the default stream.
    ends_with(0, &["generate", "zipf", "--pages", "16K", "--writes", "200K", "-o", &trace]);
    let result = json(&["simulate", &trace, "--scheme", "baseline,hints", "--json", "-"]);
    let verdict = &result["verdict"];
    assert_eq!(verdict["matters"], "yes", "{verdict}");
    assert_eq!(verdict["with_streams"]["gc_destination"], "internal", "{verdict}");
    assert_eq!(verdict["flash_saved_on_same_drive"], 0.0, "{verdict}");
    let sentences = verdict["sentences"].to_string();
    assert!(sentences.contains("keeps copies apart helps here; streams of the host do not"), "{sentences}");
    assert!(sentences.contains("the host's streams add nothing to that"), "{sentences}");
    // Little is not nothing: the table shows the difference.
    let hot = format!("{}/tests/data/hotcold.pctrace", env!("CARGO_MANIFEST_DIR"));
    let result =
        json(&["simulate", &hot, "--spare-factor", "0.82", "--scheme", "baseline,pcstream", "--json", "-"]);
    let verdict = &result["verdict"];
    let by_host = verdict["flash_saved_on_same_drive"].as_f64().expect("a number");
    assert!(by_host > 0.001 && by_host < 0.01, "{verdict}");
    let only = format!("the host's streams save only another {:.2} %", 100.0 * by_host);
    assert!(verdict["sentences"].to_string().contains(&only), "{verdict}");
}

/// What is said of a sample recording on a drive with so much spare area.
fn of_sample(name: &str, schemes: &str, spare_factor: &str) -> Value {
    let trace = format!("{}/tests/data/{name}.pctrace", env!("CARGO_MANIFEST_DIR"));
    let device = ["--spare-factor", spare_factor, "--scheme", schemes, "--json", "-"];
    json(&[&["simulate", &trace], &device[..]].concat())["verdict"].take()
}

/// Also where no recommended scheme is simulated.
#[test]
fn the_verdict_is_of_the_drive_with_internal_streams() {
    let verdict = of_sample("sqlite", "baseline,fstream", "0.07");
    assert_eq!(verdict["with_streams"]["scheme"], "fstream", "{verdict}");
    assert_eq!(verdict["with_streams"]["gc_destination"], "internal", "{verdict}");
}

/// Streams of which real writes can have little are not said to be worth it without a word about that.
#[test]
fn the_verdict_promises_no_more_than_real_writes_can_have() {
    let verdict = of_sample("sqlite", "baseline,pcstream,pcstream-plus", "0.07");
    let waf = |side: &str| verdict[side]["waf"].as_f64().expect("a number");
    let real = 1.0 - waf("real_writes") / waf("same_drive");
    assert!(verdict["matters"] == "yes" && (0.0..0.05).contains(&real), "{verdict}");
    let conclusion = verdict["sentences"][0].as_str().unwrap();
    let said = "Streams by call path and each page's history are worth it here: ";
    assert!(conclusion.starts_with(said) && conclusion.matches(". ").count() == 1, "{conclusion}");
    assert!(conclusion.contains(&format!(" or {:.2} % by call path alone", 100.0 * real)), "{conclusion}");
    let a_day = conclusion.split(" a day instead of ").count();
    assert_eq!(a_day, 2, "flash a day, of a program's own times: {conclusion}");
}

/// Data that are overwritten in the order in which they were written are dead when their superblock is erased, however full
/// the drive is.
#[test]
fn the_verdict_blames_free_space_only_where_there_is_some() {
    let place = Place::new();
    let trace = place.path("cyclic.pctrace");
    const PAGES: u64 = 4096;
    let mut writer = TraceWriter::create(Path::new(&trace), Meta::new("cyclic", PAGES), false).unwrap();
    let context = Context { id: ContextId(1), executable: "/bin/ring".into(), ..Context::default() };
    writer.write_batch(&Batch { contexts: vec![context], ..Batch::default() }).unwrap();
    let write = |at| Event { context: ContextId(1), ..Event::write(at % PAGES, 8) };
    let events = (0..8 * PAGES).step_by(8).map(write).collect();
    writer.write_batch(&Batch { events, ..Batch::default() }).unwrap();
    writer.finish(None).unwrap();
    let said = |spare_factor: &str| {
        let device = ["--spare-factor", spare_factor, "--superblock-pages", "8"];
        let run = ["simulate", &trace, "--scheme", "baseline,pcstream", "--json", "-"];
        json(&[&run[..], &device[..]].concat())["verdict"]["sentences"][0].as_str().unwrap().to_owned()
    };
    let full = "because most data have died when the drive erases them (live data fill 95.0 % of the flash)";
    assert!(said("0.05").contains(full), "{}", said("0.05"));
    assert!(said("0.75").contains("because live data fill only 25.0 % of the flash"), "{}", said("0.75"));
}

/// Streams that cost something are no offer, and nothing is better than what costs as much.
#[test]
fn the_verdict_offers_nothing_that_costs_more() {
    let place = Place::new();
    let trace = place.path("own.pctrace");
    let made = ["generate", "zipf", "--theta", "0.3", "--pages", "16K", "--writes", "200K", "-o", &trace];
    ends_with(0, &made);
    let said = |flags: &[&str]| {
        let flags = [&["simulate", &trace], flags, &["--json", "-"]].concat();
        json(&flags)["verdict"]["sentences"].to_string()
    };
    let small = ["--spare-factor", "0.15", "--streams", "3", "--superblock-pages", "32"];
    let sentences = said(&[&small[..], &["--scheme", "baseline,pcstream,pcstream-plus"]].concat());
    assert!(sentences.contains("the host's streams cost "), "{sentences}");
    assert!(!sentences.contains("by call path alone"), "{sentences}");
    let sentences = said(&["--spare-factor", "0.1"]);
    assert!(!sentences.contains("Better still"), "{sentences}");
}

/// A device with one stream shows nothing of streams, and the verdict does not say that they are worth nothing.
#[test]
fn one_stream_is_no_verdict_about_streams() {
    let trace = format!("{}/tests/data/hotcold.pctrace", env!("CARGO_MANIFEST_DIR"));
    for device in [["--streams", "1"], ["--profile", "femu"]] {
        let schemes = ["--scheme", "baseline,pcstream", "--json", "-"];
        let result = json(&[&["simulate", &trace], &device[..], &schemes].concat());
        let verdict = &result["verdict"];
        assert_eq!(verdict["matters"], "unknown", "{verdict}");
        assert!(verdict["with_streams"].is_null() && verdict["real_writes"].is_null(), "{verdict}");
        let sentences = verdict["sentences"].as_array().expect("a list");
        assert_eq!(sentences.len(), 1, "{verdict}");
        let said = sentences[0].as_str().expect("a text");
        assert!(said.starts_with("WAF now: ") && said.ends_with("give it more with --streams."), "{said}");
    }
    let (advice, _) = ends_with(0, &["advise", &trace, "--streams", "1"]);
    assert!(advice.contains("This device has one stream"), "{advice}");
}

/// What was named with its WAF is not named again as something better.
#[test]
fn the_legacy_drive_is_named_once() {
    let trace = format!("{}/tests/data/hotcold.pctrace", env!("CARGO_MANIFEST_DIR"));
    let device = ["--profile", "femu", "--streams", "9", "--scheme", "baseline,pcstream", "--json", "-"];
    let verdict = json(&[&["simulate", &trace], &device[..]].concat())["verdict"].take();
    let side = |name: &str| verdict[name]["waf"].as_f64().expect("a number");
    assert!(side("on_legacy_drive") < 0.99 * side("with_streams"), "{verdict}");
    let sentences = verdict["sentences"].to_string();
    assert!(sentences.contains("Streams on a legacy multi-stream SSD: "), "{sentences}");
    assert!(!sentences.contains("Better still"), "{sentences}");
}

/// Where streams of the host help a legacy drive, and add nothing to internal streams, both are said.
#[test]
fn the_verdict_says_on_which_drive_streams_help() {
    let verdict = of_sample("sqlite", "baseline,pcstream", "0.3");
    let share = |name: &str| verdict[name].as_f64().expect("a number");
    let legacy = share("flash_saved_on_legacy_drive");
    assert!(legacy >= 0.01 && share("flash_saved_on_same_drive") < 0.01, "{verdict}");
    assert_eq!(verdict["on_legacy_drive"]["gc_destination"], "own", "{verdict}");
    let sentences = verdict["sentences"].to_string();
    let waf = verdict["on_legacy_drive"]["waf"].as_f64().expect("a number");
    let saves = format!("{waf:.3} with pcstream on the legacy drive ({:.2} % less flash), ", 100.0 * legacy);
    assert!(sentences.contains(&saves), "{saves}: {sentences}");
    assert!(
        sentences.contains("Either of two helps a little here: streams of the host on a legacy"),
        "{sentences}"
    );
    assert!(!sentences.contains("streams of the host do not"), "{sentences}");
}

/// Where garbage collection has just begun, WAF rises, and what it comes from is not known.
#[test]
fn the_verdict_gives_no_reason_before_the_run_is_steady() {
    let verdict = of_sample("postgresql", "baseline,pcstream", "0.125");
    assert!(verdict["matters"] == "no" && verdict["steady"] == false, "{verdict}");
    let conclusion = verdict["sentences"][0].as_str().expect("a text");
    assert!(
        conclusion.starts_with("Streams saved next to nothing in this run, at whose end live data fill ")
    );
    assert!(!conclusion.contains("because"), "{conclusion}");
}

/// Where the legacy drive alone reaches what is called worth it, its numbers are those of the conclusion.
#[test]
fn the_verdict_names_the_drive_on_which_streams_are_worth_it() {
    let place = Place::new();
    let trace = place.path("hot.pctrace");
    ends_with(0, &["generate", "hotcold", "--pages", "64K", "--writes", "200K", "-o", &trace]);
    let flags = ["--scheme", "baseline,pcstream", "--streams", "5", "--spare-factor", "0.07", "--json", "-"];
    let verdict = json(&[&["simulate", &trace], &flags[..]].concat())["verdict"].take();
    let share = |name: &str| verdict[name].as_f64().expect("a number");
    let (legacy, with) = (share("flash_saved_on_legacy_drive"), share("flash_saved"));
    assert!(legacy >= 0.05 && (0.01..0.05).contains(&with), "{verdict}");
    let first = verdict["sentences"][0].as_str().expect("a text");
    assert!(first.starts_with(
        "Streams of the host are worth it here on a legacy multi-stream SSD, and help a little"
    ));
    assert!(first.contains(&format!("{:.2} % less flash", 100.0 * legacy)), "{first}");
    let last_part = verdict["on_legacy_drive"]["steady_waf"].as_f64().expect("a number");
    let unsteady = verdict["sentences"][1].as_str().expect("a text");
    assert!(unsteady.contains(&format!(" now, {last_part:.3} with pcstream).")), "{verdict}");
    assert!(verdict["sentences"][2].as_str().is_some_and(|text| text.contains("less flash")), "{verdict}");
}

/// A drive whose flash was not written once says nothing, although it erased what was there before.
#[test]
fn too_little_written_is_no_verdict() {
    let place = Place::new();
    let trace = place.path("own.pctrace");
    // 40 MiB over the first 32 MiB of 64: what is erased is dead, because it was overwritten in order.
    let lines: String = (0..40).map(|at| format!("x write {} 1048576\n", (at % 32) << 20)).collect();
    fs::write(place.path("log"), format!("fio version 2 iolog\nx add\nx open\n{lines}")).unwrap();
    ends_with(0, &["import", "--format", "fio", "--size", "64M", &place.path("log"), "-o", &trace]);
    let schemes = "baseline,autostream-mq";
    let simulation = ["simulate", &trace, "--prefill", "0.5", "--scheme", schemes, "--json", "-"];
    let verdict = json(&simulation)["verdict"].clone();
    assert_eq!(verdict["matters"], "unknown", "{verdict}");
    assert!(verdict["sentences"].to_string().contains("Nothing can be said yet"), "{verdict}");
}

/// The verdict says whether streams are worth having: on a full device with hot and cold pages they are, on one that
/// was hardly written nothing can be said.
#[test]
fn the_verdict_says_whether_streams_matter() {
    let place = Place::new();
    let trace = place.path("t.pctrace");
    let (out, _) = ends_with(0, &["simulate", &trace, "--scheme", "baseline,pcstream"]);
    let paragraph =
        |text: &str| text.split("\n\n").find(|p| p.starts_with("Verdict: ")).map(|p| p.replace('\n', " "));
    let verdict = paragraph(&out).expect("a verdict");
    assert!(verdict.starts_with("Verdict: Streams are worth it here: WAF "), "{verdict}");
    assert!(verdict.contains("with pcstream on an SSD"), "{verdict}");
    assert!(verdict.contains("less flash, drive life x"), "{verdict}");

    let small = place.path("small.pctrace");
    ends_with(0, &["generate", "uniform", "--pages", "16K", "--writes", "1K", "-o", &small]);
    let roomy = ["simulate", &small, "--scheme", "baseline,pcstream", "--prefill", "0"];
    let (out, _) = ends_with(0, &roomy);
    let verdict = paragraph(&out).expect("a verdict");
    let nothing = "Nothing can be said yet: the drive never had to collect garbage. Write ";
    assert!(verdict.contains(nothing) && verdict.contains("--pack 0.9"), "{verdict}");
    let (out, _) = ends_with(0, &["simulate", &small, "--scheme", "baseline", "--prefill", "0"]);
    assert!(out.contains(nothing) && !out.contains("WAF now"), "one scheme knows no more: {out}");
    let result = json(&["simulate", &small, "--scheme", "all", "--prefill", "0", "--json", "-"]);
    assert_eq!(result["verdict"]["sentences"].as_array().map(Vec::len), Some(1), "{}", result["verdict"]);

    let (out, _) = ends_with(0, &["simulate", &trace, "--scheme", "pcstream"]);
    assert!(out.contains("Nothing to compare with: add baseline"), "{out}");
}

/// Where the drive copies nothing, nothing can be gained: one clause, and no mark for the lowest of equal WAFs.
#[test]
fn nothing_to_gain_is_said_in_one_clause() {
    let trace = format!("{}/tests/data/sqlite.pctrace", env!("CARGO_MANIFEST_DIR"));
    let flags = ["simulate", &trace, "--scheme", "baseline,pcstream,oracle", "--spare-factor", "0.75"];
    let (out, _) = ends_with(0, &flags);
    let verdict = out.split("\n\n").find(|part| part.starts_with("Verdict: ")).expect("a verdict");
    let verdict = verdict.replace('\n', " ");
    assert!(verdict.ends_with(": WAF 1.000 now.") && !verdict.contains("- "), "{verdict}");
    assert!(out.contains("less flash: than baseline on a drive without streams\n"), "{out}");
    let (full, _) = ends_with(0, &["simulate", &trace, "--scheme", "baseline,pcstream,oracle"]);
    assert!(full.contains(" *  ") && full.contains("*: lowest WAF without knowing the future"), "{full}");
}

/// The drive life in the details is that of the verdict.
#[test]
fn details_measure_life_as_the_verdict_does() {
    let trace = format!("{}/tests/data/hotcold.pctrace", env!("CARGO_MANIFEST_DIR"));
    let life =
        json(&["simulate", &trace, "--json", "-"])["verdict"]["life_ratio"].as_f64().expect("a number");
    let result = json(&["simulate", &trace, "--json", "-"])["verdict"]["with_streams"].clone();
    let (out, _) = ends_with(0, &["simulate", &trace, "--details"]);
    let (scheme, steady) = (result["scheme"].as_str().unwrap(), result["steady_waf"].as_f64().unwrap());
    let details = out.split("steady WAF +- 95 %").nth(1).expect("a table");
    let is_row = |line: &&str| line.starts_with(&format!("{scheme} ")) && line.contains(" internal ");
    let row = details.lines().find(is_row).expect("a row");
    assert!(
        row.contains(&format!(" x {life:.2} ")) && row.contains(&format!(" {steady:.3}")),
        "{life}: {row}"
    );
    assert!(out.replace('\n', " ").contains("as long as with baseline on a drive without streams"), "{out}");
}
