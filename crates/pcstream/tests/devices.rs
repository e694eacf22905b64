//! Devices from profiles, files and flags, and their clocks, as scripts see them.

mod common;

use std::fs;

use common::{Place, ends_with, json, refuses};
use serde_json::Value;

/// Results without what a clock adds.
fn decisions(mut value: Value) -> Value {
    for result in value["results"].as_array_mut().expect("results") {
        let result = result.as_object_mut().expect("an object");
        for key in ["iops", "latency_us", "simulated_seconds", "gc_time_share", "throughput"] {
            result.remove(key).expect("the key is there");
        }
    }
    value["results"].take()
}

#[test]
fn a_clock_changes_no_decision() {
    let place = Place::new();
    let trace = place.path("t.pctrace");
    let simulate = |flags: &[&str]| {
        let all = ["simulate", &trace, "--scheme", "baseline,autostream-mq,pcstream", "--json", "-"];
        json(&[&all[..], flags].concat())
    };
    let plain = simulate(&["--gc", "own,internal,shared"]);
    assert!(plain["results"][0]["iops"].is_null() && plain["device"]["timing"].is_null());
    let plain = decisions(plain);
    for flags in [&["--timing"][..], &["--timing", "--queue-depth", "1"], &["--timing", "--open-loop"]] {
        let timed = simulate(&[&["--gc", "own,internal,shared"], flags].concat());
        let result = &timed["results"][0];
        assert!(result["iops"].as_f64().unwrap() > 0.0);
        let write = &result["latency_us"]["write"];
        assert_eq!(write["requests"], 256 << 10, "every write of the trace is one request");
        assert!(write["p50"].as_f64().unwrap() <= write["max"].as_f64().unwrap());
        assert!(result["latency_us"]["read"].is_null(), "the trace has no reads");
        let pages = result["throughput"]["pages"].as_array().unwrap();
        assert_eq!(pages.iter().map(|p| p.as_u64().unwrap()).sum::<u64>(), 256 << 10);
        let copied = result["throughput"]["gc_pages"].as_array().unwrap();
        assert_eq!(copied.len(), pages.len());
        assert_eq!(copied.iter().map(|p| p.as_u64().unwrap()).sum::<u64>(), result["gc_pages"]);
        assert_eq!(decisions(timed), plain, "{flags:?}");
    }
}

#[test]
fn the_clock_is_shown_to_people() {
    let place = Place::new();
    let trace = place.path("t.pctrace");
    let flags = ["--profile", "pm963-480g", "--timing", "--details", "--scheme", "baseline,pcstream"];
    let (out, _) = ends_with(0, &[&["simulate", &trace], &flags[..]].concat());
    for word in
        ["IOPS", "write p99.99", "clock    8 channels x 4 dies", "steady WAF", "victims by valid share"]
    {
        assert!(out.contains(word), "{word} is missing in\n{out}");
    }
    assert!(!out.contains("read p50"), "there are no reads");
    assert!(out.contains("profile pm963-480g"), "{out}");
}

#[test]
fn geometry_prints_a_file_that_makes_the_same_device() {
    let place = Place::new();
    for profile in pcstream_ssd::profile::KNOWN.iter().map(|profile| profile.name) {
        let (toml, _) = ends_with(0, &["geometry", "--profile", profile, "--toml"]);
        let file = place.path("device.toml");
        fs::write(&file, toml).unwrap();
        let mut of_profile = json(&["geometry", "--profile", profile, "--json", "-"]);
        let mut of_file = json(&["geometry", "--device", &file, "--json", "-"]);
        assert_eq!(of_profile["origin"].take(), format!("profile {profile}"));
        assert_eq!(of_file["origin"].take(), format!("file {file}"));
        assert_eq!(of_profile, of_file);
        let (text, _) = ends_with(0, &["geometry", "--device", &file]);
        assert!(text.contains("capacity") && text.contains("streams"), "{text}");
    }
}

#[test]
fn geometry_says_how_many_streams_a_device_can_afford() {
    let place = Place::new();
    let file = place.path("device.toml");
    fs::write(&file, "[device]\nstreams = 4\n[resources]\npower_loss_bytes = 2097152\n").unwrap();
    let geometry = json(&["geometry", "--device", &file, "--json", "-"]);
    assert_eq!(geometry["affordable_streams"], 8, "2 MiB in stripes of 256 KiB");
    assert_eq!(geometry["budgets"][0]["affordable_streams"], 8);
    assert!(geometry["budgets"][1]["affordable_streams"].is_null());
    let trace = place.path("t.pctrace");
    ends_with(0, &["simulate", &trace, "--device", &file]);
    let refused = ["--device", &file, "--streams", "9"];
    refuses(2, &[&["simulate", &trace], &refused[..]].concat(), &["can afford 8 streams", "power loss"]);
    refuses(2, &[&["geometry"], &refused[..]].concat(), &["can afford 8 streams"]);
}

#[test]
fn wrong_devices_end_with_2() {
    let place = Place::new();
    let trace = place.path("t.pctrace");
    let simulate =
        |flags: &[&str], words: &[&str]| refuses(2, &[&["simulate", &trace], flags].concat(), words);
    simulate(&["--profile", "pm963"], &["--profile", "did you mean pm963-480g?"]);
    simulate(&["--device", "/nonexistent.toml"], &["--device /nonexistent.toml"]);
    let file = place.path("device.toml");
    fs::write(&file, "[device]\nstreems = 4\n").unwrap();
    simulate(&["--device", &file], &["device.toml", "line 2", "streems", "streams"]);
    fs::write(&file, "[timing]\nchannels = 0\n").unwrap();
    simulate(&["--device", &file, "--timing"], &["channels is 0"]);
    refuses(2, &["geometry", "--device", &file], &["channels is 0: expected at least 1"]);
    fs::write(&file, [0xff, 0xfe]).unwrap();
    simulate(&["--device", &file], &["device.toml"]);
    simulate(&["--device", "/dev/zero"], &["/dev/zero", "longer than"]);
    fs::write(&file, "[timing]\nprogram_ns = 9000000000000000000\n").unwrap();
    simulate(&["--device", &file, "--timing"], &["program_ns = 9000000000000000000", "at most"]);
    simulate(&["--queue-depth", "4"], &["--timing"]);
    simulate(&["--timing", "--queue-depth", "0"], &["--queue-depth"]);
    simulate(&["--timing", "--queue-depth", "4", "--open-loop"], &["cannot be used with"]);
    simulate(&["--capacity", "1M"], &["256 logical pages", "--capacity"]);
    simulate(&["--capacity", "1"], &["--capacity 1"]);
    simulate(&["--pools", "1,-1"], &["--pools", "positive"]);
    simulate(&["--pools", "1,2", "--gc", "own"], &["pools", "9 streams"]);
    simulate(&["--victim", "pool-greedy", "--pools", "1,2"], &["pool-greedy sizes its pools"]);
    simulate(&["--background-gc", "1:4"], &["--background-gc", "LOW:HIGH"]);
    simulate(&["--background-gc", "4:4000"], &["free superblocks", "<="]);
}

/// Sizes that suit hot and cold data, against sizes that do not.
#[test]
fn pools_of_good_sizes_help() {
    let place = Place::new();
    let trace = place.path("t.pctrace");
    let rules = place.path("rules");
    fs::write(&rules, "label=hot -> 1\nlabel=cold -> 0\n").unwrap();
    let waf = |pools: &str| {
        let flags =
            ["--scheme", "manual", "--gc", "own", "--streams", "2", "--rules", &rules, "--pools", pools];
        let result = json(&[&["simulate", &trace, "--json", "-"], &flags[..]].concat());
        result["results"][0]["waf"].as_f64().unwrap()
    };
    let (good, bad) = (waf("4,1"), waf("20,1"));
    assert!(good < 0.8 * bad, "good sizes {good}, bad sizes {bad}");
}

/// WAF depends on the size of superblocks, so a size below the default is said.
#[test]
fn a_default_superblock_without_room_is_remarked() {
    let place = Place::new();
    let (trace, rows) = (place.path("t.pctrace"), place.path("r.csv"));
    let remark = "superblocks of 64 pages: the default size, 128 pages, leaves no room";
    let crowded = ["--spare-factor", ".03", "--scheme", "baseline"];
    let says = |flags: &[&str]| {
        let simulated = ends_with(0, &[&["simulate", &trace], &crowded[..], flags].concat()).1;
        let swept = ends_with(0, &[&["sweep", &trace, "-o", &rows], &crowded[..], flags].concat()).1;
        let counts = [&simulated, &swept].map(|err| err.matches(remark).count());
        assert_eq!(counts[0], counts[1], "{simulated}{swept}");
        counts[0]
    };
    assert_eq!(says(&["--gc", "own,internal"]), 1);
    assert_eq!(says(&["--gc", "own"]), 0);
    assert_eq!(says(&["--gc", "own,internal", "--superblock-pages", "64"]), 0);
}
