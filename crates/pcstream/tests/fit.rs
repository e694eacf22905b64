//! Simulations that are made to fit: into memory, and onto devices that say something.

mod common;

use std::path::Path;

use common::{Place, ends_with, json, refuses};
use pcstream_trace::*;
use serde_json::Value;

fn event(op: Op, page: u64) -> Event {
    Event { context: ContextId(1), op, ..Event::write(page, 1) }
}

/// A trace of a device of `pages` pages: `writes` pages, spread over it, each written `rounds` times in another order; every third
/// is discarded in the end.
fn trace(dir: &Path, pages: u64, writes: u64, rounds: u64) -> String {
    let path = dir.join("large.pctrace");
    let mut writer = TraceWriter::create(&path, Meta::new("large", pages), false).unwrap();
    let context = Context::label(ContextId(1), "spread");
    writer.write_batch(&Batch { contexts: vec![context], ..Batch::default() }).unwrap();
    let event = |op, index: u64| event(op, index * (pages / writes));
    let mut order: Vec<u64> = (0..writes).collect();
    let mut random = 1u64;
    for _ in 0..rounds {
        for last in (1..order.len()).rev() {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            order.swap(last, (random >> 33) as usize % (last + 1));
        }
        let events = order.iter().map(|&index| event(Op::Write, index)).collect();
        writer.write_batch(&Batch { events, ..Batch::default() }).unwrap();
    }
    let events = (0..writes).step_by(3).map(|index| event(Op::Discard, index)).collect();
    writer.write_batch(&Batch { events, ..Batch::default() }).unwrap();
    writer.finish(None).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The most memory that any program that this test binary started has taken, in bytes.
fn peak_of_children() -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the structure is large enough, and all bits zero are a legal value of it.
    let usage = unsafe {
        assert_eq!(libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr()), 0);
        usage.assume_init()
    };
    usage.ru_maxrss as u64 * 1024
}

const TB: u64 = 1_000_000_000_000 / 4096;

#[test]
fn contexts_of_devices_of_any_size_are_listed_in_little_memory() {
    for pages in [14 * TB, 2_000 * TB] {
        let dir = tempfile::tempdir().unwrap();
        let trace = trace(dir.path(), pages, 5_000, 2);
        let result = json(&["contexts", &trace, "--json", "-"]);
        assert_eq!(result["contexts"][0]["pages"], 10_000);
        assert_eq!(result["contexts"][0]["alive_pages"], 3333);
        assert!(result["contexts"][0]["lifetime_pages"]["p50"].as_u64().unwrap() > 1000);
    }
    assert!(peak_of_children() < 1 << 30, "{}", peak_of_children());
}

#[test]
fn large_drives_of_which_little_is_touched_fit_into_a_gigabyte() {
    for pages in [4 * TB, 14 * TB] {
        let dir = tempfile::tempdir().unwrap();
        let trace = trace(dir.path(), pages, 3_000, 3);
        let args =
            ["simulate", &trace, "--scheme", "baseline,pcstream,oracle", "--memory", "1G", "--json", "-"];
        let result = json(&args);
        assert_eq!(result["device"]["logical_pages"], pages);
        assert_eq!(result["results"].as_array().unwrap().len(), 6);
        assert!(result["results"].as_array().unwrap().iter().all(|lane| lane["host_pages"] == 9000));
    }
    assert!(peak_of_children() < 1 << 30, "{}", peak_of_children());
}

#[test]
fn reports_of_large_drives_of_which_little_is_touched_fit_into_a_gigabyte() {
    for pages in [4 * TB, 14 * TB] {
        let dir = tempfile::tempdir().unwrap();
        let trace = trace(dir.path(), pages, 3_000, 3);
        let limit = ["--scheme", "baseline,pcstream", "--memory", "1G"];
        let page = dir.path().join("r.html");
        let report = ["report", &trace, "-o", page.to_str().unwrap(), "--no-curves"];
        ends_with(0, &[&report[..], &limit].concat());
        assert!(std::fs::read_to_string(&page).unwrap().contains("Who writes where"));
        let picture = ["report", &trace, "--figure", "rates", "--csv", "-"];
        let (csv, _) = ends_with(0, &[&picture[..], &limit].concat());
        let written = |line: &str| line.split(',').nth(1).unwrap().parse::<u64>().unwrap();
        assert_eq!(csv.lines().skip(1).map(written).sum::<u64>(), 9000);
    }
    assert!(peak_of_children() < 1 << 30, "{}", peak_of_children());
}

#[test]
fn passes_change_no_result_and_too_little_memory_is_refused_with_the_numbers() {
    let place = Place::new();
    let trace = place.path("t.pctrace");
    let simulate = ["simulate", trace.as_str(), "--scheme", "pcstream,oracle,baseline", "--json", "-"];
    let at_once = json(&[&simulate[..], &["--memory", "8G"]].concat());
    // Room for one or two lanes, by estimate.
    let (out, err) = ends_with(0, &[&simulate[..], &["--memory", "150M"]].concat());
    assert!(err.contains("passes") && err.contains("150 MiB are allowed"), "{err}");
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap(), at_once);
    refuses(
        1,
        &["simulate", &trace, "--memory", "1M"],
        &["needs at least", "1.00 MiB are allowed", "--memory"],
    );
    refuses(
        1,
        &["simulate", &trace, "--capacity", "4T", "--fill", "0.9", "--memory", "1M"],
        &["needs at least", "or take a smaller --capacity"],
    );
}

#[test]
fn a_disk_too_large_for_the_model_can_be_packed() {
    let dir = tempfile::tempdir().unwrap();
    let trace = trace(dir.path(), 40 * TB, 2_000, 2);
    let (csv, html) = (dir.path().join("s.csv"), dir.path().join("r.html"));
    let (csv, html) = (csv.to_str().unwrap(), html.to_str().unwrap());
    let remedy = [
        "more than the 16.0 TiB that the model addresses",
        "use a smaller device, or --pack 0.9 for a device that",
    ];
    refuses(2, &["simulate", &trace], &remedy);
    refuses(2, &["advise", &trace], &remedy);
    refuses(2, &["report", &trace, "-o", html], &remedy);
    refuses(2, &["sweep", &trace, "-o", csv], &remedy);
    let (_, err) = ends_with(2, &["simulate", &trace, "--capacity", "200T"]);
    assert!(err.contains("use a smaller device") && !err.contains("--pack"), "{err}");
    ends_with(0, &["simulate", &trace, "--scheme", "baseline", "--pack", "0.9"]);
}

#[test]
fn a_large_disk_of_which_little_was_written_can_be_packed() {
    let dir = tempfile::tempdir().unwrap();
    let trace = trace(dir.path(), 30 << 18, 20_000, 5);
    let (_, err) = ends_with(0, &["simulate", &trace, "--scheme", "baseline"]);
    assert!(
        err.contains("391 MiB written to ") && err.contains("too little to say anything; --pack"),
        "{err}"
    );
    let packed = ["simulate", trace.as_str(), "--scheme", "baseline", "--gc", "own", "--pack", "0.9"];
    let (_, err) = ends_with(0, &packed);
    assert!(err.contains("simulated as if 90.0 % full: 78.1 MiB of addresses"), "{err}");
    assert!(!err.contains("too little"), "{err}");
    let result = json(&[&packed[..], &["--json", "-"]].concat());
    assert_eq!(result["device"]["logical_pages"], 22_223);
    assert!(result["results"][0]["waf"].as_f64().unwrap() > 1.05, "{}", result["results"][0]["waf"]);
    assert_eq!(result["trace"]["host_pages"], 100_000);

    // On a device of a given size, static data makes up for what is missing.
    let result = json(&[&packed[..], &["--capacity", "256M", "--json", "-"]].concat());
    assert_eq!(result["device"]["logical_pages"], 65_536);
    assert_eq!(result["device"]["prefill_pages"], 58_982 - 20_000);
    refuses(2, &[&packed[..], &["--capacity", "64M"]].concat(), &["20000 different pages", "91025408 bytes"]);
}

/// Of a large disk, packed.
const PACKED: [&str; 8] = ["--scheme", "baseline", "--gc", "own", "--streams", "1", "--pack", "0.9"];

#[test]
fn a_report_packs_as_simulate_does() {
    let place = Place::new();
    let trace = trace(Path::new(&place.path("")), 30 << 18, 20_000, 5);
    let simulated = json(&[&["simulate", trace.as_str(), "--json", "-"], &PACKED[..]].concat());
    let (waf, copies) = (&simulated["results"][0]["waf"], &simulated["results"][0]["gc_pages"]);
    let picture = |name: &str| {
        let report = ["report", trace.as_str(), "--figure", name, "--csv", "-"];
        ends_with(0, &[&report[..], &PACKED[..]].concat())
    };
    let (csv, err) = picture("waf");
    assert!(err.contains("simulated as if 90.0 % full: 78.1 MiB of addresses"), "{err}");
    assert_eq!(csv.lines().nth(1).unwrap().split(',').nth(2).unwrap().parse().ok(), waf.as_f64());
    // Pictures of the survey are of the packed device, too.
    let copied = |line: &str| line.rsplit(',').next().unwrap().parse::<u64>().unwrap();
    let sum: u64 = picture("flame-copied").0.lines().skip(1).map(copied).sum();
    assert!(sum > 0 && Some(sum) == copies.as_u64(), "{sum} {copies}");
    // And so are the curves, on which the drive of the table is a point.
    let (curve, _) = picture("waf-over-utilisation");
    let wafs = curve.lines().skip(1).filter(|line| line.contains("baseline"));
    let wafs: Vec<f64> = wafs.map(|line| line.rsplit(',').next().unwrap().parse().unwrap()).collect();
    assert!(wafs.iter().any(|point| Some(*point) == waf.as_f64()), "{waf}: {curve}");
    let page = place.path("r.html");
    ends_with(0, &[&["report", trace.as_str(), "-o", &page, "--no-curves"], &PACKED[..]].concat());
    assert!(std::fs::read_to_string(&page).unwrap().contains("78.1 MiB of addresses packed"));
}

/// A ninth of the addresses hold data at a time: what is written goes where nothing is, and something else is discarded.
fn spread(path: &str) {
    let mut writer = TraceWriter::create(Path::new(path), Meta::new("spread", 60_000), false).unwrap();
    let contexts = vec![Context::label(ContextId(1), "spread")];
    let mut free: Vec<u64> = (0..40_000).collect();
    let mut live: Vec<u64> = Vec::new();
    let (mut random, mut events) = (1u64, Vec::new());
    let mut below = |n: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % n
    };
    for _ in 0..80_000 {
        if live.len() == 4000 {
            let page = live.swap_remove(below(4000));
            events.push(event(Op::Discard, page));
            free.push(page);
        }
        let page = free.swap_remove(below(free.len()));
        events.push(event(Op::Write, page));
        live.push(page);
    }
    writer.write_batch(&Batch { events, contexts, ..Batch::default() }).unwrap();
    writer.finish(None).unwrap();
}

#[test]
fn a_device_is_packed_by_what_lives_at_once() {
    let place = Place::new();
    let trace = place.path("spread.pctrace");
    spread(&trace);
    let simulate =
        ["simulate", trace.as_str(), "--scheme", "baseline,autostream-mq", "--gc", "own", "--streams", "2"];
    let by = |flag: &str, more: &[&str]| {
        let (out, err) = ends_with(0, &[&simulate[..], &[flag, "0.9", "--json", "-"], more].concat());
        (serde_json::from_str::<Value>(&out).unwrap(), err)
    };
    let (addresses, err) = by("--pack", &[]);
    assert_eq!(addresses["results"][0]["waf"], 1.0);
    assert!(err.contains("--pack-live 0.9") && !err.contains("autostream-mq: "), "{err}");
    let (live, err) = by("--pack-live", &[]);
    let (device, space) = (&live["device"], &live["space"]);
    assert_eq!((&device["logical_pages"], &device["address_pages"]), (&4445.into(), &35_563.into()));
    assert!(live["results"][0]["waf"].as_f64().unwrap() > 1.5, "{}", live["results"][0]["waf"]);
    assert_eq!(live["trace"]["host_pages"], 80_000);
    assert!(
        device["origin"].is_null() && space["live_pages"] == 4000 && space["packed_pages"] == 35_563,
        "{device} {space}"
    );
    assert!(
        err.contains("autostream-mq: neighbouring addresses matter") && !err.contains("baseline"),
        "{err}"
    );
    // Without discards all that was written lives.
    let (kept, err) = by("--pack-live", &["--no-discard"]);
    assert_eq!(kept["results"], by("--pack", &["--no-discard"]).0["results"]);
    assert!(err.contains("autostream-mq"), "{err}");
    // Sizes, curves and memory of a device with more addresses than pages.
    let (whole, _) = by("--pack-live", &["--capacity", "240M"]);
    assert_eq!(whole["device"]["prefill_pages"], 55_296 - 4000);
    refuses(2, &[&simulate[..], &["--pack-live", "0.9", "--pack", "0.9"]].concat(), &["cannot be used with"]);
    let page = place.path("spread.html");
    ends_with(0, &["report", &trace, "-o", &page, "--scheme", "baseline", "--pack-live", "0.9"]);
    assert!(std::fs::read_to_string(&page).unwrap().contains("of live data"));
}

#[test]
fn a_comparison_packs_as_simulate_does() {
    let place = Place::new();
    let trace = trace(Path::new(&place.path("")), 30 << 18, 20_000, 5);
    let simulated = json(&[&["simulate", trace.as_str(), "--json", "-"], &PACKED[..]].concat());
    let compare = ["compare", trace.as_str(), &trace, "--json", "-"];
    let (out, err) = ends_with(0, &[&compare[..], &PACKED[..]].concat());
    assert!(err.contains("simulated as if 90.0 % full"), "{err}");
    let compared: Value = serde_json::from_str(&out).unwrap();
    for run in compared["runs"].as_array().unwrap() {
        let waf = &run["measures"]["WAF: baseline gc own"]["mean"];
        assert!(*waf == simulated["results"][0]["waf"] && waf.as_f64().unwrap() > 1.05, "{run}");
    }
    refuses(2, &["compare", &trace, &trace, "--pack", "2"], &["--pack", "above 0"]);
}

#[test]
fn what_was_there_before_fills_the_flash_too() {
    let dir = tempfile::tempdir().unwrap();
    let trace = trace(dir.path(), 110_000, 20_000, 5);
    let simulate = ["simulate", trace.as_str(), "--scheme", "baseline"];
    let (_, err) = ends_with(0, &simulate);
    assert!(err.contains("391 MiB written to ") && err.contains("too little to say anything"), "{err}");
    let (out, err) = ends_with(0, &[&simulate[..], &["--prefill", "1"]].concat());
    assert!(!err.contains("too little"), "{err}\n{out}");
}

#[test]
fn static_data_raises_the_waf_and_discards_can_be_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let trace = trace(dir.path(), 40_000, 20_000, 6);
    let waf = |flags: &[&str]| {
        let simulate = ["simulate", trace.as_str(), "--scheme", "baseline", "--gc", "own", "--json", "-"];
        let result = json(&[&simulate[..], flags].concat());
        (result["results"][0]["waf"].as_f64().unwrap(), result["trace"]["discarded_pages"].as_u64().unwrap())
    };
    let (half, discarded) = waf(&["--fill", "0.5"]);
    let (full, _) = waf(&["--fill", "1"]);
    assert!(full > half + 0.1, "{half} {full}");
    assert_eq!((discarded, waf(&["--no-discard"]).1), (6_667, 0));
    refuses(2, &["simulate", &trace, "--fill", "0.2"], &["20000 different pages", "more than 0.2"]);
    refuses(2, &["simulate", &trace, "--pack", "0"], &["--pack", "above 0"]);
}

#[test]
fn merged_traces_are_simulated() {
    let place = Place::new();
    let (a, b, m) = (place.path("t.pctrace"), place.path("u.pctrace"), place.path("m.pctrace"));
    ends_with(0, &["generate", "zipf", "--pages", "32K", "--writes", "64K", "-o", &b]);
    ends_with(0, &["merge", &a, &b, "-o", &m]);
    let result = json(&["simulate", &m, "--scheme", "baseline", "--json", "-"]);
    assert_eq!(result["device"]["logical_pages"], 96 << 10);
    assert_eq!(result["trace"]["host_pages"], 320 << 10);
    refuses(1, &["merge", &a, &b, "-o", &m], &["exists already", "--force"]);
    refuses(2, &["merge", &a, "-o", &m], &["2 values"]);
}

#[test]
fn merge_does_not_replace_what_it_merges() {
    let place = Place::new();
    let (a, b, link) = (place.path("t.pctrace"), place.path("u.pctrace"), place.path("link"));
    ends_with(0, &["generate", "zipf", "--pages", "32K", "--writes", "64K", "-o", &b]);
    std::os::unix::fs::symlink(&b, &link).unwrap();
    refuses(2, &["merge", &a, &b, "-o", &a, "--force"], &["-o", &format!("the trace {a}")]);
    refuses(2, &["merge", &a, &b, "-o", &link, "--force"], &[&link, &format!("the trace {b}")]);
    // A trace that its recorder did not finish lies where one is written.
    let (c, partial) = (place.path("c.pctrace"), place.path("c.pctrace.partial"));
    std::fs::rename(&b, &partial).unwrap();
    refuses(2, &["merge", &a, &c, "-o", &c, "--force"], &["-o", &format!("the trace {partial}")]);
    ends_with(0, &["simulate", &a, "--scheme", "baseline"]);
    ends_with(0, &["simulate", &partial, "--scheme", "baseline"]);
}

/// Packing leaves out what the trace does to other pages, but the time goes on.
#[test]
fn a_packed_trace_takes_the_time_that_was_traced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("late.pctrace").to_str().unwrap().to_owned();
    let at = |seconds: u64, event: Event| Event { time_ns: seconds * 1_000_000_000, ..event };
    let writes = (0..4000).map(|n| at(n / 400, Event::write(n * 7 % 1024, 1)));
    let read = Event { op: Op::Read, ..Event::write(40_000, 1) };
    let events = writes.chain([at(1000, read)]).collect();
    let mut writer = TraceWriter::create(Path::new(&path), Meta::new("late", 60_000), false).unwrap();
    writer.write_batch(&Batch { events, ..Batch::default() }).unwrap();
    writer.finish(None).unwrap();
    for flags in [&[][..], &["--pack", "0.9"]] {
        let of = ["--scheme", "baseline", "--gc", "own"];
        let result = json(&[&["simulate", path.as_str(), "--json", "-"], &of[..], flags].concat());
        let now = |field: &str| result["verdict"]["now"][field].as_u64().unwrap();
        let per_day = now("flash_bytes") as f64 * 86_400.0 / 1000.0;
        assert_eq!(now("flash_bytes_per_day"), per_day as u64, "{flags:?}");
        let figure = ["--no-curves", "--figure", "rates", "--csv", "-"];
        let (rates, _) = ends_with(0, &[&["report", path.as_str()], &of[..], &figure, flags].concat());
        let last = rates.lines().last().and_then(|line| line.split(',').next());
        assert_eq!(last, Some("993.333333"), "{flags:?}");
        let written = |line: &str| line.split(',').nth(1).unwrap() != "0";
        assert_eq!(rates.lines().skip(1).filter(|line| written(line)).count(), 2, "{rates}");
    }
}
