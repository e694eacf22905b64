//! `report`, `advise`, `compare` and the views of `contexts`, on recorded and generated traces.

mod common;

use std::fs;

use common::{Place, ends_with, json, pcstream, refuses, text};
use pcstream_report::pictures;
use serde_json::Value;

fn recorded(name: &str) -> String {
    format!("{}/tests/data/{name}.pctrace", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_report_is_one_file_with_every_picture_and_nothing_from_a_network() {
    let place = Place::new();
    let (trace, page) = (recorded("mixed"), place.path("r.html"));
    let (_, err) = ends_with(0, &["report", &trace, "-o", &page]);
    assert!(err.contains(&format!("{page}: ")) && err.contains(" written"), "{err}");
    let html = fs::read_to_string(&page).unwrap();
    refuses(2, &["report", &trace, "-o", "-", "--json", "-"], &["--output - and --json -", "only one"]);
    let (printed, _) = ends_with(0, &["report", &trace, "-o", "-", "--no-curves"]);
    assert!(printed.starts_with("<!doctype html>") && printed.ends_with("</html>\n"), "it is the page alone");
    assert!(!printed.contains("id=\"waf-over-streams\""), "left out");
    let (with_clock, without): (Vec<_>, Vec<_>) =
        pictures::names().partition(|name| pictures::needs_clock(name));
    for name in without {
        let section = html.split(&format!("<section id=\"{name}\">")).nth(1).expect(name);
        let section = section.split("</section>").next().unwrap();
        assert!(section.contains("<svg class=\"figure\"") || section.contains("nothing to show"), "{name}");
    }
    for foreign in ["src=", "url(", "@import", "<link", "https://"] {
        assert!(!html.contains(foreign), "{foreign}");
    }
    // The only address is the name of SVG's namespace.
    assert_eq!(html.matches("http://").count(), html.matches("http://www.w3.org/2000/svg").count());
    assert!(
        html.contains("<div class=\"verdict ")
            && html.contains("CompactionJob::Run")
            && html.contains("db_bench")
    );
    assert_eq!(html.matches("<svg ").count(), html.matches("</svg>").count());
    assert!(html.len() < 2 << 20, "{} bytes for 57 contexts", html.len());
    let is_absent = |name: &&str| !html.contains(&format!("id=\"{name}\""));
    assert!(with_clock.iter().all(is_absent), "without a clock there is nothing to show");
    assert!(html.contains(" of what baseline programs on the same drive"), "what streams of the host save");
    // Call paths are those of `contexts`.
    let (rows, _) = ends_with(0, &["contexts", &trace, "--csv"]);
    let paths = rows.lines().filter_map(|row| row.rsplit(',').next()).filter(|path| path.contains(" .. "));
    let paths: Vec<String> = paths.map(|path| path.trim_end_matches('"').replace('<', "&lt;")).collect();
    let is_shown = |path: &String| html.contains(&format!("{path}</summary>"));
    assert!(paths.len() > 9 && paths.iter().all(is_shown), "{rows}");
    assert!(!html.contains("write &lt; write"), "the entry into the kernel is not said twice");
}

/// Of a scheme on a drive: its colour, its marker and its stroke are the same in all pictures.
#[test]
fn a_scheme_looks_the_same_in_every_picture() {
    let (place, trace) = (Place::new(), recorded("hotcold"));
    let classes = |name: &str, schemes: &str| {
        let svg = place.path("p.svg");
        ends_with(0, &["report", &trace, "--scheme", schemes, "--figure", name, "--svg", &svg]);
        fs::read_to_string(&svg).unwrap()
    };
    for (name, schemes) in [
        ("waf", "baseline,pcstream"),
        ("waf-over-run", "baseline,pcstream"),
        ("waf-over-run", "pcstream,manual,baseline"),
        ("waf-over-utilisation", "baseline"),
        ("waf-over-streams", "oracle"),
    ] {
        let drawing = classes(name, schemes);
        let wanted = if name == "waf" { "class=\"f1 l1 internal\"" } else { "class=\"line l1 internal\"" };
        assert!(drawing.contains(wanted), "{name} {schemes}: {drawing}");
        for words in ["on a legacy multi-stream SSD", "on an SSD with internal streams or FDP persistently"] {
            assert!(drawing.contains(words), "{name}: {words}");
        }
    }
}

/// Cells of the map by where they begin, in bytes, and by signatures, which `contexts` has, too.
#[test]
fn the_map_in_numbers_is_of_bytes_and_signatures() {
    let trace = recorded("mixed");
    let (csv, _) = ends_with(0, &["report", &trace, "--figure", "address-map", "--csv", "-"]);
    let result = json(&["contexts", &trace, "--json", "-"]);
    let contexts = result["contexts"].as_array().unwrap();
    let mut named = 0;
    assert_eq!(csv.lines().next(), Some("written_bytes,address_bytes,signature"));
    for line in csv.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let bytes = |at: usize| fields[at].parse::<u64>().unwrap();
        assert!(bytes(0) % 4096 == 0 && bytes(1) % 4096 == 0, "{line}");
        named += u64::from(!fields[2].is_empty());
        assert!(fields[2].is_empty() || contexts.iter().any(|row| row["signature"] == fields[2]), "{line}");
    }
    let columns: Vec<u64> =
        csv.lines().skip(1).map(|l| l.split(',').next().unwrap().parse().unwrap()).collect();
    let pages: u64 = contexts.iter().map(|row| row["pages"].as_u64().unwrap()).sum();
    let (last, all) = (*columns.last().unwrap(), pages * 4096);
    assert!(named > 100 && columns.is_sorted() && last < all && last > all * 9 / 10, "{last} of {all}");
}

#[test]
fn a_report_escapes_what_traced_programs_name() {
    let place = Place::new();
    let (trace, page) = (place.path("<img onerror=alert(1)>.pctrace"), place.path("r.html"));
    ends_with(0, &["generate", "uniform", "--pages", "4K", "--writes", "8K", "-o", &trace]);
    ends_with(0, &["report", &trace, "-o", &page, "--no-curves"]);
    let html = fs::read_to_string(&page).unwrap();
    assert!(
        html.contains("&lt;img onerror=alert(1)&gt;") && !html.contains("<img"),
        "a name became an element"
    );
}

#[test]
fn pictures_alone_and_their_numbers() {
    let place = Place::new();
    let (trace, svg) = (recorded("hotcold"), place.path("map.svg"));
    ends_with(0, &["report", &trace, "--figure", "address-map", "--svg", &svg]);
    let drawing = fs::read_to_string(&svg).unwrap();
    assert!(
        drawing.starts_with("<svg ") && drawing.contains("<style>") && drawing.trim_end().ends_with("</svg>")
    );
    let says = |words: &str| drawing.contains(&format!(">{words}</text>"));
    assert!(says("Who writes where, and when") && says("hotcold.pctrace") && says("address"), "{drawing}");
    let png = place.path("map.png");
    let drawn = pcstream(&["report", &trace, "--figure", "address-map", "--png", &png]);
    if drawn.status.success() {
        let bytes = fs::read(&png).unwrap();
        let size = [16, 20].map(|at| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()));
        assert!(bytes.starts_with(b"\x89PNG\r\n") && size.iter().all(|pixels| *pixels > 400), "{size:?}");
    } else {
        assert!(text(&drawn.stderr).contains("no font is installed"), "{}", text(&drawn.stderr));
    }
    let flags = ["--figure", "waf", "--csv", "-", "--scheme", "baseline,pcstream"];
    let (csv, _) = ends_with(0, &[&["report", trace.as_str()], &flags[..]].concat());
    let result = json(&["simulate", &trace, "--scheme", "baseline,pcstream", "--json", "-"]);
    assert_eq!(csv.lines().count(), 5, "{csv}");
    for (line, result) in csv.lines().skip(1).zip(result["results"].as_array().unwrap()) {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!(fields[0], result["scheme"].as_str().unwrap());
        assert_eq!(fields[2].parse::<f64>().unwrap(), result["waf"].as_f64().unwrap());
    }
    // Copies by context add up to those of a drive without streams.
    let flags =
        ["--figure", "flame-copied", "--csv", "-", "--scheme", "baseline", "--gc", "own", "--streams", "1"];
    let (copied, _) = ends_with(0, &[&["report", trace.as_str()], &flags[..]].concat());
    let sum: u64 =
        copied.lines().skip(1).map(|l| l.rsplit(',').next().unwrap().parse::<u64>().unwrap()).sum();
    let flags = ["--scheme", "baseline", "--gc", "own", "--streams", "1", "--json", "-"];
    let baseline = json(&[&["simulate", trace.as_str()], &flags[..]].concat());
    assert_eq!(sum, baseline["results"][0]["gc_pages"].as_u64().unwrap());
    refuses(2, &["report", &trace], &["--output", "--figure"]);
    for kind in ["svg", "png", "CSV"] {
        let file = place.path(&format!("a b.{kind}"));
        let remedy = format!("--figure NAME --{} '{file}'", kind.to_lowercase());
        refuses(2, &["report", &trace, "-o", &file], &["the whole report is HTML", &remedy]);
        assert!(!fs::exists(&file).unwrap());
    }
    let (svg, txt) = (place.path("a.SVG"), place.path("a.txt"));
    let remedy = format!("give --svg {svg}");
    refuses(2, &["report", &trace, "--figure", "waf", "--csv", &txt, "--png", &svg], &["--png", &remedy]);
    assert!(!fs::exists(&svg).unwrap() && !fs::exists(&txt).unwrap());
    refuses(2, &["report", &trace, "--figure", "pie", "--svg", "-"], &["pie", "address-map"]);
    refuses(2, &["report", &trace, "--figure", "waf"], &["--svg", "--csv"]);
}

/// The streams in a table, and of one context, are one scheme's choice.
#[test]
fn contexts_name_the_scheme_of_their_streams() {
    let trace = recorded("mixed");
    let contexts = ["contexts", &trace, "--scheme", "autostream-sfr"];
    let (table, _) = ends_with(0, &contexts);
    assert!(table.contains(", of autostream-sfr\n"), "{table}");
    let (whole, _) = ends_with(0, &[&contexts[..], &["--context", "1"]].concat());
    assert!(
        whole.lines().any(|line| line.starts_with("stream ") && line.ends_with(" of autostream-sfr")),
        "{whole}"
    );
}

#[test]
fn contexts_are_shown_whole_and_in_groups() {
    let trace = recorded("mixed");
    let rows = json(&["contexts", &trace, "--json", "-"])["contexts"].as_array().unwrap().clone();
    let heaviest = rows.iter().find(|row| !row["signature"].is_null()).unwrap();
    let signature = heaviest["signature"].as_str().unwrap();
    let (whole, _) = ends_with(0, &["contexts", &trace, "--context", &signature[..6]]);
    for frame in heaviest["frames"].as_array().unwrap() {
        assert!(
            whole.contains(frame["symbol"].as_str().unwrap()),
            "every frame is shown with its whole name: {whole}"
        );
    }
    let (by_id, _) = ends_with(0, &["contexts", &trace, "--context", &heaviest["id"].to_string()]);
    assert_eq!(whole, by_id);
    refuses(2, &["contexts", &trace, "--context", "zzzz"], &["zzzz", "no context"]);
    let short = &signature[..3];
    refuses(2, &["contexts", &trace, "--context", short], &[short, "no context", "at least four"]);
    let (label, _) = ends_with(0, &["contexts", &Place::new().path("t.pctrace"), "--context", "1"]);
    assert!(label.contains("\npath       label\n") && !label.contains("thread"), "empty parts: {label}");
    let total: u64 = rows.iter().map(|row| row["pages"].as_u64().unwrap()).sum();
    for by in ["file", "program", "thread", "directory", "kind"] {
        let (csv, _) = ends_with(0, &["contexts", &trace, "--by", by, "--csv"]);
        // Names of files and threads here have no commas.
        let pages = csv.lines().skip(1).map(|line| line.split(',').nth(1).unwrap().parse::<u64>().unwrap());
        let pages: Vec<u64> = pages.collect();
        assert_eq!(pages.iter().sum::<u64>(), total, "every page is in one group by {by}");
        assert!(pages.is_sorted_by(|a, b| a >= b), "{by}");
    }
    for flags in [&["--folded", "-"][..], &["--by", "program"], &[]] {
        let (shown, _) = ends_with(0, &[&["contexts", &trace, "--top", "99"], flags].concat());
        assert!(shown.contains("(file system)") && !shown.contains("(unknown)"), "one name: {shown}");
    }
    let (threads, _) = ends_with(0, &["contexts", &trace, "--by", "thread"]);
    assert!(threads.contains("thread of its first write"), "{threads}");
    let (functions, _) = ends_with(0, &["contexts", &trace, "--by", "function", "--top", "3"]);
    assert!(
        functions.contains("WritableFileWriter::Flush") && functions.contains("both counted"),
        "{functions}"
    );
    let (full, _) = ends_with(0, &["contexts", &trace, "--by", "function", "--full-names"]);
    assert!(
        full.contains("rocksdb::WritableFileWriter::Flush(") && !functions.contains("rocksdb::Writable"),
        "{full}"
    );
    for view in [vec![], vec!["--csv"], vec!["--folded", "-"]] {
        let args = [&["contexts", &trace, "--full-names"], &view[..]].concat();
        assert!(ends_with(0, &args).0.contains("rocksdb::"), "{view:?}");
    }
    let (folded, _) = ends_with(0, &["contexts", &trace, "--folded", "-"]);
    let sum: u64 = folded.lines().map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(sum, total);
    assert!(folded.contains("db_bench;rocksdb:low;"), "{folded}");
    let place = Place::new();
    let profile = place.path("p.pb");
    ends_with(0, &["contexts", &trace, "--pprof", &profile]);
    assert!(fs::read(&profile).unwrap().len() > 1000);
    let beside = place.path("beside.pb");
    json(&["contexts", &trace, "--pprof", &beside, "--json", "-"]);
    assert_eq!(
        fs::read(&beside).unwrap(),
        fs::read(&profile).unwrap(),
        "JSON does not keep files from being written"
    );
    refuses(2, &["contexts", &trace, "--folded", "-", "--json", "-"], &["--folded", "--json", "only one"]);
}

/// Both lines of the picture are the lanes' totals, and without a clock there is none.
#[test]
fn throughput_is_shown_beside_copies() {
    let place = Place::new();
    let (trace, svg) = (place.path("t.pctrace"), place.path("t.svg"));
    for figure in ["waf-over-streams", "waf-over-utilisation"] {
        let words = ["--figure", figure, "--no-curves", "--csv", "-"];
        refuses(2, &[&["report", trace.as_str()], &words[..]].concat(), &[figure, "--no-curves leaves out"]);
    }
    let flags = ["--no-curves", "--scheme", "baseline,pcstream", "--prefill", "1", "--figure", "throughput"];
    let report = [&["report", trace.as_str()], &flags[..]].concat();
    let (csv, _) = ends_with(0, &[&report[..], &["--timing", "--csv", "-", "--svg", &svg]].concat());
    let simulate =
        ["simulate", trace.as_str(), "--scheme", "baseline,pcstream", "--prefill", "1", "--json", "-"];
    for result in json(&simulate)["results"].as_array().unwrap() {
        let of = |key: &str| result[key].as_str().unwrap().to_owned();
        let lane = format!("{},{},", of("scheme"), of("gc_destination"));
        let sum = |column: usize| -> u64 {
            let rows = csv.lines().filter(|line| line.starts_with(&lane));
            rows.map(|line| line.split(',').nth(column).unwrap().parse::<u64>().unwrap()).sum()
        };
        assert_eq!(sum(3), result["host_pages"], "{lane}");
        assert_eq!(sum(4), result["gc_pages"], "{lane}");
    }
    assert!(fs::read_to_string(&svg).unwrap().contains("copied"));
    refuses(2, &[&report[..], &["--csv", "-"]].concat(), &["--figure throughput", "needs --timing"]);
}

/// What is advised is simulated: the rules, given back to `simulate`, have the gain that was promised.
#[test]
fn advice_holds_what_it_promises() {
    let place = Place::new();
    let (trace, rules) = (recorded("mixed"), place.path("my.rules"));
    let device = ["--superblock-pages", "256", "--streams", "5", "--spare-factor", "0.1", "--prefill", "0.9"];
    let flags = ["--rules-out", &rules, "--json", "-"];
    let advice = json(&[&["advise", trace.as_str()], &device[..], &flags[..]].concat());
    let changes = advice["changes"].as_array().unwrap();
    let saved: Vec<f64> = changes.iter().map(|change| change["flash_saved"].as_f64().unwrap()).collect();
    assert!(saved.is_sorted_by(|a, b| a >= b) && saved.len() >= 4, "in order of gain: {saved:?}");
    let promised = changes.iter().find(|change| {
        change["scheme"] == "manual"
            && change["drive"] == "a legacy multi-stream SSD"
            && change["change"] == "a stream for each class of lifetimes"
    });
    let promised = promised.expect("rules are among the changes");
    let flags = ["--scheme", "manual", "--gc", "own", "--rules", &rules, "--json", "-"];
    let result = json(&[&["simulate", trace.as_str()], &device[..], &flags[..]].concat());
    assert_eq!(promised["waf"], result["results"][0]["waf"]);
    let (text, _) = ends_with(0, &[&["advise", trace.as_str()], &device[..]].concat());
    assert!(text.starts_with("WAF now: "), "{text}");
    let none = place.path("t.pctrace");
    let (generated, _) = ends_with(0, &["advise", &none]);
    assert!(generated.contains("WAF now"), "{generated}");
}

/// Other drives, too little written, and one drive for all.
#[test]
fn what_makes_runs_hard_to_compare_is_said() {
    let place = Place::new();
    let make = |name: &str, pages: &str, writes: &str| {
        let path = place.path(name);
        ends_with(0, &["generate", "uniform", "--pages", pages, "--writes", writes, "-o", &path]);
        path
    };
    let small = make("small.pctrace", "8K", "80K");
    let (large, short) = (make("large.pctrace", "16K", "40K"), make("short.pctrace", "16K", "1K"));
    let compared = |runs: &[&str], flags: &[&str]| {
        ends_with(0, &[&["compare"], runs, &["--scheme", "baseline", "--gc", "own"], flags].concat()).0
    };
    let differ = "The drives differ, or what was on them before";
    let text = compared(&[&small, &large, &short], &[]);
    let drives = ["on 32.0 MiB logical with spare factor 12.6 %, prefilled 100 %", "on 64.0 MiB logical"];
    assert!(drives.iter().all(|drive| text.contains(drive)) && text.contains(differ), "{text}");
    assert!(text.contains("B is not steady yet: write at least 160 MiB more"), "{text}");
    assert!(text.contains("Nothing can be said of C yet") && text.contains("--pack 0.9"), "{text}");
    assert!(!text.contains("A is not steady") && !text.contains("said of A"), "{text}");
    assert!(!compared(&[&small, &small], &[]).contains(differ));
    assert!(!compared(&[&small, &large], &["--capacity", "128M", "--fill", "0.9"]).contains(differ));
    let packed: Value =
        serde_json::from_str(&compared(&[&small, &large], &["--pack", "0.9", "--json", "-"])).unwrap();
    let pages = |run: usize| packed["runs"][run]["devices"][0]["logical_pages"].as_u64().unwrap();
    let alone = json(&["simulate", &large, "--scheme", "baseline", "--pack", "0.9", "--json", "-"]);
    let needs = alone["device"]["logical_pages"].as_u64().unwrap();
    assert_eq!([pages(0), pages(1)], [needs; 2], "what the large one needs: {packed}");
    assert!(!packed["remarks"].to_string().contains(differ), "{packed}");
}

#[test]
fn flags_that_would_do_nothing_are_refused() {
    let place = Place::new();
    let trace = place.path("t.pctrace");
    let advise = |flags: &[&str], words: &[&str]| refuses(2, &[&["advise", &trace], flags].concat(), words);
    advise(&["--gc", "own"], &["--gc", "the kind of drive"]);
    advise(&["--pools", "1,2"], &["--pools", "another number of sizes"]);
    advise(&["--rules", "common"], &["--rules", "from the trace"]);
    advise(&["--timing", "--open-loop"], &["--timing", "not times"]);
    advise(&["--set", "sequential.patterns=1"], &["--set sequential.patterns=1", "pcstream alone"]);
    advise(&["--set", "pcstream.nothing=1"], &["--set pcstream.nothing=1"]);
    refuses(2, &["compare", &trace, &trace, "--timing"], &["--timing", "simulate --timing"]);
    for command in ["advise", "compare"] {
        let (help, _) = ends_with(0, &[command, "--help"]);
        assert!(!help.contains("--timing") && help.contains("--prefill"), "{help}");
    }
    let idle = ["--scheme", "baseline", "--rules", "common", "--table-bytes", "1300"];
    for of in [&["compare", trace.as_str(), &trace][..], &["contexts", &trace], &["sweep", &trace, "-o", "-"]]
    {
        let (_, err) = ends_with(0, &[of, &idle[..]].concat());
        assert_eq!(err.matches("has no effect").count(), 2, "{err}");
    }
}

#[test]
fn runs_are_compared_by_name_and_noise_is_no_change() {
    let place = Place::new();
    let make = |name: &str, seed: &str, hot: &str| {
        let path = place.path(name);
        let flags =
            ["--pages", "8K", "--writes", "64K", "--hot-pages", "0.1", "--hot-writes", hot, "--seed", seed];
        ends_with(0, &[&["generate", "hotcold"], &flags[..], &["-o", &path]].concat());
        path
    };
    let runs = |kind: &str, hot: &str| {
        let paths: Vec<String> =
            ["1", "2", "3"].iter().map(|seed| make(&format!("{kind}{seed}.pctrace"), seed, hot)).collect();
        paths.join(",")
    };
    let (a, b) = (runs("a", "0.9"), runs("b", "0.5"));
    let flags = ["--scheme", "baseline", "--gc", "own", "--json", "-"];
    let result = json(&[&["compare", a.as_str(), &b], &flags[..]].concat());
    let change = |measure: &str| -> Value {
        let changes = result["changes"].as_array().unwrap();
        changes.iter().find(|change| change["measure"] == measure).unwrap().clone()
    };
    assert_eq!(change("WAF: baseline gc own")["more_than_noise"], true);
    assert_eq!(change("written by the host")["more_than_noise"], false);
    assert_eq!(result["runs"][0]["repetitions"], 3);
    let contexts = result["contexts"].as_array().unwrap();
    assert_eq!(contexts.len(), 2, "the classes of both runs have the same names");
    assert_eq!(contexts[0]["more_than_noise"], true);
    let back = json(&[&["compare", a.as_str(), &b, &a], &flags[..]].concat());
    assert_eq!(back["contexts"][0]["more_than_noise"], true, "the run in the middle differs");
    let once = place.path("a1.pctrace");
    let (text, _) = ends_with(0, &["compare", &once, &place.path("b1.pctrace"), "--scheme", "baseline"]);
    assert!(text.contains("A run without repetitions"), "{text}");
    let (same, _) = ends_with(0, &["compare", &once, &once, "--scheme", "baseline"]);
    assert!(same.contains("wrote as much in every run"), "what did not change is not listed: {same}");
    assert!(same.contains("other numbers stayed the same") && !same.contains("WAF: "), "{same}");
    assert!(text.contains("WAF: baseline gc own") && text.contains("flash: baseline gc own"), "{text}");
    let (details, _) = ends_with(0, &["compare", &once, &once, "--scheme", "pcstream", "--details"]);
    assert!(details.contains("WAF: pcstream") && details.contains("flash: pcstream"), "{details}");
    let flags = ["--scheme", "baseline,pcstream"];
    let (short, _) = ends_with(0, &[&["compare", &once, &place.path("b1.pctrace")], &flags[..]].concat());
    assert!(short.contains("WAF: pcstream") && !short.contains("flash: pcstream"), "{short}");
    refuses(2, &["compare", &once], &["TRACE"]);
    let copy = place.path("copy.pctrace");
    fs::create_dir(&copy).unwrap();
    for entry in fs::read_dir(&once).unwrap().map(Result::unwrap) {
        fs::copy(entry.path(), std::path::Path::new(&copy).join(entry.file_name())).unwrap();
    }
    for again in [&once, &copy] {
        let twice = ["are one trace", &once, again];
        refuses(2, &["compare", &place.path("b1.pctrace"), &format!("{once},{again}")], &twice);
    }
    refuses(2, &["compare", &once, "a,,b"], &["empty"]);
}

/// Each kind of drive and number of streams would need other sizes.
#[test]
fn curves_say_that_they_have_no_pools() {
    let place = Place::new();
    let trace = place.path("small.pctrace");
    ends_with(0, &["generate", "uniform", "--pages", "4K", "--writes", "8K", "-o", &trace]);
    let flags = ["--scheme", "baseline", "--gc", "own", "--streams", "2", "-o", "-"];
    let report = [&["report", trace.as_str()], &flags[..]].concat();
    let said = "The drives have no pools of given sizes";
    let (page, err) = ends_with(0, &[&report[..], &["--pools", "1,3"]].concat());
    assert_eq!((page.matches(said).count(), err.matches(said).count()), (2, 1), "{err}");
    let (page, err) = ends_with(0, &report);
    assert!(!page.contains(said) && !err.contains(said), "{err}");
}
