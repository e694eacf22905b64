//! Golden tables: what every victim policy, profile and scheme makes of small recorded traces. A change of any
//! decision, or of any time, shows here as a diff to be reviewed; renew the tables with
//!
//! ```text
//! PCSTREAM_RENEW_GOLDEN=1 cargo test -p pcstream --test golden
//! ```
//!
//! `scripts/golden-trace` recorded the traces: RocksDB, SQLite and GCC side by side, and generated hot and cold
//! pages.

mod common;
#[path = "../../pcstream-ssd/tests/common/golden_table.rs"]
mod golden_table;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use common::json;
use golden_table::assert_golden;
use pcstream_ssd::{VictimPolicy, profile};
use serde_json::Value;

/// A trace, and flags of a device on which it is work.
const CASES: [(&str, &[&str]); 2] = [
    (
        "mixed",
        &["--superblock-pages=32", "--streams=9", "--spare-factor=0.07", "--pack=0.98", "--no-discard"],
    ),
    ("hotcold", &["--superblock-pages=64", "--streams=3", "--spare-factor=0.15"]),
];

/// Databases, whose pages are rewritten in place: on a full device. `scripts/workloads` has what they did.
const DATABASES: [(&str, &[&str]); 2] = [
    ("sqlite", &["--superblock-pages=32", "--streams=9", "--spare-factor=0.07", "--prefill=1"]),
    ("postgresql", &["--superblock-pages=128", "--streams=9", "--spare-factor=0.07", "--prefill=1"]),
];

/// Devices of recordings, nearly full.
const FULL: [&[&str]; 4] = [
    &["--pack=0.98", "--spare-factor=0.07"],
    &["--pack=0.98", "--spare-factor=0.125"],
    &["--pack=0.98", "--spare-factor=0.07", "--no-discard"],
    &["--pack=0.98", "--spare-factor=0.125", "--no-discard"],
];

/// Where learned streams cost more than a percent: trace, GC destination, scheme, and WAF over that of `baseline`, rounded
/// up. docs/scheme-choices.md says why.
const LOSSES: [(&str, &str, &str, f64); 5] = [
    ("postgresql", "internal", "pcstream", 1.019),
    ("postgresql", "shared", "pcstream", 1.035),
    ("postgresql", "shared", "pcstream-plus", 1.017),
    ("postgresql", "internal", "pcstream-plus-context", 1.012),
    ("postgresql", "shared", "pcstream-plus-context", 1.038),
];

fn simulate(trace: &str, flags: &[&str]) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/{trace}.pctrace"));
    results_of(path.to_str().expect("a plain path"), flags)
}

fn results_of(path: &str, flags: &[&str]) -> Vec<Value> {
    let mut result = json(&[&["simulate", path, "--json", "-"], flags].concat());
    result["results"].as_array_mut().expect("results").drain(..).collect()
}

/// The rows of `results` with the numbers that any change of a decision changes.
fn rows(label: &str, results: &[Value]) -> String {
    let mut table = String::new();
    for r in results {
        let text = |key: &str| r[key].as_str().expect("text").to_owned();
        let number = |key: &str| r[key].as_u64().expect("a number");
        writeln!(
            table,
            "{label:<28} {:<16} {:<9} {:>8.4} {:>8} {:>7} {:>5} {:>6}",
            text("scheme"),
            text("gc_destination"),
            r["waf"].as_f64().expect("a WAF"),
            number("gc_pages"),
            number("erases"),
            r["wear"]["most"].as_u64().expect("a number"),
            r["facts"]["reclusterings"].as_u64().unwrap_or(0),
        )
        .expect("a string takes it");
    }
    table
}

const HEAD: &str =
    "trace, what                  scheme           gc             waf gc_pages  erases  worn regrou\n";

#[test]
fn schemes() {
    let mut table = HEAD.to_owned();
    for (trace, device) in CASES {
        let all = ["--scheme", "all", "--gc", "own,internal,shared"];
        table += &rows(trace, &simulate(trace, &[device, &all].concat()));
    }
    assert_golden("schemes", &table);
}

#[test]
fn databases() {
    let mut table = HEAD.to_owned();
    for (trace, device) in DATABASES {
        let all = ["--scheme", "all", "--gc", "own"];
        table += &rows(trace, &simulate(trace, &[device, &all].concat()));
    }
    assert_golden("databases", &table);
}

/// Streams that were learned may gain nothing, but must not cost more than a percent, wherever garbage collection puts
/// its copies; or no more than is known.
#[test]
fn learned_streams_are_hardly_worse_than_none() {
    let full = |&(trace, device): &(&'static str, &'static [&'static str])| {
        FULL.into_iter().chain([device]).map(move |device| (trace, device))
    };
    let mut worst: BTreeMap<(&str, &str, &str), f64> = BTreeMap::new();
    for (trace, device) in CASES.iter().chain(&DATABASES).flat_map(full) {
        let some = [
            "--scheme",
            "baseline,pcstream,pcstream-plus,pcstream-plus-context",
            "--gc",
            "own,internal,shared",
        ];
        let results = simulate(trace, &[device, &some].concat());
        let waf = |scheme: &str, gc: &str| {
            let one = results.iter().find(|r| r["scheme"] == scheme && r["gc_destination"] == gc);
            one.expect("a result")["waf"].as_f64().expect("a WAF")
        };
        for gc in ["own", "internal", "shared"] {
            for scheme in ["pcstream", "pcstream-plus", "pcstream-plus-context"] {
                let cost = worst.entry((trace, gc, scheme)).or_default();
                *cost = cost.max(waf(scheme, gc) / waf("baseline", gc));
            }
        }
    }
    let known =
        |at| LOSSES.iter().find(|&&(trace, gc, scheme, _)| (trace, gc, scheme) == at).map(|loss| loss.3);
    let wrong = |&(&at, &cost): &(&(_, _, _), &f64)| match known(at) {
        // Neither worse than is said, nor better.
        Some(said) => cost > said || cost < said - 0.001,
        None => cost > 1.01,
    };
    let wrong: Vec<_> = worst.iter().filter(wrong).collect();
    assert!(wrong.is_empty(), "WAF over that of baseline: {wrong:?}");
}

/// Where no page differs from another, `pcstream-plus` opens no stream. So it costs nothing, and the same by contexts alone.
#[test]
fn evenly_spread_writes_need_no_stream() {
    let place = common::Place::new();
    for (pages, seed) in [("16K", "1"), ("64K", "2"), ("64K", "3")] {
        let trace = &place.path(&format!("{pages}-{seed}.pctrace"));
        let made = ["generate", "uniform", "--pages", pages, "--writes", "1M", "--seed", seed, "-o", trace];
        common::ends_with(0, &made);
        for spare_factor in ["0.07", "0.125"] {
            let flags = [
                "--spare-factor",
                spare_factor,
                "--scheme",
                "baseline,pcstream-plus,pcstream-plus-context",
                "--gc",
                "own,internal,shared",
            ];
            let results = results_of(trace, &flags);
            for plus in results.iter().filter(|r| r["scheme"] != "baseline") {
                let same =
                    |r: &&Value| r["scheme"] == "baseline" && r["gc_destination"] == plus["gc_destination"];
                assert_eq!(
                    plus["waf"],
                    results.iter().find(same).expect("a result")["waf"],
                    "{pages} {seed} {spare_factor} {}",
                    plus["scheme"]
                );
            }
        }
    }
}

#[test]
fn victims() {
    let mut table = HEAD.to_owned();
    for (trace, device) in CASES {
        for victim in VictimPolicy::known() {
            let victim = victim.to_string();
            let flags = ["--victim", &victim, "--scheme", "baseline,manual", "--gc", "own,internal"];
            table += &rows(&format!("{trace} {victim}"), &simulate(trace, &[device, &flags].concat()));
        }
        let background = ["--background-gc", "4:8", "--scheme", "baseline,manual"];
        table += &rows(&format!("{trace} background 4:8"), &simulate(trace, &[device, &background].concat()));
    }
    assert_golden("victims", &table);
}

#[test]
fn profiles() {
    let mut table = String::from(
        "trace, profile           scheme       waf  erases     iops    p50 us    p99 us    max us\n",
    );
    for (trace, _) in CASES {
        for known in profile::KNOWN {
            let flags =
                ["--profile", known.name, "--timing", "--scheme", "baseline,pcstream", "--prefill", "1"];
            for r in simulate(trace, &flags) {
                let write = &r["latency_us"]["write"];
                writeln!(
                    table,
                    "{:<24} {:<9} {:>8.4} {:>6} {:>8.0} {:>9.0} {:>9.0} {:>9.0}",
                    format!("{trace} {}", known.name),
                    r["scheme"].as_str().expect("text"),
                    r["waf"].as_f64().expect("a WAF"),
                    r["erases"].as_u64().expect("a number"),
                    r["iops"].as_f64().expect("a number"),
                    write["p50"].as_f64().expect("a number"),
                    write["p99"].as_f64().expect("a number"),
                    write["max"].as_f64().expect("a number"),
                )
                .expect("a string takes it");
            }
        }
    }
    assert_golden("profiles", &table);
}
