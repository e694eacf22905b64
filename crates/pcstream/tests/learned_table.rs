//! PCStream's table outlives a simulation: `--save-table`, `--load-table`, `--table-bytes`.

mod common;

use std::fs;
use std::path::Path;

use common::{Place, ends_with, json, refuses};
use pcstream_placement::SchemeFactory as _;
use serde_json::Value;

fn simulate(trace: &str, flags: &[&str]) -> Value {
    let all = [&["simulate", trace, "--scheme", "pcstream", "--json", "-"], flags].concat();
    json(&all)["results"][0].clone()
}

#[test]
fn the_next_run_begins_with_what_this_one_learned() {
    let place = Place::new();
    let (trace, table, copy) = (place.path("t.pctrace"), place.path("table"), place.path("copy"));
    let first = simulate(&trace, &["--save-table", &table]);
    let saved = fs::read(&table).expect("it was saved");
    assert!(!saved.is_empty());
    let second = simulate(&trace, &["--load-table", &table, "--save-table", &copy]);
    // What was learned is known from the first write on.
    assert!(first["default_stream_share"].as_f64() > Some(0.0), "{first}");
    assert_eq!(second["default_stream_share"].as_f64(), Some(0.0), "{second}");
    assert_eq!(first["facts"]["contexts_known"], second["facts"]["contexts_known"]);
    simulate(&trace, &["--save-table", &table]);
    assert_eq!(fs::read(&table).expect("it was replaced"), saved, "the same run saves the same table");
    let left =
        fs::read_dir(Path::new(&table).parent().expect("a directory")).expect("it can be listed").count();
    assert_eq!(left, 3, "trace, table and copy, and nothing temporary");
}

#[test]
fn a_small_table_forgets() {
    let place = Place::new();
    let trace = place.path("t.pctrace");
    let small = simulate(&trace, &["--table-bytes", "13"]);
    assert_eq!(small["facts"]["contexts_known"], 1);
    assert!(small["facts"]["table_evictions"].as_u64() > Some(0), "{small}");
    assert_eq!(simulate(&trace, &[])["facts"]["table_evictions"], 0);
}

/// Its entries are programs, not program contexts.
#[test]
fn a_table_of_another_kind_of_scheme_is_refused() {
    let place = Place::new();
    let (trace, table) = (place.path("t.pctrace"), place.path("table"));
    let saved = |scheme: &str| {
        let scheme = pcstream_placement::configure(scheme).expect("it is registered");
        let scheme =
            scheme.build(&pcstream_placement::Environment::new(9).expect("streams")).expect("it can be made");
        fs::write(&table, scheme.learned().expect("it learns")).expect("it can be written");
    };
    saved("vstream-executable");
    let load = ["simulate", &trace, "--load-table", &table, "--scheme"];
    let foreign = ["one of the scheme 'vstream-executable'", "--load-table"];
    refuses(2, &[&load[..], &["pcstream"]].concat(), &foreign);
    if cfg!(feature = "capture") {
        refuses(2, &["top", "--load-table", &table, "--once"], &foreign);
    }
    ends_with(0, &[&load[..], &["vstream-executable,pcstream"]].concat());
    // The curves of a report begin with it, too: refused before a trace is read.
    let report = ["report", "/none.pctrace", "--load-table", &table, "--scheme", "vstream-executable"];
    refuses(2, &[&report[..], &["-o", "-"]].concat(), &foreign);
    saved("pcstream-tree");
    ends_with(0, &[&load[..], &["pcstream"]].concat());
    refuses(2, &[&load[..], &["vstream-executable"]].concat(), &["one of the scheme 'pcstream-tree'"]);
}

/// Where other schemes are simulated besides, as for the curves of a report, those alone that learn begin with it.
#[test]
fn a_table_that_no_scheme_begins_with_is_refused() {
    let place = Place::new();
    let (trace, table, page) = (place.path("t.pctrace"), place.path("table"), place.path("r.html"));
    simulate(&trace, &["--save-table", &table]);
    let load = |command, scheme| [command, trace.as_str(), "--load-table", &table, "--scheme", scheme];
    let none = ["--load-table", "name pcstream in --scheme"];
    refuses(2, &load("simulate", "baseline,oracle"), &none);
    refuses(2, &load("contexts", "baseline"), &none);
    refuses(2, &[&load("sweep", "pcstream-plus")[..], &["-o", "-"]].concat(), &none);
    ends_with(0, &[&load("report", "baseline,pcstream")[..], &["-o", &page]].concat());
    ends_with(0, &["advise", &trace, "--load-table", &table]);
}

#[test]
fn what_is_no_table_is_refused() {
    let place = Place::new();
    let (trace, table) = (place.path("t.pctrace"), place.path("table"));
    let load = |words: &[&str]| refuses(2, &["simulate", &trace, "--load-table", &table], words);
    load(&["--load-table", &table, "No such file"]);
    fs::write(&table, "not a table at all").expect("it can be written");
    load(&["--load-table", &table]);
    let from = fs::File::create(&table).expect("it can be made");
    from.set_len(65 << 20).expect("it can be long");
    load(&["--load-table", "longer than"]);
    let baseline = ["simulate", &trace, "--scheme", "baseline", "--save-table", &table];
    refuses(2, &baseline, &["--save-table", "add pcstream to --scheme"]);
    let nowhere = place.path("no/such/table");
    refuses(1, &["simulate", &trace, "--save-table", &nowhere], &["--save-table", "cannot write there"]);
}
